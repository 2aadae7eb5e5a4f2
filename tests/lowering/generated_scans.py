"""Random programs of `jax.lax` with scans over columns, on data with NaN, infinities, signed zeros and extremes."""

import numpy as np
from jax import lax

WIDE = "float64", "float32"
INTEGERS = "int32", "int64", "int8", "uint8", "uint32", "uint64", "int16", "uint16"
ELEMENTS = (*WIDE, *WIDE, "int32", "int64", "bool", *INTEGERS)
COLUMNS = (5,), (9,), (2, 11), (8,), (), (3, 1), (17,), (1,), (4, 3), (33,), (7,), (2,), (2, 3, 4), (1, 9)
UNARY = {
    "f": ["neg", "abs", "sign", "floor", "ceil", "round", "to_even", "square", "is_finite"],
    "i": ["neg", "abs", "sign", "not", "population_count", "clz", "square", "cube"],
    "u": ["not", "neg", "sign", "population_count", "clz"],
    "b": ["not"],
}  # fmt: skip
NUMBERS = ["add", "sub", "mul", "max", "min", "rem", "lt", "ge", "eq", "ne", "clamp", "reduce_sum", "reduce_max"]
BITS = ["and", "or", "xor", "div", "shift_left", "shift_right_logical", "shift_right_arithmetic", "reduce_and"]
BINARY = {
    "f": [*NUMBERS, "mul", "add", "gt", "le", "reduce_min", "reduce_prod"], "i": [*NUMBERS, *BITS],
    "u": [*NUMBERS, *BITS, "reduce_or"], "b": ["and", "or", "xor", "eq", "ne", "reduce_or", "reduce_and"],
}  # fmt: skip
FUNCTIONS = {
    "sign": lax.sign, "round": lax.round, "and": lax.bitwise_and, "or": lax.bitwise_or, "xor": lax.bitwise_xor,
    "not": lax.bitwise_not, "cube": lambda x: lax.integer_pow(x, 3),
    "to_even": lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN),
    "clamp": lambda x, y: lax.clamp(lax.full_like(x, 1), y, x),
}  # fmt: skip


def data(rng, shape, element):
    """Small whole numbers, and values at which operations are special."""
    kind = np.dtype(element).kind
    if kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    x = rng.integers(-4, 5, shape).astype(element) if kind != "u" else rng.integers(0, 9, shape).astype(element)
    info = np.finfo(element) if kind == "f" else np.iinfo(element)
    special = [np.nan, np.inf, -np.inf, -0.0, 0.0, 256, -(2.0**31), 2.0**63] if kind == "f" else [
        info.min, info.max, 0, 63, 64, 8]  # fmt: skip
    where = rng.random(shape) < 0.15
    return np.where(where, rng.choice(np.array(special, element), shape), x).astype(element)


def applied(name, *values):
    if name.startswith("reduce"):
        return getattr(lax, name)(lax.concatenate([lax.expand_dims(v, [0]) for v in values], 0), (0,))
    return FUNCTIONS.get(name, getattr(lax, name, None))(*values)


def expression(rng, values, steps):
    """Values, and what some operations make of them."""
    values = list(values)
    for _ in range(steps):
        x = values[rng.integers(len(values))]
        kind, choice = x.dtype.kind, rng.random()
        like = [v for v in values if v.dtype == x.dtype]
        other = like[rng.integers(len(like))]
        if choice < 0.7:
            table, operands = (UNARY, [x]) if choice < 0.25 else (BINARY, [x, other])
            values.append(applied(table[kind][rng.integers(len(table[kind]))], *operands))
        elif choice < 0.8:
            values.append(lax.convert_element_type(x, ELEMENTS[rng.integers(len(ELEMENTS))]))
        elif choice < 0.84:
            # a float made of bits would have payloads of NaN, and subnormals
            if kind in "iu":
                values.append(lax.bitcast_convert_type(x, f"{'u' if kind == 'i' else ''}int{x.dtype.itemsize * 8}"))
        elif choice < 0.87:
            axis = int(rng.integers(max(x.ndim, 1)))
            if kind != "b" and x.ndim:
                values.append(lax.broadcasted_iota(x.dtype, x.shape, axis))
        elif choice < 0.9:
            values.append(lax.full_like(x, 3))
        elif conditions := [v for v in values if v.dtype == bool]:
            values.append(lax.select(conditions[rng.integers(len(conditions))], x, other))
    return values


def moved(rng, x, axis):
    """A part of the same size, shifted along an axis, that is padded, turns around, is reversed, or is gathered."""
    n, by = x.shape[axis], 0 if x.shape[axis] == 1 else int(rng.integers(1, x.shape[axis]))
    low, rest = lax.slice_in_dim(x, 0, by, axis=axis), lax.slice_in_dim(x, by, n, axis=axis)
    width = [(0, 0, 0)] * x.ndim
    match rng.integers(6):
        case 0:
            width[axis] = (0, by, 0)
            return lax.pad(rest, lax.full_like(x, 1, shape=()), width)
        case 1:
            width[axis] = (n - by, 0, 0)
            return lax.pad(low, lax.full_like(x, 0, shape=()), width)
        case 2:
            return lax.concatenate([rest, low], axis)
        case 3:
            return lax.rev(x, (axis,))
        case 4:
            width[axis] = (by, -by, 0)
            return lax.pad(x, lax.full_like(x, 0, shape=()), width)
        case _:
            at = rng.integers(0, n, n).astype(["int32", "uint8"][rng.integers(2)])
            table = (slice(None),) * axis + (at,)
            return x.at[table].get(mode="promise_in_bounds")


def generated(seed):
    """A function of arrays, and these: inputs with levels first or last, some scans, and what is made of them."""
    rng = np.random.default_rng(seed)
    columns = COLUMNS[rng.integers(len(COLUMNS))]
    levels = [1, 2, 3, 4, 5, 6, 7, 8, 9, 33][rng.integers(10)]
    count = int(rng.integers(1, 4))
    last = [bool(rng.integers(2)) for _ in range(count)]
    elements = [ELEMENTS[rng.integers(len(ELEMENTS))] for _ in range(count)]
    extra = [int(rng.integers(0, 2)) for _ in range(count)]
    arrays = [
        data(rng, (*columns, levels + m) if end else (levels + m, *columns), e)
        for end, e, m in zip(last, elements, extra, strict=True)
    ]
    arrays.append(data(rng, columns, elements[0]))
    plan = int(rng.integers(1 << 30))
    axes = tuple(range(len(columns)))

    def levelled(own, x, end, m):
        first = lax.transpose(x, (len(columns), *axes)) if end else x
        start = int(own.integers(0, m + 1))
        first = lax.slice_in_dim(first, start, start + levels, axis=0)
        return moved(own, first, int(own.integers(first.ndim))) if own.integers(2) else first

    def function(*arrays):
        own = np.random.default_rng(plan)
        *stacked, constant = arrays
        xs = [levelled(own, x, e, m) for x, e, m in zip(stacked, last, extra, strict=True)]
        made = []
        for _ in range(int(own.integers(1, 4))):
            start = [constant, lax.full_like(lax.index_in_dim(xs[0], 0, keepdims=False), 0)][: int(own.integers(1, 3))]
            seed = int(own.integers(1 << 30))

            def step(state, level, seed=seed):
                inner = np.random.default_rng(seed)
                fixed = [moved(inner, x, int(inner.integers(x.ndim))) for x in (*level, constant) if x.ndim]
                found = expression(inner, [*state, *level, constant, *fixed[: inner.integers(3)]], 6)
                new = [next(v for v in reversed(found) if v.dtype == s.dtype) for s in state]
                return tuple(new), (*new, found[-1])

            _, ys = lax.scan(step, tuple(start), tuple(xs), reverse=bool(own.integers(2)))
            made += ys
            xs = [*xs[: 1 + int(own.integers(len(xs)))], *ys]
            if not own.integers(3):
                xs[-1] = moved(own, xs[-1], int(own.integers(2)) * int(own.integers(xs[-1].ndim)))
        out = expression(own, made, 2)
        results = [out[-1], made[0], made[-1]]
        return [lax.transpose(r, (*(k + 1 for k in axes), 0)) for r in results] if own.integers(2) else results

    return function, arrays
