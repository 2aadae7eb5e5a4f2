"""`ti.tt.emit`: programs in the calls of tt-metal, compiled against calls that assert what they need, and run."""

import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tensorir as ti

sys.path.insert(0, str(Path(__file__).parent))
from metal_kernels import BFLOAT16, INTEGERS, KERNELS, nest, turned
from on_card import SWAPPED, Refused, build, calls_of, mutable
from random_tiles import random_kernel
from tensix_kernels import chain, matmul, softmax

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler")
KERNEL_FILES = ("compute.cpp", "reader.cpp", "writer.cpp")
SEEDS = (3, 105, 112)  # in the last two, values do not fit into the registers
MUTATED = ("matmul", "spilled", "softmax", "sent")


def main(text):
    return ti.tir.parse(text, "kernel")["main"]


def program_of(kernel):
    return ti.tt.split(ti.tt.pipeline(main(kernel.text), cores=kernel.cores, layouts=kernel.layouts).result)


def arguments(program, seed=3):
    rng = np.random.default_rng(seed)
    found = []
    for param in program.func.params[:-4]:
        buffer = program.func.buffer_map.get(param)
        shape = () if buffer is None else tuple(int(str(e)) for e in buffer.shape)
        word = "float32" if buffer is None else str(buffer.dtype)
        if "int" in word:  # sums and products wrap around
            edges = np.iinfo(word)
            found.append(rng.integers(edges.min, edges.max, shape, dtype=word, endpoint=True))
        else:
            found.append(rng.normal(size=shape).astype(BFLOAT16 if word == "bfloat16" else np.float32))
    return found


def random_program(seed):
    return ti.tt.split(ti.tt.pipeline(main(random_kernel(seed)), cores=2).result)


@pytest.fixture(scope="module")
def programs():
    return {name: program_of(kernel) for name, kernel in KERNELS.items()}


@pytest.fixture(scope="module")
def of_integers():
    return {name: ti.tt.split(ti.tt.pipeline(main(text), cores=2).result) for name, (text, _) in INTEGERS.items()}


def ahead(program):
    """A tile of X is pushed while that of Z is on its way, for which a barrier stands behind."""
    reader = program["reader"]
    (loop,) = reader.body
    *names, reserve, read, barrier, push, reserve_z, read_z, barrier_z, push_z = loop.body
    body = (*names, reserve, read, barrier, reserve_z, read_z, push, barrier_z, push_z)
    reader = replace(reader, body=(replace(loop, body=body),))
    return replace(program, kernels=(reader, *program.kernels[1:]))


@pytest.fixture(scope="module")
def compiled(programs, of_integers, tmp_path_factory):
    emitted = {
        name: ti.tt.emit(p, formats=KERNELS[name].formats, mcast=KERNELS[name].mcast) for name, p in programs.items()
    }
    emitted |= {f"integers_{name}": ti.tt.emit(p) for name, p in of_integers.items()}
    emitted["ahead"] = ti.tt.emit(ahead(programs["chain"]))
    emitted |= {f"random_{seed}": ti.tt.emit(random_program(seed)) for seed in SEEDS}
    emitted |= {f"{name}_mutants": mutable(emitted[name]) for name in MUTATED}
    return build(emitted, tmp_path_factory.mktemp("card"))


@needs_compiler
@pytest.mark.parametrize("name", KERNELS)
def test_programs_in_the_calls_of_the_card_give_the_numbers_of_numpy_and_of_the_simulation(name, programs, compiled):
    kernel, args = KERNELS[name], arguments(programs[name])
    found = compiled.run(name, args)[-1].astype(np.float64)
    want = kernel.expected(*(np.asarray(a).astype(np.float64) for a in args))
    scale = max(np.abs(want).max(), 1.0)
    assert np.abs(found - want).max() <= kernel.tolerance * scale
    buffers = [b for p in programs[name].func.params if (b := programs[name].func.buffer_map.get(p)) is not None]
    simulated = np.asarray(ti.tt.simulate(programs[name], args).arrays[len(buffers) - 1]).astype(np.float64)
    assert np.abs(found - simulated).max() <= 1.5 * kernel.tolerance * scale


@needs_compiler
@pytest.mark.parametrize("name", INTEGERS)
def test_integers_wrap_around_compare_and_choose_as_those_of_numpy(name, of_integers, compiled):
    args = arguments(of_integers[name])
    if np.ndim(args[-1]) == 0:
        args[-1] = np.int32(3)
    with np.errstate(over="ignore"):
        want = INTEGERS[name][1](*args)
    found = compiled.run(f"integers_{name}", args)
    np.testing.assert_array_equal(found[4], want)
    np.testing.assert_array_equal(ti.tt.simulate(of_integers[name], args).arrays[4], want)


@needs_compiler
@pytest.mark.parametrize("seed", SEEDS)
def test_random_nests_folds_and_loops_give_the_numbers_of_the_interpreter(seed, compiled):
    args = arguments(random_program(seed))
    want = ti.tir.interpret(main(random_kernel(seed)), *args)[-1]
    np.testing.assert_allclose(compiled.run(f"random_{seed}", args)[-1], want, atol=2e-2 * max(np.abs(want).max(), 1))


@needs_compiler
def test_a_tile_is_pushed_while_another_buffer_s_is_on_its_way(programs, compiled):
    args = arguments(programs["chain"])
    assert compiled.run("ahead", args)[-1].tobytes() == compiled.run("chain", args)[-1].tobytes()


def as_bfp8(array):
    """Rows of sixteen elements with the largest exponent of each, and seven bits of their mantissas."""
    rows = array.reshape(-1, 16).astype(np.float64)
    unit = 2.0 ** (np.frexp(np.abs(rows).max(1, keepdims=True))[1] - 7)
    return (np.clip(np.floor(np.abs(rows) / unit + 0.5), 0, 127) * unit * np.sign(rows)).reshape(array.shape)


@needs_compiler
def test_bfp8_has_an_exponent_for_sixteen_elements(programs, compiled):
    a, b, c = arguments(programs["stored"])
    want = as_bfp8(a) @ as_bfp8(b)
    np.testing.assert_allclose(compiled.run("stored", [a, b, c])[-1], want, atol=1e-5)


@needs_compiler
@pytest.mark.parametrize("name", MUTATED)
def test_every_call_that_is_left_out_is_told_or_changes_numbers(name, programs, compiled):
    args = arguments(programs[name])
    right = compiled.run(name, args)[-1]
    calls = calls_of(compiled.programs[name])
    unseen = []
    for place, call in enumerate(calls):
        try:
            found = compiled.run(f"{name}_mutants", args, mutant=place)[-1]
        except Refused:
            continue
        if found.tobytes() == right.tobytes():
            unseen.append(call)
    # the last step of a tile copies from another buffer of the same format, and so does the first of the next
    assert unseen == ([("compute", "copy_tile_to_dst_init_short(CB_X);")] if name == "softmax" else [])


LEFT_OUT = {
    "tile_regs_acquire();": "a register tile is used and not acquired",
    "tile_regs_commit();": "registers are acquired and not committed",
    "tile_regs_wait();": "a tile is packed outside of wait and release",
    "tile_regs_release();": "registers are waited for and not released",
    "cb_push_back(CB_C, 1);": "deadlock: all wait for tiles in circular buffer 2",
    "cb_pop_front(CB_A, 1);": "deadlock: all wait for registers that are committed, for room in circular buffer 0, for "
    "source registers that are unpacked, for tiles in circular buffer 1, for tiles in circular buffer 2",
}
"""Calls of the three threads of the product's computation, and what is told where they are left out."""


@needs_compiler
@pytest.mark.parametrize("call", LEFT_OUT)
def test_what_one_thread_of_a_computation_leaves_out_is_told_by_it_or_stops_the_others(call, programs, compiled):
    place = calls_of(compiled.programs["matmul"]).index(("compute", call))
    with pytest.raises(Refused) as caught:
        compiled.run("matmul_mutants", arguments(programs["matmul"]), mutant=place)
    assert str(caught.value) == LEFT_OUT[call]


NOT_ACQUIRED, NOT_WAITED = "a register tile is used and not acquired", "a tile is packed outside of wait and release"
EXCHANGED = {
    ("matmul", "cb_reserve_back(CB_C, 1);", "pack_tile(0, CB_C);"): "a tile is packed and not reserved in circular "
    "buffer 2",
    ("matmul", "pack_tile(0, CB_C);", "cb_push_back(CB_C, 1);"): "tiles pushed and not packed in circular buffer 2",
    ("matmul", "cb_wait_front(CB_B, 1);", "matmul_tiles(CB_A, CB_B, 0, 0, 0);"): "tile 0 is read and not waited for in "
    "circular buffer 1",
    ("matmul", "matmul_tiles(CB_A, CB_B, 0, 0, 0);", "cb_pop_front(CB_A, 1);"): "tile 0 is read and not waited for in "
    "circular buffer 0",
    ("matmul", "noc_async_read_barrier();", "cb_push_back(CB_A, 1);"): "tiles pushed before their reads are there: no "
    "barrier, in circular buffer 0",
    ("matmul", "noc_async_write_barrier();", "cb_pop_front(CB_C, 1);"): "tiles popped before their writes are done: no "
    "barrier, in circular buffer 2",
    ("softmax", "tile_regs_acquire();", "copy_tile(CB_X, t, 0);"): NOT_ACQUIRED,
    ("softmax", "exp_tile(0);", "tile_regs_commit();"): NOT_ACQUIRED,
    ("softmax", "tile_regs_wait();", "pack_tile(0, CB_m);"): NOT_WAITED,
    ("softmax", "pack_tile(0, CB_Y);", "tile_regs_release();"): NOT_WAITED,
}
"""Calls of one thread that follow each other in a program, and what is told where they are exchanged."""


def exchanged(compiled, programs, name, *pair):
    calls = [call for _, call in calls_of(compiled.programs[name])]
    place = next(k for k in range(len(calls)) if tuple(calls[k : k + 2]) == pair)
    return compiled.run(f"{name}_mutants", arguments(programs[name]), mutant=SWAPPED + place)[-1]


@needs_compiler
@pytest.mark.parametrize("pair", EXCHANGED)
def test_calls_of_one_thread_that_are_exchanged_are_told(pair, programs, compiled):
    with pytest.raises(Refused) as caught:
        exchanged(compiled, programs, *pair)
    assert str(caught.value) == EXCHANGED[pair]


@needs_compiler
def test_neighbouring_calls_of_two_threads_may_be_exchanged(programs, compiled):
    """The math thread commits and the pack thread waits: on the card neither sees which stands first in the text."""
    right = compiled.run("matmul", arguments(programs["matmul"]))[-1]
    found = exchanged(compiled, programs, "matmul", "tile_regs_commit();", "tile_regs_wait();")
    assert found.tobytes() == right.tobytes()


@needs_compiler
def test_tiles_are_four_faces_of_which_each_lies_row_by_row(compiled):
    matrix = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)
    faces = matrix.reshape(2, 2, 16, 2, 2, 16).transpose(0, 3, 1, 4, 2, 5)  # tiles, their faces, and elements
    assert compiled.tiles(matrix).tobytes() == faces.tobytes()


# What has no call, and what exceeds a limit


CHANGED = """
                for i in T.parallel(32):
                    for j in T.parallel(64):
                        u[i, j] = x[i, j]
                        if z[i, j] > u[i, j]:
                            u[i, j] = T.float32(0.0)
                            u[i, j] = z[i, j]"""
REFUSED = {
    "a value of the loop": (
        nest('x[i, j] * T.Cast("float32", i)'),
        """\
kernel:19:45: error[TN16]: 'i' is an index here, and no tile has its values.
                          y[i, j] = x[i, j] * T.Cast("float32", i)
                                              ^^^^^^^^^^^^^^^^^^^^
help: load a tile of them, from a buffer that holds 0, 1, 2, ….""",
    ),
    "minima": (
        softmax(64, 64).replace('"max"', '"min"'),
        """\
kernel:10:13: error[TN16]: T.reduce of 'min' has no call on the card, which has sums and maxima.
              T.reduce(T.region(x[0, 0], 1, 32, 64), T.region(m[0], 2, 32), "min", 1, T.bool(True))
              ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: fold sums or maxima: of -x for minima, of T.abs(x) for those of sizes.""",
    ),
    "a reduction of part of a tile": (
        softmax(64, 40),
        """\
kernel:10:13: error[TN16]: dim 1 of 'x' has 40 elements, and its last tile would be folded whole.
              T.reduce(T.region(x[0, 0], 1, 32, 40), T.region(m[0], 2, 32), "max", 1, T.bool(True))
              ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: give the tile 64, and fill what is not there.""",
    ),
    "a box within a tile": (
        matmul(32, 32, 32, 16),
        """\
kernel:14:28: error[TN16]: 16 elements of 'A' are moved here, and the card moves tiles of 32.
                      T.copy(T.region(A[by * 16, ko * 16], 1, 16, 16), T.region(a[0, 0], 2, 16, 16))
                             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: move 32: what lies outside of the buffer is zero, and is not stored.""",
    ),
    "float16": (
        nest("x[i, j] + z[i, j]", "float16"),
        """\
kernel:3:10: error[TN16]: tiles of float16 have no format on the card here.
  def main(X: T.Buffer((64, 64), "float16"), Z: T.Buffer((64, 64), "float16"), V: T.Buffer((64,), "float16"), W:…
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: tt-metal refuses the format Float16 beside bfloat16 and bfp8, and its host has no arrays of it: store float32, \
which holds float16 whole, or bfloat16.""",
    ),
    "integers of two widths": (
        nest("x[i, j]", "uint16").replace('Z: T.Buffer((64, 64), "uint16")', 'Z: T.Buffer((64, 64), "int32")').replace(
            'z = T.sblock_alloc_buffer((32, 64), "uint16"', 'z = T.sblock_alloc_buffer((32, 64), "int32"'
        ),
        """\
kernel:11:17: error[TN16]: 'y' is of uint16 and others of 32 bits, and a core's registers are of one width.
                  y = T.sblock_alloc_buffer((32, 64), "uint16", scope="local.fragment")
                  ^
help: make it uint32.""",
    ),
    "a quotient of integers": (
        nest("x[i, j] // z[i, j]", "int32"),
        """\
kernel:19:35: error[TN16]: a division that rounds down of the elements of tiles has no call on the card.
                          y[i, j] = x[i, j] // z[i, j]
                                    ^^^^^^^^^^^^^^^^^^
help: write it with arithmetic, comparisons, choices, extremes, exp, log, sqrt, rsqrt, tanh, sigmoid, abs, sin, cos, \
erf, floor and ceil.""",
    ),
    "an extreme of integers of 16 bits": (
        nest("T.max(x[i, j], z[i, j])", "uint16"),
        """\
kernel:19:35: error[TN16]: a maximum of uint16 elements has no call on the card.
                          y[i, j] = T.max(x[i, j], z[i, j])
                                    ^^^^^^^^^^^^^^^^^^^^^^^
help: sums, differences, products, extremes and comparisons of integers have calls; or compute in float32.""",
    ),
    "integers along a vector": (
        nest("x[i, j] + w[j]", "int32"),
        """\
kernel:19:45: error[TN16]: 'w' is broadcast along a tile, and the unit that broadcasts has no int32.
                          y[i, j] = x[i, j] + w[j]
                                              ^^^^
help: make it float32, or a whole tile.""",
    ),
    "floats as integers": (
        nest('T.Cast("int32", T.Cast("float32", x[i, j]))', "int32"),
        """\
kernel:19:35: error[TN16]: a conversion of float to int32 has no call on the card.
                          y[i, j] = T.Cast("int32", T.Cast("float32", x[i, j]))
                                    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: convert it before it comes to the card; int32 and uint32 become floats there.""",
    ),
    "a condition on two types": (
        nest('T.if_then_else(x[i, j] > 0 and T.Cast("float32", x[i, j]) < T.float32(0.5), x[i, j], z[i, j])', "int32"),
        """\
kernel:19:50: error[TN16]: this condition joins one on int32 elements and one on float elements.
  …           y[i, j] = T.if_then_else(x[i, j] > 0 and T.Cast("float32", x[i, j]) < T.float32(0.5), x[i, j], z[i,…
                                       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: compare elements of one type, or convert these.""",
    ),
    "a condition that is changed": (
        nest("u[i, j]", more=CHANGED),
        """\
kernel:21:29: error[TN16]: 'u' is changed here, and the condition of the next store asks for it.
                              u[i, j] = T.float32(0.0)
                              ^^^^^^^^^^^^^^^^^^^^^^^^
help: write into another tile first.""",
    ),
    "a product of integers": (
        turned("128, 64", "128, 32", 64, 32, 128, True, False, "int32"),
        """\
kernel:14:21: error[TN16]: T.gemm of int32 tiles has no call on the card.
                      T.gemm(T.region(a[0, 0], 1, 64, 32), T.region(b[0, 0], 1, 64, 32), T.region(c[0, 0], 3, 32…
                      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: make them float32 or bfloat16.""",
    ),
    "a vector both ways": (
        nest("x[i, j] * w[j] + w[i]"),
        """\
kernel:19:52: error[TN16]: 'w' is a column of its tiles here and a row elsewhere, and it lies one way.
                          y[i, j] = x[i, j] * w[j] + w[i]
                                                     ^^^^
help: copy it into another vector where it is loaded.""",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_call_is_refused_where_it_stands(name):
    text, want = REFUSED[name]
    program = ti.tt.split(main(text))
    with pytest.raises(ti.DiagnosticError) as caught:
        ti.tt.emit(program)
    assert str(caught.value) == want


MANY_TILES = "".join(
    f"""
                y{k} = T.sblock_alloc_buffer((32, 64), scope="local.fragment")
                for i in T.parallel(32):
                    for j in T.parallel(64):
                        y{k}[i, j] = {"x[i, j]" if k == 29 else f"y{k + 1}[i, j] + x[i, j]"}"""
    for k in reversed(range(30))
)


LIMITS = {
    "cores of the grid": (
        lambda: ti.tt.emit(ti.tt.split(ti.tt.pipeline(main(matmul()), cores=65).result)),
        "error[TN17]: 'main' runs on 65 cores, and a wormhole has 64: 8 × 8.",
        "help: schedule it anew: ti.tt.schedule(f, cores=64).",
    ),
    "tiles": (
        lambda: ti.tt.emit(ti.tt.split(replace(main(matmul()), attrs={"tt_tile_width": 16}))),
        "error[TN17]: tiles of 'main' have 32 × 16 elements, and those of the card 32 × 32.",
        "help: leave out tt_tile_height and tt_tile_width.",
    ),
    "memory of a core": (
        lambda: ti.tt.emit(ti.tt.split(main(matmul(256, 256, 256, 256)))),
        "error[TN17]: the circular buffers of 'main' have 2,097,152 bytes, and a core of a wormhole 1,499,136.",
        "help: make tiles smaller, or capacities: CB_A has 524,288 bytes.",
    ),
    "circular buffers": (
        lambda: ti.tt.emit(ti.tt.split(main(nest("y0[i, j]", more=MANY_TILES)))),
        "error[TN17]: 'main' needs 34 circular buffers, and a core has 32.",
        "help: use fewer tiles at a time: one name for those that follow each other.",
    ),
    "cards": (
        lambda: ti.tt.emit(ti.tt.split(main(matmul())), target="wormhol"),
        "error[TN18]: there is no card 'wormhol'; there are wormhole and blackhole.",
        "help: did you mean 'wormhole'?",
    ),
    "protocol": (
        lambda: ti.tt.emit(ti.tt.split(main(chain(64, 64))).edited("reader.cpp", 19)),
        "error[TN19]: the program stops: reader.cpp:19: write without reserve of CB_X: it writes 1 tile, and has ",
        "help: emit what split made.",
    ),
    "formats": (
        lambda: ti.tt.emit(ti.tt.split(main(matmul())), formats={"D": "bfp8"}),
        "error[TN19]: 'D' is given the format 'bfp8', and float32 buffers are stored as bfp8 only.",
        "help: known here: 'A', 'B', 'C'.",
    ),
}


@pytest.mark.parametrize("name", LIMITS)
def test_what_exceeds_a_limit_is_refused_with_both_numbers(name):
    call, message, help = LIMITS[name]
    with pytest.raises(ti.DiagnosticError) as caught:
        call()
    lines = str(caught.value).split("\n")
    assert message in lines[0]
    assert lines[-1] == help


def test_the_plan_says_what_a_core_holds_and_what_the_host_does():
    plan = ti.tt.emit(program_of(KERNELS["spilled"]), "blackhole").plan
    assert [(q["name"], q["format"], q["tiles"], q["bytes"]) for q in plan["circular_buffers"]] == [
        ("CB_A", "Float16_b", 18, 18 * 2048), ("CB_B", "Float16_b", 18, 18 * 2048),
        ("CB_C", "Float32", 18, 18 * 4096), ("CB_c", "Float32", 18, 18 * 4096),
    ]  # fmt: skip
    assert (plan["grid"], plan["register_tiles"], plan["l1_bytes"], plan["l1_limit"]) == ([11, 10], 4, 221184, 1572864)
    assert (plan["read_alignment"], plan["private_arrays_bytes"]) == (64, 0)
    assert all(buffer["page_bytes"] % 64 == 0 for buffer in plan["buffers"].values())
    text = "".join(t for name, t in ti.tt.emit(program_of(KERNELS["attention"])).files.items() if name in KERNEL_FILES)
    assert not re.search(r"\w+ \w+\[\d+\]", text)  # no array is declared
    assert ti.tt.emit(program_of(KERNELS["chain"])).plan["buffers"]["X"] == {
        "format": "Float32", "shape": [1, 50, 70], "padded": [1, 64, 96], "tiles": 6, "page_bytes": 4096,
        "moved": "to the cores", "layout": "dram_interleaved",
    }  # fmt: skip


def test_sums_stay_in_registers_where_these_hold_them():
    """With 16 bits eight tiles: a block of 2 × 4 is summed in registers, and one of 3 × 3 is loaded for each step."""
    text = ti.tt.emit(program_of(KERNELS["matmul"])).files["compute.cpp"]
    assert text.count("tile_regs_acquire();") == 1 and "copy_tile(" not in text
    spilled = ti.tt.emit(program_of(KERNELS["spilled"])).files["compute.cpp"]
    assert "copy_tile(CB_c, r * 3 + t, t);" in spilled


def test_values_that_registers_do_not_hold_go_by_way_of_a_block():
    """A tree of quotients of depth d needs d + 1 register tiles at a time, and of float32 there are four."""

    def tree(depth):
        return f"({tree(depth - 1)} / {tree(depth - 1)})" if depth else "x[i, j]"

    for depth, blocks in ((3, 0), (4, 1)):
        plan = ti.tt.emit(ti.tt.split(main(nest(tree(depth))))).plan
        assert sum(q["name"].startswith("CB_y_inner") for q in plan["circular_buffers"]) == blocks
