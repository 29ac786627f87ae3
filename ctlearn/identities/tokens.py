"""What many checks draw and compare: tokens, all of a step, states in time."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ctlearn.printed import Rows
from ctlearn.supplies import Supply


def tokens(supply: Supply, T: int, d_k: int, d_v: int) -> tuple[np.ndarray, ...]:
    """Any q, k [T, d_k] and v [T, d_v]."""
    q, k = supply.real("q", T, d_k), supply.real("k", T, d_k)
    return q, k, supply.real("v", T, d_v)


def mesa_inputs(supply: Supply, T: int, d_k: int, d_v: int) -> dict[str, np.ndarray]:
    """What MesaNet reads: tokens, decays, rates, and a ridge for each channel."""
    q, k, v = tokens(supply, T, d_k, d_v)
    return {
        **{"q": q, "k": k, "v": v},
        **{"log_decay": supply.log_decay("gamma", T), "beta": supply.rate("beta", T)},
        "ridges": supply.positive("ridge", d_k),
    }


def at_right_angle(x: np.ndarray, k: np.ndarray) -> np.ndarray:
    """What of x, or of each of its columns, is at a right angle to k; times k'k."""
    return (k @ k) * x - np.multiply.outer(k, k @ x)


def flat(*arrays: Any) -> np.ndarray:
    """All numbers of all arrays, in one row."""
    return np.concatenate([np.ravel(x) for x in arrays])


def states(form: Callable, T: int, *arguments: Any, **others: Any) -> Rows:
    """The state after 0, 1, ..., T tokens; arguments have a row for each token."""
    ends = [
        form(*(x[:t] for x in arguments), **{n: x[:t] for n, x in others.items()})[1]
        for t in range(T + 1)
    ]
    return Rows(np.array(ends), first=0)
