"""Snapshots of a time loop in a file, appended along time as they come: NetCDF, or Zarr where it is installed."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

from tensorir.arrays import refuse

__all__ = ["Snapshots"]

LIBRARIES = {".nc": "netCDF4", ".zarr": "zarr"}


class Snapshots:
    """A file with one entry per snapshot; nothing of it stays in memory."""

    def __init__(self, path: str | os.PathLike[str], resumed: bool) -> None:
        self.path, self.written = Path(path), resumed and Path(path).exists()
        if self.path.suffix not in LIBRARIES:
            raise refuse("A31", f"'{path}' ends in '{self.path.suffix}', and snapshots are .nc or .zarr.")
        library = LIBRARIES[self.path.suffix]
        if importlib.util.find_spec(library) is None:
            raise refuse("A31", f"'{path}' needs {library}, which is not installed.", f"pip install {library}.")
        if self.path.exists() and not resumed:
            raise refuse("A31", f"'{path}' is there already.", "remove it, or name another file.")
        if not self.path.parent.is_dir():
            raise refuse("A31", f"there is no folder '{self.path.parent}' to write '{self.path.name}' to.")

    def write(self, at: int, snapshot: Any) -> None:
        """A Dataset along a `time` of one, as the entry at a place."""
        try:
            if self.path.suffix == ".zarr":
                self._to_zarr(at, snapshot)
            elif self.written:
                self._to_netcdf(at, snapshot)
            else:
                snapshot.to_netcdf(self.path, engine="netcdf4", unlimited_dims=["time"])
        except (OSError, RuntimeError) as problem:  # the NetCDF library has no error of its own for a full disk
            why = getattr(problem, "strerror", None) or str(problem).splitlines()[0]
            told = f"a snapshot cannot be written to '{self.path}': {why}"
            raise refuse("A31", f"{told}.", "make room, or close it where it is open.") from None
        self.written = True

    def _to_netcdf(self, at: int, snapshot: Any) -> None:
        import netCDF4

        with netCDF4.Dataset(self.path, "a") as file:
            for name, variable in snapshot.variables.items():
                if variable.dims[:1] == ("time",):
                    file[name][at : at + 1] = variable.values

    def _to_zarr(self, at: int, snapshot: Any) -> None:
        import xarray as xr

        if not self.written:
            # version 2 of the format: all that read Zarr read it, its metadata in one place too
            snapshot.to_zarr(self.path, mode="w", zarr_format=2)
            return
        with xr.open_zarr(self.path) as there:
            known = at < there.sizes["time"]
        along = snapshot.drop_vars([n for n, v in snapshot.variables.items() if "time" not in v.dims])
        if known:
            along.to_zarr(self.path, region={"time": slice(at, at + 1)})
        else:
            snapshot.to_zarr(self.path, append_dim="time")

    def opened(self) -> Any:
        """The file as a Dataset that is read where it is looked at."""
        import xarray as xr

        return xr.open_zarr(self.path) if self.path.suffix == ".zarr" else xr.open_dataset(self.path, engine="netcdf4")
