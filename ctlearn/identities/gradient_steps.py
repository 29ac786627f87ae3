"""Linear attention is one gradient step: from which start, on which loss, how far.

A linear map W answers W'k. G_j is the slope, at the start, of what token j costs. A
batch step goes against the sum of all slopes at once; online steps go one token at a
time, each slope taken where the last step has led.
"""

import numpy as np

from ctlearn.features import identity as plain
from ctlearn.identities.engine import STATEMENT, Sides, identity
from ctlearn.identities.slopes import slopes, squared
from ctlearn.identities.tokens import flat, states, tokens
from ctlearn.inner import Linear, Training
from ctlearn.mixers import (
    linear_attention,
    normalised_linear_attention,
    ttt_linear,
)
from ctlearn.printed import AsPrinted, Numbers
from ctlearn.supplies import Supply

CHAPTER = "06_a_tiny_model"


def _printed(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    """Tokens, what linear attention makes of them, and the slopes at zero."""
    q, k, v = tokens(supply, T, d_k, d_v)
    o, S = linear_attention.recurrent(q, k, v)
    G, c = slopes(squared, 0 * S, k, v), supply.rate("c", 1)[0]
    ends = states(linear_attention.recurrent, T, q, k, v)
    letters = {"q": q, "k": k, "v": v, "o": o, "S": ends, "g": G}
    scaled = {"c": c, "H": c * G}
    return Numbers(letters | scaled, {"t": range(1, T + 1), "j": range(1, T + 1)})


def _free_step(*, twice: int = 1, start: int = 0) -> Sides:
    """The step by one token, of any size, as letters that do not commute."""
    import sympy

    S, W, k, k_T, v_T = sympy.symbols("S W k k^T v^T", commutative=False)
    eta = sympy.Rational(twice, 2)
    return S + k * v_T, S - eta * 2 * k * (start * k_T * W - v_T)


@identity(
    title="Linear attention is one step from zero on the sum of the squared errors",
    statement=r"g_j = -2 k_j v_j^\top, \quad S_t = -\frac{1}{2} \sum_{j=1}^{t} g_j,"
    r" \quad o_t = S_t^\top q_t = \sum_{j=1}^{t} (k_j^\top q_t) v_j",
    source="sun2024ttt, theorem 1",
    citations=("sun2024ttt",),
    equations=("eq-unhalved",),
    printed={
        "eq-unhalved": AsPrinted(numbers=_printed),
    },
    free=_free_step,
    chapter=CHAPTER,
    mutants={
        "a step size of 1": {"twice": 2},
        "the loss is climbed": {"twice": -1},
        "the slope is taken away from zero": {"start": 1},
        "the step size for half the loss": {"half": 2},
    },
)
def batch_step(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    twice: int = 1,
    start: int = 0,
    half: int = 1,
) -> dict[str, Sides]:
    """One more token's loss, where S is the step by all before it, against the layer.

    The batch's slope is a sum over its tokens, all taken at one start, so a token more
    adds its own slope.
    """
    q, k, v = tokens(supply, 1, d_k, d_v)
    S, W = supply.real("S", d_k, d_v), start * supply.real("W", d_k, d_v)
    eta = S[0, 0] ** 0 * twice / 2

    def after(S: np.ndarray, n: int) -> np.ndarray:
        return S - eta * slopes(squared, W, k[:n], v[:n]).sum(axis=0) / half

    nothing = linear_attention.recurrent(q[:0], k[:0], v[:0])[1]
    o, layer = linear_attention.step(q[0], k[0], v[0], S=S)
    return {
        "base": (nothing, after(0 * S, 0)),
        "step": (flat(o, layer), flat(after(S, 1).T @ q[0], after(S, 1))),
    }


@identity(
    title="A loss that is c times as high needs a step 1/c as long",
    statement=r"H_j = -2 c\, k_j v_j^\top, \quad"
    r" S_t = -\frac{1}{2 c} \sum_{j=1}^{t} H_j",
    source="ours; for half the squared error, c = 1/2, the step size is 1",
    citations=("sun2024ttt",),
    printed={STATEMENT: AsPrinted(numbers=_printed)},
    chapter=CHAPTER,
    mutants={
        "the step size stays at one half": {"power": 0},
        "the step grows with the loss": {"power": -1},
        "the step size is 1 / c": {"twice": 2},
    },
)
def scaled_loss(
    supply: Supply, T: int, d_k: int, d_v: int, *, power: int = 1, twice: int = 1
) -> dict[str, Sides]:
    """Any c, and c = 1/2."""
    q, k, v = tokens(supply, T, d_k, d_v)
    S = linear_attention.recurrent(q, k, v)[1]
    any_c = supply.rate("c", 1)[0]
    sides = {}
    for name, c in (("any", any_c), ("half", any_c**0 / 2)):
        total = slopes(lambda *x, c=c: c * squared(*x), 0 * S, k, v).sum(axis=0)
        sides[name] = S, -total * twice / (2 * c**power)
    return sides


def _printed_start(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    """TTT-Linear on one mini-batch, from a start of its own."""
    q, k, v = tokens(supply, T, d_k, d_v)
    W, beta = supply.real("W", d_k, d_v), supply.rate("beta", T)
    o, _ = ttt_linear.recurrent(
        q, k, v, beta=beta, S=Training.start(Linear(W)), inner_batch=T
    )
    letters = {"q": q, "k": k, "v": v, "o": o, "W_0": W, r"\beta": beta}
    return Numbers(letters, {"t": range(1, T + 1), "j": range(1, T + 1)})


def _free_start(*, read: int = 1, subtract: int = 1) -> Sides:
    """The answer after one more pair, any X gathered before; letters do not commute."""
    import sympy

    W, X, q_T, k, k_T, v_T = sympy.symbols("W X q^T k k^T v^T", commutative=False)
    beta = sympy.Symbol("beta")
    trained = W - (X + beta * k * (k_T * W - v_T))
    attended = -X + beta * k * (v_T - subtract * k_T * W)
    return q_T * trained, read * q_T * W + q_T * attended


@identity(
    title="From another start the values are what the start gets wrong",
    statement=r"o_t = W_0^\top q_t +"
    r" \sum_{j=1}^{t} \beta_j (k_j^\top q_t) (v_j - W_0^\top k_j)",
    source="ours; sun2024ttt's batch, with the start that it learns",
    citations=("sun2024ttt",),
    equations=("eq-another-start",),
    printed={
        "eq-another-start": AsPrinted(numbers=_printed_start),
    },
    free=_free_start,
    chapter=CHAPTER,
    mutants={
        "the start is not read": {"read": 0},
        "the values are what they are": {"subtract": 0},
        "the errors are added twice": {"subtract": 2},
    },
)
def learned_start(
    supply: Supply, d_k: int, d_v: int, *, read: int = 1, subtract: int = 1
) -> dict[str, Sides]:
    """One more token of TTT-Linear's mini-batch, after any others, against attention.

    What it has gathered is minus the state of linear attention.
    """
    q, k, v = tokens(supply, 1, d_k, d_v)
    W, X = supply.real("W", d_k, d_v), supply.real("X", d_k, d_v)
    beta = supply.rate("beta", 1)
    training = Training.start(Linear(W))._replace(total=Linear(X))
    o, after = ttt_linear.step(
        q[0], k[0], v[0], beta=beta[0], S=training, inner_batch=2
    )
    values = beta[:, None] * (v - subtract * k @ W)
    answer, S = linear_attention.recurrent(q, k, values, S=-X)
    nothing = Training.start(Linear(W)).total.W
    return {
        "base": (nothing, -linear_attention.recurrent(q[:0], k[:0], v[:0])[1]),
        "step": (flat(o, -after.total.W), flat(read * W.T @ q[0] + answer[0], S)),
    }


def _normalised(k: np.ndarray, v: np.ndarray, q: np.ndarray) -> np.ndarray:
    """The answer after all pairs, normalised, without a feature map."""
    asked = np.broadcast_to(q, k.shape)
    return normalised_linear_attention.recurrent(asked, k, v, phi=plain)[0][-1]


def _two_pairs(supply: Supply) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Keys along two axes with the values 0 and 1, and three queries on a line."""
    one = supply.real("one", 1)[0] ** 0
    k = one * np.eye(2, dtype=int)
    q = one * np.array([[1, 0], [1, 1], [1, 2]])
    return k, one * np.array([[0], [1]]), q


def _printed_normaliser(supply: Supply) -> Numbers:
    k, v, q = _two_pairs(supply)
    f = [_normalised(k, v, x)[0] for x in q]
    return Numbers({"k": k, "v": v[:, 0], "q": q, "f": np.array(f)}, {"i": range(1, 4)})


@identity(
    title="No gradient step divides by the sum of the weights",
    kind="counterexample",
    statement=r"f_i = \frac{(k_1^\top q_i) v_1 + (k_2^\top q_i) v_2}"
    r"{k_1^\top q_i + k_2^\top q_i}, \quad q_2 = \frac{q_1 + q_3}{2}, \quad"
    r" f_2 = \frac{1}{2} \ne \frac{1}{3} = \frac{f_1 + f_3}{2}",
    source="ours; the theorem of sun2024ttt is for attention without it",
    citations=("sun2024ttt", "katharopoulos2020"),
    worlds=("rationals",),
    printed={STATEMENT: AsPrinted(numbers=_printed_normaliser)},
    chapter=CHAPTER,
    mutants={
        "without the normaliser": {"normalised": False},
        "queries whose sum is one": {"sum_one": True},
        "both pairs have one value": {"one_value": True},
    },
)
def normaliser(
    supply: Supply,
    *,
    normalised: bool = True,
    sum_one: bool = False,
    one_value: bool = False,
) -> Sides:
    """Whatever start and step sizes, a linear map, biased or not, keeps midpoints.

    So its answer halfway between two queries is halfway between their answers.
    """
    k, v, q = _two_pairs(supply)
    q = q / q.sum(axis=1)[:, None] if sum_one else q
    q[1] = (q[0] + q[2]) / 2
    v = v**0 if one_value else v
    if normalised:
        f = [_normalised(k, v, x)[0] for x in q]
    else:
        f = [(x @ k.T @ v)[0] for x in q]
    return np.asarray(f[1]), np.asarray((f[0] + f[2]) / 2)


def _printed_ratio(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    q, k, v = tokens(supply, T, d_k, d_v)
    q, k = 1 + q * q, 1 + k * k
    o, _ = normalised_linear_attention.recurrent(q, k, v, phi=plain)
    ones = np.ones((T, 1), dtype=v.dtype)
    G = slopes(squared, 0 * np.outer(k[0], v[0]), k, v)
    g = slopes(squared, 0 * k[0][:, None], k, ones)[:, :, 0]
    letters = {"q": q, "k": k, "v": v, "o": o, "G": G, "g": g}
    return Numbers(letters, {"t": range(1, T + 1), "j": range(1, T + 1)})


@identity(
    title="With the normaliser it is the ratio of two learners, and the step cancels",
    statement=r"G_j = -2 k_j v_j^\top, \quad g_j = -2 k_j, \quad"
    r" o_t = \frac{\left(\sum_{j=1}^{t} G_j\right)^\top q_t}"
    r"{\left(\sum_{j=1}^{t} g_j\right)^\top q_t}",
    source="ours; the normaliser as a column is in the third section of "
    "katharopoulos2020",
    citations=("katharopoulos2020", "sun2024ttt"),
    printed={STATEMENT: AsPrinted(numbers=_printed_ratio, at={"symbols": {"T": 2}})},
    chapter=CHAPTER,
    mutants={
        "the second learner learns twos": {"target": 2},
        "the second learner starts elsewhere": {"start": 1},
        "the learners' steps differ": {"other": 2},
    },
    at={"symbols": {"T": 2}},
)
def two_learners(
    supply: Supply,
    T: int,
    d_k: int,
    d_v: int,
    *,
    target: int = 1,
    start: int = 0,
    other: int = 1,
) -> Sides:
    """One step of any size, from zero, on the values and on ones."""
    q, k, v = tokens(supply, T, d_k, d_v)
    q, k = 1 + q * q, 1 + k * k
    o, _ = normalised_linear_attention.recurrent(q, k, v, phi=plain)
    eta = supply.rate("eta", 1)[0]
    ones = np.full((T, 1), target, dtype=v.dtype)
    zero = np.zeros((d_k, 1), dtype=v.dtype)
    W = -eta * slopes(squared, np.zeros((d_k, d_v), dtype=v.dtype), k, v).sum(axis=0)
    w = start - eta * other * slopes(squared, start + zero, k, ones).sum(axis=0)
    return o[-1], W.T @ q[-1] / (w[:, 0] @ q[-1])
