"""The constructed layer: stacked, on regression tasks, its query, and GD++."""

import numpy as np
import pytest

from ctlearn.mixers import constructed_attention
from ctlearn.mixers.constructed_attention import constructed, predict
from ctlearn.supplies import Floats
from ctlearn.tasks import in_context_regression as regression


def draw(N, d_k, d_v, seed=0):
    supply = Floats(seed)
    x, y = supply.real("x", N, d_k), supply.real("y", N, d_v)
    return x, y, supply.real("q", 3, d_k), supply.real("W", d_k, d_v)


def test_layers_stacked_are_steps_of_gradient_descent():
    """The same matrices at every layer: what is left of y is the next error."""
    torch = pytest.importorskip("torch")
    x, y, q, W_0 = draw(6, 4, 2)
    layer = constructed(W_0, 0.3, 6)
    context = np.concatenate([x, y], axis=1)
    asking = np.concatenate([q, -q @ W_0], axis=1)
    W = torch.tensor(W_0, requires_grad=True)
    for _ in range(3):
        asking, context = layer.run(asking, context), layer.run(context, context)
        loss = ((torch.tensor(x) @ W - torch.tensor(y)) ** 2).sum() / 12
        (slope,) = torch.autograd.grad(loss, W)
        W = (W - 0.3 * slope).detach().requires_grad_()
        wanted = q @ W.detach().numpy()
        np.testing.assert_allclose(-asking[:, 4:], wanted, rtol=0, atol=1e-14)


def test_it_takes_the_step_of_the_regression_tasks():
    """T3 is about this layer: its best step and its training are in that task."""
    tasks = regression.draw(0, 4, 10, 6)
    learned, q = regression.one_step(tasks, 1.3), Floats(0).real("q", 3, 6)
    for x, y, u in zip(tasks.x, tasks.y, learned, strict=True):
        told = predict(q, x, y[:, None], W_0=np.zeros((6, 1)), eta=1.3)
        np.testing.assert_allclose(told[:, 0], q @ u, rtol=0, atol=1e-14)


@pytest.mark.parametrize("start", [0.0, 1.0])
def test_the_query_may_see_itself_only_where_the_start_is_zero(start):
    x, y, q, W_0 = draw(6, 4, 2)
    W_0, q = start * W_0, q[:1]
    layer = constructed(W_0, 0.3, 6)
    context = np.concatenate([x, y], axis=1)
    asking = np.concatenate([q, -q @ W_0], axis=1)
    alone = layer.run(asking, context)
    among = layer.run(asking, np.concatenate([context, asking]))
    # its error would be 2 W_0'x, weighed by eta / N and by its own length
    wanted = alone[:, 4:] + 0.3 / 6 * (2 * q @ W_0) * (q @ q.T)
    np.testing.assert_allclose(among[:, 4:], wanted, rtol=0, atol=1e-14)
    assert np.array_equal(alone, among) == (not start)


def test_gd_plus_plus_presses_large_directions_down_and_leaves_small_ones():
    x, y, _, W_0 = draw(8, 4, 2)
    before = np.linalg.eigvalsh(x.T @ x)
    gamma = 1 / (3 * before[-1])
    layer = constructed(W_0, 0.1, 8, gamma)
    e = np.concatenate([x, y], axis=1)
    moved = layer.run(e, e)[:, :4]
    after = np.linalg.eigvalsh(moved.T @ moved)
    np.testing.assert_allclose(after, before * (1 - gamma * before) ** 2, rtol=1e-12)
    assert after[-1] / after[0] < 0.6 * before[-1] / before[0]


def test_no_error_is_taken_at_a_later_state():
    """Twice the same pair moves the answer twice as far, past the value."""
    one = np.ones((2, 1))
    inputs = {"W_0": np.zeros((1, 1)), "beta": np.ones(2)}
    o, S = constructed_attention.recurrent(one, one, 3 * one, **inputs)
    assert o.ravel().tolist() == [3, 6]
    assert S.item() == 6


def test_a_state_is_taken_as_it_comes_and_none_is_the_start():
    x, y, q, W_0 = draw(3, 4, 2)
    inputs = {"W_0": W_0, "beta": np.full(3, 0.2)}
    o, _ = constructed_attention.recurrent(q, x, y, **inputs)
    same, _ = constructed_attention.recurrent(q, x, y, **inputs, S=W_0)
    assert np.array_equal(o, same)
    none, _ = constructed_attention.recurrent(q, x, y, **inputs, S=0 * W_0)
    np.testing.assert_allclose(o - none, q @ W_0, rtol=0, atol=1e-14)
