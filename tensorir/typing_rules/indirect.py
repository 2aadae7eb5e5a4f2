"""Rules of access at computed indices, and of sorting."""

from __future__ import annotations

from collections.abc import Sequence

from tensorir.errors import did_you_mean
from tensorir.types import Complaint, FunctionType, Interval, Scalar, TensorType, TupleElement, bcast
from tensorir.typing_rules.operands import Operands, Static, function_of, tensors_of

MODES = ("checked", "clamp", "zero")


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or f'{one}s'}"


def _check_indices(x: TensorType, dims: Sequence[str], indices: Sequence[TensorType], mode: str, first: int) -> None:
    if mode not in MODES:
        raise Complaint("T33", f"there is no rule {mode!r} for indices out of range.", help=f"use {', '.join(MODES)}.")
    if len(set(dims)) != len(dims) or not dims:
        raise Complaint("T33", "the indexed dims must be named, and each once.", help="write gather(I, J)(x, i, j).")
    for dim in dims:
        if dim not in x.dims:
            hint = did_you_mean(dim, [*x.dims.names, *MODES])
            raise Complaint("T25", f"there is no dim {dim} here, only {x.dims}.", help=hint, at=first - 1)
        if mode == "clamp" and not x.dims[dim]:
            raise Complaint(
                "T33",
                f"{dim}{x.dims[dim]} has no point that an index could be moved to.",
                help="use zero: nothing is read, or written, out of range.",
                at=first - 1,
            )
    if len(dims) != len(indices):
        raise Complaint(
            "T33",
            f"{_count(len(dims), 'dim')} cannot be indexed by {_count(len(indices), 'index', 'indices')}.",
            help="give one index per dim, in their order.",
        )
    for position, (dim, index) in enumerate(zip(dims, indices, strict=True)):
        if not (isinstance(index.element, Scalar) and index.element.is_integer):
            raise Complaint(
                "T33",
                f"the index of {dim} is {index.element}, not an integer.",
                help="convert it: cast(i, int32).",
                at=first + position,
            )


def gather(static: Static, args: Operands) -> TensorType:
    dims, mode = static
    x, *indices = tensors_of(args)
    _check_indices(x, dims, indices, mode, 1)
    return x.on(bcast([*indices, x.dims.without(*dims)]))


def scatter(static: Static, args: Operands) -> TensorType:
    dims, over, mode = static
    f = function_of(args, 0)
    base, *rest = tensors_of(args[1:])
    if len(rest) < 2:
        raise Complaint(
            "T06", "scatter needs a base, indices and updates.", help="write scatter(f, I, over: (p,))(x, i, u)."
        )
    *indices, updates = rest
    _check_indices(base, dims, indices, mode, 2)
    points = bcast(rest)
    aligned = base.dims.without(*dims)
    iterated = [d for d in points if d not in aligned]
    if set(iterated) != set(over) or len(set(over)) != len(over):
        raise Complaint(
            "T34",
            f"the updates run over ({', '.join(iterated)}), and over names ({', '.join(over)}).",
            help="name every dim of indices and updates that is not an unindexed dim of the base, slowest first.",
        )
    for dim, interval in points.items:
        if dim in aligned and not aligned[dim].covers(interval):
            raise Complaint(
                "T21", f"{dim}{interval} is not inside of {dim}{aligned[dim]}.", help="subset the updates.", at=1
            )
    expected = FunctionType((TensorType(base.element), TensorType(updates.element)), (TensorType(base.element),))
    if f != expected:
        raise Complaint(
            "T34", f"the function is {f}, and {expected} is needed.", help="it combines two elements.", at=0
        )
    if f.params[1].element != updates.element:
        raise Complaint("T01", f"the updates are {updates.element}.", at=len(args) - 1)
    return base


def top_k(static: Static, args: Operands) -> TensorType:
    dim, count, keys, descending = static
    whole = sort((dim, keys, descending), args)
    interval = whole.dims[dim]
    if not 0 <= count <= len(interval):
        raise Complaint(
            "T36",
            f"{dim} has {_count(len(interval), 'point')}, and the first {count} are asked for.",
            help="ask for as many as there are, or fewer.",
        )
    return whole.on(whole.dims.with_interval(dim, Interval(interval.start, interval.start + count)))


def sort(static: Static, args: Operands) -> TensorType:
    dim, keys, _ = static
    types = tensors_of(args)
    if not 1 <= keys <= len(types):
        message = f"{_count(keys, 'key')} cannot sort {_count(len(types), 'operand')}."
        raise Complaint("T36", message, help="the first operands are the keys; there is at least one.")
    for index, t in enumerate(types):
        if not isinstance(t.element, Scalar):
            raise Complaint("T05", f"a tuple, {t.element}, cannot be sorted.", help="pass its members.", at=index)
    common = bcast(types)
    if dim not in common:
        hint = did_you_mean(dim, common.names) or "sort a tensor with dims."
        raise Complaint("T25", f"there is no dim {dim} to sort along, only {common}.", help=hint, at=0)
    elements = tuple(t.element for t in types)
    return TensorType(elements[0] if len(elements) == 1 else TupleElement(elements), common)
