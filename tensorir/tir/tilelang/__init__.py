"""TileLang as people write it: the source of kernels, read without TileLang, into the TIR that TileLang prints of it.

Python's grammar is all that is used of Python: functions around kernels are followed for their constants, macros are
put where they are called, nothing is executed. Constants without values in the text are given by name.

>>> from tensorir.runtime.errors import Source
>>> text = '''
... import tilelang
... import tilelang.language as T
...
... @tilelang.jit
... def scaled(N, block, dtype="float32"):
...     @T.prim_func
...     def main(A: T.Tensor((N,), dtype), B: T.Tensor((N,), dtype)):
...         with T.Kernel(T.ceildiv(N, block), threads=block) as bx:
...             for i in T.Parallel(block):
...                 B[bx * block + i] = 2 * A[bx * block + i]
...     return main
... '''
>>> module = read_tilelang(Source("scaled.py", text), {"N": 8, "block": 4})
>>> print(module["main"].params, list(module.functions))
(A, B) ['main']
"""

from __future__ import annotations

from tensorir.tir.tilelang.modules import is_tilelang, read_tilelang

__all__ = ["is_tilelang", "read_tilelang"]
