"""Reads, writes and atomic updates of all iterations at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tensorir.integers.affine import Affine, number
from tensorir.ir.build import call, function, literal, operator, reduce, var
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Call, Expr, Literal, Var
from tensorir.ir.types import Interval, Scalar, TensorType
from tensorir.lifting.accesses.sets import decided, integer_set, point, text
from tensorir.lifting.batched.scope import (
    Digits,
    Scope,
    at_point,
    both,
    digits_of,
    dims_of,
    holds,
    padded,
    widened,
    window,
    zero_of,
)
from tensorir.lifting.emission.tensors import alike, cut, renamed, shifted, spread
from tensorir.lifting.region.nodes import Atomic, Bound, Buffer, Condition, For, If, Index, Node, Read, While, Write
from tensorir.runtime.errors import Diagnostic, DiagnosticError, Span

# islpy has no types of its own that say enough.


@dataclass(frozen=True, slots=True)
class Access:
    """A read, a write or an update, in all iterations of the loops inside of the one that is asked about."""

    node: Read | Write | Atomic
    buffer: str
    shape: tuple[int, ...]
    at: tuple[Index, ...]
    names: tuple[str, ...]
    """The loops inside, and the dims of the value."""
    constraints: tuple[tuple[Affine, str], ...]
    """Sums, each followed by how it compares with zero."""
    exact: bool
    in_loop: bool

    @property
    def kind(self) -> str:
        return type(self.node).__name__


@dataclass(frozen=True, slots=True)
class Conflict:
    """A conflict of iterations: proven, with two of them and an element, or undecided."""

    first: Access
    second: Access
    proven: bool
    iterations: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())


def accesses_of(nodes: Sequence[Node]) -> list[Access]:
    """All accesses of a body."""
    return list(_accesses(nodes, (), (), True, False))


Constraints = tuple[tuple[Affine, str], ...]


def _accesses(
    nodes: Sequence[Node], names: tuple[str, ...], constraints: Constraints, exact: bool, in_loop: bool
) -> Iterator[Access]:
    for node in nodes:
        match node:
            case Read(result, buffer, at, where):
                own = result.type.dims.items
                yield _access(node, buffer.name, buffer.shape, at, own, where, names, constraints, exact, in_loop)
            case Write(buffer, at, value, where) | Atomic(_, buffer, at, _, value, where):
                own = value.tensor.dims.items
                yield _access(node, buffer.name, buffer.shape, at, own, where, names, constraints, exact, in_loop)
            case If(conditions, body, otherwise):
                inner, sure = _conditions(conditions)
                yield from _accesses(body, names, (*constraints, *inner), exact and sure, in_loop)
                opposite, known = _opposite(conditions)
                yield from _accesses(otherwise, names, (*constraints, *opposite), exact and known, in_loop)
            case For(dim, start, stop, body):
                bounds: Constraints = ()
                sure = isinstance(start, Affine) and isinstance(stop, Affine)
                i = Affine(((dim, 1),))
                if isinstance(start, Affine):
                    bounds = (*bounds, (i.minus(start), ">= 0"))
                if isinstance(stop, Affine):
                    bounds = (*bounds, (stop.minus(i), "> 0"))
                yield from _accesses(body, (*names, dim), (*constraints, *bounds), exact and sure, True)
            case While(before, _, body):
                yield from _accesses((*before, *body), names, constraints, False, True)
            case _:
                pass


def _access(
    node: Read | Write | Atomic, buffer: str, shape: tuple[int, ...], at: tuple[Index, ...],
    own: Sequence[tuple[str, Interval]], where: Sequence[Condition], names: tuple[str, ...], constraints: Constraints,
    exact: bool, in_loop: bool,
) -> Access:  # fmt: skip
    inner, sure = _conditions(where)
    window: Constraints = ()
    for n, i in own:
        v = Affine(((n, 1),))
        window = (*window, (v.minus(Affine((), i.start)), ">= 0"), (Affine((), i.stop).minus(v), "> 0"))
    known = exact and sure and all(isinstance(i, Affine) for i in at)
    return Access(
        node, buffer, shape, at, (*names, *(n for n, _ in own)), (*constraints, *window, *inner), known, in_loop
    )  # fmt: skip


def _conditions(where: Sequence[Condition]) -> tuple[Constraints, bool]:
    bounds = [c for c in where if isinstance(c, Bound)]
    return tuple((b.affine, "= 0" if b.equal else ">= 0") for b in bounds), len(bounds) == len(where)


def _opposite(where: Sequence[Condition]) -> tuple[Constraints, bool]:
    match where:
        case (Bound(affine, False),):
            return ((affine, "< 0"),), True
        case _:
            return (), False


@dataclass(frozen=True, slots=True)
class Outside:
    """An access that is proven to leave its buffer: along which dim, where to, and in which iteration."""

    access: Access
    dim: int
    index: int
    iteration: dict[str, int]


def outside(accesses: Sequence[Access], dims: Mapping[str, tuple[int, int]]) -> Outside | None:
    """An access that leaves its buffer whatever the data are; None where none is known to."""
    for a in accesses:
        for k, (i, extent) in enumerate(zip(a.at, a.shape, strict=True)):
            if not a.exact or not isinstance(i, Affine) or _guarded(a, i, extent):
                continue
            names = [*dims, *a.names]
            if not i.names <= set(names) or not all(c.names <= set(names) for c, _ in a.constraints):
                continue
            same = {n: n for n in names}
            constraints = [f"{low} <= {n} <= {high}" for n, (low, high) in dims.items()]
            constraints += [f"{text(c, same)} {sign}" for c, sign in a.constraints]
            constraints.append(f"({text(i, same)} < 0 or {text(i, same)} >= {extent})")
            found = integer_set(names, constraints)
            if decided(found.is_empty) is False and (values := decided(lambda s=found: point(s))) is not None:
                at = dict(zip(names, values, strict=True))
                return Outside(a, k, _at(i, at), {n: at[n] for n in dims})
    return None


def _guarded(a: Access, i: Affine, extent: int) -> bool:
    """True if conditions say of an index that it is inside."""
    wanted = {i, Affine((), extent - 1).minus(i)}
    return wanted <= {c for c, sign in a.constraints if sign == ">= 0"}


def _at(a: Affine, values: Mapping[str, int]) -> int:
    """The value of a sum."""
    parts = (c * (values[t] if isinstance(t, str) else _at(t.inner, values) // t.by) for t, c in a.terms)
    return a.constant + sum(parts)


def conflict(
    accesses: Sequence[Access], dims: Mapping[str, tuple[int, int]], outer: Mapping[str, tuple[int, int]]
) -> Conflict | None:
    """Two accesses of one element in different iterations of `dims`, one of them a write; None where there are none.

    `dims` and `outer` have the values of their loops; the outer ones are the same for both. A proven conflict comes
    before others.
    """
    undecided: Conflict | None = None
    # who sees what others have updated may wait for them
    ordered = any(isinstance(a.node, Atomic) and a.node.result is not None for a in accesses)
    written = {a.buffer for a in accesses if a.kind != "Read"}
    for buffer in sorted(written):
        of = [a for a in accesses if a.buffer == buffer]
        for k, a in enumerate(of):
            for b in of[k:]:
                if a.kind == b.kind == "Read" or _commute(a, b):
                    continue
                found = _pair(a, b, dims, outer)
                found = replace(found, proven=False) if found is not None and ordered else found
                if found is not None and found.proven:
                    return found
                undecided = undecided or found
    return undecided


def _commute(a: Access, b: Access) -> bool:
    """True if two updates may change places."""
    x, y = a.node, b.node
    return (
        isinstance(x, Atomic) and isinstance(y, Atomic) and x.op == y.op and x.result is None and y.result is None
    )  # fmt: skip


def _pair(
    a: Access, b: Access, dims: Mapping[str, tuple[int, int]], outer: Mapping[str, tuple[int, int]]
) -> Conflict | None:
    of = [{**{n: n for n in outer}, **{n: f"{n}_{s}" for n in (*dims, *x.names)}} for x, s in ((a, "a"), (b, "b"))]
    told = all(
        x.names <= names.keys() for access, names in zip((a, b), of, strict=True)
        for x in (*(i for i in access.at if isinstance(i, Affine)), *(c for c, _ in access.constraints))
    )  # fmt: skip
    if not told:
        return Conflict(a, b, False)
    constraints = [f"{low} <= {n} <= {high}" for n, (low, high) in outer.items()]
    for s in ("a", "b"):
        constraints += [f"{low} <= {n}_{s} <= {high}" for n, (low, high) in dims.items()]
    for access, names in zip((a, b), of, strict=True):
        constraints += [f"{text(c, names)} {sign}" for c, sign in access.constraints]
    constraints += [
        f"{text(i, of[0])} = {text(j, of[1])}"
        for i, j in zip(a.at, b.at, strict=True)
        if isinstance(i, Affine) and isinstance(j, Affine)
    ]
    # both must be inside of the buffer: what is outside is another error
    constraints += [
        f"0 <= {text(i, of[0])} < {e}" for i, e in zip(a.at, a.shape, strict=True) if isinstance(i, Affine)
    ]  # fmt: skip
    differs = " or ".join(f"{n}_a != {n}_b" for n in dims)
    if not dims:
        return None
    constraints.append(f"({differs})")
    first = [f"{n}_a" for n in dims]
    second = [f"{n}_b" for n in dims]
    rest = [*outer, *(of[0][n] for n in a.names if n not in dims), *(of[1][n] for n in b.names if n not in dims)]
    names = list(dict.fromkeys([*first, *second, *rest]))
    found = integer_set(names, constraints)
    empty = decided(found.is_empty)
    if empty:
        return None
    if empty is None or not (a.exact and b.exact):
        return Conflict(a, b, False)
    values = decided(lambda: point(found))
    if values is None:
        return Conflict(a, b, False)
    n = len(dims)
    return Conflict(a, b, True, (values[:n], values[n : 2 * n]))


def evaluated(scope: Scope, e: Expr) -> Expr:
    """A value of one iteration as the tensor of all."""

    def value(v: Var) -> Expr | None:
        if v.name in scope.values:
            # what asks for a dim finds it, also where the value is the same along it
            return spread(scope.values[v.name], dict(v.type.dims.items))
        if v.name in scope.dims or v.name in scope.numbers:
            return scope.variable(v.name, {})
        return None

    return widened(e, value)


# Reads


def read(scope: Scope, node: Read) -> Expr:
    own = dict(node.result.type.dims.items)
    otherwise = None if node.otherwise is None else evaluated(scope, node.otherwise)
    return elements(scope, node.buffer, node.at, own, node.where, otherwise)


def elements(
    scope: Scope, buffer: Buffer, at: Sequence[Index], own: Mapping[str, Interval], where: Sequence[Condition],
    otherwise: Expr | None,
) -> Expr:  # fmt: skip
    """Elements of a buffer at an access map under conditions, and another value elsewhere."""
    x = scope.memory[buffer.name]
    fill = otherwise if isinstance(otherwise, Literal) else zero_of(buffer.element)
    ranges = scope.known_ranges(own)
    x = spread(x, dims_of(buffer))
    others: list[tuple[str, Index]] = []
    inside: set[Bound] = set()
    for (dim, extent), i in zip(buffer.dims, at, strict=True):
        digits = digits_of(i, scope, own) if isinstance(i, Affine) else None
        within = isinstance(i, Affine) and all(holds(b, ranges) for b in _bounds(i, extent))
        if digits is None or digits.names & set(x.tensor.dims.names) or (not digits.terms and not within):
            others.append((dim, i))
            # out of a buffer zero is read
            if isinstance(i, Affine) and _is_zero(fill):
                inside |= _bounds(i, extent)
            continue
        assert isinstance(i, Affine)
        x = window(x, dim, digits, scope, fill)
        if not any(n in scope.numbers for n in digits.names) or _is_zero(fill):
            inside |= _bounds(i, extent)
    mask = scope.mask([c for c in where if c not in inside], own)
    if others:
        x = _gathered(scope, x, others, own, where, dict(buffer.dims))
    if mask is None:
        return x
    return call("if", mask, x, zero_of(buffer.element) if otherwise is None else otherwise)


def _is_zero(e: Expr) -> bool:
    return isinstance(e, Literal) and e.value == 0


def _bounds(i: Affine, extent: int) -> set[Bound]:
    """The bounds that keep an index inside of a dim."""
    return {Bound(i), Bound(number(extent - 1).minus(i))}


def _gathered(
    scope: Scope, x: Expr, others: Sequence[tuple[str, Index]], own: Mapping[str, Interval],
    where: Sequence[Condition], extents: Mapping[str, int],
) -> Expr:  # fmt: skip
    ranges = scope.known_ranges(own)
    for dim, i in others:
        # an index that overlaps itself reads a window: padded, it stays inside
        found = i.range(ranges) if isinstance(i, Affine) and i.is_linear and i.names <= ranges.keys() else None
        if found is not None and len(found_names(i)) > 1 and not found_names(i) & scope.numbers.keys():
            whole = Interval(min(0, found[0]), max(extents[dim], found[1] + 1))
            if len(whole) <= MOST_PADDED * extents[dim]:
                x = padded(x, dim, whole, zero_of(x.tensor.leaves[0]))
    indices = alike([scope.index(i, own) for _, i in others])
    inside = [
        isinstance(i, Affine) and all(holds(b, ranges) for b in _bounds_on(i, x.tensor.dims[d])) for d, i in others
    ]  # fmt: skip
    told = [pair for pair, known in zip(others, inside, strict=True) if not known]
    kept = _kept_inside(scope, told, extents, own, where)
    mode = "clamp" if all(inside) else "zero"
    if not kept:
        scope.run.unchecked = True
        if scope.run.checked:
            # where nothing is read nothing is wrong
            asked = both(scope.mask(where, own), scope.active)
            mode = "checked"
            if asked is not None:
                indices = [call("if", asked, i, literal(0, i.tensor.leaves[0])) for i in indices]
    return call("gather", x, *indices, static=(tuple(d for d, _ in others), mode))


def _kept_inside(
    scope: Scope, indexed: Sequence[tuple[str, Index]], extents: Mapping[str, int], own: Mapping[str, Interval],
    where: Sequence[Condition],
) -> bool:  # fmt: skip
    """True if conditions, or the ranges of loops, keep all indices inside of their dims."""
    ranges, guards = scope.known_ranges(own), set(where)
    parts: list[Expr] = []
    pending = [scope.values[c.name] for c in where if not isinstance(c, Bound)]
    while pending:
        match pending.pop():
            case Call("and", (a, b)):
                pending += [a, b]
            case e:
                parts.append(e)
    for dim, i in indexed:
        if isinstance(i, Affine):
            if not all(b in guards or holds(b, ranges) for b in _bounds(i, extents[dim])):
                return False
        elif not _says_inside(parts, scope.values[i.name], extents[dim]):
            return False
    return True


def _says_inside(parts: Sequence[Expr], index: Expr, extent: int) -> bool:
    """True if comparisons keep an index inside: from both sides, or from above as a number without a sign."""
    low = high = False
    for e in parts:
        match e:
            case Call("greater_equal", (x, Literal(0))) if x == index:
                low = True
            case Call("less", (x, Literal(most))) if x == index and most <= extent:
                high = True
            case Call("less", (Call("bitcast", (x,)), Literal(most))) if x == index and 0 <= most <= extent:
                low = high = True
            case _:
                pass
    return low and high


MOST_PADDED = 2
"""How many times a buffer's extent a window may be padded to."""


def found_names(i: Index) -> frozenset[str]:
    return i.names if isinstance(i, Affine) else frozenset(i.type.dims.names)


def _bounds_on(i: Affine, interval: Interval) -> set[Bound]:
    return {Bound(i.minus(number(interval.start))), Bound(number(interval.stop - 1).minus(i))}


# Writes


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a write, dim by dim of its buffer: digits that are merged into the dim, or an index."""

    digits: dict[str, Digits]
    indexed: dict[str, Index]


def write(scope: Scope, node: Write) -> None:
    value = evaluated(scope, node.value)
    own = dict(node.value.tensor.dims.items)
    buffer = node.buffer
    inside = {b for (_, e), i in zip(buffer.dims, node.at, strict=True) if isinstance(i, Affine) for b in _bounds(i, e)}
    beyond = [c for c in node.where if c not in inside]
    mask = both(scope.mask(beyond, own), scope.active)
    if isinstance(mask, Literal):
        return
    base = spread(scope.memory[buffer.name], dims_of(buffer))
    target = _target(scope, buffer, node.at, own)
    if target is not None:
        names = {n for d in target.digits.values() for n in d.names}
        value = _last(value, names, mask)
        loose = [
            n for n in (*value.tensor.dims.names, *(() if mask is None else mask.tensor.dims.names)) if n not in names
        ]
        if not loose:
            if mask is not None:
                old = elements(scope, buffer, node.at, own, (), None)
                value = call("if", mask, value, old)
            scope.memory[buffer.name] = _placed(scope, buffer, base, target, value, own)
            return
    scope.memory[buffer.name] = _scattered(scope, buffer, node.at, own, base, value, mask, None, node.where, node.span)


def _last(x: Expr, names: set[str], mask: Expr | None) -> Expr:
    """A value that several iterations put at one place: that of the last one."""
    for n, i in x.tensor.dims.items:
        if n not in names and (mask is None or n not in mask.tensor.dims):
            x = at_point(x, n, literal(i.stop - 1))
    return x


def _target(scope: Scope, buffer: Buffer, at: Sequence[Index], own: Mapping[str, Interval]) -> Target | None:
    """The target of a write each of whose indices has digits of its own, a loop that runs step by step in front."""
    found: dict[str, Digits] = {}
    used: set[str] = set()
    for (dim, _), i in zip(buffer.dims, at, strict=True):
        digits = digits_of(i, scope, own) if isinstance(i, Affine) else None
        if digits is None or digits.names & used:
            return None
        numbers = [n for n in digits.names if n in scope.numbers]
        if numbers:
            (_, step, _), *rest = digits.terms
            inner = Digits(tuple(rest), 0)
            if not inner.is_dense or inner.span != step or digits.constant % step or digits.constant < 0:
                return None
        elif not digits.is_dense:
            return None
        used |= digits.names
        found[dim] = digits
    return Target(found, {})


def _placed(scope: Scope, buffer: Buffer, base: Expr, target: Target, value: Expr, own: Mapping[str, Interval]) -> Expr:
    """The buffer with a value merged into its dims, put where it belongs."""
    names = [n for d in target.digits.values() for n in d.names if n not in scope.numbers]
    value = spread(value, {n: scope.dims.get(n) or own[n] for n in names})
    indices: dict[str, tuple[str, str, int, Expr]] = {}
    region: dict[str, Interval] = {}
    for dim, extent in buffer.dims:
        digits = target.digits[dim]
        terms = list(digits.terms)
        if terms and terms[0][0] in scope.numbers:
            name, step, _ = terms.pop(0)
            index = scope.numbers[name]
            if digits.constant:
                index = call("plus", index, literal(digits.constant // step, index.tensor.leaves[0]))
            if step == 1:
                indices[dim] = (dim, "", 1, index)
                continue
            outer, inner = scope.run.fresh(dim), scope.run.fresh(dim)
            whole = -(-extent // step) * step
            base = call(
                "split_dim", padded(base, dim, Interval(0, whole), zero_of(buffer.element)),
                static=(dim, outer, inner, step),
            )  # fmt: skip
            value = _merged(scope, value, terms, inner)
            indices[dim] = (outer, inner, step, index)
            continue
        value = _merged(scope, value, terms, dim)
        at = Interval(digits.constant, digits.constant + digits.span)
        if terms:
            value = shifted(value, dim, -digits.constant)
        else:
            value = call("add_dim", value, static=(dim, at.start, at.stop))
        region[dim] = at & Interval(0, extent)
        if not region[dim]:
            return scope.memory[buffer.name]
    value = cut(value, region)
    if not indices:
        if all(region[d] == Interval(0, e) for d, e in buffer.dims):
            return value
        return call("update", base, value)
    scalar = TensorType(buffer.element)
    old, new = var(scope.run.fresh("old"), scalar), var(scope.run.fresh("new"), scalar)
    names = tuple(outer for outer, _, _, _ in indices.values())
    places = alike([i for _, _, _, i in indices.values()])
    safe = True
    made = call(
        "scatter", function([old, new], new), base, *places, value, static=(names, (), "zero" if safe else "checked")
    )  # fmt: skip
    for dim, (outer, inner, _, _) in indices.items():
        if inner:
            made = cut(call("merge_dims", made, static=(outer, inner, dim)), dims_of(buffer))
    return made


def _merged(scope: Scope, x: Expr, terms: Sequence[tuple[str, int, int]], dim: str) -> Expr:
    """Digits as one dim that counts from zero."""
    if not terms:
        return x
    one, *inner = (name for name, _, _ in terms)
    for k, name in enumerate(inner):
        target = dim if k == len(inner) - 1 else scope.run.fresh(dim)
        x = call("merge_dims", x, static=(one, name, target))
        one = target
    return renamed(x, {one: dim})


def _scattered(
    scope: Scope, buffer: Buffer, at: Sequence[Index], own: Mapping[str, Interval], base: Expr, value: Expr,
    mask: Expr | None, op: str | None, where: Sequence[Condition], span: Span,
) -> Expr:  # fmt: skip
    """The buffer with values put, or combined, where indices tell; out of it nothing is stored."""
    names: dict[str, str] = {}
    indexed: list[tuple[str, Index]] = []
    used = [set(i.names if isinstance(i, Affine) else scope.values[i.name].tensor.dims.names) for i in at]
    for k, ((dim, extent), i) in enumerate(zip(buffer.dims, at, strict=True)):
        name = i.bare_name if isinstance(i, Affine) and len(i.terms) == 1 and not i.constant else None
        interval = None if name is None else own.get(name) or scope.dims.get(name)
        alone = name is not None and not any(name in u for j, u in enumerate(used) if j != k)
        if alone and interval is not None and Interval(0, extent).covers(interval) and len(buffer.dims) > 1:
            assert name is not None
            names[name] = dim
        else:
            indexed.append((dim, i))
    if not indexed:
        (dim, i), *_ = [(d, i) for (d, _), i in zip(buffer.dims, at, strict=True)]
        names = {a: b for a, b in names.items() if b != dim}
        indexed = [(dim, i)]
    places = alike([scope.index(i, own) for _, i in indexed])
    if not _kept_inside(scope, indexed, dict(buffer.dims), own, where):
        scope.run.unchecked = True
        if scope.run.checked:
            asked = both(scope.mask(where, own), scope.active)
            extents = [dict(buffer.dims)[d] for d, _ in indexed]
            base = _checked(base, list(zip(places, extents, strict=True)), asked, buffer.name, span)
    if mask is not None:
        places[0] = call("if", mask, places[0], literal(-1, places[0].tensor.leaves[0]))
    value = spread(value, {n: i for n, i in own.items() if n in names or any(n in p.tensor.dims for p in places)})
    places, value = [renamed(p, names) for p in places], renamed(value, names)
    aligned = {d for d, _ in buffer.dims} - {d for d, _ in indexed}
    points = {n for e in (*places, value) for n in e.tensor.dims.names}
    order = [n for n in (*scope.dims, *own) if n in points and n not in aligned]
    scalar = TensorType(buffer.element)
    if op is None:
        old, new = var(scope.run.fresh("old"), scalar), var(scope.run.fresh("new"), scalar)
        combine = function([old, new], new)
    else:
        combine = operator(op, scalar, scalar)
    static = (tuple(d for d, _ in indexed), tuple(order), "zero")
    return call("scatter", combine, base, *places, value, static=static, span=span)


def _checked(base: Expr, places: Sequence[tuple[Expr, int]], mask: Expr | None, name: str, span: Span) -> Expr:
    """The base of a store, once all of its indices are inside; those that views hold back are no errors."""
    for p, extent in places:
        element = p.tensor.element
        assert isinstance(element, Scalar)
        inside = call("and", call("greater_equal", p, literal(0, element)), call("less", p, literal(extent, element)))
        fine = inside if mask is None else call("or", inside, call("not", mask))
        base = call("assert_", base, fine, static=(f"an index of a store leaves '{name}'.",), span=span)
    return base


# Atomics


def update(scope: Scope, node: Atomic) -> None:
    """A combining update: of elements that no two iterations share at once, of others as a combining scatter."""
    value = evaluated(scope, node.value)
    own = dict(node.value.tensor.dims.items)
    buffer, element = node.buffer, node.buffer.element
    if node.result is not None:
        _refuse_meeting(scope, node, own)
        old = elements(scope, buffer, node.at, own, node.where, None)
        scope.values[node.result.name] = old
        made = Write(buffer, node.at, node.value, node.where, node.span)
        combined = call(node.op, old, value)
        _write_value(scope, made, combined, own)
        return
    inside = {b for (_, e), i in zip(buffer.dims, node.at, strict=True) if isinstance(i, Affine) for b in _bounds(i, e)}
    mask = both(scope.mask([c for c in node.where if c not in inside], own), scope.active)
    if isinstance(mask, Literal):
        return
    base = spread(scope.memory[buffer.name], dims_of(buffer))
    used = {n for i in node.at for n in (i.names if isinstance(i, Affine) else scope.values[i.name].tensor.dims.names)}
    whole = {**scope.dims, **own}
    missing = [n for n in whole if n not in used]
    if missing and not (scope.run.exact and element.is_float):
        value = _folded(node.op, value, mask, missing, whole, element)
        if mask is not None and set(mask.tensor.dims.names) & set(missing):
            mask = None
    value = spread(value, {n: i for n, i in whole.items() if n not in missing})
    target = _target(scope, buffer, node.at, own)
    points = {*value.tensor.dims.names, *(() if mask is None else mask.tensor.dims.names)}
    if target is not None and points <= {n for d in target.digits.values() for n in d.names}:
        # each element is updated once
        old = elements(scope, buffer, node.at, own, (), None)
        combined = call(node.op, old, value)
        combined = combined if mask is None else call("if", mask, combined, old)
        scope.memory[buffer.name] = _placed(scope, buffer, base, target, combined, own)
        return
    scope.memory[buffer.name] = _scattered(
        scope, buffer, node.at, own, base, value, mask, node.op, node.where, node.span
    )


def _refuse_meeting(scope: Scope, node: Atomic, own: Mapping[str, Interval]) -> None:
    """Lanes of one tile that may update one element, and see in which order they did."""
    lanes = {n: (i.start, i.stop - 1) for n, i in own.items()}
    if conflict(accesses_of((node,)), lanes, {n: r for n, r in scope.ranges.items() if n not in own}) is not None:
        message = (
            f"lanes of a tile may update one element of '{node.buffer.name}', and what each of them saw is asked for."
        )
        help = "update with a tile of one element, or leave the old values."
        raise DiagnosticError(Diagnostic("TL42", message, node.span, help=help))


def _folded(
    op: str, value: Expr, mask: Expr | None, missing: Sequence[str], whole: Mapping[str, Interval], element: Scalar
) -> Expr:
    """All values that go to one place as one; those that a mask holds back count as nothing."""
    identity = TABLE[op].identity
    assert identity is not None
    nothing = literal(identity(element), element)
    value = spread(value, {n: whole[n] for n in missing})
    if mask is not None:
        value = call("if", mask, value, nothing)
    for n in missing:
        state = TensorType(element, value.tensor.dims.without(n))
        value = reduce(operator(op, state, state), nothing, value, dim=n)
    return value


def _write_value(scope: Scope, node: Write, value: Expr, own: Mapping[str, Interval]) -> None:
    name = scope.run.fresh("value")
    kept = var(name, TensorType(node.buffer.element, node.value.tensor.dims))
    scope.values[name] = value
    write(scope, Write(node.buffer, node.at, kept, node.where, node.span))
