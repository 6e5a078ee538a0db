import pytest
import torch

from attention_in_detail import attention
from attention_in_detail.insights.look_up import draw_items, train_reader


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_a_look_up_asks_each_item_once():
    items = draw_items("look up", 5, 7, 3, generator())
    assert items.keys.shape == items.questions.shape == (5, 7, 3)
    assert items.classes.shape == items.answers.shape == (5, 7)
    assert items.places.sort(dim=1).values.tolist() == [list(range(7))] * 5
    for b in range(5):
        for i, j in enumerate(items.places[b].tolist()):
            assert torch.equal(items.questions[b, i], items.keys[b, j])
            assert items.answers[b, i] == items.classes[b, j]


def test_the_most_frequent_is_asked_at_each_position():
    items = draw_items("most frequent", 50, 9, 3, generator())
    for classes, answers in zip(items.classes, items.answers, strict=True):
        counts = classes.bincount(minlength=8)
        assert len(set(answers.tolist())) == 1
        assert counts[answers[0]] == counts.max()


def test_one_seed_gives_one_draw():
    one, two, three = (
        draw_items("look up", 2, 4, 3, generator(seed)).keys
        for seed in (0, 0, 1)
    )
    assert torch.equal(one, two)
    assert not torch.equal(one, three)
    assert one.dtype == torch.float64


def test_training_learns_and_is_the_same_again(capsys):
    kept = {"S": 16, "D": 16, "seed": 3, "steps": 120}
    one = train_reader("most frequent", **kept, report=120)
    two = train_reader("most frequent", **kept)
    assert capsys.readouterr().out.startswith("step  120 of 120   loss ")
    assert torch.equal(one.W_Q, two.W_Q)
    assert not one.W_Q.requires_grad
    test = draw_items("most frequent", 200, 16, 16, generator(1))
    assert one.right(test).shape == (200, 16)
    assert one.right(test).double().mean() > 0.6
    assert not torch.equal(
        train_reader("most frequent", **(kept | {"seed": 4})).W_Q, one.W_Q
    )


def test_the_model_is_one_attention():
    reader = train_reader("look up", S=5, D=6, seed=0, steps=1)
    items = draw_items("look up", 3, 5, 6, generator())
    q = items.questions @ reader.W_Q
    k = items.keys @ reader.W_K
    v = reader.table[items.classes] @ reader.W_V
    for found, wanted in zip(
        reader.projected(items), (q, k, v), strict=True
    ):
        assert torch.equal(found, wanted)
    assert torch.allclose(
        reader.scores(items), attention(q, k, v) @ reader.W_O
    )


def test_what_the_mix_has_of_its_own_is_trained_too():
    scale = torch.ones((), dtype=torch.float64, requires_grad=True)
    reader = train_reader(
        "look up",
        lambda q, k, v: attention(q, k, v) * scale,
        [scale],
        S=5,
        D=6,
        seed=0,
        steps=3,
    )
    assert scale != 1
    assert not scale.requires_grad
    items = draw_items("look up", 3, 5, 6, generator())
    q, k, v = reader.projected(items)
    assert torch.allclose(
        reader.scores(items), scale * attention(q, k, v) @ reader.W_O
    )


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (
            lambda: draw_items("sort", 1, 2, 3),
            ValueError,
            "task is 'sort', but can be: look up, most frequent",
        ),
        (
            lambda: draw_items("look up", 1, 0, 3),
            ValueError,
            "S is 0, but must be at least 1",
        ),
        (
            lambda: draw_items("look up", 1, 2, 3.0),
            TypeError,
            "D must be an integer, not float",
        ),
        (
            lambda: train_reader("sort", seed=0),
            ValueError,
            "task is 'sort', but can be: look up, most frequent",
        ),
        (
            lambda: train_reader("look up", seed=0, D=0),
            ValueError,
            "D is 0, but must be at least 1",
        ),
    ],
)
def test_refusals(call, kind, message):
    with pytest.raises(kind) as refused:
        call()
    assert str(refused.value) == message
