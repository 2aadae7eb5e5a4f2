"""Programs compiled for devices that are not here, and the figures that are read from what their compilers say."""

import dataclasses

import pytest
from jax.experimental import topologies

import tensorir as ti
from lowering.compiled import Compiled
from lowering.engine import Engine
from lowering.estimate import counted
from tensorir.passes.needed_points import NeededPoints
from tests.lowering.raised_forms import Draw

TEXT = """f(y: tensor<float32, I[2:14], J[2:14]>, x: tensor<float32, I[0:16], J[0:16]>) {
  let lap = ⟪I, 1⟫(x) + ⟪I, -1⟫(x) + ⟪J, 1⟫(x) + ⟪J, -1⟫(x) - 4.0f × x;
  y ← ⟪I, 1⟫(lap) + ⟪J, -1⟫(lap); }"""

LOOP = """
%cond (p: (s32[], f32[8])) -> pred[] {{
  %n = {element}[]{{:T(128)}} constant({limit})
  ROOT %lt = pred[] compare(%i, %n), direction=LT
}}
%body (p: (s32[], f32[8])) -> (s32[], f32[8]) {{
  %f = f32[8] fusion(%p), kind=kLoop, calls=%c, backend_config={{"estimated_cycles":"10"}}
  %g = f32[8] all-reduce(%f), to_apply=%add
}}
ENTRY %main (x: f32[8]) -> f32[8] {{
  %x = f32[8] parameter(0)
  %w = (s32[], f32[8]) while(%t), condition=%cond, body=%body
  ROOT %h = f32[8] fusion(%w), kind=kLoop, calls=%d, backend_config={{"estimated_cycles":"3"}}
}}"""


@pytest.mark.parametrize("element", ["s32", "u32"])
def test_loops_count_as_often_as_they_turn(element):
    assert counted(LOOP.format(element=element, limit=64)) == (3, 643, {"all-reduce": 1})


def test_what_a_compiler_does_not_say_is_none():
    assert counted("ENTRY %main (x: f32[8]) -> f32[8] {\n  ROOT %h = f32[8] fusion(%x), calls=%d\n}") == (1, None, {})


def test_a_target_that_is_not_known_is_refused():
    with pytest.raises(ti.DiagnosticError, match=r"A37.*there is no target 'tpu:v5x'.\nhelp: did you mean 'tpu:v5p'"):
        ti.compile(ti.parse(TEXT)).examine("tpu:v5x")


def test_a_compiler_that_is_missing_is_named(monkeypatch):
    def missing(**_):
        raise RuntimeError("Unable to initialize backend 'tpu': no libtpu.\nmore lines")

    monkeypatch.setattr(topologies, "get_topology_desc", missing)
    with pytest.raises(ti.DiagnosticError, match=r"A38(.|\n)*pip install 'jax\[tpu\]'"):
        ti.compile(ti.parse(TEXT)).examine("tpu:v5e")


def test_operands_are_cut_to_what_is_read_of_their_reader():
    f = ti.parse(TEXT)
    small = NeededPoints()(f)
    assert "subset(⟪I, 1⟫(x), I[2:15], J[1:14])" in str(small)
    x = Draw(0).array("float", (0, 16), (0, 16)).astype("float32")
    wanted = ti.reference.run(f, x=x)["y"]
    assert (ti.reference.run(small, x=x)["y"] == wanted).all()
    assert NeededPoints().on("cpu") is None and NeededPoints().on("tpu") is not None


def test_a_part_is_written_by_an_update_where_that_is_best():
    text = """f(y: tensor<float32, I[0:64], J[0:64]>, x: tensor<float32, I[0:64], J[0:64]>) {
      y ← x; y[I[1:63], J[1:63]] ← ⟪I, 1⟫(x) - x; }"""
    c = ti.compile(ti.parse(text))
    there = Compiled(c.constants, Engine(c.engine.program, dataclasses.replace(c.engine.options, target="tpu")))
    assert "dynamic_update_slice" in there.stablehlo() and "dynamic_update_slice" not in c.stablehlo()
    x = Draw(0).array("float", (0, 64), (0, 64)).astype("float32")
    assert (there(x=x)["y"] == c(x=x)["y"]).all()
