"""Loops as a page of a book has them: the text, and the same in NumPy; their figures stand in `figures.txt`.

In `loops.txt` lines that begin with `given` change arguments first, and the others do what the loop does.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import tensorir as ti
from tests.corpus import corpus

LOOPS = corpus(Path(__file__).with_name("loops.txt"))


def function_of(text: str) -> Any:
    return ti.tir.parse(f"@T.prim_func\n{text}\n")["main"]


def arguments(function: Any, given: str) -> list[Any]:
    """Numbers between -1 and 1, and whole ones below 5, but for what is said of them."""
    rng, made = np.random.default_rng(0), dict[str, Any]()
    for p in function.params:
        buffer = function.buffer_map[p]
        shape = [e.value for e in buffer.shape]
        whole = str(buffer.dtype) == "int32"
        made[p.name] = (rng.integers(0, 5, shape) if whole else rng.uniform(-1, 1, shape)).astype(str(buffer.dtype))
    exec(given, {"np": np, "rng": rng}, made)
    return list(made.values())


def by_numpy(function: Any, statements: str, arrays: list[Any]) -> list[Any]:
    """What statements leave in copies of the arguments."""
    made = {p.name: np.copy(a) for p, a in zip(function.params, arrays, strict=True)}
    exec(statements, {"np": np} | made)
    return list(made.values())


def textbook() -> Iterator[tuple[str, str, list[Any], str]]:
    """The name of each loop, its text, its arguments, and the same in NumPy."""
    for name, (text, said) in LOOPS.items():
        lines = said.split("\n")
        given = "\n".join(line.removeprefix("given ") for line in lines if line.startswith("given "))
        statements = "\n".join(line for line in lines if not line.startswith("given "))
        yield name, text, arguments(function_of(text), given), statements
