// A formula that is one symbol shows the line of the page's list of symbols that explains it: under the mouse, or when
// it is tapped. Escape, a tap elsewhere, or moving away closes the box; with the pointer on the box it stays. The
// keyboard and screen readers have the list itself.
(() => {
  "use strict";
  const WAIT = 150; // ms: a pointer that only passes opens nothing, and may leave the formula for the box
  let box = null;
  let shown = null;
  let timer = 0;

  const close = () => {
    clearTimeout(timer);
    if (shown) shown.removeAttribute("aria-describedby");
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
    hint.setAttribute("aria-describedby", box.id);
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

  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") close();
  });
  window.addEventListener("resize", close);
  window.addEventListener("beforeprint", close);
})();
