"""Reading a picture back: which words stand where, in which colour, on which ground; and one sample of each figure."""

import base64
import io
from collections import Counter
from dataclasses import dataclass

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgba
from matplotlib.text import Text
from PIL import Image

from attention_in_detail.figures import (
    attention_lines,
    bars,
    curves,
    encoder_decoder,
    head_grid,
    labelled_array,
    matrix_blocks,
    matrix_products,
    split_layouts,
    weighted_sum,
    weights_heatmap,
)
from attention_in_detail.figures._palette import with_palette
from attention_in_detail.figures.style import drawing_style


@dataclass(frozen=True)
class Word:
    """Words of a picture, with the box they fill in css pixels from the top left corner."""

    text: str
    left: float
    top: float
    right: float
    bottom: float
    artist: Text

    @property
    def x(self):
        return (self.left + self.right) / 2

    @property
    def y(self):
        return (self.top + self.bottom) / 2


def words(picture):
    """Return all words that are visible in a picture."""
    with drawing_style():
        renderer = FigureCanvasAgg(picture).get_renderer()
        artists = [*picture.texts]
        for axes in picture.axes:
            artists += axes.texts
            if axes.axison:
                for axis in (axes.xaxis, axes.yaxis):
                    if axis.get_visible():
                        artists += axis.get_ticklabels()
        found = []
        for artist in artists:
            text = artist.get_text()
            if text and artist.get_visible():
                box = artist.get_window_extent(renderer)
                down = picture.css_height
                found.append(
                    Word(
                        text,
                        box.x0,
                        down - box.y1,
                        box.x1,
                        down - box.y0,
                        artist,
                    )
                )
    return found


def word(picture, text):
    """Return the one place where a picture has these words."""
    places = [w for w in words(picture) if w.text == text]
    assert len(places) == 1, f"{text!r} stands at {len(places)} places"
    return places[0]


def pixels(picture):
    """Return the drawing as (height, width, 3) numbers from 0 to 255, at twice the css size."""
    return picture._pixels()


def shown(picture):
    """Return what a light and what a dark page shows of a picture, as `pixels` does."""
    data, metadata = picture._repr_mimebundle_()
    png = base64.b64decode(data["image/png"])
    palette = base64.b64decode(metadata["image/png"]["dark_palette"])
    return [
        np.asarray(Image.open(io.BytesIO(image)).convert("RGB"), float)
        for image in (png, with_palette(png, palette))
    ]


def over(colour, below):
    """Return the colour, from 0 to 1, of a colour with an alpha channel laid on a pixel."""
    below = np.asarray(below, float) / 255
    red, green, blue, alpha = to_rgba(colour)
    return alpha * np.array([red, green, blue]) + (1 - alpha) * below


def usual_pixel(image, left, top, right, bottom):
    """Return the most frequent pixel in a box given in css pixels."""
    box = image[
        int(2 * top) : int(np.ceil(2 * bottom)),
        int(2 * left) : int(np.ceil(2 * right)),
    ]
    return np.array(
        Counter(map(tuple, box.reshape(-1, 3).tolist())).most_common(1)[0][
            0
        ]
    )


def rows_of_weights(seed, *shape, sharpness=2.0):
    """Return random rows that are positive and sum to one."""
    z = np.exp(sharpness * np.random.default_rng(seed).normal(size=shape))
    return z / z.sum(axis=-1, keepdims=True)


ENGLISH = ["the", "cat", "sat", "on", "it"]
GERMAN = ["die", "Katze", "sass", "darauf"]


def causal_weights(seed, n):
    weights = rows_of_weights(seed, n, n) * np.tri(n)
    return weights / weights.sum(axis=-1, keepdims=True)


def _products(seed):
    draw = np.random.default_rng(seed)
    Q, K, V = (
        draw.integers(-2, 3, size=s).astype(float)
        for s in ((4, 3), (5, 3), (5, 2))
    )
    A = rows_of_weights(seed, 4, 5)
    return matrix_products(
        Q,
        K,
        V,
        scores=Q @ K.T / 3**0.5,
        weights=A,
        output=A @ V,
        highlight=1,
    )


def _large_products(seed):
    draw = np.random.default_rng(seed)
    A = rows_of_weights(seed, 12, 20)
    return matrix_products(
        *(draw.normal(size=s) for s in ((12, 8), (20, 8), (20, 16))),
        weights=A,
    )


def _layouts(seed):
    x = np.random.default_rng(seed).permutation(18).reshape(3, 6)
    return split_layouts(
        x, x.reshape(3, 3, 2).swapaxes(0, 1), x.reshape(3, 3, 2)
    )


def _curves(seed):
    x = 4.0 * 2 ** np.arange(9)
    noise = np.exp(0.1 * np.random.default_rng(seed).normal(size=9))
    series = {
        "none": x * noise,
        r"$1/\sqrt{D_k}$": noise,
        r"$1/D_k$": noise / x,
    }
    bands = {"none": (x * noise / 1.5, x * noise * 1.5)}
    labels = {"x_label": "$D_k$", "y_label": "variance of a score"}
    return curves(
        x,
        series,
        **labels,
        log_x=True,
        log_y=True,
        bands=bands,
        title="Three scales",
    )


def _many_curves(seed):
    x = np.linspace(0, 10, 40)
    rates = np.random.default_rng(seed).uniform(0.05, 1, 6)
    return curves(
        x,
        {f"rate {n}": np.exp(-x * r) for n, r in enumerate(rates)},
        x_label="step",
        y_label="loss",
    )


def _long_names(seed):
    y = np.random.default_rng(seed).normal(size=6)
    series = {
        "a series whose name is rather long": y,
        "and one more, as long as the first": -y,
    }
    return curves(np.arange(6), series, x_label="step", y_label="value")


def _bars(seed):
    values = np.random.default_rng(seed).uniform(1, 50, 3)
    return bars(
        ["loop over queries", "one product", "batched"],
        values,
        value_label="time in ms",
        reference=20,
    )


def _dots(seed):
    values = 10 ** np.random.default_rng(seed).uniform(0, 4, 3)
    return bars(
        ["loop", "product", "batched"],
        values,
        value_label="ratio",
        log=True,
        reference=1,
        title="Ratios",
    )


def _scores(seed, rows, columns):
    z = np.random.default_rng(seed).normal(size=(rows, columns))
    return np.where(np.tri(rows, columns, 1, dtype=bool), z, -np.inf)


def _blocks(seed, rows, columns, labels, along):
    matrix = np.random.default_rng(seed).normal(size=(rows, columns))
    names = {
        "symbol": "$W$",
        "row_name": "D_q",
        "column_name": "D_{out}",
        "block_name": "D_h",
    }
    return matrix_blocks(
        matrix,
        [f"$W_{n + 1}$" for n in range(labels)],
        along=along,
        **names,
    )


def _long_sentence(seed):
    tokens = [f"token{i}" for i in range(22)]
    return weights_heatmap(
        causal_weights(seed, 22), query_tokens=tokens, key_tokens=tokens
    )


SAMPLES = {
    "weights": lambda seed: weights_heatmap(
        rows_of_weights(seed, 4, 5),
        query_tokens=GERMAN,
        key_tokens=ENGLISH,
        title="Alignment",
    ),
    "untitled weights": lambda seed: weights_heatmap(
        causal_weights(seed, 3)
    ),
    "long sentence": _long_sentence,
    "many weights": lambda seed: weights_heatmap(
        rows_of_weights(seed, 70, 64)
    ),
    "scores": lambda seed: weights_heatmap(
        _scores(seed, 4, 5), kind="scores", title="Scores $Z$"
    ),
    "many scores": lambda seed: weights_heatmap(
        _scores(seed, 12, 10), kind="scores"
    ),
    "mask": lambda seed: weights_heatmap(
        np.random.default_rng(seed).random((4, 5)) < 0.5,
        kind="mask",
        query_tokens=GERMAN,
        key_tokens=ENGLISH,
    ),
    "products": _products,
    "large products": _large_products,
    "lines": lambda seed: attention_lines(
        rows_of_weights(seed, 4, 5),
        query_tokens=GERMAN,
        key_tokens=ENGLISH,
        title="Alignment",
    ),
    "lines of one query": lambda seed: attention_lines(
        rows_of_weights(seed, 6, 4), query=2
    ),
    "heads": lambda seed: head_grid(
        rows_of_weights(seed, 6, 4, 5),
        query_tokens=GERMAN,
        key_tokens=ENGLISH,
        columns=3,
    ),
    "many heads": lambda seed: head_grid(rows_of_weights(seed, 12, 16, 16)),
    "column blocks": lambda seed: _blocks(seed, 4, 6, 3, "columns"),
    "row blocks": lambda seed: _blocks(seed, 6, 5, 3, "rows"),
    "large blocks": lambda seed: _blocks(seed, 512, 512, 8, "columns"),
    "layouts": _layouts,
    "curves": _curves,
    "many curves": _many_curves,
    "curves with long names": _long_names,
    "bars": _bars,
    "dots": _dots,
}
"""From a name to a function that draws one figure from random numbers of a seed."""

ALL = SAMPLES | {
    "array": lambda seed: labelled_array(
        np.random.default_rng(seed).normal(size=(3, 4, 5)).round(1),
        highlight=1,
        highlight_label="one row",
    ),
    "two layers": lambda seed: encoder_decoder(),
    "weighted sum": lambda seed: weighted_sum(
        np.random.default_rng(seed).normal(size=(4, 2)),
        rows_of_weights(seed, 4),
        trail=np.random.default_rng(seed).normal(size=(3, 2)) / 4,
    ),
}
"""The samples, and figures whose words may meet: those have tests of their own for where words stand."""
