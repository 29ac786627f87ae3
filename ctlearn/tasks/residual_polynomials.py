"""Residual polynomials: what steps on one context leave of a rule, as a polynomial.

Let H be the mean of x_i x_i' over the inputs of a context, and w the rule behind it.
Whatever is built of gradient steps from zero leaves r(H) w of the rule, r a polynomial
with r(0) = 1, and so r(lambda) along each eigenvector of H:

    a step of size eta                     r(z) = 1 - eta z
    n of them, in sizes of their own       a product of n such
    a step and GD++, then another step     (1 - eta_1 z) (1 - eta_2 z (1 - gamma z)^2)

A polynomial is the list of its coefficients, that of z^0 first. What one leaves of all
contexts is a quadratic in its coefficients, so that the best of a degree is a solution
of linear equations. GD++ is that of [vonoswald2023, appendix A.10], whose gamma is the
one here divided by N.
"""

from typing import NamedTuple

import numpy as np
from numpy.polynomial import polynomial as poly
from numpy.typing import ArrayLike

from ctlearn.tasks.in_context_regression import Tasks


class Fit(NamedTuple):
    """Step sizes and gamma of two layers, and the share of the rule that they leave."""

    eta_1: float
    eta_2: float
    gamma: float
    left: float


def eigenvalues(tasks: Tasks) -> np.ndarray:
    """Those of the mean of x_i x_i' of each task, smallest first: [n, d]."""
    x = tasks.x
    return np.linalg.eigvalsh(x.swapaxes(1, 2) @ x / x.shape[1])


def moments(spectrum: np.ndarray, degree: int) -> np.ndarray:
    """E[z^(i + j)] over all eigenvalues z, for i and j up to the degree."""
    powers = np.array([(spectrum**p).mean() for p in range(2 * degree + 1)])
    return powers[np.add.outer(np.arange(degree + 1), np.arange(degree + 1))]


def left(residual: np.ndarray, spectrum: np.ndarray) -> float:
    """E[r(z)^2], the share of the rule's square that is left; no step leaves 1."""
    return float((poly.polyval(spectrum, residual) ** 2).mean())


def best(degree: int, spectrum: np.ndarray) -> np.ndarray:
    """The residual of this degree that leaves least, no matter how it is reached."""
    A = moments(spectrum, degree)
    return np.concatenate([[1.0], np.linalg.solve(A[1:, 1:], -A[1:, 0])])


def two_layers(eta_1: float, eta_2: float, gamma: float) -> np.ndarray:
    """The residual of a step, then of another one on inputs that GD++ has moved."""
    moved = poly.polymul([0, 1], poly.polypow([1, -gamma], 2))
    return poly.polymul([1, -eta_1], poly.polysub([1], eta_2 * moved))


def fit_two_layers(spectrum: np.ndarray, gammas: np.ndarray) -> Fit:
    """The best step sizes for the best of the gammas; 0 alone is plain descent.

    For a fixed gamma the residual is linear in each step size, given the other, so the
    two are found in turn, from a small and from a large second step.
    """
    A = moments(spectrum, 4)
    found = []
    for gamma in gammas:
        moved = poly.polymul([0, 1], poly.polypow([1, -gamma], 2))
        for eta_2 in (1 / spectrum.mean(), 1 / spectrum.min(axis=-1).mean()):
            for _ in range(_TURNS):
                second = _padded(poly.polysub([1], eta_2 * moved))
                eta_1 = _best_along(A, second, poly.polymul([0, 1], second))
                first = _padded([1, -eta_1])
                eta_2 = _best_along(A, first, poly.polymul(moved, [1, -eta_1]))
            residual = _padded(two_layers(eta_1, eta_2, gamma))
            found.append(Fit(eta_1, eta_2, gamma, float(residual @ A @ residual)))
    return min(found, key=lambda fit: fit.left)


_TURNS = 60


def _best_along(A: np.ndarray, at: np.ndarray, off: np.ndarray) -> float:
    """The s for which at - s off leaves least."""
    off = _padded(off)
    return float(off @ A @ at / (off @ A @ off))


def _padded(coefficients: ArrayLike) -> np.ndarray:
    """With zeros, up to degree 4; what is cut off beyond it is zero."""
    return np.resize(np.append(coefficients, np.zeros(5)), 5)
