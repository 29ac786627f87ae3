"""Kernel ridge attention against the inverse it stands for, and its two ends."""

import numpy as np

from ctlearn.memory import solve_unit_lower
from ctlearn.mixers import kernel_ridge_attention as krr
from ctlearn.mixers import mesa_net
from ctlearn.supplies import Floats


def draw(T, d_k=5, seed=0):
    supply = Floats(seed)
    sizes = (("q", d_k), ("k", d_k), ("v", 3))
    return [supply.real(name, T, d) / 2 for name, d in sizes]


def inverted(q, k, v, ridge):
    """Each token's answer by an inverse of its own."""
    answers = []
    for t in range(1, len(k) + 1):
        gram = np.exp(k[:t] @ k[:t].T) + ridge * np.eye(t)
        answers.append(v[:t].T @ np.linalg.inv(gram) @ np.exp(k[:t] @ q[t - 1]))
    return np.array(answers)


def test_one_factor_holds_every_prefix():
    q, k, v = draw(12)
    o, _ = krr.parallel(q, k, v, ridge=0.1)
    np.testing.assert_allclose(o, inverted(q, k, v, 0.1), atol=1e-11)


def test_with_a_heavy_ridge_it_is_softmax_attention_without_its_normaliser():
    q, k, v = draw(12)
    o, _ = krr.recurrent(q, k, v, ridge=1e9)
    unnormalised = np.tril(np.exp(q @ k.T)) @ v
    np.testing.assert_allclose(1e9 * o, unnormalised, rtol=1e-6, atol=1e-6)


def test_without_a_ridge_it_recalls_exactly_beyond_d_k_pairs():
    _, k, v = draw(12, d_k=3)
    k = 3 * k
    for i in range(12):
        queries = np.concatenate([k[:-1], k[i : i + 1]])
        o, _ = krr.parallel(queries, k, v, ridge=1e-9)
        np.testing.assert_allclose(o[-1], v[i], atol=1e-4)


def test_on_the_dot_product_it_is_mesa_net():
    q, k, v = draw(12)
    o, _ = krr.parallel(q, k, v, kernel=lambda a, b: a @ b.T, ridge=0.3)
    ones = np.ones(12)
    gates = {"log_decay": 0 * ones, "beta": ones, "ridges": np.full(5, 0.3)}
    np.testing.assert_allclose(o, mesa_net.chunkwise(q, k, v, **gates)[0], atol=1e-12)


def test_one_masked_solve_is_another_mechanism():
    """The delta rule in the kernel's space is one pass of descent, not the solution."""
    q, k, v = draw(12)
    ridged, _ = krr.parallel(q, k, v, ridge=1e-3)
    beta = np.full((12, 1), 0.5)
    L = np.tril(beta * np.exp(k @ k.T), -1)
    delta = np.tril(np.exp(q @ k.T)) @ solve_unit_lower(L, beta * v)
    assert np.abs(delta - ridged).max() > 0.5
