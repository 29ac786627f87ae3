"""Each rule of the book has a gate, and each gate stops what is planted before it."""

import json
import re

import pytest

CHAPTER = r"""# A chapter

Two keys at right angles do not meet.

$$
S_t = S_{t-1} + k_t v_t^\top
$$ (def-write)

$$
o_t = S_t^\top q_t
$$ (eq-read)

See {eq}`eq-read`, with $S_t$, $k_t$.
"""
LEDGER_PAGE = """# Ledger

All checks.

```{ledger}
```
"""


def entry(**changes):
    """An entry of the ledger that claims the chapter's one statement."""
    return {
        "name": "read",
        "title": "Reading",
        "kind": "identity",
        "statement": r"o_t = S_t^\top q_t",
        "as_printed": "",
        "refuted": [],
        "source": "Section 3",
        "citations": ["katharopoulos2020"],
        "equations": ["eq-read"],
        "printed": {},
        "chapter": "index",
        "mechanisms": {"linear_attention": "Linear attention"},
        "methods": ["symbols at T = 4, d_k = 2, d_v = 3", "any dimension"],
        "gaps": {},
        "mutants": [{"name": "no transpose", "killed": True}],
        "passed": True,
        "seconds": 0.1,
        "file": "ctlearn/identities/linear_attention.py",
        "line": 3,
        **changes,
    }


BIBLIOGRAPHY = "# Bibliography\n\nWorks.\n\n```{bibliography}\n```\n"
SOUND = {
    "index.md": CHAPTER,
    "ledger.md": LEDGER_PAGE,
    "bibliography.md": BIBLIOGRAPHY,
}


def notebook(source, **metadata):
    """A notebook of one code cell."""
    cell = {
        "cell_type": "code",
        "execution_count": None,
        "id": "one",
        "metadata": metadata,
        "outputs": [],
        "source": source,
    }
    heading = {
        "cell_type": "markdown",
        "id": "zero",
        "metadata": {},
        "source": "# Run\n\nA cell runs.",
    }
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return json.dumps(
        {
            "cells": [heading, cell],
            "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
            "nbformat": 4,
            "nbformat_minor": 5,
        }
    )


@pytest.fixture
def built(tmp_path):
    """The text of a page of the tiny book."""
    html = tmp_path / "book" / "_build" / "html"
    return lambda name: (html / name).read_text(encoding="utf-8")


def test_a_sound_book_passes_and_wears_its_badges(tiny_book, built):
    plot = 'from IPython.display import HTML\nHTML(\'<img src="x.png" alt="A line.">\')'
    done = tiny_book({**SOUND, "run.ipynb": notebook(plot)}, [entry()])
    assert done.returncode == 0, done.stdout + done.stderr
    page = built("index.html")
    assert '<span class="verdict definition"' in page
    assert 'href="ledger.html#ledger-read"' in page
    assert "any dimension. 1 of 1 killed." in page
    assert r"\class{ctl-state}{S}_{\class{ctl-state}{t}}" in page
    assert r"{t}}\)</span>,</span>" in page
    ledger = built("ledger.html")
    assert '<tr id="ledger-read"' in ledger
    assert "<i>d</i><sub>k</sub> = 2" in ledger
    assert 'href="bibliography.html#' in ledger


APART = {
    "index.md": "# Front\n\nA page.\n",
    "ledger.md": LEDGER_PAGE,
    "bibliography.md": BIBLIOGRAPHY,
    "book/chapter.md": CHAPTER,
}
SUMMARY = """# Summary

All of it.

```{key-equations}
eq-read: What is asked, of $S_t$.
```
"""


def test_a_summary_has_the_formula_of_the_chapter_and_its_badge(tiny_book, built):
    done = tiny_book(APART | {"summary.md": SUMMARY}, [entry()])
    assert done.returncode == 0, done.stdout + done.stderr
    chapter, summary = built("book/chapter.html"), built("summary.html")
    _write, read = re.findall(r"\\\[.*?\\\]", chapter, re.DOTALL)
    assert read in summary
    assert 'href="book/chapter.html#equation-eq-read">(' in summary
    assert 'href="ledger.html#ledger-read"' in summary
    assert "What is asked, of" in summary


PLANTED = {
    "an equation that no check claims": (
        {"index.md": CHAPTER},
        [],
        "equation eq-read: no check claims it",
    ),
    "a label that says nothing of its kind": (
        {"index.md": CHAPTER.replace("def-write", "write")},
        [entry()],
        "equation write: a label starts with def-, cited- or eq-",
    ),
    "a claim on an equation that is nowhere": (
        {},
        [entry(equations=["eq-read", "eq-gone"])],
        "read: claims equation eq-gone, which no page has",
    ),
    "a check that failed": ({}, [entry(passed=False)], "read: Fails: symbols"),
    "a mutant that lived": (
        {},
        [entry(mutants=[{"name": "no transpose", "killed": False}])],
        "0 of 1 killed",
    ),
    "a link to nowhere": (
        {"index.md": CHAPTER + "\n[here](nowhere.md)\n"},
        [entry()],
        "nowhere.md",
    ),
    "a summary of an equation that is nowhere": (
        {"summary.md": SUMMARY.replace("eq-read", "eq-gone")},
        [entry()],
        "no page has the equations eq-gone",
    ),
    "an equation reference to nowhere": (
        {"index.md": CHAPTER + "\n{eq}`eq-gone`\n"},
        [entry()],
        "eq-gone",
    ),
    "a ledger reference to nowhere": (
        {"index.md": CHAPTER + "\n{ledger}`gone`\n"},
        [entry()],
        "no entry 'gone' in the ledger",
    ),
    "a citation of nothing": (
        {"index.md": CHAPTER + "\n{cite:t}`nobody1900`\n"},
        [entry()],
        "nobody1900",
    ),
    "a picture without words": (
        {
            "run.ipynb": notebook(
                "from IPython.display import HTML\nHTML('<img src=\"x.png\">')"
            )
        },
        [entry()],
        "an <img> without an alternative text",
    ),
    "a drawing without words": (
        {
            "run.ipynb": notebook(
                "from IPython.display import HTML\nHTML('<svg><path d=\"\"/></svg>')"
            )
        },
        [entry()],
        'an <svg> without role="img"',
    ),
    "a plot with the hash of its file for words": (
        {
            "run.ipynb": notebook(
                "import matplotlib.pyplot as plt\nplt.plot([0, 1]);\nplt.show()"
            )
        },
        [entry()],
        "a figure without an alternative text",
    ),
    "a cell that raises": (
        {"run.ipynb": notebook("raise ValueError('planted')")},
        [entry()],
        "planted",
    ),
}


@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_stops_the_build(tiny_book, fault):
    pages, ledger, said = PLANTED[fault]
    done = tiny_book({**SOUND, **pages}, ledger)
    assert done.returncode != 0
    assert said in done.stdout + done.stderr


ERRATUM = {
    "name": "misprint",
    "kind": "erratum",
    "statement": r"o_t = S_t^\top q_t",
    "as_printed": r"o_t = S_t q_t",
    "refuted": ["floats"],
    "equations": [],
    "gaps": {
        "rationals": {"printed": "7/3", "corrected": "0"},
        "floats": {"printed": "0.9", "corrected": "2e-16"},
    },
}
ERRATA_PAGE = "# Errata\n\nSlips in print.\n\n```{errata}\n```\n"


def test_an_erratum_has_a_section_with_both_texts(tiny_book, built):
    pages = SOUND | {"errata.md": ERRATA_PAGE}
    done = tiny_book(pages, [entry(), entry(**ERRATUM)])
    assert done.returncode == 0, done.stdout + done.stderr
    page = built("errata.html")
    assert page.count('id="erratum-misprint"') == 1
    assert 'id="erratum-read"' not in page
    assert page.index("as printed</p>") < page.index("corrected</p>")
    assert "is off by 0.9 times" in page
    assert "corrected one by 2e-16" in page
    assert "Both texts were run" in page
    assert 'href="ledger.html#ledger-misprint"' in page
    assert "Printed in the source:" in built("ledger.html")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"refuted": []}, "a twin of both texts"),
        ({"gaps": {"symbols": {"printed": "a*b", "corrected": "0"}}}, "As polynomials"),
    ],
)
def test_an_erratum_tells_how_it_was_found(tiny_book, built, changes, told):
    pages = SOUND | {"errata.md": ERRATA_PAGE}
    done = tiny_book(pages, [entry(), entry(**ERRATUM | changes)])
    assert done.returncode == 0, done.stdout + done.stderr
    assert told in built("errata.html")


def test_a_row_leads_to_the_line_of_its_check(tiny_book, built):
    done = tiny_book(SOUND, [entry()])
    assert done.returncode == 0, done.stdout + done.stderr
    assert 'href="checks/linear_attention.html#line-3"' in built("ledger.html")
    code = built("checks/linear_attention.html")
    assert '<span id="line-3" class="line">' in code
    assert '<pre tabindex="0">' in code


@pytest.mark.parametrize(
    ("changes", "badge"),
    [
        ({"methods": ["induction, from a state"]}, 'proved" title="Holds'),
        ({"methods": ["exact rationals, 3 draws"]}, 'sampled" title="Holds'),
        ({"methods": ["exact"], "kind": "counterexample"}, 'proved" title="Holds'),
    ],
)
def test_a_badge_tells_a_proof_from_a_sample(tiny_book, built, changes, badge):
    done = tiny_book(SOUND, [entry(**changes)])
    assert done.returncode == 0, done.stdout + done.stderr
    assert f'class="verdict {badge}' in built("index.html")


def test_alternative_text_by_metadata_is_one(tiny_book, built):
    plot = "import matplotlib.pyplot as plt\nplt.plot([0, 1]);\nplt.show()"
    words = {"mystnb": {"image": {"alt": "A line that rises."}}}
    done = tiny_book({**SOUND, "run.ipynb": notebook(plot, **words)}, [entry()])
    assert done.returncode == 0, done.stdout + done.stderr
    assert 'alt="A line that rises."' in built("run.html")
