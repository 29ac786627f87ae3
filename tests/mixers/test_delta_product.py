"""Gated DeltaProduct: virtual tokens, turns, and steps that never stretch."""

import numpy as np
import pytest

from ctlearn.mixers import delta_product, gated_delta_rule
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


def test_the_transition_never_stretches():
    supply = Floats(5)
    for _ in range(50):
        x = delta_product.MECHANISM.draw(supply, 1, 4, 4)
        x["v"] = 0 * x["v"]
        _, S = delta_product.recurrent(**x, S=np.eye(4))
        assert np.linalg.norm(S, 2) <= 1 + 1e-12


def test_no_steps_at_all_are_refused():
    x = delta_product.MECHANISM.draw(Floats(0), 3, 4, 4)
    none = {name: x[name][:, :0] for name in ("k", "v", "beta")}
    with pytest.raises(ValueError, match=r"^k: expected n_h of at least 1"):
        delta_product.parallel(**(x | none))
