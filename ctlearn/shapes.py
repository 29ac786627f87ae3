"""The glossary: every size and array of the book, once.

The notation page prints it, the site colours letters by its roles, and `check` reads
the shapes of arguments off it. References see one head; a layer adds batch and heads.
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Shape = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Symbol:
    """One letter of the book.

    `tex` is how it is printed and `shapes` lists the shapes it may have, in letters
    of other entries. `role` decides its colour: key, value, query, state, output,
    error, decay, rate or size. `elsewhere` says what other people call it.
    """

    name: str
    tex: str
    role: str
    meaning: str
    shapes: tuple[Shape, ...] = ()
    range: str = ""
    elsewhere: str = ""

    def shape_text(self) -> str:
        """The allowed shapes as a reader writes them: `[T] or [T, d_k]`."""
        return " or ".join(f"[{', '.join(shape)}]" for shape in self.shapes)


_SYMBOLS = (
    # sizes
    Symbol(name="T", tex="T", role="size", meaning="number of tokens read"),
    Symbol(
        name="d_k",
        tex="d_k",
        role="size",
        meaning="size of a key and of a query",
        elsewhere="K (flash-linear-attention), d_state or N (Mamba-2), DHQK (mLSTM)",
    ),
    Symbol(
        name="d_v",
        tex="d_v",
        role="size",
        meaning="size of a value and of an output",
        elsewhere="V (flash-linear-attention), headdim or P (Mamba-2), DHHV (mLSTM)",
    ),
    Symbol(
        name="d_phi",
        tex="d_\\phi",
        role="size",
        meaning="size of a key or query after the feature map",
    ),
    Symbol(
        name="N",
        tex="N",
        role="size",
        meaning="number of key–value pairs stored, where it is not every token",
    ),
    Symbol(
        name="n_h",
        tex="n_h",
        role="size",
        meaning="steps of the delta rule at one token",
    ),
    Symbol(
        name="n_p",
        tex="n_p",
        role="size",
        meaning="number of persistent tokens",
        elsewhere="N_p (Titans)",
    ),
    Symbol(
        name="d_r",
        tex="d_r",
        role="size",
        meaning="number of pairs of key channels that turn",
    ),
    Symbol(
        name="L",
        tex="L",
        role="size",
        meaning="number of levels into which the past is sorted by age",
    ),
    # all tokens at once
    Symbol(
        name="Q",
        tex="Q",
        shapes=(("T", "d_k"),),
        role="query",
        meaning="all queries, one row a token",
    ),
    Symbol(
        name="K",
        tex="K",
        shapes=(("T", "d_k"),),
        role="key",
        meaning="all keys, one row a token; a key–value cache holds those so far",
    ),
    Symbol(
        name="V",
        tex="V",
        shapes=(("T", "d_v"),),
        role="value",
        meaning="all values, one row a token",
    ),
    Symbol(
        name="O",
        tex="O",
        shapes=(("T", "d_v"),),
        role="output",
        meaning="all outputs, one row a token",
    ),
    Symbol(
        name="M",
        tex="M",
        shapes=(("T", "T"),),
        role="decay",
        meaning="a mask; the causal one has ones on and below the diagonal",
        elsewhere="tril(1)",
    ),
    Symbol(
        name="D",
        tex="D",
        shapes=(("T", "T"),),
        role="decay",
        meaning="the decay mask: what is kept between two tokens, causally",
        elsewhere="Γ (DeltaNet papers), L (Mamba-2)",
    ),
    Symbol(
        name="G",
        tex="G",
        shapes=(("N", "N"),),
        role="key",
        meaning="the overlaps of all stored keys, K Kᵀ",
        elsewhere="Gram matrix",
    ),
    Symbol(
        name="unit",
        tex="I",
        role="decay",
        meaning="the unit matrix, of the size that fits: it keeps everything as it is",
        elsewhere="identity matrix",
    ),
    # arguments, in the order of action: the tokens, what is seen, what forgets, what
    # is compared, what writes, how it is asked, and the state
    Symbol(
        name="q",
        tex="q_t",
        shapes=(("T", "d_k"),),
        role="query",
        meaning="what token t asks the memory",
        elsewhere="C (Mamba-2), r (RWKV)",
    ),
    Symbol(
        name="k",
        tex="k_t",
        shapes=(("T", "d_k"),),
        role="key",
        meaning="the place at which token t writes",
        elsewhere="B (Mamba-2)",
    ),
    Symbol(
        name="v",
        tex="v_t",
        shapes=(("T", "d_v"),),
        role="value",
        meaning="what token t wants found at its key",
        elsewhere="x (Mamba-2)",
    ),
    Symbol(
        name="prediction",
        tex="\\hat{v}_t",
        role="value",
        meaning="what the memory says at the key of token t before that token writes",
    ),
    Symbol(
        name="W_Q",
        tex="W_Q",
        shapes=(("d_v", "d_k"),),
        role="query",
        meaning="makes a query of what a head has itself made, x W_Q",
    ),
    Symbol(
        name="W_K",
        tex="W_K",
        shapes=(("d_v", "d_k"),),
        role="key",
        meaning="makes a key of what a head has itself made, x W_K",
    ),
    Symbol(
        name="W_V",
        tex="W_V",
        shapes=(("d_v", "d_v"),),
        role="value",
        meaning="makes a value of what a head has itself made, x W_V",
    ),
    Symbol(
        name="phi",
        tex="\\phi",
        role="key",
        meaning="a feature map, applied to keys and queries alike",
    ),
    Symbol(
        name="key_features",
        tex="\\tilde{k}_t",
        role="key",
        meaning="the features of a key as they were before its token's step moved them",
    ),
    Symbol(
        name="query_features",
        tex="\\tilde{q}_t",
        role="query",
        meaning="the features of a query as they are after its token's step",
    ),
    Symbol(
        name="kernel",
        tex="\\kappa",
        role="key",
        meaning="how alike two keys are, in place of their dot product",
        elsewhere="similarity",
    ),
    Symbol(
        name="K_p",
        tex="K_p",
        shapes=(("n_p", "d_k"),),
        role="key",
        meaning="keys of persistent tokens, which are given and which every query sees",
        elsewhere="persistent memory (Titans), sinks",
    ),
    Symbol(
        name="V_p",
        tex="V_p",
        shapes=(("n_p", "d_v"),),
        role="value",
        meaning="values of persistent tokens",
    ),
    Symbol(
        name="window",
        tex="w",
        role="size",
        meaning="how many of the last tokens are seen, counting the one that looks",
        range="1, 2, 3, …",
        elsewhere="window_size = (w − 1, 0) (FlashAttention), η (LoLA)",
    ),
    Symbol(
        name="capacity",
        tex="m",
        role="size",
        meaning="how many pairs are kept as they are beyond the window, at most",
        range="0, 1, 2, …",
        elsewhere="λ (LoLA)",
    ),
    Symbol(
        name="angle",
        tex="\\theta",
        shapes=(("d_r",),),
        role="rate",
        meaning="radians by which each pair of key channels turns at every token",
    ),
    Symbol(
        name="A",
        tex="A",
        shapes=(("d_k", "d_v"), ()),
        role="decay",
        meaning="log of what is kept in a unit of time, for the head or each entry",
        range="[−∞, 0]",
        elsewhere="minus exp(A_log) (Mamba)",
    ),
    Symbol(
        name="omega",
        tex="\\omega",
        shapes=(("d_k", "d_v"),),
        role="rate",
        meaning="radians by which each entry of the state turns in a unit of time",
        elsewhere="imaginary part of A (S4D)",
    ),
    Symbol(
        name="phase",
        tex="\\psi",
        shapes=(("d_k",),),
        role="rate",
        meaning="angle at which the entries of each key channel are read as they turn",
        elsewhere="argument of C (S4D)",
    ),
    Symbol(
        name="delta",
        tex="\\Delta_t",
        shapes=(("T",), ("T", "d_v")),
        role="rate",
        meaning="time that passes at a token, for the head or each value channel",
        range="at least 0",
        elsewhere="dt (Mamba)",
    ),
    Symbol(
        name="log_decay",
        tex="\\log \\alpha_t",
        shapes=(("T",), ("T", "d_k")),
        role="decay",
        meaning="log of what the state keeps, for the head or for each key channel",
        range="[−∞, 0]; −∞ keeps nothing, exactly",
        elsewhere="g or gk (flash-linear-attention), dA (Mamba-2), log γ (RetNet)",
    ),
    Symbol(
        name="log_gamma",
        tex="\\log \\gamma",
        shapes=((),),
        role="decay",
        meaning="log of a decay that is the same at every token",
        range="[−∞, 0]",
        elsewhere="log γ (RetNet)",
    ),
    Symbol(
        name="log_write",
        tex="\\log i_t",
        shapes=(("T",),),
        role="rate",
        meaning="log of the strength of a write that has no upper bound",
        range="[−∞, ∞)",
        elsewhere="ĩ (xLSTM), i_gate",
    ),
    Symbol(
        name="log_mu",
        tex="\\log \\mu_t",
        shapes=(("T",),),
        role="decay",
        meaning="log of what the momentum keeps",
        range="[−∞, 0]",
    ),
    Symbol(
        name="gram_log_decay",
        tex="\\log \\alpha'_t",
        shapes=(("T",),),
        role="decay",
        meaning="log of what the sum of squared keys keeps",
        range="[−∞, 0]",
    ),
    Symbol(
        name="log_forget",
        tex="\\log \\lambda",
        shapes=((),),
        role="decay",
        meaning="log of the weight that a pair keeps as each further one arrives",
        range="(−∞, 0]",
        elsewhere="log of the forgetting factor (adaptive filters)",
    ),
    Symbol(
        name="p",
        tex="p_t",
        shapes=(("T", "d_k"),),
        role="error",
        meaning="the place at which the old answer is read, where it is not k",
        elsewhere="closed-loop feedback vector (Comba)",
    ),
    Symbol(
        name="kappa",
        tex="\\hat\\kappa_t",
        shapes=(("T", "d_k"),),
        role="error",
        meaning="the removal key: where RWKV-7 reads the old answer",
        range="unit rows as a rule",
        elsewhere="minus a (RWKV-7 kernels)",
    ),
    Symbol(
        name="W_0",
        tex="W_0",
        shapes=(("d_k", "d_v"),),
        role="state",
        meaning="the linear map from which learning starts, where errors are taken",
    ),
    Symbol(
        name="column_factor",
        tex="\\sigma_t",
        role="decay",
        meaning="what brings each column of a learner back to the length it began with",
    ),
    Symbol(
        name="share_told",
        tex="\\xi",
        role="size",
        meaning="how likely one more name is among those that a context tells",
        range="(0, 1]",
    ),
    Symbol(
        name="threshold",
        tex="\\delta_t",
        shapes=(("T",), ("T", "d_v")),
        role="rate",
        meaning="how large an error may be before it counts as an outlier; ∞ for any",
        range="at least 0",
    ),
    Symbol(
        name="gram_beta",
        tex="\\beta'_t",
        shapes=(("T",),),
        role="rate",
        meaning="weight of a key in the sum of squared keys",
    ),
    Symbol(
        name="a",
        tex="a_t",
        shapes=(("T", "d_k"),),
        role="rate",
        meaning="how much of the old answer each key channel gives up",
        range="(0, 1)",
        elsewhere="in-context learning rate (RWKV-7)",
    ),
    Symbol(
        name="b",
        tex="b_t",
        shapes=(("T", "d_k"),),
        role="rate",
        meaning="the erase gate: how much each key channel counts when the old is read",
        range="[0, 1]",
    ),
    Symbol(
        name="eta",
        tex="\\eta_t",
        shapes=(("T",),),
        role="rate",
        meaning="how much of a token's error enters the momentum",
    ),
    Symbol(
        name="beta",
        tex="\\beta_t",
        shapes=(("T",),),
        role="rate",
        meaning="strength of a write, the step size of one step of learning",
        range="(0, 1) as a rule, up to 2 for reflections",
        elsewhere="η (TTT), θ (Titans)",
    ),
    Symbol(
        name="mu",
        tex="\\mu",
        shapes=((),),
        role="rate",
        meaning="the step size of an adaptive filter",
        range="(0, 2) where it is divided by the key's square",
    ),
    Symbol(
        name="w",
        tex="w_t",
        shapes=(("T", "d_v"),),
        role="rate",
        meaning="the write gate: how much of each value channel is written",
        range="[0, 1]",
    ),
    Symbol(
        name="eps",
        tex="\\varepsilon",
        shapes=((),),
        role="rate",
        meaning="what guards a division by the square of a short key",
        range="at least 0",
    ),
    Symbol(
        name="ridge",
        tex="\\lambda",
        shapes=((),),
        role="rate",
        meaning="the price of a large solution in least squares",
        range="above 0",
    ),
    Symbol(
        name="ridges",
        tex="\\Lambda",
        shapes=(("d_k",),),
        role="rate",
        meaning="the diagonal of a ridge that differs between key channels",
        range="above 0",
    ),
    Symbol(
        name="spread",
        tex="x",
        shapes=((),),
        role="rate",
        meaning="the factor by which a diagonal preconditioner may scale at most",
        range="above 1; 1.5 in released code",
    ),
    Symbol(
        name="centre",
        tex="c",
        shapes=((),),
        role="rate",
        meaning="log of the sum of squared keys that a preconditioner leaves alone",
    ),
    Symbol(
        name="correction",
        tex="\\delta",
        shapes=((),),
        role="rate",
        meaning="how much of p is taken off the query",
        elsewhere="D, output correction (Comba)",
    ),
    Symbol(
        name="width",
        tex="h",
        role="rate",
        meaning="the width of a Gaussian kernel; scores are multiplied by 1/h²",
        elsewhere="bandwidth",
    ),
    Symbol(
        name="tau",
        tex="\\tau",
        role="rate",
        meaning="what a score is multiplied by before the exponential",
        elsewhere="one over the temperature",
    ),
    Symbol(
        name="steps",
        tex="J",
        role="size",
        meaning="how many steps are taken within one token, towards a solution",
        range="1, 2, 3, …",
    ),
    Symbol(
        name="reader_rate",
        tex="r_i",
        shapes=(("inner_batch",),),
        role="rate",
        meaning="how much of a mini-batch's step so far its i-th token sees",
        range="1, or about 1/i in the released TTT layer",
    ),
    Symbol(
        name="norm",
        tex="\\nu",
        role="rate",
        meaning="gain and shift of a layer norm inside a learner, [2, d_v]",
    ),
    Symbol(
        name="gains",
        tex="\\rho",
        role="rate",
        meaning="what an answer and its gate are stretched by once normed, [2, d_v]",
    ),
    Symbol(
        name="zeta",
        tex="\\zeta_t",
        shapes=(("T", "d_v"),),
        role="rate",
        meaning="how much of an answer, once normed, is added to another's",
        elsewhere="ttt_scale times the gain of ttt_norm (LaCT)",
    ),
    Symbol(
        name="muon",
        tex="c_j",
        role="rate",
        meaning="coefficients of each step of Newton and Schulz's iteration",
        elsewhere="ns_coefficients (Muon)",
    ),
    Symbol(
        name="powers",
        tex="(r, s)",
        role="rate",
        meaning="exponents of a loss |e|^r and of the norm ‖A‖ₛ of gathered steps",
        range="r at least 1, s above 1",
        elsewhere="(p, q) (MIRAS)",
    ),
    Symbol(
        name="mass",
        tex="c",
        shapes=((),),
        role="rate",
        meaning="the sum of weights that lie on a simplex",
        range="above 0",
    ),
    Symbol(
        name="levels",
        tex="\\lambda_t^{(\\ell)}",
        shapes=(("T", "L"),),
        role="rate",
        meaning="weight with which a query reads each level of the past",
        range="above 0 as a rule",
    ),
    Symbol(
        name="S",
        tex="S_t",
        shapes=(("d_k", "d_v"),),
        role="state",
        meaning="the state, read as Sᵀq: rows are key channels, columns value channels",
        elsewhere="h (flash-linear-attention), transposed in the DeltaNet papers",
    ),
    Symbol(
        name="faded_state",
        tex="\\bar{S}_t",
        shapes=(("d_k", "d_v"),),
        role="state",
        meaning="the state once it has forgotten, before the token writes",
    ),
    Symbol(
        name="inner_batch",
        tex="b",
        role="size",
        meaning="tokens whose gradients are taken at one state; it changes the result",
        range="1, 2, 3, …",
        elsewhere="mini-batch (TTT), chunk (Titans, LaCT)",
    ),
    Symbol(
        name="chunk_size",
        tex="C",
        role="size",
        meaning="tokens that one chunk works on at once; it never changes a result",
        range="1, 2, 3, …",
        elsewhere="BT (flash-linear-attention), block_len (Mamba-2), L (mLSTM)",
    ),
    # what arises on the way
    Symbol(
        name="o",
        tex="o_t",
        shapes=(("T", "d_v"),),
        role="output",
        meaning="the answer to the query of token t, read after token t has written",
        elsewhere="y (Mamba-2), H (mLSTM)",
    ),
    Symbol(
        name="n",
        tex="n_t",
        shapes=(("d_phi",),),
        role="state",
        meaning="the sum of the keys' features, by which an output is normalised",
        elsewhere="z (Katharopoulos et al.), n (mLSTM)",
    ),
    Symbol(
        name="e",
        tex="e_t",
        shapes=(("T", "d_k"),),
        role="error",
        meaning="the erase direction: where the old answer is read to be removed",
    ),
    Symbol(
        name="z",
        tex="z_t",
        shapes=(("T", "d_v"),),
        role="value",
        meaning="the written row: what takes the old answer's place",
    ),
    Symbol(
        name="slope",
        tex="\\Gamma_t",
        role="error",
        meaning="the slope of the loss on all pairs so far: keys times errors, summed",
        elsewhere="gradient",
    ),
    Symbol(
        name="fit",
        tex="W_t",
        role="state",
        meaning="the linear map that fits the pairs so far best, as they are weighed",
        elsewhere="S or M, where the fit itself is the state",
    ),
    Symbol(
        name="moment",
        tex="H_t",
        role="key",
        meaning="the sum of the keys' products with themselves, faded as pairs are",
        elsewhere="second moment, covariance, Hessian, h_kk (flash-linear-attention)",
    ),
    Symbol(
        name="inverse_moment",
        tex="P_t",
        role="rate",
        meaning="the inverse of the moment and the ridge: a matrix for a step size",
        elsewhere="inverse covariance (adaptive filters)",
    ),
    Symbol(
        name="pair_token",
        tex="e_j",
        role="key",
        meaning="a token that is a pair: its key above its value",
        elsewhere="e = (x, y) (von Oswald et al.)",
    ),
    Symbol(
        name="moved",
        tex="E",
        role="state",
        meaning="a change of the state, such as one step of gradient descent",
        elsewhere="ΔW",
    ),
    Symbol(
        name="step_matrix",
        tex="F",
        role="rate",
        meaning="a matrix in the place of a step size: a preconditioner of one step",
    ),
    Symbol(
        name="u",
        tex="u_t",
        shapes=(("T", "d_v"),),
        role="error",
        meaning="what a token really adds along its key: the written less the erased",
        elsewhere="v_new (flash-linear-attention), pseudo-values (DeltaNet papers)",
    ),
    Symbol(
        name="surprise",
        tex="P_t",
        role="error",
        meaning="the surprise: steps down the slopes so far, gathered with momentum",
        elsewhere="S_t (Titans), velocity",
    ),
)

GLOSSARY: dict[str, Symbol] = {symbol.name: symbol for symbol in _SYMBOLS}


def check(
    arguments: Mapping[str, Any],
    *,
    per_token: bool = False,
    own: Mapping[str, Shape] | None = None,
) -> None:
    """Check every argument that the glossary names.

    `per_token` drops the leading T, for the forms that see one token. `own` gives the
    shape of the arguments for which it is not the glossary's. Names that the glossary
    does not hold, and arguments that are None, are left alone.

    Raises
    ------
    TypeError
        An argument is not an array, holds integers, or differs in dtype from the first.
    ValueError
        A shape does not fit, a size such as `chunk_size` or `window` is too small, a
        decay is positive or NaN, or a rate that must be above 0 is not.
    """
    sizes: dict[str, tuple[int, str]] = {}
    dtype: tuple[np.dtype, str] | None = None
    for name, value in arguments.items():
        symbol = GLOSSARY.get(name)
        # a state of several arrays is checked by its mechanism
        if symbol is None or value is None or _is_record(value):
            continue
        if symbol.role == "size":
            check_size(name, value, least=0 if symbol.range.startswith("0") else 1)
        if not symbol.shapes:
            continue
        shapes = (own[name],) if own and name in own else symbol.shapes
        if per_token:
            shapes = tuple(s[1:] if s[:1] == ("T",) else s for s in shapes)
        if not (() in shapes and np.ndim(value) == 0):
            dtype = _check_dtype(name, value, dtype)
        check_shape(name, value, shapes, sizes)
        if symbol.role == "decay":
            _check_decay(name, np.asarray(value), symbol.range.partition(";")[0])
        elif symbol.range in ("above 0", "at least 0"):
            _check_sign(name, np.asarray(value), symbol.range)


def check_shape(
    name: str,
    value: Any,
    shapes: tuple[Shape, ...],
    sizes: dict[str, tuple[int, str]],
) -> None:
    """Fit `value` to one of `shapes`; `sizes` remembers each letter and who set it.

    A number among the letters is that size.
    """
    expected = " or ".join(f"[{', '.join(shape)}]" for shape in shapes)
    found = np.shape(value)
    for shape in shapes:
        if len(shape) != len(found):
            continue
        if any(x.isdigit() and int(x) != n for x, n in zip(shape, found, strict=True)):
            continue
        for letter, size in zip(shape, found, strict=True):
            known, setter = sizes.setdefault(letter, (size, name))
            if size != known:
                raise ValueError(
                    f"{name}: {letter} is {size} but {setter} has {letter} = {known} "
                    f"(expected {expected}, got shape {found})"
                )
        return
    raise ValueError(f"{name}: expected {expected}, got shape {found}")


def check_size(name: str, value: Any, *, least: int) -> None:
    """Raise TypeError if `value` is no integer, ValueError if it is below `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name}: expected an integer, got {value!r}")
    if value < least:
        raise ValueError(f"{name}: expected at least {least}, got {value}")


def _check_dtype(
    name: str, value: Any, first: tuple[np.dtype, str] | None
) -> tuple[np.dtype, str]:
    if not isinstance(value, np.ndarray):
        raise TypeError(f"{name}: expected a NumPy array, got {type(value).__name__}")
    if value.dtype.kind not in "fO":
        raise TypeError(
            f"{name}: expected floating-point numbers or SymPy objects, "
            f"got {value.dtype}"
        )
    if first is None:
        return value.dtype, name
    if value.dtype != first[0]:
        raise TypeError(
            f"{name}: dtype is {value.dtype} but {first[1]} has {first[0]}; "
            "mixed dtypes are not promoted"
        )
    return first


def _check_decay(name: str, log_decay: np.ndarray, interval: str) -> None:
    if log_decay.dtype.kind == "O":
        # a symbol's sign may be unknown: only a number known to be positive is refused
        if any(getattr(x, "is_positive", x > 0) for x in log_decay.flat):
            raise ValueError(
                f"{name}: expected values in {interval}, got a positive one"
            )
        return
    inside = (log_decay <= 0) & ((log_decay > -np.inf) | interval.startswith("["))
    if not inside.all():
        bad = log_decay[~inside].flat[0]
        raise ValueError(f"{name}: expected values in {interval}, got {bad}")


def _check_sign(name: str, rate: np.ndarray, interval: str) -> None:
    strict = interval == "above 0"
    if rate.dtype.kind == "O":
        # as for decays, only a number known to be outside is refused
        known = "is_nonpositive" if strict else "is_negative"
        outside = [x for x in rate.flat if getattr(x, known, False)]
    else:
        outside = list(rate[~(rate > 0 if strict else rate >= 0)])
    if outside:
        numbers = "numbers" if rate.ndim else "a number"
        raise ValueError(f"{name}: expected {numbers} {interval}, got {outside[0]}")


def _is_record(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_fields")


def checked(form: Callable | None = None, /, **own: Shape) -> Callable:
    """Check the arguments of a form that sees a sequence before it runs.

    Where the glossary allows several shapes and the form one, or another, the form
    says so: `@checked(log_decay=("T",))`.
    """
    return _checking(form, own, per_token=False)


def checked_step(form: Callable | None = None, /, **own: Shape) -> Callable:
    """Check the arguments of a form that sees one token before it runs.

    Shapes of its own are those of the whole sequence: `@checked_step(beta=("T",))`.
    """
    return _checking(form, own, per_token=True)


def _checking(
    form: Callable | None, own: Mapping[str, Shape], *, per_token: bool
) -> Callable:
    if form is None:
        return functools.partial(_checking, own=own, per_token=per_token)
    signature = inspect.signature(form)

    @functools.wraps(form)
    def run(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        check(bound.arguments, per_token=per_token, own=own)
        return form(*bound.args, **bound.kwargs)

    run.own_shapes = own  # type: ignore[attr-defined]
    return run
