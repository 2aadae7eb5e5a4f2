"""Mutations of the source: which faults of one character the nearest tests find.

    python -m tests.mutate --count 40 --seed 1

Each mutant changes one operator, comparison, constant or condition of a file, and the tests nearest to that file run on
it with a time limit; a mutant that no test fails on has survived and is printed. Sources are never touched: a mutant is
a copy of everything in a folder of its own.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Mutant", "mutants", "outcome"]

ROOT = Path(__file__).parent.parent
NEAREST = {
    "tensorir/ir": ("tests/text/test_notation_diagnostics.py", "tests/text/test_typing_rules.py"),
    "tensorir/passes": ("tests/passes", "tests/inspection/test_explanations.py"),
    "lowering/raising": ("tests/lowering/test_raising_guards.py", "tests/lowering"),
    "tensorir/lifting/rewrites": ("tests/lift/test_lift_rewrites.py", "tests/lift"),
    "tensorir/lifting/region": ("tests/lift/region",),
    "tensorir/lifting": ("tests/lift/textbook", "tests/lift/test_lift_conformance.py", "tests/lift"),
    "tensorir/tir/script": ("tests/tir", "tests/tir_check"),
    "tensorir/tir/check": ("tests/tir_check",),
    "tensorir/tir/interpret": ("tests/tir_interpret",),
    "tensorir/tenstorrent": ("tests/tenstorrent",),
    "tensorir/tir/tiles": ("tests/tilelang",),
    "tensorir/tir/lift": ("tests/lift/test_lift_relax.py", "tests/lift"),
    "tensorir/tir": ("tests/tir", "tests/tir_check", "tests/tir_interpret", "tests/lift"),
    "tensorir/tile/lift": ("tests/tile/test_tile_lift.py", "tests/peers/test_cutile_lift.py"),
    "tensorir/tile/verify": ("tests/tile_verify", "tests/tile"),
    "tensorir/tile": ("tests/tile", "tests/tile_numerics"),
    "lowering": ("tests/calls", "tests/lowering/test_elementwise.py", "tests/compiled", "tests/lowering"),
}
"""The tests of each folder, those that find most first, after the examples of the file itself; the first row of a file
is its row."""

_OPERATORS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of a file."""

    path: str
    line: int
    before: str
    after: str
    text: str
    """The whole file with the change."""


def mutants(path: str, text: str) -> Iterator[Mutant]:
    """Every change of a text, each alone; what only says something (messages, types, `__all__`) stays.

    >>> for m in mutants("p.py", "def f(x):\\n    return not x and x + 1 > 2\\n"):
    ...     print(m.line, m.before, "->", m.after)
    2 not x and x + 1 > 2 -> not x or x + 1 > 2
    2 not x -> x
    2 x + 1 > 2 -> x + 1 >= 2
    2 x + 1 -> x - 1
    2 1 -> 2
    2 2 -> 3
    """
    tree = ast.parse(text)
    starts = [0]
    for line in text.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for node in _code(tree):
        for new in _changed(node):
            assert isinstance(node, ast.expr) and node.end_lineno is not None and node.end_col_offset is not None
            start = starts[node.lineno - 1] + node.col_offset
            stop = starts[node.end_lineno - 1] + node.end_col_offset
            data = text.encode()
            after = ast.unparse(new)
            made = data[:start] + f"({after})".encode() + data[stop:]
            yield Mutant(path, node.lineno, ast.unparse(node), after, made.decode())


def _code(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run, without annotations, messages and calls that only make diagnostics."""
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        yield node
        for name, value in reversed(list(ast.iter_fields(node))):
            said = isinstance(node, (ast.Raise, ast.JoinedStr))
            if said or name in ("annotation", "returns", "decorator_list", "keywords"):
                continue
            stack += [v for v in reversed(value if isinstance(value, list) else [value]) if isinstance(v, ast.AST)]


def _changed(node: ast.AST) -> Iterator[ast.expr]:
    match node:
        case ast.BinOp(left, op, right) if type(op) in _OPERATORS:
            yield ast.BinOp(left, _OPERATORS[type(op)](), right)
        case ast.BoolOp(op, values):
            yield ast.BoolOp(_OPERATORS[type(op)](), values)
        case ast.Compare(left, [op, *ops], rest) if type(op) in _OPERATORS:
            yield ast.Compare(left, [_OPERATORS[type(op)](), *ops], rest)
        case ast.UnaryOp(ast.Not() | ast.USub(), operand):
            yield operand
        case ast.Constant(bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(int() as value):
            yield ast.Constant(value + 1)
        case ast.IfExp(test, body, other):
            yield ast.IfExp(test, other, body)
        case _:
            return


def outcome(mutant: Mutant, limit: float) -> str:
    """What the tests near a mutant say: "found", "survived", or "out of time", which counts as not found."""
    folder = next(f for f in NEAREST if mutant.path.startswith(f))
    with tempfile.TemporaryDirectory() as place:
        for part in ("tensorir", "lowering", "stencils", "tests"):
            shutil.copytree(ROOT / part, Path(place) / part, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", place)
        (Path(place) / mutant.path).write_text(mutant.text, encoding="utf-8")
        environment = {**os.environ, "PYTHONPATH": place, "JAX_PLATFORMS": "cpu", "PYTHONDONTWRITEBYTECODE": "1"}
        # first the examples of the file, then folder by folder, so that most mutants are found soon
        for tests in (mutant.path, *NEAREST[folder]):
            command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--no-header", tests]
            try:
                done = subprocess.run(command, cwd=place, env=environment, capture_output=True, timeout=limit)
            except subprocess.TimeoutExpired:
                return "out of time"
            if done.returncode not in (0, 5):  # 5: the file has no examples
                return "found"
    return "survived"


def main() -> None:
    """Draw mutants, run the tests on each, and print who survived and the score."""
    parser = argparse.ArgumentParser(description="Which one-character faults do the nearest tests find?")
    parser.add_argument("--count", type=int, default=40, help="how many mutants are drawn")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for the tests of one mutant and folder")
    parser.add_argument("--under", default="", help="only files whose path begins so")
    asked = parser.parse_args()
    files = sorted(
        {p.relative_to(ROOT).as_posix() for f in NEAREST for p in (ROOT / f).rglob("*.py") if p.name != "__init__.py"}
    )
    every = [m for f in files if f.startswith(asked.under) for m in mutants(f, (ROOT / f).read_text(encoding="utf-8"))]
    drawn = random.Random(asked.seed).sample(every, min(asked.count, len(every)))
    found = 0
    for mutant in drawn:
        told = outcome(mutant, asked.limit)
        found += told == "found"
        print(f"{told} {mutant.path}:{mutant.line}: {mutant.before} -> {mutant.after}", flush=True)
    print(
        f"{found} of {len(drawn)} found ({100 * found / max(1, len(drawn)):.0f} %), of {len(every)}, seed {asked.seed}"
    )


if __name__ == "__main__":
    main()
