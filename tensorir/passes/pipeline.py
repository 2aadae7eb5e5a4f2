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
    """Runs passes one after the other; itself a pass.

    Constructed from a text (names of passes, with options as keywords) or from passes. With `show`, a function such as
    `print`, the text of the program is passed to it after every pass that changed it.

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
        """The program after all passes, a `Fencil` or a `BoundProgram`."""
        for current in self.passes:
            after = with_fencil(program, current.checked)
            if self.show is not None and after is not program and str(after) != str(program):
                self.show(f"after {current.name()}:\n{after}")
            program = after
        return program

    def run(self, fencil: Fencil) -> Fencil:
        return self(fencil)

    def __str__(self) -> str:
        return ", ".join(one.spelled() for one in self.passes)


_ITEM = re.compile(r"\s*(\w+)\s*(?:\(([^()]*)\))?\s*(,|$)")


def _checked(passes: Any) -> tuple[Pass, ...]:
    """The passes of an iterable, or one pass, as a tuple; raises S20 for other objects."""
    items: tuple[object, ...] = tuple(passes) if hasattr(passes, "__iter__") else (passes,)
    for item in items:
        if not isinstance(item, Pass):
            message = f"a pipeline is made of passes, and {item!r} is none."
            raise refuse("S20", message, 'write Pipeline("inline, cse").')
    return tuple(item for item in items if isinstance(item, Pass))


def _read(text: str) -> tuple[Pass, ...]:
    """The passes that a pipeline's text names; raises S20 for a syntax error, with its place."""
    source = Source("<pipeline>", text)
    passes: list[Pass] = []
    position = 0
    while text[position:].strip():
        item = _ITEM.match(text, position)
        if item is None:
            message = "a pipeline is names of passes with commas between them."
            hint = 'write Pipeline("inline, temporaries(min_uses=2)").'
            raise refuse("S20", message, hint, at=Span(source, position, len(text)))
        passes.append(_one(source, item))
        position = item.end()
    return tuple(passes)


def _one(source: Source, item: re.Match[str]) -> Pass:
    """One pass from a match of `_ITEM`, its name and its options; raises N20 for an unknown name."""
    name, span = item[1], Span(source, *item.span(1))
    if name not in PASSES:
        raise refuse("N20", f"there is no pass '{name}'.", did_you_mean(name, PASSES), at=span)
    pass_class = PASSES[name]
    options: dict[str, Any] = {}
    offset = item.start(2)
    for part in filter(None, (item[2] or "").split(",")):
        key, _, value = part.partition("=")
        option_span = Span(source, offset + len(part) - len(part.lstrip()), offset + len(part))
        options[key.strip()] = _option(pass_class, key.strip(), value.strip(), option_span)
        offset += len(part) + 1
    return pass_class(**options)


def _option(pass_class: Any, key: str, text: str, span: Span) -> Any:
    """The value of an option, parsed from text and checked against the type of its default.

    Raises N21 for an unknown option, T50 for another type; an integer is accepted for a float.
    """
    defaults = {f.name: f.default for f in dataclasses.fields(pass_class)}
    if key not in defaults:
        message = f"the pass '{pass_class.name()}' has no option '{key}'."
        raise refuse("N21", message, did_you_mean(key, defaults) or "write its name alone.", at=span)
    try:
        value = ast.literal_eval(text.replace("true", "True").replace("false", "False"))
    except (ValueError, SyntaxError):
        value = None
    default: Any = defaults[key]
    expected_type: Any = default.__class__
    if expected_type is float and type(value) is int:
        value = float(value)
    if type(value) is not expected_type:
        type_name = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}[expected_type]
        raise refuse("T50", f"the option '{key}' is {type_name}.", f"its default is {default!r}.", at=span)
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
    """One pass of a pipeline with the program before and after it.

    Compilers have stages of fencils; pipelines of tile kernels (`ti.tt.pipeline`) have stages of TIR functions.
    """

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
        """The program after the pass under its name and reason; "nothing to do" if it is unchanged."""
        if self.parts:
            return "\n".join([f"{self.name}: {self.reason}", *(f"  {part}" for part in self.parts)])
        if not self.changed:
            return f"{self.name}: nothing to do"
        return f"{self.name}: {self.reason}\n{self.after}"


@dataclass(frozen=True, slots=True, repr=False)
class Stages(Generic[P]):
    """The program before a pipeline, and its stages in order.

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
    """Runs passes in order and records a stage for each.

    With `exact` passes that reorder float additions run in their exact form or are left out; so are those that do not
    pay on `platform`. `tables` has the slots of neighbour tables that hold -1; tables in `full` are declared to hold
    none.
    """
    stages: list[Stage[Fencil]] = []
    current = fencil
    for original in passes:
        chosen = original.in_order() if exact else original
        chosen = chosen and chosen.on(platform)
        if chosen is None:
            continue
        original = chosen.knowing(tables or {}, full)
        after = original.checked(current)
        stages.append(Stage(original.spelled(), original.reason(), current, after, original))
        current = after
    return Stages(fencil, tuple(stages))
