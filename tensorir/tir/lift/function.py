"""A whole function of TIR at concrete sizes as a nest over its arguments' buffers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

from tensorir.ir.types import INT32, INT64
from tensorir.lifting.nests.nest import Node
from tensorir.lifting.nests.terms import Buffer, Index, Load, Number, Term
from tensorir.lifting.storage.aliases import unaliased
from tensorir.lifting.storage.narrow import Narrowed
from tensorir.runtime.errors import refuse
from tensorir.tir import nodes as n
from tensorir.tir.lift.asked import asks
from tensorir.tir.lift.calls import bind
from tensorir.tir.lift.counting import counted
from tensorir.tir.lift.expressions import Scope, element_of, term
from tensorir.tir.lift.memory import compact
from tensorir.tir.lift.reader import Reader, returns_early
from tensorir.tir.lift.results import acts
from tensorir.tir.lift.statements import statement
from tensorir.tir.storage import used_outside
from tensorir.tir.trees import walk


@dataclass(frozen=True, slots=True)
class Reading:
    """A function as a nest: the buffer of each parameter (scalars have no dims), the nodes, and its own buffers."""

    func: n.PrimFunc
    arguments: tuple[Buffer | None, ...]
    nodes: tuple[Node, ...]
    own: tuple[Buffer, ...]
    notes: tuple[str, ...]
    extents: tuple[tuple[Term, ...], ...]
    """Those of each parameter, of which sizes may be a part."""


def read_function(
    func: n.PrimFunc, shapes: Sequence[tuple[int, ...] | None], sizes: Mapping[n.Var, int], exact: bool = False,
    fresh: Set[int] = frozenset(), strides: Sequence[tuple[int, ...] | None] | None = None,
    unknown: Mapping[n.Var, tuple[str, int]] | None = None,
) -> Reading:  # fmt: skip
    """The nest of a function for the shapes of its buffers (None for scalars) and the values of its sizes.

    `exact` keeps the source's order and rounding, and what comparisons do in folds. Nothing is in the buffers of
    `fresh` parameters. `strides` are those of arrays that do not lie row by row (None: this one does). Sizes that are
    `unknown` are indices of these names, from 0 up to these numbers; `shapes` then hold for the largest ones.
    """
    given: dict[Buffer, tuple[int, ...]] = {}
    scope = Scope(exact=exact, functions={} if func.module is None else func.module.functions, strides=given)
    reader = Reader(scope, func.module, used_outside=used_outside(func.body))
    scope.ranges = reader.ranges
    for var, size in sizes.items():
        number = Number(size, element_of(var.dtype))
        scope.values[var] = lambda lane, number=number: number
    for var, (name, most) in (unknown or {}).items():
        index = Index(reader.fresh(name), element_of(var.dtype))
        reader.ranges[index.name], reader.sizes = (0, most), (*reader.sizes, index.name)
        scope.values[var] = lambda lane, index=index: index
    arguments: list[Buffer | None] = []
    declared: list[tuple[Term, ...]] = []
    for k, (param, shape) in enumerate(zip(func.params, shapes, strict=True)):
        buffer = func.buffer_map.get(param)
        if buffer is None and param.dtype.code == "handle":
            message = f"{param.name!r} is a pointer without a buffer."
            raise refuse("TL01", message, "bind it with T.match_buffer.", at=param.span)
        if buffer is None:
            made = Buffer(
                reader.fresh(param.name), element_of(param.dtype, param.span), (), True, param.span, exact=exact
            )
            arguments.append(made)
            declared.append(())
            if param not in sizes:
                scope.values[param] = lambda lane, made=made: Load(made, ())
            continue
        assert shape is not None
        lanes = buffer.dtype.lanes
        element = element_of(buffer.dtype, buffer.span)
        made = Buffer(reader.fresh(buffer.name or param.name), element, shape, True, buffer.span, exact=exact)
        made.declared = k in fresh
        arguments.append(made)
        own = shape[:-1] if lanes != 1 else shape
        extents = [term(scope, e) for e in buffer.shape] if unknown else [Number(e, INT32) for e in own]
        declared.append(tuple(extents))
        whole = scope.pointers[param] = compact(made, extents, lanes)
        if strides is not None and (steps := strides[k]) is not None:
            given[made] = steps
            scope.pointers[param] = replace(whole, strides=tuple(Number(step, INT64) for step in steps))
    body = counted(func.body, sizes)
    bind(reader, func)
    parts = list(walk(body))
    reader.asking, reader.acting = asks(scope, parts), acts(parts)
    nodes: list[Node] = []
    if returns_early(body):
        reader.returned = reader.flag("returned", func.span)
        nodes.append(reader.cleared(reader.returned, func.span))
    nodes += statement(reader, body)
    held = Narrowed()
    nodes = unaliased(held.nodes(nodes), reader.fresh)
    kept = tuple(None if b is None else held.buffer(b) for b in arguments)
    return Reading(
        func, kept, tuple(nodes), tuple(map(held.buffer, reader.buffers)), tuple(scope.notes), tuple(declared)
    )
