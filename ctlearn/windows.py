"""The last tokens: who sees whom, and learning from the last pairs again."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ctlearn.inner import Linear, Perceptron, begun
from ctlearn.memory import copied_state


def in_window(queries: int, tokens: int, window: int) -> np.ndarray:
    """[queries, tokens]: which tokens each of the last of them sees, a banded mask."""
    query = (tokens - queries + np.arange(queries))[:, None]
    token = np.arange(tokens)
    return (query - window < token) & (token <= query)


class Pairs(NamedTuple):
    """Some pairs in order: keys K [n, d_k], values V [n, d_v], and weights [n]."""

    K: np.ndarray
    V: np.ndarray
    weights: np.ndarray

    def extend(self, k: np.ndarray, v: np.ndarray, weights: np.ndarray) -> "Pairs":
        """These pairs, and behind them those of further tokens."""
        return Pairs(*map(np.concatenate, zip(self, (k, v, weights), strict=True)))

    def last(self, n: int) -> "Pairs":
        """The last n of them."""
        return Pairs(*(x[-n:] for x in self))

    def slopes(self, f: Any, phi: Callable) -> tuple[np.ndarray, np.ndarray]:
        """The keys' features x, and the slope of ||f(x) - v||^2 at each f(x)."""
        x = phi(self.K)
        return x, 2 * (f.read(x) - self.V)

    def gradient(self, f: Any, phi: Callable) -> Any:
        """The weighted sum of the gradients of all of them at f."""
        x, g = self.slopes(f, phi)
        return f.gradient(x, self.weights[:, None] * g)

    def windows(self, tokens: int, window: int) -> np.ndarray:
        """[tokens, n]: what each of the last tokens has each pair weigh."""
        return np.where(in_window(tokens, len(self.K), window), self.weights, 0)


class Replay(NamedTuple):
    """A model that learns from its last pairs again.

    `model` is a `Fading` or a `Momentum`, whose learners may take features of the keys
    for input; the pairs hold the keys themselves. None are no pairs yet.
    """

    model: Any
    pairs: Any = None

    @property
    def seen(self) -> np.ndarray:
        """How many tokens of the mini-batch have been read."""
        return self.model.seen


def begin_with(kind: type) -> Callable:
    """What begins a `Replay` whose model is of that kind, for `inner.inner_forms`."""

    def begin(k: np.ndarray, v: np.ndarray, S: Any, phi: Callable) -> Replay:
        S = Replay(None) if S is None else S
        if not isinstance(S, Replay):
            found = type(S).__name__
            raise TypeError(f"S: expected a Replay(model, pairs), got {found}")
        model = begun(kind, phi(k), v, S.model, (Linear, Perceptron))
        pairs = Pairs(k[:0], v[:0], k[:0, 0]) if S.pairs is None else S.pairs
        shapes = {"K": ("n", "d_k"), "V": ("n", "d_v"), "weights": ("n",)}
        return Replay(model, copied_state(pairs, Pairs, k, v, **shapes))

    return begin
