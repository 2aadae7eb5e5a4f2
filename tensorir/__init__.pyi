"""What `import tensorir as ti` gives, for editors and type checkers: the names, signatures and first sentences of
`dir(ti)`. Much of it loads on first use, which no type checker follows; `tests/test_typed_face.py` holds both equal.
"""

import builtins
import datetime
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar, overload

import numpy as np

import tensorir.tenstorrent
from tensorir import build as build
from tensorir import inspect as inspect
from tensorir import iterator as iterator
from tensorir import passes as passes
from tensorir import reference as reference
from tensorir import tile as tile
from tensorir import tir as tir
from tensorir.backends import compile as compile
from tensorir.binding.labels import positional as positional
from tensorir.build import fencil as fencil
from tensorir.caches import Caches
from tensorir.dimensions import Dimension as Dimension
from tensorir.dimensions import dims as dims
from tensorir.distribution.partition import partition as partition
from tensorir.equality.comparison import equivalent as equivalent
from tensorir.errors import Diagnostic as Diagnostic
from tensorir.errors import DiagnosticError as DiagnosticError
from tensorir.fieldview import FieldOffset as FieldOffset
from tensorir.fieldview import as_offset as as_offset
from tensorir.fieldview import astype as astype
from tensorir.fieldview import broadcast as broadcast
from tensorir.fieldview import concat_where as concat_where
from tensorir.fieldview import field_operator as field_operator
from tensorir.fieldview import max_over as max_over
from tensorir.fieldview import min_over as min_over
from tensorir.fieldview import neighbor_sum as neighbor_sum
from tensorir.fieldview import program as program
from tensorir.fieldview import scan_operator as scan_operator
from tensorir.fieldview import where as where
from tensorir.fieldview.annotations import FieldType
from tensorir.fieldview.blocks import map_blocks as map_blocks
from tensorir.fieldview.boundary import dirichlet as dirichlet
from tensorir.fieldview.boundary import extend as extend
from tensorir.fieldview.boundary import linear as linear
from tensorir.fieldview.boundary import neumann as neumann
from tensorir.fieldview.boundary import periodic as periodic
from tensorir.fieldview.boundary import with_boundary as with_boundary
from tensorir.fieldview.functions import can_deref as can_deref
from tensorir.fieldview.functions import radians as radians
from tensorir.fieldview.traced import power as power
from tensorir.interrupted import Interrupted as Interrupted
from tensorir.ir import Fencil as Fencil
from tensorir.iterator.as_jax import as_jax as as_jax
from tensorir.kept_memory import KeptMemory
from tensorir.lifting import lift as lift
from tensorir.passes.explain import explain as explain
from tensorir.passes.pipeline import Pipeline as Pipeline
from tensorir.passes.restrict import restrict as restrict
from tensorir.passes.stages import DEFAULT_PASSES as DEFAULT_PASSES
from tensorir.text import parse as parse
from tensorir.types import Dims, Scalar
from tensorir.types import Interval as Interval
from tensorir.types import TensorType as TensorType
from tensorir.types import tensor as tensor

tt = tensorir.tenstorrent

_State = TypeVar("_State")
_Result = TypeVar("_Result")
_P = ParamSpec("_P")

__version__: str
"""The version of the package."""

caches: Caches
"""All caches of the process by name: they can be listed, sized and emptied."""
kept_memory: KeptMemory
"""How much freed memory the process keeps for arrays to come; `ti.kept_memory.limit = 0` gives it back."""

# element types
bfloat16: Scalar
bool: Scalar
float16: Scalar
float32: Scalar
float64: Scalar
float8_e4m3: Scalar
float8_e4m3fn: Scalar
float8_e5m2: Scalar
int16: Scalar
int32: Scalar
int64: Scalar
int8: Scalar
uint16: Scalar
uint32: Scalar
uint64: Scalar
uint8: Scalar

class Field:
    """An array (NumPy or JAX) whose axes are dims with integer intervals; arithmetic is that of field operators.

    `ti.as_field`, `ti.zeros`, `ti.ones`, `ti.full` and `ti.from_xarray` make one. It is a pytree with the array as its
    leaf. In annotations, `ti.Field[[I, J], ti.float64]`.
    """

    data: Any
    dims: Dims
    def __init__(self, data: Any, dims: Dims) -> None: ...
    @property
    def dtype(self) -> Any:
        """The element type of the array."""
    @property
    def shape(self) -> tuple[int, ...]:
        """The extents, in the order of the axes."""
    def to_xarray(self, name: str | None = None, **attrs: Any) -> Any:
        """The field as a DataArray whose integer coordinates are its intervals."""
    def __getitem__(self, places: Any) -> Field:
        """The field at a coordinate, or on an interval, of some of its dims: `f[{I: 2, J: (0, 4)}]`."""
    def sum(self, *dims: Any, **numpy: Any) -> Any:
        """The sum over some dims, or over all: a field, or a number where no dim is left."""
    def prod(self, *dims: Any, **numpy: Any) -> Any:
        """The product over some dims, or over all."""
    def mean(self, *dims: Any, **numpy: Any) -> Any:
        """The mean over some dims, or over all."""
    def max(self, *dims: Any, **numpy: Any) -> Any:
        """The largest element over some dims, or over all."""
    def min(self, *dims: Any, **numpy: Any) -> Any:
        """The smallest element over some dims, or over all."""
    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any: ...
    def __array__(self, dtype: Any = None, copy: builtins.bool | None = None) -> np.ndarray[Any, Any]: ...
    def __jax_array__(self) -> Any: ...
    def __class_getitem__(cls, parameters: Any) -> FieldType: ...
    def __call__(self, *offsets: Any) -> Field:
        """What a parameter with this annotation is in an operator, shifted: `f(I + 1)`, `f(V2E)`."""
    def __neg__(self) -> Any: ...
    def __abs__(self) -> Any: ...
    def __add__(self, other: Any) -> Any: ...
    def __radd__(self, other: Any) -> Any: ...
    def __sub__(self, other: Any) -> Any: ...
    def __rsub__(self, other: Any) -> Any: ...
    def __mul__(self, other: Any) -> Any: ...
    def __rmul__(self, other: Any) -> Any: ...
    def __truediv__(self, other: Any) -> Any: ...
    def __rtruediv__(self, other: Any) -> Any: ...
    def __floordiv__(self, other: Any) -> Any: ...
    def __rfloordiv__(self, other: Any) -> Any: ...
    def __mod__(self, other: Any) -> Any: ...
    def __rmod__(self, other: Any) -> Any: ...
    def __pow__(self, other: Any) -> Any: ...
    def __rpow__(self, other: Any) -> Any: ...
    def __lt__(self, other: Any) -> Any: ...
    def __gt__(self, other: Any) -> Any: ...
    def __le__(self, other: Any) -> Any: ...
    def __ge__(self, other: Any) -> Any: ...

def load(artefact: bytes | bytearray | str | os.PathLike[str]) -> Any:
    """A program that `c.export(...).serialize()` wrote, from its bytes or from a file."""

def as_field(domain: Any, data: Any) -> Field:
    """An array as a field."""

def full(domain: Any, value: Any, dtype: Scalar = ...) -> Field:
    """A field that holds one value, in NumPy memory."""

def zeros(domain: Any, dtype: Scalar = ...) -> Field:
    """A field of zeros, in NumPy memory."""

def ones(domain: Any, dtype: Scalar = ...) -> Field:
    """A field of ones, in NumPy memory."""

def from_xarray(array: Any, origin: Any = None) -> Field:
    """A DataArray as a field: integer coordinates give intervals, other dims start at 0 or at `origin[dim]`."""

def distribute(program: Any, mesh: Any, dims: Mapping[Any, str], *, partition: Any = None, **options: Any) -> Any:
    """A program, or a field operator, on the devices of a mesh: called as it is, and of the same results."""

def compiler_options(function: Callable[..., Any], /, *arguments: Any) -> dict[str, str]:
    """What the programs that a function calls ask XLA for: `jax.jit(function, compiler_options=...)` grants it."""

def grad(
    loss: Callable[..., Any], argnums: int | Sequence[int] = 0, *, has_aux: builtins.bool = False, units: str = ""
) -> Callable[..., Any]:
    """A function that gives the gradient of a loss by some arguments, each with the labels of its argument."""

def value_and_grad(
    loss: Callable[..., Any], argnums: int | Sequence[int] = 0, *, has_aux: builtins.bool = False, units: str = ""
) -> Callable[..., Any]:
    """A function that gives a loss and its gradient by some arguments, each with the labels of its argument."""

def jit(function: Callable[_P, _Result], /) -> Callable[_P, _Result]:
    """The function as one program of XLA, compiled with what the programs in it ask for."""

def keep_compilations(folder: str | os.PathLike[str] | None) -> Path | None:
    """Keep what XLA compiles in a folder, from which later processes take it; None keeps nothing any more."""

@overload
def iterate(
    step: Callable[[Any], Any],
    state: _State,
    n: int,
    *,
    every: int | None = None,
    callback: Callable[[int, Any], object] | None = None,
    keep: Literal[False] = False,
    dt: float | str | datetime.timedelta | np.timedelta64 = 1,
    start: str | datetime.date | np.datetime64 | None = None,
    checkpoint: builtins.bool | int = True,
    progress: builtins.bool | None = None,
    to: str | os.PathLike[str] | None = None,
    checkpoint_dir: str | os.PathLike[str] | None = None,
    on_interrupt: str = "raise",
) -> _State: ...
@overload
def iterate(
    step: Callable[[Any], Any],
    state: _State,
    n: int,
    *,
    every: int | None = None,
    callback: Callable[[int, Any], object] | None = None,
    keep: Callable[[Any], Any] | builtins.bool,
    dt: float | str | datetime.timedelta | np.timedelta64 = 1,
    start: str | datetime.date | np.datetime64 | None = None,
    checkpoint: builtins.bool | int = True,
    progress: builtins.bool | None = None,
    to: str | os.PathLike[str] | None = None,
    checkpoint_dir: str | os.PathLike[str] | None = None,
    on_interrupt: str = "raise",
) -> tuple[_State, Any]:
    """The state after n steps, which run inside XLA: any pytree of arrays, Fields and DataArrays."""

# mathematics on fields, inside of operators
def abs(x: Any, /) -> Any:
    """The magnitude; of the least integer it is itself."""

def arccos(x: Any, /) -> Any:
    """Arc cosine (radians)."""

def arccosh(x: Any, /) -> Any:
    """Inverse hyperbolic cosine."""

def arcsin(x: Any, /) -> Any:
    """Arc sine (radians)."""

def arcsinh(x: Any, /) -> Any:
    """Inverse hyperbolic sine."""

def arctan(x: Any, /) -> Any:
    """Arc tangent (radians)."""

def arctan2(x: Any, y: Any, /) -> Any:
    """The angle of the point (y, x) (radians)."""

def arctanh(x: Any, /) -> Any:
    """Inverse hyperbolic tangent."""

def cbrt(x: Any, /) -> Any:
    """Cube root."""

def ceil(x: Any, /) -> Any:
    """The smallest whole number that is not smaller."""

def clz(x: Any, /) -> Any:
    """The number of leading bits that are not set."""

def cos(x: Any, /) -> Any:
    """Cosine (radians)."""

def cosh(x: Any, /) -> Any:
    """Hyperbolic cosine."""

def erf(x: Any, /) -> Any:
    """Error function."""

def erfc(x: Any, /) -> Any:
    """1 - erf(x), exact where erf is near 1."""

def exp(x: Any, /) -> Any:
    """e to the x."""

def exp2(x: Any, /) -> Any:
    """2 to the x."""

def expm1(x: Any, /) -> Any:
    """e to the x, minus 1, exact near 0."""

def floor(x: Any, /) -> Any:
    """The largest whole number that is not larger."""

def floordiv(x: Any, y: Any, /) -> Any:
    """Quotient rounded towards minus infinity; of integers by 0 it is -1 (all bits set)."""

def fmod(x: Any, y: Any, /) -> Any:
    """What division rounded towards zero leaves, with the sign of the dividend; of integers by 0 it is x."""

def isfinite(x: Any, /) -> Any:
    """Neither infinite nor NaN."""

def isinf(x: Any, /) -> Any:
    """Infinite."""

def isnan(x: Any, /) -> Any:
    """Not a number."""

def lgamma(x: Any, /) -> Any:
    """Logarithm of the magnitude of the gamma function."""

def log(x: Any, /) -> Any:
    """Natural logarithm."""

def log10(x: Any, /) -> Any:
    """Logarithm to base 10."""

def log1p(x: Any, /) -> Any:
    """Natural logarithm of 1 + x, exact near 0."""

def log2(x: Any, /) -> Any:
    """Logarithm to base 2."""

def maximum(x: Any, y: Any, /) -> Any:
    """The larger; NaN where either is."""

def minimum(x: Any, y: Any, /) -> Any:
    """The smaller; NaN where either is."""

def popcount(x: Any, /) -> Any:
    """The number of bits that are set."""

def round(x: Any, /) -> Any:
    """The nearest whole number, halves to the even one."""

def rsqrt(x: Any, /) -> Any:
    """1 / sqrt(x)."""

def sign(x: Any, /) -> Any:
    """-1, 0 or 1 by the sign; NaN of NaN, and zeros keep theirs."""

def sin(x: Any, /) -> Any:
    """Sine (radians)."""

def sinh(x: Any, /) -> Any:
    """Hyperbolic sine."""

def sqrt(x: Any, /) -> Any:
    """Square root, correctly rounded."""

def tan(x: Any, /) -> Any:
    """Tangent (radians)."""

def tanh(x: Any, /) -> Any:
    """Hyperbolic tangent."""

def trunc(x: Any, /) -> Any:
    """Rounded towards zero."""

def xor(x: Any, y: Any, /) -> Any:
    """One, and not both."""
