"""Two orders: fade and then compare, or compare and then fade.

Pairs (k_t, v_t) are written into two memories with one alpha and beta for all tokens,

    decay first   S_t = F_t + beta k_t (v_t - F_t' k_t)',       F_t = alpha S_{t-1}
    read first    S_t = F_t + beta k_t (v_t - S_{t-1}' k_t)'

From one state the two differ by beta (1 - alpha) k_t (S_{t-1}' k_t)'. Decay first with
beta / alpha and alpha v in the place of beta and v is read first: the bridge. Keys have
length 1, and any two of them the same cosine.
"""

from typing import Any

import numpy as np

from ctlearn import plots
from ctlearn.explore.draws import at_one_cosine, normal
from ctlearn.explore.explorable import Explorable, choice, number, whole
from ctlearn.mixers import comba, gated_delta_rule

D_V = 4
_MOST_TOKENS = 10


def compute(
    *,
    given: str = "same",
    alpha: float = 0.6,
    beta: float = 1.0,
    cosine: float = 0.5,
    tokens: int = 6,
    seed: int = 1,
    pair: int = 1,
    read: int = _MOST_TOKENS,
) -> dict[str, Any]:
    """Every number of the figure at these settings.

    `given` is "same" where both orders get the same numbers, and "bridge" where decay
    first gets beta / alpha and alpha v. `read` of the tokens have been read (all, if it
    is larger), `pair` is the one whose key asks. Key t is made of a direction of its
    own, row t of the state, and one that all share, the last row. Returns, for
    T = tokens and at t = read:

    keys [T, T + 1], values [T, 4], first and second [T + 1, 4] (the states: decay
    first, read first), gap (first - second), first_answer and second_answer [4],
    gaps [T] (the length of the states' difference after each token), first_misses and
    second_misses [T] (the root mean square of S_t' k_t - v_t), rate and factor (what
    decay first is given for beta, and times v), first_kept and second_kept (what a
    write leaves of the old answer at its key).
    """
    read, pair = min(read, tokens), min(pair, tokens)
    k = at_one_cosine(tokens, cosine)
    v = normal(seed, 0, tokens, D_V)
    factor = alpha if given == "bridge" else 1.0
    rate = beta / factor

    def first_after(t: int) -> np.ndarray:
        gates = {"log_decay": np.full(t, np.log(alpha)), "beta": np.full(t, rate)}
        return gated_delta_rule.recurrent(k[:t], k[:t], factor * v[:t], **gates)[1]

    def second_after(t: int) -> np.ndarray:
        gates = {"log_decay": np.full(t, np.log(alpha)), "beta": np.full(t, beta)}
        where: Any = {"p": k[:t], "correction": 0.0}
        return comba.recurrent(k[:t], k[:t], v[:t], **gates, **where)[1]

    orders = (first_after, second_after)
    first, second = ([run(t) for t in range(tokens + 1)] for run in orders)
    after = np.array([first, second])[:, 1:]
    misses = np.sqrt(((np.einsum("otkv,tk->otv", after, k) - v) ** 2).mean(axis=2))
    return {
        "keys": k,
        "values": v,
        "first": first[read],
        "second": second[read],
        "gap": first[read] - second[read],
        "first_answer": first[read].T @ k[pair - 1],
        "second_answer": second[read].T @ k[pair - 1],
        "gaps": np.linalg.norm(after[0] - after[1], axis=(1, 2)),
        "first_misses": misses[0],
        "second_misses": misses[1],
        "rate": rate,
        "factor": factor,
        "first_kept": alpha * (1 - rate),
        "second_kept": alpha - beta,
    }


class TwoOrders(Explorable):
    """The explorable of the ninth chapter; its settings are `compute`'s."""

    title = "Fade first or compare first"

    given = choice(
        {"same": "the same β and v", "bridge": "β/α and αv: the bridge"},
        "Decay first is given",
    )
    alpha = number(0.6, 0.05, 1.0, 0.05, "decay $α$", role="decay")
    beta = number(1.0, 0.0, 2.0, 0.05, "strength $β$", role="rate")
    cosine = number(0.5, 0.0, 1.0, 0.05, "key cosine", role="key")
    tokens = whole(6, 1, _MOST_TOKENS, "tokens $T$", role="size")
    seed = whole(1, 1, 999, "draw", role="size")
    pair = whole(1, 1, _MOST_TOKENS, "ask with key", role="query", most="tokens")
    read = whole(_MOST_TOKENS, 0, _MOST_TOKENS, "token", end="tokens", verb="read")

    def figure(self) -> plots.Figure:
        """The two states, their difference, and how it grows."""
        x = self.numbers()
        shape: Any = {"columns": 4, "width_ratios": [1, 1, 1, 2.4]}
        fig, (first, second, gap, grown) = plots.figure(5.6, 2.6, **shape)
        limit = max(np.abs(x[name]).max() for name in ("first", "second")) or 1.0
        panels = {"first": first, "second": second, "gap": gap}
        titles = ["decay first", "read first", "difference"]
        for (name, ax), title in zip(panels.items(), titles, strict=True):
            role = "error" if name == "gap" else "state"
            plots.state_matrix(
                ax, x[name], role=role, limit=limit, title=title, xlabel="", ylabel=""
            )
        t = np.arange(1, self.tokens + 1)
        grown.plot(t, x["gaps"], "o-", color=plots.colour("error"))
        grown.set(xlabel="token", title="size of the difference", ylim=(0, None))
        grown.xaxis.get_major_locator().set_params(integer=True)
        return plots.show(
            fig,
            alt=(
                "Four panels. The first two are the states of decay first and of read "
                f"first after {self.tokens} tokens, as matrices of "
                f"{len(x['gap'])} rows and four columns, and the third is their "
                "difference. The fourth shows the size of the difference against the "
                "token: it ends at "
                f"{x['gaps'][-1]:.2f}."
            ),
            caption=(
                "The same numbers in two orders lead to two memories, unless nothing "
                "fades or the keys stand at right angles."
            ),
        )
