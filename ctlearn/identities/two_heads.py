"""Two softmax heads of opposite signs: a difference that is linear attention.

v(tau) is the answer of one head whose scores are tau s_i and whose values are v_i, a
mean of the values; v(0) is the plain one. Two heads whose scores and values have
opposite signs answer v(tau) - v(-tau), up to a factor.
"""

from typing import Any

import numpy as np

from ctlearn.identities.engine import Sides, identity
from ctlearn.printed import AsPrinted, Numbers
from ctlearn.scalars import exp
from ctlearn.supplies import Supply

CHAPTER = "10_a_gradient_step_in_the_tokens"


def head(tau: Any, s: np.ndarray, v: np.ndarray) -> Any:
    """The mean of values v [N] by the softmax of tau times scores s [N]."""
    weights = exp(tau * s)
    return (weights * v).sum() / weights.sum()


def _draw(supply: Supply, N: int) -> tuple[np.ndarray, np.ndarray]:
    return supply.real("s", N), supply.real("v", N)


def _printed(supply: Supply, N: int) -> Numbers:
    s, v = _draw(supply, N)
    letters = {"s": s, "v": v, "N": N, r"\bar{s}": s.sum() / N}
    return Numbers(letters | {r"\hat{v}": lambda tau: head(tau, s, v)})


@identity(
    title="Two softmax heads of opposite signs are linear attention, in the limit",
    kind="limit",
    statement=r"\lim_{\tau \to 0} \frac{\hat{v}(\tau) - \hat{v}(-\tau)}{2 \tau} ="
    r" \frac{1}{N} \sum_{i=1}^{N} (s_i - \bar{s}) v_i",
    source="ours; he2025 finds trained heads whose values sum to zero",
    citations=("he2025",),
    equations=("eq-two-heads",),
    printed={
        "eq-two-heads": AsPrinted(
            numbers=_printed,
            worlds=("rationals",),
            at={"rationals": {"N": 3}},
        )
    },
    worlds=("symbols", "rationals"),
    chapter=CHAPTER,
    mutants={
        "the difference is not halved": {"half": 1},
        "both heads have one sign": {"other": 1},
        "the mean score is not taken off": {"centred": 0},
    },
    at={"symbols": {"N": 3}},
)
def finite_difference(
    supply: Supply, N: int, *, other: int = -1, half: int = 2, centred: int = 1
) -> Sides:
    """The slope of the difference at 0, where it is 0, against the sum."""
    import sympy

    s, v = _draw(supply, N)
    tau = sympy.Symbol("tau", positive=True)
    pair = (head(tau, s, v) - head(other * tau, s, v)) / half
    return (
        np.asarray(pair.diff(tau).subs(tau, 0)),
        np.asarray(((s - centred * s.sum() / N) * v).sum() / N),
    )
