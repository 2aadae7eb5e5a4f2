"""Programs whose intervals depend on sizes, and those sizes from the shapes of arguments.

A template becomes a typed fencil when its sizes are bound. The shapes of arguments tell them: every extent is an
equation, affine in the sizes.

>>> from tensorir.text import parse
>>> f = parse("f(out: tensor<float, I[0:n], K[0:1]>, x: tensor<float, I[-1:n+1], K[0:2*k]>) { out ← ⟪I, 1⟫(x); }")
>>> f.sizes
('n', 'k')
>>> solve(f, {"x": (12, 6)})
{'n': 10, 'k': 3}
>>> f.specialise(n=10, k=3)["out"].type
tensor<float, I[0:10], K[0:1]>
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from tensorir.integers.affine import Affine
from tensorir.integers.dims import size_of
from tensorir.ir.nodes import Fencil, bind_program, call_program, parse_program, print_program
from tensorir.runtime.errors import DiagnosticError, Displayed, Span, counted, did_you_mean, refuse
from tensorir.runtime.memory import SIZES, CacheOwner, RecentCache
from tensorir.text.elaborate import elaborate
from tensorir.text.lexer import affine_text
from tensorir.text.syntax import Closure, Param, Program, Range, inventory

_TRIAL = 1000
"""Sizes at which names are checked before any size is known."""


@dataclass(frozen=True, slots=True, eq=False)
class Template(CacheOwner, Displayed):
    """A program with size parameters, specialised to a `Fencil` per set of sizes.

    Templates with the same text are equal.
    """

    program: Program
    sizes: tuple[str, ...] = field(init=False)
    """The size parameters in the order in which they appear."""
    specialisations: RecentCache[tuple[int, ...], Fencil] = field(
        init=False, default_factory=lambda: RecentCache("fencils of templates", SIZES)
    )
    """The fencils that were made last, by their sizes."""

    def __post_init__(self) -> None:
        """Collects the sizes, and raises errors of names."""
        object.__setattr__(self, "sizes", inventory(self.program).sizes)
        # names are checked at trial sizes now, types when sizes are known
        try:
            elaborate(self.program, dict.fromkeys(self.sizes, _TRIAL))
        except DiagnosticError as error:
            name_errors = [d for d in error.diagnostics if d.code[0] == "N"]
            if name_errors:
                raise DiagnosticError(name_errors) from None

    @property
    def name(self) -> str:
        return self.program.name

    @property
    def params(self) -> tuple[Param, ...]:
        """The parameters, with types whose bounds are affine in the sizes."""
        return self.program.params

    @property
    def closures(self) -> tuple[Closure, ...]:
        return self.program.closures

    def specialise(self, /, **sizes: int) -> Fencil:
        """The fencil at a value for every size, cached; raises B05 for an unknown size, B01 for a missing one."""
        for name in sizes:
            if name not in self.sizes:
                message = f"'{self.name}' has no size '{name}'."
                raise refuse("B05", message, did_you_mean(name, self.sizes), at=self.program.span)
        unbound = [name for name in self.sizes if name not in sizes]
        if unbound:
            quoted = " and ".join(f"'{name}'" for name in unbound)
            message = f"the size{'s' * (len(unbound) > 1)} {quoted} {'is' if len(unbound) == 1 else 'are'} not bound."
            help = f"give {'it a value' if len(unbound) == 1 else 'them values'}: {unbound[0]}=10."
            raise refuse("B01", message, help, at=self.program.span)
        key = tuple(size_of(sizes[name], name) for name in self.sizes)
        return self.specialisations.of(key, lambda: elaborate(self.program, dict(zip(self.sizes, key, strict=True))))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Template) and self.program == other.program

    def __hash__(self) -> int:
        return hash((self.program.name, self.program.params))

    def __str__(self) -> str:
        return print_program(self)

    def __repr__(self) -> str:
        return f"<Template {self.name}({', '.join(p.name for p in self.params)}) of {', '.join(self.sizes)}>"

    def __reduce__(self) -> Any:
        return _restored, (str(self),)

    def __call__(self, /, *datasets: Any, **arguments: Any) -> Any:
        """Run on the default backend, with sizes from the shapes of the arguments (`docs/language.md`, "Sizes")."""
        return call_program(self, datasets, arguments)

    def bind(self, /, **constants: Any) -> Any:
        """The program with some parameters and sizes fixed (`docs/language.md`, "Neighbour tables")."""
        return bind_program(self, constants)


def _restored(text: str) -> Template:
    """The template of a pickled text."""
    return parse_program(text)


Shape = Sequence[int] | Mapping[str, tuple[int, int] | int]
"""The extents of an array, in the order of its axes; or the interval, or extent, along each dim, by its name."""


@dataclass(frozen=True, slots=True)
class _Equation:
    """An equation from an argument: a bound or extent of a parameter's type (`left`) equals a number (`right`)."""

    left: Affine
    right: int
    what: str
    declared: str
    """The dim as the type of the parameter has it."""
    span: Span

    def rest(self, known_sizes: Mapping[str, int | Fraction]) -> tuple[dict[str, Fraction], Fraction]:
        """The coefficients of unknown sizes, and the number that their sum must equal."""
        terms = self.left.coefficients
        unknown = {name: Fraction(f) for name, f in terms.items() if name not in known_sizes}
        value = self.right - self.left.constant - sum(f * known_sizes[n] for n, f in terms.items() if n in known_sizes)
        return unknown, Fraction(value)


def solve(template: Template, shapes: Mapping[str, Shape], sizes: Mapping[str, int] | None = None) -> dict[str, int]:
    """Solves for every size of a template from the shapes of arguments, by parameter, and sizes given by name.

    Equations with one unknown are used first, then elimination; all are checked at the end. Raises B01 for a size that
    nothing determines, B02 for contradictions, B03 for a size that is no integer, B04 for intervals that stop before
    they start, B05 for unknown names, B06 for a wrong number of axes.
    """
    known_sizes: dict[str, int] = dict(sizes or {})
    origin = {name: f"'{name}' was given" for name in known_sizes}
    for name in known_sizes:
        if name not in template.sizes:
            message = f"'{template.name}' has no size '{name}'."
            raise refuse("B05", message, did_you_mean(name, template.sizes), at=template.program.span)
    equations = list(_equations(template, shapes))
    pending = equations
    while pending:
        solvable = [equation for equation in pending if len(equation.rest(known_sizes)[0]) <= 1]
        if not solvable:
            _eliminate(pending, known_sizes, origin)
            break
        for equation in solvable:
            _use(equation, known_sizes, origin)
        pending = [equation for equation in pending if equation not in solvable]
    for equation in equations:
        if not equation.rest(known_sizes)[0]:
            _use(equation, known_sizes, origin)
    unbound = [name for name in template.sizes if name not in known_sizes]
    if unbound:
        message = f"the size '{unbound[0]}' is not bound: no argument that was passed has an interval that tells it."
        raise refuse("B01", message, f"give it by name: {unbound[0]}=10.", at=template.program.span)
    _check_extents(template, known_sizes)
    return {name: known_sizes[name] for name in template.sizes}


def _equations(template: Template, shapes: Mapping[str, Shape]) -> Iterator[_Equation]:
    """The equations from all shapes: both ends for intervals, the extent for axis lengths.

    Intervals that depend on no size are skipped, since larger arrays are cut to them. Raises B06.
    """
    for p in template.params:
        assert p.type is not None
        shape = shapes.get(p.name)
        if isinstance(shape, Mapping):
            for r in p.type.ranges:
                if not (r.start.terms or r.stop.terms):
                    continue  # what holds more than such an interval is cut to it
                interval = shape.get(r.dim)
                if isinstance(interval, int):
                    yield _extent(p.name, r, interval)
                elif interval is not None:
                    start, stop = interval
                    statement = f"'{p.name}' has {r.dim}[{start}:{stop}]"
                    yield _Equation(r.start, int(start), statement, _shown(r), r.span)
                    yield _Equation(r.stop, int(stop), statement, _shown(r), r.span)
        elif shape is not None:
            if len(shape) != len(p.type.ranges):
                dim_names = ", ".join(r.dim for r in p.type.ranges) or "none"
                axes = f"{len(shape)} {'axis' if len(shape) == 1 else 'axes'}"
                message = f"'{p.name}' has {axes}, and its type has {len(p.type.ranges)}: {dim_names}."
                raise refuse("B06", message, "axes stand in the order in which the type names its dims.", at=p.span)
            for r, extent in zip(p.type.ranges, shape, strict=True):
                yield _extent(p.name, r, int(extent))


def _shown(r: Range) -> str:
    return f"{r.dim}[{affine_text(r.start)}:{affine_text(r.stop)}]"


def _extent(name: str, r: Range, extent: int) -> _Equation:
    what = f"'{name}' has {counted(extent, 'point')} along {r.dim}"
    return _Equation(r.stop.minus(r.start), extent, what, _shown(r), r.span)


def _use(q: _Equation, known: dict[str, int], origin: dict[str, str]) -> None:
    """Determines the one unknown size of an equation, or raises B02 if an equation without unknowns does not hold."""
    unknown, value = q.rest(known)
    if not unknown:
        if value:
            because = [f"{n} is {known[n]}, since {origin[n]}" for n in q.left.coefficients]
            if not because:
                message, help = (f"{q.what}, and its type has {q.declared}.", "pass an array on such an interval.")
            else:
                message = f"{q.what}, and {affine_text(q.left)} is {q.left.at(known)}; {', and '.join(because)}."
                help = "pass arrays whose sizes agree."
            raise refuse("B02", message, help, at=q.span)
        return
    ((name, factor),) = unknown.items()
    _settle(name, value / factor, q, known, origin)


def _settle(name: str, value: Fraction, q: _Equation, known: dict[str, int], origin: dict[str, str]) -> None:
    """Records the value of a size and the argument that it comes from; raises B03 if it is no integer."""
    if value.denominator != 1:
        message = f"{q.what}, and no whole '{name}' gives that: {affine_text(q.left)} = {q.right}."
        raise refuse("B03", message, "pass an array of another size.", at=q.span)
    known[name] = int(value)
    origin[name] = q.what


def _eliminate(equations: Sequence[_Equation], known_sizes: dict[str, int], origin: dict[str, str]) -> None:
    """Determines sizes that only several equations together fix, by Gauss-Jordan elimination."""
    pending = [(*equation.rest(known_sizes), equation) for equation in equations]
    solved: list[tuple[str, dict[str, Fraction], Fraction, _Equation]] = []
    while pending:
        terms, value, equation = pending.pop()
        if not terms:
            continue  # checked by the caller, with all sizes
        name, factor = next(iter(terms.items()))
        terms, value = {n: f / factor for n, f in terms.items()}, value / factor
        pending = [(*_without(name, t, v, terms, value), p) for t, v, p in pending]
        solved = [(m, *_without(name, t, v, terms, value), p) for m, t, v, p in solved]
        solved.append((name, terms, value, equation))
    for name, terms, value, equation in solved:
        if set(terms) == {name}:
            _settle(name, value / terms[name], equation, known_sizes, origin)


def _without(
    name: str, terms: dict[str, Fraction], value: Fraction, pivot: dict[str, Fraction], pivot_value: Fraction
) -> tuple[dict[str, Fraction], Fraction]:
    """A row of the elimination minus the multiple of the pivot row that removes the unknown `name`."""
    factor = terms.get(name, Fraction(0))
    reduced = {n: terms.get(n, Fraction(0)) - factor * pivot.get(n, Fraction(0)) for n in {**terms, **pivot}}
    return {n: f for n, f in reduced.items() if f}, value - factor * pivot_value


def _check_extents(template: Template, known_sizes: Mapping[str, int]) -> None:
    """Raises B04 if an interval of a parameter stops before it starts at these sizes."""
    for p in template.params:
        for r in p.type.ranges if p.type is not None else ():
            start, stop = r.start.at(known_sizes), r.stop.at(known_sizes)
            if stop < start:
                values = ", ".join(f"{n} = {known_sizes[n]}" for n in {**r.start.coefficients, **r.stop.coefficients})
                message = f"with {values}, {r.dim}[{start}:{stop}] of '{p.name}' stops before it starts."
                raise refuse("B04", message, "pass larger arrays.", at=r.span)
