"""Three formats of one assignment, and no solution in what a student gets."""

import ast
import re

import pytest

nbformat = pytest.importorskip("nbformat", reason='pip install "ctlearn[course]"')

from ctlearn.course.assignments import SETS, draw, handed, whole_chapter  # noqa: E402
from ctlearn.course.bank import exercises  # noqa: E402
from ctlearn.course.exercise import body  # noqa: E402
from ctlearn.course.export import BEGIN, END, FORMATS, export  # noqa: E402

CHAPTERS = sorted({exercise.chapter for exercise in exercises().values()})


def lines(text):
    """Lines that compute something, without blanks."""
    found = {re.sub(r"\s+", "", line) for line in text.splitlines()}
    return {x for x in found if re.search(r"[-+*/@]", x) and x[0] not in '@"#'}


def written(form, reader, problems):
    make, _ = FORMATS[form]
    return make(draw(problems), reader)


def texts(notebook):
    """The text of a notebook's cells."""
    return "\n".join(cell.source for cell in nbformat.reads(notebook, 4).cells)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_student_gets_no_line_of_a_solution(form, chapter):
    """But those that stand in the text that is to be mended."""
    text = written(form, "student", whole_chapter(chapter))
    told = lines(text if form == "markdown" else texts(text))
    for exercise in draw(whole_chapter(chapter)).exercises:
        solution = lines(body(exercise.reference))
        assert solution
        assert not (solution - lines(exercise.stub)) & told, exercise.key
        assert exercise.solution not in text


@pytest.mark.parametrize("form", FORMATS)
def test_an_instructor_gets_every_solution(form):
    problems = SETS["set-6"]
    text = written(form, "instructor", problems)
    text = text if form == "markdown" else texts(text)
    for exercise in draw(problems).exercises:
        assert lines(body(exercise.reference)) <= lines(text)
        if form != "nbgrader":
            assert exercise.hint in text
            assert all(mistake.says in text for mistake in exercise.mistakes)


@pytest.mark.parametrize("reader", ["student", "instructor"])
def test_notebooks_are_valid_and_their_programs_are_python(reader):
    for form in ("notebook", "nbgrader"):
        for chapter in CHAPTERS:
            notebook = nbformat.reads(written(form, reader, whole_chapter(chapter)), 4)
            nbformat.validate(notebook)
            for cell in notebook.cells:
                if cell.cell_type == "code":
                    ast.parse(cell.source)


def test_what_nbgrader_takes_out_is_the_solution():
    problems = whole_chapter(7)
    notebook = nbformat.reads(written("nbgrader", "instructor", problems), 4)
    cells = {c.metadata.nbgrader.grade_id: c for c in notebook.cells if c.metadata}
    assert sum(cell.metadata.nbgrader.get("points", 0) for cell in cells.values()) == (
        draw(problems).marks
    )
    for exercise in draw(problems).exercises:
        cell = cells[exercise.key.replace(".", "-")]
        before, _, rest = cell.source.partition(BEGIN)
        inside, _, after = rest.partition(END)
        assert lines(body(exercise.reference)) <= lines(inside)
        assert not after.strip()
        assert lines(before) <= lines(exercise.stub)


@pytest.mark.parametrize("reader", ["student", "instructor"])
def test_who_is_to_mend_a_function_is_shown_it(reader):
    """Of a cell with a solution nbgrader leaves nothing that was faulty."""
    problems = whole_chapter(7)
    text = written("nbgrader", reader, problems)
    begun = [x for x in draw(problems).exercises if x.begins]
    assert begun
    words = [
        cell.source
        for cell in nbformat.reads(text, 4).cells
        if cell.cell_type == "markdown"
    ]
    for exercise in begun:
        (shown,) = [x for x in words if exercise.statement in x]
        assert f"```python\n{exercise.stub.strip()}\n```" in shown


def test_files_are_the_same_each_time_and_never_written_over(tmp_path):
    students = ("ann", "bob", "cem", "dora")
    for out in ("one", "two"):
        export(SETS["set-3"], tmp_path / out, seed=5, students=students)
    names = sorted(file.name for file in (tmp_path / "one").iterdir())
    assert names == [*(f"{who}.ipynb" for who in students), "handed-out.json"]
    for name in names:
        one, two = (tmp_path / out / name for out in ("one", "two"))
        assert one.read_bytes() == two.read_bytes()
    sheets = handed(tmp_path / "one" / "handed-out.json")
    for who in students:
        text = texts((tmp_path / "one" / f"{who}.ipynb").read_text())
        asked = re.findall(r'check\("([^"]+)"', text)
        assert asked == [x.key for x in sheets.of(who)]
    (tmp_path / "one" / "ann.ipynb").write_text("hers")
    with pytest.raises(FileExistsError, match=r"ann\.ipynb"):
        export(SETS["set-3"], tmp_path / "one", seed=5, students=students)
    assert (tmp_path / "one" / "ann.ipynb").read_text() == "hers"
    with pytest.raises(ValueError, match="seed: "):
        export(SETS["set-3"], tmp_path / "three", students=students)
