"""Kernels, ranks and masks, against what theory says of them."""

import numpy as np
import pytest

from ctlearn.features import (
    elu_plus_one,
    normalise,
    positive_random,
    quadratic,
    relu,
    softmax_feature,
    taylor,
)
from ctlearn.mixers import linear_attention, normalised_linear_attention
from ctlearn.tasks import trapdoor

SEEDS = range(3)


def test_scores_have_the_spread_that_was_asked_for():
    q, k = trapdoor.draw(0, 400, 16, 2.5)
    assert (q @ k.T).std() == pytest.approx(2.5, rel=0.05)
    assert (q**2).sum() == pytest.approx((k**2).sum(), rel=0.05)


def test_weights_are_those_of_the_mechanism():
    q, k = trapdoor.draw(0, 9, 3, 1)
    # the last token sees all, and values that are unit vectors show its weights
    o, _ = normalised_linear_attention.parallel(q, k, np.eye(9))
    weights = trapdoor.feature_weights(q, k, elu_plus_one)
    np.testing.assert_allclose(weights[-1], o[-1])
    np.testing.assert_allclose(trapdoor.softmax_weights(q, k).sum(axis=1), 1)


def test_taylor_features_are_three_terms_of_the_exponential():
    q, k = trapdoor.draw(1, 6, 5, 1)
    s = q @ k.T
    np.testing.assert_allclose(taylor(q) @ taylor(k).T, 1 + s + s**2 / 2)


def test_random_features_have_the_exponential_as_their_mean():
    q, k = trapdoor.draw(1, 4, 3, 0.5)
    W = np.random.default_rng(0).standard_normal((400_000, 3))
    found = positive_random(q, W) @ positive_random(k, W).T
    np.testing.assert_allclose(found, np.exp(q @ k.T), rtol=0.03)


def test_what_is_left_over_is_what_the_best_matrix_leaves():
    weights = trapdoor.softmax_weights(*trapdoor.draw(0, 12, 4, 1))
    rest = trapdoor.left_over(weights)
    assert rest[0] == pytest.approx(1)
    assert rest[-1] == 0
    U, s, Vt = np.linalg.svd(weights)
    for r in (1, 5, 11):
        best = (U[:, :r] * s[:r]) @ Vt[:r]
        assert trapdoor.missed(weights, best) == pytest.approx(rest[r])


def test_no_feature_map_beats_the_best_matrix_of_its_width():
    q, k = trapdoor.draw(0, 64, 8, 1)
    weights = trapdoor.softmax_weights(q, k)
    rest = trapdoor.left_over(weights)
    for phi, width in ((elu_plus_one, 8), (softmax_feature, 8), (taylor, 45)):
        found = trapdoor.feature_weights(q, k, phi)
        assert np.linalg.matrix_rank(found) <= width
        assert trapdoor.missed(weights, found) > rest[width]
        assert rest[width] < trapdoor.missed_at_best_scale(q, k, phi)
        assert trapdoor.missed_at_best_scale(q, k, phi) <= trapdoor.missed(
            weights, found
        )


def test_mild_scores_need_a_fixed_width_and_sharp_ones_a_growing_one():
    mild = [trapdoor.width_needed(N, 0.25, SEEDS).mean() for N in (64, 256)]
    sharp = [trapdoor.width_needed(N, 4, SEEDS).mean() for N in (64, 256)]
    assert mild == [1, 1]
    assert sharp[1] > 2 * sharp[0]


@pytest.mark.parametrize("phi", [elu_plus_one, relu, softmax_feature, quadratic])
def test_positive_features_give_a_key_at_most_their_share(phi):
    k = normalise(np.random.default_rng(0).standard_normal((400, 16)))
    width = phi(k).shape[1]
    mean = trapdoor.weight_on_own_key(k, phi, [0.5, 1, 4, 16])
    assert 1 / 400 < mean <= width / 400
    assert trapdoor.weight_on_own_key(k, None, [1, 64, 4096]) > 0.95


def test_a_mask_needs_as_many_states_as_its_blocks_have_dimensions():
    T = 48
    needed = {
        name: trapdoor.states_needed(mask(T)) for name, mask in trapdoor.MASKS.items()
    }
    assert needed["everything before"] == 1
    assert needed["decay, 0.9 a token"] == 1
    assert needed["documents of 16 tokens"] == 1
    assert needed["two decays added"] == 2
    assert needed["the last 8 tokens"] == 8
    assert needed["ones and zeros at random"] > T // 2 - 4


def test_a_mask_of_two_decays_is_applied_by_two_states():
    rng = np.random.default_rng(0)
    T = 30
    q, k, v = rng.standard_normal((3, T, 4))
    t = np.arange(T)[:, None]
    rates = np.array([[0.9, 0.5]])
    mask = trapdoor.MASKS["two decays added"](T)
    o = trapdoor.masked_scan(q, k, v, rates**t, rates**-t)
    np.testing.assert_allclose(o, (q @ k.T * mask) @ v, rtol=1e-9, atol=1e-9)
    ones = np.ones((T, 1))
    plain, _ = linear_attention.recurrent(q, k, v)
    np.testing.assert_allclose(trapdoor.masked_scan(q, k, v, ones, ones), plain)


def test_random_features_get_nearer_as_one_over_their_number():
    few, many = (
        np.mean([trapdoor.missed_by_random_features(m, seed) for seed in range(6)])
        for m in (128, 1024)
    )
    assert few / many == pytest.approx(8, rel=0.5)
