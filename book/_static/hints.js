// What stands for something else shows it in a box beside it: a formula that is one symbol shows its line of the page's
// list of symbols; a link to a term, an equation, a statement, a figure or a reference shows what it leads to. The box
// opens under the mouse, at a tap, or when the Tab key comes there. Escape, a tap elsewhere, or moving away closes it; with
// the pointer on the box it stays. Of symbols the Tab key stops at the first place in each section. A tap on a link opens
// the box, whose last line leads on; so does a second tap. What stands on other pages comes in one file of the site, when
// the first such link is pointed at.
(() => {
  "use strict";
  const WAIT = 150; // ms: a pointer that only passes opens nothing, and may leave the formula for the box
  const SMALLEST = 0.7; // how small a formula may be set to fit into the box
  const MORE = document.currentScript?.dataset.more;
  const NOT_HERE = "h1, h2, h3, h4, summary, button, .admonition-title";
  let box = null;
  let shown = null;
  let wanted = null;
  let dismissed = null; // Escape closed it, and the pointer has not left since
  let touched = false;
  let pressed = false; // in the box
  let timer = 0;

  const hintAt = (place) => {
    const hint = place.closest?.(".symbol-hint, a[data-hint]");
    return hint && !(hint.matches("a") && hint.closest(NOT_HERE)) ? hint : null;
  };

  const mark = (hint, open) => {
    hint.classList.toggle("shown", open);
    if (hint.getAttribute("role") === "button") hint.setAttribute("aria-expanded", open);
    if (!hint.matches("a")) return;
    // The browser would show a title as well. What is words alone is told to screen readers too.
    if (open && hint.title) {
      hint.dataset.title = hint.title;
      hint.removeAttribute("title");
    } else if (!open && hint.dataset.title) {
      hint.title = hint.dataset.title;
    }
    if (open && !box.querySelector("mjx-container, img, pre")) hint.setAttribute("aria-describedby", box.id);
    else hint.removeAttribute("aria-describedby");
  };

  const close = () => {
    clearTimeout(timer);
    wanted = null;
    if (shown) mark(shown, false);
    if (box) box.hidden = true;
    shown = null;
  };

  // ---- what is shown ----

  const symbolEntry = (name) => {
    const entry = document.getElementById(name);
    if (!entry) return null;
    const copy = document.createElement("dl");
    copy.append(...[...entry.children].map((part) => part.cloneNode(true)));
    return copy;
  };

  // A copy of a piece of a page, as it is before any script worked on it.
  const copyOf = (html) => {
    const frame = document.createElement("template");
    frame.innerHTML = html;
    const inside = frame.content;
    const each = (what, change) => inside.querySelectorAll(what).forEach(change);
    each(".headerlink, .evidence, .label, details, button, script", (one) => one.remove());
    each("a:not(.external), .symbol-hint, attention-viewer", (one) => one.replaceWith(...one.childNodes));
    each("a", (one) => (one.tabIndex = -1)); // the keyboard has it where the link leads
    each("img", (one) => one.removeAttribute("loading"));
    each("mjx-container", (one) => {
      if (one.style.fontSize.startsWith("calc(")) one.style.fontSize = "";
      one.classList.remove("too-wide");
    });
    each("[id]", (one) => one.removeAttribute("id"));
    each("div[role], mjx-container[role]", (one) => {
      for (const name of ["role", "tabindex", "aria-label"]) one.removeAttribute(name);
    });
    const copy = document.createElement("div");
    copy.append(inside);
    return copy;
  };

  let others = null;
  const fromOtherPages = () => {
    others ??= new Promise((done, failed) => {
      window.bookHints = done;
      const script = document.createElement("script");
      script.src = MORE;
      script.onerror = () => {
        others = null; // perhaps there is a connection next time
        failed(new Error("no hints"));
      };
      document.head.append(script);
    });
    return others;
  };

  const fromHere = (name) => {
    let part = document.getElementById(name);
    if (part?.tagName !== "DT") return part && copyOf(part.outerHTML);
    let html = part.outerHTML;
    while (part && part.tagName !== "DD") part = part.nextElementSibling;
    return copyOf(`<dl>${html}${part?.outerHTML ?? ""}</dl>`);
  };

  const contentOf = async (hint) => {
    if (hint.dataset.symbol) return symbolEntry(hint.dataset.symbol);
    if (!hint.dataset.hint) return fromHere(decodeURIComponent(hint.hash.slice(1)));
    return copyOf((await fromOtherPages())[hint.dataset.hint]);
  };

  // ---- where it is shown ----

  const place = (hint, x) => {
    const gap = 6;
    const parts = [...hint.getClientRects()]; // one for each line that it stands on
    const at = parts.find((part) => part.left <= x && x <= part.right) ?? parts[0] ?? hint.getBoundingClientRect();
    const top = Math.min(...parts.map((part) => part.top), at.top);
    const bottom = Math.max(...parts.map((part) => part.bottom), at.bottom);
    const room = { above: top - 2 * gap, below: window.innerHeight - bottom - 2 * gap };
    const width = document.documentElement.clientWidth;
    box.style.maxHeight = "";
    let size = box.getBoundingClientRect();
    const above = size.height > room.below && room.above > room.below;
    box.style.maxHeight = `${Math.max(above ? room.above : room.below, 120)}px`;
    size = box.getBoundingClientRect();
    const left = Math.max(gap, Math.min(at.left, width - size.width - gap));
    box.style.left = `${left + window.scrollX}px`;
    box.style.top = `${(above ? top - size.height - gap : bottom + gap) + window.scrollY}px`;
    if (box.scrollHeight > box.clientHeight + 1) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  };

  const fit = () => {
    for (const formula of box.querySelectorAll("mjx-container[display='true']")) {
      const share = formula.clientWidth / formula.scrollWidth;
      if (share >= 1) continue;
      const size = parseFloat(getComputedStyle(formula).fontSize);
      formula.style.fontSize = `${size * Math.max(0.99 * share, SMALLEST)}px`;
      if (formula.scrollWidth > formula.clientWidth) formula.tabIndex = 0;
    }
  };

  const makeBox = () => {
    box = document.createElement("div");
    box.id = "hint-box";
    box.className = "hint-box";
    box.setAttribute("role", "tooltip");
    document.body.append(box);
  };

  const open = async (hint, { x = NaN, tapped = false } = {}) => {
    if (hint === shown) return;
    close();
    wanted = hint;
    let content = null;
    try {
      content = await contentOf(hint);
    } catch {
      if (tapped && wanted === hint) location.assign(hint.href);
    }
    if (!content || wanted !== hint) return;
    if (!box) makeBox();
    if (tapped && hint.matches("a")) {
      const onward = document.createElement("p");
      onward.className = "hint-onward";
      const link = document.createElement("a");
      link.href = hint.href;
      link.textContent = "Go there";
      onward.append(link);
      content.append(onward);
    }
    box.classList.toggle("of-link", hint.matches("a"));
    box.replaceChildren(content);
    box.style.left = box.style.top = "0"; // its size does not depend on where it was
    box.hidden = false;
    box.scrollTop = 0;
    // Where formulas are left to the browser, those of other pages are not set yet.
    if (hint.dataset.hint && window.MathJax?.typesetPromise) await window.MathJax.typesetPromise([box]).catch(() => {});
    if (wanted !== hint) return;
    fit();
    place(hint, x);
    shown = hint;
    mark(hint, true);
  };

  // ---- when it is shown ----

  const later = (what) => {
    clearTimeout(timer);
    timer = setTimeout(what, WAIT);
  };

  document.addEventListener("pointerover", (event) => {
    if (event.pointerType === "touch") return;
    const hint = hintAt(event.target);
    if (hint !== dismissed) dismissed = null;
    if (hint && hint === dismissed) return;
    if (hint) later(() => open(hint, { x: event.clientX }));
    else if (event.target.closest(".hint-box")) clearTimeout(timer);
    else later(close);
  });
  document.documentElement.addEventListener("pointerleave", (event) => {
    if (event.pointerType !== "touch") later(close); // a finger leaves as soon as it is lifted
  });

  document.addEventListener(
    "pointerdown",
    (event) => {
      touched = event.pointerType === "touch";
      pressed = Boolean(event.target.closest?.(".hint-box"));
    },
    true,
  );
  document.addEventListener("pointerup", (event) => {
    if (event.pointerType !== "touch" || event.target.closest(".hint-box")) return;
    const hint = hintAt(event.target);
    if (hint?.matches("a")) return; // see the click that follows
    if (hint && hint !== shown && !event.target.closest("a, button, summary")) open(hint, { tapped: true });
    else close();
  });
  document.addEventListener("click", (event) => {
    const hint = hintAt(event.target);
    if (!hint?.matches("a")) return;
    if (touched && event.detail && hint !== shown) {
      event.preventDefault();
      open(hint, { x: event.clientX, tapped: true });
    } else close();
  });

  document.addEventListener("focusin", (event) => {
    const hint = hintAt(event.target);
    if (hint?.matches(":focus-visible")) open(hint);
  });
  document.addEventListener("focusout", (event) => {
    if (!pressed && (event.target === shown || event.target === wanted)) close();
  });

  document.addEventListener("keydown", (event) => {
    pressed = false;
    if (event.key === "Escape") {
      dismissed = shown ?? dismissed;
      close();
    }
    // What does not fit into the box is reached from the link: it keeps the focus.
    const down = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (down && shown && event.target === shown && box.scrollHeight > box.clientHeight + 1) {
      event.preventDefault();
      box.scrollBy(0, 60 * down);
    }
    const hint = event.target.closest?.(".symbol-hint[role='button']");
    if (!hint || (event.key !== "Enter" && event.key !== " ")) return;
    event.preventDefault();
    if (hint === shown) close();
    else open(hint);
  });

  // ---- where the Tab key stops ----

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
