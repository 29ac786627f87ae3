"""Memora: autograd token by token, and that each step is the optimum it claims."""

from functools import partial

import numpy as np
import pytest

from ctlearn import inner
from ctlearn.inner import Linear, Perceptron
from ctlearn.mixers import memora
from ctlearn.objectives import Mirror, simplex
from ctlearn.supplies import Floats

MASS = 4.0


def drawn(T, d, seed=0):
    supply = Floats(seed)
    inputs = memora.MECHANISM.draw(supply, T, d, d)
    return inputs | {"mass": np.array(MASS), "inner_batch": 1}, supply


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("b", [1, 4])
def test_it_is_what_autograd_makes_of_it(layers, b):
    """The printed update, with torch's gradient, softmax and log at every boundary.

    Inside a mini-batch the logs go on beside weights that move in straight lines.
    """
    torch = pytest.importorskip("torch")
    T, d = 11, 4
    x, supply = drawn(T, d)
    f = Linear(supply.real("A", d, d))
    if layers == 2:
        f = inner.drawn(Perceptron, supply, d, 7, d)
    S = Mirror.start(f, partial(simplex, mass=MASS))
    o, _ = memora.chunkwise(**(x | {"inner_batch": b}), S=S)

    def read(q, weights):
        if layers == 1:
            return q @ weights[0]
        W_1, b_1, W_2, b_2 = weights
        hidden = torch.nn.functional.gelu(q @ W_1 + b_1, approximate="tanh")
        return hidden @ W_2 + b_2

    now = [torch.tensor(w) for w in S.f.M]
    for t in range(T):
        if t % b == 0:
            start, logs = now, [w.log() for w in now]
        at = [w.clone().requires_grad_() for w in start]
        e = read(torch.tensor(x["k"][t]), at) - torch.tensor(x["v"][t])
        ((e**2).sum() / 2).backward()
        alpha, beta = np.exp(x["log_decay"][t]), x["beta"][t]
        logs, now = (
            [alpha * w - beta * s.grad for w, s in zip(to, at, strict=True)]
            for to in (logs, now)
        )
        if t % b == b - 1:
            now = [MASS * w.flatten().softmax(0).reshape(w.shape) for w in logs]
        wanted = read(torch.tensor(x["q"][t]), now).numpy()
        assert np.allclose(o[t], wanted, rtol=0, atol=1e-13)


def one_step(seed):
    """Weights before and after one token, the gradient, and the two rates."""
    x, supply = drawn(1, 4, seed)
    S = Mirror.start(Linear(supply.real("A", 4, 4)), partial(simplex, mass=MASS))
    _, after = memora.recurrent(**x, S=S)
    W_0, W = S.f.M.W, after.f.M.W
    gradient = np.outer(x["k"][0], W_0.T @ x["k"][0] - x["v"][0])
    alpha, beta = np.exp(x["log_decay"][0]), x["beta"][0]
    return W_0, W, gradient, beta / alpha, beta / (1 - alpha)


@pytest.mark.parametrize("seed", range(4))
def test_a_step_meets_the_conditions_of_an_optimum(seed, record_property):
    """Karush, Kuhn and Tucker: inside the simplex the slope is the same everywhere."""
    W_0, W, gradient, eta, a = one_step(seed)
    slope = gradient + (np.log(W / W_0) + 1) / eta + (np.log(W) + 1) / a
    assert np.allclose(slope, slope.mean(), rtol=0, atol=1e-13)
    assert (W > 0).all()
    assert np.isclose(W.sum(), MASS, rtol=0, atol=1e-14)
    if seed == 0:
        record_property("Memora's step off its optimum", f"{np.ptp(slope):.0e}")


def test_no_other_distribution_costs_less():
    W_0, W, gradient, eta, a = one_step(0)

    def cost(W):
        near = (W * np.log(W / W_0)).sum() / eta
        return (gradient * W).sum() + near + (W * np.log(W)).sum() / a

    rng = np.random.default_rng(0)
    for size in (1e-3, 0.1, 1.0):
        for _ in range(20):
            other = W * np.exp(size * rng.standard_normal(W.shape))
            assert cost(other * MASS / other.sum()) > cost(W)
    # as the rates are given in the source, and what would be off by a factor
    beta = 1 / (1 / eta + 1 / a)
    A = beta / eta * np.log(W_0) - beta * gradient
    assert np.allclose(simplex(A, MASS), W, rtol=0, atol=1e-14)
    assert cost(simplex(beta / eta * np.log(W_0) - eta * gradient, MASS)) > cost(W)


def test_without_fading_it_is_the_exponentiated_gradient():
    """Each weight is multiplied by exp(-beta gradient), then their sum is c again."""
    x, _ = drawn(12, 4)
    x["log_decay"] = np.zeros(12)
    _, S = memora.recurrent(**x)
    W = np.full((4, 4), MASS / 16)
    for k, v, beta in zip(x["k"], x["v"], x["beta"], strict=True):
        W = W * np.exp(-beta * np.outer(k, W.T @ k - v))
        W = MASS * W / W.sum()
    assert np.allclose(S.f.M.W, W, rtol=0, atol=1e-14)


def test_what_fades_fades_to_equal_weights():
    x, supply = drawn(60, 4)
    x |= {"beta": np.zeros(60), "log_decay": np.full(60, np.log(0.5))}
    S = Mirror.start(Linear(supply.real("A", 4, 4)), partial(simplex, mass=MASS))
    _, after = memora.recurrent(**x, S=S)
    assert np.allclose(after.f.M.W, MASS / 16, rtol=0, atol=1e-15)
    _, after = memora.recurrent(**(x | {"log_decay": np.zeros(60)}), S=S)
    assert np.allclose(after.f.M.W, S.f.M.W, rtol=0, atol=1e-15)


def test_weights_leave_the_simplex_inside_a_mini_batch_and_are_back_at_its_end():
    x, _ = drawn(8, 4)
    x["v"] *= 20
    left = []
    for t in range(1, 9):
        tokens = {n: a[:t] if np.ndim(a) else a for n, a in x.items()}
        W = memora.recurrent(**(tokens | {"inner_batch": 4}))[1].f.M.W
        left.append(bool((W < 0).any()) or not np.isclose(W.sum(), MASS))
    assert left == [True, True, True, False] * 2


@pytest.mark.parametrize("mass", [0.0, -1.0, np.nan])
def test_a_sum_that_positive_weights_cannot_have_is_refused(mass):
    x, _ = drawn(3, 4)
    with pytest.raises(ValueError, match=r"^mass: expected a number above 0, got"):
        memora.recurrent(**(x | {"mass": np.array(mass)}))
