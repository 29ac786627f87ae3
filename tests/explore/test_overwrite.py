"""Overwrite: what each rule does to the old value, the new one and bystanders."""

import numpy as np
import pytest

from ctlearn.explore.overwrite import Overwrite, compute


def test_delta_replaces_and_add_adds():
    assert compute(rule="delta")["answers"][0] == pytest.approx(-1)
    assert compute(rule="add", angles=[0, 90])["answers"][0] == pytest.approx(2 - 1)
    x = compute(rule="decay", alpha=0.5, angles=[0, 90])
    assert x["answers"][0] == pytest.approx(2 * 0.5**2 - 1)


@pytest.mark.parametrize("beta", [0.0, 0.4, 1.0, 1.5, 2.0])
def test_the_error_shrinks_is_gone_or_turns_round(beta):
    x = compute(rule="delta", beta=beta, writes=6)
    error = x["before"][0] - -1.0
    assert x["misses"][0] == pytest.approx((1 - beta) * error, abs=1e-12)
    assert x["kept"] == 1 - beta


def test_at_two_the_state_is_mirrored_and_keeps_its_distance_from_the_line():
    x = compute(rule="delta", beta=2.0, writes=5)
    then, now = x["path"][-2:]
    line = -1.0 * x["keys"][0]
    along = np.array([-x["keys"][0][1], x["keys"][0][0]])
    assert (then - line) @ x["keys"][0] == pytest.approx(-(now - line) @ x["keys"][0])
    assert then @ along == pytest.approx(now @ along)


@pytest.mark.parametrize("rule", ["add", "delta"])
def test_a_bystander_moves_by_the_cosine_times_the_keys_move(rule):
    x = compute(rule=rule, beta=0.6, writes=6)
    np.testing.assert_allclose(x["moves"], x["cosines"] * x["moves"][0])


def test_a_bystander_at_a_right_angle_stays():
    x = compute(rule="delta", angles=[15, 105])
    assert x["moves"][1] == pytest.approx(0, abs=1e-12)
    assert x["misses"] == pytest.approx([0, 0], abs=1e-12)


def test_what_is_bound_follows_the_writes():
    assert compute(written=0)["bound"] == [None, None]
    assert compute(written=0)["key"] is None
    assert compute(written=2)["bound"] == [2.0, 1.0]
    assert compute()["bound"] == [-1.0, 1.0]
    assert compute(writes=2)["bound"] == [-1.0]


def test_every_answer_and_cosine_is_told_by_its_name(said, told):
    shown = said(Overwrite, rule="decay", writes=4)
    x, facts = shown.numbers, shown.facts
    assert facts["answer at the key"] == told(x["answers"][0])
    assert facts["off by"] == told(x["misses"][0])
    assert facts["old answer kept"] == [0.7]
    assert facts["bystanders moved by"] == told(np.abs(x["moves"][1:]).mean())
    for i in (1, 2):
        cosine = f"{x['cosines'][i]:.2f}".replace("-", "−")
        assert f"bystander {i}, cosine {cosine}" in shown.texts


def test_the_state_stands_at_the_end_of_its_way(said):
    parts = said(Overwrite, writes=5, written=3).pictures[0]
    way = next(part for part in parts if "x-stroke-state" in part.get("class", ""))
    (name,) = (part for part in parts if part["text"] == "S" and part["tag"] == "text")
    assert len(way["points"]) == 4
    assert [name["x"] - 9, name["y"] - 13] == way["points"][-1]


def test_one_line_of_answers_has_both_names(said):
    texts = said(Overwrite, old=1.5, new=1.5).texts
    assert "old, new" in texts
    assert not {"old", "new"} & set(texts)


@pytest.mark.browser
def test_the_bystander_is_dragged_to_a_right_angle(visit, drag, expect_fact):
    page = visit("overwrite.html#overwrite?rule=delta&angles=0,40")
    moved = abs(compute(rule="delta", angles=[0, 40])["moves"][1])
    expect_fact(page, "bystanders moved by", f"{moved:.2f}")
    drag(page, "key-1", (148, 20))
    page.locator("[data-drag='key-1'][aria-valuenow='90']").wait_for()
    expect_fact(page, "bystanders moved by", "0.00")


@pytest.mark.browser
def test_rules_and_writes_by_touch(phone, expect_fact):
    page = phone("overwrite.html#overwrite?written=0")
    page.get_by_text("Nothing is written yet").wait_for()
    step = page.get_by_role("button", name="step")
    page.get_by_label("delta", exact=True).tap()
    for written in (1, 2, 3):
        step.tap()
        answer = compute(rule="delta", written=written)["answers"][0]
        expect_fact(page, "answer at the key", f"{answer:.2f}".replace("-", "−"))
    assert page.locator("circle.x-fill-state").count() == 4


def test_the_figure_says_where_the_answer_goes():
    assert "goes from 1.82 to -1.00" in Overwrite(rule="delta").figure().alt
