"""What a part of a kernel is, in the words of a message."""

from __future__ import annotations

from collections.abc import Mapping

from tensorir.tir import nodes as n

__all__ = ["in_words"]

_WORDS: Mapping[type[n.Node], str] = {
    n.Div: "a division", n.Mod: "a remainder", n.FloorDiv: "a division that rounds down", n.Add: "a sum",
    n.FloorMod: "a remainder that is never below 0", n.Sub: "a difference", n.Mul: "a product", n.Min: "a minimum",
    n.Max: "a maximum", n.EQ: "a comparison", n.NE: "a comparison", n.LT: "a comparison", n.LE: "a comparison",
    n.GT: "a comparison", n.GE: "a comparison", n.And: "a condition", n.Or: "a condition", n.Not: "a condition",
    n.Select: "a choice of two values", n.Ramp: "a vector", n.Broadcast: "a vector", n.Shuffle: "a vector",
    n.StringImm: "a text", n.Reduce: "a reduction", n.While: "a while loop", n.IfThenElse: "a condition",
    n.AssertStmt: "an assertion", n.Break: "the end of a loop", n.Continue: "the next iteration of a loop",
    n.Prefetch: "a prefetch", n.AllocateConst: "a constant array", n.Block: "a block", n.BlockRealize: "a block",
}  # fmt: skip


def in_words(node: n.Node) -> str:
    """What an expression or a statement is.

    >>> from tensorir.tir.dtypes import INT32
    >>> in_words(n.Evaluate(n.Call(INT32, "prefetch", ())))
    'T.prefetch'
    >>> in_words(n.While(n.IntImm(1, INT32), n.Evaluate(n.IntImm(0, INT32))))
    'a while loop'
    """
    match node:
        case n.Call(op=n.GlobalVar(name)):
            return f"a call of {name!r}"
        case n.Call(op=op):
            return f"T.{op}"
        case n.Evaluate(value):
            return in_words(value)
        case n.Cast(value, dtype):
            return f"a conversion of {value.dtype} to {dtype}"
        case n.Var(name):
            return repr(name)
        case n.For(var):
            return f"the loop over {var.name!r}"
        case n.Let(var) | n.LetStmt(var):
            return f"the name {var.name!r}"
        case n.AttrStmt(attr_key=key):
            return f"the attribute {key!r}"
        case n.BufferLoad(buffer):
            return f"a load of {buffer.name!r}"
        case n.BufferStore(buffer, predicate=predicate):
            return f"a store to {buffer.name!r}" + ("" if predicate is None else " under a predicate")
        case n.AllocBuffer(buffer) | n.DeclBuffer(buffer) | n.BufferRealize(buffer):
            return f"the buffer {buffer.name!r}"
        case _:
            return _WORDS.get(type(node), f"{type(node).__name__} of TIR")
