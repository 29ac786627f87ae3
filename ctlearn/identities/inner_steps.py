"""Inner steps on one mini-batch: what more of them write, and what adding up allows.

The features of the pairs are fixed, a row of K each, and a last matrix W learns from
all pairs at once. On the dot product -v'z every step writes the same; on half the
squared error the second step sees what the first has written.
"""

from typing import Any

import numpy as np

from ctlearn.identities.engine import Sides, identity
from ctlearn.identities.slopes import dot, slopes, squared
from ctlearn.inner import Linear
from ctlearn.printed import AsPrinted, Numbers, Rows
from ctlearn.supplies import Supply
from ctlearn.tasks import recall
from ctlearn.tasks.two_views import SLOPES, batch_steps

CHAPTER = "14_is_it_linear_attention"
DOT, SQUARED = "dot product", "half the squared error"
Array = np.ndarray


def _steps(W: Array, k: Array, v: Array, eta: Any, loss: str, steps: int) -> Array:
    """Steps of the package's learner, from any start."""
    setting = {"eta": eta, "slope": SLOPES[loss], "steps": steps}
    return batch_steps(Linear(W), k, v, **setting).W


def _batch(supply: Supply, T: int, d_k: int, d_v: int) -> tuple[Any, ...]:
    k, v = supply.real("k", T, d_k), supply.real("v", T, d_v)
    return k, v, supply.rate("eta", 1)[0], supply.real("W", d_k, d_v)


def _printed_steps(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    k, v, eta, W = _batch(supply, T, d_k, d_v)
    states = np.array([_steps(W, k, v, eta, DOT, n) for n in range(4)])
    letters = {"W": Rows(states, first=0), r"\tilde{K}": k, "V": v, r"\eta": eta}
    return Numbers(letters, {"n": range(1, 4)})


@identity(
    title="On a dot product, each of n inner steps writes the same",
    statement=r"W_n = W_0 + n \eta \tilde{K}^\top V",
    source="liu2026, in words",
    citations=("liu2026",),
    equations=("eq-n-steps",),
    printed={"eq-n-steps": AsPrinted(numbers=_printed_steps)},
    chapter=CHAPTER,
    mutants={
        "the squared error": {"loss": SQUARED},
        "a step after the first counts half": {"share": 2},
        "the loss is climbed": {"sign": -1},
    },
)
def n_steps(
    supply: Supply,
    T: int,
    d_k: int,
    d_v: int,
    *,
    loss: str = DOT,
    share: int = 1,
    sign: int = 1,
) -> dict[str, Sides]:
    """One more step from the sum that any number n of steps has left.

    The step is the package's, and is against the slope as differences give it.
    """
    k, v, eta, W = _batch(supply, T, d_k, d_v)
    n, once = supply.positive("n", 1)[0], eta * k.T @ v
    so_far = W + n * once
    slope = slopes(squared if loss == SQUARED else dot, so_far, k, v).sum(axis=0)
    # the squared error is not halved there
    slope = slope / (2 if loss == SQUARED else 1)
    after = _steps(so_far, k, v, eta, loss, 1)
    return {
        "base": (_steps(W, k, v, eta, loss, 0), W),
        "step": (after, so_far + sign * once / share),
        "slope": (after, so_far - eta * slope),
    }


def _said(supply: Supply, N: int, d_v: int) -> tuple[Array, Array]:
    """Any answers, at the scale that is best for any values; and the values."""
    said, V = supply.real("o", N, d_v), supply.real("v", N, d_v)
    return (said * V).sum() / (said * said).sum() * said, V


def _error(said: Array, V: Array) -> Any:
    return ((said - V) ** 2).sum() / (V * V).sum()


def _printed_error(supply: Supply, N: int, d_v: int) -> Numbers:
    said, V = _said(supply, N, d_v)
    errors = np.array([_error(n * said, V) for n in range(5)])
    return Numbers({"E": Rows(errors, first=0)}, {"n": range(5)})


@identity(
    title="n times an answer at its best scale errs along a parabola",
    statement=r"E_n = 1 - (2 n - n^2) (1 - E_1)",
    source="ours",
    citations=("liu2026",),
    equations=("eq-n-steps-error",),
    printed={
        "eq-n-steps-error": AsPrinted(
            numbers=_printed_error, at={"symbols": {"N": 1, "d_v": 2}}
        )
    },
    chapter=CHAPTER,
    mutants={
        "another scale": {"best": False},
        "as if one step were right": {"perfect": True},
        "the error grows with n": {"square": 0},
    },
    at={"symbols": {"N": 1, "d_v": 2}},
)
def n_steps_error(
    supply: Supply,
    N: int,
    d_v: int,
    *,
    best: bool = True,
    perfect: bool = False,
    square: int = 1,
) -> dict[str, Sides]:
    """The errors of 0 to 4 times the answers, and that the package finds the scale."""
    said, V = _said(supply, N, d_v)
    said = said if best else 2 * said
    one = 0 * _error(said, V) if perfect else _error(said, V)
    sides = {
        f"{n} steps": (_error(n * said, V), 1 - (2 * n - square * n * n) * (1 - one))
        for n in range(5)
    }
    if supply.world == "floats":
        sides["scale"] = recall.best_scale(said, V), 1.0
    return sides


def _halves(
    supply: Supply, d_k: int, d_v: int, steps: int, loss: str, *, zero: bool
) -> tuple[Any, ...]:
    """W after no pairs, after some, after others, and after all; and the pairs."""
    pairs = [(supply.real(f"k{n}", 2, d_k), supply.real(f"v{n}", 2, d_v)) for n in "ab"]
    (k_A, v_A), (k_B, v_B) = pairs
    eta, W = supply.rate("eta", 1)[0], supply.real("W", d_k, d_v) * int(not zero)
    told = [*pairs, (np.vstack([k_A, k_B]), np.vstack([v_A, v_B]))]
    ends = [_steps(W, k, v, eta, loss, steps) for k, v in told]
    return W, ends, pairs, eta


def _printed_halves(supply: Supply, d_k: int, d_v: int) -> Numbers:
    W, ends, _, _ = _halves(supply, d_k, d_v, 2, DOT, zero=False)
    names = ("W_A", "W_B", "W_AB")
    return Numbers(dict(zip(names, ends, strict=True)) | {"W_0": W})


@identity(
    title="What a dot product teaches adds up over the pairs",
    statement=r"W_{AB} - W_0 = (W_A - W_0) + (W_B - W_0)",
    source="ours; elementary",
    citations=("liu2026",),
    equations=("eq-superposition",),
    printed={"eq-superposition": AsPrinted(numbers=_printed_halves)},
    chapter=CHAPTER,
    mutants={
        "the squared error, in two steps": {"loss": SQUARED},
        "Muon's cubic step": {"cubic": True},
        "the start counts twice": {"starts": 2},
    },
)
def superposition(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    loss: str = DOT,
    cubic: bool = False,
    starts: int = 1,
) -> dict[str, Sides]:
    """Two steps on either loss would do for one pair; one step adds up on both."""
    sides = {}
    for name, steps, used in (("two steps", 2, loss), ("one, squared", 1, SQUARED)):
        W, ends, _, _ = _halves(supply, d_k, d_v, steps, used, zero=False)
        A, B, both = (end - W for end in ends)
        if cubic:
            A, B, both = (x - x @ x.T @ x / 3 for x in (A, B, both))
        sides[name] = both, A + B + (starts - 1) * W
    return sides


def _printed_second(supply: Supply, d_k: int, d_v: int) -> Numbers:
    _, ends, pairs, eta = _halves(supply, d_k, d_v, 2, SQUARED, zero=True)
    letters = dict(zip(("W_A", "W_B", "W_AB"), ends, strict=True)) | {r"\eta": eta}
    for name, (k, v) in zip("AB", pairs, strict=True):
        letters |= {rf"\tilde{{K}}_{name}": k, f"V_{name}": v}
    return Numbers(letters)


@identity(
    title="On squared errors a second step takes the overlaps into account",
    statement=r"W_{AB} - W_A - W_B = -\eta^2 (\tilde{K}_A^\top \tilde{K}_A"
    r" \tilde{K}_B^\top V_B + \tilde{K}_B^\top \tilde{K}_B \tilde{K}_A^\top V_A)",
    source="ours; elementary",
    citations=("liu2026",),
    equations=("eq-second-step",),
    printed={"eq-second-step": AsPrinted(numbers=_printed_second)},
    chapter=CHAPTER,
    mutants={
        "the dot product": {"loss": DOT},
        "one step": {"steps": 1},
        "only the later pairs are corrected": {"earlier": 0},
    },
)
def second_step(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    loss: str = SQUARED,
    steps: int = 2,
    earlier: int = 1,
) -> Sides:
    """Two sets of two pairs, told apart and together, from a start at zero."""
    _, (W_A, W_B, both), pairs, eta = _halves(supply, d_k, d_v, steps, loss, zero=True)
    (k_A, v_A), (k_B, v_B) = pairs
    crossed = k_A.T @ k_A @ k_B.T @ v_B + earlier * k_B.T @ k_B @ k_A.T @ v_A
    return both - W_A - W_B, -(eta**2) * crossed


def _table(supply: Supply, N: int, d: int) -> tuple[Array, Any]:
    """A table of weights of N queries and keys with d features, and a share."""
    return supply.real("q", N, d) @ supply.real("k", N, d).T, supply.rate("xi", 1)[0]


def _paired(supply: Supply, d: int, xi: Any) -> Array:
    """2 d names, two to each feature, at the best scale: the bound is met."""
    one = supply.real("one", 1)[0] ** 0
    return np.kron(np.eye(d, dtype=int) * one, np.ones((2, 2), dtype=int)) / (1 + xi)


def _errs(P: Array, xi: Any) -> Any:
    own = np.diagonal(P)
    return ((1 - own) ** 2 + xi * ((P * P).sum(axis=1) - own * own)).sum() / len(P)


def _printed_floor(supply: Supply, N: int, d: int) -> Numbers:
    P, xi = _table(supply, N + d, d)
    index = {name: range(1, N + d + 1) for name in "ij"}
    return Numbers({"P": P, r"\xi": xi, "N": N + d, r"d_\phi": d}, index)


@identity(
    title="Weights of low rank must answer with what they were not asked for",
    kind="bound",
    statement=r"\frac{1}{N} \sum_{i=1}^{N} \left((1 - P_{ii})^2"
    r" + \xi \sum_{j \ne i} P_{ij}^2\right)"
    r" \ge 1 - \frac{1}{1 - \xi + \xi N / d_\phi}",
    source="ours",
    citations=("liu2026",),
    worlds=("rationals", "floats"),
    equations=("eq-attention-floor", "eq-trace-bound"),
    printed={
        "eq-attention-floor": AsPrinted(
            numbers=_printed_floor, worlds=("rationals", "floats")
        ),
        "eq-trace-bound": AsPrinted(
            numbers=_printed_floor, worlds=("rationals", "floats")
        ),
    },
    chapter=CHAPTER,
    mutants={
        "one feature fewer": {"fewer": 1},
        "the other pairs are always told": {"always": True},
        "the trace is bounded by the squares alone": {"rank": 0},
    },
)
def attention_floor(
    supply: Supply,
    N: int,
    d: int,
    *,
    fewer: int = 0,
    always: bool = False,
    rank: int = 1,
) -> dict[str, Sides]:
    """Any weights, and those of names in pairs, which meet the bound."""
    drawn, xi = _table(supply, N + d, d)
    sides = {}
    for name, P in (("any", drawn), ("pairs", _paired(supply, d, xi))):
        share, features = (1 if always else xi), d - fewer
        room = 1 - share + share * len(P) * xi**0 / features
        sides[name] = 1 - 1 / room, _errs(P, xi)
        sides[f"{name}, trace"] = (
            np.trace(P) ** 2,
            (features if rank else 1) * (P * P).sum(),
        )
    return sides
