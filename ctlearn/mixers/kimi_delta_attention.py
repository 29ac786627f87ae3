"""Kimi delta attention (KDA): the gated delta rule with a rate for each key channel.

    F_t = Diag(alpha_t) S_{t-1},   alpha_t in [0, 1]^{d_k}
    S_t = F_t + beta_t k_t (v_t - F_t' k_t)',   o_t = S_t' q_t

Forgetting comes first: S_t = (I - beta kk') Diag(alpha) S_{t-1} + beta kv'. The two
factors do not commute, so the other order is another mechanism. beta is in (0, 1).
[kimi2025; its listing 8b drops beta and writes v in the place of the error]
"""

from typing import Any

import numpy as np

from ctlearn.mechanism import Cell, Limit, Mechanism, Place, family_forms
from ctlearn.mixers import gated_delta_rule
from ctlearn.scalars import exp
from ctlearn.shapes import checked_step


@checked_step(log_decay=("T", "d_k"))
def step(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    *,
    log_decay: np.ndarray,
    beta: Any,
    S: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Forget channel by channel, compare, write the error: 4 d_k d_v."""
    S = exp(log_decay)[:, None] * S
    S = S + beta * np.outer(k, v - S.T @ k)
    return S.T @ q, S


# by how many rates the state fades is all the same to the write
write = gated_delta_rule.write
recurrent, parallel, chunkwise = family_forms(step, write)


MECHANISM = Mechanism(
    module=__name__,
    title="Kimi delta attention (KDA)",
    citations=("kimi2025",),
    inputs={
        "q": "real",
        "k": "unit",
        "v": "real",
        "log_decay": "log_decay",
        "beta": "rate",
    },
    chapter="09_gated_delta_rules",
    place=Place(
        cell=Cell(
            "linear map", "squared error", "one step", "every token", "rate by channel"
        ),
        function_class="linear map",
        objective="half the squared error, linearised at the decayed state",
        optimiser="stochastic gradient descent, step size beta",
        schedule="every token, one sample, after forgetting",
        control="decay, one rate for each key channel, from the data",
        state="d_k * d_v",
    ),
    limits=(
        Limit(
            target="gated_delta_rule",
            when="alpha is the same in every channel",
            setting=r"\alpha_{t,c} = \alpha_t",
            here=lambda x: (
                x | {"log_decay": 0 * x["log_decay"] + x["log_decay"][:, :1]}
            ),
            there=lambda x: x | {"log_decay": x["log_decay"][:, 0]},
        ),
        Limit(
            target="delta_rule",
            when="alpha = 1",
            setting=r"\alpha_t = 1",
            here=lambda x: x | {"log_decay": 0 * x["log_decay"]},
            there=lambda x: {name: x[name] for name in ("q", "k", "v", "beta")},
        ),
        Limit(
            target="rwkv7",
            when="that one is given the removal key alpha k, the rates beta / alpha "
            "and the key beta k",
            setting=r"\hat\kappa_t = \alpha_t \odot k_t, \; a_t = \beta_t / \alpha_t, "
            r"\; k_t^{\text{there}} = \beta_t k_t",
            here=None,
            there=lambda x: {
                "q": x["q"],
                "k": x["beta"][:, None] * x["k"],
                "v": x["v"],
                "log_decay": x["log_decay"],
                "kappa": exp(x["log_decay"]) * x["k"],
                "a": x["beta"][:, None] / exp(x["log_decay"]),
            },
        ),
    ),
)
