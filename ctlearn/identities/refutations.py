"""What is often said of these memories, and is not so: exact small instances.

Two keys at an angle of cosine 3/5 are enough for most: k_1 = (1, 0), k_2 = (3/5, 4/5),
which have length 1.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ctlearn.identities.engine import STATEMENT, Sides, identity
from ctlearn.mixers import (
    delta_rule,
    linear_attention,
    mesa_net,
    sliding_window_attention,
    softmax_attention,
)
from ctlearn.printed import AsPrinted, Numbers
from ctlearn.supplies import Supply

Array = np.ndarray
WORLDS = ("rationals", "floats")
ANGLE, RIGHT = ((5, 0), (3, 4)), ((5, 0), (0, 5))


def _numbers(supply: Supply, rows: Any, divisor: int = 1) -> Array:
    """Whole numbers over one divisor, of the supply's own kind."""
    one = supply.real("one", 1)[0] ** 0
    return np.array(rows) * one / divisor


def _as_printed(numbers: Any) -> dict[str, AsPrinted]:
    return {STATEMENT: AsPrinted(numbers=numbers, worlds=WORLDS)}


def _answers(
    supply: Supply, form: Any, keys: Sequence[Any], values: Any, passes: int = 1
) -> tuple[Array, ...]:
    """Keys and values, the state after some passes over them, and its answers."""
    k, v = _numbers(supply, keys, 5), _numbers(supply, values)
    rates = {"beta": k[:, 0] ** 0} if form is delta_rule.recurrent else {}
    S = 0 * np.outer(k[0], v[0])
    for _ in range(passes):
        _, S = form(k, k, v, **rates, S=S)
    return k, v, S, k @ S


def _one_pass_numbers(supply: Supply) -> Numbers:
    k, v, S, _ = _answers(supply, delta_rule.recurrent, ANGLE, ((2, 0), (0, 1)))
    return Numbers({"k": k, "v": v, "S": S})


@identity(
    title="One pass of the delta rule does not recall d_k independent keys",
    kind="counterexample",
    statement=r"S^\top k_1 - v_1 = \begin{pmatrix} -18/25 \\ 3/5 \end{pmatrix}",
    source="ours; often said of d_k keys that need only be independent",
    citations=("yang2024deltanet",),
    worlds=WORLDS,
    printed=_as_printed(_one_pass_numbers),
    mutants={
        "keys at right angles": {"keys": RIGHT},
        "the key written last is asked": {"asked": 1},
        "the second value is what was answered": {"values": ((10, 0), (6, 0))},
    },
)
def one_pass(
    supply: Supply,
    *,
    keys: Sequence[Any] = ANGLE,
    asked: int = 0,
    values: Any = ((2, 0), (0, 1)),
) -> Sides:
    """The second write takes 3/5 of its error to the first key."""
    _, v, _, answers = _answers(supply, delta_rule.recurrent, keys, values)
    return answers[asked], v[asked]


def _capacity_numbers(supply: Supply) -> Numbers:
    keys = ((5, 0), (0, 5), (3, 4))
    k, v, S, _ = _answers(supply, delta_rule.recurrent, keys, np.eye(3, dtype=int), 4)
    return Numbers({"k": k, "v": v, "S": S})


@identity(
    title="The delta rule holds no more independent pairs than linear attention: d_k",
    kind="counterexample",
    statement=r"S^\top k_3 = \frac{3}{5} S^\top k_1 + \frac{4}{5} S^\top k_2",
    source="ours; against 'the delta rule stores d_k times more'",
    citations=("schlag2021", "zhou2026beyond"),
    worlds=WORLDS,
    printed=_as_printed(_capacity_numbers),
    mutants={
        "the third pair is left out": {"pairs": 2},
        "the third value is as dependent as its key": {"value": (15, 20, 0)},
        "a third key channel": {"third": 4},
    },
)
def capacity(
    supply: Supply,
    *,
    pairs: int = 3,
    value: Sequence[int] = (0, 0, 25),
    third: int = 0,
) -> dict[str, Sides]:
    """Whatever wrote the state, a third answer in the plane is made of the other two.

    Even after four passes. With a third channel the third key is put at right angles.
    """
    keys = [(5, 0, 0), (0, 5, 0), (0, 0, 5) if third else (3, 4, 0)][:pairs]
    values = [(25, 0, 0), (0, 25, 0), value][:pairs]
    sides = {}
    for mixer in (delta_rule, linear_attention):
        passes = 4 if mixer is delta_rule else 1
        _, v, _, answers = _answers(supply, mixer.recurrent, keys, values, passes)
        sides[mixer.MECHANISM.name] = answers, v
    return sides


def _scores(supply: Supply) -> tuple[Array, ...]:
    """A query at right angles to both keys."""
    one = _numbers(supply, np.eye(3, dtype=int))
    return one[2], one[:2], _numbers(supply, ((1,), (3,)))


def _exponential_numbers(supply: Supply) -> Numbers:
    """A query that is the first key, and so has scores of 1 and 0."""
    _, k, _ = _scores(supply)
    return Numbers({"q": k[0], "k": k, "v": _numbers(supply, (2, 5))})


@identity(
    title="Linear attention is not softmax attention with the exponential dropped",
    kind="counterexample",
    statement=r"\frac{1}{\sum_{j=1}^{2} \exp(q^\top k_j)}"
    r" \sum_{j=1}^{2} \exp(q^\top k_j) v_j = \frac{2 \exp(1) + 5}{\exp(1) + 1}, \qquad"
    r" \sum_{j=1}^{2} (q^\top k_j) v_j = 2",
    source="ours; zhou2026beyond warns of it",
    citations=("zhou2026beyond", "katharopoulos2020"),
    worlds=WORLDS,
    printed=_as_printed(_exponential_numbers),
    mutants={
        "the features of 1 + q'k, and their sum divided by": {"first_order": True},
        "values that cancel": {"last": -1},
        "nothing is stored": {"last": 0, "first": 0},
    },
)
def dropped_exponential(
    supply: Supply, *, first_order: bool = False, first: int = 1, last: int = 3
) -> Sides:
    """Where no key is like the query one answers with the mean, the other with zero."""
    q, k, _ = _scores(supply)
    v = _numbers(supply, ((first,), (last,)))
    asked = np.stack([q, q])
    o, _ = softmax_attention.recurrent(asked, k, v)
    linear, _ = linear_attention.recurrent(asked, k, v)
    if first_order:
        weights = 1 + k @ q
        return o[-1], weights @ v / weights.sum()
    return o[-1], linear[-1]


def _longer_numbers(supply: Supply) -> Numbers:
    values = ((1, 2), (1, 3))
    k, v, S, _ = _answers(supply, linear_attention.recurrent, ANGLE, values)
    return Numbers({"k": k, "v": v, "S": S})


@identity(
    title="A longer context can hurt a fixed state: one more pair moves an old answer",
    kind="counterexample",
    statement=r"S^\top k_1 = v_1 + \frac{3}{5} v_2",
    source="ours; mcdermott2026 and zhou2026beyond on bounded states",
    citations=("mcdermott2026", "zhou2026beyond"),
    worlds=WORLDS,
    printed=_as_printed(_longer_numbers),
    mutants={
        "the new key is at a right angle": {"keys": RIGHT},
        "the new pair is worth nothing": {"second": 0},
        "nothing new is read": {"read": 1},
    },
)
def longer_context(
    supply: Supply, *, keys: Sequence[Any] = ANGLE, second: int = 1, read: int = 2
) -> Sides:
    """Before it was read the answer was exact; after it, it is off by 3/5 of v_2."""
    pairs = keys[:read], ((1, 2), (second, 3 * second))[:read]
    _, v, _, answers = _answers(supply, linear_attention.recurrent, *pairs)
    return answers[0], v[0]


def _normalised_numbers(supply: Supply) -> Numbers:
    values = ((2, 0), (0, 1))
    _, v, _, answers = _answers(supply, linear_attention.recurrent, ANGLE, values)
    return Numbers({"o": answers[0], "v": v})


@identity(
    title="Normalising an answer does not make it the value that was stored",
    kind="counterexample",
    statement=r"\frac{(o^\top v_1)^2}{(o^\top o) (v_1^\top v_1)} = \frac{100}{109}",
    source="ours; output norms follow every such layer",
    citations=("yang2025gated",),
    worlds=WORLDS,
    printed=_as_printed(_normalised_numbers),
    mutants={
        "keys at right angles": {"keys": RIGHT},
        "both values point one way": {"values": ((1, 0), (2, 0))},
        "an answer of any direction": {"along": 0},
    },
)
def normalised_answer(
    supply: Supply,
    *,
    keys: Sequence[Any] = ANGLE,
    values: Any = ((2, 0), (0, 1)),
    along: int = 1,
) -> Sides:
    """The squared cosine of answer and value: a norm takes lengths, no direction."""
    _, v, _, answers = _answers(supply, linear_attention.recurrent, keys, values)
    o = answers[0]
    cosine = (o @ v[0]) ** 2 / ((o @ o) * (v[0] @ v[0]))
    return np.asarray(cosine**along), np.asarray(cosine**0)


def _unit_recall(supply: Supply, N: int, scale: int) -> Array:
    """What N keys at right angles, of length 1, answer at the first: one-hot values."""
    k = _numbers(supply, np.eye(N, dtype=int))
    o, _ = softmax_attention.recurrent(k[:1].repeat(N, axis=0) * scale / 2, k, k)
    return o[-1, 0]


def _unit_numbers(supply: Supply) -> Numbers:
    return Numbers({"o": _unit_recall(supply, 4, 1)})


@identity(
    title="With keys of length 1 and the usual scale softmax attention does not recall",
    kind="counterexample",
    statement=r"o = \frac{\exp(1/2)}{\exp(1/2) + 3}",
    source="ours; against 'a cache recalls every pair'",
    citations=("vaswani2017",),
    worlds=WORLDS,
    printed=_as_printed(_unit_numbers),
    mutants={
        "a single pair": {"N": 1},
        "scores a hundred times as large": {"scale": 100},
    },
)
def unit_keys(supply: Supply, *, N: int = 4, scale: int = 1) -> Sides:
    """Four pairs, d_k = 4: 0.355 of the value asked for. Scores lie in [-1/2, 1/2]."""
    answer = np.asarray(_unit_recall(supply, N, scale))
    return answer, answer**0


def _bound_twice(supply: Supply, first: int) -> dict[str, Array]:
    """One key, bound to a value and then to 5."""
    one = _numbers(supply, ((1,), (1,)))
    v = _numbers(supply, ((first,), (5,)))
    return {"q": one, "k": one, "v": v, "beta": one[:, 0]}


def _mesa_answer(x: dict[str, Array]) -> Array:
    nothing = {"log_decay": 0 * x["beta"], "ridges": x["beta"][:1]}
    return mesa_net.recurrent(**x, **nothing)[0][-1]


def _rebound_numbers(supply: Supply) -> Numbers:
    x = _bound_twice(supply, 3)
    return Numbers({"o": _mesa_answer(x), "v": x["v"], r"\lambda": x["beta"][0]})


@identity(
    title="The best fit to all of a context is not what was said last",
    kind="counterexample",
    statement=r"o = \frac{v_1 + v_2}{2 + \lambda}",
    source="ours; on 'better optimisers recall better', as mcdermott2026, section 5",
    citations=("vonoswald2025mesanet", "mcdermott2026"),
    worlds=WORLDS,
    printed=_as_printed(_rebound_numbers),
    mutants={
        "the delta rule, which has seen less of it": {"solved": False},
        "a first value that makes up for the ridge": {"first": 10},
    },
)
def rebound_key(supply: Supply, *, solved: bool = True, first: int = 3) -> Sides:
    """A key bound to 3 and then to 5: MesaNet without decay averages them."""
    x = _bound_twice(supply, first)
    answer = _mesa_answer(x) if solved else delta_rule.recurrent(**x)[0][-1]
    return answer, x["v"][-1]


@identity(
    title="L layers of windows of w see L (w - 1) + 1 tokens, not L w",
    statement=r"w = 3, \; L = 2: \quad o_t \text{ depends on tokens } t - 4, \dots, t"
    r" \text{ alone}",
    source="ours; a window counts the token itself",
    citations=("beltagy2020",),
    worlds=("floats",),
    mutants={
        "a token nearer": {"nearest": 4},
        "a window of one token more": {"window": 4},
        "a third layer": {"layers": 3},
    },
    at={"floats": {"T": 12}},
)
def stacked_windows(
    supply: Supply,
    T: int,
    d: int,
    *,
    nearest: int = 5,
    window: int = 3,
    layers: int = 2,
) -> Sides:
    """All tokens from that distance on are others, and the last output is the same."""

    def last(x: Array) -> Array:
        for _ in range(layers):
            x, _ = sliding_window_attention.recurrent(x, x, x, window=window)
        return x[-1]

    # small scores, for a token that nobody looks at would hide a window too wide
    x = supply.real("x", T, d) / 4
    other = x.copy()
    other[: T - nearest] = supply.real("u", T - nearest, d) / 4
    return last(x), last(other)
