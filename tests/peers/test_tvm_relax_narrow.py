"""Relax where types are narrow and attributes unusual: the interpreter and the lift give the numbers of TVM's build.

Each case is a call whose tensors are written where they stand: `i8[2, 3]` is a tensor of int8 over the whole range of
its type, and `=` gives the values.
"""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

tvm = pytest.importorskip("tvm")

import tensorir as ti
import tensorir.tir as tir

pytestmark = pytest.mark.filterwarnings("ignore")

KINDS: dict[str, Any] = {
    "i8": np.int8, "u8": np.uint8, "i32": np.int32, "i64": np.int64, "f16": np.float16, "f32": np.float32,
    "f64": np.float64, "e4": ml_dtypes.float8_e4m3fn,
}  # fmt: skip
TENSOR = re.compile(r"\b(i8|u8|i32|i64|f16|f32|f64|e4)\[([\d, ]*)\](?:=(\[[^\]]*\]))?")
CALLS = [
    # sums of integers wrap around, as wide as they are
    "R.matmul(i8[3, 4], i8[4, 2])",
    "R.matmul(u8[3, 4], u8[4, 2])",
    "R.linear(i8[2, 3], i8[4, 3], i8[4])",
    "R.nn.conv2d(i8[1, 3, 6, 5], i8[2, 3, 3, 3])",
    'R.nn.conv1d_transpose(i8[1, 4, 5], i8[4, 3, 3], strides=[2], out_dtype="int32")',
    'R.nn.conv2d_transpose(i8[1, 4, 3, 5], i8[4, 3, 2, 2], out_dtype="int32")',
    # what leaves the range of a type is cut to it, and only whole numbers are rounded
    'R.quantize(f32[3, 5], R.const(0.01, "float32"), R.const(-3, "int32"), axis=0, out_dtype="float8_e4m3fn")',
    'R.quantize(f32[3, 5], R.const(0.3, "float32"), i8[5], axis=-1, out_dtype="int8")',
    'R.dequantize(i8[3, 5], R.const(1000.0, "float32"), R.const(3, "int8"), axis=-1, out_dtype="float16")',
    # the size of an axis that the type of its indices does not hold
    'R.take(f32[300], u8[4]=[0, 255, 130, 7], axis=0, mode="clip")',
    'R.take(f32[300], u8[4]=[0, 255, 130, 7], axis=0, mode="wrap")',
    'R.take(f32[200], i8[4]=[0, 127, -13, -128], axis=0, mode="wrap")',
    "R.take(f32[200], i8[4]=[0, 127, 13, 7], axis=0)",
    'R.one_hot(u8[3]=[0, 44, 255], R.prim_value(T.float32(2)), R.prim_value(T.float32(-3)), depth=300)',
    # indices before the first element and behind the last one
    'R.take(f32[5, 4], i32[4]=[-1, 7, -9, 2], axis=-1, mode="nan")',
    'R.take(f16[5, 4], i64[3]=[-5, 7, 4], axis=0, mode="nan")',
    # one part, one tensor of indices, two types
    "R.split(u8[6], 1, axis=0)",
    "R.split(u8[6], [], axis=0)",
    "R.index_put(f32[4], i64[3]=[0, 1, 3], f32[3], accumulate=True)",
    "R.multinomial_from_uniform(f64[1, 4]=[0.1, 0.2, 0.3, 0.4], f32[3, 1]=[0.25, 0.31, 0.75], i64[3, 1]=[0, 0, 0])",
    "R.bucketize(f16[4], f32[3]=[-1, 0, 1])",
    "R.bucketize(i32[4]=[-5, 1, 2, 7], i64[3]=[-1, 1, 3], right=True)",
    "R.bucketize(f32[4]=[np.nan, 1, 2, -7], f32[3]=[-1, 1, 3])",
    # packs of channels
    'R.nn.max_pool2d(f32[1, 2, 5, 6, 3], pool_size=[2, 2], strides=[2, 2], padding=[1, 0], layout="NCHW3c")',
    'R.nn.avg_pool2d(f32[1, 5, 2, 6, 3], pool_size=[2, 3], strides=[2, 2], layout="NHCW3c")',
    # more queries than keys
    'R.nn.attention(f32[2, 5, 2, 4], f32[2, 3, 2, 4], f32[2, 3, 2, 4], causal_mask="BottomRight")',
]  # fmt: skip


def drawn(kind: str, shape: tuple[int, ...], given: str | None, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    dtype = np.dtype(KINDS[kind])
    if given is not None:
        return np.array(eval(given), dtype).reshape(shape)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max + 1, shape).astype(dtype)
    return rng.uniform(-2, 2, shape).astype(dtype)


def module_of(call: str) -> tuple[str, list[np.ndarray[Any, Any]]]:
    """A module that computes the call, and its arrays."""
    rng, params, arrays = np.random.default_rng(5), list[str](), list[np.ndarray[Any, Any]]()

    def named(match: re.Match[str]) -> str:
        shape = tuple(int(s) for s in match[2].split(",") if s.strip())
        arrays.append(drawn(match[1], shape, match[3], rng))
        params.append(f'a{len(params)}: R.Tensor({shape}, "{arrays[-1].dtype}")')
        return f"a{len(params) - 1}"

    call = TENSOR.sub(named, call)
    head = f"@I.ir_module\nclass Module:\n    @R.function\n    def main({', '.join(params)}):\n"
    return f"{head}        z = {call}\n        return z\n", arrays


def computed(text: str, arrays: list[np.ndarray[Any, Any]]) -> tuple[np.ndarray[Any, Any], list[str]]:
    """What TVM's build gives, and the texts that TVM prints of the module, before and after it lowers the operator."""
    from tvm import relax

    module = tvm.script.from_source(text)
    machine = relax.VirtualMachine(tvm.compile(module, target="llvm"), tvm.cpu())
    with tvm.target.Target("llvm"):
        lowered = relax.transform.LegalizeOps()(module)
    return machine["main"](*map(tvm.runtime.tensor, arrays)).numpy(), [module.script(), lowered.script()]


def same(got: Any, want: np.ndarray[Any, Any]) -> None:
    got = np.asarray(got)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    if want.dtype.kind in "iu":
        np.testing.assert_array_equal(got, want)
    else:
        close = 1e-3 if want.dtype.itemsize < 4 else 1e-5
        np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=close, atol=close)


@pytest.mark.parametrize("call", CALLS)
def test_numbers_are_those_of_tvms_build(call: str):
    text, arrays = module_of(call)
    want, texts = computed(text, arrays)
    for function in (tir.parse(printed)["main"] for printed in texts):
        same(tir.interpret(function, *arrays, checked=True)[0], want)
        same(ti.lift(function)(*arrays)[0], want)
