"""Deep memories: the learner is Titans', and the trials ask what they say they ask."""

import math
from itertools import pairwise

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason='no torch: pip install "ctlearn[torch]"')

from ctlearn import cost  # noqa: E402
from ctlearn.inner import MUON  # noqa: E402
from ctlearn.layers import inner, titans  # noqa: E402
from ctlearn.tasks import deep_memories, future_pairs  # noqa: E402
from ctlearn.tasks.deep_memories import (  # noqa: E402
    KINDS,
    Lessons,
    Setting,
    Trial,
    begin,
    best,
)

SETTINGS = [Setting(0.02), Setting(0.01, 0.6)]


def lessons(T=24, d_k=5, d_v=4, n=3, rule=future_pairs.wavy):
    return Lessons.of([future_pairs.lesson(rule, i, T, d_k, d_v) for i in range(n)])


def by_titans(memory, told, inner_batch):
    """The layers that the package's own Titans makes of the same start."""
    x, v = memory._inputs(told.k)[:, :, None], memory._repeated(told.v)[:, :, None]
    gates = memory.betas[0], memory.mu
    beta, mu = (g[:, :, 0].expand(-1, x.shape[1])[..., None] for g in gates)
    f = inner.each(memory.f, lambda w: w[:, None])
    gates = {"log_decay": 0 * beta, "log_mu": mu.log(), "beta": beta}
    S = titans.Momentum.start(f, x, v)
    _, S = titans.chunkwise(x, x, v, **gates, S=S, inner_batch=inner_batch)
    return inner.each(S.M, lambda w: w[:, 0])


@pytest.mark.parametrize("kind", KINDS)
def test_token_by_token_it_is_titans(kind):
    told = lessons()
    memory = begin(kind, told, SETTINGS, d_h=7)
    wanted = by_titans(memory, told, 1)
    _, after = memory.learn(told.k, told.v, 1)
    for layer, other in zip(after.f, wanted, strict=True):
        for mine, theirs in zip(layer, other, strict=True):
            if mine is not None:
                torch.testing.assert_close(mine, theirs)


def test_mini_batches_without_momentum_are_those_of_titans():
    told = lessons()
    memory = begin("perceptron", told, [Setting(0.004)], d_h=7)
    (first, last), (_, theirs) = (
        memory.learn(told.k, told.v, 8)[1].f,
        by_titans(memory, told, 8),
    )
    torch.testing.assert_close(last.W, theirs.W)
    assert not torch.equal(first.W, memory.f[0].W)


def test_what_is_said_of_a_mini_batch_comes_before_it():
    told = lessons()
    memory = begin("perceptron", told, SETTINGS, d_h=7)
    said, _ = memory.learn(told.k, told.v, 8)
    _, halfway = memory.learn(told.k[:, :8], told.v[:, :8], 8)
    assert not said[:, :, :8].any()
    torch.testing.assert_close(said[:, :, 8:16], halfway.read(told.k[:, 8:16]))


def test_settings_and_sequences_do_not_meet():
    told = lessons()
    together = begin("perceptron", told, SETTINGS, d_h=7).learn(told.k, told.v, 4)[0]
    for i, setting in enumerate(SETTINGS):
        alone = begin("perceptron", told, [setting], d_h=7).learn(told.k, told.v, 4)[0]
        torch.testing.assert_close(together[i], alone[0])
    other = told.v.clone()
    other[1] += 1
    changed = begin("perceptron", told, SETTINGS, d_h=7).learn(told.k, other, 4)[0]
    assert torch.equal(changed[:, 0], together[:, 0])
    assert not torch.equal(changed[:, 1], together[:, 1])


def test_muon_takes_a_step_of_one_strength():
    told = lessons(d_k=6, d_v=6)
    memory = begin("matrix", told, [Setting(0.3)])
    _, after = memory.learn(told.k, told.v, 24, MUON)
    sizes = torch.linalg.svdvals(after.f[0].W) / 0.3
    assert ((sizes > 0.6) & (sizes < 1.2)).all()


def test_both_layers_of_a_perceptron_move_its_answers():
    """By the same order: without longer keys the first would by d_h times less."""
    told, d_h = lessons(T=128), 64
    memory = begin("perceptron", told, [Setting(0.001)], d_h=d_h)
    _, after = memory.learn(told.k, told.v, 8)
    moved = {}
    for i in range(2):
        f = list(after.f)
        f[i] = memory.f[i]
        moved[i] = (after.read(told.k) - after._replace(f=tuple(f)).read(told.k)).norm()
    assert 4 / d_h < moved[0] / moved[1] < 4
    drawn = begin("features", told, [Setting(0.002)], d_h=d_h)
    assert drawn.learn(told.k, told.v, 8)[1].drawn is drawn.drawn


def test_trials_ask_what_they_say():
    told = lessons(T=32)
    memory = begin("matrix", told, deep_memories.steps(0.3, count=6))
    by_pairs = deep_memories.after_pairs(memory, told, (16, 32), 4)
    by_passes = deep_memories.after_passes(memory, told, (1, 3), 4)
    assert by_pairs.shape == by_passes.shape == (2, 6, 3)
    # all pairs once is one pass
    torch.testing.assert_close(by_pairs[1], by_passes[0])
    assert (by_passes[1] < by_passes[0]).any()
    said, _ = memory.learn(told.k, told.v, 4)
    on_the_way = deep_memories.on_the_way(memory, told, 4)
    assert torch.equal(on_the_way, deep_memories.errors(said, told.v))
    lifted = deep_memories.after_passes(memory, told, (1,), 4, MUON)
    assert not torch.allclose(lifted[0], by_passes[0])


def test_sequences_that_are_reported_have_no_say_in_their_setting():
    """At each of two places they want the other setting than those for tuning."""
    trial = Trial(lessons(n=4), lessons(n=3))

    def ask(memory, told):
        beta = memory.betas[0].view(-1, memory.n)
        wanted = (0.2, 0.1) if told is trial.tuning else (0.1, 0.2)
        return torch.stack([(beta - x).abs() for x in wanted])

    found = best(ask, "matrix", trial, [Setting(0.1), Setting(0.2)])
    assert found == pytest.approx(np.full((2, 3), 0.1))


def test_they_are_told_what_they_would_be_told_alone():
    trial, settings = Trial(lessons(n=2), lessons()), deep_memories.steps(0.02, count=4)

    def ask(memory, told):
        return deep_memories.on_the_way(memory, told, 4)

    found = best(ask, "perceptron", trial, settings, d_h=7)
    alone = ask(begin("perceptron", trial.told, settings, d_h=7), trial.told)
    assert any(found == pytest.approx(row) for row in alone.numpy())


def test_a_step_at_which_one_ran_away_is_never_taken():
    said = torch.tensor([[[[math.nan]], [[0.0]]], [[[3.0]], [[3.0]]]])
    errors = deep_memories.errors(said, torch.ones(2, 1, 1))
    assert errors.tolist() == [[math.inf, 1.0], [4.0, 4.0]]
    trial = Trial(lessons(n=2), lessons(n=1))

    def ask(memory, told):
        beta = memory.betas[0].view(-1, memory.n)
        return errors if told is trial.tuning else beta

    settings = [Setting(0.5), Setting(0.25)]
    assert best(ask, "matrix", trial, settings).tolist() == [0.25]


def test_a_trial_is_tuned_on_sequences_of_its_own():
    seen = []

    def draw(seed):
        seen.append(seed)
        return future_pairs.lesson(future_pairs.linear, seed, 4, 3, 2)

    trial = Trial.of(draw, range(3), tuning=4)
    assert len(seen) == len(set(seen)) == 4 + 3
    assert len(trial.tuning.k) == 4
    assert np.array_equal(trial.told.k[2], draw(2).k)


def test_steps_halve_in_two_and_are_as_long_with_momentum():
    plain, rolling = deep_memories.steps(1, count=5), deep_memories.steps(1, mu=0.9)
    assert [x.beta for x in plain[::2]] == [1, 0.5, 0.25]
    assert all(a.beta > b.beta for a, b in pairwise(plain))
    assert rolling[0].beta / (1 - rolling[0].mu) == pytest.approx(1)


def test_rules_in_turn_last_as_long_as_asked():
    facts = deep_memories.in_turn(future_pairs.linear, 3, 40, 4, 2, every=16)
    assert facts.k.shape == (40, 4)
    maps = [
        np.linalg.lstsq(facts.k[a:b], facts.v[a:b], rcond=None)
        for a, b in ((0, 16), (16, 32), (32, 40))
    ]
    for found, _, _, _ in maps:
        assert np.abs(found - maps[0][0]).max() > 0.1 or found is maps[0][0]
    assert facts.k[32:] @ maps[2][0] == pytest.approx(facts.v[32:])
    assert facts.asked @ maps[2][0] == pytest.approx(facts.answers)


@pytest.mark.parametrize("power", [0, 1, 2])
def test_uneven_keys_reach_as_far_as_they_should(power):
    facts = deep_memories.uneven(0, 4000, 4, 3, power=power, noise=0)
    sizes = (facts.k**2).mean(axis=0)
    assert sizes.sum() == pytest.approx(1)
    assert sizes[0] / sizes == pytest.approx(np.arange(1.0, 5) ** (2 * power), rel=0.1)
    assert (facts.v**2).mean() == pytest.approx(1, rel=0.05)
    noisy = deep_memories.uneven(0, 4000, 4, 3, power=power, noise=0.5)
    assert (noisy.v - facts.v).std() == pytest.approx(0.5, rel=0.05)


def test_an_unknown_kind_is_named():
    with pytest.raises(ValueError, match=r"kind: expected one of .*, got 'tensor'"):
        begin("tensor", lessons(), SETTINGS)


@pytest.mark.parametrize("muon", [(), MUON])
def test_time_by_the_token_is_the_least_of_a_whole_chunk(muon, monkeypatch):
    clock = iter([0.0, 5.0, 5.0, 6.0, 10.0, 14.0])
    monkeypatch.setattr(deep_memories, "_now", lambda device: next(clock))
    assert deep_memories.seconds_per_token(8, 4, 4, muon=muon) == 1 / 8


def test_intensity_is_bounded_by_the_chunk():
    for C in (1, 16, 4096):
        for d_h in (8, 1 << 20):
            assert cost.large_chunk_intensity(C, 64, d_h) < 1.5 * C
    assert cost.large_chunk_intensity(16, 64, 1 << 30) == pytest.approx(24)
    assert cost.muon_operations(64, 64) == cost.large_chunk_operations(5 * 64, 64, 64)
