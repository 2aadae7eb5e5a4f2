"""Statements, functions and modules of TIR as TVMScript."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from tensorir.runtime.assembly import ExtensionPoint
from tensorir.tir import nodes as n
from tensorir.tir.build import is_scope
from tensorir.tir.dtypes import BOOL, FLOAT32, HANDLE, INT32, INT64
from tensorir.tir.nodes import ForKind, IterKind
from tensorir.tir.printing.expressions import ExpressionPrinter, Names, quote
from tensorir.tir.trees import children, walk

print_graph_function = ExtensionPoint("the lines of a function of Relax", "tensorir.relax.printing", "function_lines")

# Statements of TIR as TVMScript.

_INDENT = "    "


class StatementPrinter:
    """Writes the body of one function; `lines` grows."""

    def __init__(self, expressions: ExpressionPrinter, defined: set[n.Var]) -> None:
        self.lines: list[str] = []
        self.names: Names = expressions.names
        self.old: bool = expressions.old
        self._e = expressions
        self._show = expressions.show
        self.depth: int = 0
        self._loops: dict[n.Var, n.Range] = {}
        self._defined = defined
        self.free: set[n.Buffer] = set()
        """Buffers that no statement declares, and whose sizes are variables of the body."""

    def line(self, text: str) -> None:
        self.lines.append(_INDENT * self.depth + text)

    def indented(self, statement: n.Stmt) -> None:
        """A suite of its own, with the names of its own."""
        self.depth += 1
        self.names.push()
        self.suite(statement)
        self.names.pop()
        self.depth -= 1

    def suite(self, statement: n.Stmt) -> None:
        before = len(self.lines)
        items = statement.seq if isinstance(statement, n.SeqStmt) and not is_scope(statement) else (statement,)
        for position, item in enumerate(items):
            self.statement(item, last=position == len(items) - 1)
        if len(self.lines) == before:
            self.line("pass")

    def statement(self, node: n.Stmt, last: bool = False) -> None:
        if self.free:
            used = [part for child in children(node) if not isinstance(child, n.Stmt) for part in walk(child)]
            for buffer in used:
                if isinstance(buffer, n.Buffer) and buffer in self.free and not self.names.knows(buffer):
                    self.declare(buffer)
        match node:
            case n.SeqStmt():
                self._scope(node)
            case n.LetStmt(var, value):
                text = self._show(value, context=var.dtype)
                name = self.names.define(var)
                type_ = self._e.type(var.type)
                self.line(f"{name}: {type_} = {text}" if self.old else f"{name}: T.let[{type_}] = {text}")
                self._defined.add(var)
            case n.AttrStmt():
                self._attribute(node, last)
            case n.AssertStmt(condition, message, kind):
                parts = f"[{', '.join(map(_message, message))}]"
                text = f"({quote(kind)}, {parts})"
                if kind == "RuntimeError" and len(message) == 1 and self.old:
                    text = _message(message[0])
                self.line(f"assert {self._show(condition)}, {text}")
            case n.BufferStore():
                self._store(node)
            case n.BufferRealize(buffer, bounds, condition, body):
                region = self._e.region(n.BufferRegion(buffer, bounds))
                self.line(f"with T.realize({region}, {quote(buffer.scope)}, {self._show(condition)}):")
                self.indented(body)
            case n.Allocate():
                self.line(f"{self._defined_name(node.buffer_var)} = {self._allocation(node)}")
            case n.AllocateConst(var, dtype, extents, data, annotations):
                parts = [self._e.attribute(data), quote(str(dtype)), f"[{self._e.args(extents)}]"]
                if annotations:
                    parts.append(f"annotations={self._e.attribute(annotations)}")
                self.line(f"{self._defined_name(var)} = T.allocate_const({', '.join(parts)})")
            case n.AllocBuffer(buffer, annotations):
                self._alloc(buffer, annotations)
            case n.DeclBuffer(buffer, n.Var() as data) if self._is_view(buffer, data):
                owner = self.names.owner(data)
                assert owner is not None
                shape = ", ".join(map(self.size, buffer.shape))
                whole = self.names.of(owner)
                if buffer.layout is not None:
                    shape += f", layout={self._e.attribute(buffer.layout)}"
                self.line(f"{self.names.define(buffer)} = {whole}.view({shape})")
            case n.DeclBuffer(buffer, data):
                where = "" if data is None else self._show(data)
                fields = self.fields(buffer, "decl", data=where)
                self.line(f"{self.names.define(buffer)} = T.decl_buffer({fields})")
                self._defined.add(buffer.data)
            case n.IfThenElse():
                self._branches(node)
            case n.Evaluate(value):
                self._evaluate(value)
            case n.For():
                self._for(node)
            case n.While(condition, body):
                self.line(f"while {self._show(condition)}:")
                self.indented(body)
            case n.Break():
                self.line("T.evaluate(T.break_loop())" if self.old else "T.break_loop()")
            case n.Continue():
                self.line("T.evaluate(T.continue_loop())" if self.old else "T.continue_loop()")
            case n.Prefetch(buffer, bounds):
                self.line(f"T.prefetch({self.names.of(buffer)}, [{', '.join(map(self._e.attribute, bounds))}])")
            case n.Store(var, value, index, predicate):
                mask = "" if predicate == n.IntImm(1, BOOL) else f", {self._show(predicate)}"
                self.line(f"T.store({self.names.of(var)}, {self._show(index)}, {self._show(value)}{mask})")
            case n.BlockRealize():
                self._block(node.block, node)
            case n.Block():
                self._block(node, None)
            case _:
                raise AssertionError(type(node))

    def declare(self, buffer: n.Buffer) -> None:
        """A buffer that no statement of TIR declares."""
        self.line(f"{self.names.define(buffer)} = T.Buffer({self.fields(buffer, 'type')})")
        self._defined.add(buffer.data)

    def _is_view(self, buffer: n.Buffer, data: n.Var) -> bool:
        """True if `A.view(...)` says the same about the buffer."""
        owner = self.names.owner(data)
        if self.old or owner is None or buffer.data is not data or not buffer.shape or owner.layout is not None:
            return False
        strides = owner.strides if len(owner.strides) == len(buffer.shape) else ()
        kept = ("dtype", "elem_offset", "data_alignment", "offset_factor")
        same = all(getattr(buffer, name) == getattr(owner, name) for name in kept)
        plain = not buffer.axis_separators and buffer.buffer_type is n.BufferType.DEFAULT
        return same and plain and buffer.strides == strides

    def _scope(self, node: n.SeqStmt) -> None:
        """A sequence that a conditional allocation governs."""
        first = node.seq[0]
        if not isinstance(first, n.Allocate):
            for position, item in enumerate(node.seq):
                self.statement(item, last=position == len(node.seq) - 1)
            return
        self.names.push()
        text = self._allocation(first)
        self.line(f"with {text} as {self._defined_name(first.buffer_var)}:")
        self.indented(n.SeqStmt(node.seq[1:]))
        self.names.pop()

    def _defined_name(self, var: n.Var) -> str:
        self._defined.add(var)
        return self.names.define(var)

    # ------------------------------------------------------------------------------------ small statements

    def _evaluate(self, value: n.Expr) -> None:
        match value:
            case n.Call(_, "ret", (n.Expr() as result,)):
                self.line(f"return {self._show(result)}")
            case n.Call(_, "break_loop" | "continue_loop"):
                self.line(f"T.evaluate(T.call_intrin({quote(str(value.dtype))}, {quote(f'tirx.{value.op}')}))")
            case n.Call(_, op) if op not in ("bitwise_and", "bitwise_or", "bitwise_xor", "shift_left", "shift_right"):
                self.line(self._show(value))
            case _:
                self.line(f"T.evaluate({self._show(value)})")

    def _store(self, node: n.BufferStore) -> None:
        buffer, value = node.buffer, node.value
        lanes = (node.indices[-1].dtype.lanes if node.indices else 1) * buffer.dtype.lanes
        handles = "handle" in (value.dtype.code, buffer.dtype.code)
        if node.predicate is not None or (not handles and value.dtype != buffer.dtype.with_lanes(lanes)):
            mask = "" if node.predicate is None else f", {self._show(node.predicate)}"
            stored = self._show(value, context=buffer.dtype)
            text = f"{self.names.of(buffer)}, {stored}, [{self._e.args(node.indices)}]"
            self.line(f"T.buffer_store({text}{mask})")
            return
        text = self._show(value, context=buffer.dtype)
        if buffer.layout == "scalar" and not self.old:
            self.line(f"{self.names.of(buffer)} = {text}")
            return
        parts = [self._show(index) for index in node.indices]
        match node.indices:
            case (*_, n.Ramp(base, n.IntImm(step, dtype), int(count))) if step > 0 and dtype == base.dtype:
                length = n.IntImm(step * count, dtype)
                by = "" if step == 1 else f":{self._show(node.indices[-1].stride)}"  # type: ignore[attr-defined]
                if count > 1:
                    parts[-1] = f"{self._show(base)}:{self._e.stop(base, length)}{by}"
            case _:
                pass
        self.line(f"{self.names.of(buffer)}[{', '.join(parts) if parts else '()'}] = {text}")

    def _allocation(self, node: n.Allocate) -> str:
        scope = node.buffer_var.type.storage_scope if isinstance(node.buffer_var.type, n.PointerType) else "global"
        parts = [f"[{self._e.args(node.extents)}]", quote(str(node.dtype)), quote(scope)]
        if node.condition != n.IntImm(1, BOOL):
            parts.append(f"condition={self._show(node.condition)}")
        if node.annotations:
            parts.append(f"annotations={self._e.attribute(node.annotations)}")
        return f"T.allocate({', '.join(parts)})"

    def _alloc(self, buffer: n.Buffer, annotations: Mapping[str, n.Attribute]) -> None:
        self._defined.add(buffer.data)
        if buffer.layout == "scalar" and not annotations and not self.old:
            kind = f"T.{buffer.dtype}"
            if buffer.scope == "local":
                self.line(f"{self.names.define(buffer)}: {kind}")
            else:
                text = f"T.alloc_scalar({quote(str(buffer.dtype))}, {quote(buffer.scope)})"
                self.line(f"{self.names.define(buffer)} = {text}")
            return
        text = self.fields(buffer, "alloc")
        if annotations:
            text += f", annotations={self._e.attribute(annotations)}"
        maker = "T.decl_buffer" if self.old else "T.alloc_buffer"
        self.line(f"{self.names.define(buffer)} = {maker}({text})")

    def _attribute(self, node: n.AttrStmt, last: bool) -> None:
        match node:
            case n.AttrStmt(n.IterVar(_, var, IterKind.THREAD_INDEX, tag), key, n.Expr() as value) if launches_thread(
                node
            ):
                again = self.names.knows(var)
                text = f"T.launch_thread({self.names.of(var) if again else quote(tag)}, {self._show(value)})"
                if last and not again:
                    self.line(f"{self._defined_name(var)} = {text}")
                    self.suite(node.body)
                    return
                if last:
                    self.line(text)
                    self.suite(node.body)
                    return
                self.names.push()
                self.line(f"with {text}:" if again else f"with {text} as {self._defined_name(var)}:")
                self.indented(node.body)
                self.names.pop()
            case n.AttrStmt(about, key, value, body):
                shown = self._e.attribute(value)
                if about == 0 and isinstance(about, int) and not self.old:
                    text = f"T.attr({{{quote(key)}: {shown}}})"
                else:
                    text = f"T.attr({self._e.attribute(about)}, {quote(key)}, {shown})"
                if last:
                    self.line(text)
                    self.suite(body)
                else:
                    self.line(f"with {text}:")
                    self.indented(body)

    def _branches(self, node: n.IfThenElse) -> None:
        word = "if"
        while True:
            self.line(f"{word} {self._show(node.condition)}:")
            self.indented(node.then_case)
            match node.else_case:
                case None:
                    return
                case n.IfThenElse() as other:
                    word, node = "elif", other
                case other:
                    self.line("else:")
                    self.indented(other)
                    return

    # --------------------------------------------------------------------------------------------- loops

    def _for(self, node: n.For) -> None:
        nest = [node]
        while _plain(nest[-1]) and isinstance(inner := nest[-1].body, n.For) and _plain(inner):
            # An extent that depends on a loop around cannot stand in the same T.grid.
            around = {loop.loop_var for loop in nest}
            if any(isinstance(part, n.Var) and part in around for part in walk(inner.extent)):
                break
            nest.append(inner)
        self.names.push()
        if len(nest) > 1:
            extents = ", ".join(self._show(loop.extent) for loop in nest)
            header = f"T.grid({extents})"
        else:
            header = self._loop(node)
        names = ", ".join(self.names.define(loop.loop_var) for loop in nest)
        self.line(f"for {names} in {header}:")
        for loop in nest:
            self._loops[loop.loop_var] = n.Range(loop.min, loop.extent)
            self._defined.add(loop.loop_var)
        self.indented(nest[-1].body)
        self.names.pop()

    def _loop(self, node: n.For) -> str:
        zero = isinstance(node.min, n.IntImm) and node.min.value == 0 and node.min.dtype == node.extent.dtype
        parts = [] if zero and node.step is None else [self._show(node.min)]
        parts.append(self._e.stop(node.min, node.extent) if parts else self._show(node.extent))
        plain = node.kind is ForKind.SERIAL and not node.annotations
        if node.step is not None:
            parts.append(self._show(node.step) if plain else f"step={self._show(node.step)}")
        if node.thread_binding is not None:
            parts.append(f"thread={quote(node.thread_binding.thread_tag)}")
        if node.annotations:
            parts.append(f"annotations={self._e.attribute(node.annotations)}")
        return f"{'range' if plain else f'T.{node.kind.value}'}({', '.join(parts)})"

    # -------------------------------------------------------------------------------------------- blocks

    def _block(self, block: n.Block, realize: n.BlockRealize | None) -> None:
        word = "block" if self.old else "sblock"
        unrealized = "" if realize is not None else ", no_realize=True"
        self.line(f"with T.{word}({quote(block.name)}{unrealized}):")
        self.depth += 1
        self.names.push()
        values = () if realize is None else realize.values
        self._axes(block.iter_vars, values)
        if realize is not None and realize.predicate != n.IntImm(1, BOOL):
            self.line(f"T.where({self._show(realize.predicate)})")
        self.line(f"T.reads({', '.join(map(self._e.region, block.reads))})")
        self.line(f"T.writes({', '.join(map(self._e.region, block.writes))})")
        if block.annotations:
            self._memories(block)
            self.line(f"T.{word}_attr({self._e.attribute(block.annotations)})")
        self.allocs(block.alloc_buffers)
        for match in block.match_buffers:
            fields = self.fields(match.buffer, "match", source=self._e.region(match.source))
            self.line(f"{self.names.define(match.buffer)} = T.match_buffer({fields})")
            self._defined.add(match.buffer.data)
        if block.init is not None:
            self.line("with T.init():")
            self.indented(block.init)
        self.suite(block.body)
        self.names.pop()
        self.depth -= 1

    def _memories(self, block: n.Block) -> None:
        """`As = T.handle("float16", "shared")`: memory that attributes name before its buffer is allocated."""
        made = {buffer.data for buffer in block.alloc_buffers}
        named = n.Block((), (), (), "", n.SeqStmt(()), annotations=block.annotations)
        for var in dict.fromkeys(v for v in walk(named) if isinstance(v, n.Var) and v in made):
            self.line(f"{self.names.define(var)} = {self._e.type(var.type)}")
            self._defined.add(var)

    def allocs(self, buffers: tuple[n.Buffer, ...]) -> None:
        maker = "alloc_buffer" if self.old else "sblock_alloc_buffer"
        for buffer in buffers:
            known = self.names.of(buffer.data) if self._is_defined(buffer.data) else ""
            fields = self.fields(buffer, "alloc", data=known)
            self.line(f"{self.names.define(buffer)} = T.{maker}({fields})")
            self._defined.add(buffer.data)

    def _axes(self, iter_vars: tuple[n.IterVar, ...], values: tuple[n.Expr, ...]) -> None:
        """One line per axis; neighbours that take a loop's variable and whole domain share a `remap`."""
        position = 0
        while position < len(iter_vars):
            run = position
            while run < len(values) and self._remaps(iter_vars[run], values[run]):
                run += 1
            if run - position > 1:
                group = range(position, run)
                kinds = "".join("S" if iter_vars[k].kind is IterKind.DATA_PARALLEL else "R" for k in group)
                shown = ", ".join(self._show(values[k]) for k in group)
                names = ", ".join(self._defined_name(iter_vars[k].var) for k in group)
                self.line(f"{names} = T.axis.remap({quote(kinds)}, [{shown}])")
                position = run
                continue
            value = values[position] if position < len(values) else n.IntImm(0, iter_vars[position].var.dtype)
            self._axis(iter_vars[position], value)
            position += 1

    def _remaps(self, axis: n.IterVar, value: n.Expr) -> bool:
        if not isinstance(value, n.Var) or axis.kind not in (IterKind.DATA_PARALLEL, IterKind.COMM_REDUCE):
            return False
        return axis.dom is not None and self._loops.get(value) == axis.dom and axis.var.dtype == value.dtype

    def _axis(self, axis: n.IterVar, value: n.Expr) -> None:
        assert axis.dom is not None
        low, length = axis.dom.min, axis.dom.extent
        if isinstance(low, n.IntImm) and low.value == 0 and low.dtype == length.dtype:
            domain = self._show(length, context=value.dtype)
        else:
            domain = f"({self._show(low)}, {self._e.stop(low, length)})"
        natural = length.dtype
        explicit = "" if axis.var.dtype == natural else f", dtype={quote(str(axis.var.dtype))}"
        bound = self._show(value, context=natural)
        self.line(f"{self._defined_name(axis.var)} = T.axis.{axis.kind.value}({domain}, {bound}{explicit})")

    # ------------------------------------------------------------------------------------------- buffers

    def fields(self, buffer: n.Buffer, purpose: str, data: str = "", source: str = "") -> str:
        """The arguments that describe a buffer; what is the default is left out."""
        parts = [source] if source else []
        shape = [self.size(size) for size in buffer.shape]
        parts.append(f"({', '.join(shape)}{',' if len(shape) == 1 else ''})")
        if buffer.dtype != FLOAT32 or purpose == "type" or self.old:
            parts.append(quote(str(buffer.dtype)))
        if data:
            parts.append(f"data={data}")
        if buffer.strides:
            strides = [self.size(stride) for stride in buffer.strides]
            parts.append(f"strides=({', '.join(strides)}{',' if len(strides) == 1 else ''})")
        fresh = isinstance(buffer.elem_offset, n.Var) and not self._is_defined(buffer.elem_offset)
        if buffer.elem_offset is not None and not fresh:
            parts.append(f"elem_offset={self.size(buffer.elem_offset)}")
        if buffer.scope != "global":
            parts.append(f"scope={quote(buffer.scope)}")
        if buffer.data_alignment != 64:
            parts.append(f"align={buffer.data_alignment}")
        if buffer.offset_factor != 1 or fresh:
            parts.append(f"offset_factor={buffer.offset_factor}")
        if fresh:
            assert isinstance(buffer.elem_offset, n.Var)
            self._defined.add(buffer.elem_offset)
            self.names.part(buffer.elem_offset, buffer, "elem_offset")
            default = buffer.shape[0].dtype if buffer.shape else INT32
            if buffer.elem_offset.dtype != default:
                parts.append(f"elem_offset=T.{buffer.elem_offset.dtype}()")
        if buffer.axis_separators:
            parts.append(f"axis_separators={list(buffer.axis_separators)}")
        if buffer.buffer_type is n.BufferType.AUTO_BROADCAST:
            parts.append('buffer_type="auto"')
        if buffer.layout is not None and (self.old or buffer.layout != "scalar"):
            parts.append(f"layout={self._e.attribute(buffer.layout)}")
        return ", ".join(parts)

    def size(self, size: n.Expr) -> str:
        """A size; where it names a variable that nothing has bound yet, it stands in quotes."""
        new = [part for part in walk(size) if isinstance(part, n.Var) and not self._is_defined(part)]
        text = self._show(size)
        if not new:
            return text
        self._defined.update(new)
        return quote(text)

    def _is_defined(self, var: n.Var) -> bool:
        return var in self._defined


def _message(part: str) -> str:
    return part if isinstance(part, n.MetadataText) else quote(part)


def _plain(node: n.For) -> bool:
    """A loop that `range(extent)` says whole."""
    zero = isinstance(node.min, n.IntImm) and node.min.value == 0 and node.min.dtype == node.extent.dtype
    return zero and node.kind is ForKind.SERIAL and node.step is None and not node.annotations


def launches_thread(node: n.AttrStmt) -> bool:
    """True if `T.launch_thread` says the same."""
    if not isinstance(node.node, n.IterVar) or not isinstance(node.value, n.Expr):
        return False
    tag, dom = node.node.thread_tag, node.node.dom
    key = "virtual_thread" if tag.startswith("vthread") else "thread_extent"
    whole = dom is not None and isinstance(dom.min, n.IntImm) and dom.min.value == 0 and dom.extent == node.value
    return node.attr_key == key and whole


# Functions and modules of TIR as TVMScript.


def module_text(module: n.IRModule, old: bool) -> str:
    """The whole module, with the comments (or, in the old dialect, the imports) that stand above it."""
    sizes: dict[str, None] = {}
    pieces: list[list[str]] = []
    relax = False
    types: dict[str, n.GraphNode] = {}
    wide = {name for function in module.functions.values() for name in _module_sizes(function)}
    for name, function in module.functions.items():
        if isinstance(function, n.PrimFunc):
            pieces.append(_prim_func(name, function, old, sizes, wide, module.name))
        else:
            relax = True
            pieces.append(print_graph_function(name, function, old, sizes, module.name, types))
    dialect = "tir" if old else "tirx"
    mark = "" if old else "# "
    lines = [f"{mark}from typing import TypeVar"] if sizes else []
    lines += [f"{mark}from tvm.script import ir as I", f"{mark}from tvm.script import {dialect} as T"]
    lines += [f"{mark}from tvm.script import relax as R"] if relax else []
    lines += ["", *(f'{size} = TypeVar("{size}")' for size in sizes), "@I.ir_module", f"class {module.name}:"]
    show = ExpressionPrinter(Names(), old)
    if module.attrs:
        lines.append(f"    I.module_attrs({show.attribute(module.attrs)})")
    for info in module.global_infos.values():
        lines.append(f"    I.module_global_infos({show.attribute(info)})")
    for piece in pieces:
        lines += [*(f"    {line}" if line else "" for line in piece), ""]
    if not pieces:
        lines += ["    pass", ""]
    return "\n".join(lines)


def prim_func_text(function: n.PrimFunc, old: bool) -> str:
    """A function that stands alone."""
    sizes: dict[str, None] = {}
    body = _prim_func(function.name, function, old, sizes, _module_sizes(function))
    mark = "" if old else "# "
    lines = [f"{mark}from typing import TypeVar"] if sizes else []
    lines += [f"{mark}from tvm.script import {'tir' if old else 'tirx'} as T", ""]
    lines += [f'{size} = TypeVar("{size}")' for size in sizes]
    return "\n".join([*lines, *body, ""])


def _module_sizes(function: n.PrimFunc | n.GraphFunction) -> set[str]:
    """The names of the sizes that the module declares for the function."""
    if isinstance(function, n.PrimFunc):
        sizes = [size for buffer in function.buffer_map.values() for size in _sizes_of(buffer)]
        return {size.name for size in sizes if size.dtype == INT64}
    return {part.name for param in function.params for part in walk(param.type) if isinstance(part, n.Var)}


def _prim_func(
    name: str, function: n.PrimFunc, old: bool, sizes: dict[str, None], wide: set[str], module: str = "cls"
) -> list[str]:
    """The function, line by line; `wide` holds the names that are sizes of type int64 everywhere in the module."""
    names = Names({module})
    expressions = ExpressionPrinter(names, old, module)
    defined: set[n.Var] = set()
    writer = StatementPrinter(expressions, defined)
    scalars = {param for param in function.params if param not in function.buffer_map}
    inside: set[n.Var] = set() if old else _sizes_of_body(function, wide)
    if not old:
        _sizes_of_module(function, names, defined, sizes, inside)
    matched: list[tuple[n.Var, n.Buffer]] = []
    params: list[str] = []
    for param in function.params:
        buffer = function.buffer_map.get(param)
        if buffer is None:
            params.append(f"{names.define(param)}: {_param_type(expressions, param)}")
            defined.add(param)
        elif old or not inside.isdisjoint(_sizes_of(buffer)):
            params.append(f"{names.define(param)}: T.handle")
            matched.append((param, buffer))
        else:
            fields = writer.fields(buffer, "type")
            params.append(f"{names.define(buffer)}: T.Buffer({fields})")
            defined.add(buffer.data)
    returns = "" if function.ret_type is None else f" -> {expressions.type(function.ret_type)}"
    lines = [_decorator(name, function, old), f"def {name}({', '.join(params)}){returns}:"]
    writer.depth = 1
    attrs = {key: value for key, value in function.attrs.items() if (key, value) != ("global_symbol", name)}
    if old:
        attrs = {f"tir.{key.removeprefix('tirx.')}" if key.startswith("tirx.") else key: v for key, v in attrs.items()}
    if attrs:
        writer.line(f"T.func_attr({expressions.attribute(attrs)})")
    if matched:
        _matches(writer, matched, defined, scalars)
    _preamble(writer, function, defined)
    root = _trivial_root(function.body)
    if root is not None:
        writer.line(f'# with T.{"block" if old else "sblock"}("root"):')
        writer.allocs(root.alloc_buffers)
        writer.suite(root.body)
    else:
        writer.suite(function.body)
    return lines + writer.lines


def _decorator(name: str, function: n.PrimFunc, old: bool) -> str:
    words: list[str] = []
    if "global_symbol" not in function.attrs:
        words.append("private=True")
    if function.s_tir != old:
        words.append(f"s_tir={function.s_tir}")
    return f"@T.prim_func({', '.join(words)})" if words else "@T.prim_func"


def _param_type(expressions: ExpressionPrinter, param: n.Var) -> str:
    return "T.handle" if param.type == n.PrimType(HANDLE) else expressions.type(param.type)


def _sizes_of_module(
    function: n.PrimFunc, names: Names, defined: set[n.Var], sizes: dict[str, None], inside: set[n.Var]
) -> None:
    """Sizes of type int64 are declared above the module, as in TVM 0.27."""
    for param in function.params:
        buffer = function.buffer_map.get(param)
        if buffer is None:
            continue
        for part in _sizes_of(buffer):
            if part.dtype == INT64 and part not in defined | inside:
                defined.add(part)
                sizes[names.define(part)] = None


def _sizes_of(buffer: n.Buffer) -> list[n.Var]:
    """The variables of shape, strides and offset; an offset that is one by itself has no name of its own."""
    offset = () if buffer.elem_offset is None or isinstance(buffer.elem_offset, n.Var) else (buffer.elem_offset,)
    sizes = (*buffer.shape, *buffer.strides, *offset)
    return [part for size in sizes for part in walk(size) if isinstance(part, n.Var)]


def _sizes_of_body(function: n.PrimFunc, wide: set[str]) -> set[n.Var]:
    """The sizes that are declared in the body, with all that stand beside them in a buffer.

    A signature binds sizes of type int64, which the module declares, and those of type int32 that it uses once. TVM
    prints `T.Buffer(("n", n))` where it uses one more often, and cannot read that again.
    """
    buffers = [function.buffer_map[param] for param in function.params if param in function.buffer_map]
    uses = Counter(size for buffer in buffers for size in _sizes_of(buffer))
    scalars = set(function.params) - function.buffer_map.keys()
    known = {size for size in uses if size.dtype == INT64}
    found: set[n.Var] = set()
    for param in function.params:
        buffer = function.buffer_map.get(param)
        if buffer is None:
            known.add(param)
            continue
        for size in {size for size in _sizes_of(buffer) if size not in known}:
            bound = size in scalars or size.dtype == INT32
            if uses[size] > 1 or not bound or size.name in wide:
                found.add(size)
    while True:
        beside = {size for b in buffers if not found.isdisjoint(_sizes_of(b)) for size in _sizes_of(b)}
        if beside <= found:
            return found
        found |= beside


def _matches(
    writer: StatementPrinter, matched: list[tuple[n.Var, n.Buffer]], defined: set[n.Var], scalars: set[n.Var]
) -> None:
    """`A = T.match_buffer(a, ...)`, after the variables that its sizes are."""
    for _, buffer in matched:
        for part in _sizes_of(buffer):
            if part not in defined and part not in scalars:
                defined.add(part)
                writer.line(f"{writer.names.define(part)} = {_variable(part)}")
    for param, buffer in matched:
        fields = writer.fields(buffer, "match", source=writer.names.of(param))
        writer.line(f"{writer.names.define(buffer)} = T.match_buffer({fields})")
        defined.add(buffer.data)


def _preamble(writer: StatementPrinter, function: n.PrimFunc, defined: set[n.Var]) -> None:
    """Names that the body uses and no statement of it binds.

    Variables of `Let`, axes of reductions, threads that are launched twice, free variables, and free buffers.
    """
    launches: Counter[n.Var] = Counter()
    tags: dict[n.Var, str] = {}
    used: dict[n.Var, None] = {}
    buffers: dict[n.Buffer, None] = {}
    bound: set[n.Var] = set(defined)
    for node in walk(function.body):
        match node:
            case n.Var():
                used[node] = None
            case n.For(var) | n.LetStmt(var) | n.Allocate(var) | n.AllocateConst(var):
                bound.add(var)
            case n.AllocBuffer(buffer) | n.DeclBuffer(buffer):
                bound.add(buffer.data)
            case n.Buffer():
                buffers[node] = None
            case n.Block(iter_vars=axes, alloc_buffers=allocs, match_buffers=matches):
                bound.update(axis.var for axis in axes)
                bound.update(buffer.data for buffer in (*allocs, *(match.buffer for match in matches)))
            case n.CommReducer(left, right):
                bound.update((*left, *right))
            case n.IndexMap(indices):
                bound.update(indices)
            case n.AttrStmt(n.IterVar(_, var, n.IterKind.THREAD_INDEX, tag)) if launches_thread(node):
                launches[var] += 1
                tags[var] = tag
            case _:
                pass
    again = {var for var, count in launches.items() if count > 1}
    bound |= launches.keys() - again
    free = [buffer for buffer in buffers if buffer.data not in bound]
    for buffer in free:
        if not bound.isdisjoint(set(_sizes_of(buffer)) - defined):
            writer.free.add(buffer)
    bound.update(buffer.data for buffer in free)
    for var in (*used, *(size for buffer in buffers for size in _sizes_of(buffer))):
        if var not in bound:
            bound.add(var)
            defined.add(var)
            made = f'T.env_thread("{tags[var]}")' if var in again else _variable(var)
            writer.line(f"{writer.names.define(var)} = {made}")
    for buffer in free:
        if buffer not in writer.free:
            writer.declare(buffer)


def _variable(var: n.Var) -> str:
    match var.type:
        case n.PrimType(dtype):
            return f"T.{dtype}()"
        case n.PointerType(n.PrimType(dtype), scope):
            return f'T.handle("{dtype}", "{scope}")'
        case _:
            return "T.handle()"


def _trivial_root(body: n.Stmt) -> n.Block | None:
    """The root block, where it declares nothing but its buffers, and where the reader adds it again."""
    match body:
        case n.BlockRealize((), n.IntImm(1), n.Block((), (), (), "root", inner, None, allocs, (), annotations)):
            shadowed = not allocs and isinstance(inner, n.BlockRealize) and not inner.block.iter_vars
            return None if annotations or shadowed else body.block
        case _:
            return None
