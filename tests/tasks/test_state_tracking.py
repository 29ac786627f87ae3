"""State tracking by reflections, against counting and composing."""

import itertools

import numpy as np
import pytest

from ctlearn.mixers import delta_product, delta_rule
from ctlearn.tasks import state_tracking as tracking


def test_parity_by_one_reflection_is_exact_for_2000_tokens():
    """T2: d_k = 1 and beta = 2x make the state (-1)^(sum of x), without rounding."""
    bits = np.random.default_rng(0).integers(2, size=2000)
    sign = tracking.parity(bits)
    assert np.array_equal(sign, (-1) ** np.cumsum(bits))
    inputs = tracking.parity_inputs(bits)
    for form in (delta_rule.recurrent, delta_rule.chunkwise):
        o, _ = form(**inputs)
        assert np.array_equal(o[:, 0], sign)


def test_without_reflections_the_sign_never_changes():
    """Beta of at most 1: the transition 1 - beta is never below 0."""
    bits = np.random.default_rng(0).integers(2, size=2000)
    inputs = tracking.parity_inputs(bits)
    for beta in (0.5, 0.9, 1.0):
        o, _ = delta_rule.recurrent(**(inputs | {"beta": beta * bits}))
        assert o.min() >= 0


@pytest.mark.parametrize("n", [3, 5])
def test_a_thousand_permutations_by_n_minus_one_reflections(n, record_property):
    """T2: words in S_3 (two reflections a token) and in S_5 (four)."""
    word = tracking.word(n, n, 1000)
    inputs = tracking.word_inputs(word)
    assert inputs["k"].shape == (1000, n - 1, n)
    o, S = delta_product.chunkwise(**inputs)
    composed = tracking.products(word)
    assert np.array_equal(tracking.words_read(o), composed)
    off = abs(S - np.eye(n)[composed[-1]]).max()
    record_property(f"1000 permutations of {n}", f"{off:.0e} off, elsewhere 2e-13")
    # a few units in the last place for each of 1000 (n - 1) reflections
    assert off < 1000 * (n - 1) * np.finfo(float).eps


def test_with_a_reflection_less_a_cycle_is_lost():
    word = tracking.word(0, 3, 50)
    inputs = tracking.word_inputs(word)
    fewer = {name: inputs[name][:, :1] for name in ("k", "v", "beta")}
    o, _ = delta_product.recurrent(**(inputs | fewer))
    assert (tracking.words_read(o) != tracking.products(word)).any()


def test_every_permutation_is_drawn_equally_often():
    word = tracking.word(1, 3, 6000)
    _, counts = np.unique(word, axis=0, return_counts=True)
    assert len(counts) == 6
    # 5 deviations of a count with mean 1000
    assert abs(counts - 1000).max() < 5 * np.sqrt(1000 * 5 / 6)


@pytest.mark.parametrize("n", [1, 2, 4])
def test_swaps_make_every_permutation(n):
    for permutation in itertools.permutations(range(n)):
        order = list(range(n))
        found = tracking.swaps(np.array(permutation))
        for i, j in found:
            order[i], order[j] = order[j], order[i]
        assert tuple(order) == permutation
        assert len(found) <= n - 1


def test_products_compose_from_the_left():
    cycle = np.array([1, 2, 0])
    found = tracking.products(np.array([cycle, cycle, cycle]))
    assert found.tolist() == [[1, 2, 0], [2, 0, 1], [0, 1, 2]]


@pytest.mark.parametrize("modulus", [3, 7])
def test_counting_by_two_reflections(modulus):
    steps = np.random.default_rng(modulus).integers(modulus, size=2000)
    o, _ = delta_product.chunkwise(**tracking.remainder_inputs(steps, modulus))
    count = tracking.remainder(steps, modulus)
    assert np.array_equal(tracking.remainders_read(o, modulus), count)
    angle = 2 * np.pi * count / modulus
    assert np.allclose(o, np.stack([np.cos(angle), np.sin(angle)], 1), atol=1e-11)
