"""Memories that train while they read, and the one that solves: beyond the common."""

import itertools

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason='no torch: pip install "ctlearn[torch]"')

import torch.nn.functional as F  # noqa: E402

from ctlearn import mixers  # noqa: E402
from ctlearn.layers import mesa_net  # noqa: E402

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
        expected, S_expected = mixers.mesa_net.recurrent(**head, steps=steps)
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
