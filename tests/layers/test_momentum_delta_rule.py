"""The momentum delta rule in torch: the recurrence in NumPy, and its gradients."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason='no torch: pip install "ctlearn[torch]"')

from ctlearn.layers.momentum_delta_rule import (  # noqa: E402
    MomentumDeltaRule,
    State,
    chunkwise,
)
from ctlearn.mixers import momentum_delta_rule  # noqa: E402


@pytest.fixture
def drawn():
    """Inputs, and a state, in float64."""

    def draw(T, *, heads=(2, 2), d=(4, 3)):
        rng = torch.Generator().manual_seed(T)
        (B, H), (d_k, d_v) = heads, d

        def normal(*shape):
            return torch.randn(*shape, generator=rng).double()

        def gate():
            return torch.rand(B, T, H, generator=rng).double()

        x = {n: normal(B, T, H, d) for n, d in (("q", d_k), ("k", d_k), ("v", d_v))}
        x |= {"p": normal(B, T, H, d_k), "log_decay": -gate(), "log_mu": -gate()}
        x["k"], x["p"] = (torch.nn.functional.normalize(x[n], dim=-1) for n in "kp")
        x |= {"eta": gate(), "beta": gate()}
        return x, State(*(normal(B, H, d_k, d_v) for _ in range(2)))

    return draw


@pytest.mark.parametrize(("T", "chunk_size"), [(1, 32), (33, 16), (70, 32), (40, 64)])
def test_chunks_are_the_recurrence(drawn, T, chunk_size):
    """Cases 4 and 13: with what is forgotten and stopped in their midst."""
    x, S = drawn(T)
    x["log_decay"][:, T // 2] = x["log_mu"][:, T // 3] = -torch.inf
    o, last = chunkwise(**x, S=S, chunk_size=chunk_size)
    for b, h in np.ndindex(2, 2):
        head = {n: a[b, :, h].numpy() for n, a in x.items()}
        start = momentum_delta_rule.State(*(a[b, h].numpy() for a in S))
        expected, state = momentum_delta_rule.recurrent(**head, S=start)
        np.testing.assert_allclose(o[b, :, h], expected, rtol=1e-10, atol=1e-12)
        for found, a in zip(last, state, strict=True):
            np.testing.assert_allclose(found[b, h], a, rtol=1e-10, atol=1e-12)


def test_gradients_are_those_of_differences(drawn):
    """Case 21: through chunks and both matrices."""
    x, S = drawn(5, heads=(1, 1), d=(2, 2))
    inputs = [a.requires_grad_() for a in (*x.values(), *S)]

    def outputs(*arrays):
        given = dict(zip(x, arrays[: len(x)], strict=True))
        o, last = chunkwise(**given, S=State(*arrays[len(x) :]), chunk_size=3)
        return o, *last

    assert torch.autograd.gradcheck(outputs, inputs, fast_mode=True)


def test_gradients_are_finite_where_all_is_forgotten(drawn):
    """Case 4."""
    x, S = drawn(20)
    x["log_decay"][:, 9] = x["log_mu"][:, 9] = -torch.inf
    x = {n: a.requires_grad_() for n, a in x.items()}
    o, _ = chunkwise(**x, S=S, chunk_size=16)
    found = dict(zip(x, torch.autograd.grad(o.sum(), list(x.values())), strict=True))
    assert all(g.isfinite().all() for g in found.values())
    assert not found["log_decay"][:, 9].any()


def test_half_precision_is_computed_in_float32(drawn):
    x, S = drawn(40)
    x, S = {n: a.bfloat16() for n, a in x.items()}, State(*(a.float() for a in S))
    o, last = chunkwise(**x, S=S)
    exact, state = chunkwise(**{n: a.float() for n, a in x.items()}, S=S)
    assert torch.equal(o, exact.bfloat16())
    assert all(map(torch.equal, last, state))


def test_no_tokens_are_no_answers(drawn):
    """Case 23."""
    x, S = drawn(0)
    o, last = chunkwise(**x, S=S)
    assert o.shape == (2, 0, 2, 3)
    assert all(map(torch.equal, last, S))
    assert all(a.data_ptr() != b.data_ptr() for a, b in zip(last, S, strict=True))


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("p", lambda x: x[..., :1]),
        ("log_mu", lambda x: -x),
        ("eta", lambda x: x[:, 1:]),
        ("S.M", lambda x: x[..., :1]),
    ],
)
def test_what_does_not_fit_is_named(drawn, name, wrong):
    x, S = drawn(5)
    if name == "S.M":
        S = S._replace(M=wrong(S.M))
    else:
        x[name] = wrong(x[name])
    with pytest.raises(ValueError, match=rf"^{name}"):
        chunkwise(**x, S=S)


def test_a_layer_starts_within_its_budget():
    """Alpha and beta share one, and the momentum keeps no less than e^-2."""
    torch.manual_seed(0)
    layer = MomentumDeltaRule(16, n_heads=8, d_k=4, d_v=4)
    x, q = 3 * torch.randn(2, 30, 16), torch.randn(2, 30, 8, 4)
    given = layer.inputs(x, q, q, q)
    alpha = given["log_decay"].exp()
    assert (alpha + given["beta"]).max() <= 1
    assert given["log_mu"].min() >= -2
    assert 0 < given["eta"].min() < given["eta"].max() < 2
    torch.testing.assert_close(given["p"], alpha[..., None] * given["k"])
    factor, correction = layer.log_factor.exp(), layer.log_correction.exp()
    assert 0 < factor.min() < factor.max() <= 4
    assert 0 < correction.min() < correction.max() <= 1
