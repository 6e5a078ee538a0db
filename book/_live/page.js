// Runs the cells of a page: the bar at its top, a row of buttons at each cell, code to edit, outputs in their places.

const here = new URL(import.meta.url);
const version = here.search;
const [{ coloured }, { element, Loading, Python, steady, whyNot }] = await Promise.all(
  ["colours.js", "python.js"].map((name) => import(new URL(`${name}${version}`, here))),
);

// ---------- what a cell gives ----------

const listing = (kind, text) => {
  const pre = element("pre");
  pre.innerHTML = coloured(kind, text);
  return element("div", { class: `highlight-${kind} notranslate` }, element("div", { class: "highlight" }, pre));
};

// Text as a notebook shows it: an output that is the same as the stored one looks the same.
const printed = (kind, text) => {
  const pre = element("pre", { tabindex: "-1" }, text);
  return element("div", { class: `output ${kind} notranslate` }, element("div", { class: "highlight" }, pre));
};

// What of Markdown the book's own functions give: a listing, a table, paragraphs.
function marked(text, stored) {
  const fence = /^```(python|diff)\n([\s\S]*?)\n?```$/.exec(text.trim());
  if (fence) {
    const made = listing(fence[1], `${fence[2]}\n`);
    const pre = made.querySelector("pre");
    // Coloured as the page had it, where it is the same.
    const same = [...(stored?.querySelectorAll("pre") ?? [])].find((other) => other.textContent === pre.textContent);
    if (same) pre.innerHTML = same.innerHTML;
    return [made];
  }
  return text.trim().split(/\n\s*\n/).map((block) => {
    const rows = block.split("\n").map((line) => line.trim());
    if (!rows[1]?.startsWith("|") || !/^[|:\s-]+$/.test(rows[1])) return element("p", {}, block);
    const row = (line, kind) =>
      element("tr", {}, ...line.replace(/^\||\|$/g, "").split("|").map((cell) => element(kind, {}, element("p", {}, cell.trim()))));
    const head = element("thead", {}, row(rows[0], "th"));
    const body = element("tbody", {}, ...rows.slice(2).map((line) => row(line, "td")));
    const table = element("table", { class: "table" }, head, body);
    return element("div", { class: "pst-scrollable-table-container" }, table);
  });
}

const inWords = (alt) =>
  element("details", { class: "figure-in-words" }, element("summary", {}, "This figure in words"), element("p", {}, alt));

// A picture in the inks of a light page and, where it was drawn in those of a dark one too, in those; the style sheet shows
// the one that goes with the theme.
function drawings(about, data, dark) {
  return [data, dark].filter(Boolean).map((png, second, both) => {
    const kind = both.length > 1 ? (second ? " on-dark" : " on-light") : "";
    const form = { alt: about.alt ?? "", class: `dark-light notebook-figure${kind}`, src: `data:image/png;base64,${png}` };
    const image = element("img", form);
    for (const side of ["width", "height"]) if (about[side]) image.setAttribute(side, Math.round(about[side]));
    image.hidden = Boolean(second);
    return image;
  });
}

// The frame, caption and number that the page had for a figure stay, around what a cell gives now.
function framed(stored, ...parts) {
  const frame = stored?.querySelector("figure")?.cloneNode(true);
  if (!frame) return null;
  const [first, ...others] = frame.querySelectorAll("attention-viewer, img:not(attention-viewer img)");
  first.replaceWith(...parts);
  for (const other of others) other.remove();
  return frame;
}

function pictured(about, images, stored) {
  const frame = framed(stored, ...images);
  return [...(frame ? [frame] : images), inWords(about.alt ?? "")];
}

function viewed(html, about, stored) {
  const made = element("div");
  made.innerHTML = html; // a script that comes so does not run: the page has the viewer's own
  const viewer = made.querySelector("attention-viewer");
  const frame = framed(stored, viewer);
  return frame ? [frame, inWords(about.alt ?? "")] : [viewer];
}

function shown({ data, metadata }, stored) {
  const html = data["text/html"];
  const png = data["image/png"];
  const about = metadata["image/png"] ?? {};
  if (html?.startsWith("<attention-viewer") && customElements.get("attention-viewer")) return viewed(html, about, stored);
  if (png) return pictured(about, drawings(about, png, data["image/png; dark"]), stored);
  if (html && !html.startsWith("<attention-viewer")) {
    const made = element("div", { class: "output text_html" });
    made.innerHTML = html;
    return [made];
  }
  if (data["text/markdown"]) return marked(data["text/markdown"], stored);
  return [printed("text_plain", data["text/plain"])];
}

// What a reader gets from an output: its text, and its pictures in words. Two that say the same are the same.
const told = (box) =>
  [...(box?.querySelectorAll("pre, p, img:not([hidden]), attention-viewer") ?? [])]
    .map((part) => part.getAttribute("alt") ?? part.getAttribute("weights") ?? part.textContent.trimEnd())
    .join("\n");

// ---------- a cell ----------

class Cell {
  constructor(place, number, page) {
    this.place = place;
    this.number = number;
    this.page = page;
    this.input = place.querySelector(".cell_input");
    this.pre = this.input.querySelector("pre");
    this.stored = place.querySelector(".cell_output");
    this.original = this.pre.textContent.replace(/\n$/, "");
    this.originalLook = this.pre.innerHTML;
    this.life = 0; // the life of Python in which it ran last

    const label = `Code of cell ${number}, to edit`;
    const plain = { spellcheck: "false", autocapitalize: "off", autocomplete: "off", wrap: "off" };
    this.area = element("textarea", { "aria-label": label, class: "live-code", rows: "1", ...plain });
    this.area.value = this.original;
    this.area.addEventListener("input", () => this.edited());
    this.area.addEventListener("keydown", (event) => this.key(event));
    this.pre.removeAttribute("tabindex");
    this.pre.setAttribute("aria-hidden", "true");
    this.pre.after(this.area);

    this.button = element("button", { type: "button", class: "live-run" });
    this.button.addEventListener("click", () => page.press(this));
    this.back = element("button", { type: "button", class: "live-reset", hidden: "" }, "Reset");
    this.back.append(element("span", { class: "live-aside" }, ` cell ${number} to the stored code and output`));
    this.back.addEventListener("click", () => this.reset());
    this.says = element("span", { class: "live-says" });
    this.tools = element("div", { class: "live-tools" }, this.button, this.back, this.says);
    this.input.append(this.tools);
    this.input.classList.add("live-input");
    this.running(false);
  }

  running(yes) {
    this.place.toggleAttribute("data-running", yes);
    this.button.textContent = yes ? "Stop" : "Run";
    this.button.append(element("span", { class: "live-aside" }, ` cell ${this.number}`));
  }

  get code() {
    return this.area.value;
  }

  // What the page can see has changed, so there is something to go back to.
  changed() {
    this.back.hidden = !this.live && this.code === this.original;
  }

  edited() {
    if (this.code === this.original) this.pre.innerHTML = this.originalLook;
    else this.pre.innerHTML = `${coloured("python", this.code)}\n`;
    this.changed();
  }

  key(event) {
    if (event.key !== "Enter" || event.isComposing) return;
    if (event.shiftKey || event.ctrlKey || event.metaKey) {
      event.preventDefault();
      this.page.press(this, true);
    } else if (!event.altKey) {
      // A new line begins as far in as the one before, and further after a colon.
      const before = this.code.slice(0, this.area.selectionStart).split("\n").at(-1);
      const indent = /^ */.exec(before)[0] + (/:\s*(#.*)?$/.test(before) ? "    " : "");
      if (indent && document.execCommand("insertText", false, `\n${indent}`)) event.preventDefault();
    }
  }

  // Make room for outputs: the stored ones give way to those of this run, in the same place and under the same address.
  clear() {
    // As high as what stood there until something else is there, so that the text below stays where it is.
    const height = (this.live ?? this.stored)?.offsetHeight ?? 0;
    this.unlive();
    this.live = element("div", { class: "cell_output docutils container live-output", "data-waiting": "" });
    this.live.style.minHeight = `${height}px`;
    this.stored ? this.stored.after(this.live) : this.place.append(this.live);
    if (this.stored) this.stored.hidden = true;
    this.kept = [...(this.stored?.querySelectorAll("[id]") ?? [])].map((part) => [part, part.id]);
    this.changed();
  }

  // An output is as high as it is itself once its pictures are there.
  async release(box) {
    await Promise.allSettled([...box.querySelectorAll("img")].map((image) => image.decode()));
    box.style.minHeight = "";
    delete box.dataset.waiting;
  }

  unlive() {
    this.live?.remove();
    this.live = null;
    for (const [part, id] of this.kept ?? []) part.id = id;
    this.kept = [];
    if (this.stored) this.stored.hidden = false;
  }

  take(data) {
    if (data.kind === "stream") {
      const last = this.live.lastElementChild;
      const kind = `stream${data.name === "stderr" ? " stderr" : ""} highlight-myst-ansi`;
      if (last?.dataset.stream === data.name) last.querySelector("pre").append(data.text);
      else {
        const made = printed(kind, data.text);
        made.dataset.stream = data.name;
        this.live.append(made);
      }
    } else if (data.kind === "display") {
      const parts = shown(data, this.stored);
      const ids = parts.flatMap((part) => [part, ...part.querySelectorAll("[id]")].map(({ id }) => id));
      // An address stands once on a page: that of the figure which is seen.
      for (const [part, id] of this.kept) if (ids.includes(id)) part.removeAttribute("id");
      this.live.append(...parts);
    } else if (data.kind === "error") {
      this.error = data;
      this.live.append(printed("traceback highlight-ipythontb", data.text));
    }
  }

  async run(python) {
    this.clear();
    this.error = null;
    this.running(true);
    this.say("");
    let end;
    try {
      end = await python.run(this.code, this.number, (data) => this.take(data));
    } finally {
      this.running(false);
      if (this.live) this.release(this.live);
    }
    // What scrolls is a stop of the Tab key, as it is elsewhere on the page.
    for (const pre of this.live?.querySelectorAll("pre") ?? [])
      if (pre.scrollWidth > pre.clientWidth || pre.scrollHeight > pre.clientHeight) pre.tabIndex = 0;
    this.life = python.lives;
    this.say(this.ending(end));
    return end;
  }

  ending(end) {
    if (end === "stopped") return "Stopped. All variables are lost.";
    if (end === "broken") return "Python broke down here. All variables are lost.";
    if (end === "error") {
      const line = this.error?.line ? ` in line ${this.error.line}` : "";
      const lost = this.error?.name === "NameError" && this.page.before(this).some((cell) => cell.life !== this.page.python.lives);
      return `${this.error?.name ?? "Error"}${line}.${lost ? " Not every cell above has been run: “Run all” runs them." : ""}`;
    }
    if (this.code !== this.original) return "Ran as edited.";
    if (!told(this.stored) && !told(this.live)) return "Ran.";
    return told(this.stored) === told(this.live) ? "Ran: the same output as stored." : "Ran: another output than stored.";
  }

  say(text) {
    this.says.textContent = text;
  }

  reset() {
    if (this.place.hasAttribute("data-running")) this.page.stop();
    this.unlive();
    this.area.value = this.original;
    this.pre.innerHTML = this.originalLook;
    this.say("");
    this.changed();
    this.area.focus();
    this.page.say(`Cell ${this.number} is as it was stored.`);
  }

  remove() {
    this.unlive();
    this.area.remove();
    this.tools.remove();
    this.pre.innerHTML = this.originalLook;
    this.pre.removeAttribute("aria-hidden");
    this.input.classList.remove("live-input");
  }
}

// ---------- the page ----------

class Page {
  constructor(bar) {
    this.bar = bar;
    this.button = bar.querySelector("button");
    this.says = bar.querySelector(".live-says");
    this.offer = this.says.textContent;
    this.settle = steady(bar, this.button);
    this.loading = new Loading(bar, (text) => this.say(text));
    this.place = bar.dataset.place;
    this.python = new Python(new URL(bar.dataset.pyodide, document.baseURI).href, (data) => this.loading.hear(data));
    this.button.addEventListener("click", () => (this.busy ? this.stop() : this.runAll()));
    this.cells = [];
    this.state("idle");
  }

  state(name) {
    this.bar.dataset.state = name;
    this.busy = name === "loading" || name === "running";
    this.button.textContent = this.busy ? "Stop" : this.cells.length ? "Run all" : "Run this page";
    this.loading.show(name === "loading");
  }

  say(text) {
    if (this.says.textContent !== text) this.says.textContent = text;
    this.settle();
  }

  // The cells before one.
  before(cell) {
    return this.cells.slice(0, cell.number - 1);
  }

  equip() {
    if (this.cells.length) return;
    const places = [...document.querySelectorAll("div.cell")].filter((place) => place.querySelector(".cell_input pre"));
    this.cells = places.map((place, index) => new Cell(place, index + 1, this));
  }

  async ready() {
    this.equip();
    if (this.python.loaded) return this.python.loaded;
    this.state("loading");
    this.say("Loading Python and NumPy …");
    return this.python.load();
  }

  // Whatever is run, is run here: it loads Python if need be, and tells what came of it.
  async work(task) {
    try {
      await this.ready();
      this.state("running");
      await task();
      this.state("ready");
    } catch (error) {
      const ran = this.cells.some((cell) => cell.life);
      if (!ran) for (const cell of this.cells.splice(0)) cell.remove();
      this.state(error.reason === "stopped" ? "stopped" : "failed");
      if (error.reason !== "stopped") this.say(whyNot(error, this.place));
      else this.say(ran ? "Stopped. All variables are lost: “Run all” begins anew." : this.offer);
      if (error.reason !== "stopped") console.warn(error.message);
    }
  }

  runAll() {
    return this.work(async () => {
      const total = this.cells.length;
      for (const cell of this.cells) cell.say("");
      for (const cell of this.cells) {
        this.say(`Running cell ${cell.number} of ${total} …`);
        const end = await cell.run(this.python);
        if (end === "good") continue;
        if (end === "error") this.say(`Cell ${cell.number} of ${total} ended with an error; those below were not run.`);
        else this.lost(end);
        return;
      }
      this.say(`All ${total} cells have run. Their code can be edited: Shift and Enter run a cell.`);
    });
  }

  lost(end) {
    this.say(`${end === "broken" ? "Python broke down" : "Stopped"}. All variables are lost: “Run all” begins anew.`);
  }

  press(cell, keyboard = false) {
    if (this.busy) return keyboard ? undefined : this.stop();
    return this.work(async () => {
      this.say(`Running cell ${cell.number} …`);
      const end = await cell.run(this.python);
      if (end === "good" || end === "error") this.say(`Cell ${cell.number}: ${cell.says.textContent}`);
      else this.lost(end);
    });
  }

  stop() {
    this.python.stop();
  }
}

export function begin(bar) {
  const style = element("link", { rel: "stylesheet", href: new URL(`live.css${version}`, here).href });
  document.head.append(style);
  const page = new Page(bar);
  page.runAll();
}
