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

  const start = () => {
    const article = document.querySelector("article");
    const formulas = [...document.querySelectorAll("mjx-container")];
    if (!article || !formulas.length) return;
    const display = formulas.filter((formula) => formula.getAttribute("display") === "true");
    const inline = formulas.filter((formula) => !display.includes(formula));
    const look = () => {
      display.forEach((box) => update(box));
      inline.forEach(updateInline);
    };
    new ResizeObserver(look).observe(article);
    look();
  };

  window.addEventListener("load", () => {
    const set = window.MathJax?.startup?.promise;
    if (set) set.then(start);
    else start();
  });
})();
