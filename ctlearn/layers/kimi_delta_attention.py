"""A layer of Kimi delta attention (KDA).

    log alpha = -exp(A_log) softplus(W_2 W_1 x + b),   beta = sigmoid(W_b x)

alpha is one number for each key channel, through a bottleneck of d_v channels, and so
is the output gate, a sigmoid. All else is as in `gated_delta_rule`, but that exp(A_log)
starts uniform in [1, 16]. The released model has d_k = d_v = 128.
[kimi2025, section 3; the numbers are those of the flash-linear-attention layer]
"""

from typing import Any

import torch
from torch import Tensor

from ctlearn.layers.delta_rule import DeltaRule
from ctlearn.layers.gates import Passing, low_rank


class KimiDeltaAttention(DeltaRule):
    """alpha is one number for each key channel of each head of values."""

    squash = torch.sigmoid

    def __init__(self, d_model: int, **sizes: Any):
        super().__init__(d_model, **sizes)
        H, d_k, d_v = self.n_value_heads, self.d_k, self.d_v
        channels = low_rank(d_model, d_v, H * d_k, bias=False)
        self.passing = Passing(channels, (H, d_k), least=1)
        self.gate = low_rank(d_model, d_v, H * d_v, bias=True)

    def inputs(self, x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> dict[str, Tensor]:
        """Those of the delta rule, and log alpha below zero."""
        return super().inputs(x, q, k, v) | {"log_decay": self.passing(x)}
