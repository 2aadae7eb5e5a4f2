"""What values are, in the words of a message."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable

from tensorir.tir import nodes as n
from tensorir.tir.script.values import (
    BoundMethod,
    Closure,
    DataTypeName,
    ModuleRef,
    Name,
    Value,
)

__all__ = ["count", "describe", "describe_statement", "nearest", "sizes_of"]


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
    """What a value is, in the words of a message."""
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
    """What a statement of Python is, in the words of a message."""
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
