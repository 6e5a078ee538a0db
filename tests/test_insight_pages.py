"""What a chapter of Part III owes its reader besides the contract: a claim with its place, a table over seeds, a control,
its limits, and no decimal number that nothing measured."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest

from attention_in_detail.insights.results import experiment, parse_measured
from tests.test_contract import (
    PAGES,
    headings,
    markdown,
    printed,
    prose,
)

ROOT = Path(__file__).resolve().parents[1]
CHAPTERS = {
    name: cells for name, cells in PAGES.items() if name.startswith("2")
}
WANTED = ["What the paper claims", "The control", "What this does not show"]
ROLE = re.compile(r"\{(measured|reported)\}`[^`]*`")
DECIMAL = re.compile(r"(?<![\w.])[−-]?\d*\.\d+(?![\w.]*\d)")


def has_its_sections(cells):
    titles = [title for _, title in headings(cells)]
    # A chapter with two papers may say "papers claim"; with two controls, "The controls".
    plural = {
        "What the paper claims": "What the papers claim",
        "The control": "The controls",
    }
    return [
        title
        for title in WANTED
        if title not in titles and plural.get(title) not in titles
    ]


def shows_its_table(cells):
    shown = any(
        "experiments/" in text and "seeds; measured on" in text
        for text in printed(cells)
    )
    return [] if shown else ["no table of an experiment over seeds"]


def cites_what_it_retells(cells):
    found = re.search(
        r"^## What the papers? claims? *$(.*?)(?=^## |\Z)",
        prose(markdown(cells)),
        re.MULTILINE | re.DOTALL,
    )
    text = found[1] if found else ""
    faults = []
    if not re.search(r"\{cite:[tp]\}`", text):
        faults.append("the claim has no citation")
    if not re.search(
        r"abstract|[Ss]ection|[Tt]able|[Ff]igure|[Tt]heorem|appendix|equation|[Ll]emma",
        text,
    ):
        faults.append("the claim has no place in its paper")
    return faults


def told_numbers(cells):
    """Decimal numbers of the prose, without code, formulas, links and roles."""
    text = prose(markdown(cells))
    # Directives keep their text, and lose their fences; listings are gone already.
    text = re.sub(r"^(`{3,}|:{3,}).*$", " ", text, flags=re.M)
    text = ROLE.sub(" ", text)
    text = re.sub(r"\$\$.*?\$\$", " ", text, flags=re.S)
    text = re.sub(r"\$[^$]*\$", " ", text)
    text = re.sub(r"\{[\w:]+\}`[^`]*`|``[^`]*``|`[^`]*`", " ", text)
    text = re.sub(r"\]\([^)]*\)|https?://\S+|arXiv[: ]\S+", " ", text)
    return DECIMAL.findall(text)


def numbers_are_measured(cells):
    shown = " ".join(printed(cells)).replace("-", "−")
    known = set(re.findall(r"[−]?\d*\.\d+", shown))
    known |= {number.lstrip("−") for number in known}
    return [
        number
        for number in told_numbers(cells)
        if number.replace("-", "−") not in known
    ]


def experiments_are_stored(cells):
    faults = []
    for role in re.findall(r"\{measured\}`([^`]*)`", markdown(cells)):
        _, name, key, what = parse_measured(role)
        experiment(name)[key].text(what)
        if not (ROOT / f"experiments/{name}.py").is_file():
            faults.append(name)
        if len(experiment(name).seeds) < 5:
            faults.append(f"{name}: {len(experiment(name).seeds)} seeds")
    return faults


RULES = [
    has_its_sections,
    shows_its_table,
    cites_what_it_retells,
    numbers_are_measured,
    experiments_are_stored,
]


@pytest.mark.parametrize("name", CHAPTERS)
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_insight_chapter_keeps(rule, name):
    assert rule(CHAPTERS[name]) == []


GOOD = """# A page

## What the paper claims

In {cite:t}`vaswani2017attention`, section 3, the share is {reported}`0.15`.

We measured 0.25 and $1.5 x$, `0.7` in code.

```{prf:remark}
:label: rem-x
Also 0.25.
```

## The control

## What this does not show
"""


def page(
    text=GOOD,
    output="accuracy 0.25\n3 seeds; measured on 2026 by experiments/x.py",
):
    shown = nbformat.v4.new_output("stream", text=output)
    return [
        nbformat.v4.new_markdown_cell(text),
        nbformat.v4.new_code_cell("1", outputs=[shown]),
    ]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_a_page_that_keeps_the_rules_passes(rule):
    assert rule(page()) == []


@pytest.mark.parametrize(
    ("rule", "old", "new"),
    [
        (has_its_sections, "## The control\n", "## Controls\n"),
        (
            cites_what_it_retells,
            "{cite:t}`vaswani2017attention`",
            "a paper",
        ),
        (cites_what_it_retells, "section 3", "it"),
        (numbers_are_measured, "{reported}`0.15`", "0.15"),
        (numbers_are_measured, "Also 0.25.", "Also 0.26."),
        (numbers_are_measured, "measured 0.25", "measured −0.26"),
    ],
)
def test_a_page_that_breaks_a_rule_is_found(rule, old, new):
    assert GOOD.count(old) == 1
    assert rule(page(GOOD.replace(old, new))) != []


def test_a_page_without_a_table_is_found():
    assert shows_its_table(page(output="accuracy 0.25")) != []


def test_an_experiment_that_is_not_stored_is_found():
    with pytest.raises(ValueError, match="nothing"):
        experiments_are_stored(page("{measured}`1 <nothing here>`"))
