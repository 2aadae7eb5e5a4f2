"""What analyses say of the nodes of a program that is about to be emitted, in one object that can be printed.

Nodes are told apart by identity: equal expressions that are not shared may have other readers, and other findings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tensorir.analysis.absence import AbsenceAnalysis
from tensorir.analysis.exact_rounding import towards_whole_numbers
from tensorir.analysis.finite_derivatives import finite_derivatives
from tensorir.analysis.loop_invariants import loop_invariants
from tensorir.analysis.stencil_reductions import stencil_reductions
from tensorir.analysis.unseen_extremes import unseen_extremes
from tensorir.ir.nodes import Call, Expr, Fencil
from tensorir.ir.rewrite import postorder, values
from tensorir.ir.types import Dims

__all__ = ["Annotation", "Annotations", "annotated"]


class Annotation(NamedTuple):
    """One finding: the analysis, and the expression that it is about, in the notation."""

    analysis: str
    expression: str


@dataclass(frozen=True, slots=True)
class Annotations:
    """The findings of all analyses that a backend asks; those of nodes by identity."""

    fencil: Fencil
    absence: AbsenceAnalysis
    finite: frozenset[int] = frozenset()
    """Operations whose derivatives need no care where their result is not needed (`finite_derivatives`)."""
    written: frozenset[int] = frozenset()
    """Operations that are rounded as they are written (`exact_rounding`)."""
    invariants: Mapping[int, tuple[Expr, ...]] = field(default_factory=dict[int, tuple[Expr, ...]])
    """Loops that are computed where a function stands, and not in its body (`loop_invariants`)."""
    unseen: frozenset[int] = frozenset()
    """Extremes that may come to anything in rows that hold a NaN (`unseen_extremes`)."""
    stencil_reductions: frozenset[int] = frozenset()
    """Reductions of what is computed of values at offsets (`stencil_reductions`)."""

    def __iter__(self) -> Iterator[Annotation]:
        """The findings that are not what is plain, in the order of the program."""
        for node in postorder(*values(self.fencil.closures)):
            text = " ".join(str(node).split())
            access = self.absence.accesses.get(id(node))
            if access is not None and access.absent:
                yield Annotation("absence", text)
            if access is not None and not access.proven:
                yield Annotation("checked index", text)
            if isinstance(node, Call) and id(node) in self.written:
                yield Annotation("rounded as written", text)
            if isinstance(node, Call) and id(node) in self.unseen:
                yield Annotation("any extreme of rows with NaN", text)
            if id(node) in self.stencil_reductions:
                yield Annotation("reduction of a stencil", text)
            yield from (
                Annotation("loop invariant", " ".join(str(e).split())) for e in self.invariants.get(id(node), ())
            )

    def __str__(self) -> str:
        rows = list(self)
        width = max((len(row.analysis) for row in rows), default=0)
        return "\n".join(f"{row.analysis:<{width}}  {row.expression}" for row in rows)


def annotated(fencil: Fencil, absence: AbsenceAnalysis, read: Mapping[str, Dims] | None = None) -> Annotations:
    """What is known of the nodes of a program, of which it is known where elements may be absent.

    `read` has the points of the results that somebody reads, by name; without it, all of all.

    >>> from tensorir.analysis.absence import analyse_absence
    >>> from tensorir.text import parse
    >>> f = parse("f(y: tensor<float>, x: tensor<float, I[0:9]>, v: tensor<float>) "
    ...           "{ y ← gather(I)(x, cast(v × 3.0, int)); }")
    >>> print(annotated(f, analyse_absence(f, {})))
    rounded as written  v × 3.0
    checked index       gather(I)(x, cast(v × 3.0, int))
    """
    roots = values(fencil.closures)
    # where elements may be absent a NaN may be left out of a sum
    whole = not any(access.absent for access in absence.accesses.values())
    return Annotations(
        fencil, absence, finite_derivatives(fencil, read), towards_whole_numbers(roots),
        loop_invariants(fencil, absence), unseen_extremes(fencil) if whole else frozenset(), stencil_reductions(fencil),
    )  # fmt: skip
