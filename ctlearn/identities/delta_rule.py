"""The delta rule: what one write does to all that was there before."""

from typing import Any

import numpy as np

from ctlearn.identities.engine import Sides, identity
from ctlearn.mixers import delta_rule
from ctlearn.supplies import Supply


def _after(S: np.ndarray, k: np.ndarray, beta: Any) -> np.ndarray:
    """The state after a token of value zero: (I - beta kk') S."""
    nothing = 0 * S[0]
    return delta_rule.step(k, k, nothing, beta=beta, S=S)[1]


@identity(
    title="Along its key a write scales the old state, across it it does nothing",
    statement=r"(I - \beta k k^\top) k = (1 - \beta k^\top k) k, \qquad"
    r" k^\top u = 0 \;\Rightarrow\; (I - \beta k k^\top) u = u",
    source="ours; elementary",
    mutants={
        "along the key all is lost": {"along": 0},
        "the key's length does not matter": {"length": 0},
        "across is not across": {"across": 0},
    },
)
def eigenvalues(
    supply: Supply, d_k: int, *, along: int = 1, length: int = 1, across: int = 1
) -> dict[str, Sides]:
    """States of one column, by the reference; u is any vector less its part along k."""
    k, u = supply.real("k", d_k), supply.real("u", d_k)
    # a zero key has no direction, and an orthogonal draw would hide the mutant
    k[0], u[0] = 1 + k[1] ** 2, 2 + u[1] ** 2
    beta = supply.rate("beta", 1)[0]
    square = (k @ k) ** length
    u = u - across * (k @ u) / (k @ k) * k
    return {
        "along": (_after(k[:, None], k, beta), (along - beta * square) * k[:, None]),
        "across": (_after(u[:, None], k, beta), u[:, None]),
    }


@identity(
    title="How much shorter a write makes what it meets",
    statement=r"\lVert (I - \beta k k^\top) x \rVert^2 ="
    r" \lVert x \rVert^2 - \beta (2 - \beta k^\top k) (k^\top x)^2",
    source="ours; elementary",
    mutants={
        "as if every key were a unit vector": {"unit": True},
        "the first order alone": {"second": 0},
    },
)
def length(supply: Supply, d_k: int, *, unit: bool = False, second: int = 1) -> Sides:
    """So it stretches nothing exactly where beta k'k is at most 2."""
    k, x = supply.real("k", d_k), supply.real("x", d_k)
    k[0], x[0] = 1 + k[1] ** 2, 2 + x[1] ** 2
    beta = supply.rate("beta", 1)[0]
    square = 1 if unit else k @ k
    after = _after(x[:, None], k, beta)
    right = x @ x - beta * (2 - second * beta * square) * (k @ x) ** 2
    return np.asarray((after * after).sum()), np.asarray(right)


@identity(
    title="A write of strength 2 at a unit key is a reflection: twice is never",
    statement=r"\lVert k \rVert = 1 \;\Rightarrow\; (I - 2 k k^\top)^2 = I",
    source="grazzi2025, in secondary reading; elementary",
    citations=("grazzi2025",),
    mutants={
        "a write of strength 1": {"beta": 1},
        "a key twice as long": {"longer": 2},
    },
)
def reflection(
    supply: Supply, d_k: int, d_v: int, *, beta: int = 2, longer: int = 1
) -> Sides:
    """Any state, and the same token of value zero read twice."""
    k, S = longer * supply.unit("k", 1, d_k)[0], supply.real("S", d_k, d_v)
    return _after(_after(S, k, beta), k, beta), S


@identity(
    title="Between 0 and 2 nothing is stretched",
    kind="bound",
    statement=r"\lVert (I - \beta k k^\top) x \rVert^2 \le \lVert x \rVert^2"
    r" \quad (\lVert k \rVert = 1, \; 0 \le \beta \le 2)",
    source="ours; elementary",
    worlds=("rationals", "floats"),
    mutants={
        "half as much again": {"more": 3},
        "a key twice as long": {"longer": 2},
    },
)
def never_longer(
    supply: Supply, d_k: int, *, more: int = 2, longer: int = 1
) -> dict[str, Sides]:
    """A drawn step size and the ends of its range, with x along the key and any."""
    k = longer * supply.unit("k", 1, d_k)[0]
    x = supply.real("x", d_k)
    drawn = supply.double("beta", 1)[0] * more / 2
    sides = {}
    for name, beta in (
        ("drawn", drawn),
        ("none", 0 * drawn),
        ("most", 0 * drawn + more),
    ):
        for seen, y in (("any", x), ("along", k)):
            after = _after(y[:, None], k, beta)
            sides[f"{name}, {seen}"] = np.asarray((after**2).sum()), np.asarray(y @ y)
    return sides


@identity(
    title="Features that sum to one leave a step size of 1 no room to overshoot",
    kind="bound",
    statement=r"k \ge 0, \; \textstyle\sum_i k_i = 1 \;\Rightarrow\;"
    r" 0 \le 1 - \beta k^\top k \quad (0 \le \beta \le 1)",
    source="ours; the normalisation is schlag2021's",
    citations=("schlag2021",),
    worlds=("rationals", "floats"),
    mutants={
        "their sum is two": {"total": 2},
        "one feature is negative": {"signed": True},
        "reflecting step sizes": {"beta": 2},
    },
)
def shares(
    supply: Supply, d_k: int, *, total: int = 1, signed: bool = False, beta: int = 1
) -> dict[str, Sides]:
    """Drawn features, and a single one, where the bound is met."""
    k = total * supply.shares("k", 1, d_k)[0]
    if signed:
        k = np.concatenate([k[:1] + 2, k[1:2] - 2, k[2:]])
    single = 0 * k
    single[0] = k.sum()
    return {
        "drawn": (np.asarray(0 * k[0]), np.asarray(1 - beta * (k @ k))),
        "single": (np.asarray(0 * k[0]), np.asarray(1 - beta * (single @ single))),
    }
