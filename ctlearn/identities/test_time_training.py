"""Test-time training in mini-batches: the dual form, and what keeps it from attention.

All gradients of a mini-batch are taken where it starts. With one token in each it is
the delta rule, with all tokens in one linear attention: both are limits that TTT-Linear
declares. In between, with a norm or with a start of its own it is neither.
"""

from typing import Any

import numpy as np

from ctlearn import inner
from ctlearn.identities.engine import STATEMENT, Sides, identity
from ctlearn.identities.slopes import slope
from ctlearn.identities.tokens import flat, tokens
from ctlearn.inner import Affine, Linear, Perceptron, Training
from ctlearn.mixers import delta_rule, linear_attention, ttt_linear, ttt_mlp
from ctlearn.printed import AsPrinted, Numbers, Rows
from ctlearn.supplies import Supply

CHAPTER = "12_ttt_layers"
EXACT = ("rationals", "floats")


def _affine(supply: Supply, d_k: int, d_v: int) -> Affine:
    return Affine(supply.real("W", d_k, d_v), supply.real("b", d_v))


def _slopes(supply: Supply, T: int, d_k: int, d_v: int) -> tuple[np.ndarray, ...]:
    """Queries, keys, any slopes of any losses at the answers, and step sizes."""
    q, k, g = tokens(supply, T, d_k, d_v)
    return q, k, g, supply.rate("eta", T)


def _after(f: Affine, k: np.ndarray, g: np.ndarray, eta: np.ndarray) -> Affine:
    """The learner after steps against the gradients that the slopes make."""
    taken = f.gradient(k, eta[:, None] * g)
    return Affine(f.W - taken.W, f.b - taken.b)


def _printed_dual(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    q, k, g, eta = _slopes(supply, T, d_k, d_v)
    f = _affine(supply, d_k, d_v)
    steps = np.tril(np.broadcast_to(eta, (T, T)))
    o = f.read_after(q, k, g, steps, [(np.ones(T, dtype=int), f)])
    ends = [_after(f, k[:i], g[:i], eta[:i]) for i in range(T + 1)]
    rows = {
        name: Rows(np.array([getattr(x, name) for x in ends]), first=0) for name in "Wb"
    }
    letters = {"q": q, "k": k, "g": g, r"\eta": eta, "o": o}
    return Numbers(letters | rows, {"i": range(1, T + 1), "j": range(1, T + 1)})


def _printed_plain_dual(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    """The same without a bias."""
    q, k, g, beta = _slopes(supply, T, d_k, d_v)
    f = Linear(supply.real("W", d_k, d_v))
    ends = [f.W - f.gradient(k[:i], beta[:i, None] * g[:i]).W for i in range(T + 1)]
    letters = {"q": q, "k": k, "g": g, r"\beta": beta}
    rows = {"W": Rows(np.array(ends), first=0)}
    return Numbers(letters | rows, {"i": range(1, T + 1), "j": range(1, T + 1)})


def _free_dual(*, bias: int = 1, sign: int = 1, own: int = 1) -> Sides:
    """A token more, in any dimension: a key of one more entry, 1, holds the bias."""
    import sympy

    W, b, q_T, k, g_T = sympy.symbols("W b q^T k g^T", commutative=False)
    eta = sympy.Symbol("eta")
    weights, shift = W - own * sign * eta * k * g_T, b - bias * own * sign * eta * g_T
    return q_T * W + b - eta * (q_T * k + 1) * g_T, q_T * weights + shift


@identity(
    title="The dual form: a reader needs no weights, only its products with keys",
    statement=r"o_i = W_i^\top q_i + b_i = W_0^\top q_i + b_0"
    r" - \sum_{j=1}^{i} \eta_j (k_j^\top q_i + 1) g_j",
    source="sun2024ttt, the dual form",
    citations=("sun2024ttt",),
    chapter=CHAPTER,
    equations=("eq-dual-form",),
    printed={
        STATEMENT: AsPrinted(numbers=_printed_dual),
        "eq-dual-form": AsPrinted(numbers=_printed_plain_dual),
    },
    free=_free_dual,
    mutants={
        "the bias does not learn": {"bias": 0},
        "the gradients are climbed": {"sign": -1},
        "the newest token is not seen": {"own": 0},
    },
)
def dual_form(
    supply: Supply, d_k: int, d_v: int, *, bias: int = 1, sign: int = 1, own: int = 1
) -> dict[str, Sides]:
    """One more token after any others, whose learner may be anything by then.

    Any loss enters through its slopes g at the answers alone.
    """
    q, k, g, eta = _slopes(supply, 1, d_k, d_v)
    f = _affine(supply, d_k, d_v)
    terms, none = [(np.ones(1, dtype=int), f)], np.zeros((1, 0), dtype=k.dtype)
    stepped = _after(f, k, own * sign * g, eta)
    stepped = stepped._replace(b=f.b + bias * (stepped.b - f.b))
    return {
        "base": (f.read_after(q, k[:0], g[:0], none, terms), f.read(q)),
        "step": (f.read_after(q, k, g, eta[None], terms), stepped.read(q)),
    }


def _batch(supply: Supply, T: int, d_k: int, d_v: int) -> dict[str, Any]:
    """One mini-batch of all tokens, with rates of tokens and of readers."""
    q, k, v = tokens(supply, T, d_k, d_v)
    return {
        **{"q": q, "k": k, "v": v, "beta": supply.rate("beta", T)},
        **{"reader_rate": supply.rate("r", T), "inner_batch": T},
        "S": Training.start(Linear(supply.real("W", d_k, d_v))),
    }


def _printed_matrices(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    x = _batch(supply, T, d_k, d_v)
    o, _ = ttt_linear.recurrent(**x)
    W, G = x["S"].f.W, x["k"] @ x["S"].f.W - x["v"]
    letters = {"Q": x["q"], "K": x["k"], "V": x["v"], "O": o, "W_0": W, "G": G}
    return Numbers(letters | {r"\beta": x["beta"], "r": x["reader_rate"]})


def _printed_tokens(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    """A mini-batch of TTT-Linear, token by token, and the learner after each."""
    x = _batch(supply, T, d_k, d_v) | {"reader_rate": None, "inner_batch": T + 1}
    q, k, v, beta, S = (x[name] for name in ("q", "k", "v", "beta", "S"))
    answers, ends, W = [], [S.f.W], S.f.W
    for i in range(T):
        given = {"beta": beta[i], "S": S, "inner_batch": T + 1}
        o, S = ttt_linear.step(q[i], k[i], v[i], **given)
        answers.append(o)
        ends.append(W - S.total.W)
    letters = {"q": q, "k": k, "v": v, r"\beta": beta, "g": k @ W - v}
    letters["o"] = np.array(answers)
    rows = {"W": Rows(np.array(ends), first=0)}
    return Numbers(letters | rows, {"i": range(1, T + 1), "j": range(1, T + 1)})


def _printed_plain_matrices(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    """The same where every reader sees the whole step."""
    x = _batch(supply, T, d_k, d_v) | {"reader_rate": None}
    letters = {"Q": x["q"], "K": x["k"], "V": x["v"], r"\beta": x["beta"]}
    letters |= {"O": ttt_linear.recurrent(**x)[0], "W_0": x["S"].f.W}
    return Numbers(letters)


@identity(
    title="A mini-batch at once: a mask of rates, scores, and errors at the start",
    statement=r"G = K W_0 - V, \quad"
    r" O = Q W_0 - \left(r \beta^\top \odot \mathrm{tril}(Q K^\top)\right) G",
    source="sun2024ttt, the dual form; the readers' rates as in its code",
    citations=("sun2024ttt",),
    chapter=CHAPTER,
    equations=("def-mini-batch", "eq-mini-batch-matrices"),
    printed={
        "def-mini-batch": AsPrinted(numbers=_printed_tokens),
        STATEMENT: AsPrinted(numbers=_printed_matrices),
        "eq-mini-batch-matrices": AsPrinted(numbers=_printed_plain_matrices),
    },
    mutants={
        "later tokens are seen": {"causal": False},
        "a token does not see itself": {"diagonal": -1},
        "readers' and tokens' rates exchanged": {"exchanged": True},
        "the errors are the values": {"start": 0},
    },
)
def matrices(
    supply: Supply,
    T: int,
    d_k: int,
    d_v: int,
    *,
    causal: bool = True,
    diagonal: int = 0,
    exchanged: bool = False,
    start: int = 1,
) -> Sides:
    """The recurrence of TTT-Linear, against four products."""
    x = _batch(supply, T, d_k, d_v)
    o, _ = ttt_linear.recurrent(**x)
    q, k, W = x["q"], x["k"], x["S"].f.W
    rates = np.outer(x["reader_rate"], x["beta"])
    scores = (rates.T if exchanged else rates) * (q @ k.T)
    scores = np.tril(scores, diagonal) if causal else scores
    return o, q @ W - scores @ (start * k @ W - x["v"])


def _printed_block(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    x = _batch(supply, T, d_k, d_v)
    W = x["S"].f.W
    x["reader_rate"] = x["reader_rate"] ** 0
    after = ttt_linear.recurrent(**x)[1].f.W
    letters = {"K": x["k"], "V": x["v"], r"\beta": x["beta"], "W_b": after}
    return Numbers(letters | {"W": Rows(np.array([W, after]), first=0)})


def _free_block(*, erase: int = 1) -> Sides:
    """Any matrices of keys, rates and values, and any start."""
    import sympy

    W, K, K_T, B, V = sympy.symbols("W K K^T B V", commutative=False)
    return W - K_T * B * (K * W - V), (1 - erase * K_T * B * K) * W + K_T * B * V


@identity(
    title="From batch to batch it is a delta rule of all the batch's keys at once",
    statement=r"W_1 = (I - K^\top \mathrm{Diag}(\beta) K) W_0"
    r" + K^\top \mathrm{Diag}(\beta) V",
    source="ours; elementary",
    citations=("sun2024ttt",),
    chapter=CHAPTER,
    equations=("eq-block-delta",),
    printed={
        STATEMENT: AsPrinted(numbers=_printed_block),
        "eq-block-delta": AsPrinted(numbers=_printed_block),
    },
    free=_free_block,
    mutants={
        "one token after another": {"online": True},
        "nothing is erased": {"erase": 0},
        "the batch's rates are averaged": {"mean": True},
    },
    at={"symbols": {"T": 3}},
)
def block_delta(
    supply: Supply,
    T: int,
    d_k: int,
    d_v: int,
    *,
    online: bool = False,
    erase: int = 1,
    mean: bool = False,
) -> Sides:
    """The start of the next mini-batch, from any start of this one."""
    x = _batch(supply, T, d_k, d_v)
    x["reader_rate"] = x["reader_rate"] ** 0
    k, v, W = x["k"], x["v"], x["S"].f.W
    beta = x["beta"] / T if mean else x["beta"]
    written = k.T * beta
    right = W - erase * written @ (k @ W) + written @ v
    if online:
        right = delta_rule.recurrent(k, k, v, beta=beta, S=W)[1]
    return ttt_linear.recurrent(**x)[1].f.W, right


def _ones(supply: Supply, n: int) -> np.ndarray:
    """Tokens whose one entry is 1."""
    return supply.real("one", 1)[0] ** 0 * np.ones((n, 1), dtype=int)


def _three(supply: Supply, inner_batch: int, *, value: int = 1) -> dict[str, Any]:
    """What three tokens of key and value 1 are answered, by three mechanisms."""
    x = _ones(supply, 3)
    v, beta = value * x, x[:, 0]
    return {
        "o": ttt_linear.recurrent(x, x, v, beta=beta, inner_batch=inner_batch)[0],
        "d": delta_rule.recurrent(x, x, v, beta=beta)[0],
        "a": linear_attention.recurrent(x, x, v)[0],
    }


def _printed_three(supply: Supply) -> Numbers:
    x = dict.fromkeys("qkv", _ones(supply, 3)[:, 0])
    answers = {name: o[:, 0] for name, o in _three(supply, 2).items()}
    return Numbers(x | answers, {"t": range(1, 4)})


@identity(
    title="In mini-batches of two it is neither attention nor the delta rule",
    kind="counterexample",
    statement=r"q_t = k_t = v_t = 1, \quad o_1 = 1, \quad o_2 = 2 \ne 1 = d_2,"
    r" \quad o_3 = 1 \ne 3 = a_3",
    source="ours; that mini-batches break the theorem is sun2024ttt's remark",
    citations=("sun2024ttt",),
    chapter=CHAPTER,
    worlds=EXACT,
    printed={STATEMENT: AsPrinted(numbers=_printed_three, worlds=EXACT)},
    mutants={
        "one token in each, the delta rule": {"inner_batch": 1},
        "all tokens in one, linear attention": {"inner_batch": 3},
        "the values are zero": {"value": 0},
    },
)
def mini_batches(
    supply: Supply, *, inner_batch: int = 2, value: int = 1
) -> dict[str, Sides]:
    """Key and value 1, three times: 1, 2, 1 against 1, 1, 1 and 1, 2, 3."""
    answers = _three(supply, inner_batch, value=value)
    return {
        "the delta rule": (answers["o"], answers["d"]),
        "linear attention": (answers["o"], answers["a"]),
    }


def _started(supply: Supply, start: int, rate: int = 2, query: int = 1) -> np.ndarray:
    """The answer to one token of key and query 1 and value 0, from a start."""
    x = _ones(supply, 1)
    S = Training.start(Linear(start * x))
    return ttt_linear.recurrent(query * x, x, 0 * x, beta=x[:, 0] / rate, S=S)[0]


def _printed_start(supply: Supply) -> Numbers:
    x = _ones(supply, 1)[:, 0]
    letters = {"k": x, "q": x, "v": 0 * x, r"\beta": x / 2, "W_0": x[0]}
    return Numbers(letters | {"o": _started(supply, 1)[:, 0]})


@identity(
    title="From a start of its own it answers something to values that are all zero",
    kind="counterexample",
    statement=r"W_0 = k_1 = q_1 = 1, \quad v_1 = 0, \quad \beta_1 = \frac{1}{2}, \quad"
    r" o_1 = (1 - \beta_1 k_1^2) W_0 q_1 = \frac{1}{2} \ne 0 = (k_1 q_1) v_1",
    source="ours; that the learned start breaks the theorem is sun2024ttt's remark",
    citations=("sun2024ttt",),
    chapter=CHAPTER,
    worlds=EXACT,
    printed={STATEMENT: AsPrinted(numbers=_printed_start, worlds=EXACT)},
    mutants={
        "from zero": {"start": 0},
        "a step that erases all of the start": {"rate": 1},
        "a query of zero": {"query": 0},
    },
)
def learned_start(
    supply: Supply, *, start: int = 1, rate: int = 2, query: int = 1
) -> Sides:
    """Attention of any kind weighs values, and so answers zero."""
    answer = _started(supply, start, rate, query)
    return answer, 0 * answer


def _normed(
    supply: Supply, value: int, *, norm: bool = True, rate: int = 1
) -> np.ndarray:
    """The layer's answer after two tokens, whose values are scaled by `value`."""
    one = supply.real("one", 1)[0] ** 0
    k = one * np.eye(3, dtype=int)[:2]
    v = value * one * np.array([[0, 0, 1], [0, 1, 0]])
    q = one * np.ones((2, 3), dtype=int)
    S = Training.start(Affine(one * np.diag([1, 2, 4]), 0 * q[0]))
    gains = one * np.array([[1, 1, 1], [0, 0, 0]]) if norm else None
    return ttt_linear.recurrent(q, k, v, beta=rate * q[:, 0] / 2, S=S, norm=gains)[0][1]


@identity(
    title="With a layer norm the answer is no longer linear in the values",
    kind="counterexample",
    statement=r"o(2 v) - o(v) \ne o(v) - o(0)",
    source="ours; that the norm breaks the theorem is sun2024ttt's remark",
    citations=("sun2024ttt",),
    chapter=CHAPTER,
    worlds=EXACT,
    printed={
        STATEMENT: AsPrinted(
            numbers=lambda supply: Numbers(
                {"v": 1, "o": lambda value: _normed(supply, int(value))}
            ),
            worlds=EXACT,
        )
    },
    mutants={
        "without the norm": {"norm": False},
        "the values stay": {"twice": 1, "none": 1},
        "nothing is learned": {"rate": 0},
    },
)
def layer_norm(
    supply: Supply, *, norm: bool = True, twice: int = 2, none: int = 0, rate: int = 1
) -> Sides:
    """Attention of any kind is linear in the values, and from a start it is affine.

    Here the first entry moves by 0.38, and then by 0.20.
    """
    o = {n: _normed(supply, n, norm=norm, rate=rate) for n in (none, 1, twice)}
    return o[twice] - o[1], o[1] - o[none]


def _averaged(x: dict[str, Any]) -> dict[str, Any]:
    """Readers' rates 1, 1/2, 1/3, ... as in the released code."""
    one = x["beta"][0] ** 0
    return x | {"reader_rate": np.array([one / (i + 1) for i in range(len(x["k"]))])}


def _printed_average(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    x = _averaged(_batch(supply, T, d_k, d_v))
    letters = {name: x[name] for name in "qkv"} | {"W_0": x["S"].f.W}
    letters |= {"o": ttt_linear.recurrent(**x)[0], r"\beta": x["beta"]}
    return Numbers(letters, {"i": range(1, T + 1), "j": range(1, T + 1)})


@identity(
    title="As released, a reader sees the mean of the steps so far",
    statement=r"o_i = W_0^\top q_i + \frac{1}{i}"
    r" \sum_{j=1}^{i} \beta_j (k_j^\top q_i) (v_j - W_0^\top k_j)",
    source="sun2024ttt, its released code",
    citations=("sun2024ttt",),
    chapter=CHAPTER,
    equations=("eq-released-mean",),
    printed={
        STATEMENT: AsPrinted(numbers=_printed_average),
        "eq-released-mean": AsPrinted(numbers=_printed_average),
    },
    mutants={
        "the sum, as in the paper": {"power": 0},
        "the mean over the whole mini-batch": {"whole": True},
        "each step by its own place": {"own": True},
    },
)
def averaging(
    supply: Supply,
    T: int,
    d_k: int,
    d_v: int,
    *,
    power: int = 1,
    whole: bool = False,
    own: bool = False,
) -> Sides:
    """The last reader but one of a mini-batch, from any start."""
    x = _averaged(_batch(supply, T, d_k, d_v))
    o, i, W = ttt_linear.recurrent(**x)[0], T - 1, x["S"].f.W
    k, q = x["k"][:i], x["q"][i - 1]
    places = np.arange(1, i + 1) if own else (T if whole else i) ** power
    weights = x["beta"][:i] * (k @ q) / places
    return o[i - 1], W.T @ q + weights @ (x["v"][:i] - k @ W)


def _printed_sum(supply: Supply) -> Numbers:
    paper, code = _paper_and_code(supply)
    x = dict.fromkeys("qkv", _ones(supply, 2)[:, 0])
    answers = {"o": paper[:, 0], r"\hat{o}": code[:, 0]}
    return Numbers(x | answers, {"t": range(1, 3)})


def _paper_and_code(supply: Supply, n: int = 2, value: int = 1) -> tuple[Any, Any]:
    x = _ones(supply, n)
    given = {"q": x, "k": x, "v": value * x, "beta": x[:, 0], "inner_batch": n}
    forms = (given, _averaged(given))
    return tuple(ttt_linear.recurrent(**y)[0] for y in forms)


@identity(
    title="The released mean is not the sum that the paper prints",
    kind="counterexample",
    statement=r"q_t = k_t = v_t = 1, \quad o_1 = \hat{o}_1 = 1, \quad o_2 = 1 + 1 \ne"
    r" \frac{1 + 1}{2} = \hat{o}_2",
    source="ours; sun2024ttt and its released code",
    citations=("sun2024ttt",),
    chapter=CHAPTER,
    worlds=EXACT,
    printed={STATEMENT: AsPrinted(numbers=_printed_sum, worlds=EXACT)},
    mutants={
        "mini-batches of one token": {"n": 1},
        "the values are zero": {"value": 0},
    },
)
def average_is_not_sum(supply: Supply, *, n: int = 2, value: int = 1) -> Sides:
    """Key and value 1, twice, in one mini-batch."""
    paper, code = _paper_and_code(supply, n, value)
    return paper[-1], code[-1]


def _answers(x: dict[str, Any], W: np.ndarray, v: np.ndarray, **others: Any) -> Any:
    """What the tokens of x are answered from the start W, told the values v."""
    S = Training.start(Linear(W))
    return ttt_linear.recurrent(**(x | {"S": S, "v": v} | others))[0]


def _printed_shift(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    x = _batch(supply, T, d_k, d_v) | {"reader_rate": None, "inner_batch": 2}
    W, v = x["S"].f.W, x["v"]

    def f(start: Any, values: Any) -> np.ndarray:
        W_0 = np.broadcast_to(np.asarray(start), W.shape)
        return _answers(x, W_0.astype(W.dtype), values)

    return Numbers({"Q": x["q"], "K": x["k"], "V": v, "W_0": W, "f": f})


@identity(
    title="A start is taken off the values, and what it says is added to the answers",
    statement=r"f(W_0, V) = Q W_0 + f(0 W_0, V - K W_0)",
    source="ours; elementary",
    equations=("eq-shifted-start",),
    printed={"eq-shifted-start": AsPrinted(numbers=_printed_shift)},
    chapter=CHAPTER,
    mutants={
        "what the start says is not added": {"read": 0},
        "it is not taken off the values": {"known": 0},
        "it is taken off as the query sees it": {"at": "q"},
    },
)
def shifted_start(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    read: int = 1,
    known: int = 1,
    at: str = "k",
) -> dict[str, Sides]:
    """One token more, in the midst of a mini-batch of two and at its end.

    X is any learner, and Y any sum of the gradients so far.
    """
    q, k, v = (x[0] for x in tokens(supply, 1, d_k, d_v))
    W, X, Y = (supply.real(x, d_k, d_v) for x in "WXY")
    beta, rates = supply.rate("beta", 1)[0], supply.rate("r", 2)
    value = v - known * W.T @ (k if at == "k" else q)

    def told(start: np.ndarray, v: np.ndarray, seen: int) -> tuple[Any, Training]:
        S = Training(Linear(start), Linear(Y), np.asarray(seen * q[0] ** 0))
        return ttt_linear.step(
            q, k, v, beta=beta, reader_rate=rates, S=S, inner_batch=2
        )

    sides = {"base": (read * W.T @ q + X.T @ q, (W + X).T @ q)}
    for name, seen in (("step", 0), ("the last of a mini-batch", 1)):
        o, S = told(W + X, v, seen)
        short, T = told(X, value, seen)
        left = flat(o, S.f.W - W, S.total.W)
        sides[name] = left, flat(read * W.T @ q + short, T.f.W, T.total.W)
    return sides


def _printed_outer(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    x = _batch(supply, T, d_k, d_v) | {"reader_rate": None}
    R, W = supply.real("R", T, d_v), x["S"].f.W
    Gamma = slope(lambda W: (R * _answers(x, W, x["v"])).sum(), W)
    letters = {"Q": x["q"], "K": x["k"], "R": R, r"\beta": x["beta"]}
    return Numbers(letters | {r"\Gamma": Gamma})


@identity(
    title="How an outer loss reaches the start: by what is asked, less what is told",
    statement=r"\Gamma = Q^\top R - K^\top \mathrm{Diag}(\beta)"
    r" \, \mathrm{tril}(Q K^\top)^\top R",
    source="ours; elementary",
    equations=("eq-outer-slope",),
    printed={"eq-outer-slope": AsPrinted(numbers=_printed_outer)},
    chapter=CHAPTER,
    mutants={
        "learning does not see the start": {"told": 0},
        "the scores are not turned over": {"turned": False},
        "later tokens learn from earlier readers": {"causal": False},
    },
    at={"floats": {"T": 6}},
)
def outer_slope(
    supply: Supply,
    T: int,
    d_k: int,
    d_v: int,
    *,
    told: int = 1,
    turned: bool = True,
    causal: bool = True,
) -> Sides:
    """The slope at the start of any loss whose slopes at the answers are R."""
    x = _batch(supply, T, d_k, d_v) | {"reader_rate": None}
    R, W, q, k = supply.real("R", T, d_v), x["S"].f.W, x["q"], x["k"]
    found = slope(lambda W: (R * _answers(x, W, x["v"])).sum(), W)
    scores = np.tril(q @ k.T) if causal else q @ k.T
    scores = scores.T if turned else scores
    return found, q.T @ R - told * (k.T * x["beta"]) @ scores @ R


def _perceptron(supply: Supply, T: int, d_k: int, d_v: int) -> dict[str, Any]:
    """One mini-batch for a learner of two layers, three hidden units wide."""
    q, k, v = tokens(supply, T, d_k, d_v)
    f = Perceptron(
        *(supply.real("W", d_k, 3), supply.real("a", 3)),
        *(supply.real("U", 3, d_v), supply.real("c", d_v)),
    )
    beta = supply.small("beta", T)
    return {"q": q, "k": k, "v": v, "beta": beta, "S": Training.start(f)}


def _printed_two(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    x = _perceptron(supply, T, d_k, d_v)
    o, _ = ttt_mlp.recurrent(**x, inner_batch=T)
    f, k = x["S"].f, x["k"]
    seen = k @ f.W_1 + f.b_1
    g = f.read(k) - x["v"]
    back = (g @ f.W_2.T) * inner.gelu_slope(seen)
    steps = np.tril(np.broadcast_to(x["beta"], (T, T)))
    first, _ = f.layers()
    y = inner.gelu(first.read_after(x["q"], k, back, steps, [(np.ones(T), first)]))
    letters = {
        **{"q": x["q"], "k": k, "o": o, r"\beta": x["beta"], "x": seen, "y": y},
        **{"W_0": f.W_1, "a": f.b_1, "U_0": f.W_2, "c": f.b_2, "g": g, "p": back},
        **{"h": inner.gelu(seen), r"\varphi": inner.gelu},
        r"\varphi'": inner.gelu_slope,
    }
    return Numbers(letters, {"i": range(1, T + 1), "j": range(1, T + 1)})


@identity(
    title="Two layers in the dual form: the second is asked what the first has learned",
    statement=r"x_j = W_0^\top k_j + a, \quad h_j = \varphi(x_j), \quad"
    r" p_j = (U_0 g_j) \odot \varphi'(x_j), \quad"
    r" y_i = \varphi(W_0^\top q_i + a"
    r" - \sum_{j=1}^{i} \beta_j (k_j^\top q_i + 1) p_j), \quad"
    r" o_i = U_0^\top y_i + c - \sum_{j=1}^{i} \beta_j (h_j^\top y_i + 1) g_j",
    source="sun2024ttt, the dual form of TTT-MLP",
    citations=("sun2024ttt",),
    equations=("eq-two-layers",),
    printed={"eq-two-layers": AsPrinted(numbers=_printed_two, worlds=("floats",))},
    chapter=CHAPTER,
    worlds=("floats",),
    mutants={
        "the second layer is asked at the start": {"asked": False},
        "the slope does not come through the gelu": {"through": False},
        "a layer's bias does not learn": {"bias": 0},
    },
    at={"floats": {"T": 6}},
)
def two_layers(
    supply: Supply,
    T: int,
    d_k: int,
    d_v: int,
    *,
    asked: bool = True,
    through: bool = True,
    bias: int = 1,
) -> Sides:
    """Token by token with weights, against the two dual forms."""
    x = _perceptron(supply, T, d_k, d_v)
    o, _ = ttt_mlp.recurrent(**x, inner_batch=T)
    f, q, k, v = x["S"].f, x["q"], x["k"], x["v"]
    seen = k @ f.W_1 + f.b_1
    g, h = f.read(k) - v, inner.gelu(seen)
    back = (g @ f.W_2.T) * (inner.gelu_slope(seen) if through else 1)
    steps = np.tril(np.broadcast_to(x["beta"], (T, T)))
    moved = (steps * (q @ k.T + bias)) @ back if asked else 0
    y = inner.gelu(q @ f.W_1 + f.b_1 - moved)
    return o, y @ f.W_2 + f.b_2 - (steps * (h @ y.T + bias).T) @ g
