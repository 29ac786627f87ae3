"""Interference: what leaks between stored pairs, and how many of them fit.

Means over all directions are taken over the images of a vector under flips and swaps
of the axes. Those images have the mean and the second moments of the sphere, and they
are few enough to sum exactly.
"""

import itertools
from typing import Any

import numpy as np

from ctlearn.features import elu_plus_one, quadratic
from ctlearn.identities.engine import Sides, identity
from ctlearn.mixers import linear_attention
from ctlearn.printed import AsPrinted, Numbers
from ctlearn.scalars import is_exact, sqrt
from ctlearn.supplies import Supply
from ctlearn.tasks import recall

CHAPTER = "04_interference"


def _images(x: np.ndarray) -> list[np.ndarray]:
    """X [d] with its entries rotated among the axes and their signs flipped."""
    flips = itertools.product((1, -1), repeat=len(x))
    turns = [np.roll(x, shift) for shift in range(len(x))]
    return [np.array(flip) * turn for flip in flips for turn in turns]


def _mean(values: list) -> np.ndarray:
    return sum(values) * _one_over(len(values), np.asarray(values[0]))


def _one_over(n: int, like: np.ndarray) -> Any:
    """1 / n among the numbers of `like`."""
    if not is_exact(like):
        return 1 / n
    import sympy

    return sympy.Rational(1, n)


def _off_diagonal(G: np.ndarray) -> np.ndarray:
    return G[~np.eye(len(G), dtype=bool)]


def _rank(matrix: np.ndarray) -> int:
    if not is_exact(matrix):
        return int(np.linalg.matrix_rank(matrix))
    import sympy

    return sympy.Matrix(matrix).rank()


def _printed(supply: Supply, N: int, d_k: int, d_v: int) -> Numbers:
    """Pairs and what the package keeps of them, and a relation between the keys."""
    k, v = supply.real("k", N, d_k), supply.real("v", N, d_v)
    _, S = linear_attention.recurrent(k, k, v)
    index = range(1, N + 1)
    letters = {"k": k, "v": v, "S": S, "K": k, "V": v, "G": recall.crosstalk(k)}
    sizes = {"N": N, "d_k": d_k, "c": supply.real("c", N)}
    return Numbers(letters | sizes, {"i": index, "j": index, "l": index})


PRINTED = AsPrinted(numbers=_printed)


def _printed_one_hot(supply: Supply, N: int, d_k: int) -> Numbers:
    """Pairs whose values are the rows of the identity."""
    k, v, index = supply.real("k", N, d_k), np.eye(N, dtype=int), range(1, N + 1)
    letters = {"k": k, "K": k, "S": k.T @ v, "V": v}
    return Numbers(letters, {"i": index, "j": index})


def _printed_unit(supply: Supply, N: int, d_k: int, d_v: int) -> Numbers:
    """Unit keys and values, and what the package keeps of them."""
    k, v = supply.unit("k", N, d_k), supply.unit("v", N, d_v)
    _, S = linear_attention.recurrent(k, k, v)
    index = range(1, N + 1)
    letters = {"k": k, "v": v, "S": S, "K": k, "N": N, "d_k": d_k}
    return Numbers(letters, {"i": index, "j": index, "l": index})


@identity(
    title="What comes back is the value, and every other value by its key's overlap",
    statement=(r"S^\top k_i = (k_i^\top k_i) v_i + \sum_{j \ne i} (k_j^\top k_i) v_j"),
    source="ours; kohonen1972 for correlation memories",
    citations=("kohonen1972",),
    equations=("eq-recall", "def-added-pairs"),
    printed={"eq-recall": PRINTED, "def-added-pairs": PRINTED},
    chapter=CHAPTER,
    mutants={
        "keys taken to have length one": {"own": "one"},
        "the other values at full strength": {"overlap": False},
        "the answer without its own value": {"own": "none"},
    },
)
def decomposition(
    supply: Supply,
    N: int,
    d_k: int,
    d_v: int,
    *,
    own: str = "squared",
    overlap: bool = True,
) -> Sides:
    """Every pair, read from the state that linear attention leaves."""
    k, v = supply.real("k", N, d_k), supply.real("v", N, d_v)
    _, S = linear_attention.recurrent(k, k, v)
    rows = []
    for i in range(N):
        strength = {"squared": k[i] @ k[i], "one": 1, "none": 0}[own]
        others = [((k[j] @ k[i]) if overlap else 1) * v[j] for j in range(N) if j != i]
        rows.append(strength * v[i] + sum(others))
    return k @ S, np.array(rows, dtype=v.dtype)


@identity(
    title="All answers at once: the error is the crosstalk times the values",
    statement=r"K S - V = (G - I) V, \qquad G = K K^\top",
    source="ours",
    equations=("eq-recall-error", "def-crosstalk"),
    printed={"eq-recall-error": PRINTED, "def-crosstalk": PRINTED},
    chapter=CHAPTER,
    mutants={
        "the other Gram matrix": {"features": True},
        "the identity is not taken off": {"identity_part": 0},
        "a pair is written twice": {"again": True},
    },
)
def recall_error(
    supply: Supply,
    N: int,
    d_v: int,
    *,
    features: bool = False,
    identity_part: int = 1,
    again: bool = False,
) -> Sides:
    """As many keys as dimensions, so that both Gram matrices have one shape."""
    k, v = supply.real("k", N, N), supply.real("v", N, d_v)
    S = k.T @ v + (np.outer(k[0], v[0]) if again else 0)
    G = k.T @ k if features else recall.crosstalk(k)
    return k @ S - v, (G - identity_part * np.eye(N, dtype=int)) @ v


@identity(
    title="With one-hot values the squared error is the squared crosstalk",
    statement=(
        r"V = I: \quad \lVert K S - V \rVert^2"
        r" = \sum_{i} (k_i^\top k_i - 1)^2 + \sum_{i \ne j} (k_i^\top k_j)^2"
    ),
    source="ours",
    equations=("eq-exact-only-if-orthonormal",),
    printed={"eq-exact-only-if-orthonormal": AsPrinted(numbers=_printed_one_hot)},
    chapter=CHAPTER,
    mutants={
        "lengths do not matter": {"lengths": 0},
        "lengths counted twice": {"lengths": 2},
        "each pair of keys counted once": {"times": 2},
        "overlaps not squared": {"power": 1},
    },
)
def one_hot_values(
    supply: Supply,
    N: int,
    d_k: int,
    *,
    lengths: int = 1,
    times: int = 1,
    power: int = 2,
) -> Sides:
    """A sum of squares: zero only if all keys are orthonormal."""
    k = supply.real("k", N, d_k)
    v = np.eye(N, dtype=int)
    error = ((k @ (k.T @ v) - v) ** 2).sum()
    own = sum((k[i] @ k[i] - 1) ** 2 for i in range(N))
    pairs = [(i, j) for i in range(N) for j in range(N) if i != j]
    cross = sum((k[i] @ k[j]) ** power for i, j in pairs) * _one_over(times, k)
    return np.array([error]), np.array([lengths * own + cross])


@identity(
    title="Whatever wrote the matrix, its answers have at most d_k dimensions",
    kind="bound",
    statement=r"\operatorname{rank}(K S) \le \min(N, d_k) \quad\text{for every } S",
    source="ours; elementary",
    equations=("eq-rank-bound",),
    printed={"eq-rank-bound": AsPrinted(numbers=_printed, worlds=("rationals",))},
    chapter=CHAPTER,
    worlds=("rationals", "floats"),
    mutants={
        "one dimension fewer": {"spare": 1},
        "the values' dimension instead": {"by_values": True},
    },
    at={"rationals": {"N": 5, "d_k": 3, "d_v": 4}},
)
def rank_bound(
    supply: Supply,
    N: int,
    d_k: int,
    d_v: int,
    *,
    spare: int = 0,
    by_values: bool = False,
) -> Sides:
    """Arbitrary states, not only those that a sum of outer products can reach."""
    k = supply.real("k", N, d_k)
    ranks = [_rank(k @ supply.real(f"S{i}", d_k, d_v)) for i in range(3)]
    most = N - d_v if by_values else min(N, d_k) - spare
    return np.array(ranks), np.array([most] * 3)


@identity(
    title="A linear relation between keys holds between their answers",
    statement=(r"\sum_{i} c_i S^\top k_i = S^\top \left(\sum_{i} c_i k_i\right)"),
    source="ours; elementary",
    equations=("eq-dependence",),
    printed={"eq-dependence": PRINTED},
    chapter=CHAPTER,
    mutants={
        "the answers squared": {"power": 2},
        "one key left out of the relation": {"left_out": 1},
        "asked with the sum of the keys": {"weighted": False},
    },
)
def dependence(
    supply: Supply,
    N: int,
    d_k: int,
    d_v: int,
    *,
    power: int = 1,
    left_out: int = 0,
    weighted: bool = True,
) -> Sides:
    """Any keys, any relation, and an arbitrary state."""
    k, c = supply.real("k", N, d_k), supply.real("c", N)
    S = supply.real("S", d_k, d_v)
    relation = c[left_out:] if weighted else 1 + 0 * c
    return c @ (k @ S) ** power, (relation @ k[left_out:]) @ S


@identity(
    title="The best matrix leaves N - d_k of N values unexplained",
    statement=(
        r"\operatorname{tr}\!\left(I - K (K^\top K)^{-1} K^\top\right) = N - d_k"
    ),
    source="ours; least squares",
    equations=("eq-best-matrix",),
    printed={
        "eq-best-matrix": AsPrinted(
            numbers=_printed, at={"rationals": {"N": 4, "d_k": 3}}
        )
    },
    chapter=CHAPTER,
    mutants={
        "the projection doubled": {"times": 2},
        "one dimension more": {"spare": 1},
        "one dimension fewer": {"spare": -1},
    },
    at={"symbols": {"N": 3, "d_k": 2}, "rationals": {"N": 5, "d_k": 3}},
)
def best_matrix(
    supply: Supply, N: int, d_k: int, *, times: int = 1, spare: int = 0
) -> Sides:
    """The trace of the residual projection, for any keys of full rank."""
    k = supply.real("k", N, d_k)
    if is_exact(k):
        import sympy

        K = sympy.Matrix(k)
        explained = np.array([(K * (K.T * K).inv() * K.T).trace()])
    else:
        explained = np.array([np.trace(k @ np.linalg.pinv(k))])
    return N - times * explained, 0 * explained + N - d_k - spare


def _printed_images(supply: Supply, d: int) -> Numbers:
    """A unit vector in all its images, and another vector."""
    draws = [{"k": image} for image in _images(supply.unit("k", d))]
    return Numbers({"k'": supply.real("l", d), "d_k": d}, draws=draws)


@identity(
    title="The squared cosine of two random directions is 1/d on average",
    statement=(
        r"\mathbb{E}\left[(k^\top k')^2\right] = \frac{1}{d_k} \lVert k' \rVert^2"
    ),
    source="ours; by flips and swaps of the axes",
    equations=("eq-second-moment",),
    printed={"eq-second-moment": AsPrinted(numbers=_printed_images)},
    chapter=CHAPTER,
    mutants={
        "the cosine not squared": {"power": 1},
        "one dimension too many": {"spare": 1},
        "one dimension too few": {"spare": -1},
        "only flips, no swaps": {"swaps": False},
    },
)
def second_moment(
    supply: Supply, d: int, *, power: int = 2, spare: int = 0, swaps: bool = True
) -> Sides:
    """Any unit vector, averaged over its images, against any other vector."""
    k, other = supply.unit("k", d), supply.real("l", d)
    images = _images(k) if swaps else [k, -k]
    mean = _mean([np.array([(x @ other) ** power]) for x in images])
    return mean, np.array([(other @ other) * _one_over(d + spare, other)])


def _printed_random_keys(supply: Supply, d_v: int) -> Numbers:
    """Three pairs in the plane: key 1 stays, the others run through their images."""
    k, v = supply.unit("k", 3, 2), supply.real("v", 3, d_v)
    draws = []
    for others in itertools.product(_images(k[1]), _images(k[2])):
        drawn = np.stack([k[0], *others])
        draws.append({"k": drawn, "S": drawn.T @ v})
    return Numbers({"v": v, "d_k": 2, "i": 1}, {"j": range(1, 4)}, draws)


@identity(
    title="Recall error of a pair among random keys, whatever the values",
    statement=(
        r"\mathbb{E}\,\lVert S^\top k_i - v_i \rVert^2"
        r" = \frac{1}{d_k} \sum_{j \ne i} \lVert v_j \rVert^2"
    ),
    source="ours",
    equations=("eq-mean-square-error",),
    printed={
        "eq-mean-square-error": AsPrinted(
            numbers=_printed_random_keys,
            worlds=("rationals", "floats"),
            at={"rationals": {"d_v": 2}},
        )
    },
    chapter=CHAPTER,
    mutants={
        "the pair disturbs itself": {"itself": True},
        "one key is never drawn again": {"drawn": False},
        "keys twice as long": {"length": 2},
    },
    worlds=("rationals", "floats"),
    at={"rationals": {"d_v": 2}, "floats": {"d_v": 3}},
)
def mean_square_error(
    supply: Supply,
    d_v: int,
    *,
    itself: bool = False,
    drawn: bool = True,
    length: int = 1,
) -> Sides:
    """Three pairs in two dimensions, over all images of the keys of the other two."""
    k, v = length * supply.unit("k", 3, 2), supply.real("v", 3, d_v)
    errors = []
    for second in _images(k[1]) if drawn else [k[1]]:
        for third in _images(k[2]):
            S = np.stack([k[0], second, third]).T @ v
            errors.append(((S.T @ k[0] - v[0]) ** 2).sum())
    mean = _mean([np.array([error]) for error in errors])
    others = (v[0 if itself else 1 :] ** 2).sum()
    return mean, np.array([others * _one_over(2, mean)])


def _printed_error(supply: Supply) -> Numbers:
    """An error and a scale."""
    return Numbers({"x": supply.positive("x", 1)[0], "c": supply.real("c", 1)[0]})


@identity(
    title="The best output scale turns an error x into x / (1 + x)",
    statement=(
        r"(c - 1)^2 + c^2 x = \frac{x}{1 + x} + (1 + x)"
        r" \left(c - \frac{1}{1 + x}\right)^2"
    ),
    source="ours",
    equations=("eq-best-scale",),
    printed={"eq-best-scale": AsPrinted(numbers=_printed_error)},
    chapter=CHAPTER,
    mutants={
        "noise not scaled": {"noise_power": 0},
        "the best scale is 1 - x": {"first_order": True},
        "signal not lost": {"signal": 0},
    },
)
def best_scale(
    supply: Supply, *, noise_power: int = 2, first_order: bool = False, signal: int = 1
) -> Sides:
    """The square is gone at c = 1 / (1 + x) and positive elsewhere."""
    x, c = supply.positive("x", 1), supply.real("c", 1)
    best = 1 - x if first_order else 1 / (1 + x)
    error = signal * (c - 1) ** 2 + c**noise_power * x
    return error, x / (1 + x) + (1 + x) * (c - best) ** 2


@identity(
    title="How far keys are from the best arrangement",
    statement=(
        r"\sum_{i \ne j} (k_i^\top k_j)^2 = \frac{N (N - d_k)}{d_k}"
        r" + \left\lVert K^\top K - \frac{N}{d_k} I \right\rVert^2"
    ),
    source="ours; welch1974 has the inequality that follows",
    citations=("welch1974",),
    equations=("eq-welch",),
    printed={"eq-welch": AsPrinted(numbers=_printed_unit, at={"floats": {"N": 6}})},
    chapter=CHAPTER,
    mutants={
        "the diagonal counted": {"diagonal": True},
        "directions need not share alike": {"even": False},
        "one dimension too many": {"spare": 1},
        "one dimension too few": {"spare": -1},
    },
    at={"symbols": {"N": 3, "d_k": 2}},
)
def welch(
    supply: Supply,
    N: int,
    d_k: int,
    *,
    diagonal: bool = False,
    even: bool = True,
    spare: int = 0,
) -> Sides:
    """Any unit keys; the last term is zero if they use all directions alike."""
    k = supply.unit("k", N, d_k)
    G = recall.crosstalk(k)
    d = d_k + spare
    left = (G**2).sum() if diagonal else (_off_diagonal(G) ** 2).sum()
    share = N * _one_over(d, k) * np.eye(d_k, dtype=int)
    rest = ((k.T @ k - share) ** 2).sum() if even else 0
    return np.array([left]), np.array([N * (N - d) * _one_over(d, k) + rest])


@identity(
    title="No arrangement of unit keys leaves less crosstalk than this",
    kind="bound",
    statement=r"\frac{N (N - d_k)}{d_k} \le \sum_{i \ne j} (k_i^\top k_j)^2",
    source="welch1974",
    citations=("welch1974",),
    chapter=CHAPTER,
    worlds=("rationals", "floats"),
    mutants={
        "the diagonal counted on the left": {"shift": 1},
        "keys twice as short": {"length": 2},
    },
    at={"rationals": {"N": 6, "d_k": 2}, "floats": {"N": 60, "d_k": 3}},
)
def welch_bound(
    supply: Supply, N: int, d_k: int, *, shift: int = 0, length: int = 1
) -> Sides:
    """Random keys, and keys along the axes in turn, which meet it if d_k divides N."""
    even = np.eye(d_k, dtype=int)[np.arange(N) % d_k]
    left, right = [], []
    for k in (supply.unit("k", N, d_k), even + 0 * supply.real("z", N, d_k)):
        k = k * _one_over(length, k)
        left.append(N * (N - d_k + shift * d_k) * _one_over(d_k, k))
        right.append((_off_diagonal(recall.crosstalk(k)) ** 2).sum())
    return np.array(left), np.array(right)


def _printed_shared(supply: Supply, d: int) -> Numbers:
    """Keys 1 and 2: a direction that they share, and images at right angles to it."""
    c = supply.rate("c", 1)[0]
    w = np.append(np.zeros(d, dtype=int), 1)
    first, second = supply.unit("x", d), supply.unit("y", d)

    def key(x: np.ndarray) -> np.ndarray:
        return np.append(sqrt(1 - c) * x, sqrt(c))

    draws = []
    for image in _images(second):
        x = np.array([np.append(first, 0), np.append(image, 0)])
        draws.append({"k": np.array([key(first), key(image)]), "x": x})
    letters = {"c": c, "w": w, "d_k": d + 1, "i": 1, "j": 2}
    return Numbers(letters | draws[0], draws=draws)


@identity(
    title="Keys that share a direction overlap, and more dimensions do not help",
    statement=(
        r"\mathbb{E}\left[(k_i^\top k_j)^2\right] = c^2 + \frac{(1 - c)^2}{d_k - 1},"
        r" \qquad k_i = \sqrt{c}\, w + \sqrt{1 - c}\, x_i"
    ),
    source="ours",
    equations=("eq-shared-direction", "def-shared-direction"),
    printed={
        label: AsPrinted(numbers=_printed_shared, at={"floats": {"d": 3}})
        for label in ("eq-shared-direction", "def-shared-direction")
    },
    chapter=CHAPTER,
    mutants={
        "all dimensions are free": {"free": 0},
        "the shared part not squared": {"power": 1},
        "the own parts cancel": {"own": 0},
    },
    at={"symbols": {"d": 2}, "floats": {"d": 6}},
)
def shared_direction(
    supply: Supply, d: int, *, free: int = 1, power: int = 2, own: int = 1
) -> Sides:
    """Directions x at right angles to w, averaged over their images."""
    c = supply.rate("c", 1)[0]
    first, second = supply.unit("x", d), supply.unit("y", d)
    squares = []
    for image in _images(second):
        k_i = np.append(sqrt(1 - c) * first, sqrt(c))
        k_j = np.append(sqrt(1 - c) * image, sqrt(c))
        squares.append(np.array([(k_i @ k_j) ** 2]))
    # d counts the directions that the keys do not share, d_k - 1
    spread = own * (1 - c) ** 2 * _one_over(d + 1 - free, first)
    return _mean(squares), np.array([c**power + spread])


def _printed_icosahedron(supply: Supply) -> Numbers:
    """A direction in space, and corners so even that fourth powers average as on it."""
    golden = (1 + 5**0.5) / 2
    corners = [
        np.roll(np.array([0, one, other]), turn) / (1 + golden**2) ** 0.5
        for turn in range(3)
        for one in (1, -1)
        for other in (golden, -golden)
    ]
    draws = [{"k": corner} for corner in corners]
    return Numbers({"k'": supply.unit("k", 3), "d_k": 3}, draws=draws)


@identity(
    title="The fourth power of the cosine of two random directions",
    statement=(r"\mathbb{E}\left[(k^\top k')^4\right] = \frac{3}{d_k (d_k + 2)}"),
    source="ours; by integration over the sphere",
    equations=("eq-fourth-moment",),
    printed={
        "eq-fourth-moment": AsPrinted(numbers=_printed_icosahedron, worlds=("floats",))
    },
    chapter=CHAPTER,
    worlds=("rationals",),
    mutants={
        "the square of the second moment": {"formula": "squared"},
        "one instead of three": {"formula": "one"},
        "the third power": {"power": 3},
        "the second power": {"power": 2},
    },
)
def fourth_moment(supply: Supply, *, power: int = 4, formula: str = "right") -> Sides:
    """The integral of cos^4 over the sphere, exactly, in 2 to 6 dimensions."""
    import sympy

    angle = sympy.Symbol("theta", real=True)
    left, right = [], []
    for d in range(2, 7):
        # the sphere of directions at this angle has a radius of sin(angle)
        weight = sympy.sin(angle) ** (d - 2)
        total = sympy.integrate(weight, (angle, 0, sympy.pi))
        moment = sympy.integrate(
            sympy.cos(angle) ** power * weight, (angle, 0, sympy.pi)
        )
        left.append(sympy.simplify(moment / total))
        right.append(
            {
                "right": sympy.Rational(3, d * (d + 2)),
                "squared": sympy.Rational(1, d**2),
                "one": sympy.Rational(1, d * (d + 2)),
            }[formula]
        )
    return np.array(left), np.array(right)


def _printed_quadratic(supply: Supply, d: int) -> Numbers:
    """Two keys, and the package's quadratic features."""
    letters = {"k": supply.real("k", d), "k'": supply.real("l", d)}
    return Numbers(letters | {r"\phi": quadratic})


@identity(
    title="Quadratic features square the overlap of two keys",
    statement=r"\phi(k)^\top \phi(k') = (k^\top k')^2",
    source="ours; the polynomial kernel",
    equations=("eq-quadratic-kernel",),
    printed={"eq-quadratic-kernel": AsPrinted(numbers=_printed_quadratic)},
    chapter=CHAPTER,
    mutants={
        "only the squares of the channels": {"products": False},
        "the overlap itself": {"power": 1},
        "the overlap cubed": {"power": 3},
    },
)
def quadratic_kernel(
    supply: Supply, d: int, *, products: bool = True, power: int = 2
) -> Sides:
    """The feature map of the package, on any two vectors."""
    k, other = supply.real("k", d), supply.real("l", d)
    left = quadratic(k) @ quadratic(other) if products else k**2 @ other**2
    return np.array([left]), np.array([(k @ other) ** power])


def _printed_positive(supply: Supply, d: int) -> Numbers:
    """Two keys, and the package's features that are positive everywhere."""
    letters = {"k": supply.real("k", d), "k'": supply.real("l", d)}
    return Numbers(letters | {r"\phi": elu_plus_one})


@identity(
    title="Features that are positive everywhere always overlap",
    kind="bound",
    statement=r"0 < \phi(k)^\top \phi(k') \quad\text{if } \phi > 0",
    source="ours; elementary",
    citations=("katharopoulos2020",),
    equations=("eq-positive-features",),
    printed={
        "eq-positive-features": AsPrinted(numbers=_printed_positive, worlds=("floats",))
    },
    chapter=CHAPTER,
    worlds=("rationals", "floats"),
    mutants={
        "features that may be negative": {"shift": 1},
        "no feature map": {"mapped": False},
    },
)
def positive_features(
    supply: Supply, N: int, d: int, *, shift: int = 0, mapped: bool = True
) -> Sides:
    """The overlap of two different keys, after elu + 1, is never zero or below."""
    k = supply.real("k", N, d)
    features = elu_plus_one(k) - shift if mapped else k
    overlaps = _off_diagonal(features @ features.T)
    smallest = np.min(features, initial=1) ** 2
    return 0 * overlaps + smallest, overlaps


def _printed_features(supply: Supply, N: int, d: int) -> Numbers:
    """Keys, and a feature map that is none of the odd or linear ones."""
    k, index = supply.real("k", N, d), range(1, N + 1)
    letters = {"k": k, "N": N, r"\phi": lambda x: x * x + x}
    return Numbers(letters, {"i": index, "j": index})


@identity(
    title="The mean overlap of features is the squared length of their mean",
    statement=(
        r"\frac{1}{N^2} \sum_{i,j} \phi(k_i)^\top \phi(k_j)"
        r" = \left\lVert \frac{1}{N} \sum_{i} \phi(k_i) \right\rVert^2"
    ),
    source="ours",
    equations=("eq-mean-feature",),
    printed={"eq-mean-feature": AsPrinted(numbers=_printed_features)},
    chapter=CHAPTER,
    mutants={
        "the mean of the squared lengths": {"lengths": True},
        "the sum instead of the mean": {"power": 1},
        "divided once too often": {"power": 3},
    },
)
def mean_feature(
    supply: Supply, N: int, d: int, *, lengths: bool = False, power: int = 2
) -> Sides:
    """Any features; so a shared direction is the same thing as mean crosstalk."""
    features = supply.real("f", N, d)
    part = _one_over(N, features)
    left = (features @ features.T).sum() * part**power
    mean = features.sum(axis=0) * part
    right = (features**2).sum() * part if lengths else mean @ mean
    return np.array([left]), np.array([right])


def _printed_two_of_many(supply: Supply, N: int, d_k: int, d_v: int) -> Numbers:
    """Pairs 1 and 2 among unit pairs."""
    drawn = _printed_unit(supply, N, d_k, d_v)
    return Numbers({**drawn.letters, "i": 1, "j": 2}, {"l": drawn.indices["l"]})


def _score_gap_free(*, values: int = 1, keys: int = 1, others: int = 1) -> Sides:
    """The same in dot products alone: g of keys, w of values."""
    import sympy

    g_j, g_l, w_ij, w_li, w_lj = sympy.symbols("g_j g_l w_ij w_li w_lj")
    right_value = 1 + g_j * w_ij + g_l * w_li
    other_value = w_ij + g_j + g_l * w_lj
    own = (1 - keys * g_j) * (1 - values * w_ij)
    return right_value - other_value, own + others * g_l * (w_li - w_lj)


@identity(
    title="By how much the right value outscores another stored one",
    statement=(
        r"v_i^\top S^\top k_i - v_j^\top S^\top k_i"
        r" = (1 - k_i^\top k_j)(1 - v_i^\top v_j)"
        r" + \sum_{l \ne i,j} (k_l^\top k_i)\, v_l^\top (v_i - v_j)"
    ),
    source="ours",
    equations=("eq-score-gap",),
    printed={
        "eq-score-gap": AsPrinted(
            numbers=_printed_two_of_many, worlds=("rationals", "floats")
        )
    },
    chapter=CHAPTER,
    mutants={
        "the values' overlap forgotten": {"values": 0},
        "the keys' overlap forgotten": {"keys": 0},
        "the other pairs cancel": {"others": 0},
    },
    worlds=("rationals", "floats"),
    at={"rationals": {"N": 4}},
    free=_score_gap_free,
)
def score_gap(
    supply: Supply,
    N: int,
    d_k: int,
    d_v: int,
    *,
    values: int = 1,
    keys: int = 1,
    others: int = 1,
) -> Sides:
    """Pairs 1 and 2 of N, all of length one."""
    k, v = supply.unit("k", N, d_k), supply.unit("v", N, d_v)
    answer = (k.T @ v).T @ k[0]
    own = (1 - keys * (k[0] @ k[1])) * (1 - values * (v[0] @ v[1]))
    rest = [(k[m] @ k[0]) * (v[m] @ (v[0] - v[1])) for m in range(2, N)]
    return np.array([(v[0] - v[1]) @ answer]), np.array([own + others * sum(rest)])


def _gaps(k: np.ndarray, v: np.ndarray) -> list[np.ndarray]:
    """Every gap between the scores of values 1 and 2, over images of pairs 2 and 3.

    Three pairs in two dimensions: four turns of the plane have the second moments of
    all flips and swaps.
    """
    turns = np.array([[1, 0], [0, 1]]), np.array([[0, -1], [1, 0]])
    images = [
        [sign * (turn @ x) for sign in (1, -1) for turn in turns]
        for x in (k[1], k[2], v[1], v[2])
    ]
    gaps = []
    for k_j, k_l, v_j, v_l in itertools.product(*images):
        S = np.outer(k[0], v[0]) + np.outer(k_j, v_j) + np.outer(k_l, v_l)
        gaps.append(np.array([(v[0] - v_j) @ (S.T @ k[0])]))
    return gaps


def _printed_spread(supply: Supply) -> Numbers:
    """The spread of the gap, whose mean is 1, in two dimensions."""
    gaps = _gaps(supply.unit("k", 3, 2), supply.unit("v", 3, 2))
    (spread,) = _mean([(gap - 1) ** 2 for gap in gaps])
    return Numbers({r"\sigma": sqrt(spread), "d_k": 2, "d_v": 2, "N": 3})


@identity(
    title="The spread of that gap, over random keys and values",
    statement=(r"\sigma^2 = \frac{1}{d_k} + \frac{1}{d_v} + \frac{2 N - 3}{d_k d_v}"),
    source="ours",
    equations=("eq-gap-variance",),
    printed={
        "eq-gap-variance": AsPrinted(
            numbers=_printed_spread, worlds=("rationals", "floats")
        )
    },
    chapter=CHAPTER,
    worlds=("rationals", "floats"),
    mutants={
        "the values' overlap forgotten": {"values": 0},
        "the values' overlap counted twice": {"values": 2},
        "each other pair counted once": {"times": 1},
        "the gap not squared": {"power": 1},
    },
)
def gap_variance(
    supply: Supply, *, values: int = 1, times: int = 2, power: int = 2
) -> Sides:
    """Three pairs in two dimensions, over all images of keys 2, 3 and values 2, 3."""
    gaps = _gaps(supply.unit("k", 3, 2), supply.unit("v", 3, 2))
    spread = _mean([gap**power for gap in gaps]) - 1
    half = _one_over(2, spread)
    formula = half + values * half + (times * 3 - 3) * half * half
    return spread, 0 * spread + formula
