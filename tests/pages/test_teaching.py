"""What the teacher's guide says of the built pages."""

from __future__ import annotations

import importlib.util
import sys

from tests.pages.contents import ROOT


def tool():
    sys.path.append(str(ROOT / "tools"))
    specification = importlib.util.spec_from_file_location(
        "tool_teachers_guide", ROOT / "tools/teachers_guide.py"
    )
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module
    specification.loader.exec_module(module)
    return module


def test_minutes_to_read_are_those_that_the_pages_say(site):
    """If not: ``python tools/teachers_guide.py --fill``."""
    guide = tool()
    chapters = guide.chapters(ROOT, site)
    assert all(one.reading for one in chapters)
    text = (ROOT / "book/teaching.md").read_text("utf8")
    assert guide.filled(text, chapters) == text


def test_the_guide_is_cut_out_of_its_page(site, tmp_path):
    target = tmp_path / "guide.html"
    tool().make_guide(ROOT, site, target)
    text = target.read_text("utf8")
    for needed in (
        '<section id="one-term">',
        "Week 14",
        "<dt>Stumbling blocks</dt>",
        "Exercise 2.1",
        "</main>",
    ):
        assert needed in text, needed
    for never in ("<script", "<link", "<img", "mjx", "headerlink"):
        assert never not in text, never
