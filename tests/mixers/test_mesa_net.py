"""MesaNet: least squares at every token, by solving and by conjugate gradients."""

import numpy as np
import pytest

from ctlearn.mixers import gated_linear_attention, mechanisms, mesa_net
from ctlearn.supplies import Floats

MESA = mechanisms()["mesa_net"]


def test_it_is_ridge_regression_on_the_decayed_past():
    x = MESA.draw(Floats(0), 9, 4, 3)
    o, _ = mesa_net.chunkwise(**x)
    weight = x["beta"] * np.exp(x["log_decay"].sum() - np.cumsum(x["log_decay"]))
    H = (weight * x["k"].T) @ x["k"] + np.diag(x["ridges"])
    W = np.linalg.solve(H, (weight * x["k"].T) @ x["v"])
    np.testing.assert_allclose(o[-1], W.T @ x["q"][-1], atol=1e-12)


@pytest.mark.parametrize("steps", [1, 3, 6])
def test_conjugate_gradients_are_the_same_in_every_plan(steps):
    x = MESA.draw(Floats(2), 33, 5, 3)
    o, S = mesa_net.recurrent(**x, steps=steps)
    for size in (1, 7, 33, 64):
        o_chunk, S_chunk = mesa_net.chunkwise(**x, steps=steps, chunk_size=size)
        np.testing.assert_allclose(o_chunk, o, atol=1e-11)
        np.testing.assert_allclose(S_chunk.H, S.H, atol=1e-13)


def gated(x, q):
    written = x["beta"][:, None] * x["v"]
    log_decay = x["log_decay"][:, None] + 0 * x["k"]
    return gated_linear_attention.parallel(q, x["k"], written, log_decay=log_decay)[0]


def test_one_step_of_conjugate_gradients_is_scaled_gated_linear_attention():
    x = MESA.draw(Floats(3), 20, 5, 3)
    o, _ = mesa_net.recurrent(**x, steps=1)
    scale, S = [], None
    for t in range(20):
        row = {n: a[t : t + 1] if n != "ridges" else a for n, a in x.items()}
        _, S = mesa_net.recurrent(**row, S=S)
        q = x["q"][t]
        scale.append(q @ q / (q @ (S.H + np.diag(x["ridges"])) @ q))
    expected = np.array(scale)[:, None] * gated(x, x["q"])
    np.testing.assert_allclose(o, expected, atol=1e-13)


def test_under_a_heavy_ridge_it_is_gated_linear_attention():
    x = MESA.draw(Floats(4), 20, 5, 3)
    heavy = 1e9 * x["ridges"]
    o, _ = mesa_net.recurrent(**(x | {"ridges": heavy}))
    expected = gated(x, x["q"] / x["ridges"])
    np.testing.assert_allclose(1e9 * o, expected, rtol=1e-6, atol=1e-6)


def test_with_a_light_ridge_d_k_keys_are_recalled():
    x = MESA.draw(Floats(5), 4, 5, 3)
    x |= {"log_decay": np.zeros(4), "beta": np.ones(4), "ridges": np.full(5, 1e-12)}
    _, S = mesa_net.recurrent(**x)
    recalled = np.linalg.solve(S.H + 1e-12 * np.eye(5), x["k"].T).T @ S.S
    np.testing.assert_allclose(recalled, x["v"], atol=1e-3)


def test_with_forgetting_it_is_not_recursive_least_squares():
    """Recursive least squares lets its ridge fade with the rest."""
    x = MESA.draw(Floats(6), 30, 5, 3)
    o, S = mesa_net.recurrent(**x)
    faded = np.exp(x["log_decay"].sum()) * x["ridges"]
    recursive = S.S.T @ np.linalg.solve(S.H + np.diag(faded), x["q"][-1])
    assert np.abs(recursive - o[-1]).max() > 0.1


def test_minus_infinity_starts_anew():
    x = MESA.draw(Floats(7), 12, 5, 3)
    x["log_decay"][5] = -np.inf
    o, S = mesa_net.chunkwise(**x, chunk_size=4)
    rest = {n: a[5:] if n != "ridges" else a for n, a in x.items()}
    o_rest, S_rest = mesa_net.recurrent(**rest)
    np.testing.assert_allclose(o[5:], o_rest, atol=1e-13)
    np.testing.assert_allclose(S.H, S_rest.H, atol=1e-13)
