"""Functions of Relax lifted into the tensor IR: dataflow as one tensor program, `call_tir` inlined.

>>> import tensorir as ti
>>> module = ti.tir.parse('''
... @I.ir_module
... class Module:
...     @R.function
...     def main(x: R.Tensor((4, 8), "float32"), w: R.Tensor((8, 3), "float32")) -> R.Tensor((4, 3), "float32"):
...         with R.dataflow():
...             y = R.nn.relu(R.matmul(x, w))
...             R.output(y)
...         return y
... ''')
>>> print(ti.lift(module["main"]))
main(
  x: tensor<float32, i[0:4], j[0:8]>,
  w: tensor<float32, i[0:8], j[0:3]>,
  y: tensor<float32, i[0:4], j[0:3]>
) {
  y ← max(reduce(+, 0.0f, k)(rename(j → k)(x) × rename(i → k)(w)), 0.0f);
}
"""

from __future__ import annotations

from tensorir.relax.lift.program import LiftedRelax, lift_relax
from tensorir.tir.lift import lift

__all__ = ["LiftedRelax", "lift", "lift_relax"]
