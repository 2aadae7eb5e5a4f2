"""The state of elaboration: names in scope, sizes, tables of an offset provider."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tensorir.integers.affine import Affine, number
from tensorir.integers.dims import Dims, Interval
from tensorir.ir import build, nodes
from tensorir.ir.dimensions import Dimension
from tensorir.ir.types import Element, Scalar, TensorType, scalar_of
from tensorir.runtime.errors import NOWHERE, Diagnostic, DiagnosticError, Span, article, refuse
from tensorir.text import syntax
from tensorir.text.lexer import MAX_BOUND, MAX_FINDINGS, MAX_POINTS, OFFSET, affine_text
from tensorir.text.syntax import Param, Program, Range, Shift, walk
from tensorir.text.syntax import TensorType as WrittenType

# What an offset provider gives: names of dims and tables for a program's abstract offsets, and concrete tables.
#
# A concrete table that a program uses and has no parameter for becomes one, bound to the table.


def provide(program: Program, provider: Mapping[str, Any]) -> tuple[Program, dict[str, Any]]:
    """Resolves abstract offsets: the program with the provider's names for them, and the tables to bind, by parameter.

    Entries that no shift uses are ignored. A table without a parameter becomes one, with a type from its dims.
    """
    used_offsets = {
        offset.name.removesuffix(OFFSET)
        for closure in program.closures
        for node in walk(*closure.expressions)
        if isinstance(node, Shift)
        for offset in node.offsets
    }
    offsets = dict(program.offsets)
    tables: dict[str, Any] = {}
    params = list(program.params)
    # users who check no types give others
    if not hasattr(provider, "items"):
        message = f"the offset_provider is {article(type(provider).__name__)}."
        raise refuse("B07", message, 'map names of offsets: {"i": I, "V2E": table}.')
    for name, value in provider.items():
        name = str(name).removesuffix(OFFSET)
        if name not in used_offsets:
            continue
        if isinstance(value, (str, Dimension)):
            offsets[name] = str(value)
            continue
        offsets.setdefault(name, name)
        tables[offsets[name]] = value
        if all(p.name != offsets[name] for p in params):
            params.append(Param(offsets[name], _type_of(name, value, program.span), program.span))
    offsets = {name: target for name, target in offsets.items() if name in used_offsets and target != name}
    return dataclasses.replace(program, params=tuple(params), offsets=tuple(offsets.items())), tables


def _type_of(name: str, table: Any, span: Span) -> WrittenType:
    """The written type of a table with named dims (a field, a DataArray), from 0; raises B07 for another object."""
    names, shape = getattr(table, "dims", None), getattr(table, "shape", None)
    element: Scalar | None = scalar_of(table.dtype) if hasattr(table, "dtype") else None
    if names is None or shape is None or element is None:
        message = f"the offset provider's '{name}' is {type(table).__name__}, which does not name its dims."
        help = "give the name of a dim or of a parameter, a Dimension, or a field or DataArray with named dims."
        raise refuse("B07", message, help, at=span)
    ranges = tuple(Range(str(d), number(0), number(int(n))) for d, n in zip(names, shape, strict=True))
    return WrittenType(element, ranges, span)


# What is known while a program is elaborated: names in scope, sizes, and everything that was found wrong so far.


@dataclass(slots=True)
class Structure:
    """Numbers expressions so that equal ones have the same number (hash-consing), in time linear in their nodes.

    >>> from tensorir.text import parse_expr
    >>> numbers = Structure()
    >>> a, b, c = (parse_expr(text) for text in ("1.0 + 2.0", "1.0 + 2.0", "2.0 + 1.0"))
    >>> numbers.of(a) == numbers.of(b), numbers.of(a) == numbers.of(c)
    (True, False)
    """

    numbers: dict[Any, int] = field(default_factory=dict[Any, int])
    known: dict[int, tuple[nodes.Expr, int]] = field(default_factory=dict[int, tuple[nodes.Expr, int]])
    """Of each node by its identity; the node is kept, so that the identity stays its own."""

    def of(self, root: nodes.Expr) -> int:
        """The number of an expression."""
        stack = [root]
        while stack:
            node = stack[-1]
            if id(node) in self.known:
                stack.pop()
                continue
            unnumbered = [c for c in node.children if id(c) not in self.known]
            if unnumbered:
                stack.extend(unnumbered)
                continue
            stack.pop()
            key = (type(node), node.own(), tuple([self.known[id(c)][1] for c in node.children]))
            self.known[id(node)] = node, self.numbers.setdefault(key, len(self.numbers))
        return self.known[id(root)][1]


T = TypeVar("T")
Uses = Iterable[tuple[nodes.Expr, Span]]
"""Operands, and where they are used."""


@dataclass(slots=True)
class Elaboration:
    """The state of type elaboration: names in scope, sizes, and the diagnostics found."""

    dims: frozenset[str]
    offsets: Mapping[str, str]
    sizes: Mapping[str, int]
    variables: Mapping[str, nodes.Var] = field(default_factory=dict[str, nodes.Var])
    """Sizes that are no numbers where they are values."""
    scope: dict[str, nodes.Expr | None] = field(default_factory=dict[str, Any])
    """Every name that is bound here; None for one whose definition is wrong."""
    taken: set[str] = field(default_factory=set[str])
    """Names of parameters, of the fencil and of all functions so far."""
    functions: dict[str, nodes.Lambda] = field(default_factory=dict[str, nodes.Lambda])
    """The function of the closures so far that has a parameter of a name."""
    following: dict[str, nodes.Lambda] = field(default_factory=dict[str, nodes.Lambda])
    """The same of this closure."""
    structure: Structure = field(default_factory=Structure)
    counters: dict[str, int] = field(default_factory=dict[str, int])
    defining: list[str] = field(default_factory=list[str])
    """Names whose `let` is being read."""
    named: set[str] = field(default_factory=set[str])
    """Names that a `let` in front of a closure gave."""
    stale: dict[str, str] = field(default_factory=dict[str, str])
    """Names of which a closure has stored into what they read, and that parameter."""
    findings: list[Diagnostic] = field(default_factory=list[Diagnostic])
    tuple_depths: dict[int, tuple[Element, int]] = field(default_factory=dict[int, tuple[Element, int]])
    """How deep the tuples that were made are, by identity."""

    def report(self, code: str, message: str, span: Span, help: str = "") -> None:
        self.add(Diagnostic(code, message, span, help=help))

    def add(self, *diagnostics: Diagnostic) -> None:
        """Records diagnostics; raises all of them when `MAX_FINDINGS` is reached."""
        self.findings += diagnostics
        if len(self.findings) >= MAX_FINDINGS:
            self.finish()

    def finish(self) -> None:
        """Raises the recorded diagnostics, in the order of the text, if there are any."""
        if self.findings:
            raise DiagnosticError(sorted(self.findings, key=lambda d: d.span.start)[:MAX_FINDINGS])

    def attempt(self, make: Callable[[], T], span: Span, uses: Uses = ()) -> T | None:
        """The result of `make`, None after a DiagnosticError, which is recorded.

        Diagnostics without a place get `span`; those at the definition of an operand move to its use.
        """
        try:
            return make()
        except DiagnosticError as error:
            findings = error.diagnostics
        self.add(*(dataclasses.replace(d, span=span) if d.span is NOWHERE else moved(d, uses) for d in findings))
        return None

    def declare(self, p: syntax.Param) -> nodes.Var | None:
        """Declares a parameter of the fencil; reports N02 for a repeated name. None if its type is wrong."""
        assert p.type is not None
        if p.name in self.scope:
            self.report("N02", f"there are two parameters named '{p.name}'.", p.span, "rename one.")
        param_type = self.tensor_type(p.type)
        declared = None if param_type is None else nodes.Var(p.name, param_type, p.span)
        self.scope[p.name] = declared
        self.taken.add(p.name)
        return declared

    def twin(self, names: Sequence[str], types: Sequence[TensorType | None]) -> nodes.Lambda | None:
        """The function of an earlier closure with these parameter names and types, None if there is none or this
        closure has used one of the names.

        Closures may hold equal functions, whose parameters then have the same names.
        """
        function = self.functions.get(names[0]) if names else None
        if function is None or any(name in self.following for name in names):
            return None
        is_same = [p.name for p in function.params] == list(names) and [p.type for p in function.params] == list(types)
        return function if is_same else None

    def size(self, name: str, span: Span) -> nodes.Expr:
        """The value of a size, as an expression."""
        return self.variables.get(name) or build.literal(self.sizes[name], None, span)

    def unique(self, name: str) -> str:
        """The name if it is free, otherwise with a number; it is marked as taken."""
        result = name
        while result in self.taken:
            self.counters[name] = self.counters.get(name, 0) + 1
            result = f"{name}_{self.counters[name]}"
        self.taken.add(result)
        return result

    def tensor_type(self, written: syntax.TensorType) -> TensorType | None:
        """The type at the given sizes; None after a report (T40: too many points)."""
        dims = self.intervals(written.ranges)
        if dims is None:
            return None
        if dims.size > MAX_POINTS:
            message = f"this tensor has {dims.size} points, and {MAX_POINTS} is the limit."
            self.report("T40", message, written.span, "make its intervals smaller.")
            return None
        return TensorType(written.element, dims)

    def intervals(self, ranges: Sequence[syntax.Range]) -> Dims | None:
        """The intervals at the given sizes; None after a report (T31: stops before it starts, S10: too large)."""
        intervals: list[tuple[str, Interval]] = []
        for r in ranges:
            start, stop = self.bound(r.start, r.span), self.bound(r.stop, r.span)
            if start is None or stop is None:
                continue
            if stop < start:
                self.report(
                    "T31", f"{r.dim}[{start}:{stop}] stops before it starts.", r.span, "the smaller bound comes first."
                )
                continue
            intervals.append((r.dim, Interval(start, stop)))
        return Dims(tuple(intervals)) if len(intervals) == len(ranges) else None

    def bound(self, value: Affine, span: Span) -> int | None:
        """The value of a bound at the given sizes; None after a report of S10."""
        result = value.at(self.sizes)
        if abs(result) <= MAX_BOUND:
            return result
        self.report("S10", f"the bound {affine_text(value)} is too large.", span, "bounds lie between -2^62 and 2^62.")
        return None


def moved(diagnostic: Diagnostic, uses: Uses) -> Diagnostic:
    """The diagnostic, moved from an operand's definition to the place where it is used."""
    for value, span in uses:
        if diagnostic.span is value.span:
            return dataclasses.replace(diagnostic, span=span)
    return diagnostic
