"""What a layer of linear self-attention can learn about rules: a preconditioned step.

A task is a rule W, its keys k_j and values W'k_j. The token of a pair is the key above
the value, that of a question q has 0 for the value, and the layer's answer is minus the
last entry of the question's token. Every matrix is free.
"""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from ctlearn.identities.engine import Sides, identity
from ctlearn.mixers.constructed_attention import Layer
from ctlearn.printed import AsPrinted, Numbers
from ctlearn.supplies import Supply
from ctlearn.systems import solve

CHAPTER = "10_a_gradient_step_in_the_tokens"
EXACT = ("rationals", "floats")


def _weights(supply: Supply, d_k: int) -> dict[str, Any]:
    """What of a layer's matrices reaches an answer."""
    return {
        "a": supply.real("a", d_k),
        "b": supply.real("b", d_k),
        "B": supply.real("B", d_k, d_k),
        "c": supply.real("c", 1)[0],
    }


def _map(x: dict[str, Any], k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The u of the answers u'q, pair by pair."""
    values = x["c"] * v - k @ x["a"]
    keys = k @ x["B"] + np.multiply.outer(v, x["b"])
    return values @ keys


def _any_layer(supply: Supply, x: dict[str, Any]) -> Layer:
    """A layer with these weights, and any numbers where none reaches an answer."""
    d = len(x["a"]) + 1
    W_Q, W_V = supply.real("Q", d, d), supply.real("V", d, d)
    W_Q[:-1, :-1], W_Q[-1, :-1] = x["B"], x["b"]
    W_V[-1] = np.append(x["a"], -x["c"])
    one = np.eye(d, dtype=int)
    return Layer(W_K=one, W_Q=W_Q, W_V=W_V, P=one)


def _answer(supply: Supply, x: dict[str, Any], q: np.ndarray, e: np.ndarray) -> Any:
    """Minus the last entry of the question's token."""
    asking = np.append(q, 0 * q[0])
    return -_any_layer(supply, x).run(asking[None], e)[0, -1]


def _printed_any(supply: Supply, N: int, d_k: int) -> Numbers:
    x, k = _weights(supply, d_k), supply.real("k", N, d_k)
    v, q = supply.real("v", N), supply.real("q", d_k)
    said = _answer(supply, x, q, np.concatenate([k, v[:, None]], axis=1))
    letters = {"k": k, "v": v, "q": q, "u": _map(x, k, v), r"\hat{v}": said, "N": N}
    return Numbers(x | letters)


@identity(
    title="Four of a layer's blocks reach an answer",
    statement=r"u = \sum_{i=1}^{N} (c v_i - a^\top k_i) (B^\top k_i + b v_i), \quad"
    r" \hat{v} = u^\top q",
    source="ours; elementary",
    citations=("vonoswald2023",),
    equations=("eq-any-layer",),
    printed={"eq-any-layer": AsPrinted(numbers=_printed_any)},
    chapter=CHAPTER,
    mutants={
        "keys are no part of the values": {"without": "a"},
        "values are no part of the keys": {"without": "b"},
        "the answer is not turned round": {"sign": -1},
    },
)
def any_layer(
    supply: Supply, N: int, d_k: int, *, without: str = "", sign: int = 1
) -> Sides:
    """A layer whose other entries are any numbers, against the map."""
    x, k = _weights(supply, d_k), supply.real("k", N, d_k)
    v, q = supply.real("v", N), supply.real("q", d_k)
    said = _answer(supply, x, q, np.concatenate([k, v[:, None]], axis=1))
    kept = {name: 0 * part if name == without else part for name, part in x.items()}
    return np.asarray(said), np.asarray(sign * (_map(kept, k, v) @ q))


def _parts(
    x: dict[str, Any], k: np.ndarray, W: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The matrix F, and the parts of u that are odd and even in the rule."""
    H = k.T @ k
    F = x["c"] * x["B"].T - np.multiply.outer(x["b"], x["a"])
    return F, F @ H @ W, x["c"] * (W @ H @ W) * x["b"] - x["B"].T @ H @ x["a"]


def _printed_parts(supply: Supply, N: int, d_k: int) -> Numbers:
    x, k, W = _weights(supply, d_k), supply.real("k", N, d_k), supply.real("W", d_k)
    F, _, even = _parts(x, k, W)
    letters = {"F": F, "H": k.T @ k, "W": W, "g": even, "u": _map(x, k, k @ W)}
    return Numbers(x | letters)


def _printed_error(supply: Supply, N: int, d_k: int) -> Numbers:
    """A rule and its negative, and what a layer makes of the pairs of each."""
    x, k, W = _weights(supply, d_k), supply.real("k", N, d_k), supply.real("W", d_k)
    F, _, even = _parts(x, k, W)
    letters = {"F": F, "H": k.T @ k, "g": even, "q": supply.real("q", d_k)}
    draws = [{"W": rule, "u": _map(x, k, k @ rule)} for rule in (W, -W)]
    return Numbers(letters, draws=draws)


@identity(
    title="If a rule is as likely as its negative, all but a preconditioned step costs",
    statement=r"F = c B^\top - b a^\top, \quad"
    r" g = c (W^\top H W) b - B^\top H a, \quad u = F H W + g",
    source="ours; mahankali2024 and ahn2023 prove optimality for normal inputs",
    citations=("mahankali2024", "ahn2023"),
    equations=("eq-odd-and-even", "eq-two-parts"),
    printed={
        "eq-odd-and-even": AsPrinted(numbers=_printed_parts),
        "eq-two-parts": AsPrinted(
            numbers=_printed_error, at={"symbols": {"N": 1, "d_k": 2}}
        ),
    },
    chapter=CHAPTER,
    mutants={
        "a rule without its negative": {"rules": 1},
        "the rule is compared with both parts": {"split": False},
        "the matrix has b and a the other way round": {"turned": True},
    },
    at={"symbols": {"N": 1, "d_k": 2}},
)
def odd_and_even(
    supply: Supply,
    N: int,
    d_k: int,
    *,
    rules: int = 2,
    split: bool = True,
    turned: bool = False,
) -> dict[str, Sides]:
    """The map in two parts; and their errors, over a rule and its negative."""
    x, k, W = _weights(supply, d_k), supply.real("k", N, d_k), supply.real("W", d_k)
    q = supply.real("q", d_k)
    said = parts = 0 * q[0]
    for rule in (W, -W)[:rules]:
        _, odd, even = _parts(x, k, rule)
        said = said + (_map(x, k, k @ rule) @ q - rule @ q) ** 2
        off = rule if split else 0 * rule
        parts = parts + ((odd - off) @ q) ** 2 + (even @ q) ** 2
    _, odd, even = _parts(x, k, W)
    if turned:
        twist = np.multiply.outer(x["b"], x["a"])
        odd = odd + (twist - twist.T) @ k.T @ k @ W
    return {
        "map": (_map(x, k, k @ W), odd + even),
        "error": (np.asarray(said), np.asarray(parts)),
    }


def _contexts(supply: Supply, N: int, d_k: int) -> list[np.ndarray]:
    """The H of three contexts."""
    keys = supply.real("k", 3, N, d_k)
    return [k.T @ k for k in keys]


def _mean(arrays: list[np.ndarray]) -> np.ndarray:
    return sum(arrays[1:], arrays[0]) / len(arrays)


def _best(contexts: list[np.ndarray]) -> np.ndarray:
    """The F for which F E[H H] = E[H]."""
    first, second = _mean(contexts), _mean([H @ H for H in contexts])
    return np.array([solve(second, row) for row in first])


def _printed_best(supply: Supply, N: int, d_k: int) -> Numbers:
    contexts = _contexts(supply, N, d_k)
    F, best = supply.real("F", d_k, d_k), _best(contexts)
    letters = {"F": F, r"F^\star": best, "J": F - best}
    return Numbers(letters, draws=[{"H": H} for H in contexts])


def _free_best(*, times: int = 1, kept: int = 1) -> Sides:
    """Any symmetric mean M of H H, where that of H is S M, and so M S' as well."""
    import sympy

    letters = sympy.symbols("F F^T S S^T M", commutative=False)
    F, F_T, S, S_T, M = letters
    left = F * M * F_T - F * (M * S_T) - (S * M) * F_T + 1
    right = 1 - kept * (S * M) * S_T + times * (F - S) * M * (F_T - S_T)
    return left, right


@identity(
    title="The best matrix solves one equation, and any other costs its distance",
    statement=r"\mathbb{E}[(F H - I) (F H - I)^\top] = I - F^\star \mathbb{E}[H] +"
    r" J \mathbb{E}[H^2] J^\top, \quad J = F - F^\star, \quad"
    r" F^\star \mathbb{E}[H^2] = \mathbb{E}[H]",
    source="ours; least squares",
    citations=("mahankali2024", "ahn2023"),
    equations=("eq-best-layer",),
    printed={"eq-best-layer": AsPrinted(numbers=_printed_best, worlds=EXACT)},
    free=_free_best,
    worlds=EXACT,
    chapter=CHAPTER,
    mutants={
        "the distance counts twice": {"times": 2},
        "nothing is gained by the best": {"kept": 0},
        "the distance is to nothing": {"from_best": 0},
    },
)
def best_layer(
    supply: Supply,
    N: int,
    d_k: int,
    *,
    times: int = 1,
    kept: int = 1,
    from_best: int = 1,
) -> Sides:
    """Any matrix on three contexts, against the best one on them."""
    N = N + d_k  # so that the mean of H H can be inverted
    contexts = _contexts(supply, N, d_k)
    F, best, one = supply.real("F", d_k, d_k), _best(contexts), np.eye(d_k, dtype=int)
    missed = [F @ H - one for H in contexts]
    first, second = _mean(contexts), _mean([H @ H for H in contexts])
    away = F - from_best * best
    right = one - kept * best @ first + times * away @ second @ away.T
    return _mean([E @ E.T for E in missed]), right


def _every_context(sizes: np.ndarray, N: int) -> Iterator[np.ndarray]:
    """All N keys whose coordinate c is one of plus or minus sizes [2, d_k]."""
    d_k = sizes.shape[1]
    choices = [[s * size for size in sizes[:, c] for s in (1, -1)] for c in range(d_k)]
    for entries in itertools.product(*(choices * N)):
        yield np.array(entries).reshape(N, d_k)


def _means(sizes: np.ndarray, N: int) -> tuple[np.ndarray, np.ndarray]:
    """E[H] and E[H H] over all of them, equally likely."""
    contexts = [k.T @ k for k in _every_context(sizes, N)]
    return _mean(contexts), _mean([H @ H for H in contexts])


def _moments(sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The means of the square and of the fourth power of each coordinate."""
    return (sizes**2).sum(axis=0) / 2, (sizes**4).sum(axis=0) / 2


def _printed_diagonal(supply: Supply, N: int, d_k: int) -> Numbers:
    sizes = supply.positive("x", 2, d_k)
    first, second = _means(sizes, N)
    s, m = _moments(sizes)
    best = np.array([solve(second, row) for row in first])
    letters = {r"F^\star": best, "s": s, "m": m, "N": N, "d_k": d_k}
    return Numbers(letters, {"c": range(1, d_k + 1), "r": range(1, d_k + 1)})


SMALL = {
    "symbols": {"N": 1, "d_k": 2},
    "rationals": {"N": 1, "d_k": 3},
    "floats": {"N": 3, "d_k": 2},
}


@identity(
    title="For independent coordinates the best matrix is diagonal",
    statement=r"\frac{1}{F_{c,c}^\star} ="
    r" \frac{m_c}{s_c} + \sum_{r=1}^{d_k} s_r + (N - 2) s_c",
    source="ours; mahankali2024 and ahn2023 have it for normal inputs",
    citations=("mahankali2024", "ahn2023"),
    equations=("eq-best-diagonal",),
    printed={
        "eq-best-diagonal": AsPrinted(
            numbers=_printed_diagonal,
            worlds=EXACT,
            at={"rationals": SMALL["rationals"], "floats": SMALL["rationals"]},
        )
    },
    chapter=CHAPTER,
    mutants={
        "every coordinate is normal": {"normal": True},
        "the others do not disturb": {"others": 0},
        "one pair less": {"pairs": -1},
    },
    at=SMALL,
)
def best_diagonal(
    supply: Supply,
    N: int,
    d_k: int,
    *,
    normal: bool = False,
    others: int = 1,
    pairs: int = 0,
) -> Sides:
    """E[H H] over all contexts, against the diagonal times E[H]."""
    sizes = supply.positive("x", 2, d_k)
    first, second = _means(sizes, N)
    s, m = _moments(sizes)
    m = 3 * s * s if normal else m
    inverse = m / s + s + others * (s.sum() - s) + (N + pairs - 2) * s
    return second, inverse * first


def _alike(supply: Supply, N: int, d_k: int) -> tuple[Any, ...]:
    """Coordinates that are all alike: their moments, and E[H] and E[H H]."""
    sizes = np.repeat(supply.positive("x", 2, 1), d_k, axis=1)
    s, m = (moment[0] for moment in _moments(sizes))
    return s, m, *_means(sizes, N)


def _error(eta: Any, N: int, s: Any, first: np.ndarray, second: np.ndarray) -> Any:
    """The mean squared error after a step, for questions like the keys."""
    d_k = len(first)
    missed = d_k - 2 * eta * np.trace(first) / N + eta**2 * np.trace(second) / N**2
    return s * missed


def _best_step(N: int, d_k: int, s: Any, m: Any) -> Any:
    return N * s / (m + (N + d_k - 2) * s**2)


def _printed_one_step(supply: Supply, N: int, d_k: int) -> Numbers:
    s, m, first, second = _alike(supply, N, d_k)
    letters = {
        **{"s": s, "m": m, "N": N, "d_k": d_k, r"\eta": supply.rate("eta", 1)[0]},
        r"\eta^\star": _best_step(N, d_k, s, m),
        r"\mathcal{E}": lambda eta: _error(eta, N, s, first, second),
    }
    return Numbers(letters)


@identity(
    title="The error after a step is a parabola in its size",
    statement=r"\eta^\star = \frac{N s}{m + (N + d_k - 2) s^2}, \quad"
    r" \mathcal{E}(\eta) = d_k s \left(1 - s \eta^\star +"
    r" s \eta^\star \left(1 - \frac{\eta}{\eta^\star}\right)^2\right)",
    source="ours; elementary",
    citations=("vonoswald2023",),
    equations=("eq-step-error",),
    printed={
        "eq-step-error": AsPrinted(numbers=_printed_one_step, worlds=EXACT, at=SMALL)
    },
    chapter=CHAPTER,
    mutants={
        "normal inputs": {"normal": True},
        "nothing is left at the best": {"left": 0},
        "the best is twice as long": {"times": 2},
    },
    at=SMALL,
)
def step_error(
    supply: Supply,
    N: int,
    d_k: int,
    *,
    normal: bool = False,
    left: int = 1,
    times: int = 1,
) -> Sides:
    """The error over all contexts, of a step of any size."""
    s, m, first, second = _alike(supply, N, d_k)
    eta = supply.rate("eta", 1)[0]
    best = times * _best_step(N, d_k, s, 3 * s * s if normal else m)
    share = left * (1 - s * best) + s * best * (1 - eta / best) ** 2
    return np.asarray(_error(eta, N, s, first, second)), np.asarray(d_k * s * share)


def _printed_elsewhere(supply: Supply, N: int, d_k: int) -> Numbers:
    s, m, first, second = _alike(supply, N, d_k)

    def error(eta: Any, rho: Any) -> Any:
        return _error(eta, N, rho**2 * s, rho**2 * first, rho**4 * second)

    letters = {
        **{"s": s, r"\rho": supply.rate("rho", 1)[0], r"\mathcal{E}": error},
        r"\eta^\star": _best_step(N, d_k, s, m),
    }
    return Numbers(letters)


@identity(
    title="A step size is right for one size of the inputs",
    statement=r"\frac{\mathcal{E}(\eta^\star, \rho)}{\mathcal{E}(0, \rho)} ="
    r" 1 - s \eta^\star + s \eta^\star (1 - \rho^2)^2",
    source="ours; elementary",
    citations=("vonoswald2023",),
    equations=("eq-rate-elsewhere",),
    printed={
        "eq-rate-elsewhere": AsPrinted(
            numbers=_printed_elsewhere, worlds=EXACT, at=SMALL
        )
    },
    chapter=CHAPTER,
    mutants={
        "the step grows with the inputs": {"power": 1},
        "the step shrinks with their square": {"power": -2},
        "the size counts once": {"square": 1},
    },
    at=SMALL,
)
def rate_elsewhere(
    supply: Supply, N: int, d_k: int, *, power: int = 0, square: int = 2
) -> Sides:
    """Keys and questions that are rho times as long, and the step that was best."""
    s, m, first, second = _alike(supply, N, d_k)
    rho, best = 1 + supply.rate("rho", 1)[0], _best_step(N, d_k, s, m)
    longer = rho**2 * s, rho**2 * first, rho**4 * second
    after, before = (_error(eta, N, *longer) for eta in (rho**power * best, 0))
    share = 1 - s * best + s * best * (1 - rho**square) ** 2
    return np.asarray(after), np.asarray(before * share)
