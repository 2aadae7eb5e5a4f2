"""One fault planted in each of a dozen printed kernels: told with its place and its element, by a run and by the lift.

The kernels without their faults run and lift in `test_tilelang_kernels`.
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


# Races planted in sound kernels: found by the interpreter and proven by the lift, where they stand.


sys.path.insert(0, str(Path(__file__).parent))

RACING = {
    "matmul_tails": ("T.region(C[by * 32, bx * 32], 2", "T.region(C[by * 32, bx * 24], 2", "C[0, 24]"),
    "matmul_transposed": ("T.region(C[bx * 48, 0], 2, 48, 48)", "T.region(C[bx * 40, 0], 2, 48, 48)", "C[40, 0]"),
    "batched": (
        "T.region(C[bx, by, 0, 0], 2, 1, 1, 32, 32)", "T.region(C[bx, 0, 0, 0], 2, 1, 1, 32, 32)", "C[0, 0, 0, 0]"
    ),
    "splitk": ("T.atomicadd(T.region(cs", "T.copy(T.region(cs", "C[0, 0]"),
    "rmsnorm": ("f[i, j] = f[i, j] * s[i]", "f[i, 0] = f[i, j] * s[i]", "f[0, 0]"),
    "softmax_rows": ("T.region(Y[bx * 8, 0], 2, 8, 48)", "T.region(Y[bx * 7, 0], 2, 8, 48)", "Y[7, 0]"),
    "transposing": ("T.region(B[0, bx * 32], 2, 32, 32)", "T.region(B[0, bx * 16], 2, 32, 32)", "B[0, 16]"),
    "gemv": ("T.region(C[bx * 8], 2, 8)", "T.region(C[bx * 4], 2, 8)", "C[4]"),
    "persistent": ("tile: T.int32 = t * 3 + bx", "tile: T.int32 = t * 2 + bx", "B[16, 0]"),
    "views": ("w[i] = w[i] * T.float32(2.0)", "w[i // 2] = w[i] * T.float32(2.0)", "a[0, 0]"),
    "bands": ("T.region(B[bx * 16, by * 12], 2, 16, 12)", "T.region(B[bx * 15, by * 12], 2, 16, 12)", "B[15, 0]"),
    "flash": ("T.region(O[by, bx * 32, 0], 2, 1, 32, 32)", "T.region(O[by, 0, 0], 2, 1, 32, 32)", "O[0, 0, 0]"),
    "argmax": ("T.region(M[bx * 4], 2, 4)", "T.region(M[bx], 2, 4)", "M[1]"),
}  # fmt: skip


def planted(name):
    """The kernel with its race, and the line of the store that meets itself."""
    sound, racing, _ = RACING[name]
    assert text(name).count(sound) == 1
    lines = text(name).replace(sound, racing).split("\n")
    changed = next(k for k, line in enumerate(lines) if racing in line)
    store = changed if name != "persistent" else next(k for k, line in enumerate(lines) if "T.region(B[tile" in line)
    return ti.tir.parse("\n".join(lines), "k.py")["main"], store + 1


@pytest.mark.parametrize("name", RACING)
def test_the_interpreter_finds_the_race(name):
    func, line = planted(name)
    with pytest.raises(ti.DiagnosticError) as caught:
        ti.tir.interpret(func, *KERNELS[name].args(np.random.default_rng(5)), checked=True)
    first = str(caught.value).split("\n")[0]
    assert first.startswith(f"k.py:{line}:") and "error[TR03]: race: element" in first


@pytest.mark.parametrize("name", RACING)
def test_the_lift_proves_the_race_with_two_iterations(name):
    func, line = planted(name)
    with pytest.raises(ti.DiagnosticError) as caught:
        ti.lift(func)
    told = str(caught.value).split("\n")
    assert "error[TL12]: two iterations of the parallel loop over" in told[0]
    assert told[0].endswith(f" touch {RACING[name][2]}.")
    assert sum(t.startswith(f"  at k.py:{line}:") for t in told) == 2


def test_a_race_that_data_decide_is_found_in_a_run_and_told_by_the_lift():
    sound, racing = "T.atomic_add_elem_op(T.access_ptr(H[X[bx * 16 + i]], 1, 3), 1)", "H[X[bx * 16 + i]] = T.int32(1)"
    func = ti.tir.parse(text("atomics").replace(sound, racing), "k.py")["main"]
    with pytest.raises(ti.DiagnosticError, match="race: element"):
        ti.tir.interpret(func, *KERNELS["atomics"].args(np.random.default_rng(5)), checked=True)
    assert "data tell whether iterations of the parallel loop over blockIdx_x meet in 'H'" in str(ti.lift(func).report)
