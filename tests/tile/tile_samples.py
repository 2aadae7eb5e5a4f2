"""The Tile IR kernels beside the repository, with the names of their text: those of the files are made unreadable."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tensorir.tile import Module, from_bytecode, parse

FOLDER = Path(__file__).parents[3] / "shared" / "conformance" / "tile"
KERNELS = sorted(p.parent for p in FOLDER.glob("*/kernel.mlir"))
needs_samples = pytest.mark.skipif(not KERNELS, reason="the conformance folder is not here")


def text_of(folder: Path) -> Module:
    return parse((folder / "kernel.mlir").read_text(encoding="utf-8"), str(folder.name))


def bytes_of(folder: Path) -> bytes:
    return (folder / "kernel_13.3.tileirbc").read_bytes()


def binary_of(folder: Path) -> Module:
    return from_bytecode(bytes_of(folder), folder.name)


def named_as(module: Module, other: Module) -> Module:
    """The module with the names and hints of another's entry."""
    entry, known = module.operations[0], other.operations[0]
    return dataclasses.replace(module, operations=(dataclasses.replace(entry, attributes=known.attributes),))
