"""`ti.tt.split` and `ti.tt.simulate`: programs of a core give the numbers of NumPy in every order; faults are found."""

import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tensorir as ti
from tensorir.tenstorrent.kernels.nodes import Barrier, Branch, Sync, Work, rewritten
from tensorir.tir import nodes as n
from tensorir.tir.build import const
from tensorir.tir.dtypes import INT32

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "tilelang"))
from tensix_kernels import chain, matmul, softmax
from tile_kernels import KERNELS, text

ORDERS = ("reader first", "writer first", "round robin", "random")
REFUSED = {
    "atomics": "error[TN07]: 'H' is used inside of a computation",
    "dynamic": "error[TN02]: the grid has (m + 8 - 1) // 8 blocks along x",
    "dynamic_transpose": "error[TN02]",
    "thread_loops": "error[TN07]: tiles are moved in parallel here.",
    "wide_atomics": "error[TN07]: 'B' is used inside of a computation",
}
SPLIT = sorted(set(KERNELS) - set(REFUSED))


def main(source):
    return ti.tir.parse(source, "kernel")["main"]


def matrices(m=64, n=96, k=96, seed=0):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(m, k)), rng.normal(size=(k, n))
    return [a.astype(np.float32), b.astype(np.float32), np.zeros((m, n), np.float32)]


DIRECT = """
@T.prim_func
def main(X: T.Buffer((32, 64)), Z: T.Buffer((32, 64)), Y: T.Buffer((32, 64))):
    for bx in T.thread_binding(4, thread="blockIdx.x"):
        for by in T.thread_binding(2, thread="blockIdx.y"):
            for i in T.parallel(16):
                for j in T.parallel(16):
                    Y[by * 16 + i, bx * 16 + j] = T.max(
                        X[by * 16 + i, bx * 16 + j] * T.float32(2.0) + Z[by * 16 + i, bx * 16 + j], T.float32(0.0))
"""


@pytest.mark.parametrize("name", SPLIT)
def test_kernels_that_tilelang_printed_give_the_numbers_of_numpy(name):
    kernel = KERNELS[name]
    args = kernel.args(np.random.default_rng(5))
    program = ti.tt.split(main(text(name)))
    assert ti.tt.check(program) == ()
    found = ti.tt.simulate(program, args, cores=5).arrays
    for place, want in zip(kernel.outputs, kernel.expected(*args), strict=True):
        got, want = np.asarray(found[place]).astype(np.float64), np.asarray(want).astype(np.float64)
        finite = np.isfinite(want) & (np.abs(want) < 1e30)
        np.testing.assert_allclose(got[~finite], want[~finite])
        assert np.abs(got[finite] - want[finite]).max() <= kernel.tolerance * max(np.abs(want[finite]).max(), 1)


@pytest.mark.parametrize("name", REFUSED)
def test_kernels_that_tilelang_printed_are_refused_with_a_reason(name):
    with pytest.raises(ti.DiagnosticError) as caught:
        ti.tt.split(main(text(name)))
    assert REFUSED[name] in str(caught.value)


def test_a_nest_that_uses_memory_itself_gets_copies_around_it():
    x, z = np.random.default_rng(2).normal(size=(2, 50, 70)).astype(np.float32)
    program = ti.tt.split(main(DIRECT))
    assert [q.name for q in program.buffers] == ["CB_X", "CB_Z", "CB_Y"]
    found = ti.tt.simulate(program, [x[:32, :64], z[:32, :64], np.zeros((32, 64), np.float32)], cores=3).arrays[2]
    np.testing.assert_array_equal(found, np.maximum(x[:32, :64] * np.float32(2) + z[:32, :64], 0))


@pytest.mark.parametrize(("name", "sizes"), [("dynamic", {"m": 21}), ("dynamic_transpose", {"m": 21, "n": 37})])
def test_sizes_that_a_call_would_tell_are_given_before(name, sizes):
    kernel = KERNELS[name]
    args = kernel.args(np.random.default_rng(5))
    func = ti.tt.sized(main(text(name)), **sizes)
    assert ti.tt.verify(func, ti.tt.pipeline(func).result, cores=(1, 5, 64))
    program = ti.tt.split(func)
    assert ti.tt.check(program) == ()
    found = ti.tt.simulate(program, args, cores=3).arrays
    for place, want in zip(kernel.outputs, kernel.expected(*args), strict=True):
        np.testing.assert_allclose(found[place], want, rtol=1e-6)


def test_memory_is_added_to_memory_by_way_of_a_tile():
    source = """
@T.prim_func
def main(A: T.Buffer((64, 32)), C: T.Buffer((32, 32))):
    for bx in T.thread_binding(2, thread="blockIdx.x"):
        T.atomicadd(T.region(A[bx * 32, 0], 1, 32, 32), T.region(C[0, 0], 3, 32, 32))
"""
    a, c = np.random.default_rng(3).normal(size=(2, 64, 32)).astype(np.float32)
    program = ti.tt.split(main(source))
    assert ti.tt.check(program) == () and "combine_region<SUM>(" in program.files["writer.cpp"]
    found = ti.tt.simulate(program, [a, c[:32]], cores=2).arrays[1]
    np.testing.assert_allclose(found, c[:32] + a[:32] + a[32:], rtol=1e-5, atol=1e-6)


def elementwise(body):
    return f"""
@T.prim_func
def main(A: T.Buffer((4, 32)), I: T.Buffer((32,), "int32"), B: T.Buffer((4, 32)), H: T.Buffer((32,))):
    for bx in T.thread_binding(4, thread="blockIdx.x"):
        for i in T.parallel(8):
            for v in T.vectorized(4):
                {body}
"""


@pytest.mark.parametrize(
    ("body", "place", "expected"),
    [
        ("B[bx, i * 4 + v] = A[bx, i * 4 + v] + T.float32(1.0)", 2, lambda a, h: a + 1),
        ("B[bx, i * 4 + v] = A[bx, (i * 4 + v) * 5 % 32]", 2, lambda a, h: a[:, np.arange(32) * 5 % 32]),
        ("T.atomic_add_elem_op(T.access_ptr(H[i * 4 + v], 1, 3), A[bx, i * 4 + v])", 3, lambda a, h: h + a.sum(0)),
        ("T.atomic_max_elem_op(T.access_ptr(H[i * 4 + v], 1, 3), A[bx, i * 4 + v], 0)", 3,
         lambda a, h: np.maximum(h, a.max(0))),
    ],
)  # fmt: skip
def test_elements_are_stored_gathered_and_changed_atomically_as_tiles(body, place, expected):
    a = np.random.default_rng(3).integers(-9, 9, (4, 32)).astype(np.float32)
    h = np.ones(32, np.float32)
    program = ti.tt.split(main(elementwise(body)))
    assert ti.tt.check(program) == ()
    found = ti.tt.simulate(program, [a, np.zeros(32, np.int32), np.zeros_like(a), h], cores=3).arrays
    np.testing.assert_array_equal(found[place], expected(a, h))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("B[bx, i * 2 + v] = A[bx, i]", "'B' is used inside of a computation, which may leave parts"),
        ("B[bx, i] = A[bx, I[i]]", "'A' is used inside of a computation, at places that are not known before"),
        ("T.atomic_add_elem_op(T.access_ptr(H[i], 1, 3), A[bx, i * 4 + v])",
         "'H' is used inside of a computation, which changes an element of it more than once"),
        ('T.atomic_add_elem_op(T.tvm_access_ptr(T.type_annotation("float32"), B.data, bx, 1, 3), A[bx, i])',
         "T.atomic_add_elem_op has no words in the C++ of a core."),
        ("B[bx, i] = T.Shuffle([A[bx, i]], [0])", "a vector has no words in the C++ of a core."),
    ],
)  # fmt: skip
def test_elements_that_no_tile_stands_for_are_refused_before_any_text_is_asked_for(body, message):
    with pytest.raises(ti.DiagnosticError, match=r"\[TN07\]: " + re.escape(message)):
        ti.tt.split(main(elementwise(body)))


def test_tiles_under_two_shapes_share_their_memory():
    program = ti.tt.split(main(text("views")))
    lines = program.files["compute.cpp"]
    assert [name for name in ("a", "w", "v") if re.search(rf"Tile<[^>]*> {name}\(a_memory\);", lines)] == [
        "a",
        "w",
        "v",
    ]
    assert lines.count(" a_memory[64];") == 1


def test_the_document_s_own_notation_goes_all_the_way():
    source = """
PrimFunc(
  params=[Buffer(var=A, shape=[64, 48], dtype=float32), Buffer(var=B, shape=[48, 32], dtype=float32),
          Buffer(var=C, shape=[64, 32], dtype=float32)],
  body=
    AttrStmt(attr_key="thread_extent", node=IterVar(var=bx, dom=Range(0, 2), thread_tag="blockIdx.x"), value=2,
      body=AttrStmt(attr_key="thread_extent", node=IterVar(var=by, dom=Range(0, 4), thread_tag="blockIdx.y"), value=4,
        body=
          Allocate(buffer_var=a, dtype=float32, extents=[16, 16], body=
            Allocate(buffer_var=b, dtype=float32, extents=[16, 16], body=
              Allocate(buffer_var=c, dtype=float32, extents=[16, 16],
                body=
                  BufferStore(buffer=c, value=FloatImm(dtype=float32, value=0.0), ...)
                  For(loop_var=Var(name=k, dtype=int32), min=0, extent=3, kind=ForKind::kSerial,
                    body=
                      BufferStore(buffer=a, value=BufferLoad(buffer=A, indices=[by*16, k*16]), ...)
                      BufferStore(buffer=b, value=BufferLoad(buffer=B, indices=[Mul(k, 16), Mul(bx, 16)]), ...)
                      AttrStmt(attr_key="tl.gemm", value={"A": a, "B": b, "C": c}, body=Evaluate(IntImm(0)))
                  )
                  BufferStore(buffer=C, value=BufferLoad(buffer=c, ...), indices=[by*16, bx*16])))))),
)
"""
    arrays = matrices(64, 32, 48)
    program = ti.tt.split(main(source))
    assert ti.tt.check(program) == ()
    found = ti.tt.simulate(program, arrays, cores=5).arrays[2]
    np.testing.assert_allclose(found, arrays[0].astype(np.float64) @ arrays[1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("capacity", [None, 1, 3])
@pytest.mark.parametrize("cores", [1, 5, 64, 110])
def test_four_orders_give_equal_bits(cores, capacity):
    arrays = matrices()
    program = ti.tt.split(main(matmul(64, 96, 96)), capacity=capacity)
    runs = [ti.tt.simulate(program, arrays, cores=cores, order=order, seed=cores).arrays[2] for order in ORDERS]
    assert all(run.tobytes() == runs[0].tobytes() for run in runs)
    np.testing.assert_allclose(runs[0], arrays[0].astype(np.float64) @ arrays[1], rtol=1e-4, atol=1e-4)
    assert not arrays[2].any()  # arguments are never changed


@pytest.mark.parametrize("seed", [-3, 2.5, None])
def test_a_seed_is_a_whole_number(seed):
    program = ti.tt.split(main(matmul(64, 96, 96)))
    with pytest.raises(ti.DiagnosticError, match=rf"B14.*the seed is {seed}, and a seed is a whole number from 0 up"):
        ti.tt.simulate(program, matrices(), cores=2, seed=seed)


def test_a_simulation_has_the_bits_of_the_kernel_on_its_grid():
    arrays = matrices(256, 256, 256)
    func = main(matmul(256, 256, 256))
    found = ti.tt.simulate(ti.tt.split(func), arrays, cores=64).arrays[2]
    assert found.tobytes() == ti.tir.interpret(func, *arrays)[2].tobytes()


def test_blocks_of_several_tiles_travel_whole():
    x = np.random.default_rng(1).normal(size=(70, 100)).astype(np.float32)
    program = ti.tt.split(main(softmax(70, 100)))
    assert [(q.name, q.pages, q.capacity) for q in program.buffers] == [("CB_X", 4, 8), ("CB_Y", 4, 8)]
    weights = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    found = ti.tt.simulate(program, [x, np.zeros_like(x)], cores=2).arrays[1]
    np.testing.assert_allclose(found, weights / weights.sum(1, keepdims=True), rtol=1e-5)


def test_the_files_are_those_of_the_document():
    program = ti.tt.split(ti.tt.persistent(ti.tt.shard(ti.tt.schedule(ti.tt.defaults(main(matmul(64, 96))), cores=4))))
    files = program.files
    assert set(files) == {"compute.cpp", "reader.cpp", "writer.cpp", "main.cpp", "tiles.h", "tt.plan.json"}
    plan = json.loads(files["tt.plan.json"])
    assert plan["grid"] == [3, 2, 1] and plan["tiles_per_core"] == [[0, 2], [2, 2], [4, 1], [5, 1]]
    assert [q["name"] for q in plan["circular_buffers"]] == ["CB_A", "CB_B", "CB_C"]
    assert plan["buffers"]["C"]["num_tiles_width"] == 3
    calls = re.findall(r"(\w+)\(CB_(\w)", files["compute.cpp"])
    assert calls == [
        ("cb_wait_front", "A"), ("cb_wait_front", "B"), ("matmul_tiles", "A"), ("cb_pop_front", "A"),
        ("cb_pop_front", "B"), ("cb_reserve_back", "C"), ("cb_push_back", "C"),
    ]  # fmt: skip


def test_text_balances_and_names_each_circular_buffer_once():
    for source in (matmul(), chain(64, 64), softmax(64, 40), text("flash")):
        for name, file in ti.tt.split(main(source)).files.items():
            if name.endswith(".cpp"):
                assert file.count("{") == file.count("}") and file.count("(") == file.count(")")


# Faults that are planted


def line(program, file, statement, place=0):
    found = [k for k, row in enumerate(program.files[file].splitlines(), 1) if row.strip() == statement]
    return found[place]


PLANTED = {
    "no reserve": ("compute.cpp", "cb_reserve_back(CB_C, 1);", {}, "write without reserve", "compute.cpp", "CB_C"),
    "no push": ("compute.cpp", "cb_push_back(CB_C, 1);", {}, "deadlock", "writer.cpp", "CB_C"),
    "no pop": ("compute.cpp", "cb_pop_front(CB_A, 1);", {}, "deadlock", "reader.cpp", "CB_A"),
    "two are pushed": (
        "reader.cpp", "cb_push_back(CB_A, 1);", {"count": 2}, "push without reserve", "reader.cpp", "CB_A",
    ),
    "two are popped": (
        "compute.cpp", "cb_pop_front(CB_B, 1);", {"count": 2}, "pop without wait", "compute.cpp", "CB_B",
    ),
    "no wait": ("compute.cpp", "cb_wait_front(CB_B, 1);", {}, "read without wait", "compute.cpp", "CB_B"),
    "no wait of the writer": ("writer.cpp", "cb_wait_front(CB_C, 1);", {}, "read without wait", "writer.cpp", "CB_C"),
    "another buffer is pushed": (
        "reader.cpp", "cb_push_back(CB_B, 1);", {"buffer": "CB_A"}, "push without reserve", "reader.cpp", "CB_A",
    ),
    "another buffer is popped": (
        "writer.cpp", "cb_pop_front(CB_C, 1);", {"buffer": "CB_A"}, "two consumers", "writer.cpp", "CB_A",
    ),
    "another producer": (
        "compute.cpp", "cb_push_back(CB_C, 1);", {"buffer": "CB_B"}, "two producers", "compute.cpp", "CB_B",
    ),
    "nothing arrives": ("reader.cpp", "cb_push_back(CB_B, 1);", {}, "deadlock", "compute.cpp", "CB_B"),
    "the writer keeps": ("writer.cpp", "cb_pop_front(CB_C, 1);", {}, "deadlock", "compute.cpp", "CB_C"),
    "two are waited for": ("compute.cpp", "cb_wait_front(CB_A, 1);", {"count": 2}, "deadlock", "compute.cpp", "CB_A"),
}  # fmt: skip


def planted(name):
    file, statement, edit, *told = PLANTED[name]
    program = ti.tt.split(main(matmul(64, 96, 96)))
    return program.edited(file, line(program, file, statement), **edit), told


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found_with_its_place_in_every_order(name, order):
    program, (kind, file, buffer) = planted(name)
    run = ti.tt.simulate(program, matrices(), cores=1, order=order)
    assert not run and run.fault is not None
    assert (run.fault.kind, run.fault.file, run.fault.buffer) == (kind, file, buffer), str(run)
    shown = program.files[file].splitlines()[run.fault.line - 1].strip()
    assert run.fault.text == shown
    with pytest.raises(ti.DiagnosticError, match="TN11"):
        _ = run.arrays


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found_in_the_text_before_it_runs(name):
    program, _ = planted(name)
    assert ti.tt.check(program)


OTHER_SHARES = {  # where the writer does nothing, by one of its arguments, and what is told
    "a tile less than the first core": ("tt_count", 2, "deadlock of CB_Y on core 1: "),
    "one tile": ("tt_count", 1, "left over of CB_Y: 1 tile at the end, which nobody pops, on a core with 1 tile"),
    "one tile more": ("tt_count", 4, "deadlock of CB_Y: "),
    "other tiles": ("tt_start_id", 5, "deadlock of CB_Y on core 2: "),
    "a tile alone": ("tt_start_id", 6, "left over of CB_Y: 1 tile at the end, which nobody pops, on a core with 1"),
}


@pytest.mark.parametrize("what", OTHER_SHARES)
def test_a_fault_of_cores_with_other_shares_is_found_in_the_text(what):
    name, number, told = OTHER_SHARES[what]
    program = ti.tt.split(ti.tt.pipeline(main(chain(32, 7 * 32)), cores=3).result, capacity=1)
    assert program.func.attrs["tt_tiles_per_core"] == ((0, 3), (3, 2), (5, 2)) and ti.tt.check(program) == ()
    param = next(p for p in program.func.params if p.name == name)
    writer = program["writer"]
    idle = replace(writer, body=(Branch(n.NE(param, const(number, INT32)), writer.body),))
    (fault,) = ti.tt.check(replace(program, kernels=(*program.kernels[:2], idle)))
    assert told in str(fault), str(fault)


def test_a_fault_of_a_core_without_tiles_is_found_in_the_text():
    program = ti.tt.split(ti.tt.pipeline(main(chain(32, 7 * 32)), cores=3).result)
    without = n.EQ(program.func.params[-3], const(0, INT32))
    fill = Work(n.Evaluate(const(0, INT32)), (), "CB_X")
    pushes = Branch(without, (Sync("reserve", "CB_X", 1), fill, Barrier("read"), Sync("push", "CB_X", 1)))
    reader = replace(program["reader"], body=(pushes, *program["reader"].body))
    changed = replace(program, kernels=(reader, *program.kernels[1:]))
    (fault,) = ti.tt.check(changed)
    assert (fault.kind, fault.file, fault.core) == ("left over", "reader.cpp", None)
    assert fault.message == "1 tile at the end, which nobody pops, on a core with 0 tiles from tile 0."
    x = np.zeros((32, 224), np.float32)
    assert ti.tt.simulate(changed, [x, x, x], cores=8).fault.core == 7


def test_a_deadlock_says_who_waits_for_what():
    program, _ = planted("no pop")
    fault = ti.tt.simulate(program, matrices(), cores=1).fault
    assert str(fault).splitlines()[0].endswith("deadlock of CB_A on core 0: 3 kernels wait, and none goes on.")
    assert fault.waiting == (
        "reader waits for 1 tile of CB_A: room for 0 of 2, 1 waited for and not popped",
        "compute waits for 1 tile of CB_B: 0 there",
        "writer waits for 1 tile of CB_C: 0 there",
    )


def test_tiles_that_nobody_pops_are_told():
    program = ti.tt.split(main(matmul(32, 32, 32)))
    without = program.edited("writer.cpp", line(program, "writer.cpp", "cb_pop_front(CB_C, 1);"))
    fault = ti.tt.simulate(without, matrices(32, 32, 32), cores=1).fault
    assert (fault.kind, fault.file, fault.counts) == ("left over", "compute.cpp", {"left": 1})
    assert ti.tt.check(without)[0].kind == "unbalanced"


def test_the_template_of_the_document_pushes_what_it_never_reserved():
    program = ti.tt.split(main(matmul(64, 96, 96)))

    def template(op):
        """Without the reservation, and with the product in CB_C itself."""
        match op:
            case Sync("reserve", "CB_C"):
                return ()
            case Work(_, _, "CB_C"):
                return ()
            case _:
                return (op,)

    compute = replace(program["compute"], body=rewritten(program["compute"].body, template))
    program = replace(program, kernels=(program["reader"], compute, program["writer"]))
    calls = re.findall(r"(cb_\w+)\((CB_\w), 1\)", program.files["compute.cpp"])
    assert calls == [
        ("cb_wait_front", "CB_A"), ("cb_wait_front", "CB_B"), ("cb_pop_front", "CB_A"), ("cb_pop_front", "CB_B"),
        ("cb_push_back", "CB_C"),
    ]  # fmt: skip
    (fault,) = ti.tt.check(program)
    assert (fault.kind, fault.file, fault.buffer) == ("push without reserve", "compute.cpp", "CB_C")
    assert fault.counts == {"pushes": 1, "reserved": 0} and fault.text == "cb_push_back(CB_C, 1);"
    assert ti.tt.simulate(program, matrices(), cores=64).fault.kind == "push without reserve"


def test_the_fill_of_buffers_over_time():
    program = ti.tt.split(main(matmul(64, 96, 96)))
    run = ti.tt.simulate(program, matrices(), cores=2, order="reader first")
    fills = run.fills(1)
    assert max(fill for _, fill in fills["CB_A"]) == 2 and fills["CB_A"][-1][1] == 0
    assert run.picture(1).startswith("<svg") and run.picture(1).count("<path") == 3


# What is refused

IN_PLACE = chain(64, 96).replace("Y[", "X[")
MEETING = {
    "another tile's": IN_PLACE.replace("T.region(X[by * 32, bx * 32], 2", "T.region(X[by * 32, (bx + 1) % 3 * 32], 2"),
    "one for all tiles": chain(64, 96).replace("Y[by * 32, bx * 32]", "Z[by * 32, 0]"),
    "overlapping rows": softmax(64, 40).replace("Y[bx * 32, 0]", "X[bx * 31, 0]"),
    "loaded behind a store": matmul(32, 64, 64).replace("region(C[", "region(A["),
}
BY_CONTENT = softmax(64, 32).replace(
    "            T.copy(T.region(x[0, 0], 1",
    "            if m[0] > T.float32(0.0):\n                T.copy(T.region(x[0, 0], 1",
)
LEFT = matmul().replace(
    "                T.copy(T.region(c",
    """\
                for q in T.serial(2):
                    T.copy(T.region(A[0, 0], 1, 32, 32), T.region(a[0, 0], 2, 32, 32))
                    if a[0, 0] > T.float32(0.0):
                        T.loop_break()
                T.copy(T.region(c""",
)
PARTLY = """
@T.prim_func
def main(X: T.Buffer((64,)), Y: T.Buffer((64,))):
    for bx in T.thread_binding(2, thread="blockIdx.x"):
        for i in T.parallel(32):
            if X[bx * 32 + i] > T.float32(0.0):
                Y[bx * 32 + i] = X[bx * 32 + i]
"""
WRONG = {
    "a buffer that is loaded and stored": (
        lambda: ti.tt.split(main(MEETING["another tile's"])), "TN09", "the reader runs ahead",
    ),
    "tiles that decide what moves": (lambda: ti.tt.split(main(BY_CONTENT)), "TN08", "'m' decides here"),
    "a loop that is left": (lambda: ti.tt.split(main(LEFT)), "TN08", "a loop in which tiles move is left here"),
    "a store of some elements": (lambda: ti.tt.split(main(PARTLY)), "TN07", "which may leave parts of a tile"),
    "a capacity below a block": (
        lambda: ti.tt.split(main(softmax(64, 40)), capacity=1), "TN10", "CB_X holds 1 tile, and a block has 2",
    ),
    "a capacity that cuts a block": (
        lambda: ti.tt.split(main(softmax(64, 40)), capacity=3), "TN10", "holds 3 tiles, and blocks of 2",
    ),
    "a capacity that is no number": (
        lambda: ti.tt.split(main(matmul()), capacity="2"), "TN10", "CB_A holds a whole number of tiles, and not '2'",
    ),
    "an order that is no name": (
        lambda: ti.tt.simulate(ti.tt.split(main(matmul())), matrices(), order=[]), "TN12", "there is no order",
    ),
    "a capacity of no buffer": (
        lambda: ti.tt.split(main(matmul()), capacity={"CB_D": 2}), "TN10", "circular buffers are CB_A, CB_B, CB_C",
    ),
    "a size of no name": (
        lambda: ti.tt.sized(main(text("dynamic")), n=8), "TN13", "'n' is no size of 'main', which has the sizes m.",
    ),
    "a size below 0": (lambda: ti.tt.sized(main(text("dynamic")), m=-1), "TN13", "the size 'm' of 'main' is -1."),
    "no cores": (
        lambda: ti.tt.simulate(ti.tt.split(main(matmul())), matrices(64, 96, 64), cores=0), "TN04", "at least one",
    ),
    "an order": (
        lambda: ti.tt.simulate(ti.tt.split(main(matmul())), matrices(64, 96, 64), order="rundom"), "TN12", "random",
    ),
    "arrays of another shape": (
        lambda: ti.tt.simulate(ti.tt.split(main(matmul())), matrices(64, 96, 96)), "TA03", "'A'",
    ),
    "more than the capacity at once": (
        lambda: ti.tt.simulate(_with_a_wait_of_three(), matrices()), "TN10", "holds 2 tiles, and compute.cpp",
    ),
}  # fmt: skip


def _with_a_wait_of_three():
    program = ti.tt.split(main(matmul(64, 96, 96)))
    return program.edited("compute.cpp", line(program, "compute.cpp", "cb_wait_front(CB_A, 1);"), 3)


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_is_refused_before_it_runs(name):
    run, code, said = WRONG[name]
    with pytest.raises(ti.DiagnosticError) as caught:
        run()
    assert code in str(caught.value) and said in str(caught.value), str(caught.value)


@pytest.mark.parametrize("what", MEETING)
def test_a_buffer_in_which_stores_and_loads_may_meet_is_refused(what):
    with pytest.raises(ti.DiagnosticError, match=r"TN09.*is loaded and stored"):
        ti.tt.split(main(MEETING[what]))


@pytest.mark.parametrize("order", ORDERS)
def test_a_buffer_is_changed_in_place_where_each_tile_stores_what_it_alone_has_loaded(order):
    x, z = np.random.default_rng(0).normal(size=(2, 64, 96)).astype(np.float32)
    program = ti.tt.split(main(IN_PLACE))
    assert ti.tt.check(program) == ()
    found = ti.tt.simulate(program, [x, z, np.zeros_like(x)], cores=5, order=order, seed=3).arrays
    np.testing.assert_array_equal(found[0], np.maximum(x * np.float32(2) + z, 0))
    assert not found[2].any()


def test_a_line_that_is_no_synchronisation_is_not_edited():
    program = ti.tt.split(main(matmul()))
    with pytest.raises(LookupError):
        program.edited("compute.cpp", 1, 2)
