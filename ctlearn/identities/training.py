"""Training a model: batches that are shared out, Adam's first step, and temperature."""

from typing import Any

import numpy as np

from ctlearn.identities.engine import STATEMENT, Sides, identity
from ctlearn.identities.slopes import slope
from ctlearn.printed import AsPrinted, Numbers
from ctlearn.scalars import exp, sqrt
from ctlearn.supplies import Supply

CHAPTER = "19_your_own_context_learner"


def _batch(supply: Supply, rows: int, d_k: int, d_v: int) -> Any:
    """The squared errors of a linear map on a batch, as a function of its rows."""
    k, v = supply.real("k", rows, d_k), supply.real("v", rows, d_v)
    S = supply.real("X", d_k, d_v)

    def gradient(some: slice | list[int]) -> np.ndarray:
        def loss(S: np.ndarray) -> Any:
            return ((k[some] @ S - v[some]) ** 2).sum() / len(k[some])

        return slope(loss, S)

    return gradient


def _shares_printed(supply: Supply, N: int, C: int, d_k: int, d_v: int) -> Numbers:
    gradient = _batch(supply, N * C, d_k, d_v)
    each = np.stack([gradient([i])[:, 0] for i in range(N * C)])
    means = np.stack([gradient(slice(n, None, N))[:, 0] for n in range(N)])
    letters = {"g": each, r"\bar{g}": means, "N": N, "B": N * C}
    return Numbers(letters)


SHARES = AsPrinted(
    numbers=_shares_printed, at={"symbols": {"N": 2, "C": 2}, "floats": {"N": 3}}
)


@identity(
    title="The mean gradient of equal shares is the gradient of the batch",
    statement=r"\frac{1}{B} \sum_{i=1}^{B} g_i = \frac{1}{N} \sum_{n=1}^{N} \bar{g}_n",
    source="ours; elementary",
    equations=("eq-equal-shares",),
    printed=dict.fromkeys((STATEMENT, "eq-equal-shares"), SHARES),
    chapter=CHAPTER,
    mutants={
        "the first process reads a row less": {"unequal": True},
        "the sum of gradients": {"mean": False},
        "all read the first share": {"same": True},
    },
    at={"symbols": {"N": 2, "C": 2, "d_k": 2, "d_v": 1}, "floats": {"N": 4, "C": 5}},
)
def equal_shares(
    supply: Supply,
    N: int,
    C: int,
    d_k: int,
    d_v: int,
    *,
    unequal: bool = False,
    mean: bool = True,
    same: bool = False,
) -> Sides:
    """N processes, each with every N-th row of a batch of N C."""
    gradient = _batch(supply, N * C, d_k, d_v)
    shares = [list(range(0 if same else n, N * C, N)) for n in range(N)]
    if unequal:
        shares[1].append(shares[0].pop())
    total = sum(map(gradient, shares))
    return gradient(slice(None)), total / N if mean else total


def _adam(supply: Supply, d: int, *, corrected: bool = True, root: bool = True) -> Any:
    """The letters of Adam's first step, from averages that are zero."""
    g, w = supply.real("g", d), supply.real("w", d)
    first, second = supply.rate("a", 1)[0], supply.rate("b", 1)[0]
    eta, epsilon = supply.rate("eta", 1)[0], supply.positive("epsilon", 1)[0]
    m, s = (1 - first) * g, (1 - second) * g**2
    hats = (m / (1 - first), s / (1 - second)) if corrected else (m, s)
    size = sqrt(hats[1]) if root else hats[1]
    letters = {"g": g, "w": w, "m": m, "s": s, r"\eta": eta, r"\varepsilon": epsilon}
    letters |= {r"\beta": np.array([first, second])}
    return letters, w - eta * hats[0] / (size + epsilon)


def _adam_printed(supply: Supply, d: int) -> Numbers:
    letters, _ = _adam(supply, 1)
    return Numbers(letters | {name: letters[name][0] for name in "gms"})


ADAM = AsPrinted(numbers=_adam_printed)


@identity(
    title="Adam that has forgotten its averages moves every weight as far as the rate",
    statement=r"\frac{m / (1 - \beta_1)}{\sqrt{s / (1 - \beta_2)} + \varepsilon}"
    r" = \frac{g}{\lvert g \rvert + \varepsilon}",
    source="ours; from the algorithm as torch computes it",
    equations=("eq-first-step",),
    printed=dict.fromkeys((STATEMENT, "eq-first-step"), ADAM),
    chapter=CHAPTER,
    mutants={
        "the averages are not corrected": {"corrected": False},
        "by the mean square, not its root": {"root": False},
        "as gradient descent moves it": {"plain": True},
    },
)
def first_step(
    supply: Supply,
    d: int,
    *,
    corrected: bool = True,
    root: bool = True,
    plain: bool = False,
) -> Sides:
    """One step from averages of zero, whatever their decay."""
    x, after = _adam(supply, d, corrected=corrected, root=root)
    size = abs(x["g"]) ** (0 if plain else 1)
    return after, x["w"] - x[r"\eta"] * x["g"] / (size + x[r"\varepsilon"])


def _sharpened(supply: Supply, N: int) -> Any:
    """Scores, their softmax, and one over a temperature."""
    z = supply.real("z", N)
    return exp(z) / exp(z).sum(), z, supply.positive("n", 1)[0]


def _temperature_printed(supply: Supply, N: int) -> Numbers:
    p, z, n = _sharpened(supply, N)
    letters = {"p": p, "z": z, r"\tau": 1 / n, "A": N}
    return Numbers(letters, {"c": range(1, N + 1)})


WORLDS = ("symbols", "floats")  # a root of a rational number is none
TEMPERATURE = AsPrinted(numbers=_temperature_printed, worlds=WORLDS)


@identity(
    title="A temperature raises all shares to a power",
    statement=r"\frac{\exp(z_c / \tau)}{\sum_{j=1}^{A} \exp(z_j / \tau)}"
    r" = \frac{p_c^{1 / \tau}}{\sum_{j=1}^{A} p_j^{1 / \tau}}",
    source="ours; elementary",
    equations=("eq-temperature",),
    printed=dict.fromkeys((STATEMENT, "eq-temperature"), TEMPERATURE),
    worlds=WORLDS,
    chapter=CHAPTER,
    mutants={
        "multiplied by it": {"power": -1},
        "without a new sum": {"again": False},
        "shares divided by it": {"scaled": True},
    },
)
def temperature(
    supply: Supply, N: int, *, power: int = 1, again: bool = True, scaled: bool = False
) -> Sides:
    """From scores, of which softmax makes the shares."""
    p, z, n = _sharpened(supply, N)
    sharp = p * n if scaled else p ** (n**power)
    scores = exp(z * n)
    return scores / scores.sum(), sharp / sharp.sum() if again else sharp
