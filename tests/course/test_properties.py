"""Properties: what each of them notices, what it says, and what it lets pass."""

from dataclasses import replace

import numpy as np
import pytest

from ctlearn.course.bank import exercises
from ctlearn.course.exercise import Answer, Stopped, body, head, slip, text_of
from ctlearn.course.properties import (
    Causal,
    Limit,
    PassesState,
    Unchanged,
    Untouched,
    Values,
    at_once,
    differs,
    examine,
    same,
)

RULE = exercises()["07.delta-rule"]
BY_TOKEN = ("q", "k", "v", "beta")


def found(function, *properties):
    """What is said of a function in the place of the delta rule's."""
    exercise = replace(RULE, properties=properties)
    return examine(exercise, at_once(function), seed=0)


def changed(*changes):
    return slip(RULE.reference, *changes)


def test_the_right_answer_has_every_property():
    assert examine(RULE, at_once(RULE.reference), seed=0) == ((), None)


def test_values_tell_the_place_and_the_sizes_and_no_number_that_is_right():
    wrong = changed(("    return o", "    o[2:] = 77\n    return o"))
    (broken,) = found(wrong, Values()).broken
    assert broken.says == (
        "o is wrong, first in row 2 (counted from 0), at T = 7, d_k = 3, d_v = 2."
    )


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (lambda o, S: None, "Nothing is returned where o and S are asked for"),
        (lambda o, S: o, "One value is returned where o and S are asked for"),
        (lambda o, S: (o, S, S), "3 values are returned where o and S are asked for"),
        (lambda o, S: (o, None), "S is None"),
        (lambda o, S: (o.T, S), "o has the shape (2, 7) where (7, 2) is asked for"),
        (lambda o, S: (o, [o, S]), "S holds no real numbers"),
        (lambda o, S: (o, "S"), "S holds no real numbers"),
        (lambda o, S: (o, S + 0j), "S holds no real numbers"),
        (lambda o, S: (o, S.astype(object)), "S holds no real numbers"),
        (lambda o, S: (o, S.astype("f")), "S is float32 where the inputs are float64"),
        (lambda o, S: (o + np.nan, S), "o is not a number, first in row 0"),
        (lambda o, S: (o, S + np.inf), "S is wrong, first in row 0"),
        (lambda o, S: (np.full_like(o, np.nan), S), "o is not a number"),
    ],
)
def test_values_tell_what_an_answer_is_instead(value, said):
    def wrong(**inputs):
        return value(*RULE.reference(**inputs))

    (broken,) = found(wrong, Values()).broken
    assert broken.says.startswith(said)


def test_rounding_passes_and_anything_larger_does_not():
    right = np.array([1.0, -np.inf, 1e-14])
    assert same(right * (1 + 1e-10), right)
    assert not same(right * (1 + 1e-6), right)
    assert not same(np.array([1.0, np.inf, 0.0]), right)
    assert same(np.zeros((0, 2)), np.ones((0, 2)))
    assert not same(np.zeros((0, 2)), np.zeros((0, 3)))
    assert same(np.array([1e-14]), np.zeros(1))
    assert not same(np.array([1e-9]), np.zeros(1))
    assert same(np.array([np.nan]), np.array([np.nan]))
    assert not same(np.array([np.nan]), np.array([1.0]))
    assert same(None, None)
    assert not same(None, np.zeros(1))
    assert not same(0.0, None)
    assert differs(np.ones(2, "i4"), np.ones(2), ("x",)) is None
    assert differs(np.nan, np.nan, ("x",)) == "x is not a number"


def test_an_input_that_is_written_to_is_named():
    in_place = changed(("S = S + beta[t]", "S += beta[t]"))
    (broken,) = found(in_place, Untouched()).broken
    assert "its argument S" in broken.says
    lost = examine(
        replace(RULE, properties=(Untouched(),)),
        lambda inputs: Answer(RULE.reference(**inputs), {}),
        seed=0,
    )
    assert "its argument" in lost.broken[0].says


def test_a_leak_of_the_future_is_seen_and_the_past_may_be_read():
    leaking = changed(("q[t]", "q[t - 1]"))
    (broken,) = found(leaking, Causal(BY_TOKEN)).broken
    assert broken.says.startswith("The first ")
    assert found(RULE.reference, Causal(BY_TOKEN)) == ((), None)


def test_a_state_that_is_not_handed_on_is_seen():
    forgetful = changed(("    o = ", "    S = 0 * S\n    o = "))
    (broken,) = found(forgetful, PassesState(BY_TOKEN)).broken
    assert "tokens are read as" in broken.says


@pytest.mark.parametrize(
    ("change", "said"),
    [
        # wherever it is cut, a state that is handed to no token may be right
        (("    o = ", "    S = S * (len(v) == 0)\n    o = "), "S differs when 7"),
        (("return o, S", "return o, S + (len(v) == 7)"), "S differs when 7"),
        (("return o, S", "return o + (len(v) == 7), S"), "o differs when 7"),
    ],
)
def test_states_and_answers_must_both_agree(change, said):
    (broken,) = found(changed(change), PassesState(BY_TOKEN)).broken
    assert broken.says.startswith(said)


def test_a_state_of_another_shape_is_left_to_the_values():
    wrong = changed(("return o, S", "return o, S.sum()"))
    names = [x.name for x in found(wrong, Values(), PassesState(BY_TOKEN)).broken]
    assert names == [Values().name]


def test_a_limit_and_an_invariance_say_what_should_hold():
    still = Limit(
        "nothing is written at strength 0",
        here=lambda x: x | {"beta": 0 * x["beta"]},
        wanted=lambda x: (x["q"] @ x["S"], x["S"]),
    )
    turned = Unchanged("the order does not matter", lambda x: x | {"k": x["k"][::-1]})
    never = Limit("nothing holds", here=lambda x: None)
    assert found(RULE.reference, still, never) == ((), None)
    (broken,) = found(RULE.reference, turned).broken
    assert broken.says.startswith("It should hold that the order does not matter. o")
    wrong = changed(("beta[t] *", "(1 + beta[t]) *"))
    (broken,) = found(wrong, still).broken
    assert broken.says.startswith("It should hold that nothing is written at strength")
    later = replace(still, here=lambda x: still.here(x) if len(x["v"]) < 7 else None)
    assert found(wrong, later).broken
    assert found(RULE.reference, replace(still, wanted=lambda x: (x["v"], 7))).broken


def test_an_exception_of_the_functions_own_ends_the_trials():
    def stops(**inputs):
        raise IndexError("no such row")

    finding = found(stops, Values(), Untouched())
    says = "IndexError: no such row. That was at T = 7, d_k = 3, d_v = 2."
    assert [x.says for x in finding.broken] == [says]
    assert finding.mistake is None


@pytest.mark.parametrize("calls", [1, 2])
@pytest.mark.parametrize("kind", ["time", "memory", "crash", "forbidden", "missing"])
def test_what_else_stops_a_function_is_passed_on(kind, calls):
    """While it is tried, and while its mistake is looked for."""
    left = [np.zeros(0)] * (calls - 1)

    def asked(inputs):
        if left:
            return Answer(left.pop(), inputs)
        raise Stopped(kind, "too much")

    with pytest.raises(Stopped, match="too much"):
        examine(RULE, asked, seed=0)


def test_a_mistake_is_known_only_by_all_of_its_answers():
    mistake = RULE.mistakes[0]
    assert examine(RULE, at_once(mistake.function), seed=3).mistake is mistake

    def at_times(**inputs):
        function = RULE.reference if len(inputs["v"]) < 5 else mistake.function
        return function(**inputs)

    def both(**inputs):
        value, S = mistake.function(**inputs)
        return value, S + 1

    def stops(**inputs):
        return mistake.function(**inputs) if len(inputs["v"]) > 1 else inputs["none"]

    def more(**inputs):
        return *mistake.function(**inputs), inputs["S"]

    def writes(**inputs):
        value = mistake.function(**inputs)
        inputs["S"] += 1
        return value

    assert examine(RULE, at_once(at_times), seed=3).mistake is not mistake
    for other in (both, stops, more, writes):
        assert examine(RULE, at_once(other), seed=3).mistake is None


def test_other_inputs_are_drawn_with_another_seed():
    seen = []

    def asked(inputs):
        seen.append(inputs["q"].sum())
        return Answer(RULE.reference(**inputs), inputs)

    for seed in (1, 2):
        examine(replace(RULE, properties=(Values(),)), asked, seed)
    half = len(seen) // 2
    drawn = [x for x in seen[:half] if x]
    assert len(set(drawn)) == len(drawn)
    assert not set(drawn) & set(seen[half:])


def test_a_slip_must_be_of_words_that_are_there_once():
    with pytest.raises(ValueError, match=r"2 times 'S\.T'"):
        changed(("S.T", "S"))
    with pytest.raises(ValueError, match="0 times 'tanh'"):
        changed(("tanh", "exp"))


def test_a_text_is_its_head_and_its_body():
    wrong = changed(("- S", "+ S"))
    assert head(wrong) + body(wrong) == text_of(wrong)
    assert head(wrong) == head(RULE.reference)
    assert '"""The delta rule' in head(wrong)
    assert '"""' not in body(wrong)
