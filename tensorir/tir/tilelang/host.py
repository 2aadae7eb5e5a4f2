"""Python's own functions, as far as a text of TileLang computes its constants by them.

>>> constant_function("math.log2")(8), method([1, 2], "index")(2), method("f8", "startswith")("f")
(3.0, 1, True)
>>> constant_function("os.system") is None, method([], "__class__") is None
(True, True)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, cast

from tensorir.tir.dtypes import DataType
from tensorir.tir.script.values import DataTypeName, Value

__all__ = ["MAX_ITEMS", "NAMES", "constant_function", "data_type", "items_of", "library_value", "method", "plain"]

MAX_ITEMS = 100_000
"""How many items a sequence of constants may have."""


def _ceildiv(a: int, b: int) -> int:
    return -(-a // b)


def _next_power(n: int) -> int:
    return 1 << (int(n) - 1).bit_length()


_PYTHON: dict[str, Callable[..., Any]] = {
    "abs": abs, "all": all, "any": any, "bool": bool, "dict": dict, "divmod": divmod, "enumerate": enumerate,
    "float": float, "int": int, "len": len, "list": list, "max": max, "min": min, "range": range,
    "reversed": reversed, "round": round, "set": set, "sorted": sorted, "str": str, "sum": sum, "tuple": tuple,
    "zip": zip,
}  # fmt: skip
NAMES = frozenset((*_PYTHON, "isinstance", "print", "type", "TypeVar", "__name__"))
"""Names that Python has by itself and a text may use."""
_LIBRARIES: dict[str, Callable[..., Any]] = {
    **{f"math.{f}": cast("Callable[..., Any]", getattr(math, f)) for f in (
        "ceil", "exp", "exp2", "floor", "gcd", "isqrt", "lcm", "log", "log2", "log10", "pow", "prod", "sqrt",
    )},
    "tilelang.cdiv": _ceildiv, "tilelang.next_power_of_2": _next_power,
    "tilelang.math.cdiv": _ceildiv, "tilelang.math.next_power_of_2": _next_power,
}  # fmt: skip
_VALUES = {"math.pi": math.pi, "math.e": math.e, "math.inf": math.inf, "math.nan": math.nan}
_METHODS: dict[type[object], tuple[str, ...]] = {
    str: (
        "endswith", "isalpha", "isdigit", "join", "lower", "lstrip", "removeprefix", "removesuffix",
        "replace", "rstrip", "split", "startswith", "strip", "upper",
    ),
    list: ("append", "count", "extend", "index", "insert", "pop"),
    tuple: ("count", "index"),
    dict: ("get", "items", "keys", "values"),
}  # fmt: skip
_SHORT = {
    "half": "float16", "float": "float32", "double": "float64", "char": "int8", "short": "int16", "int": "int32",
    "long": "int64", "bool": "bool", "tfloat32": "float32",
}  # fmt: skip


def constant_function(path: str) -> Callable[..., Any] | None:
    """The function of constants that a name of Python or of a library stands for; None for all others."""
    return _PYTHON.get(path) or _LIBRARIES.get(path)


def library_value(path: str) -> Value | None:
    """A constant of a library: `math.pi`, or the data type `torch.float16`."""
    if path in _VALUES:
        return _VALUES[path]
    library, _, name = path.rpartition(".")
    return data_type(name) if library in ("torch", "numpy", "jax.numpy", "ml_dtypes") else None


def data_type(name: str) -> DataTypeName | None:
    """The data type of a name, short names included: `half`, `float16`."""
    try:
        found = DataType.parse(_SHORT.get(name, name))
    except ValueError:
        return None
    return (
        None
        if found.is_handle or found.is_void or (found.code in ("uint", "bfloat") and not found.bits)
        else DataTypeName(found)
    )


def method(value: Value, name: str) -> Callable[..., Any] | None:
    """A method of a string, a sequence or a mapping of constants; None where it has none of this name here."""
    for kind, names in _METHODS.items():
        if isinstance(value, kind) and name in names:
            return cast("Callable[..., Any]", getattr(value, name))
    return None


def items_of(value: Value) -> list[Value] | None:
    """The items of a sequence or mapping of constants, at most one more than there may be; None of anything else."""
    if isinstance(value, list | tuple | dict | set | range | enumerate | zip | reversed | str):
        return list(islice(cast("Iterable[Value]", value), MAX_ITEMS + 1))
    return None


def plain(value: Value) -> Value:
    """A value as Python compares and prints it: data types are their names."""
    match value:
        case DataTypeName(dtype):
            return str(dtype)
        case DataType():
            return str(value)
        case list() | tuple() | set() if any(
            isinstance(item, DataTypeName | DataType) for item in cast("list[Value]", value)
        ):
            return type(cast("list[Value]", value))(plain(item) for item in cast("list[Value]", value))
        case _:
            return value
