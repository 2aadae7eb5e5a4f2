"""Numbers that the interpreter gives: TVM's, those of each width, and those of intrinsics."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tensorir as ti
import tensorir.tir as tir
from tensorir.runtime.errors import DiagnosticError

# TVM's numbers


CONFORMANCE = Path(__file__).parents[3] / "shared" / "conformance" / "tir"


def modules() -> list[object]:
    files = sorted(CONFORMANCE.glob("*.py"))
    if not files:
        return [pytest.param(None, marks=pytest.mark.skip(reason="the conformance modules are not here"))]
    return [pytest.param(file, id=file.stem) for file in files]


@pytest.mark.parametrize("checked", [False, True], ids=["plain", "checked"])
@pytest.mark.parametrize("file", modules())
def test_a_conformance_module_gives_tvms_numbers(file: Path, checked: bool):
    data = np.load(file.with_suffix(".npz"))
    meta: dict[str, Any] = json.loads(str(data["meta"]))
    module = tir.parse(file.read_text(), file.stem)
    arrays = [data[f"arg{k}"] for k in range(len(meta["args"]))]
    if "metadata[" in file.read_text():
        with pytest.raises(DiagnosticError, match=r"metadata\[.*\] is not in the text"):
            tir.interpret(module[meta["func"]], *arrays, checked=checked)
        return
    found = tir.interpret(module[meta["func"]], *arrays, checked=checked)
    prefix = "ret" if meta.get("kind") == "relax" else "out"
    wanted = {int(name[3:]): data[name] for name in data if name.startswith(prefix)}
    assert wanted
    for place, want in wanted.items():
        got = found[place]
        if got.dtype != want.dtype and got.dtype.itemsize == want.dtype.itemsize:
            want = want.view(got.dtype)
        if got.dtype.kind in "iub":
            np.testing.assert_array_equal(got, want)
        else:
            wide = [x.astype(np.float64) for x in (got, want)]
            np.testing.assert_allclose(*wide, rtol=meta["rtol"], atol=meta["atol"])


@pytest.mark.parametrize("file", modules())
def test_the_checker_accepts_a_conformance_module(file: Path):
    assert all(note.severity == "warning" for note in tir.check(tir.parse(file.read_text(), file.stem)))


# Memory seen as elements of another width, in the interpreter

HEAD = "@T.prim_func\ndef main("


def test_a_view_has_the_bytes_of_its_memory():
    text = 'A: T.Buffer((2,), "float32"), B: T.Buffer((4,), "int16")):\n'
    text += '    V = T.decl_buffer((4,), "int16", data=A.data)\n'
    func = tir.parse(HEAD + text + "    for i in range(4):\n        B[i] = V[i]\n        V[i] = T.int16(0)\n")["main"]
    x = np.array([1.5, -2.0], np.float32)
    after = tir.interpret(func, x, np.zeros(4, np.int16))
    np.testing.assert_array_equal(after[1], x.view(np.int16))
    np.testing.assert_array_equal(after[0], [0, 0])


def test_iterations_that_write_other_bytes_of_one_element_do_not_meet():
    text = 'A: T.Buffer((2,), "float32")):\n    V = T.decl_buffer((8,), "uint8", data=A.data)\n'
    func = tir.parse(HEAD + text + "    for i in T.parallel(8):\n        V[i] = T.uint8(0)\n")["main"]
    np.testing.assert_array_equal(tir.interpret(func, np.ones(2, np.float32), checked=True)[0], [0, 0])


def test_what_is_unwritten_is_told_byte_by_byte_and_said_in_elements():
    text = 'B: T.Buffer((1,), "float32")):\n    M = T.alloc_buffer((2,), "float32")\n'
    text += '    V = T.decl_buffer((8,), "uint8", data=M.data)\n    for i in range(7):\n        V[i] = T.uint8(0)\n'
    func = tir.parse(HEAD + text + "    B[0] = M[1]\n")["main"]
    with pytest.raises(DiagnosticError) as caught:
        tir.interpret(func, np.zeros(1, np.float32), checked=True)
    assert str(caught.value) == (
        "<tir>:7:12: error[TR02]: element 1 of 'M' is read, but nobody has written it.\n"
        "      B[0] = M[1]\n"
        "             ^^^^"
    )


def test_a_view_that_starts_in_the_midst_of_an_element_is_an_error():
    text = 'A: T.Buffer((4,), "float32"), B: T.Buffer((1,), "float64")):\n'
    text += '    V = T.decl_buffer((1,), "float64", data=T.address_of(A[1]))\n    B[0] = V[0]\n'
    with pytest.raises(DiagnosticError) as caught:
        tir.interpret(tir.parse(HEAD + text)["main"], np.zeros(4, np.float32), np.zeros(1))
    assert str(caught.value) == (
        "<tir>:3:5: error[TR17]: 'V' starts in the midst of an element of float64, 8 bytes wide.\n"
        '      V = T.decl_buffer((1,), "float64", data=T.address_of(A[1]))\n'
        "      ^\n"
        "help: let it start at a multiple of 8 bytes."
    )


# Shuffles of warps, masked vectors, what is deprecated, reductions of TE; expectations are worked out by hand

HEAD_INTRINSICS = '@T.prim_func\ndef main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):\n'


def run(body: str, checked: bool = True, start: int = 0) -> list[int]:
    lines = "".join(f"    {line}\n" for line in body.strip("\n").splitlines())
    module = tir.parse(HEAD_INTRINSICS + lines)
    assert tir.parse(str(module)) == module
    values = np.arange(8, dtype=np.int32) * 10
    return tir.interpret(module["main"], values, np.full(8, start, np.int32), checked=checked)[1].tolist()


def threads(expression: str) -> list[int]:
    return run(f'for t in T.thread_binding(8, thread="threadIdx.x"):\n    B[t] = {expression}')


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("T.tvm_warp_shuffle(-1, A[t], 3, 8, 32)", [30] * 8),
        ("T.tvm_warp_shuffle(-1, A[t], 3, 4, 32)", [30] * 4 + [70] * 4),
        ("T.tvm_warp_shuffle(-1, A[t], 7 - t, 8, 32)", [70, 60, 50, 40, 30, 20, 10, 0]),
        ("T.tvm_warp_shuffle_down(-1, A[t], 2, 8, 32)", [20, 30, 40, 50, 60, 70, 60, 70]),
        ("T.tvm_warp_shuffle_up(-1, A[t], 1, 4, 32)", [0, 0, 10, 20, 40, 40, 50, 60]),
        ("T.tvm_warp_shuffle_xor(-1, A[t], 1, 8, 32)", [10, 0, 30, 20, 50, 40, 70, 60]),
    ],
)
def test_threads_of_a_warp_hand_values_around(call: str, expected: list[int]):
    assert threads(call) == expected


def test_warps_are_counted_along_x_first():
    body = """
for y in T.thread_binding(2, thread="threadIdx.y"):
    for x in T.thread_binding(4, thread="threadIdx.x"):
        B[y * 4 + x] = T.tvm_warp_shuffle_down(-1, A[y * 4 + x], 1, 8, 8)
"""
    assert run(body) == [10, 20, 30, 40, 50, 60, 70, 70]


def test_a_warp_sums_in_a_tree():
    body = """
for t in T.thread_binding(8, thread="threadIdx.x"):
    S = T.alloc_buffer((1,), "int32", scope="local")
    S[0] = A[t]
    for k in range(3):
        S[0] = S[0] + T.tvm_warp_shuffle_xor(-1, S[0], T.shift_left(1, k), 8, 32)
    B[t] = S[0]
"""
    assert run(body) == [280] * 8


def test_a_value_from_a_thread_that_does_not_take_part_is_reported():
    body = """
for t in T.thread_binding(8, thread="threadIdx.x"):
    if t < 4:
        B[t] = T.tvm_warp_shuffle_down(-1, A[t], 2, 8, 32)
"""
    assert run(body, checked=False)[:4] == [20, 30, 0, 0]
    with pytest.raises(DiagnosticError) as caught:
        run(body)
    assert caught.value.diagnostics[0].message == ("thread 2 takes a value from thread 4, which does not take part.")


def test_the_threads_that_take_part_are_bits():
    body = """
for t in T.thread_binding(8, thread="threadIdx.x"):
    if t % 2 == 1:
        B[t] = T.Cast("int32", T.tvm_warp_activemask())
"""
    assert run(body) == [0, 0b10101010] * 4


def test_a_shuffle_outside_of_a_kernel_is_refused():
    with pytest.raises(DiagnosticError) as caught:
        run("B[0] = T.tvm_warp_shuffle(-1, A[0], 3, 8, 32)")
    assert caught.value.diagnostics[0].code == "TR21"


def test_masked_lanes_are_neither_read_nor_written():
    mask = "T.Ramp(6, 1, 4) < T.Broadcast(8, 4)"
    assert run(f'B[0:4] = T.masked_load("int32x4", A, T.Ramp(6, 1, 4), {mask})') == [60, 70, 0, 0, 0, 0, 0, 0]
    assert run(f"T.masked_store(B, A[T.Ramp(0, 1, 4)], T.Ramp(6, 1, 4), {mask})", start=5) == [5] * 6 + [0, 10]


def test_what_is_deprecated_means_what_it_meant():
    body = """
T.store(B.data, 3, T.load("int32", A.data, 2), True)
T.store(B.data, T.Ramp(4, 1, 4), T.load("int32x4", A.data, T.Ramp(0, 2, 4)))
T.store(B.data, 0, 99, A[0] > 0)
"""
    assert run(body) == [0, 0, 0, 20, 0, 20, 40, 60]


def test_a_load_behind_the_memory_is_reported():
    with pytest.raises(DiagnosticError, match="lies outside of the memory"):
        run('B[0] = T.load("int32", A.data, 1000)')


def test_a_reduction_in_an_expression_folds_over_its_axes():
    reduction = (
        "T.Reduce(T.comm_reducer(lambda x, y: x * 2 + y, [T.int32(1)]), [A[i] + k], [], "
        '[T.iter_var(k, T.Range(0, 3), "CommReduce", "")], 0, {})'
    )
    body = "k = T.int32()\nfor i in range(8):\n    B[i] = " + reduction
    assert run(body.format("T.bool(True)")) == [8 + 4 * a + 2 * (a + 1) + a + 2 for a in range(0, 80, 10)]
    assert run(body.format("k < 1")) == [2 + a for a in range(0, 80, 10)]


def test_structures_of_the_runtime_are_refused_by_name():
    with pytest.raises(DiagnosticError) as caught:
        run('B[0] = T.tvm_struct_get(A.data, 0, 1, "int32")')
    assert caught.value.diagnostics[0].message == "T.tvm_struct_get has no meaning here: it cannot be interpreted."


NEIGHBOURS = {
    "float16": (2.0**-24, 1 + 2.0**-10, 65504.0),
    "bfloat16": (2.0**-133, 1 + 2.0**-7, 2.0**128 - 2.0**120),
    "float32": (2.0**-149, 1 + 2.0**-23, 2.0**128 - 2.0**104),
    "float64": (2.0**-1074, 1 + 2.0**-52, 2.0**1023 * (2 - 2.0**-52)),
}


@pytest.mark.parametrize("kind", NEIGHBOURS)
def test_the_float_beside_another(kind: str):
    least, beside_one, largest = NEIGHBOURS[kind]
    inf, nan = math.inf, math.nan
    rows = [
        (0.0, 1.0, least),
        (-0.0, -1.0, -least),
        (least, -1.0, 0.0),
        (-least, 1.0, -0.0),
        (0.0, -0.0, -0.0),
        (1.0, 2.0, beside_one),
        (beside_one, 0.0, 1.0),
        (-1.0, -2.0, -beside_one),
        (largest, inf, inf),
        (inf, 0.0, largest),
        (-inf, 0.0, -largest),
        (-inf, -inf, -inf),
        (nan, 1.0, nan),
        (1.0, nan, nan),
    ]
    table = np.array(rows).astype(getattr(ml_dtypes, kind, kind)).T.copy()
    size = len(rows)
    module = tir.parse(
        f'@T.prim_func\ndef main(A: T.Buffer(({size},), "{kind}"), B: T.Buffer(({size},), "{kind}"), '
        f'C: T.Buffer(({size},), "{kind}")):\n    for i in range({size}):\n        C[i] = T.nextafter(A[i], B[i])\n'
    )
    arguments = table[0].copy(), table[1].copy(), np.zeros_like(table[0])
    for found in (tir.interpret(module["main"], *arguments)[2], ti.lift(module["main"])(*arguments)[0]):
        bits = np.asarray(found).view(f"u{found.dtype.itemsize}")
        assert bits[:-2].tolist() == table[2].view(bits.dtype)[:-2].tolist()
        assert np.isnan(np.asarray(found, np.float64)[-2:]).all()


def test_fixed_point_products_shift_per_axis():
    text = (
        '@T.prim_func\ndef main(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):\n    for i in range(4):\n'
        "        B[i] = T.q_multiply_shift_per_axis(A[i], 1 << 30, 2, 1, 31, i % 2 == 1, i // 2 == 1)\n"
    )
    main = tir.parse(text)["main"]
    # half of the number; times 4; halved once more; both
    for found in (
        tir.interpret(main, np.array([6, 6, 6, 6], np.int32), np.zeros(4, np.int32))[1],
        ti.lift(main)(np.array([6, 6, 6, 6], np.int32), np.zeros(4, np.int32))[0],
    ):
        assert np.asarray(found).tolist() == [3, 12, 2, 6]


@pytest.mark.parametrize("kind", ["int8", "uint8", "int32", "uint64"])
def test_functions_of_floats_leave_whole_numbers_as_they_are_and_all_of_them_are_finite(kind: str):
    text = f"""@T.prim_func
def main(A: T.Buffer((4,), "{kind}"), B: T.Buffer((4,), "{kind}")):
    for i in range(4):
        B[i] = A[i] * T.Cast("{kind}", T.isfinite(A[i])) + T.if_then_else(T.isnan(A[i]), T.{kind}(1), T.{kind}(0)) \\
            + T.if_then_else(T.isinf(A[i]), T.{kind}(2), T.{kind}(0)) + T.floor(A[i]) - T.ceil(A[i]) + T.trunc(A[i])
"""
    main, a = tir.parse(text)["main"], np.array([0, 1, 2, 60], kind)
    assert tir.interpret(main, a, np.zeros(4, kind))[1].tolist() == [0, 2, 4, 120]
    assert ti.reference.run(ti.lift(main).fencil, A=a)["B"].tolist() == [0, 2, 4, 120]
