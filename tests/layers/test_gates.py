"""Gates start as their sources say and stay finite where they saturate."""

import math

import pytest

torch = pytest.importorskip("torch", reason='no torch: pip install "ctlearn[torch]"')

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

from ctlearn.layers.gated_delta_rule import GatedDeltaRule  # noqa: E402
from ctlearn.layers.gated_linear_attention import GatedLinearAttention  # noqa: E402
from ctlearn.layers.gates import Passing, elu_plus_one, unit  # noqa: E402
from ctlearn.layers.hgrn2 import HGRN2  # noqa: E402
from ctlearn.layers.retnet import RetNet  # noqa: E402

MANY = 20_000


@pytest.mark.parametrize("least", [0, 1])
def test_rates_and_time_steps_start_in_their_ranges(least):
    torch.manual_seed(0)
    gate = Passing(nn.Identity(), (MANY,), least=least)
    rate, step = -gate.A.detach(), F.softplus(gate.bias.detach())
    assert least <= rate.min() < least + 0.01
    assert 15.99 < rate.max() <= 16
    assert abs(rate.mean() - (16 + least) / 2) < 0.15
    assert 1e-3 * 0.999 < step.min() < 1.01e-3
    assert 0.099 < step.max() < 0.1 * 1.001
    # log-uniform: half of the steps are below the middle of the logarithms
    assert abs((step < 1e-2).float().mean() - 0.5) < 0.02


def test_a_decay_for_each_channel_has_one_rate_a_head():
    torch.manual_seed(0)
    gate = Passing(nn.Identity(), (2, 3), least=1)
    x = torch.randn(1, 5, 6)
    log_decay = gate(x)
    assert log_decay.shape == (1, 5, 2, 3)
    step = F.softplus(x.view(1, 5, 2, 3) + gate.bias)
    torch.testing.assert_close(log_decay, -gate.A_log.exp()[:, None] * step)


@pytest.mark.parametrize("logit", [-100.0, 100.0])
def test_saturated_gates_have_finite_gradients(logit):
    """Case 7."""
    torch.manual_seed(0)
    layer = GatedDeltaRule(6, n_heads=2, d_k=4, d_v=4)
    layer.passing.A_log.data.fill_(20)
    layer.passing.bias.data.fill_(logit)
    x = torch.randn(1, 70, 6, requires_grad=True)
    y, _ = layer(x)
    gradients = torch.autograd.grad(y.square().sum(), [x, *layer.parameters()])
    assert all(g.isfinite().all() for g in gradients)


def test_a_zero_vector_has_no_length_and_a_finite_gradient():
    """Case 10: that of x times 1000."""
    x = torch.zeros(3, requires_grad=True)
    (gradient,) = torch.autograd.grad(unit(x).sum(), x)
    torch.testing.assert_close(gradient, torch.full((3,), 1000.0))
    torch.testing.assert_close(unit(torch.tensor([3.0, 4.0])), torch.tensor([0.6, 0.8]))


def test_features_stay_above_zero():
    x = torch.tensor([-80.0, -20.0, 0.0, 2.0], requires_grad=True)
    y = elu_plus_one(x)
    expected = torch.tensor([math.exp(-80), math.exp(-20), 1.0, 3.0])
    torch.testing.assert_close(y, expected, rtol=1e-5, atol=0)
    assert (y > 0).all()
    assert torch.autograd.grad(y.sum(), x)[0].isfinite().all()


def test_gated_linear_attention_starts_slow():
    """Near sigmoid(0)^(1/16) = 0.958."""
    torch.manual_seed(0)
    layer = GatedLinearAttention(64, n_heads=2, d_k=16, d_v=32)
    x, q = torch.randn(1, 50, 64), torch.randn(1, 50, 2, 16)
    decay = layer.inputs(x, q, q, q)["log_decay"].exp()
    assert abs(decay.mean() - 2 ** (-1 / 16)) < 0.01


def test_retnet_starts_as_its_code_does():
    """Uniform up to gain sqrt(6 / (d_in + d_out))."""
    torch.manual_seed(0)
    layer = RetNet(64, n_heads=4, d_k=16, d_v=32)
    q, _, v = layer.qkv.weight.split([64, 64, 128])
    for weight, gain in ((q, 2**-2.5), (v, 2**-2.5), (layer.out.weight, 2**-1)):
        bound = gain * (6 / sum(weight.shape)) ** 0.5
        assert 0.99 * bound < weight.abs().max() <= bound
    q = torch.zeros(1, 1, 4, 16)
    gamma = layer.inputs(q, q, q, q)["log_gamma"].exp()
    torch.testing.assert_close(gamma, 1 - torch.tensor([1, 0.5, 0.25, 0.125]) / 32)


def test_a_lower_bound_is_kept():
    """HGRN2 keeps no less than its bound, and more the larger its logit."""
    logits = torch.tensor([-50.0, 0.0, 50.0]).view(1, 1, 1, 3)
    for least, kept in ((0.0, [0.0, 0.5, 1.0]), (0.2, [0.2, 0.6, 1.0])):
        layer = HGRN2(4, n_heads=1, d_k=3, d_v=2, least=least)
        decay = layer.inputs(logits, logits, logits, logits)["log_decay"].exp()
        torch.testing.assert_close(decay.flatten(), torch.tensor(kept))
    with pytest.raises(ValueError, match="least"):
        HGRN2(4, n_heads=1, d_k=3, d_v=2, least=1.0)
