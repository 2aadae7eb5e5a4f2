"""Lowering rules: what XLA gets for each builtin, by kind.

They import `lowering.context`, `lowering.values` and `lowering.raising`; begin with `elementwise`.
"""
