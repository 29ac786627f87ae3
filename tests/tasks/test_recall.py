"""Recall: the task against theory that it does not use."""

import numpy as np
import pytest

from ctlearn.features import elu_plus_one, quadratic
from ctlearn.tasks import recall


def draw(seed, n, d, cosine=0.0):
    rng = np.random.default_rng(seed)
    if cosine:
        k = recall.keys_with_cosine(rng, n, d, cosine)
    else:
        k = recall.unit_vectors(rng, n, d)
    return k, recall.unit_vectors(rng, n, d)


def test_orthonormal_keys_are_recalled_exactly():
    k = np.linalg.qr(np.random.default_rng(0).standard_normal((6, 6)))[0]
    v = np.random.default_rng(1).standard_normal((6, 4))
    assert recall.recall(k, v) == pytest.approx(v)


def test_a_shared_direction_gives_the_cosine_asked_for():
    k, _ = draw(0, 400, 32, cosine=0.3)
    assert np.linalg.norm(k, axis=1) == pytest.approx(1)
    cosines = recall.cosines(k)
    assert cosines.mean() == pytest.approx(0.3, abs=0.005)
    assert (cosines**2).mean() == pytest.approx(0.3**2 + 0.7**2 / 31, rel=0.02)
    alike, _ = draw(0, 3, 4, cosine=1)
    assert alike == pytest.approx(np.tile(alike[0], (3, 1)))


@pytest.mark.parametrize("cosine", [-0.1, 1.1])
def test_a_cosine_that_keys_cannot_share_is_refused(cosine):
    with pytest.raises(ValueError, match="cosine: expected"):
        recall.keys_with_cosine(np.random.default_rng(0), 2, 3, cosine)


@pytest.mark.parametrize(("n", "cosine"), [(8, 0), (64, 0), (40, 0.2)])
def test_the_mean_error_is_the_expected_one(n, cosine):
    errors = []
    for seed in range(40):
        k, v = draw(seed, n, 32, cosine)
        errors.append(recall.error(recall.recall(k, v), v))
    spread = np.std(errors) / np.sqrt(len(errors))
    expected = recall.expected_error(n, 32, cosine)
    assert abs(np.mean(errors) - expected) < 4 * spread


def test_the_best_scale_is_shared_and_beats_its_neighbours():
    drawn = [draw(seed, 30, 16) for seed in range(3)]
    v = np.stack([v for _, v in drawn])
    answers = np.stack([recall.recall(k, v) for k, v in drawn])
    c = recall.best_scale(answers, v)
    best = recall.error(c * answers, v)
    assert best < min(recall.error(s * c * answers, v) for s in (0.98, 1.02))
    x = 29 / 16
    assert best == pytest.approx(x / (1 + x), rel=0.1)


def test_no_matrix_beats_the_best_one():
    k, v = draw(0, 30, 10)
    best = recall.error(recall.recall_best(k, v), v)
    assert best == pytest.approx(1 - 10 / 30, rel=0.15)
    S = np.linalg.lstsq(k, v, rcond=None)[0]
    for seed in range(5):
        other = S + 0.01 * np.random.default_rng(seed).standard_normal(S.shape)
        assert recall.error(k @ other, v) > best
    few_k, few_v = draw(0, 10, 10)
    assert recall.error(recall.recall_best(few_k, few_v), few_v) < 1e-20


def test_accuracy_counts_the_right_value_among_the_stored():
    v = np.eye(3)
    answers = np.array([[0.2, 0.1, 0], [0.5, 0.4, 0], [-3, -2, -1]])
    assert recall.accuracy(answers, v) == pytest.approx(2 / 3)


def test_features_change_the_cosines_as_their_kernels_say():
    k, _ = draw(0, 50, 8)
    assert recall.cosines(k, quadratic) == pytest.approx(recall.cosines(k) ** 2)
    assert recall.cosines(k, elu_plus_one).min() > 0
    assert len(recall.cosines(k)) == 50 * 49


def test_most_pairs_finds_the_first_failure_of_a_rule_that_fails_once():
    rng = np.random.default_rng(0)
    assert recall.most_pairs(lambda _, v: len(v) <= 13, rng, 4, 3, 100) == 13
    assert recall.most_pairs(lambda _, v: True, rng, 4, 3, 20) == 20
    assert recall.most_pairs(lambda _, v: False, rng, 4, 3, 20) == 0


@pytest.mark.parametrize(("d_k", "d_v"), [(64, 64), (64, 128)])
def test_the_rule_of_thumb_for_argmax_is_of_the_right_size(d_k, d_v):
    def passes(answers, v):
        return recall.accuracy(answers, v) >= 0.99

    held = [
        recall.most_pairs(passes, np.random.default_rng(seed), d_k, d_v, 1024)
        for seed in range(10)
    ]
    thumb = recall.pairs_by_argmax(d_k, d_v)
    assert np.mean(held) / thumb == pytest.approx(1.2, abs=0.3)
