"""ATLAS: autograd and an orthogonal step, and what Muon makes of sizes."""

import numpy as np
import pytest

from ctlearn import inner
from ctlearn.inner import Linear, Momentum, Perceptron
from ctlearn.mixers import atlas
from ctlearn.supplies import Floats
from ctlearn.windows import Replay


def drawn(T, d, **others):
    x = atlas.MECHANISM.draw(Floats(0), T, d, d)
    return x | {"muon": inner.MUON, "inner_batch": 1, "window": 3} | others


@pytest.mark.parametrize("muon", [(), inner.MUON, inner.MUON_LACT])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("b", [1, 4])
def test_it_is_what_autograd_and_an_svd_make_of_it(layers, b, muon):
    """The recurrence with torch's gradients, and the iteration on singular values."""
    torch = pytest.importorskip("torch")
    T, d = 9, 4
    x, supply = drawn(T, d, muon=muon, inner_batch=b), Floats(1)
    x["beta"] = x["beta"] / 4
    M = Linear(supply.real("W", d, d) / 4)
    if layers == 2:
        M = inner.drawn(Perceptron, supply, d, 7, d)
    o, _ = atlas.chunkwise(**x, S=Replay.start(Momentum.start(M), d, d))

    def read(weights, q):
        if layers == 1:
            return q @ weights[0]
        W_1, b_1, W_2, b_2 = weights
        hidden = torch.nn.functional.gelu(q @ W_1 + b_1, approximate="tanh")
        return hidden @ W_2 + b_2

    def move(p):
        if p.ndim == 1 or not muon:
            return p
        U, s, W = np.linalg.svd(p.numpy(), full_matrices=False)
        s = s / (np.linalg.norm(s) + 1e-7)
        for a, b, c in muon:
            s = a * s + b * s**3 + c * s**5
        return torch.tensor((U * s) @ W)

    now = [torch.tensor(w) for w in M]
    P = [torch.zeros_like(w) for w in now]
    alpha, mu = np.exp(x["log_decay"]), np.exp(x["log_mu"])
    for t in range(T):
        if t % b == 0:
            start = now
        at = [w.clone().requires_grad_() for w in start]
        loss = 0
        for i in range(max(0, t - 2), t + 1):
            gap = read(at, torch.tensor(x["k"][i])) - torch.tensor(x["v"][i])
            loss = loss + x["eta"][i] * (gap**2).sum()
        loss.backward()
        P = [mu[t] * p - a.grad for p, a in zip(P, at, strict=True)]
        now = [
            alpha[t] * w + x["beta"][t] * move(p) for w, p in zip(now, P, strict=True)
        ]
        wanted = read(now, torch.tensor(x["q"][t])).numpy()
        assert np.allclose(o[t], wanted, rtol=0, atol=1e-10)


def test_with_muon_only_the_ratios_of_weights_count(record_property):
    """A hundred times the weights of all pairs moves M as far; without, further."""
    x = drawn(12, 5)
    x["beta"] = x["beta"] / 16
    louder = x | {"eta": 100 * x["eta"]}
    with_muon = [atlas.recurrent(**y)[0] for y in (x, louder)]
    assert np.allclose(*with_muon, rtol=0, atol=0.03 * np.abs(with_muon[0]).max())
    plain = [atlas.recurrent(**(y | {"muon": ()}))[0] for y in (x, louder)]
    growth = np.abs(plain[1]).max() / np.abs(plain[0]).max()
    assert growth > 10
    told = "ATLAS without Muon, weights times 100, outputs times"
    record_property(told, f"{growth:.0f}")


def test_a_step_is_as_long_in_every_direction():
    """The first step of a full window: all its singular values are near beta."""
    d = 4
    x = drawn(8, d, window=8)
    x["log_decay"][:] = -np.inf  # M is the last step alone
    x["log_mu"][:] = -np.inf
    _, S = atlas.recurrent(**x)
    s = np.linalg.svd(S.model.M.W, compute_uv=False) / x["beta"][-1]
    assert (s > 0.6).all()
    assert (s < 1.2).all()
    gradient = np.linalg.svd(S.model.P.W, compute_uv=False)
    assert gradient[0] > 3 * gradient[-1]
