"""A call that is being read, and the table of those who read calls."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NoReturn

from tensorir.runtime.errors import Span, did_you_mean
from tensorir.tir import nodes as n
from tensorir.tir.dtypes import FLOAT32, DataType
from tensorir.tir.script.syntax import Located
from tensorir.tir.script.values import (
    Value,
    entries,
)
from tensorir.tir.script.words import count, describe

if TYPE_CHECKING:
    from tensorir.tir.script.evaluate import Evaluator


@dataclass
class Call:
    """A call that is being read: its place, and its arguments by position and by name."""

    reader: Evaluator
    node: ast.Call
    name: str
    args: list[Value]
    kwargs: dict[str, Value]

    @property
    def span(self) -> Span:
        return self.reader.text.span(self.node)

    def take(self, *names: str, required: int = 0) -> list[Value]:
        """The arguments under these names, None where one is left out; refuses others."""
        if len(self.args) > len(names):
            self.fail("TS24", f"T.{self.name} takes {count(len(names), 'argument')}, and this gives {len(self.args)}.")
        found: dict[str, Value] = dict(zip(names, self.args, strict=False))
        for key, value in self.kwargs.items():
            if key not in names:
                self.fail("TS24", f"T.{self.name} has no parameter {key!r}.", did_you_mean(key, names))
            if key in found:
                self.fail("TS24", f"T.{self.name} is given {key!r} twice.")
            found[key] = value
        for k, name in enumerate(names[:required]):
            if found.get(name) is None:
                place = self.place(k, name) if name in found else self.node
                if isinstance(place, ast.Name):
                    help = f"give it a value: parse(text, names={{{place.id!r}: ...}})."
                    self.reader.fail(place, "TS24", f"{place.id!r} is None, where T.{self.name} needs {name!r}.", help)
                self.fail("TS24", f"T.{self.name} needs {name!r}.")
        return [found.get(name) for name in names]

    def untyped(self) -> Call:
        """The call without `dtype=`, which TVM drops where the operands tell the type of the result."""
        return replace(self, kwargs={key: value for key, value in self.kwargs.items() if key != "dtype"})

    def converted(self) -> tuple[Value, Value]:
        """The data type and the value of a conversion, which may come first where the type is given by name."""
        if len(self.args) == 1 and "dtype" in self.kwargs:
            (value,) = self.args
            dtype = self.kwargs["dtype"]
            if further := self.kwargs.keys() - {"dtype"}:
                self.fail("TS24", f"T.{self.name} has no parameter {min(further)!r}.")
            return dtype, value
        dtype, value = self.take("dtype", "value", required=2)
        return dtype, value

    def fail(self, code: str, message: str, help: str = "") -> NoReturn:
        self.reader.fail(self.node, code, message, help)

    def expr(self, value: Value, dtype: DataType | None = None) -> n.Expr:
        return self.reader.as_expr(value, self.node, dtype)

    def place(self, position: int, name: str) -> Located:
        """Where the text gives an argument; the call, where it does not say."""
        if position < len(self.node.args) and not any(isinstance(a, ast.Starred) for a in self.node.args):
            return self.node.args[position]
        return next((keyword.value for keyword in self.node.keywords if keyword.arg == name), self.node)

    def dtype(self, value: Value, default: DataType = FLOAT32) -> DataType:
        return default if value is None else self.reader.dtype(value, self.node)

    def string(self, value: Value, what: str) -> str:
        return self.reader.string(value, self.node, what)

    def number(self, value: Value, what: str) -> int:
        return self.reader.as_number(value, self.node, what)

    def annotations(self, value: Value) -> dict[str, n.Attribute]:
        if value is None:
            return {}
        found = entries(value)
        if found is None:
            self.fail("TS21", f"annotations are a mapping, and this is {describe(value)}.")
        reader, node = self.reader, self.node
        return {reader.string(key, node, "a key"): reader.attribute(item, node) for key, item in found.items()}


Maker = Callable[[Call], Value]
MAKERS: dict[str, Maker] = {}


def makes(*names: str) -> Callable[[Maker], Maker]:
    """Register a maker under names of the dialect `T`."""

    def register(maker: Maker) -> Maker:
        MAKERS.update(dict.fromkeys(names, maker))
        return maker

    return register
