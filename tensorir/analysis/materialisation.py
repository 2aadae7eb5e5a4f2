"""What a compiler stores and does not compute again: the same weighing as in `temporaries`, for the lowering.

XLA fuses what is read at several offsets into every reader and computes it at each; storing it costs the bytes.

>>> import tensorir as ti
>>> f = ti.parse('''f(out: tensor<float, I[1:8]>, x: tensor<float, I[0:9]>) { out ←
...   let wave = cos(x) × exp(x); let double = x + x; ⟪I, 1⟫(wave) + ⟪I, -1⟫(wave) + ⟪I, 1⟫(double) - double; }''')
>>> [node.label for node in worth_storing(f).values()]
['wave']
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tensorir.analysis.buffer_worth import Worth
from tensorir.analysis.cost import BEYOND, CACHE, PER_BYTE, bytes_of
from tensorir.analysis.uses import reads, surface
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Apply, Call, Expr, Fencil, Lambda
from tensorir.ir.rewrite import values
from tensorir.ir.types import FLOAT64, Dims, TensorType

__all__ = ["FEWEST_READS", "MIN_PER_BYTE", "Weighed", "weighed", "worth_storing"]

MIN_PER_BYTE = PER_BYTE
"""Operations that a byte must save."""
FEWEST_READS = 4
"""Parts that are joined are stored from so many offsets on: XLA stores them for each few readers, or asks at each point
of each reader which part it is in."""


def worth_storing(fencil: Fencil, min_per_byte: float = MIN_PER_BYTE) -> dict[int, Call]:
    """The expressions that are read at several offsets and cost more to compute again than to store, by identity."""
    return {id(w.node): w.node for w in weighed(fencil, min_per_byte) if w.stored}


@dataclass(frozen=True, slots=True)
class Weighed:
    """An expression that is read at several offsets, and what storing it would save."""

    node: Call
    uses: int
    """At how many offsets it is read."""
    work: float
    """Operations per point, or a part of them from which on it is stored."""
    needed: float
    """Operations per point from which on storing pays."""
    joined: bool = False
    """Whether it is stored since its parts are joined, and read at so many offsets."""

    @property
    def stored(self) -> bool:
        return self.work >= self.needed

    def per_byte(self, min_per_byte: float) -> float:
        """Operations that storing saves for each byte, as they are compared with a limit."""
        return self.work / self.needed * min_per_byte if self.needed else math.inf


def weighed(fencil: Fencil, min_per_byte: float = MIN_PER_BYTE, beyond: float = 1.0) -> Iterator[Weighed]:
    """Each expression that is read at several offsets; work is counted up to `beyond` times what makes it stored."""
    found: dict[int, Call] = {}
    scopes: list[Expr] = list(values(fencil.closures))
    while scopes:
        root = scopes.pop()
        order = surface(root)
        scopes += [n.function.body for n in order if isinstance(n, Apply) and isinstance(n.function, Lambda)]
        readers = reads(root, order)
        kept = {id(n.args[0]) for n in order if isinstance(n, Call) and n.op == "materialise"}
        for node in order:
            # equal literals have one key: their readers, as many as there are, are not gone through for each
            if not isinstance(node, Call) or node is root or id(node) in kept:
                continue
            uses = len({offset for _, offset in readers.get(node, ())})
            joined = node.op == "concat" and uses >= FEWEST_READS
            if uses > 1 and (_computes(node) or joined):
                needed = _needed(uses, node.tensor, min_per_byte)
                work = _work(node, beyond * needed, found) if not joined else 0.0 if math.isinf(needed) else needed
                one = Weighed(node, uses, work, needed, joined)
                if one.stored:
                    found[id(node)] = node
                yield one


def _computes(node: Call) -> bool:
    return bool(node.tensor.dims) and (TABLE[node.op].elementwise or node.op in ("reduce", "update"))


def _needed(uses: int, kind: TensorType, min_per_byte: float) -> float:
    """The operations per point from which on a buffer is worth its bytes.

    An operation on 4 bytes takes half as long as one on 8: every element counts as 8 bytes.
    """
    one = Worth("", uses, 1.0, TensorType(FLOAT64, Dims()))
    return min_per_byte * (BEYOND if bytes_of(kind) > CACHE else 1.0) * one.added / max(1, uses - 1)


def _work(root: Expr, enough: float, stored: Mapping[int, Expr]) -> float:
    """Operations per point of an expression, counted no further than to `enough`; what is stored is not counted."""
    total, points = 0.0, max(1, root.tensor.dims.size)
    seen: set[int] = set()
    stack: list[Expr] = [root]
    while stack and total < enough:
        node = stack.pop()
        if id(node) in seen or (id(node) in stored and node is not root):
            continue
        seen.add(id(node))
        match node:
            case Call("reduce", (_, init, *args)):
                levels = next(len(a.tensor.dims[node.static.dim]) for a in args if node.static.dim in a.tensor.dims)
                total += levels * node.tensor.dims.size / points
                stack += [init, *args]
            case Call("scan" | "loop" | "cond" | "sort" | "scatter" | "materialise"):
                continue
            case Call(_, args) if node.definition is not None:
                stack += [node.definition.body, *args]
            case Call(op, args):
                total += TABLE[op].cost * node.tensor.dims.size / points
                stack += args
            case Apply(Lambda(_, (body,)), args):
                stack += [body, *args]
            case _:
                pass
    return total
