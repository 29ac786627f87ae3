"""Buckets: a past sorted by age into levels, of which each has a state of its own.

    level(t, s) = number of binary digits of t XOR s,   t, s = 0, 1, 2, ...

Seen from token t, level 0 is the token itself, and level l >= 1 is empty or a run of
2^(l-1) tokens. They are kept as a binary counter is: with j zeros at the end of t,
levels 0 to j merge into level j + 1, which is empty, before token t takes level 0. As
many levels are in use as t has ones in binary, and one; L levels hold 2^(L-1) tokens.
"""

from typing import Any, NamedTuple

import numpy as np

from ctlearn.memory import copied_state


class Buckets(NamedTuple):
    """S [n, d_k, d_v], a matrix for each level so far; `seen` [] counts the tokens."""

    S: np.ndarray
    seen: np.ndarray


def level(t: Any, s: Any) -> np.ndarray:
    """The level of token s at time t: the number of binary digits of t XOR s."""
    return np.frexp(np.bitwise_xor(t, s))[1]


def levels_after(count: int) -> int:
    """How many levels there are once `count` tokens are read, empty ones included."""
    return max(count - 1, 0).bit_length() + 1


def start(k: np.ndarray, v: np.ndarray, S: Buckets | None) -> Buckets:
    """One empty level, or a copy of `S`.

    Raises TypeError if S is no Buckets, ValueError if it does not fit.
    """
    if S is None:
        empty = np.zeros((1, k.shape[-1], v.shape[-1]), dtype=k.dtype)
        return Buckets(empty, np.zeros((), dtype=k.dtype))
    S = copied_state(S, Buckets, k, v, S=("n", "d_k", "d_v"), seen=())
    n = levels_after(int(S.seen))
    if len(S.S) != n:
        raise ValueError(
            f"S.S: expected {n} levels after {int(S.seen)} tokens, got {len(S.S)}"
        )
    return S


def carried(S: Buckets, levels: np.ndarray) -> np.ndarray:
    """The matrices of all levels once the next token has level 0 to itself, empty.

    Raises ValueError if `levels` [L] has no weight for the highest.
    """
    t = int(S.seen)
    # one more than the zeros that t ends in, or 0 for the first token
    carry = (t & -t).bit_length()
    B = np.zeros((_fitting(t + 1, levels), *S.S.shape[1:]), dtype=S.S.dtype)
    B[carry] = S.S[:carry].sum(axis=0)
    B[carry + 1 :] = S.S[carry + 1 :]
    return B


def read(
    q: np.ndarray, levels: np.ndarray, B: np.ndarray, S: Buckets
) -> tuple[np.ndarray, Buckets]:
    """The weighted sum of what the levels answer, and the state one token after S."""
    seen = np.asarray(int(S.seen) + 1, dtype=S.seen.dtype)
    return levels[: len(B)] @ (q @ B), Buckets(B, seen)


def weighed(
    levels: np.ndarray,
    S: Buckets,
    *,
    asked: np.ndarray,
    weights: np.ndarray,
    kept: Any,
    written: np.ndarray,
    z: np.ndarray,
) -> tuple[np.ndarray, Buckets]:
    """Outputs and state of a chunk that is linear in the state and in what it writes.

    From one state S without levels it would answer asked S + weights z and leave
    kept S + written' z: asked, written [C, d_k], weights [C, C], z [C, d_v], `kept` a
    number or [d_k, d_k]. Each answer is weighed by the level it comes from.
    """
    n, C = int(S.seen), len(z)
    now, end = n + np.arange(C), max(n + C - 1, 0)
    # an old level's tokens stay together, so its first tells where they are
    first = (max(n - 1, 0) >> np.arange(len(S.S))) << np.arange(len(S.S))
    B = np.zeros((_fitting(n + C, levels), *S.S.shape[1:]), dtype=S.S.dtype)
    old = np.take_along_axis(levels, level(now[:, None], first), axis=1)
    new = np.take_along_axis(levels, level(now[:, None], now), axis=1)
    o = (old.T[:, :, None] * (asked @ S.S)).sum(axis=0) + (weights * new) @ z
    for i in range(len(B)):
        here = level(end, now) == i
        B[i] = np.dot(kept, S.S[level(end, first) == i].sum(axis=0))
        B[i] += written[here].T @ z[here]
    return o, Buckets(B, np.asarray(n + C, dtype=S.seen.dtype))


def _fitting(count: int, levels: np.ndarray) -> int:
    """How many levels that many tokens need, if there are weights for them."""
    needed, L = levels_after(count), levels.shape[-1]
    if needed > L:
        raise ValueError(
            f"levels: expected at least {needed} for {count} tokens, got L = {L}"
        )
    return needed
