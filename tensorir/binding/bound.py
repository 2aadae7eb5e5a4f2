"""Programs with some parameters and sizes fixed (`docs/language.md`, "Sizes" and "Neighbour tables").

`bind` copies and validates; a backend prepares what it needs (masks, columns, inverse tables) when it compiles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorir.analysis.absence import SkipValues, analyse_absence
from tensorir.binding.arrays import (
    Array,
    accept,
    article,
    fixed_shape,
    interval_of,
    is_array,
    is_tuple,
    kind_of,
    leaves_of,
    refuse,
    size_of,
)
from tensorir.binding.labels import brought, moves, operands_of, refuse_moved
from tensorir.binding.tables import check_table
from tensorir.ir.nodes import Fencil, Var
from tensorir.ir.types import DTYPES, Interval
from tensorir.ir.typing_of_elements import neighbour_source
from tensorir.runtime import assembly
from tensorir.runtime.errors import DiagnosticError, Displayed, did_you_mean
from tensorir.runtime.memory import SIZES, CacheOwner, RecentCache, WeakCache

if TYPE_CHECKING:
    from tensorir.text.sizes import Shape, Template

__all__ = ["BoundProgram", "at_sizes", "bind", "shape_of", "solve_sizes", "tables_of"]

NOTHING: Mapping[str, int] = {}


@dataclass(frozen=True, slots=True, eq=False)
class BoundProgram(CacheOwner, Displayed):
    """A program and the values of some of its parameters: arrays of their own, one per leaf, that nobody can change.

    While sizes are missing, values are kept as they came; they are checked when the first call tells the sizes.
    """

    program: Fencil | Template
    constants: Mapping[str, tuple[Array, ...]]
    holes: Mapping[str, SkipValues]
    """Of each bound table, the slots in which it holds -1."""
    sizes: Mapping[str, int]
    pending: Mapping[str, Any]
    """Values that wait for sizes."""
    made: RecentCache[tuple[int, ...], BoundProgram] = field(
        default_factory=lambda: RecentCache("bound programs at their sizes", SIZES)
    )
    """The program at the sets of sizes that were asked for last."""

    @staticmethod
    def of(program: Any) -> BoundProgram:
        """A program with nothing bound yet, or the bound program itself."""
        if isinstance(program, BoundProgram):
            return program
        if not hasattr(program, "closures"):
            hint = "give its fencil." if hasattr(program, "fencil") else "ti.parse makes one of a text."
            raise refuse("B10", f"a program is needed, and this is of type {type(program).__name__}.", hint)
        return BoundProgram(program, {}, {}, {}, {})

    @property
    def name(self) -> str:
        return self.program.name

    @property
    def size_names(self) -> tuple[str, ...]:
        """The sizes that are not bound yet."""
        return () if isinstance(self.program, Fencil) else tuple(n for n in self.program.sizes if n not in self.sizes)

    def at(self, sizes: Mapping[str, int]) -> BoundProgram:
        """The program at all its sizes, its values checked."""
        if isinstance(self.program, Fencil):
            return self
        known = {**self.sizes, **sizes}
        fencil = self.program.specialise(**known)
        key = tuple(known[n] for n in self.program.sizes)
        return self.made.of(key, lambda: replace(bind(fencil, self.pending), sizes=known))

    def __call__(self, /, *datasets: Any, **arguments: Any) -> Any:
        """Run on the default backend."""
        return assembly.call_program(self, datasets, arguments)

    def bind(self, /, **constants: Any) -> BoundProgram:
        """More parameters and sizes fixed."""
        return bind(self, constants)

    def __str__(self) -> str:
        return str(self.program)

    def __repr__(self) -> str:
        names = [*self.constants, *self.pending, *(f"{n}={s}" for n, s in self.sizes.items())]
        return f"<{self.program!r} with {', '.join(names)}>"


def bind(program: Any, constants: Mapping[str, Any]) -> BoundProgram:
    """Fix parameters (arrays, numbers) and sizes (integers) by name; what was bound before is kept.

    Raises N01 for a name that the program does not have, and everything that a call raises for a wrong array.
    """
    bound = BoundProgram.of(program)
    names = {p.name for p in bound.program.params}
    for name in constants:
        if name not in names and name not in bound.size_names:
            raise refuse(
                "N01",
                f"'{name}' is neither a parameter nor a size of '{bound.name}'.",
                did_you_mean(name, [*names, *bound.size_names]),
            )
    if isinstance(bound.program, Fencil):
        return _bound_values(bound, bound.program, constants)
    values = {n: _kept(v) for n, v in constants.items() if n in names}
    sizes = {**bound.sizes, **{n: size_of(v, n) for n, v in constants.items() if n not in names}}
    pending = {**bound.pending, **values}
    try:
        sizes = solve_sizes(bound.program, pending, sizes)
    except DiagnosticError as found:
        if found.diagnostics[0].code != "B01":
            raise
        return BoundProgram(bound.program, {}, {}, sizes, pending)
    return bind(bound.program.specialise(**sizes), pending)


def _kept(value: Any) -> Any:
    """A copy that later changes of the caller's array do not reach."""
    return value.copy() if is_array(value) or hasattr(value, "coords") else value


def solve_sizes(template: Template, values: Mapping[str, Any], sizes: Mapping[str, int]) -> dict[str, int]:
    """Every size of a template from the shapes of values and from sizes by name."""
    return _solved(template, values, sizes, moved_dims(template, values))


def moved_dims(template: Template, values: Mapping[str, Any]) -> dict[str, int]:
    """How far the dims of a template move to where the labels of its arguments begin (`tensorir/binding/labels.py`)."""
    declared = {
        p.name: {r.dim: None if r.start.terms else r.start.constant for r in p.type.ranges}
        for p in template.params
        if p.type is not None
    }
    return moves(declared, operands_of(values))


def at_sizes(bound: BoundProgram, values: Mapping[str, Any], sizes: Mapping[str, int]) -> tuple[BoundProgram, Any]:
    """A bound template at the sizes of arguments, and how far its dims moved to where their labels begin."""
    template = bound.program
    assert not isinstance(template, Fencil)
    given = {**bound.pending, **values}
    moved = moved_dims(template, given)
    if moved and bound.pending:
        pending = {n: brought(v, moved) for n, v in bound.pending.items()}
        bound = replace(bound, pending=pending, made=RecentCache("bound programs whose dims moved", 1))
    found = bound.at(_solved(template, given, {**bound.sizes, **sizes}, moved))
    assert isinstance(found.program, Fencil)
    refuse_moved(found.program, moved)
    for o in operands_of(bound.pending) if moved else ():
        need = found.program[o.name.partition("[")[0]].type.dims
        if any(extent != len(need[d]) for d, extent in o.extents.items() if d in need):
            told = f"'{o.name}' is bound and holds more than {need}, and its labels move with those of the call"
            raise refuse("A29", f"{told}.", f"pass {o.name} with the call, or bind it cut.")
    return found, moved


def _solved(
    template: Template, values: Mapping[str, Any], sizes: Mapping[str, int], moved: Mapping[str, int]
) -> dict[str, int]:
    names = {p.name: [r.dim for r in p.type.ranges] for p in template.params if p.type is not None}
    shapes: dict[str, Shape] = {n: shape_of(v, names[n], n, moved) for n, v in values.items()}
    for name, shape in shapes.items():
        if isinstance(shape, Mapping) and (lacking := [n for n in names[name] if n not in shape]):
            have = ", ".join(shape) or "none"
            raise refuse("A05", f"'{name}' lacks {', '.join(lacking)}: its dims are {have}.", "rename or add the dim.")
    return assembly.solve_sizes(template, shapes, sizes)


def _bound_values(bound: BoundProgram, fencil: Fencil, values: Mapping[str, Any]) -> BoundProgram:
    tables = tables_of(fencil)
    holes: dict[str, SkipValues] = {}
    taken: dict[str, tuple[Array, ...]] = {}
    for n, v in values.items():
        arrays = _constant(fencil[n], v, n in tables)
        if n in tables:
            holes[n] = check_table(arrays[0], n, fencil[n].type, tables[n][1])
        taken[n] = tuple(a.astype(DTYPES[s], copy=False) for a, s in zip(arrays, fencil[n].type.leaves, strict=True))
        for array in taken[n]:
            array.setflags(write=False)
    return BoundProgram(fencil, {**bound.constants, **taken}, {**bound.holes, **holes}, {}, {})


def _constant(param: Var, value: Any, table: bool) -> tuple[Array, ...]:
    """Copies of the leaves of a value; a table keeps its integers, which nobody has looked at yet."""
    return tuple(
        np.array(accept(leaf, name, element, param.type.dims, any_integer=table).data)
        for name, element, leaf in leaves_of(value, param.type.element, param.name)
    )


def tables_of(fencil: Fencil) -> dict[str, tuple[str, Interval]]:
    """The parameters that are used as tables: the dim that each leads to, and the coordinates that it may hold."""
    return TABLES.of(fencil, _tables_of)


def _tables_of(fencil: Fencil) -> dict[str, tuple[str, Interval]]:
    inside = analyse_absence(fencil, {}).tables
    return {name: (neighbour_source(fencil[name].type)[1], interval) for name, interval in inside.items()}


TABLES: WeakCache[dict[str, tuple[str, Interval]]] = WeakCache("tables of fencils")
"""What was found of the tables of each fencil."""


def shape_of(value: Any, names: Sequence[str], name: str = "this", moved: Mapping[str, int] = NOTHING) -> Any:
    """What an argument says of sizes: extents by axis, or intervals by name where it carries them.

    `names` are the dims of the parameter, in the order of its axes; intervals are told less what dims have `moved` by.

    >>> shape_of(np.zeros((2, 3)), ["I", "J"]), shape_of((np.zeros(4), np.zeros(4)), ["I"])
    ((2, 3), (4,))
    """
    if is_tuple(value) and value and not isinstance(value[0], (int, float, list)):
        return shape_of(value[0], names, name, moved)
    return _shape_of_one(value, name, moved)


def _moved(dim: str, interval: Interval, moved: Mapping[str, int]) -> tuple[int, int]:
    return interval.start - moved.get(dim, 0), interval.stop - moved.get(dim, 0)


def _shape_of_one(value: Any, name: str, moved: Mapping[str, int]) -> Any:
    match kind_of(value):
        case "xarray":
            indexes: Any = getattr(value, "xindexes", {})
            known = {str(n): interval_of(indexes[n].to_pandas_index()) for n in value.dims if n in indexes}
            found = {n: _moved(n, i, moved) for n, i in known.items() if i is not None}
            extents = dict(zip(map(str, value.dims), value.shape, strict=True))
            return {**extents, **found}
        case "field":
            return {n: _moved(n, i, moved) for n, i in value.dims.items}
        case "":
            raise refuse("A01", f"'{name}' is {article(type(value).__name__)}, not an array.")
        case _:
            try:
                shape = np.shape(value)
            except ValueError:
                raise refuse("A01", f"'{name}' is a list whose rows have different lengths.") from None
            return fixed_shape(shape, name)
