"""Derivatives: which are finite, which are made safe, and how loops are differentiated at a stated memory.

`tensorir.analysis.annotations` says of which operations slopes may be multiplied as they are; `in_place_adjoints`
multiplies the others, and adds cotangents where reads stand. `checkpointed_loop` differentiates loops. The transpose of
a stencil is a stencil (`stencil_transpose`), in reverse mode too.
"""
