"""Large chunks: multiplications that are counted, and the numbers they move.

LaCT answers a mini-batch with one network and learns from all of it at once. The form
runs on arrays that keep a tally (`ctlearn.counting`), d_k = d_v = d.
"""

from typing import Any

import numpy as np

from ctlearn import cost, inner
from ctlearn.counting import count
from ctlearn.identities.engine import STATEMENT, Sides, identity
from ctlearn.mixers import lact
from ctlearn.printed import AsPrinted, Numbers
from ctlearn.supplies import Floats, Supply

CHAPTER = "13_deep_memories"
WORLDS = ("rationals", "floats")
AT = {"floats": {"C": 7, "d": 5, "N": 6}}


def _chunk(C: int, d: int, d_h: int) -> tuple[dict[str, Any], lact.State, Any]:
    """One whole mini-batch, the state before it and its tally."""
    supply = Floats(0)
    S = lact.State.start(inner.drawn(inner.GatedUnit, supply, d, d_h, d))
    x = {name: supply.real(name, C, d) for name in "qkv"}
    x |= {"log_mu": supply.log_decay("mu", C), "beta": supply.small("b", C, 3)}
    return x, S, count(lact.recurrent, **x, S=S, muon=(), inner_batch=C)


def _muon(d: int) -> int:
    """Multiplications of Newton and Schulz's iteration on three square matrices."""
    G = Floats(0).real("G", d, d)
    return 3 * count(inner.newton_schulz, G, inner.MUON_LACT).products


def _moved(C: int, d: int, d_h: int) -> int:
    """Sizes of what goes in and comes out."""
    x, S, _ = _chunk(C, d, d_h)
    o, after = lact.recurrent(**x, S=S, muon=(), inner_batch=C)
    weights = sum(w.size for f in (S.f, after.f) for w in f)
    return weights + sum(x[name].size for name in "qkv") + o.size


def _printed_work(supply: Supply, C: int, d: int) -> Numbers:
    letters = {"n": _chunk(C, d, d)[2].products, "m": _muon(d), "C": C, "d": d}
    return Numbers(letters)


@identity(
    title="Muon costs what all else does in a chunk of five times the width",
    statement=r"n = 9 C d^2, \quad m = 45 d^3",
    source="ours; counted",
    worlds=WORLDS,
    equations=("eq-chunk-work",),
    printed=dict.fromkeys(
        (STATEMENT, "eq-chunk-work"),
        AsPrinted(numbers=_printed_work, worlds=WORLDS, at=AT),
    ),
    at=AT,
    chapter=CHAPTER,
    mutants={
        "the gradients reuse what was answered": {"learned": 4},
        "the answers are not counted": {"answered": 0},
        "four steps of Muon": {"steps": 4},
    },
)
def work(
    supply: Supply,
    C: int,
    d: int,
    *,
    answered: int = 3,
    learned: int = 6,
    steps: int = 5,
) -> dict[str, Sides]:
    """Square matrices, d_h = d; `cost` has both for any."""
    one = supply.positive("one", 1) ** 0
    _, _, tally = _chunk(C, d, d)
    wanted = (answered + learned) * cost.large_chunk_operations(C, d, d) // 9
    return {
        "chunk": (tally.products * one, wanted * one),
        "Muon": (_muon(d) * one, cost.muon_operations(d, d, steps) * one),
    }


def _printed_intensity(supply: Supply, C: int, d: int, N: int) -> Numbers:
    letters = {"n": _chunk(C, d, N)[2].products, "m": _moved(C, d, N)}
    # a fraction of whole numbers stays one
    one = supply.positive("one", 1)[0] ** 0
    sizes = {"C": C, "d": d, "d_h": N}
    return Numbers({name: x * one for name, x in (letters | sizes).items()})


@identity(
    title="Multiplications for each number moved are fewer than 3 C / 2",
    statement=r"\frac{n}{m} = \frac{9 C d d_h}{6 d d_h + 4 C d}"
    r" = \frac{3 C}{2} \cdot \frac{3 d_h}{3 d_h + 2 C}",
    source="ours; counted",
    worlds=WORLDS,
    equations=("eq-intensity",),
    printed=dict.fromkeys(
        (STATEMENT, "eq-intensity"),
        AsPrinted(numbers=_printed_intensity, worlds=WORLDS, at=AT),
    ),
    at=AT,
    chapter=CHAPTER,
    mutants={
        "the weights are not written back": {"ways": 1},
        "the tokens cost nothing to read": {"rows": 0},
        "the answers are not written": {"rows": 3},
    },
)
def intensity(
    supply: Supply, C: int, d: int, N: int, *, ways: int = 2, rows: int = 4
) -> dict[str, Sides]:
    """What is counted with d_h = N, and the sizes of what goes in and comes out."""
    d_h = N
    one = supply.positive("one", 1) ** 0
    products, moved = _chunk(C, d, d_h)[2].products, _moved(C, d, d_h)
    wanted = ways * 3 * d * d_h + rows * C * d
    ratio = cost.large_chunk_intensity(C, d, d_h)
    return {
        "moved": (moved * one, wanted * one),
        "ratio": (
            np.array([products / moved, 3 * C / 2 * 3 * d_h / (3 * d_h + 2 * C)]),
            np.array([ratio, ratio]),
        ),
    }
