"""A trained model on a page, for readers to ask: ``{translate-here}`` puts a form where numbers are typed and translated.

The model is the one of :mod:`attention_in_detail.trained`, run by the package of the book in the reader's browser, with
what ``live.py`` puts into the site. Nothing is loaded before the button is pressed, which says beforehand how much will
come, and from where. Where nothing can be run, in a book made of paper or where ``live_pyodide`` is empty, the content of the
directive stands instead.
"""

from __future__ import annotations

from html import escape

import attention_viewer
import live
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.docutils import SphinxDirective

FORM = """<div class="live-ask" {data}>
<form autocomplete="off">
<label for="ask-number">A number from 0 to 999,999</label>
<input id="ask-number" type="text" inputmode="numeric" maxlength="24" aria-describedby="ask-says">
<button type="submit">Load the model</button>
</form>
<p class="live-says" id="ask-says" role="status">The model runs in your browser. When you press, Python and NumPy come: up to \
{megabytes}\N{NO-BREAK SPACE}MB from {place}; and its weights: {weights:.1f}\N{NO-BREAK SPACE}MB from this site.</p>
<noscript><p>Without scripts the model does not run here. What stands above is stored, and whole.</p></noscript>
</div>
"""


class TranslateHere(live.RunsPython):
    """A form to ask the model; its content stands where no page can run anything."""


class TranslateHereDirective(SphinxDirective):
    has_content = True

    def run(self) -> list[nodes.Node]:
        self.assert_has_content()
        node = TranslateHere()
        self.state.nested_parse(self.content, self.content_offset, node)
        return [node]


class FormOrContent(SphinxPostTransform):
    """Decide for each builder what stands there."""

    default_priority = 3

    def run(self, **options) -> None:
        for node in list(self.document.findall(TranslateHere)):
            if live.for_readers(self.app) and hasattr(
                self.app, "live_facts"
            ):
                node.attributes |= live.facts_for(
                    self.app, self.env.docname
                )
                node["weights"] = self.app.live_weights
                node.clear()
            else:
                node.replace_self(node.children)


def tell_at_the_top(
    app: Sphinx, doctree: nodes.document, name: str
) -> None:
    """A page that as a whole cannot be run says where its model can be asked."""
    for node in doctree.findall(TranslateHere):
        section = node.parent
        while section is not None and not section.get("ids"):
            section = section.parent
        for notice in doctree.findall(live.LiveNotice):
            notice["asks"] = section["ids"][0]


def visit(self, node: TranslateHere) -> None:
    self.body.append(
        FORM.format(
            data=live.data_of(node),
            megabytes=node["megabytes"],
            place=escape(node["place"]),
            weights=node["weights"] / 1e6,
        )
    )


def depart(self, node: TranslateHere) -> None:
    pass


def load_viewer(
    app: Sphinx, page: str, template: str, context: dict, doctree
) -> None:
    """The page of a form needs the script of the viewer, in which an answer is shown."""
    if doctree is None or next(
        doctree.findall(attention_viewer.Viewer), None
    ):
        return
    if next(doctree.findall(TranslateHere), None):
        app.add_js_file(attention_viewer.SCRIPT, loading_method="defer")


def setup(app: Sphinx) -> dict[str, object]:
    app.setup_extension("live")
    app.add_node(TranslateHere, html=(visit, depart))
    app.add_directive("translate-here", TranslateHereDirective)
    app.add_post_transform(FormOrContent)
    # After live.py, which puts the line there.
    app.connect("doctree-resolved", tell_at_the_top, priority=600)
    app.connect("html-page-context", load_viewer)
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
