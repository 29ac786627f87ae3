"""What mini-batches cost: the error of a linear learner whose slopes are stale.

A pair's key has length one and favours no direction. All that is used of that is the
mean of k k', which is I / d_k; so keys are drawn here from the rows of an orthogonal
matrix, whose mean it is, and noise from a vector and its negative. D is how far the
start of the mini-batch is from the map that makes the values, and X is how far the
learner is after the tokens so far. Two means follow from token to token: that of the
product of X and D, and that of the square of X.
"""

import itertools
from typing import Any

import numpy as np

from ctlearn.identities.engine import Sides, identity
from ctlearn.identities.tiny_model import directions
from ctlearn.inner import Linear, Training
from ctlearn.mixers import ttt_linear
from ctlearn.printed import AsPrinted, Numbers
from ctlearn.supplies import Supply

CHAPTER = "12_ttt_layers"


def _product(A: np.ndarray, B: np.ndarray) -> Any:
    return (A * B).sum()


def _kept(beta: Any, i: Any, d: int, *, power: int = 1, pairs: int = 1) -> Any:
    """The share of the squared error that i tokens of a mini-batch leave."""
    return 1 - 2 * beta * i / d + beta**2 * i * (d + pairs * (i - power)) / d**2


def _after(
    W: np.ndarray, taken: np.ndarray, k: np.ndarray, v: np.ndarray, beta: Any
) -> np.ndarray:
    """The learner after one token more of a mini-batch that has begun at W."""
    begun = np.asarray(k[0] ** 0)
    S = Training(Linear(W), Linear(taken), begun)
    _, S = ttt_linear.step(k, k, v, beta=beta, S=S, inner_batch=9)
    return S.f.W - S.total.W


def _printed_batch(supply: Supply, C: int) -> Numbers:
    """All sequences of i keys in the plane and signs of the noise, and their ends."""
    w, u = supply.real("w", 2), supply.real("u", 2)
    s, beta = supply.rate("s", 1)[0], supply.rate("beta", 1)[0]
    # a map of one value channel, and another channel that holds noise alone
    best, W = (np.stack([x, 0 * w], axis=1) for x in (w, u))
    # of the length s |W*| / sqrt(d_k), without a root
    n = s * np.array([w[0] + w[1], w[0] - w[1]]) / 2
    draws = []
    for keys in itertools.product(directions(supply, 2), repeat=C):
        for signs in itertools.product((1, -1), repeat=C):
            k = np.array(keys)
            v = k @ best + np.multiply.outer(np.array(signs), n)
            S, rates = Training.start(Linear(W)), np.full(C, beta)
            _, S = ttt_linear.recurrent(k, k, v, beta=rates, S=S, inner_batch=C)
            draws.append({"W_i": S.f.W})
    letters = {"W_0": W, r"W^\star": best, "s": s, r"\beta": beta, "d_k": 2, "i": C}
    rho = {r"\rho_i": _kept(beta, C, 2)}
    return Numbers(letters | rho, draws=draws)


@identity(
    title="What a mini-batch leaves of a squared error, on average",
    statement=r"\rho_i = 1 - \frac{2 \beta i}{d_k}"
    r" + \frac{\beta^2 i (d_k + i - 1)}{d_k^2}, \quad"
    r" \mathbb{E}\,\lVert W_i - W^\star \rVert^2 ="
    r" \rho_i \lVert W_0 - W^\star \rVert^2"
    r" + \frac{\beta^2 i s^2}{d_k} \lVert W^\star \rVert^2",
    source="ours",
    equations=("eq-mini-batch-error",),
    printed={
        "eq-mini-batch-error": AsPrinted(
            numbers=_printed_batch,
            worlds=("rationals", "floats"),
            at={"rationals": {"C": 2}, "floats": {"C": 3}},
        )
    },
    chapter=CHAPTER,
    mutants={
        "keys of one direction": {"spread": False},
        "noise that does not change its sign": {"signs": (1, 1)},
        "every slope where the last step has led": {"stale": False},
        "tokens do not meet each other": {"pairs": 0},
        "a token meets itself twice": {"power": 0},
    },
    at={"rationals": {"d_v": 2}, "symbols": {"d_v": 1}, "floats": {"d_v": 3}},
)
def error(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    spread: bool = True,
    signs: tuple[int, int] = (1, -1),
    stale: bool = True,
    pairs: int = 1,
    power: int = 1,
) -> dict[str, Sides]:
    """One token more, from any learner so far; and that the formulas grow by it."""
    best, D, X = (supply.real(x, d_k, d_v) for x in ("W", "D", "X"))
    n, beta = supply.real("n", d_v), supply.rate("beta", 1)[0]
    rows = directions(supply, d_k)
    rows = rows if spread else np.repeat(rows[:1], d_k, axis=0)
    # X is where the learner is, and D where its slopes are taken, both from W*
    D_seen = D if stale else X
    found = [
        _after(best + D_seen, D_seen - X, k, k @ best + sign * n, beta) - best
        for k in rows
        for sign in signs
    ]
    moments = [np.array([_product(Y, D), _product(Y, Y)]) for Y in found]
    mean = sum(moments) / len(moments)
    whole = _product(D, D)

    def grown(held: Any, size: Any, noise: Any) -> np.ndarray:
        added = beta**2 * (whole + noise) / d_k
        return np.array(
            [held - beta * whole / d_k, size - 2 * beta * held / d_k + added]
        )

    i, noise = supply.positive("i", 1)[0], supply.rate("s", 1)[0]

    def formulas(i: Any) -> np.ndarray:
        kept = _kept(beta, i, d_k, power=power, pairs=pairs)
        held = (1 - beta * i / d_k) * whole
        return np.array([held, kept * whole + beta**2 * i * noise / d_k])

    held, size = formulas(i)
    return {
        "base": (formulas(0 * i), np.array([whole, whole])),
        "step": (mean, grown(_product(X, D), _product(X, X), d_k * (n @ n))),
        "formulas": (formulas(i + 1), grown(held, size, noise)),
    }


def _printed_rate(supply: Supply) -> Numbers:
    beta, i = supply.rate("beta", 1)[0], supply.positive("i", 1)[0]
    letters = {r"\beta": beta, "i": i, "d_k": 3, r"\rho_i": _kept(beta, i, 3)}
    return Numbers(letters)


@identity(
    title="The best step of i stale tokens, what it leaves, and which is too long",
    statement=r"\rho_i = \frac{d_k - 1}{d_k + i - 1} + \frac{i (d_k + i - 1)}{d_k^2}"
    r" \left(\beta - \frac{d_k}{d_k + i - 1}\right)^2, \quad"
    r" \rho_i - 1 = \frac{\beta i}{d_k}"
    r" \left(\beta \frac{d_k + i - 1}{d_k} - 2\right)",
    source="ours",
    equations=("eq-best-stale-step",),
    printed={"eq-best-stale-step": AsPrinted(numbers=_printed_rate)},
    chapter=CHAPTER,
    mutants={
        "the best step of one token": {"others": 0},
        "the step's excess counts once": {"power": 1},
        "it is too long from the best step on": {"limit": 1},
    },
)
def best_step(
    supply: Supply, d: int, *, others: int = 1, power: int = 2, limit: int = 2
) -> dict[str, Sides]:
    """Two forms of what is left, for any beta and any number of tokens."""
    beta, i = supply.rate("beta", 1), supply.positive("i", 1)
    kept, share = _kept(beta, i, d), d / (d + others * (i - 1))
    square = i * (d + i - 1) / d**2 * (beta - share) ** power
    return {
        "square": (kept, (d - 1) / (d + i - 1) + square),
        "sign": (kept - 1, beta * i / d * (beta * (d + i - 1) / d - limit)),
    }


def _floor(beta: Any, b: Any, d: int, s: Any) -> Any:
    return beta * s**2 / (2 - beta * (d + b - 1) / d)


def _printed_floor(supply: Supply) -> Numbers:
    beta, s = supply.rate("beta", 1)[0], supply.rate("s", 1)[0]
    b = supply.positive("b", 1)[0]
    letters = {r"\beta": beta, "b": b, "d_k": 3, "s": s, r"\rho_b": _kept(beta, b, 3)}
    return Numbers(letters | {r"E_\infty": _floor(beta, b, 3, s)})


@identity(
    title="What noise keeps alive: the error that a mini-batch leaves as it finds it",
    statement=r"\rho_b E_\infty + \frac{\beta^2 b s^2}{d_k} = E_\infty ="
    r" \frac{\beta s^2}{2 - \beta (d_k + b - 1) / d_k}",
    source="ours",
    equations=("eq-stale-floor",),
    printed={"eq-stale-floor": AsPrinted(numbers=_printed_floor)},
    chapter=CHAPTER,
    mutants={
        "the floor of one token a mini-batch": {"tokens": 0},
        "the step counts twice": {"steps": 2},
        "the noise goes with its root": {"power": 1},
    },
)
def floor(
    supply: Supply, d: int, *, tokens: int = 1, steps: int = 1, power: int = 2
) -> Sides:
    """The fixed point of the error from mini-batch to mini-batch."""
    beta, s = supply.rate("beta", 1), supply.rate("s", 1)
    b = 1 + supply.positive("b", 1)
    found = _floor(beta, 1 + tokens * (b - 1), d, s)
    noise = steps * beta**2 * b * s**power / d
    return _kept(beta, b, d) * found + noise, found


def _printed_shared(supply: Supply, d_k: int, d_v: int) -> Numbers:
    U, N, W = (supply.real(x, d_k, d_v) for x in ("U", "N", "W"))
    m = supply.rate("m", 1)[0]
    # so that 1 - m^2 has a root
    letters = {"U": U, "W_0": W, "m": 2 * m / (1 + m**2)}
    return Numbers(letters, draws=[{"N": N}, {"N": -N}])


@identity(
    title="The best start is the mean of the tasks, and saves what they share",
    statement=r"\mathbb{E}\,\lVert m U + \sqrt{1 - m^2} N - W_0 \rVert^2 ="
    r" \lVert W_0 - m U \rVert^2 + (1 - m^2) \, \mathbb{E}\,\lVert N \rVert^2",
    source="ours; elementary",
    equations=("eq-shared-start",),
    printed={
        "eq-shared-start": AsPrinted(
            numbers=_printed_shared,
            worlds=("rationals", "floats"),
            equivalent={
                "+ → - (line 1, column 24)": "what is not shared is as likely as its "
                "negative"
            },
        )
    },
    chapter=CHAPTER,
    mutants={
        "a task is not as likely as its mirror image": {"signs": (1, 1)},
        "the whole of what is shared": {"shares": 1},
        "tasks are not held to one size": {"power": 1},
    },
)
def shared_start(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    signs: tuple[int, int] = (1, -1),
    shares: int = 0,
    power: int = 2,
) -> Sides:
    """Any start, and what tasks do not share drawn with its negative."""
    U, N, W = (supply.real(x, d_k, d_v) for x in ("U", "N", "W"))
    x = supply.rate("m", 1)[0]
    m, rest = 2 * x / (1 + x**2), (1 - x**2) / (1 + x**2)
    tasks = [m * U + sign * rest * N for sign in signs]
    errors = [_product(A - W, A - W) for A in tasks]
    mean = (m + shares * (1 - m)) * U
    least = (1 - m**power) * _product(N, N)
    return np.asarray(sum(errors) / 2), np.asarray(_product(W - mean, W - mean) + least)
