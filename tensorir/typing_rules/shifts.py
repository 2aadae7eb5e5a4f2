"""Rules of shifts, Cartesian and through neighbour tables."""

from __future__ import annotations

from collections.abc import Iterable

from tensorir.types import BOOL, NEIGHBOUR, Complaint, Dims, Interval, Scalar, TensorType, bcast, neighbour_counter
from tensorir.typing_rules.operands import Operands, Static, interval_of, tensors_of


def cartesian_shift(static: Static, args: Operands) -> TensorType:
    dim, offset = static
    (x,) = tensors_of(args)
    return x.on(x.dims.with_interval(dim, interval_of(x, dim, 0).shifted(offset)))


def neighbour_source(table: TensorType) -> tuple[str, str]:
    """The tagged dim of a table and the dim that its entries are coordinates of."""
    tagged = [d for d in table.dims if d.startswith(NEIGHBOUR) and neighbour_counter(d) is None]
    if not (isinstance(table.element, Scalar) and table.element.is_integer):
        raise Complaint(
            "T10",
            f"a table holds integers, and this holds {table.element}.",
            help="shift with a tensor<int, ...> whose entries are coordinates.",
            at=0,
        )
    if len(tagged) != 1:
        raise Complaint(
            "T10",
            f"a table has one dim that is tagged {NEIGHBOUR}, and this has {len(tagged) or 'none'}: {table.dims}.",
            help=f"for a table of edges name its last dim {NEIGHBOUR}Edge.",
            at=0,
        )
    return tagged[0], tagged[0].removeprefix(NEIGHBOUR)


def _neighbours(args: Operands) -> tuple[TensorType, str, Interval]:
    """The type after a partial shift, and its new dim."""
    table, x = tensors_of(args)
    tag, source = neighbour_source(table)
    interval = x.dims.get(source)
    if interval is None:
        raise Complaint(
            "T11",
            f"the table leads to {source}, and the operand has no dim {source}, only {x.dims}.",
            help=f"shift a tensor on {source}, or use a table of another dim.",
            at=1,
        )
    if -1 in interval:
        raise Complaint(
            "T12",
            f"in a table -1 means absent, and {source}{interval} holds the coordinate -1.",
            help=f"write gather({source})(x, indices), where -1 is a coordinate like any other.",
            at=1,
        )
    common = bcast([table.dims.without(tag), x.dims.without(source)])
    counters = [c for d in common if (c := neighbour_counter(d)) is not None]
    return x.on(common), f"{NEIGHBOUR}{max(counters, default=-1) + 1}", table.dims[tag]


def shift_init(static: Static, args: Operands) -> TensorType:
    result, dim, interval = _neighbours(args)
    return result.on(Dims((*result.dims.items, (dim, interval))))


def unstructured_shift(static: Static, args: Operands) -> TensorType:
    (slot,) = static
    result, _, interval = _neighbours(args)
    _check_slot(slot, interval, "the table")
    return result


def _check_slot(slot: int, interval: Interval, owner: str) -> None:
    if slot not in interval:
        raise Complaint(
            "T13",
            f"there is no neighbour {slot}: {owner} has the neighbours {interval}.",
            help=f"use {interval.start} to {interval.stop - 1}." if interval else "the table is empty.",
        )


def highest_neighbour(dims: Iterable[str]) -> str | None:
    """The neighbour dim with the highest counter, None where there is none.

    >>> highest_neighbour(["Vertex", "_NB_0", "_NB_1"])
    '_NB_1'
    """
    counters = [c for d in dims if (c := neighbour_counter(d)) is not None]
    return f"{NEIGHBOUR}{max(counters)}" if counters else None


def shift_apply(static: Static, args: Operands) -> TensorType:
    (slot,) = static
    (x,) = tensors_of(args)
    dim = highest_neighbour(x.dims)
    if dim is None:
        raise Complaint(
            "T09",
            f"there is no neighbour dim to select from, only {x.dims}.",
            help="shift with a table first: ⟪V2E⟫(x).",
            at=0,
        )
    _check_slot(slot, x.dims[dim], dim)
    return x.on(x.dims.without(dim))


def can_deref(static: Static, args: Operands) -> TensorType:
    (x,) = tensors_of(args)
    return x.of(BOOL)
