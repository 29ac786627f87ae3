"""Inputs of exercises, at random: what several chapters draw alike."""

import numpy as np

Rng = np.random.Generator


def unit(rng: Rng, n: int, d: int) -> np.ndarray:
    """Rows [n, d] of length one."""
    x = rng.standard_normal((n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def keys(rng: Rng, n: int, d: int) -> np.ndarray:
    """Rows [n, d] of lengths about one, and hardly ever one."""
    return unit(rng, n, d) * rng.uniform(0.5, 1.3, (n, 1))


def state(rng: Rng, d_k: int, d_v: int) -> np.ndarray:
    """A state [d_k, d_v] in which something is held already."""
    return rng.standard_normal((d_k, d_v))


def tokens(rng: Rng, T: int, d_k: int, d_v: int) -> dict[str, np.ndarray]:
    """Queries, keys of about length one, values and strengths for T tokens."""
    return {
        "q": rng.standard_normal((T, d_k)),
        "k": keys(rng, T, d_k),
        "v": rng.standard_normal((T, d_v)),
        "beta": rng.uniform(0, 1, T),
    }


def token(rng: Rng, d_k: int, d_v: int) -> dict[str, np.ndarray | float]:
    """The same for one token, its strength a number up to 2, and the state before."""
    one = {name: x[0] for name, x in tokens(rng, 1, d_k, d_v).items()}
    return one | {"beta": rng.uniform(0, 2), "S": state(rng, d_k, d_v)}
