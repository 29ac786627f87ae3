"""Fit the stream: each solver is the package's, and what tells them apart."""

import numpy as np
import pytest

from ctlearn.explore.fit_the_stream import RIDGE, SOLVERS, TOKENS, FitTheStream, compute
from ctlearn.mixers import delta_rule, recursive_least_squares

PLACE = {name: i for i, name in enumerate(SOLVERS)}


def weighed(x, kept, ridge):
    """Least squares over all tokens, weighed by age, by its normal equations."""
    weights = kept ** np.arange(TOKENS - 1, -1, -1)
    k, v = x["keys"], x["told"]
    H = (k.T * weights) @ k + ridge * np.eye(4)
    return np.linalg.solve(H, (k.T * weights) @ v)


def last_error(x, name, state):
    """Whether the last error of a solver is that of this state."""
    there = ((state - x["maps"][-1]) ** 2).mean()
    return x["errors"][PLACE[name], -1] == pytest.approx(there)


@pytest.mark.parametrize("memory", [3.0, 40.0])
def test_the_two_least_squares_differ_in_their_ridge(memory):
    x = compute(memory=memory, noise=0.3, lengths=0.5)
    kept = 1 - 1 / memory
    assert last_error(x, "mesa", weighed(x, kept, RIDGE))
    assert last_error(x, "rls", weighed(x, kept, RIDGE * kept**TOKENS))


def test_states_are_those_of_the_forms():
    x = compute(beta=0.8, memory=10.0)
    k, v = x["keys"], x["told"][:, None]
    _, S = delta_rule.recurrent(k, k, v, beta=np.full(TOKENS, 0.8))
    assert last_error(x, "delta", S[:, 0])
    forgets = {"log_forget": np.log(0.9), "ridge": RIDGE}
    _, state = recursive_least_squares.recurrent(k, k, v, **forgets)
    assert last_error(x, "rls", state.S[:, 0])
    aged = 0.9 ** np.arange(TOKENS - 1, -1, -1)
    for name, i, weights in (("linear", 0, aged**0), ("decay", 1, aged)):
        assert last_error(x, name, x["scales"][i] * (k.T * weights) @ v[:, 0])


def test_for_keys_of_one_length_longhorn_is_delta_with_a_smaller_step():
    x, y = compute(beta=4.0), compute(beta=0.8)
    there = y["errors"][PLACE["delta"]]
    np.testing.assert_allclose(x["errors"][PLACE["longhorn"]], there)


def test_long_keys_make_delta_run_away_and_not_longhorn():
    x = compute(beta=2.0, lengths=1.0)
    assert x["means"][PLACE["delta"]] > 100
    assert x["means"][PLACE["longhorn"]] < 1


def test_the_scale_of_the_sums_is_best():
    x = compute(memory=8.0, drift=0.05)
    for i, name in enumerate(("linear", "decay")):
        state, mean = x["scales"][i], x["means"][PLACE[name]]
        k, v = x["keys"], x["told"]
        kept = (1.0, 7 / 8)[i]
        S, states = np.zeros(4), []
        for k_t, v_t in zip(k, v, strict=True):
            S = kept * S + k_t * v_t
            states.append(S)
        errors = [
            ((c * np.array(states) - x["maps"]) ** 2).mean()
            for c in (0.99 * state, state, 1.01 * state)
        ]
        assert errors[1] == pytest.approx(mean)
        assert errors[1] < min(errors[0], errors[2])


@pytest.mark.parametrize(
    ("solver", "knob"), [("decay", "memory"), ("longhorn", "beta"), ("mesa", "memory")]
)
def test_the_sweep_has_the_error_of_each_setting(solver, knob):
    x = compute(solver=solver, drift=0.1)
    at = int(x["sweep"].argmin())
    there = compute(solver=solver, drift=0.1, **{knob: float(x["knobs"][at])})
    assert there["means"][PLACE[solver]] == pytest.approx(x["sweep"][at])
    assert x["best"] == x["knobs"][at]


def test_a_clean_stream_is_known_after_as_many_tokens_as_channels():
    x = compute(switch=1, noise=0.0, memory=2.0)
    assert x["errors"][PLACE["rls"], 20:].max() < 1e-3


def test_linear_attention_has_nothing_to_set():
    x = compute(solver="linear")
    assert x["best"] is None
    assert not len(x["sweep"])


def test_the_map_is_drawn_anew_once_and_drifts():
    steps = np.abs(np.diff(compute()["maps"], axis=0)).max(axis=1)
    assert np.flatnonzero(steps).tolist() == [19]
    assert not np.diff(compute(switch=1)["maps"], axis=0).any()
    assert np.abs(np.diff(compute(drift=0.1)["maps"], axis=0)).min(axis=1).all()


def test_every_solver_is_told_with_its_own_mean(said, told):
    shown = said(FitTheStream, solver="mesa", beta=16.0, lengths=1.0)
    x = shown.numbers
    means = dict(zip(SOLVERS.values(), x["means"], strict=True))
    assert means["delta"] > 1e6  # and is told with a power of ten
    assert {name: told(mean) for name, mean in means.items()} == shown.facts
    nearest = min(means, key=means.get)
    assert f"As set, {nearest} comes nearest, at {means[nearest]:.2f}" in shown.sentence
    assert f"m = {x['best']:g} is best, at {min(x['sweep']):.2f}" in shown.sentence
    assert [row["token"] for row in shown.rows] == [str(t + 1) for t in range(TOKENS)]


@pytest.mark.browser
def test_the_setting_is_dragged_along_the_curve(
    visit, drag, picture_width, expect_fact
):
    page = visit("fit_the_stream.html#fit_the_stream?solver=delta")
    right = picture_width(page, "knob") - 84
    drag(page, "knob", (26 + (right - 26) * 2 / 8, 90))
    page.locator("[data-drag='knob'][aria-valuenow='0.25']").wait_for()
    mean = compute(solver="delta", beta=0.25)["means"][PLACE["delta"]]
    expect_fact(page, "delta", f"{mean:.2f}")


@pytest.mark.browser
def test_a_solver_by_touch_and_its_setting_by_key(phone, expect_fact):
    page = phone("fit_the_stream.html")
    page.get_by_label("linear attention").tap()
    page.get_by_text("its one setting").wait_for()
    assert page.get_by_label("memory").is_disabled()
    page.get_by_label("RLS").tap()
    page.locator("[data-drag='knob']").wait_for()
    assert page.get_by_label("strength").is_disabled()
    page.get_by_label("memory").focus()
    page.keyboard.press("Home")
    mean = compute(solver="rls", memory=2.0)["means"][PLACE["rls"]]
    expect_fact(page, "RLS", f"{mean:.2f}")
    page.get_by_text("m = 4 is best").wait_for()


def test_the_figure_says_every_mean():
    x, alt = compute(), FitTheStream().figure().alt
    for name, mean in zip(SOLVERS.values(), x["means"], strict=True):
        assert f"{name} {mean:.2f}" in alt
