"""Derivatives: which are finite, which are made safe, and how loops are differentiated at a stated memory.

`tensorir.analysis.annotations` says of which operations slopes may be multiplied as they are; `safe_slopes` multiplies
the others, and `in_place_adjoints` adds cotangents where reads stand. `checkpointed_loop` differentiates loops. The
transpose of a stencil is a stencil (`stencil_transpose`), in reverse mode too.
"""
