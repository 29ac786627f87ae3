"""Factored decay: products of queries and keys with one rate a channel, in matrices."""

import numpy as np

from ctlearn.identities.engine import STATEMENT, Sides, identity
from ctlearn.memory import decay_between
from ctlearn.printed import AsPrinted, Numbers
from ctlearn.scalars import exp
from ctlearn.supplies import Supply
from ctlearn.tasks import factored_decay

CHAPTER = "05_forgetting"


def _tokens(supply: Supply, C: int, d_k: int) -> tuple[np.ndarray, ...]:
    q, k = supply.real("q", C, d_k), supply.real("k", C, d_k)
    return q, k, supply.log_decay("a", C, d_k)


def _printed(supply: Supply, C: int, d_k: int) -> Numbers:
    """Queries, keys, the products that decay, and running sums of the log decays."""
    q, k, log_decay = _tokens(supply, C, d_k)
    G, index = np.cumsum(log_decay, axis=0), range(1, C + 1)
    D = decay_between(log_decay, k)[1:, 1:]
    letters = {"q": q, "k": k, "P": factored_decay.pairwise(q, k, log_decay)}
    letters |= {"D": D, r"\gamma": exp(G), r"\delta": exp(-G)}
    indices = {"c": range(1, d_k + 1)}
    indices |= {"i": index, "j": index, "l": index}
    return Numbers({**letters, "d_k": d_k}, indices)


PRINTED = AsPrinted(numbers=_printed)


@identity(
    title="Pairs that decay by channel are one product of queries and keys that grow",
    statement=r"P_{i,j} = \sum_{c=1}^{d_k} q_{i,c} k_{j,c} D_{i,j,c} ="
    r" (\gamma_i \odot q_i)^\top (\delta_j \odot k_j) \quad (i \ge j)",
    source="yang2024gla, section 4.3",
    citations=("yang2024gla",),
    equations=("eq-factored-decay",),
    printed=dict.fromkeys((STATEMENT, "eq-factored-decay"), PRINTED),
    chapter=CHAPTER,
    mutants={
        "the keys decay, too": {"power": 1},
        "the keys do not grow": {"power": 0},
        "the queries do not decay": {"asked": 0},
    },
)
def factored(
    supply: Supply, C: int, d_k: int, *, power: int = -1, asked: int = 1
) -> dict[str, Sides]:
    """The definition, the package's one product, and the two factors."""
    q, k, log_decay = _tokens(supply, C, d_k)
    G = np.cumsum(log_decay, axis=0)
    product = np.tril((exp(asked * G) * q) @ (exp(power * G) * k).T)
    whole = factored_decay.pairwise(q, k, log_decay)
    return {
        "factors": (whole, product),
        "package": (whole, factored_decay.factored(q, k, log_decay)),
    }


def _marked(first: int, last: int) -> AsPrinted:
    """With the places, in a text, where the mark is said to be between the two."""
    reason = "it is said of fewer pairs"
    slips = {f"i → j (line 1, column {first})", f"j → i (line 1, column {last})"}
    return AsPrinted(numbers=_printed, equivalent=dict.fromkeys(slips, reason))


@identity(
    title="With a token between them as a mark, neither factor grows",
    statement=r"P_{i,j} = (D_{i,l} \odot q_i)^\top (D_{l,j} \odot k_j)"
    r" \quad (i \ge l \ge j)",
    source="yang2024gla, section 4.3 (secondary chunking)",
    citations=("yang2024gla",),
    equations=("eq-marked-decay",),
    printed={
        STATEMENT: _marked(63, 75),
        "eq-marked-decay": _marked(98, 110),
    },
    chapter=CHAPTER,
    mutants={
        "blocks of one token, marked a token late": {"late": 1},
        "the queries do not decay": {"asked": 0},
        "the keys decay from the start": {"start": True},
    },
)
def marked(
    supply: Supply,
    C: int,
    d_k: int,
    *,
    late: int = 0,
    asked: int = 1,
    start: bool = False,
) -> dict[str, Sides]:
    """The definition, the package's sub-chunks of 1 to C rows, and a mark halfway."""
    q, k, log_decay = _tokens(supply, C, d_k)
    whole = factored_decay.pairwise(q, k, log_decay)
    D, mark = decay_between(log_decay, k), (C + 1) // 2
    later = exp(asked * log_decay[mark + late :].cumsum(axis=0)) * q[mark + late :]
    earlier = k[:mark] * (D[1 : mark + 1, 0] if start else D[mark, 1 : mark + 1])
    parts = {"halves": (whole[mark + late :, :mark], later @ earlier.T)}
    for size in {1, 2, C}:
        sub_chunked = factored_decay.sub_chunked(q, k, log_decay, size)
        parts[f"blocks of {size}"] = (whole, sub_chunked)
    return parts


@identity(
    title="Eighteen tokens that fade by exp(-5) are one too many for float32",
    kind="counterexample",
    statement=r"g_t = -5: \quad \mathrm{fl}(\exp(-G_{18})) = \exp(90) = \infty,"
    r" \qquad P_{18,18} = q_{18}^\top k_{18} = 1",
    source="ours; a fault met in released kernels",
    chapter=CHAPTER,
    citations=("yang2024gla",),
    worlds=("floats",),
    mutants={
        "one token fewer": {"T": 17},
        "in float64": {"dtype": "float64"},
        "a milder decay": {"g": -4},
        "in blocks": {"blocks": True},
    },
)
def overflow(
    supply: Supply,
    *,
    T: int = 18,
    dtype: str = "float32",
    g: float = -5,
    blocks: bool = False,
) -> Sides:
    """The last token's own product of one channel, where nothing has decayed."""
    ones = np.ones((T, 1), dtype=dtype)
    plan = factored_decay.sub_chunked if blocks else factored_decay.factored
    P = plan(ones, ones, g * ones)
    return P[-1:, -1], ones[0]
