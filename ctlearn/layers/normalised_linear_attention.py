"""A layer of normalised linear attention: a weighted mean of the values.

    q, k -> elu(q) + 1, elu(k) + 1

The normaliser is what one more value channel, of ones, collects; a scale of q would
cancel, and answers are neither normed nor gated. [katharopoulos2020, eqs. 4-9; its code
adds 1e-6 to the denominator, this keeps it above the smallest normal number]
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ctlearn.layers.gates import elu_plus_one
from ctlearn.layers.mixer import Mixer


class NormalisedLinearAttention(Mixer):
    """The state is [B, H, d_k, d_v + 1]: the last channel is the normaliser."""

    normed = False

    def inputs(self, x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> dict[str, Tensor]:
        """Queries and keys as they are: the features are the mechanism's own."""
        return {"q": q, "k": k, "v": v}

    def write(self, k: Tensor, v: Tensor) -> dict[str, Any]:
        """Write the value and a one at the key's features."""
        return {"k": elu_plus_one(k), "z": F.pad(v, (0, 1), value=1)}

    def answer(self, q: Tensor, S: Any, **inputs: Tensor) -> tuple[Tensor, Any]:
        """The weighted sum over the sum of the weights."""
        o, S = super().answer(elu_plus_one(q), S, **inputs)
        least = torch.finfo(o.dtype).tiny
        return o[..., :-1] / o[..., -1:].clamp(min=least), S
