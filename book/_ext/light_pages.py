"""Pages ask for what they use, when they use it. Each step is a setting of ``_config.yml`` that can be ``false``.

``light_scripts``: scripts wait until the page is there; those of the search are on its page alone, and those that copy
listings, open solutions or change tabs where there is something to copy, open or change. (The theme puts
all of them on every page, before the text.) The settings that inline scripts look for stand in the page, since a file would
come too late for them.

The theme makes tables and listings stops of the Tab key where they scroll; to know which, it measures all of them at once,
and the browser lays out the whole page. It is made to measure each when the reader comes near, and to take it for
one that scrolls until then.

``light_theme``: light or dark is decided before anything is drawn. (The theme decides once the page is there, and then the text
gets another size, so everything moves.) Without scripts a page is light, and it is light on paper.

``light_images``: all pictures but the first wait until the reader comes near. They have a size, so nothing moves when they
come, and browsers fetch all of them before they print.

``light_sections``: the browser lays out a section when the reader comes near, not before. Links to a place, the search in a
page and screen readers see the whole page all the same.
"""

from __future__ import annotations

import re
from pathlib import Path

from sphinx.application import Sphinx

SCRIPT = re.compile(
    r'[ \t]*<script\b(?P<before>[^>]*?)\s+src="(?P<address>[^"]+)"(?P<after>[^>]*)></script>\n?'
)
PRELOADED = re.compile(r'[ \t]*<link rel="preload" as="script"[^>]*/?>\n?')
OPTIONS = "_static/documentation_options.js"
# The file of a script, and what a page has that needs it.
NEEDED_BY = {
    "searchtools.js": re.compile(r'id="search-results"'),
    "language_data.js": re.compile(r'id="search-results"'),
    "searchindex.js": re.compile(r'id="search-results"'),
    "clipboard.min.js": re.compile(r'<div class="highlight'),
    "copybutton.js": re.compile(r'<div class="highlight'),
    "togglebutton.js": re.compile(
        r'class="(?:[^"]*\s)?(?:toggle|toggle-details)[\s"]'
        r'|class="[^"]*\bdropdown\b[^"]*\badmonition\b|class="[^"]*\badmonition\b[^"]*\bdropdown\b'
    ),
    "design-tabs.js": re.compile(r'class="(?:[^"]*\s)?sd-tab-set[\s"]'),
    "hints.js": re.compile(r'class="symbol-hint"| data-hint="'),
    "scroll_boxes.js": re.compile(r'class="(?:[^"]*\s)?math[\s"]'),
}
AUTO = 'data-theme="auto"'
# The theme's own line, then what it would do later.
CHOICE = 'document.documentElement.dataset.theme = localStorage.getItem("theme") || "auto";'
DECISION = (
    'if (document.documentElement.dataset.theme === "auto") document.documentElement.dataset.theme = '
    'matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";'
)
# Paper is light, whatever the screen is: ink in the colours of a dark page can hardly be read there.
PAPER = (
    "{ const page = document.documentElement.dataset; let shown; "
    'addEventListener("beforeprint", () => { shown = page.theme; page.theme = "light"; }); '
    'addEventListener("afterprint", () => { page.theme = shown; }); }'
)
# In the theme's script: what it does to each table and listing.
MEASURED = "{e.tabIndex=e.scrollWidth>e.clientWidth||e.scrollHeight>e.clientHeight?0:-1}"
IMAGE = re.compile(r"<img\b(?![^>]*\bloading=)")
# A section that was never laid out is taken to be as high as one screen; then its own height is remembered. On paper
# everything is laid out, and so it is when a link leads to a place in the page: where that place is, is known only once all
# before it has its height, and a slow machine would stop one or two screens away. A module of the reference is many screens
# high: while it is not laid out, what is asked of the places of its links would be told places of the next one's.
SECTIONS = """@media screen {
  .bd-article section > section:not(:has(> dl.py)) {
    content-visibility: auto;
    contain-intrinsic-size: auto none auto 900px;
    overflow-clip-margin: 1rem;
  }
  .bd-article:has(:target) section > section {
    content-visibility: visible;
  }
}
"""
STYLE = "_static/sections.css"
STEPS = ("light_scripts", "light_theme", "light_images", "light_sections")


def name_of(address: str) -> str:
    return address.split("?")[0].rsplit("/", 1)[-1]


def with_light_scripts(page: str, options: str) -> str:
    """A page whose scripts wait for it, without those that it does not need; ``options`` is a script to stand in it."""

    def light(found: re.Match[str]) -> str:
        address, given = found["address"], found["before"] + found["after"]
        if OPTIONS in address:
            return f"    <script>{options}</script>\n"
        needed = NEEDED_BY.get(name_of(address))
        if needed is not None and not needed.search(page):
            return ""
        if re.search(r"\b(defer|async|type)\b", given):
            return found[0]
        return (
            f'    <script defer="defer"{given} src="{address}"></script>\n'
        )

    return SCRIPT.sub(light, PRELOADED.sub("", page))


def patient(script: str) -> str:
    """The theme's script, if it has the line that is known; another version stays as it is.

    What is hidden from readers of the screen, as a listing under the field that edits it, is no stop at all.
    """
    late = (
        "{const h=()=>e.getAttribute('aria-hidden');h()||(e.tabIndex=0,"
        "new IntersectionObserver((n,o)=>{if(n.some(n=>n.isIntersecting)){o.disconnect();h()||("
        + MEASURED[1:-1]
        + ')}},{rootMargin:"100% 0px"}).observe(e))}'
    )
    return script.replace(MEASURED, late)


def with_light_theme(page: str) -> str:
    if AUTO not in page:
        return page
    page = page.replace(AUTO, 'data-theme="light"', 1)
    return page.replace(CHOICE, f"{CHOICE}\n    {DECISION}\n    {PAPER}", 1)


def with_light_images(page: str) -> str:
    start = page.find("<article")
    first = IMAGE.search(page, max(start, 0))
    if first is None:
        return page
    end = first.end()
    return page[:end] + IMAGE.sub('<img loading="lazy"', page[end:])


def with_light_sections(page: str, root: str) -> str:
    if "<section" not in page or STYLE in page:
        return page
    link = (
        f'<link rel="stylesheet" type="text/css" href="{root}{STYLE}" />\n'
    )
    return page.replace("</head>", f"{link}</head>", 1)


def one_line(script: str) -> str:
    return re.sub(r"\s*\n\s*", " ", script).strip()


def pages_of(out: Path) -> list[Path]:
    return sorted(
        path
        for path in out.rglob("*.html")
        if "_static" not in path.relative_to(out).parts
    )


def root_of(page: Path, out: Path) -> str:
    return "../" * (len(page.relative_to(out).parts) - 1)


def finish(app: Sphinx, failure: Exception | None) -> None:
    if failure is not None or app.builder.format != "html":
        return
    out, config = Path(app.outdir), app.config
    options = one_line((out / OPTIONS).read_text("utf8"))
    if config.light_sections:
        (out / STYLE).write_text(SECTIONS, "utf8")
    theme = out / "_static" / "scripts" / "pydata-sphinx-theme.js"
    if config.light_scripts and theme.is_file():
        script = theme.read_text("utf8")
        theme.write_text(patient(script), "utf8")
    for path in pages_of(out):
        page = before = path.read_text("utf8")
        if config.light_scripts:
            page = with_light_scripts(page, options)
        if config.light_theme:
            page = with_light_theme(page)
        if config.light_images:
            page = with_light_images(page)
        if config.light_sections:
            page = with_light_sections(page, root_of(path, out))
        if page != before:
            path.write_text(page, "utf8")


def setup(app: Sphinx) -> dict[str, object]:
    for step in STEPS:
        app.add_config_value(step, True, "")
    # After set_formulas.py, which takes scripts away.
    app.connect("build-finished", finish, priority=700)
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
