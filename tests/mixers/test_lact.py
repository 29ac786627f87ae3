"""LaCT: its training by autograd, its linear case, and what Muon takes away."""

import numpy as np
import pytest

from ctlearn import inner
from ctlearn.inner import GatedUnit, Linear
from ctlearn.mixers import lact, linear_attention
from ctlearn.supplies import Floats


def drawn(T, d, seed=0):
    supply = Floats(seed)
    return lact.MECHANISM.draw(supply, T, d, d), supply


def of(x, tokens):
    return {name: a[tokens] if np.ndim(a) else a for name, a in x.items()}


def test_its_gradients_are_those_of_autograd_and_its_order_apply_then_train():
    """Two mini-batches and a rest, without Muon: torch's gradient of f(k)'v."""
    torch = pytest.importorskip("torch")
    T, d, b = 11, 5, 4
    x, supply = drawn(T, d)
    S = lact.drawn_start(supply, d, d)
    o, _ = lact.recurrent(**(x | {"inner_batch": b, "muon": ()}), S=S)
    now = [torch.tensor(w) for w in S.f]
    lengths = [w.norm(dim=0) for w in now]
    before = [torch.zeros_like(w) for w in now]

    def f(z, W_0, W_1, W_2):
        return (torch.nn.functional.silu(z @ W_0) * (z @ W_2)) @ W_1

    for first in range(0, T, b):
        c = slice(first, first + b)
        wanted = f(torch.tensor(x["q"][c]), *now).numpy()
        assert np.allclose(o[c], wanted, rtol=0, atol=1e-12)
        D = [torch.zeros_like(w) for w in now]
        for t in range(first, min(first + b, T)):
            at = [w.clone().requires_grad_() for w in now]
            (f(torch.tensor(x["k"][t]), *at) @ torch.tensor(x["v"][t])).backward()
            D = [s + r * w.grad for s, r, w in zip(D, x["beta"][t], at, strict=True)]
        mu = np.exp(x["log_mu"][c]).mean()
        before = [s + mu * p for s, p in zip(D, before, strict=True)]
        now = [w + s for w, s in zip(now, before, strict=True)]
        now = [
            w / (w.norm(dim=0) + 1e-5) * n for w, n in zip(now, lengths, strict=True)
        ]


@pytest.mark.parametrize("b", [1, 4])
def test_a_linear_network_is_linear_attention_to_the_mini_batches_before(b):
    """No Muon, no lengths, no momentum: chunk n sees the chunks before it."""
    T, d = 12, 5
    x, _ = drawn(T, d)
    S = lact.State.start(Linear(np.zeros((d, d))), keep_lengths=False)
    x |= {"log_mu": np.full(T, -np.inf), "muon": (), "inner_batch": b}
    o, _ = lact.chunkwise(**(x | {"beta": np.ones((T, 3))}), S=S)
    for first in range(0, T, b):
        past = x["k"][:first].T @ x["v"][:first]
        wanted = x["q"][first : first + b] @ past
        assert np.allclose(o[first : first + b], wanted, rtol=0, atol=1e-13)
    if b == 1:
        k, v = (np.vstack([np.zeros((1, d)), x[n][:-1]]) for n in "kv")
        assert np.allclose(o, linear_attention.recurrent(x["q"], k, v)[0], atol=1e-13)


def test_muon_forgets_the_overall_step_size_and_keeps_the_relative_one():
    x, supply = drawn(64, 6)
    S = lact.drawn_start(supply, 6, 6)
    x["log_mu"] = np.full(64, -np.inf)
    o, _ = lact.chunkwise(**x, S=S)
    larger, _ = lact.chunkwise(**(x | {"beta": 100 * x["beta"]}), S=S)
    assert np.allclose(o, larger, rtol=0, atol=1e-3)
    other = x | {"beta": x["beta"][::-1].copy()}
    assert np.abs(o - lact.chunkwise(**other, S=S)[0]).max() > 0.01
    plain, plain_larger = (
        lact.chunkwise(**(x | {"muon": (), "beta": r * x["beta"]}), S=S)[0]
        for r in (1, 100)
    )
    assert np.abs(plain - plain_larger).max() > 0.02


def test_training_keeps_every_units_length():
    x, supply = drawn(64, 6)
    S = lact.drawn_start(supply, 6, 6)
    _, after = lact.chunkwise(**x, S=S)
    for W, before in zip(after.f, S.f, strict=True):
        lengths = (np.linalg.norm(w, axis=0) for w in (W, before))
        assert np.allclose(*lengths, rtol=1e-4)
        assert not np.allclose(W, before, atol=0.1)


def test_the_last_mini_batch_waits_until_it_is_full():
    x, supply = drawn(40, 5)
    S = lact.drawn_start(supply, 5, 5)
    _, after_32 = lact.recurrent(**of(x, slice(32)), S=S)
    _, after_40 = lact.recurrent(**x, S=S)
    assert all(map(np.array_equal, after_32.f, after_40.f))
    assert int(after_40.seen) == 8


def test_gradient_ascent_on_negated_values_is_descent():
    """From a linear start of zero: negated values give negated answers, no more."""
    x, _ = drawn(12, 5)
    S = lact.State.start(Linear(np.zeros((5, 5))), keep_lengths=False)
    x |= {"muon": (), "inner_batch": 4}
    o, _ = lact.recurrent(**x, S=S)
    negated, _ = lact.recurrent(**(x | {"v": -x["v"]}), S=S)
    assert np.array_equal(o, -negated)


def test_bad_calls_are_named():
    x, _ = drawn(4, 3)
    with pytest.raises(ValueError, match=r"^beta: expected \[T, 3\]"):
        lact.recurrent(**(x | {"beta": x["beta"][:, :2]}))
    wrong = inner.drawn(inner.Perceptron, Floats(0), 3, 4, 3)
    with pytest.raises(TypeError, match=r"^S: expected GatedUnit or Linear"):
        lact.recurrent(**x, S=lact.State.start(wrong))
    assert isinstance(lact.recurrent(**x)[1].f, GatedUnit)
