"""A layer of preconditioned Kimi delta attention: a rate for each key channel.

alpha and the output gate are those of `kimi_delta_attention`; all else is as in
`preconditioned_delta_rule`. The released layer has d_k = d_v = 128.
[tumma2026; the numbers are those of the flash-linear-attention layer, where alpha' is
one number for each head of values and b starts at 0]
"""

from typing import Any

import torch

from ctlearn.layers.gates import Passing, low_rank
from ctlearn.layers.preconditioned_delta_rule import PreconditionedDeltaRule


class PreconditionedKimiDeltaAttention(PreconditionedDeltaRule):
    """alpha is one number for each key channel of each head of values."""

    squash = torch.sigmoid

    def __init__(self, d_model: int, **sizes: Any):
        super().__init__(d_model, **sizes)
        H, d_k, d_v = self.n_value_heads, self.d_k, self.d_v
        channels = low_rank(d_model, d_v, H * d_k, bias=False)
        self.passing = Passing(channels, (H, d_k), least=1)
        self.gate = low_rank(d_model, d_v, H * d_v, bias=True)
