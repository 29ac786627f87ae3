"""Gated delta rule 2 (GDN-2): erase by key channel, write by value channel.

    F_t = Diag(alpha_t) S_{t-1},   alpha_t in [0, 1]^{d_k}
    S_t = F_t + k_t (w_t * v_t - F_t' (b_t * k_t))',   o_t = S_t' q_t
    b_t in [0, 1]^{d_k} erases,   w_t in [0, 1]^{d_v} writes

One beta no longer does both. With negative eigenvalues b, and b alone, goes up to 2.
The transition (I - k (b * k)') Diag(alpha) is not symmetric: for unit keys its
eigenvalues stay in [0, 1] but its norm may reach 2 / sqrt(3), and where nothing decays
two tokens in turn may multiply a state by 5/4, for ever.
[hatamizadeh2026; the norm and the growth are ours]
"""

import numpy as np

from ctlearn.mechanism import Cell, Inputs, Limit, Mechanism, Place, Write, family_forms
from ctlearn.scalars import exp
from ctlearn.shapes import checked_step


@checked_step(log_decay=("T", "d_k"))
def step(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    *,
    log_decay: np.ndarray,
    b: np.ndarray,
    w: np.ndarray,
    S: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Forget, erase what is read through b, write what w lets through: 4 d_k d_v."""
    S = exp(log_decay)[:, None] * S
    S = S + np.outer(k, w * v - S.T @ (b * k))
    return S.T @ q, S


def write(
    k: np.ndarray,
    v: np.ndarray,
    *,
    log_decay: np.ndarray,
    b: np.ndarray,
    w: np.ndarray,
) -> Write:
    """Erase along b * k, write w * v, both at k."""
    return Write(k=k, z=w * v, e=b * k, log_decay=log_decay)


recurrent, parallel, chunkwise = family_forms(step, write)


def _one_rate(x: Inputs) -> Inputs:
    """Erase and write at one rate, that of the first key channel."""
    beta = x["b"][:, :1]
    return x | {"b": 0 * x["b"] + beta, "w": 0 * x["w"] + beta}


def _flat(x: Inputs, *names: str) -> Inputs:
    """The inputs with those named the same in all channels."""
    return x | {name: 0 * x[name] + x[name][:, :1] for name in names}


def _kimi(x: Inputs) -> Inputs:
    names = ("q", "k", "v", "log_decay")
    return {name: x[name] for name in names} | {"beta": x["b"][:, 0]}


MECHANISM = Mechanism(
    module=__name__,
    title="Gated delta rule 2 (GDN-2)",
    citations=("hatamizadeh2026",),
    inputs={
        "q": "real",
        "k": "unit",
        "v": "real",
        "log_decay": "log_decay",
        "b": "rate",
        "w": "rate",
    },
    chapter="09_gated_delta_rules",
    place=Place(
        cell=Cell(
            "linear map", "squared error", "one step", "every token", "rate by channel"
        ),
        function_class="linear map",
        objective="squared error between gated value and gated answer",
        optimiser="stochastic gradient descent along k",
        schedule="every token, one sample, after forgetting",
        control="decay and erasure, one rate each for each key channel",
        state="d_k * d_v",
    ),
    limits=(
        Limit(
            target="kimi_delta_attention",
            when="b and w hold the same number in every channel",
            setting=r"b_{t,c} = w_{t,c} = \beta_t",
            here=_one_rate,
            there=_kimi,
        ),
        Limit(
            target="kimi_delta_attention",
            name="of scaled values",
            when="b and w each hold one number, and that one is given b and (w / b) v",
            setting=r"b_{t,c} = b_t, \; w_{t,c} = w_t, \; \beta_t = b_t, \;"
            r" v_t^{\text{there}} = (w_t / b_t) v_t",
            here=lambda x: _flat(x, "b", "w"),
            there=lambda x: _kimi(x | {"v": x["w"] / x["b"][:, :1] * x["v"]}),
        ),
        Limit(
            target="gated_delta_rule",
            when="b, w and alpha each hold one number, and b = w",
            setting=r"b_{t,c} = w_{t,c} = \beta_t, \; \alpha_{t,c} = \alpha_t",
            here=lambda x: _flat(_one_rate(x), "log_decay"),
            there=lambda x: _kimi(x | {"log_decay": x["log_decay"][:, 0]}),
        ),
        Limit(
            target="gated_linear_attention",
            when="b = 0 and w = 1",
            setting=r"b_t = 0, \; w_t = 1",
            here=lambda x: x | {"b": 0 * x["b"], "w": x["w"] ** 0},
            there=lambda x: {n: x[n] for n in ("q", "k", "v", "log_decay")},
        ),
    ),
)
