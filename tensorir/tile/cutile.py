"""Kernels of cuTile Python as modules of Tile IR: cuTile compiles them to bytecode without a GPU, and that is read.

This is the only file that knows cuTile (PyPI `cuda-tile`), and imports it when it is first called.
"""

# cuTile states no types for what is used of it here.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportPrivateUsage=false, reportMissingImports=false

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorir.runtime.errors import NOWHERE, Diagnostic, DiagnosticError
from tensorir.tile.array_lists import ArrayList, without_lists
from tensorir.tile.bytecode import from_bytecode
from tensorir.tile.elements import ELEMENTS
from tensorir.tile.nodes import Module
from tensorir.tile.types import Pointer, Tile, Type

__all__ = ["from_cutile", "leaves_of"]


def from_cutile(kernel: Any, *args: Any, version: str = "13.3") -> Module:
    """The module that cuTile makes of a kernel (`@ct.kernel`) for arguments like these; no GPU is needed.

    `args` has one for each parameter of the kernel: an array (of which its element type, its number of dimensions, and
    whether its last stride is 1 count), a number (its value for a parameter that is a `ct.Constant`, its type
    otherwise), a list of arrays (each becomes parameters of the entry, and loops that choose one are unrolled), or a
    constraint of `cuda.tile.compilation`. The entry is called as the kernel's function.
    Raises TK06 where cuTile refuses the kernel, TK07 where it is not installed, TK11 to TK13 for lists that are not
    taken apart.
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
        nodes = [*kernel._annotated_function.parameter_annotations, *[None] * len(args)]
        constraints = [_constraint(ct, value, node) for value, node in zip(args, nodes, strict=False)]
        # tuples need the second convention, which older bytecode lacks
        form = CallingConvention.cutile_python_v2 if any(isinstance(a, tuple) for a in args) else None
        form = form or CallingConvention.cutile_python_v1
        signature = KernelSignature(constraints, form(), function.__name__)
        code = None if version == "13.3" else "sm_100"
        export_kernel(
            kernel, [signature], file, gpu_code=code, output_format="tileir_bytecode", bytecode_version=version
        )  # fmt: skip
    except (ct.TileError, TypeError, ValueError, NotImplementedError) as problem:
        lines = str(problem).strip().splitlines() or [type(problem).__name__]
        message = f"cuTile refuses the kernel '{function.__name__}': {lines[0].rstrip('.')}."
        raise DiagnosticError(Diagnostic("TK06", message, NOWHERE, tuple(lines[1:]))) from None
    module = from_bytecode(file.getvalue(), function.__name__)
    lists = _lists(args, constraints, list(kernel._annotated_function.pysig.parameters))
    return without_lists(module, lists) if lists else module


def _lists(args: Sequence[Any], constraints: Sequence[Any], names: Sequence[str]) -> dict[int, ArrayList]:
    """The lists of arrays by the place of their pointer among the parameters of the entry."""
    found: dict[int, ArrayList] = {}
    at = 0

    def place(value: Any, constraint: Any, name: str) -> None:
        nonlocal at
        kind = type(constraint).__name__
        if kind == "TupleConstraint":
            for k, (v, c) in enumerate(zip(value, constraint.items, strict=True)):
                place(v, c, f"{name}[{k}]")
        elif kind == "ListConstraint":
            if isinstance(value, list):
                found[at] = ArrayList(name, len(value), _words(constraint.element))
            at += 2
        elif kind == "ArrayConstraint":
            at += 1 + 2 * constraint.ndim
        elif kind in ("ScalarConstraint", "PointerConstraint"):
            at += 1

    for value, constraint, name in zip(args, constraints, names, strict=False):
        place(value, constraint, name)
    return found


def _words(array: Any) -> tuple[Type, ...]:
    """The types of the parameters that an array is: its pointer, its extents, its strides."""
    name = str(array.dtype)
    bits = name.lstrip("uint")
    element = ELEMENTS[f"i{bits}" if bits.isdigit() else _ELEMENTS[name]]
    number = Tile((), ELEMENTS["i64" if "64" in str(array.index_dtype) else "i32"])
    return Tile((), Pointer(element)), *[number] * (2 * array.ndim)


_ELEMENTS = {
    "bool_": "i1", "float16": "f16", "bfloat16": "bf16", "float32": "f32", "tfloat32": "tf32", "float64": "f64",
    "float8_e4m3fn": "f8E4M3FN", "float8_e5m2": "f8E5M2", "float8_e8m0fnu": "f8E8M0FNU",
    "float4_e2m1fn": "f4E2M1FN",
}  # fmt: skip
"""The elements that cuTile calls otherwise."""


def leaves_of(kernel: Any, args: tuple[Any, ...]) -> list[tuple[Any, bool]]:
    """The arguments of a kernel with tuples taken apart, each with whether it is known when the kernel is compiled."""

    def apart(value: Any, node: Any) -> list[tuple[Any, bool]]:
        if isinstance(value, list):
            return [(v, False) for v in value]
        if isinstance(value, tuple):
            return [leaf for v, n in zip(value, _inner(node, len(value)), strict=True) for leaf in apart(v, n)]
        return [(value, bool(getattr(node, "constant", False)))]

    nodes = kernel._annotated_function.parameter_annotations
    return [leaf for value, node in zip(args, nodes, strict=True) for leaf in apart(value, node)]


def _inner(node: Any, count: int) -> list[Any]:
    """What is said of the members of a tuple."""
    return [node.each] * count if hasattr(node, "each") else list(getattr(node, "items", [None] * count))


@dataclass(frozen=True, slots=True)
class _Member:
    """What is said of the arrays of a list."""

    array: Any


def _constraint(ct: Any, value: Any, node: Any) -> Any:
    """What cuTile is told of an argument."""
    from cuda.tile.compilation import ArrayConstraint, ListConstraint, ScalarConstraint, TupleConstraint

    if isinstance(value, list):
        member = _Member(array=getattr(getattr(node, "list", None), "element", None))
        found = [_constraint(ct, v, member) for v in value]
        if not found or not all(isinstance(c, ArrayConstraint) for c in found):
            raise TypeError("a list has arrays, one at least")
        # a stride is known where it is so of each array; what else differs, one entry has no parameter for
        strided = [c for c in found if c.stride_constant[-1] is None]
        element = (strided or found)[0]
        if any((c.dtype, c.ndim) != (element.dtype, element.ndim) for c in found):
            raise TypeError("the arrays of a list have one element type and one number of dimensions")
        return ListConstraint(element, alias_groups=(), elements_may_alias=False)
    if isinstance(value, tuple):
        return TupleConstraint([_constraint(ct, v, n) for v, n in zip(value, _inner(node, len(value)), strict=True)])
    if getattr(node, "constant", False) or type(value).__module__.startswith("cuda.tile"):
        return value
    if hasattr(value, "dtype") and len(getattr(value, "shape", ())) > 0:
        strides = getattr(value, "strides", None)
        unit = strides is None or callable(strides) or strides[-1] == np.dtype(value.dtype).itemsize
        wide = getattr(getattr(node, "array", None), "index_dtype", None) == ct.int64
        rank = len(value.shape)
        return ArrayConstraint(
            _dtype(ct, value.dtype), rank, index_dtype=ct.int64 if wide else ct.int32, stride_lower_bound_incl=0,
            alias_groups=(), may_alias_internally=False, stride_constant=[*[None] * (rank - 1), 1 if unit else None],
        )  # fmt: skip
    if isinstance(value, bool | np.bool_):
        return ScalarConstraint(ct.bool_)
    if isinstance(value, np.generic):
        return ScalarConstraint(_dtype(ct, value.dtype))
    if isinstance(value, int):
        wide = getattr(getattr(node, "scalar", None), "dtype", None) == ct.int64
        return ScalarConstraint(ct.int64 if wide else ct.int32)
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
