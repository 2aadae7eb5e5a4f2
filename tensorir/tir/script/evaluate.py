"""Expressions of TVMScript: a tree of Python's grammar to a node of TIR, a Python constant, or a form of a statement.

The white list is the table `RULES` of `rules`: a kind of node that has no row is refused. Chains of operators are read
in a loop, so that only brackets nest; `_MAX_DEPTH` bounds the rest.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from tensorir.runtime.errors import Source, Span, did_you_mean
from tensorir.tir import nodes as n
from tensorir.tir.build import const
from tensorir.tir.builtins import find
from tensorir.tir.dtypes import BOOL, HANDLE, INT32, INT64, DataType
from tensorir.tir.script.arithmetic import IllTyped, as_expr
from tensorir.tir.script.syntax import Failure, Located, Text, parse_expression
from tensorir.tir.script.values import (
    BoundMethod,
    Broken,
    Closure,
    DataTypeName,
    Language,
    LetType,
    Metadata,
    ModuleRef,
    Name,
    Scalar,
    Scope,
    TypeVariable,
    Value,
    describe,
    entries,
    members,
)

_MAX_DEPTH = 120

DIALECTS = {"T": "T", "I": "I", "R": "R", "tir": "T", "tirx": "T", "relax": "R", "ir": "I", "Tx": "T"}
DIALECTS.update({"tvm": "tvm", "ti": "tvm", "tensorir": "tvm"})


def is_one_element(buffer: n.Buffer) -> bool:
    return len(buffer.shape) == 1 and isinstance(buffer.shape[0], n.IntImm) and buffer.shape[0].value == 1


class Evaluator:
    """Reads expressions of one text, with the names that are in scope, by the rules of kinds of expressions."""

    def __init__(self, text: Text, scope: Scope, old: bool, rules: Rules, language: Language | None = None) -> None:
        self.text = text
        self.rules = rules
        self.scope = scope
        self.old = old
        self.language: Language = language or Language()
        self.loops: dict[n.Var, n.Range] = {}
        """Domains of the loops around."""
        self.views: set[n.Buffer] = set()
        """Buffers that are other names for memory of a buffer."""
        self.results: dict[str, DataType] = {}
        """What calls of the module's functions give."""
        self.signature: dict[str, DataType] = {}
        """Types of scalar parameters that a size in quotes may name before the parameter is read."""
        self.symbol_dtype = INT32
        """The type of a size in quotes that is new."""
        self.graph_types: dict[str, Any] = {}
        """Types of the module's graphs of operators."""
        self._depth = 0

    # ------------------------------------------------------------------------------------------- narrowing

    def fail(self, node: Located, code: str, message: str, help: str = "") -> NoReturn:
        self.text.fail(node, code, message, help)

    def value(self, node: ast.expr) -> Value:
        """Whatever the expression stands for."""
        rule = self.language.expressions.get(type(node)) or self.rules.get(type(node))
        if rule is None:
            what = _NOT_PART.get(type(node).__name__, "this")
            self.fail(node, "TS07", f"{what} is no part of {self.language.title}.")
        self.enter(node)
        try:
            result = rule(self, node)
        except IllTyped as error:
            self.fail(node, "TS20", str(error))
        self.leave()
        return result

    def enter(self, node: Located) -> None:
        """One level deeper; `leave` takes it back, and so does `reset` after a failure."""
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            self._depth = 0
            self.fail(node, "TS03", f"expressions are nested more than {_MAX_DEPTH} deep here.")

    def leave(self) -> None:
        self._depth -= 1

    def reset(self) -> None:
        """After a failed expression: nothing is half read."""
        self._depth = 0

    def expr(self, node: ast.expr, dtype: DataType | None = None) -> n.Expr:
        """The expression as a value of TIR; numbers become constants (of `dtype`)."""
        return self.as_expr(self.value(node), node, dtype)

    def as_expr(self, value: Value, node: Located, dtype: DataType | None = None) -> n.Expr:
        """A value as an expression of TIR."""
        match value:
            case n.Var(name=""):
                self.fail(node, "TS21", f"a variable needs a name: x = T.{value.dtype}().")
            case n.Expr():
                return value
            case n.IterVar():
                return value.var
            case n.BufferRegion():
                return self.vector_load(value, node)
            case bool() | int() | float() | str():
                try:
                    result = as_expr(value, dtype, self.text.span(node))
                except IllTyped as error:
                    self.fail(node, "TS20", str(error))
                assert result is not None
                return result
            case n.Buffer() if is_one_element(value):
                return n.BufferLoad(value, (const(0, INT32),), span=self.text.span(node))
            case Broken():
                raise Failure(())
            case _:
                self.fail(node, "TS21", f"an expression stands here, and this is {describe(value)}.")

    def bound(self, name: str, type: n.Type, value: Value, node: Located) -> n.Expr:
        """The value of a variable of a type; one of another type is refused, as TVM does."""
        result = self.as_expr(value, node, type.dtype if isinstance(type, n.PrimType) else None)
        if isinstance(type, n.PointerType) and not result.dtype.is_handle:
            self.fail(node, "TS20", f"{name!r} is a pointer, but its value is {result.dtype}.")
        if isinstance(type, n.PrimType) and type.dtype != result.dtype:
            help = "" if type.dtype.is_handle else f"cast it: T.Cast({str(type.dtype)!r}, ...)."
            self.fail(node, "TS20", f"{name!r} is {type.dtype}, but its value is {result.dtype}.", help)
        return result

    def condition(self, value: Value, node: Located) -> n.Expr:
        """A value that is asked whether it holds; numbers with a fraction and strings do not say."""
        found = self.as_expr(value, node, BOOL)
        if found.dtype.is_float or isinstance(found, n.StringImm):
            hint = "" if found.dtype.is_handle else f"compare it: x != T.{found.dtype}(0)."
            what = "a string" if found.dtype.is_handle else found.dtype
            self.fail(node, "TS20", f"the condition is {what}, not bool.", hint)
        return found

    def numeric(self, value: n.Expr, node: Located, what: str) -> n.Expr:
        """The expression, which is no string."""
        if isinstance(value, n.StringImm):
            self.fail(node, "TS20", f"{what} is a number, and this is a string.")
        return value

    def number(self, node: ast.expr, what: str) -> int:
        """A Python integer, or a constant."""
        return self.as_number(self.value(node), node, what)

    def as_number(self, value: Value, node: Located, what: str) -> int:
        match value:
            case int():
                return value
            case n.IntImm(v):
                return v
            case Broken():
                raise Failure(())
            case _:
                self.fail(node, "TS21", f"{what} is an integer constant, and this is {describe(value)}.")

    def string(self, value: Value, node: Located, what: str) -> str:
        match value:
            case str():
                return value
            case n.StringImm(text):
                return text
            case Broken():
                raise Failure(())
            case _:
                self.fail(node, "TS21", f"{what} is a string, and this is {describe(value)}.")

    def dtype(self, value: Value, node: Located) -> DataType:
        """A data type: in quotes, or `T.float32`."""
        match value:
            case DataType():
                return value
            case DataTypeName(dtype):
                return dtype
            case str():
                try:
                    return DataType.parse(value)
                except ValueError as error:
                    self.fail(node, "TS22", f"{error}.", help='such as "float32", "int64x4", "bool", "handle".')
            case n.StringImm(text):
                return self.dtype(text, node)
            case n.PrimType(dtype):
                return dtype
            case n.Var() if not value.name:
                return value.dtype
            case n.PointerType():
                return DataType("handle", 64)
            case Broken():
                raise Failure(())
            case _:
                self.fail(node, "TS22", f"a data type stands here, and this is {describe(value)}.")

    def type(self, value: Value, node: Located) -> n.Type:
        """A type of a variable: a data type, or a pointer."""
        match value:
            case n.PrimType() | n.PointerType() | n.TupleType():
                return value
            case n.Var() if not value.name:
                return value.type
            case None:
                return n.TupleType()
            case Name("T", "handle"):
                return n.PrimType(HANDLE)
            case _:
                return n.PrimType(self.dtype(value, node))

    def exprs(self, value: Value, node: Located, dtype: DataType | None = None) -> tuple[n.Expr, ...]:
        """A list, a tuple or a single one as expressions; strings name sizes that are bound here."""
        items = members(value)
        return tuple(self.size(item, node, dtype) for item in ([value] if items is None else items))

    def size(self, item: Value, node: Located, dtype: DataType | None = None) -> n.Expr:
        if isinstance(item, str):
            return self.quoted(item, node)
        if isinstance(item, float):
            self.fail(node, "TS21", "a size is an integer, and this is a float.")
        result = item if isinstance(item, n.Var) else self.as_expr(item, node, dtype)
        if result.dtype.is_handle:
            self.fail(node, "TS21", "a size is an integer, and this is a pointer.")
        return result

    def quoted(self, text: str, node: Located) -> n.Expr:
        """A size in quotes; names that are new stand for variables of type int32 from here on."""
        span = self.text.span(node)
        if not text:
            return n.Var("", n.PrimType(INT32), span)
        if text.isidentifier():
            return self._symbol(text, span)
        tree = parse_expression(text, Source(self.text.source.name, text), span)
        for part in ast.walk(tree):
            if isinstance(part, ast.Name) and part.id not in DIALECTS:
                self._symbol(part.id, span)
            # Spans inside quotes: the whole string, as the text of the quotes has no place of its own.
            for field in ("lineno", "col_offset", "end_lineno", "end_col_offset"):
                if hasattr(part, field) and not isinstance(node, Span):
                    setattr(part, field, getattr(node, field))
        return self.expr(tree)

    def _symbol(self, name: str, span: Span) -> n.Expr:
        found, stated = self.scope.find(name), self.signature.get(name)
        if isinstance(found, n.Var) and stated in (None, found.dtype):
            return found
        dtype = stated or self.symbol_dtype
        var = n.Var(name, n.PrimType(dtype), span)
        self.scope.define(name, var)
        return var

    def attribute(self, value: Value, node: Located) -> n.Attribute:
        """A value of an attribute or annotation."""
        if (items := members(value)) is not None:
            return tuple(self.attribute(item, node) for item in items)
        if (found := entries(value)) is not None:
            if found and all(isinstance(key, n.Var) for key in found):
                pairs = [(key, self.attribute(item, node)) for key, item in found.items() if isinstance(key, n.Var)]
                return n.MemoryMap(tuple(pairs), self.text.span(node))
            return {self.string(key, node, "a key"): self.attribute(item, node) for key, item in found.items()}
        match value:
            case n.Var(name=""):
                return self.as_expr(value, node)
            case None | bool() | int() | float() | str() | n.Node() | n.PrimType() | n.PointerType() | DataType():
                return value
            case DataTypeName(dtype):
                return dtype
            case Scalar(buffer):
                return n.BufferLoad(buffer, (const(0, INT32),))
            case Closure():
                params, result = self.apply(value, [INT64])
                return n.IndexMap(params, self.exprs(result, node, INT64), None, self.text.span(node))
            case Broken():
                raise Failure(())
            case _:
                self.fail(node, "TS21", f"no attribute can hold {describe(value)}.")

    # -------------------------------------------------------------------------------------------- names

    def name(self, node: ast.Name) -> Value:
        found = self.scope.find(node.id)
        if found is None:
            if node.id in DIALECTS:
                return Name(DIALECTS[node.id], "")
            if node.id == "prim_func":
                return Name("T", "prim_func")
            if node.id in _CONSTANT_NAMES:
                return Name("python", node.id)
            given = (Metadata, ModuleRef)  # names that every text has, and no text writes
            known = [
                name
                for name in self.scope.names()
                if not name.startswith("_") and not isinstance(self.scope.find(name), given)
            ]
            help = did_you_mean(node.id, known)
            if not help.startswith("did you mean"):
                around = f"parse(text, names={{{node.id!r}: ...}}) gives what stood around the text."
                help = f"{help.removesuffix('.')}; {around}" if help else around
            self.fail(node, "TS10", f"{node.id!r} is not defined here.", help=help)
        match found:
            case Broken():
                raise Failure(())
            case Scalar(buffer):
                return n.BufferLoad(buffer, (const(0, INT32),), span=self.text.span(node))
            case TypeVariable(name):
                self.fail(node, "TS10", f"the size {name!r} has a meaning inside of functions only.")
            case _:
                return found

    def attribute_of(self, node: ast.Attribute) -> Value:
        # Intrinsics of CUDA begin so too: `T.cuda.__shfl_sync`.
        known = find(node.attr) is not None or (isinstance(node.value, ast.Attribute) and node.value.attr == "cuda")
        if node.attr.startswith("__") and not known:
            self.fail(node, "TS07", f"the attribute {node.attr!r} is no part of TVMScript.")
        target = self.value(node.value)
        match target:
            case Name("tvm", path):
                return _tvm_name(path, node.attr)
            case Name(dialect, path):
                full = f"{path}.{node.attr}" if path else node.attr
                return self._dialect_name(dialect, full)
            case ModuleRef():
                return n.GlobalVar(node.attr)
            case n.Buffer():
                return self._buffer_field(target, node)
            case n.IterVar() if node.attr in ("var", "dom"):
                return target.var if node.attr == "var" else target.dom
            case DataTypeName() if node.attr in ("dtype", "ty"):
                return target
            case n.PrimType() | n.PointerType() if node.attr == "ty":
                return target
            case n.Var() if node.attr == "ty":
                return target.type
            case n.BufferLoad() if node.attr == "source":
                return target.buffer
            case n.Expr() if node.attr == "dtype":
                return target.dtype
            case n.Expr():
                return BoundMethod(target, node.attr)
            case _:
                self.fail(node, "TS11", f"{describe(target)} has no attribute {node.attr!r}.")

    def _dialect_name(self, dialect: str, path: str) -> Value:
        if dialect == "T" and "." not in path:
            if path == "let":
                return LetType(None)
            if (dtype := _dtype_name(path)) is not None:
                return DataTypeName(dtype)
        return Name(dialect, path)

    def _buffer_field(self, buffer: n.Buffer, node: ast.Attribute) -> Value:
        match node.attr:
            case "data" if buffer in self.views:
                # The pointer is that of the buffer viewed; TVM keeps apart through which of the two it was named.
                return n.Call(HANDLE, "buffer_data", (buffer,), span=self.text.span(node))
            case "data":
                return buffer.data
            case "shape":
                return buffer.shape
            case "strides":
                return buffer.strides
            case "elem_offset":
                return const(0, INT32) if buffer.elem_offset is None else buffer.elem_offset
            case "dtype":
                return buffer.dtype
            case "name":
                return buffer.name
            case "ndim":
                return len(buffer.shape)
            case _:
                return BoundMethod(buffer, node.attr)

    # ------------------------------------------------------------------------------------------- operands

    def operand(self, node: ast.expr) -> Value:
        """An operand: Python's values as they are, everything else as an expression."""
        value = self.value(node)
        if isinstance(value, n.Var):
            return self.as_expr(value, node)
        if isinstance(value, bool | int | float | str | tuple | list | n.Expr):
            return value  # type: ignore[return-value]
        return self.as_expr(value, node)

    def spread(self, value: Value, node: Located) -> list[Value]:
        items: list[Value] | None = [*value] if isinstance(value, range) else members(value)
        if items is None:
            self.fail(node, "TS21", f"'*' spreads a tuple or a list, and this is {describe(value)}.")
        return items

    def vector_load(self, region: n.BufferRegion, node: Located) -> n.Expr:
        """A slice on the right-hand side: the elements as a vector."""
        indices = self.vector_indices(region, node)
        return n.BufferLoad(region.buffer, indices, span=self.text.span(node))

    def vector_indices(self, region: n.BufferRegion, node: Located) -> tuple[n.Expr, ...]:
        """The indices of the elements of a region whose last dimension alone is longer than one."""
        indices: list[n.Expr] = []
        for position, part in enumerate(region.region):
            match part.extent:
                case n.IntImm(1):
                    indices.append(part.min)
                case n.IntImm(lanes) if position == len(region.region) - 1 and lanes > 1:
                    indices.append(n.Ramp(part.min, const(1, part.min.dtype), lanes, part.span))
                case n.Mul() | n.Call() if position == len(region.region) - 1:
                    indices.append(n.Ramp(part.min, const(1, part.min.dtype), part.extent, part.span))
                case _:
                    message = "a slice is a vector only along the last dimension, with a constant length above 0."
                    self.fail(node, "TS23", message)
        return tuple(indices)

    def apply(self, closure: Closure, dtypes: list[DataType]) -> tuple[tuple[n.Var, ...], Value]:
        """A lambda on fresh variables: these, and what it gives."""
        arguments = closure.node.args
        if arguments.vararg or arguments.kwonlyargs or arguments.kwarg or arguments.defaults or arguments.posonlyargs:
            self.fail(closure.node, "TS07", "a lambda of TVMScript has plain parameters only.")
        if len(dtypes) == 1:
            dtypes = dtypes * len(arguments.args)
        if len(dtypes) != len(arguments.args):
            self.fail(closure.node, "TS24", f"this lambda must have {len(dtypes)} parameters.")
        self.scope.push()
        try:
            made: list[n.Var] = []
            for argument, dtype in zip(arguments.args, dtypes, strict=True):
                made.append(n.Var(argument.arg, n.PrimType(dtype), self.text.span(argument)))
                self.scope.define(argument.arg, made[-1])
            return tuple(made), self.value(closure.node.body)
        finally:
            self.scope.pop()


def _tvm_name(path: str, attr: str) -> Name:
    """`tvm.script.tir` and its kin are the dialects under their full names."""
    if attr in ("tir", "tirx", "relax", "ir"):
        return Name(DIALECTS[attr], "")
    if attr in ("prim_func", "ir_module"):
        return Name("T" if attr == "prim_func" else "I", attr)
    return Name("tvm", f"{path}.{attr}" if path else attr)


_ALIASES = {"boolean": BOOL, "f32": DataType("float", 32), "f16": DataType("float", 16), "i32": INT32}


def _dtype_name(name: str) -> DataType | None:
    if name in _ALIASES:
        return _ALIASES[name]
    if name in ("float", "int", "uint", "bfloat", "handle"):
        return None
    try:
        return DataType.parse(name)
    except ValueError:
        return None


Rules = Mapping[type[ast.expr], Callable[..., Value]]
"""What reads each kind of expression."""
_CONSTANT_NAMES = ("range", "float", "int", "len", "bool", "min", "max", "abs", "round", "TypeVar", "list", "tuple")
_NOT_PART = {
    "NamedExpr": "an assignment inside of an expression",
    "JoinedStr": "an f-string",
    "ListComp": "a comprehension",
    "SetComp": "a comprehension",
    "DictComp": "a comprehension",
    "GeneratorExp": "a comprehension",
    "Await": "'await'",
    "Yield": "'yield'",
    "YieldFrom": "'yield'",
    "Set": "a set",
    "Starred": "'*' here",
    "Slice": "a slice here",
}
