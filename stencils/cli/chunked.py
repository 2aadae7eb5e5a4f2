"""Programs on stores that do not fit into memory: a block of a result at a time, with the part of the inputs it needs.

What a block needs follows from the program (`tensorir/passes/restrict.py`), so halos, regions and boundaries are the
program's own. Inputs are read where they are needed, results are written to their places in a Zarr store, and a file
beside it counts the blocks that are there, for `--resume`.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tensorir as ti
from lowering.pace import interrupts
from stencils.cli.files import MEANING, apart, together
from stencils.cli.options import pairs
from stencils.extras import needed
from tensorir.binding.arrays import kind_of, refuse
from tensorir.binding.coordinates import Labels
from tensorir.binding.labels import Place
from tensorir.errors import did_you_mean
from tensorir.ir import Fencil, Var
from tensorir.passes.restrict import restrict
from tensorir.text.printer import print_fencil
from tensorir.types import DTYPES, Dims, Interval, Scalar

__all__ = ["Chunked", "Halted", "sizes_of"]


class Halted(Exception):
    """A run over blocks that the user stopped."""

    def __init__(self, done: int, blocks: int, signal: int) -> None:
        super().__init__(f"stopped after {done:,} of {blocks:,} blocks")
        self.signal = signal


def sizes_of(given: Sequence[str], arrays: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, int]:
    """Points of a block by dim of the program: those of the stores, and what options such as `time=1000` say.

    Raises C15 for a dim that no input has, and C04 for what is no number of points.
    """
    found: dict[str, int] = {}
    labelled = [v for v in arrays.values() if kind_of(v) == "xarray"]
    for array in labelled:
        for dim, size in array.encoding.get("preferred_chunks", {}).items():
            found[names.get(dim, dim)] = max(size, found.get(names.get(dim, dim), 0))
    known = {str(d): names.get(str(d), str(d)) for v in labelled for d in v.dims}
    for dim, text in pairs([g for g in given if g != "auto"], "size", "time=1000", "--chunks").items():
        if dim not in known:
            raise refuse("C15", f"'--chunks {dim}={text}' names a dim that no input has.", did_you_mean(dim, known))
        if not text.isdecimal() or not int(text):
            raise refuse("C04", f"'--chunks {dim}={text}' gives no number of points.", f"write --chunks {dim}=1000.")
        found[known[dim]] = int(text)
    return found


@dataclass(frozen=True)
class Block:
    """A part of one result: the region that the program computes, and the points of dims that it does not know."""

    output: Var
    region: Dims
    further: Mapping[str, Interval]


@dataclass(frozen=True)
class Chunked:
    """A program, its inputs, and how its results are cut."""

    fencil: Fencil
    arrays: Mapping[str, Any]
    place: Place
    labels: Labels
    further: Mapping[str, int]
    """The dims that the program does not know, with their extents."""
    sizes: Mapping[str, int]
    explicit: frozenset[str]
    backend: str

    @staticmethod
    def of(
        fencil: Fencil, arrays: Mapping[str, Any], moved: Mapping[str, int], sizes: Mapping[str, int],
        explicit: frozenset[str], backend: str,
    ) -> Chunked:  # fmt: skip
        """Raises A35 where a block would need the whole of a dim that is cut."""
        known = {d for p in fencil.params for d in p.type.dims.names}
        labelled = {n: v for n, v in arrays.items() if kind_of(v) == "xarray"}
        further = {str(d): v.sizes[d] for v in labelled.values() for d in v.dims if str(d) not in known}
        stand_in = {
            n: _blank(v.isel(dict.fromkeys(set(further) & set(v.dims), 0), drop=True)) for n, v in labelled.items()
        }
        place = Place.of(fencil, stand_in, moved)
        found = Chunked(
            fencil, arrays, place, Labels.of(fencil, stand_in, place), further, sizes, explicit, backend
        )  # fmt: skip
        found._refuse_whole()
        return found

    def blocks(self) -> list[Block]:
        """All blocks of all results; those of one region follow each other, since they are one program."""
        further = [[(d, i) for i in _cut(Interval(0, n), self.sizes.get(d, n))] for d, n in self.further.items()]
        return [
            Block(p, Dims(region), dict(part))
            for p in self.fencil.results
            for region in itertools.product(*([(d, i) for i in self._cuts(d, i)] for d, i in p.type.dims.items))
            for part in itertools.product(*further)
        ]

    def _cuts(self, dim: str, interval: Interval) -> list[Interval]:
        return _cut(interval, self.sizes.get(dim, len(interval)))

    def _refuse_whole(self) -> None:
        have = {d for p in self.fencil.results for d in p.type.dims.names}
        for p in self.fencil.results:
            for dim, interval in p.type.dims.items:
                cuts = self._cuts(dim, interval)
                for part in (cuts[0], cuts[-1]) if len(cuts) > 1 else ():
                    smaller = restrict(self.fencil, {p.name: {dim: (part.start, part.stop)}})
                    for q in smaller.inputs:
                        if dim in q.type.dims and q.type.dims[dim] == self.fencil[q.name].type.dims[dim]:
                            raise self._whole(dim, len(cuts))
        for dim in self.explicit - have - set(self.further):
            extent = max(len(p.type.dims[dim]) for p in self.fencil.params if dim in p.type.dims)
            if self.sizes[dim] < extent:
                raise self._whole(dim, -(-extent // self.sizes[dim]))

    def _whole(self, dim: str, count: int) -> Exception:
        extent = max(len(p.type.dims[dim]) for p in self.fencil.params if dim in p.type.dims)
        told = f"'{self.fencil.name}' needs the whole of {dim} at once, and --chunks makes {count} blocks along it."
        return refuse("A35", told, f"make one of them: --chunks {dim}={extent}.")

    def computed(self) -> Callable[[Block], Any]:
        """What computes a block; the program of the last region is kept for the next one."""
        last: dict[tuple[Any, ...], tuple[Fencil, Any]] = {}

        def compute(block: Block) -> Any:
            key = (block.output.name, block.region.items)
            if key not in last:
                asked = {d: (i.start, i.stop) for d, i in block.region.items}
                smaller = restrict(self.fencil, {block.output.name: asked}) if asked else self.fencil
                last.clear()
                last[key] = smaller, ti.compile(smaller, backend=self.backend)
            smaller, run = last[key]
            parts = {p.name: self._part(p, block) for p in smaller.params if p.name in self.arrays}
            have = smaller[block.output.name].type.dims
            index = tuple(slice(i.start - have[d].start, i.stop - have[d].start) for d, i in block.region.items)
            shape = tuple(map(len, block.further.values()))
            element = block.output.type.element
            assert isinstance(element, Scalar)
            found = np.empty((*shape, *block.region.shape), DTYPES[element])
            for at in np.ndindex(shape):
                here = dict(zip(block.further, at, strict=True))
                given = {n: a[tuple(here[d] for d in dims)] for n, (dims, a) in parts.items()}
                found[at] = np.asarray(run(**given)[block.output.name])[index]
            return found

        return compute

    def _part(self, param: Var, block: Block) -> tuple[tuple[str, ...], Any]:
        """The dims of an input that the program does not know, and its part for a block, those dims first."""
        array = self.arrays[param.name]
        if kind_of(array) != "xarray":
            return (), array
        have = self.place.intervals[param.name]
        need = {d: slice(i.start - have[d].start, i.stop - have[d].start) for d, i in param.type.dims.items}
        own = tuple(d for d in block.further if d in array.dims)
        further = {d: slice(block.further[d].start, block.further[d].stop) for d in own}
        return own, array.isel({**need, **further}).transpose(*own, *param.type.dims.names).values

    def template(self, outside: Callable[[Any], Any], attrs: Mapping[str, Any]) -> Any:
        """The results without their numbers, with all else that a store has."""
        import dask.array
        import xarray as xr

        variables: dict[str, Any] = {}
        for p in self.fencil.results:
            if not isinstance(p.type.element, Scalar):
                raise refuse("C03", f"'{p.name}' is a tuple, which --chunks does not write.", "leave --chunks out.")
            dtype = DTYPES[p.type.element]
            whole = self.labels.attach(p, np.broadcast_to(np.zeros((), dtype), p.type.dims.shape))
            shape = (*self.further.values(), *whole.shape)
            dims = (*self.further, *whole.dims)
            chunks = tuple(min(self.sizes.get(d, n), n) for d, n in zip(dims, shape, strict=True))
            coords = {n: c.variable for n, c in whole.coords.items()}
            for v in self.arrays.values():
                if kind_of(v) == "xarray":
                    own = {n: c for n, c in v.coords.items() if n not in coords and set(c.dims) <= set(self.further)}
                    coords |= {n: c.variable.load() for n, c in own.items() if n not in whole.dims}
            data = dask.array.zeros(shape, dtype=dtype, chunks=chunks)
            variables[p.name] = outside(xr.DataArray(data, dims=dims, coords=coords, attrs=whole.attrs))

        dataset = xr.Dataset(apart(variables), attrs=dict(attrs))
        for variable in dataset.variables.values():
            variable.encoding = {k: e for k, e in variable.encoding.items() if k in MEANING}
        return dataset

    def write(self, out: Path, resume: Path | None, outside: Any, attrs: Mapping[str, Any], bar: Any) -> int:
        """All blocks, or those that are not there yet, into a store; how many there are."""
        needed("dask", "zarr", "stores in blocks")
        needed("zarr", "zarr", "stores of Zarr")
        import zarr

        blocks, compute, run = self.blocks(), self.computed(), self.identity()
        done = 0 if resume is None else _resumed(resume, run, out)
        mark = out.with_suffix(".resume.json") if resume is None else resume
        dataset = self.template(outside, attrs)
        marks = bar(len(blocks), "blocks")
        shown: Callable[[int], None] = marks.move if marks else lambda _: None

        def store(k: int, values: Any) -> int:
            zarr.open_array(out / blocks[k].output.name, mode="r+")[self._index(blocks[k])] = values
            _mark(mark, run, k + 1)
            return k + 1

        try:
            # one block is written while the next one is read and computed
            with interrupts() as interrupt, ThreadPoolExecutor(1) as writer:
                written: Future[int] | None = None
                for k, block in enumerate(blocks[done:], done):
                    values = compute(block)
                    if k == 0:  # what cannot be computed leaves nothing
                        dataset.to_zarr(out, mode="w", compute=False, zarr_format=2, consolidated=True)
                    if written:
                        shown(written.result())
                    written = writer.submit(store, k, values)
                    if interrupt.asked and k + 1 < len(blocks):
                        raise Halted(written.result(), len(blocks), interrupt.signal)
                if written:
                    shown(written.result())
        finally:
            if marks:
                marks.close()
        mark.unlink(missing_ok=True)
        return len(blocks)

    def _index(self, block: Block) -> tuple[slice, ...]:
        whole = block.output.type.dims
        own = (slice(i.start - whole[d].start, i.stop - whole[d].start) for d, i in block.region.items)
        return (*(slice(i.start, i.stop) for i in block.further.values()), *own)

    def identity(self) -> str:
        """What tells one run from another: the program, its numbers, the blocks, and what inputs say of themselves."""
        found = hashlib.sha256(f"{print_fencil(self.fencil)} {sorted(self.sizes.items())} {self.backend}".encode())
        for name, v in sorted(self.arrays.items()):
            found.update(f"{name}{v.shape}{v.dtype}".encode())
            if kind_of(v) == "xarray":
                found.update(f"{v.dims}{v.encoding.get('source')}{sorted(map(str, v.attrs.items()))}".encode())
            else:
                found.update(np.asarray(v).tobytes())
        return found.hexdigest()


def _blank(array: Any) -> Any:
    return array.copy(data=np.broadcast_to(np.zeros((), array.dtype), array.shape))


def _cut(interval: Interval, size: int) -> list[Interval]:
    return list(_pieces(interval, size)) or [interval]


def _pieces(interval: Interval, size: int) -> Iterator[Interval]:
    for start in range(interval.start, interval.stop, max(1, size)):
        yield Interval(start, min(start + size, interval.stop))


def _mark(path: Path, run: str, done: int) -> None:
    text = json.dumps({"run": run, "done": done})
    with together() as write:
        write(path, lambda to: Path(to).write_text(text, encoding="utf-8"))


def _resumed(path: Path, run: str, out: Path) -> int:
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
        done, theirs = int(held["done"]), held["run"]
    except (OSError, ValueError, KeyError, TypeError):
        raise refuse("F10", f"'{path}' holds no run that was stopped.", "leave --resume out.") from None
    if theirs != run:
        told = f"'{path}' was left by another run: of another program, other arrays, or other --chunks"
        raise refuse("F10", f"{told}.", "repeat the command that was stopped, or leave --resume out.")
    if not out.is_dir():
        raise refuse("F01", f"there is no store '{out}' to go on with.", "leave --resume out.")
    return done
