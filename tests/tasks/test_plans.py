"""Plans side by side: what is measured is what is meant."""

import time

import numpy as np
import pytest

from ctlearn import cost
from ctlearn.mixers import linear_attention
from ctlearn.mixers.softmax_attention import Cache
from ctlearn.tasks import plans


def test_keys_and_queries_are_about_one_long_and_values_are_not():
    q, k, v = plans.tokens(400, 64)
    lengths = [np.linalg.norm(x, axis=1).mean() for x in (q, k, v)]
    assert lengths == pytest.approx([1, 1, 8], rel=0.02)
    assert plans.tokens(3, 2, dtype="float32").dtype == np.float32


def test_seconds_is_the_least_of_several():
    naps = iter([0, 0.03, 0.01, 0.02, *[0.03] * 9])
    least = plans.seconds(lambda: time.sleep(next(naps)))
    assert 0.01 <= least < 0.03


def test_peak_counts_what_is_held_at_one_time():
    def twice(n):
        first = np.ones(n)
        del first
        return np.ones(n)

    assert plans.peak_bytes(twice, 10**6) == pytest.approx(8e6, rel=0.01)


def test_prefix_sums_are_right_and_keep_a_state_for_each_token():
    q, k, v = plans.tokens(512, 16)
    o, _ = linear_attention.recurrent(q, k, v)
    assert plans.relative_error(plans.prefix_sums(q, k, v), o) < 1e-14
    kept = 8 * cost.prefix_states_numbers(512, 16, 16)
    assert plans.peak_bytes(plans.prefix_sums, q, k, v) > kept
    assert plans.peak_bytes(linear_attention.chunkwise, q, k, v) < kept / 2


def test_a_read_of_the_cache_is_the_last_output():
    q, k, v = plans.tokens(20, 8)
    o, _ = linear_attention.recurrent(q, k, v)
    assert plans.read_cache(q[-1], Cache(k, v)) == pytest.approx(o[-1])


def test_relative_error_does_not_depend_on_the_scale():
    exact = np.array([3.0, 4.0])
    assert plans.relative_error(1.01 * exact, exact) == pytest.approx(0.01)
    assert plans.relative_error(-7 * 1.01 * exact, -7 * exact) == pytest.approx(0.01)


def test_the_fit_finds_both_terms_whatever_their_size():
    size = np.array([4, 16, 64, 256])
    first, second = 1 / size, 1e6 * size
    fitted = plans.fit_two_terms(first, second, 3e-5 * first + 2e-12 * second)
    assert fitted == pytest.approx((3e-5, 2e-12))


def test_lines_cross_where_one_stays_above():
    x = np.array([1, 2, 3, 4])
    assert plans.crossing(x, [0, 5, 2, 4], [1, 1, 3, 3]) == 4
    assert plans.crossing(x, [2, 2, 2, 2], [1, 1, 1, 1]) == 1
    assert plans.crossing(x, [2, 2, 2, 0], [1, 1, 1, 1]) == np.inf
