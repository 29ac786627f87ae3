"""TTT-MLP: per-token autograd, with and without the released layer's parts."""

import numpy as np
import pytest

from ctlearn.inner import Linear, Training
from ctlearn.mixers import ttt_mlp
from ctlearn.mixers.ttt_linear import averaging_rates
from ctlearn.supplies import Floats


@pytest.mark.parametrize("released", [True, False])
def test_the_layer_is_what_autograd_makes_of_it(released):
    """Each token's loss differentiated by torch at the start of its mini-batch."""
    torch = pytest.importorskip("torch")
    F = torch.nn.functional
    supply, T, d, b = Floats(0), 11, 6, 4
    q, v, k = supply.real("q", T, d), supply.real("v", T, d), supply.unit("k", T, d)
    beta, norm = supply.rate("beta", T), supply.real("n", 2, d)
    S = ttt_mlp.drawn_start(supply, d, d)
    layer = {"reader_rate": averaging_rates(b), "norm": norm} if released else {}
    o, _ = ttt_mlp.chunkwise(q, k, v, beta=beta, S=S, inner_batch=b, **layer)

    def f(x, W_1, b_1, W_2, b_2):
        z = F.gelu(x @ W_1 + b_1, approximate="tanh") @ W_2 + b_2
        gain, shift = map(torch.tensor, norm)
        return x + F.layer_norm(z, (d,), gain, shift, eps=1e-6) if released else z

    start = [torch.tensor(w) for w in S.f]
    for t in range(T):
        i = t % b
        if i == 0:
            total = [torch.zeros_like(w) for w in start]
        at = [w.clone().requires_grad_() for w in start]
        x, y = torch.tensor(k[t]), torch.tensor(v[t])
        (((f(x, *at) - y) ** 2).sum() / 2).backward()
        total = [s + beta[t] * w.grad for s, w in zip(total, at, strict=True)]
        rate = 1 / (i + 1) if released else 1
        now = [w - rate * s for w, s in zip(start, total, strict=True)]
        wanted = f(torch.tensor(q[t]), *now).numpy()
        assert np.allclose(o[t], wanted, rtol=1e-12, atol=1e-12)
        if i == b - 1:
            start = now


def test_a_linear_learner_is_not_a_perceptron():
    k = np.ones((2, 3))
    S = Training.start(Linear(np.zeros((3, 3))))
    with pytest.raises(TypeError, match=r"^S: expected Perceptron, got Linear"):
        ttt_mlp.recurrent(k, k, k, beta=k[:, 0], S=S)
