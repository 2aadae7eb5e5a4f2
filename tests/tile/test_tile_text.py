"""Forms of the text: generic, wrapped, aliased, located, commented."""

import ml_dtypes
import numpy as np
import pytest

import tensorir.tile as tile
from tensorir.tile.nodes import CallSite, Place, Scoped

PLAIN = tile.parse("entry @k(%x: tile<i32>, %c: tile<i1>) { %y = addi %x, %x : tile<i32> if %c { return } }")


@pytest.mark.parametrize("text", [
    "cuda_tile.entry @k(%x: !cuda_tile.tile<i32>, %c: !cuda_tile.tile<i1>) {"
    " %y = cuda_tile.addi %x, %x : !cuda_tile.tile<i32> cuda_tile.if %c { cuda_tile.return } cuda_tile.return }",
    "cuda_tile.module @o { entry @k(%x: tile<i32>, %c: tile<i1>) { %y = addi %x, %x : tile<i32> if %c { return } } }",
    "module { cuda_tile.module @m { entry @k(%a: tile<i32>, %b: tile<i1>) { %y = addi %a, %a : tile<i32>"
    " if %b { return } } } }",
    "!i = tile<i32> // a comment\nentry @k(%x: !i, %c: tile<i1> {hint.of = 3 : i32}) { // another\n"
    " %y = addi %x, %x : !i loc(\"f.py\":3:4)\n if %c { return } loc(unknown) }",
    "\"builtin.module\"() ({ \"cuda_tile.module\"() <{sym_name = \"m\"}> ({ \"cuda_tile.entry\"() <{function_type ="
    " (!cuda_tile.tile<i32>, !cuda_tile.tile<i1>) -> (), sym_name = \"k\"}> ({ ^bb0(%x: !cuda_tile.tile<i32>,"
    " %c: !cuda_tile.tile<i1>): %y = \"cuda_tile.addi\"(%x, %x) <{overflow = #cuda_tile.overflow<none>}> :"
    " (!cuda_tile.tile<i32>, !cuda_tile.tile<i32>) -> !cuda_tile.tile<i32> \"cuda_tile.if\"(%c) ({"
    " \"cuda_tile.return\"() : () -> () }, {}) : (!cuda_tile.tile<i1>) -> () \"cuda_tile.return\"() : () -> () })"
    " : () -> () }) : () -> () }) : () -> ()",
])  # fmt: skip
def test_forms_of_one_module_are_equal(text):
    assert tile.parse(text) == PLAIN
    assert tile.verify(tile.parse(text)) == ()


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
