"""Moneta: gradient descent on a power of the error, under a norm of the weights.

    A_t = alpha_t A_{t-1} - beta_t grad sum_i |f(k_t; W_{t-1}) - v_t|_i^r
    W_t = sign(A_t) |A_t|^(s-1) / ||A_t||_s^(s-2),   o_t = f(q_t; W_t)

alpha in [0, 1] and beta come from the data; (r, s), the source's (p, q), is (3, 4). The
loss is not halved: r = 2 has the slope 2 e. A gathers the steps, and the weights W are
where <A, W> less half their squared L_s' norm is largest, 1/s + 1/s' = 1.

The source prints W = A / ||A||_s^(s-2), without the power of each entry. That is the
slope of no function, so no retention has that link, unless s = 2. For s = 4 twice A
would have half the weights, and A = 0 none. The definition here is what the print is
derived for; the derivation wants the dual exponent, at least 2, in the place of s. If 4
is to be the exponent of the weights' own norm, s is 4/3. `ctlearn.objectives` has
`printed_link`, and `smooth_power_slope`, with which the source trains.

f is linear, or a two-layer `Perceptron`, each array of weights with a norm of its own,
which then comes in with S; the source adds a residual and a layer norm, and has alpha
and beta for each channel. As in its training, gradients are taken at the start of each
mini-batch of `inner_batch` tokens (16 or 64), and only its end applies the link: inside
it W itself goes on, W <- alpha W - beta grad. What begins a new document is a token in
front of it with alpha = beta = 0, the last of its mini-batch.
[behrouz2025miras, eqs. 24-25, reported]
"""

from functools import partial
from typing import Any

import numpy as np

from ctlearn import inner
from ctlearn.inner import Linear, Perceptron
from ctlearn.mechanism import Cell, Inputs, Limit, Mechanism, Place, empty_token_first
from ctlearn.objectives import Mirror, dual_link, power_slope
from ctlearn.scalars import exp, minus_infinity
from ctlearn.shapes import checked_step


@checked_step(log_decay=("T",))
def step(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    *,
    log_decay: Any,
    beta: Any,
    powers: tuple[Any, Any] = (3, 4),
    S: Mirror,
    inner_batch: int = 1,
) -> tuple[np.ndarray, Mirror]:
    """Err, gather the step, take the image, answer: 5 d_k d_v if f is linear."""
    g = power_slope(S.f.at.read(k) - v, powers[0])
    taken = S.f.at.gradient(k, beta * g)
    link = partial(dual_link, s=powers[1])
    S = S.after(exp(log_decay), taken, 1, inner_batch, link)
    return S.f.M.read(q), S


def block(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    *,
    log_decay: np.ndarray,
    beta: np.ndarray,
    powers: tuple[Any, Any] = (3, 4),
    S: Mirror,
    inner_batch: int = 1,
) -> tuple[np.ndarray, Mirror]:
    """Some tokens of one mini-batch at once."""
    g = power_slope(S.f.at.read(k) - v, powers[0])
    link = partial(dual_link, s=powers[1])
    return S.learn(q, k, g, log_decay, beta, inner_batch=inner_batch, link=link)


def begin(k: np.ndarray, v: np.ndarray, S: Mirror | None, powers: Any) -> Mirror:
    """A copy of S, or a linear memory of zeros, which are their own image."""
    r, s = powers
    if not (r >= 1 and s > 1):
        raise ValueError(f"powers: expected r at least 1 and s above 1, got {powers}")
    return Mirror.begin(k, v, S, (Linear, Perceptron), np.copy)


recurrent, chunkwise = inner.inner_forms(step, block, begin)


def _squares(x: Inputs) -> Inputs:
    return x | {"powers": (2, 2)}


PLACE = Place(
    cell=Cell("linear map", "another loss", "one step", "mini-batch", "size"),
    function_class="linear map, or a perceptron",
    objective="a power of the error",
    optimiser="gradient descent, step size beta",
    schedule="every token, at the mini-batch's start",
    control="a norm of the weights, and decay of what was gathered",
    state="3 * d_k * d_v + 1",
)
ROOTS = dict.fromkeys(inner.NOT_RATIONAL, "roots of sums are taken, one in another")
MECHANISM = Mechanism(
    module=__name__,
    title="Moneta",
    citations=("behrouz2025miras",),
    inputs={"q": "real", "k": "unit", "v": "real"}
    | {"log_decay": "log_decay [T]", "beta": "small"},
    constants={"inner_batch": 3},
    of_matrix=lambda S: Mirror.start(Linear(S), lambda A: A),
    place=PLACE,
    chapter="13_deep_memories",
    opening=empty_token_first,
    limits=(
        Limit(
            target="delta_rule",
            when="both powers are 2, nothing fades, and it is given 2 beta",
            setting=r"r = s = 2, \; \alpha_t = b = 1, \; \beta_t^\prime = 2 \beta_t",
            here=lambda x: (
                _squares(x) | {"log_decay": 0 * x["log_decay"], "inner_batch": 1}
            ),
            there=lambda x: {n: x[n] for n in "qkv"} | {"beta": 2 * x["beta"]},
        ),
        Limit(
            target="titans",
            when="both powers are 2, and that has no momentum",
            setting=r"r = s = 2, \; \mu_t^\prime = 0",
            here=_squares,
            there=lambda x: (
                {n: x[n] for n in x if n != "powers"}
                | {"log_mu": 0 * x["beta"] + minus_infinity(x["beta"])}
            ),
        ),
    ),
    exempt={name: ROOTS[name] for name in inner.TOO_MANY_SYMBOLS},
    variants={
        "a square": {
            "constants": {"powers": (2, 2), "inner_batch": 3},
            "exempt": {},
        },
        "token by token": {"constants": {"inner_batch": 1}, "exempt": ROOTS},
        "a perceptron": {
            "start": lambda supply, d_k, d_v: Mirror.start(
                inner.drawn(Perceptron, supply, d_k, 7, d_v), partial(dual_link, s=4)
            ),
            "place": PLACE.of("network", "7 * (d_k + d_v + 1) + d_v"),
            "exempt": ROOTS,
        },
    },
)
