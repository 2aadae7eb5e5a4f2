"""Operators on DataArrays of dask, block by block: what each block needs of its neighbours follows from the types.

A dim is *local* to an operator where each point is computed from points at fixed distances, whatever its place is.
Along local dims the blocks of the result are those of the argument, and a block is computed from its own part and a
halo as wide as the intervals of argument and result differ. Along others (folds, scans, boundary conditions, positions,
tables) there must be one block.

>>> import numpy as np
>>> import tensorir as ti
>>> import xarray as xr
>>> (I,) = ti.dims("I")
>>> @ti.field_operator
... def rise(h):
...     return h(I + 1) - h
>>> h = xr.DataArray(np.arange(6.0) ** 2, dims="I", coords={"I": np.arange(6)}).chunk(I=2)
>>> found = map_blocks(rise, h)
>>> found.chunks, found.compute().values
(((2, 2, 1),), array([1., 3., 5., 7., 9.]))
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast, overload

import numpy as np

from tensorir.binding.arrays import is_tuple, kind_of, refuse
from tensorir.binding.coordinates import Labels, stated
from tensorir.binding.known_coordinates import Coordinate, Coordinates, knowing
from tensorir.binding.labels import Place
from tensorir.builtins import TABLE
from tensorir.fieldview.array_types import Plain
from tensorir.fieldview.datasets import is_whole
from tensorir.fieldview.operator import FieldOperator
from tensorir.fieldview.results import gathered
from tensorir.fieldview.signature import restored
from tensorir.ir import Call, Fencil
from tensorir.types import DTYPES, Dims, Interval, Scalar, TensorType, scalar_of
from tensorir.walk import postorder, values

if TYPE_CHECKING:
    import xarray as xr

    from tensorir import Field

__all__ = ["local_dims", "map_blocks"]


@overload
def map_blocks(
    operator: FieldOperator[Field], *arguments: xr.DataArray | xr.Dataset | Plain, **more: xr.DataArray | Plain
) -> xr.DataArray: ...
@overload
def map_blocks(
    operator: FieldOperator[tuple[Field, Field]], *arguments: xr.DataArray | xr.Dataset | Plain,
    **more: xr.DataArray | Plain,
) -> tuple[xr.DataArray, xr.DataArray]: ...  # fmt: skip
@overload
def map_blocks(operator: FieldOperator, *arguments: object, **more: object) -> Any: ...
def map_blocks(operator: Any, *arguments: Any, **more: Any) -> Any:
    """What an operator gives for DataArrays that dask holds in blocks, as such an array.

    Nothing is computed before `.compute()`, and then only what is looked at. A Dataset is taken as operators take it:
    in place of several arguments it gives each parameter its variable. Labels, names and units are as those of a call.
    Raises A35 where an argument has several blocks along a dim of which the operator needs the whole, and A36 for what
    is no operator.
    """
    of: Any = operator
    if not isinstance(of, FieldOperator):
        hint = "define one: @ti.field_operator def f(h): return program(h=h)['out']."
        raise refuse("A36", "ti.map_blocks takes a field operator and arrays with names of dims.", hint)
    given = operator.bound(arguments, more)
    if any(map(is_whole, given.values())):
        return operator.over_variables(given, functools.partial(map_blocks, operator))
    arrays = {n: v for n, v in given.items() if kind_of(v) == "xarray"}
    if not arrays:
        raise refuse("A36", f"'{operator.name}' gets no DataArray that could be in blocks.", "call it as it is.")
    if any(kind_of(leaf) == "xarray" for v in given.values() if is_tuple(v) for leaf in v):
        hint = "give the members parameters of their own."
        raise refuse("A36", f"'{operator.name}' gets a tuple of arrays, which is not taken apart into blocks.", hint)
    if not any(getattr(v, "chunks", None) for v in arrays.values()):
        return operator(**given)
    stand_in = {n: v.copy(data=_blank(v, n)) for n, v in arrays.items()}
    plan = operator.plan({**given, **stand_in})
    fencil = plan.fencil
    coordinates = Coordinates({**given, **stand_in}).taken(plan.coordinates)
    read = {parameter: c.value for parameter, c in coordinates.items()}
    place = Place.of(fencil, {**stand_in, **read}, {})
    local = local_dims(fencil)
    arrays = {**arrays, **read}
    cuts = _cuts(operator.name, fencil, arrays, place, local)
    with stated(plan.periods):
        labels = Labels.of(fencil, {**stand_in, **read}, place)
    halos = {n: _halos(place.intervals[n], [p.type.dims for p in fencil.outputs]) for n in arrays}
    told = {parameter: (c.name, c.units, c.even) for parameter, c in coordinates.items()}
    blocks = _Blocks(operator, given, arrays, told, place, halos, cuts)
    found = {p.name: labels.attach(p, blocks.result(p.name, p.type)) for p in fencil.outputs}
    return restored(plan.shape, gathered(plan.results, found))


def local_dims(fencil: Fencil) -> frozenset[str]:
    """The dims along which each point is computed from points at fixed distances.

    >>> import tensorir as ti
    >>> f = ti.parse("f(y: tensor<float, I[0:5]>, x: tensor<float, I[0:5], K[0:3]>) { y ← reduce(+, 0.0, K)(x); }")
    >>> sorted(local_dims(f))
    ['I']
    """
    every = {d for p in fencil.params for d in p.type.dims.names}
    whole: set[str] = {d for c in fencil.closures if c.region is not None for d in every}
    for node in postorder(*values(fencil.closures)):
        if not isinstance(node, Call) or TABLE[node.op].elementwise or node.op in _LOCAL:
            continue
        row = TABLE[node.op]
        have = [a.type.dims for a in node.args if isinstance(a.type, TensorType)]
        dims = {d for h in have for d in h.names} | set(node.type.dims.names)
        if row.indirect or row.effect or row.endless:
            whole |= dims
        changed = {d for h in have for d in h.names if d not in node.type.dims or h[d] != node.type.dims[d]}
        changed |= {d for d in node.type.dims.names if not any(d in h for h in have)}
        whole |= changed | {d for d in dims if d in _named(node.static)}
    return frozenset(every - whole)


_LOCAL = ("cartesian_shift", "make_tuple", "tuple_get", "cast", "bitcast", "if")


def _named(static: Any) -> set[str]:
    """The dims that the static part of a call names."""
    match static:
        case str():
            return {static}
        case Dims():
            return set(static.names)
        case tuple():
            return {d for member in cast("tuple[Any, ...]", static) for d in _named(member)}
        case _:
            return set()


def _blank(array: Any, name: str) -> Any:
    """Numbers of the shape and type of an array that take no memory."""
    element = scalar_of(array.dtype)
    if element is None:
        raise refuse("A02", f"'{name}' is {array.dtype}, which is no element type.", "convert it, to float64 say.")
    return np.broadcast_to(np.zeros((), DTYPES[element]), array.shape)


def _cuts(
    name: str, fencil: Fencil, arrays: Mapping[str, Any], place: Place, local: frozenset[str]
) -> dict[str, list[int]]:  # fmt: skip
    """Where the blocks of results begin and end along each dim, in the coordinates of the program."""
    ends: dict[str, set[int]] = {}
    for parameter, array in arrays.items():
        for dim, sizes in getattr(array, "chunksizes", {}).items():
            if len(sizes) > 1 and str(dim) not in local:
                told = f"'{name}' needs the whole of {dim} at once, and '{parameter}' has {len(sizes)} blocks along it"
                raise refuse("A35", f"{told}.", f"make one of them: {parameter}.chunk({dim}=-1).")
            start = place.intervals[parameter][str(dim)].start
            ends.setdefault(str(dim), set()).update(int(start + k) for k in np.cumsum(sizes)[:-1])
    return {d: sorted(found) for d, found in ends.items()}


def _blocks(interval: Interval, cuts: Sequence[int]) -> list[Interval]:
    ends = [interval.start, *(k for k in cuts if interval.start < k < interval.stop), interval.stop]
    return [Interval(a, b) for a, b in pairwise(ends)]


def _halos(have: Dims, results: Sequence[Dims]) -> dict[str, tuple[int, int]]:
    """How far an argument reaches before and after what any of the results has, by dim."""
    return {
        d: (max(r[d].start - i.start for r in own), max(i.stop - r[d].stop for r in own))
        for d, i in have.items
        if (own := [r for r in results if d in r])
    }


@dataclass(frozen=True)
class _Blocks:
    """An operator, its arguments, and how they are cut."""

    operator: FieldOperator
    given: Mapping[str, Any]
    arrays: Mapping[str, Any]
    coordinates: Mapping[str, tuple[str, str, bool]]
    """Of the arrays that are coordinates of arguments, the name, the units, and whether steps are equal."""
    place: Place
    halos: Mapping[str, Mapping[str, tuple[int, int]]]
    cuts: Mapping[str, Sequence[int]]

    def result(self, output: str, kind: TensorType) -> Any:
        """A result as an array of dask: a block for each block of the arguments."""
        dask, delayed = importlib.import_module("dask.array"), importlib.import_module("dask").delayed
        if not isinstance(kind.element, Scalar):
            raise refuse("A36", f"'{self.operator.name}' gives tuples as elements.", "return a tuple of fields.")
        dtype = DTYPES[kind.element]
        others = {n: v for n, v in self.given.items() if n not in self.arrays}
        run = delayed(_run, pure=True)

        def made(done: tuple[Interval, ...], left: Sequence[tuple[str, Interval]]) -> Any:
            if left:
                (dim, interval), *rest = left
                return [made((*done, block), rest) for block in _blocks(interval, self.cuts.get(dim, ()))]
            block = dict(zip(kind.dims.names, done, strict=True))
            # counted from the block, so that blocks of one size are one program
            origin = {d: i.start for d, i in block.items()}
            parts: dict[str, Any] = {}
            intervals: dict[str, dict[str, tuple[int, int]]] = {}
            for name, array in self.arrays.items():
                have = self.place.intervals[name]
                need = {d: self._needed(name, have[d], block.get(d), d) for d in have.names}
                index = {d: slice(i.start - have[d].start, i.stop - have[d].start) for d, i in need.items()}
                parts[name] = array.isel(index).data
                intervals[name] = {d: (i.start - origin.get(d, 0), i.stop - origin.get(d, 0)) for d, i in need.items()}
            lengths = {d: (0, len(i)) for d, i in block.items()}
            value = run(self.operator, output, others, parts, intervals, lengths, self.coordinates)
            return dask.from_delayed(value, shape=tuple(map(len, done)), dtype=dtype)

        return dask.block(made((), kind.dims.items)) if kind.dims.names else made((), ())

    def _needed(self, name: str, have: Interval, block: Interval | None, dim: str) -> Interval:
        """The part of an argument that a block is computed from; at an end it reaches further to the other side."""
        if block is None or dim not in self.halos[name]:
            return have
        before, after = self.halos[name][dim]
        start, stop = block.start - before, block.stop + after
        early, late = max(0, have.start - start), max(0, stop - have.stop)
        return Interval(max(have.start, start - late), min(have.stop, stop + early))


def _run(
    operator: FieldOperator, output: str, others: Mapping[str, Any], parts: Mapping[str, Any],
    intervals: Mapping[str, Mapping[str, tuple[int, int]]], block: Mapping[str, tuple[int, int]],
    coordinates: Mapping[str, tuple[str, str, bool]],
) -> Any:  # fmt: skip
    """One block of one result."""
    from tensorir.backends import backend

    as_field = backend("jax").fields().as_field
    fields = {n: as_field(dict(intervals[n]), np.asarray(part)) for n, part in parts.items()}
    known = [Coordinate(name, fields[p], fields[p].dims, units, even) for p, (name, units, even) in coordinates.items()]
    own = {n: field for n, field in fields.items() if n not in coordinates}
    with knowing(known):
        found = operator.outputs({**others, **own})[output]
    index = tuple(slice(block[d][0] - i.start, block[d][1] - i.start) for d, i in found.dims.items)
    return np.asarray(found.data)[index]
