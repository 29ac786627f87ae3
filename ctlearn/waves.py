"""Waves: complex numbers as two real arrays, and linear systems that turn and fade.

With a = A + i omega, y' = a y + v has, if v holds still for a time Delta, the solution

    y(t + Delta) = exp(Delta a) y(t) + (exp(Delta a) - 1) / a v

All numbers are real: floats, SymPy rationals or symbols.
"""

from typing import Any, NamedTuple

import numpy as np

from ctlearn.memory import copied_state, initial_state
from ctlearn.scalars import cos, exp, expm1, minus_infinity, sin


class Waves(NamedTuple):
    """re + i im; as a state, one number for each entry [d_k, d_v]."""

    re: np.ndarray
    im: np.ndarray

    def times(self, other: "Waves") -> "Waves":
        """The product, entry by entry."""
        return Waves(
            self.re * other.re - self.im * other.im,
            self.re * other.im + self.im * other.re,
        )

    def each(self, function: Any) -> "Waves":
        """What a linear function of real arrays makes of both parts."""
        return Waves(function(self.re), function(self.im))


def wave(fade: np.ndarray, turn: np.ndarray) -> Waves:
    """exp(fade + i turn)."""
    return Waves(exp(fade) * cos(turn), exp(fade) * sin(turn))


def held(A: np.ndarray, omega: np.ndarray, delta: np.ndarray) -> Waves:
    """(exp(Delta a) - 1) / a for a = A + i omega: what an input of 1 leaves.

    Raises ValueError unless all A are finite and below 0.
    """
    bad = A[(A == 0) | (minus_infinity(A) == A)]
    if bad.size:
        raise ValueError(f"A: expected finite values below 0, got {bad.flat[0]}")
    turn, square = delta * omega, A * A + omega * omega
    # without subtracting 1 from what may be close to it
    re = expm1(delta * A) * cos(turn) - 2 * sin(turn / 2) ** 2
    im = exp(delta * A) * sin(turn)
    return Waves((re * A + im * omega) / square, (im * A - re * omega) / square)


def start(k: np.ndarray, v: np.ndarray, S: Waves | None) -> Waves:
    """A state of our own to start from: zeros, or a copy of `S`."""
    if S is None:
        return Waves(initial_state(k, v), initial_state(k, v))
    return copied_state(S, Waves, k, v, re=("d_k", "d_v"), im=("d_k", "d_v"))
