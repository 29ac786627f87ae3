"""Residual polynomials: against steps that are taken, and against other choices."""

import numpy as np
import pytest

from ctlearn.tasks import in_context_regression as regression
from ctlearn.tasks import residual_polynomials as residuals


@pytest.fixture(scope="module")
def tasks():
    return regression.draw(0, 3000, 8, 4)


@pytest.fixture(scope="module")
def spectrum(tasks):
    return residuals.eigenvalues(tasks)


def test_a_step_leaves_its_residual(tasks, spectrum):
    """Over all rules w, each eigenvector's share is alike; drawn ones scatter."""
    eta = 1.7
    error = regression.errors(regression.one_step(tasks, eta), tasks)
    share = residuals.left(np.array([1, -eta]), spectrum)
    bound = 3 * error.std() / len(error) ** 0.5
    assert abs(share * 4 / 3 - error.mean()) < bound


def test_the_best_of_degree_one_is_the_best_step(spectrum):
    eta, error = regression.best_step(4, 8, *regression.uniform_moments(1))
    one = residuals.best(1, spectrum)
    assert -one[1] == pytest.approx(eta, rel=0.02)
    assert residuals.left(one, spectrum) * 4 / 3 == pytest.approx(error, rel=0.02)


@pytest.mark.parametrize("degree", [1, 2, 4])
def test_no_other_residual_leaves_less(spectrum, degree):
    found = residuals.best(degree, spectrum)
    least = residuals.left(found, spectrum)
    assert found[0] == 1
    A = residuals.moments(spectrum, degree)
    assert found @ A @ found == pytest.approx(least)
    for i in range(1, degree + 1):
        for factor in (0.99, 1.01):
            other = found * np.where(np.arange(degree + 1) == i, factor, 1)
            assert residuals.left(other, spectrum) > least


def test_two_layers_lie_between_two_steps_and_the_best_quartic(spectrum):
    """The fit is compared with every point of a coarse grid around it, too."""
    plain = residuals.fit_two_layers(spectrum, np.array([0.0]))
    moved = residuals.fit_two_layers(spectrum, np.linspace(0, 2, 21))
    two, four = (residuals.left(residuals.best(n, spectrum), spectrum) for n in (2, 4))
    assert two <= plain.left + 1e-12
    assert plain.left == pytest.approx(two, rel=1e-9)
    assert four < moved.left < 1.02 * four
    assert moved.left < 0.4 * two
    residual = residuals.two_layers(*moved[:3])
    assert residuals.left(residual, spectrum) == pytest.approx(moved.left)
    for change in np.ndindex(3, 3):
        scale = 0.9 + 0.1 * np.array(change)
        other = residuals.two_layers(*(moved[:2] * scale), moved.gamma)
        assert residuals.left(other, spectrum) >= moved.left - 1e-12


def test_without_gamma_the_residual_is_that_of_two_steps():
    wanted = np.polynomial.polynomial.polyfromroots([1 / 0.5, 1 / 3])
    found = residuals.two_layers(0.5, 3.0, 0.0)
    assert found[:3] == pytest.approx(wanted * 0.5 * 3)
    assert not found[3:].any()
