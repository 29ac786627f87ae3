"""Yaad: autograd token by token, and what an outlier can do to it."""

import numpy as np
import pytest

from ctlearn import inner
from ctlearn.inner import Linear, Perceptron
from ctlearn.mixers import delta_rule, yaad
from ctlearn.objectives import Fading
from ctlearn.supplies import Floats


def drawn(T, d, seed=0):
    supply = Floats(seed)
    return yaad.MECHANISM.draw(supply, T, d, d) | {"inner_batch": 1}, supply


def of(x, tokens):
    return {name: a[tokens] if np.ndim(a) else a for name, a in x.items()}


@pytest.mark.parametrize("by_channel", [False, True])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("b", [1, 4])
def test_it_is_what_autograd_makes_of_it(by_channel, layers, b):
    """The printed recurrence, with torch's gradients of the two losses it names."""
    torch = pytest.importorskip("torch")
    T, d = 12, 4
    x, supply = drawn(T, d)
    x["beta"] /= 4
    if by_channel:
        x["threshold"] = supply.positive("h", T, d)
    f = Linear(supply.real("W", d, d))
    if layers == 2:
        f = inner.drawn(Perceptron, supply, d, 7, d)
    o, _ = yaad.chunkwise(**(x | {"inner_batch": b}), S=Fading.start(f))

    def read(q, weights):
        if layers == 1:
            return q @ weights[0]
        W_1, b_1, W_2, b_2 = weights
        hidden = torch.nn.functional.gelu(q @ W_1 + b_1, approximate="tanh")
        return hidden @ W_2 + b_2

    def loss(e, h):
        if by_channel:
            far = h * (e.abs() - h / 2)
            return torch.where(e.abs() <= h, e**2 / 2, far).sum()
        return (e**2).sum() / 2 if e.norm() <= h else h * e.abs().sum()

    now, branches = [torch.tensor(w) for w in f], set()
    for t in range(T):
        if t % b == 0:
            start = now
        at = [w.clone().requires_grad_() for w in start]
        e = read(torch.tensor(x["k"][t]), at) - torch.tensor(x["v"][t])
        h = torch.tensor(x["threshold"][t])
        branches |= set(np.ravel((e.abs() if by_channel else e.norm()) <= h).tolist())
        loss(e, h).backward()
        alpha, beta = np.exp(x["log_decay"][t]), x["beta"][t]
        now = [alpha * w - beta * s.grad for w, s in zip(now, at, strict=True)]
        wanted = read(torch.tensor(x["q"][t]), now).numpy()
        assert np.allclose(o[t], wanted, rtol=0, atol=1e-13)
    assert branches == {False, True}


def test_an_outlier_moves_the_memory_no_further_than_the_threshold(record_property):
    """One value a thousand times too long: the delta rule is a thousand times off."""
    x, _ = drawn(20, 5)
    x |= {"log_decay": np.zeros(20), "threshold": np.full(20, 2.0)}
    before = yaad.recurrent(**of(x, slice(19)))[1]
    x["v"][19] *= 1000
    after = yaad.recurrent(**x)[1]
    moved = np.linalg.norm(after.M.W - before.M.W)
    assert moved <= x["beta"][19] * 2 * np.sqrt(5) + 1e-12
    names = ("q", "k", "v", "beta")
    S = before.M.W
    last = {n: x[n][19:] for n in names}
    moved_delta = np.linalg.norm(delta_rule.recurrent(**last, S=S)[1] - S)
    assert moved_delta > 200 * moved
    record_property(
        "one outlier moves Yaad, the delta rule", f"{moved:.2f}, {moved_delta:.0f}"
    )


def test_beyond_the_threshold_only_signs_are_stored():
    """Every error an outlier: values a hundred times as long leave the same memory."""
    x, _ = drawn(8, 5)
    x |= {"threshold": np.full(8, 1e-3), "v": 10 * np.sign(x["v"])}
    longer = x | {"v": 100 * x["v"]}
    for form in (yaad.recurrent, yaad.chunkwise):
        states = [form(**inputs)[1].M.W for inputs in (x, longer)]
        assert np.array_equal(*states)


def test_a_threshold_for_the_head_is_not_one_for_each_channel(record_property):
    """The same number in every channel: the source's switch against Huber's loss."""
    x, _ = drawn(20, 5)
    x["threshold"] = np.full(20, 1.5)
    each = x | {"threshold": np.full((20, 5), 1.5)}
    o, o_each = (yaad.recurrent(**inputs)[0] for inputs in (x, each))
    gap = np.abs(o - o_each).max()
    assert gap > 0.1
    record_property("Yaad's switch against Huber's loss by channel", f"{gap:.2f}")


@pytest.mark.parametrize("threshold", [-1.0, np.nan])
def test_a_threshold_below_zero_is_refused(threshold):
    x, _ = drawn(3, 4)
    with pytest.raises(ValueError, match=r"^threshold: expected numbers at least 0, g"):
        yaad.recurrent(**(x | {"threshold": np.full(3, threshold)}))
