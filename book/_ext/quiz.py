"""The quiz: questions with answers to choose from, all of them in one file, ``book/quiz.yml``; ``{quiz}`` shows them.

A question has one right option. Every option says why it holds or does not, and which places of the book show it: a block
with a label, a figure or an exercise, or a section, ``02_attention#what-can-go-wrong``. They become references that Sphinx
resolves, so a place that is gone stops the strict build.

The questions come first, the answers with their explanations after them, each once. That is the whole of it on paper and
without scripts. ``quiz.js`` makes the questions answerable: it copies the explanation of what was chosen under the question.
"""

from __future__ import annotations

import functools
import string
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path

import yaml
from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.docutils import SphinxDirective
from sphinx.util.nodes import make_refnode
from symbols import SymbolsHere, page_link, titled_section

LETTERS = string.ascii_uppercase
# The labels of blocks begin with their kind; of figures and exercises the number is shown.
BLOCKS = ("def-", "prop-", "thm-", "rem-", "obs-", "cor-")
NUMBERED = ("fig-", "ex-")
# Pages whose blocks are counted apart from those of the chapters: there a number alone says too little.
COUNTED_APART = {
    "cor-": " of the corrections",
    "obs-bugs-": " of the classic bugs",
}
CHAPTERS = "notebooks/"


# ---- the file ----


@dataclass(frozen=True)
class Option:
    text: str
    right: bool
    why: str
    see: tuple[str, ...]


@dataclass(frozen=True)
class Question:
    name: str
    chapter: str
    ask: str
    options: tuple[Option, ...]
    number: int
    part: str
    # A function of tests/quiz_answers.py that computes the answer; empty where none can.
    computed: str = ""

    @property
    def anchor(self) -> str:
        return f"quiz-{self.name}"

    @property
    def answer(self) -> str:
        return f"answer-{self.name}"

    @property
    def right(self) -> int:
        [place] = [n for n, one in enumerate(self.options) if one.right]
        return place

    @property
    def letter(self) -> str:
        return LETTERS[self.right]


def one_line(text: object) -> str:
    return " ".join(str(text).split())


def option_from(entry: Mapping) -> Option:
    if set(entry) - {"right"} not in (
        {"text", "why", "see"},
        {"text", "why", "see", "wrong"},
    ):
        raise ValueError(f"not an option of the quiz: {entry}")
    return Option(
        text=one_line(entry["text"]),
        right=entry.get("right", False) is True,
        why=one_line(entry["why"]),
        see=tuple(str(entry["see"]).split()),
    )


FIELDS = {"id", "chapter", "ask", "options"}


def read(path: Path) -> list[Question]:
    """The questions of a file, in order.

    Raises:
        ValueError: for a question or an option with other fields than it has to have, for a question without exactly one
            right option, and for a name that comes twice.
    """
    found: list[Question] = []
    for part in yaml.safe_load(path.read_text("utf8")):
        for entry in part["questions"]:
            if set(entry) - {"computed"} != FIELDS:
                raise ValueError(f"not a question of the quiz: {entry}")
            question = Question(
                name=entry["id"],
                chapter=entry["chapter"],
                ask=one_line(entry["ask"]),
                options=tuple(map(option_from, entry["options"])),
                number=len(found) + 1,
                part=part["part"],
                computed=entry.get("computed", ""),
            )
            rights = sum(one.right for one in question.options)
            if rights != 1 or len(question.options) < 3:
                raise ValueError(
                    f"{question.name}: {rights} of {len(question.options)} options are right; "
                    "one of at least three has to be"
                )
            if question.name in [one.name for one in found]:
                raise ValueError(f"{question.name} stands there twice")
            found.append(question)
    return found


@functools.lru_cache(maxsize=2)
def read_once(path: Path, _changed: int) -> list[Question]:
    return read(path)


# ---- the page ----


class QuizQuestion(nodes.General, nodes.Element):
    """A question with its options: `QuizAsk`, then one `QuizOption` for each."""


class QuizAsk(nodes.General, nodes.TextElement):
    pass


class QuizOption(nodes.General, nodes.TextElement):
    pass


class Quiz(SphinxDirective):
    def run(self) -> list[nodes.Node]:
        path = Path(self.env.srcdir) / self.config.quiz_file
        self.env.note_dependency(str(path))
        questions = read_once(path, path.stat().st_mtime_ns)
        found: list[nodes.Node] = []
        for part in dict.fromkeys(one.part for one in questions):
            section = titled_section(part)
            section += [
                self.question(one) for one in questions if one.part == part
            ]
            found.append(section)
        answers = titled_section("Answers")
        answers["classes"].append("quiz-answers")
        self.known_as("quiz-answers", answers["ids"][0], "Answers")
        answers += [self.answer(one) for one in questions]
        return [*found, answers]

    def words(self, text: str) -> list[nodes.Node]:
        """A line of Markdown, without the paragraph that it makes."""
        found = self.parse_text_to_nodes(text)
        if len(found) == 1 and isinstance(found[0], nodes.paragraph):
            return found[0].children
        raise self.error(f"more than one line of text: {text}")

    def question(self, one: Question) -> nodes.Node:
        node = QuizQuestion(
            ids=[one.anchor], number=one.number, answer=one.answer
        )
        self.state.document.note_explicit_target(node)
        said = f"Question {one.number}"
        self.known_as(one.anchor, one.anchor, said)
        itself = nodes.reference("", said, refid=one.anchor, internal=True)
        chapter = page_link(self.env.docname, f"{CHAPTERS}{one.chapter}")
        node += nodes.paragraph(
            "", "", itself, nodes.Text(", from "), chapter
        )
        node += QuizAsk("", "", *self.words(one.ask))
        node += [
            QuizOption("", "", *self.words(option.text), letter=letter)
            for letter, option in zip(LETTERS, one.options, strict=False)
        ]
        return node

    def known_as(self, label: str, anchor: str, said: str) -> None:
        """Let ``{ref}`` find a place of the page."""
        standard = self.env.get_domain("std")
        here = (self.env.docname, anchor)
        standard.anonlabels[label] = here
        standard.labels[label] = (*here, said)

    def answer(self, one: Question) -> nodes.Node:
        node = nodes.container(ids=[one.answer], classes=["quiz-answer"])
        back = nodes.reference("", "", refid=one.anchor, internal=True)
        back += nodes.Text(f"Question {one.number}")
        node += nodes.paragraph(
            "",
            "",
            back,
            nodes.Text(": "),
            nodes.strong(one.letter, one.letter),
            classes=["quiz-letter-of"],
        )
        whys = nodes.enumerated_list(
            enumtype="upperalpha",
            prefix="",
            suffix=".",
            classes=["quiz-whys"],
        )
        for option in one.options:
            verdict = "Right." if option.right else "Not so."
            text = nodes.paragraph(
                "",
                "",
                nodes.strong(verdict, verdict),
                nodes.Text(" "),
                *self.words(option.why),
                *self.places(option.see),
            )
            item = nodes.list_item("", text)
            if option.right:
                item["classes"].append("is-right")
            whys += item
        node += whys
        return node

    def places(self, names: tuple[str, ...]) -> Iterator[nodes.Node]:
        """The references of an explanation: "See this and that"."""
        for number, name in enumerate(names):
            between = ", " if number else " See "
            last = number and number == len(names) - 1
            yield nodes.Text(" and " if last else between)
            yield self.place(name)
            for start, of in COUNTED_APART.items():
                if name.startswith(start):
                    yield nodes.Text(of)
        yield nodes.Text(".")

    def place(self, name: str) -> nodes.Node:
        domain, kind = "std", "numref"
        if "#" in name:
            domain, kind = "", "quiz-section"
        elif name.startswith(BLOCKS):
            domain, kind = "prf", "ref"
        elif not name.startswith(NUMBERED):
            raise self.error(f"no label of a block or figure: {name}")
        link = addnodes.pending_xref(
            refdomain=domain,
            reftype=kind,
            reftarget=name,
            refdoc=self.env.docname,
            refexplicit=False,
            refwarn=True,
        )
        # sphinx-proof looks for a text of its own after the name.
        link += nodes.inline(name, name, classes=["xref"])
        return link


def section_title(
    env: BuildEnvironment, page: str, anchor: str
) -> nodes.Node | None:
    """The title of a section, if the page has it."""
    for link in env.tocs.get(page, nodes.paragraph()).findall(
        nodes.reference
    ):
        if link["anchorname"] == f"#{anchor}":
            return nodes.inline("", "", *link.deepcopy().children)
    return None


def find_section(
    app: Sphinx,
    env: BuildEnvironment,
    node: addnodes.pending_xref,
    content: nodes.Node,
) -> nodes.reference | None:
    """Resolve ``02_attention#what-can-go-wrong``: the chapter and the section."""
    if node["reftype"] != "quiz-section":
        return None
    chapter, _, anchor = node["reftarget"].partition("#")
    page = f"{CHAPTERS}{chapter}"
    title = section_title(env, page, anchor)
    if title is None or page not in env.titles:
        return None
    text = nodes.inline()
    text += [nodes.Text("“"), title, nodes.Text("” in ")]
    text += env.titles[page].deepcopy().children
    return make_refnode(
        app.builder, node["refdoc"], page, anchor, [text], None
    )


def without_symbols(app: Sphinx, document: nodes.document) -> None:
    """Take the list of symbols off the page: letters are those of many chapters, and hints would stand in labels."""
    if next(document.findall(QuizQuestion), None) is not None:
        for here in list(document.findall(SymbolsHere)):
            here.parent.remove(here)


class OnPaper(SphinxPostTransform):
    """A list for every form but the site: there nothing can be pressed."""

    default_priority = 3

    def run(self, **given: object) -> None:
        if self.app.builder.name == "html":
            return
        for node in list(self.document.findall(QuizQuestion)):
            _, ask, *options = node.children
            number = f"{node['number']}."
            text = nodes.paragraph(
                "", "", nodes.strong(number, number), nodes.Text(" ")
            )
            text += ask.children
            choice = nodes.enumerated_list(
                enumtype="upperalpha", prefix="", suffix="."
            )
            for option in options:
                words = nodes.paragraph("", "", *option.children)
                choice += nodes.list_item("", words)
            node.replace_self([text, choice])
        for answer in self.document.findall(nodes.container):
            if "quiz-answer" in answer["classes"]:
                answer["ids"].clear()
                [back, *_] = answer.findall(nodes.reference)
                back.replace_self(back.children)


# ---- HTML ----


def visit_question(self, node: QuizQuestion) -> None:
    self.body.append(
        f'<form class="quiz-question" id="{escape(node["ids"][0])}" autocomplete="off" novalidate>\n'
    )
    self.quiz = node


def depart_question(self, node: QuizQuestion) -> None:
    number = node["number"]
    # What is the same at each question says which it is of to who hears it.
    which, of = (
        f'<span class="visually-hidden"> {words} {number}</span>'
        for words in ("question", "of question")
    )
    self.body.append(
        "</fieldset>\n"
        f'<p class="quiz-do"><button type="submit">Check{which}</button>\n'
        f'<a class="quiz-to-answer" href="#{node["answer"]}">Answer and explanations{of}</a></p>\n'
        '<div class="quiz-says" role="status"></div>\n</form>\n'
    )


def visit_ask(self, node: QuizAsk) -> None:
    self.body.append("<fieldset>\n<legend>")


def depart_ask(self, node: QuizAsk) -> None:
    self.body.append("</legend>\n")


def visit_option(self, node: QuizOption) -> None:
    name, letter = self.quiz["ids"][0], node["letter"]
    self.body.append(
        f'<div class="quiz-option"><input type="radio" name="{name}" id="{name}-{letter}" value="{letter}">'
        f'<label for="{name}-{letter}"><span class="quiz-letter">{letter}.</span> <span class="quiz-text">'
    )


def depart_option(self, node: QuizOption) -> None:
    self.body.append(
        '</span> <span class="quiz-mark"></span></label></div>\n'
    )


def load(
    app: Sphinx, page: str, template: str, context: dict, doctree: object
) -> None:
    """The script and the style are of the page of the quiz alone."""
    if (
        app.builder.name == "html"
        and isinstance(doctree, nodes.document)
        and next(doctree.findall(QuizQuestion), None) is not None
    ):
        app.add_js_file("quiz.js", loading_method="defer")
        app.add_css_file("quiz.css")


def setup(app: Sphinx) -> dict[str, object]:
    app.add_config_value("quiz_file", "book/quiz.yml", "env")
    app.add_directive("quiz", Quiz)
    app.add_node(QuizQuestion, html=(visit_question, depart_question))
    app.add_node(QuizAsk, html=(visit_ask, depart_ask))
    app.add_node(QuizOption, html=(visit_option, depart_option))
    app.add_post_transform(OnPaper)
    app.connect("missing-reference", find_section)
    # After symbols.py, which puts the list there.
    app.connect("doctree-read", without_symbols, priority=600)
    app.connect("html-page-context", load)
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
