"""Floats, rationals and symbols: scalars, supplies, features."""

import numpy as np
import pytest
import sympy

from ctlearn import features, scalars
from ctlearn.supplies import Floats, Rationals, Symbols

WORLDS = (Symbols(), Rationals(3), Floats(3))
every_world = pytest.mark.parametrize("supply", WORLDS, ids=lambda s: s.world)


@every_world
def test_log_and_exp_undo_each_other(supply):
    a = supply.rate("a", 4)
    assert supply.difference(scalars.exp(scalars.log(a)), a).equal


@every_world
def test_zero_and_minus_infinity_are_each_others_image(supply):
    zero = 0 * supply.rate("a", 2)
    assert all(x == scalars.minus_infinity(zero) for x in scalars.log(zero))
    assert all(x == 0 for x in scalars.exp(scalars.log(zero)))


def test_decays_of_symbols_combine_by_themselves():
    a = Symbols().log_decay("a", 3)
    product = sympy.prod([sympy.exp(x) for x in a])
    assert scalars.exp(a.sum()) == product


def test_shift_is_the_largest_finite_entry_or_zero():
    scores = np.array([[1.0, -np.inf, 3.0], [-np.inf, -np.inf, -np.inf]])
    assert scalars.shift(scores).tolist() == [3.0, 0.0]
    assert scalars.shift(scores.astype(np.float32)).dtype == np.float32
    assert scalars.shift(scores[:, :0]).tolist() == [0.0, 0.0]


@every_world
@pytest.mark.parametrize("d", [1, 2, 4])
def test_unit_rows_have_length_one(supply, d):
    rows = supply.unit("k", 3, d)
    ones = np.ones(3, dtype=rows.dtype)
    assert supply.difference((rows * rows).sum(axis=1), ones).equal


@every_world
def test_draws_lie_in_their_domains(supply):
    if supply.world != "symbols":
        assert all(0 < x < 1 for x in supply.rate("a", 50))
        assert all(0 < x < 2 for x in supply.double("b", 50))
        assert max(supply.double("b", 50)) > 1
        assert all(x > 0 for x in supply.positive("p", 50))
        assert all(x < 0 for x in supply.log_decay("g", 50))
    shares = supply.shares("s", 4, 3)
    assert supply.difference(shares.sum(axis=1), shares[:, 0] ** 0).equal
    for domain in ("real", "rate", "small", "double", "positive", "log_decay"):
        assert np.shape(supply.draw("x", domain)) == ()
        assert supply.draw("x", domain, 2, 3).shape == (2, 3)


def test_float32_stays_float32():
    supply = Floats(0, "float32")
    scalars = ("real", "rate", "small", "double", "positive", "log_decay")
    for domain in (*scalars, "unit", "shares"):
        assert supply.draw("x", domain, 3, 4).dtype == np.float32


@every_world
def test_a_difference_is_seen_and_shapes_must_fit(supply):
    x = supply.real("x", 3)
    assert supply.difference(x, x.copy()).equal
    off = x.copy()
    off[2] = off[2] + 1
    assert not supply.difference(x, off).equal
    with pytest.raises(ValueError, match="differ in shape"):
        supply.difference(x, x[:2])


def test_quotients_are_compared_by_their_numerators():
    x, y = sympy.symbols("x y")
    left = np.array([x / (x + y) + y / (x + y)], dtype=object)
    assert Symbols().difference(left, np.array([1])).equal


def test_elu_plus_one_is_positive_and_does_not_overflow():
    x = np.array([-800.0, -1.0, 0.0, 2.0, 800.0])
    with np.errstate(over="raise"):
        y = features.elu_plus_one(x)
    assert y == pytest.approx([0, np.exp(-1), 1, 3, 801])
    exact = features.elu_plus_one(np.array([sympy.Rational(-1), sympy.Integer(2)]))
    assert exact.tolist() == [sympy.exp(-1), 3]


def test_quadratic_features_square_dot_products():
    supply = Symbols()
    x, y = supply.real("x", 3), supply.real("y", 3)
    left = features.quadratic(x) @ features.quadratic(y)
    assert sympy.expand(left - (x @ y) ** 2) == 0


def test_dpfp_rolls_the_two_halves():
    """By hand for x = (2, -3): y = (2, 0, 0, 3)."""
    x = np.array([2.0, -3.0])
    assert features.dpfp(x).tolist() == [6, 0, 0, 0]
    assert features.dpfp(x, nu=2).tolist() == [6, 0, 0, 0, 0, 0, 0, 0]
    assert features.dpfp(np.array([2.0, 3.0])).tolist() == [0, 6, 0, 0]
    with pytest.raises(ValueError, match="nu: expected 1 to 3, got 4"):
        features.dpfp(x, nu=4)


def test_dpfp_is_never_negative_and_can_tell_more_keys_apart_than_channels():
    x = np.random.default_rng(0).standard_normal((40, 4))
    y = features.dpfp(x, nu=3)
    assert y.shape == (40, 24)
    assert (y >= 0).all()
    assert np.linalg.matrix_rank(y) > 4


def test_softmax_features_sum_to_one():
    x = Floats(0).real("x", 4, 5) * 100
    y = features.softmax_feature(x)
    assert y.sum(axis=1) == pytest.approx(np.ones(4))
    assert (y >= 0).all()


@every_world
@pytest.mark.parametrize(("n", "d"), [(2, 3), (3, 3), (4, 2)])
def test_orthonormal_rows(supply, n, d):
    rows = features.orthonormal(supply.real("x", n, d))
    wanted = np.diag([1] * min(n, d) + [0] * max(0, n - d))
    wanted = wanted.astype(rows.dtype)
    assert supply.difference(rows @ rows.T, wanted).equal
