"""Trained regression: which small attention learns a step of gradient descent.

The task is that of `ctlearn.tasks.in_context_regression`: N pairs (x, y) of one linear
map, and questions x. A token is e = (x, y), a question's token (x, 0), and only the N
pairs are attended to. The answer is minus the question's last entry in the end, as in
[vonoswald2023, proposition 1]. Each attention is given by two products of its matrices,
which are all that counts, V = P W_V and M = W_K' W_Q, each [d + 1, d + 1]:

    stack          e <- e + V Z M e,  Z = sum_i e_i e_i', layer after layer, and every
                   token moves
    softmax_heads  e <- e + sum over heads of V sum_i e_i softmax(e_i' M e), one layer

All seeds are trained side by side, each with weights and tasks of its own.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ctlearn.tasks.in_context_regression import Tasks
from ctlearn.tasks.training import Setting, cut, descent, on, setting

Form = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


class Lessons(NamedTuple):
    """Tasks to train on: N pairs, inputs uniform up to half_widths [d], a batch a step.

    A task is asked so many `questions`; or, where there are none, one along each axis,
    as long as makes the squares of their errors come to the mean over all questions if
    answers are linear in them.
    """

    N: int
    half_widths: Sequence[float]
    questions: int = 0
    batch: int = 256


class Blocks(NamedTuple):
    """Of V the last row (a', -c), of M the columns that meet a question, B above b'.

    Each is [seeds, ...]. The layer answers a rule w with F H w and parts that are even
    in w, where F = c B' - b a' and H is the sum of x x'.
    """

    a: np.ndarray
    b: np.ndarray
    B: np.ndarray
    c: np.ndarray


class Trained(NamedTuple):
    """The products V and M of `form` [seeds, layers or heads, d + 1, d + 1]."""

    form: Form
    V: Tensor
    M: Tensor

    def answers(self, tasks: Tasks, questions: np.ndarray) -> np.ndarray:
        """The answers [seeds, n, m] to questions [n, m, d] or [m, d] on the tasks."""
        to = {"dtype": self.V.dtype, "device": self.V.device}
        tokens = np.concatenate([tasks.x, tasks.y[..., None]], axis=2)
        asked = questions if questions.ndim == 3 else questions[None]
        given = (torch.as_tensor(x[None], **to) for x in (tokens, asked))
        with torch.no_grad():
            return self.form(self.V, self.M, *given).double().cpu().numpy()

    def learned(self, tasks: Tasks) -> np.ndarray:
        """The map u [seeds, n, d] with which a stack answers each task."""
        return self.answers(tasks, np.eye(tasks.x.shape[2]))

    def seed(self, one: int) -> "Trained":
        """One of the seeds, alone."""
        return Trained(self.form, self.V[one : one + 1], self.M[one : one + 1])

    def blocks(self) -> Blocks:
        """What of a stack's first layer reaches an answer."""
        d = self.V.shape[-1] - 1
        V, M = (x[:, 0].double().cpu().numpy() for x in (self.V, self.M))
        return Blocks(a=V[:, d, :d], b=M[:, d, :d], B=M[:, :d, :d], c=-V[:, d, d])

    def step_matrices(self) -> np.ndarray:
        """What stands for eta/N in the first layer's step: F [seeds, d, d]."""
        a, b, B, c = self.blocks()
        return c[:, None, None] * B.swapaxes(1, 2) - b[:, :, None] * a[:, None, :]

    def sharpness(self) -> np.ndarray:
        """How sharp the heads are [seeds]: the mean size of what multiplies k'q."""
        d = self.V.shape[-1] - 1
        along = self.M[..., :d, :d].diagonal(dim1=-2, dim2=-1)
        return along.abs().mean((1, 2)).double().cpu().numpy()

    def signs(self) -> np.ndarray:
        """The sign of each head's scores [seeds, heads], 1 or -1."""
        d = self.V.shape[-1] - 1
        along = self.M[..., :d, :d].diagonal(dim1=-2, dim2=-1)
        return along.mean(-1).sign().double().cpu().numpy()


def stack(V: Tensor, M: Tensor, tokens: Tensor, questions: Tensor) -> Tensor:
    """Answers [seeds, n, m] of layers of linear self-attention.

    The tokens [seeds, n, N, d + 1] are seen by way of Z alone: a layer multiplies each
    by R = I + V Z M, and the next one sees R Z R'. The questions are [seeds, n, m, d],
    and either of the first two sizes may be 1.
    """
    Z, d = [tokens.mT @ tokens], tokens.shape[-1] - 1
    one = torch.eye(d + 1, dtype=tokens.dtype, device=tokens.device)
    for layer in range(V.shape[1] - 1):
        R = one + V[:, layer, None] @ Z[-1] @ M[:, layer, None]
        Z.append(R @ Z[-1] @ R.mT)
    # the last row of the product of all R, from the left
    row = one[d].expand(*Z[0].shape[:2], d + 1)
    for layer in reversed(range(V.shape[1])):
        seen = (row @ V[:, layer])[..., None, :] @ Z[layer]
        row = row + seen[..., 0, :] @ M[:, layer]
    return -(row[..., None, :d] @ questions.mT)[..., 0, :]


def softmax_heads(V: Tensor, M: Tensor, tokens: Tensor, questions: Tensor) -> Tensor:
    """Answers [seeds, n, m] of one layer, the sum of its heads; questions as above."""
    d = tokens.shape[-1] - 1
    scores = tokens[:, :, None] @ (M[:, None, :, :, :d] @ questions[:, :, None].mT)
    values = tokens @ V[:, None, :, d].mT  # [seeds, n, N, heads]
    return -torch.einsum("snhim,snih->snm", scores.softmax(dim=-2), values)


def heads_by_hand(sharpness: np.ndarray, signs: Sequence[int], d: int) -> Trained:
    """Softmax heads of scores tau k'q and values v, both times the head's sign.

    In the place of seeds there is one for each tau of the sharpness [n].
    """
    V = torch.zeros(len(sharpness), len(signs), d + 1, d + 1, dtype=torch.float64)
    M, signed = torch.zeros_like(V), torch.tensor(signs, dtype=torch.float64)
    V[..., d, d] = -signed
    along = signed * torch.tensor(sharpness, dtype=torch.float64)[:, None]
    M[..., :d, :d] = along[..., None, None] * torch.eye(d, dtype=torch.float64)
    return Trained(softmax_heads, V, M)


def train(
    form: Form,
    lessons: Lessons,
    *,
    parts: int = 1,
    steps: int = 800,
    rate: float = 0.01,
    seed: int = 0,
    where: Setting | None = None,
    show: Callable[[range], Iterable[int]] = iter,
) -> Trained:
    """Train `parts` layers or heads on tasks that are never seen twice.

    Weights are small and random at first, and all of them are free. `seed` sets all
    that is drawn; `show` may show how far the steps are. Adam, its rate falling as a
    cosine, slopes cut to length 1 for each seed. `where` is what this machine can do
    if it is not given.
    """
    where = where or setting()
    with on(where):
        generator, d = where.generator(seed), len(lessons.half_widths)
        shape = (where.seeds, parts, d + 1, d + 1)
        V, M = (_SMALL * torch.randn(shape, generator=generator) for _ in range(2))
        adam = torch.optim.Adam([V.requires_grad_(), M.requires_grad_()], lr=rate)
        steps *= where.longer
        cosine = torch.optim.lr_scheduler.CosineAnnealingLR(adam, steps)
        for _ in descent(adam, cosine, steps, show):
            w, x, asked = _draw(lessons, where.seeds, generator)
            answers = form(V, M, torch.cat([x, x @ w], dim=-1), asked)
            off = answers - (asked @ w)[..., 0]
            off.square().mean((1, 2)).sum().backward()
            cut([V, M])
        return Trained(form, V.detach(), M.detach())


def curvatures(trained: Trained, tasks: Tasks) -> np.ndarray:
    """Second derivatives of the mean error of one layer: [seeds, (d + 1)^2 - 1].

    Their matrix's eigenvalues at the trained weights, smallest first, over those
    weights that reach an answer. The direction in which V grows as M shrinks is left
    out: no answer changes along it.
    """
    d = tasks.w.shape[1]
    to = {"dtype": torch.float64, "device": trained.V.device}
    x, y = (torch.as_tensor(z, **to) for z in (tasks.x, tasks.y))
    w, square = (torch.as_tensor(z, **to) for z in (tasks.w, tasks.square))
    tokens, one = torch.cat([x, y[..., None]], dim=-1)[None], torch.eye(d, **to)

    def error(weights: Tensor) -> Tensor:
        row, M = weights[: d + 1], weights[d + 1 :].view(d + 1, d)
        V = torch.cat([torch.zeros(d, d + 1, **to), row[None]])
        M = torch.cat([M, torch.zeros(d + 1, 1, **to)], dim=1)
        u = stack(V[None, None], M[None, None], tokens, one[None, None])[0]
        return (square * (w - u) ** 2).sum(-1).mean()

    found = []
    for V, M in zip(trained.V[:, 0].double(), trained.M[:, 0].double(), strict=True):
        weights = torch.cat([V[d], M[:, :d].flatten()])
        second = torch.as_tensor(torch.autograd.functional.hessian(error, weights))
        shared = torch.cat([V[d], -M[:, :d].flatten()])[:, None]
        across = torch.linalg.qr(shared, mode="complete").Q[:, 1:]
        bends = torch.linalg.eigvalsh(across.mT @ second @ across)
        found.append(bends.cpu().numpy())
    return np.array(found)


_SMALL = 0.05  # deviation of the weights at first


def _draw(
    lessons: Lessons, seeds: int, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """Rules [seeds, n, d, 1], inputs [seeds, n, N, d] and questions [..., m, d]."""
    widths, d = torch.tensor(lessons.half_widths), len(lessons.half_widths)
    n = lessons.batch

    def uniform(rows: int) -> Tensor:
        return widths * (2 * torch.rand(seeds, n, rows, d, generator=generator) - 1)

    w = torch.randn(seeds, n, d, 1, generator=generator)
    # E[x_c^2] is a third of the square of a half-width, and d errors make one mean
    axes = torch.diag(widths * (d / 3) ** 0.5)[None, None]
    asked = uniform(lessons.questions) if lessons.questions else axes
    return w, uniform(lessons.N), asked
