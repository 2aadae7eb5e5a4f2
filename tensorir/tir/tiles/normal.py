"""Kernels of tiles without what says nothing about values: thread indices, reducers, safe values.

A kernel is a program of its blocks, to which tile operations belong as a whole; `threads` has what its threads do for
themselves. A reducer is a buffer whose updates come in any order; here they come in that of the text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from itertools import pairwise

from tensorir.tir import nodes as n
from tensorir.tir.build import const, nothing, seq
from tensorir.tir.builtins import HINTS
from tensorir.tir.dtypes import HANDLE
from tensorir.tir.tiles.dependence import parts_of
from tensorir.tir.tiles.folds import combined, identity
from tensorir.tir.tiles.operations import OPERATIONS
from tensorir.tir.tiles.threads import by_threads
from tensorir.tir.tiles.warp_groups import in_one_order
from tensorir.tir.trees import transform, walk

__all__ = ["normal"]

_OTHERS = frozenset((
    *HINTS, "launch_thread_idx", "reducer_update", "device_assert", "device_assert_with_msg", "any_of", "all_of",
    "atomic_addx2_elem_op", "atomic_addx4_elem_op",
))  # fmt: skip


def normal(func: n.PrimFunc) -> n.PrimFunc:
    """The function as a program of its blocks; itself where it has no tile operations and no thread indices."""
    found = [node for node in walk(func.body) if isinstance(node, n.Call) and isinstance(node.op, str)]
    if not any(call.op in OPERATIONS or call.op in _OTHERS for call in found):
        return func
    reducers: dict[n.Var, str] = {}
    safe: dict[n.Var, n.Attribute] = {}
    for block in walk(func.body):
        if isinstance(block, n.Block):
            for key in ("reducer_info", "reducer_info_v2"):
                reducers |= {memory: _kind(facts) for memory, facts in _entries(block, key).items()}
            safe |= _entries(block, "safe_value_map")
    serial = _folding_loops(func.body, reducers)

    def rule(node: n.Node) -> n.Node | None:
        match node:
            case n.Call(op="copy", args=(n.Call(op="region", args=(n.BufferLoad(buffer), *_)), *_)):
                value = safe.get(buffer.data)
                if isinstance(value, n.Expr | int | float):
                    made = value if isinstance(value, n.Expr) else const(value, buffer.dtype)
                    return replace(node, attrs={**node.attrs, "safe_value": made})
            case n.Call(op="reducer_init", args=(n.Call(op="region", args=(n.BufferLoad(buffer), *_)) as box,)):
                start = identity(reducers.get(buffer.data, "sum"), buffer.dtype)
                return replace(node, op="fill", args=(box, start))
            case n.Evaluate(n.Call(op="reducer_update", args=(n.BufferLoad(buffer, places) as old, n.Expr() as new))):
                value = combined(reducers.get(buffer.data, "sum"), old, new)
                return n.BufferStore(buffer, value, places, None, node.span)
            case n.Evaluate(n.Call(op=str(op))) if op in HINTS:
                return nothing(node.span)
            case n.Evaluate(n.Call(op="call_extern", args=(n.StringImm(name), *_))) if name.startswith("debug_print"):
                return nothing(node.span)
            case n.Evaluate(n.Call(op="device_assert" | "device_assert_with_msg", args=(n.Expr() as condition, *_))):
                return n.AssertStmt(condition, ("a device assertion fails",), span=node.span)
            case n.Evaluate(n.Call(op="atomic_addx2_elem_op" | "atomic_addx4_elem_op" as name) as call):
                return _apart(call, 2 if "x2" in str(name) else 4) or node
            case n.Call(
                op="any_of" | "all_of" as name, args=(n.Call(args=(n.BufferLoad() as first, *_)), n.IntImm(count))
            ):
                return reduce(n.Or if name == "any_of" else n.And, (_truth(_next(first, k)) for k in range(count)))
            case n.For(kind=n.ForKind.PARALLEL) if node.loop_var in serial:
                return replace(node, kind=n.ForKind.SERIAL)
            case _:
                pass
        return None

    return replace(func, body=by_threads(transform(in_one_order(_with_lets(func.body)), rule)))


def _next(first: n.BufferLoad, by: int) -> n.BufferLoad:
    """An element that lies some places behind another one."""
    *outer, last = first.indices
    return replace(first, indices=(*outer, n.Add(last, const(by, last.dtype)) if by else last))


def _truth(value: n.Expr) -> n.Expr:
    return value if value.dtype.is_bool else n.NE(value, const(0, value.dtype))


def _apart(call: n.Call, count: int) -> n.Stmt | None:
    """Several elements that are updated at once, one by one."""
    loads = [a.args[0] for a in call.args[:2] if isinstance(a, n.Call) and a.op in ("access_ptr", "address_of")]
    places = [load for load in loads if isinstance(load, n.BufferLoad)]
    if len(places) != 2:
        return None
    to, given = places
    made: list[n.Stmt] = []
    for k in range(count):
        at = n.Call(HANDLE, "address_of", (_next(to, k),), span=call.span)
        update = n.Call(to.dtype, "atomic_add", (at, _next(given, k)), span=call.span)
        made.append(n.Evaluate(update, call.span))
    return seq(made, call.span)


def _entries(block: n.Block, key: str) -> dict[n.Var, n.Attribute]:
    """The entries of an attribute of a block that are about buffers, by their memory."""
    found = block.annotations.get(key)
    return dict(found.entries) if isinstance(found, n.MemoryMap) else {}


def _kind(facts: n.Attribute) -> str:
    """How a reducer combines."""
    return str(facts.get("op", "sum")) if isinstance(facts, Mapping) else "sum"


def _folding_loops(body: n.Stmt, reducers: Mapping[n.Var, str]) -> set[n.Var]:
    """The loops that update elements of reducers which they do not choose."""
    found: set[n.Var] = set()
    pending: list[tuple[n.Stmt, tuple[n.Var, ...]]] = [(body, ())]
    while pending:
        node, loops = pending.pop()
        match node:
            case n.BufferStore(buffer, _, indices) | n.Evaluate(
                n.Call(op="reducer_update", args=(n.BufferLoad(buffer, indices), *_))
            ) if buffer.data in reducers:
                chosen = {v for index in indices for v in walk(index) if isinstance(v, n.Var)}
                found |= set(loops) - chosen
            case n.For(var, kind=n.ForKind.PARALLEL):
                loops = (*loops, var)
            case _:
                pass
        pending.extend((part, loops) for part in parts_of(node))
    return found


def _with_lets(body: n.Stmt) -> n.Stmt:
    """Numbers that are given a value once, where they are declared, as lets: `tile: T.int32 = t * 3 + bx`."""
    stores: Counter[n.Buffer] = Counter()
    other: set[n.Node] = set()
    for node in walk(body):
        match node:
            case n.BufferStore(buffer) if buffer.layout == "scalar":
                stores[buffer] += 1
            case n.Call(op=op, args=args):
                other |= {a for a in args if isinstance(a, n.Buffer)}
                other |= {a.buffer for a in args if isinstance(a, n.BufferLoad) and op in _PLACES}
            case _:
                pass
    made: dict[n.Buffer, n.Var] = {}

    def bound(node: n.Node) -> n.Node | None:
        if not isinstance(node, n.SeqStmt):
            return None
        parts = list(node.seq)
        for k, (first, second) in enumerate(pairwise(parts)):
            match first, second:
                case n.AllocBuffer(buffer), n.BufferStore(stored, value) if buffer is stored and stores[buffer] == 1:
                    if buffer not in other and value.dtype == buffer.dtype:
                        var = made[buffer] = n.Var(buffer.name, n.PrimType(buffer.dtype), buffer.span)
                        parts[k : k + 2] = [nothing(first.span), n.LetStmt(var, value, second.span)]
                case _:
                    pass
        return (
            replace(node, seq=tuple(parts)) if any(a is not b for a, b in zip(parts, node.seq, strict=True)) else None
        )

    body = transform(body, bound)
    if not made:
        return body
    return transform(body, lambda node: made.get(node.buffer) if isinstance(node, n.BufferLoad) else None)


_PLACES = frozenset(("address_of", "access_ptr"))
