"""What `--input` gives: arrays of files by the names of parameters."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from stencils.cli.files import read_arrays
from tensorir.binding.arrays import refuse
from tensorir.fieldview.datasets import auxiliary_names
from tensorir.runtime.errors import did_you_mean

__all__ = ["arrays_for", "file_of"]


def arrays_for(
    text: str, owner: str, params: Collection[str], alone: Sequence[str] = (),
    read: Callable[[Path], Mapping[str, Any]] = read_arrays,
) -> dict[str, Any]:  # fmt: skip
    """`x.nc`: every variable whose name is a parameter's; `inp=x.nc` or `inp=x.nc:height`: one for a parameter.

    The only variable of a file, but for bounds and the like, goes to the first of `alone`, whatever its name is. Raises
    A08 and C05 for names that are not there.
    """
    name, given, place = text.partition("=")
    if not given:
        arrays = read(Path(text))
        found = {n: v for n, v in arrays.items() if n in params}
        if found or not arrays:
            return found
        main = [n for n in arrays if n not in _auxiliary(arrays)]
        if len(main) == 1 and alone:
            return {alone[0]: arrays[main[0]]}
        raise refuse(
            "C05",
            f"no variable of '{text}' has the name of a parameter: it has {', '.join(arrays)}, and "
            f"'{owner}' takes {', '.join(params)}.",
            f"say which: --input {next(iter(params))}={text}:{next(iter(arrays))}.",
        )
    if name not in params:
        raise refuse("A08", f"'{owner}' has no parameter '{name}'.", did_you_mean(name, params))
    path, variable = file_of(text), place.partition(":")[2]
    arrays = read(path)
    if not variable:
        variable = name if name in arrays else next(iter(arrays), "")
        if len(arrays) > 1 and name not in arrays:
            raise refuse(
                "C05", f"'{path}' has several variables: {', '.join(arrays)}.", f"write {name}={path}:{variable}."
            )
    if variable not in arrays:
        raise refuse("C05", f"'{path}' has no variable '{variable}'.", did_you_mean(variable, arrays))
    return {name: arrays[variable]}


def _auxiliary(arrays: Mapping[str, Any]) -> frozenset[str]:
    """The variables that others name as their bounds, errors or grid mapping."""
    labelled = [a for a in arrays.values() if hasattr(a, "coords")]
    return auxiliary_names(v for a in labelled for v in (a.variable, *a.coords.variables.values()))


def file_of(text: str) -> Path:
    """The file of an option.

    >>> str(file_of("inp=x.nc:height")), str(file_of("x.nc"))
    ('x.nc', 'x.nc')
    """
    name, given, place = text.partition("=")
    return Path(place.partition(":")[0] if given else name)
