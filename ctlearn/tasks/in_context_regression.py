"""In-context regression: the context holds pairs of one linear map, the query asks it.

    y_i = w'x_i,  i = 1, ..., N;   w standard normal in R^d, x uniform on (-h, h)^d

A task is a w and its N pairs. One step of gradient descent from zero on the mean of
half the squared errors answers x with u'x, where u = (eta/N) sum_i y_i x_i: linear
attention with values (eta/N) y_i. [vonoswald2023, proposition 1]

The layer that is trained here is that paper's single head without a softmax, whose
tokens are e_i = (x_i, y_i) and whose query token is (x, 0). Of its matrices only two
products reach the answer: M [d + 1, d], of keys and queries, and p [d + 1], of values
and output,

    answer(x) = sum_i (p'e_i) (e_i'M x) = u'x,   u = M'G p,   G = sum_i e_i e_i'

All errors are over every query there is: E (w'x - u'x)^2 = E[x^2] ||w - u||^2, as the
coordinates are independent. No query is ever drawn, in training or in judging: the
slopes have less noise, and fewer steps suffice.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Tasks(NamedTuple):
    """n tasks: the maps w [n, d], their inputs x [n, N, d] and answers y [n, N].

    `square` is E[x^2] of a coordinate, a third of the half-width's square.
    """

    w: np.ndarray
    x: np.ndarray
    y: np.ndarray
    square: float

    def sums(self) -> np.ndarray:
        """G = sum_i e_i e_i' of the tokens e_i = (x_i, y_i): [n, d + 1, d + 1]."""
        e = np.concatenate([self.x, self.y[..., None]], axis=2)
        return e.swapaxes(1, 2) @ e


class Layer(NamedTuple):
    """Linear self-attention, of which p [d + 1] and M [d + 1, d] reach the answer."""

    p: np.ndarray
    M: np.ndarray

    def learned(self, tasks: Tasks) -> np.ndarray:
        """The map u [n, d] with which the layer answers each task."""
        return (tasks.sums() @ self.p) @ self.M

    def step_matrix(self) -> np.ndarray:
        """What stands for eta/N in one step: [d, d], a multiple of I for plain steps.

        The pairs' own contribution y_i x_i passes through the last entry of p and the
        first d rows of M.
        """
        return self.p[-1] * self.M[:-1]


def draw(seed: int, n: int, N: int, d: int, half_width: float = 1.0) -> Tasks:
    """Draw n tasks of N pairs in d dimensions; inputs are in (-half_width, half_width).

    [vonoswald2023] prints half_width 1 and its code has 1/2.
    """
    return _draw(np.random.default_rng(seed), n, N, d, half_width)


def one_step(tasks: Tasks, eta: float) -> np.ndarray:
    """The map u [n, d] after one gradient step of size eta from zero."""
    return eta / tasks.x.shape[1] * np.einsum("nid,ni->nd", tasks.x, tasks.y)


def errors(u: np.ndarray, tasks: Tasks) -> np.ndarray:
    """Squared error of u [n, d] on each task, over all queries: [n]."""
    return tasks.square * ((tasks.w - u) ** 2).sum(axis=1)


def best_step(d: int, N: int, square: Any, fourth: Any) -> tuple[Any, Any]:
    """The best step size and the error it leaves; exact if the moments are.

    `square` and `fourth` are E[x^2] and E[x^4] of an input's coordinates, which are
    independent and symmetric around 0. With A the mean of x_i x_i', the error is
    E[x^2] E tr (I - eta A)^2, quadratic in eta, where

        E tr A = d E[x^2],   E tr A^2 = (d/N) (E[x^4] + (N + d - 2) E[x^2]^2)
    """
    eta = N * square / (fourth + (N + d - 2) * square**2)
    return eta, d * square * (1 - square * eta)


def uniform_moments(half_width: Any) -> tuple[Any, Any]:
    """E[x^2] and E[x^4] of a uniform number in (-half_width, half_width)."""
    return half_width**2 / 3, half_width**4 / 5


def constructed(d: int, N: int, eta: float) -> Layer:
    """The layer that is one gradient step. [vonoswald2023, proposition 1]"""
    return Layer(eta / N * np.eye(d + 1)[-1], np.eye(d + 1)[:, :d])


def loss(layer: Layer, tasks: Tasks) -> tuple[float, Layer]:
    """The mean error over the tasks, and its slopes at the weights."""
    G = tasks.sums()
    asked = G @ layer.p
    off = 2 * tasks.square / len(G) * (asked @ layer.M - tasks.w)
    slopes = Layer(np.einsum("nij,nj->i", G, off @ layer.M.T), asked.T @ off)
    return float(errors(asked @ layer.M, tasks).mean()), slopes


def train(
    seed: int,
    N: int,
    d: int,
    *,
    half_width: float = 1.0,
    steps: int = 1500,
    batch: int = 512,
    rate: float = 0.01,
    report: Callable[[int, float], None] | None = None,
) -> Layer:
    """A layer trained from small random weights, all of them free.

    Adam on `batch` new tasks a step, its rate falling from `rate` to 0 as a cosine.
    `report(step, loss)` is called at every step.
    """
    rng = np.random.default_rng(seed)
    weights = [0.05 * rng.standard_normal(shape) for shape in ((d + 1,), (d + 1, d))]
    means = [np.zeros_like(w) for w in weights]
    squares = [np.zeros_like(w) for w in weights]
    for step in range(steps):
        tasks = _draw(rng, batch, N, d, half_width)
        value, slopes = loss(Layer(*weights), tasks)
        now = rate * (1 + np.cos(np.pi * step / steps)) / 2
        for w, g, mean, square in zip(weights, slopes, means, squares, strict=True):
            mean += 0.1 * (g - mean)
            square += 0.001 * (g * g - square)
            unbiased = square / (1 - 0.999 ** (step + 1))
            w -= now * mean / (1 - 0.9 ** (step + 1)) / (np.sqrt(unbiased) + 1e-8)
        if report is not None:
            report(step, value)
    return Layer(*weights)


def _draw(rng: np.random.Generator, n: int, N: int, d: int, half_width: float) -> Tasks:
    w = rng.standard_normal((n, d))
    x = rng.uniform(-half_width, half_width, (n, N, d))
    square, _ = uniform_moments(half_width)
    return Tasks(w, x, np.einsum("nid,nd->ni", x, w), square)
