"""The norm of an inner learner, along the columns of a tile, with its gradients.

    x = (z - mean z) / s,   s^2 = mean (z - mean z)^2 + 10^-6,   LN(z) = gain x + shift
    straight(w) = w - mean w - x mean(w x)

If w is the gradient of x, that of z is straight(w) / s. A tile [C, V] has d columns and
zeros behind them; gain and shift are [1, V]. What comes out has zeros there, too.
"""

from ctlearn.kernels.required import tl, triton


@triton.jit
def mean_of(z, d: tl.constexpr):
    """[C, 1]."""
    return (tl.sum(z, 1) / d)[:, None]


@triton.jit
def within(z, d: tl.constexpr):
    """[C, V]: z with zeros behind its d columns."""
    return tl.where(tl.arange(0, z.shape[1])[None, :] < d, z, 0.0)


@triton.jit
def standard(z, d: tl.constexpr):
    """[C, V] and [C, 1]: x and 1 / s."""
    z = within(z - mean_of(z, d), d)
    over = 1 / tl.sqrt(mean_of(z * z, d) + 1e-6)
    return z * over, over


@triton.jit
def straight(w, x, d: tl.constexpr):
    """What is left of w [C, V] once its mean and its part along x are gone."""
    return within(w - mean_of(w, d) - x * mean_of(w * x, d), d)


@triton.jit
def slope(z, y, gain, shift, d: tl.constexpr):
    """The slope at z of half the squared distance of LN(z) from y."""
    x, over = standard(z, d)
    return over * straight(gain * (gain * x + shift - y), x, d)


@triton.jit
def slope_backward(D, z, y, gain, shift, d: tl.constexpr):
    """Of gradients D of `slope` those of z and y, and by row those of gain and shift.

    With g = gain (gain x + shift - y) the slope is straight(g) / s, where x is in g, in
    straight twice, and z in s.
    """
    x, over = standard(z, d)
    g = gain * (gain * x + shift - y)
    dg = over * straight(D, x, d)
    dx = gain * gain * dg - over * (D * mean_of(g * x, d) + g * mean_of(D * x, d))
    along = mean_of(D * straight(g, x, d), d) * over * over
    dz = over * straight(dx, x, d) - along * x
    return dz, -gain * dg, (2 * gain * x + shift - y) * dg, gain * dg
