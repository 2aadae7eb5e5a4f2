"""The source of kernels of TileLang, read without TileLang: beside what it prints, and beside NumPy."""

import ml_dtypes
import numpy as np
import pytest

import tensorir as ti

MATMUL = """\
import tilelang
import tilelang.language as T

@tilelang.jit(out_idx=[-1])
def matmul(M, N, K, block_M=16, block_N=16, block_K=16, dtype="float16", accum_dtype="float32"):
    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), accum_dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_s = T.alloc_shared((block_M, block_K), dtype)
            B_s = T.alloc_shared((block_K, block_N), dtype)
            C_l = T.alloc_fragment((block_M, block_N), accum_dtype)
            T.use_swizzle(panel_size=10)
            T.clear(C_l)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
                T.copy(A[by * block_M, k * block_K], A_s)
                T.copy(B[k * block_K:(k + 1) * block_K, bx * block_N:(bx + 1) * block_N], B_s)
                T.gemm(A_s, B_s, C_l)
            for i, j in T.Parallel(block_M, block_N):
                C_l[i, j] = T.max(C_l[i, j], 0)
            T.copy(C_l, C[by * block_M, bx * block_N])
    return main
"""
PRINTED = """\
# from tvm.script import tirx as T

@T.prim_func
def main(A: T.Buffer((32, 32), "float16", strides=(32, 1)), B: T.Buffer((32, 48), "float16", strides=(48, 1)), \
C: T.Buffer((32, 48), strides=(48, 1))):
    # with T.sblock("root"):
    for bx in T.thread_binding(3, thread="blockIdx.x"):
        for by in T.thread_binding(2, thread="blockIdx.y"):
            tx: T.int32 = T.launch_thread_idx(0)
            ty: T.int32 = T.launch_thread_idx(1)
            tz: T.int32 = T.launch_thread_idx(2)
            with T.sblock("tilelang_root"):
                T.reads()
                T.writes()
                T.sblock_attr({"tl.launch_threads": [128, 1, 1]})
                A_s = T.sblock_alloc_buffer((16, 16), "float16", scope="shared.dyn")
                B_s = T.sblock_alloc_buffer((16, 16), "float16", scope="shared.dyn")
                C_l = T.sblock_alloc_buffer((16, 16), scope="local.fragment")
                T.attr(None, "threadblock_swizzle_pattern", T.tvm_tuple("rasterization2DRow", 10))
                T.fill(T.region(C_l[0, 0], 2, 16, 16), 0)
                for k in T.serial(2, annotations={"num_stages": 3}):
                    T.copy(T.region(A[by * 16, k * 16], 1, 16, 16), T.region(A_s[0, 0], 2, 16, 16))
                    T.copy(T.region(B[k * 16, bx * 16], 1, 16, 16), T.region(B_s[0, 0], 2, 16, 16))
                    T.gemm(T.region(A_s[0, 0], 1, 16, 16), T.region(B_s[0, 0], 1, 16, 16), \
T.region(C_l[0, 0], 3, 16, 16), T.bool(False), T.bool(False), 16, 16, 16, 0, T.bool(False), 0, 0, 0)
                for i in T.parallel(16):
                    for j in T.parallel(16):
                        C_l[i, j] = T.max(C_l[i, j], T.float32(0.0))
                T.copy(T.region(C_l[0, 0], 1, 16, 16), T.region(C[by * 16, bx * 16], 2, 16, 16))
"""
SIZES = {"M": 32, "N": 48, "K": 32}
HEAD = """\
import tilelang
import tilelang.language as T

@T.prim_func
def main(A: T.Tensor((8, 8), "float32"), B: T.Tensor((8, 8), "float32")):
    with T.Kernel(2, threads=32) as bx:
        a = T.alloc_shared((4, 8), "float32")
        r = T.alloc_fragment((4,), "float32")
        T.copy(A[bx * 4, 0], a)
"""
X = np.arange(64, dtype=np.float32).reshape(8, 8) % 11 - 4


def kernel(*lines):
    return ti.tir.parse(HEAD + "".join(f"        {line}\n" for line in lines), "k.py")["main"]


def result(func, *args):
    """What the last argument then holds: the interpreter with its checks and the lift agree on it."""
    run = ti.tir.interpret(func, *args, checked=True)
    (lifted,) = ti.lift(func)(*args)
    np.testing.assert_allclose(np.asarray(lifted), np.asarray(run[-1]), rtol=1e-5, atol=1e-5)
    return np.asarray(run[-1])


def said(text, **names):
    with pytest.raises(ti.DiagnosticError) as caught:
        ti.tir.parse(text, "k.py", names=names)
    return str(caught.value).splitlines()


def test_a_matmul_is_what_tilelang_prints_of_it():
    source = ti.tir.parse(MATMUL, "k.py", names=SIZES)["main"]
    assert str(source) == str(ti.tir.parse(PRINTED, "printed.py")["main"])


def test_a_matmul_of_its_source_computes_the_product():
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(32, 32)).astype(np.float16), rng.normal(size=(32, 48)).astype(np.float16)
    found = result(ti.tir.parse(MATMUL, "k.py", names=SIZES)["main"], a, b, np.zeros((32, 48), np.float32))
    np.testing.assert_allclose(found, np.maximum(a.astype(np.float64) @ b.astype(np.float64), 0), atol=1e-4)


CONSTRUCTS = {
    "slices and starts": (["T.copy(a[:, 0:4], B[bx * 4:bx * 4 + 4, 4:8])"], np.hstack([0 * X[:, :4], X[:, :4]])),
    "parallel loops with a condition": (
        ["for i, j in T.Parallel(4, 8):", "    B[bx * 4 + i, j] = T.if_then_else(j < i, a[i, j], -1.0)"],
        np.where(np.arange(8) < np.arange(8)[:, None] % 4, X, -1),
    ),
    "reductions": (
        ["T.reduce_max(a, r, dim=1)", "T.reduce_sum(a, r, dim=1, clear=False)", "T.copy(r, B[bx * 4:bx * 4 + 4, 3])"],
        np.where(np.arange(8) == 3, (X.max(1) + X.sum(1))[:, None], 0),
    ),
    "fills, serial loops and constants of Python": (
        ["first, *rest = [2, 3, 4]", "T.fill(a, sum(rest))", "for i in range(1, 4, 2):", "    a[i, first] += i",
         "for i in T.serial(first):", "    a[0, i] = 1", "T.copy(a, B[bx * 4, 0])"],
        np.tile([[1, 1] + [7] * 6, [7, 7, 8] + [7] * 5, [7] * 8, [7, 7, 10] + [7] * 5], (2, 1)),
    ),
    "hints, which do not bear on values": (
        ["T.use_swizzle(10)", "T.annotate_layout({a: tilelang.layout.make_swizzled_layout(a)})",
         "T.set_max_nreg(240, 1)", "T.no_set_max_nreg()", "T.wait_wgmma(0)", "T.copy(a, B[bx * 4, 0])"],
        X,
    ),
    "tiles of a persistent grid": (
        ["for row, column in T.Persistent([2, 4], 2, bx):", "    B[row, column] = row * 10 + column"],
        np.pad(np.arange(2)[:, None] * 10 + np.arange(4), ((0, 6), (0, 4))),
    ),
    "variables and branches": (
        ["v = T.alloc_var('int32', 2)", "v += bx", "if v == 2:", "    B[0, 0] = v", "else:", "    B[1, 1] = v * 2"],
        np.pad(np.diag([2, 6]), ((0, 6), (0, 6))),
    ),
}  # fmt: skip


@pytest.mark.parametrize("construct", CONSTRUCTS)
def test_a_kernel_computes_what_its_source_says(construct):
    lines, expected = CONSTRUCTS[construct]
    np.testing.assert_allclose(result(kernel(*lines), X, np.zeros_like(X)), expected)


def test_macros_stand_where_they_are_called_with_their_arguments():
    text = HEAD.replace("@T.prim_func", "@T.macro\ndef scale(x, rows, factor):\n    twice = factor * 2\n"
        "    for i, j in T.Parallel(rows, 8):\n        x[i, j] = x[i, j] * twice\n\n@T.prim_func")  # fmt: skip
    func = ti.tir.parse(text + "        scale(a, 4, 1.5)\n        T.copy(a, B[bx * 4, 0])\n", "k.py")["main"]
    np.testing.assert_allclose(result(func, X, np.zeros_like(X)), 3 * X)


def test_a_dynamic_extent_is_the_extent_of_the_argument():
    text = """\
import tilelang.language as T

n = T.dynamic("n")

@T.prim_func
def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
    with T.Kernel(T.ceildiv(n, 4), threads=32) as bx:
        for i in T.Parallel(4):
            if bx * 4 + i < n:
                B[bx * 4 + i] = A[bx * 4 + i] + 1
"""
    func = ti.tir.parse(text, "k.py")["main"]
    for size in (3, 8):
        x = np.arange(size, dtype=np.float32)
        np.testing.assert_array_equal(np.asarray(ti.tir.interpret(func, x, np.zeros_like(x))[-1]), x + 1)


def test_the_first_listing_of_the_tenstorrent_document_is_read():
    text = """\
@T.prim_func
def matmul(A: T.Buffer[(64, 64), "float16"],
           B: T.Buffer[(64, 64), "float16"],
           C: T.Buffer[(64, 64), "float16"]):
    with T.Kernel(2, 2) as (bx, by):
        A_tile = T.alloc_fragment((32, 32), "float16")
        B_tile = T.alloc_fragment((32, 32), "float16")
        C_tile = T.alloc_fragment((32, 32), "float16")
        T.clear(C_tile)
        for k in range(2):
            T.copy(A[by*32:(by+1)*32, k*32:(k+1)*32], A_tile)
            T.copy(B[k*32:(k+1)*32, bx*32:(bx+1)*32], B_tile)
            T.gemm(A_tile, B_tile, C_tile)
        T.copy(C_tile, C[by*32:(by+1)*32, bx*32:(bx+1)*32])
"""
    func = ti.tir.parse(text, "k.py")["matmul"]
    a = (np.arange(64 * 64).reshape(64, 64) % 5 - 2).astype(np.float16)
    b = (np.arange(64 * 64).reshape(64, 64) % 3 - 1).astype(np.float16)
    np.testing.assert_array_equal(np.asarray(ti.tir.interpret(func, a, b, np.zeros_like(a))[-1]), a @ b)


CONSTANT = """\
import tilelang
import tilelang.language as T

@tilelang.jit
def product(A, C):
    n = T.const("n")
    A: T.Tensor((16, 16), "float32")
    C: T.Tensor((16, n), "float32")
    with T.Kernel(1, threads=32) as bx:
        a = T.alloc_shared((16, 16), "float32")
        c = T.alloc_fragment((16, n), "float32")
        b = T.alloc_shared((16, n), "float32")
        T.gemm(a, b, c, clear_accum=True)
        T.copy(c, C)
"""


def test_a_constant_that_a_tile_has_for_its_shape_is_asked_for_by_name():
    with pytest.raises(ti.DiagnosticError) as caught:
        ti.lift(ti.tir.parse(CONSTANT, "k.py")["product"])
    assert caught.value.diagnostics[0].message == "N of T.gemm is a constant, and this is none."
    help = "for a size, give its value where the text is read: parse(text, names={'n': ...})."
    assert caught.value.diagnostics[0].help == help


def test_elements_of_float8_e4m3_have_infinities_and_at_most_240():
    head = HEAD.replace('B: T.Tensor((8, 8), "float32")', 'B: T.Tensor((8, 8), "float8_e4m3")')
    func = ti.tir.parse(head + "        T.copy(a, B[bx * 4, 0])\n", "k.py")["main"]
    x = X * 40 + 1
    (found,) = ti.lift(func)(x, np.zeros((8, 8), ml_dtypes.float8_e4m3))
    found = np.asarray(found, np.float32)
    np.testing.assert_array_equal(found, x.astype(ml_dtypes.float8_e4m3).astype(np.float32))
    assert found.max() == 240 == np.float32(ml_dtypes.finfo("float8_e4m3").max)
    assert np.isinf(np.asarray(ti.lift(func)(x * 2, np.zeros((8, 8), ml_dtypes.float8_e4m3))[0], np.float32)).any()


GEMM = """\
import tilelang.language as T

@T.prim_func
def main(A: T.Tensor({a}, "float32"), B: T.Tensor({b}, "float32"), C: T.Tensor((16, 32), "float32")):
    with T.Kernel(1, threads=128) as bx:
        a = T.alloc_shared({a}, "float32")
        b = T.alloc_shared({b}, "float32")
        c = T.alloc_fragment((16, 32), "float32")
        T.copy(A, a)
        T.copy(B, b)
        for k in T.Serial(2):
            T.gemm(a, b, c, transpose_A={ta}, transpose_B={tb}, policy=T.GemmWarpPolicy.{policy}, clear_accum=True)
        T.copy(c, C)
"""


@pytest.mark.parametrize(("ta", "tb", "policy"), [(0, 1, "FullRow"), (1, 0, "FullCol"), (1, 1, "Square")])
def test_operands_of_a_gemm_may_be_transposed_and_policies_do_not_bear_on_values(ta, tb, policy):
    a, b = np.arange(16 * 48).reshape(16, 48) % 7 - 3.0, np.arange(48 * 32).reshape(48, 32) % 5 - 2.0
    given = [np.ascontiguousarray(x.T if t else x, np.float32) for x, t in ((a, ta), (b, tb))]
    text = GEMM.format(a=given[0].shape, b=given[1].shape, ta=bool(ta), tb=bool(tb), policy=policy)
    func = ti.tir.parse(text, "k.py")["main"]
    np.testing.assert_array_equal(result(func, *given, np.zeros((16, 32), np.float32)), a @ b)


def test_atomics_of_blocks_add_up():
    lines = ("for i, j in T.Parallel(4, 8):", "    T.atomic_add(B[0, j], a[i, j])")
    start = np.full((8, 8), 2, np.float32)
    found = result(kernel(*lines), X, start)
    np.testing.assert_array_equal(found[0], X.sum(0) + 2)
    np.testing.assert_array_equal(found[1:], start[1:])


def test_a_loop_over_constants_ends_by_constants_alone():
    loop = "for k in [1, 2, 3]:\n            if a[0, 0] > 0:\n                break\n            B[0, k] = 1"
    assert said(HEAD + f"        {loop}\n")[0] == (
        "k.py:12:17: error[TS36]: what a kernel computes does not end a loop over constants."
    )


def test_numbers_beyond_int32_are_int64_as_tvm_types_them():
    written = {
        4294967295: "T.int64(4294967295)",
        -2147483649: "T.int64(-2147483649)",
        2147483647: "T.evaluate(2147483647)",
    }
    for number, printed in written.items():
        assert printed in str(kernel(f"T.evaluate({number})"))
    text = "@T.prim_func\ndef main(A: T.Buffer((4,))):\n    T.tvm_warp_shuffle(0xFFFFFFFF, A[0], 0, 4, 4)\n"
    assert "T.tvm_warp_shuffle(T.int64(4294967295), A[0], 0, 4, 4)" in str(ti.tir.parse(text))


def test_constants_without_a_value_are_asked_for():
    assert said(MATMUL) == [
        "k.py:5:12: error[TS37]: 'matmul' is a kernel for given M, N, K.",
        '  def matmul(M, N, K, block_M=16, block_N=16, block_K=16, dtype="float16", accum_dtype="float32"):',
        "             ^",
        "help: give their values: parse(text, names={'M': ..., 'N': ..., 'K': ...}).",
    ]


SCALED = """
import tilelang
import tilelang.language as T

@tilelang.jit
def scaled(M, s=2.0):
    @T.prim_func
    def main(A: T.Tensor((M,)), B: T.Tensor((M,))):
        with T.Kernel(T.ceildiv(M, 4), threads=32) as bx:
            for i in T.Parallel(4):
                B[bx * 4 + i] = A[bx * 4 + i] * s
    return main

fast = scaled
slow = scaled
"""


def test_another_name_for_a_factory_is_a_kernel_of_its_own_where_constants_are_given_for_it():
    module = ti.tir.parse(SCALED, "k.py", names={"fast.M": 8, "slow.M": 16, "slow.s": 3.0})
    assert list(module.functions) == ["fast", "slow"]
    assert "* T.float32(3.0)" in str(module["slow"]) and '(16,), "float32"' in str(module["slow"])
    assert list(ti.tir.parse(SCALED, "k.py", names={"M": 8}).functions) == ["main"]
    assert list(ti.tir.parse(SCALED, "k.py", names={"scaled.M": 8, "fast.M": 4}).functions) == ["scaled", "fast"]


def test_a_constant_that_is_none_is_asked_for_where_it_is_needed():
    text = SCALED.replace("s=2.0", "b=None").replace("ceildiv(M, 4)", "ceildiv(M, b)").replace(" * s", "")
    assert said(text, M=8) == [
        "k.py:9:36: error[TS24]: 'b' is None, where T.ceildiv needs 'b'.",
        "          with T.Kernel(T.ceildiv(M, b), threads=32) as bx:",
        "                                     ^",
        "help: give it a value: parse(text, names={'b': ...}).",
    ]


def test_a_name_that_nothing_asks_for_is_refused():
    assert said(MATMUL, **SIZES, block_L=3)[0] == "error[TS38]: nothing in k.py asks for the name 'block_L'."


def test_only_the_chosen_block_size_differs():
    other = ti.tir.parse(MATMUL, "k.py", names={**SIZES, "block_N": 24})["main"]
    assert 'T.thread_binding(2, thread="blockIdx.x")' in str(other)


WRONG = {
    "B[0, 0] = undefined": "k.py:10:19: error[TS10]: 'undefined' is not defined here.",
    "T.copy(a)": "k.py:10:9: error[TS24]: T.copy needs 'dst'.",
    "T.gemm(a, a, r)": "k.py:10:22: error[TT03]: C of T.gemm is a matrix, and this has 1 dims.",
    "with T.Kernel(3) as c:\n            pass": "k.py:10:14: error[TS26]: a kernel stands within another one here.",
    "for i, j in T.Parallel(4):\n            pass": "k.py:10:13: error[TS24]: there are 1 values for 2 names.",
    "T.coppy(a, B)": "k.py:10:9: error[TS12]: T.coppy is not known.",
    "import os; os.system('x')": "k.py:10:20: error[TS35]: os.system('x'), and Python is read here, never executed.",
    "raise ValueError(3)": "k.py:10:9: error[TS25]: the text refuses these constants: ValueError(3).",
    "T.copy(a[0:4:2, :], B)": "k.py:10:18: error[TS23]: only the last index of a load or store may have a step.",
    "x = [0] * 10 ** 6": "k.py:10:13: error[TS20]: this sequence would have more than 10,000 members.",
    "x = 10 ** 10 ** 10": "k.py:10:13: error[TS20]: constants of this size are no part of TVMScript.",
    "x = f'{3:1000000000d}'": "k.py:10:13: error[TS04]: this is formatted with more than 999 characters.",
    "x = zip(5)": "k.py:10:17: error[TS21]: a sequence of constants stands here: a list, a tuple, or range(n).",
    "T.access_ptr()": "k.py:10:9: error[TS24]: T.access_ptr needs 'base'.",
    "T.access_ptr(a, offset=2)": "k.py:10:9: error[TS24]: T.access_ptr has no parameter 'offset'.",
    "for k in T.unroll('x'):\n            pass": "k.py:10:18: error[TS21]: the bounds of a loop are integers.",
    "x = T.ceildiv(1, 0)": "k.py:10:13: error[TS20]: this divides by zero.",
    "x = '%d' % 'x'": "k.py:10:13: error[TS20]: this is not computed: %d format: a real number is required, not str.",
    "T.device_assert('x')": "k.py:10:25: error[TS20]: the condition is a string, not bool.",
    "T.reducer_init(a, 'x')": "k.py:10:27: error[TS20]: what a reducer starts from is a number, and this is a string.",
    "x = [i for i in range(10 ** 12)]": "k.py:10:25: error[TS04]: this sequence has more than 100,000 items.",
}


@pytest.mark.parametrize("line", WRONG)
def test_what_is_wrong_is_told_where_it_stands(line):
    assert said(HEAD + f"        {line}\n")[0] == WRONG[line]


COUNTED = {  # in a kernel, what is stored into B
    "for a, c in zip(range(3), (2, 3, 4)): B[a] = c": [2, 3, 4],
    "for a, c in enumerate(range(5, 8)): B[a] = c": [5, 6, 7],
    "for a, c in enumerate([5, 6], 1): B[a] = c": [0, 5, 6],
    "for c in reversed(range(3)): B[c] = c": [0, 1, 2],
    "for a, c in {1: 5, 2: 6}.items(): B[a] = c": [0, 5, 6],
    "q = list(range(3)); B[0] = q[2] + sum(range(4)) + len(range(5)) + max(range(6))": [18, 0, 0],
    "r = range(0, 3, 2)\n        for i in r: B[i] = i + 1": [1, 0, 3],
    "for i in range(-1, 2): B[i + 1] = i": [-1, 0, 1],
    "for i in range(2, -1, -1): B[i] = 3 - i": [3, 2, 1],
    "for i in range(10**12, 10**12 + 3): B[i - 10**12] = i - 10**12": [0, 1, 2],
}


@pytest.mark.parametrize("lines", COUNTED)
def test_ranges_in_a_kernel_are_sequences_and_loops(lines):
    text = "import tilelang.language as T\n@T.prim_func\ndef main(B: T.Tensor((3,), 'int32')):\n"
    func = ti.tir.parse(f"{text}    with T.Kernel(1, threads=1) as c:\n        {lines}\n")["main"]
    assert ti.tir.interpret(func, np.zeros(3, np.int32))[0].tolist() == COUNTED[lines]


def test_the_replication_of_a_reducer_is_a_string():
    text = """
import tilelang.language as T
@T.prim_func
def main(A: T.Tensor((32,), "float32")):
    with T.Kernel(1, threads=32) as bx:
        s = T.alloc_reducer((1,), "float32", "sum", replication=3)
"""
    with pytest.raises(ti.DiagnosticError, match="the replication is a string, and this is the number 3"):
        ti.tir.parse(text)


AROUND = """
import os
import tilelang
import tilelang.language as T
import torch

M = 8
q = {{"a": 8}}
r = [8]
{}

@T.prim_func
def main(A: T.Tensor((8,), "int32"), B: T.Tensor((8,), "int32")):
    with T.Kernel(1, threads=32) as bx:
        for i in T.Parallel(8):
            B[i] = A[i] + M
"""
UNKNOWN = (
    "if torch.version.hip is not None: M = 64",
    "if torch.version.hip: M = 64",
    "if not torch.version.hip: M = 64",
    "M = torch.version.hip and 64",
    "M = 64 if torch.version.hip else 3",
    "M = 3 if torch.version.hip == 'x' else 64",
    "M = 3 if [torch.version.hip] == ['x'] else 64",
    "M = 3 if f'{torch.version.hip}' == 'x' else 64",
    "M = 3 if str(torch.version.hip) == 'x' else 64",
    "M = 3 if '%s' % torch.version.hip == 'x' else 64",
    "M = 3 if isinstance(torch.version.hip, str) else 64",
    "M = 3 if 8 in [os.cpu_count()] else 64",
    "M = 3 if any([os.cpu_count() == 8]) else 64",
    "M = {None: 3}.get(torch.version.hip, 64)",
    "M = {None: 3}[torch.version.hip]",
    "M = [os.cpu_count(), 8].index(8)",
    "M = len([k for k in range(os.cpu_count())])",
)
"""Conditions on what libraries have, which only Python could tell."""


def in_factory(line):
    """The statement in a function that makes the kernel."""
    head, rest = AROUND.split("M = 8\n")
    kernel = rest.format(line).replace("\n", "\n    ")
    return f"{head.format()}@tilelang.jit\ndef made():\n    M = 8\n    {kernel}\n    return main\n"


@pytest.mark.parametrize("line", UNKNOWN)
@pytest.mark.parametrize("place", [AROUND.format, in_factory])
def test_a_condition_on_what_a_library_has_is_not_decided(line, place):
    assert "error[TS35]" in said(place(line))[0]


DECIDED = {
    "if torch.float16 == torch.float32: M = 64": 8,
    "if torch.nn.relu is torch.nn.relu: M = 64": 64,
    "if math.ceil is not None: M = 64": 64,
    "if [torch.version.hip] is not None: M = 64": 64,
    "if len([1, os.cpu_count()]) == 2: M = 64": 64,
    "s = [64]; s.append(os.cpu_count()); M = s[0]": 64,
    "assert torch.version.hip": 8,
}


def value_of_m(line):
    module = ti.tir.parse("import math" + AROUND.format(line), "k.py")
    return int(np.asarray(ti.tir.interpret(module["main"], *np.zeros((2, 8), np.int32))[-1])[0])


@pytest.mark.parametrize("line", DECIDED)
def test_what_bears_on_no_value_of_a_library_is_decided(line):
    assert value_of_m(line) == DECIDED[line]


BOUND = {
    "a branch": "if torch.cuda.is_available():\n    M = 64\nelse:\n    M = 16",
    "a loop": "for k in range(os.cpu_count()):\n    M = M * 2",
    "the variable of a loop": "for M in range(os.cpu_count()):\n    pass",
    "a loop that may end before": "for k in [1, 2, 3]:\n    if torch.x.y:\n        break\n    M = M * 2",
    "a loop as long as a condition holds": "while M < os.cpu_count():\n    M += 1",
    "a change": "M -= torch.foo.bar",
    "a context": "with torch.no_grad():\n    M = 64",
    "the name of a context": "with open('f') as M:\n    pass",
    "an assignment in an expression": "(M := os.cpu_count())",
    "an import in a branch": "if torch.cuda.is_available():\n    import numpy as M",
    "a handler": "try:\n    raise ValueError()\nexcept ValueError:\n    M = 16",
    "a function in a branch": "if torch.cuda.is_available():\n    def M():\n        pass",
    "a statement of a branch": "if len(r) == 1:\n    M = 64\n    if torch.x.y():\n        M = 3",
    "what follows in a branch": "if len(r) == 1:\n    if torch.x.y():\n        k = M = 3\n    M = M * 2",
    "what follows in a loop": "for k in r:\n    x = k @ 3\n    M = k * 2",
    "a pattern": "match M:\n    case [*M] | {**M} | str() as M:\n        pass",
    "a size that an argument tells": "n = T.dynamic('n')\nif n > 4:\n    M = 64",
    "a function that sets it": "def set():\n    global M\n    M = 64\nset()",
    "a key": "q[os.cpu_count()] = 64\nM = q['a']",
    "an index": "r[os.cpu_count()] = 64\nM = r[0]",
    "an entry in a branch": "s = q\nif torch.x.y():\n    s['a'] = 64\nM = q['a']",
    "an entry that is deleted": "if torch.x.y():\n    del q['a']\nM = len(q)",
    "an entry that a function sets": "def set():\n    q['a'] = 64\nif torch.x.y():\n    set()\nM = q['a']",
    "a list that a function gets": "def more(x):\n    x.append(8)\nif torch.x.y():\n    more(r)\nM = len(r)",
    "a list that is longer by what only Python knows": "s = r\ns += os.listdir()\nM = len(r)",
    "entries that only Python knows": "q.update(a=os.cpu_count())\nM = q['a']",
    "mappings that only Python knows": "q.update(os.environ)\nM = q['a']",
    "an import that may fail": "try:\n    import flash_attn\n    M = 64\nexcept ImportError:\n    M = 16",
    "what follows such an import": "try:\n    import flash_attn\nexcept ImportError:\n    pass\nelse:\n    M = 64",
    "a call that may fail": "try:\n    torch.cuda.current_device()\n    M = 64\nexcept Exception:\n    pass",
    "a branch on an import": "try:\n    import mla\n    k = 1\nexcept ImportError:\n    k = 0\nif k:\n    M = 64",
    "a list after an import": "try:\n    import mla\n    r.append(3)\nexcept ImportError:\n    pass\nM = len(r)",
    "a result of an import": "def f():\n    try:\n        import mla\n        return 64\n    except ImportError:\n"
    "        return 16\nM = f()",
    "a method that is not known": "q.popitem()\nM = len(q)",
}


@pytest.mark.parametrize("what", BOUND)
def test_what_a_statement_that_only_python_could_follow_may_bind_is_not_known(what):
    line = said(AROUND.format(BOUND[what]))[0]
    assert "error[TS35]" in line, line


FOLLOWED = {
    "xs = [M for M in range(os.cpu_count())]": 8,
    "fs = [lambda M: M for k in range(os.cpu_count())]": 8,
    "if torch.x.y():\n    def f():\n        M = 64": 8,
    "if torch.x.y():\n    k = len(r)\nM = len(r)": 1,
    "for c in r:\n    torch.x(c @ 3)\nM = r[0]": 8,
    "try:\n    M = 64\nfinally:\n    for k in range(os.cpu_count()):\n        pass": 64,
    "if len(r) == 1:\n    M = 64\n    x = os @ 3": 64,
    "try:\n    import mla\n    k = 1\nexcept ImportError:\n    k = 0\nM = 64": 64,
    "try:\n    import math\n    M = 64\nexcept ImportError:\n    M = 16": 64,
    "try:\n    import mla\n    M = 64\nexcept ImportError:\n    raise SystemExit()": 64,
    "def f():\n    for k in r:\n        try:\n            import mla\n            for j in r:\n                break\n"
    "        except ImportError:\n            pass\n    return 64\nM = f()": 64,
    "x = f(len(r @ 3), sum(r))\nM = r[0] + len(r)": 9,
    "global M\nM = 64": 64,
    "del q['a']\nM = q.get('a', 3)": 3,
    "r.clear()\nM = len(r)": 0,
    "s = r\ns += (1, 2)\nM = len(r)": 3,
    "s = r\ns *= 3\nM = len(r)": 3,
    "s = r\ns = s + [1]\nM = len(r)": 1,
    "s = q\ns |= {'b': 64}\nM = q['b']": 64,
    "f = lambda a, b=60: a + b\nM = f(4)": 64,
    "fs = [lambda k=k: k for k in range(3)]\nM = fs[0]()": 0,
    "M = [*range(3), 64][3]": 64,
    "q.update(a=64)\nM = q['a']": 64,
    "x = r[9]\nr[9] = 3\nr[9] += 3\ndel q['b']": 8,
    "break": 8,
}


@pytest.mark.parametrize("lines", FOLLOWED)
def test_what_a_statement_that_is_not_followed_does_not_concern_keeps_its_value(lines):
    assert value_of_m(lines) == FOLLOWED[lines]


def test_a_value_that_is_given_stands_for_what_a_branch_may_bind():
    module = ti.tir.parse(AROUND.format(BOUND["a branch"]), "k.py", names={"M": 16})
    assert "A[i] + 16" in str(module["main"])
    assert said(AROUND.format(BOUND["a branch"])) == [
        "k.py:19:27: error[TS35]: 'M' is what line 10 computes, and Python is read here, never executed.",
        "              B[i] = A[i] + M",
        "                            ^",
        "help: give its value: parse(text, names={'M': ...}).",
    ]


def test_a_kernel_in_a_branch_that_only_python_could_choose_says_so():
    other = "if torch.x.y():\n    @T.prim_func\n    def other(A: T.Tensor((8,), 'int32')):\n        pass"
    module = ti.tir.parse(AROUND.format(other), "k.py")
    assert list(module.functions) == ["main"]
    with pytest.raises(ti.DiagnosticError, match=r"k.py:10:4: error\[TS35\]: torch.x.y\(\), and Python is read"):
        module["other"]


@pytest.mark.parametrize("line", ["assert M == 7", "if M == 8:\n    raise ValueError(M)", "import numpy as M"])
def test_what_ends_a_module_in_python_ends_it_here(line):
    assert "error[TS25]" in said(AROUND.format(line))[0] or "this is host.numpy" in said(AROUND.format(line))[0]
