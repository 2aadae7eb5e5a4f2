"""Operators on DataArrays of dask, block by block: what each block needs of its neighbours follows from the program.

The blocks of the result are as long as those of the arguments, and count from where the result begins. A block is
computed from its own part of the arguments and a halo, by the program restricted to it (`tensorir/passes/blocks.py`):
boundary conditions are those of the program. Where a block would need all of a dim (folds, scans, tables), there must
be one block along it. All results on the same dims are computed at once, so what they share is read once.

>>> import numpy as np
>>> import tensorir as ti
>>> import xarray as xr
>>> (I,) = ti.dims("I")
>>> @ti.field_operator
... def rise(h):
...     return h(I + 1) - h
>>> h = xr.DataArray(np.arange(6.0) ** 2, dims="I", coords={"I": np.arange(6)}).chunk(I=2)
>>> rises = map_blocks(rise, h)
>>> rises.chunks, rises.compute().values
(((2, 2, 1),), array([1., 3., 5., 7., 9.]))
"""

from __future__ import annotations

import functools
import importlib
import operator as operators
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, product
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from tensorir.backends import compile, field_type
from tensorir.binding.arrays import kind_of, refuse_packed
from tensorir.binding.calls import nested
from tensorir.binding.labels import Place
from tensorir.binding.results import Labels, stated
from tensorir.fieldview.array_types import Plain
from tensorir.fieldview.datasets import is_whole
from tensorir.fieldview.operator import FieldOperator
from tensorir.fieldview.plans import parameter_name
from tensorir.fieldview.results import gathered
from tensorir.fieldview.signature import restored
from tensorir.integers.dims import Dims, Interval, hull
from tensorir.ir.nodes import Fencil, Var
from tensorir.ir.types import DTYPES, Scalar, scalar_of
from tensorir.passes.blocks import BlockPrograms, regions_of, slices
from tensorir.runtime.errors import refuse
from tensorir.runtime.memory import RecentCache
from tensorir.text.printer import print_fencil

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
    called: Any = operator
    if not isinstance(called, FieldOperator):
        hint = "define one: @ti.field_operator def f(h): return program(h=h)['out']."
        raise refuse("A36", "ti.map_blocks takes a field operator and arrays with names of dims.", hint)
    bound = operator.bound(arguments, more)
    if any(map(is_whole, bound.values())):
        return operator.over_variables(bound, functools.partial(map_blocks, operator))
    arrays = {n: v for n, v in bound.items() if kind_of(v) == "xarray"}
    for name, array in arrays.items():
        refuse_packed(array, name)
    if not arrays:
        raise refuse("A36", f"'{operator.name}' gets no DataArray that could be in blocks.", "call it as it is.")
    for name, array in arrays.items():
        unknown = [str(d) for d, n in zip(array.dims, array.shape, strict=True) if n != n]
        if unknown:
            message = f"how long the blocks of '{name}' along {unknown[0]} are is not known before they are computed"
            raise refuse("A36", f"{message}.", f"compute these: {name}.copy(data={name}.data.compute_chunk_sizes()).")
    if not any(getattr(v, "chunks", None) for v in arrays.values()):
        return operator(**bound)
    stand_in = {**bound, **{n: v.copy(data=_blank(v, n)) for n, v in arrays.items()}}
    plan = operator.plan(stand_in)
    values = operator.values(plan, stand_in)
    place = Place.of(plan.fencil, values, {})
    with stated(plan.periods, plan.turns):
        labels = Labels.of(plan.fencil, values, place)
    values |= {n: nested(plan.fencil[n].type.element, arrays) for n, arrays in plan.constants.items()}
    outputs = plan.fencil.outputs
    for p in (*outputs, *(plan.fencil[n] for n in values)):
        if not isinstance(p.type.element, Scalar) and (p in outputs or p.type.dims):
            hint = "give the members parameters of their own, or return a tuple of fields."
            raise refuse("A36", f"'{p.name}' of '{operator.name}' has tuples as elements, which blocks have not.", hint)
    values |= {name: v for n, v in arrays.items() if (name := parameter_name(n)) in values}
    operands = {n: _Operand.of(v, place.intervals.get(n), plan.fencil[n]) for n, v in values.items()}
    ends = _ends(operands.values())
    programs = BlockPrograms.cut(plan.fencil, frozenset(d for p in outputs for d in p.type.dims))
    for param, dim in programs.positions.items():
        whole = programs.fencil[param].type.dims
        operands[param] = _Operand(np.arange(whole[dim].start, whole[dim].stop, dtype=np.int32), whole)
    counts = {n: {d: len(k) for d, k in zip(v.dims.names, v.chunks, strict=True)} for n, v in operands.items()}
    taken = programs.whole(regions_of(outputs, ends), counts)
    if taken is not None:
        name, dim = taken
        message = (
            f"'{operator.name}' needs the whole of {dim} at once, and '{name}' has {counts[name][dim]} blocks along it"
        )
        raise refuse("A35", f"{message}.", f"make one of them: {name}.chunk({dim}=-1).")
    results = _results(operator.name, programs, operands, outputs, ends)
    labelled = {p.name: _alike(labels.attach(p, results[p.name])) for p in outputs}
    return restored(plan.shape, gathered(plan.results, labelled))


def _alike(array: Any) -> Any:
    """A DataArray whose lazy coordinates are rechunked to its own blocks."""
    sizes = array.variable.chunksizes
    lazy = {n: v for n, v in array.coords.variables.items() if v.chunks}
    cut = {n: v.chunk({d: k for d, k in sizes.items() if d in v.dims}) for n, v in lazy.items()}
    return array.assign_coords(cut) if cut else array


def _blank(array: Any, name: str) -> Any:
    """Broadcast zeros (no memory) of the shape and dtype of an array.

    Raises A02 for a dtype that is no element type.
    """
    element = scalar_of(array.dtype)
    if element is None:
        raise refuse("A02", f"'{name}' is {array.dtype}, which is no element type.", "convert it, to float64 say.")
    return np.broadcast_to(np.zeros((), DTYPES[element]), array.shape)


@dataclass(frozen=True, slots=True)
class _Operand:
    """The argument of a parameter, with its dims in the coordinates of the program."""

    value: Any
    """A dask array, a NumPy array, a lazy DataArray, or a number."""
    dims: Dims

    @staticmethod
    def of(value: Any, dims: Dims | None, param: Var) -> _Operand:
        """The operand for an argument on `dims`: chunked data as the dask array itself, a number with the dims of its
        parameter.
        """
        match kind_of(value):
            case "xarray":
                assert dims is not None
                return _Operand(value if getattr(value, "chunks", None) is None else value.data, dims)
            case "field":
                return _Operand(value.data, value.dims)
            case _:
                return _Operand(value, param.type.dims)

    @property
    def itemsize(self) -> int:
        return self.value.dtype.itemsize

    @property
    def chunks(self) -> Sequence[Sequence[int]]:
        """The lengths of the blocks along each axis, as dask has them; one block along each axis of other arrays."""
        return getattr(self.value, "chunks", None) or [(len(i),) for _, i in self.dims.items]


def _ends(operands: Iterable[_Operand]) -> dict[str, list[int]]:
    """The block ends of results along each dim, as distances from their start, from the ends in the arguments.

    The end of the last block is left out, and so are dims with one block.
    """
    starts: dict[str, int] = {}
    ends: dict[str, set[int]] = {}
    for o in operands:
        for (dim, interval), sizes in zip(o.dims.items, o.chunks, strict=True):
            starts[dim] = min(interval.start, starts.get(dim, interval.start))
            ends.setdefault(dim, set()).update([interval.start + e for e in accumulate(sizes)][:-1])
    return {d: sorted(e - starts[d] for e in ends[d]) for d in ends if ends[d]}


def _results(
    name: str, programs: BlockPrograms, operands: Mapping[str, _Operand], outputs: Sequence[Var],
    ends: Mapping[str, Sequence[int]],
) -> dict[str, Any]:  # fmt: skip
    """The results as dask arrays by name; one task computes a block of all results on the same dims.

    `name` is that of the operator, `ends` are the block ends by dim (`_ends`).
    """
    dask, graphs = importlib.import_module("dask.array"), importlib.import_module("dask.highlevelgraph")
    values = [(n, o.value) for n, o in operands.items()]
    token = f"{name}-{importlib.import_module('dask.base').tokenize(print_fencil(programs.fencil), values, ends)}"
    blocks = list(regions_of(outputs, ends))
    tasks: dict[tuple[Any, ...], Any] = {}
    for k, regions in enumerate(blocks):
        tasks[token, k] = _task(programs, regions, operands)
    chunked = [o.value for o in operands.values() if hasattr(o.value, "dask")]
    graph = graphs.HighLevelGraph.from_collections(token, tasks, chunked)
    results: dict[str, Any] = {}
    for p in outputs:
        having = [(k, list(r).index(p.name), r[p.name]) for k, r in enumerate(blocks) if p.name in r]
        parts = {d: sorted({(r[d].start, len(r[d])) for _, _, r in having}) for d in p.type.dims.names}
        numbers = {d: {start: n for n, (start, _) in enumerate(part)} for d, part in parts.items()}
        layer = f"{token}-{p.name}"
        members = {
            (layer, *(numbers[d][i.start] for d, i in region.items)): (operators.getitem, (token, k), member)
            for k, member, region in having
        }
        whole = graphs.HighLevelGraph({**graph.layers, layer: members}, {**graph.dependencies, layer: {token}})
        assert isinstance(p.type.element, Scalar)
        chunks = tuple(tuple(n for _, n in part) for part in parts.values())
        results[p.name] = dask.Array(whole, layer, chunks, dtype=DTYPES[p.type.element])
    return results


SLAB = 1 << 22
"""The bytes of the largest argument of a slab: XLA holds a few of these beside the arrays of dask, and with all its
temporaries a slab stays below the blocks that `ti.config.kept_memory` keeps."""


def _task(programs: BlockPrograms, regions: Mapping[str, Dims], operands: Mapping[str, _Operand]) -> tuple[Any, ...]:
    """The dask task (function, chunk keys by array) that computes a block: the region of each result by name."""
    block = programs.at(regions)
    needed = {n: block.needed(n) for n in operands if n in block.taken}
    in_memory: dict[str, Any] = {}
    pieces: dict[str, list[_Piece]] = {}
    for n, need in needed.items():
        value, have = operands[n].value, operands[n].dims
        needed[n] = need = Dims(tuple([(d, need[d]) for d in have.names]))
        index = slices(need, have)
        if hasattr(value, "dask"):
            pieces[n] = list(_pieces(operands[n].chunks, index))
        else:
            # of what lies in a file a part is read
            in_memory[n] = value[index].data if kind_of(value) == "xarray" else value[index] if index else value
    slabs = [
        _slab(programs, slab_regions, regions, needed) for slab_regions in _slabs(programs, regions, needed, operands)
    ]
    chunks = [[(operands[n].value.name, *p.chunk) for p in array_pieces] for n, array_pieces in pieces.items()]
    return _Task(
        pieces, in_memory, {n: i.shape for n, i in needed.items()}, slabs, [r.shape for r in regions.values()]
    ), chunks


def _slabs(
    programs: BlockPrograms, regions: Mapping[str, Dims], needed: Mapping[str, Dims], operands: Mapping[str, _Operand]
) -> Sequence[Mapping[str, Dims]]:
    """The regions of a block cut into slabs of one size along the dim with the narrowest halo.

    The last two may overlap. `needed` has the dims of each argument that the block reads. One slab where `SLAB` bytes
    hold all.
    """
    first = next(iter(regions.values()))
    widths = {d: halo[1] - halo[0] for d in first.names if (halo := programs.halos.get(d)) is not None}
    if not widths:
        return [regions]
    dim = min(widths, key=widths.__getitem__)
    interval = hull([r[dim] for r in regions.values()])
    row_bytes = [i.size // max(1, len(i[dim])) * operands[n].itemsize for n, i in needed.items() if dim in i]
    count = -(-len(interval) // max(SLAB // max(1, *row_bytes, 1), 8 * widths[dim], 1))
    size = -(-len(interval) // max(1, count))
    starts = [min(interval.start + k * size, interval.stop - size) for k in range(count)]
    parts = [
        {n: r.replaced(Dims(((dim, r[dim] & Interval(s, s + size)),))) for n, r in regions.items()} for s in starts
    ]
    return parts if count > 1 else [regions]


def _slab(
    programs: BlockPrograms, part: Mapping[str, Dims], regions: Mapping[str, Dims], needed: Mapping[str, Dims]
) -> _Slab:
    """The slab that computes the regions `part` of a block with `regions`, whose arguments are on `needed`."""
    slab = programs.at(part)
    names = [n for n in needed if n in slab.taken]
    cut = {n: Dims(tuple([(d, slab.needed(n)[d]) for d in needed[n].names])) for n in names}
    taken = {n: (slices(i, needed[n]), slab.local(i)) for n, i in cut.items()}
    results = {n: (slices(i, slab.needed(n)), slices(i, regions[n])) for n, i in part.items()}
    return _Slab(slab.fencil, taken, results)


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of one chunk of an array: the index of the chunk, the slices in it, and the slices in the result."""

    chunk: tuple[int, ...]
    within: tuple[slice, ...]
    place: tuple[slice, ...]


def _pieces(chunks: Sequence[Sequence[int]], index: Sequence[slice]) -> Iterator[_Piece]:
    """The pieces of chunks that make up `array[index]`; `chunks` are the chunk lengths along each axis.

    >>> [(p.chunk, p.within, p.place) for p in _pieces([(4, 4)], [slice(3, 5)])]
    [((0,), (slice(3, 4, None),), (slice(0, 1, None),)), ((1,), (slice(0, 1, None),), (slice(1, 2, None),))]
    """
    axes: list[list[tuple[int, slice, slice]]] = []
    for sizes, part in zip(chunks, index, strict=True):
        ends = list(accumulate(sizes))
        axes.append([
            (k, slice(a - stop + size, b - stop + size), slice(a - part.start, b - part.start))
            for k, (size, stop) in enumerate(zip(sizes, ends, strict=True))
            if (a := max(part.start, stop - size)) < (b := min(part.stop, stop))
        ])  # fmt: skip
    for along in product(*axes):
        chunk, within, place = zip(*along, strict=True) if along else ((), (), ())
        yield _Piece(chunk, within, place)


COMPILED: RecentCache[Fencil, Any] = RecentCache("compiled programs of blocks", 256)


@dataclass(frozen=True, slots=True)
class _Slab:
    """A part of a block, computed by one restricted program."""

    program: Fencil
    operands: Mapping[str, tuple[tuple[slice, ...], Dims]]
    """By parameter the slices in the array of the block, and its dims in the program."""
    results: Mapping[str, tuple[tuple[slice, ...], tuple[slice, ...]]]
    """By result the slices in the program's output, and those in the block."""

    def compute(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """The slab of each result, from the arrays of the block by parameter."""
        run = COMPILED.of(self.program, lambda: compile(self.program))
        field = field_type()
        outputs = run(**{n: field(arrays[n][index], dims) if index else arrays[n]
                         for n, (index, dims) in self.operands.items()})  # fmt: skip
        return {n: np.asarray(outputs[n].data)[part] for n, (part, _) in self.results.items()}


@dataclass(frozen=True, slots=True)
class _Task:
    """The function of a dask task: it computes a block of results on the same dims, slab by slab."""

    pieces: Mapping[str, Sequence[_Piece]]
    """By parameter with a dask array: the pieces of its chunks."""
    held: Mapping[str, Any]
    """By other parameter: its array or number, already cut."""
    shapes: Mapping[str, tuple[int, ...]]
    slabs: Sequence[_Slab]
    results: Sequence[tuple[int, ...]]

    def __call__(self, chunks: Sequence[Sequence[Any]]) -> tuple[Any, ...]:
        """The block of each result, from the chunks of each dask array in the order of `pieces`."""
        arrays = {n: np.asarray(v) if self.shapes[n] else v for n, v in self.held.items()}
        for (name, pieces), parts in zip(self.pieces.items(), chunks, strict=True):
            arrays[name] = _joined(self.shapes[name], pieces, parts)
        if len(self.slabs) < 2:
            return tuple(self.slabs[0].compute(arrays).values())
        results: list[Any] = []
        for slab in self.slabs:
            for k, (name, part) in enumerate(slab.compute(arrays).items()):
                if k == len(results):
                    results.append(np.empty(self.results[k], part.dtype))
                results[k][slab.results[name][1]] = part
        return tuple(results)


def _joined(shape: tuple[int, ...], pieces: Sequence[_Piece], chunks: Sequence[Any]) -> Any:
    """An array of a shape, joined from pieces of chunks (a single piece is no copy)."""
    parts = [np.asarray(c)[p.within] for c, p in zip(chunks, pieces, strict=True)]
    if len(parts) == 1:
        return parts[0]
    whole = np.empty(shape, parts[0].dtype if parts else np.float64)
    for part, piece in zip(parts, pieces, strict=True):
        whole[piece.place] = part
    return whole
