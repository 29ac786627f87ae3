"""The short convolution is its sum, in pieces of any length."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason='no torch: pip install "ctlearn[torch]"')

from ctlearn.layers.convolution import Convolution  # noqa: E402

WIDTHS = (1, 2, 4)


def drawn(width, T=11):
    torch.manual_seed(0)
    x = torch.randn(2, T, 3, dtype=torch.float64)
    return Convolution(3, width).double().requires_grad_(False), x


@pytest.mark.parametrize("width", WIDTHS)
def test_it_is_the_sum(width):
    convolution, x = drawn(width)
    y, _ = convolution(x, None)
    weight, padded = convolution.weight.numpy(), np.pad(x, ((0, 0), (width, 0), (0, 0)))
    for t in range(11):
        expected = sum(weight[i] * padded[:, width + t - i] for i in range(width))
        expected = expected / (1 + np.exp(-expected))
        np.testing.assert_allclose(y[:, t], expected, rtol=1e-12)


@pytest.mark.parametrize("lengths", [[1] * 11, [2, 9], [1, 2, 8], [0, 11], [10, 1]])
@pytest.mark.parametrize("width", WIDTHS)
def test_in_pieces_is_in_one_pass(width, lengths):
    """Case 24: pieces shorter than what must be remembered."""
    convolution, x = drawn(width)
    y, last = convolution(x, None)
    recent, pieces = None, []
    for piece in x.split(lengths, 1):
        y_piece, recent = convolution(piece, recent)
        pieces.append(y_piece)
    torch.testing.assert_close(torch.cat(pieces, 1), y)
    assert torch.equal(recent, last)
    assert recent.shape == (2, width - 1, 3)


def test_gradients_pass_through_what_is_remembered():
    convolution, x = drawn(4, T=2)
    recent = torch.randn(2, 3, 3, dtype=torch.float64, requires_grad=True)
    convolution.requires_grad_(True)

    def outputs(x, recent, weight):
        return torch.func.functional_call(convolution, {"weight": weight}, (x, recent))

    inputs = (x.requires_grad_(), recent, convolution.weight)
    assert torch.autograd.gradcheck(outputs, inputs)


def test_weights_start_as_those_of_torch_do():
    weight = Convolution(10_000, 4).weight
    assert weight.abs().max() <= 0.5
    # a uniform law's deviation is its half-width over sqrt(3)
    assert abs(weight.std().item() - 0.5 / 3**0.5) < 0.01


def test_a_width_of_none_is_refused():
    with pytest.raises(ValueError, match="width"):
        Convolution(3, 0)
