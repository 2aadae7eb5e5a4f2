"""What single operations do in a launch: folds, shapes, pointers, globals, atomics, control."""

import math

import ml_dtypes
import numpy as np
import pytest

import tensorir as ti
import tensorir.tile as tile


def launch(body, *args, params="", grid=(1,), before="", **options):
    """The arrays after a launch of an entry with this body."""
    module = tile.parse(f"cuda_tile.module @kernels {{ {before} entry @k({params}) {{ {body} }} }}")
    tile.verify(module)
    assert tile.from_bytecode(tile.to_bytecode(module)) == tile.parse(str(module))
    return tile.interpret(module, "k", args, grid, **options)


def computed(lines, result, type, count):
    """The elements of one value, stored through a pointer."""
    body = f"""{lines}
      %flat = reshape {result} : {type} -> tile<{count}xf32>
      %off = iota : tile<{count}xi32>
      %p1 = reshape %p : tile<ptr<f32>> -> tile<1xptr<f32>>
      %pn = broadcast %p1 : tile<1xptr<f32>> -> tile<{count}xptr<f32>>
      %po = offset %pn, %off : tile<{count}xptr<f32>>, tile<{count}xi32> -> tile<{count}xptr<f32>>
      %done = store_ptr_tko weak %po, %flat : tile<{count}xptr<f32>>, tile<{count}xf32> -> token"""
    return launch(body, np.zeros(count, np.float32), params="%p: tile<ptr<f32>>", checked=True)[0].tolist()


X = "%x = constant <f32: [[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]> : tile<2x4xf32>"


@pytest.mark.parametrize(("lines", "type", "wanted"), [
    ("%r = permute %x [1, 0] : tile<2x4xf32> -> tile<4x2xf32>", "tile<4x2xf32>", [1, 5, 2, 6, 3, 7, 4, 8]),
    ("%r = cat %x, %x dim = 0 : tile<2x4xf32>, tile<2x4xf32> -> tile<4x4xf32>", "tile<4x4xf32>", [*range(1, 9)] * 2),
    ("%r = cat %x, %x dim = 1 : tile<2x4xf32>, tile<2x4xf32> -> tile<2x8xf32>", "tile<2x8xf32>",
     [1, 2, 3, 4, 1, 2, 3, 4, 5, 6, 7, 8, 5, 6, 7, 8]),
    ("%i = constant <i32: 1> : tile<i32> %r = extract %x[%i, %i] : tile<2x4xf32> -> tile<1x2xf32>", "tile<1x2xf32>",
     [7, 8]),
    ("%r = reduce %x dim=1 identities=[0.0 : f32] : tile<2x4xf32> -> tile<2xf32> (%a: tile<f32>, %e: tile<f32>)"
     " { %s = addf %a, %e : tile<f32> yield %s : tile<f32> }", "tile<2xf32>", [10, 26]),
    ("%r = reduce %x dim=1 identities=[0.0 : f32] : tile<2x4xf32> -> tile<2xf32> (%a: tile<f32>, %e: tile<f32>)"
     " { yield %e : tile<f32> }", "tile<2xf32>", [4, 8]),
    ("%r = reduce %x dim=0 identities=[0.0 : f32] : tile<2x4xf32> -> tile<4xf32> (%a: tile<f32>, %e: tile<f32>)"
     " { %u = reshape %e : tile<f32> -> tile<1xf32> %v = reshape %u : tile<1xf32> -> tile<f32>"
     " %s = addf %a, %v : tile<f32> yield %s : tile<f32> }", "tile<4xf32>", [6, 8, 10, 12]),
    ("%r = scan %x dim=1 reverse=true identities=[0.0 : f32] : tile<2x4xf32> -> tile<2x4xf32>"
     " (%a: tile<f32>, %e: tile<f32>)"
     " { %s = addf %a, %e : tile<f32> yield %s : tile<f32> }", "tile<2x4xf32>", [10, 9, 7, 4, 26, 21, 15, 8]),
    ("%r = scan %x dim=0 reverse=false identities=[1.0 : f32] : tile<2x4xf32> -> tile<2x4xf32>"
     " (%a: tile<f32>, %e: tile<f32>)"
     " { %s = mulf %a, %e : tile<f32> yield %s : tile<f32> }", "tile<2x4xf32>", [1, 2, 3, 4, 5, 12, 21, 32]),
    ("%y = permute %x [1, 0] : tile<2x4xf32> -> tile<4x2xf32> %c = constant <f32: [[0.5, 0.0], [1.0, 2.0]]> :"
     " tile<2x2xf32> %r = mmaf %x, %y, %c : tile<2x4xf32>, tile<4x2xf32>, tile<2x2xf32>", "tile<2x2xf32>",
     [30.5, 70, 71, 176]),
    ("%c = constant <f32: -3.0> : tile<2x4xf32> %r = remf %x, %c : tile<2x4xf32>", "tile<2x4xf32>",
     [1, 2, 0, 1, 2, 0, 1, 2]),
    ("%c = constant <f32: [-1.0e-40, 1.0e-40]> : tile<2xf32> %d = constant <f32: [-1.0, 1.0]> : tile<2xf32>"
     " %u = maxf %c, %d flush_to_zero : tile<2xf32> %v = minf %c, %d flush_to_zero : tile<2xf32>"
     " %r = cat %u, %v dim = 0 : tile<2xf32>, tile<2xf32> -> tile<4xf32>", "tile<4xf32>", [0, 1, -1, 0]),
    ("%c = constant <f32: [-130.0, 3.0]> : tile<2xf32> %u = exp2 %c flush_to_zero : tile<2xf32>"
     " %v = exp2 %c : tile<2xf32> %r = cat %u, %v dim = 0 : tile<2xf32>, tile<2xf32> -> tile<4xf32>", "tile<4xf32>",
     [0, 8, 2.0**-130, 8]),
    ("%c = constant <f32: [0.25, 1.0e-40]> : tile<2xf32> %r = rsqrt %c flush_to_zero : tile<2xf32>", "tile<2xf32>",
     [2, math.inf]),
    ("%c = constant <f32: [3.0, 0.5]> : tile<2xf32> %d = constant <f32: [2.0, -3.0]> : tile<2xf32>"
     " %r = pow %c, %d : tile<2xf32>", "tile<2xf32>", [9, 8]),
    ("%c = constant <f32: [1.0, -1.0]> : tile<2xf32> %d = constant <f32: [0.0, -1.0]> : tile<2xf32>"
     " %r = atan2 %c, %d : tile<2xf32>", "tile<2xf32>",
     [float(np.float32(math.pi / 2)), float(np.float32(-math.pi * 3 / 4))]),
    ("%c = constant <f16: [1.5, -1.5]> : tile<2xf16> %d = floor %c : tile<2xf16> %e = ceil %c : tile<2xf16>"
     " %u = cat %d, %e dim = 0 : tile<2xf16>, tile<2xf16> -> tile<4xf16> %r = ftof %u : tile<4xf16> -> tile<4xf32>",
     "tile<4xf32>", [1, -2, 2, -1]),
    ("%c = constant <i32: [0x3F800000, 0xC0200000]> : tile<2xi32> %r = bitcast %c : tile<2xi32> -> tile<2xf32>",
     "tile<2xf32>", [1, -2.5]),
])  # fmt: skip
def test_shapes_and_folds(lines, type, wanted):
    assert computed(f"{X} {lines}", "%r", type, len(wanted)) == wanted


@pytest.mark.parametrize("name", ("cos", "cosh", "exp", "log", "log2", "sin", "sinh", "tan", "tanh", "exp2", "sqrt"))
def test_a_function_of_mathematics_is_rounded_to_float32(name):
    lines = f"%c = constant <f32: [0.625, 1.75]> : tile<2xf32> %r = {name} %c : tile<2xf32>"
    wanted = [getattr(math, name)(x) for x in (0.625, 1.75)]
    assert computed(lines, "%r", "tile<2xf32>", 2) == np.array(wanted, np.float32).tolist()


@pytest.mark.parametrize(
    ("lhs", "rhs", "wanted"),
    [
        ("signed", "signed", 830),
        ("unsigned", "signed", 1598),
        ("signed", "unsigned", 1342),
        ("unsigned", "unsigned", 2110),
    ],
)
def test_bytes_are_multiplied_with_their_signs_or_without(lhs, rhs, wanted):
    lines = f"""%a = constant <i8: [[-56, 2]]> : tile<1x2xi8> %b = constant <i8: [[3], [-1]]> : tile<2x1xi8>
      %c = constant <i32: 1000> : tile<1x1xi32>
      %d = mmai %a, %b, %c {lhs} {rhs} : tile<1x2xi8>, tile<2x1xi8>, tile<1x1xi32>
      %r = itof %d signed : tile<1x1xi32> -> tile<1x1xf32>"""
    assert computed(lines, "%r", "tile<1x1xf32>", 1) == [wanted]


@pytest.mark.parametrize(
    ("word", "wanted"),
    [
        ("equal", [0, 1, 0]), ("not_equal", [1, 0, 1]), ("less_than", [1, 0, 0]), ("less_than_or_equal", [1, 1, 0]),
        ("greater_than", [0, 0, 1]), ("greater_than_or_equal", [0, 1, 1]),
    ],
)  # fmt: skip
def test_what_is_no_number_compares_as_the_ordering_says(word, wanted):
    lines = """%c = constant <f32: [1.0, 2.0, 3.0, 0x7FC00000]> : tile<4xf32> %d = constant <f32: 2.0> : tile<4xf32>
      %k = cmpf {} {} %c, %d : tile<4xf32> -> tile<4xi1> %r = itof %k unsigned : tile<4xi1> -> tile<4xf32>"""
    for ordering, last in (("ordered", 0), ("unordered", 1)):
        assert computed(lines.format(word, ordering), "%r", "tile<4xf32>", 4) == [*wanted, last]


@pytest.mark.parametrize(
    ("text", "values", "wanted"),
    [
        ("%d of %5.2f%%|", ["<i32: -7> : tile<i32>", "<f32: 2.375> : tile<f32>"], "-7 of  2.38%|"),
        ("%u %x %X", ["<i8: -1> : tile<i8>", "<i32: 48879> : tile<i32>", "<i16: -2> : tile<i16>"], "255 beef FFFE"),
        (
            "%i %-4d| %+e",
            ["<i1: 1> : tile<i1>", "<i32: 3> : tile<i32>", "<f64: 12.5> : tile<f64>"],
            "1 3   | +1.250000e+01",
        ),
        ("%d", ["<i32: [[1, -2], [3, 4]]> : tile<2x2xi32>"], "[[1, -2], [3, 4]]"),
        ("%c %g", ["<i32: 65> : tile<i32>", "<f16: 0.5> : tile<f16>"], "A 0.5"),
        ("%o", ["<i8: -1> : tile<i8>"], "377"),
    ],
)
def test_what_is_printed_has_the_formats_of_c(text, values, wanted, capsys):
    lines = " ".join(f"%v{k} = constant {value}" for k, value in enumerate(values))
    names, types = ", ".join(f"%v{k}" for k in range(len(values))), ", ".join(v.split(" : ")[1] for v in values)
    launch(f'{lines} %t = print_tko "{text}", {names} : {types} -> token')
    assert capsys.readouterr().out == wanted


def test_scales_belong_to_blocks_of_the_summed_dim():
    lines = """
      %a = constant <f8E4M3FN: 1.0> : tile<1x64xf8E4M3FN>
      %b = constant <f8E4M3FN: 1.0> : tile<64x1xf8E4M3FN>
      %c = constant <f32: 0.5> : tile<1x1xf32>
      %s = constant <f8E8M0FNU: [[2.0, 4.0]]> : tile<1x2xf8E8M0FNU>
      %u = constant <f8E8M0FNU: [[1.0], [8.0]]> : tile<2x1xf8E8M0FNU>
      %r = mmaf_scaled %a, %b, %c, %s, %u : tile<1x64xf8E4M3FN>, tile<64x1xf8E4M3FN>, tile<1x1xf32>,
        tile<1x2xf8E8M0FNU>, tile<2x1xf8E8M0FNU>"""
    assert computed(lines, "%r", "tile<1x1xf32>", 1) == [0.5 + 32 * 2 + 32 * 32]


def test_globals_live_as_long_as_a_launch_and_constants_are_not_written():
    before = "global @table alignment = 16 <f32: [1.0, 2.0]> : tile<2xf32>"
    body = """%g = get_global @table : tile<ptr<f32>>
      %x, %t = load_ptr_tko weak %g : tile<ptr<f32>> -> tile<f32>, token
      %y = addf %x, %x : tile<f32>
      %u = store_ptr_tko weak %g, %y token=%t : tile<ptr<f32>>, tile<f32> -> token
      %v = store_ptr_tko weak %p, %y : tile<ptr<f32>>, tile<f32> -> token"""
    options = {"params": "%p: tile<ptr<f32>>", "before": before}
    assert launch(body, np.zeros(1, np.float32), grid=(3,), **options)[0].tolist() == [8.0]
    with pytest.raises(tile.DiagnosticError, match=r"\[TH04\]: store_ptr_tko writes to '@table' in block \(0, 0, 0\)"):
        launch(body, np.zeros(1, np.float32), **{**options, "before": before.replace("global", "global constant")})


def test_memory_of_a_block_is_its_own():
    body = """%m = alloca num_elem = 4, alignment = 4 : tile<ptr<i32>>
      %i, %j, %k = get_tile_block_id : tile<i32>
      %t = store_ptr_tko weak %m, %i : tile<ptr<i32>>, tile<i32> -> token
      %x, %u = load_ptr_tko weak %m token=%t : tile<ptr<i32>> -> tile<i32>, token
      %q = offset %p, %i : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
      %v = store_ptr_tko weak %q, %x : tile<ptr<i32>>, tile<i32> -> token"""
    for seed in (None, 3):
        after = launch(body, np.zeros(4, np.int32), params="%p: tile<ptr<i32>>", grid=(4,), checked=True, seed=seed)
        assert after[0].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(("mode", "dtype", "old", "value", "wanted"), [
    ("add", "i32", 2**31 - 1, 1, -(2**31)), ("and", "i32", 12, 10, 8), ("or", "i64", 12, 10, 14),
    ("xor", "i32", 12, 10, 6),
    ("max", "i32", -5, 3, 3), ("min", "i32", -5, 3, -5), ("umax", "i32", -5, 3, -5), ("umin", "i64", -5, 3, 3),
    ("xchg", "f32", 1.5, 2.5, 2.5), ("addf", "f32", 1.5, 2.5, 4.0), ("addf", "f16", 2048.0, 1.0, 2048.0),
    ("addf", "bf16", 256.0, 1.0, 256.0), ("addf", "f64", 0.25, 0.5, 0.75),
])  # fmt: skip
def test_atomics_change_memory_and_give_what_it_held(mode, dtype, old, value, wanted):
    kinds = {"i32": np.int32, "i64": np.int64, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32}
    kinds["f64"] = np.float64
    body = f"""%v = constant <{dtype}: {value}> : tile<{dtype}>
      %o, %t = atomic_rmw_tko relaxed device %p, {mode}, %v : tile<ptr<{dtype}>>, tile<{dtype}> -> tile<{dtype}>, token
      %u = store_ptr_tko weak %q, %o : tile<ptr<{dtype}>>, tile<{dtype}> -> token"""
    array = np.array([old], kinds[dtype])
    after = launch(body, array, np.zeros(1, kinds[dtype]), params=f"%p: tile<ptr<{dtype}>>, %q: tile<ptr<{dtype}>>")
    assert (float(after[0][0]), float(after[1][0])) == (wanted, old)


def test_compare_and_swap_compares_bits_and_lanes_take_turns():
    body = """%z = constant <i32: 0> : tile<4xi32>
      %n = constant <i32: [5, 6, 7, 8]> : tile<4xi32>
      %p1 = reshape %p : tile<ptr<i32>> -> tile<1xptr<i32>>
      %pn = broadcast %p1 : tile<1xptr<i32>> -> tile<4xptr<i32>>
      %i = iota : tile<4xi32>
      %q1 = reshape %q : tile<ptr<i32>> -> tile<1xptr<i32>>
      %qn = broadcast %q1 : tile<1xptr<i32>> -> tile<4xptr<i32>>
      %qo = offset %qn, %i : tile<4xptr<i32>>, tile<4xi32> -> tile<4xptr<i32>>
      %o, %t = atomic_cas_tko relaxed device %pn, %z, %n : tile<4xptr<i32>>, tile<4xi32> -> tile<4xi32>, token
      %u = store_ptr_tko weak %qo, %o : tile<4xptr<i32>>, tile<4xi32> -> token"""
    after = launch(body, np.zeros(1, np.int32), np.zeros(4, np.int32), params="%p: tile<ptr<i32>>, %q: tile<ptr<i32>>")
    assert after[0].tolist() == [5] and after[1].tolist() == [0, 5, 5, 5]


def test_addresses_are_aligned_and_lead_back():
    body = """%a = ptr_to_int %p : tile<ptr<f32>> -> tile<i64>
      %d = assume div_by<256>, %a : tile<i64>
      %four = constant <i64: 4> : tile<i64>
      %b = addi %d, %four : tile<i64>
      %q = int_to_ptr %b : tile<i64> -> tile<ptr<f32>>
      %x, %t = load_ptr_tko weak %q : tile<ptr<f32>> -> tile<f32>, token
      %u = store_ptr_tko weak %p, %x : tile<ptr<f32>>, tile<f32> -> token"""
    assert launch(body, np.array([1, 2], np.float32), params="%p: tile<ptr<f32>>", checked=True)[0].tolist() == [2, 2]


def test_a_negative_bound_is_large_where_a_loop_counts_unsigned():
    body = """%low = constant <i32: -3> : tile<i32>
      %high = constant <i32: -1> : tile<i32>
      %one = constant <i32: 1> : tile<i32>
      %zero = constant <i32: 0> : tile<i32>
      %n = for {} %i in (%zero to %high, step %low) : tile<i32> iter_values(%c = %zero) -> (tile<i32>) {{
        %d = addi %c, %one : tile<i32> continue %d : tile<i32> }}
      %t = store_ptr_tko weak %p, %n : tile<ptr<i32>>, tile<i32> -> token"""
    for word, wanted in (("unsigned", 2), ("", 0)):
        text = body.format(word) if word else body.format(word).replace("step %low", "step %one")
        assert launch(text, np.zeros(1, np.int32), params="%p: tile<ptr<i32>>")[0].tolist() == [wanted]
        module = tile.parse(f"cuda_tile.module @kernels {{ entry @k(%p: tile<ptr<i32>>) {{ {text} }} }}")
        assert ti.lift(module, args=[np.zeros(1, np.int32)])(np.zeros(1, np.int32))[0].tolist() == [wanted]


def test_arrays_of_other_libraries_are_taken():
    import jax.numpy as jnp

    body = """%x, %t = load_ptr_tko weak %p : tile<ptr<f32>> -> tile<f32>, token
      %y = addf %x, %f : tile<f32>
      %u = store_ptr_tko weak %p, %y token=%t : tile<ptr<f32>>, tile<f32> -> token"""
    params = "%p: tile<ptr<f32>>, %f: tile<f32>"
    assert launch(body, jnp.array([1.5]), np.float32(2), params=params)[0].tolist() == [3.5]
    assert launch(body, np.array([1.5], np.float32), 2, params=params)[0].tolist() == [3.5]
