"""The state of reading a text of TileLang, and Python's own functions on its constants.

Python's own functions, as far as a text of TileLang computes its constants by them.

>>> constant_function("math.log2")(8), method([1, 2], "index")(2), method("f8", "startswith")("f")
(3.0, 1, True)
>>> constant_function("os.system") is None, method([], "__class__") is None
(True, True)
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal, NoReturn, cast

from tensorir.runtime.errors import Diagnostic
from tensorir.tir import nodes as n
from tensorir.tir.dtypes import DataType
from tensorir.tir.script.body import FunctionBody
from tensorir.tir.script.evaluate import Evaluator
from tensorir.tir.script.syntax import Located
from tensorir.tir.script.values import DataTypeName, Name, Value

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
    list: ("append", "clear", "copy", "count", "extend", "index", "insert", "pop", "remove", "reverse", "sort"),
    tuple: ("count", "index"),
    dict: ("clear", "copy", "get", "items", "keys", "pop", "setdefault", "update", "values"),
    set: ("add", "clear", "copy", "discard", "remove", "update"),
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


# What is known while a text of TileLang is read: where statements go, what is given, which kernel is around.
#
# Functions of Python in the text are followed, never executed: constants, sequences and functions of the text are
# values here, tensors and scalars of a kernel are nodes of TIR. What else Python would make is `Unknown` until it is
# needed.

MAX_CALLS = 40
"""How deep functions of a text may call each other."""

Kind = Literal["python", "macro", "kernel", "factory"]


@dataclass(frozen=True, eq=False)
class Function:
    """A function of the text, with the names around it.

    A kernel becomes a function of TIR (`@T.prim_func`, or `@tilelang.jit` around a T.Kernel); a factory makes one.
    """

    node: ast.FunctionDef | ast.Lambda
    kind: Kind
    frames: tuple[dict[str, Value], ...]
    defaults: Mapping[str, Value]
    alias: str = ""
    """Another name of the text for it: `fast = matmul` is a kernel of its own for `names={"fast.M": 128}`."""

    @property
    def name(self) -> str:
        return self.alias or ("<lambda>" if isinstance(self.node, ast.Lambda) else self.node.name)


@dataclass(frozen=True, eq=False)
class Unknown:
    """A value that only Python could compute: its text, and its fault where that is known."""

    text: str
    problem: Diagnostic | None = None


def unknown(value: Value, items: bool = False) -> Unknown | None:
    """The part of a value that only Python could compute, also one of its `items`; None where all is known.

    >>> unknown(Name("host", "torch.version.hip")), unknown([Unknown("f()")]), unknown([Unknown("f()")], items=True)
    (Unknown(text='torch.version.hip', problem=None), None, Unknown(text='f()', problem=None))
    """
    match value:
        case Unknown():
            return value
        case Name("host", path) if "." in path and constant_function(path) is None:
            return Unknown(path)
        case list() | tuple() | set() | dict() if items:
            parts = list(cast("Iterable[Value]", value))
            if isinstance(value, dict):
                parts += cast("dict[Value, Value]", value).values()
            return next((part for item in parts if (part := unknown(item, items)) is not None), None)
        case _:
            return None


@dataclass(frozen=True)
class Launch:
    """`T.Kernel(...)`: extents of the grid, and what is stated about the launch."""

    grid: tuple[n.Expr, ...]
    annotations: Mapping[str, n.Attribute]
    threads: tuple[int, ...] | None
    node: ast.Call


@dataclass(frozen=True)
class Output:
    """`T.empty(shape, dtype)`: a tensor that the kernel gives, a parameter once it has a name."""

    shape: tuple[n.Expr, ...]
    dtype: DataType


@dataclass(frozen=True)
class PersistentLoop:
    """`T.Persistent(...)`: the tiles of a domain that one block takes, in waves of as many as there are blocks."""

    domain: tuple[n.Expr, ...]
    wave: n.Expr
    index: n.Expr
    group: int
    annotations: Mapping[str, n.Attribute]


@dataclass(frozen=True)
class Warps:
    """`T.ws(0)`: the condition under which a thread runs what stands there."""

    condition: n.Expr


class Returned(Exception):
    """A function of the text has come to its end with a value."""

    def __init__(self, value: Value) -> None:
        super().__init__()
        self.value = value


@dataclass
class Context:
    """The reader of one text."""

    reader: Evaluator
    body: FunctionBody
    names: Mapping[str, Value]
    """Values that are given from outside, by name, or by function and name: `matmul.block_M`."""
    used: set[str] = field(default_factory=set[str])
    """Those of them that something asked for."""
    staged: bool = False
    """Whether statements are those of a kernel: loops over ranges and conditions on tensors are nodes of TIR."""
    function: str = ""
    launch: Launch | None = None
    blocks: tuple[n.Var, ...] = ()
    """The variables of the grid around."""
    threads: tuple[n.Buffer, ...] = ()
    """The scalars that hold a thread's place in its block."""
    waiting: dict[str, n.Var] = field(default_factory=dict[str, n.Var])
    """Parameters of a kernel whose tensors a statement has yet to state."""
    outputs: list[n.Buffer] = field(default_factory=list[n.Buffer])
    """Tensors made by T.empty, in order."""
    made: list[tuple[Function, n.PrimFunc]] = field(default_factory=list["tuple[Function, n.PrimFunc]"])
    """Kernels that were made so far, by the functions that they are."""
    symbols: dict[tuple[str, str], n.Var] = field(default_factory=dict[tuple[str, str], n.Var])
    """Sizes that arguments tell, by the function that states them, and name."""
    lets: dict[n.Buffer, n.Expr] = field(default_factory=dict[n.Buffer, n.Expr])
    """What names of values stand for: a tile operation on a name of an element starts at that element."""
    unrolling: int = 0
    """How many suites are open around the loop over constants that is read; 0 outside of one."""
    depth: int = 0

    def fail(self, node: Located, code: str, message: str, help: str = "") -> NoReturn:
        self.reader.fail(node, code, message, help)

    def given(self, name: str) -> Value | None:
        """The value given for a name of the function that is read, or of any."""
        for key in (f"{self.function}.{name}", name):
            if key in self.names:
                self.used.add(key)
                return self.names[key]
        return None

    def needs(self, node: Located, value: Unknown, name: str = "") -> NoReturn:
        """Refuse a value that only Python knows."""
        subject = f"{name!r} is {value.text}" if name else value.text
        help = f"give its value: parse(text, names={{{name!r}: ...}})." if name else "give it a name, and its value."
        self.fail(node, "TS35", f"{subject}, and Python is read here, never executed.", help)

    @contextmanager
    def within(self, frames: tuple[dict[str, Value], ...], node: Located) -> Generator[dict[str, Value]]:
        """The names of a function's surroundings, and a frame of its own."""
        if self.depth >= MAX_CALLS:
            self.fail(node, "TS03", f"functions call each other more than {MAX_CALLS} deep here.")
        scope, staged, function = self.reader.scope, self.staged, self.function
        before, own = scope.frames, dict[str, Value]()
        scope.frames = [*frames, own]
        self.depth += 1
        try:
            with self.looping():
                yield own
        finally:
            scope.frames, self.staged, self.function = before, staged, function
            self.depth -= 1

    @contextmanager
    def looping(self, unrolling: int = 0) -> Generator[None]:
        """A loop is read: one over constants in so many open suites, or one of the kernel."""
        before, self.unrolling = self.unrolling, unrolling
        try:
            yield
        finally:
            self.unrolling = before


def is_host(value: Value) -> bool:
    """True if a value is one of Python, which takes no part in a kernel until it is put into an expression."""
    if value is None or isinstance(value, n.IntImm):
        return value is None
    return isinstance(
        value, bool | int | float | str | tuple | list | dict | set | range | DataType | DataTypeName | Name | Function
    )
