"""Recurrences of one iteration: several statements run symbolically once, and what they hand on is a state.

If all that is handed on stays at the element where it was written, the statements are a fold with a tuple as its state
(a sum and a product at once, Welford's variance). If it is read a fixed distance further along one loop, they are a
scan along that loop, whose state is the last few elements.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from tensorir.integers.affine import Affine, number
from tensorir.ir.build import call, function, literal, reduce, scan, var
from tensorir.ir.nodes import Expr, Lambda, Var
from tensorir.ir.types import BOOL, Dims, Interval, TensorType, TupleElement
from tensorir.lifting.accesses.iteration import Once, only_states, reads_by_state, unpacked
from tensorir.lifting.accesses.sets import conjuncts
from tensorir.lifting.accesses.space import Space, substituted
from tensorir.lifting.emission.emit import Emitter
from tensorir.lifting.emission.stores import place_of, put
from tensorir.lifting.emission.tensors import cut, spread
from tensorir.lifting.nests.linear import affine_of
from tensorir.lifting.nests.terms import Buffer, Load, Number, Op, Term, loads, walk

__all__ = ["fold_at_once", "scan_at_once"]


Make = Callable[[Once], Space]


def fold_at_once(emitter: Emitter, once: Once, make: Make) -> bool:
    """Run the statements as one fold, whose state is a tuple; False, with nothing done, where they are none."""
    space = make(once)
    if space.empty or space.guards or not once.buffers:
        return False
    parts, values = unpacked(once, space)
    places = [place_of(p) for p in parts]
    if any(p is None or p.dims != places[0].dims for p in places if places[0] is not None) or places[0] is None:
        return False
    states: dict[Load, int] = {}
    for k, (b, part) in enumerate(zip(once.buffers, parts, strict=True)):
        states[Load(b, part.location)] = k
    if not only_states(values, once.buffers, set(states)) or (emitter.checked and _checked_by_state(values, states)):
        return False
    known = [p for p in places if p is not None]
    over = [n for n in space.dims if n not in known[0].dims]
    if not over:
        return False
    box = {n: i for n, i in space.dims.items() if n in known[0].dims}
    olds = [
        spread(cut(emitter.emit(Load(b, p.location), box), box), box) for b, p in zip(once.buffers, parts, strict=True)
    ]
    merged = _merged_name(over)
    body = _Body(emitter, space, over, merged, states, olds, box)
    result = reduce(body.function(values), body.packed(olds), *body.arguments(), dim=merged)
    for k, (b, place) in enumerate(zip(once.buffers, known, strict=True)):
        put(emitter, b, place, body.member(result, k), box)
    return True


def _checked_by_state(values: Sequence[Term], states: Collection[Load]) -> bool:
    """Whether the state decides if something is read whose place only data tell: that place is checked only then."""
    choices = [t for v in values for t in walk(v) if isinstance(t, Op) and t.op == "if"]
    waiting = [t.args[1:] for t in choices if any(isinstance(x, Load) and x in states for x in walk(t.args[0]))]
    reads = [x for both in waiting for b in both for x in walk(b) if isinstance(x, Load) and x not in states]
    return any(loads(i) for x in reads for i in x.indices)


def _merged_name(over: Sequence[str]) -> str:
    return over[0] if len(over) == 1 else "_".join(over)


class _Body:
    """The function of a fold or a scan: parameters for the state, and for what does not depend on it."""

    def __init__(
        self, emitter: Emitter, space: Space, over: Sequence[str], merged: str, states: Mapping[Load, int],
        olds: Sequence[Expr], box: Mapping[str, Interval],
    ) -> None:  # fmt: skip
        self.emitter, self.space, self.over, self.merged, self.states = emitter, space, over, merged, states
        elements = [o.tensor.element for o in olds]
        dims = Dims(tuple(box.items()))
        element = elements[0] if len(elements) == 1 else TupleElement(tuple(elements))
        self.count = len(elements)
        self.state = var(_name(emitter, "state"), TensorType(element, dims))
        self.found: dict[tuple[int, int], tuple[Term, Var, Expr]] = {}
        self.memo: dict[tuple[int, int], Expr] = {}
        self.safe: dict[tuple[int, int, bool], Term] = {}
        """Conditions around a part of a value, by what they are made of, each once."""

    def packed(self, parts: Sequence[Expr]) -> Expr:
        return parts[0] if len(parts) == 1 else call("make_tuple", *parts)

    def member(self, x: Expr, k: int) -> Expr:
        return x if self.count == 1 else call("tuple_get", x, static=(k,))

    def function(self, values: Sequence[Term]) -> Lambda:
        body = self.packed([self.term(v) for v in values])
        if not self.found:
            first = spread(literal(False, BOOL), {n: self.space.dims[n] for n in self.over})
            self.argument(Number(False, BOOL), first)
        return function([self.state, *self.params()], body)

    def params(self) -> list[Var]:
        return list({v: None for _, v, _ in self.found.values()})

    def arguments(self) -> list[Expr]:
        found = list({v: e for _, v, e in self.found.values()}.values())
        if not any(self.merged in e.tensor.dims for e in found):
            found[0] = self._merge(spread(found[0], {n: self.space.dims[n] for n in self.over}))
        return found

    def _merge(self, x: Expr) -> Expr:
        if len(self.over) == 1 or not any(n in x.tensor.dims for n in self.over):
            return x
        x = spread(x, {n: self.space.dims[n] for n in self.over})
        for n in self.over:
            start = self.space.dims[n].start
            if start:
                x = call("cartesian_shift", x, static=(n, start))
        inner = self.over[-1]
        for k, n in enumerate(reversed(self.over[:-1])):
            name = self.merged if k == len(self.over) - 2 else f"{self.merged}_{k}"
            x = call("merge_dims", x, static=(n, inner, name))
            inner = name
        return x

    def argument(self, term: Term, x: Expr, safe: Term | None = None) -> Var:
        x = self._merge(x)
        for _, known, y in self.found.values():
            if y == x:
                self.found[id(term), id(safe)] = (term, known, y)
                return known
        kind = x.tensor.on(x.tensor.dims.without(self.merged))
        made = var(_name(self.emitter, "x"), kind)
        self.found[id(term), id(safe)] = (term, made, x)
        return made

    def _depends(self, term: Term) -> bool:
        return any(isinstance(t, Load) and t in self.states for t in walk(term))

    def term(self, term: Term, safe: Term | None = None) -> Expr:
        """A term inside of the function; what does not depend on the state matters where `safe` holds."""
        known = self.memo.get((id(term), id(safe)))
        if known is None:
            known = self.memo[id(term), id(safe)] = self._made(term, safe)
        return known

    def _made(self, term: Term, safe: Term | None) -> Expr:
        match term:
            case Load() if term in self.states:
                return self.member(self.state, self.states[term])
            case Number(value, element):
                return literal(value, element)
            case _ if not self._depends(term):
                known = self.found.get((id(term), id(safe)))
                if known is not None:
                    return known[1]
                x = cut(self.emitter.emit(term, self.space.dims, safe), self.space.dims)
                return self.argument(term, x, safe)
            case Op("cast" | "bitcast" as op, (x,), element):
                return call(op, self.term(x, safe), static=(element,))
            case Op("if", (condition, yes, no)) if self.emitter.checked:
                here = there = safe
                for part in conjuncts(condition):
                    if not self._depends(part):
                        here = self._under(here, part, True)
                if not self._depends(condition):
                    there = self._under(safe, condition, False)
                return call("if", self.term(condition, safe), self.term(yes, here), self.term(no, there))
            case Op(op, args):
                return call(op, *(self.term(a, safe) for a in args))
            case _:
                raise AssertionError(term)

    def _under(self, safe: Term | None, condition: Term, truth: bool) -> Term:
        key = (id(safe), id(condition), truth)
        if key not in self.safe:
            new = condition if truth else Op("not", (condition,), BOOL)
            self.safe[key] = new if safe is None else Op("and", (safe, new), BOOL)
        return self.safe[key]


def _name(emitter: Emitter, stem: str) -> str:
    k, name = 1, stem
    while name in emitter.taken:
        k += 1
        name = f"{stem}_{k}"
    emitter.taken.add(name)
    return name


# Scans


def scan_at_once(emitter: Emitter, once: Once, make: Make) -> str | None:
    """Run the statements as a scan along one dim; its name, or None, with nothing done, where they are none."""
    space = make(once)
    if space.empty or space.guards or len(once.buffers) != 1:
        return None
    (part,), values = unpacked(once, space)
    place = place_of(part)
    (buffer,) = once.buffers
    if place is None or place.dims != frozenset(space.dims):
        return None
    found = _distances(values[0], buffer, part)
    if found is None:
        return None
    dim, distances = found
    if reads_by_state(values, distances.keys()) or (emitter.checked and _checked_by_state(values, distances)):
        return None
    depth = max(distances.values())
    interval = space.dims[dim]
    box = {n: i for n, i in space.dims.items() if n != dim}
    olds: list[Expr] = []
    for c in range(1, depth + 1):
        moved = substituted(part, {dim: number(interval.start - c)}, box, ())
        olds.append(spread(cut(emitter.emit(Load(buffer, moved.location), box), box), box))
    states = {load: c - 1 for load, c in distances.items()}
    body = _Body(emitter, space, [dim], dim, states, olds, box)
    body.count = depth
    new = body.term(values[0])
    if not body.found:
        body.argument(Number(False, BOOL), spread(literal(False, BOOL), {dim: interval}))
    members = [new, *(body.member(body.state, k) for k in range(depth - 1))]
    f = function([body.state, *body.params()], body.packed(members))
    result = scan(f, True, body.packed(olds), *body.arguments(), dim=dim)
    put(emitter, buffer, place, body.member(result, 0), space.dims)
    return dim


def _distances(value: Term, buffer: Buffer, part: Space) -> tuple[str, dict[Load, int]] | None:
    """The dim along which earlier elements are read, and how far back each read is."""
    written = [affine_of(i) for i in part.location]
    found: dict[Load, int] = {}
    along: str | None = None
    for load in {t: None for t in walk(value) if isinstance(t, Load) and t.buffer is buffer}:
        if load.indices == part.location:
            continue
        dim_and_distance = _distance(written, [affine_of(i) for i in load.indices])
        if dim_and_distance is None:
            return None
        dim, distance = dim_and_distance
        if (along is not None and dim != along) or distance < 1 or distance > 8:
            return None
        along = dim
        found[load] = distance
    return None if along is None or along not in part.dims else (along, found)


def _distance(written: Sequence[Affine | None], read: Sequence[Affine | None]) -> tuple[str, int] | None:
    along: tuple[str, int] | None = None
    for w, r in zip(written, read, strict=True):
        if w is None or r is None:
            return None
        difference = r.minus(w)
        if not difference.is_number:
            return None
        if not difference.constant:
            continue
        if len(w.terms) != 1 or not isinstance(w.terms[0][0], str):
            return None
        name, c = w.terms[0]
        if difference.constant % c or along is not None:
            return None
        along = (str(name), -difference.constant // c)
    return along
