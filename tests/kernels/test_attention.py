"""Attention by kernels is attention in float64, to twice the error torch makes."""

import inspect

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason='no torch: pip install "ctlearn[torch]"')
pytest.importorskip("triton", reason='no Triton: pip install "ctlearn[torch]" on Linux')

from ctlearn.kernels import attention  # noqa: E402
from ctlearn.layers import attention as layers  # noqa: E402

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
# what o and its gradients may be off, whatever torch makes of them
BOUNDS = {"fp32": (2e-6, 5e-6), "fp16": (1e-3, 2e-3), "bf16": (6e-3, 1e-2)}
# Below this a float32 error is a few roundings: ds is a difference of two sums over d_v
# terms, of which little is left where few keys are seen.
FLOOR = 2e-6
WINDOWS = (None, 1, 2, 16, 17)


@pytest.fixture(scope="session")
def tokens(device):
    """q, k, v, and a gradient of o; some keys stand out, and none alone."""

    def draw(T, d, *, t=None, heads=(1, 2, 2), dtype=torch.float32, seed=0):
        rng = torch.Generator().manual_seed(seed)
        (B, H, H_k), (d_k, d_v), t = heads, d, T if t is None else t
        shapes = (B, T, H, d_k), (B, t, H_k, d_k), (B, t, H_k, d_v), (B, T, H, d_v)
        q, *rest = (torch.randn(*s, generator=rng).to(device) for s in shapes)
        return [x.to(dtype) for x in (2 * q * d_k**-0.5, *rest)]

    return draw


def by_definition(q, k, v, *, window=None, first=None):
    """Answers o and lse, from the matrix of all scores."""
    (T, H), (t, H_k) = q.shape[1:3], k.shape[1:3]
    k, v = (x.repeat_interleave(H // H_k, 2) for x in (k, v))
    place = torch.arange(T, device=q.device) + (t - T if first is None else first)
    late = place[:, None] - torch.arange(t, device=q.device)
    seen = late >= 0
    if window is not None:
        seen &= late < window
    s = torch.einsum("bihd,bjhd->bhij", q, k).masked_fill(~seen, -torch.inf)
    o = torch.einsum("bhij,bjhd->bihd", s.softmax(-1), v)
    return o, s.logsumexp(-1).transpose(1, 2)


def by_torch(q, k, v, *, window=None):
    """Answers by scaled_dot_product_attention, in the dtype of what was given."""
    k, v = (x.repeat_interleave(q.shape[2] // k.shape[2], 2) for x in (k, v))
    if window is None:
        return layers.softmax_attention(q, k, v)[:1]
    return layers.sliding_window_attention(q, k, v, window=window)[:1]


def gradients(form, q, k, v, *weights, **how):
    """dq, dk and dv of a sum of the results, weighted."""
    x = [a.detach().clone().requires_grad_() for a in (q, k, v)]
    results = form(*x, **how)
    loss = sum((r * w).sum() for r, w in zip(results, weights, strict=False))
    return torch.autograd.grad(loss, x)


def held(q, k, v, do, window, gap):
    """Results o, dq, dk and dv are within twice torch's error, and within bounds."""
    wide = [x.double() for x in (q, k, v, do)]
    o, lse = attention.attend(q, k, v, window=window)
    o_true, lse_true = by_definition(*wide[:3], window=window)
    assert (o.dtype, lse.dtype) == (v.dtype, torch.float32)
    # exact products of what was given, summed in float32
    assert gap(lse, lse_true) < 1e-6
    found = o, *gradients(attention.attend, q, k, v, do, window=window)
    truth = o_true, *gradients(by_definition, *wide, window=window)
    own = (
        *by_torch(q, k, v, window=window),
        *gradients(by_torch, q, k, v, do, window=window),
    )
    bounds = next(BOUNDS[n] for n, dtype in DTYPES.items() if dtype == v.dtype)
    for a, b, c, bound in zip(found, truth, own, (0, 1, 1, 1), strict=True):
        if not b.norm() > 1e-9:
            # a single weight is one whatever its score: dq and dk are rounding
            assert a.norm() < bounds[1] * do.norm()
            continue
        assert gap(a, b) <= max(2 * gap(c, b), FLOOR)
        assert gap(a, b) < bounds[bound]


@pytest.mark.parametrize("turn", range(2))
def test_float32(turn, shape, tokens, gap):
    """Cases 13 and 35. Each shape meets two of the windows; heads come in groups."""
    T, d = shape
    window = WINDOWS[(T + 2 * turn) % len(WINDOWS)]
    heads = (1, 2, 2) if turn else (1, 2, 1) if T > 17 else (2, 2, 1)
    held(*tokens(T, d, heads=heads), window, gap)


@pytest.mark.parametrize(
    ("shape", "window"),
    [
        ((2, (8, 100)), None),
        ((17, (60, 16)), 16),
        ((65, (48, 32)), 17),
        ((65, (32, 100)), 1),
        ((130, (16, 24)), None),
    ],
)
@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_half_precision(dtype, shape, window, tokens, gap):
    T, d = shape
    held(*tokens(T, d, heads=(1, 2, 1), dtype=DTYPES[dtype]), window, gap)


def test_blocks_that_are_seen_whole_need_no_mask(tokens, gap):
    """Long enough that a tile has all of its parts: a near end, a middle, a far end."""
    held(*tokens(200, (8, 8), heads=(1, 1, 1)), 120, gap)


@pytest.mark.parametrize("window", [None, 25])
def test_parts_of_the_cache_are_merged_into_the_whole(window, tokens, gap):
    """With the window no query sees the first part; dlse is in every gradient."""
    q, k, v, do = tokens(20, (8, 12), t=90, heads=(1, 2, 1))
    dlse = do[..., 0]

    def in_parts(q, k, v, *, window):
        parts = slice(0, 45), slice(45, 70), slice(70, 90)
        return attention.merged(
            *(
                attention.attend(q, k[:, n], v[:, n], window=window, first=70 - n.start)
                for n in parts
            )
        )

    o, lse = attention.attend(q, k[:, :45], v[:, :45], window=window, first=70)
    if window:
        assert not o.any()
        assert (lse == -torch.inf).all()
    wide = [x.double() for x in (q, k, v, do, dlse)]
    for form in (in_parts, attention.attend):
        found = (
            *form(q, k, v, window=window),
            *gradients(form, q, k, v, do, dlse, window=window),
        )
        truth = (
            *by_definition(*wide[:3], window=window),
            *gradients(by_definition, *wide, window=window),
        )
        assert max(map(gap, found, truth)) < 2e-6


def test_scores_of_any_size(tokens, gap):
    """Case 3: no exponent is taken that is above zero. Integers have exact scores."""
    q, k, v, do = tokens(70, (16, 8), heads=(1, 1, 1))
    q, k = (1000 * q).round(), k.round()
    with np.errstate(over="raise"):
        found = attention.attend(q, k, v)
        rates = gradients(attention.attend, q, k, v, do)
    wide = [x.double() for x in (q, k, v, do)]
    assert max(map(gap, found, by_definition(*wide[:3]))) < 1e-6
    # a weight is exp(s - lse), and lse is rounded
    rounding = float(found[1].abs().max()) * torch.finfo(torch.float32).eps
    assert max(map(gap, rates, gradients(by_definition, *wide))) < rounding


def test_keys_that_are_not_there_take_no_exponent(tokens, gap):
    """Case 3: a score of zero would be far above what there is."""
    q, k, v, do = tokens(3, (16, 8), t=5, heads=(1, 1, 1))
    q, k = -20 * torch.ones_like(q), torch.ones_like(k)
    with np.errstate(over="raise"):
        found = gradients(attention.attend, q, k, v, do, first=200)
    wide = [x.double() for x in (q, k, v, do)]
    truth = gradients(by_definition, *wide, first=200)
    # dq is zero, for all keys are one
    assert max(map(gap, found[1:], truth[1:])) < 1e-4


def test_a_window_as_long_as_the_sequence_is_none(tokens):
    q, k, v, _ = tokens(33, (8, 8))
    o, o_long, o_short = (
        attention.attend(q, k, v, window=w)[0] for w in (None, 33, 32)
    )
    assert torch.equal(o, o_long)
    assert torch.equal(o[:, :-1], o_short[:, :-1])
    assert not torch.equal(o, o_short)


@pytest.mark.parametrize("window", [None, 17])
def test_the_future_is_not_read(window, tokens):
    """Case 11: equal to the bit."""
    q, k, v, _ = tokens(130, (8, 8), heads=(1, 1, 1))
    other = tokens(130, (8, 8), heads=(1, 1, 1), seed=1)
    changed = [
        torch.cat([x[:, :70], y[:, 70:]], 1)
        for x, y in zip((q, k, v), other, strict=False)
    ]
    for a, b in zip(
        attention.attend(q, k, v, window=window),
        attention.attend(*changed, window=window),
        strict=True,
    ):
        assert torch.equal(a[:, :70], b[:, :70])


def test_any_strides(tokens):
    """Case 34: views of one array, heads first, an expanded head, a summed output."""
    q, k, v, _ = tokens(33, (16, 16))
    q = q[:, :, :1].expand_as(q)
    fused = torch.cat([k, v], -1)
    v = v.transpose(1, 2).contiguous().transpose(1, 2)
    views = q, fused[..., :16], v
    assert not any(x.is_contiguous() for x in views)
    plain = [x.contiguous() for x in views]
    for a, b in zip(attention.attend(*views), attention.attend(*plain), strict=True):
        assert torch.equal(a, b)
    ones = torch.ones_like(v)
    found = [x.detach().requires_grad_() for x in views]
    attention.attend(*found)[0].sum().backward()
    truth = gradients(attention.attend, *plain, ones)
    assert all(torch.equal(x.grad, g) for x, g in zip(found, truth, strict=True))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_offsets_are_of_64_bits(axis, tokens, unreached):
    """Case 37: a sequence, token or head that is 2^31 numbers away is found there."""
    drawn = tokens(2, (8, 8), heads=(2, 2, 2), dtype=torch.float16)
    x = dict(zip("qkv", drawn, strict=False))
    assert unreached(axis, x, lambda: attention.attend(**x)) == set()
    how = {"window": None, "first": 0}
    results = attention.forward(**x, **how, trained=True)
    x |= dict(zip(("o", "lse", "lost"), results, strict=True))
    x |= {"do": torch.ones_like(x["o"]), "dlse": torch.ones_like(x["lse"])}
    assert unreached(axis, x, lambda: attention.backward(**x, **how)) == set()


def test_large_counts_are_on_the_first_axis_of_the_grid(tokens, grids):
    """Case 38: the others end at 65,535."""
    q, k, v, do = tokens(5, (8, 8), heads=(3, 2, 1))
    gradients(attention.attend, q, k, v, do)
    assert grids == [(3 * 2,), (3 * 2,), (3,)]


@pytest.mark.parametrize(("T", "t"), [(0, 0), (0, 5), (3, 0)])
def test_nothing_to_read_and_nothing_that_reads(T, t, tokens):
    """Case 23."""
    q, k, v, do = tokens(T, (8, 8), t=t)
    o, lse = attention.attend(q, k, v)
    assert o.shape == do.shape
    assert not o.any()
    assert (lse == -torch.inf).all()
    assert not any(x.any() for x in gradients(attention.attend, q, k, v, do))


@pytest.mark.parametrize(
    ("name", "wrong", "error"),
    [
        ("q", lambda x: x[..., :-1], ValueError),
        ("q", lambda x: x[:, :, :1].repeat(1, 1, 3, 1), ValueError),
        ("k", lambda x: x[0], ValueError),
        ("k", lambda x: x.int(), TypeError),
        ("v", lambda x: x[:, :-1], ValueError),
        ("v", lambda x: x.double(), TypeError),
        ("v", lambda x: x.to("meta"), TypeError),
        ("window", lambda x: 0, ValueError),
        ("window", lambda x: 1.5, TypeError),
        ("first", lambda x: 0.0, TypeError),
    ],
)
def test_what_does_not_fit_is_named(name, wrong, error, tokens):
    """Case 47: before anything is launched."""
    q, k, v, _ = tokens(5, (16, 24))
    x = {"q": q, "k": k, "v": v, "window": 2, "first": 0}
    x[name] = wrong(x[name])
    with pytest.raises(error, match=rf"^{name}: "):
        attention.attend(**x)


def test_the_operators_keep_their_contract(tokens):
    """Schema, fakes, and no result that shares memory with an argument."""
    x = tokens(5, (8, 12), heads=(1, 2, 1), dtype=torch.float16)[:3]
    x = [a.requires_grad_() for a in x]
    torch.library.opcheck(attention.forward, (*x, 3, 0, True))


def test_compiled_whole_it_is_the_same(tokens):
    def outputs(q, k, v):
        return attention.attend(q, k, v, window=3)

    q, k, v, do = tokens(9, (8, 8), heads=(1, 2, 1))
    compiled = torch.compile(outputs, fullgraph=True, backend="aot_eager")
    for a, b in zip(
        gradients(compiled, q, k, v, do, do[..., 0]),
        gradients(outputs, q, k, v, do, do[..., 0]),
        strict=True,
    ):
        assert torch.equal(a, b)


@pytest.mark.parametrize("form", ["softmax_attention", "sliding_window_attention"])
def test_a_layer_may_be_given_either(form, tokens, gap):
    """Cases 20 and 26: the arguments, the cache, and a prompt that goes on."""
    ours, theirs = getattr(attention, form), getattr(layers, form)
    assert inspect.signature(ours) == inspect.signature(theirs)
    window = {"window": 7} if form.startswith("sliding") else {}
    q, k, v, _ = tokens(20, (8, 12))
    angle = torch.tensor([0.7, 0.01], device=q.device)
    o, S = theirs(q, k, v, angle=angle, **window)
    cache, pieces = None, []
    for part in zip(*(x.split([11, 1, 8], 1) for x in (q, k, v)), strict=True):
        o_part, cache = ours(*part, angle=angle, **window, S=cache)
        pieces.append(o_part)
    assert gap(torch.cat(pieces, 1), o) < 1e-6
    assert all(map(torch.equal, S, cache))
