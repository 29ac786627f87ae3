"""Orthogonalise: a diagonal shows what happens to any matrix, and to its smallest."""

import numpy as np
import pytest

from ctlearn.explore.orthogonalise import Orthogonalise, compute
from ctlearn.inner import MUON, newton_schulz
from ctlearn.tasks import orthogonalisation


def test_a_diagonal_has_the_singular_values_of_any_matrix_with_its_own():
    x = compute(decades=[0, -0.4, -0.9, -1.1], rank=4)
    rng = np.random.default_rng(0)
    U, V = (np.linalg.qr(rng.standard_normal((6, 4)))[0] for _ in range(2))
    before, after = orthogonalisation.singular_values(U * x["singular"] @ V.T)
    np.testing.assert_allclose(before[:4], x["before"], rtol=1e-6)
    np.testing.assert_allclose(after[:4], np.sort(x["after"])[::-1], rtol=1e-6)


@pytest.mark.parametrize(
    ("iteration", "low", "high"), [("lact", 0.97, 1.04), ("muon", 0.68, 1.14)]
)
def test_values_above_a_hundredth_come_near_one(iteration, low, high):
    x = compute(iteration=iteration, decades=[0, -0.3, -0.7, -1.2, -1.5, -1.8])
    assert x["before"].min() > 0.01
    assert low < x["after"].min() <= x["after"].max() < high


@pytest.mark.parametrize("iteration", ["muon", "lact", "cubic"])
@pytest.mark.parametrize("steps", [1, 5, 10])
def test_the_smallest_is_multiplied_by_no_more_than_the_growth(iteration, steps):
    for least in (0, -2, -4):
        x = compute(iteration=iteration, steps=steps, rank=2, decades=[0, least])
        assert x["gain"] <= x["growth"] * (1 + 1e-12)
    tiny = compute(iteration=iteration, steps=1, rank=2, decades=[1, -4])
    assert tiny["gain"] == pytest.approx(tiny["growth"], rel=1e-8)


def test_the_smallest_is_left_behind_and_catches_up_later():
    x = compute(decades=[0, -3], rank=2)
    assert x["after"][1] < 0.5 < compute(decades=[0, -3], rank=2, steps=6)["after"][1]


def test_the_cubic_rises_to_one_and_never_beyond():
    way = compute(iteration="cubic")["path"]
    assert (np.diff(way, axis=0) > -1e-12).all()
    assert way.max() < 1 + 1e-12


def test_the_scale_of_the_matrix_does_not_matter():
    x = compute(rank=3, decades=[0, -1, -2])
    larger = compute(rank=3, decades=[1, 0, -1])
    np.testing.assert_allclose(larger["after"], x["after"], rtol=1e-4)


def test_lact_has_five_steps_of_which_the_last_is_repeated():
    x = compute(iteration="lact", rank=2)
    a, b, c = 2.8366, -3.0525, 1.2012
    s = x["path"][5]
    np.testing.assert_allclose(x["path"][6], a * s + b * s**3 + c * s**5)


def test_muons_five_steps_are_the_packages():
    x = compute(rank=4)
    there = np.diag(newton_schulz(np.diag(x["singular"]), MUON))
    np.testing.assert_array_equal(x["after"], there)


def test_every_value_is_told_by_its_name(said, told):
    shown = said(Orthogonalise, iteration="lact", decades=[0, -0.3, -0.7], rank=3)
    x, facts = shown.numbers, shown.facts
    before, after = (x[name][x["smallest"]] for name in ("before", "after"))
    assert facts["smallest before"] == told(before)
    assert facts["smallest after"] == told(after)
    assert facts["multiplied by"] == told(x["gain"])
    assert facts["largest after"] == told(max(x["after"]))
    assert facts["largest to smallest"] == told(*x["ratios"])
    assert [float(row["step 5"]) for row in shown.rows] == told(*x["after"])


def test_the_dots_lie_where_the_steps_have_led(said):
    ways = said(Orthogonalise, steps=3).pictures[0]
    full = [part for part in ways if part["points"] and "opacity" not in part]
    lines = [part["points"] for part in full]
    dots = [part for part in ways if part.get("r") == 4]
    assert [[dot["cx"], dot["cy"]] for dot in dots] == [line[-1] for line in lines]
    assert {len(line) for line in lines} == {4}


@pytest.mark.browser
def test_a_singular_value_is_dragged_down_its_column(visit, drag, expect_fact):
    page = visit("orthogonalise.html#orthogonalise?rank=2&decades=0,-1")
    drag(page, "value-1", (44, 46 + 252 * 4 / 6))
    page.locator("[data-drag='value-1'][aria-valuenow='-3']").wait_for()
    x = compute(rank=2, decades=[0, -3])
    expect_fact(page, "smallest after", f"{x['after'][1]:.3g}")
    page.get_by_text("it is left behind").wait_for()


@pytest.mark.browser
def test_the_other_iterations_by_touch_and_steps_by_key(phone, expect_fact):
    page = phone("orthogonalise.html")
    page.get_by_label("cubic").tap()
    x = compute(iteration="cubic")
    expect_fact(page, "multiplied by", f"{x['gain']:.3g}")
    page.get_by_label("steps", exact=True).focus()
    page.keyboard.press("Home")
    page.get_by_text("No step is taken").wait_for()
    page.keyboard.press("End")
    x = compute(iteration="cubic", steps=10)
    expect_fact(page, "smallest after", f"{x['after'][5]:.3g}")


def test_the_figure_says_where_the_smallest_goes():
    assert "from 0.00031 to 0.15" in Orthogonalise().figure().alt
