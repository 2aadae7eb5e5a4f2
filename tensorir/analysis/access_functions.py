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
    """An index that is affine in the coordinates: a sum with integer coefficients, and the interval of each dim in
    it.
    """

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
    """The affine function of coordinates (`pos`) that an integer expression is; None if it is not affine."""
    intervals: dict[str, Interval] = {}
    sums: dict[int, Affine] = {}
    stack = [(e, False)]
    while stack:
        node, operands_done = stack.pop()
        if id(node) in sums:
            continue
        match node:
            case Literal(value, element) if element.is_integer:
                sums[id(node)] = number(int(value))
            case Call("pos", _, (dim,)):
                sums[id(node)], intervals[dim] = variable(dim), node.tensor.dims[dim]
            case Call(op, args) if op in _SUMS and not operands_done:
                stack += [(node, True), *((a, False) for a in args)]
            case Call(op, args) if operands_done:
                combined_sum = _SUMS[op](*(sums[id(a)] for a in args))
                if combined_sum is None:
                    return None
                sums[id(node)] = combined_sum
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


def mapped(reads: Reads, node: Call, needed: IntegerSet, needs: Needs) -> None:
    """Adds for each operand the image of the needed points of a call under its access map."""
    accesses = node.accesses
    assert accesses is not None
    for arg, access in zip(node.args, accesses, strict=True):
        if access is None:
            continue
        if access.entries:
            needs.add(arg, _at_entries(reads, access, accesses, node, arg, needed))
        else:
            needs.add(arg, image(access, node, arg, needed, reads.boxes))


def image(access: Access, node: Call, arg: Expr, needed: IntegerSet, boxes: bool = False) -> IntegerSet:
    """The points of an operand that the needed points of a call read through an access map without data-dependent
    entries.

    With `boxes` the result must suit a call on the smaller box: along dims that the map cannot cut, the whole axis, and
    an operand of which a part is written over stays unless nothing of it is read.
    """
    points = needed if access.inside is None else needed.within(access.inside)
    if access.outside is not None and (remaining := points.without(access.outside)) is not points:
        points = points if boxes and remaining else remaining
    operand_dims = arg.tensor.dims
    if boxes:
        for d in access.uncut:
            if d in points.names:
                points = points.along(d, (node.type.dims[d].start, node.type.dims[d].stop))
    if not access.at:
        return points.onto(operand_dims.names)
    read = points.image({d: a for d in operand_dims if not isinstance(a := access.coordinate(d), Entry)})
    if boxes:
        for d in access.uncut:
            if d in operand_dims and isinstance(access.at[d], Affine):
                read = read.along(d, (operand_dims[d].start, operand_dims[d].stop))
    return read.onto(operand_dims.names)


def _at_entries(
    reads: Reads, access: Access, accesses: Accesses, node: Call, arg: Expr, needed: IntegerSet
) -> IntegerSet:
    """The points of an operand read at coordinates that are elements of other operands (gather, tables).

    If the entries are unknown before the run, or with `boxes` if bounds are part of the meaning, all points along their
    dims. Otherwise the coordinates that entries depend on are enumerated, and all other dims stay products of
    intervals.
    """
    operand_dims = arg.tensor.dims
    entries_of = {d: reads.entries(node.args[e.operand]) for d, e in access.entries.items()}
    if any(k is None for k in entries_of.values()) or (reads.boxes and access.uncut):
        reads.unknown[id(node)] = node
        unbounded = replace(access, at={**access.at, **{d: operand_dims[d] for d in entries_of}}, uncut=frozenset())
        return image(unbounded, node, arg, needed)
    index_coordinates = {d: _index(accesses[e.operand], node.args[e.operand]) for d, e in access.entries.items()}
    others = {d: access.coordinate(d) for d in operand_dims if d not in entries_of}
    # coordinates that the entries depend on, or that are sums, are enumerated; all others stay products
    enumerated = {n for axes in index_coordinates.values() for a in axes for n in a.names}
    enumerated |= {n for d, a in others.items() if isinstance(a, Affine) and a != variable(d) for n in a.names}
    axes = [n for n in needed.names if n in enumerated]
    sums = [d for d, a in others.items() if isinstance(a, Affine)]
    coupled_dims = [d for d in sums if access.coordinate(d) != variable(d) or d in enumerated]
    result = IntegerSet(operand_dims.names)

    def rows(columns: Mapping[str, Any], count: int, affine_dims: Sequence[str]) -> IntegerSet:
        """The points read for `count` needed points, given as columns of coordinates by name: along the entries' dims,
        and along `affine_dims`. Entries -1, and those out of bounds, read none.
        """
        present = np.ones(count, bool)
        read: dict[str, Array] = {}
        for d, e in access.entries.items():
            entries = entries_of[d]
            assert entries is not None
            coordinates_of_entries = [np.broadcast_to(a.at(columns), count) for a in index_coordinates[d]]
            starts = [i.start for _, i in node.args[e.operand].tensor.dims.items]
            column = entries[tuple(a - s for a, s in zip(coordinates_of_entries, starts, strict=True))]
            if e.absent:
                present &= column != -1
            interval = operand_dims[d]
            column = np.clip(column, interval.start, interval.stop - 1) if e.clamps else column
            present &= (column >= interval.start) & (column < interval.stop)
            read[d] = np.broadcast_to(column, count)
        for d in affine_dims:
            if isinstance(a := others[d], Affine):
                read[d] = np.broadcast_to(a.at(columns), count)
        if not count:
            return IntegerSet(tuple(read))
        return IntegerSet.rows(tuple(read), np.stack([c[present] for c in read.values()], 1))

    for piece in needed.pieces:
        factors = dict(zip(needed.names, piece, strict=True))
        grid = np.meshgrid(*[coordinates(factors[n]) for n in axes], indexing="ij")
        columns = {n: g.ravel() for n, g in zip(axes, grid, strict=True)}
        image_points = rows(columns, len(next(iter(columns.values()))) if columns else 1, coupled_dims)
        for d, a in others.items():
            if isinstance(a, Interval):
                image_points = image_points.along(d, (a.start, a.stop))
            elif d not in image_points.names:
                image_points = image_points.along(d, factors[d])
        result |= image_points.onto(operand_dims.names)
    for cloud in needed.clouds:
        columns = dict(zip(needed.names, cloud.T, strict=True))
        image_points = rows(columns, len(cloud), sums)
        for d, a in others.items():
            if isinstance(a, Interval):
                image_points = image_points.along(d, (a.start, a.stop))
        result |= image_points.onto(operand_dims.names)
    if reads.boxes:
        # allocated is the hull: absent neighbours have values there, too
        reached = result.hull if result else operand_dims
        unbounded = replace(access, at={**access.at, **{d: reached[d] for d in entries_of}})
        return image(unbounded, node, arg, needed)
    return result


def _index(access: Access | None, index: Expr) -> list[Affine]:
    """The affine coordinates at which an index operand is read, in the order of its axes."""
    assert access is not None
    coordinates = [access.coordinate(d) for d in index.tensor.dims]
    return [a for a in coordinates if isinstance(a, Affine)]


def defined(reads: Reads, node: Call, needed: IntegerSet, needs: Needs) -> None:
    """Adds the points that the definition of a builtin reads."""
    assert node.definition is not None
    for arg, points in zip(node.args, reads.of_function(node.definition, [needed], needs), strict=True):
        needs.add(arg, points)


# Folds


def scatter(reads: Reads, node: Call, needed: IntegerSet, needs: Needs) -> None:
    """A scatter reads all indices and updates, to know their targets, and the needed points of its base."""
    f, base, *indices_and_updates = node.args
    all_points = IntegerSet.box(bcast([a.tensor for a in indices_and_updates]))
    for arg in indices_and_updates:
        needs.add(arg, all_points.onto(_names(arg)))
    if f.free and (all_points or reads.boxes):
        reads.unknown[id(node)] = node
        reads.of_function(f, [IntegerSet((), ((),))], needs)
    needs.add(base, IntegerSet.box(base.tensor.dims) if reads.boxes else needed)


def loop(reads: Reads, node: Call, needed: IntegerSet, needs: Needs) -> None:
    """A loop reads what any number of rounds up to its limit may read: the needed points of the carries as a fixed
    point.

    With `boxes` a carry that is read at all is needed whole.
    """
    index: int = node.static.carried
    limit: int | None = node.static.limit
    if limit != 0:
        reads.unknown[id(node)] = node
    condition, step, *start = node.args
    needed_carries = [IntegerSet.box(a.tensor.dims) if reads.boxes else IntegerSet(_names(a)) for a in start]
    if not reads.boxes:
        needed_carries[index] = needed.onto(_names(start[index]))
    if limit != 0 or reads.boxes:
        for k, points_read in enumerate(reads.of_function(condition, [IntegerSet((), ((),))], needs)[1:]):
            needed_carries[k] |= points_read
    rounds = 0
    while limit is None or rounds < max(limit, reads.boxes):
        rounds += 1
        before = list(needed_carries)
        for j, points_read in enumerate(reads.of_function(step, before, needs)[1:]):
            needed_carries[j] |= IntegerSet.box(start[j].tensor.dims) if reads.boxes and points_read else points_read
        if all(a is b or a == b for a, b in zip(before, needed_carries, strict=True)):
            break
    for arg, points in zip(start, needed_carries, strict=True):
        needs.add(arg, points)


def blocked(reads: Reads, node: Call, needed: IntegerSet, needs: Needs) -> None:
    """A blocked function reads what the function does for the needed points of the one result."""
    f, *operands = node.args
    _applied(reads, f, operands, node.static.result, needed, needs)


def cond(reads: Reads, node: Call, needed: IntegerSet, needs: Needs) -> None:
    """A conditional reads what both branches read, since the branch is known at run time only."""
    then_function, else_function, condition, *operands = node.args
    needs.add(condition, IntegerSet((), ((),)))
    for f in (then_function, else_function):
        _applied(reads, f, operands, node.static.result, needed, needs)


def _applied(reads: Reads, f: Expr, operands: Sequence[Expr], index: int, needed: IntegerSet, needs: Needs) -> None:
    """Adds the points of operands that one result of a function, the `index`-th, reads; with `boxes` operands are
    whole.
    """
    assert isinstance(f, (Lambda, Operator))
    needed_results = [IntegerSet.box(r.dims) if reads.boxes else IntegerSet(r.dims.names) for r in f.type.results]
    if not reads.boxes:
        needed_results[index] = needed.onto(needed_results[index].names)
    for arg, points in zip(operands, reads.of_function(f, needed_results, needs), strict=True):
        needs.add(arg, IntegerSet.box(arg.tensor.dims) if reads.boxes and points else points.onto(_names(arg)))


def fold(reads: Reads, node: Call, needed: IntegerSet, needs: Needs) -> None:
    """A fold reads its operands level by level; one that skips absent levels reads every argument, to see if it is
    absent.
    """
    fold = node.fold
    assert fold is not None
    if fold.row.states:
        _states(reads, fold, needed, needs)
        return
    for arg, param_type in zip(fold.operands, _parameters(fold.function)[1:], strict=True):
        if fold.row.skips and fold.dim not in arg.tensor.dims:
            needs.add(arg, _seen(needed, param_type.dims, arg))
    levels(reads, fold, needed, needs, lambda k: None, fold.row.skips)


def _states(reads: Reads, fold: Folding, needed: IntegerSet, needs: Needs) -> None:
    """A scan: states are also needed where they are results. `changes` are the levels at which the needed points may
    change, so that equal adjacent levels are treated together.
    """
    dim = fold.dim
    other_dims = [d for d in needed.names if d != dim]
    changes: set[int] = set()
    for piece in needed.pieces:
        factor = piece[needed.names.index(dim)]
        changes.update((factor[0], factor[1]) if isinstance(factor, tuple) else coordinates(factor).tolist())
        changes.update([] if isinstance(factor, tuple) else (coordinates(factor) + 1).tolist())
    for cloud in needed.clouds:
        changes.update(cloud[:, needed.names.index(dim)].tolist())
        changes.update((cloud[:, needed.names.index(dim)] + 1).tolist())

    def stored(level: int) -> IntegerSet | None:
        """The points needed of the states stored at a level; None if they are those of the adjacent level."""
        return needed.at(dim, level) if level in changes or level + 1 in changes else None

    levels(reads, fold, IntegerSet(tuple(other_dims)), needs, stored, fold.row.skips)


def _seen(needed: IntegerSet, param_dims: Dims, arg: Expr) -> IntegerSet:
    """The points of an argument that belong to needed elements of the state; all along dims that the state does not
    have.
    """
    names = [d for d in param_dims if d in arg.tensor.dims]
    seen = needed.within(param_dims).onto([d for d in needed.names if d in names])
    for d in names:
        if d not in seen.names:
            seen = seen.along(d, (param_dims[d].start, param_dims[d].stop))
    return seen


def levels(
    reads: Reads,
    fold: Folding,
    after: IntegerSet,
    needs: Needs,
    stored: Callable[[int], IntegerSet | None],
    skips: bool,
) -> None:
    """Backward pass over the levels of a fold, from the last one: the points needed of the state after a level give
    those of the state before it, and of the arguments at it.

    `after` is needed of the final state, `stored(level)` of a scan's result there (None: unchanged). Runs of
    levels with equal needs are added at once. With `skips` arguments are read wherever the state is, to see if they are
    absent; with `boxes` the state and the range of levels get one shape for all levels.
    """
    dim, f, args, levels_interval = fold.dim, fold.function, fold.operands, fold.interval
    state = _parameters(f)[0].dims
    needed_before = after.onto(state.names)
    previous: IntegerSet | None = None
    stored_here = IntegerSet(needed_before.names)
    asked: list[IntegerSet] = []
    level_order = list(levels_interval)[::-1] if fold.forward else list(levels_interval)
    visited: list[int] = []
    run_start = 0
    for position, level in enumerate(level_order):
        stored_points = stored(level)
        stored_here = stored_here if stored_points is None else stored_points.onto(state.names)
        now = reads.shaped(needed_before | stored_here, state)
        visited += [level] if now else []
        if previous is not None and (now is previous or now == previous):
            continue
        if previous is not None and previous:
            _add_levels(args, asked, level_order[run_start:position], dim, needs)
        needed_before, *asked = reads.of_function(f, [now], needs)
        while reads.boxes and reads.shaped(needed_before | now, state) != now:
            # the state has one shape: the body makes all that it reads of it
            now = reads.shaped(needed_before | now, state)
            needed_before, *asked = reads.of_function(f, [now], needs)
        if reads.boxes:
            needed_before = now
            if isinstance(f, Lambda):
                reads.also(f.params[0], now)
        previous, run_start = now, position
        needed_before = reads.shaped(needed_before, state)
        if skips:
            needed_before |= now if reads.holes else needed_before
            for j, (arg, kind) in enumerate(zip(args, _parameters(f)[1:], strict=True)):
                if dim in arg.tensor.dims:
                    asked[j] |= _seen(now, kind.dims, arg).onto([d for d in asked[j].names if d in arg.tensor.dims])
    if previous:
        _add_levels(args, asked, level_order[run_start:], dim, needs)
    if reads.boxes:
        # one column for all arguments
        for arg in args:
            if visited and dim in arg.tensor.dims:
                levels_read = levels_interval if skips else Interval(min(visited), max(visited) + 1)
                state_part = Dims(tuple((position, i) for position, i in state.items if position in arg.tensor.dims))
                points = needs.of(arg) or IntegerSet.box(arg.tensor.dims).within(state_part)
                needs.add(arg, points.along(dim, (levels_read.start, levels_read.stop)).onto(_names(arg)))
    needs.add(fold.init, needed_before.onto(_names(fold.init)))


def _add_levels(args: Sequence[Expr], needed_args: list[IntegerSet], levels: list[int], dim: str, needs: Needs) -> None:
    """Adds the points of the arguments at adjacent levels that need the same ones."""
    run = (min(levels), max(levels) + 1)
    for arg, points in zip(args, needed_args, strict=True):
        names = [d for d in _names(arg) if d != dim]
        level_points = points.onto(names)
        needs.add(arg, level_points.along(dim, run).onto(_names(arg)) if dim in arg.tensor.dims else level_points)


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
    """The backward analysis of one program: the needed points of its nodes, and the entries of tables that are
    known.
    """

    fencil: Fencil
    boxes: bool

    def __init__(self, fencil: Fencil, bound: BoundProgram, boxes: bool) -> None:
        """`bound` has the constants of the program; those that it writes do not count as known. `boxes` is as for
        `domains`.
        """
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
        """A hook for subclasses: the needed points of a node once all readers in its scope (per level of a fold) are
        visited.
        """
        return points

    def shaped(self, points: IntegerSet, whole: Dims) -> IntegerSet:
        """The points unchanged; with `boxes` their hull, whole along dims of neighbours."""
        if not self.boxes or not points:
            return points
        dims = points.hull
        for name in dims:
            if name.startswith("_NB_"):
                dims = dims.with_interval(name, whole[name])
        return IntegerSet.box(dims)

    def of_closure(self, value: Expr, needed: IntegerSet) -> dict[Var, IntegerSet]:
        """The points of each variable that the needed points of a closure's value read; records those of nodes on the
        way.
        """
        if id(value) not in self._orders:
            bound = {p for node in postorder(value) if isinstance(node, Lambda) for p in node.params}
            order = [n for n in postorder(value) if n.free.isdisjoint(bound) and isinstance(n.type, TensorType)]
            self._orders[id(value)] = order[::-1]
        start = {id(value): needed.onto(value.tensor.dims.names)}
        return self._follow(self._orders[id(value)], Needs(start, {}, None, self))

    def of_function(self, function: Any, needed_results: Sequence[IntegerSet], outside: Needs) -> list[IntegerSet]:
        """The points of each parameter that the needed points of a function's results read.

        Points of expressions that it captures are added to `outside`.
        """
        if not isinstance(function, Lambda):
            (points,) = needed_results
            return [self.shaped(points.onto(t.dims.names), t.dims) for t in function.params]
        results, params = function.results, function.params
        if id(function) not in self._orders:
            bound = {p for node in postorder(*results) if isinstance(node, Lambda) for p in node.params}
            own_params = frozenset(params)
            self._orders[id(function)] = [
                n
                for n in postorder(*results)
                if isinstance(n.type, TensorType) and n.free.isdisjoint(bound) and not n.free.isdisjoint(own_params)
            ][::-1]
        order = self._orders[id(function)]
        need: dict[int, IntegerSet] = {}
        local = Needs(need, {id(n): n for n in order}, outside, self)
        for result, points in zip(results, needed_results, strict=True):
            local.add(result, points.onto(result.tensor.dims.names))
        read = self._follow(order, local)
        for p, points in read.items():
            self.also(p, points)
        return [read.get(p, IntegerSet(p.type.dims.names)) for p in params]

    def also(self, variable: Var, points: IntegerSet) -> None:
        """Adds needed points of a function's parameter."""
        earlier = self.variables.get(variable)
        self.variables[variable] = self.shaped(points if earlier is None else earlier | points, variable.type.dims)

    def _follow(self, order: list[Expr], local: Needs) -> dict[Var, IntegerSet]:
        """Visits the nodes of one scope, readers before operands; gives the points needed of its variables.

        Points are added to `nodes`; each call's rule adds those of its operands to `local`.
        """
        need = local.need
        read: dict[Var, IntegerSet] = {}
        for node in order:
            needed = self.wanted(node, need.get(id(node)))
            if not needed:
                continue
            needed = need[id(node)] = self.shaped(needed, node.tensor.dims)
            earlier = self.nodes.get(id(node))
            self.nodes[id(node)] = needed if earlier is None else self.shaped(earlier | needed, node.tensor.dims)
            if isinstance(node, Var):
                read[node] = read[node] | needed if node in read else needed
            elif isinstance(node, Call):
                self.rule(node)(self, node, needed, local)
                if self.boxes:
                    self._keep_operands(node, needed.hull, local)
        return read

    def _keep_operands(self, node: Call, needed: Dims, local: Needs) -> None:
        """With `boxes`: operands that a call must have though it reads no point of them (e.g. a fold's start) get some
        points.
        """
        builtin, fold = TABLE[node.op], node.fold
        if builtin.control is None and node.definition is None and not builtin.indirect:
            return
        needed = Dims() if fold is None else needed.without(fold.dim)
        for arg in node.args:
            is_init = fold is not None and arg is fold.init
            if isinstance(arg.type, TensorType) and (is_init or not local.of(arg)):
                part = Dims(tuple((n, i & needed[n] if n in needed else i) for n, i in arg.type.dims.items))
                local.add(arg, self.shaped(IntegerSet.box(part), arg.type.dims))

    @property
    def holes(self) -> bool:
        """True if a table of the program holds -1 or is not known."""
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
        """Entries of a constant table, or of an expression of constants evaluated by the interpreter if it is small;
        else None.
        """
        dims = table.tensor.dims
        if isinstance(table, Var) and table.name in self.constants and table in self.fencil.params:
            stored_dims = self.fencil[table.name].type.dims
            array = self.constants[table.name][0]
            return np.transpose(array, [stored_dims.names.index(n) for n in dims.names])
        if not all(v in self.fencil.params and v.name in self.constants for v in table.free):
            return None
        rows = [TABLE[n.op] for n in postorder(table) if isinstance(n, Call)]
        if dims.size > MAX_COMPUTED or any(row.effect or row.endless for row in rows):
            return None
        if self._oracle is None:
            self._oracle = Interpreter(self.fencil, self.constants)
        values_at = [self._oracle.at(table, point) for point in points_of(dims)]
        # a number of 64 bits without a sign that int64 does not hold is outside of every interval, as the greatest is
        entries = [-1 if v is ABSENT else min(int(v), np.iinfo(np.int64).max) for v in values_at]
        return np.array(entries, np.int64).reshape(dims.shape)


@dataclass(slots=True)
class Needs:
    """The points needed so far of the nodes of one scope; those of nodes outside of it go to the enclosing scope."""

    need: dict[int, IntegerSet]
    members: Mapping[int, Expr]
    """The nodes of the scope, or nothing where all nodes are."""
    outside: Needs | None
    reads: Reads

    def of(self, node: Expr) -> IntegerSet:
        """The points needed of a node so far."""
        if self.outside is not None and id(node) not in self.members:
            return self.outside.of(node)
        return self.need.get(id(node), IntegerSet(node.tensor.dims.names))

    def add(self, node: Expr, points: IntegerSet) -> None:
        """Adds needed points of a node, in this scope or the one that it belongs to."""
        if not points:
            return
        if self.outside is not None and id(node) not in self.members:
            self.outside.add(node, points)
            return
        earlier = self.need.get(id(node))
        self.need[id(node)] = points if earlier is None else earlier | points
