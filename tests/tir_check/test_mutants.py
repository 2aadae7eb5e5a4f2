"""Mutants of sound programs: those that are in fact wrong are found, and no others are refused.

A mutant is *in fact wrong* if the definitions in `by_definition` say so: it breaks a rule of types, scopes or
structure; or, run one element at a time, it leaves a buffer, reads what nobody wrote, has a race, leaves a declared
region or an iterator's domain, divides by zero, lets an index overflow, or comes to a barrier without all threads. A
mutant that merely computes something else is not wrong; one that does not end (a `while` whose condition is changed) is
left out. The checker, or else the interpreter in checked mode, has to find at least 90 % of the wrong ones.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from by_definition import verdict
from mutations import mutants

import tensorir.tir as tir
from tensorir.runtime.errors import DiagnosticError
from tensorir.tir import nodes as n

EVERY = 3
"""One mutant in three is run."""

TEXTS = [text.split("\n", 1) for text in (Path(__file__).parent / "sound_programs.txt").read_text().split("#----\n")]
PROGRAMS = {title.strip("# "): text for title, text in TEXTS}


def program(title: str) -> tuple[n.PrimFunc, list[Any]]:
    """A sound program, and arrays for its parameters; `P` is a permutation."""
    func = next(iter(tir.parse("@T.prim_func\n" + PROGRAMS[title]).functions.values()))
    assert isinstance(func, n.PrimFunc)
    random = np.random.default_rng(3)
    arrays: list[Any] = []
    for param in func.params:
        buffer = func.buffer_map[param]
        shape = tuple(extent.value for extent in buffer.shape if isinstance(extent, n.IntImm))
        values = random.permutation(shape[0]) if buffer.name == "P" else random.integers(0, 9, shape)
        arrays.append(values.astype(buffer.dtype.numpy))
    return func, arrays


def complaint(func: n.PrimFunc, arrays: list[Any]) -> str | None:
    """What the checker, or else the interpreter in checked mode, has to say."""
    try:
        tir.check(func)
        tir.interpret(func, *arrays, checked=True)
    except DiagnosticError as error:
        return str(error)
    return None


@pytest.mark.parametrize("title", PROGRAMS)
def test_a_sound_program_is_sound(title: str):
    func, arrays = program(title)
    assert verdict(func, arrays) is None
    assert complaint(func, arrays) is None


@pytest.mark.parametrize("title", PROGRAMS)
def test_wrong_mutants_are_found_and_sound_ones_pass(title: str):
    func, arrays = program(title)
    found, missed = 0, list[str]()
    for kind, mutant in list(mutants(func))[::EVERY]:
        wrong = verdict(mutant, arrays)
        if wrong == "endless":
            continue
        said = complaint(mutant, arrays)
        if wrong is None:
            assert said is None, f"a false alarm on a mutant ({kind}):\n{said}\n{mutant}"
        elif said is None:
            missed.append(f"{kind}, {wrong}:\n{mutant}")
        else:
            found += 1
    assert len(missed) <= 0.1 * (found + len(missed)), "\n".join(missed)


def test_there_are_mutants_of_every_kind():
    counts: dict[str, int] = {}
    for title in PROGRAMS:
        for kind, _ in list(mutants(program(title)[0]))[::EVERY]:
            counts[kind] = counts.get(kind, 0) + 1
    kinds = "operator constant index type scope loop extent region iterator statement memory match"
    assert set(counts) == set(kinds.split())
    assert sum(counts.values()) >= 1500
