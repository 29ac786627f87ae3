"""Trained starts: the learner by hand, waves without a linear part, and teaching."""

import numpy as np
import pytest
import torch

from ctlearn import inner
from ctlearn.inner import Affine, Perceptron, Training
from ctlearn.mixers import ttt_linear
from ctlearn.tasks import trained_starts
from ctlearn.tasks.trained_starts import D_V, INNER_BATCH, Start, T
from ctlearn.tasks.training import ON_A_PROCESSOR

SMALL = ON_A_PROCESSOR._replace(seeds=2)


@pytest.mark.parametrize("both", [True, False], ids=["both layers", "the last"])
def test_the_learner_is_the_reference(both):
    generator = torch.Generator().manual_seed(0)
    start = trained_starts.random_start(2, generator)
    start = Start(*(w + torch.randn(w.shape, generator=generator) / 4 for w in start))
    told = trained_starts.draw(2, 3, generator)
    found = trained_starts.missed(start, told, 0.05, both=both)[1, 2]
    W_1, b_1, W_2, b_2 = (w[1].double().numpy() for w in start)
    x, y = (rows[1, 2].double().numpy() for rows in told)
    f = Perceptron(W_1, b_1, W_2, b_2)
    if not both:
        x, f = inner.gelu(x @ W_1 + b_1), Affine(W_2, b_2)
    given = {"beta": np.full(T, 0.05), "inner_batch": INNER_BATCH}
    S = Training.start(f)
    o, _ = ttt_linear.recurrent(x[1:], x[:-1], y[:-1], **given, S=S)
    wanted = ((o - y[1:]) ** 2).mean(axis=1)
    assert np.allclose(found.numpy(), wanted, rtol=1e-3, atol=1e-5)


def test_no_part_of_a_wave_is_linear_in_the_point():
    told = trained_starts.draw(1, 4000, torch.Generator().manual_seed(1))
    x, y = (rows[0].flatten(0, 1) for rows in told)
    assert y.square().mean().item() == pytest.approx(1, abs=0.05)
    # within a sequence, over many points: a map of its own for each would see nothing
    angle = torch.atan2(x[..., 1], x[..., 0])
    wave = torch.stack([(2 * angle).cos(), (2 * angle).sin()], -1)
    assert abs((x.T @ wave) / len(x)).max() < 0.02
    A = torch.linalg.lstsq(wave.view(4000, T + 1, 2), told.y[0]).solution
    assert torch.allclose(wave.view(4000, T + 1, 2) @ A, told.y[0], atol=1e-3)
    assert abs(A.mean(0)).max() < 0.1
    # any phase is as likely
    assert A.square().mean((0, 2)).tolist() == pytest.approx([1, 1], abs=0.1)


def test_teaching_finds_a_start_that_learns():
    random = trained_starts.random_start(2, torch.Generator().manual_seed(0))
    betas = (0.005, 0.02, 0.05)
    _, before = trained_starts.errors(random, betas, both=False)
    assert before.shape == (2, T)
    assert (before.mean(1) > 0.9).all()
    taught = trained_starts.teach(both=False, steps=100, batch=8, where=SMALL)
    best, after = trained_starts.errors(taught, betas, both=False)
    assert best == 0.05
    assert (after.mean(1) < 0.8).all()
    assert taught.W_2.shape[-1] == D_V


def test_answering_zero_scores_one_and_what_runs_away_is_never_best():
    start = trained_starts.random_start(2, torch.Generator().manual_seed(0))
    best, found = trained_starts.errors(start, [1e30, 0.0], both=True)
    assert best == 0
    assert found.mean(1).tolist() == pytest.approx([1, 1])


def test_a_start_is_judged_on_other_sequences_than_it_was_taught_on(monkeypatch):
    seen, draw = [], trained_starts.draw

    def drawn(*sizes_and_generator):
        seen.append(sizes_and_generator[-1].initial_seed())
        return draw(*sizes_and_generator)

    monkeypatch.setattr(trained_starts, "draw", drawn)
    start = trained_starts.teach(both=False, steps=1, batch=2, seed=3, where=SMALL)
    trained_starts.errors(start, [0.05], both=False, seed=3)
    # and its step size is chosen on others again
    assert len(seen) == len(set(seen)) == 3


def test_one_seed_is_one_result():
    runs = [
        trained_starts.teach(both=False, steps=2, batch=2, seed=seed, where=SMALL)
        for seed in (3, 3, 4)
    ]
    assert torch.equal(runs[0].W_1, runs[1].W_1)
    assert not torch.equal(runs[0].W_1, runs[2].W_1)
