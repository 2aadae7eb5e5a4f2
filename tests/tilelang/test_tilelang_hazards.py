"""One fault planted in each of a dozen printed kernels: told with its place and its element, by a run and by the lift.

The kernels without their faults run and lift in `test_tilelang_kernels`; races between blocks are in
`test_tilelang_races`.
"""

import sys
from pathlib import Path

import numpy as np
import pytest

import tensorir as ti

sys.path.insert(0, str(Path(__file__).parent))
from tile_kernels import KERNELS, text

PLANTED = {
    "a sum that is not begun": (
        "matmul_tails", "T.fill(T.region(c[0, 0], 2, 32, 32), 0)", "pass",
        "k.py:25:21: error[TR02]: element 0 of 'c' is read, but nobody has written it.",
        "k.py:25:21: error[TL11]: c[0, 0] is read, and nothing has written it.",
    ),
    "a state that is not begun": (
        "flash", "T.fill(T.region(l[0], 2, 32), 0)", "pass",
        "k.py:50:32: error[TR02]: element 0 of 'l' is read, but nobody has written it.",
        "k.py:50:32: error[TL11]: l[0] is read, and nothing has written it.",
    ),
    "a reduction that goes on from nothing": (
        "softmax_rows", 'm[0], 2, 8), "max", 1, T.bool(True)', 'm[0], 2, 8), "max", 1, T.bool(False)',
        "k.py:20:13: error[TR02]: element 0 of 'm' is read, but nobody has written it.",
        "k.py:20:13: error[TL11]: m[0] is read, and nothing has written it.",
    ),
    "a fragment of which half is written": (
        "rmsnorm", "T.copy(T.region(x[0, 0], 1, 4, 64), T.region(f[0, 0], 2, 4, 64))",
        "T.copy(T.region(x[0, 0], 1, 4, 32), T.region(f[0, 0], 2, 4, 32))",
        "k.py:24:31: error[TR02]: element 32 of 'f' is read, but nobody has written it.",
        "k.py:24:31: error[TL11]: f[0, 32] is read, and nothing has written it.",
    ),
    "a write outside along a dim of extent 1": (
        "batched", "C[bx, by, 0, 0], 2, 1, 1, 32, 32", "C[bx + 1, by, 0, 0], 2, 1, 1, 32, 32",
        "k.py:24:54: error[TR01]: index 0 of 'C' is 3, outside of its 3 elements.",
        "k.py:24:17: error[TL10]: C[3, 0, 0, 0] is written, and 'C' has 3×2×32×32 elements.",
    ),
    "a read outside along a dim of extent 1": (
        "flash", "Q[by, bx * 32, 0]", "Q[by + 1, bx * 32, 0]",
        "k.py:31:24: error[TR01]: index 0 of 'Q' is 2, outside of its 2 elements.",
        "k.py:31:17: error[TL10]: Q[2, 0, 0] is read, and 'Q' has 2×64×32 elements.",
    ),
    "an element behind a tile": (
        "rmsnorm", "f[i, j] * f[i, j]", "f[i, j] * f[i, j + 1]",
        "k.py:24:41: error[TR01]: index 64 is outside of dimension 1 of 'f', which has 64 elements.",
        "k.py:24:41: error[TL10]: f[0, 64] is read, and 'f' has 4×64 elements.",
    ),
    "a product of another depth": (
        "matmul_tails", "T.bool(False), T.bool(False), 32, 32, 16, 0,", "T.bool(False), T.bool(False), 32, 32, 32, 0,",
        "k.py:25:28: error[TT03]: A of this T.gemm is 32 × 32, and the region has 32 × 16 elements of 'a'.",
        "k.py:25:28: error[TT03]: A of this T.gemm is 32 × 32, and the region has 32 × 16 elements of 'a'.",
    ),
    "a product of a transposed tile": (
        "conv", "y[0, 0], 3, 32, 32), T.bool(False)", "y[0, 0], 3, 32, 32), T.bool(True)",
        "k.py:27:28: error[TT03]: A of this T.gemm is 16 × 32, and the region has 32 × 16 elements of 'x'.",
        "k.py:27:28: error[TT03]: A of this T.gemm is 16 × 32, and the region has 32 × 16 elements of 'x'.",
    ),
    "iterations that write one element": (
        "rmsnorm", "s[i] = T.rsqrt(", "s[0] = T.rsqrt(",
        "k.py:27:17: error[TR03]: race: element 0 of 's' is written at blockIdx.x = 0, i = 0 and written at "
        "blockIdx.x = 0, i = 1.",
        "k.py:26:13: error[TL12]: two iterations of the parallel loop over i touch s[0].",
    ),
    "a store in the place of an atomic sum": (
        "atomics", "T.atomicadd(T.region(a", "T.copy(T.region(a",
        "k.py:30:13: error[TR03]: race: element 0 of 'G' is written at blockIdx.x = 0 and written at blockIdx.x = 3.",
        "k.py:12:5: error[TL12]: two iterations of the parallel loop over blockIdx_x touch G[0, 0].",
    ),
    "a store in the place of an atomic maximum": (
        "atomics", "T.atomicmax(T.region(m", "T.copy(T.region(m",
        "k.py:29:13: error[TR03]: race: element 0 of 'C' is written at blockIdx.x = 0 and written at blockIdx.x = 3.",
        "k.py:12:5: error[TL12]: two iterations of the parallel loop over blockIdx_x touch C[0].",
    ),
}  # fmt: skip


@pytest.mark.parametrize("way", ["run", "lift"])
@pytest.mark.parametrize("what", PLANTED)
def test_a_planted_fault_is_told_where_it_stands(what, way):
    name, sound, faulty, run, lifted = PLANTED[what]
    assert text(name).count(sound) == 1
    with pytest.raises(ti.DiagnosticError) as caught:
        func = ti.tir.parse(text(name).replace(sound, faulty), "k.py")["main"]
        if way == "lift":
            ti.lift(func)
        else:
            ti.tir.interpret(func, *KERNELS[name].args(np.random.default_rng(5)), checked=True)
    assert str(caught.value).split("\n")[0] == (lifted if way == "lift" else run)
