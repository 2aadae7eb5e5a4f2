"""A place in bytes: numbers of variable length taken, complaints located by their byte."""

from __future__ import annotations

from typing import NoReturn

from tensorir.runtime.errors import Diagnostic, DiagnosticError, Span
from tensorir.tile.bytecode.dump import ByteSpan

__all__ = ["Bytes"]

PADDING = 0xCB


class Bytes:
    """Some bytes of a file from `pos` up to `end`; places are those of the whole file."""

    __slots__ = ("data", "end", "name", "pos")

    data: bytes
    name: str
    pos: int

    def __init__(self, data: bytes, name: str, pos: int = 0, end: int | None = None) -> None:
        self.data, self.name, self.pos = data, name, pos
        self.end: int = len(data) if end is None else end

    def span(self, start: int, stop: int | None = None) -> Span:
        return ByteSpan(self.name, self.data, start, start + 1 if stop is None else stop)

    def fail(self, code: str, message: str, start: int | None = None, help: str = "") -> NoReturn:
        """Refuse the file, at the next byte or at one that is given."""
        place = min(self.pos if start is None else start, max(len(self.data) - 1, 0))
        raise DiagnosticError(Diagnostic(code, message, self.span(place), help=help))

    def byte(self, what: str) -> int:
        if self.pos >= self.end:
            self.fail("TB02", f"the file ends, or this part of it, before {what}.", self.end - 1)
        self.pos += 1
        return self.data[self.pos - 1]

    def varint(self, what: str, limit: int = 1 << 64) -> int:
        """A number in groups of 7 bits, the low ones first."""
        data, pos = self.data, self.pos
        if pos < self.end and data[pos] < 0x80:
            self.pos = pos + 1
            if data[pos] >= limit:
                self.fail("TB03", f"{what} is {data[pos]}, and at most {limit - 1} is possible.", pos)
            return data[pos]
        value = shift = 0
        start = pos
        while True:
            byte = self.byte(what)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 63:
                self.fail("TB03", f"{what} takes more than 10 bytes.", start)
        if value >= limit:
            self.fail("TB03", f"{what} is {value}, and at most {limit - 1} is possible.", start)
        return value

    def signed(self, what: str) -> int:
        """A number whose sign is its lowest bit."""
        value = self.varint(what, 1 << 70)
        return value >> 1 ^ -(value & 1)

    def take(self, count: int, what: str) -> bytes:
        if count > self.end - self.pos:
            self.fail("TB02", f"{what} takes {count} bytes, and {self.end - self.pos} are left.")
        self.pos += count
        return self.data[self.pos - count : self.pos]

    def align(self, alignment: int) -> None:
        """Past the padding before a place that is a multiple of `alignment` in the file."""
        self.pad_from(0, alignment)

    def pad_from(self, base: int, alignment: int) -> None:
        """Past the padding before a place that is a multiple of `alignment`, counted from `base`."""
        count = -(self.pos - base) % alignment
        start = self.pos
        for k, byte in enumerate(self.take(count, "padding")):
            if byte != PADDING:
                self.fail("TB04", f"padding is of bytes 0xCB, and this is {byte:#04x}.", start + k)
