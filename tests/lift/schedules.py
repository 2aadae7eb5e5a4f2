"""Scheduled modules and what they were before: `python -m tests.lift.schedules [name]...` prints where texts differ.

Each conformance module of TIR that a schedule, or a step of lowering, made from another one is lifted, and so is that
other one; the texts are compared up to names. Modules named on the command line are shown in any case.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import tensorir as ti
from tensorir.ir.builtins import TABLE
from tensorir.ir.types import SCALARS
from tensorir.runtime.errors import DiagnosticError

CONFORMANCE = Path(__file__).parents[3] / "shared" / "conformance" / "tir"
MOVING = ("gather", "scatter", "update", "loop")
"""What says how data move, and not what is computed."""

FURTHER = 32
"""How many arrays of indices are tried, beside the given ones."""

_WORDS = re.compile(r"(?<!\w)[^\W\d]\w*")
_KEPT = (
    frozenset(TABLE)
    | frozenset(map(str, SCALARS))
    | {*["let", "tensor", "if", "then", "else", "true", "false", "over", "int", "float", "none", "inf", "nan", "λ"]}
)


@dataclass(frozen=True, slots=True)
class Pair:
    """A module and the one that it was made from."""

    name: str
    base: str


def pairs() -> list[Pair]:
    """Every conformance module that was made from another one that is there."""
    index = CONFORMANCE / "INDEX.json"
    if not index.exists():
        return []
    entries: list[dict[str, Any]] = json.loads(index.read_text())["index"]
    there = {e["name"] for e in entries}
    return [Pair(e["name"], e["base"]) for e in entries if e.get("base") in there]


def function(name: str) -> tuple[Any, list[Any]]:
    """A function of the conformance modules, and its arrays."""
    file = CONFORMANCE / f"{name}.py"
    data = np.load(file.with_suffix(".npz"))
    meta: dict[str, Any] = json.loads(str(data["meta"]))
    arrays = [data[f"arg{k}"] for k in range(len(meta["args"]))]
    return ti.tir.parse(file.read_text(), file.stem)[meta["func"]], arrays


@cache
def lifted(name: str) -> str:
    """The text of a conformance module, lifted at the sizes of its arrays."""
    func, arrays = function(name)
    program = ti.lift(func)
    program.at(program.sizes_of(arrays))
    return str(program)


def up_to_names(text: str) -> str:
    """The text with every name that it gives replaced by its place among them, on one line.

    >>> up_to_names("f(A: tensor<float, i[0:3]>) { A ← A × 2.0; }")
    'n0(n1: tensor<float,n2[0:3]>) { n1 ← n1 × 2.0; }'
    """  # fmt: skip
    names: dict[str, str] = {}
    text = _WORDS.sub(lambda m: m[0] if m[0] in _KEPT else names.setdefault(m[0], f"n{len(names)}"), text)
    return re.sub(r"(?<=[(,⟪]) | (?=[)⟫])", "", " ".join(text.split()))


def same_arithmetic(pair: Pair) -> bool:
    """Whether both functions give the same bits, on the arrays that they come with and where one index points on."""
    rng = np.random.default_rng(0)
    (func, arrays), (base, _) = function(pair.name), function(pair.base)
    given = [arrays]
    for k, x in enumerate(arrays):
        if x.dtype.kind in "iu" and x.size:
            for _ in range(FURTHER):
                changed = np.zeros_like(x)
                changed.flat[rng.integers(x.size)] = rng.integers(12)
                given.append([*arrays[:k], changed, *arrays[k + 1 :]])
    return all(_bits(func, xs) == _bits(base, xs) for xs in given)


def _bits(func: Any, arrays: list[Any]) -> list[bytes] | str:
    try:
        return [np.asarray(x).tobytes() for x in ti.tir.interpret(func, *arrays, checked=True)]
    except DiagnosticError as error:
        return error.diagnostics[0].code


def moves(text: str) -> Counter[str]:
    """How often a text moves data."""
    return Counter(word for word in _WORDS.findall(text) if word in MOVING)


def main(shown: list[str]) -> int:
    """A line per module, both texts where they differ, and the counts."""
    found = pairs()
    unlike = moving = 0
    for pair in found:
        text, base = lifted(pair.name), lifted(pair.base)
        equal = up_to_names(text) == up_to_names(base)
        more = moves(text) - moves(base)
        unlike += not equal
        moving += bool(more)
        why = "" if equal else " with other arithmetic" if not same_arithmetic(pair) else ""
        told = "".join(f", {n} more of {word}" for word, n in more.items())
        print(f"{pair.name} <- {pair.base}: {'the same text' if equal else 'another text'}{why}{told}")
        if not equal or pair.name in shown:
            print(base, text, sep="\n")
    print(f"{len(found)} modules, {len(found) - unlike} with the text of their base, {moving} that move more than it")
    return unlike


if __name__ == "__main__":
    sys.exit(bool(main(sys.argv[1:])))
