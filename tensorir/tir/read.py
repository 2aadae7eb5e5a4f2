"""The way in: text, or a live object of TVM, to a module of TIR."""

from __future__ import annotations

import gc
import keyword
import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

import numpy as np

from tensorir.runtime.errors import NOWHERE, Diagnostic, DiagnosticError, Source, did_you_mean
from tensorir.tir.constructors import is_constructed, read_constructors
from tensorir.tir.dtypes import DataType
from tensorir.tir.live import constants_of
from tensorir.tir.nodes import IRModule
from tensorir.tir.script.fragments import read_fragment
from tensorir.tir.script.modules import read_module
from tensorir.tir.tilelang import is_tilelang, read_tilelang

__all__ = ["parse", "parse_fragment"]


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
        message = "the text is nested too deeply to be read from here."
        raise DiagnosticError(Diagnostic("TS03", message, NOWHERE)) from None


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
            raise DiagnosticError(Diagnostic("TS33", message, NOWHERE))
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
        raise DiagnosticError(Diagnostic("TS38", message, NOWHERE, help=help))


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
                raise DiagnosticError(Diagnostic("TS34", message, NOWHERE))

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
        message = f"a fragment of TVMScript is text, and this is of type {type(text).__name__}."
        raise DiagnosticError(Diagnostic("TS33", message, NOWHERE))
    for known, kind in (around or {}).items():
        if not known.isidentifier() or keyword.iskeyword(known) or not isinstance(kind, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            message = (
                f"what stands around a fragment is a type in TVMScript for each name, and {known!r}: {kind!r} is none."
            )
            raise DiagnosticError(Diagnostic("TS33", message, NOWHERE))
    with _not_too_deep():
        return read_fragment(Source(name, text.removeprefix("\ufeff")), around or {})
