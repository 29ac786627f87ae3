"""HGRN2: what a key channel forgets is what it writes.

    S_t = Diag(alpha_t) S_{t-1} + (1 - alpha_t) v_t',   o_t = S_t' q_t

alpha_t in [0, 1]^{d_k}; there is no other key than 1 - alpha_t, so each row of S is a
running mean of the values, and a channel that keeps for long also writes little. A
layer makes alpha = l + (1 - l) sigmoid(f) with a lower bound l that grows with depth,
and q a swish.

A document's first key is its own 1 - alpha, which alpha = 0 would change. So what
begins a new document is a token in front of it, with alpha = 0 and v = 0.
[qin2024, its recurrence with outer-product state expansion]
"""

import numpy as np

from ctlearn.mechanism import (
    Cell,
    Limit,
    Mechanism,
    Place,
    Write,
    empty_token_first,
    family_forms,
)
from ctlearn.scalars import exp, expm1, log
from ctlearn.shapes import checked_step


@checked_step(log_decay=("T", "d_k"))
def step(
    q: np.ndarray, v: np.ndarray, *, log_decay: np.ndarray, S: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Move each row towards the value, by what it forgets: 3 d_k d_v."""
    S = exp(log_decay)[:, None] * S + np.outer(-expm1(log_decay), v)
    return S.T @ q, S


def write(v: np.ndarray, *, log_decay: np.ndarray) -> Write:
    """Write the value at the key 1 - alpha."""
    return Write(k=-expm1(log_decay), z=v, log_decay=log_decay)


recurrent, parallel, chunkwise = family_forms(step, write)


MECHANISM = Mechanism(
    module=__name__,
    title="HGRN2 (gated linear recurrence with state expansion)",
    citations=("qin2024",),
    chapter="05_forgetting",
    inputs={"q": "real", "v": "real", "log_decay": "log_decay"},
    opening=empty_token_first,
    # unit keys have squares that a channel can forget, and write
    told=lambda x: {"q": x["q"] ** 2, "v": x["v"], "log_decay": log(1 - x["k"] ** 2)},
    place=Place(
        cell=Cell(
            "linear map", "dot product", "one step", "every token", "rate by channel"
        ),
        function_class="linear map",
        objective="dot product",
        optimiser="gradient descent, step size 1",
        schedule="every token",
        control="decay, one rate for each key channel, tied to the key",
        state="d_k * d_v",
    ),
    limits=(
        Limit(
            target="gated_linear_attention",
            when="that one is given the keys 1 - alpha",
            setting=r"k_t = 1 - \alpha_t",
            here=None,
            there=lambda x: x | {"k": -expm1(x["log_decay"])},
        ),
    ),
)
