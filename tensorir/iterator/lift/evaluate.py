"""Evaluation of iterator IR with tensors in the place of fields: what comes out is the graph of what is computed.

Functions are applied, so no lambda is left; a position is a tensor, so `lift` and `deref` do nothing, and `shift` makes
a node. What is known when a program is specialised, sizes and the ends of domains, is computed here.

A function that is lifted is evaluated once, where it stands, and then shifted as a whole. Only where its arguments are
shifted already, or where it uses what is a position outside of it, is it evaluated again for each shift: there the
order of the steps counts.
"""

# What programs evaluate to is of many kinds, which only running tells.
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false, reportUnknownVariableType=false

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, cast

from tensorir.integers.sets import ALWAYS, NEVER, Region
from tensorir.iterator.lift.folding import Folding
from tensorir.iterator.lift.graph import Graph, Node, Table, elementwise
from tensorir.iterator.lift.values import (
    Builtin,
    Closure,
    Domain,
    Env,
    Iterator,
    Known,
    Lifted,
    Partial,
    Step,
    Target,
    shifted,
    tree_map,
)
from tensorir.iterator.nodes import (
    ARITHMETIC,
    CASTS,
    NAMES,
    Axis,
    Call,
    CartesianOffset,
    Expr,
    Infinity,
    Lambda,
    Literal,
    NoValue,
    Offset,
    Ref,
    Steps,
    run,
)
from tensorir.nodes import each
from tensorir.runtime.errors import counted, did_you_mean, refuse

Rule = Callable[..., Any]
Rules = Mapping[str, Rule]


class Evaluator:
    """Evaluates expressions of one program: `graph` is what it makes, `known` what it knows of scalars and domains.

    `builtins` are the rules of builtins on their arguments, `partials` on further ones after their first.
    """

    known: Known
    provider: Mapping[str, Target]
    column: str | None

    def __init__(
        self, known: Known, provider: Mapping[str, Target], column: str | None, builtins: Rules, partials: Rules
    ) -> None:
        """An evaluator of a program whose offsets are those of `provider`, and whose scans run along `column` (None:
        the domain's vertical dim).
        """
        self.builtins, self.partials = builtins, partials
        self.graph: Graph = Graph()
        self.known, self.provider, self.column = known, provider, column
        self.folding: Folding = Folding(self.graph, self.apply)
        tables = [t for t in provider.values() if isinstance(t, Table)]
        self.slots: dict[str, int] = {t.local: t.slots for t in tables}
        """The number of slots along each local dim."""
        self.holed: dict[str, Table] = {t.local: t for t in tables if t.holes}
        self.functions: frozenset[str] = frozenset()
        """The names of the program's functions."""
        self.steps: int = 0

    def expression(self, e: Expr, env: Env) -> Steps:
        """The value of an expression."""
        self.steps += 1
        match e:
            case Ref(name):
                if (value := env.get(name)) is not None:
                    return value
                if name in NAMES:
                    return Builtin(name)
                if name in self.functions:
                    message = f"'{name}' is not known here: a function sees those above it, and not itself."
                    raise refuse("TI03", message, "write what repeats as scan or reduce.", at=e.span)
                message = f"'{name}' is no parameter, function or builtin."
                raise refuse("TI03", message, did_you_mean(name, sorted(NAMES)), at=e.span)
            case Literal(value, element):
                return self.graph.constant(_read_number(value, element), element)
            case Lambda():
                return Closure(e, env)
            case Call(function, args):
                f = yield self.expression(function, env)
                values = yield from each(self.expression(a, env) for a in args)
                return (yield self.apply(f, values, e))
            case Offset() | Axis() | CartesianOffset() | Infinity() | NoValue():
                return e

    def apply(self, f: Any, args: list[Any], at: Expr) -> Steps:
        """A function applied to values."""
        match f:
            case Closure(Lambda(params, body), env):
                if len(params) != len(args):
                    counts = f"{counted(len(params), 'argument')}, and there are {len(args)}"
                    raise refuse("TI04", f"the function takes {counts}.", "give it as many as parameters.", at=at.span)
                return (yield self.expression(body, Env(dict(zip(params, args, strict=True)), env)))
            case Builtin(name):
                if name in ARITHMETIC:
                    return self._arithmetic(name, args, at)
                if name in CASTS:
                    return tree_map(lambda x: self.graph.cast(x, CASTS[name]), args[0])
                return (yield self.builtins[name](self, args, at))
            case Partial(name, first):
                return (yield self.partials[name](self, first, args, at))
            case _:
                raise refuse("TI04", "a value is applied as if it were a function.", "apply a stencil.", at=at.span)

    def _arithmetic(self, name: str, args: list[Any], at: Expr) -> Any:
        """An elementwise builtin of values; of regions and domains the region, of an axis and a number the half-space
        (`_condition`).
        """
        if any(isinstance(a, Region) for a in args):
            return _region_logic(name, args)
        if any(isinstance(a, Axis) for a in args):
            return self._condition(name, args)
        row = ARITHMETIC[name]
        if len(args) != row.arity:
            raise refuse("TI04", f"'{name}' takes {row.arity}, and there are {len(args)} arguments.", at=at.span)
        values = [self.value(a) for a in args]
        return elementwise(self.graph, name, values)

    def _condition(self, name: str, args: list[Any]) -> Region:
        """A comparison of a dim's coordinate with a number."""
        first, second = args
        if not isinstance(first, Axis):
            first, second, name = second, first, _MIRRORED.get(name, name)
        n = self.whole(second)
        ends = {
            "less": [(NEVER, n)], "less_equal": [(NEVER, _after(n))], "greater": [(_after(n), ALWAYS)],
            "greater_equal": [(n, ALWAYS)], "eq": [(n, _after(n))], "not_eq": [(NEVER, n), (_after(n), ALWAYS)],
        }[name]  # fmt: skip
        result = Region(())
        for pair in ends:
            result |= Region.of({first.name: pair})
        return result

    # Values

    def value(self, x: Any) -> Any:
        """The tensor of what may be a position."""
        return run(self.deref(x)) if isinstance(x, (Iterator, Lifted)) else x

    def whole(self, x: Any) -> int:
        """A number that is known when the program is specialised."""
        if isinstance(x, Infinity):
            return ALWAYS if x.positive else NEVER
        if isinstance(x, Offset):
            return int(x.value)
        return int(self.known.number(x))

    def deref(self, x: Any) -> Steps:
        """The value at a position."""
        match x:
            case Iterator(value, steps):
                for step in reversed(steps):
                    value = tree_map(lambda v, s=step: self._move(v, s), value)
                return value
            case Lifted(stencil, args, steps):
                return (yield self.apply(stencil, [shifted(a, steps) for a in args], Ref("deref")))
            case _:
                return x

    def name_of(self, field: Any) -> str | None:
        """The name of the input that a field is, also where it was stored to."""
        while isinstance(field, tuple) and field:
            field = field[0]
        while isinstance(field, Node) and field.op == "update":
            field = field.args[0]
        return field.static[0] if isinstance(field, Node) and field.op == "input" else None

    def local_of(self, x: Node) -> str | None:
        """The local dim that was added last."""
        return next((d for d in reversed(x.dims) if d in self.slots), None)

    def aligned(self, lists: list[Any]) -> tuple[str | None, list[Any]]:
        """Lists along one local dim: those of several tables correspond slot by slot."""
        locals_ = [self.local_of(x) for x in lists]
        local = next((d for d in locals_ if d in self.holed), next((d for d in locals_ if d is not None), None))
        if local is None:
            return None, lists
        pairs = zip(lists, locals_, strict=True)
        return local, [x if d in (None, local) else self.graph.restagger(x, d, local, 0) for x, d in pairs]

    def _move(self, x: Any, step: Step) -> Node:
        """A node moved by one step, which a shift along a dim, a restaggering, neighbours, one neighbour or a gather
        represents.

        A step by a node has a distance that is computed. Raises TI04 for a value that is no field, TI07 for the carry
        of a fold, TI08 for a slot that the table lacks.
        """
        g = self.graph
        if not isinstance(x, Node):
            raise refuse("TI04", "what is shifted here is no field.", "shift an argument of the stencil.", at=step.span)
        if x.carries:
            message = "what a scan or reduction carries is shifted, and it has no neighbours."
            raise refuse("TI07", message, "shift the arguments, or the result.", at=step.span)
        match step.target, step.by:
            case Table() as table, None:
                rows = g.neighbours(x, table)
                self.slots.setdefault(rows.static[1], table.slots)
                return rows
            case Table() as table, int(slot):
                if not 0 <= slot < table.slots:
                    message = f"there is no neighbour {slot}: '{table.name}' has {table.slots}."
                    raise refuse("TI08", message, f"use 0 to {table.slots - 1}.", at=step.span)
                return g.neighbour(x, table, slot)
            case Table() as table, Node() as slot:
                rows = g.neighbours(x, table)
                self.slots.setdefault(rows.static[1], table.slots)
                return self.folding.chosen(rows, rows.static[1], table.slots, slot)
            case (str() as dim, str() as codomain), int(by):
                return g.restagger(x, codomain, dim, by)
            case (str() as dim, str() as codomain), Node() as by:
                return g.gather(g.restagger(x, codomain, dim, 0), dim, by)
            case str() as dim, int(by):
                return g.shift(x, dim, by)
            case str() as dim, Node() as by:
                return g.gather(x, dim, by)
            case _:
                raise AssertionError(step)

    def target(self, tag: Offset | CartesianOffset) -> tuple[Target, int]:
        """The target of an offset, and its own distance."""
        if isinstance(tag, CartesianOffset):
            return (
                tag.domain.name if tag.domain.name == tag.codomain.name else (tag.domain.name, tag.codomain.name)
            ), 0
        target = self.provider.get(str(tag.value))
        if target is None:
            # a name such as V2E is that of a table
            table = re.fullmatch(r"[A-Za-z]+2[A-Za-z]+", str(tag.value)) is not None
            steps = "" if table else "; an offset along a dim is h(K - 1), which needs none"
            missing = f'pass offset_provider={{"{tag.value}": ...}}{steps}.'
            hint = did_you_mean(str(tag.value), self.provider) or missing
            raise refuse("TI05", f"the offset '{tag.value}' is not in the offset provider.", hint, at=tag.span)
        if isinstance(target, tuple):
            dim, codomain, by = cast("tuple[str, str, int]", target)
            return (dim if dim == codomain else (dim, codomain)), by
        return target, 0


def _after(n: int) -> int:
    """The next whole number; the ends of an unbounded interval stay."""
    return n if n in (NEVER, ALWAYS) else n + 1


_MIRRORED = {"less": "greater", "less_equal": "greater_equal", "greater": "less", "greater_equal": "less_equal"}


def _region_logic(name: str, args: list[Any]) -> Region:
    """A logical operation of regions and domains; raises TI04 for others than and, or, not, xor and not_eq."""
    regions = [Region.of(a.box) if isinstance(a, Domain) else a for a in args]
    match name:
        case "and_":
            return regions[0] & regions[1]
        case "or_":
            return regions[0] | regions[1]
        case "not_":
            return ~regions[0]
        case "xor_" | "not_eq":
            a, b = regions
            return (a & ~b) | (b & ~a)
        case _:
            raise refuse("TI04", f"'{name}' is not for conditions on coordinates.", "use &, | and ~.")


def _read_number(text: str, element: Any) -> bool | int | float:
    """A literal's text in the element type."""
    if not element.is_number:
        return text in ("True", "true", "1")
    return float(text) if element.is_float else int(float(text)) if "." in text or "e" in text else int(text)
