"""A layer of the gated delta rule 2 (GDN-2).

    b = sigmoid(W_b x) in (0, 1)^{d_k},   w = sigmoid(W_w x) in (0, 1)^{d_v}

b erases and w writes, in the place of beta; all else is as in `kimi_delta_attention`,
but that the output gate is a SiLU. The released layer has d_k = d_v = 128, and a
sigmoid there. [hatamizadeh2026; the numbers are those of the flash-linear-attention
layer]
"""

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from ctlearn.layers.gates import Passing, low_rank, unit
from ctlearn.layers.mixer import Mixer


class GatedDeltaRule2(Mixer):
    """b is one number for each key channel, w one for each channel of values."""

    width, squash = 4, F.silu

    def __init__(self, d_model: int, **sizes: Any):
        super().__init__(d_model, **sizes)
        H, d_k, d_v = self.n_value_heads, self.d_k, self.d_v
        channels = low_rank(d_model, d_v, H * d_k, bias=False)
        self.passing = Passing(channels, (H, d_k), least=1)
        self.rate = nn.Linear(d_model, H * (d_k + d_v), bias=False)
        self.gate = low_rank(d_model, d_v, H * d_v, bias=True)

    def inputs(self, x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> dict[str, Tensor]:
        """Keys of length one, log alpha below zero, b and w in (0, 1)."""
        gates = self.rate(x).sigmoid().unflatten(-1, (self.n_value_heads, -1))
        b, w = gates.split([self.d_k, self.d_v], -1)
        q, k = unit(q) * self.d_k**-0.5, unit(k)
        return {"q": q, "k": k, "v": v, "log_decay": self.passing(x), "b": b, "w": w}

    def write(
        self, k: Tensor, v: Tensor, *, log_decay: Tensor, b: Tensor, w: Tensor
    ) -> dict[str, Any]:
        """Erase along b * k, write w * v, both at k."""
        return {"k": k, "z": w * v, "e": b * k, "log_decay": log_decay}
