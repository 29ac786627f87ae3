"""How well a model tells the next character, what it carries, and how fast it goes on.

Surprise is counted in bits a character: minus the mean of log_2 of the probability that
was given to the character that came. An alphabet of A characters that are all as likely
costs log_2 A.
"""

import time
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ctlearn.layers.model import LanguageModel
from ctlearn.train.contestants import carried_bytes
from ctlearn.train.run import nats
from ctlearn.train.text import in_turn

# attention to a long cache is read in pieces, whose table of scores fits into memory
PIECE = 512


@torch.no_grad()
def bits_by_place(
    model: LanguageModel, part: Tensor, T: int, *, most: int, B: int = 16
) -> Tensor:
    """Bits at each of the T places of a stretch, of `most` stretches: [most, T].

    Every stretch begins with nothing remembered.
    """
    device = model.embedding.weight.device
    batches = in_turn(part, T, most).split(B)
    told = [nats(model, batch.to(device)).cpu() for batch in batches]
    return torch.cat(told) / np.log(2)


@torch.no_grad()
def bits_in_pieces(model: LanguageModel, part: Tensor, length: int) -> Tensor:
    """Bits of each character but the first of a text that is read once, [n - 1].

    It is read `length` characters at a time, and the state goes from piece to piece, so
    that the length changes nothing.
    """
    device = model.embedding.weight.device
    state, told = None, []
    for piece in in_pieces(part, length):
        read = piece.to(device)[None]
        logits, state = model(read[:, :-1], state)
        shares = logits[0].float().log_softmax(-1)
        told.append(-shares.gather(1, read[0, 1:, None])[:, 0].cpu())
    return torch.cat(told) / np.log(2)


def in_pieces(part: Tensor, length: int) -> Iterable[Tensor]:
    """A text in pieces of `length` characters and the one that comes then."""
    for start in range(0, len(part) - 1, length):
        yield part[start : start + length + 1]


class Sightings(NamedTuple):
    """Of n characters: how often each was seen in its context, and the context, [n]."""

    seen: np.ndarray
    context: np.ndarray


def sightings(learned: Tensor, part: Tensor, A: int, known: int) -> list[Sightings]:
    """Counts in one text of what stands in another, with contexts of 0 to `known`.

    A is the size of the alphabet; the first `known` characters of `part` are not asked.
    """
    found = []
    for order in range(known + 1):
        runs, asked = (_runs(x.numpy(), A, order + 1) for x in (learned, part))
        asked = asked[known - order :]
        pairs = ((runs, asked), (runs // A, asked // A))
        found.append(Sightings(*(_count(*pair) for pair in pairs)))
    return found


def table_bits(found: list[Sightings], A: int, trust: float) -> float:
    """Bits a character by a table of such counts.

    A context of n sightings is believed n / (n + trust); the rest is left to the one
    that is a character shorter, and below the shortest all characters are as likely.
    """
    share = np.full(len(found[0].seen), 1 / A)
    for seen, context in found:
        share = (seen + trust * share) / (context + trust)
    return float(-np.log2(share).mean())


def _runs(x: np.ndarray, A: int, length: int) -> np.ndarray:
    """All runs of so many characters, each as one number."""
    windows = np.lib.stride_tricks.sliding_window_view(x, length)
    return windows @ A ** np.arange(length)[::-1]


def _count(among: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """How often each number that is asked is among others."""
    numbers, times = np.unique(among, return_counts=True)
    place = np.searchsorted(numbers, asked).clip(max=len(numbers) - 1)
    return np.where(numbers[place] == asked, times[place], 0)


class Decoding(NamedTuple):
    """After so many characters: bytes carried, and seconds for each one more."""

    read: int
    bytes: int
    seconds: float


@torch.no_grad()
def decoding(
    model: LanguageModel, part: Tensor, lengths: Iterable[int], *, tries: int = 32
) -> list[Decoding]:
    """What one more character costs after each of some lengths, which must rise.

    Characters are read in pieces up to a length, and then `tries` of them one by one;
    the median time counts, which other work on the machine disturbs least.
    """
    x = part.to(model.embedding.weight.device)[None]
    state, at, found = None, 0, []
    for length in lengths:
        for piece in x[:, at:length].split(PIECE, 1):
            _, state = model(piece, state)
        kept, spent = carried_bytes(state), []
        for one in x[:, length : length + tries].split(1, 1):
            start = time.perf_counter()
            logits, state = model(one, state)
            logits[0, -1, 0].item()  # on a GPU, wait for it
            spent.append(time.perf_counter() - start)
        at = length + tries
        found.append(Decoding(length, kept, float(np.median(spent))))
    return found
