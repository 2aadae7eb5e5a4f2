"""Snapshots of a time loop in a file, appended along time as they come: NetCDF, or Zarr where it is installed.

All of them go through xarray's encoding by the CF conventions, the first as those behind it. What is returned reads the
file where it is looked at, and holds it open no longer than that, so a run that goes on can append to it.
"""

from __future__ import annotations

import importlib.util
import os
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import numpy as np

from lowering.distribution.meshes import on_host
from lowering.labelled import numbers, with_numbers
from lowering.loops.clock import RESOLUTIONS, UNITS
from lowering.loops.datasets import names_of, stacked_dataset
from lowering.loops.states import left
from tensorir.binding.arrays import PACKING
from tensorir.runtime.errors import refuse

# Stores of Zarr whose failures are told once.
#
# Chunks are written side by side. Zarr raises at the first one that finds no room, while others are still being
# written: they would come after what is done about the failure, each with a traceback of its own.


def to_zarr(dataset: Any, path: str | Path, **options: Any) -> None:
    """`dataset.to_zarr`; raises the first OSError after all pending writes have ended."""
    with store(path) as destination:
        dataset.to_zarr(destination, **options)


@contextmanager
def store(path: str | Path) -> Iterator[Any]:
    """A Zarr store to write to; raises the first OSError at the end of the context, when no write is pending any
    more.
    """
    from zarr.storage import LocalStore

    failures: list[OSError] = []

    class Store(LocalStore):
        async def set(self, key: str, value: Any) -> None:
            """Write a value, unless a write has failed; notes the failure."""
            if failures:
                return
            try:
                await super().set(key, value)
            except OSError as failure:
                failures.append(failure)

    try:
        yield Store(Path(path))
    except Exception:
        # what comes of a part that was not written is no news
        if not failures:
            raise
    if failures:
        raise failures[0]


LIBRARIES = {".nc": "netCDF4", ".zarr": "zarr"}
NUMBERS = frozenset({"bool", "float32", "float64", *(f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64))})
HELD = {".nc": NUMBERS, ".zarr": NUMBERS | {"float16", "complex64", "complex128"}}
"""The element types of each format."""
ENGINES = {".nc": "netcdf4", ".zarr": "zarr"}
SENT_TO_ONE = 2**30
"""Bytes of a snapshot that several processes send to one, which writes it to a file that is no store."""


class Snapshots:
    """A file with one entry per snapshot; nothing of it stays in memory."""

    def __init__(self, path: str | os.PathLike[str], resumed: bool, done: int = 0) -> None:
        """A file at `path`, which must exist if `done` steps are done and must not exist for a new run; raises A31.

        `resumed`: the run goes on, and appends. `done`: the steps of which the file has the snapshots already.
        """
        self.path, self.written = Path(path), resumed and Path(path).exists()
        if self.path.suffix not in LIBRARIES:
            raise refuse("A31", f"'{path}' ends in '{self.path.suffix}', and snapshots are .nc or .zarr.")
        library = LIBRARIES[self.path.suffix]
        if importlib.util.find_spec(library) is None:
            raise refuse("A31", f"'{path}' needs {library}, which is not installed.", f"pip install {library}.")
        if self.path.exists() and not resumed:
            raise refuse("A31", f"'{path}' is there already.", "remove it, or name another file.")
        if done and not self.path.exists():
            message = (
                f"the run goes on after {done:,} steps, and '{path}', which would have their snapshots, is not there"
            )
            raise refuse("A31", f"{message}.", "name the file of the run, or give it another checkpoint_dir.")
        if not self.path.parent.is_dir():
            raise refuse("A31", f"there is no folder '{self.path.parent}' to write '{self.path.name}' to.")

    def in_blocks(self, parts: Any, time: Any, units: str | None) -> tuple[Any, dict[str, Any]]:
        """A snapshot as a Dataset with a time axis of extent 1, and its distributed arrays, which stay in their
        blocks.

        `parts`: the snapshot as `Parts`. For a file that is no Zarr store all arrays are gathered to one process;
        raises A31 if they are too large.
        """
        distributed = [x for x in numbers(parts) if isinstance(x, jax.Array) and not x.is_fully_replicated]
        size = sum(x.nbytes for x in distributed)
        if self.path.suffix != ".zarr" and size > SENT_TO_ONE:
            message = f"a snapshot has {size / 2**30:.1f} GiB, which would go through one process to '{self.path}'"
            raise refuse("A31", f"{message}.", f"let each write its blocks: to='{self.path.with_suffix('.zarr')}'.")
        arrays = [on_host(x) if self.path.suffix != ".zarr" else x for x in numbers(parts)]
        while True:
            blank = [_template(x) for x in arrays]
            template = left(with_numbers(parts, blank))
            snapshot = stacked_dataset(template, [x[None] for x in blank], [time], units)
            named_arrays = zip(names_of(template), arrays, blank, strict=True)
            blocks = {n: x for n, x, placeholder in named_arrays if not placeholder.flags.writeable}
            if all(snapshot[n].shape[1:] == x.shape for n, x in blocks.items()):
                return snapshot, blocks
            arrays = [on_host(x) for x in arrays]  # labels that others do not have are filled in the whole array

    def fill(self, at: int, blocks: Mapping[str, Any]) -> None:
        """Write this process's blocks into entry number `at` of the store, which `write` has created."""
        import tensorstore

        try:
            writes: list[Any] = []
            for name, x in blocks.items():
                place = {"driver": "file", "path": f"{self.path / name}/"}
                array = tensorstore.open({"driver": "zarr", "kvstore": place}, open=True).result()
                stored_type = array.dtype.numpy_dtype
                shards = [(s.index, np.asarray(s.data)) for s in x.addressable_shards if s.replica_id == 0]
                writes += [array[(at, *index)].write(block.astype(stored_type)) for index, block in shards]
            for write in writes:
                write.result()
        except ValueError as problem:
            message = f"a snapshot cannot be written to '{self.path}': {reason(problem)}"
            raise refuse("A31", f"{message}.", "make room, or close it where it is open.") from None

    def write(self, at: int, snapshot: Any, blocks: Any = ()) -> None:
        """Write a snapshot as entry number `at`; arrays in `blocks` get their place only, for `fill`.

        The first call creates the file, later ones append or overwrite. Raises A31 for element types that the format
        lacks and for failures of the disk.
        """
        for name, variable in snapshot.data_vars.items():
            if variable.dtype.name not in HELD[self.path.suffix]:
                message = f"'{name}' is {variable.dtype}, which '{self.path}' cannot hold"
                raise refuse("A31", f"{message}.", "convert what is kept: keep=lambda s: ti.astype(s, ti.float32).")
        # numbers that were not unpacked have their packing as attributes, and it was made for those of the start
        attributes = {n: {k: a for k, a in v.attrs.items() if k not in PACKING} for n, v in snapshot.data_vars.items()}
        data = {n: _chunked_placeholder(blocks[n]) if n in blocks else v.values for n, v in snapshot.data_vars.items()}
        snapshot = snapshot.assign({n: (v.dims, data[n], attributes[n]) for n, v in snapshot.data_vars.items()})
        axis = next(iter(snapshot.data_vars.values())).dims[0]
        try:
            if self.path.suffix == ".zarr":
                self._to_zarr(at, snapshot, axis, blocks)
            elif self.written:
                self._to_netcdf(at, snapshot, axis)
            else:
                snapshot.to_netcdf(self.path, engine="netcdf4", unlimited_dims=[axis])
        except (OSError, RuntimeError) as problem:  # the NetCDF library has no error of its own for a full disk
            message = f"a snapshot cannot be written to '{self.path}': {reason(problem)}"
            raise refuse("A31", f"{message}.", "make room, or close it where it is open.") from None
        self.written = True

    def _to_netcdf(self, at: int, snapshot: Any, axis: str) -> None:
        """Write the variables along `axis` at entry number `at` of the NetCDF file."""
        import netCDF4
        from xarray.conventions import encode_cf_variable

        try:
            file = netCDF4.Dataset(self.path, "a")
        except OSError:
            held = f"'{self.path}' cannot be opened for the next snapshot: it is open elsewhere, or is no NetCDF"
            raise refuse("A31", f"{held}.", "close the Dataset, or end the program, that has it open.") from None
        with file:
            file.set_auto_maskandscale(False)
            for name, variable in snapshot.variables.items():
                if variable.dims[:1] == (axis,):
                    file[name][at : at + 1] = np.asarray(encode_cf_variable(variable, name=name).data)

    def _to_zarr(self, at: int, snapshot: Any, axis: str, blocks: Any) -> None:
        """Write a snapshot to the Zarr store: as a new store, at an existing entry number `at`, or appended along
        `axis`.
        """
        lazily: dict[str, Any] = {"compute": False, "safe_chunks": False} if blocks else {}
        if not self.written:
            # version 2 of the format: all that read Zarr read it, its metadata in one place too
            to_zarr(snapshot, self.path, mode="w", zarr_format=2, **lazily)
            return
        with _opened_file(self.path) as existing:
            is_overwritten = at < existing.sizes[axis]
        entry = snapshot.drop_vars([n for n, v in snapshot.variables.items() if axis not in v.dims or n in blocks])
        with _without_date_warnings():
            if is_overwritten:
                if entry.data_vars:
                    to_zarr(entry, self.path, region={axis: slice(at, at + 1)})
                self._write_labels(at, entry, axis)
            else:
                to_zarr(snapshot, self.path, append_dim=axis, **lazily)

    def _write_labels(self, at: int, entry: Any, axis: str) -> None:
        """Write the labels at entry number `at`, which xarray leaves out of a region."""
        import zarr
        from xarray.conventions import encode_cf_variable

        group = zarr.open_group(self.path, mode="r+")
        for name in entry.indexes:
            entries: Any = group[name]
            entries[at : at + 1] = np.asarray(encode_cf_variable(entry.variables[name], name=name).data)

    def opened(self) -> Any:
        """The file as a Dataset whose variables are read lazily, each read opening the file for itself."""
        import xarray as xr
        from xarray.core.indexing import LazilyIndexedArray

        with _opened_file(self.path) as file:
            entries: dict[str, Any] = {}
            for name, v in file.data_vars.items():
                lazy = LazilyIndexedArray(_lazy_entries(self.path, str(name), v.shape, v.dtype))
                entries[str(name)] = xr.Variable(v.dims, lazy, v.attrs)
            return _with_times(xr.Dataset(entries, file.coords, file.attrs).drop_encoding())


def _template(x: Any) -> np.ndarray[Any, Any]:
    """A NumPy array of x; for an array distributed over processes a read-only view with its shape and type."""
    if isinstance(x, jax.Array) and not x.is_fully_addressable and not x.is_fully_replicated:
        return np.broadcast_to(np.zeros((), x.dtype), x.shape)
    return on_host(x)


def _chunked_placeholder(x: Any) -> Any:
    """A lazy entry of zeros whose chunks are the blocks of x, so that no two processes write to one chunk."""
    import dask.array

    return dask.array.zeros((1, *x.shape), dtype=x.dtype, chunks=(1, *x.sharding.shard_shape(x.shape)))


def reason(problem: Exception) -> str:
    """The reason of a failed write in a few words: the operating system's error text, or the error's first line."""
    number = re.search(r"(?:os_error_code='|OS error )(\d+)", str(problem))
    words = os.strerror(int(number[1])) if number else getattr(problem, "strerror", None)
    return words or str(problem).splitlines()[0].rstrip(".")


def _with_times(file: Any) -> Any:
    """The dataset with the loop's time axis decoded to timedelta, if it was written as lengths."""
    for name in ("time", "elapsed"):
        attrs = file.coords[name].attrs if name in file.dims and name in file.coords else {}
        if str(attrs.get("dtype", "")).startswith("timedelta64"):
            size = UNITS[attrs["units"]]
            unit: Any = next(u for u, k in RESOLUTIONS.items() if k == size)
            values = file.coords[name].values
            in_ns = int(np.abs(values).max(initial=0)) * size < 2**63
            length = np.timedelta64(size, "ns") if in_ns else np.timedelta64(1, unit)
            return file.assign_coords({name: values * length})
    return file


def _opened_file(path: Path) -> Any:
    """The file as a lazy Dataset; lengths of time stay numbers, dates become NumPy's where these hold them."""
    import xarray as xr

    options: dict[str, Any] = {"engine": ENGINES[path.suffix], "decode_timedelta": False}
    with _without_date_warnings():
        file = xr.open_dataset(path, **options)
    dates = [v for v in file.coords.values() if v.encoding.get("calendar") == "proleptic_gregorian"]
    coders: Any = getattr(xr, "coders", None)
    if coders is None or all(v.dtype.kind != "O" for v in dates):
        return file
    file.close()
    return xr.open_dataset(path, decode_times=coders.CFDatetimeCoder(time_unit="us"), **options)


@contextmanager
def _without_date_warnings() -> Iterator[None]:
    """Without the warning of xarray that dates are none of nanoseconds."""
    import xarray as xr

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xr.SerializationWarning)
        yield


def _lazy_entries(path: Path, name: str, shape: tuple[int, ...], dtype: Any) -> Any:
    """An xarray backend array of one variable; each access opens the file, and reads the part that is indexed.

    `shape`: of the variable when opened; a file that has grown since is read up to that only.
    """
    from xarray.backends import BackendArray
    from xarray.core import indexing

    class Entries(BackendArray):
        def __init__(self) -> None:
            self.shape, self.dtype = shape, dtype

        def __getitem__(self, key: Any) -> Any:
            return indexing.explicit_indexing_adapter(key, shape, indexing.IndexingSupport.OUTER, self.part)

        def part(self, key: Any) -> Any:
            """The values at an index, from the file as it is now."""
            with _opened_file(path) as file:
                variable = file.variables[name]
                # there may be more of them by now
                return variable.isel({d: slice(0, n) for d, n in zip(variable.dims, shape, strict=True)})[key].values

        def __reduce__(self) -> Any:
            return _lazy_entries, (path, name, shape, dtype)

    return Entries()
