"""Levels of age: which tokens share one, and how many are in use."""

import numpy as np
import pytest

from ctlearn.buckets import Buckets, carried, level, start


def in_use(T):
    """The tokens at each level after T of them, by merging alone: token s is row s."""
    S = start(np.zeros((T, T)), np.zeros((T, 1)), None)
    for t in range(T):
        B = carried(S, np.ones(T + 1))
        B[0, t] = 1
        S = Buckets(B, np.asarray(t + 1.0))
    return [np.flatnonzero(tokens) for tokens in S.S[:, :, 0]]


@pytest.mark.parametrize("T", [1, 2, 3, 4, 7, 8, 12, 13, 64, 100])
def test_merging_sorts_the_tokens_as_level_says(T):
    for i, tokens in enumerate(in_use(T)):
        assert tokens.tolist() == [s for s in range(T) if level(T - 1, s) == i]


@pytest.mark.parametrize("T", [1, 2, 3, 4, 7, 8, 12, 13, 64, 100])
def test_as_many_levels_are_in_use_as_the_last_token_has_ones_and_one(T):
    sizes = [len(tokens) for tokens in in_use(T)]
    assert sum(sizes) == T
    assert sum(size > 0 for size in sizes) == (T - 1).bit_count() + 1
    assert all(size in (0, 2 ** (i - 1)) for i, size in enumerate(sizes) if i)
    # a token is alone at level 0
    assert sizes[0] == 1


def test_a_level_stays_together():
    """What is at one level at some time is at one level at any later time."""
    t = np.arange(70)
    levels = np.where(t[:, None] >= t, level(t[:, None], t), -1)
    for earlier in range(70):
        seen = levels[earlier, : earlier + 1]
        for i in np.unique(seen):
            later = levels[earlier:, : earlier + 1][:, seen == i]
            assert (later == later[:, :1]).all()


def test_counts_that_do_not_fit_are_refused():
    k, v = np.zeros((2, 5)), np.zeros((2, 3))
    S = Buckets(np.zeros((2, 5, 3)), np.array(9.0))
    sentence = r"^S.S: expected 5 levels after 9 tokens, got 2"
    with pytest.raises(ValueError, match=sentence):
        start(k, v, S)
