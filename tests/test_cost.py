"""The cost formulas, against real arrays and multiplications that are counted."""

import numpy as np
import pytest

from ctlearn import cost
from ctlearn.mixers import linear_attention, normalised_linear_attention
from ctlearn.mixers import softmax_attention as softmax


class Counted:
    """A number that counts how often one like it was multiplied."""

    done = 0

    def __init__(self, value=1):
        self.value = value

    def __mul__(self, other):
        Counted.done += 1
        return self

    __rmul__ = __mul__

    def __add__(self, other):
        return self

    __radd__ = __add__


def counted(T, d_k, d_v, form, **options):
    """Multiplications that `form` of linear attention does."""
    q, k, v = (np.full((T, d), Counted(), dtype=object) for d in (d_k, d_k, d_v))
    Counted.done = 0
    form(q, k, v, **options)
    return Counted.done


@pytest.mark.parametrize(("T", "d_k", "d_v"), [(1, 1, 1), (7, 2, 3), (10, 4, 3)])
def test_operations_are_those_that_the_references_do(T, d_k, d_v):
    assert counted(T, d_k, d_v, linear_attention.recurrent) == (
        cost.recurrent_operations(T, d_k, d_v)
    )
    assert counted(T, d_k, d_v, linear_attention.parallel) == (
        cost.parallel_operations(T, d_k, d_v) + 2 * T * d_k * d_v
    )
    for chunk_size in (1, 3, T, T + 5):
        assert counted(
            T, d_k, d_v, linear_attention.chunkwise, chunk_size=chunk_size
        ) == cost.chunkwise_operations(T, d_k, d_v, chunk_size)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_bytes_are_those_of_real_arrays(dtype):
    T, d_k, d_v = 11, 4, 3
    q, k, v = (np.ones((T, d), dtype=dtype) for d in (d_k, d_k, d_v))
    _, S = softmax.recurrent(q, k, v)
    assert S.K.nbytes + S.V.nbytes == cost.cache_bytes(T, d_k, d_v, dtype=dtype)
    _, S = linear_attention.recurrent(q, k, v)
    assert S.nbytes == cost.state_bytes(d_k, d_v, dtype=dtype)
    _, S = normalised_linear_attention.recurrent(q, k, v)
    assert S.S.nbytes + S.n.nbytes == (
        cost.state_bytes(d_k, d_v, normaliser=True, dtype=dtype)
    )


def test_cache_and_state_are_equal_where_the_formula_says():
    assert cost.equal_bytes(64, 64) == 32
    T = int(cost.equal_bytes(6, 3))
    assert cost.cache_bytes(T, 6, 3, heads=5) == cost.state_bytes(6, 3, heads=5)


def test_no_chunk_size_beats_the_best():
    model = {"per_chunk": 7.6e-6, "per_operation": 1 / 38e9}
    best = cost.best_chunk_size(64, **model)
    sizes = np.geomspace(best / 8, best * 8, 101)
    seconds = [cost.chunkwise_seconds(4096, 64, C, **model) for C in sizes]
    assert np.argmin(seconds) == 50


def test_a_chunk_of_no_tokens_is_refused():
    with pytest.raises(ValueError, match="chunk_size"):
        cost.chunkwise_operations(4, 2, 2, 0)
