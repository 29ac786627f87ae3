"""Linear systems against NumPy's, and exactly on rationals."""

import numpy as np
import pytest

from ctlearn.supplies import Floats, Rationals, Symbols
from ctlearn.systems import conjugate_gradients, extend_factor, factor, solve


def positive_definite(supply, *shape):
    root = supply.real("root", *shape)
    return root @ root.swapaxes(-1, -2) + np.eye(shape[-1], dtype=root.dtype)


def test_a_factor_multiplies_back():
    A = positive_definite(Floats(0), 7, 7)
    packed = factor(A)
    L = np.tril(packed, -1) + np.eye(7)
    np.testing.assert_allclose(L * np.diag(packed) @ L.T, A, atol=1e-12)
    assert np.all(np.triu(packed, 1) == 0)
    assert np.all(np.diag(packed) > 0)


def test_a_factor_of_fractions_is_exact():
    A = positive_definite(Rationals(0), 4, 4)
    packed = factor(A)
    L = np.tril(packed, -1) + np.eye(4, dtype=object)
    assert np.array_equal(L * np.diag(packed) @ L.T, A)


def test_a_factor_grows_with_its_matrix():
    A = positive_definite(Rationals(4), 5, 5)
    assert np.array_equal(extend_factor(factor(A[:2, :2]), A[2:]), factor(A))


def test_a_stack_is_solved_row_by_row():
    supply = Floats(1)
    A, b = positive_definite(supply, 5, 4, 4), supply.real("b", 5, 4)
    expected = np.linalg.solve(A, b[..., None])[..., 0]
    np.testing.assert_allclose(solve(A, b), expected, atol=1e-11)


@pytest.mark.parametrize("supply", [Rationals(2), Symbols()], ids=lambda s: s.world)
def test_solved_exactly(supply):
    A, b = positive_definite(supply, 2, 2), supply.real("b", 2)
    difference = supply.difference(A @ solve(A, b), b)
    assert difference.equal


def test_conjugate_gradients_arrive_after_as_many_steps_as_dimensions():
    supply = Rationals(3)
    A, b = positive_definite(supply, 3, 3), supply.real("b", 2, 3)
    assert np.array_equal(conjugate_gradients(lambda x: x @ A, b, 3) @ A, b)
    # and stay there
    assert np.array_equal(conjugate_gradients(lambda x: x @ A, b, 5) @ A, b)


def test_conjugate_gradients_leave_a_right_side_of_zero_alone():
    A = positive_definite(Floats(0), 3, 3)
    x = conjugate_gradients(lambda x: x @ A, np.zeros((2, 3)), 4)
    assert np.array_equal(x, np.zeros((2, 3)))
