"""Parts of values of Relax: members of tuples, `x[0]`, and what a type says, `x.struct_info.shape`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from tensorir.relax import nodes as r
from tensorir.relax.infer import type_of
from tensorir.runtime.errors import did_you_mean
from tensorir.tir.script.evaluate import Evaluator
from tensorir.tir.script.values import DataTypeName, Metadata, Value, members
from tensorir.tir.script.words import describe

if TYPE_CHECKING:
    from tensorir.relax.parse import Reader

__all__ = ["field", "member"]


def member(reader: Reader, node: ast.Subscript) -> Value:
    target = reader.value(node.value)
    match target:
        case Metadata(""):
            return Metadata(reader.string(reader.value(node.slice), node.slice, "the key"))
        case Metadata(key):
            return r.MetadataConstant(key, reader.number(node.slice, "the index"), reader.text.span(node))
        case r.RelaxExpr():
            found = r.TupleGetItem(target, reader.number(node.slice, "the index"), reader.text.span(node))
            reader.check(None, found, node, "the member")
            return found
        case _ if (items := members(target)) is not None:
            index = reader.number(node.slice, "the index")
            if not -len(items) <= index < len(items):
                reader.fail(node.slice, "TS11", "there is no such member.")
            return items[index]
        case _:
            reader.fail(node.value, "TS11", f"{describe(target)} cannot be indexed.")


def field(reader: Reader, node: ast.Attribute) -> Value:
    """The type of a value, or what the type says; other attributes are those of TIR."""
    if isinstance(node.value, ast.Name):
        found = reader.scope.find(node.value.id)
    elif isinstance(node.value, ast.Attribute) and node.value.attr == "struct_info":
        found = reader.value(node.value)
    else:
        found = None
    match found, node.attr:
        case r.RelaxVar(), "struct_info":
            return type_of(found, reader.functions)
        case r.RelaxVar(), attr:
            reader.fail(
                node, "TS11", f"a value of Relax has no attribute {attr!r}.", did_you_mean(attr, ["struct_info"])
            )
        case r.TensorType(shape=tuple(sizes)), "shape":
            return sizes
        case r.TensorType(shape=tuple(sizes)), "ndim":
            return len(sizes)
        case r.TensorType(dtype=dtype), "dtype" if dtype is not None:
            return DataTypeName(dtype)
        case r.RelaxType(), attr:
            hint = did_you_mean(attr, ("shape", "ndim", "dtype"))
            reader.fail(node, "TS11", f"this type does not say {attr!r}.", hint)
        case _:
            return Evaluator.attribute_of(reader, node)
