"""The base of passes: a frozen dataclass whose fields are its options, from a program to one of the same meaning."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from tensorir.binding.arrays import SkipValues
from tensorir.binding.programs import BoundProgram
from tensorir.ir.build import closure, var
from tensorir.ir.build import fencil as make_fencil
from tensorir.ir.nodes import Closure, Expr, Fencil, Var
from tensorir.ir.rewrite import rewrite_all, values, with_values
from tensorir.ir.types import TensorType, tensor
from tensorir.passes.decisions import Decision, Places, Threshold, calls_made, closures_changed, shortened
from tensorir.runtime.errors import refuse
from tensorir.text import parse, parse_expr


class Pass:
    """One transformation. A subclass defines `run`; nodes type themselves, so what it makes is well-typed."""

    reorders: ClassVar[bool] = False
    """Whether results may round differently: such a pass is left out where `numerics="exact"`."""
    makes: ClassVar[str] = ""
    """The builtin whose calls are what the pass chose, where it has one."""

    def run(self, fencil: Fencil) -> Fencil:
        raise NotImplementedError

    def __call__(self, program: Any) -> Any:
        """The program after the pass: a `Fencil`, or a `BoundProgram`, whose remaining constants are kept."""
        return with_fencil(program, self.checked)

    def checked(self, fencil: Fencil) -> Fencil:
        """`run`; parameters that the pass added are marked as buffers of the fencil, so that they do not become
        results.
        """
        result = self.run(fencil)
        declared = {p.name for p in fencil.params} - fencil.buffers
        buffers = frozenset(p.name for p in result.params if p.name not in declared)
        return result if buffers == result.buffers else dataclasses.replace(result, buffers=buffers)

    def in_order(self) -> Pass | None:
        """The pass as it may run where floats are added in the written order (`numerics="exact"`); None to leave it
        out.
        """
        return None if self.reorders else self

    def on(self, platform: str) -> Pass | None:
        """The pass as it runs for a platform of JAX, such as "cpu"; None if it does not pay there."""
        return self

    def knowing(self, tables: Mapping[str, SkipValues], full: frozenset[str]) -> Pass:
        """The pass with facts on neighbour tables: `tables` has the slots that hold -1, `full` the tables declared to
        hold none.
        """
        return self

    def reason(self) -> str:
        """The reason for the pass's changes, in one line of a plan; by default the first line of its docstring."""
        return (type(self).__doc__ or self.name()).partition("\n")[0]

    def thresholds(self) -> tuple[Threshold, ...]:
        """The limits that the pass compares with, at its options; the first one is shown with each decision."""
        return ()

    def decided(self, before: Fencil, after: Fencil) -> tuple[Decision, ...]:
        """The decisions of the pass, for a plan, from the fencil before and after it.

        One for each call of the builtin `makes` that it created; if it has none, one for each closure that it changed.
        """
        if after is before:
            return ()
        limit = next(iter(self.thresholds()), None)
        if self.makes:
            places = Places(after)
            return tuple(
                Decision(
                    self.name(), shortened(n), places.of(n), True, self.reason(), self.measure(n), limit, span=n.span
                )
                for n in calls_made(before, after, self.makes)
            )
        return tuple(
            Decision(self.name(), shortened(c.value), where, True, self.reason(), threshold=limit, span=c.span)
            for c, where in closures_changed(before, after)
        )

    def measure(self, node: Expr) -> float | None:
        """The number that was compared with the first threshold for a call that the pass created; None if unknown."""
        return None

    def spelled(self) -> str:
        """The pass as a pipeline's text spells it: its name, and the options that differ from their defaults."""
        assert dataclasses.is_dataclass(self)
        options = [
            f"{f.name}={value!r}"
            for f in dataclasses.fields(self)
            if f.init and (value := getattr(self, f.name)) != f.default
        ]
        return f"{self.name()}({', '.join(options)})" if options else self.name()

    @classmethod
    def name(cls) -> str:
        """The name in a pipeline: `CombineShifts` is `combine_shifts`."""
        return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower()


def with_fencil(program: Any, transform: Callable[[Fencil], Fencil]) -> Any:
    """The program with `transform` applied to its fencil; constants and holes of parameters that it drops go as well.

    Raises B09 if sizes of the program are not bound.
    """
    match program:
        case Fencil():
            return transform(program)
        case BoundProgram(Fencil() as fencil, constants, holes):
            transformed = transform(fencil)
            names = {p.name for p in transformed.params}
            constants = {n: c for n, c in constants.items() if n in names}
            holes = {n: h for n, h in holes.items() if n in names}
            return BoundProgram(transformed, constants, holes, program.sizes, program.pending)
        case _:
            name = BoundProgram.of(program).name
            raise refuse("B09", f"'{name}' has sizes that are not known yet.", "bind them: f.bind(n=10).")


def remade(fencil: Fencil, closures: tuple[Closure, ...], params: tuple[Var, ...] | None = None) -> Fencil:
    """The fencil with other closures (and parameters) and unique names; the same object if nothing changed."""
    params = fencil.params if params is None else params
    unchanged = params == fencil.params and len(closures) == len(fencil.closures)
    if unchanged and all(a == b and a.value is b.value for a, b in zip(closures, fencil.closures, strict=True)):
        return fencil
    return make_fencil(fencil.name, params, closures, fencil.span, fencil.buffers & {p.name for p in params})


def rewritten(fencil: Fencil, rule: Callable[[Expr], Expr | None]) -> Fencil:
    """Applies a rule bottom-up to every expression, again and again until nothing changes.

    The rule gives None for an unchanged node; nodes that no rule changes are remembered between rounds.
    """
    closures = fencil.closures
    fixed_points: dict[int, Expr] = {}
    while True:
        new_values = rewrite_all(values(closures), rule, fixed_points)
        if all(a is b for a, b in zip(new_values, values(closures), strict=True)):
            return remade(fencil, closures)
        closures = with_values(closures, new_values)


# Before and after of a pass, as the docstrings show it.


def show(a_pass: Pass, text: str, **variables: Any) -> None:
    """Print what a pass makes of a program, or of an expression over variables of given types."""
    print(shown(a_pass, text, **variables))


def shown(a_pass: Pass, text: str, **variables: Any) -> str:
    """The text of a program after a pass, for docstrings. `variables` make `text` an expression of these: float tensors
    on the given intervals, or of the given type.

    >>> from tensorir.passes.simplify import Simplify
    >>> shown(Simplify(), "x × 1.0", x={"I": (0, 5)})
    'x'
    """
    if not variables:
        return str(a_pass(parse(text)))
    types = {n: t if isinstance(t, TensorType) else tensor("float", t) for n, t in variables.items()}
    value = parse_expr(text, types)
    output = var("result", value.tensor)
    before = make_fencil("shown", [output, *(var(n, t) for n, t in types.items())], [closure(output, value)])
    return str(a_pass(before).closures[0].value)
