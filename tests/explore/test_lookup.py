"""Lookup: a mean at one end of the scale, a lookup at the other, and a blur beside."""

import numpy as np
import pytest

from ctlearn.explore.lookup import Lookup, compute


def test_without_scale_the_cache_answers_the_mean():
    x = compute(scale=0.0, facts=7)
    np.testing.assert_allclose(x["cache"], x["values"].mean(axis=0))
    assert x["items"] == pytest.approx(7)


def test_with_a_large_scale_the_cache_looks_up():
    x = compute(scale=64.0, angle=20)
    np.testing.assert_allclose(x["cache"], x["values"][0], atol=1e-6)
    assert x["items"] == pytest.approx(1)


@pytest.mark.parametrize("scale", [0.0, 4.0, 64.0])
def test_twins_share(scale):
    x = compute(facts=2, angles=[30, 30], angle=30, scale=scale)
    np.testing.assert_allclose(x["weights"], [0.5, 0.5])
    np.testing.assert_allclose(x["cache"], x["values"].mean(axis=0))


def test_the_matrix_holds_two_facts_at_right_angles_and_no_more():
    assert compute(facts=2, angles=[10, 100])["recall"][1] < 1e-30
    for facts in range(3, 13):
        assert compute(facts=facts)["recall"][2] > 0.05


def test_the_one_best_factor_is_best():
    x = compute(facts=6)
    recalled = x["keys"] @ (x["keys"].T @ x["values"])

    def error(factor):
        return ((factor * recalled - x["values"]) ** 2).sum(axis=1).mean()

    assert x["recall"][2] == pytest.approx(error(x["factor"]))
    assert error(x["factor"]) < min(error(x["factor"] + d) for d in (-1e-3, 1e-3))


def test_a_fact_more_leaves_the_others_where_they_are():
    few, more = compute(facts=4), compute(facts=9)
    for name in ("directions", "values"):
        np.testing.assert_array_equal(few[name], more[name][:4])


def test_keys_and_values_are_told_apart():
    x = compute(facts=12)
    for points, apart in ((x["keys"], 0.2), (x["values"], 0.25)):
        distance = np.linalg.norm(points[:, None] - points, axis=2)
        assert distance[~np.eye(12, dtype=bool)].min() > apart


def test_every_number_is_told_by_its_name(said, told):
    shown = said(Lookup)
    x, facts = shown.numbers, shown.facts
    cache, _, rescaled = x["recall"]
    assert facts["recall error, file"] == told(cache)
    assert facts["recall error, matrix at its best"] == told(rescaled)
    assert facts["bytes, file"] == [x["cache_bytes"]]
    assert facts["bytes, matrix"] == [x["matrix_bytes"]]
    most = int(np.argmax(x["weights"]))
    far = [np.linalg.norm(np.subtract(x[a], x["values"][most]))
           for a in ("cache", "rescaled")]  # fmt: skip
    assert f"fact {most + 1} has {100 * x['weights'][most]:.0f} %" in shown.sentence
    assert f"lies {far[0]:.2f} from value {most + 1}, that of" in shown.sentence
    assert shown.sentence.endswith(f"best {far[1]:.2f}.")
    # a row of the picture: the fact, its cosine, its weight
    count, numbers = len(x["weights"]), shown.texts[-15:]
    assert numbers[::3] == [str(i + 1) for i in range(count)]
    for texts, name in ((numbers[1::3], "scores"), (numbers[2::3], "weights")):
        assert [float(text.replace("−", "-")) for text in texts] == told(*x[name])


@pytest.mark.browser
def test_the_question_and_a_key_are_turned_by_mouse(visit, drag, expect_fact):
    page = visit("lookup.html")
    drag(page, "query", (96, 10))
    page.locator("[data-drag='query'][aria-valuenow='90']").wait_for()
    drag(page, "key-1", (200, 122))
    page.locator("[data-drag='key-1'][aria-valuenow='0']").wait_for()
    angles = compute()["directions"]
    angles[1] = 0
    error = compute(angles=angles)["recall"][0]
    expect_fact(page, "recall error, file", f"{error:.3f}")


@pytest.mark.browser
def test_a_row_asks_with_its_key(phone):
    page = phone("lookup.html")
    page.locator("rect[data-pick]").nth(2).tap()
    angle = int(compute()["directions"][2])
    page.locator(f"[data-drag='query'][aria-valuenow='{angle}']").wait_for()
    assert page.locator("rect.x-asked").count() == 1


def test_the_sentence_says_when_twins_share(said):
    twins = said(Lookup, facts=2, angles=[30, 30], angle=30).sentence
    assert twins.startswith("2 facts share the largest weight, 0.50 each")
    assert said(Lookup, scale=0.0).sentence.startswith("Nothing is compared")


def test_the_figure_says_which_fact_weighs_most():
    assert "of fact 4, is" in Lookup(angle=80).figure().alt
