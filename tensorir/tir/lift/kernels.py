"""Kernels: nests of loops bound to threads. Blocks are loops around all; threads run in lockstep, innermost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce

from tensorir.ir.types import BOOL, INT32
from tensorir.lifting.nests.linear import linear
from tensorir.lifting.nests.nest import Check, External, Loop, Node, Store, While
from tensorir.lifting.nests.terms import Buffer, Index, Number, Op, Term, index_names
from tensorir.runtime.errors import Note, refuse
from tensorir.tir import nodes as n
from tensorir.tir.builtins import is_block, is_hardware, with_exchanges
from tensorir.tir.lift.calls import reduce_scope
from tensorir.tir.lift.expressions import element_of
from tensorir.tir.lift.intrinsics import cast
from tensorir.tir.lift.loops import loop
from tensorir.tir.lift.memory import View, plus
from tensorir.tir.lift.reader import Reader, Thread, read_statement, returns, updates, writes
from tensorir.tir.lift.warps import EXCHANGES
from tensorir.tir.trees import walk


def thread_loop(reader: Reader, node: n.For, tag: str) -> list[Node]:
    """A loop bound to an index of the hardware."""
    return _thread(reader, tag, node.loop_var, node.min, node.extent, node.body, node)


def attribute(reader: Reader, node: n.AttrStmt) -> list[Node]:
    """`thread_extent` binds an index of the hardware, `virtual_thread` is a loop; other attributes change nothing."""
    match node:
        case n.AttrStmt(n.IterVar(_, var, _, tag), "thread_extent" | "virtual_thread" as key, n.Expr() as extent, body):
            zero = n.IntImm(0, var.dtype)
            if key == "virtual_thread" or not is_hardware(tag):
                return read_statement(reader, n.For(var, zero, extent, n.ForKind.SERIAL, body, span=node.span))
            return _thread(reader, tag, var, zero, extent, body, node)
        case n.AttrStmt(n.CommReducer() as reducer, "reduce_scope", _, body):
            return reduce_scope(reader, reducer, body)
        case _:
            return read_statement(reader, node.body)


def _thread(
    reader: Reader, tag: str, var: n.Var, low: n.Expr, extent: n.Expr, body: n.Stmt, node: n.Stmt
) -> list[Node]:
    if reader.threads is None:
        return _launch(reader, node)

    size = cast(reader.term(extent), INT32)
    thread = reader.threads.get(tag)
    if thread is None:
        among, most = reader.launched[tag]
        index = cast(reader.term(among), INT32)
    else:
        index = Index(thread.name, INT32) if thread.extent != 1 else Number(0, INT32)
        most = Number(thread.extent, INT32)
    value = cast(plus(cast(reader.term(low), INT32), index), element_of(var.dtype))
    reader.scope.values[var] = lambda lane: value
    inside = () if size == most else (Op("less", (index, size), BOOL),)
    with reader.guarded(*inside):
        return read_statement(reader, body)


def _launch(reader: Reader, node: n.Stmt) -> list[Node]:
    """A kernel: its blocks as loops around it, its threads around each statement."""

    node = with_exchanges(node)
    for part, tag, var, _ in _bindings(node):
        sizes = dict.fromkeys(cast(reader.term(e), INT32) for _, t, _, e in _bindings(node) if t == tag)
        if is_block(tag) and tag not in reader.launched and any(_number(s) is None for s in sizes):
            # data tell how many blocks there are: one after the other, as many as the most that a part asks for
            most = reduce(lambda a, b: Op("max", (a, b), INT32), sizes)
            before, reader.launched = reader.launched, {**reader.launched, tag: (var, most)}
            found = loop(reader, var, Number(0, INT32), most, None, True, node, part.span)
            reader.launched = before
            return found
    extents = _extents(reader, node)
    if any(extent <= 0 for extent in extents.values()):
        return []
    alone = _takes_turns(node) and _apart(node)
    reader.threads = {
        tag: Thread(reader.fresh(tag.replace(".", "_")), extent, alone or is_block(tag))
        for tag, extent in extents.items()
    }
    reader.ranges.update({t.name: (0, t.extent - 1) for t in reader.threads.values()})
    blocks = [t for t in reader.threads.values() if t.block and t.extent != 1]
    before, reader.loops = reader.loops, (*reader.loops, *(t.name for t in blocks))
    reader.joined = _joined(node)
    reader.stretches += 1
    reader.stretch = reader.stretches if any(_is_barrier(part) for part in walk(node)) else None
    reader.shuffling = node if any(isinstance(p, n.Call) and p.op in EXCHANGES for p in walk(node)) else None
    _privatise(reader, node)
    returned, live = reader.returned, list(reader.live)
    nodes: list[Node] = []
    if returns(node):
        reader.returned = reader.flag("returned", node.span)
        nodes.append(reader.cleared(reader.returned, node.span))
    try:
        nodes += read_statement(reader, node)
    finally:
        reader.loops, reader.threads, reader.stretch = before, None, None
        reader.returned, reader.live = returned, live
    told, counted = _told(nodes), any(map(_adds_up, nodes))
    for thread in reversed(blocks):
        if thread.name not in told and not counted:  # all blocks do the same, and so do it once
            nodes = _met(nodes, thread, {buffer: list(values) for buffer, values in reader.kept.items()})
            for buffer in reader.buffers:  # what each has for itself is one then
                buffer.private = tuple(name for name in buffer.private if name != thread.name)
            continue
        bounds = Number(0, INT32), Number(thread.extent, INT32)
        nodes = [Loop(thread.name, *bounds, tuple(nodes), True, node.span, thread.name)]
    return nodes


def _adds_up(node: Node) -> bool:
    """True if a statement updates something atomically, which every block does for itself."""
    match node:
        case Loop(body=body) | While(body=body):
            return any(map(_adds_up, body))
        case _:
            return isinstance(node, Store) and node.atomic


def _met(nodes: Sequence[Node], thread: Thread, kept: dict[Buffer, list[Term]]) -> list[Node]:
    """Nodes that all blocks do alike: those that store to what they read, in memory of all, are done by each block.

    `kept` has what is in memory that each block has for itself, as far as the text has come.
    """
    found: list[Node] = []
    for node in nodes:
        match node:
            case Loop(body=body) | While(body=body):
                inner = _met(body, thread, kept)
                same = all(a is b for a, b in zip(inner, body, strict=True))
                found.append(node if same else replace(node, body=tuple(inner)))
            case Store(buffer) if thread.name in buffer.root.private or buffer.loops:
                kept.setdefault(buffer, []).append(node.value)
                found.append(node)
            case Store() if updates(node, kept):
                bounds = Number(0, INT32), Number(thread.extent, INT32)
                found.append(Loop(thread.name, *bounds, (node,), True, node.span, thread.name))
            case _:
                found.append(node)
    return found


def _told(nodes: Sequence[Node]) -> set[str]:
    """The loops whose variables occur in nodes."""
    found: set[str] = set()
    for node in nodes:
        match node:
            case Loop(_, low, extent, body):
                found |= _told(body).union(*map(index_names, (low, extent)))
            case Store(_, indices, value, guards):
                found = found.union(*map(index_names, (*indices, value, *guards)))
            case While(condition, body, guards):
                found |= _told(body).union(*map(index_names, (condition, *guards)))
            case Check(condition, _, guards):
                found = found.union(*map(index_names, (condition, *guards)))
            case External(guards=guards):
                found = found.union(*map(index_names, guards))
    return found


def _is_barrier(node: n.Node) -> bool:
    return isinstance(node, n.Call) and node.op == "tvm_storage_sync"


def _takes_turns(node: n.Stmt) -> bool:
    """True if threads take different numbers of turns: a while, or a loop whose bounds are data."""
    for part in walk(node):
        match part:
            case n.While():
                return True
            case n.For(_, low, extent):
                if any(isinstance(inner, n.BufferLoad) for bound in (low, extent) for inner in walk(bound)):
                    return True
            case _:
                pass
    return False


def _apart(node: n.Stmt) -> bool:
    """True if every thread keeps to elements of its own, so that threads may as well run one after the other.

    What is stored outside of a thread is so at indices of hardware and numbers only, and is read at the same ones.
    """
    own: set[n.Var] = set()
    stored: set[n.Var] = set()
    accesses: list[tuple[n.Buffer, tuple[n.Expr, ...]]] = []
    for part in walk(node):
        match part:
            case n.For(var, _, _, n.ForKind.THREAD_BINDING):
                own.add(var)
            case n.AttrStmt(n.IterVar(_, var, _, _), "thread_extent"):
                own.add(var)
            case n.BufferStore(buffer, _, indices):
                stored.add(buffer.data)
                accesses.append((buffer, indices))
            case n.BufferLoad(buffer, indices):
                accesses.append((buffer, indices))
            case n.Buffer() if part.scope.startswith("shared"):
                return False
            case n.Call(op=str(name)) if name in TOGETHER:
                return False
            case n.Call() if writes(part):
                return False  # no store says where
            case _:
                pass
    places: dict[n.Var, str] = {}
    for buffer, indices in accesses:
        if buffer.data in stored and buffer.scope != "local":
            free = {inner for index in indices for inner in walk(index) if isinstance(inner, n.Var)}
            if not free <= own or any(isinstance(inner, n.BufferLoad) for index in indices for inner in walk(index)):
                return False
            if places.setdefault(buffer.data, str(indices)) != str(indices):
                return False
    return True


TOGETHER = frozenset(("tvm_storage_sync", "tvm_thread_allreduce", *EXCHANGES))
"""What threads do together."""


def _privatise(reader: Reader, node: n.Stmt) -> None:
    """Buffers of a block's or a thread's scope that are allocated outside have a copy per block, or thread.

    A later kernel has copies of its own: what an earlier one left there is lost. What no kernel stores
    is as statements outside of them leave it.
    """
    assert reader.threads is not None
    lent: set[Buffer] = set()
    for part in walk(node):
        if isinstance(part, n.Buffer) and part in reader.scope.views:
            memory = reader.scope.views[part].buffer.root
            if part.scope in ("global", "") or memory.argument or memory in lent:
                continue
            copies = reader.apart(part, part.scope.startswith("shared"))
            outside, inside = reader.used_outside.get(part.data, (None, None))
            if outside is not None and inside is None:
                continue
            if outside is not None and inside is not None and copies:
                scope = part.scope.partition(".")[0]
                message = (
                    f"{part.name!r} is {scope} storage that a kernel stores to and that is used outside of it: "
                    f"each {'block' if scope == 'shared' else 'thread'} has its own."
                )
                help = "use it in the kernel alone, or give the buffer the scope global."
                note = Note("it is used outside here.", outside)
                raise refuse("TL17", message, help, at=inside, notes=(note,))
            if memory in reader.lent:
                memory = _anew(reader, memory)
            elif memory.private:
                continue
            memory.private = copies
            lent.add(memory)
    reader.lent |= lent


def _anew(reader: Reader, memory: Buffer) -> Buffer:
    """Other memory of the same kind, in the place of that which an earlier kernel had."""
    made = {memory: replace(memory, name=reader.fresh(memory.name))}
    reader.buffers.append(made[memory])

    def moved(view: View) -> View:
        if view.buffer.root is not memory:
            return view
        if view.buffer not in made:
            made[view.buffer] = replace(view.buffer, name=reader.fresh(view.buffer.name), memory=made[memory])
        return replace(view, buffer=made[view.buffer])

    scope = reader.scope
    scope.views.update({buffer: moved(view) for buffer, view in scope.views.items()})
    scope.pointers.update({pointer: moved(view) for pointer, view in scope.pointers.items()})
    return made[memory]


def _joined(node: n.Stmt) -> dict[n.Buffer, frozenset[str]]:
    """Buffers that reductions over threads write, one copy for all of these threads; and the tags of the threads.

    What is also given to `tvm_thread_allreduce` each thread has summed up alone.
    """
    tags: dict[n.Var, frozenset[str]] = {}
    found: dict[n.Buffer, frozenset[str]] = {}
    alone: set[n.Buffer] = set()

    def of(value: n.Expr) -> frozenset[str]:
        return frozenset[str]().union(*(tags.get(v, frozenset()) for v in walk(value) if isinstance(v, n.Var)))

    for part in walk(node):
        match part:
            case n.For(var, _, _, n.ForKind.THREAD_BINDING, _, n.IterVar(_, _, _, tag)):
                tags[var] = frozenset([tag]) if is_hardware(tag) and not is_block(tag) else frozenset()
            case n.AttrStmt(n.IterVar(_, var, _, tag), "thread_extent"):
                tags[var] = frozenset([tag]) if not is_block(tag) else frozenset()
            case n.LetStmt(var, value):
                tags[var] = of(value)
            case n.Call(op="tvm_thread_allreduce", args=arguments):
                alone |= {a.buffer for a in arguments if isinstance(a, n.BufferLoad)}
            case n.BlockRealize(values, _, block):
                for iterator, value in zip(block.iter_vars, values, strict=True):
                    tags[iterator.var] = of(value)
                reduced = [tags[i.var] for i in block.iter_vars if i.kind is n.IterKind.COMM_REDUCE]
                if crossing := frozenset[str]().union(*reduced):
                    for store in walk(block):
                        if isinstance(store, n.BufferStore):
                            found[store.buffer] = found.get(store.buffer, frozenset()) | crossing
            case _:
                pass
    return {b: t for b, t in found.items() if b not in alone}


def _extents(reader: Reader, node: n.Stmt) -> dict[str, int]:
    """The extent of every index of the hardware that a kernel uses, but for those that a loop counts."""
    found: dict[str, int] = {}
    for part, tag, _, extent in _bindings(node):
        if tag not in reader.launched:
            size = _number(reader.term(extent))
            if size is None:
                help = "launch as many threads as there may be, with a condition inside."
                raise refuse("TL01", f"the extent of {tag} depends on data.", help, at=part.span)
            found[tag] = max(found.get(tag, 0), size)
    return found


def _bindings(node: n.Stmt) -> Iterator[tuple[n.Stmt, str, n.Var, n.Expr]]:
    """Bindings of variables to indices of the hardware in a kernel: tag, variable and extent."""
    for part in walk(node):
        match part:
            case n.For(var, _, extent, n.ForKind.THREAD_BINDING, _, n.IterVar(_, _, _, tag)) if is_hardware(tag):
                yield part, tag, var, extent
            case n.AttrStmt(n.IterVar(_, var, _, tag), "thread_extent", n.Expr() as extent) if is_hardware(tag):
                yield part, tag, var, extent
            case _:
                pass


def _number(size: Term) -> int | None:
    """The number that a term is, whatever the data."""
    known = None if isinstance(size, Number) else linear(size, {})
    if isinstance(size, Number):
        return int(size.value)
    return known.constant if known is not None and known.is_number else None
