"""Assignments: the walk back, what a lost line leaves open, and the state that runs."""

import math

import numpy as np
import pytest

from ctlearn import memory
from ctlearn.tasks import assignments
from ctlearn.tasks.assignments import FOUR_LINES, Line

VARIABLES = 4


@pytest.fixture(scope="module")
def programs():
    """Forty random programs, each with a variable to ask for."""
    rngs = [np.random.default_rng(seed) for seed in range(40)]
    return [
        (assignments.random_program(rng, 12, VARIABLES), int(rng.integers(VARIABLES)))
        for rng in rngs
    ]


def test_the_four_lines_make_thirteen_and_each_is_needed():
    assert assignments.answer(FOUR_LINES, 2) == 13
    assert assignments.paths(FOUR_LINES, 3, 2).tolist() == [1, 1, 1, 1]
    instead = np.array([3, 7], dtype=object)
    said = assignments.answer(FOUR_LINES, 2, lost=2, instead=instead)
    assert said.tolist() == [13, 17]
    # the second line, x + 5, is lost whole
    assert assignments.answer(FOUR_LINES, 2, lost=1, instead=0) == 3
    left = [assignments.answers_left(FOUR_LINES, 2, t, 17) for t in range(4)]
    assert left == [17] * 4
    dead = (Line(1, (), 9), *FOUR_LINES)
    assert assignments.paths(dead, 3, 2).tolist() == [0, 1, 1, 1, 1]
    assert assignments.answers_left(dead, 2, 0, 17) == 1


def test_an_answer_is_linear_in_what_a_line_sets_by_its_paths(programs):
    """Over the integers, so that a lost line is fatal if and only if it has a path."""
    live = 0
    for program, asked in programs:
        counts = assignments.paths(program, VARIABLES, asked)
        assert all(isinstance(a, int) and a >= 0 for a in counts)
        for lost, a in enumerate(counts):
            instead = np.array([3, 11, -4], dtype=object)
            said = assignments.answer(program, asked, lost=lost, instead=instead)
            said = np.broadcast_to(said, 3)
            assert said[1] - said[0] == 8 * a
            assert said[2] - said[0] == -7 * a
            live += a > 0
    assert 50 < live < 400


@pytest.mark.parametrize("modulus", [2, 5, 12])
def test_a_lost_line_leaves_as_many_answers_as_its_paths_let(programs, modulus):
    found = set()
    for program, asked in programs:
        counts = assignments.paths(program, VARIABLES, asked)
        for lost, a in enumerate(counts):
            left = assignments.answers_left(program, asked, lost, modulus)
            assert left == modulus // math.gcd(a, modulus)
            found.add(left)
    assert {1, modulus} <= found


@pytest.mark.parametrize("form", [memory.recurrent, memory.chunkwise, memory.parallel])
def test_the_one_memory_runs_every_program(programs, form):
    for program, asked in programs[:10]:
        o, S = form(**assignments.inputs(program, VARIABLES, asked))
        for t in range(12):
            assert o[t, 0] == assignments.answer(program[: t + 1], asked)
        held = [assignments.answer(program, i) for i in range(VARIABLES)]
        assert S[:, 0].tolist() == held


def test_random_programs_have_all_forms_and_the_share_of_fresh_lines():
    program = assignments.random_program(np.random.default_rng(0), 4000, 3, 0.3)
    fresh = np.mean([not line.terms for line in program])
    assert fresh == pytest.approx(0.3, abs=0.03)
    assert {line.target for line in program} == {0, 1, 2}
    forms = {(len(line.terms), line.number > 0) for line in program}
    assert forms == {(0, True), (1, False), (1, True), (2, False)}
    assert all(line.number > 0 for line in program if not line.terms)


def test_a_window_misses_less_the_longer_it_is_and_nothing_at_full_length():
    share = assignments.missed([1, 8, 32], range(60), 32, VARIABLES, 0.25)
    assert share.tolist() == sorted(share, reverse=True)
    assert 0.5 < share[0] < 1
    assert share[1] > 0
    assert share[2] == 0


def test_a_window_misses_the_lines_whose_change_is_seen():
    found = set()
    for seed in range(30):
        rng = np.random.default_rng(seed)
        program = assignments.random_program(rng, 16, VARIABLES, 0.25)
        asked, two = int(rng.integers(VARIABLES)), np.array([0, 1], dtype=object)
        changes = [
            assignments.answer(program, asked, lost=t, instead=two) for t in range(11)
        ]
        needs = any(len(set(x.flat)) > 1 for x in changes)
        assert assignments.missed([5], [seed], 16, VARIABLES, 0.25)[0] == needs
        found.add(needs)
    assert found == {True, False}
