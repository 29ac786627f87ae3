"""The one memory: a matrix that forgets, erases, writes and is read.

    F_t = Diag(a_t) S_{t-1}                      forget
    S_t = F_t + k_t (z_t - F_t' e_t)'            erase along e, write z, at key k
    o_t = S_t' q_t                               read

With `read_first` the erased answer is read before the memory forgets: S_{t-1}' e_t
takes the place of F_t' e_t. So a_t = 0 clears the memory for what follows, but with
`read_first` only where e_t = 0 too. A mechanism of the family is a choice of k, e, z
and a. One head: q, k, e [T, d_k], z [T, d_v], log_decay = log a [T] or [T, d_k], and
S [d_k, d_v].

Four plans compute the same thing. Each takes a state (or None, for zeros) and returns
(o, S); none writes to its arguments. Numbers may be floats, SymPy rationals or symbols.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ctlearn.scalars import exp, minus_infinity
from ctlearn.shapes import GLOSSARY, Shape, check_shape, checked, checked_step


@checked_step
def step(
    q: np.ndarray,
    k: np.ndarray,
    z: np.ndarray,
    *,
    e: np.ndarray | None = None,
    log_decay: Any = None,
    S: np.ndarray,
    read_first: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """Read one token: the definition, at 3 d_k d_v multiplications."""
    kept = S if log_decay is None else np.reshape(exp(log_decay), (-1, 1)) * S
    seen = S if read_first else kept
    u = z if e is None else z - seen.T @ e
    S = kept + np.outer(k, u)
    return S.T @ q, S


@checked
def recurrent(
    q: np.ndarray,
    k: np.ndarray,
    z: np.ndarray,
    *,
    e: np.ndarray | None = None,
    log_decay: np.ndarray | None = None,
    S: np.ndarray | None = None,
    read_first: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """One token after another, O(T d_k d_v)."""
    S = initial_state(k, z, S)
    return scan(step, q, k, z, e=e, log_decay=log_decay, S=S, read_first=read_first)


@checked
def parallel(
    q: np.ndarray,
    k: np.ndarray,
    z: np.ndarray,
    *,
    e: np.ndarray | None = None,
    log_decay: np.ndarray | None = None,
    S: np.ndarray | None = None,
    read_first: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """All tokens at once: one chunk of T, O(T^2 (d_k + d_v)).

    With vector decay the pairwise decays alone are a [T, T, d_k] array.
    """
    S = initial_state(k, z, S)
    return _chunk(q, k, z, e, log_decay, S, read_first)


@checked
def chunkwise(
    q: np.ndarray,
    k: np.ndarray,
    z: np.ndarray,
    *,
    e: np.ndarray | None = None,
    log_decay: np.ndarray | None = None,
    S: np.ndarray | None = None,
    chunk_size: int = 64,
    read_first: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """Chunks in turn, the state between them: O(T (C d_k + C d_v + d_k d_v))."""
    S = initial_state(k, z, S)
    o = np.empty_like(z)
    for start in range(0, len(k), chunk_size):
        c = slice(start, start + chunk_size)
        e_c = None if e is None else e[c]
        log_decay_c = None if log_decay is None else log_decay[c]
        o[c], S = _chunk(q[c], k[c], z[c], e_c, log_decay_c, S, read_first)
    return o, S


def _chunk(
    q: np.ndarray,
    k: np.ndarray,
    z: np.ndarray,
    e: np.ndarray | None,
    log_decay: np.ndarray | None,
    S: np.ndarray,
    read_first: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """One chunk of C tokens as matrix products.

    The only sequential part is the triangular system: what token i erases depends on
    what the tokens before it in the chunk have written.
    """
    D = decay_between(log_decay, k)
    after = D[1:]  # row i: what is kept once token i has forgotten
    before = D[:-1]  # row i: what is kept just before that
    u = z
    if e is not None:
        seen = before if read_first else after
        L = np.tril(pairs(e, k, seen[:, 1:]), -1)
        u = solve_unit_lower(L, z - (seen[:, 0] * e) @ S)
    o = (after[:, 0] * q) @ S + pairs(q, k, after[:, 1:]) @ u
    S = D[-1, 0][:, None] * S + (D[-1, 1:] * k).T @ u
    return o, S


def decay_between(log_decay: np.ndarray | None, k: np.ndarray) -> np.ndarray:
    """What is kept from boundary j to boundary i of C tokens: [C+1, C+1, 1 or d_k].

    Boundary 0 lies before the first token, boundary i after token i. An entry is the
    exp of a sum over the tokens between; for i < j it is zero. The sum runs over that
    segment alone. A difference of prefix sums would lose the digits of every decay
    that follows a strong one, could round to a positive exponent, and is NaN at minus
    infinity. The exponent is masked before exp, so nothing overflows on the way.
    """
    if log_decay is None:
        size = len(k) + 1
        return np.tril(np.ones((size, size), dtype=k.dtype))[:, :, None]
    return exp(log_decay_between(log_decay))


def log_decay_between(log_decay: np.ndarray) -> np.ndarray:
    """The exponents of `decay_between`, minus infinity where it is zero."""
    boundary = np.arange(len(log_decay) + 1)
    later = (boundary[:, None] > boundary)[:, :, None]
    # g[i] is what happens on the way to boundary i
    start = np.zeros((1, *log_decay.shape[1:]), dtype=log_decay.dtype)
    g = np.concatenate([start, log_decay]).reshape(len(boundary), -1)
    segments = np.cumsum(np.where(later, g[:, None], 0), axis=0)
    return np.where(later.swapaxes(0, 1), minus_infinity(g), segments)


def solve_unit_lower(L: np.ndarray, b: np.ndarray) -> np.ndarray:
    """X with (I + L) x = b, for strictly lower triangular L, row by row."""
    x = b.copy()
    for i in range(1, len(b)):
        x[i] = b[i] - L[i, :i] @ x[:i]
    return x


def initial_state(
    k: np.ndarray, v: np.ndarray, S: np.ndarray | None = None
) -> np.ndarray:
    """A state of our own to start from: zeros, or a copy of `S`."""
    if S is None:
        return np.zeros((k.shape[-1], v.shape[-1]), dtype=k.dtype)
    return S.copy()


def copied_state(
    S: Any, kind: Any, k: np.ndarray, v: np.ndarray, /, **shapes: Shape
) -> Any:
    """A copy of a state of several arrays, a NamedTuple of this kind.

    `shapes` gives the shape of each, in letters: d_k and d_v are those of k and v.
    Raises TypeError if S is no such tuple, ValueError if a shape does not fit.
    """
    if not isinstance(S, kind):
        fields = ", ".join(kind._fields)
        raise TypeError(
            f"S: expected a {kind.__name__}({fields}), got {type(S).__name__}"
        )
    sizes = {"d_k": (k.shape[-1], "k"), "d_v": (v.shape[-1], "v")}
    for name, shape in shapes.items():
        check_shape(f"S.{name}", getattr(S, name), (shape,), sizes)
    return kind(*(np.array(x) for x in S))


def scan(
    step: Callable, *tokens: np.ndarray, S: Any, **others: Any
) -> tuple[np.ndarray, Any]:
    """Fold `step` over the tokens, from state S.

    `tokens` are what the step takes first: q, k, v as a rule, the values last. Of all
    arguments, those that have a row for each token are handed on row by row, and the
    rest as they are.
    """
    own = getattr(step, "own_shapes", {})
    # the caller has checked the whole sequence: no second check at each token
    step = inspect.unwrap(step)
    given = dict(zip(inspect.signature(step).parameters, tokens, strict=False)) | others
    rows = {name: given.pop(name) for name in list(given) if has_rows(name, given, own)}
    v = tokens[-1]
    o = np.empty((len(v), v.shape[-1]), dtype=v.dtype)
    for t in range(len(v)):
        at_t = {name: x[t] for name, x in rows.items()}
        o[t], S = step(**at_t, **given, S=S)
    return o, S


def has_rows(
    name: str, arguments: Mapping[str, Any], own: Mapping[str, Shape] | None = None
) -> bool:
    """Whether the argument of that name is given and has a row for each token.

    The glossary says so, or `own` where a form has a shape of its own.
    """
    if arguments[name] is None or name not in GLOSSARY:
        return False
    shapes = (own[name],) if own and name in own else GLOSSARY[name].shapes
    return any("T" in shape for shape in shapes)


def pairs(x: np.ndarray, y: np.ndarray, D: np.ndarray) -> np.ndarray:
    """[C, C]: row i of x against row j of y, over the channels, decayed by D."""
    if D.shape[2] == 1:
        return (x @ y.T) * D[:, :, 0]
    return (x[:, None] * y[None] * D).sum(axis=2)
