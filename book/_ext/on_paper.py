"""What a book without a web site needs: the PDF and the ePub.

The pages of the site stay as they are; these changes are made while a book of another form is put together.

* The front page of the site is a door with signs to its chapters. In a book it becomes a short chapter; the sections
  named in ``paper_leaves_out`` stay on the site.
* What a page tells readers of the site alone stands in ``{only} html``, what it tells readers of a book in
  ``{only} latex or epub``.
* A picture keeps its size, in CSS pixels, as far as the page is wide enough.
"""

from __future__ import annotations

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from symbols import SymbolsHere

FORMS = ("latex", "epub")


def is_book(app: Sphinx) -> bool:
    """Whether what is built is a file to be read as a book, and no site."""
    return app.builder.name in FORMS


class FrontPage(SphinxPostTransform):
    """Leave out of the front page what leads through the site."""

    default_priority = 2

    def run(self, **given: object) -> None:
        if not is_book(self.app):
            return
        root = self.document["source"]
        if self.app.project.path2doc(root) != self.config.root_doc:
            return
        for section in list(self.document.findall(nodes.section)):
            if set(section["ids"]) & set(self.config.paper_leaves_out):
                self.keep_contents(section)
                section.parent.remove(section)

    def keep_contents(self, section: nodes.section) -> None:
        """The chapters hang in the last section of the front page: they move up, with it or without."""
        parent = section.parent
        for found in list(section.findall(nodes.compound)):
            if "toctree-wrapper" in found["classes"]:
                found.parent.remove(found)
                parent.append(found)


class Symbols(SphinxPostTransform):
    """The list of symbols that a pointer opens stays on the site; the table of all has a page of its own."""

    default_priority = 2

    def run(self, **given: object) -> None:
        if is_book(self.app):
            for here in list(self.document.findall(SymbolsHere)):
                here.parent.remove(here)


# Points: what a picture may take of a page, so that two of them and their words fit on it.
WIDEST, HIGHEST = 392, 262
# A pixel in points; a tall picture gets smaller, as long as its words can be read, and one still taller a page.
PIXEL, SMALLEST, PAGE = 0.66, 0.4, 560


def on_page(width: float, height: float) -> float:
    """How wide a picture is on paper, in points, when the screen gives it so many pixels."""
    whole = min(width * PIXEL, WIDEST)
    two = HIGHEST * width / height
    return min(whole, max(two, width * SMALLEST), PAGE * width / height)


class Pictures(SphinxPostTransform):
    """Give pictures of notebooks their size."""

    default_priority = 2

    def run(self, **given: object) -> None:
        if self.app.builder.name == "latex":
            for picture in self.document.findall(nodes.image):
                # Those of notebooks say theirs, see notebook_figures.py.
                if "css_width" not in picture:
                    continue
                width, height = picture["css_width"], picture["css_height"]
                picture["width"] = f"{on_page(width, height):.0f}pt"


def setup(app: Sphinx) -> dict[str, object]:
    app.add_config_value("paper_leaves_out", [], "env")
    app.add_post_transform(FrontPage)
    app.add_post_transform(Pictures)
    app.add_post_transform(Symbols)
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
