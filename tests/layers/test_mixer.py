"""Every layer: in pieces as in one pass, causal, differentiable, its mechanism's."""

import importlib
import inspect
import itertools

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason='no torch: pip install "ctlearn[torch]"')

from ctlearn import inner, mixers  # noqa: E402
from ctlearn.layers import memory  # noqa: E402
from ctlearn.layers.gated_delta_rule import GatedDeltaRule  # noqa: E402
from ctlearn.layers.lact import GatedUnit  # noqa: E402
from ctlearn.layers.mamba2 import Mamba2  # noqa: E402
from ctlearn.layers.mesa_net import MesaNet  # noqa: E402
from ctlearn.mixers import (  # noqa: E402
    gated_delta_rule,
    lact,
    mamba2,
    memory_as_context,
    memory_as_layer,
    sliding_window_attention,
    titans,
)
from ctlearn.shapes import GLOSSARY  # noqa: E402

D_MODEL = 12
# T tokens in pieces of these lengths; the first are shorter than the convolution
PIECES = ([1, 1, 1, 34], [2, 35], [36, 1], [33, 1, 1, 1, 1], [17, 20], [0, 37])


@pytest.fixture
def built(make):
    """Makes a layer in float64 whose weights ask for no gradient.

    A map that starts at zero hides what is in front of it, and is drawn unless told.
    """

    def build(kind, *, n_heads=2, n_value_heads=4, as_it_starts=False, **more):
        torch.manual_seed(0)
        sizes = {"n_heads": n_heads, "n_value_heads": n_value_heads, "d_k": 6}
        sizes |= {"d_v": sizes["d_k"] if kind.square else 5} | more
        layer = make(kind, D_MODEL, **sizes)
        for weight in layer.parameters():
            if weight.dim() > 1 and not as_it_starts and not weight.any():
                torch.nn.init.normal_(weight, std=0.1)
        return layer.double().requires_grad_(False)

    return build


def tokens(T, B=2, seed=1):
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(B, T, D_MODEL, generator=rng, dtype=torch.float64)


def stem(kind):
    """The name of the file, which is that of the mechanism."""
    return kind.__module__.rpartition(".")[2]


def long_batches(kind):
    """Mini-batches as long as a chunk, for a kind that has some."""
    constants = mixers.mechanisms()[stem(kind)].constants
    return {"inner_batch": 32} if "inner_batch" in constants else {}


def tensors(state):
    """All tensors of a state, which is tuples of tensors and None."""
    if isinstance(state, tuple):
        return [x for part in state for x in tensors(part)]
    return [] if state is None else [state]


def test_every_layer_is_named_by_a_mechanism(kinds):
    assert kinds
    assert {stem(kind) for kind in kinds} <= set(mixers.mechanisms())


def test_in_pieces_is_in_one_pass(built, kind):
    """Cases 20, 24 and 25."""
    layer, x = built(kind), tokens(37)
    y, last = layer(x)
    for lengths in PIECES:
        pieces, state = [], None
        for piece in x.split(lengths, 1):
            y_piece, state = layer(piece, state)
            pieces.append(y_piece)
        torch.testing.assert_close(torch.cat(pieces, 1), y, rtol=1e-10, atol=1e-12)
        for a, b in zip(tensors(state), tensors(last), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)


def test_a_state_may_be_used_twice(built, kind):
    layer, x = built(kind), tokens(9)
    _, state = layer(x[:, :5])
    kept = [a.clone() for a in tensors(state)]
    first, _ = layer(x[:, 5:], state)
    second, _ = layer(x[:, 5:], state)
    assert torch.equal(first, second)
    assert all(map(torch.equal, tensors(state), kept))


def test_the_future_is_not_read(built, kind):
    """Case 11: to the bit."""
    layer, x = built(kind, **long_batches(kind)), tokens(130)
    changed = x.clone()
    changed[:, 70:] = tokens(60, seed=2)
    y, y_changed = layer(x)[0], layer(changed)[0]
    assert torch.equal(y[:, :70], y_changed[:, :70])
    assert not torch.equal(y[:, 70], y_changed[:, 70])


def test_sequences_do_not_meet(built, kind):
    layer, x = built(kind), tokens(20, B=3)
    for b in range(3):
        alone = layer(x[b : b + 1])[0]
        torch.testing.assert_close(layer(x)[0][b : b + 1], alone)


def drawn(layer, x):
    """q, k and v for the tokens x, as many heads as the layer makes of each."""
    rng, H = torch.Generator().manual_seed(3), layer.n_value_heads
    heads = ((H, layer.d_k), (layer.n_h * H, layer.d_k), (layer.n_h * H, layer.d_v))
    return [torch.randn(*x.shape[:2], *d, generator=rng).double() for d in heads]


def given_by(layer, x):
    """The inputs of the mechanism's update: gates of the tokens, the rest drawn."""
    return layer.inputs(layer.project(x, None)[0], *drawn(layer, x))


def one_head(name, value, b, h):
    """What one sequence and head is given, as NumPy: constants are by head or one."""
    if name == "bent":
        return tuple(x.numpy()[b, :, h] for x in value)
    if not isinstance(value, torch.Tensor):
        return value
    if name in ("angle", "reader_rate") or not value.dim():
        return value.numpy()
    by_token = any("T" in shape for shape in GLOSSARY[name].shapes)
    return value.numpy()[b, :, h] if by_token else value.numpy()[h]


def learned_start(S, b, h):
    """The state that one sequence and head starts from, as NumPy; None if empty."""
    if S is None:
        return None
    if hasattr(S, "cache"):
        return learned_start(S.memory, b, h)
    if isinstance(S[0], GatedUnit):
        return lact.State.start(inner.GatedUnit(*(w[b, h].numpy() for w in S[0])))
    kind, f = getattr(inner, type(S).__name__), S[0]
    weights = [w[b, h].numpy() for layer in f for w in layer if w is not None]
    learner = {1: inner.Linear, 2: inner.Affine, 4: inner.Perceptron}[len(weights)]
    return kind.start(learner(*weights))


def turned(x, angle, again):
    """Pairs of channels as complex numbers, turned by t angles at token t.

    After `again` tokens the count begins again.
    """
    z = x[:, ::2] + 1j * x[:, 1::2]
    z = z * np.exp(1j * (np.arange(len(x)) % again)[:, None] * angle)
    return np.stack([z.real, z.imag], -1).reshape(x.shape)


def beside_window(q, k, v, *, angle, bent, window, zeta, S, **training):
    """Of a layer that bends the tokens for its network: the sum, written out."""
    q, k = (turned(x, angle, len(x)) for x in (q, k))
    y, _ = sliding_window_attention.recurrent(q, k, v, window=window)
    m, _ = lact.recurrent(*bent, **training, S=S)
    return y + zeta * unit(m), None


def gated_window(q, k, v, *, bent, window, gains, S, **training):
    """Of a layer that bends the tokens for its memory: the product, written out."""
    always = {name: training.pop(name) for name in ("K_p", "V_p")}
    y, _ = sliding_window_attention.recurrent(q, k, v, window=window, **always)
    m, _ = titans.recurrent(*bent, **training, S=S)
    return silu(gains[0] * unit(y)) * silu(gains[1] * unit(m)), None


def in_context(S, **given):
    """From the memory that the layer has learned, and an empty segment."""
    S = memory_as_layer.State.start(S, given["k"].shape[1], given["v"].shape[1])
    return memory_as_context.recurrent(**given, S=S)


WRITTEN_OUT = {
    "lact_beside_window": beside_window,
    "memory_as_context": in_context,
    "memory_as_gate": gated_window,
}


@pytest.mark.parametrize("n_value_heads", [2, 4])
def test_the_memory_is_the_mechanism(built, kind, n_value_heads):
    """What a layer gives its memory, the NumPy recurrence answers the same."""
    layer, H = built(kind, n_value_heads=n_value_heads), n_value_heads
    given, S = given_by(layer, tokens(37)), layer.start(2)
    o, _ = layer.answer(S=S, **given)
    module = importlib.import_module(f"ctlearn.mixers.{stem(kind)}")
    recurrent = WRITTEN_OUT.get(stem(kind), module.recurrent)
    for b, h in itertools.product(range(2), range(H)):
        head = {n: one_head(n, value, b, h) for n, value in given.items()}
        if "angle" in head.keys() - inspect.signature(recurrent).parameters:
            angle, again = head.pop("angle"), head.get("inner_batch", 37)
            head |= {n: turned(head[n], angle, again) for n in ("q", "k")}
        expected, _ = recurrent(**head, S=learned_start(S, b, h))
        np.testing.assert_allclose(o[b, :, h].numpy(), expected, rtol=1e-9, atol=1e-11)


def test_gradients_are_those_of_differences(built, kind):
    layer = built(kind, n_heads=1, n_value_heads=2, d_k=2, d_v=2)
    weights = {n: p.detach() for n, p in layer.named_parameters()}

    def outputs(x, *values):
        given = dict(zip(weights, values, strict=True))
        _, state = torch.func.functional_call(layer, given, (tokens(2, B=1),))
        y, last = torch.func.functional_call(layer, given, (x, state))
        return y, *tensors(last)

    inputs = [tokens(5, B=1), *weights.values()]
    inputs = [a.clone().requires_grad_() for a in inputs]
    assert torch.autograd.gradcheck(outputs, inputs, fast_mode=True)


def test_every_weight_counts(built, kind):
    layer = built(kind).requires_grad_(True)
    layer(tokens(9))[0].square().sum().backward()
    assert [n for n, p in layer.named_parameters() if not p.grad.abs().sum()] == []


def test_weights_survive_a_round_trip(built, kind):
    layer, other = built(kind), built(kind)
    for p in other.parameters():
        p.data.zero_()
    other.load_state_dict(layer.state_dict())
    assert torch.equal(layer(tokens(9))[0], other(tokens(9))[0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_narrow_numbers_stay_narrow_and_finite(built, kind, dtype):
    y, _ = built(kind).to(dtype)(tokens(70).to(dtype))
    assert y.dtype == dtype
    assert y.isfinite().all()


def test_nothing_to_read_is_nothing_to_answer(built, kind):
    """Case 23."""
    layer = built(kind)
    _, state = layer(tokens(5))
    y, same = layer(tokens(0), state)
    assert y.shape == (2, 0, D_MODEL)
    assert all(map(torch.equal, tensors(state), tensors(same)))


@pytest.mark.parametrize(
    ("wrong", "names"),
    [({"n_heads": 0}, "n_heads"), ({"n_value_heads": 3}, "n_value_heads")],
)
def test_sizes_that_cannot_be_are_refused(built, kind, wrong, names):
    with pytest.raises(ValueError, match=f"^{names}"):
        built(kind, **wrong)


@pytest.mark.parametrize("form", [memory.recurrent, memory.parallel])
def test_the_function_is_the_choice(built, form):
    """Any form of the memory may run a layer."""
    y, state = built(GatedDeltaRule)(tokens(20))
    y_form, state_form = built(GatedDeltaRule, mix=form)(tokens(20))
    torch.testing.assert_close(y_form, y)
    torch.testing.assert_close(state_form.S, state.S)


def unit(x):
    return x / np.sqrt((x**2).sum(-1, keepdims=True) + 1e-6)


def silu(x):
    return x / (1 + np.exp(-x))


def elu_plus_one(x):
    return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))


def by_step(x):
    """Twice four heads as four, of two steps each."""
    return x.reshape(*x.shape[:2], 2, 4, -1).swapaxes(2, 3)


# what the sources do to queries of 6 channels, to keys, and to values if anything
RECIPES = {
    "comba": (lambda q: unit(q) / 6**0.5, unit),
    "delta_product": (
        lambda q: unit(q) / 6**0.5,
        lambda k: by_step(unit(k)),
        lambda v: by_step(v),
    ),
    "delta_rule": (lambda q: unit(q) / 6**0.5, unit),
    "gated_delta_rule": (lambda q: unit(q) / 6**0.5, unit),
    "gated_delta_rule_2": (lambda q: unit(q) / 6**0.5, unit),
    "gated_linear_attention": (lambda q: q / 6**0.5, lambda k: k),
    "kimi_delta_attention": (lambda q: unit(q) / 6**0.5, unit),
    "lact": (lambda q: unit(silu(q)), lambda k: unit(silu(k)), lambda v: silu(v)),
    "linear_attention": (lambda q: elu_plus_one(q) / 6**0.5, elu_plus_one),
    "longhorn": (lambda q: q, lambda k: k),
    "mamba2": (lambda q: q, lambda k: k),
    "matrix_lstm": (lambda q: q / 6**0.5, lambda k: k),
    "mesa_net": (unit, unit),
    "normalised_linear_attention": (lambda q: q, lambda k: k),
    "preconditioned_delta_rule": (lambda q: unit(q) / 6**0.5, unit),
    "preconditioned_kimi_delta_attention": (lambda q: unit(q) / 6**0.5, unit),
    "retnet": (lambda q: q / 6**0.5, lambda k: k),
    "sliding_window_attention": (lambda q: q / 6**0.5, lambda k: k),
    "softmax_attention": (lambda q: q / 6**0.5, lambda k: k),
    "titans": (unit, unit),
}


@pytest.mark.parametrize("name", RECIPES)
def test_queries_and_keys_are_prepared_as_in_the_sources(built, kinds, name):
    (kind,) = (kind for kind in kinds if stem(kind) == name)
    layer, x = built(kind, as_it_starts=True), tokens(7, B=1)
    (q, k, v), given = drawn(layer, x), given_by(layer, x)
    query, key, value = (*RECIPES[name], lambda v: v)[:3]
    np.testing.assert_allclose(given["q"], query(q.numpy()), rtol=1e-12)
    np.testing.assert_allclose(given["k"], key(k.numpy()), rtol=1e-12)
    np.testing.assert_allclose(given["v"], value(v.numpy()), rtol=1e-12)


def normed(x, weight):
    return weight * x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5)


def written_out(layer, x):
    """Its weights, and of a sequence [T, d_model] q, k, v and the gate's logits.

    Two heads of queries and keys of 6 channels are repeated for four of values of 5.
    """
    w = {n: p.numpy() for n, p in layer.named_parameters()}
    qkv = x @ w["qkv.weight"].T
    taps = w["convolution.weight"]
    padded = np.concatenate([np.zeros((3, qkv.shape[1])), qkv])
    qkv = silu(sum(taps[i] * padded[3 - i : len(padded) - i] for i in range(4)))
    q, k, v = np.split(qkv, [12, 24], axis=1)
    q, k = (np.repeat(a.reshape(-1, 2, 6), 2, axis=1) for a in (q, k))
    gate = (x @ w["gate.weight"].T).reshape(-1, 4, 5)
    return w, q, k, v.reshape(-1, 4, 5), gate


def test_a_gated_delta_rule_layer_written_out(built):
    """With two heads of values for each of keys."""
    layer, x = built(GatedDeltaRule), tokens(9, B=1)
    w, q, k, v, gate = written_out(layer, x[0].numpy())
    q, k = unit(q), unit(k)
    time = x[0].numpy() @ w["passing.project.weight"].T + w["passing.bias"]
    log_decay = -np.exp(w["passing.A_log"]) * np.log1p(np.exp(time))
    beta = 1 / (1 + np.exp(-x[0].numpy() @ w["rate.weight"].T))
    o = np.empty_like(v)
    for h in range(4):
        o[:, h], _ = gated_delta_rule.recurrent(
            q[:, h] / np.sqrt(6),
            k[:, h],
            v[:, h],
            log_decay=log_decay[:, h],
            beta=beta[:, h],
        )
    y = (normed(o, w["norm.weight"]) * silu(gate)).reshape(9, -1) @ w["out.weight"].T
    np.testing.assert_allclose(layer(x)[0][0], y, rtol=1e-9, atol=1e-12)


def test_a_mamba2_layer_written_out(built):
    """Of two groups; the norm comes behind the gate, over all heads."""
    layer, x = built(Mamba2), tokens(9, B=1)
    layer.skip += torch.arange(4)
    w, q, k, v, gate = written_out(layer, x[0].numpy())
    time = x[0].numpy() @ w["passing.project.weight"].T + w["passing.bias"]
    o = np.empty_like(v)
    for h in range(4):
        o[:, h], _ = mamba2.recurrent(
            q[:, h],
            k[:, h],
            v[:, h],
            A=-np.exp(w["passing.A_log"][h]),
            delta=np.log1p(np.exp(time[:, h])),
        )
    o = ((o + w["skip"][:, None] * v) * silu(gate)).reshape(9, -1)
    y = normed(o, w["norm.weight"]) @ w["out.weight"].T
    np.testing.assert_allclose(layer(x)[0][0], y, rtol=1e-9, atol=1e-12)


def test_a_layer_is_one_graph(built, kind):
    """Compiled whole, without a break, it is the layer; and again from a state."""
    torch.compiler.reset()
    layer, x = built(kind, **long_batches(kind)), tokens(40)
    compiled = torch.compile(layer, fullgraph=True, backend="eager", dynamic=False)
    state = same = None
    # more than a chunk, and the midst of a mini-batch
    for piece in x.split([35, 5], 1):
        y, state = layer(piece, state)
        y_compiled, same = compiled(piece, same)
        torch.testing.assert_close(y_compiled, y)
        for a, b in zip(tensors(same), tensors(state), strict=True):
            torch.testing.assert_close(a, b)


# what torch's compiler imports warns about another part of torch
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
# and tracing a Function makes an instance, of which torch itself warns
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize("derived", [GatedDeltaRule, MesaNet])
def test_a_compiled_layer_has_the_gradients_of_the_layer(built, derived):
    """Traced as one graph, forward and back, where the way back is written by hand."""
    torch.compiler.reset()
    few = {"steps": 2} if derived is MesaNet else {}
    layer, found = built(derived, **few).requires_grad_(True), []
    # the backend that needs no C++ compiler, and no path without spaces
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    for form in (layer, compiled):
        x = tokens(37).requires_grad_()
        y, _ = form(x)
        weights = list(layer.parameters())
        found.append([y, *torch.autograd.grad(y.square().sum(), [x, *weights])])
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b)
