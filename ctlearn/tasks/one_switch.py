"""One switch: a linear rule is told in noisy pairs, then replaced, by all solvers.

Streams are those of `ctlearn.tasks.streams.switching`, whose rule changes once. Every
learner is asked at each key before it is told the value, and charged the mean square of
what it missed of the clean value: answering zero scores 1 on average.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ctlearn.mixers import (
    delta_product,
    delta_rule,
    gated_delta_rule,
    kernel_ridge_attention,
    local_linear_attention,
    longhorn,
    mesa_net,
    normalised_least_mean_squares,
    recursive_least_squares,
    retention,
)
from ctlearn.tasks.recall import best_scale
from ctlearn.tasks.streams import Stream, answers_before, clean_values


class Learner(NamedTuple):
    """How it answers a stream at a setting, its settings, and whether it is rescaled.

    Sums have no size of their own: their answers are multiplied by the one number that
    serves all streams best.
    """

    ask: Callable[..., np.ndarray]
    settings: Sequence[Any]
    rescale: bool = False


class Found(NamedTuple):
    """A learner's setting for each stream, and its errors at tokens [streams, T]."""

    settings: Sequence[Any]
    errors: np.ndarray


def ask_sum(stream: Stream, decay: float) -> np.ndarray:
    """A sum of all pairs, of which each token keeps `decay`, in (0, 1]."""
    return answers_before(retention.chunkwise, stream, log_gamma=math.log(decay))


def ask_delta(stream: Stream, beta: float) -> np.ndarray:
    """One step at each pair."""
    return answers_before(delta_rule.chunkwise, stream, beta=_same(stream, beta))


def ask_last_two(stream: Stream, beta: float) -> np.ndarray:
    """Two steps at each token: the pair before it once more, and its own."""

    def form(q: np.ndarray, k: np.ndarray, v: np.ndarray, **inputs: Any) -> Any:
        both = (np.stack([np.concatenate([x[:1], x[:-1]]), x], 1) for x in (k, v))
        return delta_product.chunkwise(q, *both, **inputs)

    beta_twice = np.full((len(stream.k), 2), beta)
    kept = {"log_decay": _same(stream, 0.0)}
    return answers_before(form, stream, **kept, beta=beta_twice)


def ask_gated(stream: Stream, setting: tuple[float, float]) -> np.ndarray:
    """Forget by the first number, then one step of the second."""
    alpha, beta = setting
    gates = {"log_decay": _same(stream, math.log(alpha)), "beta": _same(stream, beta)}
    return answers_before(gated_delta_rule.chunkwise, stream, **gates)


def ask_normalised(stream: Stream, mu: float) -> np.ndarray:
    """One step of mu over the key's square."""
    form = normalised_least_mean_squares.chunkwise
    return answers_before(form, stream, mu=mu, eps=1e-9)


def ask_longhorn(stream: Stream, beta: float) -> np.ndarray:
    """One implicit step at each pair."""
    return answers_before(longhorn.chunkwise, stream, beta=np.full_like(stream.v, beta))


def ask_recursive(stream: Stream, setting: tuple[float, float]) -> np.ndarray:
    """Least squares that forget by the first number, their ridge, the second, too."""
    kept, ridge = setting
    given = {"log_forget": math.log(kept), "ridge": ridge}
    return answers_before(recursive_least_squares.chunkwise, stream, **given)


def ask_mesa(stream: Stream, setting: tuple[float, float]) -> np.ndarray:
    """Least squares that forget by the first number; the second is a ridge that stays.

    A first number of 1 forgets nothing.
    """
    gamma, ridge = setting
    return answers_before(
        mesa_net.chunkwise,
        stream,
        log_decay=_same(stream, math.log(gamma)),
        beta=_same(stream, 1.0),
        ridges=np.full(stream.k.shape[1], float(ridge)),
    )


def ask_kernel_ridge(stream: Stream, setting: tuple[float, float]) -> np.ndarray:
    """Kernel ridge with scores times the first number, and the second for a ridge."""
    tau, ridge = setting
    form = kernel_ridge_attention.chunkwise
    return answers_before(form, _scaled(stream, tau), ridge=ridge)


def ask_local_linear(stream: Stream, setting: tuple[float, float]) -> np.ndarray:
    """A line around the query, with scores times the first number, and a ridge."""
    tau, ridge = setting
    form = local_linear_attention.chunkwise
    return answers_before(form, _scaled(stream, tau), ridge=ridge)


_DECAYS = (0.9, 0.93, 0.95, 0.97, 0.98, 0.99)
_FADING = tuple(itertools.product(_DECAYS, (0.03, 0.1, 0.3)))
LEARNERS = {
    "linear attention": Learner(ask_sum, (1.0,), rescale=True),
    "a fading sum": Learner(ask_sum, _DECAYS, rescale=True),
    "delta rule": Learner(ask_delta, (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8)),
    "Longhorn": Learner(ask_longhorn, (0.25, 0.5, 1.0, 2.0, 4.0)),
    "recursive least squares": Learner(ask_recursive, _FADING),
    "MesaNet": Learner(ask_mesa, _FADING),
    "kernel ridge": Learner(
        ask_kernel_ridge,
        [(tau, ridge * tau) for tau in (0.01, 0.1) for ridge in (0.1, 0.3)],
    ),
    "local line": Learner(
        ask_local_linear, tuple(itertools.product((0.03, 0.1, 0.5), (1e-4, 1e-3)))
    ),
}


def errors(learner: Learner, streams: Sequence[Stream], setting: Any) -> np.ndarray:
    """Errors against clean values at each token [streams, T].

    Infinity where the learner ran away.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        said = np.stack([learner.ask(stream, setting) for stream in streams])
        clean = np.stack([clean_values(stream) for stream in streams])
        scale = best_scale(said, clean) if learner.rescale else 1.0
        found = ((scale * said - clean) ** 2).mean(axis=2)
    return np.where(np.isfinite(found), found, np.inf)


def best(learner: Learner, streams: Sequence[Stream]) -> Found:
    """For each stream, the setting of least mean error over all tokens of the others.

    A stream has no say in its own, so that more settings are no favour. Only the number
    that a sum is multiplied by is one for all. Raises ValueError for a single stream.
    """
    if len(streams) < 2:
        raise ValueError(f"streams: expected at least two, got {len(streams)}")
    tried = np.stack([errors(learner, streams, x) for x in learner.settings])
    means, every = tried.mean(axis=2), range(len(streams))
    at = [np.delete(means, i, axis=1).mean(axis=1).argmin() for i in every]
    return Found([learner.settings[i] for i in at], tried[at, every])


def two_errors(errors: np.ndarray, switch: int, span: int) -> tuple[Any, Any]:
    """Mean errors in the `span` tokens before a switch and after it: two [streams]."""
    before, after = errors[:, switch - span : switch], errors[:, switch : switch + span]
    return before.mean(axis=1), after.mean(axis=1)


def expected_delta(
    beta: float, d_k: int, noise: float, span: int
) -> tuple[float, float]:
    """What `two_errors` tends to for the delta rule, long after its last switch.

    For keys of length one that favour no direction, and rules that have nothing in
    common: noise^2 beta / (2 - beta), and in the span after the switch 2 more, of which
    each token leaves 1 - beta (2 - beta) / d_k.
    """
    floor = noise**2 * beta / (2 - beta)
    left = (1 - beta * (2 - beta) / d_k) ** np.arange(span)
    return floor, floor + 2 * float(left.mean())


def in_bins(errors: np.ndarray, size: int) -> np.ndarray:
    """Means of `size` tokens at a time: [streams, T // size]."""
    edges = range(0, errors.shape[1] + 1, size)
    return np.stack(
        [errors[:, a:b].mean(axis=1) for a, b in itertools.pairwise(edges)], axis=1
    )


def _same(stream: Stream, number: float) -> np.ndarray:
    """One number for every token."""
    return np.full(len(stream.k), number)


def _scaled(stream: Stream, tau: float) -> Stream:
    """Keys, and so queries, whose dot products are tau times as large."""
    return stream._replace(k=math.sqrt(tau) * stream.k)
