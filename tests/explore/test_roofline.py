"""The roofline: the chapter's floors on any machine, and the roofs under the hand."""

import numpy as np
import pytest

from ctlearn.explore.roofline import NAMES, Roofline, compute
from ctlearn.tasks import traffic

AT = {name: i for i, name in enumerate(NAMES)}


def test_it_opens_with_the_floors_of_the_chapter():
    x, told = compute(), traffic.floors()
    for rung, (moved, work, picoseconds) in told.items():
        found = [x[n][AT[rung]] for n in ("moved", "operations", "floors")]
        assert found == pytest.approx([moved, work, 1e-3 * picoseconds])
    assert (x["corner"], x["low_corner"]) == pytest.approx((790 / 4.3, 67 / 4.3))


def test_a_floor_is_the_longer_of_two_times_and_the_speed_what_it_allows():
    x = compute(bandwidth=2.0, peak=50.0, single=5.0)
    roofs = np.where([name in traffic.VECTORS for name in NAMES], 5.0, 50.0)
    assert x["memory"] == pytest.approx(1e-3 * x["moved"] / 2)
    assert x["processor"] == pytest.approx(1e-3 * x["operations"] / roofs)
    assert x["floors"] == pytest.approx(np.maximum(x["memory"], x["processor"]))
    assert x["speeds"] == pytest.approx(np.minimum(roofs, 2 * x["intensity"]))


def test_single_numbers_are_no_faster_than_matrices():
    fast, same = compute(peak=20.0, single=3000.0), compute(peak=20.0, single=20.0)
    assert all(np.array_equal(fast[name], same[name]) for name in same)


def test_where_all_products_are_as_fast_the_plan_token_by_token_is_best():
    floors = compute(bandwidth=0.05, peak=0.2, single=0.2)["floors"]
    assert floors[AT["recurrent"]] < min(floors[AT["chunkwise"]], floors[1])


def test_longer_sequences_are_dearer_to_attention_and_to_a_cache_alone():
    short, long = (compute(tokens=T)["floors"] for T in (8192, 2**17))
    dearer = {name for name, i in AT.items() if long[i] > short[i]}
    assert dearer == {"softmax_attention", "decode_cache"}


def test_more_programs_multiply_more_and_move_as_much():
    few, many = compute(columns=128), compute(columns=8)
    scores = 2 * 64 * 128 * (16 - 1)
    for name in ("chunkwise", "linear_attention"):
        more = many["operations"][AT[name]] - few["operations"][AT[name]]
        assert more == scores
    assert np.array_equal(many["moved"], few["moved"])


@pytest.mark.parametrize(
    ("more", "most"),
    [
        ({"d": 32, "columns": 512}, {"d": 32, "columns": 32}),
        ({"tokens": 256, "chunk_size": 256}, {"tokens": 256, "chunk_size": 256}),
    ],
)
def test_no_program_has_more_columns_than_the_head(more, most):
    found, right = compute(**more), compute(**most)
    assert all(np.array_equal(found[name], right[name]) for name in right)


def test_what_is_told_is_of_the_plan_that_is_chosen(said, told):
    shown = said(Roofline, plan="softmax_attention", tokens=4096)
    x, i = shown.numbers, AT["softmax_attention"]
    facts = shown.facts
    assert facts["corner"] == told(x["corner"])
    assert facts["this plan"] == told(x["intensity"][i])
    assert facts["bytes a token"] == told(x["moved"][i])
    assert facts["operations a token"] == told(x["operations"][i])
    assert facts["floor"] == told(x["floors"][i])
    assert "right of 184" in shown.sentence
    assert "waits for the processor" in shown.sentence
    assert [row["plan"] for row in shown.rows] == list(NAMES.values())
    decoding = said(Roofline, plan="decode_state").sentence
    assert "left of 15.6, where the roof of single numbers begins" in decoding
    assert "waits for the memory, 30.7 ns a token" in decoding


def test_plans_lie_under_their_roofs_and_their_letters_apart(said):
    shown = said(Roofline, plan="linear_attention")
    roofs, _ = shown.pictures
    x = shown.numbers
    knobs = [part for part in roofs if part.get("r") == 10]
    matrices, single, memory = ((one["cx"], one["cy"]) for one in knobs)
    dots = {
        part["class"]: (part["cx"], part["cy"], part["r"])
        for part in roofs
        if "x-halo" in part.get("class", "")
    }
    assert dots["x-fill-query x-halo"][1] == matrices[1]
    assert dots["x-fill-error x-halo"][1] == single[1]
    # from the knob on the slope a plan is as far up as it is across, in logarithms
    across = np.log10(x["intensity"][AT["decode_state"]] / 4) * 648 / np.log10(2**18)
    up = np.log10(x["intensity"][AT["decode_state"]] / 4) * 230 / 6
    here = (memory[0] + across * (700 - 64) / 648, memory[1] - up)
    assert dots["x-fill-state x-halo"][:2] == pytest.approx(here)
    # the chosen one is the largest, and drawn over the others
    assert list(dots)[-1] == "x-fill-value x-halo"
    assert [r for *_, r in dots.values()] == [4.5] * 6 + [7]
    letters = sorted(
        part["x"]
        for part in roofs
        if part["tag"] == "text" and part["text"] in set("abcdefg")
    )
    assert len(letters) == 7
    assert min(np.diff(letters)) > 14.9


def test_the_later_time_is_filled_and_told(said):
    shown = said(Roofline)
    _, waits = shown.pictures
    x = shown.numbers
    squares = [part for part in waits if part.get("width") == 10][:7]
    circles = [part for part in waits if part.get("r") == 5.5][:7]
    for i, (square, circle) in enumerate(zip(squares, circles, strict=True)):
        later = x["memory"][i] >= x["processor"][i]
        assert square["class"].startswith("x-fill") == later
        assert circle["class"].startswith("x-fill") != later
        assert (square["x"] + 5 >= circle["cx"]) == later
    floors = {"1.47 ns", "1.07 ns", "358 ps", "238 ps", "2.65 ns", "30.7 ns", "976 ns"}
    assert floors <= {part["text"] for part in waits if part["tag"] == "text"}


def test_labels_are_moved_apart_and_back_from_the_end(node):
    run = "console.log(JSON.stringify([[1, 2, 30], [25, 28, 30]].map((all) =>"
    found = node(f"{Roofline.module()}{run} apart(all, 15, 31))))")
    assert found == [[1, 16, 31], [1, 16, 31]]


def speed(page, handle, near):
    """The value of a handle, once it is near a number; a pixel is a few percent."""
    page.wait_for_function(
        "([handle, near]) => Math.abs(Math.log(document.querySelector("
        "`[data-drag='${handle}']`).getAttribute('aria-valuenow') / near)) < 0.07",
        arg=[handle, near],
    )
    return float(page.get_attribute(f"[data-drag='{handle}']", "aria-valuenow"))


@pytest.mark.browser
def test_roofs_and_slope_are_dragged_and_moved_by_key(visit, drag, picture_width):
    page = visit("roofline.html")
    right = picture_width(page, "peak") - 16
    # six decades of TFLOP a second are 230 pixels: here 100, then as high as it goes
    drag(page, "peak", (right - 12, 288 - 230 * 4 / 6))
    peak = speed(page, "peak", 100)
    drag(page, "single", (right - 46, 60))
    assert speed(page, "single", 100) == peak
    # at 4 operations a byte
    drag(page, "bandwidth", (100, 288 - 230 * 3 / 6))
    slow = speed(page, "bandwidth", 2.5)
    page.locator("[data-drag='bandwidth']").focus()
    for _ in range(4):
        page.keyboard.press("ArrowUp")
    assert speed(page, "bandwidth", 2 * slow) == pytest.approx(2 * slow, rel=0.01)


@pytest.mark.browser
def test_a_plan_by_touch_and_by_menu(phone, expect_fact):
    page = phone("roofline.html#roofline?tokens=1024")
    page.locator("[data-pick='7']").tap()
    x = compute(tokens=1024)
    expect_fact(page, "this plan", f"{x['intensity'][6]:.3g} op/byte")
    page.get_by_label("Plan", exact=True).select_option("recurrent")
    expect_fact(page, "floor", f"{x['floors'][0]:.3g} ns")


def test_the_figure_says_every_floor():
    alt = Roofline().figure().alt
    for name, floor in zip(NAMES.values(), compute()["floors"], strict=True):
        assert f"{name} {floor:.3g} ns" in alt
