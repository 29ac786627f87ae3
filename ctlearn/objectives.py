"""Other losses and other retentions: what MIRAS puts in the place of the squared error.

A loss acts through its slope at an error e = f(k) - v, which takes the place of e in
the gradient. A retention acts through a link. The steps are gathered in A, and the
weights are W = link(A), which minimise retention(W) - <A, W>: no link belongs to half
the squared Euclidean norm. [behrouz2025miras]

Losses (e is one error [d_v] or some [n, d_v]; r >= 1):

power_slope        sum |e|^r
smooth_power_slope the same without corners, as MIRAS trains with it
huber_by_channel   Huber's loss of each channel                              [huber1964]
huber_by_length    Huber's loss of ||e||
huber_switched     Yaad's: of no loss the slope

Links (A is an array of weights, s > 1):

dual_link          half the squared L_r norm, 1/r + 1/s = 1
printed_link       what MIRAS prints for it; the link of nothing, unless s = 2
simplex            the entropy, over non-negative weights of a given sum  [kivinen1997]

Two more displays of MIRAS do not hold: its delta rule lacks the rate on the written
value, and its row for RWKV-7, Diag(alpha) (I - beta k k'), erases before it decays, as
neither that nor Kimi delta attention does.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ctlearn import inner
from ctlearn.features import softmax_feature
from ctlearn.inner import each
from ctlearn.memory import decay_between
from ctlearn.scalars import is_exact, sign, signed_power, sqrt

Link = Callable[[np.ndarray], np.ndarray]


def power_slope(e: np.ndarray, r: Any) -> np.ndarray:
    """Slopes r sign(e) |e|^(r-1). [behrouz2025miras, eq. 25, reported]"""
    return r * signed_power(e, r - 1)


def smooth_power_slope(e: np.ndarray, r: float, sharpness: float = 10) -> np.ndarray:
    """`power_slope` with tanh(sharpness e) for sign(e) and sqrt(e^2 + 1e-6) for |e|.

    The slope of no loss that the paper states; both changes are for the gradients that
    go through it.
    """
    return r * np.tanh(sharpness * e) * (e * e + 1e-6) ** ((r - 1) / 2)


def huber_by_channel(e: np.ndarray, threshold: Any) -> np.ndarray:
    """Each channel of the error, cut off at the threshold.

    The threshold is one for each error or for each channel, infinite to let all pass.
    """
    h = _beside(threshold, e)
    return np.maximum(-h, np.minimum(e, h))


def huber_by_length(e: np.ndarray, threshold: Any) -> np.ndarray:
    """The error, shortened to the threshold where it is longer."""
    inside, h = _inside(e, threshold)
    length = sqrt((e * e).sum(axis=-1, keepdims=True))
    return np.where(inside, e, h * e / np.where(inside, 1, length))


def huber_switched(e: np.ndarray, threshold: Any) -> np.ndarray:
    """The error where it is no longer than the threshold, else that times sign(e).

    At the switch its length may grow by sqrt(d_v).
    [behrouz2025miras, eq. 26, reported]
    """
    inside, h = _inside(e, threshold)
    return np.where(inside, e, h * sign(e))


def dual_link(A: np.ndarray, s: Any) -> np.ndarray:
    """sign(A) |A|^(s-1) / ||A||_s^(s-2): the slope at A of half its squared L_s norm.

    It inverts the slope of half the squared L_r norm, 1/r + 1/s = 1. The norm is that
    of all entries; twice A has twice the weights, and no A none.
    """
    length = 1 if s == 2 else _norm(A, s)
    # a root is not taken where it would cancel: rational entries stay rational
    return length * signed_power(A / length, s - 1) if length != 0 else np.copy(A)


def printed_link(A: np.ndarray, s: Any) -> np.ndarray:
    """A / ||A||_s^(s-2), without the power of each entry that `dual_link` has.

    It is the slope of no function, so that no retention has it for a link, unless s is
    2. For s = 4 twice A has half the weights, and A = 0 has no weights at all.
    [behrouz2025miras, eq. 24, reported]
    """
    return A / _norm(A, s) ** (s - 2) if s != 2 else np.copy(A)


def simplex(A: np.ndarray, mass: Any) -> np.ndarray:
    """A softmax of all entries, times their sum `mass`; equal weights for A = 0."""
    return mass * softmax_feature(A.ravel()).reshape(A.shape)


class Fading(NamedTuple):
    """A model that learns and fades, by mini-batches.

    M is the learner as it is, `at` the one at which gradients are taken: M at the start
    of the mini-batch, of which `seen` tokens have been read.
    """

    M: Any
    at: Any
    seen: np.ndarray

    @classmethod
    def start(cls, f: Any) -> "Fading":
        """A model about to read its first token, from copies of the weights of f."""
        zero = np.zeros((), dtype=f[0].dtype)
        return cls(each(np.copy, f), each(np.copy, f), zero)

    def after(self, kept: Any, taken: Any, n: int, inner_batch: int) -> "Fading":
        """After n more tokens, which keep that share of M and take those weights off.

        A full mini-batch makes M the start of the next one.
        """
        M = each(lambda m, d: kept * m - d, self.M, taken)
        return Fading(M, *inner.next_start(self, M, n, inner_batch))

    def ahead(
        self,
        q: np.ndarray,
        k: np.ndarray,
        g: np.ndarray,
        log_decay: np.ndarray,
        beta: np.ndarray,
    ) -> tuple[np.ndarray, Any, Any]:
        """Some tokens of one mini-batch at once, g being the losses' slopes at `at`.

        Returns what they are answered, what share of M they keep and what they take:
        M_i = p_i M_0 - sum_{j<=i} G_ij grad_j, where p_i is the product of the decays
        up to i, and G_ij is beta_j times that of those after j up to i.
        """
        kept = decay_between(log_decay, k)[..., 0]
        p, G = kept[1:, 0], kept[1:, 1:] * beta
        o = self.at.read_after(q, k, g, G, [(p, self.M)])
        return o, p[-1], self.at.gradient(k, G[-1][:, None] * g)


class Mirror(NamedTuple):
    """A model whose weights are the image of the steps that it gathers.

    A gathers the steps at every token. The weights of f are A's image at the start of
    the mini-batch; inside it f goes on without the link, as the paper does to work on
    many tokens at once.
    """

    A: Any
    f: Fading

    @property
    def seen(self) -> np.ndarray:
        """How many tokens of the mini-batch have been read."""
        return self.f.seen

    @classmethod
    def start(cls, A: Any, link: Link) -> "Mirror":
        """A model about to read its first token, from a copy of A, array by array."""
        return cls(each(np.copy, A), Fading.start(each(link, A)))

    def after(
        self, kept: Any, taken: Any, n: int, inner_batch: int, link: Link
    ) -> "Mirror":
        """After n more tokens: a full mini-batch makes A's image the next start."""
        A = each(lambda a, d: kept * a - d, self.A, taken)
        f = self.f.after(kept, taken, n, inner_batch)
        return Mirror(A, f) if f.seen else Mirror.start(A, link)

    def learn(
        self,
        q: np.ndarray,
        k: np.ndarray,
        g: np.ndarray,
        *gates: np.ndarray,
        inner_batch: int,
        link: Link,
    ) -> tuple[np.ndarray, "Mirror"]:
        """`Fading.ahead`, and after it; the token that fills a mini-batch sees A."""
        o, kept, taken = self.f.ahead(q, k, g, *gates)
        S = self.after(kept, taken, len(k), inner_batch, link)
        if not S.seen:
            o[-1] = S.f.M.read(q[-1])
        return o, S

    @classmethod
    def begin(
        cls, k: np.ndarray, v: np.ndarray, S: Any, kinds: Sequence[type], link: Link
    ) -> "Mirror":
        """A copy of S, whose learner must be one of `kinds`, or a zero one's image."""
        S = cls.start(inner.zeros(kinds[0], k, v), link) if S is None else S
        if not isinstance(S, cls):
            raise TypeError(f"S: expected a Mirror(A, f), got {type(S).__name__}")
        (A,) = inner.copied_learners((S.A,), k, v, kinds)
        return cls(A, inner.begun(Fading, k, v, S.f, kinds))


def _inside(e: np.ndarray, threshold: Any) -> tuple[np.ndarray, np.ndarray]:
    """Whether each error is no longer than its threshold, and the threshold if it is.

    An infinite threshold is taken out, for it would be multiplied by zero.
    """
    h = _beside(threshold, e)
    inside = (e * e).sum(axis=-1, keepdims=True) <= h * h
    return inside, np.where(inside, 0, h)


def _beside(threshold: Any, e: np.ndarray) -> np.ndarray:
    """The threshold with an axis for the channels."""
    h = np.asarray(threshold)
    return h if h.ndim == e.ndim else h[..., None]


def _norm(A: np.ndarray, s: Any) -> Any:
    """The L_s norm of all entries."""
    if not is_exact(A):
        # powers of what is left after long fading would be zero
        largest = np.abs(A).max(initial=0)
        return largest and largest * np.linalg.norm((A / largest).ravel(), s)
    import sympy

    return (abs(A) ** s).sum() ** (1 / sympy.sympify(s))
