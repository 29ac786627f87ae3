"""Workbench: compositions that have a name, and what no two of them share."""

import json

import numpy as np
import pytest

from ctlearn import composed
from ctlearn.composed import Choices
from ctlearn.explore.workbench import Workbench, compute
from ctlearn.mixers import mechanisms
from ctlearn.tasks import four_jobs

JOBS = list(four_jobs.jobs())


def errors_of(name, set_to):
    """A mechanism's errors at the four jobs, its dials set."""
    return [
        four_jobs.error(four_jobs.answers(mechanisms()[name], job, set_to), job.wanted)
        for job in four_jobs.jobs().values()
    ]


@pytest.mark.parametrize(
    ("name", "set_to", "settings"),
    [
        ("delta_rule", {"beta": 0.7}, {"beta": 0.7}),
        ("linear_attention", {}, {"objective": "dot"}),
        (
            "gated_delta_rule",
            {"beta": 0.5, "log_decay": 0.8},
            {"beta": 0.5, "keep": 0.8, "control": "rate"},
        ),
        ("ttt_linear", {"beta": 0.3}, {"beta": 0.3, "schedule": "batch"}),
    ],
)
def test_compositions_with_a_name_are_those_mechanisms(name, set_to, settings):
    found = compute(**settings)["errors"]
    np.testing.assert_allclose(found, errors_of(name, set_to), atol=1e-12)


def test_a_step_size_of_two_tracks_and_spoils_the_rest():
    one, two = (compute(beta=beta)["errors"] for beta in (1.0, 2.0))
    assert two[3] < 1e-12
    assert one[3] > 0.9
    assert (two[:3] > one[:3] + 0.04).all()


def test_newtons_steps_recall_better_and_rebind_worse():
    step, newton = (compute(optimiser=one)["errors"] for one in ("step", "newton"))
    assert newton[0] < step[0] - 0.3
    assert newton[1] > step[1] + 0.3


def test_every_choice_of_the_package_can_be_made():
    for axis, options in composed.OPTIONS.items():
        assert set(Workbench.class_traits()[axis].values) == set(options)


def test_every_mechanism_is_beside_it_with_its_own_errors():
    named, menu = Workbench.constants()["NAMED"], Workbench.class_traits()["beside"]
    assert set(named) == set(menu.values) == set(mechanisms())
    for name, errors in four_jobs.table().items():
        assert named[name]["errors"] == list(errors.values())


def test_compositions_that_are_written_alike_are_alike(node):
    every = [choices._asdict() for choices in composed.every()]
    run = f"console.log(JSON.stringify({json.dumps(every)}.map(updateOf)))"
    written = {}
    for settings, lines in zip(every, node(Workbench.module() + run), strict=True):
        written.setdefault("\n".join(lines), []).append(settings)
        text = " ".join(lines)
        # what is kept from token to token is written where it is read, and only there
        for letter in "PFH":
            assert (f"${letter}$ ←" in text) == (text.count(f"${letter}$") > 1)
    # slopes of a dot product are the same wherever they are taken
    alike = [same for same in written.values() if len(same) > 1]
    assert len(alike) == 2 * 3 * 3
    for one, other in alike:
        assert one["objective"] == other["objective"] == "dot"
        assert {one["schedule"], other["schedule"]} == {"token", "batch"}
    for one, other in alike[::7]:
        found = [compute(**settings)["errors"] for settings in (one, other)]
        np.testing.assert_allclose(*found)


WRITTEN = {
    Choices(): ["x = k", "e = Sᵀx − v", "S ← S − β x eᵀ", "o = Sᵀq"],
    Choices("features", "capped", "newton", "window", "rate"): [
        "x = [relu(k), relu(−k)]",
        "S ← α S",
        "e = Sᵀx − v, cut to 0.5",
        "H ← α² H + x xᵀ",
        "S ← S − β (H + 0.1 I)⁻¹ Σ x eᵀ",
        "with Σ over the last 8 pairs",
        "o = Sᵀ[relu(q), relu(−q)]",
    ],
    Choices("matrix", "squared", "momentum", "batch", "channels"): [
        "x = k",
        "F ← S at the first of every 8 tokens",
        "S ← Diag(α) S",
        "e = Fᵀx − v",
        "P ← 0.5 P + x eᵀ",
        "S ← S − β P",
        "o = Sᵀq",
    ],
    Choices("matrix", "dot", "newton", "token", "channels"): [
        "x = k",
        "S ← Diag(α) S",
        "e = −v",
        "H ← Diag(α) H Diag(α) + x xᵀ",
        "S ← S − β (H + 0.1 I)⁻¹ x eᵀ",
        "o = Sᵀq",
    ],
}


def test_the_update_is_written_out(node):
    every = json.dumps([choices._asdict() for choices in WRITTEN])
    lines = node(
        Workbench.module() + f"console.log(JSON.stringify({every}.map(updateOf)))"
    )
    shown = [[line.replace("$", "") for line in update] for update in lines]
    assert shown == list(WRITTEN.values())


def test_what_is_told_are_the_errors(said, told):
    shown = said(Workbench, beta=0.5, control="rate", beside="mesa_net")
    x = shown.numbers
    for job, error in zip(JOBS, x["errors"], strict=True):
        assert shown.facts[job] == told(error)
    assert shown.facts["MesaNet"] == told(*x["other"])
    here = shown.sentence.partition(".")[0]
    assert "Gated delta rule" in here
    assert "Delta rule" not in here
    assert f"{x['better'][0]} at recall" in shown.sentence
    assert shown.rows[0]["memory"] == "yours"
    assert len(shown.rows) == 1 + len(mechanisms())


def test_the_disc_and_the_ring_stand_at_their_errors(said):
    shown = said(Workbench)
    gauges = shown.pictures[1]
    left, right = 74, 700 - 246 - 40
    for radius, errors in ((5, shown.numbers["errors"]), (7.5, shown.numbers["other"])):
        places = [part["cx"] for part in gauges if part.get("r") == radius]
        np.testing.assert_allclose(places, left + (right - left) * np.array(errors))


def test_a_cell_without_a_mechanism_says_so(said):
    shown = said(Workbench, schedule="window", objective="dot", control="channels")
    assert "No mechanism of the package" in shown.sentence


@pytest.mark.browser
def test_a_mechanism_by_its_stroke_and_from_the_list(visit, expect_fact):
    page = visit("workbench.html")
    name = max(four_jobs.table(), key=lambda name: four_jobs.table()[name]["recall"])
    worst = list(mechanisms()).index(name) + 1
    stroke = page.locator(f"[data-pick='{worst}']").first
    stroke.hover()
    errors = " · ".join(f"{x:.2f}" for x in four_jobs.table()[name].values())
    page.locator("svg text", has_text=errors).wait_for()
    page.get_by_label("beside it").select_option("linear_attention")
    errors = [f"{x:.2f}" for x in four_jobs.table()["linear_attention"].values()]
    expect_fact(page, "Linear attention", " · ".join(errors))
    page.wait_for_function("location.hash.includes('beside=linear_attention')")


@pytest.mark.browser
def test_choices_by_touch_and_a_step_size_by_key(phone, expect_fact):
    page = phone("workbench.html")
    page.get_by_label("Newton step").tap()
    expect_fact(page, "recall", f"{compute(optimiser='newton')['errors'][0]:.2f}")
    assert page.get_by_label("kept").is_disabled()
    page.get_by_label("one decay").tap()
    page.get_by_label("one step").tap()
    page.locator(".x-sentence", has_text="Gated delta rule").wait_for()
    page.get_by_label("kept").focus()
    page.keyboard.press("End")
    page.get_by_label("step size").focus()
    page.keyboard.press("End")
    expect_fact(page, "tracking", "0.00")


def test_the_figure_says_both_errors():
    x, alt = compute(), Workbench().figure().alt
    for job, own, its in zip(JOBS, x["errors"], x["other"], strict=True):
        assert f"{job} {own:.2f} and {its:.2f}" in alt
