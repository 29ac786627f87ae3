"""A small language model: an embedding, a stack of mixers, and the embedding again.

    logits = norm(hybrid(E[tokens])) E'

The head is tied to the embedding, whose rows start normal with deviation 0.02. All that
the model remembers of a prompt is its state, so generation reads each token once. The
weights are saved by `safetensors.torch.save_file(model.state_dict(), path)`.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ctlearn.layers.hybrid import Hybrid


class LanguageModel(nn.Module):
    """forward(tokens, state) -> (logits, state); `stack` are the arguments of `Hybrid`.

    tokens [B, T] integers below `n_tokens`, logits [B, T, n_tokens].
    """

    def __init__(self, n_tokens: int, d_model: int, **stack: Any):
        super().__init__()
        if n_tokens < 1:
            raise ValueError(f"n_tokens: expected at least 1, got {n_tokens}")
        self.embedding = nn.Embedding(n_tokens, d_model)
        nn.init.normal_(self.embedding.weight, std=0.02)
        self.hybrid = Hybrid(d_model, **stack)
        self.norm = nn.RMSNorm(d_model, eps=1e-5)

    def forward(
        self, tokens: Tensor, state: tuple | None = None
    ) -> tuple[Tensor, tuple]:
        """The logits of every next token, and the state to go on from."""
        x, state = self.hybrid(self.embedding(tokens), state)
        return F.linear(self.norm(x), self.embedding.weight), state

    @torch.no_grad()
    def generate(
        self,
        tokens: Tensor,
        n: int,
        *,
        temperature: float = 0.0,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """`tokens` [B, T] and n more: [B, T + n].

        Temperature 0 takes the likeliest token; above, tokens are drawn from the
        softmax of the logits divided by it.

        Raises
        ------
        ValueError
            The prompt is empty, `n` or the temperature is below 0.
        """
        if not tokens.shape[1]:
            raise ValueError("tokens: expected at least one token to go on from")
        if n < 0:
            raise ValueError(f"n: expected at least 0, got {n}")
        if not temperature >= 0:
            raise ValueError(f"temperature: expected at least 0, got {temperature}")
        read, new, state = tokens, [tokens], None
        for _ in range(n):
            logits, state = self(read, state)
            read = _chosen(logits[:, -1], temperature, generator)
            new.append(read)
        return torch.cat(new, 1)


def _chosen(
    logits: Tensor, temperature: float, generator: torch.Generator | None
) -> Tensor:
    if temperature == 0:
        return logits.argmax(-1, keepdim=True)
    shares = (logits.float() / temperature).softmax(-1)
    return torch.multinomial(shares, 1, generator=generator)
