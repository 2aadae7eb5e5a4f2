"""Tensors that writes become: over the elements that they write, where each has one writer, or over their iterations.

A write of `t[i * 4 + j]` for i and j of a box is a tensor along one dim, whatever loops the source has: a reader that
knows the iteration knows the element.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import prod

from tensorir.integers.affine import Affine, number, variable
from tensorir.integers.dims import Interval
from tensorir.ir.build import call, function, operator, reduce, scan
from tensorir.ir.nodes import Call, Expr, Lambda, Operator, Var
from tensorir.ir.rewrite import rebuild
from tensorir.ir.types import BOOL, INT32, Scalar, TensorType, bcast
from tensorir.lifting.accesses.space import Space, boxed, joined_name, split, substituted
from tensorir.lifting.dataflow.statements import Statement, Uncovered
from tensorir.lifting.emission.emit import Emitter, whole_of_digits
from tensorir.lifting.emission.stores import Place, forward, place_of, put, wanted_names
from tensorir.lifting.emission.tensors import cut, spread
from tensorir.lifting.nests.linear import affine_of, term_of
from tensorir.lifting.nests.terms import (
    Buffer,
    Linear,
    Load,
    Number,
    Op,
    Term,
    rebuilt,
    sums_in,
    walk,
)
from tensorir.runtime.errors import NOWHERE, Span


@dataclass(frozen=True, slots=True)
class Made:
    """A tensor that a write has become, and which element of it belongs to an iteration of the write."""

    buffer: Buffer
    indices: tuple[Affine, ...]

    def at(self, place: Mapping[str, Affine], ranges: Mapping[str, tuple[int, int]]) -> Term:
        """The value there, for an iteration in terms of others."""
        return Load(self.buffer, tuple(term_of(a, INT32) for a in self.along(place, ranges)))

    def along(self, place: Mapping[str, Affine], ranges: Mapping[str, tuple[int, int]]) -> list[Affine]:
        """The index along each dim of the tensor."""
        return [a.replaced(place, ranges) for a in self.indices]


SMALL = 8
"""Of how many parts a term without reads may be that is computed again wherever it is asked for."""


@dataclass(frozen=True, slots=True)
class Computed:
    """A write of what its iteration tells: a number, or a little arithmetic on indices."""

    term: Term

    def at(self, place: Mapping[str, Affine], ranges: Mapping[str, tuple[int, int]]) -> Term:
        """The value there, for an iteration in terms of others."""
        return with_indices(self.term, place, ranges)


def computed(term: Term) -> Computed | None:
    """A term that needs no tensor; None of one that does."""
    found = list(islice(walk(term), SMALL + 1))
    return None if len(found) > SMALL or any(isinstance(t, Load) for t in found) else Computed(term)


def with_indices(term: Term, values: Mapping[str, Affine], ranges: Mapping[str, tuple[int, int]]) -> Term:
    """A term with indices replaced by sums of others."""

    def rule(t: Term) -> Term | None:
        match t:
            case Linear(affine, element) if affine.names & values.keys():
                return term_of(affine.replaced(values, ranges), element)
            case _:
                return None

    return rebuilt(term, rule)


@dataclass(frozen=True, slots=True)
class Placed:
    """A write as a space, where its results are elements; `over` are dims of which no element tells the value."""

    space: Space
    place: Place
    indices: tuple[Affine, ...]
    name: str
    short: Mapping[str, str]

    @property
    def over(self) -> list[str]:
        return [n for n in self.space.dims if n not in self.place.dims]

    @property
    def left(self) -> dict[str, Interval]:
        return {n: i for n, i in self.space.dims.items() if n in self.place.dims}

    def made(self, emitter: Emitter, element: Scalar, value: Expr) -> Made:
        """The tensor of the value, which has the dims that are left.

        Digits of a place that are loops stay dims of their own: who asks for a place puts them together.
        """
        wanted, extents, indices = list[str | None](), list[int](), list[Affine]()
        parts: list[tuple[tuple[str, ...], int, bool]] = []
        names = wanted_names(self.space)
        for (dims, by, _), index, name in zip(self.place.parts, self.indices, names, strict=True):
            loops = self.loops_of(dims, by, index)
            for digits, constant, along, want in (
                [((n,), 0, variable(loop), n) for n, loop in loops.items()] if loops else [(dims, by, index, name)]
            ):
                if not digits:
                    continue
                size = prod(len(self.space.dims[n]) for n in digits[1:])
                low = self.space.dims[digits[0]].start * size + constant
                parts.append((digits, constant - low, False))
                extents.append(len(self.space.dims[digits[0]]) * size)
                indices.append(along.minus(number(low)))
                wanted.append(want)
        buffer = Buffer(self.name, element, tuple(extents))
        emitter.dims_of(buffer, wanted)
        put(emitter, buffer, Place(tuple(parts)), value, self.left)
        return Made(buffer, tuple(indices))

    def loops_of(self, dims: Sequence[str], by: int, index: Affine) -> dict[str, str]:
        """The loops that several digits of an index are; none if what they are is no loop."""
        if len(dims) < 2 or by != index.constant or not index.is_linear:
            return {}
        by_short = {self.short.get(n, n): n for n, _ in index.terms if isinstance(n, str)}
        sizes = {n: prod(len(self.space.dims[m]) for m in dims[k + 1 :]) for k, n in enumerate(dims)}
        if sizes != {self.short.get(n, n): c for n, c in index.terms if isinstance(n, str)}:
            return {}
        return {n: by_short[n] for n in dims}


@dataclass(frozen=True, slots=True)
class BySums:
    """A value that sums of indices tell, as one over these: `exp(A[2 * t + k])` is along `2 * t + k`.

    So what overlapping tiles have in common is computed once.
    """

    term: Term
    box: dict[str, Interval]
    sums: dict[str, Affine]

    def over_iterations(self, made: Made) -> Made:
        """The same tensor, its elements in terms of iterations."""
        return replace(made, indices=tuple(a.replaced(self.sums, {}) for a in made.indices))


def by_sums(
    term: Term, box: Mapping[str, Interval], taken: Collection[str], reach: Callable[[Affine], Interval]
) -> BySums | None:
    """A settled value over fewer dims than its iterations have, where sums of indices tell it; None elsewhere.

    `reach` tells how far a sum goes where anybody asks for the value.
    """
    found = sums_in((term,))
    if found is None:
        return None
    inner = [Affine(a.terms) for a in found if not a.names.isdisjoint(box)]
    apart = [a for a in dict.fromkeys(inner) if len(a.terms) > 1]
    names = {n for a in apart for n in a.names}
    if not apart or not all(a.is_linear and a.names <= box.keys() for a in apart):
        return None
    if sum(len(a.names) for a in apart) > len(names) or any(names & a.names for a in inner if a not in apart):
        return None
    new: dict[str, Interval] = {n: i for n, i in box.items() if n not in names}
    sums: dict[str, Affine] = {}
    for a in apart:
        name = a.bare_name
        if name is None or name in taken:
            return None
        new[name] = reach(a)
        sums[name] = a
    if prod(len(i) for i in new.values()) >= prod(len(i) for i in box.values()):
        return None
    by_terms = {a: name for name, a in sums.items()}

    def rule(t: Term) -> Term | None:
        match t:
            case Linear(affine, element) if Affine(affine.terms) in by_terms:
                at = variable(by_terms[Affine(affine.terms)]).plus(number(affine.constant))
                return term_of(at, element)
            case _:
                return None

    return BySums(rebuilt(term, rule), new, sums)


def placed(
    name: str, at: Sequence[Affine], box: Mapping[str, Interval], value: Term, guards: Sequence[Term],
    over: Sequence[str], short: Mapping[str, str], outer: Mapping[str, tuple[int, int]],
    make: Callable[..., Space] = boxed,
) -> Placed | None:  # fmt: skip
    """A write as a space of which elements tell all dims but those of some; None where they do not.

    Dims get the names that `short` has for them; `make` tells which of them are joined and split.
    """
    location = tuple(term_of(a, INT32) for a in at)
    space = Space(dict(box), location, value, tuple(guards), outer)
    moved = {n: variable(s) for n, s in short.items() if n in box and n != s}
    space = substituted(space, moved, {short.get(n, n): i for n, i in box.items()}, space.guards) if moved else space
    space = make(space.dims, space.location, space.value, space.guards, outer)
    if space.empty or place_of(space) is None:
        return None
    space = forward(_with_digits_apart(space))
    place = place_of(space)
    if place is None:
        return None
    free = {n for n in space.dims if n not in place.dims}
    told = {n for a in at for n in a.names}
    if not set(over) <= box.keys() or told & set(over) or (free and not over):
        return None
    if any(n not in told and n not in over and len(i) > 1 for n, i in box.items()):
        return None
    return Placed(space, place, tuple(at), name, short)


def _with_digits_apart(space: Space) -> Space:
    """The space with the dims apart of which the value asks for digits, where elements still tell them: what is spread,
    split and merged then is looked up nowhere.
    """
    while True:
        asked = rebuilt(space.value, lambda t, ranges=space.ranges: _at_wholes(t, ranges))
        new = split(space, (asked, *space.guards))
        if new is None or place_of(new) is None:
            return space
        space = new


def _at_wholes(t: Term, ranges: Mapping[str, tuple[int, int]]) -> Term | None:
    """A read at all digits of some sums as what these tell: dims that are one for it need not be apart."""
    sums = [affine_of(i) for i in t.indices] if isinstance(t, Load) else []
    shape = list(t.buffer.shape) if isinstance(t, Load) else []
    while (found := whole_of_digits(sums, shape, ranges)) is not None:
        k, j, whole = found
        rest = [m for m in range(len(sums)) if m not in (k, j)]
        sums, shape = [whole, *(sums[m] for m in rest)], [shape[k] * shape[j], *(shape[m] for m in rest)]
        if all(a is not None and a.is_linear for a in sums):
            return Op("values", tuple(term_of(a, INT32) for a in sums if a is not None), BOOL)
    return None


def by_digits(emitter: Emitter, term: Term, box: Mapping[str, Interval]) -> Expr:
    """A settled term as a tensor, by the digits of indices where it asks for these: `A[i // 3]` is `A[j]`, spread along
    a dim of 3.
    """
    place = tuple(term_of(variable(n), INT32) for n in box)
    space = _with_digits_apart(Space(dict(box), place, term, (), emitter.ranges))
    x, found = cut(emitter.emit(space.value, space.dims), space.dims), place_of(space)
    for name, (digits, _, _) in zip(box, () if found is None else found.parts, strict=found is not None):
        if len(digits) > 1 and any(d in x.tensor.dims for d in digits):
            x = spread(x, {d: space.dims[d] for d in digits})
            inner = digits[-1]
            for d in reversed(digits[:-1]):
                whole = name if d == digits[0] else f"{d}__{inner}"
                x, inner = call("merge_dims", x, static=(d, inner, whole)), whole
    return x


def short_names(s: Statement, taken: Collection[str] = ()) -> dict[str, str]:
    """The names that loops have in the source, where a statement has no two of a name."""
    found: dict[str, str] = {}
    for loop in s.loops:
        title = re.sub(r"\W", "_", loop.title)
        name = title if re.fullmatch(rf"{title}(_\d+)?", loop.dim) else loop.dim
        if loop.dim not in taken and name not in found.values() and name not in taken:
            found[loop.dim] = name
    others = {n for n in s.names if n not in found}
    return {n: name for n, name in found.items() if name not in others}


def names_along(s: Statement) -> list[str | None]:
    """The loops of a write that go along the dims of a buffer."""
    short = short_names(s)
    found: list[str | None] = []
    for a in s.at:
        names = [short.get(n, n) for n, _ in sorted(a.terms, key=lambda t: -abs(t[1])) if isinstance(n, str)]
        name = (
            functools.reduce(lambda outer, inner: joined_name(outer, inner, {}), names)
            if names and a.is_linear
            else None
        )
        found.append(None if name in found else name)
    return found


# Expressions for one iteration as expressions for all of them: operands get dims, and what combines them follows.


def applied(e: Expr, values: Mapping[Var, Expr]) -> Expr:
    """The expression with variables replaced by tensors of more dims, which all broadcast by name.

    >>> from tensorir.text import parse_expr
    >>> from tensorir.ir.types import tensor
    >>> x, y = Var("x", tensor("float", K=(0, 3))), Var("y", tensor("float", K=(0, 3), I=(0, 2)))
    >>> applied(parse_expr("reduce(+, 0.0, K)(x)", [x]), {x: y}).type
    tensor<float, I[0:2]>
    >>> e = parse_expr("scan(λ(s: tensor<float>, v: tensor<float>) → s × v, true, 1.0, K)(x)", [x])
    >>> applied(e, {x: y}).type
    tensor<float, K[0:3], I[0:2]>
    """
    done: dict[int, Expr] = {}
    stack: list[tuple[Expr, bool]] = [(e, False)]
    while stack:
        node, ready = stack.pop()
        if id(node) in done:
            continue
        if node.free.isdisjoint(values) or isinstance(node, Lambda):
            done[id(node)] = node  # a function is made where it is called
        elif isinstance(node, Var):
            done[id(node)] = values[node]
        elif not ready:
            stack.append((node, True))
            stack.extend((c, False) for c in node.children if id(c) not in done)
        else:
            done[id(node)] = _made(node, tuple(done[id(c)] for c in node.children), values)
    return done[id(e)]


def _made(node: Expr, children: tuple[Expr, ...], values: Mapping[Var, Expr]) -> Expr:
    match node:
        case Call("reduce" | "scan", (Lambda() | Operator() as f, *_)):
            _, init, *xs = children
            return _fold(node, f, init, xs, values)
        case Call("concat"):
            whole = bcast([c.tensor.dims.without(*_along(children)) for c in children])
            return call("concat", *(spread(c, dict(whole.items)) for c in children), span=node.span)
        case Call("loop"):
            raise Uncovered("a loop over values of a loop")
        case Call():
            return call(node.op, *children, static=node.static, span=node.span)
        case _:
            return rebuild(node, children)


def _along(parts: Sequence[Expr]) -> tuple[str, ...]:
    """The dim along which parts follow each other."""
    first = parts[0].tensor.dims
    return tuple(n for n, i in first.items if any(p.tensor.dims.get(n) not in (None, i) for p in parts[1:]))


def _fold(node: Call, f: Lambda | Operator, init: Expr, xs: Sequence[Expr], values: Mapping[Var, Expr]) -> Expr:
    dim = node.static[-1]
    elements = [x.tensor.on(x.tensor.dims.without(dim)) for x in xs]
    captured = [values[v].tensor for v in f.free if v in values]
    state = TensorType(init.tensor.element, bcast([*elements, init.tensor, *captured]))
    if isinstance(f, Operator):
        made = operator(f.op, state, *elements)
    else:
        params = [Var(p.name, t) for p, t in zip(f.params, (state, *elements), strict=True)]
        made = function(params, applied(f.body, {**values, **dict(zip(f.params, params, strict=True))}), span=f.span)
    if node.op == "reduce":
        return reduce(made, init, *xs, dim=dim, span=node.span)
    return scan(made, node.static[0], init, *xs, dim=dim, span=node.span)


# Reads and writes whose places data tell: a read of all elements that is looked up, a scatter into what was there.


def looked_up(found: Term, places: Mapping[str, tuple[Term, int]], span: Span = NOWHERE) -> Term:
    """The element at places that terms tell, each of so many along its dim; zero outside. `span` is the read's.

    >>> from tensorir.lifting.nests.terms import show
    >>> a, i = Buffer("A", INT32, (8,)), Load(Buffer("I", INT32, ()), ())
    >>> show(looked_up(Load(a, (Linear(variable("x"), INT32),)), {"x": (i, 8)}))
    'A[I[]]'
    """

    def rule(t: Term) -> Term | None:
        match t:
            case Linear(affine) if affine.names & places.keys():
                return _with_terms(affine, places)
            case Load(buffer, indices, at) if at is NOWHERE and span is not NOWHERE:
                return Load(buffer, indices, span)
            case _:
                return None

    term = rebuilt(found, rule)
    if is_whole(found, places):
        return term
    for place, extent in places.values():
        low = Op("greater_equal", (place, Number(0, place.element)), BOOL)
        high = Op("less", (place, Number(extent, place.element)), BOOL)
        term = Op("if", (Op("and", (low, high), BOOL), term, Number(0, term.element)), term.element)
    return term


def is_whole(found: Term, places: Mapping[str, tuple[Term, int]]) -> bool:
    """True if what places are looked up in is a tensor with as many elements along them."""
    return isinstance(found, Load) and all(
        any(isinstance(i, Linear) and i.affine == variable(n) and found.buffer.shape[k] == extent
            for k, i in enumerate(found.indices))
        for n, (_, extent) in places.items()
    )  # fmt: skip


def _with_terms(a: Affine, places: Mapping[str, tuple[Term, int]]) -> Term:
    total: Term | None = None
    known = Affine(tuple((n, c) for n, c in a.terms if isinstance(n, str) and n not in places), a.constant)
    for atom, c in a.terms:
        if isinstance(atom, str) and atom in places:
            part, _ = places[atom]
        elif not isinstance(atom, str):
            inner = _with_terms(atom.inner, places)
            part = Op("floordiv", (inner, Number(atom.by, inner.element)), inner.element)
        else:
            continue
        part = part if c == 1 else Op("multiplies", (part, Number(c, part.element)), part.element)
        total = part if total is None else Op("plus", (total, part), part.element)
    if total is None:
        return term_of(known, INT32)
    if known.terms or known.constant:
        total = Op("plus", (total, term_of(known, total.element)), total.element)
    return total
