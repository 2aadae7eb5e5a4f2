"""Programs to equations: every expression at a point, with a line for what has a name, cases, or too many operands.

A shift changes the point, so that names alone carry indices. What a line reads is written before it. Rules are
generators (`tensorir.nodes`), since trees may be deep.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from tensorir.inspect.formulas import terms
from tensorir.inspect.formulas.places import Extent, Facts, Index, Point, affine, joined_dim, united
from tensorir.inspect.formulas.scopes import (
    LEAVES,
    MAX_WEIGHT,
    Function,
    Inline,
    Points,
    Scope,
    Scopes,
    Tensor,
    computed,
    factor,
    inside,
    reads,
)
from tensorir.inspect.formulas.terms import ATOM, FOLD, Term, applied, name, number, slot_letter, within
from tensorir.integers.affine import number as whole
from tensorir.ir.builtins import PRODUCT, SUM, TABLE
from tensorir.ir.types import Scalar
from tensorir.ir.typing_of_elements import highest_neighbour
from tensorir.nodes import Rule, each, run
from tensorir.text import syntax
from tensorir.text.cursor import SLOTS
from tensorir.text.elaborate import function_count

MAX_NESTED = 2
"""Tables that are looked up one in another, in the index of what is no name."""
FOLDS = {"plus": r"\sum", "multiplies": r"\prod", "min": r"\min", "max": r"\max", "and": r"\bigwedge", "or": r"\bigvee"}
"""The operations of folds for which mathematics has a sign."""


class _Line(NamedTuple):
    left: str
    sign: str
    right: str
    where: str = ""


def equations(program: syntax.Program) -> str:
    """The lines of all closures in an `aligned`."""
    scopes = Scopes.of(program)
    writer = _Writer(scopes, Points(scopes, slot_letter(program)))
    run(writer.program(program))
    rows = [f"{left} &{sign} {right}{f' && {where}' * bool(where)}" for left, sign, right, where in writer.lines]
    return "\n".join((r"\begin{aligned}", " \\\\[4pt]\n".join(rows), r"\end{aligned}"))


@dataclass(slots=True)
class _Writer:
    """The lines of a program's equations, as far as they are written.

    Methods that return a `Term` give the LaTeX of an expression at a point (`Point`: an index by dim), with its
    precedence, and append the lines of intermediates that it reads. `scope` says what the names in the expression stand
    for. Rules yield other rules and get their results (`tensorir.nodes.run`).
    """

    scopes: Scopes
    points: Points
    lines: list[_Line] = field(default_factory=list[_Line])
    written: set[str] = field(default_factory=set[str])
    """The symbols of intermediates whose lines there are."""
    states: dict[tuple[Scope, int], Tensor] = field(default_factory=dict[tuple[Scope, int], Tensor])

    def program(self, program: syntax.Program) -> Rule[None]:
        """Append the lines of all closures in order, each after those of the intermediates that it reads."""
        scope = Scope({p.name: self.scopes.parameter(p) for p in program.params})
        stored: set[str] = set()
        for closure in program.closures:
            for binding in closure.before:
                scope = scope.set(binding.name, (yield self.scopes.bound(binding.name, binding.value, scope)))
                yield from self._written(scope.get(binding.name))
            yield self._closure(closure, scope, stored)
            stored.add(closure.output)

    # Lines

    def _closure(self, closure: syntax.Closure, scope: Scope, stored: set[str]) -> Rule[None]:
        """Append the equation of a closure; `stored` are the outputs of closures before it.

        A scan stored whole is a recurrence. Otherwise the sign is ← where the closure reads its output or stores into
        it again, else =; the interval of each dim stands behind.
        """
        output = scope.get(closure.output)
        assert isinstance(output, Tensor)
        extents = {**output.facts.dims, **{r.dim: Extent.of(r.start, r.stop) for r in closure.region or ()}}
        read = reads(closure.value, closure.output)
        value, scope = yield self.scopes.opened(closure.value, scope)
        if isinstance(value, syntax.Call) and value.op == "scan" and not read and closure.region is None:
            yield self._recurrence(output, value, scope, extents)
            return
        point = self.points.generic(extents)
        right: Term = yield self._right(value, scope, point)
        sign = r"\leftarrow" if read or closure.output in stored else "="
        self.lines.append(_Line(self.points.read(output, point).text, sign, right.text, inside(extents, point)))

    def _written(self, entry: Any) -> Rule[None]:
        """The lines of an intermediate, before what reads it."""
        if not isinstance(entry, Tensor) or entry.value is None or entry.symbol in self.written:
            return
        self.written.add(entry.symbol)
        assert entry.scope is not None
        # read in a function it may have other names of dims
        facts: Facts = yield self.scopes.facts(entry.value, entry.scope)
        tensor = Tensor(entry.symbol, facts, self.scopes.places(facts.dims))
        if isinstance(entry.value, syntax.Call) and entry.value.op == "scan":
            yield self._recurrence(tensor, entry.value, entry.scope)
            return
        point = self.points.generic(tensor.facts.dims)
        right: Term = yield self._right(entry.value, entry.scope, point)
        over = [(point[d].text(), e.listed) for d, e in facts.dims.items() if point[d].member]
        where = r",\; ".join(rf"{index} \in {self.points.neighbours(t, point)}" for index, t in over if t is not None)
        self.lines.append(_Line(self.points.read(tensor, point).text, "=", right.text, where))

    def _function(self, entry: Function, arguments: Sequence[Facts]) -> Rule[None]:
        """Append the equation of a function with a name, once; `arguments` are the facts of its first application."""
        yield self.scopes.called(entry, arguments)
        assert entry.inner is not None
        if entry.symbol in self.written:
            return
        self.written.add(entry.symbol)
        point = self.points.generic(united(entry.results))
        if len(entry.values) == 1:
            right: Term = yield self._right(entry.values[0], entry.inner, point)
        else:
            right = applied("make_tuple", (yield self._each(entry.values, entry.inner, point)))
        left = self._application(entry, [p.symbol for p in entry.params])
        self.lines.append(_Line(self.points.read(left, point).text, "=", right.text))

    def _application(self, entry: Function, args: Sequence[str]) -> Tensor:
        """A named function applied to the symbols `args`, as a tensor that is read at the dims of its results."""
        facts = replace(entry.results[0], dims=united(entry.results))
        return Tensor(rf"{entry.symbol}\left({', '.join(args)}\right)", facts, self.scopes.places(facts.dims))

    def _right(self, node: syntax.Expression, scope: Scope, point: Point) -> Rule[Term]:
        """The right side of an equation: cases for `if`, `concat` and `update`, which nothing else may contain; a scan
        by the symbol of its own recurrence; any other expression written out, however long.
        """
        node, scope = yield self.scopes.opened(node, scope)
        match node:
            case syntax.Call("if"):
                return (yield self._choices(node, scope, point))
            case syntax.Call("concat", args):
                return (yield self._pieces(args, scope, point))
            case syntax.Call("update", (x, part)):
                return (yield self._updated(x, part, scope, point))
            case syntax.Call("scan"):
                return (yield self._term(node, scope, point))
            case _:
                return (yield self._plain(node, scope, point))

    def _choices(self, node: syntax.Expression, scope: Scope, point: Point) -> Rule[Term]:
        """Cases for nested `if`: one row for each condition, and one for otherwise."""
        rows: list[tuple[str, str]] = []
        while isinstance(node, syntax.Call) and node.op == "if":
            condition: Term = yield self._term(node.args[0], scope, point)
            yes: Term = yield self._term(node.args[1], scope, point)
            rows.append((yes.text, rf"\text{{if }} {condition.text}"))
            node, scope = yield self.scopes.opened(node.args[2], scope)
        no: Term = yield self._term(node, scope, point)
        return _cases([*rows, (no.text, r"\text{otherwise}")])

    def _pieces(self, args: Sequence[syntax.Expression], scope: Scope, point: Point) -> Rule[Term]:
        """Cases for `concat`: the operand on whose interval along the joined dim the point lies."""
        facts: list[Facts] = yield self.scopes.each(args, scope)
        dim = joined_dim(facts)
        values: list[Term] = yield self._each(args, scope, point)
        where = [rf"\text{{if }} {f.dims[dim].holds(point[dim].text())}" for f in facts]
        return _cases(list(zip([v.text for v in values], where, strict=True)))

    def _updated(self, x: syntax.Expression, part: syntax.Expression, scope: Scope, point: Point) -> Rule[Term]:
        """Cases for `update(x, part)`: `part` where the point lies in its intervals, else x; `part` alone if it covers
        x.
        """
        whole, inner = yield self.scopes.each((x, part), scope)
        extents = {d: e for d, e in inner.dims.items() if e != whole.dims.get(d, e)}
        old, new = yield self._each((x, part), scope, point)
        if not extents:
            return new
        return _cases([(new.text, rf"\text{{if }} {inside(extents, point)}"), (old.text, r"\text{otherwise}")])

    def _recurrence(
        self, tensor: Tensor, node: syntax.Call, scope: Scope, extents: Mapping[str, Extent] | None = None
    ) -> Rule[None]:
        """Append the two equations of a scan or fold: the state before the first level, and each level by the state one
        before.

        `tensor` is the symbol of the states, `extents` the region where a closure stores them (None: all levels). With
        an interval K[0:n] going forward the first line has k = -1, and the second reads the state at k - 1. In the body
        the folded dim has a name of its own (`Scopes.key`), since operands may be read at other levels.
        """
        self.written.add(tensor.symbol)
        function, init, *args = node.args
        dim: str = yield self.scopes.folded_dim(node, scope)
        forward: bool = node.static[0] if node.op == "scan" else True
        extent = tensor.facts.dims[dim]
        point = dict(self.points.generic(tensor.facts.dims))
        outside = {**point, dim: extent.before() if forward else extent.behind()}
        first: Term = yield self._term(init, scope, point)
        resolved, around = self.scopes.resolved(function, scope)
        key = self.scopes.key(dim)
        dims = {key if d == dim else d: e for d, e in tensor.facts.dims.items()}
        places = tuple((d, key if d == dim else d) for d, _ in tensor.places)
        state = Tensor(tensor.symbol, replace(tensor.facts, dims=dims), places, (dim, -1 if forward else 1))
        point[key] = point[dim]
        if isinstance(resolved, syntax.Operator):
            right = applied(resolved.op, [self.points.read(state, point), *(yield self._each(args, scope, point))])
        else:
            assert isinstance(resolved, syntax.Lambda)
            inner: Scope = yield self.scopes.entered(resolved, around, args, scope, {key: dim}, state)
            right = yield self._right(resolved.body, inner, point)
        self.lines.append(_Line(self.points.read(tensor, outside).text, "=", first.text))
        where = inside(extents or {dim: extent}, point)
        self.lines.append(_Line(self.points.read(tensor, point).text, "=", right.text, where))

    # Expressions at a point

    def _each(self, nodes: Iterable[syntax.Expression], scope: Scope, point: Point) -> Rule[list[Term]]:
        """The terms of several expressions at one point."""
        return (yield from each(self._term(node, scope, point) for node in nodes))

    def _term(self, node: syntax.Expression, scope: Scope, point: Point) -> Rule[Term]:
        """An expression as an operand; a name for it where it stands alone or is long."""
        node, scope = yield self.scopes.opened(node, scope)
        facts: Facts = yield self.scopes.facts(node, scope)
        if facts.weight > MAX_WEIGHT and not isinstance(node, LEAVES):
            return (yield self._hoisted(node, scope, point))
        return (yield self._plain(node, scope, point))

    def _hoisted(self, node: syntax.Expression, scope: Scope, point: Point) -> Rule[Term]:
        """The symbol of an expression at a point; its equation becomes a line before, under a new name."""
        tensor: Tensor = yield self.scopes.hoisted(node, scope)
        yield self._written(tensor)
        return self.points.read(tensor, point)

    def _plain(self, node: syntax.Expression, scope: Scope, point: Point) -> Rule[Term]:
        """An expression written out at a point, however long; `_term` gives long operands in it a name."""
        match node:
            case syntax.Number(value, element):
                return number(value, element)
            case syntax.Name(label):
                return (yield self._named(label, scope, point))
            case syntax.Apply(_, args):
                application: Any = yield self.scopes.applied(node, scope)
                if isinstance(application, Function):
                    yield self._function(application, ())
                    shown: list[str] = yield self._wholes(args, scope)
                    return self.points.read(self._application(application, shown), point)
                body, inner = application
                return (yield self._term(body, inner, point))
            case _ if (shift := self.scopes.steps(node, scope)) is not None:
                return (yield self._shifted(*shift, scope, point))
            case syntax.Call():
                return (yield self._call(node, scope, point))
            case _:
                raise AssertionError(f"{type(node).__name__} is no tensor")

    def _named(self, label: str, scope: Scope, point: Point, members: tuple[int, ...] = ()) -> Rule[Term]:
        """A name at a point: a tensor's symbol with indices, a function's parameter as the argument it stands for, or a
        size. `members` are the positions in a tuple that are taken of a tensor.
        """
        entry = scope.get(label)
        match entry:
            case Tensor():
                yield self._written(entry)
                return self.points.read(entry, point, members)
            case Inline():
                return (yield self._term(entry.node, entry.scope, _outside(entry, point)))
            case _:
                return name(label)  # a size

    def _call(self, node: syntax.Call, scope: Scope, point: Point) -> Rule[Term]:
        """A builtin at a point. One that only says where to read (`rename`, `split_dim`, `merge_dims`, `shift_apply`,
        `gather`) changes the point: `rename(i → j)(x)` at j = 3 is x at i = 3. Elementwise ones, folds and
        contractions have a notation; for all others see `_operator`.
        """
        args = node.args
        match node.op, node.static:
            case (("materialise" | "assert_" | "print" | "subset" | "add_dim"), _):
                return (yield self._term(args[0], scope, point))
            case "tuple_get", (member,):
                return (yield self._member(args[0], (member.constant,), scope, point))
            case "pos", (dim,):
                return point[dim].term
            case "rename", (pairs,):
                moved = {old: point[new] for old, new in pairs if new in point}
                return (yield self._term(args[0], scope, {**point, **moved}))
            case "split_dim", (dim, outer, inner, extent):
                text = f"{affine(extent)} {factor(point[outer])}+{within(point[inner].term, SUM)}"
                moved = {dim: computed(Term(text, SUM), point[outer], point[inner])}
                return (yield self._term(args[0], scope, {**point, **moved}))
            case "merge_dims", (outer, inner, dim):
                facts: Facts = yield self.scopes.facts(args[0], scope)
                extent, index = facts.dims[inner].stop, point[dim]
                whole = computed(Term(rf"\lfloor {factor(index)}/{extent} \rfloor"), index)
                rest = computed(applied("mod", [index.term, Term(extent)]), index)
                return (yield self._term(args[0], scope, {**point, outer: whole, inner: rest}))
            case "shift_apply", (slot,):
                operand: Facts = yield self.scopes.facts(args[0], scope)
                chosen = {highest_neighbour(operand.dims) or "": Index(offset=slot)}
                return (yield self._term(args[0], scope, {**point, **chosen}))
            case "gather", (dims, mode):
                return (yield self._gathered(args, dims, mode, scope, point))
            case "reduce", _:
                return (yield self._reduced(node, scope, point))
            case "contract", (_, dims):
                return (yield self._contracted(args, dims, scope, point))
            case "can_deref", _:
                present: Term = yield self._term(args[0], scope, point)
                return Term(rf"\text{{present}}\left({present.text}\right)")
            case op, _ if TABLE[op].elementwise or op == "make_tuple":
                return (yield self._elementwise(node, scope, point))
            case _:
                return (yield self._operator(node, scope, point))

    def _elementwise(self, node: syntax.Call, scope: Scope, point: Point) -> Rule[Term]:
        """An elementwise builtin in its notation; a cast as the name of its type, an integer quotient with trunc."""
        operands: list[Term] = yield self._each(node.args, scope, point)
        facts: Facts = yield self.scopes.facts(node, scope)
        match node.op:
            case "cast" | "bitcast":
                word = f"{'bits as ' * (node.op == 'bitcast')}{node.static[0]}"
                return Term(rf"\text{{{word}}}\left({operands[0].text}\right)")
            case "divides" if isinstance(facts.element, Scalar) and facts.element.is_integer:
                return Term(rf"\operatorname{{trunc}}\left({applied('divides', operands).text}\right)")
            case op:
                return applied(op, operands)

    def _member(self, node: syntax.Expression, members: tuple[int, ...], scope: Scope, point: Point) -> Rule[Term]:
        """A member of a tuple; of members of members, the first is that which is taken last."""
        while members:
            node, scope = yield self.scopes.opened(node, scope)
            entry = scope.get(node.name) if isinstance(node, syntax.Name) else None
            match node:
                case syntax.Call("tuple_get", (inner,), (member,)):
                    node, members = inner, (*members, member.constant)
                case syntax.Call("make_tuple", args):
                    node, members = args[members[-1]], members[:-1]
                case syntax.Name() if isinstance(entry, Inline):
                    node, scope, point = entry.node, entry.scope, _outside(entry, point)
                case _:
                    tensor: Any = entry if isinstance(entry, Tensor) else (yield self.scopes.hoisted(node, scope))
                    yield self._written(tensor)
                    return self.points.read(tensor, point, members[::-1])
        return (yield self._term(node, scope, point))

    def _gathered(
        self, args: Sequence[syntax.Expression], dims: Sequence[str], mode: str, scope: Scope, point: Point
    ) -> Rule[Term]:
        """`gather(x, indices)` at a point: x at the values of the indices, clamped to its interval or times an Iverson
        bracket [0 ≤ i < n], by the mode. An x that is no name becomes a line of its own.
        """
        x, *indices = args
        facts: Facts = yield self.scopes.facts(x, scope)
        places: list[Term] = yield self._each(indices, scope, point)
        moved, conditions = dict(point), list[str]()
        for dim, index in zip(dims, places, strict=True):
            extent = facts.dims[dim]
            text = index.text
            if mode == "clamp":
                text = rf"\operatorname{{clamp}}({text}, {extent.first}, {extent.before_stop})"
            conditions.append(extent.holds(index.text))
            moved[dim] = computed(Term(text, index.binding if mode != "clamp" else ATOM), *point.values())
        inner: Term = yield self._term(x, scope, moved) if isinstance(x, LEAVES) else self._hoisted(x, scope, moved)
        if mode == "zero":
            return Term(rf"{within(inner, PRODUCT)} \, \left[{', '.join(conditions)}\right]", PRODUCT)
        return inner

    def _shifted(self, steps: Any, operand: syntax.Expression, scope: Scope, point: Point) -> Rule[Term]:
        """The operand of a shift at the point moved by its steps: a dim by a distance, or a table by a slot to one of
        the entries.

        Where tables are looked up more than `MAX_NESTED` deep, the operand becomes a line of its own.
        """
        before: Facts = yield self.scopes.facts(operand, scope)
        _, neighbour_dims = yield self.scopes.moved(steps, before, scope)
        for (target, distance), dim in zip(steps, neighbour_dims, strict=True):
            if isinstance(target, str):
                if target in point:
                    point = {**point, target: point[target].moved(distance or whole(0))}
                continue
            table, neighbours = yield self.scopes.table(target, scope)
            yield self._written(table)
            slot = Index(offset=distance) if distance is not None else point[dim]
            entry = slot if slot.member else self.points.entry(table, {**point, neighbours.tag: slot})
            point = {**point, neighbours.source: entry}
        if max((i.depth for i in point.values()), default=0) > MAX_NESTED and not isinstance(operand, LEAVES):
            return (yield self._hoisted(operand, scope, point))
        return (yield self._term(operand, scope, point))

    # Folds, and what has no notation

    def _reduced(self, node: syntax.Call, scope: Scope, point: Point) -> Rule[Term]:
        """A fold in the notation of sums, products, extremes or quantors, combined with its initial value unless that
        is the identity; the last state of a recurrence where the function has no such sign (`_monoid`).
        """
        function, init, *args = node.args
        dim: str = yield self.scopes.folded_dim(node, scope)
        dims = united((yield self.scopes.each(args, scope)))
        resolved, around = self.scopes.resolved(function, scope)
        monoid = _monoid(resolved, len(args))
        if monoid is None:
            states: Tensor = yield self._states(node, dim, dims[dim], scope)
            last = dims[dim].behind().moved(whole(-1))
            return self.points.read(states, {**point, dim: last})
        op, summand = monoid
        index = self.points.running(dims, dim, point)
        if summand is None:
            body: Term = yield self._term(args[0], scope, {**point, dim: index})
        else:
            assert isinstance(resolved, syntax.Lambda)
            key = self.scopes.key(dim)
            inner: Scope = yield self.scopes.entered(resolved, around, args, scope, {key: dim})
            body = yield self._term(summand, inner, {**point, key: index})
        total = self._fold(FOLDS[op], index, dims[dim], body, point)
        facts: Facts = yield self.scopes.facts(init, scope)
        identity = TABLE[op].identity
        neutral = identity(facts.element) if identity and isinstance(facts.element, Scalar) else None
        if isinstance(init, syntax.Number) and init.value == neutral:
            return total
        return applied(op, [(yield self._term(init, scope, point)), total])

    def _fold(self, sign: str, index: Index, extent: Extent, body: Term, point: Point) -> Term:
        """A sign of `FOLDS` with its range below: neighbours of the point, i = start to stop - 1, or an interval."""
        listed = extent.listed
        if index.member and listed is not None:
            under = rf"_{{{index.text()} \in {self.points.neighbours(listed, point)}}}"
        elif sign in (r"\min", r"\max"):
            under = rf"_{{{extent.holds(index.text())}}}"
        else:
            under = rf"_{{{index.text()}={extent.first}}}^{{{extent.before_stop}}}"
        return Term(f"{sign}{under} {within(body, PRODUCT)}", FOLD)

    def _states(self, node: syntax.Call, dim: str, extent: Extent, scope: Scope) -> Rule[Tensor]:
        """A fold that has no sign, as the states of a recurrence."""
        if (scope, id(node)) not in self.states:
            facts: Facts = yield self.scopes.facts(node, scope)
            dims = {**facts.dims, dim: replace(extent, mixed=True)}  # each state has its slot
            tensor = Tensor(self.scopes.symbol("s"), replace(facts, dims=dims), self.scopes.places(dims))
            self.states[scope, id(node)] = tensor
            yield self._recurrence(tensor, node, scope)
        return self.states[scope, id(node)]

    def _contracted(
        self, args: Sequence[syntax.Expression], over: Sequence[str], scope: Scope, point: Point
    ) -> Rule[Term]:
        """A contraction as nested sums of a product, the last of the dims `over` innermost."""
        dims = united((yield self.scopes.each(args, scope)))
        inside = dict(point)
        for dim in over:
            inside[dim] = self.points.running(dims, dim, inside)
        total = applied("multiplies", (yield self._each(args, scope, inside)))
        for dim in reversed(over):
            total = self._fold(r"\sum", inside[dim], dims[dim], replace(total, binding=PRODUCT), point)
        return total

    def _operator(self, node: syntax.Call, scope: Scope, point: Point) -> Rule[Term]:
        """A builtin without notation: its name with static parameters as an index, applied to functions and whole
        tensors.
        """
        row, count = TABLE[node.op], function_count(node.op, len(node.args))
        facts: Facts = yield self.scopes.facts(node, scope)
        shown: list[str] = []
        for f in node.args[:count]:
            entry: Function = yield self.scopes.function(f, scope)
            if isinstance(entry.node, syntax.Operator):
                dots = [Term(r"\cdot")] * len(TABLE[entry.node.op].form[0])
                shown.append(applied(entry.node.op, dots).text)
                continue
            yield self._function(entry, (yield self._arguments_of(node, scope)))
            shown.append(entry.symbol)
        shown += yield self._wholes(node.args[count:], scope)
        spelled = [
            SLOTS[slot].spell(value, False)
            for slot, value in zip(row.static_slots, node.static, strict=True)
            if value is not None and not (slot.endswith("?") and value == SLOTS[slot].default)
        ]
        static = rf"_{{\text{{{terms.escaped(', '.join(spelled))}}}}}" * bool(spelled)
        symbol = rf"\operatorname{{{terms.escaped(node.op.rstrip('_'))}}}{static}\left({', '.join(shown)}\right)"
        return self.points.read(Tensor(symbol, facts, self.scopes.places(facts.dims)), point)

    def _arguments_of(self, node: syntax.Call, scope: Scope) -> Rule[list[Facts]]:
        """The facts of the arguments that the functions of a `loop`, `cond`, `scatter` or fold are called with."""
        count = function_count(node.op, len(node.args))
        facts: list[Facts] = yield self.scopes.each(node.args[count:], scope)
        match node.op:
            case "loop":
                return [replace(facts[0], dims={}, element=None), *facts]
            case "cond":
                return facts[1:]
            case "scatter":
                return [Facts({}, facts[0].element), Facts({}, facts[-1].element)]
            case _:
                return facts

    def _wholes(self, nodes: Iterable[syntax.Expression], scope: Scope) -> Rule[list[str]]:
        """The symbols of tensors without indices, as the operands of `_operator`."""
        return (yield from each(self._whole(node, scope) for node in nodes))

    def _whole(self, node: syntax.Expression, scope: Scope) -> Rule[str]:
        """The symbol of one tensor without indices; a number as it is, any other expression under a name of its own."""
        node, scope = yield self.scopes.opened(node, scope)
        while isinstance(node, syntax.Name) and isinstance(entry := scope.get(node.name), Inline):
            node, scope = yield self.scopes.opened(entry.node, entry.scope)
        if isinstance(node, syntax.Number):
            return number(node.value, node.element).text
        entry = scope.get(node.name) if isinstance(node, syntax.Name) else None
        if isinstance(node, syntax.Name) and entry is None:
            return name(node.name).text
        if not isinstance(entry, Tensor) or entry.lag is not None:
            entry = yield self.scopes.hoisted(node, scope)
        assert isinstance(entry, Tensor)
        yield self._written(entry)
        return entry.symbol


def _monoid(function: syntax.Expression, count: int) -> tuple[str, syntax.Expression | None] | None:
    """The operation of a fold, and what it folds, None for its only argument; None where there is no sign for it."""
    match function:
        case syntax.Operator(op) if op in FOLDS and count == 1:
            return op, None
        case syntax.Lambda((state, *_), syntax.Call(op, (a, b))) if op in FOLDS:
            for old, new in ((a, b), (b, a)):
                if isinstance(old, syntax.Name) and old.name == state.name and not reads(new, state.name):
                    return op, new
            return None
        case _:
            return None


def _cases(rows: Sequence[tuple[str, str]]) -> Term:
    """Rows (value, condition) as LaTeX cases."""
    lines = r" \\ ".join(f"{value} & {where}" for value, where in rows)
    return Term(rf"\begin{{cases}} {lines} \end{{cases}}", terms.LOOSE)


def _outside(entry: Inline, point: Point) -> Point:
    """A point in the body of a function, as what its arguments are read at."""
    return {**point, **{dim: point[key] for key, dim in entry.renamed.items() if key in point}}
