"""Each rung of the ladder is the float64 recurrence, and moves the bytes it says."""

import inspect
import os
import re

import pytest

torch = pytest.importorskip("torch", reason='no torch: pip install "ctlearn[torch]"')
pytest.importorskip("triton", reason='no Triton: pip install "ctlearn[torch]" on Linux')

from ctlearn.kernels import delta_rule  # noqa: E402
from ctlearn.mixers import delta_rule as mixer  # noqa: E402
from ctlearn.tasks import rounding  # noqa: E402

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
FORMS = ("recurrent", "naive_chunkwise", "chunkwise")
# Below this a float32 error is a few roundings of the result, whatever is computed.
FLOOR = 4e-7
BOUNDS = {"fp32": 5e-6, "fp16": 1e-3, "bf16": 6e-3}


def by_form(form, x, **how):
    """What a rung makes of the family's inputs."""
    tokens = x["q"], x["k"], x["z"]
    return getattr(delta_rule, form)(*tokens, beta=x["beta"], S=x.get("S"), **how)


def held(form, x, by_recurrence, by_torch, gap):
    """Each result is no further from the truth than twice torch's own."""
    found, truth, own = by_form(form, x), by_recurrence(x), by_torch(x)
    dtype = x["k"].dtype
    assert (found[0].dtype, found[1].dtype) == (dtype, torch.float32)
    bound = next(BOUNDS[n] for n, d in DTYPES.items() if d == dtype)
    for a, b, c in zip(found, truth, own, strict=True):
        assert gap(a, b) <= max(2 * gap(c, b), FLOOR)
        assert gap(a, b) < bound


def test_float32(shape, drawn, by_recurrence, by_torch, gap):
    """The naive rung; the others are those of the family, which has such a test."""
    T, d = shape
    x = drawn(T, "none", "keys", d=d)
    held("naive_chunkwise", x, by_recurrence, by_torch, gap)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("form", "shape"),
    [
        ("recurrent", (5, (60, 24))),
        ("naive_chunkwise", (15, (8, 60))),
        ("naive_chunkwise", (65, (16, 100))),
        ("chunkwise", (65, (60, 24))),
    ],
)
def test_every_rung_in_every_dtype(
    form, dtype, shape, drawn, by_recurrence, by_torch, gap
):
    T, d = shape
    x = drawn(T, "none", "keys", d=d, dtype=DTYPES[dtype])
    held(form, x, by_recurrence, by_torch, gap)


@pytest.mark.parametrize("form", FORMS)
def test_one_key_again_and_again(form, drawn, by_recurrence, gap):
    """Case 9: overwritten, nearly reflected, not written at all."""
    x = drawn(33, "none", "keys", d=(8, 8))
    x["k"] = x["e"] = x["k"][:, :1].expand_as(x["k"]).contiguous()
    for beta in (0.0, 1.0, 1.9):
        x["beta"] = torch.full_like(x["beta"], beta)
        assert max(map(gap, by_form(form, x), by_recurrence(x))) < 5e-6


def test_the_chunk_size_changes_nothing(drawn, gap):
    x = drawn(65, "none", "keys")
    whole = by_form("naive_chunkwise", x)
    for size in (16, 32):
        found = by_form("naive_chunkwise", x, chunk_size=size)
        assert max(map(gap, found, whole)) < 1e-6


def test_without_a_state_and_of_any_strides(drawn, gap):
    """Case 34."""
    x = drawn(33, "none", "keys", d=(16, 16))
    del x["S"]
    fused = torch.cat([x["q"], x["k"], x["z"]], -1)
    views = dict(zip(("q", "k", "z"), fused.split(16, -1), strict=True))
    views["beta"] = x["beta"].transpose(1, 2).contiguous().transpose(1, 2)
    for a, b in zip(
        by_form("naive_chunkwise", views), by_form("naive_chunkwise", x), strict=True
    ):
        assert torch.equal(a, b)


@pytest.mark.parametrize("form", FORMS)
def test_states_do_not_overflow_float16(form, drawn, by_recurrence, gap):
    """Case 29: a state that float16 does not hold, asked by small queries."""
    x = drawn(33, "none", "keys", d=(8, 8), dtype=torch.float16)
    x |= {"q": x["q"] / 1e4, "beta": torch.zeros_like(x["beta"])}
    x["S"] = 3e5 * x["S"].float()
    o, S = by_form(form, x)
    assert torch.equal(S, x["S"])
    assert gap(o, by_recurrence(x)[0]) < 1e-3


@pytest.mark.parametrize("form", FORMS)
def test_no_tokens_give_the_state_back(form, drawn):
    """Case 23: a copy of it."""
    x = drawn(0, "none", "keys", d=(8, 8))
    o, S = by_form(form, x)
    assert o.shape == x["z"].shape
    assert torch.equal(S, x["S"])
    assert S.data_ptr() != x["S"].data_ptr()


def moved(form, x, C):
    """Numbers a token and head that each kernel reads or writes, those of S aside."""
    from ctlearn.kernels.interpreted import watched

    how = {} if form == "recurrent" else {"chunk_size": C}
    with watched() as launches:
        _, S = by_form(form, x, **how)
    return sum(launch.numbers(S) for launch in launches) / x["beta"].numel()


@pytest.mark.skipif(not INTERPRETED, reason="only the interpreter shows addresses")
@pytest.mark.parametrize("form", FORMS)
def test_each_moves_the_bytes_that_it_says(form, drawn):
    """Counted in the interpreter, one address once for each kernel that touches it."""
    says = " ".join(inspect.getdoc(getattr(delta_rule, form)).split())
    formula, stated = re.search(r": ([^:]*) numbers, (\d+) bytes", says).groups()
    # "2 d_k d_v / C" is a product
    formula = re.sub(r"(?<=[\dkv]) (?=[dC])", "*", formula)
    assert 2 * eval(formula, {"d_k": 128, "d_v": 128, "C": 64}) == int(stated)
    x = drawn(32, "none", "keys", d=(24, 40))
    del x["S"]
    sizes = {"d_k": 24, "d_v": 40, "C": 16}
    assert moved(form, x, 16) == eval(formula, sizes)


@pytest.mark.skipif(not INTERPRETED, reason="a GPU sums in another order")
def test_four_quantities_are_rounded_and_no_other():
    """The plan in NumPy with these rounded has the same outputs, and with less not."""
    tokens = rounding.draw([0], 64, 16, cosine=0.3)
    q, k, v, beta = (torch.tensor(a[0])[None, :, None].bfloat16() for a in tokens)
    found = delta_rule.chunkwise(q, k, v, beta=beta, chunk_size=16)[0][0, :, 0].float()

    def off(places):
        model = rounding.half(rounding.chunkwise(tokens, places, C=16))[0]
        return float((torch.tensor(model) - found).norm() / found.norm())

    assert off(rounding.KERNELS) < 3e-4
    for place in rounding.PLACES:
        assert off({*rounding.KERNELS} ^ {place}) > 1e-3, place


@pytest.mark.parametrize("form", FORMS)
def test_arguments_are_those_of_the_mechanism(form):
    """Case 26."""
    theirs = getattr(mixer, form.removeprefix("naive_"))
    ours = inspect.signature(getattr(delta_rule, form))
    assert list(ours.parameters) == list(inspect.signature(theirs).parameters)


@pytest.mark.parametrize("form", ["recurrent", "naive_chunkwise"])
def test_a_gradient_that_there_is_not_is_refused(form, drawn):
    """Case 27; the last rung has one."""
    x = drawn(2, "none", "keys", d=(8, 8))
    x["q"].requires_grad_()
    with pytest.raises(RuntimeError, match="no autograd formula"):
        by_form(form, x)[0].sum().backward()
    by_form("chunkwise", x)[0].sum().backward()
    assert x["q"].grad.isfinite().all()


@pytest.mark.parametrize("form", FORMS)
def test_what_does_not_fit_is_named(form, drawn):
    """Case 47."""
    x = drawn(3, "none", "keys", d=(8, 8))
    with pytest.raises(ValueError, match=r"^beta: "):
        by_form(form, x | {"beta": x["beta"][:, :2]})


def test_the_operator_keeps_its_contract_and_compiles_whole(drawn):
    """Schema, fakes, and no result that shares memory with an argument."""
    x = drawn(5, "none", "keys", d=(8, 8))
    arguments = (*map(x.get, ("q", "k", "z", "beta", "S")), 16)
    torch.library.opcheck(delta_rule.naive, arguments)
    compiled = torch.compile(by_form, fullgraph=True, backend="aot_eager")
    found = compiled("naive_chunkwise", x)
    assert all(map(torch.equal, found, by_form("naive_chunkwise", x)))
