"""What remembering costs: the formulas, against multiplications that are counted.

The forms of this package run on arrays that keep a tally (`ctlearn.counting`). What is
stated is n, the number of multiplications in matrix and outer products; m are those
entry by entry, of which the decay of a state is the largest. Nothing is saved on the
masked half of a causal matrix, for the code computes it; what the code skips, in a
cache that grows by a token at a time and in a triangular system, is not counted. One
head, unless said otherwise; conjugate gradients take s steps a token.

A count is a polynomial in the sizes, so that a few draws of them leave it no room.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ctlearn import cost
from ctlearn.counting import Tally, count
from ctlearn.identities.engine import STATEMENT, Sides, identity
from ctlearn.mechanism import Mechanism
from ctlearn.mixers import (
    delta_product,
    delta_rule,
    linear_attention,
    mesa_net,
    rwkv7,
    softmax_attention,
)
from ctlearn.printed import AsPrinted, Numbers
from ctlearn.supplies import Floats, Supply
from ctlearn.tasks.triangular_inverse import by_substitution

WORLDS = ("rationals", "floats")
AT = {"floats": {"T": 17, "C": 8, "N": 4, "d_k": 6, "d_v": 5, "d": 6}}


def _count(
    mechanism: Mechanism, form: str, T: int, d_k: int, d_v: int, **options: Any
) -> Tally:
    """Run one form on T tokens."""
    inputs = mechanism.draw(Floats(0), T, d_k, d_v)
    return count(mechanism.forms[form], **(inputs | options))


def _printed(tally: Tally, **sizes: int) -> Numbers:
    """The letters of a statement: the sizes, and what was counted at them."""
    return Numbers({"n": tally.products, "m": tally.scalings, **sizes})


def _as_printed(numbers: Any, **equivalent: str) -> dict[str, AsPrinted]:
    how = AsPrinted(numbers=numbers, worlds=WORLDS, at=AT, equivalent=equivalent)
    return {STATEMENT: how}


def _compared(
    supply: Supply,
    tally: Tally,
    products: Mapping[str, int],
    scalings: Mapping[str, int] | None = None,
    *,
    without: str = "",
    twice: str = "",
) -> dict[str, Sides]:
    """A tally against the sum of what it is for; one part may be miscounted."""
    one = supply.positive("one", 1) ** 0
    times = {without: 0, twice: 2}

    def total(parts: Mapping[str, int]) -> int:
        return sum(times.get(name, 1) * x for name, x in parts.items())

    sides = {"products": (tally.products * one, total(products) * one)}
    if scalings is not None:
        sides["scalings"] = (tally.scalings * one, total(scalings) * one)
    return sides


def _without(*names: str) -> dict[str, dict[str, str]]:
    """Mutants: each part left out, and the last counted twice."""
    left_out = {f"no {name}": {"without": name} for name in names}
    return left_out | {f"the {names[-1]} twice": {"twice": names[-1]}}


def _linear_numbers(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    tally = _count(linear_attention.MECHANISM, "recurrent", T, d_k, d_v)
    return _printed(tally, T=T, d_k=d_k, d_v=d_v)


@identity(
    title="A token of linear attention costs two products with the state",
    statement=r"n = 2 T d_k d_v",
    source="ours; counted",
    worlds=WORLDS,
    printed=_as_printed(_linear_numbers),
    at=AT,
    mutants=_without("write", "read"),
)
def linear_token(
    supply: Supply, T: int, d_k: int, d_v: int, *, without: str = "", twice: str = ""
) -> dict[str, Sides]:
    """However long the context: each token costs the same."""
    tally = _count(linear_attention.MECHANISM, "recurrent", T, d_k, d_v)
    each = cost.recurrent_operations(T, d_k, d_v) // 2
    parts = {"write": each, "read": each}
    return _compared(supply, tally, parts, {}, without=without, twice=twice)


def _parallel_numbers(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    tally = _count(linear_attention.MECHANISM, "parallel", T, d_k, d_v)
    return _printed(tally, T=T, d_k=d_k, d_v=d_v)


@identity(
    title="All tokens at once: a table of scores, its values, and a state in and out",
    statement=r"n = T^2 (d_k + d_v) + 2 T d_k d_v",
    source="ours; counted",
    worlds=WORLDS,
    printed=_as_printed(_parallel_numbers),
    at=AT,
    mutants=_without("scores", "values", "state"),
)
def linear_parallel(
    supply: Supply, T: int, d_k: int, d_v: int, *, without: str = "", twice: str = ""
) -> dict[str, Sides]:
    """The masked half of the table is computed, too."""
    tally = _count(linear_attention.MECHANISM, "parallel", T, d_k, d_v)
    table = cost.parallel_operations(T, d_k, d_v)
    parts = {"scores": T * T * d_k, "state": 2 * T * d_k * d_v}
    parts["values"] = table - parts["scores"]
    return _compared(supply, tally, parts, {}, without=without, twice=twice)


def _chunks_numbers(supply: Supply, N: int, C: int, d_k: int, d_v: int) -> Numbers:
    T = N * C
    tally = _count(linear_attention.MECHANISM, "chunkwise", T, d_k, d_v, chunk_size=C)
    return _printed(tally, N=N, C=C, d_k=d_k, d_v=d_v)


@identity(
    title="N chunks of C: N small tables, and two products with the state a token",
    statement=r"n = N C^2 (d_k + d_v) + 2 N C d_k d_v",
    source="ours; counted",
    worlds=WORLDS,
    printed=_as_printed(_chunks_numbers),
    at=AT,
    mutants={
        **_without("tables", "states"),
        "a shorter last chunk counts as a whole one": {"whole": True},
    },
)
def linear_chunks(
    supply: Supply,
    N: int,
    C: int,
    d_k: int,
    d_v: int,
    *,
    without: str = "",
    twice: str = "",
    whole: bool = False,
) -> dict[str, Sides]:
    """With a last chunk that is a token short."""
    T = N * C - 1
    tally = _count(linear_attention.MECHANISM, "chunkwise", T, d_k, d_v, chunk_size=C)
    states = 2 * T * d_k * d_v
    tables = cost.chunkwise_operations(T, d_k, d_v, C) - states
    parts = {"tables": N * C * C * (d_k + d_v) if whole else tables, "states": states}
    return _compared(supply, tally, parts, {}, without=without, twice=twice)


def _softmax_numbers(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    tally = _count(softmax_attention.MECHANISM, "recurrent", T, d_k, d_v)
    return _printed(tally, T=T, d_k=d_k, d_v=d_v)


@identity(
    title="With a cache every token costs one token more than the one before it",
    statement=r"n = \frac{T (T + 1)}{2} (d_k + d_v)",
    source="ours; counted",
    worlds=WORLDS,
    printed=_as_printed(_softmax_numbers),
    at=AT,
    mutants={
        **_without("scores", "values"),
        "as in one table, whose masked half is computed": {"table": True},
    },
)
def softmax_tokens(
    supply: Supply,
    T: int,
    d_k: int,
    d_v: int,
    *,
    without: str = "",
    twice: str = "",
    table: bool = False,
) -> dict[str, Sides]:
    """Token t compares its query with t keys, and mixes t values."""
    tally = _count(softmax_attention.MECHANISM, "recurrent", T, d_k, d_v)
    lengths = [T if table else t for t in range(1, T + 1)]
    scores = sum(cost.softmax_step_operations(t, d_k, 0) for t in lengths)
    values = sum(cost.softmax_step_operations(t, 0, d_v) for t in lengths)
    parts = {"scores": scores, "values": values}
    return _compared(supply, tally, parts, {}, without=without, twice=twice)


def _delta_numbers(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    tally = _count(delta_rule.MECHANISM, "recurrent", T, d_k, d_v)
    return _printed(tally, T=T, d_k=d_k, d_v=d_v)


@identity(
    title="The delta rule reads before it writes: three products with the state",
    statement=r"n = 3 T d_k d_v, \qquad m = T d_k d_v",
    source="ours; counted",
    worlds=WORLDS,
    printed=_as_printed(_delta_numbers),
    at=AT,
    mutants=_without("old answer", "write", "read", "rate"),
)
def delta_token(
    supply: Supply, T: int, d_k: int, d_v: int, *, without: str = "", twice: str = ""
) -> dict[str, Sides]:
    """The rate scales the outer product; were it the error, m would be T d_v."""
    tally = _count(delta_rule.MECHANISM, "recurrent", T, d_k, d_v)
    each = T * d_k * d_v
    parts = {"old answer": each, "write": each, "read": each}
    change = {"without": without, "twice": twice}
    return _compared(supply, tally, parts, {"rate": each}, **change)


def _chunk(C: int, d_k: int, d_v: int) -> Tally:
    """One chunk of the delta rule, from a state to a state."""
    S = Floats(1).real("S", d_k, d_v)
    return _count(delta_rule.MECHANISM, "parallel", C, d_k, d_v, S=S)


def _chunk_numbers(supply: Supply, C: int, d_k: int, d_v: int) -> Numbers:
    return _printed(_chunk(C, d_k, d_v), C=C, d_k=d_k, d_v=d_v)


@identity(
    title="A chunk of the delta rule, its triangular system solved for the writes",
    statement=r"n = C^2 (2 d_k + d_v) + \frac{C (C - 1)}{2} d_v + 3 C d_k d_v, \qquad"
    r" m = 2 C^2 + 4 C d_k + C d_v + d_k d_v",
    source="ours; counted",
    worlds=WORLDS,
    equations=("eq-chunk-count",),
    printed=_as_printed(_chunk_numbers)
    | {"eq-chunk-count": AsPrinted(numbers=_chunk_numbers, worlds=WORLDS, at=AT)},
    chapter="08_the_delta_rule_in_parallel",
    at=AT,
    mutants=_without("overlaps", "system", "scores", "mixing", "state", "masks"),
)
def delta_chunk(
    supply: Supply, C: int, d_k: int, d_v: int, *, without: str = "", twice: str = ""
) -> dict[str, Sides]:
    """The family's one chunk: m are its masks and decays, which here are ones."""
    parts = {
        "overlaps": C * C * d_k,
        "scores": C * C * d_k,
        "system": C * (C - 1) // 2 * d_v,
        "mixing": C * C * d_v,
        "state": 3 * C * d_k * d_v,
    }
    masks = {"masks": 2 * C * C + 4 * C * d_k + C * d_v + d_k * d_v}
    change = {"without": without, "twice": twice}
    return _compared(supply, _chunk(C, d_k, d_v), parts, masks, **change)


def _inverse_tally(C: int, d_k: int, d_v: int) -> Tally:
    """The same chunk as kernels do it: the inverse, times keys and times values."""
    numbers = Floats(0)
    q, k = numbers.real("q", C, d_k), numbers.real("k", C, d_k)
    v, S = numbers.real("v", C, d_v), numbers.real("S", d_k, d_v)

    def chunk(q: Any, k: Any, v: Any, S: Any) -> None:
        A = by_substitution(np.tril(k @ k.T, -1))
        u = A @ v - (A @ k) @ S
        q @ S + np.tril(q @ k.T) @ u, k.T @ u

    return count(chunk, q, k, v, S)


def _inverse_numbers(supply: Supply, C: int, d_k: int, d_v: int) -> Numbers:
    return _printed(_inverse_tally(C, d_k, d_v), C=C, d_k=d_k, d_v=d_v)


@identity(
    title="The same chunk by the inverse costs more, and is made of large products",
    statement=r"n = C^2 (3 d_k + 2 d_v) + 3 C d_k d_v + \frac{C^2 (C - 1)}{2}",
    source="ours; counted",
    worlds=WORLDS,
    printed=_as_printed(_inverse_numbers),
    at=AT,
    mutants=_without("overlaps", "keys", "values", "state", "inverse"),
)
def delta_chunk_by_inverse(
    supply: Supply, C: int, d_k: int, d_v: int, *, without: str = "", twice: str = ""
) -> dict[str, Sides]:
    """The rows of the inverse are C wide here: their zeros are multiplied, too."""
    parts = {
        "overlaps": 2 * C * C * d_k,
        "keys": C * C * d_k,
        "values": 2 * C * C * d_v,
        "state": 3 * C * d_k * d_v,
        "inverse": C * C * (C - 1) // 2,
    }
    change = {"without": without, "twice": twice}
    return _compared(supply, _inverse_tally(C, d_k, d_v), parts, None, **change)


def _product_tally(N: int, T: int, d_k: int, d_v: int) -> Tally:
    numbers = Floats(0)
    return count(
        delta_product.recurrent,
        numbers.real("q", T, d_k),
        numbers.unit("k", T, N, d_k),
        numbers.real("v", T, N, d_v),
        log_decay=numbers.log_decay("a", T),
        beta=numbers.rate("beta", T, N),
        S=numbers.real("S", d_k, d_v),
    )


def _product_numbers(supply: Supply, N: int, T: int, d_k: int, d_v: int) -> Numbers:
    tally = _product_tally(N, T, d_k, d_v)
    return _printed(tally, n_h=N, T=T, d_k=d_k, d_v=d_v)


@identity(
    title="Several steps a token: each an answer and a write, and one read",
    statement=r"n = (2 n_h + 1) T d_k d_v, \qquad m = (n_h + 1) T d_k d_v",
    source="ours; counted",
    worlds=WORLDS,
    printed=_as_printed(_product_numbers),
    at=AT,
    mutants=_without("old answers", "writes", "read", "decay", "rates"),
)
def product_token(
    supply: Supply,
    N: int,
    T: int,
    d_k: int,
    d_v: int,
    *,
    without: str = "",
    twice: str = "",
) -> dict[str, Sides]:
    """Gated DeltaProduct with N steps: it decays once a token."""
    each = T * d_k * d_v
    parts = {"old answers": N * each, "writes": N * each, "read": each}
    scalings = {"decay": each, "rates": N * each}
    change = {"without": without, "twice": twice}
    tally = _product_tally(N, T, d_k, d_v)
    return _compared(supply, tally, parts, scalings, **change)


def _mesa_numbers(supply: Supply, N: int, T: int, d_k: int, d_v: int) -> Numbers:
    tally = _count(mesa_net.MECHANISM, "recurrent", T, d_k, d_v, steps=N)
    return _printed(tally, s=N, T=T, d_k=d_k, d_v=d_v)


@identity(
    title="MesaNet: each step of its solver is a product with the keys' overlaps",
    statement=r"n = T \left((s + 1) d_k^2 + 2 d_k d_v\right)",
    source="ours; counted",
    worlds=WORLDS,
    printed=_as_printed(_mesa_numbers),
    at=AT,
    mutants=_without("solver", "overlaps", "write", "read"),
)
def mesa_token(
    supply: Supply,
    N: int,
    T: int,
    d_k: int,
    d_v: int,
    *,
    without: str = "",
    twice: str = "",
) -> dict[str, Sides]:
    """By N steps of conjugate gradients; the products of vectors in them are m."""
    tally = _count(mesa_net.MECHANISM, "recurrent", T, d_k, d_v, steps=N)
    parts = {
        "solver": N * T * d_k**2,
        "overlaps": T * d_k**2,
        "write": T * d_k * d_v,
        "read": T * d_k * d_v,
    }
    return _compared(supply, tally, parts, without=without, twice=twice)


def _rwkv7_numbers(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    tally = _count(rwkv7.MECHANISM, "recurrent", T, d_k, d_v)
    return _printed(tally, T=T, d_k=d_k, d_v=d_v)


@identity(
    title="Two directions to write in are one product with the state more",
    statement=r"n = 4 T d_k d_v, \qquad m = T d_k d_v + T d_k",
    source="ours; counted",
    worlds=WORLDS,
    printed=_as_printed(_rwkv7_numbers),
    at=AT,
    mutants=_without("old answer", "erasure", "write", "decay", "read"),
)
def rwkv7_token(
    supply: Supply, T: int, d_k: int, d_v: int, *, without: str = "", twice: str = ""
) -> dict[str, Sides]:
    """RWKV-7 erases at one key and writes at another."""
    tally = _count(rwkv7.MECHANISM, "recurrent", T, d_k, d_v)
    each = T * d_k * d_v
    parts = dict.fromkeys(("old answer", "erasure", "write", "read"), each)
    scalings = {"decay": each, "removal key": T * d_k}
    change = {"without": without, "twice": twice}
    return _compared(supply, tally, parts, scalings, **change)


def _bytes(T: int, d_k: int, d_v: int) -> tuple[int, int]:
    """What the arrays of a cache and of a state take in single precision."""
    x = {n: a.astype("float32") for n, a in _inputs(T, d_k, d_v).items()}
    _, cache = softmax_attention.recurrent(**x)
    _, S = linear_attention.recurrent(**x)
    return sum(a.nbytes for a in cache), S.nbytes


def _inputs(T: int, d_k: int, d_v: int) -> dict[str, np.ndarray]:
    return linear_attention.MECHANISM.draw(Floats(0), T, d_k, d_v)


def _bytes_numbers(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    cache, state = _bytes(T, d_k, d_v)
    letters = {"b_c": cache, "b_s": state, "T": T, "d_k": d_k, "d_v": d_v}
    return Numbers(letters)


@identity(
    title="A cache grows by four bytes a number in single precision, a state does not",
    statement=r"b_c = 4 T (d_k + d_v), \qquad b_s = 4 d_k d_v",
    source="ours; measured",
    worlds=WORLDS,
    printed=_as_printed(_bytes_numbers),
    at=AT,
    mutants={
        "keys are not kept": {"keys": 0},
        "half precision": {"dtype": "float16"},
        "a state for every token": {"states": True},
    },
)
def bytes_kept(
    supply: Supply,
    T: int,
    d_k: int,
    d_v: int,
    *,
    keys: int = 1,
    dtype: str = "float32",
    states: bool = False,
) -> dict[str, Sides]:
    """`nbytes` of what the references keep after T tokens, against the formulas."""
    cache, state = _bytes(T, d_k, d_v)
    one = supply.positive("one", 1) ** 0
    kept = cost.state_bytes(d_k, d_v, heads=T if states else 1, dtype=dtype)
    return {
        "cache": (cache * one, cost.cache_bytes(T, keys * d_k, d_v, dtype=dtype) * one),
        "state": (state * one, kept * one),
    }
