"""Delta rule (DeltaNet): write what the state gets wrong, not the value.

    S_t = S_{t-1} + beta_t k_t (v_t - S_{t-1}' k_t)',   o_t = S_t' q_t

One step of gradient descent on ||S'k_t - v_t||^2 / 2 with step size beta_t. What was
there before meets I - beta kk', whose eigenvalues are 1 across the key and 1 - beta k'k
along it. For unit keys and beta in [0, 2] nothing is stretched. At beta = 1 the memory
then returns v_t at k_t; from there to 2 an eigenvalue is negative and the old answer is
turned round, without which one layer cannot follow a parity. [grazzi2025]

The rule was first run on DPFP features of keys and queries, each divided by its sum:
`sum_to_one(dpfp(k))` in `ctlearn.features`. Then k'k is at most 1, no beta up to 1
overshoots, and beta = 1 returns v_t only if the key has a single feature. The papers
print S with the axes exchanged.
[schlag2021, eqs. 24-25; yang2024deltanet, section 2.2; the rule is widrow1960's]
"""

from typing import Any

import numpy as np

from ctlearn.features import orthonormal
from ctlearn.mechanism import Cell, Limit, Mechanism, Place, Write, family_forms
from ctlearn.shapes import checked_step


@checked_step
def step(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, *, beta: Any, S: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Read, compare, write the error: 3 d_k d_v multiplications."""
    error = v - S.T @ k
    S = S + beta * np.outer(k, error)
    return S.T @ q, S


def write(k: np.ndarray, v: np.ndarray, *, beta: np.ndarray) -> Write:
    """Erase and write at the same place, both with strength beta."""
    return Write(k=k, z=beta[:, None] * v, e=beta[:, None] * k)


recurrent, parallel, chunkwise = family_forms(step, write)


FREE = {
    "test_plans_agree_on_symbols": "free symbols have no range: one test is for all"
}
INPUTS = {"q": "real", "k": "unit", "v": "real", "beta": "rate"}
MECHANISM = Mechanism(
    module=__name__,
    title="Delta rule (DeltaNet)",
    citations=("schlag2021", "yang2024deltanet", "widrow1960", "grazzi2025"),
    inputs=INPUTS,
    place=Place(
        cell=Cell("linear map", "squared error", "one step", "every token", "none"),
        function_class="linear map",
        objective="half the squared error",
        optimiser="stochastic gradient descent, step size beta",
        schedule="every token, one sample",
        control="none: what is overwritten is gone",
        state="d_k * d_v",
    ),
    limits=(
        Limit(
            target="linear_attention",
            whole=True,
            when="the keys are orthonormal and beta = 1",
            setting=r"k_i^\top k_j = 0 \; (i \ne j), \; k_i^\top k_i = \beta_i = 1",
            here=lambda x: x | {"k": orthonormal(x["k"]), "beta": x["beta"] ** 0},
            there=lambda x: {name: x[name] for name in ("q", "k", "v")},
        ),
    ),
    variants={
        "negative eigenvalues": {
            "inputs": INPUTS | {"beta": "double"},
            "exempt": FREE,
        },
        "features that sum to one": {
            "inputs": INPUTS | {"q": "shares", "k": "shares"},
            "exempt": FREE,
        },
    },
)
