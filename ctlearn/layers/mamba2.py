"""A layer of Mamba-2.

    Delta = softplus(W_d x + b),   alpha = exp(A Delta),   A = -exp(A_log)
    y = W_O norm((o + D v) * silu(gate(x)))

All of q, k and v go through a convolution of width 4 and SiLU; nothing is scaled. A
model has few heads of keys, one as a rule, and many of values: `n_heads` is the number
of its groups, `n_value_heads` that of its heads. The norm is over all heads together,
behind the gate. At the start -A is uniform in [1, 16], softplus(b) log-uniform in
[0.001, 0.1] and D = 1. Released models have d_k = 128 and d_v = 64, and values of twice
the channels of the model. [dao2024, section 7; the numbers are those of its code, whose
convolution and projections may have biases, which are left out]
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ctlearn.layers.gates import Passing
from ctlearn.layers.mixer import Mixer


class Mamba2(Mixer):
    """Delta, A and D are one number for each head of values."""

    width, squash = 4, F.silu

    def __init__(self, d_model: int, **sizes: Any):
        super().__init__(d_model, **sizes)
        H = self.n_value_heads
        self.passing = Passing(nn.Linear(d_model, H, bias=False), (H,), least=1)
        self.skip = nn.Parameter(torch.ones(H))
        self.norm = nn.RMSNorm(H * self.d_v, eps=1e-5)

    def inputs(self, x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> dict[str, Tensor]:
        """A [H] below zero, Delta [B, T, H] above."""
        A, delta = self.passing.A, self.passing.time(x)
        return {"q": q, "k": k, "v": v, "A": A, "delta": delta}

    def write(
        self, k: Tensor, v: Tensor, *, A: Tensor, delta: Tensor
    ) -> dict[str, Any]:
        """Write Delta v at the key; decay by the same Delta."""
        return {"k": k, "z": v, "log_decay": A * delta, "beta": delta}

    def read(self, o: Tensor, x: Tensor, v: Tensor) -> Tensor:
        """Add some of the values, gate, norm."""
        o = (o + self.skip[:, None] * v).flatten(2)
        return self.out(self.norm(o * F.silu(self.gate(x))))
