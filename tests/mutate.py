"""Mutations of the source: which small faults the nearest tests find.

    python -m tests.mutate --count 40 --seed 1

Each mutant changes one operator, comparison, constant or condition of a file, and the tests nearest to that file run on
it with a time limit; a mutant that no test fails on has survived and is printed. Sources are never touched: a mutant is
a copy of everything in a folder of its own.
"""

from __future__ import annotations

import argparse
import ast
import random
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests import near

__all__ = ["Mutant", "mutants", "outcome"]

ROOT = Path(__file__).parent.parent
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
    """What the tests near a mutant say: "killed", "survived", or "out of time", which counts as not killed."""
    with tempfile.TemporaryDirectory() as place:
        for part in (*near.PACKAGES, "tests"):
            shutil.copytree(ROOT / part, Path(place) / part, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", place)
        (Path(place) / mutant.path).write_text(mutant.text, encoding="utf-8")
        # tests at the line first, since one that enters the function is the likeliest to fail
        tests = dict.fromkeys((*near.nearest(f"{mutant.path}:{mutant.line}"), *near.nearest(mutant.path)))
        status = near.run(list(tests), limit, Path(place), quiet=True)
    return "out of time" if status is None else "survived" if status in (0, 5) else "killed"


def main() -> None:
    """Draw mutants, run the tests on each, and print who survived and the score."""
    parser = argparse.ArgumentParser(description="Which small faults do the nearest tests find?")
    parser.add_argument("--count", type=int, default=40, help="how many mutants are drawn")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for the tests of one mutant")
    parser.add_argument("--under", default="", help="only files whose path begins so")
    asked = parser.parse_args()
    files = {file: text for file, text in near.sources().items() if not file.endswith("__init__.py")}
    every = [m for file, text in files.items() if file.startswith(asked.under) for m in mutants(file, text)]
    drawn = random.Random(asked.seed).sample(every, min(asked.count, len(every)))
    killed = 0
    for mutant in drawn:
        result = outcome(mutant, asked.limit)
        killed += result == "killed"
        print(f"{result} {mutant.path}:{mutant.line}: {mutant.before} -> {mutant.after}", flush=True)
    share = 100 * killed / max(1, len(drawn))
    print(f"{killed} of {len(drawn)} killed ({share:.0f} %), of {len(every)}, seed {asked.seed}")


if __name__ == "__main__":
    main()
