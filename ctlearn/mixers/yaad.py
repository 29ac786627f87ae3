"""Yaad: gradient descent on a loss that outliers cannot push far, with weight decay.

    W_t = alpha_t W_{t-1} - beta_t grad l_t(W_{t-1}),   o_t = f(q_t; W_t)
    slope of l_t at e = f(k_t) - v_t:  e               if ||e|| <= delta_t
                                       delta_t sign(e) otherwise

alpha in [0, 1], beta and the threshold delta >= 0 come from the data. A small error
counts by half its square, a large one by the sum of its sizes. The switch is the
source's, by the whole error's length; there the slope may jump from delta to
delta sqrt(d_v), so that it is of no loss the slope. A threshold for each channel,
[T, d_v], gives Huber's own loss, which has no jump: min(max(e, -delta), delta).

f is linear, or a two-layer `Perceptron`, which then comes in with S; the source adds a
residual and a norm, and has alpha and beta for each channel. As in its training,
gradients are taken at the start of each mini-batch of `inner_batch` tokens (16 or 64).
The memory reads before it forgets: what begins a new document is a token in front of it
with alpha = beta = 0, the last of its mini-batch.
[behrouz2025miras, eq. 26, reported; huber1964]
"""

from typing import Any

import numpy as np

from ctlearn import inner
from ctlearn.inner import Linear, Perceptron
from ctlearn.mechanism import Cell, Inputs, Limit, Mechanism, Place, empty_token_first
from ctlearn.objectives import Fading, huber_by_channel, huber_switched
from ctlearn.scalars import exp, minus_infinity
from ctlearn.shapes import checked_step


@checked_step(log_decay=("T",))
def step(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    *,
    log_decay: Any,
    threshold: Any,
    beta: Any,
    S: Fading,
    inner_batch: int = 1,
) -> tuple[np.ndarray, Fading]:
    """Err, learn at most what the threshold allows, answer: 4 d_k d_v if linear."""
    g = slope(S.at.read(k) - v, threshold)
    taken = S.at.gradient(k, beta * g)
    S = S.after(exp(log_decay), taken, 1, inner_batch)
    return S.M.read(q), S


def slope(e: np.ndarray, threshold: Any) -> np.ndarray:
    """The loss's slope at one error or at some, by a threshold for each, or channel."""
    by_channel = np.ndim(threshold) == np.ndim(e)
    return (huber_by_channel if by_channel else huber_switched)(e, threshold)


def block(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    *,
    log_decay: np.ndarray,
    threshold: np.ndarray,
    beta: np.ndarray,
    S: Fading,
    inner_batch: int = 1,
) -> tuple[np.ndarray, Fading]:
    """Some tokens of one mini-batch at once."""
    g = slope(S.at.read(k) - v, threshold)
    o, kept, taken = S.ahead(q, k, g, log_decay, beta)
    return o, S.after(kept, taken, len(k), inner_batch)


recurrent, chunkwise = inner.inner_forms(
    step, block, lambda k, v, S: inner.begun(Fading, k, v, S, (Linear, Perceptron))
)


def _without_outliers(x: Inputs) -> Inputs:
    """A threshold above every error."""
    return x | {"threshold": 0 * x["threshold"] - minus_infinity(x["threshold"])}


def _as_delta_rule(x: Inputs) -> Inputs:
    return _without_outliers(x) | {"log_decay": 0 * x["log_decay"], "inner_batch": 1}


PLACE = Place(
    cell=Cell("linear map", "another loss", "one step", "mini-batch", "one rate"),
    function_class="linear map, or a perceptron",
    objective="squared error, up to a threshold; beyond it the sum of sizes",
    optimiser="gradient descent, step size beta",
    schedule="every token, at the mini-batch's start",
    control="weight decay, one rate for the head, from the data",
    state="2 * d_k * d_v + 1",
)
INPUTS = {"q": "real", "k": "unit", "v": "real", "log_decay": "log_decay [T]"}
MECHANISM = Mechanism(
    module=__name__,
    title="Yaad",
    citations=("behrouz2025miras", "huber1964"),
    inputs=INPUTS | {"threshold": "positive [T]", "beta": "rate"},
    constants={"inner_batch": 3},
    of_matrix=lambda S: Fading.start(Linear(S)),
    place=PLACE,
    chapter="13_deep_memories",
    opening=empty_token_first,
    exempt={
        "test_plans_agree_on_symbols": "a free symbol is on no side of a threshold"
    },
    limits=(
        Limit(
            target="delta_rule",
            when="no error is an outlier, nothing fades and f is linear",
            setting=r"\delta_t = \infty, \; \alpha_t = b = 1",
            here=_as_delta_rule,
            there=lambda x: {name: x[name] for name in ("q", "k", "v", "beta")},
        ),
        Limit(
            target="titans",
            when="no error is an outlier, and it is given beta / 2 and no momentum",
            setting=r"\delta_t = \infty, \; \beta_t^\prime = \beta_t / 2,"
            r" \; \mu_t^\prime = 0",
            here=_without_outliers,
            there=lambda x: (
                {n: x[n] for n in ("q", "k", "v", "log_decay", "inner_batch")}
                | {"log_mu": 0 * x["beta"] + minus_infinity(x["beta"])}
                | {"beta": x["beta"] / 2}
            ),
        ),
    ),
    variants={
        "a threshold for each channel, token by token": {
            "inputs": INPUTS | {"threshold": "positive", "beta": "rate"},
            "constants": {"inner_batch": 1},
            "limits": (),
        },
        "token by token": {"constants": {"inner_batch": 1}},
        "a perceptron": {
            "start": lambda supply, d_k, d_v: Fading.start(
                inner.drawn(Perceptron, supply, d_k, 7, d_v)
            ),
            "inputs": INPUTS | {"threshold": "positive [T]", "beta": "small"},
            "limits": (),
            "place": PLACE.of("network", "7 * (d_k + d_v + 1) + d_v"),
        },
    },
)
