"""True if iterations of a loop touch what others write: exactly, where indices and conditions are sums of indices."""

# islpy has no types of its own that say enough.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tensorir.integers.affine import Affine
from tensorir.ir.types import Interval
from tensorir.lifting.accesses.sets import decided, integer_set, point, text
from tensorir.lifting.region.nodes import Atomic, Bound, Condition, For, If, Index, Node, Read, While, Write


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
    """What is known of iterations that meet: proven, with two of them and an element, or undecided."""

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
