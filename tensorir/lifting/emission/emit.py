"""Terms as tensors: every index of a statement's box is a dim, a load is a read of the whole buffer at once.

Reads by sums of indices become renames, shifts, splits, or gathers by coordinates; what lies outside of a buffer, under
a guard that keeps the program from it, is zero. A condition that is an interval of the box becomes an update of the
part where it holds; any other is an `if`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations
from math import prod

from tensorir.integers.affine import Affine, Quotient, Ranges, variable
from tensorir.integers.dims import Dims, Interval
from tensorir.ir.build import call, closure, literal, var
from tensorir.ir.nodes import Closure, Expr, Var
from tensorir.ir.types import BOOL, INT32, Scalar, TensorType
from tensorir.lifting.accesses.sets import conjuncts
from tensorir.lifting.accesses.space import digits, interval_of
from tensorir.lifting.emission.tensors import (
    alike,
    converted,
    cut,
    filled,
    position,
    renamed,
    shifted,
    spread,
    sum_of,
    widened,
    width_of,
)
from tensorir.lifting.nests.bounded import by_multiple
from tensorir.lifting.nests.linear import COMPARISONS, affine_of, flat_place, settled, term_of
from tensorir.lifting.nests.terms import (
    Buffer,
    Index,
    Linear,
    Load,
    Number,
    Op,
    Term,
    always,
    index_names,
    loads,
    rebuilt,
    walk,
)
from tensorir.lifting.nests.unknowns import bounds
from tensorir.runtime.errors import Span

Box = Mapping[str, Interval]

MOST_MARGIN = 4
"""How many times what is read a tensor with a margin around it may have."""


@dataclass(slots=True)
class Emitter:
    """The tensors that buffers are now, and what stands for the variables of loops outside."""

    tensors: dict[Buffer, Expr] = field(default_factory=dict[Buffer, Expr])
    names: dict[Buffer, tuple[str, ...]] = field(default_factory=dict[Buffer, tuple[str, ...]])
    params: dict[Buffer, Var] = field(default_factory=dict[Buffer, Var])
    outer: dict[str, Expr] = field(default_factory=dict[str, Expr])
    ranges: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    taken: set[str] = field(default_factory=set[str])
    checked: bool = False
    notes: list[str] = field(default_factory=list[str])
    asserted: list[tuple[Expr, str, Span]] = field(default_factory=list[tuple[Expr, str, Span]])
    """What must hold, what is said where it does not, and of which place: for the next buffer to leave the region."""
    memo: dict[tuple[object, ...], Expr] = field(default_factory=dict[tuple[object, ...], Expr])
    forms: dict[object, dict[int, Term]] = field(default_factory=dict[object, dict[int, Term]])
    """By box, the normal forms of terms."""
    kept: list[object] = field(default_factory=list[object])

    def inside(
        self, tensors: Mapping[Buffer, Expr], outer: Mapping[str, Expr], ranges: Mapping[str, tuple[int, int]]
    ) -> Emitter:
        """An emitter for the body of a loop: the same names, other tensors."""
        return replace(
            self, tensors={**self.tensors, **tensors}, outer={**self.outer, **outer},
            ranges={**self.ranges, **ranges}, memo={}, forms={}, kept=[], asserted=[],
        )  # fmt: skip

    # Buffers

    def dims_of(self, buffer: Buffer, wanted: Sequence[str | None] = ()) -> tuple[str, ...]:
        """The names of a buffer's dims; those that are wanted, if it has none yet."""
        found = self.names.get(buffer)
        if found is None:
            named: list[str] = []
            for k in range(len(buffer.shape)):
                want = wanted[k] if k < len(wanted) else None
                if want is None or want in named:
                    (want,) = _hidden([f"{buffer.name}_{k}"], {*named, *filter(None, wanted)})
                named.append(want)
            found = self.names[buffer] = tuple(named)
        return found

    def intervals(self, buffer: Buffer) -> dict[str, Interval]:
        return dict(zip(self.dims_of(buffer), (Interval(0, e) for e in buffer.shape), strict=True))

    def tensor(self, buffer: Buffer, wanted: Sequence[str | None] = ()) -> Expr:
        """The current value of a buffer."""
        self.dims_of(buffer, wanted)
        found = self.tensors.get(buffer)
        if found is None:
            if buffer.argument:
                found = self.param(buffer)
            elif buffer.value is not None:
                found = self._constant(buffer)
            else:
                found = filled(0, buffer.element, self.intervals(buffer))
            self.tensors[buffer] = found
        return found

    def param(self, buffer: Buffer) -> Var:
        """The parameter of an argument."""
        found = self.params.get(buffer)
        if found is None:
            kind = TensorType(buffer.element, Dims(tuple(self.intervals(buffer).items())))
            found = self.params[buffer] = Var(buffer.name, kind)
        return found

    def _constant(self, buffer: Buffer) -> Expr:
        flat: list[object] = []

        def collect(part: object) -> None:
            if isinstance(part, tuple | list):
                for p in part:  # pyright: ignore[reportUnknownVariableType]
                    collect(p)  # pyright: ignore[reportUnknownArgumentType]
            else:
                flat.append(part)

        collect(buffer.value)
        position_of = {n: position(n, i) for n, i in self.intervals(buffer).items()}
        place: Expr = literal(0, INT32)
        for name, extent in zip(self.dims_of(buffer), buffer.shape, strict=True):
            place = call("plus", call("multiplies", place, literal(extent, INT32)), position_of[name])
        result = filled(flat[-1] if flat else 0, buffer.element, self.intervals(buffer))
        for k, value in enumerate(flat[:-1]):
            here = call("eq", place, literal(k, INT32))
            result = call("if", here, literal(value, buffer.element), result)
        return result

    def asserting(self, x: Expr) -> Expr:
        """The tensor, with what must hold attached to it."""
        for holds, message, span in self.asserted:
            x = call("assert_", x, holds, static=(message,), span=span)
        self.asserted.clear()
        return x

    # Terms

    def emit(self, term: Term, box: Box, safe: Term | None = None) -> Expr:
        """The term on a box; `safe` is a condition outside of which the value does not matter."""
        if not self.checked:
            safe = None  # then nothing asks, and what stands under several conditions is made once
        place = tuple(box.items())
        # what was made under a part of the conditions is checked wherever all of them hold, and more
        for outer in _weaker(safe):
            known = self.memo.get((id(term), place, id(outer)))
            if known is not None:
                return known
        self.kept += [term, safe]
        found = self.memo[id(term), place, id(safe)] = self._emit(term, box, safe)
        return found

    def settled(self, term: Term, box: Box) -> Term:
        """The normal form of a term on a box."""
        self.kept.append(term)
        return settled(term, self.scope(box), self.forms.setdefault(tuple(box.items()), {}))

    def holds(self, safe: Term, box: Box) -> Expr:
        """True if a condition holds, each of its parts checked where those before it hold."""
        key = ("holds", id(safe), tuple(box.items()))
        if key not in self.memo:
            match safe:
                case Op("and", (outer, inner)):
                    self.memo[key] = call("and", self.holds(outer, box), self.emit(inner, box, outer))
                case _:
                    self.memo[key] = self.emit(safe, box)
            self.kept.append(safe)
        return self.memo[key]

    def scope(self, box: Box) -> dict[str, tuple[int, int]]:
        return {**self.ranges, **{n: (i.start, i.stop - 1) for n, i in box.items()}}

    def _emit(self, term: Term, box: Box, safe: Term | None) -> Expr:
        match term:
            case Number(value, element):
                return literal(value, element)
            case Index() | Linear():
                return self._coordinate(term, box)
            case Load():
                return self._load(term, box, safe)
            case Op("if", (condition, yes, no)):
                return self._choice(condition, yes, no, box, safe)
            case Op("cast" | "bitcast" as op, (x,), element):
                return call(op, self.emit(x, box, safe), static=(element,))
            case Op(op, args, element):
                if op in COMPARISONS:
                    sides = [affine_of(self.settled(a, box)) for a in args]
                    if all(s is not None for s in sides):
                        return call(op, *alike([self.sum(s, box) for s in sides if s is not None]))
                found = affine_of(self.settled(term, box)) if element.is_integer else None
                if found is not None and not loads(term):
                    return self._coordinate(Linear(found, element), box)
                return call(op, *(self.emit(a, box, safe) for a in args))

    def _coordinate(self, term: Term, box: Box) -> Expr:
        match self.settled(term, box):
            case Number(value, element):
                return literal(value, element)
            case Linear(affine, element):
                return converted(self.sum(affine, box), element)
            case other:
                raise AssertionError(other)

    def sum(self, affine: Affine, box: Box) -> Expr:
        """A sum of indices, as int32 where that holds all that it is made of."""
        parts = {n: position(n, box[n]) if n in box else self.outer[n] for n in affine.names}
        return sum_of(affine, parts, width_of(affine, self.scope(box)))

    def _choice(self, condition: Term, yes: Term, no: Term, box: Box, safe: Term | None) -> Expr:
        condition = self.settled(condition, box)
        if isinstance(condition, Number):
            return self.emit(yes if condition.value else no, box, safe)
        some_read = any(isinstance(t, Load) for t in walk(no))  # a chain of choices asks at each of them
        if not some_read and not loads(yes):
            return call("if", self.emit(condition, box, safe), self.emit(yes, box, safe), self.emit(no, box, safe))
        inside, rest = interval_of(condition, box)
        if rest is None and inside is not None:
            if any(not i for i in inside.values()):
                return self.emit(no, box, safe)
            part = self.emit(yes, inside, safe)
            beside = _beside(inside, box) if some_read else None
            if beside is not None:
                along, other = beside
                pieces = [(cut(part, inside), inside), (cut(self.emit(no, other, safe), other), other)]
                needed = {along, *(d for piece, _ in pieces for d in piece.tensor.dims)}
                spreads = [spread(p, {d: i for d, i in place.items() if d in needed}) for p, place in pieces]
                return call("concat", *sorted(spreads, key=lambda p: p.tensor.dims[along].start))
            around = cut(self.emit(no, box, safe), box)
            smaller = {n: i for n, i in inside.items() if i != box[n]}
            # along other dims either is what it is everywhere
            having = {*smaller, *part.tensor.dims, *around.tensor.dims}
            whole = spread(around, {n: i for n, i in box.items() if n in having})
            return call("update", whole, cut(spread(part, smaller), inside))
        if rest is not None and inside is not None and dict(inside) != dict(box):
            return self._choice(_all(_bounds_of(inside, box)), Op("if", (rest, yes, no), yes.element), no, box, safe)
        padded = self._windows(condition, yes, no, box)
        if padded is not None:
            return padded
        if self.checked:
            either, other = always(yes), always(no)
            for t in [t for key, t in either.items() if key in other]:
                self.emit(t, box, safe)  # both branches need it
        here = condition if safe is None else Op("and", (safe, condition), BOOL)
        there = Op("not", (condition,), BOOL)
        there = there if safe is None else Op("and", (safe, there), BOOL)
        return call("if", self.emit(condition, box, safe), self.emit(yes, box, here), self.emit(no, box, there))

    def _windows(self, condition: Term, yes: Term, no: Term, box: Box) -> Expr | None:
        """Reads within bounds of sums, and a number elsewhere, as windows of a tensor with a margin of that number.

        `if 1 <= y + r < 9 then A[y + r - 1] else 0` is P[y + r], and P is A with zeros around it. None where a dim of
        the sums stands anywhere else, where data tell what is read, and where the windows leave most of P out (if A is
        all that is read, a few times as much).
        """
        scope = self.scope(box)
        reads = [t for t in walk(yes) if isinstance(t, Load)]
        if not isinstance(no, Number) or any(affine_of(settled(i, scope)) is None for t in reads for i in t.indices):
            return None
        sums = _bounded_sums(condition)
        inner = {n for a in sums for n in a.names}
        if not sums or not inner <= box.keys() or sum(len(a.terms) for a in sums) != len(inner):
            return None
        spans = [a.range(scope) for a in sums]
        windows = [Interval(low, high + 1) for low, high in (s for s in spans if s is not None)]
        most = prod(len(box[n]) for n in inner) * (MOST_MARGIN if isinstance(yes, Load) else 1)
        if len(windows) < len(sums) or prod(map(len, windows)) > most:
            return None
        names = _hidden([f"{min(a.names)}_in" for a in sums], box.keys() | self.outer.keys())
        smaller = {n: i for n, i in box.items() if n not in inner} | dict(zip(names, windows, strict=True))
        # one variable of each sum is what the window leaves for it: what only has the sum has no other of them then
        values: dict[str, Affine] = {}
        strided: list[tuple[str, Affine]] = []
        for name, a in zip(names, sums, strict=True):
            told = next((n for n, c in a.terms if c == 1 and isinstance(n, str)), None)
            if told is not None:
                values[told] = variable(name).minus(a.minus(variable(told)))
            elif self.checked:
                return None  # what lies between the steps is read by nobody, and might be outside
            else:
                strided.append((name, a))
        ranges = {**scope, **self.scope(smaller)}

        def rule(t: Term) -> Term | None:
            match t:
                case Linear(affine, element) if affine.names & inner:
                    for name, a in strided:
                        affine = by_multiple(affine, a, name)
                    return term_of(affine.replaced(values, ranges), element)
                case _:
                    return None

        choice = Op("if", (condition, yes, no), yes.element)
        whole = rebuilt(settled(choice, scope), rule)
        used = index_names(whole)
        if used & inner:
            return None
        smaller = {n: i for n, i in smaller.items() if n in used}
        whole = settled(whole, self.scope(smaller))
        self.kept.append(whole)
        rest, x = self._split(self.emit(whole, smaller), list(range(len(sums))), sums, names, box, set())
        if not rest:
            return x
        return call(
            "gather", x, *(self.sum(sums[k], box) for k in rest), static=(tuple(names[k] for k in rest), "clamp")
        )

    # Reads

    def _load(self, load: Load, box: Box, safe: Term | None) -> Expr:
        sums = [affine_of(self.settled(i, box)) for i in load.indices]
        wanted = [_only(a, box) for a in sums]
        names = self.dims_of(load.buffer, wanted)
        x = self.tensor(load.buffer)
        if any(a is not None and not a.is_linear for a in sums):
            x, names, sums, load = self._merged(x, names, sums, load, box)
        ones = [_unit(a, box) for a in sums]
        plain = {
            k: one for k, one in enumerate(ones)
            if one is not None and sum(o is not None and o[0] == one[0] for o in ones) == 1
        }  # fmt: skip
        plain = {k: one for k, one in plain.items() if names[k] in x.tensor.dims}
        x = self._apart(x, names, {k: d for k, (d, _) in plain.items()}, box)
        for dim, by in plain.values():
            needed = box[dim]
            x = shifted(widened(x, {dim: Interval(needed.start + by, needed.stop + by)}), dim, by)
        rest = [k for k in range(len(names)) if k not in plain]
        fresh = _hidden(names, {d for d, _ in plain.values()} | box.keys())
        rest = [k for k in rest if fresh[k] in x.tensor.dims]
        rest, x = self._split(x, rest, sums, fresh, box, {d for d, _ in plain.values()})
        return self._gathered(x, load, rest, fresh, box, safe) if rest else x

    def _merged(
        self, x: Expr, names: Sequence[str], sums: Sequence[Affine | None], load: Load, box: Box
    ) -> tuple[Expr, Sequence[str], Sequence[Affine | None], Load]:  # fmt: skip
        """Dims that are read at the digits of a number, `A[i // 4, i % 4]`, as one dim that is read at the number."""
        there = [k for k, name in enumerate(names) if name in x.tensor.dims]
        found = whole_of_digits(sums, load.buffer.shape, self.scope(box), there)
        if found is not None:
            k, j, whole = found
            size, intervals = load.buffer.shape[j], [Interval(0, e) for e in load.buffer.shape]
            x = spread(x, {names[m]: intervals[m] for m in (k, j)})
            (name,) = _hidden([f"{names[k]}__{names[j]}"], {*names, *box})
            x = call("merge_dims", x, static=(names[k], names[j], name))
            rest = [m for m in range(len(sums)) if m not in (k, j)]
            shape = (load.buffer.shape[k] * size, *(load.buffer.shape[m] for m in rest))
            flat = replace(load.buffer, shape=shape)
            indices = (term_of(whole, INT32), *(load.indices[m] for m in rest))
            new = [name, *(names[m] for m in rest)], [whole, *(sums[m] for m in rest)]
            return self._merged(x, *new, replace(load, buffer=flat, indices=indices), box)
        return x, names, sums, load

    def _apart(self, x: Expr, names: Sequence[str], plain: Mapping[int, str], box: Box) -> Expr:
        """The buffer's dims under the names of the box's where they are the same, under hidden names elsewhere."""
        fresh = _hidden(names, set(plain.values()) | box.keys())
        return renamed(x, {name: plain.get(k, fresh[k]) for k, name in enumerate(names)})

    def _split(
        self, x: Expr, rest: list[int], sums: Sequence[Affine | None], names: Sequence[str], box: Box, used: set[str]
    ) -> tuple[list[int], Expr]:
        """Mixed-radix indices as splits of the dim."""
        left: list[int] = []
        for k in rest:
            a = sums[k]
            found = None if a is None else digits(a, box)
            others = {n for j in rest if j != k for n in _names(sums[j])} | used
            if a is None or found is None or len(found) < 2 or set(found) & others:
                left.append(k)
                continue
            used = used | set(found)
            size = 1
            for n in found[1:]:
                size *= len(box[n])
            start, stop = box[found[0]].start * size, box[found[0]].stop * size
            dim = names[k]
            x = shifted(widened(x, {dim: Interval(start + a.constant, stop + a.constant)}), dim, a.constant)
            x = cut(x, {dim: Interval(start, stop)})
            for level, n in enumerate(found[:-1]):
                outer = n
                inner = found[-1]
                if level < len(found) - 2:
                    (inner,) = _hidden([f"{dim}_{level}"], {*x.tensor.dims, *box})
                size //= len(box[found[level]]) if level else 1
                by = 1
                for m in found[level + 1 :]:
                    by *= len(box[m])
                x = call("split_dim", x, static=(dim, outer, inner, by))
                dim = inner
        return left, x

    def _gathered(
        self, x: Expr, load: Load, rest: Sequence[int], names: Sequence[str], box: Box, safe: Term | None
    ) -> Expr:  # fmt: skip
        """Reads by any index: constants select, coordinates that stay inside need no check."""
        scope = self.scope(box)
        places = [(names[k], self.settled(load.indices[k], box)) for k in rest]
        address = flat_place([t for _, t in places], [load.buffer.shape[k] for k in rest])
        if address is not None:
            (whole, _), *others = places
            for name, _ in others:
                x = call("merge_dims", x, static=(whole, name, f"{places[0][0]}{name}"))
                whole = f"{places[0][0]}{name}"
            places = [(whole, address)]
        indices: list[Expr] = []
        mode, told = "clamp", True
        for name, term in places:
            a = affine_of(term)
            spread_of = bounds(term, scope) if a is None else a.range(scope)
            interval = x.tensor.dims[name]
            if spread_of is None or spread_of[0] < interval.start or spread_of[1] >= interval.stop:
                mode = "zero"
            told &= a is not None
            indices.append(self.sum(a, box) if a is not None else self.emit(term, box, safe))
        if mode == "zero" and not told:
            self.notes.append("index")
        if mode == "zero" and self.checked and not told:
            mode = "checked"
            # where the box ends, nobody asks what an index is
            indices = [cut(i, box) for i in indices]
            if safe is not None:
                holds = self.holds(safe, box)
                indices = [call("if", holds, i, literal(0, _scalar(i))) for i in indices]
        if any(not x.tensor.dims[d] for d, _ in places):
            mode = "zero"
        return call("gather", x, *indices, static=(tuple(d for d, _ in places), mode), span=load.span)


def whole_of_digits(
    sums: Sequence[Affine | None], shape: Sequence[int], ranges: Ranges, there: Collection[int] | None = None
) -> tuple[int, int, Affine] | None:
    """Two indices that are digits of a number, and the number: the last two digits first; None if there are none.

    One of them is of a dim that is `there`.
    """
    found: list[tuple[int, int, int, Affine]] = []
    for k, j in permutations(range(len(sums)), 2):
        a, b, size = sums[k], sums[j], shape[j]
        if a is None or b is None or (there is not None and not {k, j} & set(there)):
            continue
        whole, spread_of = a.times(size).plus(b), b.range(ranges)
        gone = (_quotients(a) | _quotients(b)) - _quotients(whole)
        if gone and spread_of is not None and spread_of[0] >= 0 and spread_of[1] < size:
            found.append((min(q.by for q in gone), k, j, whole))
    return min(found, key=lambda f: f[0])[1:] if found else None


def _quotients(a: Affine) -> set[Quotient]:
    return {atom for atom, _ in a.terms if isinstance(atom, Quotient)}


def _weaker(safe: Term | None) -> Iterator[Term | None]:
    """A condition, and what is left of it without its last parts, down to none."""
    while isinstance(safe, Op) and safe.op == "and":
        yield safe
        safe = safe.args[0]
    if safe is not None:
        yield safe
    yield None


def _bounded_sums(condition: Term) -> list[Affine]:
    """The sums of which parts of a condition give bounds, each once and without what is added to it."""
    found: dict[Affine, None] = {}
    for part in conjuncts(condition):
        match part:
            case Op("less" | "less_equal" | "greater" | "greater_equal", (a, b)):
                x, y = affine_of(a), affine_of(b)
                if x is None or y is None or not x.minus(y).is_linear:
                    continue
                terms = x.minus(y).terms
                positive = Affine(terms) if terms and terms[0][1] > 0 else Affine(terms).times(-1)
                found[positive] = None
            case _:
                continue
    return list(found)


def _scalar(x: Expr) -> Scalar:
    element = x.tensor.element
    assert isinstance(element, Scalar)
    return element


def _names(a: Affine | None) -> frozenset[str]:
    return frozenset() if a is None else a.names


def _hidden(names: Sequence[str], taken: set[str] | frozenset[str]) -> list[str]:
    """The names, changed where they are taken."""
    found: list[str] = []
    for name in names:
        new = name
        while new in taken or new in found or (new != name and new in names):
            new = f"{new}_"
        found.append(new)
    return found


def _unit(a: Affine | None, box: Box) -> tuple[str, int] | None:
    """A dim and a distance, for an index that is one dim of the box moved."""
    if a is None or len(a.terms) != 1 or a.terms[0][1] != 1 or not isinstance(a.terms[0][0], str):
        return None
    name = a.terms[0][0]
    return (name, a.constant) if name in box else None


def _only(a: Affine | None, box: Box) -> str | None:
    found = _unit(a, box)
    return None if found is None else found[0]


def _beside(inside: Box, box: Box) -> tuple[str, Box] | None:
    """The dim along which a part takes one end of a box, and what it leaves of it; None where that is no box."""
    smaller = [n for n, i in inside.items() if i != box[n]]
    if len(smaller) != 1:
        return None
    (along,) = smaller
    part, whole = inside[along], box[along]
    if part.start == whole.start:
        return along, {**box, along: Interval(part.stop, whole.stop)}
    return (along, {**box, along: Interval(whole.start, part.start)}) if part.stop == whole.stop else None


def _all(conditions: Sequence[Term]) -> Term:
    result = conditions[0]
    for c in conditions[1:]:
        result = Op("and", (result, c), BOOL)
    return result


def _bounds_of(inside: Box, box: Box) -> list[Term]:
    """The conditions that say which part of a box a smaller one is."""
    found: list[Term] = []
    for n, i in inside.items():
        if i.start != box[n].start:
            found.append(Op("greater_equal", (Index(n, INT32), Number(i.start, INT32)), BOOL))
        if i.stop != box[n].stop:
            found.append(Op("less", (Index(n, INT32), Number(i.stop, INT32)), BOOL))
    return found


def ordered_closures(
    values: Sequence[tuple[Buffer, Expr]], params: Sequence[Var], emitter: Emitter
) -> tuple[list[Closure], list[Var]]:
    """Closures in an order in which none reads what an earlier one wrote over, and buffers for what must wait."""
    by_var = {emitter.param(b): (b, e) for b, e in values}
    pending = list(by_var)
    closures: list[Closure] = []
    buffers: list[Var] = []
    while pending:
        free = next((v for v in pending if not any(v in by_var[w][1].free for w in pending if w is not v)), None)
        chosen = free or next(v for v in pending if by_var[v][1] not in buffers)
        buffer, e = by_var[chosen]
        value = spread(e, emitter.intervals(buffer)) if not e.tensor.dims else e
        if free is None:
            # the others read what it holds before: its new contents wait
            name = f"{buffer.name}_new"
            while any(p.name == name for p in (*params, *buffers)):
                name += "_"
            later = var(name, chosen.type)
            buffers.append(later)
            closures.append(closure(later, value))
            by_var[chosen] = buffer, later
        else:
            closures.append(closure(free, value))
            pending.remove(free)
    return closures, buffers
