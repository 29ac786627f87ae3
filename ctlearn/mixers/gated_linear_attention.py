"""Gated linear attention (GLA): let every key channel fade at a rate of its own.

    S_t = Diag(alpha_t) S_{t-1} + k_t v_t',   o_t = S_t' q_t,   alpha_t in [0, 1]^{d_k}

A scalar alpha_t for each token fades the whole state at once. alpha is passed as its
log; minus infinity forgets everything before the token. The gate acts on the rows of
S, so on key channels. [yang2024gla, eqs. 3-4]
"""

from typing import Any

import numpy as np

from ctlearn.mechanism import Cell, Limit, Mechanism, Place, Write, family_forms
from ctlearn.scalars import exp
from ctlearn.shapes import checked_step


@checked_step
def step(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, *, log_decay: Any, S: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Forget, write, answer: 3 d_k d_v multiplications."""
    S = np.reshape(exp(log_decay), (-1, 1)) * S + np.outer(k, v)
    return S.T @ q, S


def write(k: np.ndarray, v: np.ndarray, *, log_decay: np.ndarray) -> Write:
    """Write the value at the key after forgetting."""
    return Write(k=k, z=v, log_decay=log_decay)


recurrent, parallel, chunkwise = family_forms(step, write)


MECHANISM = Mechanism(
    module=__name__,
    title="Gated linear attention (GLA)",
    citations=("yang2024gla",),
    chapter="05_forgetting",
    inputs={"q": "real", "k": "real", "v": "real", "log_decay": "log_decay"},
    place=Place(
        cell=Cell(
            "linear map", "dot product", "one step", "every token", "rate by channel"
        ),
        function_class="linear map",
        objective="dot product",
        optimiser="gradient descent, step size 1",
        schedule="every token",
        control="decay, one rate for each key channel, from the data",
        state="d_k * d_v",
    ),
    limits=(
        Limit(
            target="retention",
            when="alpha is the same in every channel and at every token",
            setting=r"\alpha_{t,c} = \gamma",
            here=lambda x: x | {"log_decay": 0 * x["log_decay"] + x["log_decay"][0, 0]},
            there=lambda x: {
                **{name: x[name] for name in ("q", "k", "v")},
                "log_gamma": x["log_decay"][0, 0],
            },
        ),
        Limit(
            target="linear_attention",
            when="alpha = 1",
            setting=r"\alpha_t = 1",
            here=lambda x: x | {"log_decay": 0 * x["log_decay"]},
            there=lambda x: {name: x[name] for name in ("q", "k", "v")},
        ),
    ),
)
