"""What each kind of call allocates: the table of `docs/allocation.md`, counted in pages that it touches first.

Arrays are larger than what glibc keeps by itself, and `ti.kept_memory` keeps none here, so each array that a call
allocates touches all of its pages once.
"""

import gc
import json
import platform
import subprocess
import sys
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorir as ti
from lowering.calls.executable import COPIED, on_host

COUNTED = '''
import ctypes, gc, json, resource
ctypes.CDLL(None).prctl(41, 1, 0, 0, 0)  # PR_SET_THP_DISABLE: pages are counted one by one
import jax, jax.numpy as jnp, numpy as np
import tensorir as ti

jax.config.update("jax_enable_x64", True)
ti.kept_memory.limit = 0
SIZE = 40 << 17
BYTES = 8 * SIZE
program = ti.parse("f(out: tensor<float, I[0:n]>, x: tensor<float, I[0:n]>) { out ← 2.0 × x; }")
moved = ti.parse("f(x: tensor<float, I[0:n]>) { x ← 0.5 × x; }")


def numpy_array(offset):
    raw = np.zeros(BYTES + 128, np.uint8)
    start = -raw.ctypes.data % 64 + offset
    array = raw[start : start + BYTES].view(np.float64)
    array[:] = 1.0
    return array


def touched(call):
    """Arrays' worth of pages that one call touches, its result let go of before the next."""
    call(), call()
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(4):
        call()
    pages = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    return pages * resource.getpagesize() / BYTES / 4


x, aligned, apart = jnp.ones(SIZE), numpy_array(0), numpy_array(8)
buffer = numpy_array(8)
plain, donating, stepping = ti.compile(program), ti.compile(program, donate="out"), ti.compile(moved)
within = jax.jit(lambda x: 1.0 + plain(x=x)["out"])
state = {"out": jnp.zeros(SIZE)}
given = {"x": plain(x=apart)["out"]}


def donated():
    state["out"] = donating(x=x, out=state["out"])["out"].block_until_ready()


def fed_back():
    given["x"] = plain(x=given["x"])["out"]


def iterated(n):
    return lambda: ti.iterate(lambda s: stepping(x=s)["x"], x, n, progress=False).block_until_ready()


print(json.dumps({
    "JAX": touched(lambda: plain(x=x)["out"].block_until_ready()),
    "within jit": touched(lambda: within(x).block_until_ready()),
    "NumPy, aligned": touched(lambda: plain(x=aligned)),
    "NumPy": touched(lambda: plain(x=apart)),
    "NumPy, fed back": touched(fed_back),
    "out=, aligned": touched(lambda: plain(x=aligned, out=buffer)),
    "out=": touched(lambda: plain(x=apart, out=buffer)),
    "donated": touched(donated),
    "iterate": touched(iterated(4)),
    "iterate, more steps": touched(iterated(40)),
}))
'''

EXPECTED = {
    "JAX": 1,
    "within jit": 1,
    "NumPy, aligned": 1,
    "NumPy": 2,
    "NumPy, fed back": 1,
    "out=, aligned": 0,
    "out=": 1,
    "donated": 0,
    "iterate": 1,
    "iterate, more steps": 1,
}
"""Arrays of the size of the argument, which is that of the result too."""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators keep what is freed as they like")
def test_each_kind_of_call_allocates_what_the_table_says():
    run = subprocess.run([sys.executable, "-c", COUNTED], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    counted = json.loads(run.stdout)
    assert {kind: round(arrays) for kind, arrays in counted.items()} == EXPECTED, counted


def test_a_result_for_numpy_is_memory_of_its_own():
    with jax.enable_x64(True):
        c = ti.compile(ti.parse("f(out: tensor<float, I[0:n]>, x: tensor<float, I[0:n]>) { out ← x; }"))
    x = c(x=np.arange(float(COPIED)))["out"]  # aligned, so that JAX takes it as it lies
    result = c(x=x)["out"]
    result[:] = -1.0
    again = c(x=x)["out"]
    np.testing.assert_array_equal(x, np.arange(float(COPIED)))
    np.testing.assert_array_equal(again, x)
    assert not np.shares_memory(result, again) and not np.shares_memory(result, x)


def test_a_view_of_a_result_keeps_its_memory_and_nothing_else_does():
    array = jnp.arange(COPIED, dtype="float32")
    alive = weakref.ref(array)
    result = on_host(array)
    assert result.ctypes.data == array.unsafe_buffer_pointer() and result.flags.writeable
    view = result[3:7]
    del array, result
    gc.collect()
    assert alive() is not None and view.tolist() == [3.0, 4.0, 5.0, 6.0]
    del view
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("extent", [0, 3, COPIED])
def test_results_of_every_element_type_and_size_are_theirs_who_get_them(dtype, extent):
    with jax.enable_x64(True):
        array = jnp.arange(extent).reshape(extent, 1).astype(dtype)
        expected = np.array(array)
        result = on_host(array)
    assert (result.dtype, result.shape, result.flags.writeable) == (array.dtype, array.shape, True)
    np.testing.assert_array_equal(result, expected)
