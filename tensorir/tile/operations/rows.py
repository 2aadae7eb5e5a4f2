"""The parts of a row of the table of operations: operands, attributes, classes of types, common shapes.

Classes of types that operands and results belong to, each with the words that a message uses.

>>> INT.holds(Tile((4,), i32)), INT.holds(Tile((4,), f32)), INT.noun
(True, False, 'a tile of integers (i1, i8, i16, i32, i64)')
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from tensorir.tile.types import (
    BOOL,
    ELEMENTS,
    Element,
    GatherScatterView,
    PartitionView,
    Pointer,
    StridedView,
    TensorView,
    Tile,
    Token,
    Type,
    f32,
    i32,
    i64,
)

INTEGERS = tuple(ELEMENTS[n] for n in ("i1", "i8", "i16", "i32", "i64"))
BASE_FLOATS = tuple(ELEMENTS[n] for n in ("f16", "bf16", "f32", "f64"))
FLOATS = tuple(e for e in ELEMENTS.values() if e.is_float)
NUMBERS = (*INTEGERS, *FLOATS)


@dataclass(frozen=True, slots=True)
class TypeClass:
    """Types that one operand may have; `only` is the one type of a class that has no other."""

    noun: str
    holds: Callable[[Type], bool]
    only: Type | None = None
    scalar: bool = False


def _tiles(noun: str, elements: tuple[Element, ...], scalar: bool = False) -> TypeClass:
    def holds(type: Type) -> bool:
        return isinstance(type, Tile) and type.element in elements and not (scalar and type.shape)

    kind = "a scalar tile" if scalar else "a tile"
    names = ", ".join(e.name for e in elements)
    said = f"{kind} of {noun} ({names})" if noun else f"{kind} of {names}"
    only = Tile((), elements[0]) if scalar and len(elements) == 1 else None
    return TypeClass(said, holds, only, scalar)


def _of(noun: str, kind: type | tuple[type, ...], only: Type | None = None) -> TypeClass:
    return TypeClass(noun, lambda type: isinstance(type, kind), only)


def _is_pointer(type: Type) -> bool:
    return isinstance(type, Tile) and isinstance(type.element, Pointer)


ANY = TypeClass("any value", lambda type: True)
ANY_VALUE = TypeClass(
    "a tile, a view, a pointer or a token", lambda type: not isinstance(type, Element) or type in NUMBERS
)
TILE = _of("a tile", Tile)
INT = _tiles("integers", INTEGERS)
BASE_FLOAT = _tiles("floats", BASE_FLOATS)
FLOAT = _tiles("floats", FLOATS)
NUMBER = _tiles("numbers", NUMBERS)
BOOLS = _tiles("", (BOOL,))
BYTES = _tiles("", (ELEMENTS["i8"],))
INT64 = _tiles("", (i64,))
INT_OR_I4 = _tiles("integers", (INTEGERS[0], ELEMENTS["i4"], *INTEGERS[1:]))
UNPACKED = _tiles("numbers", (*NUMBERS, ELEMENTS["i4"]))
POINTER = TypeClass("a tile of pointers", _is_pointer)
SCALAR_INT = _tiles("integers", INTEGERS, scalar=True)
SCALAR_I32 = _tiles("", (i32,), scalar=True)
SCALAR_BOOL = _tiles("", (BOOL,), scalar=True)
SCALAR_POINTER = TypeClass("a scalar tile of a pointer", lambda type: _is_pointer(type) and type.shape == ())  # type: ignore[union-attr]
MMAF_IN = _tiles("", tuple(ELEMENTS[n] for n in ("f16", "bf16", "f32", "f64", "tf32", "f8E4M3FN", "f8E5M2")))
MMAF_OUT = _tiles("", tuple(ELEMENTS[n] for n in ("f16", "f32", "f64")))
MMAI_IN = _tiles("", (ELEMENTS["i8"],))
MMAI_OUT = _tiles("", (i32,))
SCALED_IN = _tiles("", tuple(ELEMENTS[n] for n in ("f8E4M3FN", "f8E5M2", "f4E2M1FN")))
SCALE = _tiles("", tuple(ELEMENTS[n] for n in ("f8E4M3FN", "f8E8M0FNU")))
SCALED_OUT = _tiles("", (f32,))
TENSOR = _of("a tensor_view", TensorView)
PARTITION = _of("a partition_view", PartitionView)
STRIDED = _of("a strided_view", StridedView)
GATHER_SCATTER = _of("a gather_scatter_view", GatherScatterView)
VIEW = _of("a partition_view, strided_view or gather_scatter_view", (PartitionView, StridedView, GatherScatterView))
TOKEN = _of("a token", Token, Token())

# What a row of the table of operations is made of: operands, attributes, results, constraints, syntax.
#
# Parser, printer, bytecode, verifier and interpreter read the rows; nothing that stands in one is said again
# elsewhere. The syntax is a line of the assembly: `$name` is an operand or an attribute, `^name` the type of one,
# `{}` the dictionary of attributes, `(...)?` what is left out when its first `$name` is absent, `@body` a region;
# everything else is spelled as it stands. A row without a syntax has its own reader in `tensorir.tile.text.own`.

Since = tuple[int, int]
V13_1, V13_2, V13_3 = (13, 1), (13, 2), (13, 3)


@dataclass(frozen=True, slots=True)
class Domain:
    """An enumeration: the words of its cases in the order of their numbers, and how text spells a case.

    A `keyword` domain is spelled `keyword<case>`, and left out where the case is the default; one without is a bare
    word. `mnemonic` is what generic text calls it; one without is a plain number there.
    """

    noun: str
    cases: tuple[str, ...]
    keyword: str = ""
    mnemonic: str = ""

    def number(self, case: str) -> int:
        return self.cases.index(case)


ROUNDING = Domain(
    "rounding mode",
    ("nearest_even", "zero", "negative_inf", "positive_inf", "approx", "full", "nearest_int_to_zero"),
    "rounding",
    "rounding",
)
OVERFLOW = Domain("overflow", ("none", "no_signed_wrap", "no_unsigned_wrap", "no_wrap"), "overflow", "overflow")
SIGNEDNESS = Domain("signedness", ("unsigned", "signed"), mnemonic="signedness")
COMPARISON = Domain(
    "comparison predicate",
    ("equal", "not_equal", "less_than", "less_than_or_equal", "greater_than", "greater_than_or_equal"),
    mnemonic="comparison_predicate",
)
ORDERED = Domain("comparison ordering", ("unordered", "ordered"), mnemonic="comparison_ordering")
ORDERING = Domain("memory ordering", ("weak", "relaxed", "acquire", "release", "acq_rel"))
SCOPE = Domain("memory scope", ("tl_blk", "device", "sys"))
MODE = Domain("atomic mode", ("and", "or", "xor", "add", "addf", "max", "min", "umax", "umin", "xchg"))
VISIBILITY = Domain("visibility", ("public", "private"), mnemonic="symbol_visibility")

Kind = Literal[
    "enum", "flag", "int32", "int64", "bool", "string", "symbol", "reference", "dense", "int32_list", "numbers",
    "predicate", "hints", "signature", "dictionaries",
]  # fmt: skip
"""What kind of value an attribute has; a flag is there or not, a reference names a symbol, numbers have types."""
EXTENT: Kind = "int64"
INT32_LIST: Kind = "int32_list"


@dataclass(frozen=True, slots=True)
class Attr:
    """An attribute of a row. One with a default may be left out, an optional one be absent; `only` are its cases."""

    name: str
    kind: Kind
    domain: Domain | None = None
    default: str | int | None = None
    optional: bool = False
    only: tuple[str, ...] = ()
    since: Since = V13_1
    least: int | None = None

    @property
    def may_be_absent(self) -> bool:
        return self.optional or self.kind == "flag" or self.default is not None


@dataclass(frozen=True, slots=True)
class Operand:
    name: str
    types: TypeClass
    count: Literal["one", "optional", "any"] = "one"
    since: Since = V13_1


@dataclass(frozen=True, slots=True)
class Result:
    name: str
    types: TypeClass
    any: bool = False
    """Whether there may be any number of it."""
    since: Since = V13_1


@dataclass(frozen=True, slots=True)
class Constraint:
    """A constraint on the types of several operands and results: equal as a whole, or in one part."""

    part: Literal["type", "shape", "element", "rank"]
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """One operation of the dialect.

    `segments` says that a count stands before each group of operands, not before all; `pure` that it neither touches
    memory nor fails; `ends` that it may end a region; `parents` are the operations in whose regions it may stand.
    """

    name: str
    opcode: int | None
    doc: str
    operands: tuple[Operand, ...] = ()
    attributes: tuple[Attr, ...] = ()
    results: tuple[Result, ...] = ()
    regions: tuple[str, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    syntax: str = ""
    since: Since = V13_1
    pure: bool = True
    elementwise: bool = False
    segments: bool = False
    ends: bool = False
    parents: tuple[str, ...] = ()
    label: str = ""
    """What its first result is called in print, a number if nothing."""
    operand_index: Mapping[str, int] = field(init=False, repr=False)
    attribute_index: Mapping[str, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        for name, parts in (("operand_index", self.operands), ("attribute_index", self.attributes)):
            index = {part.name: k for k, part in enumerate(parts)}
            object.__setattr__(self, name, MappingProxyType(index))

    @property
    def counted(self) -> bool:
        """True if bytecode writes how many results there are: where operands or results may be of any number."""
        return any(o.count == "any" for o in self.operands) or any(r.any for r in self.results)

    def attribute(self, name: str) -> Attr:
        return self.attributes[self.attribute_index[name]]


# The shapes of rows that many operations share: one tile in and out, two, comparisons, conversions.


def operands(types: TypeClass, names: str) -> tuple[Operand, ...]:
    """Operands of one class: `operands(INT, "lhs rhs")`."""
    return tuple(Operand(name, types) for name in names.split())


def results(types: TypeClass, names: str) -> tuple[Result, ...]:
    return tuple(Result(name, types) for name in names.split())


def constraint(part: str, names: str) -> Constraint:
    """`constraint("type", "lhs rhs result")`: these have one type."""
    return Constraint(part, tuple(names.split()))  # type: ignore[arg-type]


def rounding(default: str = "nearest_even", since: Since = V13_1, name: str = "rounding_mode") -> Attr:
    return Attr(name, "enum", ROUNDING, default, since=since)


def overflow(since: Since = V13_1) -> Attr:
    return Attr("overflow", "enum", OVERFLOW, "none", since=since)


SIGNED = Attr("signedness", "enum", SIGNEDNESS)
WRAPS = overflow()
ROUNDED = rounding()
FLUSH = Attr("flush_to_zero", "flag")


def unary(
    name: str, opcode: int, doc: str, types: TypeClass = BASE_FLOAT, attributes: tuple[Attr, ...] = ()
) -> Row:  # fmt: skip
    """An operation on each element of one tile."""
    words = "".join(f" ${a.name}" for a in attributes)
    return Row(
        name, opcode, doc, operands(types, "source"), attributes, results(types, "result"), (),
        (constraint("type", "source result"),), f"$source{words} {{}} : ^result", elementwise=True,
    )  # fmt: skip


def binary(
    name: str, opcode: int, doc: str, types: TypeClass = INT, attributes: tuple[Attr, ...] = (),
    names: str = "lhs rhs", since: Since = V13_1, syntax: str = "", pure: bool = True,
) -> Row:  # fmt: skip
    """An operation on the elements of tiles of one type."""
    words = syntax or "".join(f" ${a.name}" for a in attributes)
    values = ", ".join(f"${n}" for n in names.split())
    return Row(
        name, opcode, doc, operands(types, names), attributes, results(types, "result"), (),
        (constraint("type", f"{names} result"),), f"{values} {words} {{}} : ^result", since, pure=pure,
        elementwise=True,
    )  # fmt: skip


def conversion(
    name: str, opcode: int, doc: str, source: TypeClass, target: TypeClass, attributes: tuple[Attr, ...] = (),
    names: str = "source result",
) -> Row:  # fmt: skip
    """An operation that gives each element another type."""
    given, made = names.split()
    words = "".join(f" ${a.name}" for a in attributes)
    return Row(
        name, opcode, doc, operands(source, given), attributes, results(target, made), (),
        (constraint("shape", names),), f"${given}{words} {{}} : ^{given} -> ^{made}", elementwise=True,
    )  # fmt: skip
