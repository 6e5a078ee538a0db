// Python for one page, beside the page: it can be ended at any moment without the page noticing.
//
// In comes {kind: "load", pyodide, site, version}, and then {kind: "run", code, number}, one at a time. Out go
// {kind: "progress", done, total}, {kind: "step", says}, {kind: "ready"} or {kind: "failed", reason, says} for the first,
// and what live_shell.py tells, then {kind: "done", good}, for each of the others.

const tell = (message) => postMessage(message);
// How long a server may say nothing before it counts as out of reach.
const PATIENCE = 45_000;
const fetched = self.fetch.bind(self);
let shell = null;

class Failure extends Error {
  constructor(reason, says) {
    super(says);
    this.reason = reason;
  }
}

async function sha256(bytes) {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return [...digest].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

// The bytes of a file, counted while they come, and refused if they are not those that the book was tested with.
async function bytesOf(url, { bytes, sha256: wanted }, count) {
  const stop = new AbortController();
  let clock;
  const wait = () => {
    clearTimeout(clock);
    clock = setTimeout(() => stop.abort(), PATIENCE);
  };
  const content = new Uint8Array(bytes);
  let filled = 0;
  try {
    wait();
    const answer = await fetched(url, { signal: stop.signal });
    if (!answer.ok) throw new Failure("away", `${url} answers ${answer.status}`);
    const reader = answer.body.getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      wait();
      if (filled + value.length > bytes) throw new Failure("other", `${url} is longer than it should be`);
      content.set(value, filled);
      filled += value.length;
      count(value.length);
    }
  } catch (error) {
    if (error instanceof Failure) throw error;
    throw new Failure("away", `${url} cannot be loaded`);
  } finally {
    clearTimeout(clock);
    stop.abort();
  }
  // Where the page comes over plain http from another machine, a browser computes no hashes; the length is checked then.
  if (filled !== bytes || (self.crypto?.subtle && (await sha256(content)) !== wanted))
    throw new Failure("other", `${url} is another file than it should be`);
  return content;
}

const importBytes = async (bytes) => {
  const url = URL.createObjectURL(new Blob([bytes], { type: "text/javascript" }));
  try {
    return await import(url);
  } finally {
    URL.revokeObjectURL(url);
  }
};

async function load({ pyodide, site, version }) {
  const lockFileURL = `${site}pyodide-lock.json${version}`;
  let lock;
  try {
    lock = await (await fetched(lockFileURL)).json();
  } catch {
    throw new Failure("site", `${lockFileURL} cannot be loaded`);
  }
  // All files come side by side: [key, address, what is known of it].
  const packages = Object.values(lock.packages);
  const files = [
    ...Object.entries(lock.core).map(([name, known]) => [name, pyodide + name, known]),
    ...packages.map((known) => [known.file_name, pyodide + known.file_name, known]),
    ["book.zip", `${site}book.zip${version}`, lock.site["book.zip"]],
  ];
  const total = files.reduce((sum, [, , { bytes }]) => sum + bytes, 0);
  let done = 0;
  const count = (bytes) => tell({ kind: "progress", done: (done += bytes), total });
  const held = new Map(
    await Promise.all(files.map(async ([name, url, known]) => [name, await bytesOf(url, known, count)])),
  );
  const take = (name) => {
    const bytes = held.get(name);
    held.delete(name);
    return bytes;
  };

  // Pyodide asks for its files by address, and is given what is here.
  self.fetch = async (request, options) => {
    const url = String(request?.url ?? request);
    const name = url.startsWith(pyodide) ? url.slice(pyodide.length) : "";
    if (!held.has(name)) return fetched(request, options);
    const type = name.endsWith(".wasm") ? "application/wasm" : "application/octet-stream";
    return new Response(take(name), { headers: { "Content-Type": type } });
  };
  tell({ kind: "step", says: "Starting Python" });
  const { loadPyodide } = await importBytes(take("pyodide.mjs"));
  await importBytes(take("pyodide.asm.js"));
  const python = await loadPyodide({
    indexURL: pyodide,
    lockFileURL,
    env: { MPLBACKEND: "agg" },
  });
  tell({ kind: "step", says: "Unpacking NumPy and matplotlib" });
  await python.loadPackage(Object.keys(lock.packages), { messageCallback() {} });
  self.fetch = fetched;
  const place = "/lib/book";
  python.unpackArchive(take("book.zip"), "zip", { extractDir: place });
  const sys = python.pyimport("sys");
  sys.path.insert(0, place);
  const module = python.pyimport("live_shell");
  // Python waits for an import, so this request does, too.
  const fetchNow = (name) => {
    const request = new XMLHttpRequest();
    request.open("GET", `${site}${name}.zip${version}`, false);
    request.responseType = "arraybuffer";
    request.send();
    if (request.status >= 400) throw new Error(`${name} cannot be loaded`);
    return python.toPy(new Uint8Array(request.response));
  };
  const later = Object.keys(lock.site).map((name) => name.replace(".zip", "")).filter((name) => name !== "book");
  sys.meta_path.insert(0, module.Later(place, python.toPy(later), fetchNow));
  tell({ kind: "step", says: "Importing NumPy and matplotlib" });
  module.begin();
  shell = module.Shell();
}

self.onmessage = async ({ data }) => {
  if (data.kind === "load") {
    try {
      await load(data);
      tell({ kind: "ready" });
    } catch (error) {
      tell({ kind: "failed", reason: error.reason ?? "broken", says: String(error.message ?? error) });
    }
    return;
  }
  try {
    const good = shell.run(data.code, data.number, (told) => tell(JSON.parse(told)));
    tell({ kind: "done", good });
  } catch (error) {
    // Python itself has come to an end, by a stack that overflowed for example; nothing can be run in it any more.
    tell({ kind: "broken", says: String(error.message ?? error) });
  }
};
