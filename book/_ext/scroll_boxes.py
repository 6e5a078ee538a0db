"""Wide formulas scroll in a box of their own, and the keyboard reaches the box.

The style sheet lets formulas scroll, as it does tables and listings. Whether one really does depends on the
reader's screen, so a small script makes a box a stop of the Tab key only while something is hidden in it: a
stop at every formula would be a burden, none at all would shut out whoever has no mouse. For tables and
listings the theme has such a script of its own.
"""

from __future__ import annotations

from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, object]:
    app.add_js_file("scroll_boxes.js", loading_method="defer")
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
