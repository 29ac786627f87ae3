"""Three jobs for a memory: the last pairs, old exceptions, and the rule of a stream.

    v_t = sqrt(1 - s^2) W'k_t + s n_t     an ordinary pair: the rule, and a detail
    v_t = n_t                             an exception, which no rule foretells

Keys are of length one and favour no direction, n_t and the entries of W are standard
normal: values have a mean square of 1, and answering zero scores 1 in every job. At the
end a stream asks for the values of its last pairs as they were told, for those of its
exceptions, and for what the rule says of fresh keys.

A memory has three parts that share its numbers. A window keeps the last pairs; of those
that leave it, `held` keep the pairs that the state recalls worst; all others are
written to the state, by the delta rule with a decay. One mean is the answer,

    o = (sum_exact e^(h (q'k - 1)) v + e^(h (m - 1)) S'f(q))
      / (sum_exact e^(h (q'k - 1))   + e^(h (m - 1))),

in which the state counts as much as a pair whose key has the cosine m to the query. It
is the mean of `ctlearn.mixers.sparse_caching_attention` with a state that learns, whose
weight does not grow with what was written to it.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ctlearn.features import identity
from ctlearn.mixers.softmax_attention import RunningMean
from ctlearn.tasks.recall import unit_vectors

JOBS = ("recent", "exceptions", "rule")
SHARPNESS, THRESHOLD = 40.0, 0.75  # h and m: one guess, the same for all


class Stream(NamedTuple):
    """k [T, d], v [T, d] as told; for each job in turn, keys asked and answers."""

    k: np.ndarray
    v: np.ndarray
    asked: tuple[np.ndarray, ...]
    answers: tuple[np.ndarray, ...]


class Parts(NamedTuple):
    """How many pairs the window and the cache keep, and the state's features.

    `phi` None is no state: nothing is written, and pairs that leave are gone.
    """

    window: int = 0
    held: int = 0
    phi: Callable[[np.ndarray], np.ndarray] | None = None


class Kept(NamedTuple):
    """What is left of n streams: S [n, d_phi, d_v], exact pairs K, V [n, w + m, d]."""

    S: np.ndarray
    K: np.ndarray
    V: np.ndarray


def draw(
    seed: int,
    *,
    T: int = 512,
    d: int = 32,
    detail: float = 0.5,
    exceptions: int = 12,
    recent: int = 16,
    old: int = 128,
) -> Stream:
    """A stream of T pairs whose exceptions are `old` pairs back, or more, at the end.

    `detail` is s, in [0, 1]. The last `recent` pairs are asked for, and 256 fresh keys.
    """
    rng = np.random.default_rng(seed)
    k, W = unit_vectors(rng, T, d), rng.standard_normal((d, d))
    v = np.sqrt(1 - detail**2) * k @ W + detail * rng.standard_normal((T, d))
    strange = d + rng.permutation(T - old - d)[:exceptions]
    v[strange] = rng.standard_normal((exceptions, d))
    fresh = unit_vectors(rng, 256, d)
    return Stream(
        k,
        v,
        (k[-recent:], k[strange], fresh),
        (v[-recent:], v[strange], np.sqrt(1 - detail**2) * fresh @ W),
    )


def both_signs(x: np.ndarray) -> np.ndarray:
    """relu(x) beside relu(-x): twice the channels, of which half are zero."""
    return np.maximum(np.concatenate([x, -x], axis=-1), 0)


def numbers(parts: Parts, d: int) -> int:
    """How many numbers a memory keeps, for keys and values of d channels."""
    state = 0 if parts.phi is None else parts.phi(np.zeros(d)).size * d
    return state + (parts.window + parts.held) * 2 * d


def keep(
    streams: Sequence[Stream], parts: Parts, beta: float = 1.0, decay: float = 1.0
) -> Kept:
    """Read the streams token by token, all of one length, side by side.

    The pair that leaves the window and those held are asked for; the one with the
    least squared error is written, S = decay S + beta f (v - decay S'f)', and the rest
    are held. So an error is that of a state which has not been written the pair.
    """
    k, v = (np.stack([getattr(x, name) for x in streams]) for name in "kv")
    T, window, phi = k.shape[1], parts.window, parts.phi or identity
    f = phi(k)
    S = np.zeros((len(k), f.shape[2], v.shape[2]))
    each, held = np.arange(len(k)), np.zeros((len(k), 0), dtype=int)
    for t in range(T - window if parts.phi else 0):
        rivals = np.concatenate([held, np.full((len(k), 1), t)], axis=1)
        if t < parts.held:
            held = rivals
            continue
        at = each[:, None], rivals
        error = v[at] - f[at] @ S
        easy = (error**2).sum(axis=2).argmin(axis=1)
        chosen = f[each, rivals[each, easy]]
        missed = v[each, rivals[each, easy]] - decay * np.einsum(
            "ni,nij->nj", chosen, S
        )
        S = decay * S + beta * chosen[:, :, None] * missed[:, None]
        stays = np.ones(rivals.shape, dtype=bool)
        stays[each, easy] = False
        held = rivals[stays].reshape(held.shape)
    last = np.broadcast_to(np.arange(T - window, T), (len(k), window))
    at = each[:, None], np.concatenate([held, last], axis=1)
    return Kept(S, k[at], v[at])


def read(
    kept: Kept,
    parts: Parts,
    q: np.ndarray,
    *,
    sharpness: float = SHARPNESS,
    threshold: float = THRESHOLD,
) -> np.ndarray:
    """The answers [n, m, d] to queries q [n, m, d]: one mean of what is kept."""
    n, m, _ = q.shape
    if parts.phi is None:
        start = RunningMean(-np.inf, 0, 0)
        means = [start] * n
    else:
        said = parts.phi(q) @ kept.S
        scale, weight = np.full(m, sharpness * threshold), np.ones(m)
        means = [RunningMean(scale, weight, total) for total in said]
    scores = sharpness * q @ kept.K.mT
    if not kept.K.shape[1]:
        return np.stack([mean.read() for mean in means])
    return np.stack(
        [x.absorb(s, V).read() for x, s, V in zip(means, scores, kept.V, strict=True)]
    )


def errors(
    streams: Sequence[Stream], answer: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """Errors [jobs, streams] of what `answer` says to the queries [n, m, d] of a job.

    Squares are summed over a job's questions, and silence scores 1.
    """
    found = []
    for job in range(len(JOBS)):
        q, y = (np.stack([x[i][job] for x in streams]) for i in (2, 3))
        missed = ((answer(q) - y) ** 2).sum(axis=(1, 2))
        found.append(missed / (y**2).sum(axis=(1, 2)))
    return np.array(found)


def part_errors(
    streams: Sequence[Stream], parts: Parts, *, beta: float = 1.0, decay: float = 1.0
) -> np.ndarray:
    """Errors [jobs, streams] of a memory with these parts."""
    kept = keep(streams, parts, beta, decay)
    return errors(streams, partial(read, kept, parts))


def best_for_each_job(tried: Sequence[Any]) -> np.ndarray:
    """Of errors [jobs, streams] in several settings: each job in its best one.

    The one of least mean error over the streams; a memory in use has one setting for
    all jobs, so this is more than it can do.
    """
    found = np.array(tried)
    best = found.mean(axis=2).argmin(axis=0)
    return found[best, np.arange(found.shape[1])]


def window_errors(
    streams: Sequence[Stream], window: int, scales: Sequence[float]
) -> list[np.ndarray]:
    """A window read by softmax attention, at each of several scales of the scores."""
    parts = Parts(window)
    kept = keep(streams, parts)
    return [errors(streams, partial(read, kept, parts, sharpness=h)) for h in scales]


def ridge_errors(
    streams: Sequence[Stream], window: int, penalties: Sequence[float]
) -> list[np.ndarray]:
    """The same window, read by ridge regression: (K'K + r I)^-1 K'V, for each r."""
    kept, parts = keep(streams, Parts(window)), Parts(phi=identity)
    found = []
    for penalty in penalties:
        gram = kept.K.mT @ kept.K + penalty * np.eye(kept.K.shape[2])
        S = np.linalg.solve(gram, kept.K.mT @ kept.V)
        fitted = Kept(S, kept.K[:, :0], kept.V[:, :0])
        found.append(errors(streams, partial(read, fitted, parts)))
    return found


def sum_errors(
    streams: Sequence[Stream], phi: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """Linear attention, whose answers are scaled by the best number for each job."""
    f, v = (np.stack(x) for x in zip(*((phi(x.k), x.v) for x in streams), strict=True))
    S = f.mT @ v
    found = []
    for job in range(len(JOBS)):
        q, y = (np.stack([x[i][job] for x in streams]) for i in (2, 3))
        said = phi(q) @ S
        said = (said * y).sum() / (said * said).sum() * said
        found.append(((said - y) ** 2).sum(axis=(1, 2)) / (y**2).sum(axis=(1, 2)))
    return np.array(found)
