"""The names that a program mentions: its dims, and the size parameters of its bounds.

>>> from tensorir.runtime.errors import Source
>>> from tensorir.text.parser import parse_programs
>>> (program,) = parse_programs(Source("p", "f(out: tensor<float, I[0:n]>, x: tensor<float, I[0:n+1]>) { out ← x }"))
>>> inventory(program)
Inventory(dims=('I',), sizes=('n',))
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tensorir.ir.builtins import TABLE
from tensorir.text.affine import Affine
from tensorir.text.syntax import Call, Expression, Lambda, Operator, Program, Range, Shift, TensorType, walk

__all__ = ["Inventory", "inventory", "inventory_of"]


@dataclass(frozen=True, slots=True)
class Inventory:
    """Names in the order in which they first appear."""

    dims: tuple[str, ...]
    sizes: tuple[str, ...]


def inventory(program: Program) -> Inventory:
    """What a fencil mentions."""
    types = [p.type for p in program.params if p.type is not None]
    regions = [r for closure in program.closures for r in closure.region or ()]
    return inventory_of(types, regions, [e for closure in program.closures for e in closure.expressions])


def inventory_of(types: list[TensorType], regions: list[Range], values: list[Expression]) -> Inventory:
    """What types, intervals and expressions mention."""
    dims: dict[str, None] = {}
    sizes: dict[str, None] = {}
    for kind in types:
        _add_type(kind, dims, sizes)
    for node in walk(*values):
        match node:
            case Lambda(params):
                for p in params:
                    if p.type is not None:
                        _add_type(p.type, dims, sizes)
            case Operator(_, given) if given is not None:
                for kind in given:
                    _add_type(kind, dims, sizes)
            case Call(op, _, static) if static:
                dims.update(dict.fromkeys(_new_dims(op, static)))
                for value in static:
                    _add_sizes(value, sizes)
            case Shift(offsets):
                for offset in offsets:
                    _add_sizes(offset.distance, sizes)
            case _:
                pass
    for r in regions:
        _add_sizes((r,), sizes)
    return Inventory(tuple(dims), tuple(sizes))


def _add_type(kind: TensorType, dims: dict[str, None], sizes: dict[str, None]) -> None:
    dims.update(dict.fromkeys(r.dim for r in kind.ranges))
    _add_sizes(kind.ranges, sizes)


def _add_sizes(value: Any, sizes: dict[str, None]) -> None:
    match value:
        case Affine(_, terms):
            sizes.update(dict.fromkeys(name for name, _ in terms))
        case (Range(), *_):
            for r in value:
                _add_sizes(r.start, sizes)
                _add_sizes(r.stop, sizes)
        case _:
            pass


def _new_dims(op: str, static: tuple[Any, ...]) -> Iterator[str]:
    """The dims that a builtin makes."""
    if op not in ("add_dim", "rename", "split_dim", "merge_dims"):
        return
    for slot, value in zip(TABLE[op].static_slots, static, strict=True):
        if slot == "dim":
            yield value
        elif slot == "pairs":
            yield from (new for _, new in value)
