"""The one memory in Triton: `ctlearn.layers.memory.chunkwise` as kernels.

    q, k, e [B, T, H, d_k], z [B, T, H, d_v], beta [B, T, H], S [B, H, d_k, d_v],
    log_decay [B, T, H] or [B, T, H, d_k], in [-inf, 0]

With `beta` the kernels erase along beta e and write beta z without storing either; an e
that is k itself is read once.
"""

from typing import Any, NamedTuple

from ctlearn.kernels.channel_gradients import channel_gradients_kernel
from ctlearn.kernels.channel_scores import channel_scores_kernel
from ctlearn.kernels.gradients import gradients_kernel
from ctlearn.kernels.inverse import inverse_kernel
from ctlearn.kernels.launch import launch, padded
from ctlearn.kernels.pairs import pairs_kernel
from ctlearn.kernels.recurrent import recurrent_kernel
from ctlearn.kernels.required import Tensor, torch, triton
from ctlearn.kernels.reverse import reverse_kernel
from ctlearn.kernels.scan import scan_kernel
from ctlearn.layers.arguments import check

# Interpreted, kernels run on any device.
COMPILED = isinstance(scan_kernel, triton.JITFunction)


def chunkwise(
    q: Tensor,
    k: Tensor,
    z: Tensor,
    *,
    e: Tensor | None = None,
    log_decay: Tensor | None = None,
    beta: Tensor | None = None,
    S: Tensor | None = None,
    read_first: bool = False,
    chunk_size: int = 64,
) -> tuple[Tensor, Tensor]:
    """Every chunk's triangular system, then a scan over the chunks: two kernels.

    A decay by channel takes two more, for the scores it decays. All arguments have
    their gradients, once: those of gradients are `ctlearn.layers.memory`'s to find.
    q, k, z and e are of one dtype, float32, float16 or bfloat16; sums and the last
    state are float32. chunk_size is 16, 32 or 64. Raises ValueError or TypeError for
    what does not fit.
    """
    given = {"q": q, "k": k, "z": z, "e": e}
    checked(chunk_size, **given, log_decay=log_decay, beta=beta, S=S)
    own = None if e is k else e
    how = e is not None, read_first, chunk_size
    return forward(q, k, z, own, log_decay, beta, S, *how)


def recurrent(
    q: Tensor,
    k: Tensor,
    z: Tensor,
    *,
    e: Tensor | None = None,
    log_decay: Tensor | None = None,
    beta: Tensor | None = None,
    S: Tensor | None = None,
    read_first: bool = False,
) -> tuple[Tensor, Tensor]:
    """One token after another in one kernel, for decoding; it has no gradient."""
    checked(q=q, k=k, z=z, e=e, log_decay=log_decay, beta=beta, S=S)
    own = None if e is k else e
    return recur(q, k, z, own, log_decay, beta, S, e is not None, read_first)


def step(
    q: Tensor,
    k: Tensor,
    z: Tensor,
    *,
    e: Tensor | None = None,
    log_decay: Tensor | None = None,
    beta: Tensor | None = None,
    S: Tensor,
    read_first: bool = False,
) -> tuple[Tensor, Tensor]:
    """One token, without its axis: q, k, e [B, H, d_k], z [B, H, d_v]."""
    names = ("q", "k", "z", "e", "log_decay", "beta")
    given = zip(names, (q, k, z, e, log_decay, beta), strict=True)
    token = {n: x[:, None] for n, x in given if x is not None}
    if e is k:
        token["e"] = token["k"]
    o, S = recurrent(**token, S=S, read_first=read_first)
    return o[:, 0], S


def checked(chunk_size: int = 64, **arguments: Tensor | None) -> None:
    """Raise what `ctlearn.layers.arguments.check` says, and for what is no kernel's."""
    check(**arguments)
    k = arguments["k"]
    if k.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        raise TypeError(f"k: expected float32, float16 or bfloat16, got {k.dtype}")
    if COMPILED and k.device.type == "cpu":
        raise ValueError("k: on cpu, but kernels run on a GPU; ctlearn.layers does not")
    if chunk_size not in (16, 32, 64):
        raise ValueError(f"chunk_size: expected 16, 32 or 64, got {chunk_size}")


@torch.library.custom_op("ctlearn::memory", mutates_args=())
def forward(
    q: Tensor,
    k: Tensor,
    z: Tensor,
    e: Tensor | None,
    log_decay: Tensor | None,
    beta: Tensor | None,
    S: Tensor | None,
    erase: bool,
    read_first: bool,
    chunk_size: int,
) -> tuple[Tensor, Tensor]:
    """Outputs and last state; an e of None stands for k if anything is erased."""
    run = Run(Tokens(q, k, z, e, log_decay, beta), erase, read_first, chunk_size)
    o, last = run.rows(z), run.state(k)
    run.scan(S, run.inverses(), run.scores(), o=o, last=last)
    return o, last


def _results_like(q: Tensor, k: Tensor, z: Tensor, *others: Any) -> tuple:
    B, _, H, d_k = k.shape
    last = (B, H, d_k, z.shape[-1])
    return z.new_empty(z.shape), k.new_empty(last, dtype=torch.float32)


forward.register_fake(_results_like)


@torch.library.custom_op("ctlearn::memory_backward", mutates_args=())
def backward(
    q: Tensor,
    k: Tensor,
    z: Tensor,
    e: Tensor | None,
    log_decay: Tensor | None,
    beta: Tensor | None,
    S: Tensor | None,
    do: Tensor,
    dlast: Tensor,
    erase: bool,
    read_first: bool,
    chunk_size: int,
) -> list[Tensor]:
    """Gradients of q, k, z, of those of e, log_decay and beta that are given, and of S.

    States and writes are computed again, in half the work of the way forward.
    """
    run = Run(Tokens(q, k, z, e, log_decay, beta), erase, read_first, chunk_size)
    A = run.inverses()
    R, before = run.rows(z), run.states()
    run.scan(S, A, None, R=R, before=before)
    dX, after, dS = run.rows(z), run.states(), run.state(k)
    run.reverse(A, run.scores(), do, dlast, dX, after, dS)
    found = run.channel_gradients if run.by_channel else run.gradients
    return [*found(R, do, dX, before, after), dS]


@backward.register_fake
def _(q, k, z, e, log_decay, beta, S, do, dlast, *how):
    given = [x for x in (q, k, z, e, log_decay, beta) if x is not None]
    return [*(x.new_empty(x.shape) for x in given), dlast.new_empty(dlast.shape)]


def _keep(ctx: Any, inputs: tuple, output: tuple) -> None:
    ctx.save_for_backward(*inputs[:7])
    ctx.how = inputs[7:]


def _gradients(ctx: Any, do: Tensor, dlast: Tensor) -> tuple:
    tensors = ctx.saved_tensors
    S = tensors[6]
    *found, dS = backward(*tensors, do, dlast, *ctx.how)
    rest = iter(found)
    given = [None if x is None else next(rest) for x in tensors[:6]]
    return *given, None if S is None else dS.to(S.dtype), None, None, None


forward.register_autograd(_gradients, setup_context=_keep)


@torch.library.custom_op("ctlearn::memory_recurrent", mutates_args=())
def recur(
    q: Tensor,
    k: Tensor,
    z: Tensor,
    e: Tensor | None,
    log_decay: Tensor | None,
    beta: Tensor | None,
    S: Tensor | None,
    erase: bool,
    read_first: bool,
) -> tuple[Tensor, Tensor]:
    """As `forward`, token by token."""
    run = Run(Tokens(q, k, z, e, log_decay, beta), erase, read_first)
    o, last = run.rows(z), run.state(k)
    choice = launch("recurrent", run.d_k, run.d_v)
    recurrent_kernel[run.heads_and_tiles(choice.V)](
        run.views, view(S, state=True), view(o), view(last, state=True),
        run.T, run.H, run.d_k, run.d_v,
        K=choice.K, V=choice.V, G=run.G, LATE=run.late, ERASE=erase, **choice.how,
    )  # fmt: skip
    return o, last


recur.register_fake(_results_like)


class Tokens(NamedTuple):
    """What comes with tokens."""

    q: Tensor
    k: Tensor
    z: Tensor
    e: Tensor | None
    log_decay: Tensor | None
    beta: Tensor | None


class Run:
    """One call: its sizes, the arrays that it needs, and its launches."""

    def __init__(
        self, tokens: Tokens, erase: bool, read_first: bool, chunk_size: int = 64
    ) -> None:
        self.tokens, self.erase = tokens, erase
        self.B, self.T, self.H, self.d_k = tokens.k.shape
        self.d_v, self.C = tokens.z.shape[-1], chunk_size
        self.late = int(read_first)
        self.chunks = self.B * self.H * triton.cdiv(self.T, chunk_size)
        gate = tokens.log_decay
        self.by_channel = gate is not None and gate.dim() == 4
        self.by = " by channel" if self.by_channel else ""
        self.G = 0 if gate is None else padded(self.d_k) if self.by_channel else 1
        self.views = tuple(map(view, tokens))

    def empty(self, *shape: int, dtype: torch.dtype) -> Tensor:
        """Room on the tokens' device."""
        return torch.empty(shape, dtype=dtype, device=self.tokens.k.device)

    def rows(self, x: Tensor) -> Tensor:
        """Room for what is like x."""
        return self.empty(*x.shape, dtype=x.dtype)

    def state(self, k: Tensor) -> Tensor:
        """Room for a state a head."""
        return self.empty(self.B, self.H, self.d_k, self.d_v, dtype=torch.float32)

    def states(self) -> Tensor:
        """Room for a state a chunk: never float16, which they would overflow."""
        narrow = self.tokens.k.dtype == torch.bfloat16
        dtype = torch.bfloat16 if narrow else torch.float32
        return self.empty(self.chunks, self.d_k, self.d_v, dtype=dtype)

    def squares(self, dtype: torch.dtype) -> Tensor:
        """Room for a matrix [C, C] a chunk."""
        return self.empty(self.chunks, self.C, self.C, dtype=dtype)

    def inverses(self) -> Tensor | None:
        """Every chunk's (I + L)^{-1} - I, if anything is erased."""
        if not self.erase:
            return None
        tokens, L = self.tokens, None
        A = self.squares(tokens.k.dtype)
        if self.by_channel:
            L = self.squares(torch.float32)
            self.pairs(tokens.k if tokens.e is None else tokens.e, L, self.late)
        if self.chunks:
            choice = launch("inverse", self.d_k)
            inverse_kernel[(self.chunks,)](
                self.views, L, A, self.T, self.H, self.d_k,
                C=self.C, K=padded(self.d_k), G=self.G, LATE=self.late, **choice.how,
            )  # fmt: skip
        return A

    def scores(self) -> Tensor | None:
        """Every chunk's P, the queries' scores, under a decay by channel."""
        if not self.by_channel:
            return None
        P = self.squares(self.tokens.k.dtype)
        self.pairs(self.tokens.q, P, late=0)
        return P

    def pairs(self, x: Tensor, W: Tensor, late: int) -> None:
        """Fill W with the scores of x and k under a decay by channel."""
        if self.chunks:
            choice = launch("pairs", self.d_k)
            pairs_kernel[(self.chunks * (self.C // 16),)](
                view(x), self.views[1], self.views[4], W, self.T, self.H, self.d_k,
                C=self.C, K=padded(self.d_k), LATE=late, **choice.how,
            )  # fmt: skip

    def scan(
        self, S: Tensor | None, A: Tensor | None, P: Tensor | None, **out: Tensor
    ) -> None:
        """The way forward: into o and last, or into R and the states before chunks."""
        choice = launch("scan" + self.by, self.d_k, self.d_v)
        scan_kernel[self.heads_and_tiles(choice.V)](
            self.views, view(S, state=True), A, P,
            view(out.get("o")), view(out.get("last"), state=True),
            view(out.get("R")), state_view(out.get("before")),
            self.T, self.H, self.d_k, self.d_v,
            C=self.C, K=padded(self.d_k), V=choice.V, G=self.G, LATE=self.late,
            **choice.how,
        )  # fmt: skip

    def reverse(
        self,
        A: Tensor | None,
        P: Tensor | None,
        do: Tensor,
        dlast: Tensor,
        dX: Tensor,
        after: Tensor,
        dS: Tensor,
    ) -> None:
        """The way back: into dX, the states' gradients behind chunks, and dS."""
        choice = launch("reverse" + self.by, self.d_k, self.d_v)
        reverse_kernel[self.heads_and_tiles(choice.V)](
            self.views, A, P, view(do), view(dlast, state=True),
            view(dX), state_view(after), view(dS, state=True),
            self.T, self.H, self.d_k, self.d_v,
            C=self.C, K=padded(self.d_k), V=choice.V, G=self.G, LATE=self.late,
            **choice.how,
        )  # fmt: skip

    def gradients(
        self, R: Tensor, do: Tensor, dX: Tensor, before: Tensor, after: Tensor
    ) -> list[Tensor]:
        """Those of the tokens that are given, once all chunks' states are known."""
        tokens, choice = self.tokens, launch("gradients", self.d_k, self.d_v)
        shares = triton.cdiv(self.d_k, choice.K)
        dq, dk = self.rows(tokens.q), self.rows(tokens.k)
        dz = None if tokens.beta is None else self.rows(tokens.z)
        de = None if tokens.e is None else self.rows(tokens.e)
        dg = self.shares(tokens.log_decay, shares)
        dbeta = self.shares(tokens.beta, shares)
        if self.chunks:
            gradients_kernel[(self.chunks * shares,)](
                self.views, view(R), view(do), view(dX),
                state_view(before), state_view(after),
                *map(view, (dq, dk, dz, de)), shares_view(dg), shares_view(dbeta),
                self.T, self.H, self.B * self.H, self.d_k, self.d_v,
                C=self.C, K=choice.K, V=choice.V, G=self.G, LATE=self.late,
                ERASE=self.erase, **choice.how,
            )  # fmt: skip
        dg, dbeta = whole(dg, tokens.log_decay), whole(dbeta, tokens.beta)
        found = dq, dk, dX if dz is None else dz, de, dg, dbeta
        return [x for x in found if x is not None]

    def channel_gradients(
        self, R: Tensor, do: Tensor, dX: Tensor, before: Tensor, after: Tensor
    ) -> list[Tensor]:
        """For decays by channel: of scores, then of queries, then of what is erased."""
        q, k, z, e, log_decay, beta = self.tokens
        shares = triton.cdiv(self.d_k, launch("channel gradients", self.d_k).K)
        dq, dk, dg = map(self.rows, (q, k, log_decay))
        dz = None if beta is None else self.rows(z)
        dP, dM, de = self.squares(k.dtype), None, None
        if self.erase:
            dM, de = self.squares(k.dtype), self.rows(k)
        # the last share is that of the values
        dbeta = self.shares(beta, 1 + shares * self.erase)
        if self.chunks:
            choice = launch("channel scores", self.d_k, self.d_v)
            channel_scores_kernel[(self.chunks,)](
                self.views[2], self.views[5], view(R), view(do), view(dX), dP, dM,
                view(dz), None if dbeta is None else view(dbeta[-1]),
                self.T, self.H, self.d_v,
                C=self.C, V=choice.V, LATE=self.late, **choice.how,
            )  # fmt: skip
            states = state_view(before), state_view(after)
            keys = view(dk), view(dg)
            self.readers(
                self.views[0], None, view(do), view(R), dP, *states, view(dq), *keys,
                None, late=0,
            )  # fmt: skip
            if self.erase:
                erased = self.views[1 if e is None else 3]
                self.readers(
                    erased, self.views[5], view(dX), None, dM, states[0], None,
                    view(de), *keys, shares_view(dbeta), late=self.late,
                )  # fmt: skip
        if e is None and de is not None:
            dk, de = dk + de, None
        found = dq, dk, dX if dz is None else dz, de, dg, whole(dbeta, beta)
        return [x for x in found if x is not None]

    def readers(self, x: tuple, beta: tuple | None, *arrays: Any, late: int) -> None:
        """The gradients of queries, or of what is erased, and of the keys they meet."""
        choice = launch("channel gradients", self.d_k, self.d_v)
        channel_gradients_kernel[(self.chunks * triton.cdiv(self.d_k, choice.K),)](
            x, self.views[1], self.views[4], beta, *arrays,
            self.T, self.H, self.B * self.H, self.d_k, self.d_v,
            C=self.C, K=choice.K, V=choice.V, LEVELS=self.C.bit_length() - 1,
            LATE=late, **choice.how,
        )  # fmt: skip

    def shares(self, x: Tensor | None, n: int) -> Tensor | None:
        """Room for n shares of the gradient of x [B, T, H], if there is x."""
        shape = n, self.B, self.T, self.H
        return None if x is None else self.empty(*shape, dtype=torch.float32)

    def heads_and_tiles(self, V: int) -> tuple[int]:
        """A grid of a program for each head and V columns of its values."""
        return (self.B * self.H * triton.cdiv(self.d_v, V),)


def view(x: Tensor | None, state: bool = False) -> tuple | None:
    """What a kernel sees of x [B, T, H, d], of x [B, T, H], or of states [B, H, d, d].

    In the place of a token a state has a channel.
    """
    if x is None:
        return None
    return x, strides(x.transpose(1, 2) if state else x)


def state_view(x: Tensor | None) -> tuple | None:
    """Of states [n, d_k, d_v], one a chunk: the chunk is the batch, of one head."""
    return None if x is None else view(x[:, None], state=True)


def shares_view(x: Tensor | None) -> tuple | None:
    """Of shares [n, B, T, H]: one after another along the batch."""
    return None if x is None else view(x.flatten(0, 1))


def whole(shares: Tensor | None, x: Tensor | None) -> Tensor | None:
    """The sum of the shares of the gradient of x, in its dtype."""
    return None if shares is None or x is None else shares.sum(0).to(x.dtype)


def strides(x: Tensor) -> tuple[int, ...]:
    """Those of [B, T, H, d], the last zero where there is no d."""
    return (*x.stride(), 0)[:4]
