"""Chunk cost: what a chunk size costs, by the two-term model.

Every chunk pays an overhead of a seconds and every multiplication b seconds, so with
d_k = d_v = d a sequence of T tokens in chunks of C takes

    a T / C + b T (2 d^2 + 2 C d)

which is least at C* = sqrt(a / (2 b d)). The recurrent plan pays the overhead for every
token and the parallel plan once. Measured values of a and 1/b can be put in.
"""

from typing import Any

import numpy as np

from ctlearn import cost, plots
from ctlearn.explore.explorable import Explorable, number, whole

_MICRO = 1e-6
_BILLION = 1e9


def compute(
    *,
    overhead: float = 16.0,
    speed: float = 8.0,
    d: int = 64,
    tokens: int = 4096,
    chunk_size: int = 8,
) -> dict[str, Any]:
    """Every number of the figure at these settings.

    `overhead` is a in microseconds, `speed` is 1/b in thousand million multiplications
    a second; a chunk_size above `tokens` is `tokens`. Returns times in seconds, for n
    chunk sizes from 1 to T, four to an octave:

    sizes [n], overheads, products and totals [n] (the two terms and their sum), size,
    time, time_overhead and time_products (the chosen size), balance (C*, whatever T),
    best (C* held between 1 and T), least (the time at best), recurrent and parallel.
    """
    a, b = overhead * _MICRO, 1 / (speed * _BILLION)
    octaves = np.arange(0, 4 * np.log2(tokens) + 1e-9) / 4
    sizes = np.append(2 ** octaves[2**octaves < tokens * (1 - 1e-9)], tokens)
    size = min(chunk_size, tokens)
    balance = cost.best_chunk_size(d, per_chunk=a, per_operation=b)
    best = float(np.clip(balance, 1, tokens))

    def seconds(size: Any, per_chunk: float = a, per_operation: float = b) -> Any:
        rates = {"per_chunk": per_chunk, "per_operation": per_operation}
        return cost.chunkwise_seconds(tokens, d, size, **rates)

    return {
        "sizes": sizes,
        "overheads": seconds(sizes, per_operation=0),
        "products": seconds(sizes, per_chunk=0),
        "totals": seconds(sizes),
        "size": size,
        "time": seconds(size),
        "time_overhead": seconds(size, per_operation=0),
        "time_products": seconds(size, per_chunk=0),
        "balance": balance,
        "best": best,
        "least": seconds(best),
        "recurrent": tokens * a + b * cost.recurrent_operations(tokens, d, d),
        "parallel": a + b * cost.parallel_operations(tokens, d, d),
    }


class ChunkCost(Explorable):
    """The explorable of the third chapter; its settings are `compute`'s."""

    title = "What a chunk costs"

    overhead = number(
        16.0, 0.125, 1024.0, 0.25, "overhead $a$ in µs", role="rate", log=True
    )
    speed = number(
        8.0, 0.125, 8192.0, 0.25, "speed $1/b$ in 10⁹/s", role="rate", log=True
    )
    d = whole(64, 8, 512, "head size $d$", role="size", log=True)
    tokens = whole(4096, 64, 2**20, "tokens $T$", role="size", log=True)
    chunk_size = whole(
        8, 1, 2**20, "chunk size $C$", role="key", log=True, step=0.5, most="tokens"
    )

    def figure(self) -> plots.Figure:
        """Time against chunk size with its two terms, and the other two plans."""
        x = self.numbers()
        fig, ax = plots.figure(5.6, 3.3)
        sizes = x["sizes"]
        ax.plot(sizes, x["totals"], color=plots.colour("key"), ls="-")
        ax.plot(sizes, x["overheads"], color=plots.INK, ls="--", lw=1)
        ax.plot(sizes, x["products"], color=plots.INK, ls=":", lw=1)
        ax.plot(x["best"], x["least"], "D", color=plots.colour("key"))
        for plan, role in (("recurrent", "state"), ("parallel", "query")):
            line = {"color": plots.colour(role), "ls": plots.LINES["output"]}
            ax.plot([1, sizes[-1]], [x[plan]] * 2, **line)
            plots.label(ax, sizes[-1], x[plan], plan, role)
        plots.label(ax, x["best"], x["least"] / 1.5, "chunkwise", "key", va="top")
        low = min(x["least"], x["recurrent"], x["parallel"])
        high = max(x["totals"].max(), x["recurrent"], x["parallel"])
        ax.set(xscale="log", yscale="log", ylim=(low / 4, high * 2))
        ax.set(xlabel="chunk size", ylabel="seconds")
        ax.minorticks_off()
        return plots.show(
            fig,
            alt=(
                f"Seconds against chunk size for {self.tokens} tokens, both axes "
                "logarithmic. The chunkwise plan falls with the overhead, is least at "
                f"a chunk size of {x['best']:.0f}, and rises with the products. Two "
                "level lines show the recurrent and the parallel plan."
            ),
            caption=(
                "The overhead falls with the chunk size and the work inside the chunks "
                "rises; the least time lies where the two balance."
            ),
        )
