"""Triangular inverses: all are right, and in float32 all but doubling stay right."""

import numpy as np
import pytest

from ctlearn.supplies import Rationals
from ctlearn.tasks import triangular_inverse as inverse

METHODS = {
    "substitution": inverse.by_substitution,
    "doubling": inverse.by_doubling,
    "blocks": lambda L: inverse.by_blocks(L, 3),
    "Newton": lambda L: inverse.by_newton(L, max(len(L) - 1, 1).bit_length()),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("C", [1, 2, 5, 8])
def test_every_method_is_exact_on_fractions(method, C):
    L = np.tril(Rationals(C).real("L", C, C), -1)
    one = np.eye(C, dtype=object)
    found = METHODS[method](L)
    assert np.array_equal((one + L) @ found, one)


@pytest.mark.parametrize("C", [16, 50, 64, 128])
def test_every_method_is_right_on_keys_without_a_common_direction(C):
    L = inverse.draw(0, C, 64, cosine=0, dtype="float64")
    wanted = np.linalg.inv(np.eye(C) + L)
    for method in METHODS.values():
        assert np.allclose(method(L), wanted, rtol=0, atol=1e-12)


def test_doubling_loses_every_digit_at_a_cosine_of_one_half(agrees):
    """T8, section 1.3b: 64 tokens, beta = 1; the mean is that of the logs."""
    draw = {"C": 64, "d": 64, "cosine": 0.5}
    seeds = range(100, 120)
    errors = inverse.errors(inverse.by_doubling, seeds, **draw)
    assert agrees("log10 of doubling's error", np.log10(errors), "1.90", drawn=10)
    one = np.eye(64)
    conditions = [np.linalg.cond(one + inverse.draw(s, **draw)) for s in seeds]
    assert agrees("condition of I + L", np.array(conditions), "38", drawn=10)
    for method in (
        inverse.by_substitution,
        inverse.by_blocks,
        lambda L: inverse.by_newton(L, 7),
    ):
        assert inverse.errors(method, seeds, **draw).max() < 1e-6


@pytest.mark.parametrize("C", [16, 32, 64])
@pytest.mark.parametrize("cosine", [0.1, 0.3, 0.5, 0.9])
def test_doubling_loses_what_its_largest_power_costs(C, cosine):
    """The error is that entry's last digit, within a factor of 30 either way."""
    errors = inverse.errors(inverse.by_doubling, range(4), C, 64, cosine=cosine)
    L = inverse.draw(0, C, 64, cosine=cosine, dtype="float64")
    largest = inverse.largest_power(L)
    law = np.finfo("float32").eps * max(largest, 1)
    assert abs(np.log10(errors).mean() - np.log10(law)) < 1.5
    # two decades below, at most, the sum of all powers if every cosine is the mean
    assert -2.5 < np.log10(largest) - C * np.log10(1 + cosine) < 0.5
