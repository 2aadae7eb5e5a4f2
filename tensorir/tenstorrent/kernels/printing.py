"""Kernels as C++, and the line of a file that each statement prints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from tensorir.runtime.errors import Diagnostic, DiagnosticError, Span
from tensorir.tenstorrent.blocks import is_whole
from tensorir.tenstorrent.kernels.expressions import Names, cpp, cpp_type
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
from tensorir.tenstorrent.words import in_words
from tensorir.tir import nodes as n
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
from tensorir.tir.walk import walk

__all__ = ["RESERVED", "Printed", "arguments_of", "free", "line_of", "printed"]

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
    """What a statement of a kernel says in TIR itself."""
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


def _bound(node: n.Node) -> n.Var | None:
    match node:
        case n.For(var) | n.LetStmt(var) | n.Let(var):
            return var
        case _:
            return None


def _extents(buffer: n.Buffer) -> list[int]:
    """The extents of a buffer; raises TN02 for those that only a call tells."""
    found: list[int] = []
    for extent in buffer.shape:
        if not isinstance(extent, n.IntImm):
            message = f"{buffer.name!r} has {extent} elements along a dim, and programs are written before a call."
            raise DiagnosticError(Diagnostic("TN02", message, buffer.span, help="write the extent as a number."))
        found.append(extent.value)
    return found


def _template(kind: str, buffer: n.Buffer) -> str:
    return f"{kind}<{', '.join([cpp_type(buffer.dtype), *map(str, _extents(buffer) or [1])])}>"


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
        bound = dict.fromkeys(v for part in parts if (v := _bound(part)) is not None)
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
                _no_words(in_words(node), node.span)

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
            _no_words(f"a part of {box.buffer.name!r} whose extents only a call tells", box.span)
        return f"part<{', '.join(map(str, sizes))}>({name}, {self._list(box.starts)})"

    def _keeps(self, clear: n.Expr) -> str:
        """Whether what a tile holds is joined: where `clear` does not hold."""
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
                    _no_words(f"T.{call.op} between tiles", call.span)
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


def _no_words(what: str, span: Span) -> NoReturn:
    message = f"{what} has no words in the C++ of a core."
    raise DiagnosticError(Diagnostic("TN07", message, span, help="write it with tile operations, loops and stores."))
