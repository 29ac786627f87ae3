"""Inputs of exercises, at random: what several chapters draw alike."""

from collections.abc import Callable

import numpy as np

from ctlearn.course.exercise import Inputs, Sizes

Rng = np.random.Generator

# One token: keys and values of other sizes and of the same, and single numbers.
ONE = ({"d_k": 3, "d_v": 2}, {"d_k": 4, "d_v": 4}, {"d_k": 1, "d_v": 1})
SEQUENCES = (
    {"T": 7, "d_k": 3, "d_v": 2},
    {"T": 5, "d_k": 4, "d_v": 4},
    {"T": 1, "d_k": 2, "d_v": 3},
    {"T": 0, "d_k": 2, "d_v": 3},
)
IN_CHUNKS = (
    {"T": 7, "d_k": 3, "d_v": 2, "chunk_size": 3},
    {"T": 8, "d_k": 4, "d_v": 4, "chunk_size": 4},
    {"T": 3, "d_k": 2, "d_v": 3, "chunk_size": 5},
    {"T": 4, "d_k": 2, "d_v": 1, "chunk_size": 1},
    {"T": 0, "d_k": 2, "d_v": 3, "chunk_size": 2},
)


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


def tokens(rng: Rng, T: int, d_k: int, d_v: int) -> Inputs:
    """Queries, keys of about length one, values and strengths for T tokens."""
    return {
        "q": rng.standard_normal((T, d_k)),
        "k": keys(rng, T, d_k),
        "v": rng.standard_normal((T, d_v)),
        "beta": rng.uniform(0, 1, T),
    }


def token(rng: Rng, d_k: int, d_v: int) -> Inputs:
    """The same for one token, its strength a number up to 2, and the state before."""
    one = {name: x[0] for name, x in tokens(rng, 1, d_k, d_v).items()}
    return one | {"beta": rng.uniform(0, 2), "S": state(rng, d_k, d_v)}


def sequence(rng: Rng, T: int, d_k: int, d_v: int) -> Inputs:
    """Tokens, and the state before them."""
    return tokens(rng, T, d_k, d_v) | {"S": state(rng, d_k, d_v)}


def in_chunks(draw: Callable[..., Inputs], rng: Rng, sizes: Sizes) -> Inputs:
    """What `draw` draws, and the size of a chunk."""
    others = {name: n for name, n in sizes.items() if name != "chunk_size"}
    return draw(rng, **others) | {"chunk_size": sizes["chunk_size"]}


def log_decays(rng: Rng, *shape: int) -> np.ndarray:
    """Logarithms of decays from a quarter to nearly one."""
    return -rng.uniform(0.05, 1.4, shape)


def cleared(x: Inputs) -> Inputs | None:
    """Gates of zero at the first token and in the middle, and a very large state.

    What a very small gate would leave of such a state cannot be overlooked.
    """
    if len(x["log_decay"]) == 0:
        return None
    x["log_decay"][[0, len(x["log_decay"]) // 2]] = -np.inf
    return x | {"S": 1e300 * x["S"]}


def picked(inputs: Inputs, *names: str) -> Inputs:
    """Those of the inputs with these names, in this order."""
    return {name: inputs[name] for name in names}
