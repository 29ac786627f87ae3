"""Printed mathematics: what the grammar reads, what it refuses, what a slip does."""

import json
import re
import shutil

import numpy as np
import pytest
import sympy

from ctlearn.features import elu_plus_one
from ctlearn.identities import identities
from ctlearn.identities.__main__ import main
from ctlearn.identities.engine import STATEMENT, identity, printed_draws
from ctlearn.identities.engine import run as run_identity
from ctlearn.printed import AsPrinted, Numbers, Rows, pages
from ctlearn.printed.evaluate import Evaluation
from ctlearn.printed.execute import execute, refuted
from ctlearn.printed.mutants import mutants
from ctlearn.printed.parse import PrintedError, parse
from ctlearn.supplies import Floats, Rationals

A = np.array([[1.0, 2.0], [3.0, 5.0]])
B = np.array([[0.0, 1.0], [1.0, 4.0]])
LETTERS = {
    "A": A,
    "B": B,
    "x": np.array([1.0, 2.0, 4.0]),
    "u": np.array([[1.0, 2.0], [0.0, 3.0], [2.0, 2.0]]),
    "S": Rows(np.array([0 * A, A, B]), first=0),
    "a": 3.0,
    "b": 2.0,
    "d_k": 7,
    "N": 3,
    "W_0": 2 * A,
    r"\bar{v}": np.array([[1.0, 1.0], [2.0, 0.0], [0.0, 3.0]]),
    r"C^\star": 6.0,
    r"\beta^\prime": np.array([5.0, 6.0, 7.0]),
    r"\phi": elu_plus_one,
    "c": [A, B],
}
INDICES = {name: range(1, 4) for name in "ijt"}
NUMBERS = Numbers(LETTERS, INDICES)


def value(tex, numbers=NUMBERS):
    """What stands left of `= 0` in an equation; one value, so no free index."""
    (comparison,) = Evaluation(f"{tex} = 0", numbers, exact=False).comparisons()
    return comparison.left


WORTH = {
    # a sum binds the whole product after it, and no more
    r"\sum_{j=1}^{N} x_j x_j + a": 21 + 3,
    r"a \sum_{j=1}^{N} x_j a": 3 * 7 * 3,
    r"\sum_{j=1}^{N} a + \sum_{j=1}^{2} b": 9 + 4,
    r"\sum_{j=1}^{N} \sum_{i=1}^{j} x_i": 1 + 3 + 7,
    r"\left(\sum_{j=1}^{N} x_j\right) a": 21,
    r"\prod_{j=1}^{N} x_j + 1": 9,
    r"\sum_{j=1}^{0} x_j": 0,
    r"\prod_{j=1}^{0} x_j": 1,
    r"\sum_{i \ne j} x_i x_j": 2 * (2 + 4 + 8),
    r"\sum_{i,j} x_i x_j": 49,
    r"\sum_{1 \le i < j \le N} (x_j - x_i)": 1 + 3 + 2,
    r"\max_{j \le 2} x_j": 2,
    r"\min_{j} x_j a": 3,
    # products bind tighter than the entrywise one
    r"A B \odot A": (A @ B) * A,
    r"A (B \odot A)": A @ (B * A),
    r"A \otimes B": np.kron(A, B),
    r"a / b + 1": 2.5,
    r"a x_2 / b": 3,
    r"-a^2": -9,
    r"a - b - 1": 0,
    r"2 a b": 12,
    # scripts
    r"A^\top B": A.T @ B,
    r"(A B)^\top": (A @ B).T,
    r"A^{-1} A - I": 0 * A,
    r"A^{-\top} A^\top - I": 0 * A,
    r"A^2": A @ A,
    r"u_1^{\otimes 2}": np.kron(LETTERS["u"][0], LETTERS["u"][0])[:, None],
    r"x_3 - x_1": 3,
    r"A_{1,2} + A_{2,1}": 5,
    r"u_{2:3, 1:2}": LETTERS["u"][1:],
    r"S_0 + S_{3-1}": B,
    r"c_{[2]}": B,
    r"d_k": 7,
    r"W_0": 2 * A,
    r"\bar{v}_2": np.array([[2.0], [0.0]]),
    r"\bar v_3^\top \bar{v}_3": 9,
    r"C^\star / 2": 3,
    r"C^{\star}": 6,
    r"\beta_2^\prime": 6,
    r"3!": 6,
    r"(b + 1)!": 6,
    r"\binom{5}{2}": 10,
    # a function takes the brackets that follow, and a script comes after it
    r"\phi(u_1)^\top \phi(u_2)": elu_plus_one(LETTERS["u"][0])
    @ elu_plus_one(LETTERS["u"][1]),
    r"\phi(u)": elu_plus_one(LETTERS["u"]),
    r"\exp(b)^2 - \exp(2 b)": 0,
    r"\exp(b) \log(a)": np.exp(2) * np.log(3),
    r"\sqrt{a + 1}": 2,
    r"\operatorname{tr}(A)": 6,
    r"\det(A)": -1,
    r"\operatorname{rank}(u)": 2,
    r"\max(a, b)": 3,
    r"\mathrm{Diag}(u_1)": np.diag([1.0, 2.0]),
    r"\mathrm{tril}(A, -1)": np.tril(A, -1),
    r"\operatorname{softmax}(0 x)": np.full((3, 1), 1 / 3),
    r"\lVert u_1 \rVert^2": 5,
    r"\left| b - a \right|": 1,
    r"\frac{a}{b} A": 1.5 * A,
    r"\begin{pmatrix} A & u_1 \\ u_2^\top & 4 \end{pmatrix}": np.block(
        [[A, LETTERS["u"][0][:, None]], [LETTERS["u"][1][None], np.array([[4.0]])]]
    ),
    r"\left(x_i^{j-1}\right)_{i,j=1}^{N}": LETTERS["x"][:, None] ** np.arange(3),
    r"\begin{cases} a & b > a \\ 5 & \text{otherwise} \end{cases}": 5,
    r"u_1^\top u_2": 6,
    r"u_1 u_2^\top": np.outer(LETTERS["u"][0], LETTERS["u"][1]),
}


@pytest.mark.parametrize("tex", WORTH)
def test_what_is_printed_is_worth_what_it_means(tex):
    found, expected = np.broadcast_arrays(value(tex), WORTH[tex])
    assert found == pytest.approx(expected)
    # the plain 0 that it is compared with takes the shape of what it meets
    assert value(tex).shape == np.shape(WORTH[tex])


WRONG = {
    r"\chi": r"line 1, column 1: \\chi has no value",
    r"a + \psi": r"line 1, column 5: \\psi has no value",
    r"A u": r"line 1, column 1: \[2, 2\] is multiplied by \[3, 2\]",
    r"u_1 u_2": r"\[2, 1\] is multiplied by \[2, 1\]",
    r"A + u_1": r"\[2, 2\] is added to \[2, 1\]",
    r"A + 1": r"\[2, 2\] is added to a number",
    r"u + I": r"I is square, and meets \[3, 2\]",
    r"A \odot u": "entry by entry",
    r"a \odot A": "entry by entry",
    r"a \otimes A": "Kronecker",
    r"A / B": r"\[2, 2\] is divided by \[2, 2\]",
    r"u^2": r"\[3, 2\] is raised to",
    r"x_4": r"line 1, column 3: 4 is not an index from 1 to 3",
    r"x_0": r"0 is not an index from 1 to 3",
    r"S_3": r"3 is not an index from 0 to 2",
    r"x_a + x_{1/b}": "a whole number is expected, not 0.5",
    r"S + A": "an index is missing",
    r"\phi + a": "a function is added to a number",
    r"\phi \phi(a)": "a function is asked",
    r"\max_{j > 3} x_j": "the range is empty",
    r"\max_{j} u_j": "is asked of",
    r"(a, b)": "one value is expected",
    r"a +": "is not expected here",
    r"a )": r"column 3: \) = 0 is not expected here",
    r"\frac{a}": "is not expected here",
    r"\unknowncommand a": "is not expected here",
    r"A_{1,1,1}": "is not an index|tuple index",
    r"\begin{cases} 1 & a < b \end{cases}": "none of the cases",
}


@pytest.mark.parametrize("tex", WRONG)
def test_what_does_not_fit_is_an_error_with_its_place(tex):
    with pytest.raises(PrintedError, match=WRONG[tex]) as caught:
        value(tex)
    assert re.match(r"line 1, column \d+: ", str(caught.value))


def test_sides_of_different_shapes_are_an_error():
    with pytest.raises(PrintedError, match=r"column 5: \[2, 1\] is compared with \[1"):
        list(Evaluation(r"u_1 = u_1^\top", NUMBERS, exact=False).comparisons())


def test_a_chain_compares_neighbours_and_a_row_goes_on_from_the_last():
    tex = "\\begin{aligned}\na &= 3 = b + 1 \\\\\n&\\le 2 b\n\\end{aligned}"
    found = list(Evaluation(tex, NUMBERS, exact=False).comparisons())
    assert [(x.left, x.relation, x.right) for x in found] == [
        (3, "=", 3),
        (3, "=", 3),
        (3, r"\le", 4),
    ]


def test_a_free_index_runs_through_its_range_and_a_guard_restricts_it():
    def at(tex):
        return [x.at for x in Evaluation(tex, NUMBERS, exact=False).comparisons()]

    assert at(r"x_t = x_t") == [{"t": 1}, {"t": 2}, {"t": 3}]
    assert at(r"x_t = x_t \quad (t \ge 2)") == [{"t": 2}, {"t": 3}]
    assert at(r"x_i = x_j, \qquad i < j") == [
        {"i": 1, "j": 2},
        {"i": 1, "j": 3},
        {"i": 2, "j": 3},
    ]
    # what a sum binds is not free
    assert at(r"x_i = \sum_{j \ne i} x_j") == [{"i": 1}, {"i": 2}, {"i": 3}]
    assert at(r"a = \sum_{i \ne j} x_i x_j") == [{}]


def test_an_expectation_averages_over_draws():
    numbers = Numbers({"b": 2.0}, draws=[{"y": 1.0}, {"y": 5.0}])
    assert value(r"\mathbb{E}[y^2] + b", numbers) == 15
    assert value(r"\mathbb{E}\left[b y\right]^2", numbers) == 36


def test_numbers_stay_exact():
    numbers = Numbers({"x": np.array([sympy.Integer(1)] * 3), "n": 3})
    evaluation = Evaluation(r"\frac{x_1}{n} = 1 / 3", numbers, exact=True)
    (found,) = evaluation.comparisons()
    assert found.left == found.right == sympy.Rational(1, 3)


def test_a_limit_is_taken_of_exact_numbers():
    evaluation = Evaluation(
        r"\lim_{y \to \infty} \frac{2 y + 1}{y} = 2", Numbers({}), exact=True
    )
    (found,) = evaluation.comparisons()
    assert found.left == found.right == 2


# -- slips

DELTA = r"S_t = S_{t-1} + b_t k_t (v_t - S_{t-1}^\top k_t)^\top"


def delta(supply, T, d_k, d_v):
    """The delta rule, written out here once more."""
    k, v, b = supply.real("k", T, d_k), supply.real("v", T, d_v), supply.rate("b", T)
    states = [0 * np.outer(k[0], v[0])]
    for t in range(T):
        error = v[t] - states[-1].T @ k[t]
        states.append(states[-1] + b[t] * np.outer(k[t], error))
    letters = {"k": k, "v": v, "b": b, "S": Rows(np.array(states), first=0)}
    return Numbers(letters, {"t": range(1, T + 1)})


SIZES = {"T": 3, "d_k": 2, "d_v": 3}


def run(tex, equivalent=()):
    how = AsPrinted(numbers=delta, equivalent=dict.fromkeys(equivalent, "a reason"))
    return execute(tex, how, [(Rationals(0), SIZES), (Floats(0), SIZES)])


def test_an_equation_runs_with_all_its_slips():
    executed = run(DELTA)
    assert executed.failures == ()
    assert executed.survivors == ()
    assert executed.slips > 30
    assert executed.worlds == ("rationals", "floats")


def slips(tex):
    evaluation = Evaluation(tex, delta(Floats(0), **SIZES), exact=False)
    list(evaluation.comparisons())
    return {
        slip.change.partition(" (line")[0]: slip.tex for slip in mutants(evaluation)
    }


def test_slips_are_those_that_books_have():
    made = slips(DELTA)
    for change in (
        "+ → -",
        "- → +",
        "t → {t-1}",
        "1 → 2",
        "b_t → nothing",
        r"^\top → nothing",
        "S_{t-1} → nothing",
        "k → v",
        r"S_{t-1}^\top k_t → k_t S_{t-1}^\top",
    ):
        assert change in made
    # numbers commute, so exchanging them is no slip
    assert not any(change.startswith("b_t k_t →") for change in made)


@pytest.mark.parametrize(
    "wrong",
    [
        DELTA.replace("b_t ", ""),
        DELTA.replace(r"\top k_t)^\top", r"\top k_t)"),
        DELTA.replace("v_t - S", "v_t + S"),
        DELTA.replace("(v_t - S_{t-1}", "(v_t - S_t"),
        r"S_t = S_{t-1} + b_t v_t k_t^\top - b_t k_t k_t^\top S_{t-1}",
    ],
)
def test_a_slip_planted_by_hand_fails(wrong):
    assert run(wrong).failures


def test_both_printed_forms_of_the_delta_rule_hold():
    assert not run(r"S_t = (I - b_t k_t k_t^\top) S_{t-1} + b_t k_t v_t^\top").failures


def test_a_slip_that_goes_unnoticed_needs_its_reason_and_a_reason_its_slip():
    slack = r"0 S_t = 0 S_{t-1}"
    survivors = run(slack).survivors
    assert survivors
    assert all("goes unnoticed" in failure for failure in run(slack).failures)
    assert not run(slack, equivalent=survivors).failures
    (failure,) = run(DELTA, equivalent=("no such slip",)).failures
    assert failure == "slip is noticed after all: no such slip"


@pytest.mark.parametrize(
    ("tex", "worlds"),
    [
        (DELTA, ()),
        (DELTA.replace("- S", "+ S"), ("rationals", "floats")),
        # a number for a matrix is no slip of one sign, but it does not hold either
        (r"S_t = b_t", ("rationals", "floats")),
    ],
)
def test_what_does_not_hold_or_does_not_fit_is_refuted(tex, worlds):
    how = AsPrinted(numbers=delta)
    assert refuted(tex, how, [(Rationals(0), SIZES), (Floats(0), SIZES)]) == worlds


@pytest.mark.parametrize("tex", [r"S_t = c_t", r"S_t = \frac{1}", r"S_t = S_{t-9}"])
def test_what_says_nothing_is_not_refuted(tex):
    with pytest.raises(PrintedError):
        refuted(tex, AsPrinted(numbers=delta), [(Floats(0), SIZES)])


def test_a_bound_is_run_and_its_slips_are_not():
    executed = run(r"0 \le \lVert v_t \rVert")
    assert executed.failures == ()
    assert executed.slips == 0
    assert run(r"\lVert v_t \rVert \le 0").failures
    assert run(r"\lVert v_t \rVert < 0").failures


# -- the book


def test_every_labelled_equation_is_executed_as_printed():
    claimed = {x for c in identities().values() for x in c.printed} - {STATEMENT}
    stating = {x for x in pages.printed() if x.startswith(("eq-", "def-"))}
    twins = stating - claimed
    assert len(twins) <= 0.2 * len(stating), sorted(twins)
    assert claimed <= stating


def test_all_of_the_book_is_in_the_grammar_or_cited():
    for label, equation in pages.printed().items():
        if not label.startswith("cited-"):
            parse(equation.tex)


def test_two_equations_with_one_label_are_refused(tmp_path):
    (tmp_path / "book").mkdir()
    (tmp_path / "book" / "a.md").write_text(
        "$$\na = b\n$$ (eq-x)\n\n$$ b = a $$ (eq-x)"
    )
    with pytest.raises(ValueError, match=r"^eq-x: in .*a\.md and in .*a\.md"):
        pages.printed(tmp_path)


def test_a_slip_in_a_notebook_turns_its_identity_red(tmp_path, root, monkeypatch):
    """The check reads the page: a sign changed there is found by the command."""
    for folder in ("notebooks", "book"):
        shutil.copytree(
            root / folder,
            tmp_path / folder,
            ignore=lambda _, names: [
                n for n in names if not n.endswith((".ipynb", ".md"))
            ],
        )
    chapter = tmp_path / "notebooks" / "04_interference.ipynb"
    text = chapter.read_text(encoding="utf-8")
    sound, slip = (
        json.dumps(r"K S - V = (G - I) V")[1:-1],
        json.dumps("K S - V = (G + I) V")[1:-1],
    )
    assert text.count(sound) == 1
    chapter.write_text(text.replace(sound, slip), encoding="utf-8")
    book = pages.printed(tmp_path)
    monkeypatch.setattr(pages, "printed", lambda: book)
    claim = identities()["interference-recall-error"]
    failure, *_ = run_identity(claim).failures
    assert failure == "eq-recall-error as printed: symbols: = does not hold"


@pytest.mark.parametrize("wrong", ["", "2 "])
def test_a_statement_is_run_from_its_own_text(wrong):
    def claim(supply, d, *, off=0):
        x = supply.real("x", d)
        return x @ x + off, (x * x).sum()

    def numbers(supply, T, d):
        return Numbers({"x": supply.real("x", T, d)}, {"t": range(1, T + 1)})

    planted = identity(
        name="planted",
        title="planted",
        statement=rf"x_t^\top x_t = {wrong}\lVert x_t \rVert^2",
        source="ours",
        mutants={"off": {"off": 1}},
        printed={STATEMENT: AsPrinted(numbers=numbers)},
    )(claim)
    assert run_identity(planted).passed == (not wrong)


def test_draws_are_those_of_the_worlds_asked_for():
    how = AsPrinted(numbers=delta, worlds=("floats",), at={"floats": {"T": 9}})
    ((supply, at),) = printed_draws(how)
    assert (supply.world, at) == ("floats", {"T": 9, "d_k": 4, "d_v": 3})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--equation", "eq-recall"], ["raised", "number     k_i^\\top k_i", "i = 1:"]),
        (["--show", "interference-recall-error"], ["caught", "against:", "04_inter"]),
        (
            ["--latex", "interference-recall-error"],
            [r"G = K K^\top", "% eq-recall-error"],
        ),
    ],
)
def test_the_command_shows_one_identity_or_equation(arguments, words, capsys):
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    assert all(word in shown for word in words)


@pytest.mark.parametrize("option", ["--show", "--latex", "--equation"])
def test_the_command_names_what_it_does_not_know(option, capsys):
    with pytest.raises(SystemExit):
        main([option, "nothing-of-that-name"])
    assert "nothing-of-that-name" in capsys.readouterr().err
