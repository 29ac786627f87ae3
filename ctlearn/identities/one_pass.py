"""One pass of the delta rule over random keys: what is left of each pair, exactly.

Means over all directions are taken over finitely many keys that have the sphere's
moments up to the fifth: axes and corners of the cube with the weights of `_directions`,
or the corners of an icosahedron. A write of full strength moves three numbers by a
linear map: the squared error at an older key, that error along the older value, and
the squared length of the state. So their means after any number of writes follow by
induction.
"""

import itertools
from typing import Any

import numpy as np

from ctlearn.identities.engine import Sides, identity
from ctlearn.mixers import delta_rule
from ctlearn.printed import AsPrinted, Numbers
from ctlearn.scalars import sqrt
from ctlearn.supplies import Supply

CHAPTER = "07_the_delta_rule"


def _directions(one: Any, d: int) -> list[tuple[Any, np.ndarray]]:
    """Keys of length one, and the weight of each in the mean over the sphere.

    The axes have 2 / (d + 2) of the weight, the cube's corners the rest: then the mean
    of a fourth power is 3 / (d (d + 2)), and odd powers cancel.
    """
    axes = [sign * one * row for row in np.eye(d, dtype=int) for sign in (1, -1)]
    signs = itertools.product((1, -1), repeat=d)
    corners = [one * np.array(sign) / sqrt(d * one) for sign in signs]
    on_axes, on_corners = 2 * one / (d + 2), d * one / (d + 2)
    return [
        *((on_axes / len(axes), key) for key in axes),
        *((on_corners / len(corners), key) for key in corners),
    ]


def _shares(one: Any, d: int) -> tuple[Any, Any]:
    """What a write leaves, on average, of a part along a key, and of its square."""
    return 1 - one / d, 1 - 2 * (d + 1) * one / (d * (d + 2))


def _measured(S: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The squared error at k, the error along v, and the state's squared length."""
    error = v - S.T @ k
    return np.array([error @ error, error @ v, (S * S).sum()])


def _next(x: np.ndarray, d: int, key: Any, told: Any, new: Any) -> np.ndarray:
    """What a write at a random key makes of those three, on average.

    `key` and `told` are the squared lengths of the older key and value, `new` that of
    the value which is written.
    """
    E, m, size = x
    answer = told - 2 * m + E
    moved = 2 * (m - E) / d + key * new / d
    moved = moved + (key * size + 2 * answer) / (d * (d + 2))
    return np.array([E + moved, m + (told - m) / d, size - size / d + new])


def _solved(x: Any, y: Any, z: Any, d: int) -> np.ndarray:
    """The three after n further writes: x = r^n, z = s^n and y = r^j."""
    return np.array([2 - 2 * x - x * y + y * z, 1 - x, d * (1 - x * y)])


def _icosahedron() -> list[np.ndarray]:
    golden = (1 + 5**0.5) / 2
    return [
        np.roll(np.array([0, one, other]), turn) / (1 + golden**2) ** 0.5
        for turn in range(3)
        for one in (1, -1)
        for other in (golden, -golden)
    ]


def _printed(supply: Supply, d_v: int) -> Numbers:
    """Three pairs in space: the first key stays, the others take every corner."""
    v, corners = supply.unit("v", 3, d_v), _icosahedron()
    draws = []
    for others in itertools.product(corners, repeat=2):
        k = np.stack([corners[0], *others])
        _, S = delta_rule.recurrent(k, k, v, beta=np.ones(3))
        draws.append({"k": k, "S": S})
    r, s = _shares(1, 3)
    letters = {"v": v, "N": 3, "d_k": 3, "r": r, "s": s}
    return Numbers(letters, {"j": range(1, 4)}, draws)


@identity(
    title="What one pass of the delta rule leaves of each of N random pairs",
    statement=r"\mathbb{E}\,\lVert S^\top k_j - v_j \rVert^2 ="
    r" 2 - 2 r^{N-j} - r^N + r^j s^{N-j}, \qquad r = 1 - \frac{1}{d_k},"
    r" \quad s = 1 - \frac{2 (d_k + 1)}{d_k (d_k + 2)}",
    source="ours; values of length one, strength 1",
    equations=("eq-one-pass",),
    printed={"eq-one-pass": AsPrinted(numbers=_printed, worlds=("floats",))},
    chapter=CHAPTER,
    at={
        "symbols": {"d": 2, "d_v": 2},
        "rationals": {"d": 4, "d_v": 2},
        "floats": {"d": 5, "d_v": 3},
    },
    mutants={
        "the fourth moment of independent entries": {"fourth": False},
        "a pair starts with an error": {"start": 2},
        "the state does not grow": {"size": 0},
        "a write of half the strength": {"halve": 2},
        "both powers shrink alike": {"alike": True},
    },
)
def left_of_each(
    supply: Supply,
    d: int,
    d_v: int,
    *,
    fourth: bool = True,
    start: int = 1,
    size: int = 1,
    halve: int = 1,
    alike: bool = False,
) -> dict[str, Sides]:
    """One write after any state, averaged over its key; and what solves that map.

    The step is for keys and values of any length, the solution for those of length one.
    """
    k, told, v = supply.real("k", d), supply.real("u", d_v), supply.real("v", d_v)
    k[0] = 1 + k[0] ** 2  # a zero key has no answer of its own
    S = supply.real("S", d, d_v)
    one = k[0] ** 0
    keys = _directions(one, d)
    if not fourth:
        keys = [(one / (2 * d), key) for _, key in keys[: 2 * d]]

    def after(key: np.ndarray, value: np.ndarray) -> np.ndarray:
        rate = one / (key @ key) / halve
        return delta_rule.step(key, key, value, beta=rate, S=S)[1]

    mean = sum(weight * _measured(after(key, v), k, told) for weight, key in keys)
    lengths = (k @ k, told @ told, v @ v)
    x, y, z = supply.positive("x", 3)
    r, s = _shares(one, d)
    s = r if alike else s
    solved = np.array([1, 1, size]) * _solved(x, y, z, d)
    grown = np.array([1, 1, size]) * _solved(r * x, y, s * z, d)
    first = _solved(one, y, start * one, d)
    return {
        "base": (_measured(after(k, told), k, told)[:2], first[:2]),
        "step": (mean, _next(_measured(S, k, told), d, *lengths)),
        "solution": (grown, _next(solved, d, one, one, one)),
    }
