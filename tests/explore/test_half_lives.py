"""Half-lives: what a channel still holds, by the gated recurrence and by hand."""

import numpy as np
import pytest

from ctlearn.explore.half_lives import HalfLives, compute
from ctlearn.mixers import retention


def test_half_is_left_after_a_half_life():
    x = compute(half_life=4.0, spread=1.0, rates="scalar")
    assert x["half_lives"] == [4]
    np.testing.assert_allclose(x["curves"][0][[0, 4, 8, 12]], [1, 0.5, 0.25, 0.125])
    assert x["lengths"] == pytest.approx(1 / (1 - 0.5**0.25))


def test_channels_lie_octaves_apart_around_the_middle():
    x = compute(half_life=8.0, spread=2.0)
    np.testing.assert_allclose(x["half_lives"], [1, 4, 16, 64])
    np.testing.assert_allclose(compute(spread=0.0)["half_lives"], 8)


def test_one_rate_is_retention():
    x = compute(rates="scalar", half_life=3.0, tokens=7)
    ones, unit = np.ones((7, 1)), np.eye(7)
    log_gamma = np.log(x["alphas"][0])
    o, S = retention.recurrent(ones, ones, unit, log_gamma=log_gamma)
    np.testing.assert_allclose(x["survives"], S)
    np.testing.assert_allclose(x["masks"][0], o)


@pytest.mark.parametrize("kept", [0.0, 0.3, 1.0])
def test_what_survives_is_the_row_of_the_mask(kept):
    for read in (1, 8, 9, 14):
        x = compute(kept=kept, gate=9, tokens=14, read=read)
        row = x["masks"][:, read - 1]
        np.testing.assert_allclose(x["survives"], row, atol=1e-15)


def test_a_closed_gate_forgets_all_before_it_and_nothing_after():
    open_, closed = compute(tokens=12), compute(tokens=12, gate=5, kept=0.0)
    assert not closed["survives"][:, :4].any()
    np.testing.assert_allclose(closed["survives"][:, 4:], open_["survives"][:, 4:])


def test_the_worth_comes_near_the_memory_length():
    x = compute(half_life=1.0, spread=0.0, tokens=24)
    np.testing.assert_allclose(x["worth"], x["lengths"], rtol=1e-6)
    assert (compute()["worth"] < compute()["lengths"]).all()


def test_a_mean_of_rates_fades_faster_first_and_slower_later():
    """It is no exponential: what is left of it fades ever more slowly."""
    average = compute(tokens=24)["average"]
    ratios = average[1:] / average[:-1]
    assert (np.diff(ratios) > 0).all()


def test_nothing_read():
    x = compute(read=0, tokens=5)
    assert not x["survives"].any()
    assert not x["worth"].any()


def test_each_channel_is_told_with_its_own_numbers(said, told):
    shown = said(HalfLives, read=13, tokens=16)
    x = shown.numbers
    assert shown.facts["half-life, tokens"] == [1, 4, 16, 64]
    assert shown.facts["decay $α$"] == told(*x["alphas"])
    assert shown.facts["memory $1/(1−α)$, tokens"] == told(*x["lengths"])
    sums = [f"= {worth:.1f}" for worth in x["worth"]]
    assert [text for text in shown.texts if text.startswith("=")] == sums
    assert "what is left after token 13, and its sum" in shown.texts
    assert f"token 1, {100 * x['survives'][3][0]:.1f} % is left" in shown.sentence


def test_the_row_of_the_newest_token_is_framed(said):
    for mask in said(HalfLives, tokens=16).pictures[2:]:
        ground, frame = (part for part in mask if part["tag"] == "rect")
        assert frame["y"] + frame["height"] == ground["y"] + ground["height"]


@pytest.mark.browser
def test_a_half_life_is_dragged_and_the_others_keep_their_ratios(
    visit, drag, picture_width
):
    page = visit("half_lives.html")
    width = picture_width(page, "channel-1")
    age = 26 + (width - 84 - 26) * 8 / 19
    drag(page, "channel-1", (age, 100))
    page.wait_for_function(
        "Math.abs(document.querySelector(\"[data-drag='channel-1']\")"
        ".getAttribute('aria-valuenow') - 8) < 0.2"
    )
    lives = page.locator("[data-drag]").evaluate_all(
        "(all) => all.map((one) => Number(one.getAttribute('aria-valuenow')))"
    )
    np.testing.assert_allclose(np.array(lives[1:]) / lives[:-1], 4, rtol=0.01)


@pytest.mark.browser
def test_the_gate_by_keyboard_and_steps_by_touch(phone, expect_fact):
    query = "half_lives?rates=scalar&read=8&gate=9"
    page = phone(f"half_lives.html#{query}")
    page.get_by_label("kept there").focus()
    page.keyboard.press("Home")
    page.get_by_role("button", name="step").tap()
    page.get_by_text("older than token 9 is gone").wait_for()
    x = compute(rates="scalar", kept=0.0, read=9)
    assert x["worth"] == 1
    expect_fact(page, "memory", f"{x['lengths'][0]:.1f}")


def test_the_figure_names_the_half_lives():
    assert "half-lives of 1, 4, 16, 64" in HalfLives().figure().alt
