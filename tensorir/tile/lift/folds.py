"""reduce and scan: a body that is one operation becomes the fold of a builtin, any other one a function of states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorir.ir.build import call, function, literal, operator, reduce, scan
from tensorir.ir.nodes import Expr, Var
from tensorir.ir.types import BOOL, Dims, Scalar, TensorType, TupleElement
from tensorir.lifting.emission.tensors import renamed, spread
from tensorir.tile.lift.arithmetic import same_bits, unsigned
from tensorir.tile.lift.context import Context, Translate
from tensorir.tile.lift.values import Number, axis, boolean
from tensorir.tile.nodes import Number as Stated
from tensorir.tile.nodes import Operation, Region
from tensorir.tile.types import Element

__all__ = ["fold"]


@dataclass(frozen=True, slots=True)
class Single:
    """A body that is one operation on accumulator and element."""

    builtin: str
    unsigned: bool = False
    drops_nan: bool = False


_PLAIN = {"addi": "plus", "muli": "multiplies", "addf": "plus", "mulf": "multiplies"}
_LOGIC = {"andi": ("bit_and", "and"), "ori": ("bit_or", "or"), "xori": ("bit_xor", "xor")}
_EXTREME = {"maxi": "max", "mini": "min", "maxf": "max", "minf": "min"}


def single(body: Region, element: Element) -> Single | None:
    """The operation that a body is, None where it is more than one."""
    if len(body.operations) != 2:
        return None
    op, end = body.operations
    if tuple(end.values) != op.results or set(op.values) != set(body.arguments) or len(op.values) != 2:
        return None
    named = op.row.attribute_index
    if "rounding_mode" in named and op.attribute("rounding_mode") != "nearest_even":
        return None
    if "flush_to_zero" in named and op.attribute("flush_to_zero"):
        return None
    if op.name in _LOGIC:
        return Single(_LOGIC[op.name][element.bits == 1])
    if element.bits in (1, 4):
        return None
    if op.name in _PLAIN:
        return Single(_PLAIN[op.name])
    if op.name in ("maxi", "mini"):
        return Single(_EXTREME[op.name], op.attribute("signedness") == "unsigned")
    if op.name in ("maxf", "minf"):
        return Single(_EXTREME[op.name], drops_nan=not op.attribute("propagate_nan"))
    return None


def identity_of(item: Any, scalar: Scalar) -> Expr:
    """What a fold begins with."""
    if isinstance(item, bool):
        return literal(item, BOOL)
    assert isinstance(item, Stated)
    if scalar == BOOL:
        return literal(bool(item.bits & 1), BOOL)
    if item.element.name == "i4":
        return literal(item.value, scalar)
    raw = np.frombuffer(item.bits.to_bytes(item.element.bytes, "little"), item.element.numpy)[0]
    return literal(raw.item() if scalar.is_integer else float(raw), scalar)


def fold(translate: Translate) -> Translate:
    """reduce and scan, with the translation of the operations of a body."""

    def make(t: Context, op: Operation) -> None:
        operands = t.numbers(op.operand("operands"))
        dim, body = op.attribute("dim"), op.regions[0]
        inits = [identity_of(i, o.scalar) for i, o in zip(op.attribute("identities").items, operands, strict=True)]
        axes = operands[0].axes
        only = single(body, operands[0].element) if len(operands) == 1 else None
        if axes[dim] == 1:
            found = _once(t, translate, body, operands, inits)
        elif only is not None:
            found = [_with_builtin(op, only, operands[0], inits[0], axis(dim))]
        else:
            found = _with_function(t, translate, op, operands, inits, axis(dim))
        results: list[Number] = []
        for e, o in zip(found, operands, strict=True):
            if op.name == "reduce":
                names = {axis(k): axis(k - 1) for k in range(dim + 1, len(axes))}
                e, axes_ = renamed(e, names), (*axes[:dim], *axes[dim + 1 :])
            else:
                axes_ = axes
            results.append(t.made(e, axes_, o.element, op.span))
        t.define(op, *results)

    return make


def _with_builtin(op: Operation, only: Single, x: Number, init: Expr, dim: str) -> Expr:
    values = spread(x.expr, {dim: x.dims[dim]})
    if only.unsigned:
        values, init = unsigned(values, x.element), unsigned(init, x.element)
    if only.drops_nan:
        # a number and NaN give the number, so that NaN counts as what the fold begins with
        values = call("if", call("isnan", values), init, values)
    scalar, whole = values.tensor.element, values.tensor
    state = TensorType(scalar, whole.dims.without(dim))
    if op.name == "reduce":
        found = reduce(operator(only.builtin, state, state), init, values, dim=dim, span=op.span)
    else:
        forward = not op.attribute("reverse")
        found = scan(operator(only.builtin, state, state), forward, init, values, dim=dim, span=op.span)
    return same_bits(found, x.scalar)


def _body(
    t: Context, translate: Translate, body: Region, left: Sequence[Number], right: Sequence[Number]
) -> list[Expr]:
    """What a body makes of accumulators and elements, as expressions of their own."""
    for k, (a, b) in enumerate(zip(left, right, strict=True)):
        t.values[body.arguments[2 * k]], t.values[body.arguments[2 * k + 1]] = a, b
    before, t.inline = t.inline, True
    try:
        for inner in body.operations[:-1]:
            translate(t, inner)
        return [t.number(v).expr for v in body.operations[-1].values]
    finally:
        t.inline = before


def _once(
    t: Context, translate: Translate, body: Region, operands: Sequence[Number], inits: Sequence[Expr]
) -> list[Expr]:
    """A fold of one element."""
    first = [_scalar_number(i, o) for i, o in zip(inits, operands, strict=True)]
    return _body(t, translate, body, first, [_scalar_number(o.expr, o) for o in operands])


def _scalar_number(e: Expr, like: Number) -> Number:
    return boolean(e, (), like.element) if like.scalar == BOOL else Number((), like.element, like.scalar, e)


def _with_function(
    t: Context, translate: Translate, op: Operation, operands: Sequence[Number], inits: Sequence[Expr], dim: str
) -> list[Expr]:
    whole = operands[0].dims
    rest = Dims(tuple((n, i) for n, i in whole.items() if n != dim))
    scalars = [o.scalar for o in operands]
    several = len(operands) > 1
    state = Var(t.fresh("s"), TensorType(TupleElement(tuple(scalars)) if several else scalars[0], rest))
    elements = [Var(t.fresh("e"), TensorType(s, rest)) for s in scalars]
    parts: list[Expr] = [call("tuple_get", state, static=(k,)) for k in range(len(operands))] if several else [state]
    made = _body(
        t, translate, op.regions[0],
        [_scalar_number(p, o) for p, o in zip(parts, operands, strict=True)],
        [_scalar_number(e, o) for e, o in zip(elements, operands, strict=True)],
    )  # fmt: skip
    made = [spread(m, dict(rest.items)) for m in made]
    body = function([state, *elements], call("make_tuple", *made) if several else made[0])
    init = call("make_tuple", *inits) if several else inits[0]
    values = [spread(o.expr, whole) for o in operands]
    if op.name == "reduce":
        found = reduce(body, init, *values, dim=dim, span=op.span)
    else:
        found = scan(body, not op.attribute("reverse"), init, *values, dim=dim, span=op.span)
    return [call("tuple_get", found, static=(k,)) for k in range(len(operands))] if several else [found]
