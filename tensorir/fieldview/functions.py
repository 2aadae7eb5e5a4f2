"""Functions that operators call: offsets, selection, broadcasting, mathematics."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter, Signature
from typing import Any, cast, overload

from tensorir.binding.arrays import is_tuple, type_of_named
from tensorir.fieldview.array_types import Places, Value
from tensorir.fieldview.trace import current
from tensorir.fieldview.traced import Shifting, Traced, assignable, make, power, through, unify, wrap
from tensorir.integers.dims import Dims, Interval, interval_from
from tensorir.ir import build
from tensorir.ir import typing_rules as rules
from tensorir.ir.build import displaced
from tensorir.ir.builtins import TABLE, Builtin
from tensorir.ir.dimensions import Combined, Condition, Dimension, Offset
from tensorir.ir.types import NEIGHBOUR, Scalar, TensorType, bcast, scalar_of
from tensorir.runtime.errors import refuse
from tensorir.runtime.locations import here

# Offsets as GT4Py's users write them: `FieldOffset("V2E", source=Edge, target=(Vertex, V2EDim))`.


@dataclass(frozen=True, slots=True)
class Slot(Shifting):
    """One slot of a neighbour table as a shift: `V2E[0]`, the first neighbour."""

    offset: FieldOffset
    index: int

    def shifted(self, x: Traced) -> Traced:
        current().named.add(str(self.offset.source))
        return make("unstructured_shift", self.offset.table(), x, static=(self.index,))


@dataclass(frozen=True, slots=True)
class Dynamic(Shifting):
    """A shift along a dim by a distance that is a field: `as_offset(Koff, level)`."""

    dimension: Dimension
    distance: Traced

    def shifted(self, x: Traced) -> Traced:
        dim = str(self.dimension)
        current().named.add(dim)
        position = make("pos", self.distance if dim in self.distance.dims else x, static=(dim,))
        return make("gather", x, Traced(displaced(self.distance.expr, position.expr)), static=((dim,), "checked"))


@dataclass(frozen=True, slots=True)
class FieldOffset(Shifting):
    """A named offset: through a neighbour table, target = (destination, local dimension), or along one dimension.

    The table of an unstructured offset comes with a call, in `offset_provider`, under its name.

    >>> Vertex, Edge, V2EDim = Dimension("Vertex"), Dimension("Edge"), Dimension("V2E", kind="local")
    >>> V2E = FieldOffset("V2E", source=Edge, target=(Vertex, V2EDim))
    >>> V2E[1].index
    1
    """

    value: str
    source: Dimension
    target: tuple[Dimension, ...]

    @property
    def is_cartesian(self) -> bool:
        return len(self.target) == 1

    def __getitem__(self, index: int) -> Any:
        """The shift by `index` points along a dim, or to the neighbour in slot `index`; raises V10 for anything but a
        whole number.
        """
        if not isinstance(index, numbers.Integral):
            kind = "a field" if isinstance(index, Traced) else f"of type {type(index).__name__}"
            message = f"which of {self.value} is meant is a whole number, and this is {kind}."
            help = f"write f({self.value}[1]); an argument of an operator is a field also where it is a number."
            raise refuse("V10", message, help, at=here())
        return Offset(self.source, int(index)) if self.is_cartesian else Slot(self, int(index))

    def shifted(self, x: Traced) -> Traced:
        """The field at all neighbours of each point, along the local dimension of the offset."""
        if self.is_cartesian:
            message = f"{self.value} is an offset along {self.source} and needs a distance."
            raise refuse("V10", message, f"write f({self.value}[1]).", at=here())
        return through(x, self.table(), str(self.target[1]))

    def table(self) -> Traced:
        """The neighbour table as a parameter of the current trace, added at its first use.

        Raises V11 if no table was provided.
        """
        trace = current()
        if self.value not in trace.tables:
            provided = trace.offsets.get(self.value)
            if provided is None:
                known = ", ".join(trace.offsets) or "nothing"
                message = f"the offset_provider has no '{self.value}', only {known}."
                raise refuse("V11", message, f"call with offset_provider={{'{self.value}': table}}.", at=here())
            trace.names.add(self.value)
            trace.tables[self.value] = build.var(self.value, table_type(self, provided))
        return Traced(trace.tables[self.value])


def table_type(offset: FieldOffset, table: Any) -> TensorType:
    """The type of a neighbour table: its dims by name if it has them, otherwise those of the offset from 0.

    The local dimension is renamed as the IR does. Raises V11 for another number of axes, and entries that are no
    integers.
    """
    if isinstance(table, TensorType):
        return table
    named = type_of_named(table)
    if named is not None:
        local = f"{NEIGHBOUR}{offset.source}"
        dims = Dims(tuple((local if n == str(offset.target[1]) else n, i) for n, i in named.dims.items))
        return named.on(dims)
    shape = tuple(table.shape)
    if len(shape) != 2:
        message = f"the table '{offset.value}' has {len(shape)} axes."
        raise refuse("V11", message, "it has two: destinations and their neighbours.", at=here())
    element = scalar_of(table.dtype)
    if element is None or not element.is_integer:
        raise refuse("V11", f"the table '{offset.value}' holds {table.dtype}.", "its entries are integers.", at=here())
    destination = (str(offset.target[0]), Interval(0, shape[0]))
    return TensorType(element, Dims((destination, (f"{NEIGHBOUR}{offset.source}", Interval(0, shape[1])))))


def as_offset(offset: FieldOffset | Dimension, distance: Any) -> Dynamic:
    """An offset whose distance is a field of integers: `f(as_offset(Koff, level))` (GT4Py, experimental).

    The result has the dims of both fields, and the element type and units of `f`.
    """
    # users who check no types give others
    if not isinstance(offset, Dimension | FieldOffset):  # pyright: ignore[reportUnnecessaryIsInstance]
        message = f"{offset!r} is no offset."
        raise refuse("V10", message, "write as_offset(Koff, level), or as_offset(K, level).", at=here())
    dimension = offset if isinstance(offset, Dimension) else offset.source
    if not isinstance(distance, Traced):
        message = "the distance of as_offset is a field of integers."
        raise refuse("V10", message, f"for a number write f({dimension} + 1).", at=here())
    if not (isinstance(distance.element, Scalar) and distance.element.is_integer):
        message = f"the distance of as_offset is a field of integers, and this is {distance.element}."
        raise refuse("V10", message, "convert it: ti.astype(x, ti.int32).", at=here())
    return Dynamic(dimension, distance)


# Selection, broadcasting, mathematics; names as in GT4Py.


@overload
def where(condition: Value, a: float, b: float) -> Value: ...
@overload
def where(condition: object, a: float, b: Value) -> Value: ...
@overload
def where(condition: object, a: Value, b: Value | float) -> Value: ...
def where(condition: Any, a: Any, b: Any) -> Any:
    """`a` where the condition is true, `b` elsewhere; of tuples, member by member.

    The condition is a field of bools, `a` and `b` are fields of one element type, or numbers, which take it. The result
    has this type, on the dims of all three, where all are. Units: those of `a` and `b`, which are the same (A32).
    """
    current()
    if is_tuple(condition):
        return tuple(where(c, x, y) for c, x, y in zip(condition, a, b, strict=True))
    if is_tuple(a) or is_tuple(b):
        return tuple(where(condition, x, y) for x, y in zip(a, b, strict=True))
    x, y = unify(a, b)
    return make("if", condition, x, y)


def astype(x: Value, element: Scalar) -> Value:
    """The field as another element type: floats to integers towards zero, saturating.

    On the dims and intervals of `x`; of tuples, member by member. Units: those of `x`. Raises V14 for what is no
    element type.
    """
    value: Any = x
    # users who check no types give those of NumPy
    if not isinstance(element, Scalar):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise refuse("V14", f"{element!r} is no element type.", "write ti.astype(x, ti.float32).", at=here())
    if is_tuple(value):
        return cast("Value", tuple(astype(member, element) for member in value))
    return cast("Value", assignable(build.call("cast", wrap(value).expr, static=(element,), span=here())))


def broadcast(x: Value, dims: Sequence[Dimension | str] | Places) -> Value:
    """The field on more dims: names, along which it is the same wherever it is used, or intervals by name.

    Fields broadcast by themselves, so names alone change nothing but are checked: none of the field's may be missing.
    Element type and units are those of `x`. Raises V15 where a dim of the field is not named.
    """
    value = wrap(x)
    if isinstance(dims, Dimension | str):
        dims = [dims]
    # users who check no types give those of NumPy
    if not isinstance(dims, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise refuse("V15", f"{dims!r} names no dims.", "write ti.broadcast(x, [I, J]).", at=here())
    names = [str(d) for d in dims]
    missing = [d for d in value.dims if d not in names]
    if missing:
        message = f"the field varies along {', '.join(missing)}, which broadcast does not name."
        raise refuse("V15", message, "name all its dims.", at=here())
    for name, ends in dims.items() if isinstance(dims, Mapping) else ():
        if (interval := interval_from(ends)) is None:
            raise refuse("V15", f"{name}: {ends!r} is no interval.", f"write {{{name}: (0, 10)}}.", at=here())
        if str(name) not in value.dims:
            value = make("add_dim", value, static=(str(name), interval.start, interval.stop))
    return cast("Value", value)


@overload
def concat_where(condition: Condition | Combined, a: float, b: Value) -> Value: ...
@overload
def concat_where(condition: Condition | Combined, a: Value, b: Value | float) -> Value: ...
def concat_where(condition: Any, a: Any, b: Any) -> Any:
    """`a` on the part of a dim that meets a condition such as `K < 3`, `b` on the rest (GT4Py, experimental).

    The result has the points of that part that `a` has, and those of the rest that `b` has. Conditions are put together
    as `(K >= 2) & (K < 5)` and `(K == 0) | (K > 7)`. Both have one element type, and so has the result, on the dims of
    both. Units: those of `a` and `b`, which are the same (A32). Raises V16 for what is no condition on a dim of theirs.
    """
    match condition:
        case Combined("and", first, second):
            return concat_where(first, concat_where(second, a, b), b)
        case Combined("or", first, second):
            return concat_where(first, a, concat_where(second, a, b))
        case _:
            return _concat_where(condition, a, b)


def _concat_where(condition: Any, a: Any, b: Any) -> Any:
    """`concat_where` for one interval of one dim: b below it, a on it, b above it, as far as each has points there."""
    if is_tuple(condition):
        raise refuse("V16", "one condition on one dim is needed.", "nest calls for several.", at=here())
    if not isinstance(condition, Condition):
        message = "the condition of concat_where is on a coordinate."
        raise refuse("V16", message, "write K < 3; for a field use ti.where.", at=here())
    x, y = unify(a, b)
    dim = str(condition.dimension)
    current().named.add(dim)
    common = bcast([v.type.dims.without(dim) for v in (x, y)])
    intervals = [v.type.dims[dim] for v in (x, y) if dim in v.dims]
    if not intervals:
        message = f"neither field has the dim {dim}."
        raise refuse("V16", message, "concat_where chooses between parts of a dim of its fields.", at=here())
    low, high = min(i.start for i in intervals), max(i.stop for i in intervals)
    start = low if condition.start is None else condition.start
    stop = high if condition.stop is None else condition.stop
    parts: list[Traced] = []
    for value, region in (
        (y, Interval(low, min(start, high))),
        (x, Interval(max(start, low), min(stop, high))),
        (y, Interval(max(stop, low), high)),
    ):
        piece = _piece(value, dim, region, common)
        if piece is not None:
            parts.append(piece)
    if not parts:
        message = f"no point of {dim} is left."
        raise refuse("V16", message, "the condition and the fields' intervals have nothing in common.", at=here())
    return parts[0] if len(parts) == 1 else make("concat", *parts)


def _piece(value: Traced, dim: str, part: Interval, common: Dims) -> Traced | None:
    """A field on `part` of a dim, broadcast or cut to the dims `common` otherwise.

    None where it has no point in `part`.
    """
    interval = value.type.dims.get(dim)
    if interval is None:
        if not part:
            return None
        value = make("add_dim", value, static=(dim, part.start, part.stop))
    else:
        part = part & interval
        if not part:
            return None
        value = make("subset", value, static=(Dims(((dim, part),)),))
    for name, needed in common.items:
        if name not in value.dims:
            value = make("add_dim", value, static=(name, needed.start, needed.stop))
        elif value.type.dims[name] != needed:
            value = make("subset", value, static=(Dims(((name, needed),)),))
    return value


def can_deref(x: Value) -> Value:
    """False where a table held -1 on the way to an element.

    Of a field of any element type: bools on its dims. Units: the result says none.
    """
    return cast("Value", make("can_deref", x))


_SIGNATURES = {
    arity: Signature([Parameter(name, Parameter.POSITIONAL_ONLY, annotation=Any) for name in "xy"[:arity]])
    for arity in (1, 2)
}
"""The signatures of mathematical functions by number of operands, for `help` and editors."""


def _mathematical(op: str) -> Callable[..., Any]:
    """The function on fields for an elementwise builtin, with its signature and a docstring from the builtin table."""
    arity = len(TABLE[op].form[0])

    def function(*operands: Any) -> Any:
        current()
        if len(operands) != arity:
            message = f"{op} takes {arity} field{'s' * (arity > 1)}, and there are {len(operands)}."
            raise refuse("V18", message, TABLE[op].doc, at=here())
        values = unify(*operands) if arity > 1 else [_as_float(op, operands[0])]
        return make(op, *values)

    function.__name__ = function.__qualname__ = op
    function.__signature__ = _SIGNATURES[arity]
    function.__doc__ = _described(TABLE[op])
    return function


_TAKEN: dict[Callable[..., TensorType], str] = {
    rules.floats: "floats", rules.float_tests: "floats", rules.numbers: "numbers", rules.integers: "integers",
    rules.logic: "bools",
}  # fmt: skip
"""The operand types of builtins, as docstrings call them, by typing rule."""


def _described(row: Builtin) -> str:
    """The docstring for a builtin: its sentence in the table, then dims, element types and units."""
    two, kind = len(row.form[0]) > 1, _TAKEN[row.rule]
    gives = "bools" if row.rule is rules.float_tests else "its element type"
    message = f"Of a field of {kind}, element by element: on its dims, of {gives}."
    if two:
        one = "bool" if row.rule is rules.logic else "number"
        message = f"Of two fields of one type ({kind}), or a field and a {one}: on the dims of both, where both are."
    if row.of_angle:
        units = "radians; degrees are refused (V36), and `ti.radians` converts them. The result says none."
    elif row.homogeneous:
        units = f"those of {'both, which are the same (A32)' if two else 'the field'}."
    elif row.dimensionless:
        units = "those of both are the same (A32), and the result says none."
    else:
        units = "the result says none."
    return f"{row.doc}\n\n{message}\nUnits: {units}"


def radians(x: Value, /) -> Value:
    """An angle in degrees in radians, which functions of angles take.

    Of a field of floats, element by element: on its dims, of its element type. Units: radians, of an angle in degrees;
    others stay.
    """
    current()
    return _as_float("sin", x) * math.radians(1.0)


def _as_float(op: str, operand: Any) -> Any:
    """A Python integer as a float where a transcendental builtin takes it; any other operand unchanged."""
    if isinstance(operand, int) and not isinstance(operand, bool) and TABLE[op].transcendental:
        return float(operand)
    return operand


MATHEMATICS: dict[str, Callable[..., Any]] = {
    **{
        row.name: _mathematical(row.name)
        for row in TABLE.values()
        if row.elementwise
        and not row.glyphs
        and row.name not in ("if", "cast", "bitcast", "abs", "min", "max", "rem", "round")
    },
    "abs": _mathematical("abs"),
    "round": _mathematical("round"),
    "minimum": _mathematical("min"),
    "maximum": _mathematical("max"),
    "fmod": _mathematical("rem"),
    "power": power,
    "radians": radians,
    "can_deref": can_deref,
}
"""The functions of fields by the names under which `tensorir` has them."""
