"""Trained hybrids: their sequences, the layer by the references, and that it learns."""

import numpy as np
import pytest
import torch

from ctlearn.mixers import gated_delta_rule
from ctlearn.tasks import trained_hybrids
from ctlearn.tasks.trained_hybrids import (
    DETAIL,
    FIRST,
    MEMORIES,
    NEAR,
    RULE,
    D,
    Memory,
    T,
    draw,
)
from ctlearn.tasks.training import ON_A_PROCESSOR

TWO = ON_A_PROCESSOR._replace(seeds=2)


def test_near_queries_want_a_value_and_fresh_ones_the_rule():
    drawn = draw(40, torch.Generator().manual_seed(0))
    k, v, q = drawn.x.double().numpy().reshape(40, T, 3, D).transpose(2, 0, 1, 3)
    rule = drawn.rule.numpy()
    assert rule.mean() == pytest.approx(0.5, abs=0.05)
    ages = np.zeros(NEAR)
    for n, t in zip(*np.nonzero(~rule), strict=True):
        (at,) = np.flatnonzero((k[n, : t + 1] == q[n, t]).all(axis=1))
        np.testing.assert_array_equal(drawn.y[n, t], v[n, at].astype("float32"))
        ages[t - at] += t >= NEAR
    assert ages.min() > 0.8 * ages.mean()
    details = np.zeros((12, T, D))
    for n in range(12):
        y = drawn.y[n].double().numpy()
        W, *_ = np.linalg.lstsq(q[n, rule[n]], y[rule[n]], rcond=None)
        np.testing.assert_allclose(q[n, rule[n]] @ W, y[rule[n]], atol=1e-5)
        details[n] = v[n] - k[n] @ W
    assert (details**2).mean() == pytest.approx(DETAIL**2, rel=0.05)
    assert (v**2).mean() == pytest.approx(RULE**2 + DETAIL**2, rel=0.05)


@pytest.mark.parametrize("kind", [*MEMORIES.values(), Memory(5, 3, bias=1.0)])
def test_the_layer_is_one_mean_of_the_references(kind):
    generator = torch.Generator().manual_seed(1)
    drawn = trained_hybrids._side_by_side(2, 2, generator)
    weights = trained_hybrids.initial_weights(kind, 2, generator)
    said = trained_hybrids.layer(weights, kind, drawn.x)[1, 1].detach().numpy()
    w = {name: x[1].detach().double().numpy() for name, x in weights.items()}
    x = drawn.x[1, 1].double().numpy()

    def squashed(name):
        return 1 / (1 + np.exp(-(x @ w[name] + w[f"{name}_0"])))[:, 0]

    total, weight = np.zeros((T, D)), np.zeros((T, 1))
    if kind.d_k:
        q, k = (x @ w[f"state_{n}"] for n in "qk")
        q, k = (y / np.linalg.norm(y, axis=1, keepdims=True) for y in (q, k))
        gates = {"log_decay": np.log(squashed("alpha")), "beta": squashed("beta")}
        m, _ = gated_delta_rule.recurrent(q, k, x @ w["state_v"], **gates)
        mass = np.exp(x @ w["share"] + w["share_0"]) if kind.window else 1
        total, weight = mass * m, weight + mass
    if kind.window:
        q, k, v = (x @ w[f"window_{n}"] for n in "qkv")
        for t in range(T):
            near = slice(max(0, t + 1 - kind.window), t + 1)
            each = np.exp(k[near] @ q[t])
            total[t] += each @ v[near]
            weight[t] += each.sum()
    expected = total / weight @ w["out"]
    np.testing.assert_allclose(said, expected, rtol=1e-4, atol=1e-5)


def test_a_hidden_window_has_no_part_in_the_answer():
    kind = MEMORIES["both"]
    generator = torch.Generator().manual_seed(2)
    x = trained_hybrids._side_by_side(2, 2, generator).x
    weights = trained_hybrids.initial_weights(kind, 2, generator)
    seen = torch.tensor([[True, False], [False, True]])
    mixed = trained_hybrids.layer(weights, kind, x, seen)
    whole = trained_hybrids.layer(weights, kind, x)
    del weights["window_v"]
    weights["window_v"] = torch.zeros(2, 3 * D, D)
    blind = trained_hybrids.layer(weights, kind, x, seen)
    torch.testing.assert_close(mixed[seen], whole[seen])
    torch.testing.assert_close(mixed[~seen], blind[~seen])
    assert not torch.allclose(mixed[seen], blind[seen])


def test_the_window_is_hidden_in_the_first_half_of_training_alone():
    def untouched(hidden, steps):
        kind = MEMORIES["both"]._replace(bias=2.0, hidden=hidden)
        start = trained_hybrids.initial_weights(kind, 2, TWO.generator(0))
        torch.testing.assert_close(start["share_0"], torch.full((2, 1, 1), 2.0))
        weights = trained_hybrids.train(kind, steps=steps, batch=2, where=TWO)
        return torch.equal(weights["window_v"], start["window_v"])

    assert untouched(hidden=1.0, steps=1)
    assert not untouched(hidden=1.0, steps=2)
    assert not untouched(hidden=0.0, steps=1)


def test_memories_are_of_one_size():
    assert {kind.numbers for kind in MEMORIES.values()} == {512}


def test_a_few_steps_of_training_help_and_seeds_differ():
    kind = MEMORIES["both, window hidden at times"]
    errors = []
    for steps in (0, 40):
        weights = trained_hybrids.train(kind, steps=steps, batch=8, where=TWO)
        near, rule = trained_hybrids.ask(weights, kind, n=16)
        assert near.shape == rule.shape == (2,)
        errors.append(near + rule)
    assert (errors[1] < 0.95 * errors[0]).all()
    assert errors[1][0] != errors[1][1]


def test_errors_are_shares_of_what_is_asked():
    kind = Memory(1, 0)
    weights = {f"window_{n}": torch.zeros(2, 3 * D, D) for n in "qk"}
    weights["window_v"] = torch.zeros(2, 3 * D, D)
    weights["out"] = torch.eye(D).repeat(2, 1, 1)
    near, rule = trained_hybrids.ask(weights, kind, n=4)
    torch.testing.assert_close(torch.stack([near, rule]), torch.ones(2, 2))
    # each token's own value: right for one near query in six, wrong for the rule
    weights["window_v"][:, D : 2 * D] = torch.eye(D)
    near, rule = trained_hybrids.ask(weights, kind, n=64)
    assert FIRST >= NEAR
    assert near.mean() == pytest.approx(2 * 5 / 6, rel=0.1)
    assert (rule > 1.5).all()


def test_each_seed_learns_from_the_mean_of_its_own_late_answers(monkeypatch):
    kind, found = MEMORIES["window"], []

    def look(weights):
        found.extend(w.grad.clone() for w in weights)

    monkeypatch.setattr(trained_hybrids, "cut", look)
    trained_hybrids.train(kind, steps=1, batch=3, where=TWO)
    generator = TWO.generator(0)
    weights = trained_hybrids.initial_weights(kind, 2, generator)
    drawn = trained_hybrids._side_by_side(3, 2, generator)
    missed = trained_hybrids.layer(weights, kind, drawn.x) - drawn.y
    sum(each[:, FIRST:].square().mean() for each in missed).backward()
    torch.testing.assert_close(found, [w.grad for w in weights.values()])


def test_early_answers_do_not_count(monkeypatch):
    def strange(n, generator):
        drawn = draw(n, generator)
        drawn.y[:, :FIRST] += 100
        return drawn

    kind = MEMORIES["window"]
    weights = trained_hybrids.initial_weights(kind, 2, TWO.generator(0))
    expected = trained_hybrids.ask(weights, kind, n=2)
    monkeypatch.setattr(trained_hybrids, "draw", strange)
    found = trained_hybrids.ask(weights, kind, n=2)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
