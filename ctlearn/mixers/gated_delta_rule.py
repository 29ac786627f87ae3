"""Gated delta rule (GDN): let everything fade, then write what the state gets wrong.

    F_t = alpha_t S_{t-1},   alpha_t in [0, 1]
    S_t = F_t + beta_t k_t (v_t - F_t' k_t)',   o_t = S_t' q_t

The error is taken after forgetting, so that S_t = alpha (I - beta kk') S_{t-1} +
beta kv'. Taking it before, on S_{t-1} itself, is another map (`comba`), though
alpha beta and v / alpha in the place of beta and v make up for it. alpha = 0 clears
the memory in one step, for which the delta rule alone needs d_k writes. beta is in
(0, 1), or (0, 2) for negative eigenvalues.
[yang2025gated; its output of a chunk prints the plain mask where the decay mask
is needed]
"""

from typing import Any

import numpy as np

from ctlearn.mechanism import Cell, Limit, Mechanism, Place, Write, family_forms
from ctlearn.scalars import exp
from ctlearn.shapes import checked_step


@checked_step(log_decay=("T",))
def step(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    *,
    log_decay: Any,
    beta: Any,
    S: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Forget, compare, write the error, answer: 4 d_k d_v multiplications."""
    S = exp(log_decay) * S
    S = S + beta * np.outer(k, v - S.T @ k)
    return S.T @ q, S


def write(
    k: np.ndarray, v: np.ndarray, *, log_decay: np.ndarray, beta: np.ndarray
) -> Write:
    """The delta rule's write, on what is left after forgetting."""
    return Write(k=k, z=beta[:, None] * v, e=beta[:, None] * k, log_decay=log_decay)


recurrent, parallel, chunkwise = family_forms(step, write)


MECHANISM = Mechanism(
    module=__name__,
    title="Gated delta rule (GDN)",
    citations=("yang2025gated",),
    inputs={
        "q": "real",
        "k": "unit",
        "v": "real",
        "log_decay": "log_decay [T]",
        "beta": "rate",
    },
    chapter="09_gated_delta_rules",
    place=Place(
        cell=Cell("linear map", "squared error", "one step", "every token", "one rate"),
        function_class="linear map",
        objective="half the squared error, linearised at the decayed state",
        optimiser="stochastic gradient descent, step size beta",
        schedule="every token, one sample, after forgetting",
        control="decay, one rate for the head, from the data",
        state="d_k * d_v",
    ),
    limits=(
        Limit(
            target="delta_rule",
            when="alpha = 1",
            setting=r"\alpha_t = 1",
            here=lambda x: x | {"log_decay": 0 * x["log_decay"]},
            there=lambda x: {name: x[name] for name in ("q", "k", "v", "beta")},
        ),
        Limit(
            target="comba",
            when="that one reads at p = k, corrects nothing, and is given alpha beta "
            "and v / alpha",
            setting=r"p_t = k_t, \; \delta = 0, \; \beta_t^{\text{there}} = "
            r"\alpha_t \beta_t, \; v_t^{\text{there}} = v_t / \alpha_t",
            here=None,
            there=lambda x: (
                x
                | {
                    "v": x["v"] / exp(x["log_decay"])[:, None],
                    "p": x["k"],
                    "beta": exp(x["log_decay"]) * x["beta"],
                    "correction": 0,
                }
            ),
        ),
    ),
)
