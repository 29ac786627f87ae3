"""Documents: names are given values, then other values; then a new document begins.

All documents of a row use the same names. Each tells some of them, every time with a
new value, in random order, and is then asked for all: for a name that it told, its
latest value, and for any other nothing, whatever earlier documents said of it. The
memory goes on from document to document, so it has to replace *and* to forget.
"""

from typing import NamedTuple

import numpy as np

from ctlearn import memory
from ctlearn.tasks.recall import Facts, unit_vectors


class Row(NamedTuple):
    """Documents in the order in which they are read; the first is not asked."""

    documents: tuple[Facts, ...]

    @property
    def answers(self) -> np.ndarray:
        """What should be said [documents - 1, names, d_v]: zero for untold names."""
        return np.stack([document.answers for document in self.documents[1:]])

    @property
    def told(self) -> np.ndarray:
        """Which names each asked document has told [documents - 1, names]."""
        return (self.answers**2).sum(axis=2) > 0


class Gates(NamedTuple):
    """How a memory forgets: `alpha` at every token, and all of it where one begins.

    `reset` is the token of a document at which everything is forgotten, 0 being its
    first, or None. `beta` is the strength at which errors are written; with None,
    values are added as they are.
    """

    alpha: float = 1.0
    beta: float | None = None
    reset: int | None = None


def draw(
    seed: int, documents: int, names: int, told: int, T: int, d_k: int, d_v: int
) -> Row:
    """A row of documents of T tokens, which tell `told` of the names each.

    Every told name is told at least once, so T is at least `told`; keys and values are
    unit vectors.
    """
    rng = np.random.default_rng(seed)
    keys = unit_vectors(rng, names, d_k)
    row = []
    for _ in range(documents):
        some = rng.permutation(names)[:told]
        again = rng.choice(some, T - told)
        order = rng.permutation(np.concatenate([some, again]))
        v, answers = unit_vectors(rng, T, d_v), np.zeros((names, d_v))
        for name, value in zip(order, v, strict=True):
            answers[name] = value
        row.append(Facts(keys[order], v, keys, answers))
    return Row(tuple(row))


def ask(row: Row, gates: Gates) -> np.ndarray:
    """Answers at the end of each document but the first [documents - 1, names, d_v]."""
    S, said = None, []
    for document in row.documents:
        k, v, asked, _ = document
        log_decay = np.full(len(k), np.log(gates.alpha))
        if gates.reset is not None:
            log_decay[gates.reset] = -np.inf
        erased = None if gates.beta is None else gates.beta * k
        written = v if gates.beta is None else gates.beta * v
        decayed = {"e": erased, "log_decay": log_decay}
        _, S = memory.chunkwise(k, k, written, **decayed, S=S)
        said.append(asked @ S)
    return np.stack(said[1:])


def two_errors(said: np.ndarray, row: Row) -> tuple[float, float]:
    """Mean squared error at told names, and mean squared answer at untold ones."""
    wrong = ((said - row.answers) ** 2).sum(axis=2)
    return float(wrong[row.told].mean()), float(wrong[~row.told].mean())
