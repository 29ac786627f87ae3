"""Chunk by chunk: the delta rule's parallel form on eight tokens, a step at a time.

A chunk of C tokens, with keys K, values V, queries Q, rate beta and the state S before
it, takes five steps, each a matrix product or a triangular system:

    L = beta tril(K K', -1)             what token i sees of what token j writes
    (I + L)^{-1}                        by substitution, row by row
    u = (I + L)^{-1} beta (V - K S)     what each token writes
    o = Q S + tril(Q K') u              what each token answers
    S <- S + K' u                       what the next chunk needs

The recurrence writes u_t = beta (v_t - S_{t-1}' k_t) token by token, and answers o_t.
"""

from typing import Any

import numpy as np

from ctlearn import memory, plots
from ctlearn.explore.draws import directions, normal
from ctlearn.explore.explorable import Explorable, number, whole
from ctlearn.mixers import delta_rule
from ctlearn.tasks.triangular_inverse import by_substitution

TOKENS, CHUNK, D_K, D_V = 8, 4, 3, 2
STAGES = 5
STEPS = STAGES * TOKENS // CHUNK
_KEYS, _VALUES, _QUERIES, _SHARED = range(4)


def compute(
    *,
    beta: float = 1.0,
    similarity: float = 0.3,
    seed: int = 1,
    step: int = STEPS,
) -> dict[str, Any]:
    """Every number of the figure at these settings.

    `step` says how many of the ten steps are taken, and changes no number but the
    first two. Returns, with a row for each of the eight tokens:

    chunk and stage (of the last step: 1 or 2, 1 to 5; both 0 before the first), keys
    and queries [8, 3] (of length one), values [8, 2], L and inverse [8, 4], asked
    [8, 2] (beta times the error at the chunk's start), u and o [8, 2], states [3, 3, 2]
    (before the first chunk and after each), writes and answers [8, 2] and memories
    [3, 3, 2] (what the recurrence has for u, o and states), gaps [10] (the largest
    difference between a step's numbers and the recurrence's).
    """
    k, q = (
        directions(seed, own, _SHARED, TOKENS, D_K, similarity)
        for own in (_KEYS, _QUERIES)
    )
    v = normal(seed, _VALUES, TOKENS, D_V)
    writes, answers, memories = _one_by_one(q, k, v, beta)
    S = memories[0]
    found: dict[str, list[np.ndarray]] = {
        name: [] for name in ("L", "inverse", "asked", "u", "o", "states")
    }
    found["states"].append(S)
    gaps: list[float] = []
    for chunk, start in enumerate(range(0, TOKENS, CHUNK), 1):
        now = slice(start, start + CHUNK)
        L = np.tril(beta * k[now] @ k[now].T, -1)
        inverse = by_substitution(L)
        asked = beta * (v[now] - k[now] @ S)
        u = inverse @ asked
        o = q[now] @ S + np.tril(q[now] @ k[now].T) @ u
        S = S + k[now].T @ u
        parts = (L, inverse, asked, u, o, S)
        for name, part in zip(found, parts, strict=True):
            found[name].append(part)
        pairs = [
            (L, _seen(k[now], beta)),
            (inverse, _unit_writes(k[now], beta)),
            (u, writes[now]),
            (o, answers[now]),
            (S, memories[chunk]),
        ]
        gaps += [float(np.abs(ours - theirs).max()) for ours, theirs in pairs]
    states = np.array(found.pop("states"))
    return {
        "chunk": -(-step // STAGES),
        "stage": (step - 1) % STAGES + 1 if step else 0,
        "keys": k,
        "values": v,
        "queries": q,
        **{name: np.concatenate(parts) for name, parts in found.items()},
        "states": states,
        "writes": writes,
        "answers": answers,
        "memories": memories,
        "gaps": gaps,
    }


def _one_by_one(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, beta: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The recurrence's writes and answers [8, 2], and its state at the boundaries."""
    S = np.zeros((D_K, D_V))
    writes, answers, states = [], [], [S]
    for q_t, k_t, v_t in zip(q, k, v, strict=True):
        writes.append(beta * (v_t - S.T @ k_t))
        o, S = delta_rule.step(q_t, k_t, v_t, beta=beta, S=S)
        answers.append(o)
        states.append(S)
    return np.array(writes), np.array(answers), np.array(states[::CHUNK])


def _seen(k: np.ndarray, beta: float) -> np.ndarray:
    """What each token erases of a unit write by each one before it: [C, C]."""
    # one value channel for each token keeps their writes apart
    _, S = memory.recurrent(k, k, np.eye(len(k)))
    return np.tril(beta * k @ S, -1)


def _unit_writes(k: np.ndarray, beta: float) -> np.ndarray:
    """What the recurrence writes for unit values in place of beta v: [C, C]."""
    S, unit = np.zeros((k.shape[1], len(k))), np.eye(len(k))
    writes = []
    for k_t, one in zip(k, unit, strict=True):
        writes.append(one - beta * S.T @ k_t)
        _, S = memory.step(k_t, k_t, one, e=beta * k_t, S=S)
    return np.array(writes)


class ChunkByChunk(Explorable):
    """The explorable of the eighth chapter; its settings are `compute`'s."""

    title = "Eight tokens in two chunks"

    beta = number(1.0, 0.0, 2.0, 0.05, "strength $β$", role="rate")
    similarity = number(0.3, 0.0, 1.0, 0.05, "key similarity", role="key")
    seed = whole(1, 1, 999, "draw", role="size")
    step = whole(STEPS, 0, STEPS, "step", verb="take")

    def figure(self) -> plots.Figure:
        """The four matrices of the first chunk."""
        x = self.numbers()
        shape: Any = {"columns": 4, "width_ratios": [4, 4, 2, 2]}
        fig, axes = plots.figure(5.6, 2.2, **shape)
        parts = {"L": "key", "inverse": "key", "u": "error", "o": "output"}
        for ax, (name, role) in zip(axes, parts.items(), strict=True):
            title = {"inverse": "inverse"}.get(name, f"${name}$")
            part = x[name][:CHUNK]
            plots.state_matrix(
                ax, part, role=role, title=title, xlabel="", ylabel="tokens"
            )
        return plots.show(
            fig,
            alt=(
                "Four matrices of the first chunk, a row for each of its four tokens: "
                "L, which is empty on and above its diagonal, the inverse of I + L "
                "with ones on the diagonal, what the tokens write and what they "
                f"answer. The recurrence has the same numbers to {max(x['gaps']):.0e}."
            ),
            caption=(
                "A chunk is solved at once: a triangular system says what each token "
                "writes, and two products what each answers."
            ),
        )
