"""Figures of notebooks: their text alternative, their size and their inks for a dark page reach the page.

A stored picture carries ``{"image/png": {"alt": ..., "width": ..., "height": ...}}`` in the metadata of its
output, sizes in CSS pixels. MyST-NB passes on the size as a style and drops the rest. Here the picture becomes
an ``<img>`` with all three as attributes, so that the page does not jump while it loads, and the text
alternative stands under the figure as well, closed, for whoever would rather read than look.

A picture that was drawn in two sets of inks carries those for a dark page as ``dark_palette``: the palette that takes the
place of its own. The build writes it as a second file, and a second ``<img>`` follows the first. The style sheet of the book
shows the one that goes with the theme, and nothing but the attribute ``data-theme`` of the page decides: so it is the switch
of the page that counts, and no script has to run. A picture that is not shown is not loaded, since both are lazy. The second
is ``hidden`` besides, so that whatever knows no style sheet, such as the reading view of a browser, shows the figure once.
On paper, in a PDF and in an ePub the first one stands alone.

A picture without a text alternative, or without a size, is a warning that names notebook and cell.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import re
from base64 import b64decode, b64encode
from html import escape
from pathlib import Path

from docutils import nodes
from myst_nb.core.render import MimeData, NbElementRenderer
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

# "<Figure size 640x480 with 1 Axes>", a file's name or a hash say nothing to someone who cannot see the picture.
SAYS_NOTHING = re.compile(
    r"\s*(<.*>|\S+\.(png|svg|jpe?g|gif)|[0-9a-f]{16,}\S*)?\s*",
    re.IGNORECASE,
)


class NotebookImage(nodes.image):
    """A picture from a notebook's output. Builders other than HTML treat it as any image."""


class DarkImage(NotebookImage):
    """The same picture in its inks for a dark page, directly after it; on pages alone."""


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


def palette_module():
    """The module of the package that changes palettes. Loading it loads no other, and so no matplotlib."""
    package = importlib.util.find_spec("attention_in_detail")
    folder = Path(package.submodule_search_locations[0]) / "figures"
    found = importlib.util.spec_from_file_location(
        "figures_palette", folder / "_palette.py"
    )
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


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
    contents = [data.content]
    if "dark_palette" in metadata:
        dark = palette_module().with_palette(
            b64decode(data.content), b64decode(metadata["dark_palette"])
        )
        contents.append(b64encode(dark).decode("ascii"))
    found: list[nodes.Element] = []
    for content in contents:
        (image,) = plain(self, dataclasses.replace(data, content=content))
        attributes = {
            key: value
            for key, value in image.attributes.items()
            if key not in ("width", "height")
        }
        # "dark-light" is the theme's word for: leave this picture as it is.
        classes = ["dark-light", "notebook-figure"]
        if len(contents) > 1:
            classes.append("on-dark" if found else "on-light")
        attributes["classes"] = [*attributes.get("classes", []), *classes]
        kind = DarkImage if found else NotebookImage
        found.append(
            kind(
                **attributes | {"alt": metadata["alt"]},
                css_width=round(metadata["width"]),
                css_height=round(metadata["height"]),
            )
        )
    return found


def add_words(app: Sphinx, document: nodes.document) -> None:
    """Put the words after the figure, or after the picture where there is no figure round it."""
    for image in list(document.findall(NotebookImage)):
        if isinstance(image, DarkImage):
            continue
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
        index = place.parent.index(place) + 1
        after = place.parent.children[index : index + 1]
        if any(isinstance(node, DarkImage) for node in after):
            index += 1
        place.parent.insert(index, words)


class OneDrawing(SphinxPostTransform):
    """Leave the drawing for a light page alone where no theme can be chosen."""

    # Before MyST-NB chooses one form of each output, and the picture of a viewer is copied.
    default_priority = 2

    def run(self, **given: object) -> None:
        builder = self.app.builder
        if builder.format == "html" and builder.name != "epub":
            return
        for image in list(self.document.findall(DarkImage)):
            image.parent.remove(image)


def visit_image(self, node: NotebookImage) -> None:
    path = self.builder.images.get(node["uri"])
    source = f"{self.builder.imgpath}/{path}" if path else node["uri"]
    # Which of two is shown is known only when the page is laid out: neither may be fetched before.
    lazy = (
        ' loading="lazy"'
        if {"on-light", "on-dark"} & {*node["classes"]}
        else ""
    )
    hidden = " hidden" if isinstance(node, DarkImage) else ""
    self.body.append(
        f'<img alt="{escape(node["alt"])}" class="{" ".join(node["classes"])}"{lazy} src="{escape(source)}"'
        f' width="{node["css_width"]}" height="{node["css_height"]}"{hidden}>\n'
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
    for kind in (NotebookImage, DarkImage):
        app.add_node(kind, html=(visit_image, nothing))
    app.add_node(
        FigureInWords,
        html=(visit_words, depart_words),
        latex=(skip, None),
        text=(skip, None),
        man=(skip, None),
        texinfo=(skip, None),
    )
    app.connect("doctree-read", add_words)
    app.add_post_transform(OneDrawing)
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
