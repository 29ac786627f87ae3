"""Norms of transitions: which mechanisms can stretch what they hold, and how far."""

from typing import Any

import numpy as np

from ctlearn.identities.engine import STATEMENT, Sides, identity
from ctlearn.mixers import gated_delta_rule_2, kimi_delta_attention, rwkv7
from ctlearn.printed import AsPrinted, Numbers
from ctlearn.scalars import is_exact, log, sqrt
from ctlearn.supplies import Supply


def _erased(k: np.ndarray, b: np.ndarray, S: np.ndarray, alpha: Any = 1) -> np.ndarray:
    """What a token of gated delta rule 2 leaves of a state, its value zero."""
    nothing, log_decay = 0 * S[0], log(alpha + 0 * k)
    given = {"log_decay": log_decay, "b": b, "w": nothing, "S": S}
    return gated_delta_rule_2.step(k, k, nothing, **given)[1]


def _given_up(kappa: np.ndarray, a: np.ndarray, S: np.ndarray) -> np.ndarray:
    """What a token of RWKV-7 that does not decay leaves of a state, its value zero."""
    given = {"log_decay": 0 * kappa, "kappa": kappa, "a": a, "S": S}
    return rwkv7.step(kappa, kappa, 0 * S[0], **given)[1]


def _unit_matrix(k: np.ndarray) -> np.ndarray:
    return np.eye(len(k), dtype=int) * k[0] ** 0


def _det(M: np.ndarray) -> np.ndarray:
    import sympy

    return np.array([sympy.Matrix(M).det() if is_exact(M) else np.linalg.det(M)])


def _gate(supply: Supply, d_k: int) -> tuple[np.ndarray, np.ndarray, Any]:
    """Any key, any erase gate, and a number that is no eigenvalue."""
    k, b = supply.real("k", d_k), supply.real("b", d_k)
    k[0], b[0] = 1 + k[0] ** 2, 1 + b[0] ** 2
    return k, b, supply.real("l", 1)[0] + 5


def _printed(supply: Supply, d_k: int) -> Numbers:
    """The transition of gated delta rule 2 for any key and any erase gate."""
    k, b, lam = _gate(supply, d_k)
    letters = {"k": k, "b": b, "c": k @ (b * k), "f": (b * k) @ (b * k), "d_k": d_k}
    M = _erased(k, b, _unit_matrix(k))
    return Numbers(letters | {"M": M, r"\lambda": lam})


TURNED = "a product the other way round has the same eigenvalues"
PRINTED = {STATEMENT: AsPrinted(numbers=_printed, at={"symbols": {"d_k": 3}})}


@identity(
    title="Gated delta rule 2 has one eigenvalue of its own, 1 - k'(b * k)",
    statement=r"c = k^\top (b \odot k), \qquad \det(\lambda I - M) ="
    r" (\lambda - 1)^{d_k - 1} (\lambda - 1 + c), \qquad M = I - k (b \odot k)^\top",
    source="ours; hatamizadeh2026 for the transition",
    citations=("hatamizadeh2026",),
    printed=PRINTED,
    mutants={
        "all of the key is erased": {"gated": 0},
        "one eigenvalue of 1 too many": {"spare": 1},
        "a step the other way": {"sign": -1},
    },
    at={"symbols": {"d_k": 3}},
)
def own_eigenvalue(
    supply: Supply, d_k: int, *, gated: int = 1, spare: int = 0, sign: int = 1
) -> dict[str, Sides]:
    """The reference on the unit matrix; RWKV-7's is the transpose of such a one."""
    k, b, lam = _gate(supply, d_k)
    unit = _unit_matrix(k)
    last = lam - 1 + sign * (k @ (b**gated * k))
    told = (lam - 1) ** (d_k - 1 + spare) * np.array([last])
    M, other = _erased(k, b, unit), _given_up(k, b, unit)
    return {"polynomial": (_det(lam * unit - M), told), "transpose": (M.T, other)}


@identity(
    title="The two singular values that an erase gate moves, for any key and gate",
    statement=r"f = (b \odot k)^\top (b \odot k), \qquad"
    r" \det(\lambda I - M^\top M) = (\lambda - 1)^{d_k - 2}"
    r" \left(\lambda^2 - (2 - 2 c + f k^\top k) \lambda + (1 - c)^2\right)",
    source="ours",
    citations=("hatamizadeh2026", "peng2025goose"),
    printed={
        STATEMENT: AsPrinted(
            numbers=_printed,
            equivalent={r"M^\top M → M M^\top (line 1, column 59)": TURNED},
        )
    },
    mutants={
        "the gate's length does not matter": {"gate": 0},
        "the overlap counts once": {"times": 1},
        "the product of the two is 1": {"product": 0},
    },
)
def singular_values(
    supply: Supply, d_k: int, *, gate: int = 1, times: int = 2, product: int = 2
) -> dict[str, Sides]:
    """The squared singular values, by gated delta rule 2 and by RWKV-7."""
    k, b, lam = _gate(supply, d_k)
    unit, e = _unit_matrix(k), b * k
    c = k @ e
    total = 2 - times * c + gate * (e @ e) * (k @ k)
    two = lam**2 - total * lam + (1 - c) ** product
    told = (lam - 1) ** (d_k - 2) * np.array([two])
    parts = {}
    for name, M in (
        ("erased", _erased(k, b, unit)),
        ("given up", _given_up(k, b, unit)),
    ):
        parts[name] = (_det(lam * unit - M.T @ M), told)
    return parts


def _binary(supply: Supply, d_k: int) -> tuple[np.ndarray, np.ndarray, Any]:
    """A unit key, a gate of zeros and ones, and what it lets through of the key."""
    k = supply.unit("k", 1, d_k)[0]
    b = np.arange(d_k) % 2 * k[0] ** 0
    return k, b, k @ (b * k)


def _printed_binary(supply: Supply, d_k: int) -> Numbers:
    k, b, c = _binary(supply, d_k)
    letters = {"k": k, "b": b, "c": c, "M": _erased(k, b, _unit_matrix(k))}
    return Numbers(letters | {r"\mu": _largest(c)})


def _largest(c: Any, *, inner: int = 3, outer: int = 2) -> Any:
    return (outer - c + sqrt(4 * c - inner * c**2)) / 2


TWO_WORLDS = ("rationals", "floats")


@identity(
    title="The squared norm of gated delta rule 2 for a gate of zeros and ones",
    statement=r"c = k^\top (b \odot k), \qquad"
    r" \mu = \frac{2 - c + \sqrt{4 c - 3 c^2}}{2}, \qquad \det(\mu I - M^\top M) = 0",
    source="ours",
    citations=("hatamizadeh2026",),
    printed={
        STATEMENT: AsPrinted(
            numbers=_printed_binary,
            worlds=TWO_WORLDS,
            # two channels: in more of them 1 is an eigenvalue, too
            at={"rationals": {"d_k": 2}, "floats": {"d_k": 2}},
            equivalent={r"M^\top M → M M^\top (line 1, column 96)": TURNED},
        )
    },
    worlds=TWO_WORLDS,
    mutants={
        "2 in the place of 3": {"inner": 2},
        "1 in the place of 2": {"outer": 1},
        "a gate of halves": {"half": 2},
    },
    at={"rationals": {"d_k": 4}},
)
def binary_gate(
    supply: Supply, d_k: int, *, inner: int = 3, outer: int = 2, half: int = 1
) -> dict[str, Sides]:
    """It is a squared singular value; in floats, the largest."""
    k, b, c = _binary(supply, d_k)
    unit, mu = _unit_matrix(k), _largest(c, inner=inner, outer=outer)
    M = _erased(k, b / half, unit)
    parts = {"a root": (_det(mu * unit - M.T @ M), 0 * k[:1])}
    if not is_exact(M):
        parts["the largest"] = (np.array([np.linalg.norm(M, 2)]) ** 2, np.array([mu]))
    return parts


def _any_overlap(supply: Supply) -> Numbers:
    c = supply.rate("c", 1)[0]
    return Numbers({"c": c, r"\mu": _largest(c)})


@identity(
    title="That norm is at most 4/3, where a third of the key is erased",
    kind="bound",
    statement=r"\frac{2 - c + \sqrt{4 c - 3 c^2}}{2} \le \frac{4}{3}, \qquad"
    r" \left(\frac{2}{3} + c\right)^2 - (4 c - 3 c^2) ="
    r" 4 \left(c - \frac{1}{3}\right)^2",
    source="ours",
    citations=("hatamizadeh2026",),
    printed={STATEMENT: AsPrinted(numbers=_any_overlap, worlds=TWO_WORLDS)},
    worlds=TWO_WORLDS,
    mutants={
        "a hundredth less": {"most": 397},
        "2 in the place of 3": {"inner": 2},
        "no norm above 1": {"most": 300},
    },
)
def at_most_four_thirds(supply: Supply, *, most: int = 400, inner: int = 3) -> Sides:
    """Drawn overlaps c, and a third, where the bound is met."""
    c = supply.rate("c", 8)
    c[-1] = c[-1] ** 0 / 3
    return np.array([_largest(x, inner=inner) for x in c]), most * c**0 / 300


def _gated(supply: Supply, d_k: int) -> Numbers:
    letters = {"k": supply.unit("k", 1, d_k)[0], "b": supply.rate("b", d_k)}
    letters |= {r"\alpha": supply.rate("a", d_k), "x": supply.real("x", d_k)}
    return Numbers(letters | {r"\beta": supply.double("c", 1)[0]})


@identity(
    title="No token of gated delta rule 2 stretches by more than 2 / sqrt(3)",
    kind="bound",
    statement=r"k^\top k = 1, \quad \lVert (I - k (b \odot k)^\top)"
    r" \mathrm{Diag}(\alpha) x \rVert^2 \le \frac{4}{3} \lVert x \rVert^2",
    source="ours",
    citations=("hatamizadeh2026",),
    equations=("eq-at-most",),
    printed=dict.fromkeys(
        (STATEMENT, "eq-at-most"), AsPrinted(numbers=_gated, worlds=TWO_WORLDS)
    ),
    chapter="09_gated_delta_rules",
    worlds=TWO_WORLDS,
    mutants={
        "nothing is stretched": {"thirds": 3},
        "the gate goes up to 2": {"most": 2},
        "a key twice as long": {"longer": 2},
    },
)
def stretched_at_most(
    supply: Supply, d_k: int, *, thirds: int = 4, most: int = 1, longer: int = 1
) -> dict[str, Sides]:
    """Any state, and the one that meets the bound, with and without decay."""
    x = _gated(supply, d_k).letters
    one = x["k"][0] ** 0
    k, b, y = _third(one)
    cases = {
        "drawn": (longer * x["k"], most * x["b"], x["x"], x[r"\alpha"]),
        "met": (longer * k, most * b, y, one),
    }
    parts = {}
    for name, (key, gate, at, alpha) in cases.items():
        after = _erased(key, gate, at[:, None], alpha)
        most_there = (at @ at) * thirds / 3
        parts[name] = (np.asarray((after**2).sum()), np.asarray(most_there))
    return parts


def _third(one: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A third of a key's square in the first channel, erased, and what grows most."""
    k = np.array([one, sqrt(2 * one)]) / sqrt(3 * one)
    return k, np.array([one, 0 * one]), np.array([one, -sqrt(2 * one)])


def _stretched(supply: Supply) -> Numbers:
    """The same, by the letters of both mechanisms, and what grows most by RWKV-7."""
    k, b, x = _third(supply.positive("c", 1)[0] ** 0)
    y = x * np.array([1, 2])
    return Numbers({"k": k, r"\hat{\kappa}": k, "b": b, "a": b, "x": x, "y": y})


@identity(
    title="One token of gated delta rule 2 can stretch what it meets",
    kind="counterexample",
    statement=r"k = \frac{1}{\sqrt{3}} \begin{pmatrix} 1 \\ \sqrt{2} \end{pmatrix},"
    r" \quad b = \begin{pmatrix} 1 \\ 0 \end{pmatrix}, \quad"
    r" x = \begin{pmatrix} 1 \\ -\sqrt{2} \end{pmatrix}, \quad"
    r" \lVert (I - k (b \odot k)^\top) x \rVert^2 = 4 \ne 3 = \lVert x \rVert^2",
    source="ours; against: eigenvalues in [0, 1] stretch nothing",
    citations=("hatamizadeh2026",),
    equations=("eq-stretch",),
    printed=dict.fromkeys(
        (STATEMENT, "eq-stretch"),
        AsPrinted(numbers=_stretched, worlds=("rationals",)),
    ),
    chapter="09_gated_delta_rules",
    worlds=("rationals",),
    mutants={
        "a reflection: both channels, at 2": {"second": 1},
        "nothing is erased": {"first": 0},
        "no memory": {"full": 0},
    },
)
def stretches(
    supply: Supply, *, first: int = 1, second: int = 0, full: int = 1
) -> Sides:
    """The squared length after and before."""
    k, b, x = _third(supply.positive("c", 1)[0] ** 0)
    gate = 2 * b**0 if second else first * b
    after = _erased(k, gate, full * x[:, None])
    return np.array([(after**2).sum()]), np.array([full * (x @ x)])


@identity(
    title="So can one token of RWKV-7 that does not decay",
    kind="counterexample",
    statement=r"\hat\kappa = \frac{1}{\sqrt{3}}"
    r" \begin{pmatrix} 1 \\ \sqrt{2} \end{pmatrix}, \quad"
    r" a = \begin{pmatrix} 1 \\ 0 \end{pmatrix}, \quad"
    r" y = \begin{pmatrix} 1 \\ -2 \sqrt{2} \end{pmatrix}, \quad"
    r" \lVert (I - (a \odot \hat\kappa) \hat\kappa^\top) y \rVert^2 = 12 \ne 9"
    r" = \lVert y \rVert^2",
    source="ours; against: a rate of giving up in [0, 1] stretches nothing",
    citations=("peng2025goose",),
    printed={STATEMENT: AsPrinted(numbers=_stretched, worlds=("rationals",))},
    worlds=("rationals",),
    mutants={
        "nothing is given up": {"rate": 0},
        "the question is at a right angle": {"turned": True},
        "no memory": {"full": 0},
    },
)
def rwkv7_stretches(
    supply: Supply, *, rate: int = 1, turned: bool = False, full: int = 1
) -> Sides:
    """The squared length after and before."""
    kappa, a, x = _third(supply.positive("c", 1)[0] ** 0)
    x = full * np.array([x[0], (1 if turned else 2) * x[1]])
    if turned:
        x = np.array([-kappa[1], kappa[0]])
    after = _given_up(kappa, rate * a, x[:, None])
    return np.array([(after**2).sum()]), np.array([x @ x])


def _alternating(supply: Supply) -> Numbers:
    """Two keys and gates, and the state that they multiply in turn."""
    one = supply.positive("c", 1)[0] ** 0
    short, long = one / sqrt(6 * one), sqrt(5 * one) / sqrt(6 * one)
    k, b = np.array([[short, long], [long, short]]), np.eye(2, dtype=int) * one
    return Numbers({"k": k, "b": b, "x": np.array([3 * one, -sqrt(5 * one)])})


@identity(
    title="Two tokens of gated delta rule 2 in turn multiply a state by 5/4, for ever",
    statement=r"k_1^\top k_1 = k_2^\top k_2 = 1, \qquad (I - k_2 (b_2 \odot k_2)^\top)"
    r" (I - k_1 (b_1 \odot k_1)^\top) x = \frac{5}{4} x",
    source="ours",
    citations=("hatamizadeh2026",),
    equations=("eq-for-ever",),
    printed=dict.fromkeys(
        (STATEMENT, "eq-for-ever"),
        AsPrinted(numbers=_alternating, worlds=TWO_WORLDS),
    ),
    chapter="09_gated_delta_rules",
    mutants={
        "the tokens in the other order": {"order": -1},
        "the second token alone": {"first": 1},
        "one gate for both channels": {"flat": True},
    },
)
def grows_for_ever(
    supply: Supply, *, order: int = 1, first: int = 0, flat: bool = False
) -> Sides:
    """Six tokens from (3, -sqrt 5): unit keys, gates of zeros and ones, no decay."""
    x = _alternating(supply).letters
    k, b, state = x["k"][::order], x["b"][::order], x["x"][:, None]
    now = state
    for _ in range(3):
        for t in range(first, 2):
            now = _erased(k[t], b[t] ** 0 if flat else b[t], now)
    return 64 * now, 125 * state


def _shared(supply: Supply) -> Numbers:
    p = supply.rate("p", 1)[0]
    s, t = sqrt(p), sqrt(1 - p)
    k, b = np.array([[s, t], [t, s]]), np.eye(2, dtype=int) * p**0
    M = [_erased(k[i], b[i], _unit_matrix(k[i])) for i in range(2)]
    return Numbers({"p": p, "M": np.array(M)})


@identity(
    title="Of such pairs of tokens 5/4 is the most, where a sixth is erased",
    statement=r"\det\left(\frac{5}{4} I - M_2 M_1\right) = \frac{(1 - 6 p)^2}{16}",
    source="ours",
    citations=("hatamizadeh2026",),
    printed={
        STATEMENT: AsPrinted(
            numbers=_shared,
            equivalent={"M_2 M_1 → M_1 M_2 (line 1, column 27)": TURNED},
        )
    },
    mutants={
        "a fifth is erased": {"sixths": 5},
        "another factor": {"top": 6},
        "one token twice": {"second": 0},
    },
)
def most_of_a_pair(
    supply: Supply, *, sixths: int = 6, top: int = 5, second: int = 1
) -> Sides:
    """Keys (p^1/2, (1-p)^1/2) and turned round; the first erases p, so the second."""
    x = _shared(supply).letters
    M, p = x["M"], x["p"]
    unit = _unit_matrix(M[0, 0] ** 0)
    gap = top * unit / 4 - M[second] @ M[0]
    return 16 * _det(gap), np.array([(1 - sixths * p) ** 2])


@identity(
    title="With one rate for erasing no token stretches, whatever the decay",
    kind="bound",
    statement=r"k^\top k = 1, \quad 0 \le \beta \le 2, \quad"
    r" \lVert (I - \beta k k^\top) \mathrm{Diag}(\alpha) x \rVert^2"
    r" \le \lVert x \rVert^2",
    source="ours; elementary. With equal alpha the gated delta rule, with 1 the plain",
    citations=("kimi2025", "yang2025gated"),
    printed={STATEMENT: AsPrinted(numbers=_gated, worlds=TWO_WORLDS)},
    worlds=TWO_WORLDS,
    mutants={
        "a key twice as long": {"longer": 2},
        "half as strong again": {"halves": 3},
        "a decay above 1": {"decay": -2},
    },
)
def one_rate_never_stretches(
    supply: Supply, d_k: int, *, longer: int = 1, halves: int = 2, decay: int = 1
) -> dict[str, Sides]:
    """Kimi delta attention at drawn rates, at equal ones, and at its ends."""
    x = _gated(supply, d_k).letters
    k, y = longer * x["k"], x["x"]
    flat, none = x[r"\alpha"][:1] + 0 * k, k[0] ** 0 + 0 * k
    beta, most = x[r"\beta"], halves * k[0] ** 0
    cases = {
        "a rate for each channel": (x[r"\alpha"], beta, y),
        "one rate": (flat, beta, y),
        "no decay, along the key": (none, most, k),
    }
    parts = {}
    for name, (alpha, rate, at) in cases.items():
        given = {"log_decay": decay * log(alpha), "beta": rate, "S": at[:, None]}
        after = kimi_delta_attention.step(k, k, 0 * y[:1], **given)[1]
        parts[name] = (np.asarray((after**2).sum()), np.asarray(at @ at))
    return parts
