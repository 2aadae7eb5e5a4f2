"""Programs of GT4Py, found by the name of their module: `tensorir lift --from gt4py module:program`, `tensorir run`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import tensorir as ti
from stencils.cli.files import check_target, together, write_arrays
from stencils.cli.inputs import arrays_of, named_by
from stencils.cli.modules import module_of, named_object
from stencils.cli.options import only_known, pairs
from tensorir.ir.types import BOOL, DTYPES
from tensorir.iterator.nodes import FieldType
from tensorir.runtime.errors import refuse


def run(
    program: Path, inputs: tuple[str, ...], out: Path | None, settings: tuple[str, ...], say: Callable[[str], None]
) -> None:
    """Run a program or operator of GT4Py on arrays of files: fields by parameters' names, tables by offsets' names.

    A parameter that is only stored need not be in a file where the other fields tell its dims: then it begins as zero.
    """
    check_target(out, (".nc", ".npz"))
    source = named_object(str(program))
    function = ti.as_jax(source)
    params = {p.name: p.type for p in function.params}
    module = vars(module_of(str(program)))
    offsets = {
        n: o for n, o in module.items() if hasattr(o, "source") and isinstance(getattr(o, "target", None), tuple)
    }
    arrays = arrays_of(inputs, named_by(inputs, settings), function.program.name, [*params, *offsets])
    numbers = pairs(settings, "value", "dt=0.1")
    only_known(numbers, params, function.program.name, "parameter")
    for name, text in numbers.items():
        arrays[name] = _read_number(name, text, params[name])
    tables = {n: _read_table(module[n], arrays.pop(n)) for n in offsets if n in arrays}
    if tables:
        function = ti.as_jax(source, offset_provider=tables)
    results = function(**arrays, **_fill_outputs(function, params, arrays))
    outcome = results if isinstance(results, dict) else {"out": results}
    with together() as write:
        if out is not None:
            write_arrays(out, outcome, {"history": f"tensorir run {program}"}, write)
    for name, value in outcome.items():
        for array in value if isinstance(value, tuple) else (value,):
            names = getattr(array, "dims", ("",) * array.ndim)
            shape = " × ".join(f"{d} {n}".strip() for d, n in zip(names, array.shape, strict=True))
            say(f"{name}: {shape}, {array.dtype}, {float(array.min()):.6g} to {float(array.max()):.6g}")
    if out is not None:
        say(f"written to {out}")


def _read_number(name: str, text: str, kind: Any) -> Any:
    """The number that `--set name=text` gives to a parameter of type `kind`; raises C04 where it cannot hold it."""
    if not isinstance(kind, FieldType) or kind.dims:
        raise refuse("C04", f"'{name}' is a field, which --set cannot give.", "put it into a file.")
    dtype = DTYPES[kind.element]
    try:
        # bool("no") is True
        return {"true": True, "false": False}[text.lower()] if kind.element == BOOL else dtype.type(text)
    except (ValueError, KeyError, OverflowError):
        raise refuse("C04", f"'{text}' is not {kind.element}, which '{name}' is.", f"write --set {name}=1.") from None


def _fill_outputs(function: Any, params: Mapping[str, Any], arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Zeros for what is stored and not given, on dims of which all fields that are given have one size."""
    import xarray

    stored = {str(getattr(s.target, "name", "")) for s in function.program.body if hasattr(s, "target")}
    extents: dict[Any, set[int]] = {}
    for array in arrays.values():
        for d, n in getattr(array, "sizes", {}).items():
            extents.setdefault(d, set()).add(n)
    sizes = {d: min(n) for d, n in extents.items() if len(n) == 1}
    begun: dict[str, Any] = {}
    for name in stored & params.keys() - arrays.keys():
        kind = params[name]
        if isinstance(kind, FieldType) and all(a.name in sizes for a in kind.dims):
            dims = [a.name for a in kind.dims]
            begun[name] = xarray.DataArray(np.zeros([sizes[d] for d in dims], DTYPES[kind.element]), dims=dims)
    return begun


def _read_table(offset: Any, array: Any) -> Any:
    """A neighbour table of a file, -1 for no neighbour, with the dims that its offset in the module has."""
    from tensorir.iterator.lift.graph import Table

    *domain, local = (str(d.value) for d in offset.target)
    entries = np.asarray(array).astype(np.int32)
    here = (0,) * len(domain)
    holes = bool((entries < 0).any())
    return Table(str(offset.value), tuple(domain), local, str(offset.source.value), entries, here, holes)


def lift(where: str, settings: tuple[str, ...], report: bool, say: Callable[[str], None]) -> None:
    """Print a program of GT4Py as a pure tensor program."""
    sizes = {name: _read_size(name, text) for name, text in pairs(settings, "size", "K=65").items()}
    lifted = ti.lift(ti.iterator.from_gt4py(named_object(where), sizes=sizes))
    say(str(lifted))
    if report:
        say(f"\n{lifted.report}")


def _read_size(name: str, text: str) -> int | tuple[int, int]:
    """The extent of a dim, `65`, or its interval, `-1:66`."""
    try:
        first, colon, second = text.partition(":")
        return (int(first), int(second)) if colon else int(first)
    except ValueError:
        raise refuse("C04", f"the size '{name}' is {text}.", "write K=65, or K=0:65.") from None
