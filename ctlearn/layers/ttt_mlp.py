"""A layer of TTT-MLP (test-time training of a perceptron).

    f(x) = x + LN(gelu(x W_1 + b_1) W_2 + b_2),   beta = sigmoid(W_b x + b_b) / (10 d_k)

The hidden layer is four times as wide as a key; all else is as in `ttt_linear`.
[sun2024ttt; the numbers are those of its code]
"""

from ctlearn.layers.ttt_linear import TTTLinear


class TTTMLP(TTTLinear):
    """As `TTTLinear`, with a layer more in the learner."""

    base, hidden = 0.1, (4,)
