"""A layer of RWKV-7: erase at a removal key, and write at another key.

    x^c_t = x_t + mu^c * (x_{t-1} - x_t)          for c = r, k, v, w, a, g
    q = W_r x^r,   k^0 = W_k x^k,   v = W_v x^v
    log alpha = -exp(-1/2) sigmoid(W_2 tanh(W_1 x^w) + b_w)
    a = sigmoid(A_2 A_1 x^a + b_a),   kappa = unit(xi * k^0)
    k = k^0 * (1 + eta * (a - 1))
    y = W_O ((norm(o) + (q' (rho * k)) v) * G_2 sigmoid(G_1 x^g))

The token before takes the place of a convolution. W_1 and A_1 have about
2.5 sqrt(d_model) d_k / 64 rows, and G_1 twice as many where d_k = 64. The norm is of
each head less its mean, with weights and biases for every head. Nothing is scaled.

At the start the layer is the first of a deep model: 1 - mu rises from 0 to 1 along the
channels, as a power of 0.2, 0.7, 0.7, 0.9, 0.9 and 0.2; b_w rises by 6 along all keys
and by 5 along each head, b_a by 0.4 and 0.6; xi is near 0.7, eta = 1.02 and
rho = -0.04. W_r and W_v are orthogonal, W_k is a tenth of such a matrix, W_O, W_1, A_1
and G_1 are 0. What later layers add to their values, those of the first, is left out:
a mixer sees its own layer. Released models have d_k = d_v = 64.
[peng2025goose; the numbers are those of the flash-linear-attention layer]

The two directions of a token are two tokens to the memory: the first erases along
kappa, at a * kappa, and the second, which forgets nothing, writes.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn

from ctlearn.layers.arguments import wide
from ctlearn.layers.gates import unit
from ctlearn.layers.head_norm import HeadNorm
from ctlearn.layers.mixer import Mixer, State

# how 1 - mu rises along the channels, for r, k, v, w, a, g
POWERS = (0.2, 0.7, 0.7, 0.9, 0.9, 0.2)


class RWKV7(Mixer):
    """alpha, a and kappa are by key channel of each head of values."""

    normed = False

    def __init__(self, d_model: int, **sizes: Any):
        super().__init__(d_model, **sizes)
        H, d_k, d_v = self.n_value_heads, self.d_k, self.d_v
        channel = torch.arange(d_model) / d_model
        shift = torch.stack([1 - channel**power for power in POWERS])
        self.shift = nn.Parameter(shift)
        key = torch.linspace(-0.5, 0.5, H * d_k)
        bent = torch.linspace(-1, 1, d_k).repeat(H)
        bent = bent * bent.abs()
        self.removal = nn.Parameter((0.71 - 0.1 * key).view(H, d_k))
        self.yielding = nn.Parameter(torch.full((H, d_k), 1.02))
        self.bonus = nn.Parameter(torch.full((H, d_k), -0.04))
        rank = _rank(2.5 * d_model**0.5 * d_k / 64)
        self.decay = _bottleneck(d_model, rank, H * d_k, nn.Tanh(), bias=True)
        self.decay[-1].bias.data = -2.5 + 6 * key + 2.5 * bent
        self.giving = _bottleneck(d_model, rank, H * d_k, nn.Identity(), bias=True)
        self.giving[-1].bias.data = -0.19 + 0.4 * key + 0.3 * bent
        rank = _rank(5 * d_model**0.5)
        self.gate = _bottleneck(d_model, rank, H * d_v, nn.Sigmoid(), bias=False)
        self.norm = HeadNorm(H, d_v, eps=d_v * 1e-5, bias=True)
        with torch.no_grad():
            for part, gain in zip(self._maps(), (1, 0.1, 1), strict=True):
                part.copy_(nn.init.orthogonal_(torch.empty_like(part), gain))
            nn.init.zeros_(self.out.weight)

    def project(self, x: Tensor, recent: Tensor | None) -> tuple[Any, ...]:
        """Every map has a mixture of its own; gates see x^w, x^a and x^g."""
        if recent is None:
            recent = x.new_zeros(len(x), 1, x.shape[2])
        joined = torch.cat([recent, x], 1)
        mixed = x + (joined[:, :-1] - x) * self.shift[:, None, None]
        q, k, v = (a @ W.T for a, W in zip(mixed[:3], self._maps(), strict=True))
        q, k = map(self.serving_all, (q, k))
        return mixed[3:], q, k, v.unflatten(-1, (-1, self.d_v)), joined[:, -1:].clone()

    def inputs(self, x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> dict[str, Tensor]:
        """Log alpha above -exp(-1/2), kappa of length one, a in (0, 1)."""
        x_decay, x_giving, _ = x
        a = self.giving(x_giving).sigmoid().view_as(k)
        decay = self.decay(x_decay).to(wide(k.dtype)).sigmoid().view_as(k)
        return {
            "q": q,
            "k": k * (1 + self.yielding * (a - 1)),
            "v": v,
            "log_decay": -math.exp(-0.5) * decay,
            "kappa": unit(self.removal * k),
            "a": a,
        }

    def write(
        self, k: Tensor, v: Tensor, *, log_decay: Tensor, kappa: Tensor, a: Tensor
    ) -> dict[str, Any]:
        """Erase, then write: two tokens for one."""
        return {
            "k": _in_turn(a * kappa, k),
            "z": _in_turn(torch.zeros_like(v), v),
            "e": _in_turn(kappa, torch.zeros_like(kappa)),
            "log_decay": _in_turn(log_decay, torch.zeros_like(log_decay)),
            "read_first": True,
        }

    def answer(self, q: Tensor, S: Any, **inputs: Tensor) -> tuple[Tensor, Any]:
        """The second of the two is asked."""
        o, S = super().answer(_in_turn(torch.zeros_like(q), q), S, **inputs)
        return o[:, 1::2], S

    def forward(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """As of any mixer; a token's own value is added behind the norm."""
        recent, S = (None, None) if state is None else state
        seen, q, k, v, recent = self.project(x, recent)
        given = self.inputs(seen, q, k, v)
        o, S = self.answer(S=S, **given)
        own = (given["q"] * self.bonus * given["k"]).sum(-1, keepdim=True) * v
        gate = self.gate(seen[2]).view_as(v)
        return self.out(((self.norm(o) + own) * gate).flatten(2)), State(recent, S)

    def _maps(self) -> tuple[Tensor, ...]:
        """W_r, W_k and W_v."""
        return self.qkv.weight.split(self.sizes)


def _in_turn(first: Tensor, second: Tensor) -> Tensor:
    """Two [B, T, ...] as [B, 2 T, ...]."""
    return torch.stack([first, second], 2).flatten(1, 2)


def _rank(channels: float) -> int:
    """To the nearest multiple of 32."""
    return max(32, 32 * round(channels / 32))


def _bottleneck(
    d_in: int, rank: int, d_out: int, squash: nn.Module, *, bias: bool
) -> nn.Sequential:
    """A map through `rank` channels that starts constant."""
    inner, outer = nn.Linear(d_in, rank, bias=False), nn.Linear(rank, d_out, bias=bias)
    nn.init.zeros_(inner.weight)
    nn.init.orthogonal_(outer.weight, 0.1 * max(1, rank / d_out) ** 0.5)
    return nn.Sequential(inner, squash, outer)
