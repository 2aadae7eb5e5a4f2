"""Storage that a block allocates for the iterations of a parallel loop.

A schedule names the storage of a stage at the root, wherever the stage was moved to; TVM allocates it where all that
uses it stands (its pass PlanAndUpdateBufferAllocationLocation). So where one loop that runs at once holds all of it,
each iteration has storage of its own, and iterations that fill the same elements do not meet:

>>> import tensorir.tir as tir
>>> main = tir.parse('''
... @T.prim_func
... def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
...     S = T.sblock_alloc_buffer((1,))
...     for i in T.parallel(4):
...         S[0] = A[i]
...         B[i] = S[0]
... ''')["main"]
>>> [(loop.loop_var.name, [b.name for b in buffers]) for loop, buffers in scratch_of(main.body.block).items()]
[('i', ['S'])]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from tensorir.tir.nodes import Block, Buffer, For, ForKind, Node, Var
from tensorir.tir.walk import walk

__all__ = ["AT_ONCE", "scratch_of"]

AT_ONCE = (ForKind.PARALLEL, ForKind.VECTORIZED)
"""The loops whose iterations run at once."""


def scratch_of(block: Block) -> Mapping[For, tuple[Buffer, ...]]:
    """The loops that run at once inside of a block, with those of its buffers that nothing outside of them uses."""
    named = {buffer.data: buffer for buffer in block.alloc_buffers}
    if not named:
        return {}
    loops = [node for node in walk(block.body) if isinstance(node, For) and node.kind in AT_ONCE]
    whole = _uses(block.body, named) if loops else Counter[Var]()
    found: dict[For, tuple[Buffer, ...]] = {}
    for loop in loops:
        own = tuple(named[data] for data, count in _uses(loop, named).items() if count == whole[data])
        if own:
            found[loop] = own
    return found


def _uses(node: Node, named: Mapping[Var, Buffer]) -> Counter[Var]:
    """How often each memory is named at and below a node."""
    uses: Counter[Var] = Counter()
    for part in walk(node):
        data = part.data if isinstance(part, Buffer) else part
        if isinstance(data, Var) and data in named:
            uses[data] += 1
    return uses
