"""A layer of the gated delta rule (Gated DeltaNet).

    beta = sigmoid(W_b x),   log alpha = -exp(A_log) softplus(W_a x + b)

Keys and queries go through a convolution of width 4, SiLU and a division by their
length; values through the first two; queries are then divided by sqrt(d_k). At the
start exp(A_log) is uniform in (0, 16] and softplus(b) log-uniform in [0.001, 0.1].
Released models have 6 heads with d_k = 256 and d_v = 512, or groups of value heads.
[yang2025gated, section 3.4; the numbers are those of the flash-linear-attention layer]
"""

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from ctlearn.layers.gates import Passing, rates, unit
from ctlearn.layers.mixer import Mixer


class GatedDeltaRule(Mixer):
    """alpha and beta are one number for each head of values."""

    width, squash = 4, F.silu

    def __init__(self, d_model: int, **sizes: Any):
        super().__init__(d_model, **sizes)
        H = self.n_value_heads
        self.rate = nn.Linear(d_model, H, bias=False)
        self.passing = Passing(nn.Linear(d_model, H, bias=False), (H,), least=0)

    def inputs(self, x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> dict[str, Tensor]:
        """Keys of length one, log alpha in (-inf, 0), beta in (0, 1)."""
        return {
            "q": unit(q) * self.d_k**-0.5,
            "k": unit(k),
            "v": v,
            "log_decay": self.passing(x),
            "beta": rates(self.rate(x)),
        }

    def write(
        self, k: Tensor, v: Tensor, *, log_decay: Tensor, beta: Tensor
    ) -> dict[str, Tensor]:
        """Erase and write at the key, with strength beta."""
        beta = beta[..., None]
        return {"k": k, "z": beta * v, "e": beta * k, "log_decay": log_decay}
