"""Normalised least mean squares (NLMS): divide the step by the key's own square.

    S_t = S_{t-1} + mu / (eps + k_t'k_t) k_t (v_t - S_{t-1}' k_t)',   o_t = S_t' q_t

With mu = 1 and eps = 0 it is Kaczmarz's projection: the nearest state that answers v_t
at k_t, however long the key. It converges for mu in (0, 2); eps >= 0 guards short keys,
and a zero key needs it above 0. [nagumo1967, from memory]
"""

from typing import Any

import numpy as np

from ctlearn.mechanism import Cell, Limit, Mechanism, Place, Write, family_forms
from ctlearn.shapes import checked_step


@checked_step
def step(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, *, mu: Any, eps: Any, S: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Answer, correct by a share of the projection, read: 3 d_k d_v."""
    error = v - S.T @ k
    S = S + mu / (eps + k @ k) * np.outer(k, error)
    return S.T @ q, S


def write(k: np.ndarray, v: np.ndarray, *, mu: Any, eps: Any) -> Write:
    """Erase and write at the same place, both by the normalised step."""
    rate = step_size(k, mu, eps)[:, None]
    return Write(k=k, z=rate * v, e=rate * k)


def step_size(k: np.ndarray, mu: Any, eps: Any) -> np.ndarray:
    """The step at each of the keys: mu / (eps + k'k)."""
    return mu / (eps + (k * k).sum(axis=1))


recurrent, parallel, chunkwise = family_forms(step, write)


MECHANISM = Mechanism(
    module=__name__,
    title="Normalised least mean squares (NLMS)",
    citations=("nagumo1967",),
    inputs={"q": "real", "k": "real", "v": "real", "mu": "rate", "eps": "positive"},
    place=Place(
        cell=Cell("linear map", "squared error", "scaled step", "every token", "none"),
        function_class="linear map",
        objective="half the squared error",
        optimiser="stochastic gradient descent, step size mu over the key's square",
        schedule="every token, one sample",
        control="none: what is overwritten is gone",
        state="d_k * d_v",
    ),
    symbolic_tokens=3,
    limits=(
        Limit(
            target="delta_rule",
            when="that one's beta is mu / (epsilon + k'k)",
            setting=r"\beta_t = \mu / (\varepsilon + k_t^\top k_t)",
            here=None,
            there=lambda x: {
                **{name: x[name] for name in ("q", "k", "v")},
                "beta": step_size(x["k"], x["mu"], x["eps"]),
            },
        ),
    ),
)
