"""Attention viewers of the notebooks on the pages of the book: the data on the page, the script once for all pages.

The output of a cell carries a viewer as HTML, complete with script and picture, for whoever runs the notebook. A page
takes its data from there and nothing else. The script, the same source, becomes one file of the site, and only pages
with a viewer load it. There it builds a viewer when the reader comes near, one screen before it is seen, and not while the
page loads (``light_viewers: false`` in ``_config.yml``: at once, as in a notebook). The picture is that of the output, in a
file of its own; it stands inside the viewer for readers without scripts and for paper. Builders of other formats, ePub
among them, take the picture alone.
"""

from __future__ import annotations

import functools
import importlib.util
from html import escape
from html.parser import HTMLParser
from pathlib import Path

from docutils import nodes
from myst_nb.core.render import MimeData, NbElementRenderer
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

TAG = "attention-viewer"
SCRIPT = "attention_viewer.js"
# Around the script on a page: what it defines as the element waits for the reader.
WAITING = """// On a page a viewer is built when its reader comes near; until then its picture stands there.
((elements) => {
  const near = new IntersectionObserver(
    (seen) => {
      for (const { target, isIntersecting } of seen) {
        if (!isIntersecting) continue;
        near.unobserve(target);
        target.begin();
      }
    },
    { rootMargin: "100% 0px" },
  );
  const define = (name, Viewer) =>
    elements.define(
      name,
      class extends Viewer {
        connectedCallback() {
          this.shadowRoot ? super.connectedCallback() : near.observe(this);
        }
        begin() {
          super.connectedCallback();
        }
        disconnectedCallback() {
          near.unobserve(this);
          super.disconnectedCallback();
        }
      },
    );
  const customElements = { define, get: (name) => elements.get(name) };
SOURCE})(customElements);
"""


class Viewer(nodes.General, nodes.Element):
    """A viewer; its child is the picture that stands for it where no script runs."""


class FirstTag(HTMLParser):
    """Reads the attributes of the first tag of an output."""

    attributes: dict[str, str] | None = None

    def handle_starttag(self, tag: str, attributes: list) -> None:
        if self.attributes is None:
            self.attributes = dict(attributes)


def data_of(html: str) -> dict[str, str] | None:
    """The attributes of a viewer, or None for any other output."""
    if not html.startswith(f"<{TAG} "):
        return None
    parser = FirstTag()
    parser.feed(html)
    return parser.attributes


def script_file() -> Path:
    """Where the package keeps the script. Finding it loads no module, since a book is built without matplotlib."""
    spec = importlib.util.find_spec("attention_in_detail")
    return Path(spec.submodule_search_locations[0]) / "figures" / SCRIPT


def render_html(
    self: NbElementRenderer, data: MimeData, plain
) -> list[nodes.Element]:
    attributes = data_of(data.string)
    if attributes is None:
        return plain(self, data)
    return [Viewer("", data=attributes)]


class PictureIntoViewer(SphinxPostTransform):
    """Put the picture of an output into its viewer; where the pages know no script, leave the picture alone.

    It runs before MyST-NB chooses one form of each output.
    """

    default_priority = 3

    def run(self, **options) -> None:
        builder = self.app.builder
        scripts = builder.format == "html" and builder.name != "epub"
        for viewer in list(self.document.findall(Viewer)):
            form = viewer.parent
            if scripts:
                pictures = [
                    other
                    for other in form.parent.children
                    if other.get("mime_type") == "image/png"
                ]
                viewer.extend(
                    child.deepcopy()
                    for other in pictures
                    for child in other.children
                )
            else:
                form.parent.remove(form)


def visit(self, node: Viewer) -> None:
    given = " ".join(
        f'{name}="{escape(value)}"' for name, value in node["data"].items()
    )
    self.body.append(f"<{TAG} {given}>\n")


def depart(self, node: Viewer) -> None:
    self.body.append(f"</{TAG}>\n")


def load_script(
    app: Sphinx, page: str, template: str, context: dict, doctree
) -> None:
    """Sphinx takes a script that is added here for one of this page alone."""
    if doctree is not None and next(doctree.findall(Viewer), None):
        app.add_js_file(SCRIPT, loading_method="defer")


def copy_script(app: Sphinx) -> None:
    """Before the pages are written, so that their address of the script can name its checksum."""
    if app.builder.format == "html" and app.builder.name != "epub":
        static = Path(app.outdir) / "_static"
        static.mkdir(parents=True, exist_ok=True)
        text = script_file().read_text("utf8")
        if app.config.light_viewers:
            text = WAITING.replace("SOURCE", text)
        (static / SCRIPT).write_text(text, "utf8")


def setup(app: Sphinx) -> dict[str, object]:
    # Wrapped for the same reason, and in the same way, as the pictures in notebook_figures.py.
    plain = NbElementRenderer.render_text_html
    if not hasattr(plain, "__wrapped__"):

        @functools.wraps(plain)
        def wrapped(
            self: NbElementRenderer, data: MimeData
        ) -> list[nodes.Element]:
            return render_html(self, data, plain)

        NbElementRenderer.render_text_html = wrapped
    app.add_config_value("light_viewers", True, "html", [bool])
    app.add_node(Viewer, html=(visit, depart))
    app.add_post_transform(PictureIntoViewer)
    app.connect("builder-inited", copy_script)
    app.connect("html-page-context", load_script)
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
