"""Inner learners: small networks that a mechanism trains while it reads.

A learner is a record of weights. Tokens are rows, so a layer is x W + b. Three things
are asked of a learner f, all by hand and exact:

read        f(x) [n, d_v] of x [n, d_k], or of one token
gradient    for slopes g [n, d_v] of a loss at f(x), the loss's slope at the weights,
            summed over the n tokens: a record of the same shape. Of g [m, n, d_v] it
            is m of them, along a first axis of each weight
read_after  what each of n readers is answered by weights of its own. Reader i asks
            sum_m c_mi L_m - sum_j steps_ij grad_j, where the L_m are learners, c_mi
            numbers, and grad_j is token j's gradient at f. No weights are formed for
            a reader: this is the dual form of [sun2024ttt], where (QK' * steps) G
            takes the place of q times a sum of outer products.

`gradient` is linear in g, token by token: a token's step size may be put into its g.
"""

import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ctlearn import memory
from ctlearn.scalars import is_exact, sqrt
from ctlearn.shapes import GLOSSARY, check_shape, checked
from ctlearn.supplies import Supply

# The coefficients (a, b, c) of Newton and Schulz's iteration, step by step. They push
# singular values in [0.01, 1] to [0.68, 1.13] and to [0.98, 1.03]. [jordan2024muon;
# zhang2025lact, released code]
MUON = ((3.4445, -4.7750, 2.0315),) * 5
MUON_LACT = (
    (4.0848, -6.8946, 2.9270),
    (3.9505, -6.3029, 2.6377),
    (3.7418, -5.5913, 2.3037),
    (2.8769, -3.1427, 1.2046),
    (2.8366, -3.0525, 1.2012),
)
# The common tests of which a mechanism with such a learner is exempt, and why.
TOO_MANY_SYMBOLS = {
    "test_plans_agree_on_symbols": "the polynomials of a learner's weights take minutes"
}
NOT_RATIONAL = TOO_MANY_SYMBOLS | {
    "test_plans_agree_exactly": "it measures lengths and rounds its constants"
}
_GELU = math.sqrt(2 / math.pi)
_FAR = 10  # a gelu has long been straight there, and its cube cannot overflow


class Linear(NamedTuple):
    """x W, with W [d_k, d_v]."""

    W: np.ndarray

    def read(self, x: np.ndarray) -> np.ndarray:
        """Answer [n, d_v] to the rows of x [n, d_k]."""
        return x @ self.W

    def gradient(
        self, x: np.ndarray, g: np.ndarray, rates: np.ndarray | None = None
    ) -> "Linear":
        """Sum of x_j g_j', each weighed by the first of its rates."""
        x = x if rates is None else rates[..., :1] * x
        return Linear(np.atleast_2d(x).T @ np.atleast_2d(g))

    def read_after(
        self, q: np.ndarray, x: np.ndarray, g: np.ndarray, steps: np.ndarray, terms: Any
    ) -> np.ndarray:
        """Answer each row of q from its own weights."""
        return _mixed(q, [(c, L.W) for c, L in terms]) - (steps * (q @ x.T)) @ g


class Affine(NamedTuple):
    """x W + b, with W [d_k, d_v] and b [d_v]."""

    W: np.ndarray
    b: np.ndarray

    def read(self, x: np.ndarray) -> np.ndarray:
        """Answer [n, d_v] to the rows of x [n, d_k]."""
        return x @ self.W + self.b

    def gradient(self, x: np.ndarray, g: np.ndarray) -> "Affine":
        """Sum of x_j g_j', and sum of g_j."""
        x, g = np.atleast_2d(x), np.atleast_2d(g)
        return Affine(x.T @ g, g.sum(axis=-2))

    def read_after(
        self, q: np.ndarray, x: np.ndarray, g: np.ndarray, steps: np.ndarray, terms: Any
    ) -> np.ndarray:
        """Answer each row of q from its own weights: a key of one more, constant 1."""
        z = _mixed(q, [(c, L.W) for c, L in terms])
        z = z + sum(np.multiply.outer(c, L.b) for c, L in terms)
        return z - (steps * (q @ x.T + 1)) @ g


class Perceptron(NamedTuple):
    """gelu(x W_1 + b_1) W_2 + b_2: two layers, W_1 [d_k, d_h] and W_2 [d_h, d_v]."""

    W_1: np.ndarray
    b_1: np.ndarray
    W_2: np.ndarray
    b_2: np.ndarray

    def layers(self) -> tuple[Affine, Affine]:
        """The two layers, without the gelu between them."""
        return Affine(self.W_1, self.b_1), Affine(self.W_2, self.b_2)

    def read(self, x: np.ndarray) -> np.ndarray:
        """Answer [n, d_v] to the rows of x [n, d_k]."""
        first, second = self.layers()
        return second.read(gelu(first.read(x)))

    def gradient(self, x: np.ndarray, g: np.ndarray) -> "Perceptron":
        """Both layers' gradients: the first one's slope comes through the gelu."""
        first, second = self.layers()
        hidden, g_hidden = self._backward(x, g)
        return Perceptron(*first.gradient(x, g_hidden), *second.gradient(hidden, g))

    def read_after(
        self, q: np.ndarray, x: np.ndarray, g: np.ndarray, steps: np.ndarray, terms: Any
    ) -> np.ndarray:
        """Answer each row of q from its own weights, layer after layer."""
        first, second = self.layers()
        hidden, g_hidden = self._backward(x, g)
        terms_1 = [(c, L.layers()[0]) for c, L in terms]
        terms_2 = [(c, L.layers()[1]) for c, L in terms]
        asked = gelu(first.read_after(q, x, g_hidden, steps, terms_1))
        return second.read_after(asked, hidden, g, steps, terms_2)

    def _backward(self, x: np.ndarray, g: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The hidden units, and the loss's slope just before their gelu."""
        z = x @ self.W_1 + self.b_1
        return gelu(z), (g @ self.W_2.T) * gelu_slope(z)


class GatedUnit(NamedTuple):
    """(silu(x W_0) * (x W_2)) W_1: SwiGLU, W_0 and W_2 [d_k, d_h], W_1 [d_h, d_v]."""

    W_0: np.ndarray
    W_1: np.ndarray
    W_2: np.ndarray

    def read(self, x: np.ndarray) -> np.ndarray:
        """Answer [n, d_v] to the rows of x [n, d_k]."""
        return (silu(x @ self.W_0) * (x @ self.W_2)) @ self.W_1

    def gradient(
        self, x: np.ndarray, g: np.ndarray, rates: np.ndarray | None = None
    ) -> "GatedUnit":
        """All three gradients; rates [n, 3] weighs each token in each of them."""
        x, g = np.atleast_2d(x), np.atleast_2d(g)
        r = np.ones((1, 3), dtype=x.dtype) if rates is None else np.atleast_2d(rates)
        gate, value = x @ self.W_0, x @ self.W_2
        hidden, g_hidden = silu(gate) * value, g @ self.W_1.T
        return GatedUnit(
            (r[:, :1] * x).T @ (g_hidden * value * silu_slope(gate)),
            (r[:, 1:2] * hidden).T @ g,
            (r[:, 2:] * x).T @ (g_hidden * silu(gate)),
        )


Learner: TypeAlias = Linear | Affine | Perceptron
SHAPES: dict[type, tuple[tuple[str, ...], ...]] = {
    Linear: (("d_k", "d_v"),),
    Affine: (("d_k", "d_v"), ("d_v",)),
    Perceptron: (("d_k", "d_h"), ("d_h",), ("d_h", "d_v"), ("d_v",)),
    GatedUnit: (("d_k", "d_h"), ("d_h", "d_v"), ("d_k", "d_h")),
}


def layer_norm(z: np.ndarray, norm: np.ndarray) -> np.ndarray:
    """Standardise z along its last axis, then stretch and move it.

    norm [2, d_v] holds gain and shift: gain (z - mean) / sqrt(variance + 1e-6) + shift.
    """
    return norm[0] * _standard(z)[0] + norm[1]


def layer_norm_slope(z: np.ndarray, y: np.ndarray, norm: np.ndarray) -> np.ndarray:
    """The slope at z of half the squared distance from `layer_norm(z, norm)` to y."""
    x, deviation = _standard(z)
    g = (norm[0] * x + norm[1] - y) * norm[0]
    return (g - _mean(g) - x * _mean(g * x)) / deviation


def answer(z: np.ndarray, x: np.ndarray, norm: np.ndarray | None) -> np.ndarray:
    """What is read if a learner says z at x: z, or with a norm x + layer_norm(z)."""
    return z if norm is None else x + layer_norm(z, norm)


def slope(
    z: np.ndarray, k: np.ndarray, v: np.ndarray, norm: np.ndarray | None
) -> np.ndarray:
    """The slope at z of half the squared distance from `answer(z, k, norm)` to v."""
    return z - v if norm is None else layer_norm_slope(z, v - k, norm)


def check_norm(norm: np.ndarray | None, k: np.ndarray, v: np.ndarray) -> None:
    """Raise unless there is no norm, or one that fits values as long as the keys."""
    if norm is None:
        return
    if norm.shape != (2, v.shape[-1]):
        raise ValueError(f"norm: expected [2, d_v], got shape {norm.shape}")
    if k.shape[-1] != v.shape[-1]:
        raise ValueError(
            f"norm: expected None, for with a norm k is added to what is {v.shape[-1]} "
            f"long, and k is {k.shape[-1]} long"
        )


def each(function: Callable, *learners: Any) -> Any:
    """A learner of the same kind, made weight by weight."""
    return type(learners[0])(
        *(function(*weights) for weights in zip(*learners, strict=True))
    )


def zeros_like(learner: Any) -> Any:
    """A learner of the same kind with all weights zero."""
    return each(np.zeros_like, learner)


class Training(NamedTuple):
    """A model in training by mini-batches.

    f is the learner at the start of the mini-batch, `total` the weighted sum of the
    gradients since, and `seen` counts the tokens since.
    """

    f: Any
    total: Any
    seen: np.ndarray

    @classmethod
    def start(cls, f: Any) -> "Training":
        """A model about to read its first token, from copies of the weights of f."""
        f = each(np.copy, f)
        return cls(f, zeros_like(f), np.zeros((), dtype=f[0].dtype))

    def advance(self, total: Any, f: Any, n: int, inner_batch: int) -> "Training":
        """After n more tokens: a full mini-batch makes f the start of the next one."""
        seen = int(self.seen) + n
        if seen == inner_batch:
            return Training.start(f)
        f = each(np.copy, self.f)
        return Training(f, total, np.asarray(seen, dtype=self.seen.dtype))


class Momentum(NamedTuple):
    """A model that learns with momentum, by mini-batches.

    M is the learner as it is, P its momentum, `at` the learner at which gradients are
    taken: M at the start of the mini-batch, of which `seen` tokens have been read.
    """

    M: Any
    P: Any
    at: Any
    seen: np.ndarray

    @classmethod
    def start(cls, f: Any) -> "Momentum":
        """A model at rest about to read its first token, from copies of f's weights."""
        seen = np.zeros((), dtype=f[0].dtype)
        return cls(each(np.copy, f), zeros_like(f), each(np.copy, f), seen)

    def advance(self, M: Any, P: Any, n: int, inner_batch: int) -> "Momentum":
        """After n more tokens: a full mini-batch makes M the start of the next one."""
        return Momentum(M, P, *next_start(self, M, n, inner_batch))


def next_start(S: Any, M: Any, n: int, inner_batch: int) -> tuple[Any, np.ndarray]:
    """The next `at` and `seen` of a state that has both, when n more tokens made M."""
    seen = (int(S.seen) + n) % inner_batch
    at = each(np.copy, S.at if seen else M)
    return at, np.asarray(seen, dtype=S.seen.dtype)


def begun(
    kind: Any, k: np.ndarray, v: np.ndarray, S: Any, learners: Sequence[type]
) -> Any:
    """A copy of the state S, or one about to read its first token, from zero weights.

    `kind` is Training, Momentum or their like. Raises TypeError if S is another one or
    its learners are not among `learners`, and ValueError if they do not fit k and v.
    """
    S = kind.start(zeros(learners[0], k, v)) if S is None else S
    if not isinstance(S, kind):
        wanted = f"{kind.__name__}({', '.join(kind._fields)})"
        raise TypeError(f"S: expected a {wanted}, got {type(S).__name__}")
    *found, seen = S
    return kind(*copied_learners(found, k, v, learners), seen.copy())


def copied_learners(
    learners: Sequence[Any], k: np.ndarray, v: np.ndarray, kinds: Sequence[type]
) -> tuple[Any, ...]:
    """Copies of a state's learners, each of which must be one of `kinds` and fit."""
    for learner in learners:
        sizes = {"d_k": (k.shape[1], "k"), "d_v": (v.shape[1], "v")}
        check_learner("S", learner, kinds, sizes)
    return tuple(each(np.copy, learner) for learner in learners)


def after(f: Any, x: np.ndarray, g: np.ndarray, steps: np.ndarray, terms: Any) -> Any:
    """The learner sum_m c_m L_m - sum_j steps_j grad_j, in the letters of read_after.

    For steps [m, n] and coefficients [m] it is m of them, along a first axis.
    """

    def weight(taken: np.ndarray, *weights: np.ndarray) -> np.ndarray:
        kept = zip(terms, weights, strict=True)
        return sum(np.multiply.outer(c, w) for (c, _), w in kept) - taken

    taken = f.gradient(x, steps[..., None] * g)
    return each(weight, taken, *(learner for _, learner in terms))


def inner_forms(step: Callable, block: Callable, begin: Callable) -> tuple[Any, Any]:
    """`recurrent` and `chunkwise` of a mechanism that learns in mini-batches.

    `begin(k, v, S)` checks the state and gives one to start from; it is also handed the
    arguments that are not by token and for which it asks. `block` takes what `step`
    takes, for some tokens of one mini-batch; the state counts those it has `seen`.
    """
    *arguments, state, batch = inspect.signature(step).parameters.values()
    asked = inspect.signature(begin).parameters

    def first(k: Any, v: Any, S: Any, others: dict[str, Any]) -> Any:
        given = {
            x.name: x.default for x in (*arguments, batch) if x.default is not x.empty
        }
        given |= others
        return begin(k, v, S, **{name: given[name] for name in list(asked)[3:]})

    def recurrent(q: Any, k: Any, v: Any, *, S: Any = None, **others: Any) -> Any:
        """One token after another."""
        return memory.scan(step, q, k, v, S=first(k, v, S, others), **others)

    def chunkwise(
        q: Any,
        k: Any,
        v: Any,
        *,
        S: Any = None,
        inner_batch: int = batch.default,
        chunk_size: int = 64,
        **others: Any,
    ) -> Any:
        """As many tokens at once as the chunk and the mini-batch allow."""
        others[batch.name] = inner_batch
        S, o, t = first(k, v, S, others), np.empty_like(v), 0
        tokens = {name: others.pop(name) for name in list(others) if _by_token(name)}
        while t < len(k):
            room = min(chunk_size - t % chunk_size, inner_batch - int(S.seen))
            c = slice(t, t + room)
            rows = {name: x if x is None else x[c] for name, x in tokens.items()}
            o[c], S = block(q[c], k[c], v[c], **rows, S=S, **others)
            t += room
        return o, S

    size = inspect.signature(chunkwise).parameters["chunk_size"]
    forms: tuple[Any, ...] = (recurrent, chunkwise)
    for form in forms:
        last = [batch, size] if form is chunkwise else [batch]
        form.__signature__ = inspect.Signature(
            [*arguments, state.replace(default=None), *last]
        )
        form.__module__, form.__qualname__ = step.__module__, form.__name__
    check = checked(**getattr(step, "own_shapes", {}))
    return check(recurrent), check(chunkwise)


def _by_token(name: str) -> bool:
    """Whether the glossary gives an argument a row for each token."""
    return name in GLOSSARY and any("T" in shape for shape in GLOSSARY[name].shapes)


def shaped(kind: type, make: Callable, **sizes: int) -> Any:
    """A learner of this kind and these sizes, of weights `make(name, *shape)`."""
    fields = zip(kind.__annotations__, SHAPES[kind], strict=True)
    return kind(*(make(name, *(sizes[x] for x in shape)) for name, shape in fields))


def zeros(kind: type, k: np.ndarray, v: np.ndarray, d_h: int = 0) -> Any:
    """A learner of zeros that fits keys k [T, d_k] and values v [T, d_v]."""
    return shaped(
        kind,
        lambda _, *shape: np.zeros(shape, dtype=k.dtype),
        d_k=k.shape[1],
        d_h=d_h,
        d_v=v.shape[1],
    )


def drawn(kind: type, supply: Supply, d_k: int, d_h: int, d_v: int) -> Any:
    """A learner of small random weights: a start from which it can learn."""
    return shaped(
        kind,
        lambda name, *shape: supply.real(name, *shape) / 8,
        d_k=d_k,
        d_h=d_h,
        d_v=d_v,
    )


def check_learner(
    name: str, learner: Any, kinds: Sequence[type], sizes: dict[str, tuple[int, str]]
) -> None:
    """Raise unless the learner is one of these kinds and fits the sizes."""
    if type(learner) not in kinds:
        wanted = " or ".join(kind.__name__ for kind in kinds)
        raise TypeError(f"{name}: expected {wanted}, got {type(learner).__name__}")
    fields = zip(learner._fields, learner, SHAPES[type(learner)], strict=True)
    for field, weights, shape in fields:
        check_shape(f"{name}.{field}", weights, (shape,), sizes)


def gelu(x: np.ndarray) -> np.ndarray:
    """Gelu by its usual approximation: x (1 + tanh(...)) / 2, with a cubic inside."""
    return x * (1 + _gelu_tanh(x)) / 2


def gelu_slope(x: np.ndarray) -> np.ndarray:
    """The derivative of `gelu`."""
    t = _gelu_tanh(x)
    near = np.clip(x, -_FAR, _FAR)
    inside_slope = _GELU * (1 + 3 * 0.044715 * near * near)
    return (1 + t) / 2 + near * (1 - t * t) * inside_slope / 2


def silu(x: np.ndarray) -> np.ndarray:
    """Multiply x by its logistic function."""
    return x * _logistic(x)


def silu_slope(x: np.ndarray) -> np.ndarray:
    """The derivative of `silu`."""
    s = _logistic(x)
    return s * (1 + x * (1 - s))


def with_lengths(W: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """W with columns of these lengths; 1e-5 is added to what they are divided by."""
    return W / (np.linalg.norm(W, axis=0) + 1e-5) * lengths


def newton_schulz(
    G: np.ndarray, coefficients: Sequence[tuple[float, float, float]] = MUON
) -> np.ndarray:
    """G with its singular values near 1: odd polynomials of G instead of an SVD.

    X = G / (||G|| + 1e-7), then X <- a X + (b XX' + c (XX')^2) X for each (a, b, c).
    Singular values below about 3e-3 of ||G|| stay small. G [..., n, m] may be several
    matrices. [jordan2024muon]
    """
    X = G / (np.linalg.norm(G, axis=(-2, -1), keepdims=True) + 1e-7)
    tall = X.shape[-2] > X.shape[-1]
    X = X.swapaxes(-2, -1) if tall else X
    for a, b, c in coefficients:
        A = X @ X.swapaxes(-2, -1)
        X = a * X + (b * A + c * (A @ A)) @ X
    return X.swapaxes(-2, -1) if tall else X


def of_one_strength(
    learner: Any, coefficients: Sequence[tuple[float, float, float]]
) -> Any:
    """The learner's matrices after `newton_schulz`, its vectors as they are.

    Without coefficients all is as it is. It may be several learners, whose weights then
    have a first axis.
    """
    shapes = SHAPES[type(learner)]
    return type(learner)(
        *(
            newton_schulz(w, coefficients) if coefficients and len(shape) == 2 else w
            for w, shape in zip(learner, shapes, strict=True)
        )
    )


def _mixed(q: np.ndarray, terms: Sequence[tuple[Any, np.ndarray]]) -> np.ndarray:
    """Row i: the sum over m of c_mi q_i' W_m."""
    return sum(np.reshape(c, (-1, 1)) * (q @ W) for c, W in terms)


def _standard(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Standardised along the last axis, and the deviation that was divided by."""
    centred = z - _mean(z)
    deviation = sqrt(_mean(centred * centred) + _millionth(z))
    return centred / deviation, deviation


def _mean(x: np.ndarray) -> np.ndarray:
    return x.sum(axis=-1, keepdims=True) / x.shape[-1]


def _millionth(like: np.ndarray) -> Any:
    if not is_exact(like):
        return 1e-6
    import sympy

    return sympy.Rational(1, 10**6)


def _gelu_tanh(x: np.ndarray) -> np.ndarray:
    """tanh(sqrt(2/pi) (x + 0.044715 x^3)), which is 1 for any x that is far out."""
    near = np.clip(x, -_FAR, _FAR)
    return np.tanh(_GELU * (near + 0.044715 * near**3))


def _logistic(x: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-x)), by a tanh, which cannot overflow."""
    return (1 + np.tanh(x / 2)) / 2
