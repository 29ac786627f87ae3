"""Layers whose tensors go to the kernels: the same numbers, gradients and one graph."""

import pytest

torch = pytest.importorskip("torch", reason='no torch: pip install "ctlearn[torch]"')

from ctlearn.layers import backward, by_device  # noqa: E402
from ctlearn.layers.delta_product import DeltaProduct  # noqa: E402
from ctlearn.layers.preconditioned_delta_rule import (  # noqa: E402
    PreconditionedDeltaRule,
)
from ctlearn.layers.rwkv7 import RWKV7  # noqa: E402

# an erasure along keys, along keys of its own, and by channel along keys of its own
KINDS = (DeltaProduct, PreconditionedDeltaRule, RWKV7)


@pytest.fixture
def on_kernels(device, monkeypatch):
    """Where the kernels run is called a GPU."""
    monkeypatch.setattr(by_device, "GPU", device)
    return device


def both(kind, device):
    """The layer as it is, and the same with torch's form; tokens for it."""
    layers = []
    for how in ({}, {"mix": backward.chunkwise}):
        torch.manual_seed(0)
        layers.append(kind(8, n_heads=1, d_k=4, d_v=4, **how).to(device))
    for layer in layers:
        torch.manual_seed(1)
        torch.nn.init.normal_(layer.out.weight)
    return *layers, torch.randn(1, 19, 8, device=device)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_layer_runs_on_the_kernels(kind, on_kernels):
    """Through a prompt, and then token by token, as decoding has them."""
    layer, same, x = both(kind, on_kernels)
    prompt, *tokens = x.split([17, 1, 1], 1)
    with torch.no_grad():
        y, state = layer(prompt)
        outputs = [y]
        for token in tokens:
            y, state = layer(token, state)
            outputs.append(y)
        expected, _ = same(x)
    torch.testing.assert_close(torch.cat(outputs, 1), expected, rtol=1e-4, atol=1e-5)


def test_a_layer_learns_on_the_kernels(on_kernels):
    """Case 45: by channel too, with an e of its own read first."""
    layer, same, x = both(RWKV7, on_kernels)
    found = []
    for form in (layer, same):
        # what starts at zero hides what is in front of it
        torch.manual_seed(2)
        for weight in form.parameters():
            if weight.dim() > 1 and not weight.any():
                torch.nn.init.normal_(weight)
        y, _ = form(x)
        found.append(torch.autograd.grad(y.square().sum(), list(form.parameters())))
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)


def test_a_layer_on_the_kernels_is_one_graph(on_kernels):
    """The choice is made while it is traced."""
    torch.compiler.reset()
    layer, same, x = both(DeltaProduct, on_kernels)
    compiled = torch.compile(layer, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(x)[0], same(x)[0], rtol=1e-4, atol=1e-5)
