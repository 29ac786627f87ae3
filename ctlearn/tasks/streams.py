"""Streams: pairs from a linear map that drifts, or is replaced, while it is learned.

    v_t = W_t'k_t + noise,   k_t of length one,   W_t [d_k, d_v]

The entries of a map have mean 0 and variance 1, and so have the clean values. Keys
never return, so an error says how well the map is known, not how well it is recalled.
All errors are mean squares over coordinates: answering zero scores 1 on average, if not
exactly on every stream.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ctlearn.mixers import delta_rule, retention, ttt_linear
from ctlearn.tasks.recall import best_scale, unit_vectors


class Stream(NamedTuple):
    """Keys k [T, d_k], values v [T, d_v] and the map of each token W [T, d_k, d_v]."""

    k: np.ndarray
    v: np.ndarray
    W: np.ndarray


def drifting(
    seed: int, T: int, d_k: int, d_v: int, *, drift: Any = 0.0, noise: float = 0.0
) -> Stream:
    """A map of which each token replaces a share: `drift`, or one for each key channel.

    W_t = sqrt(1 - r) W_{t-1} + sqrt(r) N_t with r = `drift` in [0, 1] and N_t standard
    normal, which keeps the variance of 1. `noise` is the deviation added to values.
    """
    rng = np.random.default_rng(seed)
    r = np.broadcast_to(drift, d_k)[:, None]
    maps = rng.standard_normal((T, d_k, d_v))
    for t in range(1, T):
        maps[t] = np.sqrt(1 - r) * maps[t - 1] + np.sqrt(r) * maps[t]
    return _told(rng, maps, noise)


def switching(
    seed: int,
    T: int,
    d_k: int,
    d_v: int,
    *,
    every: int,
    noise: float = 0.0,
    spread: float = 1.0,
    lengths: float = 0.0,
) -> Stream:
    """A map that stays for `every` tokens, at least 1, and is then drawn anew.

    Key channels have variances in geometric progression before keys are brought to
    length one, and `spread` is the largest over the least. `lengths` above 0 then
    gives the logs of their lengths this deviation, their mean square being 1.
    """
    rng = np.random.default_rng(seed)
    maps = rng.standard_normal((-(-T // every), d_k, d_v))
    return _told(rng, maps.repeat(every, axis=0)[:T], noise, spread, lengths)


def answers_before(
    form: Callable[..., Any], stream: Stream, **inputs: Any
) -> np.ndarray:
    """What a mechanism says at k_t before it is told v_t: [T, d_v].

    `form` is any form of a mechanism that reads after it writes, so token t - 1 asks
    what token t will be. Nothing is known at first, and zero is the answer.
    """
    asked = np.roll(stream.k, -1, axis=0)
    o, _ = form(asked, stream.k, stream.v, **inputs)
    return np.concatenate([np.zeros_like(o[:1]), o[:-1]])


def online_error(said: np.ndarray, stream: Stream) -> float:
    """Mean square of what was said less what was then told, over all coordinates."""
    return float(((said - stream.v) ** 2).mean())


def map_errors(states: np.ndarray, stream: Stream) -> np.ndarray:
    """Error at each token of the states S [T, d_k, d_v], over all keys there are.

    Keys point anywhere with equal chance, so the mean square of (S - W)'k is that of
    the entries of S - W. Values are clean.
    """
    return ((states - stream.W) ** 2).mean(axis=(1, 2))


def clean_values(stream: Stream) -> np.ndarray:
    """What would be told without noise: [T, d_v]."""
    return np.einsum("tk,tkv->tv", stream.k, stream.W)


def errors_along(
    said: Sequence[np.ndarray], streams: Sequence[Stream], edges: Sequence[int]
) -> np.ndarray:
    """Error against clean values in each span of tokens: [streams, spans].

    Spans lie between neighbouring `edges`. In each, all streams share the one scale of
    their answers that is best, and an answer of zero scores 1 on every stream.
    """
    clean = [clean_values(stream) for stream in streams]
    errors = np.empty((len(streams), len(edges) - 1))
    for i, (start, end) in enumerate(itertools.pairwise(edges)):
        answers, wanted = (np.stack([x[start:end] for x in y]) for y in (said, clean))
        missed = best_scale(answers, wanted) * answers - wanted
        errors[:, i] = (missed**2).sum(axis=(1, 2)) / (wanted**2).sum(axis=(1, 2))
    return errors


def fading_errors(
    streams: Sequence[Stream], decays: Sequence[float], skip: int
) -> np.ndarray:
    """Error of a memory that keeps `decay` of itself at each token: [decays, streams].

    The mean over all tokens but the first `skip`, each asked before it is told, at the
    one scale for each decay that serves all streams best.
    """
    edges = (skip, len(streams[0].k))
    errors = []
    for decay in decays:
        gate = {"log_gamma": math.log(decay)}
        said = [answers_before(retention.chunkwise, x, **gate) for x in streams]
        errors.append(errors_along(said, streams, edges)[:, 0])
    return np.array(errors)


def channel_errors(
    streams: Sequence[Stream],
    decays: Sequence[float],
    groups: Sequence[np.ndarray],
    skip: int,
) -> np.ndarray:
    """Errors where two groups of key channels fade apart: [decays, decays, streams].

    Entry i, j is for channels that keep decays[i] if they are in the first group and
    decays[j] in the second. `groups` are two masks [d_k] over the channels. Each group
    has a scale of its own, the best for all streams; the rest is as in `fading_errors`.
    """
    products = np.array([_products(x, decays, groups, skip) for x in streams])
    total, n = products.sum(axis=0), len(decays)
    errors = np.empty((n, n, len(streams)))
    for i, j in np.ndindex(n, n):
        both = [1 + i, 1 + n + j]
        scales = np.linalg.solve(total[np.ix_(both, both)], total[both, 0])
        # what was wanted, less the two answers at these scales
        missed = np.zeros(2 * n + 1)
        missed[[0, *both]] = [1, *-scales]
        errors[i, j] = missed @ products @ missed / products[:, 0, 0]
    return errors


def _products(
    stream: Stream, decays: Sequence[float], groups: Sequence[np.ndarray], skip: int
) -> np.ndarray:
    """Of what is wanted with what each group says at each decay, every two of them."""
    rows = [clean_values(stream)]
    for group in groups:
        part = stream._replace(k=stream.k * group)
        for decay in decays:
            gate = {"log_gamma": math.log(decay)}
            rows.append(answers_before(retention.chunkwise, part, **gate))
    flat = np.array([x[skip:].ravel() for x in rows])
    return flat @ flat.T


def turned(stream: Stream, seed: int) -> Stream:
    """The same values, told at keys that a random rotation has mixed."""
    d_k = stream.k.shape[1]
    R, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((d_k, d_k)))
    return stream._replace(k=stream.k @ R.T, W=np.einsum("ij,tjv->tiv", R, stream.W))


def expected_fading_error(alpha: Any, rho: Any, m: Any) -> Any:
    """What `fading_errors` tends to on streams that have been drifting for ever.

    `alpha` is the decay, `rho` = sqrt(1 - drift), and m = d_k (1 + noise^2) - 1 weighs
    what all other tokens leave in an answer.
    """
    kept = alpha * rho
    return 1 - rho**2 * (1 - alpha**2) / ((1 - kept) * (1 + kept + m * (1 - kept)))


def best_decay(rho: float, m: float) -> float:
    """The decay in (0, 1) at which `expected_fading_error` is least, for m above 0."""
    excess = (1 - rho) ** 2 / rho + (1 - rho**2) / (m * rho)
    # alpha + 1 / alpha = 2 + excess, and of its two roots the one below 1
    return 1 / (1 + excess / 2 + math.sqrt(excess + excess**2 / 4))


def mini_batch_errors(
    streams: Sequence[Stream],
    inner_batch: int,
    rates: Sequence[float],
    reader_rate: np.ndarray | None = None,
) -> np.ndarray:
    """Online errors [rates, streams] of a linear map trained by mini-batches.

    TTT-Linear in its plain form: the gradients of a mini-batch are taken where it
    started, and each token is answered by the sum of those before it, or by the share
    `reader_rate` [inner_batch] of that sum. Infinity where the training ran away.
    [sun2024ttt]
    """
    errors = np.full((len(rates), len(streams)), np.inf)
    for i, rate in enumerate(rates):
        for j, stream in enumerate(streams):
            inputs: dict[str, Any] = {"beta": np.full(len(stream.k), float(rate))}
            if inner_batch == 1 and reader_rate is None:
                # the same thing, and its chunks are longer than a token
                form = delta_rule.chunkwise
            else:
                form = ttt_linear.chunkwise
                inputs |= {"inner_batch": inner_batch, "chunk_size": inner_batch}
                inputs["reader_rate"] = reader_rate
            with np.errstate(over="ignore", invalid="ignore"):
                error = online_error(answers_before(form, stream, **inputs), stream)
            if np.isfinite(error):
                errors[i, j] = error
    return errors


def expected_mini_batch_errors(
    T: int,
    d_k: int,
    inner_batch: int,
    rates: Sequence[float] | np.ndarray,
    *,
    drift: float = 0.0,
    noise: float = 0.0,
    reader_rate: np.ndarray | None = None,
) -> np.ndarray:
    """What `mini_batch_errors` are on average on drifting streams, by token [rates, T].

    Exact for keys that are independent and favour no direction. Two means are followed
    from one mini-batch to the next: the square of the learner's weights, and their
    product with the map, both over that of the map itself. Infinity from where a rate
    has run away on.
    """
    rho, i = math.sqrt(1 - drift), np.arange(inner_batch + 1)
    # what the maps of i tokens share: with the one before, with the last, all of them
    with_last = np.concatenate([[0], np.cumsum(rho ** i[:-1])])
    with_first, together = rho * with_last, np.cumsum(np.maximum(2 * with_last - 1, 0))
    shares = np.ones(inner_batch) if reader_rate is None else reader_rate
    beta = np.outer(rates, np.concatenate([[0.0], shares]))
    # of the keys' products, and of their squares, less those of the map at the start
    first, second = beta * i / d_k, beta * beta * i * (d_k + i - 1) / d_k**2
    crossed = 2 * beta * with_first * (1 - beta * (d_k + i - 1) / d_k) / d_k
    written = i * (1 + noise**2) + (together - i) / d_k
    errors = []
    square = product = np.zeros((len(beta), 1))
    for _ in range(0, T, inner_batch):
        with np.errstate(over="ignore", invalid="ignore"):
            square = (1 - 2 * first + second) * square + crossed * product
            square = square + beta * beta * written / d_k
            product = rho**i * (1 - first) * product + beta * with_last / d_k
            # the next token's map has moved on once more
            missed = 1 + noise**2 + square - 2 * rho * product
        errors.append(np.where(np.isnan(missed), np.inf, missed)[:, :-1])
        square, product = square[:, -1:], product[:, -1:]
    return np.concatenate(errors, axis=1)[:, :T]


def _told(
    rng: np.random.Generator,
    maps: np.ndarray,
    noise: float,
    spread: float = 1.0,
    lengths: float = 0.0,
) -> Stream:
    T, d_k, d_v = maps.shape
    k = unit_vectors(rng, T, d_k, spread ** -np.linspace(0, 0.5, d_k))
    if lengths:
        k *= np.exp(lengths * rng.standard_normal((T, 1)) - lengths**2)
    # entries of variance 1 and keys of length 1 make clean values of variance 1
    v = np.einsum("tk,tkv->tv", k, maps) + noise * rng.standard_normal((T, d_v))
    return Stream(k, v, maps)
