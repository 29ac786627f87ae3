"""Memories that train while they read, and the one that solves: beyond the common."""

import itertools
import math
from functools import partial

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason='no torch: pip install "ctlearn[torch]"')

import torch.nn.functional as F  # noqa: E402

from ctlearn import inner  # noqa: E402
from ctlearn.inner import MUON_LACT  # noqa: E402
from ctlearn.layers import (  # noqa: E402
    lact,
    lact_beside_window,
    memory_as_context,
    memory_as_gate,
    mesa_net,
    titans,
)
from ctlearn.layers.beside import State  # noqa: E402
from ctlearn.layers.hybrid import Hybrid  # noqa: E402
from ctlearn.layers.inner import Affine  # noqa: E402
from ctlearn.layers.memory_as_context import MemoryAsContext  # noqa: E402
from ctlearn.layers.memory_as_gate import MemoryAsGate  # noqa: E402
from ctlearn.layers.sliding_window_attention import (  # noqa: E402
    SlidingWindowAttention,
)
from ctlearn.layers.titans import Titans  # noqa: E402
from ctlearn.mixers import lact as lact_by_numpy  # noqa: E402
from ctlearn.mixers import lact_beside_window as beside_by_numpy  # noqa: E402
from ctlearn.mixers import memory_as_context as context_by_numpy  # noqa: E402
from ctlearn.mixers import memory_as_gate as gate_by_numpy  # noqa: E402
from ctlearn.mixers import memory_as_layer as arranged_by_numpy  # noqa: E402
from ctlearn.mixers import mesa_net as mesa_net_by_numpy  # noqa: E402
from ctlearn.mixers import titans as titans_by_numpy  # noqa: E402

B, H, D_K, D_V = 2, 2, 6, 5


def drawn(T, *shapes, seed=0, dtype=torch.float64):
    """Normal numbers, one array [B, T, H, ...] for each shape."""
    rng = torch.Generator().manual_seed(seed)
    return [
        torch.randn(B, T, H, *shape, generator=rng, dtype=torch.float64).to(dtype)
        for shape in shapes
    ]


def heads():
    return itertools.product(range(B), range(H))


def of(x, b, h):
    """What one sequence and head has of an array by token."""
    return x[b, :, h].detach().numpy()


def of_head(x, b, h):
    """What one sequence and head has of an array of the state."""
    return x[b, h].detach().numpy()


def mesa_inputs(T, seed=0):
    q, k, v, decay, rate = drawn(T, (D_K,), (D_K,), (D_V,), (), (), seed=seed)
    rng = torch.Generator().manual_seed(seed)
    return {
        **{"q": q, "k": F.normalize(k, dim=-1), "v": v},
        **{"log_decay": F.logsigmoid(decay + 2), "beta": rate.sigmoid()},
        "ridges": torch.rand(H, D_K, generator=rng, dtype=torch.float64) + 0.1,
    }


@pytest.mark.parametrize(("steps", "chunk_size"), [(None, 8), (3, 64), (9, 1)])
def test_mesa_is_the_definition_with_a_state(steps, chunk_size):
    x, T = mesa_inputs(37), 20
    first, rest = (
        {n: a if n == "ridges" else a[:, p] for n, a in x.items()}
        for p in (slice(T), slice(T, None))
    )
    more = {"steps": steps, "chunk_size": chunk_size}
    o_first, S = mesa_net.chunkwise(**first, **more)
    o_rest, S = mesa_net.chunkwise(**rest, **more, S=S)
    o = torch.cat([o_first, o_rest], 1)
    for b, h in heads():
        head = {n: a[h].numpy() if n == "ridges" else of(a, b, h) for n, a in x.items()}
        expected, S_expected = mesa_net_by_numpy.recurrent(**head, steps=steps)
        np.testing.assert_allclose(of(o, b, h), expected, rtol=0, atol=1e-11)
        for found, wanted in zip(S, S_expected, strict=True):
            np.testing.assert_allclose(found[b, h], wanted, rtol=0, atol=1e-13)


@pytest.mark.parametrize("steps", [None, 8])
def test_a_solution_has_the_gradients_of_differences(steps):
    """By the implicit formula, all inputs and both sums; H stays symmetric."""
    x = {n: a if n == "ridges" else a[:1, :, :1] for n, a in mesa_inputs(5).items()}
    x["ridges"] = x["ridges"][:1]
    names, values = list(x), [a.clone().requires_grad_() for a in x.values()]
    root, S = (
        torch.randn(1, 1, D_K, d, dtype=torch.float64).requires_grad_()
        for d in (D_K, D_V)
    )

    def outputs(root, S, *values):
        state = mesa_net.State(S, root @ root.mT)
        given = dict(zip(names, values, strict=True))
        o, S = mesa_net.chunkwise(**given, steps=steps, S=state, chunk_size=3)
        return o, *S

    assert torch.autograd.gradcheck(outputs, [root, S, *values], fast_mode=True)


def test_the_way_back_of_a_solution_is_that_of_an_exact_one():
    """In float32, with gates that forget nearly all and nearly nothing."""
    found = []
    for steps, dtype in ((None, torch.float64), (30, torch.float32)):
        x = {n: a.to(dtype).requires_grad_() for n, a in mesa_inputs(70).items()}
        with torch.no_grad():
            x["log_decay"][:, ::9] *= 30
        o, S = mesa_net.chunkwise(**x, steps=steps)
        loss = o.square().sum() + S.S.sum() + S.H.square().sum()
        found.append([o, *torch.autograd.grad(loss, list(x.values()))])
    for exact, iterated in zip(*found, strict=True):
        error = (iterated - exact).norm() / exact.norm()
        assert error < 2e-5


def test_a_solution_is_differentiated_once_and_says_so():
    x = {n: a.requires_grad_() for n, a in mesa_inputs(5).items()}
    o, _ = mesa_net.chunkwise(**x, steps=6)
    (dq,) = torch.autograd.grad(o.square().sum(), x["q"], create_graph=True)
    with pytest.raises(RuntimeError, match="differentiate twice"):
        dq.sum().backward()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_solved_in_float32(dtype):
    """Case 29: 30 steps, values of 30, and a query of zeros."""
    x = {n: a.to(dtype) for n, a in mesa_inputs(70).items()}
    x["v"], x["q"][:, 3] = 30 * x["v"], 0
    x = {n: a.requires_grad_() for n, a in x.items()}
    wide = {n: a.detach().double().requires_grad_() for n, a in x.items()}
    found = []
    for given in (x, wide):
        o, _ = mesa_net.chunkwise(**given, steps=30)
        found.append([o, *torch.autograd.grad(o.float().sum(), list(given.values()))])
    for half, exact in zip(*found, strict=True):
        assert half.dtype == dtype
        assert (half - exact).norm() < 2 * torch.finfo(dtype).eps * exact.norm()
    assert not found[0][0][:, 3].any()


def test_minus_infinity_starts_anew():
    """Case 4 and case 16: as one call for each document, gradients finite."""
    x = mesa_inputs(20)
    for t in (0, 1, 7, 12):
        x["log_decay"][:, t] = -torch.inf
    x = {n: a.requires_grad_() for n, a in x.items()}
    o, _ = mesa_net.chunkwise(**x, steps=8, chunk_size=8)
    alone = [
        mesa_net.chunkwise(
            **{n: a if n == "ridges" else a[:, p] for n, a in x.items()}, steps=8
        )[0]
        for p in (slice(0, 1), slice(1, 7), slice(7, 12), slice(12, 20))
    ]
    torch.testing.assert_close(o, torch.cat(alone, 1), rtol=1e-12, atol=1e-12)
    grads = torch.autograd.grad(o.square().sum(), list(x.values()))
    assert all(g.isfinite().all() for g in grads)
    assert not grads[3][:, [0, 1, 7, 12]].any()


def test_what_mesa_cannot_be_given_is_named():
    x = mesa_inputs(4)
    for name, wrong, said in (
        ("ridges", -x["ridges"], "ridges: expected numbers above 0"),
        ("ridges", x["ridges"][:1], "ridges: H is 1"),
        ("log_decay", x["k"] - 9, r"log_decay: expected \[B, T, H\]"),
        ("log_decay", -x["log_decay"], "log_decay: expected values in"),
        ("steps", 0, "steps: expected at least 1"),
    ):
        with pytest.raises(ValueError, match=f"^{said}"):
            mesa_net.chunkwise(**x | {name: wrong})


def titans_inputs(T, seed=0, dtype=torch.float64):
    q, k, v, *gates = drawn(T, (D_K,), (D_K,), (D_V,), (), (), (), seed=seed)
    decay, mu, beta = gates
    x = {
        **{"q": q, "k": F.normalize(k, dim=-1), "v": v},
        **{"log_decay": F.logsigmoid(decay + 3), "log_mu": F.logsigmoid(mu)},
        "beta": 0.1 * beta.sigmoid(),
    }
    return {n: a.to(dtype) for n, a in x.items()}


def layers(*sizes, seed=5):
    """Random layers of these sizes, with biases if they are more than one."""
    rng = torch.Generator().manual_seed(seed)

    def draw(*shape):
        return torch.randn(B, H, *shape, generator=rng, dtype=torch.float64) / 3

    return tuple(
        Affine(draw(m, n), draw(n) if len(sizes) > 2 else None)
        for m, n in itertools.pairwise(sizes)
    )


def learner(f, b, h):
    """Those of one sequence and head in NumPy."""
    weights = [of_head(w, b, h) for layer in f for w in layer if w is not None]
    return (inner.Linear if len(weights) == 1 else inner.Perceptron)(*weights)


def part(x, tokens):
    return {n: a[:, tokens] if isinstance(a, torch.Tensor) else a for n, a in x.items()}


MEMORIES = ((D_K, D_V), (D_K, 7, D_V))


@pytest.mark.parametrize("sizes", MEMORIES)
@pytest.mark.parametrize("b", [1, 5, 64])
def test_titans_are_the_definition_with_a_state(sizes, b):
    """Any memory with any momentum, in two calls of which one ends in a mini-batch.

    Case 15: of 64, the mini-batch is longer than the sequence, and is learned from.
    """
    x = titans_inputs(38)
    none = (x["k"][:, :0], x["v"][:, :0])
    S = titans.Momentum.start(layers(*sizes), *none)._replace(P=layers(*sizes, seed=6))
    o_first, after = titans.chunkwise(**part(x, slice(17)), S=S, inner_batch=b)
    o_rest, after = titans.chunkwise(**part(x, slice(17, 38)), S=after, inner_batch=b)
    o = torch.cat([o_first, o_rest], 1)
    assert after.tokens.k.shape[1] == 38 % b
    for i, h in heads():
        M, P = learner(S.M, i, h), learner(S.P, i, h)
        start = inner.Momentum.start(M)._replace(P=P)
        head = {n: of(a, i, h) for n, a in x.items()}
        expected, S_expected = titans_by_numpy.recurrent(**head, S=start, inner_batch=b)
        np.testing.assert_allclose(of(o, i, h), expected, rtol=0, atol=1e-11)
        for w, wanted in zip(learner(after.M, i, h), S_expected.at, strict=True):
            np.testing.assert_allclose(w, wanted, rtol=0, atol=1e-12)
        if 38 % b == 0:
            for w, wanted in zip(learner(after.P, i, h), S_expected.P, strict=True):
                np.testing.assert_allclose(w, wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("sizes", MEMORIES)
def test_titans_have_the_gradients_of_differences(sizes):
    """All inputs, memory and momentum, from the midst of a mini-batch on."""
    x = {n: a[:1, :, :1] for n, a in titans_inputs(7).items()}
    S = titans.Momentum.start(layers(*sizes), x["k"], x["v"])
    S = S._replace(P=layers(*sizes, seed=6))
    weights = [w[:1, :1] for layer in (*S.M, *S.P) for w in layer if w is not None]
    names, n = list(x), len(x)

    def rebuilt(f, given):
        return tuple(
            Affine(*(None if w is None else next(given) for w in layer)) for layer in f
        )

    def outputs(*values):
        given, rest = dict(zip(names, values, strict=False)), iter(values[n:])
        last = S._replace(M=rebuilt(S.M, rest), P=rebuilt(S.P, rest))
        _, last = titans.chunkwise(**part(given, slice(2)), S=last, inner_batch=3)
        o, last = titans.chunkwise(**part(given, slice(2, 7)), S=last, inner_batch=3)
        return o, *(w for f in (*last.M, *last.P) for w in f if w is not None)

    values = [a.detach().clone().requires_grad_() for a in (*x.values(), *weights)]
    assert torch.autograd.gradcheck(outputs, values, fast_mode=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_titans_round_once(dtype):
    """Narrow numbers are computed in float32; the exact answer, rounded."""
    x = titans_inputs(70, dtype=dtype)
    o, S = titans.chunkwise(**x, inner_batch=8)
    expected, _ = titans.chunkwise(
        **{n: a.double() for n, a in x.items()}, inner_batch=8
    )
    assert o.dtype == dtype
    assert S.M[0].W.dtype == torch.float32
    assert (o - expected).norm() < 2 * torch.finfo(dtype).eps * expected.norm()


def test_titans_forget_by_minus_infinity_with_finite_gradients():
    """Case 4, for a memory that reads first: nothing is left but what k_t read."""
    x = titans_inputs(12)
    for name in ("log_decay", "log_mu"):
        x[name][:, 5] = -torch.inf
    x["beta"][:, 5] = 0
    x = {n: a.requires_grad_() for n, a in x.items()}
    o, _ = titans.chunkwise(**x, inner_batch=3)
    alone, _ = titans.chunkwise(**part(x, slice(6, None)), inner_batch=3)
    torch.testing.assert_close(o[:, 6:], alone, rtol=1e-12, atol=1e-13)
    assert not o[:, 5].any()
    grads = torch.autograd.grad(o.square().sum(), list(x.values()))
    assert all(g.isfinite().all() for g in grads)


def test_what_titans_cannot_be_given_is_named():
    x, S = (
        titans_inputs(4),
        titans.Momentum.start(layers(D_K, D_V), *drawn(1, (D_K,), (D_V,))),
    )
    assert titans.chunkwise(**x, S=S, inner_batch=2)[0].isfinite().all()
    for more, said in (
        ({"log_decay": x["k"] - 9}, r"log_decay: expected \[B, T, H\]"),
        ({"log_mu": -x["log_mu"]}, "log_mu: expected values in"),
        ({"inner_batch": 0}, "inner_batch: expected at least 1"),
        ({"S": S._replace(P=layers(D_K, D_K))}, r"S.P\[0\].W: d_v is 6"),
    ):
        with pytest.raises(ValueError, match=f"^{said}"):
            titans.chunkwise(**{**x, "S": S} | more)
    with pytest.raises(TypeError, match=r"^S: expected a Momentum, got tuple"):
        titans.chunkwise(**x, S=(1, 2))


def lact_inputs(T, seed=0, dtype=torch.float64):
    q, k, v, mu, beta = drawn(T, (D_K,), (D_K,), (D_V,), (), (3,), seed=seed)
    x = {
        **{"q": q, "k": F.normalize(k, dim=-1), "v": v},
        **{"log_mu": F.logsigmoid(mu), "beta": 0.2 * beta.sigmoid()},
    }
    return {n: a.to(dtype) for n, a in x.items()}


def unit_of(sizes, seed=5):
    d_k, d_h, d_v = sizes
    pairs = zip("012", ((d_k, d_h), (d_h, d_v), (d_k, d_h)), strict=True)
    return lact.GatedUnit(*(layers(*d, seed=seed + int(i))[0].W for i, d in pairs))


@pytest.mark.parametrize(("b", "muon"), [(32, MUON_LACT), (5, ()), (64, ())])
@pytest.mark.parametrize("keep_lengths", [True, False])
def test_lact_is_the_definition_with_a_state(b, muon, keep_lengths):
    """In two calls, of which one ends in a mini-batch."""
    x, f = lact_inputs(70), unit_of((D_K, 7, D_V))
    S = lact.State.start(f, x["k"], x["v"], keep_lengths=keep_lengths)
    more = {"inner_batch": b, "muon": muon}
    o_first, after = lact.chunkwise(**part(x, slice(37)), **more, S=S)
    o_rest, after = lact.chunkwise(**part(x, slice(37, 70)), **more, S=after)
    o = torch.cat([o_first, o_rest], 1)
    assert after.tokens.k.shape[1] == 70 % b
    for i, h in heads():
        start = lact_by_numpy.State.start(
            inner.GatedUnit(*(of_head(w, i, h) for w in f)), keep_lengths=keep_lengths
        )
        head = {n: of(a, i, h) for n, a in x.items()}
        expected, S_expected = lact_by_numpy.recurrent(**head, **more, S=start)
        np.testing.assert_allclose(of(o, i, h), expected, rtol=0, atol=1e-10)
        for name in ("f", "before"):
            found = getattr(after, name)
            for w, wanted in zip(found, getattr(S_expected, name), strict=True):
                np.testing.assert_allclose(of_head(w, i, h), wanted, rtol=0, atol=1e-10)


@pytest.mark.parametrize("muon", [MUON_LACT[:2], ()])
def test_lact_has_the_gradients_of_differences(muon):
    """All inputs and the network, from the midst of a mini-batch on."""
    x = {n: a[:1, :, :1] for n, a in lact_inputs(11).items()}
    f, names = [w[:1, :1] for w in unit_of((D_K, 4, D_V))], list(x)
    more = {"inner_batch": 4, "muon": muon}

    def outputs(*values):
        given = dict(zip(names, values, strict=False))
        S = lact.State.start(lact.GatedUnit(*values[-3:]), given["k"], given["v"])
        _, S = lact.chunkwise(**part(given, slice(3)), **more, S=S)
        o, S = lact.chunkwise(**part(given, slice(3, 11)), **more, S=S)
        return o, *S.f, *S.before

    values = [a.detach().clone().requires_grad_() for a in (*x.values(), *f)]
    assert torch.autograd.gradcheck(outputs, values, fast_mode=True)


def test_a_step_of_nothing_has_finite_gradients():
    """Values of zero give no direction: Muon divides by no length."""
    x = {n: a.requires_grad_() for n, a in lact_inputs(8).items()}
    with torch.no_grad():
        x["v"].zero_()
    S = lact.State.start(unit_of((D_K, 7, D_V)), x["k"], x["v"])
    o, _ = lact.chunkwise(**x, S=S, inner_batch=4)
    grads = torch.autograd.grad(o.square().sum(), list(x.values()))
    assert all(g.isfinite().all() for g in grads)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_lact_rounds_once(dtype):
    """Narrow numbers are computed in float32; the exact answer, rounded."""
    x = lact_inputs(70, dtype=dtype)
    found = []
    for given in (x, {n: a.double() for n, a in x.items()}):
        S = lact.State.start(unit_of((D_K, 7, D_V)), given["k"], given["v"])
        found.append(lact.chunkwise(**given, S=S, inner_batch=32)[0])
    assert found[0].dtype == dtype
    # in float32, of five steps of Newton and Schulz
    allowed = {torch.float32: 2e-5, torch.bfloat16: 2 * torch.finfo(dtype).eps}
    assert (found[0] - found[1]).norm() < allowed[dtype] * found[1].norm()


def test_what_lact_cannot_be_given_is_named():
    x, f = lact_inputs(4), unit_of((D_K, 7, D_V))
    S = lact.State.start(f, x["k"], x["v"])
    for more, said in (
        ({"beta": x["beta"][..., :2]}, r"beta: expected \[B, T, H, 3\]"),
        ({"inner_batch": 0}, "inner_batch: expected at least 1"),
        ({"S": S._replace(before=unit_of((D_K, 6, D_V)))}, r"S.before.W_0: d_h is 6"),
    ):
        with pytest.raises(ValueError, match=f"^{said}"):
            lact.chunkwise(**{**x, "S": S} | more)
    for more, said in (
        ({"S": f}, r"S: expected a State\(f, before, …\)"),
        ({"beta": x["beta"].half()}, "beta: dtype is torch.float16 but q has"),
    ):
        with pytest.raises(TypeError, match=f"^{said}"):
            lact.chunkwise(**{**x, "S": S} | more)


@pytest.mark.parametrize(("b", "muon"), [(32, MUON_LACT), (5, ())])
def test_lact_beside_a_window_is_the_definition(b, muon):
    """Both given the same tokens, in two calls, zeta of a sign for each channel."""
    x, f = lact_inputs(70), unit_of((D_K, 7, D_V))
    (x["zeta"],) = drawn(70, (D_V,), seed=1)
    S = State(lact.State.start(f, x["k"], x["v"]), None)
    more = {"inner_batch": b, "muon": muon, "window": 7}
    outputs = []
    for tokens in (slice(37), slice(37, 70)):
        o, S = lact_beside_window.chunkwise(**part(x, tokens), **more, S=S)
        outputs.append(o)
    for i, h in heads():
        network = inner.GatedUnit(*(of_head(w, i, h) for w in f))
        start = beside_by_numpy.State.start(
            lact_by_numpy.State.start(network), D_K, D_V
        )
        head = {n: of(a, i, h) for n, a in x.items()}
        expected, _ = beside_by_numpy.recurrent(**head, **more, S=start)
        o = of(torch.cat(outputs, 1), i, h)
        np.testing.assert_allclose(o, expected, rtol=0, atol=1e-10)


def arranged_inputs(T, *names):
    """Titans' inputs, and those of an arrangement, by head."""
    rng = torch.Generator().manual_seed(3)
    shapes = {
        **{"K_p": (3, D_K), "V_p": (3, D_V), "gains": (2, D_V)},
        **{"W_Q": (D_V, D_K), "W_K": (D_V, D_K), "W_V": (D_V, D_V)},
    }
    return titans_inputs(T), {
        name: torch.randn(H, *shapes[name], generator=rng, dtype=torch.float64)
        for name in names
    }


@pytest.mark.parametrize("sizes", MEMORIES)
@pytest.mark.parametrize("b", [1, 5])
def test_memory_as_gate_is_the_definition(sizes, b):
    """Both given the same tokens, in two calls; the window is shorter than either."""
    x, fixed = arranged_inputs(38, "K_p", "V_p", "gains")
    M, more = layers(*sizes), {"window": 7, "inner_batch": b}
    S, outputs = State(titans.Momentum.start(M, x["k"], x["v"]), None), []
    for tokens in (slice(17), slice(17, 38)):
        o, S = memory_as_gate.chunkwise(**part(x, tokens), **fixed, **more, S=S)
        outputs.append(o)
    for i, h in heads():
        memory = inner.Momentum.start(learner(M, i, h))
        head = {n: of(a, i, h) for n, a in x.items()}
        head |= {n: a[h].numpy() for n, a in fixed.items()}
        start = arranged_by_numpy.State.start(memory, D_K, D_V)
        expected, _ = gate_by_numpy.recurrent(**head, **more, S=start)
        o = of(torch.cat(outputs, 1), i, h)
        np.testing.assert_allclose(o, expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("sizes", MEMORIES)
@pytest.mark.parametrize("b", [1, 5, 64])
def test_memory_as_context_is_the_definition(sizes, b):
    """In two calls, of which one ends in a segment."""
    names = ("W_Q", "W_K", "W_V", "K_p", "V_p")
    x, fixed = arranged_inputs(23, *names)
    fixed |= {name: 0.3 * fixed[name] for name in names[:3]}
    M, outputs = layers(*sizes), []
    S = State(titans.Momentum.start(M, x["k"], x["v"]), None)
    for tokens in (slice(12), slice(12, 23)):
        given = part(x, tokens) | fixed
        o, S = memory_as_context.chunkwise(**given, inner_batch=b, S=S)
        outputs.append(o)
    assert S.cache.K.shape[1] == 2 * (23 % b)
    for i, h in heads():
        memory = inner.Momentum.start(learner(M, i, h))
        head = {n: of(a, i, h) for n, a in x.items()}
        head |= {n: a[h].numpy() for n, a in fixed.items()}
        start = arranged_by_numpy.State.start(memory, D_K, D_V)
        expected, _ = context_by_numpy.recurrent(**head, inner_batch=b, S=start)
        o = of(torch.cat(outputs, 1), i, h)
        np.testing.assert_allclose(o, expected, rtol=0, atol=1e-10)


@pytest.fixture
def deep(make):
    """Layers of Titans whose memory is a perceptron, in float64."""

    def build(kind, **more):
        torch.manual_seed(0)
        sizes = {"n_heads": 1, "n_value_heads": 2, "d_k": 4, "d_v": 3, "d_hidden": 5}
        return make(kind, 8, **sizes | more).double()

    return build


@pytest.mark.parametrize("deepened", [Titans, MemoryAsGate, MemoryAsContext])
def test_a_layer_may_have_a_deep_memory(deep, deepened):
    """Case 20: in pieces as in one pass, and every weight counts."""
    layer, x = deep(deepened), torch.randn(2, 11, 8, dtype=torch.float64)
    y, last = layer(x)
    y.square().sum().backward()
    assert all(p.grad.abs().sum() > 0 for p in layer.parameters())
    pieces, state = [], None
    with torch.no_grad():
        for piece in x.split([1, 1, 5, 4], 1):
            y_piece, state = layer(piece, state)
            pieces.append(y_piece)
    torch.testing.assert_close(torch.cat(pieces, 1), y, rtol=1e-10, atol=1e-12)
    found, wanted = (s.S if deepened is Titans else s.S.memory for s in (state, last))
    for f, g in zip((*found.M, *found.P), (*wanted.M, *wanted.P), strict=True):
        torch.testing.assert_close(tuple(f), tuple(g), rtol=1e-10, atol=1e-12)


def test_memory_as_layer_is_a_pattern():
    """A stack of Titans' memory and a window: in pieces, and beyond the window."""
    torch.manual_seed(0)
    sizes = {"n_heads": 1, "d_k": 4, "d_v": 4}
    memory = partial(Titans, inner_batch=3, **sizes)
    window = partial(SlidingWindowAttention, window=2, **sizes)
    stack = Hybrid(8, n_layers=2, pattern=[memory, window]).double()
    x = torch.randn(1, 11, 8, dtype=torch.float64)
    with torch.no_grad():
        y, _ = stack(x)
        pieces, state = [], None
        for piece in x.split([4, 1, 6], 1):
            y_piece, state = stack(piece, state)
            pieces.append(y_piece)
        torch.testing.assert_close(torch.cat(pieces, 1), y)
        # what a window of two cannot see, the memory brings
        x[:, 0] += 1
        assert not torch.allclose(stack(x)[0][:, -1], y[:, -1], rtol=1e-6)


def given_at_zero(layer):
    """What a layer of 64 channels gives its memory for tokens of zeros."""
    none = torch.zeros(1, 3, 64)
    return layer.inputs(none, *(torch.zeros(1, 3, 2, 16) for _ in "qkv"))


STARTED = {"d_model": 64, "n_heads": 2, "d_k": 16, "d_v": 16}


def test_ridges_start_at_one():
    ridges = given_at_zero(mesa_net.MesaNet(**STARTED))["ridges"]
    torch.testing.assert_close(ridges, torch.ones(2, 16))


def test_lact_starts_as_its_code_does():
    """Rates near 0.001, by biases up to 1/8; weights of 10,000 and more, 5 sigma."""
    layer = lact.LaCT(**STARTED, d_hidden=400)
    rates = given_at_zero(layer)["beta"]
    assert (rates.log() - math.log(1e-3)).abs().max() < 0.13
    for w, d in zip(layer.W, (16, 400, 16), strict=True):
        deviation = 5 * (2 * w.numel()) ** -0.5
        assert abs(w.std().item() * d**0.5 - 1) < deviation


@pytest.mark.parametrize("d_hidden", [None, 400])
def test_titans_start_slow_to_forget(d_hidden):
    """Alpha near sigmoid(4), by biases alone; a linear memory is empty."""
    layer = titans.Titans(**STARTED, d_hidden=d_hidden, inner_batch=8)
    given = given_at_zero(layer)
    for name, value in (("log_decay", 4.0), ("log_mu", 0.0)):
        wanted = F.logsigmoid(torch.tensor(value)).expand(1, 3, 2)
        torch.testing.assert_close(given[name], wanted)
    torch.testing.assert_close(given["beta"], torch.full((1, 3, 2), 1 / 16))
    for w, d in zip(layer.W, (16, 400), strict=False):
        expected = 0 if d_hidden is None else 1
        allowed = 5 * (2 * w.numel()) ** -0.5 * expected
        assert abs(w.std().item() * d**0.5 - expected) <= allowed
