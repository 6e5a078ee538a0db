// <attention-viewer>: the weights of one head as lines, every head as a small map, and the same in words.
//
// One source for two places: a page of the book loads this file once, an output of a running notebook carries it.
// What it shows stands in the attributes of the element (see viewer.py). Inside the element is a picture of the head
// with which it begins; where this script does not run, and on paper, that picture is what a reader sees.
(() => {
  "use strict";
  // Each output of a running notebook brings the script along; the first one serves all.
  if (customElements.get("attention-viewer")) return;

  const SHOWN = 0.05; // weights below it get no line while no token is chosen
  const LISTED = 10; // rows of the table for one token
  const QUIET = 500; // milliseconds without a choice before a screen reader is told
  const SVG = "http://www.w3.org/2000/svg";

  // A shadow root keeps these rules in and those of the page out, so several copies, and any theme, are no matter.
  const STYLE = `
    :host { display: block; text-align: left; }
    slot { display: none; }
    .viewer {
      --ink: #1f2730; --muted: #4a5663; --rule: #7d8894; --surface: #f4f6f8; --accent: #0b5c8f; --line: #5b6774;
      --chosen: #dcebf6;
      container-type: inline-size; color: var(--ink); font: 15px/1.45 system-ui, sans-serif; color-scheme: light;
    }
    .viewer.dark {
      --ink: #dde3e9; --muted: #aab4bf; --rule: #7b8793; --surface: #1d2228; --accent: #82c4f0; --line: #8b97a4;
      --chosen: #1c3a50; color-scheme: dark;
    }
    .parts { display: grid; gap: 14px 28px; grid-template: "lines" "told" / minmax(0, 1fr); }
    .many { grid-template: "choose" "lines" "told" / minmax(0, 1fr); }
    .parts > * { min-width: 0; }
    .choose { grid-area: choose; } .lines { grid-area: lines; } .told { grid-area: told; }
    @container (min-width: 660px) {
      .many { grid-template: "choose lines" auto "told lines" 1fr / clamp(240px, 20px + var(--heads) * 30px, 345px) minmax(0, 1fr); }
    }
    .heading { margin: 0 0 10px; font-weight: 650; }
    .hidden { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
    .selects { display: flex; flex-wrap: wrap; gap: 8px 18px; margin-bottom: 10px; }
    select {
      min-height: 34px; margin-left: 4px; padding: 2px 8px; border: 1px solid var(--rule); border-radius: 5px;
      background: var(--surface); color: inherit; font: inherit;
    }
    :focus-visible { outline: 3px solid var(--accent); outline-offset: 1px; border-radius: 4px; }

    .overview { overflow-x: auto; padding: 3px; }
    .row { display: grid; gap: 2px; margin-bottom: 2px; min-width: min-content; }
    .row { grid-template-columns: 20px repeat(var(--heads), minmax(24px, 1fr)); max-width: calc(20px + var(--heads) * 50px); }
    .flat .row { grid-template-columns: repeat(var(--heads), minmax(24px, 1fr)); max-width: calc(var(--heads) * 74px); }
    .row > span { align-self: center; overflow: hidden; color: var(--muted); font-size: 11.5px; line-height: 1.3; text-align: center; }
    .cell button {
      display: block; box-sizing: border-box; width: 100%; min-height: 24px; aspect-ratio: 1; padding: 1px;
      border: 1px solid var(--rule); border-radius: 3px; background: none; cursor: pointer; touch-action: manipulation;
    }
    .cell[aria-selected="true"] button { border-color: var(--accent); box-shadow: 0 0 0 2px var(--accent); }
    canvas { display: block; width: 100%; height: 100%; border-radius: 2px; image-rendering: pixelated; }

    .lines { display: grid; grid-template-columns: minmax(0, auto) minmax(80px, 1fr) minmax(0, auto); align-content: start; }
    .side { color: var(--muted); font-size: 13px; font-style: italic; padding: 0 7px 3px; }
    .side.query { text-align: right; } .side.key { grid-column: 3; }
    .tokens { display: flex; flex-direction: column; min-width: 0; }
    .tokens button {
      display: flex; gap: 7px; align-items: center; box-sizing: border-box; width: 100%; height: var(--step); padding: 0 5px;
      border: 2px solid transparent; border-radius: 5px; background: none; color: inherit; font: inherit; line-height: 1.2;
      white-space: pre; cursor: pointer; touch-action: manipulation;
    }
    .tokens.query button { flex-direction: row-reverse; text-align: right; }
    .tokens button:hover, .tokens button.active { background: var(--chosen); }
    .tokens button[aria-pressed="true"] { border-color: var(--accent); }
    .tokens.key button { text-align: left; }
    .token { flex: 1; overflow: hidden; text-overflow: ellipsis; }
    .value { flex: none; width: 2.3em; color: var(--accent); font-size: 13px; font-variant-numeric: tabular-nums; }
    .most .value { font-weight: 700; }
    svg { display: block; width: 100%; overflow: visible; }
    path { fill: none; stroke: var(--line); stroke-linecap: round; vector-effect: non-scaling-stroke; }
    path.most { stroke: var(--accent); }

    .readout { min-height: 4.4em; margin: 0 0 6px; overflow-wrap: anywhere; }
    summary { display: inline-block; min-height: 24px; color: var(--accent); cursor: pointer; }
    summary::before { content: "▸ "; } details[open] > summary::before { content: "▾ "; }
    summary::-webkit-details-marker { display: none; }
    table { border-collapse: collapse; min-width: min(100%, 20em); margin-top: 4px; font-size: 14px; }
    caption { padding: 4px 0; color: var(--muted); text-align: left; }
    th, td { padding: 3px 14px 3px 0; border-bottom: 1px solid var(--rule); text-align: left; font-weight: 400; overflow-wrap: anywhere; }
    thead th { font-weight: 650; }
    td:last-child { font-variant-numeric: tabular-nums; }
    @media (forced-colors: active) { [aria-selected="true"] button, [aria-pressed="true"] { outline: 3px solid Highlight; } }
    @media (prefers-reduced-motion: no-preference) { .tokens button { transition: background-color 0.12s; } }
    @media print { .viewer { display: none; } slot { display: block; } }`;

  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  };
  const bounded = (number, size) => Math.min(Math.max(number, 0), size - 1);
  const capital = (words) => words[0].toUpperCase() + words.slice(1);

  // Weights of L layers of h heads, each T by S, one byte each: 0 is exactly zero, any other byte is 1 more than the
  // weight's hundredths, which are the two decimals that the figures print. The highest bit marks the strongest keys of
  // each query: weights that differ may have the same two decimals.
  class Weights {
    constructor(shape, encoded) {
      [this.layers, this.heads, this.T, this.S] = shape.split(" ").map(Number);
      this.bytes = Uint8Array.from(atob(encoded), (letter) => letter.charCodeAt(0));
      if (this.bytes.length !== this.layers * this.heads * this.T * this.S) throw new Error("weights do not fit their shape");
    }
    of(layer, head) {
      const size = this.T * this.S;
      const start = (layer * this.heads + head) * size;
      return this.bytes.subarray(start, start + size);
    }
  }
  const size = (byte) => Math.max((byte & 127) - 1, 0) / 100;
  const printed = (byte) => (byte ? size(byte).toFixed(2) : "0");
  const isStrongest = (byte) => byte > 127;

  class AttentionViewer extends HTMLElement {
    connectedCallback() {
      if (!this.shadowRoot) {
        try {
          this.read();
        } catch (error) {
          console.error("attention-viewer:", error); // the picture stays
          return;
        }
        this.build();
        this.choose(this.layer, this.head);
      }
      // A page tells what ground it has by the colour of its text: that holds for the book, for JupyterLab, for
      // editors and for pages that follow the system, each of which has its own name for "dark".
      const look = () => requestAnimationFrame(() => this.followTheme());
      this.watcher = new MutationObserver(look);
      for (const place of [document.documentElement, document.body]) this.watcher.observe(place, { attributes: true });
      this.system = matchMedia("(prefers-color-scheme: dark)");
      this.system.onchange = look;
      this.followTheme();
    }

    disconnectedCallback() {
      this.watcher?.disconnect();
      if (this.system) this.system.onchange = null;
    }

    read() {
      this.weights = new Weights(this.getAttribute("shape"), this.getAttribute("weights"));
      const { T, S } = this.weights;
      const queries = JSON.parse(this.getAttribute("queries"));
      this.tokens = { query: queries, key: JSON.parse(this.getAttribute("keys") ?? "null") ?? queries };
      if (this.tokens.query.length !== T || this.tokens.key.length !== S) throw new Error("tokens do not fit the weights");
      this.labels = { query: this.getAttribute("query-label") ?? "queries", key: this.getAttribute("key-label") ?? "keys" };
      this.first = Number(this.getAttribute("first") ?? 1);
      this.layer = Number(this.getAttribute("layer") ?? 0);
      this.head = Number(this.getAttribute("head") ?? 0);
      this.pinned = this.peeked = null; // each {side, index} or null
      this.rover = { query: 0, key: 0 }; // the token of each side that the Tab key reaches
    }

    followTheme() {
      const context = make("canvas", { width: 1, height: 1 }).getContext("2d");
      context.fillStyle = getComputedStyle(this).color;
      context.fillRect(0, 0, 1, 1);
      const [red, green, blue] = context.getImageData(0, 0, 1, 1).data;
      const dark = 0.299 * red + 0.587 * green + 0.114 * blue > 127;
      if (dark === this.dark) return;
      this.viewer.classList.toggle("dark", (this.dark = dark));
      this.inkMaps();
    }

    // ---- words ----

    headName(layer = this.layer, head = this.head) {
      const { layers, heads } = this.weights;
      const parts = [];
      if (layers > 1) parts.push(`layer ${layer + this.first}`);
      if (layers * heads > 1) parts.push(`head ${head + this.first}`);
      return parts.join(", ");
    }

    tokenName(side, index) {
      const tokens = this.tokens[side];
      const again = tokens.indexOf(tokens[index]) !== tokens.lastIndexOf(tokens[index]);
      return `“${tokens[index]}”${again ? ` (position ${index + 1})` : ""}`;
    }

    // The tokens of the other side with their bytes, heaviest first; a sort keeps the order of equals.
    ranked({ side, index }) {
      const { T, S } = this.weights;
      const [other, count] = side === "query" ? ["key", S] : ["query", T];
      return Array.from({ length: count }, (_, n) => ({
        index: n,
        name: this.tokenName(other, n),
        byte: side === "query" ? this.map[index * S + n] : this.map[n * S + index],
      })).sort((a, b) => (side === "query" ? b.byte - a.byte : size(b.byte) - size(a.byte)));
    }

    // The strongest key of a query in words; keys that share its weight are all named, or counted.
    strongestKey(index) {
      const best = this.ranked({ side: "query", index }).filter(({ byte }) => isStrongest(byte));
      if (!best.length) return ["none", "0"];
      const names = best.length > 3 ? `${best.length} keys alike` : best.map(({ name }) => name).join(", ");
      return [names, printed(best[0].byte)];
    }

    summary(token) {
      const [does, joins] = token.side === "query" ? ["gives", "to"] : ["gets", "from"];
      const ranked = this.ranked(token);
      if (!ranked[0].byte) return `${does} no weight`;
      if (!size(ranked[0].byte)) return `${does} less than 0.005 ${joins} each`;
      const even = ranked.length > 3 && ranked.every(({ byte }) => isStrongest(byte));
      if (even && does === "gives") return `gives the same to each, ${printed(ranked[0].byte)}`;
      const told = ranked.slice(0, 3).filter(({ byte }) => size(byte)).map(({ name, byte }) => `${name} ${printed(byte)}`);
      return `${does} most ${joins} ${told.join(", ")}`;
    }

    // ---- what there is: built once ----

    build() {
      const { layers, heads } = this.weights;
      const many = layers * heads > 1;
      this.maps = []; // each [canvas, bytes]
      this.readout = make("p", { class: "readout" });
      this.status = make("p", { class: "hidden", role: "status" });
      this.table = make("table");
      const words = make("details", {}, make("summary", {}, "Strongest weights as a table"), this.table);
      const parts = make("div", { class: many ? "parts many" : "parts" });
      parts.style.setProperty("--heads", heads);
      if (many) parts.append(make("div", { class: "choose" }, this.buildSelects(), this.buildOverview()));
      parts.append(this.buildLines(), make("div", { class: "told" }, this.readout, words, this.status));
      const heading = this.getAttribute("heading");
      this.viewer = make("div", { class: "viewer", role: "group", "aria-label": heading ?? "Attention weights" });
      if (heading) this.viewer.append(make("p", { class: "heading" }, heading));
      this.viewer.append(parts);
      this.viewer.addEventListener("keydown", (event) => {
        // A notebook takes single keys for commands on cells, some pages for turning over: not from in here.
        if (!event.ctrlKey && !event.altKey && !event.metaKey) event.stopPropagation();
        if (event.key !== "Escape" || !(this.pinned || this.peeked)) return;
        this.peeked = null;
        this.pin(null);
      });
      this.setAttribute("data-lm-suppress-shortcuts", "true"); // JupyterLab's word for the same
      this.attachShadow({ mode: "open" }).append(make("style", {}, STYLE), this.viewer, make("slot"));
    }

    buildSelects() {
      const box = make("div", { class: "selects" });
      this.selects = {};
      for (const [name, count] of [["layer", this.weights.layers], ["head", this.weights.heads]]) {
        if (count === 1) continue;
        const options = Array.from({ length: count }, (_, n) => make("option", { value: n }, String(n + this.first)));
        const select = make("select", {}, ...options);
        const number = (choice) => Number(choice?.value ?? 0);
        select.addEventListener("change", () => this.choose(number(this.selects.layer), number(this.selects.head)));
        this.selects[name] = select;
        box.append(make("label", {}, capital(name), " ", select));
      }
      return box;
    }

    // All heads as small maps: a grid in which the arrow keys move, and moving opens the head.
    buildOverview() {
      const { layers, heads } = this.weights;
      const label = "Maps of all heads; arrow keys choose";
      const grid = make("div", { class: layers > 1 ? "overview" : "overview flat", role: "grid", "aria-label": label });
      const top = make("div", { class: "row", role: "row" });
      if (layers > 1) top.append(make("span", { role: "columnheader" }, make("span", { class: "hidden" }, "layer")));
      for (let head = 0; head < heads; head++)
        top.append(make("span", { role: "columnheader" }, `H${head + this.first}`));
      grid.append(top);
      this.cells = [];
      for (let layer = 0; layer < layers; layer++) {
        const row = make("div", { class: "row", role: "row" });
        if (layers > 1) row.append(make("span", { role: "rowheader" }, `L${layer + this.first}`));
        for (let head = 0; head < heads; head++) {
          const name = capital(this.headName(layer, head));
          const button = make("button", { type: "button", "aria-label": name }, this.drawMap(layer, head));
          button.addEventListener("click", () => this.choose(layer, head));
          const cell = make("div", { class: "cell", role: "gridcell" }, button);
          this.cells.push(cell);
          row.append(cell);
        }
        grid.append(row);
      }
      const moves = {
        ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], Home: [0, -heads], End: [0, heads],
      };
      grid.addEventListener("keydown", (event) => {
        const move = moves[event.key];
        if (!move || event.ctrlKey || event.altKey || event.metaKey) return;
        event.preventDefault(); // the page would scroll
        this.choose(bounded(this.layer + move[0], layers), bounded(this.head + move[1], heads));
        this.cells[this.layer * heads + this.head].firstChild.focus();
      });
      return grid;
    }

    // One pixel for each weight, queries down, keys across; its colour is the opacity of one ink, which goes with the ground.
    drawMap(layer, head) {
      const { T, S } = this.weights;
      const canvas = make("canvas", { width: S, height: T, "aria-hidden": "true" });
      this.maps.push([canvas, this.weights.of(layer, head)]);
      return canvas;
    }

    inkMaps() {
      const ink = this.dark ? [151, 193, 238] : [20, 70, 140];
      for (const [canvas, bytes] of this.maps) {
        const context = canvas.getContext("2d");
        const image = context.createImageData(canvas.width, canvas.height);
        bytes.forEach((byte, n) => image.data.set([...ink, 255 * size(byte)], 4 * n));
        context.putImageData(image, 0, 0);
      }
    }

    buildLines() {
      const { T, S } = this.weights;
      const rows = Math.max(T, S);
      this.step = rows <= 24 ? 28 : 24; // a finger needs 24
      this.height = this.step * rows;
      this.svg = document.createElementNS(SVG, "svg");
      // The drawing is 100 wide, however wide it is shown; so it need not be drawn again when the page changes width.
      const form = { viewBox: `0 0 100 ${this.height}`, preserveAspectRatio: "none", height: this.height, "aria-hidden": "true" };
      for (const [name, value] of Object.entries(form)) this.svg.setAttribute(name, value);
      this.buttons = {};
      const box = make("div", { class: "lines" });
      box.style.setProperty("--step", `${this.step}px`);
      for (const side of ["query", "key"])
        box.append(make("div", { class: `side ${side}`, "aria-hidden": "true" }, this.labels[side]));
      box.append(this.buildTokens("query"), this.svg, this.buildTokens("key"));
      return box;
    }

    buildTokens(side) {
      const tokens = this.tokens[side];
      const kind = { class: `tokens ${side}`, role: "toolbar", "aria-orientation": "vertical", "aria-label": this.labels[side] };
      const list = make("div", kind);
      list.style.paddingTop = `${(this.height - this.step * tokens.length) / 2}px`;
      this.buttons[side] = tokens.map((token, index) => {
        const here = { side, index };
        const button = make(
          "button",
          { type: "button", "aria-pressed": "false" },
          make("span", { class: "token" }, token),
          make("span", { class: "hidden" }),
          make("span", { class: "value", "aria-hidden": "true" }),
        );
        button.addEventListener("pointerenter", (event) => event.pointerType === "mouse" && this.peek(here));
        button.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && this.peek(null));
        // A tap and a click give the focus too; only the keyboard's focus is a wish to look.
        button.addEventListener("focus", () => {
          this.rover[side] = index;
          this.show();
          if (button.matches(":focus-visible")) this.peek(here);
        });
        button.addEventListener("blur", () => this.peek(null));
        button.addEventListener("click", () => this.pin(here));
        return button;
      });
      list.addEventListener("keydown", (event) => {
        const last = tokens.length - 1;
        const goal = { ArrowUp: this.rover[side] - 1, ArrowDown: this.rover[side] + 1, Home: 0, End: last }[event.key];
        if (goal === undefined || event.ctrlKey || event.altKey || event.metaKey) return;
        event.preventDefault();
        this.buttons[side][bounded(goal, tokens.length)].focus();
      });
      list.append(...this.buttons[side]);
      return list;
    }

    // ---- what a reader does ----

    choose(layer, head) {
      const chosen = this.map !== undefined;
      this.layer = bounded(layer, this.weights.layers);
      this.head = bounded(head, this.weights.heads);
      this.map = this.weights.of(this.layer, this.head);
      if (this.selects?.layer) this.selects.layer.value = this.layer;
      if (this.selects?.head) this.selects.head.value = this.head;
      this.cells?.forEach((cell, n) => {
        const here = n === this.layer * this.weights.heads + this.head;
        cell.setAttribute("aria-selected", here);
        cell.firstChild.tabIndex = here ? 0 : -1;
      });
      for (const side of ["query", "key"])
        this.buttons[side].forEach((button, index) => {
          button.children[1].textContent = `, ${this.summary({ side, index })}`; // heard with the token, not seen
        });
      this.show();
      if (chosen) this.tell(`${capital(this.headName())}. ${this.strongest()}`);
    }

    peek(token) {
      this.peeked = token;
      this.show();
    }

    // The same token again, or none: let go.
    pin(token) {
      const same = token && this.pinned && token.side === this.pinned.side && token.index === this.pinned.index;
      this.pinned = same ? null : token;
      this.show();
      const told = this.pinned && `Pinned: ${this.tokenName(token.side, token.index)} ${this.summary(token)}.`;
      this.tell(told ?? "No token pinned.");
    }

    // Whoever runs along the heads hears the one where the run ends, not all of them.
    tell(words) {
      clearTimeout(this.telling);
      this.telling = setTimeout(() => (this.status.textContent = words), QUIET);
    }

    // ---- what is shown ----

    strongest() {
      const top = this.map.reduce((best, byte, n) => (size(byte) > size(this.map[best]) ? n : best), 0);
      const { S } = this.weights;
      const [query, key] = [this.tokenName("query", Math.floor(top / S)), this.tokenName("key", top % S)];
      return `Largest weight: ${query} to ${key}, ${printed(this.map[top])}.`;
    }

    show() {
      const active = this.peeked ?? this.pinned;
      this.showTokens(active);
      this.showLines(active);
      const name = this.headName();
      const start = name && `${capital(name)}. `;
      const pinned = active && active === this.pinned ? " Pinned: choose it again, or press Escape, to let go." : "";
      this.readout.textContent = active
        ? `${start}${this.tokenName(active.side, active.index)} ${this.summary(active)}.${pinned}`
        : `${start}Lines are weights of ${SHOWN} and more. ${this.strongest()} Choose a token to see its weights alone.`;
      this.showTable(active, name);
    }

    showTokens(active) {
      const heaviest = active && this.ranked(active);
      for (const side of ["query", "key"])
        this.buttons[side].forEach((button, index) => {
          const here = (token) => Boolean(token) && token.side === side && token.index === index;
          button.tabIndex = index === this.rover[side] ? 0 : -1;
          button.setAttribute("aria-pressed", here(this.pinned));
          button.classList.toggle("active", here(active));
          const found = active && active.side !== side ? heaviest.find((other) => other.index === index) : null;
          button.lastChild.textContent = found ? printed(found.byte) : "";
          button.classList.toggle("most", Boolean(found && this.isMost(found.byte, active, heaviest)));
        });
    }

    // What is blue: the strongest keys of a query; of the queries of a key, those that give most.
    isMost(byte, active, heaviest) {
      return active?.side === "key" ? size(byte) > 0 && size(byte) === size(heaviest[0].byte) : isStrongest(byte);
    }

    showLines(active) {
      const { T, S } = this.weights;
      const y = (index, count) => this.height / 2 + this.step * (index + 0.5 - count / 2);
      const wanted = ({ i, j, byte }) =>
        active ? (active.side === "query" ? i : j) === active.index && size(byte) > 0 : size(byte) >= SHOWN;
      const paths = Array.from(this.map, (byte, n) => ({ i: Math.floor(n / S), j: n % S, byte })).filter(wanted);
      const heaviest = active && this.ranked(active);
      paths.sort((a, b) => size(a.byte) - size(b.byte)); // heavy lines over light ones
      this.svg.replaceChildren(
        ...paths.map((path) => {
          const line = document.createElementNS(SVG, "path");
          const [from, to, weight] = [y(path.i, T), y(path.j, S), size(path.byte)];
          line.setAttribute("d", `M0 ${from}C50 ${from} 50 ${to} 100 ${to}`);
          line.setAttribute("stroke-width", (1 + 7 * weight).toFixed(2));
          line.setAttribute("stroke-opacity", (0.45 + 0.55 * weight).toFixed(2));
          if (this.isMost(path.byte, active, heaviest)) line.setAttribute("class", "most");
          return line;
        }),
      );
    }

    showTable(active, name) {
      const start = name ? `${capital(name)}: the` : "The";
      let caption = `${start} strongest key of each query`;
      let heads = ["Query", "Strongest key", "Weight"];
      let rows;
      if (active) {
        const token = this.tokenName(active.side, active.index);
        const [other, rest] = active.side === "query" ? ["Key", `keys of the query`] : ["Query", "queries of the key"];
        caption = `${start} strongest ${rest} ${token}`;
        heads = [other, "Weight"];
        const listed = this.ranked(active).filter(({ byte }) => size(byte)).slice(0, LISTED);
        rows = listed.map(({ name, byte }) => [name, printed(byte)]);
        if (!rows.length) rows = [["none", "0"]];
      } else {
        rows = this.tokens.query.map((_, index) => [this.tokenName("query", index), ...this.strongestKey(index)]);
      }
      const head = make("tr", {}, ...heads.map((words) => make("th", { scope: "col" }, words)));
      const body = rows.map(([first, ...others]) =>
        make("tr", {}, make("th", { scope: "row" }, first), ...others.map((words) => make("td", {}, words))),
      );
      this.table.replaceChildren(make("caption", {}, caption), make("thead", {}, head), make("tbody", {}, ...body));
    }
  }

  customElements.define("attention-viewer", AttentionViewer);
})();
