// All that a chapter loads before its reader asks to run it: what runs it comes with the first press of the button.
(() => {
  const here = document.currentScript.src;
  const bar = document.querySelector(".live");
  const button = bar?.querySelector("button");

  async function first() {
    button.removeEventListener("click", first);
    try {
      const page = await import(new URL(`page.js${bar.dataset.version}`, here));
      page.begin(bar);
    } catch {
      bar.querySelector(".live-says").textContent =
        location.protocol === "file:"
          ? "A browser runs code only on pages that come from a server. “make serve” is one; the page itself is whole."
          : "What runs this page could not be loaded. The page itself is whole. Press the button to try again.";
      button.addEventListener("click", first);
    }
  }
  button?.addEventListener("click", first);
})();
