"""Turning pairs of key channels by an angle a token: positions that know no origin."""

import torch
from torch import Tensor

from ctlearn.layers.arguments import wide


def rotary_angles(d_k: int, base: float, like: Tensor) -> Tensor:
    """Angles base^(-2i / d_k) for the pairs i = 0, 1, ...: [d_k // 2] radians.

    They are computed where and whenever they are needed: stored with the weights, a
    change of dtype would round them, and positions multiply that error.
    """
    pair = torch.arange(d_k // 2, dtype=wide(like.dtype), device=like.device)
    return base ** (-2 * pair / d_k)


def turned_by_position(x: Tensor, angle: Tensor, first: int) -> Tensor:
    """The tokens of x [B, T, H, d_k] turned by `first`, `first + 1`, ... angles."""
    token = torch.arange(
        first, first + x.shape[1], dtype=angle.dtype, device=angle.device
    )
    return turned(x, token[:, None, None] * angle)


def turned(x: Tensor, by: Tensor) -> Tensor:
    """Channels (0, 1), (2, 3), ... of x [..., d_k] turned by [..., d_r] radians.

    Channels beyond the last pair are left alone.
    """
    pairs = x[..., : 2 * by.shape[-1]].unflatten(-1, (-1, 2))
    one, other = pairs.unbind(-1)
    cos, sin = by.cos().to(x.dtype), by.sin().to(x.dtype)
    pairs = torch.stack([cos * one - sin * other, sin * one + cos * other], -1)
    return torch.cat([pairs.flatten(-2), x[..., 2 * by.shape[-1] :]], -1)
