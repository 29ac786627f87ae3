"""TTT-MLP: per-token autograd, with and without the released layer's parts."""

import numpy as np
import pytest

from ctlearn.inner import Linear, Training
from ctlearn.mixers import ttt_mlp
from ctlearn.mixers.ttt_linear import averaging_rates
from ctlearn.supplies import Floats


@pytest.mark.parametrize("released", [True, False])
def test_the_layer_is_what_autograd_makes_of_it(released, trained_by_autograd):
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

    def rate(i):
        return 1 / (i + 1) if released else 1

    trained = trained_by_autograd(f, S.f, k, v, beta, b=b, rate=rate)
    for t, now in enumerate(trained):
        wanted = f(torch.tensor(q[t]), *now).numpy()
        assert np.allclose(o[t], wanted, rtol=1e-12, atol=1e-12)
    assert t == T - 1


def test_a_linear_learner_is_not_a_perceptron():
    k = np.ones((2, 3))
    S = Training.start(Linear(np.zeros((3, 3))))
    with pytest.raises(TypeError, match=r"^S: expected Perceptron, got Linear"):
        ttt_mlp.recurrent(k, k, k, beta=k[:, 0], S=S)
