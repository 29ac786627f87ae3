"""Memory as layer: two layers in a row, and persistent tokens that come first."""

import numpy as np

from ctlearn.mixers import memory_as_layer, titans
from ctlearn.supplies import Floats


def test_a_window_attends_to_what_the_memory_answers():
    x = memory_as_layer.MECHANISM.draw(Floats(0), 11, 5, 3)
    o, _ = memory_as_layer.chunkwise(**x)
    names = ("q", "k", "v", "log_decay", "log_mu", "beta", "inner_batch")
    y, _ = titans.recurrent(**{name: x[name] for name in names})
    for t in range(11):
        seen = y[max(0, t - 2) : t + 1]
        weights = np.exp(seen @ x["W_K"] @ (y[t] @ x["W_Q"]))
        wanted = weights @ (seen @ x["W_V"]) / weights.sum()
        assert np.allclose(o[t], wanted, rtol=0, atol=1e-14)


def test_what_the_memory_makes_of_a_token_reaches_further_than_the_window():
    """Attention alone would have lost it after w - 1 tokens."""
    x = memory_as_layer.MECHANISM.draw(Floats(1), 11, 5, 3)
    o, _ = memory_as_layer.recurrent(**x)
    x["v"][0] += 1
    other, _ = memory_as_layer.recurrent(**x)
    assert np.abs(other[3:] - o[3:]).max() > 0.01
