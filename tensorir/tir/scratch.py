"""Storage that a block allocates for the iterations of a parallel loop.

A schedule names the storage of a stage at the root, wherever the stage was moved to; TVM allocates it where all that
uses it stands (its pass PlanAndUpdateBufferAllocationLocation). So where one loop that runs at once holds all of it,
each iteration has storage of its own, and iterations that fill the same elements do not meet. What a block folds into
stands outside of the loops that it folds over, as they go on with it:

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

from tensorir.tir.nodes import Block, BlockRealize, Buffer, For, ForKind, IterKind, Node, Stmt, Var
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
    folded = _folded(block.body, named) if loops else {}
    variables = {node.loop_var for node in walk(block.body) if isinstance(node, For)} if folded else set[Var]()
    found: dict[For, tuple[Buffer, ...]] = {}
    for loop in loops:
        around = variables - {node.loop_var for node in walk(loop.body) if isinstance(node, For)}
        own = tuple(
            named[data]
            for data, count in _uses(loop, named).items()
            if count == whole[data] and not folded.get(data, set[Var]()) & around
        )
        if own:
            found[loop] = own
    return found


def _folded(body: Stmt, named: Mapping[Var, Buffer]) -> dict[Var, set[Var]]:
    """The loops over which each memory is folded: it lasts from one turn to the next, so it stands outside of them."""
    bound: dict[Var, set[Var]] = {}  # the loops of which the iterator of a block is made
    found: dict[Var, set[Var]] = {}
    for realize in walk(body):
        if not isinstance(realize, BlockRealize):
            continue
        over: set[Var] = set()
        for iterator, value in zip(realize.block.iter_vars, realize.values, strict=True):
            parts = {part for part in walk(value) if isinstance(part, Var)}
            loops = set[Var]().union(*(bound.get(part, {part}) for part in parts))
            bound[iterator.var] = loops
            if iterator.kind is not IterKind.DATA_PARALLEL:
                over |= loops
        for region in realize.block.writes if over else ():
            if region.buffer.data in named:
                found.setdefault(region.buffer.data, set()).update(over)
    return found


def _uses(node: Node, named: Mapping[Var, Buffer]) -> Counter[Var]:
    """How often each memory is named at and below a node."""
    uses: Counter[Var] = Counter()
    for part in walk(node):
        data = part.data if isinstance(part, Buffer) else part
        if isinstance(data, Var) and data in named:
            uses[data] += 1
    return uses
