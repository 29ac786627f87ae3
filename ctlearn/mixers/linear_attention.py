"""Linear attention: add every pair to one matrix, and ask the matrix.

    S_t = S_{t-1} + k_t v_t',   o_t = S_t' q_t

The reassociated sum over j <= t of (q_t'k_j) v_j: nothing is normalised and nothing
is forgotten. [katharopoulos2020, eqs. 10-12, without feature map and normaliser;
schlag2021, eq. 8]
"""

import numpy as np

from ctlearn.mechanism import Cell, Mechanism, Place, Write
from ctlearn.memory import initial_state, scan
from ctlearn.shapes import checked, checked_step


@checked_step
def step(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, *, S: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Write one pair, answer one query: 2 d_k d_v multiplications."""
    S = S + np.outer(k, v)
    return S.T @ q, S


@checked
def recurrent(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, *, S: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """One token after another, O(T d_k d_v)."""
    return scan(step, q, k, v, S=initial_state(k, v, S))


@checked
def parallel(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, *, S: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Every query against every key, O(T^2 (d_k + d_v))."""
    S = initial_state(k, v, S)
    o = q @ S + np.tril(q @ k.T) @ v
    return o, S + k.T @ v


@checked
def chunkwise(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    *,
    S: np.ndarray | None = None,
    chunk_size: int = 64,
) -> tuple[np.ndarray, np.ndarray]:
    """Parallel inside a chunk, recurrent between, O(T (C d_k + C d_v + d_k d_v))."""
    S = initial_state(k, v, S)
    o = np.empty_like(v)
    for start in range(0, len(k), chunk_size):
        c = slice(start, start + chunk_size)
        o[c] = q[c] @ S + np.tril(q[c] @ k[c].T) @ v[c]
        S = S + k[c].T @ v[c]
    return o, S


def write(k: np.ndarray, v: np.ndarray) -> Write:
    """Write the value at the key, erase nothing, keep everything."""
    return Write(k=k, z=v)


MECHANISM = Mechanism(
    module=__name__,
    title="Linear attention",
    citations=("katharopoulos2020", "schlag2021"),
    chapter="02_the_trapdoor",
    inputs={"q": "real", "k": "real", "v": "real"},
    place=Place(
        cell=Cell("linear map", "dot product", "one step", "every token", "none"),
        function_class="linear map",
        objective="dot product",
        optimiser="gradient descent, step size 1",
        schedule="every token, which is the same as all at once",
        control="none",
        state="d_k * d_v",
    ),
)
