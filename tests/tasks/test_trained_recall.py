"""Trained recall: its sequences, its layer by hand, and that training works."""

import math

import numpy as np
import pytest
import torch

from ctlearn.mixers import gated_delta_rule, gated_linear_attention
from ctlearn.tasks import __main__ as command
from ctlearn.tasks import trained_recall
from ctlearn.tasks.trained_recall import (
    ASK,
    MEMORIES,
    NEW,
    NOTHING,
    TASKS,
    VALUES,
    Task,
    draw,
)
from ctlearn.tasks.training import ON_A_PROCESSOR

TWO = ON_A_PROCESSOR._replace(seeds=2)


@pytest.mark.parametrize("name", TASKS)
def test_the_wanted_class_is_the_latest_value_of_the_last_document(name):
    drawn = draw(TASKS[name], 20, torch.Generator().manual_seed(0))
    for names, marks, wanted in zip(*(x.tolist() for x in drawn), strict=True):
        latest, asked = {}, set()
        for who, mark, answer in zip(names, marks, wanted, strict=True):
            if mark == NEW:
                latest = {}
            elif mark == ASK:
                assert answer == latest.get(who, NOTHING)
                assert who not in asked
                asked.add(who)
            else:
                assert answer == -1
                latest[who] = mark
        assert len(asked) == TASKS[name].told + TASKS[name].untold


def test_names_that_are_over_are_asked_first():
    task = Task(documents=3, told=4, times=1, untold=3)
    drawn = draw(task, 50, torch.Generator().manual_seed(1))
    told_before = []
    for names, wanted in zip(drawn.names, drawn.wanted, strict=True):
        over = set(names[:9].tolist()) - {0}  # a mark's name is 0
        asked = names[wanted == NOTHING].tolist()
        told_before += [who in over for who in asked if who]
    assert np.mean(told_before) > 0.95


@pytest.mark.parametrize("name", MEMORIES)
def test_the_layer_is_the_reference_between_two_maps(name):
    generator = torch.Generator().manual_seed(2)
    drawn = draw(TASKS["documents"], 2, generator)
    weights = trained_recall.initial_weights(2, generator)
    shaped = [x.view(2, 1, -1) for x in (drawn.names, drawn.marks)]
    logits, log_decay = trained_recall.layer(weights, MEMORIES[name], *shaped)
    w = {name: x[1].detach().double().numpy() for name, x in weights.items()}
    x = (w["names"][drawn.names[1]] + w["marks"][drawn.marks[1]]) / math.sqrt(2)

    def unit(rows):
        rows = rows / (1 + np.exp(-rows))
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    q, k, v = unit(x @ w["q"]), unit(x @ w["k"]), x @ w["v"]
    beta, alpha = (
        1 / (1 + np.exp(-(x @ w[n] + w[f"{n}_0"])[:, 0])) for n in ("beta", "alpha")
    )
    kept = np.log(alpha) * MEMORIES[name].fades
    if MEMORIES[name].erases:
        o, _ = gated_delta_rule.recurrent(q, k, v, log_decay=kept, beta=beta)
    else:
        kept = np.repeat(kept[:, None], k.shape[1], axis=1)
        given = {"log_decay": kept}
        o, _ = gated_linear_attention.recurrent(q, k, beta[:, None] * v, **given)
    wanted = o @ w["out"] + w["out_0"]
    assert np.allclose(logits[1, 0].detach().numpy(), wanted, atol=1e-4)
    assert np.allclose(log_decay[1, 0].detach().numpy(), np.log(alpha), atol=1e-5)


def test_training_finds_the_mark():
    """To answer "nothing" always would be right in one half."""
    task = Task(documents=2, told=2, times=1, untold=2, steps=200)
    trained = trained_recall.train(task, MEMORIES["gated delta"], batch=16, where=TWO)
    assert trained.accuracy.shape == (2,)
    assert trained.accuracy.mean() > 0.6
    assert (trained.kept_at_new < trained.kept_at_pairs).all()


def test_decays_are_told_apart_by_what_a_token_does():
    """All is kept at questions, one half at pairs and nothing at marks."""
    drawn = draw(TASKS["documents"], 3, torch.Generator().manual_seed(5))
    weights = trained_recall.initial_weights(1, torch.Generator().manual_seed(6))
    with torch.no_grad():
        for name in ("names", "marks", "alpha", "alpha_0"):
            weights[name].zero_()
        weights["alpha"][:, 0] = 1.0
        weights["marks"][:, ASK, 0], weights["marks"][:, NEW, 0] = 90.0, -90.0
    shaped = trained_recall.Sequences(*(x[None] for x in drawn))
    found = trained_recall._tested(weights, MEMORIES["gated delta"], shaped)
    assert found.kept_at_pairs.tolist() == pytest.approx([0.5])
    assert found.kept_at_new.tolist() == pytest.approx([0.0])


def test_one_seed_is_one_result_and_nothing_is_kept_where_nothing_begins():
    task = Task(documents=1, told=2, times=1, steps=5)
    runs = [
        trained_recall.train(task, MEMORIES["delta"], batch=4, seed=seed, where=TWO)
        for seed in (3, 3, 4)
    ]
    assert torch.equal(runs[0].accuracy, runs[1].accuracy)
    assert not torch.equal(runs[0].accuracy, runs[2].accuracy)
    assert runs[0].kept_at_new.isnan().all()
    assert VALUES == NOTHING


def test_the_mark_is_read_off_the_weights():
    """Keys and questions made alike, values of zero, and a class that leads."""
    weights = trained_recall.initial_weights(2, torch.Generator().manual_seed(4))
    with torch.no_grad():
        weights["k"].copy_(weights["q"])
        weights["names"].zero_()
        weights["marks"].copy_(weights["marks"][:, NEW:].expand_as(weights["marks"]))
        weights["v"].zero_()
        weights["out_0"][0, 0, NOTHING] = 1.0
        weights["out_0"][1, 0, 3] = 1.0
    nan = torch.full((2,), math.nan)
    mark = trained_recall.written_at_mark(
        trained_recall.Trained(nan, nan, nan, weights)
    )
    assert torch.allclose(mark.overlap, torch.ones(2))
    assert torch.allclose(mark.between, torch.ones(2))
    assert mark.said.tolist() == [1, 0]


def test_the_command_prints_a_row_for_each_run(monkeypatch, capsys):
    two = torch.tensor([0.25, 0.75], dtype=torch.float64)

    def train(task, kind, *, rate, seed, where):
        assert (rate, where.seeds, seed) == (0.5, 2, 7)
        return trained_recall.Trained(two, two, two, {})

    monkeypatch.setattr(command, "train", train)
    words = ["tasks", "--seed", "7", "--seeds", "2", "--rate", "0.5"]
    monkeypatch.setattr("sys.argv", words)
    command.main()
    rows = capsys.readouterr().out.splitlines()
    assert len(rows) == len(TASKS) * len(MEMORIES)
    assert all("0.500 ± 0.354" in row for row in rows)
    assert sum("keeps 0.500 at new" in row for row in rows) == 2
