"""The tests, as pages of the site: what checks a statement can be read without leaving the book.

    {test}`test_chapter_03.py::test_the_largest_score_wins`

is a link to that test, at its line. It reads as the name does, unless other words stand before it:

    {test}`the largest wins <test_chapter_03.py::test_the_largest_score_wins>`

A page is made for each file of tests that something links to; the labels of claims on it lead back. The tests are
read, never imported: building the book takes none of what testing it takes.
"""

from __future__ import annotations

import ast
import functools
import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.docutils import SphinxRole

FOLDER = "_tests"


@dataclass(frozen=True)
class Test:
    """A function that pytest runs."""

    file: str  # below tests/
    name: str
    line: int
    claims: tuple[str, ...] = field(default=())
    faults: tuple[str, ...] = field(default=())  # marks that cannot be read
    slow: bool = False
    stored: bool = False  # whether it reads what was measured before

    __test__ = False  # this is none itself

    @property
    def key(self) -> str:
        return f"{self.file}::{self.name}"

    @property
    def words(self) -> str:
        """The name as a reader takes it: without the prefix, with spaces."""
        return self.name.removeprefix("test_").replace("_", " ")

    @property
    def page(self) -> str:
        return posixpath.join(FOLDER, self.file.removesuffix(".py"))


def _mark(decorator: ast.expr) -> str | None:
    """``claim`` for ``pytest.mark.claim`` and for ``pytest.mark.claim(...)``."""
    called = (
        decorator.func if isinstance(decorator, ast.Call) else decorator
    )
    dotted = ast.unparse(called)
    return (
        dotted.removeprefix("pytest.mark.")
        if dotted.startswith("pytest.mark.")
        else None
    )


def _claims(
    decorators: list[ast.expr],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    claims, faults = [], []
    for decorator in decorators:
        if _mark(decorator) != "claim":
            continue
        arguments = (
            decorator.args if isinstance(decorator, ast.Call) else []
        )
        words = [
            argument.value
            for argument in arguments
            if isinstance(argument, ast.Constant)
            and isinstance(argument.value, str)
        ]
        claims += words
        if not words or len(words) != len(arguments):
            faults.append(
                f"line {decorator.lineno}: write the labels of a claim as plain strings"
            )
    return tuple(claims), tuple(faults)


def _misplaced(tree: ast.Module) -> list[int]:
    """The lines of marks that would be run and not read: on classes, in parametrize, on a whole module."""
    read = {
        id(node)
        for test in tree.body
        if isinstance(test, ast.FunctionDef)
        and test.name.startswith("test_")
        for decorator in test.decorator_list
        if _mark(decorator) == "claim"
        for node in ast.walk(decorator)
    }
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and ast.unparse(node) == "pytest.mark.claim"
        and id(node) not in read
    ]


# The functions that give measurements of an earlier run.
STORED = ("experiment", "stored_result", "stored_arrays")
STORED += ("stored_maps", "stored_crossings")


def _reads_stored(tree: ast.Module) -> set[str]:
    """The names of a file, functions and values, that come from stored measurements, however far."""
    known = set(STORED)
    fixtures = {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and any(
            "fixture" in ast.unparse(one) for one in node.decorator_list
        )
    }

    def reads(node: ast.AST) -> bool:
        parts = list(ast.walk(node))
        names = [part for part in parts if isinstance(part, ast.Name)]
        own = {name.id for name in names if isinstance(name.ctx, ast.Store)}
        given = {part.arg for part in parts if isinstance(part, ast.arg)}
        used = {name.id for name in names} - own - given
        return bool(known & (used | (given & fixtures)))

    while True:
        before = len(known)
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and reads(node):
                known.add(node.name)
            elif isinstance(node, ast.Assign) and reads(node.value):
                known |= {
                    part.id
                    for target in node.targets
                    for part in ast.walk(target)
                    if isinstance(part, ast.Name)
                }
        if len(known) == before:
            return known


@functools.lru_cache(maxsize=8)
def read_tests(folder: Path) -> dict[str, Test]:
    """All tests below a folder, by ``file::name``."""
    found = {}
    for path in sorted(folder.rglob("test_*.py")):
        file = path.relative_to(folder).as_posix()
        tree = ast.parse(path.read_text("utf8"))
        for line in _misplaced(tree):
            fault = f"line {line}: a claim is marked on a test function, directly"
            found[f"{file}::line {line}"] = Test(
                file, "", line, faults=(fault,)
            )
        # A mark on all tests of a module, if there is one.
        slow_file = bool(
            re.search(
                r"^pytestmark\s*=.*\bslow\b",
                path.read_text("utf8"),
                re.MULTILINE,
            )
        )
        stored = _reads_stored(tree)
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith(
                "test_"
            ):
                claims, faults = _claims(node.decorator_list)
                slow = slow_file or any(
                    _mark(one) == "slow" for one in node.decorator_list
                )
                test = Test(
                    file,
                    node.name,
                    node.lineno,
                    claims,
                    faults,
                    slow,
                    node.name in stored,
                )
                found[test.key] = test
    return found


def tests_of(app: Sphinx) -> dict[str, Test]:
    return read_tests(Path(app.confdir) / "tests")


def has_pages(app: Sphinx) -> bool:
    """Whether the tests have pages: those of the site have, a book to be printed or carried has none."""
    return app.builder.format == "html" and app.builder.name != "epub"


def link(
    app: Sphinx, docname: str, test: Test, text: str
) -> nodes.reference | nodes.emphasis:
    """A link from a page to a test, or its name where there is no page. Whoever makes one also calls `keep`."""
    if not has_pages(app):
        return nodes.emphasis("", text)
    uri = f"{app.builder.get_relative_uri(docname, test.page)}#{test.name}"
    return nodes.reference(
        "", text, refuri=uri, internal=True, classes=["test"]
    )


class TestLink(nodes.General, nodes.Inline, nodes.TextElement):
    """A place for a link, made when the kind of output is known."""

    __test__ = False


class TestRole(SphinxRole):
    __test__ = False

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        words, key = re.fullmatch(
            r"(?:(.*?)\s*<)?(.*?)>?", self.text, re.DOTALL
        ).groups()
        test = read_tests(Path(self.env.srcdir) / "tests").get(key)
        if test is None:
            told = self.inliner.reporter.error(
                f"there is no test {key}; a test is named as {{test}}`file.py::name`, the file below tests/",
                line=self.lineno,
            )
            return [
                self.inliner.problematic(self.rawtext, self.rawtext, told)
            ], [told]
        keep(self.env, self.env.docname, test)
        return [TestLink("", words or test.words, key=test.key)], []


def keep(env: BuildEnvironment, docname: str, test: Test) -> None:
    """Remember that a page links to this test, so that its file gets a page."""
    if not hasattr(env, "linked_tests"):
        env.linked_tests = {}
    env.linked_tests.setdefault(docname, set()).add(test.file)


def forget(app: Sphinx, env: BuildEnvironment, docname: str) -> None:
    getattr(env, "linked_tests", {}).pop(docname, None)


def resolve(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    for node in list(doctree.findall(TestLink)):
        test = tests_of(app)[node["key"]]
        node.replace_self(link(app, docname, test, node.astext()))


def breakable(name: str) -> str:
    """The name of a file, which a narrow screen may break between its words."""
    return re.sub(r"([/_])", r"\1<wbr>", escape(name))


def with_links(app: Sphinx, page: str, listing: str) -> str:
    """The labels of claims lead to the statements."""

    def linked(found: re.Match[str]) -> str:
        stated = getattr(app.env, "proof_list", {}).get(found[2])
        if stated is None:
            return found[0]
        uri = app.builder.get_relative_uri(page, stated["docname"])
        return (
            f'{found[1]}<a href="{uri}#{found[2]}">{found[2]}</a>{found[3]}'
        )

    return re.sub(
        r'(>(?:"|&quot;))([a-z]+-[\w-]+)((?:"|&quot;)<)', linked, listing
    )


def listing(highlighted: str, tests: list[Test]) -> str:
    """The source as HTML, in which the line of each test is a place to link to."""
    opening, rest = highlighted.split("<pre>", 1)
    lines = rest.split("\n")
    for test in tests:
        # Pygments may begin the text with an empty span, on the first line.
        lines[test.line - 1] = (
            f'<span class="test-line" id="{escape(test.name)}">{lines[test.line - 1]}</span>'
        )
    # What scrolls sideways has to be reachable from the keyboard.
    return f'{opening}<pre tabindex="0">' + "\n".join(lines)


def collect(app: Sphinx) -> Iterator[tuple[str, dict[str, object], str]]:
    if not has_pages(app):
        return
    by_file: dict[str, list[Test]] = {}
    for test in tests_of(app).values():
        by_file.setdefault(test.file, []).append(test)
    wanted = set().union(*getattr(app.env, "linked_tests", {}).values())
    for file in sorted(wanted):
        source = (Path(app.confdir) / "tests" / file).read_text("utf8")
        highlighted = app.builder.highlighter.highlight_block(
            source, "python", linenos=False
        )
        name, page = f"tests/{file}", by_file[file][0].page
        lines = with_links(app, page, listing(highlighted, by_file[file]))
        yield (
            page,
            {
                "title": name,
                "body": f"<h1>{breakable(name)}</h1>\n{lines}",
            },
            "page.html",
        )


def setup(app: Sphinx) -> dict[str, object]:
    app.add_node(TestLink)
    app.add_role("test", TestRole())
    app.connect("env-purge-doc", forget)
    app.connect("doctree-resolved", resolve)
    app.connect("html-collect-pages", collect)
    return {
        "version": "1",
        # What is kept in the environment is not merged.
        "parallel_read_safe": False,
        "parallel_write_safe": True,
    }
