"""Barriers of reads and writes: what is handed on before its barrier is told, in the text and where it runs."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tensorir as ti
from tensorir.tenstorrent.kernels.nodes import Barrier, Branch, Loop, Sync, Work
from tensorir.tir import nodes as n
from tensorir.tir.build import const
from tensorir.tir.dtypes import INT32

sys.path.insert(0, str(Path(__file__).parent))
from tensix_kernels import chain


def program(cores=2):
    return ti.tt.split(ti.tt.pipeline(ti.tir.parse(chain(64, 96), "kernel")["main"], cores=cores).result)


def arrays():
    x, z = np.random.default_rng(0).normal(size=(2, 64, 96)).astype(np.float32)
    return [x, z, np.zeros_like(x)]


def with_kernel(made, role, body):
    return replace(made, kernels=tuple(replace(k, body=body) if k.role == role else k for k in made.kernels))


def tile_loop(made, role, change):
    """The program with another body of the loop over the tiles of a core in one kernel."""
    (loop,) = made[role].body
    assert isinstance(loop, Loop)
    return with_kernel(made, role, (replace(loop, body=tuple(change(list(loop.body)))),))


def without(kind):
    return lambda body: [op for op in body if not isinstance(op, kind)]


def behind(body, buffer, action):
    """The body with its first barrier moved behind a synchronisation."""
    barrier = next(op for op in body if isinstance(op, Barrier))
    place = next(k for k, op in enumerate(body) if isinstance(op, Sync) and (op.buffer, op.action) == (buffer, action))
    rest = [op for op in body if op is not barrier]
    return [*rest[:place], barrier, *rest[place:]]


TOLD = {
    "a push with no barrier": (
        "reader", without(Barrier),
        "reader.cpp:21: push without barrier of CB_X: it pushes 1 tile whose read may not be done: no "
        "noc_async_read_barrier() stands between.\n    cb_push_back(CB_X, 1);",
    ),
    "a push before the barrier": (
        "reader", lambda body: behind(body, "CB_X", "push"),
        "reader.cpp:21: push without barrier of CB_X: it pushes 1 tile whose read may not be done: no "
        "noc_async_read_barrier() stands between.\n    cb_push_back(CB_X, 1);",
    ),
    "a pop before the barrier": (
        "writer", lambda body: behind(body, "CB_Y", "pop"),
        "writer.cpp:20: pop without barrier of CB_Y: it pops 1 tile whose write may not be done: no "
        "noc_async_write_barrier() stands between.\n    cb_pop_front(CB_Y, 1);",
    ),
    "a barrier of the other way": (
        "writer", lambda body: [Barrier("read") if isinstance(op, Barrier) else op for op in body],
        "writer.cpp:21: pop without barrier of CB_Y: it pops 1 tile whose write may not be done: no "
        "noc_async_write_barrier() stands between.\n    cb_pop_front(CB_Y, 1);",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TOLD)
def test_what_is_handed_on_before_its_barrier_is_told_with_its_line(name):
    role, change, told = TOLD[name]
    made = tile_loop(program(), role, change)
    assert str(ti.tt.check(made)[0]) == told
    assert str(ti.tt.simulate(made, arrays()).fault).replace(" on core 0", "").replace(" on core 1", "") == told
    with pytest.raises(ti.DiagnosticError) as caught:
        ti.tt.emit(made)
    assert str(caught.value).startswith(f"kernel:3:1: error[TN19]: the program stops: {told.splitlines()[0]}")


def test_what_is_on_its_way_at_the_end_of_a_kernel_is_told():
    made = program()
    reads = [op for op in made["reader"].body[0].body if isinstance(op, Work)]
    late = with_kernel(made, "reader", (*made["reader"].body, Sync("reserve", "CB_X", 1), reads[0]))
    told = (
        "reader.cpp:29: end without barrier of CB_X: the kernel ends, and this read may not be done: no "
        "noc_async_read_barrier() stands behind it.\n    read_region(X, {by * 32, bx * 32}, {32, 32}, CB_X);"
    )
    # its indices are those of no tile: nothing runs it, and the text tells
    assert [str(fault) for fault in ti.tt.check(late)] == [told]


def test_a_barrier_that_only_some_cores_come_to_is_found_by_counting():
    """The condition is of the core, so the text does not tell; a core that has its first tile at 3 does not wait."""
    made = program()
    start = made.func.params[-4]
    some = tile_loop(
        made, "writer",
        lambda body: [Branch(n.NE(start, const(3, INT32)), (op,)) if isinstance(op, Barrier) else op for op in body],
    )  # fmt: skip
    (fault,) = ti.tt.check(some)
    assert (fault.kind, fault.file, fault.core, fault.text) == (
        "pop without barrier", "writer.cpp", 1, "cb_pop_front(CB_Y, 1);",
    )  # fmt: skip


def test_one_barrier_does_for_all_reads_before_it():
    def together(body):
        first, second = [op for op in body if isinstance(op, Barrier)]
        moved = [op for op in body if isinstance(op, Work)]
        syncs = [op for op in body if isinstance(op, Sync)]
        names = [op for op in body if op not in [first, second, *moved, *syncs]]
        return [*names, *[s for s in syncs if s.action == "reserve"], *moved, first,
                *[s for s in syncs if s.action == "push"]]  # fmt: skip

    made = tile_loop(program(), "reader", together)
    assert ti.tt.check(made) == ()
    x, z, y = arrays()
    found = ti.tt.simulate(made, [x, z, y]).arrays[2]
    np.testing.assert_array_equal(found, np.maximum(x * np.float32(2) + z, 0))
    assert ti.tt.emit(made).files["reader.cpp"].count("noc_async_read_barrier();") == 1


def test_a_barrier_is_left_out_by_its_line():
    made = program()
    line = made.files["reader.cpp"].splitlines().index("        noc_async_read_barrier();") + 1
    (fault,) = ti.tt.check(made.edited("reader.cpp", line))
    assert (fault.kind, fault.buffer, fault.line) == ("push without barrier", "CB_X", line)
