"""The letters of a program's dims, and the names that are taken.

>>> from tensorir.text import parse
>>> f = parse("f(out: tensor<float, I[0:n]>, x: tensor<float, lon[0:2], lat[0:n]>, l: tensor<float>) { out ← l; }")
>>> letters_of(f.program)
{'I': 'i', 'lon': 'lon', 'lat': 'lat'}
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tensorir.ir.builtins import TABLE
from tensorir.ir.types import NEIGHBOUR, neighbour_counter
from tensorir.staggering import HALF
from tensorir.text import syntax

__all__ = ["is_tag", "letters_of", "names_of", "slot_letter"]


def names_of(program: syntax.Program) -> set[str]:
    """The names of parameters and sizes: what else has a name may need another symbol."""
    return {*(p.name for p in program.params), *_sizes(program)}


def letters_of(program: syntax.Program) -> dict[str, str]:
    """A letter, or a word, for an index along each dim: those of meshes first, all in the order in which they appear.

    A dim whose points lie half way between those of another has the other's letter.
    """
    tables = [{r.dim for r in p.type.ranges} for p in program.params if p.type is not None]
    meshes = {d.removeprefix(NEIGHBOUR) for table in tables if any(map(is_tag, table)) for d in table}
    dims = list(dict.fromkeys(d for d in _dims(program) if not d.startswith(NEIGHBOUR)))
    dims.sort(key=lambda d: d not in meshes)
    names = set(_names(program))
    stems = list(dict.fromkeys(map(_stem, dims)))
    letters: dict[str, str] = {}
    for stem in stems:
        first, word = stem[0].lower(), stem.lower()
        alone = sum(s[0].lower() == first for s in stems) == 1
        candidates = [*([first] if alone else []), word, f"{first}'", f"{word}'"]
        letters[stem] = next((c for c in candidates if c not in names and c not in letters.values()), f"{word}''")
    return {dim: letters[_stem(dim)] for dim in dims}


def slot_letter(program: syntax.Program) -> str:
    """A letter for the slots of neighbours."""
    taken = {*_names(program), *letters_of(program).values()}
    return next((c for c in "srqp" if c not in taken), "s'")


def is_tag(dim: str) -> bool:
    """Whether a dim is that of a table's entries."""
    return dim.startswith(NEIGHBOUR) and neighbour_counter(dim) is None


def _stem(dim: str) -> str:
    return dim.removesuffix(HALF) or dim


def _expressions(program: syntax.Program) -> Iterator[syntax.Expression]:
    return syntax.walk(*(e for c in program.closures for e in c.expressions))


def _params(program: syntax.Program) -> Iterator[syntax.Param]:
    yield from program.params
    for node in _expressions(program):
        if isinstance(node, syntax.Lambda):
            yield from node.params


def _dims(program: syntax.Program) -> Iterator[str]:
    for param in _params(program):
        yield from (r.dim for r in (param.type.ranges if param.type is not None else ()))
    for node in _expressions(program):
        if isinstance(node, syntax.Call):
            for slot, value in zip(TABLE[node.op].static_slots, node.static, strict=True):
                yield from _of_slot(slot, value)


def _of_slot(slot: str, value: Any) -> Iterator[str]:
    match slot:
        case "dim" | "dim?":
            yield from (value,) if value is not None else ()
        case "dims" | "over":
            yield from value
        case "pairs":
            yield from (name for pair in value for name in pair)
        case _:
            pass


def _sizes(program: syntax.Program) -> Iterator[str]:
    """The sizes in the types of parameters: others are given by these."""
    for param in _params(program):
        for r in param.type.ranges if param.type is not None else ():
            yield from (size for bound in (r.start, r.stop) for size, _ in bound.terms)


def _names(program: syntax.Program) -> Iterator[str]:
    yield from names_of(program)
    yield from (b.name for c in program.closures for b in c.before)
    for node in _expressions(program):
        match node:
            case syntax.Name(label):
                yield label
            case syntax.Let(label):
                yield label
            case syntax.Lambda(params):
                yield from (p.name for p in params)
            case _:
                pass
