import base64
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attention_in_detail.figures import (
    AttentionViewer,
    attention_lines,
    attention_viewer,
)
from attention_in_detail.figures.viewer import (
    FEW_COLOURS,
    LARGEST,
    encoded,
    script,
)
from tests.figures.reading import (
    ENGLISH,
    GERMAN,
    causal_weights,
    rows_of_weights,
    shown,
    words,
)


class Tags(HTMLParser):
    """The tags of a text with their attributes, and what stands inside scripts."""

    def __init__(self, text):
        super().__init__()
        self.found, self.scripts = [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))

    def handle_data(self, data):
        if self.lasttag == "script":
            self.scripts.append(data)


def html(viewer):
    return viewer._repr_mimebundle_()[0]["text/html"]


def decoded(weights, shape):
    """The weights as the script reads them, where they are exactly zero, and where the strongest keys are."""
    codes = np.frombuffer(base64.b64decode(weights), np.uint8).astype(int)
    codes = codes.reshape([int(n) for n in shape.split()])
    return np.maximum(codes % 128 - 1, 0) / 100, codes == 0, codes > 127


def with_zeros(seed, *shape):
    draw = np.random.default_rng(seed)
    return rows_of_weights(seed, *shape) * (draw.random(shape) > 0.3)


@given(st.integers(0, 10_000), st.integers(1, 3), st.integers(1, 5))
def test_weights_come_back_to_within_half_a_hundredth(seed, h, T):
    weights = with_zeros(seed, h, T, T + 1)
    back, zero, _ = decoded(encoded(weights), f"{h} {T} {T + 1}")
    assert np.abs(back - weights).max() <= 0.005 + 1e-12
    assert np.array_equal(zero, weights == 0)


def test_weights_come_back_from_the_html_in_their_places():
    weights = with_zeros(0, 2, 3, 4, 5)
    viewer = attention_viewer(weights, GERMAN, ENGLISH)
    (_, given), *_ = Tags(html(viewer)).found
    back, zero, _ = decoded(given["weights"], given["shape"])
    assert back.shape == weights.shape
    assert np.abs(back - weights).max() <= 0.005 + 1e-12
    assert np.array_equal(zero, weights == 0)


@given(st.floats(0, 1))
def test_a_weight_keeps_the_decimals_that_are_printed(weight):
    (back, *_), _, _ = decoded(encoded(np.array([weight, 1])), "2")
    assert f"{back:.2f}" == f"{weight:.2f}"


def test_exactly_zero_is_told_from_small_and_all_from_nearly_all():
    codes = base64.b64decode(encoded(np.array([0.0, 1e-9, 0.994, 1.0])))
    assert list(codes) == [0, 1, 100, 128 + 101]
    (code,) = base64.b64decode(encoded(np.array([1 + 1e-7])))
    assert code == 128 + 101


def test_the_strongest_keys_are_known_where_two_decimals_do_not_tell():
    weights = [[0.332, 0.334, 0.334], [1 / 3] * 3, [0, 0, 0], [0, 1, 0]]
    _, _, strongest = decoded(encoded(np.array(weights)), "4 3")
    assert strongest.tolist() == [
        [False, True, True],
        [True] * 3,
        [False] * 3,
        [False, True, False],
    ]


def test_axes_that_are_missing_have_the_size_one():
    W = rows_of_weights(0, 2, 3, 4, 5)
    for weights, shape in (
        (W[0, 0], "1 1 4 5"),
        (W[0], "1 3 4 5"),
        (W, "2 3 4 5"),
    ):
        given = attention_viewer(weights, GERMAN, ENGLISH).attributes
        assert given["shape"] == shape


def test_a_tensor_with_gradient_is_drawn_like_an_array():
    weights = rows_of_weights(1, 2, 4, 5)
    tensor = torch.tensor(weights, requires_grad=True)
    ours, theirs = (
        attention_viewer(x, GERMAN, ENGLISH)._repr_mimebundle_()
        for x in (weights, tensor)
    )
    assert ours == theirs


def test_everything_that_the_script_reads_stands_in_attributes():
    viewer = attention_viewer(
        rows_of_weights(2, 2, 3, 4, 5),
        GERMAN,
        ENGLISH,
        layer=1,
        head=2,
        first=0,
        title='A "<title>" & more',
        query_label="German",
        key_label="English",
    )
    (tag, given), (image, _), *_ = Tags(html(viewer)).found
    assert (tag, image) == ("attention-viewer", "img")
    assert json.loads(given["queries"]) == GERMAN
    assert json.loads(given["keys"]) == ENGLISH
    assert {name: given[name] for name in ("layer", "head", "first")} == {
        "layer": "1",
        "head": "2",
        "first": "0",
    }
    assert given["heading"] == 'A "<title>" & more'
    assert (given["query-label"], given["key-label"]) == (
        "German",
        "English",
    )
    assert viewer.text_alternative.startswith(
        'A "<title>" & more: layer 1, head 2. Lines from 4 German on the left to 5 English'
    )


def test_tokens_of_any_kind_pass_through():
    tokens = ['"', "'", "<b>", "&amp;", "über", "a\nb", "$q_{1}$", "</x>"]
    weights = np.full((8, 8), 1 / 8)
    (_, given), *_ = Tags(html(attention_viewer(weights, tokens))).found
    assert json.loads(given["queries"]) == [
        *tokens[:5],
        "a↵b",
        "q_1",
        "</x>",
    ]


def test_without_key_tokens_the_keys_are_the_queries():
    weights = causal_weights(0, 5)
    alone = attention_viewer(weights, ENGLISH)
    both = attention_viewer(weights, ENGLISH, ENGLISH)
    assert html(alone) == html(both)
    assert "keys" not in alone.attributes


def test_its_figure_is_that_of_the_head_with_which_it_begins():
    weights = rows_of_weights(3, 2, 3, 4, 5)
    viewer = attention_viewer(weights, GERMAN, ENGLISH, layer=1, head=2)
    assert isinstance(viewer, AttentionViewer)
    alone = attention_lines(
        weights[1, 2],
        query_tokens=GERMAN,
        key_tokens=ENGLISH,
        title="Layer 2, head 3",
    )
    alone._most_colours = FEW_COLOURS  # it weighs as little as it may
    assert viewer.picture.png() == alone.png()
    assert viewer.text_alternative == (
        f"{alone.text_alternative} This is one of 6 heads; the interactive view shows them all."
    )


@pytest.mark.parametrize(
    ("shape", "title", "said"),
    [
        ((4, 5), None, None),
        ((4, 5), "One map", "One map"),
        ((1, 1, 4, 5), None, None),
        ((3, 4, 5), None, "Head 1"),
        ((3, 4, 5), "Crossing", "Crossing: head 1"),
        ((2, 1, 4, 5), None, "Layer 1, head 1"),
    ],
)
def test_the_figure_says_which_head_it_shows(shape, title, said):
    viewer = attention_viewer(
        rows_of_weights(4, *shape), GERMAN, ENGLISH, title=title
    )
    titles = [
        word.text
        for word in words(viewer.picture)
        if word.artist.get_gid() == "title"
    ]
    assert titles == ([said] if said else [])


def test_a_notebook_gets_three_forms_and_the_figure_twice():
    viewer = attention_viewer(rows_of_weights(5, 2, 4, 5), GERMAN, ENGLISH)
    data, metadata = viewer._repr_mimebundle_()
    assert set(data) == {"text/html", "image/png", "text/plain"}
    assert data["text/plain"] == f"Figure: {viewer.text_alternative}"
    told = metadata["image/png"]
    assert told["alt"] == viewer.text_alternative
    (_, _), (_, image), (last, options) = Tags(data["text/html"]).found
    assert image == {
        "src": f"data:image/png;base64,{data['image/png']}",
        "alt": told["alt"],
        "width": str(told["width"]),
        "height": str(told["height"]),
    }
    assert (last, options) == ("script", {})
    assert data["text/html"].count("</script>") == 1
    assert "".join(Tags(data["text/html"]).scripts).strip() == script()[:-1]


def test_words_of_the_caller_take_the_place_of_those_from_the_data():
    viewer = attention_viewer(
        rows_of_weights(5, 2, 4, 5),
        GERMAN,
        ENGLISH,
        text_alternative="In other words.",
    )
    assert viewer.text_alternative == "In other words."


def test_the_figure_is_that_of_lines_and_light():
    viewer = attention_viewer(
        rows_of_weights(6, 20, 20, sharpness=0.5), ["token"] * 20
    )
    light = viewer.png()
    assert light == viewer.picture.png()
    usual = attention_lines(
        rows_of_weights(6, 20, 20, sharpness=0.5),
        query_tokens=["token"] * 20,
        key_tokens=["token"] * 20,
    )
    assert len(light) < 0.7 * len(usual.png())
    for image, drawing in zip(
        shown(viewer.picture),
        (viewer.picture, viewer.picture.on_dark()),
        strict=True,
    ):
        assert ((image - drawing._pixels()) ** 2).mean() ** 0.5 < 3


def test_the_same_call_gives_the_same_bytes():
    weights = rows_of_weights(7, 2, 4, 5)
    first, second = (
        attention_viewer(weights, GERMAN, ENGLISH)._repr_mimebundle_()
        for _ in range(2)
    )
    assert first == second


def test_the_script_asks_for_nothing_and_keeps_nothing():
    source = script()
    namespace = "http://www.w3.org/2000/svg"
    assert re.findall(r"\w+://[^\"'` ]*", source) == [namespace]
    for word in (
        "fetch",
        "XMLHttp",
        "import(",
        "Storage",
        "cookie",
        "innerHTML",
        "eval(",
        "onclick",
        "</script",
    ):
        assert word not in source
    assert len(source.splitlines()) < 500
    assert len(source.encode()) < 30_000


def test_as_many_weights_fit_as_are_promised():
    weights = np.full((10, 100, 100), 0.01)
    assert weights.size == LARGEST
    given = attention_viewer(weights, ["t"] * 100).attributes
    assert len(given["weights"]) < 134_000
