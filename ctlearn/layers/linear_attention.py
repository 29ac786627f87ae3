"""A layer of linear attention, whose features are not normalised but its answers are.

    q, k -> elu(q) + 1, elu(k) + 1

Queries are divided by sqrt(d_k). A norm of each head's answer takes the place of the
normaliser, which only scales that answer. Released layers have 8 heads.
[katharopoulos2020, eq. 7, for the features; the numbers are those of the
flash-linear-attention layer]
"""

from typing import Any

from torch import Tensor

from ctlearn.layers.gates import elu_plus_one
from ctlearn.layers.mixer import Mixer


class LinearAttention(Mixer):
    """Nothing is forgotten and nothing is erased."""

    def inputs(self, x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> dict[str, Tensor]:
        """Features above zero."""
        return {"q": elu_plus_one(q) * self.d_k**-0.5, "k": elu_plus_one(k), "v": v}

    def write(self, k: Tensor, v: Tensor) -> dict[str, Any]:
        """Write the value at the key."""
        return {"k": k, "z": v}
