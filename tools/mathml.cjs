// Turns formulas into MathML for build_epub.py. In: {folder, tex, items: [[formula, is a display], ...]} as JSON. Out:
// [[MathML or null, null or why not], ...]. MathJax comes from `folder`, the files of an installed wheel.
"use strict";
const { folder, tex, items } = JSON.parse(require("fs").readFileSync(0, "utf8"));

require(`${folder}/node-main.js`)
  .init({
    loader: { load: ["input/tex-full"], paths: { mathjax: folder } },
    tex: {
      ...tex,
      // A formula that cannot be read is an error; proof trees would ask for the size of what they draw.
      packages: { "[-]": ["noerrors", "noundefined", "bussproofs"] },
      formatError: (_, error) => {
        throw error;
      },
    },
    startup: { typeset: false },
  })
  .then((MathJax) => {
    const told = items.map(([formula, display]) => {
      try {
        const mathml = MathJax.tex2mml(formula, { display });
        return mathml.includes("<merror") ? [null, "MathJax sets an error"] : [mathml, null];
      } catch (error) {
        return [null, error.message];
      }
    });
    console.log(JSON.stringify(told));
  })
  .catch((error) => {
    console.error(error);
    process.exit(1);
  });
