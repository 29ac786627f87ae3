"""Memory budget: what a pattern of layers holds, costs a token, and recalls exactly.

A layer keeps its pairs as they are, or the last w of them, or `rank` numbers of each
token for all its heads, or adds them up in one state a head, or in one for each level
of age. Bytes and operations are those of `ctlearn.cost`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ctlearn import cost, plots
from ctlearn.explore.explorable import Explorable, choice, whole

NAMES = {
    "softmax": "all softmax",
    "latent": "latent",
    "every_fourth": "1 in 4 full",
    "every_fourth_latent": "1 in 4 latent",
    "log_linear": "log-linear",
    "window": "window",
    "state": "state",
}
_CONTEXTS = np.rint(2 ** np.arange(8, 20.1, 0.5)).astype(int).tolist()
_TITLES = {
    "softmax": "all softmax",
    "latent": "all latent",
    "every_fourth": "every fourth full",
    "every_fourth_latent": "every fourth latent",
    "log_linear": "log-linear",
    "window": "window beside a state",
    "state": "state alone",
}

_APART = 2.2  # of two labels of the figure, whose axis is logarithmic


def compute(  # noqa: PLR0913 - as many settings as the figure has
    *,
    pattern: str = "every_fourth",
    context: int = 131072,
    window: int = 2048,
    heads: int = 16,
    d_k: int = 128,
    d_v: int = 128,
    rank: int = 576,
    layers: int = 24,
    dtype: str = "bfloat16",
) -> dict[str, Any]:
    """Every number of the figure at these settings.

    `rank` numbers a token are cached by latent attention, and `dtype` is that of all
    caches; states are float32. Returns, for 25 lengths of a context, half an octave
    apart, and seven patterns in the order of `NAMES`:

    contexts [25], totals [7, 25] (bytes), bytes and operations [7] (after `context`
    tokens, and of the last of them); and for the chosen pattern cache and state (its
    bytes of either), per_token (bytes divided by `context`), even (after how many
    tokens all softmax takes as much), pairs (how many of the last tokens some layer
    keeps as pairs of their own, exactly), keepers (how many layers keep so many), runs
    [n] (how many tokens share each state of log-linear attention, the newest first).
    """
    x = cost.Sizes(heads, d_k, d_v, window, rank, dtype)
    patterns = [cost.PATTERNS[name] for name in NAMES]

    def costs(T: int) -> list[cost.Cost]:
        return [cost.pattern_cost(one, layers, T, x) for one in patterns]

    here = costs(context)
    own = here[list(NAMES).index(pattern)]
    softmax = cost.pattern_cost(cost.PATTERNS["softmax"], layers, 1, x).cache
    kept = [
        max(_KEPT[memory](context, x) for memory in layer)
        for layer in cost.PATTERNS[pattern]
    ]
    in_turn = [kept[i % len(kept)] for i in range(layers)]
    # of a context of one token more than t, the digits of t are the levels in use
    digits = range((context - 1).bit_length())
    runs = [1] + [1 << i for i in digits if (context - 1) >> i & 1]
    return {
        "contexts": _CONTEXTS,
        "totals": np.transpose(
            [[one.cache + one.state for one in costs(T)] for T in _CONTEXTS]
        ),
        "bytes": [one.cache + one.state for one in here],
        "operations": [one.operations for one in here],
        "cache": own.cache,
        "state": own.state,
        "per_token": (own.cache + own.state) / context,
        "even": (own.cache + own.state) / softmax,
        "pairs": max(in_turn),
        "keepers": in_turn.count(max(in_turn)),
        "runs": runs if pattern == "log_linear" else [],
    }


# How many of the last T tokens each memory keeps as pairs of their own.
_KEPT: dict[Callable, Callable[[int, cost.Sizes], int]] = {
    cost.full: lambda T, x: T,
    cost.latent: lambda T, x: T,
    cost.windowed: lambda T, x: min(T, x.window),
    cost.log_linear: lambda T, x: 1,
    cost.fixed: lambda T, x: 0,
}


def size_text(size: float) -> str:
    """Bytes to three digits, in the largest decimal unit of which there is one."""
    units = {"GB": 1e9, "MB": 1e6, "kB": 1e3}
    name, unit = next((x for x in units.items() if size >= x[1]), ("B", 1.0))
    return f"{size / unit:.3g} {name}"


class MemoryBudget(Explorable):
    """The explorable of the fifteenth chapter; its settings are `compute`'s."""

    title = "What remembering costs"

    pattern = choice(_TITLES, "Layers", default="every_fourth")
    context = whole(131072, 256, 2**20, "context $T$", role="size", log=True)
    window = whole(
        2048, 16, 2**17, "window $w$", role="key", log=True,
        when={"pattern": "window"},
    )  # fmt: skip
    heads = whole(16, 1, 64, "heads", role="size", log=True)
    d_k = whole(128, 16, 512, "key size $d_k$", role="key", log=True)
    d_v = whole(128, 16, 512, "value size $d_v$", role="value", log=True)
    rank = whole(
        576, 16, 4096, "latent size $r$", role="key", log=True, step=0.25,
        when={"pattern": ["latent", "every_fourth_latent"]},
    )  # fmt: skip
    layers = whole(24, 4, 96, "layers", role="size")
    dtype = choice({"bfloat16": "2 bytes", "float32": "4 bytes"}, "Number in a cache")

    @classmethod
    def constants(cls) -> dict[str, Any]:
        """Which memories the layers of each pattern have, and its name in the chart."""
        patterns = {name: cost.PATTERNS[name] for name in NAMES}
        memories = {
            name: [[memory.__name__ for memory in layer] for layer in layers]
            for name, layers in patterns.items()
        }
        return {"PATTERNS": memories, "NAMES": NAMES}

    def figure(self) -> plots.Figure:
        """Bytes against the context, of all patterns, with the chosen one in front."""
        x = self.numbers()
        fig, ax = plots.figure(5.6, 3.4)
        # the highest first, so that each label can keep below the one before
        lines = zip(NAMES.items(), x["totals"], strict=True)
        label_at = np.inf
        for (name, text), totals in sorted(lines, key=lambda line: -line[1][-1]):
            own = name == self.pattern
            role, width = ("state", 2.6) if own else ("size", 1.0)
            ax.plot(x["contexts"], totals, color=plots.colour(role), ls="-", lw=width)
            label_at = min(totals[-1], label_at / _APART)
            plots.label(ax, x["contexts"][-1], label_at, text, role)
        ax.axvline(self.context, color=plots.INK, lw=0.8, ls=":")
        ax.set(xscale="log", yscale="log", xlabel="tokens of context", ylabel="bytes")
        ax.minorticks_off()
        chosen = list(NAMES).index(self.pattern)
        sizes = [size_text(one) for one in x["bytes"]]
        pairs = zip(NAMES.values(), sizes, strict=True)
        each = ", ".join(f"{name} {size}" for name, size in pairs)
        return plots.show(
            fig,
            alt=(
                "Bytes of memory against the length of the context, both axes "
                "logarithmic, for seven patterns of layers. Caches rise in proportion "
                "to the context, states are level, and a pattern of both is level "
                f"first and rises later. At {self.context} tokens: {each}."
            ),
            caption=(
                f"With {_TITLES[self.pattern]}, {self.layers} layers hold "
                f"{sizes[chosen]} after {self.context} tokens, and {x['keepers']} of "
                f"them keep {x['pairs']} pairs as they are."
            ),
        )
