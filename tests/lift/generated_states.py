"""Functions of TIR made at random: storage that rounds hand on, under several names for a place, in odd loops.

Loops have steps, bounds that data or other loops tell, no rounds at all, or are left early, as the function is; loops
that follow each other share their names; one buffer has no axes.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

__all__ = ["state_arrays", "state_program"]

HEAD = """@T.prim_func
def main(A: T.Buffer(({0}, {0}), "int32"), B: T.Buffer(({0},), "int32"), P: T.Buffer(({1},), "int32"),
         Z: T.Buffer((), "int32")):
    L = T.alloc_buffer(({0},), "int32")
    for z in range({0}):
        L[z] = B[z] - z
"""


def state_program(seed: int) -> str:
    """The text of a function of A (n×n), B (n), P (n + 1) and Z (one number)."""
    r = random.Random(seed)
    size = _size(seed)
    lines: list[str] = []
    for _ in range(r.randint(1, 2)):
        _loop(r, size, [], lines)
    return HEAD.format(size, size + 1) + "\n".join(lines) + "\n"


def state_arrays(seed: int) -> list[Any]:
    rng, size = np.random.default_rng(seed), _size(seed)
    shapes = ((size, size), (size,), (size + 1,), ())
    return [np.asarray(rng.integers(0 if k == 2 else -5, 7, shape), np.int32) for k, shape in enumerate(shapes)]


def _size(seed: int) -> int:
    return 2 + seed % 4


def _loop(r: random.Random, size: int, around: list[str], lines: list[str]) -> None:
    indent = "    " * (len(around) + 1)
    name = r.choice([n for n in "ijk" if n not in around])
    bounds = [str(size)] * 4 + [
        f"0, {size}, 2",
        f"{size - 1}, {size - 1}",
        f"P[0] % {size + 1}",
        f"P[1] % {size}, {size}",
    ]
    for outer in around:
        bounds += [f"{outer} + 1", f"{outer}, {size}", f"{outer} + 1, {size}, 2", f"P[{outer}] % {size}"]
    lines.append(f"{indent}for {name} in range({r.choice(bounds)}):")
    inside = [*around, name]
    for _ in range(r.randint(1, 3)):
        if r.random() < 0.4 and len(inside) < 3:
            _loop(r, size, inside, lines)
        elif r.random() < 0.15:
            lines.append(f"{indent}    if {_condition(r, size, inside)}:")
            lines.append(f"{indent}        {r.choice(['break', 'continue', 'T.ret(0)'])}")
        else:
            guarded = r.random() < 0.25
            if guarded:
                lines.append(f"{indent}    if {_condition(r, size, inside)}:")
            lines.append(f"{indent}    {'    ' * guarded}{_store(r, size, inside)}")


def _store(r: random.Random, size: int, loops: list[str]) -> str:
    target = _element(r, size, loops)
    value = r.choice([_element(r, size, loops), f"{_element(r, size, loops)} + {_element(r, size, loops)}", loops[-1]])
    return f"{target} = {r.choice([value, value, f'{target} + {value}', f'T.max({target}, {value})'])}"


def _element(r: random.Random, size: int, loops: list[str]) -> str:
    return r.choice(
        [
            f"L[{_place(r, size, loops)}]", f"L[{_place(r, size, loops)}]", f"B[{_place(r, size, loops)}]",
            f"A[{_place(r, size, loops)}, {_place(r, size, loops)}]", "Z[()]",
        ]
    )  # fmt: skip


def _place(r: random.Random, size: int, loops: list[str]) -> str:
    a = r.choice(loops)
    return r.choice(
        [
            a, a, a, f"{a} * {size + 1} % {size}", f"({a} + 1) % {size}", f"{size - 1} - {a}", f"T.max({a} - 1, 0)",
            f"T.min({a} + 1, {size - 1})", f"{a} // 2", str(r.randint(0, size - 1)),
        ]
    )  # fmt: skip


def _condition(r: random.Random, size: int, loops: list[str]) -> str:
    a, element = r.choice(loops), _element(r, size, loops)
    return r.choice([f"{a} < {r.choice(loops)}", f"{a} == {r.randint(0, size - 1)}", f"{element} > 1", f"{a} % 2 == 0"])
