"""Statements that are one: the same store on adjacent boxes of iterations is one store on their union.

A loop that was cut into parts (its first iterations, its body, its rest) leaves one statement per part. Two of them
join where their boxes differ in one dim, in which they are adjacent, and no statement has to run between them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice, product

from tensorir.lift.accesses.components import components
from tensorir.lift.accesses.dependence import Dependence, common_loops, dependences, touch
from tensorir.lift.accesses.inverse import at_iteration
from tensorir.lift.accesses.sets import conjuncts
from tensorir.lift.accesses.space import Space, substituted
from tensorir.lift.emission.folds import fold_of
from tensorir.lift.nests.affine import number, variable
from tensorir.lift.nests.linear import affine_of
from tensorir.lift.nests.nest import Leaf, Loop, Store
from tensorir.lift.nests.terms import Linear, Load, Number, Op, Term, walk
from tensorir.lift.storage.copies import whole_space
from tensorir.types import BOOL, INT32, Interval

__all__ = ["joined"]


@dataclass(frozen=True, slots=True)
class _Part:
    """A statement as a box: what it does to each point, under names that do not tell boxes apart."""

    leaf: Leaf
    fold: str | None
    space: Space
    shape: tuple[Term, ...]
    dims: tuple[str, ...]
    """The dims in the order of the shape."""


def joined(statements: Sequence[Leaf], found: Sequence[Dependence]) -> tuple[list[Leaf], list[Dependence]]:
    """The statements with parts of one joined, and the dependences between them."""
    statements, found = list(statements), list(found)
    while True:
        pair = _pair(statements, found)
        if pair is None:
            return statements, found
        first, second, leaf = pair
        place = {k: k - (k > second) for k in range(len(statements)) if k != second} | {second: first}
        kept = dict.fromkeys(
            replace(d, source=place[d.source], sink=place[d.sink])
            for d in found
            if not {d.source, d.sink} & {first, second}
            or (not {d.source, d.sink} <= {first, second} and _meet(statements[d.source], statements[d.sink]))
        )
        statements[first] = leaf
        del statements[second]
        found = [*kept, *(replace(d, source=first, sink=first) for d in dependences([leaf], (), {}))]


def _meet(a: Leaf, b: Leaf) -> bool:
    """Whether a dependence between two statements is one: those that share no loop are taken to have one."""
    return common_loops(a, b) > 0 or touch(a, b)


def _pair(statements: Sequence[Leaf], found: Sequence[Dependence]) -> tuple[int, int, Leaf] | None:
    """Two statements that join, by position, and what they become."""
    writers: dict[object, list[int]] = {}
    for k, leaf in enumerate(statements):
        if isinstance(leaf.node, Store) and leaf.loops:
            writers.setdefault(leaf.node.buffer, []).append(k)
    several = [group for group in writers.values() if len(group) > 1]
    if not several:
        return None
    edges = {(d.source, d.sink) for d in found}

    @cache
    def meet(a: int, b: int) -> bool:
        return _meet(statements[a], statements[b])

    alone = {m[0] for m in components(len(statements), edges) if len(m) == 1}
    for group in several:
        parts = {k: part for k in group if k in alone and (part := _part(statements[k], (k, k) in edges)) is not None}
        for a in parts:
            for b in parts:
                if a < b and (leaf := _union(parts[a], parts[b])) is not None:
                    direct = parts[a].fold is not None
                    if not _between(a, b, edges, meet, direct) and not _between(b, a, edges, meet, False):
                        return a, b, leaf
    return None


def _between(a: int, b: int, edges: set[tuple[int, int]], meet: Callable[[int, int], bool], direct: bool) -> bool:
    """Whether something must run after a and before b; `direct` allows that b itself must run after a."""
    pending, seen = [a], {a}
    while pending:
        k = pending.pop()
        for s, t in edges:
            if s != k or t in seen or (direct and (s, t) == (a, b)) or not meet(s, t):
                continue
            if t == b:
                return True
            seen.add(t)
            pending.append(t)
    return False


def _part(leaf: Leaf, ordered: bool) -> _Part | None:
    """A statement that is a fold, or of which no iteration needs another."""
    node = leaf.node
    assert isinstance(node, Store)
    fold = fold_of(node)
    if fold is None and ordered:
        return None
    if fold is None:
        space = whole_space(leaf)
    else:
        space = whole_space(replace(leaf, node=Store(node.buffer, node.indices, fold[1], (*node.guards, *fold[2]))))
    if space is None or space.empty:
        return None
    return _as_part(leaf, None if fold is None else fold[0], _from_its_place(space))


def _as_part(leaf: Leaf, fold: str | None, space: Space) -> _Part | None:
    order = {n: k for k, n in enumerate(_met(space))}
    names = {n: variable(f" {k}") for n, k in order.items()}
    dims = {f" {order[n]}": i for n, i in space.dims.items() if n in order}
    if len(dims) < len(space.dims):
        return None
    plain = substituted(space, names, dims, space.guards)
    shape = (*plain.location, plain.value, *plain.guards)
    return _Part(leaf, fold, space, shape, tuple(order))


def _met(space: Space) -> dict[str, None]:
    """The dims of a space in the order in which its terms name them."""
    found: dict[str, None] = {}
    for term in space.terms():
        for t in walk(term):
            if isinstance(t, Linear):
                found.update({n: None for n, _ in t.affine.terms if isinstance(n, str) and n in space.dims})
                found.update(dict.fromkeys(sorted((t.affine.names & space.dims.keys()) - found.keys())))
    return found


def _from_its_place(space: Space) -> Space:
    """The space with dims counted as the elements that it writes."""
    moved: dict[str, int] = {}
    for term in space.location:
        a = affine_of(term)
        if a is not None and a.constant and len(a.terms) == 1 and a.terms[0][1] == 1 and isinstance(a.terms[0][0], str):
            moved.setdefault(a.terms[0][0], a.constant)
    if not moved:
        return space
    dims = {n: Interval(i.start + moved.get(n, 0), i.stop + moved.get(n, 0)) for n, i in space.dims.items()}
    return substituted(space, {n: variable(n).plus(number(-c)) for n, c in moved.items()}, dims, space.guards)


def _union(a: _Part, b: _Part) -> Leaf | None:
    """One statement for two that do the same on adjacent boxes."""
    if a.fold != b.fold:
        return None
    if len(a.dims) < len(b.dims):
        a, b = b, a
    if len(a.dims) == len(b.dims) + 1:
        return next((_joined(a, n, i) for n, i in _ends(a) if _does(a, n, i, b)), None)
    if len(a.dims) != len(b.dims):
        return None
    if a.shape == b.shape:
        there = [(n, b.space.dims[m]) for n, m in zip(a.dims, b.dims, strict=True)]
        apart = [(n, i) for n, i in there if a.space.dims[n] != i]
        return _joined(a, *apart[0]) if len(apart) == 1 and apart[0] in _next_to(a, b) else None
    for one, other in ((a, b), (b, a)):
        found = next(((n, i) for n, i in _next_to(one, other) if _does(one, n, i, other)), None)
        if found is not None:
            return _joined(one, *found)
    return _of_both(a, b)


def _ends(a: _Part) -> Iterator[tuple[str, Interval]]:
    """The iterations that are next to a box."""
    for n in a.dims:
        i = a.space.dims[n]
        yield n, Interval(i.stop, i.stop + 1)
        yield n, Interval(i.start - 1, i.start)


def _next_to(a: _Part, b: _Part) -> Iterator[tuple[str, Interval]]:
    """The dims of a box, and intervals of another box that are next to theirs."""
    for n in a.dims:
        for j in dict.fromkeys(b.space.dims.values()):
            if a.space.dims[n].stop == j.start or j.stop == a.space.dims[n].start:
                yield n, j


def _does(a: _Part, name: str, i: Interval, b: _Part) -> bool:
    """Whether a statement does in more iterations what another one does, which lacks the dim if it is one more."""
    there = _there(a, name, i)
    if there is None or there.shape != b.shape or len(there.dims) != len(b.dims):
        return False
    return all(there.space.dims[n] == b.space.dims[m] for n, m in zip(there.dims, b.dims, strict=True))


def _there(a: _Part, name: str, i: Interval) -> _Part | None:
    """A statement in other iterations."""
    dims = {n: i if n == name else j for n, j in a.space.dims.items() if n != name or len(i) > 1}
    value = {} if len(i) > 1 else {name: number(i.start)}
    return _as_part(a.leaf, a.fold, substituted(a.space, value, dims, a.space.guards))


def _of_both(a: _Part, b: _Part) -> Leaf | None:
    """One statement with the conditions of two, of which each part lacks those that always hold in it."""
    names = {f" {k}": variable(n) for k, n in enumerate(a.dims)}
    count = len(a.space.location)
    if a.shape[:count] != b.shape[:count] or a.shape[count + 1 :] != b.shape[count + 1 :]:
        return None
    for merged in _merged(a.shape[count], b.shape[count]):
        value = at_iteration(merged, names)
        both = replace(a, space=replace(a.space, value=value))
        for n, i in _next_to(a, b):
            if _does(both, n, a.space.dims[n], a) and _does(both, n, i, b):
                return _joined(both, n, i)
    return None


def _merged(x: Term, y: Term) -> Iterator[Term]:
    """Terms that may be two terms, each where some conditions are known."""
    match x, y:
        case _ if x == y:
            yield x
        case Op("if", (c, p, q)), Op("if", (d, r, s)) if p == r and q == s:
            kind = "if" if any(isinstance(t, Op) and t.op == "if" for t in (c, d)) else "and"
            yield Op("if", (_all_of(kind, _in_turn(conjuncts(c), conjuncts(d))), p, q), x.element)
        case Op("if", (_, p, q)), _ if y in (p, q):
            yield x
        case _, Op("if", (_, p, q)) if x in (p, q):
            yield y
        case Op("if", (c, p, q)), Op("if", (d, r, s)) if q == s:
            yield Op("if", (d, r, x), x.element)
            yield Op("if", (c, p, y), x.element)
        case Op(op, args), Op(other, more) if op == other and len(args) == len(more):
            for new in _merged_all(args, more):
                yield replace(x, args=new)
        case Load(buffer, indices), Load(other, more) if buffer is other:
            for new in _merged_all(indices, more):
                yield replace(x, indices=new)
        case _:
            pass


MOST_MERGED = 16
"""Terms that are tried in the place of two."""


def _merged_all(xs: Sequence[Term], ys: Sequence[Term]) -> Iterator[tuple[Term, ...]]:
    every = (list(_merged(x, y)) for x, y in zip(xs, ys, strict=True))
    return islice(product(*every), MOST_MERGED)


def _in_turn(a: list[Term], b: list[Term]) -> list[Term]:
    """What two lists hold, in an order that both have."""
    found: list[Term] = []
    for x in a:
        if x in b:
            found += [y for y in b[: b.index(x)] if y not in found]
        found.append(x)
    return [*found, *(y for y in b if y not in found)]


def _all_of(kind: str, conditions: list[Term]) -> Term:
    """Conditions that must all hold, as `kind` puts them together."""
    whole, *rest = conditions
    for c in rest:
        whole = Op(kind, (whole, c) if kind == "and" else (whole, c, Number(False, BOOL)), BOOL)
    return whole


def _joined(a: _Part, name: str, more: Interval) -> Leaf:
    """A statement on further iterations."""
    node = a.leaf.node
    assert isinstance(node, Store)
    value = a.space.value
    if a.fold is not None:
        value = Op(a.fold, (Load(node.buffer, a.space.location), value), node.buffer.element)
    loops = tuple(
        Loop(n, Number(k.start, INT32), Number(len(k), INT32), (), True, a.leaf.loops[0].span, n)
        for n, k in {**a.space.dims, name: a.space.dims[name] | more}.items()
    )
    return Leaf(Store(node.buffer, a.space.location, value, a.space.guards, node.span), loops, a.leaf.place)
