"""Needed and computed: of which expressions every element that is computed has a part in a result.

What an expression computes is all of its type. What is needed of it is found backward from the results, by the rules
of `analysis.access_functions`, and here counts only what is needed whatever the data is: a branch that may not be
taken, an operand that may not be the greater one, an element that a table may not lead to, or a slot that may be
skipped, is not.
An expression in the body of a fold is met once for each level, and must be needed as a whole at each.

>>> import tensorir as ti
>>> from tensorir.ir.rewrite import postorder
>>> f = ti.parse("f(y: tensor<float, I[1:4]>, x: tensor<float, I[0:5]>) { y ← exp(x) + sqrt(subset(x, I[1:4])); }")
>>> whole = needed(f).whole
>>> [str(e) for e in postorder(*values(f.closures)) if id(e) in whole]
['subset(x, I[1:4])', 'sqrt(subset(x, I[1:4]))', 'exp(x) + sqrt(subset(x, I[1:4]))']
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tensorir.analysis.access_functions import Rule, elementwise, levels, rule_of
from tensorir.analysis.domains import Needs, Reads
from tensorir.analysis.integer_sets import IntegerSet
from tensorir.binding.arrays import Array
from tensorir.binding.bound import BoundProgram
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Call, Expr, Fencil, Operator
from tensorir.ir.rewrite import values, with_values
from tensorir.ir.substitution import inlined
from tensorir.ir.types import Dims, TupleElement

__all__ = ["Needed", "needed"]


@dataclass(frozen=True, slots=True)
class Needed:
    """What is needed of the expressions of a program, whatever its data is."""

    whole: frozenset[int]
    """The calls, by identity, all elements of which have a part in a result each time that they are computed."""


def needed(fencil: Fencil, read: Mapping[str, Dims] | None = None) -> Needed:
    """What is needed of the calls of a program for the derivatives of its results.

    Of these `read` has the points that somebody reads, by name; without it, all of all.
    """
    copies: dict[int, list[Expr]] = {}
    closures = with_values(fencil.closures, inlined(values(fencil.closures), copies))
    reads = _Certain(Fencil(fencil.name, fencil.params, closures, fencil.span, fencil.buffers))
    points = {p.name: p.type.dims for p in fencil.results} if read is None else read
    need = {
        p: IntegerSet.box(points[p.name]) if p.name in points else IntegerSet(p.type.dims.names) for p in fencil.params
    }
    for closure in reversed(closures):
        output, target = closure.output, closure.target.dims
        wanted = need[output].within(target)
        need[output] = need[output].without(target)
        for variable, found in reads.of_closure(closure.value, wanted).items():
            need[variable] |= found
    whole = reads.nodes.keys() - reads.partly
    return Needed(frozenset(key for key, made in copies.items() if all(id(e) in whole for e in made)))


class _Certain(Reads):
    """The backward analysis of what is needed in any case; of no table it is known where it leads."""

    def __init__(self, fencil: Fencil) -> None:
        super().__init__(fencil, BoundProgram.of(fencil), boxes=False)
        self.partly: set[int] = set()
        """By identity, what was computed and not needed as a whole."""
        self.members: dict[int, dict[int, IntegerSet]] = {}
        """Of tuples, by identity: what is needed of each member."""

    def rule(self, node: Call) -> Rule:
        if not any(s.is_float for s in node.tensor.leaves):
            return _nothing
        return _RULES.get(node.op) or (_nothing if _decides(node.op) else rule_of(node))

    def wanted(self, node: Expr, found: IntegerSet | None) -> IntegerSet | None:
        members = self.members.pop(id(node), {})
        if members and isinstance(node.tensor.element, TupleElement):
            first, *rest = members.values()
            if len(members) == len(node.tensor.element.members) and all(first == m for m in rest):
                found = first if found is None else found | first
        if found is None or not found.fills(node.tensor.dims):
            self.partly.add(id(node))
        return found

    def entries(self, table: Expr) -> Array | None:
        return None

    def of_function(self, function: Any, wanted: Sequence[IntegerSet], outside: Needs) -> list[IntegerSet]:
        if isinstance(function, Operator) and _decides(function.op):
            return [IntegerSet(t.dims.names) for t in function.params]
        return super().of_function(function, wanted, outside)


def _decides(op: str) -> bool:
    """Whether data say which elements an operation has a part of, or its derivative is zero."""
    row = TABLE[op]
    return row.chooses or row.indirect or row.slope == "zero"


def _nothing(reads: Reads, node: Call, wanted: IntegerSet, needs: Needs) -> None:
    """What decides, has no derivative, or reads elements that only the data knows."""


def _first(reads: Reads, node: Call, wanted: IntegerSet, needs: Needs) -> None:
    needs.add(node.args[0], wanted)


def _all_or_nothing(reads: Reads, node: Call, wanted: IntegerSet, needs: Needs) -> None:
    if wanted.fills(node.tensor.dims):
        elementwise(reads, node, wanted, needs)


def _member(reads: Reads, node: Call, wanted: IntegerSet, needs: Needs) -> None:
    assert isinstance(reads, _Certain)
    (x,), (k,) = node.args, node.static
    members = reads.members.setdefault(id(x), {})
    members[k] = members[k] | wanted if k in members else wanted


def _reduce(reads: Reads, node: Call, wanted: IntegerSet, needs: Needs) -> None:
    """A slot may be skipped where a table holds -1."""
    if not reads.holes:
        (dim,) = node.static
        column = next(a.tensor.dims[dim] for a in node.args[2:] if dim in a.tensor.dims)
        levels(reads, node, wanted, needs, column, True, lambda k: None, False)


_RULES: dict[str, Rule] = {
    "print": _first,
    "assert_": _first,
    "sort": _all_or_nothing,
    "tuple_get": _member,
    "reduce": _reduce,
}
"""Operations that mean something else here than in `analysis.access_functions`."""
