"""Explorables: figures that react, on the static page and in Jupyter alike.

An explorable is NAME.py with NAME.js beside it. The Python class declares the settings;
the module computes and draws with `common.js`, in a page through `host.js` and in
Jupyter as a widget. `compute` in NAME.py is the same computation with the package's
references, and a test holds the two together.
"""
