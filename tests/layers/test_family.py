"""What is peculiar to layers that are the one memory in disguise, written out."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason='no torch: pip install "ctlearn[torch]"')

import torch.nn.functional as F  # noqa: E402

from ctlearn.layers.delta_product import DeltaProduct  # noqa: E402
from ctlearn.layers.head_norm import HeadNorm  # noqa: E402
from ctlearn.layers.longhorn import Longhorn  # noqa: E402
from ctlearn.layers.matrix_lstm import MatrixLSTM  # noqa: E402
from ctlearn.layers.preconditioned_delta_rule import (  # noqa: E402
    PreconditionedDeltaRule,
)
from ctlearn.layers.rwkv7 import RWKV7  # noqa: E402
from ctlearn.mixers import delta_product, longhorn, matrix_lstm, rwkv7  # noqa: E402

T, D_MODEL = 9, 12
SIZES = {"n_heads": 1, "n_value_heads": 2, "d_k": 4, "d_v": 3}


def layer_of(kind, **more):
    """In float64; maps that start at zero are drawn."""
    torch.manual_seed(0)
    layer = kind(D_MODEL, **SIZES | more)
    for weight in layer.parameters():
        if weight.dim() > 1 and not weight.any():
            torch.nn.init.normal_(weight, std=0.3)
    return layer.double().requires_grad_(False)


def tokens():
    return torch.randn(
        1, T, D_MODEL, generator=torch.Generator().manual_seed(1)
    ).double()


def weights(layer):
    return {n: p.numpy() for n, p in layer.named_parameters()}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def unit(x):
    return x / np.sqrt((x**2).sum(-1, keepdims=True) + 1e-6)


def convolved(x, taps):
    padded = np.concatenate([np.zeros((3, x.shape[1])), x])
    y = sum(taps[i] * padded[3 - i : len(padded) - i] for i in range(4))
    return y * sigmoid(y)


def head_normed(o, eps):
    o = o - o.mean(-1, keepdims=True)
    return o / np.sqrt((o**2).mean(-1, keepdims=True) + eps)


def by_head(recurrent, **inputs):
    """The answers [T, 2, d_v] of two heads."""
    heads = [{n: x[:, h] for n, x in inputs.items()} for h in range(2)]
    return np.stack([recurrent(**head)[0] for head in heads], 1)


def test_an_rwkv7_layer_written_out():
    layer, x = layer_of(RWKV7), tokens()
    w, x_t = weights(layer), x[0].numpy()
    before = np.concatenate([np.zeros((1, D_MODEL)), x_t[:-1]])
    r, k, v, decay, a, g = (x_t + mu * (before - x_t) for mu in w["shift"])
    W_r, W_k, W_v = np.split(w["qkv.weight"], [4, 8])
    # one head of queries and keys serves two of values
    q, k0 = (np.stack([y @ W.T] * 2, 1) for y, W in ((r, W_r), (k, W_k)))
    v = (v @ W_v.T).reshape(T, 2, 3)
    decay = np.tanh(decay @ w["decay.0.weight"].T) @ w["decay.2.weight"].T
    decay = sigmoid(decay + w["decay.2.bias"]).reshape(T, 2, 4)
    a = a @ w["giving.0.weight"].T @ w["giving.2.weight"].T + w["giving.2.bias"]
    a = sigmoid(a).reshape(T, 2, 4)
    g = sigmoid(g @ w["gate.0.weight"].T) @ w["gate.2.weight"].T
    k = k0 * (1 + w["yielding"] * (a - 1))
    o = by_head(
        rwkv7.recurrent,
        **{"q": q, "k": k, "v": v, "kappa": unit(w["removal"] * k0), "a": a},
        log_decay=-np.exp(-0.5) * decay,
    )
    o = head_normed(o, 3e-5) * w["norm.weight"] + w["norm.bias"]
    o = o + (q * w["bonus"] * k).sum(-1, keepdims=True) * v
    y = (o.reshape(T, 6) * g) @ w["out.weight"].T
    np.testing.assert_allclose(layer(x)[0][0], y, rtol=1e-9, atol=1e-12)


def test_a_longhorn_layer_written_out():
    layer, x = layer_of(Longhorn), tokens()
    layer.skip += torch.arange(3)
    w, x_t = weights(layer), x[0].numpy()
    values = convolved(x_t @ w["qkv.weight"].T, w["filter.weight"])
    q, k, r = np.split(values @ w["asked.weight"].T, [4, 8], 1)
    beta = sigmoid(r @ w["rate.weight"].T + w["rate.bias"]).reshape(T, 2, 3)
    q, k = (np.stack([y] * 2, 1) for y in (q, k))
    v = values.reshape(T, 2, 3)
    o = by_head(longhorn.recurrent, q=q, k=k, v=v, beta=beta) + w["skip"] * v
    gate = x_t @ w["gate.weight"].T
    y = (o.reshape(T, 6) * gate * sigmoid(gate)) @ w["out.weight"].T
    np.testing.assert_allclose(layer(x)[0][0], y, rtol=1e-9, atol=1e-12)


def test_the_diagonal_of_longhorn_is_what_its_kernel_computes():
    """A scan by channel, and not the mechanism."""
    layer, x = layer_of(Longhorn, diagonal=True), tokens()
    seen, *qkv, _ = layer.project(x, None)
    given = layer.inputs(seen, *(3 * a for a in qkv))
    o, S = layer.answer(S=None, **given)
    q, k, v, beta = (given[n][0, :, 1].numpy() for n in ("q", "k", "v", "beta"))
    state, expected = np.zeros((4, 3)), []
    for t in range(T):
        eps = beta[t] / (1 + beta[t] * (k[t] @ k[t]))
        state = (1 - np.outer(k[t] ** 2, eps)) * state + np.outer(k[t], eps * v[t])
        expected.append(state.T @ q[t])
    np.testing.assert_allclose(o[0, :, 1], expected, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(S[0, 3:, :, 0].T, state, rtol=1e-10, atol=1e-13)
    exact, _ = longhorn.recurrent(q, k, v, beta=beta)
    assert np.abs(exact - expected).max() > 1e-3 * np.abs(exact).max()


def test_the_diagonal_of_longhorn_keeps_nothing_where_all_is_erased():
    """A key of one channel, so long that 1 - eps k^2 rounds to zero."""
    layer = layer_of(Longhorn, diagonal=True).float()
    k = torch.zeros(1, 2, 2, 4)
    k[..., 0] = 1e6
    given = {"k": k, "v": torch.ones(1, 2, 2, 3), "beta": torch.ones(1, 2, 2, 3)}
    kept = layer.write(**given)["log_decay"]
    assert kept.isfinite().all()
    assert (kept[..., 0] < -15).all()
    assert not kept[..., 1:].any()


@pytest.mark.parametrize("n_h", [1, 3])
def test_steps_come_in_the_order_of_their_keys(n_h):
    """A token's first pair is that of the first heads of the projection."""
    layer, x = layer_of(DeltaProduct, n_h=n_h), tokens()
    seen, q, k, v, _ = layer.project(x, None)
    given = layer.inputs(seen, q, k, v)
    w, x_t = weights(layer), x[0].numpy()
    qkv = convolved(x_t @ w["qkv.weight"].T, w["convolution.weight"])
    keys = unit(qkv[:, 4 : 4 + 4 * n_h].reshape(T, n_h, 4))
    values = qkv[:, 4 + 4 * n_h :].reshape(T, n_h, 2, 3)
    rates = 2 * sigmoid(x_t @ w["rate.weight"].T).reshape(T, n_h, 2)
    for h in range(2):
        np.testing.assert_allclose(given["k"][0, :, h], keys, rtol=1e-12)
        np.testing.assert_allclose(given["v"][0, :, h], values[:, :, h], rtol=1e-12)
        np.testing.assert_allclose(given["beta"][0, :, h], rates[:, :, h], rtol=1e-12)
    o, _ = layer.answer(S=None, **given)
    given = {n: y[0].numpy() for n, y in given.items()}
    expected = by_head(delta_product.recurrent, **given)
    np.testing.assert_allclose(o[0], expected, rtol=1e-10, atol=1e-13)


def test_no_step_at_all_is_refused():
    with pytest.raises(ValueError, match=r"^n_h"):
        DeltaProduct(D_MODEL, **SIZES, n_h=0)


def large_gates(scale, drop, dtype):
    """Weights up to e^(3 scale) and down to nothing, for features above zero."""
    rng = torch.Generator().manual_seed(1)
    q, k, v = (torch.randn(1, 100, 2, d, generator=rng) for d in (4, 4, 3))
    log_decay = -drop * torch.rand(1, 100, 2, generator=rng)
    log_write = scale * torch.randn(1, 100, 2, generator=rng)
    log_decay[:, 40] = log_write[:, 60] = -torch.inf
    x = {"q": q.abs(), "k": k.abs(), "v": v}
    x |= {"log_decay": log_decay, "log_write": log_write}
    return {name: a.to(dtype) for name, a in x.items()}


@pytest.mark.parametrize(("scale", "drop"), [(1, 0.1), (15, 1), (300, 1), (300, 100)])
def test_large_gates_cost_no_digits(scale, drop):
    """In float32, where exp(89) is infinite; 8 times its rounding."""
    layer = layer_of(MatrixLSTM).float()
    x = large_gates(scale, drop, torch.float32)
    x = {name: a.requires_grad_() for name, a in x.items()}
    o, S = layer.answer(S=None, **x)
    exact = {n: a.detach()[0].double().numpy() for n, a in x.items()}
    with np.errstate(over="ignore"):
        # a floor of exp(-m) may be infinite there, and o then zero
        expected = by_head(matrix_lstm.recurrent, **exact)
    error = np.abs(o.detach()[0].numpy() - expected).max()
    assert error <= 8 * torch.finfo(torch.float32).eps * np.abs(expected).max()
    assert all(a.isfinite().all() for a in S)
    gradients = torch.autograd.grad(o.square().sum(), list(x.values()))
    assert all(g.isfinite().all() for g in gradients)


def test_a_floor_below_one_is_none():
    """A write too weak to be divided by its weight is divided by 1."""
    layer = layer_of(MatrixLSTM)
    x = large_gates(1, 1, torch.float64)
    x["log_write"] = x["log_write"].clamp(-1, 1) - 50
    o, S = layer.answer(S=None, **x)
    assert not S.m.any()
    assert o.abs().max() < 1e-18
    loud = x | {"log_write": x["log_write"] + 1}
    torch.testing.assert_close(layer.answer(S=None, **loud)[0], o * np.e)


def test_a_norm_of_heads_is_that_of_groups():
    norm, o = HeadNorm(2, 3, eps=1e-4, bias=True), torch.randn(5, 7, 2, 3)
    torch.nn.init.normal_(norm.weight)
    torch.nn.init.normal_(norm.bias)
    flat = (norm.weight.flatten(), norm.bias.flatten())
    groups = F.group_norm(o.reshape(35, 6), 2, *flat, eps=1e-4).view_as(o)
    torch.testing.assert_close(norm(o), groups)


def test_the_matrix_lstm_starts_by_writing_little_and_forgetting_little():
    torch.manual_seed(0)
    layer = MatrixLSTM(8, n_heads=4, d_k=2, d_v=2)
    x, q = torch.randn(1, 3, 8), torch.randn(1, 3, 4, 2)
    given = layer.inputs(x, q, q, q)
    cap = 15 * torch.tanh(torch.tensor([3.0, 4.0, 5.0, 6.0]) / 15)
    torch.testing.assert_close(given["log_decay"][0, 1], F.logsigmoid(cap))
    written = torch.full((4,), 15 * np.tanh(-10 / 15), dtype=torch.float32)
    torch.testing.assert_close(given["log_write"][0, 1], written)
    # the cap holds whatever the logits
    layer.gates.bias.data.fill_(1e4)
    assert layer.inputs(x, q, q, q)["log_write"].max() <= 15


def test_rwkv7_starts_as_its_code_does():
    """As the first layer of a deep model, whose answer is nothing yet."""
    torch.manual_seed(0)
    layer = RWKV7(64, n_heads=2, d_k=32, d_v=32).requires_grad_(False)
    x = torch.randn(1, 5, 64)
    assert not layer(x)[0].any()
    seen, *qkv, _ = layer.project(x, None)
    given = layer.inputs(seen, *qkv)
    # bottlenecks are closed, so that gates are those of their biases at every token
    logits = torch.logit(given["log_decay"][0, 0] / -np.exp(-0.5)).flatten()
    assert logits[0] == pytest.approx(-6 + 0.5 - 2.5, abs=1e-4)
    assert logits[-1] == pytest.approx(0.5 + 2.5, abs=1e-4)
    assert torch.equal(given["a"][0, 0], given["a"][0, 4])
    assert torch.logit(given["a"][0, 0, 0, 0]) == pytest.approx(-0.19 - 0.5, abs=1e-4)
    W_r, W_k, W_v = layer.qkv.weight.split(layer.sizes)
    for W, gain in ((W_r, 1), (W_k, 0.1), (W_v, 1)):
        torch.testing.assert_close(W @ W.T, gain**2 * torch.eye(64), atol=1e-5, rtol=0)
    mu = layer.shift
    assert torch.equal(mu[:, 0], torch.ones(6))
    torch.testing.assert_close(mu[3, 32], torch.tensor(1 - 0.5**0.9))


def test_a_preconditioner_stays_in_its_spread():
    layer, x = layer_of(PreconditionedDeltaRule), tokens()
    assert torch.equal(layer.centre, torch.full((1,), -0.2).double())
    seen, *qkv, _ = layer.project(x, None)
    given = layer.inputs(seen, *qkv)
    assert given["spread"] == 1.5
    # of what is written, one part: values of one where the keys are
    given |= {"v": torch.ones_like(given["v"]), "beta": torch.ones_like(given["beta"])}
    first = {n: a[:, :1] if n in ("q", "k", "v") else a for n, a in given.items()}
    gates = ("log_decay", "beta", "gram_log_decay", "gram_beta")
    first |= {n: given[n][:, :1] for n in gates}
    _, S = layer.answer(S=None, **first)
    P = S.S[..., 0] / first["k"][:, 0]
    assert 1 / 1.5 < P.min() < P.max() < 1.5
    with pytest.raises(ValueError, match=r"^spread"):
        PreconditionedDeltaRule(D_MODEL, **SIZES, spread=0.0)
