"""TTT in torch: the NumPy recurrence in mini-batches, in pieces, and its layers."""

import itertools

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason='no torch: pip install "ctlearn[torch]"')

from ctlearn import inner as reference  # noqa: E402
from ctlearn.layers import inner  # noqa: E402
from ctlearn.layers.ttt_linear import TTTLinear  # noqa: E402
from ctlearn.layers.ttt_mlp import TTTMLP  # noqa: E402
from ctlearn.mixers import ttt_linear, ttt_mlp  # noqa: E402

# the learner's hidden layers, in keys, and whether it has a norm
LEARNERS = {
    "linear": ((), False),
    "affine with norm": ((), True),
    "perceptron": ((4,), False),
    "perceptron with norm": ((4,), True),
}
B, H = 2, 2


def drawn(name, T, b=4, d=(6, 5), heads=(B, H), seed=0):
    """Tokens, and a start of small weights."""
    (hidden, normed), rng = LEARNERS[name], np.random.default_rng(seed)
    d_k, d_v = (d[0], d[0]) if normed else d

    def normal(*shape):
        return torch.tensor(rng.normal(size=shape))

    k = torch.nn.functional.normalize(normal(*heads[:1], T, heads[1], d_k), dim=-1)
    x = {"q": normal(*k.shape), "k": k, "v": normal(*k.shape[:3], d_v)}
    x["beta"] = torch.tensor(rng.uniform(size=k.shape[:3])) / 4
    if normed:
        x["reader_rate"] = torch.tensor(rng.uniform(size=b))
        x["norm"] = normal(heads[1], 2, d_v)
    if name != "linear":
        sizes = [d_k, *(n * d_k for n in hidden), d_v]
        f = [
            inner.Affine(normal(*heads, *pair) / 3, normal(*heads, pair[1]) / 3)
            for pair in itertools.pairwise(sizes)
        ]
        x["S"] = inner.Training.start(f, x["k"], x["v"])
    return x | {"inner_batch": b}


def tensors(S):
    """Those of a state."""
    return [x for x in (*itertools.chain(*S.f), S.k, S.v, S.beta) if x is not None]


def learner(f, b, h):
    """One sequence and head of a torch learner, as NumPy."""
    weights = [x[b, h].numpy() for layer in f for x in layer if x is not None]
    kinds = {1: reference.Linear, 2: reference.Affine, 4: reference.Perceptron}
    return kinds[len(weights)](*weights)


def by_numpy(x, b, h):
    """The recurrence's answers for one sequence and head, and its state."""
    x = dict(x)
    S, norm = x.pop("S", None), x.pop("norm", None)
    same = {n: x.pop(n).numpy() for n in ("reader_rate",) if n in x}
    same |= {} if norm is None else {"norm": norm[h].numpy()}
    start = None if S is None else reference.Training.start(learner(S.f, b, h))
    tokens = {n: a[b, :, h].numpy() for n, a in x.items() if n != "inner_batch"}
    form = ttt_linear if S is None or len(S.f) == 1 else ttt_mlp
    return form.recurrent(**tokens, **same, S=start, inner_batch=x["inner_batch"])


@pytest.mark.parametrize("name", LEARNERS)
def test_it_is_the_recurrence(name):
    """Cases 13 and 15: no token, one, and mini-batches that are not full."""
    for T, b in ((0, 4), (1, 4), (8, 4), (11, 1), (11, 4), (37, 16)):
        x = drawn(name, T, b)
        o, S = inner.chunkwise(**x)
        for n, h in itertools.product(range(B), range(H)):
            o_one, S_one = by_numpy(x, n, h)
            close = {"rtol": 1e-12, "atol": 1e-12}
            np.testing.assert_allclose(o[n, :, h].numpy(), o_one, **close)
            for w, w_one in zip(learner(S.f, n, h), S_one.f, strict=True):
                np.testing.assert_allclose(w, w_one, **close)
            assert S.k.shape[1] == S_one.seen == T % b


@pytest.mark.parametrize("name", LEARNERS)
def test_in_pieces_is_in_one_pass(name):
    """Cases 20 and 25: pieces that end anywhere in a mini-batch."""
    x = drawn(name, 23)
    o, last = inner.chunkwise(**x)
    for lengths in ([1] * 23, [3, 20], [4, 0, 19], [22, 1], [2, 1, 9, 11]):
        pieces, S, at = [], x.get("S"), 0
        for length in lengths:
            here = slice(at, at + length)
            part = {n: x[n][:, here] for n in ("q", "k", "v", "beta")}
            o_part, S = inner.chunkwise(**(x | part | {"S": S}))
            pieces.append(o_part)
            at += length
        torch.testing.assert_close(torch.cat(pieces, 1), o, rtol=1e-11, atol=1e-12)
        for a, b in zip(tensors(S), tensors(last), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("name", LEARNERS)
def test_narrow_numbers_are_as_close_as_they_allow(name):
    """float32 throughout; half precision is rounded where it comes in and goes out."""

    def cast(x, dtype):
        S = x.get("S")
        if S is not None:
            f = [inner.Affine(*(w.float() for w in layer)) for layer in S.f]
            S = inner.Training(tuple(f), *(a.to(dtype) for a in S[1:]))
        x = {n: a.to(dtype) if n in x else a for n, a in x.items() if n in TENSORS}
        return x if S is None else x | {"S": S}

    x = drawn(name, 37, 16)
    truth, _ = inner.chunkwise(**x)
    o, _ = inner.chunkwise(**cast(x, torch.float32), inner_batch=16)
    assert (o - truth).abs().max() < 1e-5 * truth.abs().max()
    narrow = cast(x, torch.bfloat16)
    o, S = inner.chunkwise(**narrow, inner_batch=16)
    wide, _ = inner.chunkwise(**cast(narrow, torch.float32), inner_batch=16)
    assert torch.equal(o, wide.bfloat16())
    assert {w.dtype for layer in S.f for w in layer if w is not None} == {torch.float32}


TENSORS = ("q", "k", "v", "beta", "reader_rate", "norm")


@pytest.mark.parametrize("name", LEARNERS)
def test_gradients_are_those_of_differences(name):
    """Also those of the learner, and of the tokens that a state holds."""
    x = drawn(name, 5, 3, d=(3, 2), heads=(1, 1))
    _, S = inner.chunkwise(**drawn(name, 2, 3, d=(3, 2), heads=(1, 1), seed=1))
    names, state = [n for n in TENSORS if n in x], tensors(S)
    biased = S.f[0].b is not None

    def outputs(*given):
        *weights, k, v, beta = given[len(names) :]
        pairs = zip(weights[::2], weights[1::2], strict=True) if biased else [weights]
        S = inner.Training(tuple(inner.Affine(*pair) for pair in pairs), k, v, beta)
        tokens = dict(zip(names, given, strict=False))
        o, S = inner.chunkwise(**tokens, S=S, inner_batch=3)
        return o, *tensors(S)

    given = [a.clone().requires_grad_() for a in (*map(x.get, names), *state)]
    assert torch.autograd.gradcheck(outputs, given, fast_mode=True)


@pytest.mark.parametrize("name", LEARNERS)
def test_the_future_is_not_read(name):
    """Case 11: to the bit."""
    x, other = drawn(name, 23), drawn(name, 23, seed=1)
    changed = {n: torch.cat([x[n][:, :9], other[n][:, 9:]], 1) for n in TENSORS[:4]}
    o, o_changed = (inner.chunkwise(**y)[0] for y in (x, x | changed))
    assert torch.equal(o[:, :9], o_changed[:, :9])
    assert not torch.equal(o[:, 9], o_changed[:, 9])


@pytest.mark.parametrize("T", [2, 4])
def test_nothing_is_shared_with_what_was_given(T):
    x = drawn("affine with norm", T)
    kept = [a.clone() for a in (*map(x.get, TENSORS), *tensors(x["S"]))]
    for a in tensors(inner.chunkwise(**x)[1]):
        a.zero_()
    assert all(map(torch.equal, (*map(x.get, TENSORS), *tensors(x["S"])), kept))


@pytest.mark.parametrize(
    ("wrong", "error", "names"),
    [
        ({"inner_batch": 0}, ValueError, "inner_batch"),
        ({"reader_rate": torch.ones(3).double()}, ValueError, "reader_rate"),
        ({"norm": torch.ones(2, 6).double()}, ValueError, "norm"),
        ({"v": torch.ones(2, 5, 2, 3).double()}, ValueError, "norm"),
        ({"beta": torch.ones(2, 5, 1).double()}, ValueError, "beta"),
        ({"k": torch.ones(2, 5, 2, 6)}, TypeError, "k"),
        ({"norm": torch.ones(2, 2, 6)}, TypeError, "norm"),
        ({"reader_rate": torch.ones(4, device="meta")}, TypeError, "reader_rate"),
        ({"S": torch.ones(2, 2, 6, 6).double()}, TypeError, "S"),
    ],
)
def test_what_does_not_fit_is_named(wrong, error, names):
    x = drawn("affine with norm", 5) | wrong
    if names == "norm":
        del x["S"]
    with pytest.raises(error, match=f"^{names}: expected|^{names}: "):
        inner.chunkwise(**x)


def test_states_that_do_not_fit_are_named():
    x = drawn("affine with norm", 5)
    S = x["S"]
    for wrong, part in (
        (S._replace(f=drawn("affine with norm", 5, d=(5, 5))["S"].f), r"S\.f\[0\]\.W"),
        (S._replace(k=S.k[..., :-1]), r"S\.k"),
    ):
        with pytest.raises(ValueError, match=f"^{part}: d_k is 5"):
            inner.chunkwise(**(x | {"S": wrong}))
    (layer,) = S.f
    narrow = S._replace(f=(layer._replace(b=layer.b.float()),))
    with pytest.raises(TypeError, match=r"^S\.f\[0\]\.b: dtype is torch\.float32"):
        inner.chunkwise(**(x | {"S": narrow}))


@pytest.mark.parametrize("which", [TTTLinear, TTTMLP])
def test_a_layer_written_out(which):
    """All but the learner, which the NumPy recurrence stands for."""
    torch.manual_seed(0)
    layer = which(12, n_heads=2, d_k=6, d_v=6, inner_batch=4).double()
    layer.requires_grad_(False)
    layer.reader += torch.tensor([0.1, -2.0, 0.2, 0.0], dtype=torch.float64)
    for p in (*layer.b, layer.rate.bias, layer.norm.bias, layer.norm.weight):
        p += torch.randn(p.shape)
    x = torch.randn(1, 11, 12, dtype=torch.float64)
    w = {n: p.numpy() for n, p in layer.named_parameters()}
    q, k, v = np.split((x[0].numpy() @ w["qkv.weight"].T).reshape(11, 6, 6), 3, axis=1)
    angle = (np.arange(11) % 4)[:, None, None] * 10000 ** (-np.arange(3) / 3)
    turn = np.exp(1j * angle)
    q, k = (a[..., ::2] + 1j * a[..., 1::2] for a in (q, k))
    q, k = (
        np.stack([(a * turn).real, (a * turn).imag], -1).reshape(11, 2, 6)
        for a in (q, k)
    )
    logits = x[0].numpy() @ w["rate.weight"].T + w["rate.bias"]
    beta = {TTTLinear: 1.0, TTTMLP: 0.1}[which] / 6 / (1 + np.exp(-logits))
    o = np.empty((11, 2, 6))
    for h in range(2):
        o[:, h], _ = ttt_linear.recurrent(
            q[:, h],
            k[:, h],
            v[:, h],
            beta=beta[:, h],
            reader_rate=np.array([1.1, 0.0, 1 / 3 + 0.2, 0.25]),
            norm=w["inner_norm"][h],
            S=reference.Training.start(learner(layer.start(1).f, 0, h)),
            inner_batch=4,
        )
    o = o.reshape(11, 12)
    o = (o - o.mean(1, keepdims=True)) / np.sqrt(o.var(1, keepdims=True) + 1e-6)
    y = (o * w["norm.weight"] + w["norm.bias"]) @ w["out.weight"].T
    np.testing.assert_allclose(layer(x)[0][0], y, rtol=1e-9, atol=1e-12)


def test_a_layer_starts_as_its_code_does():
    torch.manual_seed(0)
    layer = TTTMLP(128, n_heads=2, d_k=64, d_v=64)
    for weight in (layer.qkv.weight, layer.out.weight, layer.rate.weight, *layer.W):
        assert abs(weight.std() / 0.02 - 1) < 5 / (2 * weight.numel()) ** 0.5
    assert [w.shape for w in layer.W] == [(2, 64, 256), (2, 256, 64)]
    assert not any(b.any() for b in (*layer.b, layer.rate.bias, layer.reader))
    assert (layer.inner_norm == torch.tensor([[1.0], [0.0]])).all()
    given = layer.inputs(torch.zeros(1, 1, 128), *torch.zeros(3, 1, 1, 2, 64))
    torch.testing.assert_close(given["beta"], torch.full((1, 1, 2), 0.05 / 64))
    torch.testing.assert_close(given["reader_rate"], 1 / torch.arange(1.0, 17))


def test_values_of_another_size_are_refused():
    with pytest.raises(ValueError, match=r"^d_v: expected d_k = 6, got 5"):
        TTTLinear(12, n_heads=2, d_k=6, d_v=5)
