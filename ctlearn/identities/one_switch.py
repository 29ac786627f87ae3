"""One switch: what noise leaves of a delta rule's fit, and an old rule of a mean's."""

from typing import Any

import numpy as np

from ctlearn.identities.engine import STATEMENT, Sides, identity
from ctlearn.mixers import delta_rule, mesa_net
from ctlearn.printed import AsPrinted, Numbers
from ctlearn.scalars import exp
from ctlearn.supplies import Supply
from ctlearn.systems import solve

CHAPTER = "11_test_time_regression"
EXACT = ("rationals", "floats")


def _size(x: np.ndarray) -> Any:
    return (x * x).sum()


def _told(
    supply: Supply, d_k: int, d_v: int, *, length: int = 1, signs: tuple[int, ...]
) -> tuple[Any, ...]:
    """W, a state, a rate, a noise, and the states after each of the axes is told.

    The axes favour no direction, and every noise comes with its negative.
    """
    W, S = supply.real("W", d_k, d_v), supply.real("S", d_k, d_v)
    n, beta = supply.real("n", d_v), supply.rate("b", 1)[0]
    ends = [
        delta_rule.step(k, k, W.T @ k + sign * n, beta=beta, S=S)[1]
        for k in length * np.eye(d_k, dtype=int) * n[0] ** 0
        for sign in signs
    ]
    return W, S, beta, n, ends


def _printed_step(supply: Supply, d_k: int, d_v: int) -> Numbers:
    W, S, beta, n, ends = _told(supply, d_k, d_v, signs=(1, -1))
    letters = {"W": W, "S_0": S, r"\beta": beta, "n": n, "d_k": d_k}
    return Numbers(letters | {"S_1": ends[0]}, draws=[{"S_1": end} for end in ends])


@identity(
    title="On average a step mends a share of what is wrong, and lets the noise in",
    statement=r"\mathbb{E}\,\lVert S_1 - W \rVert^2 ="
    r" \left(1 - \frac{\beta (2 - \beta)}{d_k}\right) \lVert S_0 - W \rVert^2"
    r" + \beta^2 \lVert n \rVert^2",
    source="ours; for keys of length one that favour no direction",
    equations=("eq-noisy-step",),
    printed=dict.fromkeys(
        (STATEMENT, "eq-noisy-step"), AsPrinted(numbers=_printed_step)
    ),
    chapter=CHAPTER,
    mutants={
        "the noise enters with the rate itself": {"power": 1},
        "the step does not overshoot": {"second": 0},
        "keys of length two": {"length": 2},
        "a noise that has a mean": {"signs": (1,)},
    },
)
def noisy_step(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    power: int = 2,
    second: int = 1,
    length: int = 1,
    signs: tuple[int, ...] = (1, -1),
) -> Sides:
    """The delta rule told W'k and a noise, at each axis and with either sign."""
    W, S, beta, n, ends = _told(supply, d_k, d_v, length=length, signs=signs)
    left = sum(_size(end - W) for end in ends) / len(ends)
    share = beta * (2 - second * beta) / d_k
    return np.asarray(left), np.asarray(
        (1 - share) * _size(S - W) + beta**power * _size(n)
    )


def _printed_floor(supply: Supply, d_k: int) -> Numbers:
    s, beta = supply.real("s", 1)[0], supply.rate("b", 1)[0]
    floor = beta * s**2 / (2 - beta)
    letters = {"s": s, r"\beta": beta, "d_k": d_k, r"\varepsilon^\star": floor}
    return Numbers(letters)


@identity(
    title="Where the two balance, the delta rule's error stays",
    statement=r"\left(1 - \frac{\beta (2 - \beta)}{d_k}\right) \varepsilon^\star"
    r" + \frac{\beta^2 s^2}{d_k} = \varepsilon^\star = \frac{\beta}{2 - \beta} s^2",
    source="ours; known of adaptive filters as the excess error",
    equations=("eq-floor",),
    printed=dict.fromkeys((STATEMENT, "eq-floor"), AsPrinted(numbers=_printed_floor)),
    chapter=CHAPTER,
    mutants={
        "half of it": {"part": 2},
        "the noise itself": {"whole": True},
        "the noise enters with the rate itself": {"power": 1},
    },
)
def floor(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    part: int = 1,
    whole: bool = False,
    power: int = 2,
) -> Sides:
    """The mean over axes and signs, from a state that is off by the floor everywhere.

    The state is off by one number in each entry, whose square is the floor, and the
    noise is s in each coordinate.
    """
    s, beta = supply.positive("s", 1)[0], supply.rate("b", 1)[0]
    level = (s**2 if whole else beta * s**2 / (2 - beta)) / part
    share = beta * (2 - beta) / d_k
    W = supply.real("W", d_k, d_v)
    noise = s**2 * beta**power / d_k
    # what the reference does to the part along each axis and to the noise, squared
    k = np.eye(d_k, dtype=int)[0] * s**0
    kept = delta_rule.step(k, k, W.T @ k, beta=beta, S=W + np.outer(k, 0 * W[0] + 1))[1]
    left = 1 - (1 - (kept - W)[0, 0] ** 2) / d_k
    return np.array([left * level + noise, left]), np.array([level, 1 - share])


def _two_rules(
    supply: Supply, N: int, d_k: int, d_v: int, *, fades: bool = True
) -> tuple[Any, ...]:
    """Pairs of one rule and then of another in MesaNet's sums, and both moments now."""
    k = supply.real("k", 2 * N, d_k)
    k[:d_k] += 3 * np.eye(d_k, dtype=int)
    k[N : N + d_k] += 3 * np.eye(d_k, dtype=int)
    rules = supply.real("W", 2, d_k, d_v)
    v = np.concatenate([k[:N] @ rules[0], k[N:] @ rules[1]])
    log_decay = supply.log_decay("gamma", 2 * N)
    given = {"beta": k[:, 0] ** 0, "ridges": k[0] ** 0}
    _, end = mesa_net.recurrent(k, k, v, log_decay=log_decay, **given)
    old = np.asarray(log_decay[N:]).sum() if fades else 0 * log_decay[0]
    first = {"beta": given["beta"][:N], "ridges": given["ridges"]}
    _, before = mesa_net.recurrent(
        k[:N], k[:N], v[:N], log_decay=log_decay[:N], **first
    )
    moments = exp(np.asarray(old)) * before.H
    W = np.array([solve(end.H, column) for column in end.S.T]).T
    return rules, W, moments, end.H - exp(np.asarray(log_decay[N:].sum())) * before.H


def _printed_rules(supply: Supply, N: int, d_k: int, d_v: int) -> Numbers:
    rules, W, old, new = _two_rules(supply, N, d_k, d_v)
    return Numbers({"W": W, "W_1": rules[0], "W_2": rules[1], "H_1": old, "H_2": new})


def _free_rules(*, share: int = 1, sign: int = 1) -> Sides:
    """Both sides times H_1 + H_2, in any dimension: W is the fit of both rules."""
    import sympy

    H_1, H_2, W_1, W_2 = sympy.symbols("H_1 H_2 W_1 W_2", commutative=False)
    fit = H_1 * W_1 + H_2 * W_2
    left = fit - (H_1 + H_2) * W_2
    return left, (H_1 if share == 1 else H_2) * (W_1 - sign * W_2)


SMALL = {"rationals": {"N": 3, "d_k": 2, "d_v": 2}, "floats": {"N": 5, "d_k": 3}}


@identity(
    title="Of an old rule there is left what its keys weigh among all keys",
    statement=r"W - W_2 = (H_1 + H_2)^{-1} H_1 (W_1 - W_2)",
    source="ours; elementary",
    citations=("wang2025ttr",),
    equations=("eq-two-rules",),
    worlds=EXACT,
    printed=dict.fromkeys(
        (STATEMENT, "eq-two-rules"),
        AsPrinted(numbers=_printed_rules, worlds=EXACT, at=SMALL),
    ),
    chapter=CHAPTER,
    free=_free_rules,
    mutants={
        "the share of the new rule": {"share": 2},
        "the rules are added": {"sign": -1},
        "the old keys do not fade": {"fades": False},
    },
    at=SMALL,
)
def two_rules(
    supply: Supply,
    N: int,
    d_k: int,
    d_v: int,
    *,
    share: int = 1,
    sign: int = 1,
    fades: bool = True,
) -> Sides:
    """Without noise or ridge; the moments are those of the keys as they are weighed."""
    rules, W, old, new = _two_rules(supply, N, d_k, d_v, fades=fades)
    apart = (old if share == 1 else new) @ (rules[0] - sign * rules[1])
    return (old + new) @ (W - rules[1]), apart
