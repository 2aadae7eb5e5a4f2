"""Kernels as C++: scalar expressions, statements, and the line that each prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import copysign, inf, isfinite, isnan
from typing import NoReturn

import numpy as np

from tensorir.runtime.errors import Span, refuse
from tensorir.tenstorrent.items import in_words, is_whole
from tensorir.tenstorrent.kernels.header import OPERATIONS
from tensorir.tenstorrent.kernels.nodes import (
    Barrier,
    Bind,
    Branch,
    Kernel,
    Loop,
    Op,
    Program,
    Role,
    Sync,
    Work,
    ops_of,
)
from tensorir.tenstorrent.staging import bound_by
from tensorir.tir import nodes as n
from tensorir.tir.dtypes import DataType
from tensorir.tir.tiles.operations import (
    Atomic,
    Box,
    Copy,
    Fill,
    Gemm,
    Im2col,
    Nothing,
    Reduce,
    Scan,
    Transpose,
    operation,
)
from tensorir.tir.tiles.operations import is_tile as is_tile_operation
from tensorir.tir.trees import walk

# Scalar expressions of TIR as C++, under the names that a printed kernel gives to variables and buffers.

_SIGNS: dict[type[n.Expr], str] = {
    n.Add: "+", n.Sub: "-", n.Mul: "*", n.Div: "/", n.LT: "<", n.LE: "<=", n.GT: ">", n.GE: ">=", n.EQ: "==",
    n.NE: "!=", n.And: "&&", n.Or: "||",
}  # fmt: skip
_TYPES = {"float32": "float", "float64": "double", "float16": "float16", "bfloat16": "bfloat16", "bool": "bool"}


@dataclass(frozen=True, slots=True)
class Names:
    """Names of variables and buffers, and the least values of variables where they are known."""

    variables: Mapping[n.Var, str] = field(default_factory=dict[n.Var, str])
    buffers: Mapping[n.Buffer, str] = field(default_factory=dict[n.Buffer, str])
    least: Mapping[n.Var, int] = field(default_factory=dict[n.Var, int])

    def of(self, thing: n.Var | n.Buffer) -> str:
        found = self.buffers.get(thing) if isinstance(thing, n.Buffer) else self.variables.get(thing)
        return found or thing.name

    def with_variable(self, var: n.Var, name: str, least: int | None) -> Names:
        known = {**self.least, var: least} if least is not None else self.least
        return replace(self, variables={**self.variables, var: name}, least=known)

    def at_least(self, expr: n.Expr) -> int | None:
        """A bound from below; None where none is known."""
        match expr:
            case n.IntImm(value):
                return value
            case n.Var():
                return self.least.get(expr)
            case n.Cast(value):
                return self.at_least(value)
            case n.Sub(a, n.IntImm(c)):
                low = self.at_least(a)
                return None if low is None else low - c
            case n.Add(a, b) | n.Mul(a, b) | n.FloorDiv(a, b) | n.FloorMod(a, b) | n.Min(a, b) | n.Max(a, b):
                x, y = self.at_least(a), self.at_least(b)
                if isinstance(expr, n.Max) and (x is None or y is None):
                    return x if y is None else y
                if x is None or y is None:
                    return None
                if isinstance(expr, n.Add):
                    return x + y
                if isinstance(expr, n.Min | n.Max):
                    return min(x, y) if isinstance(expr, n.Min) else max(x, y)
                if x < 0 or y < 0:
                    return None
                return x * y if isinstance(expr, n.Mul) else 0
            case _:
                return None


def cpp_type(dtype: DataType) -> str:
    """The C++ type of an element; raises TN07 for one that the header has none for."""
    word = str(dtype)
    if dtype.lanes == 1 and dtype.is_integer and not dtype.is_bool and dtype.bits in (8, 16, 32, 64):
        return f"{word}_t"
    if word in _TYPES:
        return _TYPES[word]
    message = f"tiles of {word} have no type in C++ here."
    raise refuse("TN07", message, "compute in float32, float16 or bfloat16.", at=n.NOWHERE)


def cpp(node: n.Expr, names: Names) -> str:
    """An expression as C++. Raises TN07 for what has no words there.

    >>> i = n.Var("i", n.PrimType(DataType.parse("int32")))
    >>> four = n.IntImm(4, i.dtype)
    >>> cpp(n.FloorDiv(n.Add(i, four), four), Names(least={i: 0})), cpp(n.FloorDiv(n.Sub(i, four), four), Names())
    ('(i + 4) / 4', 'floor_div<int32_t>(i - 4, 4)')
    """

    def of(e: n.Expr, inside: bool = True) -> str:
        """The text; inside of another one in parentheses, but for products to the left of what binds no stronger."""
        if (sign := _SIGNS.get(type(e))) is not None:
            assert isinstance(e, n.BinaryOp | n.CmpOp | n.And | n.Or)
            return binary(e, sign, e.a, e.b, inside)
        match e:
            case n.FloorDiv(a, b) | n.FloorMod(a, b):
                division = isinstance(e, n.FloorDiv)
                if (low := names.at_least(a)) is not None and low >= 0:
                    return binary(e, "/" if division else "%", a, b, inside)
                word = "floor_div" if division else "floor_mod"
                return f"{word}<{cpp_type(e.dtype)}>({of(a, False)}, {of(b, False)})"
            case n.Mod(a, b) if e.dtype.is_float:
                return _function("std::fmod", e.dtype, [a.dtype, b.dtype], [of(a, False), of(b, False)])
            case n.Mod(a, b):
                return binary(e, "%", a, b, inside)
            case n.Var():
                return names.of(e)
            case n.IntImm(value):
                return _integer(value, e.dtype)
            case n.FloatImm(value):
                return _number(value, e.dtype)
            case n.Not(value):
                return f"!({of(value, False)})"
            case n.Cast(value, dtype) if value.dtype.is_float and dtype.is_integer and not dtype.is_bool:
                return f"to_integer<{cpp_type(dtype)}>({of(value, False)})"
            case n.Cast(value, dtype):
                return f"static_cast<{cpp_type(dtype)}>({of(value, False)})"
            case n.Min(a, b) | n.Max(a, b):
                word = "min" if isinstance(e, n.Min) else "max"
                word = f"{word}imum" if e.dtype.is_float else f"std::{word}"
                return f"{word}<{cpp_type(e.dtype)}>({of(a, False)}, {of(b, False)})"
            case n.Select(condition, a, b) | n.Call(op="if_then_else", args=(condition, a, b)):
                assert isinstance(condition, n.Expr) and isinstance(a, n.Expr) and isinstance(b, n.Expr)
                return f"({of(condition)} ? {of(a)} : {of(b)})"
            case n.BufferLoad(buffer, indices):
                return f"{names.of(buffer)}({', '.join(of(i, False) for i in indices)})"
            case n.Call(op=str(op), args=args) if op in OPERATIONS:
                # texts among the arguments say how to round, which is to the nearest here
                parts = [a for a in args if isinstance(a, n.Expr) and not isinstance(a, n.StringImm)]
                given = [of(a, False) for a in parts]
                known = OPERATIONS[op]
                if not known:
                    return given[0]
                if not known.startswith("std::"):
                    return f"{known}<{cpp_type(e.dtype)}>({', '.join(given)})"
                return _function(known, e.dtype, [a.dtype for a in parts], given)
            case _:
                _no_words(in_words(e), e)

    def binary(e: n.Expr, sign: str, a: n.Expr, b: n.Expr, inside: bool) -> str:
        """An operator between two texts; what C++ computes in a wider type is one of the element's again."""
        left = of(a, not (sign in "*/%" and _is_product(a) and not _is_narrow(a.dtype)))
        right = of(b, sign not in "+-" or not _is_product(b))
        text = f"{left} {sign} {right}"
        if sign in "+-*/%" and _is_narrow(e.dtype):
            return f"static_cast<{cpp_type(e.dtype)}>({text})"
        return f"({text})" if inside else text

    return of(node, False)


def _no_words(what: str, node: n.Expr) -> NoReturn:
    message = f"{what} has no words in the C++ of a core."
    raise refuse("TN07", message, "write it with arithmetic and functions.", at=node.span)


def _is_product(e: n.Expr) -> bool:
    return isinstance(e, n.Mul)


def _is_narrow(dtype: DataType) -> bool:
    """True if C++ computes with elements of this type in a wider one: in int, or in float."""
    return (dtype.is_float and dtype.bits < 32) or (dtype.is_integer and not dtype.is_bool and dtype.bits < 32)


def _function(word: str, dtype: DataType, kinds: list[DataType], given: list[str]) -> str:
    """A function of the standard, which knows no halves: they are passed as floats, and what it gives is converted."""
    passed = [f"float({g})" if k.is_float and k.bits < 32 else g for k, g in zip(kinds, given, strict=True)]
    text = f"{word}({', '.join(passed)})"
    return text if dtype.is_bool else f"{cpp_type(dtype)}({text})"


def _integer(value: int, dtype: DataType) -> str:
    if dtype.is_bool:
        return "true" if value else "false"
    unsigned = str(dtype).startswith("u")
    if dtype.bits == 64:
        if value == -(2**63):
            return f"(INT64_C({value + 1}) - 1)"
        return f"{'UINT64_C' if unsigned else 'INT64_C'}({value})"
    if value == -(2**31):
        return f"({value + 1} - 1)"
    return f"{value}u" if unsigned and dtype.bits == 32 else str(value)


def _number(value: float, dtype: DataType) -> str:
    kind = cpp_type(dtype)
    held = "double" if kind == "double" else "float"
    if held == "float" and isfinite(value):
        with np.errstate(over="ignore"):
            value = value if isfinite(float(np.float32(value))) else copysign(inf, value)
    if isfinite(value):
        text = repr(value) if held == "double" else f"{value!r}f"
    else:
        word = "quiet_NaN()" if isnan(value) else "infinity()"
        text = f"{'-' if value < 0 else ''}std::numeric_limits<{held}>::{word}"
    return text if kind == held else f"{kind}({text})"


# Kernels as C++, and the line of a file that each statement prints.

_CALLS = {"reserve": "cb_reserve_back", "push": "cb_push_back", "wait": "cb_wait_front", "pop": "cb_pop_front"}
_INCLUDES = {"reader": "dataflow_api.h", "writer": "dataflow_api.h", "compute": "compute_kernel_api/common.h"}
RESERVED = frozenset((
    "alignas", "and", "asm", "auto", "bool", "break", "case", "catch", "char", "class", "const", "continue",
    "default", "delete", "do", "double", "else", "enum", "explicit", "export", "extern", "false", "float", "for",
    "friend", "goto", "if", "inline", "int", "long", "mutable", "namespace", "new", "not", "operator", "or", "part",
    "private", "protected", "public", "register", "return", "short", "signed", "sizeof", "static", "struct",
    "switch", "template", "this", "throw", "true", "try", "typedef", "union", "unsigned", "using", "virtual",
    "void", "volatile", "while", "xor", "y0", "y1", "yn", "j0", "j1", "jn", "Tile", "Block", "Memory", "Shape",
    "Part", "Region", "Fold", "SUM", "ABSSUM", "MAX", "MIN", "ABSMAX", "BITAND", "BITOR", "BITXOR", "rsqrt",
    "sigmoid", "exp10", "float16", "bfloat16", "folded",
    "minimum", "maximum", "wide", "to_integer", "floor_div", "floor_mod",
))  # fmt: skip
"""Names that C++, its library, or the header has already."""


@dataclass(frozen=True, slots=True)
class Printed:
    """The text of a kernel, and the line of each statement by identity."""

    text: str
    lines: dict[int, int]


def arguments_of(func: n.PrimFunc) -> tuple[list[n.Var], list[n.Buffer]]:
    """The runtime arguments of every kernel, in order: numbers, then the addresses of buffers."""
    numbers = [p for p in func.params if p not in func.buffer_map]
    return numbers, [func.buffer_map[p] for p in func.params if p in func.buffer_map]


def printed(program: Program, kernel: Kernel) -> Printed:
    """The C++ of a kernel."""
    writer = _Writer(program, kernel)
    writer.file()
    return Printed("\n".join([*writer.lines, ""]), writer.places)


def line_of(program: Program, op: Op) -> tuple[str, int] | None:
    """The file and the line that a statement of a program prints."""
    for kernel in program.kernels:
        if (line := printed(program, kernel).lines.get(id(op))) is not None:
            return kernel.file, line
    return None


def _parts(op: Op) -> tuple[n.Node, ...]:
    """The nodes of TIR in a statement of a kernel."""
    match op:
        case Work(statement):
            return (statement,)
        case Bind(_, value):
            return (value,)
        case Loop(_, start, extent):
            return start, extent
        case Branch(condition):
            return (condition,)
        case Sync() | Barrier():
            return ()


def _extents(buffer: n.Buffer) -> list[int]:
    """The extents of a buffer; raises TN02 for those that only a call tells."""
    found: list[int] = []
    for extent in buffer.shape:
        if not isinstance(extent, n.IntImm):
            message = f"{buffer.name!r} has {extent} elements along a dim, and programs are written before a call."
            raise refuse("TN02", message, "write the extent as a number.", at=buffer.span)
        found.append(extent.value)
    return found


def _template(kind: str, buffer: n.Buffer) -> str:
    return f"{kind}<{', '.join([cpp_type(buffer.dtype), *map(str, _extents(buffer) or [1])])}>"


def table_of_shares(shares: Sequence[tuple[int, int]], each: int = 8) -> list[str]:
    """The first tile and the number of tiles of each core, as a constant of the host's program."""
    rows = [f"{{{first}, {count}}}" for first, count in shares]
    return [
        "struct Share { uint32_t start, count; };",
        f"constexpr std::array<Share, {len(rows)}> SHARES = {{{{",
        *(f"    {', '.join(rows[k : k + each])}," for k in range(0, len(rows), each)),
        "}};",
    ]


def free(wanted: str, taken: set[str]) -> str:
    """A name that is not taken yet, and is from here on."""
    found, k = wanted, 0
    while found in taken:
        k += 1
        found = f"{wanted}_{k}"
    taken.add(found)
    return found


class _Writer:
    """The lines of a kernel, from its includes to its end."""

    def __init__(self, program: Program, kernel: Kernel) -> None:
        self.program, self.kernel = program, kernel
        self.role: Role = kernel.role
        self.queues = {queue.block: queue.name for queue in program.buffers}
        self.lines: list[str] = []
        self.places: dict[int, int] = {}
        self.depth = 0
        self.taken = {*RESERVED, *self.queues.values()}
        self.names = Names(buffers=self.queues)

    def line(self, text: str) -> None:
        self.lines.append(f"{'    ' * self.depth}{text}" if text else "")

    def file(self) -> None:
        self.line(f'#include "{_INCLUDES[self.role]}"')
        self.line('#include "tiles.h"')
        self.line("")
        for index, queue in enumerate(self.program.buffers):
            self.line(f"constexpr {_template('Block', queue.block)} {queue.name}({index});")
        self.line("")
        self.line("namespace NAMESPACE {" if self.role == "compute" else "void kernel_main() {")
        if self.role == "compute":
            self.line("void MAIN {")
        self.depth += 1
        self._declarations()
        self.body(self.kernel.body)
        self.depth -= 1
        self.line("}")
        if self.role == "compute":
            self.line("}  // namespace NAMESPACE")

    # Names

    def _declarations(self) -> None:
        """Runtime arguments, buffers in memory, and tiles that the kernel has for itself."""
        numbers, addresses = arguments_of(self.program.func)
        used = [part for op in ops_of(self.kernel.body) for node in _parts(op) for part in walk(node)]
        variables = {part for part in used if isinstance(part, n.Var)}
        for place, param in enumerate(numbers):
            if param in variables:
                kind = cpp_type(param.dtype)
                self._name(param, 0 if param in numbers[-4:] else None)
                self.line(f"const {kind} {self.names.of(param)} = get_arg_val<{kind}>({place});")
        own = self.kernel.tiles
        memory = {b.data: (len(numbers) + k, _extents(b)) for k, b in enumerate(addresses)}
        touched = {
            part.buffer if isinstance(part, n.BufferLoad | n.BufferStore) else part
            for part in used
            if isinstance(part, n.BufferLoad | n.BufferStore | n.Buffer)
        }
        for buffer in sorted(touched - self.queues.keys() - set(own), key=lambda b: b.name):
            place, whole = memory[buffer.data]
            row, width = (whole or [1])[-1], (_extents(buffer) or [1])[-1]
            self._tile(buffer)
            given = f"get_arg_val<uint32_t>({place})" + ("" if row == width else f", {row}")
            self.line(f"const {_template('Memory', buffer)} {self.names.of(buffer)}({given});")
        known: dict[n.Var, str] = {}
        for buffer in own:
            self._tile(buffer)
            name = self.names.of(buffer)
            if buffer.data not in known:
                known[buffer.data] = free(f"{name}_memory", self.taken)
                size = 1
                for extent in _extents(buffer):
                    size *= extent
                self.line(f"static {cpp_type(buffer.dtype)} {known[buffer.data]}[{size}];")
            self.line(f"const {_template('Tile', buffer)} {name}({known[buffer.data]});")

    def _tile(self, buffer: n.Buffer) -> None:
        made = {**self.names.buffers, buffer: free(buffer.name, self.taken)}
        self.names = Names(self.names.variables, made, self.names.least)

    def _name(self, var: n.Var, least: int | None) -> None:
        """A variable of the kernel's own text: each has a name of its own."""
        self.names = self.names.with_variable(var, free(var.name, self.taken), least)

    # Statements of kernels

    def body(self, body: tuple[Op, ...]) -> None:
        for op in body:
            self.places[id(op)] = len(self.lines) + 1
            match op:
                case Sync(action, buffer, count):
                    self.line(f"{_CALLS[action]}({buffer}, {count});")
                case Barrier(way):
                    self.line(f"noc_async_{way}_barrier();")
                case Bind(var, value):
                    text = self.expr(value)
                    self._name(var, self.names.at_least(value))
                    self.line(f"const {cpp_type(var.dtype)} {self.names.of(var)} = {text};")
                case Loop(var, start, extent, inner):
                    self._loop(var, start, extent)
                    self._inside(inner)
                    self.line("}")
                case Branch(condition, then, otherwise):
                    self.line(f"if ({self.expr(condition)}) {{")
                    self._inside(then)
                    if otherwise:
                        self.line("} else {")
                        self._inside(otherwise)
                    self.line("}")
                case Work(statement):
                    outside = self.names
                    self._inner_names(statement)
                    self.statement(statement)
                    self.names = outside

    def _loop(self, var: n.Var, start: n.Expr, extent: n.Expr) -> None:
        low = self.expr(start)
        end = self.expr(extent) if low == "0" else self.expr(n.Add(start, extent))
        if var not in self.names.variables:
            self._name(var, None)
        name = self.names.of(var)
        self.names = self.names.with_variable(var, name, self.names.at_least(start))
        self.line(f"for ({cpp_type(var.dtype)} {name} = {low}; {name} < {end}; ++{name}) {{")

    def _inside(self, body: tuple[Op, ...]) -> None:
        self.depth += 1
        self.body(body)
        self.depth -= 1

    def _inner_names(self, statement: n.Stmt) -> None:
        """Names of what a statement on tiles binds: those of the source, where nothing that it uses has them."""
        parts = list(walk(statement))
        bound = dict.fromkeys(v for part in parts if (v := bound_by(part)) is not None)
        others = {self.names.of(part) for part in parts if isinstance(part, n.Var | n.Buffer) and part not in bound}
        others |= {self.names.of(p.buffer) for p in parts if isinstance(p, n.BufferLoad | n.BufferStore)}
        taken = {*RESERVED, *others}
        for var in bound:
            self.names = self.names.with_variable(var, free(var.name, taken), None)

    # Statements on tiles

    def statement(self, node: n.Stmt) -> None:
        match node:
            case n.SeqStmt(parts):
                for part in parts:
                    self.statement(part)
            case n.AttrStmt(body=inner):
                self.statement(inner)
            case n.BlockRealize():
                self.statement(node.block.body)
            case n.AllocBuffer() | n.Allocate() | n.DeclBuffer():
                pass  # declared in front
            case n.For(var, low, extent):
                self._loop(var, low, extent)
                self._within(node.body)
                self.line("}")
            case n.While(condition):
                self.line(f"while ({self.expr(condition)}) {{")
                self._within(node.body)
                self.line("}")
            case n.IfThenElse(condition, then, otherwise):
                self.line(f"if ({self.expr(condition)}) {{")
                self._within(then)
                if otherwise is not None:
                    self.line("} else {")
                    self._within(otherwise)
                self.line("}")
            case n.LetStmt(var, value):
                text = self.expr(value)
                self.names = self.names.with_variable(var, self.names.of(var), self.names.at_least(value))
                self.line(f"const {cpp_type(var.dtype)} {self.names.of(var)} = {text};")
            case n.BufferStore(buffer, value, indices, None):
                self.line(f"{self.names.of(buffer)}({', '.join(map(self.expr, indices))}) = {self.expr(value)};")
            case n.Break() | n.Evaluate(n.Call(op="break_loop")):
                self.line("break;")
            case n.Continue() | n.Evaluate(n.Call(op="continue_loop")):
                self.line("continue;")
            case n.AssertStmt(condition):
                self.line(f"ASSERT({self.expr(condition)});")
            case n.Evaluate(n.IntImm()):
                pass
            case n.Evaluate(n.Call() as call) if is_tile_operation(call):
                self._operation(call)
            case _:
                _no_words_for(in_words(node), node.span)

    def _within(self, body: n.Stmt) -> None:
        outside = self.names
        self.depth += 1
        self.statement(body)
        self.depth -= 1
        self.names = outside

    def expr(self, value: n.Expr) -> str:
        return cpp(value, self.names)

    def _list(self, values: tuple[n.Expr, ...]) -> str:
        return f"{{{', '.join(map(self.expr, values))}}}"

    def _box(self, box: Box) -> str:
        """A tile by its name, a part of one with its extents and where it starts."""
        name = self.names.of(box.buffer)
        if is_whole(box):
            return name
        sizes = [e.value for e in box.extents if isinstance(e, n.IntImm)]
        if len(sizes) < len(box.extents):
            _no_words_for(f"a part of {box.buffer.name!r} whose extents only a call tells", box.span)
        return f"part<{', '.join(map(str, sizes))}>({name}, {self._list(box.starts)})"

    def _keeps(self, clear: n.Expr) -> str:
        """True if what a tile holds is joined: where `clear` does not hold."""
        return {"0": "true", "1": "false", "false": "true", "true": "false"}.get(text := self.expr(clear), f"!({text})")

    def _operation(self, call: n.Call) -> None:
        record = operation(call)
        match record:
            case Copy() | Transpose() | Im2col() | Atomic():
                self._move(record, call)
            case Fill(dst, value):
                self.line(f"fill_tile({self._box(dst)}, {'0' if value is None else self.expr(value)});")
            case Gemm(a, b, c, turned, clear):
                words = [f", /*transpose_{x}=*/{str(t).lower()}" for x, t in zip("ab", turned, strict=True)]
                boxes = ", ".join(map(self._box, (a, b, c)))
                self.line(f"matmul_tiles({boxes}, {self._keeps(clear)}{''.join(words) if any(turned) else ''});")
            case Reduce(src, dst, kind, dim, clear):
                boxes = f"{self._box(src)}, {self._box(dst)}"
                self.line(f"reduce_tile<{kind.upper()}, {dim}>({boxes}, {self._keeps(clear)});")
            case Scan(src, dst, kind, dim, reverse):
                way = "true" if reverse else "false"
                self.line(f"scan_tile<{kind.upper()}, {dim}>({self._box(src)}, {self._box(dst)}, {way});")
            case Nothing():
                pass

    def _move(self, record: Copy | Transpose | Im2col | Atomic, call: n.Call) -> None:
        src, dst = record.src, record.dst
        if self.role == "compute":
            match record:
                case Copy():
                    word = "pack_tile" if dst.buffer in self.queues else "copy_tile"
                case Transpose():
                    word = "transpose_tile"
                case _:
                    _no_words_for(f"T.{call.op} between tiles", call.span)
            self.line(f"{word}({self._box(src)}, {self._box(dst)});")
            return
        reads = self.role == "reader"
        outer, tile = (src, dst) if reads else (dst, src)
        where = f"{self.names.of(outer.buffer)}, {self._list(outer.starts)}, {self._list(outer.extents)}"
        queue = self.names.of(tile.buffer)
        match record:
            case Im2col():
                numbers = f"{record.kernel}, {record.stride}, {record.dilation}, {record.pad}"
                at = f"{self.expr(record.row)}, {self.expr(record.column)}"
                self.line(f"read_im2col({self.names.of(src.buffer)}, {at}, {numbers}, {queue});")
            case Copy(safe=safe) if reads:
                self.line(f"read_region({where}, {queue}{'' if safe is None else f', {self.expr(safe)}'});")
            case Transpose() if reads:
                self.line(f"read_transposed({where}, {queue});")
            case Atomic(kind=kind):
                word = {"add": "SUM"}.get(kind, kind.upper())
                self.line(f"combine_region<{word}>({queue}, {where});")
            case _:
                word = "write_region" if isinstance(record, Copy) else "write_transposed"
                self.line(f"{word}({queue}, {where});")


def _no_words_for(what: str, span: Span) -> NoReturn:
    message = f"{what} has no words in the C++ of a core."
    raise refuse("TN07", message, "write it with tile operations, loops and stores.", at=span)
