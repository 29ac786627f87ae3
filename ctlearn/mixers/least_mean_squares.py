"""Least mean squares (LMS): an adaptive filter, the delta rule with one constant step.

    S_t = S_{t-1} + mu k_t (v_t - S_{t-1}' k_t)',   o_t = S_t' q_t

k is the filter's input and v what it should have answered; a filter's own output is the
answer S_{t-1}' k_t before the correction, here any query is answered after it. The step
mu is stable for mu k'k in (0, 2). [widrow1960, from memory]
"""

from typing import Any

import numpy as np

from ctlearn.mechanism import Cell, Limit, Mechanism, Place, Write, family_forms
from ctlearn.shapes import checked_step


@checked_step
def step(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, *, mu: Any, S: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Answer, correct, read: 3 d_k d_v multiplications."""
    error = v - S.T @ k
    S = S + mu * np.outer(k, error)
    return S.T @ q, S


def write(k: np.ndarray, v: np.ndarray, *, mu: Any) -> Write:
    """Erase and write at the same place, both with strength mu."""
    return Write(k=k, z=mu * v, e=mu * k)


recurrent, parallel, chunkwise = family_forms(step, write)


MECHANISM = Mechanism(
    module=__name__,
    title="Least mean squares (LMS)",
    citations=("widrow1960",),
    inputs={"q": "real", "k": "unit", "v": "real", "mu": "rate"},
    place=Place(
        cell=Cell("linear map", "squared error", "one step", "every token", "none"),
        function_class="linear map",
        objective="half the squared error",
        optimiser="stochastic gradient descent, constant step size",
        schedule="every token, one sample",
        control="none: what is overwritten is gone",
        state="d_k * d_v",
    ),
    limits=(
        Limit(
            target="delta_rule",
            when="that one's beta is mu at every token",
            setting=r"\beta_t = \mu",
            here=None,
            there=lambda x: {
                **{name: x[name] for name in ("q", "k", "v")},
                "beta": np.full(len(x["k"]), x["mu"], dtype=x["k"].dtype),
            },
        ),
    ),
)
