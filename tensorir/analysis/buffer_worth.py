"""What a buffer is worth: operations that are saved against bytes that are moved, with the figures shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tensorir.analysis.cost import bytes_of
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Call, Expr, Lambda
from tensorir.ir.rewrite import postorder
from tensorir.ir.types import TensorType
from tensorir.runtime.errors import Displayed

__all__ = ["Worth", "work_of"]


@dataclass(frozen=True, slots=True)
class Worth(Displayed):
    """The case for storing one expression.

    >>> from tensorir.ir.types import tensor
    >>> print(Worth("tmp", 2, 8.0, tensor("float", I=(0, 100))))
    tmp: read at 2 places; 8 operations per point, 100 points: 800 operations saved, 1,600 bytes added (0.50 per byte)
    """

    name: str
    uses: int
    """At how many offsets, or by how many expressions, it is read."""
    work: float
    """Operations per point; a transcendental one counts 32."""
    buffer: TensorType

    @property
    def saved(self) -> int:
        """Operations that are not done again."""
        return round((self.uses - 1) * self.work * self.buffer.dims.size)

    @property
    def added(self) -> int:
        """Bytes that are written once and read once: further reads, at other offsets, find them in the cache."""
        return 2 * bytes_of(self.buffer)

    @property
    def per_byte(self) -> float:
        return self.saved / max(1, self.added)

    def __str__(self) -> str:
        size = self.buffer.dims.size
        return (
            f"{self.name}: read at {self.uses} places; {self.work:g} operations per point, {size:,} points: "
            f"{self.saved:,} operations saved, {self.added:,} bytes added ({self.per_byte:.2f} per byte)"
        )


def work_of(root: Expr, stored: Mapping[int, str]) -> float:
    """Operations per point of an expression, what is stored already not counted; a fold does its body's per level."""
    total = 0.0
    points = max(1, root.tensor.dims.size)
    times: dict[int, int] = {id(root): 1}
    for node in reversed(list(postorder(root))):
        often = times.get(id(node), 0)
        if not often or (id(node) in stored and node is not root):
            continue
        levels = often
        match node:
            case Call("reduce" | "scan", args):
                dim = node.static.dim
                levels = often * next(len(a.tensor.dims[dim]) for a in args[2:] if dim in a.tensor.dims)
            case Call() if node.definition is not None:
                total += often * work_of(node.definition.body, {}) * node.tensor.dims.size
            case Call(op):
                total += often * node.tensor.dims.size * TABLE[op].cost
            case _:
                pass
        for child in node.children:
            inner = levels if isinstance(child, Lambda) else often
            times[id(child)] = max(times.get(id(child), 0), inner)
    return total / points
