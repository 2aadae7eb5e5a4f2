"""Whole numbers that a function compares sizes and indices with: on their other side it may do another thing."""

from __future__ import annotations

from tensorir.tir import nodes as n
from tensorir.tir.trees import walk

__all__ = ["thresholds"]


def thresholds(func: n.PrimFunc) -> tuple[int, ...]:
    """The numbers in comparisons, and in the least and the largest of two, that do not look at data.

    >>> from tensorir.tir import parse
    >>> thresholds(parse('''
    ... @T.prim_func
    ... def main(a: T.handle):
    ...     n = T.int32()
    ...     A = T.match_buffer(a, (n,), "float32")
    ...     for i in range(n):
    ...         if n % 6 == 4 and A[i] < T.float32(3) and A[9] == A[i]:
    ...             A[i] = T.float32(0)
    ... ''')["main"])
    (4, 6)
    """
    compared = [list(walk(node)) for node in walk(func.body) if isinstance(node, (n.CmpOp, n.Min, n.Max))]
    indices = [inside for inside in compared if not any(isinstance(v, n.BufferLoad) for v in inside)]
    return tuple(sorted({abs(v.value) for inside in indices for v in inside if isinstance(v, n.IntImm)}))
