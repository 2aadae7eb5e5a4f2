"""Figures of lifted programs, as `figures.txt` keeps them: `python -m tests.lift.ratchet [--write] [--values] [--all]`.

A line of the file is a program, or steps of the lowering of one (`operator (step step)`): loops step by step, scans and
folds by functions, gathers and scatters, distinct operations, and kilobytes that XLA's kernels read and write (of the
modules of TIR, of TileLang, of the textbook and of `kernels.txt`; counted on a CPU). Lines that differ from those that
are kept are printed as a diff; with `--write` they are kept, and lifted texts of kernels in `forms.txt`; with
`--values` values are compared with TVM's, or with the interpreter's, too. Words choose programs whose names they are a
part of. Programs that are refused have a line with the diagnostic.

Beside modules at hand there are TVM's operators: all of them with each step of their lowering, every fourth one under
schedules, and fifty under a schedule at random each. That takes a quarter of an hour of a CPU: without `--all` and
without words, every eighth of them is lifted.

`--beside PATH [words]` compares run times of twenty kernels with those that another checkout makes of them.
"""

from __future__ import annotations

import difflib
import json
import random
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import tensorir as ti
import tensorir.tir as tir
from tensorir.lifting.program import Lifted
from tensorir.runtime.errors import DiagnosticError
from tests.lift.costs import KEPT, Costs, costs_of, kept, written
from tests.lift.kernels import beside, kernels, lifted
from tests.lift.textbook.loops import function_of, textbook

FORMS = KEPT.with_name("forms.txt")
CONFORMANCE = Path(__file__).parents[3] / "shared" / "conformance"
AT_RANDOM = 50
SCHEDULES = ("over_threads", "tiled", "fetched", "in_two_parts", "split_unevenly")
EVERY = 4
"""Of how many operators one is scheduled."""
FEW = 8
"""Of how many operators one is lifted where nothing is said."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A function or its lift, arguments, and what it leaves in those of some numbers; else the interpreter tells."""

    name: str
    function: Any
    arrays: Sequence[Any]
    wanted: dict[int, Any] | None = None
    compiled: bool = True
    """Whether XLA tells how many bytes its kernels move."""

    def costs(self) -> tuple[Costs | str, float]:
        """Those of the lifted program, or the diagnostic that refuses it; and the seconds of the lift."""
        began = time.process_time()
        try:
            program = self.function if isinstance(self.function, Lifted) else ti.lift(self.function)
            fencil = program.at(program.sizes_of(self.arrays)).built(True).fencil
        except DiagnosticError as error:
            return f"refused: {error.diagnostics[0].code}", time.process_time() - began
        took = time.process_time() - began
        return costs_of(fencil, self.compiled), took


def samples(words: Sequence[str], step: int) -> Iterator[Sample]:
    """Those whose names have one of the words, and of TVM's operators one in `step`."""
    for make in (_textbook, _kernels, _conformance, _tilelang):
        yield from make(words)
    for make in (_operators, _scheduled):
        yield from make(words, step)


def _asked(name: str, words: Sequence[str]) -> bool:
    return not words or any(w in name for w in words)


def _textbook(words: Sequence[str]) -> Iterator[Sample]:
    for name, text, arrays, _ in textbook():
        if _asked(f"textbook: {name}", words):
            yield Sample(f"textbook: {name}", function_of(text), arrays)


def _kernels(words: Sequence[str]) -> Iterator[Sample]:
    for name, text in kernels().items():
        if _asked(f"kernel: {name}", words):
            program, arrays = lifted(text)
            function: Any = program if text.startswith("entry") else tir.parse(text)["main"]
            yield Sample(f"kernel: {name}", function, arrays)


def _conformance(words: Sequence[str]) -> Iterator[Sample]:
    for file in sorted((CONFORMANCE / "tir").glob("*.py")):
        if _asked(name := f"TIR: {file.stem}", words):
            data = np.load(file.with_suffix(".npz"))
            meta: dict[str, Any] = json.loads(str(data["meta"]))
            arrays = [data[f"arg{k}"] for k in range(len(meta["args"]))]
            wanted = {int(n[3:]): data[n] for n in data if n.startswith("out")}
            yield Sample(name, tir.parse(file.read_text(), file.stem)[meta["func"]], arrays, wanted)


def _tilelang(words: Sequence[str]) -> Iterator[Sample]:
    index = CONFORMANCE / "tilelang" / "index.json"
    for case in json.loads(index.read_text()) if index.exists() else ():
        if _asked(name := f"TileLang: {case['name']}", words):
            file = index.parent / f"{case['name']}.py"
            data = np.load(file.with_suffix(".npz"))
            arrays = [data[f"arg{k}"] for k in range(sum(n.startswith("arg") for n in data.files))]
            wanted = {k: data[f"out{k}"] for k in case["outputs"]}
            yield Sample(name, tir.parse(file.read_text())[case["func"]], arrays, wanted)


def _operators(words: Sequence[str], step: int) -> Iterator[Sample]:
    """TVM's operators, with each step of their lowering that is new."""
    try:
        from tests.peers import sweep
    except ImportError:
        return
    for name, make in list(sweep.operators().items())[::step]:
        if _asked(name, words):
            for pass_name, text in sweep.forms(make, sweep.as_it_is):
                function: Any = tir.parse(text)["main"]
                yield Sample(f"{name} ({pass_name})", function, sweep.given(function), compiled=False)


def _scheduled(words: Sequence[str], step: int) -> Iterator[Sample]:
    """Scheduled operators: the first form that the schedule gives them."""
    try:
        from tests.peers import sweep
    except ImportError:
        return
    every = list(sweep.operators().items())
    chosen = [(name, make, title, sweep.SCHEDULES[title]) for title in SCHEDULES for name, make in every[::EVERY]]
    for seed in range(AT_RANDOM):
        name, make = every[seed * len(every) // AT_RANDOM]
        chosen.append((name, make, f"at_random_{seed}", partial(sweep.at_random, r=random.Random(seed))))
    for name, make, title, schedule in chosen[::step]:
        if _asked(f"{name}, {title}", words):
            for _, text in sweep.forms(make, schedule):
                function: Any = tir.parse(text)["main"]
                yield Sample(f"{name}, {title}", function, sweep.given(function), compiled=False)
                break


def same(one: str, other: str) -> bool:
    """Whether figures are alike, or one diagnostic refuses both programs."""
    refused = "refused" in one or "refused" in other
    return one == other if refused else Costs.parse(one).alike(Costs.parse(other))


def differs(sample: Sample) -> str | None:
    """How the values of the lifted program are not those that are wanted."""
    wanted = sample.wanted or dict(enumerate(tir.interpret(sample.function, *[np.copy(a) for a in sample.arrays])))
    program = ti.lift(sample.function)
    try:
        results = program(*sample.arrays)
    except DiagnosticError as error:
        # some of TVM's operators read out of bounds where data say so
        try:
            tir.interpret(sample.function, *[np.copy(a) for a in sample.arrays], checked=True)
        except DiagnosticError:
            return None
        return f"{sample.name}: {error.diagnostics[0].message}"
    written = [k for k, argument in enumerate(program.arguments) if argument.written]
    # a function of Relax returns what it computes
    for k, got in zip(written or range(len(results)), results, strict=True):
        if k in wanted:
            want = wanted[k].view(got.dtype) if wanted[k].dtype.itemsize == got.dtype.itemsize else wanted[k]
            pair = [np.asarray(x).astype(np.float64) for x in (got, want)]
            if not np.allclose(*pair, rtol=1e-3, atol=1e-4, equal_nan=True):
                return f"{sample.name}: argument {k} differs by {np.nanmax(np.abs(pair[0] - pair[1])):.2g}"
    return None


def write_forms() -> None:
    """The lifted texts of `forms.txt` as they are now."""
    made = "".join(f"#---- {name}\n{lifted(text)[0]}\n" for name, text in kernels().items())
    FORMS.write_text(made, encoding="utf-8")


def main(words: list[str]) -> int:
    """A diff of the figures, and totals; 1 where they, or values, differ."""
    warnings.simplefilter("ignore")
    if words[:1] == ["--beside"]:
        return beside(words[1:])
    write, checked, everything = ("--" + word in words for word in ("write", "values", "all"))
    words = [w for w in words if not w.startswith("--")]
    before, now, seconds, wrong = kept(), dict[str, str](), 0.0, 0
    total = Counter[str]()
    for sample in samples(words, 1 if everything or words else FEW):
        costs, took = sample.costs()
        seconds += took
        if isinstance(costs, Costs):
            total.update(dict(zip(("loops", "folds", "gathers", "operations"), costs.counts, strict=True)))
            if checked and not isinstance(sample.function, Lifted) and (other := differs(sample)) is not None:
                wrong += 1
                print(f"other values: {other}", flush=True)
        text, old = str(costs), before.get(sample.name)
        now[sample.name] = old if old is not None and same(old, text) else text
    # what was not asked for stays
    after = now if everything else before | now
    first, second = ([f"{name} | {text}" for name, text in rows.items()] for rows in (before, after))
    diff = list(difflib.unified_diff(first, second, "kept", "now", lineterm="", n=0))
    print(*diff, sep="\n")
    print(f"{len(now)} programs, {dict(total)}, lifted in {seconds:.1f} s of this machine")
    if write:
        write_forms()
        head = "# program | loops, folds, gathers, operations, kilobytes: python -m tests.lift.ratchet --write\n"
        KEPT.write_text(head + written(after), encoding="utf-8")
    return int(wrong > 0 or (bool(diff) and not write))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
