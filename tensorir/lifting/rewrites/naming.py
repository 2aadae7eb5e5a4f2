"""Names of dims: each its own, one for what is the same, few renames.

One name per dim: renames that only join two names of one thing go away.

Two names are one wherever no expression needs them apart: an expression, its operands, and a function with all that is
inside of it need the names of their dims apart; the two sides of a rename do not.

>>> from tensorir.text import parse
>>> f = parse("f(A: tensor<float, k[0:3]>, B: tensor<float, i[0:3]>) { B ← rename(k → i)(A + reduce(+, 0.0, k)(A)); }")
>>> print(one_name_each(f))
f(A: tensor<float, i[0:3]>, B: tensor<float, i[0:3]>) {
  B ← A + reduce(+, 0.0, i)(A);
}

A name per thing: dims that share a name without being one dim get names of their own.

Dims are one dim where an expression needs them to be: those of operands by whose names it puts these together, of a
variable wherever it is used, of a function and of its body. A reduction over `k` and another one over `k` are two, and
so are the axis that a read selects from and one of the same name that its index has. What no variable is in, such as
coordinates, belongs to where it is used.

>>> x = "A: tensor<float, k[0:3]>, t: tensor<int, k[0:3]>"
>>> f = parse(f"f({x}, B: tensor<float, k[0:3]>) {{ B ← gather(k, clamp)(A, t); }}")
>>> print(with_distinct_names(f))
f(A: tensor<float, k_1[0:3]>, t: tensor<int, k[0:3]>, B: tensor<float, k[0:3]>) {
  B ← gather(k_1, clamp)(A, t);
}
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from functools import cache
from typing import Any

from tensorir.integers.dims import Dims, Interval
from tensorir.ir.build import call, closure, fencil, operator, reduce
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Apply, Call, Expr, Fencil, Lambda, Literal, Operator, Var
from tensorir.ir.rewrite import postorder, rebuild, use_counts, values, with_label, with_values
from tensorir.ir.types import FunctionType, Scalar, TensorType
from tensorir.lifting.emission.tensors import neutral, shifted
from tensorir.passes.base import remade, rewritten


def one_name_each(f: Fencil, kept: Set[str] = frozenset()) -> Fencil:
    """The fencil with as few names of dims, and as few renames, as its expressions allow.

    Of several names for one thing one that is `kept` stays, or else a short one.
    """
    f = _named_inside(f)
    roots = list(values(f.closures))
    nodes = list(postorder(*roots))
    classes = _Classes(lambda: _apart(f, roots), lambda: _read(nodes))
    for e in nodes:
        if isinstance(e, Call) and e.op == "rename":
            for a, b in e.static[0]:
                classes.join([(a, b)])
    splits = [e for e in nodes if isinstance(e, Call) and e.op == "split_dim"]
    while any(classes.join([pair]) for pair in _of_splits(splits, classes)):
        pass
    for k, p in enumerate(f.params):
        # what is of one shape has one meaning per axis, where that can be
        for q in f.params[:k]:
            if p.type.dims.size and _shape(p) == _shape(q):
                pairs = list(zip(q.type.dims.names, p.type.dims.names, strict=True))
                if all(classes.same(*pair) for pair in pairs) or classes.join(pairs, clearly=True):
                    break
    if not classes.of:
        return f
    order = {n: k for k, n in enumerate(_in_order(f, roots))}
    names = {n: min(group, key=lambda m: (m not in kept, len(m), order[m])) for n, group in classes.of.items()}
    names = {n: new for n, new in names.items() if n != new}
    params = [variable_under(p, names) for p in f.params]
    made = under_names(roots, names)
    stores = [
        closure(variable_under(c.output, names), e, None if c.region is None else dims_under(c.region, names), c.span)
        for c, e in zip(f.closures, made, strict=True)
    ]
    return fencil(f.name, params, stores, f.span, f.buffers)


def _named_inside(f: Fencil) -> Fencil:
    """A rename of what nothing else uses gives its names to all that is inside, parameters of the fencil included."""
    while (new := _named_inside_once(f)) is not f:
        f = new
    return f


def _named_inside_once(f: Fencil) -> Fencil:
    roots = list(values(f.closures))
    nodes = list(postorder(*roots))
    renames = [e for e in nodes if isinstance(e, Call) and e.op == "rename"]
    if not renames:
        return f
    written = {c.output for c in f.closures}
    users: dict[int, list[int]] = {}
    for e in nodes:
        for c in e.children:
            users.setdefault(id(c), []).append(id(e))
    roots_now = {id(r) for r in roots}
    for e in renames:
        (inner,) = e.children
        # a variable that is written has its names, and a parameter of a function around is none of the fencil
        if any(v in written or v not in f.params for v in inner.free):
            continue
        below = list(postorder(inner))
        own = {id(b) for b in below} | {id(e)}
        if any(id(b) in roots_now or any(u not in own for u in users[id(b)]) for b in below):
            continue
        names = dict(e.static[0])
        # names that go away are free for others
        if {n for b in below for n in own_names(b)}.difference(names).isdisjoint(names.values()):
            params = {v: variable_under(v, names) for v in inner.free}
            made = {id(e): under_names([inner], names)[0]}
            for x in nodes:
                if id(x) not in made:
                    made[id(x)] = rebuild(x, tuple([made[id(c)] for c in x.children]))
            stores = [closure(c.output, made[id(c.value)], c.region, c.span) for c in f.closures]
            return fencil(f.name, [params.get(p, p) for p in f.params], stores, f.span, f.buffers)
    return f


Sets = Iterable[frozenset[str]]


class _Classes:
    """Names that are one, by sets of names that have to stay apart, and of those that better do."""

    def __init__(self, apart: Callable[[], Sets], better: Callable[[], Sets]) -> None:
        self.of: dict[str, frozenset[str]] = {}
        self._find = apart, better
        self._apart: tuple[list[frozenset[str]], list[frozenset[str]]] | None = None

    def same(self, a: str, b: str) -> bool:
        return a == b or b in self.of.get(a, ())

    def join(self, pairs: Iterable[tuple[str, str]], clearly: bool = False) -> bool:
        """Makes the names of each pair one, if all can be (and, if `clearly`, better are); whether that is news."""
        if self._apart is None:
            self._apart = list(self._find[0]()), list(self._find[1]())
        apart = [*self._apart[0], *self._apart[1]] if clearly else self._apart[0]
        before = dict(self.of)
        for a, b in pairs:
            one, other = self.of.get(a, frozenset((a,))), self.of.get(b, frozenset((b,)))
            if one != other and any(group & one and group & other for group in apart):
                self.of = before
                return False
            if one != other:
                self.of.update(dict.fromkeys(one | other, one | other))
        return self.of != before


def _of_splits(splits: Iterable[Call], classes: _Classes) -> Iterator[tuple[str, str]]:
    """Dims whose splits have the same parts, and the parts of each dim."""
    whole: dict[tuple[Any, ...], str] = {}
    parts: dict[tuple[Any, ...], tuple[str, str]] = {}
    for e in splits:
        dim, outer, inner, size = e.static
        interval = e.args[0].tensor.dims[dim]
        one, a, b = (min(classes.of.get(n, (n,))) for n in (dim, outer, inner))
        first = whole.setdefault((a, b, size, interval), dim)
        if not classes.same(first, dim):
            yield dim, first
        for old, new in zip(parts.setdefault((one, size, interval), (outer, inner)), (outer, inner), strict=True):
            if not classes.same(old, new):
                yield old, new


def _shape(v: Var) -> tuple[Interval, ...]:
    return tuple(i for _, i in v.type.dims.items)


def _apart(f: Fencil, roots: Iterable[Expr]) -> set[frozenset[str]]:
    """Sets of names of which each must stay what it is."""
    found = {frozenset(p.type.dims.names) for p in f.params}
    inside: dict[int, frozenset[str]] = {}
    for e in postorder(*roots):
        below = [inside[id(c)] for c in e.children]
        inside[id(e)] = own_names(e).union(*below)
        match e:
            case Call("rename"):
                found |= {frozenset(e.tensor.dims.names), frozenset(e.args[0].tensor.dims.names)}
            case Call("gather", (x, *_)):
                # the axes that are selected from are none of the result's
                found |= {frozenset(e.tensor.dims.names), frozenset(x.tensor.dims.names)}
            case Lambda():
                found.add(inside[id(e)])
            case _:
                met = set(own_names(e))
                for c in e.children:
                    met |= inside[id(c)] if isinstance(c, Lambda | Operator) else set(c.tensor.dims.names)
                found.add(frozenset(met))
    return {g for g in found if len(g) > 1}


def _read(nodes: Iterable[Expr]) -> Iterator[frozenset[str]]:
    """The axes that reads select from, with the names of what is read."""
    for e in nodes:
        if isinstance(e, Call) and e.op == "gather":
            yield frozenset((*e.static[0], *e.tensor.dims.names))


def own_names(e: Expr) -> frozenset[str]:
    """The names that a node mentions itself: in its type and its static parameters."""
    match e:
        case Lambda(params) | Operator(_, params):
            types = [p.type if isinstance(p, Var) else p for p in params]
            return frozenset(n for t in types for n in t.dims.names)
        case Call(op, _, static) if slots := _slots_of(op):
            mentioned: list[str] = [*e.tensor.dims.names]
            for k, slot in slots:
                if static[k] is not None:
                    mentioned += SLOTS[slot][1](static[k])
            return frozenset(mentioned)
        case _:
            return frozenset(e.tensor.dims.names)


def _in_order(f: Fencil, roots: Iterable[Expr]) -> dict[str, None]:
    """All names, those of outputs first, then those of parameters."""
    found: dict[str, None] = {}
    for v in (*f.outputs, *f.params):
        found.update(dict.fromkeys(v.type.dims.names))
    for e in postorder(*roots):
        found.update(dict.fromkeys(sorted(own_names(e) - found.keys())))
    return found


def under_names(roots: Sequence[Expr], names: Mapping[str, str]) -> list[Expr]:
    """The expressions with dims under other names, wherever they are mentioned."""
    done: dict[int, Expr] = {}
    for e in postorder(*roots):
        children = tuple(done[id(c)] for c in e.children)
        done[id(e)] = node_under(e, children, names)
    return [done[id(root)] for root in roots]


def node_under(e: Expr, children: tuple[Expr, ...], names: Mapping[str, str]) -> Expr:
    match e:
        case Var():
            return variable_under(e, names)
        case Lambda(params):
            new = tuple(variable_under(p, names) for p in params)
            changed = any(a is not b for a, b in zip(new, params, strict=True))
            return dataclasses.replace(e, params=new, results=children) if changed else rebuild(e, children)
        case Operator(_, params):
            types = tuple(_type(p, names) for p in params)
            changed = any(a is not b for a, b in zip(types, params, strict=True))
            return dataclasses.replace(e, params=types) if changed else e
        case Call(op, _, static):
            mentioned = list(static)
            for k, slot in _slots_of(op):
                if static[k] is not None:
                    mentioned[k] = SLOTS[slot][0](static[k], names)
            if op == "rename" and not mentioned[0]:
                return with_label(children[0], e.label) if e.label else children[0]
            if (new := tuple(mentioned)) == tuple(static):
                return rebuild(e, children)
            return dataclasses.replace(e, args=children, static=new)
        case Apply():
            return rebuild(e, children)
        case _:
            return e


def variable_under(v: Var, names: Mapping[str, str]) -> Var:
    new = _type(v.type, names)
    return v if new is v.type else dataclasses.replace(v, type=new)


def _type(t: TensorType, names: Mapping[str, str]) -> TensorType:
    return t.on(dims_under(t.dims, names)) if any(n in names for n in t.dims.names) else t


def dims_under(dims: Dims, names: Mapping[str, str]) -> Dims:
    return Dims(tuple((names.get(n, n), i) for n, i in dims.items))


@cache
def _slots_of(op: str) -> tuple[tuple[int, str], ...]:
    """The static parameters of a builtin that mention dims, with their kinds."""
    return tuple((k, slot) for k, slot in enumerate(TABLE[op].static_slots) if slot in SLOTS)


def _several(dims: Sequence[str], names: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(names.get(d, d) for d in dims)


def _kept(pairs: Sequence[tuple[str, str]], names: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    new = ((names.get(a, a), names.get(b, b)) for a, b in pairs)
    return tuple((a, b) for a, b in new if a != b)


SLOTS: dict[str, tuple[Callable[[Any, Mapping[str, str]], Any], Callable[[Any], Iterable[str]]]] = {
    "dim": (lambda d, names: names.get(d, d), lambda d: (d,)),
    "dim?": (lambda d, names: names.get(d, d), lambda d: (d,)),
    "dims": (_several, tuple),
    "over": (_several, tuple),
    "intervals": (dims_under, lambda d: d.names),
    "pairs": (_kept, lambda pairs: (n for pair in pairs for n in pair)),
}
"""Per kind of static parameter that mentions dims: it under other names, and the dims that it mentions."""

Slot = tuple[Hashable, str]
"""A place where a name stands: an expression, or what an expression takes from its operands, and the name there."""


def with_distinct_names(f: Fencil) -> Fencil:
    """The fencil with names such that what has one name is one dim."""
    every = list(postorder(*values(f.closures)))
    nodes = [e for e in every if e.free]
    same = _Same()
    for v in (*f.outputs, *f.params):
        same.mention(_place(v), v.type.dims.names)
    for k, c in enumerate(f.closures):
        same.join(_at(("value", k), 0, c.value), _place(c.output), _dims_of(c.value))
    for e in nodes:
        _meet(e, same)
    names = same.names({n for e in every for n in own_names(e)})
    if not names:
        return f
    done: dict[int, Expr] = {}
    closed: dict[tuple[int, tuple[tuple[str, str], ...]], Expr] = {}

    def under(place: Hashable, mentioned: Iterable[str]) -> dict[str, str]:
        return {n: names[place, n] for n in mentioned if (place, n) in names}

    def operand(parent: Hashable, k: int, e: Expr) -> Expr:
        if e.free:
            return done[id(e)]
        new = under(_at(parent, k, e), dict.fromkeys(n for inner in postorder(e) for n in sorted(own_names(inner))))
        key = id(e), tuple(new.items())
        if key not in closed:
            closed[key] = under_names([e], new)[0]
        return closed[key]

    for e in nodes:
        place, mentioned = _place(e), own_names(e)
        children = tuple(operand(place, k, c) for k, c in enumerate(e.children))
        done[id(e)] = _renamed(e, children, under(place, mentioned), under(("taken", place), mentioned))
    stores = [
        closure(
            variable_under(c.output, under(_place(c.output), c.output.type.dims.names)),
            operand(("value", k), 0, c.value),
            None if c.region is None else dims_under(c.region, under(_place(c.output), c.region.names)),
            c.span,
        )
        for k, c in enumerate(f.closures)
    ]
    params = [variable_under(p, under(_place(p), p.type.dims.names)) for p in f.params]
    return fencil(f.name, params, stores, f.span, f.buffers)


class _Same:
    """Names and their places that are of one dim."""

    def __init__(self) -> None:
        self.parent: dict[Slot, Slot] = {}

    def mention(self, place: Hashable, names: Iterable[str]) -> None:
        for n in names:
            self.parent.setdefault((place, n), (place, n))

    def join(self, one: Hashable, other: Hashable, names: Iterable[str]) -> None:
        for n in names:
            a, b = self._root((one, n)), self._root((other, n))
            if a != b:
                self.parent[b] = a

    def names(self, known: Iterable[str]) -> dict[Slot, str]:
        """The names that are new, and not among the known ones: of all dims of one name but the first."""
        taken = {*known, *(n for _, n in self.parent)}
        new: dict[Slot, str | None] = {}
        seen: set[str] = set()
        for slot in self.parent:
            root = self._root(slot)
            if root in new:
                continue
            name = slot[1]
            new[root] = None if name not in seen else _unlike(name, taken)
            seen.add(name)
            taken.add(new[root] or name)
        return {slot: name for slot in self.parent if (name := new[self._root(slot)]) is not None}

    def _root(self, slot: Slot) -> Slot:
        parent = self.parent
        parent.setdefault(slot, slot)
        while parent[slot] != slot:
            parent[slot] = parent[parent[slot]]
            slot = parent[slot]
        return slot


def _unlike(name: str, taken: Iterable[str]) -> str:
    k = 1
    while f"{name}_{k}" in taken:
        k += 1
    return f"{name}_{k}"


def _place(e: Expr) -> Hashable:
    """The place of an expression's names: a variable is one place wherever it is used.

    So are the results of one loop, which is run once for all of them as long as its operands are the same.
    """
    match e:
        case Var():
            return e
        case Call("loop", operands):
            return ("loop", *map(id, operands))
        case _:
            return id(e)


def _at(parent: Hashable, k: int, e: Expr) -> Hashable:
    """The place of an operand's names: names of an operand without variables belong to the place of the operand."""
    return _place(e) if e.free else (parent, k)


def _meet(e: Expr, same: _Same) -> None:
    """Joins the names that an expression needs to be those of its operands."""
    place = _place(e)
    takes = isinstance(e, Call) and e.op in _TAKEN
    same.mention(place, e.tensor.dims.names if takes else sorted(own_names(e)))
    if isinstance(e, Lambda):
        for p in e.params:
            same.join(_place(p), place, p.type.dims.names)
    for k, c in enumerate(e.children):
        there, dims = _at(place, k, c), _dims_of(c)
        taken = frozenset(_TAKEN[e.op](e.static, k)) if isinstance(e, Call) and e.op in _TAKEN else frozenset[str]()
        same.join(there, place, (n for n in dims if n not in taken))
        same.join(there, ("taken", place), (n for n in dims if n in taken))


_TAKEN: Mapping[str, Callable[[tuple[Any, ...], int], Iterable[str]]] = {
    "gather": lambda static, k: () if k else static[0],
    "rename": lambda static, k: (a for a, _ in static[0]),
    "split_dim": lambda static, k: static[:1],
    "merge_dims": lambda static, k: static[:2],
    "scatter": lambda static, k: static[1] if k > 1 else (),
}
"""The names of operand k that a builtin takes away, so that its result may have others of the same name."""


def _renamed(e: Expr, children: tuple[Expr, ...], own: Mapping[str, str], taken: Mapping[str, str]) -> Expr:
    """An expression under names for what it has and for what it takes away."""
    match e:
        case Call("gather", _, (dims, mode)):
            static = (tuple(taken.get(d, d) for d in dims), mode)
        case Call("rename", _, (pairs,)):
            static = (tuple((taken.get(a, a), own.get(b, b)) for a, b in pairs),)
        case Call("split_dim", _, (dim, outer, inner, size)):
            static = (taken.get(dim, dim), own.get(outer, outer), own.get(inner, inner), size)
        case Call("merge_dims", _, (outer, inner, dim)):
            static = (taken.get(outer, outer), taken.get(inner, inner), own.get(dim, dim))
        case Call("scatter", _, (dims, over, mode)):
            static = (tuple(own.get(d, d) for d in dims), tuple(taken.get(d, d) for d in over), mode)
        case _:
            return node_under(e, children, own)
    return dataclasses.replace(e, args=children, static=static)


def _dims_of(e: Expr) -> tuple[str, ...]:
    """The names of dims by which others meet an expression, or a function's operands and result."""
    types = [*e.type.results, *e.type.params] if isinstance(e.type, FunctionType) else [e.type]
    return tuple(dict.fromkeys(n for t in types for n in t.dims.names))


MOST_WORDS = 32
"""How many operations of what is added tell where it comes."""

COORDINATES = {"pos", "add_dim", "plus", "minus", "multiplies"}
"""Sums of coordinates are in an order of their own."""


def in_order(f: Fencil, exact: bool = False) -> Fencil:
    """Chains of added dims, of shifts, of whole numbers that are added, of folds, and axes of reads, in the order of
    dims.

    For sums it is that of the outputs' dims, then of the parameters', and what has the same comes in the order of the
    operations that it is made of; for the others that of the parameters' dims. Dims that neither has come as they are
    met. `exact` keeps the order of folds of floats.
    """
    named = [n for p in f.params for n in p.type.dims.names]
    # where dims are added says nothing of an order
    met = [e for e in postorder(*values(f.closures)) if isinstance(e, Call) and e.op != "add_dim"]
    by_params = _places([*named, *(n for e in met for n in e.tensor.dims.names)])
    # what coordinates are added to is in some order already
    data = [e for e in met if not (isinstance(e.tensor.element, Scalar) and e.tensor.element.is_integer)]
    edges = (n for p in (*f.outputs, *f.params) for n in p.type.dims.names)
    by_outputs = _places([*edges, *(n for e in data for n in e.tensor.dims.names)])

    def rule(e: Expr) -> Expr | None:
        match e:
            case Call("add_dim" | "cartesian_shift"):
                return _chain_in_order(e, by_params)
            case Call("gather") if len(e.static[0]) > 1:
                return _axes_in_order(e, by_params)
            case Call("plus") if isinstance(e.tensor.element, Scalar) and e.tensor.element.is_integer:
                return _sum_in_order(e, by_outputs)
            case Call("reduce", (Operator(op), *_)) if TABLE[op].associative and (not exact or is_whole(e)):
                return _folds_in_order(e, by_params)
            case _:
                return None

    return rewritten(f, rule)


def _places(names: Iterable[str]) -> dict[str, int]:
    return {n: k for k, n in enumerate(dict.fromkeys(names))}


def _chain_in_order(e: Call, order: Mapping[str, int]) -> Expr | None:
    chain, x = [e.static], e.args[0]
    while isinstance(x, Call) and x.op == e.op:
        chain.append(x.static)
        x = x.args[0]
    sorted_chain = sorted(chain, key=lambda s: order.get(s[0], len(order)))
    if sorted_chain == chain:
        return None
    for static in reversed(sorted_chain):
        x = call(e.op, x, static=static, span=e.span)
    return x


def _axes_in_order(e: Call, order: Mapping[str, int]) -> Expr | None:
    """A read, the dims that it indexes in their order."""
    x, *indices = e.args
    dims, mode = e.static
    pairs = sorted(zip(dims, indices, strict=True), key=lambda pair: order.get(pair[0], len(order)))
    found = tuple(d for d, _ in pairs)
    if found == dims:
        return None
    new = call("gather", x, *(i for _, i in pairs), static=(found, mode), span=e.span)
    return new if new.type == e.type else None


def _sum_in_order(e: Call, order: Mapping[str, int]) -> Expr | None:
    terms: list[Expr] = [e]
    while isinstance(first := terms[0], Call) and first.op == "plus" and not first.label:
        terms[:1] = first.args
    places = {id(t): min((order.get(d, len(order)) for d in t.tensor.dims), default=len(order)) for t in terms}
    found = sorted(terms, key=lambda t: (places[id(t)], _words(t)))
    if found == terms:
        return None
    total, *rest = found
    for t in rest:
        total = call("plus", total, t, span=e.span)
    return total if total.type == e.type else None


def _words(e: Expr) -> tuple[str, ...]:
    """The operations that an expression begins with; a coordinate has none."""
    found: list[str] = []
    pending, seen = [e], set[int]()
    while pending and len(found) < MOST_WORDS:
        x = pending.pop()
        if isinstance(x, Call) and id(x) not in seen:
            seen.add(id(x))
            found.append(x.op)
            pending += reversed(x.args)
    return () if COORDINATES.issuperset(found) else tuple(found)


def _folds_in_order(e: Call, order: Mapping[str, int]) -> Expr | None:
    """A fold of folds by one operation, of which all but the outermost start from nothing."""
    op, init = e.args[0], e.args[1]
    assert isinstance(op, Operator) and isinstance(e.tensor.element, Scalar)
    start, chain, x = None, [e.static[0]], e.args[2]
    while isinstance(x, Call) and x.op == "reduce" and isinstance(x.args[0], Operator) and x.args[0].op == op.op:
        same = start is None or x.args[1] == start
        if not same or not starts_from_nothing(op.op, x.args[1], init) or x.label:
            break
        start = x.args[1]
        chain.append(x.static[0])
        x = x.args[2]
    if start is None or init.tensor.dims:
        return None
    met = _places(n for part in postorder(x) if isinstance(part, Call) for n in part.tensor.dims.names)
    found = sorted(chain, key=lambda d: (order.get(d, len(order)), met.get(d, len(met))))
    if found == chain:
        return None
    for dim in reversed(found[1:]):
        x = fold_like(op.op, start, x, dim, e)
    return fold_like(op.op, init, x, found[0], e)


def with_shifts_inside(f: Fencil) -> Fencil:
    """Shifts of what is used once are shifts of what it is made of, in the order of the parameters' dims."""
    roots = values(f.closures)
    uses, nodes = use_counts(*roots), list(postorder(*roots))
    order = {n: k for k, n in enumerate(dict.fromkeys(n for p in f.params for n in p.type.dims.names))}

    def opened(e: Expr) -> list[Expr]:
        """The operands to which a shift of an expression moves; none where it stays."""
        if not isinstance(e, Call) or uses[id(e)] > 1:
            return []
        if e.op == "cartesian_shift":
            return [e.args[0]]
        if not all(isinstance(a.type, TensorType) for a in e.args):
            return []
        having = [a for a in e.args if a.tensor.dims]
        selects = e.op == "gather" and not any(d in e.tensor.dims for d in e.static[0])
        return having if TABLE[e.op].elementwise or selects else []

    # each expression belongs to the outermost shift that reaches it
    reached: set[int] = set()
    for e in reversed(nodes):
        if isinstance(e, Call) and e.op == "cartesian_shift" and id(e) not in reached:
            pending = [e.args[0]]
            while pending:
                x = pending.pop()
                if below := opened(x):
                    reached.add(id(x))
                    pending += below
    made: dict[int, Expr] = {}
    for e in nodes:
        if id(e) in reached:
            continue
        if isinstance(e, Call) and e.op == "cartesian_shift":
            made[id(e)] = _inside(e, opened, made, order)
        else:
            made[id(e)] = rebuild(e, tuple(made[id(c)] for c in e.children))
    return remade(f, with_values(f.closures, [made[id(r)] for r in roots]))


def _inside(
    shift: Call, opened: Callable[[Expr], list[Expr]], made: Mapping[int, Expr], order: Mapping[str, int]
) -> Expr:
    """A shift as shifts of what it reaches."""
    stack: list[tuple[Expr, dict[str, int], bool]] = [(shift.args[0], {shift.static[0]: shift.static[1]}, False)]
    out: list[Expr] = []
    while stack:
        e, offsets, ready = stack.pop()
        # what is made of other dims may use the name of this one for a dim that it no longer has
        offsets = {dim: by for dim, by in offsets.items() if dim in e.tensor.dims}
        below = opened(e)
        if ready:
            assert isinstance(e, Call)
            parts = iter(out[len(out) - len(below) :])
            del out[len(out) - len(below) :]
            args = [next(parts) if a.tensor.dims else made[id(a)] for a in e.args]
            out.append(call(e.op, *args, static=e.static, span=e.span))
        elif not below:
            out.append(_moved(made[id(e)], offsets, order))
        elif isinstance(e, Call) and e.op == "cartesian_shift":
            dim, by = e.static
            stack.append((e.args[0], {**offsets, dim: offsets.get(dim, 0) + by}, False))
        else:
            stack.append((e, offsets, True))
            stack.extend((x, offsets, False) for x in reversed(below))
    return out[0]


def _moved(x: Expr, offsets: Mapping[str, int], order: Mapping[str, int]) -> Expr:
    """An expression shifted by distances, its own shifts added to them."""
    total = dict(offsets)
    while isinstance(x, Call) and x.op == "cartesian_shift":
        dim, by = x.static
        total[dim] = total.get(dim, 0) + by
        x = x.args[0]
    for dim in sorted(total, key=lambda d: order.get(d, len(order)), reverse=True):
        x = shifted(x, dim, total[dim])
    return x


def starts_from_nothing(op: str, start: Expr, init: Expr) -> bool:
    """True if a fold inside of a fold by one operation adds nothing by what it starts from."""
    match start:
        case Literal(value, element):
            return (TABLE[op].idempotent and start == init) or value == neutral(op, element)
        case _:
            return False


def fold_like(op: str, init: Expr, x: Expr, dim: str, like: Call) -> Expr:
    """A fold whose results have their dims as those of another have them, where they have all of these."""
    rest = x.tensor.on(x.tensor.dims.without(dim))
    same = set(rest.dims.names) == set(like.tensor.dims.names)
    state = like.tensor if same else rest
    return reduce(operator(op, state, rest), init, x, dim=dim, span=like.span)


def is_whole(e: Call) -> bool:
    """True if an expression is of whole numbers or truths, whose sums are the same in every order."""
    return isinstance(e.tensor.element, Scalar) and not e.tensor.element.is_float
