"""LaCT (large-chunk test-time training): apply one network to a chunk, then train it.

    f(x) = W_1' (silu(W_0' x) * (W_2' x))               SwiGLU, no bias
    o_i = f(q_i)                                        for every token of a mini-batch
    D = sum_i of the gradients of f(k_i)'v_i, those of W_m times beta_im
    D <- D + mean_i(mu_i) D_before                      momentum
    W <- W + muon(D), each unit's weights brought back to the length they started with

The objective is a dot product, climbed. A mini-batch (`inner_batch`, thousands of
tokens in the paper) sees nothing of itself: apply, then update. So a layer adds a
sliding window over the same q, k and v. A mini-batch that is not full has been applied
and not learned from; it waits in the state, and the sequence may go on. Nothing clears
the weights: a new document is a new call.

beta [T, 3] are the step sizes for W_0, W_1 and W_2, mu in (0, 1) is given as its log.
`muon` are the coefficients of Newton and Schulz's iteration, which gives all directions
of D one strength, so that an overall step size cancels, and so that rounding in a
direction which D nearly lacks is magnified too; empty, D is taken as it is.
Weights are kept at their lengths if the state knows those.
[zhang2025lact, paper and code, which runs Muon in bf16]
"""

import inspect
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ctlearn import inner
from ctlearn.inner import MUON_LACT, GatedUnit, Linear, each, zeros_like
from ctlearn.mechanism import Cell, Mechanism, Place
from ctlearn.scalars import exp
from ctlearn.shapes import checked_step
from ctlearn.supplies import Supply


class State(NamedTuple):
    """The network f, and what its next training needs.

    `total` and `gates` sum the weighted gradients and the mu of the mini-batch's `seen`
    tokens, `before` is the last D, `lengths` those of the weights, or nothing.
    """

    f: Any
    total: Any
    gates: np.ndarray
    before: Any
    seen: np.ndarray
    lengths: Any

    @classmethod
    def start(cls, f: Any, *, keep_lengths: bool = True) -> "State":
        """A network about to read its first token, from copies of the weights of f."""
        zero = np.zeros((), dtype=f[0].dtype)
        lengths = each(lambda w: np.linalg.norm(w, axis=0), f) if keep_lengths else ()
        f = each(np.copy, f)
        return cls(f, zeros_like(f), zero, zeros_like(f), zero, lengths)

    def copied(self) -> "State":
        """The same numbers in arrays of their own."""
        parts = (each(np.copy, x) if isinstance(x, tuple) else x.copy() for x in self)
        return State(*parts)


@checked_step(log_mu=("T",), beta=("T", "3"))
def step(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    *,
    log_mu: Any,
    beta: np.ndarray,
    muon: tuple[tuple[float, float, float], ...] = MUON_LACT,
    S: State,
    inner_batch: int = 2048,
) -> tuple[np.ndarray, State]:
    """Answer a token, train if the mini-batch is full: 9 d_k d_h where d_v = d_k."""
    o = S.f.read(q)
    S = S._replace(
        total=each(np.add, S.total, S.f.gradient(k, v, beta)),
        gates=np.asarray(S.gates + np.sum(exp(log_mu))),
        seen=np.asarray(int(S.seen) + np.size(log_mu), dtype=S.seen.dtype),
    )
    return o, (train(S, muon) if S.seen == inner_batch else S).copied()


def train(S: State, muon: tuple[tuple[float, float, float], ...]) -> State:
    """One step on a full mini-batch: momentum, Muon, lengths."""
    mean = np.asarray(S.gates / S.seen)
    D = each(lambda d, before: d + mean * before, S.total, S.before)
    W = each(np.add, S.f, inner.of_one_strength(D, muon))
    if S.lengths:
        W = each(inner.with_lengths, W, S.lengths)
    zero = np.zeros_like(mean)
    return State(W, zeros_like(W), zero, D, zero, S.lengths)


def begin(k: np.ndarray, v: np.ndarray, S: State | None) -> State:
    """A copy of S, or a network of zeros with d_h = d_k, which never learns."""
    S = State.start(inner.zeros(GatedUnit, k, v, d_h=k.shape[1])) if S is None else S
    if not isinstance(S, State):
        raise TypeError(f"S: expected a State(f, total, …), got {type(S).__name__}")
    for learner in (S.f, S.total, S.before):
        sizes = {"d_k": (k.shape[1], "k"), "d_v": (v.shape[1], "v")}
        inner.check_learner("S", learner, (GatedUnit, Linear), sizes)
    return S.copied()


# nothing in a step asks for one token only: it may take several of one mini-batch
recurrent, chunkwise = inner.inner_forms(step, inspect.unwrap(step), begin)


def drawn_start(supply: Supply, d_k: int, d_v: int, **kept: bool) -> State:
    """A network of random weights with d_h = d_k."""
    return State.start(inner.drawn(GatedUnit, supply, d_k, d_k, d_v), **kept)


PLACE = Place(
    cell=Cell("network", "dot product", "momentum", "mini-batch", "size"),
    function_class="two gated layers (SwiGLU)",
    objective="dot product",
    optimiser="gradient ascent with momentum and Muon, step sizes beta",
    schedule="every mini-batch, applied before it is learned from",
    control="the length of each unit's weights",
    state="3 * d_k * (2 * d_k + d_v) + 2 * d_k + d_v + 2",
)
MECHANISM = Mechanism(
    module=__name__,
    title="LaCT: large-chunk test-time training",
    citations=("zhang2025lact",),
    inputs={"q": "real", "k": "unit", "v": "real"}
    | {"log_mu": "log_decay [T]", "beta": "small [T, 3]"},
    constants={"inner_batch": 32},
    place=PLACE,
    chapter="13_deep_memories",
    start=drawn_start,
    exempt=inner.NOT_RATIONAL,
    variants={
        "without Muon and lengths": {
            "constants": {"inner_batch": 3, "muon": ()},
            "start": partial(drawn_start, keep_lengths=False),
            "place": replace(PLACE, state="3 * d_k * (2 * d_k + d_v) + 2"),
            "exempt": inner.TOO_MANY_SYMBOLS,
        }
    },
)
