// Formulas that hide a part of themselves become stops of the Tab key, with a name; the others stay out of its way.
// (The theme does the same for tables and listings.)
(() => {
  "use strict";
  const NAME = "Formula, scrolls sideways";

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

  // A formula in a line cannot scroll without changing the line, so only one that does not fit becomes a box.
  const updateInline = (formula) => {
    formula.classList.remove("too-wide");
    const block = formula.closest("p, li, dd, dt, td, th, figcaption, div");
    const set = formula.querySelector("mjx-math");
    const fits = !block || !set || set.getBoundingClientRect().width <= block.clientWidth;
    formula.classList.toggle("too-wide", !fits);
    // A box in a line has no width of its own to compare, so the ones that fit are never asked.
    update(formula, !fits);
  };

  // Measuring makes the browser lay out what it measures, so it is done section by section, while there is nothing else
  // to do, and again when the width has changed.
  const idle = window.requestIdleCallback ?? ((act) => setTimeout(act, 30));
  let round = 0;

  const look = (parts) => {
    const mine = ++round;
    const next = (at) => {
      if (mine !== round || at === parts.length) return;
      for (const formula of parts[at]) {
        if (formula.getAttribute("display") === "true") update(formula);
        else updateInline(formula);
      }
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
