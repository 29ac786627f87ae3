"""The four jobs: what they ask, how answers are judged, and that all can be told."""

import numpy as np
import pytest

from ctlearn.composed import Choices
from ctlearn.mixers import mechanisms
from ctlearn.tasks import four_jobs

JOBS = four_jobs.jobs()


@pytest.fixture(params=range(four_jobs.SEEDS))
def draw(request):
    return request.param


def one(name, draw):
    return four_jobs.Job(*(x[draw] for x in JOBS[name]))


def latest(job, t):
    """The value that was last told at the key which is asked at t."""
    told = [j for j in range(t + 1) if np.array_equal(job.k[j], job.q[t])]
    return job.v[told[-1]]


@pytest.mark.parametrize("name", ["recall", "rebinding"])
def test_what_was_told_last_is_wanted(name, draw):
    job = one(name, draw)
    for t in range(four_jobs.T):
        assert np.array_equal(latest(job, t), job.wanted[t])


def test_any_pair_so_far_may_be_asked_for():
    job = four_jobs.jobs(40)["recall"]
    same = (job.q[:, :, None] == job.k[:, None]).all(axis=-1)
    asked = same.argmax(axis=2)
    ages = np.arange(four_jobs.T) - asked
    assert same.any(axis=2).all()
    # with forty draws at every token, both ends are met, and the middle is the mean
    assert ages[:, 4].min() == asked[:, 4].min() == 0
    assert ages.min() == 0
    assert (ages - asked).mean() == pytest.approx(0, abs=0.6)


def test_keys_return_in_one_job_only():
    for name, most in (("recall", four_jobs.T), ("rebinding", four_jobs.KEYS)):
        assert all(len(np.unique(k, axis=0)) == most for k in JOBS[name].k)


def test_what_a_map_says_is_wanted(draw, monkeypatch):
    """A map that stays is found from all pairs; one that drifts is not."""

    def missed():
        job = four_jobs.jobs(four_jobs.SEEDS)["drift"]
        W, *_ = np.linalg.lstsq(job.k[draw], job.v[draw], rcond=None)
        return float(four_jobs.error(job.q[draw] @ W, job.wanted[draw], axes=2))

    assert missed() > 0.3
    monkeypatch.setattr(four_jobs, "DRIFT", 0.0)
    assert missed() < 1e-12


def test_the_sign_turns_with_the_first_key(draw):
    job = one("tracking", draw)
    for t in range(1, four_jobs.T):
        sign = 1 - 2 * job.k[t, 0]
        assert np.array_equal(job.wanted[t], sign * job.wanted[t - 1])
    assert not job.v[1:].any()
    assert np.array_equal(job.wanted[0], job.v[0])


def test_errors_are_between_nothing_and_silence():
    wanted = JOBS["recall"].wanted
    assert four_jobs.error(3 * wanted, wanted) == pytest.approx(0, abs=1e-12)
    for said in (0 * wanted, np.nan * wanted, np.inf * wanted):
        assert four_jobs.error(said, wanted) == 1
    noise = np.random.default_rng(0).standard_normal(wanted.shape)
    assert 0.2 < four_jobs.error(wanted + noise, wanted) < 0.8
    assert four_jobs.error(1e200 * wanted, wanted) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("mechanism", mechanisms().values(), ids=mechanisms())
def test_every_mechanism_can_be_told(mechanism):
    """No exception stands behind an error of one."""
    options = four_jobs.dials(mechanism)
    # a share of 1 is not for all: waves that never fade are refused
    dials = {
        n: 0.9 if values[:2] == (1.0, 0.9) else values[0]
        for n, values in options.items()
    }
    for job in JOBS.values():
        said = four_jobs.answers(mechanism, job, dials)
        assert said.shape == job.wanted.shape
        assert np.isfinite(said).all()


def test_the_table_holds_all_and_says_what_is_known():
    table = four_jobs.table()
    assert set(table) == set(mechanisms())
    assert all(0 <= e <= 1 for row in table.values() for e in row.values())
    # a reflection is parity, and a list of pairs recalls
    assert table["delta_rule"]["tracking"] < 1e-12
    assert table["linear_attention"]["tracking"] > 0.9
    assert table["softmax_attention"]["recall"] < 0.01
    assert table["delta_rule"]["rebinding"] < table["retention"]["rebinding"] - 0.1


def test_a_composed_memory_is_set_on_other_draws():
    tried, asked = (four_jobs.jobs(2, first=n)["tracking"] for n in (9, 0))
    assert four_jobs.composed_errors(Choices(), tried, asked).max() < 1e-12
    gentle = four_jobs.composed_errors(Choices(schedule="batch"), tried, asked)
    assert gentle.shape == (2,)
    assert gentle.min() > 0.8


def test_a_decay_that_helps_on_other_draws_is_kept():
    tried, asked = (four_jobs.jobs(4, first=n)["rebinding"] for n in (9, 0))
    stays, fades = (
        four_jobs.composed_errors(Choices(objective="dot", control=c), tried, asked)
        for c in ("none", "rate")
    )
    assert fades.mean() < stays.mean() - 0.05


def test_rates_and_a_decay_are_set_and_sharpness_where_it_is_felt():
    dials = {name: four_jobs.dials(m) for name, m in mechanisms().items()}
    assert set(dials["gated_delta_rule"]) == {"beta", "log_decay"}
    assert set(dials["softmax_attention"]) == {"sharpness"}
    assert set(dials["momentum_delta_rule"]) == {"eta", "beta", "log_decay"}
    assert 2.0 in dials["delta_rule"]["beta"]
    assert 2.0 not in dials["gated_delta_rule"]["beta"]


@pytest.mark.parametrize("name", JOBS)
def test_the_error_is_that_of_the_dials_that_are_returned(name):
    mechanism, job = mechanisms()["momentum_delta_rule"], JOBS[name]
    least, dials = four_jobs.score(mechanism, job)
    assert set(dials) == set(four_jobs.dials(mechanism))
    said = four_jobs.answers(mechanism, job, dials)
    assert least == pytest.approx(float(four_jobs.error(said, job.wanted)), abs=1e-12)


def test_shares_of_one_axis_and_of_two_together():
    every = {
        Choices(objective=o, schedule=s): float((o == "dot") + 10 * (s == "batch"))
        for o in ("dot", "squared")
        for s in ("token", "batch")
    }
    shares = four_jobs.shares_explained(every)
    assert shares["objective"] == pytest.approx(1 / 101)
    assert shares["schedule"] == pytest.approx(100 / 101)
    assert shares["control"] == 0
    both = {c: float(c.objective == "dot" and c.schedule == "batch") for c in every}
    shares = four_jobs.shares_explained(both)
    assert shares["objective"] == shares["schedule"] == pytest.approx(1 / 3)
