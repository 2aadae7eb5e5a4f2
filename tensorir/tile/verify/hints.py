"""Notes on optimization_hints: names and numbers that no architecture knows. They have no effect on results."""

from __future__ import annotations

from collections.abc import Iterator

from tensorir.runtime.errors import Diagnostic
from tensorir.tile.attributes import Attribute, Hints, Number
from tensorir.tile.nodes import Operation

__all__ = ["hint_notes"]

_ARCHITECTURES = {f"sm_{n}" for n in (80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121)} | {"default"}
_KEYS = {
    "entry": ("num_cta_in_cga", "num_worker_warps_per_cta", "occupancy"),
    "load_view_tko": ("latency", "allow_tma"),
    "store_view_tko": ("latency", "allow_tma"),
    "load_ptr_tko": ("latency",),
    "store_ptr_tko": ("latency",),
}


def hint_notes(op: Operation) -> Iterator[Diagnostic]:
    """Warnings about the hints of an operation."""
    if "optimization_hints" not in op.row.attribute_index:
        return
    hints = op.attribute("optimization_hints")
    if not isinstance(hints, Hints):
        return
    for name, values in hints.entries:
        if name not in _ARCHITECTURES:
            yield _note(op, f"no architecture is called '{name}'.")
        for key, value in values.entries:
            if key not in _KEYS[op.name]:
                yield _note(op, f"{op.name} has no hint '{key}'.")
            elif (said := _wrong(name, key, value)) is not None:
                yield _note(op, f"the hint '{key}' for {name} is {said}.")


def _note(op: Operation, message: str) -> Diagnostic:
    return Diagnostic("TV15", message, op.span, severity="warning")


def _wrong(name: str, key: str, value: Attribute) -> str | None:
    if key == "allow_tma":
        return None if isinstance(value, bool) else "true or false"
    number = value.value if isinstance(value, Number) and value.element.is_integer else 0
    match key:
        case "num_cta_in_cga":
            most = 1 if name.startswith("sm_8") else 16
            return None if 0 < number <= most and not number & (number - 1) else f"a power of two up to {most}"
        case "num_worker_warps_per_cta":
            return None if 0 < number <= 32 and not number & (number - 1) else "a power of two up to 32"
        case "occupancy":
            return None if 1 <= number <= 32 else "1 to 32"
        case _:
            return None if 1 <= number <= 10 else "1 to 10"
