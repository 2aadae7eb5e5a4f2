"""Arrays from and to files and pipes: NetCDF, Zarr and npz, written whole or not at all.

Which dims of files are which dims of a program: as `--rename` says, or as the attributes of coordinates say.

A program's I, J, K or X, Y, Z, T that an array lacks is the array's axis X, Y, Z, T by the CF conventions (`axis`,
`standard_name`, units of degrees; dates are T), where exactly one dim that the program does not know is that axis.
Results have the names of the files again.

>>> import numpy as np
>>> import xarray as xr
>>> north = {"lat": ("lat", [50.0, 51.0], {"units": "degrees_north"})}
>>> names = Names.of({"h": ("J", "time")}, {"h": xr.DataArray(np.ones((2, 3)), dims=("lat", "time"), coords=north)}, ())
>>> names.pairs, names.sentences
({'lat': 'J'}, ('lat is J: it is the axis Y by its attributes.',))
"""

from __future__ import annotations

import atexit
import difflib
import os
import secrets
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from stencils.cli.terminal import needed
from tensorir.binding.arrays import kind_of
from tensorir.runtime.errors import did_you_mean, refuse

AXES = {"I": "X", "J": "Y", "K": "Z", "X": "X", "Y": "Y", "Z": "Z", "T": "T"}
"""The axes of a program's dims."""
COORDINATES = {"X": "longitude", "Y": "latitude", "Z": "vertical", "T": "time"}
"""The CF coordinate that stands for each axis without an attribute `axis`."""


@dataclass(frozen=True, slots=True)
class Names:
    """The renaming of dims of files to dims of a program: {file dim: program dim}."""

    pairs: Mapping[str, str]
    sentences: tuple[str, ...] = ()
    """A sentence for the user on each pair that attributes of coordinates decided."""

    @staticmethod
    def of(dims: Mapping[str, Sequence[str]], arrays: Mapping[str, Any], options: Sequence[str]) -> Names:
        """The renaming for the dims of each parameter, the arrays by parameter, and `options` such as "lat=J".

        Raises C13 for options that say nothing, C14 for a dim that no dim of an array is.
        """
        known = list(dict.fromkeys(d for names in dims.values() for d in names))
        labelled = {n: v for n, v in arrays.items() if kind_of(v) == "xarray" and n in dims}
        pairs = _read_renames(options, known, labelled)
        sentences: list[str] = []
        for name, array in labelled.items():
            have = [pairs.get(str(d), str(d)) for d in array.dims]
            for dim in [d for d in dims[name] if d not in have]:
                free = [str(d) for d in array.dims if str(d) not in known and str(d) not in pairs]
                axis = AXES.get(dim.upper())
                alike = [d for d in free if axis in _axes_of(array, d)] if axis else []
                if len(alike) != 1:
                    have = " and ".join(map(str, array.dims)) or "none"
                    message = f"'{name}' needs the dim {dim}, and the dims of its array are {have}."
                    hint = f"say which it is: --rename {free[0]}={dim}." if free else "give an array that has it."
                    raise refuse("C14", message, hint)
                pairs[alike[0]] = dim
                sentences.append(f"{alike[0]} is {dim}: it is the axis {axis} by its attributes.")
        return Names(pairs, tuple(sentences))

    def inside(self, array: Any) -> Any:
        """An array with the program's names of dims."""
        names = {d: n for d, n in self.pairs.items() if d in getattr(array, "dims", ())}
        return array.rename(names) if names else array

    def outside(self, result: Any) -> Any:
        """A result, or each member of a tuple, with the files' names of dims."""
        if isinstance(result, tuple):
            return tuple(self.outside(member) for member in result)
        back: dict[str, str] = {}
        for dim, name in self.pairs.items():
            if name in getattr(result, "dims", ()) and name not in back:
                back[name] = dim
        return result.rename(back) if back else result


def _read_renames(options: Sequence[str], known: Sequence[str], arrays: Mapping[str, Any]) -> dict[str, str]:
    """The pairs {file dim: program dim} of --rename; `known` are the program's dims. Raises C13 for wrong names."""
    have = list(dict.fromkeys(str(d) for a in arrays.values() for d in a.dims))
    pairs: dict[str, str] = {}
    for text in options:
        dim, _, name = text.partition("=")
        if not dim or not name:
            raise refuse("C13", f"'--rename {text}' does not say which dim is which.", "write --rename latitude=J.")
        if name not in known:
            raise refuse("C13", f"the program has no dim '{name}'.", did_you_mean(name, known))
        if dim not in have:
            raise refuse("C13", f"no input has a dim '{dim}'.", did_you_mean(dim, have))
        if dim in pairs:
            raise refuse("C13", f"'--rename {dim}=' is given twice.", "leave one out.")
        pairs[dim] = name
    return pairs


def _axes_of(array: Any, dim: str) -> set[str]:
    """The CF axes (X, Y, Z, T) of a dim, from the attributes of the coordinates along it; dates are T."""
    needed("cf_xarray", "cli", "axes by their attributes")
    import cf_xarray  # noqa: F401  # puts `cf` on arrays

    along = {str(n) for n, c in array.coords.items() if c.dims == (dim,)}
    axes = {a for a, n in COORDINATES.items() if along & {*array.cf.axes.get(a, ()), *array.cf.coordinates.get(n, ())}}
    if any(array.coords[n].dtype.kind == "M" for n in along):
        axes.add("T")
    return axes


# Arrays through pipes: `--input -` takes what standard input holds, `--out -` writes NetCDF to standard output.

STANDARD = Path("-")
"""Standard input, or output, in place of a file."""
BEGINNINGS = {b"PK\x03\x04": ".npz", b"CDF": ".nc", b"\x89HDF": ".nc"}
"""The suffix for the first bytes of a file."""


def arrived() -> Path:
    """A temporary file with the bytes of standard input, read once; raises F02 if they are neither NetCDF nor npz."""
    return _arrived(sys.stdin)


@lru_cache(1)
def _arrived(stream: Any) -> Path:
    """`arrived` of a stream; cached, since a stream is read once. The file is removed at exit."""
    held: bytes = stream.buffer.read()
    suffix = next((s for start, s in BEGINNINGS.items() if held.startswith(start)), None)
    if suffix is None:
        message = "standard input holds nothing" if not held else "what standard input holds is neither NetCDF nor npz"
        raise refuse("F02", f"{message}.", "pipe a file of arrays to it: tensorir run ... --input - < x.nc.")
    folder = tempfile.mkdtemp(prefix="tensorir")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder, f"input{suffix}")
    path.write_bytes(held)
    return path


@contextmanager
def leaving(out: Path) -> Iterator[Path]:
    """The path to write to: `out`, or for - a temporary file, copied to standard output at the end."""
    if out != STANDARD:
        yield out
        return
    with tempfile.TemporaryDirectory(prefix="tensorir") as folder:
        place = Path(folder, "output.nc")
        yield place
        sys.stdout.buffer.write(place.read_bytes())
        sys.stdout.buffer.flush()


# Arrays from and to files: NetCDF (3 and 4), Zarr and npz, written whole or not at all.

ARRAYS = (".nc", ".zarr", ".npz")
"""The suffixes of files that results are written to."""
DATA = (*ARRAYS, ".nc4", ".cdf", ".h5")
"""The suffixes of files that arrays are read from."""
MEANING = ("dtype", "scale_factor", "add_offset", "_FillValue", "units", "calendar")
"""The items of an encoding that determine the values, in every format."""


def read_arrays(path: Path) -> dict[str, Any]:
    """The variables of a file (- is standard input) by name: DataArrays of NetCDF and Zarr, NumPy arrays of npz.

    Raises F02 for damaged files, F03 for other formats.
    """
    path = arrived() if path == STANDARD else path
    check_source(path)
    match path.suffix:
        case ".npz":
            try:
                with path.open("rb") as file, np.load(file, allow_pickle=False) as data:
                    return {name: data[name] for name in data.files}
            except zipfile.BadZipFile:
                hint = "write it again, with numpy.savez."
                raise refuse("F02", f"the file '{path}' is damaged: it begins as npz, and is none.", hint) from None
            except (ValueError, OSError, EOFError) as problem:
                raise refuse("F02", f"'{path}' is not an npz file of arrays: {problem}.") from None
        case suffix if suffix in DATA:
            with _opened(path) as data:
                loaded = data.load()
            return {str(name): loaded[name] for name in loaded.data_vars}
        case suffix:
            message = f"'{path}' ends in '{suffix}', which is no format of arrays."
            raise refuse("F03", message, f"use {', '.join(ARRAYS)}.")


def open_arrays(path: Path) -> dict[str, Any]:
    """The variables of a NetCDF file or a Zarr store by name, loaded lazily; raises F03 for other formats."""
    check_source(path)
    if path.suffix not in DATA or path.suffix == ".npz":
        hint = "give a Zarr store, or NetCDF."
        raise refuse("F03", f"'{path}' ends in '{path.suffix}', and it is read in parts.", hint)
    with _opened(path, keep=True) as data:
        arrays = {str(name): data[name] for name in data.data_vars}
    for array in arrays.values():
        array.encoding["source"] = str(path)  # which those of Zarr do not say
    return arrays


def opened_or_read(path: Path) -> dict[str, Any]:
    """The variables of a file by name, lazily from NetCDF and Zarr, at once from npz."""
    return open_arrays(path) if path.suffix in DATA and path.suffix != ".npz" else read_arrays(path)


@contextmanager
def _opened(path: Path, keep: bool = False) -> Iterator[Any]:
    """A file as a Dataset, closed after the `with` block unless `keep`; timedeltas stay numbers. Raises F02."""
    kind = "Zarr" if path.suffix == ".zarr" else "NetCDF"
    _needed(path)
    import xarray as xr

    try:
        options: dict[str, Any] = {"engine": "zarr", "consolidated": False} if kind == "Zarr" else {"engine": "netcdf4"}
        data = xr.open_dataset(path, decode_timedelta=False, cache=not keep, **options)
        try:
            yield data
        finally:
            if not keep:
                data.close()
    except (ValueError, OSError, TypeError, KeyError, RuntimeError) as problem:
        why = (str(problem).splitlines() or ["it is none"])[0]
        raise refuse("F02", f"'{path}' cannot be read as {kind}: {why}.") from None


def _needed(path: Path) -> None:
    """Raise unless the library for the kind of file is installed: Zarr, else NetCDF."""
    if path.suffix == ".zarr":
        needed("zarr", "zarr", "stores of Zarr")
    else:
        needed("netCDF4", "cli", "files in NetCDF")


def attributes_of(path: Path) -> dict[str, Any]:
    """The global attributes of a file (title, conventions, history); none of npz."""
    path = arrived() if path == STANDARD else path
    if path.suffix == ".npz":
        return {}
    with _opened(path) as data:
        return dict(data.attrs)


def check_source(path: Path) -> None:
    """Raise F01 for a folder, or a file that does not exist, with a similar name in its folder as hint."""
    if path.is_dir() and path.suffix != ".zarr":
        raise refuse("F01", f"'{path}' is a folder.", "name a file in it.")
    if not path.exists():
        known = [p.name for p in path.parent.iterdir()][:1000] if path.parent.is_dir() else []
        near = difflib.get_close_matches(path.name, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "look at its name, and at the folder where it is looked for."
        raise refuse("F01", f"there is no file '{path}'.", hint)


def write_arrays(
    path: Path, results: Mapping[str, Any], attrs: Mapping[str, Any],
    write: Callable[[Path, Callable[[str], object]], None], axes: Mapping[str, Sequence[str]] | None = None,
) -> None:  # fmt: skip
    """Write results by name to a file with global `attrs`; `write` is that of `together`.

    Tuples are written member by member, as name_0, name_1. `axes` has the names of the dims of bare arrays by result.
    Raises F06 for a name with a slash.
    """
    flat = dict(_flatten(results))
    for name in flat:
        if "/" in name:
            hint = "name the output without a slash."
            raise refuse("F06", f"'{name}' is a name that no variable of a file has: '/' parts groups.", hint)
    if path.suffix == ".npz":
        write(path, lambda to: _write_npz(to, flat))
        return
    _needed(path)
    import xarray as xr

    named = {n: _label(n, v, (axes or {}).get(n)) for n, v in flat.items()}
    dataset = xr.Dataset(apart(named), attrs=dict(attrs))
    if path.suffix == ".zarr":
        for variable in dataset.variables.values():
            # how another format, or another version of this one, stores bytes is not for this one
            variable.encoding = {k: e for k, e in variable.encoding.items() if k in MEANING}
        # version 2 of the format: all that read Zarr read it, its metadata in one place too
        from lowering.loops.snapshots import to_zarr  # JAX takes two seconds, which `--help` has not

        write(path, lambda to: to_zarr(dataset, to, mode="w", zarr_format=2))
    else:
        write(path, lambda to: dataset.to_netcdf(to, engine="netcdf4"))


def _write_npz(path: str, arrays: Mapping[str, Any]) -> None:
    """Write arrays as `numpy.savez` does, also under names that are its options (`file`)."""
    with zipfile.ZipFile(path, "w", allowZip64=True) as archive:
        for name, value in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.asarray(value), allow_pickle=False)


def _label(name: str, value: Any, axes: Sequence[str] | None) -> Any:
    """A result as a DataArray; a bare array has `axes` as its last dims, and `step` or "name_k" as those before."""
    import xarray as xr

    if hasattr(value, "dims"):
        return value.rename(name)
    array = np.asarray(value)
    further = array.ndim - len(axes or ())
    dims = [
        *(["step"] if further == 1 and axes is not None else [f"{name}_{k}" for k in range(further)]),
        *(axes or ()),
    ]
    return xr.DataArray(array, dims=dims, name=name)


def apart(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Variables for one Dataset: a dim whose labels differ between them becomes a dim of each, `I_out`."""
    renamed = dict(arrays)
    for dim in {d: None for a in arrays.values() for d in a.dims}:
        having = [a for a in arrays.values() if dim in a.dims]
        if all(a[dim].equals(having[0][dim]) for a in having):
            continue
        for name, array in renamed.items():
            if dim in array.dims:
                coordinates = {c: f"{c}_{name}" for c, v in array.coords.items() if dim in v.dims}
                renamed[name] = array.rename({**coordinates, dim: f"{dim}_{name}"})
    return renamed


def _flatten(results: Mapping[str, Any]) -> Any:
    """(name, array) of all results, members of tuples as "x_0", "x_0_1"."""
    for name, value in results.items():
        if isinstance(value, tuple):
            yield from _flatten({f"{name}_{k}": v for k, v in enumerate(value)})
        else:
            yield name, value


@dataclass(frozen=True, slots=True)
class Staged:
    """A complete temporary file or store, in the folder of its final path."""

    temporary: Path
    path: Path

    def put(self) -> None:
        """Move it to its path, replacing an existing file; an existing store is moved aside first and removed after."""
        if self.temporary.is_dir() and self.path.exists():
            aside = self.temporary.with_suffix(".old")
            os.rename(self.path, aside)
            os.rename(self.temporary, self.path)
            _remove(aside)
        else:
            os.replace(self.temporary, self.path)


@contextmanager
def together() -> Iterator[Callable[[Path, Callable[[str], object]], None]]:
    """Files and stores that appear in their places once all of them are written; if anything fails, none does.

    A link is followed: what it leads to is replaced, and the link stays. Who may read a file is as the process's umask
    has it, or as it was for the file that is replaced.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with together() as write:
    ...         write(Path(folder, "a.txt"), lambda to: Path(to).write_text("a"))
    ...         there = Path(folder, "a.txt").exists()
    ...     there, Path(folder, "a.txt").read_text()
    (False, 'a')
    """
    staged: list[Staged] = []

    def write(path: Path, make: Callable[[str], object]) -> None:
        """Make a file by `make(name)` beside its place, where it is put at the end of the block; raises F04 where it
        cannot be written.
        """
        place = Path(os.path.realpath(path))
        try:
            temporary = _create_beside(place)
        except OSError as problem:
            raise refuse("F04", f"'{path}' cannot be written: {problem.strerror}.", "choose another folder.") from None
        staged.append(Staged(temporary, place))
        try:
            make(str(temporary))
        except (OSError, RuntimeError) as problem:  # the NetCDF library has no error of its own for a full disk
            why = getattr(problem, "strerror", None) or str(problem).splitlines()[0]
            raise refuse("F04", f"'{path}' cannot be written: {why}.", "make room, or choose another folder.") from None

    try:
        yield write
        for file in staged:
            file.put()
    finally:
        for file in staged:
            _remove(file.temporary)


def _create_beside(place: Path) -> Path:
    """A new temporary file (for .zarr a folder) beside `place`, with the permissions of an existing file there."""
    path = place.with_name(f"tmp{secrets.token_hex(6)}{place.suffix}")
    if place.suffix == ".zarr":
        path.mkdir()
        return path
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    if place.is_file():
        path.chmod(place.stat().st_mode & 0o777)
    return path


def _remove(path: Path) -> None:
    """Remove a file or folder, if it is there."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def check_target(path: Path | None, suffixes: tuple[str, ...]) -> None:
    """Raise F01, F03 or F04 for a path that cannot be written, or has none of the suffixes; None and - pass."""
    if path is None or (path == STANDARD and ".nc" in suffixes):
        return
    if path.suffix not in suffixes:
        raise refuse("F03", f"'{path}' ends in '{path.suffix}', and {', '.join(suffixes)} can be written.")
    if not path.parent.is_dir():
        raise refuse("F01", f"there is no folder '{path.parent}' to write '{path.name}' to.")
    if not os.access(path.parent, os.W_OK):
        raise refuse("F04", f"the folder '{path.parent}' cannot be written to.")
    if path.is_dir() != (path.suffix == ".zarr") and path.exists():
        raise refuse("F01", f"'{path}' is a {'folder' if path.is_dir() else 'file'}.", "name another place.")


def keep_existing(paths: Iterable[Path | None], overwrite: bool, ask: Callable[[str], bool]) -> None:
    """Raise F07 for a path that exists, unless `overwrite`, or the user at a terminal agrees to `ask(question)`."""
    for path in paths:
        if path is None or overwrite or not path.exists():
            continue
        if sys.stdin.isatty() and sys.stderr.isatty() and ask(f"'{path}' is there already. Replace it?"):
            continue
        raise refuse("F07", f"'{path}' is there already.", "add --overwrite, or name another file.")
