"""Expressions of TVMScript: a tree of Python's grammar to a node of TIR, a Python constant, or a form of a statement.

The white list is the table `_RULES`: a kind of node that has no row is refused. Chains of operators are read in a loop,
so that only brackets nest; `_MAX_DEPTH` bounds the rest.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

from tensorir.errors import did_you_mean
from tensorir.source import Source, Span
from tensorir.tir import nodes as n
from tensorir.tir.build import const
from tensorir.tir.dtypes import BOOL, HANDLE, INT32, INT64, DataType
from tensorir.tir.script.arithmetic import IllTyped, as_expr, binary, compare, logical, match, negate
from tensorir.tir.script.extents import extent
from tensorir.tir.script.syntax import Failure, Located, Text, parse_expression
from tensorir.tir.script.values import (
    BoundMethod,
    Broken,
    Closure,
    DataTypeName,
    LetType,
    LocalVector,
    Metadata,
    ModuleRef,
    Name,
    Scalar,
    Scope,
    TypeVariable,
    Value,
    entries,
    members,
)

if TYPE_CHECKING:
    from tensorir.tir.relax.nodes import RelaxType

__all__ = ["Evaluator", "describe", "point"]

_MAX_DEPTH = 120

_SYMBOLS: dict[type[ast.AST], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.And: "and",
    ast.Or: "or",
}
DIALECTS = {"T": "T", "I": "I", "R": "R", "tir": "T", "tirx": "T", "relax": "R", "ir": "I", "Tx": "T"}
DIALECTS.update({"tvm": "tvm", "ti": "tvm", "tensorir": "tvm"})


class Evaluator:
    """Reads expressions of one text, with the names that are in scope."""

    def __init__(self, text: Text, scope: Scope, old: bool) -> None:
        self.text = text
        self.scope = scope
        self.old = old
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
        self.relax_types: dict[str, RelaxType] = {}
        """Types of the module's functions of Relax."""
        self._depth = 0

    # ------------------------------------------------------------------------------------------- narrowing

    def fail(self, node: Located, code: str, message: str, help: str = "") -> NoReturn:
        self.text.fail(node, code, message, help)

    def value(self, node: ast.expr) -> Value:
        """Whatever the expression stands for."""
        rule = _RULES.get(type(node))
        if rule is None:
            self.fail(node, "TS07", f"{_NOT_PART.get(type(node).__name__, 'this')} is no part of TVMScript.")
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
            case n.Buffer() if _is_one_element(value):
                return n.BufferLoad(value, (const(0, INT32),), span=self.text.span(node))
            case Broken():
                raise Failure(())
            case _:
                self.fail(node, "TS21", f"an expression stands here, and this is {describe(value)}.")

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
        if isinstance(item, n.Var):
            return item
        if isinstance(item, float):
            self.fail(node, "TS21", "a size is an integer, and this is a float.")
        return self.as_expr(item, node, dtype)

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
                if hasattr(part, field):
                    setattr(part, field, getattr(node, field))
        return self.expr(tree)

    def _symbol(self, name: str, span: Span) -> n.Expr:
        found = self.scope.find(name)
        if isinstance(found, n.Var):
            return found
        dtype = self.signature.get(name, self.symbol_dtype)
        var = n.Var(name, n.PrimType(dtype), span)
        self.scope.define(name, var)
        return var

    def attribute(self, value: Value, node: Located) -> n.Attribute:
        """A value of an attribute or annotation."""
        if (items := members(value)) is not None:
            return tuple(self.attribute(item, node) for item in items)
        if (found := entries(value)) is not None:
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
            known = [name for name in self.scope.names() if not name.startswith("_")]
            self.fail(node, "TS10", f"{node.id!r} is not defined here.", help=did_you_mean(node.id, known))
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
        if node.attr.startswith("__"):
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

    # ---------------------------------------------------------------------------------------- operators

    def constant(self, node: ast.Constant) -> Value:
        if isinstance(node.value, bytes | complex) or node.value is Ellipsis:
            self.fail(node, "TS07", f"{type(node.value).__name__} constants are no part of TVMScript.")
        return node.value

    def sequence(self, node: ast.List | ast.Tuple) -> Value:
        items: list[Value] = []
        for item in node.elts:
            if isinstance(item, ast.Starred):
                inner = self.value(item.value)
                items.extend(self._spread(inner, item))
            else:
                items.append(self.value(item))
        return items if isinstance(node, ast.List) else tuple(items)

    def _spread(self, value: Value, node: Located) -> list[Value]:
        items = members(value)
        if items is None:
            self.fail(node, "TS21", f"'*' spreads a tuple or a list, and this is {describe(value)}.")
        return items

    def mapping(self, node: ast.Dict) -> Value:
        entries: dict[Value, Value] = {}
        for key, item in zip(node.keys, node.values, strict=True):
            if key is None:
                self.fail(item, "TS07", "'**' is no part of TVMScript.")
            found = self.value(key)
            if not isinstance(found, str | int | n.Var):
                self.fail(key, "TS21", f"a key is a string, and this is {describe(found)}.")
            entries[found] = self.value(item)
        return entries

    def binary(self, node: ast.BinOp) -> Value:
        """A left-deep chain is read in a loop: long sums do not nest."""
        spine: list[ast.BinOp] = [node]
        while isinstance(left := spine[-1].left, ast.BinOp):
            spine.append(left)
        result = self.operand(spine[-1].left)
        for part in reversed(spine):
            symbol = _SYMBOLS.get(type(part.op))
            if symbol is None:
                self.fail(part, "TS07", "'@' is no part of TVMScript.")
            right = self.operand(part.right)
            if symbol == "**" and (isinstance(result, n.Expr) or isinstance(right, n.Expr)):
                self.fail(part, "TS20", "'**' is no operator of TIR.", help="write T.pow(a, b).")
            try:
                result = binary(symbol, result, right, self.text.span(part))
            except IllTyped as error:
                self.fail(part, "TS20", str(error))
        return result

    def operand(self, node: ast.expr) -> Value:
        """An operand: Python's values as they are, everything else as an expression."""
        value = self.value(node)
        if isinstance(value, n.Var):
            return self.as_expr(value, node)
        if isinstance(value, bool | int | float | str | tuple | list | n.Expr):
            return value  # type: ignore[return-value]
        return self.as_expr(value, node)

    def unary(self, node: ast.UnaryOp) -> Value:
        value = self.operand(node.operand)
        span = self.text.span(node)
        match node.op:
            case ast.USub():
                return negate(value, span)
            case ast.UAdd():
                return value
            case ast.Not():
                if isinstance(value, bool | int | float | str | tuple | list):
                    return not value
                return n.Not(self.as_expr(value, node), span)
            case ast.Invert():
                if isinstance(value, int):
                    return ~value
                inner = self.as_expr(value, node)
                if inner.dtype.is_float:
                    raise IllTyped(f"'~' takes integers, and this is {inner.dtype}.")
                return n.Call(inner.dtype, "bitwise_not", (inner,), span=span)
            case _:
                self.fail(node, "TS07", "this operator is no part of TVMScript.")

    def connective(self, node: ast.BoolOp) -> Value:
        word = _SYMBOLS[type(node.op)]
        result = self.operand(node.values[0])
        first = self.text.span(node.values[0])
        for operand in node.values[1:]:
            right = self.operand(operand)
            result = logical(word, result, right, first.to(self.text.span(operand)))
        return result

    def comparison(self, node: ast.Compare) -> Value:
        result: Value | None = None
        left = self.operand(node.left)
        for op, operand in zip(node.ops, node.comparators, strict=True):
            symbol = _SYMBOLS.get(type(op))
            if symbol is None:
                if isinstance(op, ast.Is | ast.IsNot) and isinstance(operand, ast.Constant) and operand.value is None:
                    return (left is None) == isinstance(op, ast.Is)
                self.fail(node, "TS07", f"{type(op).__name__.lower()!r} is no comparison of TVMScript.")
            right = self.operand(operand)
            part = compare(symbol, left, right, self.text.span(node))
            result = part if result is None else logical("and", result, part, self.text.span(node))
            left = right
        return result

    def conditional(self, node: ast.IfExp) -> Value:
        test = self.value(node.test)
        if isinstance(test, bool | int | float | str | tuple | list):
            return self.value(node.body if test else node.orelse)
        a, b = self.operand(node.body), self.operand(node.orelse)
        first = self.as_expr(a, node.body, b.dtype if isinstance(b, n.Expr) else None)
        second = self.as_expr(b, node.orelse, first.dtype)
        first, second = match(first, second)
        condition = self.as_expr(test, node.test)
        return n.Call(first.dtype, "if_then_else", (condition, first, second), span=self.text.span(node))

    def closure(self, node: ast.Lambda) -> Value:
        return Closure(node)

    # ----------------------------------------------------------------------------------- subscripts, calls

    def subscript(self, node: ast.Subscript) -> Value:
        target = self.value(node.value)
        if (items := members(target)) is not None:
            return self._item(items, node)
        if (found := entries(target)) is not None:
            return self._item(found, node)
        match target:
            case n.Buffer():
                return self.access(target, node.slice, node)
            case n.BufferLoad(n.Buffer() as buffer, (n.IntImm(0),)) if _is_one_element(buffer):
                return self.access(buffer, node.slice, node)
            case LetType():
                return LetType(self.type(self.value(node.slice), node.slice))
            case DataTypeName(dtype):
                return LocalVector(dtype, self.exprs(self.value(node.slice), node.slice))
            case Metadata(""):
                return Metadata(self.string(self.value(node.slice), node.slice, "the key"))
            case Metadata(key):
                index = self.number(node.slice, "the index")
                return n.Opaque(f'metadata["{key}"][{index}]', self.text.span(node))
            case Name("T", "Tuple"):
                return n.TupleType()
            case str():
                return self._item(target, node)
            case n.Expr() if target.dtype.lanes > 1:
                index = self.expr(node.slice)
                return n.Shuffle((target,), (index,), self.text.span(node))
            case Broken():
                raise Failure(())
            case _:
                self.fail(node.value, "TS11", f"{describe(target)} cannot be indexed.")

    def _item(self, target: list[Value] | str | dict[Value, Value], node: ast.Subscript) -> Value:
        if isinstance(node.slice, ast.Slice):
            bounds = (node.slice.lower, node.slice.upper, node.slice.step)
            parts = [None if part is None else self.number(part, "a bound") for part in bounds]
            if isinstance(target, dict) or parts[2] == 0:
                self.fail(node, "TS11", "this cannot be sliced.")
            return target[slice(*parts)]
        key = self.value(node.slice)
        key = key.value if isinstance(key, n.IntImm) else key
        try:
            return target[key]  # type: ignore[index]
        except (IndexError, KeyError, TypeError):
            self.fail(node.slice, "TS11", "there is no such member.")

    def access(self, buffer: n.Buffer, slice_: ast.expr, node: Located) -> Value:
        """An element of a buffer, or a region where an index is a slice."""
        parts = slice_.elts if isinstance(slice_, ast.Tuple) else [slice_]
        indices: list[n.Expr | n.Range | _Stride] = []
        for part in parts:
            if isinstance(part, ast.Slice):
                indices.append(self._slice(buffer, part, len(indices)))
            elif isinstance(part, ast.Starred):
                spread = self.value(part.value)
                indices += [self._index(item, part) for item in self._spread(spread, part)]
            else:
                indices.append(self._index(self.value(part), part))
        if len(indices) != len(buffer.shape):
            self.fail(
                node,
                "TS23",
                f"{buffer.name!r} has the shape {_sizes(buffer)}, "
                f"and this gives {count(len(indices), 'index', 'indices')}.",
            )
        span = self.text.span(node)
        plain = tuple(index for index in indices if isinstance(index, n.Expr))
        if len(plain) == len(indices):
            return n.BufferLoad(buffer, plain, span=span)
        if isinstance(stride := indices[-1], _Stride) and len(plain) == len(indices) - 1:
            return n.BufferLoad(buffer, (*plain, stride.ramp(self)), span=span)
        for index in indices:
            if isinstance(index, _Stride):
                self.fail(index.node, "TS23", "only the last index of a load or store may have a step.")
        ranges = tuple(point(i) if isinstance(i, n.Expr) else i for i in indices if not isinstance(i, _Stride))
        return n.BufferRegion(buffer, ranges, span)

    def _index(self, value: Value, node: Located) -> n.Expr | n.Range:
        if isinstance(value, float):
            self.fail(node, "TS21", "an index is an integer, and this is a float.")
        return value if isinstance(value, n.Range) else self.as_expr(value, node)

    def _slice(self, buffer: n.Buffer, node: ast.Slice, position: int) -> n.Range | _Stride:
        if position >= len(buffer.shape):
            self.fail(node, "TS23", f"{buffer.name!r} has the shape {_sizes(buffer)}, and this gives more indices.")
        size = buffer.shape[position]
        stop = size if node.upper is None else self.operand_of(node.upper)
        other = stop.dtype if isinstance(stop, n.Expr) else None
        start = self.as_expr(0 if node.lower is None else self.operand_of(node.lower), node.lower or node, other)
        end = self.as_expr(stop, node.upper or node, start.dtype)
        span = self.text.span(node)
        length = extent(start, end, span)
        if node.step is not None:
            step = self.expr(node.step, start.dtype)
            if not (isinstance(step, n.IntImm) and step.value == 1):
                return _Stride(start, length, step, node)
        if isinstance(start, n.IntImm) and start.value == 0 and start.dtype != length.dtype:
            start = n.IntImm(0, length.dtype, start.span)
        return n.Range(start, length, span)

    def operand_of(self, node: ast.expr) -> int | n.Expr:
        value = self.value(node)
        return value if isinstance(value, int) else self.as_expr(value, node)

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

    def call(self, node: ast.Call) -> Value:
        from tensorir.tir.script.calls.dispatch import call

        target = self.value(node.func)
        args: list[Value] = []
        for arg in node.args:
            if isinstance(arg, ast.Starred):
                spread = self.value(arg.value)
                args.extend(self._spread(spread, arg))
            else:
                args.append(self.value(arg))
        kwargs: dict[str, Value] = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                self.fail(keyword.value, "TS07", "'**' is no part of TVMScript.")
            if keyword.arg == "where" and isinstance(target, Name) and target.path == "Let":
                kwargs[keyword.arg] = self._bindings(keyword.value)
            else:
                kwargs[keyword.arg] = self.value(keyword.value)
        return call(self, node, target, args, kwargs)

    def _bindings(self, node: ast.expr) -> Value:
        if not isinstance(node, ast.Dict):
            self.fail(node, "TS21", "'where' is a mapping of variables to values.")
        return self.mapping(node)

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


class _Stride:
    """A slice with a step: lanes from `start`, `step` apart, as many as fit into `length`."""

    def __init__(self, start: n.Expr, length: n.Expr, step: n.Expr, node: ast.Slice) -> None:
        self.start, self.length, self.step, self.node = start, length, step, node

    def ramp(self, reader: Evaluator) -> n.Expr:
        match self.length, self.step:
            case n.IntImm(length), n.IntImm(step) if step > 0 and length > step:
                return n.Ramp(self.start, self.step, -(-length // step), reader.text.span(self.node))
            case _:
                reader.fail(self.node, "TS23", "a slice with a step has a constant length of several steps.")


def point(index: n.Expr) -> n.Range:
    """The range of one index; a vector's spans from its first element to its last."""
    match index:
        case n.Ramp(base, n.IntImm(step), int(lanes)):
            return n.Range(base, const(step * (lanes - 1) + 1, base.dtype), index.span)
        case _:
            return n.Range(index, const(1, index.dtype if index.dtype.is_integer else INT32), index.span)


def count(number: int, one: str, many: str = "") -> str:
    """A number of things, in words.

    >>> count(1, "index", "indices"), count(2, "argument")
    ('1 index', '2 arguments')
    """
    return f"{number} {one if number == 1 else many or one + 's'}"


def _sizes(buffer: n.Buffer) -> str:
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


def _is_one_element(buffer: n.Buffer) -> bool:
    return len(buffer.shape) == 1 and isinstance(buffer.shape[0], n.IntImm) and buffer.shape[0].value == 1


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


_CONSTANT_NAMES = ("range", "float", "int", "len", "bool", "min", "max", "abs", "TypeVar", "list", "tuple")
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
_RULES: dict[type[ast.expr], Callable[[Evaluator, ast.expr], Value]] = {
    ast.Name: Evaluator.name,
    ast.Attribute: Evaluator.attribute_of,
    ast.Constant: Evaluator.constant,
    ast.List: Evaluator.sequence,
    ast.Tuple: Evaluator.sequence,
    ast.Dict: Evaluator.mapping,
    ast.BinOp: Evaluator.binary,
    ast.UnaryOp: Evaluator.unary,
    ast.BoolOp: Evaluator.connective,
    ast.Compare: Evaluator.comparison,
    ast.IfExp: Evaluator.conditional,
    ast.Lambda: Evaluator.closure,
    ast.Subscript: Evaluator.subscript,
    ast.Call: Evaluator.call,
}  # type: ignore[dict-item]
