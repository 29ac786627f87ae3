"""Four jobs: recall, rebinding, drift and tracking, for any memory there is.

At every token a memory is told a pair and then asked a question, so that nothing is
special about any token, and every mechanism can be set to every job:

recall     a new key each time; asked for any pair so far
rebinding  one of few keys, bound to a new value; asked for the latest value of any
drift      pairs of a linear map that drifts; asked at a fresh key
tracking   a value at the first token; then keys alone, one of two, of which the first
           turns the sign; asked for the value with its sign

Of sizes that a page computes at once. Numbers are drawn by `ctlearn.explore.draws`, so
that a browser draws them too: each array from a stream of its own, as the makers say.
"""

import functools
from typing import NamedTuple

import numpy as np

from ctlearn.composed import Choices, run
from ctlearn.explore.draws import normal, uniform, unit
from ctlearn.mechanism import Inputs, Mechanism
from ctlearn.mixers import mechanisms
from ctlearn.shapes import GLOSSARY
from ctlearn.supplies import Floats

T, D_K, D_V, SEEDS = 32, 8, 4, 3
KEYS, DRIFT = 4, 0.1
Array = np.ndarray


class Job(NamedTuple):
    """Draws of one job side by side: q, k [n, T, d_k], v and wanted [n, T, d_v]."""

    q: Array
    k: Array
    v: Array
    wanted: Array


def jobs(seeds: int = SEEDS, first: int = 0) -> dict[str, Job]:
    """The four jobs, `seeds` draws of each."""
    makers = {
        "recall": _recall,
        "rebinding": _rebinding,
        "drift": _drift,
        "tracking": _tracking,
    }
    drawn = range(first, first + seeds)
    return {
        name: Job(*map(np.stack, zip(*(make(seed) for seed in drawn), strict=True)))
        for name, make in makers.items()
    }


def _recall(seed: int) -> Job:
    k, v = unit(normal(seed, 0, T, D_K)), normal(seed, 1, T, D_V)
    # the question is about one of the t + 1 pairs so far
    past = (uniform(seed, 2, np.arange(T), 0) * np.arange(1, T + 1)).astype(int)
    return Job(k[past], k, v, v[past])


def _rebinding(seed: int) -> Job:
    keys, v = unit(normal(seed, 3, KEYS, D_K)), normal(seed, 4, T, D_V)
    bound = (uniform(seed, 5, np.arange(T), 0) * KEYS).astype(int)
    bound[:KEYS] = np.arange(KEYS)
    latest, asked = np.empty(T, dtype=int), np.empty(T, dtype=int)
    for t in range(T):
        known = min(t + 1, KEYS)
        asked[t] = int(uniform(seed, 6, t, 0)[0] * known)
        latest[t] = max(j for j in range(t + 1) if bound[j] == asked[t])
    return Job(keys[asked], keys[bound], v, v[latest])


def _drift(seed: int) -> Job:
    k, q = unit(normal(seed, 7, T, D_K)), unit(normal(seed, 8, T, D_K))
    W = normal(seed, 9, D_K, D_V)
    v, wanted = np.empty((T, D_V)), np.empty((T, D_V))
    for t in range(T):
        new = normal(seed, 10 + t, D_K, D_V)
        W = np.sqrt(1 - DRIFT) * W + np.sqrt(DRIFT) * new
        v[t], wanted[t] = k[t] @ W, q[t] @ W
    return Job(q, k, v, wanted)


def _tracking(seed: int) -> Job:
    bits = uniform(seed, 50, np.arange(T), 0) < 0.5
    bits[0] = False
    k, v = np.zeros((T, D_K)), np.zeros((T, D_V))
    k[np.arange(T), np.where(bits, 0, 1)] = 1
    k[0], v[0] = np.eye(D_K)[0], normal(seed, 51, 1, D_V)[0]
    q = np.tile(k[0], (T, 1))
    signs = 1 - 2 * (np.cumsum(bits) % 2)
    return Job(q, k, v, signs[:, None] * v[0])


def error(said: Array, wanted: Array, axes: int = 3) -> Array:
    """Squared error at the best output scale, over that of silence: in [0, 1].

    Over the last `axes` axes, so that all draws of a job share one scale. It is 1 for
    answers that are zero, or not finite.
    """
    along = tuple(range(-axes, 0))
    with np.errstate(all="ignore"):
        # first to a size that can be squared
        said = said / np.abs(said).max(axis=along, keepdims=True)
        met = (said * wanted).sum(axis=along)
        found = 1 - met**2 / ((said**2).sum(axis=along) * (wanted**2).sum(axis=along))
    # rounding may leave a little less than nothing
    return np.where(np.isfinite(found), np.maximum(found, 0), 1.0)


# What may be set, by the role or the domain of an input; the first is where one starts.
_KEPT = (1.0, 0.9, 0.6)
_RATES = {
    "rate": (0.5, 1.0, 0.2, 0.05),
    "small": (0.5, 1.0, 0.2, 0.05),
    "double": (0.5, 1.0, 0.2, 0.05, 2.0),
    "positive": (1.0, 0.1),
}
_SHARPNESS = (8.0, 2.0, 32.0)
_SIZES = {"inner_batch": 8, "window": 8}


def dials(mechanism: Mechanism) -> dict[str, tuple[float, ...]]:
    """What is set to suit a job: the first two rates, the first decay, by their names.

    A rate may be what the widest domain allows that any setting declares for it. A
    local fit also has a sharpness, by which queries are multiplied.
    """
    found: dict[str, tuple[float, ...]] = {}
    for name in mechanism.inputs:
        domains = {
            setting.inputs[name].partition(" ")[0]
            for setting in mechanism.settings.values()
            if name in setting.inputs
        }
        options = max((_RATES.get(domain, ()) for domain in domains), key=len)
        if _role(name) == "rate" and options and len(found) < 2:
            held = name not in mechanism.by_token
            found[name] = (*options, 0.0) if held else options
    decays = [name for name in mechanism.inputs if _role(name) == "decay"]
    found |= dict.fromkeys(decays[:1], _KEPT)
    if mechanism.place.cell.function_class == "local fit":
        found["sharpness"] = _SHARPNESS
    return found


def told(mechanism: Mechanism, job: Job, draw: int, set_to: dict[str, float]) -> Inputs:
    """The inputs that tell a mechanism one draw of a job, with its dials set.

    An input of a key's size that is no key is the key. A second pair at a token is
    empty; maps among an arrangement's parts change nothing; what no dial sets is 1, or
    a half if it has to be below 1.
    """
    q, k, v = job.q[draw], job.k[draw], job.v[draw]
    given = {"q": q * set_to.get("sharpness", 1.0), "k": k, "v": v}
    sizes = {"T": len(k), "d_k": k.shape[1], "d_v": v.shape[1]}
    x: Inputs = dict(mechanism.constants)
    x |= {name: size for name, size in _SIZES.items() if name in x}
    for name, drawn in mechanism.inputs.items():
        shape = [sizes[a] if a in sizes else int(a) for a in mechanism.shape(name)]
        domain, role = drawn.partition(" ")[0], _role(name)
        if name in given and len(shape) == k.ndim:
            x[name] = given[name]
        elif name in given:
            x[name] = np.zeros(shape)
            x[name][..., *[0] * (len(shape) - k.ndim), :] = (
                given[name] if shape[0] == len(k) else 1
            )
        elif role == "error":
            x[name] = k
        elif role in ("query", "key", "value"):
            x[name] = np.eye(shape[0], shape[1])
        elif role == "state":
            x[name] = np.zeros(shape)
        else:
            held = 0.5 if domain in ("rate", "small", "log_decay") else 1.0
            number = set_to.get(name, held)
            with np.errstate(divide="ignore"):
                x[name] = np.full(shape, np.log(number) if role == "decay" else number)
    return mechanism.told(x | {"k": k}) if mechanism.told else x


def answers(mechanism: Mechanism, job: Job, set_to: dict[str, float]) -> Array:
    """What a mechanism says at every token of every draw: [n, T, d_v]."""
    d_k, d_v = job.k.shape[-1], job.v.shape[-1]
    form = mechanism.forms["chunkwise"]
    said = np.zeros_like(job.wanted)
    for draw in range(len(job.k)):
        S = mechanism.start and mechanism.start(Floats(draw), d_k, d_v)
        with np.errstate(all="ignore"):
            said[draw] = form(**told(mechanism, job, draw, set_to), S=S)[0]
    return said


def score(mechanism: Mechanism, job: Job) -> tuple[float, dict[str, float]]:
    """The error of a mechanism whose dials are set one after another, and the dials.

    What a mechanism does not accept counts as silence.
    """

    def at(set_to: dict[str, float]) -> float:
        try:
            return float(error(answers(mechanism, job, set_to), job.wanted))
        except (ValueError, FloatingPointError, np.linalg.LinAlgError):
            return 1.0

    options = dials(mechanism)
    best = {name: values[0] for name, values in options.items()}
    least = at(best)
    for name, values in options.items():
        for value in values[1:]:
            found = at(best | {name: value})
            if found < least:
                least, best = found, best | {name: value}
    return least, best


@functools.cache
def table() -> dict[str, dict[str, float]]:
    """The error of every mechanism at every job, by their names."""
    drawn = jobs()
    return {
        name: {job: score(mechanism, x)[0] for job, x in drawn.items()}
        for name, mechanism in mechanisms().items()
    }


BETAS = (0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0)
KEEPS = (1.0, 0.97, 0.9, 0.8, 0.6)


def composed_errors(choices: Choices, tried: Job, asked: Job) -> Array:
    """The error of a composed memory on each draw of `asked`: [n].

    Its beta and its keep are those of `BETAS` and `KEEPS` that do best on `tried`.
    """
    keeps = KEEPS if choices.control != "none" else KEEPS[:1]
    keep, beta = np.array(keeps)[:, None, None], np.array(BETAS)[:, None]
    with np.errstate(all="ignore"):
        q, k, v = (x[None, None] for x in tried[:3])
        said = run(q, k, v, choices, keep=keep, beta=beta)
        found = error(said, tried.wanted, axes=2).mean(axis=-1)
        i, j = np.unravel_index(found.argmin(), found.shape)
        q, k, v = asked[:3]
        said = run(q, k, v, choices, keep=keeps[i], beta=BETAS[j])
    return error(said, asked.wanted, axes=2)


def shares_explained(errors: dict[Choices, float]) -> dict[str, float]:
    """Of the variance among all products of choices, what each axis has alone.

    The variance of the means of the axis's choices over that of all; what is left
    belongs to choices that matter together.
    """
    every = np.array(list(errors.values()))
    shares = {}
    for i, axis in enumerate(Choices._fields):
        words = np.array([choices[i] for choices in errors])
        means = np.array([every[words == word].mean() for word in words])
        shares[axis] = float(means.var() / every.var())
    return shares


def _role(name: str) -> str:
    return GLOSSARY[name].role if name in GLOSSARY else ""
