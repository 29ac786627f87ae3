"""State tracking: follow something that every token changes, without ever losing it.

Parity, counting modulo n and words of permutations, each with the inputs by which a
delta rule tracks it exactly: beta = 2 along a unit key is the reflection I - 2 kk'. A
reflection flips a sign, or swaps two coordinates along (e_i - e_j) / sqrt 2; two of
them turn the plane by twice the angle between their keys. The values are zero, so the
state is what the reflections make of its start. beta up to 1 only shrinks, and can
flip nothing. [grazzi2025; siems2025]
"""

import numpy as np

from ctlearn.mechanism import Inputs


def parity(bits: np.ndarray) -> np.ndarray:
    """+1 after an even number of ones, -1 after an odd one, at every token [T]."""
    return 1 - 2 * (np.cumsum(bits) % 2)


def parity_inputs(bits: np.ndarray) -> Inputs:
    """For `delta_rule`: one channel, beta = 2 where the bit is 1. o is the sign."""
    one = np.ones((len(bits), 1))
    return {"q": one, "k": one, "v": 0 * one, "beta": 2.0 * bits, "S": np.ones((1, 1))}


def remainder(steps: np.ndarray, modulus: int) -> np.ndarray:
    """The sum of all steps so far, modulo `modulus`, at every token [T]."""
    return np.cumsum(steps) % modulus


def remainder_inputs(steps: np.ndarray, modulus: int) -> Inputs:
    """For `delta_product`: two reflections turn the plane by a share of a full turn.

    A step of x [T] turns by 2 pi x / `modulus`. Read at (1, 0), the state answers with
    the cosine and the sine of the sum: o [T, 2].
    """
    T, half = len(steps), np.pi * np.asarray(steps) / modulus
    first = np.broadcast_to([1.0, 0.0], (T, 2))
    k = np.stack([first, np.stack([np.cos(half), -np.sin(half)], axis=1)], axis=1)
    return _reflect(k, np.full((T, 2), 2.0)) | {"q": first.copy()}


def remainders_read(o: np.ndarray, modulus: int) -> np.ndarray:
    """The multiple of the full turn's share nearest to the answers o [T, 2]."""
    turns = np.arctan2(o[:, 1], o[:, 0]) / (2 * np.pi)
    return np.rint(turns * modulus).astype(int) % modulus


def word(seed: int, n: int, T: int) -> np.ndarray:
    """T permutations of n things, each equally likely: [T, n], rows of 0 to n - 1."""
    rng = np.random.default_rng(seed)
    return np.array([rng.permutation(n) for _ in range(T)])


def products(permutations: np.ndarray) -> np.ndarray:
    """What the word [T, n] so far does: each row permutes the row before it."""
    out = np.empty_like(permutations)
    at = np.arange(permutations.shape[1])
    for t, permutation in enumerate(permutations):
        at = out[t] = at[permutation]
    return out


def swaps(permutation: np.ndarray) -> list[tuple[int, int]]:
    """At most n - 1 swaps that bring 0, 1, ..., n - 1 into this order, in turn."""
    order, found = list(range(len(permutation))), []
    for i, wanted in enumerate(permutation):
        j = order.index(wanted)
        if i != j:
            order[i], order[j] = order[j], order[i]
            found.append((i, j))
    return found


def word_inputs(permutations: np.ndarray) -> Inputs:
    """For `delta_product`: n - 1 steps a token, each a swap or nothing at all.

    The state starts as the unit matrix [n, n] and has its rows swapped. Asked by
    (0, 1, ..., n - 1), it answers where everything went: o [T, n].
    """
    T, n = permutations.shape
    k, beta = np.zeros((T, n - 1, n)), np.zeros((T, n - 1))
    for t, permutation in enumerate(permutations):
        for step, pair in enumerate(swaps(permutation)):
            k[t, step, list(pair)] = np.array([1, -1]) / np.sqrt(2)
            beta[t, step] = 2
    q = np.broadcast_to(np.arange(float(n)), (T, n)).copy()
    return _reflect(k, beta) | {"q": q}


def words_read(o: np.ndarray) -> np.ndarray:
    """The permutations [T, n] that the answers o [T, n] tell."""
    return np.argsort(o, axis=1)


def _reflect(k: np.ndarray, beta: np.ndarray) -> Inputs:
    """Reflect the unit matrix, n_h times a token, writing and forgetting nothing."""
    T, _, n = k.shape
    nothing = {"v": np.zeros_like(k), "log_decay": np.zeros(T)}
    return nothing | {"k": k, "beta": beta, "S": np.eye(n)}
