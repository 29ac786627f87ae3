"""MesaNet beside linear attention: what the solve adds, and when nothing is left of it.

W solves (H + Lambda) W = S, where linear attention would answer with S itself.
"""

from typing import Any

import numpy as np

from ctlearn.identities.engine import STATEMENT, Sides, identity
from ctlearn.identities.tokens import mesa_inputs
from ctlearn.mixers import gated_linear_attention, mesa_net
from ctlearn.printed import AsPrinted, Numbers
from ctlearn.supplies import Supply
from ctlearn.systems import solve

CHAPTER = "11_test_time_regression"
EXACT = ("rationals", "floats")


def _attention(x: dict[str, Any]) -> np.ndarray:
    """Gated linear attention on the same decays, with values weighed by beta."""
    d_k = x["k"].shape[1]
    rows = np.repeat(x["log_decay"][:, None], d_k, axis=1)
    values = x["beta"][:, None] * x["v"]
    return gated_linear_attention.recurrent(x["q"], x["k"], values, log_decay=rows)[0]


def _free_whitening(*, back: bool = False) -> Sides:
    """In any dimension: S is (H + Lambda) W, and H and Lambda are symmetric."""
    import sympy

    H, ridge, W, q_T = sympy.symbols("H Lambda W q^T", commutative=False)
    S = (H + ridge) * W
    asked = q_T if back else q_T * (H + ridge)
    return q_T * S, asked * W


def _printed_whitening(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    x = mesa_inputs(supply, T, d_k, d_v)
    o, S = _attention(x), mesa_net.recurrent(**x)[1]
    W = _map(S, x["ridges"])
    letters = {"q": x["q"], "o": o, "H": S.H, "W": W, "t": T}
    return Numbers(
        letters | {r"\lambda": x["ridges"], r"\Lambda": np.diag(x["ridges"])}
    )


def _map(S: mesa_net.State, ridges: np.ndarray) -> np.ndarray:
    A = S.H + np.diag(ridges)
    return np.array([solve(A, column) for column in S.S.T]).T


@identity(
    title="Linear attention asks regression's map with a query that H has stretched",
    statement=r"o_t = W^\top (H + \mathrm{Diag}(\lambda)) q_t",
    source="ours; wang2025ttr reads linear attention as H = I",
    citations=("wang2025ttr", "vonoswald2025mesanet"),
    worlds=EXACT,
    free=_free_whitening,
    equations=("eq-stretched-query",),
    printed=dict.fromkeys(
        (STATEMENT, "eq-stretched-query"),
        AsPrinted(
            numbers=_printed_whitening, worlds=EXACT, at={"rationals": {"d_k": 2}}
        ),
    ),
    chapter=CHAPTER,
    mutants={
        "the query as it is": {"back": True},
        "stretched by the keys alone": {"ridges": 0},
        "the values are not weighed": {"weighed": False},
    },
    at={"rationals": {"d_k": 3}, "floats": {"T": 20}},
)
def whitening(
    supply: Supply,
    T: int,
    d_k: int,
    d_v: int,
    *,
    back: bool = False,
    ridges: int = 1,
    weighed: bool = True,
) -> Sides:
    """The attention's last answer, and the reference asked at the stretched query."""
    x = mesa_inputs(supply, T, d_k, d_v)
    o, S = _attention(x if weighed else x | {"beta": x["beta"] ** 0}), _end(x)
    stretched = (S.H + ridges * np.diag(x["ridges"])) @ x["q"][-1]
    asked = x["q"].copy()
    asked[-1] = x["q"][-1] if back else stretched
    return o[-1], mesa_net.recurrent(**x | {"q": asked})[0][-1]


def _end(x: dict[str, Any]) -> mesa_net.State:
    return mesa_net.recurrent(**x)[1]


def _printed_heavy(supply: Supply, N: int, d_v: int) -> Numbers:
    k, v, q = supply.real("k", N, 2), supply.real("v", N, d_v), supply.real("q", 2)
    return Numbers({"K": k, "V": v, "q": q})


@identity(
    title="Under a heavy ridge MesaNet is linear attention, and fades",
    kind="limit",
    statement=r"\lim_{\lambda \to \infty}"
    r" \lambda V^\top K (K^\top K + \lambda I)^{-1} q = V^\top K q",
    source="ours",
    citations=("vonoswald2025mesanet",),
    worlds=("rationals",),
    printed={
        STATEMENT: AsPrinted(
            numbers=_printed_heavy,
            worlds=("rationals",),
            at={"rationals": {"N": 3, "d_v": 1}},
        )
    },
    chapter=CHAPTER,
    mutants={
        "the answer itself, which fades": {"power": 0},
        "a ridge of one": {"reached": False},
        "the values are not weighed": {"weighed": False},
    },
    at={"rationals": {"T": 2, "d_k": 2, "d_v": 2}},
)
def heavy_ridge(
    supply: Supply,
    T: int,
    d_k: int,
    d_v: int,
    *,
    power: int = 1,
    reached: bool = True,
    weighed: bool = True,
) -> Sides:
    """The reference with a symbol for all its ridges, times it, as it grows."""
    import sympy

    x = mesa_inputs(supply, T, d_k, d_v)
    ridge = sympy.Symbol("lambda", positive=True)
    o, _ = mesa_net.recurrent(**x | {"ridges": np.repeat(ridge, d_k)})

    def end(y: Any) -> Any:
        y = sympy.together(ridge**power * y)
        return sympy.limit(y, ridge, sympy.oo) if reached else y.subs(ridge, 1)

    plain = _attention(x if weighed else x | {"beta": x["beta"] ** 0})
    return np.array([end(y) for y in o[-1]]), plain[-1]


def _independent(supply: Supply, T: int, d_v: int, angle: int = 1) -> dict[str, Any]:
    """As many keys as channels, each along an axis and leaning to the one before."""
    x = mesa_inputs(supply, T, T, d_v)
    x["k"] = (np.eye(T, dtype=int) * angle + np.eye(T, k=-1, dtype=int)) * (
        x["v"][0, 0] ** 0
    )
    return x | {"q": x["k"]}


def _printed_recall(supply: Supply, T: int, d_v: int) -> Numbers:
    x = _independent(supply, T, d_v)
    return Numbers({"K": x["k"], "V": x["v"]})


@identity(
    title="Without a ridge regression recalls as many pairs as keys are independent",
    kind="limit",
    statement=r"\lim_{\lambda \to 0} K (K^\top K + \lambda I)^{-1} K^\top V = V",
    source="ours; elementary",
    citations=("vonoswald2025mesanet", "wang2025ttr"),
    worlds=("rationals",),
    printed={
        STATEMENT: AsPrinted(
            numbers=_printed_recall,
            worlds=("rationals",),
            at={"rationals": {"T": 2, "d_v": 1}},
            equivalent={
                "+ → - (line 1, column 34)": "zero has no sign",
                r"+ \lambda I → nothing (line 1, column 34)": "it is what goes to zero",
            },
        )
    },
    chapter=CHAPTER,
    mutants={
        "a ridge of one": {"ridge": 1},
        "a key that is the one before": {"angle": 0},
        "linear attention": {"solved": False},
    },
    at={"rationals": {"T": 3, "d_v": 2}},
)
def recall(
    supply: Supply,
    T: int,
    d_v: int,
    *,
    ridge: int = 0,
    angle: int = 1,
    solved: bool = True,
) -> Sides:
    """All keys asked after the last pair, whatever the decays and the rates."""
    import sympy

    x = _independent(supply, T, d_v, angle)
    small = sympy.Symbol("lambda", positive=True)
    S = mesa_net.recurrent(**x | {"ridges": np.repeat(small, T)})[1]
    W = _map(S, np.repeat(small, T)) if solved else S.S

    def end(y: Any) -> Any:
        return sympy.limit(sympy.together(y), small, ridge)

    read = x["k"] @ W
    return np.array([end(y) for y in read.ravel()]).reshape(read.shape), x["v"]


def _axes(supply: Supply, second: int = 3) -> tuple[Any, ...]:
    """Unit keys on the axes, values 1, ridges 1 and another, one step from zero."""
    one = supply.real("one", 1)[0] ** 0
    k = one * np.eye(2, dtype=int)
    ones = one * np.ones(2, dtype=int)
    given = {"v": ones[:, None], "log_decay": 0 * ones, "beta": ones}
    given |= {"ridges": np.array([one, second * one]), "steps": 1}
    return k, given


def _ratio(supply: Supply, second: int = 3, *, exactly: bool = False) -> np.ndarray:
    """The answer at each key, over linear attention's, which is 1 at both."""
    k, given = _axes(supply, second)
    given = given | ({"steps": None} if exactly else {})
    asked = [np.broadcast_to(q, k.shape) for q in k]
    return np.array([mesa_net.recurrent(q, k, **given)[0][-1, 0] for q in asked])


@identity(
    title="One step of conjugate gradients is not attention times one constant",
    kind="counterexample",
    statement=r"o_1 = \frac{1}{1 + 1} (k_1^\top k_1) v_1 = \frac{1}{2} \ne"
    r" \frac{1}{4} = \frac{1}{1 + 3} (k_2^\top k_2) v_2 = o_2",
    source="ours",
    citations=("vonoswald2025mesanet",),
    worlds=EXACT,
    printed={
        STATEMENT: AsPrinted(
            numbers=lambda supply: Numbers(
                {
                    "o": _ratio(supply),
                    "k": _axes(supply)[0],
                    "v": _axes(supply)[1]["v"][:, 0],
                }
            ),
            worlds=EXACT,
        )
    },
    chapter=CHAPTER,
    mutants={
        "one ridge for all": {"second": 1},
        "one ridge for all, and an exact solve": {"second": 1, "exactly": True},
        "the same key twice": {"other": 0},
    },
)
def not_one_constant(
    supply: Supply, *, second: int = 3, exactly: bool = False, other: int = 1
) -> Sides:
    """Each key asked: the number in front depends on the query."""
    o = _ratio(supply, second, exactly=exactly)
    return o[0], o[other]
