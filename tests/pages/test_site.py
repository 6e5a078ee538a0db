"""The built pages, read as files: they exist, their links hold, and they fetch nothing from elsewhere."""

from __future__ import annotations

import ast
import re

import pytest

from tests.pages import site_faults
from tests.pages.contents import ROOT, pages, title
from tests.pages.site_faults import Site

# What leads elsewhere, and what Sphinx makes without a title that an extension sees.
NO_PREVIEW = {"404.html", "index.html", "search.html"}
NO_PREVIEW |= {"genindex.html", "py-modindex.html"}


@pytest.fixture(scope="module")
def built(site):
    return Site(site)


@pytest.mark.parametrize(
    "look",
    [
        site_faults.loads_from_elsewhere,
        site_faults.broken_links,
        site_faults.missing_words,
        site_faults.jumping_pictures,
        site_faults.untold_pages,
        site_faults.faulty_headings,
        site_faults.unrendered_text,
    ],
    ids=lambda look: look.__name__,
)
def test_the_site_has_no(look, built):
    assert look(built) == []


def test_every_entry_of_the_contents_has_its_page(built):
    names = pages()
    assert len(names) >= 14
    titles = {name: title(name) for name in names}
    assert site_faults.missing_pages(built, names, titles) == []


def test_each_page_names_the_one_before_and_the_one_after(built):
    names = pages()
    for before, name, after in zip(
        [None, *names], names, [*names[1:], None], strict=False
    ):
        page = built.pages[built.root / f"{name}.html"]
        for side, other in (("left-prev", before), ("right-next", after)):
            link = page.select_one(f".prev-next-area a.{side}")
            if other is None:
                assert link is None
                continue
            there = (built.root / f"{name}.html").parent / link["href"]
            assert built.name(there.resolve()) == f"{other}.html"
            words = link.select_one(".prev-next-title").get_text()
            assert words.endswith(title(other).replace("`", ""))


def test_the_front_door_leads_to_the_front_page(built):
    door = built.pages[built.root / "index.html"]
    assert door.find("meta", attrs={"http-equiv": "refresh"})[
        "content"
    ].endswith("book/index.html")
    assert door.a["href"] == "book/index.html"


def test_the_page_for_what_is_not_there_holds_at_any_depth(built):
    page = built.pages[built.root / "404.html"]
    assert site_faults.prefix_of(page)
    found = [link["href"] for link in page.article.find_all("a", href=True)]
    for name in ("book/index.html", "search.html"):
        assert f"{site_faults.prefix_of(page)}{name}" in found
    assert not page.find("link", rel="canonical")


def test_the_title_of_the_front_page_says_the_name_once(built):
    page = built.pages[built.root / "book/index.html"]
    assert page.title.get_text() == title("book/index")
    assert page.select_one(".logo").get_text().strip() == title(
        "book/index"
    )


def test_each_page_says_what_a_preview_shows(built):
    for path, page in built.pages.items():
        if "_modules" in path.parts or built.name(path) in NO_PREVIEW:
            continue
        said = {
            tag["property"]: tag["content"]
            for tag in page.find_all("meta", property=re.compile("^og:"))
        }
        assert page.title.get_text().startswith(said["og:title"])
        told = page.find("meta", attrs={"name": "description"})["content"]
        assert said["og:description"] == told, built.name(path)


def test_where_the_site_lives_is_said_by_all_pages_or_by_none(built):
    """On a machine that knows of no home, none; with one, each page its own address, all of them on the map."""
    addresses = {
        built.name(path): link["href"]
        for path, page in built.pages.items()
        if (link := page.find("link", rel="canonical"))
    }
    site_map = built.root / "sitemap.xml"
    if not addresses:
        assert not site_map.exists()
        return
    front = addresses.pop("index.html")
    home = front.removesuffix("book/index.html")
    assert front == f"{home}book/index.html"
    assert addresses == {name: f"{home}{name}" for name in addresses}
    assert {built.name(path) for path in built.pages} == {
        *addresses,
        "404.html",
        "index.html",
    }
    listed = re.findall("<loc>(.*?)</loc>", site_map.read_text("utf8"))
    assert sorted(listed) == sorted(
        f"{home}{name}.html" for name in pages()
    )


def test_every_figure_stands_with_its_words(built):
    figures = 0
    for path, page in built.pages.items():
        for image in page.select("img.notebook-figure"):
            figures += 1
            words = image.find_next("details", class_="figure-in-words")
            told = " ".join(words.get_text().split())
            assert " ".join(image["alt"].split()) in told, built.name(path)
            assert "open" not in words.attrs
    assert figures >= 7  # each chapter has one


def test_listings_are_highlighted(built):
    listings = [
        block
        for page in built.pages.values()
        for block in page.select("div.cell_output div.highlight-python")
    ]
    assert listings
    assert all(block.select_one("span.k") for block in listings)


def test_only_what_is_needed_of_mathjax_is_there(built):
    folder = built.root / "_static" / "mathjax"
    names = {path.name for path in folder.iterdir()}
    whole = {"tex-chtml-full.js", "a11y", "output"}
    assert names in ({"formulas.css", "output"}, whole)
    size = sum(
        file.stat().st_size for file in folder.rglob("*") if file.is_file()
    )
    assert size < (3_000_000 if names == whole else 500_000)


def test_the_corrections_name_the_tests_that_there_are():
    """Each correction in a box is the claim of a test, and each of their tests has a correction as its claim."""
    page = (ROOT / "book" / "corrections.md").read_text("utf8")
    tests = (ROOT / "tests" / "test_corrections.py").read_text("utf8")
    claims = {
        function.name: {
            argument.value
            for mark in function.decorator_list
            if isinstance(mark, ast.Call)
            and ast.unparse(mark.func) == "pytest.mark.claim"
            for argument in mark.args
            if argument.value.startswith("cor-")
        }
        for function in ast.parse(tests).body
        if isinstance(function, ast.FunctionDef)
        and function.name.startswith("test_")
    }
    assert [name for name, labels in claims.items() if not labels] == []
    boxes = re.findall(
        r"^:::\{prf:remark\} \S.*\n:label: (cor-\S+)$", page, re.MULTILINE
    )
    assert len(boxes) == len(set(boxes)) > 20
    assert set().union(*claims.values()) == set(boxes)


# Negative controls: each check is shown a page with the fault that it looks for.

GOOD = """<html><head><title>A page</title>
<meta name="description" content="A page that is there to be checked.">
<link rel="stylesheet" href="style.css"></head>
<body><article><h1 id="top">A page</h1><h2>More</h2><a href="#top">up</a>
<div class="cell_output"><img src="picture.png" alt="A line that rises." width="10" height="10"></div>
</article></body></html>"""

FAULTS = [
    ("loads_from_elsewhere", "</body>", '<script src="https://example.org/a.js"></script>'),
    ("loads_from_elsewhere", "</body>", '<script src="//example.org/a.js"></script>'),
    ("loads_from_elsewhere", "</body>", '<iframe src="https://example.org"></iframe>'),
    ("loads_from_elsewhere", "</body>", '<img alt="A line." srcset="https://example.org/a.png 2x">'),
    ("loads_from_elsewhere", "</body>", "<p style=\"background: url('http://example.org/a.png')\"></p>"),
    ("loads_from_elsewhere", "</head>", '<style>@import "https://example.org/a.css";</style>'),
    ("loads_from_elsewhere", "</head>", '<link rel="preload" href="https://example.org/a.woff2">'),
    ("broken_links", "</body>", '<a href="nowhere.html">x</a>'),
    ("broken_links", "</body>", '<a href="#nowhere">x</a>'),
    ("broken_links", "</body>", '<a href="/index.html">x</a>'),
    ("broken_links", "</body>", '<script src="nowhere.js"></script>'),
    ("missing_words", "</body>", '<img src="picture.png">'),
    ("missing_words", "</body>", '<img src="picture.png" alt=" ">'),
    ("missing_words", "</body>", '<img src="picture.png" alt="../_images/picture.png">'),
    ("missing_words", "</body>", '<img src="picture.png" alt="0123456789abcdef0123">'),
    ("missing_words", "</body>", '<svg role="img"></svg>'),
    ("jumping_pictures", "</article>", '<div class="cell_output"><img src="picture.png" alt="A" width="3"></div>'),
    ("faulty_headings", "</article>", "<h1>Another title</h1>"),
    ("faulty_headings", "</article>", "<h4>Two levels left out</h4>"),
    ("unrendered_text", "</article>", "<p>See {numref}`fig-a`.</p>"),
    ("unrendered_text", "</article>", "<p>:::{prf:remark}</p>"),
]  # fmt: skip


@pytest.fixture
def small(tmp_path):
    def write(html, css="p { color: black; }"):
        (tmp_path / "page.html").write_text(html, "utf8")
        (tmp_path / "style.css").write_text(css, "utf8")
        (tmp_path / "picture.png").write_bytes(b"")
        return Site(tmp_path)

    return write


@pytest.mark.parametrize(
    "look", sorted({name for name, _, _ in FAULTS} | {"untold_pages"})
)
def test_a_good_page_passes(look, small):
    assert getattr(site_faults, look)(small(GOOD)) == []


@pytest.mark.parametrize(("look", "before", "fault"), FAULTS)
def test_a_fault_is_found(look, before, fault, small):
    assert (
        len(
            getattr(site_faults, look)(
                small(GOOD.replace(before, fault + before))
            )
        )
        == 1
    )


@pytest.mark.parametrize(
    ("address", "faults"),
    [
        ("/book/page.html", 0),
        ("#top", 0),
        ("page.html", 1),
        ("/page.html", 1),
        ("/book/nowhere.html", 1),
    ],
)
def test_a_page_that_is_shown_at_any_depth_has_links_from_the_root(
    address, faults, small
):
    html = GOOD.replace("<html>", '<html data-content_root="/book/">')
    html = re.sub('(href|src)="([a-z])', r'\1="/book/\2', html)
    html = html.replace("</body>", f'<a href="{address}">x</a></body>')
    assert len(site_faults.broken_links(small(html))) == faults


@pytest.mark.parametrize(
    "taken",
    [
        r"<title>.*</title>",
        r'<meta name="description"[^>]*>',
        "that is there.*checked",
    ],
)
def test_a_page_that_does_not_say_what_it_is_is_found(taken, small):
    html, number = re.subn(taken, "", GOOD)
    assert number == 1
    assert len(site_faults.untold_pages(small(html))) == 1


@pytest.mark.parametrize(
    ("look", "css"),
    [
        ("loads_from_elsewhere", '@import "https://example.org/a.css";'),
        (
            "loads_from_elsewhere",
            "p { background: url(https://example.org/a.png); }",
        ),
        ("broken_links", "p { background: url('nowhere.png'); }"),
        ("broken_links", '@import "nowhere.css";'),
    ],
)
def test_a_fault_in_a_style_sheet_is_found(look, css, small):
    assert len(getattr(site_faults, look)(small(GOOD, css))) == 1


def test_a_page_that_is_missing_or_has_another_title_is_found(small):
    site = small(GOOD)
    titles = {"page": "Another", "absent": "A page"}
    assert (
        len(site_faults.missing_pages(site, ["page", "absent"], titles))
        == 2
    )
    assert (
        site_faults.missing_pages(site, ["page"], {"page": "A page"}) == []
    )
