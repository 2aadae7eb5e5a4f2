"""Integers of 8 bits in every pair of values, against Python's; the others where they wrap."""

import numpy as np
import pytest

import tensorir.tile as tile
from tensorir.tile.interpret.meanings import MEANINGS
from tensorir.tile.nodes import operations_of

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


def test_conversions_of_integers():
    assert meaning("exti {} signed : tile<i8> -> tile<i32>", ALL).tolist() == ALL.tolist()
    assert meaning("exti {} unsigned : tile<i8> -> tile<i64>", ALL).tolist() == list(range(256))
    assert meaning("trunci {} : tile<i8> -> tile<i4>", ALL).tolist() == [signed(n, 4) for n in ALL.tolist()]
    assert meaning("itof {} unsigned : tile<i8> -> tile<f8E4M3FN>", ALL).max() == 256
    floats = np.array([1.9, -1.9, 127.5, 128.0, -128.9, np.nan, np.inf], np.float32)
    got = meaning("ftoi {} signed : tile<f32> -> tile<i8>", floats, element="f32")
    assert got.tolist() == [1, -1, 127, 0, -128, 0, 0]
