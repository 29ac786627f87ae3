"""The composed memory: five choices, and the update that they mean.

    F_t = Diag(a) S_{t-1}                          what is kept
    G_t = sum_j x_j slope_j'                       slopes of the pairs looked at
    S_t = F_t - beta D_t,   o_t = S_t' phi(q_t)    D_t is the optimiser's step

x = phi(k) are the features of a key. Every choice is one of the words below.

function class  matrix: phi(x) = x; features: phi(x) = [relu(x), relu(-x)]
objective       the slope at an answer z: dot: -v; squared: z - v; capped: z - v,
                shortened to length `CAP` where it is longer (Huber's loss of it)
schedule        token: the pair of the token, at F_t; batch: the same, at the state
                with which its mini-batch of `LOOK` tokens began; window: the last
                `LOOK` pairs, at F_t
optimiser       step: D = G; momentum: D = P with P <- P / 2 + G; newton:
                D = (H + `RIDGE` I)^{-1} G with H <- Diag(a) H Diag(a) + x_t x_t'
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
        "newton": "closed form",
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
        """Where the map has it. Newton's steps are the closed form, carried along."""
        words: Any = {a: OPTIONS[a][x] for a, x in self._asdict().items()}
        if self.optimiser == "newton" and self.schedule == "token":
            # every pair has had its part in H: all of them are looked at
            words["schedule"] = "whole history"
        return Cell(**words)


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
    choices: Choices = Choices(),  # noqa: B008 - a tuple of words
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
    S = np.zeros((*batch, d, d_v))
    begun, P, H = S, S, np.zeros((*batch, d, d))
    o = np.empty((*batch, T, d_v))
    for t in range(T):
        begun = S if t % LOOK == 0 else begun
        S = a * S
        first = max(0, t + 1 - LOOK) if choices.schedule == "window" else t
        X, V = x[..., first : t + 1, :], v[..., first : t + 1, :]
        answers = X @ (begun if choices.schedule == "batch" else S)
        G = X.swapaxes(-1, -2) @ slope(answers, V, choices.objective)
        if choices.optimiser == "momentum":
            P = MOMENTUM * P + G
            G = P
        elif choices.optimiser == "newton":
            x_t = x[..., t, :, None]
            H = a * H * a.swapaxes(-1, -2) + x_t * x_t.swapaxes(-1, -2)
            G = np.linalg.solve(H + RIDGE * np.eye(d), G)
        S = S - beta * G
        o[..., t, :] = (asked[..., t, None, :] @ S)[..., 0, :]
    return o


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
