"""The coursework pages: what they show is what is printed, and numbers add up."""

import ast
import contextlib
import importlib
import io
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat", reason='pip install "ctlearn[course]"')

from myst_parser.mdit_to_docutils.base import default_slugify  # noqa: E402

from ctlearn.course.__main__ import main  # noqa: E402
from ctlearn.course.assignments import SETS, draw  # noqa: E402
from ctlearn.course.bank import exercises  # noqa: E402
from ctlearn.course.export import PROJECT, project  # noqa: E402
from ctlearn.course.judge import Verdict  # noqa: E402
from ctlearn.identities import identities  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("coursework", "syllabus", "teaching", "final_project")
EXERCISES = exercises()


def page(name):
    return (ROOT / "book" / f"{name}.md").read_text(encoding="utf-8")


def blocks(text):
    """The language and the text of every block of code."""
    found = re.findall(r"^(`{3,})(\w+)\n(.*?)^\1$", text, re.M | re.S)
    return [(language, code) for _, language, code in found]


def shown(printed, told):
    """Whether this was printed; a line of dots stands for any lines."""
    wanted = r"(?:.*\n)*?".join(re.escape(part) for part in told.split("…\n"))
    return re.fullmatch(wanted, printed)


def tables(text):
    """Every table as rows of cells, without its head."""
    for found in re.findall(r"(?:^\|.*\|\n)+", text, re.M):
        yield [
            [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            for line in found.splitlines()[2:]
        ]


def ran(line):
    """What a line of a shell prints; the course's command runs in this process."""
    words = shlex.split(line)
    out = io.StringIO()
    if words[:3] == ["python", "-m", "ctlearn.course"]:
        with contextlib.redirect_stdout(out):
            main(words[3:])
        return out.getvalue()
    return subprocess.run(
        line, shell=True, check=True, capture_output=True, text=True
    ).stdout


def test_the_first_ten_minutes_are_as_printed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CTLEARN_PROGRESS", str(tmp_path / "progress.json"))
    names = {"__name__": "__main__"}
    found = blocks(page("coursework"))
    programs = [i for i, (language, _) in enumerate(found) if language == "python"]
    assert len(programs) == 4
    for i in programs:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(found[i][1], names)
        language, told = found[i + 1]
        if language == "text":
            assert shown(out.getvalue(), told), out.getvalue()
    # the first attempt as a module
    first = found[programs[1]][1]
    (function,) = (x for x in ast.parse(first).body if isinstance(x, ast.FunctionDef))
    Path("mine.py").write_text(ast.unparse(function))
    asked, checked = (line for line in lines("coursework") if "08.combine" in line)
    assert ran(asked) == found[programs[0] + 1][1]
    assert ran(checked) == found[programs[1] + 1][1]


def lines(name):
    """The lines of a shell on a page."""
    code = "".join(code for language, code in blocks(page(name)) if language == "sh")
    return code.splitlines()


def test_what_the_learners_page_solves_no_set_asks():
    solved = set(re.findall(r'check\("([^"]+)"', page("coursework")))
    asked = {x.key for problems in SETS.values() for x in draw(problems).exercises}
    assert solved
    assert not solved & asked


def test_what_is_to_be_installed_is_an_extra():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = settings["project"]["optional-dependencies"]
    for name in PAGES:
        for found in re.findall(r'"\.\[([\w,]+)\]"', page(name)):
            assert set(found.split(",")) <= set(extras)


def test_every_kind_of_verdict_is_explained():
    (rows,) = tables(page("coursework"))
    kinds = set(re.findall(r'"(\w+)"', Verdict.__doc__))
    assert len(kinds) == 10
    assert {row[0].strip("*") for row in rows} == kinds


def test_an_instructors_commands_do_what_is_printed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = page("teaching")
    found = blocks(text[: text.index("## With nbgrader")])
    kinds = [language for language, _ in found]
    assert kinds == ["sh", "text"] * (len(kinds) // 2)
    for (_, code), (_, told) in zip(found[::2], found[1::2], strict=True):
        printed = "".join(ran(line) for line in code.splitlines())
        assert shown(printed, told), printed


def minutes(keys):
    return sum(EXERCISES[key].minutes for key in keys)


def card(stem):
    """The minutes that it takes to read a chapter, as its card says."""
    text = (ROOT / "notebooks" / f"{stem}.ipynb").read_text(encoding="utf-8")
    return int(re.findall(r"about (\d+) minutes to read", text)[0])


def chapters(cell):
    """The chapters that a cell names, by their files; their numbers fit."""
    found = re.findall(r"\[(\d+)\]\(\.\./notebooks/(\w+)\.ipynb\)", cell)
    assert all(int(number) == int(stem[:2]) for number, stem in found)
    return [stem for _, stem in found]


def number(cell):
    return int(cell or 0)


def span(cell):
    """The least and the most of a cell such as "85 to 95"."""
    ends = [int(x) for x in re.findall(r"\d+", cell)] or [0, 0]
    assert len(ends) == 2
    return tuple(ends)


def test_ten_weeks_add_up():
    weeks, *_ = tables(page("syllabus"))
    *weeks, total = weeks
    read, due = [], []
    for _, chapter, told, _, problems, took in weeks:
        stems = chapters(chapter)
        assert number(told) == sum(card(stem) for stem in stems)
        read += [int(stem[:2]) for stem in stems]
        if problems:
            name = problems.replace(" ", "-")
            assert span(took) == SETS[name].minutes
            asked = {x.chapter for x in draw(SETS[name]).exercises}
            # a week at least after its last chapter
            assert asked <= set(read[: -len(stems) or None])
            due.append(name)
    assert read == list(range(1, 20))
    assert due == list(SETS)
    assert number(total[2]) == sum(number(week[2]) for week in weeks)
    ends = zip(*(span(week[5]) for week in weeks), strict=True)
    assert span(total[5]) == tuple(map(sum, ends))


def test_two_days_add_up():
    text = page("syllabus")
    _, *days = tables(text)
    assert len(days) == 2
    totals = []
    for *rows, total in days:
        for chapter, told, _, _, asked, took in rows:
            (stem,) = chapters(chapter)
            assert number(told) == card(stem)
            keys = re.findall(r"`([^`]+)`", asked)
            assert number(took) == minutes(keys)
            assert all(key.startswith(stem[:2]) for key in keys)
        for i in (1, 3, 5):
            assert number(total[i]) == sum(number(row[i]) for row in rows)
        totals.append(sum(number(total[i]) for i in (1, 3, 5)))
    told = re.findall(r"first day is (\d+) minutes .* the second (\d+)\.", text)
    assert [tuple(map(str, totals))] == told
    met = set(re.findall(r"`(\d\d\.[\w-]+)`", text)) & set(SETS["set-4"].keys)
    assert len(met) == 1, "one exercise of set 4 was met in class"


def test_a_figure_is_where_it_is_said_to_be():
    links = re.findall(r"\[`(\w+)`\]\(\.\./notebooks/(\w+)\.ipynb#", page("syllabus"))
    assert len(links) > 20
    for figure, stem in links:
        text = (ROOT / "notebooks" / f"{stem}.ipynb").read_text(encoding="utf-8")
        assert re.search(rf"from ctlearn\.explore\.\w+ import .*\b{figure}\b", text)


def places(file):
    """The headings of a page or a chapter, as links name them."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".ipynb":
        cells = nbformat.reads(text, as_version=4).cells
        text = "\n".join(c.source for c in cells if c.cell_type == "markdown")
    return {default_slugify(title) for title in re.findall(r"^#+ (.+)$", text, re.M)}


def test_every_link_leads_somewhere():
    known = {}
    for name in PAGES:
        links = re.findall(r"\]\(([^):#]+)(?:#([^)]+))?\)", page(name))
        assert links
        for path, place in links:
            file = (ROOT / "book" / path).resolve()
            assert file.is_file(), path
            if place:
                known[file] = known.get(file) or places(file)
                assert place in known[file], f"{path}#{place}"


def test_every_exercise_and_every_set_is_printed(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "book" / "_ext")
    printed = importlib.import_module("coursework")
    rows = next(tables(printed.table() + "\n"))
    assert [row[0].strip("`") for row in rows] == list(EXERCISES)
    for (_, title, took, marks, asked), x in zip(rows, EXERCISES.values(), strict=True):
        assert x.title in title
        assert (x.label in title) == bool(x.label) or not x.label
        assert (int(took), int(marks)) == (x.minutes, x.marks)
        names = [n for n, each in SETS.items() if x in draw(each).exercises]
        assert asked == "–" if not names else names[0].endswith(asked.split(",")[0])
    told = printed.mistakes()
    for x in EXERCISES.values():
        assert all(f"- *{m.name}*: {m.says}" in told for m in x.mistakes)
    for problems in SETS.values():
        sheets = [draw(problems, seed, "ann") for seed in range(30)]
        taken = [sheet.minutes for sheet in sheets]
        assert (min(taken), max(taken)) == problems.minutes
        assert {sheet.marks for sheet in sheets} == {problems.marks}
        least, most = problems.minutes
        assert f"{problems.marks} marks, {least} to {most} minutes." in printed.sets()


def test_marks_by_hand_name_mistakes_that_are_known():
    """Every exercise of three marks or more that a set asks has its row."""
    (rows,) = tables(page("teaching"))
    problems, asked = None, []
    for exercise, marks, half, nothing in rows:
        if exercise.startswith("**"):
            problems = SETS["set-" + exercise.strip("*").split()[-1]]
            continue
        x = EXERCISES[exercise.strip("`")]
        assert x in draw(problems).exercises
        assert x.marks == int(marks)
        some, none = (set(re.findall(r"\*([^*]+)\*", cell)) for cell in (half, nothing))
        assert some
        assert none
        assert not some & none
        assert some | none <= {m.name for m in x.mistakes}
        # what was to be mended is not mended
        assert not x.begins or x.begins in none
        asked.append(x.key)
    sheets = (draw(problems) for problems in SETS.values())
    assert asked == [x.key for sheet in sheets for x in sheet.exercises if x.marks > 2]


def test_the_projects_points_add_up():
    judged = list(tables(project()))
    halves = re.findall(r"^## What a (?:program|person) judges: (\d+)", project(), re.M)
    assert len(judged) == len(halves) == 2
    for rows, half in zip(judged, halves, strict=True):
        assert sum(int(row[1]) for row in rows) == int(half)
    assert sum(map(int, halves)) == 100
    assert "../ctlearn/course/project.md" in page("final_project")


def test_the_projects_commands_are_those_of_the_recipe():
    """A test runs them there, on a mechanism that is written as the recipe says."""
    rows, _ = tables(project())
    mixers, proof, place, style = (shlex.split(row[2].strip("`")) for row in rows)
    followed = (ROOT / "tests" / "test_recipe.py").read_text(encoding="utf-8")
    for command in (mixers, place):
        file = command[3]
        assert command == ["python", "-m", "pytest", file, "-k", "NAME"]
        assert f'"{file}"' in followed
    name = proof[-1].replace("NAME", "retention").replace("OTHER", "linear-attention")
    assert proof[:-1] == ["python", "-m", "ctlearn.identities"]
    assert name in identities()
    file = style[-1].replace("NAME", "retention")
    assert style[:-1] == ["python", "-m", "ruff", "check"]
    assert (ROOT / file).is_file()


def test_the_project_is_handed_out(tmp_path, capsys):
    words = ["export", "--set", PROJECT, "--out", str(tmp_path)]
    assert main(words) == 0
    assert (tmp_path / "project.md").read_text(encoding="utf-8") == project()
    for wrong, told in ((words, "written over"), ([*words, "--seed", "1"], "one text")):
        with pytest.raises(SystemExit):
            main(wrong)
        assert told in capsys.readouterr().err


# The page's exercise in a copy of the bank, and what the page has run.
ADDED = """
import sys
import pytest
from ctlearn.course import bank
bank.__path__[:] = [sys.argv[1]]
sys.exit(pytest.main([*sys.argv[2:], "-q", "-p", "no:cacheprovider", "-n", "0"]))
"""


def test_an_exercise_is_added_as_the_page_says(tmp_path):
    text = page("teaching")
    text = text[text.index("## Adding an exercise") :]
    (code,) = (code for language, code in blocks(text) if language == "python")
    (command,) = (code for language, code in blocks(text) if language == "sh")
    (file,) = re.findall(r"`ctlearn/course/bank/(chapter_\w+\.py)`", text)
    for module in (ROOT / "ctlearn" / "course" / "bank").glob("*.py"):
        held = module.read_text(encoding="utf-8")
        if module.name == file:
            (record,) = re.findall(r"^(\w+) = Exercise\(", code, re.M)
            before, rest = held.split("EXERCISES = (")
            held = f"{before}{code}\n\nEXERCISES = ({record}, {rest}"
        (tmp_path / module.name).write_text(held, encoding="utf-8")
    ruff = [sys.executable, "-m", "ruff", "check", "--config"]
    ruff += [str(ROOT / "pyproject.toml"), str(tmp_path / file)]
    done = subprocess.run(ruff, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    words = shlex.split(command)
    assert words[:3] == [".venv/bin/python", "-m", "pytest"]
    done = subprocess.run(
        [sys.executable, "-c", ADDED, str(tmp_path), *words[3:]],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    (passed,) = re.findall(r"^(\d+) passed", done.stdout, re.M)
    assert int(passed) > 10
