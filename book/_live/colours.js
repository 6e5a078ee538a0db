// The colours of a listing: the classes that the pages' own listings have, for code that has been edited or has just come.

const KEYWORDS =
  "and|as|assert|async|await|break|class|continue|def|del|elif|else|except|finally|for|global|if|in|is|lambda|nonlocal|not|or|pass|raise|return|try|while|with|yield";
const PYTHON = new RegExp(
  [
    String.raw`(?<c1>#.*)`,
    String.raw`(?<s2>(?:\b[rbfuRBFU]{1,2})?(?:"""[\s\S]*?(?:"""|$)|'''[\s\S]*?(?:'''|$)|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?))`,
    String.raw`\b(?<kn>from|import)\b`,
    String.raw`\b(?<kc>None|True|False)\b`,
    String.raw`\b(?<k>${KEYWORDS})\b`,
    String.raw`(?<mf>\b\d[\d_]*(?:\.[\d_]*)?(?:[eE][+-]?\d+)?)`,
    String.raw`(?<n>[\p{L}_][\p{L}\p{N}_]*)`,
    String.raw`(?<nd>@[\p{L}_][\w.]*)`,
    String.raw`(?<o>[-+*/%@&|^~<>=!:]+)`,
  ].join("|"),
  "gu",
);
const escaped = (text) => text.replace(/[&<>]/g, (sign) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[sign]);

function python(text) {
  let html = "";
  let end = 0;
  for (const found of text.matchAll(PYTHON)) {
    const [kind] = Object.entries(found.groups).find(([, part]) => part !== undefined);
    html += `${escaped(text.slice(end, found.index))}<span class="${kind}">${escaped(found[0])}</span>`;
    end = found.index + found[0].length;
  }
  return html + escaped(text.slice(end));
}

const diff = (text) =>
  text.replace(/^.*$/gm, (line) => {
    const kind = { "+": "gi", "-": "gd" }[line[0]];
    return kind ? `<span class="${kind}">${escaped(line)}</span>` : escaped(line);
  });

export const coloured = (kind, text) => (kind === "diff" ? diff(text) : python(text));
