"""Integers that programs are made of: affine terms in normal form, for all that reasons about indices and sizes.

It imports nothing of the package. Begin with `affine`.
"""
