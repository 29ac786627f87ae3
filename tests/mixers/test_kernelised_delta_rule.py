"""Kernelised delta rule: its gradient, its features, and how it is not kernel ridge."""

import numpy as np
import pytest

from ctlearn.features import quadratic, taylor
from ctlearn.mixers import delta_rule, kernel_ridge_attention
from ctlearn.mixers import kernelised_delta_rule as kernelised
from ctlearn.mixers.kernel_ridge_attention import exponential
from ctlearn.supplies import Floats, Rationals


def draw(T, d_k=5, seed=0):
    supply = Floats(seed)
    sizes = (("q", d_k), ("k", d_k), ("v", 3))
    return [supply.real(name, T, d) / 2 for name, d in sizes]


def gaussian(a, b):
    """exp(-||a - b||^2 / 2), for each row of a with each of b."""
    return np.exp(-((a[:, None] - b) ** 2).sum(axis=2) / 2)


def itself(k):
    """How alike each key is to itself."""
    return np.array([exponential(x[None], x[None])[0, 0] for x in k])


def test_a_step_is_one_of_gradient_descent_in_the_kernels_space():
    """The slope along kappa(x, .) is the gradient's value at x, for any x."""
    torch = pytest.importorskip("torch")
    q, k, v = draw(9)
    beta = np.full(9, 0.3)
    _, S = kernelised.recurrent(q[:8], k[:8], v[:8], beta=beta[:8])
    for x in Floats(3).real("x", 4, 5):
        amount = torch.zeros(3, dtype=torch.float64, requires_grad=True)
        at_key = torch.tensor(S.read(k[8:], exponential)[0])
        at_key = at_key + amount * float(np.exp(x @ k[8]))
        (((at_key - torch.tensor(v[8])) ** 2).sum() / 2).backward()
        before = S.read(x[None], exponential)[0]
        after, _ = kernelised.step(x, k[8], v[8], beta=beta[8], S=S)
        np.testing.assert_allclose(
            after - before, -0.3 * amount.grad.numpy(), atol=1e-13
        )


@pytest.mark.parametrize("phi", [quadratic, taylor])
def test_it_is_the_delta_rule_on_features_that_need_not_be_written_down(phi):
    supply = Rationals(0)
    q, k, v = (supply.real(name, 4, d) for name, d in (("q", 2), ("k", 2), ("v", 3)))
    beta = supply.rate("beta", 4)

    def kernel(a, b):
        return phi(a) @ phi(b).T

    o, _ = kernelised.recurrent(q, k, v, kernel=kernel, beta=beta)
    o_features, _ = delta_rule.recurrent(phi(q), phi(k), v, beta=beta)
    assert supply.difference(o, o_features).equal


def test_one_pass_is_not_the_solution_at_any_step_size():
    """The sheet saw 2.2 between this and kernel ridge attention."""
    q, k, v = draw(12)
    ridged, _ = kernel_ridge_attention.parallel(q, k, v, ridge=1e-3)
    gaps = {}
    for beta in np.linspace(0.05, 1, 20):
        o, _ = kernelised.parallel(q, k, v, beta=np.full(12, beta))
        gaps[round(beta, 2)] = np.abs(o - ridged).max()
    assert 1 < gaps[0.5] < 5
    assert min(gaps.values()) > 1


def test_at_the_first_token_the_two_agree():
    q, k, v = draw(1)
    ridged, _ = kernel_ridge_attention.parallel(q, k, v, ridge=0.3)
    o, _ = kernelised.parallel(q, k, v, beta=1 / (itself(k) + 0.3))
    np.testing.assert_allclose(o, ridged, atol=1e-14)


def test_where_no_key_is_like_another_the_two_agree():
    """A Gaussian kernel and keys so far apart that it rounds to 0 between them."""
    q, k, v = draw(12)
    k = k + 100 * np.arange(12)[:, None]
    q = k + q
    ridged, _ = kernel_ridge_attention.parallel(q, k, v, kernel=gaussian, ridge=0.3)
    o, _ = kernelised.parallel(q, k, v, kernel=gaussian, beta=np.full(12, 1 / 1.3))
    assert np.abs(o).max() > 0.1
    np.testing.assert_allclose(o, ridged, atol=1e-14)


def test_many_passes_come_to_the_solution_without_a_ridge():
    q, k, v = draw(6)
    solution = np.exp(q @ k.T) @ np.linalg.solve(np.exp(k @ k.T), v)
    S, gaps = None, []
    for _ in range(100):
        _, S = kernelised.chunkwise(q, k, v, beta=1 / itself(k), S=S)
        gaps.append(np.abs(S.read(q, exponential) - solution).max())
    assert gaps[0] > 0.1
    assert gaps[-1] < 1e-12


def test_a_step_of_one_over_kappa_recalls_and_of_two_turns_the_error_round():
    q, k, v = draw(9)
    gates = 0.2 + 0 * q[:8, 0]
    _, S = kernelised.recurrent(q[:8], k[:8], v[:8], beta=gates)
    error = v[8] - S.read(k[8:], exponential)[0]
    for steps in (0, 1, 2, 3):
        beta = steps / itself(k[8:])[0]
        o, _ = kernelised.step(k[8], k[8], v[8], beta=beta, S=S)
        np.testing.assert_allclose(v[8] - o, (1 - steps) * error, atol=1e-12)
