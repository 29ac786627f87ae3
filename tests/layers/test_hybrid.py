"""A stack follows its pattern, and may be run in pieces."""

from functools import partial

import pytest

torch = pytest.importorskip("torch", reason='no torch: pip install "ctlearn[torch]"')

from ctlearn.layers.gated_delta_rule import GatedDeltaRule  # noqa: E402
from ctlearn.layers.hybrid import Hybrid  # noqa: E402
from ctlearn.layers.softmax_attention import SoftmaxAttention  # noqa: E402

SIZES = {"n_heads": 2, "d_k": 4, "d_v": 4}
GATED, EXACT = partial(GatedDeltaRule, **SIZES), partial(SoftmaxAttention, **SIZES)


@pytest.fixture
def hybrid():
    torch.manual_seed(0)
    stack = Hybrid(8, n_layers=6, pattern=[GATED, GATED, GATED, EXACT])
    return stack.double().requires_grad_(False)


@pytest.fixture
def x():
    rng = torch.Generator().manual_seed(1)
    return torch.randn(2, 21, 8, generator=rng, dtype=torch.float64)


def test_mixers_follow_the_pattern(hybrid):
    kinds = [type(block.mixer) for block in hybrid.blocks]
    assert kinds == [*[GatedDeltaRule] * 3, SoftmaxAttention, *[GatedDeltaRule] * 2]


def test_no_two_blocks_share_weights(hybrid):
    places = {p.data_ptr() for p in hybrid.parameters()}
    assert len(places) == len(list(hybrid.parameters()))


@pytest.mark.parametrize("lengths", [[20, 1], [1, 1, 19], [13, 8]])
def test_in_pieces_is_in_one_pass(hybrid, x, lengths):
    """Case 25."""
    pieces, state = [], None
    for piece in x.split(lengths, 1):
        y, state = hybrid(piece, state)
        pieces.append(y)
    torch.testing.assert_close(torch.cat(pieces, 1), hybrid(x)[0])


def test_the_future_is_not_read(hybrid, x):
    """Case 11."""
    changed = x.clone()
    changed[:, 9:] += 1
    assert torch.equal(hybrid(x)[0][:, :9], hybrid(changed)[0][:, :9])


@pytest.mark.parametrize("wrong", [{"n_layers": 0}, {"pattern": []}])
def test_what_cannot_be_is_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Hybrid(8, **({"n_layers": 1, "pattern": [GATED]} | wrong))
