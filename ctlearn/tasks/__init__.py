"""Synthetic tasks: what a memory is asked to hold, and how its answers are judged."""
