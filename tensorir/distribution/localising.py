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
    """The program with loops of few rounds written out, where one reads neighbours along dims of what it carries."""
    nodes = postorder(*values(program.closures))
    loops = [n for n in nodes if isinstance(n, Call) and TABLE[n.op].control is Control.LOOP]
    reading = any(_reads_neighbours(f, dims) for n in loops for f in n.args[:2])
    return UnrollLoops().run(program) if reading else program


def _reads_neighbours(f: Expr, dims: Sequence[str]) -> bool:
    return isinstance(f, Lambda) and any(
        isinstance(n, Call) and any(d in dims for d, _ in offsets(n)) and not n.free.isdisjoint(f.params)
        for n in postorder(*f.results)
    )


def loop(localiser: Localiser, node: Call, frame: Frame, scope: Scope) -> Making:
    condition, step, *starts = node.args
    assert isinstance(condition, Lambda) and isinstance(step, Lambda)
    key = (Control.LOOP, node.static.limit, frame, *map(id, node.args))
    if key not in localiser.regions:
        initial = yield from localiser.operands(starts, frame, scope)
        on = localiser.intervals(initial)
        while True:
            places = [_place_of_region(localiser, s.tensor, on) for s in starts]
            params = _params(step, places)
            results = yield from localiser.operands(step.results, frame, scope.inner(step.params, params))
            narrowed = {**on, **{d: on.get(d, i) & i for d, i in localiser.intervals(results).items()}}
            if narrowed == on:
                break
            on = narrowed
        asked = _params(condition, places)
        (more,) = yield from localiser.operands(condition.results, frame, scope.inner(condition.params, asked))
        body = function(params, *(coerced(r, p) for r, p in zip(results, places, strict=True)), span=step.span)
        states = [coerced(s, p) for s, p in zip(initial, places, strict=True)]
        localiser.regions[key] = function(asked, more, span=condition.span), body, *states
    return call("loop", *localiser.regions[key], static=node.static, span=node.span)


def cond(localiser: Localiser, node: Call, frame: Frame, scope: Scope) -> Making:
    first, second, condition, *operands = node.args
    assert isinstance(first, Lambda) and isinstance(second, Lambda)
    key = (Control.BRANCHES, frame, *map(id, node.args))
    if key not in localiser.regions:
        chosen = yield condition, (), scope
        arguments = yield from localiser.operands(operands, frame, scope)
        on = localiser.intervals(arguments)
        branches: list[tuple[list[Var], list[Expr]]] = []
        for f in (first, second):
            kinds = [
                _place_of_region(localiser, p.type, {d: on[d] for d in on if d in a.tensor.dims})
                for p, a in zip(f.params, arguments, strict=True)
            ]
            params = [replace(p, type=t) for p, t in zip(f.params, kinds, strict=True)]
            branches.append((params, (yield from localiser.operands(f.results, frame, scope.inner(f.params, params)))))
        pairs = [localiser.common(pair) for pair in zip(*(results for _, results in branches), strict=True)]
        functions = [
            function(params, *(pair[k] for pair in pairs), span=f.span)
            for k, (f, (params, _)) in enumerate(zip((first, second), branches, strict=True))
        ]
        cuts = Dims(tuple(on.items()))
        localiser.regions[key] = *functions, chosen, *(cut(a, cuts) for a in arguments)
    return call("cond", *localiser.regions[key], static=node.static, span=node.span)


def _place_of_region(localiser: Localiser, kind: TensorType, on: Mapping[str, Interval]) -> TensorType:
    """The type of what is carried on local intervals; along dims that no value has it is the same everywhere."""
    have = [(d, on[d]) for d in kind.dims if d in on and d in localiser.parts]
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
    """The local expressions that stand for variables of functions, and those made of the nodes that use them."""

    variables: Mapping[Var, Expr]
    outer: Scope | None = None
    done: dict[tuple[int, Frame], Expr] = field(default_factory=dict[tuple[int, Frame], Expr])

    def inner(self, params: Sequence[Var], values: Sequence[Expr]) -> Scope:
        """The scope of a function's body, within this one."""
        return Scope(dict(zip(params, values, strict=True)), self)


class Localiser:
    """The local forms of expressions, and the parameters and folds that they read."""

    def __init__(
        self,
        parts: Mapping[str, Part],
        box: Callable[[str, str], Interval],
        merged: Mapping[tuple[str, Frame], str],
        taken: set[str],
        mesh: LocalMesh | None = None,
        tables: dict[tuple[str, int, int], LocalTable] | None = None,
        asked: Mapping[str, Sequence[Interval]] | None = None,
    ) -> None:
        """`box` has the local interval of a parameter along a dim, by their names.

        `asked` has by dim the points of the whole, an interval for each device, at which conditions on positions are
        evaluated: those that are the same at all of them are decided here.
        """
        self.parts: Mapping[str, Part] = parts
        self.box: Callable[[str, str], Interval] = box
        self.merged: Mapping[tuple[str, Frame], str] = merged
        self.taken: set[str] = taken
        self.mesh: LocalMesh | None = mesh
        self.tables: dict[tuple[str, int, int], LocalTable] = {} if tables is None else tables
        self.asked: Mapping[str, Sequence[Interval]] = {} if asked is None else asked
        self.bounds: dict[str, set[int]] = {}
        """By dim, the points of the whole before which conditions on positions are others than from there on."""
        self.views: dict[tuple[Var, Frame], Var] = {}
        self.positions: dict[str, Var] = {}
        self.folds: list[Fold] = []
        self.regions: dict[tuple[Any, ...], tuple[Expr, ...]] = {}
        """What loops and conditionals are made of, which all their results share."""
        self._top = Scope({})

    def local(self, root: Expr) -> Expr:
        """The local form of an expression."""
        making: list[tuple[Making, tuple[int, Frame], Scope]] = []
        sent: Any = None
        asked: tuple[Expr, Frame, Scope] | None = (root, (), self._top)
        while True:
            if asked is not None:
                node, frame, scope = asked
                scope = _home(node, scope)
                key = id(node), self.reframed(node, frame)
                if (known := scope.done.get(key)) is None:
                    making.append((self._localised(node, key[1], scope), key, scope))
                sent = known
            if not making:
                return sent
            try:
                asked = making[-1][0].send(sent)
            except StopIteration as ended:
                _, key, scope = making.pop()
                sent = scope.done[key] = ended.value
                asked = None

    def reframed(self, node: Expr, frame: Frame) -> Frame:
        """A frame says nothing of dims that a node lacks."""
        return tuple((d, o) for d, o in frame if d in node.tensor.dims) if frame else frame

    # Parameters

    def view(self, field: Var, frame: Frame) -> Var:
        """A parameter of the whole as one of the local program."""
        param = self.views.get((field, frame))
        if param is None:
            name = self.merged.get((field.name, frame))
            if name is None:
                name = _free(field.name, self.taken)
            known = next((v for v in self.views.values() if v.name == name), None)
            dims = Dims(tuple((d, self._interval(field, name, d, i)) for d, i in field.type.dims.items))
            param = self.views[field, frame] = known or var(name, field.type.on(dims), field.span)
        return param

    def _interval(self, field: Var, name: str, dim: str, whole: Interval) -> Interval:
        """The local points of a parameter."""
        if self.mesh is not None and dim in self.mesh.numbers:
            return self.mesh.interval(field, dim)
        return self.box(name, dim) if dim in self.parts else whole

    def table(self, node: Call) -> Expr | None:
        """The table of a shift in the numbers of the device; None where it is the whole's."""
        shift = None if self.mesh is None else self.mesh.shift(node)
        if self.mesh is None or shift is None:
            return None
        key = shift.table.name, *self.mesh.extents(shift)
        if key not in self.tables:
            self.tables[key] = self.mesh.table(shift, _free(shift.table.name, self.taken))
        return self.tables[key].param

    def at(self, dim: str, frame: Frame = ()) -> Expr:
        """The coordinate in the whole of each local point."""
        if dim not in self.positions:
            name = self.merged.get((dim, (("at", 0),))) or _free(f"{dim}_at", self.taken)
            self.positions[dim] = var(name, TensorType(INT32, Dims(((dim, self.box(name, dim)),))))
        offset = dict(frame).get(dim, 0)
        place = self.positions[dim]
        return call("plus", place, literal(offset)) if offset else place

    def beside(self, op: str, dim: str, bound: int, frame: Frame) -> Expr | bool:
        """The condition that points of the whole are `less` than a bound, or `greater_equal`, or what it is at all."""
        offset = dict(frame).get(dim, 0)
        self.bounds.setdefault(dim, set()).add(bound - offset)
        asked = self.asked.get(dim, ())
        below = bool(asked) and all(i.stop + offset <= bound for i in asked)
        if below or (asked and all(i.start + offset >= bound for i in asked)):
            return below == (op == "less")
        return call(op, self.at(dim, frame), literal(bound))

    def inside(self, part: Dims, whole: Dims | None, frame: Frame) -> Expr | bool:
        """The condition that a point of the whole lies in a part along the distributed dims."""
        condition: Expr | bool = True
        for d, i in part.items:
            if d not in self.parts:
                continue
            ends = None if whole is None else whole.get(d)
            sides: list[Expr | bool] = []
            if ends is None or i.start > ends.start:
                sides.append(self.beside("greater_equal", d, i.start, frame))
            if ends is None or i.stop < ends.stop:
                sides.append(self.beside("less", d, i.stop, frame))
            for side in sides:
                if side is False or condition is False:
                    condition = False
                elif side is not True:
                    condition = side if condition is True else call("and", condition, side)
        return condition

    def common(self, values: Sequence[Expr]) -> list[Expr]:
        """Values on the same intervals of the distributed dims."""
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
        """The points along distributed dims that all values have which have any."""
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
        localised: list[Expr] = []
        for node in nodes:
            localised.append((yield node, frame, scope))
        return localised

    def _called(self, node: Call, frame: Frame, scope: Scope) -> Making:
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
    definition = node.definition
    assert definition is not None
    args = yield from localiser.operands(node.args, frame, scope)
    return (yield definition.body, frame, scope.inner(definition.params, args))


def _shift(localiser: Localiser, node: Call, frame: Frame, scope: Scope) -> Making:
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
    table = localiser.table(node)
    if table is None:
        return (yield from _pointwise(localiser, node, frame, scope))
    operand = yield node.args[1], frame, scope
    _, source = neighbour_source(table.tensor)
    if source not in operand.tensor.dims:  # the same at all points
        places = localiser.box(source, source)
        operand = call("add_dim", operand, static=(source, places.start, places.stop), span=node.span)
    return call(node.op, table, operand, static=node.static, span=node.span)


def _placed(localiser: Localiser, node: Call, frame: Frame, scope: Scope) -> Making:
    """A call whose static parameters say where it has points: of distributed dims they say nothing."""
    operand = yield node.args[0], frame, scope
    named = names_in(node.static).difference(localiser.parts)
    rest = Dims(tuple((d, i) for d, i in node.type.dims.items if d in named))
    return placed(node, [operand], rest) if len(rest) else operand


def _concat(localiser: Localiser, node: Call, frame: Frame, scope: Scope) -> Making:
    types = [a.tensor.dims for a in node.args]
    (dim,) = (d for d in types[0] if any(t[d] != types[0][d] for t in types))
    if dim not in localiser.parts:
        args = yield from localiser.operands(node.args, frame, scope)
        return call("concat", *localiser.common(args), span=node.span)
    order = sorted(range(len(types)), key=lambda k: (types[k][dim].start, types[k][dim].stop), reverse=True)
    last, begin = node.args[order[0]], types[order[0]][dim].start
    # what a block has no point of is not made: views have no more points than are read
    earlier: list[tuple[Expr, Expr]] = []
    for k in order[1:]:
        if node.args[k] is not (earlier[-1][1] if earlier else last) and types[k][dim]:
            before = localiser.beside("less", dim, begin, frame)
            if before is True:
                last, earlier = node.args[k], []
            elif before is not False:
                earlier.append((before, node.args[k]))
        begin = types[k][dim].start
    joined = yield last, frame, scope
    for before, part in earlier:
        one = yield part, frame, scope
        joined = joined if one is joined else call("if", before, one, joined, span=node.span)
    return joined


def _update(localiser: Localiser, node: Call, frame: Frame, scope: Scope) -> Making:
    whole, part = (a.tensor.dims for a in node.args)
    others = whole.without(*localiser.parts)
    inside = localiser.inside(part, whole, frame) if part.size else False
    if inside is False:
        return (yield node.args[0], frame, scope)
    y = yield node.args[1], frame, scope
    if all(part.get(d) in (None, i) for d, i in others.items):
        lacking = Dims(tuple((d, i) for d, i in others.items if d not in part))
        y = coerced(y, y.tensor.on(Dims((*y.tensor.dims.items, *lacking.items))))
        if inside is True:
            return y
        x = yield node.args[0], frame, scope
    else:
        x = yield node.args[0], frame, scope
        x, rest = localiser.common([x, y])
        y = call("update", x, rest, span=node.span)
    return y if inside is True else call("if", inside, y, x, span=node.span)


def _pos(localiser: Localiser, node: Call, frame: Frame, scope: Scope) -> Making:
    if node.static.dim in localiser.parts:
        return localiser.at(node.static.dim, frame)
    operand = yield node.args[0], frame, scope
    return call("pos", operand, static=node.static, span=node.span)


def _gather(localiser: Localiser, node: Call, frame: Frame, scope: Scope) -> Making:
    """A gather whose indices are checked in the block itself alone: halos that nobody reads may hold any."""
    dims, mode = node.static
    source = node.args[0].tensor.dims
    x, *indices = yield from localiser.operands(node.args, frame, scope)
    if mode != "checked" or set(localiser.parts).isdisjoint(d for i in node.args[1:] for d in i.tensor.dims):
        return call("gather", x, *indices, static=node.static, span=node.span)
    if any(localiser.reframed(i, frame) for i in node.args[1:]):
        message = "indices that are checked are read across a periodic boundary of what is distributed."
        raise refuse("D04", message, "clamp them: gather(I, clamp)(x, i).", at=node.span)
    known: list[Expr] = []
    for dim, index, local_index in zip(dims, node.args[1:], indices, strict=True):
        inside = localiser.inside(index.tensor.dims, None, frame)
        element = local_index.tensor.element
        assert isinstance(element, Scalar)
        first = literal(source[dim].start, element)
        known.append(local_index if isinstance(inside, bool) else call("if", inside, local_index, first))
    blocks = [localiser.block(i) for i in known]
    checked = call("gather", localiser.block(x), *blocks, static=node.static, span=node.span)
    around = call("gather", x, *known, static=(dims, "clamp"), span=node.span)
    same = all(checked.tensor.dims[d] == i for d, i in around.tensor.dims.items)
    return checked if same else call("update", around, checked, span=node.span)


def _assert(localiser: Localiser, node: Call, frame: Frame, scope: Scope) -> Making:
    """Each device looks at its block."""
    x = yield node.args[0], frame, scope
    condition = yield node.args[1], (), scope
    inside = localiser.inside(node.args[1].tensor.dims, None, ())
    if not isinstance(inside, bool):
        condition = call("or", call("not", inside), condition)
    return call("assert_", x, localiser.block(condition), static=node.static, span=node.span)


# Folds


def _fold(localiser: Localiser, node: Call, frame: Frame, scope: Scope) -> Making:
    """A fold along a dim that is not distributed: each block folds what it has."""
    if node.static.dim in localiser.parts:
        return (yield from _combined(localiser, node, frame, scope))
    f, *operands = node.args
    assert isinstance(f, (Lambda, Operator))
    init, *args = yield from localiser.operands(operands, frame, scope)
    on = localiser.intervals([init, *args])
    while True:
        places = [_place(localiser, t, on, None) for t in f.type.params[:1]]
        places += [_place(localiser, t, on, a) for t, a in zip(f.type.params[1:], args, strict=True)]
        if isinstance(f, Operator):
            local_function: Lambda | Operator = operator(f.op, *places, span=f.span)
            break
        params = [replace(p, type=t) for p, t in zip(f.params, places, strict=True)]
        body = yield f.body, frame, scope.inner(f.params, params)
        # what it takes from outside may be on fewer points
        narrowed = {**on, **{d: on.get(d, i) & i for d, i in localiser.intervals([body]).items()}}
        if narrowed == on:
            local_function = Lambda(tuple(params), (coerced(body, places[0]),), f.span)
            break
        on = narrowed
    cuts = Dims(tuple(on.items()))
    return call(
        node.op, local_function, cut(init, cuts), *(cut(a, cuts) for a in args), static=node.static, span=node.span
    )


def _place(localiser: Localiser, kind: TensorType, on: Mapping[str, Interval], arg: Expr | None) -> TensorType:
    """The type of a function's parameter on local intervals; that of the state has all dims."""
    have = {d: i for d, i in on.items() if arg is None or d in arg.tensor.dims}
    return kind.on(Dims((*kind.dims.without(*localiser.parts).items, *have.items())))


def _combined(localiser: Localiser, node: Call, frame: Frame, scope: Scope) -> Making:
    """A fold along a distributed dim: of the block here, and of all blocks in the stage after this."""
    fold, monoid = node.fold, monoid_of(node)
    assert fold is not None and monoid is not None
    dim = fold.dim
    init = yield node.args[1], frame, scope
    if monoid.each is None:
        each = yield node.args[2], frame, scope
    else:
        read = [(p, a) for p, a in zip(monoid.params, node.args[2:], strict=True) if p in monoid.each.free]
        args = yield from localiser.operands([a for _, a in read], frame, scope)
        each = yield monoid.each, frame, scope.inner([p for p, _ in read], args)
    element = node.tensor.element
    row = TABLE[monoid.op]
    assert row.identity is not None and isinstance(element, Scalar)
    nothing = literal(row.identity(element), element)
    part, interval = localiser.parts[dim], fold.interval
    if interval != part.padded or dim not in each.tensor.dims:
        inside = localiser.inside(Dims(((dim, interval),)), None, ())
        assert not isinstance(inside, bool)
        each = call("if", inside, each, nothing)
    block = cut(each, Dims(((dim, Interval(0, part.size)),)))
    kind = block.tensor.on(block.tensor.dims.without(dim))
    partial = call("reduce", operator(monoid.op, kind, kind), nothing, block, static=(dim,), span=node.span)
    level = 1 + max((f.level for f in localiser.folds if f.param in partial.free), default=-1)
    name = f"fold_{len(localiser.folds) + 1}"
    dims = Dims(tuple((d, localiser.box(name, d) & i if d in localiser.parts else i) for d, i in kind.dims.items))
    param = var(name, kind.on(dims))
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
