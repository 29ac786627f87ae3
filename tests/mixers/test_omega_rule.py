"""The Omega rule: autograd, least squares at the end, capacity, and a misprint."""

import numpy as np
import pytest

from ctlearn import inner
from ctlearn.features import identity, taylor
from ctlearn.inner import Linear, Perceptron
from ctlearn.mixers import linear_attention, longhorn, mesa_net, omega_rule
from ctlearn.objectives import Fading
from ctlearn.supplies import Floats
from ctlearn.tasks.streams import answers_before, drifting
from ctlearn.windows import Replay, empty_window_first


def torch_read(torch, weights, x):
    if len(weights) == 1:
        return x @ weights[0]
    W_1, b_1, W_2, b_2 = weights
    hidden = torch.nn.functional.gelu(x @ W_1 + b_1, approximate="tanh")
    return hidden @ W_2 + b_2


def window_loss(torch, at, x, t, window, weights):
    """The sum over the last w pairs, each as the paper prints it."""
    loss = 0
    for i in range(max(0, t - window + 1), t + 1):
        gap = torch_read(torch, at, torch.tensor(x["phi"](x["k"][i])))
        loss = loss + weights[i] * ((gap - torch.tensor(x["v"][i])) ** 2).sum()
    return loss


@pytest.mark.parametrize("phi", [identity, taylor])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("b", [1, 4])
def test_it_is_what_autograd_makes_of_it(layers, b, phi):
    """The printed recurrence; a mini-batch takes all its gradients at its start."""
    torch = pytest.importorskip("torch")
    T, d, window, supply = 11, 4, 3, Floats(0)
    x = omega_rule.MECHANISM.draw(supply, T, d, d) | {"phi": phi}
    d_phi = len(phi(x["k"][0]))
    M = Linear(supply.real("W", d_phi, d))
    if layers == 2:
        M = inner.drawn(Perceptron, supply, d_phi, 7, d)
    S = Replay.start(Fading.start(M), d, d)
    o, _ = omega_rule.chunkwise(**(x | {"inner_batch": b, "window": window}), S=S)
    now, alpha = [torch.tensor(w) for w in M], np.exp(x["log_decay"])
    for t in range(T):
        if t % b == 0:
            start = now
        at = [w.clone().requires_grad_() for w in start]
        window_loss(torch, at, x, t, window, x["beta"]).backward()
        now = [alpha[t] * w - a.grad for w, a in zip(now, at, strict=True)]
        wanted = torch_read(torch, now, torch.tensor(phi(x["q"][t])))
        assert np.allclose(o[t], wanted.numpy(), rtol=0, atol=1e-13)


def replayed(x, window, rounds, beta, **others):
    """Read the same pairs again and again, forgetting nothing."""
    again = {name: np.tile(x[name], (rounds, 1)) for name in ("q", "k", "v")}
    steps = np.full(len(again["k"]), beta)
    return omega_rule.recurrent(
        **again, window=window, log_decay=0 * steps, beta=steps, **others
    )


@pytest.mark.parametrize("T", [4, 12])
def test_all_pairs_again_and_again_end_at_least_squares(T, record_property):
    """With w = T every step is on the whole loss: of the best maps, the smallest."""
    supply, d = Floats(T), 6
    x = {name: supply.real(name, T, d) for name in ("q", "v")}
    x["k"] = supply.unit("k", T, d)
    o, S = replayed(x, window=T, rounds=3000, beta=0.5 / T)
    last = S.model.M.read(x["q"])
    one = np.ones(T)
    best, _ = mesa_net.parallel(
        **x, log_decay=0 * one, beta=one, ridges=np.full(d, 1e-9)
    )
    assert np.allclose(o[-1], best[-1], rtol=0, atol=1e-6)
    W = np.linalg.lstsq(x["k"], x["v"], rcond=None)[0]
    assert np.allclose(last, x["q"] @ W, rtol=0, atol=1e-7)
    linear, _ = linear_attention.parallel(**x)
    away = np.abs(o[-1] - linear[-1]).max()
    assert away > 0.1
    record_property(f"least squares from linear attention, {T} pairs", f"{away:.2f}")


def test_polynomial_features_hold_more_pairs_than_there_are_key_channels(
    record_property,
):
    """A matrix holds d_k pairs; on the 1 + d + d (d + 1) / 2 features more."""
    supply, d, N = Floats(2), 6, 18
    x = {"k": supply.unit("k", N, d), "v": supply.real("v", N, d)}
    x["q"] = x["k"]
    left = {}
    for phi, beta in ((identity, 0.5), (taylor, 0.2)):
        _, S = replayed(x, window=N, rounds=200, beta=beta / N, phi=phi)
        gap = S.model.M.read(phi(x["k"])) - x["v"]
        left[phi.__name__] = (gap**2).sum() / (x["v"] ** 2).sum()
    assert left["identity"] > 0.4
    assert left["taylor"] < 0.05
    told = ", ".join(f"{name} {share:.3f}" for name, share in left.items())
    record_property(f"share of {N} values not recalled, d_k = {d}", told)


def test_with_the_new_memory_inside_it_would_be_longhorn(record_property):
    """The misprint M_t on the right: an implicit step, which is another rule."""
    x = omega_rule.MECHANISM.draw(Floats(3), 12, 4, 4)
    x |= {"window": 1, "inner_batch": 1, "beta": 8 * x["beta"]}
    x["log_decay"][:] = 0
    explicit, _ = omega_rule.recurrent(**x)
    implicit, M = np.empty_like(x["v"]), np.zeros((4, 4))
    for t in range(12):
        k, v, beta = x["k"][t], x["v"][t], x["beta"][t]
        # M_t = M_{t-1} - 2 beta k (M_t' k - v)', solved for M_t
        inside = np.eye(4) + 2 * beta * np.outer(k, k)
        M = np.linalg.solve(inside, M + 2 * beta * np.outer(k, v))
        implicit[t] = M.T @ x["q"][t]
    tokens = {name: x[name] for name in ("q", "k", "v")}
    prox = np.repeat(2 * x["beta"][:, None], 4, axis=1)
    wanted, _ = longhorn.recurrent(**tokens, beta=prox)
    assert np.allclose(implicit, wanted, rtol=0, atol=1e-13)
    gap = np.abs(implicit - explicit).max()
    assert gap > 0.1
    record_property("the Omega rule with M_t inside against M_{t-1}", f"{gap:.2f}")


def test_a_window_outlives_what_is_forgotten():
    """Forgetting all empties the memory and not the window; empty tokens empty it."""
    window, names = 3, omega_rule.MECHANISM.inputs
    x = omega_rule.MECHANISM.draw(Floats(5), 9, 4, 3)
    x |= {"inner_batch": 1, "window": window, "beta": 8 * x["beta"]}
    x["log_decay"][5] = -np.inf
    tail = {n: a[5:] if n in names else a for n, a in x.items()}
    alone, _ = omega_rule.chunkwise(**tail)
    o, _ = omega_rule.chunkwise(**x)
    assert np.abs(o[5:] - alone).max() > 0.01
    opened = empty_window_first(tail)
    x |= {n: np.concatenate([x[n][:5], opened[n]]) for n in names}
    o, _ = omega_rule.chunkwise(**x)
    assert np.allclose(o[5 + window :], alone, rtol=0, atol=1e-14)


def replay_error(window, rate, stream):
    """Mean square of what is said before a token is told, from the 65th on."""
    steps = np.full(len(stream.k), rate)
    with np.errstate(over="ignore", invalid="ignore"):
        said = answers_before(
            omega_rule.recurrent, stream, window=window, log_decay=0 * steps, beta=steps
        )
        error = ((said - stream.v)[64:] ** 2).mean()
    return error if np.isfinite(error) else np.inf


def test_a_window_helps_where_what_moves_is_clean(record_property):
    """Going over eight pairs follows a drifting map better, unless there is noise.

    Each window at its own best rate, none of which is at an end of the grid.
    """
    rates, best = np.geomspace(0.005, 1.25, 17), {}
    for noise in (0.0, 0.5):
        some = [drifting(s, 512, 16, 16, drift=0.0025, noise=noise) for s in range(3)]
        for window in (1, 8):
            errors = [
                np.mean([replay_error(window, rate, stream) for stream in some])
                for rate in rates
            ]
            assert 0 < np.argmin(errors) < len(rates) - 1
            best[noise, window] = min(errors)
    assert best[0.0, 8] < 0.9 * best[0.0, 1]
    assert best[0.5, 8] > 0.99 * best[0.5, 1]
    told = ", ".join(f"w = {w}, noise {n}: {best[n, w]:.4f}" for n, w in best)
    record_property("the Omega rule on a drifting map", told)
