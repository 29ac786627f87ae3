"""Fingerprints: what a mechanism's place says of its answers, asked from outside.

A question changes the inputs of a mechanism and looks at its last answer alone. The
cell of the design space foretells the reply, or has nothing to say about it. So a place
is no opinion: a mechanism that is put into a cell where it does not belong is seen.

questions add up   two queries' answers add up to that of their sum
values add up      two sets of values do, counted from the answer to no values
pairs are strangers  what a pair contributes is the same whatever the other keys are
order is nothing   the past may be told in any order
rest is rest       a token with no key and no value changes nothing, if nothing fades
keys may turn      keys and queries, turned together, leave every answer as it is
the old is gone    the first pair may be any other one
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ctlearn import composed
from ctlearn.composed import Choices
from ctlearn.mechanism import CHOICES, Cell, Inputs, Mechanism, Place
from ctlearn.shapes import GLOSSARY
from ctlearn.supplies import Floats

T, D_K, D_V = 13, 4, 3
# Rounding is some 1e-15 of an answer. What a question changes, where it changes
# anything, is more than a millionth of what it is compared with.
_ROUNDING, _SAME = 1e-13, 1e-6
_LINEAR = ("linear map", "bank of linear maps")
# Optimisers by which a step is turned and stretched as the keys so far have it.
_MOMENTS = ("preconditioned step", "closed form")


@dataclass(frozen=True, kw_only=True)
class Question:
    """One question: of which axis it speaks, how it is asked, what a cell foretells.

    `ask` returns whether the reply is yes, or None where the mechanism lacks what would
    have to be changed; `foretold` may be None as well.
    """

    axis: str
    words: str
    ask: Callable[[Mechanism, int], bool | None]
    foretold: Callable[[Cell], bool | None]


def _last(mechanism: Mechanism, inputs: Inputs) -> np.ndarray:
    """The last answer, from the start."""
    S = mechanism.start and mechanism.start(Floats(0), D_K, D_V)
    with np.errstate(all="ignore"):
        return mechanism.forms["recurrent"](**inputs, S=S)[0][-1]


def _draw(mechanism: Mechanism, seed: int) -> Inputs:
    """Inputs as declared, but slow to fade, with short mini-batches and long windows.

    So that in so few tokens every mini-batch is learned from, and nothing is forgotten
    that is not let go. Values are small and queries large, so that a loss which caps
    errors lets some pass, and a ratio is above its floor.
    """
    x = mechanism.draw(Floats(seed), T, D_K, D_V)
    x |= {name: x[name] / 8 for name in x if _role(name) == "decay" or name == "v"}
    x["q"] = 4 * x["q"]
    sizes = {"inner_batch": 3, "window": 7}
    return x | {name: size for name, size in sizes.items() if name in x}


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    size = max(np.abs(a).max(), np.abs(b).max())
    return bool(np.abs(a - b).max() <= _ROUNDING + _SAME * size)


def _questions_add_up(mechanism: Mechanism, seed: int) -> bool:
    x, other = _draw(mechanism, seed), _draw(mechanism, seed + 1)["q"]
    return _add_up(lambda q: _last(mechanism, x | {"q": q}), x["q"], other)


def _values_add_up(mechanism: Mechanism, seed: int) -> bool:
    x, other = _draw(mechanism, seed), _draw(mechanism, seed + 1)["v"]
    return _add_up(lambda v: _last(mechanism, x | {"v": v}), x["v"], other)


def _add_up(ask: Callable[[np.ndarray], np.ndarray], a: Any, b: Any) -> bool:
    """Whether replies add up, counted from the reply to nothing."""
    return _same(ask(a) + ask(b), ask(a + b) + ask(0 * a))


def _pairs_are_strangers(mechanism: Mechanism, seed: int) -> bool | None:
    if "k" not in mechanism.by_token:
        return None
    x = _draw(mechanism, seed)
    # in different mini-batches, which the last token sees learned
    earlier, pair, later = 3, 6, 9
    without, moved = x["v"].copy(), {}
    without[pair] = 0
    for name, y in _draw(mechanism, seed + 1).items():
        if name in mechanism.by_token and _role(name) in ("key", "error"):
            # what a mechanism compares with is made of the key, in every layer
            moved[name] = x[name].copy()
            moved[name][[earlier, later]] = y[[earlier, later]]
    one, other = (
        _last(mechanism, x | keys) - _last(mechanism, x | keys | {"v": without})
        for keys in ({}, moved)
    )
    return _same(one, other)


def _order_is_nothing(mechanism: Mechanism, seed: int) -> bool:
    x = _draw(mechanism, seed)
    order = [*np.random.default_rng(0).permutation(T - 1), T - 1]
    return _same(_last(mechanism, x), _last(mechanism, mechanism.rows(x, order)))


def _rest_is_rest(mechanism: Mechanism, seed: int) -> bool | None:
    if "k" not in mechanism.by_token:
        return None
    x = _draw(mechanism, seed)
    # nothing fades, and nothing turns: an angle is the phase of a rate
    x |= {name: 0 * x[name] for name in x if _role(name) == "decay" or name == "angle"}
    rows = [*range(T), *[T - 1] * 3]
    rested = mechanism.rows(x, rows)
    for name in mechanism.by_token & {"k", "v", "kappa"}:
        rested[name][T:] = 0
    return _same(_last(mechanism, x), _last(mechanism, rested))


def _keys_may_turn(mechanism: Mechanism, seed: int) -> bool | None:
    if "k" not in mechanism.by_token or mechanism.start is not None:
        return None
    x = _draw(mechanism, seed)
    turn = np.linalg.qr(Floats(seed).real("R", D_K, D_K))[0]
    turned = {}
    for name in mechanism.inputs:
        shape = mechanism.shape(name)
        if _role(name) in ("query", "key", "error") and shape[-1] == "d_k":
            turned[name] = x[name] @ turn
        elif _role(name) == "state":
            turned[name] = turn.T @ x[name]
        elif shape == ("d_k",):
            # that channels may have constants of their own is a setting, not a place
            x[name] = np.full_like(x[name], x[name].mean())
    return _same(_last(mechanism, x), _last(mechanism, x | turned))


def _the_old_is_gone(mechanism: Mechanism, seed: int) -> bool:
    x, other = _draw(mechanism, seed), _draw(mechanism, seed + 1)
    changed = {
        name: x[name].copy() for name in ("k", "v") if name in mechanism.by_token
    }
    for name, array in changed.items():
        array[0] = other[name][0]
    return _same(_last(mechanism, x), _last(mechanism, x | changed))


def _role(name: str) -> str:
    return GLOSSARY[name].role if name in GLOSSARY else ""


QUESTIONS = {
    "questions add up": Question(
        axis="function class",
        words="Do the answers to two queries add up?",
        ask=_questions_add_up,
        foretold=lambda c: c.function_class in _LINEAR,
    ),
    "values add up": Question(
        axis="objective",
        words="Do the answers to two sets of values add up?",
        ask=_values_add_up,
        foretold=lambda c: (
            c.function_class != "network"
            and c.objective != "another loss"
            and c.control not in ("size", "selection")
        ),
    ),
    "pairs are strangers": Question(
        axis="objective",
        words="Does a pair count the same whatever the other keys are?",
        ask=_pairs_are_strangers,
        foretold=lambda c: (
            c.function_class in (*_LINEAR, "linear map of features")
            and (
                (c.objective == "dot product" and c.optimiser not in _MOMENTS)
                or _at_once(c)
            )
        ),
    ),
    "order is nothing": Question(
        axis="schedule",
        words="May the past be told in any order?",
        ask=_order_is_nothing,
        foretold=lambda c: (
            c.control == "none"
            and (
                (c.objective == "dot product" and _once_each(c))
                or c.schedule == "whole history"
            )
        ),
    ),
    "rest is rest": Question(
        axis="optimiser",
        words="Does an empty token change nothing?",
        ask=_rest_is_rest,
        foretold=lambda c: (
            c.optimiser != "momentum" and c.schedule != "window"
            if c.function_class == "linear map" and c.control != "size"
            else None
        ),
    ),
    "keys may turn": Question(
        axis="control",
        words="May keys and queries be turned together?",
        ask=_keys_may_turn,
        foretold=lambda c: (
            None
            if c.function_class in ("ratio of linear maps", "linear map of features")
            or c.optimiser == "preconditioned step"
            else c.control in ("none", "one rate", "eviction", "selection")
        ),
    ),
    "the old is gone": Question(
        axis="control",
        words="Is the first pair gone without a trace?",
        ask=_the_old_is_gone,
        foretold=lambda c: c.control == "eviction",
    ),
}


def _at_once(cell: Cell) -> bool:
    """Whether all pairs are compared with one and the same state, once."""
    return cell.optimiser == "one step" and cell.schedule == "whole history"


def _once_each(cell: Cell) -> bool:
    """Whether every pair is looked at once, and its step is over with its token."""
    return cell.schedule != "window" and cell.optimiser not in ("momentum", *_MOMENTS)


def fingerprint(mechanism: Mechanism, seed: int = 1) -> dict[str, bool | None]:
    """The replies of a mechanism as declared, by the names of the questions."""
    return {name: question.ask(mechanism, seed) for name, question in QUESTIONS.items()}


def foretold(mechanism: Mechanism) -> dict[str, bool | None]:
    """What its place says the replies will be; nothing of a hybrid's."""
    place = mechanism.place
    if place.beside is not None:
        return dict.fromkeys(QUESTIONS)
    return {name: question.foretold(place.cell) for name, question in QUESTIONS.items()}


_COMPOSED = {"q": "real", "k": "unit", "v": "real", "log_gamma": "log_decay"}


@dataclass(frozen=True, kw_only=True)
class Composed(Mechanism):
    """A composed memory with the place that its choices have, so that it can be asked.

    Its rate is one at which a Newton step ends at a minimum and no other step runs
    away, and its values are of a length at which a cap cuts some errors and not others.
    """

    module: str = composed.__name__
    title: str = "Composed memory"
    citations: tuple[str, ...] = ()
    inputs: Mapping[str, str] = field(default_factory=lambda: dict(_COMPOSED))
    choices: Choices

    @classmethod
    def of(cls, choices: Choices) -> "Composed":
        """The memory of these choices, in its cell."""
        words: dict[str, Any] = choices._asdict()
        place = Place(cell=choices.cell, **words, state="d_k * d_v")
        return cls(choices=choices, place=place)

    @property
    def forms(self) -> dict[str, Callable]:
        """Its one form."""
        return {"recurrent": self._answers}

    def _answers(self, q: Any, k: Any, v: Any, log_gamma: Any, S: Any = None) -> Any:
        beta = 1.0 if self.choices.optimiser == "newton" else 0.3
        keep = np.exp(log_gamma)
        return composed.run(q, k, 4 * v, self.choices, keep=keep, beta=beta), S


def noticed(every: Iterable[Mechanism]) -> dict[str, tuple[int, int]]:
    """Of all ways to put a mechanism wrong along one axis, how many are noticed.

    By axis: the number of wrong words at which a reply is not the one foretold, and the
    number of wrong words. Hybrids, of which nothing is foretold, are left out.
    """
    counts = dict.fromkeys(CHOICES, (0, 0))
    for mechanism in every:
        cell = mechanism.place.cell
        if mechanism.place.beside is not None:
            continue
        replies = fingerprint(mechanism)
        for axis, words in CHOICES.items():
            for word in set(words) - {getattr(cell, axis)}:
                change: Any = {axis: word}
                moved = replace(cell, **change)
                told = {name: x.foretold(moved) for name, x in QUESTIONS.items()}
                seen, tried = counts[axis]
                counts[axis] = seen + bool(_apart(replies, told)), tried + 1
    return counts


def _apart(replies: dict[str, bool | None], told: dict[str, bool | None]) -> list[str]:
    """The questions whose reply is there, and foretold, and not the one foretold."""
    return [n for n, x in replies.items() if None not in (x, told[n]) and x != told[n]]


def slips(mechanism: Mechanism, seed: int = 1) -> list[str]:
    """The questions that are answered otherwise than its place foretells."""
    return _apart(fingerprint(mechanism, seed), foretold(mechanism))
