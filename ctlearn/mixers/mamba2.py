"""Mamba-2: what is forgotten and what is written depend on one time step.

    S_t = exp(A Delta_t) S_{t-1} + B_t (Delta_t x_t)',   y_t = S_t' C_t

In the book's letters C, B and x are q, k and v; Delta_t > 0 is one number for the head
and A <= 0 one constant. A long step forgets much and writes strongly. A layer makes
Delta a softplus, A = -exp of a learned number, and adds D x_t to the output; B and C
are shared by the heads of a group, and neither is normalised or scaled. No Delta both
forgets everything and writes: for a row of documents, take gated linear attention.
[dao2024, the selective state space model with scalar A, discretised as in its code]
"""

from typing import Any

import numpy as np

from ctlearn.mechanism import Cell, Limit, Mechanism, Place, Write, family_forms
from ctlearn.scalars import exp
from ctlearn.shapes import checked_step


@checked_step(A=(), delta=("T",))
def step(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, *, A: Any, delta: Any, S: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Let Delta pass, write, answer: 3 d_k d_v multiplications."""
    S = exp(A * delta) * S + np.outer(k, delta * v)
    return S.T @ q, S


def write(k: np.ndarray, v: np.ndarray, *, A: Any, delta: np.ndarray) -> Write:
    """Write Delta v at the key; decay by the same Delta."""
    return Write(k=k, z=delta[:, None] * v, log_decay=A * delta)


recurrent, parallel, chunkwise = family_forms(step, write)


MECHANISM = Mechanism(
    module=__name__,
    title="Mamba-2 (state space duality)",
    citations=("dao2024",),
    chapter="05_forgetting",
    inputs={
        "q": "real",
        "k": "real",
        "v": "real",
        "A": "log_decay",
        "delta": "positive [T]",
    },
    place=Place(
        cell=Cell("linear map", "dot product", "one step", "every token", "one rate"),
        function_class="linear map",
        objective="dot product",
        optimiser="gradient descent, step size Delta",
        schedule="every token",
        control="decay, one rate for the head, tied to the write through Delta",
        state="d_k * d_v",
    ),
    limits=(
        Limit(
            target="gated_linear_attention",
            when="that one is given the log decay A Delta and the values Delta v",
            setting=r"\alpha_t = \exp(A \Delta_t), \;"
            r" v_t^{\text{there}} = \Delta_t v_t",
            here=None,
            there=lambda x: {
                "q": x["q"],
                "k": x["k"],
                "v": x["delta"][:, None] * x["v"],
                "log_decay": x["A"] * x["delta"],
            },
        ),
        Limit(
            target="linear_attention",
            when="A = 0 and Delta = 1",
            setting=r"A = 0, \; \Delta_t = 1",
            here=lambda x: x | {"A": 0 * x["A"], "delta": x["delta"] ** 0},
            there=lambda x: {name: x[name] for name in ("q", "k", "v")},
        ),
    ),
)
