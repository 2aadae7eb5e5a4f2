"""Whole texts: aliases, the module with its wrapper or without, and what stands beside it."""

from __future__ import annotations

import re
from typing import Any

from tensorir.runtime.errors import Source, refuse
from tensorir.tile.nodes import Attribute, Module, Operation
from tensorir.tile.text.own import OWN
from tensorir.tile.text.reader import Reader

MAX_LENGTH = 256 * 1024 * 1024
"""Characters of a text that are read."""
_ALIAS = re.compile(r"([!#])([A-Za-z_0-9][A-Za-z0-9_$]*)[ \t]*=")


def parse(text: str, name: str = "<tile>") -> Module:
    """The module that MLIR assembly of the cuda_tile dialect writes.

    Operations and types may have their prefix or not; the module's wrapper may be left out, and the whole may stand in
    a module of MLIR. Raises a DiagnosticError at the first place where the text is none of the dialect's.

    >>> print(parse("entry @f(%p: tile<ptr<f32>>) { %v = constant <f32: 1.0> : tile<f32> }"))
    entry @f(%p: tile<ptr<f32>>) {
      %v = constant <f32: 1.000000e+00> : tile<f32>
      return
    }
    """
    message: Any = None
    if not isinstance(text, str):  # type: ignore[unnecessary-isinstance]
        message = f"Tile IR is read from text, and this is of type {type(text).__name__}."
    elif len(text) > MAX_LENGTH:
        message = f"a text has at most {MAX_LENGTH} characters, and this has {len(text)}."
    if message is not None:
        raise refuse("TM02", message, "ti.tile.from_bytecode reads bytes.")
    try:
        return _whole(Reader(Source(name, text), OWN))
    except RecursionError:
        # The limits of nesting leave room; a caller deep in a recursion of its own may use that up.
        raise refuse("TM02", "the text is nested too deeply to be read from here.") from None


def _whole(r: Reader) -> Module:
    c = r.c
    start = c.pos
    operations: list[Operation] = []
    wrappers = 0
    attributes: tuple[tuple[str, Attribute], ...] = ()
    name: str | None = None
    generic = False
    while c.pos < len(c.text):
        if c.peek("!") or c.peek("#"):
            _alias(r)
        elif c.peek('"builtin.module"') and not wrappers and not operations:
            wrappers, generic = 1, True
            _generic_head(r)
        elif c.peek("module") and not wrappers and not operations and _outer(r):
            # a module of MLIR around that of the dialect, or the dialect's own without its prefix
            wrappers += 1
            name, attributes = _head(r)
        elif wrappers and c.accept("}"):
            wrappers -= 1
            if generic:
                c.expect(")", ":")
                r.types.function()
            r.locations.trailing()
        elif c.accept("{-#"):
            _resources(r)
        else:
            operations.append(_symbol(r))
    if wrappers:
        c.fail(
            "TM01",
            "'}' is expected at the end of the module.",
            "",
            max(len(c.text.rstrip()) - 1, 0),
            len(c.text.rstrip()),
        )
    if not operations and name is None:
        c.fail("TM49", "the text holds no module and no entry.", "", start, start + 1)
    if len(operations) == 1 and operations[0].name == "module":
        return _unwrapped(operations[0])
    return Module(tuple(operations), name or "kernels", None, attributes, c.span(start))


def _symbol(r: Reader) -> Operation:
    c = r.c
    start = c.pos
    op = r.operation()
    if op.name not in ("module", "entry", "global", "testing$func"):
        c.wrong("TM49", f"'{op.name}' stands outside of an entry.", start, "a module holds entries and globals.")
    return op


def _unwrapped(op: Operation) -> Module:
    body = op.regions[0].operations if op.regions else ()
    return Module(body, op.attribute("sym_name"), op.attribute("producer"), op.further, op.span, op.location)


def _outer(r: Reader) -> bool:
    """True if `module` here is that of MLIR: it may lack a name."""
    return r.c.peek_word() in ("module", "builtin.module")


def _head(r: Reader) -> tuple[str | None, tuple[tuple[str, Attribute], ...]]:
    c = r.c
    c.word()
    name = c.symbol() if c.peek("@") else None
    attributes = r.attributes.dictionary().entries if c.accept("attributes") else ()
    c.expect("{")
    return name, attributes


def _generic_head(r: Reader) -> None:
    """`"builtin.module"() <{...}> ({`."""
    c = r.c
    c.string()
    c.expect("(", ")")
    if c.accept("<"):
        r.attributes.dictionary()
        c.expect(">")
    c.expect("(", "{")


def _alias(r: Reader) -> None:
    """`!name = type` or `#name = attribute`."""
    c = r.c
    found = _ALIAS.match(c.text, c.pos)
    if found is None:
        c.missing("an alias ('!name = type') or an operation is expected")
    known: Any = r.types.aliases if found[1] == "!" else {*r.attributes.aliases, *r.locations.aliases}
    if found[2] in known:
        c.fail("TM42", f"the alias '{found[1]}{found[2]}' is defined already.", "", found.start(), found.end())
    c.pos = found.end()
    c.skip()
    if found[1] == "!":
        r.types.aliases[found[2]] = r.types.read()
    elif not r.locations.define(found[2]):
        r.attributes.aliases[found[2]] = r.attributes.read()


def _resources(r: Reader) -> None:
    """`{-# ... #-}`, which holds what other dialects keep beside a module."""
    c = r.c
    end = c.text.find("#-}", c.pos)
    if end < 0:
        c.fail("TM01", "'#-}' is expected at the end of these resources.")
    c.pos = end + 3
    c.skip()
