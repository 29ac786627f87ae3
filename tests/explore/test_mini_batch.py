"""Mini-batch: the delta rule at one end, linear attention at the other."""

import numpy as np
import pytest

from ctlearn.explore.mini_batch import TOKENS, MiniBatch, compute
from ctlearn.mixers import delta_rule, linear_attention

STREAM = {"noise": 0.3, "drift": 4.0, "seed": 3}


def pairs(x):
    return x["keys"], x["told"][:, None]


def test_batches_of_one_are_the_delta_rule():
    x = compute(batch=1, rate=0.7, **STREAM)
    k, v = pairs(x)
    for t in range(TOKENS + 1):
        beta = np.full(t, 0.7)
        _, S = delta_rule.recurrent(k[:t], k[:t], v[:t], beta=beta)
        np.testing.assert_allclose(x["path"][t], S[:, 0], atol=1e-14)


def test_one_batch_is_linear_attention():
    x = compute(batch=TOKENS, rate=0.2, **STREAM)
    k, v = pairs(x)
    for t in range(TOKENS + 1):
        _, S = linear_attention.recurrent(k[:t], k[:t], 0.2 * v[:t])
        np.testing.assert_allclose(x["path"][t], S[:, 0], atol=1e-14)


@pytest.mark.parametrize("batch", [2, 5, 6])
def test_a_batch_is_one_gradient_step_from_its_start(batch):
    x = compute(batch=batch, rate=0.4, **STREAM)
    k, v = x["keys"], x["told"]
    for start in range(0, TOKENS, batch):
        for t in range(start + 1, min(start + batch, TOKENS) + 1):
            then, rows = x["path"][start], slice(start, t)
            errors = v[rows] - k[rows] @ then
            step = 0.4 * k[rows].T @ errors
            np.testing.assert_allclose(x["path"][t], then + step, atol=1e-13)


def test_with_strength_one_the_delta_rule_answers_the_newest_key():
    x = compute(batch=1, rate=1.0, **STREAM)
    answers = (x["path"][1:] * x["keys"]).sum(axis=1)
    np.testing.assert_allclose(answers, x["told"])


def test_where_the_last_batch_started():
    for read, start in ((0, 0), (1, 0), (4, 0), (5, 4), (12, 8)):
        x = compute(batch=4, read=read)
        np.testing.assert_array_equal(x["start"], x["path"][start])
        np.testing.assert_array_equal(x["state"], x["path"][read])


def test_errors_are_those_of_the_path():
    x = compute(batch=3, rate=0.25, drift=7.0)
    errors = ((x["path"][1:] - x["maps"]) ** 2).mean(axis=1)
    np.testing.assert_allclose(x["errors"], errors)
    assert x["by_batch"][2] == pytest.approx(errors.mean())
    # 1/4 is one of the six
    assert x["by_rate"][2] == pytest.approx(errors.mean())
    assert x["least"][2] == x["by_rate"].min()
    assert (x["maps"] ** 2).mean() == pytest.approx(1)


def test_larger_batches_learn_less_at_their_best_rate():
    """On the mean of ten draws; a single one may have it otherwise."""
    x = [compute(batch=b, seed=s) for s in range(1, 11) for b in (1, TOKENS)]
    least = np.mean([one["least"] for one in x], axis=0)
    assert least[0] < least[5] < least[11]
    best = np.array([one["best"] for one in x])
    assert best[::2].mean() > 2 * best[1::2].mean()


def test_every_error_is_told_by_its_name(said, told):
    shown = said(MiniBatch, read=11, rate=0.8)
    x, facts = shown.numbers, shown.facts
    assert facts["mean error"] == told(x["by_batch"][3])
    assert facts["at its best $η$"] == told(x["least"][3], x["best"])
    assert facts["delta, $b=1$"] == told(x["by_batch"][0])
    assert facts[f"linear attention, $b={TOKENS}$"] == told(x["by_batch"][-1])
    # the third batch of four starts with token 9, after which the state is 8 tokens old
    assert "Token 11 takes its step from where token 9 did" in shown.sentence
    assert x["start"] == x["path"][8]
    assert [row["batch"] for row in shown.rows] == list("111122223333")


def test_a_state_at_the_top_has_its_name_below_the_heading(said):
    plane = said(MiniBatch, batch=12, rate=2.0, noise=1.0, drift=15.0, seed=999)
    names = {part["text"]: part["y"] for part in plane.pictures[0] if "y" in part}
    assert names["S"] > names["the state's way"] + 15


@pytest.mark.browser
def test_the_batch_size_and_the_rate_are_dragged(
    visit, drag, picture_width, expect_fact
):
    page = visit("mini_batch.html")
    right = picture_width(page, "batch") - 84
    drag(page, "batch", (26 + (right - 26) * 9 / 11, 80))
    page.locator("[data-drag='batch'][aria-valuenow='10']").wait_for()
    drag(page, "rate", (26 + (right - 26) * 1 / 5, 80))
    page.locator("[data-drag='rate'][aria-valuenow='0.125']").wait_for()
    mean = compute(batch=10, rate=0.125)["by_batch"][9]
    expect_fact(page, "mean error", f"{mean:.2f}")


@pytest.mark.browser
def test_tokens_by_touch_and_the_two_ends_by_key(phone, expect_fact):
    page = phone("mini_batch.html#mini_batch?read=0")
    page.get_by_text("Nothing is read yet").wait_for()
    page.get_by_role("button", name="step").tap()
    page.get_by_text("token 1 of 12").wait_for()
    assert page.locator("circle.x-fill-state").count() == 2
    page.get_by_role("slider", name="batch size").focus()
    page.keyboard.press("Home")
    page.get_by_text("the delta rule").first.wait_for()
    page.keyboard.press("End")
    page.get_by_text("0.5 times its sum").wait_for()
    expect_fact(page, "mean error", f"{compute(batch=12)['by_batch'][11]:.2f}")


def test_the_figure_says_both_ends():
    x, alt = compute(), MiniBatch().figure().alt
    assert f"{x['by_batch'][0]:.2f} in batches of one" in alt
    assert f"{x['least'][0]:.2f} and {x['least'][-1]:.2f}" in alt
