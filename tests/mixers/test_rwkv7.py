"""RWKV-7: two write directions, and a transition that may stretch."""

import numpy as np

from ctlearn.mixers import rwkv7
from ctlearn.supplies import Floats, float_difference


def test_it_is_diagonal_plus_low_rank():
    """S_t = (Diag(w) + b a') S + k v' with a = -kappa and b = a kappa."""
    x = rwkv7.MECHANISM.draw(Floats(0), 20, 6, 5)
    o, _ = rwkv7.chunkwise(**x, chunk_size=6)
    S = np.zeros((6, 5))
    for t in range(20):
        low_rank = np.outer(x["a"][t] * x["kappa"][t], -x["kappa"][t])
        S = (np.diag(np.exp(x["log_decay"][t])) + low_rank) @ S
        S = S + np.outer(x["k"][t], x["v"][t])
        assert float_difference(o[t], S.T @ x["q"][t]).equal


def test_the_norm_of_the_transition_reaches_two_over_root_three_and_no_more():
    """Without decay; the transpose of gated delta rule 2's transition."""
    largest = 0.0
    supply = Floats(7)
    for _ in range(500):
        kappa, a = supply.unit("kappa", 4), supply.rate("a", 4)
        norm = np.linalg.norm(np.eye(4) - np.outer(a * kappa, kappa), 2)
        largest = max(largest, norm)
    assert 1.01 < largest <= 2 / np.sqrt(3)
    kappa, a = np.ones(3) / np.sqrt(3), np.array([1.0, 0, 0])
    norm = np.linalg.norm(np.eye(3) - np.outer(a * kappa, kappa), 2)
    assert float_difference(np.array(norm), np.array(2 / np.sqrt(3))).equal
