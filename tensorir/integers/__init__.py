"""Integers that programs are made of, for all that reasons about indices, sizes and points.

`dims` has half-open intervals and sets of them by name, `affine` sums of variables in normal form, `intervals` what
operations make of bounds, `sets` boxes and sets of points. It imports `runtime` alone. Begin with `dims`.
"""
