"""Bytes that say nothing right are refused with their place."""

import pytest

import tensorir.tile as tile
from tensorir.tile import from_bytecode, parse, to_bytecode
from tensorir.tile.bytecode.bytes import ByteSpan

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
