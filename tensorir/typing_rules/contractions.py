"""The rules of reductions with a name: sums of products, the largest element and its index."""

from __future__ import annotations

from tensorir.types import Complaint, Scalar, TensorType, TupleElement, bcast
from tensorir.typing_rules.operands import Operands, Static, interval_of, tensors_of

TIES = ("old", "new", "least", "greatest")


def contract(static: Static, args: Operands) -> TensorType:
    """The dims of both operands, those that are summed over left out."""
    element, dims = static
    types = tensors_of(args)
    for k, t in enumerate(types):
        if not isinstance(t.element, Scalar) or not t.element.is_number:
            raise Complaint(
                "T04", f"{t.element} stands where a number is needed.", help="convert it: cast(x, float64).", at=k
            )
        if t.element.is_float and not element.is_float:
            raise Complaint(
                "T01",
                f"products of {t.element} are not summed as {element}.",
                help=f"write contract({t.element}, ...).",
                at=k,
            )
    if not element.is_number:
        raise Complaint("T04", f"{element} stands where a number is needed.", help="sum as float64 or int32, say.")
    together = bcast(types)
    for dim in dims:
        if dim not in together:
            raise Complaint(
                "T17", f"no operand has the dim {dim}.", help=f"they have {', '.join(together.names) or 'no dims'}."
            )
    if len(set(dims)) != len(dims):
        raise Complaint("T17", "a dim is summed over twice.", help="name each dim once.")
    return TensorType(element, together.without(*dims))


def argreduce(static: Static, args: Operands) -> TensorType:
    dim, _, ties, _ = static
    value, index, x, places = tensors_of(args)
    for position, t in enumerate((value, index, x, places)):
        if not isinstance(t.element, Scalar):
            raise Complaint("T05", f"a tuple, {t.element}, cannot be compared.", help="pass its members.", at=position)
    if ties not in TIES:
        raise Complaint("T45", f"there is no rule {ties!r} for ties.", help=f"use {', '.join(TIES)}.")
    if (value.element, index.element) != (x.element, places.element):
        raise Complaint(
            "T45",
            f"the fold starts from {value.element} at {index.element}, and finds {x.element} at {places.element}.",
            help="cast what it starts from.",
            at=0,
        )
    interval_of(x, dim, 2)
    interval_of(places, dim, 3)
    common = bcast([x, places])
    levels = common.without(dim)
    return TensorType(TupleElement((value.element, index.element)), bcast([levels, value, index]))


def materialise(static: Static, args: Operands) -> TensorType:
    (x,) = tensors_of(args)
    return x
