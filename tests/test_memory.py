"""The one memory: every plan, on every kind of number, at the edges where others fail.

A case number names an entry of the list of faults met in comparable software; the
truth is always the token-by-token recurrence in float64.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctlearn import memory
from ctlearn.features import normalise
from ctlearn.mixers import delta_rule
from ctlearn.supplies import Floats, Rationals, Symbols, float_difference

LENGTHS = (0, 1, 2, 7, 64, 65)
DECAYS = (None, "scalar", "vector")


def tokens(supply, T, d_k, d_v, *, decay, erase):
    x = {
        "q": supply.real("q", T, d_k),
        "k": supply.real("k", T, d_k) / d_k,
        "z": supply.real("z", T, d_v),
    }
    if erase:
        x["e"] = supply.real("e", T, d_k) / d_k
    if decay:
        shape = (T, d_k) if decay == "vector" else (T,)
        x["log_decay"] = supply.log_decay("a", *shape)
    return x


def equal(left, right, supply=None):
    compare = supply.difference if supply else float_difference
    for a, b in zip(left, right, strict=True):
        assert a.dtype == b.dtype
        difference = compare(a, b)
        assert difference.equal, difference.text


def as_float64(x):
    return {name: array.astype(np.float64) for name, array in x.items()}


def plans(x, chunk_sizes=None, **kwargs):
    T = len(x["q"])
    yield memory.parallel(**x, **kwargs)
    for chunk_size in chunk_sizes or (1, 3, 4, max(1, T), T + 5):
        yield memory.chunkwise(**x, **kwargs, chunk_size=chunk_size)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("read_first", [False, True])
@pytest.mark.parametrize("erase", [False, True])
@pytest.mark.parametrize("decay", DECAYS)
@pytest.mark.parametrize("T", LENGTHS)
def test_plans_agree(T, decay, erase, read_first, dtype):
    supply = Floats(T, dtype)
    x = tokens(supply, T, 5, 3, decay=decay, erase=erase)
    for S in (None, supply.real("S", 5, 3)):
        recurrent = memory.recurrent(**x, S=S, read_first=read_first)
        for plan in plans(x, S=S, read_first=read_first):
            equal(recurrent, plan)


@pytest.mark.parametrize("supply", [Symbols(), Rationals(0)], ids=lambda s: s.world)
@pytest.mark.parametrize("read_first", [False, True])
@pytest.mark.parametrize("decay", DECAYS)
def test_plans_agree_exactly(supply, decay, read_first):
    x = tokens(supply, 4, 2, 3, decay=decay, erase=True)
    for S in (None, supply.real("S", 2, 3)):
        recurrent = memory.recurrent(**x, S=S, read_first=read_first)
        # with four tokens, chunks of 4 and more are the parallel plan
        for plan in plans(x, (1, 3), S=S, read_first=read_first):
            equal(recurrent, plan, supply)


def test_one_step_by_hand():
    """Case 32: forget first, then the error sees what is left; T = 2, d = 1."""
    one = np.ones((1, 1))
    decay = np.log([0.5])
    x = {"q": one, "k": one, "z": 3 * one, "e": 0.5 * one, "log_decay": decay}
    S = 8 * one
    # kept 4, answered 4 * 0.5 = 2, so 3 - 2 = 1 is added
    assert memory.recurrent(**x, S=S)[1] == pytest.approx(5)
    # answered 8 * 0.5 = 4 before forgetting, so 3 - 4 = -1 is added
    assert memory.recurrent(**x, S=S, read_first=True)[1] == pytest.approx(3)


@settings(max_examples=30, deadline=None)
@given(
    T=st.integers(0, 40),
    chunk_size=st.integers(1, 50),
    split=st.integers(0, 40),
    seed=st.integers(0, 2**16),
)
def test_split_anywhere(T, chunk_size, split, seed):
    split = min(split, T)
    x = tokens(Floats(seed), T, 3, 2, decay="vector", erase=True)
    first = {name: array[:split] for name, array in x.items()}
    second = {name: array[split:] for name, array in x.items()}
    o, S = memory.recurrent(**x)
    o_first, S_split = memory.chunkwise(**first, chunk_size=chunk_size)
    o_second, S_end = memory.chunkwise(**second, S=S_split, chunk_size=chunk_size)
    equal((o, S), (np.concatenate([o_first, o_second]), S_end))


@pytest.mark.parametrize("strong", [-30, -80, -300, -1e3, -1e4])
@pytest.mark.parametrize("decay", ["scalar", "vector"])
def test_case_2_digits_survive_a_strong_decay(strong, decay):
    x = tokens(Floats(2, "float32"), 130, 8, 6, decay=decay, erase=True)
    x["log_decay"] = np.full_like(x["log_decay"], -0.01)
    x["log_decay"][20::64] = strong
    between = memory.decay_between(x["log_decay"], x["k"])
    assert between.max() <= 1, "an exponent was positive"
    truth = memory.recurrent(**as_float64(x))
    for plan in plans(x):
        for got, wanted in zip(plan, truth, strict=True):
            assert np.abs(got - wanted).max() <= 5e-6 * np.abs(wanted).max()


@pytest.mark.parametrize("g", [-3.0, -20.0, -100.0, -1e4])
@pytest.mark.parametrize("decay", ["scalar", "vector"])
def test_case_3_nothing_overflows_before_the_mask(g, decay):
    x = tokens(Floats(3, "float32"), 65, 8, 6, decay=decay, erase=True)
    x["log_decay"] = np.full_like(x["log_decay"], g)
    truth = memory.recurrent(**as_float64(x))
    with np.errstate(over="raise", invalid="raise"):
        for plan in plans(x):
            equal([a.astype(np.float32) for a in truth], plan)


@pytest.mark.parametrize("at", [0, 1, 30, 64])
@pytest.mark.parametrize("decay", ["scalar", "vector"])
def test_case_4_minus_infinity_forgets_everything(at, decay):
    supply = Floats(4)
    x = tokens(supply, 65, 5, 3, decay=decay, erase=True)
    x["log_decay"][at] = -np.inf
    fresh = {name: array[at:] for name, array in x.items()}
    o_fresh, S_fresh = memory.recurrent(**fresh)
    for o, S in plans(x, S=supply.real("S", 5, 3)):
        equal((o[at:], S), (o_fresh, S_fresh))


@pytest.mark.parametrize("decay", ["scalar", "vector"])
def test_case_4_a_memory_that_reads_first_forgets_all_but_its_answer(decay):
    """The token that forgets has read the old memory, unless it erases nothing."""
    supply = Floats(4)
    x = tokens(supply, 20, 5, 3, decay=decay, erase=True)
    x["log_decay"][8] = -np.inf
    S = supply.real("S", 5, 3)
    fresh = {name: array[8:].copy() for name, array in x.items()}
    before = {name: array[:8] for name, array in x.items()}
    _, old = memory.recurrent(**before, S=S, read_first=True)
    fresh["z"][0] -= old.T @ x["e"][8]
    wanted = memory.recurrent(**fresh, read_first=True)
    for o, S_end in plans(x, S=S, read_first=True):
        equal((o[8:], S_end), wanted)
    x["e"][8] = fresh["e"][0] = 0
    fresh["z"][0] = x["z"][8]
    alone = memory.recurrent(**fresh, read_first=True)
    for o, S_end in plans(x, S=S, read_first=True):
        equal((o[8:], S_end), alone)


@pytest.mark.parametrize("g", [-0.01, -0.5, -2.0, -5.0, -20.0])
def test_case_5_one_channel_decays_fast(g):
    x = tokens(Floats(5, "float32"), 65, 8, 6, decay="vector", erase=True)
    x["log_decay"] = np.full_like(x["log_decay"], -0.01)
    x["log_decay"][:, 3] = g
    truth = memory.recurrent(**as_float64(x))
    for plan in plans(x):
        for got, wanted in zip(plan, truth, strict=True):
            assert np.abs(got - wanted).max() <= 2e-5 * np.abs(wanted).max()


@pytest.mark.parametrize("world", ["float64", "rational"])
def test_case_8_a_growing_gate_is_refused(world):
    supply = Floats(8) if world == "float64" else Rationals(8)
    x = tokens(supply, 4, 2, 3, decay="scalar", erase=False)
    x["log_decay"][2] = 1 + 0 * x["log_decay"][2]
    with pytest.raises(ValueError, match=r"log_decay: expected values in \[−∞, 0\]"):
        memory.chunkwise(**x)
    x["log_decay"][2] = np.nan * x["log_decay"][1] if world == "float64" else -1
    if world == "float64":
        with pytest.raises(ValueError, match=r"log_decay.*nan"):
            memory.chunkwise(**x)


@pytest.mark.parametrize("beta", [0.0, 1.0, 1.9, 2.0])
def test_case_9_one_key_again_and_again(beta):
    supply = Floats(9, "float32")
    k = np.repeat(supply.unit("k", 1, 8), 64, axis=0)
    q, v = supply.real("q", 64, 8), supply.real("v", 64, 6)
    betas = np.full(64, beta, dtype=np.float32)
    truth = delta_rule.recurrent(
        *(a.astype(np.float64) for a in (q, k, v)), beta=betas.astype(np.float64)
    )
    for chunk_size in (1, 16, 64):
        got = delta_rule.chunkwise(q, k, v, beta=betas, chunk_size=chunk_size)
        for a, b in zip(got, truth, strict=True):
            assert np.abs(a - b).max() <= 5e-6 * max(1, np.abs(b).max())


def test_case_9_a_zero_key_writes_nothing():
    supply = Floats(9)
    k = supply.unit("k", 6, 4)
    k[3] = 0
    q, v = supply.real("q", 6, 4), supply.real("v", 6, 2)
    beta = np.ones(6)
    _, before = delta_rule.recurrent(q[:3], k[:3], v[:3], beta=beta[:3])
    _, after = delta_rule.recurrent(q[:4], k[:4], v[:4], beta=beta[:4])
    assert np.array_equal(before, after)


def test_case_10_the_zero_vector_is_normalised_to_zero():
    eps = 1e-6
    assert np.array_equal(normalise(np.zeros(3), eps), np.zeros(3))
    nudge = np.array([1e-9, 0, 0])
    slope = normalise(nudge, eps)[0] / nudge[0]
    assert slope == pytest.approx(1 / np.sqrt(eps), rel=1e-6)
    long = np.array([3.0, 4.0])
    assert normalise(long, eps) == pytest.approx(long / np.sqrt(25 + eps))


@pytest.mark.parametrize("decay", ["scalar", "vector"])
def test_case_16_packed_documents(decay):
    lengths = (1, 5, 64, 66, 7)
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    x = tokens(Floats(16), sum(lengths), 5, 3, decay=decay, erase=True)
    x["log_decay"][starts] = -np.inf
    pieces = [
        {name: array[start : start + length] for name, array in x.items()}
        for start, length in zip(starts, lengths, strict=True)
    ]
    separate = [memory.recurrent(**piece) for piece in pieces]
    o = np.concatenate([o for o, _ in separate])
    for plan in (memory.recurrent(**x), *plans(x)):
        equal(plan, (o, separate[-1][1]))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_case_20_whole_is_pieces(dtype):
    x = tokens(Floats(20, dtype), 130, 5, 3, decay="scalar", erase=True)
    whole = memory.chunkwise(**x)
    for split in (70, 100):
        first = {name: array[:split] for name, array in x.items()}
        second = {name: array[split:] for name, array in x.items()}
        for one, other in (
            (memory.chunkwise, memory.chunkwise),
            (memory.chunkwise, memory.recurrent),
            (memory.recurrent, memory.chunkwise),
        ):
            o_first, S = one(**first)
            o_second, S = other(**second, S=S)
            equal(whole, (np.concatenate([o_first, o_second]), S))
