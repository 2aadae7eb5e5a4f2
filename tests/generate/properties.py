"""What holds of every generated program; each check raises AssertionError with the program where it does not."""

from __future__ import annotations

from typing import Any

import jax
import ml_dtypes
import numpy as np

import tensorir as ti
from tensorir import reference
from tensorir.integers.dims import Dims
from tensorir.ir.types import DTYPES
from tensorir.reference import Interpreter, Outside
from tensorir.reference.tensors import points

from .bounds import arrays_of, flat, with_bounds
from .data import copied
from .programs import Case

__all__ = [
    "check_bounded", "check_compiled", "check_domain", "check_exact", "check_op_by_op", "check_round_trip",
    "differences",
]  # fmt: skip


def check_round_trip(case: Case) -> None:
    """A program prints and parses to itself, in both spellings, and prints the same again."""
    text = str(case.fencil)
    parsed = ti.parse(text)
    assert parsed == case.fencil, text
    assert str(parsed) == text, text


def check_op_by_op(case: Case) -> None:
    """Oracle and lowering agree bit for bit, operation by operation."""
    given = case.arguments
    want = reference.run(case.fencil, **copied(given))
    with jax.disable_jit():
        got = ti.compile(case.fencil)(**copied(given))
    assert not differences(case, want, got), differences(case, want, got)


def check_compiled(case: Case) -> None:
    """Oracle and compiled program agree bit for bit: data of whole numbers leaves nothing to round."""
    given = case.arguments
    want = reference.run(case.fencil, **copied(given))
    got = ti.compile(case.fencil)(**copied(given))
    assert not differences(case, want, got), differences(case, want, got)


def check_exact(case: Case) -> None:
    """Oracle and a program compiled for exact numerics agree bit for bit, where no function is the library's own."""
    want = reference.run(case.fencil, **copied(case.arguments))
    got = ti.compile(case.fencil, numerics="exact")(**copied(case.arguments))
    assert not differences(case, want, got), differences(case, want, got)


def check_bounded(case: Case) -> None:
    """Oracle and compiled program agree within the running error of each element (see `bounds`)."""
    want, bounds = with_bounds(case)
    got = ti.compile(case.fencil)(**case.arguments)
    assert not differences(case, want, got, bounds), differences(case, want, got, bounds)


def differences(
    case: Case, want: dict[str, Any], got: dict[str, Any], bounds: dict[str, list[np.ndarray]] | None = None
) -> str:
    """What differs, in words; NaNs are equal, subnormals may be flushed to zero."""
    found: list[str] = []
    assert list(want) == list(got)
    for p in case.fencil.outputs:
        pairs = zip(p.type.leaves, flat(want[p.name]), flat(got[p.name]), strict=True)
        for k, (scalar, a, b) in enumerate(pairs):
            assert a.dtype == b.dtype == DTYPES[scalar], (p.name, a.dtype, b.dtype)
            assert a.shape == b.shape == p.type.dims.shape
            wrong = _wrong(a, b, None if bounds is None else bounds[p.name][k])
            if wrong.any():
                at = tuple(int(i[0]) for i in np.nonzero(wrong)) if wrong.ndim else ()
                found.append(f"{p.name}, leaf {k}, at {at}: the oracle has {a[at]!r} and the lowering {b[at]!r}")
    return "\n".join([*found, repr(case)]) if found else ""


def _wrong(a: np.ndarray, b: np.ndarray, bound: np.ndarray | None) -> np.ndarray:
    if a.dtype.kind in "biu":
        return np.asarray(a != b)
    x, y = a.astype(np.float64), b.astype(np.float64)
    both_nan = np.isnan(x) & np.isnan(y)
    if bound is not None:
        with np.errstate(invalid="ignore"):
            return ~both_nan & ~(np.abs(x - y) <= bound) & ~(x == y)
    least = float(ml_dtypes.finfo(a.dtype).tiny)
    flushed = (np.abs(x) < least) & (np.abs(y) < least) & ((x != 0) | (y != 0))
    return ~both_nan & ~flushed & ~((x == y) & (np.signbit(x) == np.signbit(y)))


def check_domain(case: Case) -> None:
    """Every expression has a value at every point of its type, and none one step outside of it."""
    interpreter = Interpreter(case.fencil, arrays_of(case), both=True)
    for closure in case.fencil.closures:
        dims = closure.value.type.dims
        for point in points(dims):
            interpreter.at(closure.value, point)
        if dims.size:
            for point in _outside(dims):
                try:
                    value = interpreter.at(closure.value, point)
                except Outside:
                    continue
                raise AssertionError(f"at {point} the value is {value}, and the type is {closure.value.type}\n{case!r}")
        interpreter.store(closure)


def _outside(dims: Dims) -> list[dict[str, int]]:
    """Per side of a box, one point just outside of it."""
    corner = {n: i.start for n, i in dims.items}
    return [{**corner, n: c} for n, i in dims.items for c in (i.start - 1, i.stop)]
