"""Programs compiled for devices that are not here, and the figures that are read from what their compilers say."""

import dataclasses

import numpy as np
import pytest
from jax.experimental import topologies

import tensorir as ti
from lowering.calls.compiled import Compiled
from lowering.calls.engine import Engine
from lowering.calls.estimate import TARGETS, bytes_of_kernels, counted, device_of
from tensorir.passes.restrict import NeededPoints
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


def test_a_kernel_of_pallas_counts_and_leaves_the_cycles_open():
    text = """ENTRY %main (x: f32[8]) -> f32[8] {
  %f = f32[8] fusion(%x), calls=%d, backend_config={"estimated_cycles":"7"}
  ROOT %k = f32[8] custom-call(%f), custom_call_target="__gpu$xla.gpu.triton"
}"""
    assert counted(text) == (2, None, {})


KERNELS = """
HloModule jit_f
%fused (p: f64[254,254,64]) -> (pred[254,253,64], f32[3]) {
  %p = f64[254,254,64]{2,1,0} parameter(0)
}
ENTRY %main.1 (x.1: f64[256,256,64]) -> f32[3] {
  %x.1 = f64[256,256,64]{2,1,0} parameter(0), metadata={op_name="x"}
  %a.1 = f64[254,254,64]{2,1,0} fusion(%x.1), kind=kLoop, backend_config={"reification_cost":\
[{"end_to_end_cycles":70879.05,"exec_time_us":35.7},{"end_to_end_cycles":0,"name":"sol"}]}
  %b = (pred[254,253,64]{2,1,0}, f32[3]{0}) fusion(%x.1, %a.1), kind=kLoop, \
backend_config={"reification_cost":[{"end_to_end_cycles":91225.53}]}
  ROOT %c = f32[3]{0} get-tuple-element(%b), index=1
}"""


def test_kernels_of_gpus_move_what_their_types_say_and_take_the_cycles_of_xlas_model():
    x, a, b = 256 * 256 * 64 * 8, 254 * 254 * 64 * 8, 254 * 253 * 64 + 12
    assert bytes_of_kernels(KERNELS) == (x + a) + (x + a + b)
    assert counted(KERNELS) == (2, 70879 + 91226, {})


def test_bytes_of_loops_are_not_told_from_types():
    assert bytes_of_kernels(LOOP.format(element="s32", limit=64)) is None


def test_a_target_that_is_not_known_is_refused():
    with pytest.raises(ti.DiagnosticError, match=r"A37.*there is no target 'tpu:v5x'.\nhelp: did you mean 'tpu:v5p'"):
        ti.compile(ti.parse(TEXT)).examine("tpu:v5x")


def test_a_compiler_that_is_missing_is_named(monkeypatch):
    def missing(**_):
        raise RuntimeError("Unable to initialize backend 'tpu': no libtpu.\nmore lines")

    monkeypatch.setattr(topologies, "get_topology_desc", missing)
    with pytest.raises(ti.DiagnosticError, match=r"A38(.|\n)*pip install 'jax\[tpu\]'"):
        ti.compile(ti.parse(TEXT)).examine("tpu:v5e")


def test_the_compiler_for_gpus_is_named_where_it_is_missing(monkeypatch):
    def missing(**told):
        assert "cuda_compute_capability { major: 9" in told["target_config"]
        raise NotImplementedError("topology not implemented for cuda")

    monkeypatch.setattr(topologies, "get_topology_desc", missing)
    with pytest.raises(ti.DiagnosticError) as refused:
        ti.compile(ti.parse(TEXT)).examine("cuda:h100")
    assert str(refused.value) == (
        "error[A38]: the compiler for cuda:h100 is not here: topology not implemented for cuda.\n"
        "help: install the one that fits jax: pip install 'jax[cuda12]'; "
        "where there is no GPU, start Python with JAX_PLATFORMS=cpu."
    )


@pytest.mark.parametrize("target", TARGETS)
def test_a_program_is_compiled_for_each_device_whose_compiler_is_here(target):
    try:
        device_of(target)
    except ti.DiagnosticError as refused:
        if [d.code for d in refused.diagnostics] != ["A38"]:
            raise
        pytest.skip(str(refused))  # a compiler is an optional extra
    found = ti.compile(ti.parse(TEXT), without="kernels").examine(target)
    assert found.kernels >= 1
    assert (found.arguments, found.results) == (16 * 16 * 4, 12 * 12 * 4) or target.startswith("tpu")
    assert (found.cycles is None) == (target == "cuda:a100")
    assert found.bytes_accessed is None or found.bytes_accessed >= 12 * 12 * 4


def test_operands_are_cut_to_what_is_read_of_their_reader():
    f = ti.parse(TEXT)
    small = NeededPoints()(f)
    assert "subset(⟪I, 1⟫(x), I[2:15], J[1:14])" in str(small)
    x = Draw(0).array("float", (0, 16), (0, 16)).astype("float32")
    wanted = ti.reference.run(f, x=x)["y"]
    assert (ti.reference.run(small, x=x)["y"] == wanted).all()
    assert NeededPoints().on("cpu") is None and None not in (NeededPoints().on("tpu"), NeededPoints().on("gpu"))


def test_reductions_for_a_device_are_not_those_that_cpus_need():
    text = """f(y: tensor<float32, J[0:2000]>, x: tensor<float32, I[0:300], J[0:2000]>) {
      y ← reduce(max, float32(-inf), I)(x); }"""
    c = ti.compile(ti.parse(text))
    there = Compiled(c.constants, Engine(c.engine.program, dataclasses.replace(c.engine.options, target="tpu")))
    assert "stablehlo.while" in c.stablehlo() and "stablehlo.while" not in there.stablehlo()
    x = Draw(0).array("float", (0, 300), (0, 2000)).astype("float32")
    np.testing.assert_array_equal(there(x=x)["y"], x.max(axis=0))


def test_a_part_is_written_by_an_update_where_that_is_best():
    text = """f(y: tensor<float32, I[0:64], J[0:64]>, x: tensor<float32, I[0:64], J[0:64]>) {
      y ← x; y[I[1:63], J[1:63]] ← ⟪I, 1⟫(x) - x; }"""
    c = ti.compile(ti.parse(text))
    there = Compiled(c.constants, Engine(c.engine.program, dataclasses.replace(c.engine.options, target="tpu")))
    assert "dynamic_update_slice" in there.stablehlo() and "dynamic_update_slice" not in c.stablehlo()
    x = Draw(0).array("float", (0, 64), (0, 64)).astype("float32")
    assert (there(x=x)["y"] == c(x=x)["y"]).all()
