"""Titans' memory: autograd token by token, the trap in its reduction, its momentum."""

import numpy as np
import pytest

from ctlearn import inner
from ctlearn.inner import Linear, Momentum, Perceptron
from ctlearn.mixers import gated_delta_rule, titans
from ctlearn.supplies import Floats


def drawn(T, d, seed=0):
    supply = Floats(seed)
    inputs = titans.MECHANISM.draw(supply, T, d, d)
    return inputs | {"inner_batch": 1}, supply


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("b", [1, 4])
def test_it_is_what_autograd_makes_of_it(layers, b):
    """The printed recurrence, with torch's gradient of ||M(k) - v||^2."""
    torch = pytest.importorskip("torch")
    T, d = 10, 5
    x, supply = drawn(T, d)
    M = Linear(supply.real("W", d, d))
    if layers == 2:
        M = inner.drawn(Perceptron, supply, d, 7, d)
    S = Momentum.start(M)
    o, _ = titans.chunkwise(**(x | {"inner_batch": b}), S=S)

    def read(q, weights):
        if layers == 1:
            return q @ weights[0]
        W_1, b_1, W_2, b_2 = weights
        hidden = torch.nn.functional.gelu(q @ W_1 + b_1, approximate="tanh")
        return hidden @ W_2 + b_2

    now = [torch.tensor(w) for w in M]
    P = [torch.zeros_like(w) for w in now]
    alpha, mu = np.exp(x["log_decay"]), np.exp(x["log_mu"])
    for t in range(T):
        if t % b == 0:
            start = now
        at = [w.clone().requires_grad_() for w in start]
        gap = read(torch.tensor(x["k"][t]), at) - torch.tensor(x["v"][t])
        (gap**2).sum().backward()
        P = [mu[t] * p - x["beta"][t] * w.grad for p, w in zip(P, at, strict=True)]
        now = [alpha[t] * w + p for w, p in zip(now, P, strict=True)]
        wanted = read(torch.tensor(x["q"][t]), now).numpy()
        assert np.allclose(o[t], wanted, rtol=0, atol=1e-13)


def test_without_momentum_it_is_not_the_gated_delta_rule_verbatim(record_property):
    """It reads before it forgets; the paper's appendix equates the two as they are."""
    x, _ = drawn(20, 6)
    x |= {"log_mu": np.full(20, -np.inf), "beta": 4 * x["beta"]}
    o, _ = titans.recurrent(**x)
    names = ("q", "k", "v", "log_decay")
    same = {name: x[name] for name in names}
    verbatim, _ = gated_delta_rule.recurrent(**same, beta=2 * x["beta"])
    assert np.abs(o - verbatim).max() > 0.02
    alpha = np.exp(x["log_decay"])
    same["v"] = alpha[:, None] * x["v"]
    rescaled, _ = gated_delta_rule.recurrent(**same, beta=2 * x["beta"] / alpha)
    assert np.allclose(o, rescaled, rtol=0, atol=1e-13)
    gap = np.abs(o - verbatim).max()
    record_property(
        "Titans without momentum against the gated delta rule", f"{gap:.3f}"
    )


def test_the_gradient_is_twice_that_of_the_halved_loss():
    """One token from nothing: M = 2 beta k v', not beta k v'."""
    x, _ = drawn(1, 4)
    o, S = titans.recurrent(**x)
    wanted = 2 * x["beta"][0] * np.outer(x["k"][0], x["v"][0])
    assert np.allclose(S.M.W, wanted, rtol=0, atol=1e-15)
    assert np.allclose(o[0], wanted.T @ x["q"][0], rtol=0, atol=1e-15)


def test_a_surprise_goes_on_moving_the_memory():
    """After one surprise and silence M moves by mu, mu^2, ...: a geometric sum."""
    x, _ = drawn(6, 4)
    x["log_decay"], x["log_mu"] = np.zeros(6), np.full(6, np.log(0.5))
    x["beta"] = np.array([0.1, 0, 0, 0, 0, 0])
    _, once = titans.recurrent(**{n: a[:1] if np.ndim(a) else a for n, a in x.items()})
    _, S = titans.recurrent(**x)
    assert np.allclose(S.M.W, once.M.W * (2 - 0.5**5), rtol=0, atol=1e-15)


def test_minus_infinity_clears_all_but_what_the_token_read_before_forgetting():
    """Case 4, for a memory that reads first: no document boundary by decay alone.

    The first token still compares its value with the old memory's answer, so the state
    is that of a new sequence whose first value has that answer taken off.
    """
    x, _ = drawn(9, 4)
    for name in ("log_decay", "log_mu"):
        x[name][5] = -np.inf
    before = {n: a[:5] if np.ndim(a) else a for n, a in x.items()}
    rest = {n: a[5:].copy() if np.ndim(a) else a for n, a in x.items()}
    rest["v"][0] -= titans.recurrent(**before)[1].M.read(x["k"][5])
    for form in (titans.recurrent, titans.chunkwise):
        assert np.allclose(form(**x)[0][5:], form(**rest)[0], rtol=0, atol=1e-15)
