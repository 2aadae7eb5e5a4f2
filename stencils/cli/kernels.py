"""`tensorir check`, `print`, `run` and `lift` on TVMScript: kernels in `.py` files, read and never executed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tensorir as ti
from stencils.cli.files import check_source, check_target, read_arrays, write_arrays
from tensorir.arrays import refuse

__all__ = ["check", "is_kernel", "lift", "run", "show"]


def is_kernel(path: Path) -> bool:
    """Whether a file is TVMScript."""
    return path.suffix == ".py"


def _module(path: Path) -> Any:
    check_source(path)
    if path.suffix == ".fencil":
        raise refuse("C09", f"'{path}' is a program, and this command takes a kernel (.py).", "see tensorir --help.")
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise refuse("F02", f"'{path}' is not UTF-8.", "save the file as UTF-8.") from None
    return ti.tir.parse(text, name=str(path))


def check(path: Path, say: Callable[[str], None]) -> None:
    """Parse and check every function of a kernel file; notes are told, errors raised together."""
    module = _module(path)
    for note in ti.tir.check(module):
        say(str(note))
    for name in module.functions:
        say(f"{name}: well-formed")


def show(path: Path, say: Callable[[str], None]) -> None:
    """Print a kernel file in canonical form."""
    say(str(_module(path)))


def run(
    path: Path, function: str | None, inputs: tuple[str, ...], out: Path | None, settings: tuple[str, ...],
    random: bool, checked: bool, say: Callable[[str], None],
) -> None:  # fmt: skip
    """Interpret a function on arrays from npz files, or on random ones, and say what changed."""
    check_target(out, (".npz",))
    chosen = _chosen(path, function)
    given: dict[str, Any] = {}
    for text in inputs:
        given.update(read_arrays(Path(text)))
    arguments = _arguments(chosen, given, _sizes(settings), random)
    results = ti.tir.interpret(chosen, *arguments, checked=checked)
    # a PrimFunc gives its parameters back, a function of Relax its results
    names = [p.name for p in chosen.params] if hasattr(chosen, "buffer_map") else []
    labelled = names or [f"result{k}" for k in range(len(results))]
    told: dict[str, Any] = {}
    for k, (label, value) in enumerate(zip(labelled, results, strict=True)):
        before = arguments[k] if labelled is names else None
        if before is None or not np.array_equal(np.asarray(before), np.asarray(value)):
            array = np.asarray(value)
            low_high = f", {array.min()} to {array.max()}" if array.size and array.dtype.kind in "iufb" else ""
            say(f"{label}: {' × '.join(map(str, array.shape)) or 'a number'}, {array.dtype}{low_high}")
            told[label] = array
    if out is not None:
        write_arrays(out, told, {})
        say(f"written to {out}")


def lift(
    path: Path,
    function: str | None,
    settings: tuple[str, ...],
    on_hazard: str,
    report: bool,
    say: Callable[[str], None],
) -> None:
    """Print a function as a pure tensor program, and how each of its loops was lifted."""
    chosen = _chosen(path, function)
    program = ti.lift(chosen, on_hazard=on_hazard)
    if program.static is None:
        program.at(program.sizes_of(_arguments(chosen, {}, _sizes(settings), True)))
    say(str(program))
    if report:
        say(f"\n{program.report}")


def _chosen(path: Path, function: str | None) -> Any:
    """The function that is asked for, or the only one."""
    module = _module(path)
    if function is None and len(module.functions) > 1 and "main" not in module.functions:
        raise refuse(
            "C07",
            f"'{path}' has several functions: {', '.join(module.functions)}.",
            f"say which: --func {next(iter(module.functions))}.",
        )
    return module[function or ("main" if "main" in module.functions else next(iter(module.functions)))]


def _sizes(settings: tuple[str, ...]) -> dict[str, int]:
    found: dict[str, int] = {}
    for text in settings:
        name, _, value = text.partition("=")
        if not value.lstrip("-").isdecimal():
            raise refuse("C04", f"'--set {text}' gives no whole number.", "write --set n=8.")
        found[name] = int(value)
    return found


def _arguments(function: Any, given: dict[str, Any], sizes: dict[str, int], random: bool) -> list[Any]:
    """One argument per parameter: from a file, from a setting, or random."""
    rng = np.random.default_rng(0)
    found: list[Any] = []
    for k, parameter in enumerate(function.params):
        buffer = getattr(function, "buffer_map", {}).get(parameter)
        name = buffer.name if buffer is not None else parameter.name
        place = next((n for n in (name, parameter.name, f"arg{k}") if n in given), None)
        if place is not None:
            found.append(given[place])
        elif parameter.name in sizes:
            found.append(sizes[parameter.name])
        elif random and (described := buffer or _tensor(parameter)) is not None:
            found.append(_random(rng, name, described, sizes))
        else:
            hint = "pass it in an npz file, --input arrays.npz, or write --random."
            raise refuse("A11", f"'{name}' of '{function.name}' is not given.", hint)
    return found


def _tensor(parameter: Any) -> Any:
    """The type of a parameter of Relax whose shape and elements are known."""
    kind = getattr(parameter, "type", None)
    return kind if getattr(kind, "shape", None) is not None and getattr(kind, "dtype", None) is not None else None


def _random(rng: Any, name: str, described: Any, sizes: dict[str, int]) -> Any:
    shape: list[int] = []
    for extent in described.shape:
        size = getattr(extent, "value", sizes.get(getattr(extent, "name", "")))
        if size is None:
            raise refuse("C08", f"the size '{extent}' of '{name}' is not known.", f"say it: --set {extent}=8.")
        shape.append(int(size))
    dtype = described.dtype.numpy
    if dtype.kind == "f" or dtype.kind == "V":
        return rng.normal(size=shape).astype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(dtype)
    return rng.integers(0, 8, shape).astype(dtype)
