"""Constants of live modules of TVM: what `metadata["key"][index]` in their printed text stands for.

TVM 0.27 numbers the constants as it prints them and keeps the numbers to itself, but underlines objects on request:
with half of the constants underlined at a time, a few prints tell which reference is which constant.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

__all__ = ["constants_of"]

_REFERENCE = re.compile(r'metadata\["([^"]*)"\]\[(\d+)\]')


def constants_of(live: Any, text: str) -> Mapping[str, object] | None:
    """The arrays that the text of a live module of Relax refers to, by key and index; None where it refers to none."""
    if not _REFERENCE.search(text):
        return None
    constants = list(_constants(live))
    numbers: dict[tuple[str, int], int] = {}
    for bit in range(len(constants).bit_length()):
        chosen = [constant for k, constant in enumerate(constants, 1) if k >> bit & 1]
        for reference in _underlined(live.script(obj_to_underline=chosen)):
            numbers[reference] = numbers.get(reference, 0) | 1 << bit
    found: dict[str, dict[int, object]] = {}
    for (key, index), number in numbers.items():
        found.setdefault(key, {})[index] = _value(constants[number - 1]).numpy()
    return found


def _constants(live: Any) -> Iterator[Any]:
    """The constants of the functions of Relax, each once."""
    functions = [f for _, f in live.functions_items()] if hasattr(live, "functions_items") else [live]
    functions = [f for f in functions if "relax" in type(f).__module__]
    if not functions:
        return
    visit: Callable[..., None] = importlib.import_module("tvm.relax.analysis").post_order_visit
    met: list[Any] = []
    for function in functions:
        visit(function, met.append)
    seen: set[int] = set()
    for expr in met:
        if hasattr(_value(expr), "numpy") and hash(expr) not in seen:
            seen.add(hash(expr))
            yield expr


def _value(expr: Any) -> Any:
    """The array of a constant; its field was named otherwise before 0.27."""
    return getattr(expr, "value", getattr(expr, "data", None))


def _underlined(text: str) -> Iterator[tuple[str, int]]:
    """The references above the marks in a printed text."""
    above = ""
    for line in filter(str.strip, text.splitlines()):
        if not line.strip("^ "):
            for match in _REFERENCE.finditer(above):
                if "^" in line[match.start() : match.end()]:
                    yield match[1], int(match[2])
        else:
            above = line
