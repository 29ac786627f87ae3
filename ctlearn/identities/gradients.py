"""Gradients of the one memory: the reverse recurrence, and what a gate's slope takes.

A loss of outputs and of the last state is, to first order, a sum of their entries, each
times the loss's slope there. That sum is affine in each number that goes in, because
each goes in once, at its token. So the slope along a number is what the sum gains when
that number grows by one, and along a decay, what it loses when the memory forgets
everything there, over the decay: exact in every world, by no rule of differentiation.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ctlearn import memory
from ctlearn.identities.engine import STATEMENT, Identity, Sides, identity
from ctlearn.mixers import rwkv7
from ctlearn.printed import AsPrinted, Numbers, Rows
from ctlearn.scalars import log
from ctlearn.supplies import Supply

Inputs = dict[str, np.ndarray]
NAMES = ("q", "k", "z", "e", "alpha")


def along(loss: Callable[[Inputs], Any], x: Inputs, name: str) -> np.ndarray:
    """The slope of a loss of x along x[name], entry by entry; `alpha` is a decay."""
    slope, here = np.empty_like(x[name]), loss(x)
    for entry in np.ndindex(x[name].shape):
        moved, old = x[name].copy(), x[name][entry]
        moved[entry] = 0 * old if name == "alpha" else old + 1
        gain = loss(x | {name: moved}) - here
        slope[entry] = -gain / old if name == "alpha" else gain
    return slope


def _draw(supply: Supply, T: int, d_k: int, d_v: int) -> Inputs:
    """Inputs of the memory, with decay in the place of its log, and the loss's slopes.

    do [T, d_v] are those at the outputs, dS [d_k, d_v] those at the last state.
    """
    x = {name: supply.real(name, T, d_k) for name in ("q", "k")}
    x |= {"e": supply.real("e", T, d_k) / 2, "z": supply.real("z", T, d_v)}
    x |= {"alpha": supply.rate("a", T, d_k), "S": supply.real("S", d_k, d_v)}
    return x | {"do": supply.real("y", T, d_v), "dS": supply.real("Y", d_k, d_v)}


def _run(x: Inputs, read_first: bool) -> tuple[np.ndarray, np.ndarray]:
    given = {name: x[name] for name in ("q", "k", "z", "e", "S")}
    return memory.recurrent(**given, log_decay=log(x["alpha"]), read_first=read_first)


def _loss_of(read_first: bool) -> Callable[[Inputs], Any]:
    def loss(x: Inputs) -> Any:
        o, after = _run(x, read_first)
        return (x["do"] * o).sum() + (x["dS"] * after).sum()

    return loss


def _some(x: Inputs, tokens: slice) -> Inputs:
    """Some of the tokens; the state and its slope as they are."""
    return {name: y if name in ("S", "dS") else y[tokens] for name, y in x.items()}


def _back(
    x: Inputs,
    read_first: bool,
    *,
    asked: int = 1,
    erased: int = 1,
    faded: bool = True,
    before: bool = False,
    corrected: int = 1,
) -> Inputs:
    """The slopes of one token's inputs, and of the state before it, as printed."""
    q, k, z, e, alpha, do = (x[name][0] for name in (*NAMES, "do"))
    kept = alpha[:, None] * x["S"]
    seen = x["S"] if read_first else kept
    u = z - corrected * seen.T @ e
    after = kept + np.outer(k, u)
    G = x["dS"] + asked * np.outer(q, do)
    dz = G.T @ k
    erasing = erased * np.outer(e, dz)
    dF = G if read_first else G - erasing
    dS = (alpha[:, None] if faded else 1) * dF - (erasing if read_first else 0)
    slopes = {"q": (x["S"] if before else after) @ do, "k": G @ u, "z": dz}
    slopes |= {"e": -erased * seen @ dz, "alpha": (dF * x["S"]).sum(axis=1)}
    return {name: slope[None] for name, slope in slopes.items()} | {"S": dS}


def _all_slopes(
    supply: Supply, T: int, d_k: int, d_v: int, read_first: bool
) -> Numbers:
    """Tokens, states, and the loss's slope along each of them, under a bar.

    F_t is the state that token t has faded, R the last state's own part in the loss.
    Nothing is asked before the first token.
    """
    x, loss = _draw(supply, T, d_k, d_v), _loss_of(read_first)
    letters: dict[str, Any] = {}
    for name in NAMES:
        letter = r"\alpha" if name == "alpha" else name
        letters |= {letter: x[name], rf"\bar{{{letter}}}": along(loss, x, name)}
    asked = np.concatenate([0 * x["q"][:1], x["q"]])
    answered = np.concatenate([0 * x["do"][:1], x["do"]])
    S, dS, F, dF, u = [], [], [], [], []
    for t in range(T + 1):
        # what is asked at token t reads the state after it, too
        rest = _some(x, slice(t, None)) | (
            {"S": _run(_some(x, slice(t)), read_first)[1]}
        )
        S.append(rest["S"])
        dS.append(np.outer(asked[t], answered[t]) + along(loss, rest, "S"))
        if t < T:
            F.append(rest["alpha"][0][:, None] * S[-1])
            u.append(x["z"][t] - (S[-1] if read_first else F[-1]).T @ x["e"][t])
            unfaded = rest["alpha"].copy()
            unfaded[0] = unfaded[0] ** 0
            dF.append(along(loss, rest | {"alpha": unfaded, "S": F[-1]}, "S"))
    letters |= {"F": np.array(F), r"\bar{F}": np.array(dF), "u": np.array(u)}
    from_0 = {
        "q": asked,
        r"\bar{o}": answered,
        "S": np.array(S),
        r"\bar{S}": np.array(dS),
    }
    letters |= {name: Rows(y, first=0) for name, y in from_0.items()}
    last = (S[T] * x["dS"]).sum(axis=1, keepdims=True).T
    gates = np.concatenate([x["alpha"] * letters[r"\bar{\alpha}"], last])
    letters |= {r"\mathbf{1}": x["do"][0] ** 0, "T": T, r"\bar{g}": gates}
    letters[r"\bar{R}"] = x["dS"]
    return Numbers(letters, {"t": range(1, T + 1)})


_AT = {
    "symbols": {"T": 1, "d_k": 2, "d_v": 2},
    "rationals": {"T": 2, "d_k": 2, "d_v": 3},
    "floats": {"T": 2, "d_k": 3, "d_v": 2},
}


def _forgetting_first(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    return _all_slopes(supply, T, d_k, d_v, read_first=False)


def _reading_first(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    return _all_slopes(supply, T, d_k, d_v, read_first=True)


@identity(
    title="A loss of outputs is affine in every input, so its growth is its slope",
    statement=r"\mathcal{L}(x_i + 1) - \mathcal{L}(x_i) ="
    r" \frac{\partial \mathcal{L}}{\partial x_i}, \qquad"
    r" \mathcal{L}(\alpha_i) - \mathcal{L}(0) ="
    r" \alpha_i \frac{\partial \mathcal{L}}{\partial \alpha_i}",
    source="ours; what the other entries on gradients stand on",
    worlds=("symbols",),
    mutants={
        "the key asks, too": {"tied": True},
        "the slope along a decay's log": {"logs": 1},
        "the slope of the first token at the second": {"shift": 1},
    },
    at={"symbols": {"T": 2, "d_k": 1, "d_v": 2}},
)
def growth(
    supply: Supply,
    T: int,
    d_k: int,
    d_v: int,
    *,
    tied: bool = False,
    logs: int = 0,
    shift: int = 0,
) -> dict[str, Sides]:
    """SymPy's derivative of the loss of two tokens, along every input, both orders."""
    import sympy

    x, parts = _draw(supply, T, d_k, d_v), {}
    # halves of symbols are no symbols to differentiate along
    x["e"] = supply.real("e", T, d_k)
    for read_first in (False, True):
        plain = _loss_of(read_first)

        def loss(x: Inputs, plain: Callable = plain) -> Any:
            return plain(x | {"q": x["k"]} if tied else x)

        for name in (*NAMES, "S"):
            at = np.roll(x[name], shift, axis=0)
            derived = [sympy.diff(loss(x), entry) for entry in at.flat]
            found = along(loss, x, name)
            if name == "alpha":
                found = found * x[name] ** logs
            order = "read first" if read_first else "decay first"
            told = np.array(derived, dtype=object).reshape(at.shape)
            parts[f"{name}, {order}"] = (found, told)
    return parts


@identity(
    title="What a token asks and writes gets its slopes from the state and its slope",
    statement=r"\bar{q}_t = S_t \bar{o}_t, \qquad \bar{k}_t = \bar{S}_t u_t, \qquad"
    r" \bar{z}_t = \bar{S}_t^\top k_t, \qquad u_t = z_t - F_t^\top e_t",
    source="ours; the chain rule, for all of the family at once",
    printed={STATEMENT: AsPrinted(numbers=_forgetting_first, at=_AT)},
    mutants={
        "what is asked at the token is left out": {"asked": 0},
        "the query meets the state before the write": {"before": True},
        "the value in the place of the error": {"corrected": 0},
    },
    at={"symbols": {"d_v": 2}},
)
def token(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    asked: int = 1,
    before: bool = False,
    corrected: int = 1,
) -> dict[str, Sides]:
    """From any state, before any slope along the next one, in both orders."""
    x, parts = _draw(supply, 1, d_k, d_v), {}
    for read_first in (False, True):
        told = _back(x, read_first, asked=asked, before=before, corrected=corrected)
        for name in ("q", "k", "z"):
            order = "read first" if read_first else "decay first"
            slope = along(_loss_of(read_first), x, name)
            parts[f"{name}, {order}"] = (slope, told[name])
    return parts


def _reverse(name: str, statement: str, read_first: bool) -> Identity:
    loss = _loss_of(read_first)

    def claim(supply: Supply, d_k: int, d_v: int, **wrong: Any) -> dict[str, Sides]:
        x = _draw(supply, 1, d_k, d_v)
        told, none = _back(x, read_first, **wrong), _some(x, slice(0))
        return {
            "base": (along(loss, none, "S"), none["dS"]),
            "step": (along(loss, x, "S"), told["S"]),
            "erasure": (along(loss, x, "e"), told["e"]),
            "decay": (along(loss, x, "alpha"), told["alpha"]),
        }

    when = "before" if read_first else "after"
    return Identity(
        name=f"gradients-reverse-{name}",
        title=f"Backwards, token by token, where the error is taken {when} forgetting",
        kind="identity",
        statement=statement,
        source="ours; the chain rule, for all of the family at once",
        claim=claim,
        mutants={
            "what is asked at the token is left out": {"asked": 0},
            "the erasure has the other sign": {"erased": -1},
            "nothing is erased": {"erased": 0},
            "the carried slope does not fade": {"faded": False},
        },
        printed={
            STATEMENT: AsPrinted(
                numbers=_reading_first if read_first else _forgetting_first, at=_AT
            )
        },
        at={"symbols": {"d_v": 2}},
    )


reverse_decay_first = _reverse(
    "decay-first",
    r"\bar{F}_t = \bar{S}_t - e_t \bar{z}_t^\top, \qquad \bar{e}_t = -F_t \bar{z}_t,"
    r" \qquad \bar{\alpha}_t = (\bar{F}_t \odot S_{t-1}) \mathbf{1}, \qquad"
    r" \bar{S}_{t-1} = \mathrm{Diag}(\alpha_t) \bar{F}_t + q_{t-1} \bar{o}_{t-1}^\top",
    read_first=False,
)
reverse_read_first = _reverse(
    "read-first",
    r"\bar{e}_t = -S_{t-1} \bar{z}_t, \qquad"
    r" \bar{\alpha}_t = (\bar{S}_t \odot S_{t-1}) \mathbf{1}, \qquad \bar{S}_{t-1} ="
    r" \mathrm{Diag}(\alpha_t) \bar{S}_t - e_t \bar{z}_t^\top"
    r" + q_{t-1} \bar{o}_{t-1}^\top",
    read_first=True,
)


def _through_rwkv7(x: Inputs) -> Any:
    names = ("q", "k", "v", "kappa", "a", "S")
    given = {name: x[name] for name in names} | {"log_decay": log(x["alpha"])}
    return (x["dS"] * rwkv7.step(**given)[1]).sum()


def _rwkv7_token(supply: Supply, d_k: int, d_v: int) -> Inputs:
    x = {name: supply.real(name, d_k) for name in ("q", "k", "kappa")}
    x |= {"v": supply.real("v", d_v), "a": supply.rate("w", d_k)}
    x |= {"alpha": supply.rate("g", d_k), "S": supply.real("S", d_k, d_v)}
    return x | {"dS": supply.real("Y", d_k, d_v)}


def _rwkv7_slopes(supply: Supply, d_k: int, d_v: int) -> Numbers:
    """Token 1, the state before it, and the loss's slopes, under a bar."""
    x = _rwkv7_token(supply, d_k, d_v)
    letters: dict[str, Any] = {r"\mathbf{1}": x["v"] ** 0, "S": Rows(x["S"][None], 0)}
    letters[r"\bar{S}"] = Rows(np.array([along(_through_rwkv7, x, "S"), x["dS"]]), 0)
    for name in ("alpha", "kappa", "a", "v", "k"):
        letter = "\\" * (len(name) > 1) + name
        letters[letter] = x[name][None]
        letters[rf"\bar{{{letter}}}"] = along(_through_rwkv7, x, name)[None]
    return Numbers(letters, {"t": range(1, 2)})


@identity(
    title="Backwards through a token of RWKV-7",
    statement=r"\bar{S}_{t-1} = \mathrm{Diag}(\alpha_t) \bar{S}_t"
    r" - \kappa_t (a_t \odot \kappa_t)^\top \bar{S}_t, \qquad"
    r" \bar{a}_t = -\kappa_t \odot (\bar{S}_t S_{t-1}^\top \kappa_t), \qquad"
    r" \bar{\alpha}_t = (\bar{S}_t \odot S_{t-1}) \mathbf{1}, \qquad"
    r" \bar{v}_t = \bar{S}_t^\top k_t",
    source="ours; the chain rule",
    citations=("peng2025goose",),
    printed={STATEMENT: AsPrinted(numbers=_rwkv7_slopes)},
    mutants={
        "the transition is not transposed": {"turned": False},
        "the old answer at the write key": {"own_key": True},
        "the carried slope does not fade": {"faded": False},
    },
)
def reverse_rwkv7(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    turned: bool = True,
    own_key: bool = False,
    faded: bool = True,
) -> dict[str, Sides]:
    """One token before any slope of the state; what is asked adds q do', as above."""
    x = _rwkv7_token(supply, d_k, d_v)
    G = x["dS"]
    kappa, given_up = x["k"] if own_key else x["kappa"], x["a"] * x["kappa"]
    left, right = (kappa, given_up) if turned else (given_up, kappa)
    told = {
        "S": (x["alpha"][:, None] if faded else 1) * G - np.outer(left, right @ G),
        "alpha": (G * x["S"]).sum(axis=1),
        "a": -kappa * (G @ (x["S"].T @ kappa)),
        "v": G.T @ x["k"],
    }
    return {name: (along(_through_rwkv7, x, name), told[name]) for name in told}


@identity(
    title="A gate's slope from slopes that are at hand, for all that forgets first",
    statement=r"\bar{g}_t = \bar{g}_{t+1} + q_t \odot \bar{q}_t - k_t \odot \bar{k}_t"
    r" + e_t \odot \bar{e}_t, \qquad \bar{g}_{T+1} ="
    r" (S_T \odot \bar{R}) \mathbf{1}",
    source="ours; yang2024gla where nothing is erased, from memory",
    citations=("yang2024gla",),
    printed={STATEMENT: AsPrinted(numbers=_forgetting_first, at=_AT)},
    mutants={
        "the erase direction is forgotten": {"erase": 0},
        "what comes through the last state is forgotten": {"last": 0},
        "the keys' part has the other sign": {"sign": 1},
        "the slope along the decay, not its log": {"logs": 0},
    },
)
def gate_shortcut(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    erase: int = 1,
    last: int = 1,
    sign: int = -1,
    logs: int = 1,
) -> dict[str, Sides]:
    """One token before any state and any slope along it: a proof for every T.

    R is the slope that the loss has at the last state itself, and g_{t+1} the one along
    the log of a scale on the state after token t.
    """
    drawn, loss = _draw(supply, 1, d_k, d_v), _loss_of(read_first=False)
    parts = {}
    for name, dS in (("base", 0 * drawn["dS"]), ("step", drawn["dS"])):
        x = drawn | {"dS": dS}
        told = last * (dS * _run(x, read_first=False)[1]).sum(axis=1)
        for part, times in (("q", 1), ("k", sign), ("e", erase)):
            told = told + times * x[part][0] * along(loss, x, part)[0]
        parts[name] = (x["alpha"][0] ** logs * along(loss, x, "alpha")[0], told)
    return parts
