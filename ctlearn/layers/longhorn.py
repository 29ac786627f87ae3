"""A layer of Longhorn: every channel of values steps to the minimum of its own loss.

    v = silu(convolution(W_v x)),   q, k, r = W v,   beta = sigmoid(W_b r + b)
    eps = beta / (1 + beta k'k),   y = W_O ((o + D v) * silu(gate(x)))

Keys, queries and rates are read off the convolved values, r through a sixteenth of the
channels of the model; nothing is scaled or normed. beta is one number for each channel
of values, so each is a delta rule of its own, and to the memory a head of its own with
one value: d_v times the work of a rule that they share. `n_heads` is the number of
groups of keys, one in released models, which have d_k = 16 and values of twice the
channels of the model. At the start b = 0 and D = 1.

`diagonal` takes the place of what is erased along k by a decay of each key channel,

    S_t = (1 - eps (k * k)) * S_{t-1} + k (eps * v)',

which is what the released kernel computes.
[liu2024longhorn; the numbers are those of its code, whose convolution has a bias, which
is left out]
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ctlearn.layers.arguments import wide
from ctlearn.layers.convolution import Convolution
from ctlearn.layers.mixer import Mixer

# Tokens that the convolution of the values sees.
WIDTH = 4


class Longhorn(Mixer):
    """The state is [B, H d_v, d_k, 1]."""

    normed, squash = False, F.silu

    def __init__(self, d_model: int, *, diagonal: bool = False, **sizes: Any):
        super().__init__(d_model, **sizes)
        self.diagonal = diagonal
        keys, _, values = self.sizes
        self.qkv = nn.Linear(d_model, values, bias=False)
        self.filter = Convolution(values, WIDTH)
        self.of_values = [keys, keys, -(-d_model // 16)]
        self.asked = nn.Linear(values, sum(self.of_values), bias=False)
        self.rate = nn.Linear(self.of_values[-1], values)
        nn.init.zeros_(self.rate.bias)
        self.skip = nn.Parameter(torch.ones(self.n_value_heads, self.d_v))

    def project(self, x: Tensor, recent: Tensor | None) -> tuple[Any, ...]:
        """Values from the tokens, all else from the values."""
        v, recent = self.filter(self.qkv(x), recent)
        q, k, r = self.asked(v).split(self.of_values, -1)
        q, k = map(self.serving_all, (q, k))
        return r, q, k, v.unflatten(-1, (-1, self.d_v)), recent

    def inputs(self, x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> dict[str, Tensor]:
        """A beta in (0, 1) for every channel of values: [B, T, H, d_v]."""
        return {"q": q, "k": k, "v": v, "beta": self.rate(x).sigmoid().view_as(v)}

    def write(self, k: Tensor, v: Tensor, *, beta: Tensor) -> dict[str, Any]:
        """A head with one value for every channel."""
        dtype = wide(k.dtype)
        squares, beta = k.to(dtype).square(), beta.to(dtype)
        eps = beta / (1 + beta * squares.sum(-1, keepdim=True))
        k = self._by_channel(k)
        written = {"k": k, "z": v.flatten(2)[..., None], "beta": eps.flatten(2)}
        if not self.diagonal:
            return written | {"e": k}
        # eps k_i^2 is below 1, and may round to it
        erased = (eps[..., None] * squares[..., None, :]).flatten(2, 3)
        kept = torch.log1p(-erased.clamp(max=1 - torch.finfo(dtype).eps))
        return written | {"log_decay": kept}

    def answer(self, q: Tensor, S: Any, **inputs: Tensor) -> tuple[Tensor, Any]:
        """The channels' answers, side by side again."""
        o, S = super().answer(self._by_channel(q), S, **inputs)
        return o.reshape(*q.shape[:3], self.d_v), S

    def read(self, o: Tensor, x: Tensor, v: Tensor) -> Tensor:
        """Add some of the values, gate."""
        return super().read(o + self.skip * v, x, v)

    def _by_channel(self, x: Tensor) -> Tensor:
        """The rows [B, T, H, d_k] once for each channel of values."""
        return x[..., None, :].expand(*x.shape[:3], self.d_v, -1).flatten(2, 3)
