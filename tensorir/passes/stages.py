"""What passes do to a program, in their order: a stage per pass, with the program before and after.

A compiler's stages are of fencils; those of kernels of tiles, `ti.tt.pipeline`, are of functions of TIR.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from tensorir.analysis.absence import SkipValues, analyse_absence
from tensorir.analysis.annotations import Annotations, annotated
from tensorir.ir.nodes import Fencil
from tensorir.passes.argument_reductions import ArgumentReductions
from tensorir.passes.base import Pass
from tensorir.passes.block_scans import BlockScans
from tensorir.passes.conditionals import Conditionals
from tensorir.passes.contractions import Contractions
from tensorir.passes.decisions import Decision
from tensorir.passes.fuse_into_scans import FuseIntoScans
from tensorir.passes.materialise import Materialise
from tensorir.passes.needed_points import NeededPoints
from tensorir.passes.pools import Pools
from tensorir.passes.split_scans import SplitScans
from tensorir.passes.top_k import TopK
from tensorir.passes.unroll_loops import UnrollLoops

__all__ = ["DEFAULT_PASSES", "Stage", "Stages", "staged"]

DEFAULT_PASSES: tuple[Pass, ...] = (
    UnrollLoops(),
    FuseIntoScans(),
    SplitScans(),
    Contractions(),
    ArgumentReductions(),
    TopK(),
    Materialise(),
    Pools(),
    Conditionals(),
    BlockScans(),
    NeededPoints(),
)
"""The passes that every program goes through when it is compiled, in their order."""


P = TypeVar("P")
"""What passes rewrite: a fencil, a function of TIR, a module."""


@dataclass(frozen=True, slots=True)
class Stage(Generic[P]):
    """One pass: what it is called, what it is for, and the program before and after it."""

    name: str
    """The pass with its options, as a pipeline spells it."""
    reason: str
    before: P
    after: P
    by: Pass | None = field(default=None, compare=False, repr=False)
    """The pass, with its options, where it is one of fencils."""
    parts: tuple[str, ...] = ()
    """What it parted the program into, where that stays as it is: a line for each."""

    def decided(self: Stage[Fencil]) -> tuple[Decision, ...]:
        """What the pass chose, a row for each place."""
        return () if self.by is None else self.by.decided(self.before, self.after)

    @property
    def changed(self) -> bool:
        return self.after is not self.before and self.after != self.before

    def __str__(self) -> str:
        if self.parts:
            return "\n".join([f"{self.name}: {self.reason}", *(f"  {part}" for part in self.parts)])
        if not self.changed:
            return f"{self.name}: nothing to do"
        return f"{self.name}: {self.reason}\n{self.after}"


@dataclass(frozen=True, slots=True, repr=False)
class Stages(Generic[P]):
    """The stages of a pipeline, in order.

    >>> from tensorir.text import parse
    >>> f = parse("f(y: tensor<float>, a: tensor<float, K[0:9]>) { y ← reduce(+, 0.0, K)(a × a); }")
    >>> print(staged(f, DEFAULT_PASSES))
    f(y: tensor<float>, a: tensor<float, K[0:9]>) {
      y ← reduce(+, 0.0, K)(a × a);
    }
    fuse_into_scans: nothing to do
    split_scans: nothing to do
    contractions: a sum of products is one operation of the backend
    f(y: tensor<float>, a: tensor<float, K[0:9]>) {
      y ← contract(float, K)(a, a);
    }
    argument_reductions: nothing to do
    top_k: nothing to do
    materialise: nothing to do
    pools: nothing to do
    conditionals: nothing to do
    block_scans: nothing to do
    """

    source: P
    stages: tuple[Stage[P], ...] = ()

    @property
    def result(self) -> P:
        """The program after the last pass, which is the one that is emitted."""
        return self.stages[-1].after if self.stages else self.source

    def annotations(self: Stages[Fencil]) -> Annotations:
        """What analyses say of the program that is emitted, where nothing is known of its tables."""
        return annotated(self.result, analyse_absence(self.result, {}))

    def __iter__(self) -> Iterator[Stage[P]]:
        return iter(self.stages)

    def __len__(self) -> int:
        return len(self.stages)

    def __getitem__(self, name: str) -> Stage[P]:
        """The stage of a pass, by its name without options."""
        return next(s for s in self.stages if s.name.partition("(")[0] == name)

    def __str__(self) -> str:
        return "\n".join([str(self.source), *map(str, self.stages)])

    __repr__ = __str__


def staged(
    fencil: Fencil, passes: Sequence[Pass], exact: bool = False, tables: Mapping[str, SkipValues] | None = None,
    full: frozenset[str] = frozenset(), platform: str = "cpu",
) -> Stages[Fencil]:  # fmt: skip
    """Run passes in their order; those that add floats in another order are left out where `exact`.

    So are those that do not pay on the platform.

    `tables` says of each table that was looked at which slots hold -1; those in `full` are declared to hold none.
    """
    stages: list[Stage[Fencil]] = []
    now = fencil
    for one in passes:
        chosen = one.in_order() if exact else one
        chosen = chosen and chosen.on(platform)
        if chosen is None:
            continue
        one = chosen.knowing(tables or {}, full)
        after = one.checked(now)
        stages.append(Stage(one.spelled(), one.reason(), now, after, one))
        now = after
    return Stages(fencil, tuple(stages))
