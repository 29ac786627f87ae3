"""Slopes of losses against SymPy's and torch's, and the links of retentions."""

import numpy as np
import pytest
import sympy

from ctlearn import inner, objectives
from ctlearn.inner import Linear, Perceptron
from ctlearn.objectives import Fading, Mirror
from ctlearn.supplies import Rationals

POWERS = (sympy.Rational(3, 2), 2, 3, 4)
HUBERS = ("huber_by_channel", "huber_by_length")


def rationals(*shape, seed=0):
    return Rationals(seed).real("x", *shape)


def derivative(loss, symbols, at):
    """SymPy's derivative of a loss, at exact numbers."""
    values = dict(zip(symbols, at, strict=True))
    return [sympy.diff(loss, x).subs(values).doit() for x in symbols]


@pytest.mark.parametrize("r", POWERS)
def test_the_slope_of_a_power_is_that_of_sympy(r):
    x, at = sympy.symbols("x:3", real=True), rationals(3)
    loss = sum(abs(a) ** r for a in x)
    ours = objectives.power_slope(at, r)
    for a, b in zip(ours, derivative(loss, x, at), strict=True):
        assert sympy.simplify(a - b) == 0


def huber(a, h):
    return sympy.Piecewise((a**2 / 2, a <= h), (h * (a - h / 2), True))


@pytest.mark.parametrize("name", HUBERS)
@pytest.mark.parametrize("h", [sympy.Rational(1, 2), sympy.Integer(100)])
def test_the_slopes_of_huber_are_those_of_sympy(name, h):
    """On both sides of the threshold, exactly."""
    x, at = sympy.symbols("x:3", real=True), rationals(3, seed=1)
    if name == "huber_by_channel":
        loss = sum(huber(abs(a), h) for a in x)
    else:
        loss = huber(sympy.sqrt(sum(a**2 for a in x)), h)
    ours = getattr(objectives, name)(at, h)
    for a, b in zip(ours, derivative(loss, x, at), strict=True):
        assert sympy.simplify(a - b) == 0
    assert all(a == b for a, b in zip(ours, at, strict=True)) == (h == 100)


@pytest.mark.parametrize("name", ["power", *HUBERS])
def test_slopes_are_those_of_torch(name):
    """Some errors at once, each with a threshold of its own."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    e, h = 2 * rng.standard_normal((9, 4)), rng.uniform(0.5, 3, 9)
    x, t = torch.tensor(e, requires_grad=True), torch.tensor(h)[:, None]
    size = x.abs() if name == "huber_by_channel" else x.norm(dim=1, keepdim=True)
    huber = torch.where(size <= t, size**2 / 2, t * (size - t / 2))
    loss = (x.abs() ** 3) if name == "power" else huber
    loss.sum().backward()
    ours = (
        objectives.power_slope(e, 3)
        if name == "power"
        else getattr(objectives, name)(e, h)
    )
    assert np.allclose(ours, x.grad.numpy(), rtol=0, atol=1e-14)


def test_the_switched_form_jumps_where_huber_does_not(record_property):
    """Just beyond the threshold the slope is longer by sqrt(d_v): of no loss the slope.

    And round a closed path across the switch it does work, which a slope does not.
    """
    d, h = 4, 1.0
    e = np.full(d, h / np.sqrt(d))
    inside, outside = ((1 + s) * e for s in (-1e-9, 1e-9))
    for name in HUBERS:
        form = getattr(objectives, name)
        gap = np.linalg.norm(form(outside, h) - form(inside, h))
        assert gap < 1e-8
    length = np.linalg.norm(objectives.huber_switched(outside, h))
    assert np.isclose(length, h * np.sqrt(d))
    assert np.array_equal(objectives.huber_switched(inside, h), inside)
    record_property("Yaad's slope across its threshold, d_v = 4", f"{length:.1f} h")

    angle = np.linspace(0, np.pi / 2, 20001)
    arc = np.stack([np.cos(angle), np.sin(angle)], axis=1)

    def work(form, path):
        middle = (path[1:] + path[:-1]) / 2
        return (form(middle, h) * np.diff(path, axis=0)).sum()

    # out at angle 0, along the arc of radius 2, back at a third of a right angle
    third = arc[: len(arc) // 3]
    radii = np.linspace(0, 2, 20001)[:, None]
    loop = [radii * third[0], 2 * third, radii[::-1] * third[-1]]
    total = {
        name: sum(work(getattr(objectives, name), path) for path in loop)
        for name in ("huber_switched", *HUBERS)
    }
    assert all(abs(total[name]) < 1e-3 for name in HUBERS)
    assert abs(total["huber_switched"]) > 0.2


def test_the_smooth_form_is_near_the_exact_one_and_flatter_at_zero(record_property):
    e = np.linspace(-2, 2, 4001)
    exact, smooth = (
        f(e, 3) for f in (objectives.power_slope, objectives.smooth_power_slope)
    )
    gap = np.abs(exact - smooth).max()
    assert 0.005 < gap < 0.01
    record_property("smooth slope of |e|^3 against the exact one", f"{gap:.4f}")
    # it is the exact slope times tanh(10 |e|), up to the millionth
    factor = np.tanh(10 * np.abs(e))
    assert np.allclose(smooth, factor * exact, rtol=0, atol=4e-6)


def test_without_corners_it_is_twice_the_error():
    e = rationals(5)
    assert list(objectives.power_slope(e, 2)) == list(2 * e)
    sharp = objectives.huber_switched(e, sympy.oo)
    assert list(sharp) == list(e)
    assert list(objectives.power_slope(np.array([-2.0, 0.0, 3.0]), 1)) == [-1, 0, 1]


@pytest.mark.parametrize("s", [4, 3, 2, 4 / 3])
def test_the_dual_link_inverts_the_slope_of_half_a_squared_norm(s, record_property):
    """1/r + 1/s = 1: torch's slope of ||W||_r^2 / 2 goes back to W; not by the print.

    Where s = 4/3, r is 4: the weights' own norm is L_4. For s = 4 it is L_(4/3).
    """
    torch = pytest.importorskip("torch")
    r = s / (s - 1)
    W = np.random.default_rng(2).standard_normal((5, 3))
    at = torch.tensor(W, requires_grad=True)
    ((at.abs() ** r).sum() ** (2 / r) / 2).backward()
    A = at.grad.numpy()
    assert np.allclose(objectives.dual_link(W, r), A, rtol=0, atol=1e-14)
    assert np.allclose(objectives.dual_link(A, s), W, rtol=0, atol=1e-14)
    gap = np.abs(objectives.printed_link(A, s) - W).max()
    if s == 2:
        assert gap == 0
    else:
        assert gap > 0.3
        record_property(f"printed link against the true one, s = {s:.2f}", f"{gap:.2f}")


@pytest.mark.parametrize("s", [3, 4])
def test_the_dual_link_is_the_slope_that_sympy_finds(s):
    x, at = sympy.symbols("x:3", real=True), rationals(3, seed=2)
    half = sum(abs(a) ** s for a in x) ** sympy.Rational(2, s) / 2
    ours = objectives.dual_link(at, s)
    for a, b in zip(ours, derivative(half, x, at), strict=True):
        assert sympy.simplify(a - b) == 0


def test_the_dual_link_is_what_the_retention_asks_for():
    """W = link(A) makes ||W||_r^2 / 2 - <A, W> least: every step away costs."""
    rng = np.random.default_rng(3)
    A, s = rng.standard_normal((4, 3)), 4

    def cost(W):
        return (np.abs(W) ** (4 / 3)).sum() ** (3 / 2) / 2 - (A * W).sum()

    W = objectives.dual_link(A, s)
    for size in (1e-3, 1e-2, 0.1, 1):
        for _ in range(20):
            step = size * rng.standard_normal(W.shape)
            assert cost(W + step) > cost(W)
    assert cost(objectives.printed_link(A, s)) > cost(W) + 0.5


def test_the_printed_link_turns_scale_upside_down():
    A = np.random.default_rng(4).standard_normal((4, 3))
    dual, printed = objectives.dual_link, objectives.printed_link
    assert np.allclose(dual(2 * A, 4), 2 * dual(A, 4), atol=1e-14)
    assert np.allclose(printed(2 * A, 4), printed(A, 4) / 2, atol=1e-14)
    assert np.abs(printed(1e-3 * A, 4)).max() > 100
    assert np.allclose(dual(1e-100 * A, 4) * 1e100, dual(A, 4), rtol=1e-14)
    assert not dual(0 * A, 4).any()
    with np.errstate(invalid="ignore"):
        assert np.isnan(printed(0 * A, 4)).all()


@pytest.mark.parametrize("s", [2, 3, 4])
def test_the_printed_link_is_the_slope_of_nothing_unless_s_is_two(s):
    """SymPy's matrix of second derivatives is symmetric for the true link alone."""
    A = np.array(sympy.symbols("a:3", positive=True), dtype=object)
    at = dict(zip(A, rationals(3, seed=3) ** 2, strict=True))
    for link, symmetric in (
        (objectives.dual_link, True),
        (objectives.printed_link, s == 2),
    ):
        J = sympy.Matrix(list(link(A, s))).jacobian(list(A)).subs(at)
        assert (sympy.simplify(J - J.T) == sympy.zeros(3, 3)) == symmetric


def test_at_two_no_root_is_taken_and_the_link_is_none():
    A = rationals(2, 3)
    for link in (objectives.dual_link, objectives.printed_link):
        assert (link(A, 2) == A).all()
        assert link(A, 2) is not A


def test_a_simplex_has_positive_weights_of_the_given_sum():
    A = 30 * np.random.default_rng(5).standard_normal((4, 3))
    W = objectives.simplex(A, 2.5)
    assert (W > 0).all()
    assert np.isclose(W.sum(), 2.5, rtol=0, atol=1e-14)
    assert np.allclose(objectives.simplex(A + 7, 2.5), W, rtol=0, atol=1e-14)
    assert np.allclose(objectives.simplex(0 * A, 6.0), 0.5)


def test_a_state_that_does_not_fit_is_named():
    k, v = np.ones((2, 4)), np.ones((2, 3))
    kinds = (Linear, Perceptron)
    f = inner.zeros(Linear, k, v)
    with pytest.raises(TypeError, match=r"^S: expected a Fading\(M, at, seen\), got"):
        Mirror.begin(k, v, Mirror(f, f), kinds, np.copy)
    with pytest.raises(TypeError, match=r"^S: expected a Mirror\(A, f\), got Fading"):
        Mirror.begin(k, v, Fading.start(f), kinds, np.copy)
    with pytest.raises(ValueError, match=r"^S\.W: d_v is 3 but v has d_v = 2"):
        Mirror.begin(k, v[:, :2], Mirror.start(f, np.copy), kinds, np.copy)
    wrong = Mirror(f, Fading.start(inner.Affine(f.W, v[0])))
    with pytest.raises(TypeError, match=r"^S: expected Linear or Perceptron, got Aff"):
        Mirror.begin(k, v, wrong, kinds, np.copy)
