// Python beside a page: what the bar of a chapter and the asking of a model have in common.

const here = new URL(import.meta.url);
const version = here.search;

export const element = (name, attributes = {}, ...children) => {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
};

// Python in a worker. Ending it loses all names; the next run begins another one.
export class Python {
  constructor(pyodide, hear) {
    this.pyodide = pyodide;
    this.hear = hear;
    this.lives = 0; // how often it was begun
  }

  // A promise that is kept when Python is there.
  load() {
    this.loaded ??= new Promise((resolve, reject) => {
      this.lives += 1;
      this.worker = new Worker(new URL(`worker.js${version}`, here), { type: "module" });
      this.fail = (reason, says) => {
        this.end();
        reject(Object.assign(new Error(says), { reason }));
      };
      this.worker.onerror = (event) => this.fail("site", event.message ?? "");
      this.worker.onmessage = ({ data }) => {
        if (data.kind === "ready") resolve();
        else if (data.kind === "failed") this.fail(data.reason, data.says);
        else this.hear(data);
      };
      this.worker.postMessage({ kind: "load", pyodide: this.pyodide, site: new URL("./", here).href, version });
    });
    return this.loaded;
  }

  end() {
    this.worker?.terminate();
    this.worker = this.loaded = null;
  }

  // Run a cell; what it gives goes to `take`. Resolves with how it ended: "good", "error", "broken" or "stopped".
  async run(code, number, take) {
    await this.load();
    return new Promise((resolve) => {
      this.broken = resolve;
      this.worker.onmessage = ({ data }) => {
        if (data.kind === "done") resolve(data.good ? "good" : "error");
        else if (data.kind === "broken") {
          this.end();
          resolve("broken");
        } else take(data);
      };
      this.worker.postMessage({ kind: "run", code, number });
    });
  }

  stop() {
    this.end();
    this.fail?.("stopped", "");
    this.broken?.("stopped");
  }
}

// Keeps a box as high as it is, whatever it says next, so that the text below stays where it is; a line more goes into the
// space below it. What is called when it has said something.
export function steady(box, button) {
  const height = box.offsetHeight;
  const line = parseFloat(getComputedStyle(box).lineHeight);
  button.style.minWidth = `${button.offsetWidth}px`; // a shorter word on it would let its neighbours move
  return () => {
    box.style.height = "";
    box.style.height = box.offsetHeight > height + 1.1 * line ? "" : `${height}px`;
  };
}

const megabytes = (bytes) => (bytes / 1e6).toFixed(1);

// Says how far loading is, with a bar beside it.
export class Loading {
  constructor(box, say) {
    this.say = say;
    this.progress = element("progress", { "aria-label": "Loading", hidden: "" });
    box.append(this.progress);
  }

  show(yes) {
    this.progress.hidden = !yes;
  }

  hear(data) {
    if (data.kind === "progress") {
      this.progress.max = data.total;
      this.progress.value = data.done;
      // Once in a while: a screen reader reads each of these.
      const now = performance.now();
      if (now - (this.heard ?? -1e9) > 1000 || data.done === data.total) {
        this.heard = now;
        this.say(`Loading Python and NumPy: ${megabytes(data.done)} of ${megabytes(data.total)} MB`);
      }
    } else if (data.kind === "step") {
      this.progress.removeAttribute("value");
      this.say(`${data.says} …`);
    }
  }
}

// Why nothing could be loaded; the page itself is whole in any case.
export function whyNot(error, place) {
  const rest = "The page, with its stored outputs, is whole.";
  const reasons = {
    away: `${place} cannot be reached, so nothing can be run here now. ${rest} Press the button to try again.`,
    other: `${place} gives other files than those that this book was tested with, so nothing is run. ${rest}`,
    site: `What runs this page could not be loaded. ${rest} Press the button to try again.`,
  };
  return reasons[error.reason] ?? `This browser cannot run the page (${error.message}). ${rest}`;
}
