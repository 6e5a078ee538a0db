"""The figure that shows where cross-attention stands."""

import pytest
from matplotlib.colors import to_hex

from attention_in_detail.figures import Picture
from attention_in_detail.figures._type import width_of
from attention_in_detail.figures.encoder_decoder import (
    ARROWS,
    BLOCK,
    BLOCKS,
    LAYERS,
    VECTORS,
    encoder_decoder,
)
from attention_in_detail.figures.style import (
    DARK,
    LIGHT,
    SMALL,
    contrast,
    points,
)


def words_of_blocks(picture):
    """{block: (its lines from top to bottom, their weight)} as drawn."""
    drawn = {}
    for text in picture.axes[0].texts:
        kind, _, name = (text.get_gid() or "").partition(":")
        if kind == "words":
            lines, _ = drawn.get(name, ([], None))
            drawn[name] = ([*lines, text.get_text()], text.get_weight())
    return drawn


def patch_of(picture, name):
    (patch,) = [
        p for p in picture.axes[0].patches if p.get_gid() == f"block:{name}"
    ]
    return patch


def test_it_is_a_picture_that_a_phone_can_show():
    picture = encoder_decoder()
    assert isinstance(picture, Picture)
    assert picture.css_width <= 480
    assert all(
        text.get_fontsize() >= points(SMALL)
        for text in picture.axes[0].texts
        if text.get_text()
    )


def test_the_same_call_gives_the_same_bytes():
    assert encoder_decoder().png() == encoder_decoder().png()


def test_every_block_is_drawn_with_its_words():
    drawn = words_of_blocks(encoder_decoder())
    assert {
        name: " ".join(lines) for name, (lines, _) in drawn.items()
    } == {n: b.words for n, b in BLOCKS.items()}


@pytest.mark.parametrize("highlight", [None, *BLOCKS])
def test_one_block_is_set_off_by_its_edge_and_its_type(highlight):
    picture = encoder_decoder(highlight)
    bold = [
        name
        for name, (_, weight) in words_of_blocks(picture).items()
        if weight == "bold"
    ]
    thick = [
        name
        for name in BLOCKS
        if patch_of(picture, name).get_linewidth() > 3
    ]
    assert bold == thick == ([] if highlight is None else [highlight])


@pytest.mark.parametrize("highlight", list(BLOCKS))
def test_the_words_fit_into_their_blocks(highlight):
    for name, (lines, weight) in words_of_blocks(
        encoder_decoder(highlight)
    ).items():
        assert (
            max(width_of(line, bold=weight == "bold") for line in lines)
            <= BLOCK - 8
        )
        assert 20 * len(lines) <= BLOCKS[name].bottom - BLOCKS[name].top


def test_words_and_edges_stand_out_from_what_is_behind_them():
    light = encoder_decoder()
    for picture, used in ((light, LIGHT), (light.on_dark(), DARK)):
        for text in picture.axes[0].texts:
            kind, _, name = (text.get_gid() or "").partition(":")
            behind = used.ground
            if kind == "words":
                behind = to_hex(patch_of(picture, name).get_facecolor())
            assert contrast(text.get_color(), behind) >= 7
        for name in BLOCKS:
            edge = patch_of(picture, name).get_edgecolor()
            assert contrast(to_hex(edge), used.ground) >= 3


def test_there_is_one_arrow_for_each_step():
    drawn = [
        text.get_gid()
        for text in encoder_decoder().axes[0].texts
        if (text.get_gid() or "").startswith("arrow:")
    ]
    assert drawn == [f"arrow:{start}:{end}" for start, end, _ in ARROWS]


def test_queries_come_from_the_decoder_and_keys_and_values_from_the_encoder():
    into_cross = {
        carried: start for start, end, carried in ARROWS if end == "cross"
    }
    assert into_cross == {"$Q$": "X", "$K,\\ V$": "C"}
    before = {
        end: start for start, end, _ in ARROWS if end not in ("cross",)
    }
    assert before["X"] in LAYERS["decoder layer"]
    assert before["C"] in LAYERS["encoder layer"]


def test_arrows_run_straight_down_or_straight_across():
    for text in encoder_decoder().axes[0].texts:
        if (text.get_gid() or "").startswith("arrow:"):
            (head_x, head_y), (tail_x, tail_y) = text.xy, text.xyann
            assert (head_x == tail_x and head_y - tail_y > 20) or (
                head_y == tail_y and head_x - tail_x > 60
            )


def test_the_text_alternative_says_blocks_arrows_and_which_is_set_off():
    words = encoder_decoder("cross").text_alternative
    assert (
        "Left, the encoder layer: self-attention and feed-forward network."
        in words
    )
    assert (
        "Right, the decoder layer: causal self-attention, cross-attention and feed-forward network."
        in words
    )
    assert "C : (S, D_c) to cross-attention as K, V;" in words
    assert "X : (T, D_q) to cross-attention as Q;" in words
    assert (
        "feed-forward network of the decoder layer to next words." in words
    )
    assert words.endswith("Set off: cross-attention.")
    assert "$" not in words
    assert "\\" not in words
    assert "Set off" not in encoder_decoder(None).text_alternative
    assert encoder_decoder(
        "encoder_feed_forward"
    ).text_alternative.endswith(
        "Set off: feed-forward network of the encoder layer."
    )


def test_words_of_ones_own_replace_the_text_alternative():
    assert (
        encoder_decoder(text_alternative="Two stacks.").text_alternative
        == "Two stacks."
    )


def test_an_unknown_block_is_refused_in_one_line():
    with pytest.raises(
        ValueError,
        match="highlight is 'heads'; it must be None or one of 'encoder_self'",
    ) as error:
        encoder_decoder("heads")
    assert "\n" not in str(error.value)


def test_everything_lies_inside_the_picture():
    picture = encoder_decoder()
    picture.canvas.draw()
    for text in picture.axes[0].texts:
        if text.get_text():
            box = text.get_window_extent()
            assert box.x0 >= 0
            assert box.y0 >= 0
            assert box.x1 <= picture.css_width
            assert box.y1 <= picture.css_height
    assert set(VECTORS) | set(BLOCKS) == {
        end for start, target, _ in ARROWS for end in (start, target)
    }
