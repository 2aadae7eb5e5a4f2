"""`tensorir check`, `print`, `run`, `lift`, `convert` on Tile IR: text in `.mlir` files, bytecode in `.tileirbc`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tensorir as ti
from stencils.cli.files import check_source, check_target, together, write_arrays
from stencils.cli.inputs import arrays_of, differ, named_by
from stencils.cli.options import only_known, pairs
from tensorir.runtime.errors import refuse
from tensorir.tile.types import Pointer

TEXT, BYTES = ".mlir", ".tileirbc"


def is_tile(path: Path) -> bool:
    """True if a file is Tile IR."""
    return path.suffix in (TEXT, BYTES)


def _read_module(path: Path) -> Any:
    """The module in a file of Tile IR, text or bytecode; raises F02 for text that is not UTF-8."""
    check_source(path)
    if path.suffix == BYTES:
        return ti.tile.from_bytecode(path.read_bytes(), str(path))
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise refuse("F02", f"'{path}' is not UTF-8.", "save the file as UTF-8.") from None
    return ti.tile.parse(text, str(path))


def check(path: Path, say: Callable[[str], None]) -> None:
    """Read and verify a module; notes are told, errors raised together."""
    module = _read_module(path)
    for note in ti.tile.verify(module):
        say(str(note))
    for name in module.entries:
        say(f"{name}: well-formed")


def show(path: Path, say: Callable[[str], None]) -> None:
    """Print a module as text."""
    say(str(_read_module(path)))


def convert(path: Path, to: Path, version: str, say: Callable[[str], None]) -> None:
    """Write a module as text or as bytecode, as the name of the target says."""
    if not is_tile(path):
        raise refuse("F03", f"'{path}' ends in '{path.suffix}', and Tile IR is read.", f"use {TEXT} or {BYTES}.")
    if not is_tile(to):
        raise refuse("F03", f"'{to}' ends in '{to.suffix}', and Tile IR is written.", f"use {TEXT} or {BYTES}.")
    module = _read_module(path)
    data = ti.tile.to_bytecode(module, version) if to.suffix == BYTES else f"{module}\n".encode()
    with together() as write:
        write(to, lambda target: Path(target).write_bytes(data))
    say(f"written to {to}")


def run(
    path: Path, entry: str | None, inputs: tuple[str, ...], out: Path | None, settings: tuple[str, ...],
    grid: str | None, checked: bool, seed: int | None, say: Callable[[str], None],
) -> None:  # fmt: skip
    """Interpret an entry on arrays from files, and say what changed.

    Arrays and numbers are called as the parameters are (`arg0` and so on where they have no names). Numbers that are
    not given are the extents and strides of the arrays before them, as cuTile passes them.
    """
    check_target(out, (".npz",))
    module, name, params = _choose_entry(path, entry)
    values = arrays_of(inputs, named_by(inputs, settings), name, params)
    for key, text in pairs(settings, "value", "n=8").items():
        values[key] = _read_number(key, text)
    only_known(values, params, name, "parameter")
    arguments = {key: values[key] for key in params if key in values}
    blocks = _read_grid(grid)
    after = ti.tile.interpret(module, name, list(arguments.values()), blocks, checked, seed)
    arrays = [key for key, value in arguments.items() if np.ndim(value)]
    changed = {key: array for key, array in zip(arrays, after, strict=True) if differ(arguments[key], array)}
    for key, array in changed.items():
        low_high = f", {array.min()} to {array.max()}" if array.size and array.dtype.kind in "iuf" else ""
        say(f"{key}: {' × '.join(map(str, array.shape))}, {array.dtype}{low_high}")
    if out is not None:
        with together() as write:
            write_arrays(out, changed, {}, write)
        say(f"written to {out}")


@dataclass(frozen=True, slots=True)
class Shape:
    """The shape that a lift asks of an array."""

    shape: tuple[int, ...]
    dtype: Any


def lift(
    path: Path, entry: str | None, settings: tuple[str, ...], grid: str | None, on_hazard: str, report: bool,
    say: Callable[[str], None],
) -> None:  # fmt: skip
    """Print an entry on a grid as a pure tensor program, and how each of its loops was lifted.

    `settings` have the shape of each array, as p=1024x64, and numbers.
    """
    program = lifted(path, entry, settings, grid, on_hazard)
    say(str(program))
    if report:
        say(f"\n{program.report}")


def lifted(
    path: Path, entry: str | None, settings: tuple[str, ...], grid: str | None, on_hazard: str = "error",
    numerics: str = "fast",
) -> Any:  # fmt: skip
    """An entry on a grid as a pure tensor program."""
    module, name, params = _choose_entry(path, entry)
    values: dict[str, Any] = {}
    for key, text in pairs(settings, "value", "p=1024x64").items():
        kind = getattr(params.get(key), "element", None)
        if isinstance(kind, Pointer):
            try:
                values[key] = Shape(tuple(int(n) for n in text.split("x")), kind.pointee.numpy)
            except ValueError:
                raise refuse("C04", f"'--set {key}={text}' gives no shape.", f"write --set {key}=1024x64.") from None
        else:
            number = _read_number(key, text)
            values[key] = number if isinstance(number, int) else np.float32(number)
    only_known(values, params, name, "parameter")
    arrays = [key for key, kind in params.items() if isinstance(getattr(kind, "element", None), Pointer)]
    missing = [key for key in arrays if key not in values]
    if missing:
        raise refuse("C08", f"the shape of '{missing[0]}' is not known.", f"say it: --set {missing[0]}=1024x64.")
    args = [values[key] for key in params if key in values]
    return ti.lift(module, entry=name, grid=_read_grid(grid), args=args, on_hazard=on_hazard, numerics=numerics)


def _choose_entry(path: Path, entry: str | None) -> tuple[Any, str, dict[str, Any]]:
    """The module of a file, the entry that is asked for, or the only one, and the types of its parameters."""
    module = _read_module(path)
    ti.tile.verify(module)
    if entry is None and len(module.entries) != 1:
        known = ", ".join(module.entries) or "none"
        raise refuse("C07", f"'{path}' has several functions: {known}.", "say which: --func NAME.")
    name = entry or next(iter(module.entries))
    if name not in module.entries:
        only_known([name], module.entries, str(path), "entry")
    params = module.entries[name].regions[0].arguments
    return module, name, {p.name or f"arg{k}": p.type for k, p in enumerate(params)}


def _read_number(key: str, text: str) -> int | float:
    """The number in `--set key=text`: whole ones also as 0x10; raises C04 for other texts."""
    try:
        lower = text.lower()  # of hexadecimal numbers e is a digit
        return float(text) if "0x" not in lower and any(c in lower for c in ".en") else int(text, 0)
    except ValueError:
        raise refuse("C04", f"'--set {key}={text}' gives no number.", f"write --set {key}=8.") from None


def _read_grid(text: str | None) -> tuple[int, ...]:
    """The extents of a grid in `--grid 4,1,1`, one block without the option; raises C11 for other texts."""
    try:
        return tuple(int(n) for n in ("1" if text is None else text).split(","))
    except ValueError:
        raise refuse("C11", f"'--grid {text}' is no grid.", "write --grid 4,1,1.") from None
