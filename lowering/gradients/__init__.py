"""Derivatives: which are finite, which are made safe, and how loops are differentiated at a stated memory.

`tensorir.analysis.annotations` says of which operations slopes may be multiplied as they are,
`safe_derivatives` multiplies the others; `checkpointed_loop` and `checkpointed_while` differentiate loops, over the
bodies that `loop_body_derivatives` makes, whose reads add cotangents in place (`in_place_adjoints`). The transpose of
a stencil is a stencil (`stencil_transpose`), which `gathered_cotangents` makes reverse mode use.
"""
