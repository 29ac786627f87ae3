"""The bank: an exercise can be passed and failed, and tells mistakes by name."""

import ast
import copy
import inspect
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from ctlearn import systems
from ctlearn.course.bank import chapter_15, exercises
from ctlearn.course.exercise import from_text, slip, text_of
from ctlearn.course.judge import verdicts
from ctlearn.course.mutants import mutants, survivors
from ctlearn.course.properties import (
    Limit,
    Untouched,
    Values,
    at_once,
    differs,
    examine,
    lacking,
    same,
)
from ctlearn.course.sandbox import Text
from ctlearn.memory import decay_between
from ctlearn.mixers import (
    delta_rule,
    gated_delta_rule,
    gated_linear_attention,
    longhorn,
)
from ctlearn.tasks import assignments, recall, scans

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
EXERCISES = exercises()
IN_PROCESS = {key: x for key, x in EXERCISES.items() if not x.puzzle}
CHAPTERS = sorted({x.chapter for x in EXERCISES.values()})
BOX = re.compile(
    r"^:{3,}\{exercise\} (Code|Find the bug): ([^\n]*)\n:label: (\S+)\n(.*?)^:{3,}$",
    re.M | re.S,
)
NUMBERS = (np.float64, np.int64)
# The share of the automatic mutants that properties must notice.
NOTICED = 0.9

# What the package has of its own for an exercise: the book's answer.
BOOK = {
    "05.gated-memory": gated_linear_attention.recurrent,
    "05.chunk": gated_linear_attention.parallel,
    "05.channels": gated_linear_attention.recurrent,
    "05.mask": lambda log_decay: decay_between(log_decay, log_decay)[1:, 1:, 0],
    "07.delta-step": delta_rule.step,
    "07.delta-rule": delta_rule.recurrent,
    "07.passes": lambda k, v, passes: (
        recall.error(recall.ask_delta(recall.Facts(k, v, k, v), passes=passes), v)
        if passes
        else 1.0
    ),
    "08.combine": lambda A_1, B_1, A_2, B_2: scans.combine((A_1, B_1), (A_2, B_2)),
    "08.chunks": delta_rule.chunkwise,
    "08.columns": delta_rule.parallel,
    "09.gated-step": gated_delta_rule.step,
    "09.gated-rule": gated_delta_rule.recurrent,
    "09.gated-chunk": gated_delta_rule.parallel,
    "11.conjugate-gradients": lambda A, b, steps: systems.conjugate_gradients(
        lambda x: x @ A, b[None], steps
    )[0],
    "16.paths": lambda target, terms, asked: assignments.paths(
        [
            assignments.Line(i, tuple(np.repeat(np.arange(len(row)), row)))
            for i, row in zip(target, terms, strict=True)
        ],
        terms.shape[1],
        asked,
    ).astype(int),
    "11.one-hot": lambda k, v, beta, S: longhorn.step(
        k, k, v, beta=np.full_like(v, beta), S=S
    )[1],
}

each = pytest.mark.parametrize("exercise", IN_PROCESS.values(), ids=IN_PROCESS)


def boxes(chapter):
    """Kind, title and text of each exercise of a notebook that asks for code."""
    (notebook,) = NOTEBOOKS.glob(f"{chapter:02}_*.ipynb")
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    text = "\n".join(
        "".join(x["source"]) for x in cells if x["cell_type"] == "markdown"
    )
    return {label: (*said, told) for *said, label, told in BOX.findall(text)}


def named(text):
    """The keys that a box names."""
    return set(re.findall(r'`(?:check|show)\("([^"]+)"', text))


def drawn(exercise, seed=0):
    rng = np.random.default_rng(seed)
    return [exercise.draw(rng, sizes) for sizes in exercise.shapes]


def labels(chapter):
    """The key of each exercise of a chapter that has a box, by the box's label."""
    own = [x for x in EXERCISES.values() if x.chapter == chapter and x.label]
    return {x.label: x.key for x in own}


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_every_box_that_asks_for_code_can_be_marked(chapter):
    assert set(boxes(chapter)) == set(labels(chapter))
    for label, (kind, title, text) in boxes(chapter).items():
        exercise = EXERCISES[labels(chapter)[label]]
        assert exercise.title.lower() == title.lower()
        # who is to find a bug is given one
        assert bool(exercise.begins) == (kind == "Find the bug")
        assert named(text) <= {exercise.key}


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_box_says_how_it_can_be_marked(chapter):
    for label, (_, _, text) in boxes(chapter).items():
        assert named(text) == {labels(chapter)[label]}, f"{label} should name its key"
        # it is asked before it is answered
        assert text.index('`check("') < text.index("<details>")


def test_a_key_says_its_chapter():
    for key, exercise in EXERCISES.items():
        assert exercise.key == key
        assert re.fullmatch(r"\d\d\.[a-z]+(-[a-z]+)*", key)
        assert exercise.reference.__module__.endswith(f"chapter_{key[:2]}")


@each
def test_shapes_are_small_odd_and_of_both_kinds(exercise):
    """One token, or none; keys and values of one size, and of two."""
    for name in {"T", "N", "d_k"} & set(exercise.shapes[0]):
        assert min(sizes[name] for sizes in exercise.shapes) <= 2
    alike = {
        sizes["d_k"] == sizes.get("d_v")
        for sizes in exercise.shapes
        if {"d_k", "d_v"} <= set(sizes)
    }
    assert alike in (set(), {True, False})


@each
def test_values_and_inputs_are_looked_at(exercise):
    assert exercise.properties[:2] == (Values(), Untouched())
    assert len(exercise.properties) >= 2


@each
def test_the_stub_is_what_is_asked_and_no_more(exercise):
    stub = from_text(exercise.stub, exercise.reference)
    assert stub.__name__ == exercise.name
    assert inspect.signature(stub) == inspect.signature(exercise.reference)
    assert stub.__doc__ == exercise.reference.__doc__
    assert examine(exercise, at_once(stub), seed=0).broken
    if not exercise.begins:
        with pytest.raises(NotImplementedError):
            stub(**drawn(exercise)[0])


@each
def test_the_docstring_tells_every_argument(exercise):
    words = set(re.findall(r"\w+", exercise.reference.__doc__))
    assert set(inspect.signature(exercise.reference).parameters) <= words


@each
def test_a_statement_can_be_rendered(exercise):
    """No formula is broken by the end of a line, but those set off by themselves."""
    text = re.sub(r"\$\$.*?\$\$", "", exercise.statement, flags=re.S)
    assert not [line for line in text.splitlines() if line.count("$") % 2]
    assert exercise.statement == exercise.statement.strip()


@each
def test_inputs_are_what_can_be_sent(exercise):
    for inputs in drawn(exercise):
        assert set(inputs) == set(inspect.signature(exercise.reference).parameters)
        for x in inputs.values():
            plain = x is None or type(x) in (int, float, bool)
            assert plain or (type(x) is np.ndarray and x.dtype in NUMBERS)


@each
def test_the_reference_passes(exercise):
    for seed in range(2):
        assert examine(exercise, at_once(exercise.reference), seed) == ((), None)


@each
def test_the_reference_gives_numbers(exercise):
    for inputs in drawn(exercise):
        value = at_once(exercise.reference)(inputs).value
        values = value if len(exercise.returns) > 1 else (value,)
        assert len(values) == len(exercise.returns)
        assert all(same(x, np.array(x, dtype=float)) for x in values)
        assert not any(np.isnan(x).any() for x in values)


@each
def test_three_mistakes_at_least_are_known_by_name(exercise):
    assert len(exercise.mistakes) >= 3
    assert len({m.name for m in exercise.mistakes}) == len(exercise.mistakes)
    for seed in range(2):
        for mistake in exercise.mistakes:
            found = examine(exercise, at_once(mistake.function), seed)
            assert found.broken, mistake.name
            assert found.mistake is mistake, mistake.name


@each
def test_no_hint_holds_the_answer(exercise):
    """No piece of the solution that computes something stands in what is said."""
    tree = ast.parse(text_of(exercise.reference))
    computing = ast.BinOp | ast.Call | ast.Subscript | ast.Compare
    pieces = {ast.unparse(x) for x in ast.walk(tree) if isinstance(x, computing)}
    pieces = {re.sub(r"\s", "", x) for x in pieces}
    pieces = {x for x in pieces if len(x) >= 6}
    assert pieces
    for said in (exercise.hint, *(m.says for m in exercise.mistakes)):
        spoken = re.sub(r"\s", "", said)
        assert not [x for x in pieces if x in spoken]


@each
def test_a_slip_in_the_reference_is_noticed(exercise):
    made = mutants(exercise.reference)
    left = survivors(exercise, made, seed=0)
    killed = len(made) - len(left)
    lines = [f"{exercise.key}: {killed} of {len(made)} mutants noticed"]
    lines += [f"  not noticed: {mutant.change}" for mutant in left]
    sys.stdout.write("\n".join(lines) + "\n")
    assert len(made) >= 10
    assert killed >= NOTICED * len(made)


@pytest.mark.parametrize("key", BOOK)
def test_the_reference_is_the_books(key):
    exercise = EXERCISES[key]
    for inputs in drawn(exercise):
        mine = at_once(exercise.reference)(inputs).value
        assert differs(mine, BOOK[key](**inputs), exercise.returns) is None


# Wrong answers that would be right on inputs that are too tame.
TAME = {
    "01.merge": [
        ("np.exp(largest_a - largest)", "np.exp(largest_a) / np.exp(largest)"),
        ("np.exp(largest_b - largest)", "np.exp(largest_b) / np.exp(largest)"),
    ],
    "01.streamed": [
        ("scores[0], 1.0, values[0]", "0.0, 0.0, 0.0 * values[0]"),
        ("scores[1:], values[1:]", "scores, values"),
    ],
    "05.gated-memory": [("(log_decay[t])", "(max(log_decay[t], -60.0))")],
    "05.channels": [("(log_decay[t])", "(np.maximum(log_decay[t], -60.0))")],
    "06.kernel-regression": [("(2 * h**2)", "max(2 * h**2, 1e-4)")],
    "08.combine": [("A_2 @ A_1", "A_2.T @ A_1")],
    "09.gated-step": [("(log_decay)", "(max(log_decay, -60.0))")],
    "09.gated-rule": [("(log_decay[t])", "(max(log_decay[t], -60.0))")],
    "10.loops": [
        ("left.argmin()", "((1 - sizes[:, None] * spectrum) ** 2).sum(axis=1).argmin()")
    ],
    "11.conjugate-gradients": [
        ("        if size == 0:\n            break\n", ""),
        ("    for _", "    if not b.any():\n        return x\n    for _"),
    ],
    "15.lola": [("scores.max(initial=0.0)", "max(scores, default=0.0)")],
    "15.surprise": [("        S = S +", "        S = S + (errors[t] > 0.5) *")],
    "16.prune": [("{asked}, []", "{*target[-1:]} or {asked}, []")],
    "16.paths": [("found[t] * terms[t]", "(found[t] > 0) * terms[t]")],
    "17.eighth-question": [("tol=1e-9", "tol=1e-6")],
    "19.shares": [("np.unique(rows, axis=0)", "set(rows.sum(axis=1))")],
}

# Right answers that go another way, and lose some digits on it.
ANOTHER_WAY = {
    "11.one-hot": [
        ("    eps = beta / (1 + beta * (k @ k))\n", ""),
        (
            "S + eps * np.outer(k, v - S.T @ k)",
            "np.linalg.solve(np.eye(len(k)) + beta * np.outer(k, k), "
            "S + beta * np.outer(k, v))",
        ),
    ],
}


@pytest.mark.parametrize("key", TAME)
def test_no_input_is_too_tame(key):
    """Scores on both sides of zero, no symmetry, nothing left half-way, true zeros."""
    exercise = EXERCISES[key]
    wrong = slip(exercise.reference, *TAME[key])
    for seed in range(2):
        assert examine(exercise, at_once(wrong), seed).broken


@pytest.mark.parametrize("key", ANOTHER_WAY)
def test_another_way_is_right(key):
    exercise = EXERCISES[key]
    other = slip(exercise.reference, *ANOTHER_WAY[key])
    for seed in range(2):
        assert examine(exercise, at_once(other), seed) == ((), None)


@pytest.mark.parametrize("key", ["16.prune", "16.paths"])
def test_a_program_shows_every_mistake(key):
    """Random programs are short, and most lines of some are dead."""
    exercise = EXERCISES[key]
    for mistake in exercise.mistakes:
        for seed in range(60):
            rng = np.random.default_rng(seed)
            assert next(lacking(exercise, at_once(mistake.function), rng), None)


def test_the_pairs_and_the_memory_do_not_vanish_together():
    """All pairs may be rounded to zero, or the linear memory be empty."""
    exercise = EXERCISES["15.lola"]
    inputs = chapter_15.far_below(drawn(exercise)[2])
    limits = [x for x in exercise.properties if isinstance(x, Limit)]
    assert len(limits) == 2
    for limit in limits:
        value = exercise.reference(**limit.here(copy.deepcopy(inputs)))
        assert np.isfinite(value).all()


def handed_in(chapter, part):
    """What the sandbox says of one part of all of a chapter's exercises, as text."""
    asked = [x for x in IN_PROCESS.values() if x.chapter == chapter]
    assert len({x.name for x in asked}) == len(asked)
    text = "\n".join(["import numpy as np", *(getattr(x, part) for x in asked)])
    return list(zip(asked, verdicts(asked, Text(text), seed=1), strict=True))


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapters_solutions_pass_in_the_sandbox(chapter):
    """A solution is its text alone: nothing of the bank is within its reach."""
    for _, verdict in handed_in(chapter, "solution"):
        assert verdict.passed, verdict


def test_stubs_do_not_pass_in_the_sandbox():
    for exercise, verdict in handed_in(7, "stub"):
        assert not verdict.passed
        assert verdict.mistake == exercise.begins
