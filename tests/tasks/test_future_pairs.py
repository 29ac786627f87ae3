"""Future pairs: rules are what they claim, and one step errs as much as it should."""

import numpy as np
import pytest

from ctlearn.mixers import kernel_ridge_attention, linear_attention
from ctlearn.tasks import future_pairs, recall

RULES = (
    future_pairs.linear,
    future_pairs.curved,
    future_pairs.wavy,
    future_pairs.unrelated,
)


@pytest.mark.parametrize("rule", RULES)
def test_keys_and_values_are_of_size_one_and_keys_do_not_depend_on_the_rule(rule):
    x = future_pairs.lesson(rule, 3, 3000, 4, 400, asked=50)
    assert (x.k**2).sum(axis=1) == pytest.approx(np.ones(3000))
    # 400 rules at once, each of a spread of about one
    assert (x.v**2).mean() == pytest.approx(1, abs=0.15)
    other = future_pairs.lesson(future_pairs.linear, 3, 3000, 4, 1, asked=50)
    assert (x.k == other.k).all()
    assert (x.asked == other.asked).all()


def test_noise_is_told_and_not_asked():
    clean, noisy = (
        future_pairs.lesson(future_pairs.curved, 1, 4000, 3, 2, noise=s) for s in (0, 2)
    )
    assert (noisy.v - clean.v).std() == pytest.approx(2, rel=0.05)
    assert (noisy.answers == clean.answers).all()


def test_only_a_linear_rule_is_a_matrix():
    """Of the others a share is left that no matrix expresses; without a rule, all."""
    left = {}
    for rule in RULES:
        x = future_pairs.lesson(rule, 0, 4000, 3, 40)
        left[rule.__name__] = recall.error(recall.recall_best(x.k, x.v), x.v)
    assert left["linear"] < 1e-20
    assert 0.1 < left["curved"] < 0.4
    assert 0.1 < left["wavy"] < 0.4
    assert left["unrelated"] > 0.99


@pytest.mark.parametrize(("t", "noise"), [(4, 0.0), (64, 0.0), (16, 1.0)])
def test_one_step_errs_as_expected(t, noise):
    """The law m / (m + t), and the step that reaches it, over 150 rules."""
    lessons = [
        future_pairs.lesson(future_pairs.linear, s, t, 8, 4, noise=noise, asked=100)
        for s in range(150)
    ]
    step = future_pairs.best_step(t, 8, noise)
    errors = {
        eta: [
            recall.error(future_pairs.ask_one_step(x, eta), x.answers) for x in lessons
        ]
        for eta in (0.8 * step, step, 1.25 * step)
    }
    found = np.array(errors[step])
    expected = future_pairs.expected_error(t, 8, noise)
    # a ratio of means is a little less than the mean of ratios
    assert abs(found.mean() - expected) < 3 * found.std() / np.sqrt(150) + 0.02
    means = [np.mean(errors[eta]) for eta in errors]
    assert means[1] == min(means)


def test_one_step_of_size_one_is_linear_attention():
    x = future_pairs.lesson(future_pairs.curved, 0, 30, 5, 2, noise=0.3)
    _, S = linear_attention.recurrent(x.k, x.k, x.v)
    assert future_pairs.ask_one_step(x, 1.0) == pytest.approx(x.asked @ S)


def test_fewer_pairs_have_the_same_questions():
    x = future_pairs.lesson(future_pairs.linear, 0, 9, 5, 2)
    few = future_pairs.first(x, 4)
    assert (few.k == x.k[:4]).all()
    assert (few.answers == x.answers).all()
    again = future_pairs.asked_again(few)
    assert (again.asked == few.k).all()
    assert (again.answers == few.v).all()


def test_kernel_ridge_regression_is_the_mechanism_on_longer_keys():
    x = future_pairs.lesson(future_pairs.curved, 0, 20, 3, 2, asked=4)
    tau, ridge = 4.0, 0.1
    said = future_pairs.ask_kernel_ridge(x, (tau, ridge))
    for question, answer in zip(x.asked, said, strict=True):
        asked = np.broadcast_to(question, x.k.shape)
        o, _ = kernel_ridge_attention.parallel(
            asked,
            x.k,
            x.v,
            ridge=ridge,
            kernel=lambda a, b: np.exp(tau * (a @ b.T - 1)),
        )
        assert o[-1] == pytest.approx(answer)
