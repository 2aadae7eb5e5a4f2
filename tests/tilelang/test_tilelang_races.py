"""Races planted in sound kernels: found by the interpreter and proven by the lift, where they stand."""

import sys
from pathlib import Path

import numpy as np
import pytest

import tensorir as ti

sys.path.insert(0, str(Path(__file__).parent))
from tile_kernels import KERNELS, text

PLANTED = {
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
    sound, racing, _ = PLANTED[name]
    assert text(name).count(sound) == 1
    lines = text(name).replace(sound, racing).split("\n")
    changed = next(k for k, line in enumerate(lines) if racing in line)
    store = changed if name != "persistent" else next(k for k, line in enumerate(lines) if "T.region(B[tile" in line)
    return ti.tir.parse("\n".join(lines), "k.py")["main"], store + 1


@pytest.mark.parametrize("name", PLANTED)
def test_the_interpreter_finds_the_race(name):
    func, line = planted(name)
    with pytest.raises(ti.DiagnosticError) as caught:
        ti.tir.interpret(func, *KERNELS[name].args(np.random.default_rng(5)), checked=True)
    first = str(caught.value).split("\n")[0]
    assert first.startswith(f"k.py:{line}:") and "error[TR03]: race: element" in first


@pytest.mark.parametrize("name", PLANTED)
def test_the_lift_proves_the_race_with_two_iterations(name):
    func, line = planted(name)
    with pytest.raises(ti.DiagnosticError) as caught:
        ti.lift(func)
    told = str(caught.value).split("\n")
    assert "error[TL12]: two iterations of the parallel loop over" in told[0]
    assert told[0].endswith(f" touch {PLANTED[name][2]}.")
    assert sum(t.startswith(f"  at k.py:{line}:") for t in told) == 2


def test_a_race_that_data_decide_is_found_in_a_run_and_told_by_the_lift():
    sound, racing = "T.atomic_add_elem_op(T.access_ptr(H[X[bx * 16 + i]], 1, 3), 1)", "H[X[bx * 16 + i]] = T.int32(1)"
    func = ti.tir.parse(text("atomics").replace(sound, racing), "k.py")["main"]
    with pytest.raises(ti.DiagnosticError, match="race: element"):
        ti.tir.interpret(func, *KERNELS["atomics"].args(np.random.default_rng(5)), checked=True)
    assert "data tell whether iterations of the parallel loop over blockIdx_x meet in 'H'" in str(ti.lift(func).report)
