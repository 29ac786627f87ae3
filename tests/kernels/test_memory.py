"""The kernels are the float64 recurrence, to twice the error that torch makes."""

import inspect
import itertools
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason='no torch: pip install "ctlearn[torch]"')
pytest.importorskip("triton", reason='no Triton: pip install "ctlearn[torch]" on Linux')

from ctlearn.kernels import memory  # noqa: E402

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
GATES = ("none", "scalar", "vector")
ERASE = ("no", "keys", "own")
# Below this a float32 error is a few roundings of the result, whatever is computed.
FLOOR = 4e-7


def held(found, truth, own, gap):
    """Each result is no further from the truth than twice torch's own."""
    for a, b, c in zip(found, truth, own, strict=True):
        assert gap(a, b) <= max(2 * gap(c, b), FLOOR)


@pytest.mark.parametrize("erase", ERASE)
@pytest.mark.parametrize("gates", GATES)
def test_float32(gates, erase, shape, drawn, filled, by_recurrence, by_torch, gap):
    """Cases 13, 15 and 35: buffers start as NaN, and beyond T there is none to read."""
    T, d = shape
    x = drawn(T, gates, erase, d=d)
    for read_first in (False, True) if erase == "own" else (False,):
        found = memory.chunkwise(**x, read_first=read_first, chunk_size=filled(T))
        truth = by_recurrence(x, read_first=read_first)
        held(found, truth, by_torch(x, read_first=read_first), gap)
        assert max(map(gap, found, truth)) < 5e-6


@pytest.mark.parametrize("shape", [(2, (8, 100)), (65, (48, 32)), (130, (16, 24))])
@pytest.mark.parametrize("erase", ERASE)
@pytest.mark.parametrize("gates", GATES)
@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_half_precision(
    dtype, gates, erase, shape, drawn, by_recurrence, by_torch, gap
):
    T, d = shape
    x = drawn(T, gates, erase, d=d, dtype=DTYPES[dtype])
    found = memory.chunkwise(**x)
    assert (found[0].dtype, found[1].dtype) == (DTYPES[dtype], torch.float32)
    truth = by_recurrence(x)
    held(found, truth, by_torch(x), gap)
    assert max(map(gap, found, truth)) < {"fp16": 1e-3, "bf16": 6e-3}[dtype]


@pytest.mark.parametrize("size", [16, 32])
@pytest.mark.parametrize("gates", GATES)
def test_the_chunk_size_changes_nothing(gates, size, drawn, gap):
    x = drawn(65, gates, "own")
    for a, b in zip(
        memory.chunkwise(**x, chunk_size=size), memory.chunkwise(**x), strict=True
    ):
        assert gap(a, b) < 1e-6


@pytest.mark.parametrize("gates", GATES)
def test_nothing_is_chosen_by_the_length(gates, drawn, chosen):
    """Case 42: what is compiled for one length serves all others."""
    kinds = []
    for T in (3, 70, 130):
        chosen.clear()
        memory.chunkwise(**drawn(T, gates, "own"))
        kinds.append(list(chosen))
    assert kinds[0] == kinds[1] == kinds[2] != []


@pytest.mark.parametrize("gates", GATES)
def test_narrow_tiles_change_nothing(gates, drawn, gap, monkeypatch):
    """Case 42: a launch decides how fast, and not what."""
    x = drawn(33, gates, "own", d=(16, 40))
    found, real = memory.chunkwise(**x), memory.launch
    monkeypatch.setattr(memory, "launch", lambda *given: real(*given)._replace(V=16))
    for a, b in zip(memory.chunkwise(**x), found, strict=True):
        assert gap(a, b) < 1e-6


@pytest.mark.parametrize("gates", GATES)
def test_without_beta_and_without_a_state(gates, drawn, by_recurrence, gap):
    x = drawn(33, gates, "keys")
    ones, zeros = torch.ones_like(x["beta"]), torch.zeros_like(x["S"])
    truth = by_recurrence(x | {"beta": ones, "S": zeros})
    found = memory.chunkwise(**{n: a for n, a in x.items() if n not in ("beta", "S")})
    assert max(map(gap, found, truth)) < 5e-6


@pytest.mark.parametrize("g", [-0.01, -1.0, -5.0, -20.0, -100.0])
@pytest.mark.parametrize("gates", GATES[1:])
def test_uniform_decay_of_any_strength(gates, g, drawn, by_recurrence, gap):
    """Cases 1, 3 and 5; and no exponent is taken that is above zero."""
    x = drawn(70, gates, "keys")
    x["log_decay"] = torch.full_like(x["log_decay"], g)
    with np.errstate(over="raise"):
        found = memory.chunkwise(**x)
    assert max(map(gap, found, by_recurrence(x))) < 5e-6


@pytest.mark.parametrize("g", [-30.0, -300.0, -1e4])
@pytest.mark.parametrize("gates", GATES[1:])
def test_one_strong_decay_costs_the_others_no_digits(
    gates, g, drawn, by_recurrence, gap
):
    """Case 2."""
    x = drawn(70, gates, "keys")
    x["log_decay"] = torch.full_like(x["log_decay"], -0.01)
    x["log_decay"][:, 20] = g
    assert max(map(gap, memory.chunkwise(**x), by_recurrence(x))) < 5e-6


@pytest.mark.parametrize("gates", GATES[1:])
@pytest.mark.parametrize("first", [0, 37])
def test_minus_infinity_is_a_new_sequence(gates, first, drawn, gap):
    """Case 4."""
    x = drawn(70, gates, "keys")
    x["log_decay"][:, first] = -torch.inf
    o, S = memory.chunkwise(**x)
    rest = {n: a if n == "S" else a[:, first:] for n, a in x.items()}
    o_rest, S_rest = memory.chunkwise(**(rest | {"S": torch.zeros_like(x["S"])}))
    assert max(gap(o[:, first:], o_rest), gap(S, S_rest)) < 1e-6


@pytest.mark.parametrize("gates", GATES[1:])
def test_packed_documents_are_separate_calls(gates, drawn, gap):
    """Case 16."""
    lengths = (1, 5, 64, 66, 7)
    x = drawn(sum(lengths), gates, "own", d=(8, 8))
    x.pop("S")
    ends = list(itertools.accumulate(lengths))
    starts = [0, *ends[:-1]]
    x["log_decay"][:, starts] = -torch.inf
    o, S = memory.chunkwise(**x)
    for start, end in zip(starts, ends, strict=True):
        o_alone, S_alone = memory.chunkwise(
            **{n: a[:, start:end] for n, a in x.items()}
        )
        assert gap(o[:, start:end], o_alone) < 1e-6
    assert gap(S, S_alone) < 1e-6


def test_one_key_again_and_again(drawn, by_recurrence, gap):
    """Case 9: overwritten, nearly reflected, not written at all; and a key of zero."""
    x = drawn(64, "none", "keys")
    x["k"] = x["e"] = x["k"][:, :1].expand_as(x["k"]).contiguous()
    for beta in (0.0, 1.0, 1.9, 2.0):
        x["beta"] = torch.full_like(x["beta"], beta)
        assert max(map(gap, memory.chunkwise(**x), by_recurrence(x))) < 5e-6
    x["k"] = x["e"] = torch.zeros_like(x["k"])
    assert torch.equal(memory.chunkwise(**x)[1], x["S"])


@pytest.mark.parametrize("gates", GATES)
def test_the_future_is_not_read(gates, drawn):
    """Case 11: equal to the bit."""
    x = drawn(130, gates, "keys")
    other = drawn(130, gates, "keys", seed=1)
    changed = {
        n: a if n == "S" else torch.cat([a[:, :70], other[n][:, 70:]], 1)
        for n, a in x.items()
    }
    o, o_changed = (memory.chunkwise(**y)[0][:, :70] for y in (x, changed))
    assert torch.equal(o, o_changed)


@pytest.mark.parametrize("gates", GATES)
def test_the_whole_is_its_pieces(gates, drawn, gap):
    """Case 20."""
    x = drawn(130, gates, "keys", d=(8, 8))
    o, S = memory.chunkwise(**x)
    parts, state = [], x["S"]
    for part in (slice(0, 70), slice(70, 130)):
        piece = {n: a[:, part] for n, a in x.items() if n != "S"}
        o_part, state = memory.chunkwise(**piece, S=state)
        parts.append(o_part)
    assert max(gap(torch.cat(parts, 1), o), gap(state, S)) < 2e-6


@pytest.mark.parametrize("gates", GATES)
def test_no_tokens_give_the_state_back(gates, drawn):
    """Case 23: a copy of it."""
    x = drawn(0, gates, "keys")
    o, S = memory.chunkwise(**x)
    assert o.shape == x["z"].shape
    assert torch.equal(S, x["S"])
    assert S.data_ptr() != x["S"].data_ptr()


@pytest.mark.parametrize("gates", GATES)
def test_any_strides(gates, drawn):
    """Case 34: views of one array, heads first, and what is expanded."""
    x = drawn(33, gates, "own", d=(16, 16))
    fused = torch.cat([x["q"], x["k"], x["z"]], -1)
    views = dict(zip(("q", "k", "z"), fused.split(16, -1), strict=True))
    views["e"] = x["e"].transpose(1, 2).contiguous().transpose(1, 2)
    views["S"] = x["S"].mT.contiguous().mT
    for name in ("beta", "log_decay"):
        if name in x:
            x[name] = x[name][:, :, :1].expand_as(x[name])
    views |= {n: a for n, a in x.items() if n not in views}
    plain = {n: a.contiguous() for n, a in x.items()}
    assert not any(views[n].is_contiguous() for n in ("q", "k", "z", "e", "S", "beta"))
    for a, b in zip(memory.chunkwise(**views), memory.chunkwise(**plain), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("gates", GATES)
def test_offsets_are_of_64_bits(gates, axis, drawn, unreached):
    """Case 37: a sequence, token or head that is 2^31 numbers away is found there."""
    x = drawn(2, gates, "own")
    del x["S"]
    assert unreached(axis, x, lambda: memory.chunkwise(**x)) == set()


@pytest.mark.parametrize("gates", GATES)
def test_large_counts_are_on_the_first_axis_of_the_grid(gates, drawn, grids):
    """Case 38: the others end at 65,535."""
    x = drawn(20, gates, "keys", heads=(2, 3), d=(8, 100))
    memory.chunkwise(**x, chunk_size=16)
    assert {len(grid) for grid in grids} == {1}
    assert max(grids) >= (2 * 3 * 2,)


@pytest.mark.parametrize(
    ("name", "wrong", "error"),
    [
        ("q", lambda x: x[..., :-1], ValueError),
        ("k", lambda x: x[0], ValueError),
        ("z", lambda x: x[:, :-1], ValueError),
        ("e", lambda x: x.double(), TypeError),
        ("beta", lambda x: x[..., None], ValueError),
        ("log_decay", lambda x: x[:, :, :1], ValueError),
        ("S", lambda x: x.mT, ValueError),
        ("S", lambda x: x.int(), TypeError),
        ("k", lambda x: x.double(), TypeError),
        ("S", lambda x: x.to("meta"), TypeError),
        ("chunk_size", lambda x: 48, ValueError),
    ],
)
def test_what_does_not_fit_is_named(name, wrong, error, drawn):
    """Case 47: before anything is launched."""
    x = drawn(5, "scalar", "own", d=(16, 24)) | {"chunk_size": 64}
    x[name] = wrong(x[name])
    if name == "k" and error is TypeError:
        x |= {n: a.double() for n, a in x.items() if n != "chunk_size"}
    with pytest.raises(error, match=rf"\b{name}\b"):
        memory.chunkwise(**x)


def test_without_triton_a_plain_word_says_so():
    code = (
        "import sys; sys.modules['triton'] = None\n"
        "import ctlearn.kernels\n"
        "try: import ctlearn.kernels.memory\n"
        "except ImportError as missing: print(missing)\n"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, text=True
    ).stdout
    assert out.startswith("kernels need triton: pip install")


@pytest.mark.parametrize("form", ["chunkwise", "recurrent", "step"])
def test_arguments_are_those_of_the_layers(form):
    """Case 26: a layer may be given either."""
    from ctlearn.layers import memory as layers

    ours, theirs = (
        [(p.name, p.kind) for p in inspect.signature(f).parameters.values()]
        for f in (getattr(memory, form), getattr(layers, form))
    )
    assert ours == theirs
