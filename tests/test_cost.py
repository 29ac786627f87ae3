"""The cost formulas, against real arrays and multiplications that are counted."""

from functools import partial

import numpy as np
import pytest

from ctlearn import cost, memory
from ctlearn.buckets import Buckets, read
from ctlearn.mixers import (
    linear_attention,
    log_linear_attention,
    normalised_linear_attention,
)
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

    __radd__ = __sub__ = __add__


def ones(*shape):
    """An array of numbers that count."""
    return np.full(shape, Counted(), dtype=object)


def counted(T, d_k, d_v, form, **options):
    """Multiplications that `form` of linear attention does."""
    q, k, v = (ones(T, d) for d in (d_k, d_k, d_v))
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


def test_a_delta_rule_asks_twice_and_writes_once():
    Counted.done = 0
    memory.step(ones(5), ones(5), ones(3), e=ones(5), S=ones(5, 3))
    assert Counted.done == cost.delta_step_operations(5, 3)


@pytest.mark.parametrize("t", [1, 2, 9, 16])
def test_log_linear_attention_reads_every_level(t):
    n = 1 if t == 1 else int(np.ceil(np.log2(t))) + 1
    Counted.done = 0
    np.outer(ones(5), ones(3))
    read(ones(5), ones(n), ones(n, 5, 3), Buckets(ones(n, 5, 3), np.asarray(0.0)))
    assert Counted.done == cost.log_linear_step_operations(t, 5, 3)


def test_latent_attention_is_asked_without_making_its_keys_and_values():
    rng, shapes = np.random.default_rng(0), [(7, 4), (4, 6), (4, 5), (6,)]
    c, W_K, W_V, q = (rng.standard_normal(shape) for shape in shapes)

    def answer(q, k, v):
        weights = np.exp(k @ q)
        return weights / weights.sum() @ v

    expected = answer(q, c @ W_K, c @ W_V)
    np.testing.assert_allclose(answer(W_K @ q, c, c) @ W_V, expected)
    Counted.done = 0
    _ = ones(7, 4) @ ones(4), ones(7) @ ones(7, 4)
    assert Counted.done == cost.latent_step_operations(7, 4)
    assert c.nbytes == cost.latent_bytes(7, 4, dtype="float64")


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


@pytest.mark.parametrize("T", [1, 2, 8, 9, 21])
def test_log_linear_attention_keeps_a_state_for_each_level(T):
    q = np.ones((T, 4))
    gates = {"log_decay": np.zeros(T), "levels": np.ones((T, 9))}
    _, S = log_linear_attention.recurrent(q, q, np.ones((T, 3)), **gates)
    assert S.S.nbytes == cost.levels_bytes(T, 4, 3, dtype="float64")


def test_every_fourth_layer_pays_for_a_cache():
    x = cost.Sizes(heads=2, d_k=4, d_v=6, window=8, rank=5)
    pattern = cost.PATTERNS["every_fourth"]
    found = cost.pattern_cost(pattern, 6, 100, x)
    full, fixed = cost.full(100, x), cost.fixed(100, x)
    assert found.cache == full.cache
    assert found.state == 5 * fixed.state
    assert found.operations == 5 * fixed.operations + full.operations


def test_a_latent_layer_keeps_one_vector_and_asks_it_with_every_head():
    x = cost.Sizes(heads=2, d_k=4, d_v=6, window=8, rank=5)
    found = cost.latent(100, x)
    assert found == cost.Cost(cache=100 * 5 * 2, state=0, operations=2 * 2 * 100 * 5)


def test_cache_and_state_are_equal_where_the_formula_says():
    assert cost.equal_bytes(64, 64) == 32
    T = int(cost.equal_bytes(6, 3))
    assert cost.cache_bytes(T, 6, 3, heads=5) == cost.state_bytes(6, 3, heads=5)


@pytest.mark.parametrize("T", [3, 100])
def test_a_stack_adds_up_what_its_layers_say(T):
    x = cost.Sizes(heads=2, d_k=4, d_v=6, window=8, rank=5)
    pattern = [lambda T: cost.fixed(T, x).state] * 2
    sizes = {"d_k": 4, "d_v": 6, "heads": 2, "dtype": "bfloat16"}
    pattern += [partial(cost.window_bytes, window=8, **sizes)]
    found = cost.stack_bytes(T, pattern, 7)
    assert found == 5 * cost.fixed(T, x).state + 2 * cost.windowed(T, x).cache
    with pytest.raises(ValueError, match="pattern"):
        cost.stack_bytes(T, [], 2)
    with pytest.raises(ValueError, match="pattern"):
        cost.pattern_cost([], 2, T, x)


def test_no_chunk_size_beats_the_best():
    model = {"per_chunk": 7.6e-6, "per_operation": 1 / 38e9}
    best = cost.best_chunk_size(64, **model)
    sizes = np.geomspace(best / 8, best * 8, 101)
    seconds = [cost.chunkwise_seconds(4096, 64, C, **model) for C in sizes]
    assert np.argmin(seconds) == 50


def test_a_chunk_of_no_tokens_is_refused():
    with pytest.raises(ValueError, match="chunk_size"):
        cost.chunkwise_operations(4, 2, 2, 0)
