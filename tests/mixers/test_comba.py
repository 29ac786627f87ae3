"""Comba: what its correction is, and that the order of forgetting matters."""

import numpy as np

from ctlearn.mixers import comba
from ctlearn.supplies import Floats, float_difference


def test_the_correction_takes_an_answer_off_an_answer():
    x = comba.MECHANISM.draw(Floats(0), 20, 6, 5)
    plain = x | {"correction": 0.0}
    o, _ = comba.recurrent(**x)
    o_q, _ = comba.recurrent(**plain)
    o_p, _ = comba.recurrent(**(plain | {"q": x["p"]}))
    assert float_difference(o, o_q - x["correction"] * o_p).equal


def test_decaying_before_the_error_is_another_map():
    """A released recurrence does so, and is 0.027 off the chunk code beside it."""
    x = comba.MECHANISM.draw(Floats(0), 20, 6, 5) | {"correction": 0.0}
    o, _ = comba.recurrent(**x)
    S = np.zeros((6, 5))
    for t in range(20):
        S = np.exp(x["log_decay"][t]) * S
        S = S + x["beta"][t] * np.outer(x["k"][t], x["v"][t] - S.T @ x["p"][t])
    assert abs(S.T @ x["q"][-1] - o[-1]).max() > 0.01
