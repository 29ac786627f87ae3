"""A layer of gated DeltaProduct: several steps of the delta rule at every token.

    beta_j = 2 sigmoid(W_j x) in (0, 2),   j = 1, ..., n_h

A token brings n_h keys, values and rates, one alpha and one query; all are prepared as
in `gated_delta_rule`. The memory sees n_h times as many tokens: the first of each n_h
forgets, the last is asked. Released models have n_h = 2, 6 heads with d_k = 256 and
d_v = 512. [siems2025; the numbers are those of the flash-linear-attention layer]
"""

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from ctlearn.layers.gated_delta_rule import GatedDeltaRule


class DeltaProduct(GatedDeltaRule):
    """`n_h` steps at every token."""

    def __init__(self, d_model: int, *, n_h: int = 2, **sizes: Any):
        super().__init__(d_model, n_h=n_h, **sizes)
        self.rate = nn.Linear(d_model, n_h * self.n_value_heads, bias=False)

    def inputs(self, x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> dict[str, Tensor]:
        """k, v [B, T, H, n_h, d] and beta [B, T, H, n_h], of n_h H heads in order."""
        given = super().inputs(x, q, k, v)
        steps = (self.n_h, self.n_value_heads)
        by_step = {
            name: given[name].unflatten(2, steps).transpose(2, 3)
            for name in ("k", "v", "beta")
        }
        return given | by_step | {"beta": 2 * by_step["beta"]}

    def write(
        self, k: Tensor, v: Tensor, *, beta: Tensor, log_decay: Tensor | None = None
    ) -> dict[str, Any]:
        """n_h tokens of the gated delta rule for one: the first of them forgets."""
        k, v, beta = (x.transpose(2, 3).flatten(1, 2) for x in (k, v, beta))
        if log_decay is not None:
            once = F.pad(log_decay[:, :, None], (0, 0, 0, self.n_h - 1))
            log_decay = once.flatten(1, 2)
        return super().write(k, v, beta=beta, log_decay=log_decay)

    def answer(self, q: Tensor, S: Any, **inputs: Tensor) -> tuple[Tensor, Any]:
        """The last of each n_h tokens is asked."""
        silent = self.n_h - 1
        asked = F.pad(q[:, :, None], (0, 0, 0, 0, silent, 0)).flatten(1, 2)
        o, S = super().answer(asked, S, **inputs)
        return o[:, silent :: self.n_h], S
