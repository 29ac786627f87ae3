"""Gating is weight decay: which loss a gate descends, and from where the slope is."""

from typing import Any

import numpy as np

from ctlearn.identities.delta_rule import token
from ctlearn.identities.engine import STATEMENT, Sides, identity
from ctlearn.identities.slopes import slope
from ctlearn.mixers import comba, gated_delta_rule, gated_linear_attention
from ctlearn.printed import AsPrinted, Numbers
from ctlearn.scalars import exp, log
from ctlearn.supplies import Supply

CHAPTER = "05_forgetting"


def _printed(supply: Supply, d_k: int, d_v: int) -> Numbers:
    """One token, a decay, and what each mechanism makes of any state."""
    k, v, beta, S = token(supply, d_k, d_v)
    alpha, lam = supply.rate("alpha", 1)[0], supply.rate("lambda", 1)[0]
    step = {"log_decay": log(alpha), "S": S}
    gated = gated_delta_rule.step(k, k, v, beta=beta, **step)[1]
    letters = {"k": k, "v": v, r"\beta": beta, r"\alpha": alpha, r"\lambda": lam}
    letters |= {r"\eta": beta, "S_0": S, "S": supply.real("X", d_k, d_v)}
    letters |= {"S_1": gated, "u": beta * (v - alpha * S.T @ k)}
    u = letters["u"]
    letters |= {"c": 2 * alpha * (u @ S.T @ k) + (k @ k) * (u @ u)}
    implicit = (S + np.outer(k, v)) / (1 + lam)
    return Numbers(letters | {r"S^\star": implicit})


AS_PRINTED = AsPrinted(numbers=_printed)
PRINTED = {STATEMENT: AS_PRINTED}


def _forgetting_free(*, write: int = 1, sign: int = 1) -> Sides:
    import sympy

    S, k, vt = sympy.symbols("S k v^T", commutative=False)
    eta, lam = sympy.symbols("eta lambda")
    left = (1 - eta * lam) * S + eta**write * k * vt
    return left, S - eta * (sign * lam * S - k * vt)


@identity(
    title="Forgetting is a step down half the squared length of the state",
    statement=r"S_0 - \eta (\lambda S_0 - k v^\top) ="
    r" (1 - \eta \lambda) S_0 + \eta k v^\top",
    source="ours; wang2025ttr and behrouz2025titans read gates so",
    citations=("wang2025ttr", "behrouz2025titans"),
    equations=("eq-gate-is-weight-decay",),
    printed=dict.fromkeys((STATEMENT, "eq-gate-is-weight-decay"), AS_PRINTED),
    chapter=CHAPTER,
    mutants={
        "the length is not halved": {"half": 1},
        "the write is not scaled by the step": {"write": 0},
        "the state grows": {"sign": -1},
    },
    free=_forgetting_free,
)
def forgetting_is_a_step(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    half: int = 2,
    write: int = 1,
    sign: int = 1,
) -> Sides:
    """Gated linear attention with alpha = 1 - eta lambda, against the loss's slope."""
    k, v, eta, S = token(supply, d_k, d_v)
    alpha = supply.rate("alpha", 1)[0]
    lam = (1 - alpha) / eta

    def loss(S: np.ndarray) -> Any:
        return sign * lam * (S * S).sum() / half - (S.T @ k) @ v

    written = {"log_decay": log(alpha), "S": S}
    _, after = gated_linear_attention.step(k, k, eta**write * v, **written)
    return after, S - eta * slope(loss, S)


@identity(
    title="If length costs, the best state near the last one is a faded one",
    statement=r"\lVert S - S_0 \rVert^2 + \lambda \lVert S \rVert^2 - 2 v^\top S^\top k"
    r" = (1 + \lambda) \lVert S - S^\star \rVert^2 + \lVert S_0 \rVert^2"
    r" - (1 + \lambda) \lVert S^\star \rVert^2, \qquad"
    r" S^\star = \frac{1}{1 + \lambda} (S_0 + k v^\top)",
    source="ours; the argmin that behrouz2025miras writes in general",
    citations=("behrouz2025miras",),
    printed=PRINTED,
    chapter=CHAPTER,
    mutants={
        "the write does not shrink": {"shrunk": False},
        "the decay is 1 - lambda": {"first_order": True},
        "the distance weighs half": {"distance": 2},
    },
)
def nearest_shorter(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    shrunk: bool = True,
    first_order: bool = False,
    distance: int = 1,
) -> Sides:
    """The slope of that sum is zero where gated linear attention goes."""
    k, v, _, S = token(supply, d_k, d_v)
    lam = supply.rate("lambda", 1)[0]
    alpha = 1 - lam if first_order else 1 / (1 + lam)
    share = alpha if shrunk else 1

    def loss(new: np.ndarray) -> Any:
        away = ((new - S) ** 2).sum() / distance
        return away + lam * (new * new).sum() - 2 * (new.T @ k) @ v

    _, after = gated_linear_attention.step(k, k, share * v, log_decay=log(alpha), S=S)
    return slope(loss, after), 0 * S


@identity(
    title="The gated delta rule minimises its error's slope about the faded state",
    statement=r"u = \beta (v - \alpha S_0^\top k), \qquad"
    r" \lVert S - \alpha S_0 \rVert^2 - 2 u^\top S^\top k = \lVert S - S_1 \rVert^2"
    r" - 2 \alpha u^\top S_0^\top k - (k^\top k) (u^\top u)",
    source="ours; yang2025gated's objective, from memory",
    citations=("yang2025gated",),
    equations=("eq-linearised",),
    printed=PRINTED | {"eq-linearised": AsPrinted(numbers=_printed)},
    chapter="09_gated_delta_rules",
    mutants={
        "the error of the state before it fades": {"fade": False},
        "about the state before it fades": {"about": 0},
        "the rate is left out": {"rate": 0},
        "the product counts once": {"times": 1},
    },
)
def linearised(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    fade: bool = True,
    about: int = 1,
    rate: int = 1,
    times: int = 2,
) -> Sides:
    """The slope of that sum is zero where the reference goes."""
    k, v, beta, S = token(supply, d_k, d_v)
    log_decay = supply.log_decay("alpha", 1)[0]
    alpha = exp(log_decay)
    _, after = gated_delta_rule.step(k, k, v, log_decay=log_decay, beta=beta, S=S)
    u = beta**rate * (v - (alpha if fade else 1) * S.T @ k)

    def loss(new: np.ndarray) -> Any:
        return ((new - alpha**about * S) ** 2).sum() - times * (new.T @ k) @ u

    return slope(loss, after), 0 * S


def _regularised_free(*, decay_first: bool = False) -> Sides:
    import sympy

    S, k, kt, vt = sympy.symbols("S k k^T v^T", commutative=False)
    eta, lam = sympy.symbols("eta lambda")
    kept = 1 - eta * lam
    erased = eta * k * kt * (kept if decay_first else 1)
    left = S - eta * (k * (kt * S - vt) + lam * S)
    return left, (kept - erased) * S + eta * k * vt


@identity(
    title="Weight decay on the regression loss reads first: Comba's order, not GDN's",
    statement=r"S_0 - \eta (k (S_0^\top k - v)^\top + \lambda S_0) ="
    r" ((1 - \eta \lambda) I - \eta k k^\top) S_0 + \eta k v^\top",
    source="wang2025ttr, its regularised stochastic gradient descent",
    citations=("wang2025ttr", "hu2025comba"),
    equations=("eq-decayed-step",),
    printed=PRINTED | {"eq-decayed-step": AsPrinted(numbers=_printed)},
    chapter="09_gated_delta_rules",
    mutants={
        "the gated delta rule's order": {"decay_first": True},
        "the squared length is not halved": {"half": 1},
        "the error is not halved": {"error_half": 1},
    },
    free=_regularised_free,
)
def regularised_regression(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    decay_first: bool = False,
    half: int = 2,
    error_half: int = 2,
) -> Sides:
    """Comba with p = k, alpha = 1 - eta lambda and beta = eta, against the slope."""
    k, v, eta, S = token(supply, d_k, d_v)
    log_decay = supply.log_decay("alpha", 1)[0]
    lam = (1 - exp(log_decay)) / eta
    given = {"log_decay": log_decay, "beta": eta, "S": S}

    def loss(S: np.ndarray) -> Any:
        error = S.T @ k - v
        return (error @ error) / error_half + lam * (S * S).sum() / half

    if decay_first:
        _, after = gated_delta_rule.step(k, k, v, **given)
    else:
        _, after = comba.step(k, k, v, p=k, correction=0, **given)
    return after, S - eta * slope(loss, S)
