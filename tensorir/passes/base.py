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
        """The program after the pass: a `Fencil`, or a `BoundProgram`, whose constants are kept."""
        return with_fencil(program, self.checked)

    def checked(self, fencil: Fencil) -> Fencil:
        """`run`; parameters that it added are buffers of its own, and no results."""
        result = self.run(fencil)
        declared = {p.name for p in fencil.params} - fencil.buffers
        buffers = frozenset(p.name for p in result.params if p.name not in declared)
        return result if buffers == result.buffers else dataclasses.replace(result, buffers=buffers)

    def in_order(self) -> Pass | None:
        """The pass for programs whose floats are added in the order in which they are written; None for none."""
        return None if self.reorders else self

    def on(self, platform: str) -> Pass | None:
        """The pass for what is compiled for a platform of JAX, such as "cpu"; None for none."""
        return self

    def knowing(self, tables: Mapping[str, SkipValues], full: frozenset[str]) -> Pass:
        """The pass for a program of whose tables it is known which slots hold -1, and which hold none."""
        return self

    def reason(self) -> str:
        """Why the pass changes what it changes, in a line: the first of its description where it says nothing else."""
        return (type(self).__doc__ or self.name()).partition("\n")[0]

    def thresholds(self) -> tuple[Threshold, ...]:
        """The limits that the pass compares with, at its options."""
        return ()

    def decided(self, before: Fencil, after: Fencil) -> tuple[Decision, ...]:
        """The decisions of the pass: a row for each call that it made, or for each closure that it changed."""
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
        """The number that was compared with the pass's first threshold, for a call that it made."""
        return None

    def spelled(self) -> str:
        """The pass with its options, as a pipeline's text has it."""
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


def with_fencil(program: Any, change: Callable[[Fencil], Fencil]) -> Any:
    """The program with its fencil changed; sizes must be bound."""
    match program:
        case Fencil():
            return change(program)
        case BoundProgram(Fencil() as fencil, constants, holes):
            new = change(fencil)
            names = {p.name for p in new.params}
            constants = {n: c for n, c in constants.items() if n in names}
            holes = {n: h for n, h in holes.items() if n in names}
            return BoundProgram(new, constants, holes, program.sizes, program.pending)
        case _:
            name = BoundProgram.of(program).name
            raise refuse("B09", f"'{name}' has sizes that are not known yet.", "bind them: f.bind(n=10).")


def remade(fencil: Fencil, closures: tuple[Closure, ...], params: tuple[Var, ...] | None = None) -> Fencil:
    """The fencil with other closures, names unique; itself if they are the same."""
    params = fencil.params if params is None else params
    same = params == fencil.params and len(closures) == len(fencil.closures)
    if same and all(a == b and a.value is b.value for a, b in zip(closures, fencil.closures, strict=True)):
        return fencil
    return make_fencil(fencil.name, params, closures, fencil.span, fencil.buffers & {p.name for p in params})


def rewritten(fencil: Fencil, rule: Callable[[Expr], Expr | None]) -> Fencil:
    """Every expression bottom up by a rule, until nothing changes."""
    closures = fencil.closures
    unchanged: dict[int, Expr] = {}
    while True:
        new = rewrite_all(values(closures), rule, unchanged)
        if all(a is b for a, b in zip(new, values(closures), strict=True)):
            return remade(fencil, closures)
        closures = with_values(closures, new)


# Before and after of a pass, as the docstrings show it.


def show(a_pass: Pass, text: str, **variables: Any) -> None:
    """Print what a pass makes of a program, or of an expression over variables of given types."""
    print(shown(a_pass, text, **variables))


def shown(a_pass: Pass, text: str, **variables: Any) -> str:
    """The text of a program after a pass. Variables are floats, on the intervals given, or of the type given.

    >>> from tensorir.passes.simplify import Simplify
    >>> shown(Simplify(), "x × 1.0", x={"I": (0, 5)})
    'x'
    """
    if not variables:
        return str(a_pass(parse(text)))
    kinds = {n: t if isinstance(t, TensorType) else tensor("float", t) for n, t in variables.items()}
    value = parse_expr(text, kinds)
    output = var("result", value.tensor)
    before = make_fencil("shown", [output, *(var(n, t) for n, t in kinds.items())], [closure(output, value)])
    return str(a_pass(before).closures[0].value)
