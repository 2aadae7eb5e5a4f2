"""Checked mode: each hazard is reported with a witness, pinned whole; what is right passes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorir.tir as tir
from tensorir.runtime.errors import DiagnosticError
from tests.corpus import corpus

HEAD = '@T.prim_func\ndef main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):\n'

CASES = corpus(Path(__file__).with_name("checked.txt"))
HAZARDS = {title: case for title, case in CASES.items() if case[1]}

RIGHT = {title: text for title, (text, expected) in CASES.items() if not expected}


def run(body: str) -> Any:
    module = tir.parse(HEAD + "".join(f"    {line}\n" for line in body.splitlines()))
    return tir.interpret(module["main"], np.arange(8, dtype=np.int32), np.zeros(8, np.int32), checked=True)


@pytest.mark.parametrize("name", HAZARDS)
def test_a_hazard_is_reported_with_its_witness(name: str):
    body, expected = HAZARDS[name]
    sentence, *notes = expected.split("\n")
    with pytest.raises(DiagnosticError) as caught:
        run(body)
    found = caught.value.diagnostics[0]
    assert found.message == sentence
    assert set(notes) <= set(found.notes)


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_passes(name: str):
    run(RIGHT[name])


FOLDED_OUTSIDE = """@T.prim_func
def main(A: T.Buffer((4, 3), "float32"), D: T.Buffer((4,), "float32")):
    P = T.sblock_alloc_buffer((4,))
    for k in range(3):
        for i in T.parallel(4):
            with T.sblock("P"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    P[vi] = T.float32(0)
                P[vi] = P[vi] + A[vi, vk]
            with T.sblock("D"):
                vi = T.axis.spatial(4, i)
                D[vi] = P[vi]
"""


def test_storage_that_a_loop_outside_folds_into_is_no_iterations_own():
    data = np.arange(12, dtype=np.float32).reshape(4, 3)
    found = tir.interpret(tir.parse(FOLDED_OUTSIDE)["main"], data, np.zeros(4, np.float32), checked=True)
    assert found[1].tolist() == [3, 12, 21, 30]


ATOMIC = """@T.prim_func
def main(A: T.Buffer((4,), "int32"), H: T.Buffer((1,), "int32")):
    for b in T.thread_binding(3, "blockIdx.x"):
        {body}
"""
UPDATE = "T.evaluate(T.atomic_add(T.address_of(H[0]), b + 1))"


@pytest.mark.parametrize(
    ("body", "verbs"),
    [
        (f"{UPDATE}\n        A[b] = H[0]", "updated atomically at several iterations and read at blockIdx.x = 0"),
        (f"A[b] = H[0]\n        {UPDATE}", "read at blockIdx.x = 2 and updated atomically at blockIdx.x = 0"),
        (f"H[0] = 0\n        {UPDATE}", "written at blockIdx.x = 2 and updated atomically at blockIdx.x = 0"),
    ],
)
def test_a_plain_access_beside_an_atomic_one_of_another_block_is_a_race(body: str, verbs: str):
    with pytest.raises(DiagnosticError) as caught:
        arrays = np.zeros(4, np.int32), np.zeros(1, np.int32)
        tir.interpret(tir.parse(ATOMIC.format(body=body))["main"], *arrays, checked=True)
    assert caught.value.diagnostics[0].message == f"race: element 0 of 'H' is {verbs}."


@pytest.mark.parametrize("body", [UPDATE, "A[b] = T.atomic_add(T.address_of(H[0]), b + 1)"])
def test_atomic_updates_do_not_race_with_each_other(body: str):
    arrays = np.zeros(4, np.int32), np.zeros(1, np.int32)
    assert tir.interpret(tir.parse(ATOMIC.format(body=body))["main"], *arrays, checked=True)[1].tolist() == [6]
