"""Build the book as one file: a PDF for paper, or an ePub for readers.

    python tools/build_paper.py pdf|epub [--step 3/3] [--clean]

Both are made from the sources of the pages, with the settings of _config.yml and the few below. The PDF takes XeLaTeX,
the ePub a Node.js, which sets its formulas as MathML; without them nothing is begun. Every warning is an error, and so
is a formula, a table or a line of code that stands over the edge of the paper.

Nothing is done when no source has changed since the last build that succeeded. `make book` puts what is of the same
state as the pages into the site.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

import build_epub
import yaml
from build_book import COMMAND, lines_of, state, warnings_in
from fingerprint import of_claims
from sphinx.errors import SphinxError

ROOT = Path(__file__).resolve().parents[1]
NAME = "attention-in-detail"
# The day from which files count their age: two builds of one state are the same to the byte.
EPOCH = "1767225600"  # 2026-01-01

TEX_PACKAGES = (
    "texlive-xetex texlive-latex-extra texlive-fonts-recommended "
    "fonts-texgyre fonts-texgyre-math fonts-dejavu-core"
)
# Of each package, a file that TeX has to find.
TEX_FILES = ["tcolorbox.sty", "unicode-math.sty", "newunicodechar.sty"]
TEX_FILES += ["texgyrepagella-regular.otf", "texgyrepagella-math.otf"]
FACES = ["DejaVu Sans", "DejaVu Sans Mono"]

# Extensions that a book of either form needs, and those that only pages of a site do.
FOR_BOOKS = {"on_paper": "book/_ext"}
# Those that make a site of pages: none of it belongs into a package.
OF_THE_SITE = ["light_pages", "light_styles", "live", "offline_assets"]
OF_THE_SITE += ["page_head", "scroll_boxes", "set_formulas"]
FOR_FORM = {
    "pdf": {"paper_latex": "book/_ext"},
    "epub": {},
}
DESCRIPTION = (
    "The attention mechanism derived step by step, with formula, code and "
    "evidence side by side."
)
ELEMENTS = {
    "papersize": "a4paper",
    "pointsize": "11pt",
    "extraclassoptions": "openany,oneside",
    "polyglossia": "\\usepackage{polyglossia}\n\\setmainlanguage{english}",
    "fncychap": "",
    "fontpkg": "",
    "makeindex": "",
    "printindex": "",
    "figure_align": "H",
    "extrapackages": "\\usepackage{tikz}",
    "maketitle": "\\booktitlepage",
    "tableofcontents": "\\renewcommand{\\contentsname}{Contents}\\sphinxtableofcontents",
}


def macros(settings: dict) -> str:
    """The commands that formulas use, as LaTeX: the ones that MathJax has on the site."""
    given = settings["sphinx"]["config"]["mathjax3_config"]["tex"]["macros"]
    return "\n".join(
        f"\\providecommand{{\\{name}}}{{}}\\renewcommand{{\\{name}}}{{{meaning}}}"
        for name, meaning in given.items()
    )


def told(settings: dict) -> str:
    """What the file says of itself to programs that show or read it aloud."""
    language = settings["sphinx"]["config"]["language"]
    return (
        f"\\hypersetup{{pdftitle={{{settings['title']}}}, pdfauthor={{{settings['author']}}}, "
        f"pdfsubject={{{DESCRIPTION}}}, pdflang={{{language}}}, pdfdisplaydoctitle=true}}"
    )


def version(root: Path) -> str:
    project = tomllib.loads((root / "pyproject.toml").read_text("utf8"))
    return project["project"]["version"]


def config(root: Path, form: str) -> dict:
    """The settings of the pages, changed to those of a book."""
    settings = yaml.safe_load((root / "_config.yml").read_text("utf8"))
    sphinx = settings["sphinx"]
    own = {**sphinx["local_extensions"], **FOR_BOOKS, **FOR_FORM[form]}
    for name in OF_THE_SITE:
        own.pop(name, None)
        for setting in [*sphinx["config"]]:
            if setting.startswith(f"{name}_"):
                del sphinx["config"][setting]
    # The settings stand in another folder than the book.
    sphinx["local_extensions"] = {
        name: str(root / folder) for name, folder in own.items()
    }
    for part in ("repository", "launch_buttons"):
        settings.pop(part, None)
    added = {"paper_leaves_out": ["three-ways-in", "the-chapters"]}
    if form == "pdf":
        settings["latex"] = {
            "use_jupyterbook_latex": False,
            "latex_engine": "xelatex",
            "latex_documents": {
                "targetname": f"{NAME}.tex",
                "title": settings["title"],
            },
        }
        preamble = "\n".join(
            ["\\usepackage{paper}", told(settings), macros(settings)]
        )
        added |= {
            "paper_small": ["book/api", "book/evidence"],
            "paper_references": "book/references",
            "latex_use_xindy": False,
            "latex_domain_indices": False,
            "latex_table_style": ["booktabs"],
            "latex_additional_files": ["book/_paper/paper.sty"],
            "latex_elements": {**ELEMENTS, "preamble": preamble},
        }
    else:
        settings["html"].pop("favicon", None)
        added |= {
            "version": version(root),
            "html_domain_indices": False,
            "html_static_path": ["book/_paper"],
            "html_css_files": [],
            "epub_css_files": ["reader.css"],
            "epub_basename": NAME,
            "epub_theme": "epub",
            "epub_title": settings["title"],
            "epub_author": settings["author"],
            "epub_contributor": settings["author"],
            "epub_publisher": settings["author"],
            "epub_copyright": "Text: CC BY 4.0. Code: MIT.",
            "epub_identifier": NAME,
            "epub_scheme": "ID",
            "epub_uid": NAME,
            "epub_description": DESCRIPTION,
            "epub_show_urls": "no",
            "epub_use_index": False,
            "epub_tocdepth": 2,
            "suppress_warnings": ["epub.unknown_project_files"],
        }
    sphinx["config"] |= added
    return settings


# ---- what has to be there ----


def finds(command: list[str]) -> bool:
    return (
        subprocess.run(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ).returncode
        == 0
    )


def missing_for_pdf() -> list[str]:
    """The programs, packages and faces that are not there."""
    missing = [
        name
        for name in ("xelatex", "kpsewhich", "fc-list")
        if shutil.which(name) is None
    ]
    if missing:
        return missing
    missing = [name for name in TEX_FILES if not finds(["kpsewhich", name])]
    listed = subprocess.run(
        ["fc-list", ":", "family"], capture_output=True, text=True
    ).stdout
    there = {
        name for line in listed.splitlines() for name in line.split(",")
    }
    return missing + [
        f"the face {name}" for name in FACES if name not in there
    ]


def stop(*lines: str) -> int:
    print("\n".join(("make: " + lines[0], *lines[1:])), file=sys.stderr)
    return 1


# ---- making it ----


def environment(root: Path) -> dict[str, str]:
    return {
        **os.environ,
        "NO_COLOR": "1",
        "PYTHONUTF8": "1",
        "EVIDENCE_CODE": of_claims(root),
        "EVIDENCE_STRICT": "",
        "SOURCE_DATE_EPOCH": os.environ.get("SOURCE_DATE_EPOCH", EPOCH),
        "FORCE_SOURCE_DATE": "1",
    }


def run_sphinx(root: Path, folder: Path, form: str) -> int:
    """Make what Sphinx makes of the book, below `folder`; return the exit status."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    settings = folder / "_config.yml"
    settings.write_text(yaml.safe_dump(config(root, form)), "utf8")
    builder = {"pdf": "latex", "epub": "epub"}[form]
    arguments = ["build", ".", "-W", "-n", "--keep-going"]
    arguments += ["--config", str(settings), "--path-output", str(folder)]
    arguments += ["--builder", "custom", "--custom-builder", builder]
    with (folder / "build.log").open("w", encoding="utf8") as stream:
        return subprocess.run(
            [sys.executable, "-c", COMMAND, *arguments],
            cwd=root,
            stdout=stream,
            stderr=subprocess.STDOUT,
            env=environment(root),
        ).returncode


# What TeX writes for its next run.
NOTES = (".aux", ".toc", ".out")
PASSES = 5


def run_tex(root: Path, folder: Path) -> int:
    """Set the book until nothing moves any more; return the exit status of the last run."""

    def notes() -> list[bytes]:
        return [
            path.read_bytes()
            for path in (folder / f"{NAME}{end}" for end in NOTES)
            if path.is_file()
        ]

    command = ["xelatex", "-interaction=nonstopmode", "-file-line-error"]
    command += ["-no-shell-escape"]
    for number in range(1, PASSES + 1):
        print(f"       setting the pages, round {number}", flush=True)
        before = notes()
        status = subprocess.run(
            [*command, "-no-pdf", f"{NAME}.tex"],
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment(root),
        ).returncode
        if status or notes() == before:
            break
    if status:
        return status
    return subprocess.run(
        ["xdvipdfmx", "-q", "-E", "-o", f"{NAME}.pdf", f"{NAME}.xdv"],
        cwd=folder,
        env=environment(root),
    ).returncode


EDGE = 4.0  # points beyond the edge that nobody sees


def tex_faults(log: str) -> Iterator[str]:
    """What is wrong with a book, as its log tells."""
    # TeX breaks its lines after 79 bytes, in the middle of words.
    text = re.sub(r"(?<=[^\n]{79})\n", "", log)
    yield from re.findall(
        r"^(?:!|[^\s:]+\.\w+:\d+:) .*", text, re.MULTILINE
    )
    for what in (
        r"Reference `[^']*' on page \S+ undefined",
        r"Citation `[^']*' [^\n]*undefined",
        r"Hyper reference `[^']*' on page \S+ undefined",
        r"Label `[^']*' multiply defined",
        r"Label\(s\) may have changed",
        r"Missing character: There is no .*",
    ):
        yield from sorted(set(re.findall(what, text)))
    for found in re.finditer(
        r"Overfull \\([hv])box \(([\d.]+)pt too (?:wide|high)\).*", text
    ):
        if float(found[2]) > EDGE:
            yield found[0]


def build_pdf(root: Path, folder: Path) -> int:
    if run_sphinx(root, folder, "pdf"):
        return report(folder / "build.log")
    latex = folder / "_build" / "latex"
    status = run_tex(root, latex)
    log = latex / f"{NAME}.log"
    text = log.read_text("utf8", errors="replace") if log.is_file() else ""
    faults = list(tex_faults(text))
    if faults or status:
        return stop(
            f"the PDF was not built ({len(faults)} faults; all of it: {log.relative_to(root)})",
            *(faults[:25] or text.splitlines()[-25:]),
        )
    shutil.copyfile(latex / f"{NAME}.pdf", folder / f"{NAME}.pdf")
    return 0


def build_the_epub(root: Path, folder: Path, node: str) -> int:
    if run_sphinx(root, folder, "epub"):
        return report(folder / "build.log")
    settings = yaml.safe_load((root / "_config.yml").read_text("utf8"))
    tex = settings["sphinx"]["config"]["mathjax3_config"]["tex"]
    print("       setting the formulas", flush=True)
    try:
        build_epub.make(
            folder / "_build" / "epub",
            folder / f"{NAME}.epub",
            {"macros": tex["macros"]},
            node,
            int(environment(root)["SOURCE_DATE_EPOCH"]),
        )
    except build_epub.Fault as fault:
        return stop(f"the ePub was not built: {fault}")
    return 0


def report(log: Path) -> int:
    lines = lines_of(log)
    return stop(
        f"the book was not built, each warning counts as an error (all of it: {log.relative_to(ROOT)})",
        *(warnings_in(lines)[:25] or lines[-25:]),
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Build the book as a file."
    )
    parser.add_argument("form", choices=["pdf", "epub"])
    parser.add_argument("--step", default="", help="such as 3/3")
    parser.add_argument(
        "--clean",
        action="store_true",
        help="build even when nothing changed",
    )
    options = parser.parse_args()
    form = options.form
    label = f"[{options.step}] {form}" if options.step else form
    folder = ROOT / "_build" / form
    made, stamp = folder / f"{NAME}.{form}", folder / ".built-from"
    now = state(ROOT)
    if (
        made.is_file()
        and stamp.is_file()
        and stamp.read_text("utf8") == now
        and not options.clean
    ):
        print(f"{label}: unchanged since it was last built")
        print(f"It is {made.relative_to(ROOT)}.")
        return 0
    missing = missing_for_pdf() if form == "pdf" else []
    try:
        node = build_epub.find_node() if form == "epub" else None
    except SphinxError as error:
        return stop(str(error), "Name a Node.js that can be run.")
    if form == "epub" and node is None:
        return stop(
            "the ePub needs Node.js, which sets its formulas; none was found",
            "On Debian and Ubuntu: apt-get install --no-install-recommends nodejs; or name one: make epub NODE=/path/to/node",
        )
    if missing:
        return stop(
            f"the PDF needs XeLaTeX and its faces; missing: {', '.join(missing)}",
            f"On Debian and Ubuntu: apt-get install --no-install-recommends {TEX_PACKAGES}",
        )
    print(
        f"{label}: building the book as one file (some minutes)", flush=True
    )
    start = time.monotonic()
    if status := (
        build_pdf(ROOT, folder)
        if form == "pdf"
        else build_the_epub(ROOT, folder, node)
    ):
        return status
    stamp.write_text(now, "utf8")
    size = made.stat().st_size / 1e6
    print(f"       built in {time.monotonic() - start:.0f} s")
    print(f"It is {made.relative_to(ROOT)} ({size:.1f} MB).")
    return 0


if __name__ == "__main__":
    sys.exit(main())
