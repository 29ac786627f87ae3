"""LaCT beside a window: attention for what is near, a trained network for the rest.

    y_t    what `sliding_window_attention` answers
    m_t    what `lact` answers, by the network that its last full mini-batch left
    o_t = y_t + zeta_t * unit(m_t)                                  entry by entry

LaCT sees nothing of the mini-batch that it is in, and the window only the last w
tokens. With w at least `inner_batch`, as in the paper, one or the other sees every
token; with less, what lies between is seen by neither until the mini-batch is full.

Both are given the same q, k and v. In the released layer they share projections, and
the network's are bent by silu, its queries and keys also stretched, moved and normed.
unit(x) = x / sqrt(x'x + 1e-6). That layer's RMS norm is sqrt(d_v) times unit, but for
its guard: there zeta is sqrt(d_v) times a learned gain times silu of one number for
each token and head. beta, mu and `muon` are as in LaCT.
[zhang2025lact, as its code has it]
"""

import inspect
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ctlearn import inner
from ctlearn.features import normalise
from ctlearn.inner import MUON_LACT
from ctlearn.mechanism import Limit, Mechanism
from ctlearn.mixers import lact, sliding_window_attention
from ctlearn.mixers.memory_as_layer import State, begin_with
from ctlearn.shapes import checked_step
from ctlearn.supplies import Supply


def _sum_of(network: Callable, attention: Callable) -> Callable:
    """The step if the two are steps, the block if they take several tokens."""

    def step(  # noqa: PLR0913 - as many letters as the two have
        q: np.ndarray,
        k: np.ndarray,
        v: np.ndarray,
        *,
        window: int,
        log_mu: Any,
        beta: np.ndarray,
        zeta: np.ndarray,
        muon: tuple[tuple[float, float, float], ...] = MUON_LACT,
        S: State,
        inner_batch: int = 2048,
    ) -> tuple[np.ndarray, State]:
        """Attend, apply, add, train when it is time: what LaCT costs, w (d_k + d_v)."""
        training = {"log_mu": log_mu, "beta": beta, "muon": muon}
        y, cache = attention(q, k, v, window=window, S=S.cache)
        m, f = network(q, k, v, **training, S=S.memory, inner_batch=inner_batch)
        return y + zeta * normalise(m), State(f, cache)

    return step


step = checked_step(log_mu=("T",), beta=("T", "3"))(
    _sum_of(lact.step, sliding_window_attention.step)
)
block = _sum_of(inspect.unwrap(lact.step), sliding_window_attention.chunk)
recurrent, chunkwise = inner.inner_forms(step, block, partial(begin_with, lact.begin))


def drawn_start(supply: Supply, d_k: int, d_v: int) -> State:
    """A network of random weights with d_h = d_k, and an empty cache."""
    return State.start(lact.drawn_start(supply, d_k, d_v), d_k, d_v)


TOKENS = {"q": "real", "k": "unit", "v": "real"}
MECHANISM = Mechanism(
    module=__name__,
    title="LaCT beside a sliding window",
    citations=("zhang2025lact",),
    inputs=TOKENS | {"log_mu": "log_decay [T]", "beta": "small [T, 3]", "zeta": "real"},
    constants={"window": 3, "inner_batch": 3, "muon": ()},
    place=replace(
        lact.PLACE,
        beside=sliding_window_attention.MECHANISM.place.cell,
        function_class="a weighted mean, plus what two gated layers (SwiGLU) answer",
        objective="locally weighted squared error, and dot product",
        optimiser="closed form, and gradient ascent with momentum and Muon",
        schedule="the last w tokens, and the mini-batches before the present one",
        control="eviction, and the length of each unit's weights",
        state=f"{lact.PLACE.state} + min(T, window) * (d_k + d_v)",
    ),
    chapter="15_hybrids",
    start=drawn_start,
    exempt=inner.NOT_RATIONAL,
    limits=(
        Limit(
            target="sliding_window_attention",
            when="the network starts from zero weights, which never learn",
            setting=r"W_0 = W_1 = W_2 = 0",
            # lengths are measured, so there are none of exact numbers
            worlds=("floats",),
            here=None,
            there=lambda x: {name: x[name] for name in (*TOKENS, "window")},
        ),
    ),
    variants={"with Muon": {"constants": {"window": 32, "inner_batch": 32}}},
)
