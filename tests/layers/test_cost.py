"""The bytes that `ctlearn.cost` says are those of what layers carry on."""

from functools import partial

import pytest

torch = pytest.importorskip("torch", reason='no torch: pip install "ctlearn[torch]"')

from ctlearn import cost  # noqa: E402
from ctlearn.layers.hybrid import Hybrid  # noqa: E402
from ctlearn.layers.kimi_delta_attention import KimiDeltaAttention  # noqa: E402
from ctlearn.layers.sliding_window_attention import (  # noqa: E402
    SlidingWindowAttention,
)
from ctlearn.layers.softmax_attention import SoftmaxAttention  # noqa: E402

SIZES = {"n_heads": 2, "d_k": 4, "d_v": 6}
LAYERS = {
    cost.full: partial(SoftmaxAttention, **SIZES),
    cost.windowed: partial(SlidingWindowAttention, window=8, **SIZES),
    cost.fixed: partial(KimiDeltaAttention, **SIZES),
}
PATTERNS = {
    name: pattern
    for name, pattern in cost.PATTERNS.items()
    if {memory for layer in pattern for memory in layer} <= set(LAYERS)
}


def tensors(state):
    """All tensors in a state of records."""
    if isinstance(state, torch.Tensor):
        return [state]
    return [] if state is None else [x for part in state for x in tensors(part)]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("T", [5, 21])
@pytest.mark.parametrize("name", PATTERNS)
def test_a_stack_carries_the_bytes_of_its_pattern(name, T, dtype):
    # memories beside each other cost what they cost one after another
    flat = [LAYERS[memory] for layer in PATTERNS[name] for memory in layer]
    times = 1 if len(flat) > len(PATTERNS[name]) else 2
    stack = Hybrid(8, n_layers=times * len(flat), pattern=flat).to(
        getattr(torch, dtype)
    )
    x = torch.ones(1, T, 8, dtype=getattr(torch, dtype))
    with torch.no_grad():
        _, states = stack(x)
    sizes = cost.Sizes(2, 4, 6, window=8, rank=5, dtype=dtype)
    n_layers = times * len(PATTERNS[name])
    found = cost.pattern_cost(PATTERNS[name], n_layers, T, sizes)
    assert sum(x.nbytes for x in tensors(states)) == found.cache + found.state


def test_most_patterns_are_of_layers_that_are_there():
    assert set(PATTERNS) == {"softmax", "every_fourth", "window", "state"}
