"""Inputs of programs: arrays of files by names of parameters, numbers, random arrays."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from stencils.cli.files import read_arrays
from stencils.cli.options import only_known, pairs
from tensorir.fieldview.datasets import auxiliary_names
from tensorir.runtime.errors import did_you_mean, refuse
from tensorir.tir.lift import extent_at
from tensorir.tir.nodes import Var
from tensorir.tir.trees import walk

# What `--input` gives: arrays of files by the names of parameters.


def arrays_for(
    text: str, owner: str, params: Collection[str], alone: Sequence[str] = (),
    read: Callable[[Path], Mapping[str, Any]] = read_arrays,
) -> dict[str, Any]:  # fmt: skip
    """`x.nc`: every variable whose name is a parameter's; `inp=x.nc` or `inp=x.nc:height`: one for a parameter.

    The only variable of a file, but for bounds and the like, goes to the first of `alone`, whatever its name is. Raises
    A08 and C05 for names that are not there.
    """
    name, sign, place = text.partition("=")
    if not sign:
        arrays = read(Path(text))
        named = {n: v for n, v in arrays.items() if n in params}
        if named or not arrays:
            return named
        labelled = [a for a in arrays.values() if hasattr(a, "coords")]
        auxiliary = auxiliary_names(v for a in labelled for v in (a.variable, *a.coords.variables.values()))
        main = [n for n in arrays if n not in auxiliary]
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
            message = f"'{path}' has several variables: {', '.join(arrays)}."
            raise refuse("C05", message, f"write {name}={path}:{variable}.")
    if variable not in arrays:
        raise refuse("C05", f"'{path}' has no variable '{variable}'.", did_you_mean(variable, arrays))
    return {name: arrays[variable]}


def named_by(inputs: Sequence[str], settings: Sequence[str], forcing: Sequence[str] = ()) -> dict[str, str]:
    """The option that names a parameter, by its name; raises C04 for a parameter that two options name.

    >>> named_by(["x.nc", "q=x.nc:height"], ["dt=0.1"])
    {'q': '--input q=x.nc:height', 'dt': '--set dt=0.1'}
    """
    options: dict[str, str] = {}
    for option, texts in (("--input", inputs), ("--set", settings), ("--forcing", forcing)):
        for text in texts:
            name, sign, _ = text.partition("=")
            if not sign or (option == "--set" and options.get(name, "").startswith(option)):
                continue  # --set twice is told where it is read
            if name in options:
                message = f"'{name}' is given by '{options[name]}' and by '{option} {text}'."
                raise refuse("C04", message, "leave one out.")
            options[name] = f"{option} {text}"
    return options


def arrays_of(
    texts: Sequence[str], named: Mapping[str, str], owner: str, params: Collection[str], alone: Sequence[str] = (),
    read: Callable[[Path], Mapping[str, Any]] = read_arrays, option: str = "--input",
) -> dict[str, Any]:  # fmt: skip
    """The arrays of several files by parameter (`arrays_for`).

    An option that names a parameter (`named`) goes before a file that has a variable of its name; raises C04 where two
    files have one.
    """
    arrays: dict[str, Any] = {}
    whole: dict[str, str] = {}
    alone = [name for name in alone if name not in named]
    for text in texts:
        for name, array in arrays_for(text, owner, params, alone, read).items():
            if "=" not in text and name in named:
                continue
            if name in whole:
                message = f"'{name}' is given by '{option} {whole[name]}' and by '{option} {text}'."
                raise refuse("C04", message, f"say which: {option} {name}={text}.")
            arrays[name] = array
            if "=" not in text:
                whole[name] = text
    return arrays


def file_of(text: str) -> Path:
    """The file of an option.

    >>> str(file_of("inp=x.nc:height")), str(file_of("x.nc"))
    ('x.nc', 'x.nc')
    """
    name, sign, place = text.partition("=")
    return Path(place.partition(":")[0] if sign else name)


# What a kernel is called with: arrays of files, numbers that are set, random arrays for the rest.


@dataclass(frozen=True)
class Parameters:
    """The parameters of a function by name, in order, and the sizes in their shapes."""

    owner: str
    arrays: Mapping[str, Any]
    """Buffers, or types of tensors of Relax: what has a shape and elements."""
    numbers: Mapping[str, Any]
    """The types of the parameters that are numbers."""
    others: tuple[str, ...]
    order: tuple[str, ...]

    @staticmethod
    def of(function: Any) -> Parameters:
        """Those of a function of TIR or Relax; a pointer is called as the buffer that it is bound to."""
        arrays: dict[str, Any] = {}
        numbers: dict[str, Any] = {}
        order: list[str] = []
        for parameter in function.params:
            buffer = getattr(function, "buffer_map", {}).get(parameter)
            kind = getattr(parameter, "type", None)
            dtype = getattr(kind, "dtype", None)
            name = parameter.name if buffer is None else buffer.name or parameter.name
            order.append(name)
            if buffer is not None or (dtype is not None and getattr(kind, "shape", None) is not None):
                arrays[name] = buffer if buffer is not None else kind
            elif dtype is not None and dtype.code != "handle" and not hasattr(kind, "shape"):
                numbers[name] = dtype
        others = tuple(n for n in order if n not in arrays and n not in numbers)
        return Parameters(function.name, arrays, numbers, others, tuple(order))

    @property
    def sizes(self) -> dict[str, Any]:
        """The names in shapes, with their types."""
        return {v.name: v.dtype for d in self.arrays.values() for e in d.shape for v in _names(e)}


def arguments(params: Parameters, inputs: tuple[str, ...], settings: tuple[str, ...], random: bool) -> list[Any]:
    """One argument per parameter; raises A11 for one that nothing gives, C08 for a size that nothing tells."""
    arrays = arrays_of(inputs, named_by(inputs, settings), params.owner, params.order)
    numbers = numbers_set(params, settings)
    sizes = {
        extent.name: int(size) for name, value in arrays.items() if name in params.arrays
        for extent, size in zip(params.arrays[name].shape, np.shape(value), strict=False) if isinstance(extent, Var)
    } | numbers  # fmt: skip
    rng = np.random.default_rng(0)
    values: list[Any] = []
    for name in params.order:
        if name in arrays:
            values.append(arrays[name])
        elif name in params.numbers and name in sizes:
            values.append(sizes[name])
        elif name in params.arrays and random:
            values.append(_draw_random(rng, name, params.arrays[name], sizes))
        else:
            number = f"write --set {name}=1."
            array = "pass it in a file, --input arrays.npz, or write --random."
            raise refuse(
                "A11", f"'{name}' of '{params.owner}' is not given.", number if name in params.numbers else array
            )
    return values


def numbers_set(params: Parameters, settings: tuple[str, ...]) -> dict[str, Any]:
    """The numbers that are set, of their types; raises A08 for an unknown name, C04 for a value of another type."""
    known = {**params.numbers, **params.sizes}
    texts = pairs(settings, "value", "n=8")
    only_known(texts, known, params.owner, "number or size")
    numbers: dict[str, Any] = {}
    for name, text in texts.items():
        dtype = known[name]
        if dtype.is_bool and text.lower() in ("true", "false"):
            numbers[name] = text.lower() == "true"
            continue
        try:
            numbers[name] = int(text, 0) if dtype.is_integer else float(text)
        except ValueError:
            kind = "truth value" if dtype.is_bool else "whole number" if dtype.is_integer else "number"
            hint = f"write --set {name}={'true' if dtype.is_bool else 8}."
            raise refuse("C04", f"'--set {name}={text}' gives no {kind}.", hint) from None
        if name in params.sizes and numbers[name] < 0:
            raise refuse("C04", f"the size '{name}' is {text}.", "a size is 0 or more.")
        if dtype.is_integer and not dtype.range[0] <= numbers[name] <= dtype.range[1]:
            low, high = dtype.range
            raise refuse("C04", f"'--set {name}={text}' is beyond {dtype}.", f"its numbers are {low:,} to {high:,}.")
    return numbers


def differ(before: Any, after: Any) -> bool:
    """True if an argument is not what it was, byte by byte: NaN is itself."""
    old, new = np.asarray(before), np.asarray(after)
    return old.shape != new.shape or old.astype(new.dtype).tobytes() != new.tobytes()


def _draw_random(rng: Any, name: str, described: Any, sizes: Mapping[str, int]) -> Any:
    """A random array of a shape and elements."""
    shape: list[int] = []
    for extent in described.shape:
        inside = {v: sizes.get(v.name) for v in _names(extent)}
        unknown = next((v.name for v, size in inside.items() if size is None), None)
        if unknown is not None:
            raise refuse("C08", f"the size '{unknown}' of '{name}' is not known.", f"say it: --set {unknown}=8.")
        shape.append(extent_at(extent, {v: size for v, size in inside.items() if size is not None}, described))
    dtype = described.dtype.numpy
    if dtype.kind == "f" or dtype.kind == "V":
        return rng.normal(size=shape).astype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(dtype)
    return rng.integers(0, 8, shape).astype(dtype)


def _names(extent: Any) -> list[Var]:
    return [v for v in walk(extent) if isinstance(v, Var)]
