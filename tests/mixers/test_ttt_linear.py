"""TTT-Linear: per-token autograd, the reductions, and what the averaging changes."""

import numpy as np
import pytest

from ctlearn.inner import Affine, Linear, Training
from ctlearn.mixers import delta_rule, linear_attention, ttt_linear
from ctlearn.supplies import Floats


def drawn(T, d, seed=0):
    supply = Floats(seed)
    q, v = supply.real("q", T, d), supply.real("v", T, d)
    return q, supply.unit("k", T, d), v, supply.rate("beta", T), supply


@pytest.mark.parametrize("averaged", [True, False])
def test_the_released_layer_is_what_autograd_makes_of_it(averaged, trained_by_autograd):
    torch = pytest.importorskip("torch")
    T, d, b = 11, 6, 4
    q, k, v, beta, supply = drawn(T, d)
    W, bias, norm = supply.real("W", d, d), supply.real("b", d), supply.real("n", 2, d)
    r = ttt_linear.averaging_rates(b) if averaged else None
    S = Training.start(Affine(W, bias))
    o, _ = ttt_linear.recurrent(
        q, k, v, beta=beta, reader_rate=r, norm=norm, S=S, inner_batch=b
    )
    gain, shift = map(torch.tensor, norm)

    def f(x, W, bias):
        z = x @ W + bias
        return x + torch.nn.functional.layer_norm(z, (d,), gain, shift, eps=1e-6)

    def rate(i):
        return 1 / (i + 1) if averaged else 1

    trained = trained_by_autograd(f, (W, bias), k, v, beta, b=b, rate=rate)
    for t, now in enumerate(trained):
        assert np.allclose(o[t], f(torch.tensor(q[t]), *now).numpy(), atol=1e-12)
    assert t == T - 1


def test_a_learned_start_is_read_beside_linear_attention_of_what_it_misses():
    """If b = T and beta = 1: o = q W_0 + linear attention with values v - W_0'k."""
    q, k, v, beta, supply = drawn(9, 5)
    W = supply.real("W", 5, 5)
    o, _ = ttt_linear.recurrent(
        q, k, v, beta=beta**0, S=Training.start(Linear(W)), inner_batch=9
    )
    missed, _ = linear_attention.recurrent(q, k, v - k @ W)
    assert np.allclose(o, q @ W + missed, rtol=0, atol=1e-13)


def test_the_printed_loss_has_half_the_step_size():
    """[sun2024ttt, theorem 1]: eta = 1/2 for ||f - v||^2, whose gradient is twice ours.

    So linear attention is eta = 1/2 there and beta = 1 here; beta = 1/2 is not it.
    """
    q, k, v, beta, _ = drawn(9, 5)
    wanted, _ = linear_attention.recurrent(q, k, v)
    for size, equal in ((1.0, True), (0.5, False)):
        o, _ = ttt_linear.recurrent(q, k, v, beta=0 * beta + size, inner_batch=9)
        assert np.allclose(o, wanted, rtol=0, atol=1e-13) is equal


def test_one_token_a_batch_with_a_residual_is_the_delta_rule_on_what_is_left(
    trained_by_autograd,
):
    """Without LN, f(x) = x + W'x learns v - k: o = q + DeltaNet(q, k, v - k).

    The left side by autograd, on the model with its residual.
    """
    torch = pytest.importorskip("torch")
    q, k, v, beta, _ = drawn(9, 5)
    o, _ = ttt_linear.recurrent(q, k, v - k, beta=beta, inner_batch=1)

    def f(x, W):
        return x + x @ W

    trained = trained_by_autograd(f, [np.zeros((5, 5))], k, v, beta, b=1)
    for t, now in enumerate(trained):
        read = f(torch.tensor(q[t]), *now).numpy()
        assert np.allclose(read, q[t] + o[t], rtol=0, atol=1e-13)
    assert t == 8
    wanted, _ = delta_rule.recurrent(q, k, v - k, beta=beta)
    assert np.allclose(o, wanted, rtol=0, atol=1e-13)


def test_a_mini_batch_of_sixteen_is_neither_limit():
    q, k, v, beta, _ = drawn(64, 8)
    o = ttt_linear.recurrent(q, k, v, beta=beta, inner_batch=16)[0]
    for b in (1, 64):
        other = ttt_linear.recurrent(q, k, v, beta=beta, inner_batch=b)[0]
        assert np.abs(o - other).max() > 0.5


def test_bad_layers_are_named():
    q, k, v, beta, _ = drawn(4, 3)
    with pytest.raises(ValueError, match=r"^reader_rate: expected one for each"):
        ttt_linear.recurrent(q, k, v, beta=beta, reader_rate=beta[:2], inner_batch=3)
    with pytest.raises(ValueError, match=r"^norm: expected \[2, d_v\]"):
        ttt_linear.recurrent(q, k, v, beta=beta, norm=np.ones((3, 3)))
    with pytest.raises(ValueError, match=r"^norm: expected None"):
        ttt_linear.recurrent(q, k, v[:, :2], beta=beta, norm=np.ones((2, 2)))
    with pytest.raises(ValueError, match=r"^inner_batch: expected at least 1"):
        ttt_linear.recurrent(q, k, v, beta=beta, inner_batch=0)
