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
    """A reason why an element may be absent: the moves from the point where it is read to an entry -1 of a table.

    Elements reached by the same moves are absent at the same points, whatever tensor is read there; so a guard for one
    (`can_deref`) is a guard for the other. `shift` is the access, for messages.
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
    """The abstract value of an expression: for each leaf of its element the reasons for absence, and the integer range.

    `origin` is the name of the parameter that the value is, if it is a parameter as a whole.
    """

    absent: tuple[frozenset[Missing], ...]
    ranges: tuple[Range, ...]
    origin: str | None = None
    """The parameter that the value is, as a whole."""
    guards: frozenset[Missing] = NEVER
    """Of a bool: the shifts that are present where it is true."""

    def joined(self, other: Known) -> Known:
        """The join (least upper bound): reasons of either, and the hull of the ranges."""
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
    """The state of a fold after one more round: new reasons for absence are replaced by one per shift, so that the
    fixed point is reached (moves would grow in every round).
    """
    rounds = tuple(_rounds(node, old, new) for old, new in zip(before.absent, after.absent, strict=True))
    return Known(rounds, after.ranges)


def _rounds(node: Expr, old: frozenset[Missing], new: frozenset[Missing]) -> frozenset[Missing]:
    """The reasons `new`, with those that are not in `old` reduced to the fold and the shift."""
    return frozenset(reason if reason in old else Missing((id(node), id(reason.shift)), reason.shift) for reason in new)


def _unknown(kind: TensorType, absent: frozenset[Missing] = NEVER, origin: str | None = None) -> Known:
    count = len(kind.leaves)
    return Known((absent,) * count, (None,) * count, origin)


def _present(value: Known) -> Known:
    return Known((NEVER,) * len(value.absent), (None,) * len(value.ranges))


def analyse_absence(
    fencil: Fencil, tables: Mapping[str, SkipValues], full: frozenset[str] = frozenset()
) -> AbsenceAnalysis:
    """Abstract interpretation of a fencil: the reasons for absence and the integer range of every value.

    `tables` has for each table that was inspected whether (bool) or in which slots (set) it holds -1. Other tables are
    traced: they may hold -1 unless declared `full`, and are checked at run time.
    """
    facts = AbsenceAnalysis()
    values_of = {p: _unknown(p.type, origin=p.name) for p in fencil.params}
    rules = _Rules(facts, tables, full)
    for closure in fencil.closures:
        value = evaluate(closure.value, values_of, rules)
        if culprits := value.anywhere:
            facts.refused.append(_refusal(closure.output.name, closure.value, culprits))
        stored = Known((NEVER,) * len(value.absent), value.ranges)
        values_of[closure.output] = stored if closure.region is None else _unknown(closure.output.type)
    return facts


def _refusal(name: str, value: Expr, reasons: frozenset[Missing]) -> Diagnostic:
    """The error T41 for an output that may be absent, at the first shift that may find no neighbour."""
    shift = min((c.shift for c in reasons), key=lambda e: (e.span.start, str(e.type)))
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
    """The transfer functions of the abstract interpretation, called by `evaluate` for each node."""

    facts: AbsenceAnalysis
    tables: Mapping[str, SkipValues]
    full: frozenset[str]
    rounds: dict[tuple[int, int], tuple[tuple[Known, ...], list[Known]]] = field(default_factory=dict[Any, Any])
    """For each loop, by the identity of its functions: its last initial values, and its final carry for these."""
    branches: dict[tuple[int, ...], tuple[Any, list[list[Known]]]] = field(default_factory=dict[Any, Any])
    """The results of functions by identity of them and their operands, which are kept so that identities stay valid."""

    def __call__(self, node: Expr, facts: Sequence[Known | Bound[Known]], apply: Applier[Known]) -> Known:
        """The abstract value of a node from those of its operands, by the kind of node and the builtin's properties."""
        kind = node.type.result if isinstance(node, Operator) else node.tensor
        match node:
            case Literal(value=value):
                value_range = (value, value) if isinstance(value, int) and not isinstance(value, bool) else None
                return Known((NEVER,), (value_range,))
            case Operator():
                return self._elementwise(node, kind, [a for a in facts if isinstance(a, Known)])
            case Call(op):
                values = [a for a in facts if isinstance(a, Known)]
                row = TABLE[op]
                if node.definition is not None:
                    return apply(Bound(node.definition, {}), *values)
                if rule := _RULES.get(op):
                    return rule(self, node, values)
                if row.control is not None:
                    return _CONTROL[row.control](self, node, list(facts), apply)
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
        """An elementwise result is absent where any operand is; `and` joins the guards of both conditions."""
        reasons = NEVER.union(*(v.anywhere for v in values))
        ranges = (integer_range(node, [v.ranges[0] for v in values]),)
        guards = NEVER.union(*(v.guards for v in values)) if getattr(node, "op", "") == "and" else NEVER
        return Known((reasons,), ranges, guards=guards)

    def presence(self, node: Call, values: list[Known]) -> Known:
        """`can_deref(x)` is always present, and guards against the reasons of x."""
        return Known((NEVER,), (None,), guards=values[0].anywhere)

    def select(self, node: Call, values: list[Known]) -> Known:
        """`if`: the condition's guards remove reasons from its first branch; an absent condition makes the result
        absent.
        """
        condition, chosen, other = values
        chosen = Known(tuple(a - condition.guards for a in chosen.absent), chosen.ranges)
        joined = chosen.joined(other)
        return Known(tuple(a | condition.anywhere for a in joined.absent), joined.ranges)

    def relocated(self, node: Call, values: list[Known]) -> Known:
        """Elements of one operand at other positions: fixed offsets extend the moves of its reasons; unknown positions
        get a move unique to the node, so that no other guard applies. Several operands are joined.
        """
        access, *more_accesses = node.accesses or (None,)
        if more_accesses or access is None or not access.at:
            return self._joined(values)
        fixed = [access.offset(d) is not None or (isinstance(a, Affine) and a.is_number) for d, a in access.at.items()]
        move = node.static if all(fixed) else id(node)
        return Known(tuple(_moved(a, move) for a in values[0].absent), values[0].ranges)

    def _joined(self, values: list[Known]) -> Known:
        """The join of all operands; guards and origin are lost."""
        result = Known(values[0].absent, values[0].ranges)
        for value in values[1:]:
            result = result.joined(value)
        return result

    def make_tuple(self, node: Call, values: list[Known]) -> Known:
        return Known(tuple(a for v in values for a in v.absent), tuple(r for v in values for r in v.ranges))

    def tuple_get(self, node: Call, values: list[Known]) -> Known:
        """The leaves of one member of a tuple."""
        (value,), (index,) = values, node.static
        element = node.args[0].tensor.element
        assert isinstance(element, TupleElement)
        members, index = element.members, int(index)
        first_leaf = sum(len(leaves(m)) for m in members[:index])
        leaf_slice = slice(first_leaf, first_leaf + len(leaves(members[index])))
        return Known(value.absent[leaf_slice], value.ranges[leaf_slice])

    def position(self, node: Call, values: list[Known]) -> Known:
        """Coordinates are present, and in the interval of the dim."""
        interval = node.tensor.dims[node.static.dim]
        return Known((NEVER,), ((interval.start, max(interval.start, interval.stop - 1)),))

    def neighbours(self, node: Call, values: list[Known]) -> Known:
        """A read through a table: absent where the entry is -1, the table's element is absent, or the neighbour's value
        is.
        """
        table, x = values
        _, source = neighbour_source(node.args[0].tensor)
        valid_points = node.args[1].tensor.dims[source]
        access = self._table(table, valid_points, node.static)
        self.facts.accesses[id(node)] = access.joined(self.facts.accesses.get(id(node)))
        move = (table.origin or node.args[0], *node.static)
        missing = frozenset((Missing((move,), node),)) if access.absent else NEVER
        return Known(tuple(_moved(a, move) | table.absent[0] | missing for a in x.absent), x.ranges)

    def _table(self, table: Known, valid: Interval, slots: tuple[int, ...]) -> IndirectAccess:
        """The facts of a read through a table: if the `slots` may hold -1, and if entries are known to lie in
        `valid`.

        The interval for a table parameter is recorded in `facts.tables`, for the check at run time.
        """
        name = table.origin
        if name is not None:
            self.facts.tables[name] = valid & self.facts.tables.get(name, valid)
            holes = self.tables.get(name, name not in self.full)
            if isinstance(holes, frozenset) and slots:
                holes = holes.intersection(slots)
            return IndirectAccess(bool(holes), name in self.tables)
        low_high = table.ranges[0]
        if low_high is None:
            return IndirectAccess(True, False)
        low, high = low_high
        absent = low <= -1 <= high
        return IndirectAccess(absent, valid.covers(Interval(0 if absent and low == -1 else low, high + 1)))

    def indexed(self, node: Call, values: list[Known]) -> Known:
        """Builtins that read elements at computed indices (gather) or any elements (sort-like ones): indices are proven
        in bounds or recorded as checked; the result is absent where an index or the element is.
        """
        accesses = node.accesses
        assert accesses is not None
        reasons = NEVER
        sources: list[Known] = []
        for position, (access, value) in enumerate(zip(accesses, values, strict=True)):
            if access is None or not access.entries:
                reasons |= value.anywhere
                continue
            pairs = [(d, values[e.operand]) for d, e in access.entries.items()]
            self._index(node, node.args[position].tensor, pairs)
            sources.append(value)
        if not sources:  # any element of any operand
            count = len(node.tensor.leaves)
            return Known((_moved(reasons, id(node)),) * count, (None,) * count)
        (x,) = sources
        ranges = tuple(_hull(r, (0, 0)) if getattr(node.static, "mode", "") == "zero" else r for r in x.ranges)
        return Known(tuple(_moved(a, id(node)) | reasons for a in x.absent), ranges)

    def _index(self, node: Call, base: TensorType, pairs: Iterable[tuple[str, Known]]) -> None:
        """Records for a node if all indices, with their dims, are proven to lie in the intervals of `base`."""
        ranges = [(d, i.ranges[0]) for d, i in pairs]
        proven = all(r is not None and base.dims[d].covers(Interval(r[0], r[1] + 1)) for d, r in ranges)
        self.facts.accesses[id(node)] = IndirectAccess(False, proven).joined(self.facts.accesses.get(id(node)))

    def scatter(self, node: Call, facts: list[Known | Bound[Known]], apply: Applier[Known]) -> Known:
        """A scatter: the result is absent where the base, an update, an index, or the function's result may be."""
        function, *operands = facts
        base, *indices, updates = [v for v in operands if isinstance(v, Known)]
        assert isinstance(function, Bound)
        # where a leaf of the base is absent, all of the element is: what the function makes of it is not followed
        reasons = apply(function, _present(base), _present(updates)).anywhere | base.anywhere
        self._index(node, node.args[1].tensor, zip(node.static.dims, indices, strict=True))
        reasons |= NEVER.union(*(i.anywhere for i in indices), updates.anywhere)
        return Known(tuple(_moved(a, id(node)) | reasons for a in base.absent), (None,) * len(base.ranges))

    def fold(self, node: Call, facts: list[Known | Bound[Known]], apply: Applier[Known]) -> Known:
        """A fold, as a fixed point over its state.

        Builtins that skip absent levels ignore the absence of arguments along the folded dim; absent arguments without
        the dim make the result absent.
        """
        f, init, *values = facts
        fold = node.fold
        assert isinstance(f, Bound) and isinstance(init, Known) and fold is not None
        unskipped = NEVER
        operands: list[Known] = []
        for value, arg in zip(values, fold.operands, strict=True):
            assert isinstance(value, Known)
            if fold.row.skips and fold.dim in arg.tensor.dims:
                value = Known((NEVER,) * len(value.absent), value.ranges)
            elif fold.row.skips:
                unskipped |= value.anywhere
            operands.append(value)
        state = Known(init.absent, (None,) * len(init.ranges))
        while True:
            next_state = state.joined(_through(node, state, apply(f, state, *operands)))
            if next_state.absent == state.absent:
                return Known(tuple(a | unskipped for a in next_state.absent), next_state.ranges)
            state = Known(next_state.absent, state.ranges)

    def loop(self, node: Call, facts: list[Known | Bound[Known]], apply: Applier[Known]) -> Known:
        """The final value of one carry of a loop, cached by the loop's functions, initial values and captured
        variables.
        """
        condition, step, *start = facts
        assert isinstance(condition, Bound) and isinstance(step, Bound)
        initial = [Known(a.absent, (None,) * len(a.ranges)) for a in start if isinstance(a, Known)]
        captured = [f.env[v] for f in (condition, step) for v in sorted(f.function.free, key=id)]
        key = id(condition.function), id(step.function)
        started, states = self.rounds.get(key, ((), []))
        # a loop inside of a loop that hands on several tensors would be followed once per tensor of either
        # a nested loop with several results would otherwise be analysed once per result of both loops
        if started != (*initial, *captured):
            states = self._carried(node, condition, step, initial, apply)
            self.rounds[key] = (*initial, *captured), states
        index: int = node.static.carried
        return states[index]

    def _carried(
        self, node: Call, condition: Bound[Known], step: Bound[Known], carried: list[Known], apply: Applier[Known]
    ) -> list[Known]:
        """The carry after any number of rounds, as a fixed point; an absent condition makes all carries absent."""
        counter = Known((NEVER,), ((0, (1 << 31) - 1),))
        while True:
            condition_reasons = _rounds(node, NEVER, apply(condition, counter, *carried).anywhere)
            steps = zip(carried, apply.each(step, counter, *carried), strict=True)
            rounds = [_through(node, before, joined) for before, joined in steps]
            joined = [before.joined(after) for before, after in zip(carried, rounds, strict=True)]
            joined = [Known(tuple(a | condition_reasons for a in v.absent), v.ranges) for v in joined]
            if [v.absent for v in joined] == [v.absent for v in carried]:
                return joined
            carried = [Known(v.absent, (None,) * len(v.ranges)) for v in joined]

    def cond(self, node: Call, facts: list[Known | Bound[Known]], apply: Applier[Known]) -> Known:
        """One result of a conditional, as `if` of the results of both functions."""
        then_function, else_function, condition, *operands = facts
        assert isinstance(condition, Known)
        branches = self._results((then_function, else_function), operands, apply)
        return self.select(node, [condition, *(results[node.static.result] for results in branches)])

    def blocked(self, node: Call, facts: list[Known | Bound[Known]], apply: Applier[Known]) -> Known:
        (results,) = self._results(facts[:1], facts[1:], apply)
        return self.same(node, [results[node.static.result]])

    def _results(
        self, functions: Sequence[Known | Bound[Known]], operands: Sequence[Known | Bound[Known]], apply: Applier[Known]
    ) -> list[list[Known]]:
        """The results of several functions applied to the same operands, cached because each result has a node of its
        own.
        """
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
        """A sort: any element may be absent if any operand's is, since sorting moves them."""
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
    """The range of an elementwise operation on integers, from the ranges of its operands (None: all of the type).

    None if the result is no integer, some operand is none, or the result may wrap around.
    """
    kind = node.type.result if isinstance(node, Operator) else node.tensor
    if not isinstance(node, (Call, Operator)) or not (element := kind.leaves[0]).is_integer:
        return None
    operands = node.params if isinstance(node, Operator) else tuple(a.tensor for a in node.args)
    if not all(t.leaves[0].is_integer for t in operands):
        return None
    type_ranges = [t.leaves[0].range for t in operands]
    known = [(e.start, e.stop - 1) if r is None else r for r, e in zip(ranges, type_ranges, strict=True)]
    span = combined(node.op, *known)
    return span if span is not None and element.range.covers(Interval(span[0], span[1] + 1)) else None
