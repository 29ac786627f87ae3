"""Torch: the one memory batched and differentiable, and the layers built on it."""
