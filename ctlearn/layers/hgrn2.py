"""A layer of HGRN2: the key is what is forgotten.

    alpha = l + (1 - l) sigmoid(W_f x),   q = silu(W_q x) / sqrt(d_k)

The model learns a bound l for each layer, 0 in the first and growing with depth; here
it is given as `least`. Answers are normed over all heads together, not gated. Released
models have d_k = 128. [qin2024; the numbers are those of the flash-linear-attention
layer]
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ctlearn.layers.arguments import wide
from ctlearn.layers.mixer import Mixer


class HGRN2(Mixer):
    """alpha is one number for each key channel, from the projection of keys.

    Raises
    ------
    ValueError
        `least` is not in [0, 1).
    """

    def __init__(self, d_model: int, *, least: float = 0.0, **sizes: Any):
        super().__init__(d_model, **sizes)
        if not 0 <= least < 1:
            raise ValueError(f"least: expected a number in [0, 1), got {least}")
        self.least = least
        self.norm = nn.RMSNorm(self.n_value_heads * self.d_v, eps=1e-5)

    def inputs(self, x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> dict[str, Tensor]:
        """Log alpha between log l and zero; there is no other key."""
        log_decay = F.logsigmoid(k.to(wide(k.dtype)))
        if self.least:
            log_decay = (self.least + (1 - self.least) * log_decay.exp()).log()
        return {"q": F.silu(q) * self.d_k**-0.5, "v": v, "log_decay": log_decay}

    def write(self, v: Tensor, *, log_decay: Tensor) -> dict[str, Any]:
        """Write the value at the key 1 - alpha."""
        k = -torch.expm1(log_decay)
        return {"k": k.to(v.dtype), "z": v, "log_decay": log_decay}

    def read(self, o: Tensor, x: Tensor, v: Tensor) -> Tensor:
        """Norm all heads together."""
        return self.out(self.norm(o.flatten(2)))
