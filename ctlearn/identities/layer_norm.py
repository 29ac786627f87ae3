"""The layer norm of an inner learner: its slope, and what that does to the weights."""

from typing import Any

import numpy as np

from ctlearn import inner
from ctlearn.identities.engine import STATEMENT, Sides, identity
from ctlearn.inner import Linear, Training
from ctlearn.mixers import ttt_linear
from ctlearn.printed import AsPrinted, Numbers, Rows
from ctlearn.supplies import Supply

CHAPTER = "12_ttt_layers"


def _normed_slope(x: np.ndarray, y: np.ndarray, gain: np.ndarray) -> np.ndarray:
    """SymPy's derivative of half the squared distance, entry by entry, at z = x."""
    import sympy

    z = np.array(sympy.symbols(f"z:{len(x)}", real=True), dtype=object)
    loss = ((inner.layer_norm(z, gain) - y) ** 2).sum() / 2
    there = dict(zip(z, x, strict=True))
    return np.array([sympy.diff(loss, entry).subs(there) for entry in z])


def _printed_slope(supply: Supply, d: int) -> Numbers:
    z, y, norm = supply.real("z", d), supply.real("y", d), supply.real("n", 2, d)
    return Numbers(_letters(z, y, norm))


def _letters(z: np.ndarray, y: np.ndarray, norm: np.ndarray) -> dict[str, Any]:
    """What the statement's letters are worth, at any answer z."""
    d = len(z)
    m, ones = z.sum() / d, norm[0] ** 0
    x = inner.layer_norm(z, np.array([ones, 0 * ones]))
    return {
        **{"z": z, "y": y, "x": x, "u": ones, "b": norm[1], r"\gamma": norm[0]},
        **{"d": d, "m": m, r"\varepsilon": 1e-6},
        "s": np.sqrt(((z - m) ** 2).sum() / d + 1e-6),
        "g": norm[0] * (norm[0] * x + norm[1] - y),
        "G": inner.layer_norm_slope(z, y, norm),
    }


# the letters of the chapter, and of the statement
_ON_THE_PAGE = {
    **{"z": "z", "y": "y", "u": "u", "c": "b", "d_v": "d", "a": "g", "g": "G"},
    **{r"\gamma": r"\gamma", r"\varepsilon": r"\varepsilon", r"\sigma": "s"},
    **{r"\bar{z}": "m", r"\hat{z}": "x"},
}


def _on_the_page(letters: dict[str, Any]) -> dict[str, Any]:
    return {name: letters[other] for name, other in _ON_THE_PAGE.items()}


def _printed_page(supply: Supply, d: int) -> Numbers:
    return Numbers(_on_the_page(dict(_printed_slope(supply, d).letters)))


@identity(
    title="The slope behind a layer norm: less its mean, and its part along the answer",
    statement=r"m = \frac{u^\top z}{d}, \quad"
    r" s^2 = \frac{1}{d} \lVert z - m u \rVert^2 + \varepsilon, \quad"
    r" x = \frac{1}{s} (z - m u), \quad"
    r" g = \gamma \odot (\gamma \odot x + b - y), \quad"
    r" G = \frac{1}{s} \left(g - \frac{u^\top g}{d} u - \frac{x^\top g}{d} x\right)",
    source="sun2024ttt, its released code; the derivation is ours",
    citations=("sun2024ttt",),
    worlds=("rationals",),
    equations=("eq-norm-slope",),
    printed={
        STATEMENT: AsPrinted(numbers=_printed_slope, worlds=("floats",)),
        "eq-norm-slope": AsPrinted(numbers=_printed_page, worlds=("floats",)),
    },
    chapter=CHAPTER,
    mutants={
        "the mean stays in": {"mean": 0},
        "the part along the answer stays in": {"along": 0},
        "the deviation's root is missing": {"power": 2},
        "the gain counts once": {"gains": 0},
    },
    at={"rationals": {"d": 3}},
)
def slope(
    supply: Supply,
    d: int,
    *,
    mean: int = 1,
    along: int = 1,
    power: int = 1,
    gains: int = 1,
) -> dict[str, Sides]:
    """The reference and the formula, against SymPy's derivative of the loss."""
    z, y, norm = supply.real("z", d), supply.real("y", d), supply.real("n", 2, d)
    z[0], norm[0] = z[1:].sum() + 9, 1 + norm[0] ** 2
    x = inner.layer_norm(z, np.array([norm[0] ** 0, 0 * norm[0]]))
    deviation = (z[0] - z[1]) / (x[0] - x[1])
    g = norm[0] ** gains * (norm[0] * x + norm[1] - y)
    fused = g - mean * g.sum() / d - along * (g @ x) / d * x
    wanted = _normed_slope(z, y, norm)
    return {
        "reference": (inner.layer_norm_slope(z, y, norm), wanted),
        "formula": (fused / deviation**power, wanted),
    }


def _write(supply: Supply, d: int, *, normed: bool = True) -> tuple[Any, ...]:
    """One write of a linear learner: its weights before and after, answer and rate.

    The weights are so small that what guards the division can be seen.
    """
    k, v = supply.real("k", d), supply.real("v", d)
    norm, beta = supply.real("n", 2, d), supply.rate("beta", 1)[0]
    W = supply.real("W", d, d) / 100
    S, gains = Training.start(Linear(W)), norm if normed else None
    _, S = ttt_linear.step(k, k, v, beta=beta, norm=gains, S=S)
    return W, W - S.total.W, W.T @ k, v - k, norm, beta


def _printed_write(supply: Supply, d: int) -> Numbers:
    before, after, z, y, norm, beta = _write(supply, d)
    letters = _on_the_page(_letters(z, y, norm))
    ends = Rows(np.array([before, after]), first=0)
    return Numbers(letters | {"W": ends, r"\beta": beta})


@identity(
    title="Behind a layer norm a write leaves the mean alone, and weights only grow",
    statement=r"u^\top g = 0, \quad"
    r" z^\top g = \frac{\varepsilon}{\sigma^2} \hat{z}^\top a, \quad"
    r" \lVert W_1 \rVert^2 = \lVert W_0 \rVert^2 + \lVert W_1 - W_0 \rVert^2"
    r" - \frac{2 \beta \varepsilon}{\sigma^2} \hat{z}^\top a",
    source="ours; that scale-free weights grow is a known property of such norms",
    equations=("eq-weights-grow",),
    printed={
        "eq-weights-grow": AsPrinted(
            numbers=_printed_write,
            worlds=("floats",),
            equivalent={
                r"g → \hat{z} (line 2, column 8)": "what is standardised has no mean "
                "either"
            },
        )
    },
    chapter=CHAPTER,
    worlds=("rationals", "floats"),
    mutants={
        "no norm": {"normed": False},
        "nothing guards the division": {"guard": 0},
        "the step's own square is left out": {"own": 0},
    },
    at={"rationals": {"d": 3}, "floats": {"d": 8}},
)
def weights_grow(
    supply: Supply, d: int, *, normed: bool = True, guard: int = 1, own: int = 1
) -> dict[str, Sides]:
    """One write, whatever the gain and shift of the norm and the target."""
    before, after, z, y, norm, beta = _write(supply, d, normed=normed)
    x = inner.layer_norm(z, np.array([norm[0] ** 0, 0 * norm[0]]))
    g = inner.layer_norm_slope(z, y, norm)
    # eps / sigma^2 is what the squares of x lack of d, over d
    share = guard * (1 - (x @ x) / d)
    along = share * (x @ (norm[0] * (norm[0] * x + norm[1] - y)))
    moved = after - before
    size = (before**2).sum() + own * (moved**2).sum() - 2 * beta * along
    return {
        "mean": (np.asarray(g.sum()), np.asarray(0 * beta)),
        "length": (np.asarray(z @ g), np.asarray(along)),
        "weights": (np.asarray((after**2).sum()), np.asarray(size)),
    }
