"""A short causal convolution in front of a memory, each channel by itself.

    y_t = silu(sum_{i<W} w_i * x_{t-i}),   x, y [B, T, channels]

It lets a token's key know the tokens just before it. What it must remember between two
calls is its last W - 1 inputs, zeros before the first token.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Convolution(nn.Module):
    """W weights a channel, drawn from U(-W^-1/2, W^-1/2) as torch's own Conv1d does.

    forward(x, recent) -> (y, recent): `recent` [B, W - 1, channels] or None.
    """

    def __init__(self, channels: int, width: int):
        super().__init__()
        if width < 1:
            raise ValueError(f"width: expected at least 1, got {width}")
        bound = width**-0.5
        self.weight = nn.Parameter(torch.empty(width, channels).uniform_(-bound, bound))

    def forward(self, x: Tensor, recent: Tensor | None) -> tuple[Tensor, Tensor]:
        """The convolved inputs, and the inputs that the next call will need."""
        T, before = x.shape[1], len(self.weight) - 1
        if recent is None:
            recent = x.new_zeros(x.shape[0], before, x.shape[2])
        x = torch.cat([recent, x], 1)
        y = self.weight[0] * x[:, before:]
        for i in range(1, before + 1):
            earlier = slice(before - i, before - i + T)
            y = torch.addcmul(y, self.weight[i], x[:, earlier])
        # a copy, so that the other inputs can be forgotten
        return F.silu(y), x[:, T:].clone()
