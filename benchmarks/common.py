"""What the tables of both machines share: forms, their inputs, and text.

torch is imported where it is used: what times a library may have to hide another first.
"""

import importlib
import importlib.metadata
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

LINEAR, GDN = "linear attention", "gated delta rule"
CHANNEL, SOFTMAX = "gated by channel", "softmax attention"
# The libraries by the module that is imported, with the distributions they are from.
DISTRIBUTIONS = {
    "torch": "torch",
    "triton": "triton",
    "fla": "fla-core",
    "transformers": "transformers",
}


@dataclass(frozen=True)
class Form:
    """A function of some library, "module:name", and its arguments by our letters."""

    mechanism: str
    function: str
    call: Callable[[dict], tuple[tuple, dict]]

    @property
    def library(self) -> str:
        """Whose it is."""
        return self.function.partition(".")[0]

    @property
    def name(self) -> str:
        """As a table calls it: by its library, and one of ours by its module, too."""
        module, _, name = self.function.partition(":")
        own = f"{module.rpartition('.')[2]}." if self.library == "ctlearn" else ""
        return f"{self.library}: {own}{name}"

    def load(self) -> Callable:
        """The function itself."""
        module, _, name = self.function.partition(":")
        return getattr(importlib.import_module(module), name)


def ours(**how: Any) -> Callable[[dict], tuple[tuple, dict]]:
    """For a function of ctlearn."""
    names = ("e", "log_decay", "beta", "S")
    return lambda x: (
        (x["q"], x["k"], x["v"]),
        {n: x[n] for n in names if n in x} | how,
    )


def gated(**how: Any) -> Callable[[dict], tuple[tuple, dict]]:
    """For a delta rule with gates, of transformers or flash-linear-attention."""

    def arguments(x: dict) -> tuple[tuple, dict]:
        named = {"g": x["log_decay"], "beta": x["beta"], "output_final_state": True}
        return (x["q"], x["k"], x["v"]), named | _state(x) | how

    return arguments


def plain(**how: Any) -> Callable[[dict], tuple[tuple, dict]]:
    """For linear attention of flash-linear-attention."""
    return lambda x: ((x["q"], x["k"], x["v"]), {"scale": 1.0} | _state(x) | how)


def heads_first(x: dict) -> tuple[tuple, dict]:
    """For torch's attention, whose outputs have the heads first, too."""
    q, k, v = (x[name].transpose(1, 2) for name in ("q", "k", "v"))
    return (q, k, v), {"is_causal": True, "scale": 1.0}


def _state(x: dict) -> dict:
    return {"initial_state": x["S"]} if "S" in x else {}


def drawn(
    mechanism: str,
    B: int,
    T: int,
    H: int,
    d: int,
    *,
    device: str = "cpu",
    dtype: str = "float32",
) -> dict:
    """The same inputs in every process: q, k, v [B, T, H, d], keys of length one.

    Decays are float32 whatever the dtype, [B, T, H] or, by channel, [B, T, H, d].
    """
    import torch

    rng = torch.Generator(device).manual_seed(0)
    narrow = getattr(torch, dtype)

    def normal() -> torch.Tensor:
        return torch.randn(B, T, H, d, generator=rng, device=device)

    def uniform(*shape: int) -> torch.Tensor:
        return torch.rand(B, T, H, *shape, generator=rng, device=device)

    q, k, v = normal(), normal(), normal()
    k = torch.nn.functional.normalize(k, dim=-1)
    x = {"q": q.to(narrow), "k": k.to(narrow), "v": v.to(narrow)}
    if mechanism in (GDN, CHANNEL):
        decay = uniform() if mechanism == GDN else uniform(d)
        x |= {"e": x["k"], "log_decay": -0.1 * decay, "beta": uniform().to(narrow)}
    return x


def operations(mechanism: str, T: int, H: int, d: int, chunk: int) -> float:
    """Additions and multiplications in the products of the way forward.

    `chunk` is the plan's chunk, 1 for token by token and 0 for all pairs of tokens.
    """
    if not chunk:
        return T * H * 2 * T * d
    erases = mechanism in (GDN, CHANNEL)
    pairs = 0 if chunk == 1 else (8 if erases else 4)
    return T * H * (pairs * chunk * d + (6 if erases else 4) * d * d)


def leaves(x: dict) -> dict:
    """Copies that ask for gradients; an e that is k stays k, with none of its own."""
    own = {n: a.detach().clone().requires_grad_() for n, a in x.items() if n != "e"}
    return own | ({"e": own["k"]} if "e" in x else {})


def aligned(rows: list[list[str]], words: int) -> list[str]:
    """Rows as lines; the first columns are words, the others numbers."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        texts = [x.ljust(w) for x, w in zip(row[:words], widths, strict=False)]
        numbers = zip(row[words:], widths[words:], strict=True)
        lines.append("  ".join([*texts, *(x.rjust(w) for x, w in numbers)]).rstrip())
    return lines


def versions(libraries: list[str]) -> str:
    """Of the distributions that these modules are from."""
    found = [DISTRIBUTIONS[library] for library in libraries]
    return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in found)
