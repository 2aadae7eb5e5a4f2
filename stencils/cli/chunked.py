"""Programs on stores that do not fit into memory: a block of a result at a time, and how far a run is."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import tensorir as ti
from lowering.loops.run import interrupts
from stencils.cli.files import MEANING, apart, together
from stencils.cli.options import pairs
from stencils.cli.terminal import needed
from tensorir.binding.arrays import kind_of
from tensorir.binding.labels import Place
from tensorir.binding.results import Labels
from tensorir.integers.dims import Dims, Interval
from tensorir.ir.nodes import Call, Fencil
from tensorir.ir.rewrite import postorder, values
from tensorir.ir.types import DTYPES, Scalar
from tensorir.passes.blocks import BlockPrograms, parts_of, regions_of, slices
from tensorir.runtime.errors import NOWHERE, did_you_mean, refuse
from tensorir.runtime.memory import RecentCache
from tensorir.text.printer import print_fencil

# How far a run over blocks is: a file beside the store, for `--resume`, that knows which run it is of.
#
# A run is told by the version, the program at its sizes with its numbers and blocks, and for each input by what it
# says of itself and by the files that hold it: their names, sizes and times of change. Coordinates are told by their
# values.

MENDED = "mended"
"""The digest of an input that could not be read: any later state of its files is accepted."""


@dataclass(frozen=True, slots=True)
class Run:
    """The identity of a run over blocks: version, and digests of program and inputs."""

    version: str
    program: str
    inputs: Mapping[str, str]
    """The digest of each input by parameter."""

    @staticmethod
    def of(fencil: Fencil, arrays: Mapping[str, Any], sizes: Mapping[str, int], backend: str) -> Run:
        """The identity of a run of a program on arrays by parameter, in blocks of `sizes` by dim."""
        labelled = {n: v for n, v in arrays.items() if kind_of(v) == "xarray"}
        numbers = [f"{n}{np.asarray(v).tobytes()}" for n, v in sorted(arrays.items()) if n not in labelled]
        said = [f"{n}{v.dims}{v.shape}{v.dtype}" for n, v in sorted(labelled.items())]
        program = f"{print_fencil(fencil)} {sorted(sizes.items())} {backend} {numbers} {said}"
        inputs = {n: _digest(_identity(v)) for n, v in labelled.items()}
        return Run(ti.__version__, _digest([program.encode()]), inputs)

    def without(self, name: str) -> Run:
        """The same identity, which accepts any files of the input `name`, since one of them must be mended."""
        return replace(self, inputs={**self.inputs, name: MENDED})


def _digest(parts: Iterator[bytes] | list[bytes]) -> str:
    """The SHA-256 of some bytes, in hexadecimal."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def _identity(array: Any) -> Iterator[bytes]:
    """The bytes that identify a lazy input: attributes, coordinates, and name, size and time of its files."""
    yield str(sorted(map(str, array.attrs.items()))).encode()
    for name, coordinate in sorted(array.coords.items(), key=str):
        values = np.asarray(coordinate.values)
        yield f"{name}{coordinate.dims}{values.dtype}{sorted(map(str, coordinate.attrs.items()))}".encode()
        yield repr(values.tolist()).encode() if values.dtype.hasobject else values.tobytes()
    source = Path(array.encoding["source"])
    # of a store the chunks of the variable, and what says how they are read
    folder = source / str(array.name)
    files = sorted(p for p in folder.rglob("*") if p.is_file()) if source.is_dir() else [source]
    for file in files:
        held = file.stat()
        yield f"{file.relative_to(source)} {held.st_size} {held.st_mtime_ns}\n".encode()


def mark(path: Path, run: Run, done: int) -> None:
    """Write the run and the number of finished blocks to a file for --resume, replacing the old one."""
    text = json.dumps({**asdict(run), "done": done})
    with together() as write:
        write(path, lambda to: Path(to).write_text(text, encoding="utf-8"))


def resumed(path: Path, run: Run, out: Path) -> int:
    """The number of finished blocks in the file of --resume.

    Raises F10 for another run, F01 for a missing store `out`.
    """
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
        done, theirs = int(held["done"]), Run(held["version"], held["program"], dict(held["inputs"]))
    except (OSError, ValueError, KeyError, TypeError):
        raise refuse("F10", f"'{path}' holds no run that was stopped.", "leave --resume out.") from None
    if theirs.version != run.version:
        message = f"'{path}' was left by version {theirs.version}, and this is {run.version}"
        raise refuse("F10", f"{message}: their bits may differ.", "leave --resume out, and all blocks are computed.")
    if theirs.program != run.program or theirs.inputs.keys() != run.inputs.keys():
        message = f"'{path}' was left by another run: of another program, other arrays, or other --chunks"
        raise refuse("F10", f"{message}.", "repeat the command that was stopped, or leave --resume out.")
    for name, digest in run.inputs.items():
        if theirs.inputs[name] not in (digest, MENDED):
            of = "the first block is" if done == 1 else f"the first {done:,} blocks are"
            message = f"the input '{name}' has changed since '{path}' was left, and {of} of what it was"
            raise refuse("F10", f"{message}.", "leave --resume out, and all blocks are computed from what it is.")
    if not out.is_dir():
        raise refuse("F01", f"there is no store '{out}' to go on with.", "leave --resume out.")
    return done


# Programs on stores that do not fit into memory: a block of a result at a time, with the part of the inputs it needs.
#
# What a block needs follows from the program (`tensorir/passes/blocks.py`), so halos, regions and boundaries are
# the program's own. All results of a block are computed at once from what is read once, and written to their places
# in a Zarr store; a file beside it counts the blocks that are there, for `--resume` (`mark`).


class Halted(Exception):
    """A run over blocks that the user stopped."""

    def __init__(self, done: int, blocks: int, signal: int) -> None:
        super().__init__(f"stopped after {done:,} of {blocks:,} blocks")
        self.signal = signal


def sizes_of(options: Sequence[str], arrays: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, int]:
    """The points of a block by dim of the program: chunk lengths of the stores, and `options` such as "time=1000".

    `names` has program dims by file dims. Raises C15 for a dim that no input has, C04 for no number of points.
    """
    sizes: dict[str, int] = {}
    labelled = [v for v in arrays.values() if kind_of(v) == "xarray"]
    for array in labelled:
        for dim, size in array.encoding.get("preferred_chunks", {}).items():
            sizes[names.get(dim, dim)] = max(size, sizes.get(names.get(dim, dim), 0))
    known = {str(d): names.get(str(d), str(d)) for v in labelled for d in v.dims}
    for dim, text in pairs([o for o in options if o != "auto"], "size", "time=1000", "--chunks").items():
        if dim not in known:
            raise refuse("C15", f"'--chunks {dim}={text}' names a dim that no input has.", did_you_mean(dim, known))
        if not text.isdecimal() or not int(text):
            raise refuse("C04", f"'--chunks {dim}={text}' gives no number of points.", f"write --chunks {dim}=1000.")
        sizes[known[dim]] = int(text)
    return sizes


@dataclass(frozen=True)
class Block:
    """A block: the region of each result by name, and the interval of each dim that the program does not have."""

    regions: Mapping[str, Dims]
    further: Mapping[str, Interval]


@dataclass(frozen=True)
class Chunked:
    """A program, its inputs, and the sizes of the blocks of its results."""

    fencil: Fencil
    arrays: Mapping[str, Any]
    place: Place
    labels: Labels
    further: Mapping[str, int]
    """The extents of dims of the inputs that the program does not have."""
    sizes: Mapping[str, int]
    explicit: frozenset[str]
    backend: str

    @staticmethod
    def of(
        fencil: Fencil, arrays: Mapping[str, Any], moved: Mapping[str, int], sizes: Mapping[str, int],
        explicit: frozenset[str], backend: str,
    ) -> Chunked:  # fmt: skip
        """The run of a fencil on lazy arrays in blocks of `sizes` by dim; options named the dims `explicit`.

        Raises A35 where a block would need the whole of a dim that is cut, and C03 for results that are tuples.
        """
        known = {d for p in fencil.params for d in p.type.dims.names}
        labelled = {n: v for n, v in arrays.items() if kind_of(v) == "xarray"}
        further = {str(d): v.sizes[d] for v in labelled.values() for d in v.dims if str(d) not in known}
        stand_in = {
            n: _blank(v.isel(dict.fromkeys(set(further) & set(v.dims), 0), drop=True)) for n, v in labelled.items()
        }
        place = Place.of(fencil, stand_in, moved)
        sizes = {**_of_one_piece(further, labelled), **sizes}
        for p in fencil.results:
            if not isinstance(p.type.element, Scalar):
                raise refuse("C03", f"'{p.name}' is a tuple, which --chunks does not write.", "leave --chunks out.")
        labels = Labels.of(fencil, stand_in, place)
        chunked = Chunked(fencil, arrays, place, labels, further, sizes, explicit, backend)
        _ = chunked.programs  # before anything is written
        return chunked

    @property
    def ends(self) -> dict[str, range]:
        """The block ends along each dim of the program, as distances from the start of results, without the last."""
        longest: dict[str, int] = {}
        for p in self.fencil.params:
            for d, i in p.type.dims.items:
                longest[d] = max(len(i), longest.get(d, 0))
        return {
            d: range(max(1, self.sizes[d]), n, max(1, self.sizes[d])) for d, n in longest.items() if d in self.sizes
        }

    def blocks(self) -> list[Block]:
        """All blocks, ordered by region, so that blocks with one program follow each other."""
        further = [
            [(d, i) for i in parts_of(Interval(0, n), 0, range(self.sizes.get(d, n), n, self.sizes.get(d, n))).values()]
            for d, n in self.further.items()
        ]
        return [
            Block(regions, dict(part))
            for regions in regions_of(self.fencil.results, self.ends)
            for part in itertools.product(*further)
        ]

    @cached_property
    def programs(self) -> BlockPrograms:
        """The programs of blocks along the dims that are cut; raises A35 where a block would need the whole of one."""
        ends, results = self.ends, self.fencil.results
        programs = BlockPrograms.cut(self.fencil, frozenset(d for d, cuts in ends.items() if cuts))
        for p in results:
            dims = {*p.type.dims, *self.explicit} - self.further.keys()
            counts = {
                q.name: {d: len(ends.get(d, ())) + 1 for d in q.type.dims if d in dims} for q in self.fencil.inputs
            }
            if (taken := programs.whole(regions_of([p], ends), counts)) is not None:
                raise self._whole(taken[1], counts[taken[0]][taken[1]])
        return programs

    def _whole(self, dim: str, count: int) -> Exception:
        """A35 for a dim with `count` blocks that the program needs whole, at the builtin that folds or scans it."""
        extent = max(len(p.type.dims[dim]) for p in self.fencil.params if dim in p.type.dims)
        message = f"'{self.fencil.name}' needs the whole of {dim} at once, and --chunks makes {count} blocks along it."
        calls = (n for n in postorder(*values(self.fencil.closures)) if isinstance(n, Call))
        taking = next((n for n in calls if n.op in _TAKING and dim in n.static), None)
        notes = () if taking is None else (f"'{taking.op}' along {dim} takes all of its points.",)
        span = NOWHERE if taking is None else taking.span
        return refuse("A35", message, f"make one of them: --chunks {dim}={extent}.", at=span, notes=notes)

    def computed(self) -> Callable[[Block], dict[str, Any]]:
        """The function from a block to its results by name, dims that the program does not have first."""
        programs = self.programs
        compiled: RecentCache[Fencil, Any] = RecentCache("compiled programs of blocks", 128)

        def compute(block: Block) -> dict[str, Any]:
            """The results of a block: once for each point along the dims that the program does not have."""
            program = programs.at(block.regions)
            run = compiled.of(program.fencil, lambda: ti.compile(program.fencil, backend=self.backend))
            needed = {p.name: program.needed(p.name) for p in program.fencil.params}
            parts = {n: self._part(n, needed[n], block) for n in needed if n in self.arrays}
            positions = {n: np.arange(i.start, i.stop, dtype=np.int32) for n, d in programs.positions.items()
                         if n in needed for i in (needed[n][d],)}  # fmt: skip
            shape = tuple(map(len, block.further.values()))
            results: dict[str, Any] = {}
            for name, region in block.regions.items():
                element = self.fencil[name].type.element
                assert isinstance(element, Scalar)
                results[name] = np.empty((*shape, *region.shape), DTYPES[element])
            for at in np.ndindex(shape):
                here = dict(zip(block.further, at, strict=True))
                arrays = {n: a[tuple(here[d] for d in dims)] for n, (dims, a) in parts.items()}
                outputs = run(**arrays, **positions)
                for name, region in block.regions.items():
                    results[name][at] = np.asarray(outputs[name])[slices(region, needed[name])]
            return results

        return compute

    def _part(self, name: str, needed: Dims, block: Block) -> tuple[tuple[str, ...], Any]:
        """The dims of an input that the program does not have, and its array for a block with those dims first.

        `needed` are the program's dims. Raises `Unreadable` where the file cannot be read.
        """
        array = self.arrays[name]
        if kind_of(array) != "xarray":
            return (), array
        have = self.place.intervals[name]
        need = {d: slice(i.start - have[d].start, i.stop - have[d].start) for d, i in needed.items}
        first = tuple(d for d in block.further if d in array.dims)
        further = {d: slice(block.further[d].start, block.further[d].stop) for d in first}
        part = array.isel({**need, **further}).transpose(*first, *needed.names)
        try:
            return first, part.values
        except (OSError, RuntimeError, ValueError, KeyError) as problem:  # each library of codecs has its own
            raise Unreadable(name) from problem

    def template(self, outside: Callable[[Any], Any], attrs: Mapping[str, Any]) -> Any:
        """The Dataset of the store with lazy zeros for the results: coordinates, attributes, chunks and encodings.

        `outside` renames dims to those of the files, `attrs` are global attributes.
        """
        import dask.array
        import xarray as xr

        variables: dict[str, Any] = {}
        for p in self.fencil.results:
            assert isinstance(p.type.element, Scalar)
            dtype = DTYPES[p.type.element]
            whole = self.labels.attach(p, np.broadcast_to(np.zeros((), dtype), p.type.dims.shape))
            shape = (*self.further.values(), *whole.shape)
            dims = (*self.further, *whole.dims)
            chunks = tuple(min(self.sizes.get(d, n), n) for d, n in zip(dims, shape, strict=True))
            coords = {n: c.variable for n, c in whole.coords.items()}
            for v in self.arrays.values():
                if kind_of(v) == "xarray":
                    added = {n: c for n, c in v.coords.items() if n not in coords and set(c.dims) <= set(self.further)}
                    coords |= {n: c.variable.load() for n, c in added.items() if n not in whole.dims}
            data = dask.array.zeros(shape, dtype=dtype, chunks=chunks)
            variables[p.name] = outside(xr.DataArray(data, dims=dims, coords=coords, attrs=whole.attrs))

        dataset = xr.Dataset(apart(variables), attrs=dict(attrs))
        for variable in dataset.variables.values():
            variable.encoding = {k: e for k, e in variable.encoding.items() if k in MEANING}
        return dataset

    def write(self, out: Path, resume: Path | None, outside: Any, attrs: Mapping[str, Any], bar: Any) -> int:
        """Compute all blocks, or those after --resume, and write them to the store `out`; the number of blocks.

        Raises F02 for a block that cannot be read and F04 for one that cannot be written; what is done stays.
        """
        needed("dask", "zarr", "stores in blocks")
        needed("zarr", "zarr", "stores of Zarr")
        import zarr

        from lowering.loops.snapshots import store

        blocks, compute = self.blocks(), self.computed()
        run = Run.of(self.fencil, self.arrays, self.sizes, self.backend)
        done = 0 if resume is None else resumed(resume, run, out)
        place = out.with_suffix(".resume.json") if resume is None else resume
        dataset = self.template(outside, attrs)
        marks = bar(len(blocks), "blocks")
        shown: Callable[[int], None] = marks.move if marks else lambda _: None

        def stored(k: int, results: Mapping[str, Any]) -> int:
            """Write the results of block k (the first makes the store), mark it as done, and give the number of blocks
            done; raises F04 where it cannot be written.
            """
            try:
                with store(out) as target:
                    if k == 0:  # what cannot be computed leaves nothing
                        dataset.to_zarr(target, mode="w", compute=False, zarr_format=2, consolidated=True)
                    for name, array in results.items():
                        zarr.open_array(target, path=name, mode="r+")[self._index(name, blocks[k])] = array
            except OSError as problem:
                raise _failed("F04", k, blocks, f"written to '{out}'", problem, "make room", place) from None
            mark(place, run, k + 1)
            return k + 1

        try:
            # one block is written while the next one is read and computed
            with interrupts() as interrupt, ThreadPoolExecutor(1) as writer:
                written: Future[int] | None = None
                for k, block in enumerate(blocks[done:], done):
                    try:
                        results = compute(block)
                    except Unreadable as problem:
                        if written:
                            shown(written.result())
                        if k:
                            mark(place, run.without(problem.name), k)
                        source = self.arrays[problem.name].encoding["source"]
                        what, hint = f"read from '{problem.name}' of '{source}'", f"mend '{source}' there alone"
                        raise _failed("F02", k, blocks, what, problem.__cause__, hint, place) from None
                    if written:
                        shown(written.result())
                    written = writer.submit(stored, k, results)
                    if interrupt.asked and k + 1 < len(blocks):
                        raise Halted(written.result(), len(blocks), interrupt.signal)
                if written:
                    shown(written.result())
        finally:
            if marks:
                marks.close()
        place.unlink(missing_ok=True)
        return len(blocks)

    def _index(self, name: str, block: Block) -> tuple[slice, ...]:
        index = slices(block.regions[name], self.fencil[name].type.dims)
        return (*(slice(i.start, i.stop) for i in block.further.values()), *index)


class Unreadable(Exception):
    """A part of an input that cannot be read; the cause says why."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def _failed(
    code: str, k: int, blocks: Sequence[Block], what: str, problem: BaseException | None, hint: str, place: Path
) -> Exception:
    """The diagnostic that block `k` cannot be `what` (read or written), with the cause and the way to resume."""
    why = getattr(problem, "strerror", None) or (str(problem).splitlines() or [type(problem).__name__])[0]
    region = next(iter(blocks[k].regions.values()))
    where = ", ".join(f"{d} {i.start}:{i.stop}" for d, i in (*blocks[k].further.items(), *region.items))
    message = f"block {k + 1:,} of {len(blocks):,} ({where}) cannot be {what}: {why}"
    if not k:
        return refuse(code, f"{message}.", f"{hint}, and repeat the command.")
    kept = "the block before it is" if k == 1 else f"the {k:,} blocks before it are"
    return refuse(code, f"{message}; {kept} kept.", f"{hint}, and add --resume {place} to the same command.")


WHOLE = 1 << 27
"""The bytes of a block of an input without chunks."""
_TAKING = ("reduce", "scan", "argreduce", "sort", "top_k", "contract")
"""The builtins that need all points of a dim, and have its name among their static operands."""


def _of_one_piece(further: Mapping[str, int], arrays: Mapping[str, Any]) -> dict[str, int]:
    """The block length {dim: points} along the first of the dims `further` of large inputs without chunks.

    Large are those above `WHOLE` bytes; it is empty if there are none.
    """
    having = [v for v in arrays.values() if v.nbytes > WHOLE and not v.encoding.get("preferred_chunks")]
    dim = next((d for d in further if any(d in v.dims for v in having)), None)
    if dim is None:
        return {}
    each = max(v.nbytes // v.sizes[dim] for v in having if dim in v.dims)
    return {dim: max(1, WHOLE // each)}


def lacking(arrays: Mapping[str, Any]) -> Iterator[str]:
    """A sentence for each input whose store lacks chunks, which Zarr reads as the fill value."""
    for name, array in arrays.items():
        if kind_of(array) != "xarray" or not Path(array.encoding["source"]).is_dir():
            continue
        import zarr

        held = zarr.open_array(array.encoding["source"], path=str(array.name), mode="r")
        missing = held.nchunks - held.nchunks_initialized
        if missing:
            lacks = f"lacks {missing:,} {'chunk' if missing == 1 else 'chunks'} of {held.nchunks:,}"
            yield f"'{name}' {lacks} in '{array.encoding['source']}': read as {held.fill_value}."


def _blank(array: Any) -> Any:
    return array.copy(data=np.broadcast_to(np.zeros((), array.dtype), array.shape))
