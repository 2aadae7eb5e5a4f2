"""Random programs of `jax.lax` over points of a grid: shifts, boundaries, parts, conditions, types, several results."""

import jax.numpy as jnp
import numpy as np
from jax import lax

ELEMENTS = "float64", "float64", "float32", "int32", "int64", "uint8"
EXTENTS = 1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 24, 33, 64, 65


def generated(seed):
    """A function of arrays, the arrays, and whether its sums and products are exact, in any order of rounding."""
    rng = np.random.default_rng(seed)
    dims = int(rng.choice([2, 2, 2, 3, 3, 4]))
    most = {2: 14, 3: 12, 4: 8}[dims]
    shape = tuple(int(n) for n in rng.choice(EXTENTS[:most], size=dims))
    element, exact = str(rng.choice(ELEMENTS)), bool(seed % 4)
    given = [numbers(rng, shape, element, exact) for _ in range(int(rng.integers(1, 4)))]
    if rng.random() < 0.3:
        given.append(numbers(rng, shape[int(rng.integers(1, dims)) :], element, exact))
    seeds = rng.integers(1 << 30, size=int(rng.integers(3, 14)))
    count = int(rng.integers(1, 4))

    def function(*xs):
        values = [lax.broadcast_in_dim(x, shape, tuple(range(dims - x.ndim, dims))) for x in xs]
        for one in seeds:
            own = np.random.default_rng(one)
            value = own.choice(len(MOVES) + 4)
            step = MOVES[value] if value < len(MOVES) else arithmetic
            values.append(step(own, values, element))
        return values[-count:]

    return function, given, exact


def numbers(rng, shape, element, exact):
    """Numbers of an array: small ones that are exact in sums and products, or any; among floats also special ones."""
    if not element.startswith("float"):
        return rng.integers(0, 9, size=shape).astype(element)
    x = rng.integers(-3, 4, size=shape).astype(element) if exact else rng.normal(size=shape).astype(element)
    if rng.random() < 0.3 and x.size:
        x.reshape(-1)[rng.integers(x.size, size=3)] = [np.nan, np.inf, -0.0]
    return x


def one_of(rng, values):
    return values[int(rng.integers(max(0, len(values) - 5), len(values)))]


def cropped(rng, *values):
    """Parts of values that have one shape, each at an offset of its own."""
    shape = tuple(map(min, zip(*(x.shape for x in values), strict=True)))
    shape = tuple(max(min(n, 1), n - int(rng.integers(0, 5))) if rng.random() < 0.6 else n for n in shape)
    starts = [[int(rng.integers(0, n - m + 1)) for n, m in zip(x.shape, shape, strict=True)] for x in values]
    return [
        lax.slice(x, start, [a + n for a, n in zip(start, shape, strict=True)])
        for x, start in zip(values, starts, strict=True)
    ]


def arithmetic(rng, values, element):
    x, y = cropped(rng, one_of(rng, values), one_of(rng, values))
    name = rng.choice(["add", "add", "sub", "sub", "mul", "max", "min"])
    if name == "mul":
        y = lax.rem(y, jnp.asarray(3, y.dtype)) if not element.startswith("float") else jnp.where(jnp.abs(y) < 3, y, 2)
        x = jnp.where(jnp.abs(x) < 99, x, 1) if element.startswith("float") else x
    return getattr(lax, name)(x, y)


def chosen(rng, values, element):
    a, b, x, y = cropped(rng, *(one_of(rng, values) for _ in range(4)))
    return jnp.where(a > b, x, y)


def where_positions(rng, values, element):
    (x,) = cropped(rng, one_of(rng, values))
    axis = int(rng.integers(x.ndim))
    at = lax.broadcasted_iota(np.int32, x.shape, axis)
    return jnp.where(at < int(rng.integers(0, x.shape[axis] + 1)), x, jnp.zeros_like(x))


def periodic(rng, values, element):
    x = one_of(rng, values)
    axis = int(rng.integers(x.ndim))
    return jnp.roll(x, int(rng.integers(-4, 5)) % max(1, x.shape[axis]), axis)


def padded(rng, values, element):
    x = one_of(rng, values)
    low, high = rng.integers(0, 4, size=(2, x.ndim)) * (rng.random(size=(2, x.ndim)) < 0.5)
    return lax.pad(x, jnp.asarray(2, x.dtype), [(int(a), int(b), 0) for a, b in zip(low, high, strict=True)])


def extended(rng, values, element):
    x = one_of(rng, values)
    axis = int(rng.integers(x.ndim))
    first, last = (lax.slice_in_dim(x, a, a + 1, axis=axis) for a in (0, x.shape[axis] - 1))
    return lax.concatenate([first, x, last], axis)


def updated(rng, values, element):
    x, y = one_of(rng, values), one_of(rng, values)
    shape = tuple(map(min, zip(x.shape, y.shape, strict=True)))
    part = lax.slice(y, [0] * y.ndim, [max(min(1, n), n - int(rng.integers(0, 4))) for n in shape])
    at = [int(rng.integers(0, n - m + 1)) for n, m in zip(x.shape, part.shape, strict=True)]
    if rng.random() < 0.5:
        return lax.dynamic_update_slice(x, part, at)
    where = tuple(slice(a, a + n) for a, n in zip(at, part.shape, strict=True))
    return x.at[where].add(part) if rng.random() < 0.3 else x.at[where].set(part)


def stored(rng, values, element):
    return lax.optimization_barrier(one_of(rng, values))


def turned(rng, values, element):
    x = one_of(rng, values)
    return lax.rev(x, (int(rng.integers(x.ndim)),))


def strided(rng, values, element):
    x = one_of(rng, values)
    steps = [2 if n > 6 and rng.random() < 0.2 else 1 for n in x.shape]
    return lax.slice(x, [0] * x.ndim, x.shape, steps)


def folded(rng, values, element):
    """A sum of neighbours, written out."""
    x = one_of(rng, values)
    axis = int(rng.integers(x.ndim))
    n = x.shape[axis]
    if n < 4:
        return x
    return sum(lax.slice_in_dim(x, k, n - 2 + k, axis=axis) for k in range(3))


def folds(rng, values, element):
    """A fold of the last axes, or of others, which is a result or goes on as rows."""
    x = one_of(rng, values)
    if element.startswith("float"):
        # whole numbers have one sum in any order; and XLA's minimum of a row drops a NaN
        x = jnp.where(x != x, jnp.ones_like(x), jnp.round(jnp.clip(x, -8, 8)))
    axes = tuple(range(int(rng.integers(0, x.ndim)), x.ndim)) if rng.random() < 0.8 else (0,)
    found = getattr(jnp, rng.choice(["sum", "max", "min"]))(x, axis=axes)
    if element == "uint8":
        found = found.astype(element)
    whole = lax.broadcast_in_dim(found, x.shape, [k for k in range(x.ndim) if k not in axes])
    return jnp.where(whole > 50, x, whole.astype(x.dtype))


def taken(rng, values, element):
    """Rows, or columns, at indices: of several tables their sum, of one with holes zeros there."""
    x = one_of(rng, values)
    axis, count = int(rng.integers(x.ndim)), int(rng.integers(1, 4))
    n = x.shape[axis] if rng.random() < 0.6 else int(rng.choice(EXTENTS))
    total = None
    for _ in range(count):
        at = jnp.asarray(rng.integers(x.shape[axis], size=n), jnp.int32)
        rows = jnp.asarray(x).at[(*[slice(None)] * axis, at)].get(mode="promise_in_bounds")
        if rng.random() < 0.4:
            holes = lax.broadcast_in_dim(at % 3 == 0, rows.shape, (axis,))
            rows = jnp.where(holes, jnp.zeros_like(rows), rows)
        total = rows if total is None else lax.add(total, rows)
    return total


MOVES = chosen, where_positions, periodic, padded, extended, updated, stored, turned, strided, folded, folds, taken
