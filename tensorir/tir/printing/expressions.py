"""Expressions and layouts of TIR as TVMScript, and unique names for variables and buffers."""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Protocol

from tensorir.tir import nodes as n
from tensorir.tir.builtins import BUILTINS, Operands, Result
from tensorir.tir.dtypes import BOOL, FLOAT32, INT32, DataType
from tensorir.tir.script.arithmetic import would_fold

# Names for variables and buffers: the hints of the nodes, made unique among the names that are in scope.

_WORDS = "T I R cls Module metadata tvm tir tirx relax ir TypeVar range min max len abs int float bool tuple list"
_RESERVED = {*_WORDS.split(), *keyword.kwlist, *keyword.softkwlist} - {"_"}


class Named(Protocol):
    """A named thing of the text: a variable, or a buffer."""

    @property
    def name(self) -> str: ...


class Names:
    """Names in the text; a scope that ends gives its names free again."""

    def __init__(self, reserved: Iterable[str] = ()) -> None:
        self._taken: set[str] = {*_RESERVED, *reserved}
        self._known: dict[object, str] = {}
        self._scopes: list[list[Named]] = [[]]
        self._owners: dict[n.Var, n.Buffer] = {}
        self._parts: dict[n.Var, tuple[n.Buffer, str]] = {}

    def push(self) -> None:
        self._scopes.append([])

    def pop(self) -> None:
        for node in self._scopes.pop():
            name = self._known.pop(node, None)
            if name is not None:
                self._taken.discard(name)
            if isinstance(node, n.Buffer) and self._owners.get(node.data) is node:
                del self._owners[node.data]

    def define(self, node: Named) -> str:
        """A name for what is bound here."""
        if (known := self._known.get(node)) is not None:
            return known
        base = _identifier(node.name)
        name, count = base, 0
        while name in self._taken:
            count += 1
            name = f"_{count}" if base == "_" else f"{base}_{count}"
        self._taken.add(name)
        self._known[node] = name
        self._scopes[-1].append(node)
        if isinstance(node, n.Buffer):
            self._owners.setdefault(node.data, node)
        return name

    def part(self, var: n.Var, buffer: n.Buffer, field: str) -> None:
        """The variable is known as a part of a buffer, `A.elem_offset`, and has no name of its own."""
        self._parts[var] = buffer, field

    def knows(self, node: n.Node) -> bool:
        return node in self._known or node in self._owners

    def owner(self, data: n.Var) -> n.Buffer | None:
        """The buffer in scope whose memory the variable is."""
        return self._owners.get(data)

    def of(self, node: Named) -> str:
        """The name of what is bound; a buffer's memory is `A.data`, what is bound nowhere has its own name."""
        if (known := self._known.get(node)) is not None:
            return known
        if isinstance(node, n.Var) and (part := self._parts.get(node)) is not None:
            return f"{self.of(part[0])}.{part[1]}"
        if isinstance(node, n.Var) and (owner := self._owners.get(node)) is not None:
            return f"{self._known[owner]}.data"
        return self.define(node)


def _identifier(hint: str) -> str:
    name = re.sub(r"\W", "_", hint, flags=re.ASCII)
    if not name:
        return "v"
    return f"v_{name}" if name[0].isdigit() or name.startswith("__") else name


# Layouts as TVMScript: `T.TileLayout(T.S[(2, 3):(3, 1)] + T.R[2:4 @ Axis.laneid] + 7)`.

Show = Callable[[n.Expr], str]


def layout_text(layout: n.TileLayout | n.ComposeLayout, show: Show) -> str:
    """The call that makes the layout; `show` writes the expressions in it."""
    match layout:
        case n.ComposeLayout(per_element, swizzle, atom, tile, inner):
            flag = "" if inner else ", swizzle_inner=False"
            return f"T.ComposeLayout({per_element}, {swizzle}, {atom}, {layout_text(tile, show)}{flag})"
        case n.TileLayout(shard, replica, offset):
            terms = [f"T.{word}[{_pair(part, show)}]" for word, part in (("S", shard), ("R", replica)) if part]
            terms += [_on_axis(part, show, summand=True) for part in offset]
            return f"T.TileLayout({' + '.join(terms) or 'T.S[()]'})"


def _pair(iterators: Sequence[n.LayoutIter], show: Show) -> str:
    extents = [show(part.extent) for part in iterators]
    strides = [_on_axis(part.stride, show) for part in iterators]
    if len(iterators) == 1:
        return f"{extents[0]}:{strides[0]}"
    return f"({', '.join(extents)}):({', '.join(strides)})"


def _on_axis(part: n.OnAxis, show: Show, summand: bool = False) -> str:
    text = show(part.value)
    plain = isinstance(part.value, n.Var | n.IntImm)
    if part.axis == "m":
        return text if plain or not summand else f"({text})"
    return f"{text if plain else f'({text})'} @ Axis.{part.axis}"


# Expressions of TIR as TVMScript.
#
# An operator is written as one only where reading it gives back the same node; where Python or TVM would fold it, or
# bring its operands to one type, the function of its name stands (`T.Add(x, 0)`).

_TERNARY, _OR, _AND, _NOT, _COMPARE, _BIT_OR, _BIT_XOR, _BIT_AND, _SHIFT, _SUM, _PRODUCT, _UNARY, _ATOM = range(13)

_OPERATORS: dict[type[n.Expr], tuple[str, int]] = {
    n.Add: ("+", _SUM),
    n.Sub: ("-", _SUM),
    n.Mul: ("*", _PRODUCT),
    n.Div: ("/", _PRODUCT),
    n.FloorDiv: ("//", _PRODUCT),
    n.FloorMod: ("%", _PRODUCT),
    n.And: ("and", _AND),
    n.Or: ("or", _OR),
    n.EQ: ("==", _COMPARE),
    n.NE: ("!=", _COMPARE),
    n.LT: ("<", _COMPARE),
    n.LE: ("<=", _COMPARE),
    n.GT: (">", _COMPARE),
    n.GE: (">=", _COMPARE),
}
_BITS = {
    "bitwise_and": ("&", _BIT_AND, "BitwiseAnd"),
    "bitwise_or": ("|", _BIT_OR, "BitwiseOr"),
    "bitwise_xor": ("^", _BIT_XOR, "BitwiseXor"),
    "shift_left": ("<<", _SHIFT, "LShift"),
    "shift_right": (">>", _SHIFT, "RShift"),
}
_FUNCTIONS: dict[type[n.Expr], str] = {n.Mod: "truncmod", n.Min: "min", n.Max: "max"}


def quote(text: str) -> str:
    """A string literal in double quotes."""
    body = text.encode("unicode_escape").decode("ascii").replace('"', '\\"')
    return f'"{body}"'


class ExpressionPrinter:
    """Writes expressions with the names of one function."""

    def __init__(self, names: Names, old: bool = False, module: str = "cls") -> None:
        self.names = names
        self.old = old
        self.module = module

    # ------------------------------------------------------------------------------------------ operators

    def show(self, expr: n.Expr, level: int = _TERNARY, context: DataType | None = None) -> str:
        """The text of an expression, in brackets where it binds less tightly than `level`.

        A plain number stands only where the reader gives it the type that it has: int32, or that of its `context`.
        """
        form = self._operator(expr)
        if form is None:
            return self._atom(expr, context, level)
        # A left-deep chain is written in a loop.
        spine: list[tuple[str, int, n.Expr, n.Expr]] = []
        current = expr
        while form is not None and (not spine or form[1] >= spine[-1][1]) and not self._nests(spine, form):
            left, right = _operands(current)
            spine.append((*form, left, right))
            current = left
            form = self._operator(current)
        symbol, strength, left, right = spine[-1]
        text = self.show(left, strength + 1 if strength == _COMPARE else strength, right.dtype)
        for position in range(len(spine) - 1, -1, -1):
            symbol, strength, left, right = spine[position]
            text = f"{text} {symbol} {self.show(right, strength + 1, left.dtype)}"
        return f"({text})" if spine[0][1] < level else text

    @staticmethod
    def _nests(spine: list[tuple[str, int, n.Expr, n.Expr]], form: tuple[str, int]) -> bool:
        """A comparison of a comparison needs brackets: Python would chain them."""
        return bool(spine) and spine[-1][1] == _COMPARE and form[1] == _COMPARE

    def _operator(self, expr: n.Expr) -> tuple[str, int] | None:
        """Symbol and strength, where the expression may be written as an operator."""
        kind = type(expr)
        if (found := _OPERATORS.get(kind)) is not None:
            a, b = _operands(expr)
            if kind in (n.And, n.Or):
                return found if a.dtype == b.dtype == BOOL else None
            if found[1] == _COMPARE:
                plain = isinstance(a, n.IntImm) and isinstance(b, n.IntImm)
                return None if plain or a.dtype.lanes != b.dtype.lanes else found
            if a.dtype != b.dtype or "handle" in (a.dtype.code, b.dtype.code) or would_fold(found[0], a, b):
                return None
            if kind is n.Div and not a.dtype.is_float:
                return None
            return found
        if isinstance(expr, n.Call) and expr.op in _BITS and len(expr.args) == 2:
            assert isinstance(expr.op, str)
            a, b = expr.args
            if isinstance(a, n.Expr) and isinstance(b, n.Expr) and a.dtype == b.dtype == expr.dtype:
                symbol, strength, _ = _BITS[expr.op]
                return None if would_fold(symbol, a, b) or a.dtype.is_float else (symbol, strength)
        return None

    def args(self, values: tuple[n.Argument, ...], context: DataType | None = None) -> str:
        return ", ".join(self.argument(value, context) for value in values)

    def argument(self, value: n.Argument, context: DataType | None = None) -> str:
        match value:
            case n.Expr():
                return self.show(value, context=context)
            case n.BufferRegion():
                return self.region(value)
            case n.Buffer():
                return self.names.of(value)
            case _:
                return self.attribute(value)

    def number(self, value: int, dtype: DataType, context: DataType | None) -> str:
        if dtype.is_bool:
            return f"T.bool({bool(value)})" if value in (0, 1) else f"T.uint1({value})"
        if dtype == INT32 and context in (None, INT32):
            return str(value)
        return f"T.{dtype}({value})"

    def _atom(self, expr: n.Expr, context: DataType | None, level: int) -> str:
        match expr:
            case n.Var():
                return self.names.of(expr)
            case n.IntImm(value, dtype):
                return self.number(value, dtype, context)
            case n.FloatImm(value, dtype):
                return f"T.{dtype}({number_text(value)})"
            case n.StringImm(value):
                return quote(value)
            case n.BufferLoad(buffer, indices, None):
                if buffer.layout == "scalar" and not self.old:
                    return self.names.of(buffer)
                return f"{self.names.of(buffer)}[{self.indices(indices)}]"
            case n.BufferLoad(buffer, indices, predicate):
                assert predicate is not None
                parts = f"{self.names.of(buffer)}, [{self.args(indices)}], {self.show(predicate)}"
                return f"T.BufferLoad({parts})"
            case n.Not(a):
                text = f"not {self.show(a, _NOT)}"
                return f"({text})" if level > _NOT else text
            case n.Cast(value, dtype):
                return f"T.Cast({quote(str(dtype))}, {self.show(value)})"
            case n.Select(condition, a, b):
                return f"T.Select({self.show(condition)}, {self.pair(a, b)})"
            case n.Ramp(base, stride, lanes):
                count = lanes if isinstance(lanes, int) else self.show(lanes)
                return f"T.Ramp({self.pair(base, stride)}, {count})"
            case n.Broadcast(value, lanes):
                count = lanes if isinstance(lanes, int) else self.show(lanes)
                return f"T.Broadcast({self.show(value)}, {count})"
            case n.Shuffle(vectors, indices):
                return f"T.Shuffle([{self.args(vectors)}], [{self.args(indices)}])"
            case n.Let():
                return self._let(expr)
            case n.Call():
                return self._call(expr, level)
            case n.Load(dtype, var, index, predicate):
                mask = "" if predicate == n.IntImm(1, BOOL) else f", {self.show(predicate)}"
                return f"T.load({quote(str(dtype))}, {self.names.of(var)}, {self.show(index)}{mask})"
            case n.Reduce():
                return self._reduce(expr)
            case n.Mod() | n.Min() | n.Max():
                return self._function(expr)
            case _ if type(expr) in _OPERATORS:
                a, b = _operands(expr)
                return f"T.{type(expr).__name__}({self.pair(a, b)})"
            case _:
                raise AssertionError(type(expr))

    def pair(self, a: n.Expr, b: n.Expr) -> str:
        """Two arguments of which a plain number takes the type of the other."""
        return f"{self.show(a, context=b.dtype)}, {self.show(b, context=a.dtype)}"

    def _function(self, expr: n.Mod | n.Min | n.Max) -> str:
        name = _FUNCTIONS[type(expr)]
        if expr.a.dtype != expr.b.dtype or would_fold(name, expr.a, expr.b):
            name = type(expr).__name__
        return f"T.{name}({self.pair(expr.a, expr.b)})"

    def _let(self, expr: n.Let) -> str:
        var = self.names.of(expr.var)
        value = self.show(expr.value, context=expr.var.dtype)
        return f"T.Let({self.show(expr.body)}, where={{{var}: {value}}})"

    def _reduce(self, expr: n.Reduce) -> str:
        source, init, axis = (
            f"[{text}]" for text in (self.args(expr.source), self.args(expr.init), self.args(expr.axis))
        )
        parts = [self.attribute(expr.combiner), source, init, axis, str(expr.value_index), self.show(expr.condition)]
        return f"T.Reduce({', '.join(parts)})"

    # ---------------------------------------------------------------------------------------------- calls

    def _call(self, expr: n.Call, level: int) -> str:
        match expr:
            case n.Call(_, n.GlobalVar(name), args):
                return f"{self.module}.{name}({self.args(args)})"
            case n.Call(dtype, "bitwise_not", (n.Expr() as a,), {}) if (
                dtype == a.dtype and not dtype.is_float and not isinstance(a, n.IntImm)
            ):
                text = f"~{self.show(a, _UNARY)}"
                return f"({text})" if level > _UNARY else text
            case n.Call(_, op, (n.Expr() as a, n.Expr() as b)) if op in _BITS and a.dtype == expr.dtype:
                assert isinstance(op, str)
                return f"T.{_BITS[op][2]}({self.pair(a, b)})"
            case n.Call(_, "tvm_storage_sync", (n.StringImm(scope),)):
                return f"T.tvm_storage_sync({quote(scope)})"
            case n.Call(dtype, "reinterpret", (n.Expr() as a,)):
                pointed = expr.attrs.get("type")
                name = quote(str(dtype)) if pointed is None else f"{self.attribute(pointed)}.ty"
                return f"T.reinterpret({name}, {self.show(a)})"
            case n.Call(_, "buffer_data", (n.Buffer() as buffer,)):
                return f"{self.names.of(buffer)}.data"
            case n.Call(dtype, "type_annotation", ()):
                return f"T.type_annotation({quote(str(dtype))})"
            case _:
                return self._builtin(expr)

    def _builtin(self, expr: n.Call) -> str:
        assert isinstance(expr.op, str)
        row = BUILTINS.get(expr.op)
        args = [self._typed_argument(expr, row is not None and row.operands, arg) for arg in expr.args]
        attrs = [f"{key}={self.attribute(value)}" for key, value in expr.attrs.items()]
        natural = self._natural(expr)
        if row is None or row.dtype == "":
            if natural == expr.dtype or (row is None and expr.dtype.is_handle):
                return f"T.{expr.op}({', '.join([*args, *attrs])})"
            if row is None:
                return f"T.{expr.op}({', '.join([*args, *attrs, f'dtype={quote(str(expr.dtype))}'])})"
            return f"T.call_intrin({', '.join([quote(str(expr.dtype)), quote('tirx.' + expr.op), *args])})"
        dtype = quote(str(expr.dtype))
        match row.dtype:
            case "first":
                ordered = [dtype, *args, *attrs]
            case "last":
                ordered = [*args, dtype, *attrs]
            case keyword:
                ordered = [*args, *attrs, f"{keyword}={dtype}"]
        return f"T.{expr.op}({', '.join(ordered)})"

    def _typed_argument(self, expr: n.Call, operands: object, arg: n.Argument) -> str:
        """Numbers in calls whose operands share a type are written with theirs, unless the others have it too."""
        if not isinstance(arg, n.IntImm):
            return self.argument(arg)
        shared = (Operands.FLOAT, Operands.NUMBER, Operands.INTEGER, Operands.SHIFT)
        if operands in shared:
            others = [a.dtype for a in expr.args if isinstance(a, n.Expr) and not isinstance(a, n.IntImm)]
            return self.show(arg, context=others[0] if others else FLOAT32)
        if expr.op == "if_then_else":
            values = [a.dtype for a in expr.args[1:] if isinstance(a, n.Expr) and a is not arg]
            return self.show(arg, context=values[0] if values else None)
        return self.show(arg)

    @staticmethod
    def _natural(expr: n.Call) -> DataType | None:
        """The type that a reader gives the call, where its text does not say it."""
        assert isinstance(expr.op, str)
        row = BUILTINS.get(expr.op)
        dtypes = [arg.dtype for arg in expr.args if isinstance(arg, n.Expr)]
        if row is None:
            return None
        if row.operands in (Operands.FLOAT, Operands.NUMBER) and len(set(dtypes)) > 1:
            return None
        if expr.op == "if_then_else" and (len(dtypes) != 3 or dtypes[1] != dtypes[2]):
            return None
        match row.result:
            case Result.FIRST:
                return dtypes[0] if dtypes else DataType("handle", 0)
            case Result.SECOND:
                return dtypes[1] if len(dtypes) > 1 else DataType("handle", 0)
            case Result.BOOL:
                return BOOL.with_lanes(dtypes[0].lanes if dtypes else 1)
            case Result.DOUBLED:
                return dtypes[0].with_lanes(2 * dtypes[0].lanes) if dtypes else None
            case Result.INT32:
                return INT32
            case Result.UINT32:
                return DataType("uint", 32)
            case Result.HANDLE:
                return DataType("handle", 64)
            case Result.VOID | Result.EXPLICIT:
                return DataType("handle", 0)

    # ------------------------------------------------------------------------------------ regions, buffers

    def indices(self, indices: tuple[n.Expr, ...]) -> str:
        return ", ".join(map(self.show, indices)) if indices else "()"

    def region(self, region: n.BufferRegion) -> str:
        if not region.region:
            return f"{self.names.of(region.buffer)}[()]"
        parts = [self.range(part) for part in region.region]
        return f"{self.names.of(region.buffer)}[{', '.join(parts)}]"

    def range(self, part: n.Range) -> str:
        """`i` for one element, otherwise `start:stop`."""
        match part:
            case n.Range(low, n.IntImm(1, dtype)) if not isinstance(low, n.IntImm) and dtype == low.dtype:
                return self.show(low)
            case n.Range(n.IntImm(_, low_type), n.IntImm(1, dtype)) if dtype == low_type:
                return self.show(part.min)
            case _:
                return f"{self.show(part.min)}:{self.stop(part.min, part.extent)}"

    def stop(self, low: n.Expr, length: n.Expr) -> str:
        """The end of a range, so that the reader finds the same extent."""
        match low, length:
            case n.IntImm(a, dtype), n.IntImm(b, other):
                wider = dtype if dtype.bits >= other.bits else other
                return self.number(a + b, wider, None)
            case n.IntImm(0), _:
                return self.show(length)
            case _:
                return self.show(n.Add(low, length))

    # ----------------------------------------------------------------------------------------- attributes

    def attribute(self, value: n.Attribute) -> str:
        """A value of an attribute, an annotation, or a keyword."""
        match value:
            case None | bool() | int():
                return str(value)
            case float():
                return number_text(value)
            case str():
                return quote(value)
            case DataType():
                return f"T.{value}"
            case n.PrimType(dtype):
                return f"T.{dtype}"
            case n.PointerType(element, scope):
                return f"T.handle({self.pointed(element)}, {quote(scope)})"
            case n.TupleType():
                return "None"
            case n.GlobalVar(name):
                return f"{self.module}.{name}"
            case n.Buffer():
                return self.names.of(value)
            case n.Expr():
                return self.show(value)
            case n.BufferRegion():
                return self.region(value)
            case n.Target(config, None):
                return f"T.target({self.attribute(config)})"
            case n.Target(config, host):
                return f"T.target({self.attribute(config)}, host={self.attribute(host)})"
            case n.IndexMap():
                return self._index_map(value)
            case n.CommReducer():
                return self._comm_reducer(value)
            case n.IterVar():
                return self._iter_var(value)
            case n.Range(low, length):
                return f"T.Range({self.show(low)}, {self.stop(low, length)})"
            case n.TileLayout() | n.ComposeLayout():
                return layout_text(value, self.show)
            case n.Opaque(text):
                return text
            case tuple():
                return f"[{', '.join(map(self.attribute, value))}]"
            case Mapping():
                # TVM keeps attributes in the order of their names.
                entries = (f"{quote(key)}: {self.attribute(value[key])}" for key in sorted(value))
                return f"{{{', '.join(entries)}}}"
            case n.MemoryMap(pairs):
                return f"{{{', '.join(f'{self.names.of(key)}: {self.attribute(item)}' for key, item in pairs)}}}"
            case _:
                raise AssertionError(type(value))

    def pointed(self, element: n.Type | None) -> str:
        return quote(str(element.dtype)) if isinstance(element, n.PrimType) else quote("void")

    def type(self, type_: n.Type) -> str:
        """A type, as an annotation of a variable."""
        match type_:
            case n.PrimType(dtype):
                return f"T.{dtype}"
            case n.PointerType(element, scope):
                return f"T.handle({self.pointed(element)}, {quote(scope)})"
            case n.TupleType():
                return "T.void"

    def _lambda(self, params: tuple[n.Var, ...], results: tuple[n.Expr, ...], single: bool) -> str:
        self.names.push()
        names = ", ".join(map(self.names.define, params))
        values = self.args(results)
        self.names.pop()
        if single and len(results) == 1:
            return f"lambda {names}: {values}"
        return f"lambda {names}: ({values}{',' if len(results) == 1 else ''})"

    def _comm_reducer(self, value: n.CommReducer) -> str:
        combiner = self._lambda((*value.lhs, *value.rhs), value.result, single=True)
        return f"T.comm_reducer({combiner}, [{self.args(value.identity_element)}])"

    def _index_map(self, value: n.IndexMap) -> str:
        index = value.initial_indices[0].dtype if value.initial_indices else DataType("int", 64)
        text = self._lambda(value.initial_indices, value.final_indices, single=False)
        if value.inverse is not None:
            back = self._lambda(value.inverse.initial_indices, value.inverse.final_indices, single=False)
            text += f", inverse_index_map={back}"
        return f"T.index_map({text}{'' if index == DataType('int', 64) else f', index_dtype={quote(str(index))}'})"

    def _iter_var(self, value: n.IterVar) -> str:
        kinds = {n.IterKind.DATA_PARALLEL: "DataPar", n.IterKind.THREAD_INDEX: "ThreadIndex"}
        kinds |= {n.IterKind.COMM_REDUCE: "CommReduce", n.IterKind.ORDERED: "Ordered"}
        kind = kinds.get(value.kind, value.kind.value.capitalize())
        dom = "None" if value.dom is None else self.attribute(value.dom)
        var = self.names.of(value.var) if self.names.knows(value.var) else quote(value.var.name)
        return f"T.iter_var({var}, {dom}, {quote(kind)}, {quote(value.thread_tag)})"


def _operands(expr: n.Expr) -> tuple[n.Expr, n.Expr]:
    if isinstance(expr, n.Call):
        a, b = expr.args
        assert isinstance(a, n.Expr) and isinstance(b, n.Expr)
        return a, b
    return expr.a, expr.b  # type: ignore[attr-defined]


def number_text(value: float) -> str:
    """All digits: the constant that is read is the one that was written."""
    if value != value:
        return '"nan"'
    if value in (float("inf"), float("-inf")):
        return '"inf"' if value > 0 else '"-inf"'
    text = repr(value)
    if "e" in text and abs(value) >= 1e16:
        text = f"{Decimal(value):f}"
        return text if "." in text else f"{text}.0"
    return text
