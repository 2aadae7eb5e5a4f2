"""Kernels lifted: the conformance kernels as they stand, their regions one by one, and what a launch contradicts."""

import json
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tile_samples import KERNELS, binary_of, needs_samples

import tensorir as ti
from tensorir import tile
from tensorir.lifting.region import parse_region, print_region
from tensorir.runtime.errors import DiagnosticError
from tensorir.tile.lift.translation import signature, translated
from tests.lift.region.interpreter import interpret

each = pytest.mark.parametrize("folder", KERNELS, ids=lambda p: p.name)


def launch_of(folder):
    """The grid, the arguments, and what they hold afterwards, by number."""
    launch, data = json.loads((folder / "launch.json").read_text(encoding="utf-8")), np.load(folder / "data.npz")
    params = [p for p in launch["params"] if p["kind"] != "constant"]
    args = [data[f"in_{p['name']}"] if p["kind"] == "array" else p["value"] for p in params]
    outputs = {k: data[f"out_{p['name']}"] for k, p in enumerate(params) if f"out_{p['name']}" in data.files}
    return tuple(launch["grid"]), args, outputs


def same(got, wanted, tolerance=2e-5):
    assert np.asarray(got).dtype == wanted.dtype
    np.testing.assert_allclose(np.asarray(got, np.float64), np.asarray(wanted, np.float64), tolerance, tolerance)


@needs_samples
@each
def test_a_lifted_kernel_gives_what_the_interpreter_and_the_file_say(folder):
    module = binary_of(folder)
    grid, args, outputs = launch_of(folder)
    p = ti.lift(module, grid=grid, args=args)
    after = tile.interpret(module, None, args, grid)
    written = [k for k, a in enumerate(p.arguments) if a.written]
    assert sorted(outputs) == written
    for k, found in zip(written, p(*args), strict=True):
        same(found, after[k])
        same(found, outputs[k].view(np.asarray(found).dtype))


@needs_samples
@pytest.mark.parametrize("folder", [f for f in KERNELS if f.name != "collatz_break"], ids=lambda p: p.name)
def test_the_region_of_a_kernel_means_the_same(folder):
    module = binary_of(folder)
    grid, args, _ = launch_of(folder)
    (entry,) = module.entries.values()
    form = signature(entry, args)
    made = translated(module, entry, grid, form.given(form.key(args)))
    text = print_region(made.region)
    assert print_region(parse_region(text)) == text
    arrays = [a for a in args if isinstance(a, np.ndarray)]
    memories = [m for m in made.memories.values() if m.index >= 0]
    given = {m.name: a.reshape(m.buffer.shape) for m, a in zip(memories, arrays, strict=True)}
    found = interpret(made.region, given)
    for m, wanted in zip(memories, tile.interpret(module, None, args, grid), strict=True):
        same(found[m.name].reshape(wanted.shape), wanted)


VIEW = "tensor_view<8xf32, strides=[1]>"
TILES = f"partition_view<tile=(4), {VIEW}>"


def kernel(index: str, more: str = "") -> tile.Module:
    """Tiles of 4 of p, twice, stored in q at an index."""
    return tile.parse(f"""
    entry @twice(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>, %n: tile<i32>) {{
      {more}
      %v = make_tensor_view %p, shape = [8], strides = [1] : {VIEW}
      %w = make_tensor_view %q, shape = [8], strides = [1] : {VIEW}
      %a = make_partition_view %v : {TILES}
      %b = make_partition_view %w : {TILES}
      %i, %j, %k = get_tile_block_id : tile<i32>
      %zero = constant <i32: 0> : tile<i32>
      %x, %t = load_view_tko weak %a[%i] : {TILES}, tile<i32> -> tile<4xf32>, token
      %y = addf %x, %x : tile<4xf32>
      %u = store_view_tko weak %y, %b[{index}] token = %t : tile<4xf32>, {TILES}, tile<i32> -> token
    }}""")


X = np.arange(8, dtype=np.float32)


def test_a_kernel_is_the_expression_of_its_tiles():
    p = ti.lift(kernel("%i"), grid=2, args=(X, X, 0))
    assert str(p) == (
        "twice(p: tensor<float32, q_0[0:8]>, q: tensor<float32, q_0[0:8]>) {\n"
        "  q ← p + p;\n"
        "}"
    )  # fmt: skip
    assert str(p.report) == "line 2: block bx: parallel"
    np.testing.assert_array_equal(p(X, None, 0)[0], 2 * X)


def test_blocks_that_write_one_element_are_a_race():
    with pytest.raises(DiagnosticError) as error:
        ti.lift(kernel("%zero"), grid=2, args=(X, X, 0))
    (found,) = error.value.diagnostics
    assert (found.code, found.message) == (
        "TL12",
        "two blocks touch one element of 'q', which both write: (bx = 0) and (bx = 1).",
    )
    assert found.help == (
        "give each block elements of its own, or lift with on_hazard='sequential': blocks then run in order."
    )


def test_blocks_that_race_run_in_order_where_that_is_asked_for():
    module = kernel("%zero")
    p = ti.lift(module, grid=2, args=(X, X, 0), on_hazard="sequential")
    np.testing.assert_array_equal(p(X, X.copy(), 0)[0], tile.interpret(module, None, [X, X, 0], (2,))[1])


def test_a_launch_that_an_assumption_contradicts_is_refused():
    module = kernel("%i", "%m = assume div_by<4>, %n : tile<i32>")
    ti.lift(module, grid=2, args=(X, X, 8))
    with pytest.raises(DiagnosticError, match=r"\[TL41\]: the kernel assumes div_by<4> of a number that is 7 here"):
        ti.lift(module, grid=2, args=(X, X, 7))


def test_arguments_are_told_before_a_lift():
    with pytest.raises(DiagnosticError, match=r"\[TK02\]: a kernel is lifted for arguments"):
        ti.lift(kernel("%i"), grid=2)
    with pytest.raises(DiagnosticError, match=r"\[TK03\].*'twice' is of type ptr<f32>, and a number is passed"):
        ti.lift(kernel("%i"), grid=2, args=(1, X, 0))
    with pytest.raises(DiagnosticError, match=r"\[TK04\]: the parameter %p points to f32, and the array holds float64"):
        ti.lift(kernel("%i"), grid=2, args=(X.astype(np.float64), X, 0))


def scaled() -> tile.Module:
    """As many elements of p as n says, n times."""
    return tile.parse("""
    entry @scaled(%p: tile<ptr<f32>>, %n: tile<i32>) {
      %at = iota : tile<8xi32>
      %one = reshape %n : tile<i32> -> tile<1xi32>
      %all = broadcast %one : tile<1xi32> -> tile<8xi32>
      %inside = cmpi less_than %at, %all, signed : tile<8xi32> -> tile<8xi1>
      %q = reshape %p : tile<ptr<f32>> -> tile<1xptr<f32>>
      %r = broadcast %q : tile<1xptr<f32>> -> tile<8xptr<f32>>
      %s = offset %r, %at : tile<8xptr<f32>>, tile<8xi32> -> tile<8xptr<f32>>
      %x, %t = load_ptr_tko weak %s, %inside : tile<8xptr<f32>>, tile<8xi1> -> tile<8xf32>, token
      %f = itof %all signed : tile<8xi32> -> tile<8xf32>
      %y = mulf %x, %f : tile<8xf32>
      %u = store_ptr_tko weak %s, %y, %inside token = %t : tile<8xptr<f32>>, tile<8xf32>, tile<8xi1> -> token
    }""")


@pytest.mark.parametrize("kind", (int, np.int32))
def test_each_integer_has_a_program_of_its_own(kind):
    p = ti.lift(scaled(), args=(X, 3))
    for n in (3, 5, 8, 3):
        np.testing.assert_array_equal(p(X, kind(n))[0], np.where(np.arange(8) < n, X * n, X))
        np.testing.assert_array_equal(p(X, kind(n))[0], tile.interpret(scaled(), None, [X, n])[0])


CHOSEN = """
entry @chosen(%p: tile<ptr<f32>>, %q: tile<ptr<i32>>, %o: tile<ptr<f32>>) {
  %at = iota : tile<8xi32>
  %bx, %by, %bz = get_tile_block_id : tile<i32>
  %c8 = constant <i32: 8> : tile<i32>
  %first = muli %bx, %c8 : tile<i32>
  %one = reshape %first : tile<i32> -> tile<1xi32>
  %all = broadcast %one : tile<1xi32> -> tile<8xi32>
  %i = addi %at, %all : tile<8xi32>
  %wide = exti %i signed : tile<8xi32> -> tile<8xi64>
  %q1 = reshape %q : tile<ptr<i32>> -> tile<1xptr<i32>>
  %q2 = broadcast %q1 : tile<1xptr<i32>> -> tile<8xptr<i32>>
  %q3 = offset %q2, %wide : tile<8xptr<i32>>, tile<8xi64> -> tile<8xptr<i32>>
  %k, %t = load_ptr_tko weak %q3 : tile<8xptr<i32>> -> tile<8xi32>, token
  %far = exti %k signed : tile<8xi32> -> tile<8xi64>
  %p1 = reshape %p : tile<ptr<f32>> -> tile<1xptr<f32>>
  %p2 = broadcast %p1 : tile<1xptr<f32>> -> tile<8xptr<f32>>
  %p3 = offset %p2, %far : tile<8xptr<f32>>, tile<8xi64> -> tile<8xptr<f32>>
  %x, %u = load_ptr_tko weak %p3 : tile<8xptr<f32>> -> tile<8xf32>, token
  %o1 = reshape %o : tile<ptr<f32>> -> tile<1xptr<f32>>
  %o2 = broadcast %o1 : tile<1xptr<f32>> -> tile<8xptr<f32>>
  %o3 = offset %o2, %wide : tile<8xptr<f32>>, tile<8xi64> -> tile<8xptr<f32>>
  %v = store_ptr_tko weak %o3, %x : tile<8xptr<f32>>, tile<8xf32> -> token
}"""
"""The elements of p that q chooses."""
CHOICE = (np.arange(10, dtype=np.float32), np.arange(16, dtype=np.int32) % 10, np.zeros(16, np.float32))


def test_addresses_of_64_bits_need_none_in_a_trace():
    p = ti.lift(tile.parse(CHOSEN), grid=2, args=CHOICE)
    assert "int64" not in str(p)
    (found,) = jax.jit(lambda *arrays: p(*arrays))(*map(jnp.asarray, CHOICE))
    np.testing.assert_array_equal(found, CHOICE[0][CHOICE[1]])


def test_an_index_that_leaves_an_array_is_said_when_it_is_called():
    p = ti.lift(tile.parse(CHOSEN), grid=2, args=CHOICE)
    np.testing.assert_array_equal(p(*CHOICE)[0], CHOICE[0][CHOICE[1]])
    wrong = CHOICE[1].copy()
    wrong[5] = 10
    with pytest.raises(DiagnosticError) as error:
        p(CHOICE[0], wrong, CHOICE[2])
    (found,) = error.value.diagnostics
    assert (found.code, found.message) == ("R01", "an index leaves 'p', which has 10 elements.")
    # within a trace nobody is told, and zero is read
    (values,) = jax.jit(lambda *arrays: p(*arrays))(*map(jnp.asarray, (CHOICE[0], wrong, CHOICE[2])))
    assert values[5] == 0 and values[6] == 6


@pytest.mark.parametrize(
    ("number", "wanted"), [(200, -56), (-128, -128), (np.uint8(255), -1), (256, None), (None, None)]
)
def test_a_number_has_a_sign_or_none(number, wanted):
    module = tile.parse("""entry @k(%p: tile<ptr<i8>>, %n: tile<i8>) {
      %t = store_ptr_tko weak %p, %n : tile<ptr<i8>>, tile<i8> -> token }""")
    args = [np.zeros(1, np.int8), number]
    for run in (lambda: tile.interpret(module, "k", args)[0], lambda: ti.lift(module, args=args)(*args)[0]):
        if wanted is None:
            with pytest.raises(DiagnosticError, match=r"does not fit|needs a number|needs one number"):
                run()
        else:
            assert np.asarray(run()).tolist() == [wanted]


def test_an_index_of_few_bits_has_no_sign():
    view = "partition_view<tile=(1), padding_value = zero, tensor_view<300xf32, strides=[1]>>"
    module = tile.parse(f"""entry @k(%p: tile<ptr<f32>>, %q: tile<ptr<i8>>) {{
      %i, %t = load_ptr_tko weak %q : tile<ptr<i8>> -> tile<i8>, token
      %five = constant <i8: 5> : tile<i8>
      %v = make_tensor_view %p, shape = [300], strides = [1] : tensor_view<300xf32, strides=[1]>
      %w = make_partition_view %v : {view}
      %x, %u = load_view_tko weak %w[%i] : {view}, tile<i8> -> tile<1xf32>, token
      %y = store_view_tko weak %x, %w[%five] : tile<1xf32>, {view}, tile<i8> -> token }}""")
    args = [np.arange(300, dtype=np.float32), np.array([-56], np.int8)]
    assert tile.interpret(module, "k", args)[0][5] == 200
    assert np.asarray(ti.lift(module, args=args)(*args)[0])[5] == 200


def test_a_block_that_is_proven_to_leave_an_array_is_named():
    with pytest.raises(DiagnosticError) as error:
        ti.lift(tile.parse(CHOSEN), grid=3, args=CHOICE)
    (found,) = error.value.diagnostics
    assert (found.code, found.message, found.help) == (
        "TL10",
        "an index of 'q' is 16, and it runs from 0 to 15, in block (bx = 2).",
        "mask the lanes that leave it, or pass a larger array.",
    )


def test_a_lifted_kernel_is_stored_as_its_module():
    text = kernel("%i")
    for module in (text, tile.from_bytecode(tile.to_bytecode(text))):
        p = pickle.loads(pickle.dumps(ti.lift(module, grid=2, args=(X, X, 0))))
        np.testing.assert_array_equal(p(X, None, 0)[0], 2 * X)


def test_arrays_may_be_empty_and_blocks_may_have_nothing_to_do():
    text = (
        str(kernel("%i")).replace("shape = [8]", "shape = [%n]").replace("<8xf32, strides=[1]>", "<?xf32, strides=[1]>")
    )
    text = text.replace(": tensor_view<?xf32", ": tile<i32> -> tensor_view<?xf32").replace(
        "partition_view<tile=(4), tile<i32> -> ", "partition_view<tile=(4), "
    )
    module = tile.parse(text)
    for n in (0, 1, 6):
        x = np.arange(n, dtype=np.float32)
        p = ti.lift(module, grid=2, args=(x, x, n))
        np.testing.assert_array_equal(p(x, x.copy(), n)[0], 2 * x)


def test_a_pointer_that_is_read_from_a_table_is_refused():
    module = tile.parse("""
    entry @grouped(%table: tile<ptr<i64>>, %o: tile<ptr<f32>>) {
      %a, %t = load_ptr_tko weak %table : tile<ptr<i64>> -> tile<i64>, token
      %p = int_to_ptr %a : tile<i64> -> tile<ptr<f32>>
      %x, %u = load_ptr_tko weak %p : tile<ptr<f32>> -> tile<f32>, token
      %v = store_ptr_tko weak %o, %x token = %u : tile<ptr<f32>>, tile<f32> -> token
    }""")
    with pytest.raises(DiagnosticError) as error:
        ti.lift(module, args=(np.zeros(2, np.int64), X))
    (found,) = error.value.diagnostics
    assert (found.code, found.message, found.help) == (
        "TL40",
        "int_to_ptr: a number does not tell which array a pointer points into.",
        "pass each array as an argument of its own, and choose between what is read from them.",
    )
