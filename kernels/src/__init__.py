"""Triton kernels of the book, imported as `ctlearn.kernels`.

The folder is mapped to that name in `pyproject.toml`. `memory` and `attention` hold the
functions to call; they compute what their namesakes in `ctlearn.layers` do, and take
the same arguments. `delta_rule` is a ladder: one mechanism, three times.
This module needs neither torch nor Triton; the others say so where either is missing.
"""
