"""Integers that programs are made of, for all that reasons about indices, sizes and points.

`affine` has sums of variables in normal form, `intervals` what operations make of bounds, `sets` boxes and sets of
points. It imports `ir.types` alone. Begin with `affine`.
"""
