"""Memory as gate: two branches, and what both make of the persistent tokens."""

import numpy as np
import pytest

from ctlearn.inner import silu
from ctlearn.mixers import memory_as_gate, titans
from ctlearn.mixers.memory_as_layer import State
from ctlearn.supplies import Floats


def gated(x, y, m):
    """The two answers, normed, stretched, bent and multiplied."""
    bent = []
    for gain, answer in zip(x["gains"], (y, m), strict=True):
        length = np.sqrt((answer**2).sum(axis=1, keepdims=True) + 1e-6)
        bent.append(silu(gain * answer / length))
    return bent[0] * bent[1]


def test_both_branches_read_the_persistent_tokens_first():
    """The printed x~ = [P | x]: attention always sees P, the memory has read it."""
    supply, T = Floats(0), 11
    x = memory_as_gate.MECHANISM.draw(supply, T, 5, 3) | {"inner_batch": 1}
    P = titans.MECHANISM.draw(supply, 2, 5, 3) | {"inner_batch": 1}
    P |= {"k": x["K_p"] / 4, "v": x["V_p"]}
    o, _ = memory_as_gate.chunkwise(**x, S=State.start(titans.recurrent(**P)[1], 5, 3))
    names = ("q", "k", "v", "log_decay", "log_mu", "beta")
    m, _ = titans.recurrent(**{n: np.concatenate([P[n], x[n]]) for n in names})
    y = np.empty((T, 3))
    for t in range(T):
        seen = slice(max(0, t - 2), t + 1)
        weights = np.exp(np.concatenate([x["K_p"], x["k"][seen]]) @ x["q"][t])
        y[t] = weights @ np.concatenate([x["V_p"], x["v"][seen]]) / weights.sum()
    assert np.allclose(o, gated(x, y, m[2:]), rtol=0, atol=1e-13)


def test_gates_that_do_not_fit_are_named():
    x = memory_as_gate.MECHANISM.draw(Floats(0), 3, 5, 3)
    with pytest.raises(
        ValueError, match=r"^gains: expected \[2, d_v\], got shape \(2,"
    ):
        memory_as_gate.recurrent(**(x | {"gains": x["gains"][:, :2]}))
