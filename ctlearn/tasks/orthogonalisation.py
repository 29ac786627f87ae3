"""Orthogonalisation: where Newton and Schulz's iteration sends singular values.

A step X <- a X + (b XX' + c (XX')^2) X keeps the singular vectors of X and sends each
singular value s to a s + b s^3 + c s^5. It starts from G / ||G||, whose singular values
are in [0, 1] and have squares that sum to one: most of a large matrix's are small.
[jordan2024muon]
"""

from collections.abc import Sequence

import numpy as np

from ctlearn.inner import MUON, newton_schulz

Coefficients = Sequence[tuple[float, float, float]]


def image(s: np.ndarray, coefficients: Coefficients = MUON) -> np.ndarray:
    """Where singular values s of a matrix with ||G|| = 1 go: as many as there are."""
    for a, b, c in coefficients:
        s = s * (a + s**2 * (b + c * s**2))
    return s


def growth(coefficients: Coefficients = MUON) -> float:
    """By what a singular value near 0 is multiplied."""
    return float(np.prod([a for a, _, _ in coefficients]))


def interval(
    coefficients: Coefficients = MUON, least: float = 0.01
) -> tuple[float, float]:
    """The least and the largest image of s in [least, 1], on a fine grid."""
    images = image(np.geomspace(least, 1, 20_001), coefficients)
    return float(images.min()), float(images.max())


def reach(coefficients: Coefficients = MUON) -> float:
    """The s at which images, rising from 0, first enter the interval of [0.01, 1]."""
    s = np.geomspace(1e-5, 0.01, 20_001)
    return float(s[np.argmax(image(s, coefficients) >= interval(coefficients)[0])])


def singular_values(
    G: np.ndarray, coefficients: Coefficients = MUON
) -> tuple[np.ndarray, np.ndarray]:
    """Those of G / ||G||, falling, and those of what the iteration makes of G."""
    before = np.linalg.svd(G, compute_uv=False) / np.linalg.norm(G)
    return before, np.linalg.svd(newton_schulz(G, coefficients), compute_uv=False)


def share_below(s: float, n: int) -> float:
    """Share of square Gaussian matrices whose least singular value is below s ||G||.

    For large n: 1 - exp(-t - t^2 / 2) with t = n^(3/2) s, since ||G|| is near n times
    an entry's deviation. [edelman1988, corollary 3.1]
    """
    t = n**1.5 * s
    return float(-np.expm1(-t - t * t / 2))
