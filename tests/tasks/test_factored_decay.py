"""Factored decay in float32: not a number as one product, exact in sub-chunks."""

import numpy as np
import pytest

from ctlearn.memory import decay_between
from ctlearn.tasks import factored_decay
from ctlearn.tasks.plans import relative_error

SEEDS = range(10)


def exactly(inputs):
    return factored_decay.pairwise(*(x.astype("float64") for x in inputs))


@pytest.mark.parametrize("d", [6, 64])
def test_float32_overflows_factored_and_not_in_sub_chunks(d, record_property):
    """T8: 64 tokens that fade by up to exp(-5) each.

    Elsewhere sub-chunks were 5e-7 off, by differences of running sums; sums over the
    tokens between keep a digit more.
    """
    errors = []
    for seed in SEEDS:
        inputs = factored_decay.draw(seed, 64, d, 5)
        exact = exactly(inputs)
        assert np.isnan(factored_decay.factored(*inputs)).any()
        found = factored_decay.sub_chunked(*inputs)
        assert found.dtype == np.float32
        assert np.isfinite(found).all()
        errors.append(relative_error(found, exact))
    assert max(errors) < 5e-7
    # a few units in the last place, so not better than float32 can be either
    assert min(errors) > 1e-8
    record_property(f"sub-chunks, d = {d}", f"{np.mean(errors):.0e}, elsewhere 5e-7")


def test_differences_of_running_sums_are_where_the_digit_went():
    """The published order of size, from exponents that are rounded at up to 160."""
    errors = []
    for seed in SEEDS:
        q, k, log_decay = inputs = factored_decay.draw(seed, 64, 64, 5)
        G = np.cumsum(log_decay, axis=0)
        between = np.minimum(G[:, None] - G, 0)
        P = np.tril((q[:, None] * k * np.exp(between)).sum(axis=2))
        errors.append(relative_error(P, exactly(inputs)))
    assert 5e-7 / 3 < np.mean(errors) < 5e-7 * 3


def test_how_far_float32_reaches():
    """exp(64) is 6e27 and fits; exp(5 * 64) does not, nor does exp(5 * 18)."""
    mild = factored_decay.draw(0, 64, 8, 1)
    found = factored_decay.factored(*mild)
    assert relative_error(found, exactly(mild)) < 1e-5
    with np.errstate(over="ignore"):
        reach = np.exp(np.float32([64, 320, 5 * 17, 5 * 18]))
    assert reach[0] == pytest.approx(6.2e27, rel=0.01)
    assert np.isinf(reach).tolist() == [False, True, False, True]


@pytest.mark.parametrize("size", [1, 7, 16, 64])
def test_all_three_are_the_same_in_exact_enough_numbers(size):
    inputs = factored_decay.draw(3, 40, 5, 1, dtype="float64")
    P = factored_decay.pairwise(*inputs)
    assert np.allclose(factored_decay.factored(*inputs), P, rtol=0, atol=1e-9)
    found = factored_decay.sub_chunked(*inputs, size=size)
    assert np.allclose(found, P, rtol=0, atol=1e-14)


def test_a_decay_of_zero_separates_what_came_before():
    q, k, log_decay = factored_decay.draw(4, 20, 3, 1, dtype="float64")
    log_decay[9] = -np.inf
    P = factored_decay.sub_chunked(q, k, log_decay, size=8)
    assert not P[9:, :9].any()
    apart = factored_decay.sub_chunked(q[9:], k[9:], log_decay[9:], size=8)
    assert np.allclose(P[9:, 9:], apart, rtol=0, atol=1e-14)


@pytest.mark.parametrize("strong", [-1, -(2.0**24), -np.inf])
def test_a_difference_of_running_sums_keeps_no_digit_behind_a_strong_decay(strong):
    g = np.array([-1, strong, -1], dtype="float32")
    found = factored_decay.by_differences(g)
    right = decay_between(g, np.ones((3, 1), dtype="float32"))[:, :, 0]
    assert right[3, 2] == np.exp(np.float32(-1))
    if strong == -1:
        assert np.allclose(np.tril(found), right, rtol=1e-6, atol=0)
    else:
        assert found[3, 2] == 1 or np.isnan(found[3, 2])
