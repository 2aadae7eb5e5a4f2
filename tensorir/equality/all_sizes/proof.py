"""Whether programs are equal for all sizes: each element of their results in all cases of sizes and coordinates.

>>> from tensorir.text import parse
>>> head = "f(y: tensor<float, I[0:n]>, x: tensor<float, I[0:n]>)"
>>> one = parse(head + "{ y ← if pos(I, x) < n - 1 then x else 2.0 × x; }")
>>> two = parse(head + "{ y ← concat(subset(x, I[0:n-1]), subset(x + x, I[n-1:n])); }")
>>> found = compared(of_template(one, ["n"]), of_template(two, ["n"]), [("x", "x")], [("y", "y")], 1)
>>> found.level.name, found.open
('REALS', ())
"""

# islpy has no types of its own that say enough.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import islpy as isl

from tensorir.equality.all_sizes.cases import Case, halves
from tensorir.equality.all_sizes.formulas import Reals
from tensorir.equality.all_sizes.of_fencils import typed
from tensorir.equality.all_sizes.terms import Algebra, Limits, Term, Vacuous
from tensorir.equality.reals.domain import Unsupported
from tensorir.equality.verdict import Level
from tensorir.lifting.accesses.sets import decided, point, text
from tensorir.lifting.nests.affine import Affine, number, variable
from tensorir.runtime.errors import DiagnosticError
from tensorir.text.sizes import Template

__all__ = ["ALL_SIZES", "Found", "Symbolic", "compared", "of_template", "size_name", "smallest"]

ALL_SIZES = 2**28
"""Sizes go up to this, so that what programs compute of them in an int32 is most often far from its ends."""


class Sized(Protocol):
    """A program in a case of its sizes."""

    def shape(self, name: str) -> tuple[Affine, ...]:
        """The extents of a parameter."""
        ...

    def element(self, algebra: Algebra, name: str, arrays: Mapping[str, int], at: Sequence[Affine]) -> Term:
        """An element of a result, its coordinates counted from 0; `arrays` are the numbers of inputs."""
        ...


Symbolic = Callable[[Case], Sized]
"""A program in any case of its sizes; it raises what the program is refused for there."""
Names = Sequence[tuple[str, str]]
"""The parameters of both programs that are one."""


def size_name(k: int) -> str:
    """The name of a size in cases."""
    return f"n{k}"


def of_template(program: Template, sizes: Sequence[str]) -> Symbolic:
    """A fencil of symbolic sizes, in the order of these."""
    names = {n: size_name(k) for k, n in enumerate(sizes)}
    return lambda case: typed(program, case, names)


@dataclass(frozen=True, slots=True)
class Found:
    """The level that is proven but for open cases, and but for those in which a program is refused."""

    level: Level
    open: tuple[Case, ...]
    refused: tuple[Case, ...] = ()
    why: str = ""
    """What stood in the way of the first of those that are open."""

    def all(self, count: int, most: int) -> list[tuple[int, ...]] | None:
        """The sizes of all open cases, None where they are more than so many."""
        found: dict[tuple[int, ...], None] = {}
        for case in self.open:
            left = decided(lambda case=case: _sizes(case, count), 0.2)
            while left is not None and not left.is_empty() and len(found) <= most:
                at = point(left)
                found[at] = None
                told = " and ".join(f"{size_name(k)} = {v}" for k, v in enumerate(at))
                left = left.subtract(isl.Set(f"{{ [{', '.join(map(size_name, range(count)))}] : {told} }}"))
            if left is None or len(found) > most:
                return None
        return list(found)


def _sizes(case: Case, count: int) -> isl.Set:
    names = {n: n for n in case.names}
    told = " and ".join(f"{text(c, names)} >= 0" for c in case.conditions)
    found = isl.Set(f"{{ [{', '.join(case.names)}] : {told or 'true'} }}")
    return found.project_out(isl.dim_type.set, count, len(case.names) - count)


def smallest(cases: Sequence[Case], count: int) -> list[tuple[int, ...]]:
    """The smallest sizes of each case, in an order that compares the first size first."""
    found = [decided(lambda case=case: point(_sizes(case, count)), 0.2) for case in cases]
    return list(dict.fromkeys(at for at in found if at is not None))


def compared(
    f: Symbolic, g: Symbolic, inputs: Names, outputs: Names, sizes: int, assumed: Sequence[Affine] = (),
    limits: Mapping[int, Limits] | None = None,
) -> Found:  # fmt: skip
    """What is proven of two programs of so many sizes, of which sums are assumed not to be negative.

    `limits` are what the elements of inputs lie between.
    """
    names = [size_name(k) for k in range(sizes)]
    bounds = [b for n in names for b in (variable(n), number(ALL_SIZES).minus(variable(n)))]
    whole = Case.of(*names).where(*bounds, *assumed)
    levels, left, refused, why = list[Level](), list[Case](), list[Case](), ""
    try:
        for case, pair in halves(whole, lambda case: _pair(f, g, case)):
            if pair is None:
                refused.append(case)
                continue
            for part, found in _levels(*pair, case, inputs, outputs, limits or {}):
                if isinstance(found, str):
                    left.append(part)
                    why = why or found
                else:
                    levels.append(found)
    except Unsupported as reason:
        return Found(Level.UNKNOWN, (whole,), (), str(reason))
    return Found(min(levels, default=Level.UNKNOWN), tuple(left), tuple(refused), why)


def _pair(f: Symbolic, g: Symbolic, case: Case) -> tuple[Sized, Sized] | None:
    """Both programs in a case, None where one is no program."""
    try:
        return f(case), g(case)
    except DiagnosticError:
        return None


def _levels(
    f: Sized, g: Sized, case: Case, inputs: Names, outputs: Names, limits: Mapping[int, Limits]
) -> Iterator[tuple[Case, Level | str]]:
    """The level of each part of a case, or what stands in the way of one."""
    for one, other in (*inputs, *outputs):
        pair = f.shape(one), g.shape(other)
        if len(pair[0]) != len(pair[1]) or not all(case.is_always_zero(a.minus(b)) for a, b in zip(*pair, strict=True)):
            yield case, "arrays of other extents"
            return
    ours, theirs = ({pair[side]: k for k, pair in enumerate(inputs)} for side in (0, 1))
    for one, other in outputs:
        at = [variable(f"p{k}") for k in range(len(f.shape(one)))]
        inner = case
        for k, extent in enumerate(f.shape(one)):
            inner = inner.named(f"p{k}").where(at[k], extent.minus(at[k]).plus(number(-1)))

        def question(part: Case, one: str = one, other: str = other, at: Sequence[Affine] = at) -> Level | str:
            algebra = Algebra.of(part, limits)
            try:
                return _level(part, f.element(algebra, one, ours, at), g.element(algebra, other, theirs, at))
            except Vacuous:
                return Level.BITS
            except Unsupported as reason:
                return str(reason)

        yield from halves(inner, question)


def _level(case: Case, a: Term, b: Term) -> Level | str:
    if a == b:
        return Level.BITS
    reals = Reals(case)
    found, defined = reals.of(a), reals.defined()
    other, elsewhere = reals.of(b), reals.defined()
    if not reals.equal(found, other) or defined != elsewhere:
        return "formulas that are not shown to be equal"
    return Level.REALS if _has_floats(a) or _has_floats(b) else Level.BITS


def _has_floats(term: Term) -> bool:
    fold = term.own[0] if term.op in ("fold", "sort") else None
    folded = [] if fold is None else [*(s for p in fold.pieces for s in p.state), *fold.start]
    return term.element.is_float or any(map(_has_floats, (*term.args, *folded)))
