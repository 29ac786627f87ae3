"""What kernels are written in, or a plain word that it is missing."""

try:
    import torch
    import triton
    import triton.language as tl
    from torch import Tensor
except ImportError as missing:
    raise ImportError(
        f'kernels need {missing.name}: pip install "ctlearn[torch]" on Linux; '
        "elsewhere there is no Triton, and ctlearn.layers computes the same"
    ) from missing

__all__ = ["Tensor", "tl", "torch", "triton"]
