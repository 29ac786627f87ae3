"""In-context regression: the context holds pairs of one linear map, the query asks it.

    y_i = w'x_i,  i = 1, ..., N;   w standard normal in R^d, x_c uniform on (-h_c, h_c)

A task is a w and its N pairs. One step of gradient descent from zero on the mean of
half the squared errors answers x with u'x, where u = (eta/N) sum_i y_i x_i: linear
attention with values (eta/N) y_i. [vonoswald2023, proposition 1] With F in the place of
(eta/N) I the step is preconditioned: u = F sum_i y_i x_i.

All errors are over every query there is, and none is drawn: the coordinates are
independent, so that E (w'x - u'x)^2 = sum_c E[x_c^2] (w_c - u_c)^2.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np


class Tasks(NamedTuple):
    """n tasks: the maps w [n, d], their inputs x [n, N, d] and answers y [n, N].

    `square` [d] is E[x_c^2] of each coordinate.
    """

    w: np.ndarray
    x: np.ndarray
    y: np.ndarray
    square: np.ndarray

    def mirrored(self) -> "Tasks":
        """These tasks, and behind them the same with every input turned round.

        Both are as likely. A layer and its mirror image are then equally good.
        """
        w, x, y, square = self
        turned = (
            np.concatenate([w, w]),
            np.concatenate([x, -x]),
            np.concatenate([y, -y]),
        )
        return Tasks(*turned, square)


def draw(
    seed: int, n: int, N: int, d: int, half_width: float | Sequence[float] = 1.0
) -> Tasks:
    """Draw n tasks of N pairs in d dimensions; inputs are in (-half_width, half_width).

    `half_width` is one number or one for each coordinate. [vonoswald2023] prints 1, and
    its code has 1/2.
    """
    rng = np.random.default_rng(seed)
    widths = np.broadcast_to(half_width, d).astype(float)
    w = rng.standard_normal((n, d))
    x = rng.uniform(-widths, widths, (n, N, d))
    square, _ = uniform_moments(widths)
    return Tasks(w, x, np.einsum("nid,nd->ni", x, w), square)


def one_step(tasks: Tasks, eta: Any) -> np.ndarray:
    """The map u [n, d] after one gradient step from zero, of size eta.

    Sizes [d], one for each coordinate, are a diagonal preconditioner.
    """
    return eta / tasks.x.shape[1] * np.einsum("nid,ni->nd", tasks.x, tasks.y)


def errors(u: np.ndarray, tasks: Tasks) -> np.ndarray:
    """Squared error of maps u [..., n, d] on each task, over all queries: [..., n]."""
    return (tasks.square * (tasks.w - u) ** 2).sum(axis=-1)


def best_step(d: int, N: int, square: Any, fourth: Any) -> tuple[Any, Any]:
    """The best step size and the error it leaves; exact if the moments are.

    `square` and `fourth` are E[x^2] and E[x^4] of an input's coordinates, which are
    independent and symmetric around 0. With A the mean of x_i x_i', the error is
    E[x^2] E tr (I - eta A)^2, quadratic in eta, where

        E tr A = d E[x^2],   E tr A^2 = (d/N) (E[x^4] + (N + d - 2) E[x^2]^2)
    """
    eta = N * square / (fourth + (N + d - 2) * square**2)
    return eta, d * square * (1 - square * eta)


def best_steps(N: int, square: Any, fourth: Any) -> tuple[Any, Any]:
    """The best step sizes [d], one for each coordinate, and the error they leave.

    `square` and `fourth` [d] are E[x_c^2] and E[x_c^4] of coordinates that are
    independent and symmetric around 0. No other matrix does better:

        N / eta_c = E[x_c^4] / E[x_c^2] + sum_r E[x_r^2] + (N - 2) E[x_c^2]
    """
    eta = N / (fourth / square + square.sum() + (N - 2) * square)
    return eta, (square * (1 - square * eta)).sum()


def uniform_moments(half_width: Any) -> tuple[Any, Any]:
    """E[x^2] and E[x^4] of a uniform number in (-half_width, half_width)."""
    return half_width**2 / 3, half_width**4 / 5
