// A formula that is one symbol shows the line of the page's list of symbols that explains it: under the mouse, when it
// is tapped, or when the Tab key reaches it. Escape, a tap elsewhere, or moving away closes the box; with the pointer on
// the box it stays. The Tab key stops at the first place of a symbol in each section; a screen reader is told the line.
(() => {
  "use strict";
  const WAIT = 150; // ms: a pointer that only passes opens nothing, and may leave the formula for the box
  let box = null;
  let shown = null;
  let timer = 0;

  const mark = (hint, open) => {
    hint.classList.toggle("shown", open);
    if (hint.getAttribute("role") === "button") hint.setAttribute("aria-expanded", open);
  };

  const close = () => {
    clearTimeout(timer);
    if (shown) mark(shown, false);
    if (box) box.hidden = true;
    shown = null;
  };

  const place = (hint) => {
    const gap = 6;
    const at = hint.getBoundingClientRect();
    const size = box.getBoundingClientRect();
    const width = document.documentElement.clientWidth;
    const left = Math.max(gap, Math.min(at.left, width - size.width - gap));
    const above = at.bottom + gap + size.height > window.innerHeight && at.top > size.height + gap;
    box.style.left = `${left + window.scrollX}px`;
    box.style.top = `${(above ? at.top - size.height - gap : at.bottom + gap) + window.scrollY}px`;
  };

  const open = (hint) => {
    const entry = document.getElementById(hint.dataset.symbol);
    if (!entry || hint === shown) return;
    close();
    if (!box) {
      box = document.createElement("div");
      box.id = "symbol-box";
      box.className = "symbol-box";
      box.setAttribute("role", "tooltip");
      document.body.append(box);
    }
    const copy = document.createElement("dl");
    copy.append(...[...entry.children].map((part) => part.cloneNode(true)));
    box.replaceChildren(copy);
    box.style.left = box.style.top = "0"; // its size does not depend on where it was
    box.hidden = false;
    place(hint);
    mark(hint, true);
    shown = hint;
  };

  const later = (what) => {
    clearTimeout(timer);
    timer = setTimeout(what, WAIT);
  };

  document.addEventListener("pointerover", (event) => {
    if (event.pointerType === "touch") return;
    const hint = event.target.closest(".symbol-hint");
    if (hint) later(() => open(hint));
    else if (event.target.closest(".symbol-box")) clearTimeout(timer);
    else later(close);
  });
  document.documentElement.addEventListener("pointerleave", (event) => {
    if (event.pointerType !== "touch") later(close); // a finger leaves as soon as it is lifted
  });

  document.addEventListener("pointerup", (event) => {
    if (event.pointerType !== "touch" || event.target.closest(".symbol-box")) return;
    const hint = event.target.closest(".symbol-hint");
    if (hint && hint !== shown && !event.target.closest("a, button, summary")) open(hint);
    else close();
  });

  document.addEventListener("focusin", (event) => {
    const hint = event.target.closest(".symbol-hint");
    if (hint?.matches(":focus-visible")) open(hint);
  });
  document.addEventListener("focusout", (event) => {
    if (event.target === shown) close();
  });

  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") close();
    const hint = event.target.closest?.(".symbol-hint[role='button']");
    if (!hint || (event.key !== "Enter" && event.key !== " ")) return;
    event.preventDefault();
    if (hint === shown) close();
    else open(hint);
  });

  const sectionOf = (hint) => {
    for (let part = hint.closest("section"); part; part = part.parentElement.closest("section")) {
      if (part.querySelector(":scope > h2")) return part;
    }
    return null;
  };
  const met = new Map();
  for (const hint of document.querySelectorAll(".symbol-hint")) {
    if (hint.closest("a, button, summary, h1, h2, h3, h4, .admonition-title")) continue;
    const part = sectionOf(hint);
    if (!met.has(part)) met.set(part, new Set());
    if (met.get(part).has(hint.dataset.symbol)) continue;
    met.get(part).add(hint.dataset.symbol);
    hint.tabIndex = 0;
    hint.setAttribute("role", "button");
    hint.setAttribute("aria-label", hint.dataset.name);
    hint.setAttribute("aria-describedby", hint.dataset.symbol);
    hint.setAttribute("aria-expanded", "false");
  }
  window.addEventListener("resize", close);
  window.addEventListener("beforeprint", close);
})();
