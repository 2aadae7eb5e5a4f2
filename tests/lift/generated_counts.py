"""Whiles made at random that count: up or down, by steps of every size, from where threads or data say."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

__all__ = ["count_arrays", "count_program"]

SIZE = 24


def count_program(seed: int) -> str:
    """Threads, or a loop, of which each counts for itself, over an array of its own."""
    r = random.Random(seed)
    threads = r.random() < 0.6
    tag = ', thread="threadIdx.x"' if threads else ""
    begin = f"for t in T.thread_binding(4{tag}):" if threads else "for t in range(4):"
    lines = [
        'i = T.alloc_buffer((1,), "int32", scope="local")',
        'j = T.alloc_buffer((1,), "int32", scope="local")',
        "i[0] = 0",
        *_counting(r, "i", 2, ["t", "n", "P[t]"]),
    ]
    lines += [f"B[t, {SIZE - 1}] = i[0]"] if r.random() < 0.7 else []
    body = "\n".join(f"        {line}" for line in lines)
    return (
        "@T.prim_func\n"
        f'def main(n: T.int32, P: T.Buffer((4,), "int32"), A: T.Buffer(({SIZE},), "int32"), '
        f'B: T.Buffer((4, {SIZE}), "int32")):\n    {begin}\n{body}\n'
    )


def count_arrays(seed: int) -> list[Any]:
    r = np.random.default_rng(seed)
    numbers = [r.integers(-3, 12, 4), r.integers(-50, 50, SIZE), r.integers(-50, 50, (4, SIZE))]
    return [int(r.integers(-2, 14)), *(a.astype(np.int32) for a in numbers)]


def _counting(r: random.Random, name: str, depth: int, known: list[str]) -> list[str]:
    """A start, and a while from it on, whose limit does not change."""
    c = f"{name}[0]"
    kind = r.choice(["up", "up", "down", "doubled", "halved"])
    start, limit = _number(r, known), _number(r, known)
    match kind:
        case "up":
            by = r.randint(1, 5)
            update = r.choice([f"{c} + {by}", f"{by} + {c}"])
            condition = r.choice([f"{c} < {limit}", f"{limit} > {c}", f"{c} <= {limit}", f"{c} + 1 < {limit}"])
        case "down":
            update = f"{c} - {r.randint(1, 5)}"
            condition = r.choice([f"{c} > {limit}", f"{limit} < {c}", f"{c} >= {limit}", f"{c} - 1 > {limit}"])
        case "doubled":
            start, update, condition = str(r.randint(1, 3)), f"{c} * {r.randint(2, 3)}", f"{c} < {r.randint(0, 12)}"
        case _:
            start, update = str(r.randint(0, 12)), r.choice([f"{c} // 2", f"T.shift_right({c}, 1)"])
            condition = r.choice([f"{c} > 0", f"{c} != 0"])
    body = _body(r, c, depth, known)
    place = r.randint(0, len(body))
    if place < len(body) and body[place].startswith(" "):
        place = len(body)
    rounds = [*body[:place], f"{c} = {update}", *body[place:]]
    return [f"{c} = {start}", f"while {condition}:", *(f"    {x}" for x in rounds)]


def _number(r: random.Random, known: list[str]) -> str:
    found = r.choice([*known, str(r.randint(-3, 12))])
    if found in ("t",) and r.random() < 0.5:
        return f"({found} * {r.randint(1, 3)} + {r.randint(-2, 3)})"
    return found


def _body(r: random.Random, c: str, depth: int, known: list[str]) -> list[str]:
    """What a round does: it stores where it is, adds to a place, or counts once more."""
    found: list[str] = []
    for _ in range(r.randint(1, 2)):
        at = f"({c} + 4) % {SIZE}"
        match r.randint(0, 3):
            case 0:
                found.append(f"B[t, {at}] = A[{at}] + {c}")
            case 1:
                found.append(f"B[t, 0] = B[t, 0] * 3 + A[{at}]")
            case 2:
                found += [f"if A[{at}] > {r.randint(-20, 20)}:", f"    B[t, {at}] = {c} - B[t, 1]"]
            case _ if depth > 1 and c == "i[0]":
                found += _counting(r, "j", depth - 1, [*known, "i[0]"])
            case _:
                found.append(f"B[t, 1] = B[t, 1] + {c}")
    return found
