"""Programs with some parameters and sizes fixed (design 2, "Binding").

`bind` copies and validates; a backend prepares what it needs (masks, columns, inverse tables) when it compiles.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorir.arrays import accept, leaves_of, refuse
from tensorir.errors import Diagnostic, DiagnosticError, did_you_mean
from tensorir.facts import analyse
from tensorir.ir import Fencil, Var
from tensorir.tables import check_table
from tensorir.types import DTYPES, Interval
from tensorir.typing_rules import neighbour_source

if TYPE_CHECKING:
    from tensorir.text.template import Template

__all__ = ["BoundProgram", "bind", "shape_of", "tables_of"]


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class BoundProgram:
    """A program and the values of some of its parameters: arrays of their own, one per leaf, that nobody can change."""

    program: Fencil | Template
    constants: Mapping[str, tuple[np.ndarray, ...]]
    holes: Mapping[str, bool]
    """Of each bound table, whether it holds -1."""
    sizes: Mapping[str, int]

    @property
    def name(self) -> str:
        return self.program.name

    @property
    def fencil(self) -> Fencil:
        """The program at its sizes; raises B01 if some are not bound."""
        return self.program if isinstance(self.program, Fencil) else self.program.specialise(**self.sizes)

    def __call__(self, /, *datasets: Any, **arguments: Any) -> Any:
        from tensorir.calls import call

        return call(self, datasets, arguments)

    def bind(self, /, **constants: Any) -> BoundProgram:
        return bind(self, constants)

    def __str__(self) -> str:
        return str(self.program)

    def __repr__(self) -> str:
        return f"<{self.program!r} with {', '.join([*self.constants, *(f'{n}={s}' for n, s in self.sizes.items())])}>"


def bind(program: Any, constants: Mapping[str, Any]) -> BoundProgram:
    """Fix parameters (arrays, numbers) and sizes (integers) by name; bound before are kept.

    Raises N01 for a name that the program does not have, and everything that a call raises for a wrong array.
    """
    before = program if isinstance(program, BoundProgram) else BoundProgram(program, {}, {}, {})
    inner = before.program
    names = {p.name for p in inner.params}
    size_names = () if isinstance(inner, Fencil) else inner.sizes
    for name in constants:
        if name not in names and name not in size_names:
            raise refuse("N01", f"'{name}' is neither a parameter nor a size of '{inner.name}'.",
                         did_you_mean(name, [*names, *size_names]))  # fmt: skip
    sizes = {**before.sizes, **{n: int(v) for n, v in constants.items() if n in size_names}}
    values = {n: v for n, v in constants.items() if n in names}
    if not isinstance(inner, Fencil):
        shapes = {n: shape_of(v) for n, v in values.items()}
        sizes = inner.known_sizes(shapes, sizes)
        if any(n not in sizes for n in inner.sizes):
            raise refuse(
                "B01", f"the size{'s' * (len(set(inner.sizes) - set(sizes)) > 1)} "
                f"{', '.join(n for n in inner.sizes if n not in sizes)} of '{inner.name}' cannot be told from what is bound.",
                "bind sizes by name too: f.bind(n=10).",
            )  # fmt: skip
        inner = inner.specialise(**sizes)
    tables = tables_of(inner)
    taken = {n: _constant(inner[n], v, n in tables) for n, v in values.items()}
    holes = {n: check_table(taken[n][0], n, source, inside) for n, (source, inside) in tables.items() if n in taken}
    return BoundProgram(inner, {**before.constants, **taken}, {**before.holes, **holes}, sizes)


def _constant(param: Var, value: Any, table: bool) -> tuple[np.ndarray, ...]:
    copies: list[np.ndarray] = []
    for name, element, leaf in leaves_of(value, param.type.element, param.name):
        array = np.array(accept(leaf, name, element, param.type.dims, any_integer=table).data)
        array = array.astype(DTYPES[element], copy=False)
        array.setflags(write=False)
        copies.append(array)
    return tuple(copies)


def tables_of(fencil: Fencil) -> dict[str, tuple[str, Interval]]:
    """The parameters that are used as tables: the dim that each leads to, and the coordinates that it may hold."""
    inside = analyse(fencil, {}).tables
    return {name: (neighbour_source(fencil[name].type)[1], interval) for name, interval in inside.items()}


def shape_of(value: Any) -> Any:
    """What the shape of an argument says of sizes: extents by axis, or intervals by name where it carries names.

    >>> shape_of(np.zeros((2, 3))), shape_of((np.zeros(4), np.zeros(4)))
    ((2, 3), (4,))
    """
    from tensorir.arrays import interval_of, kind_of

    if isinstance(value, (tuple, list)) and value and kind_of(value[0]) and not isinstance(value[0], (int, float, list)):
        return shape_of(value[0])
    match kind_of(value):
        case "xarray":
            coords = getattr(value, "coords", {})
            shape: dict[str, Any] = {}
            for name, extent in zip(value.dims, value.shape, strict=True):
                known = interval_of(coords[name].values) if name in coords else None
                shape[str(name)] = (known.start, known.stop) if known else extent
            return shape
        case "field":
            return {name: (i.start, i.stop) for name, i in value.dims.items}
        case "":
            raise DiagnosticError(Diagnostic("A01", f"a {type(value).__name__} is not an array."))
        case _:
            return tuple(np.shape(value))
