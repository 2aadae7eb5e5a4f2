"""The rule of sums of products."""

from __future__ import annotations

from tensorir.types import Complaint, Scalar, TensorType, bcast
from tensorir.typing_rules.operands import Operands, Static, tensors_of


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


def materialise(static: Static, args: Operands) -> TensorType:
    (x,) = tensors_of(args)
    return x
