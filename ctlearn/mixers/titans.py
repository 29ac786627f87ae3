"""Titans' memory (neural long-term memory): gradient descent with momentum and decay.

    P_t = mu_t P_{t-1} - beta_t grad ||M(k_t) - v_t||^2     the surprise
    M_t = alpha_t M_{t-1} + P_t,   o_t = M_t(q_t)

mu, beta in (0, 1) and alpha in [0, 1] come from the data; the paper writes eta, theta
and 1 - alpha for mu, beta and alpha. Its loss is not halved, so a linear M has the
gradient 2 k (M'k - v)'. M is a `Linear` or a two-layer `Perceptron`, which then comes
in with S; the paper adds a residual, a norm and further layers.

The gradient is taken at M_{t-1} if `inner_batch` is 1, and at the start of each
mini-batch otherwise, as in the paper's training; then it is a sum of known weights:

    M_i = p_i M_0 + f_i P_0 - 2 sum_{j<=i} G_ij grad_j,   G_ij = beta_j sum_r a_ir m_rj

where grad_j is that of the halved loss, a_ir the product of the alphas after r up to i,
m_rj that of the mus after j up to r, p_i all alphas up to i, f_i the sum of a_ir m_r0.

This memory reads before it forgets: even alpha = mu = 0 leaves a trace of the answer.
A token of beta = alpha = mu = 0, the last of its mini-batch, begins a new document for
a linear M; a perceptron of zeros would never learn. [behrouz2025titans]
"""

from typing import Any

import numpy as np

from ctlearn import inner
from ctlearn.inner import Linear, Momentum, Perceptron, drawn, each
from ctlearn.mechanism import Cell, Inputs, Limit, Mechanism, Place, empty_token_first
from ctlearn.memory import decay_between
from ctlearn.scalars import exp, minus_infinity
from ctlearn.shapes import checked_step


@checked_step(log_decay=("T",))
def step(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    *,
    log_decay: Any,
    log_mu: Any,
    beta: Any,
    S: Momentum,
    inner_batch: int = 1,
) -> tuple[np.ndarray, Momentum]:
    """Be surprised, learn, answer: 7 d_k d_v multiplications if M is linear."""
    gradient = S.at.gradient(k, 2 * (S.at.read(k) - v))
    P = each(lambda p, d: exp(log_mu) * p - beta * d, S.P, gradient)
    M = each(lambda m, p: exp(log_decay) * m + p, S.M, P)
    return M.read(q), S.advance(M, P, 1, inner_batch)


def block(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    *,
    log_decay: np.ndarray,
    log_mu: np.ndarray,
    beta: np.ndarray,
    S: Momentum,
    inner_batch: int = 1,
) -> tuple[np.ndarray, Momentum]:
    """Some tokens of one mini-batch at once: p, f and G instead of each M_i and P_i."""
    a, m = decay_between(log_decay, k)[..., 0], decay_between(log_mu, k)[..., 0]
    spread = a[1:, 1:] @ m[1:]  # what momentum j has moved M by
    p, f, G = a[1:, 0], spread[:, 0], spread[:, 1:] * beta
    g = 2 * (S.at.read(k) - v)
    o = S.at.read_after(q, k, g, G, [(p, S.M), (f, S.P)])
    M = inner.after(S.at, k, g, G[-1], [(p[-1], S.M), (f[-1], S.P)])
    P = inner.after(S.at, k, g, m[-1, 1:] * beta, [(m[-1, 0], S.P)])
    return o, S.advance(M, P, len(k), inner_batch)


recurrent, chunkwise = inner.inner_forms(
    step, block, lambda k, v, S: inner.begun(Momentum, k, v, S, (Linear, Perceptron))
)


def _without_momentum(x: Inputs) -> Inputs:
    none = np.full_like(x["log_mu"], minus_infinity(x["log_mu"]))
    return x | {"log_mu": none, "inner_batch": 1}


def as_gated_delta_rule(x: Inputs) -> Inputs:
    """What makes the gated delta rule, which forgets first, of one step as above."""
    alpha = exp(x["log_decay"])
    same = {name: x[name] for name in ("q", "k", "log_decay")}
    return same | {"beta": 2 * x["beta"] / alpha, "v": alpha[:, None] * x["v"]}


PLACE = Place(
    cell=Cell("linear map", "squared error", "momentum", "mini-batch", "one rate"),
    function_class="linear map, or a perceptron",
    objective="squared error",
    optimiser="gradient descent with momentum, step size beta",
    schedule="every token, at the mini-batch's start",
    control="weight decay, one rate for the head, from the data",
    state="3 * d_k * d_v + 1",
)
MECHANISM = Mechanism(
    module=__name__,
    title="Titans' memory (neural long-term memory)",
    citations=("behrouz2025titans",),
    inputs={"q": "real", "k": "unit", "v": "real", "beta": "small"}
    | dict.fromkeys(("log_decay", "log_mu"), "log_decay [T]"),
    constants={"inner_batch": 3},
    of_matrix=lambda S: Momentum.start(Linear(S)),
    place=PLACE,
    chapter="13_deep_memories",
    opening=empty_token_first,
    limits=(
        Limit(
            target="delta_rule",
            when="M is linear without momentum or decay, and it has 2 beta",
            setting=r"\mu_t = 0, \; \alpha_t = b = 1, \; \beta_t^\prime = 2 \beta_t",
            here=lambda x: _without_momentum(x) | {"log_decay": 0 * x["log_decay"]},
            there=lambda x: {n: x[n] for n in "qkv"} | {"beta": 2 * x["beta"]},
        ),
        Limit(
            target="gated_delta_rule",
            when="M is linear without momentum, and it has 2 beta / alpha and alpha v",
            setting=r"\mu_t = 0, \; b = 1, \; \beta_t^\prime = 2 \beta_t / \alpha_t, "
            r"\; v_t^\prime = \alpha_t v_t",
            here=_without_momentum,
            there=as_gated_delta_rule,
        ),
        Limit(
            target="comba",
            when="M is linear without momentum, and it has 2 beta and p = k",
            setting=r"\mu_t = 0, \; b = 1, \; \beta_t^\prime = 2 \beta_t, \; p_t = k_t",
            here=_without_momentum,
            there=lambda x: {
                **{n: x[n] for n in ("q", "k", "v", "log_decay")},
                **{"p": x["k"], "correction": 0, "beta": 2 * x["beta"]},
            },
        ),
    ),
    variants={
        "token by token": {"constants": {"inner_batch": 1}, "limits": ()},
        "a perceptron": {
            "start": lambda s, d, n: Momentum.start(drawn(Perceptron, s, d, 7, n)),
            "limits": (),
            "place": PLACE.of("network", "7 * (d_k + d_v + 1) + d_v"),
            "exempt": inner.TOO_MANY_SYMBOLS,
        },
    },
)
