"""Memory as context: token by token by hand, and printed segments, which look ahead."""

import numpy as np
import pytest

from ctlearn.inner import Linear, Momentum
from ctlearn.mixers import memory_as_context, titans
from ctlearn.mixers.memory_as_layer import State
from ctlearn.supplies import Floats

T = 12
GATES = ("log_decay", "log_mu", "beta")


def drawn(b, seed=0):
    """Inputs, and a memory that knows something."""
    supply = Floats(seed)
    x = memory_as_context.MECHANISM.draw(supply, T, 5, 3) | {"inner_batch": b}
    return x, Momentum.start(Linear(supply.real("W", 5, 3)))


def unit(x):
    return x / np.sqrt((x**2).sum(axis=-1, keepdims=True) + 1e-6)


def attended(x, q, h, k, v):
    """One query's mean of the persistent values and of those of these h and tokens."""
    K = np.concatenate([x["K_p"], unit(h @ x["W_K"]), k])
    V = np.concatenate([x["V_p"], h @ x["W_V"], v])
    weights = np.exp(K @ q)
    return weights @ V / weights.sum()


def learned(x, y, t, M):
    """What Titans' memory makes of y, the answers of tokens t on in one mini-batch."""
    made = {"q": unit(y @ x["W_Q"]), "k": unit(y @ x["W_K"]), "v": y @ x["W_V"]}
    gates = {name: x[name][t : t + len(y)] for name in GATES}
    return titans.recurrent(**made, **gates, S=M, inner_batch=x["inner_batch"])


def token_by_token(x, M):
    """The four lines of the docstring, in a loop, with lists for the segment."""
    o, b = np.empty_like(x["v"]), x["inner_batch"]
    for t in range(T):
        if t % b == 0:
            h, at = [], M.M
        h.append(at.read(x["q"][t]))
        segment = slice(t - t % b, t + 1)
        y = attended(x, x["q"][t], np.array(h), x["k"][segment], x["v"][segment])
        m, M = learned(x, y[None], t, M)
        o[t] = y * m[0]
    return o


def segment_by_segment(x, M):
    """As it is printed: all h stand in front, and M is read when it has learned all."""
    outputs, b = [], x["inner_batch"]
    for t in range(0, T, b):
        q, k, v = (x[name][t : t + b] for name in "qkv")
        h = M.M.read(q)
        y = np.array(
            [attended(x, q[i], h, k[: i + 1], v[: i + 1]) for i in range(len(q))]
        )
        _, M = learned(x, y, t, M)
        outputs.append(y * M.M.read(unit(y @ x["W_Q"])))
    return np.concatenate(outputs)


@pytest.mark.parametrize("b", [1, 3, 5, 12])
def test_it_is_its_four_lines_in_a_loop(b):
    x, M = drawn(b)
    wanted = token_by_token(x, M)
    for form in (memory_as_context.recurrent, memory_as_context.chunkwise):
        o, S = form(**x, S=State.start(M, 5, 3))
        assert np.allclose(o, wanted, rtol=0, atol=1e-13)
        assert len(S.cache.K) == 2 * (T % b)


def test_segments_of_one_token_are_as_printed():
    x, M = drawn(1)
    o, _ = memory_as_context.chunkwise(**x, S=State.start(M, 5, 3))
    assert np.allclose(o, segment_by_segment(x, M), rtol=0, atol=1e-13)


def test_longer_segments_as_printed_look_ahead(record_property):
    """Another last token of a segment changes what the first one is answered."""
    x, M = drawn(4)
    other = {
        name: a.copy() if isinstance(a, np.ndarray) else a for name, a in x.items()
    }
    other["q"][3] = -x["q"][3]
    printed = segment_by_segment(x, M), segment_by_segment(other, M)
    ahead = np.abs(printed[0][0] - printed[1][0]).max()
    assert ahead > 0.1
    ours = [
        memory_as_context.chunkwise(**y, S=State.start(M, 5, 3))[0] for y in (x, other)
    ]
    assert np.array_equal(ours[0][:3], ours[1][:3])
    record_property("printed memory as context, by a later query", f"{ahead:.2f}")


def test_the_past_comes_in_by_the_memory_alone():
    """A segment sees no token of the one before, but what the memory kept of it."""
    x, M = drawn(4)
    o, _ = memory_as_context.recurrent(**x, S=State.start(M, 5, 3))
    x["beta"][:4] = 0
    x["log_decay"][:4] = 0
    blind, S = memory_as_context.recurrent(
        **{name: a[:4] if name in (*GATES, *"qkv") else a for name, a in x.items()},
        S=State.start(M, 5, 3),
    )
    assert np.array_equal(S.memory.M.W, M.M.W)
    rest = {name: a[4:] if name in (*GATES, *"qkv") else a for name, a in x.items()}
    after, _ = memory_as_context.recurrent(**rest, S=S)
    alone, _ = memory_as_context.recurrent(**rest, S=State.start(M, 5, 3))
    assert np.array_equal(after, alone)
    assert np.abs(o[4:] - alone).max() > 0.01
    assert blind.shape == (4, 3)
