"""Arrays of other libraries that lie on a device: tables, inputs of programs and of lifted kernels, and results."""

from collections import namedtuple
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

import tensorir as ti
from tensorir.iterator.lift.arguments import offsets
from tensorir.iterator.lift.program import Options
from tensorir.iterator.running import Accelerator, Runner


class OnDevice:
    """As CuPy's arrays are: NumPy gets no copy unasked, DLPack has the memory, which here is the host's."""

    def __init__(self, array):
        self.array, self.__cuda_array_interface__ = np.asarray(array), {}

    def __getattr__(self, name):
        return getattr(self.array, name)

    def __array__(self, *_, **__):
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")

    def __dlpack__(self, **asked):
        return self.array.__dlpack__(**asked)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __getitem__(self, where):
        return OnDevice(self.array[where])

    def __setitem__(self, where, value):
        assert isinstance(value, OnDevice), "a result goes through the host"
        self.array[where] = value.array

    def transpose(self, order):
        return OnDevice(self.array.transpose(order))

    def reshape(self, shape):
        return OnDevice(self.array.reshape(shape))

    @property
    def data(self):
        return SimpleNamespace(ptr=self.array.ctypes.data)


LIBRARY = SimpleNamespace(
    from_dlpack=lambda x: OnDevice(np.from_dlpack(x)),
    ascontiguousarray=lambda x: OnDevice(np.ascontiguousarray(x.array)),
)
"""What of the module `cupy` is used."""


Domain, Dim = namedtuple("Domain", "dims ranges"), namedtuple("Dim", "value kind")


@dataclass
class OfGT4Py:
    """A field, or a table, of an array that lies on a device."""

    domain: Any
    ndarray: OnDevice
    codomain: Any = None
    skip_value: int | None = None


def over(*dims):
    """A domain of dims by name, kind and extent."""
    return Domain(tuple(Dim(n, k) for n, k, _ in dims), tuple(range(e) for *_, e in dims))


TABLE = np.array([[0, 1], [1, 2], [2, -1]], np.int32)
SUM = """f(y: tensor<float, V[0:3]>, x: tensor<float, V[0:3]>, T: tensor<int, V[0:3], _NB_V[0:2]>) {
  y ← reduce(+, 0.0)(⟪T⟫(x)); }"""


def test_tables_and_inputs_on_a_device_are_read():
    x = np.arange(3.0)
    found = ti.parse(SUM).bind(T=OnDevice(TABLE))(x=OnDevice(x))["y"]
    np.testing.assert_array_equal(found, [1.0, 3.0, 2.0])


def test_tables_of_an_offset_provider_may_lie_on_a_device():
    table = OfGT4Py(
        over(("V", "horizontal", 3), ("V2E", "local", 2)), OnDevice(np.where(TABLE < 0, 7, TABLE)),
        SimpleNamespace(value="E"), 7,
    )  # fmt: skip
    np.testing.assert_array_equal(offsets({"V2E": table})["V2E"].entries, TABLE)


def test_a_kernel_takes_what_lies_on_a_device():
    double = ti.lift(
        ti.tir.parse("""
@T.prim_func
def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(4):
        B[i] = A[i] * T.float32(2)
""")["main"]
    )
    (found,) = double(OnDevice(np.arange(4, dtype=np.float32)), None)
    np.testing.assert_array_equal(found, [0, 2, 4, 6])


def test_results_of_programs_of_gt4py_go_into_memory_of_a_device():
    program = ti.iterator.parse("f(x, y) { y @ c⟨ Iₕ: [0, 4[ ⟩ ← (⇑(λ(a) → ·a × 2.0))(x); }")
    x, y = (OfGT4Py(over(("I", "horizontal", 4)), OnDevice(a)) for a in (np.arange(4.0), np.zeros(4)))
    Runner(program, Options(), None, Accelerator(LIBRARY))(x, y, offset_provider={})
    np.testing.assert_array_equal(y.ndarray.array, [0.0, 2.0, 4.0, 6.0])
