"""What the experiments measured over several seeds, with the words in which a page tells it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from attention_in_detail._checks import checked, kind
from attention_in_detail.stored import stored_result

__all__ = [
    "Experiment",
    "Measured",
    "Table",
    "experiment",
    "fill_measured",
    "parse_measured",
]

FORM = re.compile(r"\.(\d)([ef])")
ROLE = re.compile(r"\{measured\}`([^`]*)`")
ROLE_TEXT = re.compile(r"(?:(.*\S)\s*)?<(\w+) (\w+)(?: (\w+))?>")
FIXED = "\N{NO-BREAK SPACE}"
DIGITS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number_text(number: float, form: str) -> str:
    """Return a number in words of a page: a minus sign, powers of ten written out, never −0."""
    digits, style = FORM.fullmatch(form).groups()  # type: ignore[union-attr]
    if style == "f":
        text = f"{round(number, int(digits)) + 0.0:.{digits}f}"
    else:
        text = f"{number:.{digits}e}"
        mantissa, _, power = text.partition("e")
        text = mantissa
        if int(power):
            text += f" × 10{str(int(power)).translate(DIGITS)}"
    return text.replace("-", "−")


@dataclass(frozen=True)
class Measured:
    """One quantity, measured once a seed.

    Attributes:
        label: what it is, in a few words.
        values: one number a seed.
        form: how a page writes it: ``".3f"`` or, where it spans powers of ten, ``".1e"``.
    """

    label: str
    values: Sequence[float]
    form: str = ".3f"

    @property
    def mean(self) -> float:
        """The mean over the seeds."""
        return float(np.mean(self.values))

    @property
    def spread(self) -> float:
        """The standard deviation over the seeds (divided by their number less one; 0 for one seed)."""
        if len(self.values) == 1:
            return 0.0
        return float(np.std(self.values, ddof=1))

    def text(self, what: str = "") -> str:
        """Return the quantity as a page writes it.

        Args:
            what: nothing for "mean ± spread" (for powers of ten: the median with least
                and most), or one of ``mean``, ``spread``, ``median``, ``least``,
                ``most``, ``range``.

        Returns:
            Such as ``0.369 ± 0.007``.

        Raises:
            ValueError: if ``what`` is none of these.
        """
        single = {
            "mean": self.mean,
            "spread": self.spread,
            "median": float(np.median(self.values)),
            "least": float(min(self.values)),
            "most": float(max(self.values)),
        }
        if what in single:
            return number_text(single[what], self.form)
        least, most = self.text("least"), self.text("most")
        if what == "range":
            return least if least == most else f"{least} to {most}"
        if what:
            raise ValueError(
                f"what is {what!r}, but can be: {', '.join([*single, 'range'])}, or nothing"
            )
        if self.form.endswith("e"):
            return f"{self.text('median')} ({least} to {most})"
        return self.middle()

    def middle(self) -> str:
        """Return mean ± spread, or the median where the quantity spans powers of ten."""
        if self.form.endswith("e"):
            return f"median {self.text('median')}"
        return f"{self.text('mean')} ± {self.text('spread')}"


@dataclass(frozen=True)
class Table:
    """Quantities that a notebook shows as a table."""

    rows: Sequence[Measured]
    note: str

    def __repr__(self) -> str:
        width = max(len(row.label) for row in self.rows)
        lines = [f"{row.label:<{width}}  {row.text()}" for row in self.rows]
        return "\n".join([*lines, self.note])

    def _repr_markdown_(self) -> str:
        lines = ["| Measured | Over the seeds | Range |", "|:--|:--|:--|"]
        lines += [
            f"| {row.label} | {row.middle()} | {row.text('range')} |"
            for row in self.rows
        ]
        # A number stays on one line, however narrow the column.
        whole = "\n".join(lines)
        for sign in "±×":
            whole = whole.replace(f" {sign} ", f"{FIXED}{sign}{FIXED}")
        return "\n".join([whole, "", self.note])


def check_row(experiment: Any, key: Any) -> None:
    need_rows(experiment, key)


def check_rows(experiment: Any, *keys: Any) -> None:
    need_rows(experiment, *keys)


def need_rows(experiment: Any, *keys: Any) -> None:
    for key in keys:
        if not isinstance(key, str):
            raise TypeError(f"a key must be a text, not {kind(key)}")
        if key not in experiment.rows:
            raise ValueError(
                f"the experiment {experiment.name!r} has no {key!r}, but: "
                f"{', '.join(experiment.rows)}"
            )


@dataclass(frozen=True)
class Experiment:
    """A stored experiment: what was measured, on which seeds.

    Attributes:
        name: of the experiment; ``experiments/<name>.py`` measured it.
        seeds: one number a run.
        rows: the quantities, by key.
        more: what a figure needs besides, as the script stored it.
        date: when it was measured.
        machine: and where.
        versions: of Python and of the packages that took part.
    """

    name: str
    seeds: Sequence[int]
    rows: Mapping[str, Measured]
    more: Mapping[str, Any]
    date: str
    machine: str
    versions: Mapping[str, str]

    @checked(check_row)
    def __getitem__(self, key: str) -> Measured:
        """Return one quantity; a ValueError names those that there are."""
        return self.rows[key]

    @checked(check_rows)
    def table(self, *keys: str) -> Table:
        """Return the quantities of these keys (of all, without any) as a table for a notebook."""
        note = (
            f"{len(self.seeds)} seeds; measured on {self.date} by "
            f"experiments/{self.name}.py"
        )
        return Table([self.rows[key] for key in keys or self.rows], note)


@cache
def _read(name: str) -> Experiment:
    kept = stored_result(name)
    if "rows" not in kept:
        raise ValueError(
            f"what is stored as {name!r} is no experiment over seeds"
        )
    rows = {
        key: Measured(row["label"], tuple(row["values"]), row["form"])
        for key, row in kept["rows"].items()
    }
    return Experiment(
        name,
        tuple(kept["seeds"]),
        rows,
        kept.get("more", {}),
        kept["date"],
        kept["machine"],
        kept["versions"],
    )


def check_experiment(name: Any) -> None:
    if not isinstance(name, str):
        raise TypeError(f"name must be a text, not {kind(name)}")


@checked(check_experiment)
def experiment(name: str) -> Experiment:
    """Return what an experiment measured, as it is stored.

    Args:
        name: such as ``"direction"``: ``experiments/<name>.py`` wrote it.

    Returns:
        Its quantities, seed by seed.

    Raises:
        ValueError: if nothing of that name is stored, or it is no experiment.
        TypeError: if ``name`` is not a text.
    """
    return _read(name)


def parse_measured(text: str) -> tuple[str, str, str, str]:
    """Take apart what stands in a ``{measured}`` role.

    Args:
        text: such as ``0.369 ± 0.007 <direction tied_accuracy>``.

    Returns:
        What is shown, the experiment, the key, and what of the quantity is meant (empty
        for all of it).

    Raises:
        ValueError: if it has not that form.
    """
    found = ROLE_TEXT.fullmatch(text.strip())
    if found is None:
        raise ValueError(
            f"{text!r} should be: the number <experiment key>, or <experiment key what>"
        )
    shown, name, key, what = found.groups()
    return shown or "", name, key, what or ""


def fill_measured(text: str) -> str:
    """Return a page's text with every ``{measured}`` number as the stored results give it.

    Args:
        text: of a page or of a cell.

    Returns:
        The same text where all numbers are right already.

    Raises:
        ValueError: if a role names what is not stored.
    """

    def filled(role: re.Match[str]) -> str:
        _, name, key, what = parse_measured(role[1])
        shown = experiment(name)[key].text(what)
        place = " ".join(word for word in (name, key, what) if word)
        return f"{{measured}}`{shown} <{place}>`"

    return ROLE.sub(filled, text)
