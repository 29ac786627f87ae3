"""What a GPU's table is made of: forms held to float64, and times between events."""

import dataclasses
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from common import SOFTMAX, Form, drawn, heads_first, leaves, operations, ours

# Channels of keys and of values, and the chunks whose products are counted.
D, CHUNK = 128, 64
# In bfloat16, of outputs and of gradients.
ALLOWED = {"o": 6e-3, "S": 6e-3}
ALLOWED_GRADIENT = 1e-2


# (prepare, call): what is not timed makes what is timed its argument.
Timed = tuple[Callable[[], Any], Callable[[Any], Any]]
Timer = Callable[[Callable[[], Any], Callable[[Any], Any]], float]
# What a form makes of its inputs: outputs, and the last state if it has one.
Called = Callable[[dict], tuple[Any, Any]]


class Shape(NamedTuple):
    """Sequences, tokens, heads."""

    B: int
    T: int
    H: int

    def __str__(self) -> str:
        return f"B={self.B} T={self.T} H={self.H}"


@dataclass(frozen=True)
class Ceilings:
    """What the GPU did in this run: bytes a second, and operations a second."""

    copied: float
    bfloat16: float
    float32: float

    def floor(self, moved: float, operations: float) -> float:
        """The least milliseconds that these bytes and these operations take."""
        return 1e3 * max(moved / self.copied, operations / self.bfloat16)

    def __str__(self) -> str:
        return (
            f"A copy moves {self.copied / 1e12:.2f} TB/s, a product of bfloat16 makes "
            f"{self.bfloat16 / 1e12:.0f} TFLOP/s, of float32 {self.float32 / 1e12:.1f}."
        )


@dataclass(frozen=True)
class Row:
    """One form at one shape; `refused` says why it was not timed."""

    form: Form
    shape: Shape
    error: float = 0.0
    floor: float = 0.0
    times: dict[str, float] = dataclasses.field(default_factory=dict)
    refused: str = ""

    @property
    def ours(self) -> bool:
        """Whether it is one of the book's."""
        return self.form.library == "ctlearn"


class Events:
    """Milliseconds on the GPU, what is read there not being in its cache.

    The writes that empty the cache take longer than Python takes to queue the call, so
    that no launch is waited for between the events.
    """

    def __init__(self) -> None:
        import torch

        self.torch = torch
        self.scratch = torch.empty(2**30, dtype=torch.int8, device="cuda")

    def __call__(self, prepare: Callable[[], Any], call: Callable[[Any], Any]) -> float:
        """Those of `call`, which is given what `prepare` gives."""
        cuda = self.torch.cuda
        start, end = (cuda.Event(enable_timing=True) for _ in range(2))
        prepared = prepare()
        for value in range(8):
            self.scratch.fill_(value)
        start.record()
        call(prepared)
        end.record()
        end.synchronize()
        return start.elapsed_time(end)


def medians(timer: Timer, timed: dict[Any, Timed], rounds: int) -> dict[Any, float]:
    """Of each, after a run that does not count, the runs taking turns."""
    seen: dict[Any, list[float]] = {name: [] for name in timed}
    for turn in range(rounds + 1):
        for name, (prepare, call) in timed.items():
            milliseconds = timer(prepare, call)
            if turn:
                seen[name].append(milliseconds)
    return {name: statistics.median(all_) for name, all_ in seen.items()}


def ceilings(
    timer: Timer, rounds: int, *, size: int = 8192, moved: int = 2**31, device: str
) -> Ceilings:
    """Measure them, on numbers that are not zero: those are multiplied faster."""
    import torch

    source = torch.randint(0, 127, (moved,), dtype=torch.int8, device=device)
    target = torch.empty_like(source)
    wide = torch.randn(size, size, device=device)
    narrow = wide.to(torch.bfloat16)
    calls: dict[str, Callable[[Any], Any]] = {
        "copied": lambda _: target.copy_(source),
        "bfloat16": lambda _: narrow @ narrow,
        "float32": lambda _: wide @ wide,
    }
    timed = {name: (lambda: None, call) for name, call in calls.items()}
    work = {"copied": 2 * moved, "bfloat16": 2 * size**3, "float32": 2 * size**3}
    found = medians(timer, timed, rounds)
    return Ceilings(**{name: 1e3 * work[name] / ms for name, ms in found.items()})


def called(form: Form) -> Called:
    """The form as a function of our letters; torch's attention is FlashAttention."""
    import torch

    function = form.load()
    flash = torch.nn.attention.SDPBackend.FLASH_ATTENTION

    def call(x: dict) -> tuple[Any, Any]:
        arguments, named = form.call(x)
        if form.call is not heads_first:
            return function(*arguments, **named)[:2]
        with torch.nn.attention.sdpa_kernel(flash):
            return function(*arguments, **named).transpose(1, 2), None

    return call


def reference(mechanism: str) -> Called:
    """What is right, on float64: the recurrence, or every score at once."""
    import torch

    def attention(x: dict) -> tuple[Any, None]:
        scores = torch.einsum("bthk,bshk->bhts", x["q"], x["k"])
        past = torch.ones_like(scores[0, 0], dtype=torch.bool).tril()
        P = scores.masked_fill(~past, -torch.inf).softmax(-1)
        return torch.einsum("bhts,bshv->bthv", P, x["v"]), None

    if mechanism == SOFTMAX:
        return attention
    return called(Form(mechanism, "ctlearn.layers.memory:recurrent", ours()))


def picked(name: str, x: Any) -> Any:
    """The first head of the first sequence and the last of the last, as two sequences.

    They are computed apart from all others, and lie where an offset would go wrong.
    """
    b, h = [0, x.shape[0] - 1], [0, x.shape[1 if name == "S" else 2] - 1]
    return x[b, h][:, None] if name == "S" else x[b, :, h][:, :, None]


def slice_of(x: dict) -> dict:
    """That of all inputs, in float64; an e that is k stays k."""
    own = {n: picked(n, a).double() for n, a in x.items() if n != "e"}
    return own | ({"e": own["k"]} if "e" in x else {})


def results(call: Called, x: dict, do: Any) -> dict[str, Any]:
    """Outputs, last state, and of more than one token the gradients of all inputs."""
    import torch

    if do.shape[1] == 1:
        with torch.no_grad():
            o, S = call(x)
        found = {}
    else:
        x = leaves(x)
        o, S = call(x)
        asked = {n: a for n, a in x.items() if n != "e"}
        gradients = torch.autograd.grad(o, list(asked.values()), do)
        found = {f"d{n}": a for n, a in zip(asked, gradients, strict=True)}
    return {
        n: a.detach() for n, a in {"o": o, "S": S, **found}.items() if a is not None
    }


def errors(found: dict[str, Any], true: dict[str, Any]) -> dict[str, float]:
    """Of each result, the norm of what is wrong relative to that of what is right."""
    gaps = {}
    for name, right in true.items():
        wrong = picked(name.removeprefix("d"), found[name]).double() - right
        gaps[name] = float(wrong.norm() / right.norm())
    return gaps


def complaint(gaps: dict[str, float]) -> str:
    """What is further off than it may be, or nothing; NaN always is."""
    off = {n: e for n, e in gaps.items() if not e <= ALLOWED.get(n, ALLOWED_GRADIENT)}
    return ", ".join(f"{name} is off by {e:.1e}" for name, e in off.items())


def least_moved(x: dict, found: dict[str, Any]) -> int:
    """Bytes of all inputs and results of the way forward, each counted once."""
    once = {
        id(a): a for a in (*x.values(), found["o"], found.get("S")) if a is not None
    }
    return sum(a.nbytes for a in once.values())


def timed_calls(call: Called, x: dict, do: Any) -> dict[str, Timed]:
    """Forward and, of more than one token, backward and both."""
    import torch

    def forward(_: Any) -> None:
        with torch.no_grad():
            call(x)

    timed: dict[str, Timed] = {"forward": (lambda: None, forward)}
    if do.shape[1] == 1:
        return timed
    own = leaves(x)
    asked = [a for n, a in own.items() if n != "e"]

    def back(o: Any) -> None:
        torch.autograd.grad(o, asked, do)

    def outputs() -> Any:
        return call(own)[0]

    timed["backward"] = (outputs, back)
    timed["both"] = (lambda: None, lambda _: back(outputs()))
    return timed


def held(
    form: Form, shape: Shape, x: dict, do: Any, true: dict, limits: Ceilings
) -> Row:
    """Its row, not timed yet, and what it refused or got wrong."""
    try:
        found = results(called(form), x, do)
        gaps = errors(found, true)
    except Exception as no:
        said = str(no).strip().partition("\n")[0][:100]
        return Row(form, shape, refused=f"{type(no).__name__}: {said}")
    chunk = 0 if form.mechanism == SOFTMAX else min(CHUNK, shape.T)
    work = shape.B * operations(form.mechanism, shape.T, shape.H, D, chunk)
    floor = limits.floor(least_moved(x, found), work)
    return Row(form, shape, max(gaps.values()), floor, refused=complaint(gaps))


def inputs(mechanism: str, shape: Shape, **where: Any) -> tuple[dict, Any]:
    """What a form is given, with a state if it decodes, and a gradient of outputs."""
    import torch

    x = drawn(mechanism, *shape, D, **where)
    v = x["v"]
    rng = torch.Generator(v.device).manual_seed(1)

    def normal(*sizes: int) -> Any:
        return torch.randn(*sizes, generator=rng, device=v.device)

    if shape.T == 1:
        x["S"] = normal(shape.B, shape.H, D, D)
    return x, normal(*v.shape).to(v.dtype)


def measured(
    forms: list[Form],
    shape: Shape,
    limits: Ceilings,
    timer: Timer,
    rounds: int,
    **where: Any,
) -> list[Row]:
    """The rows of one mechanism at one shape: each is held to float64, then timed."""
    mechanism = forms[0].mechanism
    x, do = inputs(mechanism, shape, **where)
    true = results(reference(mechanism), slice_of(x), picked("o", do).double())
    rows = [held(form, shape, x, do, true, limits) for form in forms]
    timed = {
        (i, name): calls
        for i, row in enumerate(rows)
        if not row.refused
        for name, calls in timed_calls(called(row.form), x, do).items()
    }
    found = medians(timer, timed, rounds)
    return [
        dataclasses.replace(
            row, times={n: ms for (j, n), ms in found.items() if j == i}
        )
        for i, row in enumerate(rows)
    ]
