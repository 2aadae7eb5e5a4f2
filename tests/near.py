"""The tests nearest to a file: those that enter its functions, the cheapest and most special first, within a minute.

    make near FILE=lowering/rules/folds.py          doctests of the file, then the tests nearest to it
    make near FILE=lowering/rules/folds.py:235      those that enter the function at a line
    make near FILE=tensorir/tile                    a wing; FILE=split_dim: a builtin; FILE=CombineShifts: a pass
    python -m tests.near FILE --print --seconds 30  their names alone
    python -m tests.near record [--missing] [parts] the record, which `make nightly` writes to build/near
    python -m tests.near never [paths]              the functions of files that no test of the record enters

A record has, for each test, its seconds and the functions of the packages that it entered, by name, so that edits leave
it useful. It has a file for each part, a folder of tests or of doctests, which one process runs and which may be
recorded alone; `--missing` goes on where a record ended. Without one, or for a file that it lacks, words of paths and
texts choose test modules.
What a cache keeps within a process is credited to the test that came first, and other processes are not seen.
"""

from __future__ import annotations

import argparse
import ast
import gzip
import heapq
import importlib.abc
import importlib.machinery
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

__all__ = ["Row", "choose", "functions", "nearest", "never", "record", "run"]

ROOT = Path(__file__).parent.parent
RECORD = ROOT / "build" / "near"
PACKAGES = ("tensorir", "lowering", "stencils")
MODULES = 15
"""Test modules at most: each costs a second before its first test."""
FADES = 0.6
"""The weight of a function for further tests, once one that enters it is chosen."""
SECONDS = 40.0
"""Seconds of tests that are chosen; imports and collection are the rest of the minute."""
Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, Function]]:
    """The functions of a module by qualified name, outer ones before inner ones.

    >>> [name for name, _ in functions(ast.parse("class A:\\n    def f(self):\\n        def g(): ...\\ndef h(): ..."))]
    ['A.f', 'A.f.g', 'h']
    """
    for child in ast.iter_child_nodes(tree):
        inner = prefix
        if isinstance(child, Function | ast.ClassDef):
            inner = f"{prefix}{child.name}."
        if isinstance(child, Function):
            yield prefix + child.name, child
        yield from functions(child, inner)


def sources() -> dict[str, str]:
    """The texts of the modules of the packages by path."""
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    return {p.relative_to(ROOT).as_posix(): p.read_text(encoding="utf-8") for p in paths}


# The record: a plugin of pytest, `-p tests.near`, under which each function sets a byte when it is entered.


class _Marked(importlib.machinery.SourceFileLoader):
    """Loads a module of which each function has a name in `names` and a byte of `entered`, which it sets."""

    def __init__(self, name: str, path: str, file: str, names: list[str], entered: bytearray) -> None:
        super().__init__(name, path)
        self.file, self.names, self.entered = file, names, entered

    def get_code(self, fullname: str) -> Any:
        tree = ast.parse(self.get_data(self.path))
        for name, function in list(functions(tree)):
            mark = ast.parse(f"__entered__[{len(self.names)}] = 1").body[0]
            for node in ast.walk(mark):
                ast.copy_location(node, function)
            function.body.insert(ast.get_docstring(function, clean=False) is not None, mark)
            self.names.append(f"{self.file}::{name}")
            self.entered.append(0)
        return compile(tree, self.path, "exec", dont_inherit=True)

    def exec_module(self, module: Any) -> None:
        module.__entered__ = self.entered
        super().exec_module(module)


class _Recorder(importlib.abc.MetaPathFinder):
    """The import hook, and a line for what each test entered; the last line of a process has the names."""

    def __init__(self, path: Path) -> None:
        self.path, self.names, self.entered = path, list[str](), bytearray()

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        spec = importlib.machinery.PathFinder.find_spec(name, path) if name.split(".")[0] in PACKAGES else None
        if spec and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            file = Path(spec.loader.path).resolve()
            if ROOT.resolve() in file.parents:
                short = file.relative_to(ROOT.resolve()).as_posix()
                spec.loader = _Marked(name, spec.loader.path, short, self.names, self.entered)
        return spec

    def pytest_sessionfinish(self) -> None:
        self._write(self.names)

    def _write(self, row: list[Any]) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[Any]:
        self.entered[:] = bytes(len(self.entered))
        began, clock = time.process_time(), time.perf_counter()
        try:
            return (yield)
        finally:
            # a test that waits for other processes costs what it waits
            seconds = max(time.process_time() - began, (time.perf_counter() - clock) / 2)
            self._write([item.nodeid, round(seconds, 3), [k for k, byte in enumerate(self.entered) if byte]])


def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Before anything of the packages is imported."""
    if place := os.environ.get("NEAR_RECORD"):
        recorder = _Recorder(Path(place) / f"{os.environ.get('PYTEST_XDIST_WORKER', 'main')}.jsonl")
        sys.meta_path.insert(0, recorder)
        early_config.pluginmanager.register(recorder)


def _environment(**own: str) -> dict[str, str]:
    """The environment of a run of its own, also where a run of this plugin starts it."""
    return {name: value for name, value in os.environ.items() if not name.startswith("NEAR_")} | own


def parts() -> list[str]:
    """What is recorded at a time: folders of tests, their modules outside of folders, and doctests of each package.

    >>> "tests/lowering" in parts() and "tests/test_near.py" in parts() and parts()[-1] == "stencils"
    True
    """
    inside = [p for p in (ROOT / "tests").iterdir() if any(p.rglob("test_*.py")) or p.match("test_*.py")]
    return [*sorted(p.relative_to(ROOT).as_posix() for p in inside), *PACKAGES]


def record(tests: Sequence[str], to: Path = RECORD, options: Sequence[str] = ("-n", "2", "--dist", "loadfile")) -> int:
    """Run each of the parts under the hook and write its file of the record; the worst status of their runs."""
    status = 0
    to.mkdir(parents=True, exist_ok=True)
    for part in tests:
        with tempfile.TemporaryDirectory() as place:
            command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.near", *options, part]
            status = max(status, subprocess.run(command, cwd=ROOT, env=_environment(NEAR_RECORD=place)).returncode)
            written = Path(place) / "part.gz"
            with gzip.open(written, "wt", encoding="utf-8") as out:
                for process in sorted(Path(place).glob("*.jsonl")):
                    *rows, names = process.read_text(encoding="utf-8").splitlines(keepends=True)
                    out.writelines([names, *rows])
            shutil.move(written, to / _file(part))
    return status


def _file(part: str) -> str:
    return f"{re.sub('[^A-Za-z0-9_]+', '-', part)}.jsonl.gz"


# The choice


@dataclass(frozen=True, slots=True)
class Row:
    """A test of the record: its seconds, the wanted functions that it entered, and how many it entered in all."""

    test: str
    seconds: float
    entered: frozenset[str]
    count: int


def choose(
    rows: Iterable[Row], lines: Mapping[str, int], seconds: float = SECONDS, modules: int = MODULES
) -> list[str]:
    """Tests by the lines that they add to those of the functions, for each second and by how little else they enter.

    >>> rows = [Row("a.py::x", 1.0, frozenset("f"), 1), Row("b.py::y", 0.1, frozenset("f"), 1)]
    >>> choose([*rows, Row("c.py::z", 1.0, frozenset("fg"), 2)], {"f": 10, "g": 10}, 1.5)
    ['b.py::y', 'c.py::z']
    """
    times = dict.fromkeys(lines, 0)

    def worth(row: Row) -> float:
        return sum(lines[f] * FADES ** times[f] for f in row.entered) / math.sqrt(row.count) / (row.seconds + 0.02)

    # the worth of a row only falls, so that one whose worth is still what it was is the best
    heap = [(-worth(row), row.test, row) for row in rows if row.entered]
    heapq.heapify(heap)
    chosen: list[str] = []
    begun: set[str] = set()
    while heap:
        before, test, row = heapq.heappop(heap)
        module = test.partition("::")[0]
        if row.seconds > seconds or (module not in begun and len(begun) == modules):
            continue
        if (now := -worth(row)) > before:
            heapq.heappush(heap, (now, test, row))
            continue
        chosen.append(test)
        begun.add(module)
        seconds -= row.seconds
        for f in row.entered:
            times[f] += 1
    return chosen


def wanted(target: str) -> dict[str, int]:
    """The functions that a target means, each with its lines: of a file or folder, around a line, or of a name."""
    place, _, line = target.removeprefix("./").partition(":")
    lines: dict[str, int] = {}
    for file, text in sources().items():
        inside = file == place or file.startswith(f"{place.rstrip('/')}/")
        for name, function in functions(ast.parse(text)) if inside or place in text else ():
            start, stop = function.lineno, function.end_lineno or function.lineno
            named = place in {part.lstrip("_") for part in name.split(".")} | {name}
            if named or (inside and (not line or start <= int(line) <= stop)):
                lines[f"{file}::{name}"] = stop - start + 1
    return lines


def recorded(lines: Mapping[str, int], to: Path) -> list[Row]:
    """The rows of a record, with the functions that are asked for; of parts with one test the last one counts."""
    rows: dict[str, Row] = {}
    for part in sorted(to.glob("*.jsonl.gz"), key=lambda path: path.stat().st_mtime):
        numbers: dict[int, str] = {}
        with gzip.open(part, "rt", encoding="utf-8") as text:
            for row in map(json.loads, text):
                match row:
                    case [str() as test, float() as seconds, list() as entered]:
                        named = frozenset(numbers[k] for k in entered if k in numbers)
                        rows[test] = Row(test, seconds, named, len(entered))
                    case names:  # those of the rows behind it, which one process wrote
                        numbers = {k: name for k, name in enumerate(names) if name in lines}
    return list(rows.values())


def never(paths: Sequence[str], to: Path = RECORD) -> list[str]:
    """The functions of files and folders, by default of all, that no test enters: to be tested or removed."""
    lines: dict[str, int] = {}
    for path in paths or PACKAGES:
        lines |= wanted(path)
    entered = {name for row in recorded(lines, to) for name in row.entered}
    return [f"{name}, {count} lines" for name, count in lines.items() if name not in entered]


def by_words(target: str, modules: int = MODULES) -> list[str]:
    """Test modules that share words with the path of a target, in their paths and texts; rare words weigh more.

    >>> by_words("lowering/kernels/columns.py", 400)[0].startswith("tests/")
    True
    """
    paths = sorted(p for p in (ROOT / "tests").rglob("test_*.py") if not {"benchmarks", "peers"} & set(p.parts))
    named = {p.relative_to(ROOT).as_posix(): p.read_text(encoding="utf-8") for p in paths}
    words = {w for w in re.findall(r"[a-z0-9]+", target.lower().removesuffix(".py")) if w not in ("py", "tensorir")}
    parts = {path: set(re.findall(r"[a-z0-9]+", path)) for path in named}
    dotted = target.removesuffix(".py").replace("/", ".")
    mirror = f"/test_{Path(target).stem}.py"
    score = {p: 3.0 * (dotted in t) + 2.0 * (target in t) + 4.0 * p.endswith(mirror) for p, t in named.items()}
    for word in words:
        stem = word.removesuffix("s")
        fits = {path: 2 * any(w.startswith(stem) for w in parts[path]) + (stem in text) for path, text in named.items()}
        rarity = math.log((len(named) + 1) / (sum(map(bool, fits.values())) + 1))
        for path, fit in fits.items():
            score[path] += fit * rarity
    return sorted((path for path in score if score[path] > 0), key=lambda path: (-score[path], path))[:modules]


def nearest(target: str, seconds: float = SECONDS, path: Path = RECORD) -> list[str]:
    """The tests nearest to a target, doctests of its own first, best first."""
    lines = wanted(target)
    files = list(dict.fromkeys(name.partition("::")[0] for name in lines))
    own = [target.partition(":")[0]] if (ROOT / target.partition(":")[0]).exists() else files
    if not own:
        return []
    chosen = choose(recorded(lines, path), lines, seconds) if path.exists() else []
    chosen = chosen or by_words(target.partition(":")[0])
    return [*own, *(test for test in chosen if not test.startswith(tuple(own)))]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The tests of a list alone, in its order; a module in it stands for all of its tests."""
    if listed := os.environ.get("NEAR_TESTS"):
        order = {test: k for k, test in enumerate(json.loads(Path(listed).read_text(encoding="utf-8")))}
        place = {item: order.get(item.nodeid, order.get(item.nodeid.partition("::")[0])) for item in items}
        config.hook.pytest_deselected(items=[item for item in items if place[item] is None])
        items[:] = sorted((item for item in items if place[item] is not None), key=lambda item: place[item] or 0)


def run(tests: Sequence[str], limit: float, root: Path = ROOT, quiet: bool = False) -> int | None:
    """The status of tests up to the first that fails, None where the time is over; a test that is gone is no error."""
    with tempfile.TemporaryDirectory() as place:
        listed = Path(place) / "tests.json"
        listed.write_text(json.dumps(list(tests)), encoding="utf-8")
        modules = [path for path in dict.fromkeys(t.partition("::")[0] for t in tests) if (root / path).exists()]
        command = [sys.executable, "-m", "pytest", "-q", "-x", "--no-header", "-p", "tests.near", *modules]
        env = _environment(NEAR_TESTS=str(listed), PYTHONPATH=str(root), PYTHONDONTWRITEBYTECODE="1")
        try:
            return subprocess.run(command, cwd=root, env=env, capture_output=quiet, timeout=limit).returncode
        except subprocess.TimeoutExpired:
            return None


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the tests nearest to a file, a folder, a builtin or a pass.")
    parser.add_argument("target", help="a path, PATH:LINE, the name of a function or class; or `record`, `never`")
    parser.add_argument("tests", nargs="*", help="what is recorded or looked through, all by default")
    parser.add_argument("--missing", action="store_true", help="record only parts that have no file yet")
    parser.add_argument("--print", action="store_true", dest="shown", help="print the tests instead of running them")
    parser.add_argument("--seconds", type=float, default=SECONDS)
    asked = parser.parse_args()
    if asked.target == "record":
        wished = asked.tests or parts()
        return record([part for part in wished if not (asked.missing and (RECORD / _file(part)).exists())])
    if asked.target == "never":
        print("\n".join(never(asked.tests)))
        return 0
    tests = nearest(asked.target, asked.seconds)
    if not tests:
        print(f"nothing here is called {asked.target!r}: give a path, a builtin or a pass.", file=sys.stderr)
        return 2
    if asked.shown:
        print("\n".join(tests))
        return 0
    print(f"{len(tests)} tests and modules, by {'the record' if RECORD.exists() else 'words of paths'}")
    status = run(tests, 60.0)
    if status is None:
        print("60 seconds are over, and nothing has failed")
    return status or 0


if __name__ == "__main__":
    sys.exit(main())
