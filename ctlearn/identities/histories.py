"""Tokens with what they leave behind, drawn and named as the texts that are run."""

from collections.abc import Callable

import numpy as np

from ctlearn.identities.tokens import tokens
from ctlearn.inner import Linear
from ctlearn.mixers import omega_rule
from ctlearn.objectives import Fading
from ctlearn.printed import Numbers, Rows
from ctlearn.supplies import Supply
from ctlearn.windows import Pairs, Replay

Array = np.ndarray


def rated(supply: Supply, T: int, d_k: int, d_v: int) -> dict[str, Array]:
    """Tokens and a rate for each, by name."""
    q, k, v = tokens(supply, T, d_k, d_v)
    return {"q": q, "k": k, "v": v, "beta": supply.rate("beta", T)}


def states(form: Callable, S: Array, **x: Array) -> Array:
    """The state S, and those that the form leaves after each token."""
    ends = range(len(x["k"]) + 1)
    return np.array([form(**{n: a[:t] for n, a in x.items()}, S=S)[1] for t in ends])


def letters(x: dict[str, Array], ends: Array) -> Numbers:
    """Letters by token, and the states by their own index."""
    greek = {"beta": r"\beta", "alpha": r"\alpha", "kappa": r"\kappa"}
    named = {greek.get(name, name): a for name, a in x.items() if name != "q"}
    T = len(x["k"])
    return Numbers(named | {"S": Rows(ends, first=0)}, {"t": range(1, T + 1)})


def omega_step(
    supply: Supply, C: int, d_k: int, d_v: int, *, older: int = 0
) -> tuple[dict[str, Array], Array]:
    """Pairs of a window of C and older ones, and M before and after the last token."""
    x, W = rated(supply, C + older, d_k, d_v), supply.real("W", d_k, d_v)
    x |= {"log_decay": supply.log_decay("a", C + older)}
    before = Pairs(*(x[name][:-1] for name in ("k", "v", "beta")))
    last = {name: a[-1:] for name, a in x.items()}
    S = Replay(Fading.start(Linear(W)), before)
    _, after = omega_rule.recurrent(**last, window=C, S=S)
    return x, np.array([W, after.model.M.W])
