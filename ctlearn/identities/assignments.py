"""Programs of assignments: the one memory runs them, and every live line counts.

Variables are the rows of a state of one column. A line with target axis k and number c
sets its target to c + r'S, where r counts the variables on its right side.
"""

from typing import Any

import numpy as np

from ctlearn import memory
from ctlearn.identities.engine import STATEMENT, Sides, identity
from ctlearn.printed import AsPrinted, Numbers, Rows
from ctlearn.supplies import Supply

CHAPTER = "16_a_lifetime_of_context"

Array = np.ndarray


def _lines(supply: Supply, T: int, d_k: int) -> tuple[Array, Array, Array]:
    """Targets in turn, right sides of any numbers at all, and what is added."""
    one = supply.positive("one", 1)[0] ** 0
    k = np.eye(d_k, dtype=int)[np.arange(T) % d_k] * one
    return k, supply.real("r", T, d_k), supply.real("c", T)


def _states(k: Array, r: Array, c: Array, S: Array) -> list[Array]:
    """The states of the one memory, from S [d_k] on."""
    states = [S]
    for k_t, r_t, c_t in zip(k, r, c, strict=True):
        z = np.asarray(c_t)[None]
        _, S_t = memory.step(k_t, k_t, z, e=k_t - r_t, S=states[-1][:, None])
        states.append(S_t[:, 0])
    return states


def _assigned(S: Array, target: int, told: Any) -> Array:
    """The state after an assignment, as one writes it."""
    after = S.copy()
    after[target] = told
    return after


def _run_numbers(supply: Supply, T: int, d_k: int) -> Numbers:
    k, r, c = _lines(supply, T, d_k)
    S = [supply.real("S", d_k)]
    for t in range(T):
        S.append(_assigned(S[-1], t % d_k, c[t] + r[t] @ S[-1]))
    letters = {"k": k, "r": r, "c": c, "e": k - r, "S": Rows(np.array(S), first=0)}
    return Numbers(letters, {"t": range(1, T + 1)})


@identity(
    title="An assignment is a write of the one memory: it erases what it does not use",
    statement=r"S_t = S_{t-1} + k_t (c_t - e_t^\top S_{t-1}), \quad e_t = k_t - r_t",
    source="ours; the task is that of mcdermott2026, section 3",
    citations=("mcdermott2026",),
    equations=("eq-assignment",),
    printed=dict.fromkeys(
        (STATEMENT, "eq-assignment"), AsPrinted(numbers=_run_numbers)
    ),
    chapter=CHAPTER,
    mutants={
        "the target is not erased": {"erased": 0},
        "the right side is taken off twice": {"used": 2},
        "the right side is read after the write": {"late": True},
    },
)
def assignment(
    supply: Supply, d_k: int, *, erased: int = 1, used: int = 1, late: bool = False
) -> dict[str, Sides]:
    """A line from any state, with the right side of any numbers of all variables."""
    k, r, c = (x[0] for x in _lines(supply, 1, d_k))
    S = supply.real("S", d_k)
    e = erased * k - used * r
    _, after = memory.step(k, k, np.array([c]), e=e, S=S[:, None])
    told = c + r @ S
    if late:
        told = c + r @ _assigned(S, 0, told)
    nothing = memory.recurrent(k[None][:0], k[None][:0], S[None, :1][:0], S=S[:, None])
    return {
        "base": (nothing[1][:, 0], S),
        "step": (after[:, 0], _assigned(S, 0, told)),
    }


def _walk(supply: Supply, T: int, d_k: int) -> tuple[dict[str, Any], list[Array]]:
    """Lines, states from any start, and the walk back from any question."""
    k, r, c = _lines(supply, T, d_k)
    S = _states(k, r, c, supply.real("S", d_k))
    g = [supply.real("q", d_k)]
    for t in reversed(range(T)):
        a = k[t] @ g[0]
        g.insert(0, g[0] + a * (r[t] - k[t]))
    a = np.array([k[t] @ g[t + 1] for t in range(T)])
    letters = {"k": k, "r": r, "c": c, "a": a, "q": g[-1], "T": T}
    return letters | {"S": Rows(np.array(S), first=0)}, g


def _walk_numbers(supply: Supply, T: int, d_k: int) -> Numbers:
    letters, g = _walk(supply, T, d_k)
    letters |= {"g": Rows(np.array(g), first=0)}
    return Numbers(letters, {"t": range(1, T + 1)})


def _walk_free(*, passed: int = 1, kept: int = 1) -> Sides:
    """One line in any dimension: g'S after it, by g and S before it."""
    import sympy

    g_T, k, r_T, k_T, S = sympy.symbols("g^T k r^T k^T S", commutative=False)
    c = sympy.Symbol("c")
    a = g_T * k
    before = kept * g_T + a * (passed * r_T - k_T)
    return g_T * (S + k * (c - (k_T - r_T) * S)), before * S + a * c


@identity(
    title="Walking back from a question counts the ways from each line to its answer",
    statement=r"a_t = k_t^\top g_t, \quad g_{t-1} = g_t + a_t (r_t - k_t), \quad"
    r" g_T = q, \quad q^\top S_T = g_0^\top S_0 + \sum_{t=1}^{T} a_t c_t",
    source="ours; reverse accumulation",
    citations=("mcdermott2026",),
    equations=("eq-walk-back",),
    printed=dict.fromkeys(
        (STATEMENT, "eq-walk-back"), AsPrinted(numbers=_walk_numbers)
    ),
    free=_walk_free,
    chapter=CHAPTER,
    mutants={
        "the right side gets nothing": {"passed": 0},
        "the right side gets it twice": {"passed": 2},
        "the count is lost on the way": {"kept": 0},
    },
)
def walk_back(
    supply: Supply, d_k: int, *, passed: int = 1, kept: int = 1
) -> dict[str, Sides]:
    """No line, and one line more at the front of any others, which g stands for."""
    k, r, c = (x[0] for x in _lines(supply, 1, d_k))
    S, g = supply.real("S", d_k), supply.real("g", d_k)
    after = _states(k[None], r[None], np.array([c]), S)[1]
    a = k @ g
    before = kept * g + a * (passed * r - k)
    return {
        "base": (np.asarray(g @ S), np.asarray(g @ S + 0 * a)),
        "step": (np.asarray(g @ after), np.asarray(before @ S + a * c)),
    }


def _lost_numbers(supply: Supply, T: int, d_k: int) -> Numbers:
    """The second line sets rho in one run, and another number in the other."""
    letters, _ = _walk(supply, T, d_k)
    two, z = supply.real("rho", 2), []
    for told in two:
        k, r, c = (np.array(letters[name]) for name in "krc")
        r[1], c[1] = 0 * r[1], told
        z.append(letters["q"] @ _states(k, r, c, letters["S"].array[0])[-1])
    rho = {r"\rho": two[0], r"\rho^\prime": two[1]}
    given = {"z": z[0], r"z^\prime": z[1], "a": letters["a"]}
    return Numbers(rho | given, {"j": range(2, 3)})


@identity(
    title="A lost line is missed as many times as there are ways from it to the answer",
    statement=r"z - z^\prime = a_j (\rho - \rho^\prime)",
    source="ours; the claim of mcdermott2026, section 3, and its condition",
    citations=("mcdermott2026",),
    equations=("eq-lost-line",),
    printed=dict.fromkeys(
        (STATEMENT, "eq-lost-line"), AsPrinted(numbers=_lost_numbers)
    ),
    chapter=CHAPTER,
    mutants={
        "the ways to the line before it": {"line": 0},
        "it still uses its right side": {"used": 1},
        "each way counts twice": {"times": 2},
    },
    at={"symbols": {"T": 4, "d_k": 3}},
)
def lost_line(
    supply: Supply, T: int, d_k: int, *, line: int = 1, used: int = 0, times: int = 1
) -> dict[str, Sides]:
    """The answers of two programs that differ in what their second line sets."""
    T = T + 2
    letters, _ = _walk(supply, T, d_k)
    rho, said = supply.real("rho", 2), []
    for i, told in enumerate(rho):
        k, r, c = (np.array(letters[name]) for name in "krc")
        r[1], c[1] = used * i * r[1], told
        said.append(letters["q"] @ _states(k, r, c, letters["S"].array[0])[-1])
    a = letters["a"][line]
    return {"apart": (np.asarray(said[0] - said[1]), times * a * (rho[0] - rho[1]))}


def _two_variables(supply: Supply, d_k: int) -> tuple[Array, Array]:
    """Axes of two variables, which may lie in any directions, and a state."""
    w = supply.unit("w", 1, d_k)[0]
    u = np.eye(d_k, dtype=int) - 2 * np.outer(w, w)
    return u[:2], supply.real("S", d_k)


def _copy_numbers(supply: Supply, d_k: int) -> Numbers:
    u, S = _two_variables(supply, d_k)
    return Numbers({"u": u, "S": S})


@identity(
    title="To copy a variable can stretch a state by the root of two",
    statement=r"\lVert (I - u_1 (u_1 - u_2)^\top) S \rVert^2 ="
    r" \lVert S \rVert^2 - (u_1^\top S)^2 + (u_2^\top S)^2",
    source="ours; no delta step with a strength from 0 to 2 stretches anything",
    equations=("eq-copy",),
    worlds=("rationals", "floats"),
    printed=dict.fromkeys(
        (STATEMENT, "eq-copy"),
        AsPrinted(
            numbers=_copy_numbers,
            worlds=("rationals", "floats"),
            equivalent={"- → + (line 1, column 22)": "a copy of minus y is as long"},
        ),
    ),
    chapter=CHAPTER,
    mutants={
        "added, not copied": {"erased": 0},
        "what was there stays in the sum": {"lost": 0},
        "the copy is not one more": {"more": 0},
    },
)
def copying(
    supply: Supply, d_k: int, *, erased: int = 1, lost: int = 1, more: int = 1
) -> Sides:
    """The line x <- y of the one memory, on any state."""
    u, S = _two_variables(supply, d_k)
    e = erased * u[0] - u[1]
    _, after = memory.step(u[0], u[0], 0 * S[:1], e=e, S=S[:, None])
    told = S @ S - lost * (u[0] @ S) ** 2 + more * (u[1] @ S) ** 2
    return np.asarray((after * after).sum()), np.asarray(told)
