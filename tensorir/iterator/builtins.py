"""The table of iterator IR's builtins on values, and what each is in the tensor IR.

>>> ARITHMETIC["minimum"].core, ARITHMETIC["minus"].glyph
('min', '-')
"""

from __future__ import annotations

from dataclasses import dataclass

from tensorir.ir.types import SCALARS

__all__ = ["ARITHMETIC", "CASTS", "NAMES", "STRUCTURAL", "Row"]


@dataclass(frozen=True, slots=True)
class Row:
    """An elementwise builtin: its name, the tensor IR's, its number of operands, and how its text spells it."""

    name: str
    core: str
    arity: int = 2
    glyph: str = ""


_SAME = "sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh sqrt exp log cbrt floor ceil trunc"
_ROWS = (
    Row("plus", "plus", 2, "+"),
    Row("minus", "minus", 2, "-"),
    Row("multiplies", "multiplies", 2, "×"),
    Row("divides", "divides", 2, "/"),
    Row("mod", "mod", 2, "%"),
    Row("floordiv", "floordiv", 2, "//"),
    Row("fmod", "rem"),
    Row("power", "power"),
    Row("minimum", "min"),
    Row("maximum", "max"),
    Row("and_", "and", 2, "∧"),
    Row("or_", "or", 2, "∨"),
    Row("xor_", "xor"),
    Row("not_", "not", 1, "¬"),
    Row("eq", "eq", 2, "=="),
    Row("not_eq", "not_eq", 2, "≠"),
    Row("less", "less", 2, "<"),
    Row("less_equal", "less_equal", 2, "≤"),
    Row("greater", "greater", 2, ">"),
    Row("greater_equal", "greater_equal", 2, "≥"),
    Row("neg", "neg", 1),
    Row("abs", "abs", 1),
    Row("gamma", "gamma", 1),
    Row("isfinite", "isfinite", 1),
    Row("isinf", "isinf", 1),
    Row("isnan", "isnan", 1),
    *(Row(name, name, 1) for name in _SAME.split()),
)
ARITHMETIC = {row.name: row for row in _ROWS}

CASTS = {
    **{n: s for n, s in SCALARS.items() if n in ("bool", "float16", "float32", "float64") or s.is_integer},
    "int": SCALARS["int32"],
    "float": SCALARS["float64"],
}
"""The names of types, which are functions, too."""

_OTHERS = (
    "as_fieldop broadcast can_deref cartesian_domain cast_ concat_where deref get_domain_range if_ index lift list_get "
    "make_const_list make_tuple map_list map_tuple named_range neighbors reduce scan shift tree_map_tuple tuple_get "
    "unstructured_domain"
)
STRUCTURAL = frozenset(_OTHERS.split())

NAMES = frozenset({*ARITHMETIC, *CASTS, *STRUCTURAL})
