"""TTT-Linear in Triton: `ctlearn.layers.inner.chunkwise` of one layer, as kernels.

    q, k [B, T, H, d_k], v [B, T, H, d_v], beta [B, T, H], reader_rate [b],
    norm [H, 2, d_v], S = Training(f = (W [B, H, d_k, d_v], b [B, H, d_v] or None), ...)

One kernel takes the learner through all mini-batches and answers, without W leaving the
registers. Backward, the same kernel stores the W before each mini-batch, one more does
what each mini-batch can do by itself, and a third goes through them from behind. W is
one tile, so that a norm sees whole answers.
"""

from typing import Any

from ctlearn.kernels.launch import launch, padded
from ctlearn.kernels.memory import checked, state_view, view
from ctlearn.kernels.required import Tensor, torch, triton
from ctlearn.kernels.ttt_linear_local import ttt_linear_local_kernel
from ctlearn.kernels.ttt_linear_reverse import ttt_linear_reverse_kernel
from ctlearn.kernels.ttt_linear_scan import ttt_linear_scan_kernel
from ctlearn.layers.inner import Affine, Tokens, Training, paused, resumed


def chunkwise(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    beta: Tensor,
    reader_rate: Tensor | None = None,
    norm: Tensor | None = None,
    S: Training | None = None,
    inner_batch: int = 16,
) -> tuple[Tensor, Training]:
    """Mini-batches in turn, in one kernel a head; q, k and v are of one dtype.

    All is computed in float32, and W and b are kept in it. A state with tokens of an
    unfinished mini-batch is read on from its beginning. Raises what
    `ctlearn.layers.inner.chunkwise` does, TypeError for a learner of two layers, and
    ValueError if `inner_batch` is above 64, or d_k or d_v above 128.
    """
    checked(q=q, k=k, v=v, beta=beta)
    tokens = Tokens(q, k, v, beta)
    S, tokens = resumed(tokens, S, reader_rate, norm, inner_batch=inner_batch)
    if len(S.f) != 1:
        raise TypeError(f"S: expected a learner of one layer, got {len(S.f)}")
    sizes = ("inner_batch", inner_batch, 64), ("d_k", k.shape[-1], 128)
    for name, size, most in (*sizes, ("d_v", v.shape[-1], 128)):
        if size > most:
            raise ValueError(f"{name}: expected at most {most}, got {size}")
    ((W, b),) = S.f
    o, W, last_b = forward(*tokens, reader_rate, norm, W, b, inner_batch)
    f = Affine(W, None if b is None else last_b)
    return paused(o, tokens, (f,), q.shape[1], inner_batch)


@torch.library.custom_op("ctlearn::ttt_linear", mutates_args=())
def forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    beta: Tensor,
    reader_rate: Tensor | None,
    norm: Tensor | None,
    W: Tensor,
    b: Tensor | None,
    inner_batch: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Answers, and W and b after the last full mini-batch; b [B, H, 0] if None."""
    run = Run(Tokens(q, k, v, beta), reader_rate, norm, inner_batch)
    o = run.empty(*v.shape, dtype=v.dtype)
    last, last_b = run.learner(b)
    run.scan(W, b, o=o, last=last, last_bias=last_b)
    return o, last, last_b


@forward.register_fake
def _(q, k, v, beta, reader_rate, norm, W, b, inner_batch):
    width = 0 if b is None else v.shape[-1]
    return (
        v.new_empty(v.shape),
        W.new_empty(W.shape, dtype=torch.float32),
        W.new_empty((*W.shape[:2], width), dtype=torch.float32),
    )


@torch.library.custom_op("ctlearn::ttt_linear_backward", mutates_args=())
def backward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    beta: Tensor,
    reader_rate: Tensor | None,
    norm: Tensor | None,
    W: Tensor,
    b: Tensor | None,
    do: Tensor,
    dlast: Tensor,
    dlast_b: Tensor,
    inner_batch: int,
) -> list[Tensor]:
    """Gradients of all that is given of q, k, v, beta, reader_rate, norm, W and b."""
    run = Run(Tokens(q, k, v, beta), reader_rate, norm, inner_batch)
    before, before_b = run.learners(b)
    run.scan(W, b, before=before, before_bias=before_b)
    found = run.gradients(before, before_b, do, dlast, dlast_b)
    given = (q, k, v, beta, reader_rate, norm, W, b)
    pairs = zip(found, given, strict=True)
    return [x.to(like.dtype) for x, like in pairs if x is not None]


@backward.register_fake
def _(*arguments):
    return [x.new_empty(x.shape) for x in arguments[:8] if x is not None]


def _keep(ctx: Any, inputs: tuple, output: tuple) -> None:
    ctx.save_for_backward(*inputs[:8])
    ctx.inner_batch = inputs[8]


def _gradients(ctx: Any, do: Tensor, dlast: Tensor, dlast_b: Tensor) -> tuple:
    given = ctx.saved_tensors
    found = iter(backward(*given, do, dlast, dlast_b, ctx.inner_batch))
    return *(None if x is None else next(found) for x in given), None


forward.register_autograd(_gradients, setup_context=_keep)


class Run:
    """One call: its sizes, the arrays that it needs, and its launches."""

    def __init__(
        self,
        tokens: Tokens,
        reader_rate: Tensor | None,
        norm: Tensor | None,
        inner_batch: int,
    ) -> None:
        self.tokens, self.rate, self.b = tokens, reader_rate, inner_batch
        self.B, self.T, self.H, self.d_k = tokens.k.shape
        self.d_v = tokens.v.shape[-1]
        self.views = tuple(map(view, tokens))
        self.norm = None
        if norm is not None:
            # the same for every sequence
            whole = norm.transpose(0, 1)[None].expand(self.B, -1, -1, -1)
            self.norm = view(whole)

    def empty(self, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """Room on the tokens' device."""
        return torch.empty(shape, dtype=dtype, device=self.tokens.k.device)

    def learner(self, b: Tensor | None) -> tuple[Tensor, Tensor]:
        """Room for W and b of every head."""
        width = 0 if b is None else self.d_v
        heads = self.B, self.H
        return self.empty(*heads, self.d_k, self.d_v), self.empty(*heads, width)

    def learners(self, b: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Room for W and b before every mini-batch."""
        n = self.B * self.H * triton.cdiv(self.T, self.b)
        one = None if b is None else self.empty(n, 1, self.d_v)
        return self.empty(n, self.d_k, self.d_v), one

    def sizes(self, kernel: str) -> dict[str, Any]:
        """What a kernel is compiled for, and how."""
        choice, C = launch(kernel, self.d_k, self.d_v), padded(self.b)
        sizes = {"b": self.b, "C": C, "K": padded(self.d_k), "V": padded(self.d_v)}
        return {"d_k": self.d_k, "d_v": self.d_v} | sizes | choice.how

    def scan(self, W: Tensor, b: Tensor | None, **out: Tensor | None) -> None:
        """The way forward: into o and the last learner, or into all learners."""
        last_bias = None if b is None else out.get("last_bias")
        ttt_linear_scan_kernel[(self.B * self.H,)](
            self.views, self.rate, self.norm, view(W, state=True), row_view(b),
            view(out.get("o")), view(out.get("last"), state=True), row_view(last_bias),
            state_view(out.get("before")), state_view(out.get("before_bias")),
            self.T, self.H, **self.sizes("ttt_linear_scan"),
        )  # fmt: skip

    def gradients(
        self,
        before: Tensor,
        before_b: Tensor | None,
        do: Tensor,
        dlast: Tensor,
        dlast_b: Tensor,
    ) -> list[Tensor | None]:
        """Of tokens, reader_rate, norm, W and b: by mini-batch, then from behind."""
        q, k, v, beta = self.tokens
        rows = [self.empty(*v.shape) for _ in ("z", "dz", "du")]
        dq, own = self.empty(*q.shape, dtype=q.dtype), self.empty(*k.shape)
        n, biased = len(before), before_b is not None
        rates = None if self.rate is None else self.empty(n, self.b)
        norms = None if self.norm is None else self.empty(n, 2, self.d_v)
        if n:
            ttt_linear_local_kernel[(n,)](
                self.views, self.rate, self.norm,
                state_view(before), state_view(before_b), view(do),
                *map(view, (*rows, dq, own)), rates, state_view(norms),
                self.T, self.H, **self.sizes("ttt_linear_local"),
            )  # fmt: skip
        dk, dv = (self.empty(*x.shape, dtype=x.dtype) for x in (k, v))
        dbeta, (dW, db) = self.empty(*beta.shape), self.learner(before_b)
        last = None if self.rate is None else self.empty(self.B, self.H)
        dnorm = None if self.norm is None else self.empty(self.B, 2, self.H, self.d_v)
        ttt_linear_reverse_kernel[(self.B * self.H,)](
            self.views, self.rate, self.norm, state_view(before),
            view(dlast, state=True), row_view(dlast_b if biased else None),
            *map(view, (*rows, own, dk, dv, dbeta)), last, view(dnorm),
            view(dW, state=True), row_view(db if biased else None),
            self.T, self.H, **self.sizes("ttt_linear_reverse"),
        )  # fmt: skip
        if rates is not None:
            rates = rates.sum(0)
            rates[-1] += last.sum()
        if norms is not None:
            norms = norms.unflatten(0, (self.B, self.H, -1)).sum((0, 2))
            norms += dnorm.sum(0).transpose(0, 1)
        return [dq, dk, dv, dbeta, rates, norms, dW, db if biased else None]


def row_view(x: Tensor | None) -> tuple | None:
    """Of x [B, H, d]: the row of a matrix a head."""
    return None if x is None else view(x[:, None])
