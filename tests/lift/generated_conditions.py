"""Functions of TIR made at random: conditions that tie loops to each other, whiles between loops, blocks, staged parts.

A condition may fix a loop, or several, at a value, at another loop, or at a sum; two of them may exclude each other,
and loops may end where some hold.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

__all__ = ["condition_arrays", "condition_program"]

HEAD = """@T.prim_func
def main(A: T.Buffer(({0}, {0}), "int32"), B: T.Buffer(({0}, {0}), "int32"), C: T.Buffer(({1},), "int32")):
    S = T.alloc_buffer(({0}, {0}), "int32")
    W = T.alloc_buffer((2,), "int32")
    for x, y in T.grid({0}, {0}):
        S[x, y] = A[y, x] - x
    W[0] = 1
    W[1] = 0
"""


def condition_program(seed: int) -> str:
    """The text of a function of A and B (n×n) and C (3·n)."""
    r, size = random.Random(seed), _size(seed)
    lines: list[str] = []
    for _ in range(r.randint(1, 3)):
        _nest(r, size, [], lines, 0)
    return HEAD.format(size, 3 * size) + "\n".join(f"    {line}" for line in lines) + "\n"


def condition_arrays(seed: int) -> list[Any]:
    rng, size = np.random.default_rng(seed), _size(seed)
    return [rng.integers(-4, 9, shape).astype(np.int32) for shape in ((size, size), (size, size), (3 * size,))]


def _size(seed: int) -> int:
    return 3 + seed % 4


def _nest(r: random.Random, size: int, around: list[str], lines: list[str], deep: int) -> None:
    indent = "    " * deep
    kind = r.random()
    free = [n for n in "ijkl" if n not in around]
    if kind < 0.2 and around and deep < 4:
        _while(r, size, around, lines, deep)
    elif kind < 0.4 and len(free) > 1:
        _block(r, size, around, lines, deep)
    elif kind < 0.85 and free and deep < 4:
        name = r.choice(free)
        bounds = [str(size)] * 4 + ["2", f"1, {size}"] + [f"{a}, {size}" for a in around] + [f"{a} + 1" for a in around]
        lines.append(f"{indent}for {name} in range({r.choice(bounds)}):")
        _body(r, size, [*around, name], lines, deep + 1)
    else:
        _statement(r, size, around, lines, deep)


def _body(r: random.Random, size: int, loops: list[str], lines: list[str], deep: int) -> None:
    for _ in range(r.randint(1, 2)):
        if r.random() < 0.55:
            _nest(r, size, loops, lines, deep)
        else:
            _statement(r, size, loops, lines, deep)


def _while(r: random.Random, size: int, loops: list[str], lines: list[str], deep: int) -> None:
    indent, counter = "    " * deep, r.choice(["W[0]", "W[1]"])
    if any(counter in line and "while" in line for line in lines):
        return _statement(r, size, loops, lines, deep)
    last = r.choice([str(size), loops[-1], f"{loops[0]} + 2", f"A[{_place(r, size, loops)}, 0]"])
    lines.append(f"{indent}{counter} = {r.choice(['0', '0', loops[-1]])}")
    lines.append(f"{indent}while {counter} < {last}:")
    _body(r, size, loops, lines, deep + 1)
    lines.append(f"{indent}    {counter} = {counter} + {r.choice([1, 1, 2])}")
    return None


def _block(r: random.Random, size: int, around: list[str], lines: list[str], deep: int) -> None:
    indent = "    " * deep
    outer, inner = r.sample([n for n in "ijkl" if n not in around], 2)
    kinds = r.choice(["SS", "SR", "SR", "RS"])
    lines.append(f"{indent}for {outer}, {inner} in T.grid({size}, {size}):")
    lines.append(f'{indent}    with T.sblock("b{len(lines)}"):')
    indent += "        "
    if r.random() < 0.4:
        lines.append(f"{indent}T.where({_condition(r, size, [*around, outer, inner])})")
    lines.append(f'{indent}vx, vy = T.axis.remap("{kinds}", [{outer}, {inner}])')
    kept = "vx" if kinds == "SR" else "vy"
    target = "B[vx, vy]" if kinds == "SS" else r.choice([f"C[{kept}]", f"S[{kept}, 0]", f"B[1, {kept}]"])
    loops = ["vx", "vy", *around]
    if kinds != "SS":
        if r.random() < 0.7:
            lines += [f"{indent}with T.init():", f"{indent}    {target} = {r.randint(-3, 3)}"]
        lines.append(f"{indent}{target} = {target} {r.choice(['+', '-'])} {_value(r, size, loops, 1)}")
    else:
        lines.append(f"{indent}{target} = {_value(r, size, loops, 2)}")


def _statement(r: random.Random, size: int, loops: list[str], lines: list[str], deep: int) -> None:
    indent = "    " * deep
    loops = loops or ["0"]
    for _ in range(r.choice([0, 0, 1, 1, 2])):
        lines.append(f"{indent}if {_condition(r, size, loops)}:")
        indent += "    "
    if deep and r.random() < 0.08:
        lines.append(f"{indent}{r.choice(['break', 'break', 'T.ret(0)'])}")
        return
    target = _element(r, size, loops, "BSC")
    value = _value(r, size, loops, 2)
    lines.append(f"{indent}{target} = {r.choice([value, f'{target} + {value}', f'T.max({target}, {value})'])}")


def _condition(r: random.Random, size: int, loops: list[str]) -> str:
    a, b, c = (r.choice(loops) for _ in range(3))
    n = r.randint(0, size)
    return r.choice(
        [
            f"{a} == {n}", f"{a} + {b} == {n}", f"{a} == {b}", f"{a} * 2 + {b} == {c}", f"{a} - {b} == 1",
            f"{a} + {b} < {n}", f"{a} == {n} and {b} == {c}", f"{a} * {size} + {b} == {n + size}",
            f"({a} + {b}) % 2 == 0", f"{a} // 2 == {b}", f"{a} != {b}", f"{a} <= {b} and {b} < {n}",
            f"{a} + {b} == {n} or {c} == 0", f"not {a} == {b}", f"A[{_place(r, size, loops)}, {n % size}] > 1",
        ]
    )  # fmt: skip


def _value(r: random.Random, size: int, loops: list[str], depth: int) -> str:
    if depth == 0 or r.random() < 0.35:
        return r.choice([_element(r, size, loops, "AABSC"), _element(r, size, loops, "AS"), r.choice(loops), "W[0]"])
    a, b = _value(r, size, loops, depth - 1), _value(r, size, loops, depth - 1)
    return r.choice(
        [f"({a} + {b})", f"({a} - {b})", f"T.max({a}, {b})", f"T.Select({_condition(r, size, loops)}, {a}, {b})"]
    )


def _element(r: random.Random, size: int, loops: list[str], names: str) -> str:
    name = r.choice(names)
    if name == "C":
        a, b = r.choice(loops), r.choice(loops)
        return f"C[{r.choice([a, f'{a} + {b}', f'{a} * 2 + {b}', f'{a} + {size}'])}]"
    return f"{name}[{_place(r, size, loops)}, {_place(r, size, loops)}]"


def _place(r: random.Random, size: int, loops: list[str]) -> str:
    a = r.choice(loops)
    return r.choice(
        [a, a, a, f"{size - 1} - {a}", f"({a} + 1) % {size}", f"({a} + {r.choice(loops)}) // 2", str(r.randrange(size))]
    )
