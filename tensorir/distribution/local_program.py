"""The program that every device runs on its block: the whole one, in coordinates that count from the block's start.

Where the whole program depends on where a point is (a boundary, a part that is written, a coordinate), the local one
asks the coordinate, `I_at`; what lies outside of the whole interval is computed too, and nobody reads it. A shift
across more than half of the interval, as of periodic boundaries, is no halo: the operand is evaluated in another
*frame*, in which point p is the whole's p + offset, and what it reads comes from the device that has it. A fold along a
distributed dim ends a stage: each device folds its block, the devices' results are combined, and the next stage has
what came of it as a parameter.

>>> import tensorir as ti
>>> from tensorir.distribution.partition import Decomposition
>>> f = ti.parse("f(y: tensor<float, I[1:7]>, x: tensor<float, I[0:8]>) { y ← ⟪I, 1⟫(x) - ⟪I, -1⟫(x); }")
>>> print(localised(f, {"I": Decomposition("I", "px", Interval(0, 8), 2)}).stages[0])
f(y: tensor<float, I[0:4]>, x: tensor<float, I[-1:5]>) {
  y ← ⟪I, 1⟫(x) - ⟪I, -1⟫(x);
}
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

from numpy.typing import NDArray

from tensorir.analysis.domains import domains
from tensorir.distribution.localising import Frame, Localiser, far, offsets, written_out
from tensorir.distribution.mesh_exchange import LocalMesh, LocalTable, local_mesh
from tensorir.distribution.partition import Decomposition, Part, blocks_of
from tensorir.distribution.refusals import refuse_undistributable
from tensorir.distribution.whole_program import whole_results
from tensorir.integers.dims import Dims, Interval
from tensorir.ir.build import closure, fencil, free_name, var
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Call, Expr, Fencil, Var
from tensorir.ir.rewrite import postorder, rewrite_all


@dataclass(frozen=True, slots=True)
class View:
    """A parameter of the local program: a field of the whole one, on a block and around it."""

    param: Var
    """On intervals that count from the block's start."""
    field: Var
    offsets: Mapping[str, tuple[int, ...]]
    """By distributed dim, the offsets of the frames in which it is read."""


@dataclass(frozen=True, slots=True)
class Combined:
    """A fold in parts: the result of each device's block, and the combination of all devices' results."""

    param: Var
    """In the stages after it."""
    op: str
    dim: str
    level: int
    """The stage that gives it."""


WHOLE = Dims()
"""The whole block: no dim is cut."""


@dataclass(frozen=True, slots=True)
class Subblock:
    """A part of every block, and the program of its results, which reads parts of the views."""

    dims: Dims
    """Along the dims that are cut."""
    program: Fencil
    positions: Mapping[str, Var]
    """As those of the block have them, on the points that are read here."""
    results: Mapping[str, str] = dataclasses.field(default_factory=dict[str, str])
    """By parameter, the result of an earlier part that it is; that one is on the whole block by then."""


@dataclass(frozen=True, slots=True)
class Localised:
    """The programs of a device, one after the other, each with the folds of those before it."""

    program: Fencil
    parts: Mapping[str, Part]
    stages: tuple[Fencil, ...]
    views: tuple[View, ...]
    positions: Mapping[str, Var]
    """By distributed dim, the parameter that has the coordinates in the whole."""
    combined: tuple[Combined, ...]
    whole: Mapping[str, Expr]
    """The results of the whole program."""
    mesh: LocalMesh | None = None
    """The points of an unstructured mesh, where dims of one are distributed."""
    tables: tuple[LocalTable, ...] = ()
    """The tables that lead from a distributed dim of the mesh to another."""
    subblocks: tuple[Subblock, ...] = ()
    """The last stage in parts that cover the block: an interior, which reads own points alone, and strips around it."""

    @property
    def on_every_device(self) -> dict[str, Dims]:
        """By result, the local points that are points of the whole on each device, and not padding on some."""
        return {
            p.name: Dims(tuple((d, self.parts[d].common(i) if d in self.parts else i) for d, i in p.type.dims.items))
            for p in self.program.results
        }


def localised(
    program: Fencil, parts: Mapping[str, Part], tables: Mapping[str, NDArray[Any]] | None = None
) -> Localised:
    """The program of one block (or, with the `tables` of an unstructured mesh, of one subdomain), the same on all
    devices.

    It is built twice: on intervals wide enough for anything, to measure the box of each field that is read, and then on
    these boxes. `parts` says by dim how its points are distributed. Raises D04 for expressions that cannot be
    distributed.
    """
    whole = whole_results(written_out(program, list(parts)))
    refuse_undistributable(whole.values(), parts)
    mesh = local_mesh(list(whole.values()), parts, tables or {})
    mesh_places = {} if mesh is None else {d: mesh.whole(d) for d in mesh.numbers}
    # first on intervals that are wide enough for anything, to see what is read, and then on that
    shifts = [(d, k) for n in postorder(*whole.values()) if isinstance(n, Call) for d, k in offsets(n) if d in parts]
    reach = 1 + sum(abs(k) for d, k in shifts if not far(d, k, parts))
    wide = {**{d: Interval(-reach, p.size + reach) for d, p in blocks_of(parts).items()}, **mesh_places}
    results = {p.name for p in program.results}
    measuring = Localiser(parts, lambda _, dim: wide[dim], {}, set(results), mesh)
    read_points = _read(_stages(program, whole, measuring))
    merged = _merged(measuring)
    boxes = _united(read_points, merged)

    def box(name: str, dim: str) -> Interval:
        """The local interval of a parameter: of the mesh, or the block extended by the points that are read."""
        if dim in mesh_places:
            return mesh_places[dim]
        block = Interval(0, parts[dim].size)
        return boxes[name][dim] | block if name in boxes else block

    names = {(v.name, frame): merged.get(param.name, param.name) for (v, frame), param in measuring.views.items()}
    final = Localiser(parts, box, names, {*results, *names.values()}, mesh, measuring.tables)
    stages = _stages(program, whole, final)
    inputs = {p.name for stage in stages for p in stage.inputs}
    subblocks: tuple[Subblock, ...] = ()
    if len(stages) == 1 and mesh is None and not any(_has_effects(n) for n in postorder(*whole.values())):
        subblocks = _subblocks(program, whole, final, names, wide, boxes)
    return Localised(
        program, parts, stages, tuple(v for v in _views(final) if v.param.name in inputs),
        {d: v for d, v in final.positions.items() if v.name in inputs},
        tuple(Combined(f.param, f.op, f.dim, f.level) for f in final.folds), whole,
        mesh, tuple(t for t in final.tables.values() if t.param.name in inputs), subblocks,
    )  # fmt: skip


# The block in parts: an interior that reads own points alone, and strips around it.
#
# The interior waits for no message, and no block is copied to stand beside its halo. Strips are as wide as halos, and
# as boundaries of the whole that lie near: conditions on positions are decided in the interior, on all devices alike.


def _is_far(node: Expr, parts: Mapping[str, Part]) -> bool:
    """True for what is read across a periodic boundary."""
    return isinstance(node, Call) and any(d in parts and far(d, k, parts) for d, k in offsets(node))


def _has_effects(node: Expr) -> bool:
    """True for what would be said more than once, or checked on other points."""
    return isinstance(node, Call) and (TABLE[node.op].effect or TABLE[node.op].checks)


def _subblocks(
    program: Fencil, whole: Mapping[str, Expr], localiser: Localiser, names: Mapping[tuple[str, Frame], str],
    wide: Mapping[str, Interval], boxes: Mapping[str, Dims],
) -> tuple[Subblock, ...]:  # fmt: skip
    """Programs of the interior and the strips of a block; none if the block is not divided.

    `boxes` are the local intervals that the whole block reads, by parameter; `wide` those of the measuring pass;
    `names` the parameter for each pair of a field and a frame. Results of the interior get a program each where one
    reads another at its own points alone.
    """
    blocks = blocks_of(localiser.parts)
    at = {d: boxes[v.name][d] for d, v in localiser.positions.items() if v.name in boxes}
    position_names = {v.name for v in localiser.positions.values()}
    field_boxes = [dims for name, dims in boxes.items() if name not in position_names]
    interiors = {
        d: _interior(part, [dims[d] for dims in field_boxes if d in dims], at.get(d), localiser.bounds.get(d, ()))
        for d, part in blocks.items()
    }
    divided: list[Subblock] = []
    nodes = list(postorder(*whole.values()))
    for dims in _divided(interiors, {d: part.size for d, part in blocks.items()}):
        results = {
            p.name: whole[p.name]
            for p in program.results
            if all(d in p.type.dims or i == interiors[d] for d, i in dims.items)
        }
        if not results:
            continue
        condition_points: dict[str, list[Interval]] = {}
        for d, i in at.items():
            local_points = dims.get(d) or Interval(0, blocks[d].size)
            reach = Interval(local_points.start + i.start, local_points.stop + i.stop - blocks[d].size)
            condition_points[d] = [reach.shifted(-blocks[d].start(k)) for k in range(blocks[d].parts)]
        subblock = partial(_subblock, program, localiser.parts, names, wide, dims, condition_points)
        inner = all(i == interiors[d] for d, i in dims.items)
        several = _one_by_one(results, names) if inner and not any(_is_far(n, localiser.parts) for n in nodes) else []
        some_results = [subblock(value, read) for value, read in several]
        divided += (
            some_results
            if some_results and all(_reads_blocks(s, localiser.parts) for s in some_results)
            else [subblock(results, {})]
        )
    return tuple(divided)


def _one_by_one(
    whole: Mapping[str, Expr], names: Mapping[tuple[str, Frame], str]
) -> list[tuple[dict[str, Expr], dict[Var, str]]]:
    """Each result by itself, reading earlier results as stored arrays instead of computing them again; empty if none
    reads one.

    An item has {name: value} and, for each parameter that stands for a stored result, the name of that result.
    """
    used_names = {*whole, *names.values()}
    stored: dict[int, Expr] = {}
    stored_names: dict[Var, str] = {}
    programs: list[tuple[dict[str, Expr], dict[Var, str]]] = []
    for name, value in whole.items():
        (rewritten,) = rewrite_all((value,), lambda _: None, dict(stored))
        programs.append(({name: rewritten}, {v: n for v, n in stored_names.items() if v in rewritten.free}))
        if isinstance(value, Call):
            param = var(free_name(name, used_names), value.tensor)
            stored[id(value)], stored_names[param] = param, name
    return programs if any(reads for _, reads in programs) else []


def _reads_blocks(subblock: Subblock, parts: Mapping[str, Part]) -> bool:
    """True if the earlier results that a subblock reads are read within the block, and not in its halo."""
    params = [p for p in subblock.program.inputs if p.name in subblock.results]
    read = [(parts[d], i) for p in params for d, i in p.type.dims.items if d in parts]
    return all(Interval(0, block.size).covers(i) for block, i in read)


def _interior(
    part: Decomposition, read_intervals: Sequence[Interval], condition_reach: Interval | None, bounds: Iterable[int]
) -> Interval:
    """The local points whose inputs all lie in the block, on every device; the whole block where strips would cover
    more than half of it.

    `read_intervals` are the local intervals that the block reads of each field. `bounds` are coordinates of the whole
    at which conditions change: those near an end of a block are put into a strip, so that the interior has none;
    `condition_reach` is the interval of coordinates that the block compares (None: no conditions).
    """
    size, smallest_block = part.size, min(len(block) for block in part.blocks())
    low = max([0, *(-i.start for i in read_intervals)])
    high = size - smallest_block + max([0, *(i.stop - size for i in read_intervals)])
    if condition_reach is not None:
        for bound in (bound - part.start(k) for bound in bounds for k in range(part.parts)):
            if 4 * bound <= size:
                low = max(low, bound - condition_reach.start)
            elif 4 * (size - bound) <= size:
                high = max(high, condition_reach.stop - bound)
    return Interval(low, size - high) if 2 * (low + high) <= size else Interval(0, size)


def _divided(interiors: Mapping[str, Interval], sizes: Mapping[str, int]) -> list[Dims]:
    """Divides a block into strips and the interior: along the first dim two strips, then what remains along the next
    dim.

    The result is empty if no dim has a strip; otherwise the interior comes last.

    >>> for dims in _divided({"I": Interval(1, 8), "J": Interval(2, 6)}, {"I": 8, "J": 8}):
    ...     print(dims)
    I[0:1]
    I[1:8], J[0:2]
    I[1:8], J[6:8]
    I[1:8], J[2:6]
    """
    parts: list[Dims] = []
    remaining = Dims()
    for dim, interior in interiors.items():
        strips = [Interval(0, interior.start), Interval(interior.stop, sizes[dim])]
        parts += [remaining.with_interval(dim, strip) for strip in strips if strip]
        if any(strips):
            remaining = remaining.with_interval(dim, interior)
    return [*parts, remaining] if parts else []


def _subblock(
    program: Fencil, parts: Mapping[str, Part], names: Mapping[tuple[str, Frame], str], wide: Mapping[str, Interval],
    dims: Dims, condition_points: Mapping[str, Sequence[Interval]], whole: Mapping[str, Expr],
    stored: Mapping[Var, str],
) -> Subblock:  # fmt: skip
    """The program of one part of every block, built twice: to measure the boxes of its inputs, and then on these.

    `dims` is the part, along the dims that are cut; `whole` its results. `condition_points` has by dim the coordinates
    of the part on each device, so that conditions that hold at all or none of them are decided. `stored` maps
    parameters that stand for earlier results to the names of these.
    """
    used_names = {*(p.name for p in program.results), *names.values()}
    measuring = Localiser(parts, lambda _, dim: wide[dim], names, set(used_names), condition_points=condition_points)
    boxes = _read(_stages(program, whole, measuring, dims))

    def box(name: str, dim: str) -> Interval:
        return boxes[name][dim] if name in boxes else Interval(0, parts[dim].size)

    final = Localiser(parts, box, names, set(used_names), condition_points=condition_points)
    (stage,) = _stages(program, whole, final, dims)
    results = {param.name: stored[v] for (v, _), param in final.views.items() if v in stored and param in stage.inputs}
    return Subblock(dims, stage, {d: v for d, v in final.positions.items() if v in stage.inputs}, results)


def _united(boxes_by_name: Mapping[str, Dims], view_names: Mapping[str, str]) -> dict[str, Dims]:
    """The hull of the boxes of all parameters that `view_names` maps to one name, by that name."""
    boxes: dict[str, Dims] = {}
    for name, dims in boxes_by_name.items():
        view = view_names.get(name, name)
        boxes[view] = Dims(tuple((d, i | boxes[view][d]) for d, i in dims.items)) if view in boxes else dims
    return boxes


def _stages(
    program: Fencil, whole: Mapping[str, Expr], localiser: Localiser, region: Dims = WHOLE
) -> tuple[Fencil, ...]:
    """The programs that a device runs in order: one for each level of distributed folds, and the last one for the
    results.

    Results are on the block, or along the dims of `region` on that part of it.
    """
    parts = localiser.parts
    values = {name: localiser.local(value) for name, value in whole.items()}
    levels: dict[int, list[tuple[Var, Expr]]] = {}
    for fold in localiser.folds:
        levels.setdefault(fold.level, []).append((fold.param, fold.partial))
    final_level = 1 + max(levels, default=-1)
    for p in (p for p in program.results if p.name in whole):
        block_dims = ((d, Interval(0, parts[d].size) if d in parts else i) for d, i in p.type.dims.items)
        dims = Dims(tuple((d, region.get(d) or i) for d, i in block_dims))
        levels.setdefault(final_level, []).append((var(p.name, p.type.on(dims), p.span), values[p.name]))
    return tuple(_stage(program, levels[k], localiser, k < final_level) for k in range(final_level + 1))


def _stage(program: Fencil, outputs: Sequence[tuple[Var, Expr]], localiser: Localiser, is_fold_stage: bool) -> Fencil:
    """One program with these outputs, and the views, positions, tables and earlier folds that they read as its
    inputs.
    """
    free = frozenset[Var]().union(*(e.free for _, e in outputs))
    inputs = [v for v in dict.fromkeys([*localiser.views.values(), *localiser.positions.values()]) if v in free]
    inputs += [t.param for t in localiser.tables.values() if t.param in free]
    inputs += [f.param for f in localiser.folds if f.param in free]
    name = f"folds_of_{program.name}" if is_fold_stage else program.name
    return fencil(name, [*(p for p, _ in outputs), *inputs], [closure(p, e) for p, e in outputs], program.span)


def _read(stages: Sequence[Fencil]) -> dict[str, Dims]:
    """The box of each parameter that the stages read, by name.

    The last stage is asked for its results, each earlier one for the folds that later stages read of it.
    """
    boxes: dict[str, Dims] = {}
    for stage in reversed(stages):
        needed = {p.name: dict(boxes[p.name].items) for p in stage.results if p.name in boxes}
        for name, domain in domains(stage, needed or None, boxes=True).params.items():
            if domain:
                hull = domain.hull
                boxes[name] = Dims(tuple((d, i | boxes[name][d]) for d, i in hull.items)) if name in boxes else hull
    return boxes


def _merged(localiser: Localiser) -> dict[str, str]:
    """Names of views that can share one array, each mapped to the first of them.

    A field read in several frames (periodic boundaries) needs one array if the frames are at least its extent apart, so
    that no local position holds two of its points.
    """
    view_names: dict[str, str] = {}
    fields: dict[Var, list[tuple[Frame, Var]]] = {}
    for (field, frame), param in localiser.views.items():
        fields.setdefault(field, []).append((frame, param))
    for field, views in fields.items():
        offsets = _offsets([frame for frame, _ in views], field, localiser.parts)
        if all(b - a >= len(field.type.dims[d]) for d, each in offsets.items() for a, b in pairwise(each)):
            view_names.update((param.name, views[0][1].name) for _, param in views)
    return view_names


def _offsets(frames: Sequence[Frame], field: Var, parts: Mapping[str, Part]) -> dict[str, tuple[int, ...]]:
    have = [d for d in field.type.dims if d in parts]
    return {d: tuple(sorted({dict(frame).get(d, 0) for frame in frames})) for d in have}


def _views(localiser: Localiser) -> list[View]:
    """One `View` per parameter, with the offsets of all frames in which its field is read."""
    by_name: dict[str, list[tuple[Var, Frame, Var]]] = {}
    for (field, frame), param in localiser.views.items():
        by_name.setdefault(param.name, []).append((field, frame, param))
    return [
        View(members[0][2], members[0][0], _offsets([frame for _, frame, _ in members], members[0][0], localiser.parts))
        for members in by_name.values()
    ]
