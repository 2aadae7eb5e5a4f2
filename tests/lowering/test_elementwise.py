"""Elementwise builtins on special values of every element type, all of a type at once, against the oracle's scalars."""

import itertools
import math
import os
import random
from fractions import Fraction

import jax
import ml_dtypes
import numpy as np
import pytest
from generate.data import special_values

import tensorir as ti
from lowering.rules.elementwise import SCALAR as LOWERED
from lowering.rules.elementwise import bitcast, convert
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Operator
from tensorir.ir.types import DTYPES, SCALARS, TensorType
from tensorir.reference import scalars
from tensorir.runtime.errors import DiagnosticError

UNITS = {
    # what XLA's own approximations leave, in units in the last place
    "erfc": {"float32": 128, "float64": 512},
    "tanh": {"float64": 8},
    "expm1": {"float32": 8},
    # by day it is compiled without fusion emitters
    "cbrt": {} if "NIGHTLY" in os.environ else {"float32": 32, "float64": 128},
}
"""How far results may be apart where it is not 0 units, or 4 for transcendental functions."""


def accepted(name, scalar):
    """Whether a builtin takes an element type."""
    try:
        Operator(name, (TensorType(scalar),) * len(TABLE[name].form[0]))
    except DiagnosticError:
        return False
    return True


NAMES = {s: [name for name in scalars.SCALAR if accepted(name, s)] for s in SCALARS.values()}


def grid(scalar, arity):
    values = special_values(scalar)
    if scalar.is_float and arity == 1:
        rng = np.random.default_rng(0)
        more = np.concatenate([rng.normal(size=60) * 3, rng.uniform(-1, 1, 60), rng.normal(size=30) * 50])
        values = np.concatenate([values, more.astype(DTYPES[scalar])])
    return [np.array(column, DTYPES[scalar]) for column in zip(*itertools.product(values, repeat=arity), strict=True)]


def ordinal(a):
    """Where floats stand in their order, as Python integers."""
    bits = 8 * a.dtype.itemsize
    raw = [int(v) for v in a.view(f"i{a.dtype.itemsize}")]
    return [v if v >= 0 else -(v & ((1 << (bits - 1)) - 1)) for v in raw]


def mistakes(name, scalar, operands, want, got):
    """The first operands on which a result is too far from what is wanted, with both and their distance."""
    if got.dtype != want.dtype:
        return [(want.dtype, got.dtype)]
    if want.dtype.kind in "biu":
        wrong = far = want != got
    else:
        w, g = want.astype(np.float64), got.astype(np.float64)
        tiny = float(ml_dtypes.finfo(want.dtype).tiny)
        skipped = (np.isnan(w) & np.isnan(g)) | ((np.abs(w) < 4 * tiny) & (w != 0))
        units = UNITS.get(name, {}).get(scalar.name, 4 if name in TABLE and TABLE[name].transcendental else 0)
        far = np.array([abs(a - b) for a, b in zip(ordinal(want), ordinal(got), strict=True)], dtype=object)
        if name == "lgamma":
            # near its zeros XLA's is exact to units of 1, not of the result
            eps = float(ml_dtypes.finfo(want.dtype).eps)
            with np.errstate(invalid="ignore"):
                near = np.abs(w - g) <= 16 * eps * np.maximum(1.0, np.abs(w))
            wrong = ~near & (w != g) & ~skipped
        else:
            signs = (w == 0) & (g == 0) & (np.signbit(w) != np.signbit(g))
            wrong = ((far > units) | signs) & ~skipped
    return [(tuple(o[k].item() for o in operands), want[k], got[k], far[k]) for k in np.nonzero(wrong)[0][:5]]


def assert_agree(scalar, functions, operands, want):
    """All functions are compiled as one program; each that is wrong is named with its first mistakes."""
    with jax.enable_x64(True):
        program = lambda arrays: {name: function(*arrays[name]) for name, function in functions.items()}
        got = jax.jit(program)(operands)
    wrong = {name: mistakes(name, scalar, operands[name], want[name], np.asarray(got[name])) for name in functions}
    assert not any(wrong.values()), {name: shown for name, shown in wrong.items() if shown}


@pytest.mark.parametrize("scalar", SCALARS.values(), ids=str)
def test_builtins_agree_on_special_values(scalar):
    operands = {name: grid(scalar, len(TABLE[name].form[0])) for name in NAMES[scalar]}
    with np.errstate(all="ignore"):
        want = {
            name: np.array([scalars.SCALAR[name](scalar, *row) for row in zip(*columns, strict=True)])
            for name, columns in operands.items()
        }
    assert_agree(scalar, {name: LOWERED[name] for name in operands}, operands, want)


@pytest.mark.parametrize("source", SCALARS.values(), ids=str)
def test_casts_agree_on_special_values(source):
    values = special_values(source)
    if source.is_float:
        rng = np.random.default_rng(0)
        values = np.concatenate(
            [values, (rng.normal(size=100) * 10.0 ** rng.integers(-2, 5, 100)).astype(values.dtype)]
        )
    with np.errstate(all="ignore"):
        want = {f"to {t}": np.array([scalars.cast(source, t, v) for v in values]) for t in SCALARS.values()}
    casts = {f"to {t}": convert(t) for t in SCALARS.values()}
    assert_agree(source, casts, {name: [values] for name in casts}, want)


@pytest.mark.parametrize("source", [s for s in SCALARS.values() if s.bits > 1], ids=str)
def test_bitcasts_keep_the_bits(source):
    values = special_values(source)
    for target in SCALARS.values():
        if target.bits == source.bits:
            want = np.array([scalars.bitcast(target, v) for v in values])
            with jax.enable_x64(True), jax.disable_jit():
                got = np.asarray(bitcast(target)(jax.numpy.asarray(values)))
            assert want.tobytes() == got.tobytes(), target


def test_a_float_quotient_rounded_down_leaves_what_mod_says():
    x, y = np.float64(1.0), np.float64(0.1)
    with jax.enable_x64(True):
        assert float(LOWERED["floordiv"](x, y)) == 9.0
        assert float(LOWERED["mod"](x, y)) == np.fmod(1.0, 0.1)


def nearest(dtype, whole):
    """A Python integer rounded to the nearest float, ties to even, by the integer's own bits."""
    digits = np.finfo(dtype).nmant + 1
    more = max(abs(whole).bit_length() - digits, 0)
    kept, rest = abs(whole) >> more, abs(whole) & ((1 << more) - 1)
    kept += 2 * rest > 1 << more or (2 * rest == 1 << more and kept % 2 == 1)
    return np.copysign(dtype(kept << more), whole)


def quotients_near_ties(dtype):
    """Operands whose real quotients lie less than 1 beside the middle of two neighbouring floats, and others."""
    digits, rng = np.finfo(dtype).nmant + 1, random.Random(0)
    for y in (3, 5, 7, 11, 13, *(rng.getrandbits(9) | 1 for _ in range(40))):
        for trailing in range(1, 12):
            for left in range(1 - y, y):
                # x = middle × y + left has few significant bits, since it ends in zeros
                middle = (-left * pow(y, -1, 1 << trailing)) % (1 << trailing)
                middle |= rng.getrandbits(digits - trailing) << trailing | 1 << digits
                x = middle * y + left
                if middle % 2 and (x >> trailing).bit_length() <= digits:
                    yield x, y
    for _ in range(2000):
        x, y = rng.getrandbits(digits), rng.getrandbits(digits) | 1
        yield x << rng.randrange(2 * digits), y
        yield (x >> rng.randrange(digits)) * y >> digits << digits, y


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_float_quotient_rounded_down_is_the_floor_of_the_real_quotient_however_large(dtype, sign):
    pairs = [(sign * x, y) for x, y in quotients_near_ties(dtype)]
    xs, ys = (np.array(column, float).astype(dtype) for column in zip(*pairs, strict=True))
    want = np.array(
        [nearest(dtype, math.floor(Fraction(float(x)) / Fraction(float(y)))) for x, y in zip(xs, ys, strict=True)]
    )
    assert (want != np.floor(xs / ys)).sum() > 100
    with jax.enable_x64(True):
        assert np.array_equal(np.asarray(LOWERED["floordiv"](xs, ys)), want)
        assert np.array_equal(np.asarray(jax.jit(LOWERED["floordiv"])(xs, ys)), want)
    oracle = [scalars.SCALAR["floordiv"](SCALARS[dtype.__name__], x, y) for x, y in zip(xs, ys, strict=True)]
    assert np.array_equal(np.array(oracle), want)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("3 / 0", -1),
        ("rem(3, 0)", 3),
        ("3 % (1 - 1)", 3),
        ("floordiv(3, 0)", -1),
        ("(-2147483647 - 1) / (0 - 1)", -(2**31)),
    ],
)
def test_constants_may_be_divided_by_zero(expression, value):
    # XLA divides when it folds constants; the process died of it
    f = ti.parse(f"f(out: tensor<int, I[0:2]>) {{ out ← {expression}; }}")
    assert ti.compile(f)()["out"].tolist() == [value, value] == ti.reference.run(f)["out"].tolist()


@pytest.mark.parametrize("element", ["uint8", "uint64"])
def test_all_bits_of_an_unsigned_divisor_are_its_largest_number(element):
    numbers = np.array([0, 1, 2, np.iinfo(element).max // 2, np.iinfo(element).max // 2 + 1, -1 % 2**8], element)
    x, y = (a.ravel() for a in np.meshgrid(numbers, ~np.array([0, 1], element)))
    head = f"f(a: tensor<{element}, I[0:12]>, b: tensor<{element}, I[0:12]>, x: tensor<{element}, I[0:12]>, y: tensor"
    f = ti.parse(f"{head}<{element}, I[0:12]>) {{ a ← x / y; b ← rem(x, y); }}")
    found = ti.compile(f)(x=x, y=y)
    assert (np.asarray(found["a"]) == x // y).all() and (np.asarray(found["b"]) == x % y).all()


READ_FURTHER = """
f(A: tensor<int, t[0:9]>, B: tensor<int, k[0:4], i[0:2]>) {
  B ←
    let even = 2 × pos(k, add_dim(k, 0, 4, false));
    let held = gather(t, clamp)(A, even + pos(i, add_dim(i, 0, 3, false)));
    (if even + pos(i, add_dim(i, 0, 2, false)) < 7 then held else 1) + subset(⟪i, 1⟫(held), k[0:4], i[0:2]);
}"""


def test_what_is_read_further_elsewhere_is_combined_where_all_operands_are():
    f = ti.parse(READ_FURTHER)
    given = np.arange(10, 19, dtype=np.int32)
    wanted = ti.reference.run(f, A=given)["B"]
    np.testing.assert_array_equal(ti.compile(f)(A=given)["B"], wanted)
    np.testing.assert_array_equal(wanted, [[21, 23], [25, 27], [29, 31], [33, 19]])
