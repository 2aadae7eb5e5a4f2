"""Integers of 8 bits in every pair of values, against Python's; the others where they wrap."""

import numpy as np
import pytest

import tensorir as ti
import tensorir.tile as tile
from tensorir.tile.interpret.elements import pack, unpack
from tensorir.tile.interpret.meanings import MEANINGS
from tensorir.tile.nodes import operations_of
from tensorir.tile.types import ELEMENTS

ALL = np.arange(256, dtype=np.uint8).view(np.int8)
A, B = (x.reshape(-1) for x in np.meshgrid(ALL, ALL, indexing="ij"))


def signed(n, bits=8):
    n &= (1 << bits) - 1
    return n - (1 << bits) if n >> (bits - 1) else n


def quotient(a, b, mode):
    exact, rest = divmod(a, b)
    return exact if mode == "negative_inf" or not rest else exact + ((a < 0) != (b < 0) if mode == "zero" else 1)


def remainder(a, b):
    return a - quotient(a, b, "zero") * b


BINARY = {
    "addi {}, {}": lambda a, b: a + b, "subi {}, {}": lambda a, b: a - b, "muli {}, {}": lambda a, b: a * b,
    "andi {}, {}": lambda a, b: a & b, "ori {}, {}": lambda a, b: a | b, "xori {}, {}": lambda a, b: a ^ b,
    "maxi {}, {} signed": max, "mini {}, {} signed": min,
    "divi {}, {} signed": lambda a, b: 0 if b == 0 or (a, b) == (-128, -1) else quotient(a, b, "zero"),
    "divi {}, {} signed rounding<positive_inf>":
        lambda a, b: 0 if b == 0 or (a, b) == (-128, -1) else quotient(a, b, "positive_inf"),
    "divi {}, {} signed rounding<negative_inf>":
        lambda a, b: 0 if b == 0 or (a, b) == (-128, -1) else a // b,
    "remi {}, {} signed": lambda a, b: 0 if b == 0 else remainder(a, b),
}  # fmt: skip
UNSIGNED = {
    "maxi {}, {} unsigned": max, "mini {}, {} unsigned": min,
    "divi {}, {} unsigned": lambda a, b: a // b if b else 0, "remi {}, {} unsigned": lambda a, b: a % b if b else 0,
    "divi {}, {} unsigned rounding<positive_inf>": lambda a, b: -(-a // b) if b else 0,
    "mulhii {}, {}": lambda a, b: a * b >> 8, "shli {}, {}": lambda a, b: a << b if b < 8 else 0,
    "shri {}, {} unsigned": lambda a, b: a >> b if b < 8 else 0,
}  # fmt: skip
UNARY = {"negi {}": lambda a: -a, "absi {}": abs}


def meaning(line, *operands, element="i8"):
    """The result of one operation on arrays."""
    args = ", ".join(f"%{n}: tile<{element}>" for n in "ab"[: len(operands)])
    text = f"entry @k({args}) {{ %r = {line.format('%a', '%b')} }}"
    op = next(o for o in operations_of(tile.parse(text)) if o.results)
    return MEANINGS[op.name](op, None, *operands)


@pytest.mark.parametrize("line", BINARY)
def test_every_pair_of_signed_numbers(line):
    got = meaning(f"{line} : tile<i8>", A, B).tolist()
    assert got == [signed(BINARY[line](a, b)) for a, b in zip(A.tolist(), B.tolist(), strict=True)]


@pytest.mark.parametrize("line", UNARY)
def test_every_signed_number(line):
    assert meaning(f"{line} : tile<i8>", ALL).tolist() == [signed(UNARY[line](a)) for a in ALL.tolist()]


@pytest.mark.parametrize("line", UNSIGNED)
def test_every_pair_of_unsigned_numbers(line):
    got = meaning(f"{line} : tile<i8>", A, B).tolist()
    pairs = zip(A.view(np.uint8).tolist(), B.view(np.uint8).tolist(), strict=True)
    assert got == [signed(UNSIGNED[line](a, b)) for a, b in pairs]


def test_signed_shifts_and_comparisons():
    amounts = B.view(np.uint8).tolist()
    assert meaning("shri {}, {} signed : tile<i8>", A, B).tolist() == [
        a >> b if b < 8 else 0 for a, b in zip(A.tolist(), amounts, strict=True)
    ]
    for word, view in (("signed", np.int8), ("unsigned", np.uint8)):
        got = meaning(f"cmpi less_than {{}}, {{}}, {word} : tile<i8> -> tile<i1>", A, B)
        assert got.tolist() == (A.view(view) < B.view(view)).tolist()


@pytest.mark.parametrize("bits", (16, 32, 64))
def test_wider_numbers_wrap_and_multiply_high(bits):
    rng = np.random.default_rng(bits)
    dtype = f"i{bits // 8}"
    a, b = (rng.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1, 500, dtype) for _ in range(2))
    for line, exact in (("addi {}, {}", lambda x, y: x + y), ("muli {}, {}", lambda x, y: x * y)):
        got = meaning(f"{line} : tile<i{bits}>", a, b, element=f"i{bits}").tolist()
        assert got == [signed(exact(x, y), bits) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    high = meaning(f"mulhii {{}}, {{}} : tile<i{bits}>", a, b, element=f"i{bits}").tolist()
    whole = zip(a.view(f"u{bits // 8}").tolist(), b.view(f"u{bits // 8}").tolist(), strict=True)
    assert high == [signed(x * y >> bits, bits) for x, y in whole]


def test_single_bits_are_0_and_minus_1_where_they_are_signed():
    a, b = np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)
    assert meaning("addi {}, {} : tile<i1>", a, b, element="i1").tolist() == [False, True, True, False]
    assert meaning("maxi {}, {} signed : tile<i1>", a, b, element="i1").tolist() == [False, False, False, True]
    assert meaning("maxi {}, {} unsigned : tile<i1>", a, b, element="i1").tolist() == [False, True, True, True]
    less = meaning("cmpi less_than {}, {}, signed : tile<i1> -> tile<i1>", a, b, element="i1")
    assert less.tolist() == [False, False, True, False]


def test_the_least_number_of_one_bit_over_minus_1_has_no_result_in_a_lift():
    module = tile.parse("""entry @k(%p: tile<ptr<i1>>) {
      %a, %t = load_ptr_tko weak %p : tile<ptr<i1>> -> tile<i1>, token
      %b = divi %a, %a signed : tile<i1>
      %u = store_ptr_tko weak %p, %b : tile<ptr<i1>>, tile<i1> -> token }""")
    one = np.array([True])
    assert tile.interpret(module, "k", [one])[0].tolist() == [False]
    assert ti.lift(module, args=[one])(one)[0].tolist() == [False]


def test_conversions_of_integers():
    assert meaning("exti {} signed : tile<i8> -> tile<i32>", ALL).tolist() == ALL.tolist()
    assert meaning("exti {} unsigned : tile<i8> -> tile<i64>", ALL).tolist() == list(range(256))
    assert meaning("trunci {} : tile<i8> -> tile<i4>", ALL).tolist() == [signed(n, 4) for n in ALL.tolist()]
    assert meaning("itof {} unsigned : tile<i8> -> tile<f8E4M3FN>", ALL).max() == 256
    floats = np.array([1.9, -1.9, 127.5, 128.0, -128.9, np.nan, np.inf], np.float32)
    got = meaning("ftoi {} signed : tile<f32> -> tile<i8>", floats, element="f32")
    assert got.tolist() == [1, -1, 127, 0, -128, 0, 0]
    floats = np.array([1.9, -0.9, 255.5, 256.0, -1.0, 127.5, np.nan], np.float32)
    got = meaning("ftoi {} unsigned : tile<f32> -> tile<i8>", floats, element="f32")
    assert got.view(np.uint8).tolist() == [1, 0, 255, 0, 0, 127, 0]
    assert meaning(
        "exti {} unsigned : tile<i4> -> tile<i16>", np.arange(-8, 8, dtype=np.int8), element="i4"
    ).tolist() == [n & 15 for n in range(-8, 8)]
    bits = np.array([True, False])
    assert meaning("exti {} signed : tile<i1> -> tile<i32>", bits, element="i1").tolist() == [-1, 0]
    assert meaning("exti {} unsigned : tile<i1> -> tile<i32>", bits, element="i1").tolist() == [1, 0]
    assert meaning("trunci {} : tile<i8> -> tile<i1>", ALL).tolist() == [bool(n & 1) for n in ALL.tolist()]


@pytest.mark.parametrize("sign", (1, -1))
def test_what_is_just_above_the_middle_of_two_floats_is_rounded_away_from_zero(sign):
    """Float64, which would be in between, drops the one that decides."""
    above = np.array([sign * ((1 << 62) + (1 << 38) + 1), sign * ((1 << 62) + (1 << 38))], np.int64)
    got = meaning("itof {} signed : tile<i64> -> tile<f32>", above, element="i64")
    assert got.tolist() == [sign * (2.0**62 + 2.0**39), sign * 2.0**62]
    got = meaning("itof {} signed : tile<i64> -> tile<f64>", above, element="i64")
    assert got.tolist() == [sign * (2.0**62 + 2.0**38)] * 2
    if sign > 0:
        above = np.array([(1 << 63) + (1 << 39) + 1, (1 << 63) + (1 << 39)], np.uint64).view(np.int64)
        got = meaning("itof {} unsigned : tile<i64> -> tile<f32>", above, element="i64")
        assert got.tolist() == [2.0**63 + 2.0**40, 2.0**63]


PACKED = {
    "i1": [1, 0, 1, 1, 0, 0, 0, 1], "f4E2M1FN": [0.5, 1.5, -6.0, 3.0], "i16": [1, -2, 515], "f32": [1.5, -2.0],
    "f8E5M2": [1.5, -2.0, 3.0], "f64": [0.1],
}  # fmt: skip
BYTES = {
    "i1": [0b10001101], "f4E2M1FN": [0x31, 0x5F], "i16": [1, 0, 0xFE, 0xFF, 3, 2],
    "f32": [0, 0, 0xC0, 0x3F, 0, 0, 0, 0xC0], "f8E5M2": [0x3E, 0xC0, 0x42],
    "f64": [0x9A, 0x99, 0x99, 0x99, 0x99, 0x99, 0xB9, 0x3F],
}  # fmt: skip


@pytest.mark.parametrize("element", PACKED)
def test_elements_are_packed_into_bytes_and_back(element):
    values = np.array(PACKED[element]).astype(ELEMENTS[element].numpy)
    raw = np.array(BYTES[element], np.uint8).view(np.int8)
    assert pack(values, ELEMENTS[element]).tolist() == raw.tolist()
    assert unpack(raw, ELEMENTS[element]).tolist() == values.tolist()


def test_the_low_bits_of_a_tf32_are_dropped():
    raw = np.array([0x3F801FFF, 0x3F802000], np.uint32).view(np.int8)
    assert unpack(raw, ELEMENTS["tf32"]).tolist() == [1.0, 1.0 + 2.0**-10]
