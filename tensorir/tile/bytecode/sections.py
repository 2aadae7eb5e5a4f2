"""The sections of a file and the tables in them: where each begins and ends, every offset checked."""

from __future__ import annotations

from dataclasses import dataclass

from tensorir.tile.bytecode.cursor import PADDING, Bytes
from tensorir.tile.bytecode.versions import MAGIC, VERSIONS, Version, spelled

__all__ = ["SECTIONS", "Sections", "Table", "sections_of", "table_of"]

SECTIONS = {1: "String", 2: "Func", 3: "Debug", 4: "Constant", 5: "Type", 6: "Global", 7: "Producer"}
_LEAST_ALIGNMENT = {"String": 4, "Type": 4, "Func": 8, "Constant": 8, "Debug": 8}


@dataclass(frozen=True, slots=True)
class Sections:
    """The version of a file, and its sections by name."""

    version: Version
    parts: dict[str, Bytes]


@dataclass(frozen=True, slots=True)
class Table:
    """The entries of a table, each as the bytes it takes."""

    base: Bytes
    starts: list[int]

    def __len__(self) -> int:
        return len(self.starts) - 1

    def entry(self, index: int) -> Bytes:
        return Bytes(self.base.data, self.base.name, self.starts[index], self.starts[index + 1])


def sections_of(c: Bytes) -> Sections:
    """Read the header, and find the sections."""
    if c.data[: len(MAGIC)] != MAGIC:
        c.fail("TB01", "this is no Tile IR bytecode: it does not begin with 7F 'TileIR' 00.", 0)
    c.pos = len(MAGIC)
    version = c.byte("the version"), c.byte("the version")
    if version not in VERSIONS:
        known = ", ".join(map(spelled, VERSIONS))
        c.fail(
            "TB05", f"the file is of version {spelled(version)}, which is not read.", 8, f"the versions are {known}."
        )
    if any(c.take(2, "the version")):
        c.fail("TB05", "the file is of a pre-release of its version.", 10)
    parts: dict[str, Bytes] = {}
    while (head := c.byte("the end of the file, a byte 0")) != 0:
        start = c.pos - 1
        name = SECTIONS.get(head & 0x7F)
        if name is None:
            c.fail("TB06", f"there is no section of the number {head & 0x7F}.", start)
        if name in parts:
            c.fail("TB06", f"the section {name} is there twice.", start)
        if name == "Producer" and version < (13, 3):
            c.fail("TB07", f"the section Producer is of version 13.3, and the file is of {spelled(version)}.", start)
        length = c.varint("the length of a section")
        if head & 0x80:
            place = c.pos
            alignment = c.varint("the alignment of a section", 1 << 32)
            least = _LEAST_ALIGNMENT.get(name, 1)
            if not alignment or alignment & (alignment - 1) or alignment % least:
                c.fail(
                    "TB04",
                    f"the alignment of the section {name} is a power of two, at least {least}, and not {alignment}.",
                    place,
                )
            c.align(alignment)
        elif name in _LEAST_ALIGNMENT:
            c.fail(
                "TB04", f"the section {name} is aligned to {_LEAST_ALIGNMENT[name]}, and states no alignment.", start
            )
        if length > c.end - c.pos:
            c.fail("TB02", f"the section {name} takes {length} bytes, and {c.end - c.pos} are left.", start)
        parts[name] = Bytes(c.data, c.name, c.pos, c.pos + length)
        c.pos += length
    for k in range(c.pos, c.end):
        if c.data[k] != PADDING:
            c.fail("TB06", "bytes follow the end of the file.", k)
    for name in ("String", "Func"):
        if name not in parts:
            c.fail("TB06", f"the section {name} is missing.", c.pos - 1)
    return Sections(version, parts)


def table_of(c: Bytes | None, width: int, what: str, length_first: bool = False) -> Table | None:
    """A table: how many entries, their offsets of `width` bytes, and their bytes."""
    if c is None:
        return None
    count = c.varint(f"the number of {what}")
    c.align(width)
    if count * width > c.end - c.pos:
        c.fail("TB02", f"{count} {what} have offsets of {count * width} bytes, and {c.end - c.pos} are left.")
    raw = c.take(count * width, f"the offsets of {what}")
    base = c.pos
    starts = [base + int.from_bytes(raw[k : k + width], "little") for k in range(0, len(raw), width)]
    for k, start in enumerate(starts):
        previous = starts[k - 1] if k else base
        if start < previous or start > c.end or (k == 0 and start != base):
            c.fail(
                "TB08", f"the offset of entry {k} of the {what} leads out of their table.", base - len(raw) + k * width
            )
    c.pos = c.end
    return Table(c, [*starts, c.end])
