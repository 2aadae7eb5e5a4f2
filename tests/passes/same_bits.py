"""What every pass must hold: the oracle's bits, and to be done after one time."""

from __future__ import annotations

from typing import Any

import numpy as np
from generate.data import copied
from generate.programs import Case

from tensorir import reference
from tensorir.ir.nodes import Fencil

__all__ = ["assert_same_bits", "check_pass"]


def check_pass(a_pass: Any, case: Case) -> Fencil:
    """The pass keeps the meaning of a program, its text parses back, and a second time changes nothing."""
    after = a_pass(case.fencil)
    assert_same_bits(case, after)
    again = a_pass(after)
    assert again == after, f"{case!r}\nonce:\n{after}\ntwice:\n{again}"
    return after


def assert_same_bits(case: Case, after: Fencil) -> None:
    if after == case.fencil:
        return
    given = case.arguments
    want = reference.run(case.fencil, **copied(given))
    names = {p.name for p in after.params}
    got = reference.run(after, **copied({n: v for n, v in given.items() if n in names}))
    for name, value in want.items():
        for a, b in zip(leaves(value), leaves(got[name]), strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape
            assert same(a, b), f"{name}: {a} became {b}\n{case!r}\nafter:\n{after}"


def leaves(value: Any) -> list[np.ndarray]:
    return [leaf for member in value for leaf in leaves(member)] if isinstance(value, tuple) else [np.asarray(value)]


def same(a: np.ndarray, b: np.ndarray) -> bool:
    if a.dtype.kind in "biu":
        return bool((a == b).all())
    x, y = a.astype(np.float64), b.astype(np.float64)
    both_nan = np.isnan(x) & np.isnan(y)
    return bool((both_nan | ((x == y) & (np.signbit(x) == np.signbit(y)))).all())
