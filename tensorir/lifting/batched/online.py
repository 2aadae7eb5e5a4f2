"""Loops that keep the largest element so far, and sums that are scaled by it, as two: the largest, and the sums."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from tensorir.integers.affine import Affine, number, variable
from tensorir.ir.build import call, literal
from tensorir.ir.nodes import Call, Expr, Literal, Operator, Var
from tensorir.ir.rewrite import substitute
from tensorir.ir.types import INT32, Scalar, TensorType
from tensorir.lifting.emission.tensors import constant_of
from tensorir.lifting.region.nodes import (
    Buffer,
    Carried,
    For,
    If,
    Let,
    Node,
    Read,
    Write,
    results,
    uses,
)
from tensorir.lifting.schedule.components import combined

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


ONLINE = "what a round scales by the largest so far is scaled at the end"
"""The reason of a decision: `raise_online` took the loop."""


def with_sums_scaled_once(
    nodes: tuple[Node, ...], ranges: Mapping[str, tuple[int, int]], scaled: set[str]
) -> tuple[Node, ...]:
    """The nodes with two loops for each that keeps the largest element and sums that are scaled by it.

    `scaled` gets the names of the first ones' loops.
    """
    found: list[Node] = []
    for node in nodes:
        match node:
            case For(dim, Affine() as start, Affine() as stop, body):
                low, high = start.range(ranges), stop.range(ranges)
                inner = ranges if low is None or high is None else {**ranges, dim: (low[0], high[1] - 1)}
                node = replace(node, body=with_sums_scaled_once(body, inner, scaled))
                online = online_sums(node, lambda name, dim=dim: f"{name}_{dim}") if dim in inner else None
                if online is not None and inner[dim][0] == 0 <= inner[dim][1]:
                    scaled.add(dim)
                    found += _in_two(node, online, inner[dim][1] + 1)
                    continue
            case If(body=body, otherwise=otherwise):
                body, otherwise = (with_sums_scaled_once(b, ranges, scaled) for b in (body, otherwise))
                node = replace(node, body=body, otherwise=otherwise)
            case _:
                pass
        found.append(node)
    return tuple(found)


def _in_two(node: For, online: Online, count: int) -> Iterator[Node]:
    """A loop for the largest element, which keeps what sums ask for by its rounds, and a loop for the sums."""
    largest, dim, again = online.largest, node.dim, f"{node.dim}_again"
    term, known = online.element, {n.result: n.value for n in online.rest if isinstance(n, Let)}
    if online.drops_nan and not is_number(known.get(term, term) if isinstance(term, Var) else term):
        lowest = literal(float("-inf"), term.tensor.leaves[0])
        term = call("if", call("isnan", term), lowest, term)
    own = frozenset(v for n in online.rest for v in results(n))
    kept = sorted({v for _, each in online.sums for v in each.free if v in own}, key=lambda v: v.name)
    buffers = [_kept_by_round(v, dim, count) for v in kept]
    writes = [Write(b, _at(v, dim), v, (), node.span) for v, b in zip(kept, buffers, strict=True)]
    first = replace(largest, next=call("max", largest.inside, term))
    yield replace(node, body=(*online.rest, *writes), carried=(first,))
    yield Let(online.final, largest.result, node.span)
    here = [Var(f"{v.name}_again", v.type) for v in kept]
    reads = [Read(x, b, _at(v, again), (), None, node.span) for x, v, b in zip(here, kept, buffers, strict=True)]
    sums: list[Carried] = []
    for c, each in online.sums:
        start = c.first
        if (is_known := constant_of(start)) is None or is_known.value != 0:
            start = call("multiplies", start, call(online.power, call("minus", largest.first, online.final)))
        now = dict(zip(kept, here, strict=True)) | {Var(dim, TensorType(INT32)): Var(again, TensorType(INT32))}
        sums.append(replace(c, first=start, next=call("plus", c.inside, substitute(each, now))))
    yield replace(node, dim=again, body=tuple(reads), carried=tuple(sums))


def _kept_by_round(v: Var, dim: str, count: int) -> Buffer:
    element = v.type.element
    assert isinstance(element, Scalar)
    return Buffer(f"{v.name}_kept", element, ((f"{dim}_kept", count), *((n, len(i)) for n, i in v.type.dims.items)))


def _at(v: Var, dim: str) -> tuple[Affine, ...]:
    return variable(dim), *(variable(n).minus(number(i.start)) for n, i in v.type.dims.items)
