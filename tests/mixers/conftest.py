"""What tests of several mechanisms share."""

import pytest


@pytest.fixture
def trained_by_autograd():
    """The weights that each token reads of a model trained by torch, in mini-batches.

    Every loss ||f(k, weights) - v||^2 / 2 is differentiated at the start of its
    mini-batch of b; rate(i) is how much of the sum so far the i-th token sees.
    """
    torch = pytest.importorskip("torch")

    def train(f, start, k, v, beta, *, b, rate=lambda i: 1):
        start = [torch.tensor(w) for w in start]
        for t in range(len(k)):
            i = t % b
            if i == 0:
                total = [torch.zeros_like(w) for w in start]
            at = [w.clone().requires_grad_() for w in start]
            gap = f(torch.tensor(k[t]), *at) - torch.tensor(v[t])
            ((gap**2).sum() / 2).backward()
            total = [s + beta[t] * w.grad for s, w in zip(total, at, strict=True)]
            now = [w - rate(i) * s for w, s in zip(start, total, strict=True)]
            yield now
            if i == b - 1:
                start = now

    return train
