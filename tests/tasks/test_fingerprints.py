"""Fingerprints: every mechanism answers as its place foretells, and no other would."""

from dataclasses import replace

import pytest

from ctlearn import composed
from ctlearn.mechanism import CHOICES
from ctlearn.mixers import mechanisms
from ctlearn.tasks import fingerprints


@pytest.mark.parametrize("mechanism", mechanisms().values(), ids=mechanisms())
def test_a_place_is_what_the_mechanism_does(mechanism):
    for seed in (1, 5):
        assert fingerprints.slips(mechanism, seed) == []


def test_the_places_of_composed_memories_are_what_they_do():
    """Of every word of every axis with every other; the page asks all of them."""
    asked = list(composed.every())[::4]
    for seed in (2, 5):
        for choices in asked:
            memory = fingerprints.Composed.of(choices)
            assert fingerprints.slips(memory, seed) == [], choices


@pytest.mark.parametrize(
    ("choices", "axis", "wrong"),
    [
        # of no cap, of a momentum, of features, of a window and of what fades apart
        ({"objective": "capped"}, "objective", "squared error"),
        ({"objective": "dot", "optimiser": "momentum"}, "optimiser", "one step"),
        ({"objective": "dot", "optimiser": "newton"}, "optimiser", "one step"),
        ({"function_class": "features"}, "function_class", "linear map"),
        ({"objective": "dot", "schedule": "window"}, "schedule", "every token"),
        ({"control": "channels"}, "control", "one rate"),
    ],
)
def test_a_composed_memory_in_a_wrong_place_is_noticed(choices, axis, wrong):
    memory = fingerprints.Composed.of(composed.DELTA_RULE._replace(**choices))
    cell = replace(memory.place.cell, **{axis: wrong})
    moved = replace(memory, place=replace(memory.place, cell=cell))
    assert fingerprints.slips(moved) != []


def test_every_question_is_answered_both_ways():
    replies = [fingerprints.fingerprint(m) for m in mechanisms().values()]
    for name in fingerprints.QUESTIONS:
        assert {True, False} <= {reply[name] for reply in replies}


@pytest.mark.parametrize(
    ("name", "axis", "wrong"),
    [
        ("linear_attention", "function_class", "local fit"),
        ("linear_attention", "objective", "squared error"),
        ("softmax_attention", "function_class", "linear map"),
        ("softmax_attention", "control", "eviction"),
        ("delta_rule", "objective", "dot product"),
        ("delta_rule", "objective", "another loss"),
        ("delta_rule", "optimiser", "momentum"),
        ("titans", "optimiser", "one step"),
        ("yaad", "objective", "squared error"),
        ("mesa_net", "control", "none"),
        ("kimi_delta_attention", "control", "one rate"),
        ("gated_delta_rule", "control", "rate by channel"),
        ("ttt_mlp", "function_class", "linear map"),
        # it rotates pairs of channels, each by an angle of its own
        ("retnet", "control", "one rate"),
    ],
)
def test_a_wrong_place_is_noticed(name, axis, wrong):
    mechanism = mechanisms()[name]
    assert wrong in CHOICES[axis]
    assert fingerprints.slips(mechanism) == []
    cell = replace(mechanism.place.cell, **{axis: wrong})
    moved = replace(mechanism, place=replace(mechanism.place, cell=cell))
    assert fingerprints.slips(moved) != []


def test_what_is_noticed_is_counted():
    """Of linear attention, by hand: which other words foretell another reply."""
    counts = fingerprints.noticed([mechanisms()["linear_attention"]])
    assert {axis: tried for axis, (_, tried) in counts.items()} == {
        axis: len(words) - 1 for axis, words in CHOICES.items()
    }
    # momentum, preconditioned steps and a closed form, of which the last two ask keys
    assert counts["optimiser"][0] == 3
    assert counts["objective"][0] == 3
    hybrid = mechanisms()["memory_as_gate"]
    assert set(fingerprints.noticed([hybrid]).values()) == {(0, 0)}


def test_of_hybrids_nothing_is_foretold():
    for mechanism in mechanisms().values():
        if mechanism.place.beside is not None:
            assert set(fingerprints.foretold(mechanism).values()) == {None}
