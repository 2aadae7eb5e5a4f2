"""Programs that run on fields: specialised once per set of sizes, results copied into the caller's fields.

A call finds its program by the domains of its fields and by the scalars that sizes were made of. Everything is computed
before anything is written, into buffers that stay with the program; then each result is copied once into its field.
"""

# What programs evaluate to is of many kinds, which only running tells.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownLambdaType=false, reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportPrivateUsage=false

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tensorir.caches import SIZES, RecentCache
from tensorir.iterator.lift.arguments import leaf_tree, offsets
from tensorir.iterator.lift.program import Options, Specialised, specialise
from tensorir.iterator.lift.values import Target, leaves
from tensorir.iterator.nodes import Program
from tensorir.types import DTYPES

__all__ = ["Runner"]

_LOG = logging.getLogger("tensorir.iterator")


@dataclass(eq=False)
class _Ready:
    """A specialised program, compiled, and where its inputs and outputs are in a call's flat arguments."""

    special: Specialised
    call: Any
    inputs: tuple[tuple[str, int, Any], ...]
    """Names, places, and the type of a number; None for a field."""
    outputs: tuple[tuple[str, int, tuple[slice, ...]], ...]
    donated: bool = False
    kept: dict[str, Any] = field(default_factory=dict[str, Any])

    def run(self, flat: list[Any]) -> None:
        arguments: dict[str, Any] = {
            name: array_of(flat[k]) if dtype is None else dtype(getattr(flat[k], "value", flat[k]))
            for name, k, dtype in self.inputs
        }
        results = self.call(**arguments)
        for name, k, where in self.outputs:
            target = array_of(flat[k])
            target[where] = results[name]


@dataclass(eq=False)
class Runner:
    """A program as a callable on fields."""

    program: Program
    options: Options
    column: str | None = None
    made: RecentCache[Any, _Ready | None] = field(default_factory=lambda: RecentCache("iterator programs", SIZES))
    scalars: dict[Any, tuple[int, ...]] = field(default_factory=dict[Any, tuple[int, ...]])
    """By the domains of the fields: the places of the scalars that tell programs apart."""
    providers: RecentCache[Any, tuple[Any, Mapping[str, Target]]] = field(
        default_factory=lambda: RecentCache("offset providers", SIZES)
    )

    def __call__(self, *args: Any, offset_provider: Any = None, **options: Any) -> None:
        flat = flatten(args)
        ready = self.find(flat, args, offset_provider or {})
        if ready is not None:
            ready.run(flat)

    def find(self, flat: list[Any], args: tuple[Any, ...], provider: Any) -> _Ready | None:
        key = (
            tuple([getattr(a, "domain", None) for a in flat]),
            tuple([(n, id(t)) for n, t in provider.items()]),
        )
        places = self.scalars.get(key, ())
        full = (key, tuple([plain(flat[k]) for k in places]))
        if full not in self.made:
            self._make(key, flat, args, provider)
            full = (key, tuple([plain(flat[k]) for k in self.scalars[key]]))
        return self.made.get(full)

    def target(self, provider: Any) -> Mapping[str, Target]:
        """The offsets of a provider; tables are read once."""
        key = tuple((n, id(t)) for n, t in provider.items())
        return self.providers.of(key, lambda: (dict(provider), offsets(provider)))[1]

    def _make(self, key: Any, flat: list[Any], args: tuple[Any, ...], provider: Any) -> None:
        _LOG.debug("'%s' is compiled for %s", self.program.name, key[0])
        trees = {p.name: leaf_tree(p.name, a, p.type) for p, a in zip(self.program.params, args, strict=True)}
        special = specialise(self.program, trees, self.target(provider), self.column, self.options)
        found = [leaf for tree in trees.values() for leaf in leaves(tree)]
        place = {leaf.name: k for k, leaf in enumerate(found)}
        used = {place[n] for n in special.used} | set(self.scalars.get(key, ()))
        self.scalars[key] = tuple(sorted(used))
        ready = None
        if special.fencil is not None:
            inputs = tuple(
                (n, place[n], None if found[place[n]].dims is not None else DTYPES[found[place[n]].element].type)
                for n in special.inputs
            )
            outputs = tuple((o.name, place[o.leaf], _slices(found[place[o.leaf]], o.box)) for o in special.outputs)
            ready = _Ready(special, compiled(special), inputs, outputs)
        self.made.put((key, tuple([plain(flat[k]) for k in self.scalars[key]])), ready)


def compiled(special: Specialised) -> Any:
    """The program with its tables, on the default backend."""
    from tensorir.backends import compile

    assert special.fencil is not None
    tables = {n: table.at(rows) for n, (table, rows) in special.tables.items()}
    program: Any = special.fencil
    if tables:
        from tensorir.binding import bind

        program = bind(program, tables)
    return compile(program)


def _slices(leaf: Any, box: Mapping[str, tuple[int, int]]) -> tuple[slice, ...]:
    return tuple(slice(box[d][0] - i.start, box[d][1] - i.start) for d, i in leaf.dims.items)


def flatten(args: tuple[Any, ...]) -> list[Any]:
    if not any(isinstance(a, tuple) for a in args):
        return list(args)
    return [leaf for a in args for leaf in (flatten(a) if isinstance(a, tuple) else (a,))]


def array_of(field: Any) -> Any:
    """The array of a field."""
    return field.ndarray if hasattr(field, "ndarray") else np.asarray(field)


def plain(x: Any) -> Any:
    return x.item() if isinstance(x, np.generic) else x
