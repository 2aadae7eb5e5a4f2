"""The notation of the tensor IR: text to typed programs and back. Its grammar is in `grammar.md`.

>>> f = parse('''
... average(out: tensor<float, I[1:9]>, x: tensor<float, I[0:10]>) {
...   out ← 0.5 × (⟪i, -1⟫(x) + ⟪i, 1⟫(x));
... }''', offset_provider={"i": "I"})
>>> print(f)
average(out: tensor<float, I[1:9]>, x: tensor<float, I[0:10]>) {
  out ← 0.5 × (⟪I, -1⟫(x) + ⟪I, 1⟫(x));
}
>>> parse(str(f)) == f
True
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from tensorir.ir.nodes import Expr, Fencil, Var
from tensorir.ir.types import TensorType
from tensorir.runtime.errors import Diagnostic, DiagnosticError, Source, Span, did_you_mean, refuse
from tensorir.text.elaborate import elaborate, elaborate_expression
from tensorir.text.lexer import ELEMENTS, MAX_TEXT
from tensorir.text.parser import parse_expression, parse_programs
from tensorir.text.scope import provide
from tensorir.text.sizes import Template, solve
from tensorir.text.syntax import Program, inventory, inventory_of

__all__ = ["ELEMENTS", "Template", "parse", "parse_all", "parse_expr", "read", "solve"]


def parse(
    text: str, *, fencil: str | None = None, offset_provider: Mapping[str, Any] | None = None, name: str = "<text>"
) -> Any:
    """The only fencil of a text, or the one named `fencil`: a `Fencil`, or a `Template` if its intervals depend on
    sizes.

    `offset_provider` maps abstract offsets to names of dims or tables, `Dimension`s, or tables, to which the result is
    then bound. `name` stands for the text in diagnostics.
    """
    source = _source(name, text)
    programs = parse_programs(source)
    return _type_program(_choose(programs, fencil, source), offset_provider or {})


def parse_all(text: str, *, offset_provider: Mapping[str, Any] | None = None, name: str = "<text>") -> dict[str, Any]:
    """All fencils of a text by name, typed like those of `parse`; the diagnostics of all of them are raised at once."""
    source = _source(name, text)
    programs = parse_programs(source)
    _choose(programs, programs[0].name if programs else None, source)
    findings: list[Diagnostic] = []
    result: dict[str, Any] = {}
    for program in programs:
        try:
            result[program.name] = _type_program(program, offset_provider or {})
        except DiagnosticError as error:
            findings += error.diagnostics
    if findings:
        raise DiagnosticError(findings)
    return result


def parse_expr(
    text: str,
    variables: Mapping[str, TensorType] | Sequence[Var] = (),
    *,
    sizes: Mapping[str, int] | None = None,
    name: str = "<text>",
) -> Expr:
    """One expression over declared variables; `sizes` are the values of sizes in its intervals.

    >>> from tensorir.ir.types import tensor
    >>> parse_expr("⟪I, 1⟫(x) - x", {"x": tensor("float", I=(0, 5))}).type
    tensor<float, I[0:4]>
    """
    declared = [Var(key, kind) for key, kind in variables.items()] if isinstance(variables, Mapping) else variables
    tree = parse_expression(_source(name, text))
    return elaborate_expression(tree, declared, inventory_of([], [], [tree]).dims, sizes)


def read(
    path: str | PathLike[str], *, fencil: str | None = None, offset_provider: Mapping[str, Any] | None = None
) -> Any:
    """`parse` of a file in UTF-8."""
    return parse(read_text(path), fencil=fencil, offset_provider=offset_provider, name=str(path))


def read_text(path: str | PathLike[str]) -> str:
    """The text of a program file, without a byte order mark.

    Raises S08, before reading, for a file larger than `MAX_TEXT` bytes, S02 for bytes that are not UTF-8.
    """
    source = Source(str(path), "")
    size = Path(path).stat().st_size
    if size > MAX_TEXT:
        message = f"the file has {size} bytes, and {MAX_TEXT} is the limit."
        raise refuse("S08", message, "split it into several files.", at=Span(source, 0, 0))
    data = Path(path).read_bytes()
    try:
        return data.decode("utf-8").removeprefix("\ufeff")  # some editors begin a file with a byte order mark
    except UnicodeDecodeError as error:
        valid_prefix = data[: error.start].decode("utf-8")
        bad = Span(Source(str(path), f"{valid_prefix}\ufffd"), len(valid_prefix), len(valid_prefix) + 1)
        message = f"the byte {data[error.start]:#04x} is not UTF-8."
        raise refuse("S02", message, "save the file as UTF-8.", at=bad) from None


def _source(name: str, text: object) -> Source:
    """A source of a text for diagnostics; raises S15 for an object of another type."""
    if not isinstance(text, str):
        type_name = type(text).__name__
        hint = "for a file, ti.parse(path.read_text(encoding='utf-8'))."
        raise refuse("S15", f"a program is a text, and this is of type {type_name}.", hint)
    return Source(name, text)


def _choose(programs: tuple[Program, ...], wanted_name: str | None, source: Source) -> Program:
    """The program with a name, or the only program if the name is None.

    Raises N12 for a repeated name, N08 if there is no such program, none at all, or several without a name to choose.
    """
    seen: set[str] = set()
    for program in programs:
        if program.name in seen:
            raise refuse("N12", f"there are two fencils named '{program.name}'.", "rename one.", at=program.span)
        seen.add(program.name)
    if not programs:
        message = "there is no fencil in this text."
        raise refuse("N08", message, "write name(out: tensor<float, I[0:5]>, ...) { out ← e; }.", at=Span(source, 0, 0))
    names = [p.name for p in programs]
    if wanted_name is None and len(programs) > 1:
        quoted_names = ", ".join(f"'{n}'" for n in names)
        message = f"there are {len(programs)} fencils here: {quoted_names}."
        raise refuse("N08", message, f'name the one that you want: fencil="{names[0]}".', at=programs[1].span)
    for program in programs:
        if wanted_name in (None, program.name):
            return program
    message = f"there is no fencil '{wanted_name}' in this text."
    raise refuse("N08", message, did_you_mean(str(wanted_name), names), at=Span(source, 0, 0))


def _type_program(program: Program, offset_provider: Mapping[str, Any]) -> Any:
    """The typed `Fencil`, or a `Template` if the program has sizes; bound to tables that the provider has."""
    program, tables = provide(program, offset_provider)
    result: Fencil | Template = Template(program) if inventory(program).sizes else elaborate(program)
    return result.bind(**tables) if tables else result
