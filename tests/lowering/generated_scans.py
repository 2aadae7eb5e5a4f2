"""Random programs of `jax.lax` with scans over columns, on data with NaN, infinities, signed zeros and extremes."""

import numpy as np
from jax import lax

WIDE = "float64", "float32"
INTEGERS = "int32", "int64", "int8", "uint8", "uint32", "uint64", "int16"
ELEMENTS = (*WIDE, *WIDE, "int32", "int64", "bool", *INTEGERS)
ROUNDED = frozenset(
    ["div", "sqrt", "rsqrt", "logistic", "integer_pow", "exp", "log", "tanh", "atan2", "pow", "sin", "log1p"]
)
"""Operations on floats whose results are no whole numbers: contraction shows in what is computed of them."""

UNARY = {
    "f": [
        "neg",
        "abs",
        "sign",
        "floor",
        "ceil",
        "round",
        "square",
        "is_finite",
        *sorted(ROUNDED - {"div", "atan2", "pow"}),
    ],
    "i": ["neg", "abs", "sign", "not", "population_count", "clz", "square"],
    "u": ["not", "sign", "population_count", "clz"],
    "b": ["not"],
}
BINARY = {
    "f": ["add", "sub", "mul", "mul", "add", "max", "min", "div", "rem", "lt", "ge", "eq", "ne", "atan2", "pow"],
    "i": ["add", "sub", "mul", "max", "min", "div", "rem", "lt", "ge", "eq", "and", "or", "xor", "shift_left",
          "shift_right_logical", "shift_right_arithmetic"],
    "u": ["add", "sub", "mul", "max", "min", "div", "rem", "lt", "ge", "ne", "and", "or", "xor", "shift_left",
          "shift_right_logical", "shift_right_arithmetic"],
    "b": ["and", "or", "xor", "eq", "ne"],
}  # fmt: skip
FUNCTIONS = {
    "sign": lax.sign, "round": lax.round, "integer_pow": lambda x: lax.integer_pow(x, 3), "and": lax.bitwise_and,
    "or": lax.bitwise_or, "xor": lax.bitwise_xor, "not": lax.bitwise_not,
}  # fmt: skip


def data(rng, shape, element, exact):
    """Small whole numbers, and values at which operations are special."""
    kind = np.dtype(element).kind
    if kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if kind == "f" and not exact:
        return rng.uniform(0.5, 2.0, shape).astype(element)
    x = rng.integers(-4, 5, shape).astype(element) if kind != "u" else rng.integers(0, 9, shape).astype(element)
    info = np.finfo(element) if kind == "f" else np.iinfo(element)
    special = [np.nan, np.inf, -np.inf, -0.0, 0.0] if kind == "f" else [info.min, info.max, 0, 63]
    where = rng.random(shape) < 0.15
    return np.where(where, rng.choice(np.array(special).astype(element), shape), x).astype(element)


def expression(rng, values, exact, steps):
    """Values, and what some operations make of them."""
    values = list(values)
    for _ in range(steps):
        x = values[rng.integers(len(values))]
        kind = x.dtype.kind
        choice = rng.random()
        if choice < 0.25:
            names = [n for n in UNARY[kind] if kind != "f" or not exact or n not in ROUNDED]
            name = names[rng.integers(len(names))]
            values.append(FUNCTIONS.get(name, getattr(lax, name, None))(x))
        elif choice < 0.75:
            names = [n for n in BINARY[kind] if kind != "f" or not exact or n not in ROUNDED]
            name = names[rng.integers(len(names))]
            like = [v for v in values if v.dtype == x.dtype]
            values.append(FUNCTIONS.get(name, getattr(lax, name, None))(x, like[rng.integers(len(like))]))
        elif choice < 0.9:
            if exact or kind != "f":
                values.append(lax.convert_element_type(x, ELEMENTS[rng.integers(len(ELEMENTS))]))
        else:
            like = [v for v in values if v.dtype == x.dtype]
            conditions = [v for v in values if v.dtype == bool]
            if conditions:
                values.append(lax.select(conditions[rng.integers(len(conditions))], x, like[rng.integers(len(like))]))
    return values


def generated(seed, exact=True):
    """A function of arrays, and these: inputs with levels first or last, one or two scans, and what is made of them."""
    rng = np.random.default_rng(seed)
    columns = [(5,), (9,), (2, 11), (8,), (), (3, 1), (17,), (1,), (4, 3)][rng.integers(9)]
    levels = int(rng.integers(1, 8))
    count = int(rng.integers(1, 4))
    last = [bool(rng.integers(2)) for _ in range(count)]
    elements = [ELEMENTS[rng.integers(len(ELEMENTS))] for _ in range(count)]
    extra = [int(rng.integers(0, 2)) for _ in range(count)]
    arrays = [
        data(rng, (*columns, levels + m) if end else (levels + m, *columns), e, exact)
        for end, e, m in zip(last, elements, extra, strict=True)
    ]
    arrays.append(data(rng, columns, elements[0], exact))
    plan = [int(rng.integers(1 << 30)) for _ in range(12)]
    axes = tuple(range(len(columns)))

    def turned(x):
        return lax.transpose(x, (len(columns), *axes)) if len(columns) else x

    def levelled(x, end, m, seed):
        own = np.random.default_rng(seed)
        first = turned(x) if end else x
        start = int(own.integers(0, m + 1))
        first = lax.slice_in_dim(first, start, start + levels, axis=0)
        choice = own.integers(4)
        zero = np.zeros((), x.dtype)
        if choice == 0 and levels > 1:
            first = lax.pad(lax.slice_in_dim(first, 1, levels, axis=0), zero, [(0, 1, 0), *[(0, 0, 0)] * len(columns)])
        if choice == 1 and levels > 1:
            first = lax.concatenate(
                [lax.slice_in_dim(first, 0, 1, axis=0), lax.slice_in_dim(first, 0, levels - 1, axis=0)], 0
            )
        if choice == 2 and columns and columns[-1] > 1:
            n, d = columns[-1], len(columns)
            first = lax.concatenate([lax.slice_in_dim(first, 1, n, axis=d), lax.slice_in_dim(first, 0, 1, axis=d)], d)
        return first

    def function(*arrays):
        *stacked, constant = arrays
        xs = [levelled(x, e, m, s) for x, e, m, s in zip(stacked, last, extra, plan, strict=False)]
        made = []
        for number in range(1 + plan[5] % 2):
            own = np.random.default_rng(plan[6 + number])
            start = [constant, lax.full_like(lax.index_in_dim(xs[0], 0, keepdims=False), 0)][: 1 + int(own.integers(2))]

            def step(state, level, own_seed=plan[8 + number]):
                inner = np.random.default_rng(own_seed)
                found = expression(inner, [*state, *level, constant], exact, 6)
                new = []
                for s in state:
                    like = [v for v in reversed(found) if v.dtype == s.dtype]
                    new.append(like[0])
                return tuple(new), (*new, found[-1])

            _, ys = lax.scan(step, tuple(start), tuple(xs), reverse=bool(own.integers(2)))
            xs = [*xs[: 1 + int(own.integers(len(xs)))], *ys]
            made += ys
        out = expression(np.random.default_rng(plan[10]), made, exact, 2)
        results = [out[-1], made[0], made[-1]]
        return [lax.transpose(r, (*(k + 1 for k in axes), 0)) if plan[11] % 2 else r for r in results]

    return function, arrays
