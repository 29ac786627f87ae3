"""A norm of each head's answer by itself, with weights for every head."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class HeadNorm(nn.Module):
    """o [..., H, d] less its mean, over its deviation; times weights, plus biases."""

    def __init__(self, n_heads: int, d: int, *, eps: float, bias: bool):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(n_heads, d))
        self.bias = nn.Parameter(torch.zeros(n_heads, d)) if bias else None

    def forward(self, o: Tensor) -> Tensor:
        """Of the shape of o."""
        o = self.weight * F.layer_norm(o, o.shape[-1:], eps=self.eps)
        return o if self.bias is None else o + self.bias
