"""Peers that are known to be wrong: we differ from them, and a plain loop is with us.

Each test states the recurrence once more, token by token in float64. Where the fault is
known to the letter, the loop with the fault in it gives the peer's numbers. Misprints
and kernels that no CPU runs have their tests beside the mechanisms, in tests/mixers.
"""

import numpy as np
import pytest

from ctlearn import inner
from ctlearn.mixers import (
    comba,
    gated_delta_rule,
    gated_linear_attention,
    kimi_delta_attention,
    mesa_net,
    momentum_delta_rule,
    ttt_linear,
)
from ctlearn.supplies import Floats

T, D_K, D_V = 130, 16, 24
SIMPLE = "fla.ops.simple_gla.naive:naive_chunk_simple_gla"
GATED = "fla.ops.gated_delta_rule.naive:naive_chunk_gated_delta_rule"
KIMI = "fla.ops.kda.naive:naive_chunk_kda"
TTT = "fla.ops.ttt.naive:chunk_ttt_linear_ref"
HF = "transformers.models"
HF_GATED = f"{HF}.qwen3_next.modeling_qwen3_next:torch_chunk_gated_delta_rule"
HF_KIMI = f"{HF}.kimi_linear.modeling_kimi_linear:chunk_kimi_delta_attention"


def tokens(T=T, d_v=D_V):
    """One head's inputs, as float64 numbers that float32 holds; decays near 1."""
    supply = Floats(7, "float32")
    x = {
        "q": supply.real("q", T, D_K),
        "k": supply.unit("k", T, D_K),
        "v": supply.real("v", T, d_v),
        "log_decay": supply.log_decay("log_decay", T) / 8,
        "beta": supply.rate("beta", T),
    }
    return {name: a.astype(np.float64) for name, a in x.items()}


def batched(*same, **renamed):
    """A batch of one and one head: [1, T, 1, ...] of each array."""

    def change(x):
        names = dict(zip(same, same, strict=True)) | renamed
        return {theirs: x[ours][None, :, None] for theirs, ours in names.items()}

    return change


def delta_loop(q, k, v, log_decay, beta=None, p=None, *, read_first=False):
    """The gated delta rule with any decay; without beta, gated linear attention."""
    p = k if p is None else p
    S, o = np.zeros((q.shape[1], v.shape[1])), np.empty_like(v)
    for t in range(len(q)):
        kept = np.exp(log_decay[t]).reshape(-1, 1) * S
        old = (S if read_first else kept).T @ p[t]
        u = v[t] if beta is None else beta[t] * (v[t] - old)
        S = kept + np.outer(k[t], u)
        o[t] = S.T @ q[t]
    return o


def test_comba_decays_before_it_reads(peer, differs):
    """Its own chunk form does not, and agrees with ours."""
    x = tokens()
    x["p"] = x["k"] / 2
    function = "fla.ops.comba.naive:naive_recurrent_comba"
    asked = batched("q", "k", "v", "p", "beta", g="log_decay")(x)
    theirs, _ = peer(function, **asked, scale=1.0)
    differs(
        "comba",
        function,
        "decays before it reads",
        theirs=[theirs],
        ours=[comba.recurrent(**x, correction=0)[0]],
        truth=[delta_loop(**x, read_first=True)],
        with_fault=[delta_loop(**x)],
        least=1e-2,
    )


def test_mesa_net_guards_its_denominators(peer, gap, differs):
    """Ours needs no guard, and reaches what float32 can."""
    x = tokens(T=128, d_v=D_K) | {"ridges": np.linspace(0.25, 1, D_K)}
    H, G, truth = np.zeros((D_K, D_K)), np.zeros((D_K, D_K)), np.empty_like(x["v"])
    for t, (q, k, v) in enumerate(zip(x["q"], x["k"], x["v"], strict=True)):
        kept, beta = np.exp(x["log_decay"][t]), x["beta"][t]
        H = kept * H + beta * np.outer(k, k)
        G = kept * G + beta * np.outer(k, v)
        truth[t] = G.T @ np.linalg.solve(H + np.diag(x["ridges"]), q)
    function = "fla.ops.mesa_net.naive:naive_mesa_net_CG"
    asked = batched("q", "k", "v", "beta", g="log_decay")(x)
    theirs, *_ = peer(function, **asked, lamb=x["ridges"][None], chunk_size=64)
    differs(
        "mesa_net",
        function,
        "adds 1e-5 to denominators",
        theirs=[theirs],
        ours=[mesa_net.recurrent(**x)[0]],
        truth=[truth],
        least=5e-5,
    )
    narrow = {name: a.astype(np.float32) for name, a in x.items()}
    assert gap([mesa_net.chunkwise(**narrow, steps=D_K)[0]], [truth]) <= 2e-6


def test_momentum_guards_its_logarithm(peer, differs):
    """Its chunk form takes the log of beta + 1e-6, which shows where beta is small."""
    x = tokens(T=128)
    x |= {"log_mu": x["log_decay"], "p": x["k"], "eta": x["beta"]}
    x["beta"] = np.full(128, 1e-3)

    def loop(guard):
        S, M, o = np.zeros((D_K, D_V)), np.zeros((D_K, D_V)), np.empty_like(x["v"])
        for t in range(len(o)):
            kept, k = np.exp(x["log_decay"][t]), x["k"][t]
            M = kept * M + x["eta"][t] * np.outer(k, S.T @ k - x["v"][t])
            S = kept * S - (x["beta"][t] + guard) * M
            o[t] = S.T @ x["q"][t]
        return o

    function = "fla.ops.momentum_delta_rule.naive:chunk_momentum_delta_rule_ref"
    names = ("q", "k", "v", "p", "beta", "eta", "log_mu")
    asked = batched(*names, log_alpha="log_decay")(x)
    theirs, _ = peer(function, **asked, scale=1.0)
    differs(
        "momentum_delta_rule",
        function,
        "adds 1e-6 to beta",
        theirs=[theirs],
        ours=[momentum_delta_rule.recurrent(**x)[0]],
        truth=[loop(0)],
        with_fault=[loop(1e-6)],
        least=5e-4,
    )


def layer_norm(z, norm):
    """The layer norm of one row, and its Jacobian."""
    x = z - z.mean()
    deviation = np.sqrt((x * x).mean() + 1e-6)
    x = x / deviation
    d = len(z)
    slope = (np.eye(d) - 1 / d - np.outer(x, x) / d) / deviation
    return norm[0] * x + norm[1], norm[0][:, None] * slope


def test_titans_divides_part_of_a_slope(peer, differs):
    """A parenthesis is missing in its slope of the loss through the layer norm.

    One token from a known matrix, without momentum or decay, shows the slope.
    """
    supply = Floats(16)
    M, norm = supply.real("M", D_K, D_K), supply.real("norm", 2, D_K)
    k, v = supply.unit("k", D_K), supply.real("v", D_K)
    z = k @ M
    normed, jacobian = layer_norm(z, norm)
    truth = M - 0.02 * np.outer(k, jacobian.T @ (normed - (v - k)))
    ours = M - 0.02 * np.outer(k, inner.layer_norm_slope(z, v - k, norm))
    # what is printed there, in its letters but for the sums
    x, deviation = (z - z.mean()) / z.std(), z.std()
    g = (norm[0] * x + norm[1] - (v - k)) * norm[0]
    wrong = D_K * g - (g.sum() + x * (g @ x)) / (deviation * D_K)
    one, zero = np.ones((1, 1, 1, 1)), np.zeros((1, 1, 1, 1))
    function = "fla.ops.titans.naive:chunk_titans_linear_ref"
    _, theirs = peer(
        function,
        q=k[None, None, None],
        k=k[None, None, None],
        v=v[None, None, None],
        w=norm[:1],
        b=norm[1:],
        theta=0.01 * one,
        alpha=zero,
        eta=zero,
        chunk_size=1,
        initial_state=M[None, None],
        output_final_state=True,
        use_chunk=False,
    )
    differs(
        "titans",
        function,
        "slope of the layer norm",
        theirs=[theirs],
        ours=[ours],
        truth=[truth],
        with_fault=[M - 0.02 * np.outer(k, wrong)],
        least=0.1,
    )


def ttt_loop(q, k, v, rate, norm, W, b, *, from_query=True):
    """The released layer with one rate for all tokens, and the state it ends in."""
    o, batch = np.empty_like(v), len(rate)
    for t in range(len(q)):
        if t % batch == 0:
            W_0, b_0, in_W, in_b = W, b, 0 * W, 0 * b
        normed, jacobian = layer_norm(k[t] @ W_0 + b_0, norm)
        g = jacobian.T @ (normed - (v[t] - k[t]))
        in_W, in_b = in_W + np.outer(k[t], g), in_b + g
        W, b = W_0 - rate[t % batch] * in_W, b_0 - rate[t % batch] * in_b
        z = q[t] @ W + b
        o[t] = (q[t] if from_query else z) + layer_norm(z, norm)[0]
    return o, W, b


@pytest.fixture
def ttt(peer):
    """For T tokens: the inputs, our output and state, and the peer's and its bias.

    It knows one rate for each token that reads, and none for the token written.
    """

    def run(T):
        x = {n: a for n, a in tokens(T, D_K).items() if n in "qkv"}
        supply = Floats(15, "float32")
        shapes = {"norm": (2, D_K), "W": (D_K, D_K), "b": (D_K,)}
        x |= {n: supply.real(n, *s).astype(float) for n, s in shapes.items()}
        x["rate"] = ttt_linear.averaging_rates(16) / 4
        theirs = peer(
            TTT,
            **batched("q", "k", "v")(x),
            w=x["norm"][:1],
            b=x["norm"][1:],
            eta=np.resize(x["rate"], T)[None, :, None, None],
            scale=1.0,
            mini_batch_size=16,
            initial_state=x["W"][None, None],
            initial_state_bias=x["b"][None, None, None],
            output_final_state=True,
        )
        ours = ttt_linear.recurrent(
            **{n: x[n] for n in ("q", "k", "v", "norm")},
            beta=np.ones(T),
            reader_rate=x["rate"],
            S=inner.Training.start(inner.Affine(x["W"], x["b"])),
            inner_batch=16,
        )
        return x, ours, theirs

    return run


def test_ttt_learns_the_same_weights(ttt, agrees):
    """What is wrong there is what is answered, and what comes behind the end."""
    _, (_, S), (_, W, b) = ttt(128)
    agrees("ttt_linear", f"{TTT}, its state", [W, b], [S.f.W, S.f.b])


def test_ttt_adds_what_was_read_instead_of_the_query(ttt, differs):
    """The released layer adds q to what the layer norm makes of it."""
    x, (o, _), (theirs, *_) = ttt(T)
    differs(
        "ttt_linear",
        TTT,
        "adds what was read, not q",
        theirs=[theirs],
        ours=[o],
        truth=[ttt_loop(**x)[0]],
        with_fault=[ttt_loop(**x, from_query=False)[0]],
        least=0.1,
    )


def test_ttt_learns_from_padding(ttt, differs):
    """Two tokens into a mini-batch, the other fourteen have moved the bias."""
    x, (_, S), (_, _, theirs) = ttt(T)
    differs(
        "ttt_linear",
        TTT,
        "padding moves the last bias",
        theirs=[theirs],
        ours=[S.f.b - x["rate"][T % 16 - 1] * S.total.b],
        truth=[ttt_loop(**x)[2]],
        least=0.1,
    )


def fla_arguments(x):
    """One head's inputs as flash-linear-attention takes them, with or without beta."""
    names = [name for name in x if name != "log_decay"]
    return batched(*names, g="log_decay")(x) | {"scale": 1.0}


def hf_arguments(x):
    """The same for transformers, which divides the query by sqrt(d_k)."""
    names = {"query": "q", "key": "k", "value": "v", "g": "log_decay"}
    return batched("beta", **names)(x | {"q": x["q"] * np.sqrt(D_K)})


CHUNKED = {
    SIMPLE: (gated_linear_attention, fla_arguments),
    GATED: (gated_delta_rule, fla_arguments),
    HF_GATED: (gated_delta_rule, hf_arguments),
    KIMI: (kimi_delta_attention, fla_arguments),
    HF_KIMI: (kimi_delta_attention, hf_arguments),
}
every_chunk_form = pytest.mark.parametrize(
    "function", CHUNKED, ids=lambda function: function.rpartition(":")[2]
)


def strongly_decaying(mixer, log_decay):
    """The inputs of a mechanism for two chunks of 64, with these decays."""
    x = tokens(T=128) | {"log_decay": log_decay}
    if mixer is kimi_delta_attention:
        x["log_decay"] = np.repeat(log_decay[:, None], D_K, axis=1)
    if mixer is gated_linear_attention:
        del x["beta"]
    return x


@every_chunk_form
def test_a_decay_of_zero_is_not_a_number_to_them(function, peer, differs):
    """Case 4: in ours what comes behind it is a sequence of its own."""
    mixer, arguments = CHUNKED[function]
    log_decay = tokens(T=128)["log_decay"]
    log_decay[40] = -np.inf
    x = strongly_decaying(mixer, log_decay)
    theirs, _ = peer(function, **arguments(x))
    ours, _ = mixer.chunkwise(**x)
    differs(
        mixer.MECHANISM.name,
        function,
        "a decay of zero",
        theirs=[theirs],
        ours=[ours],
        truth=[delta_loop(**x)],
        least=np.inf,
    )
    parts = [slice(40), slice(40, None)]
    apart = [mixer.recurrent(**{n: a[part] for n, a in x.items()})[0] for part in parts]
    assert np.abs(ours - np.concatenate(apart)).max() < 1e-12


@every_chunk_form
def test_prefix_sums_lose_digits(function, peer, differs):
    """Case 2: one strong decay in a chunk, and the pairs behind it are less exact."""
    mixer, arguments = CHUNKED[function]
    log_decay = np.full(128, -0.01)
    log_decay[[20, 84]] = -300
    x = strongly_decaying(mixer, log_decay.astype(np.float32).astype(float))
    theirs, _ = peer(function, **arguments(x))
    narrow = {name: a.astype(np.float32) for name, a in x.items()}
    differs(
        mixer.MECHANISM.name,
        function,
        "exp(-300) in a chunk",
        theirs=[theirs],
        # in float32, as theirs
        ours=[mixer.chunkwise(**narrow)[0]],
        truth=[delta_loop(**x)],
        least=5e-6,
        allowed=1e-6,
    )
