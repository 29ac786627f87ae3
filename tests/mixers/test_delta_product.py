"""Gated DeltaProduct: what one reflection cannot do and several can."""

import itertools

import numpy as np
import pytest

from ctlearn.mixers import delta_product, delta_rule, gated_delta_rule
from ctlearn.supplies import Floats, float_difference


def test_it_is_the_gated_delta_rule_on_virtual_tokens():
    x = delta_product.MECHANISM.draw(Floats(0), 9, 6, 5)
    o, S = delta_product.recurrent(**x)
    virtual = delta_product.virtual_tokens(**x)
    assert all(len(a) == 18 for a in virtual.values())
    o_virtual, S_virtual = gated_delta_rule.recurrent(**virtual)
    assert float_difference(o, o_virtual[1::2]).equal
    assert float_difference(S, S_virtual).equal


def test_two_reflections_turn_by_twice_the_angle_between_them():
    theta = 0.7
    k = np.array([[[1.0, 0], [np.cos(theta / 2), np.sin(theta / 2)]]])
    _, S = delta_product.recurrent(
        np.zeros((1, 2)),
        k,
        np.zeros((1, 2, 2)),
        log_decay=np.zeros(1),
        beta=np.full((1, 2), 2.0),
        S=np.eye(2),
    )
    turn = [[np.cos(theta), -np.sin(theta)], [np.sin(theta), np.cos(theta)]]
    assert float_difference(S, np.array(turn)).equal


def reflections(permutation):
    """Swaps (i, j) that bring the identity to the permutation, one after another."""
    order, swaps = list(range(len(permutation))), []
    for i, wanted in enumerate(permutation):
        j = order.index(wanted)
        if i != j:
            order[i], order[j] = order[j], order[i]
            swaps.append((i, j))
    return swaps


@pytest.mark.parametrize("n", [3, 5])
def test_n_minus_one_reflections_track_a_thousand_permutations(n):
    """State tracking in S_n: a swap of i and j reflects along (e_i - e_j)/sqrt 2."""
    rng = np.random.default_rng(n)
    elements = list(itertools.permutations(range(n)))
    chosen = [elements[i] for i in rng.integers(len(elements), size=1000)]
    k = np.zeros((1000, n - 1, n))
    beta = np.zeros((1000, n - 1))
    truth = np.eye(n)
    for t, permutation in enumerate(chosen):
        for j, (a, b) in enumerate(reflections(permutation)):
            k[t, j, [a, b]] = np.array([1, -1]) / np.sqrt(2)
            beta[t, j] = 2
        truth = truth[list(permutation)]
    _, S = delta_product.chunkwise(
        np.zeros((1000, n)),
        k,
        np.zeros((1000, n - 1, n)),
        log_decay=np.zeros(1000),
        beta=beta,
        S=np.eye(n),
    )
    assert abs(S - truth).max() < 1e-11


def test_parity_by_one_reflection():
    """d_k = 1 and beta = 2x: the state is (-1)^(sum of x), exactly."""
    bits = np.random.default_rng(0).integers(2, size=2000)
    one, nothing = np.ones((2000, 1)), np.zeros((2000, 1))
    o, _ = delta_rule.recurrent(one, one, nothing, beta=2.0 * bits, S=np.ones((1, 1)))
    assert np.array_equal(o[:, 0], (-1.0) ** np.cumsum(bits))


def test_the_transition_never_stretches():
    supply = Floats(5)
    for _ in range(50):
        x = delta_product.MECHANISM.draw(supply, 1, 4, 4)
        x["v"] = 0 * x["v"]
        x["beta"] = 2 * x["beta"]
        _, S = delta_product.recurrent(**x, S=np.eye(4))
        assert np.linalg.norm(S, 2) <= 1 + 1e-12


def test_no_steps_at_all_are_refused():
    x = delta_product.MECHANISM.draw(Floats(0), 3, 4, 4)
    none = {name: x[name][:, :0] for name in ("k", "v", "beta")}
    with pytest.raises(ValueError, match=r"^k: expected n_h of at least 1"):
        delta_product.parallel(**(x | none))
