"""Rounding by the definition: of all numbers of a format the two around a rational, and the mode's choice of them."""

from __future__ import annotations

import math
import random
import struct
from fractions import Fraction

import ml_dtypes
import numpy as np

FORMATS = {  # bits of the significand with the leading one, least and greatest exponent
    "f16": (11, -14, 15, np.float16), "bf16": (8, -126, 127, ml_dtypes.bfloat16), "f32": (24, -126, 127, np.float32),
    "f64": (53, -1022, 1023, np.float64),
    "tf32": (11, -126, 127, np.float32), "f8E5M2": (3, -14, 15, ml_dtypes.float8_e5m2),
    "f8E4M3FN": (4, -6, 8, ml_dtypes.float8_e4m3fn), "f4E2M1FN": (2, 0, 2, ml_dtypes.float4_e2m1fn),
}  # fmt: skip
MODES = ("nearest_even", "zero", "negative_inf", "positive_inf")
SATURATING = ("f8E5M2", "f8E4M3FN", "f4E2M1FN")


def largest(name: str) -> Fraction:
    p, _, emax, _ = FORMATS[name]
    if name == "f8E4M3FN":
        return Fraction(448)
    return (2 - Fraction(1, 1 << (p - 1))) * Fraction(2) ** emax


def rounded(exact: Fraction, name: str, mode: str, negative_zero: bool = False) -> float:
    """The number of a format that a rational rounds to."""
    p, emin, _, _ = FORMATS[name]
    if exact == 0:
        return -0.0 if negative_zero else 0.0
    size, negative = abs(exact), exact < 0
    exponent = 0
    while Fraction(2) ** exponent > size:
        exponent -= 64
    while Fraction(2) ** (exponent + 64) <= size:
        exponent += 64
    while Fraction(2) ** (exponent + 1) <= size:
        exponent += 1
    unit = Fraction(2) ** (max(exponent, emin) - p + 1)
    below = size // unit
    rest = size / unit - below
    up = {
        "nearest_even": rest > Fraction(1, 2) or (rest == Fraction(1, 2) and below % 2 == 1),
        "zero": False,
        "negative_inf": rest > 0 and negative,
        "positive_inf": rest > 0 and not negative,
    }[mode]
    value = (below + up) * unit
    if value > largest(name):
        inward = mode == "zero" or mode == ("negative_inf" if not negative else "positive_inf")
        value = largest(name) if inward or name in SATURATING else None
    result = math.inf if value is None else float(value)
    return -result if negative else result


def same(a: float, b: float) -> bool:
    """The same number, with the sign of a zero; all that are no numbers are one."""
    return (a != a and b != b) or (a == b and math.copysign(1, a) == math.copysign(1, b))


def samples(name: str, count: int, seed: int) -> np.ndarray:
    """Numbers of a format: every one of narrow formats, else patterns of bits at random and around the ends."""
    dtype = FORMATS[name][3]
    rng = random.Random(seed)
    width = np.dtype(dtype).itemsize * 8
    if width <= 16 and name != "tf32" and count >= 1 << width:
        return np.arange(1 << (4 if name == "f4E2M1FN" else width), dtype=f"u{width // 8}").view(dtype)
    found = []
    for _ in range(count):
        match rng.randrange(4):
            case 0:
                found.append(rng.getrandbits(width))
            case 1:  # near one
                raw = struct.pack("<d", rng.choice((-1, 1)) * rng.uniform(0.5, 4))
                found.append(int(np.frombuffer(raw, np.float64).astype(dtype)[0].view(f"u{width // 8}")))
            case 2:  # near the ends of what is normal
                found.append((1 << (FORMATS[name][0] - 1)) + rng.randrange(-3, 4) & ((1 << width) - 1))
            case _:
                found.append(rng.randrange(0, 8) | rng.getrandbits(1) << (width - 1))
    array = np.array(found, f"u{width // 8}")
    if name == "tf32":
        array &= np.uint32(0xFFFFE000)
    return array.view(dtype)
