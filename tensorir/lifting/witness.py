"""What fails while a lifted program runs, in the source's words: buffers and axes, and the variables of loops.

The program names dims and rounds of loops; the source has neither.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from tensorir.ir.nodes import Call, Expr, Fencil, Lambda, Var
from tensorir.ir.rewrite import postorder, values
from tensorir.lifting.assemble import Built
from tensorir.lifting.nests.nest import Loop
from tensorir.lifting.nests.terms import Number
from tensorir.runtime.errors import NOWHERE, Diagnostic, DiagnosticError, Note, Span

_LEAVES = re.compile(r"an index leaves (\w+)\[(-?\d+):(-?\d+)\]\.")
_AT = re.compile(r"at (\w+ = -?\d+(?:, \w+ = -?\d+)*)")
_INNER = {"scatter": 1, "update": 0, "subset": 0, "add_dim": 0, "cartesian_shift": 0, "split_dim": 0, "merge_dims": 0}
"""Operations that leave the dims of an operand where they are, but for those that they name themselves."""


def in_words(error: DiagnosticError, built: Built) -> DiagnosticError:
    """The error of a program, said of the source: what an access says itself, no check of its index repeats."""
    accesses = {d.span for d in error.diagnostics if d.code == "R01"} - {NOWHERE}
    found: dict[object, Diagnostic] = {}
    for d in (_told(d, built) for d in error.diagnostics):
        if d.code != "R02" or d.span not in accesses:
            found.setdefault((d.span, d.message), d)
    return DiagnosticError(list(found.values()))


def _told(d: Diagnostic, built: Built) -> Diagnostic:
    message = d.message
    found = _LEAVES.fullmatch(message)
    if found is not None:
        place = _place(d, found[1], built.fencil)
        count = int(found[3]) - int(found[2])
        extent = f"which has {count} element{'s' if count != 1 else ''}"
        match place:
            case None:  # storage of the source's own, which the line names
                which = "its axis"
            case (name, _, 1):
                which = f"'{name}'"
            case (name, axis, _):
                which = f"axis {axis} of '{name}'"
        message = f"an index leaves {which}, {extent}."
    told = _position if d.span in built.positional else partial(_round, built=built)
    notes: list[Note | str] = [told(note) if isinstance(note, str) else note for note in d.notes]
    return replace(d, message=message, notes=tuple(notes))


# Buffers


def _place(d: Diagnostic, dim: str, f: Fencil) -> tuple[str, int, int] | None:
    """The buffer that an access at the diagnostic's place reads or writes, its axis, and how many it has."""
    names = {p.name for p in f.params}
    for node in postorder(*values(f.closures)):
        match node:
            case Call("gather" | "scatter" as op, args, (dims, *_)) if node.span == d.span and dim in dims:
                found = _root(args[0 if op == "gather" else 1], dim)
                if found is None:
                    continue
                root, axis = found
                name = re.sub(r"_now(_\d+)?$", "", root.name)
                if name in names:
                    return name, axis, len(root.tensor.dims)
            case _:
                pass
    return None


def _root(e: Expr, dim: str) -> tuple[Var, int] | None:
    """The variable that a tensor comes from, and which of its dims this is."""
    while True:
        match e:
            case Var():
                return (e, e.tensor.dims.names.index(dim)) if dim in e.tensor.dims else None
            case Call("rename", (x,), (pairs,)):
                e, dim = x, {new: old for old, new in pairs}.get(dim, dim)
            case Call(op, args) if op in _INNER:
                e = args[_INNER[op]]
            case _:
                return None
        if dim not in e.tensor.dims:
            return None


# Loops


def _loops(built: Built) -> Iterator[tuple[str, str, str]]:
    """Of each loop of the program the name of its round, the source's name, and where it starts."""
    decided: dict[Span, list[Loop]] = {}
    for d in built.report.sequential:
        if d.loop.span is not NOWHERE and d.loop not in decided.setdefault(d.loop.span, []):
            decided[d.loop.span].append(d.loop)
    made: dict[Span, dict[str, None]] = {}
    for node in reversed(list(postorder(*values(built.fencil.closures)))):
        match node:
            case Call("loop", (_, Lambda(params=(step, *_)), *_)) if node.span in decided:
                made.setdefault(node.span, {})[step.name] = None
            case _:
                pass
    for span, steps in made.items():
        # one line of the source may say several loops, from the outside in
        loops = decided[span] if len(steps) == len(decided[span]) else decided[span][-1:] * len(steps)
        for step, loop in zip(steps, loops, strict=True):
            if isinstance(loop.low, Number):
                yield step, loop.title or loop.name, str(loop.low.value)


def _position(note: str) -> str:
    """A note on tensors whose dims have no names in the source."""
    return _AT.sub(lambda found: f"at ({', '.join(re.findall(r'= (-?[0-9]+)', found[0]))})", note, count=1)


def _round(note: str, built: Built) -> str:
    """A note with the variables of the source's loops in the place of rounds."""
    for step, title, low in _loops(built):
        if title in ("while", "loop"):
            note = re.sub(rf"\b{step} = (\d+)", lambda m: f"round {m[1]}", note)
            continue
        first = int(low)
        note = re.sub(rf"\b{step} = (\d+)", lambda m, t=title, k=first: f"{t} = {int(m[1]) + k}", note)
    return note
