"""Kernels as C++, and the line of a file that each statement prints."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isfinite, isnan

from tensorir.tir import nodes as n
from tensorir.tir.tenstorrent.kernels.nodes import Bind, Branch, Kernel, Loop, Op, Program, Role, Sync, Work, ops_of
from tensorir.tir.tiles.operations import Atomic, Box, Copy, Fill, Gemm, Im2col, Reduce, Scan, Transpose, operation
from tensorir.tir.tiles.operations import is_tile as is_tile_operation
from tensorir.tir.walk import walk

__all__ = ["Printed", "line_of", "printed"]

_CALLS = {"reserve": "cb_reserve_back", "push": "cb_push_back", "wait": "cb_wait_front", "pop": "cb_pop_front"}
_OPERATORS: dict[type[n.Expr], str] = {
    n.Add: "+", n.Sub: "-", n.Mul: "*", n.Div: "/", n.Mod: "%", n.FloorDiv: "/", n.FloorMod: "%", n.LT: "<",
    n.LE: "<=", n.GT: ">", n.GE: ">=", n.EQ: "==", n.NE: "!=", n.And: "&&", n.Or: "||",
}  # fmt: skip
_INCLUDES = {
    "reader": ("dataflow_api.h",),
    "writer": ("dataflow_api.h",),
    "compute": ("compute_kernel_api/common.h", "compute_kernel_api/matmul.h"),
}


@dataclass(frozen=True, slots=True)
class Printed:
    """The text of a kernel, and the line of each statement by identity."""

    text: str
    lines: dict[int, int]


def printed(program: Program, kernel: Kernel) -> Printed:
    """The C++ of a kernel."""
    writer = _Writer(kernel.role, {queue.block: queue.name for queue in program.buffers})
    for include in _INCLUDES[kernel.role]:
        writer.line(f'#include "{include}"')
    writer.line("")
    for index, queue in enumerate(program.buffers):
        writer.line(f"constexpr uint32_t {queue.name} = {index};")
    writer.line("")
    writer.line("namespace NAMESPACE {" if kernel.role == "compute" else "void kernel_main() {")
    if kernel.role == "compute":
        writer.line("void MAIN {")
    writer.depth += 1
    known = {v for op in ops_of(kernel.body) for v in _variables(op)}
    for place, param in enumerate(p for p in program.func.params if p not in program.func.buffer_map):
        if param in known:
            writer.line(f"const uint32_t {param.name} = get_arg_val<uint32_t>({place});")
    writer.body(kernel.body)
    writer.depth -= 1
    writer.line("}")
    if kernel.role == "compute":
        writer.line("}  // namespace NAMESPACE")
    return Printed("\n".join([*writer.lines, ""]), writer.places)


def line_of(program: Program, op: Op) -> tuple[str, int] | None:
    """The file and the line that a statement of a program prints."""
    for kernel in program.kernels:
        if (line := printed(program, kernel).lines.get(id(op))) is not None:
            return kernel.file, line
    return None


def _text_of(op: Sync | Bind) -> str:
    """A synchronisation, or a name, as one line."""
    match op:
        case Sync(action, buffer, count):
            return f"{_CALLS[action]}({buffer}, {count});"
        case Bind(var, value):
            return f"const uint32_t {var.name} = {_expr(value)};"


def _variables(op: Op) -> list[n.Var]:
    parts: tuple[n.Node, ...] = ()
    match op:
        case Work(statement):
            parts = (statement,)
        case Bind(_, value):
            parts = (value,)
        case Loop(_, start, extent):
            parts = (start, extent)
        case Branch(condition):
            parts = (condition,)
        case Sync():
            pass
    return [v for part in parts for v in walk(part) if isinstance(v, n.Var)]


@dataclass(slots=True)
class _Writer:
    role: Role
    queues: dict[n.Buffer, str]
    lines: list[str] = field(default_factory=list[str])
    places: dict[int, int] = field(default_factory=dict[int, int])
    depth: int = 0

    def line(self, text: str) -> None:
        self.lines.append(f"{'    ' * self.depth}{text}" if text else "")

    def body(self, body: tuple[Op, ...]) -> None:
        for op in body:
            self.places[id(op)] = len(self.lines) + 1
            match op:
                case Sync() | Bind():
                    self.line(_text_of(op))
                case Loop(var, start, extent, inner):
                    name, low = var.name, _expr(start)
                    end = _expr(extent) if low == "0" else _expr(n.Add(start, extent))
                    self.line(f"for (uint32_t {name} = {low}; {name} < {end}; ++{name}) {{")
                    self._inside(inner)
                    self.line("}")
                case Branch(condition, then, otherwise):
                    self.line(f"if ({_expr(condition)}) {{")
                    self._inside(then)
                    if otherwise:
                        self.line("} else {")
                        self._inside(otherwise)
                    self.line("}")
                case Work(statement, _, fills):
                    self.statement(statement, fills)

    def _inside(self, body: tuple[Op, ...]) -> None:
        self.depth += 1
        self.body(body)
        self.depth -= 1

    def name(self, box: Box) -> str:
        return self.queues.get(box.buffer, box.buffer.name)

    def statement(self, node: n.Stmt, fills: str | None) -> None:
        match node:
            case n.SeqStmt(parts):
                for part in parts:
                    self.statement(part, fills)
            case n.For(var, low, extent):
                end = extent if isinstance(low, n.IntImm) and not low.value else n.Add(low, extent)
                self.line(f"for (uint32_t {var.name} = {_expr(low)}; {var.name} < {_expr(end)}; ++{var.name}) {{")
                self.depth += 1
                self.statement(node.body, fills)
                self.depth -= 1
                self.line("}")
            case n.IfThenElse(condition, then, otherwise):
                self.line(f"if ({_expr(condition)}) {{")
                self.depth += 1
                self.statement(then, fills)
                self.depth -= 1
                if otherwise is not None:
                    self.line("} else {")
                    self.depth += 1
                    self.statement(otherwise, fills)
                    self.depth -= 1
                self.line("}")
            case n.LetStmt(var, value):
                self.line(f"const auto {var.name} = {self.expr(value)};")
            case n.BufferStore(buffer, value, indices):
                self.line(f"{self._element(buffer, indices)} = {self.expr(value)};")
            case n.Evaluate(n.Call() as call) if is_tile_operation(call):
                self._operation(call)
            case n.Evaluate(value):
                self.line(f"{self.expr(value)};")
            case _:
                for text in str(node).splitlines():
                    self.line(f"// {text}")

    def expr(self, value: n.Expr) -> str:
        return _expr(value, self.queues)

    def _element(self, buffer: n.Buffer, indices: tuple[n.Expr, ...]) -> str:
        return f"{self.queues.get(buffer, buffer.name)}({', '.join(map(self.expr, indices))})"

    def _operation(self, call: n.Call) -> None:
        record = operation(call)
        match record:
            case Copy(src, dst) | Transpose(src, dst) | Im2col(src, dst) | Atomic(src, dst):
                self._move(record, src, dst, str(call.op))
            case Fill(dst, value):
                self.line(f"fill_tile({self.name(dst)}, {'0' if value is None else self.expr(value)});")
            case Gemm(a, b, c, turned, clear):
                turns = "".join(f", /*transpose_{x}=*/true" for x, t in zip("ab", turned, strict=True) if t)
                keep = {"0": "true", "1": "false"}.get(_expr(clear), f"!({_expr(clear)})")
                self.line(f"matmul_tiles({self.name(a)}, {self.name(b)}, {self.name(c)}, {keep}{turns});")
            case Reduce(src, dst, kind, dim, clear):
                keep = {"0": "true", "1": "false"}.get(_expr(clear), f"!({_expr(clear)})")
                self.line(f"reduce_tile<{kind.upper()}, {dim}>({self.name(src)}, {self.name(dst)}, {keep});")
            case Scan(src, dst, kind, dim, reverse):
                way = "true" if reverse else "false"
                self.line(f"scan_tile<{kind.upper()}, {dim}>({self.name(src)}, {self.name(dst)}, {way});")
            case _:
                self.line(f"// {call.op}: {call}")

    def _move(self, record: object, src: Box, dst: Box, op: str) -> None:
        kind = "" if isinstance(record, Copy) else f"_{op}"
        outward = dst.buffer in self.queues
        if self.role == "reader":
            where = f"{src.buffer.name}, {_list(src.starts)}, {_list(src.extents)}"
            self.line(f"noc_async_read{kind}_region({where}, get_write_ptr({self.name(dst)}));")
            self.line("noc_async_read_barrier();")
        elif self.role == "writer":
            where = f"{dst.buffer.name}, {_list(dst.starts)}, {_list(dst.extents)}"
            self.line(f"noc_async_write{kind}_region(get_read_ptr({self.name(src)}), {where});")
            self.line("noc_async_write_barrier();")
        else:
            call = "pack_tile" if outward else f"copy{kind}_tile"
            self.line(f"{call}({self.name(src)}{_at(src)}, {self.name(dst)}{_at(dst)});")


def _at(box: Box) -> str:
    """Where a box starts, unless it starts at its buffer's first element."""
    plain = all(isinstance(s, n.IntImm) and not s.value for s in box.starts)
    return "" if plain else f".at{_list(box.starts)}"


def _list(values: tuple[n.Expr, ...]) -> str:
    return f"{{{', '.join(map(_expr, values))}}}"


def _expr(node: n.Expr, queues: dict[n.Buffer, str] | None = None) -> str:
    """An expression as C++; what C++ does not have keeps its name."""

    def of(e: n.Expr, inside: bool = True) -> str:
        if (sign := _OPERATORS.get(type(e))) is not None:
            assert isinstance(e, n.BinaryOp | n.CmpOp | n.And | n.Or)
            text = f"{of(e.a)} {sign} {of(e.b)}"
            plain = sign == "*" or (sign == "%" and not isinstance(e.a, n.Add | n.Sub))
            return f"({text})" if inside and not plain else text
        match e:
            case n.Var(name):
                return name
            case n.IntImm(value):
                return str(value)
            case n.FloatImm(value):
                return (
                    f"{value!r}f"
                    if isfinite(value)
                    else f"{'-' if value < 0 else ''}std::numeric_limits<float>::"
                    + ("quiet_NaN()" if isnan(value) else "infinity()")
                )
            case n.Not(value):
                return f"!({of(value, False)})"
            case n.Cast(value, dtype):
                return f"static_cast<{dtype}>({of(value, False)})"
            case n.Min(a, b) | n.Max(a, b):
                return f"std::{'min' if isinstance(e, n.Min) else 'max'}({of(a, False)}, {of(b, False)})"
            case n.Select(condition, a, b) | n.Call(op="if_then_else", args=(condition, a, b)):
                assert isinstance(condition, n.Expr) and isinstance(a, n.Expr) and isinstance(b, n.Expr)
                return f"({of(condition)} ? {of(a)} : {of(b)})"
            case n.BufferLoad(buffer, indices):
                name = (queues or {}).get(buffer, buffer.name)
                return f"{name}({', '.join(of(i, False) for i in indices)})"
            case n.Call(op=str(op), args=args) if all(isinstance(a, n.Expr) for a in args):
                return f"{op}({', '.join(of(a, False) for a in args if isinstance(a, n.Expr))})"
            case _:
                return str(e)

    return of(node, False)
