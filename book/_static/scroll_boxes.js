// A formula on lines of its own that is a little too wide is set smaller, until it fits. Formulas that still hide a part
// of themselves become stops of the Tab key, with a name; the others stay out of its way. (The theme does the same for
// tables and listings.)
(() => {
  "use strict";
  const NAME = "Formula, scrolls sideways";
  const SMALLEST = 0.8; // of its size: still as large as the text around it

  const update = (box, scrolls = true) => {
    if (scrolls && box.scrollWidth > box.clientWidth) {
      box.tabIndex = 0;
      box.setAttribute("role", "group");
      box.setAttribute("aria-label", NAME);
    } else if (box.getAttribute("aria-label") === NAME) {
      box.removeAttribute("tabindex");
      box.removeAttribute("role");
      box.removeAttribute("aria-label");
    }
  };

  const size = new WeakMap(); // as MathJax has set it
  const asSet = (box) => {
    if (!size.has(box)) size.set(box, box.style.fontSize || "100%");
    box.style.fontSize = size.get(box);
  };
  const fit = (box, share) => {
    if (share < 1 && share >= SMALLEST) box.style.fontSize = `calc(${0.99 * share} * ${size.get(box)})`;
  };

  // A formula in a line cannot scroll without changing the line, so only one that does not fit becomes a box.
  const fits = (formula) => {
    const block = formula.closest("p, li, dd, dt, td, th, figcaption, div");
    const set = formula.querySelector("mjx-math");
    return !block || !set || set.getBoundingClientRect().width < block.clientWidth + 1; // which is rounded
  };
  const updateInline = (formula, fitting) => {
    formula.classList.toggle("too-wide", !fitting);
    // A box in a line has no width of its own to compare, so the ones that fit are never asked.
    update(formula, !fitting);
  };

  const fitAll = (formulas) => {
    const display = formulas.filter((formula) => formula.getAttribute("display") === "true");
    const inline = formulas.filter((formula) => !display.includes(formula));
    // All are measured as they are meant to be before one is changed: cells of a table make room for each other, and
    // asking by turns would lay the page out for each.
    display.forEach(asSet);
    inline.forEach((formula) => formula.classList.remove("too-wide"));
    const shares = display.map((box) => box.clientWidth / box.scrollWidth);
    const fitting = inline.map(fits);
    display.forEach((box, n) => fit(box, shares[n]));
    display.forEach((box) => update(box));
    inline.forEach((formula, n) => updateInline(formula, fitting[n]));
  };

  // Measuring makes the browser lay out what it measures, so it is done section by section, while there is nothing else
  // to do, and again when the width has changed.
  const idle = window.requestIdleCallback ?? ((act) => setTimeout(act, 30));
  let round = 0;

  const look = (parts) => {
    const mine = ++round;
    const next = (at) => {
      if (mine !== round || at === parts.length) return;
      fitAll(parts[at]);
      idle(() => next(at + 1));
    };
    idle(() => next(0));
  };

  const start = () => {
    const article = document.querySelector("article");
    const formulas = [...document.querySelectorAll("mjx-container")];
    if (!article || !formulas.length) return;
    const sections = new Map();
    for (const formula of formulas) {
      const section = formula.closest("section");
      sections.set(section, [...(sections.get(section) ?? []), formula]);
    }
    const parts = [...sections.values()];
    let width = 0;
    new ResizeObserver(() => {
      if (article.clientWidth === width) return;
      width = article.clientWidth;
      look(parts);
    }).observe(article);
  };

  window.addEventListener("load", () => {
    const set = window.MathJax?.startup?.promise;
    if (set) set.then(start);
    else start();
  });
})();
