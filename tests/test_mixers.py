"""What every mechanism owes, checked for each because it exists."""

import copy
import functools
import inspect

import numpy as np
import pytest

from ctlearn import inner
from ctlearn.mechanism import FORMS
from ctlearn.mixers import mechanisms
from ctlearn.scalars import TOLERANCE
from ctlearn.shapes import GLOSSARY
from ctlearn.supplies import Floats, Rationals, Symbols, float_difference

LENGTHS = (0, 1, 2, 7, 64, 65)
PLANS = ("parallel", "chunkwise")
SIGNED = ("above 0", "at least 0")


def every_mechanism(test=None, *, that=lambda mechanism: True):
    """Ask a test of every mechanism that does not say why it cannot be asked.

    `that` says to which the question applies.
    """
    if test is None:
        return functools.partial(every_mechanism, that=that)
    settings = {n: m for x in mechanisms().values() for n, m in x.settings.items()}
    asked = {
        n: m for n, m in settings.items() if that(m) and test.__name__ not in m.exempt
    }
    return pytest.mark.parametrize("mechanism", asked.values(), ids=asked)(test)


def arrays(S):
    """The arrays of a state, whether it is one or a record, or a record of records."""
    return [a for part in S for a in arrays(part)] if isinstance(S, tuple) else [S]


def narrowed(S):
    """The state without the last column of each of its arrays."""
    if isinstance(S, tuple):
        return type(S)(*(narrowed(part) for part in S))
    return S[..., :-1] if np.ndim(S) else S


def same(left, right, compare=float_difference):
    (o, S), (o_other, S_other) = left, right
    for a, b in zip([o, *arrays(S)], [o_other, *arrays(S_other)], strict=True):
        assert a.dtype == b.dtype
        difference = compare(a, b)
        assert difference.equal, difference.text


def runs(mechanism, inputs, S):
    """Every plan but the recurrent one, at every kind of chunk size."""
    T = len(inputs["v"])
    forms = mechanism.forms
    if "parallel" in forms:
        yield forms["parallel"](**inputs, S=S)
    if "chunkwise" in forms:
        for chunk_size in (1, 3, 4, max(1, T), T + 5):
            yield forms["chunkwise"](**inputs, S=S, chunk_size=chunk_size)


def first(mechanism, supply, d_k=5, d_v=3):
    """The state before the first token."""
    return mechanism.start and mechanism.start(supply, d_k, d_v)


def started(mechanism, supply):
    """A state that has read a few tokens."""
    inputs = mechanism.draw(supply, 4, 5, 3)
    return mechanism.forms["recurrent"](**inputs, S=first(mechanism, supply))[1]


def in_double(x):
    """The same numbers at float64: arrays, states and inputs."""
    if isinstance(x, dict):
        return {name: in_double(part) for name, part in x.items()}
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return type(x)(*map(in_double, x))
    return x.astype(np.float64) if isinstance(x, np.ndarray) else x


def gap(result, truth):
    """The largest error of outputs and state, each relative to its largest number."""
    (o, S), (o_true, S_true) = result, truth
    pairs = zip([o, *arrays(S)], [o_true, *arrays(S_true)], strict=True)
    return max(
        np.abs(a - b).max(initial=0) / np.abs(b).max(initial=1e-30) for a, b in pairs
    )


def keeps_its_digits(mechanism, inputs, at_most):
    """Every plan at float32 against the recurrence at float64.

    Where the recurrence itself magnifies rounding, a plan may err twice as much as it
    does at float32; but there must be digits left to compare.
    """
    if "p" in inputs:
        # where the old answer is read is where it is written, as in the layers: other
        # directions make a recurrence that grows
        inputs["p"] = inputs["k"]
    S = first(mechanism, Floats(1, "float32"), 8, 6)
    truth = mechanism.forms["recurrent"](**in_double(inputs), S=in_double(S))
    with np.errstate(over="raise", invalid="raise"):
        own = gap(mechanism.forms["recurrent"](**inputs, S=S), truth)
        assert own <= 10 * at_most
        for run in runs(mechanism, inputs, S):
            assert gap(run, truth) <= max(at_most, 2 * own)


def magnifies(mechanism):
    """Whether Muon is at work, to which rounding is a direction like others."""
    muon = inspect.signature(mechanism.forms["recurrent"]).parameters.get("muon")
    return muon is not None and bool(mechanism.constants.get("muon", muon.default))


def fades(mechanism):
    """Whether an input says at every token what is kept, of a state that is linear.

    Two layers, which need a start, magnify rounding as they like.
    """
    linear = mechanism.start is None and not magnifies(mechanism)
    return bool(mechanism.decays) and linear


def fades_by_channel(mechanism):
    return any("d_k" in mechanism.shape(name) for name in mechanism.decays)


def corrects(mechanism):
    """Whether a step of size 2 is a reflection, not one that explodes."""
    beta = mechanism.inputs.get("beta", "")
    return beta.startswith(("rate", "double")) and not magnifies(mechanism)


def begins_anew(mechanism):
    """Whether inputs clear the state at any token, not only between mini-batches."""
    return bool(mechanism.decays) and mechanism.constants.get("inner_batch", 1) == 1


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("T", LENGTHS)
@every_mechanism
def test_plans_agree(mechanism, T, dtype):
    supply = Floats(T, dtype)
    inputs = mechanism.draw(supply, T, 5, 3)
    for S in (None, started(mechanism, supply)):
        recurrent = mechanism.forms["recurrent"](**inputs, S=S)
        for run in runs(mechanism, inputs, S):
            same(recurrent, run)


@every_mechanism
def test_plans_agree_exactly(mechanism, monkeypatch):
    """With rational functions in the place of those that learners are made of.

    Which functions these are is all the same to a plan, as long as every plan has the
    same ones.
    """
    for name in ("gelu", "silu"):
        monkeypatch.setattr(inner, name, lambda x: x * x / 4)
        monkeypatch.setattr(inner, f"{name}_slope", lambda x: x / 2)
    monkeypatch.setattr(inner, "sqrt", lambda x: 1 / (1 + x))
    agree(mechanism, Rationals(0), 4)


@every_mechanism
def test_plans_agree_on_symbols(mechanism):
    agree(mechanism, Symbols(), mechanism.symbolic_tokens)


def agree(mechanism, supply, T):
    # no plan needs keys of length one
    inputs = mechanism.draw(supply, T, 2, 3, free=True)
    before = mechanism.draw(supply, 1, 2, 3, free=True)
    if "k" in before:
        before["k"] = supply.real("j", *before["k"].shape)
    S_0 = first(mechanism, supply, 2, 3)
    for S in (S_0, mechanism.forms["recurrent"](**before, S=S_0)[1]):
        recurrent = mechanism.forms["recurrent"](**inputs, S=S)
        for run in runs(mechanism, inputs, S):
            same(recurrent, run, supply.difference)


@every_mechanism
def test_steps_are_the_recurrence(mechanism):
    supply = Floats(0)
    inputs, S = mechanism.draw(supply, 6, 5, 3), started(mechanism, supply)
    whole = mechanism.forms["recurrent"](**inputs, S=S)
    outputs = []
    for t in range(6):
        o, S = mechanism.forms["step"](**mechanism.rows(inputs, t), S=S)
        outputs.append(o)
    same(whole, (np.array(outputs), S))


@pytest.mark.parametrize("T", [65, 130])
@every_mechanism
def test_split_anywhere_is_whole(mechanism, T):
    """Case 20: prefill then decode, in any plan, is one pass."""
    inputs = mechanism.draw(Floats(T), T, 5, 3)
    forms = mechanism.forms
    S_0 = first(mechanism, Floats(0))
    whole = forms["recurrent"](**inputs, S=S_0)
    for split in (0, 1, 33, 64, T):
        for one, other in ((p, r) for p in PLANS for r in ("recurrent", *PLANS)):
            if one in forms and other in forms:
                before, after = (
                    mechanism.rows(inputs, part)
                    for part in (slice(None, split), slice(split, None))
                )
                o, S = forms[one](**before, S=S_0)
                o_rest, S = forms[other](**after, S=S)
                same(whole, (np.concatenate([o, o_rest]), S))


@every_mechanism
def test_the_future_is_not_read(mechanism):
    """Case 11: other tokens from 70 on leave the first 70 outputs equal to the bit."""
    inputs = mechanism.draw(Floats(11), 130, 5, 3)
    other = mechanism.draw(Floats(12), 130, 5, 3)
    tokens = mechanism.by_token
    changed = {
        name: np.concatenate([x[:70], other[name][70:]]) if name in tokens else x
        for name, x in inputs.items()
    }
    S = first(mechanism, Floats(0))
    for name, form in mechanism.forms.items():
        if name != "step":
            o, o_changed = form(**inputs, S=S)[0], form(**changed, S=S)[0]
            assert np.array_equal(o[:70], o_changed[:70]), name


@pytest.mark.parametrize("T", [1, 3])
@every_mechanism
def test_short_sequences_reach_the_state(mechanism, T):
    """Case 15: fewer tokens than a chunk still write."""
    inputs = mechanism.draw(Floats(15), T, 5, 3)
    if "chunkwise" in mechanism.forms:
        same(
            mechanism.forms["recurrent"](**inputs),
            mechanism.forms["chunkwise"](**inputs, chunk_size=16),
        )


@pytest.mark.parametrize("strong", [-30, -80, -300, -1e3, -1e4])
@every_mechanism(that=fades)
def test_digits_survive_strong_decays(mechanism, strong):
    """Case 2: a strong decay now and then costs the weak ones around it no digits."""
    inputs = mechanism.draw(Floats(2, "float32"), 130, 8, 6)
    for name in mechanism.decays:
        inputs[name] = np.full_like(inputs[name], -0.01)
        inputs[name][20::64] = strong
    keeps_its_digits(mechanism, inputs, 5e-6)


@pytest.mark.parametrize("g", [-3.0, -20.0, -100.0, -1e4])
@every_mechanism(that=fades)
def test_nothing_overflows_before_the_mask(mechanism, g):
    """Case 3: over a chunk of 64 the masked exponents would reach 64 |g|."""
    inputs = mechanism.draw(Floats(3, "float32"), 65, 8, 6)
    for name in mechanism.decays:
        inputs[name] = np.full_like(inputs[name], g)
    keeps_its_digits(mechanism, inputs, 5e-6)


@pytest.mark.parametrize("g", [-0.01, -0.5, -2.0, -5.0, -20.0])
@every_mechanism(that=fades_by_channel)
def test_one_channel_may_fade_fast(mechanism, g):
    """Case 5: no factored form, which would need exp(64 |g|)."""
    inputs = mechanism.draw(Floats(5, "float32"), 65, 8, 6)
    for name in mechanism.decays:
        inputs[name] = np.full_like(inputs[name], -0.01)
        inputs[name][..., 3] = g
    keeps_its_digits(mechanism, inputs, 5e-6)


@pytest.mark.parametrize("beta", [0.0, 1.0, 1.9, 2.0])
@every_mechanism(that=corrects)
def test_one_key_again_and_again(mechanism, beta):
    """Case 9: nothing written, overwritten, reflected, and then a key of zero."""
    inputs = mechanism.draw(Floats(9, "float32"), 64, 8, 6)
    inputs["k"][:] = inputs["k"][0]
    inputs["k"][40] = 0
    inputs["beta"][:] = beta
    keeps_its_digits(mechanism, inputs, TOLERANCE[np.dtype("float32")])


@every_mechanism(that=begins_anew)
def test_documents_in_one_row(mechanism):
    """Cases 4 and 16: with its opening, a document is read as if it stood alone."""
    lengths, supply, S = (1, 5, 64, 66, 7), Floats(16), started(mechanism, Floats(4))
    documents = [mechanism.draw(supply, T, 5, 3) for T in lengths]
    # what holds for all tokens holds for all documents
    shared = {n: x for n, x in documents[0].items() if n not in mechanism.by_token}
    documents = [document | shared for document in documents]
    alone = [mechanism.forms["recurrent"](**document) for document in documents]
    opened = [mechanism.opened(document) for document in documents]
    ends = np.cumsum([len(document["q"]) for document in opened])
    row = shared | {
        name: np.concatenate([document[name] for document in opened])
        for name in mechanism.by_token
    }
    for o, S_end in (
        mechanism.forms["recurrent"](**row, S=S),
        *runs(mechanism, row, S),
    ):
        for end, T, (o_alone, _) in zip(ends, lengths, alone, strict=True):
            assert float_difference(o[end - T : end], o_alone).equal
        same((o[:0], S_end), (o[:0], alone[-1][1]))


@every_mechanism(that=lambda mechanism: not magnifies(mechanism))
def test_pieces_at_single_precision(mechanism):
    """Case 20: 70 and 60 tokens, 100 and 30 steps, or chunks around a recurrence."""
    inputs = mechanism.draw(Floats(20, "float32"), 130, 5, 3)
    S_0, forms = first(mechanism, Floats(1, "float32")), mechanism.forms
    whole = forms["chunkwise"](**inputs, S=S_0)
    for cuts in ((70,), range(100, 130), (50, 80)):
        S, outputs = S_0, []
        for i, part in enumerate(np.split(np.arange(130), cuts)):
            form = forms["recurrent" if i % 2 else "chunkwise"]
            o, S = form(**mechanism.rows(inputs, part), S=S)
            outputs.append(o)
        assert gap((np.concatenate(outputs), S), whole) <= 2e-6


@every_mechanism
def test_no_tokens(mechanism):
    """Case 23: an empty output, and the state as it came in."""
    supply = Floats(23)
    inputs, S = mechanism.draw(supply, 0, 5, 3), started(mechanism, supply)
    for name, form in mechanism.forms.items():
        if name != "step":
            o, S_after = form(**inputs, S=S)
            assert o.shape == (0, inputs["v"].shape[-1])
            for a, b in zip(arrays(S), arrays(S_after), strict=True):
                assert np.array_equal(a, b)
                assert not np.shares_memory(a, b)


@every_mechanism
def test_inputs_are_left_alone(mechanism):
    supply = Floats(1)
    inputs, S = mechanism.draw(supply, 9, 5, 3), started(mechanism, supply)
    kept = copy.deepcopy((inputs, S))
    for name, form in mechanism.forms.items():
        given = mechanism.rows(inputs, 0) if name == "step" else inputs
        o, S_after = form(**given, S=S)
        for name_in, x in inputs.items():
            assert np.array_equal(x, kept[0][name_in])
            for out in (o, *arrays(S_after)):
                assert not np.shares_memory(x, out)
        for a, b in zip(arrays(S), arrays(kept[1]), strict=True):
            assert np.array_equal(a, b)
        for a, b in zip(arrays(S), arrays(S_after), strict=True):
            assert not np.shares_memory(a, b)


@every_mechanism
def test_signatures(mechanism):
    """Case 26: the same arguments in the glossary's order, by keyword after q, k, v."""
    names = {}
    for form_name, form in mechanism.forms.items():
        parameters = inspect.signature(form).parameters
        names[form_name] = [n for n in parameters if n != "chunk_size"]
        tokens = [n for n in ("q", "k", "v") if n in mechanism.inputs]
        assert list(parameters)[: len(tokens)] == tokens
        order = [list(GLOSSARY).index(name) for name in parameters]
        assert order == sorted(order)
        for name in list(parameters)[len(tokens) :]:
            assert parameters[name].kind is inspect.Parameter.KEYWORD_ONLY
    assert all(listed == names["recurrent"] for listed in names.values())
    assert set(mechanism.inputs) <= set(names["recurrent"])
    assert set(mechanism.constants) <= set(names["recurrent"])
    assert set(mechanism.forms) <= set(FORMS)


@every_mechanism
def test_bad_calls_fail_early(mechanism):
    """Case 47: one sentence that names the argument."""
    supply = Floats(47)
    inputs = mechanism.draw(supply, 6, 5, 3)
    recurrent, chunkwise = (mechanism.forms[n] for n in ("recurrent", "chunkwise"))
    for name, x in inputs.items():
        if name not in mechanism.by_token:
            continue
        with pytest.raises(ValueError, match=rf"^{name}: expected"):
            recurrent(**(inputs | {name: x[None, None]}))
        with pytest.raises(TypeError, match=rf"^{name}: expected floating-point"):
            recurrent(**(inputs | {name: np.ones(x.shape, dtype=np.int64)}))
        with pytest.raises(TypeError, match=rf"^{name}: expected a NumPy array"):
            recurrent(**(inputs | {name: x.tolist()}))
        if len(mechanism.by_token) > 1:
            with pytest.raises(ValueError, match=r"T is"):
                recurrent(**(inputs | {name: x[:-1]}))
        with pytest.raises(TypeError, match="mixed dtypes"):
            recurrent(**(inputs | {name: x.astype(np.float32)}))
    for name, x in inputs.items():
        symbol = GLOSSARY.get(name)
        if symbol and (symbol.role == "decay" or symbol.range in SIGNED):
            # case 8, and what else would grow where it should fade
            for bad, what in ((-x, ""), (np.nan * x, ".*nan")):
                with pytest.raises(ValueError, match=rf"^{name}: expected {what}"):
                    recurrent(**(inputs | {name: bad}))
    with pytest.raises(ValueError, match=r"d_k is"):
        recurrent(**(inputs | {"q": inputs["q"][..., :-1]}))
    for bad, error in ((0, ValueError), (-3, ValueError), (2.0, TypeError)):
        with pytest.raises(error, match=r"^chunk_size: expected"):
            chunkwise(**inputs, chunk_size=bad)
    with pytest.raises((TypeError, ValueError), match=r"^S: expected"):
        recurrent(**inputs, S=np.zeros((2, 2, 2)))
    S = started(mechanism, supply)
    with pytest.raises(ValueError, match=r"^S(\.\w+)*: d_"):
        recurrent(**inputs, S=narrowed(S))


@every_mechanism
def test_state_size_is_what_is_kept(mechanism):
    T, d_k, d_v = 11, 5, 3
    S = first(mechanism, Floats(0))
    _, S = mechanism.forms["recurrent"](**mechanism.draw(Floats(0), T, d_k, d_v), S=S)
    kept = sum(array.size for array in arrays(S))
    assert kept == mechanism.place.state_numbers(T, d_k, d_v, **mechanism.constants)


@every_mechanism
def test_declaration(mechanism, root):
    assert mechanism.title
    assert mechanism.citations
    assert mechanism.source.__doc__
    assert all(f"{c}" in mechanism.source.__doc__ for c in mechanism.citations)
    assert all(limit.target in mechanisms() for limit in mechanism.limits)
    assert set(mechanism.inputs) <= set(GLOSSARY)
    if mechanism.chapter:
        assert (root / "notebooks" / f"{mechanism.chapter}.ipynb").exists()


def test_exemptions_name_a_test_and_a_reason():
    common = {name for name in globals() if name.startswith("test_")}
    for mechanism in mechanisms().values():
        assert set(mechanism.exempt) <= common
        assert all(mechanism.exempt.values())
