"""What layers do to keys and gates before these reach the memory."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ctlearn.layers.arguments import wide

# Time steps at the start: log-uniform between the first two, none below the last.
SHORTEST, LONGEST, FLOOR = 1e-3, 1e-1, 1e-4


class Passing(nn.Module):
    """How much time passes at a token, and what is forgotten meanwhile.

        Delta_t = softplus(project(x_t) + b) > 0,   log alpha_t = A Delta_t
        A = -exp(A_log) < 0, one number for each head

    `shape` is (heads,) for one step a head, or (heads, d_k) for one a key channel. At
    the start -A is uniform in (`least`, 16] and softplus(b) log-uniform in
    [0.001, 0.1]. [gu2023mamba; dao2024, as in its code]
    """

    def __init__(self, project: nn.Module, shape: tuple[int, ...], least: float):
        super().__init__()
        self.project = project
        rate = 16 - (16 - least) * torch.rand(shape[0])
        self.A_log = nn.Parameter(rate.log())
        spread = math.log(LONGEST / SHORTEST)
        step = (SHORTEST * (spread * torch.rand(shape)).exp()).clamp(min=FLOOR)
        # the number whose softplus is the step
        self.bias = nn.Parameter(step + (-torch.expm1(-step)).log())

    @property
    def A(self) -> Tensor:
        """Minus the rates of the heads, [heads]."""
        return -self.A_log.to(wide(self.A_log.dtype)).exp()

    def time(self, x: Tensor) -> Tensor:
        """Delta [B, T, heads] or [B, T, heads, d_k]."""
        step = self.project(x).to(wide(x.dtype)).unflatten(-1, self.bias.shape)
        return F.softplus(step + self.bias)

    def forward(self, x: Tensor) -> Tensor:
        """The logarithm of alpha, of the shape of Delta."""
        A = self.A if self.bias.dim() == 1 else self.A[:, None]
        return A * self.time(x)


def unit(x: Tensor) -> Tensor:
    """Length one, x / sqrt(x'x + 10^-6), but for vectors that are nearly zero.

    The small number stands under the root, so that a zero vector has a gradient.
    """
    return x * (x.square().sum(-1, keepdim=True) + 1e-6).rsqrt()


def elu_plus_one(x: Tensor) -> Tensor:
    """1 + x where x > 0, exp(x) elsewhere: above zero. [katharopoulos2020, eq. 7]"""
    # elu(x) + 1 itself would round to zero where exp(x) does not
    return torch.where(x > 0, x + 1, x.clamp(max=0).exp())


def low_rank(d_in: int, rank: int, d_out: int, *, bias: bool) -> nn.Module:
    """A linear map through `rank` channels."""
    return nn.Sequential(
        nn.Linear(d_in, rank, bias=False), nn.Linear(rank, d_out, bias=bias)
    )
