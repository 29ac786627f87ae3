"""The composed memory: five choices, and the update that they mean.

    kept = Diag(a) S_{t-1}
    Gamma_t = sum_j x_j slope_j'                   slopes of the pairs looked at
    S_t = kept - beta E_t,   o_t = S_t' phi(q_t)   E_t is the optimiser's step

x = phi(k) are the features of a key. Every choice is one of the words below.

function class  matrix: phi(x) = x; features: phi(x) = [relu(x), relu(-x)]
objective       the slope at an answer z: dot: -v; squared: z - v; capped: z - v,
                shortened to length `CAP` where it is longer (Huber's loss of it)
schedule        token: the pair of the token, at what is kept; batch: the same, at the
                state with which its mini-batch of `LOOK` tokens began; window: the
                last `LOOK` pairs, at what is kept
optimiser       step: E = Gamma; momentum: E = P with P <- P / 2 + Gamma; newton:
                E = (H + `RIDGE` I)^{-1} Gamma with H <- Diag(a) H Diag(a) + x_t x_t'
control         none: a = 1; rate: a = keep; channels: a_c = keep^(2 c / (d - 1)) for
                the features c = 0, ..., d - 1

Every product of choices is allowed. Some have a name; most have never been tried.
"""

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ctlearn.features import relu
from ctlearn.mechanism import Cell

LOOK, CAP, RIDGE, MOMENTUM = 8, 0.5, 0.1, 0.5
# Of each axis the choices, and the words that the map of mechanisms has for them.
OPTIONS: dict[str, dict[str, str]] = {
    "function_class": {"matrix": "linear map", "features": "linear map of features"},
    "objective": {
        "dot": "dot product",
        "squared": "squared error",
        "capped": "another loss",
    },
    "optimiser": {
        "step": "one step",
        "momentum": "momentum",
        "newton": "preconditioned step",
    },
    "schedule": {"token": "every token", "batch": "mini-batch", "window": "window"},
    "control": {"none": "none", "rate": "one rate", "channels": "rate by channel"},
}


class Choices(NamedTuple):
    """One choice of each axis, by default those of the delta rule."""

    function_class: str = "matrix"
    objective: str = "squared"
    optimiser: str = "step"
    schedule: str = "token"
    control: str = "none"

    @property
    def cell(self) -> Cell:
        """Where the map has it, at beta = 1.

        Newton's steps carry a least-squares solution along, where all pairs count alike
        and every error is taken at its token. Elsewhere they end at no minimum.
        """
        words: Any = {a: OPTIONS[a][x] for a, x in self._asdict().items()}
        if self[1:] == ("squared", "newton", "token", "none"):
            # every pair has had its part in H: all of them are looked at
            words |= {"optimiser": "closed form", "schedule": "whole history"}
        return Cell(**words)


DELTA_RULE = Choices()


def every() -> Iterator[Choices]:
    """All products of choices."""
    for words in itertools.product(*OPTIONS.values()):
        yield Choices(*words)


def phi(x: np.ndarray, function_class: str) -> np.ndarray:
    """The features of keys or queries [..., d_k]: as many, or twice as many."""
    if function_class == "matrix":
        return x
    return np.concatenate([relu(x), relu(-x)], axis=-1)


def run(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    choices: Choices = DELTA_RULE,
    *,
    keep: Any = 1.0,
    beta: Any = 1.0,
) -> np.ndarray:
    """Answers [..., T, d_v] to q [..., T, d_k], each read after its token has written.

    Axes in front are memories side by side, which may have rates `beta` and shares
    `keep` in (0, 1] of their own.
    """
    x, asked = phi(k, choices.function_class), phi(q, choices.function_class)
    batch = np.broadcast_shapes(x.shape[:-2], np.shape(beta), np.shape(keep))
    d, T, d_v = x.shape[-1], x.shape[-2], v.shape[-1]
    beta = np.broadcast_to(beta, batch)[..., None, None]
    a = np.broadcast_to(_kept(keep, d, choices.control), (*batch, d))[..., None]
    nothing = np.zeros((*batch, d, d_v))
    M = Memory(nothing, nothing, nothing, np.zeros((*batch, d, d)))
    o = np.empty((*batch, T, d_v))
    for t in range(T):
        M = step(M, x[..., : t + 1, :], v[..., : t + 1, :], choices, a=a, beta=beta)
        o[..., t, :] = (asked[..., t, None, :] @ M.S)[..., 0, :]
    return o


class Memory(NamedTuple):
    """The state S, what it was when its mini-batch began, momentum and keys' moment."""

    S: np.ndarray
    begun: np.ndarray
    P: np.ndarray
    H: np.ndarray


def step(
    M: Memory, x: np.ndarray, v: np.ndarray, choices: Choices, *, a: Any, beta: Any
) -> Memory:
    """Forget, look, take a step; x and v are the pairs so far, the last one new."""
    t = x.shape[-2] - 1
    begun = M.S if t % LOOK == 0 else M.begun
    kept = a * M.S
    seen = slice(-LOOK, None) if choices.schedule == "window" else slice(-1, None)
    X, V = x[..., seen, :], v[..., seen, :]
    z = X @ (begun if choices.schedule == "batch" else kept)
    Gamma = _transposed(X) @ slope(z, V, choices.objective)
    P, H = MOMENTUM * M.P + Gamma, M.H
    E = P if choices.optimiser == "momentum" else Gamma
    if choices.optimiser == "newton":
        new = x[..., -1:, :]
        H = a * H * _transposed(a) + _transposed(new) @ new
        E = np.linalg.solve(H + RIDGE * np.eye(H.shape[-1]), Gamma)
    return Memory(kept - beta * E, begun, P, H)


def slope(z: np.ndarray, v: np.ndarray, objective: str) -> np.ndarray:
    """The slope of the objective at answers z [..., d_v] to values v."""
    if objective == "dot":
        return -v
    e = z - v
    if objective == "capped":
        length = np.linalg.norm(e, axis=-1, keepdims=True)
        e = e * np.minimum(1, CAP / np.maximum(length, CAP))
    return e


def _kept(keep: Any, d: int, control: str) -> Any:
    """The share that each of d features keeps: [..., d] or one for all."""
    keep = np.asarray(keep, dtype=float)[..., None]
    if control == "none":
        return np.ones_like(keep)
    return keep if control == "rate" else keep ** np.linspace(0, 2, d)


def _transposed(x: np.ndarray) -> np.ndarray:
    return x.swapaxes(-1, -2)
