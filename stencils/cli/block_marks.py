"""How far a run over blocks is: a file beside the store, for `--resume`, that knows which run it is of.

A run is told by the version, the program at its sizes with its numbers and blocks, and for each input by what it says
of itself and by the files that hold it: their names, sizes and times of change. Coordinates are told by their values.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import tensorir as ti
from stencils.cli.files import together
from tensorir.binding.arrays import kind_of, refuse
from tensorir.ir.nodes import Fencil
from tensorir.text.printer import print_fencil

__all__ = ["Run", "mark", "resumed"]


MENDED = "mended"
"""In place of what told an input that could not be read."""


@dataclass(frozen=True, slots=True)
class Run:
    """What tells one run over blocks from another."""

    version: str
    program: str
    inputs: Mapping[str, str]
    """By parameter."""

    @staticmethod
    def of(fencil: Fencil, arrays: Mapping[str, Any], sizes: Mapping[str, int], backend: str) -> Run:
        """The run of a program on these arrays, in blocks of these sizes."""
        labelled = {n: v for n, v in arrays.items() if kind_of(v) == "xarray"}
        numbers = [f"{n}{np.asarray(v).tobytes()}" for n, v in sorted(arrays.items()) if n not in labelled]
        said = [f"{n}{v.dims}{v.shape}{v.dtype}" for n, v in sorted(labelled.items())]
        program = f"{print_fencil(fencil)} {sorted(sizes.items())} {backend} {numbers} {said}"
        inputs = {n: _digest(_told(v)) for n, v in labelled.items()}
        return Run(ti.__version__, _digest([program.encode()]), inputs)

    def without(self, name: str) -> Run:
        """The run that goes on whatever the files of an input are, since one of them has to be mended."""
        return replace(self, inputs={**self.inputs, name: MENDED})


def _digest(parts: Iterator[bytes] | list[bytes]) -> str:
    found = hashlib.sha256()
    for part in parts:
        found.update(part)
    return found.hexdigest()


def _told(array: Any) -> Iterator[bytes]:
    """What an input says of itself, its coordinates, and which files hold its numbers, as they are."""
    yield str(sorted(map(str, array.attrs.items()))).encode()
    for name, coordinate in sorted(array.coords.items(), key=str):
        values = np.asarray(coordinate.values)
        yield f"{name}{coordinate.dims}{values.dtype}{sorted(map(str, coordinate.attrs.items()))}".encode()
        yield repr(values.tolist()).encode() if values.dtype.hasobject else values.tobytes()
    source = Path(array.encoding["source"])
    # of a store the chunks of the variable, and what says how they are read
    folder = source / str(array.name)
    files = sorted(p for p in folder.rglob("*") if p.is_file()) if source.is_dir() else [source]
    for file in files:
        held = file.stat()
        yield f"{file.relative_to(source)} {held.st_size} {held.st_mtime_ns}\n".encode()


def mark(path: Path, run: Run, done: int) -> None:
    """Write how many blocks are done, in place of what the file said before."""
    text = json.dumps({**asdict(run), "done": done})
    with together() as write:
        write(path, lambda to: Path(to).write_text(text, encoding="utf-8"))


def resumed(path: Path, run: Run, out: Path) -> int:
    """How many blocks are done; raises F10 for a file of no run or of another, and F01 for a store that is gone."""
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
        done, theirs = int(held["done"]), Run(held["version"], held["program"], dict(held["inputs"]))
    except (OSError, ValueError, KeyError, TypeError):
        raise refuse("F10", f"'{path}' holds no run that was stopped.", "leave --resume out.") from None
    if theirs.version != run.version:
        told = f"'{path}' was left by version {theirs.version}, and this is {run.version}"
        raise refuse("F10", f"{told}: their bits may differ.", "leave --resume out, and all blocks are computed.")
    if theirs.program != run.program or theirs.inputs.keys() != run.inputs.keys():
        told = f"'{path}' was left by another run: of another program, other arrays, or other --chunks"
        raise refuse("F10", f"{told}.", "repeat the command that was stopped, or leave --resume out.")
    for name, digest in run.inputs.items():
        if theirs.inputs[name] not in (digest, MENDED):
            of = "the first block is" if done == 1 else f"the first {done:,} blocks are"
            told = f"the input '{name}' has changed since '{path}' was left, and {of} of what it was"
            raise refuse("F10", f"{told}.", "leave --resume out, and all blocks are computed from what it is.")
    if not out.is_dir():
        raise refuse("F01", f"there is no store '{out}' to go on with.", "leave --resume out.")
    return done
