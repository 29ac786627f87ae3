"""Softmax attention: a mean of what was kept, and when the mean is a lookup."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np

from ctlearn import cost
from ctlearn.identities.engine import Sides, identity
from ctlearn.mixers import softmax_attention
from ctlearn.mixers.softmax_attention import RunningMean
from ctlearn.printed import AsPrinted, Numbers, Rows
from ctlearn.scalars import exp, is_exact, log
from ctlearn.supplies import Supply

CHAPTER = "01_two_ways_to_remember"


def _read(scores: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The reference's answer [d_v] to the last query, given its scores [T]."""
    # a query of one and keys that are the scores
    ones = np.ones((len(v), 1), dtype=v.dtype)
    return softmax_attention.parallel(ones, scores[:, None], v)[0][-1]


def _mean(above: np.ndarray, below: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Mean of the values under weights that may differ above and below the line."""
    return above @ v / below.sum()


def _log_weights(supply: Supply, name: str, n: int) -> np.ndarray:
    """Scores whose exponentials are rational wherever numbers are exact."""
    return log(supply.positive(name, n))


def _printed_scores(supply: Supply, T: int, d_v: int) -> Numbers:
    """Scores and values, a number to shift by, and what the package sums of them."""
    s, v = _log_weights(supply, "w", T), supply.real("v", T, d_v)
    means = [supply.real("u", d_v), *(_read(s[:t], v[:t]) for t in range(1, T + 1))]
    sums = [RunningMean(s[0] - s[0] - 9, 0 * s[0], 0 * v[:1])]
    sums += [sums[0].absorb(s[None, :t], v[:t]) for t in range(1, T + 1)]
    letters = {
        "s": s,
        "v": v,
        "c": supply.positive("c", 1)[0],
        r"\bar{v}": Rows(np.array(means), first=0),
        "m": Rows(np.array([np.ravel(x.largest)[0] for x in sums]), first=0),
        r"\ell": Rows(np.array([np.ravel(x.weight)[0] for x in sums]), first=0),
        "r": Rows(np.array([x.total[0] for x in sums]), first=0),
    }
    return Numbers(letters, {"t": range(1, T + 1), "j": range(1, T + 1)})


SCORES = AsPrinted(numbers=_printed_scores, at={"symbols": {"T": 3, "d_v": 2}})


@identity(
    title="A softmax does not see a number that is taken from every score",
    statement=r"\frac{\sum_{j=1}^{t} \exp(s_j - c) v_j}{\sum_{j=1}^{t} \exp(s_j - c)}"
    r" = \frac{\sum_{j=1}^{t} \exp(s_j) v_j}{\sum_{j=1}^{t} \exp(s_j)}",
    source="milakov2018, eq. 2",
    citations=("milakov2018",),
    equations=("eq-shift-invariance",),
    printed={"eq-shift-invariance": SCORES},
    chapter=CHAPTER,
    mutants={
        "the first score is not shifted": {"spared": 1},
        "shifted above the line alone": {"below": False},
        "divided instead of subtracted": {"divide": True},
    },
)
def shift_invariance(
    supply: Supply,
    T: int,
    d_v: int,
    *,
    spared: int = 0,
    below: bool = True,
    divide: bool = False,
) -> Sides:
    """The definition with shifted scores, and the reference without."""
    s, v = _log_weights(supply, "w", T), supply.real("v", T, d_v)
    c = supply.positive("c", 1)[0]
    shifted = s / (c + 1) if divide else s - c
    shifted[:spared] = s[:spared]
    weights = exp(shifted)
    return _mean(weights, weights if below else exp(s), v), _read(s, v)


def _absorb(m: Any, state: tuple, m_new: Any, s: Any, v: np.ndarray) -> tuple:
    """One step of the streaming softmax, with any number for its new shift."""
    weight, total = state
    return (
        exp(m - m_new) * weight + exp(s - m_new),
        exp(m - m_new) * total + exp(s - m_new) * v,
    )


@identity(
    title="Streaming: rescaled sums give the mean, whatever they are relative to",
    statement=r"\frac{r_t}{\ell_t} ="
    r" \frac{\sum_{j=1}^{t} \exp(s_j) v_j}{\sum_{j=1}^{t} \exp(s_j)}",
    source="milakov2018, algorithm 3",
    citations=("milakov2018", "dao2022"),
    equations=("eq-streaming-softmax", "def-streaming-softmax"),
    printed={
        "eq-streaming-softmax": replace(SCORES, worlds=("rationals", "floats")),
        # the largest score is a matter of floats: exact numbers are not shifted
        "def-streaming-softmax": replace(
            SCORES,
            worlds=("floats",),
            equivalent=dict.fromkeys(
                ("-1 → nothing (line 2, column 17)", "s → m (line 2, column 22)"),
                "m_t is the largest of them, so the line still holds of it",
            ),
        ),
    },
    chapter=CHAPTER,
    mutants={
        "the old total is not rescaled": {"rescale_total": False},
        "the old weight is not rescaled": {"rescale_weight": False},
        "the new item is relative to the old shift": {"old_shift": True},
    },
)
def streaming(
    supply: Supply,
    d_v: int,
    *,
    rescale_total: bool = True,
    rescale_weight: bool = True,
    old_shift: bool = False,
) -> dict[str, Sides]:
    """Sums over everything so far are arbitrary; one step keeps what they mean."""
    m, m_new, s = (_log_weights(supply, name, 1)[0] for name in ("m", "m_new", "s"))
    v, summed = supply.real("v", d_v), supply.real("R", d_v)
    weighed = supply.positive("W", 1)[0]
    before = (weighed * exp(-m), summed * exp(-m))
    weight, total = _absorb(m, before, m_new, s, v)
    if not rescale_total:
        total = before[1] + exp(s - m_new) * v
    if not rescale_weight:
        weight = before[0] + exp(s - m_new)
    if old_shift:
        weight, total = _absorb(m, before, m, s, v)
    right = np.append(summed + exp(s) * v, weighed + exp(s)) * exp(-m_new)
    first = _absorb(0, (0, 0 * v), m_new, s, v)
    return {
        "base": (first[1] / first[0], v),
        "step": (np.append(total, weight), right),
    }


@identity(
    title="The reference's blocks of any size give the mean over all",
    statement=r"\frac{r_t}{\ell_t} = o_t",
    source="dao2022, algorithm 1, for one block of queries",
    citations=("milakov2018", "dao2022"),
    chapter=CHAPTER,
    mutants={
        "a block is lost": {"skip": True},
        "the old sums are not rescaled": {"rescale": False},
        "the blocks' own means are averaged": {"average": True},
    },
    at={"floats": {"T": 100}},
)
def blocks(
    supply: Supply,
    T: int,
    d_v: int,
    *,
    skip: bool = False,
    rescale: bool = True,
    average: bool = False,
) -> Sides:
    """Two blocks absorbed by `RunningMean`, the first relative to another shift."""
    s, v = _log_weights(supply, "w", T), supply.real("v", T, d_v)
    cut = 1 if T < 3 else T // 3
    first = RunningMean(0, 0, 0).absorb(s[None, :cut], v[:cut])
    # what exact numbers, which are never shifted, would not exercise
    offset = log(supply.positive("m", 1))
    first = RunningMean(
        first.largest - offset, first.weight * exp(offset), first.total * exp(offset)
    )
    if not rescale:
        first = first._replace(largest=first.largest + offset)
    if is_exact(s):
        # symbols have no larger one: the second block keeps the first's shift
        both = _follow(first, s[cut:], v[cut:], skip=skip)
    else:
        both = first if skip else first.absorb(s[None, cut:], v[cut:])
    answer = both.read()[0]
    if average:
        answer = (first.read()[0] + _read(s[cut:], v[cut:])) / 2
    return answer, _read(s, v)


def _follow(
    mean: RunningMean, scores: np.ndarray, v: np.ndarray, *, skip: bool
) -> RunningMean:
    """Absorb a block relative to a shift of zero, in exact numbers."""
    weights = 0 * exp(scores) if skip else exp(scores)
    rescale = exp(mean.largest)
    return RunningMean(
        0 * mean.largest,
        rescale * mean.weight + weights.sum(),
        rescale[:, None] * mean.total + weights @ v,
    )


@identity(
    title="Summaries merge: the grouping does not matter",
    statement=r"(a \oplus b) \oplus c = a \oplus (b \oplus c)",
    source="ours; dao2022 uses it for two blocks",
    citations=("dao2022",),
    chapter=CHAPTER,
    mutants={
        "one side is not rescaled": {"rescale": False},
        "weights are averaged": {"half": True},
        "the last summary is lost": {"lost": True},
    },
)
def merge(
    supply: Supply,
    d_v: int,
    *,
    rescale: bool = True,
    half: bool = False,
    lost: bool = False,
) -> Sides:
    """Three arbitrary summaries (shift, weight, total), merged in two groupings."""
    shifts = _log_weights(supply, "m", 4)
    weights = supply.positive("l", 3)
    totals = supply.real("r", 3, d_v)
    a, b, c = zip(shifts, weights, totals, strict=False)

    def join(x: tuple, y: tuple, shift: Any) -> tuple:
        from_x = exp(x[0] - shift) if rescale else 1
        from_y = exp(y[0] - shift)
        weight = (from_x * x[1] + from_y * y[1]) / (2 if half else 1)
        return shift, weight, from_x * x[2] + from_y * y[2]

    left = join(join(a, b, shifts[3]), c, shifts[0])
    right = join(a, b if lost else join(b, c, shifts[2]), shifts[0])
    return np.append(left[2], left[1]), np.append(right[2], right[1])


@identity(
    title="A softmax read is a running mean: a step along an error",
    statement=r"\bar{v}_t = \bar{v}_{t-1} +"
    r" \frac{\exp(s_t)}{\sum_{j=1}^{t} \exp(s_j)} (v_t - \bar{v}_{t-1})",
    source="ours",
    equations=("eq-running-mean",),
    printed={"eq-running-mean": SCORES},
    chapter=CHAPTER,
    mutants={
        "the weight leaves out the new item": {"without_new": True},
        "the step goes away from the value": {"sign": -1},
        "the new value is added whole": {"error": False},
    },
)
def running_mean(
    supply: Supply,
    d_v: int,
    *,
    without_new: bool = False,
    sign: int = 1,
    error: bool = True,
) -> dict[str, Sides]:
    """From arbitrary sums over the past; at the start the past weighs nothing."""
    s = _log_weights(supply, "w", 1)[0]
    v, summed = supply.real("v", d_v), supply.real("R", d_v)
    weighed = supply.positive("W", 1)[0]

    def moved(mean: np.ndarray, weight: Any) -> np.ndarray:
        rate = sign * exp(s) / (weight if without_new else weight + exp(s))
        return mean + rate * (v - (mean if error else 0))

    after = (summed + exp(s) * v) / (weighed + exp(s))
    start = exp(s) if without_new else 0
    return {
        "base": (moved(0 * v, start), v),
        "step": (moved(summed / weighed, weighed), after),
    }


def _printed_limit(supply: Supply, T: int, d_v: int) -> Numbers:
    """Scores that are numbers themselves, the first the highest, and the last token."""
    s, v = supply.real("s", T), supply.real("v", T, d_v)
    if supply.world != "symbols":
        s[0] = s[1:].max() + 1
    return Numbers({"s": s, "v": v, "t": T, "i": 1}, {"j": range(1, T + 1)})


LIMIT = AsPrinted(
    numbers=_printed_limit, worlds=("rationals",), at={"rationals": {"T": 3}}
)


@identity(
    title="Sharper and sharper, the mean becomes a lookup",
    kind="limit",
    statement=r"\lim_{\tau \to \infty} \frac{\sum_{j=1}^{t} \exp(\tau s_j) v_j}"
    r"{\sum_{j=1}^{t} \exp(\tau s_j)} = v_i",
    source="ours",
    equations=("eq-hard-lookup",),
    printed={
        "eq-hard-lookup": replace(
            LIMIT,
            equivalent=dict.fromkeys(
                ("t → i (line 1, column 42)", "t → i (line 1, column 77)"),
                "a sum that ends with item i still holds the one that wins",
            ),
        )
    },
    chapter=CHAPTER,
    mutants={
        "the smallest score wins": {"sign": -1},
        "another item has the same score": {"twin": True},
        "the scale stays at one": {"reached": False},
    },
    at={"symbols": {"T": 3}},
)
def hard_lookup(
    supply: Supply,
    T: int,
    d_v: int,
    *,
    sign: int = 1,
    twin: bool = False,
    reached: bool = True,
) -> Sides:
    """The first item leads the others by positive gaps."""
    gaps = supply.positive("g", T)
    if not is_exact(gaps):
        gaps = gaps + 0.01
    gaps[0] = 0 * gaps[0]
    if twin:
        gaps[1] = gaps[0]
    v = supply.real("v", T, d_v)
    if not reached:
        return _read(-gaps, v), v[0]
    return _at_the_end(-sign * gaps, v), v[0]


def _at_the_end(scores: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The read as its scale goes to infinity; floats take a scale of a million."""
    if not is_exact(scores):
        return _read(1e6 * scores, v)
    import sympy

    # x = exp(-scale) goes to zero, and a quotient of powers of x has a plain limit
    x = sympy.Symbol("x", positive=True)
    lowest = max(scores, key=lambda s: sympy.S(s).subs(_ones(s)))
    powers = np.array([x ** (lowest - s) for s in scores], dtype=object)
    return np.array([_limit(c, x) for c in powers @ v / powers.sum()], dtype=object)


def _ones(s: Any) -> dict:
    """A point at which symbols can be compared."""
    return dict.fromkeys(s.free_symbols, 1) if hasattr(s, "free_symbols") else {}


def _limit(quotient: Any, x: Any) -> Any:
    import sympy

    return sympy.limit(quotient, x, 0, "+")


@identity(
    title="Flatter and flatter, every question gets the plain mean",
    kind="limit",
    statement=r"\lim_{\tau \to 0} \frac{\sum_{j=1}^{t} \exp(\tau s_j) v_j}"
    r"{\sum_{j=1}^{t} \exp(\tau s_j)} = \frac{1}{t} \sum_{j=1}^{t} v_j",
    source="ours",
    equations=("eq-flat-read",),
    printed={
        "eq-flat-read": replace(
            LIMIT,
            equivalent=dict.fromkeys(
                (
                    r"\exp(\tau s_j) → nothing (line 1, column 40)",
                    "s_j → nothing (line 1, column 50)",
                    "s_j → nothing (line 1, column 85)",
                ),
                "at scale zero every weight is one",
            ),
        )
    },
    chapter=CHAPTER,
    mutants={
        "the scale stays at one": {"reached": False},
        "the sum in place of the mean": {"divide": False},
        "the first item is left out": {"first": 1},
    },
)
def flat_read(
    supply: Supply,
    T: int,
    d_v: int,
    *,
    reached: bool = True,
    divide: bool = True,
    first: int = 0,
) -> Sides:
    """At scale zero, where the read is continuous, and the mean of the values."""
    s, v = supply.real("s", T), supply.real("v", T, d_v)
    right = v[first:].sum(axis=0) / ((T - first) if divide else 1)
    return _read(0 * s if reached else s, v), right


def _printed_twins(supply: Supply, d_v: int) -> Numbers:
    """One score, and the values of two items that have it."""
    return Numbers({"s": supply.real("s", 1)[0], "v": supply.real("v", 2, d_v)})


@identity(
    title="Two items with one key are answered by the point between them",
    statement=r"\frac{\exp(s) v_1 + \exp(s) v_2}{\exp(s) + \exp(s)}"
    r" = \frac{v_1 + v_2}{2}",
    source="ours",
    equations=("eq-twin-keys",),
    printed={"eq-twin-keys": AsPrinted(numbers=_printed_twins)},
    chapter=CHAPTER,
    mutants={
        "the second key is another": {"other": True},
        "the latest value is the answer": {"latest": True},
        "the values are added": {"half": False},
    },
)
def twin_keys(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    other: bool = False,
    latest: bool = False,
    half: bool = True,
) -> Sides:
    """Softmax attention after two writes at one key, whatever the query."""
    k, v = supply.real("k", d_k), supply.real("v", 2, d_v)
    q = supply.real("q", d_k)
    keys = np.stack([k, 2 * k if other else k])
    o, _ = softmax_attention.recurrent(np.stack([q, q]), keys, v)
    return o[-1], v[1] if latest else v.sum(axis=0) / (2 if half else 1)


@identity(
    title="Keeping everything is not keeping the latest",
    kind="counterexample",
    statement=r"k_1 = k_2, \quad q_2 = k_2, \quad o_2 \ne v_2",
    source="ours",
    chapter=CHAPTER,
    mutants={
        "the second write repeats the first": {"repeat": True},
        "the first pair is evicted": {"evict": True},
    },
)
def latest_is_not_returned(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    repeat: bool = False,
    evict: bool = False,
) -> Sides:
    """One key, two values, and the key as question."""
    k, v = supply.unit("k", 1, d_k), supply.real("v", 2, d_v)
    if repeat:
        v = np.stack([v[1], v[1]])
    keys = np.concatenate([k, k])
    if evict:
        keys, v = keys[1:], v[1:]
    o, _ = softmax_attention.recurrent(keys, keys, v)
    return o[-1], v[-1]


@identity(
    title="The file knows no order: shuffled pairs give the same answer",
    statement=r"o_t(\pi(K), \pi(V)) = o_t(K, V)",
    source="ours",
    chapter=CHAPTER,
    mutants={
        "the values alone are shuffled": {"keys": False},
        "the keys alone are shuffled": {"values": False},
        "the older half has decayed": {"decay": True},
    },
)
def order_blind(
    supply: Supply,
    T: int,
    d_v: int,
    *,
    keys: bool = True,
    values: bool = True,
    decay: bool = False,
) -> Sides:
    """The last query's answer before and after the pairs are turned round by one."""
    s, v = _log_weights(supply, "w", T), supply.real("v", T, d_v)
    turned_s = np.roll(s, 1) if keys else s
    turned_v = np.roll(v, 1, axis=0) if values else v
    fading = log(supply.rate("a", 1))[0] if decay else 0
    lag = fading * np.arange(T)[::-1]
    return _read(turned_s + lag, turned_v), _read(s + lag, v)


def _printed_lead(supply: Supply, N: int, d_v: int) -> Numbers:
    """Item 1 leads all others, by at least the lead."""
    lead = supply.positive("lead", 1)[0]
    v, below = supply.real("v", N, d_v), supply.positive("below", N)
    scores = -lead - below
    scores[0] = 0
    o = np.array([_read(scores[:t], v[:t]) for t in range(1, N + 1)])
    letters = {"o": o, "v": v, r"\Delta": lead, "i": 1}
    return Numbers(letters, {"t": range(2, N + 1), "j": range(1, N + 1)})


@identity(
    title="A lead in the scores bounds the error of recall",
    kind="bound",
    statement=r"\lVert o_t - v_i \rVert \le"
    r" (t-1) \exp(-\Delta) \max_{j \le t} \lVert v_j - v_i \rVert",
    source="ours",
    equations=("eq-recall-bound",),
    printed={"eq-recall-bound": AsPrinted(numbers=_printed_lead, worlds=("floats",))},
    chapter=CHAPTER,
    worlds=("rationals", "floats"),
    mutants={
        "the number of items is left out": {"items": False},
        "the lead counts twice": {"power": 4},
        "the nearest value in place of the farthest": {"nearest": True},
    },
)
def recall_bound(
    supply: Supply,
    N: int,
    d_v: int,
    *,
    items: bool = True,
    power: int = 2,
    nearest: bool = False,
) -> dict[str, Sides]:
    """Squares of both sides; all other items at the lead is the worst case."""
    lead = supply.rate("exp(-lead)", 1)[0] ** 6
    v = supply.real("v", N, d_v)
    v[2:] = v[1] + v[2:] / 100  # values that nearly agree, so that their pulls add up
    below = supply.rate("below", N)
    sides = {}
    for part, weights in (("worst", below**0 * lead), ("below", below * lead)):
        weights[0] = weights[0] ** 0
        gaps = ((v[1:] - v[0]) ** 2).sum(axis=1)
        farthest = min(gaps) / 2 if nearest else max(gaps)
        error = ((_read(log(weights), v) - v[0]) ** 2).sum()
        sides[part] = error, (N - 1 if items else 1) ** 2 * lead**power * farthest
    return sides


@identity(
    title="The answer never leaves the values: a mean is a mean",
    kind="bound",
    statement=r"\min_{j \le t} v_j \le o_t \le \max_{j \le t} v_j",
    source="ours",
    chapter=CHAPTER,
    worlds=("rationals", "floats"),
    mutants={
        "a weight is negative": {"negative": True},
        "nothing is divided by": {"divide": False},
        "the largest value is left out": {"leave_out": True},
    },
)
def stays_inside(
    supply: Supply,
    T: int,
    d_v: int,
    *,
    negative: bool = False,
    divide: bool = True,
    leave_out: bool = False,
) -> dict[str, Sides]:
    """Entry by entry; the last item is given the largest value and most weight."""
    v = supply.real("v", T, d_v)
    v[-1] = v.max(axis=0) + 1
    weights = supply.rate("w", T)
    weights[-1] = 40 * weights[-1] ** 0
    answer = _read(log(weights), v)
    if negative:
        weights[0] = -20 * weights[-1] ** 0
        answer = weights @ v / weights.sum()
    if not divide:
        answer = weights @ v
    inside = v[:-1] if leave_out else v
    least, most = inside.min(axis=0), inside.max(axis=0)
    return {"above": (least, answer), "below": (answer, most)}


def _printed_signs(supply: Supply, d_k: int) -> Numbers:
    """Entries of mean 0 and variance 1: all signs, for query 2 and for key 1."""
    del supply
    signs = [np.array(x) for x in itertools.product((1, -1), repeat=d_k)]
    draws = [
        {"q": np.array([0 * q, q]), "k": np.array([k, 0 * k])}
        for q in signs
        for k in signs
    ]
    return Numbers({"d_k": d_k, "t": 2, "j": 1}, draws=draws)


@identity(
    title="Scores of independent entries have a mean square of d_k",
    statement=r"\mathbb{E}[(q_t^\top k_j)^2] = d_k",
    source="vaswani2017, footnote 4",
    citations=("vaswani2017",),
    equations=("eq-score-variance",),
    printed={
        "eq-score-variance": AsPrinted(
            numbers=_printed_signs,
            worlds=("rationals", "floats"),
            at={"rationals": {"d_k": 3}},
        )
    },
    chapter=CHAPTER,
    mutants={
        "the entries have a mean": {"centred": False},
        "the query is the key": {"same": True},
        "the entries have variance four": {"size": 2},
    },
    worlds=("rationals", "floats"),
    at={"rationals": {"d_k": 2}, "floats": {"d_k": 4}},
)
def score_variance(
    supply: Supply,
    d_k: int,
    *,
    centred: bool = True,
    same: bool = False,
    size: int = 1,
) -> Sides:
    """All outcomes of entries that take two values each, of mean 0 and variance 1."""
    a = 1 + supply.positive("a", 2 * d_k)  # floats lose digits where 1/a is large
    high, low = size * a, size / a * (-1 if centred else 1)
    chance = 1 / (1 + a * a)
    mean = 0
    for side in itertools.product((True, False), repeat=2 * d_k):
        x = np.where(side, high, low)
        probability = np.where(side, chance, 1 - chance).prod()
        q, k = x[:d_k], x[:d_k] if same else x[d_k:]
        mean = mean + probability * (q @ k) ** 2
    return np.asarray(mean), np.asarray(d_k + 0 * a[0])


def _printed_bytes(supply: Supply) -> Numbers:
    """The package's counts, for any number of tokens and any widths."""
    T, d_k, d_v = (supply.positive(name, 1)[0] for name in ("T", "d_k", "d_v"))
    letters = {"T": T, "d_k": d_k, "d_v": d_v, "b": cost.BYTES["float32"]}
    return Numbers(
        letters
        | {
            "T^*": cost.equal_bytes(d_k, d_v),
            r"B_\mathrm{cache}": cost.cache_bytes(T, d_k, d_v, dtype="float32"),
            r"B_\mathrm{state}": cost.state_bytes(d_k, d_v, dtype="float32"),
        }
    )


@identity(
    title="Cache and state take the same room after d_k d_v / (d_k + d_v) tokens",
    statement=r"T^{*} = \frac{d_k d_v}{d_k + d_v}",
    source="ours",
    equations=("eq-equal-bytes", "def-bytes"),
    printed={
        "eq-equal-bytes": AsPrinted(numbers=_printed_bytes),
        "def-bytes": AsPrinted(numbers=_printed_bytes),
    },
    chapter=CHAPTER,
    mutants={
        "the sum of the widths": {"formula": lambda d_k, d_v: d_k + d_v},
        "half the key's width": {"formula": lambda d_k, d_v: d_k / 2},
        "the state has a normaliser": {"normaliser": True},
    },
)
def equal_bytes(
    supply: Supply, *, formula: Any = cost.equal_bytes, normaliser: bool = False
) -> Sides:
    """The two formulas for bytes at that number of tokens, for any widths."""
    d_k, d_v = supply.positive("d", 2)
    tokens = formula(d_k, d_v)
    state = cost.state_bytes(d_k, d_v, normaliser=normaliser)
    return np.asarray(cost.cache_bytes(tokens, d_k, d_v)), np.asarray(state)


def _printed_tokens(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    """Tokens, and the package's outputs."""
    q, k = supply.real("q", T, d_k), supply.real("k", T, d_k)
    v = supply.real("v", T, d_v)
    o, _ = softmax_attention.recurrent(q, k, v)
    letters = {"q": q, "k": k, "v": v, "o": o}
    return Numbers(letters, {"t": range(1, T + 1), "j": range(1, T + 1)})


@identity(
    title="A growing cache, a masked table and blocks give the same outputs",
    statement=r"o_t = \frac{\sum_{j=1}^{T} M_{tj} \exp(q_t^\top k_j) v_j}"
    r"{\sum_{j=1}^{T} M_{tj} \exp(q_t^\top k_j)}",
    source="vaswani2017, eq. 1 with a causal mask",
    citations=("vaswani2017", "dao2022"),
    equations=("def-softmax-attention",),
    printed={
        "def-softmax-attention": AsPrinted(
            numbers=_printed_tokens,
            at={"symbols": {"T": 2}, "rationals": {"T": 3}},
        )
    },
    chapter=CHAPTER,
    mutants={
        "the table is not masked": {"mask": False},
        "a token does not see itself": {"strict": True},
        "the scores are doubled": {"scale": 2},
    },
    at={"symbols": {"T": 2}, "rationals": {"T": 3}},
)
def plans_agree(
    supply: Supply,
    T: int,
    d_k: int,
    d_v: int,
    *,
    mask: bool = True,
    strict: bool = False,
    scale: int = 1,
) -> dict[str, Sides]:
    """The three forms of the reference against the definition with a mask."""
    q, k = supply.real("q", T, d_k), supply.real("k", T, d_k)
    v = supply.real("v", T, d_v)
    M = np.tril(np.ones((T, T), dtype=int)) if mask else np.ones((T, T), dtype=int)
    if strict:
        M[1:] = np.tril(M, -1)[1:]
    weights = M * exp(scale * (q @ k.T))
    table = weights @ v / weights.sum(axis=1)[:, None]
    return {
        "recurrent": (softmax_attention.recurrent(q, k, v)[0], table),
        "parallel": (softmax_attention.parallel(q, k, v)[0], table),
        "chunkwise": (softmax_attention.chunkwise(q, k, v, chunk_size=2)[0], table),
    }
