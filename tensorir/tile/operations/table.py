"""Rows of all operations: what computes element by element, moves elements, touches memory, controls."""

from __future__ import annotations

from tensorir.tile.operations.rows import (
    ANY,
    ANY_VALUE,
    BASE_FLOAT,
    BOOLS,
    BYTES,
    COMPARISON,
    EXTENT,
    FLOAT,
    FLUSH,
    GATHER_SCATTER,
    INT,
    INT32_LIST,
    INT64,
    INT_OR_I4,
    MMAF_IN,
    MMAF_OUT,
    MMAI_IN,
    MMAI_OUT,
    MODE,
    NUMBER,
    ORDERED,
    ORDERING,
    PARTITION,
    POINTER,
    ROUNDED,
    SCALAR_BOOL,
    SCALAR_I32,
    SCALAR_INT,
    SCALAR_POINTER,
    SCALE,
    SCALED_IN,
    SCALED_OUT,
    SCOPE,
    SIGNED,
    SIGNEDNESS,
    STRIDED,
    TENSOR,
    TILE,
    TOKEN,
    UNPACKED,
    V13_1,
    V13_2,
    V13_3,
    VIEW,
    VISIBILITY,
    WRAPS,
    Attr,
    Constraint,
    Operand,
    Result,
    Row,
    Since,
    TypeClass,
    binary,
    constraint,
    conversion,
    operands,
    overflow,
    results,
    rounding,
    unary,
)

# Rows of what is computed element by element: integers, floats, bits, comparisons and conversions.

_NAN = Attr("propagate_nan", "flag")
_EITHER_ORDER = " $flush_to_zero $propagate_nan"

FLOATS = (
    unary("absf", 0, "Absolute value."),
    binary("addf", 2, "Sum, rounded.", BASE_FLOAT, (ROUNDED, FLUSH)),
    unary("ceil", 13, "The least integer that is not smaller."),
    unary("cos", 18, "Cosine."),
    unary("cosh", 19, "Hyperbolic cosine."),
    binary("divf", 20, "Quotient, rounded.", BASE_FLOAT, (ROUNDED, FLUSH)),
    unary("exp", 23, "Exponential.", BASE_FLOAT, (rounding("full", V13_3),)),
    unary("exp2", 24, "Power of two.", BASE_FLOAT, (FLUSH,)),
    unary("floor", 39, "The greatest integer that is not larger."),
    binary("fma", 40, "Product and sum, rounded once.", BASE_FLOAT, (ROUNDED, FLUSH), "lhs rhs acc"),
    unary("log", 63, "Natural logarithm."),
    unary("log2", 64, "Logarithm to base two."),
    binary("maxf", 69, "The larger; of a number and NaN the number.", BASE_FLOAT, (_NAN, FLUSH), syntax=_EITHER_ORDER),
    binary("minf", 71, "The smaller; of a number and NaN the number.", BASE_FLOAT, (_NAN, FLUSH), syntax=_EITHER_ORDER),
    binary("mulf", 76, "Product, rounded.", BASE_FLOAT, (ROUNDED, FLUSH)),
    unary("negf", 79, "The number with the other sign."),
    binary("pow", 84, "Power.", BASE_FLOAT, names="source exponent"),
    binary("remf", 89, "Remainder of the truncated quotient, with the sign of the dividend.", BASE_FLOAT),
    unary("rsqrt", 93, "Reciprocal square root.", BASE_FLOAT, (FLUSH,)),
    unary("sin", 98, "Sine."),
    unary("sinh", 99, "Hyperbolic sine."),
    unary("sqrt", 100, "Square root, rounded.", BASE_FLOAT, (ROUNDED, FLUSH)),
    binary("subf", 103, "Difference, rounded.", BASE_FLOAT, (ROUNDED, FLUSH)),
    unary("tan", 105, "Tangent."),
    unary("tanh", 106, "Hyperbolic tangent.", BASE_FLOAT, (rounding("full", V13_2),)),
    binary("atan2", 110, "The angle of x over y, its quadrant from both signs.", BASE_FLOAT, (), "x y", V13_2),
)

INTEGERS = (
    unary("absi", 1, "Absolute value.", INT),
    binary("addi", 3, "Sum.", INT, (WRAPS,)),
    binary("divi", 21, "Quotient.", INT, (SIGNED, rounding("zero", name="rounding")), pure=False),
    binary("maxi", 70, "The larger.", INT, (SIGNED,)),
    binary("mini", 72, "The smaller.", INT, (SIGNED,)),
    binary("mulhii", 77, "The upper half of the unsigned product.", INT, (), "x y"),
    binary("muli", 78, "Product.", INT, (WRAPS,)),
    unary("negi", 80, "The number with the other sign.", INT, (overflow(V13_2),)),
    binary("remi", 90, "Remainder of the truncated quotient, with the sign of the dividend.", INT, (SIGNED,)),
    binary("shli", 96, "Bits moved up, zeros below.", INT, (WRAPS,)),
    binary("shri", 97, "Bits moved down, zeros or the sign above.", INT, (SIGNED,)),
    binary("subi", 104, "Difference.", INT, (WRAPS,)),
)

BITWISE = (
    binary("andi", 4, "Bits of both."),
    binary("ori", 82, "Bits of either."),
    binary("xori", 108, "Bits of one of the two."),
)

COMPARISONS = (
    Row(
        "cmpf", 14, "Comparison of floats; with NaN false if ordered, true if unordered.",
        operands(BASE_FLOAT, "lhs rhs"),
        (Attr("comparison_predicate", "enum", COMPARISON), Attr("comparison_ordering", "enum", ORDERED)),
        results(BOOLS, "result"), (), (constraint("type", "lhs rhs"), constraint("shape", "lhs result")),
        "$comparison_predicate $comparison_ordering $lhs, $rhs {} : ^lhs -> ^result", elementwise=True,
    ),
    Row(
        "cmpi", 15, "Comparison of integers.", operands(INT, "lhs rhs"),
        (Attr("comparison_predicate", "enum", COMPARISON), SIGNED), results(BOOLS, "result"), (),
        (constraint("type", "lhs rhs"), constraint("shape", "lhs result")),
        "$comparison_predicate $lhs, $rhs, $signedness {} : ^lhs -> ^result", elementwise=True,
    ),
    Row(
        "select", 95, "The element of the second where the first is 1, of the third where it is 0.",
        (Operand("cond", BOOLS), *operands(TILE, "val_if_true val_if_false")), (), results(TILE, "result"), (),
        (constraint("type", "val_if_true val_if_false result"), constraint("shape", "cond result")),
        "$cond, $val_if_true, $val_if_false {} : ^cond, ^result", elementwise=True,
    ),
)  # fmt: skip

CONVERSIONS = (
    conversion("bitcast", 9, "The same bits as another type.", NUMBER, NUMBER),
    conversion("exti", 37, "The integer in more bits.", INT_OR_I4, INT_OR_I4, (SIGNED,), "from to"),
    conversion("ftof", 42, "The float in another format, rounded.", FLOAT, FLOAT, (ROUNDED,), "from to"),
    conversion(
        "ftoi", 43, "The integer part of a float.", FLOAT, INT, (SIGNED, rounding("nearest_int_to_zero")), "from to"
    ),
    conversion("int_to_ptr", 51, "The pointer with an address.", INT64, POINTER),
    conversion("itof", 59, "The integer as a float, rounded.", INT, FLOAT, (SIGNED, ROUNDED), "from to"),
    conversion("ptr_to_int", 86, "The address of a pointer.", POINTER, INT64),
    conversion("ptr_to_ptr", 87, "The same address of another type.", POINTER, POINTER),
    conversion("trunci", 107, "The low bits of an integer.", INT_OR_I4, INT_OR_I4, (WRAPS,), "from to"),
)

# Rows of what moves elements: constants, shapes, packing, folds, products of matrices, and what a launch is asked.


def _reshaping(name: str, opcode: int, doc: str, *constraints: Constraint, label: str = "") -> Row:
    return Row(
        name, opcode, doc, operands(TILE, "source"), (), results(TILE, "result"), (),
        (constraint("element", "source result"), *constraints), "$source {} : ^source -> ^result", label=label,
    )  # fmt: skip


_SAME_RANK = constraint("rank", "source result")

SHAPES = (
    Row(
        "assume", 6, "The value, of which a predicate holds.", operands(ANY, "value"),
        (Attr("predicate", "predicate"),), results(ANY, "result"), (), (constraint("type", "value result"),),
        "$predicate, $value {} : ^value",
        pure=False, label="assume",
    ),
    _reshaping("broadcast", 11, "Dims of extent 1, repeated.", _SAME_RANK, label="bcast"),
    Row(
        "cat", 12, "Two tiles side by side along a dim.", operands(TILE, "lhs rhs"), (Attr("dim", "int64"),),
        results(TILE, "result"), (), (constraint("rank", "lhs rhs result"), constraint("element", "lhs rhs result")),
        "$lhs, $rhs dim = $dim {} : ^lhs, ^rhs -> ^result",
    ),
    Row(
        "constant", 16, "A tile of numbers that the program states.", (), (Attr("value", "dense"),),
        results(NUMBER, "result"), (), (), "$value {}", label="cst",
    ),
    Row(
        "extract", 38, "The slice of the result's shape at an index that counts such slices.",
        (Operand("source", TILE), Operand("indices", SCALAR_I32, "any")), (), results(TILE, "result"), (),
        (constraint("element", "source result"), _SAME_RANK), "$source[$indices] {} : ^source -> ^result",
    ),
    Row("iota", 58, "0, 1, 2 and so on.", (), (), results(INT, "result"), (), (), "{} : ^result"),
    Row(
        "offset", 81, "Pointers, moved by elements.", (Operand("ptr", POINTER), Operand("offset", INT)), (),
        results(POINTER, "result"), (), (constraint("type", "ptr result"), constraint("shape", "ptr offset")),
        "$ptr, $offset {} : ^ptr, ^offset -> ^result", elementwise=True,
    ),
    Row(
        "pack", 111, "The elements as bytes, the first in the low bits.", operands(UNPACKED, "source"), (),
        results(BYTES, "result"), (), (_SAME_RANK,), "$source {} : ^source -> ^result", V13_3,
    ),
    Row(
        "permute", 83, "Dims in another order.", operands(TILE, "source"), (Attr("permutation", INT32_LIST),),
        results(TILE, "result"), (), (constraint("element", "source result"), _SAME_RANK),
        "$source $permutation {} : ^source -> ^result",
    ),
    _reshaping("reshape", 91, "The elements in row-major order on another shape.", label="reshape"),
    Row(
        "unpack", 112, "Bytes as elements, the low bits first.", operands(BYTES, "source"), (),
        results(UNPACKED, "result"), (), (_SAME_RANK,), "$source {} : ^source -> ^result", V13_3,
    ),
)  # fmt: skip

_IDENTITIES = Attr("identities", "numbers")
_DIM = Attr("dim", "int32", least=0)

FOLDS = (
    Row(
        "reduce", 88, "A dim folded by the body from the identities.", (Operand("operands", TILE, "any"),),
        (_DIM, _IDENTITIES), (Result("results", TILE, any=True),), ("body",), (),
        "$operands {} dim = $dim identities = $identities : ^operands -> ^results @body", pure=False, label="reduce",
    ),
    Row(
        "scan", 94, "The folds of the elements up to each one along a dim, by the body from the identities.",
        (Operand("operands", TILE, "any"),), (_DIM, Attr("reverse", "bool"), _IDENTITIES),
        (Result("results", TILE, any=True),), ("body",), (),
        "$operands {} dim = $dim reverse = $reverse identities = $identities : ^operands -> ^results @body", pure=False,
    ),
)  # fmt: skip

PRODUCTS = (
    Row(
        "mmaf", 73, "Product of matrices of floats, added to an accumulator.",
        (*operands(MMAF_IN, "lhs rhs"), Operand("acc", MMAF_OUT)), (Attr("fast_acc", "flag", since=V13_3),),
        results(MMAF_OUT, "result"), (),
        (constraint("type", "acc result"), constraint("element", "lhs rhs"), constraint("rank", "lhs rhs acc")),
        "$lhs, $rhs, $acc $fast_acc {} : ^lhs, ^rhs, ^acc",
    ),
    Row(
        "mmai", 74, "Product of matrices of integers, added to an accumulator.",
        (*operands(MMAI_IN, "lhs rhs"), Operand("acc", MMAI_OUT)),
        (Attr("signedness_lhs", "enum", SIGNEDNESS), Attr("signedness_rhs", "enum", SIGNEDNESS)),
        results(MMAI_OUT, "result"), (),
        (constraint("type", "acc result"), constraint("element", "lhs rhs"), constraint("rank", "lhs rhs acc")),
        "$lhs, $rhs, $acc $signedness_lhs $signedness_rhs {} : ^lhs, ^rhs, ^acc",
    ),
    Row(
        "mmaf_scaled", 114, "Product of matrices whose blocks have scales, added to an accumulator.",
        (*operands(SCALED_IN, "lhs rhs"), Operand("acc", SCALED_OUT), *operands(SCALE, "lhs_scale rhs_scale")), (),
        results(SCALED_OUT, "result"), (),
        (
            constraint("type", "acc result"), constraint("element", "lhs rhs"),
            constraint("element", "lhs_scale rhs_scale"), constraint("rank", "lhs rhs acc lhs_scale rhs_scale"),
        ),
        "$lhs, $rhs, $acc, $lhs_scale, $rhs_scale {} : ^lhs, ^rhs, ^acc, ^lhs_scale, ^rhs_scale", V13_3,
    ),
)  # fmt: skip

LAUNCH = (
    Row(
        "get_num_tile_blocks", 46, "How many blocks the grid has along each axis.", (), (),
        results(SCALAR_I32, "gridSize_x gridSize_y gridSize_z"), (), (), "{} : ^gridSize_x", label="gridSize_x",
    ),
    Row(
        "get_tile_block_id", 48, "Which block of the grid this is.", (), (),
        results(SCALAR_I32, "blockId_x blockId_y blockId_z"), (), (), "{} : ^blockId_x", label="blockId_x",
    ),
)  # fmt: skip

# Rows of what touches memory, orders it, or describes it: views, loads, stores, atomics, tokens, globals, printing.

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

# Rows of what has regions or ends them: modules, entries, branches, loops.

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
