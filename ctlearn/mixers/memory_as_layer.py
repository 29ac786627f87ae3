"""Memory as layer (MAL): Titans' memory answers first, and a window attends to that.

    y_t = M_t(q_t)                                                          `titans`
    o_t = sum_{t-w<j<=t} a_tj y_j W_V,   a_tj = softmax over j of (y_t W_Q)' y_j W_K

Two layers in a row: q, k and v are the memory's, and the window's are made of its
answers by W_Q, W_K [d_v, d_k] and W_V [d_v, d_v]. Persistent tokens are tokens like
others that come first: read them, and go on from the state. A block's residual, norms
and convolutions are the layer's affair. alpha, mu, beta and `inner_batch` are as in
Titans' memory. [behrouz2025titans, eqs. 29-31]
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ctlearn import inner
from ctlearn.inner import Linear, Momentum, Perceptron
from ctlearn.mechanism import Cell, Inputs, Limit, Mechanism, Place
from ctlearn.mixers import sliding_window_attention, titans
from ctlearn.mixers.softmax_attention import Cache, initial_cache
from ctlearn.shapes import checked_step
from ctlearn.supplies import Supply


class State(NamedTuple):
    """A memory that learns by mini-batches, and the cache of what attention sees."""

    memory: Any
    cache: Cache

    @classmethod
    def start(cls, memory: Any, d_k: int, d_v: int) -> "State":
        """That memory and an empty cache, for keys and values of these lengths."""
        K, V = (np.zeros((0, d), dtype=memory.seen.dtype) for d in (d_k, d_v))
        return cls(memory, Cache(K, V))

    @property
    def seen(self) -> np.ndarray:
        """How many tokens of the memory's mini-batch have been read."""
        return self.memory.seen


def begin_with(memory: Callable, k: Any, v: Any, S: State | None) -> State:
    """A copy of S, or what `memory(k, v, None)` begins with and an empty cache."""
    if not isinstance(S, State | None):
        raise TypeError(f"S: expected a State(memory, cache), got {type(S).__name__}")
    known, cache = (None, None) if S is None else S
    return State(memory(k, v, known), initial_cache(k, v, cache))


def begin(k: np.ndarray, v: np.ndarray, S: State | None) -> State:
    """A copy of S, or a linear memory that knows nothing and an empty cache."""
    return begin_with(_begin_memory, k, v, S)


def _begin_memory(k: np.ndarray, v: np.ndarray, S: Momentum | None) -> Momentum:
    return inner.begun(Momentum, k, v, S, (Linear, Perceptron))


def _layers(memory: Callable, attention: Callable) -> Callable:
    """The step if the two are steps, the block if they take several tokens."""

    def step(  # noqa: PLR0913 - as many letters as the two have
        q: np.ndarray,
        k: np.ndarray,
        v: np.ndarray,
        *,
        W_Q: np.ndarray,
        W_K: np.ndarray,
        W_V: np.ndarray,
        window: int,
        log_decay: Any,
        log_mu: Any,
        beta: Any,
        S: State,
        inner_batch: int = 1,
    ) -> tuple[np.ndarray, State]:
        """Learn and answer, attend: 7 d_k d_v, (2 d_k + d_v) d_v and w (d_k + d_v)."""
        gates = {"log_decay": log_decay, "log_mu": log_mu, "beta": beta}
        y, M = memory(q, k, v, **gates, S=S.memory, inner_batch=inner_batch)
        o, cache = attention(y @ W_Q, y @ W_K, y @ W_V, window=window, S=S.cache)
        return o, State(M, cache)

    return step


step = checked_step(log_decay=("T",))(
    _layers(titans.step, sliding_window_attention.step)
)
block = _layers(titans.block, sliding_window_attention.chunk)
recurrent, chunkwise = inner.inner_forms(step, block, begin)


def _of_no_window(x: Inputs) -> Inputs:
    eye = np.eye(len(x["W_V"]), dtype=x["W_V"].dtype)
    return x | {"window": 1, "W_V": 0 * x["W_V"] + eye}


def perceptron_variant(place: Place) -> dict[str, Any]:
    """A variant of an arrangement in that place: its memory has two layers."""

    def start(supply: Supply, d_k: int, d_v: int) -> State:
        f = inner.drawn(Perceptron, supply, d_k, 7, d_v)
        return State.start(Momentum.start(f), d_k, d_v)

    place = place.of("network", "7 * (d_k + d_v + 1) + d_v")
    exempt = inner.NOT_RATIONAL
    return {"start": start, "limits": (), "place": place, "exempt": exempt}


GATES = dict.fromkeys(("log_decay", "log_mu"), "log_decay [T]") | {"beta": "small"}
TOKENS = {"q": "real", "k": "unit", "v": "real"}
PLACE = Place(
    cell=Cell("linear map", "squared error", "momentum", "mini-batch", "one rate"),
    beside=Cell("local fit", "local error", "closed form", "window", "eviction"),
    function_class="a weighted mean of what a linear map or a perceptron answers",
    objective="squared error; then locally weighted squared error",
    optimiser="gradient descent with momentum; then closed form",
    schedule="every token, at the mini-batch's start; then the last w tokens",
    control="weight decay, one rate for the head, from the data; then eviction",
    state="3 * d_k * d_v + 1 + min(T, window) * (d_k + d_v)",
)
MECHANISM = Mechanism(
    module=__name__,
    title="Memory as layer (MAL)",
    citations=("behrouz2025titans",),
    inputs=TOKENS | dict.fromkeys(("W_Q", "W_K", "W_V"), "unit") | GATES,
    constants={"window": 3, "inner_batch": 3},
    place=PLACE,
    chapter="13_deep_memories",
    exempt={"test_plans_agree_on_symbols": "exponentials of long polynomials"},
    limits=(
        Limit(
            target="titans",
            when="the window is one token and W_V = I",
            setting=r"w = 1, \; W_V = I",
            # exponentials of long polynomials otherwise
            at={"T": 1, "d_v": 1},
            here=_of_no_window,
            there=lambda x: {n: x[n] for n in (*TOKENS, *GATES, "inner_batch")},
        ),
    ),
    variants={"a perceptron": perceptron_variant(PLACE)},
)
