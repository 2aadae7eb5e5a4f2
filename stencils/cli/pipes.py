"""Arrays through pipes: `--input -` takes what standard input holds, `--out -` writes NetCDF to standard output."""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from tensorir.binding.arrays import refuse

__all__ = ["STANDARD", "arrived", "leaving"]

STANDARD = Path("-")
"""Standard input, or output, in place of a file."""
BEGINNINGS = {b"PK\x03\x04": ".npz", b"CDF": ".nc", b"\x89HDF": ".nc"}
"""What files of arrays begin with."""


def arrived() -> Path:
    """A file with what standard input holds, which is read once; raises F02 for what is no file of arrays."""
    return _arrived(sys.stdin)


@lru_cache(1)
def _arrived(stream: Any) -> Path:
    held: bytes = stream.buffer.read()
    suffix = next((s for start, s in BEGINNINGS.items() if held.startswith(start)), None)
    if suffix is None:
        told = "standard input holds nothing" if not held else "what standard input holds is neither NetCDF nor npz"
        raise refuse("F02", f"{told}.", "pipe a file of arrays to it: tensorir run ... --input - < x.nc.")
    folder = tempfile.mkdtemp(prefix="tensorir")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder, f"input{suffix}")
    path.write_bytes(held)
    return path


@contextmanager
def leaving(out: Path) -> Iterator[Path]:
    """Where results are written; those for standard output go there once they are complete."""
    if out != STANDARD:
        yield out
        return
    with tempfile.TemporaryDirectory(prefix="tensorir") as folder:
        place = Path(folder, "output.nc")
        yield place
        sys.stdout.buffer.write(place.read_bytes())
        sys.stdout.buffer.flush()
