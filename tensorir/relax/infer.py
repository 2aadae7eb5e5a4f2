"""Shapes and data types of calls of operators: the rule of each by its word in the table.

Shapes and data types of Relax's operators.

A rule returns the type of the result, an `ObjectType` where it cannot know, or raises `Contradiction` with a sentence.
Sizes are expressions; two contradict each other only where their difference is a constant other than zero.

>>> from tensorir.tir.build import const
>>> from tensorir.tir.dtypes import FLOAT32, INT64
>>> from tensorir.relax.nodes import Call, RelaxVar, TensorType
>>> x = RelaxVar("x", TensorType((const(4, INT64), const(1, INT64)), FLOAT32))
>>> y = RelaxVar("y", TensorType((const(3, INT64),), FLOAT32))
>>> infer(Call("add", (x, y)), {})
R.Tensor((4, 3), dtype="float32")
"""

from __future__ import annotations

from collections.abc import Mapping

from tensorir.relax import nodes as r
from tensorir.relax.operators import OPERATORS
from tensorir.relax.rules_of_elements import (
    ELEMENTWISE,
    MAKERS,
    PRODUCTS,
    REDUCTIONS,
    Contradiction,
    Rule,
    check_operands,
    differ,
    say,
    word,
)
from tensorir.relax.rules_of_structure import IMAGES, NETWORKS, SHAPES
from tensorir.tir import nodes as n
from tensorir.tir.build import const
from tensorir.tir.dtypes import INT64

__all__ = ["RULES", "Contradiction", "agree", "infer", "type_of"]

# The rules of inference by the word that the table of operators has for them: one table that joins those beside it.

RULES: dict[str, Rule] = {
    **ELEMENTWISE,
    **MAKERS,
    **PRODUCTS,
    **REDUCTIONS,
    **SHAPES,
    **NETWORKS,
    **IMAGES,
    "object": lambda call, type_of: r.ObjectType(),
    "void": lambda call, type_of: r.TupleType(()),
}
"""Every rule."""

Types = Mapping[str, r.RelaxType]


def infer(call: r.Call, functions: Types) -> r.RelaxType:
    """The type of what the call gives; `functions` holds the types of the module's functions."""
    if isinstance(call.op, r.FunctionRef):
        found = functions.get(call.op.name)
        return found.ret or r.ObjectType() if isinstance(found, r.FuncType) else r.ObjectType()
    if call.types:
        return call.types[0] if len(call.types) == 1 else r.TupleType(call.types)
    if not isinstance(call.op, str):
        known = type_of(call.op, functions)
        return known.ret or r.ObjectType() if isinstance(known, r.FuncType) else r.ObjectType()
    row = OPERATORS.get(call.op)
    if row is None:
        return r.ObjectType()

    def typed(operand: n.Node) -> r.RelaxType:
        return type_of(operand, functions)

    check_operands(call, row.values, row.rule, typed)
    found = RULES[row.rule](call, typed)
    for kind in found.fields if isinstance(found, r.TupleType) else (found,):
        for extent in (kind.shape or ()) if isinstance(kind, r.TensorType) else ():
            if isinstance(extent, n.IntImm) and extent.value < 0:
                raise Contradiction(f"R.{call.op} gives a tensor with {extent.value} elements along a dimension.")
    return found


def type_of(expr: n.Node, functions: Types) -> r.RelaxType:
    """The type of an expression."""
    match expr:
        case r.RelaxVar():
            return expr.type
        case r.Constant():
            return r.TensorType(tuple(const(size, INT64) for size in expr.shape), expr.dtype)
        case r.Tuple(fields):
            return r.TupleType(tuple(type_of(item, functions) for item in fields))
        case r.TupleGetItem(value, index):
            match type_of(value, functions):
                case r.TupleType(fields):
                    if not -len(fields) <= index < len(fields):
                        raise Contradiction(f"a tuple of {len(fields)} has no member {index}.")
                    return fields[index]
                case r.ObjectType():
                    return r.ObjectType()
                case _:
                    raise Contradiction("only a tuple has members.")
        case r.ShapeExpr(values):
            return r.ShapeType(values)
        case r.PrimValue(value):
            return r.PrimValueType(value.dtype)
        case r.FunctionRef(name):
            return functions.get(name, r.ObjectType())
        case r.Call():
            return infer(expr, functions)
        case r.SeqExpr(_, body):
            return type_of(body, functions)
        case r.If(_, a, b):
            return _either(type_of(a, functions), type_of(b, functions))
        case r.Function(_, params, body, ret_type):
            ret = type_of(body, functions) if ret_type is None else ret_type
            return r.FuncType(tuple(param.type for param in params), ret, expr.pure)
        case _:
            return r.ObjectType()


def agree(stated: r.RelaxType, found: r.RelaxType, what: str) -> None:
    """Raise where the two types exclude each other."""
    match stated, found:
        case r.TensorType(), r.TensorType():
            if stated.dtype is not None and found.dtype is not None and stated.dtype != found.dtype:
                raise Contradiction(f"{what} has elements of type {found.dtype}, and {stated.dtype} is stated.")
            if stated.ndim >= 0 and found.ndim >= 0 and stated.ndim != found.ndim:
                raise Contradiction(f"{what} has {found.ndim} dimensions, and {stated.ndim} are stated.")
            for k, (a, b) in enumerate(zip(stated.shape or (), found.shape or (), strict=False)):
                if differ(a, b):
                    raise Contradiction(f"{what} has size {say(b)} along dimension {k}, and {say(a)} is stated.")
        case r.TupleType(a), r.TupleType(b):
            if len(a) != len(b):
                raise Contradiction(f"{what} has {len(b)} members, and {len(a)} are stated.")
            for x, y in zip(a, b, strict=True):
                agree(x, y, what)
        case (r.ObjectType(), _) | (_, r.ObjectType()):
            return
        case _ if type(stated) is not type(found):
            raise Contradiction(f"{what} is {word(found)}, and {word(stated)} is stated.")
        case _:
            return


def _either(a: r.RelaxType, b: r.RelaxType) -> r.RelaxType:
    if a == b:
        return a
    if isinstance(a, r.TensorType) and isinstance(b, r.TensorType):
        dtype = a.dtype if a.dtype == b.dtype else None
        return r.TensorType(None, dtype, a.ndim if a.ndim == b.ndim else -1)
    return r.ObjectType()
