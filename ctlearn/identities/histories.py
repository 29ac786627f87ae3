"""Tokens with what they leave behind, drawn and named as the texts that are run."""

from typing import Any

import numpy as np

from ctlearn.inner import Linear
from ctlearn.mixers import omega_rule
from ctlearn.objectives import Fading
from ctlearn.printed import Numbers, Rows
from ctlearn.supplies import Supply
from ctlearn.windows import Pairs, Replay

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


def omega_step(
    supply: Supply, C: int, d_k: int, d_v: int, *, older: int = 0
) -> tuple[dict[str, Array], Array]:
    """Pairs of a window of C and older ones, and M before and after the last token."""
    x, W = tokens(supply, C + older, d_k, d_v), supply.real("W", d_k, d_v)
    x |= {"log_decay": supply.log_decay("a", C + older)}
    before = Pairs(*(x[name][:-1] for name in ("k", "v", "beta")))
    last = {name: a[-1:] for name, a in x.items()}
    S = Replay(Fading.start(Linear(W)), before)
    _, after = omega_rule.recurrent(**last, window=C, S=S)
    return x, np.array([W, after.model.M.W])
