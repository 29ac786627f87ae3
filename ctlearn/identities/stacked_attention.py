"""Layers of linear self-attention in a row: what they see of a context, and GD++ there.

A layer moves every token, those of the context and the query's, by one matrix. It knows
the context by the sum of its tokens' squares, and so does every layer after it.
"""

from typing import Any

import numpy as np

from ctlearn.identities.engine import Sides, identity
from ctlearn.mixers.constructed_attention import Layer, constructed
from ctlearn.printed import AsPrinted, Numbers
from ctlearn.supplies import Supply

CHAPTER = "10_a_gradient_step_in_the_tokens"


def _draw(supply: Supply, N: int, d: int) -> tuple[Layer, np.ndarray]:
    """Any layer, and any tokens [N, d]."""
    matrices = (supply.real(name, d, d) for name in ("K", "Q", "V", "P"))
    return Layer(*matrices), supply.real("e", N, d)


def _printed(supply: Supply, N: int, d: int) -> Numbers:
    """The tokens before and after the layer, and the matrix that moves them."""
    layer, e = _draw(supply, N, d)
    Z = e.T @ e
    one = np.eye(d, dtype=int)
    letters = {
        **layer._asdict(),
        **{"e": e, r"e^\prime": layer.run(e, e), "N": N, "Z": Z},
        "R": one + layer.P @ layer.W_V @ Z @ layer.W_K.T @ layer.W_Q,
    }
    return Numbers(letters, {"j": range(1, N + 1)})


def _free(*, exchanged: bool = False, residual: int = 1) -> Sides:
    """One token x more, any Z of those before; letters do not commute."""
    import sympy

    P, V, Z, e, x, x_T = sympy.symbols("P W_V Z e x x^T", commutative=False)
    maps = "W_K W_K^T W_Q W_Q^T"
    K, K_T, Q, Q_T = sympy.symbols(maps, commutative=False)
    right = Q_T * K if exchanged else K_T * Q
    before = e + P * V * Z * K_T * Q * e
    matrix = residual + P * V * (Z + x * x_T) * right
    return before + P * (V * x) * (x_T * K_T) * (Q * e), matrix * e


@identity(
    title="A layer multiplies every token by one matrix, made of all their squares",
    statement=r"R = I + P W_V Z W_K^\top W_Q, \quad e_j^\prime = R e_j, \quad"
    r" \sum_{j=1}^{N} e_j^\prime (e_j^\prime)^\top = R Z R^\top",
    source="ours; elementary",
    citations=("vonoswald2023",),
    equations=("def-token-layer", "eq-stack"),
    printed={
        "def-token-layer": AsPrinted(numbers=_printed, at={"symbols": {"N": 2}}),
        "eq-stack": AsPrinted(numbers=_printed, worlds=("rationals", "floats")),
    },
    free=_free,
    chapter=CHAPTER,
    mutants={
        "keys and queries are exchanged": {"exchanged": True},
        "no token keeps what it was": {"residual": 0},
        "the sum after the layer has one matrix": {"both": False},
    },
    at={"symbols": {"N": 1}},
)
def one_matrix(
    supply: Supply,
    N: int,
    d: int,
    *,
    exchanged: bool = False,
    residual: int = 1,
    both: bool = True,
) -> dict[str, Sides]:
    """The layer token by token, against the matrix."""
    layer, e = _draw(supply, N, d)
    W_K, W_Q = layer.W_K, layer.W_Q
    right = W_Q.T @ W_K if exchanged else W_K.T @ W_Q
    R = residual * np.eye(d, dtype=int) + layer.P @ layer.W_V @ e.T @ e @ right
    after = layer.run(e, e)
    Z = R @ (e.T @ e) @ (R.T if both else np.eye(d, dtype=int))
    return {"tokens": (after, e @ R.T), "their squares": (after.T @ after, Z)}


def _two_layers(supply: Supply, N: int, d_k: int) -> tuple[dict[str, Any], np.ndarray]:
    """A rule, its context, and what two layers from zero have learned of it.

    The first is a step and GD++, the second a step. They are asked along each axis.
    """
    k, W = supply.real("k", N, d_k), supply.real("W", d_k, 1)
    eta_1, eta_2, gamma = (supply.rate(x, 1)[0] for x in ("eta1", "eta2", "gamma"))
    zero, one = 0 * W, np.eye(d_k, dtype=int)
    e = np.concatenate([k, k @ W], axis=1)
    asked = np.concatenate([one + 0 * k[0, 0], 0 * one[:, :1] + 0 * k[0, 0]], axis=1)
    for layer in (
        constructed(zero, eta_1, N, gamma),
        constructed(zero, eta_2, N),
    ):
        asked, e = layer.run(asked, e), layer.run(e, e)
    letters = {"W": W, "N": N, "H": k.T @ k, r"\gamma": gamma}
    return letters | {r"\eta_1": eta_1, r"\eta_2": eta_2}, -asked[:, d_k:]


def _printed_two(supply: Supply, N: int, d_k: int) -> Numbers:
    letters, learned = _two_layers(supply, N, d_k)
    return Numbers(letters | {"W_2": learned})


def _free_two(*, power: int = 2, first: int = 1) -> Sides:
    """What is missing, where the second layer reads moved keys twice: letters H, W."""
    import sympy

    H, W = sympy.symbols("H W", commutative=False)
    one, two, gamma = sympy.symbols("eta_1 eta_2 gamma")
    missing, moved = W - one * H * W, 1 - gamma * H
    after = missing - two * moved * (moved * H * missing)
    return after, (1 - two * H * moved**power) * (1 - first * one * H) * W


@identity(
    title="Two layers, the first with GD++, leave a polynomial of degree four",
    statement=r"W - W_2 = \left(I - \frac{\eta_2}{N} H (I - \gamma H)^2\right)"
    r" \left(I - \frac{\eta_1}{N} H\right) W",
    source="ours; the layers are those of vonoswald2023, appendix A.10",
    citations=("vonoswald2023",),
    equations=("eq-degree-four",),
    printed={
        "eq-degree-four": AsPrinted(
            numbers=_printed_two,
            worlds=("rationals", "floats"),
            equivalent={
                r"(I - \frac{\eta_2}{N} H (I - \gamma H)^2\right)"
                r" \left(I - \frac{\eta_1}{N} H\right) → (I - \frac{\eta_1}{N} H\right)"
                r" \left(I - \frac{\eta_2}{N} H (I - \gamma H)^2\right)"
                " (line 1, column 16)": "polynomials of one matrix commute",
                r"H (I - \gamma H)^2 → (I - \gamma H)^2 H"
                " (line 1, column 38)": "polynomials of one matrix commute",
            },
        )
    },
    free=_free_two,
    chapter=CHAPTER,
    mutants={
        "only the query sees moved keys": {"power": 1},
        "the keys stay": {"power": 0},
        "the first step is left out": {"first": 0},
    },
    at={"symbols": {"N": 2, "d_k": 1}},
)
def two_layers(
    supply: Supply, N: int, d_k: int, *, power: int = 2, first: int = 1
) -> Sides:
    """The layers on tokens, against the polynomial."""
    x, learned = _two_layers(supply, N, d_k)
    H, one = x["H"], np.eye(d_k, dtype=int)
    moved = H
    for _ in range(power):
        moved = moved @ (one - x[r"\gamma"] * H)
    missing = x["W"] - first * x[r"\eta_1"] * H @ x["W"] / N
    return x["W"] - learned, missing - x[r"\eta_2"] * moved @ missing / N
