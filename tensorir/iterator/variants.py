"""Why a program was compiled once more: what a call had that no call before it had.

>>> first = Call({"x": ("I[0:6]", (8,))}, {"n": 5}, {})
>>> reason(first, []), reason(Call({"x": ("I[0:7]", (8,))}, {"n": 5}, {}), [first])
('its first call', "'x' is on I[0:7], and was on I[0:6]")
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Call", "Variant", "reason"]


@dataclass(frozen=True, slots=True)
class Call:
    """What a variant is told by: fields with their domain and strides, numbers that sizes depend on, and offsets."""

    fields: Mapping[str, tuple[str, tuple[int, ...]]]
    numbers: Mapping[str, Any]
    offsets: Mapping[str, int]
    """By name, the identity of what was passed."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A program compiled for calls of one kind: why it came, and the seconds until it could run."""

    program: str
    why: str
    call: Call
    seconds: float

    def __str__(self) -> str:
        return f"{self.program}: {self.why} ({self.seconds:.2f} s)"


def reason(call: Call, before: Sequence[Call]) -> str:
    """The differences to the call before that has the fewest."""
    if not before:
        return "its first call"
    found = min((tuple(_differences(call, other)) for other in reversed(before)), key=lambda d: sum(w for w, _ in d))
    return "; ".join(text for _, text in found) or "calls of more kinds than are kept"


def _differences(call: Call, before: Call) -> Iterator[tuple[int, str]]:
    """What differs, with how much it is apart: strides follow from a domain."""
    for name, (domain, strides) in call.fields.items():
        old_domain, old_strides = before.fields[name]
        if domain != old_domain:
            yield 2, f"'{name}' is on {domain}, and was on {old_domain}"
        elif strides != old_strides:
            yield 1, f"'{name}' lies with the strides {strides}, and lay with {old_strides}"
    for name, number in call.numbers.items():
        if name in before.numbers and number != before.numbers[name]:
            yield 1, f"'{name}' is {number}, and was {before.numbers[name]}"
    for name, identity in call.offsets.items():
        if identity != before.offsets.get(name):
            yield 1, f"the offset '{name}' leads through another table"
