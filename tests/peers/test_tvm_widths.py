"""Memory that several types share, beside TVM's own builds: what its passes merge, and views written by hand."""

from __future__ import annotations

import random

import numpy as np
import pytest

tvm = pytest.importorskip("tvm")
source = pytest.importorskip("tvm.script").from_source

import tensorir as ti
import tensorir.tir as tir
from tensorir.equality.verdict import Level
from tests.lift.test_lift_widths import HEAD, PROGRAMS

pytestmark = pytest.mark.filterwarnings("ignore")
IMPORTS = "# from tvm.script import ir as I\n# from tvm.script import tirx as T\n\n"
PASSED = [name for name in PROGRAMS if "float8" not in name and "vectors" not in name]
"""TVM's builds for processors have no arithmetic of such floats, and take no scalar index of a buffer of vectors."""


@pytest.mark.parametrize("name", PASSED)
def test_a_view_of_another_width_is_what_tvm_computes(name: str):
    text, arrays = PROGRAMS[name]
    module = source(IMPORTS + HEAD + text)
    passed = [tvm.runtime.tensor(a) for a in arrays]
    tvm.compile(module, target="llvm")(*passed)
    program = ti.lift(tir.parse(module)["main"])
    written = [k for k, a in enumerate(program.arguments) if a.written]
    for place, got in zip(written, program(*arrays), strict=True):
        assert got.tobytes() == passed[place].numpy().tobytes()


def chain(seed: int) -> tuple[str, int]:
    """A program whose stages keep what they compute in buffers of several types and sizes, one after the other."""
    r = random.Random(seed)
    size = r.choice([5, 8, 13, 31])
    lines = [f'def main(A: T.Buffer(({size},), "float32"), C: T.Buffer(({size},), "float32")):']
    body: list[str] = []
    before = "A"
    for k in range(r.randint(3, 7)):
        dtype = r.choice(["float32", "float16", "int8", "int32", "float64", "uint8", "int16"])
        own = size + r.choice([0, 1, 3])
        lines.append(f'    B{k} = T.alloc_buffer(({own},), "{dtype}")')
        index = r.choice(["i", f"{size - 1} - i"])
        value = f'T.Cast("{dtype}", {before}[{index}])'
        body.append(f"    for i in range({size}):")
        body.append(f'        B{k}[i] = {value} + T.Cast("{dtype}", {r.randint(0, 3)})')
        before = f"B{k}"
    body += [f"    for i in range({size}):", f'        C[i] = T.Cast("float32", {before}[i])']
    return "\n".join(["@T.prim_func", *lines, *body, ""]), size


@pytest.mark.parametrize("seed", range(30))
def test_storage_that_tvm_shares_among_types_lifts_without_any_bits(seed: int):
    text, size = chain(seed)
    module = tvm.IRModule({"main": source(IMPORTS + text).with_attr("global_symbol", "main")})
    module = tvm.tirx.transform.StorageRewrite()(tvm.tirx.transform.FlattenBuffer()(module))
    x = np.random.default_rng(seed).integers(0, 9, size).astype(np.float32)
    passed = [tvm.runtime.tensor(x), tvm.runtime.tensor(np.zeros_like(x))]
    tvm.compile(module, target="llvm")["main"](*passed)
    func = tir.parse(module)["main"]
    program = ti.lift(func)
    np.testing.assert_array_equal(program(x, None)[0], passed[1].numpy())
    np.testing.assert_array_equal(tir.interpret(func, x, x)[1], passed[1].numpy())
    assert "bitcast" not in str(program)
    assert ti.equivalent(ti.lift(tir.parse(source(IMPORTS + text))), program).level >= Level.REALS


MERGED = """
@T.prim_func
def main(A: T.Buffer((26,), "float32"), C: T.Buffer((26,), "float32")):
    T.func_attr({"global_symbol": "main", "target": T.target("cuda")})
    b = T.launch_thread("blockIdx.x", 2)
    i = T.launch_thread("threadIdx.x", 13)
    B = T.alloc_buffer((13,), "float32", scope="shared.dyn")
    D = T.alloc_buffer((13,), "int8", scope="shared.dyn")
    E = T.alloc_buffer((14,), "float16", scope="shared.dyn")
    F = T.alloc_buffer((14,), "float32", scope="shared.dyn")
    B[i] = A[b * 13 + i] * T.float32(3)
    T.tvm_storage_sync("shared.dyn")
    F[i] = B[12 - i] + T.float32(1)
    T.tvm_storage_sync("shared.dyn")
    D[i] = T.Cast("int8", B[12 - i] + F[i])
    T.tvm_storage_sync("shared.dyn")
    E[i] = T.Cast("float16", D[12 - i])
    T.tvm_storage_sync("shared.dyn")
    C[b * 13 + i] = T.Cast("float32", E[12 - i]) + F[i]
"""


def test_shared_memory_that_tvm_merges_is_apart_again():
    plain = source(IMPORTS + MERGED)
    module = tvm.IRModule({"main": plain})
    merged = tvm.s_tir.transform.MergeSharedMemoryAllocations()(module)
    assert "buf_dyn_shmem" in str(merged)
    program, apart = (ti.lift(tir.parse(m)["main"]) for m in (merged, module))
    x = np.arange(26, dtype=np.float32) / 4
    np.testing.assert_array_equal(program(x, None)[0], tir.interpret(tir.parse(merged)["main"], x, x)[1])
    assert "bitcast" not in str(program)
    assert ti.equivalent(apart, program).level >= Level.REALS
