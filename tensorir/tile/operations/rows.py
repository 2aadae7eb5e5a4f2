"""What a row of the table of operations is made of: operands, attributes, results, constraints, syntax.

Parser, printer, bytecode, verifier and interpreter read the rows; nothing that stands in one is said again elsewhere.
The syntax is a line of the assembly: `$name` is an operand or an attribute, `^name` the type of one, `{}` the
dictionary of attributes, `(...)?` what is left out when its first `$name` is absent, `@body` a region; everything else
is spelled as it stands. A row without a syntax has its own reader in `tensorir.tile.text.own`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from tensorir.tile.operations.classes import TypeClass

__all__ = [
    "COMPARISON",
    "EXTENT",
    "INT32_LIST",
    "MODE",
    "ORDERED",
    "ORDERING",
    "OVERFLOW",
    "ROUNDING",
    "SCOPE",
    "SIGNEDNESS",
    "V13_1",
    "V13_2",
    "V13_3",
    "VISIBILITY",
    "Attr",
    "Constraint",
    "Domain",
    "Kind",
    "Operand",
    "Result",
    "Row",
    "Since",
]  # fmt: skip

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
    """What the types of several operands and results have in common: all of the type, or one part of it."""

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
        """Whether bytecode writes how many results there are: where operands or results may be of any number."""
        return any(o.count == "any" for o in self.operands) or any(r.any for r in self.results)

    def attribute(self, name: str) -> Attr:
        return self.attributes[self.attribute_index[name]]
