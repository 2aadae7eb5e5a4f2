"""Parallel loops made at random whose iterations may meet in a buffer: of the caller's, or of the program's own."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

__all__ = ["race_arrays", "race_program"]

SIZE = 24
KINDS = ("T.parallel({})", "T.parallel({})", 'T.thread_binding({}, thread="threadIdx.x")', "T.vectorized({})")


def race_program(seed: int) -> str:
    """A loop that is said to be parallel, around or inside of serial ones; all of it is affine."""
    r = random.Random(seed)
    lines = [f"for c in range({SIZE}):", f"    S[c] = A[{SIZE - 1} - c]"] if r.random() < 0.5 else []
    around = r.choice(["", "", "for s in range(2):"])
    indent = "    " if around else ""
    kind = r.choice(KINDS)
    inner = kind != "T.vectorized({})"
    lines += [around] if around else []
    lines += [f"{indent}for i in {kind.format(r.randint(2, 5))}:"]
    for _ in range(r.randint(1, 3)):
        lines += [f"{indent}    {line}" for line in _statement(r, inner, bool(around))]
    lines += [f"for d in range({SIZE}):", "    C[d] = S[d]"] if r.random() < 0.7 else []
    body = "\n".join(f"    {line}" for line in lines)
    return (
        "@T.prim_func\n"
        f'def main(A: T.Buffer(({SIZE},), "int32"), B: T.Buffer(({SIZE},), "int32"), '
        f'C: T.Buffer(({SIZE},), "int32")):\n    S = T.alloc_buffer(({SIZE},), "int32")\n{body}\n'
    )


def race_arrays(seed: int) -> list[Any]:
    r = np.random.default_rng(seed)
    return [r.integers(-50, 50, SIZE).astype(np.int32) for _ in range(3)]


def _statement(r: random.Random, inner: bool, around: bool) -> list[str]:
    names = ["i", *(["s"] if around else [])]
    guard = r.choice(["", "", f"if i {r.choice(['<', '>=', '=='])} {r.randint(0, 3)}:"]) if inner else ""
    lines = [guard] if guard else []
    indent = "    " if guard else ""
    if inner and r.random() < 0.4:
        lines.append(f"{indent}for j in range({r.randint(1, 3)}):")
        indent, names = f"{indent}    ", [*names, "j"]
    target, place = r.choice("BSS"), _place(r, names)
    value = " + ".join(f"{r.choice('ABS')}[{_place(r, names)}]" for _ in range(r.randint(1, 2)))
    # what is written at a place may be a value of the place
    value = f"A[{place}] * 2" if r.random() < 0.4 else value
    return [*lines, f"{indent}{target}[{place}] = {value}"]


def _place(r: random.Random, names: list[str]) -> str:
    place = " + ".join(r.choice([n, n, f"{n} * {r.randint(2, 3)}"]) for n in r.sample(names, r.randint(1, len(names))))
    return r.choice([place, place, f"({place}) // 2", f"({place}) % 2", f"{place} + {r.randint(1, 2)}", "1"])
