"""A layer of matrix LSTM (mLSTM): writes of any strength, and a normaliser.

    log f = logsigmoid(cap(W_f x + b_f)),   log i = cap(W_i x + b_i)
    cap(x) = 15 tanh(x / 15)

Queries are divided by sqrt(d_k). Answers are normed less their mean, with weights for
every head, and gated by the sigmoid of a linear map. At the start W_f = W_i = 0, b_f is
spread over [3, 6] and b_i = -10. Released models have keys of half the channels of
values. What they add to the denominator, 1e-6, is left out.
[beck2024xlstm; the numbers are those of its authors' larger models, which have no
convolution]

To the memory, i is relative to exp(m), for a running maximum m of the logarithms of the
weights so far, and the normaliser is one more channel of values, of ones:

    m_t = max(log f_t + m_{t-1}, log i_t, 0)
    S_t = exp(log f_t + m_{t-1} - m_t) S_{t-1} + exp(log i_t - m_t) k_t (v_t, 1)'
    o_t = S_t' q_t over max(|its last channel|, exp(-m_t))

Neither exponent is above 0. Any m gives the same o: one below 0, which
`ctlearn.mixers.matrix_lstm` has and this has not, would raise the floor above 1.
"""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ctlearn.layers.arguments import wide
from ctlearn.layers.head_norm import HeadNorm
from ctlearn.layers.mixer import Mixer

CAP = 15.0
# Stands for a decay of minus infinity where only the running maximum is asked for,
# which may lag behind: what was before is forgotten all the same.
FORGOTTEN = -1e5


class State(NamedTuple):
    """S [B, H, d_k, d_v + 1], and m [B, H], relative to whose exponential it is."""

    S: Tensor
    m: Tensor


class MatrixLSTM(Mixer):
    """f and i are one number for each head of values."""

    normed, squash = False, torch.sigmoid

    def __init__(self, d_model: int, **sizes: Any):
        super().__init__(d_model, **sizes)
        H = self.n_value_heads
        self.gates = nn.Linear(d_model, 2 * H)
        nn.init.zeros_(self.gates.weight)
        forget, write = torch.linspace(3, 6, H), torch.full((H,), -10.0)
        self.gates.bias.data = torch.cat([forget, write])
        self.norm = HeadNorm(H, self.d_v, eps=1e-6, bias=False)

    def inputs(self, x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> dict[str, Tensor]:
        """Log f below zero, log i within the cap."""
        logits = self.gates(x).to(wide(x.dtype))
        forget, write = (CAP * (logits / CAP).tanh()).chunk(2, -1)
        gates = {"log_decay": F.logsigmoid(forget), "log_write": write}
        return {"q": q * self.d_k**-0.5, "k": k, "v": v, **gates}

    def write(
        self, k: Tensor, v: Tensor, *, log_decay: Tensor, log_write: Tensor
    ) -> dict[str, Any]:
        """Write the value and a one at the key; the logarithms are relative."""
        rate = log_write.exp().to(wide(v.dtype))
        z = F.pad(v, (0, 1), value=1)
        return {"k": k, "z": z, "log_decay": log_decay.to(rate.dtype), "beta": rate}

    def answer(
        self, q: Tensor, S: State | None, **inputs: Tensor
    ) -> tuple[Tensor, State]:
        """The weighted sum over that of the weights, or over the floor."""
        log_decay, log_write = inputs.pop("log_decay"), inputs.pop("log_write")
        B, _, H = log_decay.shape
        memory, first = (None, log_decay.new_zeros(B, H)) if S is None else S
        m = running_maximum(log_decay, log_write, first)
        before, now = m[:, :-1], m[:, 1:]
        # rounding may leave more than zero
        log_kept = (log_decay + before - now).clamp(max=0)
        relative = {"log_decay": log_kept, "log_write": log_write - now}
        o, memory = super().answer(q, memory, **inputs, **relative)
        floor = (-now).exp()[..., None].to(o.dtype)
        o = o[..., :-1] / torch.maximum(o[..., -1:].abs(), floor)
        return o, State(memory, m[:, -1].clone())


def running_maximum(log_decay: Tensor, log_write: Tensor, first: Tensor) -> Tensor:
    """Before the first token and behind each, m: [B, T + 1, H], at least 0.

    It is max(first + G_t, max_{s<=t} log i_s + G_t - G_s), G being the sums of log f.
    They are in float64: their differences need more digits than the sums have in
    float32.
    """
    forgotten = log_decay.double().clamp(min=FORGOTTEN).cumsum(1)
    weights = torch.cat([first[:, None].double(), log_write - forgotten], 1)
    since = F.pad(forgotten, (0, 0, 1, 0))
    return (since + weights.cummax(1).values).clamp(min=0)
