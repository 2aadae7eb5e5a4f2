"""Defaults, schedules, shards and persistent loops: what each adds, and what stays."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tensorir as ti
from tensorir.tir import nodes as n
from tensorir.tir.trees import walk

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
    "unscheduled": (lambda: ti.tt.persistent(main(matmul())), "help: run ti.tt.schedule first."),
    "persistent": (lambda: ti.tt.persistent(ti.tt.persistent(ti.tt.schedule(main(matmul())))), "TN06"),
    "taken": (lambda: ti.tt.persistent(ti.tt.schedule(main(matmul().replace("A", "grid_x")))), "TN06"),
}


@pytest.mark.parametrize("name", WRONG)
def test_bad_input_is_named(name):
    run, message = WRONG[name]
    assert message in said(run)


# What a function states of its schedule itself

DISAGREEING = {
    "a policy": (
        {"tt_schedule_policy": "interleaved"},
        "TN05]: tt_schedule_policy of 'main' is 'interleaved', and programs are made for contiguous only.",
        "known here: 'contiguous'.",
    ),
    "an order": (
        {"tt_schedule_order": "columns"},
        "TN05]: tt_schedule_order of 'main' is 'columns', and programs are made for row_major or column_major only.",
        "did you mean 'column_major'?",
    ),
    "a layout": (
        {"tt_layout_type": "l1_sharded"},
        "TN05]: tt_layout_type of 'main' is 'l1_sharded', and programs are made for dram_interleaved, height_sharded, "
        "width_sharded or block_sharded only.",
        "did you mean 'block_sharded'?",
    ),
    "a layout of one buffer": (
        {"tt_buffer_X_layout": 1},
        "TN05]: tt_buffer_X_layout of 'main' is 1, and programs are made for dram_interleaved, height_sharded, "
        "width_sharded or block_sharded only.",
        "write dram_interleaved.",
    ),
    "a grid": (
        {"tt_grid_x": 1},
        "TN14]: tt_grid_x of 'main' is 1, and the grid has 2 blocks along x.",
        "leave the attribute out: ti.tt.schedule writes it.",
    ),
    "a number of tiles": (
        {"tt_num_tiles": 3},
        "TN14]: tt_num_tiles of 'main' is 3, and the grid has 4 blocks.",
        "leave the attribute out: ti.tt.schedule writes it.",
    ),
    "a number of cores": (
        {"tt_num_cores": 3, "tt_tiles_per_core": ((0, 2), (2, 2))},
        "TN14]: tt_num_cores of 'main' is 3, and tt_tiles_per_core has 2 shares.",
        "leave the attribute out: ti.tt.schedule(f, cores=8) writes it.",
    ),
    "tiles of a buffer": (
        {"tt_buffer_X_num_tiles_width": 7},
        "TN14]: tt_buffer_X_num_tiles_width of 'main' is 7, and 64 × 64 elements in tiles of 32 × 32 make it 2.",
        "leave the attribute out: ti.tt.shard writes it.",
    ),
    "a tile that is left out": (
        {"tt_num_cores": 2, "tt_tiles_per_core": ((0, 2), (3, 1))},
        "TN15]: tt_tiles_per_core of 'main' is no schedule: tile 2 is computed by no core.",
        "give every tile to one core: ti.tt.schedule(f, cores=8) does.",
    ),
    "a tile of two cores": (
        {"tt_num_cores": 2, "tt_tiles_per_core": ((0, 2), (1, 3))},
        "TN15]: tt_tiles_per_core of 'main' is no schedule: tile 1 is computed by core 0 and by core 1.",
        "give every tile to one core: ti.tt.schedule(f, cores=8) does.",
    ),
    "less than no tile": (
        {"tt_num_cores": 2, "tt_tiles_per_core": ((0, 4), (3, -1))},
        "TN15]: tt_tiles_per_core of 'main' is no schedule: core 1 has -1 tiles.",
        "give every tile to one core: ti.tt.schedule(f, cores=8) does.",
    ),
}


def stating(func, attrs):
    return replace(func, attrs={**func.attrs, **attrs})


@pytest.mark.parametrize("what", DISAGREEING)
def test_what_a_kernel_states_of_its_schedule_and_its_grid_does_not_say_is_refused_by_all_that_reads_it(what):
    attrs, message, help = DISAGREEING[what]
    func = main(chain(64, 64))
    known = ti.tt.pipeline(func, cores=2).result
    sound = ti.tt.split(known)
    assert ti.tt.check(sound) == ()
    first, *shown, last = said(lambda: ti.tt.pipeline(stating(func, attrs))).split("\n")
    assert (first, last) == (f"kernel:3:1: error[{message}", f"help: {help}")
    assert shown[1].strip(" ^") == ""
    code = message[:4]
    assert f"error[{code}]" in said(lambda: ti.tt.split(stating(known, attrs)))
    if what != "tiles of a buffer":  # which are shard's alone
        changed = replace(sound, func=stating(known, attrs))
        assert f"error[{code}]" in said(lambda: ti.tt.check(changed))
        assert f"error[{code}]" in said(lambda: changed.files)
        assert f"error[{code}]" in said(lambda: ti.tt.simulate(changed, [np.zeros((64, 64), np.float32)] * 3))
        if code == "TN15":
            assert not ti.tt.verify(func, stating(known, attrs), cores=2)
        elif what != "a number of cores":
            assert f"error[{code}]" in said(lambda: ti.tt.verify(func, stating(known, attrs), cores=2))


def test_a_function_is_scheduled_anew_where_a_number_of_cores_is_given_and_else_keeps_its_schedule():
    func = ti.tt.schedule(stating(main(chain(64, 96)), {"tt_num_cores": 4}))
    assert func.attrs["tt_tiles_per_core"] == ((0, 2), (2, 2), (4, 1), (5, 1))
    uneven = stating(func, {"tt_num_cores": 2, "tt_tiles_per_core": ((1, 5), (0, 1))})
    assert ti.tt.schedule(uneven) == uneven
    assert ti.tt.split(uneven).func.attrs["tt_tiles_per_core"] == ((1, 5), (0, 1))
    for scheduled in (uneven, ti.tt.pipeline(uneven).result):
        anew = ti.tt.schedule(scheduled, cores=3)
        assert (anew.attrs["tt_num_cores"], anew.attrs["tt_tiles_per_core"]) == (3, ((0, 2), (2, 2), (4, 2)))
        assert anew.body is scheduled.body
    assert ti.tt.pipeline(uneven, cores=3).result.attrs["tt_tiles_per_core"] == ((0, 2), (2, 2), (4, 2))


def test_tiles_in_column_order_count_along_y_first():
    func = stating(main(COPY_3D), {"tt_schedule_order": "column_major"})
    after = ti.tt.pipeline(func, cores=7).result
    assert ti.tt.verify(main(COPY_3D), after, cores=(1, 7))
    a = np.arange(3 * 24 * 40, dtype=np.float32).reshape(3, 24, 40)
    copied = ti.tir.interpret(after, a, np.full_like(a, -1), 15 + 4, 1, 5, 3)[1]
    x, y, z = np.argwhere(np.arange(45).reshape(3, 5, 3) == 19)[0][[1, 2, 0]]  # C order of (z, x, y): y runs fastest
    want = np.full_like(a, -1)
    tile = np.s_[z, y * 8 : y * 8 + 8, x * 8 : x * 8 + 8]
    want[tile] = a[tile]
    np.testing.assert_array_equal(copied, want)
    np.testing.assert_array_equal(ti.tt.simulate(ti.tt.split(func), [a, np.zeros_like(a)], cores=4).arrays[1], a)
