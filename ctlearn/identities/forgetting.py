"""Forgetting: what a fading memory still says, and how fast it should fade.

Means over keys are taken along the axes, and means over what is drawn anew over signs.
Those have the first and second moments of the draws they stand for, no more is used of
them, and they are few enough to sum exactly.
"""

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ctlearn.identities.engine import STATEMENT, Sides, identity
from ctlearn.mixers import gated_linear_attention, matrix_lstm, retention
from ctlearn.printed import AsPrinted, Numbers, Rows
from ctlearn.scalars import exp, log
from ctlearn.supplies import Supply
from ctlearn.tasks.streams import expected_fading_error

CHAPTER = "05_forgetting"
# all ways along the axes of the plane
WAYS = np.concatenate([np.eye(2, dtype=int), -np.eye(2, dtype=int)])


def _signs(*shape: int) -> Iterator[np.ndarray]:
    """All arrays of ones and minus ones of a shape: mean 0, variance 1, independent."""
    for signs in itertools.product((1, -1), repeat=math.prod(shape)):
        yield np.reshape(np.array(signs), shape)


def _faded(k: np.ndarray, v: np.ndarray, log_gamma: np.ndarray) -> np.ndarray:
    return retention.recurrent(k, k, v, log_gamma=log_gamma)[1]


def _random_keys(supply: Supply, d_v: int) -> Numbers:
    """Three pairs in the plane: key 2 stays, the others run through the axes."""
    k, v = supply.unit("k", 2), supply.real("v", 3, d_v)
    alpha = supply.rate("a", 1)[0]
    draws = []
    for one, other in itertools.product(WAYS + 0 * k, repeat=2):
        drawn = np.stack([one, k, other])
        draws.append({"k": drawn, "S_T": _faded(drawn, v, log(np.array(alpha)))})
    letters = {"v": v, r"\alpha": alpha, "T": 3, "d_k": 2, "i": 2}
    return Numbers(letters, {"j": range(1, 4)}, draws)


@identity(
    title="What a fading memory says of a pair: the faded value, and faded crosstalk",
    statement=r"\mathbb{E}\,\lVert S_T^\top k_i - \alpha^{T-i} v_i \rVert^2"
    r" = \frac{1}{d_k} \sum_{j \ne i} \alpha^{2(T-j)} \lVert v_j \rVert^2",
    source="ours",
    equations=("eq-faded-recall",),
    printed={
        "eq-faded-recall": AsPrinted(
            numbers=_random_keys, worlds=("rationals", "floats")
        )
    },
    chapter=CHAPTER,
    mutants={
        "the value is expected at full strength": {"aged": 0},
        "the decay is not squared": {"power": 1},
        "the pair itself is crosstalk, too": {"own": True},
        "each write fades by its own gate": {"late": 1},
    },
)
def faded_recall(
    supply: Supply,
    d_v: int,
    *,
    aged: int = 1,
    power: int = 2,
    own: bool = False,
    late: int = 0,
) -> Sides:
    """Each of three keys of any length, while the other two run through the axes."""
    k, v, T = supply.real("k", 3, 2), supply.real("v", 3, d_v), 3
    alpha = supply.rate("a", 1)[0]
    errors, told = [], []
    for i in range(T):
        square = k[i] @ k[i]
        squares = []
        for axes in itertools.product(WAYS, repeat=2):
            drawn = np.insert(np.array(axes) + 0 * k[:2], i, k[i], axis=0)
            S = _faded(drawn, v, log(np.array(alpha)))
            missed = S.T @ k[i] - alpha ** (aged * (T - 1 - i)) * square * v[i]
            squares.append(missed @ missed)
        errors.append(sum(squares) * alpha**0 / len(squares))
        faded = sum(
            alpha ** (power * (T - 1 - j + late)) * (v[j] @ v[j])
            for j in range(T)
            if j != i or own
        )
        told.append(square * faded / 2)
    return np.array(errors), np.array(told)


def _mean_moments(
    S: np.ndarray, W: np.ndarray, alpha: Any, rho: Any, new: Any, s: Any
) -> np.ndarray:
    """<S, W>, |S|^2 and |W|^2 after the map has drifted and one pair was written.

    The map becomes rho W and `new` times what it takes up. The mean is over keys along
    the axes, and over signs in the places of what is taken up and of the noise.
    """
    d_k, d_v = S.shape
    moments = []
    for k in np.eye(d_k, dtype=int):
        for taken_up, told in itertools.product(_signs(d_k, d_v), _signs(d_v)):
            now = rho * W + new * taken_up
            v = now.T @ k + s * told
            _, after = retention.step(
                k + 0 * v[0], k + 0 * v[0], v, log_gamma=log(np.array(alpha)), S=S
            )
            moments.append([(after * now).sum(), (after**2).sum(), (now**2).sum()])
    return np.array(moments).sum(axis=0) * rho**0 / len(moments)


def _stationary(d_k: int, alpha: Any, rho: Any, s: Any) -> tuple:
    """Per entry of the map: <S, W> and |S|^2 that a token changes no more."""
    along = 1 / (d_k * (1 - alpha * rho))
    square = (2 * alpha * rho * along + 1 + s**2) / (d_k * (1 - alpha**2))
    return along, square


def _fading(supply: Supply) -> Numbers:
    """The error in the steady state of the two moments."""
    alpha, rho = supply.rate("a", 2)
    s, d_k = supply.positive("s", 1)[0], 3
    along, square = _stationary(d_k, alpha, rho, s)
    letters = {r"\alpha": alpha, r"\rho": rho, "s": s, "d_k": d_k}
    letters |= {"m": d_k * (1 + s**2) - 1, "y": along, r"\ell": square}
    return Numbers(letters | {r"\epsilon": 1 - (rho * along) ** 2 / square})


@identity(
    title="How well a memory that fades knows a map that drifts",
    statement=r"\epsilon = 1 - \frac{\rho^2 (1 - \alpha^2)}"
    r"{(1 - \alpha \rho) (1 + \alpha \rho + m (1 - \alpha \rho))},"
    r" \qquad m = d_k (1 + s^2) - 1",
    source="ours",
    equations=("eq-fading-error", "def-others", "eq-steady-moments"),
    printed=dict.fromkeys(
        (STATEMENT, "eq-fading-error", "def-others", "eq-steady-moments"),
        AsPrinted(numbers=_fading),
    ),
    chapter=CHAPTER,
    mutants={
        "asked of the map before it drifts": {"drifts": 0},
        "its own pair counts as another": {"own": 0},
        "noise is free": {"noisy": 0},
        "other pairs agree by chance only": {"agree": 0},
    },
    at={"symbols": {"d_k": 2}, "rationals": {"d_k": 3}, "floats": {"d_k": 3}},
)
def fading_error(
    supply: Supply,
    d_k: int,
    *,
    drifts: int = 1,
    own: int = 1,
    noisy: int = 1,
    agree: int = 1,
) -> dict[str, Sides]:
    """One token changes the moments as told; at rest, the best scale leaves the error.

    The scale c of answers c S'k leaves |W|^2 - 2 c <S, W> + c^2 |S|^2, so at best
    |W|^2 - <S, W>^2 / |S|^2, for a key that any state has yet to see.
    """
    alpha, rho, new, s = supply.rate("a", 4)
    one = alpha**0
    S, W = supply.real("S", d_k, 1), supply.real("W", d_k, 1)
    size = rho**2 * (W**2).sum() + new**2 * d_k
    both = rho * (S * W).sum()
    told = [
        alpha * both + size * one / d_k,
        alpha**2 * (S**2).sum() + (2 * agree * alpha * both + size) * one / d_k + s**2,
        size,
    ]
    along, square = _stationary(d_k * one, alpha, rho, s)
    # what a token makes of the steady state, per entry
    later = [
        alpha * rho * along + one / d_k,
        alpha**2 * square + (2 * alpha * rho * along + 1 + s**2) / d_k,
    ]
    m = d_k * (1 + noisy * s**2) - own
    expected = expected_fading_error(alpha, rho, m)
    moments = _mean_moments(S, W, alpha, rho, new, s)
    error = 1 - (rho**drifts * along) ** 2 / square
    return {
        "one token": (moments, np.array(told)),
        "at rest": (np.array(later), np.array([along, square])),
        "error": (np.array([error]), np.array([expected])),
    }


def _best(supply: Supply) -> dict:
    """A best decay, below rho, with the m it is best for; and another decay."""
    rho, share, other = supply.rate("r", 3)
    best = rho * share
    m = (1 - rho**2) * best / ((rho - best) * (1 - rho * best))
    return {"rho": rho, "best": best, "other": other, "m": m}


def _best_printed(supply: Supply) -> Numbers:
    x = _best(supply)
    letters = {r"\rho": x["rho"], "m": x["m"], r"\alpha": x["other"]}
    letters |= {r"\alpha^\star": x["best"]}
    for name, alpha in ((r"\epsilon", x["other"]), (r"\epsilon^\star", x["best"])):
        letters[name] = expected_fading_error(alpha, x["rho"], x["m"])
    return Numbers(letters)


BEST = AsPrinted(numbers=_best_printed, worlds=("rationals", "floats"))


@identity(
    title="The best decay, what it leaves, and what any other one costs",
    statement=r"\epsilon - \epsilon^\star = \frac{\rho^2 \epsilon^\star"
    r" (\alpha - \alpha^\star)^2}{(1 - \alpha^\star \rho) (1 - \alpha \rho)"
    r" (1 + \alpha \rho + m (1 - \alpha \rho))}, \qquad"
    r" \frac{(1 - \alpha^\star)^2}{\alpha^\star}"
    r" = \frac{(1 - \rho)^2}{\rho} + \frac{1 - \rho^2}{m \rho}",
    source="ours",
    equations=("eq-wrong-decay", "eq-best-decay", "eq-least-error"),
    printed=dict.fromkeys(
        (STATEMENT, "eq-wrong-decay", "eq-best-decay", "eq-least-error"), BEST
    ),
    chapter=CHAPTER,
    mutants={
        "one other pair more": {"more": 1},
        "the loss is linear": {"power": 1},
        "twice the drift is left": {"times": 2},
        "the drift's own part is left out": {"own": 0},
    },
)
def best_decay(
    supply: Supply, *, more: int = 0, power: int = 2, times: int = 1, own: int = 1
) -> dict[str, Sides]:
    """Against the error of any other decay: a square, so nothing is better."""
    x = _best(supply)
    rho, m, other, best = x["rho"], x["m"] + more, x["other"], x["best"]
    error, lowest = (expected_fading_error(a, rho, m) for a in (other, best))
    away, kept = 1 - best * rho, 1 - other * rho
    least = times * (1 - rho**2) / away
    cost = rho**2 * least * (other - best) ** power
    excess = own * (1 - rho) ** 2 / rho + (1 - rho**2) / (m * rho)
    return {
        "gap": (
            np.array([error - lowest]),
            np.array([cost / (away * kept * (2 - kept + m * kept))]),
        ),
        "least": (np.array([lowest]), np.array([least])),
        "decay": (np.array([(1 - best) ** 2 / best]), np.array([excess])),
    }


def _slow(supply: Supply) -> Numbers:
    return Numbers({"m": supply.positive("m", 1)[0]})


@identity(
    title="A slow drift asks for a rate that is the geometric mean of two",
    kind="limit",
    statement=r"\lim_{\rho \to 1} \frac{1}{1 - \rho^2} \left(\frac{(1 - \rho)^2}{\rho}"
    r" + \frac{1 - \rho^2}{m \rho}\right) = \frac{1}{m}",
    source="ours",
    equations=("eq-slow-drift",),
    printed={
        "eq-slow-drift": AsPrinted(
            numbers=_slow,
            worlds=("rationals", "symbols"),
            equivalent=dict.fromkeys(
                (
                    r"\frac{(1 - \rho)^2}{\rho} → nothing (line 1, column 46)",
                    "2 → 3 (line 1, column 63)",
                    r"\rho → nothing (line 1, column 94)",
                ),
                "what is dropped vanishes, or is one, in the limit",
            ),
        )
    },
    chapter=CHAPTER,
    mutants={
        "the drift is still fast": {"rho": 2},
        "the world's part does not vanish": {"power": 1},
        "m is not divided by": {"divided": 0},
    },
)
def slow_drift(
    supply: Supply, *, rho: int = 1, power: int = 2, divided: int = 1
) -> Sides:
    """Divided by 1 - rho^2 on paper, it is continuous at rho = 1."""
    m = supply.positive("m", 1)
    one = m**0 * rho
    world = (1 - one) ** (power - 1) / (one * (1 + one)) if power > 1 else one / 2
    return world + 1 / (m**divided * one), 1 / m


def _turned(supply: Supply, d: int) -> dict:
    """Tokens, and a turn of their keys: by an angle in one plane, then of the axes."""
    c, s = supply.unit("u", 2)
    x = {"q": supply.real("q", 2, d), "k": supply.real("k", 2, d)}
    R = np.eye(d, dtype=x["q"].dtype)
    R[:2, :2] = [[c, -s], [s, c]]
    return (
        x
        | {"R": np.roll(R, 1, axis=0)}
        | {"v": supply.real("v", 2, 2), "g": supply.log_decay("g", 2, d)}
    )


def _turned_printed(supply: Supply, d: int) -> Numbers:
    x = _turned(supply, d)
    index = range(1, 3)
    return Numbers({n: x[n] for n in "qkR"}, {"i": index, "j": index})


@identity(
    title="One gate for all channels does not notice how the keys are turned",
    statement=r"(R q_i)^\top (R k_j) = q_i^\top k_j, \qquad R^\top R = I",
    source="ours; elementary",
    equations=("eq-turned-keys",),
    printed={"eq-turned-keys": AsPrinted(numbers=_turned_printed)},
    chapter=CHAPTER,
    mutants={
        "a gate for each channel": {"channels": True},
        "the keys alone are turned": {"asked": False},
        "the keys are stretched, too": {"stretch": 2},
    },
)
def turned_keys(
    supply: Supply,
    d: int,
    *,
    channels: bool = False,
    asked: bool = True,
    stretch: int = 1,
) -> Sides:
    """Gated linear attention on the tokens, and on tokens that were turned."""
    x = _turned(supply, d)
    q, k, v, R = (x[name] for name in "qkvR")
    gate = x["g"] if channels else x["g"][:, :1] + 0 * x["g"]
    plain, _ = gated_linear_attention.recurrent(q, k, v, log_decay=gate)
    turned_q = q @ R.T if asked else q
    turned, _ = gated_linear_attention.recurrent(
        turned_q, stretch * k @ R.T, v, log_decay=gate
    )
    return turned, plain


def _any_strength(supply: Supply, T: int, d_k: int, d_v: int) -> dict:
    x = {"q": supply.real("q", T, d_k), "k": supply.real("k", T, d_k)}
    x |= {"v": supply.real("v", T, d_v), "log_decay": supply.log_decay("a", T)}
    return x | {"log_write": log(4 * supply.positive("i", T))}


def _any_strength_printed(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    """What the package answers, and the two sums that it never forms."""
    x = _any_strength(supply, T, d_k, d_v)
    o, _ = matrix_lstm.recurrent(**x)
    strength, kept = exp(x["log_write"]), exp(x["log_decay"])
    S, n = [np.zeros((d_k, d_v), dtype=o.dtype)], [np.zeros(d_k, dtype=o.dtype)]
    for t in range(T):
        written = strength[t] * x["k"][t]
        S.append(kept[t] * S[-1] + np.outer(written, x["v"][t]))
        n.append(kept[t] * n[-1] + written)
    letters = {"S": Rows(np.array(S), first=0), "n": Rows(np.array(n), first=0)}
    letters |= {name: x[name] for name in "qkv"} | {"o": o}
    letters |= {r"\alpha": kept, "i": strength}
    return Numbers(letters, {"t": range(1, T + 1)})


@identity(
    title="Matrix LSTM is the floored ratio of two memories with one gate",
    statement=r"S_t = \alpha_t S_{t-1} + i_t k_t v_t^\top, \qquad"
    r" n_t = \alpha_t n_{t-1} + i_t k_t, \qquad"
    r" o_t = \frac{S_t^\top q_t}{\max(\lvert n_t^\top q_t \rvert, 1)}",
    source="beck2024xlstm",
    citations=("beck2024xlstm",),
    equations=("def-matrix-lstm",),
    printed=dict.fromkeys(
        (STATEMENT, "def-matrix-lstm"),
        AsPrinted(numbers=_any_strength_printed, worlds=("rationals", "floats")),
    ),
    chapter=CHAPTER,
    worlds=("rationals", "floats"),
    mutants={
        "no floor": {"floor": 0},
        "the normaliser's sign counts": {"absolute": False},
        "what is written counts once more": {"power": 2},
    },
    at={"rationals": {"T": 6}},
)
def matrix_lstm_ratio(
    supply: Supply,
    T: int,
    d_k: int,
    d_v: int,
    *,
    floor: int = 1,
    absolute: bool = True,
    power: int = 1,
) -> Sides:
    """The package, which never forms either sum, against gated linear attention."""
    x = _any_strength(supply, T, d_k, d_v)
    o, _ = matrix_lstm.recurrent(**x)
    strength = exp(x["log_write"])[:, None] ** power
    gate = x["log_decay"][:, None] + 0 * x["k"]
    form = gated_linear_attention.recurrent
    sums = [
        form(x["q"], x["k"], strength * values, log_decay=gate)[0]
        for values in (x["v"], x["v"][:, :1] ** 0)
    ]
    weight = abs(sums[1]) if absolute else sums[1]
    return o, sums[0] / np.maximum(weight, floor)
