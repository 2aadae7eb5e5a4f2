"""The symbol that stands for a field while an operator is traced: arithmetic on it builds expressions."""

from __future__ import annotations

import numbers
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, NoReturn, cast, overload

import ml_dtypes
import numpy as np

from tensorir.fieldview.array_types import Value
from tensorir.fieldview.remedies import remedy
from tensorir.fieldview.taken_types import TakenType, may_exceed
from tensorir.fieldview.trace import CURRENT, Assigned, Tracing, current
from tensorir.ir import build
from tensorir.ir.builtins import TABLE
from tensorir.ir.dimensions import Dimension, Offset
from tensorir.ir.nodes import Expr, Literal
from tensorir.ir.rewrite import substitute
from tensorir.ir.staggering import half_of, half_way, partners, points_between
from tensorir.ir.types import (
    BOOL,
    DTYPES,
    FLOAT64,
    INT32,
    INT64,
    NEIGHBOUR,
    Scalar,
    TensorType,
    TupleElement,
    neighbour_counter,
    scalar_of,
)
from tensorir.ir.typing_of_elements import highest_neighbour, neighbour_source
from tensorir.runtime.assembly import ExtensionPoint
from tensorir.runtime.errors import Diagnostic, DiagnosticError, NoAttribute, Span, refuse
from tensorir.runtime.locations import assigned, here, raised_at

inline_program = ExtensionPoint(
    "a program called on the symbols of an operator", "tensorir.fieldview.recorder", "called"
)

Method = Callable[[Any, Any], Any]


def _both(function: Method) -> tuple[Method, Method]:
    """A binary operator as the pair of methods for the left and the right operand: `__add__` and `__radd__`."""
    return lambda self, other: function(self, other), lambda self, other: function(other, self)


def _comparison(op: str) -> Method:
    return lambda self, other: binary(op, self, other)


def _logical(logic: str, bits: str) -> tuple[Method, Method]:
    """The pair of methods for the builtin `logic` on bools and the builtin `bits` on integers."""

    def op(x: Traced) -> str:
        return logic if x.element == BOOL else bits

    return lambda self, other: binary(op(self), self, other), lambda self, other: binary(op(self), other, self)


@dataclass(frozen=True, eq=False)
class Traced:
    """A field inside of an operator.

    `weak` marks a value of Python numbers alone: it takes the element type of the field that it is combined with.
    """

    expr: Expr
    weak: bool = False
    trace: Tracing | None = field(default_factory=CURRENT.get, repr=False)
    """The trace that it was made in; use in another trace is refused (V27)."""

    @property
    def type(self) -> TensorType:
        return self.expr.tensor

    @property
    def element(self) -> Any:
        return self.type.element

    @property
    def dims(self) -> tuple[str, ...]:
        """The names of the dims."""
        return self.type.dims.names

    # Shifts

    def __call__(self, *offsets: Any) -> Any:
        """The field shifted, the last offset first: `f(I + 1)`, `f(IHalf + 0.5)` of a field on I at the points between,
        `f(V2E)` for all neighbours, `f(V2E[0])` for one."""
        result = self
        for offset in reversed(offsets):
            result = _shifted(result, offset)
        return result

    def __getitem__(self, index: Any) -> Any:
        """A member of a tuple, `t[0]`; of a field the element at whole numbers, one for each dim: `weights[1, 2]`."""
        if not isinstance(self.element, TupleElement):
            return _element(self, cast("tuple[Any, ...]", index) if isinstance(index, tuple) else (index,))
        if not isinstance(index, int):
            message = f"a member of a tuple is taken by a number, not by {type(index).__name__}."
            raise refuse("V03", message, "write t[0].", at=here())
        return make("tuple_get", self, static=(index,))

    # What Python asks of values

    def __bool__(self) -> NoReturn:
        """Raise V04: no value is known while an operator is traced."""
        if not self.dims:
            raise refuse("V04", "whether a number is true is not known while the operator is traced: calls differ.",
                "choose with ti.where(condition, a, b), or decide by a text: 'upwind'.", at=here())  # fmt: skip
        message = "whether a field is true is not known while the operator is traced: it differs from point to point."
        raise refuse("V04", message, "choose point by point with ti.where(condition, a, b).", at=here())

    def __iter__(self) -> Iterator[Any]:
        if not isinstance(self.element, TupleElement):
            raise refuse("V05", "a field cannot be looped over.", "shift it, or reduce over its neighbours.", at=here())
        return (self[k] for k in range(len(self.element.members)))

    def __float__(self) -> NoReturn:
        raise refuse("V05", "a field is not one number.", "use it as it is, or convert it with ti.astype.", at=here())

    def __int__(self) -> NoReturn:
        self.__float__()

    def __index__(self) -> NoReturn:
        self.__float__()

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise refuse("V05", "NumPy cannot compute with fields of an operator.", _instead(), at=here())

    @property
    def __jax_array__(self) -> NoReturn:
        # JAX asks whether there is one before it looks at anything else
        raise refuse("V05", "JAX cannot compute with fields of an operator.", _instead(), at=here())

    @staticmethod
    def __call_program__(program: Any, arguments: Any) -> Any:
        """A program of the IR that is called on fields of an operator becomes part of that."""
        return inline_program(program, arguments)

    def __array_ufunc__(self, ufunc: Any, method: str, *operands: Any, **options: Any) -> Any:
        """A NumPy scalar on the left of an operator, as `np.float64(2) * x`: the operation of the field; all else
        becomes an array, which is refused.
        """
        # NumPy's numbers try to compute with what stands behind them before it is asked
        first = operands[0]
        if method == "__call__" and not options and ufunc in _OF_NUMPY and getattr(first, "shape", None) == ():
            return getattr(self, _OF_NUMPY[ufunc])(np.asarray(first)[()])
        return self.__array__()

    def __len__(self) -> int:
        """The number of members of a tuple of fields; raises V05 for a field."""
        if not isinstance(self.element, TupleElement):
            message = "how many points a field has is not known to an operator."
            raise refuse("V05", message, "pass it as an argument.", at=here())
        return len(self.element.members)

    def __round__(self, *_: Any) -> NoReturn:
        raise refuse("V05", "Python's round is for single numbers.", "write ti.round(x).", at=here())

    def __matmul__(self, _: Any) -> NoReturn:
        message = "fields have no matrix product."
        raise refuse("V05", message, "multiply them, and sum over neighbours or in a scan.", at=here())

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        has = "it has shifts, f(I + 1), folds, f.mean(I), operators, and functions such as ti.sin; do the rest outside."
        hint = remedy(name) or has
        raise NoAttribute(Diagnostic("V03", f"a field of an operator has no '{name}'.", here(), help=hint))

    def __setitem__(self, *_: Any) -> NoReturn:
        message = "a field does not change."
        raise refuse("V06", message, "return a new one; concat_where puts values on a part of it.", at=here())

    __delitem__ = __setitem__

    def __repr__(self) -> str:
        return f"<field of {self.type}>"

    # Operators

    __add__, __radd__ = _both(lambda a, b: binary("plus", a, b))
    __sub__, __rsub__ = _both(lambda a, b: binary("minus", a, b))
    __mul__, __rmul__ = _both(lambda a, b: binary("multiplies", a, b))
    __truediv__, __rtruediv__ = _both(lambda a, b: quotient(a, b))
    __floordiv__, __rfloordiv__ = _both(lambda a, b: binary("floordiv", a, b))
    __mod__, __rmod__ = _both(lambda a, b: binary("mod", a, b))
    __divmod__, __rdivmod__ = _both(lambda a, b: (a // b, a % b))
    __pow__, __rpow__ = _both(lambda a, b: power(a, b))
    __lshift__, __rlshift__ = _both(lambda a, b: binary("shift_left", a, b))
    __rshift__, __rrshift__ = _both(lambda a, b: binary("shift_right", a, b))
    __and__, __rand__ = _logical("and", "bit_and")
    __or__, __ror__ = _logical("or", "bit_or")
    __xor__, __rxor__ = _logical("xor", "bit_xor")
    __eq__ = _comparison("eq")  # type: ignore[assignment]
    __ne__ = _comparison("not_eq")  # type: ignore[assignment]
    __lt__ = _comparison("less")
    __le__ = _comparison("less_equal")
    __gt__ = _comparison("greater")
    __ge__ = _comparison("greater_equal")

    def __neg__(self) -> Any:
        return make("neg", self)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return make("abs", self)

    def __invert__(self) -> Any:
        return make("not" if self.element == BOOL else "bit_not", self)

    __hash__: ClassVar[None]  # type: ignore[assignment]


# Traced is frozen; what Python says of that would come from inside of this package
setattr(Traced, "__setattr__", Traced.__setitem__)  # noqa: B010
setattr(Traced, "__delattr__", Traced.__setitem__)  # noqa: B010


_OF_NUMPY = {
    np.add: "__radd__", np.subtract: "__rsub__", np.multiply: "__rmul__", np.true_divide: "__rtruediv__",
    np.floor_divide: "__rfloordiv__", np.remainder: "__rmod__", np.power: "__rpow__", np.bitwise_and: "__rand__",
    np.bitwise_or: "__ror__", np.bitwise_xor: "__rxor__", np.equal: "__eq__", np.not_equal: "__ne__",
    np.left_shift: "__rlshift__", np.right_shift: "__rrshift__", np.divmod: "__rdivmod__", np.less: "__gt__",
    np.less_equal: "__ge__", np.greater: "__lt__", np.greater_equal: "__le__",
}  # fmt: skip
"""By ufunc the reflected method of a field: NumPy scalar + field calls `__radd__`."""


def make(op: str, *args: Any, static: tuple[Any, ...] = ()) -> Traced:
    """A call of a builtin on operands (fields, numbers, tuples), with the span of the user's line.

    It is weak if all operands are.
    """
    operands = [wrap(a) for a in args]
    if TABLE[op].elementwise or op == "make_tuple":
        operands = _aligned(operands)
    call = build.call(op, *(o.expr for o in operands), static=static, span=here())
    weak = all(o.weak for o in operands)
    if weak and isinstance(element := call.tensor.element, Scalar) and element.is_integer:
        _takes(call, element)
    return assignable(call, weak)


def _element(x: Traced, index: tuple[Any, ...]) -> Traced:
    """The scalar of a field at an index per dim, counted as NumPy does: 0 is the first point, -1 the last."""
    message = "a field is indexed by whole numbers, one for each of its dims"
    hint = "shift it: f(I + 1); concat_where and where choose between points."
    if len(index) != len(x.dims) or not all(isinstance(k, numbers.Integral) for k in index):
        raise refuse("V03", f"{message} ({', '.join(x.dims) or 'none'}).", hint, at=here())
    places: list[Expr] = []
    for k, (dim, interval) in zip(index, x.type.dims.items, strict=True):
        if not -len(interval) <= k < len(interval):
            raise refuse("V03", f"there is no element {k} along {dim}, which has {len(interval)}.", hint, at=here())
        places.append(build.literal(int(k) % len(interval) + interval.start, INT32, here()))
    return make("gather", x, *map(Traced, places), static=(x.dims, "clamp")) if places else x


def _takes(number: Expr, element: Scalar) -> None:
    """Record that an expression of Python numbers took an element type, so that calls check their numbers (A07)."""
    trace = CURRENT.get()
    if trace is not None and number.free:
        expr_of_variable = {v: e for v, e in trace.numbers.items() if v in number.free}
        trace.taken.append(
            TakenType(substitute(number, expr_of_variable) if expr_of_variable else number, element, here())
        )


def _aligned(operands: list[Traced]) -> list[Traced]:
    """The operands with local dims renamed as the offsets of the trace do, where an argument brought its own name.

    Raises V33 where it is not clear which offset the neighbour dim of an argument belongs to.
    """
    trace = CURRENT.get()
    if trace is None or not trace.locals:
        return operands
    tagged = {d for o in operands for d in o.dims}
    tags = {d: f"{NEIGHBOUR}{d}" for d in trace.locals if f"{NEIGHBOUR}{d}" in tagged}
    if not tags:
        return operands

    def aligned(operand: Traced) -> Traced:
        pairs = tuple((d, tag) for d, tag in tags.items() if d in operand.dims)
        missing_tags = [tag for tag in tags.values() if tag not in operand.dims]
        for sparse in _sparse_dims(operand, trace) if missing_tags and not pairs else ():
            if neighbour_counter(sparse) is None or len(missing_tags) > 1:
                message = (
                    f"the field has neighbours along {sparse}, and meets neighbours along {' and '.join(missing_tags)}."
                )
                help = f"name its dim as the offset does, {missing_tags[0].removeprefix(NEIGHBOUR)}: x.rename(...)."
                raise refuse("V33", message, help, at=here())
            pairs = ((sparse, missing_tags[0]),)
        return Traced(build.call("rename", operand.expr, static=(pairs,)), operand.weak) if pairs else operand

    return [aligned(o) for o in operands]


def _sparse_dims(operand: Traced, trace: Tracing) -> list[str]:
    """The neighbour dims of an operand that are from an argument, and from no offset of this trace."""
    dims_of_arguments = {d for v in operand.expr.free for d in v.type.dims if v.name not in trace.tables}
    dims_of_offsets = {f"{NEIGHBOUR}{d}" for d in trace.locals}
    return [d for d in operand.dims if d.startswith(NEIGHBOUR) and d in dims_of_arguments and d not in dims_of_offsets]


def foreign(problem: Exception) -> DiagnosticError | None:
    """V05 at the user's line for JAX's exception about a traced field as argument; None for other exceptions."""
    text = str(problem)
    if isinstance(problem, DiagnosticError) or not (
        "__jax_array__" in text or ("JAX" in text and Traced.__name__ in text)
    ):
        return None
    place = raised_at(problem)
    return refuse("V05", "JAX cannot compute with fields of an operator.", _instead(place), at=place)


def _instead(place: Span | None = None) -> str:
    """The hint for the user's line that calls a function of another library: the function of tensorir in its place."""
    called = re.search(r"\.(\w+)\(", (place or here()).text)
    name = called[1] if called else ""
    ours = name in ("where", "minimum", "maximum", "power") or (name in TABLE and TABLE[name].elementwise)
    return f"use ti.{name}." if ours else remedy(name) or "use the functions of tensorir: ti.sin, ti.where."


def assignable(value: Expr, weak: bool = False) -> Traced:
    """The traced field of a value; records the variable in the trace if the user's expression assigns it at once."""
    trace = CURRENT.get()
    if trace is not None:
        place, name = assigned()
        if trace.latest is not None and trace.latest[0] == place:
            # one expression of Python may make several values: the last of them is what is assigned
            trace.assigned.pop(id(trace.latest[1]), None)
        if name:
            trace.assigned[id(value)] = Assigned(value, name, value.span)
        trace.latest = place, value
    return Traced(value, weak)


def binary(op: str, a: Any, b: Any) -> Traced:
    return make(op, *unify(a, b))


def quotient(a: Any, b: Any) -> Traced:
    """a / b of floats; two Python integers become float64, integer fields are refused (V07)."""
    x, y = unify(a, b)
    if isinstance(x.element, Scalar) and x.element.is_integer:
        if x.weak and y.weak:
            x, y = (Traced(build.call("cast", v.expr, static=(FLOAT64,)), True) for v in (x, y))
        else:
            message = f"/ is for floats, and these are {x.element}."
            raise refuse("V07", message, "use // to round down, or ti.astype(x, ti.float64).", at=here())
    return make("divides", x, y)


@overload
def power(a: float, b: Value) -> Value: ...
@overload
def power(a: Value, b: Value | float) -> Value: ...
def power(a: Any, b: Any) -> Any:
    """A power; of a small whole exponent by products, as NumPy does for squares.

    Of two fields of one type (floats), or a field and a number: on the dims of both, where both are; fields of integers
    have the exponents 1, 2 and 3. Units: the result says none.
    """
    if isinstance(a, Traced) and isinstance(b, int) and not isinstance(b, bool) and 1 <= b <= 3:
        result = a
        for _ in range(b - 1):
            result = make("multiplies", result, a)
        return result
    x, y = unify(a, b)
    return make("power", x, y)


def unify(*operands: Any) -> list[Traced]:
    """The operands as traced values of one element type: Python numbers take that of the fields.

    A float never becomes an integer (V08). Expressions of coordinates alone (metric terms) are computed in the type of
    the coordinates, and rounded once to that of the data.
    """
    values = [wrap(o) for o in operands]
    strong = [v for v in values if not v.weak]
    if not strong:
        element = max((v.element for v in values), key=lambda e: (e.kind == "float", e.kind == "int"))
        return [number_as(v, element) for v in values]
    data = [v for v in strong if not _is_metric(v)]
    element = data[0].element if data else max((v.element for v in strong), key=lambda e: getattr(e, "bits", 0))
    return [number_as(v, element) if v.weak else _rounded_to(v, element) for v in values]


def _is_metric(x: Traced) -> bool:
    """True if a value depends on coordinates of the trace alone."""
    trace = CURRENT.get()
    return trace is not None and bool(x.expr.free) and x.expr.free <= set(trace.fields.values())


def _rounded_to(x: Traced, element: Any) -> Traced:
    """A metric term of another float type cast to `element`; any other field unchanged."""
    have = x.element
    floats = isinstance(have, Scalar) and isinstance(element, Scalar) and have.is_float and element.is_float
    if not floats or have == element or not _is_metric(x):
        return x
    return Traced(build.call("cast", x.expr, static=(element,), span=here()))


def number_as(number: Traced, element: Any) -> Traced:
    """A weak value cast to an element type.

    Raises V08 for a float as integer or bool, S12 for a literal out of range.
    """
    have = number.element
    if have == element or not isinstance(element, Scalar):
        return number
    if have.is_float and element.is_integer:
        message = f"the number is a float, and the field is {element}."
        raise refuse("V08", message, "a float never becomes an integer; use ti.astype.", at=here())
    if (have == BOOL) != (element == BOOL):
        message = f"the number is {have}, and the field is {element}."
        raise refuse("V08", message, "compare it with 0, or convert it with ti.astype.", at=here())
    if isinstance(number.expr, Literal):
        if element.is_float and not element.holds(number.expr.value):
            limits = cast("Any", ml_dtypes.finfo(DTYPES[element]))
            message = f"{number.expr.value} is not a {element}."
            help = f"{element} ends at {float(limits.max):.3g}; write float('inf') if that is meant."
            raise refuse("S12", message, help, at=here())
        return Traced(build.literal(number.expr.value, element, here()), True)
    if may_exceed(have, element):
        _takes(number.expr, element)
    return Traced(build.call("cast", number.expr, static=(element,), span=here()), True)


def wrap(value: Any) -> Traced:
    """A number, tuple or traced value as a traced value; raises V09 for others, V27 for a value of another trace."""
    match value:
        case Traced():
            if value.trace is not CURRENT.get():
                message = "this value was kept from another run of an operator, and means nothing here."
                raise refuse("V27", message, "return what is needed later, and pass it as an argument.", at=here())
            return value
        case bool():
            return Traced(build.literal(value), True)
        case np.generic():
            return _numpy_scalar(value)
        case numbers.Integral():
            element = INT32 if int(value) in INT32.range else INT64
            return Traced(build.literal(int(value), element, here()), True)
        case numbers.Real():
            return Traced(build.literal(float(value), FLOAT64, here()), True)
        case tuple() | list():
            return make("make_tuple", *cast("tuple[Any, ...]", value))
        case _:
            message = f"{type(value).__name__} cannot be computed with in an operator."
            raise refuse("V09", message, _how_to_pass(value), at=here())


def _numpy_scalar(value: Any) -> Traced:
    """A NumPy scalar keeps its own type."""
    element = scalar_of(value.dtype)
    if element is None:
        raise refuse("V09", f"a number of type {value.dtype} is not known here.", "convert it.", at=here())
    return Traced(build.literal(value.item(), element, here()))


def _how_to_pass(value: Any) -> str:
    """The hint for a value that cannot be part of a traced expression."""
    if value is None:
        return "something returned nothing: add a return."
    if hasattr(value, "shape"):
        return "pass the array as an argument of the operator."
    return "use fields, numbers and tuples of them."


def expression(value: Any) -> Expr:
    return wrap(value).expr


def tuple_of(traced: Traced) -> Any:
    """A field of tuples as nested Python tuples of fields."""
    if isinstance(traced.element, TupleElement):
        return tuple(tuple_of(make("tuple_get", traced, static=(k,))) for k in range(len(traced.element.members)))
    return traced


# Shifts


class Shifting:
    """The base class of offsets that shift a field themselves (`FieldOffset`, `Slot`, `Dynamic`)."""

    __slots__ = ()

    def shifted(self, x: Traced) -> Traced:
        """The field, shifted."""
        raise NotImplementedError


def _shifted(x: Traced, offset: Any) -> Traced:
    """A field shifted by `I + 1`, by a `Shifting`, or through a neighbour table; raises V10 for any other offset."""
    match offset:
        case Offset(dimension, distance):
            return _cartesian(x, dimension, distance)
        case Dimension():
            raise refuse("V10", f"a shift along {offset} needs a distance.", f"write f({offset} + 1).", at=here())
        case Shifting():
            return offset.shifted(x)
        case Traced():
            return through(x, offset, None)
        case _:
            message = f"{type(offset).__name__} is no offset."
            raise refuse("V10", message, "shift by I + 1, by a FieldOffset V2E or by V2E[0].", at=here())


def _cartesian(x: Traced, dimension: Dimension, distance: Any) -> Traced:
    """A field shifted along a dim: result[i] = x[i + distance]; by half points between staggered dims.

    A field without the dim is returned itself, and the shift is recorded in `trace.missed`. Raises V10 for another
    distance, V28 inside of a scan along the dim.
    """
    if isinstance(distance, float) and (2 * distance) % 2 == 1:
        return _staggered(x, dimension, distance)
    if not isinstance(distance, numbers.Integral):
        message = "a shift is by a whole number of points, or by a half to and from points half way between."
        raise refuse("V10", message, f"write f({dimension} + 1), or f(IHalf + 0.5) of a field on I.", at=here())
    current().named.add(str(dimension))
    if str(dimension) in current().scanned:
        message = f"inside of a scan along {dimension} a field has one level of it, and no neighbour there."
        raise refuse("V28", message, f"pass the neighbour as a field of its own: f(x, x({dimension} + 1)).", at=here())
    if str(dimension) not in x.dims:
        current().missed.setdefault(str(dimension), here())
        return x
    return Traced(make("cartesian_shift", x, static=(str(dimension), int(distance))).expr, x.weak)


def _staggered(x: Traced, dimension: Dimension, distance: float) -> Traced:
    """A field on the partner of a dim moved to that dim, by half points: `f(IHalf + 0.5)[i] = f[i]` for f on I.

    Raises V10 for a field that is on the dim already or on no partner of it, V28 inside of a scan along either.
    """
    name = str(dimension)
    current().named.add(name)
    for dim in current().scanned:
        if dim == name or partners(name, [dim]):
            message = f"inside of a scan along {dim} a field has one level of it, and no neighbour there."
            help = f"pass the neighbour as a field of its own: f(x, x({dimension} + 0.5))."
            raise refuse("V28", message, help, at=here())
    if name in x.dims:
        partner = half_way(name)
        message = f"half a point along {name} leads to a field on {partner}, and this field is on {name}."
        raise refuse("V10", message, f"write f({partner} + 0.5), or f({name} + 1).", at=here())
    if not x.dims:
        current().missed.setdefault(name, here())
        return x
    partner = next(iter(partners(name, x.dims)), None)
    if partner is None:
        message = f"half a point along {name} comes from a dim half way, and this field has {', '.join(x.dims)}."
        like, half = next((d for d in x.dims if d[0].lower() == name[0].lower()), x.dims[0]), half_of(name)
        says = f"ti.staggered({name}, '{like}'), or ti.staggered({like}, '{name}') if the points of {name} lie between"
        help = f"say which is: {says}." if half is None else f"rename it: x.rename({like}='{half.whole}')."
        raise refuse("V10", message, help, at=here())
    moved = make("rename", x, static=(((partner, name),),))
    by = points_between(name, partner, distance)
    return Traced(make("cartesian_shift", moved, static=(name, by)).expr, x.weak) if by else moved


def through(x: Traced, table: Traced, local: str | None) -> Traced:
    """The field at all neighbours through a table, along the dim `local` (None: under the name of the IR)."""
    current().named.add(neighbour_source(table.type)[1])
    shifted = make("shift_init", table, x)
    tag = highest_neighbour(d for d in shifted.dims if d not in x.dims)
    assert tag is not None
    if local is None:
        return shifted
    name = f"{NEIGHBOUR}{local}"
    current().locals.add(local)
    return make("rename", shifted, static=(((tag, name),),))
