"""Both ways of the lift on every module at hand: `python -m tests.lift.ratchet [--values] [--all] [words]`.

A line is printed for each nest that exact dataflow does not cover, with the reason, or for which it steps more often or
needs more operations than dependences: "chosen", steps along loops, folds by functions and operations of either way.
Where only operations are more, XLA is asked: programs that look up no more often, and of which its kernels read and
write no more bytes, are "fused", as more names, conversions, cuts and comparisons beside others cost nothing there.
With `--all` every nest has one. Totals end it. With `--values` the numbers of exact dataflow, where it covers a nest,
are compared with TVM's, the interpreter's or NumPy's. Words choose modules whose names they are a part of.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import tensorir as ti
import tensorir.tir as tir
from tensorir.runtime.errors import DiagnosticError
from tests.lift.textbook.loops import LOOPS, arrays_of
from tests.lift.textbook.test_textbook_of_places import ROWS

ways = import_module("tensorir.lifting.ways")
CONFORMANCE = Path(__file__).parents[3] / "shared" / "conformance"

Figures = tuple[int, int, int]
"""Loops step by step, scans and folds by functions, and distinct operations."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A function, arguments, and what it leaves in those of some numbers; without, the interpreter tells."""

    name: str
    function: Any
    arrays: Sequence[Any]
    wanted: dict[int, Any] | None = None


@dataclass(frozen=True, slots=True)
class Nest:
    """Either way on one nest: its figures, or why it does not cover the nest."""

    name: str
    flow: Figures | str
    dependences: Figures
    by_flow: bool
    fused: bool = False
    """Whether XLA makes no more of more operations."""

    @property
    def verdict(self) -> str:
        """How exact dataflow compares: by steps first, as the choice between the ways does."""
        if isinstance(self.flow, str):
            return "uncovered"
        if self.fused:
            return "fused"
        return "equal" if self.flow == self.dependences else "better" if self.flow < self.dependences else "worse"


def samples(words: Sequence[str]) -> Iterator[Sample]:
    for make in (_conformance, _tilelang, _textbook, _operators):
        yield from make(words)


def _asked(name: str, words: Sequence[str]) -> bool:
    return not words or any(w in name for w in words)


def _conformance(words: Sequence[str]) -> Iterator[Sample]:
    for file in sorted((CONFORMANCE / "tir").glob("*.py")):
        if _asked(file.stem, words):
            data = np.load(file.with_suffix(".npz"))
            meta: dict[str, Any] = json.loads(str(data["meta"]))
            arrays = [data[f"arg{k}"] for k in range(len(meta["args"]))]
            wanted = {int(n[3:]): data[n] for n in data if n.startswith("out")}
            yield Sample(file.stem, tir.parse(file.read_text(), file.stem)[meta["func"]], arrays, wanted)


def _tilelang(words: Sequence[str]) -> Iterator[Sample]:
    index = CONFORMANCE / "tilelang" / "index.json"
    for case in json.loads(index.read_text()) if index.exists() else ():
        if _asked(f"tilelang {case['name']}", words):
            file = index.parent / f"{case['name']}.py"
            data = np.load(file.with_suffix(".npz"))
            arrays = [data[f"arg{k}"] for k in range(sum(n.startswith("arg") for n in data.files))]
            wanted = {k: data[f"out{k}"] for k in case["outputs"]}
            yield Sample(f"tilelang {case['name']}", tir.parse(file.read_text())[case["func"]], arrays, wanted)


def _textbook(words: Sequence[str]) -> Iterator[Sample]:
    rows = [(name, text, arrays_of(text)) for name, (text, *_) in LOOPS.items()]
    rows += [(name, text, arrays) for name, (text, _, arrays, _) in ROWS.items()]
    for name, text, arrays in rows:
        if _asked(f"textbook {name}", words):
            yield Sample(f"textbook {name}", tir.parse(f"@T.prim_func\ndef main({text}")["main"], arrays)


def _operators(words: Sequence[str]) -> Iterator[Sample]:
    try:
        from tests.peers import sweep
    except ImportError:
        return
    for name, make in sweep.operators().items():
        if _asked(name, words):
            for step, text in sweep.forms(make, sweep.as_it_is):
                function: Any = tir.parse(text)["main"]
                yield Sample(f"{name} ({step})", function, sweep.given(function))


def nests_of(sample: Sample) -> list[Nest]:
    """Both ways on each nest of a function, those with checks included."""
    found: list[Nest] = []

    def both(
        name: str, arguments: Any, nodes: Any, outputs: Sequence[int], checked: bool, exact: bool, finish: Any
    ) -> Any:
        asked, given = [arguments[k] for k in outputs], (arguments, *ways.prepared(nodes, exact))

        def figures(way: Any) -> tuple[Figures, Any]:
            made = finish(way)
            return (*way.steps(asked), len(made.operations)), made.fencil

        flow = ways.by_flow(name, *given, checked, exact)
        best = ways.chosen(name, arguments, nodes, outputs, checked, exact, finish)
        told = f"{sample.name}: {name}" if name != "main" else sample.name
        other, second = figures(ways.by_dependences(*given, checked, exact))
        told += ", checked" if checked else ""
        if isinstance(flow, str):
            found.append(Nest(told, flow, other, best.way.by_flow))
            return best
        own, first = figures(flow)
        fused = own[:2] == other[:2] and own > other and _is_no_more(first, second)
        found.append(Nest(told, own, other, best.way.by_flow, fused))
        return best

    with patch.object(import_module("tensorir.lifting.assemble"), "chosen", both):
        program = ti.lift(sample.function)
        program.at(program.sizes_of(sample.arrays)).built(True)
    return found


MORE = 1.03
"""How many times as many bytes are no more."""


def _is_no_more(first: Any, second: Any) -> bool:
    """Whether XLA's kernels of a program look up no more often than those of another, and move no more bytes."""

    def moved(fencil: Any) -> tuple[int, float]:
        compiled = ti.compile(fencil).lowered().compile()
        lookups = sum(compiled.as_text().count(f" {op}(") for op in ("gather", "scatter", "while"))
        return lookups, (compiled.cost_analysis() or {}).get("bytes accessed", 0.0)

    (often, more), (as_often, fewer) = moved(first), moved(second)
    return often <= as_often and more <= MORE * fewer


def by_flow_alone(
    name: str, arguments: Any, nodes: Any, outputs: Sequence[int], checked: bool, exact: bool, finish: Any
) -> Any:
    """Exact dataflow wherever it covers a nest."""
    found = ways.by_flow(name, arguments, *ways.prepared(nodes, exact), checked, exact)
    if isinstance(found, str):
        return ways.chosen(name, arguments, nodes, outputs, checked, exact, finish)
    return finish(found)


def differs(sample: Sample) -> str | None:
    """Where the numbers of exact dataflow are not those that are wanted."""
    wanted = sample.wanted or dict(enumerate(tir.interpret(sample.function, *[np.copy(a) for a in sample.arrays])))
    with patch.object(import_module("tensorir.lifting.assemble"), "chosen", by_flow_alone):
        program = ti.lift(sample.function)
        results = program(*sample.arrays)
    written = [k for k, argument in enumerate(program.arguments) if argument.written]
    # a function of Relax returns what it computes
    for k, got in zip(written or range(len(results)), results, strict=True):
        if k in wanted:
            want = wanted[k].view(got.dtype) if wanted[k].dtype.itemsize == got.dtype.itemsize else wanted[k]
            pair = [np.asarray(x).astype(np.float64) for x in (got, want)]
            if not np.allclose(*pair, rtol=1e-3, atol=1e-4, equal_nan=True):
                return f"{sample.name}: argument {k} differs by {np.nanmax(np.abs(pair[0] - pair[1])):.2g}"
    return None


def main(words: list[str]) -> int:
    """Lines for what is uncovered or worse, and totals; 1 where numbers differ."""
    warnings.simplefilter("ignore")
    values, everything = "--values" in words, "--all" in words
    verdicts, reasons, wrong, modules = Counter[str](), Counter[str](), 0, 0
    alone = 0
    for sample in samples([w for w in words if not w.startswith("--")]):
        modules += 1
        try:
            nests = nests_of(sample)
            if values and (told := differs(sample)) is not None:
                wrong += 1
                print(f"other numbers: {told}", flush=True)
        except DiagnosticError as error:
            print(f"refused: {sample.name}: {error.diagnostics[0].message}", flush=True)
            continue
        for nest in nests:
            verdicts[nest.verdict] += 1
            alone += nest.by_flow
            if isinstance(nest.flow, str):
                reasons[nest.flow.partition("'")[0]] += 1
            if everything or nest.verdict in ("uncovered", "worse"):
                way = "dataflow" if nest.by_flow else "dependences"
                print(f"{nest.verdict}: {nest.name}: {way} of {nest.flow}, {nest.dependences}", flush=True)
    print(f"{modules} modules, {verdicts.total()} nests: {alone} by dataflow; of dataflow {dict(verdicts)}")
    for reason, count in reasons.most_common():
        print(f"{count:6} {reason}")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
