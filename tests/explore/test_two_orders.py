"""Two orders: where they agree, how they differ, and the bridge between them."""

import numpy as np
import pytest

from ctlearn.explore.two_orders import TwoOrders, compute


@pytest.mark.parametrize("same", [{"alpha": 1.0}, {"beta": 0.0}, {"cosine": 0.0}])
def test_where_the_orders_agree(same):
    assert compute(tokens=10, **same)["gaps"].max() < 1e-12
    assert compute(tokens=10)["gaps"].max() > 0.1


@pytest.mark.parametrize("beta", [0.0, 0.35, 1.0, 2.0])
@pytest.mark.parametrize("alpha", [0.05, 0.5, 1.0])
def test_the_bridge_is_exact(alpha, beta):
    x = compute(given="bridge", alpha=alpha, beta=beta, tokens=6)
    size = max(1, np.abs(x["second"]).max())
    assert np.abs(x["gap"]).max() < 1e-12 * size
    assert x["first_kept"] == pytest.approx(x["second_kept"])


def test_from_one_state_they_differ_by_what_is_read():
    """At the second token both find one state, as the first finds an empty one."""
    x = compute(alpha=0.7, beta=0.4)
    k, v = x["keys"], x["values"]
    seen = 0.4 * (k[0] @ k[1]) * v[0]
    now = compute(alpha=0.7, beta=0.4, read=2)
    np.testing.assert_allclose(now["gap"], 0.4 * 0.3 * np.outer(k[1], seen))


def test_with_strength_one_only_decay_first_returns_the_newest():
    x = compute(beta=1.0, tokens=10)
    assert x["first_misses"].max() < 1e-12
    assert x["second_misses"][1:].min() > 0.01


def test_any_two_keys_have_one_cosine():
    k = compute(cosine=0.35, tokens=5)["keys"]
    np.testing.assert_allclose(k @ k.T, 0.65 * np.eye(5) + 0.35)


def test_one_key_for_all_shows_what_a_write_keeps():
    x = [compute(cosine=1.0, beta=0.5, read=t, tokens=3) for t in (1, 2)]
    v = x[0]["values"][1]
    for order, fresh in (("first", 0.5), ("second", 0.5)):
        before, after = (one[f"{order}_answer"] for one in x)
        kept = x[0][f"{order}_kept"]
        np.testing.assert_allclose(after, kept * before + fresh * v)


def test_nothing_read():
    x = compute(read=0)
    assert not x["first"].any()
    assert not x["second_answer"].any()


def test_every_difference_is_told_of_its_own_order(said, told):
    shown = said(TwoOrders, read=4)
    x, facts = shown.numbers, shown.facts
    assert facts["difference of the states"] == told(x["gaps"][3])
    for order, name in (("first", "decay first"), ("second", "read first")):
        assert facts[f"old answer kept, {name}"] == told(x[f"{order}_kept"])
        misses = [row[f"newest error, {name}"] for row in shown.rows]
        assert float(misses[0].replace("·10⁻¹⁶", "e-16")) < 1e-15
        there = [float(text.replace("·10⁻¹⁶", "e-16")) for text in misses]
        assert there == told(*x[f"{order}_misses"])
    newest = (x[f"{order}_misses"][3] for order in ("first", "second"))
    said_so = "decay first misses by {:.2f} and read first by {:.2f}".format(*newest)
    assert f"token 4, just written, {said_so}" in shown.sentence
    assert [mark == line[3] for mark, line in shown.marks] == [True, True]


@pytest.mark.browser
def test_the_bridge_by_mouse_and_a_row_by_touch(phone, expect_fact):
    page = phone("two_orders.html")
    gap = compute()["gaps"][-1]
    expect_fact(page, "difference of the states", f"{gap:.3g}")
    page.get_by_label("the bridge").click()
    page.get_by_text("the bridge is exact").wait_for()
    page.locator("rect[data-pick='3']").tap()
    page.locator("rect.x-asked[data-pick='3']").wait_for()
    page.locator("svg[aria-label*='answers to key 3']").wait_for()


def test_the_sentence_says_why_they_agree(said):
    assert "nothing fades" in said(TwoOrders, alpha=1.0).sentence
    assert "right angles" in said(TwoOrders, cosine=0.0).sentence


def test_the_figure_says_how_far_apart_they_are():
    widget = TwoOrders(tokens=4)
    assert f"ends at {widget.numbers()['gaps'][-1]:.2f}" in widget.figure().alt
