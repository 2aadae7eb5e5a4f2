"""Passes in a row, by name: `Pipeline("inline, cse, temporaries(min_uses=2)")`."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from tensorir.ir.nodes import Fencil
from tensorir.passes.base import Pass, with_fencil
from tensorir.passes.table import PASSES
from tensorir.runtime.errors import NOWHERE, Diagnostic, DiagnosticError, Displayed, Source, Span, did_you_mean

__all__ = ["Pipeline"]


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

    passes: tuple[Pass, ...]
    show: Callable[[str], Any] | None = field(default=None, compare=False)

    def __init__(self, passes: str | Iterable[Pass], show: Callable[[str], Any] | None = None) -> None:
        found = _read(passes) if isinstance(passes, str) else _given(passes)
        object.__setattr__(self, "passes", found)
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


def _given(passes: Any) -> tuple[Pass, ...]:
    found: tuple[object, ...] = tuple(passes) if hasattr(passes, "__iter__") else (passes,)
    for one in found:
        if not isinstance(one, Pass):
            message = f"a pipeline is made of passes, and {one!r} is none."
            raise DiagnosticError(Diagnostic("S20", message, NOWHERE, help='write Pipeline("inline, cse").'))
    return tuple(one for one in found if isinstance(one, Pass))


def _read(text: str) -> tuple[Pass, ...]:
    source = Source("<pipeline>", text)
    found: list[Pass] = []
    at = 0
    while text[at:].strip():
        item = _ITEM.match(text, at)
        if item is None:
            message = "a pipeline is names of passes with commas between them."
            hint = 'write Pipeline("inline, temporaries(min_uses=2)").'
            raise DiagnosticError(Diagnostic("S20", message, Span(source, at, len(text)), help=hint))
        found.append(_one(source, item))
        at = item.end()
    return tuple(found)


def _one(source: Source, item: re.Match[str]) -> Pass:
    name, span = item[1], Span(source, *item.span(1))
    if name not in PASSES:
        raise DiagnosticError(Diagnostic("N20", f"there is no pass '{name}'.", span, help=did_you_mean(name, PASSES)))
    made = PASSES[name]
    options: dict[str, Any] = {}
    begin = item.start(2)
    for part in filter(None, (item[2] or "").split(",")):
        key, _, value = part.partition("=")
        where = Span(source, begin + len(part) - len(part.lstrip()), begin + len(part))
        options[key.strip()] = _option(made, key.strip(), value.strip(), where)
        begin += len(part) + 1
    return made(**options)


def _option(made: Any, key: str, text: str, span: Span) -> Any:
    """The value of an option, of the type that its default has."""
    known = {f.name: f.default for f in dataclasses.fields(made)}
    if key not in known:
        raise DiagnosticError(
            Diagnostic(
                "N21",
                f"the pass '{made.name()}' has no option '{key}'.",
                span,
                help=did_you_mean(key, known) or "write its name alone.",
            )
        )
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
        raise DiagnosticError(
            Diagnostic("T50", f"the option '{key}' is {kind}.", span, help=f"its default is {default!r}.")
        )
    return value
