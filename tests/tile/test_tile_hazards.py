"""What checked mode reports, with its witness; and what a launch refuses before anything runs."""

import numpy as np
import pytest

import tensorir as ti
import tensorir.tile as tile

VIEW = "partition_view<tile=(4), tensor_view<?xf32, strides=[1]>>"
HEAD = """entry @k(%p: tile<ptr<f32>>, %n: tile<i32>, %s: tile<i32>) {{
  %v = make_tensor_view %p, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
  %w = make_partition_view %v : {}
  %bx, %by, %bz = get_tile_block_id : tile<i32>
  %zero = constant <i32: 0> : tile<i32>
  %one = constant <i32: 1> : tile<i32>
  %ones = constant <f32: 1.0> : tile<4xf32>
  %four = iota : tile<4xi32>
  %r1 = reshape %p : tile<ptr<f32>> -> tile<1xptr<f32>>
  %r = broadcast %r1 : tile<1xptr<f32>> -> tile<4xptr<f32>>
  %q = offset %r, %four : tile<4xptr<f32>>, tile<4xi32> -> tile<4xptr<f32>>
{}
}}"""
LOAD = "load_view_tko weak %w[{}] : {}, tile<i32> -> tile<4xf32>, token"
STORE = "store_view_tko weak {}, %w[{}]{} : tile<4xf32>, {}, tile<i32> -> token"


def load(index, view=VIEW):
    return LOAD.format(index, view)


def store(value, index, token="", view=VIEW):
    return STORE.format(value, index, token and f" token = {token}", view)


def run(*lines, size=8, grid=(1,), checked=True, view=VIEW, **options):
    module = tile.parse(HEAD.format(view, "\n".join(lines)), "k.mlir")
    tile.verify(module)
    return tile.interpret(module, "k", [np.arange(size, dtype=np.float32)], grid, checked, **options)


def found(*lines, **options):
    """The first line of what is reported, and how often something is."""
    with pytest.raises(tile.DiagnosticError) as problem:
        run(*lines, **options)
    return [str(d).splitlines()[0].split(": error")[1] for d in problem.value.diagnostics]


def test_a_pointer_outside_of_its_array_is_refused_checked_or_not():
    lines = (
        "%m = constant <i32: 6> : tile<4xi32>",
        "%k = offset %q, %m : tile<4xptr<f32>>, tile<4xi32> -> tile<4xptr<f32>>",
        "%x, %t = load_ptr_tko weak %k : tile<4xptr<f32>> -> tile<4xf32>, token",
    )
    said = "[TH01]: load_ptr_tko reads element 8 of '%p' in block (0, 0, 0), in lane 2, which has 8."
    assert found(*lines) == found(*lines, checked=False) == [said]


def test_lanes_that_are_masked_may_point_anywhere():
    run(
        "%m = constant <i32: 6> : tile<4xi32>",
        "%k = offset %q, %m : tile<4xptr<f32>>, tile<4xi32> -> tile<4xptr<f32>>",
        "%c = constant <i1: [1, 1, 0, 0]> : tile<4xi1>",
        "%x, %t = load_ptr_tko weak %k, %c, %ones : tile<4xptr<f32>>, tile<4xi1>, tile<4xf32> -> tile<4xf32>, token",
        "%u = store_ptr_tko weak %q, %x token = %t : tile<4xptr<f32>>, tile<4xf32> -> token",
    )


def test_an_index_outside_of_its_space():
    said = "[TH10]: load_view_tko takes the index [2] of a view whose index space is [2] in block (0, 0, 0)."
    assert found("%two = addi %one, %one : tile<i32>", f"%x, %t = {load('%two')}") == [said]


def test_accesses_of_one_block_that_no_token_orders():
    said = (
        "[TH12]: load_view_tko reads element 0 of '%p' in block (0, 0, 0), and no token orders it after what writes it."
    )
    assert found(f"%t = {store('%ones', '%zero')}", f"%x, %u = {load('%zero')}") == [said]
    run(f"%x, %t = {load('%zero')}", f"%u = {store('%ones', '%zero', '%t')}")
    run(f"%t = {store('%ones', '%zero')}", f"%x, %u = {load('%one')}")


def test_joined_tokens_order_what_went_before():
    run(
        f"%x, %t = {load('%zero')}", f"%y, %u = {load('%one')}", "%j = join_tokens %t, %u : token",
        f"%a = {store('%ones', '%zero', '%j')}", f"%b = {store('%ones', '%one', '%j')}",
    )  # fmt: skip


def test_blocks_that_write_one_place():
    said = "[TH13]: store_view_tko in block (1, 0, 0) writes element 0 of '%p', and block (0, 0, 0) writes it."
    assert found(f"%t = {store('%ones', '%zero')}", grid=(2,)) == [said]
    run(f"%t = {store('%ones', '%bx')}", grid=(2,))


def test_atomics_of_blocks_do_not_conflict_but_weak_reads_of_them_do():
    atomic = (
        "%o, %t = atomic_rmw_tko relaxed device %q, addf, %ones : tile<4xptr<f32>>, tile<4xf32> -> tile<4xf32>, token"
    )
    assert run(atomic, grid=(3,))[0][:4].tolist() == [3, 4, 5, 6]
    assert found(atomic, f"%x, %u = {load('%zero')}", grid=(2,))[0].startswith("[TH12]")


def test_a_release_that_is_acquired_orders_blocks():
    view = "partition_view<tile=(4), tensor_view<?xf32, strides=[1]>>"
    one = "%c1 = constant <f32: 1.0> : tile<f32>"
    flag = "%fl = offset %p, %seven : tile<ptr<f32>>, tile<i32> -> tile<ptr<f32>>"
    lines = (
        "%seven = constant <i32: 7> : tile<i32>", one, flag,
        "%first = cmpi equal %bx, %zero, signed : tile<i32> -> tile<i1>",
        "if %first {", f"%t = {store('%ones', '%zero', view=view)}",
        "%o, %u = atomic_rmw_tko {} device %fl, xchg, %c1 token=%t : tile<ptr<f32>>, tile<f32> -> tile<f32>, token",
        "} else {", "%o, %t = atomic_rmw_tko {} device %fl, addf, %c1 : tile<ptr<f32>>, tile<f32> -> tile<f32>, token",
        f"%x, %u = {load('%zero', view)}".replace("] :", "] token = %t :"), "}",
    )  # fmt: skip
    ordered = [
        x.format(y) if "{} device" in x else x
        for x, y in zip(lines, [*[""] * 6, "release", "", "acquire", "", ""], strict=True)
    ]
    run(*ordered, grid=(2,))
    loose = [x.format("relaxed") if "{} device" in x else x for x in lines]
    assert found(*loose, grid=(2,))[0].startswith("[TH13]: load_view_tko in block (1, 0, 0) reads element 0")


def test_padding_without_a_value_must_not_reach_an_argument():
    said = "[TH11]: store_ptr_tko in block (0, 0, 0) leaves an unspecified value in element 2 of '%p'."
    lines = (
        f"%x, %t = {load('%one')}",
        "%u = store_ptr_tko weak %q, %x token = %t : tile<4xptr<f32>>, tile<4xf32> -> token",
    )
    assert found(*lines, size=6) == [said]
    padded = VIEW.replace("(4),", "(4), padding_value = zero,")
    run(lines[0].replace(VIEW, padded), lines[1], size=6, view=padded)


def test_padding_that_is_not_chosen_does_not_matter():
    run(
        f"%x, %t = {load('%one')}", "%c = constant <i1: [1, 1, 0, 0]> : tile<4xi1>",
        "%y = select %c, %x, %ones : tile<4xi1>, tile<4xf32>",
        "%u = store_ptr_tko weak %q, %y token = %t : tile<4xptr<f32>>, tile<4xf32> -> token", size=6,
    )  # fmt: skip


HANDED_ON = {
    "a sign": ("%y = negf %x : tile<4xf32>", 2),
    "an order": (
        "%g = reshape %x : tile<4xf32> -> tile<2x2xf32> %m = permute %g [1, 0] : tile<2x2xf32> -> tile<2x2xf32>"
        " %y = reshape %m : tile<2x2xf32> -> tile<4xf32>", 1,
    ),
    "a part of two": (
        "%g = cat %ones, %x dim = 0 : tile<4xf32>, tile<4xf32> -> tile<8xf32>"
        " %y = extract %g[%one] : tile<8xf32> -> tile<4xf32>", 2,
    ),
    "the other part": (
        "%g = cat %ones, %x dim = 0 : tile<4xf32>, tile<4xf32> -> tile<8xf32>"
        " %y = extract %g[%zero] : tile<8xf32> -> tile<4xf32>", None,
    ),
    "a copy": (
        "%g = reshape %x : tile<4xf32> -> tile<1x4xf32> %m = broadcast %g : tile<1x4xf32> -> tile<2x4xf32>"
        " %h = extract %m[%one, %one] : tile<2x4xf32> -> tile<1x2xf32> %j = reshape %h : tile<1x2xf32> -> tile<2xf32>"
        " %y = cat %j, %j dim = 0 : tile<2xf32>, tile<2xf32> -> tile<4xf32>", 0,
    ),
    "a product with zeros": (
        "%g = ftoi %x signed : tile<4xf32> -> tile<4xi32> %m = constant <i32: [0, 1, 0, 1]> : tile<4xi32>"
        " %h = muli %m, %g : tile<4xi32> %y = itof %h signed : tile<4xi32> -> tile<4xf32>", 3,
    ),
    "bits that are masked": (
        "%g = ftoi %x signed : tile<4xf32> -> tile<4xi32> %m = constant <i32: [5, 5, 0, 0]> : tile<4xi32>"
        " %h = andi %g, %m : tile<4xi32> %y = itof %h signed : tile<4xi32> -> tile<4xf32>", None,
    ),
    "bits that are set": (
        "%g = ftoi %x signed : tile<4xf32> -> tile<4xi32> %m = constant <i32: [5, 5, 0, 0]> : tile<4xi32>"
        " %h = ori %g, %m : tile<4xi32> %y = itof %h signed : tile<4xi32> -> tile<4xf32>", 2,
    ),
    "a row of a product of matrices": (
        "%g = reshape %x : tile<4xf32> -> tile<2x2xf32> %m = constant <f32: 1.0> : tile<2x2xf32>"
        " %h = mmaf %g, %m, %m : tile<2x2xf32>, tile<2x2xf32>, tile<2x2xf32>"
        " %y = reshape %h : tile<2x2xf32> -> tile<4xf32>", 2,
    ),
    "a column of a product of matrices": (
        "%g = reshape %x : tile<4xf32> -> tile<1x4xf32> %m = constant <f32: 1.0> : tile<1x1xf32>"
        " %a = constant <f32: 1.0> : tile<1x4xf32> %h = mmaf %m, %g, %a : tile<1x1xf32>, tile<1x4xf32>, tile<1x4xf32>"
        " %y = reshape %h : tile<1x4xf32> -> tile<4xf32>", 2,
    ),
    "what a product of matrices is added to": (
        "%g = reshape %x : tile<4xf32> -> tile<1x4xf32> %m = constant <f32: 1.0> : tile<1x1xf32>"
        " %a = constant <f32: 1.0> : tile<1x4xf32> %h = mmaf %m, %a, %g : tile<1x1xf32>, tile<1x4xf32>, tile<1x4xf32>"
        " %y = reshape %h : tile<1x4xf32> -> tile<4xf32>", 2,
    ),
    "sums of rows": (
        "%g = reshape %x : tile<4xf32> -> tile<2x2xf32> %m = reduce %g dim=1 identities=[0.0 : f32] : tile<2x2xf32>"
        " -> tile<2xf32> (%a: tile<f32>, %e: tile<f32>) { %h = addf %a, %e : tile<f32> yield %h : tile<f32> }"
        " %y = cat %m, %m dim = 0 : tile<2xf32>, tile<2xf32> -> tile<4xf32>", 1,
    ),
    "sums of columns": (
        "%g = reshape %x : tile<4xf32> -> tile<2x2xf32> %m = reduce %g dim=0 identities=[0.0 : f32] : tile<2x2xf32>"
        " -> tile<2xf32> (%a: tile<f32>, %e: tile<f32>) { %h = addf %a, %e : tile<f32> yield %h : tile<f32> }"
        " %y = cat %m, %m dim = 0 : tile<2xf32>, tile<2xf32> -> tile<4xf32>", 0,
    ),
    "sums so far": (
        "%g = reshape %x : tile<4xf32> -> tile<2x2xf32> %m = scan %g dim=1 reverse=false identities=[0.0 : f32] :"
        " tile<2x2xf32> -> tile<2x2xf32> (%a: tile<f32>, %e: tile<f32>) { %h = addf %a, %e : tile<f32>"
        " yield %h : tile<f32> } %y = reshape %m : tile<2x2xf32> -> tile<4xf32>", 2,
    ),
    "a choice": (
        "%c = cmpf less_than ordered %x, %ones : tile<4xf32> -> tile<4xi1>"
        " %y = select %c, %ones, %ones : tile<4xi1>, tile<4xf32>", 2,
    ),
    "what goes around a loop": (
        "%y = for %i in (%zero to %one, step %one) : tile<i32> iter_values(%a = %ones) -> (tile<4xf32>) {"
        " %h = mulf %a, %x : tile<4xf32> continue %h : tile<4xf32> }", 2,
    ),
}  # fmt: skip
"""What %y is made of %x, of which the last two of four elements are not specified, and its first one that is not."""


@pytest.mark.parametrize("name", HANDED_ON)
def test_what_is_made_of_unspecified_values_is_unspecified(name):
    lines, first = HANDED_ON[name]
    told = (
        []
        if first is None
        else [f"[TH11]: store_ptr_tko in block (0, 0, 0) leaves an unspecified value in element {first} of '%p'."]
    )
    every = (
        f"%x, %t = {load('%one')}", lines,
        "%u = store_ptr_tko weak %q, %y token = %t : tile<4xptr<f32>>, tile<4xf32> -> token",
    )  # fmt: skip
    if told:
        assert found(*every, size=6) == told
    else:
        run(*every, size=6)


BOOLS = "%c = cmpi equal %x, %zero, signed : tile<i32> -> tile<i1>"
DECIDING = {
    "if": [BOOLS, "if %c { }"],
    "load_ptr_tko": [
        "%k = offset %p, %x : tile<ptr<f32>>, tile<i32> -> tile<ptr<f32>>",
        "%y, %u = load_ptr_tko weak %k : tile<ptr<f32>> -> tile<f32>, token",
    ],
    "store_ptr_tko": [
        BOOLS, "%f = constant <f32: 0.0> : tile<f32>",
        "%u = store_ptr_tko weak %p, %f, %c : tile<ptr<f32>>, tile<f32>, tile<i1> -> token",
    ],
    "load_view_tko": [f"%y, %u = {load('%x')}"],
}  # fmt: skip
"""Operations that an unspecified %x sends somewhere."""


@pytest.mark.parametrize("operation", DECIDING)
def test_memory_that_nobody_wrote_must_not_decide(operation):
    unknown = [
        "%m = alloca num_elem = 4, alignment = 4 : tile<ptr<i32>>",
        "%x, %t = load_ptr_tko weak %m : tile<ptr<i32>> -> tile<i32>, token",
    ]
    said = f"[TH15]: {operation} in block (0, 0, 0) depends on an unspecified value."
    assert found(*unknown, *DECIDING[operation])[0] == said
    run("%x = constant <i32: 0> : tile<i32>", *DECIDING[operation])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("%a = assume div_by<16>, %n : tile<i32>",
         "assume says div_by<16> of a value, which is not so, in block (0, 0, 0)."),
        ("%a = assume bounded<0, 7>, %n : tile<i32>",
         "assume says bounded<0, 7> of a value, which is not so, in block (0, 0, 0)."),
        ("%a = assume same_elements<[2]>, %four : tile<4xi32>",
         "assume says same_elements<[2]> of a value, which is not so, in block (0, 0, 0), at element [1]."),
        ("%a = divi %four, %four signed : tile<4xi32>",
         "divi divides by zero, or the least number by -1 in block (0, 0, 0), at element [0]."),
        ("%c = constant <i32: 0x7FFFFFFF> : tile<i32> %a = addi %c, %n overflow<no_signed_wrap> : tile<i32>",
         "addi wraps around, against its promise 'no_signed_wrap' in block (0, 0, 0)."),
        ("%c = constant <i32: [7, 0x7FFFFFFF, 3, 4]> : tile<4xi32> %d = constant <i32: [9, 3, 1, 1]> : tile<4xi32>"
         " %a = subi %c, %d overflow<no_unsigned_wrap> : tile<4xi32>",
         "subi wraps around, against its promise 'no_unsigned_wrap' in block (0, 0, 0), at element [0]."),
        ("%c = constant <i32: [70000, 2, 3, 4]> : tile<4xi32> %a = muli %c, %c overflow<no_wrap> : tile<4xi32>",
         "muli wraps around, against its promise 'no_wrap' in block (0, 0, 0), at element [0]."),
        ("%c = constant <i32: [1, -2147483648]> : tile<2xi32> %a = negi %c overflow<no_signed_wrap> : tile<2xi32>",
         "negi wraps around, against its promise 'no_signed_wrap' in block (0, 0, 0), at element [1]."),
        ("%c = constant <i32: [3, 0x40000000]> : tile<2xi32> %d = constant <i32: [29, 1]> : tile<2xi32>"
         " %a = shli %c, %d overflow<no_signed_wrap> : tile<2xi32>",
         "shli wraps around, against its promise 'no_signed_wrap' in block (0, 0, 0), at element [1]."),
        ("%c = constant <i32: [3, 1]> : tile<2xi32> %d = constant <i32: [31, 32]> : tile<2xi32>"
         " %a = shri %c, %d unsigned : tile<2xi32>",
         "shri shifts by 32 bits or more in block (0, 0, 0), at element [1]."),
        ("%c = constant <i32: [3, 1]> : tile<2xi32> %d = constant <i32: [2, 0]> : tile<2xi32>"
         " %a = remi %c, %d signed : tile<2xi32>", "remi divides by zero in block (0, 0, 0), at element [1]."),
        ("%c = constant <i32: [3, -2147483648]> : tile<2xi32> %d = constant <i32: [-1, -1]> : tile<2xi32>"
         " %a = divi %c, %d signed : tile<2xi32>",
         "divi divides by zero, or the least number by -1 in block (0, 0, 0), at element [1]."),
        ("%c = constant <i32: [-128, 200]> : tile<2xi32>"
         " %a = trunci %c overflow<no_signed_wrap> : tile<2xi32> -> tile<2xi8>",
         "trunci drops bits, against its promise 'no_signed_wrap' in block (0, 0, 0), at element [1]."),
        ("%c = constant <i32: [200, -3]> : tile<2xi32>"
         " %a = trunci %c overflow<no_unsigned_wrap> : tile<2xi32> -> tile<2xi8>",
         "trunci drops bits, against its promise 'no_unsigned_wrap' in block (0, 0, 0), at element [1]."),
        ("%c = constant <i32: [100, 300]> : tile<2xi32> %a = trunci %c overflow<no_wrap> : tile<2xi32> -> tile<2xi8>",
         "trunci drops bits, against its promise 'no_wrap' in block (0, 0, 0), at element [1]."),
        ("%y = extract %four[%n] : tile<4xi32> -> tile<2xi32>",
         "extract extracts a slice outside of its tile in block (0, 0, 0)."),
        ("for %i in (%zero to %n, step %zero) : tile<i32> { }", "for has the step 0 in block (0, 0, 0)."),
        ("%c = constant <f32: 3.0e9> : tile<f32> %a = ftoi %c signed : tile<f32> -> tile<i32>",
         "ftoi converts a number that i32 does not hold in block (0, 0, 0)."),
    ],
)  # fmt: skip
def test_promises_that_do_not_hold_and_results_that_are_undefined(line, said):
    assert found(line) == [f"[TH10]: {said}"]
    run(line, checked=False)


def test_groups_of_assume_count_up():
    run("%a = assume div_by<4, every 4 along 0>, %four : tile<4xi32>")
    assert found("%a = assume div_by<4, every 2 along 0>, %four : tile<4xi32>")[0].endswith("at element [2].")


def test_a_scatter_that_writes_one_place_twice():
    view = "gather_scatter_view<tile=(4), tensor_view<?xf32, strides=[1]>, sparse_dim=0>"
    lines = (
        f"%g = make_gather_scatter_view %v : {view}", "%i = constant <i32: [3, 1, 3, 0]> : tile<4xi32>",
        "%vals = itof %four signed : tile<4xi32> -> tile<4xf32>",
        f"%t = store_view_tko weak %vals, %g[%i] : tile<4xf32>, {view}, tile<4xi32> -> token",
    )  # fmt: skip
    assert found(*lines) == ["[TH14]: store_view_tko writes element 3 of '%p' more than once in block (0, 0, 0)."]
    assert run(*lines, checked=False)[0][:4].tolist() == [3, 1, 2, 2]


def test_an_assertion_that_fails():
    said = "[TH05]: an assertion fails in block (0, 0, 0), at element [3]: too many"
    lines = (
        "%three = constant <i32: 3> : tile<4xi32>",
        "%c = cmpi less_than %four, %three, signed : tile<4xi32> -> tile<4xi1>",
    )
    assert found(*lines, 'assert %c, "too many" : tile<4xi1>', checked=False) == [said]


ARRAY = np.arange(8, dtype=np.float32)
NO_GRID = "is no grid: it has one to three numbers, each from 1 to 16777215, at most 2^31 blocks."
COUNT = "[TK02]: 'k' takes 3 parameters, and these 2 arguments are"
GOOD = tile.parse(HEAD.format(VIEW, ""), "k.mlir")


@pytest.mark.parametrize(
    ("arguments", "options", "said"),
    [
        ([], {}, "[TK02]: 'k' takes 3 parameters, and these 0 arguments are 0."),
        ([ARRAY, ARRAY], {}, f"{COUNT} 6: 2 arrays, each with its extents and strides."),
        ([ARRAY, 8, "x"], {}, "[TK03]: the parameter %s of 'k' needs a number, and this is of type str."),
        ([ARRAY, 8, 1 << 40], {}, "[TK03]: the parameter %s of 'k' is of type i32, which 1099511627776 does not fit."),
        ([ARRAY, 8, 1.5], {}, "[TK03]: the parameter %s of 'k' is of type i32, which 1.5 does not fit."),
        ([ARRAY, 8, None], {}, "[TK03]: the parameter %s of 'k' needs a number, and this is of type NoneType."),
        ([8, 8, 1], {}, "[TK03]: the parameter %p of 'k' is a pointer, and a number is passed."),
        ([ARRAY, ARRAY, 1], {}, "[TK03]: the parameter %n of 'k' is of type i32, and an array is passed."),
        ([ARRAY.astype(np.float64)], {}, "[TK04]: the parameter %p of 'k' points to f32, and the array holds float64."),
        ([ARRAY.astype(np.int32)], {}, "[TK04]: the parameter %p of 'k' points to f32, and the array holds int32."),
        ([ARRAY], {"grid": (0,)}, f"[TK05]: (0,) {NO_GRID}"),
        ([ARRAY], {"grid": (1 << 31,)}, f"[TK05]: (2147483648,) {NO_GRID}"),
        ([ARRAY], {"grid": (2, (1, 2))}, f"[TK05]: (2, (1, 2)) {NO_GRID}"),
        ([ARRAY], {"grid": np.ones((2, 2), int)}, f"[TK05]: ([1, 1], [1, 1]) {NO_GRID}"),
        ([ARRAY], {"grid": np.array(1.5)}, f"[TK05]: (1.5,) {NO_GRID}"),
        ([ARRAY], {"grid": np.array(True)}, f"[TK05]: (True,) {NO_GRID}"),
        ([ARRAY], {"grid": "2"}, f"[TK05]: ('2',) {NO_GRID}"),
        ([ARRAY], {"entry": "nope"}, "[TK01]: there is no entry 'nope' in this module."),
    ],
)  # fmt: skip
def test_a_launch_that_does_not_fit_is_refused_and_writes_nothing(arguments, options, said):
    before = ARRAY.copy()
    with pytest.raises(tile.DiagnosticError) as problem:
        tile.interpret(GOOD, options.get("entry", "k"), arguments, options.get("grid", (1,)))
    assert said in str(problem.value)
    assert np.array_equal(ARRAY, before)


@pytest.mark.parametrize("grid", [2, (2,), [2], np.int64(2), np.array(2), np.array([2]), (np.array(2),), (2, 1, 1)])
def test_a_grid_is_a_number_or_up_to_three(grid):
    (after,) = run(f"%t = {store('%ones', '%bx')}", grid=grid)
    assert after.tolist() == [1] * 8


def test_arguments_are_never_changed_and_come_back_as_they_came():
    given = np.arange(8, dtype=np.float32)
    module = tile.parse(HEAD.format(VIEW, f"%t = {store('%ones', '%zero')}"))
    (after,) = tile.interpret(module, "k", [given])
    assert after.tolist() == [1, 1, 1, 1, 4, 5, 6, 7] and given.tolist() == list(range(8))
    assert after.dtype == given.dtype and after.flags.writeable


# The same of lifted kernels, told by `checked` with the place of the result or the block that shows it.

PADDED = VIEW.replace("(4),", "(4), padding_value = zero,")
COPIED = "%u = store_ptr_tko weak %q, %x token = %t : tile<4xptr<f32>>, tile<4xf32> -> token"


def lifted(*lines, size=8, grid=(1,), view=VIEW):
    """What a checked run of the lifted kernel says, and what both it and the interpreter leave in the array."""
    module = tile.parse(HEAD.format(view, "\n".join(lines)), "k.mlir")
    given = [np.arange(size, dtype=np.float32)]
    p = ti.lift(module, grid=grid, args=given)
    error, (found,) = p.checked(*given)
    np.testing.assert_array_equal(found, tile.interpret(module, "k", given, grid)[0])
    return [] if error is None else [(d.message, *d.notes) for d in error.diagnostics]


@pytest.mark.parametrize("grid", ((3,), (2,)))
def test_a_lifted_kernel_tells_of_an_index_outside_of_its_space(grid):
    said = lifted(f"%x, %t = {load('%bx')}", f"%u = {store('%x', '%bx', '%t')}", grid=grid)
    ops = ("load_view_tko", "store_view_tko") if grid == (3,) else ()
    assert [m for m, _ in said] == [f"index 0 of {op} is none of the 2 of its space." for op in ops]
    assert all(note.endswith("= 2.") for _, note in said)


def test_a_lifted_kernel_tells_of_an_index_in_a_round_outside_of_its_space():
    three = "%three = constant <i32: 3> : tile<i32>"
    loop = "%y = for %i in (%zero to %three, step %one) : tile<i32> iter_values(%acc = %ones) -> (tile<4xf32>) {"
    sums = f"%x, %t = {load('%i', PADDED)} %z = mulf %acc, %x : tile<4xf32> continue %z : tile<4xf32> }}"
    said = lifted(three, loop, sums, f"%u = {store('%y', '%zero', view=PADDED)}", view=PADDED)
    assert "index 0 of load_view_tko is none of the 2 of its space." in [m for m, _ in said]


@pytest.mark.parametrize(("size", "view", "told"), ((6, VIEW, True), (6, PADDED, False), (8, VIEW, False)))
def test_a_lifted_kernel_tells_of_padding_that_reaches_a_result(size, view, told):
    said = lifted(f"%x, %t = {load('%one', view)}", COPIED, size=size, view=view)
    message = "a value that padding leaves unspecified reaches 'p'.", "it fails first at p_0 = 2."
    assert said == ([message] if told else [])


def test_a_lifted_kernel_may_pad_what_is_not_stored_or_not_chosen():
    chosen = (
        "%c = constant <i1: [1, 1, 0, 0]> : tile<4xi1>", "%y = select %c, %x, %ones : tile<4xi1>, tile<4xf32>",
        COPIED.replace("%x", "%y"),
    )  # fmt: skip
    assert lifted(f"%x, %t = {load('%one')}", *chosen, size=6) == []
    assert lifted(f"%x, %t = {load('%one')}", f"%u = {store('%x', '%one', '%t')}", size=6) == []


def test_a_largest_element_that_drops_nan_hides_no_padding():
    largest = (
        "%m = reduce %x dim=0 identities=[-3.0e38 : f32] : tile<4xf32> -> tile<f32> (%a: tile<f32>, %b: tile<f32>) {",
        "%larger = maxf %a, %b : tile<f32> yield %larger : tile<f32> }",
        "%k = store_ptr_tko weak %p, %m token = %t : tile<ptr<f32>>, tile<f32> -> token",
    )
    said = lifted(f"%x, %t = {load('%one')}", *largest, size=7)
    assert [m for m, _ in said] == ["a value that padding leaves unspecified reaches 'p'."]
