"""Trained assignments: programs by the exact ones, layers by hand, and training."""

import pytest
import torch

from ctlearn.tasks import assignments, trained_assignments, trained_tracking
from ctlearn.tasks.assignments import Line
from ctlearn.tasks.trained_assignments import (
    GRU,
    HEADS,
    KINDS,
    LENGTH,
    LINES,
    MODULUS,
    RARELY,
    SETS,
    STATE,
    VARIABLES,
)
from ctlearn.tasks.training import ON_A_PROCESSOR

TWO = ON_A_PROCESSOR._replace(seeds=2)


def generator(seed=0):
    """Random numbers."""
    return torch.Generator().manual_seed(seed)


def told(number):
    """The line that has this number."""
    which, c = divmod(number, MODULUS)
    adds, target = divmod(which, VARIABLES)
    return Line(target, (target,) * adds, c)


def test_what_is_wanted_is_what_the_program_holds_modulo_three():
    drawn = (x.numpy() for x in trained_assignments.draw(30, 14, generator()))
    for lines, asked, wanted in zip(*drawn, strict=True):
        program = [told(number) for number in lines]
        for t in range(14):
            held = assignments.answer(program[: t + 1], asked[t])
            assert held % MODULUS == wanted[t]


@pytest.mark.parametrize("share", [SETS, RARELY])
def test_a_share_of_the_lines_sets_and_all_lines_come(share):
    lines = trained_assignments.draw(400, 40, generator(), sets=share).line
    assert len(lines.unique()) == LINES
    sets = (lines < VARIABLES * MODULUS).float().mean()
    assert float(sets) == pytest.approx(share, rel=0.1)


def test_variables_and_numbers_are_asked_for_and_told_alike():
    line, asked, _ = trained_assignments.draw(400, 40, generator())
    for drawn, most in (
        (asked, VARIABLES),
        (line // MODULUS % VARIABLES, VARIABLES),
        (line % MODULUS, MODULUS),
    ):
        shares = drawn.flatten().bincount(minlength=most) / drawn.numel()
        assert shares.tolist() == pytest.approx([1 / most] * most, abs=0.02)


@pytest.mark.parametrize("share", [SETS, RARELY])
def test_a_window_is_right_as_often_as_it_says(share):
    """Counted: where the variable was not set in the window, a third is right."""
    line, asked, _ = trained_assignments.draw(4000, 60, generator(1), sets=share)
    sets, target = line < VARIABLES * MODULUS, line // MODULUS % VARIABLES
    for window in (1, 8, 24):
        seen = (sets & (target == asked[:, -1:]))[:, -window:].any(1).float().mean()
        right = float(seen) + (1 - float(seen)) / MODULUS
        ceiling = trained_assignments.window_ceiling(window, sets=share)
        assert right == pytest.approx(ceiling, abs=0.02)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_the_layer_is_delta_product_and_is_asked_for_a_variable(kind, delta_product_of):
    weights = trained_tracking.initial_weights(
        LINES, MODULUS, 2, generator(), VARIABLES
    )
    line, asked, _ = (
        x.view(2, 1, 9) for x in trained_assignments.draw(2, 9, generator())
    )
    beta = trained_tracking.strengths(weights, [kind])
    logits = trained_tracking.layer(weights, beta, line, asked)[1, 0].detach().numpy()
    w = {name: x[1].detach().double().numpy() for name, x in weights.items()}
    by_hand, S = delta_product_of(w, kind, line[1, 0].numpy(), asked[1, 0].numpy())
    assert logits == pytest.approx(by_hand, rel=1e-3, abs=1e-4)
    assert HEADS * S.size == STATE


def test_the_gru_is_torch_s_behind_a_table():
    weights = trained_assignments.gru_weights(2, generator())
    line, asked, _ = (
        x.view(2, 3, 7) for x in trained_assignments.draw(6, 7, generator())
    )
    logits = trained_assignments.gru(weights, line, asked)[1].detach()
    w = {name: x[1].detach() for name, x in weights.items()}
    cell = torch.nn.GRU(LINES, STATE, batch_first=True)
    cell.weight_ih_l0.data, cell.weight_hh_l0.data = w["x"].mT, w["U"].mT
    cell.bias_ih_l0.data.zero_()
    cell.bias_hh_l0.data = w["U_0"][0]
    h, _ = cell(torch.nn.functional.one_hot(line[1], LINES).float())
    hidden = torch.relu(h @ w["in"] + w["in_0"][asked[1]])
    assert torch.allclose(logits, hidden @ w["out"] + w["out_0"], atol=1e-5)


@pytest.mark.parametrize("names", [["two steps, strength up to 2"], [GRU]])
def test_training_learns(names):
    seen = []
    found = trained_assignments.train(
        names,
        steps=50,
        tested=12,
        where=TWO,
        show=lambda steps: seen.append(steps) or steps,
    )
    assert found.usual.shape == found.rare.shape == (1, 2, 12)
    # chance is a third, and some variables are still zero at first
    assert found.usual[..., 6:].mean() > 0.41
    assert seen == [range(50)]


@pytest.mark.parametrize("names", [list(KINDS)[:2], [GRU]])
def test_one_seed_is_one_result(names):
    runs = [
        trained_assignments.train(names, steps=2, tested=8, seed=seed, where=TWO)
        for seed in (0, 0, 1)
    ]
    for first, again, other in zip(*runs, strict=True):
        assert torch.equal(first, again)
        assert not torch.equal(first, other)


def test_one_kind_of_programs_is_learned_and_two_are_tested(monkeypatch):
    seen, draw = [], trained_assignments.draw

    def recorded(n, T, generator, *, sets):
        seen.append((T, sets))
        return draw(n, T, generator, sets=sets)

    monkeypatch.setattr(trained_assignments, "draw", recorded)
    trained_assignments.train([GRU], steps=3, tested=8, where=TWO)
    assert seen == [(LENGTH, SETS)] * 3 + [(8, SETS), (8, RARELY)]


def test_kinds_are_what_they_are_called():
    steps = {1: "one step", 2: "two steps"}
    for name, kind in KINDS.items():
        assert name == f"{steps[kind.steps]}, strength up to {kind.most:g}"


def test_a_larger_setting_trains_longer():
    seen = []
    trained_assignments.train(
        [GRU],
        steps=2,
        tested=8,
        where=TWO._replace(longer=3),
        show=lambda steps: seen.append(steps) or steps,
    )
    assert seen == [range(6)]


def test_a_gru_is_trained_alone():
    with pytest.raises(ValueError, match="names"):
        trained_assignments.train([*KINDS, GRU], where=TWO)
