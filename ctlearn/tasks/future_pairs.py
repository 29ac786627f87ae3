"""Future pairs: be told some pairs of a sequence, then be asked about others.

A sequence has a rule, v = f(k) and noise, or none. What is asked was never told: keys
that are drawn as the told ones were, and the rule's clean values at them. A memory of
the told pairs alone is of no use there; a model of the rule is.

    linear      f(k) = W'k, W of independent normal entries
    curved      f(k) = tanh(3 k'W_1 + b) W_2 less its mean, 64 hidden units
    wavy        f(k) = sin(k'W_1 + b) W_2 less its mean, 16 hidden units
    unrelated   a new value for every key, told or asked

Keys are unit vectors, and clean values have a mean square of 1 for each coordinate.
Errors are `ctlearn.tasks.recall.error`: answering zero scores 1.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from ctlearn import inner
from ctlearn.inner import Linear
from ctlearn.mixers.kernel_ridge_attention import exponential
from ctlearn.tasks.recall import Facts, unit_vectors

Rule = Callable[[np.ndarray], np.ndarray]

_HIDDEN = 64
_STEEPNESS = 3
_WAVES = 16
_SAMPLE = 4096  # keys on which a curved rule's mean and size are taken


def linear(rng: np.random.Generator, d_k: int, d_v: int) -> Rule:
    """A linear rule: any matrix is as likely as its negative."""
    W = rng.standard_normal((d_k, d_v))
    return lambda k: k @ W


def curved(rng: np.random.Generator, d_k: int, d_v: int) -> Rule:
    """A rule that no matrix is: a hidden layer of steep units, centred."""
    W_1, b = rng.standard_normal((d_k, _HIDDEN)), rng.standard_normal(_HIDDEN)
    W_2 = rng.standard_normal((_HIDDEN, d_v))
    return _centred(rng, d_k, lambda k: np.tanh(_STEEPNESS * k @ W_1 + b) @ W_2)


def wavy(rng: np.random.Generator, d_k: int, d_v: int) -> Rule:
    """A rule of few smooth waves across the sphere, centred."""
    W_1, b = rng.standard_normal((d_k, _WAVES)), rng.uniform(0, 2 * np.pi, _WAVES)
    W_2 = rng.standard_normal((_WAVES, d_v))
    return _centred(rng, d_k, lambda k: np.sin(k @ W_1 + b) @ W_2)


def _centred(rng: np.random.Generator, d_k: int, raw: Rule) -> Rule:
    seen = raw(unit_vectors(rng, _SAMPLE, d_k))
    mean, size = seen.mean(axis=0), seen.std(axis=0)
    return lambda k: (raw(k) - mean) / size


def unrelated(rng: np.random.Generator, d_k: int, d_v: int) -> Rule:
    """No rule: values that have nothing to do with their keys."""
    return lambda k: rng.standard_normal((len(k), d_v))


def lesson(
    rule: Callable[[np.random.Generator, int, int], Rule],
    seed: int,
    T: int,
    d_k: int,
    d_v: int,
    *,
    noise: float = 0.0,
    asked: int = 400,
) -> Facts:
    """T pairs to tell and `asked` to ask, of a rule drawn by one of this file's.

    `noise` is the deviation added to each coordinate of the told values. Two lessons of
    one seed and one d_k have the same keys, whatever their rule.
    """
    keys, rules, errors = (np.random.default_rng([seed, i]) for i in range(3))
    told, questions = unit_vectors(keys, T, d_k), unit_vectors(keys, asked, d_k)
    f = rule(rules, d_k, d_v)
    v = f(told) + noise * errors.standard_normal((T, d_v))
    return Facts(told, v, questions, f(questions))


def first(facts: Facts, t: int) -> Facts:
    """What is known after t of the pairs, with the same questions."""
    return facts._replace(k=facts.k[:t], v=facts.v[:t])


def asked_again(facts: Facts) -> Facts:
    """The same pairs told, and the questions replaced by their own keys and values."""
    return facts._replace(asked=facts.k, answers=facts.v)


def ask_one_step(told: Facts, eta: float) -> np.ndarray:
    """Ask a linear model after one gradient step on all pairs told, from zero."""
    f = inner.zeros(Linear, told.k, told.v)
    error = f.read(told.k) - told.v
    slope = f.gradient(told.k, error)
    return Linear(f.W - eta * slope.W).read(told.asked)


def ask_kernel_ridge(told: Facts, setting: tuple[float, float]) -> np.ndarray:
    """Ask kernel ridge regression with scores times the first number, ridge the second.

    The kernel is exp(tau (k'k - 1)): for unit keys that of softmax attention, scaled
    to be 1 at equal keys, so that ridges mean the same at every tau.
    """
    tau, ridge = setting
    kernel = partial(_scaled, tau=tau)
    A = kernel(told.k, told.k) + ridge * np.eye(len(told.k))
    return kernel(told.asked, told.k) @ np.linalg.solve(A, told.v)


def expected_error(t: int, d_k: int, noise: float = 0.0) -> float:
    """Mean error after one gradient step of the best size, on t pairs of a linear rule.

    m / (m + t) for m = d_k (1 + noise^2) - 1.
    """
    m = d_k * (1 + noise**2) - 1
    return m / (m + t)


def best_step(t: int, d_k: int, noise: float = 0.0) -> float:
    """The step size d_k / (m + t) that gets there."""
    return d_k / (d_k * (1 + noise**2) - 1 + t)


def _scaled(a: np.ndarray, b: np.ndarray, tau: float) -> np.ndarray:
    return exponential(tau * a, b) * np.exp(-tau)
