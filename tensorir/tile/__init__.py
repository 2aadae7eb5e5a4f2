"""Tile IR, the tile-level IR of CUDA: read as text and as bytecode, and written, without a GPU.

The text is MLIR assembly of the dialect cuda_tile. It is read by a reader of our own and not by xDSL: each operand has
its place in the text, messages are in the words of Tile IR, and the table of operations that the reader follows is the
one that bytecode, verifier and interpreter follow.

>>> module = parse('''
... entry @twice(%p: tile<ptr<f32>>, %n: tile<i32>) {
...   %view = make_tensor_view %p, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
... }''')
>>> module
<tile module @kernels: @twice>
>>> parse(str(module)) == module == from_bytecode(to_bytecode(module))
True
"""

from __future__ import annotations

from tensorir.runtime.errors import Diagnostic, DiagnosticError
from tensorir.tile.bytecode import from_bytecode, to_bytecode
from tensorir.tile.cutile import from_cutile, launch
from tensorir.tile.equality import retype
from tensorir.tile.interpret import interpret
from tensorir.tile.nodes import Module, Operation, Region, Value
from tensorir.tile.pictures import grid_picture, picture
from tensorir.tile.text.modules import parse
from tensorir.tile.text.printing import print_module
from tensorir.tile.verify import verify

__all__ = [
    "Diagnostic",
    "DiagnosticError",
    "Module",
    "Operation",
    "Region",
    "Value",
    "from_bytecode",
    "from_cutile",
    "grid_picture",
    "interpret",
    "launch",
    "parse",
    "picture",
    "print_module",
    "retype",
    "to_bytecode",
    "verify",
]
