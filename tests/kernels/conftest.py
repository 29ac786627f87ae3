"""Kernels on a CPU: an interpreter that knows bfloat16, and memory that starts as NaN.

On a machine with a GPU the same tests run on it. Elsewhere `tests/conftest.py` has set
TRITON_INTERPRET=1, before anything could import Triton.
"""

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason='no torch: pip install "ctlearn[torch]"')
pytest.importorskip("triton", reason='no Triton: pip install "ctlearn[torch]" on Linux')

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
# (T, (d_k, d_v)): every length near a boundary, every size that is no power of two
SHAPES = (
    (1, (16, 32)),
    (2, (8, 100)),
    (15, (48, 32)),
    (16, (60, 8)),
    (17, (100, 60)),
    (63, (32, 48)),
    (64, (64, 64)),
    (65, (8, 16)),
    (130, (16, 24)),
)


if INTERPRETED:
    from ctlearn.kernels import interpreted

    interpreted.teach()

# torch.device, as a context, lists the functions that make tensors when it is first
# used, and for the rest of the process: so here, before `poisoned` replaces some.
with torch.device("meta"):
    torch.empty(0)


@pytest.fixture(scope="session")
def filled() -> Callable[[int], int]:
    """The chunk that so many tokens nearly fill, for what is not filled costs time."""
    return lambda T: min(64, max(16, 1 << (T - 1).bit_length()))


@pytest.fixture(params=SHAPES, ids=str)
def shape(request: pytest.FixtureRequest) -> tuple[int, tuple[int, int]]:
    """A number of tokens, and the sizes of keys and values."""
    return request.param


@pytest.fixture(scope="session")
def device() -> str:
    """Where kernels run."""
    return "cpu" if INTERPRETED else "cuda"


@pytest.fixture(autouse=True)
def poisoned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory that is asked for empty starts as NaN: what is not written shows."""

    def filled(make: Callable) -> Callable:
        def empty(*arguments: Any, **named: Any) -> Any:
            x = make(*arguments, **named)
            return x.fill_(torch.nan) if x.is_floating_point() else x

        return empty

    for name in ("empty", "empty_like", "empty_strided"):
        monkeypatch.setattr(torch, name, filled(getattr(torch, name)))


@pytest.fixture
def grids(monkeypatch: pytest.MonkeyPatch) -> list[tuple]:
    """The grids of all launches, as they come."""
    from triton.runtime.jit import KernelInterface

    seen, launcher = [], KernelInterface.__getitem__

    def recorded(kernel: Any, grid: tuple) -> Any:
        seen.append(grid)
        return launcher(kernel, grid)

    monkeypatch.setattr(KernelInterface, "__getitem__", recorded)
    return seen


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What all launches fix before they compile, as they come."""
    from triton.runtime.jit import KernelInterface

    seen, launcher = [], KernelInterface.__getitem__

    def recorded(kernel: Any, grid: tuple) -> Any:
        def launch(*arguments: Any, **fixed: Any) -> Any:
            seen.append({"kernel": kernel.__name__, **fixed})
            return launcher(kernel, grid)(*arguments, **fixed)

        return launch

    monkeypatch.setattr(KernelInterface, "__getitem__", recorded)
    return seen


@pytest.fixture
def unreached(monkeypatch: pytest.MonkeyPatch) -> Callable[..., set[str]]:
    """Which of some arrays a call never reads at 1 on an axis, 2^31 numbers from 0.

    Addresses are recorded, and none so far away is looked at.
    """
    if not INTERPRETED:
        pytest.skip("only the interpreter shows addresses")
    from ctlearn.kernels import interpreted, memory

    far, own = 2**31, memory.strides

    def never(axis: int, x: Inputs, call: Callable) -> set[str]:
        base = next(iter(x.values())).data_ptr()

        def nearby(addresses: np.ndarray) -> np.ndarray:
            return np.abs(addresses.astype(np.int64) - base) < far

        with monkeypatch.context() as patch:
            patch.setattr(
                memory,
                "strides",
                lambda y: tuple(far if i == axis else n for i, n in enumerate(own(y))),
            )
            with interpreted.watched(nearby) as launches:
                call()
        touched = [np.concatenate([n.read(), n.written()]) for n in launches]
        addresses = set(np.concatenate(touched).tolist())
        wanted = {n: a.data_ptr() + a.element_size() * far for n, a in x.items()}
        return {n for n, at in wanted.items() if at not in addresses}

    return never


Inputs = dict[str, Any]


@pytest.fixture(scope="session")
def drawn(device: str) -> Callable[..., Inputs]:
    """Inputs of the family in some dtype; keys of length one, erased along themselves.

    erase is "no", "keys" for e = k, or "own" for an e of its own. Heads, a number of
    sequences and of theirs, are few where the interpreter has many chunks to do.
    """

    def draw(
        T: int,
        gates: str = "none",
        erase: str = "no",
        *,
        d: tuple[int, int] = (16, 24),
        heads: tuple[int, int] | None = None,
        dtype: Any = torch.float32,
        seed: int = 0,
    ) -> Inputs:
        rng = torch.Generator().manual_seed(seed)
        usual = (2, 2) if T < 32 else (1, 2) if T < 66 else (1, 1)
        (B, H), (d_k, d_v) = heads or usual, d

        def normal(*shape: int) -> Any:
            return torch.randn(*shape, generator=rng).to(device, dtype)

        def uniform(*shape: int) -> Any:
            return torch.rand(*shape, generator=rng).to(device, dtype)

        k = torch.nn.functional.normalize(normal(B, T, H, d_k).float(), dim=-1)
        x = {"q": normal(B, T, H, d_k), "k": k.to(dtype), "z": normal(B, T, H, d_v)}
        if erase != "no":
            x["e"] = x["k"] if erase == "keys" else x["k"] * uniform(B, T, H, d_k)
        if gates != "none":
            shape = (B, T, H) if gates == "scalar" else (B, T, H, d_k)
            x["log_decay"] = -uniform(*shape)
        return x | {"beta": uniform(B, T, H), "S": normal(B, H, d_k, d_v)}

    return draw


@pytest.fixture(scope="session")
def by_recurrence() -> Callable[..., tuple]:
    """What the recurrence in float64 makes of the same numbers."""
    from ctlearn.layers import memory

    return lambda x, **how: memory.recurrent(**without_beta(x, torch.float64), **how)


@pytest.fixture(scope="session")
def by_torch() -> Callable[..., tuple]:
    """What torch makes of them: the error that is fair.

    In half precision that is the plan in chunks as torch runs it on a GPU: its products
    of matrices take operands of the dtype, and give float32.
    """
    from ctlearn.layers import memory

    def run(x: Inputs, *, read_first: bool = False) -> tuple:
        dtype = x["k"].dtype
        wide = without_beta(x, torch.float32)
        if dtype == torch.float32:
            return memory.chunkwise(**wide, read_first=read_first)
        S, outputs = wide.pop("S"), []
        for start in range(0, wide["k"].shape[1], 64):
            part = {
                n: a[:, start : start + 64].transpose(1, 2) for n, a in wide.items()
            }
            o, S = narrow_chunk(**part, S=S, late=int(read_first), dtype=dtype)
            outputs.append(o.transpose(1, 2))
        return torch.cat(outputs, 1).to(dtype), S

    return run


def narrow_chunk(
    q: Any,
    k: Any,
    z: Any,
    S: Any,
    late: int,
    dtype: Any,
    e: Any = None,
    log_decay: Any = None,
) -> tuple:
    """A chunk [B, H, C, d] in float32, its products' operands rounded to `dtype`."""

    def product(x: Any, y: Any) -> Any:
        return x.to(dtype).float() @ y.to(dtype).float()

    C = k.shape[2]
    i = torch.arange(C, device=k.device)
    g = torch.zeros_like(k) if log_decay is None else log_decay
    g = g[..., None].expand_as(k) if g.dim() < k.dim() else g
    crossed = (i[:, None, None] >= i[:, None]) & (i[:, None] > i)
    sums = torch.einsum("imj,bhmd->bhijd", crossed.float(), g)
    after = sums.exp() * (i[:, None] >= i)[..., None]
    since = g.cumsum(2).exp()
    P = (q[..., :, None, :] * k[..., None, :, :] * after).sum(-1)
    R = z
    if e is not None:
        kept, before = since, after
        if late:
            kept = (g.cumsum(2) - g).exp()
            before = (sums - g[..., None, :]).exp()
        L = (e[..., :, None, :] * k[..., None, :, :] * before).sum(-1).tril(-1)
        one = torch.eye(C, device=k.device)
        A = torch.linalg.solve_triangular(one + L, one.expand_as(L), upper=False)
        X = z - product(kept * e, S)
        R = X + product(A - one, X)
    o = product(since * q, S) + product(P, R)
    ahead = after[..., -1, :, :]
    S = since[..., -1, :, None] * S + product((ahead * k).mT, R)
    return o, S


def without_beta(x: Inputs, dtype: Any) -> Inputs:
    """The inputs with beta taken into z and e, in some dtype."""
    x = {name: a.to(dtype) for name, a in x.items()}
    beta = x.pop("beta")[..., None]
    return x | {name: beta * x[name] for name in ("z", "e") if name in x}


@pytest.fixture(scope="session")
def gap() -> Callable[[Any, Any], float]:
    """The difference of two tensors in norm, relative to the second, in float64."""

    def measure(found: Any, truth: Any) -> float:
        assert found.shape == truth.shape
        assert found.isfinite().all()
        if not truth.numel():
            return 0.0
        size = truth.double().norm().clamp(min=1e-30)
        return float((found.double() - truth.double()).norm() / size)

    return measure
