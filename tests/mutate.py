"""Mutations of the source: which small faults the nearest tests find.

    python -m tests.mutate --count 40 --seed 1
    python -m tests.mutate --count 100 --new        as `make nightly` does: by the seed of the day

Each mutant changes one operator or constant (by one), drops or turns a condition, swaps two arguments or removes a
statement. The tests nearest to its line and its file run on it with a time limit; a mutant that no test fails on has
survived and is printed. Sources are never touched: a mutant is a copy of everything in a folder of its own.

A survivor gets a case in the table of its kind. One that computes the same as the source has a line in `survivors.txt`,
its path, kind and change with the reason, and is not counted; so has one that waits for its case, which is.
"""

from __future__ import annotations

import argparse
import ast
import heapq
import random
import re
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from tests import near

__all__ = ["Mutant", "draw", "mutants", "outcome"]

ROOT = Path(__file__).parent.parent
SURVIVORS = Path(__file__).with_name("survivors.txt")
_OPERATORS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
MESSAGES = re.compile(r"span|help|notes?|message|severity|at|start|stop|end|place|begin|strict")
"""Keywords of diagnostics, and the one by which `zip` checks what its caller has already made so."""
REFUSALS = re.compile(r"(?i)diagnostic|error|fail|wrong|refus|complain|_note|unsupported|leaves")
"""Calls that make diagnostics: a change in them seldom moves more than a caret, and is drawn a quarter as often."""


COMMUTATIVE = {"min", "max", "add", "mul", "eq", "ne", "maximum", "minimum", "bitwise_and", "bitwise_or", "gcd"}
"""Functions of two arguments that are the same in either order."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of a file."""

    kind: str
    path: str
    line: int
    before: str
    after: str
    text: str
    """The whole file with the change."""
    weight: float = 1.0


def mutants(path: str, text: str) -> Iterator[Mutant]:
    """Every change of a text, each alone; what only says something (messages, types, `__all__`) stays.

    >>> for m in mutants("p.py", "def f(x):\\n    g(x, max(x, y))\\n    return not x and x + 1 > 2\\n"):
    ...     print(m.kind, m.line, m.before, "->", m.after)
    statement 2 g(x, max(x, y)) -> pass
    arguments 2 g(x, max(x, y)) -> g(max(x, y), x)
    operator 3 not x and x + 1 > 2 -> not x or x + 1 > 2
    condition 3 not x and x + 1 > 2 -> x + 1 > 2
    condition 3 not x and x + 1 > 2 -> not x
    operator 3 not x -> x
    operator 3 x + 1 > 2 -> x + 1 >= 2
    operator 3 x + 1 -> x - 1
    constant 3 1 -> 2
    constant 3 1 -> 0
    constant 3 2 -> 3
    constant 3 2 -> 1
    """
    data = text.encode()
    starts = [0]
    for line in data.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for node, weight in _code(ast.parse(text)):
        for kind, old, new in _changed(node):
            assert old.end_lineno is not None and old.end_col_offset is not None
            start, stop = starts[old.lineno - 1] + old.col_offset, starts[old.end_lineno - 1] + old.end_col_offset
            if isinstance(old, ast.If) and not data[start:stop].startswith(b"if"):
                continue  # an `elif` goes with what is before it
            after = ast.unparse(new)
            changed = data[:start] + (after if isinstance(new, ast.stmt) else f"({after})").encode() + data[stop:]
            yield Mutant(kind, path, old.lineno, ast.unparse(old), after, changed.decode(), weight)


def _code(tree: ast.AST) -> Iterator[tuple[ast.AST, float]]:
    """The nodes that run, without annotations and messages, and the weight of each."""
    stack: list[tuple[ast.AST, float]] = [(tree, 1.0)]
    while stack:
        node, weight = stack.pop()
        yield node, weight
        if isinstance(node, ast.Call) and REFUSALS.search(ast.unparse(node.func)):
            weight = 0.25
        for name, value in reversed(list(ast.iter_fields(node))):
            if isinstance(node, ast.JoinedStr) or name in ("annotation", "returns", "decorator_list"):
                continue
            parts = [v for v in (value if isinstance(value, list) else [value]) if isinstance(v, ast.AST)]
            parts = [v for v in parts if not (isinstance(v, ast.keyword) and MESSAGES.fullmatch(v.arg or ""))]
            stack += [(v, weight) for v in reversed(parts)]


def _changed(node: ast.AST) -> Iterator[tuple[str, ast.expr | ast.stmt, ast.expr | ast.stmt]]:
    """Changes at a node by kind: what is there, and what takes its place."""
    match node:
        case ast.BinOp(left, op, right) if type(op) in _OPERATORS:
            yield "operator", node, ast.BinOp(left, _OPERATORS[type(op)](), right)
        case ast.BoolOp(op, values):
            yield "operator", node, ast.BoolOp(_OPERATORS[type(op)](), values)
            for k in range(len(values)):
                rest = [*values[:k], *values[k + 1 :]]
                yield "condition", node, ast.BoolOp(op, rest) if len(rest) > 1 else rest[0]
        case ast.Compare(left, [op, *ops], rest) if type(op) in _OPERATORS:
            yield "operator", node, ast.Compare(left, [_OPERATORS[type(op)](), *ops], rest)
        case ast.UnaryOp(ast.Not() | ast.USub(), operand):
            yield "operator", node, operand
        case ast.IfExp(test, body, other):
            yield "condition", node, ast.IfExp(test, other, body)
        case ast.comprehension(ifs=[_, *_] as tests):
            yield from (("condition", test, ast.Constant(True)) for test in tests)
        case ast.match_case(guard=ast.expr() as guard):
            yield "condition", guard, ast.Constant(True)
        case ast.Constant(bool() as value):
            yield "constant", node, ast.Constant(not value)
        case ast.Constant(int() as value):
            yield from (("constant", node, ast.Constant(value + by)) for by in (1, -1))
        case ast.Slice(lower, upper):
            bounds = [b for b in (lower, upper) if b is not None and not isinstance(b, ast.Constant)]
            yield from (("constant", b, ast.BinOp(b, ast.Add(), ast.Constant(1))) for b in bounds)
        case ast.Call(ast.Name("range"), [*_, stop]) if not isinstance(stop, ast.Constant):
            yield "constant", stop, ast.BinOp(stop, ast.Sub(), ast.Constant(1))
        case ast.Call(func, arguments, keywords) if not any(isinstance(a, ast.Starred) for a in arguments):
            commutes = len(arguments) == 2 and ast.unparse(func).rpartition(".")[2] in COMMUTATIVE
            for k, (a, b) in enumerate(pairwise(arguments)):
                if ast.dump(a) != ast.dump(b) and not commutes:
                    swapped = [*arguments[:k], b, a, *arguments[k + 2 :]]
                    yield "arguments", node, ast.Call(func, swapped, keywords)
        case ast.Expr(ast.Call()) | ast.AugAssign() | ast.If(orelse=[]) | ast.Continue():
            yield "statement", node, ast.Pass()
        case ast.Assign(targets=[ast.Subscript() | ast.Attribute()]):
            yield "statement", node, ast.Pass()
        case _:
            return


def draw(every: Sequence[Mutant], count: int, seed: int) -> list[Mutant]:
    """Mutants by a seed: as many of each kind as far as there are, and fewer of those that move carets.

    >>> every = [Mutant(kind, "p.py", k, "", "", "") for kind, n in (("a", 90), ("b", 30)) for k in range(n)]
    >>> sum(m.kind == "a" for m in draw(every, 40, 1)) in range(12, 29)
    True
    """
    numbers = Counter(m.kind for m in every)
    chance = random.Random(seed)
    drawn = [(chance.random() ** (numbers[m.kind] / m.weight / len(every)), k) for k, m in enumerate(every)]
    return [every[k] for _, k in heapq.nlargest(count, drawn)]


def change(mutant: Mutant) -> str:
    """A mutant in a line that stays the same where lines are added before it; constants with the line around them.

    >>> change(Mutant("constant", "p.py", 2, "0", "1", "def f(x):\\n    return x + (1)"))
    'p.py: constant: 0 -> 1: return x + (1)'
    """
    before, after = (" ".join(side.split())[:90] for side in (mutant.before, mutant.after))
    around = mutant.text.split("\n")[mutant.line - 1].strip() if mutant.kind == "constant" else ""
    return f"{mutant.path}: {mutant.kind}: {before} -> {after}{': ' if around else ''}{around}"


def survivors() -> dict[str, str]:
    """Reasons by the changes that `survivors.txt` names."""
    lines = SURVIVORS.read_text(encoding="utf-8").splitlines()
    return dict(line.split("\t") for line in lines if line and not line.startswith("#"))


def outcome(mutant: Mutant, limit: float) -> str:
    """What the tests near a mutant say: "killed", "survived", or "out of time", which counts as not killed."""
    with tempfile.TemporaryDirectory() as place:
        for part in ROOT.iterdir():
            if part.name in (*near.PACKAGES, "tests"):
                shutil.copytree(part, Path(place) / part.name, ignore=shutil.ignore_patterns("__pycache__"))
            elif part.name == ".git" or not (part.name.startswith(".") or part.name == "build"):
                # tests of documents ask git for their files, and without it would fail on every mutant
                (Path(place) / part.name).symlink_to(part)
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
    parser.add_argument("--new", action="store_true", help="the number of today as the seed")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for the tests of one mutant")
    parser.add_argument("--under", default="", help="only files whose path begins so")
    asked = parser.parse_args()
    files = {file: text for file, text in near.sources().items() if not file.endswith("__init__.py")}
    every = [m for file, text in files.items() if file.startswith(asked.under) for m in mutants(file, text)]
    known = survivors()
    seed = int(time.time()) // 86400 if asked.new else asked.seed
    drawn = draw([m for m in every if not known.get(change(m), "").startswith("equivalent")], asked.count, seed)
    killed: Counter[str] = Counter()
    for mutant in drawn:
        result = outcome(mutant, asked.limit)
        killed[mutant.kind] += result == "killed"
        print(f"{result}, line {mutant.line}: {change(mutant)}", known.get(change(mutant), ""), flush=True)
    for kind, number in sorted(Counter(m.kind for m in drawn).items()):
        print(f"{kind}: {killed[kind]} of {number} killed")
    share = 100 * killed.total() / max(1, len(drawn))
    print(f"{killed.total()} of {len(drawn)} killed ({share:.0f} %), of {len(every)}, seed {seed}")


if __name__ == "__main__":
    main()
