"""What the notation accepts at most. Text beyond a limit gets a diagnostic that states the limit."""

from __future__ import annotations

__all__ = [
    "MAX_BOUND",
    "MAX_DIGITS",
    "MAX_FINDINGS",
    "MAX_NESTING",
    "MAX_POINTS",
    "MAX_TEXT",
    "MAX_TOKENS",
    "MAX_TUPLE_NESTING",
]

MAX_TEXT = 64 * 2**20
"""Characters of a text, and bytes of a file."""

MAX_TOKENS = 500_000
"""Words, numbers and signs of a text."""

MAX_NESTING = 30_000
"""Brackets inside of brackets, and expressions inside of expressions."""

MAX_TUPLE_NESTING = 100
"""Tuples inside of tuples, in an element type."""

MAX_DIGITS = 1_000
"""Characters of one number."""

MAX_BOUND = 2**62
"""The magnitude of a bound of an interval, and of every other whole number that belongs to the program's form."""

MAX_POINTS = 2**40
"""Points of one tensor."""

MAX_FINDINGS = 20
"""Diagnostics that are shown at once."""
