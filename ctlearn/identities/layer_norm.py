"""The layer norm of an inner learner: its slope in one formula."""

import numpy as np

from ctlearn import inner
from ctlearn.identities.engine import STATEMENT, Sides, identity
from ctlearn.printed import AsPrinted, Numbers
from ctlearn.supplies import Supply


def _normed_slope(x: np.ndarray, y: np.ndarray, gain: np.ndarray) -> np.ndarray:
    """SymPy's derivative of half the squared distance, entry by entry, at z = x."""
    import sympy

    z = np.array(sympy.symbols(f"z:{len(x)}", real=True), dtype=object)
    loss = ((inner.layer_norm(z, gain) - y) ** 2).sum() / 2
    there = dict(zip(z, x, strict=True))
    return np.array([sympy.diff(loss, entry).subs(there) for entry in z])


def _printed_slope(supply: Supply, d: int) -> Numbers:
    z, y, norm = supply.real("z", d), supply.real("y", d), supply.real("n", 2, d)
    m, ones = z.sum() / d, norm[0] ** 0
    x = inner.layer_norm(z, np.array([ones, 0 * ones]))
    letters = {
        **{"z": z, "y": y, "x": x, "u": ones, "b": norm[1], r"\gamma": norm[0]},
        **{"d": d, "m": m, r"\varepsilon": 1e-6},
        "s": np.sqrt(((z - m) ** 2).sum() / d + 1e-6),
        "g": norm[0] * (norm[0] * x + norm[1] - y),
        "G": inner.layer_norm_slope(z, y, norm),
    }
    return Numbers(letters)


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
    printed={STATEMENT: AsPrinted(numbers=_printed_slope, worlds=("floats",))},
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
