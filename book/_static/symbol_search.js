// The page of the search: rows of the table of symbols that a reader may mean, above what the search finds itself. A letter
// as it is typed goes before the same letter in the other size, and a name before words of the meaning.
(() => {
  "use strict";
  const MOST = 8;
  const NO_WORDS = new Set(["the", "and", "for", "with"]);
  const joined = (text) => text.replace(/[^\p{L}\p{N}]/gu, "");
  const words = (text) => text.toLowerCase().match(/[\p{L}\p{N}]{3,}/gu) ?? [];

  const element = (html) => {
    const frame = document.createElement("template");
    frame.innerHTML = html;
    for (const box of frame.content.querySelectorAll("p")) box.replaceWith(...box.childNodes);
    return frame.content;
  };

  const rank = (row, query) => {
    const typed = joined(query);
    if (!typed) return 0;
    const names = row.names.map(joined);
    if (names.includes(typed)) return 3;
    if (names.some((name) => name.toLowerCase() === typed.toLowerCase())) return 2;
    const asked = words(query).filter((word) => !NO_WORDS.has(word));
    if (!asked.length) return 0;
    const known = words(`${row.names.join(" ")} ${element(row.meaning).textContent}`);
    const has = (word) => known.some((one) => one.startsWith(word.replace(/s$/, "")));
    if (!asked.every(has)) return 0;
    return asked.every((word) => known.includes(word)) ? 1.5 : 1;
  };

  const item = (row) => {
    const line = document.createElement("li");
    const link = document.createElement("a");
    link.href = row.to;
    link.append(element(row.symbol));
    link.setAttribute("aria-label", row.names[0]); // as it is spoken
    line.append(link, ": ", element(row.meaning), ".");
    const more = [
      [" In code: ", row.code],
      [" First used in ", row.first],
      [" Only in ", row.only],
    ];
    for (const [before, html] of more) {
      if (!html) continue;
      const part = document.createElement("span");
      part.className = "symbol-more";
      part.append(before, element(html), ".");
      line.append(part);
    }
    return line;
  };

  window.bookSymbols = (rows) => {
    const query = new URLSearchParams(location.search).get("q")?.trim() ?? "";
    const place = document.getElementById("search-results");
    const found = rows
      .map((row) => [rank(row, query), row])
      .filter(([found]) => found)
      .sort(([a], [b]) => b - a);
    if (!place || !found.length) return;
    const named = found.filter(([how]) => how >= 2); // who types a name means it
    const part = document.createElement("section");
    part.className = "symbol-results";
    const head = document.createElement("h2");
    head.textContent = "Symbols";
    const list = document.createElement("ul");
    list.append(...(named.length ? named : found).slice(0, MOST).map(([, row]) => item(row)));
    part.append(head, list);
    place.before(part);
  };
})();
