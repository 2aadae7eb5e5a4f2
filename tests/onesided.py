"""Conditions that take one value only in all tests of some folders: where a case is missing, or a branch is dead.

    python -m tests.onesided tests/passes tests/lowering            all that these tests leave undecided
    python -m tests.onesided tests/passes --least 100               those that are met so often

A line says how often a condition was met, and that it always or never held. Worth a look are those that decide results
and are met often: a program that takes the other way either shows a fault, or is a case for the table of its kind.
Conditions are those of branches, loops, comprehensions, guards, `any` and `all`, and truth values that are returned,
each operand of `and` and `or` on its own. Other processes that tests start are not seen.
"""

from __future__ import annotations

import argparse
import ast
import importlib.abc
import importlib.machinery
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests import near

__all__ = ["Conditions", "main"]

MET = "__met__"
TESTS = {
    (ast.If, "test"),
    (ast.IfExp, "test"),
    (ast.While, "test"),
    (ast.match_case, "guard"),
    (ast.comprehension, "ifs"),
}
"""Fields of nodes that are conditions."""


class Conditions(ast.NodeTransformer):
    """Marks the conditions of a module, each with a call that counts how it came out.

    >>> marked = Conditions("p.py", [])
    >>> print(ast.unparse(marked.visit(ast.parse("x = 1 if a and not any(b == c for b in d) else 2"))))
    x = 1 if __met__(0, not not a) and (not __met__(1, not not any((__met__(2, not not b == c) for b in d)))) else 2
    >>> marked.places
    ['p.py:1: a', 'p.py:1: any((b == c for b in d))', 'p.py:1: b == c']
    """

    def __init__(self, file: str, places: list[str]) -> None:
        self.file, self.places = file, places

    def condition(self, e: ast.expr, converted: bool = True) -> ast.expr:
        """An expression with its conditions marked; a value that is wanted as it is, is not `converted`."""
        match e:
            case ast.UnaryOp(ast.Not(), operand):
                e.operand = self.condition(operand)
            case ast.BoolOp(_, operands):
                e.values = [self.condition(v, converted) for v in operands]
            case ast.Constant():
                pass
            case _:
                place = ast.Constant(len(self.places))
                self.places.append(f"{self.file}:{e.lineno}: {ast.unparse(e)}")
                value = self.visit(e)
                value = ast.UnaryOp(ast.Not(), ast.UnaryOp(ast.Not(), value)) if converted else value
                met = ast.Call(ast.Name(MET, ast.Load()), [place, value], [])
                return ast.fix_missing_locations(ast.copy_location(met, e))
        return e

    def generic_visit(self, node: ast.AST) -> ast.AST:
        match node:
            case ast.Call(ast.Name("any" | "all"), [ast.GeneratorExp() as each]):
                each.elt = self.condition(each.elt)
            case ast.Return(ast.BoolOp() | ast.Compare() as value):
                node.value = self.condition(value, False)
            case ast.Call(ast.Name(name)) if name == MET:
                return node  # its operand is marked already
            case _:
                pass
        for field, value in ast.iter_fields(node):
            mark: Any = self.condition if (type(node), field) in TESTS else self.visit
            if isinstance(value, list):
                value[:] = [mark(part) if isinstance(part, ast.AST) else part for part in value]
            elif isinstance(value, ast.AST):
                setattr(node, field, mark(value))
        return node


class _Counter(importlib.abc.MetaPathFinder):
    """The import hook, and how often each condition did not hold, and held."""

    def __init__(self, path: Path) -> None:
        self.path, self.places, self.counts = path, list[str](), Counter[tuple[int, bool]]()

    def met(self, place: int, value: Any) -> Any:
        if value is True or value is False:
            self.counts[place, value] += 1
        return value

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        spec = importlib.machinery.PathFinder.find_spec(name, path) if name.split(".")[0] in near.PACKAGES else None
        if spec and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = _Marked(name, spec.loader.path, self)
        return spec

    def pytest_sessionfinish(self) -> None:
        counts = ([self.counts[k, truth] for truth in (False, True)] for k in range(len(self.places)))
        self.path.write_text(json.dumps(list(zip(self.places, counts, strict=True))), encoding="utf-8")


class _Marked(importlib.machinery.SourceFileLoader):
    """Loads a module with its conditions marked."""

    def __init__(self, name: str, path: str, counter: _Counter) -> None:
        super().__init__(name, path)
        self.counter = counter

    def get_code(self, fullname: str) -> Any:
        tree = ast.parse(self.get_data(self.path))
        file = Path(self.path).resolve().relative_to(near.ROOT.resolve()).as_posix()
        return compile(Conditions(file, self.counter.places).visit(tree), self.path, "exec", dont_inherit=True)

    def exec_module(self, module: Any) -> None:
        setattr(module, MET, self.counter.met)
        super().exec_module(module)


def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Before anything of the packages is imported."""
    if place := os.environ.get("ONESIDED"):
        counter = _Counter(Path(place))
        sys.meta_path.insert(0, counter)
        early_config.pluginmanager.register(counter)


def main() -> None:
    parser = argparse.ArgumentParser(description="Which conditions take one value only in these tests?")
    parser.add_argument("tests", nargs="+")
    parser.add_argument("--least", type=int, default=20, help="how often a condition is met at least")
    asked = parser.parse_args()
    total = Counter[tuple[str, bool]]()
    for part in asked.tests:
        with tempfile.TemporaryDirectory() as place:
            written = Path(place) / "counts.json"
            command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.onesided", part]
            subprocess.run(command, cwd=near.ROOT, env=os.environ | {"ONESIDED": str(written)}, stdout=sys.stderr)
            for line, counts in json.loads(written.read_text(encoding="utf-8")):
                total.update({(line, False): counts[0], (line, True): counts[1]})
    for (line, truth), times in total.items():
        if times >= asked.least and not total[line, not truth]:
            print(f"{'always' if truth else 'never'}, {times} times: {line}")


if __name__ == "__main__":
    main()
