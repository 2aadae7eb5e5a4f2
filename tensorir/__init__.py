"""A typed, functional tensor IR with named dimensions and integer intervals, run by XLA.

`import tensorir as ti` is all that a user needs. It imports neither NumPy nor JAX: names are found when they are used.
At the top stands what a notebook, a function under `jax.jit` and a script in GT4Py's style write in their lines:
operators and their mathematics, fields, dims and element types, and what runs, differentiates, repeats and distributes
programs. Boundary conditions, passes, settings of the process and each language that is lifted are a module of their
own: `ti.boundary`, `ti.passes`, `ti.config`, `ti.tir`. Editors and type checkers read `__init__.pyi`, which has the
same names.
"""

# pyright: reportUnsupportedDunderAll=false
# (`__getattr__` finds them)

from __future__ import annotations

import importlib
import operator
import os
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from tensorir.runtime.assembly import when_imported

__version__ = "0.1.0"

_MODULES = {
    **{name: name for name in ("config", "inspect", "iterator", "passes", "reference", "tenstorrent", "tile", "tir")},
    "boundary": "fieldview.boundary",
    "build": "ir.build",
    "tt": "tenstorrent",
}
_HOMES = {
    "backends": ("compile",),
    "binding.labels": ("drop_indexes",),
    "ir.build": ("fencil",),
    "ir.dimensions": ("Dimension", "dims"),
    "distribution.partition": ("partition",),
    "equality.comparison": ("equivalent",),
    "runtime.errors": ("Diagnostic", "DiagnosticError", "Interrupted"),
    "fieldview": (
        "FieldOffset", "as_offset", "astype", "broadcast", "concat_where", "coord", "field_operator", "max_over",
        "min_over", "neighbor_sum", "program", "scan_operator", "where",
    ),
    "fieldview.blocks": ("map_blocks",),
    "fieldview.folds": ("all", "any", "max", "mean", "min", "sum"),
    "fieldview.boundary": ("extend", "with_boundary"),
    "ir.nodes": ("Fencil",),
    "iterator.as_jax": ("as_jax",),
    "lifting": ("lift",),
    "ir.staggering": ("c_grid", "staggered"),
    "text": ("parse",),
    "ir.types": ("Interval", "TensorType", "tensor"),
}  # fmt: skip
"""What each module has of the public names."""
_ROWS = {
    "fieldview.MATHEMATICS": (
        "abs", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "can_deref", "cbrt", "ceil",
        "clz", "cos", "cosh", "erf", "erfc", "exp", "exp2", "expm1", "floor", "floordiv", "fmod", "isfinite", "isinf",
        "isnan", "lgamma", "log", "log10", "log1p", "log2", "maximum", "minimum", "popcount", "power", "radians",
        "round", "rsqrt", "sign", "sin", "sinh", "sqrt", "tan", "tanh", "trunc", "xor",
    ),
    "ir.types.SCALARS": (
        "bfloat16", "bool", "float16", "float32", "float64", "float8_e4m3", "float8_e4m3fn", "float8_e5m2", "int16",
        "int32", "int64", "int8", "uint16", "uint32", "uint64", "uint8",
    ),
}  # fmt: skip
"""The same of dicts in modules."""
_BACKEND = {
    "exported": ("load",),
    "fields": ("Field", "as_field", "full", "ones", "zeros"),
    "transformations": ("grad", "jit", "value_and_grad"),
}
"""The same of the parts of the backend."""
_PLACES = {
    **{name: ("module", module) for name, module in _MODULES.items()},
    **{name: ("name", module) for module, names in _HOMES.items() for name in names},
    **{name: ("row", table) for table, names in _ROWS.items() for name in names},
    **{name: ("backend", part) for part, names in _BACKEND.items() for name in names},
}
"""Where each public name is, by what has it; others stand below."""
__all__ = sorted([*_PLACES, "__version__", "distribute", "iterate", "loop_plan"])
_RENAMED = {
    **{name: f"config.{name}" for name in ("caches", "compiler_options", "keep_compilations", "kept_memory")},
    **{name: f"passes.{name}" for name in ("DEFAULT_PASSES", "Pipeline", "explain", "restrict")},
    **{name: f"boundary.{name}" for name in ("dirichlet", "neumann", "periodic")},
    "from_xarray": "as_field",
    "linear": "boundary.extrapolate",
    "positional": "drop_indexes",
}
"""Names of before, each with the one that it has now; they go with release 0.3."""


def __getattr__(name: str) -> Any:
    if name in _RENAMED:
        message = f"ti.{name} is ti.{_RENAMED[name]} now, and the old name goes with release 0.3."
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return operator.attrgetter(_RENAMED[name])(sys.modules[__name__])
    if name not in _PLACES:
        raise AttributeError(f"module 'tensorir' has no attribute {name!r}")
    # not kept among the globals: `bool` and `round` are Python's in this file
    kind, place = _PLACES[name]
    match kind:
        case "module":
            return importlib.import_module(f"tensorir.{place}")
        case "name":
            return getattr(importlib.import_module(f"tensorir.{place}"), name)
        case "row":
            module, _, table = place.rpartition(".")
            return getattr(importlib.import_module(f"tensorir.{module}"), table)[name]
        case _:
            from tensorir.backends import backend

            return getattr(getattr(backend("jax"), place)(), name)


def iterate(
    step: Callable[..., Any],
    state: Any,
    n: int,
    *,
    forcing: Any = None,
    forcing_method: str = "linear",
    every: Any = None,
    callback: Callable[[int, Any], object] | None = None,
    keep: Callable[[Any], Any] | bool = False,
    dt: Any = 1,
    start: Any = None,
    checkpoint: bool | int = True,
    progress: bool | None = None,
    to: str | os.PathLike[str] | None = None,
    checkpoint_dir: str | os.PathLike[str] | None = None,
    checkpoint_every: Any = "5 s",
    on_interrupt: str = "raise",
) -> Any:
    """The state after n steps, which run inside XLA, with the labels that it had.

    With `keep` the result is a pair: the state, and what was kept, along a dim `time`.

    Arguments:
        step: function of a state (and of a record of the forcing) that returns the next state in the same structure,
            with its dims, labels and units. DataArrays and Datasets in it are xarray's own, around tracers.
        state: any pytree of arrays, Fields, DataArrays and Datasets.
        n: int, the number of steps.
        forcing: DataArrays or Datasets along `time`, None by default. A step gets a record, without `time`: the value
            at the time at which the step begins, which for the k-th is `start + k * dt`.
        forcing_method: "linear" (default) between two times of the forcing, or "held" from each to the next.
        every: the number of steps between snapshots and between calls of `callback`, by default for 50 of them; or a
            length ("1 D"), a frequency ("MS"), or the dates or numbers of steps at which they are due.
        callback: function of the number of steps that are done and of the state.
        keep: True for snapshots of the state, or a function of it that gives what is kept; False by default.
        dt: the length of a step: a number (default 1), a timedelta, or a text with a unit, "90 s".
        start: the date of the first state, "2026-01-01T06:00", of NumPy or of cftime; by default the `time` of
            the state if it has one. It needs a `dt` with a unit.
        checkpoint: what gradients keep of the steps. True (default): about 2 √n states; an int k: k n^(1/k) or so, and
            k - 1 further computations of each step; False: all that n steps need.
        progress: True or False for a bar always or never; by default on terminals if the run takes a while.
        to: path of a new .nc or .zarr file, which snapshots are written to as they come and not held in memory.
        checkpoint_dir: path of a folder from which the same call goes on after the process was killed, to the
            same bits, on any number of processes and devices. Two checkpoints are kept in it.
        checkpoint_every: the number of steps between two checkpoints, or the time that they take ("10 min"); "5 s" by
            default. They are written next to the steps.
        on_interrupt: "raise" (default) for `ti.Interrupted`, which has the state, at Ctrl-C and SIGTERM; or "return".

    Raises A19 for options of another kind, A20 for a step that returns another structure, other types, labels or
    units, A30 and A31 for files, A42 and A44 for times and dates, A46 for a forcing whose times do not hold those of
    the steps, and V43 for a step that needs numbers which nobody knows yet.

    >>> import numpy as np
    >>> import xarray as xr
    >>> iterate(lambda x: 0.5 * x, np.ones(2), 3)
    array([0.125, 0.125])
    >>> rain = xr.DataArray([0.0, 2.0], dims="time", coords={"time": [0.0, 4.0]})
    >>> iterate(lambda h, r: h + r, xr.DataArray(10.0), 4, forcing=rain).item()      # 0.0 + 0.5 + 1.0 + 1.5
    13.0
    """
    from tensorir.backends import backend

    return backend("jax").iterate(
        step, state, n, forcing=forcing, forcing_method=forcing_method, every=every, callback=callback, keep=keep,
        dt=dt, start=start, checkpoint=checkpoint, progress=progress, to=to, checkpoint_dir=checkpoint_dir,
        checkpoint_every=checkpoint_every, on_interrupt=on_interrupt,
    )  # fmt: skip


def distribute(program: Any, mesh: Any, dims: Mapping[Any, str], *, partition: Any = None, **options: Any) -> Any:
    """A program, or a field operator, on the devices of a mesh: called as it is, and of the same results.

    `mesh` is a `jax.sharding.Mesh`, `dims` says along which of its axes a dim is distributed; dims that are not named
    lie whole on every device. Blocks are of one size, but for the last ones; what a block needs of others is known from
    the types, and sent before it computes: `d.plan()` says what. Dims of which one is renamed to the other, as points
    and the faces between them, go along one axis. DataArrays in files, or of dask, are read by block. Dims of an
    unstructured mesh go along one axis together, dealt out by a `partition`, which is what `ti.partition` makes, or a
    dict of the owners of points by dim; what a device needs is known from the tables then. `options` are those of
    `ti.compile`, and `halo_steps`, how many steps of `ti.iterate` one exchange is for, which compute in their halos
    what they would send.

    Raises D01 for an axis that the mesh lacks, D02 for a dim that the program lacks, D03 where there are more devices
    than points, D04 for what the blocks cannot compute by themselves, D05 for an axis with two dims of a tensor, D06
    for what is no mesh, D09 for steps that cannot be taken together; D10, D11, D13, D14 and D17 for a partition that is
    none of this mesh and program, D15 for a table that is not known yet.

    >>> import jax
    >>> import tensorir as ti
    >>> f = ti.parse("f(y: tensor<float, I[1:n]>, x: tensor<float, I[0:n]>) { y ← x - ⟪I, -1⟫(x); }")
    >>> d = distribute(f, jax.make_mesh((1,), ("px",)), {"I": "px"})
    >>> import numpy as np
    >>> d(x=np.array([1.0, 4.0, 9.0]))["y"]
    array([3., 5.])
    """
    from tensorir.backends import backend

    return backend("jax").distribute(program, mesh, dims, partition=partition, **options)


def loop_plan(step: Callable[..., Any], state: Any, /, *record: Any) -> Any:
    """Kernels that the steps of `ti.iterate` are here, and what of a step is left to XLA; it prints as lines.

    The step is traced on the state, and on a record of the forcing if it takes one, and nothing is computed.

    >>> import numpy as np
    >>> loop_plan(lambda h: 0.5 * h, np.ones(3)).regions is None      # XLA's
    True
    """
    from tensorir.backends import backend

    return backend("jax").loop_plan(step, state, *record)


def __dir__() -> list[str]:
    return list(__all__)


# thresholds of the allocator, before threads of XLA start
importlib.import_module("tensorir.runtime.memory")
# the accessor da.tensorir, which needs xarray
when_imported("xarray", lambda: importlib.import_module("tensorir.xarray"))
