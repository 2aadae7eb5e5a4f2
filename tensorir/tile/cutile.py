"""Kernels of cuTile Python as modules of Tile IR: cuTile compiles them to bytecode without a GPU, and that is read.

This is the only file that knows cuTile (PyPI `cuda-tile`), and imports it when it is first called.
"""

# cuTile states no types for what is used of it here.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportPrivateUsage=false, reportMissingImports=false

from __future__ import annotations

import io
import typing
from typing import Any

import numpy as np

from tensorir.errors import Diagnostic, DiagnosticError
from tensorir.source import NOWHERE
from tensorir.tile.bytecode import from_bytecode
from tensorir.tile.nodes import Module

__all__ = ["from_cutile"]


def from_cutile(kernel: Any, *args: Any, version: str = "13.3") -> Module:
    """The module that cuTile makes of a kernel (`@ct.kernel`) for arguments like these; no GPU is needed.

    `args` has one for each parameter of the kernel: an array (of which its element type, its number of dimensions, and
    whether its last stride is 1 count), a number (its value for a parameter that is a `ct.Constant`,
    its type otherwise), or a constraint of `cuda.tile.compilation`. The entry is called as the kernel's function.
    Raises TK06 where cuTile refuses the kernel, and TK07 where it is not installed.
    """
    try:
        import cuda.tile as ct
        from cuda.tile.compilation import CallingConvention, KernelSignature, export_kernel
    except ImportError:
        help = "pip install cuda-tile==1.7.0, or tensorir[peers]."
        raise DiagnosticError(Diagnostic("TK07", "cuTile is not installed.", NOWHERE, help=help)) from None
    function = getattr(getattr(kernel, "_annotated_function", None), "pyfunc", None)
    if function is None:
        message = f"a kernel of cuTile is needed, and this is of type {type(kernel).__name__}."
        raise DiagnosticError(Diagnostic("TK06", message, NOWHERE, help="write @ct.kernel above the function."))
    file = io.BytesIO()
    try:
        hints = typing.get_type_hints(function, include_extras=True)
        names = list(function.__code__.co_varnames[: function.__code__.co_argcount])
        constraints = [
            _constraint(ct, value, _is_constant(ct, hints.get(name)))
            for name, value in zip([*names, *[""] * len(args)], args, strict=False)
        ]
        signature = KernelSignature(constraints, CallingConvention.cutile_python_v1(), function.__name__)
        code = None if version == "13.3" else "sm_100"
        export_kernel(
            kernel, [signature], file, gpu_code=code, output_format="tileir_bytecode", bytecode_version=version
        )  # fmt: skip
    except (ct.TileError, TypeError, ValueError, NotImplementedError) as problem:
        lines = str(problem).strip().splitlines() or [type(problem).__name__]
        message = f"cuTile refuses the kernel '{function.__name__}': {lines[0].rstrip('.')}."
        raise DiagnosticError(Diagnostic("TK06", message, NOWHERE, tuple(lines[1:]))) from None
    return from_bytecode(file.getvalue(), function.__name__)


def _is_constant(ct: Any, hint: Any) -> bool:
    """Whether a parameter is marked as known when the kernel is compiled."""
    return any(isinstance(part, ct.ConstantAnnotation) for part in getattr(hint, "__metadata__", ()))


def _constraint(ct: Any, value: Any, constant: bool) -> Any:
    """What cuTile is told of an argument."""
    from cuda.tile.compilation import ArrayConstraint, ScalarConstraint

    if constant or type(value).__module__.startswith("cuda.tile"):
        return value
    if hasattr(value, "dtype") and np.ndim(value) > 0:
        strides = getattr(value, "strides", None)
        unit = strides is None or callable(strides) or strides[-1] == np.dtype(value.dtype).itemsize
        return ArrayConstraint(
            _dtype(ct, value.dtype), np.ndim(value), index_dtype=ct.int32, stride_lower_bound_incl=0, alias_groups=(),
            may_alias_internally=False, stride_constant=[*[None] * (np.ndim(value) - 1), 1 if unit else None],
        )  # fmt: skip
    if isinstance(value, bool | np.bool_):
        return ScalarConstraint(ct.bool_)
    if isinstance(value, np.generic):
        return ScalarConstraint(_dtype(ct, value.dtype))
    if isinstance(value, int):
        return ScalarConstraint(ct.int32)
    if isinstance(value, float):
        return ScalarConstraint(ct.float32)
    return value


def _dtype(ct: Any, dtype: Any) -> Any:
    name = str(dtype).removeprefix("torch.")
    known = {"bool": "bool_", "float8_e4m3fn": "float8_e4m3fn", "tf32": "tfloat32"}
    found = getattr(ct, known.get(name, name), None)
    if found is None:
        raise TypeError(f"it has no arrays of {name}")
    return found
