"""Texts and bytes of Tile IR: what is read is what is written."""

import xml.etree.ElementTree
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import tensorir.tile as tile
from tensorir.runtime.errors import Source
from tensorir.tile import from_bytecode, parse, to_bytecode, verify
from tensorir.tile.bytecode.bytes import ByteSpan
from tensorir.tile.interpret.elements import pack, unpack
from tensorir.tile.interpret.hazards import coordinates, index_space
from tensorir.tile.interpret.machine import _OTHERS, _TOUCHING
from tensorir.tile.interpret.meanings import MEANINGS
from tensorir.tile.nodes import CallSite, Place, Scoped
from tensorir.tile.operations import TABLE
from tensorir.tile.text.cursor import Cursor
from tensorir.tile.text.types import TypeReader
from tensorir.tile.types import ELEMENTS

# Forms of the text


PLAIN = tile.parse("entry @k(%x: tile<i32>, %c: tile<i1>) { %y = addi %x, %x : tile<i32> if %c { return } }")


@pytest.mark.parametrize("text", [
    "cuda_tile.entry @k(%x: !cuda_tile.tile<i32>, %c: !cuda_tile.tile<i1>) {"
    " %y = cuda_tile.addi %x, %x : !cuda_tile.tile<i32> cuda_tile.if %c { cuda_tile.return } cuda_tile.return }",
    "cuda_tile.module @o { entry @k(%x: tile<i32>, %c: tile<i1>) { %y = addi %x, %x : tile<i32> if %c { return } } }",
    "module { cuda_tile.module @m { entry @k(%a: tile<i32>, %b: tile<i1>) { %y = addi %a, %a : tile<i32>"
    " if %b { return } } } }",
    "#i = loc(\"f.py\":3:4)\n!i = tile<i32>\nentry @k(%x: !i, %c: tile<i1>) { %y = addi %x, %x : !i loc(#i)"
    " if %c { return } }",
    "!i = tile<i32>\n#i = loc(\"f.py\":3:4)\nentry @k(%x: !i, %c: tile<i1>) { %y = addi %x, %x : !i loc(#i)"
    " if %c { return } }",
    "!i = tile<i32> // a comment\nentry @k(%x: !i, %c: tile<i1> {hint.of = 3 : i32}) { // another\n"
    " %y = addi %x, %x : !i loc(\"f.py\":3:4)\n if %c { return } loc(unknown) }",
    "\"builtin.module\"() ({ \"cuda_tile.module\"() <{sym_name = \"m\"}> ({ \"cuda_tile.entry\"() <{function_type ="
    " (!cuda_tile.tile<i32>, !cuda_tile.tile<i1>) -> (), sym_name = \"k\"}> ({ ^bb0(%x: !cuda_tile.tile<i32>,"
    " %c: !cuda_tile.tile<i1>): %y = \"cuda_tile.addi\"(%x, %x) <{overflow = #cuda_tile.overflow<none>}> :"
    " (!cuda_tile.tile<i32>, !cuda_tile.tile<i32>) -> !cuda_tile.tile<i32> \"cuda_tile.if\"(%c) ({"
    " \"cuda_tile.return\"() : () -> () }, {}) : (!cuda_tile.tile<i1>) -> () \"cuda_tile.return\"() : () -> () })"
    " : () -> () }) : () -> () }) : () -> ()",
    "cuda_tile.module @m { entry @k(%x: tile<i32>, %c: tile<i1>) { %y = addi %x, %x : tile<i32> if %c { return } } }"
    " {-# dialect_resources: { x: 1 } #-}",
    *(
        f"{{-# }} #-}} #l = loc(\"a.py\":9:2) entry @k(%x: tile<i32>, %c: tile<i1>) {{ %y = addi %x, %x : tile<i32>"
        f" {at} if %c {{ return }} }}"
        for at in (
            'loc("n")', 'loc("a.py":3:4 to 5:6)', 'loc(fused["x", "a.py":7:8])', "loc(#l)", 'loc("n"("a.py":3:4))',
            'loc(callsite("a.py":1:2 at callsite("n" at "b.py":3:4)))', 'loc(fused<"meta">[#l])',
        )
    ),
])  # fmt: skip
def test_forms_of_one_module_are_equal(text):
    assert tile.parse(text) == PLAIN
    assert tile.verify(tile.parse(text)) == ()


def test_a_module_in_a_module_goes_round():
    module = tile.parse("cuda_tile.module @m { module @k attributes {a = 1 : i32} { entry @f() { return } } }")
    assert "\n  cuda_tile.module @k attributes {a = 1 : i32} {\n    entry @f() {\n" in str(module)
    assert tile.parse(str(module)) == module


def test_modules_differ_where_they_say_another_thing():
    changes = (
        ("addi", "muli"),
        ("x, %x", "x, %x overflow<no_wrap>"),
        ("i32", "i64"),
        ("    return\n", ""),
        ("@k", "@l"),
    )
    for change in changes:
        assert tile.parse(str(PLAIN).replace(*change)) != PLAIN


def test_a_function_of_the_dialect_s_own_tests_is_read():
    text = "cuda_tile.module @t { testing$func @f(%p: !cuda_tile.ptr<f32>, %t: token) -> tile<4xf32> {"
    text += " %x = constant <f32: 1.0> : tile<4xf32> return %x : tile<4xf32> } }"
    module = tile.parse(text)
    assert tile.verify(module) == () and tile.parse(str(module)) == module
    with pytest.raises(tile.DiagnosticError, match=r"\[TB13\]: testing\$func cannot be written to bytecode 13.3."):
        tile.to_bytecode(module)


SCOPED = """
#file = #cuda_tile.di_file<"k.py" in "/src">
#unit = #cuda_tile.di_compile_unit<file = #file>
#sub = #cuda_tile.di_subprogram<
  file = #file, line = 1, name = "k", linkageName = "k", compileUnit = #unit, scopeLine = 2>
#block = #cuda_tile.di_lexical_block<scope = #sub, file = #file, line = 3, column = 4>
#at = loc("k.py":3:5)
cuda_tile.module @kernels {
  entry @k() {
    %t = make_token : token loc(#cuda_tile.di_loc<#at in #block>)
    %u = make_token : token loc(callsite("g.py":1:1 at "k.py":9:9))
  } loc(#cuda_tile.di_loc<loc("k.py":1:1) in #sub>)
}"""


def test_locations_are_kept_or_dropped_and_never_compared():
    module = tile.parse(SCOPED)
    assert tile.verify(module) == ()
    first, second, _ = module.operations[0].regions[0].operations
    assert isinstance(first.location, Scoped) and first.location.place == Place("k.py", 3, 5)
    assert isinstance(second.location, CallSite)
    again = tile.from_bytecode(tile.to_bytecode(module))
    assert again.operations[0].regions[0].operations[0].location == first.location
    printed = tile.parse(tile.print_module(module, locations=True))
    assert printed.operations[0].regions[0].operations[1].location == second.location
    bare = tile.from_bytecode(tile.to_bytecode(module, debug=False))
    assert bare == module and bare.operations[0].location is None


@pytest.mark.parametrize(("old", "new", "said"), [
    ('linkageName = "k"', 'linkageName = "q"',
     "the linkage name of the entry's scope is 'q', and the entry is 'k'."),
    ('} loc(#cuda_tile.di_loc<loc("k.py":1:1) in #sub>)', "}", "make_token has a scope, and its entry has none."),
    ("in #sub>)\n}", "in #block>)\n}", "the scope of an entry is a subprogram."),
])  # fmt: skip
@pytest.mark.parametrize("form", ["{}", 'loc("name"({}))', 'loc(fused["k.py":1:1, {}])', 'loc(fused<"x">["n"({})])'])
def test_scopes_are_those_of_their_entry(old, new, said, form):
    # in every form of a location; dialect 13.3 says so of each
    text = SCOPED.replace(old, new)
    for scope in ("#cuda_tile.di_loc<#at in #block>", '#cuda_tile.di_loc<loc("k.py":1:1) in #sub>',
                  '#cuda_tile.di_loc<loc("k.py":1:1) in #block>'):  # fmt: skip
        text = text.replace(f"loc({scope})", form.format(scope) if form != "{}" else f"loc({scope})")
    with pytest.raises(tile.DiagnosticError) as found:
        tile.verify(tile.parse(text))
    assert f"error[TV16]: {said}" in str(found.value)


def test_the_scope_of_a_call_is_that_of_its_caller():
    other = (
        '#other = #cuda_tile.di_subprogram<file = #file, line = 1, name = "g", linkageName = "g", compileUnit = #unit>'
    )
    text = SCOPED.replace("#at = ", f"{other}\n#at = ")
    inner, own = "#cuda_tile.di_loc<#at in #other>", "#cuda_tile.di_loc<#at in #block>"
    assert tile.verify(tile.parse(text.replace('"g.py":1:1 at "k.py":9:9', f"{inner} at {own}"))) == ()
    with pytest.raises(tile.DiagnosticError, match="belongs to another function than its entry"):
        tile.verify(tile.parse(text.replace('"g.py":1:1 at "k.py":9:9', f"{own} at {inner}")))


def test_several_results_are_named_by_the_first_where_no_number_says_which():
    text = """entry @k(%p: tile<ptr<f32>>) {
  %a:2 = load_ptr_tko weak %p : tile<ptr<f32>> -> tile<f32>, token
  %t = store_ptr_tko weak %p, %a : tile<ptr<f32>>, tile<f32> -> token
}"""
    module = tile.parse(text)
    assert tile.verify(module) == () and module == tile.parse(text.replace("%p, %a :", "%p, %a#0 :"))


def test_hints_that_no_architecture_knows_are_noted():
    hints = "sm_99 = {}, sm_100 = {occupancy = 99, colour = 1}, default = {num_cta_in_cga = 3}"
    text = f"entry @k() optimization_hints=<{hints}> {{}}"
    notes = [note.message for note in tile.verify(tile.parse(text))]
    assert notes == [
        "the hint 'num_cta_in_cga' for default is a power of two up to 16.", "entry has no hint 'colour'.",
        "the hint 'occupancy' for sm_100 is 1 to 32.", "no architecture is called 'sm_99'.",
    ]  # fmt: skip


@pytest.mark.parametrize(("hint", "right", "wrong", "said"), [
    ("allow_tma", ("true", "false"), ("3",), "true or false"),
    ("latency", ("1", "10"), ("0", "11", "true"), "1 to 10"),
])  # fmt: skip
def test_values_of_hints_are_noted_beyond_each_side_of_their_range(hint, right, wrong, said):
    text = """entry @f(%p: tile<ptr<f32>>, %i: tile<i32>) {{
  %v = make_tensor_view %p, shape = [64], strides = [1] : tensor_view<64xf32, strides=[1]>
  %w = make_partition_view %v : partition_view<tile=(8), padding_value = nan, tensor_view<64xf32, strides=[1]>>
  %x, %t = load_view_tko weak %w[%i] optimization_hints = <sm_100 = {{{}}}>
    : partition_view<tile=(8), padding_value = nan, tensor_view<64xf32, strides=[1]>>, tile<i32> -> tile<8xf32>, token
}}"""
    for value in (*right, *wrong):
        notes = [note.message for note in tile.verify(tile.parse(text.format(f"{hint} = {value}")))]
        assert notes == ([] if value in right else [f"the hint '{hint}' for sm_100 is {said}."])


@pytest.mark.parametrize(("element", "literal", "value"), [
    ("f32", "0x7F800000", np.inf), ("f16", "1.0e9", np.inf), ("bf16", "3.140625", 3.140625), ("f64", "0.1", 0.1),
    ("i8", "255", -1), ("i8", "0x80", -128), ("i64", "-9223372036854775808", -(2**63)), ("i1", "-1", True),
    ("f8E4M3FN", "0x7E", 448.0), ("tf32", "1.0", 1.0), ("f8E8M0FNU", "0x80", 2.0),
    ("f32", "1.0e-999999999", 0.0), ("f32", "-7.1e-46", -(2.0**-149)),
])  # fmt: skip
def test_literals_are_their_numbers(element, literal, value):
    module = tile.parse(f"entry @k() {{ %x = constant <{element}: {literal}> : tile<2x{element}> }}")
    constant = module.operations[0].regions[0].operations[0].attribute("value")
    assert constant.values.tolist() == [value, value]
    assert tile.parse(str(module)) == module and tile.from_bytecode(tile.to_bytecode(module)) == module


def test_halves_of_bytes_are_loaded_and_stored_in_their_order():
    view = "partition_view<tile=(4), tensor_view<8xf4E2M1FN, strides=[1]>>"
    text = f"""entry @k(%p: tile<ptr<f4E2M1FN>>, %q: tile<ptr<f4E2M1FN>>) {{
      %v = make_tensor_view %p, shape = [8], strides = [1] : tensor_view<8xf4E2M1FN, strides=[1]>
      %w = make_partition_view %v : {view}
      %u = make_tensor_view %q, shape = [8], strides = [1] : tensor_view<8xf4E2M1FN, strides=[1]>
      %z = make_partition_view %u : {view}
      %i, %j, %l = get_tile_block_id : tile<i32>
      %x, %t = load_view_tko weak %w[%i] : {view}, tile<i32> -> tile<4xf4E2M1FN>, token
      %s = store_view_tko weak %x, %z[%i] : tile<4xf4E2M1FN>, {view}, tile<i32> -> token
    }}"""
    module = tile.parse(text)
    tile.verify(module)
    given = np.array([0.5, 1.5, -6.0, 0.0, 1.0, 2.0, 3.0, 4.0], ml_dtypes.float4_e2m1fn)
    after = tile.interpret(module, "k", [given, np.zeros_like(given)], (2,), checked=True)
    assert after[1].tolist() == given.tolist()
    odd = text
    for old, new in (("(4)", "(2)"), ("tile<4x", "tile<2x"), ("strides = [1]", "strides = [3]"), ("=[1]", "=[3]")):
        odd = odd.replace(old, new)
    with pytest.raises(tile.DiagnosticError, match=r"\[TH16\]: load_view_tko accesses elements of '%p' that are no"):
        tile.interpret(tile.parse(odd), "k", [np.zeros(32, ml_dtypes.float4_e2m1fn)] * 2, (1,), checked=True)


def test_numbers_of_hints_have_no_type_of_their_own():
    module = tile.parse("entry @k() optimization_hints=<sm_100 = {occupancy = 2}> {}")
    assert module == tile.parse("entry @k() optimization_hints=<sm_100 = {occupancy = 2 : i32}> {}")
    assert "optimization_hints=<sm_100 = {occupancy = 2}>" in str(module)
    assert tile.from_bytecode(tile.to_bytecode(module)) == module


# Types, views and index spaces


def read(text):
    return TypeReader(Cursor(Source("t", text))).read()


TENSOR = "tensor_view<64x16xf32, strides=[16, 1]>"
SPACES = [
    ("partition_view<tile=(128x128), tensor_view<64x256xf32, strides=[256,1]>>", (1, 2)),
    ("partition_view<tile=(2), tensor_view<16xf32, strides=[1]>>", (8,)),
    (f"partition_view<tile=(4x2), {TENSOR}>", (16, 8)),
    (f"partition_view<tile=(4x2), {TENSOR}, dim_map=[1, 0]>", (4, 32)),
    ("partition_view<tile=(1x4), padding_value = nan, tensor_view<8x2xf32, strides=[2,1]>>", (8, 1)),
    ("strided_view<tile=(2), traversal_strides=[2], tensor_view<16xf32, strides=[1]>>", (8,)),
    ("strided_view<tile=(2), traversal_strides=[3], tensor_view<16xf32, strides=[1]>>", (6,)),
    ("strided_view<tile=(2), traversal_strides=[1], tensor_view<8xf32, strides=[1]>>", (8,)),
    (f"strided_view<tile=(4x2), traversal_strides=[4,3], {TENSOR}>", (16, 6)),
    (f"strided_view<tile=(4x2), traversal_strides=[4,3], {TENSOR}, dim_map=[1, 0]>", (4, 22)),
    ("strided_view<tile=(1x4), traversal_strides=[1,4], tensor_view<8x2xf32, strides=[2,1]>>", (8, 1)),
    ("gather_scatter_view<tile=(4), tensor_view<8xf32, strides=[1]>, sparse_dim=0>", (8,)),
    ("gather_scatter_view<tile=(4x4), tensor_view<8x8xf32, strides=[8, 1]>, sparse_dim=0>", (8, 8)),
    ("gather_scatter_view<tile=(8x16), tensor_view<128x256xf32, strides=[256, 1]>, sparse_dim=1>", (128, 256)),
]


@pytest.mark.parametrize(("text", "space"), SPACES)
def test_the_index_space_of_each_example_is_that_of_the_document(text, space):
    view = read(text)
    assert index_space(view, view.tensor.shape) == space


@pytest.mark.parametrize(("text", "space"), SPACES)
def test_each_example_is_drawn(text, space):
    drawn = tile.picture(text)
    assert f"an index space of {'x'.join(map(str, space))}" in drawn.words
    xml.etree.ElementTree.fromstring(drawn.svg)
    whole = "… of" not in drawn.svg
    assert not whole or ("are outside" in drawn.words) == ("<path" in drawn.svg)


OTHERS = (
    "tile<8x4xf32>", "tile<4xptr<i8>>", "tile<ptr<f4E2M1FN>>", "token", "tensor_view<?x?xf16, strides=[?,1]>",
    "tensor_view<f32>", "(tile<i32>, token) -> tile<f32>", "tile<2xi4>",
)  # fmt: skip


@pytest.mark.parametrize("text", [*(t for t, _ in SPACES), *OTHERS])
def test_a_type_reads_as_it_prints_with_its_prefix_or_without(text):
    type = read(text)
    assert read(str(type)) == type
    assert read(f"!cuda_tile.{text}" if text[0] != "(" else text) == type


def test_types_are_equal_where_they_are_structurally_identical():
    assert read("tile<4x!cuda_tile.ptr<f32>>") == read("!cuda_tile.tile<4xptr<f32>>")
    assert read("tensor_view<?xf32, strides=[1]>") != read("tensor_view<8xf32, strides=[1]>")


def test_tile_5_of_the_example_hangs_over_the_edge():
    view = read("strided_view<tile=(2), traversal_strides=[3], tensor_view<16xf32, strides=[1]>>")
    ((places, inside),) = coordinates(view, (5,), (16,))
    assert places[0] == 15 and inside.tolist() == [True, False]


def test_a_gather_of_rows_6_1_4_3_is_those_elements():
    view = read("gather_scatter_view<tile=(4), tensor_view<8xf32, strides=[1]>, sparse_dim=0>")
    ((places, inside),) = coordinates(view, ([6, 1, 4, 3],), (8,))
    assert places.tolist() == [6, 1, 4, 3] and inside.all()
    ((_, inside),) = coordinates(view, ([6, 8, -1, 3],), (8,))
    assert inside.tolist() == [True, False, False, True]


def test_a_half_and_one_and_a_half_are_the_byte_of_the_document():
    f4 = ELEMENTS["f4E2M1FN"]
    halves = np.array([0.5, 1.5], ml_dtypes.float4_e2m1fn)
    assert pack(halves, f4).view(np.uint8).tolist() == [0b00110001]
    assert unpack(np.array([0b00110001], np.int8), f4).tolist() == halves.tolist()


def test_a_picture_of_what_is_none_is_refused():
    with pytest.raises(tile.DiagnosticError, match="a picture is of a partition_view"):
        tile.picture("tile<4xf32>")
    with pytest.raises(tile.DiagnosticError, match=r"\[TK08\]: a picture has one or two dims"):
        tile.picture("partition_view<tile=(4), tensor_view<?xf32, strides=[1]>>")


def test_a_page_holds_the_text_escaped():
    module = tile.parse('entry @k(%c: tile<i1>) { assert %c, "<script>" : tile<i1> if %c { return } }')
    page = module._repr_html_()
    assert "&lt;script&gt;" in page and "<script" not in page and page.count("<details") == 2


def test_a_notebook_shows_a_view_as_its_picture_or_its_text():
    assert "<svg" in read("partition_view<tile=(2), tensor_view<16xf32, strides=[1]>>")._repr_html_()
    text = read("partition_view<tile=(2), tensor_view<?xf32, strides=[1]>>")._repr_html_()
    assert "<svg" not in text and "tensor_view&lt;?xf32" in text


def test_a_constant_index_out_of_its_tile_is_noted():
    lines = "%x = constant <f32: 1.0> : tile<8xf32> %i = constant <i32: 4> : tile<i32>"
    module = tile.parse(f"entry @k() {{ {lines} %y = extract %x[%i] : tile<8xf32> -> tile<2xf32> }}")
    (note,) = tile.verify(module)
    assert note.message == "the index 4 of dim 0 leads out of the 4 slices of tile<8xf32>."


# Bytes that say nothing right are refused with their place

RIGHT = to_bytecode(parse("entry @f(%x: tile<i32>) { %y = addi %x, %x : tile<i32> }"))


def said(data: bytes) -> str:
    with pytest.raises(tile.DiagnosticError) as found:
        from_bytecode(data, "k.tileirbc")
    return str(found.value)


def test_the_header_is_checked():
    assert said(b"MLIR" + RIGHT[4:]) == (
        "k.tileirbc: byte 0x0: error[TB01]: this is no Tile IR bytecode: it does not begin with 7F 'TileIR' 00.\n"
        "  00000000  4D 4C 49 52 65 49 52 00 0D 03 00 00 82 0E 08 CB\n"
        "            ^^"
    )
    assert said(RIGHT[:8] + b"\x0c\x00" + RIGHT[10:]).splitlines()[0] == (
        "k.tileirbc: byte 0x8: error[TB05]: the file is of version 12.0, which is not read."
    )


def test_a_file_that_ends_early_says_where():
    assert (
        said(RIGHT[:-1])
        .splitlines()[0]
        .endswith("error[TB02]: the file ends, or this part of it, before the end of the file, a byte 0.")
    )
    for stop in range(len(RIGHT)):
        assert said(RIGHT[:stop]).startswith("k.tileirbc: byte ")


def test_sections_stand_once_and_are_aligned():
    assert "error[TB06]: bytes follow the end of the file." in said(RIGHT + b"\x01")
    assert "error[TB06]: there is no section of the number 9." in said(RIGHT[:-1] + b"\x09\x00\x00")
    assert "error[TB06]: the section Func is there twice." in said(RIGHT[:-1] + b"\x82\x00\x08" + RIGHT[-1:])
    assert from_bytecode(RIGHT + b"\xcb\xcb") == from_bytecode(RIGHT)


def test_a_type_that_is_its_own_part_is_refused():
    head = b"\x7fTileIR\x00\x0d\x03\x00\x00"
    func = b"\x82\x08\x08\xcb" + b"\x01\x00\x00\x02\x00\x01\x5c\x00"
    # one type: a tile of the type 0, which is itself
    kinds = b"\x85\x11\x04\xcb\xcb\xcb\xcb" + b"\x01\xcb\xcb\xcb\x00\x00\x00\x00\x0d\x00" + b"\x00" * 7
    strings = b"\x81\x09\x04\xcb\xcb" + b"\x01\xcb\xcb\xcb\x00\x00\x00\x00k" + b"\x00"
    found = said(_aligned(head, func, kinds, strings))
    assert "error[TB09]: the type 0 is a part of itself." in found


def _aligned(head: bytes, *sections: bytes) -> bytes:
    """Sections with the padding before their payload that their alignment needs."""
    file = bytearray(head)
    for section in sections:
        number, length, alignment = section[0], section[1], section[2]
        payload = section[3:].lstrip(b"\xcb")
        end = payload[length:]
        file += bytes([number, length, alignment])
        file += b"\xcb" * (-len(file) % alignment)
        file += payload[:length] + end
    return bytes(file)


def test_what_is_newer_than_a_file_is_refused_with_both_versions():
    module = parse(
        "entry @f(%x: tile<i32>) { %y = atan2 %a, %a : tile<f32> }".replace(
            "%y", "%a = constant <f32: 1.0> : tile<f32> %y"
        )
    )
    data = to_bytecode(module)
    old = data[:9] + b"\x01" + data[10:]
    assert "error[TB07]: atan2 is of version 13.2, and the file is of 13.1." in said(old)
    with pytest.raises(tile.DiagnosticError, match=r"\[TB07\]: atan2 is of version 13.2, and 13.1 is written."):
        to_bytecode(module, "13.1")
    with pytest.raises(tile.DiagnosticError, match=r"\[TB05\]: bytecode has no version '14.0'."):
        to_bytecode(module, "14.0")


@pytest.mark.parametrize("version", ("13.1", "13.2", "13.3"))
def test_versions_go_round(version):
    text = """entry @f(%p: tile<ptr<f32>>, %i: tile<i32>) {
      %v = make_tensor_view %p, shape = [64], strides = [1] : tensor_view<64xf32, strides=[1]>
      %w = make_partition_view %v : partition_view<tile=(8), padding_value = nan, tensor_view<64xf32, strides=[1]>>
      %x, %t = load_view_tko weak %w[%i]
        : partition_view<tile=(8), padding_value = nan, tensor_view<64xf32, strides=[1]>>, tile<i32>
        -> tile<8xf32>, token
      %y = exp %x : tile<8xf32>
      %z = tanh %y : tile<8xf32>
      %u = print_tko "%f", %z : tile<8xf32> -> token
      for %k in (%i to %i, step %i) : tile<i32> { }
    }"""
    module = parse(text)
    assert from_bytecode(to_bytecode(module, version)) == module


def test_places_in_bytecode_are_equal_where_they_are_the_same():
    data = bytes(range(40))
    a, b, c = (ByteSpan("k", data, at, 20) for at in (18, 18, 17))
    assert {a: 1, c: 2}[b] == 1 and a == b != c


# Each operation of the table

RIGHT_OPERATIONS = (Path(__file__).parent / "every_operation.mlir").read_text(encoding="utf-8")


def test_every_operation_is_read_and_goes_round():
    module = parse(RIGHT_OPERATIONS)
    assert verify(module) == ()
    assert parse(str(module)) == module
    assert from_bytecode(to_bytecode(module)) == module


def test_the_module_above_has_every_operation():
    from tensorir.tile.nodes import operations_of

    assert {op.name for op in operations_of(parse(RIGHT_OPERATIONS))} == set(TABLE) - {"module", "testing$func"}


@pytest.mark.parametrize("version", ("13.1", "13.2"))
def test_an_older_version_refuses_what_it_lacks_with_both_names(version):
    from tensorir.runtime.errors import DiagnosticError

    with pytest.raises(DiagnosticError, match=rf"is of version 13\.\d, and {version} is written"):
        to_bytecode(parse(RIGHT_OPERATIONS), version)


def test_every_operation_has_a_meaning():
    control = {row.name for row in TABLE.values() if row.ends} | {
        "module",
        "entry",
        "testing$func",
        "global",
        "if",
        "for",
        "loop",
    }
    assert set(MEANINGS) | set(_OTHERS) | set(_TOUCHING) == set(TABLE) - control
    assert not set(MEANINGS) & set(_OTHERS) and not set(MEANINGS) & set(_TOUCHING)
