"""Trained recall: which small layer learns to replace, and to begin anew.

A token names something and gives it a value, asks for its value, or begins a new
document. One layer of one head reads the sequence and classifies at the questions:

    x      = (E[name] + M[mark]) / sqrt 2           mark: a value, "ask" or "new"
    q, k   = unit vectors along SiLU(W_q x), SiLU(W_k x),   v = W_v x
    beta   = sigmoid(w_b x + b),   alpha = sigmoid(w_a x + a),  a = 3 at the start
    logits = W_o S_t'q_t + c

The memories differ in whether they fade by alpha and whether they erase. All seeds are
trained side by side, each with weights and sequences of its own: sizes this small leave
a processor mostly waiting.

    python -m ctlearn.tasks --seed 5 --rate 0.03

trains every memory on every task, and prints how well each does.
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ctlearn.layers import memory
from ctlearn.tasks.training import Setting, on, one_cycle, setting

NAMES, VALUES = 16, 16
ASK, NEW = VALUES, VALUES + 1  # marks behind the values
NOTHING = VALUES  # the class of a name that was not told
D_MODEL, D_K, D_V = 32, 8, 32


class Task(NamedTuple):
    """Documents that tell `told` names so many `times` each, before one is asked.

    Of names that the last one has not told `untold` are asked too, first of all such
    as those before it told. `steps` is for how long to train.
    """

    documents: int
    told: int
    times: int
    untold: int = 0
    steps: int = 300


class Memory(NamedTuple):
    """Whether it writes errors rather than values, and whether it fades."""

    erases: bool
    fades: bool


class Sequences(NamedTuple):
    """Names, marks and wanted classes [n, T]; -1 where nothing is asked."""

    names: Tensor
    marks: Tensor
    wanted: Tensor


class Trained(NamedTuple):
    """Share of right answers of each seed [seeds], and its mean decay by token.

    `kept_at_new` and `kept_at_pairs` [seeds] are the mean alpha where a document begins
    and where a pair is told; NaN where there is none. `weights` are the layers'.
    """

    accuracy: Tensor
    kept_at_new: Tensor
    kept_at_pairs: Tensor
    weights: dict[str, Tensor]


class Mark(NamedTuple):
    """What layers write where a document begins, each [seeds].

    `overlap` is the mean cosine of the mark's key with the questions about names,
    `between` that of two questions, and `said` is 1 where the class that the mark's
    value scores highest is "nothing", else 0.
    """

    overlap: Tensor
    between: Tensor
    said: Tensor


TASKS = {
    "unique names": Task(documents=1, told=8, times=1),
    "rebound names": Task(documents=1, told=4, times=3),
    "documents": Task(documents=4, told=4, times=1, untold=4, steps=400),
}
MEMORIES = {
    "add": Memory(erases=False, fades=False),
    "fade and add": Memory(erases=False, fades=True),
    "delta": Memory(erases=True, fades=False),
    "gated delta": Memory(erases=True, fades=True),
}


def draw(task: Task, n: int, generator: torch.Generator) -> Sequences:
    """Sequences of pairs, document after document, and the questions about the last."""

    def random(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator)

    names, marks, before = [], [], torch.zeros(n, NAMES)
    for document in range(task.documents):
        if document:
            names.append(torch.zeros(n, 1, dtype=torch.long))
            marks.append(torch.full((n, 1), NEW))
        some = random(n, NAMES).argsort(1)[:, : task.told]
        order = random(n, task.told * task.times).argsort(1)
        told = some.repeat(1, task.times).gather(1, order)
        values = torch.randint(VALUES, told.shape, generator=generator)
        names.append(told)
        marks.append(values)
        if document < task.documents - 1:
            before.scatter_(1, told, 1.0)
    latest = torch.full((n, NAMES), NOTHING)
    for t in range(told.shape[1]):
        latest.scatter_(1, told[:, t : t + 1], values[:, t : t + 1])
    unlikely = random(n, NAMES) - before + 2 * (latest != NOTHING)
    asked = torch.cat([some, unlikely.argsort(1)[:, : task.untold]], 1)
    asked = asked.gather(1, random(*asked.shape).argsort(1))
    read = torch.cat([*names, asked], 1)
    wanted = torch.full_like(read, -1)
    wanted[:, -asked.shape[1] :] = latest.gather(1, asked)
    return Sequences(read, torch.cat([*marks, torch.full_like(asked, ASK)], 1), wanted)


def initial_weights(seeds: int, generator: torch.Generator) -> dict[str, Tensor]:
    """The layer's weights, of `seeds` layers in the first axis."""

    def normal(rows: int, columns: int, deviation: float = 1.0) -> Tensor:
        drawn = torch.randn(seeds, rows, columns, generator=generator)
        return (deviation * drawn).requires_grad_()

    def constant(columns: int, value: float) -> Tensor:
        return torch.full((seeds, 1, columns), value).requires_grad_()

    inward, outward = D_MODEL**-0.5, D_V**-0.5
    return {
        "names": normal(NAMES, D_MODEL),
        "marks": normal(VALUES + 2, D_MODEL),
        "q": normal(D_MODEL, D_K, inward),
        "k": normal(D_MODEL, D_K, inward),
        "v": normal(D_MODEL, D_V, inward),
        "beta": normal(D_MODEL, 1, 0.1),
        "beta_0": constant(1, 0.0),
        "alpha": normal(D_MODEL, 1, 0.1),
        "alpha_0": constant(1, 3.0),
        "out": normal(D_V, VALUES + 1, outward),
        "out_0": constant(VALUES + 1, 0.0),
    }


def layer(
    weights: dict[str, Tensor], kind: Memory, names: Tensor, marks: Tensor
) -> tuple[Tensor, Tensor]:
    """Logits [seeds, n, T, classes] and log alpha of sequences [seeds, n, T]."""
    seeds, n, T = names.shape
    seed = torch.arange(seeds)[:, None, None]
    x = weights["names"][seed, names] + weights["marks"][seed, marks]
    x = x.flatten(1, 2) / math.sqrt(2)

    def tokens(rows: Tensor) -> Tensor:
        return rows.reshape(seeds * n, T, 1, -1)

    q, k = (tokens(F.normalize(F.silu(x @ weights[w]), dim=-1)) for w in "qk")
    beta = tokens(torch.sigmoid(x @ weights["beta"] + weights["beta_0"]))[..., 0]
    log_decay = tokens(F.logsigmoid(x @ weights["alpha"] + weights["alpha_0"]))[..., 0]
    o, _ = memory.parallel(
        q,
        k,
        tokens(x @ weights["v"]),
        e=k if kind.erases else None,
        beta=beta,
        log_decay=log_decay if kind.fades else None,
    )
    logits = o.reshape(seeds, n * T, -1) @ weights["out"] + weights["out_0"]
    return logits.view(seeds, n, T, -1), log_decay.view(seeds, n, T)


def train(
    task: Task,
    kind: Memory,
    *,
    rate: float = 0.03,
    batch: int = 32,
    seed: int = 0,
    where: Setting | None = None,
) -> Trained:
    """Train layers on sequences that are never seen twice, and test on 256 each.

    `seed` sets all that is drawn. Adam, its rate up and down in one cycle. `where` is
    what this machine can do if it is not given.
    """
    where = where or setting()
    with on(where):
        generator = where.generator(seed)
        weights = initial_weights(where.seeds, generator)

        def sequences(n: int) -> Sequences:
            drawn = draw(task, where.seeds * n, generator)
            return Sequences(*(x.view(where.seeds, n, -1) for x in drawn))

        steps = task.steps * where.longer
        for _ in one_cycle([(weights.values(), rate)], steps):
            drawn = sequences(batch)
            logits, _ = layer(weights, kind, drawn.names, drawn.marks)
            # a mean over all seeds: times their number, each sees its own mean
            loss = where.seeds * F.cross_entropy(
                logits.flatten(0, 2), drawn.wanted.flatten(), ignore_index=-1
            )
            loss.backward()
        return _tested(weights, kind, sequences(256))


@torch.no_grad()
def _tested(weights: dict[str, Tensor], kind: Memory, drawn: Sequences) -> Trained:
    """What the layers do on sequences, on the processor."""
    logits, log_decay = layer(weights, kind, drawn.names, drawn.marks)
    right = (logits.argmax(-1) == drawn.wanted).double()
    kept = log_decay.exp().double()
    return Trained(
        _means(right, drawn.wanted >= 0).cpu(),
        _means(kept, drawn.marks == NEW).cpu(),
        _means(kept, drawn.marks < VALUES).cpu(),
        {name: x.detach().cpu() for name, x in weights.items()},
    )


def written_at_mark(trained: Trained) -> Mark:
    """The write of the mark that begins a document, beside the questions to come."""
    w = trained.weights
    asked = (w["names"] + w["marks"][:, ASK : ASK + 1]) / math.sqrt(2)
    mark = (w["names"][:, :1] + w["marks"][:, NEW : NEW + 1]) / math.sqrt(2)
    q, k = (
        F.normalize(F.silu(x @ w[n]), dim=-1) for x, n in ((asked, "q"), (mark, "k"))
    )
    overlaps = q @ q.mT
    others = overlaps.sum((1, 2)) - NAMES  # each question's cosine with itself is 1
    said = (mark @ w["v"] @ w["out"] + w["out_0"])[:, 0].argmax(-1) == NOTHING
    return Mark((q @ k.mT).mean((1, 2)), others / (NAMES * (NAMES - 1)), said.int())


def _means(x: Tensor, where: Tensor) -> Tensor:
    """The mean of each seed's entries at some places."""
    return (x * where).sum((1, 2)) / where.sum((1, 2))
