"""Gated DeltaProduct: several steps of the delta rule at every token.

    S <- alpha_t S_{t-1}                                      once
    S <- S + beta_tj k_tj (v_tj - S' k_tj)'                   for j = 1, ..., n_h
    S_t = S,   o_t = S_t' q_t

Every token brings n_h keys, values and rates of its own, beta in (0, 2), and one
alpha in [0, 1] and one query. It is the gated delta rule on n_h T virtual tokens of
which the first decays and only the last is asked. The transition is a product of n_h
(generalised) reflections, so two of them can turn where one can only reflect.
[siems2025; the reflections are grazzi2025's]
"""

from typing import Any

import numpy as np

from ctlearn.mechanism import Cell, Inputs, Limit, Mechanism, Place, chunk_forms
from ctlearn.memory import initial_state
from ctlearn.mixers import gated_delta_rule
from ctlearn.scalars import exp
from ctlearn.shapes import checked_step

Array = np.ndarray


@checked_step(
    k=("T", "n_h", "d_k"), v=("T", "n_h", "d_v"), log_decay=("T",), beta=("T", "n_h")
)
def step(
    q: Array, k: Array, v: Array, *, log_decay: Any, beta: Array, S: Array
) -> tuple[Array, Array]:
    """Forget once, correct n_h times, answer: (2 n_h + 1) d_k d_v and the decay."""
    S = exp(log_decay) * S
    for j in range(len(k)):
        S = S + beta[j] * np.outer(k[j], v[j] - S.T @ k[j])
    return S.T @ q, S


def _chunk(
    q: Array, k: Array, v: Array, *, log_decay: Array, beta: Array, S: Array
) -> tuple[Array, Array]:
    """All virtual tokens at once, O((n_h C)^2 (d_k + d_v))."""
    o, S = gated_delta_rule.parallel(**virtual_tokens(q, k, v, log_decay, beta), S=S)
    return o[k.shape[1] - 1 :: k.shape[1]].copy(), S


recurrent, parallel, chunkwise = chunk_forms(step, _chunk, initial_state)


def virtual_tokens(
    q: Array, k: Array, v: Array, log_decay: Array, beta: Array
) -> Inputs:
    """The gated delta rule's inputs [n_h T, ...]: decay first, ask last."""
    if k.shape[1] < 1:
        raise ValueError("k: expected n_h of at least 1, got 0")
    asked, faded = np.zeros_like(k), np.zeros_like(beta)
    asked[:, -1], faded[:, 0] = q, log_decay
    pairs = {"q": asked, "k": k, "v": v}
    flat = {name: x.reshape(beta.size, x.shape[2]) for name, x in pairs.items()}
    return flat | {"log_decay": faded.ravel(), "beta": beta.ravel()}


def _one(x: Inputs, step: int | slice = 0) -> Inputs:
    """One of the steps, as the gated delta rule's inputs."""
    return x | {name: x[name][:, step] for name in ("k", "v", "beta")}


def _strength_together(x: Inputs) -> Array:
    """Strength of one step that does what n_h steps with one pair do."""
    square = (x["k"][:, 0] ** 2).sum(axis=1)
    return (1 - np.prod(1 - x["beta"] * square[:, None], axis=1)) / square


MECHANISM = Mechanism(
    module=__name__,
    title="Gated DeltaProduct",
    citations=("siems2025", "grazzi2025"),
    inputs={
        "q": "real",
        "k": "unit [T, 2, d_k]",
        "v": "real [T, 2, d_v]",
        "log_decay": "log_decay [T]",
        "beta": "double [T, 2]",
    },
    chapter="11_test_time_regression",
    place=Place(
        cell=Cell(
            "linear map", "squared error", "several steps", "every token", "one rate"
        ),
        function_class="linear map",
        objective="half the squared error on each of n_h pairs",
        optimiser="stochastic gradient descent, n_h steps of sizes beta",
        schedule="every token, n_h samples one after another, after forgetting",
        control="decay once a token, one rate for the head, from the data",
        state="d_k * d_v",
    ),
    symbolic_tokens=2,
    limits=(
        Limit(
            target="gated_delta_rule",
            when="n_h = 1",
            setting=r"n_h = 1",
            here=lambda x: _one(x, slice(1)),
            there=_one,
        ),
        Limit(
            target="gated_delta_rule",
            name="of a repeated pair",
            when="all steps of a token see one pair, and that one's beta is "
            "(1 - product of (1 - beta_j k'k)) / k'k",
            setting=r"k_{tj} = k_t, \; v_{tj} = v_t, \; \beta_t ="
            r" (1 - \prod_j (1 - \beta_{tj} k_t^\top k_t)) / k_t^\top k_t",
            here=lambda x: x | {n: x[n][:, :1].repeat(2, axis=1) for n in ("k", "v")},
            there=lambda x: _one(x) | {"beta": _strength_together(x)},
        ),
        Limit(
            target="delta_rule",
            when="n_h = 1 and alpha = 1",
            setting=r"n_h = 1, \; \alpha_t = 1",
            here=lambda x: _one(x, slice(1)) | {"log_decay": 0 * x["log_decay"]},
            there=lambda x: {n: _one(x)[n] for n in ("q", "k", "v", "beta")},
        ),
    ),
)
