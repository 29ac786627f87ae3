"""A layer of gated linear attention (GLA).

    log alpha = logsigmoid(W_2 W_1 x + b) / 16

alpha is one number for each key channel, through a bottleneck of 16; it starts near
2^(-1/16) = 0.958. Queries are divided by sqrt(d_k). Answers are normed, and gated by
the SiLU of a linear map. Released models have 4 heads, whose keys have half the
channels of the model together, and their values all.
[yang2024gla, section 4.4; the numbers are those of the flash-linear-attention layer]
"""

from typing import Any

import torch.nn.functional as F
from torch import Tensor

from ctlearn.layers.gates import low_rank
from ctlearn.layers.mixer import Mixer

RANK, TEMPERATURE = 16, 16


class GatedLinearAttention(Mixer):
    """alpha is one number for each key channel of each head of values."""

    squash = F.silu

    def __init__(self, d_model: int, **sizes: Any):
        super().__init__(d_model, **sizes)
        self.decay = low_rank(d_model, RANK, self.n_value_heads * self.d_k, bias=True)

    def inputs(self, x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> dict[str, Tensor]:
        """Log alpha below zero."""
        log_decay = F.logsigmoid(self.decay(x)).view_as(k) / TEMPERATURE
        return {"q": q * self.d_k**-0.5, "k": k, "v": v, "log_decay": log_decay}

    def write(self, k: Tensor, v: Tensor, *, log_decay: Tensor) -> dict[str, Any]:
        """Write the value at the key after forgetting."""
        return {"k": k, "z": v, "log_decay": log_decay}
