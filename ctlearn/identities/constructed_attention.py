"""A self-attention layer that takes a gradient step: its tokens, its query, GD++.

Keys and values are the x and y of the source.
"""

from typing import Any

import numpy as np

from ctlearn.identities.engine import Sides, identity
from ctlearn.identities.slopes import slope
from ctlearn.mixers import constructed_attention
from ctlearn.mixers.constructed_attention import Layer, constructed, predict
from ctlearn.printed import AsPrinted, Numbers
from ctlearn.supplies import Supply

CHAPTER = "10_a_gradient_step_in_the_tokens"


def _draw(supply: Supply, N: int, d_k: int, d_v: int) -> tuple[Any, ...]:
    """A context x [N, d_k], y [N, d_v], a start W_0 and a step size eta."""
    x, y = supply.real("x", N, d_k), supply.real("y", N, d_v)
    return x, y, supply.real("W", d_k, d_v), supply.rate("eta", 1)[0]


def _halved(x: np.ndarray, y: np.ndarray, W: np.ndarray) -> Any:
    """The halved mean squared error of W."""
    return ((x @ W - y) ** 2).sum() / (2 * len(x))


def _slope(x: np.ndarray, y: np.ndarray, W_0: np.ndarray) -> np.ndarray:
    """The slope at W_0 of the halved mean squared error."""
    return slope(lambda W: _halved(x, y, W), W_0)


def _printed_step(supply: Supply, N: int, d_k: int, d_v: int) -> Numbers:
    """Tokens after the layer, and the step against the slope of the loss."""
    k, v, W_0, eta = _draw(supply, N, d_k, d_v)
    e = np.concatenate([k, v], axis=1)
    letters = {
        **{"k": k, "v": v, "W_0": W_0, r"\eta": eta, "N": N},
        "E": -eta * _slope(k, v, W_0),
        r"e^\prime": constructed(W_0, eta, N).run(e, e),
    }
    return Numbers(letters, {"j": range(1, N + 1)})


@identity(
    title="One layer of linear self-attention is one step of gradient descent",
    statement=r"e_j + P \sum_{i=1}^{N} (W_V e_i) (W_K e_i)^\top W_Q e_j ="
    r" \begin{pmatrix} x_j \\ y_j - \Delta W^\top x_j \end{pmatrix}, \quad"
    r" \Delta W = -\frac{\eta}{2 N} \nabla_W"
    r" \sum_{i=1}^{N} \lVert W^\top x_i - y_i \rVert^2 \Big|_{W = W_0}",
    source="vonoswald2023, proposition 1",
    citations=("vonoswald2023",),
    equations=("eq-token-step",),
    printed={
        "eq-token-step": AsPrinted(numbers=_printed_step, at={"symbols": {"N": 2}})
    },
    chapter=CHAPTER,
    mutants={
        "the sum is not divided by N": {"mean": False},
        "the loss is not halved": {"half": 2},
        "the values have the other sign": {"sign": -1},
        "the start is left out of the values": {"start": 0},
    },
    at={"symbols": {"N": 2}},
)
def tokens(
    supply: Supply,
    N: int,
    d_k: int,
    d_v: int,
    *,
    mean: bool = True,
    half: int = 1,
    sign: int = 1,
    start: int = 1,
) -> Sides:
    """The layer on the context itself, against the gradient of the loss."""
    x, y, W_0, eta = _draw(supply, N, d_k, d_v)
    layer = constructed(start * W_0, eta, N if mean else 1)
    layer = layer._replace(W_V=sign * layer.W_V)
    e = np.concatenate([x, y], axis=1)
    dW = -eta * half * _slope(x, y, W_0)
    return layer.run(e, e), np.concatenate([x, y - x @ dW], axis=1)


def _printed_query(supply: Supply, N: int, d_k: int, d_v: int) -> Numbers:
    """A query's token before and after the layer."""
    k, v, W_0, eta = _draw(supply, N, d_k, d_v)
    q = supply.real("q", d_k)
    e = np.concatenate([q, -q @ W_0])
    context = np.concatenate([k, v], axis=1)
    after = constructed(W_0, eta, N).run(e[None], context)[0]
    letters = {"q": q, "W_0": W_0, "E": -eta * _slope(k, v, W_0)}
    return Numbers(letters | {"e": e, r"e^\prime": after})


@identity(
    title="The layer's answer to a query is the stepped model's",
    statement=r"-y_{N+1} = (W_0 + \Delta W)^\top x_{N+1} = o_N",
    source="vonoswald2023, section 2 and appendix A.1",
    citations=("vonoswald2023",),
    equations=("eq-query-token",),
    printed={
        "eq-query-token": AsPrinted(numbers=_printed_query, at={"symbols": {"N": 2}})
    },
    chapter=CHAPTER,
    mutants={
        "the errors are not weighed by eta / N": {"rate": False},
        "the start is not read": {"start": 0},
        "the last pair is missing": {"last": 1},
    },
    at={"symbols": {"N": 2}},
)
def query(
    supply: Supply,
    N: int,
    d_k: int,
    d_v: int,
    *,
    rate: bool = True,
    start: int = 1,
    last: int = 0,
) -> Sides:
    """The layer on token matrices against the mechanism, asked after the last pair."""
    x, y, W_0, eta = _draw(supply, N, d_k, d_v)
    q = supply.real("q", N, d_k)
    beta = np.full(N, eta / N if rate else eta)
    beta[N - last :] *= 0
    S = start * W_0
    o, _ = constructed_attention.recurrent(q, x, y, W_0=W_0, beta=beta, S=S)
    return predict(q[-1:], x, y, W_0=W_0, eta=eta)[0], o[-1]


@identity(
    title="A query that carries its prediction is moved the wrong way",
    kind="counterexample",
    statement=r"e_{N+1} = (x, W_0^\top x) \;\Rightarrow\;"
    r" y_{N+1} = W_0^\top x - \Delta W^\top x \ne (W_0 + \Delta W)^\top x",
    source="ours; vonoswald2023 puts -W_0'x there",
    citations=("vonoswald2023",),
    chapter=CHAPTER,
    worlds=("rationals",),
    mutants={
        "it carries minus its prediction, and is read with a minus": {"sign": -1},
        "nothing is learned": {"eta": 0},
    },
)
def wrong_way(supply: Supply, *, sign: int = 1, eta: int = 1) -> Sides:
    """One pair (1, 3), start 1, and the query 1: the right answer is 3."""
    one = supply.real("x", 1, 1) ** 0
    pair = np.concatenate([one, 3 * one], axis=1)
    asking = np.concatenate([one, sign * one], axis=1)
    asked = constructed(one, one[0, 0] * eta, 1).run(asking, pair)
    return sign * asked[:, 1:], one + eta * (3 - one)


def _printed_moved(supply: Supply, N: int, d_k: int, d_v: int) -> Numbers:
    """Any pairs, any map and any step."""
    k, v, W, _ = _draw(supply, N, d_k, d_v)
    letters = {"k": k, "v": v, "W": W, "E": supply.real("E", d_k, d_v), "N": N}
    return Numbers(letters)


@identity(
    title="To move the values back is to move the model forth",
    statement=r"\sum_{j=1}^{N} \lVert W^\top k_j - (v_j - E^\top k_j) \rVert^2 ="
    r" \sum_{j=1}^{N} \lVert (W + E)^\top k_j - v_j \rVert^2",
    source="vonoswald2023, equation 4 and section 3, for layers in a row",
    citations=("vonoswald2023",),
    equations=("eq-moved-values",),
    printed={"eq-moved-values": AsPrinted(numbers=_printed_moved)},
    chapter=CHAPTER,
    mutants={
        "the model moves back, too": {"sign": -1},
        "the second step is taken at the start": {"after": 0},
        "the second layer sees the first one's values": {"moved": False},
    },
    at={"symbols": {"N": 2, "d_v": 1}},
)
def moved_values(
    supply: Supply,
    N: int,
    d_k: int,
    d_v: int,
    *,
    sign: int = 1,
    after: int = 1,
    moved: bool = True,
) -> dict[str, Sides]:
    """The losses; and two layers in a row, against two steps of gradient descent."""
    k, v, W_0, eta = _draw(supply, N, d_k, d_v)
    W, E = supply.real("U", d_k, d_v), supply.real("E", d_k, d_v)
    first = -eta * _slope(k, v, W_0)
    second = -eta * _slope(k, v, W_0 + after * first)
    layer = constructed(W_0, eta, N)
    e = np.concatenate([k, v], axis=1)
    once = layer.run(e, e)
    twice = layer.run(once, once if moved else e)
    return {
        "loss": (_halved(k, v - k @ E, W), _halved(k, v, W + sign * E)),
        "two layers": (twice[:, d_k:], v - k @ (first + second)),
    }


def _printed_plus_plus(supply: Supply, N: int, d_k: int, d_v: int) -> Numbers:
    """Tokens before and after a layer of GD++."""
    k, v, W_0, eta = _draw(supply, N, d_k, d_v)
    gamma = supply.rate("gamma", 1)[0]
    e = np.concatenate([k, v], axis=1)
    letters = {"k": k, "v": v, r"\gamma": gamma, "H": k.T @ k}
    letters |= {"E": -eta * _slope(k, v, W_0)}
    after = constructed(W_0, eta, N, gamma).run(e, e)
    return Numbers(letters | {r"e^\prime": after}, {"j": range(1, N + 1)})


@identity(
    title="GD++ presses the inputs together while it steps",
    statement=r"x_j \leftarrow (I - \gamma X^\top X) x_j, \qquad"
    r" y_j \leftarrow y_j - \Delta W^\top x_j",
    source="vonoswald2023, appendix A.10",
    citations=("vonoswald2023",),
    equations=("eq-plus-plus",),
    printed={
        "eq-plus-plus": AsPrinted(numbers=_printed_plus_plus, at={"symbols": {"N": 2}})
    },
    chapter=CHAPTER,
    mutants={
        "the inputs are spread instead": {"sign": -1},
        "the labels follow the new inputs": {"after": True},
        "the sum is divided by N": {"mean": True},
    },
    at={"symbols": {"N": 2}},
)
def plus_plus(
    supply: Supply,
    N: int,
    d_k: int,
    d_v: int,
    *,
    sign: int = 1,
    after: bool = False,
    mean: bool = False,
) -> Sides:
    """Both blocks of the token at once: the labels see the inputs before they move."""
    x, y, W_0, eta = _draw(supply, N, d_k, d_v)
    gamma = supply.rate("gamma", 1)[0]
    e = np.concatenate([x, y], axis=1)
    moved = x - sign * gamma * x @ (x.T @ x) / (N if mean else 1)
    dW = -eta * _slope(x, y, W_0)
    labels = y - (moved if after else x) @ dW
    right = np.concatenate([moved, labels], axis=1)
    return constructed(W_0, eta, N, gamma).run(e, e), right


@identity(
    title="Only the products of the matrices count",
    statement=r"(P, W_V, W_K, W_Q) \sim"
    r" (c P, W_V / c, W_K / c, c W_Q) \quad (c \ne 0)",
    source="vonoswald2023, section 2",
    citations=("vonoswald2023",),
    chapter=CHAPTER,
    mutants={
        "the projection alone is scaled": {"values": 0},
        "the queries alone are scaled": {"keys": 0},
    },
    at={"symbols": {"N": 2}},
)
def rescaled(
    supply: Supply, N: int, d_k: int, d_v: int, *, values: int = 1, keys: int = 1
) -> Sides:
    """The constructed layer, and one whose matrices differ and whose map does not."""
    x, y, W_0, eta = _draw(supply, N, d_k, d_v)
    c = 1 + supply.positive("c", 1)[0]
    e = np.concatenate([x, y], axis=1)
    one = constructed(W_0, eta, N)
    other = Layer(one.W_K / c**keys, c * one.W_Q, one.W_V / c**values, c * one.P)
    return one.run(e, e), other.run(e, e)
