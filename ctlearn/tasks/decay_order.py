"""Order of decay: what changes if the memory forgets at another place in the update.

Three updates of one state S, with the same alpha, beta and unit key k:

    decay first   (I - beta kk') Diag(alpha) S + beta k v'     the gated delta rule, KDA
    read first    (Diag(alpha) - beta kk') S + beta k v'       Comba with p = k
    decay last    Diag(alpha) (I - beta kk') S + beta k v'     erase, forget, write

With one alpha for all channels decay first and decay last are the same, and read first
erases beta (1 - alpha) k (S'k)' more. With a rate for each channel all three differ.
"""

import numpy as np

from ctlearn.mechanism import Inputs
from ctlearn.mixers import comba, gated_delta_rule, kimi_delta_attention, rwkv7
from ctlearn.scalars import exp


def draw(seed: int, T: int, d: int, *, least: float, per_channel: bool) -> Inputs:
    """Inputs of the gated delta rule [T, d], or of KDA; alpha uniform in (least, 1).

    Queries and values are standard normal, keys of length one, beta uniform in (0, 1).
    """
    rng = np.random.default_rng(seed)
    q, k, v = rng.standard_normal((3, T, d))
    k /= np.linalg.norm(k, axis=1, keepdims=True)
    alpha = rng.uniform(least, 1, (T, d) if per_channel else T)
    return {
        **{"q": q, "k": k, "v": v},
        **{"log_decay": np.log(alpha), "beta": rng.uniform(0, 1, T)},
    }


def decay_first(inputs: Inputs) -> np.ndarray:
    """Outputs [T, d_v] of the gated delta rule, or of KDA for a rate a channel."""
    per_channel = inputs["log_decay"].ndim == 2
    rule = kimi_delta_attention if per_channel else gated_delta_rule
    return rule.recurrent(**inputs)[0]


def read_first(inputs: Inputs) -> np.ndarray:
    """Outputs [T, d_v] if the error is that of the state before it fades; one rate."""
    return comba.recurrent(**inputs, p=inputs["k"], correction=0.0)[0]


def decay_last(inputs: Inputs) -> np.ndarray:
    """Outputs [T, d_v] if the state fades once it is erased; a rate for each channel.

    RWKV-7 is this update if it gives up alpha beta of what it reads at k.
    """
    beta, k = inputs["beta"][:, None], inputs["k"]
    gates = {name: inputs[name] for name in ("q", "v", "log_decay")}
    a = exp(inputs["log_decay"]) * beta
    return rwkv7.recurrent(**gates, k=beta * k, kappa=k, a=a)[0]
