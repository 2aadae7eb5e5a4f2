"""Rows of what has regions or ends them: modules, entries, branches, loops."""

from __future__ import annotations

from tensorir.tile.operations.classes import ANY, ANY_VALUE, SCALAR_BOOL, SCALAR_INT
from tensorir.tile.operations.kinds import constraint, operands
from tensorir.tile.operations.rows import V13_2, V13_3, Attr, Operand, Result, Row

__all__ = ["ENDS", "REGIONS", "SYMBOLS"]

_SIGNATURE = (Attr("sym_name", "symbol"), Attr("function_type", "signature"))
_OF_SIGNATURE = (Attr("arg_attrs", "dictionaries", optional=True), Attr("res_attrs", "dictionaries", optional=True))

SYMBOLS = (
    Row(
        "module", 75, "Globals and entries.", (),
        (Attr("sym_name", "symbol"), Attr("producer", "string", optional=True, since=V13_3)), (), ("body",), pure=False,
    ),
    Row(
        "entry", 22, "A kernel: what each block of a grid runs.", (),
        (*_SIGNATURE, *_OF_SIGNATURE, Attr("optimization_hints", "hints", optional=True)), (), ("body",), pure=False,
    ),
    Row("testing$func", None, "A function of the dialect's own tests.", (), (*_SIGNATURE, *_OF_SIGNATURE), (),
        ("body",), pure=False),
)  # fmt: skip

REGIONS = (
    Row(
        "for", 41, "The body for each value from a bound up to another by a step, with carried values.",
        (*operands(SCALAR_INT, "lowerBound upperBound step"), Operand("initValues", ANY, "any")),
        (Attr("unsignedCmp", "flag", since=V13_2),), (Result("resultValues", ANY, any=True),), ("region",),
        (constraint("type", "lowerBound upperBound step"),), pure=False, label="for",
    ),
    Row(
        "if", 50, "One of two branches.", (Operand("condition", SCALAR_BOOL),), (), (Result("results", ANY, any=True),),
        ("thenRegion", "elseRegion"), pure=False, label="if",
    ),
    Row(
        "loop", 65, "The body until it breaks, with carried values.", (Operand("initValues", ANY, "any"),), (),
        (Result("resultValues", ANY, any=True),), ("region",), pure=False, label="loop",
    ),
)  # fmt: skip


def _end(name: str, opcode: int, doc: str, parents: str, pure: bool = False) -> Row:
    types = ANY if name == "return" else ANY_VALUE
    return Row(
        name, opcode, doc, (Operand("operands", types, "any"),), (), (), (), (), "{} ($operands : ^operands)?",
        pure=pure, ends=True, parents=tuple(parents.split()),
    )  # fmt: skip


ENDS = (
    _end("break", 10, "The end of a loop, with its results.", "if loop"),
    _end("continue", 17, "The next iteration, with the values it carries.", "for if loop"),
    _end("return", 92, "The end of a block's run.", "entry if testing$func"),
    _end("yield", 109, "The values of a branch, or of a fold's body.", "if reduce scan", pure=True),
)
