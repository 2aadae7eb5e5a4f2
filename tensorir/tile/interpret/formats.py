"""What print_tko prints: the items of C's printf, an array of them for a tile that is no scalar.

>>> import numpy as np
>>> from tensorir.tile.elements import ELEMENTS
>>> formatted("%d and %5.2f%%", [(np.array([1, -2], np.int32), ELEMENTS["i32"]), (np.float32(1.5), ELEMENTS["f32"])])
'[1, -2] and  1.50%'
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from tensorir.tile.elements import Element
from tensorir.tile.interpret.integers import unsigned

__all__ = ["ITEM", "formatted", "items_of"]

ITEM = re.compile(r"%(?:%|([^diuoxXeEfFgGaAcsSpn%]*)([diuoxXeEfFgGaAcsSpn]))")
_FLAGS = re.compile(r"[-+ #0]*\d*(?:\.\d+)?")


def items_of(text: str) -> int | None:
    """How many values a format takes; None where an item does not end."""
    found = ITEM.findall(text)
    rest = ITEM.sub("", text)
    return None if "%" in rest else sum(bool(kind) for _, kind in found)


def formatted(text: str, values: Sequence[tuple[Any, Element]]) -> str:
    """The text with a value for each item."""
    given = iter(values)

    def item(found: re.Match[str]) -> str:
        if found[2] is None:
            return "%"
        value, element = next(given)
        return _spelled(np.asarray(value), element, found[1], found[2])

    return ITEM.sub(item, text)


def _spelled(value: Any, element: Element, flags: str, kind: str) -> str:
    if value.ndim:
        return f"[{', '.join(_spelled(v, element, flags, kind) for v in value)}]"
    plain = _FLAGS.match(flags)
    flags = plain[0] if plain else ""
    if kind in "uoxXp" and not element.is_float:
        value = unsigned(value, element)
    number = float(value) if kind in "eEfFgGaA" else int(value)
    if kind in "aA":
        text = number.hex() if isinstance(number, float) else str(number)
        return text.upper() if kind == "A" else text
    if kind in "csSn":
        return chr(int(number) & 0x7F) if kind == "c" else str(number)
    return f"%{flags}{'d' if kind in 'iu' else 'x' if kind == 'p' else kind}" % number
