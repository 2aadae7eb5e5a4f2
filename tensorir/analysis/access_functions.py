"""Access functions: the points of operands that calls read, under the access maps of builtins and of affine indices.

An index is affine where it is a sum of coordinates: `2 × pos(Y, y) + pos(R, r) - 1` is affine in Y and R.

>>> from tensorir.text import parse_expr
>>> from tensorir.ir.types import tensor
>>> index = affine_index(parse_expr("2 × pos(Y, y) - 1", {"y": tensor("float", Y=(0, 4))}))
>>> print(index.sum, index.range)
Y*2 - 1 (-1, 5)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from tensorir.binding.arrays import Array
from tensorir.binding.programs import BoundProgram
from tensorir.integers.affine import Affine, number, variable
from tensorir.integers.dims import Dims, Interval
from tensorir.integers.sets import IntegerSet, coordinates
from tensorir.ir.access import Access, Accesses, Entry
from tensorir.ir.builtins import TABLE, Control
from tensorir.ir.nodes import Call, Expr, Fencil, Folding, Lambda, Literal, Operator, Var
from tensorir.ir.rewrite import postorder, values
from tensorir.ir.types import TensorType, bcast
from tensorir.reference.interpreter import Interpreter
from tensorir.reference.tensors import ABSENT
from tensorir.reference.tensors import points as points_of


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
        span = self.sum.range({name: (i.start, i.stop - 1) for name, i in self.intervals.items()})
        assert span is not None
        return span


def _product(x: Affine, y: Affine) -> Affine | None:
    return x.times(y.constant) if y.is_number else y.times(x.constant) if x.is_number else None


_SUMS: Mapping[str, Callable[..., Affine | None]] = {
    "plus": Affine.plus, "minus": Affine.minus, "multiplies": _product, "neg": partial(_product, number(-1)),
}  # fmt: skip


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
            case Call(op, args) if op in _SUMS and not ready:
                stack += [(node, True), *((a, False) for a in args)]
            case Call(op, args) if ready:
                total = _SUMS[op](*(sums[id(a)] for a in args))
                if total is None:
                    return None
                sums[id(node)] = total
            case _:
                return None
    return AffineIndex(sums[id(e)], {name: intervals[name] for name in sums[id(e)].names})


# The points of its operands that a call reads, for the points of the call that are needed: their images under its
# access maps; of a call with functions, what these read.

Rule = Callable[["Reads", Call, IntegerSet, "Needs"], None]


def _names(node: Expr) -> tuple[str, ...]:
    return node.tensor.dims.names


def _parameters(f: Expr) -> tuple[TensorType, ...]:
    assert isinstance(f, (Lambda, Operator))
    return f.type.params


def mapped(reads: Reads, node: Call, wanted: IntegerSet, needs: Needs) -> None:
    """The images of the needed points under the access maps of a call."""
    accesses = node.accesses
    assert accesses is not None
    for arg, access in zip(node.args, accesses, strict=True):
        if access is None:
            continue
        if access.entries:
            needs.add(arg, _at_entries(reads, access, accesses, node, arg, wanted))
        else:
            needs.add(arg, image(access, node, arg, wanted, reads.boxes))


def image(access: Access, node: Call, arg: Expr, wanted: IntegerSet, boxes: bool = False) -> IntegerSet:
    """The points of an operand that points of a call read, at coordinates that no data say.

    With `boxes`, those that a call for a box needs to be one: none of an operand, or all of its part.
    """
    points = wanted if access.inside is None else wanted.within(access.inside)
    if access.outside is not None and (rest := points.without(access.outside)) is not points:
        points = points if boxes and rest else rest
    have = arg.tensor.dims
    if boxes:
        for d in access.uncut:
            if d in points.names:
                points = points.along(d, (node.type.dims[d].start, node.type.dims[d].stop))
    if not access.at:
        return points.onto(have.names)
    read = points.image({d: a for d in have if not isinstance(a := access.coordinate(d), Entry)})
    if boxes:
        for d in access.uncut:
            if d in have and isinstance(access.at[d], Affine):
                read = read.along(d, (have[d].start, have[d].stop))
    return read.onto(have.names)


def _at_entries(
    reads: Reads, access: Access, accesses: Accesses, node: Call, arg: Expr, wanted: IntegerSet
) -> IntegerSet:
    """The points of an operand at coordinates that are elements of other operands.

    Where these are not known before a run, and with `boxes` where ends of the operand are part of the meaning, all
    points along their dims.
    """
    have = arg.tensor.dims
    known = {d: reads.entries(node.args[e.operand]) for d, e in access.entries.items()}
    if any(k is None for k in known.values()) or (reads.boxes and access.uncut):
        reads.unknown[id(node)] = node
        whole = replace(access, at={**access.at, **{d: have[d] for d in known}}, uncut=frozenset())
        return image(whole, node, arg, wanted)
    index = {d: _index(accesses[e.operand], node.args[e.operand]) for d, e in access.entries.items()}
    others = {d: access.coordinate(d) for d in have if d not in known}
    # coordinates that the entries depend on, or that are sums, are enumerated; all others stay products
    used = {n for axes in index.values() for a in axes for n in a.names}
    used |= {n for d, a in others.items() if isinstance(a, Affine) and a != variable(d) for n in a.names}
    axes = [n for n in wanted.names if n in used]
    sums = [d for d, a in others.items() if isinstance(a, Affine)]
    coupled = [d for d in sums if access.coordinate(d) != variable(d) or d in used]
    result = IntegerSet(have.names)

    def rows(columns: Mapping[str, Any], count: int, kept: Sequence[str]) -> IntegerSet:
        """The points for given coordinates of the axes: kept ones, and those that entries say."""
        present = np.ones(count, bool)
        read: dict[str, Array] = {}
        for d, e in access.entries.items():
            entries = known[d]
            assert entries is not None
            at = [np.broadcast_to(a.at(columns), count) for a in index[d]]
            starts = [i.start for _, i in node.args[e.operand].tensor.dims.items]
            column = entries[tuple(a - s for a, s in zip(at, starts, strict=True))]
            if e.absent:
                present &= column != -1
            limits = have[d]
            column = np.clip(column, limits.start, limits.stop - 1) if e.clamps else column
            present &= (column >= limits.start) & (column < limits.stop)
            read[d] = np.broadcast_to(column, count)
        for d in kept:
            if isinstance(a := others[d], Affine):
                read[d] = np.broadcast_to(a.at(columns), count)
        if not count:
            return IntegerSet(tuple(read))
        return IntegerSet.rows(tuple(read), np.stack([c[present] for c in read.values()], 1))

    for piece in wanted.pieces:
        factors = dict(zip(wanted.names, piece, strict=True))
        grid = np.meshgrid(*[coordinates(factors[n]) for n in axes], indexing="ij")
        columns = {n: g.ravel() for n, g in zip(axes, grid, strict=True)}
        some = rows(columns, len(next(iter(columns.values()))) if columns else 1, coupled)
        for d, a in others.items():
            if isinstance(a, Interval):
                some = some.along(d, (a.start, a.stop))
            elif d not in some.names:
                some = some.along(d, factors[d])
        result |= some.onto(have.names)
    for cloud in wanted.clouds:
        columns = dict(zip(wanted.names, cloud.T, strict=True))
        some = rows(columns, len(cloud), sums)
        for d, a in others.items():
            if isinstance(a, Interval):
                some = some.along(d, (a.start, a.stop))
        result |= some.onto(have.names)
    if reads.boxes:
        # points without an entry are points all the same
        reached = result.hull if result else have
        whole = replace(access, at={**access.at, **{d: reached[d] for d in known}})
        return image(whole, node, arg, wanted)
    return result


def _index(access: Access | None, index: Expr) -> list[Affine]:
    """The coordinates of an operand that holds entries, in the order of its axes."""
    assert access is not None
    coordinates = [access.coordinate(d) for d in index.tensor.dims]
    return [a for a in coordinates if isinstance(a, Affine)]


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


def fold(reads: Reads, node: Call, wanted: IntegerSet, needs: Needs) -> None:
    """Reads of a fold; one that skips levels where an argument is absent looks at every argument at every level."""
    fold = node.fold
    assert fold is not None
    if fold.row.states:
        _states(reads, fold, wanted, needs)
        return
    for arg, place in zip(fold.operands, _parameters(fold.function)[1:], strict=True):
        if fold.row.skips and fold.dim not in arg.tensor.dims:
            needs.add(arg, _seen(wanted, place.dims, arg))
    levels(reads, fold, wanted, needs, lambda k: None, fold.row.skips)


def _states(reads: Reads, fold: Folding, wanted: IntegerSet, needs: Needs) -> None:
    dim = fold.dim
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

    levels(reads, fold, IntegerSet(tuple(rest)), needs, stored, fold.row.skips)


def _seen(wanted: IntegerSet, place: Dims, arg: Expr) -> IntegerSet:
    """The points of an argument that belong to elements of the state: along dims that the state lacks, all."""
    names = [d for d in place if d in arg.tensor.dims]
    seen = wanted.within(place).onto([d for d in wanted.names if d in names])
    for d in names:
        if d not in seen.names:
            seen = seen.along(d, (place[d].start, place[d].stop))
    return seen


def levels(
    reads: Reads, fold: Folding, last: IntegerSet, needs: Needs, stored: Callable[[int], IntegerSet | None], skips: bool
) -> None:
    """From the last level to the first: what is needed of the state after it, and what that needs before it."""
    dim, f, args, column = fold.dim, fold.function, fold.operands, fold.interval
    state = _parameters(f)[0].dims
    carried = last.onto(state.names)
    before: IntegerSet | None = None
    stored_here = IntegerSet(carried.names)
    asked: list[IntegerSet] = []
    order = list(column)[::-1] if fold.forward else list(column)
    visited: list[int] = []
    first = 0
    for n, k in enumerate(order):
        here = stored(k)
        stored_here = stored_here if here is None else here.onto(state.names)
        now = reads.shaped(carried | stored_here, state)
        visited += [k] if now else []
        if before is not None and (now is before or now == before):
            continue
        if before is not None and before:
            _add_levels(args, asked, order[first:n], dim, needs)
        carried, *asked = reads.of_function(f, [now], needs)
        while reads.boxes and reads.shaped(carried | now, state) != now:
            # the state has one shape: the body makes all that it reads of it
            now = reads.shaped(carried | now, state)
            carried, *asked = reads.of_function(f, [now], needs)
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
                    asked[j] |= _seen(now, place.dims, arg).onto([d for d in asked[j].names if d in arg.tensor.dims])
    if before:
        _add_levels(args, asked, order[first:], dim, needs)
    if reads.boxes:
        # one column for all arguments
        for arg in args:
            if visited and dim in arg.tensor.dims:
                run = column if skips else Interval(min(visited), max(visited) + 1)
                inside = Dims(tuple((n, i) for n, i in state.items if n in arg.tensor.dims))
                known = needs.of(arg) or IntegerSet.box(arg.tensor.dims).within(inside)
                needs.add(arg, known.along(dim, (run.start, run.stop)).onto(_names(arg)))
    needs.add(fold.init, carried.onto(_names(fold.init)))


def _add_levels(args: Sequence[Expr], asked: list[IntegerSet], levels: list[int], dim: str, needs: Needs) -> None:
    """The points of the arguments that adjacent levels of a scan need."""
    run = (min(levels), max(levels) + 1)
    for arg, points in zip(args, asked, strict=True):
        names = [d for d in _names(arg) if d != dim]
        at = points.onto(names)
        needs.add(arg, at.along(dim, run).onto(_names(arg)) if dim in arg.tensor.dims else at)


RULES: dict[Control, Rule] = {
    Control.FOLD: fold,
    Control.LOOP: loop,
    Control.BLOCKS: blocked,
    Control.BRANCHES: cond,
    Control.UPDATES: scatter,
}


def rule_of(node: Call) -> Rule:
    """The rule of a call: that of its functions, its definition's, or its access maps."""
    row = TABLE[node.op]
    if row.control is not None:
        return RULES[row.control]
    return defined if node.definition is not None else mapped


# The backward walk: needed points of all nodes, results before operands.

MAX_COMPUTED = 50_000
"""Entries of a computed table that are looked at before a program runs; a larger one reads its whole source."""


class Reads:
    """The backward analysis of one program: what was found of its nodes, and what is known of its tables."""

    fencil: Fencil
    boxes: bool

    def __init__(self, fencil: Fencil, bound: BoundProgram, boxes: bool) -> None:
        self.fencil, self.boxes = fencil, boxes
        self.nodes: dict[int, IntegerSet] = {}
        self.variables: dict[Var, IntegerSet] = {}
        self.unknown: dict[int, Expr] = {}
        written = {p.name for p in fencil.outputs}
        self.constants: dict[str, tuple[Any, ...]] = {n: c for n, c in bound.constants.items() if n not in written}
        self._tables: dict[int, Array | None] = {}
        self._orders: dict[int, list[Expr]] = {}
        self._oracle: Interpreter | None = None
        self._holes: bool | None = None

    def rule(self, node: Call) -> Rule:
        """The points of its operands that the needed points of a call read."""
        return rule_of(node)

    def wanted(self, node: Expr, points: IntegerSet | None) -> IntegerSet | None:
        """The needed points of a node after all its readers in a scope: once, or once for each level of a fold."""
        return points

    def shaped(self, points: IntegerSet, inside: Dims) -> IntegerSet:
        """The points themselves; with `boxes` their hull, with all neighbours."""
        if not self.boxes or not points:
            return points
        dims = points.hull
        for name in dims:
            if name.startswith("_NB_"):
                dims = dims.with_interval(name, inside[name])
        return IntegerSet.box(dims)

    def of_closure(self, value: Expr, wanted: IntegerSet) -> dict[Var, IntegerSet]:
        """The points of the parameters that the needed points of a closure's value read."""
        if id(value) not in self._orders:
            inner = {p for node in postorder(value) if isinstance(node, Lambda) for p in node.params}
            order = [n for n in postorder(value) if n.free.isdisjoint(inner) and isinstance(n.type, TensorType)]
            self._orders[id(value)] = order[::-1]
        start = {id(value): wanted.onto(value.tensor.dims.names)}
        return self._follow(self._orders[id(value)], Needs(start, {}, None, self))

    def of_function(self, function: Any, wanted: Sequence[IntegerSet], outside: Needs) -> list[IntegerSet]:
        """The points of its parameters that the needed points of a function's results read.

        What it reads of expressions from outside is added to `outside`.
        """
        if not isinstance(function, Lambda):
            (points,) = wanted
            return [self.shaped(points.onto(t.dims.names), t.dims) for t in function.params]
        results, params = function.results, function.params
        if id(function) not in self._orders:
            inner = {p for node in postorder(*results) if isinstance(node, Lambda) for p in node.params}
            mine = frozenset(params)
            self._orders[id(function)] = [
                n
                for n in postorder(*results)
                if isinstance(n.type, TensorType) and n.free.isdisjoint(inner) and not n.free.isdisjoint(mine)
            ][::-1]
        order = self._orders[id(function)]
        need: dict[int, IntegerSet] = {}
        local = Needs(need, {id(n): n for n in order}, outside, self)
        for result, points in zip(results, wanted, strict=True):
            local.add(result, points.onto(result.tensor.dims.names))
        read = self._follow(order, local)
        for p, points in read.items():
            self.also(p, points)
        return [read.get(p, IntegerSet(p.type.dims.names)) for p in params]

    def also(self, variable: Var, points: IntegerSet) -> None:
        """More points of a parameter of a function are needed."""
        known = self.variables.get(variable)
        self.variables[variable] = self.shaped(points if known is None else known | points, variable.type.dims)

    def _follow(self, order: list[Expr], local: Needs) -> dict[Var, IntegerSet]:
        """The nodes of one scope, results before operands; what is needed of its variables."""
        need = local.need
        read: dict[Var, IntegerSet] = {}
        for node in order:
            wanted = self.wanted(node, need.get(id(node)))
            if not wanted:
                continue
            wanted = need[id(node)] = self.shaped(wanted, node.tensor.dims)
            known = self.nodes.get(id(node))
            self.nodes[id(node)] = wanted if known is None else self.shaped(known | wanted, node.tensor.dims)
            if isinstance(node, Var):
                read[node] = read[node] | wanted if node in read else wanted
            elif isinstance(node, Call):
                self.rule(node)(self, node, wanted, local)
                if self.boxes:
                    self._keep_operands(node, wanted.hull, local)
        return read

    def _keep_operands(self, node: Call, wanted: Dims, local: Needs) -> None:
        """The form of an operation asks for operands of which it may read nothing."""
        row, fold = TABLE[node.op], node.fold
        if row.control is None and node.definition is None and not row.indirect:
            return
        wanted = Dims() if fold is None else wanted.without(fold.dim)
        for arg in node.args:
            is_init = fold is not None and arg is fold.init
            if isinstance(arg.type, TensorType) and (is_init or not local.of(arg)):
                part = Dims(tuple((n, i & wanted[n] if n in wanted else i) for n, i in arg.type.dims.items))
                local.add(arg, self.shaped(IntegerSet.box(part), arg.type.dims))

    @property
    def holes(self) -> bool:
        """True if a table of the program holds -1, or may."""
        if self._holes is None:
            nodes = [n for n in postorder(*values(self.fencil.closures)) if isinstance(n, Call)]
            known = [self.entries(n.args[0]) for n in nodes if TABLE[n.op].table]
            self._holes = any(k is None or bool((k == -1).any()) for k in known)
        return self._holes

    def entries(self, table: Expr) -> Array | None:
        """The integers of an expression, axes in the order of its dims, -1 where absent; None if not known yet."""
        if id(table) not in self._tables:
            self._tables[id(table)] = self._entries(table)
        return self._tables[id(table)]

    def _entries(self, table: Expr) -> Array | None:
        dims = table.tensor.dims
        if isinstance(table, Var) and table.name in self.constants and table in self.fencil.params:
            stored = self.fencil[table.name].type.dims
            array = self.constants[table.name][0]
            return np.transpose(array, [stored.names.index(n) for n in dims.names])
        if not all(v in self.fencil.params and v.name in self.constants for v in table.free):
            return None
        rows = [TABLE[n.op] for n in postorder(table) if isinstance(n, Call)]
        if dims.size > MAX_COMPUTED or any(row.effect or row.endless for row in rows):
            return None
        if self._oracle is None:
            self._oracle = Interpreter(self.fencil, self.constants)
        values_at = [self._oracle.at(table, point) for point in points_of(dims)]
        # a number of 64 bits without a sign that int64 does not hold is outside of every interval, as the greatest is
        read = [-1 if v is ABSENT else min(int(v), np.iinfo(np.int64).max) for v in values_at]
        return np.array(read, np.int64).reshape(dims.shape)


@dataclass(slots=True)
class Needs:
    """Needed points as the rules of a scope collect them."""

    need: dict[int, IntegerSet]
    members: Mapping[int, Expr]
    """The nodes of the scope, or nothing where all nodes are."""
    outside: Needs | None
    reads: Reads

    def of(self, node: Expr) -> IntegerSet:
        """The points of a node that are needed, as far as they are known."""
        if self.outside is not None and id(node) not in self.members:
            return self.outside.of(node)
        return self.need.get(id(node), IntegerSet(node.tensor.dims.names))

    def add(self, node: Expr, points: IntegerSet) -> None:
        """More points of a node are needed."""
        if not points:
            return
        if self.outside is not None and id(node) not in self.members:
            self.outside.add(node, points)
            return
        known = self.need.get(id(node))
        self.need[id(node)] = points if known is None else known | points
