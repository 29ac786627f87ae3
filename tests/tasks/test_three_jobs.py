"""Three jobs: their streams, the three parts against other code, and who does what."""

from itertools import pairwise

import numpy as np
import pytest

from ctlearn.features import elu_plus_one, identity
from ctlearn.mixers import gated_delta_rule, softmax_attention
from ctlearn.tasks import three_jobs
from ctlearn.tasks.three_jobs import Parts, both_signs, draw, keep, read

SMALL = {"T": 60, "d": 5, "exceptions": 4, "recent": 6, "old": 20}


@pytest.fixture
def small():
    return [draw(seed, **SMALL) for seed in range(3)]


def test_a_stream_asks_for_what_it_told_and_for_its_rule():
    sizes = {"T": 400, "d": 8, "exceptions": 100, "recent": 16, "old": 200}
    k, v, asked, answers = draw(0, detail=0.8, **sizes)
    np.testing.assert_allclose((k**2).sum(axis=1), 1)
    assert [len(q) for q in asked] == [16, 100, 256]
    np.testing.assert_array_equal(asked[0], k[-16:])
    np.testing.assert_array_equal(answers[0], v[-16:])
    at = [int(np.flatnonzero((k == key).all(axis=1))[0]) for key in asked[1]]
    assert len(set(at)) == 100
    assert min(at) >= 8
    assert max(at) < 200
    np.testing.assert_array_equal(answers[1], v[at])
    # what the rule says is linear in the keys; ordinary values are it and a detail
    W = np.linalg.lstsq(asked[2], answers[2], rcond=None)[0]
    np.testing.assert_allclose(asked[2] @ W, answers[2])
    missed = ((v - k @ W) ** 2).mean(axis=1)
    strange = np.isin(np.arange(400), at)
    assert missed[~strange].mean() == pytest.approx(0.64, rel=0.1)
    assert missed[strange].mean() == pytest.approx(1 + 0.36, rel=0.2)
    assert (v**2).mean() == pytest.approx(1, rel=0.15)


def test_exceptions_are_old_unless_told_otherwise():
    for x in map(draw, range(5)):
        at = np.flatnonzero((x.k[:, None] == x.asked[1]).all(axis=2).any(axis=1))
        assert len(x.k) == 512
        assert len(at) == 12
        assert (at >= 32).all()
        assert (at < 512 - 128).all()


@pytest.mark.parametrize("phi", [identity, both_signs, elu_plus_one])
def test_without_a_cache_the_state_is_the_gated_delta_rules(small, phi):
    kept = keep(small, Parts(window=7, phi=phi), beta=0.3, decay=0.9)
    for x, S, K, V in zip(small, *kept, strict=True):
        f, v = phi(x.k[:-7]), x.v[:-7]
        gates = {"log_decay": np.full(53, np.log(0.9)), "beta": np.full(53, 0.3)}
        _, expected = gated_delta_rule.recurrent(f, f, v, **gates)
        np.testing.assert_allclose(S, expected)
        np.testing.assert_array_equal(K, x.k[-7:])
        np.testing.assert_array_equal(V, x.v[-7:])


@pytest.mark.parametrize("phi", [identity, elu_plus_one])
def test_the_cache_keeps_what_the_state_recalls_worst(small, phi):
    kept = keep(small, Parts(window=3, held=4, phi=phi), beta=0.2, decay=0.7)
    for x, S, K, V in zip(small, *kept, strict=True):
        state, held = np.zeros((5, 5)), []
        for pair in zip(x.k[:-3], x.v[:-3], strict=True):
            held.append(pair)
            if len(held) > 4:
                # asked before anything fades; what is written is compared afterwards
                wrong = [np.linalg.norm(phi(k) @ state - v) for k, v in held]
                k, v = held.pop(int(np.argmin(wrong)))
                state = 0.7 * state
                state = state + 0.2 * np.outer(phi(k), v - phi(k) @ state)
        np.testing.assert_allclose(S, state)
        np.testing.assert_array_equal(K[:4], [k for k, _ in held])
        np.testing.assert_array_equal(V[:4], [v for _, v in held])
        np.testing.assert_array_equal(K[4:], x.k[-3:])


def test_both_signs_are_the_two_halves_of_a_number():
    x = np.random.default_rng(0).standard_normal((4, 3))
    above, below = np.split(both_signs(x), 2, axis=1)
    np.testing.assert_array_equal(above - below, x)
    np.testing.assert_array_equal(above * below, 0 * x)
    assert (above >= 0).all()


def test_errors_of_a_state_are_those_of_its_answers(small):
    found = three_jobs.part_errors(small, Parts(phi=identity), beta=0.3, decay=0.9)
    for i, x in enumerate(small):
        gates = {"log_decay": np.full(60, np.log(0.9)), "beta": np.full(60, 0.3)}
        _, S = gated_delta_rule.recurrent(x.k, x.k, x.v, **gates)
        for job, (q, y) in enumerate(zip(x.asked, x.answers, strict=True)):
            expected = np.linalg.norm(q @ S - y) ** 2 / np.linalg.norm(y) ** 2
            assert found[job, i] == pytest.approx(expected)


def test_a_sum_is_read_at_the_best_scale_for_each_job(small):
    found = three_jobs.sum_errors(small, both_signs).T
    states = [both_signs(x.k).T @ x.v for x in small]
    for job in range(3):
        pairs = [
            (both_signs(x.asked[job]) @ S) for x, S in zip(small, states, strict=True)
        ]
        wanted = [x.answers[job] for x in small]

        def missed(scale, pairs=pairs, wanted=wanted):
            both = zip(pairs, wanted, strict=True)
            return np.array([((scale * a - y) ** 2).sum() for a, y in both])

        # the sum of squares is a parabola in the scale: three points tell its lowest
        a, b, _ = np.polyfit((0, 1, 2), [missed(s).sum() for s in (0, 1, 2)], 2)
        np.testing.assert_allclose(found[:, job], missed(-b / 2 / a) / missed(0))


def test_one_mean_reads_all_parts(small):
    parts = Parts(window=3, held=2, phi=both_signs)
    kept = keep(small, parts, beta=0.5)
    q = np.stack([x.asked[2] for x in small])
    said = read(kept, parts, q, sharpness=6, threshold=0.5)
    for q_i, S, K, V, o in zip(q, *kept, said, strict=True):
        weights = np.exp(6 * (q_i @ K.T - 1))
        state = np.exp(6 * (0.5 - 1))
        total = weights @ V + state * both_signs(q_i) @ S
        expected = total / (weights.sum(axis=1) + state)[:, None]
        np.testing.assert_allclose(o, expected)


def test_a_window_of_all_pairs_is_softmax_attention(small):
    kept = keep(small, Parts(window=60))
    q = np.stack([x.k for x in small])
    said = read(kept, Parts(window=60), q, sharpness=3)
    for x, o in zip(small, said, strict=True):
        expected = softmax_attention.recurrent(3 * x.k, x.k, x.v)[0][-1]
        np.testing.assert_allclose(o[-1], expected)


def test_room_is_counted():
    assert three_jobs.numbers(Parts(window=32), 32) == 2048
    assert three_jobs.numbers(Parts(phi=both_signs), 32) == 2048
    assert three_jobs.numbers(Parts(window=8, held=8, phi=identity), 32) == 2048


def test_the_best_for_each_job_is_better_than_one_setting():
    tried = [np.array([[1.0, 2.0], [5.0, 5.0]]), np.array([[3.0, 1.0], [4.0, 4.0]])]
    best = three_jobs.best_for_each_job(tried)
    np.testing.assert_array_equal(best, [[1.0, 2.0], [4.0, 4.0]])


def test_each_job_has_a_part_that_does_it():
    """Seeds that the chapter does not use; its bounds, job by job."""
    drawn = [draw(seed) for seed in range(20, 23)]
    states = [
        three_jobs.part_errors(drawn, Parts(phi=both_signs), beta=beta)
        for beta in (1.0, 0.5, 0.2, 0.1)
    ]
    state = three_jobs.best_for_each_job(states)
    assert (state[0] > 0.1).all()
    assert (state[1] > 1).all()
    window = three_jobs.best_for_each_job(
        three_jobs.window_errors(drawn, 32, (8, 40))
        + three_jobs.ridge_errors(drawn, 32, (0.01, 0.1, 1))
    )
    assert (window[0] < 1e-6).all()
    assert (window[1] > 0.9).all()
    assert (window[2] > 0.3).all()
    parts = {"window": Parts(16, 0, identity), "cache": Parts(0, 16, identity)}
    both = {
        name: three_jobs.part_errors(drawn, x, beta=0.2) for name, x in parts.items()
    }
    for found in both.values():
        assert (found[2] < 0.07).all()
    assert (both["window"][0] < 0.01).all()
    assert (both["window"][1] > 1).all()
    assert (both["cache"][1] < 0.3).all()
    # a scale does not help a sum of pairs to tell one of them
    assert (three_jobs.sum_errors(drawn, both_signs)[:2] > 0.4).all()


def test_ridge_regression_solves_its_equations(small):
    first, second = three_jobs.ridge_errors(small, 6, (1e-9, 1e3))
    # six pairs and five channels: not exact, and a large penalty is near silence
    assert (first[0] < 0.9).all()
    assert (abs(second - 1) < 0.02).all()
    sharper = three_jobs.window_errors(small, 6, (1, 10, 100))
    assert all((a[0] > b[0]).all() for a, b in pairwise(sharper))
