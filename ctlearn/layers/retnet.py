"""A layer of RetNet: retention whose keys turn.

    gamma_h = 1 - 2^(-5-h) for head h,   angle_i = 10000^(-2i / d_k) a token

Queries are divided by sqrt(d_k). Answers are normed without weights and gated by the
SiLU of a linear map. At the start queries, keys, values and gate are drawn uniform as
by Xavier with gain 2^-2.5, the output with gain 2^-1. Released models have 8 heads with
d_v = 2 d_k. [sun2023retnet, eq. 8; the start is that of its code]
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ctlearn.layers.arguments import wide
from ctlearn.layers.mixer import Mixer
from ctlearn.layers.rotation import rotary_angles, turned, turned_by_position


class RetNet(Mixer):
    """Between calls the state is turned back, so that every call starts at token 1.

    No position is kept, and none grows.
    """

    squash = F.silu

    def __init__(self, d_model: int, **sizes: Any):
        super().__init__(d_model, **sizes)
        self.norm = nn.RMSNorm(self.d_v, eps=1e-5, elementwise_affine=False)
        with torch.no_grad():
            for part in (*self.qkv.weight.split(self.sizes), self.gate.weight):
                nn.init.xavier_uniform_(part, gain=2**-2.5)
            nn.init.xavier_uniform_(self.out.weight, gain=2**-1)

    def inputs(self, x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> dict[str, Tensor]:
        """The constants of the heads: angles [d_k // 2], log gamma [H]."""
        h = torch.arange(self.n_value_heads, dtype=wide(q.dtype), device=q.device)
        return {
            "q": q * self.d_k**-0.5,
            "k": k,
            "v": v,
            "angle": rotary_angles(self.d_k, 10000.0, q),
            "log_gamma": torch.log1p(-(2 ** (-5 - h))),
        }

    def write(self, k: Tensor, v: Tensor, *, log_gamma: Tensor) -> dict[str, Any]:
        """Write the value at the key after fading all."""
        return {"k": k, "z": v, "log_decay": log_gamma.expand(k.shape[:3])}

    def answer(self, q: Tensor, S: Any, **inputs: Tensor) -> tuple[Tensor, Any]:
        """Turn queries and keys in front, then retention, then turn the state back."""
        angle, T = inputs.pop("angle"), q.shape[1]
        inputs["k"] = turned_by_position(inputs["k"], angle, 1)
        o, S = super().answer(turned_by_position(q, angle, 1), S, **inputs)
        return o, turned(S.mT, -T * angle).mT
