"""Units as attributes write them, in the words of CF conventions: whether two are one, and their products.

UDUNITS itself says which spellings are one unit, where cf-units is installed; it is imported when two texts differ.
Without it, and for units that UDUNITS does not have, such as psu, texts are compared.

>>> is_same("m s-1", "m/s"), is_same("kg kg-1", "1"), is_same("kg", "g"), is_same("psu", "psu")
(True, True, False, True)
>>> product("kg m-2", "m/s", 1), product("K", "meters", -1), product("degC", "1", 1), product("degC", "m", 1)
('kg m-1 s-1', 'K meters-1', 'degC', None)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

_DEGREES = re.compile(r"°|(arc_?|angular_)?deg(ree)?s?|degrees?(_?[NESWT]|_(north|east|south|west|true))")
_FACTOR = re.compile(r"([A-Za-zµΩ]+)(?:(?:\^|\*\*)?([-+]?\d+))?")
_NO_FACTORS = frozenset(
    ["rad", "radian", "radians", "degC", "degree_C", "degrees_C", "celsius", "Celsius", "degF", "since", "per"]
)
"""Words that are no factors of products: angles, whose radius is a number without units, and scales with an offset."""


def is_degrees(units: object) -> bool:
    """True if the units of an array are degrees of an angle."""
    return isinstance(units, str) and _DEGREES.fullmatch(units.strip()) is not None


def is_same(a: str, b: str) -> bool:
    """True if two texts are one unit."""
    return a.strip() == b.strip() or _is_equal(a.strip(), b.strip())


@lru_cache(maxsize=1024)
def _is_equal(a: str, b: str) -> bool:
    known = udunits()
    if known is None or not a or not b:
        return False
    try:
        first, second = known.Unit(a), known.Unit(b)
    except ValueError:  # of a unit that UDUNITS does not have
        return False
    return not first.is_unknown() and bool(first == second)


def udunits() -> Any:
    """The package that knows the units of UDUNITS; None where it is not installed."""
    try:
        import cf_units  # pyright: ignore[reportMissingTypeStubs, reportMissingImports]
    except ImportError:
        return None
    return cf_units


def product(a: str, b: str, power: int) -> str | None:
    """The unit of a product, or with the power -1 of a quotient, of values in two units; None where nobody knows it.

    "" is the quotient of a unit by itself; a factor in the unit 1 changes none.
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
    """The powers of the factors of a unit as CF conventions and UDUNITS write it; None where it is no such product.

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
    """A unit in the words of UDUNITS, positive powers first; none for a number."""
    factors = sorted(((u, p) for u, p in powers.items() if p), key=lambda factor: factor[1] < 0)
    return " ".join(u if p == 1 else f"{u}{p}" for u, p in factors)
