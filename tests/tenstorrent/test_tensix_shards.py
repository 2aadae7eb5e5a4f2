"""Buffers in shards: their tiles lie in the memory of the cores that use them, and do not move."""

import sys
from pathlib import Path

import pytest

import tensorir as ti

sys.path.insert(0, str(Path(__file__).parent))
from metal_kernels import blocked
from tensix_kernels import chain, matmul

COLUMNS = chain(64, 64).replace(
    ":\n    for bx", ':\n    T.func_attr({"tt_schedule_order": "column_major"})\n    for bx', 1
)


def program(text, cores, layouts):
    return ti.tt.split(ti.tt.pipeline(ti.tir.parse(text, "kernel")["main"], cores=cores, layouts=layouts).result)


def test_tiles_of_shards_are_handed_on_and_not_moved():
    made = program(chain(64, 96), 2, dict.fromkeys("XY", "height_sharded"))
    files = ti.tt.emit(made).files
    reader = files["reader.cpp"].split("kernel_main() {")[1]
    assert "cb_reserve_back(CB_X, 1);\n        cb_push_back(CB_X, 1);" in reader
    assert reader.count("noc_async_read_tile(") == 1 and reader.count("noc_async_read_barrier();") == 1
    writer = files["writer.cpp"].split("kernel_main() {")[1]
    assert [line.strip() for line in writer.splitlines() if "(" in line] == [
        "const int32_t tt_count = get_arg_val<int32_t>(0);", "for (int32_t i = 0; i < tt_count; ++i) {",
        "cb_wait_front(CB_Y, 1);", "cb_pop_front(CB_Y, 1);",
    ]  # fmt: skip
    host = files["host.cpp"]
    assert "const ShardSpecBuffer X_shards(cores, {32, 96}, ShardOrientation::ROW_MAJOR, {32, 32}, {2, 3});" in host
    assert ".sharding_args = BufferShardingArgs(X_shards, TensorMemoryLayout::HEIGHT_SHARDED)};" in host
    assert host.count("_l1->get_backing_buffer())") == 2 and "Z_dram" in host


def test_shards_cost_no_traffic_and_their_bytes_are_told():
    """Six tiles of 4096 bytes on two cores, three each: of X and of Y in shards, of Z from DRAM."""
    found = program(chain(64, 96), 2, dict.fromkeys("XY", "height_sharded")).estimate()
    assert (found.read, found.written, found.kept) == ((12288, 12288), (0, 0), (24576, 24576))
    assert str(found).startswith("2 cores of a wormhole: 24,576 bytes from and to DRAM, at most 12,288 into a core, 0 ")
    assert "49,152 bytes in shards" in str(found)
    assert program(chain(64, 96), 2, None).estimate().kept == (0, 0)


def test_the_plan_has_the_shards_and_what_a_core_holds_of_them():
    """A core computes 32 × 64 elements of C: two tiles, in its shard."""
    plan = ti.tt.emit(program(blocked(128, 32, 64, 128), 8, {"C": "block_sharded"})).plan
    assert plan["buffers"]["C"] == {
        "format": "Float16_b", "shape": [1, 128, 128], "padded": [1, 128, 128], "tiles": 16, "page_bytes": 2048,
        "moved": "from the cores", "layout": "block_sharded", "shards": [4, 2], "shard_tiles": [1, 2],
    }  # fmt: skip
    assert {q["name"]: q["tiles"] for q in plan["circular_buffers"]}["CB_C"] == 2


def test_shards_of_more_bytes_than_a_core_has_are_refused_with_both_numbers():
    """A shard of 4096 × 2048 elements of float32 on 64 cores has 524,288 bytes, and there are three."""
    made = program(chain(4096, 2048), 64, dict.fromkeys("XZY", "height_sharded"))
    with pytest.raises(ti.DiagnosticError) as caught:
        ti.tt.emit(made)
    first, *_, last = str(caught.value).split("\n")
    assert first == (
        "kernel:3:1: error[TN17]: the circular buffers and shards of 'main' have 1,572,864 bytes, and a core of a "
        "wormhole 1,499,136."
    )
    assert last == "help: make tiles smaller, or capacities: CB_X has 524,288 bytes."


OTHERS = {
    "tiles that make no shards": (
        chain(64, 96), 2, {"X": "width_sharded"},
        """\
kernel:10:24: error[TN21]: 'X' is width_sharded, and 2 × 3 tiles do not make 1 × 2 shards, one for each of 2 cores.
                  T.copy(T.region(X[by * 32, bx * 32], 1, 32, 32), T.region(x[0, 0], 2, 32, 32))
                         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: write height_sharded or block_sharded; or leave it in DRAM: dram_interleaved.""",
    ),
    "tiles in another order": (
        COLUMNS, 2, {"X": "height_sharded"},
        """\
kernel:11:24: error[TN21]: 'X' is height_sharded, and core 0 moves tile (1, 0) where its shard has tile (0, 1).
                  T.copy(T.region(X[by * 32, bx * 32], 1, 32, 32), T.region(x[0, 0], 2, 32, 32))
                         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: write width_sharded; or leave it in DRAM: dram_interleaved.""",
    ),
    "tiles that are read again": (
        matmul(96, 64, 128), 3, {"A": "height_sharded"},
        """\
kernel:14:28: error[TN21]: 'A' is height_sharded, and core 0 moves 8 tiles, and its shard has 4: 1 × 4.
                      T.copy(T.region(A[by * 32, ko * 32], 1, 32, 32), T.region(a[0, 0], 2, 32, 32))
                             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: choose cores and blocks so that each core moves the tiles of its shard once, in rows; or leave it in DRAM: \
dram_interleaved.""",
    ),
    "tiles beside others": (
        chain(64, 96).replace("z[", "x["), 2, {"X": "height_sharded"},
        """\
kernel:10:24: error[TN21]: 'X' is height_sharded, and its tiles are not all that CB_X holds.
                  T.copy(T.region(X[by * 32, bx * 32], 1, 32, 32), T.region(x[0, 0], 2, 32, 32))
                         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: move it at one place of the kernel, in tiles of its own; or leave it in DRAM: dram_interleaved.""",
    ),
    "tiles that are turned": (
        matmul(96, 32, 128).replace("T.copy(T.region(A", "T.transpose(T.region(A"), 3, {"A": "height_sharded"},
        """\
kernel:14:33: error[TN21]: 'A' is height_sharded, and T.transpose does not move its tiles as they lie.
                      T.transpose(T.region(A[by * 32, ko * 32], 1, 32, 32), T.region(a[0, 0], 2, 32, 32))
                                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: copy them: T.copy; or leave it in DRAM: dram_interleaved.""",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_shards_that_are_not_what_each_core_moves_are_refused_with_a_tile(name):
    text, cores, layouts, want = OTHERS[name]
    made = program(text, cores, layouts)
    for call in (made.estimate, lambda: ti.tt.emit(made)):
        with pytest.raises(ti.DiagnosticError) as caught:
            call()
        assert str(caught.value) == want


def test_layouts_are_those_that_there_are_of_buffers_that_there_are():
    kernel = ti.tir.parse(chain(64, 96))["main"]
    with pytest.raises(ti.DiagnosticError, match=r"TN05\]: 'W' is given a layout, and 'main' has no such buffer."):
        ti.tt.shard(kernel, {"W": "height_sharded"})
    with pytest.raises(ti.DiagnosticError, match=r"TN05\]: tt_buffer_X_layout of 'main' is 'hight_sharded', and .*\n"):
        ti.tt.shard(kernel, {"X": "hight_sharded"})
    laid = ti.tt.shard(kernel, {"X": "height_sharded"})
    assert laid.attrs["tt_buffer_X_layout"] == "height_sharded" and ti.tt.shard(laid) == laid
    assert ti.tt.shard(laid, {"X": "width_sharded"}).attrs["tt_buffer_X_layout"] == "width_sharded"
