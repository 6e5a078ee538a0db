import inspect
import threading

import numpy as np
import pytest

from attention_in_detail import (
    MultiHeadParameters,
    masks,
    merge_heads,
    multi_head,
    multi_head_attention,
    planting,
    show_source,
    softmax,
    split_heads,
)
from attention_in_detail.figures import bars
from attention_in_detail.nn import MultiHeadAttention
from attention_in_detail.planting import planted
from tests.support import assert_close, normal

P = MultiHeadParameters.init(8, 2, seed=1)
X = normal(3, 8)
RIGHT = multi_head_attention(P, X, X, X)


def no_swap():
    return planted(merge_heads, "xp.moveaxis(x, -3, -2)", "x")


def output():
    return multi_head_attention(P, X, X, X)


def test_the_changed_function_is_the_real_source_with_one_piece_changed():
    bug = no_swap()
    assert bug.before == show_source(merge_heads).code
    assert bug.after == bug.before.replace("xp.moveaxis(x, -3, -2)", "x")
    heads = normal(2, 3, 4)
    assert_close(bug(heads), heads.reshape(3, 8), 0)
    assert_close(bug.function(heads), heads.reshape(3, 8), 0)
    assert bug.function.__doc__ == merge_heads.__doc__


def test_the_changed_function_keeps_its_input_check():
    with pytest.raises(ValueError, match=r"^x needs at least the axes"):
        no_swap()(X)


def test_planting_alone_changes_nothing():
    kept = vars(multi_head).copy()
    no_swap()(normal(2, 3, 4))
    assert vars(multi_head) == kept
    assert_close(output(), RIGHT, 0)


def test_inside_the_block_the_package_runs_with_the_change_and_after_it_without():
    code = inspect.unwrap(merge_heads).__code__
    with no_swap():
        wrong = output()
        assert_close(
            merge_heads(normal(2, 3, 4)), no_swap()(normal(2, 3, 4))
        )
    assert wrong.shape == RIGHT.shape
    assert np.abs(wrong - RIGHT).max() > 0.1
    assert_close(output(), RIGHT, 0)
    assert inspect.unwrap(merge_heads).__code__ is code


def test_after_an_error_in_the_block_all_is_as_before():
    with pytest.raises(KeyError), no_swap():
        raise KeyError
    assert_close(output(), RIGHT, 0)


def test_defaults_come_back_too():
    bare = inspect.unwrap(softmax)
    kept = bare.__defaults__, bare.__kwdefaults__
    bug = planted(softmax, "axis: Size = -1", "axis: Size = 0")
    z = normal(3, 3)
    with bug:
        assert_close(softmax.unchecked(z).sum(0), np.ones(3))
    assert (bare.__defaults__, bare.__kwdefaults__) == kept == ((-1,), None)
    assert_close(softmax(z).sum(-1), np.ones(3))


def test_what_stands_in_passes_everything_on():
    """In use it bears the place of the function that it stands in for."""
    stand_in = planting._stand_in
    assert stand_in(7, 2, _chosen=lambda: divmod) == (3, 1)
    assert stand_in("12", base=3, _chosen=lambda: int) == 5


def test_two_bugs_can_be_in_place_at_once_and_one_bug_twice():
    both = planted(
        split_heads,
        "xp.moveaxis(cut, -2, -3)",
        "xp.reshape(x, (*batch, heads, T, D // heads))",
    )
    one = no_swap()
    with one:
        first = output()
        with both:
            assert np.abs(output() - first).max() > 0.1
        with one:
            assert_close(output(), first, 0)
        assert_close(output(), first, 0)
    assert_close(output(), RIGHT, 0)


def test_the_source_can_be_read_while_a_bug_is_in_place():
    code = show_source(merge_heads).code
    with no_swap():
        assert show_source(merge_heads).code == code


def in_a_thread(call):
    results = []
    thread = threading.Thread(target=lambda: results.append(call()))
    thread.start()
    return thread, results


def test_other_threads_go_on_with_the_right_function():
    with no_swap():
        thread, results = in_a_thread(output)
        thread.join()
    assert_close(results[0], RIGHT, 0)


def test_another_thread_that_plants_waits():
    def other():
        with no_swap():
            return output()

    with no_swap():
        thread, results = in_a_thread(other)
        thread.join(0.1)
        assert thread.is_alive()
        wrong = output()
    thread.join()
    assert_close(results[0], wrong, 0)
    assert_close(output(), RIGHT, 0)


@pytest.mark.parametrize(
    ("function", "old", "new"),
    [
        (MultiHeadAttention.forward, "keys if values is None", "1 if None"),
        (masks.keep_rows, "is_open is None", "False"),
        (bars, "    values: Drawable", "    values: Nothing"),
    ],
    ids=["a method", "a private function", "annotations that are texts"],
)
def test_what_can_be_changed(function, old, new):
    bug = planted(function, old, new)
    assert new in bug.after
    with bug:
        pass


def test_a_terminal_and_a_notebook_show_the_lines_before_and_after():
    bug = planted(
        softmax,
        "total = xp.sum(exponentials",
        "wide = wide + 1\n    total = xp.sum(wide",
    )
    lines = (
        "- total = xp.sum(exponentials, axis=axis, keepdims=True)\n"
        "+ wide = wide + 1\n"
        "+ total = xp.sum(wide, axis=axis, keepdims=True)"
    )
    assert repr(bug) == f"in softmax:\n{lines}"
    assert bug._repr_markdown_() == f"```diff\nin softmax:\n{lines}\n```"


def test_lines_of_two_depths_keep_their_difference():
    bug = planted(softmax, "return ", "if True:\n        return ")
    assert bug.changes() == [
        "- return narrowed(exponentials / total, z.dtype)",
        "+ if True:",
        "+     return narrowed(exponentials / total, z.dtype)",
    ]
