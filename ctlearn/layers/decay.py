"""What a chunk's tokens keep of one another: all, one number, or one a channel.

Every exponent is a sum over the tokens between two boundaries, none of which is above
zero: nothing overflows, minus infinity forgets exactly, and no digits are lost to a
difference of prefix sums. The gradients of decays are sums over the pairs that a token
stands between, and over no others: what a token keeps of itself is not in them, and
cannot drown them.

Shapes: x, y [chunks, heads, C, d], the heads being those of all sequences; a decay's
gradient is of the shape of its logarithms, [chunks, heads, C] or [..., C, d].
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

# Rows of a sub-chunk, in which vector decays are taken pair by pair.
SUB = 16


class Seen(ABC):
    """What is kept on the way to each token: before or after it has forgotten.

    What ends in `_backward` takes the gradient of a result, which it may overwrite, and
    gives those of the arguments, the decay's last.
    """

    @abstractmethod
    def pairs(self, x: Tensor, y: Tensor) -> Tensor:
        """Row i of x against row j of y, decayed in between; zero for j > i."""

    @abstractmethod
    def pairs_backward(
        self, x: Tensor, y: Tensor, W: Tensor, dW: Tensor, dx: Tensor, dy: Tensor
    ) -> Tensor | None:
        """For dW, the gradient of the pairs W, zero above the diagonal.

        Those of x and y are added to dx and dy, that of the decay is returned.
        """

    @abstractmethod
    def from_start(self, x: Tensor) -> Tensor:
        """Rows of x times what is kept since the chunk's start."""

    @abstractmethod
    def from_start_backward(
        self, x: Tensor, dx: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """For dx, the gradient of the decayed rows."""


class Decay(ABC):
    """The decays of some chunks, as factors of the arrays they meet."""

    after: Seen
    whole: Tensor  # [chunks, heads or 1, d_k or 1, 1]: of a state, by all of a chunk

    @property
    @abstractmethod
    def before(self) -> Seen:
        """What the token before each has left."""

    @abstractmethod
    def to_end(self, y: Tensor) -> Tensor:
        """Rows of y times what is kept of them at the chunk's end."""

    @abstractmethod
    def to_end_backward(self, y: Tensor, dy: Tensor) -> tuple[Tensor, Tensor | None]:
        """For dy, the gradient of the decayed rows."""

    @abstractmethod
    def whole_backward(self, S: Tensor, dS: Tensor) -> Tensor | None:
        """The decay's, for all chunks' states [chunks, heads, d_k, d_v] at once."""


def decay_of(log_decay: Tensor | None, k: Tensor) -> Decay:
    """The decay of chunks of keys [chunks, heads, C, d_k]."""
    if log_decay is None:
        return NoDecay(k)
    if log_decay.dim() < k.dim():
        return ScalarDecay(log_decay)
    return VectorDecay(log_decay)


class NoDecay(Seen, Decay):
    """All is kept."""

    def __init__(self, k: Tensor) -> None:
        self.after = self
        self.whole = k.new_ones(len(k), 1, 1, 1)

    @property
    def before(self) -> Seen:
        """Just the same."""
        return self

    def pairs(self, x: Tensor, y: Tensor) -> Tensor:
        """The scores of the past."""
        return (x @ y.mT).tril()

    def pairs_backward(
        self, x: Tensor, y: Tensor, W: Tensor, dW: Tensor, dx: Tensor, dy: Tensor
    ) -> Tensor | None:
        """Those of a product of matrices."""
        _add_gradients(x, y, dW, dx, dy)
        return None

    def from_start(self, x: Tensor) -> Tensor:
        """The rows."""
        return x

    def to_end(self, y: Tensor) -> Tensor:
        """The rows."""
        return y

    def from_start_backward(
        self, x: Tensor, dx: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """The rows' gradient."""
        return dx, None

    def to_end_backward(self, y: Tensor, dy: Tensor) -> tuple[Tensor, Tensor | None]:
        """The rows' gradient."""
        return dy, None

    def whole_backward(self, S: Tensor, dS: Tensor) -> Tensor | None:
        """Nothing."""
        return None


@dataclass(frozen=True)
class _ScalarSeen(Seen):
    D: Tensor  # [..., C, C], row i: what token i sees of what token j wrote
    since: Tensor  # [..., C]: of what was before the chunk
    late: int  # by how many tokens what row i sees has stopped forgetting

    def pairs(self, x: Tensor, y: Tensor) -> Tensor:
        """Scores times decays."""
        scores = x @ y.mT
        recorded = scores.requires_grad or self.D.requires_grad
        # in place where no graph needs the scores: less memory to pass through caches
        return scores * self.D if recorded else scores.mul_(self.D)

    def pairs_backward(
        self, x: Tensor, y: Tensor, W: Tensor, dW: Tensor, dx: Tensor, dy: Tensor
    ) -> Tensor | None:
        """A token's decay is in every pair that it stands between."""
        over = dW * W
        _add_gradients(x, y, dW.mul_(self.D), dx, dy)
        # of row i the pairs with rows before t, a token between them for t <= i
        earlier = over @ torch.ones_like(over[0, 0]).triu_(1)
        return earlier.tril_(-self.late).sum(-2)

    def from_start(self, x: Tensor) -> Tensor:
        """The rows, each times a number."""
        return x * self.since[..., None]

    def from_start_backward(
        self, x: Tensor, dx: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """A token's decay is in every later row."""
        dx = dx.mul_(self.since[..., None])
        rows = (dx * x).sum(-1)
        if self.late:
            rows = F.pad(rows[..., 1:], (0, 1))
        return dx, _from_behind(rows, -1)


class ScalarDecay(Decay):
    """One rate for all channels: a mask on the scores."""

    after: _ScalarSeen

    def __init__(self, log_decay: Tensor) -> None:
        since = log_decay.cumsum(-1).exp()
        self.after = _ScalarSeen(_mask(log_decay), since, late=0)
        self.whole = since[..., -1, None, None]

    @property
    def before(self) -> _ScalarSeen:
        """What the token before has left."""
        D, since = self.after.D, self.after.since
        return _ScalarSeen(
            F.pad(D[..., :-1, :], (0, 0, 1, 0)),
            F.pad(since[..., :-1], (1, 0), value=1),
            late=1,
        )

    def to_end(self, y: Tensor) -> Tensor:
        """The rows, each times a number."""
        return y * self.after.D[..., -1, :, None]

    def to_end_backward(self, y: Tensor, dy: Tensor) -> tuple[Tensor, Tensor | None]:
        """A token's decay is in every earlier row."""
        dy = dy.mul_(self.after.D[..., -1, :, None])
        return dy, _behind((dy * y).sum(-1)[..., None])[..., 0]

    def whole_backward(self, S: Tensor, dS: Tensor) -> Tensor | None:
        """Every token's decay is in the state."""
        since = self.after.since
        return ((dS * S).sum((-2, -1)) * since[..., -1])[..., None].expand_as(since)


def _add_gradients(x: Tensor, y: Tensor, dW: Tensor, dx: Tensor, dy: Tensor) -> None:
    """Add those of x and y in the product x y', for dW, its own."""
    dW = dW.flatten(0, 1)
    # views, or errors: what is added to a copy is lost
    dx.view(-1, *dx.shape[2:]).baddbmm_(dW, y.flatten(0, 1))
    dy.view(-1, *dy.shape[2:]).baddbmm_(dW.mT, x.flatten(0, 1))


def _mask(g: Tensor) -> Tensor:
    """[..., C, C]: what row i sees of what row j wrote, of log decays g [..., C].

    Where i <= j the exponent is an empty sum, so that nothing overflows before the
    future is masked.
    """
    crossed = g[..., :, None].expand(*g.shape, g.shape[-1]).tril(-1)
    D = crossed.cumsum(-2).exp()
    return D.tril() if D.requires_grad else D.tril_()


@dataclass(frozen=True)
class _Block:
    """Some rows of a chunk, and what is kept up to and among them, by channel."""

    rows: slice
    D: Tensor  # [..., c, c, d], row i: what row i sees of what row j wrote
    since: Tensor  # [..., c, d]: of what was before the block
    keys: Tensor  # [..., rows.start, d]: of earlier rows, at the block's start


@dataclass(frozen=True)
class _VectorSeen(Seen):
    """Against the keys before its block a row meets two factors, one up to the block's
    start and one from there, so that a product of matrices will do; inside its block
    every pair has a factor of its own. No factor is above 1.
    """

    blocks: list[_Block]
    since: Tensor  # [..., C, d]
    late: int

    def pairs(self, x: Tensor, y: Tensor) -> Tensor:
        """Scores, summed over channels that decay each at its rate."""
        rows = []
        for block in self.blocks:
            x_b, y_b, old = self._parts(block, x, y)
            far = (x_b * block.since) @ old.mT
            near = (x_b[..., :, None, :] * block.D * y_b[..., None, :, :]).sum(-1)
            row = torch.cat([far, near], -1)
            rows.append(F.pad(row, (0, x.shape[-2] - row.shape[-1])))
        return torch.cat(rows, -2)

    def pairs_backward(
        self, x: Tensor, y: Tensor, W: Tensor, dW: Tensor, dx: Tensor, dy: Tensor
    ) -> Tensor | None:
        """A token's decay is in every pair that it stands between."""
        dg = torch.zeros_like(y)
        for block in self.blocks:
            rows, first = block.rows, block.rows.start
            x_b, y_b, old = self._parts(block, x, y)
            dW_b = dW[..., rows, :]
            far, near = dW_b[..., :first], dW_b[..., rows, None] * block.D
            dx_far = (far @ old) * block.since
            dx[..., rows, :] += dx_far + (near * y_b[..., None, :, :]).sum(-2)
            dy_far = (far.mT @ (x_b * block.since)) * block.keys
            dy[..., :first, :] += dy_far
            near_x = near * x_b[..., :, None, :]
            dy[..., rows, :] += near_x.sum(-3)
            dg[..., rows, :] += self._among(near_x * y_b[..., None, :, :])
            dg[..., rows, :] += _from_behind(_earlier(dx_far * x_b, self.late), -2)
            dg[..., :first, :] += _behind(dy_far * y[..., :first, :])
        return dg

    def _parts(self, block: _Block, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        old = y[..., : block.rows.start, :] * block.keys
        return x[..., block.rows, :], y[..., block.rows, :], old

    def _among(self, over: Tensor) -> Tensor:
        """Sums of [..., c, c, d] over the pairs that each row stands between."""
        c = over.shape[-2]
        if self.late:
            over = F.pad(over[..., 1:, :, :], (0, 0, 0, 0, 0, 1))
        past = torch.ones(c, c, dtype=torch.bool, device=over.device).tril(-1)
        over = over * past[..., None]
        return (_from_behind(over, -3) * past[..., None]).sum(-2)

    def from_start(self, x: Tensor) -> Tensor:
        """The rows, each channel times a number."""
        return x * self.since

    def from_start_backward(
        self, x: Tensor, dx: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """A token's decay is in every later row."""
        dx = dx.mul_(self.since)
        return dx, _from_behind(_earlier(dx * x, self.late), -2)


class VectorDecay(Decay):
    """A rate for every key channel."""

    after: _VectorSeen

    def __init__(self, log_decay: Tensor) -> None:
        g = log_decay
        blocks = []
        for first in range(0, g.shape[-2], SUB):
            rows = slice(first, min(first + SUB, g.shape[-2]))
            here, keys = g[..., rows, :], _ahead(g[..., :first, :]).exp()
            blocks.append(_Block(rows, _between(here), here.cumsum(-2).exp(), keys))
        since = g.cumsum(-2).exp()
        self.after = _VectorSeen(blocks, since, late=0)
        self.whole = since[..., -1, :, None]
        self._end = _ahead(g).exp()

    @property
    def before(self) -> _VectorSeen:
        """What the token before has left."""
        blocks = [
            _Block(
                block.rows,
                F.pad(block.D[..., :-1, :, :], (0, 0, 0, 0, 1, 0)),
                _after_ones(block.since),
                block.keys,
            )
            for block in self.after.blocks
        ]
        return _VectorSeen(blocks, _after_ones(self.after.since), late=1)

    def to_end(self, y: Tensor) -> Tensor:
        """The rows, each channel times a number."""
        return y * self._end

    def to_end_backward(self, y: Tensor, dy: Tensor) -> tuple[Tensor, Tensor | None]:
        """A token's decay is in every earlier row."""
        dy = dy.mul_(self._end)
        return dy, _behind(dy * y)

    def whole_backward(self, S: Tensor, dS: Tensor) -> Tensor | None:
        """Every token's decay is in the state."""
        since = self.after.since
        return ((dS * S).sum(-1) * since[..., -1, :])[..., None, :].expand_as(since)


def _between(g: Tensor) -> Tensor:
    """[..., c, c, d]: what is kept of row j by row i of log decays g [..., c, d].

    The exponent sums the rows behind j up to i. It is zero where i <= j, so that
    nothing overflows before the future is masked.
    """
    c = g.shape[-2]
    past = torch.ones(c, c, dtype=torch.bool, device=g.device).tril()[..., None]
    crossed = torch.where(past.transpose(0, 1), 0, g[..., :, None, :])
    return crossed.cumsum(-3).exp() * past


def _ahead(g: Tensor) -> Tensor:
    """Of every row of g [..., c, d], the sum of the rows that come after it."""
    return _from_behind(_earlier(g, 1), -2)


def _behind(x: Tensor) -> Tensor:
    """Of every row of x [..., c, d], the sum of the rows before it."""
    return F.pad(x, (0, 0, 1, 0))[..., :-1, :].cumsum(-2)


def _earlier(x: Tensor, rows: int) -> Tensor:
    """Each row of x [..., c, d] that many rows earlier, zeros behind the last."""
    return F.pad(x, (0, 0, 0, rows))[..., rows:, :] if rows else x


def _after_ones(x: Tensor) -> Tensor:
    """Each row of x [..., c, d] one later, behind a row of ones."""
    return F.pad(x[..., :-1, :], (0, 0, 1, 0), value=1)


def _from_behind(x: Tensor, dim: int) -> Tensor:
    """Sums from each row to the last."""
    return x.flip(dim).cumsum(dim).flip(dim)
