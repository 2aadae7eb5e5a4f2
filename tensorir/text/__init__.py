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
    """The fencil of a text: a `Fencil`, or a `Template` if its intervals depend on sizes.

    `offset_provider` says what abstract offsets stand for: names of dims or tables, `Dimension`s, or tables, to which
    the result is then bound. `name` is what diagnostics call the text. With several fencils, `fencil` names one.
    """
    source = _source(name, text)
    programs = parse_programs(source)
    return _type_program(_choose(programs, fencil, source), offset_provider or {})


def parse_all(text: str, *, offset_provider: Mapping[str, Any] | None = None, name: str = "<text>") -> dict[str, Any]:
    """Every fencil of a text, by its name."""
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
    """One expression over variables of given types.

    >>> from tensorir.ir.types import tensor
    >>> parse_expr("⟪I, 1⟫(x) - x", {"x": tensor("float", I=(0, 5))}).type
    tensor<float, I[0:4]>
    """
    known = [Var(key, kind) for key, kind in variables.items()] if isinstance(variables, Mapping) else variables
    tree = parse_expression(_source(name, text))
    return elaborate_expression(tree, known, inventory_of([], [], [tree]).dims, sizes)


def read(
    path: str | PathLike[str], *, fencil: str | None = None, offset_provider: Mapping[str, Any] | None = None
) -> Any:
    """`parse` of a file in UTF-8. A file that is too large is refused before it is read."""
    return parse(read_text(path), fencil=fencil, offset_provider=offset_provider, name=str(path))


def read_text(path: str | PathLike[str]) -> str:
    """The text of a program file."""
    source = Source(str(path), "")
    size = Path(path).stat().st_size
    if size > MAX_TEXT:
        message = f"the file has {size} bytes, and {MAX_TEXT} is the limit."
        raise refuse("S08", message, "split it into several files.", at=Span(source, 0, 0))
    data = Path(path).read_bytes()
    try:
        return data.decode("utf-8").removeprefix("\ufeff")  # some editors begin a file with a byte order mark
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8")
        bad = Span(Source(str(path), f"{before}\ufffd"), len(before), len(before) + 1)
        message = f"the byte {data[error.start]:#04x} is not UTF-8."
        raise refuse("S02", message, "save the file as UTF-8.", at=bad) from None


def _source(name: str, text: object) -> Source:
    if not isinstance(text, str):
        kind = type(text).__name__
        hint = "for a file, ti.parse(path.read_text(encoding='utf-8'))."
        raise refuse("S15", f"a program is a text, and this is of type {kind}.", hint)
    return Source(name, text)


def _choose(programs: tuple[Program, ...], wanted: str | None, source: Source) -> Program:
    """The program of a name; without a name the only one."""
    seen: set[str] = set()
    for program in programs:
        if program.name in seen:
            raise refuse("N12", f"there are two fencils named '{program.name}'.", "rename one.", at=program.span)
        seen.add(program.name)
    if not programs:
        message = "there is no fencil in this text."
        raise refuse("N08", message, "write name(out: tensor<float, I[0:5]>, ...) { out ← e; }.", at=Span(source, 0, 0))
    names = [p.name for p in programs]
    if wanted is None and len(programs) > 1:
        listed = ", ".join(f"'{n}'" for n in names)
        message = f"there are {len(programs)} fencils here: {listed}."
        raise refuse("N08", message, f'name the one that you want: fencil="{names[0]}".', at=programs[1].span)
    for program in programs:
        if wanted in (None, program.name):
            return program
    message = f"there is no fencil '{wanted}' in this text."
    raise refuse("N08", message, did_you_mean(str(wanted), names), at=Span(source, 0, 0))


def _type_program(program: Program, offset_provider: Mapping[str, Any]) -> Any:
    program, tables = provide(program, offset_provider)
    result: Fencil | Template = Template(program) if inventory(program).sizes else elaborate(program)
    return result.bind(**tables) if tables else result
