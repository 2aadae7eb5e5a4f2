"""The transformation of the specification, from its first listing to its second and back."""

import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorir as ti
from tensorir.passes import Inline, Temporaries

sys.path.insert(0, str(Path(__file__).parent.parent / "text"))
from specification import COSINES, COSINES_WITH_BUFFER


def test_the_second_listing_of_the_specification_is_made_from_its_first():
    assert Temporaries()(ti.parse(COSINES)) == ti.parse(COSINES_WITH_BUFFER)


def test_the_figures_are_operations_saved_and_bytes_added():
    (worth,) = Temporaries().plan(ti.parse(COSINES))
    assert (worth.saved, worth.added) == (32 * 100, 2 * 800)


def test_inline_gives_the_buffer_back():
    f = ti.parse(COSINES_WITH_BUFFER)
    assert str(ti.passes.Pipeline("inline(buffers='tmp')")(f)) == str(
        ti.parse("""fencil(out: tensor<float, I[1:99]>, inp: tensor<float, I[0:100]>) {
          out ← let tmp = cos(inp); ⟪I, 1⟫(tmp) + ⟪I, -1⟫(tmp); }""")
    )


def test_buffers_that_a_pass_made_go_without_being_named():
    f = ti.parse(COSINES)
    assert [p.name for p in Inline()(Temporaries()(f)).params] == ["out", "inp"]


def test_a_cheap_expression_at_one_offset_stays():
    f = ti.parse("f(out: tensor<float, I[0:9]>, x: tensor<float, I[0:9]>) { out ← (x + x) × (x + x); }")
    assert Temporaries()(f) is f


def test_an_expression_read_at_fewer_places_than_asked_stays():
    f = ti.parse(COSINES)
    assert ti.passes.Pipeline("temporaries(min_uses=3)")(f) is f


SQUARE = "f(out: tensor<float, I[0:9]>, x: tensor<float, I[0:9]>) { out ← let c = cos(x); (c + 1.0) × (2.0 - c); }"
THREE = """f(out: tensor<float, I[1:9]>, x: tensor<float, I[0:10]>) {
  out ← ⟪I, 1⟫(cos(x)) + ⟪I, -1⟫(cos(x)) + cos(x); }"""


@pytest.mark.parametrize(
    ("text", "option", "most"),
    [
        # a cosine counts as 32 operations; a buffer is written and read, 16 bytes a point
        (COSINES, "min_uses", 2), (THREE, "min_uses", 3), (COSINES, "min_work", 32), (COSINES, "min_per_byte", 2),
        (THREE, "min_per_byte", 4), (SQUARE, "costly", 32),
    ],
)  # fmt: skip
def test_an_expression_is_stored_up_to_what_its_options_ask_for(text: str, option: str, most: float):
    f = ti.parse(text)
    options: dict[str, Any] = {"costly": 100.0, option: most}
    assert len(Temporaries(**options)(f).closures) == 2
    assert Temporaries(**{**options, option: most * 1.01})(f) is f


SHIFTED = """fencil(out: tensor<float, I[5:9]>, inp: tensor<float, I[0:100]>) {
  out ← ⟪I, 2⟫(cos(inp)) + ⟪I, -1⟫(cos(inp)); }"""


def test_a_buffer_is_the_hull_of_what_is_read_and_no_more():
    f = Temporaries()(ti.parse(SHIFTED))
    assert str(f["tmp"].type) == "tensor<float, I[4:11]>"
    (worth,) = Temporaries().plan(ti.parse(SHIFTED))
    assert worth.buffer == f["tmp"].type


def test_a_buffer_is_no_result_and_no_parameter_of_a_call():
    f = ti.parse(SHIFTED)
    stored = Temporaries()(f)
    x = np.linspace(0.0, 3.0, 100)
    for run in (ti.reference.run, lambda g, **a: ti.compile(g)(**a), lambda g, **a: pickle.loads(pickle.dumps(g))(**a)):
        assert list(run(stored, inp=x)) == ["out"]
        np.testing.assert_allclose(run(stored, inp=x)["out"], run(f, inp=x)["out"], rtol=0, atol=1e-15)
    with pytest.raises(ti.DiagnosticError, match="has no parameter 'tmp'"):
        stored(inp=x, tmp=x)
    assert [p.name for p in ti.passes.restrict(stored, out={"I": (6, 7)}).results] == ["out"]


def test_a_buffer_that_was_stored_and_inlined_leaves_the_program():
    assert Inline()(Temporaries()(ti.parse(SHIFTED))).buffers == frozenset()
