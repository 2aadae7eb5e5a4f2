"""`tensorir equal`: whether two programs of files compute the same, whatever language each is written in."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import tensorir as ti
from stencils.cli import kernels, tiles
from stencils.cli.files import check_source, check_target, together, write_arrays
from stencils.cli.look import programs_of
from stencils.cli.options import pairs, refuse_given
from tensorir.binding.arrays import refuse

__all__ = ["equal"]


def equal(
    one: str, other: str, settings: tuple[str, ...], match: tuple[str, ...], names: tuple[str, ...], grid: str | None,
    out: Path | None, say: Callable[[str], None],
) -> bool:  # fmt: skip
    """Say the verdict on two programs; a counterexample is written. Whether they may be the same."""
    check_target(out, (".npz", ".nc"))
    sizes, shapes = _sizes(settings)
    constants = _by_file((one, other), names)
    found = ti.equivalent(
        *(_program(where, shapes, grid, own) for where, own in zip((one, other), constants, strict=True)),
        match=pairs(match, "name", "x=a", "--match") or None, sizes=sizes or None,
    )  # fmt: skip
    say(str(found))
    for condition in found.unvisited:
        say(f"note: {condition}.")
    if found.counterexample is not None:
        for name, array in found.counterexample.items():
            if array.size <= 32:
                say(f"{name} = {array.tolist()}")
        if out is not None:
            with together() as write:
                write_arrays(out, dict(found.counterexample), {}, write)
            say(f"written to {out}")
    return bool(found.agree)


def _sizes(settings: tuple[str, ...]) -> tuple[dict[str, int], tuple[str, ...]]:
    """Numbers by name, and what gives the shape of an array of Tile IR."""
    known: dict[str, int] = {}
    for name, text in pairs(settings, "value", "n=64", "--size").items():
        if text.isdecimal():
            known[name] = int(text)
    return known, tuple(s for s in settings if s.partition("=")[0] not in known)


def _by_file(files: tuple[str, ...], names: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The constants whose names each text holds; one that none holds goes to the first kernel, which refuses it."""
    paths = [_parted(where)[0] for where in files]
    of_kernels = [k for k, path in enumerate(paths) if kernels.is_kernel(path) and path.is_file()]
    found: list[tuple[str, ...]] = [()] * len(paths)
    if not names:
        return found
    if not of_kernels:
        refuse_given(paths[0], "no kernel (.py)", {"--name": names})
    for k in of_kernels:
        words = set(re.findall(r"\w+", paths[k].read_text(errors="replace")))
        found[k] = tuple(n for n in names if n.partition("=")[0].rpartition(".")[2] in words)
    first = of_kernels[0]
    found[first] = tuple(n for n in names if n in found[first] or not any(n in own for own in found))
    return found


def _program(where: str, shapes: tuple[str, ...], grid: str | None, names: tuple[str, ...]) -> Any:
    """A program of a file, `kernel.py:name`, or the only one of it."""
    path, name = _parted(where)
    check_source(path)
    if tiles.is_tile(path):
        return tiles.lifted(path, name, shapes, grid, numerics="exact")
    if kernels.is_kernel(path):
        return kernels.function_of(path, name, names)
    found: Mapping[str, Any] = programs_of(path, name)
    if len(found) > 1:
        raise refuse(
            "C07", f"'{path}' has several programs: {', '.join(found)}.", f"say which: {path}:{next(iter(found))}."
        )
    return next(iter(found.values()))


def _parted(where: str) -> tuple[Path, str | None]:
    file, colon, name = where.rpartition(":")
    return (Path(file), name) if colon and name.isidentifier() else (Path(where), None)
