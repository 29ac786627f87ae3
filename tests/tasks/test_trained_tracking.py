"""Trained tracking: its words, its layer by the reference, and that training works."""

import numpy as np
import pytest
import torch

from ctlearn.tasks import state_tracking, trained_tracking
from ctlearn.tasks.trained_tracking import (
    FIVE_BY_SWAPS,
    KINDS,
    THREE,
    D,
    Kind,
)
from ctlearn.tasks.training import ON_A_PROCESSOR

WORDS = (THREE, FIVE_BY_SWAPS)


@pytest.mark.parametrize("words", WORDS)
def test_wanted_are_the_products_of_the_word(words):
    generator = torch.Generator().manual_seed(0)
    drawn = trained_tracking.draw(words.table(), 20, 12, generator)
    tokens, orders = np.array(words.tokens()), np.array(words.orders())
    for read, wanted in zip(*(x.numpy() for x in drawn), strict=True):
        assert (orders[wanted] == state_tracking.products(tokens[read])).all()


@pytest.mark.parametrize("words", WORDS)
def test_an_order_is_odd_if_an_odd_number_of_swaps_makes_it(words):
    swaps = [len(state_tracking.swaps(np.array(x))) for x in words.orders()]
    assert words.odd().tolist() == [n % 2 for n in swaps]


def test_tokens_are_all_orders_or_all_swaps():
    assert len(THREE.tokens()) == len(THREE.orders()) == 6
    assert len(FIVE_BY_SWAPS.orders()) == 120
    swaps = FIVE_BY_SWAPS.tokens()
    assert len(set(swaps)) == 10
    assert all(len(state_tracking.swaps(np.array(x))) == 1 for x in swaps)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_the_layer_is_delta_product_behind_a_table(kind, delta_product_of):
    generator = torch.Generator().manual_seed(1)
    weights = trained_tracking.initial_weights(6, 6, 2, generator)
    word = torch.randint(6, (2, 1, 9), generator=generator)
    beta = trained_tracking.strengths(weights, [kind])
    logits = trained_tracking.layer(weights, beta, word)[1, 0].detach().numpy()
    w = {name: x[1].detach().double().numpy() for name, x in weights.items()}
    at = word[1, 0].numpy()
    by_hand, _ = delta_product_of(w, kind, at, at)
    assert logits == pytest.approx(by_hand, rel=1e-3, abs=1e-4)
    assert w["q"].shape[-1] == D


def test_each_layer_sees_its_own_kind_and_its_own_word():
    """Two kinds at once are the two alone, of the same weights."""
    generator = torch.Generator().manual_seed(2)
    weights = trained_tracking.initial_weights(6, 6, 2, generator)
    word = torch.randint(6, (2, 3, 7), generator=generator)
    kinds = [Kind(2, 1.0), Kind(1, 2.0)]
    beta = trained_tracking.strengths(weights, kinds)
    both = trained_tracking.layer(weights, beta, word)
    for i, kind in enumerate(kinds):
        one = {name: x[i : i + 1] for name, x in weights.items()}
        beta = trained_tracking.strengths(one, [kind])
        alone = trained_tracking.layer(one, beta, word[i : i + 1])
        assert torch.allclose(both[i], alone[0], atol=1e-5)


def test_training_learns():
    where, seen = ON_A_PROCESSOR._replace(seeds=2), []
    found = trained_tracking.train(
        THREE._replace(steps=60),
        [Kind(2, 2.0)],
        tested=12,
        where=where,
        show=lambda steps: seen.append(steps) or steps,
    )
    assert found.right.shape == found.parity.shape == (1, 2, 12)
    assert (found.right <= found.parity).all()
    # late in a word an order is mostly missed, and its parity told in one half at least
    assert (found.right < found.parity)[..., -1].all()
    # chance is a sixth
    assert found.right[..., :4].mean() > 0.3
    assert seen == [range(60)]


def test_one_seed_is_one_result():
    where = ON_A_PROCESSOR._replace(seeds=2)
    words, given = FIVE_BY_SWAPS._replace(steps=2), {"tested": 8, "where": where}
    runs = [
        trained_tracking.train(words, [Kind(1, 1.0)], **given, seed=seed)
        for seed in (0, 0, 1)
    ]
    assert torch.equal(runs[0].right, runs[1].right)
    assert not torch.equal(runs[0].parity, runs[2].parity)
