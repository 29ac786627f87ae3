"""Memory as gate (MAG): a window attends beside Titans' memory; each gates the other.

    y_t    what `sliding_window_attention` answers, with persistent tokens
    m_t    what `titans` answers
    o_t = silu(rho_1 * unit(y_t)) * silu(rho_2 * unit(m_t))      entry by entry

The two see the same tokens, and here the same q, k and v: the paper has projections for
each. rho = `gains` [2, d_v] is learned, unit(x) = x / sqrt(x'x + 1e-6). The paper says
that it normalises both answers with learned vectors, "followed by a non-linearity": of
what is not said, and silu of each is our reading. Its memory reads the persistent
tokens too, before all others: let `titans` read them and go on from its state.
[behrouz2025titans, eqs. 26-28]
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ctlearn import inner
from ctlearn.features import normalise
from ctlearn.mechanism import Mechanism
from ctlearn.mixers import memory_as_layer, sliding_window_attention, titans
from ctlearn.mixers.memory_as_layer import GATES, TOKENS, State, perceptron_variant
from ctlearn.shapes import checked_step


def _side_by_side(memory: Callable, attention: Callable) -> Callable:
    """The step if the two are steps, the block if they take several tokens."""

    def step(  # noqa: PLR0913 - as many letters as the two have
        q: np.ndarray,
        k: np.ndarray,
        v: np.ndarray,
        *,
        K_p: np.ndarray,
        V_p: np.ndarray,
        window: int,
        log_decay: Any,
        log_mu: Any,
        beta: Any,
        gains: np.ndarray,
        S: State,
        inner_batch: int = 1,
    ) -> tuple[np.ndarray, State]:
        """Attend, learn and answer, multiply: 7 d_k d_v and (w + n_p) (d_k + d_v)."""
        seen = {"K_p": K_p, "V_p": V_p, "window": window}
        gates = {"log_decay": log_decay, "log_mu": log_mu, "beta": beta}
        y, cache = attention(q, k, v, **seen, S=S.cache)
        m, M = memory(q, k, v, **gates, S=S.memory, inner_batch=inner_batch)
        y, m = (
            inner.silu(r * normalise(x)) for r, x in zip(gains, (y, m), strict=True)
        )
        return y * m, State(M, cache)

    return step


def begin(k: np.ndarray, v: np.ndarray, S: State | None, gains: np.ndarray) -> State:
    """A copy of S, or a linear memory that knows nothing and an empty cache."""
    if gains.shape != (2, v.shape[1]):
        raise ValueError(f"gains: expected [2, d_v], got shape {gains.shape}")
    return memory_as_layer.begin(k, v, S)


step = checked_step(log_decay=("T",))(
    _side_by_side(titans.step, sliding_window_attention.step)
)
block = _side_by_side(titans.block, sliding_window_attention.chunk)
recurrent, chunkwise = inner.inner_forms(step, block, begin)


PLACE = replace(
    memory_as_layer.PLACE,
    function_class="a weighted mean, times what a linear map or a perceptron answers",
    objective="locally weighted squared error, and squared error",
    optimiser="closed form, and gradient descent with momentum",
    schedule="the last w tokens, and every token, at the mini-batch's start",
    control="eviction, and weight decay, one rate for the head, from the data",
)
MECHANISM = Mechanism(
    module=__name__,
    title="Memory as gate (MAG)",
    citations=("behrouz2025titans",),
    inputs=TOKENS
    | {"K_p": "real [2, d_k]", "V_p": "real [2, d_v]", **GATES}
    | {"gains": "real [2, d_v]"},
    constants={"window": 3, "inner_batch": 3},
    place=PLACE,
    chapter="13_deep_memories",
    exempt=inner.NOT_RATIONAL,
    variants={"a perceptron": perceptron_variant(PLACE)},
)
