"""What a chapter of the book must have: its parts in order, and numbers that it ran.

And what the pages beside the chapters take from them: numbers, sections, equations.
"""

import functools
import re
from pathlib import Path

import nbformat
import pytest
from myst_parser.mdit_to_docutils.base import default_slugify

from ctlearn.printed import pages

ROOT = Path(__file__).resolve().parents[1]
CHAPTERS = sorted((ROOT / "notebooks").glob("*.ipynb"))
LONGEST = 120  # words of a paragraph
EXERCISES = 5


def html(cell):
    """What a cell of code shows as HTML."""
    outputs = cell.get("outputs", [])
    return "".join("".join(o.get("data", {}).get("text/html", "")) for o in outputs)


def printed(cell):
    """What a cell of code shows as text."""
    outputs = cell.get("outputs", [])
    return "\n".join(
        o.get("text", "") or o.get("data", {}).get("text/plain", "") for o in outputs
    )


def has(text):
    """Whether a cell of text says it."""
    return lambda cell: cell.cell_type == "markdown" and text in cell.source


def heading(pattern):
    """Whether a cell of text has such a heading."""
    found = re.compile(rf"^##+ .*(?:{pattern})", re.MULTILINE)
    return lambda cell: cell.cell_type == "markdown" and bool(found.search(cell.source))


CARD = re.compile(
    r":class: chapter-card\n\n"
    r"You will be able to\n: .*\.\n\n"
    r"You need\n: .*\.\n\n"
    r"Time\n: about \d+ minutes to read, \d+ seconds to run, on a CPU\b"
)
# the parts of a chapter in the order in which each first appears, and how it is known
PARTS = {
    "a card of what it needs": lambda c: has("")(c) and bool(CARD.search(c.source)),
    "a figure before anything is derived": lambda c: "<figure" in html(c),
    "a prediction": has(":class: predict"),
    "a labelled equation": has("$$ ("),
}
# those that come somewhere behind them
ANYWHERE = {
    "the package's own code": lambda c: "Listing(" in c.get("source", ""),
    "a check that the plans agree": heading("plans agree"),
    "an explorable": lambda c: 'class="explorable"' in html(c),
    "an experiment": heading("Experiment|Where each plan wins"),
}
# and those that close it
LAST = {
    "what it does not say": heading("What this does not say"),
    "exercises": heading("Exercises"),
    "what to keep": has(":::{admonition} What to keep\n:class: keep\n\n- "),
    "sources": heading("Sources$"),
}


def lint_parts(notebook):
    """Every part is there, and the opening and the end are in order."""

    def first(known):
        return next((i for i, c in enumerate(notebook.cells) if known(c)), None)

    for group in (PARTS, ANYWHERE, LAST):
        at = {name: first(known) for name, known in group.items()}
        yield from (f"no part is {name}" for name, i in at.items() if i is None)
        found = [i for i in at.values() if i is not None]
        if group is not ANYWHERE and found != sorted(found):
            yield f"the parts {list(group)} are in another order: {found}"


def lint_exercises(notebook):
    """Five exercises or more, each with a hint and a solution that are folded."""
    text = "\n\n".join(c.source for c in notebook.cells if c.cell_type == "markdown")
    exercises = re.findall(
        r"^:::+\{exercise\}.*?^:::+$", text, re.MULTILINE | re.DOTALL
    )
    if len(exercises) < EXERCISES:
        yield f"{len(exercises)} exercises; there should be {EXERCISES} or more"
    for exercise in exercises:
        for part in ("Hint", "Solution"):
            if f"<summary>{part}</summary>" not in exercise:
                yield f"no {part} folded in {exercise.splitlines()[0]!r}"


def paragraphs(notebook):
    """The paragraphs of prose, without code, displayed formulas and tables."""
    for cell in notebook.cells:
        if cell.cell_type != "markdown":
            continue
        text = re.sub(
            r"```.*?```|\$\$.*?\$\$(?: \([\w-]+\))?",
            "\n\n",
            cell.source,
            flags=re.DOTALL,
        )
        text = re.sub(
            r"^\s*(?::::*.*|:[\w-]+:.*|\|.*\||</?\w+.*>)$",
            "\n",
            text,
            flags=re.MULTILINE,
        )
        for paragraph in re.split(r"\n\s*\n|^\s*[-*\d]+\.? ", text, flags=re.MULTILINE):
            if paragraph.strip():
                yield " ".join(paragraph.split())


def lint_paragraphs(notebook):
    """A paragraph can be read aloud."""
    for paragraph in paragraphs(notebook):
        words = len(re.sub(r"\$[^$]*\$", "x", paragraph).split())
        if words > LONGEST:
            yield f"{words} words in a paragraph: {paragraph[:60]!r}"


DECIMAL = r"(?<![\w.])\d+\.\d+(?:e[-+]?\d+)?"
NO_PROSE = r"`[^`]*`|\]\([^)]*\)|\$[^$]*\$"  # code, where a link leads, formulas


def known_numbers(cells):
    """The numbers that cells print, and the decimals that they set."""
    code = [c for c in cells if c.cell_type == "code"]
    number = r"\d*\.?\d+(?:e[-+]?\d+)?"
    shown = {float(x) for c in code for x in re.findall(number, printed(c))}
    return shown, {float(x) for c in code for x in re.findall(DECIMAL, c.source)}


def unprinted(prose, known, number=DECIMAL):
    """The numbers of a text that no cell prints, rounds to or sets."""
    shown, given = known
    for found in re.findall(number, re.sub(NO_PROSE, " ", prose)):
        places = len(found.partition(".")[2])
        value = float(found)
        near = any(abs(x - value) <= 0.5001 * 10**-places for x in shown)
        if not near and value not in given:
            yield found


def lint_numbers(notebook):
    """A decimal in the prose was printed by a cell, set in one, or is cited."""
    known = known_numbers(notebook.cells)
    for paragraph in paragraphs(notebook):
        if "{cite" not in paragraph:
            for number in unprinted(paragraph, known):
                yield f"no cell prints {number}: {paragraph[:60]!r}"


LINTS = (lint_parts, lint_exercises, lint_paragraphs, lint_numbers)


@pytest.mark.parametrize("lint", LINTS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("path", CHAPTERS, ids=lambda p: p.stem)
def test_a_chapter_has_what_a_chapter_has(path, lint):
    assert list(lint(nbformat.read(path, as_version=4))) == []


def test_the_readme_and_the_changelog_name_the_chapters():
    cells = [nbformat.read(path, as_version=4).cells[0].source for path in CHAPTERS]
    titles = [source.splitlines()[0].removeprefix("# ") for source in cells]
    readme, changes = (
        " ".join((ROOT / f"{name}.md").read_text(encoding="utf-8").split())
        for name in ("README", "CHANGELOG")
    )
    assert [t for i, t in enumerate(titles, 1) if f"{i} {t}" not in readme] == []
    assert [t for t in titles if t not in changes] == []


def test_the_page_of_questions_names_sections_that_are_there():
    page = (ROOT / "book" / "questions.md").read_text(encoding="utf-8")
    named = re.findall(r"\(\.\./notebooks/(\w+)\.ipynb\), \*([^*]+)\*", page)
    assert len(named) == page.count(".ipynb)")
    cells = {
        path.stem: nbformat.read(path, as_version=4).cells
        for path in CHAPTERS
        if path.stem in dict(named)
    }
    for chapter, section in named:
        known = heading(re.escape(section) + "$")
        assert any(known(cell) for cell in cells[chapter]), section


def page(name):
    """The text of a page beside the chapters."""
    return (ROOT / "book" / f"{name}.md").read_text(encoding="utf-8")


def linked(text):
    """The chapters to which a text has links."""
    return set(re.findall(r"\(\.\./notebooks/(\w+)\.ipynb", text))


def lint_quotes(text):
    """A number of the closing page is printed in a chapter that its paragraph links."""
    cells = {
        path.stem: nbformat.read(path, as_version=4).cells
        for path in CHAPTERS
        if path.stem in linked(text)
    }
    for paragraph in re.split(r"\n\s*\n", text):
        known = known_numbers([c for name in linked(paragraph) for c in cells[name]])
        prose = re.sub(r"[Cc]hapter \d+", "", paragraph)
        for number in unprinted(prose, known, r"(?<![\w.])\d+(?:\.\d+)?"):
            yield f"no cell prints {number}: {paragraph[:60]!r}"


@functools.cache
def sections(path):
    """What is said under every heading of a chapter or page, by its place in a link."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        cells = nbformat.reads(text, as_version=4).cells
        text = "\n\n".join(c.source for c in cells if c.cell_type == "markdown")
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    found = list(re.finditer(r"^(#+) (.+)$", text, re.MULTILINE))
    under = {}
    for i, head in enumerate(found):
        after = [f.start() for f in found[i + 1 :] if len(f[1]) <= len(head[1])]
        end = after[0] if after else len(text)
        under[default_slugify(head[2])] = text[head.start() : end].lower()
    return under


def speaks(section, term):
    """Whether each word of a term, but what is in brackets, begins like one there."""
    words = re.findall(r"[^\W_]{2,}|\d+", term.partition(" (")[0].lower())
    return all(re.search(rf"\b{word[:5]}", section) for word in words)


def lint_terms(text):
    """Each entry of the index leads to sections that speak of it, or to an entry."""
    entries = dict(re.findall(r"^([^\s:#].*)\n  (\S.*)$", text, re.MULTILINE))
    see = {a: b for a, b in entries.items() if b.startswith("See ")}
    link = r"(?:Chapter (\d+), )?\[(\d*)\]\(([^)#]+)#([^)]+)\)"
    for term, line in entries.items():
        names = [term, *(a for a, b in see.items() if f"`{term}`" in b)]
        links = re.findall(link, line)
        if term in see and not any(line == f"See {{term}}`{b}`." for b in entries):
            yield f"{term}: {line} There is no such entry."
        if term not in see and not links:
            yield f"{term}: leads nowhere"
        for chapter, number, file, slug in links:
            path = (ROOT / "book" / file).resolve()
            if (chapter or number) not in ("", path.stem[:2].lstrip("0")):
                yield f"{term}: {file} is not chapter {chapter or number}"
            section = sections(path).get(slug)
            if section is None:
                yield f"{term}: {file} has no section {slug}"
            elif not any(speaks(section, name) for name in names):
                yield f"{term}: {file}#{slug} does not speak of it"


def test_the_closing_page_quotes_what_chapters_print():
    assert list(lint_quotes(page("closing"))) == []


def test_every_term_leads_to_where_it_is_spoken_of():
    assert list(lint_terms(page("terms"))) == []


def test_the_summary_and_the_index_leave_no_chapter_out():
    labels = re.findall(r"^((?:def|eq)-[\w-]+): ", page("summary"), re.MULTILINE)
    assert len(labels) == len(set(labels))
    every = {path.stem for path in CHAPTERS}
    assert {pages.printed()[label].file.stem for label in labels} == every
    assert linked(page("terms")) == every


@pytest.mark.parametrize(
    ("lint", "name", "right", "wrong", "complaint"),
    [
        (lint_quotes, "closing", "it holds 7.2", "it holds 7.9", "prints 7.9"),
        (lint_quotes, "closing", "holds 117 (", "holds 1170 (", "prints 1170"),
        (lint_terms, "terms", "#the-wall", "#the-fence", "no section the-fence"),
        (lint_terms, "terms", "#the-wall", "#the-code", "does not speak of it"),
        (lint_terms, "terms", "`delta rule`", "`rule`", "There is no such entry"),
        (lint_terms, "terms", "Chapter 4, ", "Chapter 5, ", "is not chapter 5"),
    ],
)
def test_a_slip_on_a_page_is_named(lint, name, right, wrong, complaint):
    text = page(name)
    assert right in text
    found = list(lint(text.replace(right, wrong)))
    assert any(complaint in problem for problem in found), found


def without(text):
    """Take a text out of every cell of words."""

    def plant(notebook):
        for cell in notebook.cells:
            if cell.cell_type == "markdown":
                cell.source = cell.source.replace(text, "")

    return plant


def with_words(words):
    """Add a paragraph."""

    def plant(notebook):
        notebook.cells[-1].source += f"\n\n{words}"

    return plant


def card_last(notebook):
    """Put the card behind all else."""
    cells = notebook.cells
    at = next(
        i for i, cell in enumerate(cells) if PARTS["a card of what it needs"](cell)
    )
    cells.append(cells.pop(at))


FAULTS = {
    "no card": (without(":class: chapter-card"), "no part is a card"),
    "a card that gives no time": (without("minutes to read"), "no part is a card"),
    "no box at the end": (without(":class: keep"), "no part is what to keep"),
    "no sources": (without("## Sources"), "no part is sources"),
    "nothing to predict": (without(":class: predict"), "no part is a prediction"),
    "no label": (without("$$ ("), "no part is a labelled equation"),
    "nothing said of limits": (without("## What this does not say"), "no part is what"),
    "card last": (card_last, "in another order"),
    "no exercise": (without("{exercise}"), "0 exercises"),
    "no solution": (without("<summary>Solution"), "no Solution folded"),
    "no hint": (without("<summary>Hint"), "no Hint folded"),
    "no breath": (with_words("word " * 121), "121 words"),
    "a number from nowhere": (with_words("It is 0.1234567."), "prints 0.1234567"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_named(fault):
    plant, complaint = FAULTS[fault]
    notebook = nbformat.read(CHAPTERS[0], as_version=4)
    plant(notebook)
    problems = [problem for lint in LINTS for problem in lint(notebook)]
    assert any(complaint in problem for problem in problems), problems
