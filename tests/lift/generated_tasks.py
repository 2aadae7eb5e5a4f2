"""Functions of TIR made at random: tiles of a matrix as tasks of one loop, which fill storage of their own and read it.

A task's number is two digits in some order; tiles may be uneven, windows overlap, and loops may be longer
than what they do. What is stored is the task's alone, or one buffer's that all tasks share and fill where they read.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["task_arrays", "task_program"]


def task_program(seed: int) -> str:
    """The text of a function of A and B, both n×m."""
    return _Tasks(random.Random(seed), *_sizes(seed)).text()


def task_arrays(seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [rng.integers(-9, 9, _sizes(seed)).astype(np.int32) for _ in range(2)]


def _sizes(seed: int) -> tuple[int, int]:
    r = random.Random(f"sizes {seed}")
    return r.randint(3, 7), r.randint(3, 6)


@dataclass(slots=True)
class _Tasks:
    r: random.Random
    n: int
    m: int

    def text(self) -> str:
        r, n, m = self.r, self.n, self.m
        tile, wide = r.randint(1, 3), r.randint(1, 3)
        rows, columns = -(-n // tile), -(-m // wide)
        row, column = self.digits(rows, columns)
        high, long = tile + r.randrange(4), wide + r.randrange(4)
        top, left = f"{row} * {tile}", f"{column} * {wide}"
        here = f"{top} + {{}} < {n} and {left} + {{}} < {m}"
        # storage of the task's own, in one axis more than it needs, or all tasks'
        own, more = r.random() < 0.6, r.random() < 0.3
        shape = [high, long] if own else [rows * tile + high, columns * wide + long]
        shape = [1, *shape] if more else shape

        def kept(i: str, j: str) -> str:
            places = [i, j] if own else [f"{top} + {i}", f"{left} + {j}"]
            return f"S[{', '.join([r.choice(['z', '0'])] * more + places)}]"

        def there(i: str, j: str) -> str:
            return f"T.if_then_else({here.format(i, j)}, {kept(i, j)}, 1)"

        longer = r.choice([0, 0, 2])
        fill = ["z < 1", f"i < {high}"] if longer or more else []
        value = r.choice(["A[{0}, {1}] * 3", "A[{0}, {1}] + i", "A[{0}, {1}] - {1}"]).format(
            f"{top} + i", f"{left} + j"
        )
        everywhere = r.random() < 0.5
        value = f"T.if_then_else({here.format('i', 'j')}, {value}, {r.choice([0, 7])})" if everywhere else value
        fill += [] if everywhere else [here.format("i", "j")]
        body = [f"for z, i, j in T.grid({r.choice([1, 2]) if more else 1}, {high + longer}, {long}):"]
        body += self.under(fill, f"{kept('i', 'j')} = {value}")
        if r.random() < 0.3 and long > 1:
            body.append(f"for z, i, j in T.grid(1, {high}, {long - 1}):")
            step = f"{kept('i', 'j + 1')} = {kept('i', 'j + 1')} + {kept('i', 'j')}"
            body += self.under([here.format("i", "j + 1")], step)
        body += self.reading(tile, wide, high, long, f"B[{top} + i, {left} + j]", here, there)
        if r.random() < 0.3:
            first = f"B[{top}, {left}]"
            body.append(f"{first} = {first} + {r.choice(['1', 'A[0, 0]', 't'])}")
        return self.function(body, rows * columns, "".join(f"{s}, " for s in shape))

    def digits(self, rows: int, columns: int) -> tuple[str, str]:
        """The row and the column of a task: digits of its number, of which one may be written as two."""
        if self.r.random() < 0.5:
            return f"(t // {columns})", f"(t % {columns})"
        if rows % 2 == 0 and self.r.random() < 0.5:
            return f"(t % {rows} // 2 * 2 + t % 2)", f"(t // {rows})"
        return f"(t % {rows})", f"(t // {rows})"

    def reading(self, tile: int, wide: int, high: int, long: int, target: str, here: str, there: Any) -> list[str]:
        """What a task makes of what it stored."""
        r = self.r
        down, along = r.randint(0, high - tile), r.randint(0, long - wide)
        found = [f"for z, i, j in T.grid({r.choice([1, 2])}, {tile + r.choice([0, 1])}, {wide}):"]
        inside = ["z < 1", f"i < {tile}", here.format("i", "j")]
        match r.choice(["copy", "more", "sum", "largest"]):
            case "copy":
                return found + self.under(inside, f"{target} = {there(f'i + {down}', f'j + {along}')} - 1")
            case "more":
                return found + self.under(inside, f"{target} = {target} + {there(f'i + {down}', f'j + {along}')}")
            case kind:
                value = there("i + k", f"j + {along}")
                step = f"{target} + {value}" if kind == "sum" else f"T.max({target}, {value})"
                loop = [f"for k in range({down + 1}):", "    if k == 0:", f"        {target} = {r.choice([0, -5])}"]
                return found + self.under(inside, *loop, f"    {target} = {step}")

    def under(self, conditions: list[str], *lines: str) -> list[str]:
        if not conditions:
            return [f"    {line}" for line in lines]
        return [f"    if {' and '.join(conditions)}:", *(f"        {line}" for line in lines)]

    def function(self, body: list[str], tasks: int, shape: str) -> str:
        r = self.r
        inside = r.random() < 0.5
        kind = r.choice(["alloc_buffer", "sblock_alloc_buffer"])
        storage = f'S = T.{"alloc_buffer" if inside else kind}(({shape}), "int32")'
        shared = not inside and kind == "alloc_buffer"
        extra = r.choice([0, 0, 3])
        lines = [] if inside else [storage]
        lines.append(f"for t in {'range' if shared or r.random() < 0.5 else 'T.parallel'}({tasks + extra}):")
        body = [storage, *body] if inside else body
        lines += self.under([f"t < {tasks}"] if extra else [], *body)
        matrix = f'T.Buffer(({self.n}, {self.m}), "int32")'
        return f"@T.prim_func\ndef main(A: {matrix}, B: {matrix}):\n" + "".join(f"    {line}\n" for line in lines)
