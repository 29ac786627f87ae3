"""The last tokens: who sees whom, and learning from the last pairs again."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ctlearn import inner
from ctlearn.inner import Linear, Perceptron, begun
from ctlearn.memory import copied_state
from ctlearn.scalars import minus_infinity
from ctlearn.shapes import GLOSSARY
from ctlearn.supplies import Supply


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
    for input; the pairs hold the keys themselves.
    """

    model: Any
    pairs: Pairs

    @classmethod
    def start(cls, model: Any, d_k: int, d_v: int) -> "Replay":
        """That model and no pairs yet, for keys and values of these lengths."""
        dtype = model.seen.dtype
        sizes = (0, d_k), (0, d_v), 0
        return cls(model, Pairs(*(np.zeros(size, dtype=dtype) for size in sizes)))

    @property
    def seen(self) -> np.ndarray:
        """How many tokens of the mini-batch have been read."""
        return self.model.seen


def begin_with(kind: Any) -> Callable:
    """What begins a `Replay` whose model is of that kind, for `inner.inner_forms`."""

    def begin(k: np.ndarray, v: np.ndarray, S: Any, phi: Callable) -> Replay:
        if S is None:
            f = inner.zeros(Linear, phi(k), v)
            S = Replay.start(kind.start(f), k.shape[1], v.shape[1])
        if not isinstance(S, Replay):
            found = type(S).__name__
            raise TypeError(f"S: expected a Replay(model, pairs), got {found}")
        model = begun(kind, phi(k), v, S.model, (Linear, Perceptron))
        shapes = {"K": ("n", "d_k"), "V": ("n", "d_v"), "weights": ("n",)}
        return Replay(model, copied_state(S.pairs, Pairs, k, v, **shapes))

    return begin


def empty_window_first(x: dict[str, Any]) -> dict[str, Any]:
    """An `opening`: as many empty tokens in front as a window holds, which forget all.

    They come to be all that the window holds, for what is forgotten is learned again
    from the pairs that are left in it.
    """
    opened = dict(x)
    for name, rows in x.items():
        if np.ndim(rows):
            empty = np.zeros((x["window"], *rows.shape[1:]), dtype=rows.dtype)
            if GLOSSARY[name].role == "decay":
                empty = empty + minus_infinity(rows)
            opened[name] = np.concatenate([empty.astype(rows.dtype), rows])
    return opened


def perceptron_variant(kind: Any) -> dict[str, Any]:
    """A variant of a mechanism whose model is of that kind: a `Perceptron` in it."""

    def start(supply: Supply, d_k: int, d_v: int) -> Replay:
        f = inner.drawn(Perceptron, supply, d_k, 7, d_v)
        return Replay.start(kind.start(f), d_k, d_v)

    return {"start": start, "exempt": inner.TOO_MANY_SYMBOLS}
