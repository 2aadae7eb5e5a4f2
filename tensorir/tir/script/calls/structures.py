"""`T.comm_reducer`, `T.iter_var`, `T.index_map`, `T.target`: what attributes and reductions are made of."""

from __future__ import annotations

from collections.abc import Mapping

from tensorir.runtime.errors import did_you_mean
from tensorir.tir import nodes as n
from tensorir.tir.build import const
from tensorir.tir.dtypes import BOOL, INT32, DataType
from tensorir.tir.nodes import IterKind
from tensorir.tir.script.calls.form import Call, makes
from tensorir.tir.script.extents import extent
from tensorir.tir.script.values import (
    Closure,
    Value,
    members,
)


@makes("Range")
def _range(it: Call) -> Value:
    begin, end = it.take("begin", "end", required=1)
    start, stop = (it.expr(begin), it.expr(end)) if end is not None else (const(0, INT32), it.expr(begin))
    return n.Range(start, extent(start, stop), it.span)


@makes("iter_var")
def _iter_var(it: Call) -> Value:
    var, dom, kind, tag = it.take("v", "dom", "iter_type", "thread_tag", required=1)
    kinds = {
        "DataPar": IterKind.DATA_PARALLEL,
        "ThreadIndex": IterKind.THREAD_INDEX,
        "CommReduce": IterKind.COMM_REDUCE,
    }
    kinds |= {k.value.capitalize(): k for k in IterKind} | {
        "Ordered": IterKind.ORDERED,
        "Tensorize": IterKind.TENSORIZED,
    }
    word = it.string(kind, "the kind")
    if word not in kinds:
        it.fail("TS21", f"{word!r} is no kind of iterator.", did_you_mean(word, kinds))
    if isinstance(var, n.IterVar):
        var = var.var
    elif isinstance(var, str):
        var = n.Var(var, n.PrimType(INT32), it.span)
    if not isinstance(var, n.Var):
        it.fail("TS21", "an iterator has a variable.")
    domain = None
    if isinstance(dom, n.Range):
        domain = dom
    elif (pair := members(dom)) is not None and len(pair) == 2:
        start, stop = it.expr(pair[0]), it.expr(pair[1])
        domain = n.Range(start, extent(start, stop), it.span)
    return n.IterVar(domain, var, kinds[word], "" if tag is None else it.string(tag, "the tag"), it.span)


@makes("comm_reducer")
def _comm_reducer(it: Call) -> Value:
    combiner, identity = it.take("combiner", "identity", required=2)
    elements = it.reader.exprs(identity, it.node)
    if not isinstance(combiner, Closure):
        it.fail("TS21", "a combiner is a lambda.")
    params, result = it.reader.apply(combiner, [e.dtype for e in elements] * 2)
    half = len(elements)
    return n.CommReducer(params[:half], params[half:], it.reader.exprs(result, it.node), elements, it.span)


@makes("Reduce")
def _reduce(it: Call) -> Value:
    names = ("combiner", "source", "init", "rdom", "value_index", "condition")
    combiner, source, init, axis, index, condition = it.take(*names, required=2)
    if not isinstance(combiner, n.CommReducer):
        it.fail("TS21", "T.Reduce combines by a T.comm_reducer.")
    axes = members(axis) or ([] if axis is None or members(axis) is not None else [axis])
    if not all(isinstance(a, n.IterVar) for a in axes):
        it.fail("TS21", "T.Reduce runs over iterators.")
    return n.Reduce(
        combiner,
        it.reader.exprs(source, it.node),
        () if init is None else it.reader.exprs(init, it.node),
        tuple(a for a in axes if isinstance(a, n.IterVar)),
        0 if index is None else it.number(index, "the index"),
        n.IntImm(1, BOOL, it.span) if condition is None else it.expr(condition, BOOL),
        it.span,
    )


@makes("index_map")
def _index_map(it: Call) -> Value:
    mapping, inverse, dtype = it.take("mapping", "inverse_index_map", "index_dtype", required=1)
    if not isinstance(mapping, Closure):
        it.fail("TS21", "an index map is a lambda.")
    index = it.dtype(dtype, DataType("int", 64))
    params, result = it.reader.apply(mapping, [index])
    back = None
    if isinstance(inverse, Closure):
        names, values = it.reader.apply(inverse, [index])
        back = n.IndexMap(names, it.reader.exprs(values, it.node, index), None, it.span)
    return n.IndexMap(params, it.reader.exprs(result, it.node, index), back, it.span)


@makes("target")
def _target(it: Call) -> Value:
    config, host = it.take("target_config", "host", required=1)
    found = it.reader.attribute(config, it.node)
    if isinstance(found, n.Target):
        return found
    if not isinstance(found, str | Mapping):
        it.fail("TS21", "a target is a string or a mapping.")
    other = n.Target(host, None) if isinstance(host, str | dict) else host  # type: ignore[arg-type]
    return n.Target(found, other if isinstance(other, n.Target) else None, it.span)


@makes("meta_var")
def _meta_var(it: Call) -> Value:
    return it.take("value", required=1)[0]


@makes("static_assert")
def _static_assert(it: Call) -> Value:
    holds, message = it.take("x", "message", required=1)
    if holds is False:
        it.fail("TS25", f"a static assertion fails: {message or 'no message'}.")
    return None
