"""Two views: one answer wherever a step is all that moves the last weights."""

import numpy as np
import pytest

from ctlearn.explore.two_views import TwoViews, compute

both = pytest.mark.parametrize("features", ["static", "moving"])
every_loss = pytest.mark.parametrize("objective", ["dot", "turned", "square"])


@both
@every_loss
@pytest.mark.parametrize("inner", [0, 1, 3])
def test_the_views_agree_and_normalising_breaks_it(features, objective, inner):
    asked = {"features": features, "objective": objective, "inner": inner}
    x = compute(cosine=0.4, rate=0.7, **asked)
    size = max(1, np.abs(x["trained"]).max())
    assert x["gaps"].max() < 1e-13 * size
    np.testing.assert_allclose(x["trained_state"], x["state"], atol=1e-13 * size)
    broken = compute(cosine=0.4, rate=0.7, weights="normalised", **asked)
    assert (broken["gaps"][1:] > 0.01).all() == (inner > 0)


@pytest.mark.parametrize("inner", [0, 1, 2, 3, 4])
@pytest.mark.parametrize(("objective", "sign"), [("dot", 1), ("turned", -1)])
def test_answers_are_n_times_the_value(inner, objective, sign):
    x = compute(inner=inner, objective=objective, rate=0.5)
    np.testing.assert_allclose(x["trained"], sign * 0.5 * inner * x["values"])
    np.testing.assert_allclose(x["times"], sign * 0.5 * inner)


def test_the_loss_falls_as_the_error_rises():
    x = compute()
    n, square = np.arange(5), (x["values"] ** 2).sum(axis=1).mean()
    np.testing.assert_allclose(x["losses"], -n * square)
    np.testing.assert_allclose(x["errors"], (n - 1) ** 2 * square, atol=1e-12)


def test_against_the_squared_error_steps_halve_what_is_left():
    x = compute(objective="square", rate=0.5)
    square = (x["values"] ** 2).sum(axis=1).mean()
    np.testing.assert_allclose(x["errors"], square / 4.0 ** np.arange(5))


def test_the_sign_is_absorbed_by_the_values():
    x, y = (compute(features="moving", objective=o) for o in ("dot", "turned"))
    for name in ("trained", "state", "written"):
        np.testing.assert_allclose(y[name], -x[name])
    np.testing.assert_allclose(y["stored"], x["stored"])


@both
@every_loss
def test_a_step_goes_down_the_slope(features, objective):
    """The first step of the second token, against differences of its loss."""
    x = compute(features=features, objective=objective, read=1, rate=0.3)
    before = compute(features=features, objective=objective, read=2, rate=0.3)
    W, key, v = x["state"], before["stored"][1], x["values"][1]

    def loss(W):
        z = key @ W
        if objective == "square":
            return ((z - v) ** 2).sum() / 2
        return (z @ v) * (-1 if objective == "dot" else 1)

    slopes = np.empty_like(W)
    for place in np.ndindex(W.shape):
        d = np.zeros_like(W)
        d[place] = 1e-4
        slopes[place] = (loss(W + d) - loss(W - d)) / 2e-4
    np.testing.assert_allclose(before["state"] - W, -0.3 * slopes, atol=1e-8)


def test_features_move_and_the_stored_ones_are_those_before_the_step():
    x = compute(features="moving", inner=3)
    first, second, _ = x["stored"][:3]
    # nothing comes back through last weights that are nothing
    np.testing.assert_array_equal(first, second)
    assert np.abs(x["stored"][5] - x["stored"][3]).max() > 1e-3


def test_the_learned_features_start_near_length_one():
    x = compute(features="moving", inner=1, rate=0.0)
    lengths = np.linalg.norm(x["stored"], axis=1)
    assert lengths.min() > 0.5
    assert lengths.max() < 1.5


def test_nothing_read():
    x = compute(read=0, features="moving")
    assert not x["trained"].any()
    assert not x["state"].any()
    assert not len(x["times"])


def test_every_error_and_pair_is_told_by_its_name(said, told):
    shown = said(TwoViews, inner=2, read=3, weights="normalised")
    x, facts = shown.numbers, shown.facts
    assert facts["difference of the views"] == told(x["gaps"][2])
    assert facts["answer, in values"] == told(*x["times"])
    assert facts["error, all read"] == told(x["errors"][2])
    assert facts["loss, all read"] == told(x["losses"][2])
    pairs = [(row["token"], row["step"]) for row in shown.rows]
    assert pairs == [(str(t), str(n)) for t in (1, 2, 3, 4) for n in (1, 2)]
    ((mark, errors),) = shown.marks
    assert mark == errors[2]


@pytest.mark.browser
def test_the_switch_that_breaks_it_by_mouse(visit, expect_fact):
    page = visit("two_views.html#two_views?inner=2")
    page.get_by_text("One answer").wait_for()
    expect_fact(page, "answer, in values", "2.00 · 2.00 · 2.00 · 2.00")
    page.get_by_label("normalised").click()
    gap = compute(inner=2, weights="normalised")["gaps"][-1]
    expect_fact(page, "difference of the views", f"{gap:.3g}")
    page.get_by_text("Normalising rescales").wait_for()


@pytest.mark.browser
def test_steps_by_touch_and_inner_steps_by_key(phone, expect_fact):
    address = "two_views.html#two_views?read=0"
    page = phone(address)
    page.get_by_text("both views answer nothing").wait_for()
    page.get_by_role("button", name="step").tap()
    page.get_by_label("sign turned").tap()
    page.get_by_role("slider", name="inner steps").focus()
    page.keyboard.press("End")
    expect_fact(page, "answer, in values", "−4.00")
    assert page.locator("circle.x-fill-output").count() == 2  # one is in the legend


def test_the_figure_says_the_error():
    assert "which at 2 is 0.93" in TwoViews(inner=2).figure().alt
