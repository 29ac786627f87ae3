"""Order of decay: a vector gate and an erasure do not commute, and by how much."""

import numpy as np

from ctlearn.identities.engine import STATEMENT, Sides, identity
from ctlearn.mixers import kimi_delta_attention
from ctlearn.printed import AsPrinted, Numbers
from ctlearn.scalars import log
from ctlearn.supplies import Supply


def _erasure(supply: Supply, d_k: int) -> Numbers:
    letters = {"k": supply.real("k", d_k), r"\alpha": supply.rate("a", d_k)}
    return Numbers(letters | {r"\beta": supply.rate("b", 1)[0]})


def _commutator_free(*, sign: int = -1, rate: bool = True) -> Sides:
    """A stands for Diag(alpha), its own transpose."""
    import sympy

    A, k, kt = sympy.symbols("A k k^T", commutative=False)
    beta = sympy.Symbol("beta")
    gap = k * kt * A + sign * A * k * kt
    return A * (1 - beta * k * kt) - (1 - beta * k * kt) * A, (
        beta if rate else 1
    ) * gap


def _after(alpha: np.ndarray, k: np.ndarray, beta: object, S: np.ndarray) -> np.ndarray:
    """What a token of value zero leaves by Kimi delta attention."""
    nothing = 0 * S[0]
    given = {"log_decay": log(alpha), "beta": beta, "S": S}
    return kimi_delta_attention.step(k, k, nothing, **given)[1]


@identity(
    title="To fade and then erase is not to erase and then fade: the difference",
    statement=r"\mathrm{Diag}(\alpha) (I - \beta k k^\top)"
    r" - (I - \beta k k^\top) \mathrm{Diag}(\alpha) ="
    r" \beta (k (\alpha \odot k)^\top - (\alpha \odot k) k^\top)",
    source="ours; kimi2025 fades first",
    citations=("kimi2025",),
    equations=("eq-gate-commutator",),
    printed=dict.fromkeys(
        (STATEMENT, "eq-gate-commutator"), AsPrinted(numbers=_erasure)
    ),
    chapter="09_gated_delta_rules",
    mutants={
        "a sum in the place of the difference": {"sign": 1},
        "the rate is left out": {"rate": False},
        "they commute": {"gap": 0},
    },
    free=_commutator_free,
)
def commutator(
    supply: Supply, d_k: int, *, sign: int = -1, rate: bool = True, gap: int = 1
) -> Sides:
    """Erase by the reference with no decay and fade, against the reference itself."""
    x = _erasure(supply, d_k).letters
    k, alpha, beta = x["k"], x[r"\alpha"], x[r"\beta"]
    k[0], k[-1] = 1 + k[0] ** 2, 1 + k[-1] ** 2
    unit = np.eye(d_k, dtype=k.dtype)
    erased_first = alpha[:, None] * _after(alpha**0, k, beta, unit)
    moved = np.outer(k, alpha * k) + sign * np.outer(alpha * k, k)
    return (
        erased_first - _after(alpha, k, beta, unit),
        gap * (beta if rate else 1) * moved,
    )


def _halving(supply: Supply) -> Numbers:
    """A key between two channels, of which the second halves."""
    one = supply.positive("c", 1)[0] ** 0
    alpha, k = np.array([one, one / 2]), np.array([3 * one, 4 * one]) / 5
    return Numbers({"k": k, r"\alpha": alpha})


@identity(
    title="With a rate for each channel the two orders are two mechanisms",
    kind="counterexample",
    statement=r"k = \frac{1}{5} \begin{pmatrix} 3 \\ 4 \end{pmatrix}, \qquad"
    r" \mathrm{Diag}(\alpha) = \begin{pmatrix} 1 & 0 \\ 0 & \frac{1}{2} \end{pmatrix},"
    r" \qquad \mathrm{Diag}(\alpha) (I - k k^\top) - (I - k k^\top)"
    r" \mathrm{Diag}(\alpha) = \frac{6}{25}"
    r" \begin{pmatrix} 0 & -1 \\ 1 & 0 \end{pmatrix}",
    source="ours; against: the order of a gate and an erasure is a convention",
    citations=("kimi2025",),
    printed={STATEMENT: AsPrinted(numbers=_halving, worlds=("rationals",))},
    worlds=("rationals",),
    mutants={
        "the channels fade alike": {"second": 2},
        "the key is one of the channels": {"key": (1, 0)},
        "nothing is erased": {"beta": 0},
    },
)
def orders_differ(
    supply: Supply,
    *,
    second: int = 1,
    key: tuple[int, int] = (3, 4),
    beta: int = 1,
) -> Sides:
    """The unit matrix faded and erased in both orders."""
    x = _halving(supply).letters
    one = x["k"][0] ** 0
    alpha = np.array([one, second * x[r"\alpha"][1]])
    k = np.array([one * x for x in key]) / (5 if key[1] else 1)
    unit = np.eye(2, dtype=int) * one
    return alpha[:, None] * _after(alpha**0, k, beta, unit), _after(
        alpha, k, beta, unit
    )
