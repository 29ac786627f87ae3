"""Windows: who sees whom, and what is kept of the last pairs."""

import numpy as np
import pytest

from ctlearn import inner
from ctlearn.features import identity, taylor
from ctlearn.inner import Affine, Linear, Momentum
from ctlearn.objectives import Fading
from ctlearn.windows import Pairs, Replay, begin_with, in_window


def test_a_window_counts_the_token_that_looks():
    seen = in_window(2, 5, 3)
    assert np.array_equal(seen, [[0, 1, 1, 1, 0], [0, 0, 1, 1, 1]])


def pairs(n, seed=0):
    rng = np.random.default_rng(seed)
    return Pairs(
        rng.standard_normal((n, 4)), rng.standard_normal((n, 3)), rng.random(n)
    )


def test_what_a_window_weighs_is_what_its_last_pairs_weigh():
    some = pairs(6)
    weights = some.windows(3, 2)
    for t in range(3):
        window = Pairs(*(x[: 4 + t] for x in some)).last(2)
        assert np.array_equal(weights[t][weights[t] != 0], window.weights)


def test_the_gradient_of_a_window_is_that_of_its_loss():
    torch = pytest.importorskip("torch")
    some, W = pairs(5), np.random.default_rng(1).standard_normal((21, 3))
    at = torch.tensor(W, requires_grad=True)
    gap = torch.tensor(taylor(some.K)) @ at - torch.tensor(some.V)
    (torch.tensor(some.weights) * (gap**2).sum(axis=1)).sum().backward()
    ours = some.gradient(Linear(W), taylor).W
    assert np.allclose(ours, at.grad.numpy(), rtol=0, atol=1e-13)


def test_a_replay_that_does_not_fit_is_named():
    k, v = np.ones((2, 4)), np.ones((2, 3))
    begin = begin_with(Fading)
    f = inner.zeros(Linear, k, v)
    with pytest.raises(
        TypeError, match=r"^S: expected a Replay\(model, pairs\), got F"
    ):
        begin(k, v, Fading.start(f), identity)
    with pytest.raises(TypeError, match=r"^S: expected a Fading\(M, at, seen\), got M"):
        begin(k, v, Replay.start(Momentum.start(f), 4, 3), identity)
    with pytest.raises(TypeError, match=r"^S: expected Linear or Perceptron, got A"):
        begin(
            k, v, Replay.start(Fading.start(inner.zeros(Affine, k, v)), 4, 3), identity
        )
    with pytest.raises(ValueError, match=r"^S\.W: d_k is 4 but k has d_k = 21"):
        begin(k, v, Replay.start(Fading.start(f), 4, 3), taylor)
    few = Pairs(k[:, :2], v, k[:, 0])
    with pytest.raises(ValueError, match=r"^S\.K: d_k is 2 but k has d_k = 4"):
        begin(k, v, Replay(Fading.start(f), few), identity)
