"""What a chapter's notebook must be, so that running it proves something.

nbval passes a notebook whose outputs were stripped, and never compares pictures. The
rules below are what makes its green mean that stored numbers were computed again.
"""

import ast
import copy
import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from ctlearn.shapes import GLOSSARY

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))

CHECKED = "nbval-check-output"
EVADES = {"nbval-ignore-output", "nbval-skip", "raises-exception", "skip-execution"}
MACHINE = re.compile(
    r"(?<![\w.:])/(?:home|root|tmp|usr|opt|var|work|mnt|Users|private)/|[A-Z]:\\"
)
WARNED = re.compile(r"\b\w*Warning\b|Traceback \(most recent call last\)")
HASHED = re.compile(r"[0-9a-f]{16,}|_images/|\.(?:png|svg)$")
INTERACT = {"interact", "interact_manual", "interactive", "interactive_output"}
# a letter, as the grammar of the book's equations knows it
GRAMMAR = (files("ctlearn.printed") / "grammar.lark").read_text(encoding="utf-8")
LETTER = re.search(r"^LETTER: /(.*)/$", GRAMMAR, re.MULTILINE)[1]
NAMES = r"\\(?:begin|end|text|mathrm|mathbb|operatorname)\*?\{[^}]*\}"
LONGEST = 25  # lines of one function or cell that a page holds at once


def code_cells(notebook):
    """The cells of code that hold any."""
    return [c for c in notebook.cells if c.cell_type == "code" and c.source.strip()]


def tags(cell):
    """A cell's tags, as a set."""
    return set(cell.metadata.get("tags", []))


def text_of(output):
    """All the text that an output shows, its HTML and SVG left out."""
    if output.output_type == "stream":
        return output.text
    if output.output_type == "error":
        return "\n".join(output.traceback)
    return output.data.get("text/plain", "")


def is_text(output):
    """Whether an output is text to compare: printed, or shown with no picture."""
    if output.output_type == "stream":
        return bool(output.text.strip())
    data = output.get("data", {})
    picture = any(kind.startswith("image/") or kind == "text/html" for kind in data)
    return bool(data.get("text/plain", "").strip()) and not picture


def lint_checks(notebook):
    """At least three cells compare text, and no cell evades the comparison."""
    checked = [cell for cell in code_cells(notebook) if CHECKED in tags(cell)]
    if len(checked) < 3:
        yield f"{len(checked)} cells are tagged {CHECKED}; there should be 3 or more"
    for cell in checked:
        if not any(is_text(output) for output in cell.outputs):
            yield f"a checked cell stores no text: {cell.source[:40]!r}"
    for cell in code_cells(notebook):
        if tags(cell) & EVADES or re.search(r"#\s*NBVAL_", cell.source):
            yield f"a cell evades its test: {cell.source[:40]!r}"


def lint_order(notebook):
    """The outputs were stored by one run from the top."""
    counts = [cell.execution_count for cell in code_cells(notebook)]
    if counts != list(range(1, len(counts) + 1)):
        yield f"execution counts are {counts}; they should be 1, 2, 3 and so on"
    kernel = notebook.metadata.get("kernelspec", {}).get("name")
    language = notebook.metadata.get("language_info", {}).get("name")
    if (kernel, language) != ("python3", "python"):
        yield f"kernel {kernel!r}, language {language!r}: should be python3 and python"


def lint_outputs(notebook):
    """No stored output holds a path, a warning or an error."""
    for cell in code_cells(notebook):
        for output in cell.outputs:
            text = text_of(output)
            if output.output_type == "error" or output.get("name") == "stderr":
                yield f"an output is an error or a warning: {text[:60]!r}"
            shown = text + "".join(output.get("data", {}).get("text/html", ""))
            for pattern in (MACHINE, WARNED):
                if match := pattern.search(shown):
                    yield f"an output holds {match.group()!r}"


def lint_code(notebook):
    """Algorithms are shown from the package, and nothing needs a running kernel."""
    for cell in code_cells(notebook):
        tree = ast.parse(re.sub(r"^[%!].*$", "", cell.source, flags=re.MULTILINE))
        for node in ast.walk(tree):
            named = {getattr(node, "id", None), getattr(node, "attr", None)}
            if isinstance(node, ast.ImportFrom):
                named |= {alias.name for alias in node.names}
            if named & INTERACT:
                yield f"{named & INTERACT} shows a slider that does nothing on a page"
            if isinstance(node, ast.FunctionDef) and node.name in own_functions():
                yield f"{node.name} is defined again; show the package's own"
        if len(cell.source.splitlines()) > LONGEST and "remove-input" not in tags(cell):
            yield f"a cell has more than {LONGEST} lines: {cell.source[:40]!r}"
        for output in cell.outputs:
            data = output.get("data", {})
            widget = any("jupyter.widget-view" in kind for kind in data)
            if widget and "text/html" not in data:
                yield "a widget has no form that works on a static page"


def lint_alt(notebook):
    """Every figure says what is seen to one who cannot see it."""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            html = cell.source
            for alt in re.findall(r"!\[(.*?)\]\(", cell.source):
                yield from bad_alt(alt, cell)
        else:
            html = ""
            for data in (o.get("data", {}) for o in cell.get("outputs", [])):
                html += "".join(data.get("text/html", ""))
                if (
                    any(k.startswith("image/") for k in data)
                    and "text/html" not in data
                ):
                    image = cell.metadata.get("mystnb", {}).get("image", {})
                    yield from bad_alt(image.get("alt", ""), cell)
        for tag in re.findall(r"<img\b[^>]*>", html):
            yield from bad_alt(attribute(tag, "alt"), cell)
        for tag in re.findall(r"<svg\b[^>]*>", html):
            if attribute(tag, "aria-hidden") != "true":
                yield from bad_alt(attribute(tag, "aria-label"), cell)


def lint_letters(notebook):
    """Each letter of a labelled equation is on the notation page, or was introduced.

    A letter is introduced by a formula in a line of text that comes before, or right
    behind; by an equation before; or by the definition on whose left it stands. One
    that a sum or a limit binds needs no introduction.
    """
    known = set().union(*(letters(symbol.tex) for symbol in GLOSSARY.values()))
    cells = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    parts = re.split(r"\$\$([^$]+)\$\$(?: \(([\w-]+)\))?", "\n\n".join(cells))
    for text, tex, label, after in zip(*(parts[i::3] for i in range(4)), strict=False):
        behind = after.lstrip().partition("\n\n")[0]
        for inline in re.findall(r"\$([^$]+)\$", f"{text} {behind}"):
            known |= letters(inline)
        bound = re.findall(r"\\(?:sum|prod|lim|max|min)_\{([^}]*)\}", tex)
        if (label or "").startswith("def-"):
            bound += re.findall(r"(?:^|\\\\)([^=]*)=", tex)
        unknown = letters(tex) - known - letters(" ".join(bound))
        if label and unknown:
            yield f"{label}: {sorted(unknown)} has not been introduced"
        known |= letters(tex)


def letters(tex):
    r"""The letters of a formula with their accents: v, \phi, \hat{v}, k'."""
    found = re.finditer(rf"({LETTER})|\\[A-Za-z]+", re.sub(NAMES, " ", tex))
    return {re.sub(r"[\s{}]", "", match[1]) for match in found if match[1]}


def attribute(tag, name):
    """The value of an attribute in an HTML tag, or nothing."""
    match = re.search(rf"""\b{name}=(["'])(.*?)\1""", tag, flags=re.DOTALL)
    return match.group(2) if match else ""


def bad_alt(alt, cell):
    """A complaint if `alt` is too short to say anything, or names a file."""
    if len(alt.split()) < 4 or HASHED.search(alt):
        yield f"a figure's alt text is {alt!r}: {cell.source[:40]!r}"


def own_functions():
    """The names of the functions that the package shows on pages."""
    files = [ROOT / "ctlearn" / "memory.py", *(ROOT / "ctlearn/mixers").glob("*.py")]
    return {
        node.name
        for file in files
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef)
    }


LINTS = (lint_checks, lint_order, lint_outputs, lint_code, lint_alt, lint_letters)


def run_nbval(path):
    """Run a notebook as `make test` does."""
    options = ["--nbval-lax", "--nbval-current-env", "--nbval-cell-timeout=120"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += [*options, f"--rootdir={path.parent}", str(path)]
    return subprocess.run(command, cwd=path.parent, capture_output=True, text=True)


def replayed(notebook, count):
    """Its checked cells, each of code that only shows what is stored of numbers.

    `count` is of cells in chapters before it: executions are numbered on.
    """
    for cell in code_cells(notebook):
        if CHECKED not in tags(cell):
            continue
        outputs = [
            new_output("stream", name="stdout", text=text_of(output) + "\n")
            for output in cell.outputs
            if is_text(output) and re.search(r"\d", text_of(output))
        ]
        if outputs:
            text = "".join(output.text for output in outputs)
            yield new_code_cell(
                f"print({text!r}, end='')",
                execution_count=(count := count + 1),
                outputs=[new_output("stream", name="stdout", text=text)],
                metadata=cell.metadata,
            )


def poison(notebook):
    """A copy with a digit changed in every output that is printed."""
    notebook = copy.deepcopy(notebook)
    for cell in code_cells(notebook):
        for output in cell.outputs:
            output.text = re.sub(
                r"\d", lambda d: str((int(d.group()) + 1) % 10), output.text, count=1
            )
    return notebook


@pytest.fixture
def small():
    """A notebook that keeps every rule."""
    cells = [
        new_markdown_cell("Some words.\n\n![A line that rises to the right](a.svg)")
    ]
    for count in (1, 2, 3):
        printed = new_output("stream", name="stdout", text=f"{count}.25\n")
        cells.append(
            new_code_cell(
                f"print({count} + 0.25)",
                execution_count=count,
                outputs=[printed],
                metadata={"tags": [CHECKED]},
            )
        )
    notebook = new_notebook(cells=cells)
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    notebook.metadata["language_info"] = {"name": "python"}
    return notebook


def test_there_are_chapters_numbered_without_a_gap():
    numbers = [int(path.stem.split("_")[0]) for path in NOTEBOOKS]
    assert numbers
    assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_chapter_is_in_the_table_of_contents(path):
    contents = (ROOT / "_toc.yml").read_text(encoding="utf-8")
    assert re.search(rf"file: notebooks/{path.stem}\b", contents)


@pytest.mark.parametrize("lint", LINTS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_chapter_keeps_the_rules(path, lint):
    assert list(lint(nbformat.read(path, as_version=4))) == []


def test_a_changed_number_in_any_checked_cell_is_found(small, tmp_path):
    """Of all chapters, in one notebook that computes nothing."""
    small.cells = []
    for path in NOTEBOOKS:
        before = len(small.cells)
        small.cells += replayed(nbformat.read(path, as_version=4), before)
        assert len(small.cells) >= before + 3
    nbformat.write(small, tmp_path / "good.ipynb")
    good = run_nbval(tmp_path / "good.ipynb")
    assert f"{len(small.cells)} passed" in good.stdout
    nbformat.write(poison(small), tmp_path / "poisoned.ipynb")
    poisoned = run_nbval(tmp_path / "poisoned.ipynb")
    assert f"{len(small.cells)} failed" in poisoned.stdout
    assert "passed" not in poisoned.stdout.splitlines()[-1]


def test_the_rules_pass_a_good_notebook_and_so_does_nbval(small, tmp_path):
    assert [problem for lint in LINTS for problem in lint(small)] == []
    nbformat.write(small, tmp_path / "small.ipynb")
    assert run_nbval(tmp_path / "small.ipynb").returncode == 0


def test_a_changed_number_fails_under_nbval(small, tmp_path):
    nbformat.write(poison(small), tmp_path / "small.ipynb")
    done = run_nbval(tmp_path / "small.ipynb")
    assert done.returncode == 1
    assert "mismatch" in done.stdout


def test_a_cell_that_raises_fails_under_nbval(small, tmp_path):
    small.cells[-1].source = "1 / 0"
    nbformat.write(small, tmp_path / "small.ipynb")
    assert run_nbval(tmp_path / "small.ipynb").returncode == 1


def strip(notebook):
    """Clear the outputs."""
    for cell in code_cells(notebook):
        cell.outputs, cell.execution_count = [], None


def set_source(text):
    """A fault: the last cell's source is `text`."""

    def plant(notebook):
        notebook.cells[-1].source = text

    return plant


def set_markdown(text):
    """A fault: the first cell's text is `text`."""

    def plant(notebook):
        notebook.cells[0].source = text

    return plant


def set_output(kind, **fields):
    """A fault: the last cell's only output is this one."""

    def plant(notebook):
        notebook.cells[-1].outputs = [new_output(kind, **fields)]

    return plant


def set_tags(*names):
    """A fault: the last cell's tags are these."""

    def plant(notebook):
        notebook.cells[-1].metadata["tags"] = list(names)

    return plant


def shown(**data):
    """A fault: the last cell shows this data, `_` in its kinds standing for `/`."""
    kinds = {kind.replace("_", "/", 1): value for kind, value in data.items()}
    return set_output("display_data", data=kinds)


FAULTS = {
    "outputs stripped": (strip, "stores no text"),
    "two checked cells": (set_tags(), "2 cells are tagged"),
    "skipped by tag": (set_tags(CHECKED, "nbval-skip"), "evades"),
    "expected to raise": (set_tags(CHECKED, "raises-exception"), "evades"),
    "skipped by comment": (set_source("# NBVAL_SKIP\nprint(3.25)"), "evades"),
    "picture alone": (shown(image_png="", text_plain="<Figure>"), "stores no text"),
    "run out of order": (
        lambda n: n.cells[-1].update(execution_count=7),
        "execution counts",
    ),
    "another kernel": (
        lambda n: n.metadata.kernelspec.update(name="mine"),
        "kernel 'mine'",
    ),
    "error": (
        set_output("error", ename="E", evalue="", traceback=["E: bad"]),
        "is an error",
    ),
    "stderr": (set_output("stream", name="stderr", text="50 %"), "is an error"),
    "warning": (
        set_output("stream", name="stdout", text="RuntimeWarning: overflow"),
        "RuntimeWarning",
    ),
    "path": (
        set_output("stream", name="stdout", text="3 in '/" + "home/me/a.py'"),
        "an output holds '/",
    ),
    "bare interact": (set_source("interact(f, x=(0, 1))"), "slider"),
    "imported interact": (set_source("from ipywidgets import interactive"), "slider"),
    "lone widget": (
        set_output(
            "display_data",
            data={"application/vnd.jupyter.widget-view+json": {}, "text/plain": "3"},
        ),
        "static page",
    ),
    "algorithm copied": (set_source("def chunkwise(q, k, v):\n    pass"), "again"),
    "long cell": (set_source("x = 1\n" * 26), "more than 25 lines"),
    "letter from nowhere": (
        set_markdown("Words.\n\n$$\no_t = \\chi q_t\n$$ (def-x)"),
        "['\\\\chi'] has not been introduced",
    ),
    "letter too soon": (
        set_markdown("Words.\n\n$$\ny = 1\n$$ (eq-x)\n\nThen.\n\nHere is $y$."),
        "['y'] has not been introduced",
    ),
    "accent from nowhere": (
        set_markdown("Of $x$.\n\n$$\n\\tilde{x} = x\n$$ (eq-x)"),
        "['\\\\tildex'] has not been introduced",
    ),
    "no alt": (set_markdown("Words.\n\n![](a.svg)"), "alt text is ''"),
    "alt is a file": (
        set_markdown('Words.\n\n<img src="a.png" alt="the file is a.png">'),
        "alt text is",
    ),
    "picture without alt": (shown(image_svg="<svg/>"), "alt text is ''"),
    "svg without label": (shown(text_html="<figure><svg></svg>"), "alt text is ''"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_named(small, fault):
    plant, complaint = FAULTS[fault]
    plant(small)
    problems = [problem for lint in LINTS for problem in lint(small)]
    assert any(complaint in problem for problem in problems), problems
