// Asks the trained model of a page: a form, and below it what the model answers. live_translator.py says all words and
// numbers; here they are put into their places.

const here = new URL(import.meta.url);
const version = here.search;
const { element, Loading, Python, steady, whyNot } = await import(new URL(`python.js${version}`, here));

const cells = (kind, attributes, ...texts) => texts.map((text) => element(kind, attributes, text));

// One row a step: the token that was written, how probable it was, and what else was likely.
function table(answer) {
  const head = element("tr", {}, ...cells("th", { scope: "col" }, "Step", "Written", "Probability", "Next most probable"));
  const rows = answer.steps.map(([[token, probability], ...others], index) => {
    const likely = others.flatMap(([other, its], n) => {
      const comma = n < others.length - 1 ? ", " : "";
      return [element("span", {}, element("span", { lang: "de" }, other), ` ${its}${comma}`), " "];
    });
    const row = element(
      "tr",
      {},
      element("th", { scope: "row" }, String(index + 1)),
      element("td", { lang: "de" }, token),
      element("td", {}, probability),
      element("td", {}, ...likely),
    );
    row.style.setProperty("--step", index);
    return row;
  });
  const caption = element("caption", {}, "What the model wrote, one token a step");
  const made = element("table", { class: "table" }, caption, element("thead", {}, head), element("tbody", {}, ...rows));
  return element("div", { class: "pst-scrollable-table-container" }, made);
}

class Ask {
  constructor(place) {
    this.place = place;
    this.form = place.querySelector("form");
    this.field = place.querySelector("input");
    this.button = place.querySelector("button");
    this.says = place.querySelector(".live-says");
    this.offer = this.says.textContent;
    this.settle = steady(this.says, this.button);
    this.loading = new Loading(this.form, (text) => this.say(text));
    this.python = new Python(new URL(place.dataset.pyodide, document.baseURI).href, (data) => this.loading.hear(data));
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.press();
    });
    this.state("idle");
  }

  state(name) {
    this.place.dataset.state = name;
    this.busy = name === "loading" || name === "running";
    this.button.textContent = this.busy ? "Stop" : this.python.loaded ? "Translate" : "Load the model";
    this.loading.show(name === "loading");
  }

  say(text) {
    if (this.says.textContent !== text) this.says.textContent = text;
    this.settle();
  }

  press() {
    if (this.busy) return this.python.stop();
    return this.answer();
  }

  // Load what is not there yet; then, if something was typed, translate it.
  async answer() {
    try {
      if (!this.python.loaded) {
        this.state("loading");
        this.say("Loading Python and NumPy …");
        await this.python.load();
        this.say("Reading the weights …");
        await this.run("from live_translator import ready, translated\nready()");
        if (!this.field.value.trim()) {
          this.state("ready");
          this.say("The model is here. Type a number, and press Enter.");
          this.field.focus();
          return;
        }
      }
      this.state("running");
      const answer = await this.run(`translated(${JSON.stringify(this.field.value)})`);
      this.state("ready");
      this.field.setAttribute("aria-invalid", !answer.steps);
      this.field.select(); // what is typed next takes its place
      if (answer.steps) this.show(answer);
      this.say(answer.says);
    } catch (error) {
      const stopped = error.reason === "stopped";
      this.state(stopped ? "stopped" : "failed");
      this.say(stopped ? this.offer : whyNot(error, this.place.dataset.place));
      if (!stopped) console.warn(error.message);
    }
  }

  // What Python gives for a line of code.
  async run(code) {
    let given;
    const end = await this.python.run(code, 1, (data) => (given = data));
    if (end === "good") return given?.data["application/json"];
    if (end === "error") this.python.end();
    const says = given?.text?.trim().split("\n").at(-1) ?? "Python broke down";
    throw Object.assign(new Error(says), { reason: end === "stopped" ? end : "broken" });
  }

  show(answer) {
    const before = this.place.querySelector("attention-viewer");
    const viewer = element("attention-viewer", answer.viewer, element("p", {}, answer.alt));
    // The head that the reader looked at is the one to look at again.
    for (const name of ["layer", "head"]) if (before?.[name] !== undefined) viewer.setAttribute(name, before[name]);
    const word = element(
      "p",
      { class: "live-word" },
      `${answer.english} → `,
      element("strong", { lang: "de" }, answer.word),
      ` ${answer.verdict}`,
    );
    const looks = element("p", {}, "Where each head of the cross-attention looked while a token was written:");
    const box = element("div", { class: "live-answer" }, word, table(answer), looks, viewer);
    const old = this.place.querySelector(".live-answer");
    old ? old.replaceWith(box) : this.place.append(box);
  }
}

export function begin(place) {
  const style = element("link", { rel: "stylesheet", href: new URL(`live.css${version}`, here).href });
  document.head.append(style);
  new Ask(place).press();
}
