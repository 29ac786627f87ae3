"""Static optimum: the layer by hand, its fits, and what training makes of them."""

import numpy as np
import pytest
import torch

from ctlearn.tasks import static_optimum
from ctlearn.tasks.static_optimum import D_X, D_Y, LATER, TOKENS, D, Kind
from ctlearn.tasks.training import ON_A_PROCESSOR

TWO = ON_A_PROCESSOR._replace(seeds=2)
STEPS = Kind(steps=4, free=True)
EXACT = Kind(ridge=1e-6)


def generator(seed=0):
    """Random numbers."""
    return torch.Generator().manual_seed(seed)


def test_lessons_follow_a_rule_that_is_new_each_time():
    """What is wanted is what least squares on noiseless tokens says, nearly."""
    lessons = static_optimum.draw(1, 400, generator())
    assert lessons.told.shape == lessons.later.shape == (1, 400, D, D)
    xx, xy = lessons.told[..., :D_X, :D_X], lessons.told[..., :D_X, D_X:]
    w = torch.linalg.solve(xx, xy)
    said = (lessons.asked[..., None, :] @ w)[..., 0, :]
    error = (said - lessons.wanted).square().mean() / lessons.wanted.square().mean()
    # noise^2 times as many directions over the tokens that are left for it
    assert float(error) == pytest.approx(0.09 * D_X / (TOKENS - D_X - 1), rel=0.2)
    assert float(lessons.wanted.square().mean()) == pytest.approx(1, abs=0.15)
    assert float(w.mean()) == pytest.approx(0, abs=0.03)
    assert LATER < TOKENS


@pytest.mark.parametrize("heads", [1, 2, 4])
def test_the_layer_by_hand(heads):
    kinds = [Kind(steps=4), Kind(ridge=0.1)]
    weights, noise = static_optimum.initial_weights(4, generator()), generator(1)
    with torch.no_grad():
        for w in weights.values():
            w += 0.1 * torch.randn(w.shape, generator=noise)
    lessons = static_optimum.draw(2, 3, generator(2))
    said = static_optimum.layer(weights, kinds, heads, lessons)
    answers, past, future = (x.detach().double().numpy() for x in said)
    w = {name: x.detach().double().numpy() for name, x in weights.items()}
    told, later = lessons.told.double().numpy(), lessons.later.double().numpy()
    for number, seed, kind in ((1, 1, kinds[0]), (2, 0, kinds[1])):
        width = D // heads
        off, whole = np.zeros(2), np.zeros(2)
        for i in range(3):
            x = np.concatenate([lessons.asked[seed, i].double(), np.zeros(D_Y)])
            o = []
            for h in range(heads):
                own = slice(h * width, (h + 1) * width)
                W_q, W_k, W_v = (w[name][number][:, own] for name in "qkv")
                G, C = W_k.T @ told[seed, i] @ W_k, W_k.T @ told[seed, i] @ W_v
                if kind.steps:
                    S = np.zeros((width, width))
                    for _ in range(kind.steps):
                        S = S - (G @ S - C) / np.linalg.norm(G)
                else:
                    size = kind.ridge * np.trace(G) / width
                    S = np.linalg.solve(G + size * np.eye(width), C)
                o.append(x @ W_q @ S)
                for j, moment in enumerate((told[seed, i], later[seed, i])):
                    missed = W_k @ S - W_v
                    off[j] += np.trace(missed.T @ moment @ missed)
                    whole[j] += np.trace(W_v.T @ moment @ W_v)
            wanted = np.concatenate(o) @ w["o"][number][:, :D_Y]
            assert answers[number, i] == pytest.approx(wanted, rel=1e-3, abs=1e-4)
        losses = past[number], future[number]
        assert losses == pytest.approx(off / whole, rel=1e-3, abs=1e-5)


def test_a_perfect_fit_of_one_head_says_nothing_of_its_prompt():
    """And of two heads it does: each lacks channels of the other."""
    weights = static_optimum.initial_weights(2, generator())
    weights = {name: w.detach().double() for name, w in weights.items()}
    lessons = static_optimum.draw(2, 8, generator(1))
    same = lessons.asked[:, :1].expand(-1, 8, -1)
    lessons = static_optimum.Lessons(*(x.double() for x in lessons))
    lessons = lessons._replace(asked=same.double())
    for kind, heads, prompted in ((EXACT, 1, 0), (EXACT, 2, 1), (STEPS, 1, 1)):
        answers, past, _ = static_optimum.layer(weights, [kind], heads, lessons)
        assert bool(answers.var(1).mean() > 1e-3) == prompted
        assert bool(past.max() < 1e-9) == (not prompted)


def test_training_learns_with_few_steps_and_cannot_with_a_perfect_fit():
    kinds = [STEPS, EXACT, EXACT._replace(ridge=1.0)]
    given = {"steps": 60, "where": TWO}
    found = static_optimum.train(kinds, **given)
    assert found.error.shape == found.past.shape == found.future.shape == (3, 2)
    assert found.error[0].max() < 0.5
    # a perfect fit ends near silence, whose error is 1
    assert found.error[1].min() > 0.95
    assert found.error[1].max() < 1.3
    assert found.error[2].max() < 0.8
    assert found.past[1].max() < 1e-3 < found.past[2].min()
    assert (found.past < found.future)[[0, 2]].all()
    # only the first kind's keys are free to leave something out
    assert torch.allclose(found.condition[1:], torch.ones(2, 2).double(), atol=1e-4)
    assert found.condition[0].min() > 1.5
    again = static_optimum.train(kinds, **given)
    assert torch.equal(found.error, again.error)


def test_only_free_keys_are_trained(monkeypatch):
    seen, make = [], static_optimum.initial_weights

    def made(*sizes):
        weights = make(*sizes)
        seen.append((weights, weights["k"].detach().clone()))
        return weights

    monkeypatch.setattr(static_optimum, "initial_weights", made)
    kinds = [Kind(steps=1), Kind(steps=1, free=True)]
    static_optimum.train(kinds, steps=2, where=TWO)
    ((weights, first),) = seen
    moved = (weights["k"].detach() != first).flatten(1).any(1)
    assert moved.tolist() == [False, False, True, True]


def test_ranks():
    x = [0.1, 3.0, 2.0, 40.0]
    assert static_optimum.rank_correlation(x, [1, 3, 2, 4]) == pytest.approx(1)
    assert static_optimum.rank_correlation(x, [9, 3, 5, 1]) == pytest.approx(-1)
    # one neighbouring pair the wrong way: 1 - 6 * 2 / (4 * 15)
    assert static_optimum.rank_correlation(x, [1, 4, 2, 3]) == pytest.approx(0.8)
