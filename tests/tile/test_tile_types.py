"""Types, views and index spaces: the worked examples of the type document."""

import xml.etree.ElementTree

import ml_dtypes
import numpy as np
import pytest

import tensorir.tile as tile
from tensorir.runtime.errors import Source
from tensorir.tile.interpret.elements import pack, unpack
from tensorir.tile.interpret.hazards import coordinates, index_space
from tensorir.tile.text.cursor import Cursor
from tensorir.tile.text.types import TypeReader
from tensorir.tile.types import ELEMENTS


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
