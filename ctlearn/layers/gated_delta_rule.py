"""A layer of the gated delta rule (Gated DeltaNet).

    log alpha = -exp(A_log) softplus(W_a x + b),   beta = sigmoid(W_b x)

Queries, keys and values are those of `delta_rule`; answers are normed, and gated by the
SiLU of a linear map. At the start exp(A_log) is uniform in (0, 16] and softplus(b)
log-uniform in [0.001, 0.1]. Released models have 6 heads with d_k = 256 and d_v = 512,
or two heads of values for each of keys.
[yang2025gated, section 3.4; the numbers are those of the flash-linear-attention layer]
"""

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from ctlearn.layers.delta_rule import DeltaRule
from ctlearn.layers.gates import Passing


class GatedDeltaRule(DeltaRule):
    """alpha and beta are one number for each head of values."""

    squash = F.silu

    def __init__(self, d_model: int, **sizes: Any):
        super().__init__(d_model, **sizes)
        H = self.n_value_heads
        self.passing = Passing(nn.Linear(d_model, H, bias=False), (H,), least=0)

    def inputs(self, x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> dict[str, Tensor]:
        """Those of the delta rule, and log alpha below zero."""
        return super().inputs(x, q, k, v) | {"log_decay": self.passing(x)}
