"""The contestants side by side: each at its best rate, over several seeds.

What is measured is stored in `measured.json` beside this file, with what it was
measured at, because so many runs are too many for a page. A page that trains one of
them can tell whether it gets what is stored.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import torch

from ctlearn.layers.model import LanguageModel
from ctlearn.train.contestants import CONTESTANTS, Shape
from ctlearn.train.evaluate import bits_by_place
from ctlearn.train.run import Run, learn
from ctlearn.train.text import Text

STORED = Path(__file__).with_name("measured.json")
RUN = Run(steps=120)
RATES = (3e-3, 6e-3, 1.2e-2, 2.4e-2)
TUNED_AT = 100  # the seed at which rates are chosen, and which is not counted
SEEDS = range(10)
# held-out text: so many stretches as long as those that are learned, and longer ones
STRETCHES, LONG, LONG_STRETCHES = 256, 1024, 16


class Measured(NamedTuple):
    """Bits a character at stretches as long as in training, and by place in long ones.

    `by_place` are means over octaves of places: the first 16, the next 16, the next 32.
    """

    bits: float
    by_place: list[float]


def trained(text: Text, shape: Shape, run: Run, show: Any = iter) -> LanguageModel:
    """A model whose weights and reading are set by the run's seed."""
    torch.manual_seed(run.seed)
    model = shape.build(len(text.alphabet))
    learn(model, text.learned, run, show=show)
    return model


def measure(model: LanguageModel, text: Text, run: Run) -> Measured:
    """A trained model on text that was held out."""
    short = bits_by_place(model, text.held_out, run.T, most=STRETCHES)
    long = bits_by_place(model, text.held_out, LONG, most=LONG_STRETCHES)
    return Measured(short.mean().item(), octaves(long.mean(0)))


def octaves(by_place: torch.Tensor, first: int = 16) -> list[float]:
    """Means over the first places, as many more, twice as many, and so on."""
    ends = [first]
    while ends[-1] < len(by_place):
        ends.append(min(2 * ends[-1], len(by_place)))
    starts = [0, *ends[:-1]]
    return [by_place[a:b].mean().item() for a, b in zip(starts, ends, strict=True)]


class Stored:
    """The table of measurements: runs by contestant, rate and seed.

    Raises ValueError if the file holds runs with other settings.
    """

    def __init__(
        self, file: Path = STORED, shape: Shape | None = None, run: Run | None = None
    ):
        shape, run = shape or Shape(), run or RUN
        self.file, self.shape, self.run = file, shape, run
        settings = {"shape": list(shape[1:]), "run": [run.steps, run.B, run.T]}
        self.held: dict[str, Any] = {"settings": settings, "runs": {}}
        if file.exists():
            self.held = json.loads(file.read_text(encoding="utf-8"))
            if self.held["settings"] != settings:
                raise ValueError(f"file: {file} was measured at other settings")

    def at(self, contestant: str, rate: float, seed: int) -> Measured:
        """One run.

        Raises KeyError if it is not stored.
        """
        return Measured(*self.held["runs"][contestant][f"{rate:g}"][str(seed)])

    def best_rate(self, contestant: str) -> float:
        """The rate at which it did best with the seed that rates are chosen at."""
        return min(RATES, key=lambda rate: self.at(contestant, rate, TUNED_AT).bits)

    def bits(self, contestant: str, seeds: Iterable[int] = SEEDS) -> list[float]:
        """Its bits a character at its best rate, seed by seed."""
        rate = self.best_rate(contestant)
        return [self.at(contestant, rate, seed).bits for seed in seeds]

    def by_place(self, contestant: str, seeds: Iterable[int] = SEEDS) -> list[list]:
        """Likewise its bits by place."""
        rate = self.best_rate(contestant)
        return [self.at(contestant, rate, seed).by_place for seed in seeds]

    def add(self, text: Text, contestant: str, rate: float, seed: int) -> Measured:
        """One run, made now unless it is stored, and stored."""
        row = self.held["runs"].setdefault(contestant, {}).setdefault(f"{rate:g}", {})
        if str(seed) not in row:
            run = self.run._replace(rate=rate, seed=seed)
            shape = self.shape._replace(contestant=contestant)
            row[str(seed)] = measure(trained(text, shape, run), text, run)
            words = json.dumps(self.held, indent=1)
            self.file.write_text(words + "\n", encoding="utf-8")
        return self.at(contestant, rate, seed)

    def fill(self, text: Text, seeds: Iterable[int] = SEEDS) -> Iterable[str]:
        """Make all runs that are not stored yet; a line for each."""
        for contestant in CONTESTANTS:
            for rate in RATES:
                found = self.add(text, contestant, rate, TUNED_AT)
                yield f"{contestant:26} rate {rate:<6g} {found.bits:.3f}"
        for seed in seeds:
            for contestant in CONTESTANTS:
                rate = self.best_rate(contestant)
                found = self.add(text, contestant, rate, seed)
                yield f"{contestant:26} seed {seed:<6} {found.bits:.3f}"
