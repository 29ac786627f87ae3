"""Lifetimes: a million tokens in constant memory, and errors as they are foreseen."""

import numpy as np
import pytest

from ctlearn.tasks import lifetimes


def test_blocks_are_one_stream_whose_rule_changes_half_way():
    blocks = list(lifetimes.stream(0, 5000, d=6, noise=0.2, block=1000))
    assert [len(x.k) for x in blocks] == [1000] * 5
    first = [np.array_equal(x.W, blocks[0].W) for x in blocks]
    assert first == [True, True, True, False, False]
    assert all(a.dtype == np.float32 for x in blocks for a in x)
    for k, v, W in blocks:
        assert (k**2).sum(axis=1) == pytest.approx(np.ones(1000), abs=1e-5)
        assert (v - k @ W).std() == pytest.approx(0.2, rel=0.05)
    assert not np.array_equal(blocks[0].k, blocks[1].k)
    lengths = [len(x.k) for x in lifetimes.stream(0, 2500, block=1000)]
    assert lengths == [1000, 1000, 500]


def test_a_million_tokens_in_constant_memory():
    """What the process holds grows by under one in a hundred once it has warmed up."""
    blocks = lifetimes.stream(0, 1_000_000)
    life = list(lifetimes.live(blocks, beta=0.1, noise=0.5))
    assert life[-1].tokens == 1_000_000
    assert {moment.state for moment in life} == {16 * 16 * 4}
    warm, rest = life[99], life[100:]
    grown = max(moment.held for moment in rest) / warm.held - 1
    assert grown < 0.01
    # a list that keeps every block would be noticed
    assert lifetimes.cache_bytes(900_000, 16) > 0.1 * warm.held
    # the rates' floor, beta s^2 / (2 - beta), before and after
    for moment in (life[499], life[999]):
        assert moment.delta == pytest.approx(0.1 * 0.25 / 1.9, rel=0.5)
    # a sum of all: next to nothing before, and half of each rule after
    assert life[499].added < 1e-3
    assert life[999].added == pytest.approx(0.5, rel=0.3)


def test_what_is_kept_is_noticed():
    """The same measure, on a reader that keeps its blocks."""
    kept = []
    blocks = lifetimes.stream(0, 150_000)
    watched = (x for x in blocks if kept.append(x) is None)
    life = list(lifetimes.live(watched, beta=0.1, noise=0.5))
    assert life[-1].held - life[49].held > 0.5 * lifetimes.cache_bytes(100_000, 16)


def test_a_cache_weighs_its_keys_and_values():
    assert lifetimes.cache_bytes(1_000_000, 16) == 128_000_000
    assert lifetimes.cache_bytes(10, 8, width=2) == 320
