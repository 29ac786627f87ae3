"""ctlearn: sequence layers as small models trained by the context they read.

The package behind the book *Context as a Learner*. `ctlearn.memory` is the one
recurrence that most of them share, `ctlearn.mixers` has one file a mechanism, and
`ctlearn.identities` proves what the book states. Importing it needs NumPy alone.
"""

__version__ = "0.1.0"
