"""Operators on DataArrays of dask, block by block: what each block needs of its neighbours follows from the types.

A dim is *local* to an operator where each point is computed from points at fixed distances, whatever its place is.
Along local dims the blocks of the result are those of the argument, and a block is computed from its own part and a
halo as wide as the intervals of argument and result differ. Along others (folds, scans, boundary conditions, positions,
tables) there must be one block. All results of a block are computed at once, so what they share is read once.

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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise, product
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from tensorir.analysis.uses import names_in
from tensorir.backends import field_type
from tensorir.binding.arrays import is_tuple, kind_of, refuse_packed
from tensorir.binding.coordinates import Coordinate, Coordinates, Round, knowing
from tensorir.binding.labels import Place
from tensorir.binding.results import Labels, stated
from tensorir.fieldview.array_types import Plain
from tensorir.fieldview.datasets import is_whole
from tensorir.fieldview.operator import FieldOperator
from tensorir.fieldview.results import gathered
from tensorir.fieldview.signature import restored
from tensorir.integers.dims import Dims, Interval, hull
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Call, Fencil, Var
from tensorir.ir.rewrite import postorder, values
from tensorir.ir.staggering import Half, halves
from tensorir.ir.types import DTYPES, Scalar, TensorType, scalar_of
from tensorir.runtime.errors import refuse

if TYPE_CHECKING:
    import xarray as xr

    from tensorir import Field


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
    """The results of an operator on DataArrays that dask holds in blocks, as such arrays.

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
    for name, array in arrays.items():
        refuse_packed(array, name)
    if not arrays:
        raise refuse("A36", f"'{operator.name}' gets no DataArray that could be in blocks.", "call it as it is.")
    if any(_has_axes(leaf) for v in given.values() if is_tuple(v) for leaf in v):
        hint = "give the members parameters of their own."
        raise refuse("A36", f"'{operator.name}' gets a tuple of arrays, which is not taken apart into blocks.", hint)
    for name, array in arrays.items():
        unknown = [str(d) for d, n in zip(array.dims, array.shape, strict=True) if n != n]
        if unknown:
            told = f"how long the blocks of '{name}' along {unknown[0]} are is not known before they are computed"
            raise refuse("A36", f"{told}.", f"compute these: {name}.copy(data={name}.data.compute_chunk_sizes()).")
    if not any(getattr(v, "chunks", None) for v in arrays.values()):
        return operator(**given)
    stand_in = {n: v.copy(data=_blank(v, n)) for n, v in arrays.items()}
    plan = operator.plan({**given, **stand_in})
    fencil = plan.fencil
    coordinates = Coordinates({**given, **stand_in}).taken(plan.coordinates)
    read = {parameter: c.value for parameter, c in coordinates.items()}
    # Fields and bare arrays are cut as DataArrays are, and have no labels
    more_arrays = {n: _as_field(v, fencil[n].type) for n, v in given.items() if n not in arrays and _has_axes(v)}
    named = {**stand_in, **more_arrays, **read}
    place = Place.of(fencil, named, {})
    local = local_dims(fencil)
    arrays = {**arrays, **more_arrays, **read}
    cuts = _cuts(operator.name, fencil, arrays, place, local)
    with stated(plan.periods, plan.turns):
        labels = Labels.of(fencil, named, place)
    halos = {n: _halos(place.intervals[n], [p.type.dims for p in fencil.outputs]) for n in arrays}
    told = {parameter: (c.name, c.units, c.even, c.round) for parameter, c in coordinates.items()}
    with halves(given.values()) as staggered:
        blocks = _Blocks(operator, given, arrays, told, staggered, place, halos, cuts, local)
    results = blocks.results(fencil.outputs)
    found = {p.name: _alike(labels.attach(p, results[p.name])) for p in fencil.outputs}
    return restored(plan.shape, gathered(plan.results, found))


def _alike(found: Any) -> Any:
    """A result whose coordinates of dask have its blocks."""
    sizes = found.variable.chunksizes
    lazy = {n: v for n, v in found.coords.variables.items() if v.chunks}
    own = {n: v.chunk({d: k for d, k in sizes.items() if d in v.dims}) for n, v in lazy.items()}
    return found.assign_coords(own) if own else found


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
        if not isinstance(node, Call):
            continue
        row, maps, own = TABLE[node.op], node.accesses, set(node.type.dims)
        have = {d for a in node.args if isinstance(a.type, TensorType) for d in a.type.dims}
        if maps is None or row.indirect or row.effect:
            whole |= have | own
            continue
        # an operator that is called anew for a block has the same places in it, and not those of the block
        whole |= own - have | (names_in(node.static) if row.placed else set())
        for a in maps:
            if a is None:
                whole |= own
                continue
            boxes = [box.items for box in (a.inside, a.outside) if box is not None]
            whole |= a.far.union(d for box in boxes for d, i in box if node.type.dims[d] != i)
    return frozenset(every - whole)


def _has_axes(value: Any) -> bool:
    return kind_of(value) != "" and len(getattr(value, "shape", None) or np.shape(value)) > 0


def _as_field(array: Any, kind: TensorType) -> Any:
    """A Field as it is, and a bare array on the intervals of its parameter."""
    return array if kind_of(array) == "field" else field_type()(np.asarray(array), kind.dims)


def _blank(array: Any, name: str) -> Any:
    """Numbers of the shape and type of an array that take no memory."""
    element = scalar_of(array.dtype)
    if element is None:
        raise refuse("A02", f"'{name}' is {array.dtype}, which is no element type.", "convert it, to float64 say.")
    return np.broadcast_to(np.zeros((), DTYPES[element]), array.shape)


def _cuts(
    name: str, fencil: Fencil, arrays: Mapping[str, Any], place: Place, local: frozenset[str]
) -> dict[str, list[int]]:  # fmt: skip
    """The ends of the blocks of results along each dim, in the coordinates of the program.

    They are as long as those of the arguments, and count from where the results begin: Zarr takes equal blocks alone.
    """
    ends: dict[str, set[int]] = {}
    starts: dict[str, int] = {}
    for parameter, array in arrays.items():
        for dim, sizes in getattr(array, "chunksizes", {}).items():
            if len(sizes) > 1 and str(dim) not in local:
                message = (
                    f"'{name}' needs the whole of {dim} at once, and '{parameter}' has {len(sizes)} blocks along it"
                )
                raise refuse("A35", f"{message}.", f"make one of them: {parameter}.chunk({dim}=-1).")
            start = place.intervals[parameter][str(dim)].start
            starts[str(dim)] = min(start, starts.get(str(dim), start))
            ends.setdefault(str(dim), set()).update(int(start + k) for k in np.cumsum(sizes)[:-1])
    begin = {d: min(p.type.dims[d].start for p in fencil.outputs if d in p.type.dims) for d in ends
             if any(d in p.type.dims for p in fencil.outputs)}  # fmt: skip
    return {d: sorted(k + begin.get(d, starts[d]) - starts[d] for k in found) for d, found in ends.items()}


def _halos(have: Dims, results: Sequence[Dims]) -> dict[str, tuple[int, int]]:
    """The halo of an argument around the points of any of the results, by dim."""
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
    coordinates: Mapping[str, tuple[str, str, bool, Round | None]]
    """Of the arrays that are coordinates of arguments the name, the units, and what is known of the steps."""
    staggered: Mapping[str, Half]
    """The dims that lie half way between, which parts of arguments cannot tell."""
    place: Place
    halos: Mapping[str, Mapping[str, tuple[int, int]]]
    cuts: Mapping[str, Sequence[int]]
    local: frozenset[str]

    def results(self, outputs: Sequence[Var]) -> dict[str, Any]:
        """The results as arrays of dask: one task computes what all of them have in a block."""
        dask, delayed = importlib.import_module("dask.array"), importlib.import_module("dask").delayed
        for p in outputs:
            if not isinstance(p.type.element, Scalar):
                raise refuse("A36", f"'{self.operator.name}' gives tuples as elements.", "return a tuple of fields.")
        dims = {d: hull([p.type.dims[d] for p in outputs if d in p.type.dims])
                for p in outputs for d in p.type.dims}  # fmt: skip
        blocks = {d: intervals_at(i, self.cuts.get(d, ())) for d, i in dims.items()}
        parts = {p.name: {d: _parts(blocks[d], i) for d, i in p.type.dims.items} for p in outputs}
        others = {n: v for n, v in self.given.items() if n not in self.arrays}
        own = f"{self.operator.name}-{importlib.import_module('dask.base').tokenize(self)}"
        # by chunk: arrays of dask that tasks take are read anew for each
        chunks = {n: v.data.to_delayed() for n, v in self.arrays.items() if getattr(v, "chunks", None)}
        tasks: dict[tuple[int, ...], Any] = {}

        def task(at: tuple[int, ...]) -> Any:
            """All that a block has of the results, by name; one that lacks a dim is in the first block along it."""
            if at not in tasks:
                here = dict(zip(dims, at, strict=True))
                having = [
                    p for p in outputs
                    if all(here[d] in parts[p.name][d] if d in p.type.dims else not here[d] for d in dims)
                ]  # fmt: skip
                asked = {p.name: {d: parts[p.name][d][here[d]] for d in p.type.dims} for p in having}
                todo, taken = self._task(asked, chunks)
                key = f"{own}-{'-'.join(map(str, at))}"  # dask looks at all of a task that has no name
                tasks[at] = delayed(todo.run, name=f"{key}-run", traverse=False)(taken, others, dask_key_name=key)
            return tasks[at]

        def made(p: Var, done: Mapping[str, int], left: Sequence[str]) -> Any:
            if left:
                dim, *rest = left
                return [made(p, {**done, dim: k}, rest) for k in parts[p.name][dim]]
            assert isinstance(p.type.element, Scalar)
            value = task(tuple(done.get(d, 0) for d in dims))[p.name]
            shape = tuple(len(parts[p.name][d][k]) for d, k in done.items())
            return dask.from_delayed(value, shape=shape, dtype=DTYPES[p.type.element])

        found = {p.name: made(p, {}, p.type.dims.names) for p in outputs}
        return {n: dask.block(v) if isinstance(v, list) else v for n, v in found.items()}

    def _task(
        self, asked: Mapping[str, Mapping[str, Interval]], chunks: Mapping[str, Any]
    ) -> tuple[_Task, dict[str, Any]]:
        """The task of a block of some results, and the arrays, or chunks of such, that it takes."""
        block = {
            d: hull([b[d] for b in asked.values() if d in b]) for d in {d: None for b in asked.values() for d in b}
        }
        needed: dict[str, Dims] = {}
        taken: dict[str, Any] = {}
        pieces: dict[str, list[_Piece]] = {}
        for name, array in self.arrays.items():
            have, halos = self.place.intervals[name], self.halos[name]
            needed[name] = Dims(tuple((d, _needed(halos.get(d), i, block.get(d))) for d, i in have.items))
            index = index_in(needed[name], have)
            if name in chunks:
                found = list(_pieces(array.data.chunks, index))
                taken[name], pieces[name] = [chunks[name][p.chunk] for p in found], found
            else:
                labelled = kind_of(array) == "xarray"  # of what lies in a file a part is read
                taken[name] = array[index].data if labelled else array.data[index]
        origin = {d: _origin(d, needed, self.halos, block[d]) for d in block if d in self.local}
        intervals = {n: _from(need, origin) for n, need in needed.items()}
        own = {n: _from(Dims(tuple(b.items())), origin) for n, b in asked.items()}
        along = next((d for d in block if d in self.local and all(d in b for b in asked.values())), None)
        return _Task(self.operator, intervals, pieces, own, self.coordinates, self.staggered, self.halos, along), taken


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of one chunk of an array."""

    chunk: tuple[int, ...]
    within: tuple[slice, ...]
    place: tuple[slice, ...]


def _pieces(chunks: Sequence[Sequence[int]], index: Sequence[slice]) -> Iterator[_Piece]:
    """The pieces of a part of an array.

    >>> [(p.chunk, p.within, p.place) for p in _pieces([(4, 4)], [slice(3, 5)])]
    [((0,), (slice(3, 4, None),), (slice(0, 1, None),)), ((1,), (slice(0, 1, None),), (slice(1, 2, None),))]
    """
    axes: list[list[tuple[int, slice, slice]]] = []
    for sizes, asked in zip(chunks, index, strict=True):
        ends = list(accumulate(sizes))
        own = [(k, max(asked.start, stop - size), min(asked.stop, stop), stop - size)
               for k, (size, stop) in enumerate(zip(sizes, ends, strict=True))]  # fmt: skip
        axes.append([
            (k, slice(a - begin, b - begin), slice(a - asked.start, b - asked.start))
            for k, a, b, begin in own if a < b
        ])  # fmt: skip
    for along in product(*axes):
        chunk, within, place = zip(*along, strict=True) if along else ((), (), ())
        yield _Piece(chunk, within, place)


def intervals_at(interval: Interval, cuts: Iterable[int]) -> list[Interval]:
    """The parts of an interval between ascending cuts; of those that lie outside nothing is cut."""
    ends = [interval.start, *(k for k in cuts if interval.start < k < interval.stop), interval.stop]
    return [Interval(a, b) for a, b in pairwise(ends)]


def _parts(blocks: Sequence[Interval], interval: Interval) -> dict[int, Interval]:
    """The parts of an interval in each block, by their number; an empty one has an empty part of the first."""
    found = {k: b & interval for k, b in enumerate(blocks)}
    return {k: i for k, i in found.items() if i} or {0: Interval(blocks[0].start, blocks[0].start)}


def _from(dims: Dims, origin: Mapping[str, int]) -> Dims:
    return Dims(tuple((d, i.shifted(origin.get(d, 0))) for d, i in dims.items))


def _needed(halo: tuple[int, int] | None, have: Interval, block: Interval | None) -> Interval:
    """The part of an argument that a block is computed from; at an end it reaches further to the other side."""
    if block is None or halo is None:
        return have
    before, after = halo
    start, stop = block.start - before, block.stop + after
    early, late = max(0, have.start - start), max(0, stop - have.stop)
    return Interval(max(have.start, start - late), min(have.stop, stop + early))


def _origin(
    dim: str, needed: Mapping[str, Dims], halos: Mapping[str, Mapping[str, tuple[int, int]]], block: Interval
) -> int:
    """The origin of a block's coordinates, so that blocks of one size are one program, also where a halo ends."""
    having = (need[dim].start + halos[n][dim][0] for n, need in needed.items() if dim in need and dim in halos[n])
    return next(having, block.start)


SLAB = 1 << 22
"""Bytes of the largest argument of a slab: what XLA holds beside the arrays of dask is a few of these, and with all its
temporaries a slab stays below the blocks that `ti.config.kept_memory` keeps."""


@dataclass(frozen=True)
class _Task:
    """A block of some results, in coordinates that count from it."""

    operator: FieldOperator
    intervals: Mapping[str, Dims]
    pieces: Mapping[str, Sequence[_Piece]]
    """Of the arrays that dask holds, where chunks go."""
    blocks: Mapping[str, Dims]
    """By result."""
    coordinates: Mapping[str, tuple[str, str, bool, Round | None]]
    staggered: Mapping[str, Half]
    halos: Mapping[str, Mapping[str, tuple[int, int]]]
    along: str | None
    """A dim that all of the results have."""

    def run(self, taken: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
        """The results by name, computed slab by slab."""
        arrays = {n: self._array(n, v) for n, v in taken.items()}
        slabs = self._slabs(arrays)
        if len(slabs) < 2:
            return self._computed(arrays, self.intervals, self.blocks, others)
        found: dict[str, Any] = {}
        for slab in slabs:
            need = {
                n: i.replaced(Dims(tuple((d, _needed(self.halos[n][d], i[d], s)) for d, s in slab.items() if d in i)))
                for n, i in self.intervals.items()
            }
            asked = {n: b.replaced(Dims(tuple((d, b[d] & s) for d, s in slab.items()))) for n, b in self.blocks.items()}
            origin = {d: _origin(d, need, self.halos, s) for d, s in slab.items()}
            parts = {n: a[index_in(need[n], self.intervals[n])] for n, a in arrays.items()}
            here = {n: _from(b, origin) for n, b in asked.items()}
            made = self._computed(parts, {n: _from(i, origin) for n, i in need.items()}, here, others)
            for name, part in made.items():
                if name not in found:
                    found[name] = np.empty(self.blocks[name].shape, part.dtype)
                found[name][index_in(asked[name], self.blocks[name])] = part
        return found

    def _array(self, name: str, taken: Any) -> Any:
        """An array of the chunks that were taken of it."""
        if name not in self.pieces:
            return np.asarray(taken)
        parts = [np.asarray(c)[p.within] for c, p in zip(taken, self.pieces[name], strict=True)]
        if len(parts) == 1:
            return parts[0]
        found = np.empty(self.intervals[name].shape, parts[0].dtype)
        for part, piece in zip(parts, self.pieces[name], strict=True):
            found[piece.place] = part
        return found

    def _slabs(self, arrays: Mapping[str, Any]) -> list[dict[str, Interval]]:
        """Slabs of one size: where they do not fill the block, the last two overlap."""
        dim = self.along
        if dim is None:
            return []
        whole = hull([b[dim] for b in self.blocks.values()])
        having = [n for n, i in self.intervals.items() if dim in i]
        bytes_each = max((arrays[n].nbytes // max(1, len(self.intervals[n][dim])) for n in having), default=0)
        halo = max((sum(self.halos[n][dim]) for n in having), default=0)
        count = -(-len(whole) // max(SLAB // max(1, bytes_each), 8 * halo, 1))
        size = -(-len(whole) // max(1, count))
        starts = [min(whole.start + k * size, whole.stop - size) for k in range(count)]
        return [{dim: Interval(start, start + size)} for start in starts]

    def _computed(
        self, arrays: Mapping[str, Any], intervals: Mapping[str, Dims], blocks: Mapping[str, Dims],
        others: Mapping[str, Any],
    ) -> dict[str, Any]:  # fmt: skip
        """The results on parts of their blocks."""
        fields = {n: field_type()(array, intervals[n]) for n, array in arrays.items()}
        known = [
            Coordinate(n, fields[p], fields[p].dims, units, even, around)
            for p, (n, units, even, around) in self.coordinates.items()
        ]
        own = {n: field for n, field in fields.items() if n not in self.coordinates}
        with knowing(known), halves((), self.staggered):
            made = self.operator.outputs({**others, **own})
        return {n: np.asarray(made[n].data)[index_in(block, made[n].dims)] for n, block in blocks.items()}


def index_in(part: Dims, have: Dims) -> tuple[slice, ...]:
    """The slices of a part in an array, whose axes are in the order of `have`."""
    return tuple(slice(part[d].start - i.start, part[d].stop - i.start) for d, i in have.items)
