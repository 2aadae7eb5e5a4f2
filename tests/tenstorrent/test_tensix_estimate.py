"""`program.estimate()`: counts are those of a run, and of tt-metal's optimised product; blocks are chosen by it."""

import sys
from collections import Counter
from pathlib import Path

import ml_dtypes  # noqa: F401  NumPy knows bfloat16 by it
import numpy as np
import pytest

import tensorir as ti

sys.path.insert(0, str(Path(__file__).parent))
from metal_kernels import BATCHES, TURNED, blocked, nest
from tensix_kernels import matmul, softmax


def main(text):
    return ti.tir.parse(text, "kernel")["main"]


def program_of(text, cores=64):
    return ti.tt.split(ti.tt.pipeline(main(text), cores=cores).result)


COUNTED = {"product": (matmul(96, 160, 64), 4), "softmax": (softmax(200, 96), 3), "branches": (BATCHES, 5),
           "transposed": (TURNED, 2)}  # fmt: skip


@pytest.mark.parametrize("name", COUNTED)
def test_bytes_of_each_core_are_those_of_a_run(name):
    text, cores = COUNTED[name]
    program = program_of(text, cores)
    args = [
        np.zeros([int(str(e)) for e in buffer.shape], np.float32).astype(str(buffer.dtype))
        for buffer in program.func.buffer_map.values()
    ]
    run = ti.tt.simulate(program, args)
    page = {queue.name: 32 * 32 * queue.block.dtype.bits // 8 for queue in program.buffers}
    pushed, popped = Counter(), Counter()
    for event in run.trace:
        if (event.role, event.action) == ("reader", "push"):
            pushed[event.core] += event.count * page[event.buffer]
        elif (event.role, event.action) == ("writer", "pop"):
            popped[event.core] += event.count * page[event.buffer]
    found = program.estimate()
    assert found.read == tuple(pushed[core] for core in range(cores))
    assert found.written == tuple(popped[core] for core in range(cores))
    assert set(found.received) == {0} and set(found.sent) == {0}


def test_a_multicast_product_moves_the_bytes_of_the_optimised_example():
    """Of 64 × 64 tiles each of 8 × 8 cores has 8 × 8: A is read once, by the first core of a row, B of a column."""
    tile, across, inner = 2 * 32 * 32, 64, 64
    mine, rest = 8 * inner * tile, 7  # what one core reads of A, or of B, and the cores that it sends it to
    found = program_of(blocked(2048, 256, 256, 64)).estimate(mcast=True)
    assert found.dram == 3 * across * across * tile
    assert (found.read[0], found.read[1], found.read[8], found.read[9]) == (2 * mine, mine, mine, 0)
    assert (found.received[0], found.received[1], found.received[9]) == (0, mine, 2 * mine)
    assert (found.sent[0], found.sent[9]) == (2 * mine, 0)
    assert sum(found.read) == 2 * 8 * mine and sum(found.received) == 2 * 8 * rest * mine
    assert sum(found.products) == 2048**3
    alone = program_of(blocked(2048, 256, 256, 64)).estimate()
    assert sum(alone.read) == sum(found.read) + sum(found.received)


def test_the_least_time_is_that_of_the_limit_that_binds():
    program = program_of(blocked(2048, 256, 256, 64))
    alone, shared = program.estimate(), program.estimate(mcast=True)
    assert (alone.binds, shared.binds) == ("DRAM", "matrix unit")
    # 262 TFLOPS of 64 cores at the lowest fidelity, a quarter of it at the highest
    assert shared.seconds["matrix unit"] == pytest.approx(2 * 2048**3 / (262.144e12 / 4))
    assert alone.seconds["DRAM"] == pytest.approx((64 * 2 * 8 * 64 * 2048 + 2048 * 2048 * 2) / 288e9)
    assert program.estimate("blackhole", mcast=True).seconds["DRAM"] == pytest.approx(shared.dram / 448e9)


def test_operands_that_cores_need_at_other_times_are_not_shared():
    program = program_of(matmul(96, 160, 64), cores=4)  # 15 tiles: cores have 4 of them or 3
    assert program.estimate(mcast=True) == program.estimate()


def test_blocks_are_chosen_by_the_estimate_among_those_that_fit():
    sizes = [(64, 64, 64), (256, 256, 64), (128, 128, 64), (1024, 1024, 64)]
    found = ti.tt.choose([main(blocked(2048, *size)) for size in sizes], mcast=True)
    assert found.place == 1 and found.estimate == found.program.estimate(mcast=True)
    with pytest.raises(ti.DiagnosticError, match="TN17"):
        ti.tt.choose([main(blocked(2048, 1024, 1024, 64))])
    with pytest.raises(ti.DiagnosticError) as caught:
        ti.tt.choose([])
    assert str(caught.value) == (
        "error[TN20]: there is no kernel to choose from.\nhelp: give kernels that compute the same in other blocks."
    )


def test_what_only_a_call_tells_is_refused():
    text = """
@T.prim_func
def main(X: T.Buffer((32, 32)), Y: T.Buffer((32, 32)), rounds: T.int32):
    for bx in T.thread_binding(1, thread="blockIdx.x"):
        with T.sblock("tilelang_root"):
            x = T.sblock_alloc_buffer((32, 32), scope="shared.dyn")
            for k in T.serial(rounds):
                T.copy(T.region(X[0, 0], 1, 32, 32), T.region(x[0, 0], 2, 32, 32))
                T.copy(T.region(x[0, 0], 1, 32, 32), T.region(Y[0, 0], 2, 32, 32))
"""
    with pytest.raises(ti.DiagnosticError) as caught:
        program_of(text).estimate()
    assert (
        str(caught.value)
        == """\
kernel:3:56: error[TN20]: rounds is not known before a call, and what a program moves is counted before.
  def main(X: T.Buffer((32, 32)), Y: T.Buffer((32, 32)), rounds: T.int32):
                                                         ^^^^^^^^^^^^^^^
help: write it as a number in the kernel."""
    )


@pytest.mark.parametrize("order", ["reader first", "writer first", "round robin", "random"])
def test_a_simulation_with_multicast_has_the_bits_of_one_without_and_the_bytes_of_the_estimate(order):
    rng = np.random.default_rng(4)
    a, b = (rng.normal(size=(128, 128)).astype("bfloat16") for _ in "AB")
    program = program_of(blocked(128, 32, 64, 32), 8)
    args = [a, b, np.zeros_like(a)]
    alone, sent = ti.tt.simulate(program, args), ti.tt.simulate(program, args, order=order, mcast=True)
    assert sent.arrays[2].tobytes() == alone.arrays[2].tobytes()
    page, found = 2 * 32 * 32, program.estimate(mcast=True)
    counts = Counter()
    for event in sent.trace:
        counts[event.core, event.action] += event.count * page
    assert [counts[core, "send"] for core in range(8)] == list(found.sent)
    assert [counts[core, "receive"] for core in range(8)] == list(found.received)


def test_a_fault_of_a_program_with_multicast_is_told_where_it_stands():
    program = program_of(blocked(128, 32, 64, 32), 8)
    place = program.files["compute.cpp"].split("\n").index("            cb_pop_front(CB_A, 1);") + 1
    args = [np.zeros((128, 128), "bfloat16")] * 3
    run = ti.tt.simulate(program.edited("compute.cpp", place), args, mcast=True)
    assert (run.fault.kind, run.fault.buffer) == ("deadlock", "CB_A")


@pytest.mark.parametrize(
    ("value", "dtype", "each"),
    [
        ("x[i, j] * z[i, j] + x[i, j]", "float32", 2),
        ("x[i, j] * z[i, j] + x[i, j]", "int32", 2),
        ("T.if_then_else(x[i, j] > z[i, j], T.exp(x[i, j]), z[i, j])", "float32", 3),
    ],
)
def test_arithmetic_of_any_type_comparisons_and_choices_are_counted_for_each_element(value, dtype, each):
    assert sum(program_of(nest(value, dtype), 2).estimate().operations) == each * 64 * 64
