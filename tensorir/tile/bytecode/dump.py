"""Bytes as a source of diagnostics: the place of a byte, and a line of a hexadecimal dump around it.

>>> from tensorir.runtime.errors import Diagnostic
>>> print(Diagnostic("TB01", "this is wrong.", ByteSpan("k.tileirbc", bytes(range(40)), 18, 20)))
k.tileirbc: byte 0x12: error[TB01]: this is wrong.
  00000010  10 11 12 13 14 15 16 17 18 19 1A 1B 1C 1D 1E 1F
                  ^^^^^
"""

from __future__ import annotations

from typing import Any

from tensorir.runtime.errors import Source, Span

__all__ = ["ByteSpan"]


class ByteSpan(Span):
    """A span of bytes; what shows is the line of the dump that holds the first, made when it is asked for."""

    __slots__ = ("at", "data", "name", "until")

    def __init__(self, name: str, data: bytes, start: int, stop: int) -> None:
        for slot, value in (("name", name), ("data", data), ("at", start), ("until", max(stop, start + 1))):
            object.__setattr__(self, slot, value)

    def __reduce__(self) -> Any:
        return ByteSpan, (self.name, self.data, self.at, self.until)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ByteSpan):
            return NotImplemented
        return (self.name, self.at, self.until, self.data) == (other.name, other.at, other.until, other.data)

    def __hash__(self) -> int:
        # the source is made anew whenever it is asked for
        return hash((self.name, self.at, self.until))

    @property
    def source(self) -> Source:  # type: ignore[override]
        row = self.at // 16 * 16
        shown = " ".join(f"{b:02X}" for b in self.data[row : row + 16])
        return Source(repr(self), f"{row:08X}  {shown}")

    @property
    def start(self) -> int:  # type: ignore[override]
        return 10 + 3 * (self.at % 16)

    @property
    def stop(self) -> int:  # type: ignore[override]
        return self.start + 3 * (min(self.until, self.at // 16 * 16 + 16) - self.at) - 1

    def __repr__(self) -> str:
        return f"{self.name}: byte {self.at:#x}"
