// All that a chapter loads before its reader asks to run something: what runs it comes with the first press of a button.
(() => {
  const here = document.currentScript.src;

  function wait(place, trigger, kind, module) {
    async function first(event) {
      event.preventDefault();
      trigger.removeEventListener(kind, first);
      try {
        (await import(new URL(`${module}${place.dataset.version}`, here))).begin(place);
      } catch {
        place.querySelector(".live-says").textContent =
          location.protocol === "file:"
            ? "A browser runs code only on pages that come from a server. “make serve” is one; the page itself is whole."
            : "What runs this page could not be loaded. The page itself is whole. Press the button to try again.";
        trigger.addEventListener(kind, first);
      }
    }
    trigger.addEventListener(kind, first);
  }

  for (const bar of document.querySelectorAll(".live")) wait(bar, bar.querySelector("button"), "click", "page.js");
  for (const ask of document.querySelectorAll(".live-ask")) wait(ask, ask.querySelector("form"), "submit", "ask.js");
})();
