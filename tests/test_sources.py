import ast
import inspect

import pytest

import attention_in_detail
from attention_in_detail import (
    MultiHeadParameters,
    attention,
    show_source,
    softmax,
)


def test_the_source_shown_is_the_one_that_runs():
    whole = show_source(softmax, docstring=True)
    assert whole.code == inspect.getsource(softmax.unchecked).rstrip()
    assert "xp.exp(" in whole.code


def test_the_docstring_is_left_out_and_nothing_else():
    shown, whole = (
        show_source(attention).code,
        show_source(attention, docstring=True).code,
    )
    assert '"""' not in shown
    assert "Vaswani" not in shown
    tree = ast.parse(whole)
    del tree.body[0].body[0]
    assert ast.dump(ast.parse(shown)) == ast.dump(tree)
    rest = whole.splitlines()
    end = max(n for n, line in enumerate(rest) if line.strip() == '"""')
    assert any("#" in line for line in rest[end + 1 :])
    assert shown.splitlines()[-len(rest[end + 1 :]) :] == rest[end + 1 :]


def test_the_docstrings_of_a_class_and_its_methods_are_left_out():
    shown = show_source(MultiHeadParameters).code
    assert '"""' not in shown
    assert "def from_torch(cls" in shown
    ast.parse(shown)


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in sorted(attention_in_detail.__all__)
        if not inspect.isclass(getattr(attention_in_detail, name))
    ],
)
def test_every_public_function_and_class_can_be_shown(name):
    thing = getattr(attention_in_detail, name)
    shown = show_source(thing)
    head = f"class {name}" if isinstance(thing, type) else f"def {name}("
    assert head in shown.code
    ast.parse(shown.code)


def test_a_notebook_shows_highlighted_code_and_a_terminal_plain_text():
    shown = show_source(softmax)
    assert repr(shown) == shown.code
    assert shown._repr_markdown_() == f"```python\n{shown.code}\n```"


def test_a_method_is_shown_without_its_indentation():
    assert show_source(MultiHeadParameters.arrays).code.startswith(
        "def arrays(self)"
    )


def test_a_docstring_alone_is_found_by_its_place_not_by_its_quotes():
    shown = show_source(example).code.splitlines()
    assert shown == [
        "def example():",
        "    # why",
        '    text = """kept"""',
        "    return text.upper()",
    ]


def example():
    "Said in one line."
    # why
    text = """kept"""
    return text.upper()


@pytest.mark.parametrize(
    "what", [len, eval("lambda: 0")], ids=["built-in", "typed"]
)
def test_what_has_no_source_is_refused(what):
    with pytest.raises(TypeError):
        show_source(what)
