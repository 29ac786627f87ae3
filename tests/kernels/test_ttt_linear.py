"""TTT-Linear's kernels are torch's mini-batches in float64, gradients included."""

import inspect

import pytest

torch = pytest.importorskip("torch", reason='no torch: pip install "ctlearn[torch]"')
pytest.importorskip("triton", reason='no Triton: pip install "ctlearn[torch]" on Linux')

from ctlearn.kernels import ttt_linear  # noqa: E402
from ctlearn.layers import by_device, inner  # noqa: E402
from ctlearn.layers.ttt_linear import TTTLinear  # noqa: E402

# Below this a float32 error is a few roundings of the result, whatever is computed.
FLOOR = 1e-6
# T, d_k and d_v, b, and what the learner has: a bias, and a norm with readers' rates
CASES = (
    (1, (16, 32), 16, False, False),
    (2, (8, 100), 1, True, False),
    (15, (60, 60), 16, True, True),
    (16, (8, 8), 16, False, True),
    (17, (20, 12), 16, False, False),
    (33, (16, 16), 4, True, True),
    (65, (48, 32), 32, True, False),
)
TOKENS = ("q", "k", "v", "beta")


@pytest.fixture
def given(device):
    """Inputs in some dtype, by name; W and b are float32 or wider."""

    def draw(T, d, b, biased, normed, *, heads=(1, 2), dtype=torch.float32, seed=0):
        rng = torch.Generator().manual_seed(seed)
        (B, H), (d_k, d_v) = heads, d

        def normal(*shape):
            return torch.randn(*shape, generator=rng).to(device)

        k = torch.nn.functional.normalize(normal(B, T, H, d_k), dim=-1)
        x = {"q": normal(B, T, H, d_k), "k": k, "v": normal(B, T, H, d_v)}
        x["beta"] = torch.rand(B, T, H, generator=rng).to(device) / 2
        if normed:
            x["reader_rate"] = torch.rand(b, generator=rng).to(device)
            x["norm"] = normal(H, 2, d_v)
        x = {n: a.to(dtype) for n, a in x.items()} | {"W": normal(B, H, d_k, d_v) / 4}
        return x | ({"b": normal(B, H, d_v) / 4} if biased else {})

    return draw


def answers(form, x, b):
    """By name: o, and the learner behind the last full mini-batch."""
    x = dict(x)
    f = inner.Affine(x.pop("W"), x.pop("b", None))
    S = inner.Training.start((f,), x["k"].detach(), x["v"].detach())
    o, S = form(**x, S=S, inner_batch=b)
    last = {n: a for n, a in zip("Wb", S.f[0], strict=True) if a is not None}
    return {"o": o} | {f"last {n}": a for n, a in last.items()}


def results(form, x, b, only=None):
    """Answers, and the gradients of a weighted sum of them (or of one)."""
    x = {n: a.detach().clone().requires_grad_() for n, a in x.items()}
    found = answers(form, x, b)
    rng = torch.Generator().manual_seed(9)
    weights = {n: torch.randn(a.shape, generator=rng) for n, a in found.items()}
    loss = sum(
        (a * weights[n].to(a.device, a.dtype)).sum()
        for n, a in found.items()
        if only in (None, n)
    )
    unused = only is not None
    gradients = torch.autograd.grad(loss, list(x.values()), allow_unused=unused)
    pairs = zip(x, gradients, strict=True)
    found = {n: a.detach() for n, a in found.items()}
    return found | {f"d{n}": g for n, g in pairs if g is not None}


def doubled(x):
    return {n: a.double() for n, a in x.items()}


def held(found, truth, own, gap):
    """Each result is no further from the truth than twice torch's own."""
    assert found.keys() == truth.keys() == own.keys()
    for name, a in found.items():
        assert gap(a, truth[name]) <= max(2 * gap(own[name], truth[name]), FLOOR), name


@pytest.mark.parametrize("case", CASES, ids=str)
def test_float32(case, given, gap):
    """Cases 13, 21 and 35: buffers start as NaN, and the last W is in the loss."""
    x, b = given(*case, heads=(2, 2) if case[0] < 16 else (1, 2)), case[2]
    found, own = (results(f.chunkwise, x, b) for f in (ttt_linear, inner))
    truth = results(inner.chunkwise, doubled(x), b)
    held(found, truth, own, gap)
    assert max(gap(a, truth[n]) for n, a in found.items()) < 5e-6


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("case", [CASES[2], CASES[4]], ids=str)
def test_half_precision(case, dtype, given, gap):
    """Tokens are rounded as they come and go, and nothing else is."""
    x, b = given(*case, dtype=getattr(torch, dtype)), case[2]
    found, own = (results(f.chunkwise, x, b) for f in (ttt_linear, inner))
    assert (found["o"].dtype, found["last W"].dtype) == (x["q"].dtype, torch.float32)
    held(found, results(inner.chunkwise, doubled(x), b), own, gap)
    assert gap(found["last W"], own["last W"]) < FLOOR


@pytest.mark.parametrize("only", ["o", "last W"])
def test_a_loss_of_one_result_alone(only, given, gap):
    """Case 21; and a last mini-batch that is not full teaches W nothing."""
    x = given(11, (8, 8), 4, True, True)
    found = results(ttt_linear.chunkwise, x, 4, only)
    truth = results(inner.chunkwise, doubled(x), 4, only)
    for name, a in truth.items():
        assert gap(found[name], a) < 5e-6, name


def test_rates_that_are_cut_off_have_gradients(given, gap):
    """r_b = 0: the last token of a mini-batch sees nothing of it, as do the next."""
    x = given(9, (8, 8), 4, True, True)
    x["reader_rate"][1:] = 0
    found = results(ttt_linear.chunkwise, x, 4)
    truth = results(inner.chunkwise, doubled(x), 4)
    for name, a in truth.items():
        assert gap(found[name], a) < 5e-6, name


def test_the_whole_is_its_pieces(given, gap):
    """Cases 20 and 25: pieces end within a mini-batch, and torch's take turns."""
    x = given(23, (8, 8), 4, True, True)
    f = inner.Affine(x.pop("W"), x.pop("b"))
    first = inner.Training.start((f,), x["k"], x["v"])
    o, last = ttt_linear.chunkwise(**x, S=first, inner_batch=4)
    pieces, S, at = [], first, 0
    forms = (*2 * (ttt_linear, inner), ttt_linear)
    for length, form in zip((10, 1, 1, 0, 11), forms, strict=True):
        part = {n: x[n][:, at : at + length] for n in TOKENS}
        o_part, S = form.chunkwise(**(x | part), S=S, inner_batch=4)
        pieces.append(o_part)
        at += length
    assert gap(torch.cat(pieces, 1), o) < 2e-6
    assert max(map(gap, S.f[0], last.f[0])) < 2e-6
    assert all(map(torch.equal, S[1:], last[1:]))


def test_no_tokens_hand_everything_on(given):
    """Case 23."""
    x = given(0, (8, 8), 4, True, True)
    found = results(ttt_linear.chunkwise, x, 4)
    assert torch.equal(found["last W"], x["W"])
    assert torch.equal(found["last b"], x["b"])
    alone = results(inner.chunkwise, x, 4, "last W")
    assert torch.equal(found["dW"], alone["dW"])
    assert not found["dnorm"].any()


def test_the_future_is_not_read(given):
    """Case 11: equal to the bit."""
    x, other = (given(23, (8, 8), 4, True, True, seed=seed) for seed in (0, 1))
    changed = {n: torch.cat([x[n][:, :9], other[n][:, 9:]], 1) for n in TOKENS}
    o, o_changed = (answers(ttt_linear.chunkwise, y, 4)["o"] for y in (x, x | changed))
    assert torch.equal(o[:, :9], o_changed[:, :9])


def test_any_strides(given):
    """Case 34: views of one array, what is turned or expanded; a gradient of a sum."""
    plain = given(3, (16, 16), 2, True, True, heads=(2, 2))
    plain["beta"] = plain["beta"][:, :, :1].expand_as(plain["beta"]).contiguous()
    fused = torch.cat([plain[n] for n in "qkv"], -1)
    views = dict(zip("qkv", fused.split(16, -1), strict=True))
    views["beta"] = plain["beta"][:, :, :1].expand_as(plain["beta"])
    views["W"] = plain["W"].mT.contiguous().mT
    views["norm"] = plain["norm"].transpose(0, 1).contiguous().transpose(0, 1)
    assert not any(a.is_contiguous() for a in views.values())
    found = []
    for x in (plain, plain | views):
        x = {n: a.detach().requires_grad_() for n, a in x.items()}
        o = answers(ttt_linear.chunkwise, x, 2)["o"]
        found.append([o, *torch.autograd.grad(o.sum(), list(x.values()))])
    assert all(map(torch.equal, *found))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_offsets_are_of_64_bits(axis, given, unreached):
    """Case 37: a sequence, token or head that is 2^31 numbers away is found there."""
    x = given(2, (16, 16), 4, True, True, heads=(2, 2))
    call = lambda: answers(ttt_linear.chunkwise, x, 4)  # noqa: E731
    assert not unreached(axis, {n: x[n] for n in TOKENS}, call)


def test_large_counts_are_on_the_first_axis_of_the_grid(given, grids):
    """Case 38: the others end at 65,535."""
    results(ttt_linear.chunkwise, given(3, (8, 8), 2, True, True, heads=(1, 3)), 2)
    assert sorted(grids) == [(3,), (3,), (3,), (6,)]


def test_a_layer_runs_on_it_on_a_gpu(gap, device, monkeypatch):
    """Case 45; its learner starts near zero, where a norm magnifies what is rounded."""
    monkeypatch.setattr(by_device, "GPU", device)
    torch.manual_seed(0)
    layer = TTTLinear(12, n_heads=2, d_k=8, d_v=8, inner_batch=4).to(device)
    x, found = torch.randn(2, 11, 12, device=device), []
    chosen, launched = layer.mix, []
    forward = ttt_linear.forward
    monkeypatch.setattr(
        ttt_linear, "forward", lambda *x: launched.append(x) or forward(*x)
    )
    for form, dtype in (
        (chosen, torch.float32),
        (inner.chunkwise, torch.float32),
        (chosen, torch.float64),
    ):
        layer.mix = form
        y, _ = layer.to(dtype)(x.to(dtype))
        names, weights = zip(*layer.named_parameters(), strict=True)
        gradients = torch.autograd.grad(y.square().sum(), weights)
        found.append({"y": y.detach()} | dict(zip(names, gradients, strict=True)))
    # of which there is none in float64
    assert len(launched) == 1
    ours, own, truth = found
    held(ours, truth, own, gap)


def test_the_operator_keeps_its_contract(given):
    """Schema, fakes, and no result that shares memory with an argument."""
    x = given(3, (8, 8), 2, True, True)
    x = {n: a.requires_grad_() for n, a in x.items()}
    order = (*TOKENS, "reader_rate", "norm", "W", "b")
    torch.library.opcheck(ttt_linear.forward, (*map(x.get, order), 2))


def test_compiled_whole_it_is_the_same(given):
    x = given(5, (8, 8), 4, True, True)

    def form(**arguments):
        return ttt_linear.chunkwise(**arguments)

    compiled = torch.compile(form, fullgraph=True, backend="aot_eager")
    found, eager = (results(f, x, 4) for f in (compiled, form))
    for name, a in found.items():
        assert torch.equal(a, eager[name]), name


def test_arguments_are_those_of_the_layers():
    """Case 26."""
    ours, theirs = (
        [(p.name, p.kind, p.default) for p in inspect.signature(f).parameters.values()]
        for f in (ttt_linear.chunkwise, inner.chunkwise)
    )
    assert ours == theirs


def test_what_does_not_fit_is_named(given):
    """Case 47."""
    x = given(3, (8, 8), 4, True, True)
    two = inner.Affine(x.pop("W"), x.pop("b"))
    S = inner.Training.start((two, two), x["k"], x["v"])
    for wrong, error, message in (
        ({"S": S}, TypeError, "^S: expected a learner of one layer, got 2"),
        ({"inner_batch": 65}, ValueError, "^inner_batch: expected at most 64"),
        ({"norm": x["norm"][:1]}, ValueError, "^norm: expected"),
        ({n: a.double() for n, a in x.items()}, TypeError, "^k: expected float32"),
    ):
        if "inner_batch" in wrong:
            wrong["reader_rate"] = None
        with pytest.raises(error, match=message):
            ttt_linear.chunkwise(**(x | {"inner_batch": 4} | wrong))
