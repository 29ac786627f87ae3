"""Bits are those of the probabilities; pieces and tables say what they should."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason='no torch: pip install "ctlearn[torch]"')

from ctlearn.train import evaluate  # noqa: E402


@pytest.fixture
def model(text, shape):
    torch.manual_seed(0)
    return shape.build(len(text.alphabet)).double().requires_grad_(False)


def test_bits_are_the_surprise_of_each_character(model, text):
    part = text.held_out[:41]
    found = evaluate.bits_by_place(model, part, 20, most=9)
    assert found.shape == (2, 20)
    shares = model(part[20:40][None])[0][0].softmax(-1)
    wanted = [-np.log2(shares[i, part[21 + i]].item()) for i in range(20)]
    np.testing.assert_allclose(found[1], wanted, rtol=1e-5)


@pytest.mark.parametrize("length", [1, 7, 40, 1000])
def test_pieces_of_any_length_are_one_pass(model, text, length):
    part = text.held_out[:41]
    whole = evaluate.bits_by_place(model, part, 40, most=1)[0]
    found = evaluate.bits_in_pieces(model, part, length)
    np.testing.assert_allclose(found, whole, rtol=1e-5)


def test_a_table_by_hand():
    """Of abaab, a is 3 in 5, and b follows a in 2 of 3; c was never seen."""
    learned, part = torch.tensor([0, 1, 0, 0, 1]), torch.tensor([0, 1, 2])
    found = evaluate.sightings(learned, part, 3, 1)
    assert [(s.tolist(), of.tolist()) for s, of in found] == [
        ([2, 0], [5, 5]),
        ([2, 0], [3, 1]),
    ]
    single = [(n + 2.0 / 3) / (5 + 2.0) for n in (2, 0)]
    pairs = [(2 + 2.0 * single[0]) / (3 + 2.0), (0 + 2.0 * single[1]) / (1 + 2.0)]
    wanted = -np.log2(pairs).mean()
    assert evaluate.table_bits(found, 3, 2.0) == pytest.approx(wanted)


def test_the_shares_of_a_table_sum_to_one():
    learned = torch.randint(4, (50,), generator=torch.Generator().manual_seed(0))
    shares = []
    for last in range(4):
        part = torch.tensor([3, 1, last])
        found = evaluate.sightings(learned, part, 4, 2)
        shares.append(2 ** -evaluate.table_bits(found, 4, 0.7))
    assert sum(shares) == pytest.approx(1)
    assert np.std(shares) > 0.01


def test_decoding_reads_every_character_once_and_weighs_the_state(shape, text):
    model = shape._replace(contestant="attention").build(len(text.alphabet))
    read = []
    forward = model.forward

    def watched(tokens, state):
        read.append(tokens)
        return forward(tokens, state)

    model.forward = watched
    found = evaluate.decoding(model, text.learned, [10, 600], tries=4)
    assert torch.equal(torch.cat(read, 1)[0], text.learned[:604])
    # a key and a value of 8 numbers in two layers, and three inputs of 24 channels
    assert [x.bytes for x in found] == [2 * 4 * (16 * n + 3 * 24) for n in (10, 600)]
    assert all(x.seconds > 0 for x in found)
