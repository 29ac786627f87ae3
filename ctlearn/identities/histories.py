"""Tokens with what they leave behind, drawn and named as the texts that are run."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ctlearn.identities.tokens import tokens
from ctlearn.inner import Linear, Momentum
from ctlearn.mixers import omega_rule, titans
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


class Surprises(NamedTuple):
    """Tokens x with Titans' gates, its M and P from any start, and the slopes."""

    x: dict[str, Array]
    M: Array
    P: Array
    G: Array


def titans_states(
    supply: Supply,
    T: int,
    d_k: int,
    d_v: int,
    *,
    inner_batch: int = 1,
    moving: int = 1,
) -> Surprises:
    """A linear memory at 0, 1, ..., T tokens, its slopes where they were taken."""
    x = rated(supply, T, d_k, d_v)
    x |= {n: supply.log_decay(n, T) for n in ("log_decay", "log_mu")}
    start, push = (supply.real(name, d_k, d_v) for name in "MP")
    S = Momentum.start(Linear(start))._replace(P=Linear(moving * push))
    ends = [
        titans.recurrent(
            **{n: a[:t] for n, a in x.items()}, S=S, inner_batch=inner_batch
        )[1]
        for t in range(T + 1)
    ]
    M, P = (np.array([getattr(end, name).W for end in ends]) for name in "MP")
    errors = np.array(
        [k @ end.at.W - v for k, end, v in zip(x["k"], ends[:-1], x["v"], strict=True)]
    )
    return Surprises(x, M, P, 2 * x["k"][:, :, None] * errors[:, None])


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
