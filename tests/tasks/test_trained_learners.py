"""Trained learners: the layer by hand, its sequences, and what training must find."""

import numpy as np
import pytest
import torch

from ctlearn.inner import Linear, Training
from ctlearn.mixers import ttt_linear
from ctlearn.tasks import streams, trained_learners
from ctlearn.tasks.trained_learners import STARTS, D, T
from ctlearn.tasks.training import ON_A_PROCESSOR

SMALL = ON_A_PROCESSOR._replace(seeds=2)


def drawn_layers(shares=(0.0, 0.8), n=3):
    """Weights, sequences and which layers learn their start, for two seeds."""
    generator = torch.Generator().manual_seed(0)
    weights = trained_learners.initial_weights(2, len(shares), generator)
    with torch.no_grad():
        for x in weights.values():
            x.add_(0.1 * torch.randn(x.shape, generator=generator))
    U = trained_learners.shared_part(2, generator)
    m = torch.tensor(shares).repeat_interleave(2)
    drawn = trained_learners.draw(U, m, n, generator)
    return weights, drawn, torch.tensor([0.0, 1.0, 1.0, 0.0])


@pytest.mark.parametrize("inner_batch", [1, 8, T])
def test_the_layer_is_the_reference_between_maps(inner_batch):
    weights, drawn, learns = drawn_layers()
    said = trained_learners.answers(weights, drawn, learns, inner_batch)
    for layer in (0, 2):
        w = {name: x[layer].detach().double().numpy() for name, x in weights.items()}
        x, y = (rows[layer, 1].double().numpy() for rows in drawn)
        k, q = x[:-1] @ w["k"], x[1:] @ w["q"]
        k, q = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (k, q))
        o, _ = ttt_linear.recurrent(
            q,
            k,
            y[:-1] @ w["v"],
            beta=np.full(T, np.exp(w["log_beta"][0, 0])),
            S=Training.start(Linear(learns[layer].item() * w["start"])),
            inner_batch=inner_batch,
        )
        found = said[layer, 1].detach().numpy()
        assert np.allclose(found, o @ w["o"], atol=1e-4)


def test_layers_of_a_seed_see_the_same_inputs_and_share_as_much_as_told():
    _, drawn, _ = drawn_layers(shares=(0.0, 1.0, 0.6), n=400)
    first, second, third = drawn.x.view(3, 2, 400, T + 1, D)
    assert torch.equal(first, second)
    assert torch.equal(first, third)
    # the matrices, from more pairs than they have rows
    A = torch.linalg.lstsq(drawn.x, drawn.y).solution.view(3, 2, 400, D, D)
    assert torch.allclose(A[1], A[1, :, :1].expand_as(A[1]), atol=1e-3)
    U, N = A[1], A[0]
    assert torch.allclose(A[2], 0.6 * U + 0.8 * N, atol=1e-3)
    assert A.square().mean((2, 3, 4)).numpy() == pytest.approx(np.ones((3, 2)), abs=0.1)


def test_layers_begin_alike_and_what_goes_in_comes_out():
    generator = torch.Generator().manual_seed(1)
    weights = trained_learners.initial_weights(2, 3, generator)
    assert torch.equal(weights["q"], weights["k"])
    through = weights["v"] @ weights["o"]
    assert torch.allclose(through, torch.eye(D).expand(6, D, D), atol=1e-5)
    for x in weights.values():
        assert torch.equal(x[:2], x[2:4])
        assert torch.equal(x[:2], x[4:])
    assert not torch.equal(weights["v"][0], weights["v"][1])


def test_training_finds_the_step_and_the_start():
    trained = trained_learners.train(8, steps=60, batch=8, where=SMALL)
    assert trained.errors.shape == (2, len(STARTS), 2, T)
    errors = trained.errors.mean(-1)
    assert (errors[0] < 0.35).all()
    assert (errors[1, 1] < 0.6 * errors[1, 0]).all()
    rates = np.geomspace(0.1, 1.2, 30)
    told = streams.expected_mini_batch_errors(T + 1, D, 8, rates)[:, 1:].mean(axis=1)
    assert abs(trained.beta[0].log() - np.log(rates[told.argmin()])).max() < 0.4


def test_one_seed_is_one_result():
    runs = [
        trained_learners.train(T, steps=2, batch=2, seed=seed, where=SMALL)
        for seed in (3, 3, 4)
    ]
    assert torch.equal(runs[0].errors, runs[1].errors)
    assert not torch.equal(runs[0].errors, runs[2].errors)
