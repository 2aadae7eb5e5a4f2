"""Rows of what touches memory, orders it, or describes it: views, loads, stores, atomics, tokens, globals, printing."""

from __future__ import annotations

from tensorir.tile.operations.classes import (
    BOOLS,
    GATHER_SCATTER,
    INT,
    NUMBER,
    PARTITION,
    POINTER,
    SCALAR_INT,
    SCALAR_POINTER,
    STRIDED,
    TENSOR,
    TILE,
    TOKEN,
    VIEW,
    TypeClass,
)
from tensorir.tile.operations.kinds import constraint, operands, results
from tensorir.tile.operations.rows import (
    EXTENT,
    MODE,
    ORDERING,
    SCOPE,
    V13_1,
    V13_2,
    V13_3,
    VISIBILITY,
    Attr,
    Operand,
    Result,
    Row,
    Since,
)

__all__ = ["ATOMICS", "GLOBALS", "POINTERS", "SPEAKING", "TOKENS", "VIEWS"]

_LOADS = Attr("memory_ordering_semantics", "enum", ORDERING, only=("weak", "relaxed", "acquire"))
_STORES = Attr("memory_ordering_semantics", "enum", ORDERING, only=("weak", "relaxed", "release"))
_STRONG = Attr("memory_ordering_semantics", "enum", ORDERING, only=("relaxed", "acquire", "release", "acq_rel"))
_SCOPE = Attr("memory_scope", "enum", SCOPE)
_MAYBE_SCOPE = Attr("memory_scope", "enum", SCOPE, optional=True)
_HINTS = Attr("optimization_hints", "hints", optional=True)
_MASK = Operand("mask", BOOLS, "optional")
_INDEX = Operand("index", INT, "any")
_DONE = Result("result_token", TOKEN)


def _token(since: Since = V13_1) -> Operand:
    return Operand("token", TOKEN, "optional", since)


def _view(name: str, opcode: int, doc: str, types: TypeClass, since: Since, label: str) -> Row:
    return Row(
        name, opcode, doc, operands(TENSOR, "tensor_view"), (), results(types, "result"), (), (),
        "$tensor_view {} : ^result", since, label=label,
    )  # fmt: skip


VIEWS = (
    Row(
        "make_tensor_view", 67, "A tensor at a pointer, with its extents and strides.",
        (
            Operand("base", SCALAR_POINTER), Operand("dynamicShape", SCALAR_INT, "any"),
            Operand("dynamicStrides", SCALAR_INT, "any"),
        ),
        (), results(TENSOR, "result"), (), (), pure=False, segments=True, label="tview",
    ),
    _view("make_partition_view", 66, "The tensor as tiles side by side.", PARTITION, V13_1, "pview"),
    _view("make_strided_view", 116, "The tensor as tiles at multiples of strides.", STRIDED, V13_3, "sview"),
    _view("make_gather_scatter_view", 115, "The tensor as tiles of chosen slices.", GATHER_SCATTER, V13_3, "gsview"),
    Row(
        "get_index_space_shape", 45, "How many tiles a view has along each dim.", operands(VIEW, "src"), (),
        (Result("result", SCALAR_INT, any=True),), pure=False,
    ),
    Row(
        "get_tensor_shape", 47, "The extents of a tensor.", operands(TENSOR, "src"), (),
        (Result("result", SCALAR_INT, any=True),), pure=False,
    ),
    Row(
        "load_view_tko", 62, "The tile of a view at an index.",
        (Operand("view", VIEW), _INDEX, _token()), (_LOADS, _MAYBE_SCOPE, _HINTS), (Result("tile", TILE), _DONE),
        pure=False, segments=True, label="tile",
    ),
    Row(
        "store_view_tko", 102, "A tile, written to a view at an index.",
        (Operand("tile", TILE), Operand("view", VIEW), _INDEX, _token()), (_STORES, _MAYBE_SCOPE, _HINTS), (_DONE,),
        pure=False, segments=True,
    ),
)  # fmt: skip

POINTERS = (
    Row(
        "load_ptr_tko", 61, "The elements that pointers point to, where the mask is 1.",
        (Operand("source", POINTER), _MASK, Operand("paddingValue", NUMBER, "optional"), _token()),
        (_LOADS, _MAYBE_SCOPE, _HINTS), (Result("result", TILE), _DONE), (), (),
        "$memory_ordering_semantics ($memory_scope)? $source (, $mask)? (, $paddingValue)? (token = $token)? "
        "(optimization_hints = $optimization_hints)? {} : ^source (, ^mask)? (, ^paddingValue)? "
        "-> ^result, ^result_token",
        pure=False, segments=True, label="result",
    ),
    Row(
        "store_ptr_tko", 101, "Elements, written where pointers point to and the mask is 1.",
        (Operand("destination", POINTER), Operand("value", TILE), _MASK, _token()), (_STORES, _MAYBE_SCOPE, _HINTS),
        (_DONE,), (), (),
        "$memory_ordering_semantics ($memory_scope)? $destination, $value (, $mask)? (token = $token)? "
        "(optimization_hints = $optimization_hints)? {} : ^destination, ^value (, ^mask)? -> ^result_token",
        pure=False, segments=True,
    ),
    Row(
        "alloca", 113, "Memory of a block for some elements.", (),
        (Attr("num_elem", EXTENT, least=0), Attr("alignment", EXTENT, least=0), Attr("global", "flag")),
        results(SCALAR_POINTER, "result"), (), (),
        "num_elem = $num_elem, alignment = $alignment $global {} : ^result", V13_3, pure=False,
    ),
)  # fmt: skip

ATOMICS = (
    Row(
        "atomic_rmw_tko", 8, "Memory, changed by a value in one step; the old value is the result.",
        (Operand("pointers", POINTER), Operand("arg", TILE), _MASK, _token()),
        (_STRONG, _SCOPE, Attr("mode", "enum", MODE)), (Result("result", TILE), _DONE), (),
        (constraint("shape", "pointers arg result"), constraint("type", "arg result")),
        "$memory_ordering_semantics $memory_scope $pointers, $mode, $arg (, $mask)? (token = $token)? {} "
        ": ^pointers, ^arg (, ^mask)? -> ^result, ^result_token",
        pure=False, segments=True, label="result",
    ),
    Row(
        "atomic_cas_tko", 7, "Memory, replaced in one step where it has the bits of a value; gives the old value.",
        (Operand("pointers", POINTER), *operands(TILE, "cmp val"), _MASK, _token()), (_STRONG, _SCOPE),
        (Result("result", TILE), _DONE), (),
        (constraint("shape", "pointers cmp val result"), constraint("type", "cmp val result")),
        "$memory_ordering_semantics $memory_scope $pointers, $cmp, $val (, $mask)? (token = $token)? {} "
        ": ^pointers, ^val (, ^mask)? -> ^result, ^result_token",
        pure=False, segments=True, label="result",
    ),
    Row(
        "atomic_red_view_tko", 117, "Elements of a view, each changed by a value in one step.",
        (Operand("view", VIEW), _INDEX, Operand("value", TILE), _token()),
        (
            Attr("memory_ordering_semantics", "enum", ORDERING, only=("relaxed",)),
            Attr("memory_scope", "enum", SCOPE, only=("tl_blk", "device")),
            Attr("mode", "enum", MODE, only=MODE.cases[:-1]),
        ),
        (_DONE,), since=V13_3, pure=False, segments=True,
    ),
)  # fmt: skip

TOKENS = (
    Row("make_token", 68, "A token that waits for nothing.", (), (), results(TOKEN, "result"), (), (), "{} : ^result"),
    Row(
        "join_tokens", 60, "A token that waits for all of several.", (Operand("tokens", TOKEN, "any"),), (),
        results(TOKEN, "result"), (), (), "$tokens {} : ^result",
    ),
)  # fmt: skip

GLOBALS = (
    Row(
        "global", 49, "Memory that lives as long as the module, with its first contents.", (),
        (
            Attr("sym_name", "symbol"), Attr("value", "dense"), Attr("alignment", EXTENT, default=0),
            Attr("constant", "flag", since=V13_3),
            Attr("symbol_visibility", "enum", VISIBILITY, "public", since=V13_3),
        ),
        (), (), (), "$symbol_visibility $constant $sym_name (alignment = $alignment)? {} $value", pure=False,
    ),
    Row(
        "get_global", 44, "A pointer to the first element of a global.", (), (Attr("name", "reference"),),
        results(SCALAR_POINTER, "result"), (), (), "$name {} : ^result",
    ),
)  # fmt: skip

SPEAKING = (
    Row(
        "assert", 5, "An error at the host where an element is 0.", operands(BOOLS, "condition"),
        (Attr("message", "string"),), (), (), (), "$condition, $message {} : ^condition", pure=False,
    ),
    Row(
        "print_tko", 85, "Values, printed as C's printf does.",
        (Operand("args", TILE, "any"), _token(V13_2)), (Attr("str", "string"),),
        (Result("result_token", TOKEN, since=V13_2),), (), (),
        "$str (, $args)? (token = $token)? {} (: ^args)? -> ^result_token", pure=False, segments=True,
    ),
)  # fmt: skip
