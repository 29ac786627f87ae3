"""Comba: read the old answer before it fades, at a place of its own.

    S_t = alpha_t S_{t-1} + beta_t k_t (v_t - S_{t-1}' p_t)'
    o_t = S_t' (q_t - delta p_t)

alpha_t in [0, 1] and beta_t in (0, 1) are one number each. A layer takes p_t = c k_t
with c = sigmoid of a learned number for each head, and a learned correction delta, 1
at the start, or 0.02 in small models. The error is that of the undecayed state, so with
p = k and delta = 0 this is the "read-first" gated delta rule, into which momentum-free
Titans and RWKV-7 fall too.

So alpha = 0 alone does not begin a new document: its first value would still be
compared with the old memory's answer. With p = 0 there too, and delta p taken off q
beforehand, it does.
[hu2025comba, its update and output, as the chunk code in flash-linear-attention has
them; the recurrence beside that code decays first, which is another mechanism, and the
layer makes p a unit vector, which undoes c]
"""

from typing import Any

import numpy as np

from ctlearn.mechanism import Cell, Inputs, Limit, Mechanism, Place, Write, family_forms
from ctlearn.scalars import exp
from ctlearn.shapes import checked_step


@checked_step(log_decay=("T",))
def step(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    *,
    log_decay: Any,
    p: np.ndarray,
    beta: Any,
    correction: Any,
    S: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Compare at p, forget, write at k, read at the corrected query: 4 d_k d_v."""
    error = v - S.T @ p
    S = exp(log_decay) * S + beta * np.outer(k, error)
    return S.T @ ask(q, p=p, correction=correction), S


def write(
    k: np.ndarray,
    v: np.ndarray,
    *,
    log_decay: np.ndarray,
    p: np.ndarray,
    beta: np.ndarray,
) -> Write:
    """Erase along p, before forgetting."""
    return Write(
        k=k,
        z=beta[:, None] * v,
        e=beta[:, None] * p,
        log_decay=log_decay,
        read_first=True,
    )


def ask(q: np.ndarray, *, p: np.ndarray, correction: Any) -> np.ndarray:
    """The corrected query, q - delta p."""
    return q - correction * p


recurrent, parallel, chunkwise = family_forms(step, write, ask)


def _opening(x: Inputs) -> Inputs:
    """Compare the first value with nothing, and ask what would have been asked."""
    q, p = x["q"].copy(), x["p"].copy()
    q[:1] = ask(q[:1], p=p[:1], correction=x["correction"])
    p[:1] = 0
    return x | {"q": q, "p": p}


def _read_first(x: Inputs) -> Inputs:
    return x | {"p": x["k"], "correction": 0 * x["correction"]}


MECHANISM = Mechanism(
    module=__name__,
    title="Comba",
    citations=("hu2025comba",),
    inputs={
        "q": "real",
        "k": "unit",
        "v": "real",
        "log_decay": "log_decay [T]",
        "p": "unit",
        "beta": "rate",
        "correction": "rate",
    },
    opening=_opening,
    chapter="09_gated_delta_rules",
    place=Place(
        cell=Cell("linear map", "squared error", "one step", "every token", "one rate"),
        function_class="linear map",
        objective="squared error, the answer read at p",
        optimiser="stochastic gradient descent along k, step size beta",
        schedule="every token, one sample, before forgetting",
        control="decay, one rate for the head, from the data",
        state="d_k * d_v",
    ),
    limits=(
        Limit(
            target="gated_delta_rule",
            when="p = k, nothing is corrected, and that one is given beta / alpha "
            "and alpha v",
            setting=r"p_t = k_t, \; \delta = 0, \; \beta_t^{\text{there}} = "
            r"\beta_t / \alpha_t, \; v_t^{\text{there}} = \alpha_t v_t",
            here=_read_first,
            there=lambda x: {
                "q": x["q"],
                "k": x["k"],
                "v": exp(x["log_decay"])[:, None] * x["v"],
                "log_decay": x["log_decay"],
                "beta": x["beta"] / exp(x["log_decay"]),
            },
        ),
        Limit(
            target="delta_rule",
            when="p = k, nothing is corrected and alpha = 1",
            setting=r"p_t = k_t, \; \delta = 0, \; \alpha_t = 1",
            here=lambda x: _read_first(x) | {"log_decay": 0 * x["log_decay"]},
            there=lambda x: {name: x[name] for name in ("q", "k", "v", "beta")},
        ),
    ),
)
