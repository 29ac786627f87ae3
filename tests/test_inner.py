"""The inner learners' gradients by hand, against SymPy's and torch's."""

import numpy as np
import pytest
import sympy

from ctlearn import inner
from ctlearn.inner import Affine, GatedUnit, Linear, Perceptron
from ctlearn.supplies import Symbols

SIZES = {"d_k": 4, "d_h": 5, "d_v": 3}
KINDS = (Linear, Affine, Perceptron, GatedUnit)


def drawn(kind, rng):
    shapes = inner.SHAPES[kind]
    return kind(*(rng.standard_normal([SIZES[s] for s in shape]) for shape in shapes))


def torch_read(kind, weights, x):
    torch = pytest.importorskip("torch")
    F = torch.nn.functional
    if kind is GatedUnit:
        W_0, W_1, W_2 = weights
        return (F.silu(x @ W_0) * (x @ W_2)) @ W_1
    if kind is Perceptron:
        W_1, b_1, W_2, b_2 = weights
        return F.gelu(x @ W_1 + b_1, approximate="tanh") @ W_2 + b_2
    return x @ weights[0] + (weights[1] if kind is Affine else 0)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_gradients_are_those_of_torch(kind):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    f, x = drawn(kind, rng), rng.standard_normal((6, 4))
    g = rng.standard_normal((6, 3))
    weights = [torch.tensor(w, requires_grad=True) for w in f]
    y = torch_read(kind, weights, torch.tensor(x))
    (y * torch.tensor(g)).sum().backward()
    assert np.allclose(f.read(x), y.detach().numpy(), atol=1e-14)
    for ours, theirs in zip(f.gradient(x, g), weights, strict=True):
        assert np.allclose(ours, theirs.grad.numpy(), rtol=0, atol=1e-13)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_gradients_are_exact_whatever_the_activation(kind, monkeypatch):
    """On free symbols, with a cube in the place of gelu and silu."""
    for name in ("gelu", "silu"):
        monkeypatch.setattr(inner, name, lambda x: x * x * x)
        monkeypatch.setattr(inner, f"{name}_slope", lambda x: 3 * x * x)
    supply = Symbols()
    f = inner.shaped(kind, supply.real, d_k=2, d_h=2, d_v=2)
    x, g = supply.real("x", 2, 2), supply.real("g", 2, 2)
    loss = sympy.expand((f.read(x) * g).sum())
    for weights, ours in zip(f, f.gradient(x, g), strict=True):
        for weight, slope in zip(weights.flat, ours.flat, strict=True):
            assert sympy.expand(loss.diff(weight) - slope) == 0


@pytest.mark.parametrize("kind", [Linear, Affine, Perceptron])
def test_each_reader_reads_its_own_weights(kind):
    rng = np.random.default_rng(1)
    f, past = drawn(kind, rng), drawn(kind, rng)
    x, q, c = rng.standard_normal((6, 4)), rng.standard_normal((6, 4)), rng.random(6)
    g, steps = rng.standard_normal((6, 3)), np.tril(rng.random((6, 6)))
    at_once = f.read_after(q, x, g, steps, [(1, f), (c, past)])
    for i in range(6):
        taken = f.gradient(x, steps[i][:, None] * g)
        own = inner.each(lambda w, p, t, i=i: w + c[i] * p - t, f, past, taken)
        assert np.allclose(at_once[i], own.read(q[i]), rtol=0, atol=1e-13)


@pytest.mark.parametrize("kind", [Linear, Affine, Perceptron])
def test_several_sums_of_gradients_at_once(kind):
    """A learner for each row of steps, as it is when asked for alone."""
    rng = np.random.default_rng(5)
    f, past = drawn(kind, rng), drawn(kind, rng)
    x, g = rng.standard_normal((6, 4)), rng.standard_normal((6, 3))
    c, steps = rng.random(2), rng.random((2, 6))
    many = inner.after(f, x, g, steps, [(c, past), (1 - c, f)])
    for i in range(2):
        one = inner.after(f, x, g, steps[i], [(c[i], past), (1 - c[i], f)])
        for weights, own in zip(many, one, strict=True):
            assert np.allclose(weights[i], own, rtol=0, atol=1e-14)
        taken = f.gradient(x, steps[i][:, None] * g)
        wanted = (1 - c[i]) * f[0] + c[i] * past[0] - taken[0]
        assert np.allclose(one[0], wanted, rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", ["gelu", "silu"])
def test_slopes_are_those_of_sympy(name):
    x = sympy.Symbol("x", real=True)
    inside = sympy.sqrt(2 / sympy.pi) * (x + sympy.Rational(44715, 10**6) * x**3)
    formula = {
        "gelu": x * (1 + sympy.tanh(inside)) / 2,
        "silu": x / (1 + sympy.exp(-x)),
    }[name]
    at = np.linspace(-6, 6, 25)
    for order, ours in enumerate(
        (getattr(inner, name), getattr(inner, f"{name}_slope"))
    ):
        exact = formula.diff(x, order)
        wanted = [float(exact.evalf(30, subs={x: sympy.Float(a, 30)})) for a in at]
        assert np.allclose(ours(at), wanted, rtol=0, atol=1e-14)


def test_activations_stay_finite_far_out():
    with np.errstate(all="raise", under="ignore"):
        for f in (inner.gelu, inner.silu):
            assert np.allclose(f(np.array([-1e30, 1e30])), [0, 1e30])
        for f in (inner.gelu_slope, inner.silu_slope):
            assert np.allclose(f(np.array([-1e30, 1e30])), [0, 1])


def test_the_slope_through_a_layer_norm_is_that_of_sympy():
    """On free symbols, compared at random rationals to 30 digits."""
    d, supply, rng = 3, Symbols(), np.random.default_rng(2)
    names = ("z", "y", "a", "c")
    z, y, gain, shift = (supply.real(name, d) for name in names)
    norm = np.array([gain, shift])
    gap = inner.layer_norm(z, norm) - y
    loss = (gap @ gap) / 2
    values = {
        s: sympy.Rational(int(rng.integers(-9, 10)), int(rng.integers(1, 6)))
        for array in (z, y, gain, shift)
        for s in array
    }
    for i, ours in enumerate(inner.layer_norm_slope(z, y, norm)):
        difference = (sympy.diff(loss, z[i]) - ours).subs(values)
        assert abs(sympy.N(difference, 30)) < 1e-25


def test_the_slope_through_a_layer_norm_is_that_of_torch():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(3)
    z, y, k = (rng.standard_normal((5, 4)) for _ in range(3))
    norm = rng.standard_normal((2, 4))
    gain, shift = map(torch.tensor, norm)
    at = torch.tensor(z, requires_grad=True)
    read = torch.nn.functional.layer_norm(at, (4,), gain, shift, eps=1e-6)
    read = torch.tensor(k) + read
    (((read - torch.tensor(y)) ** 2).sum() / 2).backward()
    assert np.allclose(inner.answer(z, k, norm), read.detach().numpy(), atol=1e-14)
    assert np.allclose(inner.slope(z, k, y, norm), at.grad.numpy(), atol=1e-13)


@pytest.mark.parametrize("shape", [(6, 3), (3, 6), (4, 4)])
def test_newton_and_schulz_keep_the_singular_vectors(shape):
    G = np.random.default_rng(4).standard_normal(shape)
    U, s, W = np.linalg.svd(G, full_matrices=False)
    s = s / (np.linalg.norm(G) + 1e-7)
    for a, b, c in inner.MUON:
        s = a * s + b * s**3 + c * s**5
    assert np.allclose(inner.newton_schulz(G), (U * s) @ W, rtol=0, atol=1e-12)
    several = inner.newton_schulz(np.stack([2 * G, -G]))
    assert np.allclose(several[1], -(U * s) @ W, rtol=0, atol=1e-12)


@pytest.mark.parametrize("coefficients", [inner.MUON, inner.MUON_LACT])
def test_newton_and_schulz_leave_small_directions_small(coefficients):
    """Each step multiplies a small singular value by at most a."""
    X = inner.newton_schulz(np.diag([1.0, 1e-5]), coefficients)
    growth = np.prod([a for a, _, _ in coefficients])
    assert np.isclose(X[1, 1], 1e-5 * growth, rtol=1e-2)
    assert X[1, 1] < 0.006


@pytest.mark.parametrize("coefficients", [inner.MUON, inner.MUON_LACT])
def test_one_tokens_step_has_its_length_changed_and_nothing_else(coefficients):
    """So Muon leaves linear attention only where several tokens share a step."""
    rng = np.random.default_rng(0)
    phi, g = rng.standard_normal(6), rng.standard_normal(4)
    X = inner.newton_schulz(np.outer(phi, g), coefficients)
    length = np.linalg.norm(X)
    assert 0.6 < length < 1.2
    alone = np.outer(phi, g) / np.linalg.norm(phi) / np.linalg.norm(g)
    assert np.allclose(X, length * alone, rtol=0, atol=1e-13)


def test_a_learner_that_does_not_fit_is_named():
    k, f = np.ones((2, 4)), inner.zeros(Linear, np.ones((2, 4)), np.ones((2, 3)))
    with pytest.raises(ValueError, match=r"^S\.W: d_v is 3 but v has d_v = 2"):
        inner.check_learner("S", f, (Linear,), {"d_k": (4, "k"), "d_v": (2, "v")})
    with pytest.raises(
        TypeError, match=r"^S: expected Affine or Perceptron, got Linear"
    ):
        inner.check_learner("S", f, (Affine, Perceptron), {})
    assert not inner.zeros_like(f).read(k).any()
