"""`with T.Kernel(...)`: a grid of blocks around one block of tiles, as printed TileLang has it; loops over tiles."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import cast

from tensorir.tir import nodes as n
from tensorir.tir.build import const, seq
from tensorir.tir.dtypes import BOOL, INT32
from tensorir.tir.nodes import ForKind, IterKind
from tensorir.tir.script.arithmetic import binary, compare
from tensorir.tir.script.assignments import emit_store, scalar
from tensorir.tir.script.body import BlockParts, Body
from tensorir.tir.script.calls import Call
from tensorir.tir.script.calls_of_buffers import bounds
from tensorir.tir.script.syntax import Located
from tensorir.tir.script.values import LoopForm, Value, members
from tensorir.tir.tilelang.context import Context, Launch, PersistentLoop
from tensorir.tir.tilelang.functions import let

_PLACES = ("x", "y", "z")


def launch(it: Context, call: Call) -> Value:
    """`T.Kernel(gx, gy, threads=128)`: what is said of threads and clusters does not bear on values."""
    threads = call.kwargs.get("threads")
    sizes = [threads] if isinstance(threads, int) else members(threads) or []
    extents = tuple(call.number(size, "the number of threads") for size in sizes)
    if not call.args or len(call.args) > len(_PLACES):
        call.fail("TS24", "T.Kernel has one to three extents.")
    for extent, place in zip(call.args, call.node.args, strict=False):
        if not isinstance(extent, int | n.Expr | n.Buffer):
            it.fail(place, "TS21", "an extent of the grid is an integer.")
    annotations: dict[str, n.Attribute] = {}
    if extents:
        annotations["tl.launch_threads"] = (*extents, *(1 for _ in range(len(extents), 3)))
    grid = tuple(call.expr(extent) for extent in call.args)
    return Launch(grid, annotations, (*extents, 1, 1, 1)[:3] if extents else None, call.node)


def kernel(it: Context, node: ast.With, item: ast.withitem, rest: list[ast.withitem], form: Launch) -> None:
    """Loops over the grid around the block `tilelang_root`; a thread's own place stands before it."""
    if rest:
        it.fail(rest[0].context_expr, "TS21", "T.Kernel stands alone in its 'with'.")
    if it.launch is not None:
        it.fail(item.context_expr, "TS26", "a kernel stands within another one here.")
    body, span = it.body, it.reader.text.span(node)
    names = _names(it, item, len(form.grid))
    made = [
        n.Var(name, n.PrimType(e.dtype), it.reader.text.span(at))
        for (name, at), e in zip(names, form.grid, strict=True)
    ]
    it.launch, it.blocks = form, tuple(made)
    it.reader.scope.push()
    body.bodies.append(outer := Body())
    try:
        it.threads = _threads(it, form)
        for (name, _), var, extent in zip(names, made, form.grid, strict=True):
            it.reader.scope.define(name, var)
            it.reader.loops[var] = n.Range(const(0, extent.dtype), extent, extent.span)
        for around in body.blocks:
            around.has_blocks = True
        body.blocks.append(parts := BlockParts(reads=(), writes=(), annotations=dict(form.annotations)))
        try:
            statements = body.suite(node.body, span)
        finally:
            body.blocks.pop()
        body.emit(body.realize("tilelang_root", parts, statements, span, complete=False))
    finally:
        body.bodies.pop()
        it.reader.scope.pop()
        it.launch, it.blocks, it.threads = None, (), ()
    statement = outer.close(span)
    for var, extent, place in reversed(list(zip(made, form.grid, _PLACES, strict=False))):
        thread = n.IterVar(None, var, IterKind.THREAD_INDEX, f"blockIdx.{place}", span)
        zero = const(0, extent.dtype)
        statement = n.For(var, zero, extent, ForKind.THREAD_BINDING, statement, thread, {}, None, span)
    body.emit(statement)


def _names(it: Context, item: ast.withitem, count: int) -> list[tuple[str, Located]]:
    """The names behind 'as', one for each dim of the grid."""
    target = item.optional_vars
    if target is None:
        return [(f"b{place}", item.context_expr) for place in _PLACES[:count]]
    parts = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
    if len(parts) != count:
        it.fail(target, "TS24", f"the grid has {count} dims, and this gives {len(parts)} names.")
    found: list[tuple[str, Located]] = []
    for part in parts:
        if not isinstance(part, ast.Name):
            it.fail(part, "TS07", "a name stands here.")
        found.append((part.id, part))
    return found


def _threads(it: Context, form: Launch) -> tuple[n.Buffer, ...]:
    """The scalars that hold a thread's place; names of the text do not see them."""
    made: list[n.Buffer] = []
    it.reader.scope.push()
    for position, place in enumerate(_PLACES):
        buffer = scalar(it.body, f"t{place}", INT32, form.node)
        index = n.Call(INT32, "launch_thread_idx", (const(position, INT32),), span=it.reader.text.span(form.node))
        emit_store(it.body, buffer, index, (const(0, INT32),), form.node)
        made.append(buffer)
    it.reader.scope.pop()
    return tuple(made)


def persistent(it: Context, node: ast.For, form: PersistentLoop) -> None:
    """The tiles `wave · w + index` for w = 0, 1, ... in the domain, in groups along the last dim."""
    span = it.reader.text.span(node.iter)

    def of(symbol: str, a: Value, b: Value) -> n.Expr:
        return it.reader.as_expr(binary(symbol, a, b, span), node.iter)

    *leading, last = form.domain
    padded = of("*", of("//", of("-", of("+", last, form.group), 1), form.group), form.group)
    total = padded
    for extent in leading:
        total = of("*", total, extent)
    waves = of("//", of("-", of("+", total, form.wave), 1), form.wave)
    targets = node.target.elts if isinstance(node.target, ast.Tuple | ast.List) else [node.target]
    names = [part.id for part in targets if isinstance(part, ast.Name)]
    if len(names) != len(form.domain):
        it.fail(node.target, "TS24", f"there are {len(form.domain)} values for {len(targets)} names.")
    var = n.Var("w", n.PrimType(INT32), span)
    body = it.body

    def condition(a: n.Expr, b: n.Expr) -> n.Expr:
        return it.reader.as_expr(compare("<", a, b, span), node.iter, BOOL)

    it.reader.scope.push()
    body.bodies.append(outer := Body())
    index = let(it, "tile", of("+", of("*", var, form.wave), form.index), node.target)
    body.bodies.append(inner := Body())
    number, places = of("//", index, form.group), list[n.Expr]()
    for extent in reversed(leading):
        places.insert(0, of("%", number, extent))
        number = of("//", number, extent)
    places.append(of("+", of("*", number, form.group), of("%", index, form.group)))
    for name, place in zip(names, places, strict=True):
        it.reader.scope.define(name, let(it, name, place, node.target))
    held = condition(cast("n.Expr", it.reader.scope.find(names[-1])), last)
    try:
        body.emit(n.IfThenElse(held, body.suite(node.body, it.reader.text.span(node)), None, span))
    finally:
        body.bodies.pop()
        body.bodies.pop()
        it.reader.scope.pop()
    outer.statements.append(n.IfThenElse(condition(index, total), inner.close(span), None, span))
    body.emit(
        n.For(
            var, const(0, INT32), waves, ForKind.SERIAL, seq(outer.statements, span), None, form.annotations, None, span
        )
    )


# Loops


def pipelined(it: Context, call: Call) -> Value:
    """A serial loop; how its copies run ahead does not bear on values."""
    start, stop, stages, order, stage, notes, *_ = call.take(
        "start", "stop", "num_stages", "order", "stage", "annotations", "sync", "group", required=1
    )
    annotations = call.annotations(notes)
    if stages is not None and (count := call.number(stages, "the number of stages")):
        annotations["num_stages"] = count
    for key, value in (("tl_pipeline_order", order), ("tl_pipeline_stage", stage)):
        if value:
            annotations[key] = it.reader.attribute(value, call.node)
    return LoopForm((bounds(call, start, stop),), ForKind.SERIAL, "", annotations)


def parallel(it: Context, call: Call) -> Value:
    annotations = call.annotations(call.kwargs.get("annotations"))
    width = call.kwargs.get("coalesced_width")
    if width is not None:
        annotations["coalesced_width"] = call.number(width, "the width")
    if not call.args:
        call.fail("TS24", "a loop needs an extent.")
    ranges = tuple(bounds(call, extent, None) for extent in call.args)
    return LoopForm(ranges, ForKind.PARALLEL, "", annotations)


def serial(it: Context, call: Call) -> Value:
    start, stop, step, notes, explicit, factor = call.take(
        "start", "stop", "step", "annotations", "explicit", "unroll_factor", required=1
    )
    annotations = call.annotations(notes)
    if explicit:
        annotations["pragma_unroll_explicit"] = True
    if factor is not None:
        annotations["pragma_unroll_factor"] = call.number(factor, "the factor")
    kind = ForKind(call.name.lower())
    by = None if step is None else call.expr(step)
    return LoopForm((bounds(call, start, stop),), kind, "", annotations, by)


def persistent_form(it: Context, call: Call) -> Value:
    domain, wave, index, group, stages, notes = call.take(
        "domain", "wave_size", "index", "group_size", "num_stages", "annotations", required=3
    )
    annotations = call.annotations(notes)
    if stages is not None and (count := call.number(stages, "the number of stages")):
        annotations["num_stages"] = count
    size = 8 if group is None else call.number(group, "the size of a group")
    sizes = it.reader.exprs(domain, call.node)
    return PersistentLoop(sizes, call.expr(wave), call.expr(index), size, annotations)


# What a kernel knows about itself


@dataclass(frozen=True)
class _Asked:
    """A question for the launch around: the dim, and what to answer from."""

    it: Context
    call: Call

    def dim(self) -> int:
        (dim,) = self.call.take("dim")
        found = 0 if dim is None else self.call.number(dim, "the dim")
        if self.it.launch is None:
            self.call.fail("TS26", f"T.{self.call.name} stands inside of a T.Kernel.")
        if not 0 <= found < 3:
            self.call.fail("TS24", f"the grid has no dim {found}.")
        return found


def thread_binding(it: Context, call: Call) -> Value:
    dim = _Asked(it, call).dim()
    return n.BufferLoad(it.threads[dim], (const(0, INT32),), span=call.span)


def thread_bindings(it: Context, call: Call) -> Value:
    _Asked(it, call).dim()
    return [n.BufferLoad(buffer, (const(0, INT32),), span=call.span) for buffer in it.threads]


def block_binding(it: Context, call: Call) -> Value:
    dim = _Asked(it, call).dim()
    return it.blocks[dim] if dim < len(it.blocks) else 0


def block_bindings(it: Context, call: Call) -> Value:
    _Asked(it, call).dim()
    return list(it.blocks)


def block_extent(it: Context, call: Call) -> Value:
    dim = _Asked(it, call).dim()
    assert it.launch is not None
    return it.launch.grid[dim] if dim < len(it.launch.grid) else 1


def thread_extent(it: Context, call: Call) -> Value:
    dim = _Asked(it, call).dim()
    assert it.launch is not None
    if it.launch.threads is None:
        call.fail("TS24", "the kernel does not say how many threads it has.", "write T.Kernel(..., threads=128).")
    return it.launch.threads[dim]


MAKERS = {
    "Kernel": launch, "ClusterKernel": launch, "Pipelined": pipelined, "Parallel": parallel,
    "Persistent": persistent_form,
    **dict.fromkeys(("serial", "Serial", "unroll", "Unroll", "vectorized", "Vectorized"), serial),
    "get_thread_binding": thread_binding, "get_thread_bindings": thread_bindings, "get_block_binding": block_binding,
    "get_block_bindings": block_bindings, "get_block_extent": block_extent, "get_thread_extent": thread_extent,
}  # fmt: skip
