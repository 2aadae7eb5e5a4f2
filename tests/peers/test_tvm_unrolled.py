"""Loops that TVM's pass writes out: the text of what is lifted is that of the loops."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

tvm = pytest.importorskip("tvm")

import tensorir as ti
from tests.corpus import corpus
from tests.lift.schedules import up_to_names

pytestmark = pytest.mark.filterwarnings("ignore")

HEAD = "# from tvm.script import tirx as T\n@T.prim_func\n"
SOURCES = corpus(Path(__file__).with_name("unrolled.txt"))


FOLDED = {"a padded pool": ["..u"], "a stencil with a border": [], "digits": []}
"""Conditions and quotients of numbers are numbers, once they are simplified; only these copies are still alike."""
CASES = {
    f"{name} {kinds}{' simplified' if simplified else ''}": (text, kinds, simplified)
    for name, (text, written_out) in SOURCES.items()
    for kinds in written_out.split()
    for simplified in ((False, True) if kinds in FOLDED.get(name, written_out.split()) else (False,))
}


@pytest.mark.parametrize(("text", "kinds", "simplified"), CASES.values(), ids=CASES)
def test_what_the_pass_writes_out_has_the_text_of_its_loops(text: str, kinds: str, simplified: bool):
    base = ti.tir.parse(HEAD + text.format(*("range" for _ in kinds)) + "\n")["main"]
    unrolled = HEAD + text.format(*("T.unroll" if k == "u" else "range" for k in kinds)) + "\n"
    module = tvm.IRModule({"main": tvm.script.from_source(unrolled, check_well_formed=False)})
    module = tvm.tirx.transform.UnrollLoop()(module)
    module = tvm.tirx.transform.StmtSimplify()(module) if simplified else module
    written = module["main"].script()
    assert "T.unroll" not in written
    function = ti.tir.parse(written)["main"]
    program = ti.lift(function)
    assert up_to_names(str(program)) == up_to_names(str(ti.lift(base))), written
    rng = np.random.default_rng(2)
    buffers = (base.buffer_map[param] for param in base.params)
    numbers = [np.asarray(rng.normal(size=[n.value for n in b.shape]) * 4).astype(str(b.dtype)) for b in buffers]
    wanted = ti.tir.interpret(base, *numbers)
    written_to = [k for k, argument in enumerate(program.arguments) if argument.written]
    for place, got in zip(written_to, program(*numbers), strict=True):
        np.testing.assert_allclose(got, wanted[place], rtol=1e-5, atol=1e-6)
