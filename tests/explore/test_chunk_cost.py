"""Chunk cost: the balance of two terms, and how little it matters to miss it."""

import pytest

from ctlearn.explore.chunk_cost import ChunkCost, compute


def test_at_the_best_size_the_overhead_is_the_work_inside():
    x = compute()
    best = x["best"]
    overhead = 16e-6 * 4096 / best
    inside = 4096 * 2 * 64 * best / 8e9
    assert overhead == pytest.approx(inside)
    assert x["least"] == pytest.approx(overhead + inside + 4096 * 2 * 64**2 / 8e9)
    assert x["least"] <= x["totals"].min()


def test_the_best_size_does_not_depend_on_the_length():
    assert compute(tokens=1024)["best"] == compute(tokens=2**20)["best"]


def test_twice_the_best_size_costs_little():
    # a = 2 b d C^2 for C = 32
    x = compute(overhead=16.384, chunk_size=64)
    assert x["balance"] == pytest.approx(32)
    assert x["time"] / x["least"] == pytest.approx(1 + 16 / (64 + 64))


def test_the_best_size_stays_between_one_and_all_tokens():
    assert compute(overhead=0.125, d=512, speed=0.125)["best"] == 1
    x = compute(overhead=1024.0, speed=8192.0, tokens=64)
    assert x["best"] == 64
    assert x["balance"] > 64


def test_a_chunk_is_no_longer_than_the_sequence():
    x = compute(tokens=64, chunk_size=1024)
    assert x["size"] == 64
    assert x["time"] == pytest.approx(x["totals"][-1])
    assert x["sizes"][-1] == 64


def test_the_other_plans():
    x = compute()
    assert x["recurrent"] == pytest.approx(4096 * (16e-6 + 2 * 64**2 / 8e9))
    assert x["parallel"] == pytest.approx(16e-6 + 4096**2 * 128 / 8e9)


def test_every_time_and_size_is_told_by_its_name(said, told):
    shown = said(ChunkCost)
    x, facts = shown.numbers, shown.facts
    assert facts["best chunk size $C*$"] == told(x["best"])
    names = {"time at best": "least", "time at 8": "time"}
    for name in ("recurrent", "parallel"):
        names[name] = name
    for name, number in names.items():
        assert facts[name] == told(1e3 * x[number]), name
    (plot,) = shown.pictures
    place = {part["text"]: part["x"] for part in plot if part["tag"] == "text"}
    (marker,) = (part for part in plot if part.get("r") == 7)
    assert place["8"] == marker["cx"]
    assert (place["1"], place["4096"]) == (52, 700 - 86)


def test_keys_move_small_sizes_by_one(node):
    steps = "[[1, 1], [2, -1], [64, 1], [63, 1]].map(([chunk_size, steps]) =>"
    run = f"{steps} nudge('chunk', steps, {{ chunk_size, tokens: 64 }}).chunk_size)"
    sizes = node(f"{ChunkCost.module()}console.log(JSON.stringify({run}))")
    assert sizes == [2, 1, 64, 64]


@pytest.mark.browser
def test_the_marker_is_dragged(visit, drag, picture_width, expect_fact):
    page = visit("chunk_cost.html")
    left, right = 52, picture_width(page, "chunk") - 86
    drag(page, "chunk", (left + (right - left) * 5 / 12, 100))
    page.locator("[data-drag='chunk'][aria-valuenow='32']").wait_for()
    time = compute(chunk_size=32)["time"]
    expect_fact(page, "time at 32", f"{1e3 * time:.3g} ms")


@pytest.mark.browser
def test_sliders_move_by_octaves(visit, expect_fact):
    page = visit("chunk_cost.html")
    page.get_by_label("head size").focus()
    page.keyboard.press("ArrowRight")
    expect_fact(page, "best chunk size", f"{compute(d=128)['best']:.3g}")
    assert page.get_by_label("head size").get_attribute("aria-valuetext") == "128"
    page.get_by_label("overhead").focus()
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    best = compute(d=128, overhead=32.0)["best"]
    expect_fact(page, "best chunk size", f"{best:.3g}")


@pytest.mark.browser
def test_measured_numbers_between_the_steps_are_kept(visit, expect_fact):
    page = visit("chunk_cost.html#chunk_cost?overhead=21.7&speed=11.3")
    best = compute(overhead=21.7, speed=11.3)["best"]
    expect_fact(page, "best chunk size", f"{best:.3g}")


def test_the_figure_says_where_the_least_time_is():
    assert "chunk size of 32" in ChunkCost().figure().alt
