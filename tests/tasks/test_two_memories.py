"""The two memories, against what theory says of random facts."""

import numpy as np
import pytest

from ctlearn.tasks import two_memories as two

SEEDS = range(12)


def test_more_facts_leave_the_first_ones_alone():
    k, v = two.facts(3, 5, 4, 6)
    more_k, more_v = two.facts(3, 9, 4, 6)
    np.testing.assert_array_equal(more_k[:5], k)
    np.testing.assert_array_equal(more_v[:5], v)
    np.testing.assert_allclose((more_k**2).sum(axis=1), 1)
    np.testing.assert_allclose((more_v**2).sum(axis=1), 1)


def test_the_cache_answers_with_softmax_weights():
    k, v = two.facts(0, 7, 3, 2)
    weights = np.exp(5 * k @ k.T)
    expected = weights / weights.sum(axis=1, keepdims=True) @ v
    np.testing.assert_allclose(two.ask_cache(k, v, k, scale=5), expected)


def test_the_states_error_is_one_less_than_the_pairs_over_the_width():
    sizes = [1, 16, 64, 256]
    errors = two.state_errors(sizes, SEEDS, d=32, rescale=False)
    theory = (np.array(sizes) - 1) / 32
    standard_error = errors.std(axis=0) / len(SEEDS) ** 0.5
    assert (abs(errors.mean(axis=0) - theory) <= 4 * standard_error + 1e-12).all()
    # one output scale for all turns x into x / (1 + x), and never loses to none
    scaled = two.state_errors(sizes, SEEDS, d=32, rescale=True)
    np.testing.assert_allclose(scaled.mean(axis=0), theory / (1 + theory), atol=0.02)


def test_the_cache_recalls_at_a_high_scale_and_not_at_a_low_one():
    sharp = two.cache_errors([8, 256], SEEDS, scale=64)
    flat = two.cache_errors([8, 256], SEEDS, scale=1 / 8)
    assert sharp.max() < 1e-12
    assert flat.min() > 0.8


def test_a_flat_softmax_reads_everything_and_a_sharp_one_a_single_item():
    flat = two.items_read(16, 50, SEEDS, scale=0, unit=False)
    np.testing.assert_allclose(flat, 50)
    sharp = two.items_read(16, 50, SEEDS, scale=1e3, unit=False)
    np.testing.assert_allclose(sharp, 1)


@pytest.mark.parametrize(("d_k", "queries"), [(64, 40), (1024, 10)])
def test_scores_of_spread_one_read_a_share_of_one_over_e(d_k, queries):
    """E[exp(s)]^2 / E[exp(2 s)] = 1/e for a standard normal s."""
    read = two.items_read(d_k, 2048, range(queries), scale=d_k**-0.5, unit=False)
    # the spread of one query's scores is its length over sqrt(d_k): near 1, not 1,
    # and the nearer the wider it is
    assert read.mean() / 2048 == pytest.approx(1 / np.e, rel=0.1)


def test_the_scale_that_is_needed_is_the_one_that_theory_gives():
    """The others weigh (N - 1) exp(s^2 / 2d) against exp(s); together a tenth here."""
    N, d = 512, 64
    scale = np.mean([two.scale_needed(N, seed, d=d) for seed in range(3)])
    assert scale - scale**2 / (2 * d) == pytest.approx(np.log(9 * (N - 1)), rel=0.03)


def test_no_scale_tells_twins_apart():
    with pytest.raises(ValueError, match="no scale"):
        two.scale_needed(1000, 0, d=2, error=1e-6)
