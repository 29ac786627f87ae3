"""Attention in torch: softmax over all tokens or the last few, with a cache.

    q, k [B, T, H, d_k], v, o [B, T, H, d_v], angle [d_r]

What is computed is stated in `ctlearn.mixers`, `softmax_attention` and
`sliding_window_attention`; torch's scaled_dot_product_attention computes it, with a
scale of one: a layer scales q. `angle` also turns pairs of key channels by that much a
token. The cache holds keys as they came and turns them when they are read, by their
distance from its first: so positions stay small, and a cache of the last `window` pairs
needs no counter.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ctlearn.layers.rotation import turned_by_position
from ctlearn.shapes import check_shape, check_size

# Fewest queries that a windowed block has: a smaller one would be mostly overhead.
BLOCK = 128


class Cache(NamedTuple):
    """The pairs kept: K [B, t, H, d_k] and V [B, t, H, d_v]."""

    K: Tensor
    V: Tensor

    def last(self, n: int) -> "Cache":
        """A copy of the last n pairs, so that those before them can be forgotten."""
        return Cache(self.K[:, -n:].clone(), self.V[:, -n:].clone())


def softmax_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    angle: Tensor | None = None,
    S: Cache | None = None,
) -> tuple[Tensor, Cache]:
    """Every query against all keys up to its own, O(T t (d_k + d_v)).

    Raises
    ------
    ValueError
        A shape does not fit.
    """
    S = extended(q, k, v, S)
    q, K = turned(q, S.K, angle)
    return _attend(q, K, S.V, K.shape[1]), S


def sliding_window_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    window: int,
    angle: Tensor | None = None,
    S: Cache | None = None,
) -> tuple[Tensor, Cache]:
    """Every query against the last `window` keys: O(T window (d_k + d_v)).

    The queries are taken in blocks as long as the window, each of which meets the keys
    of its own block and of the one before.

    Raises
    ------
    TypeError
        `window` is no integer.
    ValueError
        A shape does not fit, or `window` is below 1.
    """
    check_size("window", window, least=1)
    S = extended(q, k, v, S)
    q, K = turned(q, S.K, angle)
    return windowed(q, K, S.V, window), S.last(window)


def windowed(
    q: Tensor, K: Tensor, V: Tensor, window: int, always: Cache | None = None
) -> Tensor:
    """Queries of the last tokens of K against the last `window` keys each.

    The pairs of `always` are seen by every query beside those.
    """
    T, t = q.shape[1], K.shape[1]
    outputs, length = [], max(window, BLOCK)
    for start in range(0, T, length):
        queries = q[:, start : start + length]
        last = t - T + start + queries.shape[1]
        seen = slice(max(0, t - T + start + 1 - window), last)
        outputs.append(_attend(queries, K[:, seen], V[:, seen], window, always))
    return torch.cat(outputs, 1) if outputs else torch.zeros_like(V[:, :0])


def _attend(
    q: Tensor, K: Tensor, V: Tensor, window: int, always: Cache | None = None
) -> Tensor:
    """The queries being those of the last tokens of K and V."""
    T, t = q.shape[1], K.shape[1]
    if T == t <= window and always is None:
        return masked(q, K, V, None)
    token = torch.arange(t, device=q.device)
    late = token[t - T :, None] - token
    mask = (late >= 0) & (late < window)
    if always is not None:
        K, V = (torch.cat(pair, 1) for pair in zip(always, (K, V), strict=True))
        mask = F.pad(mask, (always.K.shape[1], 0), value=True)
    return masked(q, K, V, mask)


def masked(q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None) -> Tensor:
    """Every query against the keys that its row of the mask names, or up to its own."""
    q, K, V = (x.transpose(1, 2) for x in (q, K, V))
    o = F.scaled_dot_product_attention(
        q, K, V, attn_mask=mask, is_causal=mask is None, scale=1.0
    )
    return o.transpose(1, 2)


def extended(q: Tensor, k: Tensor, v: Tensor, S: Cache | None) -> Cache:
    """The cache with the new pairs behind those it holds."""
    sizes: dict[str, tuple[int, str]] = {}
    for name, x, d in (("k", k, "d_k"), ("q", q, "d_k"), ("v", v, "d_v")):
        check_shape(name, x, (("B", "T", "H", d),), sizes)
    if S is None:
        return Cache(k.clone(), v.clone())
    for name, x, d in (("S.K", S.K, "d_k"), ("S.V", S.V, "d_v")):
        check_shape(name, x, (("B", "t", "H", d),), sizes)
    return Cache(torch.cat([S.K, k], 1), torch.cat([S.V, v], 1))


def turned(q: Tensor, K: Tensor, angle: Tensor | None) -> tuple[Tensor, Tensor]:
    """Queries and cached keys turned by their places, those of the last tokens of K."""
    if angle is None:
        return q, K
    first = K.shape[1] - q.shape[1]
    return turned_by_position(q, angle, first), turned_by_position(K, angle, 0)
