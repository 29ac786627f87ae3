"""One switch: learners are what they are called, and the theory of one of them."""

import numpy as np
import pytest

from ctlearn.mixers import delta_rule, softmax_attention
from ctlearn.tasks import one_switch, streams
from ctlearn.tasks.one_switch import Learner
from ctlearn.tasks.streams import answers_before, clean_values

STREAM = streams.switching(0, 40, 3, 2, every=20, noise=0.3, lengths=0.4)
CLEAN = streams.switching(0, 120, 3, 2, every=120)


def fitted(stream, t, weights, ridge):
    """The map of least squares on the first t pairs, by the normal equations."""
    k, v = stream.k[:t], stream.v[:t]
    H = (weights[:, None] * k).T @ k + ridge * np.eye(k.shape[1])
    return np.linalg.solve(H, (weights[:, None] * k).T @ v)


@pytest.mark.parametrize("t", [1, 5, 39])
def test_exact_learners_answer_by_the_normal_equations(t):
    """Token t is asked after t pairs; the two ridges differ, and the weights do not."""
    weights = 0.9 ** np.arange(t)[::-1]
    answers = {
        one_switch.ask_mesa: fitted(STREAM, t, weights, 0.2),
        one_switch.ask_recursive: fitted(STREAM, t, weights, 0.2 * 0.9**t),
    }
    for ask, W in answers.items():
        assert ask(STREAM, (0.9, 0.2))[t] == pytest.approx(STREAM.k[t] @ W)
    flat = fitted(STREAM, t, np.ones(t), 0.2)
    assert one_switch.ask_mesa(STREAM, (1.0, 0.2))[t] == pytest.approx(
        STREAM.k[t] @ flat
    )


def test_kernel_and_local_fits_multiply_the_scores():
    t, tau = 30, 2.0
    k, v = STREAM.k[:t], STREAM.v[:t]
    A, b = np.exp(tau * k @ k.T), np.exp(tau * k @ STREAM.k[t])
    wanted = b @ np.linalg.solve(A + 0.1 * np.eye(t), v)
    assert one_switch.ask_kernel_ridge(STREAM, (tau, 0.1))[t] == pytest.approx(wanted)
    # a slope that costs too much leaves attention's mean
    said = one_switch.ask_local_linear(STREAM, (tau, 1e9))
    asked = tau * np.roll(STREAM.k, -1, axis=0)
    mean, _ = softmax_attention.parallel(asked, STREAM.k, STREAM.v)
    assert said[1:] == pytest.approx(mean[:-1])


def test_two_steps_at_a_token_are_two_tokens():
    """The pair before it, then its own; the first token has its own twice."""
    twice = np.repeat(np.arange(40), 2)
    twice[0::2] = np.maximum(twice[0::2] - 1, 0)
    _, S = delta_rule.recurrent(
        STREAM.k[twice[:-2]],
        STREAM.k[twice[:-2]],
        STREAM.v[twice[:-2]],
        beta=np.full(78, 0.4),
    )
    assert one_switch.ask_last_two(STREAM, 0.4)[-1] == pytest.approx(STREAM.k[-1] @ S)


def test_explicit_and_implicit_steps_agree_where_they_should():
    """Longhorn at strength b is the delta rule's b / (1 + b k'k), token by token."""
    square = (STREAM.k**2).sum(axis=1)
    said = answers_before(delta_rule.chunkwise, STREAM, beta=2 / (1 + 2 * square))
    assert one_switch.ask_longhorn(STREAM, 2.0) == pytest.approx(said)
    said = answers_before(delta_rule.chunkwise, STREAM, beta=0.7 / square)
    assert one_switch.ask_normalised(STREAM, 0.7) == pytest.approx(said, rel=1e-6)
    gated = one_switch.ask_gated(STREAM, (1.0, 0.4))
    assert gated == pytest.approx(one_switch.ask_delta(STREAM, 0.4))


def test_errors_are_against_clean_values_and_find_the_best():
    drawn = [streams.switching(seed, 40, 3, 2, every=20) for seed in range(3)]
    delta = Learner(one_switch.ask_delta, (0.01, 0.5, 1.9))
    found = one_switch.errors(delta, drawn, 0.5)
    missed = one_switch.ask_delta(drawn[1], 0.5) - clean_values(drawn[1])
    assert found[1] == pytest.approx((missed**2).mean(axis=1))
    best = one_switch.best(delta, drawn)
    assert best.settings == [0.5] * 3
    assert (best.errors == found).all()
    raw, scaled = (
        one_switch.errors(Learner(one_switch.ask_sum, (), rescale), drawn, 1.0)
        for rescale in (False, True)
    )
    assert scaled.mean() < raw.mean()


def test_a_learner_that_runs_away_is_never_best():
    long = streams.switching(0, 400, 3, 2, every=400, lengths=1.0)
    away = Learner(one_switch.ask_delta, (1e6, 0.1))
    assert one_switch.errors(away, [long], 1e6)[0, -1] == np.inf
    assert one_switch.best(away, [long] * 2).settings == [0.1] * 2


def test_a_stream_has_no_say_in_its_own_setting():
    """One has values of 1, the other of 2, and a setting is what is always said."""
    one, v = np.ones((4, 1)), (np.ones((4, 1)), np.full((4, 1), 2.0))
    drawn = [streams.Stream(one, x, x[..., None]) for x in v]
    found = one_switch.best(Learner(lambda x, said: 0 * x.v + said, (1, 2)), drawn)
    assert found.settings == [2, 1]
    assert found.errors.tolist() == [[1] * 4] * 2
    with pytest.raises(ValueError, match="streams: expected at least two, got 1"):
        one_switch.best(one_switch.LEARNERS["delta rule"], [CLEAN])


@pytest.mark.parametrize("name", one_switch.LEARNERS)
def test_every_learner_has_settings_that_learn(name):
    """A rule without noise, and so many tokens that all are well below silence."""
    learner = one_switch.LEARNERS[name]
    found = one_switch.errors(learner, [CLEAN], learner.settings[-1])
    assert found[0, -40:].mean() < 0.5


def test_spans_around_the_switch_and_bins():
    errors = np.arange(12.0)[None]
    before, after = one_switch.two_errors(errors, 6, 3)
    assert (before.tolist(), after.tolist()) == ([4.0], [7.0])
    assert one_switch.in_bins(errors, 5).tolist() == [[2.0, 7.0]]
    assert one_switch.in_bins(errors, 6).tolist() == [[2.5, 8.5]]


@pytest.mark.parametrize("beta", [0.3, 1.0])
def test_theory_foretells_both_errors_of_the_delta_rule(beta):
    drawn = [
        streams.switching(seed, 400, 8, 8, every=200, noise=0.5) for seed in range(16)
    ]
    errors = one_switch.errors(Learner(one_switch.ask_delta, ()), drawn, beta)
    found = one_switch.two_errors(errors, 200, 32)
    told = one_switch.expected_delta(beta, 8, 0.5, 32)
    for mean, wanted in zip(found, told, strict=True):
        standard_error = mean.std(ddof=1) / np.sqrt(len(drawn))
        assert abs(mean.mean() - wanted) < 4 * standard_error
        assert standard_error < 0.1 * wanted
