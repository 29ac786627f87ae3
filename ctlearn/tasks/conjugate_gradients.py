"""Conjugate gradients: how many steps MesaNet's answers take to become exact.

Every step searches one more direction, so d_k steps are enough whatever the keys were,
and fewer if the ridge keeps the directions' weights alike. [vonoswald2025mesanet]
"""

from collections.abc import Sequence

import numpy as np

from ctlearn.mechanism import Inputs
from ctlearn.mixers import mesa_net


def draw(seed: int, T: int, d: int, *, ridge: float, least: float = 0.8) -> Inputs:
    """MesaNet's inputs [T, d]: unit queries and keys, and one ridge for all channels.

    gamma is uniform in (least, 1), beta in (0, 1); values are standard normal.
    """
    rng = np.random.default_rng(seed)
    q, k, v = rng.standard_normal((3, T, d))
    q /= np.linalg.norm(q, axis=1, keepdims=True)
    k /= np.linalg.norm(k, axis=1, keepdims=True)
    return {
        **{"q": q, "k": k, "v": v},
        **{"log_decay": np.log(rng.uniform(least, 1, T)), "beta": rng.uniform(0, 1, T)},
        "ridges": np.full(d, float(ridge)),
    }


def errors(inputs: Inputs, steps: Sequence[int]) -> np.ndarray:
    """Largest difference from the exact answers after so many steps: [len(steps)]."""
    exact, _ = mesa_net.chunkwise(**inputs)
    answers = (mesa_net.chunkwise(**inputs, steps=n)[0] for n in steps)
    return np.array([np.abs(o - exact).max() for o in answers])
