"""The rules of statements, blocks, buffers and functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tensorir.runtime.errors import NOWHERE, Diagnostic, DiagnosticError, Span, did_you_mean
from tensorir.tir import nodes as n
from tensorir.tir.builtins import GPU_ONLY, find
from tensorir.tir.check.expressions import RULES, Equality, Finding, Scopes, compare, indices_rule
from tensorir.tir.dtypes import HANDLE, VOID
from tensorir.tir.ranges import Bounds, interval
from tensorir.tir.tiles.operations import is_tile, operation
from tensorir.tir.trees import walk

# The rules of a buffer's declaration.


def buffer_rule(buffer: n.Buffer) -> Iterator[Finding]:
    """Extents, strides and offset are scalar integers, the pointer is one, and the elements are numbers."""
    name = repr(buffer.name)
    for place, extent in enumerate(buffer.shape):
        if not _is_size(extent):
            yield "TC32", f"extent {place} of {name} is a scalar integer, and not {extent.dtype}.", "error"
        elif isinstance(extent, n.IntImm) and extent.value < 0:
            yield "TC32", f"extent {place} of {name} is {extent.value}; no extent is negative.", "error"
    if buffer.strides and len(buffer.strides) != len(buffer.shape):
        message = f"{name} has {len(buffer.shape)} dimensions, but {len(buffer.strides)} strides."
        yield "TC33", message, "error"
    for stride in buffer.strides:
        if not _is_size(stride):
            yield "TC33", f"a stride of {name} is a scalar integer, and not {stride.dtype}.", "error"
    if any(not isinstance(stride, n.Var) for stride in buffer.strides):
        message = f"the strides of {name} are written out; the specification leaves them to the compiler."
        yield "TC33", message, "warning"
    if buffer.elem_offset is not None and not _is_size(buffer.elem_offset):
        yield "TC34", f"the offset of {name} is a scalar integer, and not {buffer.elem_offset.dtype}.", "error"
    if not isinstance(buffer.data.type, n.PointerType) and buffer.data.dtype != HANDLE:
        yield "TC35", f"the pointer of {name} is not of a pointer type.", "error"
    if buffer.dtype.code == "handle":
        yield "TC36", f"{name} holds handles; a buffer holds numbers.", "warning"


def _is_size(expr: n.Expr) -> bool:
    return expr.dtype.is_integer and expr.dtype.is_scalar


# The rules of blocks: what they declare against what they do, and buffers that match regions.


def declared_rule(block: n.Block) -> Iterator[tuple[Finding, Span]]:
    """A block that declares regions declares every buffer that it reads or writes and that is not its own."""
    if not (block.reads or block.writes):
        return
    writes = {region.buffer for region in block.writes}
    reads = {region.buffer for region in block.reads} | writes
    memory_read = {buffer.data for buffer in reads}
    memory_written = {buffer.data for buffer in writes}
    own = set(block.alloc_buffers) | {match.buffer for match in block.match_buffers}
    owned = {buffer.data for buffer in own}
    told: set[tuple[n.Buffer, str]] = set()
    for part in (block.init, block.body):
        for node in walk(part) if part is not None else ():
            match node:
                case n.Block(alloc_buffers=inner, match_buffers=matches):
                    own |= {*inner, *(match.buffer for match in matches)}
                    owned |= {buffer.data for buffer in own}
                    continue
                case n.AllocBuffer(buffer) | n.DeclBuffer(buffer):
                    own.add(buffer)
                    owned.add(buffer.data)
                    continue
                case n.BufferLoad(buffer):
                    verb, known, memory = "read", reads, memory_read
                case n.BufferStore(buffer):
                    verb, known, memory = "written", writes, memory_written
                case _:
                    continue
            if buffer in known or buffer in own or buffer.data in memory or buffer.data in owned:
                continue
            if (buffer, verb) not in told:
                told.add((buffer, verb))
                form = "T.reads" if verb == "read" else "T.writes"
                message = f"{buffer.name!r} is {verb} in the block {block.name!r}, but {form} does not name it."
                yield ("TC78", message, "error"), node.span


def match_rule(match: n.MatchBufferRegion, bounds: Mapping[n.Var, Bounds]) -> Iterator[Finding]:
    """Type, alignment, scope, offset and shape of a buffer that names a region.

    A shape that differs from the region's for every value of the variables around is an error; one that is not proven
    to be the region's is a note, since TVM leaves it to the run.
    """
    buffer, source, region = match.buffer, match.source.buffer, match.source.region
    if buffer.dtype != source.dtype:
        yield "TC80", f"{buffer.name!r} is {buffer.dtype}, but {source.name!r} is {source.dtype}.", "error"
    if buffer.data_alignment and source.data_alignment % buffer.data_alignment:
        message = (
            f"{buffer.name!r} is aligned to {buffer.data_alignment}, but {source.name!r} to {source.data_alignment}."
        )
        yield "TC81", message, "error"
    if buffer.scope != source.scope:
        yield "TC82", f"{buffer.name!r} is in {buffer.scope!r}, but {source.name!r} in {source.scope!r}.", "error"
    if n.BufferType.AUTO_BROADCAST in (buffer.buffer_type, source.buffer_type):
        yield "TC83", f"{buffer.name!r} matches a region, so neither may broadcast by itself.", "error"
    left_out = len(region) - len(buffer.shape)
    if left_out < 0:
        message = f"{buffer.name!r} has {len(buffer.shape)} dimensions, but the region has {len(region)}."
        yield "TC84", message, "error"
        return
    one = n.IntImm(1, n.DataType("int", 32))
    for part in region[:left_out]:
        found = compare(part.extent, one, bounds)
        if found is not Equality.ALWAYS:
            message = f"{buffer.name!r} leaves out a dimension of the region whose extent is not 1."
            if found is not Equality.NEVER:
                message = f"{buffer.name!r} leaves out a dimension whose extent, {part.extent}, is not proven to be 1."
            yield "TC85", message, "error" if found is Equality.NEVER else "warning"
    for place, (extent, part) in enumerate(zip(buffer.shape, region[left_out:], strict=True)):
        if isinstance(extent, n.Var):
            continue
        found = compare(extent, part.extent, bounds)
        if found is not Equality.ALWAYS:
            message = f"extent {place} of {buffer.name!r} is {extent}, but the region has {part.extent}."
            if found is not Equality.NEVER:
                message = (
                    f"extent {place} of {buffer.name!r} is {extent}; the region's, {part.extent}, is not proven so."
                )
            yield "TC86", message, "error" if found is Equality.NEVER else "warning"


# The rules of statements, scopes, blocks and functions.


def check_function(func: n.PrimFunc, module: n.IRModule) -> list[Diagnostic]:
    """Everything that is wrong with a function, in the order of the text."""
    checker = _Checker(func, module)
    checker.function()
    return checker.found


class _Checker:
    """One walk over one function."""

    def __init__(self, func: n.PrimFunc, module: n.IRModule) -> None:
        self.func, self.module = func, module
        self.found: list[Diagnostic] = []
        self.scopes = Scopes()
        self.seen: set[int] = set()
        self.loops = 0
        self.guards = 0
        self.vector: Span | None = None
        self.threads: dict[str, tuple[int, Span]] = {}
        self.returns: list[n.Expr] = []

    def report(self, findings: Iterable[Finding], span: Span) -> None:
        for code, message, severity in findings:
            self.found.append(Diagnostic(code, message, span, severity=severity))

    def wrong(self, code: str, message: str, span: Span, help: str = "", severity: str = "error") -> None:
        self.found.append(Diagnostic(code, message, span, help=help, severity=severity))

    # -------------------------------------------------------------------------------------------------------- functions

    def function(self) -> None:
        func = self.func
        for param in func.params:
            if not self.scopes.bind(param):
                self.wrong("TC41", f"the parameter {param.name!r} is there twice.", param.span)
        for buffer in func.buffer_map.values():
            for size in (*buffer.shape, *buffer.strides, buffer.elem_offset):
                if isinstance(size, n.Var) and size not in self.scopes.variables:
                    self.scopes.bind(size)
        for param, buffer in func.buffer_map.items():
            if param not in func.params:
                self.wrong("TC45", f"{buffer.name!r} belongs to no parameter.", buffer.span)
            if not self.scopes.declare(buffer):
                self.wrong("TC41", f"the buffer {buffer.name!r} belongs to two parameters.", buffer.span)
            self.buffer(buffer)
        self.statement(func.body)
        self.ret()

    def ret(self) -> None:
        stated = self.func.ret_type
        kinds = {value.dtype for value in self.returns}
        if len(kinds) > 1:
            names = ", ".join(sorted(map(str, kinds)))
            self.wrong("TC46", f"{self.func.name!r} returns values of several types: {names}.", self.returns[-1].span)
        elif not kinds and isinstance(stated, n.PrimType) and stated.dtype != VOID:
            self.wrong("TC47", f"{self.func.name!r} returns {stated.dtype}, but has no T.ret.", self.func.span)
        elif kinds and isinstance(stated, n.PrimType) and stated.dtype != (found := next(iter(kinds))):
            message = f"{self.func.name!r} returns {stated.dtype}, but its T.ret gives {found}."
            self.wrong("TC47", message, self.returns[0].span)

    def buffer(self, buffer: n.Buffer) -> None:
        """The rules of a declaration."""
        for size in (*buffer.shape, *buffer.strides, *([] if buffer.elem_offset is None else [buffer.elem_offset])):
            self.expression(size)
        self.report(buffer_rule(buffer), buffer.span)

    # ------------------------------------------------------------------------------------------------------ expressions

    def expression(self, expr: n.Expr) -> None:
        """The rules of an expression and of all below it, and the scopes of the names in it."""
        pending: list[tuple[n.Node, bool]] = [(expr, False)]
        lazy = 0
        for node in walk(expr):
            rule = RULES.get(type(node))
            span = getattr(node, "span", NOWHERE)
            if rule is not None:
                self.report(rule(node), span)
            match node:
                case n.Var():
                    if node not in self.scopes.variables:
                        self.unknown(node.name, "variable", node in self.scopes.ever, expr.span)
                case n.Let(var):
                    if not self.scopes.bind(var):
                        self.wrong("TC41", f"{var.name!r} is bound a second time.", span)
                case n.BufferLoad(buffer, indices):
                    self.used(buffer, span)
                    if not lazy:
                        self.inside(buffer, indices, span)
                case n.Select() | n.And() | n.Or() | n.Call(op="if_then_else"):
                    lazy += 1
                case n.Call(op=n.GlobalVar(name)):
                    self.called(name, node)
                case n.Reduce(axis=axis):
                    for iterator in axis:
                        self.scopes.bind(iterator.var)
                case n.CommReducer(lhs, rhs):
                    for var in (*lhs, *rhs):
                        self.scopes.bind(var)
                case n.IndexMap(initial):
                    for var in initial:
                        self.scopes.bind(var)
                case _:
                    pass
        del pending

    def unknown(self, name: str, what: str, ended: bool, span: Span) -> None:
        if ended:
            self.wrong("TC42", f"the {what} {name!r} is used outside of its scope.", span)
        else:
            known = [v.name for v in self.scopes.variables] if what == "variable" else []
            self.wrong("TC40", f"the {what} {name!r} is not bound.", span, help=did_you_mean(name, sorted(known)))

    def used(self, buffer: n.Buffer, span: Span) -> None:
        if buffer in self.scopes.buffers:
            return
        if buffer.data in self.scopes.variables and buffer not in self.scopes.ever:
            return  # a view that no statement declares: its pointer is known, as in older text
        self.unknown(buffer.name, "buffer", buffer in self.scopes.ever, span)

    def inside(self, buffer: n.Buffer, indices: tuple[n.Expr, ...], span: Span) -> None:
        """An index that can only be outside of its dimension."""
        if self.guards or len(indices) != len(buffer.shape):
            return
        for place, (index, extent) in enumerate(zip(indices, buffer.shape, strict=True)):
            if not isinstance(extent, n.IntImm) or (reach := interval(index, self.scopes.bounds)) is None:
                continue
            low, high = reach
            if high < 0 or low >= extent.value:
                shown = f"{low}" if low == high else f"{low} to {high}"
                message = f"index {place} of {buffer.name!r} is {shown}, outside of its {extent.value} elements."
                self.wrong("TC60", message, index.span if index.span is not NOWHERE else span)

    def called(self, name: str, node: n.Call) -> None:
        callee = self.module.functions.get(name)
        if callee is None:
            hint = did_you_mean(name, self.module.functions)
            self.wrong("TC43", f"the module has no function {name!r}.", node.span, hint)
        elif not isinstance(callee, n.PrimFunc):
            self.wrong("TC43", f"{name!r} is no PrimFunc, so TIR cannot call it.", node.span)
        elif len(callee.params) != len(node.args):
            message = f"{name!r} takes {len(callee.params)} arguments, but this call gives {len(node.args)}."
            self.wrong("TC44", message, node.span)

    def boolean(self, condition: n.Expr, what: str, code: str) -> None:
        self.expression(condition)
        if not (condition.dtype.is_bool and condition.dtype.is_scalar):
            self.wrong(code, f"the {what} is a scalar bool, and not {condition.dtype}.", condition.span)

    def bind(self, var: n.Var, span: Span) -> None:
        if not self.scopes.bind(var):
            self.wrong("TC41", f"{var.name!r} is bound a second time.", span)

    # ------------------------------------------------------------------------------------------------------- statements

    def statement(self, node: n.Stmt) -> None:
        match node:
            case n.SeqStmt(parts):
                with self.scopes.nested():
                    for part in parts:
                        self.statement(part)
            case n.LetStmt():
                self.let(node)
            case n.BufferStore():
                self.store(node)
            case n.For():
                self.loop(node)
            case n.While():
                self.repeat(node)
            case n.IfThenElse(condition, then, otherwise):
                self.boolean(condition, "condition of an if", "TC50")
                self.guards += 1
                for branch in (then, otherwise):
                    if branch is not None:
                        with self.scopes.nested():
                            self.statement(branch)
                self.guards -= 1
            case n.Evaluate(value):
                self.expression(value)
                if is_tile(value):
                    self.tile(value)
                if isinstance(value, n.Call) and value.op == "ret":
                    self.returns += [a for a in value.args if isinstance(a, n.Expr)]
            case n.AssertStmt(condition):
                self.boolean(condition, "condition of an assertion", "TC51")
            case n.AttrStmt():
                self.attribute(node)
            case n.Allocate():
                self.allocate(node)
            case n.AllocBuffer(buffer):
                self.declare(buffer, node.span)
            case n.AllocateConst(var):
                self.bind(var, node.span)
                self.deprecated(node)
            case n.DeclBuffer(buffer, data):
                if data is not None:
                    self.expression(data)
                self.declare(buffer, node.span, alias=True)
            case n.BlockRealize():
                self.realize(node)
            case n.Block():
                self.realize(n.BlockRealize((), n.IntImm(1, n.BOOL), node, node.span))
            case n.Break() | n.Continue():
                if not self.loops:
                    word = type(node).__name__.lower()
                    self.wrong("TC52", f"{word!r} stands in no loop.", node.span)
            case n.BufferRealize(buffer, _, condition, body):
                self.boolean(condition, "condition of a realisation", "TC53")
                with self.scopes.nested():
                    self.declare(buffer, node.span)
                    self.statement(body)
            case n.Prefetch(buffer):
                self.used(buffer, node.span)
                self.deprecated(node)
            case n.Store(var, value, index, predicate):
                for expr in (var, value, index, predicate):
                    self.expression(expr)
                self.deprecated(node)
            case _:
                self.wrong("TC99", f"a {type(node).__name__} is no statement.", node.span)

    def tile(self, call: n.Expr) -> None:
        """The rules of a tile operation: its arguments, and the boxes that it reads and writes."""
        assert isinstance(call, n.Call)
        try:
            operation(call)
        except DiagnosticError as error:
            self.found += error.diagnostics

    def deprecated(self, node: n.Stmt) -> None:
        self.wrong("TC31", f"{type(node).__name__} is deprecated or part of TE.", node.span, severity="warning")

    def declare(self, buffer: n.Buffer, span: Span, alias: bool = False) -> None:
        if not alias:
            for size in (*buffer.strides, buffer.elem_offset):
                if isinstance(size, n.Var):
                    self.scopes.bind(size)
        self.buffer(buffer)
        if not self.scopes.declare(buffer):
            self.wrong("TC41", f"the buffer {buffer.name!r} is declared a second time.", span)

    def let(self, node: n.LetStmt) -> None:
        self.expression(node.value)
        var, value = node.var, node.value
        if isinstance(var.type, n.PointerType):
            if not value.dtype.is_handle:
                self.wrong("TC54", f"{var.name!r} is a pointer, but its value is {value.dtype}.", node.span)
        elif var.dtype != value.dtype:
            self.wrong("TC54", f"{var.name!r} is {var.dtype}, but its value is {value.dtype}.", node.span)
        self.bind(var, node.span)
        if (reach := interval(value, self.scopes.bounds)) is not None:
            self.scopes.bounds[var] = reach

    def store(self, node: n.BufferStore) -> None:
        for expr in (*node.indices, node.value):
            self.expression(expr)
        self.used(node.buffer, node.span)
        self.report(indices_rule(node.buffer, node.indices), node.span)
        lanes = node.indices[-1].dtype.lanes if node.indices else 1
        wanted = node.buffer.dtype.with_lanes(lanes * node.buffer.dtype.lanes)
        value = node.value.dtype
        if value.lanes != wanted.lanes:
            self.wrong("TC55", f"a value of {value.lanes} lanes is stored where there are {wanted.lanes}.", node.span)
        elif value.code == "handle" and wanted.code != "handle" and not _is_of_a_device(node.value):
            self.wrong("TC56", f"a handle is stored into {node.buffer.name!r}, which holds {wanted}.", node.span)
        elif value != wanted and value.code != "handle":
            message = f"a value of type {value} is stored into {node.buffer.name!r}, which holds {wanted}: it is cast."
            self.wrong("TC56", message, node.span, severity="warning")
        if node.predicate is not None:
            self.expression(node.predicate)
        self.inside(node.buffer, node.indices, node.span)

    def loop(self, node: n.For) -> None:
        for expr in (node.min, node.extent, *([node.step] if node.step is not None else [])):
            self.expression(expr)
        var = node.loop_var
        kinds = {
            "loop variable": var.dtype,
            "start of the loop": node.min.dtype,
            "extent of the loop": node.extent.dtype,
        }
        for what, kind in kinds.items():
            if not (kind.is_integer and kind.is_scalar):
                self.wrong("TC57", f"the {what} {var.name!r} is a scalar integer, and not {kind}.", node.span)
        for what, expr in (("start", node.min), ("extent", node.extent)):
            fits = isinstance(expr, n.IntImm) and expr.dtype.bits <= var.dtype.bits
            if expr.dtype != var.dtype and not fits and expr.dtype.is_integer:
                message = f"the loop variable {var.name!r} is {var.dtype}, but its {what} is {expr.dtype}."
                self.wrong("TC58", message, node.span)
        if isinstance(node.step, n.IntImm) and node.step.value <= 0:
            self.wrong("TC59", f"the step of a loop is {node.step.value}; it must be positive.", node.span)
        vectorized = node.kind is n.ForKind.VECTORIZED
        if vectorized:
            if not (isinstance(node.min, n.IntImm) and node.min.value == 0):
                self.wrong("TC61", "a vectorized loop starts at 0.", node.span)
            if not isinstance(node.extent, n.IntImm):
                self.wrong("TC61", "a vectorized loop has a constant extent.", node.span)
            elif node.extent.value < 1:
                message = f"a vectorized loop has an extent of at least 1, and not {node.extent.value}."
                self.wrong("TC61", message, node.span)
        with self.scopes.nested():
            if node.thread_binding is not None:
                self.thread(node.thread_binding.thread_tag, node.extent, node.span)
            self.bind(var, node.span)
            empty = self.bounds(var, node)
            before, self.vector = self.vector, node.span if vectorized else self.vector
            self.loops += 1
            self.guards += empty
            self.statement(node.body)
            self.guards -= empty
            self.loops -= 1
            self.vector = before
        if node.thread_binding is not None and node.thread_binding.thread_tag not in self.outer_threads():
            self.threads.pop(node.thread_binding.thread_tag, None)

    def outer_threads(self) -> set[str]:
        return {tag for tag, (depth, _) in self.threads.items() if depth < 0}

    def bounds(self, var: n.Var, node: n.For) -> int:
        """Note what the variable can be; 1 where the loop may not run at all, so that nothing inside is certain."""
        low, extent = interval(node.min, self.scopes.bounds), interval(node.extent, self.scopes.bounds)
        if low is None or extent is None or node.step is not None:
            self.scopes.bounds.pop(var, None)
            return 1 if extent is None or extent[0] <= 0 else 0
        if extent[0] <= 0:
            return 1
        self.scopes.bounds[var] = (low[0], low[1] + extent[1] - 1)
        return 0

    def thread(self, tag: str, extent: n.Expr, span: Span) -> None:
        """All loops over one hardware index inside of a kernel agree about its extent."""
        if not isinstance(extent, n.IntImm) or not tag.startswith(("blockIdx", "threadIdx")):
            return
        known = self.threads.setdefault(tag, (extent.value, span))
        if known[0] != extent.value:
            self.wrong("TC62", f"{tag} has {known[0]} threads outside and {extent.value} here.", span)

    def repeat(self, node: n.While) -> None:
        self.expression(node.condition)
        kind = node.condition.dtype
        if not (kind.is_integer and kind.is_scalar):
            self.wrong("TC63", f"the condition of a while is a scalar integer or bool, and not {kind}.", node.span)
        if isinstance(node.condition, n.IntImm):
            self.wrong("TC64", "the condition of a while is a constant.", node.span)
        if self.vector is not None:
            self.wrong("TC65", "a vectorized loop holds no while.", node.span)
        self.loops += 1
        self.guards += 1
        with self.scopes.nested():
            self.statement(node.body)
        self.guards -= 1
        self.loops -= 1

    def attribute(self, node: n.AttrStmt) -> None:
        if isinstance(node.value, n.Expr):
            self.expression(node.value)
        binds = node.attr_key in ("thread_extent", "virtual_thread") and isinstance(node.node, n.IterVar)
        with self.scopes.nested():
            if binds and isinstance(node.node, n.IterVar):
                if isinstance(node.value, n.Expr):
                    self.thread(node.node.thread_tag, node.value, node.span)
                self.scopes.bind(node.node.var)
                if isinstance(node.value, n.IntImm):
                    self.scopes.bounds[node.node.var] = (0, node.value.value - 1)
            if isinstance(node.node, n.CommReducer):
                self.expression(node.node)  # type: ignore[arg-type]
            self.statement(node.body)
        if binds and isinstance(node.node, n.IterVar):
            self.threads.pop(node.node.thread_tag, None)

    def allocate(self, node: n.Allocate) -> None:
        for extent in node.extents:
            self.expression(extent)
            if not (extent.dtype.is_integer and extent.dtype.is_scalar):
                self.wrong(
                    "TC66",
                    f"an extent of {node.buffer_var.name!r} is a scalar integer, and not {extent.dtype}.",
                    node.span,
                )
        self.boolean(node.condition, "condition of an allocation", "TC67")
        kind = node.buffer_var.type
        if not isinstance(kind, n.PointerType):
            self.wrong("TC68", f"{node.buffer_var.name!r} is allocated, but is no pointer.", node.span)
        elif isinstance(kind.element_type, n.PrimType) and kind.element_type.dtype not in (
            node.dtype,
            n.DataType("int", 8),
        ):
            message = f"{node.buffer_var.name!r} points to {kind.element_type.dtype}, but holds {node.dtype}."
            self.wrong("TC68", message, node.span)
        self.bind(node.buffer_var, node.span)

    # ----------------------------------------------------------------------------------------------------------- blocks

    def realize(self, node: n.BlockRealize) -> None:
        block = node.block
        span = node.span if node.span is not NOWHERE else block.span
        for value in node.values:
            self.expression(value)
        self.boolean(node.predicate, "predicate of a block", "TC70")
        if len(node.values) != len(block.iter_vars):
            message = f"the block {block.name!r} has {len(block.iter_vars)} iterators, but {len(node.values)} bindings."
            self.wrong("TC71", message, span)
        sure = isinstance(node.predicate, n.IntImm) and node.predicate.value == 1
        with self.scopes.nested():
            for iterator, value in zip(block.iter_vars, node.values, strict=False):
                self.iterator(block, iterator, value, span, sure)
            self.guards += not sure
            for buffer in block.alloc_buffers:
                self.declare(buffer, buffer.span if buffer.span is not NOWHERE else span)
            for match in block.match_buffers:
                self.match(match)
            for region in (*block.reads, *block.writes):
                self.region(region)
            self.report_at(declared_rule(block))
            if block.init is not None:
                if not any(i.kind is n.IterKind.COMM_REDUCE for i in block.iter_vars):
                    message = f"the block {block.name!r} has an init, but no reduction iterator: it runs every time."
                    self.wrong("TC72", message, block.init.span, severity="warning")
                with self.scopes.nested():
                    self.statement(block.init)
            self.statement(block.body)
            self.guards -= not sure

    def report_at(self, findings: Iterable[tuple[Finding, Span]]) -> None:
        for finding, span in findings:
            self.report([finding], span)

    def iterator(self, block: n.Block, iterator: n.IterVar, value: n.Expr, span: Span, sure: bool) -> None:
        var, dom = iterator.var, iterator.dom
        self.bind(var, span)
        if not (var.dtype.is_integer and var.dtype.is_scalar):
            self.wrong("TC73", f"the iterator {var.name!r} is a scalar integer, and not {var.dtype}.", span)
        if value.dtype != var.dtype and not isinstance(value, n.IntImm):
            message = f"the iterator {var.name!r} is {var.dtype}, but is bound to {value.dtype}."
            self.wrong("TC74", message, span, severity="warning" if value.dtype.is_integer else "error")
        self.scopes.bounds.pop(var, None)
        reach = interval(value, self.scopes.bounds)
        if dom is None:
            return
        self.expression(dom.extent)
        if not dom.extent.dtype.is_integer:
            self.wrong("TC75", f"the extent of {var.name!r} is an integer, and not {dom.extent.dtype}.", span)
        known = interval(dom.min, {}), interval(dom.extent, {})
        if reach is not None and known[0] is not None and known[1] is not None:
            low, high = known[0][0], known[0][1] + known[1][1] - 1
            if sure and not self.guards and (reach[1] < low or reach[0] > high):
                message = f"{var.name!r} runs over {low} to {high}, but is bound to {reach[0]} to {reach[1]}."
                self.wrong("TC76", message, value.span if value.span is not NOWHERE else span)
            reach = max(reach[0], low), min(reach[1], high)
            if reach[0] <= reach[1]:
                self.scopes.bounds[var] = reach
        elif reach is not None:
            self.scopes.bounds[var] = reach

    def match(self, match: n.MatchBufferRegion) -> None:
        self.region(match.source)
        for size in (*match.buffer.shape, *match.buffer.strides, match.buffer.elem_offset):
            if isinstance(size, n.Var):
                self.scopes.bind(size)
        span = match.span if match.span is not NOWHERE else match.buffer.span
        self.report(match_rule(match, self.scopes.bounds), span)
        self.declare(match.buffer, span, alias=True)

    def region(self, region: n.BufferRegion) -> None:
        span = region.span
        self.used(region.buffer, span)
        if len(region.region) != len(region.buffer.shape):
            message = (
                f"{region.buffer.name!r} has {len(region.buffer.shape)} dimensions, but {len(region.region)} ranges."
            )
            self.wrong("TC77", message, span)
        for part in region.region:
            for expr in (part.min, part.extent):
                self.expression(expr)
                if not expr.dtype.is_integer:
                    self.wrong(
                        "TC77", f"a range of {region.buffer.name!r} is of integers, and not of {expr.dtype}.", span
                    )


def _is_of_a_device(value: n.Expr) -> bool:
    """True if an intrinsic of a device gives the value: its type is the device's business."""
    if not isinstance(value, n.Call) or not isinstance(value.op, str):
        return False
    row = find(value.op)
    return row is not None and row.meaning == GPU_ONLY
