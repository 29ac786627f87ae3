"""Coursework: the exercises of the book that ask for code, and what marks them."""
