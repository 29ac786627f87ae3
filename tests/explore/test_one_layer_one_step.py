"""One layer, one step: the layer's answers are the step's, whatever the points."""

import numpy as np
import pytest

from ctlearn.explore.one_layer_one_step import OneLayerOneStep, compute

START = {"slope": -0.7, "intercept": 0.3}


def descended(step, scale, x, start=(0.0, 0.0)):
    """One step down the mean of half the squared errors, slope by difference."""
    k = np.column_stack([scale * x["places"], np.ones(len(x["places"]))])
    y, W = x["values"], np.array(start)

    def loss(W):
        return ((y - k @ W) ** 2).mean() / 2

    far = 1e-4 * np.eye(2)
    slopes = [(loss(W + d) - loss(W - d)) / 2e-4 for d in far]
    return W - step * np.array(slopes)


@pytest.mark.parametrize("scale", [0.25, 1.0, 4.0])
@pytest.mark.parametrize("start", [{}, START])
def test_the_layer_is_the_gradient_step(scale, start):
    x = compute(step=0.6, scale=scale, **start)
    there = descended(0.6, scale, x, tuple(start.values()) or (0, 0))
    np.testing.assert_allclose(x["stepped"], there, atol=1e-9)
    assert x["layer"] == pytest.approx(there @ [0.7 * scale, 1])
    assert x["gap"] < 1e-13 * scale**2


def test_the_shares_sum_to_the_answer():
    x = compute(**START, scale=2.0)
    assert x["starting"] + x["shares"].sum() == pytest.approx(x["layer"])


def test_the_best_size_is_best_and_no_single_step_reaches_the_best_line():
    best = compute()["best_step"]
    least = compute(step=best)["losses"][1]
    assert least < min(compute(step=best + d)["losses"][1] for d in (-1e-3, 1e-3))
    assert least > 1.2 * compute()["losses"][2]


def test_beyond_the_limit_the_worst_start_climbs_and_below_it_none_does():
    x = compute()
    k = np.column_stack([x["places"], np.ones(8)])
    _, towards = np.linalg.eigh(k.T @ k)
    W = x["best"] + 0.5 * towards[:, -1]
    start = {"slope": W[0], "intercept": W[1]}
    for factor, climbs in ((0.99, False), (1.01, True)):
        before, after, _ = compute(step=factor * 2 / x["largest"], **start)["losses"]
        assert (after > before) == climbs


def test_other_units_move_the_step_and_not_the_best_line():
    x, y = compute(), compute(scale=3.0)
    assert y["fitted"] == pytest.approx(x["fitted"])
    assert y["losses"][2] == pytest.approx(x["losses"][2])
    # the slope per unit of the picture is nine times as steep
    assert 3 * y["stepped"][0] == pytest.approx(9 * x["stepped"][0])
    assert y["stepped"][1] == pytest.approx(x["stepped"][1])


def test_at_the_best_line_nothing_is_added():
    W = compute()["best"]
    x = compute(slope=W[0], intercept=W[1])
    assert np.abs(x["shares"].sum()) < 1e-14
    assert x["best_step"] is None


def test_one_point_has_a_shortest_line():
    x = compute(points=1, places=[0.5], levels=[1.0])
    np.testing.assert_allclose(x["best"], np.array([0.5, 1]) / 1.25)
    assert compute(points=3, places=[0.2] * 3)["losses"][2] > 0


def test_every_answer_and_loss_is_told_by_its_name(said, told):
    shown = said(OneLayerOneStep, slope=-0.7, points=5)
    x, facts = shown.numbers, shown.facts
    assert facts["gradient step"] == told(x["answer"])
    assert facts["attention layer"] == told(x["layer"])
    assert facts["best line"] == told(x["fitted"])
    assert facts["loss: start, step, best"] == told(*x["losses"])
    sizes = f"{x['best_step']:.3g}, and beyond {2 / x['largest']:.3g} some steps climb"
    assert f"the best size from here is {sizes}" in shown.sentence
    texts = [part["text"] for part in shown.pictures[1] if part["tag"] == "text"]
    assert texts[1:-1:2] == list("12345")
    shares = [float(text.replace("−", "-")) for text in texts[2:-1:2]]
    assert shares == told(*x["shares"])


@pytest.mark.browser
def test_a_point_is_dragged_and_the_step_follows(
    visit, drag, picture_width, expect_fact
):
    page = visit("one_layer_one_step.html#one_layer_one_step?points=1&question=1")
    right = picture_width(page, "point-0") - 52
    drag(page, "point-0", (right, 40 + 236 / 4))
    point = page.locator("[data-drag='point-0'][aria-valuenow='1']")
    point.wait_for()
    assert point.get_attribute("aria-valuetext") == "y 1.00, at 1"
    expect_fact(page, "gradient step", "2.00")
    expect_fact(page, "attention layer", "2.00")
    expect_fact(page, "best line", "1.00")


@pytest.mark.browser
def test_the_step_size_and_the_question_by_touch_and_key(phone, expect_fact):
    address = "one_layer_one_step.html#one_layer_one_step?scale=4"
    page = phone(address)
    page.get_by_text("Inputs are 4 times as large").wait_for()
    page.get_by_text("overshoots").wait_for()
    page.get_by_label("step size").tap(position={"x": 2, "y": 15})
    page.get_by_text("stays at the start").wait_for()
    page.locator("[data-drag='question']").focus()
    page.keyboard.press("ArrowLeft")
    x = compute(scale=4.0, step=0.0, question=0.68)
    expect_fact(page, "best line", f"{x['fitted']:.2f}")


def test_the_figure_says_both_answers():
    x, alt = compute(), OneLayerOneStep().figure().alt
    assert f"answers {x['answer']:.2f} at x = 0.7" in alt
    assert f"answers {x['fitted']:.2f}" in alt
