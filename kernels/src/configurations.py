"""Every kernel with the arguments that it is launched with, for the static report.

The tensors are torch's "meta" tensors, which have a dtype and strides but no memory: of
eight sequences of 8192 tokens, with 16 heads of 128 channels, in bfloat16.
"""

from typing import Any

from ctlearn.kernels.attention_backward import keys_kernel, queries_kernel
from ctlearn.kernels.attention_forward import attention_kernel
from ctlearn.kernels.channel_gradients import channel_gradients_kernel
from ctlearn.kernels.channel_scores import channel_scores_kernel
from ctlearn.kernels.delta_rule import outputs_kernel, states_kernel, writes_kernel
from ctlearn.kernels.gradients import gradients_kernel
from ctlearn.kernels.inverse import inverse_kernel
from ctlearn.kernels.launch import launch
from ctlearn.kernels.memory import state_view, view
from ctlearn.kernels.pairs import pairs_kernel
from ctlearn.kernels.recurrent import recurrent_kernel
from ctlearn.kernels.required import Tensor, torch
from ctlearn.kernels.reverse import reverse_kernel
from ctlearn.kernels.scan import scan_kernel
from ctlearn.kernels.ttt_linear_local import ttt_linear_local_kernel
from ctlearn.kernels.ttt_linear_reverse import ttt_linear_reverse_kernel
from ctlearn.kernels.ttt_linear_scan import ttt_linear_scan_kernel

B, T, H, D, C = 8, 8192, 16, 128, 64


def meta(*shape: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    """A tensor without memory."""
    return torch.empty(shape, dtype=dtype, device="meta")


def sources(target: str) -> dict[str, tuple[Any, dict]]:
    """Every kernel by name, with its arguments by name, as it is launched on a target.

    What follows a comma in a name says what is other than in the gated delta rule.
    """
    wide = torch.float32
    row, square = view(meta(B, T, H, D)), meta(B * H * T // C, C, C)
    state = view(meta(B, H, D, D, dtype=wide), state=True)
    states = state_view(meta(B * H * T // C, D, D))
    rate, gate = view(meta(B, T, H)), view(meta(B, T, H, dtype=wide))
    gates, L = view(meta(B, T, H, D, dtype=wide)), meta(*square.shape, dtype=wide)
    share = view(meta(2 * B, T, H, dtype=wide))

    scalar = {"tokens": (row, row, row, None, gate, rate), "G": 1}
    vector = {"tokens": (row, row, row, None, gates, rate), "G": D}
    plain = {"tokens": (row, row, row, None, None, None), "G": 0}
    forgets = {"tokens": (row, row, row, None, gate, None), "G": 1}
    gated = {"tokens": (row, row, row, None, gates, None), "G": D}
    early = {"tokens": (row, row, row, row, gate, rate), "G": 1, "LATE": 1}

    forward = {"S": state, "A": square, "P": None, "o": row, "last": state}
    forward |= {"R": None, "before": None}
    again = forward | {"o": None, "last": None, "R": row, "before": states}
    back = {"A": square, "P": None, "do": row, "dlast": state, "dX": row}
    back |= {"after": states, "dS": state}
    chunk = {"R": row, "do": row, "dX": row, "before": states, "after": states}
    chunk |= {"dq": row, "dk": row, "dz": row, "de": None, "dg": share, "dbeta": share}
    chunk |= {"B_H": B * H, "ERASE": True}
    unerased = chunk | {"dz": None, "dg": None, "dbeta": None, "ERASE": False}
    products = {"z": row, "beta": rate, "R": row, "do": row, "dX": row, "dP": square}
    products |= {"dM": square, "dz": row, "dbeta": share}
    queries = {"x": row, "k": row, "log_decay": gates, "beta": None, "y": row, "R": row}
    queries |= {"dW": square, "before": states, "after": states, "dx": row, "dk": row}
    queries |= {"dg": gates, "dbeta": None, "B_H": B * H, "LEVELS": 6}
    # what is read early has one step more than what is not
    erased = {"R": None, "after": None, "beta": rate, "dbeta": share, "LATE": 1}
    scores = {"x": row, "y": row, "log_decay": gates}
    step = {"S": state, "o": row, "last": state, "ERASE": True}
    seen = {"q": row, "k": row, "v": row, "o": row, "lost": row, "lse": gate}
    seen |= {"do": row, "dlse": gate, "delta": gate, "dq": row, "dk": row, "dv": row}
    seen |= {"t": T, "first": 0, "window": None, "GROUP": 1}
    local = seen | {"window": 1024}
    rung = {"q": row, "k": row, "v": row, "beta": rate, "A": square, "W": row, "U": row}
    rung |= {"R": row, "S": state, "before": states, "last": state, "o": row}

    found = learner() | {
        "inverse": (inverse_kernel, scalar | {"L": None, "A": square}),
        "inverse, by channel": (inverse_kernel, vector | {"L": L, "A": square}),
        "pairs": (pairs_kernel, scores | {"W": square}),
        "pairs, erased late": (pairs_kernel, scores | {"W": L, "LATE": 1}),
        "scan": (scan_kernel, scalar | forward),
        "scan, own e read first": (scan_kernel, early | forward),
        "scan, no erase": (scan_kernel, forgets | forward | {"A": None}),
        "scan, no erase or decay": (scan_kernel, plain | forward | {"A": None}),
        "scan, for gradients": (scan_kernel, scalar | again),
        "scan by channel": (scan_kernel, vector | forward | {"P": square}),
        "scan by channel, no erase": (
            scan_kernel,
            gated | forward | {"A": None, "P": square},
        ),
        "scan by channel, for gradients": (scan_kernel, vector | again),
        "reverse": (reverse_kernel, scalar | back),
        "reverse, no erase or decay": (reverse_kernel, plain | back | {"A": None}),
        "reverse by channel": (reverse_kernel, vector | back | {"P": square}),
        "gradients": (gradients_kernel, scalar | chunk),
        "gradients, no erase or decay": (gradients_kernel, plain | unerased),
        "channel scores": (channel_scores_kernel, products),
        "channel gradients": (channel_gradients_kernel, queries),
        "channel gradients, erased late": (channel_gradients_kernel, queries | erased),
        "recurrent": (recurrent_kernel, scalar | step),
        "attention": (attention_kernel, seen),
        "attention, window": (attention_kernel, local),
        "attention queries": (queries_kernel, seen),
        "attention queries, window": (queries_kernel, local),
        "attention keys": (keys_kernel, seen),
        "attention keys, window": (keys_kernel, local),
        "writes": (writes_kernel, rung),
        "states": (states_kernel, rung),
        "outputs": (outputs_kernel, rung),
    }
    sizes = {"T": T, "H": H, "d_k": D, "d_v": D, "LATE": 0}

    def whole(name: str, arguments: dict) -> dict:
        choice = launched(name, target)
        tiles = {"K": choice.K, "V": choice.V, "C": choice.C or C, "N": choice.N}
        return sizes | tiles | arguments

    return {name: (kernel, whole(name, x)) for name, (kernel, x) in found.items()}


def learner() -> dict[str, tuple[Any, dict]]:
    """TTT-Linear's kernels as a released layer launches them: its heads have 64."""
    wide, d, b = torch.float32, D // 2, 16
    row, rate = view(meta(B, T, H, d)), view(meta(B, T, H))
    own, rates = view(meta(B, T, H, d, dtype=wide)), view(meta(B, T, H, dtype=wide))
    W = view(meta(B, H, d, d, dtype=wide), state=True)
    bias = view(meta(B, 1, H, d, dtype=wide))
    norm, n = view(meta(B, 2, H, d, dtype=wide)), B * H * T // b
    before = state_view(meta(n, d, d, dtype=wide))
    biases, norms = (state_view(meta(n, rows, d, dtype=wide)) for rows in (1, 2))
    given = {"tokens": (row, row, row, rate), "norm": norm}
    given |= {"reader_rate": meta(b, dtype=wide)}
    given |= {"d_k": d, "d_v": d, "K": d, "V": d, "b": b, "C": b}
    kept = {"before": before, "before_bias": biases}
    forward = given | {"W": W, "bias": bias, "before": None, "before_bias": None}
    forward |= {"o": row, "last": W, "last_bias": bias}
    found = given | {"z": own, "dz": own, "du": own}
    local = found | kept | {"do": row, "dq": row, "dk": own, "dnorm": norms}
    back = found | {"before": before, "dlast": W, "dlast_bias": bias, "dk_own": own}
    back |= {"dk": row, "dv": row, "dbeta": rates, "dnorm": norm, "dW": W}
    return {
        "ttt_linear_scan": (ttt_linear_scan_kernel, forward),
        "ttt_linear_scan, for gradients": (
            ttt_linear_scan_kernel,
            forward | kept | {"o": None, "last": None, "last_bias": None},
        ),
        "ttt_linear_local": (
            ttt_linear_local_kernel,
            local | {"dr": meta(n, b, dtype=wide)},
        ),
        "ttt_linear_reverse": (
            ttt_linear_reverse_kernel,
            back | {"dbias": bias, "dr": meta(B, H, dtype=wide)},
        ),
    }


def launched(name: str, target: str) -> Any:
    """How a source of this name is launched."""
    return launch(name.partition(",")[0], D, D, target)
