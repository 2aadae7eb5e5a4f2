"""What moves elements, over whole arrays: shifts, parts and joins, dims, reads at indices and at neighbours, order."""

# Arrays hold elements of any type here, so what NumPy makes of them has no type of its own.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownLambdaType=false

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from tensorir.equality.reals.domain import Domain, literal
from tensorir.equality.reals.tensors import (
    Array,
    Leaf,
    Tensor,
    batched,
    choose,
    joined,
    moved,
    on,
    placed,
    shifted,
    slice_at,
)
from tensorir.ir.nodes import Call
from tensorir.ir.types import DTYPES, Dims, Interval, Scalar, TensorType, TupleElement
from tensorir.ir.typing_of_elements import highest_neighbour, neighbour_source
from tensorir.runtime.errors import Diagnostic, DiagnosticError

__all__ = ["MOVES"]


def without(leaf: Leaf, gone: Array) -> Leaf:
    """A leaf that is absent in more places."""
    return replace(leaf, absent=gone if leaf.absent is None else leaf.absent | gone)


def _make_tuple(node: Call, args: Sequence[Tensor], domain: Domain) -> Tensor:
    dims = batched(args, node.tensor.dims)
    return Tensor(dims, tuple(leaf for a in args for leaf in on(a, dims).leaves))


def _tuple_get(node: Call, args: Sequence[Tensor], domain: Domain) -> Tensor:
    element = node.args[0].tensor.element
    assert isinstance(element, TupleElement)
    members = element.members
    sizes = [len(TensorType(m).leaves) for m in members]
    start = sum(sizes[: node.static.member])
    return replace(args[0], leaves=args[0].leaves[start : start + sizes[node.static.member]])


def _pos(node: Call, args: Sequence[Tensor], domain: Domain) -> Tensor:
    dim = node.static.dim
    interval, element = node.tensor.dims[dim], node.tensor.element
    assert isinstance(element, Scalar)
    at = np.arange(interval.start, interval.stop)
    leaf = domain.whole(at) if element.is_float else Leaf((at.astype(DTYPES[element]),))
    return on(Tensor(Dims(((dim, interval),)), (leaf,)), node.tensor.dims)


def _add_dim(node: Call, args: Sequence[Tensor], domain: Domain) -> Tensor:
    return on(args[0], node.tensor.dims)


def _subset(node: Call, args: Sequence[Tensor], domain: Domain) -> Tensor:
    return on(args[0], node.tensor.dims)


def _concat(node: Call, args: Sequence[Tensor], domain: Domain) -> Tensor:
    first = node.args[0].tensor.dims
    (dim,) = [d for d in first if any(a.tensor.dims[d] != first[d] for a in node.args)]
    held = sorted([a for a in args if a.dims[dim]], key=lambda a: a.dims[dim].start)
    return joined(held, node.tensor.dims, dim) if held else on(args[0], node.tensor.dims)


def _update(node: Call, args: Sequence[Tensor], domain: Domain) -> Tensor:
    x, part = args
    return placed(on(x, node.tensor.dims), part, dict(node.args[1].tensor.dims.items))


def _rename(node: Call, args: Sequence[Tensor], domain: Domain) -> Tensor:
    new = dict(node.static.pairs)
    dims = Dims(tuple((new.get(n, n), i) for n, i in args[0].dims.items))
    return on(replace(args[0], dims=dims), node.tensor.dims)


def _split_dim(node: Call, args: Sequence[Tensor], domain: Domain) -> Tensor:
    dim, outer, inner, n = node.static
    (x,) = args
    o = node.tensor.dims[outer]
    x = on(x, x.dims.with_interval(dim, Interval(o.start * n, o.stop * n)))
    axis = x.dims.names.index(dim)
    items = list(x.dims.items)
    items[axis : axis + 1] = [(outer, o), (inner, Interval(0, n))]
    dims = Dims(tuple(items))
    return on(moved(x, dims, lambda a: a.reshape(dims.shape)), node.tensor.dims)


def _merge_dims(node: Call, args: Sequence[Tensor], domain: Domain) -> Tensor:
    outer, inner, dim = node.static
    (x,) = args
    order = Dims((*x.dims.without(outer, inner).items, (outer, x.dims[outer]), (inner, x.dims[inner])))
    x = on(x, order)
    rest = x.dims.without(outer, inner)
    n = len(x.dims[inner])
    start = x.dims[outer].start * n
    dims = Dims((*rest.items, (dim, Interval(start, start + len(x.dims[outer]) * n))))
    return on(moved(x, dims, lambda a: a.reshape(dims.shape)), node.tensor.dims)


def _at(x: Tensor, where: Mapping[str, Array], dims: Dims) -> Tensor:
    """x at coordinates that are data along some dims, on the points of a result; coordinates are inside."""
    index: list[Array] = []
    for n, own in x.dims.items:
        if n in where:
            index.append(where[n] - own.start)
        else:
            axis = dims.names.index(n)
            here = np.arange(dims[n].start - own.start, dims[n].stop - own.start)
            index.append(here.reshape([-1 if k == axis else 1 for k in range(len(dims))]))
    place = tuple(index)
    return moved(x, dims, lambda a: np.broadcast_to(a[(*place, ...)], dims.shape))


def _gather(node: Call, args: Sequence[Tensor], domain: Domain) -> Tensor:
    dims, mode = node.static
    x, *indices = args
    where, outside, gone = {}, np.zeros(node.tensor.dims.shape, bool), None
    for dim, index in zip(dims, indices, strict=True):
        leaf = on(index, node.tensor.dims).only
        at = domain.decided(leaf).astype(np.int64)
        interval = x.dims[dim]
        if leaf.absent is not None:
            gone = leaf.absent if gone is None else gone | leaf.absent
        wrong = (at < interval.start) | (at >= interval.stop)
        if mode == "checked" or not interval:
            # a branch that is not taken may read there
            gone = wrong if gone is None else gone | wrong
        outside |= wrong
        where[dim] = at.clip(interval.start, max(interval.start, interval.stop - 1))
    none = Tensor(node.tensor.dims, tuple(literal(domain, 0, s, node.tensor.dims) for s in node.tensor.leaves))
    empty = not all(x.dims[d] for d in dims) or not node.tensor.dims.size
    found = none if empty else _at(x, where, node.tensor.dims)
    if mode == "zero" and outside.any():
        found = choose(outside, none, found)
    return found if gone is None else replace(found, leaves=tuple(without(leaf, gone) for leaf in found.leaves))


def _neighbours(node: Call, table: Tensor, x: Tensor, dims: Dims, domain: Domain) -> Tensor:
    """x at the entries of a table, both on the dims of a result; absent where an entry is -1."""
    _, source = neighbour_source(node.args[0].tensor)
    leaf = on(table, dims).only
    at = domain.decided(leaf).astype(np.int64)
    gone = (at == -1) if leaf.absent is None else (at == -1) | leaf.absent
    interval = x.dims[source]
    if (~gone & ((at < interval.start) | (at >= interval.stop))).any():
        raise DiagnosticError(Diagnostic("R01", f"an entry of the table leaves {source}{interval}.", node.span))
    if not interval:
        none = Tensor(dims, tuple(literal(domain, 0, s, dims) for s in node.tensor.leaves))
        return replace(none, leaves=tuple(without(leaf, gone) for leaf in none.leaves))
    found = _at(x, {source: np.where(gone, interval.start, at)}, dims)
    return replace(found, leaves=tuple(without(leaf, gone) for leaf in found.leaves))


def _shift_init(node: Call, args: Sequence[Tensor], domain: Domain) -> Tensor:
    table, x = args
    tag, _ = neighbour_source(node.args[0].tensor)
    new = highest_neighbour(node.tensor.dims)
    assert new is not None
    named = replace(table, dims=Dims(tuple((new if n == tag else n, i) for n, i in table.dims.items)))
    return _neighbours(node, named, x, node.tensor.dims, domain)


def _unstructured_shift(node: Call, args: Sequence[Tensor], domain: Domain) -> Tensor:
    table, x = args
    tag, _ = neighbour_source(node.args[0].tensor)
    return _neighbours(node, slice_at(table, tag, node.static.neighbour), x, node.tensor.dims, domain)


def _shift_apply(node: Call, args: Sequence[Tensor], domain: Domain) -> Tensor:
    dim = highest_neighbour(node.args[0].tensor.dims)
    assert dim is not None
    return slice_at(args[0], dim, node.static.neighbour)


def _can_deref(node: Call, args: Sequence[Tensor], domain: Domain) -> Tensor:
    there = np.ones(args[0].dims.shape, bool)
    for leaf in args[0].leaves:
        if leaf.absent is not None:
            there &= ~leaf.absent
    return on(Tensor(args[0].dims, (Leaf((there,)),)), node.tensor.dims)


def _sort(node: Call, args: Sequence[Tensor], domain: Domain) -> Tensor:
    dim, keys, descending = node.static
    dims = node.tensor.dims
    members = [on(a, dims) for a in args]
    axis = dims.names.index(dim)
    ranks: list[Array] = []
    for m in members[:keys]:
        v = domain.decided(m.only)
        wide = v.astype(np.float64) if v.dtype.kind == "f" else v.astype(np.int64)
        if v.dtype.kind == "f":
            ranks += [np.isnan(wide), np.where(np.isnan(wide), 0.0, -wide if descending else wide)]
        else:
            ranks.append(-wide if descending else wide)
    order = np.lexsort(ranks[::-1], axis=axis)
    return Tensor(
        dims, tuple(leaf.each(lambda a: np.take_along_axis(a, order, axis)) for m in members for leaf in m.leaves)
    )


def _assert(node: Call, args: Sequence[Tensor], domain: Domain) -> Tensor:
    leaf = args[1].only
    known = domain.decided(leaf)
    holds = known if leaf.absent is None else known | leaf.absent
    if not holds.all():
        raise DiagnosticError(Diagnostic("R02", node.static.text or "an assertion fails.", node.span))
    return on(args[0], node.tensor.dims)


MOVES: dict[str, Callable[[Call, Sequence[Tensor], Domain], Tensor]] = {
    "make_tuple": _make_tuple,
    "tuple_get": _tuple_get,
    "pos": _pos,
    "add_dim": _add_dim,
    "subset": _subset,
    "concat": _concat,
    "update": _update,
    "rename": _rename,
    "split_dim": _split_dim,
    "merge_dims": _merge_dims,
    "gather": _gather,
    "shift_init": _shift_init,
    "unstructured_shift": _unstructured_shift,
    "shift_apply": _shift_apply,
    "can_deref": _can_deref,
    "sort": _sort,
    "assert_": _assert,
    "print": lambda node, args, domain: on(args[0], node.tensor.dims),
    "materialise": lambda node, args, domain: on(args[0], node.tensor.dims),
    "cartesian_shift": lambda node, args, domain: on(shifted(args[0], *node.static), node.tensor.dims),
}
"""Every builtin that is no fold and computes nothing of its operands' elements."""
