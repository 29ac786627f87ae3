"""Triton kernels of the book, imported as `ctlearn.kernels`.

The folder is mapped to that name in `pyproject.toml`. `memory` holds the functions to
call; they compute what `ctlearn.layers.memory` computes, and take the same arguments.
This module needs neither torch nor Triton; the others say so where either is missing.
"""
