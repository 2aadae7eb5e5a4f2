"""Every operator under every schedule: `python -m tests.peers.sweep [--values] [operators or schedules]`.

A word such as `at_random_17` is a schedule of a few random steps, drawn with that number; `at_random_0-9` are ten.

A line is printed for each operator, schedule and step of TVM's lowering that steps or looks up more often than the
operator itself, or has many more operations, though it computes the same bits, and with `--values` for each whose
numbers are not the interpreter's; a lift of more than two seconds is told, too. The count of what was lifted, and of
what was alike, ends it. A schedule may change what is computed (`rfactor` of a float sum does, `reverse_compute_at` of
TVM 0.27 where a margin is added).
"""

from __future__ import annotations

import random
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tvm

import tensorir as ti
import tensorir.tir as tir
from tensorir.runtime.errors import DiagnosticError
from tests.lift.costs import Costs, costs_of
from tests.peers.operators import operators
from tests.peers.test_tvm_undone import (
    Make,
    all_at_hand,
    all_inside,
    all_near,
    as_it_is,
    at_random,
    in_two_parts,
    in_vectors,
    inputs_at_hand,
    last_block,
    module_of,
    new,
    over_threads,
    steps,
)
from tests.peers.test_tvm_undone_networks import inside_in_two_parts, parts_near

SLOW = 2.0
"""Seconds of a lift that are told."""


def blocks(s: Any) -> list[Any]:
    return [s.get_sblock(b.name_hint) for b in map(s.get, s.get_child_blocks(s.get_sblock("root")))]


def in_other_order(s: Any) -> None:
    for block in blocks(s):
        if len(loops := s.get_loops(block)) > 1:
            s.reorder(*reversed(loops))


def split_unevenly(s: Any) -> None:
    for block in blocks(s):
        for loop in s.get_loops(block):
            s.split(loop, [None, 3])


def tiled(s: Any) -> None:
    """The last two spatial loops of the last block in tiles, and what it reads computed per tile."""
    last = last_block(s)
    spatial = [x for x, i in zip(s.get_loops(last), s.get(last).iter_vars, strict=True) if i.iter_type == 0][-2:]
    split = [s.split(loop, [None, 2]) for loop in spatial]
    s.reorder(*[outer for outer, _ in split], *[inner for _, inner in split])
    for block in reversed(blocks(s)[:-1]):
        s.compute_at(block, split[-1][0])


def fetched(s: Any) -> None:
    """Over threads, which fetch what the last block reads into shared memory first."""
    last = last_block(s)
    spatial = [x for x, i in zip(s.get_loops(last), s.get(last).iter_vars, strict=True) if i.iter_type == 0]
    outer, inner = s.split(s.fuse(*spatial), [None, 8])
    s.bind(outer, "blockIdx.x")
    s.bind(inner, "threadIdx.x")
    copy = s.cache_read(last, 0, "shared")
    s.compute_at(copy, outer)
    _, thread = s.split(s.fuse(*s.get_loops(copy)[1:]), [None, 8])
    s.bind(thread, "threadIdx.x")


def over_tasks(s: Any) -> None:
    """Tiles of the last block as tasks that run at once, each of which computes what it reads."""
    last = last_block(s)
    spatial = [x for x, i in zip(s.get_loops(last), s.get(last).iter_vars, strict=True) if i.iter_type == 0]
    split = [s.split(loop, [None, 2]) for loop in spatial]
    s.reorder(*[outer for outer, _ in split], *[inner for _, inner in split])
    task = s.fuse(*[outer for outer, _ in split])
    s.parallel(task)
    for block in reversed(blocks(s)[:-1]):
        s.compute_at(block, task)


SCHEDULES: dict[str, Callable[[Any], None]] = {
    f.__name__: f
    for f in (
        as_it_is,
        over_threads,
        all_inside,
        all_near,
        parts_near,
        inputs_at_hand,
        all_at_hand,
        in_two_parts,
        inside_in_two_parts,
        in_vectors,
        in_other_order,
        split_unevenly,
        tiled,
        fetched,
        over_tasks,
    )
}


def drawn(word: str) -> dict[str, Callable[[Any], None]]:
    """The random schedules that a word names."""
    if not word.startswith("at_random_"):
        return {}
    first, _, last = word.removeprefix("at_random_").partition("-")
    seeds = range(int(first), int(last or first) + 1)
    return {f"at_random_{seed}": lambda s, seed=seed: at_random(s, random.Random(seed)) for seed in seeds}


def forms(make: Make, schedule: Callable[[Any], None]) -> Iterator[tuple[str, str]]:
    """The step of the lowering and the text, of each that is new; nothing where TVM refuses the schedule."""
    changed = tvm.s_tir.Schedule(module_of(make))
    try:
        schedule(changed)
    except (RuntimeError, IndexError, TypeError, ValueError):  # TVM refuses it, or the block has too few loops for it
        return
    for step, module in new(steps(changed.mod)):
        yield step, module.script()


def given(function: Any) -> list[Any]:
    """An array per argument; whole ones count from 0 to 3, so that they may be indices."""
    rng = np.random.default_rng(0)
    made: list[Any] = []
    for p in function.params:
        buffer = function.buffer_map[p]
        shape, kind = tuple(e.value for e in buffer.shape), str(buffer.dtype)
        made.append(
            rng.normal(size=shape).astype(kind) if kind.startswith("float") else rng.integers(0, 4, shape).astype(kind)
        )
    return made


def alike(text: str, wanted: Costs, values: list[Any], arrays: list[Any], checked: bool) -> Iterator[str]:
    """What is not as it should be of a form, whose numbers are the interpreter's; other bits may take more."""
    began = time.perf_counter()
    function: Any = tir.parse(text)["main"]
    try:
        program = ti.lift(function)
    except DiagnosticError as error:
        if _wrong(function, arrays) is None:
            yield f"{type(error).__name__}: {str(error)[:200]}"
        return
    if (took := time.perf_counter() - began) > SLOW:
        yield f"{took:.1f} s"
    costs = costs_of(program)
    differs = not costs.near(wanted) or costs.gathers > wanted.gathers
    own = tir.interpret(function, *arrays) if differs or checked else values
    if differs and _bits(own) == _bits(values):
        yield f"{costs}, where the operator has {wanted}"
    if checked:
        found = program(*arrays)
        for one, other in zip(found, own[-len(found) :], strict=True):
            if not np.allclose(np.asarray(one), other, rtol=1e-4, atol=1e-5, equal_nan=True):
                yield "other numbers"


def _wrong(function: Any, arrays: list[Any]) -> str | None:
    """What a function does wrong on some arrays, None where nothing: some of TVM's read out of bounds."""
    try:
        tir.interpret(function, *arrays, checked=True)
    except DiagnosticError as error:
        return error.diagnostics[0].message
    return None


def _bits(arrays: list[Any]) -> list[bytes]:
    return [np.asarray(x).tobytes() for x in arrays]


def main(words: list[str]) -> int:
    """Lines for what differs; 1 where anything does."""
    warnings.simplefilter("ignore")
    checked = "--values" in words
    every = operators()
    named = {w: [n for n in every if n == w or (w.endswith("*") and n.startswith(w[:-1]))] for w in words}
    some = {name: s for name, s in SCHEDULES.items() if name in words}
    some |= {name: s for word in words for name, s in drawn(word).items()}
    unknown = [w for w in words if not (named[w] or w in SCHEDULES or drawn(w) or w == "--values")]
    if unknown:
        print(f"no operator or schedule is called {', '.join(unknown)}.")
        return 2
    chosen = list(dict.fromkeys(name for names in named.values() for name in names))
    count = wrong = 0
    for name in chosen or every:
        function: Any = tir.parse(module_of(every[name]))["main"]
        try:
            wanted, arrays = costs_of(ti.lift(function)), given(function)
        except Exception as error:  # the lift may refuse, or go wrong: either is told
            print(f"{name}: {type(error).__name__}: {str(error)[:300]}", flush=True)
            wrong += 1
            continue
        values = tir.interpret(function, *arrays)
        wrong_itself = _wrong(function, arrays) if checked else None
        if wrong_itself is not None:
            print(f"{name}: no values are compared: {wrong_itself}", flush=True)
        for title, schedule in (some or SCHEDULES).items():
            for step, text in forms(every[name], schedule):
                count += 1
                try:
                    said = list(alike(text, wanted, values, arrays, checked and wrong_itself is None))
                except Exception as error:  # the same
                    said = [f"{type(error).__name__}: {str(error)[:200]}"]
                wrong += bool(said)
                if said:
                    print(f"{name}, {title}, {step}: {', '.join(said)}", flush=True)
    print(f"{count} forms, {count - wrong} alike")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
