"""Trained tracking: can a small layer learn to follow a word of permutations?

A token permutes a few things: it is any of their orders, or a swap of two. What is
wanted at every token is the order that has come about (`ctlearn.tasks.state_tracking`).
The layer is Gated DeltaProduct without decay or a mixing of tokens: each token has, in
each of four heads, keys k_j on the sphere, values v_j, strengths beta_j and a query q,
all learned,

    S <- S + beta_j k_j (v_j - S'k_j)',  j = 1, ..., steps,  beta_j = most sigmoid(b_j)
    logits = W_2 relu(W_1 (S'q of each head, of length 1 per entry) + c_1) + c_2

and so is the state it starts from. Kinds of layer differ in `steps` and in `most`. All
kinds and all their seeds are trained side by side.
"""

from collections.abc import Callable, Iterable
from itertools import combinations, permutations
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ctlearn.tasks.training import Setting, cut, on, one_cycle, setting

HEADS, D, HIDDEN = 4, 4, 32
MOST_STEPS = 2
FASTER = 5  # how much faster strengths learn: they should come to rest at 0 or `most`


class Words(NamedTuple):
    """Permutations of so many things: any of them, or swaps of two alone.

    `steps` is for how long to train, on words of `length` tokens.
    """

    things: int
    steps: int
    length: int
    swaps: bool = False

    def orders(self) -> list[tuple[int, ...]]:
        """All orders, of which each is a class to tell."""
        return list(permutations(range(self.things)))

    def tokens(self) -> list[tuple[int, ...]]:
        """What a token may do."""
        moved = [
            order
            for order in self.orders()
            if sum(i != at for at, i in enumerate(order)) == 2
        ]
        return moved if self.swaps else self.orders()

    def table(self) -> Tensor:
        """Number of the order that order a and then token b make: [orders, tokens]."""
        tokens, number = self.tokens(), {x: i for i, x in enumerate(self.orders())}
        rows = [[number[tuple(a[i] for i in b)] for b in tokens] for a in number]
        return torch.tensor(rows)

    def odd(self) -> Tensor:
        """1 for the orders that an odd number of swaps makes, else 0: [orders]."""
        pairs = list(combinations(range(self.things), 2))
        inversions = [sum(x[i] > x[j] for i, j in pairs) for x in self.orders()]
        return torch.tensor(inversions) % 2


class Kind(NamedTuple):
    """How many steps a layer takes at each token, and how strong one may be."""

    steps: int
    most: float


class Trained(NamedTuple):
    """What layers say of long words, for each kind and seed.

    `right` [kinds, seeds, T] is the share of words whose product is told rightly at
    each token, and `parity` that of words of which at least its parity is.
    """

    right: Tensor
    parity: Tensor


THREE = Words(things=3, steps=600, length=32)
FIVE_BY_SWAPS = Words(things=5, steps=800, length=16, swaps=True)
KINDS = {
    "strengths up to 1, two steps": Kind(2, 1.0),
    "strengths up to 2, one step": Kind(1, 2.0),
    "strengths up to 2, two steps": Kind(2, 2.0),
}


def draw(
    table: Tensor, n: int, T: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Words of T tokens [n, T], and the number of the order after each of them."""
    word = torch.randint(table.shape[1], (n, T), generator=generator)
    product, at = torch.empty_like(word), torch.zeros(n, dtype=torch.long)
    for t in range(T):
        at = product[:, t] = table[at, word[:, t]]
    return word, product


def initial_weights(
    tokens: int,
    classes: int,
    layers: int,
    generator: torch.Generator,
    questions: int | None = None,
) -> dict[str, Tensor]:
    """Weights of `layers` layers, in the first axis.

    `questions` is how many queries there are, if a token does not have its own.
    """

    def normal(*shape: int, deviation: float = 1.0) -> Tensor:
        drawn = torch.randn(layers, *shape, generator=generator)
        return (deviation * drawn).requires_grad_()

    each = tokens, HEADS
    return {
        "k": normal(*each, MOST_STEPS, D),
        "v": normal(*each, MOST_STEPS, D),
        "b": normal(*each, MOST_STEPS, deviation=3.0),
        "q": normal(questions or tokens, HEADS, D),
        "start": normal(HEADS, D, D),
        "in": normal(HEADS * D, HIDDEN, deviation=(HEADS * D) ** -0.5),
        "in_0": torch.zeros(layers, 1, HIDDEN).requires_grad_(),
        "out": normal(HIDDEN, classes, deviation=HIDDEN**-0.5),
        "out_0": torch.zeros(layers, 1, classes).requires_grad_(),
    }


def strengths(weights: dict[str, Tensor], kinds: list[Kind]) -> Tensor:
    """Strengths by layer, token, head and step; zero where a layer lacks the step."""
    b = weights["b"]
    seeds = len(b) // len(kinds)
    scale = torch.tensor(
        [[kind.most * (j < kind.steps) for j in range(MOST_STEPS)] for kind in kinds]
    ).repeat_interleave(seeds, 0)
    return scale.to(b)[:, None, None] * torch.sigmoid(b)


def layer(
    weights: dict[str, Tensor],
    beta: Tensor,
    word: Tensor,
    asked: Tensor | None = None,
) -> Tensor:
    """Logits [layers, n, T, classes] of words [layers, n, T].

    `asked` [layers, n, T] are the questions, if they are not the tokens' own. What a
    token does to a state is an affine map, the same wherever it stands, so it
    is multiplied out once and looked up at each token.
    """
    layers, n, T = word.shape

    def look_up(x: Tensor, number: Tensor) -> Tensor:
        """[layers, tokens, HEADS, ...] at each token: T of [layers n HEADS, ...]."""
        at = (number + x.shape[1] * torch.arange(layers)[:, None, None]).flatten()
        rows = F.embedding(at, x.flatten(0, 1).flatten(1))
        rows = rows.view(layers, n, T, HEADS, -1).permute(2, 0, 1, 3, 4)
        return rows.reshape(T, layers * n * HEADS, *x.shape[3:])

    kept, written = (look_up(x, word) for x in _maps(weights, beta))
    q = look_up(weights["q"], word if asked is None else asked)
    start = weights["start"][:, None].expand(-1, n, -1, -1, -1).reshape(-1, D, D)
    states, S = [], start
    # unbind, since a gradient of kept[t] would be as large as that of kept
    for A, B in zip(kept.unbind(), written.unbind(), strict=True):
        S = torch.baddbmm(B, A, S)
        states.append(S)
    o = (q[:, :, None] @ torch.stack(states))[:, :, 0]
    o = F.rms_norm(o, (D,))
    o = o.view(T, layers, n, HEADS * D).permute(1, 2, 0, 3).flatten(1, 2)
    hidden = F.relu(torch.baddbmm(weights["in_0"], o, weights["in"]))
    logits = torch.baddbmm(weights["out_0"], hidden, weights["out"])
    return logits.view(layers, n, T, -1)


def _maps(weights: dict[str, Tensor], beta: Tensor) -> tuple[Tensor, Tensor]:
    """A and B of S -> A S + B, for each layer, token and head: [..., D, D]."""
    k, v = F.normalize(weights["k"], dim=-1), weights["v"]
    A = torch.eye(D).expand(*k.shape[:3], D, D)
    B = torch.zeros_like(A)
    for j in range(MOST_STEPS):
        row, column = k[..., j, None, :], (beta[..., j, None] * k[..., j, :])[..., None]
        A = A - column @ (row @ A)
        B = B + column @ (v[..., j, None, :] - row @ B)
    return A, B


def learn(
    weights: dict[str, Tensor],
    lesson: Callable[[], tuple[Tensor, Tensor]],
    *,
    steps: int,
    rate: float,
    show: Callable[[range], Iterable[int]] = iter,
) -> None:
    """Train layers on lessons: logits [layers, n, T, classes] and what is wanted.

    Adam, its rate up and down in one cycle, gradients cut to length 1 in each layer.
    """
    slow = [x for name, x in weights.items() if name != "b"]
    fast = [x for name, x in weights.items() if name == "b"]
    for _ in one_cycle([(slow, rate), (fast, FASTER * rate)], steps, show):
        logits, wanted = lesson()
        loss = len(logits) * F.cross_entropy(logits.flatten(0, 2), wanted.flatten())
        loss.backward()
        cut(weights.values())


def train(
    words: Words,
    kinds: list[Kind],
    *,
    rate: float = 0.03,
    batch: int = 16,
    tested: int = 256,
    seed: int = 0,
    where: Setting | None = None,
    show: Callable[[range], Iterable[int]] = iter,
) -> Trained:
    """Train on words of `words.length` tokens, and test on 64 of `tested` tokens.

    `seed` sets all that is drawn; `show` may show how far the steps are. `where` is
    what this machine can do if it is not given.
    """
    where = where or setting()
    with on(where):
        generator = where.generator(seed)
        layers, table = len(kinds) * where.seeds, words.table()
        sizes = len(words.tokens()), len(words.orders())
        weights = initial_weights(*sizes, layers, generator)

        def lesson() -> tuple[Tensor, Tensor]:
            drawn = draw(table, layers * batch, words.length, generator)
            word, product = (x.view(layers, batch, -1) for x in drawn)
            return layer(weights, strengths(weights, kinds), word), product

        steps = words.steps * where.longer
        learn(weights, lesson, steps=steps, rate=rate, show=show)
        drawn = draw(table, layers * 64, tested, generator)
        word, product = (x.view(layers, 64, tested) for x in drawn)
        with torch.no_grad():
            said = layer(weights, strengths(weights, kinds), word).argmax(-1)
        odd = words.odd()
        right = (said == product, odd[said] == odd[product])
        shape = (len(kinds), where.seeds, tested)
        return Trained(*(x.float().mean(1).view(shape).cpu() for x in right))
