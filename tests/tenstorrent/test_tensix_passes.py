"""Defaults, schedules, shards and persistent loops: what each adds, and what stays."""

import sys
from pathlib import Path

import numpy as np
import pytest

import tensorir as ti
from tensorir.tir import nodes as n
from tensorir.tir.walk import walk

sys.path.insert(0, str(Path(__file__).parent))
from tensix_kernels import COPY_3D, chain, matmul, softmax

DOCUMENT = """
PrimFunc(
  params=[Buffer(var=A, shape=[64, 64], dtype=float32), Buffer(var=B, shape=[64, 64], dtype=float32)],
  body=AttrStmt(attr_key="thread_extent", node=IterVar(var=bx, dom=Range(0, 2), thread_tag="blockIdx.x"), value=2,
    body=AttrStmt(attr_key="thread_extent", node=IterVar(var=by, dom=Range(0, 2), thread_tag="blockIdx.y"), value=2,
      body=For(loop_var=i, min=0, extent=32, kind=kSerial, body=
        BufferStore(buffer=B, value=BufferLoad(buffer=A, indices=[by*32+i, bx*32]), indices=[by*32+i, bx*32])))),
  attrs={"mine": 1, "tt_tile_width": 16},
)
"""
KERNELS = {
    "matmul": (matmul(), (3, 2, 1)),
    "elementwise": (chain(96, 160), (5, 3, 1)),
    "softmax": (softmax(96, 40), (3, 1, 1)),
    "three dims": (COPY_3D, (5, 3, 3)),
    "document": (DOCUMENT, (2, 2, 1)),
}


def main(text):
    return ti.tir.parse(text, "kernel")["main"]


def prepared(func, cores=64):
    return ti.tt.shard(ti.tt.schedule(ti.tt.defaults(func), cores))


def said(run):
    with pytest.raises(ti.DiagnosticError) as caught:
        run()
    return str(caught.value)


@pytest.mark.parametrize("name", KERNELS)
def test_attributes_survive_and_bodies_of_annotations_are_unchanged(name):
    func = main(KERNELS[name][0])
    passes = [ti.tt.defaults, ti.tt.schedule, ti.tt.shard, ti.tt.persistent]
    for k, step in enumerate(passes):
        made = step(func)
        assert {key: made.attrs[key] for key in func.attrs} == dict(func.attrs)
        assert len(made.attrs) > len(func.attrs)
        if k < 3:
            assert made.body is func.body and made.params == func.params
        assert ti.tir.parse(str(made))["main"] == made
        func = made


@pytest.mark.parametrize("name", KERNELS)
def test_a_persistent_kernel_has_four_parameters_more_and_no_thread_extent(name):
    before = prepared(main(KERNELS[name][0]))
    after = ti.tt.persistent(before)
    assert after.params[: len(before.params)] == before.params
    added = after.params[len(before.params) :]
    assert [(p.name, str(p.dtype)) for p in added] == [
        ("tt_start_id", "int32"), ("tt_count", "int32"), ("grid_x", "int32"), ("grid_y", "int32")
    ]  # fmt: skip
    assert after.attrs["tt_persistent_loop"] == 1
    assert after.attrs["tt_runtime_args"] == ("tt_start_id", "tt_count", "grid_x", "grid_y")
    for node in walk(after.body):
        assert not (isinstance(node, n.For) and node.kind is n.ForKind.THREAD_BINDING)
        assert not (isinstance(node, n.AttrStmt) and node.attr_key == "thread_extent")


@pytest.mark.parametrize("name", KERNELS)
def test_the_grid_is_that_of_the_text(name):
    text, (x, y, z) = KERNELS[name]
    attrs = prepared(main(text)).attrs
    assert (attrs["tt_grid_x"], attrs["tt_grid_y"], attrs["tt_grid_z"]) == (x, y, z)
    assert attrs["tt_num_tiles"] == x * y * z


@pytest.mark.parametrize("grid", [(1, 1, 1), (5, 3, 3), (7, 11, 2), (2, 1, 13)])
def test_ids_go_to_the_indices_of_blocks_and_back(grid):
    x, y, z = grid
    func = main(f"""
@T.prim_func
def main(A: T.Buffer(({x * y * z}, 3), "int32")):
    for bz in T.thread_binding({z}, thread="blockIdx.z"):
        for bx in T.thread_binding({x}, thread="blockIdx.x"):
            for by in T.thread_binding({y}, thread="blockIdx.y"):
                A[(bz * {y} + by) * {x} + bx, 0] = bx
                A[(bz * {y} + by) * {x} + bx, 1] = by
                A[(bz * {y} + by) * {x} + bx, 2] = bz
""")
    after = ti.tt.persistent(prepared(func))
    found = ti.tir.interpret(after, np.full((x * y * z, 3), -1, np.int32), 0, x * y * z, x, y)[0]
    # C order of (z, y, x): x runs fastest
    assert (found[:, ::-1] == np.stack(np.unravel_index(np.arange(x * y * z), (z, y, x)), 1)).all()


@pytest.mark.parametrize("tiles", [0, 1, 5, 63, 64, 65, 110, 997])
@pytest.mark.parametrize("cores", [1, 5, 64, 110])
def test_every_tile_is_in_the_range_of_one_core(tiles, cores):
    found = ti.tt.partition(tiles, cores)
    assert len(found) == cores
    assert [t for first, count in found for t in range(first, first + count)] == list(range(tiles))
    counts = [count for _, count in found]
    assert max(counts) - min(counts) <= 1 and counts == sorted(counts, reverse=True)


def test_attributes_of_the_document():
    attrs = ti.tt.shard(ti.tt.schedule(ti.tt.defaults(main(matmul(256, 256, 256, dtype="float16"))))).attrs
    assert attrs["tt_tiles_per_core"] == tuple((k, 1) for k in range(64))
    for name in "ABC":
        found = {k.removeprefix(f"tt_buffer_{name}_"): v for k, v in attrs.items() if k.startswith(f"tt_buffer_{name}")}
        assert found == {
            "layout": "dram_interleaved", "tile_shape": (32, 32), "num_tiles_height": 8, "num_tiles_width": 8,
            "needs_padding": 0,
        }  # fmt: skip


def test_what_a_function_says_itself_is_kept():
    attrs = ti.tt.shard(ti.tt.defaults(main(DOCUMENT))).attrs
    assert attrs["tt_tile_width"] == 16 and attrs["tt_tile_height"] == 32 and attrs["mine"] == 1
    assert attrs["tt_buffer_A_num_tiles_width"] == 4 and attrs["tt_buffer_A_num_tiles_height"] == 2


def test_a_row_is_padded_to_a_tile():
    func = main("@T.prim_func\ndef main(A: T.Buffer((64,)), B: T.Buffer((2, 3, 33, 64))):\n    A[0] = B[0, 0, 0, 0]")
    attrs = ti.tt.shard(func).attrs
    assert [attrs[f"tt_buffer_A_{k}"] for k in ("num_tiles_height", "num_tiles_width", "needs_padding")] == [1, 2, 1]
    assert [attrs[f"tt_buffer_B_{k}"] for k in ("num_tiles_height", "num_tiles_width", "needs_padding")] == [2, 2, 1]


def test_a_module_is_taken_function_by_function():
    module = ti.tt.persistent(ti.tt.schedule(ti.tir.parse(matmul())))
    assert module["main"] == ti.tt.persistent(ti.tt.schedule(main(matmul())))


WRONG = {
    "no grid": (lambda: ti.tt.schedule(main("@T.prim_func\ndef main(A: T.Buffer((4,))):\n    A[0] = 1.0")), "TN01"),
    "no function": (lambda: ti.tt.defaults("main"), "TN01"),
    "threads": (
        lambda: ti.tt.schedule(main(matmul().replace("blockIdx.y", "threadIdx.x"))),
        "kernel:5:9: error[TN01]: threadIdx.x is bound here, and a core runs a tile as a whole.",
    ),
    "twice": (
        lambda: ti.tt.schedule(main(matmul().replace("blockIdx.y", "blockIdx.x"))),
        "kernel:5:9: error[TN01]: blockIdx.x is bound twice, and a kernel has one grid.",
    ),
    "no cores": (
        lambda: ti.tt.schedule(main(matmul()), cores=0),
        "error[TN04]: tiles are given to 0 cores, and there is at least one.",
    ),
    "a policy": (
        lambda: ti.tt.schedule(
            main(matmul().replace("    for bx", '    T.func_attr({"tt_schedule_policy": "contigous"})\n    for bx'))
        ),
        "TN05",
    ),
    "unscheduled": (lambda: ti.tt.persistent(main(matmul())), "help: run ti.tt.schedule first."),
    "persistent": (lambda: ti.tt.persistent(ti.tt.persistent(ti.tt.schedule(main(matmul())))), "TN06"),
    "taken": (lambda: ti.tt.persistent(ti.tt.schedule(main(matmul().replace("A", "grid_x")))), "TN06"),
}


@pytest.mark.parametrize("name", WRONG)
def test_bad_input_is_named(name):
    run, message = WRONG[name]
    assert message in said(run)
