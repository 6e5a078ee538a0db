"""Draw the picture that previews of the pages show: the book's name beside a head of the trained translator.

    python tools/social_card.py

writes book/_static/social_card.png. The map is one of the book's own figures, of weights that the package carries.
"""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

TARGET = (
    Path(__file__).resolve().parents[1] / "book/_static/social_card.png"
)
SIZE = (1200, 630)
INK, QUIET, GROUND = "#1d2733", "#4c5966", "#ffffff"
MARGIN, MAP_WIDTH = 64, 540
NAME = "Attention\nin Detail"
WORDS = "Mathematics, code and\nevidence, side by side"
LEGEND = "A head of a trained translator,\nEnglish to Portuguese"


def head_map() -> Image.Image:
    """Where the head that follows the alignment most closely looks, as the chapter on the translator draws it."""
    from attention_in_detail.figures import weights_heatmap
    from attention_in_detail.models.crossings import stored_crossings

    kept = stored_crossings()[1]
    aligned = kept.weights[:, :, kept.pairs].mean(-1)
    layer, head = np.unravel_index(aligned.argmax(), aligned.shape)
    picture = weights_heatmap(
        kept.weights[layer, head],
        query_tokens=[token.strip("▁") or "▁" for token in kept.target],
        key_tokens=[token.strip("▁") or "▁" for token in kept.source],
        numbers=False,
        query_label="Portuguese",
        key_label="English",
    )
    return Image.open(io.BytesIO(picture.png())).convert("RGBA")


def font(size: int, bold: bool = False) -> ImageFont.FreeTypeFont:
    """DejaVu Sans, which comes with matplotlib."""
    from matplotlib import font_manager

    weight = "bold" if bold else "normal"
    family = font_manager.FontProperties(
        family="DejaVu Sans", weight=weight
    )
    return ImageFont.truetype(font_manager.findfont(family), size)


def card() -> Image.Image:
    page = Image.new("RGB", SIZE, GROUND)
    drawn = head_map()
    scale = min(MAP_WIDTH / drawn.width, (SIZE[1] - MARGIN) / drawn.height)
    drawn = drawn.resize(
        (round(drawn.width * scale), round(drawn.height * scale)),
        Image.Resampling.LANCZOS,
    )
    place = (
        SIZE[0] - MARGIN // 2 - drawn.width,
        (SIZE[1] - drawn.height) // 2,
    )
    page.paste(drawn, place, drawn)
    pen = ImageDraw.Draw(page)
    pen.rectangle((0, 0, 15, SIZE[1]), fill="#0b4f6c")
    pen.multiline_text(
        (MARGIN, 120), NAME, INK, font(86, bold=True), spacing=14
    )
    pen.multiline_text((MARGIN, 356), WORDS, QUIET, font(34), spacing=12)
    pen.multiline_text((MARGIN, 518), LEGEND, QUIET, font(22), spacing=8)
    return page


def main() -> None:
    card().quantize(256).save(TARGET, optimize=True)
    print(f"{TARGET.name}: {TARGET.stat().st_size // 1024} KB")


if __name__ == "__main__":
    main()
