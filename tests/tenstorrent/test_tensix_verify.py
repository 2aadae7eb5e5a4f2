"""`ti.tt.verify`: kernels that are equal are, on any number of cores; planted faults are found with a witness."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tensorir as ti
from tensorir.tenstorrent.verify import arguments

sys.path.insert(0, str(Path(__file__).parent))
from tensix_kernels import COPY_3D, chain, matmul, softmax

SOUND = {
    "matmul, 6 tiles": matmul(),
    "matmul that does not divide": matmul(50, 70, 40, tile=16),
    "elementwise, more than 64 tiles": chain(8 * 11, 8 * 7, tile=8),
    "elementwise, a prime of tiles": chain(8, 8 * 37, tile=8),
    "softmax": softmax(70, 40),
    "three dims": COPY_3D,
}
ORDER = """
@T.prim_func
def main(A: T.Buffer((4, 8)), B: T.Buffer((8,))):
    for bx in T.thread_binding(4, thread="blockIdx.x"):
        with T.sblock("tilelang_root"):
            a = T.sblock_alloc_buffer((8,), scope="shared.dyn")
            T.copy(T.region(A[bx, 0], 1, 1, 8), T.region(a[0], 2, 8))
            T.copy(T.region(a[0], 1, 8), T.region(B[0], 2, 8))
"""
SAFE = """
@T.prim_func
def main(A: T.Buffer((40,)), B: T.Buffer((64,))):
    for bx in T.thread_binding(2, thread="blockIdx.x"):
        with T.sblock("tilelang_root"):
            a = T.sblock_alloc_buffer((32,), scope="shared.dyn")
            T.sblock_attr({"safe_value_map": {A.data: T.float32(7.0)}})
            T.copy(T.region(A[bx * 32], 1, 32), T.region(a[0], 2, 32))
            T.copy(T.region(a[0], 1, 32), T.region(B[bx * 32], 2, 32))
"""


def main(text):
    return ti.tir.parse(text)["main"]


def passed(func, cores=64):
    return ti.tt.persistent(ti.tt.shard(ti.tt.schedule(ti.tt.defaults(func), cores)))


@pytest.mark.parametrize("name", SOUND)
def test_the_passes_change_no_bit(name):
    func = main(SOUND[name])
    verdict = ti.tt.verify(func, passed(func), cores=(1, 5, 64, 110))
    assert verdict, str(verdict)
    assert verdict.cores == (1, 5, 64, 110) and verdict.tiles == passed(func).attrs["tt_num_tiles"]


def edited(func, old, new):
    """The persistent kernel with its text changed in one place."""
    text = str(passed(func))
    assert text.count(old) == 1, text
    return ti.tir.parse(text.replace(old, new))["main"]


def with_ranges(func, change):
    after = passed(func, cores=3)
    found = list(after.attrs["tt_tiles_per_core"])
    change(found)
    return replace(after, attrs={**after.attrs, "tt_tiles_per_core": tuple(found)})


CHAIN = main(chain(64, 96))  # grid (3, 2): tiles 0 to 5
FAULTS = {
    "a tile that no core has": (
        CHAIN, with_ranges(CHAIN, lambda r: r.__setitem__(1, (2, 1))), "left out", "tile 3 is computed by no core.",
    ),
    "a tile that two cores have": (
        CHAIN, with_ranges(CHAIN, lambda r: r.__setitem__(1, (1, 3))), "twice",
        "tile 1 is computed by core 0 and by core 1.",
    ),
    "a tile that there is not": (
        CHAIN, with_ranges(CHAIN, lambda r: r.__setitem__(2, (4, 3))), "outside", "core 2 has tile 6, and there are 6.",
    ),
    "a loop that stops early": (
        CHAIN, edited(CHAIN, "range(tt_count)", "range(tt_count - 1)"), "left out",
        "tile 0, block (0, 0, 0), is computed by no core: nothing changes.",
    ),
    "a loop that goes too far": (
        CHAIN, edited(CHAIN, "range(tt_count)", "range(tt_count + 1)"), "values", "Y[0, 32] is",
    ),
    "ids that are swapped": (
        main(chain(64, 64)), edited(main(chain(64, 64)), "tile_id % grid_x", "tile_id // grid_x"), "another block",
        "tile 1, block (1, 0, 0), is computed as block (0, 0, 0)",
    ),
    "the document's row index without the remainder": (
        main(COPY_3D), edited(main(COPY_3D), " // grid_x % grid_y", " // grid_x"), "left out",
        "tile 15, block (0, 0, 1), is computed by no core",
    ),
    "another value": (
        CHAIN, edited(CHAIN, "T.float32(2.0)", "T.float32(2.5)"), "values", "tile 0, block (0, 0, 0), differs: Y[0, 3]",
    ),
    "an order that matters": (main(ORDER), passed(main(ORDER)), "order", "the order of cores"),
    "padding that is read as another value": (
        main(SAFE), passed(main(SAFE)), "padding", "B[40] is 7.0 and 0.0",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found_with_its_witness(name):
    before, after, fault, witness = FAULTS[name]
    verdict = ti.tt.verify(before, after)
    assert not verdict
    assert verdict.fault == fault and witness in verdict.witness, str(verdict)


def test_the_two_cores_whose_order_matters_write_the_same_elements():
    verdict = ti.tt.verify(main(ORDER), passed(main(ORDER)))
    assert "the order of cores" in verdict.witness and "B[0]" in verdict.witness


def test_what_is_no_persistent_kernel_is_refused():
    with pytest.raises(ti.DiagnosticError, match=r"TN03.*is no loop over the tiles of a core"):
        ti.tt.verify(CHAIN, CHAIN)
    with pytest.raises(ti.DiagnosticError, match="TN04"):
        ti.tt.verify(CHAIN, passed(CHAIN), cores=0)


UNWRITTEN = """
@T.prim_func
def main(A: T.Buffer((4, 32, 32)), B: T.Buffer((4, 32, 32))):
{outside}    for bx in T.thread_binding(4, thread="blockIdx.x"):
        with T.sblock("tilelang_root"):
            a = T.sblock_alloc_buffer((32, 32), scope="shared.dyn")
{inside}            T.copy(T.region(A[bx, 0, 0], 1, 1, 32, 32), T.region(a[0, 0], 2, 32, 32))
            {before}
            {statement}
            T.copy(T.region(c[0, 0], 1, 32, 32), T.region(B[bx, 0, 0], 2, 1, 32, 32))
"""
TILE = 'c = T.{}((32, 32), scope="shared.dyn")\n'
SUM = "for i, j in T.grid(32, 32):\n                c[i, j] = c[i, j] + a[i, j]"
LEFT_OVER = {
    "a sum": (SUM, "for (int32_t i = 0; i < 32; ++i) {"),
    "a product": (
        "T.gemm(T.region(a[0, 0], 1, 32, 32), T.region(a[0, 0], 1, 32, 32), T.region(c[0, 0], 3, 32, 32), "
        "T.bool(False), T.bool(False), 32, 32, 32, 0, T.bool(False), 0, 0, 0)",
        "matmul_tiles(CB_A, CB_A, c, true);",
    ),
    "a tile that is only stored": ("T.evaluate(0)", "pack_tile(c, CB_B);"),
}


def accumulating(statement, before="T.evaluate(0)", outside=False):
    tile = TILE.format("alloc_buffer" if outside else "sblock_alloc_buffer")
    places = {"outside": f"    {tile}" if outside else "", "inside": "" if outside else f"            {tile}"}
    return main(UNWRITTEN.format(statement=statement, before=before, **places))


@pytest.mark.parametrize("outside", [False, True], ids=["in the block", "outside of the grid"])
@pytest.mark.parametrize("what", LEFT_OVER)
def test_a_tile_that_nobody_cleared_is_told_and_does_not_depend_on_the_cores(what, outside):
    statement, line = LEFT_OVER[what]
    func = accumulating(statement, outside=outside)
    verdict = ti.tt.verify(func, ti.tt.pipeline(func).result, cores=(1, 3))
    assert (verdict.fault, bool(verdict)) == ("unwritten", False)
    assert verdict.witness.endswith("element 0 of 'c' is read, but nobody has written it.")
    program = ti.tt.split(func)
    (fault,) = ti.tt.check(program)
    assert (fault.kind, fault.buffer, fault.file, fault.text) == ("read without write", "c", "compute.cpp", line)
    assert fault.message == "nothing has written it before, and the tile before has left there what it had."
    assert ti.tt.simulate(program, arguments(func), cores=2).fault == fault


def test_a_tile_that_is_cleared_in_part_is_told_by_its_element():
    func = accumulating(SUM, "T.fill(T.region(c[0, 0], 2, 32, 31), 0)")
    verdict = ti.tt.verify(func, ti.tt.pipeline(func).result, cores=2)
    assert str(verdict) == "different: block (0, 0, 0), line 11: element 31 of 'c' is read, but nobody has written it."


CLEARED = {
    "by a fill": "T.fill(T.region(c[0, 0], 2, 32, 32), 0)\n            " + SUM,
    "in the first round": """for k in range(2):
                for i, j in T.grid(32, 32):
                    if k == 0:
                        c[i, j] = a[i, j]
                    else:
                        c[i, j] = c[i, j] + a[i, j]""",
    "by what is chosen": """for k in range(2):
                for i, j in T.grid(32, 32):
                    c[i, j] = T.if_then_else(k == 0, a[i, j], c[i, j] + a[i, j])""",
}


@pytest.mark.parametrize("how", CLEARED)
def test_a_tile_that_is_cleared_first_is_no_fault(how):
    func = accumulating(CLEARED[how])
    assert ti.tt.verify(func, ti.tt.pipeline(func).result, cores=2)
    assert ti.tt.check(ti.tt.split(func)) == ()


# Large grids, of which tiles of each kind are run

WIDE_ORDER = ORDER.replace("(4, 8)", "(70, 8)").replace("thread_binding(4", "thread_binding(70")
WIDE_SAFE = (
    SAFE.replace("(40,)", "(2150,)").replace("(64,)", "(2176,)").replace("thread_binding(2", "thread_binding(68")
)
ONE_OF_MANY = """
@T.prim_func
def main(A: T.Buffer((70, 8, 8)), B: T.Buffer((70, 8, 8))):
    for bx in T.thread_binding(70, thread="blockIdx.x"):
        with T.sblock("tilelang_root"):
            a = T.sblock_alloc_buffer((8, 8), scope="shared.dyn")
            if bx != 41:
                T.copy(T.region(A[bx, 0, 0], 1, 1, 8, 8), T.region(a[0, 0], 2, 8, 8))
            T.copy(T.region(a[0, 0], 1, 8, 8), T.region(B[bx, 0, 0], 2, 1, 8, 8))
"""


def test_of_a_large_product_a_few_tiles_are_run_whatever_its_size():
    for size, tiles in ((288, 81), (1024, 1024)):
        func = main(matmul(size, size, size))
        verdict = ti.tt.verify(func, passed(func), cores=(1, 64))
        assert (verdict.tiles, verdict.tried, verdict.runs) == (tiles, 2, 3) and verdict
    assert str(verdict) == (
        "equal bit for bit: 1024 tiles on 1, 64 cores: each is its block by the text, no two meet, and 2 of all kinds "
        "were run"
    )


def test_tiles_that_lie_across_an_edge_are_of_a_kind_of_their_own():
    func = main(chain(8 * 9 - 3, 8 * 8 - 5, tile=8))  # the last row of blocks, the last column, and the corner
    verdict = ti.tt.verify(func, passed(func))
    assert verdict and verdict.tiles == 72 and verdict.tried == 7  # first and last of four kinds, of which one is alone


@pytest.mark.parametrize("made", [passed, lambda func: ti.tt.pipeline(func, cores=2).result], ids=["loop", "pipeline"])
@pytest.mark.parametrize("sizes", [(64, 96, 64), (288, 288, 32)], ids=["6 tiles", "81 tiles"])
def test_an_accumulator_that_the_passes_no_longer_fill_is_told(made, sizes):
    """The interpreter's memory holds zeros where nobody wrote, so that the values alone are right."""
    func = main(matmul(*sizes))
    lines = str(made(func)).splitlines()
    verdict = ti.tt.verify(func, main("\n".join(line for line in lines if "T.fill" not in line)), cores=2)
    assert (verdict.fault, bool(verdict)) == ("unwritten", False)
    assert verdict.witness.startswith("tile 0, block (0, 0, 0), line ")
    assert verdict.witness.endswith("element 0 of 'c' is read, but nobody has written it.")


def test_a_kernel_whose_tiles_depend_on_data_is_run_whole():
    func = main(ONE_OF_MANY.replace("bx != 41", "A[bx, 0, 0] < T.float32(9.0)"))
    verdict = ti.tt.verify(func, passed(func))
    assert verdict and verdict.tried == 0 and verdict.runs > 70


WIDE = main(chain(64 * 12, 96))
LARGE = {
    "one block that reads what nobody has written": (
        main(ONE_OF_MANY), passed(main(ONE_OF_MANY)), "unwritten", "block (41, 0, 0), line 9: element 0 of 'a' is read",
    ),
    "ids that are swapped": (
        WIDE, edited(WIDE, "tile_id % grid_x", "tile_id // grid_x"), "values", "tile 1, block (1, 0, 0), differs",
    ),
    "one tile that is another": (
        WIDE, edited(WIDE, "tile_id % grid_x", "T.max(tile_id % grid_x, tile_id // 51)"), "values",
        "tile 51, block (0, 17, 0), differs",
    ),
    "another value": (
        WIDE, edited(WIDE, "T.float32(2.0)", "T.float32(2.5)"), "values", "tile 0, block (0, 0, 0), differs",
    ),
    "an order that matters": (main(WIDE_ORDER), passed(main(WIDE_ORDER)), "order", "the order of cores"),
    "padding that is read as another value": (
        main(WIDE_SAFE), passed(main(WIDE_SAFE)), "padding", "B[2150] is 7.0 and 0.0",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LARGE)
def test_a_fault_of_one_tile_among_many_is_found(name):
    before, after, fault, witness = LARGE[name]
    verdict = ti.tt.verify(before, after)
    assert not verdict and verdict.fault == fault and witness in verdict.witness, str(verdict)


GATHER = """
@T.prim_func
def main(A: T.Buffer((4,)), K: T.Buffer((16,), "int32"), B: T.Buffer((16,))):
    for bx in T.thread_binding(8, thread="blockIdx.x"):
        for i in range(2):
            B[bx * 2 + i] = A[K[bx * 2 + i]]
"""


def test_a_kernel_whose_integers_are_indices_asks_for_arrays():
    func = main(GATHER)
    with pytest.raises(ti.DiagnosticError) as caught:
        ti.tt.verify(func, passed(func), cores=3)
    assert [(d.code, d.help) for d in caught.value.diagnostics] == [
        ("TR01", "the arguments are generated; give arrays: ti.tt.verify(before, after, A, K, B).")
    ]
    given = np.ones(4, "float32"), np.arange(16, dtype="int32") % 4, np.zeros(16, "float32")
    assert ti.tt.verify(func, passed(func), *given, cores=3)
    with pytest.raises(ti.DiagnosticError) as caught:
        ti.tt.verify(func, passed(func), given[0], given[1] + 9, given[2], cores=3)
    assert [(d.code, d.help) for d in caught.value.diagnostics] == [("TR01", "")]
