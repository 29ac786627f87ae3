"""Tokens with what they leave behind, drawn and named as the texts that are run."""

from typing import Any

import numpy as np

from ctlearn.printed import Numbers, Rows
from ctlearn.supplies import Supply

Array = np.ndarray


def states(form: Any, S: Array, **x: Any) -> Array:
    """The first state, and those after each token."""
    T = len(x["k"])
    by_token = {name: a for name, a in x.items() if np.ndim(a)}
    rest = {name: a for name, a in x.items() if not np.ndim(a)}
    return np.array(
        [
            form(**{name: a[:t] for name, a in by_token.items()}, **rest, S=S)[1]
            for t in range(T + 1)
        ]
    )


def tokens(supply: Supply, T: int, d_k: int, d_v: int) -> dict[str, Array]:
    """Pairs with their queries, and a rate for each."""
    return {
        "q": supply.real("q", T, d_k),
        "k": supply.real("k", T, d_k),
        "v": supply.real("v", T, d_v),
        "beta": supply.rate("beta", T),
    }


def letters(x: dict[str, Array], states: Array) -> Numbers:
    """Letters by token, and the states by their own index."""
    greek = {"beta": r"\beta", "alpha": r"\alpha", "kappa": r"\kappa"}
    named = {greek.get(name, name): a for name, a in x.items() if name != "q"}
    T = len(x["k"])
    return Numbers(named | {"S": Rows(states, first=0)}, {"t": range(1, T + 1)})
