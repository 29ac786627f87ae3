"""The Omega rule with all of the past in its window: what going over it again does."""

from typing import Any

import numpy as np

from ctlearn.identities.engine import STATEMENT, Sides, identity
from ctlearn.identities.tokens import tokens
from ctlearn.inner import Linear
from ctlearn.mixers import delta_rule, linear_attention, omega_rule
from ctlearn.objectives import Fading
from ctlearn.printed import AsPrinted, Numbers, Rows
from ctlearn.supplies import Supply
from ctlearn.systems import solve
from ctlearn.windows import Pairs, Replay

EXACT = ("rationals", "floats")
CHAPTER = "13_deep_memories"


def _again(
    supply: Supply, N: int, d_k: int, d_v: int, *, window: int | None = None
) -> tuple[Any, ...]:
    """Pairs in a window, and any M before and after a token of rate zero."""
    q, k, v = tokens(supply, N + 1, d_k, d_v)
    beta, W = supply.rate("beta", N), supply.real("M", d_k, d_v)
    S = Replay(Fading.start(Linear(W)), Pairs(k[:N], v[:N], beta))
    none = 0 * beta[:1]
    _, after = omega_rule.recurrent(
        q[N:],
        k[N:],
        v[N:],
        log_decay=none,
        beta=none,
        window=N + 1 if window is None else window,
        S=S,
    )
    return k[:N], v[:N], beta, W, after.model.M.W


def _printed_again(supply: Supply, N: int, d_k: int, d_v: int) -> Numbers:
    k, v, beta, W, after = _again(supply, N, d_k, d_v)
    letters = {"K": k, "V": v, r"\beta": beta}
    ends = Rows(np.array([W, after]), first=0)
    return Numbers(letters | {"M": ends, "W": ends})


def _free_again(*, factor: int = 2) -> Sides:
    """Any keys, rates and values, and any memory; letters do not commute."""
    import sympy

    M, K, K_T, B, V = sympy.symbols("M K K^T B V", commutative=False)
    after = (1 - factor * K_T * B * K) * M + 2 * K_T * B * V
    return M - 2 * K_T * B * (K * M - V), after


@identity(
    title="A token of rate zero makes the Omega rule go over its window once more",
    statement=r"M_1 = (I - 2 K^\top \mathrm{Diag}(\beta) K) M_0"
    r" + 2 K^\top \mathrm{Diag}(\beta) V",
    source="ours; behrouz2025atlas, in secondary reading",
    citations=("behrouz2025atlas",),
    equations=("eq-over-again",),
    printed=dict.fromkeys(
        (STATEMENT, "eq-over-again"), AsPrinted(numbers=_printed_again)
    ),
    chapter=CHAPTER,
    free=_free_again,
    mutants={
        "the loss is halved": {"factor": 1},
        "the oldest pair has left the window": {"window": 2},
        "the rates are left out": {"weighed": False},
    },
)
def again(
    supply: Supply,
    N: int,
    d_k: int,
    d_v: int,
    *,
    factor: int = 2,
    window: int | None = None,
    weighed: bool = True,
) -> Sides:
    """A batch step on the pairs that are kept, from any memory."""
    k, v, beta, W, after = _again(supply, N, d_k, d_v, window=window)
    written = factor * k.T * (beta if weighed else beta**0)
    return after, W - written @ (k @ W - v)


def _answers(
    supply: Supply, *, window: int = 2, values: tuple[int, ...] = (1, 3), rate: int = 6
) -> dict[str, Any]:
    """The memory of key 1 with these values, by four rules of the same step 2 beta."""
    one = supply.real("one", 1) ** 0
    v = one * np.array(values)[:, None]
    k, beta = v**0, one[0] / rate * np.ones(len(v), dtype=int)
    S = omega_rule.recurrent(k, k, v, log_decay=0 * beta, beta=beta, window=window)[1]
    return {
        "omega": S.model.M.W[0, 0],
        "delta": delta_rule.recurrent(k, k, v, beta=2 * beta)[1][0, 0],
        "attention": 2 * beta[0] * linear_attention.recurrent(k, k, v)[1][0, 0],
        "squares": solve(k.T @ k, (k.T @ v)[0])[0],
        "v": v[:, 0],
        "beta": beta,
    }


def _printed_answers(supply: Supply) -> Numbers:
    x = _answers(supply)
    letters = {"M": x["omega"], "D": x["delta"], "A": x["attention"]}
    return Numbers(letters | {"W": x["squares"], "v": x["v"], r"\beta": x["beta"]})


@identity(
    title="With all in its window it is neither attention, nor the delta rule, nor the "
    "least squares",
    kind="counterexample",
    statement=r"v_1 = 1, \quad v_2 = 3, \quad \beta_1 = \beta_2 = \frac{1}{6}, \quad"
    r" M = \frac{13}{9} \ne \frac{12}{9} = 2 \beta_1 (v_1 + v_2) = A, \quad"
    r" M \ne \frac{11}{9} = D, \quad M \ne \frac{v_1 + v_2}{2} = W",
    source="ours",
    citations=("behrouz2025atlas",),
    worlds=EXACT,
    printed={STATEMENT: AsPrinted(numbers=_printed_answers, worlds=EXACT)},
    chapter=CHAPTER,
    mutants={
        "a window of one pair is the delta rule": {"window": 1},
        "two steps that are enough for the least squares": {"rate": 4},
        "one pair": {"values": (1,)},
    },
)
def whole_window(
    supply: Supply, *, window: int = 2, values: tuple[int, ...] = (1, 3), rate: int = 6
) -> dict[str, Sides]:
    """Key 1 twice, with the values 1 and 3, in one dimension."""
    x = _answers(supply, window=window, values=values, rate=rate)
    names = ("attention", "delta", "squares")
    return {n: (np.asarray(x["omega"]), np.asarray(x[n])) for n in names}
