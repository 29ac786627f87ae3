"""Memora: gradient descent among weights that are a distribution (KL retention).

    W_t = c softmax(alpha_t log W_{t-1} - beta_t grad l_t(W_{t-1})),   o_t = f(q_t; W_t)
    l_t(W) = ||f(k_t; W) - v_t||^2 / 2

The weights of each array are positive and their sum is c. Of all such W, W_t makes

    <grad l_t, W> + (1/eta) sum W log(W / W_{t-1}) + (1/a) sum W log W

least: stay near the last weights in relative entropy, and near equal ones. In these
letters beta = 1 / (1/eta + 1/a) > 0 and alpha = beta / eta, in [0, 1]. With alpha = 1
it is the exponentiated gradient of online learning. What fades, fades to equal weights.

A gathers alpha log W - beta grad, up to a constant that softmax ignores, and W is its
image; equal weights, A = 0, are the start. f is linear, or a two-layer `Perceptron`,
each array of weights on a simplex of its own, which then comes in with S; the source
adds a residual and a norm, and has alpha and beta for each channel.

As in the source's training, gradients are taken at the start of each mini-batch of
`inner_batch` tokens (16 or 64), and the softmax once in it: until the last of them W
itself goes on, W <- alpha W - beta grad, and may leave the simplex. The source takes
the softmax at a mini-batch's first token, of the log of what such steps have left,
whatever its sign; here A has gone on beside them, and has no sign to mind.
A token of alpha = beta = 0, the last of its mini-batch, makes all weights equal, and
so begins a new document.
[behrouz2025miras, eqs. 27 and 30-32, reported; kivinen1997]
"""

from functools import partial
from typing import Any

import numpy as np

from ctlearn import inner
from ctlearn.inner import Linear, Perceptron
from ctlearn.mechanism import Cell, Mechanism, Place, empty_token_first
from ctlearn.objectives import Mirror, simplex
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
    mass: Any,
    S: Mirror,
    inner_batch: int = 1,
) -> tuple[np.ndarray, Mirror]:
    """Err, gather the step, take the softmax, answer: 5 d_k d_v if f is linear."""
    g = S.f.at.read(k) - v
    taken = S.f.at.gradient(k, beta * g)
    link = partial(simplex, mass=mass)
    S = S.after(exp(log_decay), taken, 1, inner_batch, link)
    return S.f.M.read(q), S


def block(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    *,
    log_decay: np.ndarray,
    beta: np.ndarray,
    mass: Any,
    S: Mirror,
    inner_batch: int = 1,
) -> tuple[np.ndarray, Mirror]:
    """Some tokens of one mini-batch at once."""
    g = S.f.at.read(k) - v
    link = partial(simplex, mass=mass)
    return S.learn(q, k, g, log_decay, beta, inner_batch=inner_batch, link=link)


def begin(k: np.ndarray, v: np.ndarray, S: Mirror | None, mass: Any) -> Mirror:
    """A copy of S, or a linear memory of equal weights."""
    return Mirror.begin(k, v, S, (Linear, Perceptron), partial(simplex, mass=mass))


recurrent, chunkwise = inner.inner_forms(step, block, begin)


PLACE = Place(
    cell=Cell("linear map", "squared error", "one step", "mini-batch", "size"),
    function_class="linear map, or a perceptron",
    objective="half the squared error",
    optimiser="exponentiated gradient, step size beta",
    schedule="every token, at the mini-batch's start",
    control="relative entropy to the last weights and to equal ones",
    state="3 * d_k * d_v + 1",
)
NESTED = dict.fromkeys(inner.NOT_RATIONAL, "exponentials are taken of exponentials")
MECHANISM = Mechanism(
    module=__name__,
    title="Memora",
    citations=("behrouz2025miras", "kivinen1997"),
    inputs={"q": "real", "k": "unit", "v": "real"}
    | {"log_decay": "log_decay [T]", "beta": "rate", "mass": "positive"},
    constants={"inner_batch": 3},
    place=PLACE,
    chapter="13_deep_memories",
    opening=empty_token_first,
    variants={
        "token by token": {"constants": {"inner_batch": 1}, "exempt": NESTED},
        "a perceptron": {
            "start": lambda supply, d_k, d_v: Mirror.start(
                inner.drawn(Perceptron, supply, d_k, 7, d_v), partial(simplex, mass=5.0)
            ),
            "place": PLACE.of("network", "7 * (d_k + d_v + 1) + d_v"),
            "exempt": NESTED,
        },
    },
)
