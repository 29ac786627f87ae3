"""Memory budget: bytes by the package's formulas, and which ages are kept."""

import numpy as np
import pytest

from ctlearn import cost
from ctlearn.buckets import level
from ctlearn.explore.memory_budget import NAMES, MemoryBudget, compute, size_text


def test_every_pattern_of_the_package_is_shown():
    assert set(NAMES) == set(cost.PATTERNS)


def test_a_layer_of_states_costs_what_few_tokens_of_a_cache_cost():
    x = compute(pattern="state", context=1024)
    # a state [d, d] of 4 bytes a number, and a convolution, against 2 d of 2 bytes
    assert x["even"] == pytest.approx((4 * 128**2 + 2 * 9 * 128) / (2 * 2 * 128))
    assert x["cache"] == 0
    assert x["bytes"][list(NAMES).index("state")] == x["state"]


def test_a_quarter_of_a_cache_rises_a_quarter_as_fast():
    rise = np.diff(compute()["totals"], axis=1)
    softmax, fourth = (rise[list(NAMES).index(n)] for n in ("softmax", "every_fourth"))
    np.testing.assert_allclose(softmax / fourth, 4)


def test_latent_numbers_are_shared_by_all_heads():
    few, many = (compute(pattern="latent", heads=n)["bytes"] for n in (4, 16))
    names = list(NAMES)
    assert few[names.index("latent")] == many[names.index("latent")]
    assert 4 * few[names.index("softmax")] == many[names.index("softmax")]


@pytest.mark.parametrize(
    ("pattern", "pairs", "keepers"),
    [
        ("softmax", 5000, 24),
        ("every_fourth", 5000, 6),
        ("window", 2048, 24),
        ("latent", 5000, 24),
        ("log_linear", 1, 24),
        ("state", 0, 24),
    ],
)
def test_which_pairs_are_kept_as_they_are(pattern, pairs, keepers):
    x = compute(pattern=pattern, context=5000)
    assert (x["pairs"], x["keepers"]) == (pairs, keepers)


def test_a_window_longer_than_the_context_keeps_all_of_it():
    assert compute(pattern="window", context=1000)["pairs"] == 1000


@pytest.mark.parametrize("T", [256, 300, 1025])
def test_runs_are_the_levels_in_use(T):
    levels = level(T - 1, np.arange(T))[::-1]
    _, counts = np.unique(levels, return_counts=True)
    assert compute(pattern="log_linear", context=T)["runs"] == counts.tolist()


def test_log_linear_memory_grows_by_a_state_where_the_context_doubles():
    totals = compute()["totals"][list(NAMES).index("log_linear")]
    # at 2^n + 1 tokens there is a level more, and half an octave on there is none more
    assert np.diff(totals)[::2] == pytest.approx(24 * 16 * 128**2 * 4)
    assert not np.diff(totals)[1::2].any()


def test_what_is_told_is_what_the_chosen_pattern_holds(said, told):
    shown = said(MemoryBudget, pattern="window", context=4096, layers=8)
    x, facts = shown.numbers, shown.facts
    assert facts["all memory"] == told((x["cache"] + x["state"]) / 1e6)
    assert facts["of it pairs"] == told(x["cache"] / 1e6)
    # all digits, in threes, and a half rounded up
    in_threes = f"{int(x['even'] + 0.5):,}".split(",")
    assert facts["as all softmax after"] == [float(part) for part in in_threes]
    assert "The last 2k pairs" in shown.sentence
    assert [int(row["bytes"]) for row in shown.rows] == x["bytes"]
    budget, ages = shown.pictures
    texts = [part["text"] for part in ages if part["tag"] == "text"]
    assert "8 layers: the last 2k pairs are kept" in texts
    assert "8 layers: one state a head, exact for 128 pairs" in texts
    assert all(text in [part["text"] for part in budget] for text in NAMES.values())


def test_the_chosen_memory_meets_its_line_at_the_context(said):
    shown = said(MemoryBudget, context=16384)
    (knob,) = (part for part in shown.pictures[0] if part.get("r") == 7)
    (line,) = (x for x in shown.pictures[0] if "x-thick" in x.get("class", ""))
    assert [knob["cx"], knob["cy"]] == pytest.approx(line["points"][12])


@pytest.mark.browser
def test_the_context_is_dragged_and_moved_by_key(visit, drag, picture_width):
    page = visit("memory_budget.html")
    right = picture_width(page, "context") - 92
    drag(page, "context", (52 + (right - 52) * 4 / 12, 100))
    marker = page.locator("[data-drag='context']")
    page.locator("[data-drag='context'][aria-valuenow='4096']").wait_for()
    marker.focus()
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    page.locator("[data-drag='context'][aria-valuetext^='8192 tokens']").wait_for()


@pytest.mark.browser
def test_a_pattern_by_touch_and_its_window_by_key(phone, expect_fact):
    page = phone("memory_budget.html#memory_budget?context=4096&layers=8")
    assert page.get_by_label("window w").is_disabled()
    page.get_by_label("window beside a state").tap()
    page.get_by_text("The last 2k pairs").wait_for()
    page.get_by_label("window w").focus()
    page.keyboard.press("ArrowLeft")
    page.get_by_text("The last 1k pairs").wait_for()
    x = compute(pattern="window", context=4096, layers=8, window=1024)
    expect_fact(page, "of it pairs", f"{x['cache'] / 1e6:.3g} MB")


def test_the_figure_says_every_total():
    x, alt = compute(), MemoryBudget().figure().alt
    for name, one in zip(NAMES.values(), x["bytes"], strict=True):
        assert f"{name} {size_text(one)}" in alt
    assert [size_text(one) for one in (999, 1e6, 2.5e9)] == ["999 B", "1 MB", "2.5 GB"]
