"""Products of matrices in float32 to its last digit, where GPUs multiply bfloat16.

    x = x_1 + x_2 + x_3
    x y = x_1 y_1 + (x_1 y_2 + x_2 y_1) + (x_1 y_3 + x_2 y_2 + x_3 y_1)

Each part is the bfloat16 nearest to what is left, of eight digits: three have the 24 of
a float32, and what is left out is smaller than its last. The range is the same, too. A
bfloat16 is its own first part and has no other. In float32 a GPU would multiply number
by number, from many registers, or in tf32, of eleven digits: as Triton 3.7 has it do on
sm_100 where an operand was widened, although it is asked for "ieee".
"""

from ctlearn.kernels.required import tl, triton


@triton.jit
def parts(x):
    """The three bfloat16 that a float32 is the sum of."""
    high = x.to(tl.bfloat16)
    left = x - high.to(tl.float32)
    middle = left.to(tl.bfloat16)
    return high, middle, (left - middle.to(tl.float32)).to(tl.bfloat16)


@triton.jit
def exact_dot(x, y):
    """Of float32 or bfloat16, x @ y in float32; small terms are added first."""
    if x.dtype == tl.bfloat16 and y.dtype == tl.bfloat16:
        product = tl.dot(x, y)
    elif x.dtype == tl.bfloat16:
        y_1, y_2, y_3 = parts(y)
        product = tl.dot(x, y_1, tl.dot(x, y_2, tl.dot(x, y_3)))
    elif y.dtype == tl.bfloat16:
        x_1, x_2, x_3 = parts(x)
        product = tl.dot(x_1, y, tl.dot(x_2, y, tl.dot(x_3, y)))
    else:
        x_1, x_2, x_3 = parts(x)
        y_1, y_2, y_3 = parts(y)
        product = tl.dot(x_1, y_3, tl.dot(x_2, y_2, tl.dot(x_3, y_1)))
        product = tl.dot(x_1, y_2, tl.dot(x_2, y_1, product))
        product = tl.dot(x_1, y_1, product)
    return product


@triton.jit
def exact_tall_dot(x, y):
    """`exact_dot` with the larger of the outer sizes as rows, which warps share out."""
    if x.shape[0] < y.shape[1]:
        product = tl.trans(exact_dot(tl.trans(y), tl.trans(x)))
    else:
        product = exact_dot(x, y)
    return product
