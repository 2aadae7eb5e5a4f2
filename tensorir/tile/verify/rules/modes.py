"""Which roundings and flushes an operation on floats has, by its element type."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tensorir.tile.nodes import Operation
from tensorir.tile.types import Tile

__all__ = ["RULES"]

_IEEE = ("nearest_even", "zero", "negative_inf", "positive_inf")


@dataclass(frozen=True, slots=True)
class Modes:
    """Roundings for every element type, further ones for f32, and whether f32 may flush to zero."""

    every: tuple[str, ...] = ()
    f32: tuple[str, ...] = ()
    flush: bool = False


MODES = {
    **dict.fromkeys(("addf", "subf", "mulf", "fma"), Modes(_IEEE, (), True)),
    "divf": Modes(_IEEE, ("approx", "full"), True),
    "sqrt": Modes(_IEEE, ("approx",), True),
    **dict.fromkeys(("rsqrt", "exp2", "maxf", "minf"), Modes((), (), True)),
    **dict.fromkeys(("exp", "tanh"), Modes(("full",), ("approx",))),
}


def _element(op: Operation) -> Any:
    type = op.results[0].type
    assert isinstance(type, Tile)
    return type.element


def _rule(modes: Modes) -> Callable[[Operation], Iterator[tuple[str, str]]]:
    def check(op: Operation) -> Iterator[tuple[str, str]]:
        element = _element(op)
        mode = op.attribute("rounding_mode") if "rounding_mode" in op.row.attribute_index else None
        flushes = "flush_to_zero" in op.row.attribute_index and bool(op.attribute("flush_to_zero"))
        if mode is not None:
            allowed = modes.every + (modes.f32 if element.name == "f32" else ())
            if mode not in (*modes.every, *modes.f32):
                yield "TV04", f"{op.name} has no rounding {mode}."
            elif mode not in allowed:
                yield "TV04", f"{op.name} rounds {mode} for f32 only, and not for {element}."
            elif mode in ("approx", "full") and flushes and op.name not in ("divf", "sqrt"):
                yield "TV04", f"{op.name} with rounding {mode} does not flush to zero."
        if flushes and element.name != "f32":
            yield "TV04", f"{op.name} flushes to zero for f32 only, and not for {element}."

    return check


def _ftof(op: Operation) -> Iterator[tuple[str, str]]:
    source, target, mode = op.operands[0], _element(op), op.attribute("rounding_mode")
    if source is not None and not isinstance(source, tuple) and source.type == op.results[0].type:
        yield "TV05", f"ftof gives another type than {target}."
    allowed = ("zero", "positive_inf") if target.name == "f8E8M0FNU" else ("nearest_even",)
    if mode not in allowed:
        yield "TV04", f"ftof to {target} rounds {' or '.join(allowed)}, and not {mode}."


def _itof(op: Operation) -> Iterator[tuple[str, str]]:
    if _element(op).name == "f8E8M0FNU":
        yield "TV05", "itof gives no f8E8M0FNU."
    if op.attribute("rounding_mode") != "nearest_even":
        yield "TV04", f"itof rounds nearest_even, and not {op.attribute('rounding_mode')}."


def _ftoi(op: Operation) -> Iterator[tuple[str, str]]:
    if op.attribute("rounding_mode") != "nearest_int_to_zero":
        yield "TV04", f"ftoi rounds nearest_int_to_zero, and not {op.attribute('rounding_mode')}."


def _divi(op: Operation) -> Iterator[tuple[str, str]]:
    mode = op.attribute("rounding")
    if mode not in ("zero", "positive_inf", "negative_inf"):
        yield "TV04", f"divi rounds zero, positive_inf or negative_inf, and not {mode}."
    elif mode == "negative_inf" and op.attribute("signedness") == "unsigned":
        yield "TV04", "divi rounds negative_inf for signed numbers only."


def _negi(op: Operation) -> Iterator[tuple[str, str]]:
    if op.attribute("overflow") == "no_unsigned_wrap":
        yield "TV04", "negi is signed, and has no overflow no_unsigned_wrap."


RULES: dict[str, Callable[[Operation], Iterator[tuple[str, str]]]] = {
    **{name: _rule(modes) for name, modes in MODES.items()},
    "ftof": _ftof,
    "itof": _itof,
    "ftoi": _ftoi,
    "divi": _divi,
    "negi": _negi,
}
