"""The one memory in torch: every plan is the NumPy recurrence, with its gradients."""

import functools
import itertools

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason='no torch: pip install "ctlearn[torch]"')

from ctlearn import memory as reference  # noqa: E402
from ctlearn.layers import backward, memory  # noqa: E402

LENGTHS = (0, 1, 2, 7, 15, 16, 17, 63, 64, 65, 130)
GATES = ("none", "scalar", "vector")
CHUNKED = {"chunkwise": memory.chunkwise, "by hand": backward.chunkwise}
PLANS = {"recurrent": memory.recurrent, "parallel": memory.parallel} | CHUNKED


@functools.cache
def drawn(T, gates, *, erase=True, B=2, H=2, d_k=5, d_v=4, seed=0):
    """A family member's inputs; keys of length one, erased at beta k."""
    rng = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=rng, dtype=torch.float64)

    k = torch.nn.functional.normalize(normal(B, T, H, d_k), dim=-1)
    x = {"q": normal(B, T, H, d_k), "k": k, "z": normal(B, T, H, d_v)}
    if erase:
        x["e"] = torch.rand(B, T, H, 1, generator=rng, dtype=torch.float64) * k
    if gates != "none":
        shape = (B, T, H) if gates == "scalar" else (B, T, H, d_k)
        x["log_decay"] = -torch.rand(*shape, generator=rng, dtype=torch.float64)
    return x | {"S": normal(B, H, d_k, d_v)}


def by_numpy(x, **how):
    """The float64 recurrence of every sequence and head."""
    B, _, H, _ = x["k"].shape
    o, S = torch.zeros_like(x["z"]), torch.zeros_like(x["S"])
    for b, h in itertools.product(range(B), range(H)):
        head = {
            name: (a[b, h] if name == "S" else a[b, :, h]).double().numpy()
            for name, a in x.items()
        }
        o_h, S_h = reference.recurrent(**head, **how)
        o[b, :, h], S[b, h] = torch.tensor(o_h), torch.tensor(S_h)
    return o, S


@functools.cache
def truth_of(T, gates, erase, read_first):
    """What every plan must give."""
    return by_numpy(drawn(T, gates, erase=erase), read_first=read_first)


def gap(found, truth):
    """The largest relative difference in norm over several tensors."""
    gaps = [0.0]
    for a, b in zip(found, truth, strict=True):
        assert a.shape == b.shape
        if b.numel():
            a, b = a.detach().double(), b.detach().double()
            gaps.append(float((a - b).norm() / b.norm().clamp(min=1e-30)))
    return max(gaps)


def gradients(form, x, weights, **how):
    """Those of a sum of outputs and last state, in the order of the inputs."""
    x = {name: a.clone().requires_grad_() for name, a in x.items()}
    results = form(**x, **how)
    loss = sum((r * w).sum() for r, w in zip(results, weights, strict=True))
    found = torch.autograd.grad(loss, list(x.values()), allow_unused=True)
    zeros = (torch.zeros_like(a) for a in x.values())
    return [z if g is None else g for g, z in zip(found, zeros, strict=True)]


def weights_like(x):
    """Gradients of the outputs and of the last state."""
    rng = torch.Generator().manual_seed(9)
    sizes = x["z"].shape, x["S"].shape
    return [torch.randn(s, generator=rng, dtype=x["z"].dtype) for s in sizes]


def narrowed(x, dtype=torch.float32):
    return {name: a.to(dtype) for name, a in x.items()}


@pytest.mark.parametrize("read_first", [False, True])
@pytest.mark.parametrize("erase", [False, True])
@pytest.mark.parametrize("gates", GATES)
@pytest.mark.parametrize("plan", PLANS)
def test_plans_are_the_recurrence(plan, gates, erase, read_first):
    """Cases 13 and 15: over every length of a last chunk."""
    for T in LENGTHS:
        truth = truth_of(T, gates, erase, read_first)
        for size in (1, 16, 64) if plan in CHUNKED else (None,):
            how = {"read_first": read_first} | ({"chunk_size": size} if size else {})
            found = PLANS[plan](**drawn(T, gates, erase=erase), **how)
            assert gap(found, truth) < 1e-12


@pytest.mark.parametrize("gates", GATES)
def test_one_step_is_one_token(gates):
    x = drawn(1, gates)
    token = {name: a if name == "S" else a[:, 0] for name, a in x.items()}
    o, S = memory.step(**token)
    assert gap((o[:, None], S), truth_of(1, gates, True, False)) < 1e-14


@pytest.mark.parametrize("gates", GATES)
def test_float32_stays_close_to_float64(gates):
    x = drawn(130, gates, d_k=16, d_v=8)
    truth = by_numpy(x)
    for form in CHUNKED.values():
        assert gap(form(**narrowed(x)), truth) < 5e-6


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("plan", PLANS)
def test_half_precision_is_computed_in_float32(plan, dtype):
    """Case 29: the state is float32, and nothing is rounded but the outputs."""
    x = narrowed(drawn(65, "scalar"), dtype) | {"S": drawn(65, "scalar")["S"].float()}
    x["z"] = 30 * x["z"]
    o, S = PLANS[plan](**x)
    o_wide, S_wide = PLANS[plan](**narrowed(x))
    assert (o.dtype, S.dtype) == (dtype, torch.float32)
    assert torch.equal(o, o_wide.to(dtype))
    assert torch.equal(S, S_wide)
    found = gradients(PLANS[plan], x, [torch.ones_like(o), torch.ones_like(S)])
    assert [a.dtype for a in found] == [a.dtype for a in x.values()]
    assert all(a.isfinite().all() for a in found)


@pytest.mark.parametrize("read_first", [False, True])
@pytest.mark.parametrize("erase", [False, True])
@pytest.mark.parametrize("gates", GATES)
def test_gradients_are_those_of_the_recurrence(gates, erase, read_first):
    """Case 21, the initial and the last state among them; also of the state alone."""
    for T, sizes in ((1, (16,)), (7, (1, 64)), (65, (16, 64)), (130, (48,))):
        x = drawn(T, gates, erase=erase)
        weights = weights_like(x)
        for w in (weights, [torch.zeros_like(weights[0]), weights[1]]):
            truth = gradients(memory.recurrent, x, w, read_first=read_first)
            for form, size in itertools.product(CHUNKED.values(), sizes):
                found = gradients(form, x, w, read_first=read_first, chunk_size=size)
                assert gap(found, truth) < 1e-11


@pytest.mark.parametrize("g", [-0.01, -1.0, -5.0, -20.0])
@pytest.mark.parametrize("gates", GATES[1:])
def test_gate_gradients_keep_their_digits_at_strong_decay(gates, g):
    """Case 1: what a token keeps of itself is a billion times what the gate moves."""
    x = drawn(130, gates, d_k=16, d_v=16) | {}
    x["log_decay"] = torch.full_like(x["log_decay"], g)
    weights = weights_like(x)
    truth = gradients(memory.recurrent, x, weights)
    found = gradients(backward.chunkwise, narrowed(x), [w.float() for w in weights])
    for a, b in zip(found, truth, strict=True):
        assert gap([a], [b]) < 2e-5


@pytest.mark.parametrize("g", [-100.0, -1e4])
@pytest.mark.parametrize("gates", GATES[1:])
def test_gate_gradients_that_float32_cannot_hold_are_nothing(gates, g):
    """Cases 1 and 3: exp(-100) is 3.7e-44, where float32 has two digits left."""
    x = drawn(130, gates, d_k=16, d_v=16) | {}
    x["log_decay"] = torch.full_like(x["log_decay"], g)
    weights = weights_like(x)
    truth = gradients(memory.recurrent, x, weights)
    found = gradients(backward.chunkwise, narrowed(x), [w.float() for w in weights])
    for name, a, b in zip(x, found, truth, strict=True):
        smallest = torch.finfo(torch.float32).tiny
        assert (a.double() - b).abs().max() < 2e-5 * b.abs().max() + smallest, name


@pytest.mark.parametrize("gates", GATES[1:])
@pytest.mark.parametrize("first", [0, 37])
def test_minus_infinity_is_a_new_sequence(gates, first):
    """Case 4: exactly, and its own gradient is zero."""
    x = drawn(70, gates) | {}
    x["log_decay"] = x["log_decay"].clone()
    x["log_decay"][:, first] = -torch.inf
    weights = weights_like(x)
    rest = {n: a[:, first:] for n, a in x.items() if n != "S"}
    for form in CHUNKED.values():
        o, S = form(**x)
        o_rest, S_rest = form(**rest)
        assert gap([o[:, first:], S], [o_rest, S_rest]) < 1e-14
        found = gradients(form, x, weights)
        assert all(a.isfinite().all() for a in found)
        assert not found[list(x).index("log_decay")][:, first].any()


@pytest.mark.parametrize("gates", GATES[1:])
def test_documents_in_one_row_are_documents_apart(gates):
    """Case 16, with their gradients; what a boundary's decay was is nobody's."""
    lengths = (1, 5, 64, 66, 7)
    x = drawn(sum(lengths), gates) | {}
    del x["S"]
    firsts = np.cumsum([0, *lengths[:-1]])
    x["log_decay"] = x["log_decay"].clone()
    x["log_decay"][:, firsts] = -torch.inf
    do = torch.randn(x["z"].shape, dtype=torch.float64)

    def trained(form, x, do):
        x = {n: a.detach().requires_grad_() for n, a in x.items()}
        o, S = form(**x)
        return o, S, torch.autograd.grad((o * do).sum(), list(x.values()))

    for form in CHUNKED.values():
        o, S, found = trained(form, x, do)
        for first, length in zip(firsts, lengths, strict=True):
            part = slice(first, first + length)
            alone = {n: a[:, part] for n, a in x.items()}
            o_alone, S_alone, found_alone = trained(form, alone, do[:, part])
            assert gap([o[:, part]], [o_alone]) < 1e-13
            assert gap([a[:, part] for a in found], found_alone) < 1e-12
        assert gap([S], [S_alone]) < 1e-13


@pytest.mark.parametrize("form", CHUNKED.values())
@pytest.mark.parametrize("gates", GATES)
def test_no_tokens_give_the_state_back_with_its_gradient(gates, form):
    """Case 23."""
    x = drawn(0, gates)
    weights = weights_like(x)
    o, S = form(**x)
    assert o.shape == x["z"].shape
    assert torch.equal(S, x["S"])
    found = gradients(form, x, weights)
    assert torch.equal(found[list(x).index("S")], weights[1])


@pytest.mark.parametrize("form", CHUNKED.values())
def test_the_future_is_not_read(form):
    """Case 11: equal to the bit."""
    x, other = drawn(130, "scalar"), drawn(130, "scalar", seed=1)
    changed = {
        n: a if n == "S" else torch.cat([a[:, :70], other[n][:, 70:]], 1)
        for n, a in x.items()
    }
    assert torch.equal(form(**x)[0][:, :70], form(**changed)[0][:, :70])


@pytest.mark.parametrize("form", CHUNKED.values())
@pytest.mark.parametrize("gates", GATES)
def test_the_whole_is_its_pieces(gates, form):
    """Case 20: in float32, two calls, tokens after a call, a call after tokens."""
    x = narrowed(drawn(130, gates))
    truth = form(**x)
    for split, (first, then) in itertools.product(
        (70, 100), itertools.permutations((form, memory.recurrent))
    ):
        tokens = {n: a for n, a in x.items() if n != "S"}
        o_1, S = first(**{n: a[:, :split] for n, a in tokens.items()}, S=x["S"])
        o_2, S = then(**{n: a[:, split:] for n, a in tokens.items()}, S=S)
        assert gap([torch.cat([o_1, o_2], 1), S], truth) < 2e-6


@pytest.mark.parametrize("erase", [False, True])
@pytest.mark.parametrize("gates", GATES)
def test_rates_stand_for_what_is_erased_and_written_at_them(gates, erase):
    for T in (0, 1, 40):
        x = drawn(T, gates, erase=erase)
        beta = torch.rand(x["k"].shape[:3], dtype=torch.float64)

        def scaled(form, beta, z, e=None, **others):
            e = None if e is None else beta[..., None] * e
            return form(z=beta[..., None] * z, e=e, **others)

        x = x | {"beta": beta}
        weights = weights_like(x)
        truth = functools.partial(scaled, memory.recurrent)
        for form in PLANS.values():
            assert gap(form(**x), truth(**x)) < 1e-12
            found = gradients(form, x, weights)
            assert gap(found, gradients(truth, x, weights)) < 1e-11


def test_gradients_of_an_erased_key_are_those_of_both():
    """With e the very tensor that k is."""
    x = {n: a for n, a in drawn(40, "scalar").items() if n != "e"}
    weights = weights_like(x)

    def erasing(form, k, **others):
        return form(k=k, e=k, **others)

    found, truth = (
        gradients(functools.partial(erasing, form), x, weights)
        for form in (backward.chunkwise, memory.recurrent)
    )
    assert gap(found, truth) < 1e-12


@pytest.mark.parametrize("form", CHUNKED.values())
@pytest.mark.parametrize("gates", GATES)
def test_strides_change_nothing(gates, form):
    """Case 34: parts of one tensor, heads before time, expanded, a gradient of ones."""
    x = narrowed(drawn(40, gates, d_k=6, d_v=6))
    fused = torch.cat([x["q"], x["k"], x["z"]], -1)
    views = {n: fused[..., 6 * i : 6 * i + 6] for i, n in enumerate(("q", "k", "z"))}
    views["e"] = x["e"].transpose(1, 2).contiguous().transpose(1, 2)
    if gates != "none":
        one = x["log_decay"][:, :1, :1]
        views["log_decay"] = one.expand_as(x["log_decay"])
    views["S"] = x["S"].mT.contiguous().mT
    plain = {n: a.contiguous() for n, a in views.items()}
    assert not any(a.is_contiguous() for a in views.values())
    results = []
    for given in (views, plain):
        leaves = {n: a.detach().requires_grad_() for n, a in given.items()}
        o, S = form(**leaves)
        (o.sum() + S.sum()).backward()
        results.append([o, S, *(a.grad for a in leaves.values())])
    assert gap(*results) < 1e-6


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("T", [0, 1, 40])
def test_inputs_are_not_written_to_and_share_no_memory(plan, T):
    x = {n: a.clone() for n, a in drawn(T, "scalar", B=1, H=1).items()}
    for given in (x, {n: a for n, a in x.items() if n in ("q", "k", "z", "S")}):
        before = {n: a.clone() for n, a in given.items()}
        o, S = PLANS[plan](**given)
        o += 1
        S += 1
        assert all(torch.equal(a, before[n]) for n, a in given.items())


def test_without_gradients_no_states_are_kept():
    x = drawn(130, "scalar")
    given = [x.get(n) for n in ("q", "k", "z", "e", "log_decay", "beta", "S")]
    kept = [
        backward._forward(*given, False, False, 16, keep)[2] for keep in (True, False)
    ]
    assert [len(a) for a in kept] == [len(memory.segments(x["k"], 16)), 0]


@pytest.mark.parametrize("gates", GATES)
def test_gradcheck(gates):
    x = drawn(6, gates, B=1, H=1, d_k=2, d_v=2)
    x = x | {"beta": torch.rand(x["k"].shape[:3], dtype=torch.float64)}
    names = list(x)
    arrays = tuple(a.clone().requires_grad_() for a in x.values())
    for plan in CHUNKED.values():

        def form(*arrays, plan=plan):
            return plan(**dict(zip(names, arrays, strict=True)), chunk_size=4)

        assert torch.autograd.gradcheck(form, arrays)


def test_gradients_of_gradients_are_refused_by_hand_and_found_by_autograd():
    """Case 27."""
    x = {n: a.clone().requires_grad_() for n, a in drawn(5, "scalar").items()}
    for form in CHUNKED.values():
        o, _ = form(**x)
        (dk,) = torch.autograd.grad(o.square().sum(), x["k"], create_graph=True)
        if form is memory.chunkwise:
            assert torch.autograd.grad(dk.square().sum(), x["q"])[0].any()
        else:
            with pytest.raises(RuntimeError, match="autograd"):
                torch.autograd.grad(dk.square().sum(), x["q"])


@pytest.mark.parametrize("form", CHUNKED.values())
@pytest.mark.parametrize("gates", GATES)
def test_compiled_whole_equals_eager(gates, form):
    """To the bit where nothing is fused, outputs and gradients."""
    x = narrowed(drawn(40, gates)) | {"beta": torch.rand(2, 40, 2)}
    weights = [w.float() for w in weights_like(x)]
    compiled = torch.compile(form, fullgraph=True, backend="aot_eager")
    for a, b in zip(compiled(**x), form(**x), strict=True):
        assert torch.equal(a, b)
    found, truth = gradients(compiled, x, weights), gradients(form, x, weights)
    assert all(torch.equal(a, b) for a, b in zip(found, truth, strict=True))
    torch.compiler.reset()


def test_the_operator_is_as_torch_wants_it():
    x = drawn(40, "scalar")
    given = [x.get(n) for n in ("q", "k", "z", "e", "log_decay", "beta", "S")]
    given = [None if a is None else a.clone().requires_grad_() for a in given]
    torch.library.opcheck(backward._forward, (*given, False, False, 16, True))


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("gates", GATES[1:])
@pytest.mark.parametrize("bad", [0.5, float("nan")])
def test_a_decay_above_zero_is_named(plan, gates, bad):
    """Case 8."""
    x = drawn(7, gates) | {}
    x["log_decay"] = x["log_decay"].clone()
    x["log_decay"][0, 3] = bad
    with pytest.raises(ValueError, match=rf"^log_decay: .*\[−∞, 0\], got {bad}"):
        PLANS[plan](**x)


@pytest.mark.parametrize(
    ("name", "change", "error", "said"),
    [
        ("q", lambda a: a[0], ValueError, r"expected \[B, T, H, d_k\]"),
        ("k", lambda a: a[..., :-1], ValueError, "d_k is 4 but q has d_k = 5"),
        ("z", lambda a: a[:, :-1], ValueError, "T is 6 but q has T = 7"),
        ("e", lambda a: a[:, :, :1], ValueError, "H is 1 but q has H = 2"),
        ("log_decay", lambda a: a[:1], ValueError, "B is 1 but q has B = 2"),
        ("S", lambda a: a.mT, ValueError, "d_k is 4 but q has d_k = 5"),
        ("k", lambda a: a.float(), TypeError, "float32 but q has torch.float64"),
        ("log_decay", lambda a: a.int(), TypeError, "floating-point numbers"),
        ("S", lambda a: a.to("meta"), TypeError, "is on meta but q on cpu"),
        ("z", lambda a: a.numpy(), TypeError, "expected a tensor, got ndarray"),
    ],
)
def test_bad_arguments_are_named(name, change, error, said):
    """Case 47."""
    x = drawn(7, "scalar")
    x = x | {name: change(x[name])}
    for form in PLANS.values():
        with pytest.raises(error, match=f"^{name}: .*{said}"):
            form(**x)


@pytest.mark.parametrize("form", CHUNKED.values())
@pytest.mark.parametrize("size", [0, -1, 2.0])
def test_a_bad_chunk_size_is_named(form, size):
    with pytest.raises((ValueError, TypeError), match=r"^chunk_size: "):
        form(**drawn(7, "none"), chunk_size=size)


def test_inverse_of_near_parallel_keys_is_exact_in_float32():
    """Case 9: one key sixty-four times, at beta 1.9."""
    L = torch.full((64, 64), 1.9, dtype=torch.float64).tril(-1)
    found = backward.inverse_unit_lower(L.float())
    truth = np.linalg.inv(np.eye(64) + L.numpy())
    assert np.abs(found.numpy() - truth).max() < 1e-5 * np.abs(truth).max()


@pytest.mark.parametrize("C", [1, 31, 32, 33, 64, 65, 130])
def test_inverse_looks_below_the_diagonal_alone(C):
    L = torch.randn(2, C, C, dtype=torch.float64) / C
    truth = np.linalg.inv(np.eye(C) + L.tril(-1).numpy())
    assert np.abs(backward.inverse_unit_lower(L).numpy() - truth).max() < 1e-12
