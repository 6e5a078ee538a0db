// A formula on lines of its own that is a little too wide is set smaller, until it fits. Formulas that still hide a part
// of themselves become stops of the Tab key, with a name; the others stay out of its way. (The theme does the same for
// tables and listings.) Only formulas near the reader are looked at: to measure one that is far away, the browser would
// have to lay out the page up to there.
(() => {
  "use strict";
  const NAME = "Formula, scrolls sideways";
  const SMALLEST = 0.8; // of its size: still as large as the text around it
  const isDisplay = (formula) => formula.getAttribute("display") === "true";

  const size = new WeakMap(); // as it is set, by a style of its own or by the style sheet
  const asSet = (box) => {
    if (!size.has(box)) size.set(box, box.style.fontSize || getComputedStyle(box).fontSize);
    if (box.style.fontSize && box.style.fontSize !== size.get(box)) box.style.fontSize = size.get(box);
  };
  const fit = (box, share) => {
    if (share < 1 && share >= SMALLEST) box.style.fontSize = `calc(${0.99 * share} * ${size.get(box)})`;
  };

  // A formula in a line cannot scroll without changing the line, so only one that does not fit becomes a box.
  const hides = (formula) => {
    if (isDisplay(formula)) return formula.scrollWidth > formula.clientWidth;
    const block = formula.closest("p, li, dd, dt, td, th, figcaption, div");
    const set = formula.querySelector("mjx-math");
    return Boolean(block && set) && set.getBoundingClientRect().width >= block.clientWidth + 1; // which is rounded
  };

  const mark = (formula, scrolls) => {
    if (scrolls === (formula.getAttribute("aria-label") === NAME)) return;
    if (!isDisplay(formula)) formula.classList.toggle("too-wide", scrolls);
    if (scrolls) {
      formula.tabIndex = 0;
      formula.setAttribute("role", "group");
      formula.setAttribute("aria-label", NAME);
    } else {
      formula.removeAttribute("tabindex");
      formula.removeAttribute("role");
      formula.removeAttribute("aria-label");
    }
  };

  // First all is measured, then all is written, or the page would be laid out for each formula. They are measured as they
  // are meant to be: cells of a table make room for each other.
  const look = (formulas) => {
    const display = formulas.filter(isDisplay);
    display.forEach(asSet);
    const shares = display.map((box) => box.clientWidth / box.scrollWidth);
    display.forEach((box, n) => fit(box, shares[n]));
    formulas.map((one) => [one, hides(one)]).forEach(([one, scrolls]) => mark(one, scrolls));
  };

  const start = () => {
    const article = document.querySelector("article");
    const formulas = document.querySelectorAll("mjx-container");
    if (!article || !formulas.length) return;
    const near = new Set();
    const watch = new IntersectionObserver(
      (entries) => {
        for (const { target, isIntersecting } of entries) {
          if (isIntersecting) near.add(target);
          else near.delete(target);
        }
        look(entries.filter((entry) => entry.isIntersecting).map((entry) => entry.target));
      },
      { rootMargin: "100% 0px" },
    );
    formulas.forEach((formula) => {
      if (isDisplay(formula)) mark(formula, true); // until it is known: none may be out of reach
      watch.observe(formula);
    });
    let width = article.clientWidth;
    new ResizeObserver(() => {
      if (article.clientWidth === width) return;
      width = article.clientWidth;
      // In the next frame: what is set smaller changes the height of the article, which is watched.
      requestAnimationFrame(() => look([...near]));
    }).observe(article);
  };

  window.addEventListener("load", () => {
    const set = window.MathJax?.startup?.promise;
    if (set) set.then(start);
    else start();
  });
})();
