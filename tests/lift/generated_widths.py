"""Loops of int32 and int64 with starts of their own, made at random; numbers as large as types hold, and casts."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

__all__ = ["width_arrays", "width_program"]

SIZE = 24
WHOLE = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
LARGE = [1, 2, 3, 7, 100, 127, 128, 255, 256, 1_000, 32_767, 65_536, 1_000_000_000, (1 << 31) - 1]


def width_program(seed: int) -> str:
    """The text of a function of A, B and C, all of one type of whole numbers, which writes B and C."""
    r = random.Random(seed)
    return _Text(r, _element(seed)).function()


def width_arrays(seed: int) -> list[Any]:
    rng, element = np.random.default_rng(seed), _element(seed)
    limits = np.iinfo(element)
    return [
        rng.integers(limits.min, limits.max, SIZE, dtype=element, endpoint=True)
        if rng.random() < 0.5
        else rng.integers(0, 20, SIZE).astype(element)
        for _ in range(3)
    ]


def _element(seed: int) -> str:
    return random.Random(-seed - 1).choice(WHOLE)


class _Text:
    def __init__(self, r: random.Random, element: str) -> None:
        self.r, self.element = r, element
        self.loops: list[tuple[str, str]] = []

    def function(self) -> str:
        lines = [line for name in "ijk"[: self.r.randint(1, 3)] for line in [self.loop(name)]]
        for _ in range(self.r.randint(1, 2)):
            lines += self.statement()
        declared = ", ".join(f'{name}: T.Buffer(({SIZE},), "{self.element}")' for name in "ABC")
        return f"@T.prim_func\ndef main({declared}):\n" + "\n".join(lines) + "\n"

    @property
    def indent(self) -> str:
        return "    " * (len(self.loops) + 1)

    def loop(self, name: str) -> str:
        r, kind = self.r, self.r.choice(["int32", "int32", "int64"])
        low, extent = r.choice([0, 0, -3, 2, 5, -7]), r.choice([1, 2, 3, 5, 7])
        before = [n for n, k in self.loops if k == kind]
        bounds = f"T.{kind}({low}), T.{kind}({low + extent})"
        if before and r.random() < 0.3:
            outer = r.choice(before)
            bounds = r.choice([f"{bounds} + {outer}", f"{outer}, {outer} + T.{kind}({extent})"])
        line = f"{self.indent}for {name} in {r.choice(['T.serial', 'T.unroll', 'range'])}({bounds}):"
        self.loops.append((name, kind))
        return line

    def statement(self) -> list[str]:
        r = self.r
        target, value = r.choice("BC"), self.value(self.element, r.randint(1, 3))
        match r.randint(0, 4):
            case 0:
                place = self.place()
                return [f"{self.indent}{target}[{place}] = {target}[{place}] + {value}"]
            case 1 | 2:
                holds = f"{self.value('int32', 1)} {r.choice(['<', '>=', '!='])} {self.value('int32', 1)}"
                return [f"{self.indent}if {holds}:", f"{self.indent}    {target}[{self.place()}] = {value}"]
            case _:
                return [f"{self.indent}{target}[{self.place()}] = {value}"]

    def place(self) -> str:
        name, kind = self.r.choice(self.loops)
        return (
            f"T.floormod({name} * T.{kind}({self.r.choice([1, 1, 2, 3, -1])}) + T.{kind}({self.r.randint(0, 30)}), "
            f"T.{kind}({SIZE}))"
        )

    def value(self, kind: str, depth: int) -> str:
        r = self.r
        if depth == 0 or r.random() < 0.15:
            return self.leaf(kind)
        match r.randint(0, 9):
            case 0 | 1 | 2 | 3 | 4:
                return f"({self.value(kind, depth - 1)} {r.choice('+-*')} {self.value(kind, depth - 1)})"
            case 5:
                return f"({self.value(kind, depth - 1)} {r.choice(['//', '%'])} T.{kind}({r.choice([2, 3, 7, 100])}))"
            case 6:
                return f"T.{r.choice(['min', 'max'])}({self.value(kind, depth - 1)}, {self.value(kind, depth - 1)})"
            case 7:
                return f'T.Cast("{kind}", {self.value(r.choice(WHOLE), depth - 1)})'
            case _:
                other = r.choice(["int32", "int64", self.element])
                sides = self.value(other, depth - 1), self.value(other, depth - 1)
                chosen = self.value(kind, depth - 1), self.value(kind, depth - 1)
                holds = f" {r.choice(['<', '<=', '==', '!=', '>'])} ".join(sides)
                return f"T.{r.choice(['Select', 'if_then_else'])}({holds}, {', '.join(chosen)})"

    def leaf(self, kind: str) -> str:
        r = self.r
        name, own = r.choice(self.loops)
        number = f"T.{kind}({r.choice([n for n in LARGE if n <= np.iinfo(kind).max])})"
        if r.random() < 0.6:
            variable = name if own == kind else f'T.Cast("{kind}", {name})'
            return variable if r.random() < 0.5 else f"({variable} * {number})"
        return f"A[{self.place()}]" if r.random() < 0.5 and kind == self.element else number
