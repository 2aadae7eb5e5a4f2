"""Loops: at once where iterations do not meet, as folds where they only combine, else step by step for all blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tensorir.integers.affine import Affine
from tensorir.ir.build import call, function, literal, operator, reduce, var
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Call, Expr, Literal, Operator, Var
from tensorir.ir.rewrite import substitute
from tensorir.ir.types import INT32, Dims, Interval, Scalar, TensorType, bcast
from tensorir.lifting.batched.accesses import (
    Access,
    Conflict,
    accesses_of,
    conflict,
    evaluated,
    outside,
    read,
    update,
    write,
)
from tensorir.lifting.batched.scope import Scope, dims_of
from tensorir.lifting.emission.tensors import constant_of, converted, spread
from tensorir.lifting.region.nodes import (
    Atomic,
    Bound,
    Carried,
    Check,
    Condition,
    For,
    If,
    Let,
    Node,
    Order,
    Read,
    Rule,
    While,
    Write,
    walk,
)
from tensorir.lifting.schedule.components import combined
from tensorir.runtime.errors import Diagnostic, DiagnosticError, Span


def reductions(node: For) -> tuple[tuple[Node, ...], list[tuple[str, Expr]]] | None:
    """A body without what it carries, and for each carried value how and with what it is combined; None if that is not
    all that is done with it.
    """
    if not node.carried:
        return node.body, []
    insides = {c.inside for c in node.carried}
    tainted: dict[Var, Expr] = {}
    rest: list[Node] = []
    for n in node.body:
        if isinstance(n, Let) and not n.value.free.isdisjoint(insides | tainted.keys()):
            tainted[n.result] = substitute(n.value, {v: tainted[v] for v in n.value.free if v in tainted})
            continue
        if not uses(n).isdisjoint(insides | tainted.keys()):
            return None
        rest.append(n)
    found: list[tuple[str, Expr]] = []
    for c in node.carried:
        value = tainted.get(c.next) if isinstance(c.next, Var) else None
        if value is None:
            return None
        pair = combined(value, c.inside)
        if pair is None or not pair[1].free.isdisjoint(insides | tainted.keys()):
            return None
        if TABLE[pair[0]].identity is None:
            return None
        found.append(pair)
    return tuple(rest), found


def uses(node: Node) -> frozenset[Var]:
    """Every variable that a node, or one in it, asks for."""
    found: set[Var] = set()
    for n in walk((node,)):
        match n:
            case Read(_, _, at, where, otherwise):
                found |= {i for i in (*at, *where) if isinstance(i, Var)}
                found |= otherwise.free if otherwise is not None else frozenset()
            case Write(_, at, value, where) | Atomic(_, _, at, _, value, where):
                found |= {i for i in (*at, *where) if isinstance(i, Var)} | value.free
            case Let(_, value):
                found |= value.free
            case If(conditions, joined=joined):
                found |= {c for c in conditions if isinstance(c, Var)}
                for j in joined:
                    found |= j.value.free | j.otherwise.free
            case For(_, start, stop, carried=carried):
                found |= {i for i in (start, stop) if isinstance(i, Var)}
                for c in carried:
                    found |= c.first.free | c.next.free
            case While(_, condition, carried=carried):
                found |= condition.free
                for c in carried:
                    found |= c.first.free | c.next.free
            case Check(condition):
                found |= condition.free
            case _:
                pass
    return frozenset(found)


POWERS = ("exp", "exp2")
MOVES = ("rename", "split_dim", "merge_dims", "add_dim", "subset", "cast", "neg")
"""Operations of one operand that are linear in it, but for rounding."""


@dataclass(frozen=True, slots=True)
class Online:
    """A loop that keeps the largest element and sums that are scaled by it."""

    rest: tuple[Node, ...]
    """The body without what depends on what is carried."""
    largest: Carried
    element: Expr
    drops_nan: bool
    power: str
    final: Var
    """Stands for the largest element of all rounds."""
    sums: tuple[tuple[Carried, Expr], ...]


def online_sums(node: For, fresh: Callable[[str], str]) -> Online | None:
    """A loop as the largest element of its rounds, and sums that are scaled by it; None of any other."""
    insides = {c.inside for c in node.carried}
    for c in node.carried:
        if not isinstance(c.next, Var):
            continue
        final = Var(fresh("largest"), c.next.type)
        found = _apart(node, insides, {c.next: final})
        if found is None:
            continue
        rest, values = found
        let = next((n for n in node.body if isinstance(n, Let) and n.result == c.next), None)
        extreme = None if let is None else _extreme(let.value, c.inside)
        if let is None or extreme is None or not extreme[0].free.isdisjoint(insides | values.keys()):
            continue
        sums: list[tuple[Carried, Expr]] = []
        powers: set[str] = set()
        for other in node.carried:
            total = values.get(other.next) if isinstance(other.next, Var) else None
            scaled = None if total is None else _scaled_sum(total, other.inside, c.inside, final, insides)
            if scaled is not None:
                sums.append((other, scaled[1]))
                powers.add(scaled[0])
        if len(sums) == len(node.carried) - 1 and len(powers) == 1:
            return Online(rest, c, extreme[0], extreme[1], powers.pop(), final, tuple(sums))
    return None


def _apart(node: For, insides: set[Var], known: dict[Var, Var]) -> tuple[tuple[Node, ...], dict[Var, Expr]] | None:
    """The body without what depends on carried values, and that as expressions of them."""
    tainted: dict[Var, Expr] = {}
    rest: list[Node] = []
    for n in node.body:
        if isinstance(n, Let) and not n.value.free.isdisjoint(insides | tainted.keys()):
            if n.result in known:
                tainted[n.result] = known[n.result]
            else:
                tainted[n.result] = substitute(n.value, {v: tainted[v] for v in n.value.free if v in tainted})
        elif uses(n).isdisjoint(insides | tainted.keys()):
            rest.append(n)
        else:
            return None
    return tuple(rest), tainted


def _extreme(value: Expr, old: Var) -> tuple[Expr, bool] | None:
    """The operand that the running maximum is compared with, and whether NaN is passed over."""
    match value:
        case Call("max"):
            found = combined(value, old)
            return None if found is None else (found[1], False)
        case Call("if", (Call("isnan", (a,)), b, Call("if", (Call("isnan", (c,)), d, Call("max", (x, y)))))):
            if (a, b) == (d, c) and {x, y} == {a, b} and old in (a, b):
                return (b if a == old else a), True
            return None
        case Call("if", (Call("isnan", (a,)), b, Call("max", (x, y)))) if {x, y} == {a, b} and old in (a, b):
            return (b if a == old else a), True
        case _:
            return None


def _scaled_sum(total: Expr, old: Var, largest: Var, final: Var, insides: set[Var]) -> tuple[str, Expr] | None:
    """The power and the terms of `old × power(largest - final) + terms`, where the terms are scaled as well."""
    match total:
        case Call("plus", operands):
            pass
        case _:
            return None
    for one, terms in (operands, operands[::-1]):
        match one:
            case Call("multiplies", factors) if old in factors:
                fade = factors[0] if factors[1] == old else factors[1]
            case _:
                continue
        match fade:
            case Call(power, (Call("minus", (a, b)),)) if power in POWERS and (a, b) == (largest, final):
                if terms.free.isdisjoint(insides) and _scales(terms, final, power):
                    return power, terms
            case _:
                pass
    return None


def _scales(e: Expr, final: Var, power: str) -> bool:
    """True if a value is multiplied by what power(-final) is multiplied by."""
    pending: list[Expr] = [e]
    while pending:
        match pending.pop():
            case Call(op, (Call("minus", (x, y)),)) if op == power and y == final and final not in x.free:
                pass
            case Call("reduce", (Operator("plus"), start, x)) if _is_zero(start):
                pending.append(x)
            case Call("contract" | "multiplies", (x, y)) if (final in x.free) != (final in y.free):
                pending.append(x if final in x.free else y)
            case Call("divides", (x, y)) if final in x.free and final not in y.free:
                pending.append(x)
            case Call("plus" | "minus", (x, y)):
                pending += [z for z in (x, y) if not _is_zero(z)]
            case Call("if", (c, x, y)) if final not in c.free:
                pending += [z for z in (x, y) if not _is_zero(z)]
            case Call(op, (x,)) if op in MOVES:
                pending.append(x)
            case _:
                return False
    return True


def _is_zero(e: Expr) -> bool:
    known = constant_of(e)
    return known is not None and known.value == 0


def is_number(e: Expr) -> bool:
    """True if an extreme is one of numbers: NaNs were replaced before, and it starts from a number."""
    match e:
        case Call("reduce", (Operator("max"), Literal(), Call("if", (Call("isnan", (x,)), Literal(), y)))):
            return x == y
        case Call("rename" | "add_dim" | "split_dim" | "merge_dims", (x,)):
            return is_number(x)
        case _:
            return False


MOST_ROUNDS = (1 << 31) - 1
ONLINE = "what a round scales by the largest so far is scaled at the end"
"""The reason of a decision: `raise_online` took the loop."""


def run(scope: Scope, nodes: Sequence[Node]) -> None:
    """Evaluate nodes one after the other."""
    for node in nodes:
        _step(scope, node)


def _step(scope: Scope, node: Node) -> None:
    match node:
        case Read(result):
            scope.values[result.name] = read(scope, node)
        case Write():
            write(scope, node)
        case Atomic():
            update(scope, node)
        case Let(result, value):
            scope.values[result.name] = evaluated(scope, value)
        case If():
            _choice(scope, node)
        case For(rule=Rule.INDEPENDENT):
            _independent(scope, node)
        case For():
            if not _at_once(scope, node):
                _in_order(scope, node)
        case While():
            _while(scope, node)
        case Check(condition, message, span):
            _check(scope, condition, message, span)
        case Order():
            pass
        case _:
            raise DiagnosticError(Diagnostic("TL40", "a function that is known by its name has no tensors.", node.span))


def _check(scope: Scope, condition: Expr, message: str, span: Span) -> None:
    e = evaluated(scope, condition)
    if scope.active is not None:
        e = call("or", e, call("not", scope.active))
    scope.run.unchecked = True
    scope.run.asserted.append((e, message, span))


# Choices


def _choice(scope: Scope, node: If) -> None:
    where = scope.mask(node.conditions, {})
    c: Expr = literal(True) if where is None else where
    if isinstance(c, Literal):
        run(scope, node.body if c.value else node.otherwise)
        for j in node.joined:
            scope.values[j.result.name] = evaluated(scope, j.value if c.value else j.otherwise)
        return
    inner = scope.inside(active=c)
    run(inner, node.body)
    taken = [evaluated(inner, j.value) for j in node.joined]
    other = scope.inside(active=call("not", c))
    run(other, node.otherwise)
    for j, a in zip(node.joined, taken, strict=True):
        b = evaluated(other, j.otherwise)
        scope.values[j.result.name] = a if a is b else call("if", c, a, b)


# Independent loops


def _independent(scope: Scope, node: For) -> None:
    """A nest of loops whose iterations run in any order: all at once, if none meets another one."""
    loops, body = [node], node.body
    while len(body) == 1 and isinstance(body[0], For) and body[0].rule is Rule.INDEPENDENT:
        loops.append(body[0])
        body = body[0].body
    extents: dict[str, tuple[int, int]] = {}
    for loop in loops:
        assert isinstance(loop.start, Affine) and isinstance(loop.stop, Affine)
        assert loop.start.is_number and loop.stop.is_number
        extents[loop.dim] = (loop.start.constant, loop.stop.constant - 1)
    several = {n: r for n, r in extents.items() if r[1] > r[0]}
    ones = {n: literal(low) for n, (low, high) in extents.items() if low == high}
    ranges = {n: extents[n] for n in (*ones, *several)}
    if any(high < low for low, high in extents.values()):
        return
    accesses = accesses_of(body)
    _refuse_outside(scope, accesses, several)
    reason = _meeting(scope, accesses, several)
    dims = {n: Interval(low, high + 1) for n, (low, high) in several.items()}
    if reason is None:
        inner = scope.inside(dims=dims, numbers=ones, ranges=ranges)
        run(inner, body)
        strategy = "parallel"
    else:
        _one_by_one(scope.inside(numbers=ones, ranges=ranges), several, body, node.span)
        strategy = "sequential"
    for loop in loops:
        if loop.dim in several:
            scope.run.decided.append((loop, strategy, reason or ""))


def _refuse_outside(scope: Scope, accesses: Sequence[Access], dims: Mapping[str, tuple[int, int]]) -> None:
    """Say of an access that it leaves its buffer, where that is proven."""
    ones = {n: r for n, r in scope.ranges.items() if n not in dims}
    found = outside(accesses, {**ones, **dims})
    if found is None:
        return
    a, extent = found.access, found.access.shape[found.dim]
    where = f", in block ({', '.join(f'{n} = {v}' for n, v in found.iteration.items())})" if found.iteration else ""
    which = f"index {found.dim} of '{a.buffer}'" if len(a.shape) > 1 else f"an index of '{a.buffer}'"
    message = f"{which} is {found.index}, and it runs from 0 to {extent - 1}{where}."
    if scope.run.on_hazard == "error":
        help = "mask the lanes that leave it, or pass a larger array."
        raise DiagnosticError(Diagnostic("TL10", message, a.node.span, help=help))
    scope.run.notes.append(message)


def _meeting(scope: Scope, accesses: Sequence[Access], dims: Mapping[str, tuple[int, int]]) -> str | None:
    """Why iterations cannot run at once; None where they can. Raises TL12 for what is proven to be a race."""
    safe = _only_written_once(accesses)
    found = conflict(accesses, dims, {})
    if found is None:
        return None
    if found.proven and scope.run.on_hazard == "error":
        raise DiagnosticError(_race(found, dims))
    if found.proven:
        scope.run.notes.append(_race(found, dims).message)
    rest = [a for a in accesses if a.buffer not in safe]
    other = conflict(rest, dims, {}) if len(rest) < len(accesses) else found
    if other is None:
        name = found.first.buffer
        scope.run.notes.append(f"which block writes an element of '{name}' last is left to their order.")
        return None
    return f"iterations may meet in '{other.first.buffer}'"


def _only_written_once(accesses: Sequence[Access]) -> frozenset[str]:
    """The buffers that one write alone touches, outside of loops: put in order, the last iteration wins."""
    of: dict[str, list[Access]] = {}
    for a in accesses:
        of.setdefault(a.buffer, []).append(a)
    return frozenset(
        n for n, found in of.items() if len(found) == 1 and found[0].kind == "Write" and not found[0].in_loop
    )


def _race(found: Conflict, dims: Mapping[str, tuple[int, int]]) -> Diagnostic:
    a, b = (", ".join(f"{n} = {v}" for n, v in zip(dims, i, strict=True)) for i in found.iterations)
    what = "both write" if found.first.kind != "Read" and found.second.kind != "Read" else "one writes and one reads"
    message = f"two blocks touch one element of '{found.first.buffer}', which {what}: ({a}) and ({b})."
    help = "give each block elements of its own, or lift with on_hazard='sequential': blocks then run in order."
    return Diagnostic("TL12", message, found.second.node.span, help=help)


def _one_by_one(scope: Scope, extents: Mapping[str, tuple[int, int]], body: Sequence[Node], span: Span) -> None:
    """Iterations of a nest one after the other, the innermost loop fastest."""
    count = 1
    for low, high in extents.values():
        count *= high - low + 1

    def numbers(i: Expr) -> dict[str, Expr]:
        found: dict[str, Expr] = {}
        inner = 1
        for k, (name, (low, high)) in enumerate(reversed(list(extents.items()))):
            e = i if inner == 1 else call("floordiv", i, literal(inner))
            if k < len(extents) - 1:
                e = call("mod", e, literal(high - low + 1))
            found[name] = e if not low else call("plus", e, literal(low))
            inner *= high - low + 1
        return found

    def step(inner: Scope, i: Expr) -> Sequence[Expr]:
        run(inner.inside(numbers=numbers(i), ranges=extents), body)
        return ()

    _steps(scope, _Steps((), (), body, step, count, None, span))


# Loops at once


def _at_once(scope: Scope, node: For) -> bool:
    """Run a loop in order at once, if its iterations only combine what they carry, and do not meet in memory."""
    found = reductions(node)
    if found is not None and scope.run.exact and any(op != "max" and op != "min" for op, _ in found[1]):
        return False
    online = online_sums(node, scope.run.fresh) if found is None and scope.run.raise_online else None
    count = None if found is None and online is None else _rounds_at_once(scope, node)
    if count is None or not isinstance(node.stop, Affine):
        return False
    bound: Condition = Bound(node.stop.minus(Affine(((node.dim, 1),))).minus(Affine((), 1)))
    inner = scope.inside(dims={node.dim: Interval(0, count)}, ranges={node.dim: (0, count - 1)})
    mask = inner.mask((bound,), {})
    inner = inner.inside(active=mask)
    if online is not None:
        run(inner, online.rest)
        _scaled_once(scope, inner, node.dim, count, online, mask)
        scope.run.decided.append((node, "reduction", ONLINE))
        return True
    assert found is not None
    rounded = [op for c, (op, _) in zip(node.carried, found[1], strict=True) if _is_float(c.inside)]
    if "plus" in rounded or "multiplies" in rounded:
        scope.run.merged.append(node.span)
    run(inner, found[0])
    for c, (op, term) in zip(node.carried, found[1], strict=True):
        first = evaluated(scope, c.first)
        scope.values[c.result.name] = _total(scope, node.dim, count, op, first, evaluated(inner, term), mask)
    scope.run.decided.append((node, "reduction" if node.carried else "parallel", ""))
    return True


def _is_float(v: Var) -> bool:
    element = v.type.element
    return isinstance(element, Scalar) and element.is_float


def _rounds_at_once(scope: Scope, node: For) -> int | None:
    """The most rounds of a loop from 0, if known and without conflicts in memory."""
    ranges = scope.known_ranges({})
    if not isinstance(node.start, Affine) or not isinstance(node.stop, Affine) or node.start != Affine((), 0):
        return None
    if not node.stop.names <= ranges.keys():
        return None
    span = node.stop.range(ranges)
    assert span is not None
    if (count := span[1]) <= 0:
        return None
    accesses = accesses_of(node.body)
    if any(a.kind != "Read" for a in accesses):
        outer = {n: r for n, r in ranges.items() if n in scope.dims or n in scope.numbers}
        if conflict(accesses, {node.dim: (0, count - 1)}, outer) is not None:
            return None
    return count


def _scaled_once(scope: Scope, inner: Scope, dim: str, count: int, online: Online, mask: Expr | None) -> None:
    """The largest element of all rounds, and the sums with every term scaled by it."""
    start, term = evaluated(scope, online.largest.first), evaluated(inner, online.element)
    if online.drops_nan and not is_number(term):
        lowest = literal(float("-inf"), term.tensor.leaves[0])
        term = call("if", call("isnan", term), lowest, term)
    largest = _total(scope, dim, count, "max", start, term, mask)
    scope.values[online.final.name] = scope.values[online.largest.result.name] = largest
    for c, each in online.sums:
        first = evaluated(scope, c.first)
        if (known := constant_of(first)) is None or known.value != 0:
            first = call("multiplies", first, call(online.power, call("minus", start, largest)))
        scope.values[c.result.name] = _total(scope, dim, count, "plus", first, evaluated(inner, each), mask)


def _total(scope: Scope, dim: str, count: int, op: str, first: Expr, term: Expr, mask: Expr | None) -> Expr:
    """A first value and the terms of all rounds."""
    element = first.tensor.element
    assert isinstance(element, Scalar)
    identity = TABLE[op].identity
    assert identity is not None
    nothing = literal(identity(element), element)
    match term:
        case Call("contract", (a, b), (kind, names)) if op == "plus":
            if mask is not None:
                a = call("if", mask, a, literal(0, a.tensor.leaves[0]))
            if dim not in a.tensor.dims and dim not in b.tensor.dims:
                a = spread(a, {dim: Interval(0, count)})
            total = call("contract", a, b, static=(kind, (dim, *names)))
        case _:
            if mask is not None:
                term = call("if", mask, term, nothing)
            term = spread(term, {dim: Interval(0, count)})
            state = TensorType(element, term.tensor.dims.without(dim))
            total = reduce(operator(op, state, state), nothing, term, dim=dim)
    start = first
    while isinstance(start, Call) and start.op == "add_dim":
        start = start.args[0]
    if isinstance(start, Literal) and start == nothing:
        return total
    return call(op, first, total)


# Loops step by step


@dataclass(frozen=True, slots=True)
class _Steps:
    """A loop over values and memory."""

    carried: Sequence[Carried]
    firsts: Sequence[Expr]
    body: Sequence[Node]
    step: Callable[[Scope, Expr], Sequence[Expr]]
    """The next values, of a scope within a round and its number."""
    limit: int | None
    going: Callable[[Scope, Expr], Expr] | None
    """Whether there is another round; None where there always is one."""
    span: Span


def _in_order(scope: Scope, node: For) -> None:
    ranges = scope.known_ranges({})
    start, stop = evaluated_index(scope, node.start), evaluated_index(scope, node.stop)
    limit: int | None = None
    constant = isinstance(node.start, Affine) and isinstance(node.stop, Affine)
    if isinstance(node.start, Affine) and isinstance(node.stop, Affine):
        rounds = node.stop.minus(node.start)
        found = rounds.range(ranges) if rounds.names <= ranges.keys() else None
        limit = None if found is None or found[1] > MOST_ROUNDS else max(0, found[1])
        constant = rounds.is_number
    if constant and limit == 1 and isinstance(node.start, Affine) and node.start.is_number:
        _once(scope, node, node.start.constant)
        return
    zero = isinstance(node.start, Affine) and node.start == Affine((), 0)
    most = (0, MOST_ROUNDS - 1 if limit is None else max(0, limit - 1))
    count = stop if zero else call("minus", stop, start)
    count = converted(count, INT32)

    def step(inner: Scope, i: Expr) -> Sequence[Expr]:
        index = i if zero else call("plus", i, converted(start, INT32))
        runs = None if constant else call("less", i, count)
        low = node.start.range(ranges) if isinstance(node.start, Affine) else None
        known = most if low is None else (low[0] + most[0], low[1] + most[1])
        body = inner.inside(numbers={node.dim: index}, ranges={node.dim: known}, active=_per_block(runs))
        run(body, node.body)
        following = [evaluated(body, c.next) for c in node.carried]
        return [_kept(inner, c, x, _per_block(runs)) for c, x in zip(node.carried, following, strict=True)]

    def going(inner: Scope, i: Expr) -> Expr:
        more = call("less", i, count)
        return inner.any_of(more if inner.active is None else call("and", more, inner.active))

    firsts = [evaluated(scope, c.first) for c in node.carried]
    _steps(scope, _Steps(node.carried, firsts, node.body, step, limit, None if constant else going, node.span))
    scope.run.decided.append((node, "sequential", "what a round carries depends on the round before"))


def _once(scope: Scope, node: For, number: int) -> None:
    """A loop of one round is that round."""
    scope.values.update({c.inside.name: evaluated(scope, c.first) for c in node.carried})
    inner = scope.inside(numbers={node.dim: literal(number)}, ranges={node.dim: (number, number)})
    run(inner, node.body)
    scope.values.update({c.result.name: evaluated(inner, c.next) for c in node.carried})


def _per_block(runs: Expr | None) -> Expr | None:
    """True if a block runs a round, where blocks differ in that."""
    return runs if runs is not None and runs.tensor.dims else None


def evaluated_index(scope: Scope, i: Affine | Var) -> Expr:
    return scope.index(i, {})


def _kept(scope: Scope, c: Carried, value: Expr, runs: Expr | None) -> Expr:
    return value if runs is None else call("if", runs, value, scope.values[c.inside.name])


def _while(scope: Scope, node: While) -> None:
    def condition(inner: Scope) -> Expr:
        run(inner, node.before)
        holds = evaluated(inner, node.condition)
        return holds if inner.active is None else call("and", holds, inner.active)

    def step(inner: Scope, i: Expr) -> Sequence[Expr]:
        run(inner, node.before)
        runs = _per_block(evaluated(inner, node.condition))
        body = inner.inside(active=runs)
        run(body, node.body)
        following = [evaluated(body, c.next) for c in node.carried]
        return [_kept(inner, c, x, runs) for c, x in zip(node.carried, following, strict=True)]

    def going(inner: Scope, i: Expr) -> Expr:
        return inner.any_of(condition(inner))

    firsts = [evaluated(scope, c.first) for c in node.carried]
    everything = (*node.before, *node.body)
    _steps(scope, _Steps(node.carried, firsts, everything, step, None, going, node.span))
    scope.run.decided.append((node, "sequential", "it runs until data end it"))


def _steps(scope: Scope, loop: _Steps) -> None:
    """The loop over what is carried and what is written; all iterations that run at once step together."""
    buffers = sorted({n.buffer.name for n in walk(tuple(loop.body)) if isinstance(n, Write | Atomic)})
    types = [x.tensor.on(bcast([x.tensor, c.inside.type])) for x, c in zip(loop.firsts, loop.carried, strict=True)]
    own = [TensorType(b.element, Dims(tuple(dims_of(b).items()))) for b in (scope.run.buffers[n] for n in buffers)]
    before = scope.run.asserted
    while True:
        scope.run.asserted = []
        i, values, memory = _variables(scope, loop, types, buffers, own)
        inner = replace(scope, memory={**scope.memory, **dict(zip(buffers, memory, strict=True))})
        _bind(inner, loop.carried, values)
        following = list(loop.step(inner, i))
        wider = [_wider(t, x.tensor) for t, x in zip(types, following, strict=True)]
        if wider == types:
            break
        types = wider
    asserted, scope.run.asserted = scope.run.asserted, before
    results = [*following, *(inner.memory[n] for n in buffers)]
    whole = [*types, *own]
    results = [spread(r, dict(t.dims.items)) for r, t in zip(results, whole, strict=True)]
    starts = [*loop.firsts, *(scope.memory[n] for n in buffers)]
    starts = [spread(s, dict(t.dims.items)) for s, t in zip(starts, whole, strict=True)]
    if not starts:
        if asserted:
            scope.run.notes.append("assertions of a loop that changes nothing are not checked.")
        return
    if scope.run.checked:
        # what is asserted within a round is asked in the round
        for holds, message, span in asserted:
            results[0] = call("assert_", results[0], holds, static=(message,), span=span)
    j, carried, held = _variables(scope, loop, types, buffers, own)
    condition: Expr = literal(True)
    if loop.going is not None:
        asked = replace(scope, memory={**scope.memory, **dict(zip(buffers, held, strict=True))})
        _bind(asked, loop.carried, carried)
        condition = loop.going(asked, j)
        scope.run.asserted = before
    operands = (function([j, *carried, *held], condition), function([i, *values, *memory], *results), *starts)
    for k, c in enumerate(loop.carried):
        scope.values[c.result.name] = call("loop", *operands, static=(k, loop.limit), span=loop.span)
    for k, n in enumerate(buffers):
        scope.memory[n] = call("loop", *operands, static=(len(loop.carried) + k, loop.limit), span=loop.span)


def _wider(state: TensorType, value: TensorType) -> TensorType:
    """A state with the dims of a value, which stand in front of its own as those of what it meets do."""
    whole = bcast([state, value])
    names = [n for n in whole.names if n not in state.dims]
    return state.on(Dims(tuple((n, whole[n]) for n in (*names, *state.dims.names))))


def _variables(
    scope: Scope, loop: _Steps, types: Sequence[TensorType], buffers: Sequence[str], own: Sequence[TensorType]
) -> tuple[Var, list[Var], list[Var]]:
    fresh = scope.run.fresh
    i = var(fresh("step"), TensorType(INT32))
    values = [var(fresh(c.inside.name), t) for c, t in zip(loop.carried, types, strict=True)]
    return i, values, [var(fresh(f"{n}_now"), t) for n, t in zip(buffers, own, strict=True)]


def _bind(scope: Scope, carried: Sequence[Carried], values: Sequence[Var]) -> None:
    scope.values.update({c.inside.name: v for c, v in zip(carried, values, strict=True)})
