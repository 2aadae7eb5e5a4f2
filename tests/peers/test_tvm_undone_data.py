"""Schedules and lowering undone where data tell what is read: the text of the module itself, and its values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

tvm = pytest.importorskip("tvm")

import tensorir as ti
import tensorir.tir as tir
from tests.peers.test_tvm_undone import Make, as_it_is, lowered_alike, over_threads

pytestmark = pytest.mark.filterwarnings("ignore")


def sampled() -> list[Any]:
    from tvm import te, topi

    a, at = te.placeholder((1, 2, 4, 5), name="A"), te.placeholder((1, 2, 3, 4), name="G")
    return [a, at, topi.image.grid_sample(a, at)]


def one_pixel() -> list[Any]:
    from tvm import te, topi

    a: Any = te.placeholder((1, 2, 4, 4), name="A")
    roi = [0.0, 0.0, 0.0, 0.0]
    return [a, topi.image.resize2d(a, roi, (1, 1), method="nearest_neighbor", rounding_method="round")]


def anywhere() -> list[Any]:
    from tvm import te, topi

    a, at = te.placeholder((4, 6, 3), name="A"), te.placeholder((5,), "int32", name="I")
    return [a, at, topi.take(a, at, mode="clip")]


def put_into() -> list[Any]:
    from tvm import te, topi

    a, x = te.placeholder((6, 4), name="A"), te.placeholder((3, 4), name="X")
    at: Any = te.placeholder((3, 4), "int32", name="I")
    return [a, at, x, topi.scatter_elements(a, at, x, 0, "add")]


def gradient() -> list[Any]:
    from tvm import te, topi

    a, g = te.placeholder((1, 2, 8, 8), name="A"), te.placeholder((1, 2, 4, 4), name="G")
    return [g, a, topi.nn.pool_grad(g, a, (2, 2), (2, 2), (0, 0, 0, 0), "max")]


def bits() -> list[Any]:
    from tvm import te, topi

    a: Any = te.placeholder((2, 8), "uint8", name="A")
    return [a, topi.nn.bitpack(a, 2, 1, 1, "uint8")]


CASES: dict[str, tuple[Make, Callable[[Any], None]]] = {
    "places that bounds let through": (sampled, as_it_is),
    "a place that numbers tell": (one_pixel, as_it_is),
    "any place, in flat memory": (anywhere, as_it_is),
    "places counted from the end": (put_into, as_it_is),
    "the greatest of each window, over threads": (gradient, over_threads),
    "one choice per bit": (bits, as_it_is),
}
DEARER = {"the greatest of each window, over threads"}


@pytest.mark.parametrize("name", CASES)
def test_what_data_tell_is_read_alike_at_each_step_of_the_lowering(name: str):
    plain, lowered = lowered_alike(*CASES[name], dearer=name in DEARER)
    func = tir.parse(plain)["main"]
    rng = np.random.default_rng(0)
    arrays: list[Any] = []
    for p in func.params:
        buffer = func.buffer_map[p]
        shape = tuple(extent.value for extent in buffer.shape)
        whole = str(buffer.dtype).startswith(("int", "uint"))
        arrays.append((rng.integers(0, 4, shape) if whole else rng.normal(size=shape)).astype(str(buffer.dtype)))
    (found,) = ti.lift(tir.parse(lowered)["main"])(*arrays)
    np.testing.assert_allclose(found, tir.interpret(func, *arrays)[-1], rtol=1e-5, atol=1e-6)
