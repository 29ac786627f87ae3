"""Recursive least squares: the closed form, and that its ridge fades with the rest."""

import numpy as np
import pytest

from ctlearn.mixers import normalised_least_mean_squares, recursive_least_squares
from ctlearn.supplies import Floats, Rationals, float_difference


def test_the_state_is_the_decayed_ridge_solution_at_every_token():
    x = recursive_least_squares.MECHANISM.draw(Floats(0), 20, 6, 5)
    kept, ridge = np.exp(x["log_forget"]), x["ridge"]
    o, _ = recursive_least_squares.recurrent(**x)
    for t in range(1, 21):
        K, V, weights = x["k"][:t], x["v"][:t], kept ** np.arange(t)[::-1]
        H = (weights[:, None] * K).T @ K + kept**t * ridge * np.eye(6)
        S = np.linalg.solve(H, (weights[:, None] * K).T @ V)
        assert abs(S.T @ x["q"][t - 1] - o[t - 1]).max() < 1e-9


def test_a_ridge_that_does_not_fade_gives_another_answer():
    """What MesaNet solves for; the sheet saw 3.3."""
    x = recursive_least_squares.MECHANISM.draw(Floats(0), 20, 6, 5)
    kept, ridge = np.exp(x["log_forget"]), x["ridge"]
    o, _ = recursive_least_squares.recurrent(**x)
    weights = (kept ** np.arange(20)[::-1])[:, None]
    H = (weights * x["k"]).T @ x["k"] + ridge * np.eye(6)
    S = np.linalg.solve(H, (weights * x["k"]).T @ x["v"])
    assert abs(S.T @ x["q"][-1] - o[-1]).max() > 0.1


def test_the_first_step_is_a_normalised_filter_guarded_by_the_ridge():
    supply = Rationals(1)
    x = recursive_least_squares.MECHANISM.draw(supply, 1, 3, 2) | {"log_forget": 0}
    o, _ = recursive_least_squares.recurrent(**x)
    tokens = {name: x[name] for name in ("q", "k", "v")}
    filtered, _ = normalised_least_mean_squares.recurrent(
        **tokens, mu=1, eps=x["ridge"]
    )
    assert supply.difference(o, filtered).equal


def test_the_inverse_stays_symmetric_to_the_bit():
    x = recursive_least_squares.MECHANISM.draw(Floats(0), 65, 6, 5)
    _, S = recursive_least_squares.recurrent(**x)
    assert np.array_equal(S.P, S.P.T)


def test_forgetting_everything_is_refused():
    """P would be infinite, and every answer NaN."""
    x = recursive_least_squares.MECHANISM.draw(Floats(0), 4, 3, 2)
    with pytest.raises(ValueError, match=r"^log_forget: expected values in \(−∞, 0\]"):
        recursive_least_squares.recurrent(**(x | {"log_forget": -np.inf}))


def test_where_no_key_points_the_inverse_winds_up():
    """One key again and again: P grows by 1 / lambda a token across it."""
    x = recursive_least_squares.MECHANISM.draw(Floats(0), 40, 3, 2)
    x |= {"k": np.tile([1.0, 0, 0], (40, 1)), "log_forget": np.log(0.5), "ridge": 1.0}
    _, S = recursive_least_squares.recurrent(**x)
    assert S.P[1, 1] == pytest.approx(2.0**40)
    assert S.P[0, 0] < 1


def test_without_forgetting_few_keys_are_recalled_exactly():
    x = recursive_least_squares.MECHANISM.draw(Floats(0), 5, 6, 5)
    x |= {"log_forget": 0.0, "ridge": 1e-9}
    _, S = recursive_least_squares.recurrent(**x)
    assert x["k"] @ S.S == pytest.approx(x["v"], abs=1e-5)
    assert float_difference(S.P, S.P.T).equal
