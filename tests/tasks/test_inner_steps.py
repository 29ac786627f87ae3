"""Inner steps: the layer by hand, its floors, and that training finds them."""

import numpy as np
import pytest
import torch

from ctlearn import inner
from ctlearn.inner import MUON_LACT
from ctlearn.tasks import inner_steps
from ctlearn.tasks.inner_steps import ALL, FEATURES, NAMES, TOLD, D, Learner
from ctlearn.tasks.training import ON_A_PROCESSOR

TWO = ON_A_PROCESSOR._replace(seeds=2)


@pytest.fixture
def untrained():
    """Two layers before training, and three contexts for each."""
    generator = torch.Generator().manual_seed(0)
    weights = inner_steps.initial_weights(2, generator)
    weights = {name: w.detach().double() for name, w in weights.items()}
    # the three matrices at different rates, and not as they begin
    weights["rates"] += torch.tensor([-1.0, 0.0, 1.0])
    lessons = inner_steps.draw(2, 3, NAMES, generator)
    return weights, lessons._replace(values=lessons.values.double())


def test_a_context_tells_different_names_among_the_first():
    lessons = inner_steps.draw(2, 5, 20, torch.Generator().manual_seed(0))
    assert lessons.names.shape == (2, 5, TOLD)
    assert lessons.values.shape == (2, 5, TOLD, D)
    assert int(lessons.names.max()) < 20
    assert all(len(set(x.tolist())) == TOLD for x in lessons.names.flatten(0, 1))


@pytest.mark.parametrize("steps", [0, 1, 3])
@pytest.mark.parametrize(
    "how",
    [
        Learner(),
        Learner(squared=True),
        Learner(deep=True),
        Learner(squared=True, deep=True, uphill=True),
        Learner(keeps_lengths=True),
        Learner(deep=True, muon=MUON_LACT),
    ],
)
def test_the_layer_is_the_reference_learner_between_two_maps(untrained, how, steps):
    weights, lessons = untrained
    said, losses = inner_steps.layer(weights, how, lessons, steps, ALL)
    w = {name: x[1].numpy() for name, x in weights.items()}
    x = w["names"][lessons.names[1, 2].numpy()]
    v = lessons.values[1, 2].numpy() @ w["v"]

    def unit(rows):
        rows = rows / (1 + np.exp(-rows))
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    q, k = unit(x @ w["q"]), unit(x @ w["k"])
    f = inner.GatedUnit(w["W_0"], w["W_1"], w["W_2"])
    lengths = inner.each(lambda m: np.linalg.norm(m, axis=0), f)
    largest = inner_steps.LARGEST_RATE["all" if how.deep else "last"]
    rates = largest / (1 + np.exp(-w["rates"]))
    rates = rates * (1 if how.deep else np.array([0, 1, 0])) * (-1) ** how.uphill
    for _ in range(steps):
        g = v - f.read(k) if how.squared else v
        down = f.gradient(k, g, np.repeat(rates[None], TOLD, axis=0))
        f = inner.each(np.add, f, inner.of_one_strength(down, how.muon))
        if how.keeps_lengths:
            # the package's own divides by 1e-5 more than the length
            f = inner.each(lambda m, n: m * n / np.linalg.norm(m, axis=0), f, lengths)
    assert np.allclose(said[1, 2].numpy(), f.read(q) @ w["o"], rtol=1e-5, atol=1e-5)
    z = f.read(k)
    loss = ((z - v) ** 2).sum(1) / 2 if how.squared else -(z * v).sum(1)
    _, alone = inner_steps.layer(
        weights, how, inner_steps.Lessons(*(a[:, 2:] for a in lessons)), steps, ALL
    )
    assert losses.shape == (2,)
    assert float(alone[1]) == pytest.approx(loss.mean(), rel=1e-5)


def test_answers_add_up_on_a_dot_product_and_not_under_muon(untrained):
    weights = {name: w.float() for name, w in untrained[0].items()}
    for how in (Learner(steps=3), Learner(squared=True)):
        assert inner_steps.superposition_gap(weights, how).max() < 1e-5
    for how in (Learner(muon=MUON_LACT), Learner(keeps_lengths=True)):
        assert inner_steps.superposition_gap(weights, how).min() > 0.05


def test_the_errors_are_shares_of_silence(untrained):
    """With no way out every answer is zero."""
    weights = {name: w.float() for name, w in untrained[0].items()}
    weights["o"] = 0 * weights["o"]
    tested = inner_steps.ask(weights, Learner(), [0, 2])
    assert tested.errors.shape == tested.losses.shape == (2, 2)
    assert torch.allclose(tested.errors, torch.ones(2, 2))


def test_the_floors_are_known_at_their_ends_and_met():
    assert inner_steps.attention_floor(24, 16, 12) == pytest.approx(15 / 38)
    # always the same names: no more can be had, and no less
    same = inner_steps.attention_floor(16, 16, 12)
    assert same == pytest.approx(inner_steps.regression_floor(16, 12))
    assert inner_steps.attention_floor(12, 8, 12) == pytest.approx(0)
    assert inner_steps.regression_floor(8, 12) == 0
    # names in pairs, two to a feature, each answered at the best scale
    xi = (TOLD - 1) / (NAMES - 1)
    own = 1 / (1 + xi)
    met = (1 - own) ** 2 + xi * own**2
    assert inner_steps.attention_floor(NAMES, TOLD, FEATURES) == pytest.approx(met)


def test_training_reaches_for_the_floor_and_a_turned_start_goes_the_same_way():
    setting = {"updates": 60, "batch": 8, "where": TWO}
    errors = []
    for how, turned in ((Learner(), False), (Learner(uphill=True), True)):
        weights = inner_steps.train(how, turned=turned, **setting)
        errors.append(inner_steps.ask(weights, how, [1]).errors)
    assert errors[0].max() < 0.8
    assert errors[0].min() > 0.37
    assert torch.equal(errors[0], errors[1])


def test_a_layer_is_asked_other_lessons_than_it_was_trained_on(monkeypatch):
    seen, draw = [], inner_steps.draw

    def drawn(*sizes_and_generator):
        seen.append(sizes_and_generator[-1].initial_seed())
        return draw(*sizes_and_generator)

    monkeypatch.setattr(inner_steps, "draw", drawn)
    weights = inner_steps.train(Learner(), updates=1, batch=2, seed=3, where=TWO)
    inner_steps.ask(weights, Learner(), [1], seed=3)
    inner_steps.superposition_gap(weights, Learner(), seed=3)
    assert seen[0] not in seen[1:]
    assert len(seen) == 3


def test_one_seed_is_one_result():
    setting = {"updates": 2, "batch": 2, "where": TWO}
    runs = [inner_steps.train(Learner(), seed=s, **setting) for s in (3, 3, 4)]
    assert torch.equal(runs[0]["W_1"], runs[1]["W_1"])
    assert not torch.equal(runs[0]["W_1"], runs[2]["W_1"])
