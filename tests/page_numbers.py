"""Numbers that are typed in the text of a chapter, to be held against what its cells print or a test computes."""

import contextlib
import io
import re

from tests.test_contract import PAGES, blocks, code, markdown

DECIMAL = re.compile(r"(?<![\w.])0?(\.\d{2,})")
# A decimal of any length with its sign; or "19 in 100".
SAID = re.compile(
    r"(?<![\w.])([-−]?\d*\.\d+)(?!\w|\.\d)|\b(\d+) (?:in|of) 100\b"
)


def not_printed(name, computed=()):
    """The decimals in the text of a chapter that no cell prints, apart from those that a test computes."""
    cells = PAGES[name]
    text = re.sub(
        r"\b(\d{2}) (in|of) 100\b", r".\1", markdown(cells), flags=re.M
    )
    printed = "\n".join(
        output.text
        for cell in code(cells)
        for output in cell.outputs
        if output.output_type == "stream"
    )
    said = set(DECIMAL.findall(text))
    assert len(said) > 3
    known = DECIMAL.findall(printed + "\n" + "\n".join(computed))
    return said - set(known)


def statement(label):
    """The text of a labelled statement of a chapter."""
    (text,) = (
        body
        for cells in PAGES.values()
        for _, _, options, body in blocks(cells)
        if options.get("label") == label
    )
    return text


def numbers_of(label):
    """The decimals of a labelled statement in their order, "19 in 100" as 0.19."""
    return [
        float(decimal.replace("−", "-"))
        if decimal
        else int(hundredth) / 100
        for decimal, hundredth in SAID.findall(statement(label))
    ]


def code_of(label):
    """The code in a labelled block, as a reader would type it in below the page."""
    found = re.findall(
        r"^```python\n(.*?)^```$", statement(label), re.DOTALL | re.M
    )
    assert found
    return "\n".join(found)


def said_by(label, **names):
    """What the code in a labelled block prints, where the page has these names."""
    with contextlib.redirect_stdout(io.StringIO()) as said:
        exec(code_of(label), names)
    return said.getvalue()
