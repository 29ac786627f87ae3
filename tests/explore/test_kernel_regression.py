"""Kernel regression: two ends, where softmax attention lies, and what neither says."""

import numpy as np
import pytest

from ctlearn.explore.kernel_regression import KernelRegression, _points, compute


@pytest.mark.parametrize("space", ["circle", "line"])
@pytest.mark.parametrize("width", [0.1, 0.7, 4.0])
def test_the_kernel_is_gaussian(space, width):
    x = compute(space=space, width=width)
    q, k = _points(space, x["grid"]), _points(space, x["places"])
    far = ((q[:, None] - k) ** 2).sum(axis=2) / (2 * width**2)
    weights = np.exp(far.min(axis=1, keepdims=True) - far)
    answers = weights @ x["values"] / weights.sum(axis=1)
    np.testing.assert_allclose(x["kernel"], answers)


def test_for_keys_of_one_length_softmax_attention_is_the_kernel():
    x = compute(width=0.6)
    np.testing.assert_allclose(x["softmax"], x["kernel"])
    x = compute(width=0.6, space="line")
    assert np.abs(x["softmax"] - x["kernel"]).max() > 0.5


def test_the_width_of_attention_is_that_of_scores_over_the_root():
    x = compute(width=2**0.25)
    assert x["attention"] == 2**0.25
    q, k = _points("circle", x["grid"]), _points("circle", x["places"])
    weights = np.exp(q @ k.T / np.sqrt(2))
    answers = weights @ x["values"] / weights.sum(axis=1)
    np.testing.assert_allclose(x["kernel"], answers)


def test_from_the_nearest_neighbour_to_the_mean():
    near, far = compute(width=0.05), compute(width=8.0)
    nearest = np.abs(near["places"] - 0.1).argmin()
    assert near["answers"][0] == pytest.approx(near["values"][nearest])
    assert near["read"] == pytest.approx(1)
    assert far["answers"][0] == pytest.approx(far["values"].mean(), abs=0.05)
    assert far["read"] == pytest.approx(6, abs=0.01)


@pytest.mark.parametrize("space", ["circle", "line"])
def test_no_mean_leaves_the_values(space):
    for width in (0.05, 0.5, 8.0):
        for points in (1, 2, 7):
            x = compute(space=space, width=width, points=points)
            assert x["outside"][:2].max() == 0


def test_linear_attention_can_leave_them_and_is_one_wave_or_line():
    x = compute(points=2, places=[-0.1, 0.1], levels=[1.0, 1.2])
    assert x["outside"][2] > 0.5
    radians = np.pi * x["grid"]
    wave = np.stack([np.cos(radians), np.sin(radians)], axis=1)
    _, rest, _, _ = np.linalg.lstsq(wave, x["linear"], rcond=None)
    assert rest.max() < 1e-24
    line = compute(space="line")
    slopes = np.diff(line["linear"])
    np.testing.assert_allclose(slopes, slopes[0])
    assert line["linear"][60] == 0


def test_on_a_line_softmax_attention_favours_the_longest_key():
    asked = {"points": 3, "places": [0.1, 0.5, 1.0], "question": 0.1}
    x = compute(space="line", width=0.15, **asked)
    assert x["answers"][0] == pytest.approx(x["values"][0], abs=0.05)
    assert x["answers"][1] == pytest.approx(x["values"][2], abs=1e-3)


def test_values_of_zero():
    x = compute(points=1, levels=[0.0])
    assert not x["linear"].any()


def test_every_answer_and_share_is_told_by_its_name(said, told):
    points = {"points": 2, "places": [0.3, 0.9], "levels": [1, 1.5]}
    shown = said(KernelRegression, space="line", width=0.6, **points)
    x, facts = shown.numbers, shown.facts
    for name, answer in zip(("kernel", "softmax", "linear"), x["answers"], strict=True):
        assert facts[f"answer, {name}"] == told(answer)
    assert facts["points read"] == pytest.approx([x["read"]], abs=0.06)
    assert x["outside"][1] != x["outside"][2]
    assert facts["linear out of range"] == pytest.approx([100 * x["outside"][2]], abs=1)
    assert "answers {:.2f} instead".format(x["answers"][1]).replace("-", "−") in (
        shown.sentence
    )


@pytest.mark.browser
def test_a_point_is_dragged_across_and_up(visit, drag, picture_width, expect_fact):
    page = visit("kernel_regression.html#kernel_regression?points=1")
    centre = 34 + (picture_width(page, "point-0") - 66 - 34) / 2
    drag(page, "point-0", (centre, 46 + 220 * 1.5 / 5))
    page.get_by_label("point 1").and_(page.locator("[aria-valuenow='1']")).wait_for()
    point = page.locator("[data-drag='point-0']")
    assert point.get_attribute("aria-valuetext") == "value 1.00, at 0.00"
    expect_fact(page, "answer, kernel", "1.00")


@pytest.mark.browser
def test_left_and_right_move_a_place(visit):
    page = visit("kernel_regression.html#kernel_regression?places=0.5&levels=1")
    page.locator("[data-drag='point-0']").focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowDown")
    said = "value 0.90, at 0.48"
    page.locator(f"[data-drag='point-0'][aria-valuetext='{said}']").wait_for()


@pytest.mark.browser
def test_the_two_ends_by_touch(phone):
    address = "kernel_regression.html#kernel_regression?width=0.05"
    page = phone(address)
    page.get_by_text("looks up point 5").wait_for()
    page.get_by_label("any length").tap()
    page.get_by_text("favours long keys").wait_for()
    page.get_by_label("width").first.focus()
    page.keyboard.press("End")
    page.get_by_text("the plain mean of all 6 values").wait_for()


def test_the_figure_says_the_range():
    widget = KernelRegression()
    assert f"from {widget.numbers()['lowest']:.2f} to" in widget.figure().alt
