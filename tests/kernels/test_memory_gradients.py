"""The kernels' gradients are those of the float64 recurrence, every one of them."""

import itertools
from functools import partial

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason='no torch: pip install "ctlearn[torch]"')
pytest.importorskip("triton", reason='no Triton: pip install "ctlearn[torch]" on Linux')

from ctlearn.kernels import memory  # noqa: E402

GATES = ("none", "scalar", "vector")
# What is erased, and whether it is read before the memory forgets. Tests take the
# orders in turn: every gate meets every order, at some of the sizes.
ORDERS = (
    ("no", False),
    ("keys", False),
    ("own", True),
    ("keys", True),
    ("own", False),
)
# Below this a float32 error is a few roundings of the result, whatever is computed.
FLOOR = 1e-6


def gradients(form, x, weights, **how):
    """By name, those of a sum of outputs and last state, weighted."""
    # an e that is k stays k, and is no argument of its own
    copies = {id(a): a.detach().clone().requires_grad_() for a in x.values()}
    x = {n: copies[id(a)] for n, a in x.items()}
    leaves = {n: a for n, a in x.items() if n != "e" or a is not x["k"]}
    results = form(x, **how)
    loss = sum((r * w.to(r.dtype)).sum() for r, w in zip(results, weights, strict=True))
    found = torch.autograd.grad(loss, list(leaves.values()))
    return dict(zip(leaves, found, strict=True))


def doubled(x):
    """The inputs in float64, an e that is k still k."""
    wide = {id(a): a.double() for a in x.values()}
    return {n: wide[id(a)] for n, a in x.items()}


def weights_like(x, seed=9):
    """Gradients of the outputs and of the last state."""
    rng = torch.Generator().manual_seed(seed)
    return [torch.randn(x[n].shape, generator=rng).to(x[n].device) for n in ("z", "S")]


def by_kernel(x, **how):
    return memory.chunkwise(**x, **how)


def held(found, truth, own, gap, least=FLOOR):
    """Each gradient is no further from the truth than twice torch's own."""
    assert found.keys() == truth.keys() == own.keys()
    for name, a in found.items():
        allowed = max(2 * gap(own[name], truth[name]), least)
        assert gap(a, truth[name]) <= allowed, name


@pytest.mark.parametrize("gates", GATES)
def test_float32(gates, shape, drawn, filled, by_recurrence, by_torch, gap):
    """Cases 13 and 21: with a first state, and the last one in the loss."""
    T, d = shape
    kernel = partial(by_kernel, chunk_size=filled(T))
    erase, read_first = ORDERS[(T + 2 * GATES.index(gates)) % 5]
    x = drawn(T, gates, erase, d=d)
    weights = weights_like(x)
    found, truth, own = (
        gradients(form, x, weights, read_first=read_first)
        for form in (kernel, by_recurrence, by_torch)
    )
    held(found, truth, own, gap)
    assert max(gap(a, truth[n]) for n, a in found.items()) < 2e-5


@pytest.mark.parametrize("shape", [(15, (8, 100)), (63, (24, 16)), (66, (48, 32))])
@pytest.mark.parametrize("gates", GATES)
@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_half_precision(dtype, gates, shape, drawn, by_recurrence, by_torch, gap):
    T, d = shape
    narrow = {"fp16": torch.float16, "bf16": torch.bfloat16}[dtype]
    turn = T + 2 * GATES.index(gates) + (dtype == "bf16")
    erase, read_first = ORDERS[turn % 5]
    x = drawn(T, gates, erase, d=d, dtype=narrow)
    weights = weights_like(x)
    found, own = (
        gradients(form, x, weights, read_first=read_first)
        for form in (by_kernel, by_torch)
    )
    truth = gradients(by_recurrence, doubled(x), weights, read_first=read_first)
    assert all(a.dtype == narrow for a in found.values())
    held(found, truth, own, gap)


@pytest.mark.parametrize("g", [-0.01, -1.0, -5.0, -20.0, -80.0])
@pytest.mark.parametrize("gates", GATES[1:])
def test_gate_gradients_keep_their_digits_at_strong_decay(
    gates, g, drawn, by_recurrence, gap
):
    """Cases 1, 3 and 5: what a token keeps of itself cannot drown what the gate moves,
    and no exponent is taken that is above zero.
    """
    erase, read_first = ORDERS[(int(-g) + GATES.index(gates)) % 4 + 1]
    x = drawn(70, gates, erase)
    x["log_decay"] = torch.full_like(x["log_decay"], g)
    weights = weights_like(x)
    with np.errstate(over="raise"):
        found = gradients(by_kernel, x, weights, read_first=read_first)
    truth = gradients(by_recurrence, doubled(x), weights, read_first=read_first)
    for name, a in found.items():
        assert gap(a, truth[name]) < 2e-5, name


@pytest.mark.parametrize("g", [-100.0, -1e4])
@pytest.mark.parametrize("gates", GATES[1:])
def test_gate_gradients_below_float32_are_as_good_as_zero(
    gates, g, drawn, by_recurrence, gap
):
    """Case 3: e^-100 is 4e-44, of which float32 has no digits left."""
    x = drawn(40, gates, "keys")
    x["log_decay"] = torch.full_like(x["log_decay"], g)
    weights = weights_like(x)
    found, truth = (gradients(f, x, weights) for f in (by_kernel, by_recurrence))
    error = (found.pop("log_decay") - truth["log_decay"]).abs().max()
    assert error < torch.finfo(torch.float32).tiny
    for name, a in found.items():
        assert gap(a, truth[name]) < 2e-5 or not truth[name].abs().max() > 1e-38, name


@pytest.mark.parametrize(
    ("gates", "g"), [("scalar", -30.0), ("scalar", -300.0), ("vector", -30.0)]
)
def test_one_strong_decay_costs_the_others_no_digits(
    gates, g, drawn, by_recurrence, gap
):
    """Case 2."""
    x = drawn(70, gates, "keys")
    x["log_decay"] = torch.full_like(x["log_decay"], -0.01)
    x["log_decay"][:, 20] = g
    weights = weights_like(x)
    found, truth = (gradients(f, x, weights) for f in (by_kernel, by_recurrence))
    for name, a in found.items():
        assert gap(a, truth[name]) < 2e-5, name


@pytest.mark.parametrize("first", [0, 21])
@pytest.mark.parametrize("gates", GATES[1:])
def test_minus_infinity_is_a_new_sequence(gates, first, drawn, gap):
    """Case 4: finite, and its own gradient is zero."""
    x = drawn(40, gates, "keys")
    x["log_decay"][:, first] = -torch.inf
    weights = weights_like(x)
    found = gradients(by_kernel, x, weights, chunk_size=16)
    rest = {n: a if n == "S" else a[:, first:] for n, a in x.items()}
    rest |= {"S": torch.zeros_like(x["S"]), "e": rest["k"]}
    weights = [weights[0][:, first:], weights[1]]
    alone = gradients(by_kernel, rest, weights, chunk_size=16)
    assert not found["log_decay"][:, first].any()
    alone["log_decay"][:, 0] = 0
    for name in ("q", "k", "z", "beta", "log_decay"):
        assert gap(found[name][:, first:], alone[name]) < 1e-6, name


@pytest.mark.parametrize(
    ("gates", "lengths", "chunk_size"),
    [("scalar", (1, 5, 64, 66, 7), 64), ("vector", (1, 5, 18), 16)],
)
def test_packed_documents_are_separate_calls(gates, lengths, chunk_size, drawn, gap):
    """Case 16."""
    x = drawn(sum(lengths), gates, "own", d=(8, 8))
    del x["S"]
    ends = list(itertools.accumulate(lengths))
    starts = [0, *ends[:-1]]
    x["log_decay"][:, starts] = -torch.inf
    weight = weights_like({"z": x["z"], "S": x["z"]}, seed=5)[0]

    def outputs(x):
        return (memory.chunkwise(**x, chunk_size=chunk_size)[0],)

    found = gradients(outputs, x, [weight])
    for start, end in zip(starts, ends, strict=True):
        part = slice(start, end)
        one = {n: a[:, part] for n, a in x.items()}
        alone = gradients(outputs, one, [weight[:, part]])
        for name, a in alone.items():
            assert gap(found[name][:, part], a) < 1e-6, name


@pytest.mark.parametrize(
    ("T", "gates"),
    [(1, "scalar"), (64, "scalar"), (130, "scalar"), (70, "vector")],
)
@pytest.mark.parametrize("only", ["outputs", "last state"])
def test_a_loss_of_one_result_alone(only, T, gates, drawn, by_recurrence, gap):
    """Case 21."""
    x = drawn(T, gates, "keys")
    weights = weights_like(x)
    weights[only == "outputs"].zero_()
    found, truth = (gradients(f, x, weights) for f in (by_kernel, by_recurrence))
    for name, a in found.items():
        assert gap(a, truth[name]) < 2e-5, name


@pytest.mark.parametrize("gates", GATES)
def test_no_tokens_hand_the_gradient_of_the_state_on(gates, drawn):
    """Case 23."""
    x = drawn(0, gates, "keys")
    weights = weights_like(x)
    assert torch.equal(gradients(by_kernel, x, weights)["S"], weights[1])


@pytest.mark.parametrize("gates", GATES[1:])
def test_gradients_of_any_strides(gates, drawn):
    """Case 34: of a sum, whose gradient is one number expanded, of transposes, and of
    gates that are one of all heads.
    """
    x = drawn(17, gates, "own", d=(16, 16))
    plain = {n: a.clone().requires_grad_() for n, a in x.items()}
    first = {n: a.mT if n == "S" else a.transpose(1, 2) for n, a in x.items()}
    first = {n: a.contiguous().requires_grad_() for n, a in first.items()}
    turned = {n: a.mT if n == "S" else a.transpose(1, 2) for n, a in first.items()}
    for inputs in (plain, turned):
        memory.chunkwise(**inputs, chunk_size=32)[0].sum().backward()
    for name, a in first.items():
        found = a.grad.mT if name == "S" else a.grad.transpose(1, 2)
        assert torch.equal(found, plain[name].grad), name


@pytest.mark.parametrize("gates", GATES[1:])
def test_gradients_of_what_is_expanded(gates, drawn):
    """Case 34: of one decay and one rate for all heads."""
    x = drawn(13, gates, "keys", heads=(1, 2))

    def of_one(laid_out):
        one = {
            n: x[n][:, :, :1].clone().requires_grad_() for n in ("log_decay", "beta")
        }
        every = {n: laid_out(a.expand_as(x[n])) for n, a in one.items()}
        memory.chunkwise(**(x | every), chunk_size=16)[0].sum().backward()
        return [a.grad for a in one.values()]

    for a, b in zip(of_one(lambda a: a), of_one(torch.Tensor.contiguous), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize(("gates", "erase"), [("scalar", "own"), ("vector", "keys")])
@pytest.mark.parametrize("beta", [0.0, 1.0])
def test_gradients_at_the_ends_of_beta(beta, gates, erase, drawn, by_recurrence, gap):
    """Case 9: nothing is written and nothing erased, or all of it."""
    x = drawn(13, gates, erase, heads=(1, 2))
    x["beta"] = torch.full_like(x["beta"], beta)
    weights = weights_like(x)
    kernel = partial(by_kernel, chunk_size=16)
    found, truth = (gradients(f, x, weights) for f in (kernel, by_recurrence))
    for name, a in found.items():
        assert gap(a, truth[name]) < 2e-5, name
        # what is neither written nor erased has no say
        assert a.any() == (beta > 0 or name not in ("k", "z", "e")), name


@pytest.mark.parametrize(
    ("gates", "large"), [("scalar", "states"), ("vector", "their gradients")]
)
def test_states_outgrow_float16(gates, large, drawn, by_recurrence, gap):
    """Case 29: beyond 65504, where float16 ends, and nothing else goes so far."""
    x = drawn(66, gates, "keys", dtype=torch.float16)
    x |= {n: x[n] / 64 for n in ("q", "z", "k")}
    x |= {"e": x["k"], "log_decay": x["log_decay"].float() / 64}
    sizes = (1e5, 1 / 64) if large == "states" else (1 / 64, 1e5)
    do, dlast = weights_like(x)
    x["S"], weights = sizes[0] * x["S"].float(), [do / 64, sizes[1] * dlast]
    assert max(x["S"].abs().max(), weights[1].abs().max()) > 65504
    found = gradients(by_kernel, x, weights)
    truth = gradients(by_recurrence, doubled(x), weights)
    for name, a in found.items():
        assert gap(a, truth[name]) < 3e-3, name


@pytest.mark.parametrize(
    ("gates", "erase"),
    [
        ("none", "no"),
        ("none", "own"),
        ("scalar", "keys"),
        ("scalar", "own"),
        ("vector", "own"),
    ],
)
def test_the_operators_keep_their_contract(gates, erase, drawn):
    """Schema, fakes, and no result that shares memory with an argument."""
    x = drawn(5, gates, "own" if erase == "own" else "no", d=(8, 4), heads=(1, 1))
    x |= {n: a.requires_grad_() for n, a in x.items()}
    order = ("q", "k", "z", "e", "log_decay", "beta", "S")
    arguments = (*map(x.get, order), erase != "no", False, 16)
    torch.library.opcheck(memory.forward, arguments)


@pytest.mark.parametrize(
    ("gates", "erase"),
    [("scalar", "no"), ("scalar", "keys"), ("scalar", "own"), ("vector", "keys")],
)
def test_compiled_whole_it_is_the_same(gates, erase, drawn):
    x = drawn(5, gates, erase, d=(8, 4), heads=(1, 2))
    weights = weights_like(x)
    kernel = partial(by_kernel, chunk_size=16)
    compiled = torch.compile(kernel, fullgraph=True, backend="aot_eager")
    found, eager = (gradients(f, x, weights) for f in (compiled, kernel))
    for name, a in found.items():
        assert torch.equal(a, eager[name]), name
