"""Objectives and retentions: which link a norm has."""

from typing import Any

import numpy as np

from ctlearn.identities.engine import Sides, identity
from ctlearn.objectives import dual_link, printed_link
from ctlearn.supplies import Supply


@identity(
    title="The link of a squared norm has a power of each entry, not the norm alone",
    kind="erratum",
    statement=(
        r"\nabla \tfrac12 \lVert W \rVert_r^2 = A \iff"
        r" W = \frac{\mathrm{sign}(A) \odot |A|^{s-1}}{\lVert A \rVert_s^{s-2}},"
        r" \quad \tfrac1r + \tfrac1s = 1"
    ),
    as_printed=r"W = \frac{A}{\lVert A \rVert_s^{s-2}}",
    source="MIRAS: behrouz2025miras, eq. 24, reported",
    citations=("behrouz2025miras",),
    chapter="13_deep_memories",
    worlds=("symbols", "floats"),
    mutants={
        "half the squared Euclidean norm, where the print is right": {"s": 2},
        "the weights' norm is that of the gathered steps": {"dual": False},
    },
)
def norm_link(
    supply: Supply, d_k: int, d_v: int, *, s: int = 4, dual: bool = True
) -> dict[str, Sides]:
    """Positive entries, for every sign is a reflection; s is 4, as in Moneta."""
    A = supply.positive("A", d_k, d_v)
    exponent = 0 * A[0, 0] + s  # of the supply's own numbers
    r = exponent / (exponent - 1) if dual else exponent

    def slope(W: np.ndarray) -> Any:
        return W ** (r - 1) / (W**r).sum() ** ((r - 2) / r)

    return {
        "printed": (slope(printed_link(A, exponent)), A),
        "corrected": (slope(dual_link(A, exponent)), A),
    }
