"""RetNet: everything fades at one rate, and pairs of key channels turn by an angle.

    S_t = gamma R' S_{t-1} + k_t v_t',   o_t = S_t' q_t,   gamma in [0, 1]

R turns the first pairs of key channels, (0, 1), (2, 3), ..., by an angle each and
leaves the rest alone. A key that is l tokens old is thus met as gamma^l (R^l q)'k: this
is retention with query and key turned in front by t angles at token t, which is how the
parallel plan computes it. Each head has one constant gamma (see `retention`).
[sun2023retnet; the angles are those of rotary embeddings. The scale that its xPos adds
and its normalisation of rows, both from memory, are left out]
"""

from dataclasses import replace
from typing import Any

import numpy as np

from ctlearn.mechanism import Limit, Mechanism
from ctlearn.memory import initial_state, scan
from ctlearn.mixers import retention
from ctlearn.scalars import cos, exp, sin
from ctlearn.shapes import checked, checked_step


@checked_step
def step(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    *,
    angle: np.ndarray,
    log_gamma: Any,
    S: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Fade, turn back, write, answer: 3 d_k d_v multiplications and the turning."""
    S = exp(log_gamma) * _turn(S.T, -angle).T + np.outer(k, v)
    return S.T @ q, S


@checked
def recurrent(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    *,
    angle: np.ndarray,
    log_gamma: Any,
    S: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """One token after another, O(T d_k d_v)."""
    S = initial_state(k, v, S)
    return scan(step, q, k, v, angle=angle, log_gamma=log_gamma, S=S)


@checked
def parallel(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    *,
    angle: np.ndarray,
    log_gamma: Any,
    S: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Turn queries and keys in front, then retention at once, O(T^2 (d_k + d_v))."""
    turns = _turns(angle, len(q))
    o, S = retention.parallel(
        _turn(q, turns), _turn(k, turns), v, log_gamma=log_gamma, S=S
    )
    return o, _turn(S.T, -len(q) * angle).T


@checked
def chunkwise(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    *,
    angle: np.ndarray,
    log_gamma: Any,
    S: np.ndarray | None = None,
    chunk_size: int = 64,
) -> tuple[np.ndarray, np.ndarray]:
    """Turn queries and keys in front, then retention in chunks."""
    turns = _turns(angle, len(q))
    o, S = retention.chunkwise(
        _turn(q, turns),
        _turn(k, turns),
        v,
        log_gamma=log_gamma,
        S=S,
        chunk_size=chunk_size,
    )
    return o, _turn(S.T, -len(q) * angle).T


def rotary_angles(d_k: int, base: float = 10000.0) -> np.ndarray:
    """Angles base^(-2i / d_k) for the pairs i = 0, 1, ...: [d_k // 2] radians."""
    return base ** (-2.0 * np.arange(d_k // 2) / d_k)


def _turns(angle: np.ndarray, T: int) -> np.ndarray:
    """How far each pair has turned at tokens 1 to T: [T, d_r], in full precision."""
    return np.multiply.outer(np.arange(1, T + 1), angle)


def _turn(x: np.ndarray, turns: np.ndarray) -> np.ndarray:
    """The rows of x [n, d_k] with their first pairs turned by [d_r] or [n, d_r]."""
    last = 2 * turns.shape[-1]
    if last > x.shape[1]:
        raise ValueError(
            f"angle: d_r is {last // 2} but d_k = {x.shape[1]} has no more than "
            f"{x.shape[1] // 2} pairs of channels"
        )
    one, other = x[:, 0:last:2], x[:, 1:last:2]
    out = x.copy()
    out[:, 0:last:2] = cos(turns) * one - sin(turns) * other
    out[:, 1:last:2] = sin(turns) * one + cos(turns) * other
    return out


MECHANISM = Mechanism(
    module=__name__,
    title="RetNet",
    citations=("sun2023retnet",),
    chapter="05_forgetting",
    inputs={
        "q": "real",
        "k": "real",
        "v": "real",
        "angle": "rate [1]",
        "log_gamma": "log_decay",
    },
    place=replace(
        retention.MECHANISM.place,
        # an angle is the phase of a rate, and each pair of channels has its own
        cell=replace(retention.MECHANISM.place.cell, control="rate by channel"),
        control="decay, one constant for each head, and rotation by distance",
    ),
    limits=(
        Limit(
            target="retention",
            when="nothing turns",
            setting=r"\theta = 0",
            here=lambda x: x | {"angle": 0 * x["angle"]},
            there=lambda x: {name: x[name] for name in ("q", "k", "v", "log_gamma")},
        ),
    ),
)
