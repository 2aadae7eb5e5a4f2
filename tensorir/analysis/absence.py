"""Facts known before a run: elements that may be absent, and indirect reads that are proven.

Absence comes from tables that may hold -1; it is followed through every operation to the outputs, where it is refused
(`docs/language.md`, "Absence"). Integer ranges follow `pos`, literals and arithmetic, so that a computed table that
stays inside of its dimension is proven; every other indirect access is checked when the program runs.

>>> from tensorir.ir.build import call, literal, var
>>> from tensorir.ir.types import tensor
>>> k = call("pos", var("x", tensor("float", K=(0, 9))), static=("K",))
>>> integer_range(call("min", call("plus", k, literal(1)), literal(8)), [(1, 9), (8, 8)])
(1, 8)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tensorir.binding.arrays import SkipValues
from tensorir.integers.affine import Affine
from tensorir.integers.dims import Interval
from tensorir.integers.intervals import combined, hull
from tensorir.ir.builtins import TABLE, Control
from tensorir.ir.nodes import Call, Expr, Fencil, Literal, Operator
from tensorir.ir.rewrite import Applier, Bound, evaluate
from tensorir.ir.types import TensorType, TupleElement, leaves
from tensorir.ir.typing_of_elements import neighbour_source
from tensorir.runtime.errors import Diagnostic

Range = tuple[int, int] | None
"""The least and the greatest value of an integer, None where nothing is known."""


@dataclass(frozen=True, slots=True)
class Missing:
    """A way in which an element may be absent: the moves from the point where it stands to a table's -1.

    Two elements that are reached by the same moves are absent at the same points, whatever is read there: a guard for
    one is a guard for the other.
    """

    moves: tuple[Any, ...]
    shift: Expr = field(compare=False)

    def after(self, *moves: Any) -> Missing:
        return Missing((*moves, *self.moves), self.shift)


NEVER: frozenset[Missing] = frozenset()


@dataclass(frozen=True, slots=True)
class IndirectAccess:
    """Facts of one indirect access: if it may meet -1, and if its indices are proven inside."""

    absent: bool
    proven: bool

    def joined(self, other: IndirectAccess | None) -> IndirectAccess:
        return self if other is None else IndirectAccess(self.absent or other.absent, self.proven and other.proven)


@dataclass(slots=True)
class AbsenceAnalysis:
    """The findings of `analyse_absence`."""

    accesses: dict[int, IndirectAccess] = field(default_factory=dict[int, IndirectAccess])
    """Per shift, gather or scatter, by identity of its node."""
    tables: dict[str, Interval] = field(default_factory=dict[str, Interval])
    """The interval in which the entries of a table parameter must lie (or be -1)."""
    refused: list[Diagnostic] = field(default_factory=list[Diagnostic])
    """Outputs that may be absent."""


@dataclass(frozen=True, slots=True)
class Known:
    """Facts of one value: per leaf, the shifts that may make it absent, and the range of its integers."""

    absent: tuple[frozenset[Missing], ...]
    ranges: tuple[Range, ...]
    origin: str | None = None
    """The parameter that the value is, as a whole."""
    guards: frozenset[Missing] = NEVER
    """Of a bool: the shifts that are present where it is true."""

    def joined(self, other: Known) -> Known:
        return Known(
            tuple(a | b for a, b in zip(self.absent, other.absent, strict=True)),
            tuple(_hull(a, b) for a, b in zip(self.ranges, other.ranges, strict=True)),
        )

    @property
    def anywhere(self) -> frozenset[Missing]:
        return NEVER.union(*self.absent)


def _hull(a: Range, b: Range) -> Range:
    return None if a is None or b is None else hull(a, b)


def _moved(absent: frozenset[Missing], move: Any) -> frozenset[Missing]:
    return frozenset(m.after(move) for m in absent) if absent else absent


def _through(node: Expr, before: Known, after: Known) -> Known:
    """The state after one more round of a fold: its moves are those of the fold, so that rounds come to an end."""
    rounds = tuple(_rounds(node, old, new) for old, new in zip(before.absent, after.absent, strict=True))
    return Known(rounds, after.ranges)


def _rounds(node: Expr, old: frozenset[Missing], new: frozenset[Missing]) -> frozenset[Missing]:
    return frozenset(m if m in old else Missing((id(node), id(m.shift)), m.shift) for m in new)


def _unknown(kind: TensorType, absent: frozenset[Missing] = NEVER, origin: str | None = None) -> Known:
    count = len(kind.leaves)
    return Known((absent,) * count, (None,) * count, origin)


def _present(value: Known) -> Known:
    return Known((NEVER,) * len(value.absent), (None,) * len(value.ranges))


def analyse_absence(
    fencil: Fencil, tables: Mapping[str, SkipValues], full: frozenset[str] = frozenset()
) -> AbsenceAnalysis:
    """Follow absence and integer ranges through a fencil.

    `tables` says of each table that was looked at whether, or where, it holds -1; other tables are traced, count as
    holding -1 unless they are declared `full`, and are checked when the program runs.
    """
    facts = AbsenceAnalysis()
    env = {p: _unknown(p.type, origin=p.name) for p in fencil.params}
    rules = _Rules(facts, tables, full)
    for closure in fencil.closures:
        value = evaluate(closure.value, env, rules)
        if culprits := value.anywhere:
            facts.refused.append(_refusal(closure.output.name, closure.value, culprits))
        present = Known((NEVER,) * len(value.absent), value.ranges)
        env[closure.output] = present if closure.region is None else _unknown(closure.output.type)
    return facts


def _refusal(name: str, value: Expr, culprits: frozenset[Missing]) -> Diagnostic:
    shift = min((c.shift for c in culprits), key=lambda e: (e.span.start, str(e.type)))
    assert isinstance(shift, Call)
    table = getattr(shift.args[0], "name", "its table")
    return Diagnostic(
        "T41",
        f"'{name}' may be absent: this shift finds no neighbour where {table} holds -1.",
        shift.span if shift.span.start or shift.span.stop else value.span,
        help="guard it, if can_deref(e) then e else other, or reduce over the neighbours, which skips absent ones; "
        f"a table without -1 that is traced is declared by full=('{table}',).",
    )


@dataclass(slots=True)
class _Rules:
    """The rule of `evaluate` for absence and ranges."""

    facts: AbsenceAnalysis
    tables: Mapping[str, SkipValues]
    full: frozenset[str]
    rounds: dict[tuple[int, int], tuple[tuple[Known, ...], list[Known]]] = field(default_factory=dict[Any, Any])
    """Of each loop, by the identity of its functions, what it was last started with and what it hands on."""
    branches: dict[tuple[int, ...], tuple[Any, list[list[Known]]]] = field(default_factory=dict[Any, Any])
    """Of each conditional, by the identity of what it is given, that and the results of its functions."""

    def __call__(self, node: Expr, args: Sequence[Known | Bound[Known]], apply: Applier[Known]) -> Known:
        kind = node.type.result if isinstance(node, Operator) else node.tensor
        match node:
            case Literal(value=value):
                exact = (value, value) if isinstance(value, int) and not isinstance(value, bool) else None
                return Known((NEVER,), (exact,))
            case Operator():
                return self._elementwise(node, kind, [a for a in args if isinstance(a, Known)])
            case Call(op):
                values = [a for a in args if isinstance(a, Known)]
                row = TABLE[op]
                if node.definition is not None:
                    return apply(Bound(node.definition, {}), *values)
                if rule := _RULES.get(op):
                    return rule(self, node, values)
                if row.control is not None:
                    return _CONTROL[row.control](self, node, list(args), apply)
                if row.effect:
                    return self.same(node, values)
                if row.table:
                    return self.neighbours(node, values)
                if row.relocates:
                    return self.relocated(node, values)
                if row.elementwise:
                    return self._elementwise(node, kind, values)
                return self.indexed(node, values)
            case _:
                raise AssertionError(node)

    def _elementwise(self, node: Expr, kind: TensorType, values: list[Known]) -> Known:
        absent = NEVER.union(*(v.anywhere for v in values))
        ranges = (integer_range(node, [v.ranges[0] for v in values]),)
        guards = NEVER.union(*(v.guards for v in values)) if getattr(node, "op", "") == "and" else NEVER
        return Known((absent,), ranges, guards=guards)

    def presence(self, node: Call, values: list[Known]) -> Known:
        return Known((NEVER,), (None,), guards=values[0].anywhere)

    def select(self, node: Call, values: list[Known]) -> Known:
        condition, first, second = values
        first = Known(tuple(a - condition.guards for a in first.absent), first.ranges)
        joined = first.joined(second)
        return Known(tuple(a | condition.anywhere for a in joined.absent), joined.ranges)

    def relocated(self, node: Call, values: list[Known]) -> Known:
        """Elements of operands elsewhere: moved together, or where no other guard counts for them."""
        access, *others = node.accesses or (None,)
        if others or access is None or not access.at:
            return self._joined(values)
        fixed = [access.offset(d) is not None or (isinstance(a, Affine) and a.is_number) for d, a in access.at.items()]
        move = node.static if all(fixed) else id(node)
        return Known(tuple(_moved(a, move) for a in values[0].absent), values[0].ranges)

    def _joined(self, values: list[Known]) -> Known:
        """All elements of all operands, and nothing else."""
        result = Known(values[0].absent, values[0].ranges)
        for value in values[1:]:
            result = result.joined(value)
        return result

    def make_tuple(self, node: Call, values: list[Known]) -> Known:
        return Known(tuple(a for v in values for a in v.absent), tuple(r for v in values for r in v.ranges))

    def tuple_get(self, node: Call, values: list[Known]) -> Known:
        (value,), (index,) = values, node.static
        element = node.args[0].tensor.element
        assert isinstance(element, TupleElement)
        members, index = element.members, int(index)
        first = sum(len(leaves(m)) for m in members[:index])
        part = slice(first, first + len(leaves(members[index])))
        return Known(value.absent[part], value.ranges[part])

    def position(self, node: Call, values: list[Known]) -> Known:
        interval = node.tensor.dims[node.static.dim]
        return Known((NEVER,), ((interval.start, max(interval.start, interval.stop - 1)),))

    def neighbours(self, node: Call, values: list[Known]) -> Known:
        table, x = values
        _, source = neighbour_source(node.args[0].tensor)
        inside = node.args[1].tensor.dims[source]
        access = self._table(table, inside, node.static)
        self.facts.accesses[id(node)] = access.joined(self.facts.accesses.get(id(node)))
        move = (table.origin or node.args[0], *node.static)
        missing = frozenset((Missing((move,), node),)) if access.absent else NEVER
        return Known(tuple(_moved(a, move) | table.absent[0] | missing for a in x.absent), x.ranges)

    def _table(self, table: Known, inside: Interval, slots: tuple[int, ...]) -> IndirectAccess:
        name = table.origin
        if name is not None:
            self.facts.tables[name] = inside & self.facts.tables.get(name, inside)
            holes = self.tables.get(name, name not in self.full)
            if isinstance(holes, frozenset) and slots:
                holes = holes.intersection(slots)
            return IndirectAccess(bool(holes), name in self.tables)
        low_high = table.ranges[0]
        if low_high is None:
            return IndirectAccess(True, False)
        low, high = low_high
        holds = low <= -1 <= high
        return IndirectAccess(holds, inside.covers(Interval(0 if holds and low == -1 else low, high + 1)))

    def indexed(self, node: Call, values: list[Known]) -> Known:
        """Elements of operands that others name: indices are proven inside, or checked."""
        accesses = node.accesses
        assert accesses is not None
        absent = NEVER
        moved: list[Known] = []
        for k, (access, value) in enumerate(zip(accesses, values, strict=True)):
            if access is None or not access.entries:
                absent |= value.anywhere
                continue
            pairs = [(d, values[e.operand]) for d, e in access.entries.items()]
            self._index(node, node.args[k].tensor, pairs)
            moved.append(value)
        if not moved:  # any element of any operand
            count = len(node.tensor.leaves)
            return Known((_moved(absent, id(node)),) * count, (None,) * count)
        (x,) = moved
        within = tuple(_hull(r, (0, 0)) if getattr(node.static, "mode", "") == "zero" else r for r in x.ranges)
        return Known(tuple(_moved(a, id(node)) | absent for a in x.absent), within)

    def _index(self, node: Call, base: TensorType, pairs: Iterable[tuple[str, Known]]) -> None:
        """Indices by dim: proven inside of a tensor, or to be checked."""
        ranges = [(d, i.ranges[0]) for d, i in pairs]
        proven = all(r is not None and base.dims[d].covers(Interval(r[0], r[1] + 1)) for d, r in ranges)
        self.facts.accesses[id(node)] = IndirectAccess(False, proven).joined(self.facts.accesses.get(id(node)))

    def scatter(self, node: Call, args: list[Known | Bound[Known]], apply: Applier[Known]) -> Known:
        function, *operands = args
        base, *indices, updates = [v for v in operands if isinstance(v, Known)]
        assert isinstance(function, Bound)
        # where a leaf of the base is absent, all of the element is: what the function makes of it is not followed
        absent = apply(function, _present(base), _present(updates)).anywhere | base.anywhere
        self._index(node, node.args[1].tensor, zip(node.static.dims, indices, strict=True))
        absent |= NEVER.union(*(i.anywhere for i in indices), updates.anywhere)
        return Known(tuple(_moved(a, id(node)) | absent for a in base.absent), (None,) * len(base.ranges))

    def fold(self, node: Call, args: list[Known | Bound[Known]], apply: Applier[Known]) -> Known:
        """A fold skips absent levels of arguments that have the dim, or hands absence on in its state."""
        f, init, *values = args
        fold = node.fold
        assert isinstance(f, Bound) and isinstance(init, Known) and fold is not None
        outside = NEVER
        operands: list[Known] = []
        for value, arg in zip(values, fold.operands, strict=True):
            assert isinstance(value, Known)
            if fold.row.skips and fold.dim in arg.tensor.dims:
                value = Known((NEVER,) * len(value.absent), value.ranges)
            elif fold.row.skips:
                outside |= value.anywhere
            operands.append(value)
        state = Known(init.absent, (None,) * len(init.ranges))
        while True:
            new = state.joined(_through(node, state, apply(f, state, *operands)))
            if new.absent == state.absent:
                return Known(tuple(a | outside for a in new.absent), new.ranges)
            state = Known(new.absent, state.ranges)

    def loop(self, node: Call, args: list[Known | Bound[Known]], apply: Applier[Known]) -> Known:
        condition, step, *start = args
        assert isinstance(condition, Bound) and isinstance(step, Bound)
        carried = [Known(a.absent, (None,) * len(a.ranges)) for a in start if isinstance(a, Known)]
        around = [f.env[v] for f in (condition, step) for v in sorted(f.function.free, key=id)]
        key = id(condition.function), id(step.function)
        started, states = self.rounds.get(key, ((), []))
        # a loop inside of a loop that hands on several tensors would be followed once per tensor of either
        if started != (*carried, *around):
            states = self._carried(node, condition, step, carried, apply)
            self.rounds[key] = (*carried, *around), states
        index: int = node.static.carried
        return states[index]

    def _carried(
        self, node: Call, condition: Bound[Known], step: Bound[Known], carried: list[Known], apply: Applier[Known]
    ) -> list[Known]:
        """The state of a loop after any number of rounds."""
        counter = Known((NEVER,), ((0, (1 << 31) - 1),))
        while True:
            going = _rounds(node, NEVER, apply(condition, counter, *carried).anywhere)
            steps = zip(carried, apply.each(step, counter, *carried), strict=True)
            rounds = [_through(node, old, new) for old, new in steps]
            new = [old.joined(now) for old, now in zip(carried, rounds, strict=True)]
            new = [Known(tuple(a | going for a in v.absent), v.ranges) for v in new]
            if [v.absent for v in new] == [v.absent for v in carried]:
                return new
            carried = [Known(v.absent, (None,) * len(v.ranges)) for v in new]

    def cond(self, node: Call, args: list[Known | Bound[Known]], apply: Applier[Known]) -> Known:
        first, second, condition, *operands = args
        assert isinstance(condition, Known)
        branches = self._results((first, second), operands, apply)
        return self.select(node, [condition, *(results[node.static.result] for results in branches)])

    def blocked(self, node: Call, args: list[Known | Bound[Known]], apply: Applier[Known]) -> Known:
        (results,) = self._results(args[:1], args[1:], apply)
        return self.same(node, [results[node.static.result]])

    def _results(
        self, functions: Sequence[Known | Bound[Known]], operands: Sequence[Known | Bound[Known]], apply: Applier[Known]
    ) -> list[list[Known]]:
        """All results of functions, made once: each is asked for by a node of its own."""
        values = [v for v in operands if isinstance(v, Known)]
        key = tuple(map(id, (*functions, *values)))
        if key not in self.branches:
            self.branches[key] = (
                (functions, values),
                [apply.each(f, *values) for f in functions if isinstance(f, Bound)],
            )
        return self.branches[key][1]

    def same(self, node: Call, values: list[Known]) -> Known:
        return Known(values[0].absent, values[0].ranges)

    def sort(self, node: Call, values: list[Known]) -> Known:
        absent = _moved(NEVER.union(*(v.anywhere for v in values)), id(node))
        members = self.make_tuple(node, values)
        return Known((absent,) * len(members.absent), members.ranges)


_RULES: dict[str, Callable[[_Rules, Call, list[Known]], Known]] = {
    "if": _Rules.select,
    "make_tuple": _Rules.make_tuple,
    "tuple_get": _Rules.tuple_get,
    "can_deref": _Rules.presence,
    "pos": _Rules.position,
    "sort": _Rules.sort,
}
_CONTROL: dict[Control, Callable[[_Rules, Call, list[Known | Bound[Known]], Applier[Known]], Known]] = {
    Control.FOLD: _Rules.fold,
    Control.LOOP: _Rules.loop,
    Control.BLOCKS: _Rules.blocked,
    Control.BRANCHES: _Rules.cond,
    Control.UPDATES: _Rules.scatter,
}


def integer_range(node: Expr, ranges: Sequence[Range]) -> Range:
    """The range of an elementwise operation on integers, None where it is not known or may wrap."""
    kind = node.type.result if isinstance(node, Operator) else node.tensor
    if not isinstance(node, (Call, Operator)) or not (element := kind.leaves[0]).is_integer:
        return None
    operands = node.params if isinstance(node, Operator) else tuple(a.tensor for a in node.args)
    if not all(t.leaves[0].is_integer for t in operands):
        return None
    every = [t.leaves[0].range for t in operands]
    known = [(e.start, e.stop - 1) if r is None else r for r, e in zip(ranges, every, strict=True)]
    span = combined(node.op, *known)
    return span if span is not None and element.range.covers(Interval(span[0], span[1] + 1)) else None
