"""Regions that a text leaves out are completed as TVM completes them, however the indices come about."""

from __future__ import annotations

from pathlib import Path

import pytest

tvm = pytest.importorskip("tvm")

import tensorir.tir as tir
from tests.corpus import corpus

HEAD = """@T.prim_func(s_tir=True)
def main(
    A: T.Buffer((16, 16), "float32"),
    B: T.Buffer((16,), "float32"),
    P: T.Buffer((16,), "int32"),
    C: T.Buffer((16, 16), "float32"),
    n: T.int32,
):
    for i, j in T.grid(4, 4):
        with T.sblock("b"):
            vi, vj = T.axis.remap("SS", [i, j])
"""

BODIES = {title: text for title, (text, _) in corpus(Path(__file__).with_name("regions.txt")).items()}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", BODIES)
def test_regions_are_completed_as_tvm_completes_them(name: str):
    text = HEAD + "".join(f"            {line}\n" for line in BODIES[name].splitlines())
    theirs = tvm.script.from_source(text).script()
    assert tir.parse(text) == tir.parse(theirs), theirs
