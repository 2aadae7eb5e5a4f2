"""Values of Relax as tensors whose dims are named by position, counted from the last one: `i, j` of a matrix.

Tensors of different ranks then broadcast by name, which is what Relax does by position. A dim of size 1 may be missing:
the tensor is the same along it. Operators are written as comprehensions: `made(shape, make, x, y)` has at an index the
scalar term that `make(index, read_x, read_y)` gives; sums of indices become shifts, splits and windows.

>>> from tensorir.ir.build import literal
>>> from tensorir.ir.types import FLOAT32
>>> dims_of(3), number(1.5, FLOAT32).shape
(('c', 'i', 'j'), ())
"""

# Attributes hold values of any type here, and comprehensions get readers of as many tensors as they name.
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from tensorir.integers.dims import Dims, Interval
from tensorir.ir.build import literal, var
from tensorir.ir.nodes import Expr, Literal, Var
from tensorir.ir.types import BOOL, INT32, Scalar, TensorType, scalar_of
from tensorir.lifting.emission.emit import Emitter
from tensorir.lifting.emission.tensors import cut, folded, renamed, spread
from tensorir.lifting.nests.terms import Buffer, Index, Load, Number, Op, Term
from tensorir.runtime.errors import NOWHERE, Span

_NAMES = ("b", "m", "n", "c", "i", "j")
Axes = tuple[int, ...]
Read = Callable[..., Term]


class Shape(tuple[int, ...]):
    """A shape as a value, told apart from a tuple of values."""


@dataclass(slots=True)
class Home:
    """State of all values of one program: whether accesses are checked, and tables that the program brings along."""

    checked: bool = False
    undefined: bool = False
    """Whether callees check what they leave undefined."""
    exact: bool = False
    """Whether callees keep their order and rounding."""
    unchecked: bool = False
    """Whether a program that checks would differ."""
    taken: set[str] = field(default_factory=set[str])
    constants: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict[str, np.ndarray[Any, Any]])
    params: list[Var] = field(default_factory=list[Var])
    asserted: list[tuple[Expr, str]] = field(default_factory=list[tuple[Expr, str]])
    """What must hold, and what is said where it does not."""
    shown: list[tuple[Expr, Expr]] = field(default_factory=list[tuple[Expr, Expr]])
    """What is printed, and the same without being printed, in order."""

    place: Span = NOWHERE
    """Where the operator stands that is being lifted."""
    places: set[Span] = field(default_factory=set[Span])
    """Where all of them stand."""

    def fresh(self, name: str) -> str:
        """The name, or one like it that is free."""
        found, k = name, 0
        while found in self.taken:
            k += 1
            found = f"{name}_{k}"
        self.taken.add(found)
        return found


HOME: ContextVar[Home] = ContextVar("home")
"""The program that is being built."""


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor of a shape; its dims are those of `dims_of(rank)`, or fewer where it is the same along some."""

    expr: Expr
    shape: Axes

    @property
    def element(self) -> Scalar:
        element = self.expr.tensor.element
        assert isinstance(element, Scalar)
        return element

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return prod(self.shape)

    def whole(self) -> Expr:
        """The tensor with all of its dims."""
        return spread(self.expr, _box(self.shape))

    def axis(self, axis: int) -> int:
        """An axis counted from the front."""
        if not -self.rank <= axis < self.rank:
            raise ValueError(f"axis {axis} of {self.rank}")
        return axis % self.rank


def dims_of(rank: int) -> tuple[str, ...]:
    """The names of the dims of a tensor of a rank."""
    more = tuple(f"a{k}" for k in range(rank - len(_NAMES)))
    return (*more, *_NAMES[len(_NAMES) - rank :]) if rank <= len(_NAMES) else (*more, *_NAMES)


def _box(shape: Sequence[int]) -> dict[str, Interval]:
    return dict(zip(dims_of(len(shape)), (Interval(0, s) for s in shape), strict=True))


def number(value: Any, element: Scalar) -> Value:
    """One number."""
    if element.is_integer:
        from tensorir.tir.lift.intrinsics import number as wrapped

        value = wrapped(int(value), element).value
    return Value(literal(bool(value) if element == BOOL else value, element), ())


def filled(value: Value, shape: Sequence[int]) -> Value:
    """A value everywhere on a shape that it broadcasts to."""
    return made(tuple(shape), lambda ix, read: read(*_aligned(ix, value.shape)), value)


def constant(data: np.ndarray[Any, Any], name: str = "table") -> Value:
    """A table that the program brings along, as a parameter that it passes itself; a number where it is one."""
    element = scalar_of(data.dtype)
    if element is None:
        raise ValueError(f"elements of type {data.dtype}")
    # the bytes also tell 0.0 from -0.0
    if data.size and data.tobytes() == data.flat[0].tobytes() * data.size:
        return Value(number(data.flat[0].item(), element).expr, data.shape)
    home = HOME.get()
    made_var = var(home.fresh(name), TensorType(element, Dims(tuple(_box(data.shape).items()))))
    home.constants[made_var.name] = data
    home.params.append(made_var)
    return Value(made_var, data.shape)


def made(shape: Sequence[int], make: Callable[..., Term], *values: Value, over: Mapping[str, int] | None = None) -> Any:
    """The tensor that has at each index the term `make(index, *readers)`.

    With `over` (names and sizes of further indices, which `make` gets as a second argument) the expression with these
    dims as well.
    """
    home = HOME.get()
    emitter = Emitter(checked=home.checked)
    readers: list[Read] = []
    for k, value in enumerate(values):
        if isinstance(value.expr, Literal):
            same = Number(value.expr.value, value.element)
            readers.append(lambda *ix, same=same: same)
            continue
        buffer = Buffer(f"v{k}", value.element, value.shape, True)
        emitter.names[buffer], emitter.tensors[buffer] = dims_of(value.rank), value.expr
        readers.append(lambda *ix, buffer=buffer: Load(buffer, tuple(ix), home.place))
    box = _box(shape)
    index = tuple(Number(0, INT32) if i.stop == 1 else Index(n, INT32) for n, i in box.items())
    if over is None:
        term = make(index, *readers)
    else:
        box |= {n: Interval(0, size) for n, size in over.items()}
        term = make(index, tuple(Index(n, INT32) for n in over), *readers)
    found = cut(emitter.emit(term, box), box)
    home.unchecked |= bool(emitter.notes)
    return Value(found, tuple(shape)) if over is None else found


def fold(
    op: str, start: Any, shape: Sequence[int], over: Mapping[str, int], make: Callable[..., Term], *values: Value
) -> Value:
    """All terms `make(index, further, *readers)` along further indices folded into one."""
    many = {n: size for n, size in over.items() if size != 1}

    def term(ix: Sequence[Term], further: Sequence[Term], *reads: Read) -> Term:
        place = iter(further)
        return make(ix, tuple(next(place) if n in many else Number(0, INT32) for n in over), *reads)

    expr: Expr = made(shape, term, *values, over=many)
    expr = spread(expr, {n: Interval(0, size) for n, size in many.items()})
    element = expr.tensor.element
    assert isinstance(element, Scalar)
    if not many and op != "plus":
        return Value(expr, tuple(shape))  # nothing to fold; the sum with 0 turns -0 into 0
    return Value(folded(op, literal(start, element), expr, list(many), element), tuple(shape))


def _aligned(index: Sequence[Term], shape: Sequence[int]) -> list[Term]:
    """The index of a smaller tensor where it broadcasts to the index of a larger one."""
    last = index[len(index) - len(shape) :]
    return [Number(0, INT32) if s == 1 else i for i, s in zip(last, shape, strict=True)]


def each(make: Callable[..., Term], *values: Value) -> Value:
    """The term of each element of tensors that broadcast."""
    shape = np.broadcast_shapes(*(v.shape for v in values))
    return made(
        shape,
        lambda ix, *reads: make(*(r(*_aligned(ix, v.shape)) for r, v in zip(reads, values, strict=True))),
        *values,
    )


def apply(op: str, *values: Value | float | int) -> Value:
    """A builtin on each element; numbers take the element type of the tensors."""
    element = next(v.element for v in values[op == "if" :] if isinstance(v, Value))
    tensors = [v if isinstance(v, Value) else number(v, element) for v in values]
    result = BOOL if op in _TRUTHS else element
    return each(lambda *terms: Op(op, terms, terms[1].element if op == "if" else result), *tensors)


_TRUTHS = {"eq", "not_eq", "less", "less_equal", "greater", "greater_equal", "isnan", "isinf", "isfinite"}


def under(expr: Expr, names: Mapping[str, str]) -> Expr:
    """The expression with other names of its dims."""
    return renamed(expr, dict(names))
