"""Names in scope, dims of expressions, and points along them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tensorir.inspect.formulas.places import Extent, Facts, Index, Neighbours, Point, facts_of, united
from tensorir.inspect.formulas.terms import ATOM, Term, is_tag, letters_of, name, names_of, slot_letter, within
from tensorir.integers.affine import Affine, number
from tensorir.ir.builtins import POWER, PRODUCT
from tensorir.ir.staggering import HALF
from tensorir.ir.types import INT32, NEIGHBOUR, neighbour_counter
from tensorir.ir.typing_of_elements import highest_neighbour
from tensorir.nodes import Rule, each
from tensorir.text import syntax
from tensorir.text.elaborate import function_count
from tensorir.text.lexer import OFFSET

# What names stand for in a program, and which dims its expressions have, before any size is known.
#
# Every name, and every expression that is written as a line of its own, becomes a `Tensor` with a symbol that nothing
# else has. Rules are generators (`tensorir.nodes`), since trees may be deep.

LEAVES = (syntax.Name, syntax.Number, syntax.Operator)
Steps = list[tuple[str | syntax.Expression, Affine | None]]
"""The steps of a shift, first to last: (dim, distance), or (table, slot) with None for all neighbours."""


@dataclass(frozen=True, eq=False, slots=True)
class Scope:
    """Names, and the names around them."""

    names: dict[str, Tensor | Inline | Function]
    outer: Scope | None = None

    def get(self, key: str) -> Tensor | Inline | Function | None:
        """The entry of the innermost scope that has a name; None for sizes."""
        scope: Scope | None = self
        while scope is not None:
            if key in scope.names:
                return scope.names[key]
            scope = scope.outer
        return None

    def set(self, key: str, entry: Tensor | Inline | Function) -> Scope:
        """The scope with one name more, itself unless it hides another."""
        if self.get(key) is not None:
            return Scope({key: entry}, self)
        self.names[key] = entry
        return self


@dataclass(frozen=True, eq=False, slots=True)
class Tensor:
    """Something with a symbol, read with an index for each of its dims."""

    symbol: str
    facts: Facts
    places: tuple[tuple[str, str], ...]
    """Its dims, and under which name a point has each."""
    lag: tuple[str, int] | None = None
    """Of the state in the body of a recurrence: (dim, -1 or 1), the level before; it can be read at a point alone."""
    value: syntax.Expression | None = None
    scope: Scope | None = None
    """What an intermediate is, and what the names in it stand for."""


@dataclass(frozen=True, eq=False, slots=True)
class Inline:
    """A parameter of a function that is written as what it is bound to."""

    node: syntax.Expression
    scope: Scope
    facts: Facts
    renamed: Mapping[str, str]
    """By the name that a folded dim has in the function, its own."""


@dataclass(eq=False, slots=True)
class Function:
    """A function that has a name. Its dims are those of what it is applied to first."""

    node: syntax.Lambda | syntax.Operator
    scope: Scope
    symbol: str
    params: tuple[Tensor, ...] = ()
    inner: Scope | None = None
    values: tuple[syntax.Expression, ...] = ()
    results: tuple[Facts, ...] = ()


@dataclass(slots=True)
class Scopes:
    """Symbols, facts and scopes of the expressions of a program, found once for each node in a scope."""

    program: syntax.Program
    letters: Mapping[str, str]
    taken: set[str]
    known: dict[tuple[str, Scope, int], Any] = field(default_factory=dict[tuple[str, Scope, int], Any])
    """By what was asked, of a node in a scope."""
    folded_dims: dict[str, str] = field(default_factory=dict[str, str])
    """By the name that a folded dim has in the body of its function, its own."""

    @staticmethod
    def of(program: syntax.Program) -> Scopes:
        letters = letters_of(program)
        return Scopes(program, letters, {*names_of(program), *letters.values(), slot_letter(program)})

    def fresh(self, label: str) -> str:
        """The name, or another like it that nothing has."""
        text, k = label, 0
        while text in self.taken:
            k += 1
            text = f"{label}{k}" if len(label) == 1 else f"{label}_{k}"
        self.taken.add(text)
        return text

    def symbol(self, label: str) -> str:
        """The LaTeX of a fresh name like `label`."""
        return name(self.fresh(label)).text

    def rank(self, dim: str) -> tuple[int, int]:
        """The rank of a dim in an index."""
        dim = self.folded_dims.get(dim, dim)
        counter = neighbour_counter(dim)
        return (0, list(self.letters).index(dim)) if counter is None and dim in self.letters else (1, counter or 0)

    def places(self, dims: Iterable[str]) -> tuple[tuple[str, str], ...]:
        """The dims of a tensor in the order of its index (`rank`), each under its own name at a point."""
        return tuple((d, d) for d in sorted(dims, key=self.rank))

    def parameter(self, param: syntax.Param) -> Tensor:
        """A parameter of the program as a tensor, indices in the order of its type."""
        facts = declared(param)
        return Tensor(name(param.name).text, facts, tuple((d, d) for d in facts.dims))

    def key(self, dim: str) -> str:
        """A name for a folded dim in the body of its function."""
        key = f"{dim} {len(self.folded_dims)}"
        self.folded_dims[key] = self.folded_dims.get(dim, dim)
        return key

    # Scopes

    def opened(self, node: syntax.Expression, scope: Scope) -> Rule[tuple[syntax.Expression, Scope]]:
        """The expression below bindings (`let`), and the scope of these; their values become tensors or functions.

        Before: `let y = a + b; 2.0 × y`. After: `2.0 × y`, in a scope where y is a tensor. Other nodes come back
        unchanged.
        """
        if not isinstance(node, syntax.Let):
            return node, scope
        place = "opened", scope, id(node)
        if place not in self.known:
            inner: syntax.Expression = node
            scope = Scope({}, scope)
            while isinstance(inner, syntax.Let):
                entry: Any = yield self.bound(inner.name, inner.value, scope)
                scope = scope.set(inner.name, entry)
                inner = inner.body
            self.known[place] = inner, scope
        return self.known[place]

    def bound(self, label: str, value: syntax.Expression, scope: Scope) -> Rule[Tensor | Inline | Function]:
        """The entry for a binding: a function, or a tensor with a fresh symbol whose equation is not written yet."""
        value, scope = yield self.opened(value, scope)
        if isinstance(value, (syntax.Lambda, syntax.Operator)):
            return Function(value, scope, self.symbol(label))
        if isinstance(value, syntax.Name) and isinstance(entry := scope.get(value.name), Function):
            return entry
        facts: Facts = yield self.facts(value, scope)
        return Tensor(self.symbol(label), facts, self.places(facts.dims), None, value, scope)

    def hoisted(self, node: syntax.Expression, scope: Scope) -> Rule[Tensor]:
        """An expression that has no name, as an intermediate."""
        place = "hoisted", scope, id(node)
        if place not in self.known:
            facts: Facts = yield self.facts(node, scope)
            self.known[place] = Tensor(self.symbol("t"), facts, self.places(facts.dims), None, node, scope)
        return self.known[place]

    def resolved(self, function: syntax.Expression, scope: Scope) -> tuple[syntax.Expression, Scope]:
        """A function behind its name, and the names in it."""
        if isinstance(function, syntax.Name):
            entry = scope.get(function.name)
            if isinstance(entry, Function):
                return entry.node, entry.scope
            return syntax.Operator(function.name.removeprefix("__")), scope
        return function, scope

    def entered(
        self, function: syntax.Lambda, around: Scope, args: Sequence[syntax.Expression], scope: Scope,
        renamed: Mapping[str, str], state: Tensor | None = None,
    ) -> Rule[Scope]:  # fmt: skip
        """The scope of the body of a function that is applied to `args` of `scope`, written out once at its
        application.

        A parameter that is used once, or a name, stands for its argument (`Inline`); others get a line of their own.
        `around` is the scope of the function. For the function of a fold, `renamed` has the folded dim by its name in
        the body, and the first parameter is the state (`state`, None: it has no symbol).
        """
        names: dict[str, Tensor | Inline | Function] = {}
        params = function.params
        if renamed:
            if state is not None:
                names[params[0].name] = state
            params = params[1:]
        uses = Counter(n.name for n in syntax.walk(function.body) if isinstance(n, syntax.Name))
        back = {dim: new for new, dim in renamed.items()}
        for param, arg in zip(params, args, strict=True):
            facts: Facts = yield self.facts(arg, scope)
            if param.type is not None:
                folded = {d: e for d, e in facts.dims.items() if d in back or d in self.folded_dims}
                facts = replace(facts, dims={**declared(param).dims, **folded})
            if uses[param.name] > 1 and not isinstance(arg, LEAVES):
                tensor: Tensor = yield self.hoisted(arg, scope)
                places = tuple((d, back.get(p, p)) for d, p in tensor.places)
                names[param.name] = replace(tensor, places=places, facts=renamed_dims(facts, back))
            else:
                names[param.name] = Inline(arg, scope, renamed_dims(facts, back), renamed)
        return Scope(names, around)

    def applied(self, node: syntax.Apply, scope: Scope) -> Rule[tuple[syntax.Expression, Scope] | Function]:
        """The body of an application and its names; a function with a name, where it is one."""
        entry = scope.get(node.function.name) if isinstance(node.function, syntax.Name) else None
        if isinstance(entry, Function) and isinstance(entry.node, syntax.Lambda):
            arguments: list[Facts] = yield self.each(node.args, scope)
            yield self.called(entry, arguments)
            return entry
        place = "applied", scope, id(node)
        if place not in self.known:
            function, around = self.resolved(node.function, scope)
            if isinstance(function, syntax.Operator):
                self.known[place] = syntax.Call(function.op, node.args), scope
            else:
                assert isinstance(function, syntax.Lambda)
                inner: Scope = yield self.entered(function, around, node.args, scope, {})
                self.known[place] = function.body, inner
        return self.known[place]

    def called(self, entry: Function, arguments: Sequence[Facts]) -> Rule[Function]:
        """Fills in the scope, parameters and results of a named function at its first application.

        Parameters without a type take the facts of the first `arguments`.
        """
        if entry.inner is None:
            assert isinstance(entry.node, syntax.Lambda)
            params: list[Tensor] = []
            for p, facts in zip(entry.node.params, arguments, strict=True):
                facts = facts if p.type is None else declared(p)
                params.append(Tensor(self.symbol(p.name), facts, self.places(facts.dims)))
            names: dict[str, Any] = {p.name: t for p, t in zip(entry.node.params, params, strict=True)}
            body, inner = yield self.opened(entry.node.body, Scope(names, entry.scope))
            entry.inner = inner
            entry.params = tuple(params)
            entry.values = body.values if isinstance(body, syntax.Results) else (body,)
            results: list[Facts] = yield self.each(entry.values, inner)
            entry.results = tuple(results)
        return entry

    def function(self, node: syntax.Expression, scope: Scope) -> Rule[Function]:
        """A function that is an operand of a builtin, with a name."""
        node, scope = yield self.opened(node, scope)
        place = "function", scope, id(node)
        if place not in self.known:
            entry = scope.get(node.name) if isinstance(node, syntax.Name) else None
            function, around = self.resolved(node, scope)
            assert isinstance(function, (syntax.Lambda, syntax.Operator))
            self.known[place] = entry if isinstance(entry, Function) else Function(function, around, self.symbol("f"))
        return self.known[place]

    # Shifts

    def steps(self, node: syntax.Expression, scope: Scope) -> tuple[Steps, syntax.Expression] | None:
        """The steps of a shift, and its operand; None for other nodes."""
        match node:
            case syntax.Shift(offsets, operand):
                return [(self._target(o.name, scope), o.distance) for o in offsets], operand
            case syntax.Call("cartesian_shift", (operand,), (dim, distance)):
                return [(dim, distance)], operand
            case syntax.Call("unstructured_shift", (table, operand), (slot,)):
                return [(table, slot)], operand
            case syntax.Call("shift_init", (table, operand)):
                return [(table, None)], operand
            case _:
                return None

    def _target(self, label: str, scope: Scope) -> str | syntax.Expression:
        """The dim or table that a name in a shift stands for."""
        plain = label.removesuffix(OFFSET)
        for candidate in (label, dict(self.program.offsets).get(plain, plain), plain):
            entry = scope.get(candidate)
            if isinstance(entry, (Tensor, Inline)) and any(map(is_tag, entry.facts.dims)):
                return syntax.Name(candidate)
            if candidate in self.letters or neighbour_counter(candidate) is not None:
                return candidate
        return label

    def table(self, node: syntax.Expression, scope: Scope) -> Rule[tuple[Tensor, Neighbours]]:
        """The neighbour table behind an expression as a tensor, and how its slots are written (`Neighbours`)."""
        entry = scope.get(node.name) if isinstance(node, syntax.Name) else None
        while isinstance(entry, Inline):
            node, scope = entry.node, entry.scope
            entry = scope.get(node.name) if isinstance(node, syntax.Name) else None
        tensor: Any = entry if isinstance(entry, Tensor) else (yield self.hoisted(node, scope))
        tag = next(d for d in tensor.facts.dims if is_tag(d))
        return tensor, Neighbours(tensor.symbol, tuple(p for _, p in tensor.places), tag, tag.removeprefix(NEIGHBOUR))

    def moved(self, steps: Steps, facts: Facts, scope: Scope) -> Rule[tuple[Facts, list[str]]]:
        """The facts of the operand as read behind a shift, and per step the name of the neighbour dim that it makes, ""
        for none.

        `steps` move a point first to last, so that their effect on dims is taken last to first. Along a dim intervals
        move by the distance: x on I[0:9] behind ⟪I, 1⟫ is on I[-1:8]. A table replaces the dim of its entries by that
        of its points; with a distance of None (no slot chosen) its slots become a neighbour dim.
        """
        dims, neighbour_dims = dict(facts.dims), [""] * len(steps)
        for k, (target, distance) in reversed(list(enumerate(steps))):
            if isinstance(target, str):
                if target in dims:
                    dims = _mixed(dims, target)
                    dims[target] = dims[target].moved(distance or number(0))
                continue
            table, neighbours = yield self.table(target, scope)
            rest = {d: e for d, e in dims.items() if d != neighbours.source}
            points = {d: e for d, e in table.facts.dims.items() if d != neighbours.tag}
            dims = united([Facts(points, None), Facts(_mixed(rest, neighbours.source), None)])
            if distance is None:
                highest = highest_neighbour(dims)
                neighbour_dims[k] = f"{NEIGHBOUR}{0 if highest is None else (neighbour_counter(highest) or 0) + 1}"
                dims[neighbour_dims[k]] = replace(table.facts.dims[neighbours.tag], neighbours=neighbours, mixed=False)
        return replace(facts, dims=dims), neighbour_dims

    # What is known of an expression

    def each(self, nodes: Iterable[syntax.Expression], scope: Scope) -> Rule[list[Facts]]:
        """The facts of several expressions."""
        return (yield from each(self.facts(node, scope) for node in nodes))

    def facts(self, node: syntax.Expression, scope: Scope) -> Rule[Facts]:
        """Dims with their extents, element type and weight of an expression; found once for each node in a scope."""
        node, scope = yield self.opened(node, scope)
        place = "facts", scope, id(node)
        if place not in self.known:
            self.known[place] = yield self._facts(node, scope)
        return self.known[place]

    def _facts(self, node: syntax.Expression, scope: Scope) -> Rule[Facts]:
        """`facts` of a node that is not known yet. A size is an int32 without dims."""
        match node:
            case syntax.Number(_, element):
                return Facts({}, element)
            case syntax.Name(label):
                entry = scope.get(label)
                match entry:
                    case Inline() if not isinstance(entry.node, LEAVES):
                        return entry.facts
                    case Tensor() | Inline():
                        return replace(entry.facts, weight=1)
                    case _:
                        return Facts({}, INT32)
            case syntax.Apply():
                application: Any = yield self.applied(node, scope)
                if isinstance(application, Function):
                    return replace(application.results[0], weight=1 + len(node.args))
                body, inner = application
                return (yield self.facts(body, inner))
            case syntax.Shift() | syntax.Call():
                shift = self.steps(node, scope)
                if shift is not None:
                    steps, operand = shift
                    before: Facts = yield self.facts(operand, scope)
                    after, _ = yield self.moved(steps, before, scope)
                    return replace(after, weight=before.weight + len(steps) - 1)
                assert isinstance(node, syntax.Call)
                return (yield self._of_call(node, scope))
            case _:
                raise AssertionError(f"{type(node).__name__} is no tensor")

    def _of_call(self, node: syntax.Call, scope: Scope) -> Rule[Facts]:
        """The facts of a builtin that is no shift.

        Its weight is that of its operands and functions and one more; above `MAX_WEIGHT` it becomes a line, as for
        cases and recurrences (`ALONE`). Dims of states that its functions read are its own, too.
        """
        op, args = node.op, node.args
        count = function_count(op, len(args))
        operands: list[Facts] = yield self.each(args[count:], scope)
        if op in ("cond", "blocked"):
            entry: Function = yield self.function(args[0], scope)
            yield self.called(entry, operands[1:] if op == "cond" else operands)
            result: int = node.static[0].constant
            return replace(entry.results[result], weight=len(args))
        if op in ("reduce", "scan"):
            operands[0] = replace(operands[0], dims=united([operands[0], self._state(args[0], scope)]))
        weight = 1 + sum(f.weight if f.weight <= MAX_WEIGHT else 1 for f in operands)
        weight += sum(1 for f in args[:count] if isinstance(f, syntax.Lambda) for _ in syntax.walk(f.body))
        facts = replace(facts_of(op, node.static, operands), weight=MAX_WEIGHT + 1 if op in ALONE else weight)
        facts = replace(facts, dims={**self._captured(args[:count], scope), **facts.dims})
        if op == "scan":
            dim: str = yield self.folded_dim(node, scope)
            return replace(facts, dims={**facts.dims, dim: replace(facts.dims[dim], mixed=True)})
        return facts

    def _captured(self, functions: Iterable[syntax.Expression], scope: Scope) -> dict[str, Extent]:
        """The folded dims of states of a fold around, which functions read."""
        names = {n.name for n in syntax.walk(*functions) if isinstance(n, syntax.Name)}
        entries = (scope.get(n) for n in names) if self.folded_dims else ()
        tensors = [e for e in entries if isinstance(e, (Tensor, Inline))]
        return {d: extent for e in tensors for d, extent in e.facts.dims.items() if d in self.folded_dims}

    def _state(self, function: syntax.Expression, scope: Scope) -> Facts:
        """The declared type of the first parameter of a function."""
        match self.resolved(function, scope)[0]:
            case syntax.Lambda((syntax.Param(_, syntax.TensorType()) as state, *_)):
                return declared(state)
            case syntax.Operator(_, (first, *_)):
                return declared(syntax.Param("", first))
            case _:
                return Facts({}, None)

    def folded_dim(self, node: syntax.Call, scope: Scope) -> Rule[str]:
        """The dim of a fold or scan: the one it names, the highest neighbour dim for a reduce, else the dim of an
        operand that the declared parameters of the function lack.
        """
        function, _, *args = node.args
        dim: str | None = node.static[-1]
        if dim is not None:
            return dim
        operands: list[Facts] = yield self.each(args, scope)
        if node.op == "reduce":
            return highest_neighbour(united(operands)) or ""
        resolved, _ = self.resolved(function, scope)
        params = resolved.params if isinstance(resolved, syntax.Lambda) else ()
        known = [(f, declared(p)) for f, p in zip(operands, params[1:], strict=False) if p.type is not None]
        if known:
            return next(d for f, p in known for d in f.dims if d not in p.dims)
        state = params[0] if params and params[0].type is not None else None
        within = () if state is None else declared(state).dims
        return next(d for d in united(operands) if d not in within)


MAX_WEIGHT = 40
"""Names, numbers and operations in one line."""
ALONE = frozenset(["if", "concat", "update", "scan"])
"""What is a line of its own whatever it is in: cases, and recurrences."""


def declared(param: syntax.Param) -> Facts:
    """The facts that the type of a parameter declares."""
    assert param.type is not None, param.name
    return Facts({r.dim: Extent.of(r.start, r.stop) for r in param.type.ranges}, param.type.element)


def renamed_dims(facts: Facts, names: Mapping[str, str]) -> Facts:
    """The same with dims under other names."""
    return replace(facts, dims={names.get(d, d): e for d, e in facts.dims.items()})


def reads(node: syntax.Expression, label: str) -> bool:
    """True if a name is in an expression."""
    return any(isinstance(n, syntax.Name) and n.name == label for n in syntax.walk(node))


def _mixed(dims: Mapping[str, Extent], moved: str) -> dict[str, Extent]:
    """Dims after a move: slots of neighbours of what has moved are no longer those of the point."""
    return {
        d: replace(e, mixed=True) if e.neighbours is not None and moved in e.neighbours.dims else e
        for d, e in dims.items()
    }


# Indices with letters: any point along some dims, and what a tensor is at a point.


@dataclass(frozen=True, slots=True)
class Points:
    """The letters of a program, and one for slots of neighbours."""

    scopes: Scopes
    slot: str

    def generic(self, dims: Mapping[str, Extent]) -> Point:
        """Any point along some dims; neighbours by their slots, or, where one table has them, themselves."""
        point: dict[str, Index] = {}
        for dim, _ in self.scopes.places(dims):
            point[dim] = self.index(dim, dims[dim], letters_in(point.values()))
        return point

    def index(self, dim: str, extent: Extent, used: frozenset[str]) -> Index:
        """An index with a letter for a dim: that of the dim, or of neighbours, primed until it is not in `used`."""
        folded = self.scopes.folded_dims.get(dim, dim)
        listed = extent.listed
        letter = self.scopes.letters.get(folded if listed is None else listed.source, self.slot)
        while letter in used:
            letter += "'"
        return Index.letter(letter, member=listed is not None)

    def running(self, dims: Mapping[str, Extent], dim: str, point: Point) -> Index:
        """An index to fold over, with a letter that nothing around it has."""
        return self.index(dim, dims[dim], letters_in(point.values()))

    def read(self, tensor: Tensor, point: Point, members: tuple[int, ...] = ()) -> Term:
        """A tensor at a point."""
        indices: list[str] = []
        for dim, place in tensor.places:
            index = point.get(place) or self.index(dim, tensor.facts.dims[place], letters_in(point.values()))
            if tensor.lag is not None and tensor.lag[0] == dim:
                index = index.moved(number(tensor.lag[1]))
            listed = tensor.facts.dims[place].listed
            if listed is not None and not index.member:
                at = {**point, listed.tag: index}  # the neighbour in this slot
                index = Index(f"{listed.symbol}_{{{','.join(at[d].text() for d in listed.dims if d in at)}}}")
            indices.append(index.text(half=dim.endswith(HALF)))
        text = tensor.symbol
        if members:
            text += f"^{{({','.join(map(str, members))})}}"
        if indices:
            text += f"_{{{','.join(indices)}}}"
        return Term(text, POWER if members else ATOM)

    def entry(self, table: Tensor, point: Point) -> Index:
        """An entry of a table, as an index of what it leads to."""
        used = [point[p] for _, p in table.places if p in point]
        depth = 1 + max((i.depth for i in used), default=0)
        return Index(self.read(table, point).text, letters=letters_in(used), depth=depth)

    def neighbours(self, listed: Neighbours, point: Point) -> str:
        """The neighbours of a point."""
        places = [point[d].text() for d in listed.dims if d != listed.tag and d in point]
        return f"{listed.symbol}({', '.join(places)})"


def inside(extents: Mapping[str, Extent], point: Point) -> str:
    """The conditions that a point lies in the intervals, as LaTeX: 0 ≤ i < n, ..."""
    return r",\; ".join(extent.holds(point[d].text()) for d, extent in extents.items())


def letters_in(indices: Iterable[Index]) -> frozenset[str]:
    """All letters of some indices."""
    return frozenset[str]().union(*(i.letters for i in indices))


def computed(term: Term, *of: Index) -> Index:
    """An index that is an expression of the indices `of` (for letters and depth), not a letter."""
    depth = 1 + max((i.depth for i in of), default=0)
    return Index(term.text, letters=letters_in(of), depth=depth, binding=term.binding)


def factor(index: Index) -> str:
    """An index as a factor, in parentheses where it is a sum."""
    return within(index.term, PRODUCT)
