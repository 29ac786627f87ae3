"""LoLA: the three stores by brute force, what is held, and when errors are taken."""

import numpy as np
import pytest

from ctlearn.features import elu_plus_one
from ctlearn.mixers import sliding_window_attention, softmax_attention
from ctlearn.mixers import sparse_caching_attention as lola
from ctlearn.mixers.normalised_linear_attention import State as Linear
from ctlearn.mixers.softmax_attention import Cache
from ctlearn.supplies import Floats

FORMS = (lola.recurrent, lola.parallel, lola.chunkwise)


def draw(T, seed=0, d_k=4, d_v=3):
    supply = Floats(seed)
    return [
        supply.real("q", T, d_k),
        supply.real("k", T, d_k),
        supply.real("v", T, d_v),
    ]


def by_hand(q, k, v, window, capacity, *, after=False, once=False):
    """Three lists and the formulas, pair by pair.

    `after` takes errors as if the rivals had been written already, `once` keeps the
    error that a held pair had when it left the window.
    """
    held, written, errors, o = [], [], {}, []

    def error(j, memory):
        f = elu_plus_one(k[j])
        weights = [f @ elu_plus_one(k[i]) for i in memory]
        told = sum(w * v[i] for w, i in zip(weights, memory, strict=True))
        return (
            ((told / sum(weights) - v[j]) ** 2).sum() if memory else (v[j] ** 2).sum()
        )

    for t in range(len(v)):
        if t >= window:
            held.append(t - window)
        if len(held) > capacity:
            for j in held:
                if not (once and j in errors):
                    errors[j] = error(j, written + held if after else written)
            easiest = min(held, key=lambda j: (errors[j], -j))
            held.remove(easiest)
            written.append(easiest)
        exact = held + list(range(max(0, t - window + 1), t + 1))
        weights = [np.exp(q[t] @ k[j]) for j in exact]
        weights += [elu_plus_one(q[t]) @ elu_plus_one(k[j]) for j in written]
        o.append(np.average(v[exact + written], axis=0, weights=weights))
    return np.array(o), held


@pytest.mark.parametrize(("window", "capacity"), [(1, 0), (1, 3), (4, 0), (4, 6)])
@pytest.mark.parametrize("seed", range(3))
def test_it_is_the_three_stores_and_one_normaliser(window, capacity, seed):
    """With no places it is a window's softmax and linear attention under one sum."""
    q, k, v = draw(40, seed)
    wanted, held = by_hand(q, k, v, window, capacity)
    for form in FORMS:
        o, S = form(q, k, v, window=window, capacity=capacity)
        np.testing.assert_allclose(o, wanted, rtol=0, atol=1e-13)
        assert np.array_equal(S.held.V, v[held])
        assert np.array_equal(S.recent.V, v[-window:])


@pytest.mark.parametrize(("window", "capacity"), [(9, 0), (1, 8), (1, 20), (4, 5)])
def test_exact_pairs_as_many_as_tokens_are_softmax_attention(window, capacity):
    q, k, v = draw(9)
    full, _ = softmax_attention.parallel(q, k, v)
    for form in FORMS:
        o, _ = form(q, k, v, window=window, capacity=capacity)
        np.testing.assert_allclose(o, full, rtol=0, atol=1e-14)


def test_one_place_too_few_shows():
    q, k, v = draw(9)
    full, _ = softmax_attention.parallel(q, k, v)
    o, _ = lola.parallel(q, k, v, window=4, capacity=4)
    assert np.allclose(o[:-1], full[:-1])
    assert np.abs(o[-1] - full[-1]).max() > 0.01


def test_when_errors_are_taken_changes_the_answer(record_property):
    """The secondary sources leave it open, and it is no matter of taste."""
    q, k, v = draw(200)
    o, _ = by_hand(q, k, v, 4, 6)
    for name, other in (("after", {"after": True}), ("once", {"once": True})):
        gap = np.abs(o - by_hand(q, k, v, 4, 6, **other)[0]).max()
        assert gap > 0.1
        record_property(f"LoLA's errors taken {name}", f"{gap:.2f}")


def test_the_exception_to_a_rule_is_held_and_told_exactly():
    """Twenty pairs say the same, one does not; asked far behind the window."""
    k = np.tile([3.0, 0.0], (21, 1))
    v = np.ones((21, 1))
    k[5], v[5] = [0.0, 3.0], -7.0
    q = 3 * k
    o, S = lola.recurrent(q, k, v, window=2, capacity=1)
    assert S.held.V.tolist() == [[-7.0]]
    asked, _ = lola.step(3 * k[5], k[0], v[0], window=2, capacity=1, S=S)
    np.testing.assert_allclose(asked, -7.0, atol=1e-6)
    window_only, S = sliding_window_attention.recurrent(q, k, v, window=2)
    asked, _ = sliding_window_attention.step(3 * k[5], k[0], v[0], window=2, S=S)
    np.testing.assert_allclose(asked, 1.0, atol=1e-6)
    assert np.abs(o[-1] - window_only[-1]).max() < 1e-6


def test_a_held_pair_is_let_go_once_the_linear_memory_knows_it():
    one = np.ones((1, 2))
    known = Linear(np.outer(elu_plus_one(one[0]), [4.0]), elu_plus_one(one[0]))
    errors = lola.recall_error(
        elu_plus_one(np.vstack([one, one])), np.array([[4.0], [1.0]]), known
    )
    np.testing.assert_allclose(errors, [0, 9], atol=1e-14)
    S = lola.State(known, Cache(one, np.array([[4.0]])), Cache(one, np.array([[1.0]])))
    _, S = lola.step(one[0], one[0], np.array([2.0]), window=1, capacity=1, S=S)
    assert S.held.V.tolist() == [[1.0]]
    assert S.linear.S[0, 0] == 2 * known.S[0, 0]


def test_the_older_of_equals_is_held_in_every_plan():
    k = np.eye(4)[[0, 1, 2, 3, 0]]
    v = np.array([[1.0], [-1.0], [1.0], [-1.0], [5.0]])
    for form in FORMS:
        _, S = form(k, k, v, window=1, capacity=3)
        assert S.held.K.tolist() == k[:3].tolist()


def test_no_score_overflows_or_is_lost_beside_an_empty_linear_memory():
    q, k, v = draw(9)
    for scale in (1e4, -1e4):
        with np.errstate(over="raise", invalid="raise"):
            o, _ = lola.parallel(scale * abs(q), abs(k), v, window=3, capacity=2)
        assert np.isfinite(o).all()
        np.testing.assert_allclose(o[0], v[0], rtol=1e-14)


def test_bad_sizes_and_states_are_named():
    q, k, v = draw(3)
    with pytest.raises(ValueError, match=r"^capacity: expected at least 0, got -1"):
        lola.recurrent(q, k, v, window=1, capacity=-1)
    with pytest.raises(TypeError, match=r"^capacity: expected an integer"):
        lola.recurrent(q, k, v, window=1, capacity=1.0)
    _, S = lola.recurrent(q, k, v, window=1, capacity=1)
    with pytest.raises(
        ValueError, match=r"^S\.S: d_phi is 4 but phi\(k\) has d_phi = 8"
    ):
        lola.recurrent(
            q, k, v, window=1, capacity=1, S=S, phi=lambda x: np.hstack([x, x])
        )
