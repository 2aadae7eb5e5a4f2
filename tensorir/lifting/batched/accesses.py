"""Reads, writes and atomic updates of all iterations at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tensorir.integers.affine import Affine, number
from tensorir.ir.build import call, function, literal, operator, reduce, var
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Call, Expr, Literal, Var
from tensorir.ir.types import Interval, Scalar, TensorType
from tensorir.lifting.batched.conflicts import accesses_of, conflict
from tensorir.lifting.batched.expressions import widened
from tensorir.lifting.batched.scope import Scope, both, dims_of, holds
from tensorir.lifting.batched.windows import Digits, at_point, digits_of, padded, window, zero_of
from tensorir.lifting.emission.tensors import alike, cut, renamed, shifted, spread
from tensorir.lifting.region.nodes import Atomic, Bound, Buffer, Condition, Index, Read, Write
from tensorir.runtime.errors import Diagnostic, DiagnosticError, Span


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
    """What a buffer has at an access map where conditions hold, and something else elsewhere."""
    x = scope.memory[buffer.name]
    fill = otherwise if isinstance(otherwise, Literal) else zero_of(buffer.element)
    ranges = scope.known_ranges(own)
    x = spread(x, dims_of(buffer))
    others: list[tuple[str, Index]] = []
    inside: set[Bound] = set()
    for (dim, extent), i in zip(buffer.dims, at, strict=True):
        digits = digits_of(i, scope, own) if isinstance(i, Affine) else None
        within = isinstance(i, Affine) and _inside(i, extent, ranges)
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
    """What keeps an index inside of a dim."""
    return {Bound(i), Bound(number(extent - 1).minus(i))}


def _inside(i: Affine, extent: int, ranges: Mapping[str, tuple[int, int]]) -> bool:
    return all(holds(b, ranges) for b in _bounds(i, extent))


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
    """Where a write goes, dim by dim of its buffer: digits that are merged into the dim, or an index."""

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
    """Where a write goes if each index is made of digits of its own, a loop that runs step by step in front."""
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
