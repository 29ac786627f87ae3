"""Printed mathematics, executed: what is tested is what stands on the page.

A labelled equation of the book is read from the notebook or page where it stands
(`pages`), parsed by a documented grammar (`parse`, `grammar.lark`), and evaluated on
numbers that the package computed, symbols, rationals or floats (`evaluate`). Its own
text is then broken, slip by slip, to see that the check would notice (`mutants`).
"""

from ctlearn.printed.evaluate import Numbers, Rows
from ctlearn.printed.execute import AsPrinted

__all__ = ["AsPrinted", "Numbers", "Rows"]
