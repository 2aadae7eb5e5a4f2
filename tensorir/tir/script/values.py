"""Values of expressions of TVMScript, with their words in messages; operators as TVM builds them."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from tensorir.runtime.errors import NOWHERE, Span
from tensorir.tir import nodes as n
from tensorir.tir.dtypes import DataType
from tensorir.tir.nodes import Attribute, Buffer, BufferRegion, Expr, ForKind, IterKind, IterVar, Range, Type, Var

# What an expression of TVMScript can stand for, besides nodes of TIR and plain Python numbers, strings and tuples.


@dataclass(frozen=True, slots=True)
class Name:
    """A dotted name of a dialect: `T.grid` is Name("T", "grid")."""

    dialect: str
    path: str


@dataclass(frozen=True, slots=True)
class DataTypeName:
    """`T.float32`, where it is not called."""

    dtype: DataType


@dataclass(frozen=True, slots=True)
class Metadata:
    """`metadata`, or `metadata["key"]`: what a text refers to and does not hold."""

    key: str = ""


@dataclass(frozen=True, slots=True)
class ModuleRef:
    """The module itself: `cls`, or its class name."""


@dataclass(frozen=True, slots=True)
class TypeVariable:
    """`n = TypeVar("n")`: a size that every function binds anew."""

    name: str


@dataclass(frozen=True, slots=True)
class BoundMethod:
    """A method of a buffer or an expression, before it is called."""

    target: Buffer | Expr
    name: str


@dataclass(frozen=True, slots=True)
class Closure:
    """A lambda, not yet applied."""

    node: ast.Lambda


@dataclass(frozen=True, slots=True)
class BufferSpec:
    """`T.Buffer(...)`, before it has a name; `data` where it is a view."""

    shape: tuple[Expr, ...]
    dtype: DataType
    strides: tuple[Expr, ...]
    elem_offset: Expr | None
    scope: str
    align: int
    offset_factor: int
    axis_separators: tuple[int, ...]
    buffer_type: str
    layout: Attribute
    data: Expr | None = None
    annotations: Mapping[str, Attribute] = field(default_factory=dict[str, "Attribute"])
    source: BufferRegion | Var | Buffer | None = None
    purpose: str = "type"
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True)
class Scalar:
    """A variable of 0.27's text that may be assigned again: a buffer of one element."""

    buffer: Buffer


@dataclass(frozen=True, slots=True)
class LetType:
    """`T.let` or `T.let[type]`."""

    type: Type | None


@dataclass(frozen=True, slots=True)
class LocalVector:
    """`x: T.float32[4]`: a small local buffer."""

    dtype: DataType
    shape: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class LoopForm:
    """The form behind `for ... in`: ranges, one per variable."""

    ranges: tuple[tuple[Expr, Expr], ...]
    kind: ForKind
    thread: str = ""
    annotations: Mapping[str, Attribute] = field(default_factory=dict[str, "Attribute"])
    step: Expr | None = None


@dataclass(frozen=True, slots=True)
class BlockForm:
    """`T.sblock(name)`"""

    name: str
    realize: bool = True


@dataclass(frozen=True, slots=True)
class InitForm:
    """`T.init()`"""


@dataclass(frozen=True, slots=True)
class Axis:
    """An iterator of a block with its value: `T.axis.spatial(dom, value)`."""

    dom: Range
    value: Expr
    kind: IterKind
    dtype: DataType


@dataclass(frozen=True, slots=True)
class ThreadVar:
    """`T.env_thread(tag)`, or `T.launch_thread(tag, extent)`: a thread index that still needs a name."""

    tag: str
    extent: Expr | None = None
    iter_var: IterVar | None = None


@dataclass(frozen=True, slots=True)
class Form:
    """A call that only a statement can use (`T.attr(...)`, `T.allocate(...)`, ...), with its evaluated arguments."""

    name: str
    args: tuple[Value, ...]
    kwargs: Mapping[str, Value]
    span: Span


@dataclass(frozen=True, slots=True)
class Broken:
    """The value of a name whose definition is wrong: uses are not reported again."""


Value = object
"""Anything that an expression can stand for; the evaluator narrows it where it is used."""


def _rules() -> dict[Any, Callable[..., Any]]:
    return {}


@dataclass(frozen=True, slots=True)
class Language:
    """A language by its differences from TVMScript: expressions and statements by kind, calls by name."""

    title: str = "TVMScript"
    expressions: Mapping[type[ast.expr], Callable[..., Value]] = field(default_factory=_rules)
    statements: Mapping[type[ast.stmt], Callable[..., None]] = field(default_factory=_rules)
    makers: Mapping[str, Callable[..., Value]] = field(default_factory=_rules)


def members(value: Value) -> list[Value] | None:
    """The members of a tuple or a list; None of anything else."""
    return list(cast("tuple[Value, ...]", value)) if isinstance(value, tuple | list) else None


def entries(value: Value) -> dict[Value, Value] | None:
    """The entries of a mapping; None of anything else."""
    return cast("dict[Value, Value]", value) if isinstance(value, dict) else None


class Scope:
    """Names of the enclosing blocks, innermost last."""

    def __init__(self, outermost: Mapping[str, Value]) -> None:
        self.frames: list[dict[str, Value]] = [dict(outermost)]

    def push(self) -> None:
        self.frames.append({})

    def pop(self) -> None:
        self.frames.pop()

    def define(self, name: str, value: Value) -> None:
        self.frames[-1][name] = value

    def find(self, name: str) -> Value | None:
        """The value of the name, or None; nothing is bound to None itself in TVMScript."""
        for frame in reversed(self.frames):
            if name in frame:
                return frame[name]
        return None

    def names(self) -> list[str]:
        return [name for frame in reversed(self.frames) for name in frame]


# What values are, in the words of a message.


def count(number: int, one: str, many: str = "") -> str:
    """A number of things, in words.

    >>> count(1, "index", "indices"), count(2, "argument")
    ('1 index', '2 arguments')
    """
    return f"{number} {one if number == 1 else many or one + 's'}"


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint that offers the builtin that is spelled nearly so; a name of a family is near to others of families only.

    >>> nearest("expp", ["exp", "log"]), nearest("foo.bar", ["floor"])
    ("did you mean 'T.exp'?", '')
    """
    near = difflib.get_close_matches(name[:80], [k for k in known if ("." in k) == ("." in name)], n=1)
    return f"did you mean 'T.{near[0]}'?" if near else ""


def sizes_of(buffer: n.Buffer) -> str:
    sizes = [str(size.value) if isinstance(size, n.IntImm) else str(size) for size in buffer.shape]
    return f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"


def describe(value: Value) -> str:
    """A value in the words of a message."""
    match value:
        case None:
            return "None"
        case bool() | int() | float():
            return f"the number {value}"
        case str():
            return "a string"
        case tuple() | list():
            return "a sequence"
        case dict():
            return "a mapping"
        case n.Buffer():
            return f"the buffer {value.name!r}"
        case n.BufferRegion():
            return "a region of a buffer"
        case n.GlobalVar(name):
            return f"the function {name!r}"
        case Name(dialect, path):
            return f"{dialect}.{path}" if path else f"the dialect {dialect}"
        case DataTypeName(dtype):
            return f"the data type {dtype}"
        case Closure():
            return "a lambda"
        case BoundMethod(_, name):
            return f"the method {name!r}"
        case ModuleRef():
            return "the module"
        case n.Expr():
            return f"an expression of type {value.dtype}"
        case _:
            return "something else"


def describe_statement(node: ast.stmt) -> str:
    """A statement of Python in the words of a message."""
    words = {
        "FunctionDef": "a function",
        "AsyncFunctionDef": "an async function",
        "ClassDef": "a class",
        "Import": "an import",
        "ImportFrom": "an import",
        "Try": "'try'",
        "TryStar": "'try'",
        "Raise": "'raise'",
        "Delete": "'del'",
        "Global": "'global'",
        "Nonlocal": "'nonlocal'",
        "Match": "'match'",
        "AsyncFor": "'async for'",
        "AsyncWith": "'async with'",
    }
    return words.get(type(node).__name__, "this")
