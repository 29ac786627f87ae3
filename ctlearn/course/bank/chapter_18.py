"""Exercises of chapter 18, from equation to kernel.

Kernels are judged by `ctlearn.kernels.puzzles`, which needs Triton; what is here needs
their texts alone.
"""

import ast
import functools
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ctlearn.course.bank import draws
from ctlearn.course.exercise import (
    Exercise,
    Inputs,
    Mistake,
    Sizes,
    body,
    head,
    slip,
    slipped,
)
from ctlearn.course.properties import Limit, Untouched, Values


def as_kernel(text: str) -> Callable:
    """A function that stands for a kernel: its name, its arguments and its text."""
    kernel = ast.parse(text).body[0]
    assert isinstance(kernel, ast.FunctionDef)
    names = ", ".join(x.arg for x in kernel.args.args)
    defined: dict[str, Any] = {}
    exec(f"def {kernel.name}({names}):\n    pass", {"__name__": __name__}, defined)
    function = defined[kernel.name]
    function.text, function.__doc__ = text, ast.get_docstring(kernel)
    return function


@functools.cache
def solutions() -> dict[str, str]:
    """The text of each kernel of the package that solves a puzzle, and their helper."""
    spec = importlib.util.find_spec("ctlearn.kernels.puzzle_solutions")
    assert spec is not None
    assert spec.origin is not None
    text = Path(spec.origin).read_text(encoding="utf-8").replace("  # fmt: skip", "")
    lines = text.splitlines(keepends=True)
    kernels = [x for x in ast.parse(text).body if isinstance(x, ast.FunctionDef)]
    return {
        x.name: "".join(lines[x.decorator_list[0].lineno - 1 : x.end_lineno])
        for x in kernels
    }


def solved(name: str, asks: str, helper: str = "") -> Callable:
    """A puzzle's solution, with another docstring, and a kernel that it calls."""
    text = solutions()[name]
    kernel = as_kernel(text)
    definition, _, _ = head(kernel).partition('    """')
    after = f"\n\n{solutions()[helper]}" if helper else ""
    return as_kernel(f'{definition}    """{asks}\n    """\n{body(kernel)}{after}')


def kernel_slip(kernel: Callable, *changes: tuple[str, str]) -> Callable:
    """A kernel with other words in its body."""
    return as_kernel(head(kernel) + slipped(body(kernel), *changes))


def nothing(rng: np.random.Generator, sizes: Sizes) -> Inputs:
    """The puzzle draws for itself."""
    return {}


fade = solved(
    "fade",
    """y = exp(g) x, row by row.

    x [T, d] and g [T] are read, y [T, d] is written, all contiguous float32. C: rows of
    a program. D: a power of two, d at least.""",
)
ROWS = "(rows < T)[:, None] & (columns < d)[None, :]"
FADE = Exercise(
    key="18.fade",
    label="ex-fade",
    title="Fade the rows",
    statement=r"""
Write a kernel that fills `y`, $T \times d$: row $t$ is row $t$ of `x` times the
exponential of `g[t]`. All arrays are contiguous and hold float32. It is launched with
$\lceil T / C \rceil$ programs, and program $p$ has the `C` rows from $p C$ on. `D` is a
power of two that holds the `d` columns, which may be fewer.

Neither $T$ nor $d$ need be multiples of anything. Touch no memory beside the arrays,
load each number of `x` once, and write nothing into what you read.
""",
    reference=fade,
    returns=("y",),
    draw=nothing,
    shapes=(),
    properties=(),
    mistakes=(
        Mistake(
            "no mask for the rows",
            kernel_slip(
                fade, (ROWS, "((rows >= 0)[:, None] & (columns < d)[None, :])")
            ),
            "The last program has more rows than are left. What does it do with those?",
        ),
        Mistake(
            "no mask for the columns",
            kernel_slip(
                fade, (ROWS, "((rows < T)[:, None] & (columns >= 0)[None, :])")
            ),
            "The tile is wider than the array. Where does its last column lie in "
            "memory?",
        ),
        Mistake(
            "the tile's width for the array's",
            kernel_slip(fade, ("rows[:, None] * d +", "rows[:, None] * D +")),
            "How many numbers lie in memory between the starts of two rows?",
        ),
        Mistake(
            "every program has the first rows",
            kernel_slip(fade, ("tl.program_id(0) * C +", "0 * C +")),
            "Which rows are those of the second program?",
        ),
        Mistake(
            "a logarithm for a decay",
            kernel_slip(
                fade,
                (
                    "tl.exp(tl.load(g + rows, mask=rows < T, other=0.0))",
                    "tl.load(g + rows, mask=rows < T, other=0.0)",
                ),
            ),
            "By what is a row multiplied where g is zero, and by what should it be?",
        ),
    ),
    hint="Two masks are needed, one for g and one for x and y. The mask of a tile is "
    "made of one for its rows and one for its columns.",
    minutes=20,
    marks=2,
    puzzle="fade",
)


decays = solved(
    "decays",
    """D_ij = exp(g_{j+1} + ... + g_i) for j <= i, and 0 above the diagonal.

    g [C] is read, D [C, C] is written, both contiguous float32. N: a power of two, C at
    least. There is one program.""",
)
DECAYS = Exercise(
    key="18.decays",
    label="ex-decays",
    title="Decays that cannot overflow",
    statement=r"""
Write a kernel that fills `D`, $C \times C$: row $i$, column $j$ holds what token $i$
sees of token $j$, $\exp(g_{j+1} + \dots + g_i)$ for $j \le i$, and zero above the
diagonal. The logarithms `g` are zero or less, and as strong as $-60$. There is one
program, and `N` is a power of two that holds the `C` rows.

Nothing may overflow on the way, even where it is thrown away, and weak gates must keep
their digits, whatever stands before them. Touch no memory beside the arrays.
""",
    reference=decays,
    returns=("D",),
    draw=nothing,
    shapes=(),
    properties=(),
    mistakes=(
        Mistake(
            "a difference of running sums",
            kernel_slip(
                decays,
                (
                    "tl.cumsum(tl.where(i > j, rows[:, None], 0.0), 0)",
                    "tl.where(i >= j, tl.cumsum(rows, 0)[:, None] - tl.cumsum(rows, "
                    "0)[None, :], 0.0)",
                ),
            ),
            "Nothing overflows. How many digits of a weak gate are left in a sum that "
            "has passed many strong ones?",
        ),
        Mistake(
            "the mask after the exponential",
            kernel_slip(
                decays,
                (
                    "tl.cumsum(tl.where(i > j, rows[:, None], 0.0), 0)",
                    "tl.cumsum(rows, 0)[:, None] - tl.cumsum(rows, 0)[None, :]",
                ),
            ),
            "What stands above the diagonal before it is masked?",
        ),
        Mistake(
            "a token's own gate counts",
            kernel_slip(decays, ("tl.where(i > j,", "tl.where(i >= j,")),
            "Which gates stand between the write of a token and its own read? Look at "
            "the diagonal.",
        ),
        Mistake(
            "ones above the diagonal",
            kernel_slip(
                decays, ("tl.where(i >= j, tl.exp(since), 0.0)", "tl.exp(since)")
            ),
            "What does a token see of one that comes after it?",
        ),
        Mistake(
            "transpose",
            kernel_slip(decays, ("D + i * C + j", "D + j * C + i")),
            "Which of the two is the row: the token that reads, or the one that wrote?",
        ),
    ),
    hint="Column j sums what stands below row j, and nothing else. In which order do "
    "you sum, mask and take the exponential?",
    minutes=25,
    marks=3,
    puzzle="decays",
)


state = solved(
    "state",
    """Causal linear attention from an empty state.

    q and k [T, d_k], v [T, d_v] are read; o [T, d_v] and S [d_k, d_v] are written, all
    contiguous float32. C: tokens of a chunk. K and V: powers of two, d_k and d_v at
    least. There is one program.""",
)
LEARNS = 'b_S += tl.dot(tl.trans(b_k), b_v, input_precision="ieee")\n'
STATE = Exercise(
    key="18.state",
    label="ex-state-kernel",
    title="A state that never leaves",
    statement=r"""
Write linear attention in chunks as one program, from an empty state. It fills the
answers `o`, $T \times d_v$, where $o_t$ is the sum of $(q_t^\top k_j) v_j$ over all
$j \le t$, and the last state `S`, $d_k \times d_v$. All arrays are contiguous and hold
float32. `C` is the size of a chunk; `K` and `V` are powers of two that hold the `d_k`
and `d_v` columns.

Load each number of `q`, `k` and `v` once, touch no memory beside the arrays, and
compute products in full precision, `input_precision="ieee"`. The interpreter that marks
this has no other; a GPU has. $T$ need not be a multiple of `C`.
""",
    reference=state,
    returns=("o", "S"),
    draw=nothing,
    shapes=(),
    properties=(),
    mistakes=(
        Mistake(
            "a token's own pair is left out",
            kernel_slip(state, ("i[:, None] >= i[None, :]", "i[:, None] > i[None, :]")),
            "Is a token's own pair in its answer? Look at the diagonal.",
        ),
        Mistake(
            "no mask inside a chunk",
            kernel_slip(
                state,
                ("tl.where(i[:, None] >= i[None, :], scores, 0.0)", "scores"),
            ),
            "What does the first token of a chunk know of the last?",
        ),
        Mistake(
            "the state learns before it is asked",
            kernel_slip(
                state,
                (f"        {LEARNS}", ""),
                ("        b_o = tl.dot(b", f"        {LEARNS}        b_o = tl.dot(b"),
            ),
            "A chunk's own pairs are in the scores. How often do they count, if the "
            "state has learned them already?",
        ),
        Mistake(
            "the past is not asked",
            kernel_slip(
                state,
                (
                    '        b_o = tl.dot(b_q, b_S, input_precision="ieee")\n'
                    "        b_o += tl.dot(scores",
                    "        b_o = tl.dot(scores",
                ),
            ),
            "Your first chunk is right. What do the others know of it?",
        ),
        Mistake(
            "the last chunk reads on",
            kernel_slip(
                state,
                (
                    "keys = (rows < T)[:, None]",
                    "keys = (rows >= 0)[:, None]",
                ),
            ),
            "How many tokens has the last chunk, if C does not divide T?",
        ),
    ),
    hint="A loop over chunks, and four products in it: scores, answers from the "
    "state, answers from the chunk, and the state's own. Which of them come before "
    "the state has learned the chunk?",
    minutes=45,
    marks=4,
    puzzle="state",
)


chunk = solved(
    "chunk",
    """One chunk of the delta rule, its triangular system solved.

    q and k [C, d_k], v [C, d_v], beta [C], A [C, C] and S [d_k, d_v] are read;
    o [C, d_v] and last [d_k, d_v] are written, all contiguous float32. N, K and V:
    powers of two, C, d_k and d_v at least. There is one program.""",
    helper="tile",
)
CHUNK = Exercise(
    key="18.chunk",
    label="ex-chunk-kernel",
    title="One product with A",
    statement=r"""
Write one chunk of the delta rule, from the state `S` before it. Its triangular system
has been solved: `A` is $(I + L)^{-1} - I$, where
$L = \mathrm{tril}(\mathrm{Diag}(\beta) K K^\top, -1)$. So the writes are $R = X + A X$,
with $X = \mathrm{Diag}(\beta) (V - K S)$. Fill the answers
$O = Q S + \mathrm{tril}(Q K^\top) R$ and the state after the chunk, $S + K^\top R$.

All arrays are contiguous and hold float32. There is one program; `N`, `K` and `V` are
powers of two that hold the `C` rows and the `d_k` and `d_v` columns. Load each number
of `q`, `k`, `v`, `A` and `S` once, touch no memory beside the arrays, and compute
products in full precision, `input_precision="ieee"`. The interpreter that marks this
has no other; a GPU has. You may call `@triton.jit` functions of your own.
""",
    reference=chunk,
    returns=("o", "last"),
    draw=nothing,
    shapes=(),
    properties=(),
    mistakes=(
        Mistake(
            "the ones are left out",
            kernel_slip(chunk, ("b_R = b_X + tl.dot", "b_R = tl.dot")),
            "What is taken off the inverse to make A? What does the first token write?",
        ),
        Mistake(
            "the errors are rated after A",
            kernel_slip(
                chunk,
                ("    b_X *= rate\n", ""),
                ("    b_q = tile", "    b_R *= rate\n    b_q = tile"),
            ),
            "The first row is right, for its token has nobody before it. What stands "
            "on the right side of the system that A solves?",
        ),
        Mistake(
            "nothing is compared",
            kernel_slip(
                chunk,
                (' - tl.dot(b_k, b_S, input_precision="ieee")', ""),
            ),
            "What do the tokens find in the state before the chunk?",
        ),
        Mistake(
            "a token answers before it writes",
            kernel_slip(chunk, ("i[:, None] >= i[None, :]", "i[:, None] > i[None, :]")),
            "Does a token's answer know of its own write? Look at the diagonal.",
        ),
        Mistake(
            "the state is handed on as it came",
            kernel_slip(
                chunk,
                (
                    '    b_S += tl.dot(tl.trans(b_k), b_R, input_precision="ieee")\n',
                    "",
                ),
            ),
            "What has the chunk added to the state?",
        ),
    ),
    hint="Write a helper that loads a masked tile: five of the six inputs are tiles. "
    "Then each equation is a line.",
    minutes=45,
    marks=4,
    puzzle="chunk",
)


def kept_by_chunk(g, C):
    """What is left over each chunk of C tokens.

    g [T], logarithms of decays; C, 1 or more. Returns the decays of all chunks, of
    which the last may be short: [T / C, rounded up].
    """
    padded = np.append(g, np.zeros(-len(g) % C))
    return np.exp(padded.reshape(-1, C).sum(axis=1))


RAGGED = Exercise(
    key="18.ragged",
    label="ex-ragged-decay",
    title="What is not there forgets",
    statement=r"""
A kernel needs, for every chunk of $C$ tokens, the decay over the whole of it: the
exponential of the sum of the logarithms `g` of its tokens. A colleague pads `g` to
whole chunks. Her outputs agree with the reference at every length that she tries, and a
chat that goes on after its prompt has forgotten the prompt. Mend it.

The last chunk may have fewer tokens, and its decay is that of the tokens that are
there. No tokens make no chunks.
""",
    reference=kept_by_chunk,
    returns=("kept",),
    draw=lambda rng, sizes: {
        "g": draws.log_decays(rng, sizes["T"]),
        "C": sizes["C"],
    },
    shapes=(
        {"T": 10, "C": 4},
        {"T": 8, "C": 4},
        {"T": 3, "C": 5},
        {"T": 4, "C": 1},
        {"T": 0, "C": 3},
    ),
    properties=(
        Values(),
        Untouched(),
        Limit(
            "where nothing fades, everything is kept",
            here=lambda x: x | {"g": 0 * x["g"]},
            wanted=lambda x: np.ones(-(-len(x["g"]) // x["C"])),
        ),
    ),
    mistakes=(
        Mistake(
            "what is not there forgets",
            slip(
                kept_by_chunk,
                ("np.zeros(-len(g) % C)", "np.full(-len(g) % C, -np.inf)"),
            ),
            "What should a token do that does not exist? Compare the last state, at a "
            "length that is no multiple of the chunk.",
        ),
        Mistake(
            "the short chunk is left out",
            slip(
                kept_by_chunk,
                ("np.append(g, np.zeros(-len(g) % C))", "g[: len(g) // C * C]"),
            ),
            "How many chunks have ten tokens, four at a time?",
        ),
        Mistake(
            "the padding fades like the others",
            slip(
                kept_by_chunk,
                ("np.zeros(-len(g) % C)", "np.full(-len(g) % C, g[-1:].sum())"),
            ),
            "What should a token do that does not exist?",
        ),
        Mistake(
            "from the start of the sequence",
            slip(
                kept_by_chunk,
                (
                    "padded.reshape(-1, C).sum(axis=1)",
                    "padded.reshape(-1, C).sum(axis=1).cumsum()",
                ),
            ),
            "Over which tokens does a chunk's own decay run?",
        ),
        Mistake(
            "the logarithms",
            slip(
                kept_by_chunk,
                (
                    "np.exp(padded.reshape(-1, C).sum(axis=1))",
                    "padded.reshape(-1, C).sum(axis=1)",
                ),
            ),
            "What is left where the logarithms sum to zero?",
        ),
    ),
    begins="what is not there forgets",
    hint="Who reads the last decay of all, and what should a token do that does not "
    "exist?",
    minutes=10,
    marks=2,
)

EXERCISES = (FADE, DECAYS, STATE, CHUNK, RAGGED)
