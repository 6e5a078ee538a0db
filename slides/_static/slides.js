// Turns a page of slides into a talk: one slide at a time where there is room, with keys, swipes, an overview and a window for who
// speaks. Without this script the page has all slides, one below another, and prints one on a page.
"use strict";
(() => {
  const root = document.documentElement;
  const slides = [...document.querySelectorAll(".slide")];
  const place = document.querySelector(".bar .place");
  const speaks = new URLSearchParams(location.search).has("notes");
  const room = matchMedia("(min-width: 900px) and (min-height: 480px)");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let at = 0, other = speaks ? opener : null, began = null, x0 = null, y0 = null;

  // ---- light and dark, as the book remembers it; paper is light ----
  const kept = (() => { try { return localStorage.getItem("theme"); } catch { return null; } })();
  const theme = (name) => { root.dataset.theme = name; };
  theme(["light", "dark"].includes(kept) ? kept : dark.matches ? "dark" : "light");
  let shown;
  addEventListener("beforeprint", () => { shown = root.dataset.theme; theme("light"); });
  addEventListener("afterprint", () => theme(shown));
  if (!slides.length) return;

  // ---- no slide has more than fits: the letters become smaller until it does ----
  function over(slide) {
    const body = slide.querySelector(".body"), edge = body.getBoundingClientRect();
    if (body.scrollHeight > body.clientHeight + 1) return true;
    // The number of an equation stands beside it, not on it.
    for (const number of body.querySelectorAll(".eqno")) {
      const own = number.getBoundingClientRect(), set = number.parentElement.querySelector("mjx-math").getBoundingClientRect();
      if (own.left < set.right + 8 && own.top < set.bottom && own.bottom > set.top) return true;
    }
    return [...body.querySelectorAll(".points, .shown, .piece, .piece > *, pre, table, mjx-math, img")].some((part) => {
      const box = part.getBoundingClientRect();
      if (!box.width) return false;
      if (part.matches("pre, .piece, .points") && part.scrollWidth > part.clientWidth + 1) return true;
      return box.right > edge.right + 1 || box.bottom > edge.bottom + 1 || box.left < edge.left - 1 || box.top < edge.top - 1;
    });
  }
  function fit() {
    const before = root.className;
    root.className = "measured";
    for (const slide of slides) {
      let size = 1;
      do slide.style.setProperty("--fit", size.toFixed(2)); while (over(slide) && (size -= 0.04) > 0.5);
      slide.dataset.fit = over(slide) ? "over" : size.toFixed(2);
    }
    root.className = before;
    root.dataset.fitted = "";
  }

  // ---- one slide at a time ----
  const count = () => began && Math.floor((Date.now() - began) / 60000);
  function tell() {
    const planned = slides.slice(0, at + 1).reduce((sum, slide) => sum + Number(slide.dataset.minutes), 0);
    const minutes = speaks ? `, ${count() ?? 0} min gone, ${planned} planned to its end` : "";
    place.textContent = `Slide ${at + 1} of ${slides.length}${minutes}`;
  }
  function show(next, pass = true) {
    at = Math.max(0, Math.min(slides.length - 1, next));
    if (at) began ??= Date.now();
    slides.forEach((slide, number) => slide.classList.toggle("current", number === at));
    history.replaceState(null, "", `#${at + 1}`);
    tell();
    if (root.matches(".stage.overview")) slides[at].scrollIntoView({ block: "nearest" });
    if (speaks) scrollTo(0, 0);
    if (pass && other && !other.closed) other.postMessage({ slide: at }, "*");
  }
  function arrange() {
    root.classList.toggle("speaker", speaks);
    root.classList.toggle("stage", !speaks && room.matches && !root.classList.contains("read"));
    if (!root.classList.contains("stage")) root.classList.remove("overview");
    for (const notes of document.querySelectorAll(".notes")) notes.open = speaks || root.classList.contains("read");
    // A formula that is a little too wide for a phone is set smaller; one that still hides a part can be scrolled by keys.
    for (const box of document.querySelectorAll(".table-box, .pst-scrollable-table-container, mjx-container[display='true']")) {
      box.style.removeProperty("--share");
      box.removeAttribute("tabindex");
      if (root.classList.contains("stage")) continue;
      if (box.scrollWidth > box.clientWidth) box.style.setProperty("--share", Math.max(0.6, (0.98 * box.clientWidth) / box.scrollWidth));
      if (box.scrollWidth > box.clientWidth + 1) box.tabIndex = 0;
    }
  }
  const deeds = {
    back: () => show(at - 1),
    next: () => show(at + 1),
    first: () => show(0),
    last: () => show(slides.length - 1),
    overview: () => { if (root.classList.contains("stage")) { root.classList.toggle("overview"); show(at, false); } },
    theme: () => {
      theme(root.dataset.theme === "dark" ? "light" : "dark");
      try { localStorage.setItem("theme", root.dataset.theme); localStorage.setItem("mode", root.dataset.theme); } catch { /* kept for this page */ }
    },
    speaker: () => {
      if (speaks) return;
      other = room.matches ? open(`${location.pathname}?notes#${at + 1}`, "notes", "popup,width=720,height=800") : null;
      if (!other) { root.classList.toggle("read"); arrange(); }
    },
    leave: () => { root.classList.remove("overview", "read"); arrange(); },
  };
  const keys = {
    ArrowRight: "next", ArrowDown: "next", PageDown: "next", " ": "next", n: "next",
    ArrowLeft: "back", ArrowUp: "back", PageUp: "back", p: "back", Home: "first", End: "last",
    o: "overview", s: "speaker", t: "theme", Escape: "leave", Enter: "leave",
  };
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const deed = keys[event.key.length > 1 ? event.key : event.key.toLowerCase()];
    const reads = !root.matches(".stage, .speaker");
    // A button has its own Space and Enter; a page to be read scrolls by keys as any page does.
    if (!deed || (event.target.closest("button, a, summary") && " Enter".includes(event.key))) return;
    if (reads && !["speaker", "theme", "leave"].includes(deed)) return;
    event.preventDefault();
    deeds[deed]();
  });
  addEventListener("click", (event) => {
    const button = event.target.closest("[data-do]");
    if (button) deeds[button.dataset.do]();
    const slide = event.target.closest(".slide");
    if (slide && root.classList.contains("overview")) { root.classList.remove("overview"); show(slides.indexOf(slide)); }
  });
  addEventListener("touchstart", (event) => { [x0, y0] = [event.touches[0].clientX, event.touches[0].clientY]; }, { passive: true });
  addEventListener("touchend", (event) => {
    const [x, y] = [event.changedTouches[0].clientX - x0, event.changedTouches[0].clientY - y0];
    if (root.matches(".stage:not(.overview)") && Math.abs(x) > 50 && Math.abs(x) > 2 * Math.abs(y)) show(at + (x < 0 ? 1 : -1));
  }, { passive: true });
  addEventListener("message", (event) => {
    if ((event.source === other || event.source === opener) && Number.isInteger(event.data?.slide)) { other = event.source; show(event.data.slide, false); }
  });
  addEventListener("hashchange", () => show(parseInt(location.hash.slice(1), 10) - 1 || 0));
  room.addEventListener("change", arrange);
  if (speaks) setInterval(tell, 10000);

  arrange();
  if (root.classList.contains("stage") || location.hash || speaks) show(parseInt(location.hash.slice(1), 10) - 1 || 0, false);
  document.fonts.ready.then(() => { fit(); arrange(); });
})();
