"""Two views of one training: what the learner answers, and what attention is handed.

A gated unit f(x) = W_1'phi(x), phi(x) = silu(W_0'x) * (W_2'x), takes a gradient step at
every token, in all three matrices. Momentum, if any, gathers the steps:

    u <- -eta (slope of the loss at f(k))
    P <- mu P + (what u changes in W_0, W_1 and W_2),   f <- f + P,   o = f(q)

Linear attention is handed phi(k) from before the step as a key, u as a value, and
phi(q) from after the step as a query. [liu2026, from its abstract]
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ctlearn import inner
from ctlearn.inner import GatedUnit, each, silu

Array = np.ndarray
Slope = Callable[[Array, Array], Array]
# The slope of a loss at an answer z, for a value v.
SLOPES: dict[str, Slope] = {
    "dot product": lambda z, v: -v,
    "half the squared error": lambda z, v: z - v,
    "log cosh of the error": lambda z, v: np.tanh(z - v),
}


class Views(NamedTuple):
    """A training, and the pairs and queries that stand for it.

    `learners` are the unit before the first token and after each. `stored` [T, d_h]
    are the features of each key before its token's step and `asked` those of each query
    after it, `written` [T, d_v] what each step adds along them, and `answers` [T, d_v]
    what the learner says.
    """

    learners: tuple[GatedUnit, ...]
    stored: Array
    asked: Array
    written: Array
    answers: Array


def features(f: GatedUnit, x: Array) -> Array:
    """What goes into the last matrix at the rows of x: [n, d_h]."""
    return silu(x @ f.W_0) * (x @ f.W_2)


def train(
    f: GatedUnit, q: Array, k: Array, v: Array, *, eta: Array, slope: Slope, mu: Array
) -> Views:
    """Train a unit on T tokens with step sizes eta [T] and momentum mu [T]."""
    learners, P = [f], inner.zeros_like(f)
    written = np.empty_like(v)
    for t in range(len(k)):
        f = learners[-1]
        written[t] = -eta[t] * slope(f.read(k[t]), v[t])
        step = f.gradient(k[t], written[t])
        P = each(lambda p, d, kept=mu[t]: kept * p + d, P, step)
        learners.append(each(np.add, f, P))
    before, after = learners[:-1], learners[1:]
    return Views(
        tuple(learners),
        np.array([features(*pair) for pair in zip(before, k, strict=True)]),
        np.array([features(*pair) for pair in zip(after, q, strict=True)]),
        written,
        np.array([f.read(x) for f, x in zip(after, q, strict=True)]),
    )


def batch_steps(
    f: Any, k: Array, v: Array, *, eta: Any, slope: Slope, steps: int
) -> Any:
    """Train a learner on one mini-batch, by so many steps of size eta."""
    for _ in range(steps):
        f = each(np.subtract, f, f.gradient(k, eta * slope(f.read(k), v)))
    return f
