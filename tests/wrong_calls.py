"""Every wrong input that is refused, and the line that refuses it.

Run as a program it prints what each call raises, as JSON: without pytest, and so without the
run-time check of annotations that the tests have switched on.
"""

import json
import sys

import array_api_strict
import numpy as np
import torch

import attention_in_detail as a
from attention_in_detail import project
from attention_in_detail.distributed import (
    held_block,
    own_rows,
    process_group,
    ring_attention,
    ring_schedule,
    run_processes,
    split_over_ranks,
)
from attention_in_detail.distributed.counting import traffic
from attention_in_detail.distributed.paper import on_paper
from attention_in_detail.exercises import check, exercises_of
from attention_in_detail.figures import attention_viewer
from attention_in_detail.insights.decoder_only import train_decoder_only
from attention_in_detail.insights.routing import change_gauge
from attention_in_detail.insights.shared_projections import (
    strongest_shared,
)
from attention_in_detail.memory import measure_peak
from attention_in_detail.models import (
    SSRUParameters,
    read_source,
    recurrent_decoder_layer,
    ssru,
    translate,
    without_cross_head,
    write_target,
)
from attention_in_detail.models.crossings import (
    cross_silencing,
    forced,
    translation,
)
from attention_in_detail.nn import (
    DecoderLayer,
    EncoderLayer,
    MultiHeadAttention,
    Transformer,
)
from attention_in_detail.nn.operators import operators_of
from attention_in_detail.passes import (
    one_pass,
    running_sum,
    three_passes,
    two_passes,
)
from attention_in_detail.planting import planted
from attention_in_detail.project.translating import OURS
from attention_in_detail.tasks import number_words as task
from attention_in_detail.tasks import (
    repeating,
    scores,
    tracing,
    training,
)
from attention_in_detail.traffic import (
    Traffic,
    block_bytes,
    largest_query_block,
    seconds_at_least,
    traffic_at_once,
    traffic_by_blocks,
)
from attention_in_detail.trained import (
    trained_decoder_only,
    trained_number_words,
)
from tests.translator_support import small_translator

B, T, S, D_q, D_k, D_v, D, h, D_out = 5, 3, 7, 10, 9, 11, 8, 2, 6
D_c, D_ff = 12, 14
V_s, V_t = 6, 5
NOTHING = object()

# The tests put a kind of array here that no arithmetic may touch.
turn_into = [lambda x: x]


def f(*shape, dtype=float):
    return turn_into[0](np.ones(shape, dtype))


def yes(*shape):
    return f(*shape, dtype=bool)


def number(x):
    return turn_into[0](np.array(x))


def t(*shape, **options):
    return torch.ones(shape, **options)


def strict(*shape):
    return array_api_strict.ones(shape)


def attend(**changed):
    given = {
        "queries": f(B, T, D_k),
        "keys": f(B, S, D_k),
        "values": f(B, S, D_v),
    } | changed
    return a.attention(**given)


def attend_again():
    """A function that stands in another one and uses what is there."""
    size = 3

    def inner():
        return size

    return inner


def weigh(**changed):
    return a.attention_weights(
        **{"queries": f(B, T, D_k), "keys": f(B, S, D_k)} | changed
    )


def score(**changed):
    return a.scores(
        **{"queries": f(B, T, D_k), "keys": f(B, S, D_k)} | changed
    )


def online(**changed):
    given = {
        "queries": f(B, T, D_k),
        "keys": f(B, S, D_k),
        "values": f(B, S, D_v),
    } | changed
    return a.online_attention(**given)


def partly(**changed):
    given = {
        "queries": f(B, T, D_k),
        "keys": f(B, S, D_k),
        "values": f(B, S, D_v),
    } | changed
    return a.partial_attention(**given)


def part(**changed):
    given = {"output": f(B, T, D_v), "largest": f(B, T), "total": f(B, T)}
    return a.PartialAttention(**given | changed)


def merged(other):
    return a.merge_partial(part(), other)


def back(**changed):
    given = {
        "queries": f(B, T, D_k),
        "keys": f(B, S, D_k),
        "values": f(B, S, D_v),
        "output_gradient": f(B, T, D_v),
    } | changed
    return a.attention_gradients(**given)


def made(**changed):
    arrays = {
        "W_Q": f(D_q, D),
        "W_K": f(D_k, D),
        "W_V": f(D_v, D),
        "W_O": f(D, D_out),
        "b_Q": f(D),
        "b_K": f(D),
        "b_V": f(D),
        "b_O": f(D_out),
        "heads": h,
    }
    return a.MultiHeadParameters(
        **{n: x for n, x in (arrays | changed).items() if x is not NOTHING}
    )


def init(*args, **changed):
    return a.MultiHeadParameters.init(
        *(args or (D, h)), **{"seed": 0} | changed
    )


def heads(function=None, **changed):
    given = {
        "parameters": made(),
        "queries": f(B, T, D_q),
        "keys": f(B, S, D_k),
        "values": f(B, S, D_v),
    }
    return (function or a.multi_head_attention)(**given | changed)


def by_head(**changed):
    return heads(a.multi_head_attention_by_head, **changed)


def itself(**changed):
    p = made(W_K=f(D_q, D), W_V=f(D_q, D))
    return a.self_attention(
        **{"parameters": p, "x": f(B, T, D_q)} | changed
    )


def cross(**changed):
    p = made(W_V=f(D_k, D))
    return a.cross_attention(
        **{"parameters": p, "x": f(B, T, D_q), "context": f(B, S, D_k)}
        | changed
    )


def module(*args, **options):
    widths = {"D_q": D_q, "D_k": D_k, "D_v": D_v, "D_out": D_out} | options
    return MultiHeadAttention(*(args or (D, h)), **widths)


def forward(*args, **changed):
    given = (
        {}
        if args
        else {
            "queries": t(B, T, D_q),
            "keys": t(B, S, D_k),
            "values": t(B, S, D_v),
        }
    )
    return module()(*args, **given | changed)


def of_torch(**options):
    return torch.nn.MultiheadAttention(D, h, **options)


def view(**changed):
    given = {
        "weights": f(h, T, S),
        "query_tokens": ["q"] * T,
        "key_tokens": ["k"] * S,
    }
    return attention_viewer(**given | changed)


def norm(**changed):
    given = {"gain": f(D), "shift": f(D)} | changed
    return a.LayerNormParameters(**given)


def feed(**changed):
    given = {
        "W_1": f(D, D_ff),
        "W_2": f(D_ff, D),
        "b_1": f(D_ff),
        "b_2": f(D),
    } | changed
    return a.FeedForwardParameters(
        **{n: x for n, x in given.items() if x is not NOTHING}
    )


def normed(**changed):
    return a.layer_norm(**{"parameters": norm(), "x": f(T, D)} | changed)


def fed(**changed):
    return a.feed_forward(**{"parameters": feed(), "x": f(T, D)} | changed)


def square(D_c=D, **changed):
    """Attention of width D, over a context of width D_c."""
    given = {
        "W_Q": f(D, D),
        "W_K": f(D_c, D),
        "W_V": f(D_c, D),
        "W_O": f(D, D),
        "b_O": f(D),
    }
    return made(**given | changed)


def encoder(**changed):
    given = {
        "attention": square(),
        "attention_norm": norm(),
        "feed_forward": feed(),
        "feed_forward_norm": norm(),
    } | changed
    return a.EncoderLayerParameters(
        **{n: x for n, x in given.items() if x is not NOTHING}
    )


def decoder(**changed):
    given = {
        "self_attention": square(),
        "self_attention_norm": norm(),
        "cross_attention": square(D_c),
        "cross_attention_norm": norm(),
        "feed_forward": feed(),
        "feed_forward_norm": norm(),
    } | changed
    return a.DecoderLayerParameters(**given)


def encode_layer(**changed):
    given = {"parameters": encoder(), "x": f(B, T, D)} | changed
    return a.encoder_layer(**given)


def decode_layer(**changed):
    given = {
        "parameters": decoder(),
        "x": f(B, T, D),
        "context": f(B, S, D_c),
    }
    return a.decoder_layer(**given | changed)


def torch_layer(kind, **options):
    made_ = getattr(torch.nn, f"Transformer{kind}Layer")
    return made_(D, h, D_ff, batch_first=True, **options)


def model(**changed):
    given = {
        "source_embedding": f(V_s, D),
        "target_embedding": f(V_t, D),
        "encoder_layers": (encoder(),),
        "decoder_layers": (decoder(cross_attention=square()),),
        "W_output": f(D, V_t),
        "b_output": f(V_t),
        "encoder_norm": norm(),
    } | changed
    return a.TransformerParameters(**given)


def ids(*shape, token=1):
    return turn_into[0](np.full(shape, token))


def encoded(**changed):
    given = {"parameters": model(), "source": ids(B, S)} | changed
    return a.encode(**given)


def decoded(**changed):
    given = {
        "parameters": model(),
        "target": ids(B, T),
        "memory": f(B, S, D),
    } | changed
    return a.decode(**given)


def whole(**changed):
    given = {
        "parameters": model(),
        "source": ids(B, S),
        "target": ids(B, T),
    } | changed
    return a.transformer(**given)


def cache(**changed):
    given = {"keys": f(B, h, T, 4), "values": f(B, h, T, 4)} | changed
    return a.KeyValueCache(**given)


def state(batch=B, layers=1):
    empty = a.KeyValueCache(f(batch, h, 0, 4), f(batch, h, 0, 4))
    full = a.KeyValueCache(f(batch, h, S, 4), f(batch, h, S, 4))
    return a.DecoderCache((empty,) * layers, (full,) * layers)


def step(**changed):
    given = {
        "parameters": model(),
        "tokens": ids(B, 1),
        "cache": state(),
    } | changed
    return a.decode_step(**given)


def greedy(**changed):
    given = {
        "parameters": model(),
        "source": ids(B, S),
        "start": 0,
        "end": 1,
        "limit": 3,
    } | changed
    return a.greedy_decode(**given)


def beam(**changed):
    given = {
        "parameters": model(),
        "source": ids(S),
        "width": 2,
        "start": 0,
        "end": 1,
        "limit": 3,
    } | changed
    return a.beam_decode(**given)


def read_model(**changed):
    given = {
        "module": None,
        "source_embedding": torch.nn.Embedding(V_s, D),
        "target_embedding": torch.nn.Embedding(V_t, D),
        "output": torch.nn.Linear(D, V_t),
    } | changed
    given["module"] = given["module"] or torch.nn.Transformer(
        D, h, 1, 1, D_ff, batch_first=True
    )
    return a.TransformerParameters.from_torch(**given)


META = {"device": "meta"}


def learner(V_t=29):
    return model(
        source_embedding=f(32, D),
        target_embedding=f(V_t, D),
        W_output=f(D, V_t),
        b_output=None,
    )


def trained(**changed):
    given = {
        "model": torch.nn.Linear(1, 1),
        "batches": [],
        "loss": print,
        "steps": 1,
    } | changed
    return training.train(**given)


CALLS = {
    # ---- softmax
    "softmax: list": lambda: a.softmax([1.0, 2.0]),
    "softmax: integers": lambda: a.softmax(f(3, dtype=int)),
    "softmax: booleans": lambda: a.softmax(yes(3)),
    "softmax: complex": lambda: a.softmax(f(3, dtype=complex)),
    "softmax: no axes": lambda: a.softmax(f()),
    "softmax: number": lambda: a.softmax(1.0),
    "softmax: axis float": lambda: a.softmax(f(3), axis=0.0),
    "softmax: axis bool": lambda: a.softmax(f(3, 3), axis=True),
    "softmax: axis None": lambda: a.softmax(f(3), axis=None),
    "softmax: axis tuple": lambda: a.softmax(f(3, 3), axis=(0, 1)),
    "softmax: axis high": lambda: a.softmax(f(3, 4), axis=2),
    "softmax: axis low": lambda: a.softmax(f(3, 4), axis=-3),
    "softmax: nothing": lambda: a.softmax(f(3, 0)),
    "softmax: nothing along 0": lambda: a.softmax(f(0, 3), axis=0),
    "softmax: missing": lambda: a.softmax(),
    "jacobian: list": lambda: a.softmax_jacobian([1.0]),
    "jacobian: integers": lambda: a.softmax_jacobian(f(3, dtype=int)),
    "jacobian: no axes": lambda: a.softmax_jacobian(f()),
    # ---- kinds
    "queries: list": lambda: attend(queries=[[1.0]]),
    "keys: None": lambda: attend(keys=None),
    "values: None": lambda: attend(values=None),
    "queries: integers": lambda: attend(queries=f(B, T, D_k, dtype=int)),
    "keys: integers": lambda: attend(keys=f(B, S, D_k, dtype=np.int32)),
    "values: integers": lambda: attend(values=f(B, S, D_v, dtype=int)),
    "values: booleans": lambda: attend(values=yes(B, S, D_v)),
    "queries: complex": lambda: attend(queries=f(B, T, D_k, dtype=complex)),
    "mask: floats": lambda: attend(mask=f(T, S)),
    "mask: integers": lambda: attend(mask=f(T, S, dtype=int)),
    "mask: list": lambda: attend(mask=[[True]]),
    "mask: text": lambda: attend(mask="causal"),
    "mask: True": lambda: attend(mask=True),
    "bias: booleans": lambda: attend(bias=yes(T, S)),
    "bias: integers": lambda: attend(bias=f(T, S, dtype=int)),
    "bias: list": lambda: attend(bias=[[0.0]]),
    "bias: number": lambda: attend(bias=0.0),
    "scale: text": lambda: attend(scale="1"),
    "scale: True": lambda: attend(scale=True),
    "scale: complex": lambda: attend(scale=1j),
    "scale: axis": lambda: attend(scale=f(1)),
    "scale: integers": lambda: attend(scale=f(dtype=int)),
    "scale: nan": lambda: attend(scale=float("nan")),
    "scale: infinite": lambda: attend(scale=float("inf")),
    "scale: beyond floats": lambda: attend(scale=10**400),
    "scale: library": lambda: attend(scale=torch.tensor(1.0)),
    "scale: device": lambda: a.scores(
        t(T, D_k), t(S, D_k), scale=t(**META)
    ),
    "return_weights: text": lambda: attend(return_weights="yes"),
    "return_weights: 1": lambda: attend(return_weights=1),
    "attention: missing": lambda: a.attention(f(T, D_k)),
    "attention: unknown": lambda: attend(dropout=0.1),
    "attention: positional": lambda: a.attention(
        f(T, D_k), f(S, D_k), f(S, D_v), yes(T, S)
    ),
    # ---- one home
    "keys: library": lambda: attend(keys=t(B, S, D_k)),
    "keys: strict": lambda: attend(keys=strict(B, S, D_k)),
    "values: library": lambda: attend(values=t(B, S, D_v)),
    "mask: library": lambda: attend(mask=t(T, S, dtype=torch.bool)),
    "bias: library": lambda: attend(bias=t(T, S)),
    "keys: dtype": lambda: attend(keys=f(B, S, D_k, dtype="float32")),
    "values: dtype": lambda: attend(values=f(B, S, D_v, dtype="float32")),
    "bias: dtype": lambda: attend(bias=f(T, S, dtype="float32")),
    "bias: dtype of half": lambda: a.attention(
        t(T, D_k).bfloat16(),
        t(S, D_k).bfloat16(),
        t(S, D_v).bfloat16(),
        bias=t(T, S),
    ),
    "keys: device": lambda: a.attention(
        t(T, D_k), t(S, D_k, **META), t(S, D_v)
    ),
    "values: device": lambda: a.attention(
        t(T, D_k, **META), t(S, D_k, **META), t(S, D_v)
    ),
    "mask: device": lambda: a.attention(
        t(T, D_k, **META),
        t(S, D_k, **META),
        t(S, D_v, **META),
        mask=t(T, S, dtype=torch.bool),
    ),
    # ---- sizes
    "queries: axes": lambda: attend(queries=f(D_k)),
    "keys: axes": lambda: attend(keys=f()),
    "values: axes": lambda: attend(values=f(S)),
    "keys: width": lambda: attend(keys=f(B, S, D_v)),
    "width of nothing": lambda: attend(queries=f(B, T, 0), keys=f(B, S, 0)),
    "keys: none": lambda: attend(keys=f(B, 0, D_k), values=f(B, 0, D_v)),
    "values: length": lambda: attend(values=f(B, T, D_v)),
    "values: length of one": lambda: attend(values=f(B, 1, D_v)),
    "keys: batch": lambda: attend(keys=f(4, S, D_k)),
    "values: batch": lambda: attend(values=f(4, S, D_v)),
    "values: second batch axis": lambda: attend(
        queries=f(2, B, T, D_k),
        keys=f(2, B, S, D_k),
        values=f(3, 1, S, D_v),
    ),
    "values: batch of the keys": lambda: attend(
        queries=f(1, T, D_k), keys=f(4, S, D_k), values=f(B, S, D_v)
    ),
    "keys: empty batch": lambda: attend(keys=f(0, S, D_k)),
    "mask: T": lambda: attend(mask=yes(S, S)),
    "mask: S": lambda: attend(mask=yes(T, T)),
    "mask: S of a row": lambda: attend(mask=yes(T)),
    "mask: batch": lambda: attend(mask=yes(4, T, S)),
    "bias: T": lambda: attend(bias=f(B, S, S)),
    "bias: S": lambda: attend(bias=f(T)),
    "bias: batch": lambda: attend(bias=f(2, 4, T, S)),
    "mask and bias: batch": lambda: attend(
        queries=f(T, D_k),
        keys=f(S, D_k),
        values=f(S, D_v),
        mask=yes(4, T, S),
        bias=f(2, T, S),
    ),
    "weights: width": lambda: weigh(keys=f(B, S, D_q)),
    "weights: integers": lambda: weigh(keys=f(B, S, D_k, dtype=int)),
    "weights: mask": lambda: weigh(mask=yes(S, T)),
    "weights: mask of numbers": lambda: weigh(mask=f(T, S)),
    "weights: bias": lambda: weigh(bias=f(4, 1, 1)),
    "weights: scale": lambda: weigh(scale=[1]),
    "scores: width": lambda: score(keys=f(B, S, D_q)),
    "scores: batch": lambda: score(keys=f(4, S, D_k)),
    "scores: none": lambda: score(keys=f(B, 0, D_k)),
    "scores: dtype": lambda: score(keys=f(B, S, D_k, dtype="float32")),
    "scores: mask": lambda: score(mask=yes(T, S)),
    # ---- masks
    "causal: T float": lambda: a.causal_mask(3.0),
    "causal: T bool": lambda: a.causal_mask(True),
    "causal: T negative": lambda: a.causal_mask(-1),
    "causal: T array": lambda: a.causal_mask(f(3, 3)),
    "causal: S zero": lambda: a.causal_mask(3, 0),
    "causal: S float": lambda: a.causal_mask(3, 2.5),
    "causal: offset float": lambda: a.causal_mask(3, offset=0.5),
    "causal: offset None": lambda: a.causal_mask(3, offset=None),
    "causal: like list": lambda: a.causal_mask(3, like=[1.0]),
    "causal: like module": lambda: a.causal_mask(3, like=np),
    "window: T float": lambda: a.window_mask(3.0, before=1, after=0),
    "window: T negative": lambda: a.window_mask(-1, before=1, after=0),
    "window: S zero": lambda: a.window_mask(3, 0, before=1, after=0),
    "window: before missing": lambda: a.window_mask(3, after=0),
    "window: before None": lambda: a.window_mask(3, before=None, after=0),
    "window: before negative": lambda: a.window_mask(3, before=-1, after=0),
    "window: after float": lambda: a.window_mask(3, before=1, after=0.5),
    "window: after True": lambda: a.window_mask(3, before=1, after=True),
    "window: after negative": lambda: a.window_mask(3, before=1, after=-2),
    "window: offset float": lambda: a.window_mask(
        3, before=1, after=0, offset=0.5
    ),
    "window: like list": lambda: a.window_mask(
        3, before=1, after=0, like=[1.0]
    ),
    "padding: list": lambda: a.padding_mask([1, 2], 3),
    "padding: floats": lambda: a.padding_mask(f(2), 3),
    "padding: booleans": lambda: a.padding_mask(yes(2), 3),
    "padding: S float": lambda: a.padding_mask(np.array([1]), 3.0),
    "padding: S zero": lambda: a.padding_mask(np.array([0]), 0),
    "padding: negative": lambda: a.padding_mask(np.array([2, -1]), 3),
    "padding: too long": lambda: a.padding_mask(
        np.array([[2, 4], [1, 5]]), 4
    ),
    "padding: too long for torch": lambda: a.padding_mask(
        torch.tensor([5]), 4
    ),
    "combine: floats": lambda: a.combine_masks(yes(3), f(3)),
    "combine: list": lambda: a.combine_masks(None, [True]),
    "combine: shapes": lambda: a.combine_masks(yes(T, S), None, yes(T, T)),
    "combine: more shapes": lambda: a.combine_masks(
        yes(4, 1, S), yes(T, S), yes(2, 1, 1)
    ),
    "combine: library": lambda: a.combine_masks(
        yes(3), t(3, dtype=torch.bool)
    ),
    "combine: device": lambda: a.combine_masks(
        t(3, dtype=torch.bool), t(3, dtype=torch.bool, **META)
    ),
    "from torch: heads": lambda: a.mask_from_torch_mha(
        yes(6, T, S), heads=4
    ),
    "from torch: heads zero": lambda: a.mask_from_torch_mha(heads=0),
    "from torch: heads float": lambda: a.mask_from_torch_mha(
        yes(T, S), heads=2.0
    ),
    "from torch: heads missing": lambda: a.mask_from_torch_mha(yes(T, S)),
    "from torch: integers": lambda: a.mask_from_torch_mha(
        f(T, S, dtype=int), heads=h
    ),
    "from torch: list": lambda: a.mask_from_torch_mha([[True]], heads=h),
    "from torch: axes": lambda: a.mask_from_torch_mha(yes(S), heads=h),
    "from torch: four axes": lambda: a.mask_from_torch_mha(
        yes(B, h, T, S), heads=h
    ),
    "from torch: padding axes": lambda: a.mask_from_torch_mha(
        None, yes(B, 1, S), heads=h
    ),
    "from torch: padding integers": lambda: a.mask_from_torch_mha(
        None, f(B, S, dtype=int), heads=h
    ),
    "from torch: S": lambda: a.mask_from_torch_mha(
        yes(T, S), yes(B, T), heads=h
    ),
    "from torch: B": lambda: a.mask_from_torch_mha(
        yes(B * h, T, S), yes(4, S), heads=h
    ),
    "from torch: no B": lambda: a.mask_from_torch_mha(
        yes(B * h, T, S), yes(S), heads=h
    ),
    "from torch: library": lambda: a.mask_from_torch_mha(
        yes(T, S), t(B, S, dtype=torch.bool), heads=h
    ),
    "to torch: floats": lambda: a.mask_to_torch_mha(f(T, S), heads=h),
    "to torch: axes": lambda: a.mask_to_torch_mha(yes(S), heads=h),
    "to torch: five axes": lambda: a.mask_to_torch_mha(
        yes(1, B, h, T, S), heads=h
    ),
    "to torch: heads": lambda: a.mask_to_torch_mha(
        yes(B, 3, T, S), heads=h
    ),
    "to torch: heads text": lambda: a.mask_to_torch_mha(
        yes(T, S), heads="2"
    ),
    # ---- positions
    "positions: length": lambda: a.sinusoidal_positions(-1, 4),
    "positions: length float": lambda: a.sinusoidal_positions(3.0, 4),
    "positions: odd": lambda: a.sinusoidal_positions(3, 5),
    "positions: zero": lambda: a.sinusoidal_positions(3, 0),
    "positions: width float": lambda: a.sinusoidal_positions(3, 4.0),
    "positions: like integers": lambda: a.sinusoidal_positions(
        3, 4, like=f(1, dtype=int)
    ),
    "positions: like list": lambda: a.sinusoidal_positions(
        3, 4, like=[0.0]
    ),
    # ---- splitting
    "split: heads": lambda: a.split_heads(f(T, D), 3),
    "split: heads zero": lambda: a.split_heads(f(T, D), 0),
    "split: heads float": lambda: a.split_heads(f(T, D), 2.0),
    "split: more heads": lambda: a.split_heads(f(T, D), 16),
    "split: no width": lambda: a.split_heads(f(T, 0), 1),
    "split: axes": lambda: a.split_heads(f(D), 2),
    "split: integers": lambda: a.split_heads(f(T, D, dtype=int), 2),
    "split: list": lambda: a.split_heads([[1.0]], 1),
    "merge: axes": lambda: a.merge_heads(f(T, D)),
    "merge: integers": lambda: a.merge_heads(f(h, T, 4, dtype=int)),
    "merge: None": lambda: a.merge_heads(None),
    # ---- parameters
    "W_Q: list": lambda: made(W_Q=[[1.0]]),
    "W_V: None": lambda: made(W_V=None),
    "W_V: missing": lambda: made(W_V=NOTHING),
    "heads: missing": lambda: made(heads=NOTHING),
    "W_K: integers": lambda: made(W_K=f(D_k, D, dtype=int)),
    "W_Q: axes": lambda: made(W_Q=f(D)),
    "W_O: axes": lambda: made(W_O=f(h, 4, D_out)),
    "b_Q: axes": lambda: made(b_Q=f(1, D)),
    "b_K: no axes": lambda: made(b_K=f()),
    "W_K: columns": lambda: made(W_K=f(D_k, 6)),
    "W_V: columns": lambda: made(W_V=f(D_v, 4)),
    "W_O: rows": lambda: made(W_O=f(4, D_out)),
    "b_Q: size": lambda: made(b_Q=f(D_q)),
    "b_V: size": lambda: made(b_V=f(1)),
    "b_O: size": lambda: made(b_O=f(D)),
    "b_O: without W_O": lambda: made(W_O=None),
    "heads: not dividing": lambda: made(heads=3),
    "heads: zero": lambda: made(heads=0),
    "heads: float": lambda: made(heads=2.0),
    "heads: text": lambda: made(heads="2"),
    "heads: more than D": lambda: made(heads=16),
    "D: zero": lambda: a.MultiHeadParameters(
        f(D_q, 0), f(D_k, 0), f(D_v, 0), heads=1
    ),
    "W_O: dtype": lambda: made(W_O=f(D, D_out, dtype="float32")),
    "W_V: library": lambda: made(W_V=t(D_v, D)),
    "b_O: library": lambda: made(b_O=strict(D_out)),
    "W_K: device": lambda: a.MultiHeadParameters(
        t(D_q, D), t(D_k, D, **META), t(D_v, D), heads=h
    ),
    "head: beyond": lambda: made().head(2),
    "head: negative": lambda: made().head(-1),
    "head: float": lambda: made().head(0.0),
    "init: D": lambda: init(0, 1),
    "init: D text": lambda: init("8", 2),
    "init: heads": lambda: init(8, 3),
    "init: heads zero": lambda: init(8, 0),
    "init: heads float": lambda: init(8, 2.0),
    "init: D_q": lambda: init(D_q=0),
    "init: D_k": lambda: init(D_k=2.5),
    "init: D_out": lambda: init(D_out=4, output=False),
    "init: seed None": lambda: init(seed=None),
    "init: seed negative": lambda: init(seed=-1),
    "init: seed missing": lambda: a.MultiHeadParameters.init(8, 2),
    "init: like": lambda: init(like=f(1, dtype=int)),
    "init: bias": lambda: init(bias="no"),
    "init: output": lambda: init(output=0),
    "from_torch: linear": lambda: a.MultiHeadParameters.from_torch(
        torch.nn.Linear(2, 2)
    ),
    "from_torch: None": lambda: a.MultiHeadParameters.from_torch(None),
    "from_torch: add_bias_kv": lambda: a.MultiHeadParameters.from_torch(
        of_torch(add_bias_kv=True)
    ),
    "from_torch: add_zero_attn": lambda: a.MultiHeadParameters.from_torch(
        of_torch(add_zero_attn=True)
    ),
    # ---- multi-head attention
    "parameters: module": lambda: heads(parameters=of_torch()),
    "parameters: dict": lambda: by_head(parameters={}),
    "multi: queries list": lambda: heads(queries=[[1.0]]),
    "multi: keys integers": lambda: by_head(keys=f(B, S, D_k, dtype=int)),
    "multi: values axes": lambda: heads(values=f(D_v)),
    "multi: queries width": lambda: heads(queries=f(B, T, D_k)),
    "multi: keys width": lambda: by_head(keys=f(B, S, D_v)),
    "multi: values width": lambda: heads(values=f(B, S, D_k)),
    "multi: values length": lambda: by_head(values=f(B, T, D_v)),
    "multi: no keys": lambda: heads(keys=f(B, 0, D_k), values=f(B, 0, D_v)),
    "multi: keys batch": lambda: by_head(keys=f(4, S, D_k)),
    "multi: dtype of parameters": lambda: heads(
        queries=f(B, T, D_q, dtype="float32"),
        keys=f(B, S, D_k, dtype="float32"),
        values=f(B, S, D_v, dtype="float32"),
    ),
    "multi: library of parameters": lambda: by_head(
        queries=t(B, T, D_q), keys=t(B, S, D_k), values=t(B, S, D_v)
    ),
    "multi: dtype of keys": lambda: heads(
        keys=f(B, S, D_k, dtype="float32")
    ),
    "multi: mask of numbers": lambda: heads(mask=f(T, S)),
    "multi: bias of booleans": lambda: by_head(bias=yes(T, S)),
    "multi: bias dtype": lambda: heads(bias=f(T, S, dtype="float32")),
    "multi: mask library": lambda: heads(mask=t(T, S, dtype=torch.bool)),
    "multi: mask five axes": lambda: heads(mask=yes(1, B, h, T, S)),
    "multi: bias five axes": lambda: by_head(bias=f(1, B, h, T, S)),
    "multi: mask four axes without a batch": lambda: heads(
        queries=f(T, D_q),
        keys=f(S, D_k),
        values=f(S, D_v),
        mask=yes(1, h, T, S),
    ),
    "multi: mask three axes with two of batch": lambda: by_head(
        queries=f(2, B, T, D_q), mask=yes(B, T, S)
    ),
    "multi: mask T": lambda: heads(mask=yes(S, S)),
    "multi: mask S": lambda: by_head(mask=yes(B, 1, T)),
    "multi: mask heads": lambda: heads(mask=yes(B, 3, T, S)),
    "multi: bias heads": lambda: by_head(bias=f(1, 4, 1, S)),
    "multi: mask of heads for a batch": lambda: heads(mask=yes(h, T, S)),
    "multi: mask batch": lambda: by_head(mask=yes(4, h, T, S)),
    "multi: bias batch": lambda: heads(bias=f(4, 1, S)),
    "multi: return_weights": lambda: by_head(return_weights=None),
    "multi: missing": lambda: a.multi_head_attention(
        made(), f(T, D_q), f(S, D_k)
    ),
    "multi: scale": lambda: heads(scale=1.0),
    "self: list": lambda: itself(x=[1.0]),
    "self: axes": lambda: itself(x=f(D_q)),
    "self: width": lambda: itself(x=f(B, T, D_k)),
    "self: D_k": lambda: itself(parameters=made()),
    "self: D_v": lambda: itself(parameters=made(W_K=f(D_q, D))),
    "self: empty": lambda: itself(x=f(B, 0, D_q)),
    "self: mask T": lambda: itself(mask=yes(S, T)),
    "self: mask S": lambda: itself(mask=yes(T, S)),
    "self: mask axes": lambda: itself(mask=yes(1, B, h, T, T)),
    "self: bias heads": lambda: itself(bias=f(B, 3, T, T)),
    "self: parameters": lambda: itself(parameters=None),
    "self: return_weights": lambda: itself(return_weights=2),
    "cross: context None": lambda: cross(context=None),
    "cross: x width": lambda: cross(x=f(B, T, D_k)),
    "cross: context width": lambda: cross(context=f(B, S, D_q)),
    "cross: D_v": lambda: cross(parameters=made()),
    "cross: batch": lambda: cross(context=f(4, S, D_k)),
    "cross: no context": lambda: cross(context=f(B, 0, D_k)),
    "cross: mask T": lambda: cross(mask=yes(S, S)),
    "cross: mask S": lambda: cross(mask=yes(T, T)),
    "cross: dtype": lambda: cross(context=f(B, S, D_k, dtype="float32")),
    "cross: missing": lambda: a.cross_attention(made(), f(T, D_q)),
    # ---- pointwise
    "relu: list": lambda: a.relu([1.0]),
    "relu: integers": lambda: a.relu(f(3, dtype=int)),
    "gelu: number": lambda: a.gelu(1.0),
    "gelu: booleans": lambda: a.gelu(yes(3)),
    "norm: gain list": lambda: norm(gain=[1.0]),
    "norm: gain integers": lambda: norm(gain=f(D, dtype=int)),
    "norm: gain axes": lambda: norm(gain=f(1, D)),
    "norm: gain empty": lambda: norm(gain=f(0), shift=None),
    "norm: shift size": lambda: norm(shift=f(1)),
    "norm: shift dtype": lambda: norm(shift=f(D, dtype="float32")),
    "norm: shift library": lambda: norm(shift=t(D)),
    "norm: eps text": lambda: norm(eps="1e-5"),
    "norm: eps True": lambda: norm(eps=True),
    "norm: eps zero": lambda: norm(eps=0.0),
    "norm: eps nan": lambda: norm(eps=float("nan")),
    "norm: eps infinite": lambda: norm(eps=float("inf")),
    "norm: missing": lambda: a.LayerNormParameters(eps=1.0),
    "norm from_torch: linear": lambda: a.LayerNormParameters.from_torch(
        torch.nn.Linear(2, 2)
    ),
    "norm from_torch: without gain": lambda: (
        a.LayerNormParameters.from_torch(
            torch.nn.LayerNorm(D, elementwise_affine=False)
        )
    ),
    "norm from_torch: two axes": lambda: a.LayerNormParameters.from_torch(
        torch.nn.LayerNorm((T, D))
    ),
    "layer_norm: parameters": lambda: normed(parameters=feed()),
    "layer_norm: list": lambda: normed(x=[1.0]),
    "layer_norm: no axes": lambda: normed(x=f()),
    "layer_norm: width": lambda: normed(x=f(T, 1)),
    "layer_norm: dtype": lambda: normed(x=f(T, D, dtype="float32")),
    "layer_norm: library": lambda: normed(x=t(T, D)),
    "feed: W_1 None": lambda: feed(W_1=None),
    "feed: W_1 axes": lambda: feed(W_1=f(D)),
    "feed: W_1 no rows": lambda: feed(W_1=f(0, D_ff), W_2=f(D_ff, 0)),
    "feed: W_1 no columns": lambda: feed(W_1=f(D, 0), W_2=f(0, D)),
    "feed: W_2 missing": lambda: feed(W_2=NOTHING),
    "feed: W_2 integers": lambda: feed(W_2=f(D_ff, D, dtype=int)),
    "feed: W_2 rows": lambda: feed(W_2=f(D, D)),
    "feed: W_2 columns": lambda: feed(W_2=f(D_ff, D_out)),
    "feed: W_2 dtype": lambda: feed(W_2=f(D_ff, D, dtype="float32")),
    "feed: b_1 size": lambda: feed(b_1=f(D)),
    "feed: b_2 size": lambda: feed(b_2=f(1)),
    "feed: b_2 axes": lambda: feed(b_2=f(1, D)),
    "feed: b_2 library": lambda: feed(b_2=t(D)),
    "feed: activation None": lambda: feed(activation=None),
    "feed: activation other": lambda: feed(activation="tanh"),
    "feed_forward: parameters": lambda: fed(parameters=norm()),
    "feed_forward: integers": lambda: fed(x=f(T, D, dtype=int)),
    "feed_forward: axes": lambda: fed(x=f(D)),
    "feed_forward: width": lambda: fed(x=f(T, D_ff)),
    "feed_forward: dtype": lambda: fed(x=f(T, D, dtype="float32")),
    "feed_forward: dropout": lambda: fed(dropout=0.1),
    # ---- layers
    "encoder: attention": lambda: encoder(attention=norm()),
    "encoder: attention missing": lambda: encoder(attention=NOTHING),
    "encoder: attention_norm": lambda: encoder(attention_norm=None),
    "encoder: feed_forward": lambda: encoder(feed_forward=square()),
    "encoder: feed_forward_norm": lambda: encoder(feed_forward_norm={}),
    "encoder: norm_first": lambda: encoder(norm_first=1),
    "encoder: D_k": lambda: encoder(attention=square(W_K=f(D_k, D))),
    "encoder: D_v": lambda: encoder(attention=square(W_V=f(D_v, D))),
    "encoder: D_out": lambda: encoder(
        attention=square(W_O=f(D, D_out), b_O=None)
    ),
    "encoder: norm width": lambda: encoder(
        attention_norm=norm(gain=f(D_q), shift=None)
    ),
    "encoder: second norm width": lambda: encoder(
        feed_forward_norm=norm(gain=f(1), shift=None)
    ),
    "encoder: feed_forward width": lambda: encoder(
        feed_forward=a.FeedForwardParameters(f(D_q, D_ff), f(D_ff, D_q))
    ),
    "encoder: norm dtype": lambda: encoder(
        attention_norm=norm(gain=f(D, dtype="float32"), shift=None)
    ),
    "encoder: feed_forward library": lambda: encoder(
        feed_forward=a.FeedForwardParameters(t(D, D_ff), t(D_ff, D))
    ),
    "encoder from_torch: linear": lambda: (
        a.EncoderLayerParameters.from_torch(torch.nn.Linear(2, 2))
    ),
    "encoder from_torch: tanh": lambda: a.EncoderLayerParameters.from_torch(
        torch_layer("Encoder", activation=torch.tanh)
    ),
    "encoder from_torch: gelu with tanh": lambda: (
        a.EncoderLayerParameters.from_torch(
            torch_layer(
                "Encoder", activation=torch.nn.GELU(approximate="tanh")
            )
        )
    ),
    "decoder: self_attention": lambda: decoder(self_attention=None),
    "decoder: cross_attention": lambda: decoder(cross_attention=feed()),
    "decoder: self_attention_norm": lambda: decoder(
        self_attention_norm=feed()
    ),
    "decoder: cross_attention_norm": lambda: decoder(
        cross_attention_norm=norm(gain=f(D_c), shift=None)
    ),
    "decoder: feed_forward": lambda: decoder(feed_forward=None),
    "decoder: norm_first": lambda: decoder(norm_first="yes"),
    "decoder: self D_k": lambda: decoder(self_attention=square(D_c)),
    "decoder: cross D_q": lambda: decoder(
        cross_attention=square(D_c, W_Q=f(D_q, D))
    ),
    "decoder: cross D_out": lambda: decoder(
        cross_attention=square(D_c, W_O=f(D, D_out), b_O=None)
    ),
    "decoder: context": lambda: decoder(
        cross_attention=square(W_K=f(D_k, D))
    ),
    "decoder: cross library": lambda: decoder(
        cross_attention=a.MultiHeadParameters(
            t(D, D), t(D, D), t(D, D), heads=h
        )
    ),
    "decoder from_torch: encoder's": lambda: (
        a.DecoderLayerParameters.from_torch(torch_layer("Encoder"))
    ),
    "encoder_layer: parameters": lambda: encode_layer(parameters=decoder()),
    "encoder_layer: list": lambda: encode_layer(x=[1.0]),
    "encoder_layer: integers": lambda: encode_layer(
        x=f(B, T, D, dtype=int)
    ),
    "encoder_layer: axes": lambda: encode_layer(x=f(D)),
    "encoder_layer: width": lambda: encode_layer(x=f(B, T, D_q)),
    "encoder_layer: empty": lambda: encode_layer(x=f(B, 0, D)),
    "encoder_layer: dtype": lambda: encode_layer(
        x=f(B, T, D, dtype="float32")
    ),
    "encoder_layer: library": lambda: encode_layer(x=t(B, T, D)),
    "encoder_layer: mask of numbers": lambda: encode_layer(mask=f(T, T)),
    "encoder_layer: mask T": lambda: encode_layer(mask=yes(S, T)),
    "encoder_layer: mask S": lambda: encode_layer(mask=yes(T, S)),
    "encoder_layer: mask axes": lambda: encode_layer(
        mask=yes(1, B, h, T, T)
    ),
    "encoder_layer: mask heads": lambda: encode_layer(mask=yes(B, 3, T, T)),
    "encoder_layer: mask batch": lambda: encode_layer(mask=yes(4, 1, T)),
    "encoder_layer: mask library": lambda: encode_layer(
        mask=t(T, T, dtype=torch.bool)
    ),
    "encoder_layer: return_weights": lambda: encode_layer(return_weights=1),
    "encoder_layer: bias": lambda: encode_layer(bias=f(T, T)),
    "decoder_layer: parameters": lambda: decode_layer(parameters=encoder()),
    "decoder_layer: context None": lambda: decode_layer(context=None),
    "decoder_layer: context width": lambda: decode_layer(
        context=f(B, S, D)
    ),
    "decoder_layer: context axes": lambda: decode_layer(context=f(D_c)),
    "decoder_layer: context empty": lambda: decode_layer(
        context=f(B, 0, D_c)
    ),
    "decoder_layer: context dtype": lambda: decode_layer(
        context=f(B, S, D_c, dtype="float32")
    ),
    "decoder_layer: context batch": lambda: decode_layer(
        context=f(4, S, D_c)
    ),
    "decoder_layer: x width": lambda: decode_layer(x=f(B, T, D_c)),
    "decoder_layer: x empty": lambda: decode_layer(x=f(B, 0, D)),
    "decoder_layer: mask S": lambda: decode_layer(mask=yes(T, S)),
    "decoder_layer: context_mask of numbers": lambda: decode_layer(
        context_mask=f(T, S)
    ),
    "decoder_layer: context_mask S": lambda: decode_layer(
        context_mask=yes(T, T)
    ),
    "decoder_layer: context_mask T": lambda: decode_layer(
        context_mask=yes(S, S)
    ),
    "decoder_layer: context_mask heads": lambda: decode_layer(
        context_mask=yes(1, 3, T, S)
    ),
    "decoder_layer: context_mask batch": lambda: decode_layer(
        context_mask=yes(4, 1, S)
    ),
    "decoder_layer: return_weights": lambda: decode_layer(
        return_weights=None
    ),
    "decoder_layer: missing": lambda: a.decoder_layer(decoder(), f(T, D)),
    "map_arrays: dict": lambda: a.map_arrays({}, abs),
    "map_arrays: class": lambda: a.map_arrays(a.LayerNormParameters, abs),
    "map_arrays: function": lambda: a.map_arrays(norm(), "double"),
    "map_arrays: what no longer fits": lambda: a.map_arrays(
        norm(), lambda x: x[None]
    ),
    # ---- the module
    "module: D": lambda: module(0, 1),
    "module: D text": lambda: module("8", 2),
    "module: heads": lambda: module(8, 3),
    "module: heads float": lambda: module(8, 2.0),
    "module: D_v": lambda: module(D_v=0),
    "module: D_out": lambda: module(output=False),
    "module: dropout one": lambda: module(dropout=1.0),
    "module: dropout negative": lambda: module(dropout=-0.1),
    "module: dropout nan": lambda: module(dropout=float("nan")),
    "module: dropout text": lambda: module(dropout="0.1"),
    "module: dropout True": lambda: module(dropout=True),
    "module: bias": lambda: module(bias=None),
    "module: output": lambda: module(output="yes"),
    "forward: numpy": lambda: forward(queries=f(B, T, D_q)),
    "forward: list": lambda: forward(keys=[1.0]),
    "forward: integers": lambda: forward(
        keys=t(B, S, D_k, dtype=torch.int64)
    ),
    "forward: queries width": lambda: forward(queries=t(B, T, D_k)),
    "forward: keys width": lambda: forward(keys=t(B, S, D_v)),
    "forward: values width": lambda: forward(values=t(B, S, D_k)),
    "forward: values length": lambda: forward(values=t(B, T, D_v)),
    "forward: batch": lambda: forward(values=t(4, S, D_v)),
    "forward: dtype": lambda: forward(
        keys=t(B, S, D_k, dtype=torch.float64)
    ),
    "forward: dtype of parameters": lambda: module().double()(
        t(B, T, D_q), t(B, S, D_k), t(B, S, D_v)
    ),
    "forward: values without keys": lambda: forward(
        t(B, T, D_q), values=t(B, S, D_v)
    ),
    "forward: itself": lambda: forward(t(B, T, D_q)),
    "forward: no values": lambda: forward(t(B, T, D_q), t(B, S, D_k)),
    "forward: no keys": lambda: forward(
        keys=t(B, 0, D_k), values=t(B, 0, D_v)
    ),
    "forward: mask of numbers": lambda: forward(mask=t(T, S)),
    "forward: mask S": lambda: forward(mask=t(T, T, dtype=torch.bool)),
    "forward: mask axes": lambda: forward(
        mask=t(1, B, h, T, S, dtype=torch.bool)
    ),
    "forward: mask heads": lambda: forward(
        mask=t(B, 3, T, S, dtype=torch.bool)
    ),
    "forward: bias of booleans": lambda: forward(
        bias=t(T, S, dtype=torch.bool)
    ),
    "forward: causal_offset": lambda: forward(causal_offset=0.5),
    "forward: causal_offset True": lambda: forward(causal_offset=True),
    "forward: return_weights": lambda: forward(return_weights="yes"),
    "module from_torch: linear": lambda: MultiHeadAttention.from_torch(
        torch.nn.Linear(2, 2)
    ),
    "module from_torch: add_zero_attn": lambda: (
        MultiHeadAttention.from_torch(of_torch(add_zero_attn=True))
    ),
    "to_torch: D_q": lambda: module(D_out=D).to_torch(),
    "to_torch: D_out": lambda: module(D_q=D).to_torch(),
    "to_torch: output": lambda: module(D_out=None, output=False).to_torch(),
}

CALLS |= {
    # ---- the modules of layers
    "nn encoder: D": lambda: EncoderLayer(0, 1),
    "nn encoder: heads": lambda: EncoderLayer(8, 3),
    "nn encoder: D_ff": lambda: EncoderLayer(8, 2, D_ff=0),
    "nn encoder: D_ff float": lambda: EncoderLayer(8, 2, D_ff=2.0),
    "nn encoder: activation": lambda: EncoderLayer(8, 2, activation="silu"),
    "nn encoder: activation function": lambda: EncoderLayer(
        8, 2, activation=torch.relu
    ),
    "nn encoder: norm_first": lambda: EncoderLayer(8, 2, norm_first=1),
    "nn encoder: dropout": lambda: EncoderLayer(8, 2, dropout=1.0),
    "nn encoder: eps": lambda: EncoderLayer(8, 2, eps=0),
    "nn encoder: bias": lambda: EncoderLayer(8, 2, bias=None),
    "nn encoder: forward numpy": lambda: EncoderLayer(D, h)(f(T, D)),
    "nn encoder: forward width": lambda: EncoderLayer(D, h)(t(T, D_q)),
    "nn encoder: forward dtype": lambda: EncoderLayer(D, h)(
        t(T, D, dtype=torch.float64)
    ),
    "nn encoder: forward mask": lambda: EncoderLayer(D, h)(
        t(T, D), mask=t(T, T)
    ),
    "nn encoder: from_torch": lambda: EncoderLayer.from_torch(
        torch.nn.Linear(2, 2)
    ),
    "nn decoder: D_c": lambda: DecoderLayer(8, 2, D_c=0),
    "nn decoder: D_c float": lambda: DecoderLayer(8, 2, D_c=8.0),
    "nn decoder: heads": lambda: DecoderLayer(8, 3),
    "nn decoder: forward context": lambda: DecoderLayer(D, h, D_c=D_c)(
        t(T, D), t(S, D)
    ),
    "nn decoder: forward context_mask": lambda: DecoderLayer(D, h)(
        t(T, D), t(S, D), context_mask=t(S, T, dtype=torch.bool)
    ),
    "nn decoder: forward return_weights": lambda: DecoderLayer(D, h)(
        t(T, D), t(S, D), return_weights=1
    ),
    "nn decoder: from_torch": lambda: DecoderLayer.from_torch(
        torch_layer("Encoder")
    ),
}

CALLS |= {
    # ---- the whole Transformer
    "model: source_embedding list": lambda: model(source_embedding=[[1.0]]),
    "model: target_embedding axes": lambda: model(target_embedding=f(D)),
    "model: W_output axes": lambda: model(W_output=f(1, D, V_t)),
    "model: encoder_layers list": lambda: model(encoder_layers=[encoder()]),
    "model: encoder_layers empty": lambda: model(encoder_layers=()),
    "model: encoder_layers of decoders": lambda: model(
        encoder_layers=(decoder(),)
    ),
    "model: decoder_layers of encoders": lambda: model(
        decoder_layers=(encoder(),)
    ),
    "model: source width": lambda: model(source_embedding=f(V_s, D_q)),
    "model: target width": lambda: model(target_embedding=f(V_t, 1)),
    "model: context width": lambda: model(decoder_layers=(decoder(),)),
    "model: W_output width": lambda: model(W_output=f(D_q, V_t)),
    "model: vocabulary": lambda: model(W_output=f(D, V_s)),
    "model: b_output": lambda: model(b_output=f(V_s)),
    "model: encoder_norm": lambda: model(encoder_norm=feed()),
    "model: decoder_norm width": lambda: model(
        decoder_norm=norm(gain=f(D_q), shift=None)
    ),
    "model: no source token": lambda: model(source_embedding=f(0, D)),
    "model: dtype": lambda: model(b_output=f(V_t, dtype="float32")),
    "model: library": lambda: model(target_embedding=t(V_t, D)),
    "model from_torch: linear": lambda: read_model(
        module=torch.nn.Linear(2, 2)
    ),
    "model from_torch: embedding": lambda: read_model(
        source_embedding=torch.nn.Linear(2, 2)
    ),
    "model from_torch: output": lambda: read_model(
        output=torch.nn.Embedding(V_t, D)
    ),
    "model from_torch: width": lambda: read_model(
        target_embedding=torch.nn.Embedding(V_t, D_q)
    ),
    "embed: tokens list": lambda: a.embed(f(V_s, D), [1]),
    "embed: tokens floating": lambda: a.embed(f(V_s, D), f(T)),
    "embed: tokens booleans": lambda: a.embed(f(V_s, D), yes(T)),
    "embed: no axes": lambda: a.embed(f(V_s, D), ids()),
    "embed: no tokens": lambda: a.embed(f(V_s, D), ids(B, 0)),
    "embed: token high": lambda: a.embed(f(V_s, D), ids(T, token=V_s)),
    "embed: token negative": lambda: a.embed(f(V_s, D), ids(T, token=-1)),
    "embed: table axes": lambda: a.embed(f(D), ids(T)),
    "embed: table integers": lambda: a.embed(ids(V_s, D), ids(T)),
    "embed: odd width": lambda: a.embed(f(V_s, 7), ids(T)),
    "embed: offset": lambda: a.embed(f(V_s, D), ids(T), offset=-1),
    "embed: offset float": lambda: a.embed(f(V_s, D), ids(T), offset=1.0),
    "embed: library": lambda: a.embed(t(V_s, D), ids(T)),
    "encode: parameters": lambda: encoded(parameters=encoder()),
    "encode: source floating": lambda: encoded(source=f(B, S)),
    "encode: source token": lambda: encoded(source=ids(B, S, token=9)),
    "encode: source empty": lambda: encoded(source=ids(B, 0)),
    "encode: mask of numbers": lambda: encoded(source_mask=f(S)),
    "encode: mask S": lambda: encoded(source_mask=yes(B, 1, T)),
    "encode: mask T": lambda: encoded(source_mask=yes(B, S, S)),
    "encode: mask of lengths": lambda: encoded(source_mask=yes(B, S)),
    "encode: mask heads": lambda: encoded(source_mask=yes(B, h, 1, S)),
    "encode: mask batch": lambda: encoded(source_mask=yes(4, 1, S)),
    "encode: mask library": lambda: encoded(
        source_mask=t(S, dtype=torch.bool)
    ),
    "encode: return_weights": lambda: encoded(return_weights=1),
    "decode: target floating": lambda: decoded(target=f(B, T)),
    "decode: target token": lambda: decoded(target=ids(B, T, token=V_t)),
    "decode: target batch axes": lambda: decoded(target=ids(T)),
    "decode: target batch": lambda: decoded(target=ids(4, T)),
    "decode: memory integers": lambda: decoded(memory=ids(B, S, D)),
    "decode: memory width": lambda: decoded(memory=f(B, S, D_q)),
    "decode: memory empty": lambda: decoded(memory=f(B, 0, D)),
    "decode: memory dtype": lambda: decoded(
        memory=f(B, S, D, dtype="float32")
    ),
    "decode: target_mask S": lambda: decoded(target_mask=yes(T, S)),
    "decode: target_mask heads": lambda: decoded(
        target_mask=yes(B, h, T, T)
    ),
    "decode: source_mask S": lambda: decoded(source_mask=yes(T)),
    "decode: source_mask T": lambda: decoded(source_mask=yes(T, S)),
    "decode: return_weights": lambda: decoded(return_weights="all"),
    "transformer: parameters": lambda: whole(parameters=None),
    "transformer: source": lambda: whole(source=None),
    "transformer: source token": lambda: whole(source=ids(B, S, token=6)),
    "transformer: target token": lambda: whole(target=ids(B, T, token=-2)),
    "transformer: target axes": lambda: whole(target=ids(1, B, T)),
    "transformer: batch": lambda: whole(target=ids(4, T)),
    "transformer: source_mask": lambda: whole(source_mask=f(S)),
    "transformer: target_mask": lambda: whole(target_mask=yes(4, T, T)),
    "transformer: return_weights": lambda: whole(return_weights=None),
    # ---- decoding
    "cache: keys": lambda: cache(keys=None),
    "cache: axes": lambda: cache(keys=f(T, 4)),
    "cache: length": lambda: cache(values=f(B, h, S, 4)),
    "cache: heads": lambda: cache(values=f(B, 3, T, 4)),
    "cache: dtype": lambda: cache(values=f(B, h, T, 4, dtype="float32")),
    "append: width": lambda: cache().append(f(B, h, 1, 5), f(B, h, 1, 4)),
    "append: batch": lambda: cache().append(f(4, h, 1, 4), f(4, h, 1, 4)),
    "append: library": lambda: cache().append(t(B, h, 1, 4), t(B, h, 1, 4)),
    "append: length": lambda: cache().append(f(B, h, 1, 4), f(B, h, 2, 4)),
    "take: list": lambda: cache().take([0]),
    "take: floating": lambda: cache().take(f(1)),
    "take: axes": lambda: cache().take(ids(1, 1)),
    "take: beyond": lambda: cache().take(ids(1, token=B)),
    "take: no batch axis": lambda: a.KeyValueCache(
        f(h, T, 4), f(h, T, 4)
    ).take(ids(1)),
    "decoder cache take: negative": lambda: state().take(ids(1, token=-1)),
    "decoder_cache: parameters": lambda: a.decoder_cache(
        decoder(), f(B, S, D)
    ),
    "decoder_cache: memory": lambda: a.decoder_cache(model(), f(B, S, D_q)),
    "decoder_cache: mask": lambda: a.decoder_cache(
        model(), f(B, S, D), source_mask=yes(B, S)
    ),
    "step: cache": lambda: step(cache=cache()),
    "step: tokens": lambda: step(tokens=f(B, 1)),
    "step: no tokens": lambda: step(tokens=ids(B, 0)),
    "step: token": lambda: step(tokens=ids(B, 1, token=V_t)),
    "step: batch": lambda: step(tokens=ids(1, 1)),
    "step: layers": lambda: step(cache=state(layers=2)),
    "greedy: source": lambda: greedy(source=[1]),
    "greedy: start": lambda: greedy(start=V_t),
    "greedy: end": lambda: greedy(end=-1),
    "greedy: end float": lambda: greedy(end=1.0),
    "greedy: limit": lambda: greedy(limit=0),
    "greedy: limit None": lambda: greedy(limit=None),
    "greedy: mask": lambda: greedy(source_mask=yes(B, S)),
    "greedy: cached": lambda: greedy(cached=0),
    "greedy: token": lambda: greedy(source=ids(B, S, token=V_s)),
    "beam: width": lambda: beam(width=0),
    "beam: width float": lambda: beam(width=2.0),
    "beam: batch": lambda: beam(source=ids(B, S)),
    "beam: mask": lambda: beam(source_mask=yes(1, 1, S)),
    "beam: start": lambda: beam(start=99),
    "beam: limit": lambda: beam(limit=-1),
    "nn transformer: V_s": lambda: Transformer(0, V_t, D, h),
    "nn transformer: V_t": lambda: Transformer(V_s, 2.5, D, h),
    "nn transformer: D": lambda: Transformer(V_s, V_t, 7, 1),
    "nn transformer: heads": lambda: Transformer(V_s, V_t, D, 3),
    "nn transformer: layers": lambda: Transformer(
        V_s, V_t, D, h, decoder_layers=0
    ),
    "nn transformer: final_norm": lambda: Transformer(
        V_s, V_t, D, h, final_norm="yes"
    ),
    "nn transformer: dropout": lambda: Transformer(
        V_s, V_t, D, h, dropout=1
    ),
    "nn transformer: forward": lambda: Transformer(
        V_s, V_t, D, h, encoder_layers=1, decoder_layers=1
    )(torch.tensor([9]), torch.tensor([1])),
    "nn transformer: from_torch": lambda: Transformer.from_torch(
        torch.nn.Linear(2, 2), None, None, None
    ),
    # ---- tasks and trained models
    "english: text": lambda: task.english_words("7"),
    "english: float": lambda: task.english_words(7.0),
    "english: high": lambda: task.english_words(1_000_000),
    "german: negative": lambda: task.german_words(-1),
    "german: boolean": lambda: task.german_words(True),
    "alignment: None": lambda: task.gold_alignment(None),
    "batch: number": lambda: task.make_batch(7),
    "batch: text": lambda: task.make_batch("7"),
    "batch: empty": lambda: task.make_batch([]),
    "batch: float": lambda: task.make_batch([1, 2.0]),
    "batch: floats": lambda: task.make_batch(f(3)),
    "batch: axes": lambda: task.make_batch(ids(2, 3)),
    "batch: high": lambda: task.make_batch([3, 1_000_000]),
    "batch: no rows": lambda: task.make_batch(ids(0)),
    "batches: size": lambda: next(task.batches([1], 0, seed=0)),
    "batches: seed": lambda: next(task.batches([1], 1, seed=-1)),
    "batches: number": lambda: next(task.batches([-1], 1, seed=0)),
    "split: held_out": lambda: task.split_numbers(held_out=1_000_000),
    "split: none": lambda: task.split_numbers(held_out=0),
    "split: seed": lambda: task.split_numbers(seed="0"),
    "words: id": lambda: task.words([29], task.GERMAN),
    "words: vocabulary": lambda: task.words([1], "GERMAN"),
    "words: ids": lambda: task.words(None, task.GERMAN),
    "translations: parameters": lambda: scores.translations(None, [1]),
    "exact_share: torch": lambda: scores.exact_share(
        a.map_arrays(learner(), torch.from_numpy), [1]
    ),
    "exact_share: vocabulary": lambda: scores.exact_share(model(), [1]),
    "exact_share: target": lambda: scores.exact_share(learner(V_t=28), [1]),
    "cross_weights: numbers": lambda: scores.cross_weights(learner(), []),
    "alignment_scores: numbers": lambda: scores.alignment_scores(
        learner(), [1, -3]
    ),
    "traced: parameters": lambda: tracing.traced_translation(model(), 1),
    "traced: number": lambda: tracing.traced_translation(
        learner(), 1_000_000
    ),
    "traced: text": lambda: tracing.traced_translation(learner(), "1"),
    "traced: none": lambda: tracing.traced_translation(
        learner(), 1, candidates=0
    ),
    "traced: too many": lambda: tracing.traced_translation(
        learner(), 1, candidates=30
    ),
    "train: model": lambda: trained(model=model()),
    "train: batches": lambda: trained(batches=3),
    "train: loss": lambda: trained(loss=0.0),
    "train: steps": lambda: trained(steps=0),
    "train: warm_up": lambda: trained(warm_up=-1),
    "train: rate": lambda: trained(rate="fast"),
    "train: rate 0": lambda: trained(rate=0.0),
    "train: report": lambda: trained(report="print"),
    "train: every": lambda: trained(every=0),
    "number words: seed": lambda: training.train_number_words(seed=None),
    "number words: steps": lambda: training.train_number_words(
        seed=0, steps=1.5
    ),
    "number words: size": lambda: training.train_number_words(
        seed=0, size=0
    ),
    "number words: dtype": lambda: training.train_number_words(
        seed=0, dtype="float16"
    ),
    "number words: norm_first": lambda: training.train_number_words(
        seed=0, norm_first=1
    ),
    "numpy_parameters: model": lambda: training.numpy_parameters(model()),
    "numpy_parameters: layer": lambda: training.numpy_parameters(
        torch.nn.Linear(1, 1)
    ),
    "trained: dtype": lambda: trained_number_words("float16"),
}


READER = small_translator()  # D = 8, 2 heads, 7 pieces, 2 decoder layers


def recur(**changed):
    return SSRUParameters(
        **{"W": f(D, D), "W_f": f(D, D), "b_f": f(D)} | changed
    )


def carry(**changed):
    return ssru(**{"parameters": recur(), "x": f(T, D)} | changed)


def layered(**changed):
    given = {
        "parameters": READER.decoder_layers[0],
        "x": f(T, D),
        "context": f(S, D),
    } | changed
    return recurrent_decoder_layer(**given)


def write(**changed):
    given = {"model": READER, "context": f(S, D), "ids": number([1, 2])}
    return write_target(**given | changed)


CALLS |= {
    "SSRUParameters: integers": lambda: recur(W=f(D, D, dtype=int)),
    "SSRUParameters: axes": lambda: recur(b_f=f(D, D)),
    "SSRUParameters: not square": lambda: recur(W=f(D, 3)),
    "SSRUParameters: gate": lambda: recur(W_f=f(3, D)),
    "SSRUParameters: bias": lambda: recur(b_f=f(3)),
    "SSRUParameters: dtype": lambda: recur(b_f=f(D, dtype="float32")),
    "ssru: parameters": lambda: carry(parameters=norm()),
    "ssru: batch": lambda: carry(x=f(B, T, D)),
    "ssru: width": lambda: carry(x=f(T, 3)),
    "ssru: no row": lambda: carry(x=f(0, D)),
    "ssru: library": lambda: carry(x=t(T, D, dtype=torch.float64)),
    "ssru: state": lambda: carry(state=f(3)),
    "ssru: state axes": lambda: carry(state=f(T, D)),
    "recurrent layer: parameters": lambda: layered(parameters=recur()),
    "recurrent layer: width": lambda: layered(x=f(T, 3)),
    "recurrent layer: context": lambda: layered(context=f(S, 3)),
    "recurrent layer: batch": lambda: layered(context=f(B, S, D)),
    "recurrent layer: mask": lambda: layered(mask=f(T, S)),
    "recurrent layer: mask size": lambda: layered(mask=yes(T, 2)),
    "translator: ids": lambda: READER.ids(3),
    "translator: pieces": lambda: READER.pieces(f(2)),
    "translator: piece": lambda: READER.pieces(number([7])),
    "read_source: list": lambda: read_source(READER, [1, 2]),
    "read_source: floats": lambda: read_source(READER, f(2)),
    "read_source: none": lambda: read_source(READER, f(0, dtype=int)),
    "read_source: batch": lambda: read_source(READER, number([[1]])),
    "read_source: piece": lambda: read_source(READER, number([1, -1])),
    "read_source: model": lambda: read_source(None, number([1])),
    "write_target: model": lambda: write(model=READER.decoder_layers),
    "write_target: context": lambda: write(context=f(S, 3)),
    "write_target: no context": lambda: write(context=f(0, D)),
    "write_target: dtype": lambda: write(context=f(S, D, dtype="float32")),
    "write_target: ids": lambda: write(ids=number([99])),
    "write_target: mask": lambda: write(mask=f(2, 2, 2, S)),
    "write_target: mask shape": lambda: write(mask=yes(2, S)),
    "translate: model": lambda: translate("a", READER),
    "translate: number": lambda: translate(READER, 3),
    "translate: blank": lambda: translate(READER, "  "),
    "translate: among": lambda: translate(READER, "a", among=f(2)),
    "translate: among axes": lambda: translate(
        READER, "a", among=number([[0]])
    ),
    "translate: among piece": lambda: translate(
        READER, "a", among=number([0, 7])
    ),
    "translate: no end": lambda: translate(
        READER, "a", among=number([1, 2])
    ),
    "without_cross_head: model": lambda: without_cross_head(norm(), 0, 0),
    "without_cross_head: layer": lambda: without_cross_head(READER, 2, 0),
    "without_cross_head: head": lambda: without_cross_head(READER, 0, 2),
    "without_cross_head: float": lambda: without_cross_head(READER, 0.0, 0),
    "translation: number": lambda: translation(3),
    "cross_silencing: blank": lambda: cross_silencing(READER, ""),
    "forced: text": lambda: forced(READER, 3, [0]),
    "forced: one head": lambda: forced(READER, "a", 0),
    "forced: no head": lambda: forced(READER, "a", []),
    "forced: head": lambda: forced(READER, "a", [2]),
    "check: unknown": lambda: check("something", 1),
    "check: nearly": lambda: check("ex-attention-blnd", 1),
    "check: number": lambda: check(7, 1),
    "exercises_of: unknown": lambda: exercises_of("99_none"),
    "exercises_of: number": lambda: exercises_of(2),
    "code_of: number": lambda: project.code_of(3),
    "examine: number": lambda: project.examine(3),
    "examine: begun": lambda: project.examine("x.py", begun="print"),
    "translated: nothing": lambda: project.translated(None, [7]),
    "translated: number": lambda: project.translated(OURS, [1_000_000]),
    "planted: function": lambda: planted(3, "a", "b"),
    "planted: built-in": lambda: planted(len, "a", "b"),
    "planted: class": lambda: planted(a.MultiHeadParameters, "a", "b"),
    "planted: inner": lambda: planted(attend_again(), "a", "b"),
    "planted: old": lambda: planted(a.softmax, 3, "b"),
    "planted: new": lambda: planted(a.softmax, "axis", None),
    "planted: empty": lambda: planted(a.softmax, " ", "b"),
    "planted: absent": lambda: planted(a.softmax, "Vaswani", "b"),
    "planted: often": lambda: planted(a.softmax, "axis=axis", "axis=0"),
    "planted: same": lambda: planted(a.softmax, "xp.exp", "xp.exp"),
    "planted: no Python": lambda: planted(a.softmax, "xp.exp(", ")"),
    "planted: name": lambda: planted(a.softmax, "def softmax(", "def s("),
    "viewer: nothing": lambda: view(weights="weights"),
    "viewer: axes": lambda: view(weights=f(S)),
    "viewer: batch": lambda: view(weights=f(B, B, h, T, S)),
    "viewer: empty": lambda: view(weights=f(0, T, S)),
    "viewer: large": lambda: view(weights=f(5, 12, T * 100, S)),
    "viewer: above one": lambda: view(weights=[[1.5]]),
    "viewer: not finite": lambda: view(weights=[[[float("nan")]]]),
    "viewer: queries": lambda: view(query_tokens=["q"] * S),
    "viewer: keys": lambda: view(key_tokens=["k"] * T),
    "viewer: no keys": lambda: view(key_tokens=None),
    "viewer: one string": lambda: view(query_tokens="q" * T),
    "viewer: number": lambda: view(query_tokens=[1, 2, 3]),
    "viewer: layer": lambda: view(layer=1),
    "viewer: head": lambda: view(head=h),
    "viewer: head negative": lambda: view(head=-1),
    "viewer: head float": lambda: view(head=1.0),
    "viewer: first": lambda: view(first=-1),
    "viewer: title": lambda: view(title=7),
    "viewer: label": lambda: view(key_label=b"keys"),
    "viewer: words": lambda: view(text_alternative=["words"]),
}

CALLS |= {
    # ---- the backward pass, and attention by blocks
    "gradients: width": lambda: back(keys=f(B, S, D_q)),
    "gradients: integers": lambda: back(output_gradient=ids(B, T, D_v)),
    "gradients: list": lambda: back(output_gradient=[1.0]),
    "gradients: dtype": lambda: back(
        output_gradient=f(B, T, D_v, dtype="float32")
    ),
    "gradients: library": lambda: back(
        output_gradient=t(B, T, D_v, dtype=torch.float64)
    ),
    "gradients: shape": lambda: back(output_gradient=f(B, T, D_k)),
    "gradients: batch": lambda: back(output_gradient=f(T, D_v)),
    "gradients: batch of the mask": lambda: back(
        mask=yes(2, B, T, S), bias=f(S)
    ),
    "gradients: mask": lambda: back(mask=f(T, S)),
    "gradients: bias": lambda: back(bias=yes(T, S)),
    "gradients: scale": lambda: back(scale="1"),
    "gradients: missing": lambda: a.attention_gradients(f(2, 2), f(2, 2)),
    "online: width": lambda: online(keys=f(B, S, D_q)),
    "online: batch": lambda: online(values=f(4, S, D_v)),
    "online: none": lambda: online(keys=f(B, 0, D_k), values=f(B, 0, D_v)),
    "online: mask": lambda: online(mask=f(T, S)),
    "online: mask size": lambda: online(mask=yes(S, T)),
    "online: bias dtype": lambda: online(bias=f(S, dtype="float32")),
    "online: scale": lambda: online(scale=float("nan")),
    "online: causal_offset float": lambda: online(causal_offset=0.0),
    "online: causal_offset bool": lambda: online(causal_offset=True),
    "online: query_block": lambda: online(query_block=0),
    "online: query_block None": lambda: online(query_block=None),
    "online: key_block": lambda: online(key_block=-1),
    "online: key_block float": lambda: online(key_block=128.0),
    "online: return_weights": lambda: online(return_weights=True),
    "online: missing": lambda: a.online_attention(f(2, 2)),
    "partial: width": lambda: partly(keys=f(B, S, D_q)),
    "partial: mask": lambda: partly(mask=f(T, S)),
    "part: list": lambda: part(total=[1.0]),
    "part: integers": lambda: part(largest=ids(B, T)),
    "part: dtype": lambda: part(total=f(B, T, dtype="float32")),
    "part: axes": lambda: part(output=f(D_v)),
    "part: rows": lambda: part(largest=f(B, S)),
    "part: no rows": lambda: part(total=f()),
    "part: batch": lambda: part(total=f(2, T)),
    "part: missing": lambda: a.PartialAttention(f(T, D_v)),
    "merge: array": lambda: merged(f(B, T, D_v)),
    "merge: first": lambda: a.merge_partial(None, part()),
    "merge: library": lambda: merged(
        a.PartialAttention(t(B, T, D_v), t(B, T), t(B, T))
    ),
    "merge: dtype": lambda: merged(
        part(
            output=f(B, T, D_v, dtype="float32"),
            largest=f(B, T, dtype="float32"),
            total=f(B, T, dtype="float32"),
        )
    ),
    "merge: T": lambda: merged(
        part(output=f(B, S, D_v), largest=f(B, S), total=f(B, S))
    ),
    "merge: D_v": lambda: merged(part(output=f(B, T, D_k))),
    "merge: batch": lambda: merged(
        part(output=f(2, T, D_v), largest=f(T), total=f(T))
    ),
}


CALLS |= {
    # ---- a stream of values, and what is counted and measured
    "passes: list": lambda: three_passes([[1.0]], f(S, D_v)),
    "passes: integers": lambda: two_passes(ids(T, S), f(S, D_v)),
    "passes: axes": lambda: one_pass(f(S), f(S, D_v)),
    "passes: nothing": lambda: one_pass(f(T, 0), f(0, D_v)),
    "passes: length": lambda: one_pass(f(T, S), f(T, D_v)),
    "passes: dtype": lambda: two_passes(
        f(T, S), f(S, D_v, dtype="float32")
    ),
    "passes: library": lambda: three_passes(f(T, S), t(S, D_v)),
    "passes: batch": lambda: three_passes(f(B, T, S), f(4, S, D_v)),
    "passes: missing": lambda: one_pass(f(T, S)),
    "running_sum: axes": lambda: running_sum(f(S)),
    "running_sum: nothing": lambda: running_sum(f(T, 0)),
    "traffic: T": lambda: traffic_at_once(0, S, D_k, D_v),
    "traffic: float": lambda: traffic_at_once(T, S, 64.0, D_v),
    "traffic: itemsize": lambda: traffic_at_once(
        T, S, D_k, D_v, itemsize=0
    ),
    "traffic: query_block": lambda: traffic_by_blocks(
        T, S, D_k, D_v, query_block=0
    ),
    "traffic: no block": lambda: traffic_by_blocks(T, S, D_k, D_v),
    "block bytes: key_block": lambda: block_bytes(1, 0, D_k, D_v),
    "largest block: fast_bytes": lambda: largest_query_block(
        1e5, 1, D_k, D_v
    ),
    "largest block: too small": lambda: largest_query_block(
        1000, 64, 64, 64
    ),
    "seconds: cost": lambda: seconds_at_least(
        1.0, operations_per_second=1, bytes_per_second=1
    ),
    "seconds: text": lambda: seconds_at_least(
        Traffic(1, 1), operations_per_second="1e12", bytes_per_second=1
    ),
    "seconds: zero": lambda: seconds_at_least(
        Traffic(1, 1), operations_per_second=1, bytes_per_second=0
    ),
    "peak: array": lambda: measure_peak(f(T, S)),
    "peak: number": lambda: measure_peak(lambda: 3.0),
    "operators: tensor": lambda: operators_of(t(T, S)),
}


def ring(**changed):
    given = {
        "queries": t(B, T, D_k),
        "keys": t(B, S, D_k),
        "values": t(B, S, D_v),
    } | changed
    return ring_attention(**given)


def paper(**changed):
    given = {
        "ring": 2,
        "multiply_adds_per_second": 1.0,
        "bytes_per_second": 1.0,
    } | changed
    return on_paper(8, D, **given)


CALLS |= {
    # ---- attention over processes
    "rows: rest": lambda: own_rows(7, 0, 2),
    "rows: rank": lambda: own_rows(8, 2, 2),
    "rows: negative rank": lambda: own_rows(8, -1, 2),
    "rows: float": lambda: own_rows(8.0, 0, 2),
    "rows: no ranks": lambda: own_rows(8, 0, 0),
    "block: step": lambda: held_block(0, -1, 2),
    "schedule: T": lambda: ring_schedule(7, 8, ranks=2),
    "schedule: S": lambda: ring_schedule(8, 7, ranks=2),
    "schedule: none": lambda: ring_schedule(0, 8, ranks=2),
    "schedule: offset": lambda: ring_schedule(
        8, 8, ranks=2, causal_offset=0.0
    ),
    "ring: array": lambda: ring(keys=f(B, S, D_k)),
    "ring: width": lambda: ring(keys=t(B, S, D_q)),
    "ring: dtype": lambda: ring(values=t(B, S, D_v, dtype=torch.float64)),
    "ring: none": lambda: ring(keys=t(B, 0, D_k), values=t(B, 0, D_v)),
    "ring: causal_offset": lambda: ring(causal_offset=0.0),
    "ring: scale": lambda: ring(scale=t()),
    "ring: scale nan": lambda: ring(scale=float("nan")),
    "ring: query_block": lambda: ring(query_block=0),
    "ring: key_block": lambda: ring(key_block=1.0),
    "ring: missing": lambda: ring_attention(t(2, 2)),
    "split: module": lambda: split_over_ranks(torch.nn.Linear(2, 2)),
    "split: no output": lambda: split_over_ranks(
        MultiHeadAttention(D, h, output=False)
    ),
    "split: dropout": lambda: split_over_ranks(
        MultiHeadAttention(D, h, dropout=0.1)
    ),
    "group: timeout": lambda: process_group(timeout=0),
    "group: endless": lambda: process_group(timeout=float("inf")),
    "group: timeout kind": lambda: process_group(timeout="20"),
    "group: timeout flag": lambda: process_group(timeout=True),
    "group: start": lambda: process_group(start=0),
    "group: ranks": lambda: process_group(ranks=0),
    "group: backend": lambda: process_group(backend="mpi"),
    "run: lambda": lambda: run_processes(lambda: 0, 2),
    "run: inner": lambda: run_processes(attend_again(), 2),
    "run: nothing": lambda: run_processes(None, 2),
    "run: ranks": lambda: run_processes(own_rows, 0),
    "run: timeout": lambda: run_processes(own_rows, 2, timeout=-1),
    "traffic: way": lambda: traffic("star", 8, D, ranks=2),
    "traffic: rest": lambda: traffic("ring", 7, D, ranks=2),
    "traffic: width": lambda: traffic("heads", 7, 0, ranks=2),
    "traffic: backward": lambda: traffic(
        "heads", 7, D, ranks=2, backward=1
    ),
    "paper: rest": lambda: paper(ring=3),
    "paper: beside": lambda: paper(beside=3),
    "paper: itemsize": lambda: paper(itemsize=0),
    "paper: speed": lambda: paper(bytes_per_second=0),
    "paper: speed kind": lambda: paper(multiply_adds_per_second="1"),
    "paper: speed beside": lambda: paper(
        bytes_per_second_beside=float("inf")
    ),
    "paper: backward": lambda: paper(backward=None),
}


def shared(**changed):
    """Six heads of width 4 with two key heads, which read a sequence of width 5."""
    arrays = {
        "W_Q": f(5, 24),
        "W_K": f(5, 8),
        "W_V": f(5, 8),
        "W_O": f(24, D_out),
        "b_K": f(8),
        "heads": 6,
        "kv_heads": 2,
    } | changed
    return a.MultiHeadParameters(**arrays)


def turn(**changed):
    given = {"x": f(B, T, 4), "positions": ids(T)} | changed
    return a.rotate(**given)


def slope(**changed):
    return a.linear_bias(**{"T": T, "slopes": f(h)} | changed)


def cap(**changed):
    given = {
        "queries": f(B, T, D_k),
        "keys": f(B, S, D_k),
        "values": f(B, S, D_v),
        "cap": 2.0,
    } | changed
    return a.capped_attention(**given)


def of_today(**changed):
    given = {"parameters": shared(), "x": f(B, T, 5)} | changed
    return a.cached_self_attention(**given)


def kept(*lead, width=4):
    return a.KeyValueCache(f(*lead, S, width), f(*lead, S, width))


def alone(**changed):
    given = {"embedding": f(V_t, D), "layers": (encoder(),)} | changed
    return a.DecoderOnlyParameters(**given)


def say(**changed):
    given = {"parameters": alone(), "tokens": ids(B, T)} | changed
    return a.decoder_only(**given)


def go_on(**changed):
    given = {"parameters": alone(), "prompt": ids(T), "steps": 2} | changed
    return a.generate(**given)


def size(**changed):
    given = {"length": 3, "layers": 2, "kv_heads": 1, "D_h": 4} | changed
    return a.cache_bytes(**given)


CALLS |= {
    # ---- fewer key heads
    "kv_heads: not dividing": lambda: shared(kv_heads=4),
    "kv_heads: more than heads": lambda: shared(kv_heads=12),
    "kv_heads: zero": lambda: shared(kv_heads=0),
    "kv_heads: float": lambda: shared(kv_heads=2.0),
    "kv_heads: W_K": lambda: shared(W_K=f(5, 24)),
    "kv_heads: W_V": lambda: shared(W_V=f(5, 4)),
    "kv_heads: b_K": lambda: shared(b_K=f(24)),
    "kv_heads: b_V": lambda: shared(b_V=f(4)),
    "kv_heads: b_Q": lambda: shared(b_Q=f(8)),
    "kv_heads: heads": lambda: shared(heads=16, kv_heads=4),
    "kv_heads: missing": lambda: shared(kv_heads=None),
    "init: kv_heads": lambda: init(24, 6, kv_heads=4),
    "init: kv_heads text": lambda: init(24, 6, kv_heads="2"),
    "module: kv_heads": lambda: module(24, 6, kv_heads=5),
    "module: kv_heads negative": lambda: module(24, 6, kv_heads=-2),
    "to_torch: kv_heads": lambda: MultiHeadAttention(
        24, 6, kv_heads=2
    ).to_torch(),
    "repeat: axes": lambda: a.repeat_heads(f(S, 4), 2),
    "repeat: integers": lambda: a.repeat_heads(f(h, S, 4, dtype=int), 2),
    "repeat: times": lambda: a.repeat_heads(f(h, S, 4), 0),
    "repeat: times float": lambda: a.repeat_heads(f(h, S, 4), 2.0),
    "gauge: kv_heads": lambda: change_gauge(
        shared(b_K=None), f(6, 4, 4), f(6, 4, 4)
    ),
    "strongest: kv_heads": lambda: strongest_shared(shared(), 3),
    # ---- rotary positions
    "rotate: x list": lambda: turn(x=[[1.0]]),
    "rotate: x integers": lambda: turn(x=f(T, 4, dtype=int)),
    "rotate: x axes": lambda: turn(x=f(4)),
    "rotate: odd": lambda: turn(x=f(B, T, 5)),
    "rotate: no width": lambda: turn(x=f(B, T, 0)),
    "rotate: positions list": lambda: turn(positions=[0, 1, 2]),
    "rotate: positions floats": lambda: turn(positions=f(T)),
    "rotate: positions number": lambda: turn(positions=number(3)),
    "rotate: positions length": lambda: turn(positions=ids(S)),
    "rotate: positions batch": lambda: turn(positions=ids(2, T)),
    "rotate: positions library": lambda: turn(
        positions=torch.ones(T, dtype=torch.int64)
    ),
    "rotate: base text": lambda: turn(base="10000"),
    "rotate: base flag": lambda: turn(base=True),
    "rotate: base zero": lambda: turn(base=0),
    "rotate: base infinite": lambda: turn(base=float("inf")),
    "rotate: pairs": lambda: turn(pairs="half"),
    "rotate: pairs number": lambda: turn(pairs=2),
    # ---- linear biases, sinks
    "slopes: heads": lambda: a.head_slopes(0),
    "slopes: heads float": lambda: a.head_slopes(8.0),
    "slopes: like": lambda: a.head_slopes(8, like=ids(1)),
    "linear bias: T": lambda: slope(T=-1),
    "linear bias: S": lambda: slope(S=0),
    "linear bias: offset": lambda: slope(offset=0.5),
    "linear bias: list": lambda: slope(slopes=[0.5]),
    "linear bias: integers": lambda: slope(slopes=ids(h)),
    "linear bias: axes": lambda: slope(slopes=f(h, 1)),
    "sinks: missing": lambda: a.sink_mask(3),
    "sinks: negative": lambda: a.sink_mask(3, sinks=-1),
    "sinks: float": lambda: a.sink_mask(3, sinks=1.0),
    "sinks: T": lambda: a.sink_mask(-3, sinks=1),
    "sinks: like": lambda: a.sink_mask(3, sinks=1, like="torch"),
    # ---- soft caps
    "softcap: integers": lambda: a.softcap(ids(3), 2.0),
    "softcap: text": lambda: a.softcap(f(3), "2"),
    "softcap: flag": lambda: a.softcap(f(3), True),
    "softcap: zero": lambda: a.softcap(f(3), 0),
    "softcap: infinite": lambda: a.softcap(f(3), float("inf")),
    "softcap derivative: negative": lambda: a.softcap_derivative(f(3), -1),
    "capped: cap": lambda: cap(cap=float("nan")),
    "capped: width": lambda: cap(keys=f(B, S, D_q)),
    "capped: mask": lambda: cap(mask=f(T, S)),
    "capped: missing": lambda: a.capped_attention(
        f(2, 2), f(2, 2), f(2, 2)
    ),
    # ---- self-attention with a cache
    "today: parameters": lambda: of_today(parameters=None),
    "today: integers": lambda: of_today(x=f(B, T, 5, dtype=int)),
    "today: axes": lambda: of_today(x=f(5)),
    "today: width": lambda: of_today(x=f(B, T, 4)),
    "today: width of values": lambda: of_today(
        parameters=shared(W_V=f(4, 8))
    ),
    "today: dtype": lambda: of_today(x=f(B, T, 5, dtype="float32")),
    "today: nothing": lambda: of_today(x=f(B, 0, 5)),
    "today: base": lambda: of_today(rotary_base=-1.0),
    "today: odd": lambda: of_today(
        parameters=shared(
            heads=8, kv_heads=2, W_K=f(5, 6), W_V=f(5, 6), b_K=None
        ),
        rotary_base=10.0,
    ),
    "today: slopes": lambda: of_today(slopes=f(2)),
    "today: slopes list": lambda: of_today(slopes=[1.0] * 6),
    "today: slopes dtype": lambda: of_today(slopes=f(6, dtype="float32")),
    "today: before": lambda: of_today(before=-1),
    "today: sinks": lambda: of_today(before=1, sinks=0.5),
    "today: sinks alone": lambda: of_today(sinks=4),
    "today: cap": lambda: of_today(cap=0.0),
    "today: cache": lambda: of_today(cache=(f(2), f(2))),
    "today: cache of another batch": lambda: of_today(cache=kept(4, 2)),
    "today: cache of all heads": lambda: of_today(cache=kept(B, 6)),
    "today: cache of another width": lambda: of_today(
        cache=kept(B, 2, width=3)
    ),
    "today: cache of another library": lambda: of_today(
        cache=a.KeyValueCache(t(B, 2, S, 4), t(B, 2, S, 4))
    ),
    "today: weights": lambda: of_today(return_weights=1),
    # ---- a decoder alone
    "alone: embedding": lambda: alone(embedding=[[1.0]]),
    "alone: embedding axes": lambda: alone(embedding=f(B, V_t, D)),
    "alone: no token": lambda: alone(embedding=f(0, D)),
    "alone: layers": lambda: alone(layers=[encoder()]),
    "alone: no layer": lambda: alone(layers=()),
    "alone: layer": lambda: alone(layers=(shared(),)),
    "alone: width": lambda: alone(embedding=f(V_t, 6)),
    "alone: dtype": lambda: alone(embedding=f(V_t, D, dtype="float32")),
    "alone: library": lambda: alone(embedding=t(V_t, D)),
    "alone: norm": lambda: alone(norm=f(D)),
    "alone: norm width": lambda: alone(norm=a.LayerNormParameters(f(6))),
    "alone: norm dtype": lambda: alone(
        norm=a.LayerNormParameters(f(D, dtype="float32"))
    ),
    "alone: base": lambda: alone(rotary_base=0),
    "alone: sinks": lambda: alone(sinks=1),
    "alone: before": lambda: alone(before=-1),
    "alone: cap": lambda: alone(cap="30"),
    "alone: tokens": lambda: say(tokens=f(B, T)),
    "alone: tokens list": lambda: say(tokens=[1, 2]),
    "alone: no tokens": lambda: say(tokens=ids(B, 0)),
    "alone: token": lambda: say(tokens=ids(B, T, token=V_t)),
    "alone: tokens library": lambda: say(
        tokens=torch.ones(T, dtype=torch.int64)
    ),
    "alone: parameters": lambda: say(parameters=shared()),
    "alone: weights": lambda: say(return_weights=None),
    "alone: cache": lambda: say(cache=[]),
    "alone: cache of nothing": lambda: say(cache=(None,)),
    "alone: cache of fewer layers": lambda: say(cache=()),
    "alone: cache of another batch": lambda: say(
        tokens=ids(T), cache=(kept(B, h),)
    ),
    "alone: cache of another width": lambda: say(
        cache=(kept(B, h, width=3),)
    ),
    "alone: cache of another dtype": lambda: say(
        cache=(
            a.KeyValueCache(*(f(B, h, S, D // h, dtype="float32"),) * 2),
        )
    ),
    "alone: caches of two lengths": lambda: say(
        parameters=alone(layers=(encoder(), encoder())),
        cache=tuple(
            a.KeyValueCache(*(f(B, h, n, D // h),) * 2) for n in (3, 26)
        ),
    ),
    "generate: parameters": lambda: go_on(parameters=None),
    "generate: steps": lambda: go_on(steps=0),
    "generate: steps float": lambda: go_on(steps=2.0),
    "generate: cached": lambda: go_on(cached="yes"),
    "generate: prompt": lambda: go_on(prompt=f(T)),
    "generate: token": lambda: go_on(prompt=ids(T, token=-1)),
    # ---- its task
    "repeating: size": lambda: repeating.draw_repeating(0, seed=0),
    "repeating: length": lambda: repeating.draw_repeating(
        2, length=1, seed=0
    ),
    "repeating: seed": lambda: repeating.draw_repeating(2, seed=-1),
    "repeating: tokens": lambda: repeating.repeated(f(T)),
    "repeating: first": lambda: repeating.repeated(ids(T)),
    "repeating: token": lambda: repeating.repeated(ids(T, token=10)),
    "repeating: logits": lambda: repeating.right_share(
        ids(T, 10), ids(T, token=5)
    ),
    "repeating: logits shape": lambda: repeating.right_share(
        f(T, 9), ids(T, token=5)
    ),
    "spelled: several": lambda: repeating.spelled(ids(B, T)),
    "spelled: list": lambda: repeating.spelled([1, 2]),
    "tokens_of: list": lambda: repeating.tokens_of(["a"]),
    "tokens_of: empty": lambda: repeating.tokens_of(" "),
    "tokens_of: unknown": lambda: repeating.tokens_of("5 a x"),
    "train alone: seed": lambda: train_decoder_only(seed=-1),
    "train alone: steps": lambda: train_decoder_only(seed=0, steps=1),
    "train alone: kv_heads": lambda: train_decoder_only(seed=0, kv_heads=3),
    "train alone: base": lambda: train_decoder_only(seed=0, rotary_base=0),
    "train alone: sinks": lambda: train_decoder_only(seed=0, sinks=-1),
    "train alone: report": lambda: train_decoder_only(seed=0, report=0),
    "load alone: dtype": lambda: trained_decoder_only("float16"),
    "bytes: length": lambda: size(length=-1),
    "bytes: length float": lambda: size(length=1e6),
    "bytes: layers": lambda: size(layers=0),
    "bytes: kv_heads": lambda: size(kv_heads=None),
    "bytes: itemsize": lambda: size(itemsize=0),
}


def refusal(call):
    """The kind of what a call raises, and what it says."""
    try:
        return ["nothing", repr(call())[:200]]
    except Exception as error:
        return [type(error).__name__, str(error)]


if __name__ == "__main__":
    json.dump(
        {name: refusal(call) for name, call in CALLS.items()}, sys.stdout
    )
