"""Figures of notebooks: their text alternative and their size reach the page.

A stored picture carries ``{"image/png": {"alt": ..., "width": ..., "height": ...}}`` in the metadata of its
output, sizes in CSS pixels. MyST-NB passes on the size as a style and drops the rest. Here the picture becomes
an ``<img>`` with all three as attributes, so that the page does not jump while it loads, and the text
alternative stands under the figure as well, closed, for whoever would rather read than look.

A picture without a text alternative, or without a size, is a warning that names notebook and cell.
"""

from __future__ import annotations

import functools
import re
from html import escape

from docutils import nodes
from myst_nb.core.render import MimeData, NbElementRenderer
from sphinx.application import Sphinx

# "<Figure size 640x480 with 1 Axes>", a file's name or a hash say nothing to someone who cannot see the picture.
SAYS_NOTHING = re.compile(
    r"\s*(<.*>|\S+\.(png|svg|jpe?g|gif)|[0-9a-f]{16,}\S*)?\s*",
    re.IGNORECASE,
)


class NotebookImage(nodes.image):
    """A picture from a notebook's output. Builders other than HTML treat it as any image."""


class FigureInWords(nodes.General, nodes.Element):
    """The text alternative of a figure, to be opened on demand."""


def faults(metadata: dict) -> list[str]:
    """What is missing from the metadata of a picture."""
    found = []
    if SAYS_NOTHING.fullmatch(str(metadata.get("alt") or "")):
        found.append("no text alternative ('alt')")
    for key in ("width", "height"):
        value = metadata.get(key)
        if (
            isinstance(value, bool)
            or not isinstance(value, (int, float))
            or value <= 0
        ):
            found.append(f"no '{key}' in CSS pixels")
    return found


def render_image(
    self: NbElementRenderer, data: MimeData, plain
) -> list[nodes.Element]:
    metadata = dict(data.output_metadata.get(data.mime_type) or {})
    missing = faults(metadata)
    if missing:
        self.logger.warning(
            f"picture in the output of cell {(data.cell_index or 0) + 1} ({data.mime_type}): "
            + ", ".join(missing),
            subtype="picture",
            line=data.line,
        )
        return plain(self, data)
    (image,) = plain(self, data)
    attributes = {
        key: value
        for key, value in image.attributes.items()
        if key not in ("width", "height")
    }
    # "dark-light" is the theme's word for: this picture reads on both grounds, change nothing.
    attributes["classes"] = [
        *attributes.get("classes", []),
        "dark-light",
        "notebook-figure",
    ]
    return [
        NotebookImage(
            **attributes | {"alt": metadata["alt"]},
            css_width=round(metadata["width"]),
            css_height=round(metadata["height"]),
        )
    ]


def add_words(app: Sphinx, document: nodes.document) -> None:
    """Put the words after the figure, or after the picture where there is no figure round it."""
    for image in list(document.findall(NotebookImage)):
        place: nodes.Element = image
        ancestor = image.parent
        while ancestor is not None:
            if isinstance(ancestor, nodes.figure):
                place = ancestor
            ancestor = ancestor.parent
        paragraphs = re.split(r"\n\s*\n", image["alt"].strip())
        words = FigureInWords(
            "", *(nodes.paragraph(text, text) for text in paragraphs)
        )
        place.parent.insert(place.parent.index(place) + 1, words)


def visit_image(self, node: NotebookImage) -> None:
    path = self.builder.images.get(node["uri"])
    source = f"{self.builder.imgpath}/{path}" if path else node["uri"]
    self.body.append(
        f'<img alt="{escape(node["alt"])}" class="{" ".join(node["classes"])}" src="{escape(source)}"'
        f' width="{node["css_width"]}" height="{node["css_height"]}">\n'
    )


def visit_words(self, node: FigureInWords) -> None:
    self.body.append(
        '<details class="figure-in-words">\n<summary>This figure in words</summary>\n'
    )


def depart_words(self, node: FigureInWords) -> None:
    self.body.append("</details>\n")


def nothing(self, node: nodes.Node) -> None:
    pass


def skip(self, node: nodes.Node) -> None:
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, object]:
    # MyST-NB finds renderers by entry point only, and a folder of the book has none; so its method is wrapped,
    # once, however often a process builds.
    plain = NbElementRenderer.render_image
    if not hasattr(plain, "__wrapped__"):

        @functools.wraps(plain)
        def wrapped(
            self: NbElementRenderer, data: MimeData
        ) -> list[nodes.Element]:
            return render_image(self, data, plain)

        NbElementRenderer.render_image = wrapped
    app.add_node(NotebookImage, html=(visit_image, nothing))
    app.add_node(
        FigureInWords,
        html=(visit_words, depart_words),
        latex=(skip, None),
        text=(skip, None),
        man=(skip, None),
        texinfo=(skip, None),
    )
    app.connect("doctree-read", add_words)
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
