"""Conflicts of independent iterations: accesses of two of them to one element, and accesses that leave a buffer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tensorir.integers.affine import Affine
from tensorir.integers.dims import Interval
from tensorir.lifting.accesses.sets import decided, integer_set, point, text
from tensorir.lifting.region.nodes import Atomic, Bound, Condition, For, If, Index, Node, Read, Rule, While, Write, walk
from tensorir.runtime.errors import Diagnostic, DiagnosticError, refuse

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

    @property
    def lanes(self) -> dict[str, tuple[int, int]]:
        """The dims of the value, each with its first and its last index."""
        value = self.node.result.type if isinstance(self.node, Read) else self.node.value.tensor
        return {n: (i.start, i.stop - 1) for n, i in value.dims.items}


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
            reach = i.range({**dims, **a.lanes})
            if reach is not None and reach[0] >= 0 and reach[1] < extent:
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


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A loop of independent iterations, and why they run in order; None where they run at once."""

    loop: For
    reason: str | None


def in_order_where_conflicting(
    nodes: Sequence[Node], on_hazard: str, notes: list[str]
) -> tuple[tuple[Node, ...], list[Scheduled]]:
    """The nodes with independent iterations that may conflict in their order, and the schedule of each such loop.

    Raises TL10 for an access that is proven to leave its buffer, and TL12 for a race that is proven, unless
    `on_hazard` is "sequential": then notes say it. Raises TL42 for lanes that may see each other's updates.
    """
    ordered: list[Node] = []
    schedules: list[Scheduled] = []
    for node in nodes:
        loops: list[For] = []
        body: tuple[Node, ...] = (node,)
        while len(body) == 1 and isinstance(body[0], For) and body[0].rule is Rule.INDEPENDENT:
            loops.append(body[0])
            body = body[0].body
        if not loops:
            ordered.append(node)
            continue
        extents = {loop.dim: _extent(loop) for loop in loops}
        if any(high < low for low, high in extents.values()):
            continue
        several = {n: r for n, r in extents.items() if r[1] > r[0]}
        accesses = accesses_of(body)
        _refuse_outside(accesses, several, on_hazard, notes)
        reason = _meeting(accesses, several, on_hazard, notes)
        ranges = dict(several)
        for inner in walk(body):
            if isinstance(inner, For) and isinstance(inner.start, Affine) and isinstance(inner.stop, Affine):
                low, high = inner.start.range(ranges), inner.stop.range(ranges)
                if low is not None and high is not None:
                    ranges[inner.dim] = low[0], high[1] - 1
            elif isinstance(inner, Atomic) and inner.result is not None:
                _refuse_meeting(inner, ranges)
        schedules += [Scheduled(loop, reason) for loop in loops if loop.dim in several]
        for loop in reversed(loops):
            rule = Rule.INDEPENDENT if reason is None else Rule.IN_ORDER
            body = (replace(loop, body=body, rule=rule),)
        ordered += body
    return tuple(ordered), schedules


def _extent(loop: For) -> tuple[int, int]:
    assert isinstance(loop.start, Affine) and isinstance(loop.stop, Affine)
    assert loop.start.is_number and loop.stop.is_number
    return loop.start.constant, loop.stop.constant - 1


def _refuse_outside(
    accesses: Sequence[Access], dims: Mapping[str, tuple[int, int]], on_hazard: str, notes: list[str]
) -> None:
    """Say of an access that it leaves its buffer, where that is proven."""
    found = outside(accesses, dims)
    if found is None:
        return
    a, extent = found.access, found.access.shape[found.dim]
    where = f", in block ({', '.join(f'{n} = {v}' for n, v in found.iteration.items())})" if found.iteration else ""
    which = f"index {found.dim} of '{a.buffer}'" if len(a.shape) > 1 else f"an index of '{a.buffer}'"
    message = f"{which} is {found.index}, and it runs from 0 to {extent - 1}{where}."
    if on_hazard == "error":
        help = "mask the lanes that leave it, or pass a larger array."
        raise refuse("TL10", message, help, at=a.node.span)
    notes.append(message)


def _meeting(
    accesses: Sequence[Access], dims: Mapping[str, tuple[int, int]], on_hazard: str, notes: list[str]
) -> str | None:
    """Why iterations cannot run at once; None where they can. Raises TL12 for what is proven to be a race."""
    safe = _only_written_once(accesses)
    found = conflict(accesses, dims, {})
    if found is None:
        return None
    if found.proven and on_hazard == "error":
        raise DiagnosticError(_race(found, dims))
    if found.proven:
        notes.append(_race(found, dims).message)
    rest = [a for a in accesses if a.buffer not in safe]
    other = conflict(rest, dims, {}) if len(rest) < len(accesses) else found
    if other is None:
        name = found.first.buffer
        notes.append(f"which block writes an element of '{name}' last is left to their order.")
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


def _refuse_meeting(node: Atomic, ranges: Mapping[str, tuple[int, int]]) -> None:
    """Lanes of one tile that may update one element, and see in which order they did."""
    accesses = accesses_of((node,))
    if conflict(accesses, accesses[0].lanes, ranges) is not None:
        message = (
            f"lanes of a tile may update one element of '{node.buffer.name}', and what each of them saw is asked for."
        )
        help = "update with a tile of one element, or leave the old values."
        raise refuse("TL42", message, help, at=node.span)
