"""Names and units for results that can carry them."""

from __future__ import annotations

from typing import Any

__all__ = ["Values", "labelled"]

Values = Any
"""A number, a NumPy array or a DataArray; what comes out is of the kind that went in."""


def labelled(values: Values, name: str, units: str, long_name: str) -> Values:
    """The same values; a DataArray gets the name and, as its only attributes, the units and the long name."""
    if hasattr(values, "attrs"):
        values = values.rename(name)
        values.attrs = {"units": units, "long_name": long_name}
    return values
