// Sets formulas for set_formulas.py. In: {folder, tex, items: [[formula, is a display], ...]} as JSON. Out: {set: [HTML or
// null, ...], faults: [null or why not, ...], css}. MathJax comes from `folder`, the files of an installed wheel.
"use strict";
const { folder, tex, items } = JSON.parse(require("fs").readFileSync(0, "utf8"));
// Lengths come out in em, so these say no more than that there is room.
const METRICS = { em: 16, ex: 8, containerWidth: 1280 };

require(`${folder}/node-main.js`)
  .init({
    loader: {
      load: ["input/tex-full", "output/chtml", "adaptors/liteDOM", "a11y/assistive-mml"],
      paths: { mathjax: folder },
    },
    tex: {
      ...tex,
      // In a browser a formula that cannot be read becomes an error in red. Here it is to be an error.
      packages: { "[-]": ["noerrors", "noundefined"] },
      formatError: (_, error) => {
        throw error;
      },
    },
    // The size next to the text is a line of the style sheet, not a measurement on the reader's screen.
    chtml: { fontURL: "FONTS", adaptiveCSS: true, matchFontHeight: false },
    startup: { typeset: false },
  })
  .then((MathJax) => {
    const { adaptor } = MathJax.startup;
    const faults = [];
    const set = items.map(([formula, display]) => {
      try {
        const html = adaptor.outerHTML(MathJax.tex2chtml(formula, { display, ...METRICS }));
        faults.push(/<mjx-merror|data-mjx-error/.test(html) ? "MathJax sets an error" : null);
        return html;
      } catch (error) {
        faults.push(error.message);
        return null;
      }
    });
    console.log(JSON.stringify({ set, faults, css: adaptor.textContent(MathJax.chtmlStylesheet()) }));
  })
  .catch((error) => {
    console.error(error);
    process.exit(1);
  });
