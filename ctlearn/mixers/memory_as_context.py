"""Memory as context (MAC): attention to a segment and to what a memory recalls for it.

    h_i = M_0(q_i)                       M_0: the memory as the segment began
    y_i = softmax attention of q_i to the persistent tokens, to the segment's tokens
          up to i, and to h_1, ..., h_i, with keys phi(h_j W_K) and values h_j W_V
    M_i    what `titans` has learned of keys phi(y_j W_K), values y_j W_V, j <= i
    o_i = y_i * M_i(phi(y_i W_Q))        entry by entry

A segment is a mini-batch of `inner_batch` tokens, at whose start the memory is read and
its gradients are taken. W_Q, W_K [d_v, d_k] and W_V [d_v, d_v] project what the head
itself makes, as its q, k and v have been projected; the paper has such matrices for the
attention and for the memory each. phi makes unit vectors, as the paper does: a memory
that learns of its own answers explodes if they come with long keys.

The paper prints segments as wholes: attention to [P | h | segment] under a causal mask,
and o from M after the whole of it. Read so, the answer to a token would depend on those
after it: on their h, which stand before it, and on what they have taught M. Here each
token sees what has been read. [behrouz2025titans, eqs. 21-25 and section 4.4]
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ctlearn import inner
from ctlearn.features import normalise, softmax_feature
from ctlearn.mechanism import Cell, Mechanism, Place
from ctlearn.mixers import titans
from ctlearn.mixers.memory_as_layer import (
    GATES,
    TOKENS,
    State,
    begin,
    perceptron_variant,
)
from ctlearn.mixers.normalised_linear_attention import FeatureMap
from ctlearn.mixers.softmax_attention import Cache, extend
from ctlearn.scalars import minus_infinity
from ctlearn.shapes import checked_step


def _segment(memory: Callable) -> Callable:
    """The step if the memory's is one, the block if it takes several tokens."""

    def step(  # noqa: PLR0913 - as many letters as the two have
        q: np.ndarray,
        k: np.ndarray,
        v: np.ndarray,
        *,
        W_Q: np.ndarray,
        W_K: np.ndarray,
        W_V: np.ndarray,
        phi: FeatureMap = normalise,
        K_p: np.ndarray,
        V_p: np.ndarray,
        log_decay: Any,
        log_mu: Any,
        beta: Any,
        S: State,
        inner_batch: int = 64,
    ) -> tuple[np.ndarray, State]:
        """Recall, attend, learn the answer, answer: 8 d_k d_v and the attention."""
        h = S.memory.at.read(q)
        cache = extend(S.cache, _in_turn(phi(h @ W_K), k), _in_turn(h @ W_V, v))
        y = _attend(np.atleast_2d(q), cache, Cache(K_p, V_p)).reshape(v.shape)
        gates = {"log_decay": log_decay, "log_mu": log_mu, "beta": beta}
        made = phi(y @ W_Q), phi(y @ W_K), y @ W_V
        m, M = memory(*made, **gates, S=S.memory, inner_batch=inner_batch)
        return y * m, State(M, cache if M.seen else Cache(cache.K[:0], cache.V[:0]))

    return step


def _in_turn(h: np.ndarray, x: np.ndarray) -> np.ndarray:
    """What is made of a token's h and what of the token, one row below the other."""
    return np.stack([h, x], axis=-2).reshape(-1, x.shape[-1])


def _attend(q: np.ndarray, segment: Cache, always: Cache) -> np.ndarray:
    """Answers to the segment's last tokens, each of two rows, and none sees a later."""
    token = np.arange(len(segment.K)) // 2
    asks = len(segment.K) // 2 - len(q) + np.arange(len(q))[:, None]
    scores = np.where(token <= asks, q @ segment.K.T, minus_infinity(q))
    scores = np.concatenate([q @ always.K.T, scores], axis=1)
    return softmax_feature(scores) @ np.concatenate([always.V, segment.V])


step = checked_step(log_decay=("T",))(_segment(titans.step))
recurrent, chunkwise = inner.inner_forms(step, _segment(titans.block), begin)


PLACE = Place(
    cell=Cell("linear map", "squared error", "momentum", "mini-batch", "one rate"),
    beside=Cell("local fit", "local error", "closed form", "window", "eviction"),
    function_class="a weighted mean, and a linear map or a perceptron of it",
    objective="locally weighted squared error; then squared error",
    optimiser="closed form; then gradient descent with momentum",
    schedule="the segment so far; then every token, at the segment's start",
    control="eviction with the segment; then weight decay, from the data",
    state="3 * d_k * d_v + 1 + 2 * (T % inner_batch) * (d_k + d_v)",
)
MECHANISM = Mechanism(
    module=__name__,
    title="Memory as context (MAC)",
    citations=("behrouz2025titans",),
    inputs=TOKENS
    | dict.fromkeys(("W_Q", "W_K", "W_V"), "unit")
    | {"K_p": "real [2, d_k]", "V_p": "real [2, d_v]", **GATES},
    constants={"inner_batch": 3},
    place=PLACE,
    chapter="13_deep_memories",
    exempt=inner.NOT_RATIONAL,
    variants={"a perceptron": perceptron_variant(PLACE)},
)
