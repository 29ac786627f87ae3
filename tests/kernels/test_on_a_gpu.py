"""What shows itself on a GPU alone: compilers, tf32, races, sizes.

Here the interpreter runs these small, so that they are known to run; `make gpu` runs
them on a GPU as large as they have to be.
"""

import itertools

import pytest

torch = pytest.importorskip("torch", reason='no torch: pip install "ctlearn[torch]"')
pytest.importorskip("triton", reason='no Triton: pip install "ctlearn[torch]" on Linux')

from ctlearn.kernels import memory  # noqa: E402

DTYPES = ("float32", "float16", "bfloat16")
GATES = ("none", "scalar", "vector")
ERASE = ("no", "keys", "own")
CHUNKS = (64, 32, 16)
# Above what rounding does, below what a wrong product does: outputs, gradients.
ALLOWED = {"float32": (5e-6, 2e-5), "float16": (1e-3, 2e-3), "bfloat16": (6e-3, 1e-2)}
EVERY = list(itertools.product(DTYPES, GATES, ERASE, CHUNKS))
# each value of each in some, which is what the interpreter has time for
FEW = list(zip(DTYPES, itertools.cycle(GATES), ERASE, CHUNKS, strict=False))


def results(form, x, do, **how):
    """Outputs and last state, and by name the gradients of the outputs."""
    copies = {id(a): a.detach().requires_grad_() for a in x.values()}
    x = {n: copies[id(a)] for n, a in x.items()}
    leaves = {n: a for n, a in x.items() if n != "e" or a is not x["k"]}
    o, S = form(**x, **how)
    found = torch.autograd.grad(o, list(leaves.values()), do.to(o.dtype))
    return o.detach(), S.detach(), dict(zip(leaves, found, strict=True))


def test_every_configuration(device, drawn, gap):
    """Cases 39 and 40: each is launched, and none is miscompiled."""
    from ctlearn.layers import memory as layers

    T, d = (130, (128, 128)) if device == "cuda" else (17, (16, 24))
    for dtype, gates, erase, chunk in EVERY if device == "cuda" else FEW:
        kind = getattr(torch, dtype)
        x = drawn(T, gates, erase, d=d, heads=(1, 1), dtype=kind)
        do = torch.randn(x["z"].shape, generator=torch.Generator().manual_seed(1))
        do = do.to(device)
        wide = {id(a): a.double() for a in x.values()}
        wide = {n: wide[id(a)] for n, a in x.items()}
        *found, gradients = results(memory.chunkwise, x, do, chunk_size=chunk)
        *true, true_gradients = results(layers.recurrent, wide, do)
        outputs, others = ALLOWED[dtype]
        where = dtype, gates, erase, chunk
        assert max(map(gap, found, true)) < outputs, where
        for name, right in true_gradients.items():
            assert gap(gradients[name], right) < others, (name, *where)


def test_float32_is_not_rounded_to_tf32(device, drawn, by_recurrence, gap):
    """Case 30: keys nearly parallel, each token overwriting what the last one wrote."""
    x = drawn(130 if device == "cuda" else 17, "none", "keys", d=(64, 64), heads=(1, 2))
    x["k"] = torch.nn.functional.normalize(x["k"][:, :1] + 0.01 * x["k"], dim=-1)
    x |= {"e": x["k"], "beta": torch.ones_like(x["beta"])}
    assert max(map(gap, memory.chunkwise(**x), by_recurrence(x))) < 1e-5


@pytest.mark.parametrize("gates", GATES)
def test_twice_is_the_same_to_the_bit(gates, device, drawn):
    """Case 41: of a thousand programs, none reads what another has yet to write."""
    T, d, heads, C = (130, 64, (16, 64), 64) if device == "cuda" else (9, 8, (1, 2), 16)
    x = drawn(T, gates, "keys", d=(d, d), heads=heads)
    do = torch.ones_like(x["z"])
    first, second = (results(memory.chunkwise, x, do, chunk_size=C) for _ in range(2))
    assert all(map(torch.equal, first[:2], second[:2]))
    assert all(torch.equal(first[2][n], second[2][n]) for n in first[2])


@pytest.mark.parametrize(
    ("large", "small"),
    [
        pytest.param((16, 17477, 60, 128), (2, 17, 2, 16), id="2^31 numbers"),
        pytest.param((4100, 17, 16, 16), (3, 17, 2, 16), id="65,600 heads"),
        pytest.param((1, 66000, 2, 16), (1, 70, 2, 16), id="66,000 tokens"),
    ],
)
def test_the_last_head_is_what_it_is_alone(large, small, device, gap):
    """Cases 37 and 38: the rows that a narrow offset or a small grid would lose."""
    B, T, H, d = large if device == "cuda" else small
    if device == "cuda" and B * T * H * d > torch.cuda.mem_get_info()[0] / 40:
        pytest.skip("not enough memory on this GPU for 2^31 numbers and gradients")
    rng = torch.Generator(device).manual_seed(0)

    def normal():
        return torch.randn(B, T, H, d, generator=rng, device=device).bfloat16()

    x = {"q": normal(), "k": normal() / d**0.5, "z": normal()}
    x |= {"e": x["k"], "beta": torch.rand(B, T, H, generator=rng, device=device)}
    do = normal()
    last = {id(a): a[-1:, :, -1:] for a in x.values()}
    alone = {n: last[id(a)] for n, a in x.items()}
    *found, gradients = results(memory.chunkwise, x, do)
    *wanted, gradients_alone = results(memory.chunkwise, alone, do[-1:, :, -1:])
    o, S = found[0][-1:, :, -1:], found[1][-1:, -1:]
    assert max(map(gap, (o, S), wanted)) < 1e-3
    for name, a in gradients_alone.items():
        assert gap(gradients[name][-1:, :, -1:], a) < 1e-3, name
