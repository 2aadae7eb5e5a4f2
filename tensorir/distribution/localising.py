"""Expressions, loops and conditionals of the whole program as those of a block's points."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tensorir.analysis.uses import names_in
from tensorir.distribution.mesh_exchange import LocalMesh, LocalTable
from tensorir.distribution.partition import Part
from tensorir.distribution.refusals import monoid_of
from tensorir.integers.dims import Dims, Interval
from tensorir.ir.build import call, coerced, cut, function, literal, operator, placed, var
from tensorir.ir.build import free_name as _free
from tensorir.ir.builtins import TABLE, Control
from tensorir.ir.nodes import Apply, Call, Expr, Fencil, Lambda, Literal, Operator, Var
from tensorir.ir.rewrite import postorder, substitute_all, values, with_label
from tensorir.ir.types import INT32, Scalar, TensorType
from tensorir.ir.typing_of_elements import neighbour_source
from tensorir.passes.simplify import UnrollLoops
from tensorir.runtime.errors import refuse

# Loops and conditionals of a block: every device runs as many rounds, or takes the same branch, on its own points.
#
# What is carried is on the points that all of it has around the block, and what the body computes of other fields. A
# body that reads neighbours of what it carries would need them anew in each round: it is refused, or, where the
# rounds are few and all run, written out before.


def written_out(program: Fencil, dims: Sequence[str]) -> Fencil:
    """Unrolls loops of few rounds if some loop reads neighbours, along `dims`, of what it carries; else the same
    program.

    A block could not compute such a loop: each round would need the halo anew.
    """
    all_nodes = postorder(*values(program.closures))
    loops = [n for n in all_nodes if isinstance(n, Call) and TABLE[n.op].control is Control.LOOP]
    reading = any(_reads_neighbours(f, dims) for n in loops for f in n.args[:2])
    return UnrollLoops().run(program) if reading else program


def _reads_neighbours(f: Expr, dims: Sequence[str]) -> bool:
    """True if a function reads what depends on its parameters at an offset along one of the distributed `dims`."""
    return isinstance(f, Lambda) and any(
        isinstance(n, Call) and any(d in dims for d, _ in offsets(n)) and not n.free.isdisjoint(f.params)
        for n in postorder(*f.results)
    )


def loop(localiser: Localiser, node: Call, frame: Frame, scope: Scope) -> Making:
    """A loop on local points: carries are on the largest intervals on which the body can compute them from themselves.

    The intervals start as those of the initial values and shrink until the body preserves them. The parts of the call
    are kept in `localiser.regions`, shared by all results of the loop.
    """
    condition, step, *starts = node.args
    assert isinstance(condition, Lambda) and isinstance(step, Lambda)
    key = (Control.LOOP, node.static.limit, frame, *map(id, node.args))
    if key not in localiser.regions:
        initial = yield from localiser.operands(starts, frame, scope)
        intervals = localiser.intervals(initial)
        while True:
            carry_types = [_place_of_region(localiser, s.tensor, intervals) for s in starts]
            params = _params(step, carry_types)
            results = yield from localiser.operands(step.results, frame, scope.inner(step.params, params))
            narrowed = {**intervals, **{d: intervals.get(d, i) & i for d, i in localiser.intervals(results).items()}}
            if narrowed == intervals:
                break
            intervals = narrowed
        asked = _params(condition, carry_types)
        (again,) = yield from localiser.operands(condition.results, frame, scope.inner(condition.params, asked))
        body = function(params, *(coerced(r, p) for r, p in zip(results, carry_types, strict=True)), span=step.span)
        states = [coerced(s, p) for s, p in zip(initial, carry_types, strict=True)]
        localiser.regions[key] = function(asked, again, span=condition.span), body, *states
    return call("loop", *localiser.regions[key], static=node.static, span=node.span)


def cond(localiser: Localiser, node: Call, frame: Frame, scope: Scope) -> Making:
    """A conditional on local points: both branches get their arguments, and give their results, on common intervals.

    The parts of the call are kept in `localiser.regions`, shared by all results of the conditional.
    """
    then_branch, else_branch, condition, *operands = node.args
    assert isinstance(then_branch, Lambda) and isinstance(else_branch, Lambda)
    key = (Control.BRANCHES, frame, *map(id, node.args))
    if key not in localiser.regions:
        chosen = yield condition, (), scope
        arguments = yield from localiser.operands(operands, frame, scope)
        intervals = localiser.intervals(arguments)
        branches: list[tuple[list[Var], list[Expr]]] = []
        for f in (then_branch, else_branch):
            kinds = [
                _place_of_region(localiser, p.type, {d: intervals[d] for d in intervals if d in a.tensor.dims})
                for p, a in zip(f.params, arguments, strict=True)
            ]
            params = [replace(p, type=t) for p, t in zip(f.params, kinds, strict=True)]
            branches.append((params, (yield from localiser.operands(f.results, frame, scope.inner(f.params, params)))))
        pairs = [localiser.common(pair) for pair in zip(*(results for _, results in branches), strict=True)]
        functions = [
            function(params, *(pair[k] for pair in pairs), span=f.span)
            for k, (f, (params, _)) in enumerate(zip((then_branch, else_branch), branches, strict=True))
        ]
        cuts = Dims(tuple(intervals.items()))
        localiser.regions[key] = *functions, chosen, *(cut(a, cuts) for a in arguments)
    return call("cond", *localiser.regions[key], static=node.static, span=node.span)


def _place_of_region(localiser: Localiser, kind: TensorType, intervals: Mapping[str, Interval]) -> TensorType:
    """The type of a carry or argument on local intervals; distributed dims without an interval, where it is constant,
    go.
    """
    have = [(d, intervals[d]) for d in kind.dims if d in intervals and d in localiser.parts]
    return kind.on(Dims((*kind.dims.without(*localiser.parts).items, *have)))


def _params(f: Lambda, places: Sequence[TensorType]) -> list[Var]:
    return [f.params[0], *(replace(p, type=t) for p, t in zip(f.params[1:], places, strict=True))]


# Expressions of the whole program as expressions of a block's points, rule by rule.
#
# A rule is a generator: it asks for the local forms of operands by yielding them, so programs may be as deep as
# memory allows. Values are right where the whole's type has points, and of no meaning elsewhere.

Frame = tuple[tuple[str, int], ...]
"""By dim, how far from a local point the whole's point is that stands there; dims without a distance are left out."""

Making = Generator["tuple[Expr, Frame, Scope]", Expr, Expr]


def offsets(node: Call) -> Iterator[tuple[str, int]]:
    """The dims and fixed offsets at which a call reads operands elsewhere."""
    for access in node.accesses or ():
        if access is not None:
            yield from access.offsets.items()


def far(dim: str, offset: int, parts: Mapping[str, Part]) -> bool:
    """True if a shift reads across more than half of a distributed interval, as periodic boundaries do."""
    return 2 * abs(offset) > len(parts[dim].interval)


@dataclass(frozen=True, slots=True)
class Fold:
    """A fold along a distributed dim: what a device folds of its block, and the parameter that has all of it."""

    param: Var
    partial: Expr
    op: str
    dim: str
    level: int
    """The stage at whose end it is combined."""


@dataclass(eq=False, slots=True)
class Scope:
    """Local expressions of the parameters of a function whose body is being localised.

    `done` keeps the local form of each node of the body by identity and frame.
    """

    variables: Mapping[Var, Expr]
    outer: Scope | None = None
    done: dict[tuple[int, Frame], Expr] = field(default_factory=dict[tuple[int, Frame], Expr])

    def inner(self, params: Sequence[Var], values: Sequence[Expr]) -> Scope:
        """The scope of a function's body, within this one."""
        return Scope(dict(zip(params, values, strict=True)), self)


class Localiser:
    """Rewrites expressions of the whole program into expressions on local points, and collects the inputs that they
    read.
    """

    def __init__(
        self,
        parts: Mapping[str, Part],
        box: Callable[[str, str], Interval],
        merged: Mapping[tuple[str, Frame], str],
        taken: set[str],
        mesh: LocalMesh | None = None,
        tables: dict[tuple[str, int, int], LocalTable] | None = None,
        condition_points: Mapping[str, Sequence[Interval]] | None = None,
    ) -> None:
        """Everything that a rewrite needs to know; positions, views and folds that it creates are collected in
        attributes.

        `box(parameter, dim)` is the local interval of a parameter. `merged` names the parameter for a pair of a field
        and a frame, so that several frames share one array; `taken` are names in use, and grows. `condition_points` has
        by dim the points of the whole, an interval for each device, at which conditions on positions are evaluated:
        conditions that are the same at all of them are decided here.
        """
        self.parts: Mapping[str, Part] = parts
        self.box: Callable[[str, str], Interval] = box
        self.merged: Mapping[tuple[str, Frame], str] = merged
        self.taken: set[str] = taken
        self.mesh: LocalMesh | None = mesh
        self.tables: dict[tuple[str, int, int], LocalTable] = {} if tables is None else tables
        self.condition_points: Mapping[str, Sequence[Interval]] = {} if condition_points is None else condition_points
        self.bounds: dict[str, set[int]] = {}
        """By dim, the points of the whole before which conditions on positions are others than from there on."""
        self.views: dict[tuple[Var, Frame], Var] = {}
        self.positions: dict[str, Var] = {}
        self.folds: list[Fold] = []
        self.regions: dict[tuple[Any, ...], tuple[Expr, ...]] = {}
        """What loops and conditionals are made of, which all their results share."""
        self._top = Scope({})

    def local(self, root: Expr) -> Expr:
        """The local form of an expression.

        Rules are generators that yield (operand, frame, scope) and are sent its local form; an explicit stack runs
        them, so depth is bounded by memory alone. Forms are cached in their scope by node and frame.
        """
        pending: list[tuple[Making, tuple[int, Frame], Scope]] = []
        reply: Any = None
        request: tuple[Expr, Frame, Scope] | None = (root, (), self._top)
        while True:
            if request is not None:
                node, frame, scope = request
                scope = _home(node, scope)
                key = id(node), self.reframed(node, frame)
                if (cached := scope.done.get(key)) is None:
                    pending.append((self._localised(node, key[1], scope), key, scope))
                reply = cached
            if not pending:
                return reply
            try:
                request = pending[-1][0].send(reply)
            except StopIteration as ended:
                _, key, scope = pending.pop()
                reply = scope.done[key] = ended.value
                request = None

    def reframed(self, node: Expr, frame: Frame) -> Frame:
        """A frame says nothing of dims that a node lacks."""
        return tuple((d, o) for d, o in frame if d in node.tensor.dims) if frame else frame

    # Parameters

    def view(self, field: Var, frame: Frame) -> Var:
        """The parameter of the local program for a field in a frame, created when first read.

        In the frame (("I", 9),) a periodic halo reads I = 10 of the whole at the local point 1. Frames that have one
        name in `merged`, which the caller has reserved, share a parameter; others take a free name.
        """
        param = self.views.get((field, frame))
        if param is None:
            name = self.merged.get((field.name, frame))
            if name is None:
                name = _free(field.name, self.taken)
            existing = next((v for v in self.views.values() if v.name == name), None)
            dims = Dims(tuple((d, self._interval(field, name, d, i)) for d, i in field.type.dims.items))
            param = self.views[field, frame] = existing or var(name, field.type.on(dims), field.span)
        return param

    def _interval(self, field: Var, local_name: str, dim: str, whole: Interval) -> Interval:
        """The local interval of a field along one dim: the mesh's places, the box of a block, or all of a dim not
        distributed.
        """
        if self.mesh is not None and dim in self.mesh.numbers:
            return self.mesh.interval(field, dim)
        return self.box(local_name, dim) if dim in self.parts else whole

    def table(self, node: Call) -> Expr | None:
        """The neighbour table of a call in local numbers, created when first read; None where the whole's table is
        used.
        """
        mesh_shift = None if self.mesh is None else self.mesh.shift(node)
        if self.mesh is None or mesh_shift is None:
            return None
        key = mesh_shift.table.name, *self.mesh.extents(mesh_shift)
        if key not in self.tables:
            self.tables[key] = self.mesh.table(mesh_shift, _free(mesh_shift.table.name, self.taken))
        return self.tables[key].param

    def at(self, dim: str, frame: Frame = ()) -> Expr:
        """The coordinate in the whole of each local point along a dim, as an expression; `frame` adds its offset."""
        if dim not in self.positions:
            name = self.merged.get((dim, (("at", 0),))) or _free(f"{dim}_at", self.taken)
            self.positions[dim] = var(name, TensorType(INT32, Dims(((dim, self.box(name, dim)),))))
        offset = dict(frame).get(dim, 0)
        positions = self.positions[dim]
        return call("plus", positions, literal(offset)) if offset else positions

    def beside(self, op: str, dim: str, bound: int, frame: Frame) -> Expr | bool:
        """The condition that coordinates along `dim` are `less` than a bound, or `greater_equal`, as `op` says.

        True or False if it is the same at all `condition_points`. The bound is recorded in `bounds`.
        """
        offset = dict(frame).get(dim, 0)
        self.bounds.setdefault(dim, set()).add(bound - offset)
        intervals = self.condition_points.get(dim, ())
        below = bool(intervals) and all(i.stop + offset <= bound for i in intervals)
        if below or (intervals and all(i.start + offset >= bound for i in intervals)):
            return below == (op == "less")
        return call(op, self.at(dim, frame), literal(bound))

    def inside(self, part: Dims, whole: Dims | None, frame: Frame) -> Expr | bool:
        """The condition that a point lies in `part`, along the distributed dims; True or False where that is decided.

        Ends of `part` that are ends of `whole` are not compared: no point lies beyond them; with None for `whole` both
        ends are. `frame`: the distance of the point from the block's own coordinates, () for none.
        """
        condition: Expr | bool = True
        for d, i in part.items:
            if d not in self.parts:
                continue
            outer = None if whole is None else whole.get(d)
            sides: list[Expr | bool] = []
            if outer is None or i.start > outer.start:
                sides.append(self.beside("greater_equal", d, i.start, frame))
            if outer is None or i.stop < outer.stop:
                sides.append(self.beside("less", d, i.stop, frame))
            for side in sides:
                if side is False or condition is False:
                    condition = False
                elif side is not True:
                    condition = side if condition is True else call("and", condition, side)
        return condition

    def common(self, values: Sequence[Expr]) -> list[Expr]:
        """The values, cut along the distributed dims to the intervals that all of them have."""
        shared: dict[str, Interval] = {}
        for d in self.parts:
            for v in values:
                if d in v.tensor.dims:
                    shared[d] = shared[d] & v.tensor.dims[d] if d in shared else v.tensor.dims[d]
        return [self._on(v, shared) for v in values]

    def _on(self, value: Expr, intervals: Mapping[str, Interval]) -> Expr:
        dims = value.tensor.dims
        return coerced(value, value.tensor.on(Dims((*dims.without(*intervals).items, *intervals.items()))))

    def intervals(self, values: Iterable[Expr]) -> dict[str, Interval]:
        """By distributed dim, the intersection of the intervals of the values that have it."""
        shared: dict[str, Interval] = {}
        for v in values:
            for d, i in v.tensor.dims.items:
                if d in self.parts:
                    shared[d] = shared[d] & i if d in shared else i
        return shared

    def block(self, value: Expr) -> Expr:
        """A value on the points of the block alone."""
        return cut(value, Dims(tuple((d, Interval(0, p.size)) for d, p in self.parts.items())))

    # Rules

    def _localised(self, node: Expr, frame: Frame, scope: Scope) -> Making:
        """The rule for a node: literals stay, variables become parameters of the block, calls go to the rule of their
        builtin.
        """
        match node:
            case Literal():
                return node
            case Var():
                return scope.variables[node] if node in scope.variables else self.view(node, frame)
            case Apply(Operator(op), args):
                operands = yield from self.operands(args, frame, scope)
                return call(op, *operands, span=node.span)
            case Call():
                localised = yield from self._called(node, frame, scope)
                return with_label(localised, node.label) if node.label and not localised.label else localised
            case _:
                raise AssertionError(node)

    def operands(self, nodes: Sequence[Expr], frame: Frame, scope: Scope) -> Generator[Any, Expr, list[Expr]]:
        """The local forms of several nodes, asked for one after the other (a generator to delegate to, `yield
        from`).
        """
        localised: list[Expr] = []
        for node in nodes:
            localised.append((yield node, frame, scope))
        return localised

    def _called(self, node: Call, frame: Frame, scope: Scope) -> Making:
        """The rule of a builtin: by its control, its name, or its properties (table, placed, definition, effect)."""
        row = TABLE[node.op]
        rule = _RULES.get(row.control or node.op) or (
            _neighbours if row.table else _placed if row.placed else _pointwise
        )
        if row.effect and row.checks:
            rule = _assert
        elif row.defined and not set(self.parts).isdisjoint(d for a in node.args for d in a.tensor.dims):
            rule = _defined
        return (yield from rule(self, node, frame, scope))


def _home(node: Expr, scope: Scope) -> Scope:
    """The outermost scope that has all variables of a node."""
    while scope.outer is not None and node.free.isdisjoint(scope.variables):
        scope = scope.outer
    return scope


def _pointwise(localiser: Localiser, node: Call, frame: Frame, scope: Scope) -> Making:
    """A call that computes each point from the same point of its operands, on the points that all of them have.

    A call with functions that no rule handles has no distributed dim: it stays, on local parameters.
    """
    if any(isinstance(a, (Lambda, Operator)) for a in node.args):
        # it has no distributed dim: the same expression on the local parameters
        variables = sorted(node.free, key=lambda v: v.name)
        arguments = yield from localiser.operands(variables, frame, scope)
        return substitute_all((node,), dict(zip(variables, arguments, strict=True)))[0]
    args = yield from localiser.operands(node.args, frame, scope)
    if not all(access and access.is_identity for access in node.accesses or ()):
        args = localiser.common(args)
    return call(node.op, *args, static=node.static, span=node.span)


def _defined(localiser: Localiser, node: Call, frame: Frame, scope: Scope) -> Making:
    """A builtin defined by a function of others: the local form of its definition, applied to the local operands."""
    definition = node.definition
    assert definition is not None
    args = yield from localiser.operands(node.args, frame, scope)
    return (yield definition.body, frame, scope.inner(definition.params, args))


def _shift(localiser: Localiser, node: Call, frame: Frame, scope: Scope) -> Making:
    """A shift along a dim: a local shift, unless it reads across a periodic boundary; then the operand is read in
    another frame. It is dropped where the local operand is constant along the dim.
    """
    dim, offset = node.static
    (x,) = node.args
    if dim in localiser.parts and far(dim, offset, localiser.parts):
        moved = dict(frame)
        moved[dim] = moved.get(dim, 0) + offset
        return (yield x, tuple(sorted((d, o) for d, o in moved.items() if o)), scope)
    operand = yield x, frame, scope
    return (
        call("cartesian_shift", operand, static=node.static, span=node.span) if dim in operand.tensor.dims else operand
    )


def _neighbours(localiser: Localiser, node: Call, frame: Frame, scope: Scope) -> Making:
    """A read through a neighbour table, in local numbers; an operand constant along the source dim is
    broadcast first.
    """
    table = localiser.table(node)
    if table is None:
        return (yield from _pointwise(localiser, node, frame, scope))
    operand = yield node.args[1], frame, scope
    _, source = neighbour_source(table.tensor)
    if source not in operand.tensor.dims:  # the same at all points
        source_interval = localiser.box(source, source)
        operand = call("add_dim", operand, static=(source, source_interval.start, source_interval.stop), span=node.span)
    return call(node.op, table, operand, static=node.static, span=node.span)


def _placed(localiser: Localiser, node: Call, frame: Frame, scope: Scope) -> Making:
    """A builtin with intervals in its static parameters (such as `subset`): distributed dims are dropped from these."""
    operand = yield node.args[0], frame, scope
    static_dims = names_in(node.static).difference(localiser.parts)
    local_dims = Dims(tuple((d, i) for d, i in node.type.dims.items if d in static_dims))
    return placed(node, [operand], local_dims) if len(local_dims) else operand


def _concat(localiser: Localiser, node: Call, frame: Frame, scope: Scope) -> Making:
    """A join of operands along a dim; along a distributed one it selects by the coordinate: `if at < start_of_upper
    then lower else upper`, from the highest operand down.

    Operands without a point in the block are left out.
    """
    types = [a.tensor.dims for a in node.args]
    (dim,) = (d for d in types[0] if any(t[d] != types[0][d] for t in types))
    if dim not in localiser.parts:
        args = yield from localiser.operands(node.args, frame, scope)
        return call("concat", *localiser.common(args), span=node.span)
    order = sorted(range(len(types)), key=lambda k: (types[k][dim].start, types[k][dim].stop), reverse=True)
    upper, upper_start = node.args[order[0]], types[order[0]][dim].start
    # what a block has no point of is not made: views have no more points than are read
    lower_parts: list[tuple[Expr, Expr]] = []
    for k in order[1:]:
        if node.args[k] is not (lower_parts[-1][1] if lower_parts else upper) and types[k][dim]:
            condition = localiser.beside("less", dim, upper_start, frame)
            if condition is True:
                upper, lower_parts = node.args[k], []
            elif condition is not False:
                lower_parts.append((condition, node.args[k]))
        upper_start = types[k][dim].start
    joined = yield upper, frame, scope
    for condition, operand in lower_parts:
        lower = yield operand, frame, scope
        joined = joined if lower is joined else call("if", condition, lower, joined, span=node.span)
    return joined


def _update(localiser: Localiser, node: Call, frame: Frame, scope: Scope) -> Making:
    """An update of a part of a tensor: `if point in part then y else x`, where the part is bounded along distributed
    dims.

    Along other dims it stays an `update` of the local operands.
    """
    whole, part = (a.tensor.dims for a in node.args)
    local_dims = whole.without(*localiser.parts)
    inside = localiser.inside(part, whole, frame) if part.size else False
    if inside is False:
        return (yield node.args[0], frame, scope)
    y = yield node.args[1], frame, scope
    if all(part.get(d) in (None, i) for d, i in local_dims.items):
        missing = Dims(tuple((d, i) for d, i in local_dims.items if d not in part))
        y = coerced(y, y.tensor.on(Dims((*y.tensor.dims.items, *missing.items))))
        if inside is True:
            return y
        x = yield node.args[0], frame, scope
    else:
        x = yield node.args[0], frame, scope
        x, rest = localiser.common([x, y])
        y = call("update", x, rest, span=node.span)
    return y if inside is True else call("if", inside, y, x, span=node.span)


def _pos(localiser: Localiser, node: Call, frame: Frame, scope: Scope) -> Making:
    """The coordinate along a dim: of the whole, from the device's positions, where the dim is distributed."""
    if node.static.dim in localiser.parts:
        return localiser.at(node.static.dim, frame)
    operand = yield node.args[0], frame, scope
    return call("pos", operand, static=node.static, span=node.span)


def _gather(localiser: Localiser, node: Call, frame: Frame, scope: Scope) -> Making:
    """A gather in whole-array indices of dims that are not distributed; bounds are checked in the block alone.

    Indices in the halo may hold anything, so there the gather clamps, and the checked block is written over it.
    """
    dims, mode = node.static
    source = node.args[0].tensor.dims
    x, *indices = yield from localiser.operands(node.args, frame, scope)
    if mode != "checked" or set(localiser.parts).isdisjoint(d for i in node.args[1:] for d in i.tensor.dims):
        return call("gather", x, *indices, static=node.static, span=node.span)
    if any(localiser.reframed(i, frame) for i in node.args[1:]):
        message = "indices that are checked are read across a periodic boundary of what is distributed."
        raise refuse("D04", message, "clamp them: gather(I, clamp)(x, i).", at=node.span)
    safe: list[Expr] = []
    for dim, index, local_index in zip(dims, node.args[1:], indices, strict=True):
        inside = localiser.inside(index.tensor.dims, None, frame)
        element = local_index.tensor.element
        assert isinstance(element, Scalar)
        first = literal(source[dim].start, element)
        safe.append(local_index if isinstance(inside, bool) else call("if", inside, local_index, first))
    blocks = [localiser.block(i) for i in safe]
    checked = call("gather", localiser.block(x), *blocks, static=node.static, span=node.span)
    clamped = call("gather", x, *safe, static=(dims, "clamp"), span=node.span)
    covers_all = all(checked.tensor.dims[d] == i for d, i in clamped.tensor.dims.items)
    return checked if covers_all else call("update", clamped, checked, span=node.span)


def _assert(localiser: Localiser, node: Call, frame: Frame, scope: Scope) -> Making:
    """A check of a condition, which each device makes at the points of its own block."""
    x = yield node.args[0], frame, scope
    condition = yield node.args[1], (), scope
    inside = localiser.inside(node.args[1].tensor.dims, None, ())
    if not isinstance(inside, bool):
        condition = call("or", call("not", inside), condition)
    return call("assert_", x, localiser.block(condition), static=node.static, span=node.span)


# Folds


def _fold(localiser: Localiser, node: Call, frame: Frame, scope: Scope) -> Making:
    """A fold along a dim that is not distributed: each block folds its own points; along a distributed one, see
    `_combined`.

    The intervals of the state start as those of the operands and shrink until the body preserves them.
    """
    if node.static.dim in localiser.parts:
        return (yield from _combined(localiser, node, frame, scope))
    f, *operands = node.args
    assert isinstance(f, (Lambda, Operator))
    init, *args = yield from localiser.operands(operands, frame, scope)
    intervals = localiser.intervals([init, *args])
    while True:
        param_types = [_place(localiser, t, intervals, None) for t in f.type.params[:1]]
        param_types += [_place(localiser, t, intervals, a) for t, a in zip(f.type.params[1:], args, strict=True)]
        if isinstance(f, Operator):
            local_function: Lambda | Operator = operator(f.op, *param_types, span=f.span)
            break
        params = [replace(p, type=t) for p, t in zip(f.params, param_types, strict=True)]
        body = yield f.body, frame, scope.inner(f.params, params)
        # what it takes from outside may be on fewer points
        narrowed = {**intervals, **{d: intervals.get(d, i) & i for d, i in localiser.intervals([body]).items()}}
        if narrowed == intervals:
            local_function = Lambda(tuple(params), (coerced(body, param_types[0]),), f.span)
            break
        intervals = narrowed
    cuts = Dims(tuple(intervals.items()))
    return call(
        node.op, local_function, cut(init, cuts), *(cut(a, cuts) for a in args), static=node.static, span=node.span
    )


def _place(localiser: Localiser, kind: TensorType, intervals: Mapping[str, Interval], arg: Expr | None) -> TensorType:
    """The type of a function's parameter on local intervals: with the dims of its argument, or all if `arg` is None."""
    have = {d: i for d, i in intervals.items() if arg is None or d in arg.tensor.dims}
    return kind.on(Dims((*kind.dims.without(*localiser.parts).items, *have.items())))


def _combined(localiser: Localiser, node: Call, frame: Frame, scope: Scope) -> Making:
    """A fold along a distributed dim: each block folds its points from the identity, and the partial results are
    combined.

    Points of the block outside of the folded interval, or padding, count as the identity. Appends a `Fold`, whose
    parameter holds the combined value in later stages, along other distributed dims on the points that devices read
    there (`Localiser.box`); gives `op(init, parameter)`.
    """
    fold, monoid = node.fold, monoid_of(node)
    assert fold is not None and monoid is not None
    dim = fold.dim
    init = yield node.args[1], frame, scope
    if monoid.each is None:
        folded = yield node.args[2], frame, scope
    else:
        used = [(p, a) for p, a in zip(monoid.params, node.args[2:], strict=True) if p in monoid.each.free]
        args = yield from localiser.operands([a for _, a in used], frame, scope)
        folded = yield monoid.each, frame, scope.inner([p for p, _ in used], args)
    element = node.tensor.element
    row = TABLE[monoid.op]
    assert row.identity is not None and isinstance(element, Scalar)
    identity = literal(row.identity(element), element)
    decomposition, interval = localiser.parts[dim], fold.interval
    if interval != decomposition.padded or dim not in folded.tensor.dims:
        inside = localiser.inside(Dims(((dim, interval),)), None, ())
        assert not isinstance(inside, bool)
        folded = call("if", inside, folded, identity)
    block = cut(folded, Dims(((dim, Interval(0, decomposition.size)),)))
    kind = block.tensor.on(block.tensor.dims.without(dim))
    partial = call("reduce", operator(monoid.op, kind, kind), identity, block, static=(dim,), span=node.span)
    level = 1 + max((f.level for f in localiser.folds if f.param in partial.free), default=-1)
    param_name = f"fold_{len(localiser.folds) + 1}"
    dims = Dims(tuple((d, localiser.box(param_name, d) & i if d in localiser.parts else i) for d, i in kind.dims.items))
    param = var(param_name, kind.on(dims))
    localiser.folds.append(Fold(param, partial, monoid.op, dim, level))
    return call(monoid.op, init, param, span=node.span)


_RULES: dict[str | Control, Callable[[Localiser, Call, Frame, Scope], Making]] = {
    "cartesian_shift": _shift,
    "concat": _concat,
    "update": _update,
    "pos": _pos,
    "gather": _gather,
    Control.FOLD: _fold,
    Control.LOOP: loop,
    Control.BRANCHES: cond,
}
