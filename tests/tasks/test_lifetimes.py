"""Lifetimes: a million tokens in constant memory, and errors as they are foreseen."""

import json
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest

from ctlearn.tasks import lifetimes


def test_blocks_are_one_stream_whose_rule_changes_half_way():
    blocks = list(lifetimes.stream(0, 5000, d=6, noise=0.2, block=1000))
    assert [len(x.k) for x in blocks] == [1000] * 5
    first = [np.array_equal(x.W, blocks[0].W) for x in blocks]
    assert first == [True, True, True, False, False]
    even = [x.W for x in lifetimes.stream(0, 40, block=10)]
    assert [np.array_equal(W, even[0]) for W in even] == [True, True, False, False]
    assert all(a.dtype == np.float32 for x in blocks for a in x)
    for k, v, W in blocks:
        assert (k**2).sum(axis=1) == pytest.approx(np.ones(1000), abs=1e-5)
        assert (v - k @ W).std() == pytest.approx(0.2, rel=0.05)
    assert not np.array_equal(blocks[0].k, blocks[1].k)
    lengths = [len(x.k) for x in lifetimes.stream(0, 2500, block=1000)]
    assert lengths == [1000, 1000, 500]


# Every hundredth moment, as JSON: what is kept of a life is held, too.
LIFE = """
import json, sys
from itertools import islice
from ctlearn.tasks import lifetimes
tokens, kept = int(sys.argv[1]), []
blocks = lifetimes.stream(0, tokens)
if "keep" in sys.argv:
    blocks = (x for x in blocks if kept.append(x) is None)
moments = islice(lifetimes.live(blocks, beta=0.1, noise=0.5), 99, None, 100)
print(json.dumps([moment._asdict() for moment in moments]))
"""


def lived(*arguments):
    """A life in a process of its own: one that has freed memory would use it again."""
    command = [sys.executable, "-P", "-c", LIFE, *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [lifetimes.Moment(**moment) for moment in json.loads(done.stdout)]


def grown(life):
    """By how much of it the process has grown since its hundred thousandth token."""
    return max(moment.held for moment in life) / life[0].held - 1


def test_a_million_tokens_in_constant_memory(record_property):
    life = lived("1000000")
    assert [moment.tokens for moment in life] == list(
        range(100_000, 1_000_001, 100_000)
    )
    assert {moment.state for moment in life} == {16 * 16 * 4}
    record_property("growth over 900 000 tokens", f"{grown(life):.2%} (1 % allowed)")
    assert grown(life) < 0.01
    # the rates' floor, beta s^2 / (2 - beta), before and after
    for moment in (life[4], life[9]):
        assert moment.delta == pytest.approx(0.1 * 0.25 / 1.9, rel=0.5)
    # a sum of all: next to nothing before, and half of each rule after
    assert life[4].added < 1e-3
    assert life[9].added == pytest.approx(0.5, rel=0.3)


def test_what_is_kept_is_noticed():
    """The same measure, on a reader that keeps its blocks."""
    life = lived("200000", "keep")
    assert grown(life) * life[0].held > 0.9 * lifetimes.cache_bytes(100_000, 16)


@pytest.mark.parametrize("system", [True, False], ids=["system", "Python"])
def test_what_is_held_counts_what_is_added(monkeypatch, tmp_path, system):
    if not system:
        monkeypatch.setattr(lifetimes, "_MEMORY", tmp_path / "no such account")
    try:
        before = lifetimes.held()
        added = np.empty(8_000_000)
        if system and lifetimes._MEMORY.exists():
            # asked for, and not there before it is written
            assert lifetimes.held() - before < 0.1 * added.nbytes
        added[:] = 1
        assert lifetimes.held() - before >= 0.9 * added.nbytes
    finally:
        tracemalloc.stop()


def test_errors_are_those_of_the_states():
    """Both learners again, token by token."""
    blocks = list(lifetimes.stream(3, 90, d=4, noise=0.3, block=30))
    life = list(lifetimes.live(iter(blocks), beta=0.2, noise=0.3))
    S, total, tokens = np.zeros((4, 4)), np.zeros((4, 4)), 0
    for block, moment in zip(blocks, life, strict=True):
        for k, v in zip(block.k.astype(float), block.v.astype(float), strict=True):
            S = S + 0.2 * np.outer(k, v - S.T @ k)
            total, tokens = total + np.outer(k, v), tokens + 1
        # the step of `eq-future-error`, for values with noise
        added = total / (1 + (tokens - 1) / 4 + 0.3**2) - block.W
        assert moment.tokens == tokens
        assert moment.delta == pytest.approx(((S - block.W) ** 2).mean(), rel=1e-3)
        assert moment.added == pytest.approx((added**2).mean(), rel=1e-3)


def test_a_cache_weighs_its_keys_and_values():
    assert lifetimes.cache_bytes(1_000_000, 16) == 128_000_000
    assert lifetimes.cache_bytes(10, 8, width=2) == 320
