"""Moneta: autograd token by token, its link and the print, and the source's table."""

import numpy as np
import pytest

from ctlearn import inner
from ctlearn.inner import Linear, Perceptron
from ctlearn.mixers import delta_rule, kimi_delta_attention, moneta, rwkv7
from ctlearn.objectives import Mirror, dual_link, printed_link
from ctlearn.supplies import Floats


def drawn(T, d, seed=0):
    supply = Floats(seed)
    return moneta.MECHANISM.draw(supply, T, d, d) | {"inner_batch": 1}, supply


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("b", [1, 4])
def test_it_is_what_autograd_makes_of_it(layers, b):
    """Both slopes by torch: that of sum |e|^3, and of ||A||_4^2 / 2, which is W."""
    torch = pytest.importorskip("torch")
    T, d = 11, 4
    x, supply = drawn(T, d)
    f = Linear(supply.real("W", d, d))
    if layers == 2:
        f = inner.drawn(Perceptron, supply, d, 7, d)
    S = Mirror.start(f, lambda A: dual_link(A, 4))
    o, _ = moneta.chunkwise(**(x | {"inner_batch": b}), S=S)

    def read(q, weights):
        if layers == 1:
            return q @ weights[0]
        W_1, b_1, W_2, b_2 = weights
        hidden = torch.nn.functional.gelu(q @ W_1 + b_1, approximate="tanh")
        return hidden @ W_2 + b_2

    def image(gathered):
        at = [a.clone().requires_grad_() for a in gathered]
        sum(((a**4).sum() ** 0.5 / 2) for a in at).backward()
        return [a.grad for a in at]

    A = [torch.tensor(w) for w in f]
    now = image(A)
    for t in range(T):
        if t % b == 0:
            start = now
        at = [w.clone().requires_grad_() for w in start]
        e = read(torch.tensor(x["k"][t]), at) - torch.tensor(x["v"][t])
        (e.abs() ** 3).sum().backward()
        alpha, beta = np.exp(x["log_decay"][t]), x["beta"][t]
        A, now = (
            [alpha * w - beta * s.grad for w, s in zip(to, at, strict=True)]
            for to in (A, now)
        )
        if t % b == b - 1:
            now = image(A)
        wanted = read(torch.tensor(x["q"][t]), now).numpy()
        assert np.allclose(o[t], wanted, rtol=0, atol=1e-13)


def test_what_fades_shrinks_and_by_the_printed_link_would_grow():
    """No step, half of A kept at each of ten tokens."""
    x, supply = drawn(10, 4)
    x |= {"log_decay": np.full(10, np.log(0.5)), "beta": np.zeros(10)}
    A = supply.real("A", 4, 4)
    S = Mirror.start(Linear(A), lambda A: dual_link(A, 4))
    _, after = moneta.recurrent(**x, S=S)
    assert np.allclose(after.f.M.W, S.f.M.W / 2**10, rtol=0, atol=1e-15)
    grown = printed_link(after.A.W, 4)
    assert np.allclose(grown, printed_link(A, 4) * 2**10, rtol=1e-12)


def test_the_printed_link_is_another_memory(record_property):
    """The printed rule token by token, from a large A, where it is tame."""
    x, supply = drawn(20, 5)
    x["log_decay"] = np.full(20, np.log(0.95))
    A = 3 * supply.real("A", 5, 5)
    S = Mirror.start(Linear(A), lambda A: dual_link(A, 4))
    o, _ = moneta.recurrent(**x, S=S)
    gap = 0
    for t in range(20):
        e = printed_link(A, 4).T @ x["k"][t] - x["v"][t]
        step = 3 * x["beta"][t] * np.outer(x["k"][t], np.abs(e) * e)
        A = 0.95 * A - step
        gap = max(gap, np.abs(printed_link(A, 4).T @ x["q"][t] - o[t]).max())
    assert gap > 1
    record_property("Moneta with the printed link against the true one", f"{gap:.1f}")


def test_twice_the_error_is_four_times_the_step():
    x, _ = drawn(1, 4)
    taken = [
        moneta.recurrent(**(x | {"v": n * x["v"]}))[1].A.W for n in (1.0, 2.0, -1.0)
    ]
    assert np.allclose(taken[1], 4 * taken[0], rtol=0, atol=1e-14)
    assert np.array_equal(taken[2], -taken[0])


def test_an_empty_memory_is_a_start():
    """A = 0 is its own image, so an empty memory answers zero and learns."""
    x, _ = drawn(6, 4)
    x["beta"][:2] = 0
    o, _ = moneta.recurrent(**x)
    assert not o[:2].any()
    assert (np.abs(o[2:]).max(axis=1) > 0).all()


@pytest.mark.parametrize("powers", [(0.5, 4), (3, 1), (np.nan, 2)])
def test_powers_of_no_loss_and_no_norm_are_refused(powers):
    x, _ = drawn(3, 4)
    with pytest.raises(ValueError, match=r"^powers: expected r at least 1 and s above"):
        moneta.recurrent(**(x | {"powers": powers}))


def test_the_sources_delta_rule_lacks_a_rate(record_property):
    """S - beta k (k'S) + k v', as displayed, writes v with all its strength."""
    x, _ = drawn(20, 5)
    beta, S, gap = 16 * x["beta"], np.zeros((5, 5)), 0
    o, _ = delta_rule.recurrent(x["q"], x["k"], x["v"], beta=beta)
    for t, k in enumerate(x["k"]):
        S = S - beta[t] * np.outer(k, k @ S) + np.outer(k, x["v"][t])
        gap = max(gap, np.abs(S.T @ x["q"][t] - o[t]).max())
    assert gap > 1
    record_property("the delta rule as MIRAS displays it against itself", f"{gap:.1f}")


def test_the_sources_row_for_rwkv7_is_neither_it_nor_kimi(record_property):
    """Diag(alpha) (I - beta k k') S + beta k v': it erases first, then decays."""
    x, supply = drawn(20, 5)
    log_decay, beta = supply.log_decay("g", 20, 5), 16 * x["beta"]
    tokens = {"q": x["q"], "k": x["k"], "v": x["v"], "log_decay": log_decay}
    kimi, _ = kimi_delta_attention.recurrent(**tokens, beta=beta)
    # RWKV-7 with its removal key and rates set as the row has them
    same = {"kappa": x["k"], "a": np.repeat(beta[:, None], 5, axis=1)}
    written = tokens | {"k": beta[:, None] * x["k"]}
    rwkv, _ = rwkv7.recurrent(**written, **same)
    S, row = np.zeros((5, 5)), []
    for t, k in enumerate(x["k"]):
        S = S - beta[t] * np.outer(k, k @ S)
        S = np.exp(log_decay[t])[:, None] * S + beta[t] * np.outer(k, x["v"][t])
        row.append(S.T @ x["q"][t])
    gaps = [np.abs(np.array(row) - other).max() for other in (kimi, rwkv)]
    assert min(gaps) > 0.05
    record_property(
        "MIRAS's row for RWKV-7 against Kimi delta attention and against RWKV-7",
        f"{gaps[0]:.2f}, {gaps[1]:.2f}",
    )
