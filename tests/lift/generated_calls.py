"""Modules of TIR made at random: functions that take buffers, return early, keep values, and call each other.

A buffer may be passed as two parameters; values that lets keep may change before they are used; choices, and conditions
of whiles, may decide whether a function is called.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

__all__ = ["call_arrays", "call_module"]

SIZE = 6
HEAD = """@I.ir_module
class Module:
"""
MAIN = """    @T.prim_func
    def main(A: T.Buffer((6,), "int32"), B: T.Buffer((6,), "int32"), C: T.Buffer((6,), "int32")):
"""


def call_module(seed: int) -> str:
    """The text of a module whose `main` takes A, B and C (6 each)."""
    r = random.Random(seed)
    text = HEAD
    known: list[tuple[str, bool]] = []
    for name in ("f", "g")[: r.randint(1, 2)]:
        returns = r.random() < 0.5
        text += _function(r, name, returns, known)
        known.append((name, returns))
    lines: list[str] = []
    for _ in range(r.randint(2, 4)):
        lines += _statement(r, ["A", "B", "C"], known, [], 0, None)
    return text + MAIN + "".join(f"        {line}\n" for line in lines)


def call_arrays(seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [rng.integers(-5, 9, SIZE).astype(np.int32) for _ in range(3)]


def _function(r: random.Random, name: str, returns: bool, known: list[tuple[str, bool]]) -> str:
    result = " -> T.int32" if returns else ""
    lines = [
        "    @T.prim_func(private=True)",
        f"    def {name}(p: T.handle, q: T.handle, n: T.int32){result}:",
        '        P = T.match_buffer(p, (6,), "int32")',
        '        Q = T.match_buffer(q, (6,), "int32")',
    ]
    for _ in range(r.randint(1, 3)):
        lines += [f"        {line}" for line in _statement(r, ["P", "Q"], known, ["n"], 0, returns)]
    if returns:
        lines.append(f"        T.ret({_value(r, ['P', 'Q'], ['n'], 1)})")
    return "\n".join(lines) + "\n\n"


def _statement(
    r: random.Random, names: list[str], known: list[tuple[str, bool]], numbers: list[str], deep: int,
    returns: bool | None,
) -> list[str]:  # fmt: skip
    kind = r.random()
    if kind < 0.25 and deep < 2:
        loop = next(n for n in "ijk" if n not in numbers)
        inside = [*numbers, loop]
        body = [line for _ in range(r.randint(1, 2)) for line in _statement(r, names, known, inside, deep + 1, returns)]
        return [f"for {loop} in range({r.choice([2, 3, 6])}):", *(f"    {line}" for line in body)]
    if kind < 0.4 and deep < 3:
        body = [line for _ in range(r.randint(1, 2)) for line in _statement(r, names, known, numbers, 3, returns)]
        if returns is not None and r.random() < 0.4:
            body.append(f"T.ret({_value(r, names, numbers, 1) if returns else 0})")
        holds = _condition(r, names, numbers)
        if r.random() < 0.3 and (call := _called(r, names, known, numbers)) is not None:
            holds = f"{holds} {r.choice(['and', 'or'])} {call} > {r.randint(-3, 6)}"
        return [f"if {holds}:", *(f"    {line}" for line in body)]
    if kind < 0.47 and deep < 2 and (call := _called(r, names, known, numbers)) is not None:
        count = f"c{r.randint(0, 9999)}"
        body = [line for _ in range(r.randint(1, 2)) for line in _statement(r, names, known, numbers, 3, returns)]
        return [
            f'{count} = T.alloc_buffer((1,), "int32")', f"{count}[0] = 0",
            f"while {count}[0] < {r.randint(1, 3)} and {call} < {r.randint(0, 9)}:", f"    {count}[0] = {count}[0] + 1",
            *(f"    {line}" for line in body),
        ]  # fmt: skip
    if kind < 0.55:
        kept = f"x{r.randint(0, 99)}"
        value = _called(r, names, known, numbers) or _value(r, names, numbers, 2)
        lines = [f"{kept}: T.let[T.int32] = {value}"]
        lines += _store(r, names, numbers)
        return [*lines, f"{_element(r, names, numbers)} = {kept} - {_element(r, names, numbers)}"]
    if kind < 0.7 and any(not returning for _, returning in known):
        name = r.choice([n for n, returning in known if not returning])
        return [_call(r, name, names, numbers)]
    if kind < 0.85 and (call := _called(r, names, known, numbers)) is not None:
        return [f"{_element(r, names, numbers)} = {call}{r.choice(['', ' + 1', ' * 2'])}"]
    return _store(r, names, numbers)


def _store(r: random.Random, names: list[str], numbers: list[str]) -> list[str]:
    target, value = _element(r, names, numbers), _value(r, names, numbers, 2)
    return [f"{target} = {r.choice([value, value, f'{target} + {value}', f'T.max({target}, {value})'])}"]


def _called(r: random.Random, names: list[str], known: list[tuple[str, bool]], numbers: list[str]) -> str | None:
    found = [name for name, returning in known if returning]
    call = _call(r, r.choice(found), names, numbers) if found else None
    if call is None or r.random() < 0.7:
        return call
    return f"T.if_then_else({_condition(r, names, numbers)}, {call}, {_value(r, names, numbers, 1)})"


def _call(r: random.Random, name: str, names: list[str], numbers: list[str]) -> str:
    def passed() -> str:
        return f"{r.choice(names)}.data"

    return f"Module.{name}({passed()}, {passed()}, {r.choice([*numbers, '2', '5', _element(r, names, numbers)])})"


def _element(r: random.Random, names: list[str], numbers: list[str]) -> str:
    loops = [n for n in numbers if n != "n"]
    place = r.choice([*(loops * 2), f"({r.choice(loops)} + {r.randint(1, 5)}) % 6"]) if loops else ""
    return f"{r.choice(names)}[{place if place and r.random() < 0.7 else r.randint(0, 5)}]"


def _value(r: random.Random, names: list[str], numbers: list[str], depth: int) -> str:
    if depth == 0 or r.random() < 0.4:
        return r.choice([_element(r, names, numbers), _element(r, names, numbers), *numbers, str(r.randint(-2, 3))])
    a, b = _value(r, names, numbers, depth - 1), _value(r, names, numbers, depth - 1)
    return r.choice([f"({a} + {b})", f"({a} - {b})", f"T.max({a}, {b})", f"T.Select({a} > {b}, {b}, {a})"])


def _condition(r: random.Random, names: list[str], numbers: list[str]) -> str:
    other = r.choice(["1", "2", _element(r, names, numbers)])
    return f"{_value(r, names, numbers, 1)} {r.choice(['<', '==', '>='])} {other}"
