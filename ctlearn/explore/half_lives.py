"""Half-lives: how long each channel of a state remembers, and what one gate undoes.

    S_t = Diag(alpha_t) S_{t-1} + k_t v_t'

Channel c keeps alpha_c = 2^(-1/h_c) of itself at every token, so that half is left h_c
tokens later, and all that it ever holds adds up to 1 / (1 - alpha_c) tokens. At one
token the gate closes to `kept` times that, for all channels. With ones for keys and
unit vectors for values the state itself is what survives: S[c, i] is what channel c
still holds of token i, and a row of the decay mask.
"""

from typing import Any

import numpy as np

from ctlearn import plots
from ctlearn.explore.explorable import Explorable, choice, number, whole
from ctlearn.memory import decay_between
from ctlearn.mixers import gated_linear_attention
from ctlearn.scalars import log

CHANNELS = 4
_MOST_TOKENS = 24


def compute(
    *,
    rates: str = "channel",
    half_life: float = 8.0,
    spread: float = 2.0,
    gate: int = 9,
    kept: float = 1.0,
    tokens: int = 20,
    read: int = _MOST_TOKENS,
) -> dict[str, Any]:
    """Every number of the figure at these settings.

    Under "channel" there are four channels with half-lives around `half_life`, each
    2^spread times the one before; under "scalar" there is one. `gate` is the token at
    which all of them keep only `kept` of what they would, and `read` of the tokens have
    been read (all, if it is larger). Returns, for n channels and T = tokens:

    half_lives, alphas, lengths [n] (the last is 1 / (1 - alpha)), curves [n, T] (what
    is left at each age where the gate stays open), average [T] (their mean), masks
    [n, T, T] (row i: what is left of each token once token i is read), survives [n, T]
    (of each token now), worth [n] (its sum: how many tokens the channel holds).
    """
    read = min(read, tokens)
    count = CHANNELS if rates == "channel" else 1
    half_lives = half_life * 2 ** (spread * (np.arange(count) - (count - 1) / 2))
    alphas = 2 ** (-1 / half_lives)
    log_decay = np.tile(np.log(alphas), (tokens, 1))
    log_decay[gate - 1 : gate] += log(kept)
    k, v = np.ones((tokens, count)), np.eye(tokens)
    gates = {"log_decay": log_decay[:read]}
    _, S = gated_linear_attention.recurrent(k[:read], k[:read], v[:read], **gates)
    curves = alphas[:, None] ** np.arange(tokens)
    return {
        "half_lives": half_lives,
        "alphas": alphas,
        "lengths": 1 / (1 - alphas),
        "curves": curves,
        "average": curves.mean(axis=0),
        "masks": np.moveaxis(decay_between(log_decay, k)[1:, 1:], 2, 0),
        "survives": S,
        "worth": S.sum(axis=1),
    }


class HalfLives(Explorable):
    """The explorable of the fifth chapter; its settings are `compute`'s."""

    title = "What survives"

    rates = choice(
        {"channel": "one for each channel", "scalar": "one for all"}, "Decay"
    )
    half_life = number(
        8.0, 0.5, 64.0, 0.25, "half-life, tokens", role="decay", log=True
    )
    spread = number(
        2.0, 0.0, 2.5, 0.25, "octaves apart", role="decay", when={"rates": "channel"}
    )
    gate = whole(9, 1, _MOST_TOKENS, "gate at token", role="size", most="tokens")
    kept = number(1.0, 0.0, 1.0, 0.05, "kept there", role="decay")
    tokens = whole(20, 4, _MOST_TOKENS, "tokens $T$", role="size")
    read = whole(_MOST_TOKENS, 0, _MOST_TOKENS, "token", end="tokens", verb="read")

    def figure(self) -> plots.Figure:
        """What is left at each age, and the decay mask of one channel."""
        x = self.numbers()
        fig, (ages, mask) = plots.figure(5.6, 2.8, columns=2, width_ratios=[1.5, 1])
        last, shown = self.tokens - 1, (len(x["curves"]) - 1) // 2
        for curve, half_life in zip(x["curves"], x["half_lives"], strict=True):
            ages.plot(curve, color=plots.colour("decay"), ls="-")
            at, level = (half_life, 0.5) if half_life < last else (last, curve[-1])
            name = f"{half_life:.3g}"
            plots.label(ages, at, level, name, "decay", va="bottom")
        if self.rates == "channel":
            ages.plot(x["average"], color=plots.INK, ls="--", lw=1)
            plots.label(ages, last, x["average"][-1], "mean")
        ages.axhline(0.5, color=plots.INK, ls=":", lw=0.8)
        ages.set(xlabel="age in tokens", ylim=(0, 1.05))
        ages.set(title="what is left, by half-life")
        plots.state_matrix(
            mask, x["masks"][shown], role="decay", limit=1,
            title=f"mask for {x['half_lives'][shown]:.3g}",
            xlabel="written at", ylabel="read at",
        )  # fmt: skip
        lives = ", ".join(f"{h:.3g}" for h in x["half_lives"])
        return plots.show(
            fig,
            alt=(
                "Two panels. Left, what is left of a write against its age in tokens, "
                f"for half-lives of {lives}: each curve falls from one and is at one "
                "half at its half-life. Right, the decay mask for "
                f"{x['half_lives'][shown]:.3g}, a lower triangle that fades away from "
                "its diagonal."
            ),
            caption=(
                "A channel forgets at its own pace; the mask says how much of each "
                "token is left when a later one asks."
            ),
        )
