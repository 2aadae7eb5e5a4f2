"""The Python face: functions on fields, traced into fencils.

A decorated function runs once with typed symbols in place of its fields, so all of Python works in it; what it returns
is a typed expression of the IR, run by whatever backend there is.

>>> from tensorir.ir.dimensions import dims
>>> I, J = dims("I J")
>>> @field_operator
... def slope(f):
...     return f(I + 1) - f(I - 1)
>>> from tensorir.ir.types import tensor
>>> print(slope.fencil(f=tensor("float", I=(0, 9))))
slope(out: tensor<float, I[1:8]>, f: tensor<float, I[0:9]>) {
  out ← ⟪I, 1⟫(f) - ⟪I, -1⟫(f);
}
"""

from __future__ import annotations

from tensorir.fieldview.coordinates import coord
from tensorir.fieldview.folds import max_over, min_over, neighbor_sum
from tensorir.fieldview.functions import MATHEMATICS, FieldOffset, as_offset, astype, broadcast, concat_where, where
from tensorir.fieldview.operator import FieldOperator, field_operator, scan_operator
from tensorir.fieldview.program import program
from tensorir.fieldview.traced import Traced

__all__ = [
    "MATHEMATICS",
    "FieldOffset",
    "FieldOperator",
    "Traced",
    "as_offset",
    "astype",
    "broadcast",
    "concat_where",
    "coord",
    "field_operator",
    "max_over",
    "min_over",
    "neighbor_sum",
    "program",
    "scan_operator",
    "where",
]
