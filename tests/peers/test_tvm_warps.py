"""Reductions over threads as TVM lowers them for CUDA: shuffles of warps, which lift to the numbers of the module."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

tvm = pytest.importorskip("tvm")

import tensorir as ti
import tensorir.tir as tir
from tensorir.runtime.errors import DiagnosticError
from tests.lift.schedules import up_to_names
from tests.peers.test_tvm_schedules import PASSES

pytestmark = pytest.mark.filterwarnings("ignore")

CUDA = {"kind": "cuda", "arch": "sm_80", "max_threads_per_block": 1024, "thread_warp_size": 32}
WARPS = ("StmtSimplify", "ThreadSync", "LowerThreadAllreduce")


def lowered(rows: int, columns: int, threads: int, fold: str, dtype: str, steps: tuple[str, ...]) -> Any:
    """A fold over each row, by the threads of a block, after some of TVM's passes."""
    from tvm import te

    a: Any = te.placeholder((rows, columns), name="A", dtype=dtype)
    k = te.reduce_axis((0, columns), name="k")
    of: Any = {"sum": te.sum, "max": te.max, "min": te.min}[fold]
    c: Any = te.compute((rows,), lambda i: of(a[i, k], axis=k), name="C")
    s = tvm.s_tir.Schedule(tvm.IRModule({"main": te.create_prim_func([a, c]).with_attr("global_symbol", "main")}))
    i, k = s.get_loops(s.get_sblock("C"))
    _, inner = s.split(k, [None, threads])
    s.bind(i, "blockIdx.x")
    s.bind(inner, "threadIdx.x")
    module = tvm.tirx.transform.BindTarget(tvm.target.Target(CUDA, host="llvm"))(s.mod)
    for name in steps:
        maker = getattr(tvm.s_tir.transform, name, None) or getattr(tvm.tirx.transform, name)
        module = (maker("shared") if name == "ThreadSync" else maker())(module)
    return module


@pytest.mark.parametrize(
    ("rows", "columns", "threads", "fold", "dtype"),
    [
        (8, 64, 16, "sum", "float32"),
        (3, 37, 32, "sum", "float32"),
        (4, 100, 64, "max", "float32"),
        (2, 300, 256, "sum", "int32"),
        (2, 50, 40, "min", "int32"),
        (3, 33, 20, "sum", "int32"),
    ],
)
def test_a_reduction_over_threads_lifts_through_shuffles(rows: int, columns: int, threads: int, fold: str, dtype: str):
    module = lowered(rows, columns, threads, fold, dtype, (*PASSES, *WARPS))
    func = tir.parse(module)["main"]
    a = (np.random.default_rng(7).normal(size=(rows, columns)) * 10).astype(dtype)
    c = np.zeros(rows, dtype)
    assert ("tvm_warp_shuffle" in module.script()) == (threads != 40)
    (found,) = ti.lift(func)(a, c)
    np.testing.assert_allclose(found, tir.interpret(func, a, c)[1], rtol=1e-5)
    np.testing.assert_allclose(found, getattr(a, fold)(1), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("columns", "threads"), [(64, 16), (64, 32), (96, 32), (16, 8)])
@pytest.mark.parametrize("fold", ["sum", "max"])
@pytest.mark.parametrize("last", [(), ("LowerIntrin",)], ids=["builtins", "CUDA's"])
def test_shuffles_print_as_the_reduction_that_they_are(columns: int, threads: int, fold: str, last: tuple[str, ...]):
    module = lowered(4, columns, threads, fold, "float32", (*PASSES, *WARPS, *last))
    plain = lowered(4, columns, threads, fold, "float32", ())
    assert ("__shfl_down_sync" in module.script()) == bool(last)
    texts = [up_to_names(str(ti.lift(tir.parse(m)["main"]))) for m in (module, plain)]
    assert texts[0] == texts[1]


@pytest.mark.parametrize(("columns", "threads"), [(128, 64), (512, 256)])
@pytest.mark.parametrize("fold", ["sum", "max"])
def test_shuffles_of_several_warps_are_reductions_of_reductions(columns: int, threads: int, fold: str):
    text = str(ti.lift(tir.parse(lowered(4, columns, threads, fold, "float32", (*PASSES, *WARPS)))["main"]))
    assert "reduce(" in text and "loop(" not in text


@pytest.mark.parametrize("last", range(3, len(PASSES)))
def test_what_is_lowered_without_its_reductions_over_threads_is_a_race_in_the_lift_as_in_the_interpreter(last: int):
    module = lowered(4, 64, 16, "sum", "float32", PASSES[1:last])
    func = tir.parse(module)["main"]
    a, c = np.ones((4, 64), "float32"), np.zeros(4, "float32")
    blocks = last <= PASSES.index("ConvertBlocksToOpaque")
    if blocks:  # a block says what it reduces
        np.testing.assert_array_equal(ti.lift(func)(a, c)[0], tir.interpret(func, a, c, checked=True)[1])
        return
    with pytest.raises(DiagnosticError, match="TR03"):
        tir.interpret(func, a, c, checked=True)
    with pytest.raises(DiagnosticError, match="TL12"):
        ti.lift(func)


def default(name: str) -> Any:
    """An operator under TVM's default schedule for GPUs, lowered as far as barriers."""
    from tvm import te, topi
    from tvm.s_tir import dlight

    a: Any = te.placeholder((8, 48), name="A")
    made: Any = {"softmax": topi.nn.softmax, "sum": lambda x: topi.sum(x, 1)}.get(name, lambda x: topi.argmax(x, 1))(a)
    module = tvm.IRModule({"main": te.create_prim_func([a, made]).with_attr("global_symbol", "main")})
    with tvm.target.Target({**CUDA, "max_shared_memory_per_block": 49152}):
        rules = [dlight.gpu.GEMV(), dlight.gpu.Reduction(), dlight.gpu.GeneralReduction(), dlight.gpu.Fallback()]
        module = dlight.ApplyDefaultSchedule(*rules)(module)
    module = tvm.tirx.transform.BindTarget(tvm.target.Target(CUDA, host="llvm"))(module)
    for step in (*PASSES, "StmtSimplify", "ThreadSync"):
        maker = getattr(tvm.s_tir.transform, step, None) or getattr(tvm.tirx.transform, step)
        module = (maker("shared") if step == "ThreadSync" else maker())(module)
    return module


@pytest.mark.parametrize("steps", [0, 1, 2], ids=["reductions of threads", "shuffles", "CUDA's shuffles"])
@pytest.mark.parametrize("name", ["argmax", "softmax", "sum"])
def test_a_default_schedule_for_gpus_lifts_with_its_barriers(name: str, steps: int):
    module = default(name)
    for step in ("LowerThreadAllreduce", "LowerIntrin")[:steps]:
        maker = getattr(tvm.s_tir.transform, step, None) or getattr(tvm.tirx.transform, step)
        module = maker()(module)
    func = tir.parse(module)["main"]
    out = func.buffer_map[func.params[1]]
    a = np.random.default_rng(4).normal(size=(8, 48)).astype(np.float32)
    c = np.zeros(tuple(e.value for e in out.shape), out.dtype.numpy)
    (found,) = ti.lift(func)(a, c)
    np.testing.assert_allclose(found, tir.interpret(func, a, c)[1], rtol=1e-5, atol=1e-6)
    e = np.exp(a - a.max(1, keepdims=True))
    wanted = {"argmax": a.argmax(1), "softmax": e / e.sum(1, keepdims=True), "sum": a.sum(1)}[name]
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
