"""Settling lowers the energy, and finds the pattern."""

import numpy as np

from ctlearn.mixers import hopfield_retrieval as hopfield
from ctlearn.supplies import Floats


def settle(K, x, tau, steps):
    """Where a question stands after some steps, with the keys as values."""
    questions = np.concatenate([K[:-1], x[None]])
    return hopfield.parallel(questions, K, K, tau=tau, steps=steps)[0][-1]


def energy(K, x, tau):
    scores = tau * K @ x
    largest = scores.max()
    return x @ x / 2 - (largest + np.log(np.exp(scores - largest).sum())) / tau


def test_no_step_raises_the_energy():
    supply = Floats(0)
    for tau in (0.5, 2.0, 8.0):
        K, x = supply.real("K", 12, 6), supply.real("x", 6)
        path = [x] + [settle(K, x, tau, steps) for steps in range(1, 8)]
        energies = np.array([energy(K, point, tau) for point in path])
        assert np.all(np.diff(energies) <= 1e-12)
        assert energies[1] < energies[0]


def test_a_disturbed_pattern_is_retrieved_in_one_step():
    supply = Floats(1)
    K = 4 * supply.unit("K", 10, 32)
    disturbed = K[3] + 0.3 * supply.real("x", 32)
    after = settle(K, disturbed, tau=4.0, steps=1)
    assert np.abs(disturbed - K[3]).max() > 0.3
    np.testing.assert_allclose(after, K[3], atol=1e-5)


def test_hot_questions_settle_on_the_mean_of_all_patterns():
    supply = Floats(2)
    K, x = supply.unit("K", 10, 32), supply.real("x", 32)
    settled = settle(K, x, tau=1e-3, steps=4)
    np.testing.assert_allclose(settled, K.mean(axis=0), atol=1e-3)


def test_more_steps_are_steps_from_where_the_question_stood():
    supply = Floats(3)
    K, x = supply.real("K", 8, 4), supply.real("x", 4)
    twice = settle(K, settle(K, x, 1.5, 1), 1.5, 1)
    np.testing.assert_allclose(settle(K, x, 1.5, 2), twice, rtol=1e-13)
