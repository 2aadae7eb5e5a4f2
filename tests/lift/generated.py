"""Functions of TIR made at random: loops, guards, affine and indirect accesses, folds and updates in place."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

SIZE = 12
BUFFERS = ("A", "B", "C")


def program(seed: int) -> str:
    """The text of a function of A, B, C (12×12 integers) and I (12 places)."""
    r = random.Random(seed)
    head = ", ".join(f'{b}: T.Buffer(({SIZE}, {SIZE}), "int32")' for b in BUFFERS)
    lines = ["@T.prim_func", f'def main({head}, I: T.Buffer(({SIZE},), "int32")):']
    local = r.random() < 0.5
    if local:
        lines += [f'    t = T.alloc_buffer(({SIZE}, {SIZE}), "int32")']
        lines += [
            f"    for x, y in T.grid({SIZE}, {SIZE}):",
            f"        t[x, y] = {_expression(r, ['x', 'y'], BUFFERS, 1)}",
        ]
    names = (*BUFFERS, "t") if local else BUFFERS
    for _ in range(r.randint(1, 3)):
        lines += _nest(r, names, 1, [])
    return "\n".join(lines)


def arrays(seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    found = [rng.integers(-9, 9, (SIZE, SIZE)).astype(np.int32) for _ in BUFFERS]
    return [*found, rng.integers(0, SIZE, SIZE).astype(np.int32)]


def _nest(r: random.Random, names: Any, depth: int, loops: list[str]) -> list[str]:
    indent = "    " * depth
    lines: list[str] = []
    count = r.randint(1, 3 - len(loops) // 2)
    own = [f"i{len(loops) + k}" for k in range(count)]
    for k, name in enumerate(own):
        bounds = str(r.choice([1, 2, 3, 4, 6, SIZE]))
        if r.random() < 0.15:
            low = r.randint(0, 3)
            bounds = f"{low}, {low + int(bounds) if low + int(bounds) <= SIZE else SIZE}"
        elif r.random() < 0.15 and loops + own[:k]:
            bounds = f"{r.choice(loops + own[:k])} + 1"
        lines.append(f"{indent}{'    ' * k}for {name} in range({bounds}):")
    inside = loops + own
    indent += "    " * count
    for _ in range(r.randint(1, 2)):
        if r.random() < 0.2 and len(inside) < 4:
            lines += _nest(r, names, depth + count, inside)
        else:
            lines += [indent + line for line in _statement(r, names, inside)]
    return lines


def _statement(r: random.Random, names: Any, loops: list[str]) -> list[str]:
    target = f"{r.choice(names)}[{_index(r, loops)}, {_index(r, loops)}]"
    value = _expression(r, loops, names, 2)
    kind = r.random()
    if kind < 0.35:
        value = f"{target} {r.choice(['+', '-', '*'])} {value}" if r.random() < 0.8 else f"T.max({target}, {value})"
    elif kind < 0.5:
        value = f"T.Select({_condition(r, loops, names)}, {value}, {target})"
    lines = [f"{target} = {value}"]
    if r.random() < 0.25:
        lines = [f"if {_condition(r, loops, names)}:", f"    {lines[0]}"]
    return lines


def _index(r: random.Random, loops: list[str]) -> str:
    a, b = r.choice(loops), r.choice(loops)
    return r.choice(
        [
            a, a, a, a, f"({a} + {r.randint(1, 3)}) % {SIZE}", f"{SIZE - 1} - {a}", f"({a} * 2) % {SIZE}",
            f"({a} + {b}) % {SIZE}", f"{a} // 2", str(r.randint(0, SIZE - 1)), f"({a} * 4 + {b}) % {SIZE}",
            f"T.min({a} + 1, {SIZE - 1})", f"T.max({a} - 1, 0)", f"I[{a}]",
        ]
    )  # fmt: skip


def _expression(r: random.Random, loops: list[str], names: Any, depth: int) -> str:
    if depth == 0 or r.random() < 0.3:
        return r.choice(
            [
                f"{r.choice(names)}[{_index(r, loops)}, {_index(r, loops)}]",
                f"{r.choice(names)}[{_index(r, loops)}, {_index(r, loops)}]",
                r.choice(loops), str(r.randint(-3, 3)),
            ]
        )  # fmt: skip
    a, b = (_expression(r, loops, names, depth - 1) for _ in range(2))
    return r.choice([f"({a} + {b})", f"({a} - {b})", f"({a} * {b})", f"T.min({a}, {b})", f"T.max({a}, {b})"])


def _condition(r: random.Random, loops: list[str], names: Any) -> str:
    a = r.choice(loops)
    return r.choice(
        [
            f"{a} > {r.randint(0, 2)}", f"{a} < {r.randint(1, 8)}", f"{a} == {r.randint(0, 2)}", f"{a} % 2 == 0",
            f"{a} > 0 and {r.choice(loops)} < 5", f"{r.choice(names)}[{_index(r, loops)}, {_index(r, loops)}] > 0",
        ]
    )  # fmt: skip
