"""Preconditioned delta rule: its diagonal, its bounds, its released constants."""

import numpy as np
import pytest

from ctlearn.mixers import preconditioned_delta_rule
from ctlearn.supplies import Floats

RELEASED = {"spread": 1.5, "centre": -0.2}


def test_the_scale_stays_within_the_spread_and_falls_with_use():
    A = np.array([0.0, 1e-3, 0.1, np.exp(-0.2) - 1e-6, 1, 10, 1e6])
    P = preconditioner(A)
    assert (np.diff(P) < 0).all()
    assert (P < 1.5).all()
    assert (P > 1 / 1.5).all()
    assert P[3] == pytest.approx(1)


def preconditioner(A):
    return preconditioned_delta_rule.preconditioner(A, **RELEASED)


def test_the_key_counts_itself_before_it_is_scaled():
    """One token by hand: A = beta' k^2 and S = beta (P k) v'."""
    x = preconditioned_delta_rule.MECHANISM.draw(Floats(0), 1, 4, 3) | RELEASED
    _, S = preconditioned_delta_rule.recurrent(**x)
    A = x["gram_beta"][0] * x["k"][0] ** 2
    r = np.log(A + 1e-6) + 0.2
    P = 1.5 ** (-r / (1 + abs(r)))
    assert pytest.approx(A) == S.A
    assert pytest.approx(x["beta"][0] * np.outer(P * x["k"][0], x["v"][0])) == S.S


def test_only_the_write_is_scaled():
    """Scaling what is compared, too, is another mechanism."""
    x = preconditioned_delta_rule.MECHANISM.draw(Floats(0), 20, 4, 3) | RELEASED
    o, _ = preconditioned_delta_rule.recurrent(**x)
    S, A = np.zeros((4, 3)), np.zeros(4)
    for t in range(20):
        A = np.exp(x["gram_log_decay"][t]) * A + x["gram_beta"][t] * x["k"][t] ** 2
        k = preconditioner(A) * x["k"][t]
        S = np.exp(x["log_decay"][t]) * S
        S = S + x["beta"][t] * np.outer(k, x["v"][t] - S.T @ k)
    assert abs(S.T @ x["q"][-1] - o[-1]).max() > 0.01
