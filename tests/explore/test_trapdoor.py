"""Trapdoor: two orders that agree where the weight has features, and else do not."""

import numpy as np
import pytest

from ctlearn import features
from ctlearn.explore.trapdoor import Trapdoor, _series, compute


@pytest.mark.parametrize("rule", ["plain", "elu", "square"])
def test_with_features_both_orders_agree(rule):
    assert compute(rule=rule, tokens=24)["gaps"].max() < 1e-12


def test_the_series_comes_nearer_and_keeps_more():
    by_degree = [compute(rule="softmax", degree=n, scale=1.0) for n in (0, 2, 4, 6)]
    gaps = [x["gaps"].max() for x in by_degree]
    kept = [x["right_kept"][0] for x in by_degree]
    assert sorted(gaps, reverse=True) == gaps
    assert gaps[-1] > 1e-6
    assert kept == [4, 40, 140, 336]


def test_without_terms_the_right_order_answers_the_mean():
    x = compute(rule="softmax", degree=0, tokens=9, read=5)
    np.testing.assert_allclose(x["right"], x["values"][:5].mean(axis=0))


def test_features_of_the_series_multiply_to_the_series():
    q, k = np.random.default_rng(0).standard_normal((2, 5, 3))
    scores = (q * k).sum(axis=1)
    products = (_series(q, 4) * _series(k, 4)).sum(axis=1)
    terms = [scores**n / f for n, f in enumerate((1, 1, 2, 6, 24))]
    np.testing.assert_allclose(products, np.sum(terms, axis=0))
    second = (features.taylor(q) * features.taylor(k)).sum(axis=1)
    np.testing.assert_allclose((_series(q, 2) * _series(k, 2)).sum(axis=1), second)


@pytest.mark.parametrize("rule", ["plain", "elu", "square"])
def test_the_crossing_is_where_the_left_order_multiplies_more(rule):
    x = compute(rule=rule, tokens=24)
    more = np.greater(x["left_operations"], x["right_operations"])
    assert x["crossing"] == 1 + more.argmax()


def test_the_state_is_the_sum_of_its_writes():
    for rule in ("plain", "square", "softmax"):
        x = [compute(rule=rule, read=t) for t in range(13)]
        total = sum(one["write"] for one in x)
        np.testing.assert_allclose(total, x[-1]["state"], atol=1e-12)


@pytest.mark.parametrize("rule", ["plain", "elu", "square", "softmax"])
def test_nothing_read(rule):
    x = compute(rule=rule, read=0)
    assert len(x["weights"]) == len(x["left"]) == len(x["right"]) == 0
    assert not x["state"].any()


def test_every_count_is_told_by_its_name(said):
    shown = said(Trapdoor, read=9, rule="elu")
    x, facts = shown.numbers, shown.facts
    for side in ("left", "right"):
        assert facts[f"{side} multiplies"] == [x[f"{side}_operations"][8]]
        assert facts[f"{side} keeps"] == [x[f"{side}_kept"][8]]
    assert f"From token {x['crossing']} on the left order" in shown.sentence
    assert [row["weight now"] for row in shown.rows][9:] == ["not read"] * 3
    assert [mark == left[8] for mark, left in shown.marks] == [True, True]


@pytest.mark.browser
def test_steps_by_touch_and_the_numbers_they_show(phone, expect_fact):
    page = phone("trapdoor.html#trapdoor?read=0")
    page.get_by_text("Nothing has been read yet").wait_for()
    step = page.get_by_role("button", name="step")
    for t in (1, 2, 3):
        step.tap()
        expect_fact(page, "left multiplies", str(compute()["left_operations"][t - 1]))
    expect_fact(page, "right multiplies", str(compute()["right_operations"][0]))
    assert page.locator("rect.x-fill-query").count() >= 3


@pytest.mark.browser
def test_softmax_shows_its_gap(visit, expect_fact):
    page = visit("trapdoor.html")
    assert page.get_by_label("series to degree").is_disabled()
    page.get_by_label("exp(τ q·k)").click()
    gap = compute(rule="softmax")["gaps"][-1]
    expect_fact(page, "difference", f"{gap:.3g}")
    page.get_by_label("series to degree").focus()
    page.keyboard.press("ArrowRight")
    gap = compute(rule="softmax", degree=4)["gaps"][-1]
    expect_fact(page, "difference", f"{gap:.3g}")
    page.get_by_text("series up to degree 4").wait_for()


def test_the_number_of_an_only_token_is_written_once(said):
    comparing = said(Trapdoor, tokens=1).pictures[0]
    assert [part["text"] for part in comparing if part["tag"] == "text"].count("1") == 1


def test_a_large_state_is_drawn_in_part_and_says_so(said):
    texts = said(Trapdoor, rule="softmax", degree=6, d_k=4).texts
    assert {"210 × 4", "(40 rows", "are drawn)"} <= set(texts)


def test_the_figure_says_where_the_lines_cross():
    widget = Trapdoor(rule="square")
    assert f"from token {widget.numbers()['crossing']} on" in widget.figure().alt
