"""Locations of operations in the user's Python: file or notebook cell, line and columns."""

from __future__ import annotations

import dis
import functools
import inspect
import linecache
import os
import re
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from itertools import islice, pairwise
from types import CodeType, FrameType
from typing import Any, TypeVar, cast

from tensorir.runtime.errors import NOWHERE, Diagnostic, DiagnosticError, Source, Span, refuse
from tensorir.runtime.memory import remembered

_BESIDE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OURS = tuple(os.path.join(_BESIDE, package) + os.sep for package in ("tensorir", "lowering"))
"""The folders whose frames are not the user's."""
COMMANDS = os.path.join(_BESIDE, "stencils", "cli") + os.sep
"""The folder of the command line, which no line of the user calls."""


def here() -> Span:
    """The span of the user's expression that is being evaluated; NOWHERE if its source is not available."""
    frame = _users()
    return NOWHERE if frame is None else _span(frame, frame.f_lasti)


def raised_at(problem: BaseException) -> Span:
    """The span of the innermost expression of the user in an exception's traceback; NOWHERE if its source is not
    available.
    """
    span, step = NOWHERE, problem.__traceback__
    while step is not None:
        frame = step.tb_frame
        if not frame.f_code.co_filename.startswith((*OURS, COMMANDS)) and not _is_library(frame):
            span = _span(frame, step.tb_lasti)
        step = step.tb_next
    return span


def _span(frame: FrameType, instruction: int) -> Span:
    """The span of an instruction in a frame, from the positions that Python keeps; the whole line if it keeps none."""
    lines = linecache.getlines(frame.f_code.co_filename, frame.f_globals)
    position = next(islice(frame.f_code.co_positions(), instruction // 2, None), None)
    if not lines or position is None:
        return NOWHERE
    line, last_line, start_column, end_column = position
    if line is None or line > len(lines):
        return NOWHERE
    if start_column is None or end_column is None or last_line is None:
        return _line_span(frame.f_code, lines, line)
    source = _source(frame.f_code.co_filename, tuple(lines))
    start = sum(map(len, lines[: line - 1])) + _characters(lines[line - 1], start_column)
    stop = sum(map(len, lines[: last_line - 1])) + _characters(lines[last_line - 1], end_column)
    return Span(source, start, stop)


def _line_span(code: CodeType, lines: list[str], line: int) -> Span:
    text, before = lines[line - 1], sum(map(len, lines[: line - 1]))
    source = _source(code.co_filename, tuple(lines))
    return Span(source, before + len(text) - len(text.lstrip()), before + len(text.rstrip()))


def warn(message: str, where: Span | None = None) -> None:
    """Warns with the location of the user's line, or of a span."""
    place = here() if where is None else where
    if place is NOWHERE:
        warnings.warn(message, stacklevel=3)
    else:
        warnings.warn_explicit(message, UserWarning, place.source.name, place.line)


F = TypeVar("F", bound=Callable[..., Any])


def located(function: F) -> F:
    """A decorator: diagnostics without a place get the place of the user's line that called the function."""

    @functools.wraps(function)
    def wrapper(*args: Any, **options: Any) -> Any:
        """Calls the function, and raises its diagnostics with a place."""
        try:
            return function(*args, **options)
        except DiagnosticError as error:
            place = here()
            placed = [_in_python(replace(d, span=place) if d.span is NOWHERE else d) for d in error.diagnostics]
            if all(a is b for a, b in zip(placed, error.diagnostics, strict=True)):
                raise
            raise DiagnosticError(placed) from None

    return cast(F, wrapper)


def _in_python(diagnostic: Diagnostic) -> Diagnostic:
    """A diagnostic about Python code with its help in Python: `domain=` for declared intervals, `ti.astype` for
    casts.
    """
    help = diagnostic.help
    if diagnostic.code == "T07" and (declared := _DECLARED.search(help)) is not None:
        domain = ", ".join(f"{dim}: ({start}, {stop})" for dim, start, stop in _INTERVAL.findall(declared[1]))
        help = _DECLARED.sub(lambda _: f"pass domain={{{domain}}}", help)
    if any(diagnostic.span.source is source for _, source in _SOURCES.values()):
        help = _WIDER.sub(r"ti.astype(x, ti.\1) is wider", _CAST.sub(r"ti.astype(\1, ti.\2)", help))
    return diagnostic if help == diagnostic.help else replace(diagnostic, help=help)


_WIDER = re.compile(r"write (\w+)\(\.\.\.\) for a wider one")
_CAST = re.compile(r"\bcast\((\w+), (\w+)\)")
_DECLARED = re.compile(r"declare \w+: tensor<(.*?)>")
_INTERVAL = re.compile(r"(\w+)\[(-?\d+):(-?\d+)\]")


def assigned() -> tuple[object, str]:
    """An identity of the user's expression being evaluated, and the variable that its value is stored in at once ("" if
    none).
    """
    frame = _users()
    if frame is None:
        return None, ""
    return (frame.f_code, frame.f_lasti), _stores(frame.f_code).get(frame.f_lasti, "")


def _users() -> FrameType | None:
    """The innermost frame that is neither of this package nor of a library that called it, such as JAX; None where
    that is the command line's.
    """
    frame = inspect.currentframe()
    while frame is not None and (frame.f_code.co_filename.startswith(OURS) or _is_library(frame)):
        frame = frame.f_back
    return None if frame is not None and frame.f_code.co_filename.startswith(COMMANDS) else frame


_LIBRARIES = frozenset(("jax", "jaxlib", "numpy", "scipy", "equinox", "xarray", "pandas"))


def _is_library(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] in _LIBRARIES


@remembered("facts of code", limit=1024)
def _stores(code: CodeType) -> dict[int, str]:
    """The variable that is stored right after an instruction, by the instruction's offset."""
    variables: dict[int, str] = {}
    for instruction, following in pairwise(dis.get_instructions(code)):
        if following.opname.startswith("STORE_") and following.opname.partition("_")[2][:4] in ("FAST", "NAME", "DERE"):
            # two stores or a store and a load may be one instruction; the first is the one of this value
            target: Any = following.argval
            name: Any = target if isinstance(target, str) else target[0]
            if isinstance(name, str) and name.isidentifier():
                # a call stands at its instruction or at the last cell of the cache behind that
                variables.update(dict.fromkeys(range(instruction.offset, following.offset, 2), name))
    return variables


def _characters(line: str, column: int) -> int:
    """Python counts columns in bytes of UTF-8."""
    return column if line.isascii() else len(line.encode()[:column].decode(errors="replace"))


_SOURCES: dict[str, tuple[tuple[str, ...], Source]] = {}


def _source(name: str, lines: tuple[str, ...]) -> Source:
    """The `Source` of a file's lines, cached so that spans share it."""
    cached = _SOURCES.get(name)
    if cached is None or cached[0] != lines:
        cached = _SOURCES[name] = lines, Source(_called(name), "".join(lines))
    return cached[1]


def _called(name: str) -> str:
    """The name of a file in messages: its last part, or the number of a notebook's cell."""
    shell: Any = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    cells: Any = getattr(getattr(shell, "compile", None), "_filename_map", {})
    return f"cell {cells[name]}" if name in cells else os.path.basename(name)


def name_of(function: Any) -> str:
    """The name of a function for messages; of a callable object that of its type. Raises V19 for what is no function.

    >>> import functools
    >>> name_of(name_of), name_of(functools.partial(name_of, 1)), name_of(functools.partial(functools.partial(max)))
    ('name_of', 'name_of', 'max')
    """
    while isinstance(function, functools.partial):
        function = cast("Any", function).func
    if not callable(function):
        raise refuse("V19", f"{function!r} is no function.", "decorate one: @ti.field_operator.", at=here())
    return str(getattr(function, "__name__", type(function).__name__))


def of_function(function: Callable[..., object]) -> Span:
    """The span of the `def` line of a function; NOWHERE if its source is not available."""
    code: CodeType | None = getattr(function, "__code__", None)
    if code is None:
        return NOWHERE
    lines: list[str] = linecache.getlines(code.co_filename, getattr(function, "__globals__", None))
    number = code.co_firstlineno
    is_lambda = code.co_name == "<lambda>"
    while number <= len(lines) and not (is_lambda or lines[number - 1].lstrip().startswith(("def ", "async def "))):
        number += 1
    return _line_span(code, lines, number) if number <= len(lines) else NOWHERE
