"""What `import tensorir as ti` gives, for editors and type checkers: the names, signatures and texts of `dir(ti)`.
It loads on first use, which no type checker follows; `tests/test_typed_face.py` holds both equal. What is imported
here, or defined in `tensorir/__init__.py`, has its text there, and editors find it.
"""

import builtins
import datetime
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Concatenate, Literal, ParamSpec, TypeAlias, TypeVar, overload

import jax
import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from tensorir import config as config
from tensorir import inspect as inspect
from tensorir import iterator as iterator
from tensorir import passes as passes
from tensorir import reference as reference
from tensorir import tenstorrent as tenstorrent
from tensorir import tile as tile
from tensorir import tir as tir
from tensorir.backends import compile as compile
from tensorir.binding.labels import drop_indexes as drop_indexes
from tensorir.distribution.partition import Partition
from tensorir.distribution.partition import partition as partition
from tensorir.equality.comparison import equivalent as equivalent
from tensorir.fieldview import FieldOffset as FieldOffset
from tensorir.fieldview import as_offset as as_offset
from tensorir.fieldview import astype as astype
from tensorir.fieldview import boundary as boundary
from tensorir.fieldview import broadcast as broadcast
from tensorir.fieldview import concat_where as concat_where
from tensorir.fieldview import coord as coord
from tensorir.fieldview import field_operator as field_operator
from tensorir.fieldview import max_over as max_over
from tensorir.fieldview import min_over as min_over
from tensorir.fieldview import neighbor_sum as neighbor_sum
from tensorir.fieldview import program as program
from tensorir.fieldview import scan_operator as scan_operator
from tensorir.fieldview import where as where
from tensorir.fieldview.array_types import FieldType
from tensorir.fieldview.blocks import map_blocks as map_blocks
from tensorir.fieldview.boundary import extend as extend
from tensorir.fieldview.boundary import with_boundary as with_boundary
from tensorir.fieldview.folds import all as all
from tensorir.fieldview.folds import any as any
from tensorir.fieldview.folds import max as max
from tensorir.fieldview.folds import mean as mean
from tensorir.fieldview.folds import min as min
from tensorir.fieldview.folds import sum as sum
from tensorir.fieldview.functions import can_deref as can_deref
from tensorir.fieldview.functions import radians as radians
from tensorir.fieldview.traced import Shifting
from tensorir.fieldview.traced import power as power
from tensorir.ir import build as build
from tensorir.ir.build import fencil as fencil
from tensorir.ir.dimensions import Dimension as Dimension
from tensorir.ir.dimensions import Offset
from tensorir.ir.dimensions import dims as dims
from tensorir.ir.nodes import Fencil as Fencil
from tensorir.ir.staggering import c_grid as c_grid
from tensorir.ir.staggering import staggered as staggered
from tensorir.ir.types import Dims, Scalar
from tensorir.ir.types import Interval as Interval
from tensorir.ir.types import TensorType as TensorType
from tensorir.ir.types import tensor as tensor
from tensorir.iterator.as_jax import as_jax as as_jax
from tensorir.lifting import lift as lift
from tensorir.runtime.errors import Diagnostic as Diagnostic
from tensorir.runtime.errors import DiagnosticError as DiagnosticError
from tensorir.runtime.errors import Interrupted as Interrupted
from tensorir.text import parse as parse

tt = tenstorrent

_State = TypeVar("_State")
_Kept = TypeVar("_Kept")
_Result = TypeVar("_Result")
_Aux = TypeVar("_Aux")
_A = TypeVar("_A")
_Value = TypeVar("_Value")
_Program = TypeVar("_Program", bound=Callable[..., Any])
_P = ParamSpec("_P")
_Operand: TypeAlias = Field | float | np.generic | np.ndarray[Any, Any] | jax.Array
_Domain: TypeAlias = Mapping[Dimension, int | tuple[int, int]] | Mapping[str, int | tuple[int, int]] | Dims

__version__: str
"""The version of the package."""

# element types
bfloat16: Scalar
"""Floats of 16 bits with the exponents of float32: 8 bits, and 7 of the mantissa."""
bool: Scalar
"""Truth values."""
float16: Scalar
"""Floats of 16 bits."""
float32: Scalar
"""Floats of 32 bits."""
float64: Scalar
"""Floats of 64 bits."""
float8_e4m3: Scalar
"""Floats of 8 bits: 4 of the exponent, 3 of the mantissa, with infinities."""
float8_e4m3fn: Scalar
"""Floats of 8 bits: 4 of the exponent, 3 of the mantissa, without infinities."""
float8_e5m2: Scalar
"""Floats of 8 bits: 5 of the exponent, 2 of the mantissa, with infinities."""
int16: Scalar
"""Integers of 16 bits."""
int32: Scalar
"""Integers of 32 bits."""
int64: Scalar
"""Integers of 64 bits."""
int8: Scalar
"""Integers of 8 bits."""
uint16: Scalar
"""Integers without a sign of 16 bits."""
uint32: Scalar
"""Integers without a sign of 32 bits."""
uint64: Scalar
"""Integers without a sign of 64 bits."""
uint8: Scalar
"""Integers without a sign of 8 bits."""

class Field:
    """An array (NumPy or JAX) whose axes are dims with integer intervals; arithmetic is that of field operators.

    `ti.as_field`, `ti.zeros`, `ti.ones` and `ti.full` make one. It is a pytree with the array as its
    leaf. In annotations, `ti.Field[[I, J], ti.float64]`.
    """

    data: np.ndarray[Any, Any] | jax.Array
    dims: Dims
    def __init__(self, data: np.ndarray[Any, Any] | jax.Array, dims: Dims) -> None: ...
    @property
    def dtype(self) -> np.dtype[Any]:
        """The element type of the array."""
    @property
    def shape(self) -> tuple[int, ...]:
        """The extents, in the order of the axes."""
    def to_xarray(self, name: str | None = None, **attrs: object) -> xr.DataArray:
        """The field as a DataArray whose integer coordinates are its intervals."""
    def __getitem__(
        self, places: Mapping[Dimension, int | tuple[int, int]] | Mapping[str, int | tuple[int, int]]
    ) -> Field:
        """The field at a coordinate, or on an interval, of some of its dims: `f[{I: 2, J: (0, 4)}]`."""
    @overload
    def sum(self, **numpy: object) -> np.number[Any] | jax.Array: ...
    @overload
    def sum(self, dim: Dimension | str, /, *dims: Dimension | str, **numpy: object) -> Field:
        """The sum over some dims, or over all: a field, or a number where no dim is left."""
    @overload
    def prod(self, **numpy: object) -> np.number[Any] | jax.Array: ...
    @overload
    def prod(self, dim: Dimension | str, /, *dims: Dimension | str, **numpy: object) -> Field:
        """The product over some dims, or over all."""
    @overload
    def mean(self, **numpy: object) -> np.number[Any] | jax.Array: ...
    @overload
    def mean(self, dim: Dimension | str, /, *dims: Dimension | str, **numpy: object) -> Field:
        """The mean over some dims, or over all."""
    @overload
    def max(self, **numpy: object) -> np.number[Any] | jax.Array: ...
    @overload
    def max(self, dim: Dimension | str, /, *dims: Dimension | str, **numpy: object) -> Field:
        """The largest element over some dims, or over all."""
    @overload
    def min(self, **numpy: object) -> np.number[Any] | jax.Array: ...
    @overload
    def min(self, dim: Dimension | str, /, *dims: Dimension | str, **numpy: object) -> Field:
        """The smallest element over some dims, or over all."""
    @overload
    def all(self, **numpy: object) -> np.bool_ | jax.Array: ...
    @overload
    def all(self, dim: Dimension | str, /, *dims: Dimension | str, **numpy: object) -> Field:
        """Whether every element over some dims, or over all, is true."""
    @overload
    def any(self, **numpy: object) -> np.bool_ | jax.Array: ...
    @overload
    def any(self, dim: Dimension | str, /, *dims: Dimension | str, **numpy: object) -> Field:
        """Whether some element over some dims, or over all, is true."""
    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: object, **options: object) -> Field: ...
    def __array__(
        self, dtype: np.dtype[Any] | type[np.generic] | None = None, copy: builtins.bool | None = None
    ) -> np.ndarray[Any, Any]: ...
    def __jax_array__(self) -> jax.Array: ...
    def __class_getitem__(cls, parameters: object) -> FieldType: ...
    def __call__(self, *offsets: Dimension | Offset | FieldOffset | Shifting) -> Field:
        """What a parameter with this annotation is in an operator, shifted: `f(I + 1)`, `f(V2E)`."""
    def __neg__(self) -> Field: ...
    def __abs__(self) -> Field: ...
    def __add__(self, other: _Operand) -> Field: ...
    def __radd__(self, other: _Operand) -> Field: ...
    def __sub__(self, other: _Operand) -> Field: ...
    def __rsub__(self, other: _Operand) -> Field: ...
    def __mul__(self, other: _Operand) -> Field: ...
    def __rmul__(self, other: _Operand) -> Field: ...
    def __truediv__(self, other: _Operand) -> Field: ...
    def __rtruediv__(self, other: _Operand) -> Field: ...
    def __floordiv__(self, other: _Operand) -> Field: ...
    def __rfloordiv__(self, other: _Operand) -> Field: ...
    def __mod__(self, other: _Operand) -> Field: ...
    def __rmod__(self, other: _Operand) -> Field: ...
    def __pow__(self, other: _Operand) -> Field: ...
    def __rpow__(self, other: _Operand) -> Field: ...
    def __eq__(self, other: object) -> Field: ...  # type: ignore[reportIncompatibleMethodOverride]
    def __ne__(self, other: object) -> Field: ...  # type: ignore[reportIncompatibleMethodOverride]
    def __hash__(self) -> int: ...
    def __bool__(self) -> builtins.bool: ...
    def __lt__(self, other: _Operand) -> Field: ...
    def __gt__(self, other: _Operand) -> Field: ...
    def __le__(self, other: _Operand) -> Field: ...
    def __ge__(self, other: _Operand) -> Field: ...
    def __invert__(self) -> Field: ...
    def __and__(self, other: _Operand) -> Field: ...
    def __rand__(self, other: _Operand) -> Field: ...
    def __or__(self, other: _Operand) -> Field: ...
    def __ror__(self, other: _Operand) -> Field: ...
    def __xor__(self, other: _Operand) -> Field: ...
    def __lshift__(self, other: _Operand) -> Field: ...
    def __rlshift__(self, other: _Operand) -> Field: ...
    def __rshift__(self, other: _Operand) -> Field: ...
    def __rrshift__(self, other: _Operand) -> Field: ...
    def __divmod__(self, other: _Operand) -> tuple[Field, Field]: ...
    def __rdivmod__(self, other: _Operand) -> tuple[Field, Field]: ...
    def __rxor__(self, other: _Operand) -> Field: ...

def load(artefact: bytes | bytearray | str | os.PathLike[str]) -> Callable[..., dict[str, jax.Array]]:
    """A program that `c.export(...).serialize()` wrote, from its bytes or from a file.

    It takes arrays by the names of parameters, of the shapes and element types that it was exported for, with axes in
    the order of their dims, and gives a dict of outputs, of JAX's arrays. Raises FileNotFoundError for a file that is
    not there, and A34 for bytes that are no exported program.

    Reading needs flatbuffers (`pip install tensorir[export]`).
    """

@overload
def as_field(
    domain: xr.DataArray,
    data: None = None,
    *,
    origin: Mapping[Dimension, int] | Mapping[str, int] | None = None,
) -> Field: ...
@overload
def as_field(
    domain: _Domain | Sequence[Dimension] | Sequence[str] | Dimension | str, data: ArrayLike, *, origin: None = None
) -> Field:
    """An array as a field, or a DataArray, which names its dims itself: `as_field(x)`.

    `domain`: dims in the order of the axes with their intervals, `{I: (0, 10), J: (-1, 5)}`, or dims alone, which then
    start at 0. `data` is kept as it is, an array of NumPy or JAX of the domain's shape; a field has no units.

    Integer coordinates of a DataArray give intervals, other dims start at 0 or at `origin[dim]`. Labels that are no
    points (degrees, dates) are left out, since a field has none: a warning says so, but for dims of `origin` and those
    without an index (`ti.drop_indexes`). Axes keep their order.

    Raises A01 for an array without names of dims, A02 for an element type that the IR does not have, A03 for a wrong
    shape, and for arguments in another order.
    """

def full(domain: _Domain, value: float, dtype: Scalar = ...) -> Field:
    """A field that holds one value, in NumPy memory.

    `domain`: dims in the order of the axes with their intervals, `{I: (0, 10), J: 5}`. Raises A02 for a float in a
    field of integers, a number in one of bools and what is no number, and A07 for a number beyond the type.
    """

def zeros(domain: _Domain, dtype: Scalar = ...) -> Field:
    """A field of zeros, in NumPy memory.

    `domain`: dims in the order of the axes with their intervals, `{I: (0, 10), J: 5}`.
    """

def ones(domain: _Domain, dtype: Scalar = ...) -> Field:
    """A field of ones, in NumPy memory.

    `domain`: dims in the order of the axes with their intervals, `{I: (0, 10), J: 5}`.
    """

def distribute(
    program: _Program,
    mesh: jax.sharding.Mesh,
    dims: Mapping[Dimension, str] | Mapping[str, str],
    *,
    partition: Partition | None = None,
    **options: Any,
) -> _Program: ...
def loop_plan(step: Callable[..., object], state: object, /, *record: object) -> Any: ...
@overload
def grad(
    loss: Callable[Concatenate[_A, _P], object],
    argnums: Literal[0] = 0,
    *,
    has_aux: Literal[False] = False,
    units: str = "",
) -> Callable[Concatenate[_A, _P], _A]: ...
@overload
def grad(
    loss: Callable[Concatenate[_A, _P], tuple[object, _Aux]],
    argnums: Literal[0] = 0,
    *,
    has_aux: Literal[True],
    units: str = "",
) -> Callable[Concatenate[_A, _P], tuple[_A, _Aux]]: ...
@overload
def grad(
    loss: Callable[_P, object], argnums: int | Sequence[int] = 0, *, has_aux: builtins.bool = False, units: str = ""
) -> Callable[_P, Any]:
    """A function that gives the gradient of a loss by some arguments, each with the labels of its argument.

    Each has the dims, the shape and the element type of its argument, and where `units` says those of the loss, these
    per its own. With `has_aux` it gives a pair, and all else is as with `value_and_grad`.
    """

@overload
def value_and_grad(
    loss: Callable[Concatenate[_A, _P], _Result],
    argnums: Literal[0] = 0,
    *,
    has_aux: builtins.bool = False,
    units: str = "",
) -> Callable[Concatenate[_A, _P], tuple[_Result, _A]]: ...
@overload
def value_and_grad(
    loss: Callable[_P, _Result], argnums: int | Sequence[int] = 0, *, has_aux: builtins.bool = False, units: str = ""
) -> Callable[_P, tuple[_Result, Any]]:
    """A function that gives a loss and its gradient by some arguments, each with the labels of its argument.

    The loss is one number, without dims; a gradient has the dims, the shape and the element type of its argument.
    `units` are those of the loss: gradients of J by K are then J/K, and say no unit otherwise. The options of JAX are
    `argnums` and `has_aux`. Raises A41 for a gradient by what is no float, and for a loss that is no number.
    """

def jit(function: Callable[_P, _Result], /) -> Callable[_P, _Result]:
    """The function as one program of XLA, compiled with what the programs in it ask for.

    Results are what they are without it, with their dims, labels, units and other attributes. What the function reads
    from outside is read anew where it has changed. Texts among the arguments are not traced: each is a program.
    """

@overload
def iterate(
    step: Callable[..., _State],
    state: _State,
    n: int,
    *,
    forcing: Any = None,
    forcing_method: Literal["linear", "held"] = "linear",
    every: int | str | datetime.timedelta | np.timedelta64 | Sequence[Any] | None = None,
    callback: Callable[[int, _State], object] | None = None,
    keep: Literal[False] = False,
    dt: float | str | datetime.timedelta | np.timedelta64 = 1,
    start: str | datetime.date | np.datetime64 | None = None,
    checkpoint: builtins.bool | int = True,
    progress: builtins.bool | None = None,
    to: str | os.PathLike[str] | None = None,
    checkpoint_dir: str | os.PathLike[str] | None = None,
    checkpoint_every: int | str | datetime.timedelta = "5 s",
    on_interrupt: str = "raise",
) -> _State: ...
@overload
def iterate(
    step: Callable[..., _State],
    state: _State,
    n: int,
    *,
    forcing: Any = None,
    forcing_method: Literal["linear", "held"] = "linear",
    every: int | str | datetime.timedelta | np.timedelta64 | Sequence[Any] | None = None,
    callback: Callable[[int, _State], object] | None = None,
    keep: Literal[True],
    dt: float | str | datetime.timedelta | np.timedelta64 = 1,
    start: str | datetime.date | np.datetime64 | None = None,
    checkpoint: builtins.bool | int = True,
    progress: builtins.bool | None = None,
    to: str | os.PathLike[str] | None = None,
    checkpoint_dir: str | os.PathLike[str] | None = None,
    checkpoint_every: int | str | datetime.timedelta = "5 s",
    on_interrupt: str = "raise",
) -> tuple[_State, _State]: ...
@overload
def iterate(
    step: Callable[..., _State],
    state: _State,
    n: int,
    *,
    forcing: Any = None,
    forcing_method: Literal["linear", "held"] = "linear",
    every: int | str | datetime.timedelta | np.timedelta64 | Sequence[Any] | None = None,
    callback: Callable[[int, _State], object] | None = None,
    keep: Callable[[_State], _Kept],
    dt: float | str | datetime.timedelta | np.timedelta64 = 1,
    start: str | datetime.date | np.datetime64 | None = None,
    checkpoint: builtins.bool | int = True,
    progress: builtins.bool | None = None,
    to: str | os.PathLike[str] | None = None,
    checkpoint_dir: str | os.PathLike[str] | None = None,
    checkpoint_every: int | str | datetime.timedelta = "5 s",
    on_interrupt: str = "raise",
) -> tuple[_State, _Kept]: ...

# mathematics on fields, inside of operators
def abs(x: _Value, /) -> _Value:
    """The magnitude; of the least integer it is itself.

    Of a field of numbers, element by element: on its dims, of its element type.
    Units: those of the field.
    """

def arccos(x: _Value, /) -> _Value:
    """Arc cosine (radians).

    Of a field of floats, element by element: on its dims, of its element type.
    Units: the result says none.
    """

def arccosh(x: _Value, /) -> _Value:
    """Inverse hyperbolic cosine.

    Of a field of floats, element by element: on its dims, of its element type.
    Units: the result says none.
    """

def arcsin(x: _Value, /) -> _Value:
    """Arc sine (radians).

    Of a field of floats, element by element: on its dims, of its element type.
    Units: the result says none.
    """

def arcsinh(x: _Value, /) -> _Value:
    """Inverse hyperbolic sine.

    Of a field of floats, element by element: on its dims, of its element type.
    Units: the result says none.
    """

def arctan(x: _Value, /) -> _Value:
    """Arc tangent (radians).

    Of a field of floats, element by element: on its dims, of its element type.
    Units: the result says none.
    """

def arctan2(x: _Value | float, y: _Value | float, /) -> _Value:
    """The angle of the point (y, x) (radians).

    Of two fields of one type (floats), or a field and a number: on the dims of both, where both are.
    Units: those of both are the same (A32), and the result says none.
    """

def arctanh(x: _Value, /) -> _Value:
    """Inverse hyperbolic tangent.

    Of a field of floats, element by element: on its dims, of its element type.
    Units: the result says none.
    """

def cbrt(x: _Value, /) -> _Value:
    """Cube root.

    Of a field of floats, element by element: on its dims, of its element type.
    Units: the result says none.
    """

def ceil(x: _Value, /) -> _Value:
    """The smallest whole number that is not smaller.

    Of a field of floats, element by element: on its dims, of its element type.
    Units: the result says none.
    """

def clz(x: _Value, /) -> _Value:
    """The number of leading bits that are not set.

    Of a field of integers, element by element: on its dims, of its element type.
    Units: the result says none.
    """

def cos(x: _Value, /) -> _Value:
    """Cosine (radians).

    Of a field of floats, element by element: on its dims, of its element type.
    Units: radians; degrees are refused (V36), and `ti.radians` converts them. The result says none.
    """

def cosh(x: _Value, /) -> _Value:
    """Hyperbolic cosine.

    Of a field of floats, element by element: on its dims, of its element type.
    Units: the result says none.
    """

def erf(x: _Value, /) -> _Value:
    """Error function.

    Of a field of floats, element by element: on its dims, of its element type.
    Units: the result says none.
    """

def erfc(x: _Value, /) -> _Value:
    """1 - erf(x), exact where erf is near 1.

    Of a field of floats, element by element: on its dims, of its element type.
    Units: the result says none.
    """

def exp(x: _Value, /) -> _Value:
    """e to the x.

    Of a field of floats, element by element: on its dims, of its element type.
    Units: the result says none.
    """

def exp2(x: _Value, /) -> _Value:
    """2 to the x.

    Of a field of floats, element by element: on its dims, of its element type.
    Units: the result says none.
    """

def expm1(x: _Value, /) -> _Value:
    """e to the x, minus 1, exact near 0.

    Of a field of floats, element by element: on its dims, of its element type.
    Units: the result says none.
    """

def floor(x: _Value, /) -> _Value:
    """The largest whole number that is not larger.

    Of a field of floats, element by element: on its dims, of its element type.
    Units: the result says none.
    """

def floordiv(x: _Value | float, y: _Value | float, /) -> _Value:
    """Quotient rounded towards minus infinity; of integers by 0 it is -1 (all bits set).

    Of two fields of one type (numbers), or a field and a number: on the dims of both, where both are.
    Units: the result says none.
    """

def fmod(x: _Value | float, y: _Value | float, /) -> _Value:
    """What division rounded towards zero leaves, with the sign of the dividend; of integers by 0 it is x.

    Of two fields of one type (numbers), or a field and a number: on the dims of both, where both are.
    Units: the result says none.
    """

def isfinite(x: _Value, /) -> _Value:
    """Neither infinite nor NaN.

    Of a field of floats, element by element: on its dims, of bools.
    Units: the result says none.
    """

def isinf(x: _Value, /) -> _Value:
    """Infinite.

    Of a field of floats, element by element: on its dims, of bools.
    Units: the result says none.
    """

def isnan(x: _Value, /) -> _Value:
    """Not a number.

    Of a field of floats, element by element: on its dims, of bools.
    Units: the result says none.
    """

def lgamma(x: _Value, /) -> _Value:
    """Logarithm of the magnitude of the gamma function.

    Of a field of floats, element by element: on its dims, of its element type.
    Units: the result says none.
    """

def log(x: _Value, /) -> _Value:
    """Natural logarithm.

    Of a field of floats, element by element: on its dims, of its element type.
    Units: the result says none.
    """

def log10(x: _Value, /) -> _Value:
    """Logarithm to base 10.

    Of a field of floats, element by element: on its dims, of its element type.
    Units: the result says none.
    """

def log1p(x: _Value, /) -> _Value:
    """Natural logarithm of 1 + x, exact near 0.

    Of a field of floats, element by element: on its dims, of its element type.
    Units: the result says none.
    """

def log2(x: _Value, /) -> _Value:
    """Logarithm to base 2.

    Of a field of floats, element by element: on its dims, of its element type.
    Units: the result says none.
    """

def maximum(x: _Value | float, y: _Value | float, /) -> _Value:
    """The larger; NaN where either is.

    Of two fields of one type (numbers), or a field and a number: on the dims of both, where both are.
    Units: those of both, which are the same (A32).
    """

def minimum(x: _Value | float, y: _Value | float, /) -> _Value:
    """The smaller; NaN where either is.

    Of two fields of one type (numbers), or a field and a number: on the dims of both, where both are.
    Units: those of both, which are the same (A32).
    """

def popcount(x: _Value, /) -> _Value:
    """The number of bits that are set.

    Of a field of integers, element by element: on its dims, of its element type.
    Units: the result says none.
    """

def round(x: _Value, /) -> _Value:
    """The nearest whole number, halves to the even one.

    Of a field of floats, element by element: on its dims, of its element type.
    Units: the result says none.
    """

def rsqrt(x: _Value, /) -> _Value:
    """1 / sqrt(x).

    Of a field of floats, element by element: on its dims, of its element type.
    Units: the result says none.
    """

def sign(x: _Value, /) -> _Value:
    """-1, 0 or 1 by the sign; NaN of NaN, and zeros keep theirs.

    Of a field of numbers, element by element: on its dims, of its element type.
    Units: the result says none.
    """

def sin(x: _Value, /) -> _Value:
    """Sine (radians).

    Of a field of floats, element by element: on its dims, of its element type.
    Units: radians; degrees are refused (V36), and `ti.radians` converts them. The result says none.
    """

def sinh(x: _Value, /) -> _Value:
    """Hyperbolic sine.

    Of a field of floats, element by element: on its dims, of its element type.
    Units: the result says none.
    """

def sqrt(x: _Value, /) -> _Value:
    """Square root, correctly rounded.

    Of a field of floats, element by element: on its dims, of its element type.
    Units: the result says none.
    """

def tan(x: _Value, /) -> _Value:
    """Tangent (radians).

    Of a field of floats, element by element: on its dims, of its element type.
    Units: radians; degrees are refused (V36), and `ti.radians` converts them. The result says none.
    """

def tanh(x: _Value, /) -> _Value:
    """Hyperbolic tangent.

    Of a field of floats, element by element: on its dims, of its element type.
    Units: the result says none.
    """

def trunc(x: _Value, /) -> _Value:
    """Rounded towards zero.

    Of a field of floats, element by element: on its dims, of its element type.
    Units: the result says none.
    """

def xor(x: _Value | float, y: _Value | float, /) -> _Value:
    """One, and not both.

    Of two fields of one type (bools), or a field and a bool: on the dims of both, where both are.
    Units: the result says none.
    """
