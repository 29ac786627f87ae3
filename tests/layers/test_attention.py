"""Attention in torch is the NumPy definition, whole and in pieces."""

import itertools

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason='no torch: pip install "ctlearn[torch]"')

from ctlearn.layers import attention  # noqa: E402
from ctlearn.mixers import sliding_window_attention, softmax_attention  # noqa: E402

# without a window, one that is shorter than a block, one, and one that is longer
WINDOWS = (None, 1, 3, 128, 150)


def drawn(T, *, B=2, H=3, d_k=6, d_v=4, seed=0):
    rng = torch.Generator().manual_seed(seed)
    return [
        2 * torch.randn(B, T, H, d, generator=rng, dtype=torch.float64)
        for d in (d_k, d_k, d_v)
    ]


def attend(window, *tokens, **more):
    if window is None:
        return attention.softmax_attention(*tokens, **more)
    return attention.sliding_window_attention(*tokens, window=window, **more)


def by_numpy(window, *tokens):
    reference, more = softmax_attention, {}
    if window is not None:
        reference, more = sliding_window_attention, {"window": window}
    o = torch.zeros_like(tokens[2])
    for b, h in itertools.product(range(o.shape[0]), range(o.shape[2])):
        head = (x[b, :, h].numpy() for x in tokens)
        o[b, :, h] = torch.tensor(reference.recurrent(*head, **more)[0])
    return o


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("T", [1, 2, 17, 128, 300])
def test_attention_is_the_definition(window, T):
    tokens = drawn(T)
    o, S = attend(window, *tokens)
    torch.testing.assert_close(o, by_numpy(window, *tokens), rtol=1e-11, atol=1e-12)
    assert S.K.shape[1] == S.V.shape[1] == min(T, window or T)


@pytest.mark.parametrize("window", WINDOWS)
def test_in_pieces_is_in_one_pass(window):
    """Case 20: many tokens with a cache, one, and none."""
    tokens, angle = drawn(301), torch.tensor([0.7, 0.01], dtype=torch.float64)
    o, last = attend(window, *tokens, angle=angle)
    S, pieces = None, []
    for part in zip(*(x.split([140, 0, 1, 1, 159], 1) for x in tokens), strict=True):
        o_part, S = attend(window, *part, angle=angle, S=S)
        pieces.append(o_part)
    torch.testing.assert_close(torch.cat(pieces, 1), o, rtol=1e-11, atol=1e-12)
    assert all(map(torch.equal, S, last))


@pytest.mark.parametrize("window", WINDOWS)
def test_turning_makes_scores_depend_on_distance(window):
    """A pair of channels is a complex number: the score is that of turned ones."""
    q, k, v = drawn(40)
    angle = torch.tensor([0.7, 0.01], dtype=torch.float64)
    turn = torch.polar(
        torch.ones(40, 1, 2, dtype=torch.float64),
        # from any first position
        (torch.arange(40, dtype=torch.float64) + 11)[:, None, None] * angle,
    )

    def turned(x):
        pairs = torch.view_as_complex(x[..., :4].unflatten(-1, (2, 2)).contiguous())
        return torch.cat([torch.view_as_real(pairs * turn).flatten(-2), x[..., 4:]], -1)

    o, _ = attend(window, q, k, v, angle=angle)
    expected, _ = attend(window, turned(q), turned(k), v)
    torch.testing.assert_close(o, expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("window", WINDOWS)
def test_gradients_are_those_of_differences(window):
    tokens = [x.requires_grad_() for x in drawn(5, B=1, H=1, d_k=2, d_v=2)]
    _, S = attend(window, *drawn(3, B=1, H=1, d_k=2, d_v=2, seed=1))
    cache = [x.requires_grad_() for x in S]

    def outputs(q, k, v, *cache):
        o, S = attend(window, q, k, v, S=attention.Cache(*cache))
        return o, *S

    assert torch.autograd.gradcheck(outputs, [*tokens, *cache])


@pytest.mark.parametrize("window", [None, 3])
def test_nothing_is_shared_with_what_was_given(window):
    tokens = drawn(2)
    kept = [x.clone() for x in tokens]
    _, S = attend(window, *tokens)
    for x in S:
        x.zero_()
    assert all(map(torch.equal, tokens, kept))


def test_a_cache_of_a_window_is_no_longer_than_it():
    _, S = attend(3, *drawn(1000))
    assert S.K.untyped_storage().nbytes() == S.K.numel() * S.K.element_size()


@pytest.mark.parametrize("window", [None, 3])
def test_what_does_not_fit_is_named(window):
    q, k, v = drawn(4)
    _, S = attend(window, q, k, v)
    with pytest.raises(ValueError, match="v: T is 3"):
        attend(window, q, k, v[:, :3])
    with pytest.raises(ValueError, match="q: d_k is 5"):
        attend(window, q[..., :5], k, v)
    with pytest.raises(ValueError, match=r"S\.K: H is 2"):
        attend(window, q, k, v, S=attention.Cache(S.K[:, :, :2], S.V))
    with pytest.raises(ValueError, match="window"):
        attend(0, q, k, v)


def test_float32_is_as_close_as_numbers_allow():
    tokens = drawn(200)
    o, _ = attend(None, *(x.float() for x in tokens))
    expected = by_numpy(None, *tokens)
    assert np.abs(o.numpy() - expected.numpy()).max() < 1e-5
