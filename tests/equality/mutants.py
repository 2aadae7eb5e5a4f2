"""`python -m tests.equality.mutants 1000`: programs with one token exchanged are told from the original.

The oracle runs both on random inputs; where its results differ by more than a thousandth, a verdict that they agree is
wrong. Mutants that are no programs, or of other arrays, are left out.
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

import tensorir as ti
from tensorir import reference
from tensorir.equality.verdict import Level
from tensorir.ir.types import DTYPES, Scalar
from tests.equality.pairs import PAIRS

__all__ = ["Mutant", "mutants", "told_apart"]

SWAPS = {
    "+": "-", "-": "+", "×": "+", "/": "×", "max": "min", "min": "max", "<": "≤", "≤": "<", ">": "≥", "≥": ">",
    "exp": "log1p", "sqrt": "abs", "tanh": "sin", "sin": "cos", "cos": "sin", "∧": "∨", "∨": "∧", "true": "false",
}  # fmt: skip
NAMES = "|".join(k for k in SWAPS if k.isalpha())
NUMBER = r"(?<![\w.])\d+\.?\d*(?:e[+-]?\d+)?(?=f\b|\b)"
TOKEN = re.compile(rf"{NUMBER}|[+×/<≤>≥∧∨]|(?<=\s)-(?=\s)|\b(?:{NAMES})\b")

Mutant = tuple[str, Any, Any]


def originals() -> list[tuple[str, Any]]:
    """The first programs of pairs of fencils, each once."""
    found: dict[str, tuple[str, Any]] = {}
    for pair in PAIRS:
        program = pair.one()
        if isinstance(program, ti.Fencil):
            found.setdefault(str(program), (f"{pair.kind}: {pair.name}", program))
    return list(found.values())


def mutants(count: int, seed: int = 0) -> Iterator[Mutant]:
    """So many mutants of all programs: the name, the original, and the program with one token exchanged."""
    source = random.Random(seed)
    programs = originals()
    made = 0
    while made < count:
        name, program = source.choice(programs)
        text = str(program)
        body = text.index("{")
        token = source.choice(list(TOKEN.finditer(text, body)) or [None])
        if token is None:
            continue
        new = SWAPS.get(token.group()) or _another(token.group(), source)
        try:
            mutant = ti.parse(text[: token.start()] + new + text[token.end() :])
        except ti.DiagnosticError:
            continue
        if [p.type for p in mutant.params] == [p.type for p in program.params]:
            made += 1
            yield f"{name}, {token.group()} becomes {new}", program, mutant


def _another(number: str, source: random.Random) -> str:
    if "." in number or "e" in number:
        return repr(float(number) * source.choice([2.0, 1.5, 0.5]) + source.choice([0.0, 1.0]))
    return str(max(0, int(number) + source.choice([-1, 1])))


def told_apart(program: Any, mutant: Any, seed: int) -> bool:
    """Whether the oracle's results differ by more than a thousandth on one of a few inputs."""
    rng = np.random.default_rng(seed)
    for _ in range(3):
        arrays = {p.name: _array(rng, p) for p in program.inputs}
        try:
            one, other = (reference.run(f, **{k: a.copy() for k, a in arrays.items()}) for f in (program, mutant))
        except ti.DiagnosticError:
            continue
        for a, b in zip(one.values(), other.values(), strict=True):
            x, y = np.asarray(a).astype(np.float64), np.asarray(b).astype(np.float64)
            finite = np.isfinite(x) & np.isfinite(y)
            if (np.abs(x - y)[finite] > 1e-3 * (1 + np.maximum(np.abs(x), np.abs(y))[finite])).any():
                return True
    return False


def _array(rng: np.random.Generator, p: Any) -> Any:
    element = p.type.element
    assert isinstance(element, Scalar)
    numbers = rng.normal(size=p.type.dims.shape) if element.is_float else rng.integers(0, 6, p.type.dims.shape)
    return np.asarray(numbers).astype(DTYPES[element])


def main(count: int) -> int:
    wrong, levels = [], dict.fromkeys(Level, 0)
    for k, (name, program, mutant) in enumerate(mutants(count)):
        verdict = ti.equivalent(program, mutant)
        levels[verdict.level] += 1
        if verdict.agree and told_apart(program, mutant, k):
            wrong.append(f"{name}: {verdict}")
    print(f"{count} mutants:", ", ".join(f"{n} {level.name}" for level, n in levels.items() if n))
    print("\n".join(wrong) or "none is called equal that the oracle tells apart")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000))
