"""Kernels to write, and a judge that a kernel cannot talk round.

    verdict = check("fade", my_kernel)      # a @triton.jit function of yours

A kernel is launched on inputs drawn anew. All memory around them, and all that is asked
for, is NaN; what it touches is watched; and what is right is computed after it ran, in
float64, from copies that it never saw. So a kernel that writes nothing, that writes
what it has stored, or that looks for the answer in memory finds nothing there. It may
use what Triton compiles, and no other Python. Kernels run interpreted.
"""

import ast
import builtins
import inspect
import math
import secrets
import textwrap
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ctlearn.kernels.interpreted import Launch, watched
from ctlearn.kernels.required import Tensor, tl, torch, triton

# A float32 result is no further off than this, relative to the largest of its numbers.
ALLOWED = 2e-5
# Columns of a verdict in print: what fits a page's column of code.
WIDTH = 80
# Numbers of NaN before and behind each array.
MARGIN = 256
# What a kernel may say of Python's own; a compiler knows these.
BUILTINS = {"range", "min", "max", "float", "int", "bool", "len", "abs"}
# What a kernel's text is made of. A pattern, say, would read any attribute there is.
SYNTAX = (
    ast.AnnAssign | ast.Assert | ast.Assign | ast.AugAssign | ast.Expr | ast.Return,
    ast.Break | ast.Continue | ast.For | ast.If | ast.Pass | ast.While,
    ast.Attribute | ast.Call | ast.Name | ast.Slice | ast.Subscript | ast.keyword,
    ast.BinOp | ast.BoolOp | ast.Compare | ast.IfExp | ast.UnaryOp,
    ast.Constant | ast.FormattedValue | ast.JoinedStr | ast.List | ast.Tuple,
    ast.boolop | ast.cmpop | ast.expr_context | ast.operator | ast.unaryop,
)

Sizes = dict[str, int]
Arrays = dict[str, Tensor]


class Puzzle(NamedTuple):
    """A kernel that is asked for.

    It is launched as kernel[grid](inputs, outputs, sizes, tiles): all arrays contiguous
    float32, in the order in which `draw` and `truth` name them; the sizes as numbers;
    the tiles, powers of two, as `tl.constexpr`. There is one program, unless `grid`
    says how many. `once` are inputs of which each number may be loaded once only, by
    all programs together. If `calm`, no exponential may overflow, even where its result
    is thrown away.
    """

    asks: str
    draw: Callable[..., Arrays]
    truth: Callable[..., Arrays]
    tiles: Callable[[Sizes], Sizes]
    tried: tuple[Sizes, ...]
    grid: Callable[[Sizes, Sizes], int] = lambda sizes, tiles: 1
    once: tuple[str, ...] = ()
    calm: bool = False

    def signature(self) -> str:
        """The names of the kernel's parameters, in order."""
        sizes = self.tried[0]
        x = self.draw(torch.Generator().manual_seed(0), **sizes)
        outputs = self.truth(**{n: a.double() for n, a in x.items()})
        tiles = [f"{n}: tl.constexpr" for n in self.tiles(sizes)]
        return ", ".join([*x, *outputs, *sizes, *tiles])


class Verdict(NamedTuple):
    """Whether a kernel passed, and what is to be said."""

    passed: bool
    says: str

    def __repr__(self) -> str:
        told = f"{'Passed.' if self.passed else 'Not yet.'} {self.says}"
        return textwrap.fill(told, WIDTH)


class Refused(Exception):
    """A kernel that cannot be judged, or does not pass; the message says why."""


def check(name: str, kernel: Any, seed: int | None = None) -> Verdict:
    """The verdict on a kernel; inputs are drawn anew each time, unless seeded.

    Raises KeyError for a name that `PUZZLES` lacks, and RuntimeError where kernels are
    compiled, which shows too little.
    """
    puzzle = PUZZLES[name]
    if not hasattr(triton.jit(len_of_nothing), "rewrite"):
        raise RuntimeError("puzzles are judged interpreted: interpreted.begin() first")
    seed = secrets.randbits(32) if seed is None else seed
    try:
        fresh = own_copy(kernel)
        for sizes in puzzle.tried:
            judge(puzzle, fresh, sizes, seed)
    except Refused as why:
        return Verdict(False, str(why))
    tried = "; ".join(said(sizes) for sizes in puzzle.tried)
    return Verdict(True, f"Right at {tried}.")


def len_of_nothing() -> None:
    """What `check` asks Triton to take, to see what it makes of it."""


def said(sizes: Sizes) -> str:
    """Sizes in words."""
    return ", ".join(f"{name} = {n}" for name, n in sizes.items())


def own_copy(kernel: Any) -> Any:
    """The kernel anew, without what may have been hung on it; raises Refused."""
    plain = type(triton.jit(len_of_nothing))
    if type(kernel) is not plain:
        raise Refused("A kernel is a function with @triton.jit in front of it.")
    for fault in faults(kernel.fn, set()):
        raise Refused(fault)
    plain.rewritten_fn.pop(kernel.fn, None)
    return triton.jit(kernel.fn)


def faults(function: Callable, seen: set[Callable]) -> Iterator[str]:
    """What of its text no compiler for a GPU would take, as sentences."""
    seen.add(function)
    tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    if not isinstance(tree, ast.FunctionDef):
        yield f"{function.__name__} should be a function."
        return
    own = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    own |= {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    around = inspect.getclosurevars(function)
    known = around.globals | around.nonlocals
    allowed = {name for name in dir(tl.tensor) if not name.startswith("_")}
    allowed |= {"element_ty", "shape", "dtype", "value"}
    for node in (inner for statement in tree.body for inner in ast.walk(statement)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield "A kernel defines nothing inside itself."
        elif not isinstance(node, SYNTAX):
            yield f"A kernel has no {type(node).__name__.lower()}."
        elif isinstance(node, ast.Attribute):
            yield from of_language(node, known, own, allowed)
        elif isinstance(node, ast.Name) and node.id not in own:
            yield from of_outside(node.id, known, seen)


def of_language(
    node: ast.Attribute, known: dict[str, Any], own: set[str], allowed: set[str]
) -> Iterator[str]:
    """What is wrong with `x.name`: tl has its functions, a tensor what tensors have."""
    base = node.value
    module = known.get(base.id) if isinstance(base, ast.Name) else None
    module = {"tl.math": tl.math, "triton.language": tl}.get(ast.unparse(base), module)
    if any(module is each for each in (tl, tl.math, triton)):
        if not is_tritons(getattr(module, node.attr, None), node.attr):
            yield f"A kernel cannot use {ast.unparse(node)}."
    elif node.attr not in allowed:
        yield f"A kernel cannot use {ast.unparse(node)}."


def is_tritons(found: Any, name: str) -> bool:
    """Whether what a module of Triton has by this name is Triton's own, and open."""
    home = str(getattr(found, "__module__", "")).partition(".")[0]
    own = home == "triton" or found is tl or found is tl.math
    return own and not name.startswith("_")


def of_outside(name: str, known: dict[str, Any], seen: set[Callable]) -> Iterator[str]:
    """What is wrong with a name that the kernel has from elsewhere."""
    if name not in known:
        if name not in BUILTINS or not hasattr(builtins, name):
            yield f"A kernel cannot use {name}."
        return
    value = known[name]
    if type(value) is type(triton.jit(len_of_nothing)):
        if value.fn not in seen:
            yield from faults(value.fn, seen)
    elif (
        value is not tl and value is not triton and not isinstance(value, tl.constexpr)
    ):
        yield f"A kernel cannot use {name}: it is not Triton's."


def guarded(x: Tensor | None, like: Tensor) -> tuple[Tensor, Tensor]:
    """A copy of x, or NaN, in the midst of NaN: the whole, and the part."""
    whole = torch.full((like.numel() + 2 * MARGIN,), math.nan)
    part = whole[MARGIN : MARGIN + like.numel()].view(like.shape)
    if x is not None:
        part.copy_(x)
    return whole, part


def judge(puzzle: Puzzle, kernel: Any, sizes: Sizes, seed: int) -> None:
    """Launch it once at these sizes; raises Refused."""
    at = f"At {said(sizes)}"
    drawn = puzzle.draw(torch.Generator().manual_seed(seed), **sizes)
    # shapes only: what is right is computed when the kernel has run
    blank = {n: torch.zeros_like(a, dtype=torch.float64) for n, a in drawn.items()}
    shapes = puzzle.truth(**blank)
    inputs = {n: guarded(a, a) for n, a in drawn.items()}
    outputs = {n: guarded(None, a) for n, a in shapes.items()}
    arrays = {n: part for n, (_, part) in (inputs | outputs).items()}
    tiles = puzzle.tiles(sizes)
    launched = (*arrays.values(), *sizes.values())
    launch = watched_run(puzzle, kernel, launched, sizes, tiles, at)
    stray = np.concatenate([launch.read(), launch.written()])
    if not within(stray, list(arrays.values())).all():
        raise Refused(f"{at} it touches memory that is not its own: a mask is missing.")
    for name in inputs:
        if not torch.equal(arrays[name], drawn[name]):
            raise Refused(f"{at} it writes into its input {name}.")
    for name in puzzle.once:
        times = loads_of(launch, arrays[name])
        if times > arrays[name].numel():
            raise Refused(
                f"{at} it loads {times / arrays[name].numel():.1f} numbers for each of "
                f"{name}; once is enough."
            )
    right = puzzle.truth(**{n: a.double() for n, a in drawn.items()})
    for name, wanted in right.items():
        compare(name, arrays[name], wanted, at)


def watched_run(
    puzzle: Puzzle, kernel: Any, launched: tuple, sizes: Sizes, tiles: Sizes, at: str
) -> Launch:
    """The launch; nothing outside its arrays is looked at."""
    arrays = [x for x in launched if isinstance(x, Tensor)]
    grid = (puzzle.grid(sizes, tiles),)
    over = "raise" if puzzle.calm else "ignore"
    with np.errstate(over=over, invalid="ignore", divide="ignore"):
        try:
            with watched(lambda addresses: within(addresses, arrays)) as launches:
                kernel[grid](*launched, **tiles)
        except Exception as error:  # whatever a kernel may do wrong is for its author
            text = " ".join(str(error.__cause__ or error).split())
            if "overflow" in text:
                raise Refused(
                    f"{at} an exponential overflows: mask its argument, not its result."
                ) from error
            raise Refused(f"{at} it stops: {text}") from error
    return launches[0]


def within(addresses: np.ndarray, arrays: list[Tensor]) -> np.ndarray:
    """Which addresses are of a number in one of the arrays."""
    found = np.zeros(addresses.shape, dtype=bool)
    for x in arrays:
        start, size = x.data_ptr(), x.element_size()
        found |= (addresses >= start) & (addresses < start + size * x.numel())
    return found


def loads_of(launch: Launch, x: Tensor) -> int:
    """How many numbers of x were loaded, repeats counted."""
    return int(within(launch.read(), [x]).sum())


def compare(name: str, found: Tensor, wanted: Tensor, at: str) -> None:
    """Raise Refused if the result is not what is right."""
    missing = int(found.isnan().sum())
    if missing == found.numel():
        raise Refused(f"{at} nothing is written to {name}, or NaN everywhere.")
    if missing:
        raise Refused(f"{at} {missing} of {found.numel()} numbers of {name} are NaN.")
    off = (found.double() - wanted).abs()
    if not off.max() <= ALLOWED * wanted.abs().max():
        first = tuple(torch.nonzero(off > ALLOWED * wanted.abs().max())[0].tolist())
        raise Refused(
            f"{at} {name} is wrong, first at {list(first)}: "
            f"{found[first]:.4g} instead of {wanted[first]:.4g}."
        )


def normal(rng: torch.Generator, *shape: int) -> Tensor:
    """Random numbers."""
    return torch.randn(*shape, generator=rng)


def padded(n: int) -> int:
    """The least power of two that holds n, and 16 at least."""
    return max(16, 1 << (n - 1).bit_length())


def channels(sizes: Sizes) -> Sizes:
    """Tiles that hold all channels of keys and values."""
    return {"K": padded(sizes["d_k"]), "V": padded(sizes["d_v"])}


def gates(rng: torch.Generator, C: int) -> Arrays:
    """Log decays, strong ones and weak ones, and the last two weak."""
    g = -torch.rand(C, generator=rng)
    strong = torch.rand(C, generator=rng) < 0.8
    strong[-2:] = False
    return {"g": torch.where(strong, 60 * g, g / 10)}


def unit(rng: torch.Generator, *shape: int) -> Tensor:
    """Random rows of length one."""
    return torch.nn.functional.normalize(normal(rng, *shape), dim=-1)


def faded(x: Tensor, g: Tensor) -> Arrays:
    """Row t times exp(g_t)."""
    return {"y": g.exp()[:, None] * x}


def kept_between(g: Tensor) -> Arrays:
    """D_ij = exp(sum of g over j < r <= i) for j <= i, else 0."""
    i = torch.arange(len(g))
    crossed = (i[:, None, None] >= i) & (i > i[:, None])
    return {"D": (crossed * g).sum(-1).exp().tril()}


def summed(q: Tensor, k: Tensor, v: Tensor) -> Arrays:
    """Causal linear attention from an empty state, and its last state."""
    return {"o": (q @ k.mT).tril() @ v, "S": k.mT @ v}


def one_chunk(
    q: Tensor, k: Tensor, v: Tensor, beta: Tensor, A: Tensor, S: Tensor
) -> Arrays:
    """A chunk of the delta rule, its system solved: A is (I + L)^{-1} - I."""
    X = beta[:, None] * (v - k @ S)
    R = X + A @ X
    return {"o": q @ S + (q @ k.mT).tril() @ R, "last": S + k.mT @ R}


def chunk_of(rng: torch.Generator, C: int, d_k: int, d_v: int) -> Arrays:
    """What a chunk is given, A solved from its keys and rates."""
    q, k, v = normal(rng, C, d_k), unit(rng, C, d_k), normal(rng, C, d_v)
    beta = torch.rand(C, generator=rng)
    one = torch.eye(C, dtype=torch.float64)
    L = (beta[:, None] * (k @ k.mT)).tril(-1).double()
    A = torch.linalg.solve_triangular(one + L, one, upper=False) - one
    S = normal(rng, d_k, d_v)
    return {"q": q, "k": k, "v": v, "beta": beta, "A": A.float(), "S": S}


PUZZLES = {
    "fade": Puzzle(
        "y [T, d] is x [T, d], row t times exp(g_t), g [T]; a program for C rows.",
        draw=lambda rng, T, d: {"x": normal(rng, T, d), "g": normal(rng, T)},
        truth=faded,
        tiles=lambda sizes: {"C": 16, "D": padded(sizes["d"])},
        grid=lambda sizes, tiles: triton.cdiv(sizes["T"], tiles["C"]),
        tried=({"T": 32, "d": 16}, {"T": 37, "d": 24}, {"T": 1, "d": 5}),
        once=("x",),
    ),
    "decays": Puzzle(
        "D [C, C] holds exp(g_{j+1} + ... + g_i) for j <= i and 0 above the diagonal, "
        "g [C]; one program, and nothing overflows.",
        draw=gates,
        truth=kept_between,
        tiles=lambda sizes: {"N": padded(sizes["C"])},
        tried=({"C": 16}, {"C": 11}, {"C": 64}),
        calm=True,
    ),
    "state": Puzzle(
        "o [T, d_v] and S [d_k, d_v] of linear attention from an empty state, q and k "
        "[T, d_k], v [T, d_v]; one program, which loads each number once.",
        draw=lambda rng, T, d_k, d_v: {
            "q": normal(rng, T, d_k),
            "k": normal(rng, T, d_k),
            "v": normal(rng, T, d_v),
        },
        truth=summed,
        tiles=lambda sizes: {"C": 16, **channels(sizes)},
        tried=(
            {"T": 32, "d_k": 16, "d_v": 16},
            {"T": 37, "d_k": 24, "d_v": 8},
            {"T": 5, "d_k": 8, "d_v": 20},
        ),
        once=("q", "k", "v"),
    ),
    "chunk": Puzzle(
        "o [C, d_v] and the last state [d_k, d_v] of a chunk of the delta rule from S, "
        "with A [C, C], which is (I + L)^{-1} - I; one program, which loads each "
        "number once.",
        draw=chunk_of,
        truth=one_chunk,
        tiles=lambda sizes: {"N": padded(sizes["C"]), **channels(sizes)},
        tried=(
            {"C": 16, "d_k": 16, "d_v": 16},
            {"C": 13, "d_k": 24, "d_v": 8},
            {"C": 40, "d_k": 8, "d_v": 20},
        ),
        once=("q", "k", "v", "A", "S"),
    ),
}
