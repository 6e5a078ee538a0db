"""Draw the front page's picture: three queries, five keys, five values, lines as strong as the weights.

    python book/_pictures/attention_at_a_glance.py

writes book/_static/attention_at_a_glance.svg. The page takes the file in as it is, so text has the page's colour
(``currentColor``) and the three colours come from the style sheet, in light and in dark. Nothing relies on colour
alone: strength is width, the numbers stand beside it, and every mark has its letter.
"""

from __future__ import annotations

from math import exp
from pathlib import Path

TARGET = (
    Path(__file__).resolve().parents[1]
    / "_static"
    / "attention_at_a_glance.svg"
)

SCORES = {
    1: [2.0, 1.0, 0.0, 0.0, -1.0],
    2: [-1.0, 0.5, 2.0, 0.5, 0.0],
    3: [-1.0, -1.0, 0.0, 1.0, 2.5],
}
FOLLOWED = 2  # the query whose weights and output the picture spells out

WIDTH, HEIGHT = 480, 440
QUERY_X, KEY_X, VALUE_X, BAR_X = 42, 204, 288, 320
QUERY_Y = {1: 112, 2: 212, 3: 312}
KEY_Y = [72 + 70 * j for j in range(5)]
SUBSCRIPT = str.maketrans("12345", "₁₂₃₄₅")


def softmax(scores: list[float]) -> list[float]:
    powers = [exp(score) for score in scores]
    return [power / sum(powers) for power in powers]


def short(number: float) -> str:
    return f"{number:.2f}".removeprefix("0")


def words(weights: list[float]) -> str:
    parts = ", ".join(
        f"{weight:.2f} to key {j}" for j, weight in enumerate(weights, 1)
    )
    return (
        "On the left three queries, in the middle five keys, on the right one value beside each key. "
        "Lines run from every query to every key; the stronger the line, the larger the attention weight. "
        f"Query {FOLLOWED} is followed in colour: it gives {parts}. The weights sum to 1. "
        f"Its output, written at the bottom, is the sum of the five values, each times its weight."
    )


def letter(x: float, y: float, name: str, index: int) -> str:
    return f'<text x="{x}" y="{y + 7}" text-anchor="middle" font-style="italic">{name}{str(index).translate(SUBSCRIPT)}</text>'


def draw() -> str:
    weights = {i: softmax(scores) for i, scores in SCORES.items()}
    followed = weights[FOLLOWED]
    query, key, value = (
        "var(--picture-query, #0b5c8f)",
        "var(--picture-key, #8a5300)",
        "var(--picture-value, #2d6a5c)",
    )
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        'aria-labelledby="glance-title glance-words" font-family="inherit" font-size="20" fill="currentColor">',
        '<title id="glance-title">Attention at a glance</title>',
        f'<desc id="glance-words">{words(followed)}</desc>',
        '<g aria-hidden="true">',
        '<g font-size="18" font-weight="600" text-anchor="middle">',
        f'<text x="{QUERY_X}" y="28">queries</text>',
        f'<text x="{KEY_X}" y="28">keys</text>',
        f'<text x="{VALUE_X}" y="28">values</text>',
        f'<text x="{BAR_X + 86}" y="28">weights of <tspan font-style="italic">q₂</tspan></text>',
        "</g>",
        '<g fill="none" stroke-linecap="round">',
    ]
    for i in sorted(
        weights, key=lambda i: i == FOLLOWED
    ):  # the followed query comes last, on top
        colour = query if i == FOLLOWED else "currentColor"
        for y, weight in zip(KEY_Y, weights[i], strict=True):
            faint = "" if i == FOLLOWED else ' opacity="0.28"'
            out.append(
                f'<path d="M{QUERY_X + 25} {QUERY_Y[i]} L{KEY_X - 25} {y}" stroke="{colour}" '
                f'stroke-width="{1 + 11 * weight:.1f}"{faint}/>'
            )
    out.append("</g>")
    for i, y in QUERY_Y.items():
        colour = query if i == FOLLOWED else "currentColor"
        width = 3.5 if i == FOLLOWED else 1.8
        out.append(
            f'<circle cx="{QUERY_X}" cy="{y}" r="23" fill="none" stroke="{colour}" stroke-width="{width}"/>'
        )
        out.append(letter(QUERY_X, y, "q", i))
    for j, (y, weight) in enumerate(zip(KEY_Y, followed, strict=True), 1):
        out += [
            f'<rect x="{KEY_X - 23}" y="{y - 20}" width="46" height="40" rx="8" fill="none" '
            f'stroke="{key}" stroke-width="2.5"/>',
            letter(KEY_X, y, "k", j),
            f'<path d="M{KEY_X + 27} {y} L{VALUE_X - 27} {y}" fill="none" stroke="currentColor" stroke-width="1.5" '
            'stroke-dasharray="2 5"/>',
            f'<rect x="{VALUE_X - 23}" y="{y - 20}" width="46" height="40" rx="3" fill="none" '
            f'stroke="{value}" stroke-width="2.5"/>',
            letter(VALUE_X, y, "v", j),
            f'<rect x="{BAR_X}" y="{y - 9}" width="{100 * weight:.1f}" height="18" rx="2" fill="{query}"/>',
            f'<text x="{BAR_X + 100 * weight + 8:.1f}" y="{y + 6}" font-size="18">{short(weight)}</text>',
        ]
    terms = " + ".join(
        f'{short(weight)} <tspan font-style="italic">v{str(j).translate(SUBSCRIPT)}</tspan>'
        for j, weight in enumerate(followed, 1)
    )
    out += [
        f'<text x="{WIDTH / 2:.0f}" y="{HEIGHT - 18}" text-anchor="middle">'
        f'<tspan font-style="italic">y{str(FOLLOWED).translate(SUBSCRIPT)}</tspan> = {terms}</text>',
        "</g>",
        "</svg>",
    ]
    return "\n".join(out) + "\n"


if __name__ == "__main__":
    TARGET.write_text(draw(), "utf8")
    print(TARGET.name, "written")
