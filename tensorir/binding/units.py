"""Units as attributes write them, in the words of CF conventions: whether two are one, and their products.

UDUNITS itself says which spellings are one unit, where cf-units is installed; it is imported when two texts differ.
Without it, and for units that UDUNITS does not have, such as psu, texts are compared.

>>> is_same("m s-1", "m/s"), is_same("kg kg-1", "1"), is_same("kg", "g"), is_same("psu", "psu")
(True, True, False, True)
>>> product("kg m-2", "m/s", 1), product("K", "meters", -1), product("degC", "1", 1), product("degC", "m", 1)
('kg m-1 s-1', 'K meters-1', 'degC', None)
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from tensorir.binding.arrays import is_tuple
from tensorir.runtime.errors import refuse

_DEGREES = re.compile(r"°|(arc_?|angular_)?deg(ree)?s?|degrees?(_?[NESWT]|_(north|east|south|west|true))")
_FACTOR = re.compile(r"([A-Za-zµΩ]+)(?:(?:\^|\*\*)?([-+]?\d+))?")
_NO_FACTORS = frozenset(
    ["rad", "radian", "radians", "degC", "degree_C", "degrees_C", "celsius", "Celsius", "degF", "since", "per"]
)
"""Words that are no factors of products: angles, which have no dimension, and temperature scales with an offset."""


def is_degrees(units: object) -> bool:
    """True if the units of an array are degrees of an angle."""
    return isinstance(units, str) and _DEGREES.fullmatch(units.strip()) is not None


def is_same(a: str, b: str) -> bool:
    """True if two texts denote one unit: the same text, or equal for UDUNITS where it is installed."""
    return a.strip() == b.strip() or _is_equal(a.strip(), b.strip())


@lru_cache(maxsize=1024)
def _is_equal(a: str, b: str) -> bool:
    """True if UDUNITS knows both units and they are equal; False where cf-units is not installed."""
    cf_units = udunits()
    if cf_units is None or not a or not b:
        return False
    try:
        first, second = cf_units.Unit(a), cf_units.Unit(b)
    except ValueError:  # of a unit that UDUNITS does not have
        return False
    return not first.is_unknown() and bool(first == second)


def udunits() -> Any:
    """The module `cf_units`, which wraps UDUNITS; None where it is not installed."""
    try:
        import cf_units  # pyright: ignore[reportMissingTypeStubs, reportMissingImports]
    except ImportError:
        return None
    return cf_units


def product(a: str, b: str, power: int) -> str | None:
    """The unit a × b, or a / b with the power -1; None where one of them is no product of powers, such as "degC".

    A factor or divisor "1" leaves the other unit as it is written; "" is the quotient of a unit by itself.
    """
    first, second = powers_of(a), powers_of(b)
    if second is not None and not any(second.values()):
        return a
    if first is not None and power == 1 and not any(first.values()):
        return b
    if first is None or second is None:
        return None
    # seconds beside s: the name of the first
    names = {u: u if u in first else next((v for v in first if is_same(u, v)), u) for u in second}
    powers = dict(first)
    for u, p in second.items():
        powers[names[u]] = powers.get(names[u], 0) + power * p
    return written(powers)


def powers_of(unit: str) -> dict[str, int] | None:
    """The power of each factor of a unit as CF conventions and UDUNITS write it; None for any other text.

    >>> powers_of("kg m-2 s-1"), powers_of("m/s^2"), powers_of("1"), powers_of("degC"), powers_of("")
    ({'kg': 1, 'm': -2, 's': -1}, {'m': 1, 's': -2}, {}, None, None)
    """
    powers: dict[str, int] = {}
    words = [w for w in re.split(r"\s+|\.|(?<!\*)\*(?!\*)", re.sub(r"\s*/\s*", " /", unit)) if w]
    for word in words:
        name = word.removeprefix("/")
        if name == "1":
            continue
        match = _FACTOR.fullmatch(name)
        if match is None or match[1] in _NO_FACTORS or is_degrees(match[1]):
            return None
        powers[match[1]] = powers.get(match[1], 0) + (1 if name == word else -1) * int(match[2] or 1)
    return powers if words else None


def written(powers: Mapping[str, int]) -> str:
    """The UDUNITS text of a product of powers, positive powers first; "" for no factors."""
    factors = sorted(((u, p) for u, p in powers.items() if p), key=lambda factor: factor[1] < 0)
    return " ".join(u if p == 1 else f"{u}{p}" for u, p in factors)


MULTIPLES = 1e-5
"""The relative tolerance for multiples of π/180: π is written with five digits and more."""


def in_radians(factor: float) -> bool:
    """True if a factor converts degrees to radians: π/180 times an integer n or times 1/n.

    >>> in_radians(1.0), in_radians(math.pi / 180), in_radians(-math.pi / 90), in_radians(1.3), in_radians(math.nan)
    (False, True, True, False, False)
    """
    if not math.isfinite(factor) or not factor:
        return False
    multiple = factor * 180 / math.pi
    if not 1e-300 < abs(multiple) < 1e300:
        return False
    return any(round(y) and abs(y / round(y) - 1) < MULTIPLES for y in (multiple, 1 / multiple))


def without_pint(value: Any) -> tuple[Any, Any]:
    """An argument with pint's units moved to the attribute `units`, and the pint registry (None without pint).

    Takes a DataArray, a Dataset or a tuple of these, and returns any other value as it came. Raises A33 for units on a
    scale with an offset.
    """
    if is_tuple(value):
        members = [without_pint(v) for v in value]
        make = getattr(type(value), "_make", tuple)
        return make(v for v, _ in members), next((r for _, r in members if r is not None), None)
    if getattr(value, "data_vars", None) is not None:
        members = {n: without_pint(v) for n, v in value.data_vars.items()}
        registry = next((r for _, r in members.values() if r is not None), None)
        return (value if registry is None else value.assign({n: v for n, (v, _) in members.items()})), registry
    data = getattr(getattr(value, "variable", None), "_data", None)
    registry = getattr(data, "_REGISTRY", None)
    if data is None or registry is None:
        return value, None
    if registry.Quantity(0.0, data.units).to_base_units().magnitude:
        name = value.name or "x"
        message = (
            f"'{name}' is held by pint in {data.units}, a scale with an offset, whose differences have another unit"
        )
        raise refuse("A33", f"{message}.", f"convert it: {name}.pint.to('K').")
    powers = {f"{registry.Unit(n):~}": p for n, p in data.units._units.items()}
    units = written({n: int(p) for n, p in powers.items()}) if all(int(p) == p for p in powers.values()) else ""
    return value.copy(data=data.magnitude).assign_attrs(units=units or f"{data.units:~}" or "1"), registry


def with_pint(result: Any, registry: Any) -> Any:
    """A result (DataArray, Dataset or tuple) whose attribute `units` became a pint quantity of this registry.

    It is returned as it came where it has no units, or units that the registry lacks.
    """
    if is_tuple(result):
        return getattr(type(result), "_make", tuple)(with_pint(v, registry) for v in result)
    if getattr(result, "data_vars", None) is not None:
        return result.assign({n: with_pint(v, registry) for n, v in result.data_vars.items()})
    units = getattr(result, "attrs", {}).get("units")
    if units is None:
        return result
    powers = powers_of(units)
    text = units if powers is None else " * ".join(f"{n} ** {p}" for n, p in powers.items())
    try:
        quantity = registry.Quantity(result.data, text)
    except (AttributeError, ValueError):  # a unit that the registry does not have
        return result
    other_attrs = {n: v for n, v in result.attrs.items() if n != "units"}
    return result.copy(data=quantity).drop_attrs(deep=False).assign_attrs(other_attrs)
