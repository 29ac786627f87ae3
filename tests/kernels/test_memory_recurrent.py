"""The kernel for decoding is the float64 recurrence, at every split from prefill."""

import pytest

torch = pytest.importorskip("torch", reason='no torch: pip install "ctlearn[torch]"')
pytest.importorskip("triton", reason='no Triton: pip install "ctlearn[torch]" on Linux')

from ctlearn.kernels import memory  # noqa: E402

GATES = ("none", "scalar", "vector")


@pytest.mark.parametrize("erase", ["no", "keys", "own"])
@pytest.mark.parametrize("gates", GATES)
def test_float32(gates, erase, drawn, by_recurrence, gap):
    for T, d in ((1, (60, 100)), (5, (8, 24)), (0, (16, 16))):
        x = drawn(T, gates, erase, d=d)
        for read_first in (False, True):
            found = memory.recurrent(**x, read_first=read_first)
            truth = by_recurrence(x, read_first=read_first)
            assert max(map(gap, found, truth)) < 1e-6


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_keeps_its_state_in_float32(dtype, drawn, by_recurrence, gap):
    """One rounding: that of the output."""
    x = drawn(7, "scalar", "keys", dtype=getattr(torch, dtype))
    o, S = memory.recurrent(**x)
    o_true, S_true = by_recurrence(x)
    assert gap(o, o_true) < torch.finfo(o.dtype).eps
    assert gap(S, S_true) < 1e-6


@pytest.mark.parametrize("gates", GATES)
def test_prefill_then_decode_is_one_pass(gates, drawn, gap):
    """Case 20: 30 tokens in chunks, one by one, and in chunks again."""
    x = drawn(53, gates, "keys", d=(8, 8))
    o, S = memory.chunkwise(**x)

    def part(*tokens):
        return {n: a[:, slice(*tokens)] for n, a in x.items() if n != "S"}

    first, state = memory.chunkwise(**part(0, 30), S=x["S"])
    outputs = [first]
    for t in range(30, 33):
        token = {n: a[:, t] for n, a in x.items() if n != "S"}
        o_t, state = memory.step(**token, S=state)
        outputs.append(o_t[:, None])
    rest, state = memory.chunkwise(**part(33, 53), S=state)
    assert gap(torch.cat([*outputs, rest], 1), o) < 2e-6
    assert gap(state, S) < 2e-6


def test_minus_infinity_forgets_exactly(drawn):
    """Case 4."""
    x = drawn(1, "vector", "keys")
    x["log_decay"][:] = -torch.inf
    fresh = x | {"S": torch.zeros_like(x["S"])}
    for a, b in zip(memory.recurrent(**x), memory.recurrent(**fresh), strict=True):
        assert torch.equal(a, b)


def test_its_gradient_is_refused(drawn):
    """Case 27."""
    x = drawn(2, "scalar", "keys")
    x["q"].requires_grad_()
    with pytest.raises(RuntimeError, match="no autograd formula"):
        memory.recurrent(**x)[0].sum().backward()
