"""The roofline: how fast seven plans can be at best, and what each of them waits for.

A plan that moves m bytes and does f operations a token takes max(m / w, f / p) seconds
at least, on a machine that moves w bytes a second and does p operations. What a plan
moves and multiplies is that of `ctlearn.tasks.traffic`; the machine is the reader's.
"""

from typing import Any

import numpy as np

from ctlearn import plots
from ctlearn.explore.explorable import Explorable, choice, number, whole
from ctlearn.tasks import traffic

NAMES = {
    "recurrent": "token by token",
    "naive_chunkwise": "chunks, all stored",
    "chunkwise": "chunks, one stored",
    "linear_attention": "adding, in chunks",
    "softmax_attention": "softmax attention",
    "decode_state": "decoding, a state",
    "decode_cache": "decoding, a cache",
}
# Of each plan's mark, which has a letter.
ROLES = ("error", "decay", "key", "value", "query", "state", "output")
_TERA = 1e12


def compute(
    *,
    plan: str = "chunkwise",
    bandwidth: float = 4.3,
    peak: float = 790.0,
    single: float = 67.0,
    d: int = 128,
    chunk_size: int = 64,
    columns: int = 32,
    tokens: int = 8192,
) -> dict[str, Any]:
    """Every number of the figure at these settings.

    `bandwidth` is in TB a second; `peak` and `single` are in TFLOP a second, on
    matrices and on single numbers, and single numbers are no faster than matrices. A
    head has d by d channels, a chunk no more than `tokens`, a program no more than d
    columns. `plan` is the one that is spoken of. Returns for seven plans, in the order
    of `NAMES`, a token and head:

    moved, operations and intensity [7] (bytes, operations, their quotient), memory and
    processor [7] (nanoseconds that the bytes take at least, and the operations), floors
    [7] (the longer of the two), roofs and speeds [7] (TFLOP a second that its products
    can have, and that it can reach); and corner and low_corner (operations a byte at
    which the slope meets the two roofs).
    """
    single = min(single, peak)
    sizes = traffic.Sizes(d, d, min(chunk_size, tokens), min(columns, d), tokens)
    machine = traffic.Machine(*(_TERA * x for x in (bandwidth, peak, single)))
    found = traffic.floors(sizes, plans=NAMES, machine=machine)
    moved, operations, floors = np.transpose(list(found.values()))
    roofs = np.array([single if x in traffic.VECTORS else peak for x in NAMES])
    return {
        "moved": moved,
        "operations": operations,
        "intensity": operations / moved,
        "memory": 1e-3 * moved / bandwidth,
        "processor": 1e-3 * operations / roofs,
        "floors": 1e-3 * floors,
        "roofs": roofs,
        "speeds": operations / floors,
        "corner": peak / bandwidth,
        "low_corner": single / bandwidth,
    }


class Roofline(Explorable):
    """The explorable of the eighteenth chapter; its settings are `compute`'s."""

    title = "The roofs of a machine"

    plan = choice(NAMES, "Plan", default="chunkwise", menu=True)
    bandwidth = number(
        4.3, 0.05, 20.0, 0.25, "memory, TB/s", role="state", log=True
    )  # fmt: skip
    peak = number(
        790.0, 0.05, 5000.0, 0.25, "matrices, TFLOP/s", role="query", log=True
    )  # fmt: skip
    single = number(
        67.0, 0.05, 5000.0, 0.25, "single numbers, TFLOP/s", role="size", log=True,
        most="peak",
    )  # fmt: skip
    d = whole(128, 16, 512, "head size $d$", role="size", log=True)
    chunk_size = whole(64, 16, 256, "chunk size $C$", role="size", log=True)
    columns = whole(
        32, 8, 512, "columns a program", role="size", log=True, most="d"
    )  # fmt: skip
    tokens = whole(8192, 256, 2**17, "tokens $T$", role="size", log=True)

    @classmethod
    def constants(cls) -> dict[str, Any]:
        """What each plan reads or writes, which are of vectors, and how they look."""
        launches = {name: traffic.PLANS[name].values() for name in NAMES}
        tensors = {name: " ".join(x).split() for name, x in launches.items()}
        names = {"NAMES": NAMES, "ROLES": ROLES, "VECTORS": traffic.VECTORS}
        return {"TENSORS": tensors, **names}

    def figure(self) -> plots.Figure:
        """Speed against intensity: the slope, two roofs, and the plans under them."""
        x = self.numbers()
        fig, ax = plots.figure(5.6, 3.4)
        intensity = np.geomspace(0.25, 2**16, 300)
        slope = self.bandwidth * intensity
        low = min(self.single, self.peak)
        for roof, role, style in ((low, "size", "--"), (self.peak, "query", "-")):
            line = {"color": plots.colour(role), "ls": style}
            ax.plot(intensity, np.minimum(roof, slope), **line)
        letters = dict(zip("abcdefg", NAMES.values(), strict=True))
        places = zip(letters, ROLES, x["intensity"], x["speeds"], strict=True)
        order = np.argsort(np.argsort(x["intensity"]))
        for i, (letter, role, across, up) in enumerate(places):
            ax.plot(across, up, "o", color=plots.colour(role), ms=5)
            # those that are close to each other, on either side of the line
            shift = (-6, 8) if order[i] % 2 else (6, -9)
            at = {"xytext": shift, "textcoords": "offset points", "ha": "center"}
            ax.annotate(
                letter, (across, up), color=plots.colour(role), va="center", **at
            )
        ax.set(xscale="log", yscale="log", xlabel="operations a byte")
        ax.set(ylabel="TFLOP a second", ylim=(x["speeds"].min() / 3, self.peak * 3))
        ax.minorticks_off()
        legend = ", ".join(f"{letter} {name}" for letter, name in letters.items())
        floors = zip(NAMES.values(), x["floors"], strict=True)
        each = ", ".join(f"{name} {floor:.3g} ns" for name, floor in floors)
        return plots.show(
            fig,
            alt=(
                "Speed in TFLOP a second against operations a byte, both axes "
                "logarithmic: a slope that ends under two level roofs, and seven plans "
                f"on them. The least time of a token and head: {each}."
            ),
            caption=(
                f"The slope meets the high roof at {x['corner']:.3g} operations a "
                "byte, and the low one, of single numbers, at "
                f"{x['low_corner']:.3g}: {legend}."
            ),
        )
