"""Whole numbers made at random: sums, products, quotients, shifts and casts of loop variables and data that wrap."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

__all__ = ["number_arrays", "number_program"]

ELEMENTS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64"]
SIZE = 24


def number_program(seed: int) -> str:
    """One statement in a loop: an expression of one element type, of the loop's variable and of two arrays."""
    r = random.Random(seed)
    element = r.choice(ELEMENTS)
    value = _value(r, element, r.randint(2, 4))
    declared = ", ".join(f'{name}: T.Buffer(({SIZE},), "{element}")' for name in "ABC")
    return f"@T.prim_func\ndef main({declared}):\n    for i in range({SIZE}):\n        C[i] = {value}\n"


def number_arrays(seed: int) -> list[Any]:
    r = np.random.default_rng(seed)
    element = np.dtype(random.Random(seed).choice(ELEMENTS))
    limits = np.iinfo(element)
    arrays = [r.integers(limits.min, limits.max, SIZE, dtype=element, endpoint=True) for _ in range(3)]
    arrays[1] %= 50
    return arrays


def _number(r: random.Random, element: str) -> str:
    most = np.iinfo(element).max
    large = [n for n in (1_000, 200_000_000, 3_000_000_000, 1 << 40, most // 3, most) if n <= most]
    small = [1, 2, 3, 4, 5, 7, 8, 12, 16, 20, 64, 100, 127]
    return f"T.{element}({r.choice(small if r.random() < 0.8 else large)})"


def _value(r: random.Random, element: str, depth: int) -> str:
    if depth == 0:
        leaf = r.choice([f'T.Cast("{element}", i)', f'T.Cast("{element}", i)', "A[i]", "B[i]", _number(r, element)])
        return leaf if r.random() < 0.7 else f"({leaf} * {_number(r, element)})"

    def part() -> str:
        return _value(r, element, depth - 1)

    match r.randint(0, 11):
        case 0 | 1 | 2:
            return f"({part()} {r.choice('+-*')} {part()})"
        case 3 | 4 | 5:
            return f"({part()} {r.choice(['//', '%'])} {_number(r, element)})"
        case 6:
            return f"T.{r.choice(['truncdiv', 'truncmod'])}({part()}, {_number(r, element)})"
        case 7:
            return f"T.{r.choice(['min', 'max', 'bitwise_and', 'bitwise_or', 'bitwise_xor'])}({part()}, {part()})"
        case 8:
            amount = r.randint(0, min(np.dtype(element).itemsize * 8 - 1, 20))
            return f"T.{r.choice(['shift_left', 'shift_right'])}({part()}, T.{element}({amount}))"
        case 9:
            compared = f"{part()} {r.choice(['<', '<=', '>', '>=', '==', '!='])} {part()}"
            return f"T.{r.choice(['Select', 'if_then_else'])}({compared}, {part()}, {part()})"
        case 10:
            other = r.choice(ELEMENTS)
            return f'T.Cast("{element}", T.Cast("{other}", {part()}) {r.choice("+-*")} {_number(r, other)})'
        case _:
            other = r.choice(ELEMENTS)
            return f'T.Cast("{element}", {_value(r, other, 0).replace("A[i]", "i").replace("B[i]", "i")})'
