"""Triton kernels of the book, imported as `ctlearn.kernels`.

The folder is mapped to that name in `pyproject.toml`. It holds no kernel yet: until it
does, every mechanism runs through its NumPy reference.
"""
