"""Which dims the result of a builtin has, with their extents, and which elements, from those of its operands.

>>> from tensorir.ir.types import FLOAT64
>>> x = Facts({"I": Extent.of(Affine(), Affine.of("n"))}, FLOAT64)
>>> facts_of("less", (), [x, x]).element.name, facts_of("pos", ("I",), [x]).dims["I"].stop
('bool', 'n')
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tensorir.inspect.formulas.places import Extent, Facts, united
from tensorir.ir.types import BOOL, INT32, Element, TupleElement
from tensorir.ir.typing_of_elements import highest_neighbour
from tensorir.text.syntax import Affine

__all__ = ["facts_of", "joined_dim"]


def facts_of(op: str, static: tuple[Any, ...], operands: Sequence[Facts]) -> Facts:
    """What is known of a call, from what is known of the tensors among its operands."""
    first: Mapping[str, Extent] = operands[0].dims if operands else {}
    dims: Mapping[str, Extent] = united(operands)
    element = operands[0].element if operands else None
    match op, static:
        case "if", _:
            element = operands[1].element
        case (("cast" | "bitcast"), (element,)):
            pass
        case (("and" | "or" | "xor" | "not" | "can_deref" | "isfinite" | "isinf" | "isnan"), _):
            element = BOOL
        case (("eq" | "not_eq" | "less" | "less_equal" | "greater" | "greater_equal"), _):
            element = BOOL
        case "make_tuple", _:
            element = _tuple_of(operands)
        case "tuple_get", _:
            member: int = static[0].constant
            element = element.members[member] if isinstance(element, TupleElement) else None
        case "shift_apply", _:
            dims = _without(dims, highest_neighbour(dims))
        case "reduce", (dim,):
            folded = united(operands[1:])
            dims = united([operands[0], Facts(_without(folded, dim or highest_neighbour(folded)), None)])
        case "argreduce", (dim, *_):
            dims, element = _without(dims, dim), _tuple_of(operands[:2])
        case "contract", (element, over):
            dims = _without(dims, *over)
        case "subset", (ranges,):
            dims = {**dims, **{r.dim: Extent.of(r.start, r.stop) for r in ranges}}
        case "concat", _:
            dim = joined_dim(operands)
            dims = {**dims, dim: _joined([o.dims[dim] for o in operands])}
        case "update", _:
            # in the body of a fold a part has the folded dim besides
            dims = {**dims, **first}
        case (("assert_" | "print" | "scatter"), _):
            dims = first
        case "pos", (dim,):
            dims, element = {dim: dims[dim]}, INT32
        case "add_dim", (dim, start, stop):
            dims = {**dims, dim: Extent.of(start, stop)}
        case "rename", (pairs,):
            new: dict[str, str] = dict(pairs)
            dims = {new.get(d, d): replace(e, mixed=e.neighbours is not None) for d, e in dims.items()}
        case "split_dim", (dim, outer, inner, extent):
            starts, stops = (_divided(bounds, extent) for bounds in _ends(dims[dim]))
            dims = {**_without(dims, dim), outer: Extent(starts, stops), inner: Extent.of(Affine(), extent)}
        case "merge_dims", (outer, inner, dim):
            starts, stops = (_times(bounds, dims[inner].stops) for bounds in _ends(dims[outer]))
            dims = {**_without(dims, outer, inner), dim: Extent(starts, stops)}
        case "gather", (over, *_):
            dims = united([Facts(_without(first, *over), None), *operands[1:]])
        case "loop", _:
            carried: int = static[0].constant
            return operands[carried]
        case (("sort" | "top_k"), (dim, *rest)):
            element = element if len(operands) == 1 else _tuple_of(operands)
            dims = dims if op == "sort" else {**dims, dim: Extent.of(Affine(), rest[0])}
        case _:
            pass
    return Facts(dims, element)


def joined_dim(operands: Sequence[Facts]) -> str:
    """The dim that tensors are joined along: the one in which they differ."""
    # the state of a scan has the scanned dim besides
    first = {d: e for d, e in operands[0].dims.items() if all(d in o.dims for o in operands)}
    differing = [d for d in first if any(_ends(o.dims[d]) != _ends(first[d]) for o in operands)]
    touching = [d for d in differing if first[d].stops == operands[1].dims[d].starts]
    return (touching or differing)[0]


def _joined(parts: Sequence[Extent]) -> Extent:
    """Adjacent extents as one."""
    starts, stops = {p.starts for p in parts}, {p.stops for p in parts}
    first = next((p.starts for p in parts if p.starts not in stops), parts[0].starts)
    return Extent(first, next((p.stops for p in parts if p.stops not in starts), parts[-1].stops))


def _ends(extent: Extent) -> tuple[frozenset[Affine], frozenset[Affine]]:
    return extent.starts, extent.stops


def _without(dims: Mapping[str, Extent], *names: str | None) -> dict[str, Extent]:
    return {d: e for d, e in dims.items() if d not in names}


def _tuple_of(operands: Iterable[Facts]) -> Element | None:
    members = tuple(f.element for f in operands)
    known = tuple(m for m in members if m is not None)
    return TupleElement(known) if len(known) == len(members) else None


def _divided(bounds: frozenset[Affine], by: Affine) -> frozenset[Affine]:
    """Bounds in blocks of a number of points: they are multiples of it."""
    n = by.constant
    return frozenset(Affine(b.constant // n, tuple((s, f // n) for s, f in b.terms if f // n)) for b in bounds)


def _times(bounds: frozenset[Affine], stops: frozenset[Affine]) -> frozenset[Affine]:
    """Bounds of blocks as bounds of points."""
    (n,) = stops
    return frozenset(Affine().plus(b, n.constant) for b in bounds)
