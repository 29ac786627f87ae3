"""Agreement with the libraries that people use, in float32 on a CPU.

Every pair says how the letters of a mechanism become the arguments of another library's
function. Ours is computed in float64 from the same float32 numbers. Each function is
asked without a state and, where it takes one, from a state that has read a few tokens.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from ctlearn.features import elu_plus_one, quadratic, taylor
from ctlearn.mixers import mechanisms
from ctlearn.mixers.retention import head_log_gammas
from ctlearn.mixers.retnet import rotary_angles
from ctlearn.shapes import GLOSSARY
from ctlearn.supplies import Floats

Inputs = dict[str, Any]
HEADS, T, D_K, D_V = 2, 130, 16, 24


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A mechanism, and a peer's function that computes the same.

    `arguments` are the peer's, of one head's inputs; an array whose rows are tokens is
    given a batch of one and the heads, in the order of `layout`, any other the heads
    alone. `state` are the peer's arguments for a state, in the order in which it
    returns the last one; `starts` says whether it takes one, `stacked` whether it
    returns it in one array. `constants` are its other arguments. `setting` changes
    one head's inputs before anyone sees them.
    """

    mechanism: str
    function: str
    arguments: Callable[[Inputs], Inputs]
    constants: Inputs
    state: Callable[[Any], Inputs] | None = None
    starts: bool = True
    stacked: bool = False
    layout: str = "BTH"
    setting: Callable[[Inputs, int], Inputs] = lambda x, head: x
    T: int = T
    d_v: int = D_V


def letters(*same: str, **renamed: str) -> Callable[[Inputs], Inputs]:
    """The arguments that are ours by the same name, or by another."""
    names = {name: name for name in ("q", "k", "v", *same)} | renamed
    return lambda x: {theirs: x[ours] for theirs, ours in names.items()}


def divided(arguments: Callable[[Inputs], Inputs], q: str = "q") -> Callable:
    """The same, for a function that divides q by sqrt(d_k) whatever it is told."""

    def scaled(x: Inputs) -> Inputs:
        given = arguments(x)
        return given | {q: given[q] * np.sqrt(given[q].shape[-1])}

    return scaled


def fla(mechanism: str, function: str, arguments: Callable, **others: Any) -> Pair:
    """A pair with one of flash-linear-attention's functions named naive."""
    folder, _, name = function.rpartition(".")
    module = f"fla.ops.{folder}" if "naive" in folder else f"fla.ops.{folder}.naive"
    others = {"constants": {}} | others
    return Pair(
        mechanism=mechanism, function=f"{module}:{name}", arguments=arguments, **others
    )


def hf(mechanism: str, function: str, arguments: Callable, **others: Any) -> Pair:
    """A pair with one of the functions that transformers falls back on."""
    model, _, name = function.partition(".")
    return Pair(
        mechanism=mechanism,
        function=f"transformers.models.{model}.modeling_{model}:{name}",
        arguments=arguments,
        **others,
    )


def initial_state(S: Any) -> Inputs:
    """The commonest name of a state that is one matrix."""
    return {"initial_state": S}


def xlstm_state(S: Any) -> Inputs:
    """What transformers calls C, n and m."""
    return {"c_initial": S.S, "n_initial": S.n, "m_initial": S.m[None]}


def preconditioner(x: Inputs, head: int) -> Inputs:
    """The released constants, and a unit query: one of the functions normalises it."""
    unit = x["q"] / np.linalg.norm(x["q"], axis=1, keepdims=True)
    return x | {"q": unit, "spread": 1.5, "centre": -0.2}


def near_the_key(x: Inputs, head: int = 0) -> Inputs:
    """The old answer read near the key, where it is learned, so that nothing grows."""
    p = x["p"] / np.linalg.norm(x["p"], axis=1, keepdims=True)
    return x | {"p": (x["k"] + p) / 2}


def logit(log_rate: np.ndarray) -> np.ndarray:
    """What a log-sigmoid makes this log of."""
    return log_rate - np.log(-np.expm1(log_rate))


LAST = {"output_final_state": True}
PLAIN = LAST | {"scale": 1.0}
SCALAR = letters(g="log_decay")
GATED = letters("beta", g="log_decay")
MOMENTUM = letters("p", "eta", "beta", "log_mu", log_alpha="log_decay")
HF_GATED = divided(
    letters("beta", query="q", key="k", value="v", g="log_decay"), "query"
)
PRECONDITIONED = letters("beta", g_atk="gram_log_decay", beta_atk="gram_beta")
XLSTM = divided(
    lambda x: {
        "query": x["q"],
        "key": x["k"],
        "value": x["v"],
        "igate": x["log_write"],
        "fgate": logit(x["log_decay"]),
    },
    "query",
)
PAIRS = [
    fla(
        "linear_attention",
        "linear_attn.naive_recurrent_linear_attn",
        letters(),
        constants=PLAIN,
        state=initial_state,
    ),
    fla(
        "linear_attention",
        "linear_attn.naive_chunk_linear_attn",
        letters(),
        constants={"scale": 1.0},
        T=128,
    ),
    fla(
        "normalised_linear_attention",
        "linear_attn.naive_recurrent_linear_attn",
        lambda x: letters()(x | {n: elu_plus_one(x[n]) for n in "qk"}),
        constants=PLAIN | {"normalize": True},
        state=lambda S: {"initial_state": (S.S, S.n)},
    ),
    # 1 + s + s^2 / 2 and s^2 of the score s are the taylor and the quadratic features
    fla(
        "normalised_linear_attention",
        "based.naive_parallel_based",
        letters(),
        constants={"scale": 1.0},
        setting=lambda x, head: x | {"phi": taylor},
        layout="BHT",
    ),
    fla(
        "normalised_linear_attention",
        "rebased.naive_parallel_rebased",
        letters(),
        constants={"scale": 1.0},
        setting=lambda x, head: x | {"phi": quadratic},
        layout="BHT",
    ),
    fla(
        "retention",
        "retention.naive_retention",
        divided(letters()),
        layout="BHT",
        setting=lambda x, head: x | {"log_gamma": head_log_gammas(HEADS)[head]},
    ),
    *(
        fla(
            "gated_linear_attention",
            f"simple_gla.{name}",
            SCALAR,
            constants=constants,
            state=state,
            setting=lambda x, head: x | {"log_decay": x["log_decay"][:, 0]},
        )
        for name, constants, state in (
            ("naive_recurrent_simple_gla", PLAIN, initial_state),
            ("naive_chunk_simple_gla", PLAIN, initial_state),
            ("naive_parallel_simple_gla", {"scale": 1.0}, None),
        )
    ),
    fla(
        "gated_linear_attention",
        "gla.naive_recurrent_gla",
        divided(letters(gk="log_decay")),
        constants=LAST,
        state=initial_state,
    ),
    # HGRN2's layer calls this very function
    fla(
        "hgrn2",
        "gla.naive_recurrent_gla",
        lambda x: divided(letters(gk="log_decay"))(
            x | {"k": -np.expm1(x["log_decay"])}
        ),
        constants=LAST,
        state=initial_state,
    ),
    hf(
        "mamba2",
        "mamba2.mamba2_chunk_scan",
        lambda x: {
            "hidden_states": x["v"],
            "dt": x["delta"],
            "A": x["A"],
            "B": x["k"],
            "C": x["q"],
        },
        constants={"chunk_size": 64, "return_final_states": True},
        state=lambda S: {"initial_states": S.T},
    ),
    hf(
        "matrix_lstm",
        "xlstm.mlstm_recurrent_sequence_native",
        XLSTM,
        constants={"return_last_states": True, "eps": 0.0},
        state=xlstm_state,
        layout="BHT",
    ),
    hf(
        "matrix_lstm",
        "xlstm.mlstm_chunkwise_native_autograd",
        XLSTM,
        constants={"return_last_states": True, "eps": 0.0},
        state=xlstm_state,
        layout="BHT",
        T=128,
    ),
    fla(
        "delta_rule",
        "delta_rule.delta_rule_recurrence",
        divided(letters("beta")),
        state=initial_state,
        layout="BHT",
    ),
    fla(
        "delta_rule",
        "delta_rule.delta_rule_chunkwise",
        divided(letters("beta")),
        state=initial_state,
        starts=False,
        layout="BHT",
        T=128,
    ),
    fla(
        "delta_rule",
        "delta_rule.delta_rule_parallel",
        divided(letters("beta")),
        layout="BHT",
        T=128,
    ),
    *(
        fla(
            "gated_delta_rule",
            f"gated_delta_rule.{name}",
            GATED,
            constants=PLAIN,
            state=initial_state,
        )
        for name in ("naive_recurrent_gated_delta_rule", "naive_chunk_gated_delta_rule")
    ),
    *(
        hf(
            "gated_delta_rule",
            f"qwen3_next.{name}",
            HF_GATED,
            constants=LAST,
            state=initial_state,
        )
        for name in ("torch_recurrent_gated_delta_rule", "torch_chunk_gated_delta_rule")
    ),
    fla(
        "kimi_delta_attention",
        "kda.naive_recurrent_kda",
        GATED,
        constants=PLAIN,
        state=initial_state,
    ),
    fla(
        "kimi_delta_attention",
        "kda.naive_chunk_kda",
        GATED,
        constants=PLAIN,
        state=initial_state,
        T=128,
    ),
    *(
        hf(
            "kimi_delta_attention",
            f"kimi_linear.{name}",
            HF_GATED,
            constants=LAST,
            state=initial_state,
        )
        for name in ("recurrent_kimi_delta_attention", "chunk_kimi_delta_attention")
    ),
    *(
        fla(
            "gated_delta_rule_2",
            f"gdn2.{name}",
            letters("b", "w", g="log_decay"),
            constants=PLAIN,
            state=initial_state,
        )
        for name in ("naive_recurrent_gdn2", "naive_chunk_gdn2")
    ),
    fla(
        "delta_product",
        "gated_delta_product.naive_recurrent_gated_delta_product",
        lambda x: {
            "q": x["q"],
            "k": x["k"].reshape(-1, D_K),
            "v": x["v"].reshape(-1, D_V),
            "g": x["log_decay"],
            "beta": x["beta"].ravel(),
        },
        constants=PLAIN | {"num_householder": 2},
        state=initial_state,
    ),
    fla(
        "comba",
        "comba.naive_chunk_comba",
        lambda x: letters("p", "beta", g="log_decay")(
            x | {"q": x["q"] - x["correction"] * x["p"]}
        ),
        constants=PLAIN,
        state=initial_state,
        setting=near_the_key,
    ),
    *(
        fla(
            "rwkv7",
            f"generalized_delta_rule.dplr.naive.{name}",
            divided(
                lambda x: {
                    "q": x["q"],
                    "k": x["k"],
                    "v": x["v"],
                    "gk": x["log_decay"],
                    "alpha": -x["kappa"],
                    "beta": x["a"] * x["kappa"],
                }
            ),
            state=initial_state,
            layout="BHT",
            T=tokens,
        )
        for name, tokens in (("dplr_recurrence", T), ("dplr_chunkwise", 128))
    ),
    fla(
        "mesa_net",
        "mesa_net.naive_mesa_net_exact",
        letters("beta", g="log_decay", lamb="ridges"),
        state=lambda S: {"h_kk_init": S.H, "h_kv_init": S.S},
        d_v=D_K,
    ),
    fla(
        "momentum_delta_rule",
        "momentum_delta_rule.recurrent_momentum_delta_rule_ref",
        MOMENTUM,
        constants=PLAIN,
        state=lambda S: {"initial_S": S.S, "initial_M": S.M},
        stacked=True,
        setting=near_the_key,
    ),
    # its loss is not halved and its momentum points down the slope
    fla(
        "titans",
        "momentum_delta_rule.recurrent_momentum_delta_rule_ref",
        lambda x: MOMENTUM(
            x | {"p": x["k"], "eta": 2 * x["beta"], "beta": x["beta"] ** 0}
        ),
        constants=PLAIN,
        state=lambda S: {"initial_S": S.M.W, "initial_M": -S.P.W},
        stacked=True,
        setting=lambda x, head: x | {"inner_batch": 1},
    ),
    *(
        fla(
            mechanism,
            f"precond_{op}.naive_recurrent_precond_{op}",
            lambda x: PRECONDITIONED(x) | {"g": x["log_decay"]},
            constants=PLAIN,
            state=lambda S: {"initial_state": S.S, "initial_A_state": S.A},
            setting=preconditioner,
        )
        for mechanism, op in (
            ("preconditioned_delta_rule", "gated_delta_rule"),
            ("preconditioned_kimi_delta_attention", "kda"),
        )
    ),
    fla(
        "log_linear_attention",
        "log_linear_attn.naive_log_linear_attn",
        letters(g="log_decay", level_scales="levels"),
        constants={"scale": 1.0},
    ),
    fla(
        "softmax_attention",
        "attn.naive_parallel_attn",
        letters(),
        constants={"scale": 1.0},
    ),
    fla(
        "sliding_window_attention",
        "attn.naive_parallel_attn",
        letters(),
        constants={"scale": 1.0, "window_size": 9},
        setting=lambda x, head: x | {"window": 9},
    ),
]


def drawn(pair: Pair, tokens: int, head: int) -> Inputs:
    """One head's inputs, as float64 numbers that float32 holds.

    Decays are nearer to 1 than a supply's: those that layers start from. Strong ones,
    with which some of these functions lose digits, have tests of their own.
    """
    x = mechanisms()[pair.mechanism].draw(
        Floats(2 * tokens + head, "float32"), tokens, D_K, pair.d_v
    )
    x = {n: a / 8 if GLOSSARY[n].role == "decay" else a for n, a in x.items()}
    return {n: rounded(a) for n, a in pair.setting(x, head).items()}


def one_head(seed: int) -> Inputs:
    """Plain q, k and v, in the same numbers."""
    supply, sizes = Floats(seed, "float32"), {"q": D_K, "k": D_K, "v": D_V}
    return {n: rounded(supply.real(n, T, d)) for n, d in sizes.items()}


def rounded(x: Any) -> Any:
    """The array as float32 has it, in float64; a record of them likewise."""
    if isinstance(x, tuple):
        return type(x)(*map(rounded, x))
    if isinstance(x, np.ndarray | np.floating):
        return np.asarray(x).astype(np.float32).astype(np.float64)
    return x


def together(heads: list[Inputs], pair: Pair, *, state: bool = False) -> Inputs:
    """The arguments of all heads as the peer takes them."""
    return {n: laid_out([x[n] for x in heads], pair, state) for n in heads[0]}


def laid_out(heads: list, pair: Pair, state: bool = False) -> Any:
    """One array a head in one array, or a tuple of them in a tuple."""
    if isinstance(heads[0], tuple):
        return tuple(laid_out(list(x), pair, state) for x in zip(*heads, strict=True))
    x = np.stack(heads)
    if state:
        return x[None]
    if x.ndim == 1 or x.shape[1] % pair.T:
        return x
    return (x if pair.layout == "BHT" else np.moveaxis(x, 0, 1))[None]


def flat(x: Any) -> list[np.ndarray]:
    """The arrays that a nest of tuples holds."""
    return [a for part in x for a in flat(part)] if isinstance(x, tuple) else [x]


@pytest.mark.parametrize(
    "pair", PAIRS, ids=lambda p: f"{p.mechanism}-{p.function.rpartition(':')[2]}"
)
def test_peer_agrees(pair, peer, agrees):
    recurrent = mechanisms()[pair.mechanism].forms["recurrent"]
    heads = [drawn(pair, pair.T, head) for head in range(HEADS)]
    asked = together([pair.arguments(x) for x in heads], pair) | pair.constants
    begun = [rounded(recurrent(**drawn(pair, 8, head))[1]) for head in range(HEADS)]
    takes_a_state = pair.state is not None and pair.starts
    theirs: list[np.ndarray] = []
    ours: list[np.ndarray] = []
    for states in ([None] * HEADS, begun) if takes_a_state else ([None] * HEADS,):
        given = {}
        if takes_a_state:
            given = together([pair.state(S) for S in begun], pair, state=True)
        if states is not begun:
            # said, since one of the functions has no default
            given = dict.fromkeys(given)
        answer = flat(peer(pair.function, **asked, **given))
        answers = [recurrent(**x, S=S) for x, S in zip(heads, states, strict=True)]
        ours.append(laid_out([o for o, _ in answers], pair))
        if pair.state:
            last = together([pair.state(S) for _, S in answers], pair, state=True)
            arrays = flat(tuple(last.values()))
            ours += [np.stack(arrays)] if pair.stacked else arrays
        theirs += answer if pair.state else answer[:1]
    agrees(pair.mechanism, pair.function, theirs, ours)


@pytest.mark.parametrize(
    ("mechanism", "setting"),
    [
        ("softmax_attention", {}),
        ("sliding_window_attention", {"window": 9}),
        ("hopfield_retrieval", {"tau": 0.5, "steps": 2}),
    ],
)
def test_attention_agrees(mechanism, setting, peer, agrees):
    """Over all tokens, and for those that come after a cache of some."""
    function = "torch.nn.functional:scaled_dot_product_attention"
    x = one_head(0)
    recurrent = mechanisms()[mechanism].forms["recurrent"]
    window = setting.get("window", T)
    mask = np.tri(T, dtype=bool) & ~np.tri(T, k=-window, dtype=bool)
    q, k, v = (a[None, None] for a in x.values())
    asked = {"attn_mask": mask, "scale": float(setting.get("tau", 1))}
    for _ in range(setting.get("steps", 1) - 1):
        q = peer(function, query=q, key=k, value=k, **asked)
    theirs = peer(function, query=q, key=k, value=v, **asked)[0, 0]
    whole, _ = recurrent(**x, **setting)
    _, S = recurrent(**{n: a[:50] for n, a in x.items()}, **setting)
    rest, _ = recurrent(**{n: a[50:] for n, a in x.items()}, **setting, S=S)
    agrees(mechanism, function, [theirs, theirs[50:]], [whole, rest])


def test_mamba_agrees(peer, agrees):
    """All tokens, then one more from the state that they left."""
    mamba = mechanisms()["mamba"]
    x = mamba.draw(Floats(0, "float32"), T + 1, D_K, D_V)
    x = {n: rounded(a / 8 if n == "A" else a) for n, a in x.items()}
    module = "transformers.models.mamba.modeling_mamba"
    # channels come before tokens and before modes
    A, *rows = (x[n].T for n in ("A", "v", "delta", "k", "q"))
    names = ("hidden_states", "dt", "B", "C")
    asked = dict(zip(names, (a[None, :, :T] for a in rows), strict=True))
    scan = f"{module}:mamba_selective_scan"
    theirs = peer(scan, A=A, **asked, return_last_state=True)
    tokens = {n: a if n == "A" else a[:T] for n, a in x.items()}
    o, S = mamba.forms["recurrent"](**tokens)
    agrees("mamba", scan, [a[0].T for a in theirs], [o, S])
    update = f"{module}:mamba_selective_state_update"
    asked = dict(zip(names, (a[None, :, T] for a in rows), strict=True))
    theirs = peer(update, A=A, **asked, state=S.T[None])
    o, _ = mamba.forms["step"](
        **{n: a if n == "A" else a[T] for n, a in x.items()}, S=S
    )
    agrees("mamba", update, [theirs], [o])


def test_retnet_agrees(peer, agrees):
    """The retention of one library behind the rotary embedding of another.

    The latter turns channels i and i + d_k / 2 as a pair.
    """
    turn = "transformers.models.llama.modeling_llama:apply_rotary_pos_emb"
    function = "fla.ops.retention.naive:naive_retention"
    angle, heads = rotary_angles(D_K), [one_head(head) for head in range(HEADS)]
    q, k, v = (np.stack([x[n] for x in heads])[None] for n in "qkv")
    turns = np.tile(np.outer(np.arange(T), angle), 2)[None]
    pairs = np.concatenate([np.arange(0, D_K, 2), np.arange(1, D_K, 2)])
    q, k = peer(
        turn, q=q[..., pairs], k=k[..., pairs], cos=np.cos(turns), sin=np.sin(turns)
    )
    theirs = peer(function, q=q * np.float32(np.sqrt(D_K)), k=k, v=v)
    recurrent = mechanisms()["retnet"].forms["recurrent"]
    rates = head_log_gammas(HEADS)
    ours = [
        recurrent(**x, angle=angle, log_gamma=rate)[0]
        for x, rate in zip(heads, rates, strict=True)
    ]
    agrees("retnet", f"{function} of a rotary embedding", [theirs], [np.stack(ours)])
