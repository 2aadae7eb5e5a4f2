"""Two programs evaluated over the reals at the same inputs: where they agree, differ, or are not told apart."""

# Arrays hold elements of any type here, so what NumPy makes of them has no type of its own.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownLambdaType=false

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tensorir.equality.inputs import Input
from tensorir.equality.programs import Member
from tensorir.equality.reals import residues as rs
from tensorir.equality.reals.decisions import Decisions, Node
from tensorir.equality.reals.domain import Unsupported
from tensorir.equality.reals.ends import Ends
from tensorir.equality.reals.evaluation import Branches, evaluated, given
from tensorir.equality.reals.formulas import Condition, Formal, variables
from tensorir.equality.reals.numbers import Real
from tensorir.equality.reals.solver import Solver
from tensorir.equality.reals.tensors import Leaf
from tensorir.equality.verdict import Level
from tensorir.ir.nodes import Call, Fencil
from tensorir.ir.rewrite import postorder, values
from tensorir.ir.types import TensorType
from tensorir.passes.reductions import Contractions
from tensorir.runtime.errors import DiagnosticError

__all__ = ["Agreement", "Comparison", "Evaluator", "equal_by_decisions", "equal_by_formulas", "has_floats"]

Array = np.ndarray[Any, Any]
AMBIGUOUS = frozenset(["sqrt", "rsqrt", "log", "log2", "log10", "log1p", "power", "cbrt"])
"""Whose residues are known up to a sign only: formulas that are equal may differ at a point."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two programs at one input: per output, elements that differ in number, by more than rounding, and in formula."""

    refused: str = ""
    """What the one says that refuses the input, where the other takes it."""
    neither: bool = False
    """Whether both refuse it."""
    number: tuple[Array, ...] = ()
    beyond: tuple[Array, ...] = ()
    formula: tuple[Array, ...] = ()
    largest: float = 0.0
    """The largest difference of witnesses that float64 does not explain."""
    bounds: tuple[Array, ...] = ()
    """How far rounding may lead the results of both runs apart."""

    @property
    def tells_apart(self) -> bool:
        return bool(self.refused) or any(b.any() for b in self.beyond)


@dataclass(slots=True)
class Evaluator:
    """Two programs, and the branches of both that inputs visited."""

    f: Member
    g: Member
    branches: Branches = field(default_factory=Branches)

    programs: tuple[Fencil, ...] = ()

    def __post_init__(self) -> None:
        # sums of products are products of matrices, which are evaluated at once
        self.programs = tuple(Contractions().run(m.fencil) for m in (self.f, self.g))

    @property
    def ambiguous(self) -> bool:
        """Whether formulas that are equal may differ at a point."""
        nodes = (e for f in self.programs for e in postorder(*values(f.closures)))
        return any(isinstance(e, Call) and e.op in AMBIGUOUS for e in nodes)

    def __call__(self, x: Input, rng: np.random.Generator) -> Comparison:
        """Both programs at an input; raises `Unsupported` for what has no meaning over the reals."""
        leaves = [given(a, rng, m) for a, m in zip(x.arrays, x.literal, strict=True)]
        found, other = (self._run(k, leaves) for k in (0, 1))
        if isinstance(found, str) or isinstance(other, str):
            if isinstance(found, str) and isinstance(other, str):
                return Comparison(neither=True)
            return Comparison(refused=found if isinstance(found, str) else str(other))
        number, beyond, formula, largest, bounds = zip(
            *(_apart(a, b) for a, b in zip(found, other, strict=True)), strict=True
        )
        return Comparison("", False, number, beyond, formula, max(largest), bounds)

    def _run(self, which: int, leaves: Sequence[Leaf]) -> list[Leaf] | str:
        member = (self.f, self.g)[which]
        passed: dict[str, Leaf] = dict(zip((p.name for p in member.inputs), leaves, strict=True))
        for name, table in member.tables.items():
            passed[name] = given(np.asarray(table), np.random.default_rng(0), np.ones(np.shape(table), bool))
        try:
            results = evaluated(self.programs[which], passed, self.branches)
        except DiagnosticError as error:
            return str(error).splitlines()[0]
        return [t.only for t in results]


def _apart(a: Leaf, b: Leaf) -> tuple[Array, Array, Array, float, Array]:
    """Where two results differ in number, beyond rounding, in formula; the largest difference; what rounding may do."""
    if len(a.parts) == 1:
        wrong = np.asarray(a.parts[0] != b.parts[0])
        return wrong, wrong, np.zeros_like(wrong), float(wrong.any()), np.zeros(wrong.shape)
    x, y = Real.of(a), Real.of(b)
    with np.errstate(invalid="ignore"):
        distance = np.abs(x.value - y.value)
        same = (x.value == y.value) | (np.isnan(x.value) & np.isnan(y.value)) | np.isinf(x.error + y.error)
        number = ~(same | (distance <= x.error + y.error))
        bound = x.rounding + y.rounding
        beyond = number & ~(distance <= bound)
    largest = float(np.max(np.where(number & np.isfinite(distance), distance, 0.0), initial=0.0))
    return number, beyond, ~rs.same(x.residues, y.residues), largest, bound


def equal_by_formulas(f: Member, g: Member) -> bool:
    """Whether all elements of both programs' results have one formula, and are defined for the same inputs.

    What data decide, a condition or an index, has no formula.
    """
    if any(s.kind == "bool" for m in (f, g) for p in m.inputs for s in p.type.leaves) or f.narrow or g.narrow:
        return False
    try:
        (found, defined), (other, elsewhere) = (_formulas(m) for m in (f, g))
    except (Unsupported, DiagnosticError):
        return False
    same = all(bool(np.all(a.parts[0] == b.parts[0])) for a, b in zip(found, other, strict=True))
    return same and defined == elsewhere


def equal_by_decisions(f: Member, g: Member, level: Level, solver: Solver) -> Level | None:
    """The level that elements as decisions of their inputs' elements prove, from a level on; None where they do not.

    In every bit they are one node each; over the reals they have one formula each at all ends of conditions.
    """
    for ordered in (False, True):
        if ordered and level > Level.BITS_BUT_ZERO_AND_NAN:
            return None
        domain = Decisions(ordered)
        try:
            # of a source's lifts the exact one has its order
            pairs = set(zip(*(_elements(m if ordered else m.exact or m, domain) for m in (f, g)), strict=True))
            rest = [(a, b) for a, b in pairs if a is not b]
            if not rest:
                if not ordered:
                    return Level.BITS
                return Level.REALS if f.sums or g.sums else Level.BITS_BUT_ZERO_AND_NAN
            if all(map(Ends(domain, not ordered, solver).equal, *zip(*rest, strict=True))):
                return Level.REALS if ordered else Level.BITS
        except (Unsupported, DiagnosticError, RecursionError):
            return None
    return None


def _elements(m: Member, domain: Decisions) -> list[Node]:
    """All elements of the results of a program, in their order."""
    passed: dict[str, Leaf | Sequence[Leaf]] = {}
    for k, p in enumerate(m.inputs):
        (kind,) = p.type.leaves
        passed[p.name] = domain.inputs(k, p.type.dims.shape, kind)
    for name, table in m.tables.items():
        array, (kind,) = np.asarray(table), m.fencil[name].type.leaves
        passed[name] = domain.numbers(array, kind) if kind.is_float else Leaf((array,))
    results = evaluated(m.fencil, passed, domain=domain)
    kinds = [s for p in m.fencil.results for s in p.type.leaves]
    leaves = [leaf for t in results for leaf in t.leaves]
    return [
        n for leaf, s in zip(leaves, kinds, strict=True) for n in domain.numbers(leaf.parts[0], s).parts[0].reshape(-1)
    ]


def has_floats(f: Member) -> bool:
    """Whether floats are anywhere in a program."""
    params = (s for p in f.fencil.params for s in p.type.leaves)
    nodes = (e for e in postorder(*values(f.fencil.closures)) if isinstance(e.type, TensorType))
    return any(s.is_float for s in params) or any(s.is_float for e in nodes for s in e.tensor.leaves)


def _formulas(m: Member) -> tuple[list[Leaf], set[Condition]]:
    """The results of a program as formulas of its inputs' elements, and where they are defined."""
    domain = Formal()
    passed = {p.name: variables(k, p.type.dims.shape) for k, p in enumerate(m.inputs)}
    for name, table in m.tables.items():
        array = np.asarray(table)
        passed[name] = domain.whole(array) if m.fencil[name].type.leaves[0].is_float else Leaf((array,))
    return [t.only for t in evaluated(m.fencil, passed, domain=domain)], domain.conditions


@dataclass(slots=True)
class Agreement:
    """What all inputs together say of the formulas of each output's elements."""

    points: int = 0
    differed: bool = False
    """Whether witnesses differed somewhere by more than float64 explains."""
    largest: float = 0.0
    agreed: list[Array] = field(default_factory=list[Array])
    """Per output, elements whose formulas agreed at a point."""
    disagreed: list[Array] = field(default_factory=list[Array])

    def add(self, c: Comparison) -> None:
        """One input more."""
        self.points += 1
        self.differed |= any(n.any() for n in c.number)
        self.largest = max(self.largest, c.largest)
        if not self.agreed:
            self.agreed = [~f for f in c.formula]
            self.disagreed = [f.copy() for f in c.formula]
        else:
            self.agreed = [a | ~f for a, f in zip(self.agreed, c.formula, strict=True)]
            self.disagreed = [a | f for a, f in zip(self.disagreed, c.formula, strict=True)]

    def holds(self, ambiguous: bool) -> bool:
        """Whether the formulas of all elements are probably equal."""
        if self.differed or not self.points:
            return False
        return all(a.all() for a in self.agreed) and (ambiguous or not any(d.any() for d in self.disagreed))
