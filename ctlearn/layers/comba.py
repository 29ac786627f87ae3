"""A layer of Comba: the gated delta rule that compares before it forgets.

    p = sigmoid(c) k,   o = S'(q - delta p)

c and delta are learned, one number for each head of values, and both start at 1. All
else is as in `gated_delta_rule`, but that the output gate is a sigmoid. Released models
have 6 heads with d_k = 256. [hu2025comba; the numbers are those of the
flash-linear-attention layer, which divides q - delta p and p by their length: the first
is left out here, and so is the second, which undoes c]
"""

from typing import Any

import torch
from torch import Tensor, nn

from ctlearn.layers.gated_delta_rule import GatedDeltaRule


class Comba(GatedDeltaRule):
    """The old answer is read at p, a shorter key."""

    squash = torch.sigmoid

    def __init__(self, d_model: int, **sizes: Any):
        super().__init__(d_model, **sizes)
        self.shortening = nn.Parameter(torch.ones(self.n_value_heads))
        self.correction = nn.Parameter(torch.ones(self.n_value_heads))

    def inputs(self, x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> dict[str, Tensor]:
        """Those of the gated delta rule, p, and delta of the scale of the queries."""
        given = super().inputs(x, q, k, v)
        given["p"] = self.shortening.sigmoid()[:, None] * given["k"]
        given["correction"] = self.correction * self.d_k**-0.5
        return given

    def answer(self, q: Tensor, S: Any, **inputs: Tensor) -> tuple[Tensor, Any]:
        """Ask with what p takes off the query, and erase along p."""
        p, correction = inputs.pop("p"), inputs.pop("correction")
        written = self.write(**inputs) | {"e": p, "read_first": True}
        return self.mix(q - correction[:, None] * p, **written, S=S)
