"""The adaptive filters: a projection, and where a constant step leaves the rails."""

import numpy as np

from ctlearn.mixers import least_mean_squares, normalised_least_mean_squares
from ctlearn.supplies import Floats, Rationals, float_difference


def test_a_full_step_without_guard_answers_the_value_at_the_key_exactly():
    supply = Rationals(0)
    x = normalised_least_mean_squares.MECHANISM.draw(supply, 5, 3, 2)
    asked = x | {"q": x["k"], "mu": x["mu"] ** 0, "eps": 0 * x["eps"]}
    o, _ = normalised_least_mean_squares.recurrent(**asked)
    assert supply.difference(o, x["v"]).equal


def test_the_length_of_a_key_does_not_matter_to_the_answer_there():
    x = normalised_least_mean_squares.MECHANISM.draw(Floats(0), 20, 6, 5) | {"eps": 0.0}
    o, _ = normalised_least_mean_squares.recurrent(**(x | {"q": x["k"]}))
    long = x | {"k": 7 * x["k"], "q": 7 * x["k"]}
    assert float_difference(normalised_least_mean_squares.recurrent(**long)[0], o).equal


def test_a_constant_step_over_long_keys_blows_up_and_a_normalised_one_does_not():
    x = least_mean_squares.MECHANISM.draw(Floats(0), 200, 6, 5)
    x["k"] = 3 * x["k"]
    x["mu"] = 1.9
    _, S = least_mean_squares.recurrent(**x)
    assert not np.abs(S).max() < 1e20
    _, S = normalised_least_mean_squares.recurrent(**x, eps=0.0)
    assert np.abs(S).max() < 1e3


def test_a_zero_key_with_a_guard_changes_nothing():
    x = normalised_least_mean_squares.MECHANISM.draw(Floats(0), 1, 6, 5)
    S = Floats(1).real("S", 6, 5)
    _, after = normalised_least_mean_squares.recurrent(**(x | {"k": 0 * x["k"]}), S=S)
    assert np.array_equal(after, S)
