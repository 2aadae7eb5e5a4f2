"""The program that every device runs on its block: the whole one, in coordinates that count from the block's start.

Where the whole program depends on where a point is (a boundary, a part that is written, a coordinate), the local one
asks the coordinate, `I_at`; what lies outside of the whole interval is computed too, and nobody reads it. A shift
across more than half of the interval, as of periodic boundaries, is no halo: the operand is evaluated in another
*frame*, in which point p is the whole's p + offset, and what it reads comes from the device that has it. A fold along a
distributed dim ends a stage: each device folds its block, the devices' results are combined, and the next stage has
what came of it as a parameter.

>>> import tensorir as ti
>>> from tensorir.distribution.decomposition import Decomposition
>>> f = ti.parse("f(y: tensor<float, I[1:7]>, x: tensor<float, I[0:8]>) { y ← ⟪I, 1⟫(x) - ⟪I, -1⟫(x); }")
>>> print(localised(f, {"I": Decomposition("I", "px", Interval(0, 8), 2)}).stages[0])
f(y: tensor<float, I[0:4]>, x: tensor<float, I[-1:5]>) {
  y ← ⟪I, 1⟫(x) - ⟪I, -1⟫(x);
}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from numpy.typing import NDArray

from tensorir.analysis.domains import domains
from tensorir.distribution.local_numbers import LocalMesh, LocalTable, local_mesh
from tensorir.distribution.localising import Fold, Frame, Localiser, far
from tensorir.distribution.localising_regions import written_out
from tensorir.distribution.refusals import refuse_undistributable
from tensorir.distribution.subdomains import Part, blocks_of
from tensorir.distribution.whole_results import whole_results
from tensorir.ir.build import closure, fencil, var
from tensorir.ir.nodes import Call, Expr, Fencil, Var
from tensorir.ir.rewrite import postorder
from tensorir.ir.types import Dims, Interval

__all__ = ["Combined", "Localised", "View", "localised"]


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
    """What each device folded of its block, and how the results of all devices are combined."""

    param: Var
    """In the stages after it."""
    op: str
    dim: str
    level: int
    """The stage that gives it."""


@dataclass(frozen=True, slots=True)
class Localised:
    """What a device runs: programs one after the other, each with what was folded by those before it."""

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
    """The program of a block, or of a part of a mesh with these tables; raises D04 for what cannot be distributed."""
    whole = whole_results(written_out(program, list(parts)))
    refuse_undistributable(whole.values(), parts)
    mesh = local_mesh(list(whole.values()), parts, tables or {})
    places = {} if mesh is None else {d: mesh.whole(d) for d in mesh.numbers}
    # first on intervals that are wide enough for anything, to see what is read, and then on that
    shifts = [n for n in postorder(*whole.values()) if isinstance(n, Call) and n.op == "cartesian_shift"]
    reach = 1 + sum(abs(n.static.offset) for n in shifts if n.static.dim in parts and not far(n, parts))
    wide = {**{d: Interval(-reach, p.size + reach) for d, p in blocks_of(parts).items()}, **places}
    first = Localiser(parts, lambda _, dim: wide[dim], {}, {p.name for p in program.results}, mesh)
    read = _read(_stages(program, whole, first))
    merged = _merged(first)
    boxes: dict[str, Dims] = {}
    for name, dims in read.items():
        own = merged.get(name, name)
        boxes[own] = Dims(tuple((d, i | boxes[own][d]) for d, i in dims.items)) if own in boxes else dims

    def box(name: str, dim: str) -> Interval:
        if dim in places:
            return places[dim]
        block = Interval(0, parts[dim].size)
        return boxes[name][dim] | block if name in boxes else block

    names = {(v.name, frame): merged.get(own.name, own.name) for (v, frame), own in first.views.items()}
    second = Localiser(parts, box, names, {p.name for p in program.results}, mesh, first.tables)
    stages = _stages(program, whole, second)
    inputs = {p.name for stage in stages for p in stage.inputs}
    return Localised(
        program, parts, stages, tuple(v for v in _views(second) if v.param.name in inputs),
        {d: v for d, v in second.positions.items() if v.name in inputs},
        tuple(Combined(f.param, f.op, f.dim, f.level) for f in second.folds), whole,
        mesh, tuple(t for t in second.tables.values() if t.param.name in inputs),
    )  # fmt: skip


def _stages(program: Fencil, whole: Mapping[str, Expr], local: Localiser) -> tuple[Fencil, ...]:
    """A program for each round of folds, and the last one for the results."""
    parts = local.parts
    made = {name: local.local(value) for name, value in whole.items()}
    levels: dict[int, list[tuple[Var, Expr]]] = {}
    for fold in local.folds:
        levels.setdefault(fold.level, []).append((_result(fold), fold.partial))
    last = 1 + max(levels, default=-1)
    for p in program.results:
        dims = Dims(tuple((d, Interval(0, parts[d].size) if d in parts else i) for d, i in p.type.dims.items))
        levels.setdefault(last, []).append((var(p.name, p.type.on(dims), p.span), made[p.name]))
    return tuple(_stage(program, levels[k], local, k < last) for k in range(last + 1))


def _result(fold: Fold) -> Var:
    """What a stage gives of a fold has the name that later stages know it by."""
    return fold.param


def _stage(program: Fencil, outputs: Sequence[tuple[Var, Expr]], local: Localiser, folds: bool) -> Fencil:
    free = frozenset[Var]().union(*(e.free for _, e in outputs))
    given = [v for v in dict.fromkeys([*local.views.values(), *local.positions.values()]) if v in free]
    given += [t.param for t in local.tables.values() if t.param in free]
    given += [f.param for f in local.folds if f.param in free]
    name = f"folds_of_{program.name}" if folds else program.name
    return fencil(name, [*(p for p, _ in outputs), *given], [closure(p, e) for p, e in outputs], program.span)


def _read(stages: Sequence[Fencil]) -> dict[str, Dims]:
    """By name, the hull of what is read of each parameter for the blocks of the results."""
    read: dict[str, Dims] = {}
    for stage in reversed(stages):
        asked = {p.name: dict(read[p.name].items) for p in stage.results if p.name in read}
        for name, points in domains(stage, asked or None, boxes=True).params.items():
            if points:
                hull = points.hull
                read[name] = Dims(tuple((d, i | read[name][d]) for d, i in hull.items)) if name in read else hull
    return read


def _merged(local: Localiser) -> dict[str, str]:
    """Views that are one: those of a field in frames in which no point of it stands where another does."""
    found: dict[str, str] = {}
    fields: dict[Var, list[tuple[Frame, Var]]] = {}
    for (field, frame), own in local.views.items():
        fields.setdefault(field, []).append((frame, own))
    for field, some in fields.items():
        offsets = _offsets([frame for frame, _ in some], field, local.parts)
        if all(b - a >= len(field.type.dims[d]) for d, each in offsets.items() for a, b in pairwise(each)):
            found.update((own.name, some[0][1].name) for _, own in some)
    return found


def _offsets(frames: Sequence[Frame], field: Var, parts: Mapping[str, Part]) -> dict[str, tuple[int, ...]]:
    have = [d for d in field.type.dims if d in parts]
    return {d: tuple(sorted({dict(frame).get(d, 0) for frame in frames})) for d in have}


def _views(local: Localiser) -> list[View]:
    found: dict[str, list[tuple[Var, Frame, Var]]] = {}
    for (field, frame), own in local.views.items():
        found.setdefault(own.name, []).append((field, frame, own))
    return [
        View(some[0][2], some[0][0], _offsets([frame for _, frame, _ in some], some[0][0], local.parts))
        for some in found.values()
    ]
