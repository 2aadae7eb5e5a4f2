"""The way in: text, or a live object of TVM, to a module of TIR."""

from __future__ import annotations

import gc
from collections.abc import Generator, Mapping
from contextlib import contextmanager

from tensorir.errors import Diagnostic, DiagnosticError
from tensorir.source import NOWHERE, Source
from tensorir.tir.live import constants_of
from tensorir.tir.nodes import IRModule
from tensorir.tir.script.modules import read_module

__all__ = ["parse"]


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


def parse(text: object, name: str = "<tir>", metadata: Mapping[str, object] | None = None) -> IRModule:
    """The module that TVMScript text writes; the text is read, and never executed.

    `text` may also be a live module or function of TVM: what its `script()` prints is read, with its constants.
    `metadata` supplies the values that printed text only refers to (`metadata["key"][index]`): arrays by index, by key.

    >>> parse("import os")
    Traceback (most recent call last):
    tensorir.errors.DiagnosticError: <tir>:1:1: error[TS30]: the text holds no function and no module.
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
    try:
        with _without_collection():
            # Some editors begin a file of UTF-8 with a byte order mark, which says nothing.
            return read_module(Source(name, text.removeprefix("\ufeff")), metadata)
    except RecursionError:
        # The limits of the pre-scan leave room; a caller deep in a recursion of its own may use that up.
        message = "the text is nested too deeply to be read from here."
        raise DiagnosticError(Diagnostic("TS03", message, NOWHERE)) from None
