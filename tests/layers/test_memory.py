"""The one memory in torch: every plan is the NumPy recurrence, with its gradients."""

import itertools

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason='no torch: pip install "ctlearn[torch]"')

from ctlearn import memory as reference  # noqa: E402
from ctlearn.layers import backward, memory  # noqa: E402

LENGTHS = (0, 1, 2, 7, 15, 16, 17, 63, 64, 65, 130)
GATES = ("none", "scalar", "vector")
PLANS = {
    "recurrent": memory.recurrent,
    "parallel": memory.parallel,
    "chunkwise": memory.chunkwise,
    "by hand": backward.chunkwise,
}


def drawn(T, gates, *, erase=True, B=2, H=3, d_k=5, d_v=4, seed=0):
    """A family member's inputs; keys of length one, erased at beta k."""
    rng = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=rng, dtype=torch.float64)

    k = torch.nn.functional.normalize(normal(B, T, H, d_k), dim=-1)
    x = {"q": normal(B, T, H, d_k), "k": k, "z": normal(B, T, H, d_v)}
    if erase:
        x["e"] = torch.rand(B, T, H, 1, generator=rng, dtype=torch.float64) * k
    if gates != "none":
        shape = (B, T, H) if gates == "scalar" else (B, T, H, d_k)
        x["log_decay"] = -torch.rand(*shape, generator=rng, dtype=torch.float64)
    x["S"] = normal(B, H, d_k, d_v)
    return x


def by_numpy(x, **how):
    """The float64 recurrence of every sequence and head."""
    B, _, H, _ = x["k"].shape
    o, S = torch.zeros_like(x["z"]), torch.zeros_like(x["S"])
    for b, h in itertools.product(range(B), range(H)):
        head = {
            name: (a[b, h] if name == "S" else a[b, :, h]).double().numpy()
            for name, a in x.items()
        }
        o_h, S_h = reference.recurrent(**head, **how)
        o[b, :, h], S[b, h] = torch.tensor(o_h), torch.tensor(S_h)
    return o, S


def gap(found, truth):
    """The largest relative difference in norm over several tensors."""
    gaps = [0.0]
    for a, b in zip(found, truth, strict=True):
        assert a.shape == b.shape
        if b.numel():
            size = b.double().norm().clamp(min=1e-30)
            gaps.append(float((a.double() - b.double()).norm() / size))
    return max(gaps)


@pytest.mark.parametrize("read_first", [False, True])
@pytest.mark.parametrize("erase", [False, True])
@pytest.mark.parametrize("gates", GATES)
@pytest.mark.parametrize("plan", PLANS)
def test_plans_are_the_recurrence(plan, gates, erase, read_first):
    for T in LENGTHS:
        x = drawn(T, gates, erase=erase)
        truth = by_numpy(x, read_first=read_first)
        sizes = (1, 16, 64) if "chunk" in plan or plan == "by hand" else (None,)
        for size in sizes:
            how = {"read_first": read_first} | ({"chunk_size": size} if size else {})
            assert gap(PLANS[plan](**x, **how), truth) < 1e-12


@pytest.mark.parametrize("gates", GATES)
def test_float32_stays_close_to_float64(gates):
    x = drawn(130, gates, d_k=16, d_v=8)
    narrow = {name: a.float() for name, a in x.items()}
    for plan in ("chunkwise", "by hand"):
        assert gap(PLANS[plan](**narrow), by_numpy(x)) < 5e-6


def gradients(form, x, weights, **how):
    """Those of a sum of outputs and last state, in the order of the inputs."""
    x = {name: a.clone().requires_grad_() for name, a in x.items()}
    results = form(**x, **how)
    loss = sum((r * w).sum() for r, w in zip(results, weights, strict=True))
    found = torch.autograd.grad(loss, list(x.values()), allow_unused=True)
    zeros = (torch.zeros_like(a) for a in x.values())
    return [z if g is None else g for g, z in zip(found, zeros, strict=True)]


def weights_like(x):
    """Gradients of the outputs and of the last state."""
    rng = torch.Generator().manual_seed(9)
    sizes = x["z"].shape, x["S"].shape
    return [torch.randn(s, generator=rng, dtype=x["z"].dtype) for s in sizes]


@pytest.mark.parametrize("read_first", [False, True])
@pytest.mark.parametrize("erase", [False, True])
@pytest.mark.parametrize("gates", GATES)
def test_gradients_are_those_of_the_recurrence(gates, erase, read_first):
    for T, size in itertools.product((1, 7, 65, 130), (1, 16, 64)):
        x = drawn(T, gates, erase=erase)
        weights = weights_like(x)
        truth = gradients(memory.recurrent, x, weights, read_first=read_first)
        for form in (memory.chunkwise, backward.chunkwise):
            found = gradients(form, x, weights, read_first=read_first, chunk_size=size)
            assert gap(found, truth) < 1e-11


@pytest.mark.parametrize("g", [-0.01, -1.0, -5.0, -20.0])
@pytest.mark.parametrize("gates", GATES[1:])
def test_gate_gradients_keep_their_digits_at_strong_decay(gates, g):
    """Case 1: what a token keeps of itself is a billion times what the gate moves."""
    x = drawn(130, gates, d_k=16, d_v=16)
    x["log_decay"] = torch.full_like(x["log_decay"], g)
    weights = weights_like(x)
    truth = gradients(memory.recurrent, x, weights)
    narrow = {name: a.float() for name, a in x.items()}
    found = gradients(backward.chunkwise, narrow, [w.float() for w in weights])
    for a, b in zip(found, truth, strict=True):
        assert gap([a], [b]) < 2e-5


@pytest.mark.parametrize("gates", GATES[1:])
@pytest.mark.parametrize("first", [0, 37])
def test_minus_infinity_is_a_new_sequence(gates, first):
    """Case 4: exactly, and its own gradient is zero."""
    x = drawn(70, gates)
    x["log_decay"][:, first] = -torch.inf
    weights = weights_like(x)
    o, S = backward.chunkwise(**x)
    rest = {n: a[:, first:] for n, a in x.items() if n != "S"}
    o_rest, S_rest = backward.chunkwise(**rest)
    assert gap([o[:, first:], S], [o_rest, S_rest]) < 1e-14
    found = gradients(backward.chunkwise, x, weights)
    assert all(a.isfinite().all() for a in found)
    assert not found[list(x).index("log_decay")][:, first].any()


@pytest.mark.parametrize("gates", GATES)
def test_no_tokens_give_the_state_back_with_its_gradient(gates):
    """Case 23."""
    x = drawn(0, gates)
    weights = weights_like(x)
    o, S = backward.chunkwise(**x)
    assert o.shape == x["z"].shape
    assert torch.equal(S, x["S"])
    found = gradients(backward.chunkwise, x, weights)
    assert torch.equal(found[list(x).index("S")], weights[1])


def test_the_future_is_not_read():
    """Case 11: equal to the bit."""
    x, other = drawn(130, "scalar"), drawn(130, "scalar", seed=1)
    changed = {
        n: a if n == "S" else torch.cat([a[:, :70], other[n][:, 70:]], 1)
        for n, a in x.items()
    }
    for form in (memory.chunkwise, backward.chunkwise):
        assert torch.equal(form(**x)[0][:, :70], form(**changed)[0][:, :70])


@pytest.mark.parametrize("gates", GATES)
def test_gradcheck(gates):
    x = drawn(9, gates, B=1, H=2, d_k=3, d_v=2)
    names = list(x)

    def form(*arrays):
        return backward.chunkwise(**dict(zip(names, arrays, strict=True)), chunk_size=4)

    arrays = tuple(a.clone().requires_grad_() for a in x.values())
    assert torch.autograd.gradcheck(form, arrays, fast_mode=True)


def test_inverse_of_near_parallel_keys_is_exact_in_float32():
    """Case 9: one key sixty-four times, at beta 1.9."""
    L = torch.full((64, 64), 1.9, dtype=torch.float64).tril(-1)
    found = memory.inverse_unit_lower(L.float())
    truth = np.linalg.inv(np.eye(64) + L.numpy())
    assert np.abs(found.numpy() - truth).max() < 1e-5 * np.abs(truth).max()
