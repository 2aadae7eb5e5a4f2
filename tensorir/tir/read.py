"""The way in: text, decorated Python functions, or a live object of TVM, to a module of TIR.

`@ti.tir.prim_func` on a Python function: its source is read as TVMScript, the function itself never runs.

Names of the module around that hold numbers, strings or data types' names may be used in it, as constants.

>>> N = 8
>>> @prim_func                                                       # doctest: +SKIP
... def double(A: T.Buffer((N,), "float32")):
...     for i in T.serial(N):
...         A[i] = A[i] * 2.0
"""

from __future__ import annotations

import gc
import importlib
import inspect
import keyword
import re
import textwrap
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FunctionType
from typing import Any, cast, overload

import numpy as np

from tensorir.runtime.errors import Source, did_you_mean, refuse
from tensorir.tir.constructors import is_constructed, read_constructors
from tensorir.tir.dtypes import DataType
from tensorir.tir.nodes import IRModule, PrimFunc
from tensorir.tir.script.modules import read_fragment, read_module
from tensorir.tir.script.values import members
from tensorir.tir.tilelang import is_tilelang, read_tilelang

# Constants of live modules of TVM: what `metadata["key"][index]` in their printed text stands for.
#
# TVM 0.27 numbers the constants as it prints them and keeps the numbers to itself, but underlines objects on request:
# with half of the constants underlined at a time, a few prints tell which reference is which constant.

_REFERENCE = re.compile(r'metadata\["([^"]*)"\]\[(\d+)\]')


def constants_of(live: Any, text: str) -> Mapping[str, object] | None:
    """The arrays that the text of a live module of Relax refers to, by key and index; None where it refers to none."""
    if not _REFERENCE.search(text):
        return None
    constants = list(_constants(live))
    numbers: dict[tuple[str, int], int] = {}
    for bit in range(len(constants).bit_length()):
        chosen = [constant for k, constant in enumerate(constants, 1) if k >> bit & 1]
        for reference in _underlined(live.script(obj_to_underline=chosen)):
            numbers[reference] = numbers.get(reference, 0) | 1 << bit
    found: dict[str, dict[int, object]] = {}
    for (key, index), number in numbers.items():
        found.setdefault(key, {})[index] = _value(constants[number - 1]).numpy()
    return found


def _constants(live: Any) -> Iterator[Any]:
    """The constants of the functions of Relax, each once."""
    functions = [f for _, f in live.functions_items()] if hasattr(live, "functions_items") else [live]
    functions = [f for f in functions if "relax" in type(f).__module__]
    if not functions:
        return
    visit: Callable[..., None] = importlib.import_module("tvm.relax.analysis").post_order_visit
    met: list[Any] = []
    for function in functions:
        visit(function, met.append)
    seen: set[int] = set()
    for expr in met:
        if hasattr(_value(expr), "numpy") and hash(expr) not in seen:
            seen.add(hash(expr))
            yield expr


def _value(expr: Any) -> Any:
    """The array of a constant; its field was named otherwise before 0.27."""
    return getattr(expr, "value", getattr(expr, "data", None))


def _underlined(text: str) -> Iterator[tuple[str, int]]:
    """The references above the marks in a printed text."""
    above = ""
    for line in filter(str.strip, text.splitlines()):
        if not line.strip("^ "):
            for match in _REFERENCE.finditer(above):
                if "^" in line[match.start() : match.end()]:
                    yield match[1], int(match[2])
        else:
            above = line


# The way in: text, or a live object of TVM, to a module of TIR.


@contextmanager
def _without_collection() -> Generator[None, None, None]:
    """Trees only grow while a text is read: looking for cycles in them again and again costs a third of the time."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


@contextmanager
def _not_too_deep() -> Generator[None, None, None]:
    """The limits of the pre-scan leave room; a caller deep in a recursion of its own may use that up."""
    try:
        with _without_collection():
            yield
    except RecursionError:
        raise refuse("TS03", "the text is nested too deeply to be read from here.") from None


def parse(
    text: object,
    name: str = "<tir>",
    metadata: Mapping[str, object] | None = None,
    names: Mapping[str, object] | None = None,
) -> IRModule:
    """The module that TVMScript text writes; the text is read, and never executed.

    `text` may also be a live module or function of TVM: what its `script()` prints is read, with its constants.
    `metadata` supplies the values that printed text only refers to (`metadata["key"][index]`): arrays by index, by key.
    `names` are those that the text had from around it: numbers, strings, data types, and sequences of them. Raises
    DiagnosticError for what is no TVMScript, TS10 for a name that nothing binds, TS34 for other values of names,
    and TS38 for a name that the text does not hold.

    >>> func = "@T.prim_func\\ndef main(A: T.Buffer((N,), dtype)):\\n    A[N - 1] = 1"
    >>> print(parse(func, names={"N": 8, "dtype": "int32"})["main"].body)
    A[7] = 1
    >>> parse("import os")
    Traceback (most recent call last):
    tensorir.runtime.errors.DiagnosticError: <tir>:1:1: error[TS30]: the text holds no function and no module.
    ...
    """
    if not isinstance(text, str):
        script = getattr(text, "script", None)
        if not callable(script):
            message = f"TVMScript is text, or an object of TVM, and this is of type {type(text).__name__}."
            raise refuse("TS33", message)
        live, text = text, script()
        assert isinstance(text, str)
        metadata = constants_of(live, text) if metadata is None else metadata
    given = _plain_names(names or {})
    with _not_too_deep():
        # Some editors begin a file of UTF-8 with a byte order mark, which says nothing.
        source = Source(name, text.removeprefix("\ufeff"))
        if is_tilelang(text) and not is_constructed(text):
            return read_tilelang(source, given)
        _all_written(source, given)
        if is_constructed(text):
            return read_constructors(Source(name, text), given)
        return read_module(source, metadata, given)


def _all_written(source: Source, names: Mapping[str, object]) -> None:
    """Refuse a name that the text does not hold: one with a mistake in it would give its value to nothing."""
    words = set(re.findall(r"\w+", source.text)) if names else set[str]()
    for name in sorted(set(names) - words):
        message = f"nothing in {source.name} asks for the name {name!r}."
        near = did_you_mean(name, sorted(words))
        help = near if near.startswith("did you mean") else "leave it out, or write it as the text does."
        raise refuse("TS38", message, help)


def _plain_names(names: Mapping[str, object]) -> dict[str, object]:
    """The values of names as the reader has them: NumPy's numbers are Python's, a data type is its name."""

    def plain(name: str, value: object) -> object:
        match value:
            case bool() | int() | float() | str():
                return value
            case np.generic():
                return plain(name, cast("Any", value).item())
            case np.dtype():
                return str(cast("np.dtype[Any]", value))
            case type() if _is_element(cast("type[object]", value)):
                return str(np.dtype(cast("Any", value)))  # np.float16, ml_dtypes.bfloat16, jnp.float32
            case DataType():
                return str(value)
            case list() | tuple():
                return tuple(plain(name, item) for item in cast("Sequence[object]", value))
            case _:
                kind = type(value).__name__
                message = f"{name!r} is given as {kind}, and names stand for numbers, strings, data types."
                raise refuse("TS34", message)

    return {name: plain(name, value) for name, value in names.items()}


def _is_element(kind: type[object]) -> bool:
    return issubclass(kind, np.generic) or isinstance(getattr(kind, "dtype", None), np.dtype)


def parse_fragment(text: str, around: Mapping[str, str] | None = None, name: str = "<tir>") -> IRModule:
    """The module whose function `main` has the text, statements or imports alone, for its body.

    `around` states what the fragment uses and does not bind, as types in TVMScript, by name: they are the parameters.
    Raises DiagnosticError for what is no fragment, and for names that neither the text nor `around` binds.

    >>> print(parse_fragment("for i in range(4):\\n    A[i] = A[i] + 1.0", {"A": "T.Buffer((4,))"})["main"].body)
    for i in range(4):
        A[i] = A[i] + T.float32(1.0)
    """
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise refuse("TS33", f"a fragment of TVMScript is text, and this is of type {type(text).__name__}.")
    for known, kind in (around or {}).items():
        if not known.isidentifier() or keyword.iskeyword(known) or not isinstance(kind, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            message = (
                f"what stands around a fragment is a type in TVMScript for each name, and {known!r}: {kind!r} is none."
            )
            raise refuse("TS33", message)
    with _not_too_deep():
        return read_fragment(Source(name, text.removeprefix("\ufeff")), around or {})


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
        raise refuse("TS33", f"@prim_func stands above a function, not above a {type(function).__name__}.")
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError):
        message = f"the source of {function.__name__!r} is not to be found."
        hint = "functions typed into a plain interpreter have none; pass their text to tensorir.tir.parse."
        raise refuse("TS33", message, hint) from None
    # Blank lines above keep the numbers of lines those of the file.
    text = "\n" * (first - 1) + textwrap.dedent("".join(lines))
    module = read_module(Source(function.__code__.co_filename, text), constants=_constants_around(function))
    found = module[function.__name__]
    assert isinstance(found, PrimFunc)
    return found


def _constants_around(function: FunctionType) -> dict[str, object]:
    """Numbers and strings that the function can see, by name; nothing else of its surroundings is looked at."""
    seen = inspect.getclosurevars(function)
    names = {**seen.globals, **seen.nonlocals}
    plain = (bool, int, float, str)
    return {
        name: value
        for name, value in names.items()
        if type(value) in plain or (members(value) and all(type(item) in plain for item in members(value) or ()))
    }
