"""Mini-batch: one stream in the plane, learned in batches of any size.

    v_t = W_t'k_t + noise,   k_t of length one, in the plane;   v_t a number
    S_t = S_start - eta sum of the gradients of the batch's tokens up to t, at S_start

A state S_t is a point of the keys' plane. Every gradient of a batch is taken where the
batch started, so no token of a batch knows what the others have taught. Batches of one
token are the delta rule, and one batch of all tokens is linear attention, eta times the
sum of k_t v_t'. [sun2024ttt, the plain form of TTT-Linear]
"""

from typing import Any

import numpy as np

from ctlearn import plots
from ctlearn.explore.draws import normal, uniform
from ctlearn.explore.explorable import Explorable, number, whole
from ctlearn.mixers import ttt_linear

TOKENS, D_K = 12, 2
_FIRST = 50.0  # degrees: where the map points at the first token
_RATES = 2.0 ** np.arange(-4, 2)
_BATCHES = range(1, TOKENS + 1)
_KEYS, _NOISE = range(2)


def compute(
    *,
    batch: int = 4,
    rate: float = 0.5,
    noise: float = 0.0,
    drift: float = 0.0,
    seed: int = 1,
    read: int = TOKENS,
) -> dict[str, Any]:
    """Every number of the figure at these settings.

    There are twelve tokens, of which `read` have been read, in batches of `batch`;
    `rate` is eta, and the map turns by `drift` degrees at every token. An error is the
    mean square of the two entries of S_t - W_t, which is 1 where S_t = 0. Returns these
    numbers:

    keys and maps [12, 2], told [12] (the values), path [13, 2] (the state before the
    first token and after each), state and start [2] (the state now, and at the start of
    the batch of the last token read), errors, delta and linear [12] (after each token:
    in these batches, in batches of one, and in one batch), by_batch and least [12] (for
    each size of a batch the mean error at this rate, and at the best of six), rates and
    by_rate [6] (those six, and the mean error at each in these batches), best (which of
    them is best in these batches).
    """
    angles = 2 * np.pi * uniform(seed, _KEYS, np.arange(TOKENS), 0)
    k = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    turned = np.radians(_FIRST + drift * np.arange(TOKENS))
    maps = np.sqrt(2) * np.stack([np.cos(turned), np.sin(turned)], axis=1)
    v = (k * maps).sum(axis=1)[:, None] + noise * normal(seed, _NOISE, TOKENS, 1)

    def errors(batch: int, rate: float) -> np.ndarray:
        return ((_path(k, v, batch, rate)[1:] - maps) ** 2).mean(axis=1)

    here = [errors(b, rate) for b in _BATCHES]
    tried = np.array([[errors(b, x).mean() for x in _RATES] for b in _BATCHES])
    path = _path(k, v, batch, rate)
    return {
        "keys": k,
        "maps": maps,
        "told": v[:, 0],
        "path": path,
        "state": path[read],
        "start": path[(read - 1) // batch * batch if read else 0],
        "errors": here[batch - 1],
        "delta": here[0],
        "linear": here[-1],
        "by_batch": [float(x.mean()) for x in here],
        "least": tried.min(axis=1),
        "rates": _RATES,
        "by_rate": tried[batch - 1],
        "best": float(_RATES[tried[batch - 1].argmin()]),
    }


def _path(k: np.ndarray, v: np.ndarray, batch: int, rate: float) -> np.ndarray:
    """The state before the first token and after each: [13, 2]."""
    # after each token one more that teaches nothing, so that both entries are asked for
    n = TOKENS * D_K
    K, V = np.zeros((n, D_K)), np.zeros((n, 1))
    K[::D_K], V[::D_K] = k, v
    q, size = np.tile(np.eye(D_K), (TOKENS, 1)), batch * D_K
    o, _ = ttt_linear.chunkwise(
        q, K, V, beta=np.full(n, rate), inner_batch=size, chunk_size=size
    )
    return np.concatenate([np.zeros((1, D_K)), o.reshape(TOKENS, D_K)])


class MiniBatch(Explorable):
    """The explorable of the twelfth chapter; its settings are `compute`'s."""

    title = "From the delta rule to linear attention"

    batch = whole(4, 1, TOKENS, "batch size $b$", role="size")
    rate = number(0.5, 0.0625, 2.0, 0.25, "step size $η$", role="rate", log=True)
    noise = number(0.0, 0.0, 1.0, 0.05, "noise", role="error")
    drift = number(0.0, 0.0, 15.0, 1.0, "turn in ° a token", role="decay")
    seed = whole(1, 1, 999, "draw", role="size")
    read = whole(TOKENS, 0, TOKENS, "token", verb="read")

    def figure(self) -> plots.Figure:
        """The states' way through the plane, and the mean error by batch size."""
        x = self.numbers()
        fig, (plane, sizes) = plots.figure(5.6, 2.9, columns=2)
        plane.plot(*x["path"].T, "o-", color=plots.colour("state"), ms=3, lw=1.2)
        starts = x["path"][:: self.batch]
        plane.plot(*starts.T, "o", color=plots.colour("state"), ms=7)
        plane.plot(*x["maps"].T, color=plots.colour("value"), ls="-", lw=1)
        plane.plot(*x["maps"][-1], "D", color=plots.colour("value"))
        reach = max(1.8, 1.1 * float(np.abs(x["path"]).max()))
        plane.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
        plane.set(xticks=[0], yticks=[0], title="the state's way")
        sizes.plot(_BATCHES, x["by_batch"], color=plots.colour("error"), ls="-")
        sizes.plot(_BATCHES, x["least"], color=plots.colour("rate"), ls="--")
        plots.label(sizes, TOKENS, x["least"][-1], "best rate", "rate")
        sizes.plot(self.batch, x["by_batch"][self.batch - 1], "o", color=plots.INK)
        sizes.set(ylim=(0, 2), xticks=[1, 4, 8, 12], xlabel="batch size")
        sizes.set(title="mean error")
        return plots.show(
            fig,
            alt=(
                "Two panels. Left, the way of the state through the plane in "
                f"{TOKENS} tokens, in batches of {self.batch}, from the origin towards "
                "the map. Right, the mean error against the batch size: at this rate "
                f"it is {x['by_batch'][0]:.2f} in batches of one and "
                f"{x['by_batch'][-1]:.2f} in one batch of all; at the best rate for "
                f"each it is {x['least'][0]:.2f} and {x['least'][-1]:.2f}."
            ),
            caption=(
                "All steps of a batch start from one point. The larger the batch, the "
                "less its tokens know of each other, and the smaller a step must be."
            ),
        )
