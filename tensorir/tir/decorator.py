"""`@ti.tir.prim_func` on a Python function: its source is read as TVMScript, the function itself never runs.

Names of the module around that hold numbers, strings or data types' names may be used in it, as constants.

>>> N = 8
>>> @prim_func                                                       # doctest: +SKIP
... def double(A: T.Buffer((N,), "float32")):
...     for i in T.serial(N):
...         A[i] = A[i] * 2.0
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from types import FunctionType
from typing import Any, overload

from tensorir.runtime.errors import NOWHERE, Diagnostic, DiagnosticError, Source
from tensorir.tir.nodes import PrimFunc
from tensorir.tir.script.modules import read_module
from tensorir.tir.script.values import members

__all__ = ["T", "prim_func"]


class _Inert:
    """Stands for `T` while Python evaluates annotations: every use of it is itself, and does nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return prim_func if name == "prim_func" else self

    def __call__(self, *args: object, **kwargs: object) -> _Inert:
        return self

    def __getitem__(self, key: object) -> _Inert:
        return self


T: Any = _Inert()
"""A stand-in for the dialect, for modules and notebooks without TVM: `from tensorir.tir import T`."""


@overload
def prim_func(function: Callable[..., Any], /) -> PrimFunc: ...
@overload
def prim_func(
    *, private: bool = False, s_tir: bool = False, check_well_formed: bool = True
) -> Callable[[Callable[..., Any]], PrimFunc]: ...
def prim_func(
    function: Callable[..., Any] | None = None,
    /,
    *,
    private: bool = False,
    s_tir: bool = False,
    check_well_formed: bool = True,
) -> PrimFunc | Callable[[Callable[..., Any]], PrimFunc]:
    """The `PrimFunc` that the source of a function writes; as a decorator, with or without keywords.

    Python evaluates annotations before: write `from __future__ import annotations`, or `from tensorir.tir import T`.
    """
    # The keywords stand in the source too, where the reader finds them.
    del private, s_tir, check_well_formed
    return _read if function is None else _read(function)


def _read(function: Callable[..., Any]) -> PrimFunc:
    if not isinstance(function, FunctionType):
        message = f"@prim_func stands above a function, not above a {type(function).__name__}."
        raise DiagnosticError(Diagnostic("TS33", message, NOWHERE))
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError):
        message = f"the source of {function.__name__!r} is not to be found."
        hint = "functions typed into a plain interpreter have none; pass their text to tensorir.tir.parse."
        raise DiagnosticError(Diagnostic("TS33", message, NOWHERE, help=hint)) from None
    # Blank lines above keep the numbers of lines those of the file.
    text = "\n" * (first - 1) + textwrap.dedent("".join(lines))
    module = read_module(Source(function.__code__.co_filename, text), constants=_constants(function))
    found = module[function.__name__]
    assert isinstance(found, PrimFunc)
    return found


def _constants(function: FunctionType) -> dict[str, object]:
    """Numbers and strings that the function can see, by name; nothing else of its surroundings is looked at."""
    seen = inspect.getclosurevars(function)
    names = {**seen.globals, **seen.nonlocals}
    plain = (bool, int, float, str)
    return {
        name: value
        for name, value in names.items()
        if type(value) in plain or (members(value) and all(type(item) in plain for item in members(value) or ()))
    }
