"""Fit the stream: six solvers of one regression read the same tokens.

    v_t = W_t'k_t + noise

The map W_t drifts, each token replacing a share of its variance, and is drawn anew at
one token. A solver's state S_t is its guess of W_t, and answers a question q with
S_t'q. Most have one number to set, a memory m or a strength beta:

    linear     linear attention, S <- S + k v'
    decay      the same, with S <- (1 - 1/m) S before it
    delta      one gradient step of size beta on the newest pair
    longhorn   the exact minimum of its error, beta times, and of the distance moved
    rls        least squares over the past, weighed by (1 - 1/m)^age, and so its ridge
    mesa       the same, with a ridge that does not fade

The sums of the first two have no natural size: each is read at the one scale that
brings it nearest to the maps, over the whole stream.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ctlearn import plots
from ctlearn.explore.draws import normal, uniform, unit
from ctlearn.explore.explorable import Explorable, choice, number, whole
from ctlearn.mixers import (
    delta_rule,
    gated_linear_attention,
    linear_attention,
    longhorn,
    mesa_net,
    recursive_least_squares,
)

TOKENS, D_K = 40, 4
RIDGE = 0.5
SOLVERS = {
    "linear": "linear attention",
    "decay": "decay",
    "delta": "delta",
    "longhorn": "Longhorn",
    "rls": "RLS",
    "mesa": "Mesa",
}
_MEMORIES = 2.0 ** np.arange(1, 9)
_STRENGTHS = 2.0 ** np.arange(-4, 5)
_KNOBS = {"linear": np.empty(0), "delta": _STRENGTHS, "longhorn": _STRENGTHS}
_SUMS = ("linear", "decay")  # solvers whose state has no size of its own
_KEYS, _MAPS, _DRIFT, _NOISE, _LENGTHS, _QUESTION = range(6)


def compute(
    *,
    solver: str = "rls",
    memory: float = 16.0,
    beta: float = 1.0,
    switch: int = 21,
    drift: float = 0.0,
    noise: float = 0.2,
    lengths: float = 0.0,
    seed: int = 1,
) -> dict[str, Any]:
    """Every number of the figure at these settings.

    `memory` is m, of "decay", "rls" and "mesa", and `beta` that of "delta" and
    "longhorn". The map is drawn anew at token `switch`, if that is not the first, and
    lengths of keys lie within `lengths` octaves of 1. Returns, for 40 tokens, and six
    solvers in the order above:

    keys and maps [40, 4], told [40] (the values), truth [40] and answers [6, 40] (to
    one question, after each token), errors [6, 40] (the mean square over the entries of
    S_t - W_t: that of an answer, if a question may be any direction), means [6] (of
    these), scales [2] (linear and decay), knobs [n] and sweep [n] (other memories or
    strengths for `solver`, and its mean error there; n = 0 for linear attention),
    best (the knob with the least; None without one).
    """
    k, maps = _stream(seed, switch, drift, lengths)
    v = (k * maps).sum(axis=1)[:, None] + noise * normal(seed, _NOISE, TOKENS, 1)
    now = {"delta": beta, "longhorn": beta}
    found = {name: _states(name, k, v, now.get(name, memory), maps) for name in SOLVERS}
    q = unit(normal(seed, _QUESTION, 1, D_K))[0]
    states = np.array([S for S, _ in found.values()])
    errors = ((states - maps) ** 2).mean(axis=2)
    knobs = _KNOBS.get(solver, _MEMORIES)
    sweep = np.array(
        [((_states(solver, k, v, x, maps)[0] - maps) ** 2).mean() for x in knobs]
    )
    return {
        "keys": k,
        "maps": maps,
        "told": v[:, 0],
        "truth": maps @ q,
        "answers": states @ q,
        "errors": errors,
        "means": errors.mean(axis=1),
        "scales": [scale for _, scale in found.values()][:2],
        "knobs": knobs,
        "sweep": sweep,
        "best": float(knobs[sweep.argmin()]) if len(knobs) else None,
    }


def _stream(
    seed: int, switch: int, drift: float, lengths: float
) -> tuple[np.ndarray, np.ndarray]:
    """Keys [40, 4] and the map of each token [40, 4], of entries with variance 1."""
    octaves = lengths * (2 * uniform(seed, _LENGTHS, np.arange(TOKENS), 0) - 1)
    k = 2 ** octaves[:, None] * unit(normal(seed, _KEYS, TOKENS, D_K))
    first, second = normal(seed, _MAPS, 2, D_K)
    fresh = normal(seed, _DRIFT, TOKENS, D_K)
    maps = [first]
    for t in range(1, TOKENS):
        drifted = np.sqrt(1 - drift) * maps[-1] + np.sqrt(drift) * fresh[t]
        maps.append(second if t + 1 == switch else drifted)
    return k, np.array(maps)


def _states(
    solver: str, k: np.ndarray, v: np.ndarray, knob: float, maps: np.ndarray
) -> tuple[np.ndarray, float]:
    """The state after each token [40, 4], and by what its sums were multiplied."""
    kept = 1 - 1 / knob if solver in ("decay", "rls", "mesa") else 1.0
    if solver == "rls":
        return _least_squares(k, v, kept), 1.0
    n = TOKENS * D_K
    log_decay = np.zeros(n)
    log_decay[::D_K] = np.log(kept)
    rates, ridges = np.full(n, knob), np.full(D_K, RIDGE)
    forms: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
        "linear": (linear_attention.chunkwise, {}),
        "decay": (gated_linear_attention.chunkwise, {"log_decay": log_decay}),
        "delta": (delta_rule.chunkwise, {"beta": rates}),
        "longhorn": (longhorn.chunkwise, {"beta": rates[:, None]}),
        "mesa": (
            mesa_net.chunkwise,
            {"log_decay": log_decay, "beta": np.ones(n), "ridges": ridges},
        ),
    }
    form, inputs = forms[solver]
    # after each token three more that write nothing and ask: four answers are the state
    K, V = np.zeros((n, D_K)), np.zeros((n, 1))
    K[::D_K], V[::D_K] = k, v
    o, _ = form(np.tile(np.eye(D_K), (TOKENS, 1)), K, V, **inputs)
    S = o.reshape(TOKENS, D_K)
    scale = float((S * maps).sum() / (S * S).sum()) if solver in _SUMS else 1.0
    return scale * S, scale


def _least_squares(k: np.ndarray, v: np.ndarray, kept: float) -> np.ndarray:
    """The states of recursive least squares, which forgets at every token it reads."""
    S = recursive_least_squares.State(np.zeros((D_K, 1)), np.eye(D_K) / RIDGE)
    states, given = [], {"log_forget": np.log(kept), "ridge": RIDGE}
    for k_t, v_t in zip(k, v, strict=True):
        _, S = recursive_least_squares.step(k_t, k_t, v_t, **given, S=S)
        states.append(S.S[:, 0])
    return np.array(states)


class FitTheStream(Explorable):
    """The explorable of the eleventh chapter; its settings are `compute`'s."""

    title = "Six solvers, one stream"

    solver = choice(SOLVERS, "Solver", default="rls")
    memory = number(
        16.0, 2.0, 256.0, 0.25, "memory $m$", role="decay", log=True,
        when={"solver": ["decay", "rls", "mesa"]},
    )  # fmt: skip
    beta = number(
        1.0, 0.0625, 16.0, 0.25, "strength $β$", role="rate", log=True,
        when={"solver": ["delta", "longhorn"]},
    )  # fmt: skip
    switch = whole(21, 1, TOKENS, "new map at token", role="size")
    drift = number(0.0, 0.0, 0.3, 0.01, "drift a token", role="decay")
    noise = number(0.2, 0.0, 1.0, 0.05, "noise", role="error")
    lengths = number(0.0, 0.0, 1.0, 0.1, "key lengths vary", role="key")
    seed = whole(1, 1, 999, "draw", role="size")

    def figure(self) -> plots.Figure:
        """The answer to one question, and the error of every solver, token by token."""
        x = self.numbers()
        fig, (answer, error) = plots.figure(5.6, 4.6, rows=2, sharex=True)
        t, names = np.arange(1, TOKENS + 1), list(SOLVERS.values())
        name, chosen = SOLVERS[self.solver], list(SOLVERS).index(self.solver)
        answer.plot(t, x["truth"], color=plots.colour("value"), ls="-", lw=2.6)
        answer.plot(t, x["answers"][chosen], color=plots.colour("output"), ls="--")
        answer.set(title=f"one question: the truth, and {name} (dashed)")
        error.plot(
            t, np.delete(x["errors"], chosen, 0).T, color=plots.INK, ls="-", lw=1
        )
        error.plot(t, x["errors"][chosen], color=plots.colour("error"), ls="-", lw=2.6)
        plots.label(error, t[-1], x["errors"][chosen][-1], name, "error")
        error.set(xlabel="token", title="error of all six", ylim=(0, 2))
        pairs = zip(names, x["means"], strict=True)
        means = ", ".join(f"{one} {mean:.2f}" for one, mean in pairs)
        return plots.show(
            fig,
            alt=(
                "Two panels over 40 tokens. Above, the right answer to one question, "
                f"which jumps at token {self.switch}, and that of {name}, which comes "
                "after it. Below, the error of six solvers, which rises there; its "
                f"means are: {means}."
            ),
            caption=(
                "All six fit the same stream; they differ in how fast they come near, "
                "and in what they still believe after the map has changed."
            ),
        )
