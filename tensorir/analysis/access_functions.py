"""Access functions: the points of its operands that a node reads, by a rule per builtin; indices are sums of
coordinates.

Indices that are sums of coordinates: `2 × pos(Y, y) + pos(R, r) - 1` is affine in Y and R.

>>> from tensorir.text import parse_expr
>>> from tensorir.ir.types import tensor
>>> found = affine_index(parse_expr("2 × pos(Y, y) - 1", {"y": tensor("float", Y=(0, 4))}))
>>> print(found.sum, found.range)
Y*2 - 1 (-1, 5)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tensorir.binding.arrays import Array
from tensorir.integers.affine import Affine, number, variable
from tensorir.integers.dims import Dims, Interval
from tensorir.integers.sets import Factor, IntegerSet, coordinates, factor_of
from tensorir.ir.nodes import Call, Expr, Lambda, Literal, Operator
from tensorir.ir.types import TensorType, bcast
from tensorir.ir.typing_of_elements import highest_neighbour, neighbour_source

if TYPE_CHECKING:
    from tensorir.analysis.domains import Needs, Reads


@dataclass(frozen=True, slots=True)
class AffineIndex:
    """A sum of coordinates with whole coefficients, and the intervals of its dims."""

    sum: Affine
    intervals: Mapping[str, Interval]

    @property
    def terms(self) -> Mapping[str, int]:
        return {str(name): c for name, c in self.sum.terms}

    @property
    def range(self) -> tuple[int, int]:
        found = self.sum.range({name: (i.start, i.stop - 1) for name, i in self.intervals.items()})
        assert found is not None
        return found


def affine_index(e: Expr) -> AffineIndex | None:
    """The sum that an index is; None for any other."""
    intervals: dict[str, Interval] = {}
    sums: dict[int, Affine] = {}
    stack = [(e, False)]
    while stack:
        node, ready = stack.pop()
        if id(node) in sums:
            continue
        match node:
            case Literal(value, element) if element.is_integer:
                sums[id(node)] = number(int(value))
            case Call("pos", _, (dim,)):
                sums[id(node)], intervals[dim] = variable(dim), node.tensor.dims[dim]
            case Call("plus" | "minus" | "multiplies" | "neg", args) if not ready:
                stack += [(node, True), *((a, False) for a in args)]
            case Call(op, args) if ready:
                match op, [sums[id(a)] for a in args]:
                    case "plus", [x, y]:
                        sums[id(node)] = x.plus(y)
                    case "minus", [x, y]:
                        sums[id(node)] = x.minus(y)
                    case "neg", [x]:
                        sums[id(node)] = x.times(-1)
                    case _, [x, Affine((), by)] | [Affine((), by), x]:
                        sums[id(node)] = x.times(by)
                    case _:
                        return None
            case _:
                return None
    return AffineIndex(sums[id(e)], {name: intervals[name] for name in sums[id(e)].names})


# Which points of its operands a node reads: a rule per builtin, for the points of the node that are needed.
#
# Builtins without a rule are elementwise: they read every operand at the same points.

Rule = Callable[["Reads", Call, IntegerSet, "Needs"], None]


def _names(node: Expr) -> tuple[str, ...]:
    return node.tensor.dims.names


def _parameters(f: Expr) -> tuple[TensorType, ...]:
    assert isinstance(f, (Lambda, Operator))
    return f.type.params


def elementwise(reads: Reads, node: Call, wanted: IntegerSet, needs: Needs) -> None:
    for arg in node.args:
        needs.add(arg, wanted.onto(_names(arg)))


def nothing(reads: Reads, node: Call, wanted: IntegerSet, needs: Needs) -> None:
    """pos knows its dim from the type."""


def cartesian_shift(reads: Reads, node: Call, wanted: IntegerSet, needs: Needs) -> None:
    dim, offset = node.static
    needs.add(node.args[0], wanted.moved(dim, offset).onto(_names(node.args[0])))


def concat(reads: Reads, node: Call, wanted: IntegerSet, needs: Needs) -> None:
    for arg in node.args:
        needs.add(arg, wanted.within(arg.tensor.dims).onto(_names(arg)))


def updates_all(node: Call, wanted: Dims) -> bool:
    """True if an update replaces every point of a box."""
    return all(i.covers(wanted[n]) for n, i in node.args[1].tensor.dims.items)


def update(reads: Reads, node: Call, wanted: IntegerSet, needs: Needs) -> None:
    x, part = node.args
    inside = part.tensor.dims
    needs.add(part, wanted.within(inside).onto(_names(part)))
    needs.add(x, wanted.without(inside) if inside.size else wanted)


def rename(reads: Reads, node: Call, wanted: IntegerSet, needs: Needs) -> None:
    back = {new: old for old, new in node.static.pairs}
    needs.add(node.args[0], wanted.renamed(back).onto(_names(node.args[0])))


def split_dim(reads: Reads, node: Call, wanted: IntegerSet, needs: Needs) -> None:
    dim, outer, inner, n = node.static
    (x,) = node.args
    rest = tuple(d for d in _names(node) if d not in (outer, inner))
    a, b = wanted.names.index(outer), wanted.names.index(inner)
    found = IntegerSet((*rest, dim))
    for piece in wanted.pieces:
        others = IntegerSet(rest, (tuple(f for k, f in enumerate(piece) if k not in (a, b)),))
        high, low = coordinates(piece[a]), coordinates(piece[b])
        if reads.boxes:
            factor: Factor = (int(high[0]) * n, (int(high[-1]) + 1) * n)
        else:
            factor = factor_of((high[:, None] * n + low[None, :]).ravel())
        found |= others.along(dim, factor)
    for cloud in wanted.clouds:
        own = [k for k in range(len(wanted.names)) if k not in (a, b)]
        found |= IntegerSet.rows(
            (*rest, dim), np.concatenate([cloud[:, own], (cloud[:, a] * n + cloud[:, b])[:, None]], 1)
        )
    needs.add(x, found.onto(_names(x)))


def merge_dims(reads: Reads, node: Call, wanted: IntegerSet, needs: Needs) -> None:
    outer, inner, dim = node.static
    (x,) = node.args
    n = x.tensor.dims[inner].stop
    rest = tuple(d for d in _names(node) if d != dim)
    at = wanted.names.index(dim)
    found = IntegerSet((*rest, outer, inner))
    for piece in wanted.pieces:
        others = IntegerSet(rest, (tuple(f for k, f in enumerate(piece) if k != at),))
        merged = coordinates(piece[at])
        high, low = np.divmod(merged, n)
        if reads.boxes:
            found |= others.along(outer, (int(high[0]), int(high[-1]) + 1)).along(inner, (0, n))
            continue
        for h in np.unique(high):
            found |= others.along(outer, (int(h), int(h) + 1)).along(inner, factor_of(low[high == h]))
    for cloud in wanted.clouds:
        own = [k for k in range(len(wanted.names)) if k != at]
        pair = np.stack(np.divmod(cloud[:, at], n), 1)
        found |= IntegerSet.rows((*rest, outer, inner), np.concatenate([cloud[:, own], pair], 1))
    needs.add(x, found.onto(_names(x)))


def shift_apply(reads: Reads, node: Call, wanted: IntegerSet, needs: Needs) -> None:
    (x,), (slot,) = node.args, node.static
    dim = highest_neighbour(x.tensor.dims)
    assert dim is not None
    needs.add(x, wanted.along(dim, (slot, slot + 1)).onto(_names(x)))


def shift_init(reads: Reads, node: Call, wanted: IntegerSet, needs: Needs) -> None:
    dim = highest_neighbour(node.tensor.dims)
    assert dim is not None
    _neighbours(reads, node, wanted, dim, needs)


def unstructured_shift(reads: Reads, node: Call, wanted: IntegerSet, needs: Needs) -> None:
    slot: int = node.static.neighbour
    _neighbours(reads, node, wanted.along(" slot", (slot, slot + 1)), " slot", needs)


def _neighbours(reads: Reads, node: Call, wanted: IntegerSet, slots: str, needs: Needs) -> None:
    """The table at the destinations, and the source where the table leads."""
    table, x = node.args
    tag, source = neighbour_source(table.tensor)
    needs.add(table, wanted.renamed({slots: tag}).onto(_names(table)))
    others = [d for d in _names(x) if d != source]
    entries = reads.entries(table)
    inside = x.tensor.dims[source]
    if entries is None:
        reads.unknown[id(node)] = node
        needs.add(x, wanted.onto(others).along(source, (inside.start, inside.stop)).onto(_names(x)))
        return
    starts = [i.start for _, i in table.tensor.dims.items]
    axes = [slots if d == tag else d for d in _names(table)]
    coupled = [d for d in axes if d in others]
    found = IntegerSet((*others, source))
    for piece in wanted.pieces:
        factors = dict(zip(wanted.names, piece, strict=True))
        grid = [coordinates(factors[d]) for d in axes]
        read = entries[np.ix_(*[g - s for g, s in zip(grid, starts, strict=True)])]
        if not coupled:
            found |= _leading(others, factors, source, read[(read != -1)])
            continue
        places = np.meshgrid(*grid, indexing="ij")
        present = read.ravel() != -1
        columns = [places[axes.index(d)].ravel()[present] for d in coupled]
        rows = np.unique(np.stack([*columns, read.ravel()[present]], 1), axis=0)
        some = IntegerSet.rows((*coupled, source), rows)
        for d in others:
            if d not in coupled:
                some = some.along(d, factors[d])
        found |= some
    for cloud in wanted.clouds:
        read = entries[tuple(cloud[:, wanted.names.index(d)] - s for d, s in zip(axes, starts, strict=True))]
        rows = np.concatenate([cloud[:, [wanted.names.index(d) for d in others]], read[:, None]], 1)
        found |= IntegerSet.rows((*others, source), rows[read != -1])
    if reads.boxes:
        # destinations without a neighbour are destinations all the same
        reached = found.hull[source] if found else inside
        found = wanted.onto(others).along(source, (reached.start, reached.stop))
    needs.add(x, found.within(x.tensor.dims).onto(_names(x)))


def _leading(others: Sequence[str], factors: dict[str, Factor], source: str, read: Array) -> IntegerSet:
    if not len(read):
        return IntegerSet((*others, source))
    return IntegerSet((*others, source), ((*[factors[d] for d in others], factor_of(read)),))


def gather(reads: Reads, node: Call, wanted: IntegerSet, needs: Needs) -> None:
    dims, mode = node.static
    x, *indices = node.args
    for index in indices:
        needs.add(index, wanted.onto(_names(index)))
    others = [d for d in _names(x) if d not in dims]
    entries = [reads.entries(i) for i in indices]
    if reads.boxes or any(e is None for e in entries):
        reads.unknown[id(node)] = node
        found = wanted.onto(others)
        for d in dims:
            i = x.tensor.dims[d]
            found = found.along(d, (i.start, i.stop))
        needs.add(x, found.onto(_names(x)))
        return
    rows = wanted.array
    columns: list[Array] = [rows[:, wanted.names.index(d)] for d in others]
    inside = np.ones(len(rows), bool)
    for d, index, known in zip(dims, indices, entries, strict=True):
        assert known is not None
        at = [rows[:, wanted.names.index(n)] - i.start for n, i in index.tensor.dims.items]
        column = np.broadcast_to(known[tuple(at)], len(rows))
        limits = x.tensor.dims[d]
        if mode == "clamp":
            column = np.clip(column, limits.start, limits.stop - 1)
        inside &= (column >= limits.start) & (column < limits.stop)
        columns.append(column)
    if not columns[0].size:
        return
    needs.add(x, IntegerSet.rows((*others, *dims), np.stack(columns, 1)[inside]).onto(_names(x)))


def sort(reads: Reads, node: Call, wanted: IntegerSet, needs: Needs) -> None:
    dim = node.static.dim
    i = node.tensor.dims[dim]
    rows = wanted.along(dim, (i.start, i.stop))
    for arg in node.args:
        needs.add(arg, rows.onto(_names(arg)))


def assert_(reads: Reads, node: Call, wanted: IntegerSet, needs: Needs) -> None:
    x, condition = node.args
    needs.add(condition, IntegerSet.box(condition.tensor.dims))
    needs.add(x, wanted)


def print_(reads: Reads, node: Call, wanted: IntegerSet, needs: Needs) -> None:
    for arg in node.args:
        needs.add(arg, IntegerSet.box(arg.tensor.dims))


def defined(reads: Reads, node: Call, wanted: IntegerSet, needs: Needs) -> None:
    """The reads of the definition of a call."""
    assert node.definition is not None
    for arg, points in zip(node.args, reads.of_function(node.definition, [wanted], needs), strict=True):
        needs.add(arg, points)


# Folds


def scatter(reads: Reads, node: Call, wanted: IntegerSet, needs: Needs) -> None:
    """Every index and update is looked at, to know which element it is for."""
    f, base, *rest = node.args
    every = IntegerSet.box(bcast([a.tensor for a in rest]))
    for arg in rest:
        needs.add(arg, every.onto(_names(arg)))
    if f.free and (every or reads.boxes):
        reads.unknown[id(node)] = node
        reads.of_function(f, [IntegerSet((), ((),))], needs)
    needs.add(base, IntegerSet.box(base.tensor.dims) if reads.boxes else wanted)


def loop(reads: Reads, node: Call, wanted: IntegerSet, needs: Needs) -> None:
    """Reads of a loop, whose number of rounds is known at run time: those of any number of rounds, up to the limit."""
    index: int = node.static.carried
    limit: int | None = node.static.limit
    if limit != 0:
        reads.unknown[id(node)] = node
    condition, step, *start = node.args
    carried = [IntegerSet.box(a.tensor.dims) if reads.boxes else IntegerSet(_names(a)) for a in start]
    if not reads.boxes:
        carried[index] = wanted.onto(_names(start[index]))
    if limit != 0 or reads.boxes:
        for k, more in enumerate(reads.of_function(condition, [IntegerSet((), ((),))], needs)[1:]):
            carried[k] |= more
    rounds = 0
    while limit is None or rounds < max(limit, reads.boxes):
        rounds += 1
        before = list(carried)
        for j, more in enumerate(reads.of_function(step, before, needs)[1:]):
            carried[j] |= IntegerSet.box(start[j].tensor.dims) if reads.boxes and more else more
        if all(a is b or a == b for a, b in zip(before, carried, strict=True)):
            break
    for arg, points in zip(start, carried, strict=True):
        needs.add(arg, points)


def blocked(reads: Reads, node: Call, wanted: IntegerSet, needs: Needs) -> None:
    """Reads of a blocked function for the points of its result that are asked for."""
    f, *operands = node.args
    _applied(reads, f, operands, node.static.result, wanted, needs)


def cond(reads: Reads, node: Call, wanted: IntegerSet, needs: Needs) -> None:
    """Reads of a conditional, whose branch is known at run time: those of either branch."""
    first, second, condition, *operands = node.args
    needs.add(condition, IntegerSet((), ((),)))
    for f in (first, second):
        _applied(reads, f, operands, node.static.result, wanted, needs)


def _applied(reads: Reads, f: Expr, operands: Sequence[Expr], index: int, wanted: IntegerSet, needs: Needs) -> None:
    """The points of operands that one of several results of a function reads."""
    assert isinstance(f, (Lambda, Operator))
    asked = [IntegerSet.box(r.dims) if reads.boxes else IntegerSet(r.dims.names) for r in f.type.results]
    if not reads.boxes:
        asked[index] = wanted.onto(asked[index].names)
    for arg, points in zip(operands, reads.of_function(f, asked, needs), strict=True):
        needs.add(arg, IntegerSet.box(arg.tensor.dims) if reads.boxes and points else points.onto(_names(arg)))


def reduce(reads: Reads, node: Call, wanted: IntegerSet, needs: Needs) -> None:
    """A slot is skipped where an argument is absent: every argument is looked at, in every slot."""
    (dim,) = node.static
    f, _, *args = node.args
    column = next(a.tensor.dims[dim] for a in args if dim in a.tensor.dims)
    for arg, place in zip(args, _parameters(f)[1:], strict=True):
        if dim not in arg.tensor.dims:
            needs.add(arg, _seen(wanted, place.dims, arg))
    levels(reads, node, wanted, needs, column, True, lambda k: None, True)


def scan(reads: Reads, node: Call, wanted: IntegerSet, needs: Needs) -> None:
    forward, dim = node.static
    column = node.tensor.dims[dim]
    rest = [d for d in wanted.names if d != dim]
    ends: set[int] = set()
    for piece in wanted.pieces:
        f = piece[wanted.names.index(dim)]
        ends.update((f[0], f[1]) if isinstance(f, tuple) else coordinates(f).tolist())
        ends.update([] if isinstance(f, tuple) else (coordinates(f) + 1).tolist())
    for cloud in wanted.clouds:
        ends.update(cloud[:, wanted.names.index(dim)].tolist())
        ends.update((cloud[:, wanted.names.index(dim)] + 1).tolist())

    def stored(k: int) -> IntegerSet | None:
        """The needed points of the states after a level; None where they are those of the level before."""
        return wanted.at(dim, k) if k in ends or k + 1 in ends else None

    levels(reads, node, IntegerSet(tuple(rest)), needs, column, forward, stored, False)


def _seen(wanted: IntegerSet, place: Dims, arg: Expr) -> IntegerSet:
    """The points of an argument that belong to elements of the state: along dims that the state lacks, all."""
    names = [d for d in place if d in arg.tensor.dims]
    found = wanted.within(place).onto([d for d in wanted.names if d in names])
    for d in names:
        if d not in found.names:
            found = found.along(d, (place[d].start, place[d].stop))
    return found


def levels(
    reads: Reads,
    node: Call,
    last: IntegerSet,
    needs: Needs,
    column: Interval,
    forward: bool,
    stored: Callable[[int], IntegerSet | None],
    skips: bool,
) -> None:
    """From the last level to the first: what is needed of the state after it, and what that needs before it."""
    dim: str = node.static.dim
    f, init, *args = node.args
    state = _parameters(f)[0].dims
    carried = last.onto(state.names)
    before: IntegerSet | None = None
    own = IntegerSet(carried.names)
    found: list[IntegerSet] = []
    order = list(column)[::-1] if forward else list(column)
    visited: list[int] = []
    first = 0
    for n, k in enumerate(order):
        here = stored(k)
        own = own if here is None else here.onto(state.names)
        now = reads.shaped(carried | own, state)
        visited += [k] if now else []
        if before is not None and (now is before or now == before):
            continue
        if before is not None and before:
            _given(node, args, found, order[first:n], dim, needs)
        carried, *found = reads.of_function(f, [now], needs)
        while reads.boxes and reads.shaped(carried | now, state) != now:
            # the state has one shape: the body makes all that it reads of it
            now = reads.shaped(carried | now, state)
            carried, *found = reads.of_function(f, [now], needs)
        if reads.boxes:
            carried = now
            if isinstance(f, Lambda):
                reads.also(f.params[0], now)
        before, first = now, n
        carried = reads.shaped(carried, state)
        if skips:
            carried |= now if reads.holes else carried
            for j, (arg, place) in enumerate(zip(args, _parameters(f)[1:], strict=True)):
                if dim in arg.tensor.dims:
                    found[j] |= _seen(now, place.dims, arg).onto([d for d in found[j].names if d in arg.tensor.dims])
    if before:
        _given(node, args, found, order[first:], dim, needs)
    if reads.boxes:
        # one column for all arguments
        for arg in args:
            if visited and dim in arg.tensor.dims:
                run = column if skips else Interval(min(visited), max(visited) + 1)
                inside = Dims(tuple((n, i) for n, i in state.items if n in arg.tensor.dims))
                known = needs.of(arg) or IntegerSet.box(arg.tensor.dims).within(inside)
                needs.add(arg, known.along(dim, (run.start, run.stop)).onto(_names(arg)))
    needs.add(init, carried.onto(_names(init)))


def _given(
    node: Call, args: Sequence[Expr], found: list[IntegerSet], levels: list[int], dim: str, needs: Needs
) -> None:
    """The points of the arguments that adjacent levels of a scan need."""
    run = (min(levels), max(levels) + 1)
    for arg, points in zip(args, found, strict=True):
        names = [d for d in _names(arg) if d != dim]
        at = points.onto(names)
        needs.add(arg, at.along(dim, run).onto(_names(arg)) if dim in arg.tensor.dims else at)


RULES: dict[str, Rule] = {
    "pos": nothing,
    "cartesian_shift": cartesian_shift,
    "concat": concat,
    "update": update,
    "rename": rename,
    "split_dim": split_dim,
    "merge_dims": merge_dims,
    "shift_apply": shift_apply,
    "shift_init": shift_init,
    "unstructured_shift": unstructured_shift,
    "gather": gather,
    "sort": sort,
    "assert_": assert_,
    "print": print_,
    "reduce": reduce,
    "scan": scan,
    "loop": loop,
    "blocked": blocked,
    "cond": cond,
    "scatter": scatter,
}


def rule_of(node: Call) -> Rule:
    """The rule of a call: its builtin's, its definition's, or that of what is elementwise."""
    return defined if node.definition is not None else RULES.get(node.op, elementwise)
