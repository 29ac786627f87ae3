"""Softmax attention is kernel regression: which kernel, how wide, and what follows.

Nadaraya and Watson's estimator answers a query with the mean of the values, weighed by
a kernel of the distance or likeness between key and query. As a learner it stores its
examples in training and smooths over them when asked.
"""

from typing import Any

import numpy as np

from ctlearn.identities.engine import STATEMENT, Sides, identity
from ctlearn.identities.tokens import tokens
from ctlearn.mixers import softmax_attention
from ctlearn.printed import AsPrinted, Numbers
from ctlearn.scalars import exp, is_exact, sqrt
from ctlearn.supplies import Supply

CHAPTER = "06_a_tiny_model"

EXACT = ("rationals", "floats")


def estimate(weights: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The mean of the values v [N, d_v] under positive weights [N]."""
    return weights @ v / weights.sum()


def _attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The reference's answer to one query after all pairs."""
    asked = np.broadcast_to(q, k.shape)
    return softmax_attention.parallel(asked, k, v)[0][-1]


def _square(x: np.ndarray) -> Any:
    return (x * x).sum(axis=-1)


def _gaussian(k: np.ndarray, q: np.ndarray, width: Any) -> np.ndarray:
    """The kernel of width h, given as h squared, at each key."""
    return exp(-_square(k - q) / (2 * width))


def _root(like: np.ndarray, d: int) -> Any:
    """The square root of a size, among the numbers of `like`."""
    return sqrt(np.asarray(like.ravel()[0] ** 0 * d))


def _projected(supply: Supply, T: int, d: int, d_k: int, d_v: int) -> dict:
    """Tokens x and the three maps that make queries, keys and values of them."""
    return {
        "x": supply.real("x", T, d),
        r"\theta_Q": supply.real("Q", d_k, d),
        r"\theta_K": supply.real("K", d_k, d),
        r"\theta_V": supply.real("V", d_v, d),
    }


def _printed_learner(supply: Supply, T: int, d: int, d_k: int, d_v: int) -> Numbers:
    letters = _projected(supply, T, d, d_k, d_v)
    q, k, v = (letters["x"] @ letters[rf"\theta_{name}"].T for name in "QKV")
    letters["o"] = softmax_attention.recurrent(q, k, v)[0]
    return Numbers(letters, {"t": range(1, T + 1), "j": range(1, T + 1)})


SMALL = {"T": 2, "d": 2, "d_k": 1, "d_v": 2}


@identity(
    title="Softmax attention is Nadaraya and Watson's estimator, on its own context",
    statement=r"o_t = \frac{\sum_{j=1}^{t} \exp((\theta_K x_j)^\top \theta_Q x_t)"
    r" \theta_V x_j}{\sum_{j=1}^{t} \exp((\theta_K x_j)^\top \theta_Q x_t)}",
    source="sun2024ttt, theorem 2",
    citations=("sun2024ttt",),
    printed={
        STATEMENT: AsPrinted(
            numbers=_printed_learner,
            at={"symbols": SMALL, "rationals": SMALL, "floats": {"d": 3, "d_k": 3}},
        )
    },
    chapter=CHAPTER,
    mutants={
        "the maps of keys and queries are exchanged": {"exchanged": True},
        "the tokens themselves are compared": {"mapped": False},
        "the labels are the keys": {"labels": "K"},
    },
    at={"symbols": SMALL, "rationals": SMALL | {"d": 3, "d_k": 2}},
)
def nadaraya_watson(
    supply: Supply,
    T: int,
    d: int,
    d_k: int,
    d_v: int,
    *,
    exchanged: bool = False,
    mapped: bool = True,
    labels: str = "V",
) -> Sides:
    """The reference on projected tokens, against the estimator on tokens."""
    drawn = _projected(supply, T, d, d_k, d_v)
    x, Q, K = drawn["x"], drawn[r"\theta_Q"], drawn[r"\theta_K"]
    o = softmax_attention.recurrent(x @ Q.T, x @ K.T, x @ drawn[r"\theta_V"].T)[0]
    if exchanged:
        Q, K = K, Q
    scores = x @ K.T @ Q @ x[-1] if mapped else x @ x[-1]
    return o[-1], estimate(exp(scores), x @ drawn[rf"\theta_{labels}"].T)


def _two_maps(supply: Supply) -> dict:
    """A quarter turn of the queries, and two tokens along the axes."""
    one = supply.real("one", 1)[0] ** 0
    turn = one * np.array([[0, -1], [1, 0]])
    x = one * np.eye(2, dtype=int)
    return {"x": x, r"\theta_Q": turn, r"\theta_K": x}


@identity(
    title="The kernel is not symmetric, so it is no inner product of a function space",
    kind="counterexample",
    statement=r"\exp((\theta_K x_1)^\top \theta_Q x_2) = \exp(-1) \ne"
    r" \exp(1) = \exp((\theta_K x_2)^\top \theta_Q x_1)",
    source="ours; sun2024ttt remarks that theirs is asymmetric",
    citations=("sun2024ttt",),
    worlds=EXACT,
    printed={
        STATEMENT: AsPrinted(
            numbers=lambda supply: Numbers(_two_maps(supply)), worlds=EXACT
        )
    },
    chapter=CHAPTER,
    mutants={
        "one map for keys and queries": {"shared": True},
        "a half turn": {"half": True},
        "the same token": {"other": 0},
    },
)
def asymmetric(
    supply: Supply, *, shared: bool = False, half: bool = False, other: int = 1
) -> Sides:
    """A token as key and another as query, and the other way round."""
    drawn = _two_maps(supply)
    x, Q, K = drawn["x"], drawn[r"\theta_Q"], drawn[r"\theta_K"]
    Q = Q @ Q if half else Q
    K = Q if shared else K
    first, second = x[0], x[other]
    return (
        exp(np.asarray((K @ first) @ (Q @ second))),
        exp(np.asarray((K @ second) @ (Q @ first))),
    )


def _printed_gaussian(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    """Scaled attention, and the Gaussian kernel of every query and key."""
    q, k, v = tokens(supply, T, d_k, d_v)
    return _gaussian_letters(q, k, v)


def _gaussian_letters(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> Numbers:
    T, d_k = k.shape
    root = _root(q, d_k)
    kappa = np.array([_gaussian(k, x, root) for x in q])
    letters = {"q": q, "k": k, "v": v, "d_k": d_k, r"\kappa": kappa, "h": sqrt(root)}
    letters["o"] = softmax_attention.recurrent(q / root, k, v)[0]
    letters["c"] = exp(_square(k) / (2 * root))
    return Numbers(letters, {"t": range(1, T + 1), "j": range(1, T + 1)})


@identity(
    title="Any keys: softmax attention is a Gaussian kernel that favours long keys",
    statement=r"\kappa_{tj} = \exp(-\frac{\lVert q_t - k_j \rVert^2}{2 \sqrt{d_k}}),"
    r" \quad c_j = \exp(\frac{\lVert k_j \rVert^2}{2 \sqrt{d_k}}), \quad"
    r" o_t = \frac{\sum_{j=1}^{t} c_j \kappa_{tj} v_j}{\sum_{j=1}^{t} c_j \kappa_{tj}}",
    source="ours; wang2025ttr and mcdermott2026 have it for unit keys",
    citations=("wang2025ttr", "mcdermott2026"),
    equations=("eq-long-keys",),
    printed={
        "eq-long-keys": AsPrinted(
            numbers=_printed_gaussian,
            at={"symbols": {"T": 2, "d_v": 1}, "rationals": {"T": 2, "d_k": 4}},
        ),
    },
    chapter=CHAPTER,
    mutants={
        "long keys are not favoured": {"favour": 0},
        "long keys are favoured twice": {"favour": 2},
        "the kernel is as wide as d_k": {"power": 2},
        "the queries' lengths, not the keys'": {"of_query": True},
    },
    at={"symbols": {"T": 2, "d_v": 1}, "rationals": {"T": 3, "d_k": 4, "d_v": 1}},
)
def long_keys(
    supply: Supply,
    T: int,
    d_k: int,
    d_v: int,
    *,
    favour: int = 1,
    power: int = 1,
    of_query: bool = False,
) -> Sides:
    """The query's own length is a factor of all weights, and drops out."""
    q, k, v = tokens(supply, T, d_k, d_v)
    root = _root(q, d_k)
    factor = exp(favour * _square(q if of_query else k) / (2 * root))
    weights = factor * _gaussian(k, q[-1], root**power)
    return _attention(q[-1] / root, k, v), estimate(weights, v)


def _printed_sphere(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    q, _, v = tokens(supply, T, d_k, d_v)
    return _gaussian_letters(q, 3 * supply.unit("k", T, d_k), v)


@identity(
    title="Keys of one length: a Gaussian kernel of width d_k^(1/4), for any queries",
    statement=r"\kappa_{tj} = \exp(-\frac{\lVert q_t - k_j \rVert^2}{2 h^2}), \quad"
    r" h = d_k^{1/4}, \quad"
    r" o_t = \frac{\sum_{j=1}^{t} \kappa_{tj} v_j}{\sum_{j=1}^{t} \kappa_{tj}}",
    source="wang2025ttr, and mcdermott2026, theorem 2.1, for unit queries too",
    citations=("wang2025ttr", "mcdermott2026"),
    worlds=EXACT,
    equations=("eq-width-of-attention",),
    printed={
        "eq-width-of-attention": AsPrinted(
            numbers=_printed_sphere,
            worlds=EXACT,
            at={"rationals": {"T": 2, "d_k": 4, "d_v": 1}},
        ),
    },
    chapter=CHAPTER,
    mutants={
        "the width is the root of d_k": {"power": 2},
        "the width is one": {"power": 0},
        "keys of different lengths": {"longer": 2},
        "the two is missing": {"half": 2},
    },
    at={"rationals": {"T": 3, "d_k": 4, "d_v": 1}},
)
def gaussian(
    supply: Supply,
    T: int,
    d_k: int,
    d_v: int,
    *,
    power: int = 1,
    longer: int = 1,
    half: int = 1,
) -> Sides:
    """Keys on a sphere of radius 3, one of them maybe on another."""
    q, _, v = tokens(supply, T, d_k, d_v)
    k = 3 * supply.unit("k", T, d_k)
    k[0] = longer * k[0]
    root = _root(q, d_k)
    weights = _gaussian(k, q[-1], root**power / half)
    return _attention(q[-1] / root, k, v), estimate(weights, v)


def _two_keys(supply: Supply) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A key at 0 and one at 2, asked from halfway, with the values 0 and 1."""
    one = supply.real("one", 1)[0] ** 0
    return one * np.ones(1, dtype=int), one * np.array([[0], [2]]), one * np.eye(2)[1]


def _printed_two(supply: Supply) -> Numbers:
    q, k, v = _two_keys(supply)
    o = _attention(q, k, v[:, None])[0]
    return Numbers({"q": q[0], "k": k[:, 0], "v": v, "o": o})


@identity(
    title="Keys of different lengths: two that are equally near do not weigh the same",
    kind="counterexample",
    statement=r"o = \frac{\exp(k_2 q)}{\exp(k_1 q) + \exp(k_2 q)} ="
    r" \frac{\exp(2)}{1 + \exp(2)} \ne \frac{1}{2} ="
    r" \frac{\exp(-(k_2 - q)^2 / 2)}{\exp(-(k_1 - q)^2 / 2) + \exp(-(k_2 - q)^2 / 2)}",
    source="ours",
    citations=("wang2025ttr",),
    worlds=EXACT,
    printed={STATEMENT: AsPrinted(numbers=_printed_two, worlds=EXACT)},
    chapter=CHAPTER,
    mutants={
        "keys of one length": {"shift": 1},
        "the long key is favoured in the kernel": {"favour": 1},
        "both have one value": {"one_value": True},
    },
)
def varying_lengths(
    supply: Supply, *, shift: int = 0, favour: int = 0, one_value: bool = False
) -> Sides:
    """The answers 0.88 and 0.5, where d_k = 1 and the width is 1."""
    q, k, v = _two_keys(supply)
    k, q = k - shift, q - shift
    v = v**0 if one_value else v
    weights = exp(favour * _square(k) / 2) * _gaussian(k, q, 1)
    return _attention(q, k, v[:, None]), estimate(weights, v[:, None])


def _printed_unit(supply: Supply, T: int, d_k: int) -> Numbers:
    q, k = supply.unit("q", T, d_k), supply.unit("k", T, d_k)
    letters = {"q": q, "k": k, "h": supply.positive("h", 1)[0] + 1}
    return Numbers(letters, {"t": range(1, T + 1), "j": range(1, T + 1)})


@identity(
    title="On the sphere the two kernels differ by a factor, which the mean removes",
    kind="erratum",
    statement=r"\exp(-\frac{\lVert q_t - k_j \rVert^2}{2 h^2}) ="
    r" \exp(-\frac{1}{h^2}) \exp(\frac{q_t^\top k_j}{h^2})",
    as_printed=r"\exp(-\frac{\lVert q_t - k_j \rVert^2}{2 h^2}) ="
    r" \exp(\frac{q_t^\top k_j}{h^2})",
    source="mcdermott2026, the line below eq. 11",
    citations=("mcdermott2026",),
    worlds=EXACT,
    printed={STATEMENT: AsPrinted(numbers=_printed_unit, worlds=EXACT)},
    chapter=CHAPTER,
    mutants={
        "the factor upside down": {"sign": 1},
        "half the factor": {"half": 2},
        "queries of another length": {"longer": 2},
    },
    at={"rationals": {"N": 3, "d_k": 3, "d_v": 2}},
)
def unit_kernels(
    supply: Supply,
    N: int,
    d_k: int,
    d_v: int,
    *,
    sign: int = -1,
    half: int = 1,
    longer: int = 1,
) -> dict[str, Sides]:
    """Each weight, and the estimate, for which the printed line does as well."""
    q, k = longer * supply.unit("q", 1, d_k)[0], supply.unit("k", N, d_k)
    width, v = supply.positive("h", 1)[0] + 1, supply.real("v", N, d_v)
    near, like = _gaussian(k, q, width), exp(k @ q / width)
    factor = exp(np.asarray(sign / (half * width)))
    return {
        "printed": (near, like),
        "corrected": (near, factor * like),
        "the estimate": (estimate(near, v), _attention(q / width, k, v)),
    }


def _printed_nearest(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    q, k, v = tokens(supply, T, d_k, d_v)
    k = k[np.argsort([float(x) for x in _square(k - q[0])])]
    letters = {"q": q[0], "k": k, "v": v, "i": 1, "t": T}
    return Numbers(letters, {"j": range(1, T + 1)})


@identity(
    title="Narrower and narrower, kernel regression looks up the nearest key",
    kind="limit",
    statement=r"\lim_{\tau \to \infty}"
    r" \frac{\sum_{j=1}^{t} \exp(-\tau \lVert k_j - q \rVert^2) v_j}"
    r"{\sum_{j=1}^{t} \exp(-\tau \lVert k_j - q \rVert^2)} = v_i",
    source="mcdermott2026, eqs. 11 and 12, with tau for 1 / (2 h^2)",
    citations=("mcdermott2026",),
    worlds=EXACT,
    equations=("eq-nearest-key",),
    printed={
        "eq-nearest-key": AsPrinted(
            numbers=_printed_nearest,
            worlds=("rationals",),
            at={"rationals": {"T": 2, "d_k": 2, "d_v": 1}},
            equivalent=dict.fromkeys(
                ("t → i (line 1, column 42)", "t → i (line 1, column 98)"),
                "a sum that ends with item i still holds the one that wins",
            ),
        ),
    },
    chapter=CHAPTER,
    mutants={
        "the farthest key": {"sign": -1},
        "the width stays": {"reached": False},
        "attention, with keys of different lengths": {"like": True},
    },
)
def nearest(
    supply: Supply,
    N: int,
    d_k: int,
    d_v: int,
    *,
    sign: int = 1,
    reached: bool = True,
    like: bool = False,
) -> Sides:
    """Weights relative to the nearest key's are powers x^gap, where x goes to zero."""
    q, k, v = tokens(supply, N, d_k, d_v)
    q = q[0]
    # two keys as near as each other have no lookup, and the draws may hold such
    k[0] = q + (k[0] - q) / 8
    distance = _square(k - q)
    cost = -2 * k @ q if like else sign * distance
    gaps = cost - min(cost)
    x = gaps[0] ** 0 * (0 if reached else 1) / (1 if reached else 2)
    return estimate(x**gaps, v), v[int(np.argmin([float(y) for y in distance]))]


def _weights(supply: Supply, k: np.ndarray, q: np.ndarray) -> list[np.ndarray]:
    """Gaussian weights of three widths; exact numbers take any positive ones."""
    if is_exact(k):
        # signs of sums of exponentials are not decided exactly
        return [supply.positive(f"w{i}", len(k)) for i in range(3)]
    return [_gaussian(k, q, width) for width in (16, 1, 1 / 16)]


def _printed_inside(supply: Supply, T: int, d_k: int) -> Numbers:
    q, k, v = tokens(supply, T, d_k, 1)
    kappa = np.array([_weights(supply, k, x)[0] for x in q])
    letters = {"v": v[:, 0], r"\kappa": kappa}
    return Numbers(letters, {"t": range(1, T + 1), "j": range(1, T + 1)})


@identity(
    title="At no width does it leave the values",
    kind="bound",
    statement=r"\min_{j \le t} v_j \le \frac{\sum_{j=1}^{t} \kappa_{tj} v_j}"
    r"{\sum_{j=1}^{t} \kappa_{tj}} \le \max_{j \le t} v_j",
    source="mcdermott2026, eq. 12, for every width",
    citations=("mcdermott2026",),
    worlds=EXACT,
    equations=("eq-inside-values",),
    printed={
        "eq-inside-values": AsPrinted(numbers=_printed_inside, worlds=EXACT),
    },
    chapter=CHAPTER,
    mutants={
        "one weight is negative": {"signed": True},
        "the weights are not divided by their sum": {"divided": False},
    },
    at={"rationals": {"N": 3, "d_k": 2, "d_v": 2}},
)
def stays_inside(
    supply: Supply,
    N: int,
    d_k: int,
    d_v: int,
    *,
    signed: bool = False,
    divided: bool = True,
) -> dict[str, Sides]:
    """Three widths, the last so narrow that nearly one value is returned."""
    q, k, v = tokens(supply, N, d_k, d_v)
    sides = {}
    for i, weights in enumerate(_weights(supply, k, q[0])):
        if signed:
            weights[0] = -3 * weights.sum()
        o = estimate(weights, v) if divided else weights @ v
        sides[f"width {i}, below"] = v.min(axis=0), o
        sides[f"width {i}, above"] = o, v.max(axis=0)
    return sides
