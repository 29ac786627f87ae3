"""S4D (diagonal state space): every entry of the state is a wave that fades.

    S_t = exp(Delta a) * S_{t-1} + (exp(Delta a) - 1) / a * (k v_t'),   a = A + i omega
    o_t = Re(S_t' (exp(i psi) * q)),   A < 0,   Delta > 0

Each entry solves a linear system exactly, for an input that holds still during a step
of length Delta. Nothing depends on the token, so for each value channel j the answers
are a convolution with one kernel, which is how the parallel plan computes them:

    o_t[j] = sum_{l=0}^{t} K_l[j] v_{t-l}[j]
    K_l = Re sum_c exp(i psi_c) q_c k_c exp(l Delta a_c) (exp(Delta a_c) - 1) / a_c

with a and Delta those of channel j. In the source's letters q exp(i psi), k and v are
C, B and u; it gives each channel a C of its own, as d_v = 1 does here, and reads twice
the real part, for the conjugate wave. A layer adds a multiple of v_t and convolves by
FFT in O(T log T). S4D-Real, its start without rotation, is omega = psi = 0 and A = -1,
..., -d_k; S4D-Lin is A = -1/2 and omega = 0, pi, 2 pi, ... `mamba` lets q, k and Delta
depend on the token, turns nothing and takes Euler's rule. [gu2022s4d, from memory]
"""

import numpy as np

from ctlearn.mechanism import Cell, Inputs, Limit, Mechanism, Place, chunk_forms
from ctlearn.scalars import cos, expm1, sin
from ctlearn.shapes import checked_step
from ctlearn.waves import Waves, held, start, wave

Array = np.ndarray


@checked_step(q=("d_k",), k=("d_k",), A=("d_k", "d_v"), delta=("d_v",))
def step(
    q: Array,
    k: Array,
    v: Array,
    *,
    A: Array,
    omega: Array,
    phase: Array,
    delta: Array,
    S: Waves,
) -> tuple[Array, Waves]:
    """Turn and fade, add the input that was held, read: 8 d_k d_v multiplications."""
    S = wave(delta * A, delta * omega).times(S)
    new = held(A, omega, delta).each(lambda x: x * np.outer(k, v))
    S = Waves(S.re + new.re, S.im + new.im)
    return _read(q, phase, S), S


def _chunk(
    q: Array,
    k: Array,
    v: Array,
    *,
    A: Array,
    omega: Array,
    phase: Array,
    delta: Array,
    S: Waves,
) -> tuple[Array, Waves]:
    """C tokens as one convolution, O(C (C + d_k) d_v)."""
    fresh = held(A, omega, delta).each(lambda x: x * k[:, None])
    time = np.arange(len(v) + 1).astype(v.dtype)
    fades = wave(*(np.multiply.outer(time, delta * x) for x in (A, omega)))
    left = fades.each(lambda x: x[:-1]).times(fresh)
    K = _read(q, phase, left)
    lag = np.subtract.outer(np.arange(len(v)), np.arange(len(v)))
    o = (np.where((lag >= 0)[:, :, None], K[lag], 0) * v).sum(axis=1)
    o = o + _read(q, phase, fades.each(lambda x: x[1:]).times(S))
    old = fades.each(lambda x: x[-1]).times(S)
    new = left.each(lambda x: (x[::-1] * v[:, None]).sum(axis=0))
    return o, Waves(old.re + new.re, old.im + new.im)


def _read(q: Array, phase: Array, S: Waves) -> Array:
    """The real part of exp(i psi) q against the entries' rows [..., d_k, d_v]."""
    rows = (q * cos(phase))[:, None] * S.re - (q * sin(phase))[:, None] * S.im
    return rows.sum(axis=-2)


recurrent, parallel, chunkwise = chunk_forms(step, _chunk, start)


def _real_and_alike(x: Inputs) -> Inputs:
    """Nothing turns, and all value channels fade alike."""
    still = {name: 0 * x[name] for name in ("omega", "phase")}
    A, delta = 0 * x["A"] + x["A"][:, :1], 0 * x["delta"] + x["delta"][0]
    return x | still | {"A": A, "delta": delta}


def _hold_over_euler(x: Inputs) -> Array:
    """What the held input writes at each key channel, for each that Delta k writes."""
    exponent = x["A"][:, 0] * x["delta"][0]
    return expm1(exponent) / exponent


def _at_every_token(x: Array, v: Array) -> Array:
    return np.repeat(x[None], len(v), axis=0)


MECHANISM = Mechanism(
    module=__name__,
    title="S4D (diagonal state space)",
    citations=("gu2022s4d",),
    inputs={
        **{"q": "real [d_k]", "k": "real [d_k]", "v": "real"},
        **{"A": "log_decay [d_k, d_v]", "omega": "real", "phase": "real"},
        "delta": "positive [d_v]",
    },
    place=Place(
        cell=Cell(
            "linear map", "dot product", "one step", "every token", "rate by entry"
        ),
        function_class="linear map",
        objective="dot product",
        optimiser="gradient descent, a constant step size for each entry",
        schedule="every token",
        control="decay and rotation, constant, for each entry",
        state="2 * d_k * d_v",
    ),
    exempt=dict.fromkeys(
        ("test_plans_agree_exactly", "test_plans_agree_on_symbols"),
        "waves are not rational, and many at once take SymPy minutes; no entry of the "
        "state sees another, and one is proved on symbols in this mechanism's own test",
    ),
    limits=(
        Limit(
            target="mamba",
            when="nothing turns, A and Delta are the same for all value channels, and "
            "that one's keys make up for its rule",
            setting=r"\omega = \psi = 0, \; A_{cj} = A_c, \; \Delta_j = \Delta, \;"
            r" k_{tc}^{\text{there}} = \frac{e^{\Delta A_c} - 1}{\Delta A_c} k_c",
            worlds=("symbols", "floats"),
            here=_real_and_alike,
            there=lambda x: {
                "q": _at_every_token(x["q"], x["v"]),
                "k": _at_every_token(x["k"] * _hold_over_euler(x), x["v"]),
                "v": x["v"],
                "A": x["A"],
                "delta": _at_every_token(x["delta"], x["v"]),
            },
        ),
    ),
)
