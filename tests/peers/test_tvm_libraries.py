"""What TVM's LowerIntrin makes of mathematics for each kind of target computes what it did before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

tvm = pytest.importorskip("tvm")

import tensorir as ti
import tensorir.tir as tir

pytestmark = pytest.mark.filterwarnings("ignore")

LIMITS = {"max_threads_per_block": 1024, "max_shared_memory_per_block": 49152, "thread_warp_size": 32}
TARGETS = {
    "llvm": {"kind": "llvm"},
    "c": {"kind": "c"},
    "cuda": {"kind": "cuda", "arch": "sm_80", **LIMITS},
    "opencl": {"kind": "opencl"},
    "metal": {"kind": "metal"},
    "vulkan": {"kind": "vulkan"},
}
KINDS = {
    "llvm": ("float32", "float64", "float16"),
    "c": ("float32", "float64"),
    "cuda": ("float32", "float64", "float16"),
    "opencl": ("float32", "float64", "float16"),
    "metal": ("float32", "float16"),
    "vulkan": ("float32", "float64"),
}
"""The element types for which TVM lowers mathematics to a library of the target."""
UNARY = [
    "exp", "exp2", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh",
    "asinh", "atan", "erf", "sigmoid", "floor", "ceil", "trunc", "round", "nearbyint", "abs",
]  # fmt: skip
BINARY = ("pow", "atan2", "hypot", "copysign", "fmod", "nextafter")


def mathematics(kind: str) -> Any:
    """One output per function, of numbers from 1 to 2."""
    from tvm import te

    a: Any = te.placeholder((5,), kind, "A")
    names = [*UNARY, *(BINARY if kind != "float16" else ())]
    if kind == "float16":
        names = [n for n in names if n in ("exp", "log", "sqrt", "sin", "cos", "tanh", "floor", "ceil", "pow")]

    def made(name: str) -> Any:
        f = getattr(tvm.tirx, name)
        return te.compute((5,), lambda i: f(a[i], a[4 - i]) if name in BINARY else f(a[i]), name=f"B_{name}")

    return te.create_prim_func([a, *map(made, names)]).with_attr("global_symbol", "main")


@pytest.mark.parametrize(("target", "kind"), [(target, kind) for target in TARGETS for kind in KINDS[target]])
def test_mathematics_lowered_for_a_target_is_what_it_was(target: str, kind: str):
    function = mathematics(kind)
    lowered = tvm.IRModule({"main": function.with_attr("target", tvm.target.Target(TARGETS[target]))})
    passes = tvm.s_tir.transform if hasattr(tvm.s_tir.transform, "LowerIntrin") else tvm.tirx.transform
    before: Any = tir.parse(function.script())["main"]
    after: Any = tir.parse(passes.LowerIntrin()(lowered))["main"]
    assert "call_" in str(after)
    a = np.linspace(1, 2, 5).astype(kind)
    arrays = [a, *(np.zeros_like(a) for _ in before.params[1:])]
    wanted = tir.interpret(before, *arrays)[1:]
    tolerance = {"float16": 1e-2, "float32": 2e-6, "float64": 1e-8}[kind]
    for found in (tir.interpret(after, *arrays)[1:], ti.lift(after)(*arrays)):
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(np.asarray(one), other, rtol=tolerance)
