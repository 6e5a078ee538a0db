"""Small books that are built with extensions of the book, and their pages read back."""

import subprocess
import sys

from bs4 import BeautifulSoup

from tests.extension_support import EXTENSIONS

SETTINGS = f"""
import sys
sys.path.insert(0, {str(EXTENSIONS)!r})
html_theme = "basic"
project, copyright, version = "A book", "2026", "1"
"""


def assert_built(folder, settings, page, text, builder="html"):
    """Build a book of a front page and one more, without a warning; return the folder of what was made.

    Args:
        folder: an empty one, or that of an earlier build.
        settings: what ``conf.py`` says beyond what all these books have.
        page: the file of the page, as in ``"sub/one.md"``.
        text: what stands in it.
        builder: the one of Sphinx.
    """
    source, out = folder / "source", folder / "out"
    front = f"# Front\n\n```{{toctree}}\n{page.rpartition('.')[0]}\n```\n"
    files = {
        "conf.py": SETTINGS + settings,
        "index.md": front,
        page: text,
    }
    for name, content in files.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(content, "utf8")
    options = ["-b", builder, "-q", "-W", "-E", "-d", folder / "read"]
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *options, source, out],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return out


def page_of(out, name):
    html = (out / f"{name}.html").read_text("utf8")
    return BeautifulSoup(html, "html.parser")
