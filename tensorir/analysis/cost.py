"""What a program costs, counted exactly from its types: operations, and bytes of its arguments and results.

An operation is one scalar result of an elementwise builtin; shifts, subsets and other moves cost none. A node that is
used several times counts once, a function once per application, a fold once per point of its dim.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Call, Expr, Fencil, Operator
from tensorir.ir.rewrite import Applier, Bound, evaluate
from tensorir.ir.types import TensorType

__all__ = ["BEYOND", "CACHE", "PER_BYTE", "Cost", "bytes_of", "count"]

PER_BYTE = 0.875
"""How many additions a byte that is written and read again takes as long as (`tests/benchmarks/stored.py`)."""
CACHE = 16 << 20
BEYOND = 2.0
"""How many times as dear the bytes of a buffer are that a cache of 16 MiB does not hold."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Operations and bytes of one run; `xla` is what XLA's own analysis says, where it was asked."""

    operations: int
    transcendental: int
    """How many of the operations are exp, sin and the like."""
    bytes_read: int
    bytes_written: int
    xla: Mapping[str, float] = field(default_factory=dict[str, float])

    def beside(self, xla: Mapping[str, float]) -> Cost:
        return replace(self, xla=xla)

    def __str__(self) -> str:
        lines = [
            f"{self.operations:,} operations, {self.transcendental:,} of them transcendental",
            f"{self.bytes_read:,} bytes read, {self.bytes_written:,} written",
        ]
        return "\n".join(lines + [f"XLA: {name} {value:,.0f}" for name, value in self.xla.items()])


def bytes_of(kind: TensorType) -> int:
    """The size of a buffer of a type.

    >>> from tensorir.ir.types import tensor
    >>> bytes_of(tensor("float", I=(0, 10)))
    80
    """
    return sum(max(1, s.bits // 8) for s in kind.leaves) * kind.dims.size


def count(fencil: Fencil) -> Cost:
    """The cost of a fencil, from the types of its nodes."""
    counter = _Counter()
    for closure in fencil.closures:
        evaluate(closure.value, dict.fromkeys(fencil.params, 0), counter)
    read = sum(bytes_of(p.type) for p in fencil.inputs)
    written = sum(bytes_of(p.type) for p in fencil.outputs)
    return Cost(counter.operations, counter.transcendental, read, written)


@dataclass(slots=True)
class _Counter:
    """A rule of `evaluate` that counts; `times` is how often the body under evaluation runs."""

    operations: int = 0
    transcendental: int = 0
    times: int = 1
    blocks: set[tuple[int, ...]] = field(default_factory=set[tuple[int, ...]])

    def __call__(self, node: Expr, args: Sequence[Any], apply: Applier[int]) -> int:
        match node:
            case Operator(op) | Call(op) if TABLE[op].elementwise:
                kind = node.type.result if isinstance(node, Operator) else node.tensor
                here = self.times * kind.dims.size
                self.operations += here
                self.transcendental += here if TABLE[op].transcendental else 0
            case Call() if node.definition is not None:
                apply(Bound(node.definition, {}), *args)
            case Call("reduce" | "scan" as op):
                dim = node.static.dim
                levels = next(len(a.tensor.dims[dim]) for a in node.args[2:] if dim in a.tensor.dims)
                self._body(levels, args[0], len(args) - 1, apply)
            case Call("loop"):
                rounds = 1 if node.static.limit is None else node.static.limit
                for f in args[:2]:
                    self._body(rounds, f, len(args) - 1, apply)
            case Call("blocked"):
                # all results are computed at once, and each is asked for by a node of its own
                if (key := tuple(map(id, node.args))) not in self.blocks:
                    self.blocks.add(key)
                    self._body(1, args[0], len(args) - 1, apply)
            case Call("cond"):
                for f in args[:2]:
                    self._body(1, f, len(args) - 3, apply)
            case Call("scatter"):
                updates = node.args[-1].tensor.dims.size
                self._body(updates, args[0], 2, apply)
            case _:
                pass
        return 0

    def _body(self, times: int, f: Bound[int], arity: int, apply: Applier[int]) -> None:
        before, self.times = self.times, self.times * times
        apply.each(f, *([0] * arity))
        self.times = before
