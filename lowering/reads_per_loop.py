"""Loops that read through neighbour tables: each reads for itself, since XLA fuses a gather only into a single reader.

A gather that two loops read is stored, with all levels and for each neighbour; fused into both, it is two reads of
memory that the caches hold. So what is computed of reads through tables, and of nothing that is stored, is evaluated
anew for each loop, from tables behind a barrier, which keeps XLA from joining them again (`docs/lowering.md`,
"Neighbour tables"). Where that takes more gathers than storing takes passes over memory, the value is stored.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, replace

from jax import lax

from lowering.neighbours import Prepared
from tensorir.analysis.uses import MOST, surface
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Call, Expr, Var
from tensorir.ir.types import NEIGHBOUR, TensorType

__all__ = ["MOST_REPEATED", "ReadsPerLoop", "apart", "reads_per_loop"]

MOST_REPEATED = 1.0
"""So many gathers are done again for each pass over memory that storing what they give takes."""
NEW_MEMORY = 2
"""How many passes of reading it takes to write what is new in memory."""

MOVES = frozenset(["concat", "update", "rename", "cartesian_shift", "subset", "shift_apply", "add_dim", "can_deref"])
OF_TUPLES = frozenset(["make_tuple", "tuple_get", "if", "cast", "bitcast"])


@dataclass(frozen=True, slots=True)
class ReadsPerLoop:
    """What loops compute from reads through tables, of the values of some closures, by identity."""

    anew: frozenset[int] = frozenset()
    """What is computed in each loop that reads it, tables included."""
    made: frozenset[int] = frozenset()
    """What goes through tables and has a loop of its own."""
    kept: frozenset[int] = frozenset()
    """Of that, what is stored for several loops."""

    def loops(self, root: Expr) -> Iterator[Expr]:
        """What has a loop of its own on the way to an expression, operands first, and the expression."""
        if self.made:
            yield from (n for n in surface(root) if id(n) in self.made and n is not root)
        yield root


Chooses = Callable[[Expr, float], bool]
"""Whether a node that several loops read is read again in each, by how many gathers are done again for each pass."""


def reads_per_loop(
    roots: Sequence[Expr], results: Container[int], tables: Container[Var], chooses: Chooses
) -> ReadsPerLoop:
    """What each loop computes of reads through `tables`, which are prepared.

    `results` are those of the roots, by identity, that are stored as they are.
    """
    order = surface(*roots)
    through, read = set[int](), dict[int, frozenset[tuple[int, int]]]()
    checked = set[int]()
    for n in order:
        if any(id(c) in checked for c in n.children) or (isinstance(n, Call) and _acts(n)):
            checked.add(id(n))  # what is checked is checked once
        elif isinstance(n, Var) and n in tables:
            through.add(id(n))
        elif isinstance(n, Call) and _is_fused(n) and any(id(c) in through for c in n.children):
            through.add(id(n))
            found = _gathers(n).union(*(read.get(id(c), ()) for c in n.children))
            read[id(n)] = found if len(found) <= MOST else frozenset(sorted(found)[:MOST])
    if not read:
        return ReadsPerLoop()
    ends = {id(r) for r in roots}
    readers: dict[int, set[int]] = {}
    for r in roots:
        readers.setdefault(id(r), set()).add(id(r))
    made = set[int]()
    consumers: dict[int, list[set[int]]] = {}
    for n in reversed(order):
        mine = readers.setdefault(id(n), set())
        if isinstance(n, Call) and id(n) in through:
            used = consumers.get(id(n), [])
            if (id(n) in results and used) or any(len(mine) > 1 and c != mine for c in used):
                # what is a result is stored in any case
                passes = (1 if id(n) in results else len(mine) + NEW_MEMORY) * _arrays(n.tensor)
                again = len(read[id(n)]) * (len(mine) - 1) / passes
                if not chooses(n, again):
                    made.add(id(n))
            if id(n) in made:
                mine = {id(n)}
        elif id(n) not in ends:
            mine = {id(n)}
        for c in n.children:
            if id(c) in read:
                # what is no loop's own reads its operands from memory
                if id(n) not in through:
                    made.add(id(c))
                readers.setdefault(id(c), set()).update(mine)
                consumers.setdefault(id(c), []).append(mine)
    kept = {n for n in made if len(readers[n]) > 1}
    return ReadsPerLoop(frozenset(through - made), frozenset(made), frozenset(kept))


def _gathers(node: Call) -> frozenset[tuple[int, int]]:
    """The gathers that a node is: one for each neighbour."""
    match node.op:
        case "unstructured_shift":
            return frozenset([(id(node), 0)])
        case "shift_init":
            (new,) = set(node.tensor.dims.names).difference(*(a.tensor.dims.names for a in node.args))
            return frozenset((id(node), k) for k in range(len(node.tensor.dims[new])))
        case _:
            return frozenset()


def _arrays(kind: TensorType) -> int:
    """How many arrays are stored of a value: one for each neighbour."""
    return math.prod([len(i) for d, i in kind.dims.items if d.startswith(NEIGHBOUR)]) * len(kind.leaves)


def _acts(node: Call) -> bool:
    row = TABLE[node.op]
    return row.effect or row.checks


def _is_fused(node: Call) -> bool:
    """Whether a node is computed in the loop that reads it."""
    if node.op in ("shift_init", "unstructured_shift"):
        return isinstance(node.args[0], Var)
    if node.op == "reduce":
        return node.static.dim.startswith(NEIGHBOUR)
    row = TABLE[node.op]
    return (row.elementwise or node.op in MOVES | OF_TUPLES) and all(isinstance(a.type, TensorType) for a in node.args)


def apart(table: Prepared) -> Prepared:
    """A table that reads the same, and whose reads XLA does not take for those of this one.

    XLA joins barriers of the same operands, so each is one of the table before it.
    """
    return replace(table, columns=tuple(lax.optimization_barrier(table.columns)))
