"""A local line against weighted least squares, and its two ends."""

import numpy as np
import sympy

from ctlearn.mixers import local_linear_attention as local
from ctlearn.mixers import softmax_attention
from ctlearn.supplies import Floats, Rationals


def draw(T, seed=0):
    supply = Floats(seed)
    return [supply.real(name, T, d) for name, d in (("q", 3), ("k", 3), ("v", 2))]


def test_the_answer_is_the_intercept_of_weighted_least_squares():
    """With the design [1, k - q] and a ridge on all but the intercept."""
    q, k, v = draw(15)
    scores = np.exp(k @ q[-1])
    weights = scores / scores.sum()
    design = np.concatenate([np.ones((15, 1)), k - q[-1]], axis=1)
    normal = (weights * design.T) @ design + np.diag([0, 0.2, 0.2, 0.2])
    fit = np.linalg.solve(normal, (weights * design.T) @ v)
    o, _ = local.parallel(q, k, v, ridge=0.2)
    np.testing.assert_allclose(o[-1], fit[0], atol=1e-12)


def test_an_affine_map_is_answered_exactly_where_softmax_errs():
    q, k, _ = draw(30, seed=1)
    W = Floats(2).real("W", 3, 2)
    q, v = 2 * q, k @ W + 1
    o, _ = local.recurrent(q, k, v, ridge=1e-10)
    mean, _ = softmax_attention.recurrent(q, k, v)
    np.testing.assert_allclose(o[10:], q[10:] @ W + 1, atol=1e-4)
    assert np.abs(mean[10:] - (q[10:] @ W + 1)).max() > 1


def test_a_heavy_ridge_leaves_softmax_attention():
    q, k, v = draw(20, seed=3)
    o, _ = local.parallel(q, k, v, ridge=1e12)
    mean, _ = softmax_attention.parallel(q, k, v)
    np.testing.assert_allclose(o, mean, atol=1e-10)


def test_plans_agree_exactly_where_the_weights_are_rational():
    """Queries that are logs of fractions over keys that are integers."""
    supply, ridge = Rationals(0), sympy.Rational(1, 3)
    rows = np.random.default_rng(0).integers(-3, 4, (5, 2))
    k = np.array([[sympy.Integer(int(x)) for x in row] for row in rows], dtype=object)
    q, v = supply.log_decay("q", 5, 2), supply.real("v", 5, 3)
    _, S = local.recurrent(q[:1], k[:1], v[:1], ridge=ridge)
    q, k, v = q[1:], k[1:], v[1:]
    o, _ = local.recurrent(q, k, v, ridge=ridge, S=S)
    for plan in (
        local.parallel(q, k, v, ridge=ridge, S=S),
        local.chunkwise(q, k, v, ridge=ridge, S=S, chunk_size=3),
    ):
        assert supply.difference(plan[0], o).equal
    # and another ridge is another answer
    other, _ = local.recurrent(q, k, v, ridge=2 * ridge, S=S)
    assert not supply.difference(other, o).equal


def test_the_first_token_is_its_own_value():
    q, k, v = draw(4, seed=4)
    o, _ = local.chunkwise(q, k, v, ridge=0.5)
    np.testing.assert_allclose(o[0], v[0], atol=1e-14)
