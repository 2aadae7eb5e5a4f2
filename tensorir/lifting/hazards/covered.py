"""Arguments that a program fills: nothing that a caller put there is read, or left.

`B[0] = a; for i in range(n - 1): B[i + 1] = ...` fills B, of n elements, though no statement does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tensorir.ir.types import INT32
from tensorir.lifting.hazards.before import first_missing
from tensorir.lifting.hazards.touches import Touch, Touches
from tensorir.lifting.nests.linear import linear
from tensorir.lifting.nests.nest import External, Leaf, Loop, Node, Store, leaves, ranges_of
from tensorir.lifting.nests.terms import Buffer, Index, Load, Number

__all__ = ["filled_arguments", "is_written_whole"]


def filled_arguments(nodes: Sequence[Node], touches: Touches, arguments: Iterable[Buffer]) -> frozenset[Buffer]:
    """Those of some arguments whose elements are all written, each before it is read."""
    statements = leaves(nodes)
    return frozenset(b for b in arguments if _is_filled(b, statements, touches))


def is_written_whole(buffer: Buffer, nodes: Sequence[Node], touches: Touches) -> bool:
    """Whether every element of a buffer is written in the end, whatever data say."""
    writers = [leaf for leaf in leaves(nodes) if buffer in leaf.written]
    if any(isinstance(leaf.node, External) and not leaf.node.guards for leaf in writers):
        return True  # a function of whole buffers
    seen = [t for leaf in writers for t in touches.of(leaf, "_a")]
    writes = [t for t in seen if t.write and t.exact and t.buffer is buffer]
    return all(_is_written(r, writes) for r in _of_all(buffer, touches))


def _is_filled(buffer: Buffer, statements: Sequence[Leaf], touches: Touches) -> bool:
    around = [leaf for leaf in statements if any(b.root is buffer.root for b in leaf.written | leaf.read)]
    if buffer.memory is not None or not all(_is_plain(leaf, buffer) for leaf in around):
        return False
    seen = [t for leaf in around for t in touches.of(leaf, "_a") if t.buffer is buffer]
    writes = [t for t in seen if t.write and t.exact]
    reads = [*(t for t in seen if not t.write), *_of_all(buffer, touches)]
    return all(_is_written(r, writes) for r in reads)


def _is_plain(leaf: Leaf, buffer: Buffer) -> bool:
    """Whether a statement touches the memory of a buffer by its name only, and reads it at sums of indices."""
    others = any(b.root is buffer.root and b is not buffer for b in leaf.written | leaf.read)
    ranges = ranges_of(leaf.loops)
    told = all(linear(i, ranges) is not None for load in leaf.reads if load.buffer is buffer for i in load.indices)
    return isinstance(leaf.node, Store) and not others and told


def _of_all(buffer: Buffer, touches: Touches) -> Iterable[Touch]:
    """A read of every element behind all statements."""
    loops = tuple(Loop(f"place_{k}", Number(0, INT32), Number(n, INT32), ()) for k, n in enumerate(buffer.shape))
    place = tuple(Index(loop.name, INT32) for loop in loops)
    read = Store(Buffer("read", buffer.element, ()), (), Load(buffer, place))
    return [t for t in touches.of(Leaf(read, loops, (1 << 62,)), "_a") if not t.write]


def _is_written(r: Touch, writes: Sequence[Touch]) -> bool:
    """Whether all that is read was written before, as far as that can be decided."""
    return first_missing(r, writes) == []
