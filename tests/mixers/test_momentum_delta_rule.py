"""Momentum delta rule: the weights by which a write reaches a later state."""

import numpy as np

from ctlearn.mixers import delta_rule, momentum_delta_rule
from ctlearn.supplies import Floats, float_difference


def test_a_write_coasts():
    """Without forgetting or further writes, eta (1 + mu + mu^2 + ...) of it arrives."""
    x = momentum_delta_rule.MECHANISM.draw(Floats(0), 5, 3, 2)
    x["log_decay"], x["beta"] = np.zeros(5), np.ones(5)
    x["log_mu"] = np.full(5, np.log(0.5))
    x["eta"] = np.array([0.8, 0, 0, 0, 0])
    _, S = momentum_delta_rule.chunkwise(**x)
    arrived = 0.8 * (1 + 0.5 + 0.25 + 0.125 + 0.0625)
    assert float_difference(S.S, arrived * np.outer(x["k"][0], x["v"][0])).equal


def test_without_memory_of_motion_and_without_forgetting_it_is_the_delta_rule():
    x = momentum_delta_rule.MECHANISM.draw(Floats(0), 20, 6, 5)
    x |= {"p": x["k"], "log_decay": np.zeros(20), "log_mu": np.full(20, -np.inf)}
    o, _ = momentum_delta_rule.chunkwise(**x, chunk_size=7)
    tokens = {name: x[name] for name in ("q", "k", "v")}
    o_delta, _ = delta_rule.recurrent(**tokens, beta=x["eta"] * x["beta"])
    assert float_difference(o, o_delta).equal


def test_momentum_changes_the_answers():
    x = momentum_delta_rule.MECHANISM.draw(Floats(0), 20, 6, 5)
    o, _ = momentum_delta_rule.recurrent(**x)
    o_still, _ = momentum_delta_rule.recurrent(**(x | {"log_mu": np.full(20, -np.inf)}))
    assert abs(o - o_still).max() > 0.05
