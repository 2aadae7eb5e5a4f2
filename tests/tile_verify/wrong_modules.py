"""Wrong modules, one mistake in each: lines of an entry, or whole texts. What is said of them stands in `said.txt`."""

from __future__ import annotations

from pathlib import Path

ENTRY = """entry @k(%i: tile<i32>, %l: tile<i64>, %f: tile<f32>, %p: tile<ptr<f32>>, %c: tile<i1>) {{
%t = make_token : token
%a = constant <f32: 1.0> : tile<4xf32>
%h = constant <f16: 1.0> : tile<4xf16>
%d = constant <f64: 1.0> : tile<4xf64>
%n = constant <i32: 1> : tile<4xi32>
%b = constant <i1: 1> : tile<4xi1>
%m = constant <f32: 1.0> : tile<4x8xf32>
%q = constant <i8: 1> : tile<8x8xi8>
%g = constant <i32: 1> : tile<8x8xi32>
%v = make_tensor_view %p, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
%w = make_partition_view %v : partition_view<tile=(4x8), tensor_view<64x64xf32, strides=[64,1]>>
%e = reshape %p : tile<ptr<f32>> -> tile<1xptr<f32>>
%r = broadcast %e : tile<1xptr<f32>> -> tile<4xptr<f32>>
{}
}}"""

_VIEW = "partition_view<tile=(4x8), tensor_view<64x64xf32, strides=[64,1]>>"

LINES = (Path(__file__).parent / "wrong_lines.txt").read_text(encoding="utf-8")

WHOLE = [
    "",
    "entry @k() { return ",
    "entry k() {}",
    "entry @k(tile<i32>, %a: tile<i32>) {}",
    "entry @k(%a: tile<i32>, %a: tile<i32>) {}",
    "entry @k(%a: tile<4xi32>) {}",
    "entry @k() -> tile<i32> { return }",
    "entry @k() {} entry @k() {}",
    "entry @k() {} %x = make_token : token",
    "entry @k() optimization_hints=<sm_100 = 1> {}",
    "entry @k() optimization_hints=<sm_100 = {}, sm_100 = {}> {}",
    "global @g <f32: 1.0> : tile<f32>",
    "global @g <f32: [1.0, 2.0]> : tile<2x1xf32>",
    "global @g alignment = x <f32: 1.0> : tile<1xf32>",
    "global @g <f32: 1.0> : tile<1xf32> entry @k() { %x = get_global @g : tile<ptr<i32>> }",
    "global @g <f32: 1.0> : tile<1xf32> entry @k() { %x = get_global @h : tile<ptr<f32>> }",
    "global @k <f32: 1.0> : tile<1xf32> entry @k() {}",
    "!t = tile<3xf32>",
    "!t = tile<4xf32> !t = tile<4xf32> entry @k() {}",
    '#t = loc("a":1:1) #t = loc("a":1:1) entry @k() {}',
    '#t = loc("a":1:1) #t = 3 entry @k() {}',
    '#t = 3 #t = loc("a":1:1) entry @k() {}',
    "entry @k(%x: !t) {}",
    "entry @k() { %x = assume #a, %x : tile<i32> }",
    "cuda_tile.module @m { make_token : token }",
    "cuda_tile.module { }",
    "cuda_tile.module @m { entry @k() {}",
    'entry @k() { %x = "cuda_tile.addf"(%x) : (tile<f32>) -> tile<f32> }',
    'entry @k(%x: tile<f32>) { %y = "cuda_tile.addf"(%x) : (tile<f32>) -> tile<f32> }',
    'entry @k(%x: tile<f32>) { %y = "cuda_tile.addf"(%x, %x) : (tile<f32>) -> tile<f32> }',
    'entry @k(%x: tile<f32>) { %y = "cuda_tile.addf"(%x, %x) : (tile<f32>, tile<f32>) -> tile<f64> }',
    'entry @k(%x: tile<i32>) { %y = "cuda_tile.maxi"(%x, %x) : (tile<i32>, tile<i32>) -> tile<i32> }',
    'entry @k(%x: tile<i1>) { %y = "cuda_tile.maxi"(%x, %x) <{signedness = 3 : i32}> : (tile<i1>, tile<i1>) -> () }',
    'entry @k(%x: tile<i32>) { %y = "other.maxi"(%x) : (tile<i32>) -> tile<i32> }',
    "entry @k(%x: tile<ptr<ptr<f32>>>) {}",
    "entry @k(%x: tile<4x?xf32>) {}",
    "entry @k(%x: tile<ptr<i4>>) {}",
    "entry @k(%x: tile<33554432xf32>) {}",
    "entry @k(%x: tile<f4E2M1FN>) {}",
    "entry @k() { %x = make_token : token loc( }",
    r'entry @k(%c: tile<i1>) { assert %c, "a\q" : tile<i1> }',
    'entry @k() { %t = make_token : token loc("a" }',
    'entry @k() { %t = make_token : token loc("a.py":3:4 to :5:6) }',
    "cuda_tile.module @m { entry @k() { return } } {-# never ends",
    "entry @k(%x: tile<i32>) { %y = loop iter_values(%a = %x) : tile<i32>, tile<i32> -> tile<i32> { break } }",
    "#s = #cuda_tile.di_subprogram<file = #f> entry @k() {}",
    '#f = #cuda_tile.di_file<"a.py" in "/d"> #f = #cuda_tile.di_file<"b.py" in "/d"> entry @k() {}',
    "entry @k() {} }",
    "what is this",
    "entry @k(%v: tile<i32>) { %x, %y = load_view_tko weak %v[%v] : tile<i32>, tile<i32> -> tile<4xf32>, token }",
    "cuda_tile.module @m attributes {a = 1 : i32, a = 2 : i32} { entry @k() {} }",
    "entry @k() { %x = constant <f32: [[[[1.0]]]]> : tile<1xf32> }",
    "entry @k() { %x = constant <f32: nan> : tile<f32> }",
    "cuda_tile.module @m attributes {a = 256 : i8} { entry @k() {} }",
]


def texts() -> list[str]:
    """Every wrong text."""
    lines = [line for line in LINES.strip().splitlines() if line]
    return [ENTRY.format(line.replace("VIEW", _VIEW)) for line in lines] + WHOLE
