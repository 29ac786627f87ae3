"""Waves: the exact step of a linear system whose input holds still."""

import numpy as np
import pytest
import sympy

from ctlearn.waves import Waves, held, wave


def test_waves_multiply_as_complex_numbers_do():
    product = wave(np.array(-0.5), np.array(2.0)).times(Waves(np.array(3), np.array(4)))
    expected = np.exp(-0.5 + 2j) * (3 + 4j)
    assert product.re == pytest.approx(expected.real)
    assert product.im == pytest.approx(expected.imag)


def test_the_input_that_was_held_solves_the_system():
    """From 0 by y' = a y + 1, with SymPy's own integral."""
    a, t = sympy.Symbol("a", negative=True), sympy.Symbol("t", positive=True)
    s = sympy.Symbol("s", positive=True)
    solved = sympy.integrate(sympy.exp((t - s) * a), (s, 0, t))
    A, omega, delta = (np.array([x], dtype=object) for x in (a, 0, t))
    ours = held(A, omega, delta)
    assert sympy.simplify(ours.re[0] - solved) == 0
    assert ours.im[0] == 0


def test_a_held_input_writes_less_than_eulers_rule():
    """The sheet's 0.6 to 0.96 at Delta = 0.3 is for rates from 0.27 to 3.5."""
    rates = -np.geomspace(0.27, 3.5, 9)
    ratio = held(rates, 0 * rates, np.full(9, 0.3)).re / 0.3
    assert (np.diff(ratio) < 0).all()
    assert 0.6 < ratio.min() < 0.63
    assert 0.95 < ratio.max() < 0.97


def test_a_small_step_keeps_its_digits():
    """exp(x) - 1 by subtraction would keep 5 of 16 digits here."""
    A, omega = np.array(-0.5), np.array(3.0)
    written = held(A, omega, np.array(1e-11))
    a = -0.5 + 3j
    expected = 1e-11 * (1 + 1e-11 * a / 2)
    assert written.re == pytest.approx(expected.real, rel=1e-15)
    assert written.im == pytest.approx(expected.imag, rel=1e-15)
