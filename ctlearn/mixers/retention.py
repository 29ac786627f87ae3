"""Retention: every association fades by the same factor at every token.

    S_t = gamma S_{t-1} + k_t v_t',   o_t = S_t' q_t,   gamma in [0, 1]

The core of RetNet, without its rotation of keys and queries. Each head has one
constant gamma, passed as its log. [sun2023retnet, eqs. 5-7]
"""

from typing import Any

import numpy as np

from ctlearn.mechanism import Cell, Limit, Mechanism, Place, Write, family_forms
from ctlearn.scalars import exp
from ctlearn.shapes import checked_step


@checked_step
def step(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, *, log_gamma: Any, S: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Fade, write, answer: 3 d_k d_v multiplications."""
    S = exp(log_gamma) * S + np.outer(k, v)
    return S.T @ q, S


def write(k: np.ndarray, v: np.ndarray, *, log_gamma: Any) -> Write:
    """Write the value at the key after fading the whole state."""
    return Write(k=k, z=v, log_decay=np.full(len(k), log_gamma, dtype=k.dtype))


recurrent, parallel, chunkwise = family_forms(step, write)


def head_log_gammas(n_heads: int) -> np.ndarray:
    """log(1 - 2^(-5-h)) for heads h = 0, 1, ...: RetNet's rates. [sun2023retnet, eq. 8]

    Head 0 keeps 31/32 of its state at each token; each further head forgets half as
    fast as the one before.
    """
    if n_heads < 1:
        raise ValueError(f"n_heads: expected at least 1, got {n_heads}")
    return np.log1p(-(2.0 ** (-5.0 - np.arange(n_heads))))


MECHANISM = Mechanism(
    module=__name__,
    title="Retention (core of RetNet)",
    citations=("sun2023retnet",),
    chapter="03_three_plans",
    inputs={"q": "real", "k": "real", "v": "real", "log_gamma": "log_decay"},
    place=Place(
        cell=Cell("linear map", "dot product", "one step", "every token", "one rate"),
        function_class="linear map",
        objective="dot product",
        optimiser="gradient descent, step size 1",
        schedule="every token",
        control="decay, one constant for each head",
        state="d_k * d_v",
    ),
    limits=(
        Limit(
            target="linear_attention",
            when="gamma = 1",
            setting=r"\gamma = 1",
            here=lambda x: x | {"log_gamma": 0 * x["log_gamma"]},
            there=lambda x: {name: x[name] for name in ("q", "k", "v")},
        ),
    ),
)
