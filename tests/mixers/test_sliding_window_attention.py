"""The window counts the token itself."""

import numpy as np
import pytest

from ctlearn.mixers import sliding_window_attention as swa
from ctlearn.mixers import softmax_attention
from ctlearn.mixers.softmax_attention import Cache
from ctlearn.supplies import Floats


def draw(T, seed=0):
    supply = Floats(seed)
    return [supply.real(name, T, d) for name, d in (("q", 4), ("k", 4), ("v", 3))]


def test_a_window_of_one_answers_with_the_tokens_own_value():
    q, k, v = draw(9)
    for form in (swa.recurrent, swa.parallel, swa.chunkwise):
        np.testing.assert_array_equal(form(q, k, v, window=1)[0], v)


@pytest.mark.parametrize("window", [9, 10, 100])
def test_a_window_as_long_as_the_sequence_is_softmax_attention(window):
    q, k, v = draw(9)
    full, _ = softmax_attention.parallel(q, k, v)
    o, _ = swa.parallel(q, k, v, window=window)
    np.testing.assert_allclose(o, full, rtol=1e-13)


def test_a_window_one_short_forgets_the_first_token_alone():
    q, k, v = draw(9)
    o, S = swa.recurrent(q, k, v, window=8)
    rest, _ = softmax_attention.recurrent(q[1:], k[1:], v[1:])
    np.testing.assert_allclose(o[-1], rest[-1], rtol=1e-14)
    assert np.array_equal(S.K, k[1:])


def test_layers_reach_further_than_a_window():
    """L layers see L (w - 1) + 1 tokens."""
    q, k, v = draw(20)
    window, layers = 4, 3
    other = v.copy()
    other[19 - layers * (window - 1)] += 1
    further = v.copy()
    further[19 - layers * (window - 1) - 1] += 1
    last = []
    for values in (v, other, further):
        for _ in range(layers):
            values, _ = swa.parallel(q, k, values, window=window)
        last.append(values[-1])
    assert not np.array_equal(last[0], last[1])
    assert np.array_equal(last[0], last[2])


def test_a_cache_of_softmax_attention_may_be_taken_over():
    q, k, v = draw(9)
    o, S = swa.parallel(q, k, v, window=3)
    taken, S_taken = swa.chunkwise(q[5:], k[5:], v[5:], window=3, S=Cache(k[:5], v[:5]))
    np.testing.assert_allclose(taken, o[5:], rtol=1e-14)
    assert np.array_equal(S_taken.V, S.V)


@pytest.mark.parametrize(("window", "error"), [(0, ValueError), (2.0, TypeError)])
def test_a_window_that_is_none_is_refused(window, error):
    with pytest.raises(error, match=r"^window: expected"):
        swa.recurrent(*draw(3), window=window)


def test_persistent_tokens_are_tokens_that_never_leave():
    """They are what a window that never forgets the first two would see."""
    q, k, v = draw(9)
    _, K_p, V_p = (x[:2] for x in draw(2, seed=1))
    o, S = swa.chunkwise(q, k, v, K_p=K_p, V_p=V_p, window=3)
    assert len(S.K) == 3
    for t in range(9):
        seen = slice(max(0, t - 2), t + 1)
        K = np.concatenate([K_p, k[seen]])
        weights = np.exp(K @ q[t])
        wanted = weights @ np.concatenate([V_p, v[seen]]) / weights.sum()
        np.testing.assert_allclose(o[t], wanted, rtol=1e-13)


def test_persistent_keys_without_values_are_refused():
    with pytest.raises(ValueError, match=r"^K_p and V_p: expected both or neither"):
        swa.recurrent(*draw(3), K_p=draw(2)[1], window=2)
