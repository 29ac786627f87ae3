"""Which states of two mechanisms answer alike from there on, limit by limit.

Where both states are one matrix, the same matrix makes the pair. Here are the others:
states with a momentum, in the midst of a mini-batch, in levels, and caches.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ctlearn.buckets import Buckets
from ctlearn.inner import Linear, Momentum, Training
from ctlearn.mechanism import Inputs
from ctlearn.mixers import (
    memory_as_layer,
    momentum_delta_rule,
    normalised_linear_attention,
    preconditioned_delta_rule,
    sparse_caching_attention,
)
from ctlearn.mixers.kernelised_delta_rule import Expansion
from ctlearn.mixers.softmax_attention import Cache
from ctlearn.objectives import Fading, Mirror
from ctlearn.supplies import Supply
from ctlearn.waves import Waves
from ctlearn.windows import Pairs, Replay

Array = np.ndarray


@dataclass(frozen=True, kw_only=True)
class Pairing:
    """Pairs of states, one here and one there, and what makes two states a pair.

    `states` gives pairs, of a supply and one token's inputs at the limit. `here` and
    `there` make of a state, and those inputs, what must be equal for two to be a pair;
    free symbols reach every pair in this sense. Then one token proves the limit for any
    number of them: from each pair both must answer alike, and end in a pair. `given`
    sets inputs for that token.
    """

    states: Callable[[Supply, Inputs], Sequence[tuple[Any, Any]]]
    here: Callable[[Any, Inputs], Any] = lambda S, _: S
    there: Callable[[Any, Inputs], Any] = lambda S, _: S
    given: Mapping[str, Any] = field(default_factory=dict)


def _matrix(supply: Supply, x: Inputs, name: str = "S_0") -> Array:
    return supply.real(name, x["k"].shape[1], x["v"].shape[1])


# Of a mini-batch of two, the first token stands for every one but the last.
TWO = {"inner_batch": 2}


def _momenta(supply: Supply, x: Inputs) -> list[Momentum]:
    """Any of a linear memory, with the first token and with the last to come."""
    M, P, at = (Linear(_matrix(supply, x, f"S_{i}")) for i in range(3))
    return [Momentum(M, P, at, np.full((), seen, M.W.dtype)) for seen in range(2)]


def _fading(S: Momentum) -> Fading:
    return Fading(S.M, S.at, S.seen)


def _some_pairs(supply: Supply, x: Inputs) -> Pairs:
    K, V = (supply.real(n.upper(), 2, x[n].shape[1]) for n in "kv")
    return Pairs(K, V, supply.real("w", 2))


def _beside_momenta(state: Callable[[Momentum, Pairs], Any]) -> Callable:
    """Pairs of what `state` makes of a momentum's state, and that."""

    def states(supply: Supply, x: Inputs) -> list[tuple[Any, Momentum]]:
        pairs = _some_pairs(supply, x)
        return [(state(S, pairs), S) for S in _momenta(supply, x)]

    return states


def _without_momentum(S: Momentum, _: Inputs) -> tuple:
    """A mu of zero forgets it, whatever it is."""
    return S.M, S.at, S.seen


def _velocities(supply: Supply, x: Inputs) -> list[tuple[Any, Momentum]]:
    S, M = _matrix(supply, x), _matrix(supply, x, "S_1")
    there = Momentum.start(Linear(S))._replace(P=Linear(-M))
    return [(momentum_delta_rule.State(S, M), there)]


def _momentum_and_fading(supply: Supply, x: Inputs) -> list[tuple[Replay, Replay]]:
    pairs = _some_pairs(supply, x)
    return [(Replay(S, pairs), Replay(_fading(S), pairs)) for S in _momenta(supply, x)]


def _started(supply: Supply, x: Inputs) -> list[tuple[Array, Training]]:
    f, total = Linear(x["W_0"]), Linear(_matrix(supply, x))
    return [(f.W - total.W, Training.start(f)._replace(total=total))]


def _gathered(supply: Supply, x: Inputs) -> list[tuple[Training, Array]]:
    S = _matrix(supply, x)
    return [(Training.start(Linear(0 * S))._replace(total=Linear(-S)), S)]


def _expansions(supply: Supply, x: Inputs) -> list[tuple[Expansion, Array]]:
    """As many keys as channels: their sums are all matrices that there are."""
    d_k = x["k"].shape[1]
    S = Expansion(supply.real("K", d_k, d_k), _matrix(supply, x, "U"))
    return [(S, S.K.T @ S.U)]


def _levels(supply: Supply, x: Inputs) -> list[tuple[Buckets, Array]]:
    """After 8 tokens, when all levels are in use and merge, and after 7."""
    full = np.array([_matrix(supply, x, f"S_{i}") for i in range(4)])
    some = full * np.reshape([1, 0, 1, 1], (4, 1, 1))
    states = [Buckets(S, np.full((), n, S.dtype)) for S, n in ((full, 8), (some, 7))]
    return [(S, S.S.sum(axis=0)) for S in states]


def _rows(pairs: Cache, rows: slice) -> Cache:
    return Cache(pairs.K[rows], pairs.V[rows])


def _caches(supply: Supply, x: Inputs) -> list[Cache]:
    """Of one to three rows; those that come after are terms of the same sum."""
    K, V = (supply.real(n.upper(), 3, x[n].shape[1]) for n in "kv")
    return [_rows(Cache(K, V), slice(n)) for n in range(1, 4)]


def _same_caches(supply: Supply, x: Inputs) -> list[tuple[Cache, Cache]]:
    return [(S, S) for S in _caches(supply, x)]


def _beside_caches(
    supply: Supply, x: Inputs
) -> list[tuple[sparse_caching_attention.State, Cache]]:
    """A window of two rows, what is older held, and nothing in the linear part."""
    S = 0 * _matrix(supply, x)
    linear = normalised_linear_attention.State(S, S[:, 0])
    return [
        (
            sparse_caching_attention.State(
                linear, _rows(S, slice(-2)), _rows(S, slice(-2, None))
            ),
            S,
        )
        for S in _caches(supply, x)
    ]


def _whole_cache(S: sparse_caching_attention.State, _: Inputs) -> tuple:
    return S.linear, *map(np.concatenate, zip(S.held, S.recent, strict=True))


def _nothing_linear(S: Cache, x: Inputs) -> tuple:
    n = 0 * x["k"][0]
    return np.outer(n, x["v"][0]), n, *S


def _beside_windows(
    supply: Supply, x: Inputs
) -> list[tuple[sparse_caching_attention.State, Cache]]:
    linear = normalised_linear_attention.State(
        _matrix(supply, x), supply.real("n", x["k"].shape[1])
    )
    return [
        (sparse_caching_attention.State(linear, _rows(S, slice(0)), S), S)
        for S in _caches(supply, x)[:2]
    ]


def _preconditioned(supply: Supply, x: Inputs) -> list[tuple[Any, Any]]:
    S = preconditioned_delta_rule.State(
        _matrix(supply, x), supply.positive("A", x["k"].shape[1])
    )
    return [(S, S)]


def _still_waves(supply: Supply, x: Inputs) -> list[tuple[Waves, Array]]:
    S = supply.real("S_0", *x["A"].shape)
    return [(Waves(S, 0 * S), S)]


_MEMORY_ALONE = Pairing(
    states=_beside_momenta(lambda S, _: memory_as_layer.State.start(S, *S.M.W.shape)),
    here=lambda S, _: S.memory,
    given=TWO,
)
_LEVELS_ADD_UP = Pairing(states=_levels, here=lambda S, _: S.S.sum(axis=0))

# by the name of the limit's entry
PAIRINGS = {
    "momentum-delta-rule-becomes-titans": Pairing(
        states=_velocities, there=lambda S, _: (S.M.W, -S.P.W)
    ),
    "omega-rule-becomes-titans": Pairing(
        states=_beside_momenta(lambda S, pairs: Replay(_fading(S), pairs)),
        here=lambda S, _: S.model,
        there=_without_momentum,
        given=TWO,
    ),
    "atlas-becomes-omega-rule": Pairing(
        states=_momentum_and_fading,
        here=lambda S, x: (_without_momentum(S.model, x), S.pairs),
        given=TWO,
    ),
    "atlas-becomes-titans": Pairing(
        states=_beside_momenta(Replay), here=lambda S, _: S.model, given=TWO
    ),
    "yaad-becomes-titans": Pairing(
        states=_beside_momenta(lambda S, _: _fading(S)),
        there=_without_momentum,
        given=TWO,
    ),
    # with powers of two the weights are what was gathered
    "moneta-becomes-titans": Pairing(
        states=_beside_momenta(lambda S, _: Mirror(S.M, _fading(S))),
        there=lambda S, _: (S.M, S.M, S.at, S.seen),
        given=TWO,
    ),
    "memory-as-layer-becomes-titans": _MEMORY_ALONE,
    # of a mini-batch that holds all tokens none is the last
    "constructed-attention-becomes-ttt-linear": Pairing(
        states=_started,
        here=lambda S, x: (x["W_0"], S),
        there=lambda S, _: (S.f.W, S.f.W - S.total.W),
        given=TWO,
    ),
    "ttt-linear-becomes-linear-attention": Pairing(
        states=_gathered,
        here=lambda S, _: (S.f.W, -S.total.W),
        there=lambda S, _: (0 * S, S),
        given=TWO,
    ),
    "kernelised-delta-rule-becomes-delta-rule": Pairing(
        states=_expansions, here=lambda S, _: S.K.T @ S.U
    ),
    "log-linear-attention-becomes-gated-linear-attention": _LEVELS_ADD_UP,
    "log-linear-gated-delta-rule-becomes-gated-delta-rule": _LEVELS_ADD_UP,
    "hopfield-retrieval-becomes-softmax-attention": Pairing(states=_same_caches),
    "sliding-window-attention-becomes-softmax-attention": Pairing(
        states=_same_caches, given={"window": 4}
    ),
    "sparse-caching-attention-becomes-softmax-attention": Pairing(
        states=_beside_caches,
        here=_whole_cache,
        there=_nothing_linear,
        given={"capacity": 2},
    ),
    "sparse-caching-attention-becomes-sliding-window-attention": Pairing(
        states=_beside_windows, here=lambda S, _: S.recent
    ),
    "preconditioned-kimi-delta-attention-becomes-preconditioned-delta-rule": Pairing(
        states=_preconditioned
    ),
    "s4d-becomes-mamba": Pairing(states=_still_waves, there=lambda S, _: (S, 0 * S)),
}
