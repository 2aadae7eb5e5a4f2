"""What is wrong in a kernel of tiles: named where it stands, before anything runs or with a witness."""

import sys
from pathlib import Path

import numpy as np
import pytest

import tensorir as ti

sys.path.insert(0, str(Path(__file__).parent))
from tile_kernels import text

HEAD = """@T.prim_func
def main(A: T.Buffer((64, 32), "float32"), B: T.Buffer((64, 32), "float32")):
    for bx in T.thread_binding(4, thread="blockIdx.x"):
        tx: T.int32 = T.launch_thread_idx(0)
        with T.sblock("tilelang_root"):
            T.reads()
            T.writes()
            a = T.sblock_alloc_buffer((16, 32), scope="shared.dyn")
            b = T.sblock_alloc_buffer((32, 8), scope="shared.dyn")
            c = T.sblock_alloc_buffer((16, 8), scope="local.fragment")
            r = T.sblock_alloc_buffer((16,), scope="local.fragment")
"""
LOAD = "T.copy(T.region(A[bx * 16, 0], 1, 16, 32), T.region(a[0, 0], 2, 16, 32))"


def kernel(*lines):
    return ti.tir.parse(HEAD + "".join(f"            {line}\n" for line in lines), "k.py")


def said(call):
    with pytest.raises(ti.DiagnosticError) as caught:
        call()
    return str(caught.value).splitlines()


ILL_FORMED = {
    "T.gemm(T.region(a[0, 0], 1, 16, 32), T.region(b[0, 0], 1, 32, 8), T.region(c[0, 0], 3, 16, 8), "
    "T.bool(False), T.bool(True), 16, 8, 32, 0, T.bool(False), 0, 0, 0)": (
        "k.py:12:50: error[TT03]: B of this T.gemm is 8 × 32, and the region has 32 × 8 elements of 'b'.",
        "help: M, N and K are 16, 8 and 32 here.",
    ),
    "T.gemm(T.region(a[0, 0], 1, 16, 32), T.region(b[0, 0], 1, 32, 8), T.region(c[0, 0], 3, 16, 8))": (
        "k.py:12:13: error[TT01]: T.gemm takes 13 or 19 arguments, and this gives 3.",
        "help: write T.gemm(A, B, C, T.bool(False), T.bool(False), M, N, K, policy, T.bool(False), 0, 0, 0).",
    ),
    "T.copy(T.region(A[bx * 16, 0], 1, 16, 32), T.region(b[0, 0], 2, 32, 8))": (
        "k.py:12:13: error[TT03]: 16 × 32 elements of 'A' and 32 × 8 elements of 'b' of T.copy do not fit.", None,
    ),
    "T.copy(T.region(A[bx * 16, 0], 1, 16, 32))": (
        "k.py:12:13: error[TT01]: T.copy takes 2 or 5 arguments, and this gives 1.",
        "help: write T.copy(T.region(A[0, 0], 1, 8, 8), T.region(a[0, 0], 2, 8, 8)).",
    ),
    'T.reduce(T.region(a[0, 0], 1, 16, 32), T.region(r[0], 2, 16), "summ", 1, T.bool(True))': (
        "k.py:12:13: error[TT02]: there is no reduction 'summ'.", "help: did you mean 'sum'?",
    ),
    'T.reduce(T.region(a[0, 0], 1, 16, 32), T.region(r[0], 2, 16), "sum", 0, T.bool(True))': (
        "k.py:12:13: error[TT03]: 16 × 32 elements of 'a' and 16 elements of 'r' of T.reduce do not fit.", None,
    ),
    'T.reduce(T.region(a[0, 0], 1, 16, 32), T.region(r[0], 2, 16), "sum", 2, T.bool(True))': (
        "k.py:12:13: error[TT03]: dim 2 is reduced, and 'a' has 2.", None,
    ),
    'T.reduce(T.region(a[0, 0], 1, 16, 32), T.region(r[0], 2, 16), "bitor", 1, T.bool(True))': (
        "k.py:12:13: error[TT02]: bitor is for integers, and 'r' holds float32.", None,
    ),
    "T.cumsum(T.region(a[0, 0], 1, 16, 32), T.region(a[0, 0], 2, 16, 32), 3, T.bool(True))": (
        "k.py:12:13: error[TT03]: T.cumsum runs along dim 3, and 'a' has 2.", None,
    ),
    "T.copy(T.region(A[bx * 16, 0], 1, 16), T.region(a[0, 0], 2, 16, 32))": (
        "k.py:12:20: error[TT02]: the region of 'A' has 1 extents for 2 dims.",
        "help: write T.region(A[0, 0], 1, 8, 8).",
    ),
    "T.copy(3, T.region(a[0, 0], 2, 16, 32))": (
        "k.py:12:13: error[TT02]: argument 1 of T.copy is a region of a buffer, and this is none.",
        "help: write T.region(A[0, 0], 1, 8, 8).",
    ),
}  # fmt: skip


@pytest.mark.parametrize("line", ILL_FORMED)
@pytest.mark.parametrize("way", ["check", "interpret", "lift"])
def test_an_ill_formed_operation_is_refused_at_its_place(line, way):
    module = kernel(line)
    ways = {
        "check": lambda: ti.tir.check(module),
        "interpret": lambda: ti.tir.interpret(module["main"], *np.zeros((2, 64, 32), np.float32)),
        "lift": lambda: ti.lift(module["main"]),
    }
    message, help = ILL_FORMED[line]
    found = said(ways[way])
    assert found[0] == message
    assert found[-1] == help or (help is None and found[-1].lstrip().startswith("^"))


def test_an_operation_that_nobody_knows_is_refused_when_it_is_read():
    found = said(lambda: kernel("T.copyy(T.region(A[bx * 16, 0], 1, 16, 32), T.region(a[0, 0], 2, 16, 32))"))
    assert (found[0], found[-1]) == ("k.py:12:13: error[TS12]: T.copyy is not known.", "help: did you mean 'T.copy'?")


def test_a_call_of_a_library_of_kernels_is_refused_at_its_place():
    module = kernel('T.call_extern("handle", "tl::gemm_ss<64, 64, 32>", a[0, 0], b[0, 0])')
    told = "the external function 'tl::gemm_ss<64, 64, 32>' is not known"
    arrays = np.zeros((2, 64, 32), np.float32)
    assert said(lambda: ti.tir.interpret(module["main"], *arrays))[0].startswith(f"k.py:12:13: error[TR22]: {told}")
    assert said(lambda: ti.lift(module["main"]))[0].startswith(f"k.py:12:13: error[TL01]: {told}")


WRONG = {
    "outside along a dim of one element": (
        [LOAD, "T.copy(T.region(a[0, 0], 1, 1, 32), T.region(B[bx * 20 + 10, 0], 2, 1, 32))"],
        "k.py:13:49: error[TR01]: index 0 of 'B' is 70, outside of its 64 elements.",
        "k.py:13:13: error[TL10]: B[70, 0] is written, and 'B' has 64×32 elements.",
    ),
    "a fragment that nobody wrote": (
        ["T.copy(T.region(a[0, 0], 1, 16, 32), T.region(B[bx * 16, 0], 2, 16, 32))"],
        "k.py:12:13: error[TR02]: element 0 of 'a' is read, but nobody has written it.",
        "k.py:12:13: error[TL11]: a[0, 0] is read, and nothing has written it.",
    ),
    "a fragment of which a part was written": (
        ["T.fill(T.region(a[0, 0], 2, 16, 31), 0)",
         "T.copy(T.region(a[0, 0], 1, 16, 32), T.region(B[bx * 16, 0], 2, 16, 32))"],
        "k.py:13:13: error[TR02]: element 31 of 'a' is read, but nobody has written it.",
        "k.py:13:13: error[TL11]: a[0, 31] is read, and nothing has written it.",
    ),
    "blocks that write the same rows": (
        [LOAD, "T.copy(T.region(a[0, 0], 1, 16, 32), T.region(B[bx * 8, 0], 2, 16, 32))"],
        "k.py:13:13: error[TR03]: race: element 256 of 'B' is written at blockIdx.x = 0 and written at blockIdx.x = 1.",
        "k.py:3:5: error[TL12]: two iterations of the parallel loop over blockIdx_x touch B[8, 0].",
    ),
    "a sum in a parallel loop": (
        ["T.fill(T.region(r[0], 2, 16), 0)", "for i in range(16):", "    for k in T.parallel(32):",
         "        r[i] = r[i] + A[i, k]",
         "T.copy(T.region(r[0], 1, 16), T.region(B[bx * 16, 0], 2, 16, 1))"],
        "k.py:15:28: error[TR03]: race: element 0 of 'r' is written at blockIdx.x = 0, k = 0 and read at "
        "blockIdx.x = 0, k = 1.",
        "k.py:14:17: error[TL12]: two iterations of the parallel loop over k touch r[0].",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_what_a_run_would_do_wrong_is_told_with_a_witness(what):
    lines, interpreted, lifted = WRONG[what]
    module = kernel(*lines)
    arrays = np.zeros((2, 64, 32), np.float32)
    assert said(lambda: ti.tir.interpret(module["main"], *arrays, checked=True))[0] == interpreted
    assert said(lambda: ti.lift(module["main"]))[0] == lifted


def test_a_live_kernel_is_read_by_its_script_whose_layouts_say_nothing_about_values():
    class Live:
        """What TileLang's functions have."""

        def script(self):
            return text("flash")

    assert 'metadata["tl.Layout"][0]' in text("flash")
    assert ti.tir.parse(Live()) == ti.tir.parse(text("flash"))
