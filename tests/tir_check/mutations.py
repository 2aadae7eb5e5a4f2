"""Mutants of a function: copies with one thing changed, made from its tree in a fixed order.

Each has a kind: `operator`, `constant`, `index`, `type`, `scope`, `loop`, `extent`, `region`, `iterator`, `statement`,
`memory`, `match`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from tensorir.tir import nodes as n
from tensorir.tir.dtypes import DataType
from tensorir.tir.trees import fields_of, substitute, walk

Mutant = tuple[str, n.PrimFunc]

_OPERATORS: dict[type[n.Expr], tuple[type[n.Expr], ...]] = {
    n.Add: (n.Sub, n.Mul),
    n.Sub: (n.Add,),
    n.Mul: (n.Add,),
    n.FloorDiv: (n.FloorMod, n.Mul),
    n.FloorMod: (n.FloorDiv, n.Add),
    n.LT: (n.LE, n.GT),
    n.LE: (n.LT,),
    n.GT: (n.GE, n.LT),
    n.GE: (n.GT, n.LE),
    n.And: (n.Or,),
    n.Min: (n.Max,),
}
_WIDER = {
    "bfloat16": "float32",
    "int8": "int16",
    "int32": "int64",
    "int64": "int32",
    "float32": "float64",
    "float64": "float32",
}
_LOOPS = (n.ForKind.SERIAL, n.ForKind.PARALLEL, n.ForKind.VECTORIZED)


def mutants(func: n.PrimFunc) -> Iterator[Mutant]:
    """Every mutant of the function, with its kind."""
    for kind, body in _below(func.body, _Around(())):
        yield kind, replace(func, body=body)
    yield from _buffers(func)


@dataclass(frozen=True)
class _Around:
    """Where a node stands: the loop and block variables in scope, and whether it belongs to an index."""

    variables: tuple[n.Var, ...]
    index: bool = False


def _below(node: Any, around: _Around) -> Iterator[tuple[str, Any]]:
    yield from _here(node, around)
    inner = around
    match node:
        case n.For():
            inner = replace(around, variables=(*around.variables, node.loop_var))
        case n.BlockRealize():
            inner = replace(around, variables=(*around.variables, *(i.var for i in node.block.iter_vars)))
        case _:
            pass
    if isinstance(node, n.Buffer | n.Var):
        return
    for name in fields_of(type(node)):
        value = getattr(node, name)
        index = around.index or (isinstance(node, n.BufferLoad | n.BufferStore) and name == "indices")
        index = index or (isinstance(node, n.BlockRealize) and name == "values")
        yield from _field(node, name, value, replace(inner, index=index))


def _field(node: Any, name: str, value: Any, around: _Around) -> Iterator[tuple[str, Any]]:
    if isinstance(value, n.Node):
        for kind, new in _below(value, around):
            yield kind, replace(node, **{name: new})
    elif isinstance(value, tuple):
        for place, item in enumerate(value):  # type: ignore[arg-type]
            if isinstance(item, n.Node):
                for kind, new in _below(item, around):
                    yield kind, replace(node, **{name: (*value[:place], new, *value[place + 1 :])})


def _here(node: Any, around: _Around) -> Iterator[tuple[str, Any]]:
    if isinstance(node, n.Expr):
        for other in _OPERATORS.get(type(node), ()):
            yield "operator", other(node.a, node.b)  # type: ignore[attr-defined,call-arg]
    match node:
        case n.IntImm(value, dtype) if dtype.bits > 1:
            yield "constant", n.IntImm(value + 1, dtype)
            yield "constant", n.IntImm(value - 1, dtype)
            if around.index:
                yield "constant", n.IntImm(1 << (dtype.bits - 2), dtype)
                yield "constant", n.IntImm((1 << (dtype.bits - 1)) - 1, dtype)
            if str(dtype) in _WIDER:
                yield "type", n.IntImm(value, DataType.parse(_WIDER[str(dtype)]))
        case n.FloatImm(value, dtype):
            yield "type", n.FloatImm(value, DataType.parse(_WIDER[str(dtype)]))
        case n.Var():
            if around.index:
                yield "index", n.Add(node, n.IntImm(1, node.dtype))
                yield "index", n.Sub(node, n.IntImm(1, node.dtype))
                for other in around.variables:
                    if other is not node and other.dtype == node.dtype:
                        yield "index", other
            yield "scope", n.Var(node.name, node.type)
        case n.Cast(value, dtype):
            yield "type", value
            if str(dtype) in _WIDER:
                yield "type", n.Cast(value, DataType.parse(_WIDER[str(dtype)]))
        case n.BufferLoad(buffer, indices):
            yield from _indices(node, buffer, indices)
        case n.BufferStore(buffer, _, indices):
            yield from _indices(node, buffer, indices)
            yield "statement", n.Evaluate(n.IntImm(0, n.DataType.parse("int32")))
        case n.For():
            yield from _loop(node)
        case n.IfThenElse(_, then, otherwise):
            yield "statement", then
            if otherwise is not None:
                yield "statement", otherwise
            yield "type", replace(node, condition=n.IntImm(1, n.DataType.parse("int32")))
        case n.SeqStmt(parts):
            for place in range(len(parts)):
                rest = (*parts[:place], *parts[place + 1 :])
                yield "statement", rest[0] if len(rest) == 1 else n.SeqStmt(rest)
            for place in range(len(parts) - 1):
                swapped = (*parts[:place], parts[place + 1], parts[place], *parts[place + 2 :])
                yield "scope", n.SeqStmt(swapped)
                if isinstance(branch := parts[place], n.IfThenElse):
                    longer = replace(branch, then_case=n.SeqStmt((branch.then_case, parts[place + 1])))
                    yield "scope", n.SeqStmt((*parts[:place], longer, *parts[place + 2 :]))
        case n.Select(c, a, b):
            yield "operator", n.Select(c, b, a)
            yield "type", n.Select(a, a, b)
        case n.Call(op="if_then_else", args=(c, a, b)):
            yield "operator", n.Select(c, a, b)  # type: ignore[arg-type]
            yield "operator", replace(node, args=(c, b, a))
        case n.BlockRealize():
            yield from _block(node)
        case n.Range(low, extent):
            yield "region", n.Range(n.Add(low, n.IntImm(1, low.dtype)), extent)
            yield "region", n.Range(low, n.Sub(extent, n.IntImm(1, extent.dtype)))
        case n.MatchBufferRegion(buffer, source):
            shorter = tuple(n.IntImm(e.value - 1, e.dtype) for e in buffer.shape if isinstance(e, n.IntImm))
            yield "match", n.MatchBufferRegion(replace(buffer, shape=shorter), source)
            yield "match", n.MatchBufferRegion(buffer, replace(source, region=source.region[:1]))
        case _:
            pass


def _indices(node: Any, buffer: n.Buffer, indices: tuple[n.Expr, ...]) -> Iterator[tuple[str, Any]]:
    if len(indices) == 2:
        yield "index", replace(node, indices=indices[::-1])
        yield "index", replace(node, indices=indices[:1])
    for place, index in enumerate(indices):
        if index.dtype.is_scalar:
            for new in (
                n.Add(index, n.IntImm(1, index.dtype)),
                n.Mul(index, n.IntImm(2, index.dtype)),
                n.Sub(n.IntImm(0, index.dtype), index),
                n.IntImm(0, index.dtype),
            ):
                yield "index", replace(node, indices=(*indices[:place], new, *indices[place + 1 :]))
            real = n.Cast(index, DataType.parse("float32"))
            yield "type", replace(node, indices=(*indices[:place], real, *indices[place + 1 :]))


def _loop(node: n.For) -> Iterator[tuple[str, n.For]]:
    if node.kind is not n.ForKind.THREAD_BINDING:
        for kind in _LOOPS:
            if kind is not node.kind:
                yield "loop", replace(node, kind=kind)
    else:
        assert node.thread_binding is not None
        tag = "threadIdx.y" if node.thread_binding.thread_tag == "threadIdx.x" else "threadIdx.x"
        yield "loop", replace(node, thread_binding=replace(node.thread_binding, thread_tag=tag))
        yield "loop", replace(node, kind=n.ForKind.PARALLEL, thread_binding=None)
    for step in (1, -1):
        yield "extent", replace(node, extent=n.Add(node.extent, n.IntImm(step, node.extent.dtype)))
    yield "extent", replace(node, min=n.Add(node.min, n.IntImm(1, node.min.dtype)))


def _block(node: n.BlockRealize) -> Iterator[tuple[str, n.BlockRealize]]:
    block = node.block
    for place, (iterator, value) in enumerate(zip(block.iter_vars, node.values, strict=True)):
        for new in (n.Add(value, n.IntImm(1, value.dtype)), n.IntImm(0, value.dtype)):
            yield "iterator", replace(node, values=(*node.values[:place], new, *node.values[place + 1 :]))
        assert iterator.dom is not None
        extent = iterator.dom.extent
        changed = [replace(iterator, dom=replace(iterator.dom, extent=n.Sub(extent, n.IntImm(1, extent.dtype))))]
        reduces = iterator.kind is n.IterKind.COMM_REDUCE
        other = n.IterKind.DATA_PARALLEL if reduces else n.IterKind.COMM_REDUCE
        changed.append(replace(iterator, kind=other))
        for new_iterator in changed:
            iterators = (*block.iter_vars[:place], new_iterator, *block.iter_vars[place + 1 :])
            yield "iterator", replace(node, block=replace(block, iter_vars=iterators))
    if len(node.values) > 1:
        yield "iterator", replace(node, values=node.values[:-1])
        yield "iterator", replace(node, values=node.values[::-1])
    if block.init is not None:
        yield "statement", replace(node, block=replace(block, init=None))
    if not isinstance(node.predicate, n.IntImm):
        yield "statement", replace(node, predicate=n.IntImm(1, n.BOOL))
    for word in ("reads", "writes"):
        regions = getattr(block, word)
        for place in range(len(regions)):
            fewer = {word: (*regions[:place], *regions[place + 1 :])}
            yield "region", replace(node, block=replace(block, **fewer))
    if block.reads and block.writes:
        yield "region", replace(node, block=replace(block, reads=block.writes, writes=block.reads))


def _buffers(func: n.PrimFunc) -> Iterator[Mutant]:
    """Other types, shapes and scopes of the buffers that are allocated."""
    for node in list(walk(func.body)):
        owned = (node.buffer,) if isinstance(node, n.AllocBuffer) else ()
        owned = node.alloc_buffers if isinstance(node, n.Block) else owned
        for buffer in owned:
            shape = buffer.shape
            for place, extent in enumerate(shape):
                assert isinstance(extent, n.IntImm)
                for step in (-1, 1):
                    new = (*shape[:place], n.IntImm(extent.value + step, extent.dtype), *shape[place + 1 :])
                    yield "memory", _other(func, buffer, replace(buffer, shape=new))
            yield "memory", _other(func, buffer, replace(buffer, dtype=DataType.parse(_WIDER[str(buffer.dtype)])))
            for scope in ("local", "shared", "global"):
                if scope != buffer.scope:
                    data = n.Var(buffer.data.name, n.PointerType(n.PrimType(buffer.dtype), scope))
                    yield "memory", _other(func, buffer, replace(buffer, data=data))
            if isinstance(node, n.AllocBuffer):
                nothing = n.Evaluate(n.IntImm(0, n.DataType.parse("int32")))
                yield "scope", replace(func, body=_replaced(func.body, node, nothing))
            else:
                without = replace(node, alloc_buffers=tuple(b for b in owned if b is not buffer))
                yield "scope", replace(func, body=_replaced(func.body, node, without))


def _other(func: n.PrimFunc, before: n.Buffer, after: n.Buffer) -> n.PrimFunc:
    return replace(func, body=substitute(func.body, {}, {before: after}))


def _replaced(tree: n.Stmt, old: n.Node, new: n.Node) -> n.Stmt:
    if tree is old:
        return new  # type: ignore[return-value]
    for name in fields_of(type(tree)):
        value = getattr(tree, name)
        if isinstance(value, n.Stmt):
            inner = _replaced(value, old, new)
            if inner is not value:
                return replace(tree, **{name: inner})
        elif isinstance(value, tuple):
            for place, item in enumerate(value):
                if isinstance(item, n.Stmt) and (inner := _replaced(item, old, new)) is not item:
                    return replace(tree, **{name: (*value[:place], inner, *value[place + 1 :])})
    return tree
