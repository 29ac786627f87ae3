"""Longhorn: jump to the minimum of the loss and of the distance from where one was.

    S_t = argmin_S ||S - S_{t-1}||^2 + sum_c beta_tc (S'k_t - v_t)_c^2
        = S_{t-1} + k_t (eps_t * (v_t - S_{t-1}' k_t))',   o_t = S_t' q_t
    eps_t = beta_t / (1 + beta_t k_t'k_t)

An implicit step of the delta rule: whatever beta > 0 and however long the key, it keeps
1 - eps k'k = 1 / (1 + beta k'k) of the old answer at k, which is in (0, 1], so nothing
has to be normalised and nothing blows up. Each value channel has a beta of its own, a
sigmoid in a layer.
[liu2024longhorn; its released kernel puts the diagonal of eps kk' in the place of the
matrix, which is another mechanism; a table of kimi2025 leaves eps out of the write]
"""

from typing import Any

import numpy as np

from ctlearn.mechanism import Cell, Limit, Mechanism, Place, chunk_forms
from ctlearn.memory import initial_state
from ctlearn.shapes import checked_step


@checked_step(beta=("T", "d_v"))
def step(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, *, beta: np.ndarray, S: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Compare, write by each channel's own step, answer: 3 d_k d_v."""
    S = S + np.outer(k, step_size(beta, k) * (v - S.T @ k))
    return S.T @ q, S


def step_size(beta: np.ndarray, k: np.ndarray) -> Any:
    """The explicit step eps that the implicit step of strength beta amounts to."""
    square = (k * k).sum(axis=-1, keepdims=True)
    return beta / (1 + beta * square)


def _chunk(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, *, beta: np.ndarray, S: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Every value channel is a delta rule of its own; they share the keys' overlaps."""
    eps, overlap = step_size(beta, k), k @ k.T
    u = eps * (v - k @ S)
    for i in range(1, len(k)):
        u[i] = u[i] - eps[i] * (overlap[i, :i] @ u[:i])
    return q @ S + np.tril(q @ k.T) @ u, S + k.T @ u


recurrent, parallel, chunkwise = chunk_forms(step, _chunk, initial_state)


MECHANISM = Mechanism(
    module=__name__,
    title="Longhorn",
    citations=("liu2024longhorn",),
    inputs={"q": "real", "k": "real", "v": "real", "beta": "rate [T, d_v]"},
    chapter="11_test_time_regression",
    place=Place(
        cell=Cell("linear map", "squared error", "scaled step", "every token", "none"),
        function_class="linear map",
        objective="squared error and squared distance from the last state",
        optimiser="implicit: the exact minimum, strength beta of each value channel",
        schedule="every token, one sample",
        control="none: what is overwritten is gone",
        state="d_k * d_v",
    ),
    symbolic_tokens=3,
    limits=(
        Limit(
            target="delta_rule",
            when="beta is the same in every channel, and that one's is "
            "beta / (1 + beta k'k)",
            setting=r"\beta_{t,c} = \beta_t, \; \beta_t^{\text{there}} = "
            r"\beta_t / (1 + \beta_t k_t^\top k_t)",
            here=lambda x: x | {"beta": x["beta"][:, :1].repeat(x["v"].shape[1], 1)},
            there=lambda x: x | {"beta": step_size(x["beta"], x["k"])[:, 0]},
        ),
        Limit(
            target="normalised_least_mean_squares",
            when="beta is one constant, and that one has mu = 1 and epsilon = 1 / beta",
            setting=r"\beta_{t,c} = \beta, \; \mu = 1, \; \varepsilon = 1 / \beta",
            here=lambda x: x | {"beta": 0 * x["beta"] + x["beta"][0, 0]},
            there=lambda x: {
                **{name: x[name] for name in ("q", "k", "v")},
                "mu": x["beta"][0, 0] ** 0,
                "eps": 1 / x["beta"][0, 0],
            },
        ),
    ),
)
