"""Passes in a row, by name; the table of passes, and their stages in a compilation."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

from tensorir.analysis.absence import analyse_absence
from tensorir.analysis.annotations import Annotations, annotated
from tensorir.binding.arrays import SkipValues
from tensorir.ir.nodes import Fencil
from tensorir.passes.base import Pass, with_fencil
from tensorir.passes.block_scans import BlockScans
from tensorir.passes.closures import FuseClosures, Inline, Materialise, Prune, SplitClosures, Temporaries
from tensorir.passes.conditionals import Conditionals, PropagateConditions
from tensorir.passes.decisions import Decision
from tensorir.passes.reductions import ArgumentReductions, Contractions, Pools, TopK
from tensorir.passes.restrict import NeededPoints
from tensorir.passes.scans import FuseIntoScans, FuseScans, SplitScans
from tensorir.passes.simplify import CombineShifts, Cse, FoldConstants, Simplify, UnrollLoops
from tensorir.runtime.errors import Displayed, Source, Span, did_you_mean, refuse

# The table of passes: every one by the name that it has in a pipeline.

PASSES: dict[str, type[Pass]] = {
    p.name(): p for p in (
        ArgumentReductions, BlockScans, CombineShifts, Conditionals, Contractions, Cse, FoldConstants, FuseClosures,
        FuseIntoScans, FuseScans, Inline, Materialise, NeededPoints, Pools, Prune, PropagateConditions, Simplify,
        SplitClosures, SplitScans, Temporaries, TopK, UnrollLoops,
    )
}  # fmt: skip
"""Every pass by its name in a pipeline."""

# Passes in a row, by name: `Pipeline("inline, cse, temporaries(min_uses=2)")`.


@dataclass(frozen=True, init=False)
class Pipeline(Pass, Displayed):
    """Passes that run one after the other; itself a pass.

    Made from a text (names of passes, with options as keywords) or from passes. With `show`, a function such as
    `print`, the program is shown after every pass that changed it.

    >>> from tensorir.text import parse
    >>> f = parse('''f(out: tensor<float, I[0:3]>, inp: tensor<float, I[0:5]>) {
    ...   out ← (λ(x: tensor<float, I[0:5]>) → ⟪I, 1, I, 1⟫(x) × 1.0)(inp); }''')
    >>> print(Pipeline("inline, combine_shifts, simplify")(f))
    f(out: tensor<float, I[0:3]>, inp: tensor<float, I[0:5]>) {
      out ← ⟪I, 2⟫(inp);
    }
    >>> Pipeline("temporaries(min_uses=3)").passes[0].min_uses
    3
    """

    _drawn_by: ClassVar[str] = "tensorir.inspect.pages:pipeline_page"

    passes: tuple[Pass, ...]
    show: Callable[[str], Any] | None = field(default=None, compare=False)

    def __init__(self, passes: str | Iterable[Pass], show: Callable[[str], Any] | None = None) -> None:
        object.__setattr__(self, "passes", _read(passes) if isinstance(passes, str) else _checked(passes))
        object.__setattr__(self, "show", show)

    def __call__(self, program: Any) -> Any:
        for one in self.passes:
            after = with_fencil(program, one.checked)
            if self.show is not None and after is not program and str(after) != str(program):
                self.show(f"after {one.name()}:\n{after}")
            program = after
        return program

    def run(self, fencil: Fencil) -> Fencil:
        return self(fencil)

    def __str__(self) -> str:
        return ", ".join(one.spelled() for one in self.passes)


_ITEM = re.compile(r"\s*(\w+)\s*(?:\(([^()]*)\))?\s*(,|$)")


def _checked(passes: Any) -> tuple[Pass, ...]:
    items: tuple[object, ...] = tuple(passes) if hasattr(passes, "__iter__") else (passes,)
    for item in items:
        if not isinstance(item, Pass):
            message = f"a pipeline is made of passes, and {item!r} is none."
            raise refuse("S20", message, 'write Pipeline("inline, cse").')
    return tuple(item for item in items if isinstance(item, Pass))


def _read(text: str) -> tuple[Pass, ...]:
    source = Source("<pipeline>", text)
    passes: list[Pass] = []
    at = 0
    while text[at:].strip():
        item = _ITEM.match(text, at)
        if item is None:
            message = "a pipeline is names of passes with commas between them."
            hint = 'write Pipeline("inline, temporaries(min_uses=2)").'
            raise refuse("S20", message, hint, at=Span(source, at, len(text)))
        passes.append(_one(source, item))
        at = item.end()
    return tuple(passes)


def _one(source: Source, item: re.Match[str]) -> Pass:
    name, span = item[1], Span(source, *item.span(1))
    if name not in PASSES:
        raise refuse("N20", f"there is no pass '{name}'.", did_you_mean(name, PASSES), at=span)
    kind = PASSES[name]
    options: dict[str, Any] = {}
    begin = item.start(2)
    for part in filter(None, (item[2] or "").split(",")):
        key, _, value = part.partition("=")
        where = Span(source, begin + len(part) - len(part.lstrip()), begin + len(part))
        options[key.strip()] = _option(kind, key.strip(), value.strip(), where)
        begin += len(part) + 1
    return kind(**options)


def _option(pass_class: Any, key: str, text: str, span: Span) -> Any:
    """The value of an option, of the type that its default has."""
    known = {f.name: f.default for f in dataclasses.fields(pass_class)}
    if key not in known:
        message = f"the pass '{pass_class.name()}' has no option '{key}'."
        raise refuse("N21", message, did_you_mean(key, known) or "write its name alone.", at=span)
    try:
        value = ast.literal_eval(text.replace("true", "True").replace("false", "False"))
    except (ValueError, SyntaxError):
        value = None
    default: Any = known[key]
    wanted: Any = default.__class__
    if wanted is float and type(value) is int:
        value = float(value)
    if type(value) is not wanted:
        kind = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}[wanted]
        raise refuse("T50", f"the option '{key}' is {kind}.", f"its default is {default!r}.", at=span)
    return value


# What passes do to a program, in their order: a stage per pass, with the program before and after.
#
# A compiler's stages are of fencils; those of kernels of tiles, `ti.tt.pipeline`, are of functions of TIR.

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
        """The decisions of the pass, a row for each place."""
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
        """Annotations of the program that is emitted, where nothing is known of its tables."""
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
