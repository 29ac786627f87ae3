"""A first kernel: the delta rule of one head as it is written on paper.

    S_t = S_{t-1} + beta_t k_t (v_t - S_{t-1}' k_t)',   o_t = S_t' q_t

To read, not to use: `ctlearn.kernels.delta_rule` has it for all heads and strides.
"""

from ctlearn.kernels.required import tl, triton


@triton.jit
def first_kernel(q, k, v, beta, o, T, d_k, d_v, K: tl.constexpr, V: tl.constexpr):
    """Answers o [T, d_v]: V value columns a program, in tiles of K channels."""
    channels = tl.arange(0, K)
    values = tl.program_id(0) * V + tl.arange(0, V)
    inside, ours = channels < d_k, values < d_v
    b_S = tl.zeros([K, V], tl.float32)
    for t in range(0, T):
        b_k = tl.load(k + t * d_k + channels, mask=inside, other=0.0)[:, None]
        b_v = tl.load(v + t * d_v + values, mask=ours, other=0.0)[None, :]
        error = b_v - tl.sum(b_k * b_S, 0)[None, :]
        b_S += tl.load(beta + t) * b_k * error
        b_q = tl.load(q + t * d_k + channels, mask=inside, other=0.0)[:, None]
        tl.store(o + t * d_v + values, tl.sum(b_q * b_S, 0), mask=ours)
