"""Faults of a page that show only in a browser, as four readers would see it: wide and phone, light and dark."""

from __future__ import annotations

import contextlib
import functools
import http.server
import threading

from axe_playwright_python.sync_playwright import Axe

WIDE, PHONE = 1280, 390
VIEWS = [(WIDE, "light"), (WIDE, "dark"), (PHONE, "light"), (PHONE, "dark")]
RULES = {
    "resultTypes": ["violations"],
    "runOnly": {
        "type": "tag",
        "values": [
            "wcag2a",
            "wcag2aa",
            "wcag21a",
            "wcag21aa",
            "wcag22aa",
            "best-practice",
        ],
    },
    "rules": {},
}
# The parts of a set formula are MathJax's: hundreds of elements that take their colour from the text around them.
EXAMINED = {"exclude": [["mjx-math"], ["mjx-assistive-mml"]]}
# MathJax sets what it cannot read as an error, and a macro that it does not know as red text.
BAD_FORMULAS = """() => {
  const bad = [];
  for (const item of window.MathJax?.startup?.document?.math ?? [])
    item.root?.walkTree?.((node) => {
      if (node.kind === "merror" || (node.kind === "mtext" && node.attributes?.get("mathcolor") === "red"))
        bad.push(item.math);
    });
  return [...new Set(bad)];
}"""
# Formulas that stand on the page as their source: MathJax did not run, or skipped them.
UNSET_FORMULAS = """() => [...document.querySelectorAll(".math")]
  .filter((place) => !place.querySelector("mjx-container")).map((place) => place.textContent.trim().slice(0, 80))"""

# What a phone shows a part of only. Solutions are opened first. Formulas of the API come as their docstrings have them, and
# the table of planted changes has a line of numbers for each module: these may scroll.
OPEN_ALL = """() => {
  for (const box of document.querySelectorAll("details")) box.open = true;
  for (const box of document.querySelectorAll(".toggle-hidden")) box.classList.remove("toggle-hidden");
}"""
# From top to bottom, as a reader would: formulas are fitted to the screen when they come near.
READ_THROUGH = """async () => {
  const frame = () => new Promise(requestAnimationFrame);
  for (let top = 0; top < document.documentElement.scrollHeight; top += innerHeight) {
    scrollTo({ top, behavior: "instant" });
    for (let n = 0; n < 3; n++) await frame();
  }
  scrollTo({ top: 0, behavior: "instant" });
  await frame();
}"""
CUT = """() => [...document.querySelectorAll(
    "mjx-container[display='true'], mjx-container.too-wide, .pst-scrollable-table-container"
  )]
  .filter((box) => !box.closest("dl.py") && !box.querySelector("table.evidence-table"))
  .filter((box) => box.matches(".too-wide") || box.scrollWidth > box.clientWidth + 2)
  .map((box) => `${box.scrollWidth} px in ${box.clientWidth}: ${box.textContent.trim().replace(/\\s+/g, " ").slice(0, 60)}`)"""


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request, client_address) -> None:
        """A page that is closed breaks its connections; that is no fault."""


class Files(http.server.SimpleHTTPRequestHandler):
    def __init__(self, *arguments, prefix: str, **options) -> None:
        self.prefix = prefix
        super().__init__(*arguments, **options)

    def translate_path(self, path: str) -> str:
        if not path.startswith(self.prefix):
            return super().translate_path("/outside-the-prefix")
        return super().translate_path("/" + path[len(self.prefix) :])

    def log_message(self, *_) -> None:
        pass


class Foreign(Files):
    """Files that a page of another address may load, and a browser keep, as those of Pyodide's own place."""

    def end_headers(self) -> None:
        self.send_header("Access-Control-Allow-Origin", "*")
        self.send_header("Cache-Control", "public, max-age=31536000")
        super().end_headers()


@contextlib.contextmanager
def served(folder, prefix: str = "/", files: type[Files] = Files):
    """The address at which a folder is served, for the length of a ``with``."""
    handler = functools.partial(files, directory=str(folder), prefix=prefix)
    with Server(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}{prefix}"
        server.shutdown()
        thread.join()


@contextlib.contextmanager
def opened(browser, home: str, name: str, width: int, scheme: str):
    """A page, set and quiet, together with what went wrong while it loaded."""
    page = browser.new_page(
        viewport={"width": width, "height": 900}, color_scheme=scheme
    )
    faults: list[str] = []

    def note_request(request) -> None:
        if not request.url.startswith((home, "data:", "blob:")):
            faults.append(f"asks outside the site: {request.url}")

    def note_response(response) -> None:
        if response.status >= 400:
            faults.append(f"{response.status}: {response.url}")

    def note_message(message) -> None:
        # A missing file is reported as a response already.
        if (
            message.type == "error"
            and "Failed to load resource" not in message.text
        ):
            faults.append(f"console: {message.text[:200]}")

    page.on("request", note_request)
    page.on("response", note_response)
    page.on("console", note_message)
    page.on(
        "pageerror",
        lambda error: faults.append(f"script: {str(error)[:200]}"),
    )
    page.goto(home + name, wait_until="networkidle")
    page.evaluate("() => window.MathJax?.startup?.promise")
    page.evaluate("() => document.fonts.ready.then(() => 1)")
    yield page, faults
    page.close()


def faults_of(page, width: int, examine: bool = True) -> list[str]:
    """What is wrong with a page that has loaded; `examine` asks for what it hides and for the rules that it breaks as well."""
    faults = [
        f"formula not set: {tex[:80]}"
        for tex in page.evaluate(BAD_FORMULAS)
    ]
    faults += [
        f"formula left: {tex}" for tex in page.evaluate(UNSET_FORMULAS)
    ]
    reach = page.evaluate("() => document.documentElement.scrollWidth")
    if reach > width:
        faults.append(f"{reach} px wide on a screen of {width}")
    if not examine:
        return faults
    if width == PHONE:
        page.evaluate(OPEN_ALL)
        page.evaluate(READ_THROUGH)
        faults += [f"cut: {what}" for what in page.evaluate(CUT)]
    # Contrast is most of the work, and colours do not depend on the width: the wide views look at it for both.
    rules = {**RULES["rules"], "color-contrast": {"enabled": width == WIDE}}
    report = Axe().run(
        page, context=EXAMINED, options={**RULES, "rules": rules}
    )
    for violation in report.response["violations"]:
        first = violation["nodes"][0]["html"][:120]
        number = len(violation["nodes"])
        faults.append(
            f"{violation['id']} ({violation['impact']}) x{number}: {first}"
        )
    return faults


def look(browser, home: str, name: str, views=tuple(VIEWS)) -> list[str]:
    """All faults of a page in the given views.

    What a page breaks is looked for once on a phone: there is nothing in the dark that neither the phone in the light nor
    the wide page in the dark shows. That it loads without a fault and is no wider than the screen is seen in each view.
    """
    found, examined = [], set()
    for width, scheme in views:
        with opened(browser, home, name, width, scheme) as (page, faults):
            faults += faults_of(page, width, width not in examined)
            if width == PHONE:
                examined.add(width)
            found += [
                f"{name} [{width} {scheme}] {fault}"
                for fault in dict.fromkeys(faults)
            ]
    return found
