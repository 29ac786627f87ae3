"""All prose is spelt, and spelt the British way."""

import re
from importlib.resources import files
from pathlib import Path

import nbformat
import pytest
from spellchecker import SpellChecker

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(
    path
    for folder in (".", "book", "ctlearn/course", "kernels", "notebooks")
    for kind in ("*.md", "*.ipynb")
    for path in (ROOT / folder).glob(kind)
)
# terms of the field that no dictionary has
TERMS = set((ROOT / "tests" / "words.txt").read_text().split())
# British words too, with another meaning or in a program's name
BOTH = {"license", "meter", "practice", "program", "story"}

NO_PROSE = re.compile(
    # code, and displayed formulas
    r"(?s:(?P<fence>`{3,}).*?(?P=fence)|\$\$.*?\$\$)(?: \([\w-]+\))?"
    r"|\$[^$]*\$|`[^`]*`|<[^>]*>|\{[^}]*\}|\]\([^)]*\)|https?://\S+|&\w+;"
    r"|^[ ]*:::.*$|^[ ]*:[\w-]+:.*$",  # openings and options of directives
    re.MULTILINE,
)


def british_and_american():
    """{American: British}, as codespell knows them."""
    lines = files("codespell_lib") / "data" / "dictionary_en-GB_to_en-US.txt"
    pairs = (line.split("->") for line in lines.read_text().splitlines())
    return {american.strip(", "): british for british, american in pairs}


AMERICAN = british_and_american()
SPELLER = SpellChecker()
SPELLER.word_frequency.load_words([*TERMS, *AMERICAN.values()])


def prose(path):
    """The text of a page, or of a notebook's cells of text."""
    if path.suffix == ".md":
        return path.read_text()
    cells = nbformat.read(path, as_version=4).cells
    return "\n\n".join(c.source for c in cells if c.cell_type == "markdown")


def words(text):
    """Its words in lower case; no code, formulas, abbreviations or two letters."""
    for word in re.findall(r"[^\W\d_]+(?:['’][^\W\d_]+)*", NO_PROSE.sub(" ", text)):
        word = re.sub(r"['’]s?$", "", word).replace("’", "'")
        if len(word) > 2 and not re.search(r"[a-z][A-Z]|[A-Z]{2}", word):
            yield word.lower()


def misspelt(text):
    """What is wrong, and what was meant."""
    found = set(words(text))
    american = {w: AMERICAN[w] for w in found & set(AMERICAN) - BOTH}
    return american | {w: SPELLER.correction(w) for w in SPELLER.unknown(found)}


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.stem)
def test_a_page_is_spelt(path):
    assert misspelt(prose(path)) == {}


def test_only_words_that_need_it_are_listed():
    plain = SpellChecker()
    needed = plain.unknown(TERMS) - set(AMERICAN.values())
    used = set().union(*(words(prose(path)) for path in PAGES))
    assert sorted(TERMS - (needed & used)) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The memroy fades.", {"memroy": "memory"}),
        ("A color of its own", {"color": "colour"}),
        ("we normalize **keys**", {"normalize": "normalise"}),
        ("`memroy`, $\\memroy$, {cite:p}`memroy`, [memory](memroy.md), KDA", {}),
        ("The chapter's colours", {}),
    ],
)
def test_a_slip_is_found_and_a_name_is_not(text, found):
    assert misspelt(text) == found
